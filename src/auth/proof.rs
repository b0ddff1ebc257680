//! Random values, PKCE, signed assertions and proofs of possession: everything that is computed for a proof.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, EcdsaSigningAlgorithm,
    Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384, RSA_PKCS1_SHA512, RSA_PSS_SHA256,
    RSA_PSS_SHA384, RSA_PSS_SHA512, RsaEncoding, RsaKeyPair,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use url::Url;

use crate::error::{ErrorCode, McpError};
use crate::runtime::unix_millis;
use crate::secret::Secret;

/// How long an assertion counts, in seconds.
const ASSERTION_LIFE: u64 = 60;

/// Seconds since the epoch.
pub fn now() -> u64 {
    unix_millis() / 1_000
}

/// 256 random bits, as text for URLs.
///
/// # Errors
/// `INTERNAL` where the system has no randomness.
pub fn random_text() -> Result<String, McpError> {
    let mut bytes = [0_u8; 32];
    SystemRandom::new().fill(&mut bytes).map_err(|_| broken("the system gives no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// A verifier of PKCE.
#[derive(Debug)]
pub struct Pkce {
    /// Kept until the code is exchanged.
    pub verifier: Secret<String>,
    /// Shown to the authorization server beforehand (`S256`).
    pub challenge: String,
}

impl Pkce {
    /// A new one.
    ///
    /// # Errors
    /// `INTERNAL`.
    pub fn new() -> Result<Self, McpError> {
        let verifier = random_text()?;
        let challenge = hash_text(&verifier);
        Ok(Self { verifier: Secret::new(verifier), challenge })
    }
}

/// SHA-256 of a text, as text for URLs.
pub fn hash_text(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(text.as_bytes()))
}

/// A key that signs.
pub struct Signer {
    key: Key,
    algorithm: &'static str,
}

enum Key {
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(Box<RsaKeyPair>, &'static dyn RsaEncoding),
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Signer").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl Signer {
    /// Reads a PKCS#8 key.
    ///
    /// # Errors
    /// `CONFIG_INVALID` for an algorithm or a key that cannot be used.
    pub fn from_pem(pem: &str, algorithm: &str) -> Result<Self, McpError> {
        let bad = |why: &str| {
            McpError::new(ErrorCode::ConfigInvalid, format!("oauth.clientCredentials.privateKeyPem: {why}"))
        };
        let body = pem
            .split("-----BEGIN PRIVATE KEY-----")
            .nth(1)
            .and_then(|rest| rest.split("-----END").next())
            .ok_or_else(|| bad("no PKCS#8 key (BEGIN PRIVATE KEY)"))?;
        let body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
        let der = STANDARD.decode(body).map_err(|_| bad("not base64"))?;
        Self::from_pkcs8(&der, algorithm).ok_or_else(|| {
            let algorithm: String = algorithm.chars().filter(char::is_ascii_alphanumeric).take(20).collect();
            bad(&format!("no key that can sign with {algorithm}"))
        })
    }

    fn from_pkcs8(der: &[u8], algorithm: &str) -> Option<Self> {
        let ecdsa = |kind: &'static EcdsaSigningAlgorithm, name| {
            let key = EcdsaKeyPair::from_pkcs8(kind, der, &SystemRandom::new()).ok()?;
            Some(Self { key: Key::Ecdsa(key), algorithm: name })
        };
        let rsa = |encoding: &'static dyn RsaEncoding, name| {
            let key = RsaKeyPair::from_pkcs8(der).ok()?;
            Some(Self { key: Key::Rsa(Box::new(key), encoding), algorithm: name })
        };
        match algorithm {
            "ES256" => ecdsa(&ECDSA_P256_SHA256_FIXED_SIGNING, "ES256"),
            "ES384" => ecdsa(&ECDSA_P384_SHA384_FIXED_SIGNING, "ES384"),
            "EdDSA" => {
                let key = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).ok()?;
                Some(Self { key: Key::Ed25519(key), algorithm: "EdDSA" })
            }
            "RS256" => rsa(&RSA_PKCS1_SHA256, "RS256"),
            "RS384" => rsa(&RSA_PKCS1_SHA384, "RS384"),
            "RS512" => rsa(&RSA_PKCS1_SHA512, "RS512"),
            "PS256" => rsa(&RSA_PSS_SHA256, "PS256"),
            "PS384" => rsa(&RSA_PSS_SHA384, "PS384"),
            "PS512" => rsa(&RSA_PSS_SHA512, "PS512"),
            _ => None,
        }
    }

    fn sign(&self, text: &str) -> Result<Vec<u8>, McpError> {
        let random = SystemRandom::new();
        let failed = |_| broken("a signature could not be made");
        match &self.key {
            Key::Ecdsa(key) => Ok(key.sign(&random, text.as_bytes()).map_err(failed)?.as_ref().to_vec()),
            Key::Ed25519(key) => Ok(key.sign(text.as_bytes()).as_ref().to_vec()),
            Key::Rsa(key, encoding) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(*encoding, &random, text.as_bytes(), &mut signature).map_err(failed)?;
                Ok(signature)
            }
        }
    }

    fn token(&self, mut header: Value, claims: &Value) -> Result<Secret<String>, McpError> {
        header["alg"] = self.algorithm.into();
        let encode = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", encode(&header), encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(self.sign(&signed)?);
        Ok(Secret::new(format!("{signed}.{signature}")))
    }

    /// An assertion of who the client is (RFC 7523 §2.2); `audience` is the issuer (mcp:CC-02).
    ///
    /// # Errors
    /// `INTERNAL`.
    pub fn assertion(&self, client: &str, audience: &str) -> Result<Secret<String>, McpError> {
        let now = now();
        let claims = json!({
            "iss": client, "sub": client, "aud": audience, "jti": random_text()?,
            "iat": now, "exp": now + ASSERTION_LIFE,
        });
        self.token(json!({ "typ": "JWT" }), &claims)
    }
}

/// The key that tokens are bound to (RFC 9449).
pub struct ProofKey {
    signer: Signer,
    pkcs8: Secret<String>,
    public: Value,
}

impl fmt::Debug for ProofKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ProofKey")
    }
}

impl ProofKey {
    /// A new key.
    ///
    /// # Errors
    /// `INTERNAL`.
    pub fn generate() -> Result<Self, McpError> {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
            .map_err(|_| broken("no key could be made"))?;
        Self::restore(&STANDARD.encode(document.as_ref()))
            .ok_or_else(|| broken("a key that was just made cannot be read"))
    }

    /// A key that was kept.
    pub fn restore(kept: &str) -> Option<Self> {
        let der = STANDARD.decode(kept).ok()?;
        let signer = Signer::from_pkcs8(&der, "ES256")?;
        let Key::Ecdsa(pair) = &signer.key else { return None };
        let point = pair.public_key().as_ref();
        let [4, coordinates @ ..] = point else { return None };
        let (x, y) = coordinates.split_at_checked(32)?;
        let public = json!({
            "kty": "EC", "crv": "P-256", "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
        });
        Some(Self { signer, pkcs8: Secret::new(kept.to_owned()), public })
    }

    /// The key as it is kept.
    pub fn kept(&self) -> &Secret<String> {
        &self.pkcs8
    }

    /// A proof for one request; each has an id of its own (mcp:DPOP-01, DPOP-03).
    ///
    /// # Errors
    /// `INTERNAL`.
    pub fn proof(
        &self,
        method: &str,
        url: &Url,
        token: Option<&str>,
        nonce: Option<&str>,
    ) -> Result<Secret<String>, McpError> {
        let mut target = url.clone();
        target.set_query(None);
        target.set_fragment(None);
        let mut claims = json!({
            "jti": random_text()?, "htm": method, "htu": target.as_str(), "iat": now(),
        });
        if let Some(token) = token {
            claims["ath"] = hash_text(token).into();
        }
        if let Some(nonce) = nonce {
            claims["nonce"] = nonce.into();
        }
        self.signer.token(json!({ "typ": "dpop+jwt", "jwk": self.public }), &claims)
    }
}

fn broken(why: &str) -> McpError {
    McpError::new(ErrorCode::Internal, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    fn parts(token: &str) -> (Value, Value, Vec<u8>, String) {
        let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else { panic!() };
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        (
            serde_json::from_slice(&decode(header)).unwrap(),
            serde_json::from_slice(&decode(claims)).unwrap(),
            decode(signature),
            format!("{header}.{claims}"),
        )
    }

    #[test]
    fn auth_40_pkce_is_s256_of_a_long_verifier() {
        let (one, other) = (Pkce::new().unwrap(), Pkce::new().unwrap());
        assert_eq!(one.verifier.expose().len(), 43);
        assert_ne!(one.verifier.expose(), other.verifier.expose());
        // The example of RFC 7636, appendix B.
        assert_eq!(
            hash_text("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
            "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
        );
    }

    #[test]
    fn dpop_01_proofs_verify_and_differ() {
        let key = ProofKey::generate().unwrap();
        let key = ProofKey::restore(key.kept().expose()).unwrap();
        let url = Url::parse("https://a.test/mcp?x=1#y").unwrap();
        let one = key.proof("POST", &url, Some("token"), Some("n1")).unwrap();
        let (header, claims, signature, signed) = parts(one.expose());
        assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!("https://a.test/mcp")));
        assert_eq!((&claims["ath"], &claims["nonce"]), (&json!(hash_text("token")), &json!("n1")));
        let mut point = vec![4];
        for member in ["x", "y"] {
            point.extend(URL_SAFE_NO_PAD.decode(header["jwk"][member].as_str().unwrap()).unwrap());
        }
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
        assert!(public.verify(signed.as_bytes(), &signature).is_ok());
        assert!(header["jwk"].get("d").is_none());
        let other = key.proof("POST", &url, None, None).unwrap();
        let (_, other, ..) = parts(other.expose());
        assert_ne!(claims["jti"], other["jti"]);
        assert!(other.get("ath").is_none() && other.get("nonce").is_none());
    }

    #[test]
    fn cc_02_assertions_and_keys_that_are_none() {
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let body = STANDARD.encode(document.unwrap().as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        let signer = Signer::from_pem(&pem, "ES256").unwrap();
        let assertion = signer.assertion("me", "https://as.test").unwrap();
        let (_, claims, ..) = parts(assertion.expose());
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("me"), &json!("me")));
        assert_eq!(claims["aud"], json!("https://as.test"));
        assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), ASSERTION_LIFE);
        for (pem, algorithm) in [(pem.as_str(), "RS256"), (pem.as_str(), "none"), ("nonsense", "ES256")] {
            let error = Signer::from_pem(pem, algorithm).unwrap_err();
            assert_eq!(error.code(), ErrorCode::ConfigInvalid, "{algorithm}");
            assert!(!error.message().contains(&body), "{}", error.message());
        }
    }
}
