//! Version managers on this machine, where a command was not found: they put their programs into the path of interactive
//! shells alone, which desktop programs do not have (B3). Only looks; nothing is run.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::environment::Environment;

/// Most versions of one manager that are looked through.
const MOST_VERSIONS: usize = 200;

/// A manager that is installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct VersionManager {
    /// Its name.
    pub(super) name: &'static str,
    /// The command as it has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) file: Option<PathBuf>,
}

/// Where a manager keeps what it installs.
struct Place {
    name: &'static str,
    /// The variable that says where it is.
    variable: &'static str,
    /// Where it is otherwise, below the home directory.
    homes: &'static [&'static str],
    /// Directory of programs; `*` stands for one version of many.
    programs: &'static str,
}

const PLACES: [Place; 7] = [
    Place { name: "nvm", variable: "NVM_DIR", homes: &[".nvm"], programs: "versions/node/*/bin" },
    Place {
        name: "fnm",
        variable: "FNM_DIR",
        homes: &[".local/share/fnm", ".fnm", "Library/Application Support/fnm"],
        programs: "node-versions/*/installation/bin",
    },
    Place { name: "volta", variable: "VOLTA_HOME", homes: &[".volta"], programs: "bin" },
    Place { name: "asdf", variable: "ASDF_DATA_DIR", homes: &[".asdf"], programs: "shims" },
    Place { name: "mise", variable: "MISE_DATA_DIR", homes: &[".local/share/mise"], programs: "shims" },
    Place { name: "nodenv", variable: "NODENV_ROOT", homes: &[".nodenv"], programs: "shims" },
    Place { name: "pyenv", variable: "PYENV_ROOT", homes: &[".pyenv"], programs: "shims" },
];

/// The managers there are, and where they have the command.
pub(super) fn installed(command: &str, environment: &Environment) -> Vec<VersionManager> {
    if command.contains(['/', '\\']) {
        return Vec::new();
    }
    let find = |place: &Place| {
        let named = environment.get(place.variable).filter(|path| !path.is_empty()).map(PathBuf::from);
        let homes = place.homes.iter().filter_map(|below| Some(environment.home.as_ref()?.join(below)));
        let root = named.into_iter().chain(homes).find(|root| root.is_dir())?;
        let file = programs(&root, place.programs)
            .into_iter()
            .map(|directory| directory.join(command))
            .find(|file| file.is_file());
        Some(VersionManager { name: place.name, file })
    };
    PLACES.iter().filter_map(find).collect()
}

/// The directories of programs, the newest version first.
fn programs(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once("/*/") else { return vec![root.join(pattern)] };
    let Ok(entries) = std::fs::read_dir(root.join(before)) else { return Vec::new() };
    let mut versions: Vec<PathBuf> =
        entries.take(MOST_VERSIONS).filter_map(|entry| Some(entry.ok()?.path())).collect();
    versions.sort_by_cached_key(|path| std::cmp::Reverse(version_of(path)));
    versions.into_iter().map(|version| version.join(after)).collect()
}

/// The numbers in a name such as `v22.11.0`.
fn version_of(path: &Path) -> Vec<u64> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split(|letter: char| !letter.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
}
