//! A server on the loopback interface that answers by script, byte by byte.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::runtime::lock;

/// A request that came in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// The method of the message inside.
    pub(crate) fn asks(&self, method: &str) -> bool {
        self.body.contains(&format!("\"method\":\"{method}\""))
    }

    /// The id of the message inside.
    pub(crate) fn id(&self) -> u64 {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        body["id"].as_u64().unwrap_or_default()
    }
}

/// What the server does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Keep the connection open and silent.
    Hang,
    /// Close the connection.
    Close,
}

type Script = Arc<dyn Fn(&Seen) -> Vec<Step> + Send + Sync>;

pub(crate) struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A whole answer.
pub(crate) fn answer(status: u16, headers: &str, body: &str) -> Vec<Step> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}");
    vec![Step::Send(head.into_bytes())]
}

pub(crate) fn json(body: &str) -> Vec<Step> {
    answer(200, "Content-Type: application/json\r\n", body)
}

pub(crate) fn result(id: u64, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// Head of an event stream without end.
pub(crate) fn stream_head() -> Step {
    Step::Send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n".to_vec())
}

pub(crate) fn bytes(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

impl Server {
    pub(crate) async fn start(script: impl Fn(&Seen) -> Vec<Step> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
        let script: Script = Arc::new(script);
        let record = Arc::clone(&seen);
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                connections.spawn(serve(socket, Arc::clone(&script), Arc::clone(&record)));
            }
        });
        Self { port, seen, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        lock(&self.seen).clone()
    }

    /// Requests with this HTTP method.
    pub(crate) fn count(&self, method: &str) -> usize {
        self.seen().iter().filter(|seen| seen.method == method).count()
    }
}

/// Serves one connection until it is closed.
pub(crate) async fn serve(
    mut socket: impl AsyncRead + AsyncWrite + Unpin,
    script: Script,
    record: Arc<Mutex<Vec<Seen>>>,
) {
    let mut buffer = Vec::new();
    while let Some(seen) = read_request(&mut socket, &mut buffer).await {
        lock(&record).push(seen.clone());
        for step in script(&seen) {
            match step {
                Step::Send(bytes) => {
                    if socket.write_all(&bytes).await.is_err() {
                        return;
                    }
                    let _ = socket.flush().await;
                }
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Hang => {
                    // Until the peer gives up.
                    let mut rest = [0; 64];
                    while socket.read(&mut rest).await.is_ok_and(|read| read > 0) {}
                    return;
                }
                Step::Close => return,
            }
        }
    }
}

async fn read_request(socket: &mut (impl AsyncRead + Unpin), buffer: &mut Vec<u8>) -> Option<Seen> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut seen = Seen { method, path, headers, body: String::new() };
    let length: usize = seen.header("content-length").map_or(0, |text| text.parse().unwrap());
    while buffer.len() < head_end + length {
        if socket.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
    seen.body = String::from_utf8_lossy(&buffer[head_end..head_end + length]).into_owned();
    buffer.drain(..head_end + length);
    Some(seen)
}
