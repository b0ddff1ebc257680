use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::super::death_link::DeathLink;
use super::super::{CloseMode, ShutdownTimes};
use super::{Output, alive, alone, run, shell};

const HOST: &str = "MCP_SWITCHBOARD_TEST_HOST";

const SERVERS: usize = 5;

/// Deaf to the end of input and to every signal that can be ignored, with grandchildren, one of them in a
/// session of its own; tells all numbers on one line.
const DEAF: &str = "trap '' HUP INT TERM; sleep 1000 & a=$!; sleep 1000 & b=$!; setsid sleep 1000 & \
                    echo $$ $a $b $!; while :; do sleep 1000; done";

/// Not a test of its own: run by [`host`] in another process, it is a host with servers.
#[test]
fn host_fixture() {
    let Ok(mode) = std::env::var(HOST) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let held = runtime.as_ref().expect("a runtime").block_on(async {
        let mut held = Vec::new();
        for _ in 0..SERVERS {
            let spawned = run(&shell(DEAF));
            let mut output = Output::of(spawned.stdout);
            println!("\nSERVER {}", output.line().await);
            held.push((spawned.stdin, output, spawned.process));
        }
        held
    });
    println!("LINK {}", super::super::death_link::program().expect("it runs"));
    println!("READY");
    match mode.as_str() {
        "exit" => std::process::exit(3),
        "abort" => std::process::abort(),
        _ => std::thread::sleep(Duration::from_secs(60)),
    }
    drop(held);
}

struct Host {
    child: Child,
    members: Vec<u32>,
    link: u32,
}

/// A test that fails leaves nobody either.
impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for member in self.members.iter().filter(|member| alive(**member)) {
            let _ = kill_process(pid(*member), Signal::KILL);
        }
    }
}

fn host(mode: &str) -> Host {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "transport::stdio::tests::death::host_fixture", "--nocapture", "--test-threads=1"])
        .env(HOST, mode)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the host starts");
    let mut members = Vec::new();
    let mut link_program = 0;
    let output = BufReader::new(child.stdout.take().expect("piped"));
    for line in output.lines() {
        let line = line.expect("readable");
        if let Some(numbers) = line.strip_prefix("SERVER ") {
            members.extend(numbers.split(' ').map(|number| number.parse::<u32>().expect("a number")));
        } else if let Some(number) = line.strip_prefix("LINK ") {
            link_program = number.parse().expect("a number");
        } else if line == "READY" {
            break;
        }
    }
    assert_eq!(members.len(), SERVERS * 4, "the host is up");
    Host { child, members, link: link_program }
}

fn pid(number: u32) -> Pid {
    Pid::from_raw(i32::try_from(number).expect("small")).expect("a pid")
}

fn wait_until(what: &str, within: Duration, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < within, "{what}: not within {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn all_gone(host: &Host) {
    wait_until("STD-05: servers, grandchildren and strays are gone", Duration::from_secs(2), || {
        host.members.iter().all(|member| !alive(*member))
    });
    wait_until("the death-link ends with its host", Duration::from_secs(2), || !alive(host.link));
}

#[test]
fn f_018_bey_02_a_host_killed_with_sigkill_leaves_nobody() {
    let mut host = host("sleep");
    assert!(host.members.iter().all(|member| alive(*member)), "they live as long as the host");
    host.child.kill().expect("killed");
    all_gone(&host);
}

#[test]
fn std_05_a_host_that_exits_or_aborts_leaves_nobody() {
    for mode in ["exit", "abort"] {
        let mut host = host(mode);
        let _ = host.child.wait();
        all_gone(&host);
    }
}

#[test]
fn std_05_the_death_link_has_its_own_session_and_ignores_what_a_terminal_sends() {
    let mut host = host("sleep");
    let session = rustix::process::getsid(Some(pid(host.link))).expect("it lives");
    if std::path::Path::new("/usr/bin/setsid").exists() {
        assert_eq!(session, pid(host.link));
    }
    for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::QUIT] {
        kill_process(pid(host.link), signal).expect("signalled");
    }
    std::thread::sleep(Duration::from_millis(100));
    assert!(alive(host.link));
    assert_eq!(std::fs::read_link(format!("/proc/{}/cwd", host.link)).expect("readable"), PathBuf::from("/"));
    for (number, target) in [(1, "/dev/null"), (2, "/dev/null")] {
        let link = std::fs::read_link(format!("/proc/{}/fd/{number}", host.link)).expect("readable");
        assert_eq!(link, PathBuf::from(target));
    }
    host.child.kill().expect("killed");
    all_gone(&host);
}

#[test]
fn std_05_a_death_link_that_dies_is_replaced_and_knows_the_groups() {
    let link = Arc::new(DeathLink::new(PathBuf::from("/bin/sh")));
    let mut deaf = Command::new("/bin/sh");
    std::os::unix::process::CommandExt::process_group(&mut deaf, 0);
    let mut deaf = deaf.args(["-c", "trap '' HUP INT TERM; exec sleep 1000"]).spawn().expect("it starts");
    link.remember(deaf.id());
    let first = link.program().expect("it runs");
    kill_process(pid(first), Signal::KILL).expect("killed");
    wait_until("another one runs", Duration::from_secs(5), || {
        link.program().is_some_and(|program| program != first)
    });
    assert!(link.available() && alive(deaf.id()));
    kill_process(pid(link.program().expect("it runs")), Signal::STOP).expect("stopped");
    // A program that does not read fills its pipe; nothing may block.
    let began = Instant::now();
    for number in 0..20_000 {
        link.remember(2_000_000_000 + number % 2);
        link.forget(2_000_000_000 + number % 2);
    }
    assert!(began.elapsed() < Duration::from_secs(5));
    wait_until("it is replaced", Duration::from_secs(10), || {
        link.program()
            .is_some_and(|program| super::state_and_group(program).is_some_and(|(state, _)| state == b'S'))
    });
    link.forget(deaf.id());
    assert_eq!(link.program(), None, "no group, no program");
    deaf.kill().expect("killed");
    deaf.wait().expect("reaped");
}

#[test]
fn std_05_a_group_taken_off_is_left_alone() {
    let link = Arc::new(DeathLink::new(PathBuf::from("/bin/sh")));
    let mut children: Vec<Child> = (0..3)
        .map(|_| {
            let mut command = Command::new("/bin/sleep");
            std::os::unix::process::CommandExt::process_group(&mut command, 0);
            command.arg("1000").spawn().expect("it starts")
        })
        .collect();
    for child in &children {
        link.remember(child.id());
    }
    link.forget(children[1].id());
    link.break_off();
    wait_until("the others are killed", Duration::from_secs(2), || {
        !alive(children[0].id()) && !alive(children[2].id())
    });
    std::thread::sleep(Duration::from_millis(100));
    assert!(alive(children[1].id()), "its number may be a stranger's");
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[test]
fn std_05_without_a_shell_it_is_told_as_not_available() {
    let link = Arc::new(DeathLink::new(PathBuf::from("/no/such/shell")));
    assert!(link.available());
    link.remember(2_000_000_000);
    assert!(!link.available() && link.program().is_none());
    link.forget(2_000_000_000);
}

fn count(folder: &str) -> usize {
    std::fs::read_dir(folder).map(Iterator::count).unwrap_or_default()
}

#[test]
fn f_025_many_starts_and_stops_leave_nothing() {
    if !alone("death::f_025_many_starts_and_stops_leave_nothing") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let cycle = |times: usize| {
        runtime.block_on(async {
            for _ in 0..times {
                let spawned = run(&shell("read -r line"));
                drop(spawned.stdin);
                let report = spawned.process.close(CloseMode::Graceful, &ShutdownTimes::default()).await;
                assert!(report.complete);
            }
        });
        std::thread::sleep(Duration::from_millis(500));
        (count("/proc/self/fd"), count("/proc/self/task"), runtime.metrics().num_alive_tasks())
    };
    let before = cycle(20);
    let after = cycle(300);
    assert_eq!(before, after, "F-025: descriptors, threads, tasks");
    assert_eq!(super::super::death_link::program(), None, "no server, no death-link");
}
