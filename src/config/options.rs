//! What the host's options say about configuration, and the inputs of the pipeline made of it.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::config::approve::Approvals;
use crate::config::draft::{LayerShape, RawLayer};
use crate::config::names::DEFAULT_RESERVED;
use crate::config::scope::Scope;
use crate::config::settings::Said;
use crate::config::sources::{self, Places};
use crate::diagnostic::Diagnostic;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError, Result};
use crate::state_dir::StateDir;

/// The option `config` as an object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigOptions {
    /// Name of the configuration directory; default `.claude`.
    pub config_dir: Option<String>,
    /// Relay URLs with `{url}`.
    pub relay_url_templates: Vec<String>,
    /// Home directory in place of the person's.
    pub home_dir: Option<String>,
    /// Directory of the organisation's files.
    pub managed_dir: Option<String>,
    /// Directory where the walk towards the root ends.
    pub project_root: Option<String>,
    /// Variables for `${…}` in place of the environment of this process; `null` counts as not set.
    pub env: Option<BTreeMap<String, Option<String>>>,
    /// Only the organisation's servers may exist.
    pub enterprise_exclusive: bool,
    /// Where the list of connectors is.
    pub connector_base_url: Option<String>,
    /// URL of a connector with `{server_id}`.
    pub connector_proxy_url_template: Option<String>,
    /// Servers the host brings, off unless enabled.
    pub builtin_servers: Option<serde_json::Map<String, Value>>,
}

impl ConfigOptions {
    /// Reads the option from JSON text: `false` is `None` (no file is read), an absent option the defaults.
    /// Errors: `INVALID_ARGUMENT` for anything else.
    pub fn from_json(text: Option<&str>) -> Result<Option<Self>> {
        let Some(text) = text else { return Ok(Some(Self::default())) };
        let wrong = |detail: String| {
            McpError::new(ErrorCode::InvalidArgument, format!("The option config is malformed: {detail}"))
                .with(|facts| facts.parameter = Some("config".to_owned()))
        };
        match serde_json::from_str(text).map_err(|error| wrong(shape_of(&error)))? {
            Value::Bool(false) => Ok(None),
            Value::Null => Ok(Some(Self::default())),
            object @ Value::Object(_) => {
                let read: Self = serde_json::from_value(object).map_err(|error| wrong(shape_of(&error)))?;
                match read.config_dir.as_deref() {
                    Some(name) if !is_plain_name(name) => {
                        Err(wrong("configDir is the name of a directory, without separators".to_owned()))
                    }
                    _ => Ok(Some(read)),
                }
            }
            _ => Err(wrong("expected an object or false".to_owned())),
        }
    }
}

fn is_plain_name(name: &str) -> bool {
    !name.trim_matches('.').is_empty() && !name.contains(['/', '\\', '\0', ':'])
}

/// The kind of a JSON failure without the value that caused it; the value may be a secret.
fn shape_of(error: &serde_json::Error) -> String {
    match error.classify() {
        serde_json::error::Category::Data => "a field has the wrong type".to_owned(),
        _ => format!("not JSON at line {} column {}", error.line(), error.column()),
    }
}

/// Settings of the pipeline.
#[derive(Clone, Debug)]
pub struct ResolveOptions {
    /// Names that servers of the configuration may not have.
    pub reserved: Vec<String>,
    /// Variables for `${…}`; names without regard to case on Windows.
    pub environment: Environment,
    /// What was said about servers of repository files, beside what files say.
    pub approvals: Approvals,
    /// The host's switches by name: `true` on, `false` off, whatever the definition says.
    pub switches: BTreeMap<String, bool>,
    /// Names under which in-process servers were handed over.
    pub sdk_instances: BTreeSet<String>,
    /// Policy and rules of the host's options.
    pub host: Said,
    /// Only the organisation's servers may exist, whatever its file says.
    pub exclusive: bool,
    /// Relay URLs with `{url}`.
    pub relays: Vec<String>,
    /// Servers that wait for a login: they make no other superfluous.
    pub unusable: BTreeSet<String>,
}

impl ResolveOptions {
    /// Settings by the host's options; `None` is `config: false`.
    pub fn new(environment: &Environment, options: Option<&ConfigOptions>) -> Self {
        let mut environment = environment.clone();
        if let Some(vars) = options.and_then(|options| options.env.as_ref()) {
            environment.vars =
                vars.iter().filter_map(|(name, value)| Some((name.clone(), value.clone()?))).collect();
        }
        Self {
            reserved: DEFAULT_RESERVED.map(str::to_owned).to_vec(),
            environment,
            approvals: Approvals::default(),
            switches: BTreeMap::new(),
            sdk_instances: BTreeSet::new(),
            host: Said::default(),
            exclusive: options.is_some_and(|options| options.enterprise_exclusive),
            relays: options.map(|options| options.relay_url_templates.clone()).unwrap_or_default(),
            unusable: BTreeSet::new(),
        }
    }
}

/// Everything the pipeline decides on.
#[derive(Clone, Debug)]
pub struct Inputs {
    /// What was read, weaker layers of a scope first.
    pub layers: Vec<RawLayer>,
    /// Findings of reading.
    pub diagnostics: Vec<Diagnostic>,
    /// Settings.
    pub options: ResolveOptions,
}

impl Inputs {
    /// Reads the files the options allow; `places` is `None` with `config: false`.
    pub fn gather(
        environment: &Environment,
        config: Option<&ConfigOptions>,
        places: Option<&Places>,
        state: &StateDir,
    ) -> Self {
        let gathered = places.map(|places| sources::gather(places, state)).unwrap_or_default();
        let mut inputs = Self {
            layers: Vec::new(),
            diagnostics: gathered.diagnostics,
            options: ResolveOptions::new(environment, config),
        };
        if let Some(servers) = config.and_then(|config| config.builtin_servers.as_ref()) {
            let mut layer = RawLayer::host(Scope::Dynamic, &Value::Object(servers.clone()).to_string());
            layer.shape = LayerShape::Builtin;
            inputs.layers.push(layer);
        }
        inputs.layers.extend(gathered.layers);
        inputs
    }
}
