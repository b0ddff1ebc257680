//! The one gate in front of every attempt to connect.

use std::sync::{Arc, RwLock};

use url::Url;

use super::{ALLOW_LIST, Policy, Subject, Verdict, shown};
use crate::config::load::find_program;
use crate::config::spec::{ServerSpec, TransportSpec};
use crate::error::{ErrorCode, McpError, PermissionLayer, Result};
use crate::runtime::{read, write};
use crate::secret::SafeUrl;
use crate::url_guard::is_loopback;

/// The policy in force, shared by every connection of a manager. Asked about the very definition that is
/// connected to, at each attempt: start, reconnect, run-time addition, redirect.
#[derive(Clone, Debug)]
pub struct Gate {
    policy: Arc<RwLock<Arc<Policy>>>,
    relays: Arc<[String]>,
    search_path: Arc<str>,
}

impl Gate {
    /// A gate that knows the relays behind which servers may stand and where programs are searched for; it lets
    /// everything through until [`Gate::replace`].
    pub fn new(relays: Vec<String>, search_path: &str) -> Self {
        Self { policy: Arc::default(), relays: relays.into(), search_path: search_path.into() }
    }

    /// Puts another policy in force, for attempts from now on.
    pub fn replace(&self, policy: Arc<Policy>) {
        *write(&self.policy) = policy;
    }

    /// Lets an attempt pass.
    ///
    /// # Errors
    /// `POLICY_DENIED` naming the rule; `URL_REFUSED` for an editor on another machine (IDE-01).
    pub fn check(&self, spec: &ServerSpec) -> Result<()> {
        let policy = Arc::clone(&read(&self.policy));
        let subject = Subject::new(spec, None, &self.relays);
        let lookup = |command: &str| find_program(command, &self.search_path);
        let verdict = policy.decide(&subject, &lookup);
        let by_url = matches!(&verdict, Verdict::Allowed(Some(entry)) if entry.get("serverUrl").is_some());
        refuse(verdict, &spec.name, "the server")?;
        if by_url { Ok(()) } else { stays_here(spec) }
    }

    /// Lets a further URL of a server pass: a redirect, an endpoint. (POL-05)
    ///
    /// # Errors
    /// `POLICY_DENIED` naming the rule and the URL, without secrets.
    pub fn check_url(&self, server: &str, url: &str) -> Result<()> {
        let verdict = Arc::clone(&read(&self.policy)).decide_url(server, url);
        refuse(verdict, server, &SafeUrl::new(url).to_string())
    }

    /// The gate for the further URLs of one server.
    pub fn of(&self, server: &Arc<str>) -> UrlGate {
        UrlGate { gate: self.clone(), server: Arc::clone(server) }
    }
}

/// The gate that the further URLs of one server pass.
#[derive(Clone, Debug)]
pub struct UrlGate {
    gate: Gate,
    server: Arc<str>,
}

impl UrlGate {
    /// As [`Gate::check_url`].
    ///
    /// # Errors
    /// `POLICY_DENIED`.
    pub fn check(&self, url: &Url) -> Result<()> {
        self.gate.check_url(&self.server, url.as_str())
    }
}

impl UrlGate {
    /// Lets a URL of a login pass: what is denied stays denied, but an allow list is about servers. (B-044)
    ///
    /// # Errors
    /// `POLICY_DENIED`.
    pub fn check_login(&self, url: &Url) -> Result<()> {
        let policy = Arc::clone(&read(&self.gate.policy));
        match policy.decide_url(&self.server, url.as_str()) {
            Verdict::NotAllowed => Ok(()),
            verdict => refuse(verdict, &self.server, &SafeUrl::new(url.as_str()).to_string()),
        }
    }
}

/// An editor gets a token and runs code for us: it is on this machine, unless the allow list names its URL.
fn stays_here(spec: &ServerSpec) -> Result<()> {
    let (TransportSpec::SseIde(ide) | TransportSpec::WsIde(ide)) = &spec.transport else { return Ok(()) };
    let url = Url::parse(ide.url.expose()).ok();
    if url.as_ref().and_then(Url::host).is_some_and(|host| is_loopback(&host)) {
        return Ok(());
    }
    let message = format!(
        "the editor at {} is not on this machine; an entry {{\"serverUrl\": …}} of allowedMcpServers that \
         covers it lets it be used",
        ide.url
    );
    Err(McpError::new(ErrorCode::UrlRefused, message).on(&spec.name))
}

fn refuse(verdict: Verdict, server: &str, what: &str) -> Result<()> {
    let (message, rule) = match verdict {
        Verdict::Allowed(_) => return Ok(()),
        Verdict::Denied(entry) => {
            let rule = shown(&entry);
            (format!("the policy entry {rule} denies {what}"), rule)
        }
        Verdict::NotAllowed => (format!("no entry of allowedMcpServers names {what}"), ALLOW_LIST.to_owned()),
    };
    Err(McpError::new(ErrorCode::PolicyDenied, message).on(server).with(|facts| {
        facts.layer = Some(PermissionLayer::Policy);
        facts.rule = Some(rule);
    }))
}
