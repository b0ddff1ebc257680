//! The editor of the option `ide: 'discover'`: found when the configuration is read, and again when there is none or
//! when it has gone away. (IDE-01, BRG-08)

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, Weak};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use super::options::EditorChoice;
use super::{Closing, Manager};
use crate::config::spec::TransportSpec;
use crate::connection::Connection;
use crate::connection::status::PublicState;
use crate::diagnostic::Diagnostic;
use crate::error::McpError;
use crate::ide::translation::{arguments_for_windows, result_from_windows};
use crate::ide::{self, Found, Search, Sight};
use crate::runtime::{self, lock, read};
use crate::secret::SafeUrl;

/// Name of the configuration directory where no option says so.
const CONFIG_DIR: &str = ".claude";
/// Pause between two looks at the lock files while no editor is connected.
const LOOK: Duration = Duration::from_secs(2);
/// Searches that follow news: an editor writes its file before it listens, or after.
const SEARCHES: u32 = 5;

/// What came of the last search.
#[derive(Debug, Default)]
pub(super) struct Editor(Mutex<Chosen>);

#[derive(Debug, Default)]
struct Chosen {
    definition: Option<Value>,
    findings: Vec<Diagnostic>,
    /// The lock files as they were then.
    seen: Option<Sight>,
}

/// Which editors are wanted.
#[derive(Deserialize)]
pub(super) struct EditorsRequest {
    /// Variables in place of those of this process.
    env: Option<BTreeMap<String, String>>,
}

impl Manager {
    /// The editors there are, as JSON text of an array of definitions.
    pub(super) async fn editors(&self, request: EditorsRequest) -> String {
        let mut search = self.editor_search();
        if let Some(vars) = request.env {
            search.environment.vars = vars;
        }
        Value::Array(ide::discover(search).await.editors).to_string()
    }

    fn editor_search(&self) -> Search {
        let places = self.places.as_ref();
        Search {
            cwd: self.options.cwd.clone(),
            home: places.map_or_else(|| self.environment.home.clone(), |places| places.home.clone()),
            config_dir: places.map_or_else(|| CONFIG_DIR.to_owned(), |places| places.config_dir.clone()),
            environment: self.environment.as_ref().clone(),
        }
    }

    /// JSON text of the definition of the editor, and what there is to say of it.
    pub(super) fn editor(&self) -> (Option<String>, Vec<Diagnostic>) {
        match &self.options.ide {
            EditorChoice::None => (None, Vec::new()),
            EditorChoice::Given(definition) => (Some(definition.clone()), Vec::new()),
            EditorChoice::Discover => {
                let chosen = lock(&self.editor.0);
                (chosen.definition.as_ref().map(Value::to_string), chosen.findings.clone())
            }
        }
    }

    /// Looks for the editor where the option says so; whoever calls holds `applying` and applies the configuration.
    /// `keep` leaves an editor that is gone in place, with the failure in its status. Whether one is there.
    pub(super) async fn seek_editor(&self, keep: bool) -> bool {
        if self.options.ide != EditorChoice::Discover {
            return false;
        }
        let found = ide::discover(self.editor_search()).await;
        let connected = self.editor_connection().is_some_and(|editor| is_connected(&editor));
        let mut chosen = lock(&self.editor.0);
        let seen = found.seen.clone();
        let definition = choose(chosen.definition.take(), connected, keep, &found.editors);
        let is_there = definition.as_ref().is_some_and(|definition| found.editors.contains(definition));
        let findings = findings(&self.editor_name(), definition.as_ref(), found, &self.options.cwd);
        *chosen = Chosen { definition, findings, seen };
        is_there
    }

    fn editor_connection(&self) -> Option<Connection> {
        self.table().get(&self.editor_name()).filter(|connection| connection.spec().is_ide()).cloned()
    }

    /// Looks again before a server is connected by name, in case that it is an editor that is not there.
    pub(super) async fn renew_editor(&self, server: &str) {
        if self.options.ide != EditorChoice::Discover || read(&self.resolution).is_none() {
            return;
        }
        let connected = self.editor_connection().is_some_and(|editor| is_connected(&editor));
        if server == self.editor_name() && !connected {
            // Whoever asked connects it, or hears that it is not there.
            let _applying = self.applying.lock().await;
            if self.seek_editor(true).await {
                let _ = self.apply().await;
            }
        }
    }

    /// Looks again by itself, and connects what it finds.
    async fn search_again(&self) -> Result<(), McpError> {
        {
            let _applying = self.applying.lock().await;
            if !self.seek_editor(true).await {
                return self.open_for_use();
            }
            self.apply().await?;
        }
        // Also one that was given up, now that it answers.
        if self.editor_connection().is_some_and(|editor| !is_connected(&editor)) {
            self.connect_later(&[self.editor_name()]);
        }
        Ok(())
    }

    /// The distribution that calls of this server come from, where it is an editor on the Windows side beside it.
    fn beside_editor(&self, server: &Connection) -> Option<&str> {
        match &server.spec().transport {
            TransportSpec::SseIde(editor) | TransportSpec::WsIde(editor) if editor.running_in_windows => {
                ide::distribution(&self.environment)
            }
            _ => None,
        }
    }

    /// Arguments as the editor understands their paths; those of other servers as they are.
    pub(super) fn for_editor<'a>(&self, server: &Connection, arguments: &'a str) -> Cow<'a, str> {
        let distribution = self.beside_editor(server);
        let turned = distribution.and_then(|distribution| arguments_for_windows(arguments, distribution));
        turned.map_or(Cow::Borrowed(arguments), Cow::Owned)
    }

    /// A result with paths as they are here.
    pub(super) fn back_from_editor(&self, server: &Connection, reply: String) -> String {
        let turned =
            self.beside_editor(server).and_then(|distribution| result_from_windows(&reply, distribution));
        turned.unwrap_or(reply)
    }

    /// Starts to look for editors, if asked to. Ends with the manager.
    pub(super) fn watch_editor(&self) {
        if self.options.ide == EditorChoice::Discover {
            let chosen = lock(&self.editor.0);
            let left = if chosen.definition.is_some() { 0 } else { SEARCHES };
            let watch = Watch { seen: chosen.seen.clone(), connected: false, left };
            runtime::spawn(run(Weak::clone(&self.this), watch));
        }
    }
}

async fn run(manager: Weak<Manager>, mut watch: Watch) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(manager) = manager.upgrade() else { return };
        if *manager.closing.borrow() != Closing::No {
            return;
        }
        let connected = manager.editor_connection().is_some_and(|editor| is_connected(&editor));
        let sight = if connected { None } else { ide::sight(manager.editor_search()).await };
        if watch.is_due(connected, sight) && manager.search_again().await.is_err() {
            return;
        }
    }
}

/// What is known between two looks.
#[derive(Debug)]
struct Watch {
    /// The lock files; `None` where nobody has looked yet.
    seen: Option<Sight>,
    connected: bool,
    /// Searches that are still to come.
    left: u32,
}

impl Watch {
    /// Whether to search now: some times after lock files have changed, and after an editor was lost.
    fn is_due(&mut self, connected: bool, sight: Option<Sight>) -> bool {
        let lost = std::mem::replace(&mut self.connected, connected) && !connected;
        if connected {
            self.left = 0;
            return false;
        }
        if let Some(sight) = sight {
            let before = self.seen.replace(sight);
            if lost || before.is_some_and(|before| Some(before) != self.seen) {
                self.left = SEARCHES;
            }
        }
        let due = self.left > 0;
        self.left = self.left.saturating_sub(1);
        due
    }
}

fn is_connected(editor: &Connection) -> bool {
    editor.snapshot().state() == PublicState::Connected
}

/// Which editor is used: one that is connected stays, whatever else there is; else the best one.
fn choose(before: Option<Value>, connected: bool, keep: bool, editors: &[Value]) -> Option<Value> {
    match before {
        Some(before) if connected => Some(before),
        before => editors.first().cloned().or(before.filter(|_| keep)),
    }
}

/// What there is to say of a search.
fn findings(name: &str, chosen: Option<&Value>, found: Found, cwd: &Path) -> Vec<Diagnostic> {
    let Found { editors, mut findings, .. } = found;
    let text = |definition: &Value, member: &str| definition[member].as_str().unwrap_or_default().to_owned();
    findings.push(if let Some(chosen) = chosen {
        let (editor, url) = (text(chosen, "ideName"), SafeUrl::new(text(chosen, "url")));
        let others = editors.iter().filter(|other| text(other, "url") != text(chosen, "url")).count();
        let others = match others {
            0 => String::new(),
            1 => "; another one has it open too".to_owned(),
            more => format!("; {more} others have it open too"),
        };
        let message = format!("the editor {editor:?} at {url} is used for {}{others}", cwd.display());
        Diagnostic::info("IDE_FOUND", message).on(name)
    } else {
        let message = format!("no editor that has {} open was found", cwd.display());
        Diagnostic::info("IDE_NOT_FOUND", message)
    });
    findings
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::SystemTime;

    use serde_json::json;

    use super::*;

    #[test]
    fn brg_08_a_connected_editor_stays_and_a_lost_one_gives_way() {
        let (a, b) = (json!("a"), json!("b"));
        for (before, connected, keep, editors, expected) in [
            (None, false, true, vec![], None),
            (None, false, false, vec![&a, &b], Some(&a)),
            (Some(&b), true, false, vec![&a, &b], Some(&b)),
            (Some(&b), true, false, vec![], Some(&b)),
            (Some(&b), false, true, vec![&a, &b], Some(&a)),
            (Some(&b), false, true, vec![], Some(&b)),
            (Some(&b), false, false, vec![], None),
        ] {
            let editors: Vec<Value> = editors.into_iter().cloned().collect();
            assert_eq!(choose(before.cloned(), connected, keep, &editors).as_ref(), expected);
        }
    }

    #[test]
    fn brg_08_searches_follow_news_and_end() {
        let sight = |seconds: u64| {
            Some(vec![(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds), PathBuf::from("1.lock"))])
        };
        let mut watch = Watch { seen: None, connected: false, left: 0 };
        let mut due = |connected: bool, sight: Option<Sight>| watch.is_due(connected, sight);
        assert!(!due(false, sight(1)), "the first look has nothing to compare with");
        assert!(!due(false, sight(1)));
        for _ in 0..SEARCHES {
            assert!(due(false, sight(2)), "a file changed");
        }
        assert!(!due(false, sight(2)), "no further");
        assert!(!due(false, None), "a disk that does not answer is no news");
        assert!(due(false, sight(3)));
        assert!(!due(true, None), "found");
        assert!(due(false, sight(3)), "lost");
        assert!(due(false, sight(3)));
        assert!(!due(true, None));
    }

    #[test]
    fn brg_08_what_is_said_has_no_token() {
        let editor = json!({ "type": "ws-ide", "url": "ws://u:secret@127.0.0.1:1/", "ideName": "E", "authToken": "token" });
        let other = json!({ "type": "ws-ide", "url": "ws://127.0.0.1:2", "ideName": "F" });
        let found = || Found { editors: vec![other.clone(), editor.clone()], ..Found::default() };
        let said = findings("ide", Some(&editor), found(), Path::new("/p"));
        assert!(
            said[0].message.contains("\"E\"") && said[0].message.ends_with("another one has it open too")
        );
        assert!(
            !said[0].message.contains("token") && !said[0].message.contains("secret"),
            "{}",
            said[0].message
        );
        let nothing = findings("ide", None, Found::default(), Path::new("/p"));
        assert_eq!(nothing[0].code, "IDE_NOT_FOUND");
    }
}
