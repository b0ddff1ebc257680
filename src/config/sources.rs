//! Which files are read for which scope, and how far each is trusted. (CFG-01, CFG-02)
//!
//! Owns the places; reading a file is `load`'s, what stands in it `parse`'s. Places come from options and the
//! environment of the process at start, never from a file of the project (B-006).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::draft::{LayerShape, RawLayer};
use crate::config::load::{Loaded, load_file};
use crate::config::options::ConfigOptions;
use crate::config::scope::{Scope, Voice};
use crate::config::trust;
use crate::diagnostic::Diagnostic;
use crate::environment::{Environment, Platform};
use crate::state_dir::StateDir;

/// Default of the option `configDir`.
const CONFIG_DIR: &str = ".claude";

/// Where everything is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Name of the configuration directory.
    pub config_dir: String,
    /// Working directory.
    pub cwd: PathBuf,
    /// Home directory.
    pub home: Option<PathBuf>,
    /// Directory of the organisation's files.
    pub managed: PathBuf,
    /// The project.
    pub project: PathBuf,
    /// Where the walk towards the root ends; `None` is the root of the file system.
    pub walk_end: Option<PathBuf>,
}

impl Places {
    /// Places by options and environment; `cwd` is the manager's working directory.
    pub fn new(environment: &Environment, cwd: &Path, options: &ConfigOptions) -> Self {
        let config_dir = options.config_dir.clone().unwrap_or_else(|| CONFIG_DIR.to_owned());
        let home = options.home_dir.as_ref().map(|home| cwd.join(home)).or_else(|| environment.home.clone());
        let managed = options
            .managed_dir
            .as_ref()
            .map_or_else(|| system_directory(environment.platform, &config_dir), |dir| cwd.join(dir));
        let walk_end = options.project_root.as_ref().map(|root| cwd.join(root));
        let project = walk_end.clone().unwrap_or_else(|| project_of(cwd));
        Self { config_dir, cwd: cwd.to_owned(), home, managed, project, walk_end }
    }

    /// The project's settings file, by its name.
    pub fn project_settings(&self, name: &str) -> PathBuf {
        self.project.join(&self.config_dir).join(name)
    }

    /// `<home>/<configDir>/settings.json`.
    pub fn user_settings(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(&self.config_dir).join("settings.json"))
    }

    /// `<home>/<configDir>.json`.
    pub fn user_file(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(format!("{}.json", self.config_dir)))
    }

    /// Where new project servers go: `.mcp.json` of the project.
    pub fn project_file(&self) -> PathBuf {
        self.project.join(".mcp.json")
    }

    /// Default of the option `stateDir`.
    pub fn state_dir(&self) -> Option<PathBuf> {
        Some(self.home.as_ref()?.join(&self.config_dir).join("mcp-switchboard"))
    }

    /// Directories whose `.mcp.json` counts, outermost first.
    pub fn walk(&self) -> Vec<PathBuf> {
        let all: Vec<&Path> = self.cwd.ancestors().collect();
        let end = self.walk_end.as_deref().and_then(|end| all.iter().position(|one| same(one, end)));
        let last = end.unwrap_or(all.len() - 1);
        all[..=last].iter().rev().map(|path| path.to_path_buf()).collect()
    }

    /// Every file that may be read, for watching.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.plan().into_iter().map(|source| source.path).collect();
        files.dedup();
        files
    }

    /// What is read in which order: weaker layers of a scope first.
    fn plan(&self) -> Vec<Source> {
        let mut plan = Vec::new();
        let mut add = |path: Option<PathBuf>, scope: Scope, shape: LayerShape| {
            plan.extend(path.map(|path| Source { path, scope, shape }));
        };
        let settings = || LayerShape::Settings;
        add(self.user_settings(), Scope::User, settings());
        add(self.user_file(), Scope::User, settings());
        // In the home directory the project's settings are the person's own, read above.
        let project = Some(self.project_settings("settings.json"));
        if project != self.user_settings() {
            add(project, Scope::Project, settings());
        }
        for directory in self.walk() {
            add(Some(directory.join(".mcp.json")), Scope::Project, LayerShape::File);
        }
        for name in LOCAL_FILES {
            add(Some(self.project_settings(name)), Scope::Local, settings());
        }
        for directory in self.directory_keys() {
            add(self.user_file(), Scope::Local, LayerShape::Directory(directory.into()));
        }
        add(Some(self.managed.join("managed-settings.json")), Scope::Managed, settings());
        add(Some(self.managed.join("managed-mcp.json")), Scope::Enterprise, LayerShape::File);
        plan
    }

    /// Keys under which `projects` may know this directory: the project, then where we are.
    pub fn directory_keys(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for path in [&self.project, &self.cwd] {
            for path in [std::fs::canonicalize(path).unwrap_or_else(|_| path.clone()), path.clone()] {
                let key = path.to_string_lossy().into_owned();
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
        }
        keys
    }
}

/// The local files, weaker first.
pub const LOCAL_FILES: [&str; 2] = ["local-settings.json", "settings.local.json"];

struct Source {
    path: PathBuf,
    scope: Scope,
    shape: LayerShape,
}

/// What reading all files gave.
#[derive(Clone, Debug, Default)]
pub struct Gathered {
    /// Layers, weaker ones of a scope first.
    pub layers: Vec<RawLayer>,
    /// What went wrong.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads every file there is.
pub fn gather(places: &Places, state: &StateDir) -> Gathered {
    let mut gathered = Gathered::default();
    let mut last: Option<(PathBuf, Loaded)> = None;
    for Source { path, scope, shape } in places.plan() {
        // One file may be several layers; it is read once.
        let again = last.as_ref().filter(|(read, _)| *read == path).map(|(_, loaded)| loaded.clone());
        let loaded = again.unwrap_or_else(|| load_file(&path, scope));
        gathered.add(&path, &loaded, (scope, shape), state);
        let told = |found: &Diagnostic| gathered.diagnostics.contains(found);
        if let Some(found) = loaded.diagnostic.clone().filter(|found| !told(found)) {
            gathered.diagnostics.push(found);
        }
        last = Some((path, loaded));
    }
    gathered
}

impl Gathered {
    fn add(&mut self, path: &Path, loaded: &Loaded, (scope, shape): (Scope, LayerShape), state: &StateDir) {
        let Some(mut layer) = loaded.clone().into_layer(scope) else { return };
        let of_directory = matches!(shape, LayerShape::Directory(_));
        layer.scope = scope;
        layer.voice = if of_directory { Voice::Person } else { Voice::of(scope) };
        layer.shape = shape;
        if scope == Scope::Local
            && !of_directory
            && layer.bytes.as_deref().is_some_and(|bytes| !trust::is_own(path, bytes, state))
        {
            layer.voice = Voice::Repository;
            let message = "The file came with the repository (git tracks it, or nobody is known to have written \
                           it here), so it counts as a file of the repository";
            let mut diagnostic = Diagnostic::info("LOCAL_FILE_NOT_TRUSTED", message);
            diagnostic.file = Some(path.to_string_lossy().into_owned());
            self.diagnostics.push(diagnostic);
        }
        self.layers.push(layer);
    }
}

/// Where an administrator puts files.
fn system_directory(platform: Platform, config_dir: &str) -> PathBuf {
    let own = config_dir.trim_start_matches('.');
    let default = config_dir == CONFIG_DIR;
    match platform {
        Platform::MacOs => {
            Path::new("/Library/Application Support").join(if default { "ClaudeCode" } else { own })
        }
        Platform::Windows => Path::new(r"C:\Program Files").join(if default { "ClaudeCode" } else { own }),
        Platform::Unix => Path::new("/etc").join(if default { "claude-code" } else { own }),
    }
}

/// The nearest directory with `.git`, else the directory itself.
fn project_of(cwd: &Path) -> PathBuf {
    let with_git = cwd.ancestors().find(|directory| directory.join(".git").symlink_metadata().is_ok());
    with_git.unwrap_or(cwd).to_owned()
}

fn same(one: &Path, other: &Path) -> bool {
    one == other
        || matches!((std::fs::canonicalize(one), std::fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}

/// Text of a path for messages and keys.
pub fn text(path: &Path) -> Arc<str> {
    Arc::from(path.to_string_lossy())
}
