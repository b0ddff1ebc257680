//! Failures below HTTP: names, addresses, proxies, certificates.

use std::collections::BTreeMap;

use tokio::net::TcpListener;

use super::server::{Step, answer, bytes, json, result};
use super::*;

async fn fails(recipe: HttpRecipe) -> McpError {
    let heard = Arc::new(Heard::default());
    let transport = open(recipe, heard).unwrap();
    ask(&transport, 0, "initialize").await.unwrap_err()
}

async fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn f_040_nothing_was_sent_to_a_closed_port() {
    let port = free_port().await;
    let error = fails(recipe(&format!("http://127.0.0.1:{port}/mcp"))).await;
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ConnectFailed, Some(Delivery::No)));
    assert!(error.message().contains("refused"), "{error:?}");
}

#[tokio::test]
async fn f_050_a_name_that_does_not_exist() {
    let error = fails(recipe("http://no-such-host.invalid/mcp")).await;
    assert_eq!(error.code(), ErrorCode::ConnectFailed);
    assert!(error.message().contains("no-such-host.invalid"), "{error:?}");
}

#[tokio::test]
async fn e14_localhost_reaches_a_server_of_one_family() {
    let server = Server::start(|seen| json(&result(seen.id(), "{}"))).await;
    let heard = Arc::new(Heard::default());
    let transport = open(recipe(&format!("http://localhost:{}/mcp", server.port())), heard).unwrap();
    assert_eq!(ask(&transport, 0, "initialize").await.unwrap(), "{}");
}

#[tokio::test]
async fn f_055_no_connection_within_the_limit() {
    // A listener whose queue is full lets nobody in.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(stream);
        assert!(waiting.len() < 100);
    }
    let mut recipe = recipe(&format!("http://{address}/mcp"));
    recipe.limits.connect = Duration::from_millis(300);
    let error = fails(recipe).await;
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ConnectFailed, Some(Delivery::No)));
}

#[tokio::test]
async fn a_server_that_vanishes_ends_the_connection() {
    let server = Server::start(|seen| {
        let mut steps = json(&result(seen.id(), "{}"));
        steps.push(Step::Close);
        steps
    })
    .await;
    let (transport, heard) = connect(&server);
    ask(&transport, 0, "initialize").await.unwrap();
    drop(server);
    tokio::time::sleep(Duration::from_millis(50)).await;
    let error = ask(&transport, 1, "tools/call").await.unwrap_err();
    assert_eq!((error.code(), error.facts().delivered), (ErrorCode::ConnectionLost, Some(Delivery::No)));
    assert_eq!(lock(&heard.closed).len(), 1);
}

fn through(proxy: &str, url: &str) -> HttpRecipe {
    let vars = BTreeMap::from([
        ("HTTP_PROXY".to_owned(), proxy.to_owned()),
        ("HTTPS_PROXY".to_owned(), proxy.to_owned()),
    ]);
    HttpRecipe { environment: Arc::new(Environment { vars, ..environment() }), ..recipe(url) }
}

#[tokio::test]
async fn prx_01_plain_http_goes_through_the_proxy_with_its_password() {
    let proxy = Server::start(|seen| json(&result(seen.id(), "{}"))).await;
    let url = format!("http://me:proxy-pass@127.0.0.1:{}", proxy.port());
    let heard = Arc::new(Heard::default());
    let transport = open(through(&url, "http://mcp.example/mcp"), heard).unwrap();
    assert_eq!(ask(&transport, 0, "initialize").await.unwrap(), "{}");
    let seen = &proxy.seen()[0];
    assert_eq!(seen.path, "http://mcp.example/mcp");
    assert_eq!(seen.header("proxy-authorization"), Some("Basic bWU6cHJveHktcGFzcw=="));
}

#[tokio::test]
async fn f_053_failures_of_the_proxy_are_its_own() {
    let giant = format!("HTTP/1.1 200 X\r\nX: {}\r\n", "x".repeat(16 * 1024));
    let cases: Vec<(&str, Vec<Step>)> = vec![
        ("407", answer(407, "Proxy-Authenticate: Basic\r\n", "")),
        ("502", answer(502, "", "")),
        ("giant head", vec![bytes(&giant), Step::Hang]),
        ("closes", vec![Step::Close]),
        ("hangs", vec![Step::Hang]),
    ];
    for (name, steps) in cases {
        let proxy = Server::start(move |_| steps.clone()).await;
        let url = format!("http://me:proxy-pass@127.0.0.1:{}", proxy.port());
        let mut recipe = through(&url, "https://mcp.example/mcp");
        recipe.limits.connect = Duration::from_secs(1);
        let error = fails(recipe).await;
        assert_eq!(error.code(), ErrorCode::ProxyFailed, "{name}: {error:?}");
        assert!(!format!("{error:?}").contains("proxy-pass"), "{name}: {error:?}");
        assert_eq!(proxy.seen()[0].method, "CONNECT", "{name}");
    }
    let port = free_port().await;
    let error = fails(through(&format!("http://127.0.0.1:{port}"), "https://mcp.example/mcp")).await;
    assert_eq!(error.code(), ErrorCode::ProxyFailed, "{error:?}");
    let proxy = Server::start(|_| answer(407, "", "")).await;
    let error = fails(through(&proxy.url(""), "http://mcp.example/mcp")).await;
    assert_eq!(error.code(), ErrorCode::ProxyFailed, "{error:?}");
}

#[tokio::test]
async fn f_051_no_tls_on_the_port() {
    let server = Server::start(|_| Vec::new()).await;
    let plain = tokio::spawn({
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        async move {
            let error = fails(recipe(&format!("https://127.0.0.1:{port}/mcp")));
            let speak = async {
                let (mut socket, _) = listener.accept().await.unwrap();
                let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, b"HTTP/1.1 400 X\r\n\r\n").await;
                tokio::time::sleep(Duration::from_secs(1)).await;
            };
            tokio::join!(error, speak).0
        }
    });
    let error = plain.await.unwrap();
    assert_eq!(
        (error.code(), error.facts().delivered),
        (ErrorCode::TlsFailed, Some(Delivery::No)),
        "{error:?}"
    );
    drop(server);
}
