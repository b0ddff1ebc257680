//! Roots: what servers are told at first, and later on (PRO-10).

use std::path::Path;

use super::Manager;
use super::options::Options;
use crate::diagnostic::Diagnostic;
use crate::protocol::version::Era;
use crate::runtime::write;

impl Manager {
    /// Replaces the roots and tells every server that is connected (PRO-10).
    pub async fn set_roots(&self, roots: Vec<String>) {
        *write(&self.roots) = roots.iter().map(|root| root_uri(root, &self.options.cwd)).collect();
        for connection in self.table().values() {
            let live = connection.live().filter(|live| live.client.era() == Era::Legacy);
            if let Some(live) = live {
                let told = live.client.notify("notifications/roots/list_changed", None).await;
                if let Err(error) = told {
                    let why = error.message();
                    let message =
                        format!("the server was not told of new roots, and gets them when it asks: {why}");
                    connection.diagnose(Diagnostic::warning("ROOTS_UNTOLD", message));
                }
            }
        }
    }
}

/// The roots servers are told at first: the option's, else the working directory (PRO-10).
pub(super) fn first_roots(options: &Options) -> Vec<String> {
    match &options.roots {
        Some(roots) => roots.iter().map(|root| root_uri(root, &options.cwd)).collect(),
        None => vec![file_uri(&options.cwd)],
    }
}

/// A root as a URI: URIs stay, paths become `file://` URIs.
fn root_uri(root: &str, cwd: &Path) -> String {
    let scheme = root.split_once("://").map(|(scheme, _)| scheme);
    if scheme
        .is_some_and(|scheme| scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    {
        root.to_owned()
    } else {
        file_uri(&cwd.join(root))
    }
}

/// `file://` URI of a directory.
fn file_uri(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let mut uri = String::from(if text.starts_with('/') { "file://" } else { "file:///" });
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' | b':' => {
                uri.push(char::from(byte));
            }
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri
}
