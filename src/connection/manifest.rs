//! What a server offered when it last ran, kept on disk (LIF-09).
//!
//! A `lazy` server is listed from its manifest before it has run. The items are kept as the server sent them and
//! pass the same cleaning when they are read: a manifest is no more trusted than the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::value::RawValue;

use crate::error::McpError;
use crate::protocol::classify::Classifier;
use crate::protocol::prompt::{self, PromptDefinition};
use crate::protocol::tool::{self, ToolDefinition};
use crate::state_dir::StateDir;

/// Manifests that are kept; the oldest go first.
const MOST: usize = 200;
/// What their file names begin with.
const PREFIX: &str = "manifest-";

/// A list in a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Tools,
    Prompts,
    /// Only that there are any: the list stays empty.
    Resources,
}

impl Kept {
    pub(super) fn member(self) -> &'static str {
        match self {
            Kept::Tools => "tools",
            Kept::Prompts => "prompts",
            Kept::Resources => "resources",
        }
    }
}

type Lists = BTreeMap<String, Vec<Box<RawValue>>>;

/// The manifest of one definition.
#[derive(Clone, Debug)]
pub struct Manifest {
    state: Arc<StateDir>,
    file: String,
}

impl Manifest {
    /// The manifest of an identity (`config::identity`).
    pub fn new(state: Arc<StateDir>, identity: &str) -> Self {
        Self { state, file: format!("{PREFIX}{identity}.json") }
    }

    fn read(&self) -> Lists {
        self.state.read(&self.file).and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    /// The tools and prompts of the last run; `None` for a list that was never read.
    pub(super) fn recall(
        &self,
        server: &str,
        classifier: &Classifier,
    ) -> (Option<Vec<ToolDefinition>>, Option<Vec<PromptDefinition>>) {
        let lists = self.read();
        let items = |kept: Kept| {
            let items = lists.get(kept.member())?;
            Some(items.iter().map(|item| &**item).collect::<Vec<_>>())
        };
        (
            items(Kept::Tools).map(|items| tool::map_tools(server, &items, classifier).0),
            items(Kept::Prompts).map(|items| prompt::map_prompts(server, &items).0),
        )
    }

    /// Whether the server had resources when it last ran.
    pub(super) fn has_resources(&self) -> bool {
        self.read().contains_key(Kept::Resources.member())
    }

    /// Keeps a list; writes only what has changed. Blocks.
    ///
    /// # Errors
    /// `CONFIG_WRITE_FAILED`.
    pub(super) fn keep(&self, kept: Kept, items: Vec<Box<RawValue>>) -> Result<(), McpError> {
        let texts =
            |items: &[Box<RawValue>]| items.iter().map(|item| item.get().to_owned()).collect::<Vec<_>>();
        if self.read().get(kept.member()).is_some_and(|known| texts(known) == texts(&items)) {
            return Ok(());
        }
        self.state.update(&self.file, |now| {
            let mut lists: Lists =
                now.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
            lists.insert(kept.member().to_owned(), items);
            serde_json::to_vec(&lists).unwrap_or_default()
        })?;
        self.state.keep_newest(PREFIX, MOST);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(texts: &[&str]) -> Vec<Box<RawValue>> {
        texts.iter().map(|text| RawValue::from_string((*text).to_owned()).unwrap()).collect()
    }

    #[test]
    fn lif_09_lists_survive_and_are_cleaned_when_they_are_read() {
        let state = Arc::new(StateDir::in_memory());
        let manifest = Manifest::new(Arc::clone(&state), "abc");
        assert!(matches!(manifest.recall("s", &Classifier::default()), (None, None)), "nothing is known yet");
        let tools = [r#"{"name":"a\u200b","inputSchema":{"type":"object"}}"#, r#"{"name":7}"#];
        manifest.keep(Kept::Tools, items(&tools)).unwrap();
        manifest.keep(Kept::Prompts, items(&[r#"{"name":"p"}"#])).unwrap();
        let (tools, prompts) = Manifest::new(Arc::clone(&state), "abc").recall("s", &Classifier::default());
        let tools = tools.unwrap();
        assert_eq!((tools.len(), tools[0].name.as_str()), (1, "a"));
        assert_eq!(prompts.unwrap().len(), 1);
        assert!(matches!(Manifest::new(state, "other").recall("s", &Classifier::default()), (None, None)));
    }

    #[test]
    fn lif_09_a_broken_manifest_is_none() {
        let state = Arc::new(StateDir::in_memory());
        state.update("manifest-abc.json", |_| b"{\"tools\": nonsense".to_vec()).unwrap();
        let manifest = Manifest::new(state, "abc");
        assert!(manifest.recall("s", &Classifier::default()).0.is_none());
        manifest.keep(Kept::Tools, items(&[r#"{"name":"a","inputSchema":{"type":"object"}}"#])).unwrap();
        assert_eq!(manifest.recall("s", &Classifier::default()).0.unwrap().len(), 1);
    }
}
