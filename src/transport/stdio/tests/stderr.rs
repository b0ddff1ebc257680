use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::super::spawn;
use super::super::stderr_tail::{
    Admission, Gate, LINE_BYTES, LINES_PER_WINDOW, LineCutter, RING_BYTES, Ring, TAIL_LINES, WINDOW, clean,
};
use super::{alone, run, shell};
use crate::environment::Environment;

fn cut_up(chunks: &[&[u8]]) -> Vec<Vec<u8>> {
    let mut cutter = LineCutter::default();
    let mut lines = Vec::new();
    for chunk in chunks {
        cutter.push(chunk, |line| lines.push(line.to_vec()));
    }
    cutter.finish(|line| lines.push(line.to_vec()));
    lines
}

proptest! {
    #[test]
    fn lines_do_not_depend_on_the_chunks(
        text in proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..400),
        at in 0_usize..400,
    ) {
        let at = at.min(text.len());
        prop_assert_eq!(cut_up(&[&text]), cut_up(&[&text[..at], &text[at..]]));
    }

    #[test]
    fn the_ring_holds_the_last_bytes(lengths in proptest::collection::vec(0_usize..40_000, 1..8)) {
        let mut ring = Ring::default();
        for length in &lengths {
            ring.push(&vec![b'x'; *length]);
        }
        ring.push(b"\nlast");
        let lines = ring.lines();
        prop_assert_eq!(lines.last().map(String::as_str), Some("last"));
        prop_assert!(lines.iter().map(String::len).sum::<usize>() <= RING_BYTES);
    }

    #[test]
    fn cleaned_lines_hold_no_control_characters(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(!clean(&line).chars().any(|character| character.is_control() && character != '\t'));
    }
}

#[test]
fn std_01_a_line_without_end_is_bounded_and_ends_on_a_character() {
    let mut cutter = LineCutter::default();
    let mut lines = Vec::new();
    for _ in 0..1000 {
        cutter.push("\u{20ac}".repeat(1000).as_bytes(), |line| lines.push(line.to_vec()));
    }
    cutter.push(b"\nnext\n", |line| lines.push(line.to_vec()));
    assert_eq!(lines.len(), 2);
    assert!(lines[0].len() <= LINE_BYTES && lines[0].len() > LINE_BYTES - 3);
    assert!(std::str::from_utf8(&lines[0]).is_ok(), "C6: never half a character");
    assert_eq!(lines[1], b"next");
}

#[test]
fn sec_01_lines_lose_terminal_sequences_and_what_cannot_be_seen() {
    let invisible = "a\u{202e}b\u{202c} \u{e0041}\u{200b}c\u{200b}".as_bytes();
    let long = "\u{fdfa}".repeat(LINE_BYTES / 3);
    assert!(clean(long.as_bytes()).len() <= LINE_BYTES, "SEC-01: however much longer cleaning makes it");
    let cases: [(&[u8], &str); 9] = [
        (invisible, "ab c"),
        (b"\x1b[31mred\x1b[0m plain\r", "red plain"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link", "link"),
        (b"a\tb\x00c\x08d", "a\tbcd"),
        (b"\xff\xfe", "\u{fffd}\u{fffd}"),
        (b"\x1b[38;5", ""),
        (b"\x1b", ""),
        (b"  indented  ", "  indented"),
    ];
    for (line, expected) in cases {
        assert_eq!(clean(line), expected);
    }
}

#[test]
fn std_01_the_tail_is_the_last_twenty_lines_that_say_something() {
    let mut ring = Ring::default();
    for number in 0..50 {
        ring.push(format!("line {number}\n\n").as_bytes());
    }
    ring.push(b"no line end");
    let lines = ring.lines();
    assert_eq!(lines.len(), TAIL_LINES);
    assert_eq!(lines.first().map(String::as_str), Some("line 31"));
    assert_eq!(lines.last().map(String::as_str), Some("no line end"));
    assert!(Ring::default().lines().is_empty());
}

#[test]
fn the_gate_counts_what_it_does_not_pass() {
    let start = Instant::now();
    let mut gate = Gate::new(start);
    let passed = (0..5000).filter(|_| gate.admit(start) == Admission::Pass).count();
    assert_eq!(u32::try_from(passed).expect("small"), LINES_PER_WINDOW);
    assert_eq!(gate.admit(start + WINDOW), Admission::PassAfter(4000));
    assert_eq!(gate.admit(start + WINDOW), Admission::Pass);
}

#[tokio::test]
async fn c4_a_flood_of_lines_is_drained_and_mostly_counted() {
    let lines = Arc::new(AtomicUsize::new(0));
    let told = Arc::new(Mutex::new(Vec::new()));
    let recipe =
        shell("head -c 50000000 /dev/zero | tr '\\0' '\\n' | sed 's/^/x/' >&2; echo done >&2; exit 3");
    let on_line = {
        let (lines, told) = (Arc::clone(&lines), Arc::clone(&told));
        move |line: &str| {
            lines.fetch_add(1, Ordering::Relaxed);
            if line.starts_with('(') {
                told.lock().expect("unpoisoned").push(line.to_owned());
            }
        }
    };
    let began = Instant::now();
    let spawned = spawn(&recipe, &Environment::capture(), Box::new(on_line)).expect("it starts");
    let exit =
        tokio::time::timeout(Duration::from_secs(120), spawned.process.exited()).await.expect("in time");
    assert_eq!(exit.code, Some(3), "mcp:STDIO-06: the writer is never blocked");
    assert_eq!(spawned.process.stderr_tail().last().map(String::as_str), Some("done"));
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("small") + 2;
    assert!(lines.load(Ordering::Relaxed) <= (LINES_PER_WINDOW as usize + 2) * seconds);
    assert!(!told.lock().expect("unpoisoned").is_empty(), "what was left out is told");
}

fn resident_kilobytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn f_010_a_gigabyte_without_line_end_leaves_memory_flat() {
    if alone("stderr::f_010_a_gigabyte_without_line_end_leaves_memory_flat") {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(flood());
    }
}

async fn flood() {
    let lines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&lines);
    let on_line = move |line: &str| {
        assert!(line.len() <= LINE_BYTES);
        counted.fetch_add(1, Ordering::Relaxed);
    };
    let recipe = shell("head -c 1000000000 /dev/zero | tr '\\0' 'y' >&2; exit 0");
    let before = resident_kilobytes();
    let spawned = spawn(&recipe, &Environment::capture(), Box::new(on_line)).expect("it starts");
    let exit =
        tokio::time::timeout(Duration::from_secs(180), spawned.process.exited()).await.expect("in time");
    assert_eq!(exit.code, Some(0));
    let grown = resident_kilobytes().saturating_sub(before);
    assert!(
        grown < 64 * 1024,
        "other tests share this process, a kept flood would be far larger: {grown} kB"
    );
    assert_eq!(spawned.process.stderr_tail().len(), 1);
    assert_eq!(lines.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn std_06_last_words_are_there_when_the_exit_is_told() {
    for _ in 0..20 {
        let spawned = run(&shell("echo first >&2; printf 'cannot find module' >&2; exit 1"));
        let exit = spawned.process.exited().await;
        assert_eq!(exit.code, Some(1));
        assert_eq!(spawned.process.stderr_tail(), ["first", "cannot find module"]);
    }
}
