//! The manager: the only type the binding knows. Composes configuration, connections, names, permission and
//! calls; owns the table of connections.

mod approval;
mod approval_warnings;
mod arrivals;
mod audit;
mod authorization;
pub mod changes;
pub mod configuration;
mod connectors;
mod crowding;
mod editor;
mod ending;
pub mod finding;
mod late_writes;
mod listing;
mod login_wishes;
mod official;
pub mod options;
mod outputs;
mod passage;
mod persist;
mod pinning;
mod pins;
pub mod prompts;
mod raw;
pub mod registry;
mod resource_tools;
pub mod resources;
mod roots;
mod rules;
pub mod search;
pub mod skills;
pub mod span;
pub mod tasks;
pub mod tools;
pub mod verb_payloads;
pub mod verbs;
mod verdicts;
mod view;
mod wake;
mod watching;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once, RwLock, Weak};

use tokio::sync::watch;

use crate::auth::{Sealing, TokenStore, keychain};
use crate::client::input::features_of;
use crate::config::identity::{self, IdentityKey};
use crate::config::policy::Gate;
use crate::config::spec::{ServerSpec, StartPolicy, TransportSpec};
use crate::config::{Places, Resolution};
use crate::connection::manifest::Manifest;
use crate::connection::predecessors::Predecessors;
use crate::connection::status::PublicState;
use crate::connection::{Connection, ConnectionListener, Parts, Wish};
use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};
use crate::host::post::PostOffice;
use crate::host::{Host, HostEvent};
use crate::permission::Memory;
use crate::protocol::capability::ClientFeatures;
use crate::recorder::Recorder;
use crate::runtime::{lock, read};
use crate::state_dir::StateDir;
use crate::transport::authorizer::Authorizer;
use crate::transport::connector::tls::extra_roots_problem;
use audit::{AuditLog, AuditingHost};
use connectors::{Account, Connectors};
use ending::{Leaving, closed_error};
use options::{Options, TokenChoice};
use outputs::Outputs;
use registry::Registry;
use rules::Rules;
use verdicts::Verdicts;

type Table = BTreeMap<String, Connection>;

/// Findings that are remembered as told; above it they are forgotten and may be told again.
const MOST_REPORTED: usize = 10_000;

/// How far the end of a manager has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    UnderWay,
    Done,
}

/// Everything one `new McpManager()` stands for.
pub struct Manager {
    options: Options,
    environment: Arc<Environment>,
    post: Arc<PostOffice>,
    /// The embedding program, as connections and views see it.
    host: Arc<dyn Host>,
    rules: RwLock<Arc<Rules>>,
    memory: Mutex<Memory>,
    /// Definitions of tools as they were approved.
    pins: pins::Pins,
    /// Tools in the model's context.
    loaded: search::Loaded,
    /// Where configuration files are; `None` with `config: false`.
    places: Option<Places>,
    state: Arc<StateDir>,
    /// Whose processes may have been left behind.
    predecessors: Option<Arc<Predecessors>>,
    /// What was found out about servers.
    verdicts: Arc<Verdicts>,
    /// Who lately asked for a login in vain.
    login_wishes: Arc<login_wishes::LoginWishes>,
    /// Where logins are kept.
    tokens: Arc<TokenStore>,
    /// What every attempt to connect passes.
    gate: Gate,
    audit_log: Option<Arc<AuditLog>>,
    /// The host's account, where it has `getConnectorToken`.
    account: Option<Arc<Account>>,
    /// The connectors of the account, where a list is configured.
    connectors: Option<Arc<Connectors>>,
    /// The editor that was found.
    editor: editor::Editor,
    views: Mutex<view::Views>,
    /// Calls in the background.
    tasks: Mutex<tasks::Tasks>,
    /// Last content of every file that could be read.
    last_good: Mutex<configuration::LastGood>,
    /// Servers that waited for a login when duplicates were last weighed.
    waiting_for_login: Mutex<BTreeSet<String>>,
    /// Names that files gave when an editor was last put among the servers.
    names_in_files: Mutex<BTreeSet<String>>,
    /// Questions for approval.
    asking: Mutex<approval::Asking>,
    roots: Arc<RwLock<Vec<String>>>,
    table: RwLock<Arc<Table>>,
    registry: registry::InForce,
    resolution: RwLock<Option<Arc<Resolution>>>,
    /// Servers added at run time and switches set at run time.
    changes: Mutex<changes::Changes>,
    /// One change of the configuration at a time.
    applying: tokio::sync::Mutex<()>,
    /// Whether anything was ever connected: lists asked for before that connect first.
    connected: AtomicBool,
    /// Whether somebody looks at the clocks.
    watches_clocks: AtomicBool,
    closing: watch::Sender<Closing>,
    leaving: Leaving,
    reported: Mutex<HashSet<String>>,
    /// Whether `NODE_EXTRA_CA_CERTS` was looked at.
    roots_told: Once,
    /// Where files of results go.
    outputs: Outputs,
    this: Weak<Manager>,
}

impl Manager {
    /// A manager by its options (JSON text); nothing is read or started yet. `bell` rings for letters.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` naming the option.
    pub fn new(options: &str, bell: Box<dyn Fn() + Send + Sync>) -> Result<Arc<Self>, McpError> {
        let environment = Arc::new(Environment::capture());
        let mut options = Options::read(options, Arc::clone(&environment))?;
        let post = Arc::new(PostOffice::new(options.callbacks.iter().copied().collect(), bell));
        let places = options.config.as_ref().map(|config| Places::new(&environment, &options.cwd, config));
        let state = Arc::new(options.state_dir(places.as_ref()));
        let gate = gate(&options, &environment);
        let audit_log = options.audit.clone().map(AuditLog::new).map(Arc::new);
        let host = audited(&post, audit_log.as_ref());
        options.connection.recorder = options.record_to.clone().map(|path| recorder(path, &post));
        let account = Account::new(&post);
        let connect = |config| Connectors::new(config, account.clone(), &options.connection);
        let connectors = options.config.as_ref().and_then(connect);
        let roots = roots::first_roots(&options);
        let tokens = Arc::new(token_store(options.tokens, &state, &environment, &post));
        let pins = pins::Pins::new(options.pins, Arc::clone(&state));
        let outputs = Outputs::new(options.output_dir.clone(), &state, options.output_retention);
        let login_wishes = login_wishes::LoginWishes::new(Arc::clone(&state), options.login_memory);
        let manager = Arc::new_cyclic(|this| Self {
            options,
            environment,
            post,
            host,
            tokens,
            rules: RwLock::default(),
            memory: Mutex::default(),
            pins,
            loaded: search::Loaded::default(),
            places,
            verdicts: Verdicts::new(Arc::clone(&state), Weak::clone(this)),
            login_wishes,
            predecessors: state.path().map(|path| Predecessors::of(path.to_owned())),
            state,
            gate,
            audit_log,
            account,
            connectors,
            editor: editor::Editor::default(),
            views: Mutex::default(),
            tasks: Mutex::default(),
            last_good: Mutex::default(),
            waiting_for_login: Mutex::default(),
            names_in_files: Mutex::default(),
            asking: Mutex::default(),
            roots: Arc::new(RwLock::new(roots)),
            table: RwLock::default(),
            registry: registry::InForce::default(),
            resolution: RwLock::default(),
            changes: Mutex::default(),
            applying: tokio::sync::Mutex::new(()),
            connected: AtomicBool::new(false),
            watches_clocks: AtomicBool::new(false),
            closing: watch::Sender::new(Closing::No),
            leaving: Leaving::default(),
            reported: Mutex::default(),
            roots_told: Once::new(),
            outputs,
            this: Weak::clone(this),
        });
        manager.report_options();
        Ok(manager)
    }

    /// Tells of options that have no effect.
    fn report_options(&self) {
        if self.options.tokens == TokenChoice::Keychain && self.state.path().is_none() {
            self.diagnose(&Diagnostic::warning(
                "KEYCHAIN_UNAVAILABLE",
                "tokenStore \"keychain\" seals files, and there is no stateDir for them: logins are kept in memory",
            ));
        }
        let unknown = |message| self.diagnose(&Diagnostic::warning("UNKNOWN_OPTION", message));
        for name in &self.options.unknown {
            unknown(format!("the option \"{name}\" is not known"));
        }
        for name in &self.options.stray_functions {
            unknown(format!("the option \"{name}\" is no function that is known, and is never called"));
        }
    }

    /// The letters for JavaScript.
    pub fn post(&self) -> &Arc<PostOffice> {
        &self.post
    }

    /// Tells the host of a finding.
    fn diagnose(&self, finding: &Diagnostic) {
        if let Ok(body) = serde_json::to_string(finding) {
            self.post.emit(HostEvent { name: "diagnostic", body, key: None });
        }
    }

    /// Tells the host of a finding once in this manager's life.
    fn diagnose_once(&self, finding: &Diagnostic) {
        let key = format!("{} {:?} {}", finding.code, finding.server, finding.message);
        let mut reported = lock(&self.reported);
        if reported.len() >= MOST_REPORTED {
            reported.clear();
        }
        let is_new = reported.insert(key);
        drop(reported);
        if is_new {
            self.diagnose(finding);
        }
    }

    fn table(&self) -> Arc<Table> {
        Arc::clone(&read(&self.table))
    }

    fn registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry.read())
    }

    fn open_for_use(&self) -> Result<(), McpError> {
        if *self.closing.borrow() == Closing::No { Ok(()) } else { Err(closed_error()) }
    }

    /// The connection of a server.
    ///
    /// # Errors
    /// `SERVER_UNKNOWN` with near misses; where configuration keeps the server from running, why.
    async fn connection(&self, server: &str) -> Result<Connection, McpError> {
        self.loaded().await?;
        if let Some(connection) = self.table().get(server) {
            return Ok(connection.clone());
        }
        self.ask_approvals(Some(server)).await?;
        self.connectors_settled().await;
        self.table().get(server).cloned().ok_or_else(|| self.unknown_server(server))
    }

    fn unknown_server(&self, server: &str) -> McpError {
        if let Err(closed) = self.open_for_use() {
            return closed.on(server);
        }
        if let Some(error) =
            read(&self.resolution).as_ref().and_then(|now| configuration::why_not(now, server))
        {
            return error.on(server);
        }
        let table = self.table();
        let suggestions = crate::name::near_misses(server, table.keys().map(String::as_str), 3);
        let hint = match suggestions.first() {
            Some(first) => format!("; did you mean \"{first}\"?"),
            None if table.is_empty() => "; no server is configured".to_owned(),
            None => String::new(),
        };
        let shown = crate::client::excerpt(&crate::unicode::clean_str_lossy(server), 100);
        McpError::new(ErrorCode::ServerUnknown, format!("no server \"{shown}\" is configured{hint}"))
            .on(server)
            .with(|facts| facts.suggestions = Some(suggestions))
    }

    fn start_connection(&self, spec: &Arc<ServerSpec>) -> Connection {
        if !matches!(spec.transport, TransportSpec::Stdio(_) | TransportSpec::Sdk { .. }) {
            self.roots_told.call_once(|| self.tell_of_roots());
        }
        let mut settings = self.options.connection.clone();
        settings.clocks = settings.clocks.with(&spec.timeouts);
        settings.start = spec.start.unwrap_or(settings.start);
        settings.introduction.features =
            ClientFeatures { apps: self.options.apps, ..features_of(self.post.as_ref()) };
        settings.gate = self.gate.clone();
        settings.predecessors.clone_from(&self.predecessors);
        settings.account = self.account.clone().map(|account| account as Arc<dyn Authorizer>);
        if !matches!(spec.transport, TransportSpec::Stdio(_) | TransportSpec::Sdk { .. })
            && !self.watches_clocks.swap(true, Ordering::Relaxed)
        {
            crate::runtime::spawn(wake::watch_clocks(Weak::clone(&self.this)));
        }
        let manifest = (settings.start == StartPolicy::Lazy).then(|| self.manifest(spec)).flatten();
        Connection::start(Parts {
            spec: Arc::clone(spec),
            settings: Arc::new(settings),
            host: Arc::clone(&self.host),
            listener: Arc::new(Renaming(Weak::clone(&self.this))),
            roots: Arc::clone(&self.roots),
            verdicts: self.verdicts.of(spec),
            login_wish: self.login_wishes.of(spec),
            manifest,
            tokens: Arc::clone(&self.tokens),
        })
    }

    /// A file of certificates that counts for nothing is no error, as in Node.js, but worth telling (TLS-01).
    fn tell_of_roots(&self) {
        if let Some(why) = extra_roots_problem(&self.environment) {
            self.diagnose(&Diagnostic::warning("EXTRA_ROOTS_UNUSABLE", why));
        }
    }

    /// Where the lists of a server are kept; `None` where nothing can be kept.
    fn manifest(&self, spec: &ServerSpec) -> Option<Manifest> {
        let key = IdentityKey::read_or_make(&self.state).ok()?;
        Some(Manifest::new(Arc::clone(&self.state), &identity::identity(spec, &key)))
    }

    /// Gives names anew after a list or the table has changed.
    fn rename(&self) {
        let (findings, changes) = self.registry.replace(|| {
            let connections: Vec<Connection> = self.table().values().cloned().collect();
            let rules = Arc::clone(&read(&self.rules));
            let changes = self.examine_tools(&connections, &rules);
            let naming = registry::Naming {
                pins: &self.pins,
                rules: &rules,
                limit: self.options.max_tool_name,
                ide_tools: &self.options.ide_tools,
                sdk_prefix: self.options.sdk_prefix,
            };
            let (registry, findings) = Registry::build(&connections, &naming);
            (registry, (findings, changes))
        });
        for finding in findings {
            self.diagnose_once(&finding);
        }
        for (server, change) in changes {
            self.definition_changed(&server, change);
        }
    }

    /// Connects every server at the same time; resolves when each first attempt has ended (LIF-03).
    ///
    /// # Errors
    /// `CONFIG_*` never (they stand in the report); the error of a `start: 'required'` server that failed.
    pub async fn connect_all(&self) -> Result<(), McpError> {
        self.loaded().await?;
        self.connected.store(true, Ordering::Relaxed);
        let before = self.table();
        // A person who thinks about an approval keeps nobody else waiting for a start.
        let nothing = Table::new();
        let (first, asked, ()) = tokio::join!(
            connect_table(&before, &nothing),
            self.ask_approvals(None),
            self.connectors_settled()
        );
        asked?;
        let second = connect_table(&self.table(), &before).await;
        first.and(second)
    }

    /// Lists asked for before anything was connected connect first.
    async fn connected_once(&self) -> Result<(), McpError> {
        self.open_for_use()?;
        if self.connected.load(Ordering::Relaxed) {
            return Ok(());
        }
        // A failing required server is an error of `connect()`, not of a list.
        let _ = self.connect_all().await;
        Ok(())
    }

    /// JSON text of all statuses, or of one; `None` for an unknown server.
    pub fn status_json(&self, server: Option<&str>) -> Option<String> {
        let table = self.table();
        let one = |connection: &Connection| serde_json::Value::Object(connection.snapshot().to_value());
        match server {
            Some(server) => table.get(server).map(|connection| one(connection).to_string()),
            None => Some(serde_json::Value::from(table.values().map(one).collect::<Vec<_>>()).to_string()),
        }
    }
}

/// Connects what is on, does not start late and is not in `done`: remote servers first, then local ones, all at
/// the same time as far as the pools allow (LIF-03). The error is that of a required server.
async fn connect_table(table: &Table, done: &Table) -> Result<(), McpError> {
    let mut due: Vec<&Connection> = table
        .iter()
        .filter(|(name, connection)| !done.contains_key(*name) && starts_by_itself(connection))
        .map(|(_, connection)| connection)
        .collect();
    due.sort_by_key(|connection| matches!(connection.spec().transport, TransportSpec::Stdio(_)));
    let attempts: Vec<_> = due
        .into_iter()
        .map(|connection| {
            let connection = connection.clone();
            tokio::spawn(async move {
                let start = connection.settings().start;
                let required = start == StartPolicy::Required;
                let wish = if required { Wish::Connected } else { Wish::Start };
                (start, connection.connect(wish).await)
            })
        })
        .collect();
    let mut first_failure = None;
    for attempt in attempts {
        if let Ok((StartPolicy::Required, Err(error))) = attempt.await {
            first_failure.get_or_insert(error);
        }
    }
    first_failure.map_or(Ok(()), Err)
}

/// Whether a server is connected without having been asked for (LIF-09).
fn starts_by_itself(connection: &Connection) -> bool {
    connection.settings().start != StartPolicy::Lazy && connection.snapshot().state() != PublicState::Disabled
}

/// What every attempt to connect passes; without a policy yet.
fn gate(options: &Options, environment: &Environment) -> Gate {
    let relays = options.config.as_ref().map(|config| config.relay_url_templates.clone());
    Gate::new(relays.unwrap_or_default(), environment.get("PATH").unwrap_or_default())
}

/// The store that the options choose (OAU-03).
fn token_store(
    choice: TokenChoice,
    state: &StateDir,
    environment: &Environment,
    post: &Arc<PostOffice>,
) -> TokenStore {
    let host: Arc<dyn Host> = Arc::<PostOffice>::clone(post);
    let keychain = || keychain::system(environment);
    let (path, sealing) = match (choice, state.path()) {
        (TokenChoice::Host, _) => return TokenStore::with_host(host),
        (TokenChoice::Memory, _) | (_, None) => return TokenStore::in_memory(host),
        (TokenChoice::Auto, Some(path)) => (path, Sealing::Wanted(keychain())),
        (TokenChoice::Keychain, Some(path)) => (path, Sealing::Required(keychain())),
        (TokenChoice::File, Some(path)) => (path, Sealing::Off),
    };
    TokenStore::in_files(path, sealing, host)
}

/// The embedding program as connections see it.
fn audited(post: &Arc<PostOffice>, log: Option<&Arc<AuditLog>>) -> Arc<dyn Host> {
    match log {
        Some(log) => Arc::new(AuditingHost { post: Arc::clone(post), log: Arc::clone(log) }),
        None => Arc::<PostOffice>::clone(post),
    }
}

/// Who writes messages down in the file at `path`; what it cannot write is told of.
fn recorder(path: PathBuf, post: &Arc<PostOffice>) -> Arc<Recorder> {
    let post = Arc::downgrade(post);
    Recorder::new(path, move |finding| {
        if let (Some(post), Ok(body)) = (post.upgrade(), serde_json::to_string(&finding)) {
            post.emit(HostEvent { name: "diagnostic", body, key: None });
        }
    })
}

/// Has names given anew; holds the manager weakly, because the manager owns the connections.
struct Renaming(Weak<Manager>);

impl ConnectionListener for Renaming {
    fn catalog_changed(&self) {
        if let Some(manager) = self.0.upgrade() {
            manager.rename();
            manager.weigh_duplicates();
        }
    }

    fn found(&self, finding: &Diagnostic) {
        if let Some(manager) = self.0.upgrade() {
            manager.diagnose_once(finding);
        }
    }
}
