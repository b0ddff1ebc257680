//! The same server behind Streamable HTTP: one thread for each connection, kept alive, every answer as plain JSON.
//! As little HTTP as the measured clients use; not a web server.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use super::{MAX_LINE_BYTES, Server};

const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// Prints the address, then serves until standard input ends.
pub(super) fn serve() -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut output = io::stdout();
    writeln!(output, "http://{}/mcp", listener.local_addr()?)?;
    output.flush()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A connection that breaks concerns its client alone.
            thread::spawn(move || connection(stream));
        }
    });
    io::copy(&mut io::stdin(), &mut io::sink()).map(drop)
}

fn connection(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut output = stream.try_clone()?;
    let mut input = BufReader::with_capacity(64 * 1024, stream);
    let mut server = Server::default();
    let (mut body, mut answer, mut response) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(request) = read_head(&mut input)? {
        body.resize(request.length, 0);
        input.read_exact(&mut body)?;
        answer.clear();
        response.clear();
        match request.method {
            Method::Post => {
                server.answer(&body, &mut answer)?;
                let status = if answer.is_empty() { "202 Accepted" } else { "200 OK" };
                write!(
                    response,
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    answer.len()
                )?;
            }
            // No stream of its own, no session to end.
            Method::Other => {
                write!(
                    response,
                    "HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n"
                )?;
            }
        }
        response.append(&mut answer);
        output.write_all(&response)?;
    }
    Ok(())
}

enum Method {
    Post,
    Other,
}

struct Head {
    method: Method,
    length: usize,
}

/// The head of the next request; `None` when the client hung up.
fn read_head(input: &mut impl BufRead) -> io::Result<Option<Head>> {
    let mut head = Head { method: Method::Other, length: 0 };
    let mut line = String::new();
    let mut limited = input.take(MAX_HEADER_BYTES);
    if limited.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    if line.starts_with("POST ") {
        head.method = Method::Post;
    }
    loop {
        line.clear();
        if limited.read_line(&mut line)? == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the head of a request is not whole"));
        }
        let field = line.trim_end();
        if field.is_empty() {
            return Ok(Some(head));
        }
        if let Some((name, value)) = field.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            let length = value.trim().parse().ok().filter(|length| *length <= MAX_LINE_BYTES);
            head.length = length.ok_or(io::ErrorKind::InvalidData)?;
        }
    }
}
