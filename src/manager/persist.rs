//! What is written back to configuration files: servers, switches, remembered permissions. (CFG-11, CFG-13,
//! POL-08)

use std::path::PathBuf;
use std::sync::Arc;

use super::Manager;
use crate::config::draft::Definition;
use crate::config::edit::{Edit, edit_file};
use crate::config::load::shown_path;
use crate::config::sources::{self, LOCAL_FILES};
use crate::config::trust;
use crate::config::{Places, Scope};
use crate::error::{ErrorCode, McpError};
use crate::runtime::read;

/// Where something is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Persist {
    /// The person's own settings of this project.
    Local,
    /// The project's file, for everybody who works on it.
    Project,
    /// The person's settings.
    User,
}

impl Persist {
    /// The scope that is written to.
    pub(super) fn scope(self) -> Scope {
        match self {
            Persist::Local => Scope::Local,
            Persist::Project => Scope::Project,
            Persist::User => Scope::User,
        }
    }
}

/// A file and the object in it that is edited.
struct Place {
    path: PathBuf,
    under: Vec<String>,
    /// A local file inside the project: what we write there is the person's.
    local: bool,
}

impl Manager {
    fn places(&self) -> Result<&Places, McpError> {
        self.places.as_ref().ok_or_else(|| {
            let message = "config is false, so no configuration file is known; nothing can be kept";
            McpError::new(ErrorCode::ConfigWriteFailed, message)
        })
    }

    /// Writes a server's definition.
    pub(super) fn write_server(
        &self,
        persist: Persist,
        name: &str,
        definition: &Definition,
    ) -> Result<PathBuf, McpError> {
        let edit = Edit::SetServer { name: name.to_owned(), definition: definition.clone() };
        let place = self.server_place(persist)?;
        self.write(&place, &[edit])?;
        Ok(place.path)
    }

    /// Takes a server out of every file of a scope that has it.
    pub(super) fn erase_server(&self, persist: Persist, name: &str) -> Result<(), McpError> {
        let places = self.places()?;
        let entries: Vec<(Scope, Arc<str>)> = {
            let resolution = read(&self.resolution);
            let entries = resolution.iter().flat_map(|now| &now.entries);
            let mine = entries.filter(|entry| &*entry.name == name);
            mine.filter_map(|entry| Some((entry.scope, Arc::clone(entry.file.as_ref()?)))).collect()
        };
        let mut erased = false;
        for place in server_places(places, persist)? {
            let shown = sources::text(&shown_path(&place.path));
            let has_it = entries.contains(&(persist.scope(), shown));
            let own = !place.local
                || std::fs::read(&place.path)
                    .is_ok_and(|content| trust::is_own(&place.path, &content, &self.state));
            if has_it && own {
                let server_file = place.path.file_name().is_some_and(|file| file == ".mcp.json");
                erased |= self.write(&place, &[Edit::RemoveServer { name: name.to_owned(), server_file }])?;
            }
        }
        if erased { Ok(()) } else { Err(not_erased(persist, &entries)) }
    }

    /// Keeps a switch in the local scope: in the one list, and out of the other.
    pub(super) fn write_switch(&self, name: &str, enabled: bool, builtin: bool) -> Result<(), McpError> {
        let text = name.to_owned();
        let mut edits = vec![if enabled {
            Edit::Remove { list: vec!["disabledMcpServers"], text: text.clone() }
        } else {
            Edit::Add { list: vec!["disabledMcpServers"], text: text.clone() }
        }];
        if builtin {
            let list = vec!["enabledMcpServers"];
            edits.push(if enabled { Edit::Add { list, text } } else { Edit::Remove { list, text } });
        }
        self.write(&self.local_place()?, &edits).map(drop)
    }

    /// Keeps an allow rule for one tool.
    pub(super) fn write_allow_rule(&self, persist: Persist, rule: String) -> Result<(), McpError> {
        let edit = Edit::Add { list: vec!["permissions", "allow"], text: rule };
        self.write(&self.rule_place(persist)?, &[edit]).map(drop)
    }

    /// Takes an allow rule for one tool out again.
    pub(super) fn erase_allow_rule(&self, persist: Persist, rule: String) -> Result<(), McpError> {
        let edit = Edit::Remove { list: vec!["permissions", "allow"], text: rule };
        self.write(&self.rule_place(persist)?, &[edit]).map(drop)
    }

    fn rule_place(&self, persist: Persist) -> Result<Place, McpError> {
        match persist {
            Persist::User => Ok(Place {
                path: self.places()?.user_settings().ok_or_else(no_home)?,
                under: Vec::new(),
                local: false,
            }),
            Persist::Local | Persist::Project => self.local_place(),
        }
    }

    fn server_place(&self, persist: Persist) -> Result<Place, McpError> {
        match persist {
            Persist::Local => self.local_place(),
            other => server_places(self.places()?, other)?.into_iter().next().ok_or_else(no_home),
        }
    }

    /// The local file if it is the person's or does not exist yet; otherwise what the person's own file says of
    /// this project. A file that came with the repository is never made trusted by a change of ours.
    fn local_place(&self) -> Result<Place, McpError> {
        let places = self.places()?;
        let path = places.project_settings("settings.local.json");
        let own = match std::fs::read(&path) {
            Ok(content) => trust::is_own(&path, &content, &self.state),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound && path.symlink_metadata().is_err(),
        };
        if own {
            return Ok(Place { path, under: Vec::new(), local: true });
        }
        project_entry(places).ok_or_else(no_home)
    }

    /// Whether that changed anything.
    fn write(&self, place: &Place, edits: &[Edit]) -> Result<bool, McpError> {
        let accept = |content: Option<&[u8]>| match content {
            Some(content) if place.local && !trust::is_own(&place.path, content, &self.state) => {
                let message = format!("{} was changed by somebody else meanwhile", place.path.display());
                Err(McpError::new(ErrorCode::ConfigWriteFailed, message))
            }
            _ => Ok(()),
        };
        let edited = edit_file(&place.path, &place.under, edits, accept)?;
        if place.local {
            trust::remember(&place.path, &edited.content, &self.state)?;
        }
        Ok(edited.changed)
    }
}

/// Files of a scope that may hold servers, the one to write to first.
fn server_places(places: &Places, persist: Persist) -> Result<Vec<Place>, McpError> {
    let plain = |path: PathBuf, local: bool| Place { path, under: Vec::new(), local };
    Ok(match persist {
        Persist::Project => {
            let own = [places.project_file(), places.project_settings("settings.json")];
            let above_and_below = places.walk().into_iter().map(|directory| directory.join(".mcp.json"));
            own.into_iter().chain(above_and_below).map(|path| plain(path, false)).collect()
        }
        Persist::User => {
            let file = places.user_file().ok_or_else(no_home)?;
            let settings = places.user_settings().ok_or_else(no_home)?;
            vec![plain(file, false), plain(settings, false)]
        }
        Persist::Local => {
            let files = LOCAL_FILES.iter().map(|name| plain(places.project_settings(name), true));
            let of_directories = places.directory_keys().into_iter().filter_map(|key| entry_of(places, key));
            files.chain(of_directories).collect()
        }
    })
}

/// The person's own file, at what it says of this project.
fn project_entry(places: &Places) -> Option<Place> {
    let project = std::fs::canonicalize(&places.project).unwrap_or_else(|_| places.project.clone());
    entry_of(places, project.to_string_lossy().into_owned())
}

/// The person's own file, at what it says of a directory.
fn entry_of(places: &Places, directory: String) -> Option<Place> {
    let under = vec!["projects".to_owned(), directory];
    Some(Place { path: places.user_file()?, under, local: false })
}

/// Nothing was taken out: where the server stands.
fn not_erased(persist: Persist, entries: &[(Scope, Arc<str>)]) -> McpError {
    let stands: Vec<String> = entries.iter().map(|(scope, file)| format!("{file} (scope {scope})")).collect();
    let stands = if stands.is_empty() { "no file".to_owned() } else { stands.join(", ") };
    let scope = persist.scope();
    let message =
        format!("no file of scope {scope} that is written to has the server; it stands in {stands}");
    McpError::new(ErrorCode::ConfigWriteFailed, message)
}

fn no_home() -> McpError {
    McpError::new(ErrorCode::ConfigWriteFailed, "no home directory is known; nothing can be kept there")
}
