//! Any bytes on the wire, in pieces of any size: the same lines come out, and what is a message is read without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcp_switchboard::jsonrpc::read;
use mcp_switchboard::transport::frame_lines::{Line, LineFramer};

const LIMIT: usize = 512;

fn lines(bytes: &[u8], piece: usize) -> Vec<Line> {
    let mut framer = LineFramer::new(LIMIT);
    let mut lines = Vec::new();
    for part in bytes.chunks(piece.max(1)) {
        framer.space().extend_from_slice(part);
        while let Some(line) = framer.next_line() {
            lines.push(line);
        }
    }
    lines
}

fuzz_target!(|data: &[u8]| {
    let Some((&piece, bytes)) = data.split_first() else { return };
    let whole = lines(bytes, bytes.len());
    assert_eq!(lines(bytes, usize::from(piece)), whole, "pieces change nothing");
    for line in whole {
        if let Line::Text(text) = line {
            assert!(text.len() <= LIMIT);
            let _ = read::read(text);
        }
    }
});
