//! Any order of calls, answers, repeated answers, cancellations, timeouts, lost connections and new ones: every call
//! settles exactly once, with its own answer, from its own generation.

use proptest::prelude::*;

use super::*;

/// What may happen next. Numbers choose among the requests that a server has seen.
#[derive(Clone, Debug)]
enum Step {
    Call,
    Answer(usize),
    AnswerAgain(usize),
    Fail(usize),
    Stray(u64),
    Cancel(usize),
    Wait(u64),
    Lose,
    Close,
    /// A word of a server that was left, about a request whose number may live again.
    FromThePast(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Call),
        4 => (0_usize..64).prop_map(Step::Answer),
        2 => (0_usize..64).prop_map(Step::AnswerAgain),
        1 => (0_usize..64).prop_map(Step::Fail),
        1 => (0_u64..40).prop_map(Step::Stray),
        2 => (0_usize..64).prop_map(Step::Cancel),
        1 => (1_u64..70).prop_map(Step::Wait),
        1 => Just(Step::Lose),
        1 => Just(Step::Close),
        2 => (0_usize..64).prop_map(Step::FromThePast),
    ]
}

type Call = tokio::task::JoinHandle<Result<Value, McpError>>;

/// The world as the test sees it: the present generation, those before it, and every call.
struct Model {
    stage: Stage,
    client: Arc<Client>,
    generation: u64,
    /// Requests the present server has seen, with the number of their call.
    seen: Vec<Heard>,
    past: Vec<(Stage, Vec<Heard>)>,
    calls: Vec<(u64, Option<Call>)>,
}

impl Model {
    async fn new() -> Self {
        let mut stage = Stage::new(&[]);
        let client = stage.legacy().await;
        Self { stage, client, generation: 1, seen: Vec::new(), past: Vec::new(), calls: Vec::new() }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Call => {
                let number = self.calls.len();
                let params = format!(r#"{{"name":"t","arguments":{{"number":{number}}}}}"#);
                self.calls.push((self.generation, Some(call_of(&self.client, "tools/call", &params))));
                self.seen.push(self.stage.peer.expect("tools/call").await);
            }
            Step::Answer(which) | Step::AnswerAgain(which) => {
                if let Some(request) = pick(&self.seen, which) {
                    self.stage.peer.reply(request, &result(request, self.generation));
                    if matches!(step, Step::AnswerAgain(_)) {
                        self.stage.peer.reply(request, &json!({"twice": true}));
                    }
                }
            }
            Step::Fail(which) => {
                if let Some(request) = pick(&self.seen, which) {
                    self.stage.peer.fail(request, -32000, &result(request, self.generation));
                }
            }
            Step::Stray(id) => {
                // Numbers that nobody has used yet: the next calls will.
                let id = id + 1_000;
                self.stage.peer.send(&json!({"jsonrpc": "2.0", "id": id, "result": {"stray": true}}));
            }
            Step::Cancel(which) => {
                let open = self.calls.len();
                if open > 0
                    && let (_, Some(call)) = &self.calls[which % open]
                    && !call.is_finished()
                {
                    call.abort();
                    // The task ends, and the server may be told.
                    tokio::task::yield_now().await;
                }
                self.skip_cancellations().await;
            }
            Step::Wait(seconds) => {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                self.skip_cancellations().await;
            }
            Step::Lose => {
                self.stage.peer.close(ErrorCode::ConnectionLost);
                self.next_generation().await;
            }
            Step::Close => {
                let reason = McpError::new(ErrorCode::ManagerClosed, "closed");
                self.client.close(CloseMode::Fast, reason).await;
                self.next_generation().await;
            }
            Step::FromThePast(which) => {
                if let Some((stage, seen)) = self.past.last()
                    && let Some(request) = pick(seen, which)
                {
                    stage.peer.reply(request, &json!({"past": true}));
                }
            }
        }
    }

    /// Takes what the server was told of calls that nobody waits for.
    async fn skip_cancellations(&mut self) {
        while let Ok(heard) = tokio::time::timeout(Duration::from_millis(1), self.stage.peer.next()).await {
            assert_eq!(heard.0["method"], "notifications/cancelled");
        }
    }

    async fn next_generation(&mut self) {
        let mut stage = Stage::new(&[]);
        self.client = stage.legacy().await;
        let before = std::mem::replace(&mut self.stage, stage);
        self.past.push((before, std::mem::take(&mut self.seen)));
        self.generation += 1;
    }

    /// Everything ends; then every call has settled, each once and with what is its own.
    async fn finish(mut self) {
        self.stage.peer.close(ErrorCode::ConnectionLost);
        for (number, (generation, call)) in self.calls.iter_mut().enumerate() {
            let call = call.take().expect("settles once");
            let settled = tokio::time::timeout(Duration::from_secs(1), call).await;
            match settled.expect("no call stays open") {
                Ok(Ok(value)) => {
                    assert_eq!(value, json!({"number": number, "generation": *generation}));
                }
                Ok(Err(error)) => assert!(
                    matches!(
                        error.code(),
                        ErrorCode::RpcError
                            | ErrorCode::Timeout
                            | ErrorCode::ConnectionLost
                            | ErrorCode::ManagerClosed
                    ),
                    "{error:?}"
                ),
                Err(cancelled) => assert!(cancelled.is_cancelled()),
            }
        }
    }
}

fn pick(seen: &[Heard], which: usize) -> Option<&Heard> {
    (!seen.is_empty()).then(|| &seen[which % seen.len()])
}

fn result(request: &Heard, generation: u64) -> Value {
    json!({"number": request.params()["arguments"]["number"], "generation": generation})
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn q1_b_090_every_call_settles_once_and_no_answer_crosses_generations(
        steps in proptest::collection::vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let mut model = Model::new().await;
            for step in steps {
                model.take(step).await;
            }
            model.finish().await;
        });
    }
}
