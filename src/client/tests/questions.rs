use super::*;
use crate::error::Delivery;

fn request(id: &str, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// The answer to a request of the server, by its id.
async fn answer(stage: &mut Stage, id: &str) -> Value {
    let heard = stage.peer.next().await;
    assert_eq!(heard.0["id"], id, "{}", heard.0);
    heard.0
}

/// mcp:ELI-05
#[tokio::test(start_paused = true)]
async fn eli_01_f9_a_form_inside_a_call_stops_its_clock() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    stage.peer.send(&request("q", "elicitation/create", &form()));
    let question = stage.questions.recv().await.unwrap();
    assert_eq!(
        question.body,
        json!({
            "server": "s", "mode": "form", "message": "User name?", "requestedSchema": form()["requestedSchema"],
        })
    );
    // The call allows 60 s of silence.
    tokio::time::sleep(Duration::from_secs(5_000)).await;
    question.answer(&json!({"action": "accept", "content": {"name": "x"}}));
    let told = answer(&mut stage, "q").await;
    assert_eq!(told["result"], json!({"action": "accept", "content": {"name": "x"}}));
    stage.peer.reply(&heard, &json!({"content": []}));
    running.await.unwrap().unwrap();
}

fn refused(code: ErrorCode) -> McpError {
    McpError::new(code, "no").with(|facts| facts.delivered = Some(Delivery::Refused))
}

/// mcp:AUTH-08
#[tokio::test(start_paused = true)]
async fn oau_02_an_answer_that_wants_a_login_is_sent_after_it_and_the_call_goes_on() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    stage.peer.send(&request("q", "elicitation/create", &form()));
    let question = stage.questions.recv().await.unwrap();
    stage.transport.refuse(refused(ErrorCode::AuthRequired));
    // The call allows 60 s of silence; people's time does not count.
    stage.transport.have_person(Duration::from_secs(240));
    question.answer(&json!({"action": "accept", "content": {"name": "x"}}));
    assert_eq!(answer(&mut stage, "q").await["result"]["content"]["name"], "x");
    stage.peer.reply(&heard, &json!({"content": []}));
    running.await.unwrap().unwrap();
    assert!(stage.listener.all().contains(&"changed Tools".to_owned()), "as after every login");
}

#[tokio::test(start_paused = true)]
async fn pro_06_a_call_whose_question_cannot_be_answered_fails_at_once() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let running = call(&client);
    stage.peer.expect("tools/call").await;
    stage.peer.send(&request("q", "elicitation/create", &form()));
    let question = stage.questions.recv().await.unwrap();
    stage.transport.refuse(refused(ErrorCode::HttpStatus));
    let started = tokio::time::Instant::now();
    question.answer(&json!({"action": "decline"}));
    let error = running.await.unwrap().unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::HttpStatus, Some(Delivery::Unknown)));
    assert!(error.message().contains("elicitation/create"), "{error}");
    let told = "ANSWER_UNDELIVERED the answer to \"elicitation/create\" could not be delivered: no";
    assert!(stage.listener.all().contains(&told.to_owned()), "{:?}", stage.listener.all());
    stage.peer.expect("notifications/cancelled").await;
}

#[tokio::test(start_paused = true)]
async fn pro_06_of_several_calls_none_is_blamed_and_what_is_lost_is_told() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let (first, second) = (call(&client), call(&client));
    let heard = [stage.peer.expect("tools/call").await, stage.peer.expect("tools/call").await];
    stage.peer.send(&request("q", "elicitation/create", &form()));
    let question = stage.questions.recv().await.unwrap();
    stage.transport.refuse(refused(ErrorCode::HttpStatus));
    question.answer(&json!({"action": "decline"}));
    stage.transport.refuse(refused(ErrorCode::AuthRequired));
    stage.peer.send(&request("p", "ping", &json!({})));
    tokio::time::sleep(Duration::from_secs(5)).await;
    for one in &heard {
        stage.peer.reply(one, &json!({"content": []}));
    }
    first.await.unwrap().unwrap();
    second.await.unwrap().unwrap();
    let lost = |told: &String| told.starts_with("ANSWER_UNDELIVERED");
    assert_eq!(stage.listener.all().iter().filter(|told| lost(told)).count(), 2);
}

/// mcp:AUTH-08
#[tokio::test(start_paused = true)]
async fn oau_02_the_last_word_of_the_handshake_is_worth_a_login() {
    for agrees in [true, false] {
        let mut stage = Stage::new(&[]);
        let opening = stage.open(Channel::Stdio, EraChoice::Auto);
        let hello = stage.peer.expect("initialize").await;
        stage.transport.refuse(refused(ErrorCode::AuthRequired));
        if agrees {
            stage.transport.have_person(Duration::from_secs(240));
        }
        stage.peer.reply(&hello, &introduction());
        if agrees {
            stage.peer.expect("notifications/initialized").await;
            opening.await.unwrap().unwrap();
        } else {
            assert_eq!(opening.await.unwrap().unwrap_err().code(), ErrorCode::AuthRequired);
        }
    }
}

/// mcp:ELI-01 mcp:ELI-08 mcp:SAMP-01
#[tokio::test(start_paused = true)]
async fn pro_04_b_160_what_was_not_declared_is_refused() {
    let mut stage = Stage::new(&[]);
    let opening = stage.open(Channel::Stdio, EraChoice::Auto);
    let hello = stage.peer.expect("initialize").await;
    assert_eq!(hello.params()["capabilities"], json!({"roots": {"listChanged": true}}), "M1");
    stage.peer.reply(&hello, &introduction());
    stage.peer.expect("notifications/initialized").await;
    let _client = opening.await.unwrap().unwrap();
    for method in ["elicitation/create", "sampling/createMessage", "tasks/get"] {
        stage.peer.send(&request("q", method, &form()));
        assert_eq!(answer(&mut stage, "q").await["error"]["code"], -32601, "{method}");
    }
    stage.peer.send(&request("r", "roots/list", &json!({})));
    assert_eq!(answer(&mut stage, "r").await["result"]["roots"][0]["uri"], "file:///home/x", "PRO-10");
}

/// mcp:ELI-03 mcp:ELI-09 mcp:ELI-11 mcp:ELI-12
#[tokio::test(start_paused = true)]
async fn eli_01_b_158_answers_are_checked_and_filled() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let _client = stage.legacy().await;
    let with_default = json!({"message": "?", "requestedSchema": {"type": "object", "properties": {
        "age": {"type": "integer", "default": 30}}}});
    for (params, said, told) in [
        (form(), json!({"action": "accept", "content": {"name": 7}}), json!({"action": "cancel"})),
        (form(), json!({"action": "accept"}), json!({"action": "cancel"})),
        (form(), json!({"action": "decline", "content": {"name": "x"}}), json!({"action": "decline"})),
        (form(), json!("what"), json!({"action": "cancel"})),
        (
            with_default,
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"age": 30}}),
        ),
    ] {
        stage.peer.send(&request("q", "elicitation/create", &params));
        stage.questions.recv().await.unwrap().answer(&said);
        assert_eq!(answer(&mut stage, "q").await["result"], told, "{said}");
    }
    stage.peer.send(&request("q", "elicitation/create", &form()));
    stage.questions.recv().await.unwrap().fail();
    assert_eq!(
        answer(&mut stage, "q").await["result"],
        json!({"action": "cancel"}),
        "a callback that throws"
    );
}

/// mcp:ELI-14 mcp:ELI-20 mcp:ELI-25 mcp:ELI-32
#[tokio::test(start_paused = true)]
async fn eli_02_14_b_155_unsafe_addresses_and_wild_forms_reach_nobody() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let _client = stage.legacy().await;
    for params in [
        json!({"mode": "url", "message": "?", "url": "http://example.com/"}),
        json!({"mode": "url", "message": "?", "url": "file:///etc/passwd"}),
        json!({"mode": "voice", "message": "?"}),
        json!({"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "object"}}}}),
        json!({"message": "?", "requestedSchema": {"type": "object", "properties": {"a\u{200b}": {"type": "string"}}}}),
        json!({"requestedSchema": {"type": "object", "properties": {}}}),
    ] {
        stage.peer.send(&request("q", "elicitation/create", &params));
        assert_eq!(answer(&mut stage, "q").await["error"]["code"], -32602, "{params}");
    }
    assert!(stage.questions.try_recv().is_err());
    let long = format!("https://b\u{fc}cher.example/{}", "a".repeat(5_000));
    let url = json!({"mode": "url", "message": "Log\u{200b} in", "url": long, "elicitationId": "e"});
    stage.peer.send(&request("q", "elicitation/create", &url));
    let question = stage.questions.recv().await.unwrap();
    assert_eq!(question.body["host"], "xn--bcher-kva.example");
    assert_eq!(question.body["warnings"][0]["code"], "punycode", "ELI-25");
    assert_eq!(question.body["message"], "Log in");
    assert!(question.body["url"].as_str().unwrap().len() > 5_000, "M4");
    question.answer(&json!({"action": "accept", "content": {"x": 1}}));
    assert_eq!(
        answer(&mut stage, "q").await["result"],
        json!({"action": "accept"}),
        "no content for a visit"
    );
}

#[tokio::test(start_paused = true)]
async fn eli_03_hooks_stand_in_front_and_behind() {
    let kinds =
        [QuestionKind::ElicitationHook, QuestionKind::Elicitation, QuestionKind::ElicitationResultHook];
    let mut stage = Stage::new(&kinds);
    let _client = stage.legacy().await;
    // The hook answers: nobody else is asked; the hook behind changes the answer.
    stage.peer.send(&request("q", "elicitation/create", &form()));
    let hook = stage.questions.recv().await.unwrap();
    assert_eq!(hook.kind, QuestionKind::ElicitationHook);
    hook.answer(&json!({"action": "accept", "content": {"name": "ci"}}));
    let after = stage.questions.recv().await.unwrap();
    assert_eq!(after.kind, QuestionKind::ElicitationResultHook);
    assert_eq!(after.body["answer"]["content"]["name"], "ci");
    after.answer(&json!({"action": "decline"}));
    assert_eq!(answer(&mut stage, "q").await["result"], json!({"action": "decline"}));
    // The hook changes the words and leaves the rest to a person.
    stage.peer.send(&request("q", "elicitation/create", &form()));
    let hook = stage.questions.recv().await.unwrap();
    hook.answer(&json!({"request": {"message": "Name, please", "server": "other"}}));
    let person = stage.questions.recv().await.unwrap();
    assert_eq!((&person.body["message"], &person.body["server"]), (&json!("Name, please"), &json!("s")));
    person.answer(&json!({"action": "accept", "content": {"name": "x"}}));
    stage.questions.recv().await.unwrap().answer(&Value::Null);
    assert_eq!(answer(&mut stage, "q").await["result"]["content"]["name"], "x");
}

#[tokio::test(start_paused = true)]
async fn eli_01_a_default_that_a_hook_changed_is_the_one_that_is_sent() {
    let mut stage = Stage::new(&[QuestionKind::ElicitationHook, QuestionKind::Elicitation]);
    let _client = stage.legacy().await;
    let schema = |default: &str| {
        let field = json!({"type": "string", "enum": ["prod", "staging"], "default": default});
        json!({"type": "object", "properties": {"env": field}})
    };
    let asked = json!({"message": "Where?", "requestedSchema": schema("prod")});
    stage.peer.send(&request("q", "elicitation/create", &asked));
    let hook = stage.questions.recv().await.unwrap();
    hook.answer(&json!({"request": {"requestedSchema": schema("staging")}}));
    let person = stage.questions.recv().await.unwrap();
    assert_eq!(person.body["requestedSchema"], schema("staging"));
    person.answer(&json!({"action": "accept", "content": {}}));
    assert_eq!(answer(&mut stage, "q").await["result"]["content"], json!({"env": "staging"}));
}

#[tokio::test(start_paused = true)]
async fn eli_04_questions_are_kept_apart_and_withdrawn() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    for id in ["1", "2"] {
        stage.peer.send(&request(id, "elicitation/create", &form()));
    }
    let (first, second) = (stage.questions.recv().await.unwrap(), stage.questions.recv().await.unwrap());
    second.answer(&json!({"action": "decline"}));
    assert_eq!(answer(&mut stage, "2").await["result"]["action"], "decline");
    // The server takes the other one back: no answer (CAN-05).
    stage.peer.notify("notifications/cancelled", &json!({"requestId": "1"}));
    stage.peer.expect_silence(Duration::from_secs(1)).await;
    assert!(first.is_withdrawn());
    // The call is given up: the question it may belong to is answered with cancel.
    let running = call(&client);
    stage.peer.expect("tools/call").await;
    stage.peer.send(&request("3", "elicitation/create", &form()));
    let third = stage.questions.recv().await.unwrap();
    running.abort();
    stage.peer.expect("notifications/cancelled").await;
    assert_eq!(answer(&mut stage, "3").await["result"], json!({"action": "cancel"}));
    assert!(third.is_withdrawn());
    // The connection ends.
    stage.peer.send(&request("4", "elicitation/create", &form()));
    let fourth = stage.questions.recv().await.unwrap();
    stage.peer.close(ErrorCode::ConnectionLost);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert!(fourth.is_withdrawn());
}

#[tokio::test(start_paused = true)]
async fn b_093_a_flood_of_questions_is_bounded() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let _client = stage.legacy().await;
    for id in 0..1_000 {
        stage.peer.send(&request(&id.to_string(), "elicitation/create", &form()));
    }
    for _ in 32..1_000 {
        assert_eq!(stage.peer.next().await.0["error"]["code"], -32603);
    }
    let mut open = 0;
    while stage.questions.try_recv().is_ok() {
        open += 1;
    }
    assert_eq!(open, 32);
}

/// mcp:SAMP-02 mcp:SAMP-10 mcp:SAMP-12
#[tokio::test(start_paused = true)]
async fn pro_12_sampling_both_ways() {
    let mut stage = Stage::new(&[QuestionKind::Sampling]);
    let _client = stage.legacy().await;
    let params = json!({
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}],
        "maxTokens": 5, "modelPreferences": {"hints": [{"name": "claude"}]}, "tools": [], "toolChoice": {"mode": "none"},
    });
    let good = json!({"role": "assistant", "content": {"type": "text", "text": "yo"}, "model": "m", "stopReason": "endTurn"});
    stage.peer.send(&request("q", "sampling/createMessage", &params));
    let question = stage.questions.recv().await.unwrap();
    assert_eq!(question.body, json!({"server": "s", "params": params}), "as sent");
    question.answer(&good);
    assert_eq!(answer(&mut stage, "q").await["result"], good);
    stage.peer.send(&request("q", "sampling/createMessage", &params));
    stage.questions.recv().await.unwrap().fail();
    assert_eq!(answer(&mut stage, "q").await["error"]["code"], -1, "SAMP-12");
    stage.peer.send(&request("q", "sampling/createMessage", &params));
    stage.questions.recv().await.unwrap().answer(&json!({"text": "yo"}));
    assert_eq!(answer(&mut stage, "q").await["error"]["code"], -32603);
    stage.peer.send(&request("q", "sampling/createMessage", &json!({"messages": []})));
    assert_eq!(answer(&mut stage, "q").await["error"]["code"], -32602);
}

/// mcp:BASE-12, mcp:STDIO-05
#[tokio::test(start_paused = true)]
async fn modern_servers_may_not_ask_by_request() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let _client = stage.modern().await;
    for method in ["elicitation/create", "ping", "roots/list", "x/y"] {
        stage.peer.send(&request("q", method, &form()));
    }
    stage.peer.expect_silence(Duration::from_secs(60)).await;
    assert!(stage.questions.try_recv().is_err());
}

fn visits(ids: &[&str]) -> Value {
    let list: Vec<Value> = ids
        .iter()
        .map(|id| json!({"mode": "url", "message": "Log in", "elicitationId": id, "url": format!("https://example.com/{id}")}))
        .collect();
    json!({ "elicitations": list })
}

/// mcp:ELI-27 mcp:ELI-28 mcp:ELI-29
#[tokio::test(start_paused = true)]
async fn cal_01_a_visit_is_asked_for_once_and_the_call_repeated() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let running = call(&client);
    let first = stage.peer.expect("tools/call").await;
    stage.peer.fail(&first, -32042, &visits(&["a"]));
    let question = stage.questions.recv().await.unwrap();
    assert_eq!((&question.body["mode"], &question.body["elicitationId"]), (&json!("url"), &json!("a")));
    // A person may take an hour; the call's own limit is a minute of silence.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    question.answer(&json!({"action": "accept"}));
    let asked = tokio::time::Instant::now();
    let second = stage.peer.expect("tools/call").await;
    assert_eq!(asked.elapsed().as_secs(), 2, "the first delay");
    assert_ne!(first.id(), second.id(), "ELI-29: a new id");
    // Still not done: the same visit is not asked for again, foreign ids mean nothing, the notice cuts the wait short.
    stage.peer.fail(&second, -32042, &visits(&["a"]));
    let waiting = tokio::time::Instant::now();
    stage.peer.notify("notifications/elicitation/complete", &json!({"elicitationId": "foreign"}));
    stage.peer.expect_silence(Duration::from_secs(5)).await;
    stage.peer.notify("notifications/elicitation/complete", &json!({"elicitationId": "a"}));
    let third = stage.peer.expect("tools/call").await;
    assert_eq!(waiting.elapsed().as_secs(), 5);
    assert!(stage.questions.try_recv().is_err());
    stage.peer.reply(&third, &json!({"content": []}));
    running.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn cal_01_at_most_three_repetitions() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let running = call(&client);
    let started = tokio::time::Instant::now();
    for repetition in 0..4 {
        let heard = stage.peer.expect("tools/call").await;
        stage.peer.fail(&heard, -32042, &visits(&["a"]));
        if repetition == 0 {
            stage.questions.recv().await.unwrap().answer(&json!({"action": "accept"}));
        }
    }
    let error = running.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::ElicitationLimit);
    assert_eq!(started.elapsed().as_secs(), 77, "2 + 15 + 60 s");
}

/// mcp:ELI-29
#[tokio::test(start_paused = true)]
async fn cal_01_a_declined_visit_ends_the_call() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    stage.peer.fail(&heard, -32042, &visits(&["a", "b"]));
    stage.questions.recv().await.unwrap().answer(&json!({"action": "decline"}));
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::ElicitationDeclined);
    assert!(stage.questions.try_recv().is_err(), "the second one is not asked for");
}

/// mcp:ELI-29
#[tokio::test(start_paused = true)]
async fn eli_29_without_the_capability_it_is_just_an_error() {
    let mut stage = Stage::new(&[]);
    let client = stage.legacy().await;
    let running = call(&client);
    let heard = stage.peer.expect("tools/call").await;
    stage.peer.fail(&heard, -32042, &visits(&["a"]));
    let error = running.await.unwrap().unwrap_err();
    assert_eq!((error.code(), error.facts().rpc_code), (ErrorCode::RpcError, Some(-32042)));
}

#[tokio::test(start_paused = true)]
async fn eli_04_closing_withdraws_questions_and_answers_cancel() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let client = stage.legacy().await;
    let running = call(&client);
    stage.peer.expect("tools/call").await;
    stage.peer.send(&request("q", "elicitation/create", &form()));
    let question = stage.questions.recv().await.unwrap();
    let reason = McpError::new(ErrorCode::ManagerClosed, "closed");
    client.close(crate::transport::CloseMode::Graceful, reason).await;
    assert!(question.is_withdrawn());
    assert_eq!(answer(&mut stage, "q").await["result"], json!({"action": "cancel"}));
    assert_eq!(running.await.unwrap().unwrap_err().code(), ErrorCode::ManagerClosed);
}

/// mcp:TASKL-01 mcp:TASKL-10 mcp:TASKL-15
#[tokio::test(start_paused = true)]
async fn taskl_15_a_form_that_runs_as_a_task_of_ours() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let opening = stage.open(Channel::Stdio, EraChoice::Auto);
    let hello = stage.peer.expect("initialize").await;
    let requests = json!({"elicitation": {"create": {}}});
    assert_eq!(
        hello.params()["capabilities"]["tasks"],
        json!({"list": {}, "cancel": {}, "requests": requests}),
        "TASKL-01"
    );
    stage.peer.reply(&hello, &introduction());
    stage.peer.expect("notifications/initialized").await;
    let client = Arc::new(opening.await.unwrap().unwrap());
    let mut params = form();
    params["task"] = json!({"ttl": 60_000});
    let begin = async |stage: &mut Stage| {
        stage.peer.send(&request("q", "elicitation/create", &params));
        let created = answer(stage, "q").await["result"]["task"].clone();
        assert_eq!((&created["status"], &created["ttl"]), (&json!("working"), &json!(60_000)));
        assert_eq!(created["taskId"].as_str().map(str::len), Some(32));
        created["taskId"].clone()
    };
    let id = begin(&mut stage).await;
    let of = |id: &Value| json!({"taskId": id});
    // The result is waited for, however long people take.
    stage.peer.send(&request("r", "tasks/result", &of(&id)));
    let question = stage.questions.recv().await.unwrap();
    tokio::time::sleep(Duration::from_secs(5_000)).await;
    stage.peer.send(&request("g", "tasks/get", &of(&id)));
    assert_eq!(answer(&mut stage, "g").await["result"]["status"], "working");
    question.answer(&json!({"action": "accept", "content": {"name": "x"}}));
    let result = answer(&mut stage, "r").await["result"].clone();
    assert_eq!(result["content"], json!({"name": "x"}));
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], of(&id), "TASKL-10");
    stage.peer.send(&request("l", "tasks/list", &json!({})));
    assert_eq!(answer(&mut stage, "l").await["result"]["tasks"][0]["status"], "completed");
    // What has ended stays so; what nobody knows is told.
    for (method, task) in [("tasks/cancel", &id), ("tasks/get", &json!("x")), ("tasks/result", &json!("x"))] {
        stage.peer.send(&request("e", method, &of(task)));
        assert_eq!(answer(&mut stage, "e").await["error"]["code"], -32602, "{method}");
    }
    // Cancelled: the person is not asked any more (ELI-04), and whoever waits for the result hears it.
    let id = begin(&mut stage).await;
    let question = stage.questions.recv().await.unwrap();
    stage.peer.send(&request("r", "tasks/result", &of(&id)));
    stage.peer.send(&request("c", "tasks/cancel", &of(&id)));
    let mut told = [stage.peer.next().await.0, stage.peer.next().await.0];
    told.sort_by_key(|frame| frame["id"].to_string());
    assert_eq!(told[0]["result"]["status"], "cancelled");
    assert_eq!(told[1]["error"]["code"], -1);
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(question.is_withdrawn());
    client.close(crate::transport::CloseMode::Fast, McpError::new(ErrorCode::ManagerClosed, "bye")).await;
}

/// mcp:TASKL-15
#[tokio::test(start_paused = true)]
async fn taskl_15_tasks_of_ours_are_bounded() {
    let mut stage = Stage::new(&[QuestionKind::Elicitation]);
    let _client = stage.legacy().await;
    let mut params = form();
    params["task"] = json!({});
    let mut open = Vec::new();
    for number in 0..70 {
        stage.peer.send(&request("q", "elicitation/create", &params));
        let told = answer(&mut stage, "q").await;
        assert_eq!(told.get("result").is_some(), number < 64, "{number}");
        if number < 64 {
            open.push(stage.questions.recv().await.unwrap());
        }
    }
    assert_eq!(open.len(), 64);
}
