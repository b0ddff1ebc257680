//! What stands in the file of a login: a plain record (version 1), or one that is sealed with a key from the keychain
//! (version 2). Pure.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::record::{Record, VERSION};
use crate::error::{ErrorCode, McpError};
use crate::secret::Secret;

/// Version of sealed records.
const SEALED_VERSION: u32 = 2;
/// Bytes of a key, and of its name.
const KEY_BYTES: usize = 32;
const ID_BYTES: usize = 16;

/// A key that seals records. Prints its name only.
pub struct SealingKey {
    /// Its name: the account in the keychain, and what sealed records say they need.
    pub id: String,
    key: LessSafeKey,
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SealingKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl SealingKey {
    /// A new key, and the text by which a keychain keeps it; `None` where the system gives no random numbers.
    pub fn generate() -> Option<(Self, Secret<String>)> {
        let text = URL_SAFE_NO_PAD.encode(random::<KEY_BYTES>()?);
        let id = format!("{:032x}", u128::from_be_bytes(random::<ID_BYTES>()?));
        Some((Self::restore(id, &text)?, Secret::new(text)))
    }

    /// A key from its text; `None` where that is none.
    pub fn restore(id: String, text: &str) -> Option<Self> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).ok()?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, &bytes).ok()?;
        Some(Self { id, key: LessSafeKey::new(key) })
    }

    /// The file of a record: readable with this key alone, and as that record alone.
    ///
    /// # Errors
    /// `AUTH_STORE_FAILED` where the system gives no random numbers.
    pub fn seal(&self, slot: &str, record: &str) -> Result<String, McpError> {
        let failed =
            || McpError::new(ErrorCode::AuthStoreFailed, "the token store failed: nothing can be sealed");
        let nonce = random::<NONCE_LEN>().ok_or_else(failed)?;
        let mut bytes = record.as_bytes().to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(unique, self.bound_to(slot), &mut bytes).map_err(|_| failed())?;
        let sealed = Sealed {
            version: SEALED_VERSION,
            key: self.id.clone(),
            nonce: URL_SAFE_NO_PAD.encode(nonce),
            sealed: URL_SAFE_NO_PAD.encode(bytes),
        };
        serde_json::to_string(&sealed).map_err(|_| failed())
    }

    /// What was sealed; `None` where it was changed, is another's, or is of another key.
    pub fn open(&self, slot: &str, sealed: &Sealed) -> Option<String> {
        let nonce = URL_SAFE_NO_PAD.decode(&sealed.nonce).ok()?;
        let nonce = Nonce::try_assume_unique_for_key(&nonce).ok()?;
        let mut bytes = URL_SAFE_NO_PAD.decode(&sealed.sealed).ok()?;
        let text = self.key.open_in_place(nonce, self.bound_to(slot), &mut bytes).ok()?;
        String::from_utf8(text.to_vec()).ok()
    }

    /// Everything of the header counts for the seal, and so does whose record it is.
    fn bound_to(&self, slot: &str) -> Aad<Vec<u8>> {
        Aad::from(format!("mcp-switchboard login {SEALED_VERSION} {} {slot}", self.id).into_bytes())
    }
}

/// Whether a text can be the name of a key.
pub fn is_key_id(text: &str) -> bool {
    text.len() == 2 * ID_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

/// A sealed record as it stands in its file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Sealed {
    version: u32,
    /// Name of the key.
    pub key: String,
    nonce: String,
    sealed: String,
}

/// What a text turns out to be.
#[derive(Debug)]
pub enum Content {
    /// A record for everybody who can read the file.
    Plain(Box<Record>),
    /// One that needs a key.
    Sealed(Sealed),
    /// Something of a later version of this package.
    Later,
    /// Nothing of ours.
    Broken,
}

#[derive(Deserialize)]
struct Head {
    version: u64,
}

/// Reads a file.
pub fn read(text: &str) -> Content {
    let Ok(Head { version }) = serde_json::from_str(text) else { return Content::Broken };
    match u32::try_from(version) {
        Ok(0) => Content::Broken,
        Ok(VERSION) => serde_json::from_str(text).map_or(Content::Broken, Content::Plain),
        Ok(SEALED_VERSION) => match serde_json::from_str::<Sealed>(text) {
            Ok(sealed) if is_key_id(&sealed.key) => Content::Sealed(sealed),
            _ => Content::Broken,
        },
        _ => Content::Later,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oau_03_sealed_records_open_with_their_key_and_slot_alone() {
        let (key, text) = SealingKey::generate().unwrap();
        let file = key.seal("one", r#"{"accessToken":"secret-token"}"#).unwrap();
        assert!(!file.contains("secret-token") && !file.contains(text.expose().as_str()));
        assert_ne!(file, key.seal("one", r#"{"accessToken":"secret-token"}"#).unwrap(), "no nonce twice");
        let Content::Sealed(sealed) = read(&file) else { panic!("{file}") };
        let again = SealingKey::restore(key.id.clone(), text.expose()).unwrap();
        assert_eq!(again.open("one", &sealed).as_deref(), Some(r#"{"accessToken":"secret-token"}"#));
        assert_eq!(key.open("other", &sealed), None, "a record cannot be put in the place of another");
        let renamed = SealingKey::restore("0".repeat(32), text.expose()).unwrap();
        assert_eq!(renamed.open("one", &sealed), None, "the header belongs to it");
        assert_eq!(SealingKey::generate().unwrap().0.open("one", &sealed), None);
        let Content::Sealed(mut changed) = read(&file) else { panic!("{file}") };
        changed.sealed.replace_range(0..1, if changed.sealed.starts_with('A') { "B" } else { "A" });
        assert_eq!(key.open("one", &changed), None);
        assert!(!format!("{key:?} {sealed:?}").contains(text.expose().as_str()));
    }

    #[test]
    fn oau_03_what_a_file_is_is_decided_by_its_version() {
        let kind = |text: &str| match read(text) {
            Content::Plain(_) => "plain",
            Content::Sealed(_) => "sealed",
            Content::Later => "later",
            Content::Broken => "broken",
        };
        let id = "0123456789abcdef0123456789abcdef";
        let sealed = format!(r#"{{"version":2,"key":"{id}","nonce":"","sealed":""}}"#);
        for (text, expected) in [
            (r#"{"version":1,"accessToken":"x"}"#, "plain"),
            (sealed.as_str(), "sealed"),
            (r#"{"version":2,"key":"../x","nonce":"","sealed":""}"#, "broken"),
            (r#"{"version":2}"#, "broken"),
            (r#"{"version":3}"#, "later"),
            (r#"{"version":0}"#, "broken"),
            (r#"{"version":-1}"#, "broken"),
            (r#"{"version":1,"registrations":7}"#, "broken"),
            ("{}", "broken"),
            ("", "broken"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
