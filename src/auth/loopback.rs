//! The listener that the browser comes back to: this machine only, one answer, constant pages
//! (mcp:AUTH-51, B-143, B-144, G23).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use super::settings::Callback;
use crate::error::{ErrorCode, McpError};

/// Longest head of a request.
const LONGEST_HEAD: usize = 32 * 1024;
/// Longest request line.
const LONGEST_LINE: usize = super::callback::LONGEST_QUERY + 1024;
/// Time for one request; connections that only stand there do not stand long.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at the same time.
const MOST: usize = 32;
/// Default of `callbackHost` (G15).
const HOST: &str = "127.0.0.1";
/// Default of `callbackPath`.
const PATH: &str = "/callback";

/// A query that came in; the reply says whether it was of this login.
pub type Visit = (String, oneshot::Sender<bool>);

/// Listens on both loopback addresses until it is dropped.
#[derive(Debug)]
pub struct Loopback {
    /// The redirect URI.
    pub uri: String,
    visits: mpsc::Receiver<Visit>,
    _tasks: JoinSet<()>,
}

impl Loopback {
    /// Opens the listener; `preferred` is a port that is taken where it is free and none is configured.
    ///
    /// # Errors
    /// `AUTH_FAILED` for a configured port that is taken.
    pub async fn open(callback: &Callback, preferred: Option<u16>) -> Result<Self, McpError> {
        let host = callback.host.as_deref().unwrap_or(HOST);
        let host = if host == "::1" { "[::1]" } else { host };
        let path = callback.path.as_deref().unwrap_or(PATH);
        let (port, listeners) = bind(callback.port, preferred).await?;
        let (visit, visits) = mpsc::channel(1);
        let mut tasks = JoinSet::new();
        let door = Arc::new(Door { port, path: path.to_owned(), visit, room: Semaphore::new(MOST) });
        for listener in listeners {
            tasks.spawn(serve(listener, Arc::clone(&door)));
        }
        Ok(Self { uri: format!("http://{host}:{port}{path}"), visits, _tasks: tasks })
    }

    /// The next query that came to the right path.
    pub async fn visit(&mut self) -> Option<Visit> {
        self.visits.recv().await
    }
}

async fn bind(fixed: Option<u16>, preferred: Option<u16>) -> Result<(u16, Vec<TcpListener>), McpError> {
    let failed = |port: u16, error: &io::Error| {
        let message = if port == 0 {
            format!("no port of this machine could be listened on: {error}")
        } else {
            format!("port {port} (oauth.callbackPort) cannot be listened on: {error}; free it or set another")
        };
        McpError::new(ErrorCode::AuthFailed, message)
    };
    if let Some(port) = fixed {
        return bind_both(port).await.map_err(|error| failed(port, &error));
    }
    if let Some(port) = preferred
        && let Ok(bound) = bind_both(port).await
    {
        return Ok(bound);
    }
    // A port may be free in one family and taken in the other.
    for _ in 0..10 {
        if let Ok(bound) = bind_both(0).await {
            return Ok(bound);
        }
    }
    bind_both(0).await.map_err(|error| failed(0, &error))
}

/// Listens in both families; a machine without IPv6 does without.
async fn bind_both(port: u16) -> io::Result<(u16, Vec<TcpListener>)> {
    let first = TcpListener::bind(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)).await?;
    let port = first.local_addr()?.port();
    match TcpListener::bind(SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), port)).await {
        Ok(second) => Ok((port, vec![first, second])),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        Err(_) => Ok((port, vec![first])),
    }
}

struct Door {
    port: u16,
    path: String,
    visit: mpsc::Sender<Visit>,
    room: Semaphore,
}

async fn serve(listener: TcpListener, door: Arc<Door>) {
    let mut guests = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while guests.try_join_next().is_some() {}
        let door = Arc::clone(&door);
        guests.spawn(async move {
            if let Ok(_room) = door.room.try_acquire() {
                let _ = tokio::time::timeout(PATIENCE, receive(stream, &door)).await;
            }
        });
    }
}

async fn receive(mut stream: TcpStream, door: &Door) -> io::Result<()> {
    let mut head = Vec::new();
    let page = loop {
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            break answer(&head, door).await;
        }
        if head.len() > LONGEST_HEAD {
            break Page::TooLong;
        }
        let read = stream.read_buf(&mut head).await?;
        if read == 0 {
            return Ok(());
        }
    };
    stream.write_all(page.text().as_bytes()).await?;
    stream.shutdown().await
}

/// The pages there are; nothing of a request is ever in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Done,
    Refused,
    Missing,
    Method,
    TooLong,
}

impl Page {
    fn text(self) -> String {
        let (status, words) = match self {
            Page::Done => ("200 OK", "You can close this window and go back to the application."),
            Page::Refused => ("400 Bad Request", "This is no answer to a login that is under way."),
            Page::Missing => ("404 Not Found", "There is nothing here."),
            Page::Method => ("405 Method Not Allowed", "There is nothing here."),
            Page::TooLong => ("414 URI Too Long", "The answer is too long."),
        };
        let body = format!("<!doctype html><meta charset=utf-8><title>Login</title><p>{words}</p>\n");
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
    }
}

async fn answer(head: &[u8], door: &Door) -> Page {
    let query = match query_of(head, door) {
        Ok(query) => query,
        Err(page) => return page,
    };
    let (reply, ours) = oneshot::channel();
    if door.visit.send((query, reply)).await.is_err() {
        return Page::Refused;
    }
    if ours.await.unwrap_or(false) { Page::Done } else { Page::Refused }
}

/// The query of a request that may be the one: GET, our path, our host.
fn query_of(head: &[u8], door: &Door) -> Result<String, Page> {
    let text = std::str::from_utf8(head).map_err(|_| Page::Refused)?;
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    if line.len() > LONGEST_LINE {
        return Err(Page::TooLong);
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if method != "GET" {
        return Err(Page::Method);
    }
    let hosts: Vec<&str> = lines
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"))
        .map(|(_, value)| value.trim())
        .collect();
    let [host] = hosts[..] else { return Err(Page::Refused) };
    let ours = ["127.0.0.1", "localhost", "[::1]"].iter().any(|own| host == format!("{own}:{}", door.port));
    if !ours {
        return Err(Page::Refused);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    if path != door.path {
        return Err(Page::Missing);
    }
    Ok(query.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        text
    }

    fn port_of(uri: &str) -> u16 {
        url::Url::parse(uri).unwrap().port().unwrap()
    }

    #[tokio::test]
    async fn b_143_b_144_g23_auth_51_only_the_true_answer_gets_in() {
        let mut door = Loopback::open(&Callback::default(), None).await.unwrap();
        let port = port_of(&door.uri);
        // Connections that only stand there keep nobody out.
        let mut idle = Vec::new();
        for _ in 0..10 {
            idle.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let waiting = tokio::spawn(async move {
            let (query, reply) = door.visit().await.unwrap();
            reply.send(query == "code=c&state=s").unwrap();
            door
        });
        let long = "y".repeat(20_000);
        for (request, status) in [
            ("GET /callback?code=c HTTP/1.1\r\nHost: evil.test\r\n\r\n".to_owned(), "400"),
            ("GET /callback?code=c HTTP/1.1\r\n\r\n".to_owned(), "400"),
            (format!("HEAD /callback?code=c HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"), "405"),
            (format!("GET /favicon.ico HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"), "404"),
            (format!("GET /callback?x={long} HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"), "414"),
            (format!("GET /callback?code=c&state=s HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"), "200"),
        ] {
            let answer = ask(port, &request).await;
            assert_eq!(answer.get(9..12), Some(status), "{}", &request[..30]);
            assert!(!answer.contains("code=c"), "{answer}");
        }
        let door = waiting.await.unwrap();
        drop(door);
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err(), "closed after use");
    }

    #[tokio::test]
    async fn a_11_a_12_g15_both_families_and_fixed_ports() {
        let callback =
            Callback { host: Some("localhost".into()), path: Some("/x".into()), ..Callback::default() };
        let first = Loopback::open(&callback, None).await.unwrap();
        let port = port_of(&first.uri);
        assert_eq!(first.uri, format!("http://localhost:{port}/x"));
        if let Err(error) = TcpStream::connect(("::1", port)).await {
            assert_ne!(error.kind(), io::ErrorKind::ConnectionRefused, "listens on ::1 where there is IPv6");
        }
        let taken = Callback { port: Some(port), ..Callback::default() };
        let error = Loopback::open(&taken, None).await.unwrap_err();
        assert!(error.message().contains(&port.to_string()), "{error}");
        let other = Loopback::open(&Callback::default(), Some(port)).await.unwrap();
        assert_ne!(port_of(&other.uri), port);
    }
}
