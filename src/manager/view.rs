//! Views: the same connections for a sub-agent, with fewer servers and tools, its own rules and its own
//! callbacks. What the manager denies or asks about stays denied and asked about. (BEY-01)

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use serde::Deserialize;

use super::Manager;
use super::registry::ToolEntry;
use super::rules::stricter;
use super::search::Loaded;
use crate::config::spec::ToolFilter;
use crate::error::{ErrorCode, McpError};
use crate::host::post::PostOffice;
use crate::host::{Host, HostEvent, QuestionKind};
use crate::name::pattern::fits;
use crate::permission::{Decision, Memory, PermissionRules, RuleSet, Verdict};
use crate::runtime::lock;
use crate::transport::BoxFuture;
use crate::transport::in_process::{Channels, Script, Word};

/// One view.
pub(super) struct View {
    id: u32,
    servers: Option<BTreeSet<String>>,
    tools: ToolFilter,
    /// Its own rules; without them those of the manager.
    rules: Option<RuleSet>,
    /// Questions it brought callbacks for: `onPermission`, `onElicitation`.
    own_callbacks: Vec<QuestionKind>,
    /// Who answers the others.
    host: Arc<dyn Host>,
    post: Arc<PostOffice>,
    /// What its own callback said to remember.
    pub(super) memory: Mutex<Memory>,
    /// Tools in its model's context.
    pub(super) loaded: Loaded,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Open views by number.
#[derive(Debug, Default)]
pub(super) struct Views {
    next: u32,
    open: HashMap<u32, Arc<View>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ViewOptions {
    servers: Option<Vec<String>>,
    tools: ViewTools,
    permissions: Option<PermissionRules>,
    callbacks: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct ViewTools {
    include: Option<Vec<String>>,
    exclude: Vec<String>,
}

impl View {
    /// Whether the server exists in this view.
    pub(super) fn has_server(&self, server: &str) -> bool {
        self.servers.as_ref().is_none_or(|servers| servers.contains(server))
    }

    /// Whether the tool exists in this view. Patterns are about full names or the server's own names.
    pub(super) fn has(&self, entry: &ToolEntry) -> bool {
        let wire = &entry.definition().wire_name;
        let named = |patterns: &[String]| {
            patterns.iter().any(|pattern| fits(pattern, &entry.full_name) || fits(pattern, wire))
        };
        self.has_server(entry.connection.name())
            && self.tools.include.as_deref().is_none_or(named)
            && !named(&self.tools.exclude)
    }

    /// The view as the host of what is sent for it.
    pub(super) fn host(view: Option<&Arc<Self>>) -> Option<Arc<dyn Host>> {
        view.map(|view| Arc::clone(view) as Arc<dyn Host>)
    }

    /// What is decided about a tool here.
    pub(super) fn decide<'a>(&'a self, entry: &'a ToolEntry) -> Verdict<'a> {
        let outer = entry.verdict();
        let Some(rules) = &self.rules else { return outer };
        let inner = rules.decide(entry.connection.name(), &entry.definition().wire_name);
        let inner = entry.by_default(inner);
        match outer.decision {
            Decision::Deny | Decision::Ask => stricter(outer, inner),
            // What the manager allows was allowed to the manager; the view has its own list.
            Decision::Allow | Decision::Passthrough => inner,
        }
    }
}

impl Manager {
    /// Opens a view by its options (JSON text); the number stands for it from then on.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`.
    pub fn open_view(&self, options: &str) -> Result<u32, McpError> {
        let options: ViewOptions = serde_json::from_str(options).map_err(|error| {
            McpError::new(ErrorCode::InvalidArgument, format!("options: {error}"))
                .with(|facts| facts.parameter = Some("options".to_owned()))
        })?;
        let rules = options.permissions.map(|rules| {
            let (rules, found) = RuleSet::compile(&rules);
            for finding in &found {
                self.diagnose(finding);
            }
            rules
        });
        let mut views = lock(&self.views);
        views.next = views.next.wrapping_add(1);
        let id = views.next;
        let view = View {
            id,
            servers: options.servers.map(|servers| servers.into_iter().collect()),
            tools: ToolFilter { include: options.tools.include, exclude: options.tools.exclude },
            rules,
            own_callbacks: [QuestionKind::Permission, QuestionKind::Elicitation]
                .into_iter()
                .filter(|kind| options.callbacks.iter().any(|name| name == kind.callback()))
                .collect(),
            host: Arc::clone(&self.host),
            post: Arc::clone(&self.post),
            memory: Mutex::default(),
            loaded: Loaded::default(),
        };
        views.open.insert(id, Arc::new(view));
        Ok(id)
    }

    /// Drops what views remember of a tool.
    pub(super) fn forget_in_views(&self, server: &str, tool: &str) {
        for view in lock(&self.views).open.values() {
            lock(&view.memory).forget(server, tool);
        }
    }

    /// Drops what was remembered of a server, here and in every view: it is gone, or another one. (POL-08)
    pub(super) fn forget_server(&self, server: &str) {
        lock(&self.memory).forget_server(server);
        for view in lock(&self.views).open.values() {
            lock(&view.memory).forget_server(server);
        }
    }

    /// Forgets a view.
    pub fn close_view(&self, id: u32) {
        lock(&self.views).open.remove(&id);
    }

    /// The view of a number.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for one that is closed.
    pub(super) fn view(&self, id: Option<u32>) -> Result<Option<Arc<View>>, McpError> {
        let Some(id) = id else { return Ok(None) };
        match lock(&self.views).open.get(&id) {
            Some(view) => Ok(Some(Arc::clone(view))),
            None => Err(McpError::new(ErrorCode::InvalidArgument, "the view does not exist any more")),
        }
    }
}

impl Script for View {
    fn channels(&self) -> &Channels {
        self.post.channels()
    }

    fn say(&self, channel: u32, word: Word, room: usize) -> Result<(), usize> {
        self.post.say(channel, word, room)
    }
}

/// The host as a view sees it: questions go to the view's own callbacks, where it brought some.
impl Host for View {
    fn emit(&self, event: HostEvent) {
        self.host.emit(event);
    }

    fn note(&self, kind: &'static str, server: &str, details: serde_json::Value) {
        self.host.note(kind, server, details);
    }

    fn can_answer(&self, kind: QuestionKind) -> bool {
        self.own_callbacks.contains(&kind) || self.host.can_answer(kind)
    }

    fn ask(&self, kind: QuestionKind, body: String) -> BoxFuture<'_, Result<String, McpError>> {
        if self.own_callbacks.contains(&kind) {
            return self.post.ask_callback(kind.callback(), Some(self.id), &body);
        }
        self.host.ask(kind, body)
    }
}
