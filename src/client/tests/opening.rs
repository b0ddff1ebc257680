use super::*;

const REFUSED: i64 = -32601;

#[tokio::test(start_paused = true)]
async fn pro_02_stdio_greets_with_the_handshake_and_nothing_else() {
    let mut stage = Stage::new(&[]);
    let client = stage.legacy().await;
    assert_eq!(client.negotiated().version, ProtocolVersion::V2025_11_25);
    assert_eq!(stage.transport.version(), Some(ProtocolVersion::V2025_11_25));
    stage.peer.expect_silence(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn pro_03_stdio_asks_for_the_other_era_on_the_same_process() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Stdio, EraChoice::Auto);
    let hello = stage.peer.expect("initialize").await;
    stage.peer.fail(&hello, REFUSED, &Value::Null);
    let probe = stage.peer.expect("server/discover").await;
    assert_eq!(meta_of(&probe)[VERSION], "2026-07-28", "META-01");
    assert_eq!(
        meta_of(&probe)["io.modelcontextprotocol/clientCapabilities"],
        json!({"roots": {}}),
        "META-02, M1: nothing that nobody serves"
    );
    stage.peer.reply(&probe, &json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}));
    let client = opening.await.unwrap().unwrap();
    assert_eq!(client.era(), Era::Modern);
    stage.peer.expect_silence(Duration::from_secs(60)).await;

    // Remembered: the next opening asks for that era at once (mcp:ERA-13).
    let _again = stage.open(Channel::Stdio, EraChoice::Auto);
    stage.peer.expect("server/discover").await;
}

#[tokio::test(start_paused = true)]
async fn era_14_a_contradicted_verdict_is_dropped() {
    let mut stage = Stage::new(&[]);
    stage.verdicts.remember(ProtocolVersion::V2026_07_28);
    let opening = stage.open(Channel::Stdio, EraChoice::Auto);
    let probe = stage.peer.expect("server/discover").await;
    stage.peer.fail(&probe, -32602, &Value::Null);
    let hello = stage.peer.expect("initialize").await;
    stage.peer.reply(&hello, &introduction());
    stage.peer.expect("notifications/initialized").await;
    assert_eq!(opening.await.unwrap().unwrap().era(), Era::Legacy);
    assert_eq!(stage.verdicts.recall().map(|verdict| verdict.version), Some(ProtocolVersion::V2025_11_25));
}

#[tokio::test(start_paused = true)]
async fn era_19_a_server_of_neither_era_is_explained_by_its_own_words() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Stdio, EraChoice::Auto);
    let hello = stage.peer.expect("initialize").await;
    stage.peer.fail(&hello, -32000, &Value::Null);
    let probe = stage.peer.expect("server/discover").await;
    stage.peer.fail(&probe, -32000, &Value::Null);
    let error = opening.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConnectFailed);
    assert_eq!(error.facts().rpc_code, Some(-32000));
}

#[tokio::test(start_paused = true)]
async fn life_11_a_refusal_that_names_older_versions_is_met_with_one_of_them() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Http, EraChoice::Legacy);
    let first = stage.peer.expect("initialize").await;
    let data = json!({"supported": ["2024-11-05", "2025-03-26"], "requested": "2025-11-25"});
    stage.peer.fail(&first, -32602, &data);
    let second = stage.peer.expect("initialize").await;
    assert_ne!(first.id(), second.id());
    assert_eq!(second.params()["protocolVersion"], "2025-03-26", "mcp:LIFE-11");
    // Once only.
    stage.peer.fail(&second, -32602, &data);
    let error = opening.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.facts().rpc_code), (ErrorCode::ConnectFailed, Some(-32602)));
    stage.peer.expect_silence(Duration::from_secs(60)).await;

    // Who speaks the newer era too, or none of ours, is not asked again.
    for supported in [json!(["2026-07-28", "2025-03-26"]), json!(["1.0"]), json!("2025-03-26"), json!(null)] {
        let opening = stage.open(Channel::Http, EraChoice::Legacy);
        let hello = stage.peer.expect("initialize").await;
        stage.peer.fail(&hello, -32602, &json!({ "supported": supported }));
        assert_eq!(opening.await.unwrap().unwrap_err().code(), ErrorCode::ConnectFailed, "mcp:LIFE-11");
        stage.peer.expect_silence(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn d11_over_http_only_an_answer_selects_the_old_era() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Http, EraChoice::Auto);
    stage.peer.expect("server/discover").await;
    // A cold start: no answer within the probe's limit.
    let error = opening.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ConnectTimeout);
    assert_eq!(stage.verdicts.recall(), None);
    stage.peer.expect_silence(Duration::from_secs(60)).await;

    let opening = stage.open(Channel::Http, EraChoice::Auto);
    stage.peer.expect("server/discover").await;
    stage.peer.close(ErrorCode::ConnectFailed);
    assert_eq!(opening.await.unwrap().unwrap_err().code(), ErrorCode::ConnectFailed);
}

#[tokio::test(start_paused = true)]
async fn era_09_over_http_an_error_of_an_old_server_leads_to_the_handshake() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Http, EraChoice::Auto);
    let probe = stage.peer.expect("server/discover").await;
    stage.peer.fail(&probe, -32000, &Value::Null);
    let hello = stage.peer.expect("initialize").await;
    stage.peer.reply(&hello, &introduction());
    stage.peer.expect("notifications/initialized").await;
    assert_eq!(opening.await.unwrap().unwrap().era(), Era::Legacy);
}

#[tokio::test(start_paused = true)]
async fn era_08_one_retry_at_a_version_that_the_server_names() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Http, EraChoice::Auto);
    let data = json!({"supported": ["2026-07-28"], "requested": "2026-07-28"});
    let first = stage.peer.expect("server/discover").await;
    stage.peer.fail(&first, -32022, &data);
    let second = stage.peer.expect("server/discover").await;
    assert_ne!(first.id(), second.id());
    stage.peer.fail(&second, -32022, &data);
    let error = opening.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::VersionUnsupported);
    assert!(error.message().contains("2026-07-28") && error.message().contains("2025-11-25"), "both lists");
}

#[tokio::test(start_paused = true)]
async fn era_18_a_pinned_era_fails_cleanly() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Stdio, EraChoice::Modern);
    let probe = stage.peer.expect("server/discover").await;
    stage.peer.fail(&probe, REFUSED, &Value::Null);
    assert_eq!(opening.await.unwrap().unwrap_err().code(), ErrorCode::VersionUnsupported);

    let opening = stage.open(Channel::Http, EraChoice::Legacy);
    let hello = stage.peer.expect("initialize").await;
    stage.peer.fail(&hello, REFUSED, &Value::Null);
    assert_eq!(opening.await.unwrap().unwrap_err().code(), ErrorCode::ConnectFailed);
    stage.peer.expect_silence(Duration::from_secs(60)).await;
}

#[tokio::test(start_paused = true)]
async fn meta_01_every_request_of_the_stateless_era_says_who_asks() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.modern_with(json!({"tools": {}, "logging": {}})).await;
    client.set_log_level(Some("warning"));
    let params = r#"{"name":"t","_meta":{"io.modelcontextprotocol/protocolVersion":"1999","own":1}}"#;
    let running = call_of(&client, "tools/call", params);
    let heard = stage.peer.expect("tools/call").await;
    let meta = meta_of(&heard);
    assert_eq!(meta[VERSION], "2026-07-28", "META-14");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "host");
    assert_eq!(
        meta["io.modelcontextprotocol/clientCapabilities"],
        json!({"roots": {}, "elicitation": {"form": {}, "url": {}}})
    );
    assert_eq!((&meta["io.modelcontextprotocol/logLevel"], &meta["own"]), (&json!("warning"), &json!(1)));
    assert_eq!(meta["progressToken"], heard.id());
    stage.peer.reply(&heard, &json!({"resultType": "complete", "content": []}));
    running.await.unwrap().unwrap();
    let last = stage.transport.mirrored().pop().unwrap();
    assert_eq!((last.method.as_str(), last.name.as_deref()), ("tools/call", Some("t")), "HDR-03, HDR-04");
    assert_eq!(last.version, Some(ProtocolVersion::V2026_07_28), "HDR-01");
}

/// mcp:TOOL-23
#[tokio::test(start_paused = true)]
async fn hdr_08_25_arguments_are_mirrored_below_every_path() {
    let mut stage = Stage::new(&[]);
    let client = stage.modern().await;
    let raw = serde_json::value::RawValue::from_string(
        json!({"name": "t", "inputSchema": {"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "none": {"type": "string", "x-mcp-header": "None"}}}})
        .to_string(),
    )
    .unwrap();
    client.learn_tools(
        &crate::protocol::tool::map_tools("s", &[&raw], &crate::protocol::classify::Classifier::default()).0,
    );
    let _running = call_of(&client, "tools/call", r#"{"name":"t","arguments":{"region":"us","none":null}}"#);
    stage.peer.expect("tools/call").await;
    let last = stage.transport.mirrored().pop().unwrap();
    assert_eq!(last.arguments, [("Region".to_owned(), "us".to_owned())], "HDR-19: null is not mirrored");
}

#[tokio::test(start_paused = true)]
async fn methods_of_the_other_era_never_reach_the_wire() {
    let mut stage = Stage::new(&[]);
    let client = stage.modern().await;
    for method in ["ping", "logging/setLevel", "resources/subscribe"] {
        let error = call_of(&client, method, "{}").await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::CapabilityMissing, "{method}");
    }
    stage.peer.expect_silence(Duration::from_secs(1)).await;
}
