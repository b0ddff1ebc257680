use super::super::listen::ListenEnd;
use super::*;
use crate::protocol::stateless::ListenFilter;

const PATIENCE: Duration = Duration::from_secs(60);

fn filter() -> ListenFilter {
    ListenFilter { tools: true, uris: vec!["file:///a".into()], ..ListenFilter::default() }
}

fn listen(client: &Arc<Client>) -> (tokio::task::JoinHandle<ListenEnd>, oneshot::Receiver<ListenFilter>) {
    let client = Arc::clone(client);
    let (told, accepted) = oneshot::channel();
    let task = tokio::spawn(async move {
        client
            .listen(&filter(), PATIENCE, move |accepted| {
                let _ = told.send(accepted);
            })
            .await
    });
    (task, accepted)
}

fn of_stream(heard: &Heard, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": heard.id()});
    params
}

/// mcp:SUB-01 mcp:SUB-03 mcp:SUB-04 mcp:SUB-08 mcp:SUB-15
#[tokio::test(start_paused = true)]
async fn sub_01_to_08_a_stream_from_its_opening_to_its_end() {
    let mut stage = Stage::new(&[]);
    let client = stage.modern().await;
    let (task, accepted) = listen(&client);
    let heard = stage.peer.expect("subscriptions/listen").await;
    let wanted = json!({"toolsListChanged": true, "resourceSubscriptions": ["file:///a"]});
    assert_eq!(heard.params()["notifications"], wanted, "SUB-01");
    assert_eq!(meta_of(&heard)[VERSION], "2026-07-28");
    let agreed = of_stream(&heard, json!({"notifications": {"toolsListChanged": true}}));
    stage.peer.notify("notifications/subscriptions/acknowledged", &agreed);
    let accepted = accepted.await.unwrap();
    assert!(accepted.tools && accepted.uris.is_empty(), "SUB-03");
    // No limit of its own (SUB-15).
    tokio::time::sleep(Duration::from_secs(100_000)).await;
    stage.peer.notify("notifications/tools/list_changed", &of_stream(&heard, json!({})));
    let foreign = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 999}});
    stage.peer.notify("notifications/prompts/list_changed", &foreign);
    assert_eq!(stage.listener.all(), ["changed Tools"], "SUB-04");
    stage.peer.reply(&heard, &json!({"resultType": "complete"}));
    assert!(matches!(task.await.unwrap(), ListenEnd::Graceful));
}

/// mcp:SUB-07 mcp:SUB-09 mcp:SUB-15 mcp:SUB-17
#[tokio::test(start_paused = true)]
async fn sub_07_09_15_17_other_ends() {
    let mut stage = Stage::new(&[]);
    let client = stage.modern().await;
    let (task, _accepted) = listen(&client);
    let heard = stage.peer.expect("subscriptions/listen").await;
    stage.peer.fail(&heard, -32601, &Value::Null);
    assert!(matches!(task.await.unwrap(), ListenEnd::Refused(-32601)), "SUB-17");

    let (task, _accepted) = listen(&client);
    let started = tokio::time::Instant::now();
    let heard = stage.peer.expect("subscriptions/listen").await;
    assert!(matches!(task.await.unwrap(), ListenEnd::Unacknowledged), "SUB-15");
    assert_eq!(started.elapsed(), PATIENCE);
    let cancelled = stage.peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled.params()["requestId"], heard.id(), "SUB-07");

    let (task, accepted) = listen(&client);
    let heard = stage.peer.expect("subscriptions/listen").await;
    stage
        .peer
        .notify("notifications/subscriptions/acknowledged", &of_stream(&heard, json!({"notifications": {}})));
    accepted.await.unwrap();
    stage.peer.notify("notifications/cancelled", &json!({"requestId": 12_345}));
    stage.peer.notify("notifications/cancelled", &json!({"requestId": heard.id()}));
    assert!(matches!(task.await.unwrap(), ListenEnd::Graceful), "SUB-09");
}
