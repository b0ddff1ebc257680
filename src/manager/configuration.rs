//! From options and files to the table of connections: loading, adding, removing, switching.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{Manager, Table};
use crate::config::report::Fate;
use crate::config::{self, Inputs, Resolution, Scope};
use crate::connection::Connection;
use crate::error::{ErrorCode, McpError};
use crate::jsonrpc::write::push_member;
use crate::runtime::{lock, read, write};
use crate::transport::CloseMode;

/// What was changed at run time.
#[derive(Debug, Default)]
pub struct Changes {
    /// Definitions by name, as JSON text; they come after those of the options.
    added: BTreeMap<String, Box<RawValue>>,
    /// Names under which in-process servers were handed over (SDK-01).
    instances: BTreeSet<String>,
    /// Names of servers taken away.
    removed: Vec<String>,
    /// Servers switched on or off.
    switches: BTreeMap<String, bool>,
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
        }
        Ok(())
    }

    /// Reads the configuration and returns the report as JSON text.
    pub async fn load(&self) -> Result<String, McpError> {
        self.loaded().await?;
        Ok(self.report_json())
    }

    /// The report as JSON text; empty before anything was loaded.
    pub fn report_json(&self) -> String {
        match &*read(&self.resolution) {
            Some(resolution) => resolution.report_json(),
            None => Resolution::default().report_json(),
        }
    }

    /// Resolves the configuration anew and starts or ends what differs. The caller holds `applying`.
    async fn apply(&self) -> Result<(), McpError> {
        self.open_for_use()?;
        let resolution = Arc::new(self.resolve());
        for finding in resolution.errors.iter().chain(&resolution.warnings) {
            self.diagnose_once(finding);
        }
        let names: Vec<&str> = resolution.servers.iter().map(|server| &*server.name).collect();
        for finding in self.rules.unknown_servers(names) {
            self.diagnose_once(&finding);
        }
        let before = self.table();
        let mut table = Table::new();
        let mut replaced: Vec<Connection> = Vec::new();
        for spec in &resolution.servers {
            let name = spec.name.to_string();
            let connection = match before.get(&name) {
                Some(connection) if connection.spec().same_effect(spec) => connection.clone(),
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
        *write(&self.resolution) = Some(resolution);
        self.rename();
        for connection in replaced {
            connection.close(CloseMode::Graceful, removed_error(connection.name())).await;
        }
        Ok(())
    }

    fn resolve(&self) -> Resolution {
        let (servers, switches, instances) = {
            let changes = lock(&self.changes);
            (self.dynamic_servers(&changes), changes.switches.clone(), changes.instances.clone())
        };
        let config = self.options.config.as_ref();
        let mut inputs = Inputs::gather(&self.environment, &self.options.cwd, config, servers.as_deref());
        inputs.options.reserved.clone_from(&self.options.reserved_names);
        inputs.options.switches = switches;
        inputs.options.sdk_instances = instances;
        config::resolve(&inputs)
    }

    /// The option `servers` with what was added and removed since.
    fn dynamic_servers(&self, changes: &Changes) -> Option<String> {
        if changes.added.is_empty() && changes.removed.is_empty() {
            return self.options.servers.clone();
        }
        let mut members = String::new();
        if let Some(text) = &self.options.servers
            && let Ok(own) = serde_json::from_str::<Map<String, Value>>(text)
        {
            for (name, definition) in &own {
                if !changes.removed.contains(name) && !changes.added.contains_key(name) {
                    push_member(&mut members, name, &definition.to_string());
                }
            }
        }
        for (name, definition) in &changes.added {
            push_member(&mut members, name, definition.get());
        }
        Some(format!("{{{members}}}"))
    }

    /// Adds a server of scope `dynamic` and connects it, unless told not to (CFG-11).
    ///
    /// # Errors
    /// `SERVER_EXISTS`, `RESERVED_NAME`, `CONFIG_INVALID` with diagnostics.
    pub async fn add_server(&self, name: &str, definition: &RawValue, connect: bool) -> Result<(), McpError> {
        {
            self.loaded().await?;
            let _applying = self.applying.lock().await;
            if let Some(taken) = self.table().get(name) {
                let scope = taken.spec().scope;
                let message = format!(
                    "a server of that name exists already (scope {}); remove it first",
                    scope.as_str()
                );
                return Err(McpError::new(ErrorCode::ServerExists, message).on(name));
            }
            lock(&self.changes).added.insert(name.to_owned(), definition.to_owned());
            self.apply().await?;
            if !self.table().contains_key(name) {
                let error = self.rejection(name);
                lock(&self.changes).added.remove(name);
                self.apply().await?;
                return Err(error);
            }
        }
        if connect && let Some(connection) = self.table().get(name) {
            self.connected.store(true, std::sync::atomic::Ordering::Relaxed);
            // A server that does not connect is a status, not an error, of adding it.
            let _ = connection.connect(false).await;
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
        connect: bool,
    ) -> Result<(), McpError> {
        let fresh = lock(&self.changes).instances.insert(name.to_owned());
        let outcome = self.add_server(name, definition, connect).await;
        if outcome.is_err() && fresh {
            lock(&self.changes).instances.remove(name);
        }
        outcome
    }

    /// Why a definition did not become a server.
    fn rejection(&self, name: &str) -> McpError {
        let Some(resolution) = read(&self.resolution).clone() else {
            return McpError::new(ErrorCode::ConfigInvalid, "the definition was not accepted").on(name);
        };
        let concerned: Vec<_> =
            resolution.errors.iter().filter(|finding| finding.server.as_deref() == Some(name)).collect();
        let entry =
            resolution.entries.iter().find(|entry| &*entry.name == name && entry.scope == Scope::Dynamic);
        let code = match entry.map(|entry| entry.fate) {
            Some(Fate::Reserved) => ErrorCode::ReservedName,
            Some(Fate::Shadowed) => ErrorCode::ServerExists,
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
        McpError::new(code, message).on(name).with(|facts| facts.diagnostics = diagnostics)
    }

    /// Takes a server away and ends its connection.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`; `CONFIG_INVALID` for a server that a file defines.
    pub async fn remove_server(&self, name: &str) -> Result<(), McpError> {
        let connection = self.connection(name).await?;
        let _applying = self.applying.lock().await;
        let scope = connection.spec().scope;
        if scope != Scope::Dynamic {
            let message = format!(
                "the server is defined by a file (scope {}); switch it off or edit the file",
                scope.as_str()
            );
            return Err(McpError::new(ErrorCode::ConfigInvalid, message).on(name));
        }
        {
            let mut changes = lock(&self.changes);
            changes.added.remove(name);
            changes.instances.remove(name);
            changes.removed.push(name.to_owned());
        }
        self.apply().await
    }

    /// Switches a server on (and connects it) or off.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN`.
    pub async fn set_enabled(&self, name: &str, enabled: bool) -> Result<(), McpError> {
        let connection = self.connection(name).await?;
        lock(&self.changes).switches.insert(name.to_owned(), enabled);
        connection.enable(enabled).await?;
        if enabled {
            let _ = connection.connect(false).await;
        }
        Ok(())
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
    Some(McpError::new(code, format!("the server {what}{reason}")))
}
