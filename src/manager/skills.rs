//! Skills: listing them, loading one, reading its files (BEY-12, mcp:SKILL-*).
//!
//! Nothing is read before a skill is loaded, nothing is handed out that does not agree with the entry, and every
//! read goes to the skill's own server.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::Manager;
use super::finding::{SURELY_FRESH, shown, unknown};
use super::listing::is_shown;
use super::tools::CallOptions;
use super::verbs::Answer;
use crate::call::blob::decode_base64;
use crate::client::Request;
use crate::connection::{Connection, Live};
use crate::deadline::Deadline;
use crate::diagnostic::Diagnostic;
use crate::error::{ErrorCode, McpError};
use crate::json_scan;
use crate::jsonrpc::write::{Params, inner_members, push_member, push_string};
use crate::protocol::capability;
use crate::protocol::content::LARGE_TEXT_BYTES;
use crate::protocol::skill::{FileContent, MOST_BYTES, Refusal, SkillDefinition, content_of, map_skills};

/// A file of a loaded skill that is wanted.
#[derive(Debug)]
pub struct WantedFile {
    /// Server.
    pub server: String,
    /// URI of the skill.
    pub skill: String,
    /// Path below its directory, or a URI.
    pub path: String,
    /// As bytes instead of text.
    pub bytes: bool,
}

/// One load or read under way.
struct Visit<'a> {
    connection: &'a Connection,
    live: Live,
    deadline: Arc<Deadline>,
    options: &'a CallOptions,
}

/// Why a file could not be had.
enum Trouble {
    /// It is there, but not as listed.
    Refused(Refusal),
    /// It could not be read.
    Failed(McpError),
}

impl From<Refusal> for Trouble {
    fn from(refusal: Refusal) -> Self {
        Trouble::Refused(refusal)
    }
}

impl From<McpError> for Trouble {
    fn from(error: McpError) -> Self {
        Trouble::Failed(error)
    }
}

impl Trouble {
    fn into_error(self, server: &str) -> McpError {
        match self {
            Trouble::Refused(refusal) => refused(&refusal, server),
            Trouble::Failed(error) => error.on(server),
        }
    }
}

fn refused(refusal: &Refusal, server: &str) -> McpError {
    let hint = if refusal.may_be_outdated() { "; it was not used, load the skill anew" } else { "" };
    let data = json!({ "reason": refusal.reason, "differences": refusal.differences });
    McpError::new(ErrorCode::SkillRefused, format!("{}{hint}", refusal.message))
        .on(server)
        .with(|facts| facts.data = serde_json::value::to_raw_value(&data).ok().map(Arc::from))
}

/// Where skills of a name are: server and URI.
type Names = BTreeMap<String, BTreeSet<(String, String)>>;

impl Manager {
    /// JSON text of the skills of all connected servers, or of one; a server that fails never hides the others.
    /// No file of them is read (mcp:SKILL-12).
    ///
    /// # Errors
    /// With a server: why its list cannot be had.
    pub async fn list_skills(&self, server: Option<&str>) -> Result<String, McpError> {
        let reads: Vec<_> = self
            .lists_of(server)
            .await?
            .into_iter()
            .map(|(connection, live)| {
                tokio::spawn(async move {
                    let read = connection.skills(&live).await;
                    (connection, read)
                })
            })
            .collect();
        let mut listed = Vec::new();
        for read in reads {
            match read.await {
                Ok((connection, Ok(skills))) => listed.push((connection, skills)),
                Ok((connection, Err(error))) if server.is_some() => return Err(error.on(connection.name())),
                // It stands in the server's status.
                _ => {}
            }
        }
        let names = self.skill_names();
        let skills: Vec<String> = listed
            .iter()
            .flat_map(|(connection, list)| list.iter().map(|skill| (connection.name(), skill)))
            .map(|(server, skill)| public_skill(server, skill, &names))
            .collect();
        Ok(format!("[{}]", skills.join(",")))
    }

    /// Loads a skill by name or URI: its entry is held from now on and its `SKILL.md` handed out. The answer is
    /// the JSON text of an array of one `{skill, files, text}`.
    ///
    /// # Errors
    /// `CAPABILITY_MISSING`, `SKILL_UNKNOWN`, `SKILL_REFUSED` with `data.reason`, and those of any request.
    pub async fn load_skill(
        &self,
        server: &str,
        wanted: &str,
        options: CallOptions,
    ) -> Result<Answer, McpError> {
        let connection = self.connection(server).await?;
        let visit = self.visit(&connection, &options).await?;
        let entry = self.find_skill(&visit, wanted).await?;
        let (entry, text) = self.verified(&visit, entry).await?;
        connection.skill_shelf().hold(Arc::clone(&entry));
        let mut members = String::from("\"skill\":");
        members.push_str(&public_skill(server, &entry, &self.skill_names()));
        let files: Vec<Value> = entry
            .paths()
            .map(|(path, file)| json!({ "path": path, "uri": file.uri, "size": file.size }))
            .collect();
        push_member(&mut members, "files", &Value::from(files).to_string());
        self.with_text(members, text)
    }

    /// Reads a file of a loaded skill by a path below its directory. The answer is the JSON text of an array of one
    /// `{text}`, or `{data}` with base64 where `bytes` says so.
    ///
    /// # Errors
    /// `SKILL_UNKNOWN` where the skill was not loaded, `SKILL_REFUSED` with `data.reason`, and those of any request.
    pub async fn read_skill_file(
        &self,
        wanted: &WantedFile,
        options: CallOptions,
    ) -> Result<Answer, McpError> {
        let WantedFile { server, skill, path, bytes } = wanted;
        let connection = self.connection(server).await?;
        let entry = connection.skill_shelf().held(skill).ok_or_else(|| {
            let message = format!("the skill {} is not held any more; load it again", shown(skill));
            McpError::new(ErrorCode::SkillUnknown, message).on(server)
        })?;
        let visit = self.visit(&connection, &options).await?;
        let read = self.read_verified(&visit, &entry, path).await;
        let file = read.map_err(|trouble| trouble.into_error(server))?;
        if *bytes {
            let mut members = String::new();
            push_member(&mut members, "data", &format!("\"{}\"", STANDARD.encode(&file)));
            return Ok(format!("[{{{members}}}]").into());
        }
        let text = std::str::from_utf8(&file).map_err(|_| {
            let message = format!("{} is not text; read it as bytes (readBytes)", shown(path));
            refused(&Refusal::new("binary", message), server)
        })?;
        self.with_text(String::new(), text.to_owned())
    }

    /// Members and a text of the server, cleaned as results are (SEC-02).
    fn with_text(&self, mut members: String, text: String) -> Result<Answer, McpError> {
        let removed = std::cell::Cell::new(0);
        let text = self.options.sanitize_results.text(Cow::Owned(text), &removed)?;
        if removed.get() > 0 {
            self.diagnose(&Diagnostic::hidden("a file of a skill", removed.get()));
        }
        if text.len() > LARGE_TEXT_BYTES {
            push_member(&mut members, "text", "\"\"");
            return Ok(Answer { value: format!("[{{{members}}}]"), texts: vec![(0, text)] });
        }
        push_member(&mut members, "text", &json_scan::quote(&text));
        Ok(format!("[{{{members}}}]").into())
    }

    async fn visit<'a>(
        &self,
        connection: &'a Connection,
        options: &'a CallOptions,
    ) -> Result<Visit<'a>, McpError> {
        let clocks = connection.settings().clocks;
        let deadline = Arc::new(Deadline::start(clocks.request(options.timeout, options.total)));
        let live = connection.ready(&deadline, None).await?;
        Ok(Visit { connection, live, deadline, options })
    }

    /// The entry of a name or URI. That a list does not name it proves nothing about a URI (mcp:SKILL-07).
    async fn find_skill(&self, visit: &Visit<'_>, wanted: &str) -> Result<Arc<SkillDefinition>, McpError> {
        let Visit { connection, live, deadline, .. } = visit;
        let listed = || async {
            let read = deadline.within("skills/list", connection.skills(live)).await;
            read.map_err(|error| error.on(connection.name()))
        };
        let cell = &connection.catalog().skills;
        if wanted.contains(':') {
            let known = cell.age(live.generation).and_then(|_| find(&cell.known(), wanted));
            return match known {
                Some(entry) => Ok(entry),
                None => self.get_skill(visit, wanted).await,
            };
        }
        visit.check("skills/list")?;
        let mut skills = listed().await?;
        if skills.iter().all(|skill| skill.name != wanted)
            && cell.age(live.generation).is_none_or(|age| age > SURELY_FRESH)
        {
            cell.mark_stale();
            skills = listed().await?;
        }
        let mut named = skills.iter().filter(|skill| skill.name == wanted);
        match (named.next(), named.next()) {
            (Some(entry), None) => Ok(Arc::new(entry.clone())),
            (Some(one), Some(other)) => {
                let what = format!(
                    "several skills are called \"{}\", such as {} and {}; load one by its URI",
                    one.name, one.uri, other.uri
                );
                Err(McpError::new(ErrorCode::SkillUnknown, what).on(connection.name()))
            }
            (None, _) => {
                let known = skills.iter().map(|skill| skill.name.as_str());
                let suggestions = crate::name::near_misses(wanted, known, 3);
                let what = format!("the server lists no skill \"{}\"", shown(wanted));
                Err(unknown(ErrorCode::SkillUnknown, what, suggestions).on(connection.name()))
            }
        }
    }

    /// The entry of a URI, as the server has it now.
    async fn get_skill(&self, visit: &Visit<'_>, uri: &str) -> Result<Arc<SkillDefinition>, McpError> {
        let server = visit.connection.name();
        let answer = visit.ask("skills/get", uri).await.map_err(|error| match error.facts().rpc_code {
            Some(-32602) => {
                let message = format!("the server has no skill {}", shown(uri));
                McpError::new(ErrorCode::SkillUnknown, message).on(server).caused_by(error)
            }
            _ => error,
        })?;
        let answered = |why: String| refused(&Refusal::new("answer", why), server);
        let [skill] = json_scan::pick(&answer, ["skill"]);
        let raw: &RawValue = serde_json::from_str(skill.unwrap_or("null"))
            .map_err(|_| answered("the answer to skills/get is no skill".to_owned()))?;
        let (entries, mut findings) = map_skills(server, &[raw]);
        match entries.into_iter().next() {
            Some(entry) if entry.uri == uri => Ok(Arc::new(entry)),
            Some(_) => Err(answered(format!("the answer to skills/get is not about {}", shown(uri)))),
            None => Err(answered(match findings.pop() {
                Some(finding) => finding.message,
                None => "the answer to skills/get is no skill".to_owned(),
            })),
        }
    }

    /// The entry and the text of its `SKILL.md` where both agree; once more with a newer entry where the held one
    /// may be out of date (mcp:SKILL-09).
    async fn verified(
        &self,
        visit: &Visit<'_>,
        entry: Arc<SkillDefinition>,
    ) -> Result<(Arc<SkillDefinition>, String), McpError> {
        let server = visit.connection.name();
        let refusal = match self.read_entry_file(visit, &entry).await {
            Ok(text) => return Ok((entry, text)),
            Err(Trouble::Refused(refusal)) if refusal.may_be_outdated() => refusal,
            Err(trouble) => return Err(trouble.into_error(server)),
        };
        visit.connection.catalog().skills.mark_stale();
        let newer = self.get_skill(visit, &entry.uri).await.ok();
        let same =
            |newer: &SkillDefinition| newer.files == entry.files && newer.frontmatter == entry.frontmatter;
        let Some(newer) = newer.filter(|newer| !same(newer)) else { return Err(refused(&refusal, server)) };
        let read = self.read_entry_file(visit, &newer).await;
        Ok((newer, read.map_err(|trouble| trouble.into_error(server))?))
    }

    /// Reads and checks the `SKILL.md` of an entry.
    async fn read_entry_file(&self, visit: &Visit<'_>, entry: &SkillDefinition) -> Result<String, Trouble> {
        let file = self.read_verified(visit, entry, &entry.uri).await?;
        let text = String::from_utf8_lossy(&file).into_owned();
        entry.verify_frontmatter(&text)?;
        Ok(text)
    }

    /// Reads a file of a skill from its own server and compares it with the entry.
    async fn read_verified(
        &self,
        visit: &Visit<'_>,
        entry: &SkillDefinition,
        reference: &str,
    ) -> Result<Arc<[u8]>, Trouble> {
        let (uri, listed) = entry.find(reference)?;
        let loaded = visit.connection.skill_shelf();
        if let Some(file) = listed.and_then(|listed| loaded.kept(visit.live.generation, listed)) {
            return Ok(file);
        }
        let answer = visit.ask("resources/read", &uri).await?;
        let bytes: Arc<[u8]> = match content_of(&answer, &uri)? {
            FileContent::Text(text) => Arc::from(text.as_bytes()),
            FileContent::Blob(blob) => Arc::from(decode_base64(&blob)?),
        };
        match listed {
            Some(listed) => {
                listed.verify(&bytes)?;
                loaded.keep(visit.live.generation, listed, Arc::clone(&bytes));
            }
            None if bytes.len() as u64 > MOST_BYTES => {
                let message = format!("{uri} has more than {MOST_BYTES} bytes");
                return Err(Refusal::new("limit", message).into());
            }
            None => {}
        }
        Ok(bytes)
    }

    /// Every skill that is known, by name; names that several have are told of once (mcp:SKILL-06).
    fn skill_names(&self) -> Names {
        let mut names = Names::new();
        for connection in self.table().values().filter(|connection| is_shown(connection)) {
            for skill in connection.catalog().skills.known().iter() {
                let place = (connection.name().to_owned(), skill.uri.clone());
                names.entry(skill.name.clone()).or_default().insert(place);
            }
        }
        for (name, places) in names.iter().filter(|(_, places)| places.len() > 1) {
            let places: Vec<String> =
                places.iter().map(|(server, uri)| format!("{uri} of \"{server}\"")).collect();
            let message = format!("several skills are called \"{name}\": {}", shown(&places.join(", ")));
            self.diagnose_once(&Diagnostic::warning("SKILL_NAME_SHARED", message));
        }
        names
    }
}

impl Visit<'_> {
    /// Only what the server declared is asked for (mcp:SKILL-01).
    fn check(&self, method: &str) -> Result<(), McpError> {
        let capabilities = &self.live.client.negotiated().introduction.capabilities;
        capability::check(method, capabilities).map_err(|error| error.on(self.connection.name()))
    }

    /// Sends a request about a URI and gives its result.
    async fn ask(&self, method: &str, uri: &str) -> Result<String, McpError> {
        let mut literal = String::new();
        push_string(&mut literal, uri);
        let mut members = String::new();
        push_member(&mut members, "uri", &literal);
        let meta = self.options.meta.as_deref().and_then(inner_members).unwrap_or_default().to_owned();
        let params = Params::from_members(members, meta);
        let (deadline, progress) = (&self.deadline, self.options.progress.as_ref());
        let request = Request { progress, ..Request::new(method, &params, deadline) };
        let reply = self.connection.request(request).await?;
        deadline.touch();
        Ok(reply.into_string())
    }
}

fn find(skills: &[SkillDefinition], uri: &str) -> Option<Arc<SkillDefinition>> {
    skills.iter().find(|skill| skill.uri == uri).map(|skill| Arc::new(skill.clone()))
}

/// The public `Skill`.
fn public_skill(server: &str, skill: &SkillDefinition, names: &Names) -> String {
    let mut members = skill.body.clone();
    let others: Vec<Value> = names
        .get(&skill.name)
        .into_iter()
        .flatten()
        .filter(|(other, uri)| other != server || *uri != skill.uri)
        .map(|(server, uri)| json!({ "server": server, "uri": uri }))
        .collect();
    if !others.is_empty() {
        push_member(&mut members, "sharesNameWith", &Value::from(others).to_string());
    }
    format!("{{{members}}}")
}
