//! The cache identity of a server: what verdicts and manifests are kept under. (PRO-03, LIF-09)
//!
//! A hash of the expanded definition with its credentials: another account is another server. The hash is keyed,
//! so that nobody can try out credentials on a file of ours. It is neither the approval fingerprint (POL-02) nor
//! the signature that finds duplicates (CFG-10).

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::config::signature::signature;
use crate::config::spec::{
    IdeSpec, InheritEnv, OAuthChoice, ProxyChoice, RemoteSpec, ServerSpec, StdioSpec, TlsSpec, TransportSpec,
};
use crate::config::trust::hex;
use crate::error::{ErrorCode, McpError, Result};
use crate::secret::Secret;
use crate::state_dir::StateDir;

/// File of the state directory with the key.
const KEY_FILE: &str = "identity-key";
/// Bytes of the key.
const KEY_BYTES: usize = 32;

/// The key of a state directory's identities. Prints nothing of itself.
#[derive(Debug)]
pub struct IdentityKey(Secret<Vec<u8>>);

impl IdentityKey {
    /// The key, if there is one.
    pub fn read(state: &StateDir) -> Option<Self> {
        state.read(KEY_FILE).filter(|bytes| bytes.len() == KEY_BYTES).map(|bytes| Self(Secret::new(bytes)))
    }

    /// The key, made where there is none.
    ///
    /// # Errors
    /// `CONFIG_WRITE_FAILED`; `INTERNAL` where the system has no random numbers.
    pub fn read_or_make(state: &StateDir) -> Result<Self> {
        if let Some(key) = Self::read(state) {
            return Ok(key);
        }
        let mut fresh = vec![0; KEY_BYTES];
        let random = rustls::crypto::ring::default_provider().secure_random;
        random.fill(&mut fresh).map_err(|_| McpError::new(ErrorCode::Internal, "no random numbers"))?;
        // Whoever comes first makes the key.
        state.update(KEY_FILE, |now| now.filter(|bytes| bytes.len() == KEY_BYTES).unwrap_or(fresh))?;
        Self::read(state)
            .ok_or_else(|| McpError::new(ErrorCode::Internal, "the key of identities was not kept"))
    }
}

/// The identity as hexadecimal digits. Name, scope, clocks and filters do not matter: they say nothing about
/// what the server is.
pub fn identity(spec: &ServerSpec, key: &IdentityKey) -> String {
    hashed(&definition(spec).to_string(), key)
}

/// What permissions of a server's tools hold for, as a text to be hashed: its label with what it runs or reaches,
/// whatever its credentials are. `None` for a server in this process.
pub fn place(spec: &ServerSpec) -> Option<String> {
    Some(json!([&*spec.name, signature(spec, &[])?]).to_string())
}

/// A text as a part of a file's name that says nothing about it.
pub fn hashed(text: &str, key: &IdentityKey) -> String {
    let key = key.0.expose();
    let inner = Sha256::new().chain_update(key).chain_update([0]).chain_update(text).finalize();
    hex(&Sha256::new().chain_update(key).chain_update([1]).chain_update(inner).finalize())
}

fn definition(spec: &ServerSpec) -> Value {
    let transport = match &spec.transport {
        TransportSpec::Stdio(stdio) => process(stdio),
        TransportSpec::Http(remote) | TransportSpec::Sse(remote) | TransportSpec::WebSocket(remote) => {
            behind_url(remote)
        }
        TransportSpec::SseIde(ide) | TransportSpec::WsIde(ide) => editor(ide),
        TransportSpec::Sdk { name } => json!([name]),
        TransportSpec::ConnectorProxy(connector) => json!([connector.url.expose(), connector.id]),
    };
    json!([spec.transport.kind(), transport, spec.protocol, spec.tls.as_ref().map(tls), proxy(&spec.proxy),])
}

fn process(stdio: &StdioSpec) -> Value {
    let environment: Vec<(&String, &String)> =
        stdio.env.iter().map(|(name, value)| (name, value.expose())).collect();
    let inherited = match &stdio.inherit_env {
        InheritEnv::All => json!("all"),
        InheritEnv::Named(names) => json!(names),
    };
    json!([stdio.command, stdio.args, environment, stdio.cwd, inherited])
}

fn behind_url(remote: &RemoteSpec) -> Value {
    let headers: Vec<(&String, &String)> =
        remote.headers.iter().map(|(name, value)| (name, value.expose())).collect();
    let helper = remote.headers_helper.as_ref().map(|command| &command.0);
    let login = match &remote.oauth {
        OAuthChoice::Discovered => Value::Null,
        OAuthChoice::Off => json!(false),
        OAuthChoice::Custom(settings) => json!(settings.expose()),
    };
    json!([remote.url.expose(), headers, helper, login])
}

fn editor(ide: &IdeSpec) -> Value {
    json!([ide.url.expose(), ide.ide_name, ide.auth_token.as_ref().map(Secret::expose)])
}

fn tls(tls: &TlsSpec) -> Value {
    json!([tls.ca, tls.cert, tls.key.as_ref().map(Secret::expose), tls.insecure_skip_verify])
}

fn proxy(proxy: &ProxyChoice) -> Value {
    match proxy {
        ProxyChoice::Inherited => Value::Null,
        ProxyChoice::Off => json!(false),
        ProxyChoice::Url(url) => json!(url.expose()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::spec_of;

    fn key(byte: u8) -> IdentityKey {
        IdentityKey(Secret::new(vec![byte; KEY_BYTES]))
    }

    #[test]
    fn pro_03_the_identity_is_that_of_the_definition_with_its_credentials() {
        let of = |definition: Value| identity(&spec_of(&definition), &key(1));
        let http = json!({ "type": "http", "url": "https://a.test/mcp", "headers": { "X-Key": "one" } });
        assert_eq!(of(http.clone()).len(), 64);
        assert_ne!(of(http.clone()), identity(&spec_of(&http), &key(2)), "it is keyed");
        let same = json!({
            "type": "http", "url": "https://a.test/mcp", "headers": { "X-Key": "one" },
            "requestTimeoutMs": 5, "alwaysLoad": true, "tools": { "include": ["a"] },
        });
        assert_eq!(of(http.clone()), of(same));
        let mut seen = vec![of(http)];
        for other in [
            json!({ "type": "sse", "url": "https://a.test/mcp", "headers": { "X-Key": "one" } }),
            json!({ "type": "http", "url": "https://a.test/mcp2", "headers": { "X-Key": "one" } }),
            json!({ "type": "http", "url": "https://a.test/mcp", "headers": { "X-Key": "two" } }),
            json!({ "type": "http", "url": "https://a.test/mcp" }),
            json!({ "type": "http", "url": "https://a.test/mcp", "protocol": "legacy" }),
            json!({ "type": "http", "url": "https://a.test/mcp", "headersHelper": ["token"] }),
            json!({ "type": "http", "url": "https://a.test/mcp", "proxy": false }),
            json!({ "type": "http", "url": "https://a.test/mcp", "tls": { "insecureSkipVerify": true } }),
            json!({ "command": "a", "args": ["b c"] }),
            json!({ "command": "a", "args": ["b", "c"] }),
            json!({ "command": "a", "args": ["b", "c"], "env": { "K": "v" } }),
            json!({ "command": "a", "args": ["b", "c"], "env": { "K": "w" } }),
            json!({ "command": "a", "args": ["b", "c"], "cwd": "/x" }),
        ] {
            let one = of(other.clone());
            assert!(!seen.contains(&one), "{other}");
            seen.push(one);
        }
    }

    #[test]
    fn lif_09_a_directory_has_one_key() {
        let state = StateDir::in_memory();
        assert!(IdentityKey::read(&state).is_none());
        let made = IdentityKey::read_or_make(&state).unwrap();
        assert_eq!(IdentityKey::read_or_make(&state).unwrap().0, made.0);
        assert_ne!(IdentityKey::read_or_make(&StateDir::in_memory()).unwrap().0, made.0);
        assert_eq!(format!("{made:?}"), "IdentityKey([REDACTED])");
    }
}
