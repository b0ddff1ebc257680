//! What people said about the servers of a repository: kept in the state directory, asked for where the host
//! can answer. (POL-01, POL-02)

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, Weak};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Manager;
use super::approval_warnings::warnings_of;
use crate::config::approve::{Decision, Pending, fingerprint};
use crate::config::draft::{Definition, Draft};
use crate::config::report::Fate;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::host::{Host, QuestionKind};
use crate::runtime::{lock, read};
use crate::state_dir::StateDir;

/// File of the state directory.
const FILE: &str = "approvals.json";

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Word {
    Approved,
    Seen,
    Rejected,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    word: Word,
    #[serde(default)]
    fingerprint: String,
    #[serde(default)]
    definition: Arc<Definition>,
}

/// Entries by file and name.
type Stored = BTreeMap<String, BTreeMap<String, Entry>>;

/// Everything that was said so far. A file that cannot be read says nothing.
pub(super) fn stored(state: &StateDir) -> BTreeMap<(String, String), Decision> {
    let mut decisions = BTreeMap::new();
    for (file, entries) in parse(state.read(FILE)) {
        for (name, entry) in entries {
            // A definition that was changed by hand is not what was approved.
            let genuine = entry.fingerprint == fingerprint(&entry.definition);
            let decision = match entry.word {
                Word::Rejected => Decision::Rejected,
                Word::Approved if genuine => Decision::Approved(entry.definition),
                Word::Seen if genuine => Decision::SeenByName(entry.definition),
                Word::Approved | Word::Seen => continue,
            };
            decisions.insert((file.clone(), name), decision);
        }
    }
    decisions
}

fn parse(text: Option<Vec<u8>>) -> Stored {
    text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
}

/// Keeps what was said about entries.
pub(super) fn keep(state: &StateDir, said: &[(Draft, Decision)]) -> Result<(), McpError> {
    state.update(FILE, |now| {
        let mut stored = parse(now);
        for (draft, decision) in said {
            let file = draft.origin.file.as_deref().unwrap_or_default().to_owned();
            let (word, definition) = match decision {
                Decision::Approved(definition) => (Word::Approved, Arc::clone(definition)),
                Decision::SeenByName(definition) => (Word::Seen, Arc::clone(definition)),
                Decision::Rejected => (Word::Rejected, Arc::clone(&draft.definition)),
            };
            let entry = Entry { word, fingerprint: fingerprint(&definition), definition };
            stored.entry(file).or_default().insert(draft.origin.name.to_string(), entry);
        }
        serde_json::to_vec(&stored).unwrap_or_default()
    })
}

/// Questions about servers: one at a time for a name, and none twice.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// What was asked and answered, or is being asked.
    asked: HashSet<String>,
    /// Names that are being asked about.
    turns: HashMap<Arc<str>, Weak<tokio::sync::Mutex<()>>>,
}

impl Asking {
    fn turn(&mut self, name: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        self.turns.retain(|_, turn| turn.strong_count() > 0);
        self.turns.get(name).and_then(Weak::upgrade).unwrap_or_else(|| {
            let turn = Arc::default();
            self.turns.insert(Arc::clone(name), Arc::downgrade(&turn));
            turn
        })
    }
}

/// A question that is open; one that is given up may be asked again.
struct Question<'a> {
    asking: &'a Mutex<Asking>,
    key: Option<String>,
}

impl<'a> Question<'a> {
    /// `None` where the question was asked already.
    fn open(asking: &'a Mutex<Asking>, draft: &Draft) -> Option<Self> {
        let file = draft.origin.file.as_deref().unwrap_or_default();
        let key = format!("{file}\n{}\n{}", draft.origin.name, fingerprint(&draft.definition));
        let fresh = lock(asking).asked.insert(key.clone());
        // Made only where it is open: the end of a question forgets it.
        fresh.then(|| Self { asking, key: Some(key) })
    }

    fn answered(mut self) {
        self.key = None;
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if let Some(key) = &self.key {
            lock(self.asking).asked.remove(key);
        }
    }
}

/// What `onApproval` says.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Approved,
    Rejected,
    #[serde(rename = "pending")]
    Later,
}

impl Manager {
    /// Keeps what entries approved by name alone look like now, so that a change is seen. The caller holds
    /// `applying`.
    pub(super) fn keep_seen(&self, drafts: &[Draft]) {
        if drafts.is_empty() {
            return;
        }
        let said: Vec<_> = drafts
            .iter()
            .map(|draft| (draft.clone(), Decision::SeenByName(Arc::clone(&draft.definition))))
            .collect();
        if let Err(error) = keep(&self.state, &said) {
            self.diagnose_once(&Diagnostic::warning("CONFIG_WRITE_FAILED", error.message()));
        }
    }

    /// Asks the host about every server that waits for approval and was not asked about yet, side by side; each
    /// answer counts as soon as it is there.
    pub(super) async fn ask_approvals(&self, only: Option<&str>) -> Result<(), McpError> {
        if !self.post.can_answer(QuestionKind::Approval) {
            return Ok(());
        }
        let names: BTreeSet<Arc<str>> = {
            let resolution = read(&self.resolution);
            let pending = resolution.iter().flat_map(|now| &now.pending).map(|one| &one.draft.origin.name);
            pending.filter(|name| only.is_none_or(|only| only == &***name)).cloned().collect()
        };
        let questions = names.into_iter().map(|name| self.ask_about(name));
        futures_util::future::join_all(questions).await.into_iter().collect()
    }

    /// Asks about the entries of one name, strongest first, until one is approved. Whoever else needs that answer
    /// waits for it.
    async fn ask_about(&self, name: Arc<str>) -> Result<(), McpError> {
        let turn = lock(&self.asking).turn(&name);
        let _turn = turn.lock().await;
        let pending: Vec<Pending> = {
            let resolution = read(&self.resolution);
            let pending = resolution.iter().flat_map(|now| &now.pending);
            pending.filter(|one| one.draft.origin.name == name).cloned().collect()
        };
        for Pending { draft, before } in pending {
            let Some(question) = Question::open(&self.asking, &draft) else { continue };
            let decision = match self.ask_one(&draft, before.as_deref()).await {
                Answer::Approved => Decision::Approved(Arc::clone(&draft.definition)),
                Answer::Rejected => Decision::Rejected,
                Answer::Later => {
                    question.answered();
                    continue;
                }
            };
            question.answered();
            let approved = decision != Decision::Rejected;
            self.say(vec![(draft, decision)]).await?;
            if approved {
                self.connect_later(&[name.to_string()]);
                break;
            }
        }
        Ok(())
    }

    async fn ask_one(&self, draft: &Draft, before: Option<&Definition>) -> Answer {
        let body = self.approval_request(draft, before).to_string();
        let answer = tokio::select! {
            biased;
            answer = self.post.ask(QuestionKind::Approval, body) => answer,
            () = tokio::time::sleep(self.options.permission_timeout) => return Answer::Later,
        };
        match answer {
            Ok(text) => serde_json::from_str(&text).unwrap_or(Answer::Later),
            Err(error) => {
                let message = format!("onApproval failed, so the server waits: {}", error.message());
                self.diagnose(&Diagnostic::warning("APPROVAL_FAILED", message).on(&draft.origin.name));
                Answer::Later
            }
        }
    }

    /// The `ApprovalRequest`, without its signal. The definition is shown as it was written: who approves has to
    /// see everything.
    fn approval_request(&self, draft: &Draft, before: Option<&Definition>) -> Value {
        let file = draft.origin.file.as_deref().unwrap_or_default();
        let project = self.places.as_ref().map(|places| places.project.clone()).unwrap_or_default();
        let real = |path: &std::path::Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let outside = !real(std::path::Path::new(file)).starts_with(real(&project));
        let mut request = json!({
            "server": &*draft.origin.name,
            "file": file,
            "outsideProject": outside,
            "config": &*draft.definition,
            "warnings": warnings_of(&draft.definition),
        });
        if let (Some(before), Some(fields)) = (before, request.as_object_mut()) {
            fields.insert("changedSince".to_owned(), Value::Object(before.clone()));
        }
        request
    }

    /// Keeps decisions and puts them in force.
    async fn say(&self, said: Vec<(Draft, Decision)>) -> Result<(), McpError> {
        self.unbroken(|manager| async move {
            let _applying = manager.applying.lock().await;
            keep(&manager.state, &said)?;
            for (draft, decision) in &said {
                let word = if *decision == Decision::Rejected { "rejected" } else { "approved" };
                manager.audit("config", &draft.origin.name, json!({ "approval": word }));
            }
            manager.apply().await.map(drop)
        })
        .await
    }

    /// Approves a server of the repository as it stands now; it connects if the others are.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`; `SERVER_REJECTED` where a file rejects it by name; `CONFIG_WRITE_FAILED`.
    pub async fn approve_server(&self, name: &str) -> Result<(), McpError> {
        let drafts = self.of_repository(name).await?;
        let resolution = read(&self.resolution).clone();
        if resolution.as_ref().is_some_and(|now| now.combined.rejected.contains(name)) {
            let message = "the server is named in disabledMcpjsonServers; take it out there";
            return Err(McpError::new(ErrorCode::ServerRejected, message).on(name));
        }
        let waits = |draft: &&Draft| {
            let entries = resolution.iter().flat_map(|now| &now.entries);
            entries
                .filter(|entry| entry.name == draft.origin.name && entry.file == draft.origin.file)
                .any(|entry| matches!(entry.fate, Fate::PendingApproval | Fate::Rejected))
        };
        let strongest = drafts.iter().filter(waits).max_by_key(|draft| draft.origin.strength());
        let Some(draft) = strongest else { return Ok(()) };
        self.say(vec![(draft.clone(), Decision::Approved(Arc::clone(&draft.definition)))]).await?;
        self.connect_later(&[name.to_owned()]);
        Ok(())
    }

    /// Rejects a server of the repository, in every file that brings it.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`, `CONFIG_WRITE_FAILED`.
    pub async fn reject_server(&self, name: &str) -> Result<(), McpError> {
        let drafts = self.of_repository(name).await?;
        self.say(drafts.into_iter().map(|draft| (draft, Decision::Rejected)).collect()).await
    }

    /// The entries of a name that the repository brings. None of a server that is known otherwise is no error.
    async fn of_repository(&self, name: &str) -> Result<Vec<Draft>, McpError> {
        self.loaded().await?;
        let resolution = read(&self.resolution).clone();
        let all = resolution.iter().flat_map(|now| &now.of_repository);
        let drafts: Vec<Draft> = all.filter(|draft| &*draft.origin.name == name).cloned().collect();
        if drafts.is_empty() && !self.table().contains_key(name) {
            return Err(self.unknown_server(name));
        }
        Ok(drafts)
    }
}
