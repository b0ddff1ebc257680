//! Tasks of both eras: the core feature of 2025-11-25 and the extension of 2026-07-28, read into one shape
//! (mcp:TASKL-*, mcp:TASK-*). Pure; sends nothing.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;

use super::stateless::{self, InputRequest};
use super::version::Era;
use crate::json_scan::{self, Kind};
use crate::jsonrpc::RpcError;
use crate::jsonrpc::write::push_member;
use crate::unicode::clean_str_lossy;

/// The extension's id, in the capabilities of both sides.
pub const EXTENSION: &str = "io.modelcontextprotocol/tasks";
/// Key of `_meta` that says which task a message belongs to (mcp:TASKL-10).
pub const RELATED_KEY: &str = "io.modelcontextprotocol/related-task";
/// Key of `_meta` with words that the model may be given at once (mcp:TASKL-17).
const IMMEDIATE_KEY: &str = "io.modelcontextprotocol/model-immediate-response";

/// Longest text of a server about a task that is kept.
const LONGEST_MESSAGE: usize = 2_000;
/// Longest id of a task.
const LONGEST_ID: usize = 1_024;

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    /// It runs.
    Working,
    /// It waits for an answer.
    InputRequired,
    /// Its result is there.
    Completed,
    /// It ended with an error, or with a result that reports one (mcp:TASKL-18).
    Failed,
    /// It was given up.
    Cancelled,
}

impl TaskStatus {
    /// The word of the protocol.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Working, Self::InputRequired, Self::Completed, Self::Failed, Self::Cancelled]
            .into_iter()
            .find(|status| status.as_str() == word)
    }

    /// Whether nothing follows.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// What a server says of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskState {
    /// Its id, as the server wrote it.
    pub id: String,
    /// `None` for a word that the protocol does not have.
    pub status: Option<TaskStatus>,
    /// For people, cleaned and cut.
    pub message: Option<String>,
    /// How long to wait before asking again.
    pub poll: Option<Duration>,
    /// How long the server keeps it, from its beginning on.
    pub ttl: Option<Duration>,
}

impl TaskState {
    /// Reads the members of a task; `None` where there is no id or no status.
    pub fn read(task: &str) -> Option<Self> {
        let names = ["taskId", "status", "statusMessage", "pollInterval", "pollIntervalMs", "ttl", "ttlMs"];
        let [id, status, message, poll, poll_ms, ttl, ttl_ms] = json_scan::pick(task, names);
        let id = json_scan::decode(id?)?.into_owned();
        let status = json_scan::decode(status?)?;
        let message = message.and_then(json_scan::decode).map(|text| shown(&text));
        if id.is_empty() || id.len() > LONGEST_ID {
            return None;
        }
        Some(Self {
            id,
            status: TaskStatus::parse(&status),
            message: message.filter(|text| !text.is_empty()),
            poll: poll.or(poll_ms).and_then(millis),
            ttl: ttl.or(ttl_ms).and_then(millis),
        })
    }
}

fn shown(text: &str) -> String {
    clean_str_lossy(text).chars().take(LONGEST_MESSAGE).collect()
}

fn millis(value: &str) -> Option<Duration> {
    let value: f64 = value.parse().ok()?;
    (value.is_finite() && value >= 0.0).then(|| Duration::from_secs_f64(value.min(1e12) / 1_000.0))
}

/// A task that a call was answered with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Created {
    /// The task.
    pub state: TaskState,
    /// Words that the model may be given meanwhile.
    pub immediate: Option<String>,
}

impl Created {
    /// Reads a `CreateTaskResult`; `None` where the answer is the result itself. A result of the stateless era says of
    /// itself that it is a task, and may have a member `task` of its own (mcp:TASK-04).
    ///
    /// # Errors
    /// A task that cannot be followed: it is no result either, least of all an empty one (mcp:TASK-02).
    pub fn read(result: &str, era: Era) -> Result<Option<Self>, &'static str> {
        let [task, kind, content, meta] = json_scan::pick(result, ["task", "resultType", "content", "_meta"]);
        let state = match (era, task) {
            (Era::Modern, _) if kind.and_then(json_scan::decode).is_none_or(|kind| kind != "task") => {
                return Ok(None);
            }
            (Era::Modern, _) => TaskState::read(result),
            (Era::Legacy, None) => return Ok(None),
            (Era::Legacy, Some(task)) => match TaskState::read(task) {
                // A server that made no task of it may have such a member of its own.
                None if content.is_some() => return Ok(None),
                state => state,
            },
        };
        let state = state.ok_or("is a task without an id or a status")?;
        let [immediate] = json_scan::pick(meta.unwrap_or("{}"), [IMMEDIATE_KEY]);
        let immediate = immediate.and_then(json_scan::decode).map(|text| shown(&text));
        Ok(Some(Self { state, immediate }))
    }
}

/// An answer to `tasks/get`: in the stateless era the outcome or the questions stand in it.
#[derive(Debug)]
pub struct Report {
    /// The task.
    pub state: TaskState,
    /// JSON text of the result.
    pub result: Option<String>,
    /// The error that it ended with.
    pub error: Option<RpcError>,
    /// What it asks for.
    pub inputs: Vec<InputRequest>,
}

impl Report {
    /// Reads an answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn read(answer: &str) -> Result<Self, &'static str> {
        let state = TaskState::read(answer).ok_or("is not a task")?;
        let [result, error, inputs] = json_scan::pick(answer, ["result", "error", "inputRequests"]);
        let inputs = match inputs.filter(|_| state.status == Some(TaskStatus::InputRequired)) {
            Some(inputs) => stateless::read_input_requests(inputs)?,
            None => Vec::new(),
        };
        Ok(Self {
            result: result.filter(|value| json_scan::kind(value) == Kind::Object).map(str::to_owned),
            error: error.map(read_error),
            inputs,
            state,
        })
    }
}

/// An error as it stands in the report of a task that failed.
fn read_error(error: &str) -> RpcError {
    let [code, message, data] = json_scan::pick(error, ["code", "message", "data"]);
    RpcError {
        code: code.and_then(|code| code.parse().ok()).unwrap_or_default(),
        message: message.and_then(json_scan::decode).unwrap_or_default().into_owned(),
        data: data.and_then(|data| RawValue::from_string(data.to_owned()).ok()).map(Arc::from),
    }
}

/// The task that a message of a server belongs to.
pub fn related_task(params: &str) -> Option<String> {
    let [meta] = json_scan::pick(params, ["_meta"]);
    let [related] = json_scan::pick(meta?, [RELATED_KEY]);
    let [id] = json_scan::pick(related?, ["taskId"]);
    Some(json_scan::decode(id?)?.into_owned())
}

/// A result that says which task it belongs to (mcp:TASKL-10).
pub fn of_task(result: &str, task: &str) -> String {
    let mut related = String::from("{\"taskId\":");
    json_scan::quote_into(&mut related, task);
    related.push('}');
    let (mut members, mut meta) = (String::new(), String::new());
    for member in json_scan::members(result) {
        if member.is("_meta") && json_scan::kind(member.value) == Kind::Object {
            for inner in json_scan::members(member.value).filter(|inner| !inner.is(RELATED_KEY)) {
                push_member(&mut meta, &inner.key(), inner.value);
            }
        } else {
            push_member(&mut members, &member.key(), member.value);
        }
    }
    push_member(&mut meta, RELATED_KEY, &related);
    push_member(&mut members, "_meta", &format!("{{{meta}}}"));
    format!("{{{members}}}")
}

/// Shortest and longest wait between two questions about a task, whatever the server asks for.
const POLL: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));
/// First and longest wait where the server asks for none; it grows by half each time.
const UNASKED: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));

/// How long to wait before the question number `asked` (from 0).
pub fn poll_wait(wanted: Option<Duration>, asked: u32) -> Duration {
    match wanted {
        Some(wanted) => wanted.clamp(POLL.0, POLL.1),
        None => UNASKED.0.mul_f64(1.5_f64.powi(i32::try_from(asked.min(10)).unwrap_or(10))).min(UNASKED.1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mcp:TASKL-06 mcp:TASKL-17 mcp:TASK-04
    #[test]
    fn taskl_06_task_04_both_shapes_of_a_new_task_are_read() {
        let old = r#"{"task":{"taskId":"a","status":"working","createdAt":"x","lastUpdatedAt":"x","ttl":null,"pollInterval":250},
            "_meta":{"io.modelcontextprotocol/model-immediate-response":"soon"}}"#;
        let created = Created::read(old, Era::Legacy).unwrap().unwrap();
        assert_eq!(created.immediate.as_deref(), Some("soon"), "TASKL-17");
        assert_eq!(created.state.poll, Some(Duration::from_millis(250)));
        assert_eq!(created.state.ttl, None);
        let new = r#"{"resultType":"task","taskId":"b","status":"working","statusMessage":"x\u200By","ttlMs":60000,"pollIntervalMs":5000}"#;
        let state = Created::read(new, Era::Modern).unwrap().unwrap().state;
        assert_eq!((state.id.as_str(), state.status), ("b", Some(TaskStatus::Working)));
        assert_eq!(state.message.as_deref(), Some("xy"), "SEC-01");
        assert_eq!((state.poll, state.ttl), (Some(Duration::from_secs(5)), Some(Duration::from_secs(60))));
        for plain in [
            r#"{"content":[]}"#,
            r#"{"task":"x","content":[]}"#,
            r#"{"task":{"taskId":7,"status":"working"},"content":[]}"#,
            r#"{"resultType":"task","content":[]}"#,
        ] {
            assert_eq!(Created::read(plain, Era::Legacy), Ok(None), "{plain}");
        }
        let own = r#"{"resultType":"complete","content":[],"task":{"taskId":"JIRA-7","status":"working"}}"#;
        assert_eq!(Created::read(own, Era::Modern), Ok(None), "mcp:TASK-04 a task of the tool's own");
    }

    /// mcp:TASK-02 mcp:BASE-15
    #[test]
    fn task_02_a_task_that_cannot_be_followed_is_no_result() {
        for members in [
            r#""taskId":"t1""#,
            r#""taskId":7,"status":"working""#,
            r#""taskId":"","status":"working""#,
            r#""taskId":"t1","status":null"#,
            r#""status":"working""#,
        ] {
            let (modern, legacy) =
                (format!(r#"{{"resultType":"task",{members}}}"#), format!(r#"{{"task":{{{members}}}}}"#));
            assert!(Created::read(&modern, Era::Modern).is_err(), "{modern}");
            assert!(Created::read(&legacy, Era::Legacy).is_err(), "{legacy}");
        }
        assert!(Created::read(r#"{"task":"t1"}"#, Era::Legacy).is_err());
    }

    /// mcp:TASK-05
    #[test]
    fn task_05_a_report_holds_outcome_or_questions() {
        let done = Report::read(
            r#"{"resultType":"complete","taskId":"a","status":"completed","result":{"content":[]}}"#,
        )
        .unwrap();
        assert_eq!(done.result.as_deref(), Some(r#"{"content":[]}"#));
        let failed = Report::read(
            r#"{"resultType":"task","taskId":"a","status":"failed","error":{"code":-32050,"message":"no"}}"#,
        )
        .unwrap();
        assert_eq!(failed.error.unwrap().code, -32050);
        let asks =
            r#"{"taskId":"a","status":"input_required","inputRequests":{"k":{"method":"roots/list"}}}"#;
        assert_eq!(Report::read(asks).unwrap().inputs.len(), 1);
        let odd = Report::read(r#"{"taskId":"a","status":"sleeping","inputRequests":7}"#).unwrap();
        assert_eq!(odd.state.status, None, "an unknown word is no reason to give up");
        for bad in [
            "{}",
            "[]",
            r#"{"taskId":"","status":"working"}"#,
            r#"{"taskId":"a","status":"input_required","inputRequests":7}"#,
        ] {
            assert!(Report::read(bad).is_err(), "{bad}");
        }
    }

    /// mcp:TASKL-07 mcp:TASK-06
    #[test]
    fn taskl_07_task_06_the_poll_interval_is_respected_and_bounded() {
        let millis = |value| Some(Duration::from_millis(value));
        assert_eq!(poll_wait(millis(2_500), 9), Duration::from_millis(2_500));
        assert_eq!(poll_wait(millis(0), 0), Duration::from_millis(100));
        assert_eq!(poll_wait(millis(86_400_000), 0), Duration::from_secs(60));
        assert_eq!(poll_wait(None, 0), Duration::from_millis(500));
        assert_eq!(poll_wait(None, 4_000_000_000), Duration::from_secs(5));
    }

    /// mcp:TASKL-10
    #[test]
    fn taskl_10_the_task_of_a_question_is_found() {
        let params =
            r#"{"message":"?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t\u0031"}}}"#;
        assert_eq!(related_task(params).as_deref(), Some("t1"));
        assert_eq!(related_task(r#"{"_meta":{}}"#), None);
        let answer = of_task(r#"{"action":"accept","_meta":{"x":1}}"#, "t1");
        assert_eq!(
            answer,
            r#"{"action":"accept","_meta":{"x":1,"io.modelcontextprotocol/related-task":{"taskId":"t1"}}}"#
        );
    }
}
