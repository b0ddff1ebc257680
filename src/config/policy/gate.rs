//! The one gate in front of every attempt to connect.

use std::sync::{Arc, RwLock};

use super::{ALLOW_LIST, Policy, Subject, Verdict, shown};
use crate::config::load::find_program;
use crate::config::spec::ServerSpec;
use crate::error::{ErrorCode, McpError, PermissionLayer, Result};
use crate::runtime::{read, write};

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
    /// `POLICY_DENIED` naming the rule.
    pub fn check(&self, spec: &ServerSpec) -> Result<()> {
        let policy = Arc::clone(&read(&self.policy));
        let subject = Subject::new(spec, None, &self.relays);
        let lookup = |command: &str| find_program(command, &self.search_path);
        refuse(policy.decide(&subject, &lookup), &spec.name)
    }

    /// Lets a further URL of a server pass: a redirect, an endpoint. (POL-05)
    ///
    /// # Errors
    /// `POLICY_DENIED` naming the rule.
    pub fn check_url(&self, server: &str, url: &str) -> Result<()> {
        refuse(Arc::clone(&read(&self.policy)).decide_url(server, url), server)
    }
}

fn refuse(verdict: Verdict, server: &str) -> Result<()> {
    let (message, rule) = match verdict {
        Verdict::Allowed(_) => return Ok(()),
        Verdict::Denied(entry) => {
            let rule = shown(&entry);
            (format!("the policy entry {rule} denies the server"), rule)
        }
        Verdict::NotAllowed => {
            ("no entry of allowedMcpServers names the server".to_owned(), ALLOW_LIST.to_owned())
        }
    };
    Err(McpError::new(ErrorCode::PolicyDenied, message).on(server).with(|facts| {
        facts.layer = Some(PermissionLayer::Policy);
        facts.rule = Some(rule);
    }))
}
