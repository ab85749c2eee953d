//! The check of a token: its header, its signature, and the claims that every token must have.

use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::{Algorithm, Header, Validation, decode, decode_header};
use weir_base::{Printable, prefix};

use crate::claims::Claims;
use crate::keys::IssuerKeys;

/// How far the issuer's clock may differ, in seconds.
pub const LEEWAY: u64 = 60;
/// The types of tokens that are none for something else (RFC 8725, section 3.11; RFC 9068, section 2.1).
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];
/// The most bytes of a value that an error shows.
const SHOWN: usize = 100;

/// What a token must be.
#[derive(Clone, Copy)]
pub struct Expected<'a> {
    /// Its issuer, exactly.
    pub issuer: &'a str,
    /// One of its audiences.
    pub audience: &'a str,
    /// The time, in seconds since 1970.
    pub now: u64,
}

/// Why a token is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Invalid {
    /// None of the known keys has signed the token; newer keys may include the right one. How the token names its key.
    UnknownKey(String),
    /// The key that the token names has not signed it; the issuer may have another of that name by now.
    WrongSignature,
    /// Why, on one line, as a sentence about the token.
    Because(String),
}

fn because<T>(why: impl Into<String>) -> Result<T, Invalid> {
    Err(Invalid::Because(why.into()))
}

/// The claims of a valid token.
///
/// # Errors
/// Why it is none.
pub fn verify(token: &str, keys: &IssuerKeys, expected: &Expected<'_>) -> Result<Claims, Invalid> {
    let header = decode_header(token).map_err(|error| Invalid::Because(format!("its header: {}", said(&error))))?;
    check_header(&header)?;
    let name = header.kid.as_deref();
    let found = keys.find(name, header.alg);
    if found.is_empty() {
        let named = name.map_or("none".to_owned(), |name| format!("{:?}", Printable(prefix(name, SHOWN)).to_string()));
        return Err(Invalid::UnknownKey(format!("{named} of {:?}", header.alg)));
    }
    let mut validation = Validation::new(header.alg);
    // The library would ask the clock itself.
    (validation.validate_exp, validation.validate_nbf, validation.validate_aud) = (false, false, false);
    validation.required_spec_claims.clear();
    for key in found {
        match decode::<Claims>(token, &key.decoding, &validation) {
            Ok(decoded) => {
                check_claims(&decoded.claims, expected)?;
                return Ok(decoded.claims);
            }
            Err(error) if matches!(error.kind(), ErrorKind::InvalidSignature) => {}
            Err(error) => return because(said(&error)),
        }
    }
    Err(Invalid::WrongSignature)
}

fn check_header(header: &Header) -> Result<(), Invalid> {
    use Algorithm::{HS256, HS384, HS512};
    if matches!(header.alg, HS256 | HS384 | HS512) {
        return because(format!(
            "it is signed with {:?}; RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384 and EdDSA are accepted",
            header.alg
        ));
    }
    if header.crit.is_some() {
        return because("its header requires an extension that is not known here (crit)");
    }
    if header.zip.is_some() || header.enc.is_some() {
        return because("it is compressed or encrypted");
    }
    let named = header.typ.as_deref().unwrap_or("JWT");
    if !TYPES.iter().any(|one| one.eq_ignore_ascii_case(named)) {
        return because(format!("its type is {:?} (typ)", Printable(prefix(named, SHOWN)).to_string()));
    }
    Ok(())
}

fn check_claims(claims: &Claims, expected: &Expected<'_>) -> Result<(), Invalid> {
    if claims.text("iss") != Some(expected.issuer) {
        let found = claims
            .text("iss")
            .map_or(String::new(), |iss| format!(", {:?}", Printable(prefix(iss, SHOWN)).to_string()));
        return because(format!("it is from another issuer (iss){found}"));
    }
    let (now, leeway) = (expected.now as f64, LEEWAY as f64);
    match claims.time("exp") {
        Ok(Some(until)) if now < until + leeway => {}
        Ok(Some(_)) => return because("it has expired (exp); compare the clocks"),
        Ok(None) => return because("it never expires (exp)"),
        Err(()) => return because("its time of expiry is no time (exp)"),
    }
    for name in ["nbf", "iat"] {
        match claims.time(name) {
            Ok(Some(from)) if from > now + leeway => {
                return because(format!("it is not valid yet ({name}); compare the clocks"));
            }
            Ok(_) => {}
            Err(()) => return because(format!("its beginning is no time ({name})")),
        }
    }
    if !claims.are_for(expected.audience) {
        return because("it is for another audience (aud)");
    }
    Ok(())
}

fn said(error: &Error) -> String {
    match error.kind() {
        ErrorKind::InvalidToken => "it has not three parts".to_owned(),
        ErrorKind::Base64(_) | ErrorKind::Utf8(_) => "it is not in base64".to_owned(),
        // The text of an error of JSON has a part of the token.
        ErrorKind::Json(error) if error.to_string().starts_with("unknown variant") => {
            "it is signed with an algorithm that is not known here".to_owned()
        }
        ErrorKind::Json(error) if error.to_string().starts_with("a name is there twice") => {
            "a claim is there twice".to_owned()
        }
        ErrorKind::Json(_) => "its JSON can't be read".to_owned(),
        other => format!("{other:?}"),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
