//! The official registry of MCP servers: which packages and addresses stand in it (SEC-05).
//!
//! Owns: the pages over the network and on disk, and the question whether a definition is listed. Being listed says who
//! published a server, not that it is harmless.

mod address;
mod cache;
pub mod fetch;
mod listing;
pub mod package;
mod page;
#[cfg(test)]
mod tests;

use std::sync::{Arc, RwLock};

pub use listing::Officials;

use crate::runtime::{read, write};

/// The registry of a manager, once it is there.
#[derive(Debug, Default)]
pub struct Known {
    address: Option<String>,
    officials: RwLock<Option<Arc<Officials>>>,
}

impl Known {
    /// A registry that the host brought along.
    pub fn with(officials: Officials) -> Self {
        Self { address: None, officials: RwLock::new(Some(Arc::new(officials))) }
    }

    /// A registry that has to be fetched from there.
    pub fn at(address: String) -> Self {
        Self { address: Some(address), officials: RwLock::default() }
    }

    /// Where it has to be fetched from, if it has.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// It has come.
    pub fn set(&self, officials: Officials) {
        *write(&self.officials) = Some(Arc::new(officials));
    }

    /// What is known of it.
    pub fn get(&self) -> Option<Arc<Officials>> {
        read(&self.officials).clone()
    }
}
