//! From options and files to the table of connections: loading and reloading.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;

use super::changes::Changes;
use super::rules::Rules;
use super::{Manager, Table, approval, ending};
use crate::config::draft::{Definition, LayerShape, RawLayer};
use crate::config::report::Fate;
use crate::config::{self, Difference, Inputs, Resolution};
use crate::connection::status::PublicState;
use crate::connection::{Connection, Wish};
use crate::error::{ErrorCode, Facts, McpError, PermissionLayer};
use crate::host::{Host, HostEvent};
use crate::runtime::{lock, read, write};
use crate::transport::CloseMode;

/// The last content of a file that could be read, by path and shape.
pub type LastGood = HashMap<(Arc<str>, LayerShape), RawLayer>;

impl Manager {
    /// Reads the configuration if nobody did.
    pub(super) async fn loaded(&self) -> Result<(), McpError> {
        self.open_for_use()?;
        if read(&self.resolution).is_some() {
            return Ok(());
        }
        let _applying = self.applying.lock().await;
        if read(&self.resolution).is_none() {
            self.seek_editor(false).await;
            self.apply().await?;
            self.watch();
            self.watch_editor();
            self.fetch_connectors();
            self.fetch_official();
        }
        Ok(())
    }

    /// Reads the configuration, asks for approvals, and returns the report as JSON text.
    pub async fn load(&self) -> Result<String, McpError> {
        self.loaded().await?;
        let ((), asked) = tokio::join!(self.connectors_settled(), self.ask_approvals(None));
        asked?;
        Ok(self.report_json())
    }

    /// Reads the configuration again; restarts what changed, ends what is gone, connects what is new (CFG-12).
    /// JSON text of the difference.
    ///
    /// # Errors
    /// `MANAGER_CLOSED`.
    pub async fn reload(&self) -> Result<String, McpError> {
        self.loaded().await?;
        let before = read(&self.resolution).clone().unwrap_or_default();
        self.unbroken(|manager| async move {
            let _applying = manager.applying.lock().await;
            manager.seek_editor(false).await;
            manager.apply().await?;
            manager.fetch_connectors();
            Ok(())
        })
        .await?;
        let ((), asked) = tokio::join!(self.connectors_settled(), self.ask_approvals(None));
        asked?;
        let after = read(&self.resolution).clone().unwrap_or_default();
        let difference = config::diff(&before, &after);
        let start: Vec<String> = difference.added.iter().chain(&difference.changed).cloned().collect();
        self.connect_later(&start);
        Ok(serde_json::to_string(&difference).unwrap_or_default())
    }

    /// Changes the configuration in a task of its own: the change is done whole, also when nobody waits for its end
    /// any more. (CFG-12)
    pub(super) async fn unbroken<T, F>(&self, change: impl FnOnce(Arc<Self>) -> F) -> Result<T, McpError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, McpError>> + Send + 'static,
    {
        let broken = || McpError::new(ErrorCode::Internal, "a task of this package broke");
        let task = self.this.upgrade().and_then(|manager| crate::runtime::spawn(change(manager)));
        task.ok_or_else(broken)?.await.unwrap_or_else(|_| Err(broken()))
    }

    /// Connects servers in the background, if the manager is connected at all.
    pub(super) fn connect_later(&self, names: &[String]) {
        if !self.connected.load(Ordering::Relaxed) {
            return;
        }
        let table = self.table();
        for connection in names.iter().filter_map(|name| table.get(name)) {
            let connection = connection.clone();
            if super::starts_by_itself(&connection) {
                // How it ends stands in the status.
                crate::runtime::spawn(async move { connection.connect(Wish::Connected).await });
            }
        }
    }

    /// The report as JSON text; empty before anything was loaded.
    pub fn report_json(&self) -> String {
        match &*read(&self.resolution) {
            Some(resolution) => resolution.report_json(),
            None => Resolution::default().report_json(),
        }
    }

    /// Resolves the configuration anew and starts or ends what differs. The caller holds `applying`.
    pub(super) async fn apply(&self) -> Result<Difference, McpError> {
        self.open_for_use()?;
        let resolution = Arc::new(self.resolve());
        self.keep_seen(&resolution.by_name);
        self.put_in_force(&resolution);
        let before = self.table();
        let mut table = Table::new();
        let mut replaced: Vec<Connection> = Vec::new();
        let mut switched: Vec<(Connection, bool)> = Vec::new();
        for spec in &resolution.servers {
            let name = spec.name.to_string();
            let connection = match before.get(&name) {
                Some(connection) if connection.spec().same_but_switch(spec) => {
                    if (connection.snapshot().state() == PublicState::Disabled) != spec.disabled {
                        switched.push((connection.clone(), !spec.disabled));
                    }
                    connection.clone()
                }
                Some(connection) => {
                    replaced.push(connection.clone());
                    self.start_connection(spec)
                }
                None => self.start_connection(spec),
            };
            table.insert(name, connection);
        }
        replaced.extend(
            before.iter().filter(|(name, _)| !table.contains_key(*name)).map(|(_, gone)| gone.clone()),
        );
        *write(&self.table) = Arc::new(table);
        let earlier = write(&self.resolution).replace(Arc::clone(&resolution));
        self.rename();
        self.put_aside(replaced, switched).await;
        let difference =
            earlier.as_ref().map(|earlier| config::diff(earlier, &resolution)).unwrap_or_default();
        self.tell_of(&difference);
        Ok(difference)
    }

    /// Ends connections and switches others, all at the same time: a server that ends slowly delays no other. (LIF-06)
    async fn put_aside(&self, replaced: Vec<Connection>, switched: Vec<(Connection, bool)>) {
        for connection in &replaced {
            self.forget_server(connection.name());
        }
        let mut endings = self.leaving.end(replaced, CloseMode::Graceful, removed_error);
        endings.extend(switched.into_iter().filter_map(|(connection, enabled)| {
            crate::runtime::spawn(async move { drop(connection.enable(enabled).await) })
        }));
        ending::all(endings).await;
    }

    /// Puts policy and rules in force and reports what was found.
    fn put_in_force(&self, resolution: &Resolution) {
        self.gate.replace(Arc::clone(&resolution.combined.policy));
        let (rules, malformed) = Rules::compile(&resolution.combined);
        let names: Vec<&str> = resolution.servers.iter().map(|server| &*server.name).collect();
        let unknown = rules.unknown_servers(names);
        *write(&self.rules) = Arc::new(rules);
        for finding in resolution.errors.iter().chain(&resolution.warnings).chain(&malformed).chain(&unknown)
        {
            self.diagnose_once(finding);
        }
    }

    fn tell_of(&self, difference: &Difference) {
        if *difference == Difference::default() {
            return;
        }
        for (change, names) in
            [("added", &difference.added), ("removed", &difference.removed), ("changed", &difference.changed)]
        {
            for name in names {
                self.audit("config", name, json!({ "change": change }));
            }
        }
        if let Ok(body) = serde_json::to_string(difference) {
            self.post.emit(HostEvent { name: "configChanged", body, key: None });
        }
    }

    fn resolve(&self) -> Resolution {
        self.resolve_inputs(&self.inputs())
    }

    fn resolve_inputs(&self, inputs: &Inputs) -> Resolution {
        let path = self.environment.get("PATH").unwrap_or_default();
        config::resolve_with(inputs, &|command| config::load::find_program(command, path))
    }

    /// What switches a server off where nothing was switched at run time. (CFG-13)
    pub(super) fn still_off(&self, name: &str) -> Option<String> {
        let mut inputs = self.inputs();
        inputs.options.switches.remove(name);
        let resolution = self.resolve_inputs(&inputs);
        if !resolution.server(name)?.disabled {
            return None;
        }
        let list = |file: &str| format!("\"disabledMcpServers\" of {file}");
        if inputs.options.host.disabled.iter().any(|one| one == name) {
            return Some(list("the options"));
        }
        let names_it =
            |layer: &&RawLayer| config::parse::parse(layer, 0).said.disabled.iter().any(|one| one == name);
        if let Some(file) = inputs.layers.iter().filter(names_it).find_map(|layer| layer.file.as_deref()) {
            return Some(list(file));
        }
        let entry = resolution.entries.iter().find(|entry| &*entry.name == name);
        let file = entry.and_then(|entry| entry.file.as_deref()).unwrap_or("the options");
        Some(format!("its definition in {file}"))
    }

    fn inputs(&self) -> Inputs {
        let config = self.options.config.as_ref();
        let mut inputs = Inputs::gather(&self.environment, config, self.places.as_ref(), &self.state);
        self.keep_last_good(&mut inputs);
        let (editor, mut about_editor) = self.editor();
        inputs.diagnostics.append(&mut about_editor);
        if editor.is_some() {
            let entries = inputs.layers.iter().flat_map(|layer| config::parse::parse(layer, 0).servers.kept);
            let names = entries.map(|draft| draft.origin.name.to_string()).collect();
            *lock(&self.names_in_files) = names;
        }
        let (mut layers, switches, instances) = {
            let changes = lock(&self.changes);
            let layers = self.host_layers(&changes, editor.as_deref());
            (layers, changes.switches.clone(), changes.instances.clone())
        };
        inputs.layers.append(&mut layers);
        if let Some(connectors) = &self.connectors {
            let (layer, finding) = connectors.known();
            inputs.layers.extend(layer);
            inputs.diagnostics.extend(finding);
        }
        let options = &mut inputs.options;
        options.reserved.clone_from(&self.options.reserved_names);
        options.switches = switches;
        options.sdk_instances = instances;
        options.host = self.options.said.clone();
        options.approvals.decisions = approval::stored(&self.state);
        options.unusable = self.waiting_for_login();
        inputs
    }

    /// Servers that wait for a login.
    fn waiting_for_login(&self) -> BTreeSet<String> {
        let table = self.table();
        let waiting = table.iter().filter(|(_, one)| one.snapshot().state() == PublicState::NeedsAuth);
        waiting.map(|(name, _)| name.clone()).collect()
    }

    /// Resolves anew when a server begins or ends to wait for a login while duplicates are about: one that waits
    /// hides no working one. (CFG-10, H11)
    pub(super) fn weigh_duplicates(&self) {
        let now = self.waiting_for_login();
        let before = std::mem::replace(&mut *lock(&self.waiting_for_login), now.clone());
        let duplicates =
            |now: &Arc<Resolution>| now.entries.iter().any(|entry| entry.fate == Fate::Duplicate);
        if now == before || (before.is_empty() && !read(&self.resolution).as_ref().is_some_and(duplicates)) {
            return;
        }
        let Some(manager) = self.this.upgrade() else { return };
        crate::runtime::spawn(async move {
            let _applying = manager.applying.lock().await;
            if let Ok(difference) = manager.apply().await {
                manager.connect_later(&difference.added);
            }
        });
    }

    /// A file that cannot be read any more keeps its last good state, with its error (CFG-12).
    fn keep_last_good(&self, inputs: &mut Inputs) {
        let mut last = lock(&self.last_good);
        let mut fallbacks = Vec::new();
        for layer in &mut inputs.layers {
            let Some(file) = layer.file.clone() else { continue };
            let key = (file, layer.shape.clone());
            if config::parse::is_readable(layer) {
                last.insert(key, layer.clone());
            } else if let Some(good) = last.get(&key) {
                fallbacks.extend(config::parse::parse(layer, 0).servers.diagnostics);
                *layer = good.clone();
            }
        }
        inputs.diagnostics.append(&mut fallbacks);
    }

    /// The option `servers` and what was added and removed since.
    fn host_layers(&self, changes: &Changes, editor: Option<&str>) -> Vec<RawLayer> {
        let mut layers = Vec::new();
        if let Some(text) = &self.options.servers {
            let kept = if changes.removed.is_empty() {
                Some(text.clone())
            } else {
                serde_json::from_str::<Definition>(text).ok().map(|mut own| {
                    own.retain(|name, _| !changes.removed.contains(name));
                    serde_json::Value::Object(own).to_string()
                })
            };
            layers.extend(kept.map(|text| RawLayer::options(&text)));
        }
        if let Some(editor) = editor {
            let name = self.name_for_editor(changes);
            if !changes.removed.contains(&name) {
                layers.push(RawLayer::options(&format!("{{\"{name}\":{editor}}}")));
            }
        }
        for (name, added) in &changes.added {
            let name = serde_json::Value::from(name.as_str());
            let mut layer = RawLayer::host(added.scope, &format!("{{{name}:{}}}", added.definition.get()));
            layer.source.clone_from(&added.source);
            layer.overriding = added.overriding;
            layers.push(layer);
        }
        layers
    }

    /// The name of the editor of the option `ide`.
    pub(super) fn editor_name(&self) -> String {
        self.name_for_editor(&lock(&self.changes))
    }

    /// `ide`, or the next free one of `ide_2`, `ide_3` … (POL-10).
    fn name_for_editor(&self, changes: &Changes) -> String {
        let servers = self.options.servers.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let servers: Definition = servers.unwrap_or_default();
        let names = std::iter::once("ide".to_owned()).chain((2..).map(|number| format!("ide_{number}")));
        let in_files = lock(&self.names_in_files);
        let free = |name: &String| {
            !servers.contains_key(name) && !changes.added.contains_key(name) && !in_files.contains(name)
        };
        names.into_iter().find(free).unwrap_or_default()
    }
}

/// The layer and the rule of a refusal by policy. (POL-11)
pub(super) fn by_policy(rule: &str) -> impl FnOnce(&mut Facts) {
    |facts| {
        facts.layer = Some(PermissionLayer::Policy);
        facts.rule = Some(rule.to_owned());
    }
}

fn removed_error(name: &str) -> McpError {
    McpError::new(ErrorCode::ConnectionLost, "the server was removed or its definition changed").on(name)
}

/// Why a configured server does not run, where that is so.
pub(super) fn why_not(resolution: &Resolution, server: &str) -> Option<McpError> {
    let entry = resolution.entries.iter().find(|entry| &*entry.name == server)?;
    let (code, what) = match entry.fate {
        Fate::PendingApproval => (ErrorCode::ServerNotApproved, "waits for approval"),
        Fate::Rejected => (ErrorCode::ServerRejected, "was rejected"),
        Fate::Denied | Fate::NotAllowed | Fate::EnterpriseExclusive => {
            (ErrorCode::PolicyDenied, "is forbidden by policy")
        }
        Fate::Reserved => (ErrorCode::ReservedName, "has a reserved name"),
        Fate::Invalid => (ErrorCode::ConfigInvalid, "has an invalid definition"),
        Fate::Disabled => (ErrorCode::ServerDisabled, "is switched off"),
        Fate::Active | Fate::Shadowed | Fate::Duplicate => return None,
    };
    let reason = entry.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    Some(McpError::new(code, format!("the server {what}{reason}")).with(|facts| {
        if code == ErrorCode::PolicyDenied {
            by_policy(entry.by.as_deref().unwrap_or_default())(facts);
        }
    }))
}
