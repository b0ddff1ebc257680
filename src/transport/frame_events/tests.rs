use proptest::prelude::*;

use super::*;

fn all(limit: usize, chunks: &[&[u8]]) -> (Vec<Event>, EventFramer) {
    let mut framer = EventFramer::new(limit);
    let events = chunks.iter().flat_map(|chunk| framer.push(chunk)).collect();
    (events, framer)
}

fn message(kind: &str, data: &str) -> Event {
    Event::Message { kind: kind.to_owned(), data: data.to_owned() }
}

#[test]
fn sse_fields_table() {
    let cases: &[(&str, &[(&str, &str)])] = &[
        ("data: a\n\n", &[("message", "a")]),
        ("data:a\r\n\r\n", &[("message", "a")]),
        ("data:a\r\rdata:b\r\r", &[("message", "a"), ("message", "b")]),
        ("\u{FEFF}data: a\n\n", &[("message", "a")]),
        ("data:  a\n\n", &[("message", " a")]),
        ("data: a\ndata: b\ndata\n\n", &[("message", "a\nb\n")]),
        ("event: endpoint\ndata: /x\n\n", &[("endpoint", "/x")]),
        ("event: endpoint\n\ndata: /x\n\n", &[("message", "/x")]),
        (": keep-alive\n\n:\n\n", &[]),
        ("id: 1\ndata:\n\n", &[]),
        ("data: cut", &[]),
        ("data: cut\n", &[]),
        ("Data: a\nunknown: b\ndata: c\n\n", &[("message", "c")]),
        ("\n\n\ndata: a\n\n\n\n", &[("message", "a")]),
    ];
    for (input, expected) in cases {
        let expected: Vec<Event> = expected.iter().map(|(kind, data)| message(kind, data)).collect();
        assert_eq!(all(1000, &[input.as_bytes()]).0, expected, "{input:?}");
    }
}

#[test]
fn b_099_abused_fields_are_clamped_or_ignored() {
    for (field, expected) in [
        ("retry: 99999999999999999999999", Some(LONGEST_RETRY)),
        ("retry: 1500", Some(Duration::from_millis(1500))),
        ("retry: -1", None),
        ("retry: 1.5", None),
        ("retry:", None),
        ("retry: 10s", None),
    ] {
        assert_eq!(all(1000, &[field.as_bytes(), b"\n\n"]).1.retry(), expected, "{field}");
    }
    let long = format!("id: {}\n\n", "x".repeat(1 << 20));
    for (input, expected) in [
        ("id: 7\n\n", Some("7")),
        ("id: 7\n\nid: a\0b\n\n", Some("7")),
        ("id: 7\n\nid: a\tb\n\n", None),
        ("id: 7\n\nid\n\n", None),
        ("id: 7\n\nid: 8\ndata: x", Some("7")),
        ("id: 7\n\ndata: x\n\n", Some("7")),
        (&long, None),
    ] {
        let (_, framer) = all(4 << 20, &[input.as_bytes()]);
        assert_eq!(
            framer.last_event_id(),
            expected.map(str::as_bytes),
            "{:?}",
            &input[..20.min(input.len())]
        );
    }
    let lines = "data:\n".repeat(1_000_000);
    let (events, _) = all(1 << 20, &[lines.as_bytes(), b"\ndata: after\n\n"]);
    assert_eq!(events.last(), Some(&message("message", "after")));
}

#[test]
fn e13_the_limit_counts_data_only() {
    let message = r#"{"jsonrpc":"2.0","id":12,"result":{}}"#;
    for label in ["data: ", "data:"] {
        let event = format!("event: message\n{label}{message}\n\n");
        let (events, _) = all(message.len(), &[event.as_bytes()]);
        assert!(matches!(&events[..], [Event::Message { data, .. }] if data == message), "{events:?}");
        let (events, _) = all(message.len() - 1, &[event.as_bytes()]);
        assert!(matches!(&events[..], [Event::TooLong { id: Some(12), .. }]), "{events:?}");
    }
}

#[test]
fn e13_an_event_above_the_limit_is_dropped_and_the_next_one_read() {
    let answer = format!("data: {{\"jsonrpc\":\"2.0\",\"id\":12,\"result\":\"{}\"}}\n\n", "x".repeat(5000));
    let (events, framer) = all(1000, &[b"id: 3\n", answer.as_bytes(), b"data: next\n\n"]);
    let [Event::TooLong { length, id: Some(12) }, next] = &events[..] else {
        panic!("{events:?}");
    };
    assert!(*length > 5000);
    assert_eq!(*next, message("message", "next"));
    assert_eq!(framer.last_event_id(), Some(&b"3"[..]));
    // Nothing of it stays in memory while it goes on.
    let mut framer = EventFramer::new(1000);
    for _ in 0..10_000 {
        assert!(framer.push(&[b'x'; 1000]).is_empty());
    }
    assert!(framer.line.capacity() < 10_000 && framer.data.is_none());
}

#[test]
fn f_041_a_stream_cut_at_each_byte_gives_only_whole_events() {
    let session = b"\xEF\xBB\xBFid: 1\ndata: {\"a\":1}\n\n: x\r\nid: 2\r\ndata: {\"b\":2}\r\n\r\nretry: 10\ndata: c\n\n";
    let (whole, _) = all(1000, &[session]);
    for cut in 0..=session.len() {
        let (events, framer) = all(1000, &[&session[..cut]]);
        assert_eq!(events, whole[..events.len()], "cut at {cut}");
        // The id is that of the last event that was given out.
        let expected = ["", "1", "2", "2"][events.len()];
        assert_eq!(framer.last_event_id().unwrap_or_default(), expected.as_bytes(), "cut at {cut}");
    }
    assert_eq!(whole.len(), 3);
}

proptest! {
    #[test]
    fn f_041_chunks_make_no_difference(
        bytes in prop::collection::vec(
            prop::sample::select(b"\n\r:; adeivntyr0\xEF\xBB\xBF\0".to_vec()), 0..200),
        cuts in prop::collection::vec(0_usize..200, 0..8),
        limit in 1_usize..60,
    ) {
        let whole = all(limit, &[&bytes]);
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.sort_unstable();
        let mut chunks = Vec::new();
        let mut start = 0;
        for cut in cuts {
            chunks.push(&bytes[start..cut]);
            start = cut;
        }
        chunks.push(&bytes[start..]);
        let parts = all(limit, &chunks);
        prop_assert_eq!(whole.1.last_event_id(), parts.1.last_event_id());
        prop_assert_eq!(whole.1.retry(), parts.1.retry());
        prop_assert_eq!(shape(whole.0), shape(parts.0));
    }
}

/// What has to be the same; where an event becomes too long may depend on the chunk.
fn shape(events: Vec<Event>) -> Vec<Option<Event>> {
    events.into_iter().map(|event| matches!(event, Event::Message { .. }).then_some(event)).collect()
}
