//! Changes of the configuration at run time: adding, removing, switching. Owns what was changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::configuration::by_policy;
use super::persist::Persist;
use super::{Manager, approval};
use crate::config::approve::Decision;
use crate::config::draft::{Definition, Draft, RawLayer};
use crate::config::report::Fate;
use crate::config::{self, Resolution, Scope, Voice};
use crate::connection::Wish;
use crate::error::{ErrorCode, McpError};
use crate::runtime::{lock, read};

/// What was changed at run time.
#[derive(Debug, Default)]
pub struct Changes {
    /// Servers added, by name.
    pub(super) added: BTreeMap<String, Added>,
    /// Names of servers of the options that were taken away.
    pub(super) removed: BTreeSet<String>,
    /// Names under which in-process servers were handed over (SDK-01).
    pub(super) instances: BTreeSet<String>,
    /// Servers switched on or off.
    pub(super) switches: BTreeMap<String, bool>,
}

#[derive(Clone, Debug)]
pub(super) struct Added {
    pub(super) definition: Box<RawValue>,
    pub(super) scope: Scope,
    pub(super) source: Option<Arc<str>>,
    pub(super) overriding: bool,
}

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
                // Under a stronger file the written one would not run: then this addition stays, above all of them.
                if written.is_err() || !(options.overriding && self.is_stronger_than(persist.scope(), name)) {
                    self.take_back(name, before).await?;
                }
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

    /// Whether something stronger than files of a scope defines a server and is only shadowed by an addition.
    fn is_stronger_than(&self, scope: Scope, name: &str) -> bool {
        let resolution = read(&self.resolution);
        let mut entries = resolution.iter().flat_map(|now| &now.entries);
        entries.any(|entry| &*entry.name == name && entry.scope > scope && entry.fate == Fate::Shadowed)
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
    /// `SERVER_UNKNOWN`; `CONFIG_WRITE_FAILED`, after the switch took effect here: also where a file that is not
    /// written to still switches the server off.
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
            if let Some(who) = self.still_off(name).filter(|_| enabled) {
                let message = format!("the server is on now, and off again in later runs: {who} says so");
                return Err(McpError::new(ErrorCode::ConfigWriteFailed, message).on(name));
            }
        }
        Ok(())
    }
}
