use super::*;

fn identity() -> ClientIdentity {
    ClientIdentity { name: "our-host".into(), version: "1.0.0".into(), title: None }
}

#[test]
fn meta_01_to_06_every_request_says_who_asks() {
    let features = ClientFeatures { roots: true, elicitation_form: true, ..ClientFeatures::default() };
    let members = envelope(ProtocolVersion::V2026_07_28, features, &identity(), Some("warning"));
    let read: serde_json::Value = serde_json::from_str(&format!("{{{members}}}")).unwrap();
    assert_eq!(
        read,
        serde_json::json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "our-host", "version": "1.0.0"},
            "io.modelcontextprotocol/clientCapabilities": {"roots": {}, "elicitation": {"form": {}}},
            "io.modelcontextprotocol/logLevel": "warning",
        })
    );
    let silent = envelope(ProtocolVersion::V2026_07_28, ClientFeatures::default(), &identity(), None);
    assert!(silent.contains(r#""io.modelcontextprotocol/clientCapabilities":{}"#), "META-02");
    assert!(!silent.contains("logLevel"), "META-06: absent means silence");
}

#[test]
fn meta_14_callers_cannot_override_protocol_keys() {
    let given = r#""a":1,"io.modelcontextprotocol/protocolVersion":"1999","progressToken":"x","b":{"progressToken":2}"#;
    assert_eq!(callers_meta(given), r#""a":1,"b":{"progressToken":2}"#);
    let escaped = r#""io.modelcontextprotocol\/protocolVersion":"1999""#;
    assert_eq!(callers_meta(escaped), "", "the key counts, not how it is written");
    assert_eq!(callers_meta(r#""traceparent":"00-x""#), r#""traceparent":"00-x""#);
}

#[test]
fn mrtr_10_result_types() {
    assert_eq!(read_result(r#"{"content":[]}"#), ResultKind::Complete, "absent means complete");
    assert_eq!(read_result(r#"{"resultType":"complete"}"#), ResultKind::Complete);
    for broken in [
        r#"{"resultType":"input_required"}"#,
        r#"{"resultType":"input_required","requestState":7}"#,
        r#"{"resultType":"input_required","inputRequests":[]}"#,
        r#"{"resultType":"input_required","inputRequests":{"a":{"method":"files/delete"}}}"#,
        r#"{"resultType":"input_required","inputRequests":{"a":{}}}"#,
        r#"{"resultType":"surprise"}"#,
        r#"{"resultType":null}"#,
        "[]",
    ] {
        assert!(matches!(read_result(broken), ResultKind::Invalid(_)), "{broken}");
    }
}

#[test]
fn mrtr_04_05_state_and_keys_are_echoed_byte_for_byte() {
    let text = r#"{"resultType":"input_required","inputRequests":{"log\u0069n":{"method":"roots/list"}},
        "requestState":" op\u0061que\/== "}"#;
    let ResultKind::InputRequired(required) = read_result(text) else { panic!("{text}") };
    let members = retry_members(&required, &[r#"{"roots":[]}"#.to_owned()]);
    assert_eq!(members, r#""inputResponses":{"log\u0069n":{"roots":[]}},"requestState":" op\u0061que\/== ""#);
}

#[test]
fn mrtr_06_no_state_in_no_state_out() {
    let text = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}}}"#;
    let ResultKind::InputRequired(required) = read_result(text) else { panic!("{text}") };
    assert!(!retry_members(&required, &["{}".to_owned()]).contains("requestState"));
    let only_state = InputRequired { requests: Vec::new(), state: Some("\"s\"".into()) };
    assert_eq!(retry_members(&only_state, &[]), r#""requestState":"s""#);
}

#[test]
fn cache_03_04_hints() {
    for (text, millis, public) in [
        (r#"{"ttlMs":5000,"cacheScope":"public"}"#, 5_000, true),
        (r#"{"ttlMs":0}"#, 0, false),
        (r#"{"ttlMs":-3,"cacheScope":"shared"}"#, 0, false),
        (r#"{"ttlMs":"5000"}"#, 0, false),
        (r#"{"ttlMs":1e300}"#, LONGEST_FRESH, false),
        ("{}", 0, false),
    ] {
        let hint = CacheHint::read(text);
        assert_eq!((hint.fresh_for, hint.public), (Duration::from_millis(millis), public), "{text}");
    }
}

/// mcp:ERA-20
#[test]
fn era_20_discover_result_becomes_an_introduction() {
    let text = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},
        "instructions":"Be\u200b kind","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"1"}}}"#;
    let discovery = Discovery::read(text).unwrap();
    let introduction = discovery.introduction(ProtocolVersion::V2026_07_28);
    assert_eq!(discovery.supported, ["2026-07-28"]);
    assert!(introduction.capabilities.tools_list_changed);
    assert_eq!(introduction.server_name.as_deref(), Some("s"));
    assert_eq!(introduction.instructions.as_deref(), Some("Be kind"));
    for other in [r#"{"tools":[]}"#, r#"{"supportedVersions":"2026-07-28","capabilities":{}}"#, "[]", "null"]
    {
        assert!(Discovery::read(other).is_none(), "{other}");
    }
}

fn rpc(code: i64, data: &str) -> RpcError {
    let data = serde_json::value::RawValue::from_string(data.to_owned()).unwrap();
    RpcError { code, message: "no".into(), data: Some(Arc::from(data)) }
}

#[test]
fn missing_capability_is_named() {
    let error = rpc(-32021, r#"{"requiredCapabilities":{"elicitation":{"url":{}},"sampling":{}}}"#);
    let typed = typed_error(&error, "tools/call").unwrap();
    assert_eq!(typed.code(), ErrorCode::CapabilityMissing);
    assert!(typed.message().contains("elicitation.url, sampling"), "{}", typed.message());
    assert_eq!(typed.facts().rpc_code, Some(-32021));
    assert!(typed_error(&rpc(-32001, "{}"), "tools/call").is_none(), "-32001 is just an error here");
}

/// mcp:SUB-01 mcp:TASK-15
#[test]
fn sub_01_task_15_filter_round_trip() {
    let filter = ListenFilter {
        tools: true,
        uris: vec!["file:///a\"b".into()],
        tasks: vec!["t1".into(), "t2".into()],
        ..ListenFilter::default()
    };
    let members = filter.to_members();
    assert_eq!(
        members,
        r#""notifications":{"toolsListChanged":true,"resourceSubscriptions":["file:///a\"b"],"taskIds":["t1","t2"]}"#
    );
    let object = format!("{{{members}}}");
    let [notifications] = json_scan::pick(&object, ["notifications"]);
    assert_eq!(ListenFilter::read(notifications.unwrap()), filter);
    assert!(ListenFilter::read("7").is_empty());
}
