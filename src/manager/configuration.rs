//! From options and files to the table of connections: loading, reloading, adding, removing, switching.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::persist::Persist;
use super::rules::Rules;
use super::{Manager, Table, approval};
use crate::config::approve::Decision;
use crate::config::draft::{Definition, Draft, LayerShape, RawLayer};
use crate::config::report::Fate;
use crate::config::{self, Difference, Inputs, Resolution, Scope, Voice};
use crate::connection::status::PublicState;
use crate::connection::{Connection, Wish};
use crate::error::{ErrorCode, Facts, McpError, PermissionLayer};
use crate::host::{Host, HostEvent};
use crate::runtime::{lock, read, write};
use crate::transport::CloseMode;

/// What was changed at run time.
#[derive(Debug, Default)]
pub struct Changes {
    /// Servers added, by name.
    added: BTreeMap<String, Added>,
    /// Names of servers of the options that were taken away.
    removed: BTreeSet<String>,
    /// Names under which in-process servers were handed over (SDK-01).
    instances: BTreeSet<String>,
    /// Servers switched on or off.
    switches: BTreeMap<String, bool>,
}

#[derive(Clone, Debug)]
struct Added {
    definition: Box<RawValue>,
    scope: Scope,
    source: Option<Arc<str>>,
    overriding: bool,
}

/// The last content of a file that could be read, by path and shape.
pub type LastGood = HashMap<(Arc<str>, LayerShape), RawLayer>;

/// Options of `addServer`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AddOptions {
    /// Brought by a plugin.
    pub plugin: bool,
    /// Name of the plugin.
    pub source: Option<String>,
    /// Above everything but the organisation's servers.
    #[serde(rename = "override")]
    pub overriding: bool,
    /// Where to keep it.
    pub persist: Option<Persist>,
    /// Whether to connect.
    pub connect: bool,
}

impl Manager {
    /// Reads the configuration if nobody did.
    pub(super) async fn loaded(&self) -> Result<(), McpError> {
        self.open_for_use()?;
        if read(&self.resolution).is_some() {
            return Ok(());
        }
        let _applying = self.applying.lock().await;
        if read(&self.resolution).is_none() {
            self.apply().await?;
            self.watch();
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
        {
            let _applying = self.applying.lock().await;
            self.apply().await?;
            self.fetch_connectors();
        }
        let ((), asked) = tokio::join!(self.connectors_settled(), self.ask_approvals(None));
        asked?;
        let after = read(&self.resolution).clone().unwrap_or_default();
        let difference = config::diff(&before, &after);
        let start: Vec<String> = difference.added.iter().chain(&difference.changed).cloned().collect();
        self.connect_later(&start);
        Ok(serde_json::to_string(&difference).unwrap_or_default())
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
        for (connection, enabled) in switched {
            let _ = connection.enable(enabled).await;
        }
        for connection in replaced {
            lock(&self.memory).forget_server(connection.name());
            connection.close(CloseMode::Graceful, removed_error(connection.name())).await;
        }
        let difference =
            earlier.as_ref().map(|earlier| config::diff(earlier, &resolution)).unwrap_or_default();
        self.tell_of(&difference);
        Ok(difference)
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
        let config = self.options.config.as_ref();
        let mut inputs = Inputs::gather(&self.environment, config, self.places.as_ref(), &self.state);
        self.keep_last_good(&mut inputs);
        let (mut layers, switches, instances) = {
            let changes = lock(&self.changes);
            (self.host_layers(&changes), changes.switches.clone(), changes.instances.clone())
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
        let path = self.environment.get("PATH").unwrap_or_default();
        config::resolve_with(&inputs, &|command| config::load::find_program(command, path))
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
    fn host_layers(&self, changes: &Changes) -> Vec<RawLayer> {
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
        if let Some(ide) = &self.options.ide {
            let name = self.name_for_editor(changes);
            if !changes.removed.contains(&name) {
                layers.push(RawLayer::options(&format!("{{\"{name}\":{ide}}}")));
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

    /// The name of the editor of the option `ide`: `ide`, or the next free one of `ide_2`, `ide_3` … (POL-10).
    fn name_for_editor(&self, changes: &Changes) -> String {
        let servers = self.options.servers.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let servers: Definition = servers.unwrap_or_default();
        let names = std::iter::once("ide".to_owned()).chain((2..).map(|number| format!("ide_{number}")));
        let free = |name: &String| !servers.contains_key(name) && !changes.added.contains_key(name);
        names.into_iter().find(free).unwrap_or_default()
    }

    /// Adds a server and connects it, unless told not to (CFG-11).
    ///
    /// # Errors
    /// `SERVER_EXISTS`, `RESERVED_NAME`, `POLICY_DENIED`, `ENTERPRISE_EXCLUSIVE`, `CONFIG_INVALID` with
    /// diagnostics, `CONFIG_WRITE_FAILED`.
    pub async fn add_server(
        &self,
        name: &str,
        definition: &RawValue,
        options: &AddOptions,
    ) -> Result<(), McpError> {
        self.loaded().await?;
        {
            let _applying = self.applying.lock().await;
            self.refuse_exclusive(name)?;
            let scope = if options.plugin { Scope::Plugin } else { Scope::Dynamic };
            self.refuse_taken(name, options.persist.map_or(scope, Persist::scope), options)?;
            let added = Added {
                definition: definition.to_owned(),
                scope,
                source: options.source.as_deref().map(Arc::from),
                overriding: options.overriding || options.persist.is_some(),
            };
            let before = lock(&self.changes).added.insert(name.to_owned(), added);
            self.apply().await?;
            if let Err(error) = self.arrived(name, scope) {
                self.take_back(name, before).await?;
                return Err(error);
            }
            if let Some(persist) = options.persist {
                let written = self.persist_added(name, definition, persist);
                self.take_back(name, before).await?;
                written?;
            }
        }
        if options.connect
            && let Some(connection) = self.table().get(name).cloned()
            && super::starts_by_itself(&connection)
        {
            self.connected.store(true, Ordering::Relaxed);
            // A server that does not connect is a status, not an error, of adding it.
            let _ = connection.connect(Wish::Connected).await;
        }
        Ok(())
    }

    /// Adds a server of scope `dynamic` that runs in the host's own program (SDK-01): the name is that of the
    /// instance too.
    ///
    /// # Errors
    /// As [`Manager::add_server`].
    pub async fn add_sdk_server(
        &self,
        name: &str,
        definition: &RawValue,
        options: &AddOptions,
    ) -> Result<(), McpError> {
        let fresh = lock(&self.changes).instances.insert(name.to_owned());
        let outcome = self.add_server(name, definition, options).await;
        if outcome.is_err() && fresh {
            lock(&self.changes).instances.remove(name);
        }
        outcome
    }

    /// Undoes an addition and resolves anew. The caller holds `applying`.
    async fn take_back(&self, name: &str, before: Option<Added>) -> Result<(), McpError> {
        {
            let mut changes = lock(&self.changes);
            match before {
                Some(before) => changes.added.insert(name.to_owned(), before),
                None => changes.added.remove(name),
            };
        }
        self.apply().await.map(drop)
    }

    /// Writes an added server to its file. A server the host writes into the project is approved by that.
    fn persist_added(&self, name: &str, definition: &RawValue, persist: Persist) -> Result<(), McpError> {
        let definition: Definition = serde_json::from_str(definition.get()).map_err(|error| {
            McpError::new(ErrorCode::ConfigInvalid, format!("the definition is no object: {error}")).on(name)
        })?;
        let file = self.write_server(persist, name, &definition).map_err(|error| error.on(name))?;
        if persist != Persist::Project {
            return Ok(());
        }
        let mut layer = RawLayer::host(Scope::Project, &format!("{{{}:null}}", json!(name)));
        layer.voice = Voice::Repository;
        layer.file = Some(crate::config::sources::text(&file));
        let definition = Arc::new(definition);
        let draft = Draft::written(name, &layer, Arc::clone(&definition));
        approval::keep(&self.state, &[(draft, Decision::Approved(definition))])
    }

    fn refuse_exclusive(&self, name: &str) -> Result<(), McpError> {
        if read(&self.resolution).as_ref().is_some_and(|now| now.combined.exclusive) {
            let message = "only the servers of the organisation's file may exist";
            return Err(McpError::new(ErrorCode::EnterpriseExclusive, message)
                .on(name)
                .with(by_policy(config::EXCLUSIVE)));
        }
        Ok(())
    }

    /// A name that a server of the same or a stronger scope has can only be taken on purpose.
    fn refuse_taken(&self, name: &str, scope: Scope, options: &AddOptions) -> Result<(), McpError> {
        let table = self.table();
        let Some(taken) = table.get(name).map(|connection| connection.spec().scope) else { return Ok(()) };
        let stays = if options.overriding { taken == Scope::Enterprise } else { taken >= scope };
        if !stays {
            return Ok(());
        }
        let message =
            format!("a server of that name exists already (scope {taken}); remove it first or use override");
        Err(McpError::new(ErrorCode::ServerExists, message).on(name))
    }

    /// Whether an added definition became a server.
    fn arrived(&self, name: &str, scope: Scope) -> Result<(), McpError> {
        match self.table().get(name) {
            Some(connection)
                if connection.spec().scope == scope && connection.spec().voice == Voice::Host =>
            {
                Ok(())
            }
            _ => Err(self.rejection(name, scope)),
        }
    }

    /// Why a definition did not become a server.
    fn rejection(&self, name: &str, scope: Scope) -> McpError {
        let Some(resolution) = read(&self.resolution).clone() else {
            return McpError::new(ErrorCode::ConfigInvalid, "the definition was not accepted").on(name);
        };
        let concerned: Vec<_> =
            resolution.errors.iter().filter(|finding| finding.server.as_deref() == Some(name)).collect();
        let entry = resolution.entries.iter().find(|entry| &*entry.name == name && entry.scope == scope);
        let code = match entry.map(|entry| entry.fate) {
            Some(Fate::Reserved) => ErrorCode::ReservedName,
            Some(Fate::Shadowed | Fate::Duplicate) => ErrorCode::ServerExists,
            Some(Fate::Denied | Fate::NotAllowed) => ErrorCode::PolicyDenied,
            Some(Fate::EnterpriseExclusive) => ErrorCode::EnterpriseExclusive,
            _ => ErrorCode::ConfigInvalid,
        };
        let message = concerned
            .first()
            .map(|finding| finding.message.clone())
            .or_else(|| entry.and_then(|entry| entry.reason.clone()))
            .unwrap_or_else(|| "the definition was not accepted".to_owned());
        let diagnostics = serde_json::to_string(&concerned)
            .ok()
            .and_then(|text| RawValue::from_string(text).ok())
            .map(Arc::from);
        McpError::new(code, message).on(name).with(|facts| {
            facts.diagnostics = diagnostics;
            if let (ErrorCode::PolicyDenied | ErrorCode::EnterpriseExclusive, Some(entry)) = (code, entry) {
                by_policy(entry.by.as_deref().unwrap_or_default())(facts);
            }
        })
    }

    /// Takes a server away and ends its connection; with `persist` out of the files of that scope.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`; `ENTERPRISE_EXCLUSIVE`; `CONFIG_INVALID` for a server that a file defines, without
    /// `persist`; `CONFIG_WRITE_FAILED`.
    pub async fn remove_server(&self, name: &str, persist: Option<Persist>) -> Result<(), McpError> {
        self.loaded().await?;
        let _applying = self.applying.lock().await;
        self.refuse_exclusive(name)?;
        if let Some(persist) = persist {
            let known = |resolution: &Resolution| resolution.entries.iter().any(|entry| &*entry.name == name);
            if !read(&self.resolution).as_deref().is_some_and(known) {
                return Err(self.unknown_server(name));
            }
            self.erase_server(persist, name).map_err(|error| error.on(name))?;
            return self.apply().await.map(drop);
        }
        let scope = match self.table().get(name) {
            Some(connection) => connection.spec().scope,
            None => return Err(self.unknown_server(name)),
        };
        if !matches!(scope, Scope::Dynamic | Scope::Plugin) {
            let message = format!(
                "the server is defined by a file (scope {scope}); switch it off, or remove it with persist"
            );
            return Err(McpError::new(ErrorCode::ConfigInvalid, message).on(name));
        }
        {
            let mut changes = lock(&self.changes);
            if changes.added.remove(name).is_none() {
                changes.removed.insert(name.to_owned());
            }
            changes.instances.remove(name);
        }
        self.apply().await.map(drop)
    }

    /// Switches a server on (and connects it) or off; with `persist` for good.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`; `CONFIG_WRITE_FAILED`, after the switch took effect here.
    pub async fn set_enabled(&self, name: &str, enabled: bool, persist: bool) -> Result<(), McpError> {
        self.connection(name).await?;
        {
            let _applying = self.applying.lock().await;
            lock(&self.changes).switches.insert(name.to_owned(), enabled);
            self.apply().await?;
        }
        if enabled
            && let Some(connection) = self.table().get(name).cloned()
            && super::starts_by_itself(&connection)
        {
            let _ = connection.connect(Wish::Connected).await;
        }
        if persist {
            let config = self.options.config.as_ref();
            let builtin = config.and_then(|config| config.builtin_servers.as_ref());
            let builtin = builtin.is_some_and(|servers| servers.contains_key(name));
            self.write_switch(name, enabled, builtin).map_err(|error| error.on(name))?;
        }
        Ok(())
    }
}

/// The layer and the rule of a refusal by policy. (POL-11)
fn by_policy(rule: &str) -> impl FnOnce(&mut Facts) {
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
