//! Checks an identity token (OpenID Connect Core 1.0, section 3.1.3.7): who signed it, for whom, until when, for which
//! login. The signature and the times are checked by a library; what may be signed with is decided here.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use crate::access::is_same;

/// The algorithms that are accepted. No algorithm uses a secret that is shared with the provider, and the library has
/// no algorithm `none`.
const ALGORITHMS: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
/// How far the provider's clock may differ, in seconds.
const LEEWAY: u64 = 60;

/// What a token must be.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
}

/// Why a token is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Invalid {
    /// None of the known keys has signed the token; newer keys may include the right one.
    UnknownKey,
    /// Why, on one line.
    Because(String),
}

fn because(why: impl Into<String>) -> Invalid {
    Invalid::Because(why.into())
}

/// The claims of a valid token.
pub(super) fn verify(token: &str, keys: &[Jwk], expected: &Expected<'_>) -> Result<Map<String, Value>, Invalid> {
    let header = decode_header(token).map_err(|error| because(format!("its header: {error}")))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(because(format!("it is signed with {:?}; RS256, ES256 and EdDSA are accepted", header.alg)));
    }
    let key = key_of(keys, header.kid.as_deref(), header.alg).ok_or(Invalid::UnknownKey)?;
    let key = DecodingKey::from_jwk(key).map_err(|error| because(format!("the provider's key: {error}")))?;
    let mut validation = Validation::new(header.alg);
    validation.leeway = LEEWAY;
    validation.validate_nbf = true;
    validation.set_issuer(&[expected.issuer]);
    validation.set_audience(&[expected.client_id]);
    validation.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims =
        decode::<Map<String, Value>>(token, &key, &validation).map_err(|error| because(said(error.kind())))?.claims;
    of_this_login(&claims, expected)?;
    Ok(claims)
}

/// The key that may have signed: by its name, or the only one of this algorithm where the token names none.
fn key_of<'a>(keys: &'a [Jwk], name: Option<&str>, algorithm: Algorithm) -> Option<&'a Jwk> {
    let mut fitting = keys.iter().filter(|key| fits(key, algorithm));
    match name {
        Some(name) => fitting.find(|key| key.common.key_id.as_deref() == Some(name)),
        None => fitting.next().filter(|_| fitting.next().is_none()),
    }
}

fn fits(key: &Jwk, algorithm: Algorithm) -> bool {
    let kind = match key.algorithm {
        AlgorithmParameters::RSA(_) => algorithm == Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(_) => algorithm == Algorithm::ES256,
        AlgorithmParameters::OctetKeyPair(_) => algorithm == Algorithm::EdDSA,
        AlgorithmParameters::OctetKey(_) => false,
    };
    let named = key.common.key_algorithm.is_none_or(|named| named.to_string() == format!("{algorithm:?}"));
    let signs = key.common.public_key_use.as_ref().is_none_or(|purpose| *purpose == PublicKeyUse::Signature);
    kind && named && signs
}

fn said(kind: &ErrorKind) -> String {
    match kind {
        ErrorKind::ExpiredSignature => "it has expired; compare the clocks".to_owned(),
        ErrorKind::ImmatureSignature => "it is not valid yet; compare the clocks".to_owned(),
        ErrorKind::InvalidAudience => "it is for another client (aud)".to_owned(),
        ErrorKind::InvalidIssuer => "it is from another issuer (iss)".to_owned(),
        ErrorKind::InvalidSignature => "its signature is wrong".to_owned(),
        other => format!("{other:?}"),
    }
}

/// What the library does not check: that there is one issuer, that the token is for this client and for this login.
fn of_this_login(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), Invalid> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err(because("it is from another issuer (iss)"));
    }
    let several = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    match text("azp") {
        Some(party) if party == expected.client_id => {}
        None if !several && !claims.contains_key("azp") => {}
        _ => return Err(because("it was issued to another client (azp)")),
    }
    if !text("nonce").is_some_and(|nonce| is_same(nonce, expected.nonce)) {
        return Err(because("it belongs to another login (nonce)"));
    }
    if text("sub").is_none_or(str::is_empty) {
        return Err(because("it names no user (sub)"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "id_token_tests.rs"]
mod tests;
