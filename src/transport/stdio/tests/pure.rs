use std::time::{Duration, Instant};

use super::super::exit::signal_name;
use super::super::process_table::{find_marker, is_living, parse_stat};
use super::super::shutdown::{LEFTOVER_KILL, LEFTOVER_TERM, Order, Progress, Urgency};
use super::super::{CloseStep, ShutdownTimes};

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Walks a timetable from event to event and notes when which step is due.
fn walk(progress: &mut Progress, start: Instant) -> Vec<(u64, CloseStep)> {
    let mut steps = Vec::new();
    let mut now = start;
    loop {
        if let Some(step) = progress.due(now) {
            let at = u64::try_from(now.duration_since(start).as_millis()).expect("small");
            steps.push((at, step));
        }
        match progress.until_next(now) {
            Some(wait) => now += wait,
            None => return steps,
        }
    }
}

fn ordered(urgency: Urgency, given: Instant) -> Order {
    Order { urgency, times: ShutdownTimes::default(), given }
}

#[test]
fn std_04_graceful_and_fast_follow_their_timetables() {
    let cases = [
        (
            Urgency::Graceful,
            vec![(0, CloseStep::InputEnd), (2000, CloseStep::Terminate), (4000, CloseStep::Kill)],
        ),
        (
            Urgency::Fast,
            vec![(0, CloseStep::Interrupt), (500, CloseStep::Terminate), (1000, CloseStep::Kill)],
        ),
        (Urgency::Now, vec![(0, CloseStep::Kill)]),
    ];
    for (urgency, expected) in cases {
        let start = Instant::now();
        let mut progress = Progress::new();
        progress.order(ordered(urgency, start));
        assert_eq!(walk(&mut progress, start), expected, "{urgency:?}");
    }
}

#[test]
fn std_04_the_report_is_due_within_five_seconds_by_default() {
    for urgency in [Urgency::Graceful, Urgency::Fast, Urgency::Now] {
        assert!(ordered(urgency, Instant::now()).limit() < Duration::from_secs(5), "F-017: {urgency:?}");
    }
}

#[test]
fn std_04_all_times_are_options_and_huge_ones_do_not_overflow() {
    let start = Instant::now();
    let times = ShutdownTimes { grace: ms(10), term: ms(20), ..ShutdownTimes::default() };
    let mut progress = Progress::new();
    progress.order(Order { urgency: Urgency::Graceful, times, given: start });
    let expected = [(0, CloseStep::InputEnd), (10, CloseStep::Terminate), (30, CloseStep::Kill)];
    assert_eq!(walk(&mut progress, start), expected);
    let times =
        ShutdownTimes { grace: Duration::MAX, term: Duration::MAX, fast_int: ms(1), fast_term: ms(2) };
    let mut progress = Progress::new();
    progress.order(Order { urgency: Urgency::Graceful, times, given: start });
    assert_eq!(progress.due(start + ms(50_000)), Some(CloseStep::InputEnd));
}

#[test]
fn a2_what_a_leader_leaves_behind_is_ended_without_any_order() {
    let start = Instant::now();
    let mut progress = Progress::new();
    progress.leader_ended(start);
    assert_eq!(progress.due(start), None);
    let mut progress = Progress::new();
    progress.leader_ended(start);
    let at = |wait: Duration| u64::try_from(wait.as_millis()).expect("small");
    let expected = [(at(LEFTOVER_TERM), CloseStep::Terminate), (at(LEFTOVER_KILL), CloseStep::Kill)];
    assert_eq!(walk(&mut progress, start), expected);
}

#[test]
fn std_04_a_stronger_order_replaces_a_weaker_one_and_never_the_other_way() {
    let start = Instant::now();
    let mut progress = Progress::new();
    progress.order(ordered(Urgency::Graceful, start));
    assert_eq!(progress.due(start), Some(CloseStep::InputEnd));
    progress.order(ordered(Urgency::Fast, start + ms(1000)));
    assert_eq!(progress.due(start + ms(1000)), Some(CloseStep::Interrupt));
    progress.order(ordered(Urgency::Graceful, start + ms(1100)));
    assert_eq!(progress.due(start + ms(1500)), Some(CloseStep::Terminate));
    assert_eq!(progress.due(start + ms(1600)), None, "each step once");
    progress.order(ordered(Urgency::Now, start + ms(1700)));
    assert_eq!(progress.due(start + ms(1700)), Some(CloseStep::Kill));
    assert_eq!(progress.until_next(start + ms(1700)), None);
}

#[test]
fn process_table_lines_are_read_whatever_the_name_holds() {
    type Case = (&'static [u8], Option<(u8, u32)>);
    let cases: [Case; 6] = [
        (b"17 (sh) S 1 42 42 0 -1", Some((b'S', 42))),
        (b"17 (a) b (c)) Z 1 7 7 0", Some((b'Z', 7))),
        (b"17 (\xff\xfe) R 1 9 9 0", Some((b'R', 9))),
        (b"17 (sh) S 1", None),
        (b"17 (sh)", None),
        (b"", None),
    ];
    for (line, expected) in cases {
        assert_eq!(parse_stat(line), expected, "{}", String::from_utf8_lossy(line));
    }
    assert!(is_living(b'S') && is_living(b'D') && is_living(b'T'));
    assert!(!is_living(b'Z') && !is_living(b'X'));
}

#[test]
fn a_marker_is_found_only_as_a_variable_of_its_own() {
    assert_eq!(find_marker(b"A=b\0MCP_SWITCHBOARD_PROCESS=x-1\0C=d\0").as_deref(), Some("x-1"));
    assert_eq!(find_marker(b"A=MCP_SWITCHBOARD_PROCESS=x-1\0"), None);
    assert_eq!(find_marker(b"MCP_SWITCHBOARD_PROCESSES=x\0"), None);
    assert_eq!(find_marker(b""), None);
}

#[test]
fn signals_have_their_usual_names() {
    for (number, name) in [(9, "SIGKILL"), (15, "SIGTERM"), (11, "SIGSEGV"), (2, "SIGINT"), (64, "SIG64")] {
        assert_eq!(signal_name(number), name);
    }
}
