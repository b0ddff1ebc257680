//! Exchanges with hand-written servers on the loopback interface.

pub(crate) mod server;

mod answers;
mod cuts;
#[cfg(unix)]
mod helper;
mod listening;
mod modern;
mod network;
mod sessions;
mod streams;
mod trust;

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::config::policy::Gate;
use crate::environment::Platform;
use crate::jsonrpc::{Incoming, write as frames};
use crate::transport::{Mirrored, Receiver};
use server::Server;

/// What a receiver heard.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) messages: Mutex<Vec<String>>,
    pub(crate) noise: Mutex<Vec<String>>,
    pub(crate) strays: Mutex<Vec<Option<u64>>>,
    pub(crate) closed: Mutex<Vec<McpError>>,
}

impl Receiver for Heard {
    fn answered(&self, _: u64) {}
    fn message(&self, message: Incoming) {
        let method = match message {
            Incoming::Notification { method, .. } | Incoming::Request { method, .. } => method,
            Incoming::Response { id, .. } => format!("response {id:?}"),
            Incoming::Unreadable { text, .. } => format!("unreadable {text}"),
        };
        lock(&self.messages).push(method);
    }

    fn noise(&self, excerpt: &str, why: &str) {
        lock(&self.noise).push(format!("{excerpt}: {why}"));
    }

    fn stray(&self, id: Option<u64>) {
        lock(&self.strays).push(id);
    }

    fn stderr(&self, _line: &str) {}

    fn closed(&self, error: McpError) {
        lock(&self.closed).push(error);
    }
}

pub(crate) fn environment() -> Environment {
    Environment {
        vars: std::collections::BTreeMap::new(),
        cwd: PathBuf::from("/"),
        home: None,
        platform: Platform::Unix,
    }
}

pub(crate) fn recipe(url: &str) -> HttpRecipe {
    HttpRecipe {
        url: Url::parse(url).unwrap(),
        headers: vec![("X-Own".to_owned(), Secret::new("own-secret".to_owned()))],
        authorizers: Authorizers::default(),
        tls: None,
        proxy: ProxyChoice::Inherited,
        gate: Gate::new(Vec::new(), "").of(&Arc::from("s")),
        environment: Arc::new(environment()),
        limits: HttpLimits {
            message: 100_000,
            retries: 3,
            first_delay: Duration::from_millis(20),
            connect: Duration::from_secs(5),
            stall: Duration::from_secs(5),
        },
        version: None,
    }
}

pub(crate) fn outgoing(id: u64, method: &str) -> Outgoing {
    Outgoing {
        id,
        frame: frames::plain_request(id, method, Some("{}")),
        cancellable: method != "initialize",
        mirrored: Mirrored { method: method.to_owned(), ..Mirrored::default() },
        deadline: None,
    }
}

fn connect(server: &Server) -> (Arc<HttpTransport>, Arc<Heard>) {
    let heard = Arc::new(Heard::default());
    let receiver: Arc<Heard> = Arc::clone(&heard);
    (open(recipe(&server.url("/mcp")), receiver).unwrap(), heard)
}

/// The result as text, or the error.
pub(crate) fn text(reply: Result<RawText, RequestFailure>) -> Result<String, McpError> {
    match reply {
        Ok(raw) => Ok(raw.as_str().to_owned()),
        Err(RequestFailure::Transport(error)) => Err(error),
        Err(RequestFailure::Rpc(error)) => Ok(format!("rpc error {}", error.code)),
    }
}

async fn ask(transport: &HttpTransport, id: u64, method: &str) -> Result<String, McpError> {
    let waited = tokio::time::timeout(Duration::from_secs(20), transport.request(outgoing(id, method)));
    text(waited.await.expect("the request hangs"))
}

/// `initialize`, then the notification that ends the handshake.
async fn shake(transport: &HttpTransport) {
    ask(transport, 0, "initialize").await.unwrap();
    transport.negotiated(ProtocolVersion::V2025_11_25);
    transport.send(frames::notification("notifications/initialized", None)).await.unwrap();
}

fn over() -> McpError {
    McpError::new(ErrorCode::ManagerClosed, "over")
}

/// Waits until something is true.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never came true");
}
