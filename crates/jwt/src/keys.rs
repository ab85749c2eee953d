//! The keys of an issuer, as it publishes them (RFC 7517): those that can check a signature, prepared for that.

use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, EllipticCurveKeyParameters, Jwk, KeyOperations, OctetKeyPairParameters,
    PublicKeyUse,
};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The most keys of an issuer that are used. Issuers have a few: the present one, the next one and those before.
pub const MAX_KEYS: usize = 100;
/// The most keys of one name that a token is tried with.
const MOST_OF_NAME: usize = 4;

/// The keys of an issuer.
#[derive(Clone)]
pub struct IssuerKeys(Vec<Key>);

#[derive(Clone)]
pub(crate) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(crate) decoding: DecodingKey,
}

#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

impl IssuerKeys {
    /// Reads a set of keys. A key of a kind that is not known here is none that could be used, and is left out.
    ///
    /// # Errors
    /// It is no set of keys, has too many, or none that could be used.
    pub fn parse(json: &[u8]) -> Result<IssuerKeys, String> {
        let set: KeySet = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        if set.keys.len() > MAX_KEYS {
            return Err(format!("there are more than {MAX_KEYS}"));
        }
        let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::read).collect();
        if keys.is_empty() { Err("there is none that checks signatures".to_owned()) } else { Ok(IssuerKeys(keys)) }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The keys that may have signed: those of the token's name, of which an issuer may have several while it changes them, or
    /// the only one of this algorithm where the token names none.
    pub(crate) fn find(&self, name: Option<&str>, algorithm: Algorithm) -> Vec<&Key> {
        let fitting = self.0.iter().filter(|key| key.algorithms.contains(&algorithm));
        let named = fitting.filter(|key| name.is_none_or(|name| key.id.as_deref() == Some(name)));
        let found: Vec<&Key> = named.take(MOST_OF_NAME).collect();
        if name.is_none() && found.len() > 1 { Vec::new() } else { found }
    }
}

impl Key {
    fn read(value: Value) -> Option<Key> {
        let key: Jwk = serde_json::from_value(value).ok()?;
        let signs = key.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
        let verifies =
            key.common.key_operations.as_ref().is_none_or(|operations| operations.contains(&KeyOperations::Verify));
        let mut algorithms = of_kind(&key.algorithm).to_vec();
        if let Some(named) = &key.common.key_algorithm {
            let named = named.to_string();
            algorithms.retain(|algorithm| format!("{algorithm:?}") == named);
        }
        if !signs || !verifies || algorithms.is_empty() {
            return None;
        }
        let decoding = DecodingKey::from_jwk(&key).ok()?;
        Some(Key { id: key.common.key_id, algorithms, decoding })
    }
}

/// The algorithms of a kind of keys. None for a secret: whoever can check with it could sign, too.
fn of_kind(parameters: &AlgorithmParameters) -> &'static [Algorithm] {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    match parameters {
        AlgorithmParameters::RSA(_) => &[RS256, RS384, RS512, PS256, PS384, PS512],
        AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters { curve: EllipticCurve::P256, .. }) => &[ES256],
        AlgorithmParameters::EllipticCurve(EllipticCurveKeyParameters { curve: EllipticCurve::P384, .. }) => &[ES384],
        AlgorithmParameters::OctetKeyPair(OctetKeyPairParameters { curve: EllipticCurve::Ed25519, .. }) => &[EdDSA],
        _ => &[],
    }
}
