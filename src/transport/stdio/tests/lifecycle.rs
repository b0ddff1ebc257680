use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::super::exit::{ExitWatch, Fate, peek};
use super::super::{CloseMode, CloseStep, ExitLot, ShutdownTimes, Spawned, close_all_now};
use super::{Output, alive, run, shell, survivors};

const SOON: Duration = Duration::from_secs(3);

/// Ignores what can be ignored, has two grandchildren that do too, tells all three numbers.
const DEAF: &str = "trap '' HUP INT TERM; sleep 1000 & echo $!; sh -c 'sleep 1000; :' & echo $!; echo $$; \
                    while :; do sleep 1000; done";

fn quick() -> ShutdownTimes {
    ShutdownTimes {
        grace: Duration::from_millis(200),
        term: Duration::from_millis(200),
        fast_int: Duration::from_millis(100),
        fast_term: Duration::from_millis(200),
    }
}

async fn deaf() -> (Spawned, Vec<u32>) {
    let Spawned { stdin, stdout, process, .. } = run(&shell(DEAF));
    let mut output = Output::of(stdout);
    let members = vec![output.number().await, output.number().await, output.number().await];
    let stdout = output.0.into_inner().into_inner();
    (Spawned { stdin, stdout, process, container: None }, members)
}

#[tokio::test]
async fn std_04_a_server_that_ends_with_its_input_needs_no_signal() {
    let Spawned { stdin, stdout, process, .. } = run(&shell("cat; exit 4"));
    drop(stdin);
    let report = process.close(CloseMode::Graceful, &ShutdownTimes::default()).await;
    assert!(report.step <= CloseStep::InputEnd, "{report:?}");
    assert_eq!(report.exit.and_then(|exit| exit.code), Some(4));
    assert!(report.complete && report.survivors.is_empty());
    assert_eq!(process.exit().and_then(|exit| exit.code), Some(4));
    drop(stdout);
}

#[tokio::test]
async fn a1_a_server_deaf_to_the_end_of_input_gets_sigterm_and_the_report_says_so() {
    let Spawned { stdin, stdout: _stdout, process, .. } = run(&shell("exec sleep 1000"));
    drop(stdin);
    let report = process.close(CloseMode::Graceful, &quick()).await;
    assert_eq!(report.step, CloseStep::Terminate);
    assert_eq!(report.exit.and_then(|exit| exit.signal).as_deref(), Some("SIGTERM"));
    assert!(!alive(process.pid()));
}

#[tokio::test]
async fn f_017_sigterm_ignored_with_default_times_ends_in_sigkill_within_five_seconds() {
    let (Spawned { stdin, stdout: _stdout, process, .. }, members) = deaf().await;
    drop(stdin);
    let began = Instant::now();
    let report = process.close(CloseMode::Graceful, &ShutdownTimes::default()).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(began.elapsed() >= Duration::from_secs(4), "both waits are kept: {:?}", began.elapsed());
    assert_eq!(report.step, CloseStep::Kill);
    assert_eq!(report.exit.and_then(|exit| exit.signal).as_deref(), Some("SIGKILL"));
    assert!(report.complete);
    assert_eq!(survivors(&members, Duration::ZERO).await, [0; 0], "grandchildren die too");
}

#[tokio::test]
async fn std_04_fast_goes_from_sigint_over_sigterm_to_sigkill() {
    let cases = [
        ("trap 'exit 9' INT; echo up; while :; do sleep 0.05; done", CloseStep::Interrupt),
        ("trap '' INT; trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done", CloseStep::Terminate),
        ("trap '' INT TERM; echo up; while :; do sleep 0.05; done", CloseStep::Kill),
    ];
    for (program, step) in cases {
        let Spawned { stdin: _stdin, stdout, process, .. } = run(&shell(program));
        Output::of(stdout).line().await;
        let began = Instant::now();
        let report = process.close(CloseMode::Fast, &ShutdownTimes::default()).await;
        assert_eq!(report.step, step);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn f_015_a_wrapper_with_grandchildren_leaves_nobody() {
    let Spawned { stdin, stdout, process, .. } = run(&shell("(trap '' TERM; sleep 1000; :) & echo $!; wait"));
    let mut output = Output::of(stdout);
    let grandchild = output.number().await;
    drop(stdin);
    let began = Instant::now();
    let report = process.close(CloseMode::Graceful, &ShutdownTimes::default()).await;
    assert!(report.complete && began.elapsed() < Duration::from_secs(5));
    assert!(!alive(grandchild) && !alive(process.pid()));
}

#[tokio::test]
async fn a2_signals_reach_through_nested_shells() {
    let inner = "sh -c \"sh -c 'sleep 1000 & echo \\$!; wait; :'; :\"; :";
    let Spawned { stdin, stdout, process, .. } = run(&shell(inner));
    let grandchild = Output::of(stdout).number().await;
    drop(stdin);
    let report = process.close(CloseMode::Graceful, &quick()).await;
    assert_eq!(report.step, CloseStep::Terminate);
    assert!(!alive(grandchild));
}

#[tokio::test]
async fn a6_a_grandchild_that_holds_the_pipes_does_not_delay_the_exit_and_is_ended() {
    let Spawned { stdin: _stdin, stdout, process, .. } = run(&shell("sleep 1000 & echo $!; exit 5"));
    let mut output = Output::of(stdout);
    let grandchild = output.number().await;
    let exit =
        tokio::time::timeout(Duration::from_secs(1), process.exited()).await.expect("F-001: told soon");
    assert_eq!(exit.code, Some(5));
    assert_eq!(survivors(&[grandchild], SOON).await, [0; 0], "A3: no order was needed");
    let report = process.close(CloseMode::Graceful, &ShutdownTimes::default()).await;
    assert!(report.complete);
}

#[tokio::test]
async fn a3_a_descendant_with_its_own_session_is_found_by_its_marker() {
    let Spawned { stdin, stdout, process, .. } = run(&shell("setsid sleep 1000 & echo $!; cat"));
    let stray = Output::of(stdout).number().await;
    let began = Instant::now();
    while super::state_and_group(stray).is_some_and(|(_, group)| group == process.pid()) {
        assert!(began.elapsed() < SOON, "it leaves the group");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(stdin);
    let report = process.close(CloseMode::Graceful, &ShutdownTimes::default()).await;
    assert_eq!(report.strays, [stray]);
    assert!(report.complete && !alive(stray));
}

#[tokio::test]
async fn a3_twenty_reconnects_leave_no_detached_process() {
    let mut strays = Vec::new();
    for _ in 0..20 {
        let Spawned { stdin, stdout, process, .. } = run(&shell("setsid sleep 1000 & echo $!; cat"));
        strays.push(Output::of(stdout).number().await);
        drop(stdin);
        process.close(CloseMode::Graceful, &ShutdownTimes::default()).await;
    }
    assert_eq!(survivors(&strays, Duration::ZERO).await, [0; 0]);
}

#[tokio::test]
async fn std_04_callers_share_one_closing_and_it_survives_one_that_gives_up() {
    let (Spawned { stdin, stdout: _stdout, process, .. }, members) = deaf().await;
    drop(stdin);
    let times = quick();
    let given_up =
        tokio::time::timeout(Duration::from_millis(20), process.close(CloseMode::Graceful, &times));
    assert!(given_up.await.is_err());
    let (one, two, exit) = tokio::join!(
        process.close(CloseMode::Graceful, &times),
        process.close(CloseMode::Fast, &times),
        process.exited(),
    );
    assert_eq!(one, two);
    assert_eq!(one.exit, Some(exit));
    assert_eq!(process.close(CloseMode::Graceful, &times).await, one, "idempotent");
    assert_eq!(survivors(&members, Duration::ZERO).await, [0; 0]);
}

#[tokio::test]
async fn exits_are_told_to_any_number_of_waiters_with_code_or_signal() {
    let cases = [("exit 3", Some(3), None), ("kill -SEGV $$", None, Some("SIGSEGV"))];
    for (program, code, signal) in cases {
        let spawned = run(&shell(program));
        let waiters: Vec<_> = (0..10)
            .map(|_| {
                let process = Arc::clone(&spawned.process);
                tokio::spawn(async move { process.exited().await })
            })
            .collect();
        drop(tokio::time::timeout(Duration::ZERO, spawned.process.exited()).await);
        for waiter in waiters {
            let exit = waiter.await.expect("no panic");
            assert_eq!((exit.code, exit.signal.as_deref()), (code, signal));
        }
    }
}

#[tokio::test]
async fn a12_dropping_or_killing_ends_the_whole_group() {
    for kill in [true, false] {
        let (Spawned { stdin: _stdin, stdout: _stdout, process, .. }, members) = deaf().await;
        if kill {
            process.kill_now();
            assert_eq!(process.exited().await.signal.as_deref(), Some("SIGKILL"));
            assert!(process.close(CloseMode::Graceful, &ShutdownTimes::default()).await.complete);
        }
        drop(process);
        assert_eq!(survivors(&members, SOON).await, [0; 0], "F-004");
    }
}

#[tokio::test]
async fn a_stopped_server_is_ended_like_any_other() {
    let Spawned { stdin, stdout, process, .. } =
        run(&shell("trap 'exit 6' TERM; echo up; while :; do sleep 0.05; done"));
    Output::of(stdout).line().await;
    let leader = Pid::from_raw(i32::try_from(process.pid()).expect("small")).expect("a pid");
    kill_process(leader, Signal::STOP).expect("signalled");
    drop(stdin);
    let report = process.close(CloseMode::Graceful, &quick()).await;
    assert_eq!((report.step, report.exit.and_then(|exit| exit.code)), (CloseStep::Terminate, Some(6)));
}

#[test]
fn a_runtime_that_stops_takes_its_servers_along() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("built");
    let (spawned, members) = runtime.block_on(deaf());
    runtime.shutdown_background();
    let began = Instant::now();
    while members.iter().any(|member| alive(*member)) {
        assert!(began.elapsed() < Duration::from_secs(2), "STD-05: worker thread terminated");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(spawned);
}

#[test]
fn std_04_closing_all_at_exit_needs_no_runtime_and_all_owners_end_together() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("built");
    let mut members = Vec::new();
    let mut processes = Vec::new();
    let mut held = Vec::new();
    for _ in 0..3 {
        let (spawned, group) = runtime.block_on(deaf());
        members.extend(group);
        processes.push(Arc::clone(&spawned.process));
        held.push(spawned);
    }
    let began = Instant::now();
    let lots =
        processes.into_iter().map(|process| ExitLot { processes: vec![process], ..ExitLot::default() });
    let left = close_all_now(lots);
    assert!(left.is_empty());
    assert!(began.elapsed() >= Duration::from_secs(1) && began.elapsed() < Duration::from_millis(2800));
    assert!(members.iter().all(|member| !alive(*member)));
    let began = Instant::now();
    let polite = runtime.block_on(async { run(&shell("exec sleep 1000")) });
    let lot = ExitLot { processes: vec![Arc::clone(&polite.process)], ..ExitLot::default() };
    assert!(close_all_now([lot]).is_empty());
    assert!(began.elapsed() < Duration::from_millis(950), "returns as soon as all are gone");
}

#[tokio::test]
async fn an_exit_is_seen_without_process_descriptors_too() {
    let mut child = std::process::Command::new("/bin/sh").args(["-c", "exit 8"]).spawn().expect("it starts");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("small")).expect("a pid");
    let mut watch = ExitWatch::by_thread(pid);
    tokio::time::timeout(SOON, watch.ended()).await.expect("in time");
    assert!(matches!(peek(pid), Fate::Ended(fact) if fact.code == Some(8)), "still there to be reaped");
    assert_eq!(child.wait().expect("reaped").code(), Some(8));
    assert_eq!(peek(pid), Fate::Lost);
}
