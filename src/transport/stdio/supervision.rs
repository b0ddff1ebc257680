//! The task that watches one server from its start to the end of its last member.
//!
//! Owns the only place where a server is reaped. It carries out what [`super::shutdown::Progress`] decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::exit::ExitWatch;
use super::process_group::Presence;
use super::server_process::Shared;
use super::shutdown::{Order, Progress};
use super::{CloseReport, CloseStep, strays};

/// After the leader's end its last words are awaited this long; a grandchild may hold the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(50);

/// First and longest pause between two looks at a group without leader.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// Pause between looks while the leader lives; its end is told, so this only catches a lost notice.
const LEADER_LOOK: Duration = Duration::from_secs(5);

/// Stack of the thread that ends what a stopped runtime left.
const UNDERTAKER_STACK: usize = 128 * 1024;

/// The undertaker gives up after this long.
const BURIAL: Duration = Duration::from_secs(5);

/// Watches one server.
pub(super) struct Supervisor {
    /// Whatever stops the task, the group does not outlive it.
    owed: Owed,
    shared: Arc<Shared>,
    watch: ExitWatch,
    orders: watch::Receiver<Option<Order>>,
    progress: Progress,
    stderr: Option<JoinHandle<()>>,
}

impl Supervisor {
    pub(super) fn new(
        owed: Owed,
        shared: Arc<Shared>,
        watch: ExitWatch,
        stderr: Option<JoinHandle<()>>,
    ) -> Self {
        Self { owed, watch, orders: shared.order.subscribe(), progress: Progress::new(), stderr, shared }
    }

    /// Ends with the group.
    pub(super) async fn run(mut self) {
        self.until_leader_ends().await;
        self.until_group_ends().await;
        self.finish().await;
    }

    async fn until_leader_ends(&mut self) {
        let mut watching = true;
        let exit = loop {
            self.take_due_steps();
            if let Some(exit) = self.shared.group.leader_exit() {
                break exit;
            }
            let pause = if watching { LEADER_LOOK } else { LOOKS.1 / 10 };
            let pause = self.until_next_step().unwrap_or(pause).min(pause);
            tokio::select! {
                () = self.watch.ended(), if watching => watching = false,
                () = next_order(&mut self.orders) => {}
                () = tokio::time::sleep(pause) => {}
            }
        };
        self.progress.leader_ended(Instant::now());
        if let Some(stderr) = &mut self.stderr {
            let _ = tokio::time::timeout(LAST_WORDS, stderr).await;
        }
        self.shared.exit.send_replace(Some(exit));
    }

    async fn until_group_ends(&mut self) {
        let mut pause = LOOKS.0;
        loop {
            match self.shared.group.presence(Instant::now()) {
                Presence::Gone | Presence::Unknown => return,
                Presence::Living(_) => self.take_due_steps(),
            }
            let wait = self.until_next_step().unwrap_or(pause).min(pause);
            tokio::select! {
                () = next_order(&mut self.orders) => {}
                () = tokio::time::sleep(wait) => {}
            }
            let settled = self.progress.taken() == CloseStep::Kill;
            pause = (pause * 2).min(if settled { LOOKS.1 } else { LOOKS.1 / 20 });
        }
    }

    fn take_due_steps(&mut self) {
        if let Some(order) = *self.orders.borrow_and_update() {
            self.progress.order(order);
        }
        if let Some(step) = self.progress.due(Instant::now()) {
            self.shared.group.take(step);
            if step == CloseStep::Kill {
                strays::kill(std::iter::once(self.shared.marker.as_str()));
            }
        }
        self.give_verdict_when_late();
    }

    fn until_next_step(&self) -> Option<Duration> {
        let verdict =
            self.progress.order_given().map(|order| order.limit().saturating_sub(order.given.elapsed()));
        let verdict = verdict.filter(|wait| !wait.is_zero());
        self.progress.until_next(Instant::now()).into_iter().chain(verdict).min()
    }

    /// A process that even SIGKILL does not end (it hangs in the kernel, it belongs to someone else) must not
    /// keep the caller waiting.
    fn give_verdict_when_late(&self) {
        let late = self.progress.order_given().is_some_and(|order| order.given.elapsed() >= order.limit());
        if late && self.shared.report.borrow().is_none() {
            self.report(strays::Swept { survivors: self.shared.members(), ..Default::default() }, false);
        }
    }

    fn report(&self, swept: strays::Swept, group_ended: bool) {
        self.shared.report.send_replace(Some(CloseReport {
            step: self.progress.taken(),
            exit: self.shared.exit.borrow().clone().or_else(|| self.shared.group.leader_exit()),
            strays: swept.ended,
            complete: group_ended && swept.survivors.is_empty(),
            survivors: swept.survivors,
        }));
    }

    async fn finish(mut self) {
        self.owed.settle();
        let urgent = self.progress.taken() >= CloseStep::Interrupt;
        let swept = strays::sweep(&self.shared.marker, urgent).await;
        if let Some(stderr) = self.stderr.take() {
            stderr.abort();
        }
        if self.shared.report.borrow().is_none() {
            self.report(swept, true);
        }
    }
}

async fn next_order(orders: &mut watch::Receiver<Option<Order>>) {
    if orders.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// A group whose end is still owed. Dropped unsettled (a start that failed half way, a runtime that stops), it
/// kills the group at once and leaves the reaping to a thread.
pub(super) struct Owed(Option<Arc<Shared>>);

impl Owed {
    /// Takes on a group that was just born.
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        shared.group.dies_with_the_host();
        Self(Some(Arc::clone(shared)))
    }

    fn settle(&mut self) {
        if let Some(shared) = self.0.take() {
            shared.group.reap();
        }
    }
}

impl Drop for Owed {
    fn drop(&mut self) {
        let Some(shared) = self.0.take() else { return };
        shared.group.take(CloseStep::Kill);
        // Without a thread the leader stays unreaped: a zombie, whose number nobody else can get.
        let _ = std::thread::Builder::new()
            .name("mcp-undertaker".to_owned())
            .stack_size(UNDERTAKER_STACK)
            .spawn(move || bury(&shared));
    }
}

fn bury(shared: &Shared) {
    shared.group.block_until_leader_ends();
    let exit = shared.group.leader_exit();
    shared.exit.send_if_modified(|known| {
        let news = known.is_none();
        if news {
            *known = exit;
        }
        news
    });
    let began = Instant::now();
    while matches!(shared.group.presence(Instant::now()), Presence::Living(_)) && began.elapsed() < BURIAL {
        shared.group.take(CloseStep::Kill);
        std::thread::sleep(LOOKS.0);
    }
    strays::kill(std::iter::once(shared.marker.as_str()));
    shared.group.reap();
}
