//! One page of the registry: entries stay the text they are.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A page as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Page {
    /// What the registry was asked for it with; the first page has none.
    pub(super) cursor: Option<String>,
    /// Its version at the registry.
    pub(super) etag: Option<String>,
    /// Where the next one is.
    pub(super) next: Option<String>,
    /// Entries.
    pub(super) servers: Vec<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Wire {
    servers: Vec<Box<RawValue>>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

#[derive(Deserialize, Default)]
struct Metadata {
    #[serde(default, rename = "nextCursor", alias = "next_cursor")]
    next: Option<String>,
}

impl Page {
    /// Reads a page; `None` for what is none.
    pub(super) fn read(bytes: &[u8], cursor: Option<String>, etag: Option<String>) -> Option<Self> {
        let wire: Wire = serde_json::from_slice(bytes).ok()?;
        let next = wire.metadata.unwrap_or_default().next.filter(|next| !next.is_empty());
        Some(Self { cursor, etag, next, servers: wire.servers })
    }
}
