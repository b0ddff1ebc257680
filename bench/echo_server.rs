//! The MCP server that every peer of the benchmark talks to (revision 2025-11-25): over stdio, or with `--http` over
//! Streamable HTTP.
//!
//! It owns the wire and the generated payloads, not what is measured. It is meant to cost next to nothing, so that the
//! figures show the client: one thread, blocking reads into one large buffer, one write for all answers to what one
//! read brought, generated payloads encoded once. Every request is parsed in full all the same.
//!
//! Tools: `echo {message}`, `text {bytes, kind: "ascii" | "cjk"}`, `rows {count}`. `workloads.mjs` makes the same
//! payloads a second time and compares.

mod echo_http;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write};

use memchr::memchr;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

const PROTOCOL_VERSION: &str = "2025-11-25";
const READ_BYTES: usize = 1 << 20;
/// Answers are joined up to this size, then written.
const WRITE_BYTES: usize = 1 << 20;
const MAX_LINE_BYTES: usize = 64 << 20;
const MAX_TEXT_BYTES: usize = 64 << 20;
const MAX_ROWS: usize = 1_000_000;
const MAX_CACHED: usize = 16;

const ASCII_LINE: &str =
    r#"a "line" like any other, with its number in front of it, of plain ASCII characters."#;
const CJK_LINE: &str = "工具的回答可以很长、也可以全部是汉字、可是一个字都不能少。";

const PARSE_ERROR: i32 = -32700;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

const TOOLS: &str = concat!(
    r#"{"tools":["#,
    r#"{"name":"echo","description":"Returns its message.","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]},"annotations":{"readOnlyHint":true}},"#,
    r#"{"name":"text","description":"Returns text of a given size.","inputSchema":{"type":"object","properties":{"bytes":{"type":"integer","minimum":0},"kind":{"type":"string","enum":["ascii","cjk"]}},"required":["bytes","kind"]},"annotations":{"readOnlyHint":true}},"#,
    r#"{"name":"rows","description":"Returns structured rows.","inputSchema":{"type":"object","properties":{"count":{"type":"integer","minimum":0}},"required":["count"]},"annotations":{"readOnlyHint":true}}"#,
    "]}"
);

fn main() -> io::Result<()> {
    if std::env::args().nth(1).as_deref() == Some("--http") {
        return echo_http::serve();
    }
    serve(&mut io::stdin().lock(), &mut io::stdout().lock())
}

/// Answers line after line until the input ends.
fn serve(input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
    let mut server = Server::default();
    let mut buffer = vec![0; READ_BYTES];
    let mut filled = 0;
    let mut answers = Vec::with_capacity(WRITE_BYTES);
    loop {
        let received = input.read(&mut buffer[filled..])?;
        if received == 0 {
            return Ok(());
        }
        let unscanned = filled;
        filled += received;
        let mut start = 0;
        let mut from = unscanned;
        while let Some(offset) = memchr(b'\n', &buffer[from..filled]) {
            let end = from + offset;
            server.answer(&buffer[start..end], &mut answers)?;
            start = end + 1;
            from = start;
            if answers.len() >= WRITE_BYTES {
                write_out(&mut answers, output)?;
            }
        }
        write_out(&mut answers, output)?;
        buffer.copy_within(start..filled, 0);
        filled -= start;
        if filled == buffer.len() {
            if filled >= MAX_LINE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            buffer.resize(filled * 2, 0);
        }
    }
}

fn write_out(answers: &mut Vec<u8>, output: &mut impl Write) -> io::Result<()> {
    if !answers.is_empty() {
        output.write_all(answers)?;
        output.flush()?;
        answers.clear();
    }
    Ok(())
}

/// One line of the client: a request, a notification (no `id`) or an answer (no `method`).
#[derive(Deserialize)]
struct Message<'line> {
    #[serde(borrow, default)]
    id: Option<&'line RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'line, str>>,
    #[serde(borrow, default)]
    params: Option<&'line RawValue>,
}

#[derive(Deserialize)]
struct CallParams<'line> {
    #[serde(borrow)]
    name: Cow<'line, str>,
    #[serde(borrow)]
    arguments: &'line RawValue,
}

#[derive(Deserialize)]
struct EchoArguments<'line> {
    #[serde(borrow)]
    message: Cow<'line, str>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Hash)]
#[serde(rename_all = "lowercase")]
enum TextKind {
    Ascii,
    Cjk,
}

#[derive(Deserialize)]
struct TextArguments {
    bytes: usize,
    kind: TextKind,
}

#[derive(Deserialize)]
struct RowsArguments {
    count: usize,
}

#[derive(Serialize)]
struct TextBlock<'text> {
    r#type: &'static str,
    text: &'text str,
}

#[derive(Serialize)]
struct CallResult<'text> {
    content: [TextBlock<'text>; 1],
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    structured: Option<Rows>,
}

impl<'text> CallResult<'text> {
    fn new(text: &'text str, structured: Option<Rows>) -> Self {
        Self { content: [TextBlock { r#type: "text", text }], structured }
    }
}

#[derive(Serialize)]
struct Rows {
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    id: usize,
    name: String,
    value: f64,
    tags: [&'static str; 2],
}

/// Which generated result is meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Generated {
    Text(TextKind, usize),
    Rows(usize),
}

struct Refusal {
    code: i32,
    message: &'static str,
}

impl Refusal {
    const fn new(code: i32, message: &'static str) -> Self {
        Self { code, message }
    }
}

/// Keeps the encoded results that were asked for before.
#[derive(Default)]
struct Server {
    cache: HashMap<Generated, Vec<u8>>,
}

impl Server {
    /// Appends the answer to one line, if it wants one.
    fn answer(&mut self, line: &[u8], answers: &mut Vec<u8>) -> io::Result<()> {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(line) else {
            return write_refusal("null", &Refusal::new(PARSE_ERROR, "not a JSON-RPC message"), answers);
        };
        let (Some(id), Some(method)) = (message.id, message.method) else {
            return Ok(());
        };
        let start = answers.len();
        write!(answers, r#"{{"jsonrpc":"2.0","id":{},"result":"#, id.get())?;
        match self.write_result(&method, message.params, answers)? {
            Ok(()) => answers.write_all(b"}\n"),
            Err(refusal) => {
                answers.truncate(start);
                write_refusal(id.get(), &refusal, answers)
            }
        }
    }

    fn write_result(
        &mut self,
        method: &str,
        params: Option<&RawValue>,
        answers: &mut Vec<u8>,
    ) -> io::Result<Result<(), Refusal>> {
        match method {
            "tools/call" => return self.write_call(params, answers),
            "tools/list" => answers.write_all(TOOLS.as_bytes())?,
            "ping" => answers.write_all(b"{}")?,
            "initialize" => write!(
                answers,
                r#"{{"protocolVersion":"{PROTOCOL_VERSION}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"bench-echo-server","version":"{}"}}}}"#,
                env!("CARGO_PKG_VERSION")
            )?,
            _ => return Ok(Err(Refusal::new(METHOD_NOT_FOUND, "unknown method"))),
        }
        Ok(Ok(()))
    }

    fn write_call(
        &mut self,
        params: Option<&RawValue>,
        answers: &mut Vec<u8>,
    ) -> io::Result<Result<(), Refusal>> {
        let Some(call) = params.and_then(parse::<CallParams<'_>>) else {
            return Ok(Err(Refusal::new(INVALID_PARAMS, "a call needs a name and arguments")));
        };
        let wanted = match &*call.name {
            "echo" => {
                let Some(echo) = parse::<EchoArguments<'_>>(call.arguments) else {
                    return Ok(Err(Refusal::new(INVALID_PARAMS, "echo needs a message")));
                };
                serde_json::to_writer(answers, &CallResult::new(&echo.message, None))?;
                return Ok(Ok(()));
            }
            "text" => parse::<TextArguments>(call.arguments)
                .filter(|text| text.bytes <= MAX_TEXT_BYTES)
                .map(|text| Generated::Text(text.kind, text.bytes)),
            "rows" => parse::<RowsArguments>(call.arguments)
                .filter(|rows| rows.count <= MAX_ROWS)
                .map(|rows| Generated::Rows(rows.count)),
            _ => return Ok(Err(Refusal::new(INVALID_PARAMS, "unknown tool"))),
        };
        let Some(wanted) = wanted else {
            return Ok(Err(Refusal::new(INVALID_PARAMS, "arguments do not fit the input schema")));
        };
        answers.write_all(self.generated(wanted)?)?;
        Ok(Ok(()))
    }

    /// The encoded result, made on the first call of its kind and size.
    fn generated(&mut self, wanted: Generated) -> io::Result<&[u8]> {
        if self.cache.len() >= MAX_CACHED && !self.cache.contains_key(&wanted) {
            self.cache.clear();
        }
        match self.cache.entry(wanted) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(place) => Ok(place.insert(encode(wanted)?)),
        }
    }
}

fn parse<'line, T: Deserialize<'line>>(json: &'line RawValue) -> Option<T> {
    serde_json::from_str(json.get()).ok()
}

fn write_refusal(id: &str, refusal: &Refusal, answers: &mut Vec<u8>) -> io::Result<()> {
    let Refusal { code, message } = refusal;
    writeln!(answers, r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

fn encode(wanted: Generated) -> io::Result<Vec<u8>> {
    let encoded = match wanted {
        Generated::Text(kind, bytes) => serde_json::to_vec(&CallResult::new(&text(kind, bytes), None)),
        Generated::Rows(count) => {
            serde_json::to_vec(&CallResult::new(&format!("{count} rows"), Some(rows(count))))
        }
    };
    Ok(encoded?)
}

/// Numbered lines while a whole one fits, then dots, so that the UTF-8 length is exactly `bytes`.
fn text(kind: TextKind, bytes: usize) -> String {
    let line = match kind {
        TextKind::Ascii => ASCII_LINE,
        TextKind::Cjk => CJK_LINE,
    };
    let line_bytes = "00000000 ".len() + line.len() + "\n".len();
    let mut text = String::with_capacity(bytes);
    for number in 0..bytes / line_bytes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{number:08} {line}");
    }
    text.extend(std::iter::repeat_n('.', bytes - text.len()));
    text
}

fn rows(count: usize) -> Rows {
    const COLOURS: [&str; 3] = ["red", "green", "blue"];
    let mut value = 0.0;
    let mut made = Vec::with_capacity(count);
    for id in 0..count {
        let parity = if id % 2 == 0 { "even" } else { "odd" };
        made.push(Row { id, name: format!("row {id}"), value, tags: [parity, COLOURS[id % COLOURS.len()]] });
        value += 0.25;
    }
    Rows { rows: made }
}
