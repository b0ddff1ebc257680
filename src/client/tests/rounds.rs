use super::*;

fn ask(requests: &Value, state: Option<&str>) -> Value {
    let mut result = json!({"resultType": "input_required", "inputRequests": requests});
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    result
}

fn elicit(params: &Value) -> Value {
    json!({"method": "elicitation/create", "params": params})
}

/// mcp:MRTR-02 mcp:MRTR-04 mcp:MRTR-06 mcp:MRTR-07 mcp:MRTR-09 mcp:MRTR-15 mcp:MRTR-16
#[tokio::test(start_paused = true)]
async fn mrtr_02_to_15_a_round_is_gathered_and_the_call_repeated() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation, QuestionKind::Sampling]);
    let client = stage.modern().await;
    let running = call(&client);
    let first = stage.peer.expect("tools/call").await;
    let sampling = json!({"method": "sampling/createMessage", "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}], "maxTokens": 5}});
    let requests = json!({"login": elicit(&form()), "words": sampling, "where": {"method": "roots/list"}});
    stage.peer.reply_text(
        &first,
        &format!(
            r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":" op\u0061que== "}}"#
        ),
    );
    // Both questions are open at once (MRTR-15); people may take longer than any limit of the call (F9).
    let (login, words) = (stage.questions.recv().await.unwrap(), stage.questions.recv().await.unwrap());
    assert_eq!((login.kind, words.kind), (QuestionKind::Elicitation, QuestionKind::Sampling));
    assert_eq!(login.body["server"], "s");
    tokio::time::sleep(Duration::from_secs(3_000)).await;
    let model = json!({"role": "assistant", "content": {"type": "text", "text": "yes"}, "model": "m"});
    words.answer(&model);
    login.answer(&json!({"action": "accept", "content": {"name": "octocat"}}));
    let second = stage.peer.expect("tools/call").await;
    assert_ne!(second.id(), first.id(), "MRTR-07");
    assert_eq!(second.params()["arguments"], json!({"a": 1}));
    assert_eq!(second.params()["requestState"], " opaque== ", "MRTR-04");
    assert_eq!(
        second.params()["inputResponses"],
        json!({
            "login": {"action": "accept", "content": {"name": "octocat"}},
            "words": model,
            "where": {"roots": [{"uri": "file:///home/x"}]},
        })
    );
    assert_eq!(meta_of(&second)[VERSION], "2026-07-28", "MRTR-07: complete _meta");
    assert_eq!(meta_of(&second)["progressToken"], second.id(), "MRTR-16");
    // The next round names no state: none is sent (MRTR-06), nor answers of the round before (MRTR-09).
    stage.peer.reply(&second, &ask(&json!({"again": {"method": "roots/list"}}), None));
    let third = stage.peer.expect("tools/call").await;
    assert_eq!(third.params().get("requestState"), None);
    assert_eq!(third.params()["inputResponses"].as_object().unwrap().len(), 1);
    stage.peer.reply(&third, &json!({"resultType": "complete", "content": []}));
    assert_eq!(running.await.unwrap().unwrap()["content"], json!([]));
}

/// mcp:MRTR-08 mcp:MRTR-12
#[tokio::test(start_paused = true)]
async fn mrtr_08_other_calls_carry_nothing_of_a_round() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.modern().await;
    let asking = call(&client);
    let first = stage.peer.expect("tools/call").await;
    stage.peer.reply(&first, &ask(&json!({"a": elicit(&form())}), Some("s")));
    let question = stage.questions.recv().await.unwrap();
    let other = call(&client);
    let second = stage.peer.expect("tools/call").await;
    assert!(second.params().get("requestState").is_none() && second.params().get("inputResponses").is_none());
    stage.peer.reply(&second, &json!({"content": []}));
    other.await.unwrap().unwrap();
    question.answer(&json!({"action": "decline"}));
    let third = stage.peer.expect("tools/call").await;
    assert_eq!(third.params()["inputResponses"], json!({"a": {"action": "decline"}}), "MRTR-12");
    stage.peer.reply(&third, &json!({"content": []}));
    asking.await.unwrap().unwrap();
}

/// mcp:ELI-08 mcp:MRTR-11 mcp:MRTR-12
#[tokio::test(start_paused = true)]
async fn m1_without_anybody_to_ask_the_server_hears_so_at_once() {
    let mut stage = Stage::new(&[]);
    let client = stage.modern().await;
    let running = call(&client);
    let first = stage.peer.expect("tools/call").await;
    stage.peer.reply(&first, &ask(&json!({"a": elicit(&form())}), None));
    let second = stage.peer.expect("tools/call").await;
    assert_eq!(second.params()["inputResponses"], json!({"a": {"action": "cancel"}}));
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    stage.peer.reply(&second, &ask(&json!({"a": sampling}), None));
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::ElicitationDeclined);
}

/// mcp:MRTR-13
#[tokio::test(start_paused = true)]
async fn mrtr_13_rounds_are_counted() {
    let settings = InputSettings { max_rounds: 3, ..InputSettings::default() };
    let mut stage = Stage::with(&[], settings);
    let client = stage.modern().await;
    let running = call(&client);
    for _ in 0..4 {
        let heard = stage.peer.expect("tools/call").await;
        stage.peer.reply(&heard, &ask(&json!({"a": {"method": "roots/list"}}), Some("s")));
    }
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::ElicitationLimit);
    stage.peer.expect_silence(Duration::from_secs(60)).await;
}

/// mcp:MRTR-03
#[tokio::test(start_paused = true)]
async fn mrtr_03_a_state_alone_is_polled_with_pauses() {
    let mut stage = Stage::new(&[]);
    let client = stage.modern().await;
    let running = call(&client);
    let started = tokio::time::Instant::now();
    for state in ["1", "2", "3"] {
        let heard = stage.peer.expect("tools/call").await;
        stage.peer.reply(&heard, &json!({"resultType": "input_required", "requestState": state}));
    }
    let heard = stage.peer.expect("tools/call").await;
    assert_eq!(heard.params()["requestState"], "3");
    assert!(heard.params().get("inputResponses").is_none());
    assert_eq!(started.elapsed().as_millis() / 10, 70, "100 + 200 + 400 ms");
    stage.peer.reply(&heard, &json!({"resultType": "complete"}));
    running.await.unwrap().unwrap();
}

/// mcp:MRTR-01 mcp:MRTR-10 mcp:MRTR-11 mcp:TASK-03
#[tokio::test(start_paused = true)]
async fn mrtr_01_10_what_cannot_be_read_is_an_error() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.modern().await;
    for (method, result) in [
        ("tools/list", ask(&json!({"a": {"method": "roots/list"}}), None)),
        ("tools/call", json!({"resultType": "input_required"})),
        ("tools/call", ask(&json!({}), None)),
        ("tools/call", json!({"resultType": "surprise"})),
        ("tools/call", json!({"resultType": "task", "taskId": "1"})),
        (
            "tools/call",
            ask(&json!({"a": elicit(&json!({"message": "?", "requestedSchema": {"type": "array"}}))}), None),
        ),
    ] {
        let running = call_of(&client, method, r#"{"name":"t"}"#);
        let heard = stage.peer.expect(method).await;
        stage.peer.reply(&heard, &result);
        assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::ResultInvalid, "{result}");
    }
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    let url = json!({"mode": "url", "message": "?", "url": "javascript:alert(1)"});
    stage.peer.reply(&heard, &ask(&json!({"a": elicit(&url)}), None));
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::UrlRefused);
    assert!(stage.questions.try_recv().is_err(), "MRTR-11: nobody was shown anything");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_withdraws_its_question() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.modern().await;
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    stage.peer.reply(&heard, &ask(&json!({"a": elicit(&form())}), None));
    let question = stage.questions.recv().await.unwrap();
    running.abort();
    let _ = running.await;
    assert!(question.is_withdrawn(), "ELI-04");
    stage.peer.expect_silence(Duration::from_secs(1)).await;
}

/// mcp:EXT-04
#[tokio::test(start_paused = true)]
async fn era_08_a_request_is_repeated_once_at_a_supported_version() {
    let mut stage = Stage::new(&[]);
    let client = stage.modern().await;
    let running = call(&client);
    for _ in 0..2 {
        let heard = stage.peer.expect("tools/call").await;
        stage.peer.fail(&heard, -32022, &json!({"supported": ["2026-07-28"]}));
    }
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::VersionUnsupported);
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    stage.peer.fail(&heard, -32021, &json!({"requiredCapabilities": {"sampling": {}}}));
    let error = running.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.facts().rpc_code), (ErrorCode::CapabilityMissing, Some(-32021)));
}

#[tokio::test(start_paused = true)]
async fn eli_04_the_end_of_the_connection_ends_a_call_that_waits_for_a_person() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.modern().await;
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    stage.peer.reply(&heard, &ask(&json!({"a": elicit(&form())}), None));
    let question = stage.questions.recv().await.unwrap();
    stage.peer.close(ErrorCode::ServerExited);
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::ServerExited);
    assert!(question.is_withdrawn());
}
