use super::super::pages::{ListLimits, read_all};
use super::*;

/// mcp:PAGE-06
#[tokio::test(start_paused = true)]
async fn pro_09_pages_are_bounded_by_their_bytes_too() {
    let mut stage = Stage::new(&[]);
    let client = stage.legacy().await;
    let limits = Limits {
        idle: Duration::from_secs(60),
        total: Duration::from_secs(600),
        idle_kind: TimeoutKind::Request,
    };
    for (bytes, fits) in [(2_000, false), (4_000, true)] {
        let client = Arc::clone(&client);
        let reading = tokio::spawn(async move {
            let deadline = Arc::new(Deadline::start(limits));
            let most = ListLimits { bytes, ..ListLimits::default() };
            read_all(&client, "tools/list", "tools", &deadline, most).await
        });
        for cursor in ["a", "b", "c"] {
            let page =
                json!({"tools": [{"name": cursor, "description": "x".repeat(800)}], "nextCursor": cursor});
            let heard = stage.peer.expect("tools/list").await;
            stage.peer.reply(&heard, &page);
        }
        if fits {
            let heard = stage.peer.expect("tools/list").await;
            stage.peer.reply(&heard, &json!({"tools": []}));
            assert_eq!(reading.await.unwrap().unwrap().items("tools").len(), 3);
        } else {
            let error = reading.await.unwrap().unwrap_err();
            assert_eq!((error.code(), error.server()), (ErrorCode::ListLimit, Some("s")));
            assert!(error.message().contains("2000 bytes"), "{}", error.message());
        }
    }
}
