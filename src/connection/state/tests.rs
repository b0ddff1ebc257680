//! Every pair of state and event, the delays, and any order of events.

use super::*;
use crate::connection::status::PublicState;
use crate::error::ErrorCode;

fn error() -> McpError {
    McpError::new(ErrorCode::ConnectFailed, "refused")
}

fn go(state: State, event: Event, now: Instant) -> (State, Vec<Effect>) {
    step(state, event, now, Backoff::default(), 0.0)
}

fn name(state: &State) -> &'static str {
    match state {
        State::Idle => "idle",
        State::Opening { .. } => "opening",
        State::Ready { .. } => "ready",
        State::Waiting { .. } => "waiting",
        State::Failed { .. } => "failed",
        State::NeedsAuth { .. } => "needs-auth",
        State::Disabled => "disabled",
        State::Closed => "closed",
    }
}

/// Every pair of state and event: the state after it and the effects.
#[test]
#[expect(clippy::too_many_lines, reason = "a table of every pair")]
fn lif_01_every_pair() {
    use Effect::{AbandonOpening as Abandon, CloseClient, Open};
    let now = Instant::now();
    let later = now + Duration::from_secs(100);
    let states = || {
        [
            State::Idle,
            State::Opening { tries: 1, trips: 0 },
            State::Ready { since: now, tries: 1, trips: 0 },
            State::Waiting { tries: 1, until: now, error: error() },
            State::Failed { error: error(), retry_at: now, trips: 0 },
            State::NeedsAuth { error: error() },
            State::Disabled,
            State::Closed,
        ]
    };
    let events = [
        Event::Use,
        Event::Open,
        Event::Opened,
        Event::OpenFailed(FailureKind::Passing, error()),
        Event::OpenFailed(FailureKind::Lasting, error()),
        Event::OpenFailed(FailureKind::Challenge, error()),
        Event::Lost(error()),
        Event::Timer,
        Event::Release,
        Event::Disable,
        Event::Enable,
        Event::Close,
        Event::Tripped(error()),
        Event::Wake,
    ];
    let same = |of: &'static str| (of, vec![]);
    let open = || ("opening", vec![Open]);
    let expected: Vec<Vec<(&str, Vec<Effect>)>> = vec![
        vec![
            open(),
            open(),
            same("idle"),
            same("idle"),
            same("idle"),
            same("idle"),
            same("idle"),
            same("idle"),
            same("idle"),
            same("disabled"),
            same("idle"),
            same("closed"),
            same("idle"),
            same("idle"),
        ],
        vec![
            same("opening"),
            ("opening", vec![Abandon, Open]),
            same("ready"),
            same("waiting"),
            same("failed"),
            same("needs-auth"),
            same("opening"),
            same("opening"),
            ("idle", vec![Abandon]),
            ("disabled", vec![Abandon]),
            same("opening"),
            ("closed", vec![Abandon]),
            same("opening"),
            same("opening"),
        ],
        vec![
            same("ready"),
            ("opening", vec![CloseClient, Open]),
            same("ready"),
            same("ready"),
            same("ready"),
            same("ready"),
            ("waiting", vec![CloseClient]),
            same("ready"),
            ("idle", vec![CloseClient]),
            ("disabled", vec![CloseClient]),
            same("ready"),
            ("closed", vec![CloseClient]),
            ("failed", vec![CloseClient]),
            same("ready"),
        ],
        vec![
            same("waiting"),
            open(),
            same("waiting"),
            same("waiting"),
            same("waiting"),
            same("waiting"),
            same("waiting"),
            open(),
            same("idle"),
            same("disabled"),
            same("waiting"),
            same("closed"),
            same("waiting"),
            open(),
        ],
        vec![
            open(),
            open(),
            same("failed"),
            same("failed"),
            same("failed"),
            same("failed"),
            same("failed"),
            same("failed"),
            same("idle"),
            same("disabled"),
            same("failed"),
            same("closed"),
            same("failed"),
            same("failed"),
        ],
        vec![
            same("needs-auth"),
            open(),
            same("needs-auth"),
            same("needs-auth"),
            same("needs-auth"),
            same("needs-auth"),
            same("needs-auth"),
            same("needs-auth"),
            same("idle"),
            same("disabled"),
            same("needs-auth"),
            same("closed"),
            same("needs-auth"),
            same("needs-auth"),
        ],
        vec![
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("disabled"),
            same("idle"),
            same("closed"),
            same("disabled"),
            same("disabled"),
        ],
        vec![("closed", vec![]); 14],
    ];
    for (state_number, row) in expected.iter().enumerate() {
        for (event_number, (after, effects)) in row.iter().enumerate() {
            let before = states()[state_number].clone();
            let event = events[event_number].clone();
            let (state, done) = go(before.clone(), event.clone(), later);
            assert_eq!((name(&state), &done), (*after, effects), "{} + {event:?}", name(&before));
        }
    }
}

#[test]
fn lif_04_delays_and_giving_up() {
    let mut now = Instant::now();
    let mut state = State::Idle;
    let mut delays = Vec::new();
    state = go(state, Event::Use, now).0;
    loop {
        state = go(state, Event::OpenFailed(FailureKind::Passing, error()), now).0;
        let State::Waiting { until, .. } = state else { break };
        delays.push((until - now).as_secs());
        assert_eq!(name(&go(state.clone(), Event::Timer, until - Duration::from_millis(1)).0), "waiting");
        now = until;
        state = go(state, Event::Timer, now).0;
    }
    assert_eq!(delays, [1, 2, 4, 8, 16]);
    let State::Failed { error, retry_at, .. } = &state else { panic!("{state:?}") };
    assert_eq!(error.code(), ErrorCode::RetriesExhausted);
    assert_eq!(*retry_at, now + FAILED_RETRY);
    assert_eq!(name(&go(state.clone(), Event::Use, now).0), "failed", "not more often than every 30 s");
    let State::Opening { tries, .. } = go(state, Event::Use, now + FAILED_RETRY).0 else { panic!() };
    let (again, _) = go(
        State::Opening { tries, trips: 0 },
        Event::OpenFailed(FailureKind::Passing, super::tests::error()),
        now,
    );
    assert_eq!(name(&again), "failed", "in failed, use tries once");
}

#[test]
fn lif_04_a_fresh_start_while_connecting_forgets_the_tries() {
    let (state, effects) = go(State::Opening { tries: 4, trips: 2 }, Event::Open, Instant::now());
    assert!(matches!(state, State::Opening { tries: 1, trips: 0 }));
    assert_eq!(effects, [Effect::AbandonOpening, Effect::Open]);
}

#[test]
fn lif_04_a_short_lived_connection_does_not_reset_the_count() {
    let now = Instant::now();
    let ready = State::Ready { since: now, tries: 4, trips: 0 };
    let soon = now + Duration::from_secs(9);
    let State::Waiting { tries: 4, until, .. } = go(ready.clone(), Event::Lost(error()), soon).0 else {
        panic!()
    };
    assert_eq!(until - soon, Duration::from_secs(8));
    let late = now + PROVEN_AFTER;
    let State::Waiting { tries: 1, until, .. } = go(ready, Event::Lost(error()), late).0 else { panic!() };
    assert_eq!(until - late, Duration::from_secs(1));
}

#[test]
fn lif_04_without_new_tries_the_next_use_counts_from_the_last_attempt() {
    let since = Instant::now();
    let backoff = Backoff { attempts: 0, ..Backoff::default() };
    let lost =
        |now| step(State::Ready { since, tries: 1, trips: 0 }, Event::Lost(error()), now, backoff, 0.0).0;
    let late = since + Duration::from_secs(60);
    let State::Opening { .. } = step(lost(late), Event::Use, late, backoff, 0.0).0 else {
        panic!("a server that ran for a minute may be used again at once")
    };
    let soon = since + Duration::from_secs(2);
    let State::Failed { retry_at, .. } = step(lost(soon), Event::Use, soon, backoff, 0.0).0 else { panic!() };
    assert_eq!(retry_at, since + FAILED_RETRY);
}

#[test]
fn sse_02_the_pause_a_server_asks_for_counts_once() {
    let now = Instant::now();
    let after = |tries, millis| {
        let error = error().with(|facts| facts.retry_after = Some(Duration::from_millis(millis)));
        let State::Waiting { until, .. } =
            go(State::Ready { since: now, tries, trips: 0 }, Event::Lost(error), now).0
        else {
            panic!()
        };
        (until - now).as_millis()
    };
    assert_eq!(after(1, 300), 300, "shorter than our own");
    assert_eq!(after(1, 7_000), 7_000, "longer than our own");
    assert_eq!(after(1, 0), 100);
    assert_eq!(after(3, 300), 4_000, "failures do not get cheap");
    assert_eq!(after(3, 60_000), 60_000);
}

#[test]
fn f_047_a_busy_server_is_left_alone_as_long_as_it_asks_for() {
    let now = Instant::now();
    let busy = || error().with(|facts| facts.retry_after = Some(Duration::from_secs(60)));
    let failed = |tries| {
        go(State::Opening { tries, trips: 0 }, Event::OpenFailed(FailureKind::Passing, busy()), now).0
    };
    for tries in 1..=5 {
        let State::Waiting { until, .. } = failed(tries) else { panic!("{tries}") };
        assert_eq!(until - now, Duration::from_secs(60), "{tries}");
    }
    let State::Failed { retry_at, .. } = failed(6) else { panic!() };
    assert_eq!(retry_at - now, Duration::from_secs(60));
    let ready = State::Ready { since: now, tries: 1, trips: 0 };
    let State::Failed { retry_at, .. } = go(ready, Event::Tripped(busy()), now).0 else { panic!() };
    assert_eq!(retry_at - now, Duration::from_secs(60));
}

#[test]
fn cal_01_a_forgotten_session_is_renewed_at_once_but_not_for_ever() {
    let now = Instant::now();
    let forgotten = || Event::Lost(McpError::new(ErrorCode::SessionExpired, ""));
    let (state, effects) = go(State::Ready { since: now, tries: 1, trips: 0 }, forgotten(), now);
    assert!(matches!(state, State::Opening { tries: 2, .. }));
    assert_eq!(effects, [Effect::CloseClient, Effect::Open]);
    let (state, _) = go(State::Ready { since: now, tries: 6, trips: 0 }, forgotten(), now);
    assert_eq!(name(&state), "failed");
}

#[test]
fn lif_04_lif_05_an_open_circuit_is_tried_later_and_later() {
    let mut now = Instant::now();
    let mut state = State::Ready { since: now, tries: 1, trips: 0 };
    state = go(state, Event::Tripped(error()), now).0;
    let mut pauses = Vec::new();
    for _ in 0..6 {
        let State::Failed { error: shown, retry_at, .. } = &state else { panic!("{state:?}") };
        assert_eq!(shown.code(), ErrorCode::CircuitOpen);
        let retry_at = *retry_at;
        pauses.push((retry_at - now).as_secs());
        let early = retry_at - Duration::from_millis(1);
        for event in [Event::Use, Event::Timer] {
            assert_eq!(name(&go(state.clone(), event, early).0), "failed", "nobody gets through");
        }
        now = retry_at;
        let (trial, effects) = go(state, Event::Timer, now);
        assert_eq!((name(&trial), effects), ("opening", vec![Effect::Open]), "by itself");
        state = go(trial, Event::OpenFailed(FailureKind::Passing, error()), now).0;
    }
    assert_eq!(pauses, [30, 60, 120, 240, 300, 300]);
}

#[test]
fn lif_05_a_trial_that_trips_again_at_once_doubles_the_pause_a_proven_one_starts_over() {
    let now = Instant::now();
    let ready = State::Ready { since: now, tries: 1, trips: 2 };
    let pause = |at: Instant| match go(ready.clone(), Event::Tripped(error()), at).0 {
        State::Failed { retry_at, .. } => (retry_at - at).as_secs(),
        other => panic!("{other:?}"),
    };
    assert_eq!(pause(now), 120);
    assert_eq!(pause(now + PROVEN_AFTER), 30);
}

/// LIF-01, as written there.
const TRANSITIONS: [(&str, &str); 13] = [
    ("pending", "connected"),
    ("pending", "failed"),
    ("pending", "needs-auth"),
    ("pending", "disabled"),
    ("connected", "failed"),
    ("connected", "needs-auth"),
    ("connected", "disabled"),
    ("connected", "pending"),
    ("failed", "pending"),
    ("failed", "disabled"),
    ("needs-auth", "pending"),
    ("needs-auth", "disabled"),
    ("disabled", "pending"),
];

/// What a model of the world around may do in a moment.
fn random_event() -> impl proptest::strategy::Strategy<Value = (Event, u64)> {
    use proptest::prelude::*;
    let event = prop_oneof![
        Just(Event::Use),
        Just(Event::Open),
        Just(Event::Opened),
        Just(Event::OpenFailed(FailureKind::Passing, error())),
        Just(Event::OpenFailed(FailureKind::Lasting, error())),
        Just(Event::OpenFailed(FailureKind::Challenge, error())),
        Just(Event::Lost(error())),
        Just(Event::Lost(McpError::new(ErrorCode::SessionExpired, ""))),
        Just(Event::Tripped(error())),
        Just(Event::Wake),
        Just(Event::Timer),
        Just(Event::Release),
        Just(Event::Disable),
        Just(Event::Enable),
        Just(Event::Close),
    ];
    (event, 0_u64..40_000)
}

proptest::proptest! {
    /// Whatever happens in whatever order: at most one attempt and one client at a time, each is ended
    /// before the next begins, transitions are those of LIF-01, and waiting has an end.
    #[test]
    fn lif_01_any_order_of_events(events in proptest::collection::vec(random_event(), 1..80)) {
        let mut now = Instant::now();
        let (mut opening, mut client) = (false, false);
        let mut state = State::Idle;
        for (event, millis) in events {
            now += Duration::from_millis(millis);
            let before = state.clone();
            // The supervisor tells of an attempt and a client only while it has one.
            match &event {
                Event::Opened | Event::OpenFailed(..) if !opening => continue,
                Event::Lost(_) | Event::Tripped(_) if !client => continue,
                Event::Opened => (opening, client) = (false, true),
                Event::OpenFailed(..) => opening = false,
                _ => {}
            }
            let (after, effects) = go(before.clone(), event, now);
            for effect in effects {
                match effect {
                    Effect::CloseClient => assert!(std::mem::take(&mut client), "ends what there is"),
                    Effect::AbandonOpening => assert!(std::mem::take(&mut opening), "stops what there is"),
                    Effect::Open => assert!(!std::mem::replace(&mut opening, true) && !client, "one only"),
                }
            }
            assert_eq!((opening, client), match &after {
                State::Opening { .. } => (true, false),
                State::Ready { .. } => (false, true),
                _ => (false, false),
            }, "{} -> {}", name(&before), name(&after));
            if let State::Waiting { until, .. } = &after {
                assert!(*until <= now + Duration::from_secs(30));
            }
            if let State::Failed { retry_at, .. } = &after {
                assert!(*retry_at <= now + CIRCUIT_PAUSES.1);
            }
            assert!(matches!(before, State::Closed) <= matches!(after, State::Closed), "closed stays");
            let (from, to) = (PublicState::of(&before).as_str(), PublicState::of(&after).as_str());
            let allowed = from == to || matches!(after, State::Closed) || TRANSITIONS.contains(&(from, to));
            assert!(allowed, "{from} -> {to}");
            state = after;
        }
    }
}
