//! TLS with an authority of our own (TLS-01, F-051). The certificates are for tests and guard nothing.

use std::collections::BTreeMap;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::server::{json, result, serve};
use super::*;

const AUTHORITY: &str = include_str!("certificates/authority.pem");
const KEY: &str = include_str!("certificates/leaf-key.pem");
const SERVER: &str = include_str!("certificates/server.pem");
const EXPIRED: &str = include_str!("certificates/expired.pem");
const OTHER_NAME: &str = include_str!("certificates/other-name.pem");
const CLIENT: &str = include_str!("certificates/client.pem");

/// Starts a TLS server and gives its URL.
async fn serve_tls(certificate: &str, asks_client: bool) -> String {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = if asks_client {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).unwrap()).unwrap();
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        builder.with_client_cert_verifier(verifier).with_single_cert(chain, key)
    } else {
        builder.with_no_client_auth().with_single_cert(chain, key)
    };
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                if let Ok(stream) = acceptor.accept(socket).await {
                    serve(stream, Arc::new(|seen| json(&result(seen.id(), "{}"))), Arc::default()).await;
                }
            });
        }
    });
    format!("https://127.0.0.1:{port}/mcp")
}

fn trusting() -> TlsSpec {
    TlsSpec { ca: vec![AUTHORITY.to_owned()], ..TlsSpec::default() }
}

async fn initialize(url: &str, tls: Option<TlsSpec>) -> Result<String, McpError> {
    let transport = open(HttpRecipe { tls, ..recipe(url) }, Arc::new(Heard::default())).unwrap();
    ask(&transport, 0, "initialize").await
}

#[tokio::test]
async fn f_051_failures_are_told_apart() {
    for (certificate, tls, word) in [
        (SERVER, None, "unknown authority"),
        (SERVER, Some(TlsSpec::default()), "unknown authority"),
        (EXPIRED, Some(trusting()), "expired"),
        (OTHER_NAME, Some(trusting()), "another name"),
    ] {
        let url = serve_tls(certificate, false).await;
        let error = initialize(&url, tls).await.unwrap_err();
        assert_eq!((error.code(), error.facts().delivered), (ErrorCode::TlsFailed, Some(Delivery::No)));
        assert!(error.message().contains(word), "{word}: {error:?}");
    }
}

#[tokio::test]
async fn tls_01_added_authorities_count() {
    let url = serve_tls(SERVER, false).await;
    assert_eq!(initialize(&url, Some(trusting())).await.unwrap(), "{}");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/transport/http/tests/certificates/authority.pem");
    let by_path = TlsSpec { ca: vec![path.to_owned()], ..TlsSpec::default() };
    assert_eq!(initialize(&url, Some(by_path)).await.unwrap(), "{}");
    let vars = BTreeMap::from([("NODE_EXTRA_CA_CERTS".to_owned(), path.to_owned())]);
    let by_variable =
        HttpRecipe { environment: Arc::new(Environment { vars, ..environment() }), ..recipe(&url) };
    let transport = open(by_variable, Arc::new(Heard::default())).unwrap();
    assert_eq!(ask(&transport, 0, "initialize").await.unwrap(), "{}");
}

#[tokio::test]
async fn tls_01_verification_is_skipped_only_by_name() {
    for certificate in [SERVER, EXPIRED, OTHER_NAME] {
        let url = serve_tls(certificate, false).await;
        let skipping = TlsSpec { insecure_skip_verify: true, ..TlsSpec::default() };
        assert_eq!(initialize(&url, Some(skipping)).await.unwrap(), "{}");
    }
}

#[tokio::test]
async fn tls_01_client_certificates() {
    let url = serve_tls(SERVER, true).await;
    assert!(initialize(&url, Some(trusting())).await.is_err());
    let known =
        TlsSpec { cert: Some(CLIENT.to_owned()), key: Some(Secret::new(KEY.to_owned())), ..trusting() };
    assert_eq!(initialize(&url, Some(known)).await.unwrap(), "{}");
    let joined = TlsSpec { cert: Some(format!("{CLIENT}{KEY}")), ..trusting() };
    assert_eq!(initialize(&url, Some(joined)).await.unwrap(), "{}");
}

#[tokio::test]
async fn tls_01_bad_settings_are_named() {
    let url = serve_tls(SERVER, false).await;
    for (tls, word) in [
        (TlsSpec { ca: vec!["/no/such/file.pem".to_owned()], ..TlsSpec::default() }, "tls.ca"),
        (TlsSpec { ca: vec![KEY.to_owned()], ..TlsSpec::default() }, "tls.ca"),
        (TlsSpec { cert: Some(KEY.to_owned()), ..TlsSpec::default() }, "tls.cert"),
        (TlsSpec { cert: Some(CLIENT.to_owned()), ..TlsSpec::default() }, "tls.key"),
    ] {
        let error = initialize(&url, Some(tls)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::TlsFailed);
        assert!(error.message().contains(word), "{word}: {error:?}");
        assert!(!error.message().contains("BEGIN"), "{error:?}");
    }
}
