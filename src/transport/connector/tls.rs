//! Whom to trust and how to show who we are (TLS-01).
//!
//! The system's roots always count; `tls.ca` and `NODE_EXTRA_CA_CERTS` add to them. Verification is skipped
//! only where `tls.insecureSkipVerify` says so.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError as Certificate, ClientConfig};

use crate::config::spec::TlsSpec;
use crate::environment::Environment;
use crate::error::{ErrorCode, McpError};

/// Largest file of certificates that is read.
const MAX_PEM_BYTES: u64 = 16 * 1024 * 1024;

/// The TLS configuration of a connection. Reads files (the system's roots among them), so call it where
/// blocking is allowed. Paths are relative to the working directory of `environment`.
///
/// # Errors
/// `TLS_FAILED` naming the option whose certificate or key cannot be used, or when there are no roots at all.
pub fn tls_config(spec: Option<&TlsSpec>, environment: &Environment) -> Result<Arc<ClientConfig>, McpError> {
    let provider = Arc::new(ring::default_provider());
    let skip = spec.is_some_and(|spec| spec.insecure_skip_verify);
    let verifier: Arc<dyn ServerCertVerifier> = if skip {
        Arc::new(AcceptAny(provider.signature_verification_algorithms))
    } else {
        Arc::new(system_verifier(spec, environment, &provider)?)
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(format!("no usable protocol version: {error}")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match spec.and_then(|spec| spec.cert.as_deref().map(|cert| (cert, spec))) {
        None => builder.with_no_client_auth(),
        Some((cert, spec)) => {
            let chain = certificates(cert, "tls.cert", environment)?;
            let key = spec.key.as_ref().map_or(cert, |key| key.expose().as_str());
            let key = private_key(key, environment)?;
            builder.with_client_auth_cert(chain, key).map_err(|error| {
                failed(format!("tls.cert and tls.key do not make a client certificate: {error}"))
            })?
        }
    };
    Ok(Arc::new(config))
}

/// Says why the file of `NODE_EXTRA_CA_CERTS` counts for nothing, if so. As in Node.js that is no error.
pub fn extra_roots_problem(environment: &Environment) -> Option<String> {
    extra_roots(environment).err().map(|error| error.message().to_owned())
}

fn extra_roots(environment: &Environment) -> Result<Vec<CertificateDer<'static>>, McpError> {
    match environment.get("NODE_EXTRA_CA_CERTS").filter(|path| !path.is_empty()) {
        Some(path) => certificates(path, "NODE_EXTRA_CA_CERTS", environment),
        None => Ok(Vec::new()),
    }
}

fn system_verifier(
    spec: Option<&TlsSpec>,
    environment: &Environment,
    provider: &Arc<CryptoProvider>,
) -> Result<rustls_platform_verifier::Verifier, McpError> {
    let mut extra = extra_roots(environment).unwrap_or_default();
    for ca in spec.iter().flat_map(|spec| &spec.ca) {
        extra.extend(certificates(ca, "tls.ca", environment)?);
    }
    rustls_platform_verifier::Verifier::new_with_extra_roots(extra, Arc::clone(provider))
        .map_err(|error| failed(format!("the roots of trust cannot be used: {error}")))
}

/// The certificates of a PEM text or of the file at a path.
fn certificates(
    source: &str,
    option: &str,
    environment: &Environment,
) -> Result<Vec<CertificateDer<'static>>, McpError> {
    let pem = pem_of(source, option, environment)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(list) if !list.is_empty() => Ok(list),
        Ok(_) => Err(failed(format!("{option} holds no certificate in PEM form"))),
        Err(_) => Err(failed(format!("{option} is not well-formed PEM"))),
    }
}

fn private_key(source: &str, environment: &Environment) -> Result<PrivateKeyDer<'static>, McpError> {
    let pem = pem_of(source, "tls.key", environment)?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|_| failed("tls.key holds no private key in PEM form (encrypted keys are not read)"))
}

fn pem_of(source: &str, option: &str, environment: &Environment) -> Result<Vec<u8>, McpError> {
    if source.contains("-----BEGIN") {
        return Ok(source.as_bytes().to_vec());
    }
    let path = environment.cwd.join(source);
    read_file(&path).map_err(|error| failed(format!("{option}: cannot read {}: {error}", path.display())))
}

fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let length = std::fs::metadata(path)?.len();
    if length > MAX_PEM_BYTES {
        return Err(std::io::Error::other("the file is too large for certificates"));
    }
    std::fs::read(path)
}

fn failed(message: impl Into<String>) -> McpError {
    McpError::new(ErrorCode::TlsFailed, message)
}

/// Accepts every certificate; signatures of the handshake are still checked, so the peer holds its key.
#[derive(Debug)]
struct AcceptAny(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// What a failed handshake means for people; `None` where the error has no TLS error in its chain (F-051).
pub fn explain(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let found = chain(error).find_map(|cause| cause.downcast_ref::<rustls::Error>())?;
    Some(match found {
        rustls::Error::InvalidCertificate(why) => match why {
            Certificate::Expired | Certificate::ExpiredContext { .. } => {
                "the server's certificate has expired".to_owned()
            }
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. } => {
                "the server's certificate is not valid yet; check the clock".to_owned()
            }
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                "the server's certificate is for another name".to_owned()
            }
            Certificate::UnknownIssuer => {
                "the server's certificate comes from an unknown authority; add it with tls.ca or \
                 NODE_EXTRA_CA_CERTS"
                    .to_owned()
            }
            Certificate::Revoked => "the server's certificate was revoked".to_owned(),
            other => format!("the server's certificate is not acceptable: {other:?}"),
        },
        rustls::Error::AlertReceived(alert) => format!("the server broke off the handshake: {alert:?}"),
        rustls::Error::InvalidMessage(_) => "the server does not speak TLS on this port".to_owned(),
        other => format!("the handshake failed: {other}"),
    })
}

/// An error and everything that led to it, at most a few dozen.
pub(crate) fn chain<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| inside(*error)).take(32)
}

/// What led to an error. The error that an input/output error wraps is not its source, but what it is.
fn inside<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a (dyn std::error::Error + 'static)> {
    let wrapped = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    match wrapped {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}
