//! Checks an identity token (OpenID Connect Core 1.0, section 3.1.3.7): who signed it, for whom, until when, for which
//! login. What holds for every token is checked by `weir-jwt`.

use std::time::{SystemTime, UNIX_EPOCH};

use weir_jwt::{Claims, Invalid, IssuerKeys};

use crate::access::is_same;

/// What a token must be.
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
}

fn because(why: impl Into<String>) -> Invalid {
    Invalid::Because(why.into())
}

/// The claims of a valid token.
pub(super) fn verify(token: &str, keys: &IssuerKeys, expected: &Expected<'_>) -> Result<Claims, Invalid> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let of_all = weir_jwt::Expected { issuer: expected.issuer, audience: expected.client_id, now };
    let claims = weir_jwt::verify(token, keys, &of_all)?;
    of_this_login(&claims, expected)?;
    Ok(claims)
}

/// That the token is for this client and for this login.
fn of_this_login(claims: &Claims, expected: &Expected<'_>) -> Result<(), Invalid> {
    let several = claims.0.get("aud").and_then(|all| all.as_array()).is_some_and(|all| all.len() > 1);
    match claims.text("azp") {
        Some(party) if party == expected.client_id => {}
        None if !several && !claims.0.contains_key("azp") => {}
        _ => return Err(because("it was issued to another client (azp)")),
    }
    if !claims.text("nonce").is_some_and(|nonce| is_same(nonce, expected.nonce)) {
        return Err(because("it belongs to another login (nonce)"));
    }
    if claims.text("sub").is_none_or(str::is_empty) {
        return Err(because("it names no user (sub)"));
    }
    Ok(())
}

#[cfg(test)]
#[path = "id_token_tests.rs"]
mod tests;
