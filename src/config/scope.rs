//! Where a definition lives, and which place is stronger.

use serde::{Deserialize, Serialize};

/// The place of a definition, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// A remote list pulled from an account.
    Connector,
    /// Brought by a plugin of the host.
    Plugin,
    /// The host's options and run-time additions.
    Dynamic,
    /// The person's own files.
    User,
    /// Files of the repository.
    Project,
    /// The person's own file inside the project.
    Local,
    /// The organisation's settings.
    Managed,
    /// The organisation's server file.
    Enterprise,
}

impl Scope {
    /// Every scope, weakest first.
    pub const ALL: [Scope; 8] = [
        Scope::Connector,
        Scope::Plugin,
        Scope::Dynamic,
        Scope::User,
        Scope::Project,
        Scope::Local,
        Scope::Managed,
        Scope::Enterprise,
    ];

    /// Position in [`Scope::ALL`]: on the same name the greater one wins.
    pub fn strength(self) -> u8 {
        self as u8
    }

    /// The scope as files and reports write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Connector => "connector",
            Scope::Plugin => "plugin",
            Scope::Dynamic => "dynamic",
            Scope::User => "user",
            Scope::Project => "project",
            Scope::Local => "local",
            Scope::Managed => "managed",
            Scope::Enterprise => "enterprise",
        }
    }
}

/// Who wrote a definition or setting; decides what it may say. A scope says how strong a definition is, a
/// voice how far its writer is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Voice {
    /// A file of the repository: whoever wrote the code.
    Repository,
    /// The program that embeds us: options and calls.
    Host,
    /// The person, by a local file inside the project that is known to be theirs.
    Local,
    /// The person, by files of their home directory.
    Person,
    /// The organisation.
    Organisation,
}

impl Voice {
    /// The voice of a layer of a scope, unless more is known of it.
    pub fn of(scope: Scope) -> Self {
        match scope {
            Scope::Connector | Scope::Plugin | Scope::Dynamic => Voice::Host,
            Scope::User => Voice::Person,
            Scope::Project => Voice::Repository,
            Scope::Local => Voice::Local,
            Scope::Managed | Scope::Enterprise => Voice::Organisation,
        }
    }
}

impl std::fmt::Display for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
