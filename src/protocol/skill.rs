//! Skills: what a server lists of them, which file a reference means, and whether a file is the one that was listed
//! (BEY-12, mcp:SKILL-*; the extension `io.modelcontextprotocol/skills`).
//!
//! A skill is a directory with a `SKILL.md`; every file of it is a resource of its server. Nothing of it is used
//! before it was compared with the entry.

mod frontmatter;

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use url::Url;

use super::definition::{
    Body, DESCRIPTION_LIMIT, Draft, Listed, Named, Rejection, TITLE_LIMIT, map_all, shown,
};
use crate::diagnostic::Diagnostic;
use crate::json_scan::{self, Kind};
pub use frontmatter::differences;

/// Identifier of the extension.
pub const EXTENSION: &str = "io.modelcontextprotocol/skills";
/// Most files of a skill that is loaded (mcp:SKILL-08).
pub const MOST_FILES: usize = 512;
/// Most bytes of all files of a skill that is loaded: 16 MiB (mcp:SKILL-08).
pub const MOST_BYTES: u64 = 16 * 1024 * 1024;
/// The file that makes a directory a skill.
const ENTRY_FILE: &str = "SKILL.md";

/// A file as the entry lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkillFile {
    /// Its URI.
    pub uri: String,
    /// SHA-256 of its bytes.
    pub digest: [u8; 32],
    /// Number of its bytes.
    pub size: u64,
}

/// The files of a skill.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillFiles {
    /// These and no others.
    Listed(Vec<SkillFile>),
    /// The server makes them as it likes: nothing can be compared.
    Dynamic,
    /// More than may be loaded, in words.
    TooMany(String),
}

/// A skill as a server listed it.
#[derive(Clone, Debug)]
pub struct SkillDefinition {
    /// URI of its `SKILL.md`; with the server's label it is what the skill is known by (mcp:SKILL-05).
    pub uri: String,
    /// Its name.
    pub name: String,
    /// The frontmatter as the entry has it, uncleaned: what the file is compared with.
    pub frontmatter: Value,
    /// Its files.
    pub files: SkillFiles,
    /// Members of the public `Skill`, cleaned, without the brackets.
    pub body: String,
}

impl Named for SkillDefinition {
    fn wire_name(&self) -> &str {
        &self.uri
    }

    fn clean_name(&self) -> &str {
        &self.uri
    }
}

/// Why a skill or a file of it is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In one word: `limit`, `unlisted`, `size`, `digest`, `frontmatter`, `answer` or `binary`.
    pub reason: &'static str,
    /// In words.
    pub message: String,
    /// Frontmatter fields that differ.
    pub differences: Vec<String>,
}

impl Refusal {
    /// A refusal without differences.
    pub fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), differences: Vec::new() }
    }

    /// Whether a newer entry may mend it (mcp:SKILL-09).
    pub fn may_be_outdated(&self) -> bool {
        matches!(self.reason, "size" | "digest" | "frontmatter")
    }
}

/// Maps the entries of one server's `skills/list`.
///
/// A broken entry is left out with a warning (`SKILL_INVALID`, `SKILL_QUARANTINED`, `SKILL_DUPLICATE`): such a skill
/// must not be loaded (mcp:SKILL-03).
pub fn map_skills(server: &str, raws: &[&RawValue]) -> (Vec<SkillDefinition>, Vec<Diagnostic>) {
    map_all(Listed::Skill, server, raws, map_entry)
}

fn map_entry(draft: &mut Draft<'_>) -> Result<SkillDefinition, Rejection> {
    let [uri, frontmatter, resources] = json_scan::pick(draft.raw, ["uri", "frontmatter", "resources"]);
    let (uri, _) = draft.name(uri, "uri")?;
    let root = check_uri(&uri).and_then(|()| root_of(&uri)).ok_or_else(|| {
        Rejection::invalid("its uri is not the address of a SKILL.md in a directory with a name")
    })?;
    let frontmatter = frontmatter
        .filter(|value| json_scan::kind(value) == Kind::Object)
        .ok_or_else(|| Rejection::invalid("it has no frontmatter"))?;
    let [name, description] = json_scan::pick(frontmatter, ["name", "description"]);
    let (name, clean_name) = draft.name(name, "frontmatter.name")?;
    if name != clean_name || name.len() > TITLE_LIMIT {
        return Err(Rejection::quarantined("its name is longer than a name or holds what cannot be seen"));
    }
    // mcp:SKILL-11
    if last_segment(root) != name || leads_astray(&name) {
        return Err(Rejection::invalid(format!("its directory is not called \"{name}\" as the skill is")));
    }
    let description =
        draft.text(description)?.ok_or_else(|| Rejection::invalid("its frontmatter has no description"))?;
    let files = read_files(&uri, root, resources)?;
    if let SkillFiles::TooMany(why) = &files {
        draft.note("SKILL_TOO_LARGE", format!("it cannot be loaded: {why}"));
    }
    let mut body = Body::default();
    body.text("name", &name);
    body.optional_text("description", Some(description), DESCRIPTION_LIMIT);
    body.text("server", draft.server);
    body.text("uri", &uri);
    body.flag("dynamic", files == SkillFiles::Dynamic);
    if let SkillFiles::Listed(listed) = &files {
        body.raw("bytes", &listed.iter().map(|file| file.size).sum::<u64>().to_string());
        body.text("fingerprint", &fingerprint(listed));
    }
    body.raw("frontmatter", &draft.json(frontmatter)?);
    let frontmatter = serde_json::from_str(frontmatter)
        .map_err(|_| Rejection::invalid("its frontmatter cannot be read"))?;
    Ok(SkillDefinition { uri, name, frontmatter, files, body: body.0 })
}

/// Addresses of the protocol are plain ASCII; ours have neither a query nor a fragment.
fn check_uri(uri: &str) -> Option<()> {
    let plain = uri.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'?' | b'#' | b'\\'));
    (plain && Url::parse(uri).is_ok()).then_some(())
}

/// Whether a path may lead whoever follows it out of its directory: dots that go up, an escape for a separator, an
/// empty name, the letter of a drive.
fn leads_astray(path: &str) -> bool {
    let plain = path.to_ascii_lowercase().replace("%2e", ".").replace("%3a", ":");
    let drive = matches!(plain.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    drive || hides_a_path(path) || plain.split('/').any(|name| matches!(name, "" | "." | ".."))
}

/// The skill's own directory, with the `/` at its end.
fn root_of(uri: &str) -> Option<&str> {
    let root = uri.strip_suffix(ENTRY_FILE)?;
    (root.ends_with('/') && !last_segment(root).is_empty()).then_some(root)
}

fn last_segment(root: &str) -> &str {
    let directory = root.strip_suffix('/').unwrap_or(root);
    directory.rsplit_once('/').map_or("", |(_, segment)| segment)
}

/// Reads `resources`: files with digests, or the word `dynamic` (mcp:SKILL-03).
fn read_files(uri: &str, root: &str, resources: Option<&str>) -> Result<SkillFiles, Rejection> {
    let resources = resources.unwrap_or("null");
    if resources == r#""dynamic""# {
        return Ok(SkillFiles::Dynamic);
    }
    if json_scan::kind(resources) != Kind::Array {
        return Err(Rejection::invalid("its resources are neither a list nor \"dynamic\""));
    }
    let count = json_scan::elements(resources).count();
    if count > MOST_FILES {
        return Ok(SkillFiles::TooMany(format!("it has {count} files, and at most {MOST_FILES} are loaded")));
    }
    let mut files: Vec<SkillFile> = Vec::with_capacity(count);
    for raw in json_scan::elements(resources) {
        let file = read_file(raw)?;
        if files.iter().any(|known| known.uri == file.uri) {
            return Err(Rejection::invalid(format!("its resources name {} twice", file.uri)));
        }
        if file.uri.strip_prefix(root).is_none_or(leads_astray) {
            return Err(Rejection::invalid(format!("{} does not lie in its directory", file.uri)));
        }
        files.push(file);
    }
    if files.iter().all(|file| file.uri != uri) {
        return Err(Rejection::invalid("its resources do not name its own SKILL.md"));
    }
    let bytes = files.iter().fold(0_u64, |sum, file| sum.saturating_add(file.size));
    if bytes > MOST_BYTES {
        return Ok(SkillFiles::TooMany(format!(
            "its files have {bytes} bytes, and at most {MOST_BYTES} are loaded"
        )));
    }
    Ok(SkillFiles::Listed(files))
}

fn read_file(raw: &str) -> Result<SkillFile, Rejection> {
    let [uri, digest, size] = json_scan::pick(raw, ["uri", "digest", "size"]);
    let uri = uri
        .and_then(json_scan::decode_exact)
        .filter(|uri| check_uri(uri).is_some())
        .ok_or_else(|| Rejection::invalid("one of its resources has no usable uri"))?;
    let digest = digest.and_then(json_scan::decode).and_then(|text| read_digest(&text)).ok_or_else(|| {
        Rejection::invalid(format!("the digest of {uri} is not sha256: and 64 lower-case hexadecimal digits"))
    })?;
    let size = size
        .and_then(|text| text.parse::<u64>().ok())
        .ok_or_else(|| Rejection::invalid(format!("the size of {uri} is not a number of bytes")))?;
    Ok(SkillFile { uri: uri.into_owned(), digest, size })
}

fn read_digest(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:")?.as_bytes();
    let mut digest = [0; 32];
    if digits.len() != 64 {
        return None;
    }
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let value = |digit: &u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        *byte = value(pair.first()?)? << 4 | value(pair.last()?)?;
    }
    Some(digest)
}

/// What an approval of exactly these files may be bound to (mcp:SKILL-19).
fn fingerprint(files: &[SkillFile]) -> String {
    let mut sorted: Vec<&SkillFile> = files.iter().collect();
    sorted.sort_by(|a, b| a.uri.cmp(&b.uri));
    let mut hash = Sha256::new();
    for file in sorted {
        hash.update(file.uri.as_bytes());
        hash.update([0]);
        hash.update(file.digest);
    }
    hash.finalize().iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

impl SkillDefinition {
    /// The skill's own directory.
    pub fn root(&self) -> &str {
        root_of(&self.uri).unwrap_or_default()
    }

    /// The files, with their paths below the skill's directory.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &SkillFile)> {
        let files = match &self.files {
            SkillFiles::Listed(files) => files.as_slice(),
            SkillFiles::Dynamic | SkillFiles::TooMany(_) => &[],
        };
        let root = self.root();
        files.iter().map(move |file| (file.uri.strip_prefix(root).unwrap_or(&file.uri), file))
    }

    /// URI of the file that a reference means, and what is known of it (mcp:SKILL-10, 22): a path below the
    /// skill's own directory wherever it was found, or a URI. `None` for what a dynamic skill is said to have.
    ///
    /// # Errors
    /// `limit`; `unlisted` for everything else.
    pub fn find(&self, reference: &str) -> Result<(String, Option<&SkillFile>), Refusal> {
        let unlisted = || {
            let reference = shown(reference);
            Refusal::new("unlisted", format!("\"{reference}\" is not a file of the skill {}", self.uri))
        };
        let wanted = spelling(&self.resolve(reference).ok_or_else(unlisted)?);
        match &self.files {
            SkillFiles::TooMany(why) => Err(Refusal::new("limit", format!("{} is refused: {why}", self.uri))),
            SkillFiles::Listed(files) => {
                let file = files.iter().find(|file| spelled(&file.uri).is_some_and(|one| one == wanted));
                file.map(|file| (file.uri.clone(), Some(file))).ok_or_else(unlisted)
            }
            SkillFiles::Dynamic => {
                let resolved = self.resolve(reference).ok_or_else(unlisted)?;
                let inside = spelled(self.root()).is_some_and(|root| wanted.starts_with(&root));
                let clear = resolved.query().is_none() && !hides_a_path(resolved.as_str());
                (inside && clear).then(|| (resolved.into(), None)).ok_or_else(unlisted)
            }
        }
    }

    fn resolve(&self, reference: &str) -> Option<Url> {
        let mut url = Url::parse(self.root()).ok()?.join(reference).ok()?;
        url.set_fragment(None);
        Some(url)
    }
}

fn spelled(uri: &str) -> Option<Vec<u8>> {
    Some(spelling(&Url::parse(uri).ok()?))
}

/// The bytes that all spellings of a URI have in common: `Q&A.md`, `Q%26A.md`.
fn spelling(uri: &Url) -> Vec<u8> {
    let text = uri.as_str().as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let digits = text.get(at + 1..at + 3).filter(|_| byte == b'%');
        let decoded = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            // What would change the structure of the path stays escaped.
            .filter(|decoded| !matches!(decoded, b'/' | b'\\' | b'%' | b'?' | b'#' | 0));
        out.push(decoded.unwrap_or(byte));
        at += if decoded.is_some() { 3 } else { 1 };
    }
    out
}

/// Whether an escape stands for a separator, so that a server may see another path than we do.
fn hides_a_path(uri: &str) -> bool {
    let lower = uri.to_ascii_lowercase();
    ["%2f", "%5c", "%00", "\\"].iter().any(|hidden| lower.contains(hidden))
}

/// What an answer to `resources/read` holds of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileContent<'a> {
    /// Text; its bytes are its UTF-8 form.
    Text(Cow<'a, str>),
    /// Base64.
    Blob(Cow<'a, str>),
}

/// The content of the one file that was asked for.
///
/// # Errors
/// `answer` where the answer holds anything else.
pub fn content_of<'a>(answer: &'a str, uri: &str) -> Result<FileContent<'a>, Refusal> {
    let refuse = |why: &str| Refusal::new("answer", format!("the answer to reading {uri} {why}"));
    let [contents] = json_scan::pick(answer, ["contents"]);
    let mut elements = json_scan::elements(contents.unwrap_or("[]"));
    let (Some(element), None) = (elements.next(), elements.next()) else {
        return Err(refuse("does not hold exactly one content"));
    };
    let [named, text, blob] = json_scan::pick(element, ["uri", "text", "blob"]);
    if named.and_then(json_scan::decode).is_none_or(|named| named != uri) {
        return Err(refuse("is about another URI"));
    }
    // Lone surrogates have no bytes that could be compared.
    match (text.and_then(json_scan::decode_exact), blob.and_then(json_scan::decode)) {
        (Some(text), None) => Ok(FileContent::Text(text)),
        (None, Some(blob)) => Ok(FileContent::Blob(blob)),
        _ => Err(refuse("holds neither a text nor a blob")),
    }
}

impl SkillFile {
    /// Compares size and digest (mcp:SKILL-09). That they agree says only that entry and content belong together,
    /// not that either can be trusted (mcp:SKILL-14).
    ///
    /// # Errors
    /// `size` or `digest`.
    pub fn verify(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let Self { uri, digest, size } = self;
        if bytes.len() as u64 != *size {
            let message = format!("{uri} has {} bytes, and its entry says {size}", bytes.len());
            return Err(Refusal::new("size", message));
        }
        if Sha256::digest(bytes)[..] != digest[..] {
            return Err(Refusal::new(
                "digest",
                format!("{uri} is not the file that its entry names: its SHA-256 differs"),
            ));
        }
        Ok(())
    }
}

impl SkillDefinition {
    /// Compares the frontmatter of the `SKILL.md` that was read with the entry, field by field (mcp:SKILL-11).
    ///
    /// # Errors
    /// `frontmatter`.
    pub fn verify_frontmatter(&self, text: &str) -> Result<(), Refusal> {
        let refuse =
            |why: &str| Refusal::new("frontmatter", format!("the frontmatter of {} {why}", self.uri));
        let found = frontmatter::read(text).map_err(|why| refuse(&shown(&why)))?;
        let differences = differences(&self.frontmatter, &found);
        if differences.is_empty() {
            return Ok(());
        }
        let named = differences.join(", ");
        Err(Refusal { differences, ..refuse(&format!("differs from its entry in {}", shown(&named))) })
    }
}

#[cfg(test)]
mod tests;
