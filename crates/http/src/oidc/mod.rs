//! Single sign-on: logins to the panel through an OpenID Connect provider, by the authorization code flow with PKCE.
//!
//! Owns the pending logins, and what is known of the provider. A login begins with a redirection to the provider, whose
//! address has a state, a nonce and the hash of a verifier, and with a cookie; it comes back with a code, which is
//! exchanged for a token that names the user (`id_token`). The session that follows is `access`'s. Without a provider
//! in the configuration nothing runs and nothing is kept.

mod error;
mod id_token;
mod pending;
mod provider;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Map, Value};
use weir_config::Oidc;
use weir_jwt::{Claims, Invalid, has_verified_email};
use weir_monitor::{SendHttp, lock};

use crate::access::{LoginGrant, digest, new_token};
pub use error::SsoError;
use id_token::{Expected, verify};
use pending::{PendingLogin, PendingLogins};
use provider::{Metadata, Provider, Tokens, brief};

/// The path that the provider sends browsers back to.
pub const CALLBACK: &str = "api/v1/oidc/callback";
/// How long a login at the provider may take.
pub const LONGEST_LOGIN: Duration = pending::LONGEST;
/// Groups of a user that are looked at, and the bytes of each.
const MOST_GROUPS: usize = 1000;
const LONGEST_NAME: usize = 128;

/// Single sign-on; cheap to clone.
#[derive(Clone)]
pub struct SingleSignOn {
    provider: Provider,
    pending: Arc<Mutex<PendingLogins>>,
}

/// What the provider adds to the address that it sends the browser back to.
#[derive(Deserialize, Default)]
pub struct Comeback {
    code: Option<String>,
    state: Option<String>,
    error: Option<String>,
    iss: Option<String>,
}

/// A login that begins: where the browser goes, and the secret that it keeps.
pub struct Beginning {
    /// Where the browser is sent.
    pub url: String,
    /// What the browser has to show when it comes back.
    pub cookie: String,
}

impl SingleSignOn {
    /// `send`: sends requests to the provider. Nothing is sent yet.
    pub fn new(send: SendHttp) -> SingleSignOn {
        SingleSignOn { provider: Provider::new(send), pending: Arc::default() }
    }

    /// Begins a login, which is to come back to `redirect_url`.
    pub async fn begin(&self, oidc: &Oidc, from: IpAddr, redirect_url: String) -> Result<Beginning, SsoError> {
        let (metadata, _) = self.provider.known(oidc, false).await?;
        let (issuer, client_id) = names(oidc)?;
        let (state, nonce, verifier, cookie) = (new_token(), new_token(), new_token(), new_token());
        let challenge = URL_SAFE_NO_PAD.encode(digest(&verifier));
        let scopes = oidc.scopes.join(" ");
        let url = with_query(
            &metadata.authorization_endpoint,
            &[
                ("response_type", "code"),
                ("client_id", client_id),
                ("redirect_uri", &redirect_url),
                ("scope", &scopes),
                ("state", &state),
                ("nonce", &nonce),
                ("code_challenge", &challenge),
                ("code_challenge_method", "S256"),
            ],
        );
        let (issuer, client_id) = (issuer.to_owned(), client_id.to_owned());
        let login = PendingLogin { cookie: digest(&cookie), nonce, verifier, redirect_url, issuer, client_id };
        lock(&self.pending).begin(&state, from, login, Instant::now());
        Ok(Beginning { url, cookie })
    }

    /// Ends a login that comes back: who the user is.
    pub async fn finish(&self, oidc: &Oidc, cookie: Option<&str>, back: Comeback) -> Result<LoginGrant, SsoError> {
        let (issuer, client_id) = names(oidc)?;
        let (Some(state), Some(cookie)) = (&back.state, cookie) else { return Err(SsoError::Expired) };
        let login = lock(&self.pending).take(state, cookie, Instant::now()).ok_or(SsoError::Expired)?;
        if (login.issuer.as_str(), login.client_id.as_str()) != (issuer, client_id) {
            return Err(SsoError::Expired);
        }
        let (metadata, _) = self.provider.known(oidc, false).await?;
        // RFC 9207: an answer of another provider, which would get the code otherwise.
        if back.iss.as_deref().map_or(metadata.authorization_response_iss_parameter_supported, |iss| iss != issuer) {
            return Err(SsoError::Token("the answer comes from another issuer (iss)".to_owned()));
        }
        if let Some(error) = &back.error {
            return Err(SsoError::Refused(brief(error)));
        }
        let code = back.code.as_deref().ok_or(SsoError::Expired)?;
        let asked = (code, login.verifier.as_str(), login.redirect_url.as_str());
        let tokens = self.provider.exchange(oidc, &metadata, asked).await?;
        let expected = Expected { issuer, client_id, nonce: &login.nonce };
        let Claims(claims) = self.verified(oidc, &tokens, &expected).await?;
        let claims = self.completed(oidc, &metadata, &tokens, claims).await?;
        let (user, groups) = (user_of(oidc, &claims), groups_of(oidc, &claims));
        let home = login.redirect_url.strip_suffix(CALLBACK).unwrap_or_default().to_owned();
        Ok(LoginGrant { user, groups, id_token: tokens.id_token, home })
    }

    /// The claims of a token. A token with an unknown key is checked with newer keys once.
    async fn verified(&self, oidc: &Oidc, tokens: &Tokens, expected: &Expected<'_>) -> Result<Claims, SsoError> {
        let (_, keys) = self.provider.known(oidc, false).await?;
        let checked = match verify(&tokens.id_token, &keys, expected) {
            Err(Invalid::UnknownKey(_) | Invalid::WrongSignature) => {
                let (_, keys) = self.provider.known(oidc, true).await?;
                verify(&tokens.id_token, &keys, expected)
            }
            checked => checked,
        };
        checked.map_err(|why| match why {
            Invalid::UnknownKey(key) => SsoError::Token(format!("the provider has no such key: {key}")),
            Invalid::WrongSignature => SsoError::Token("its signature is wrong".to_owned()),
            Invalid::Because(why) => SsoError::Token(why),
        })
    }

    /// The claims with those that the provider keeps apart from the token, if the groups are missing.
    async fn completed(
        &self,
        oidc: &Oidc,
        metadata: &Metadata,
        tokens: &Tokens,
        mut claims: Map<String, Value>,
    ) -> Result<Map<String, Value>, SsoError> {
        if claim(&claims, &oidc.groups_claim).is_some() && claim(&claims, &oidc.user_claim).is_some() {
            return Ok(claims);
        }
        let more = self.provider.user_info(oidc, metadata, tokens).await?;
        if more.is_empty() {
            return Ok(claims);
        }
        if more.get("sub") != claims.get("sub") {
            return Err(SsoError::Token("the claims are another user's (sub)".to_owned()));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(claims)
    }

    /// Where a browser ends its session at the provider; none if the provider has no such address.
    pub async fn end_session(&self, oidc: &Oidc, id_token: &str, home: &str) -> Option<String> {
        let (metadata, _) = self.provider.known(oidc, false).await.ok()?;
        let mut query = vec![("client_id", oidc.client_id.as_deref()?)];
        // A provider may refuse a longer address.
        query.extend((id_token.len() <= 4096).then_some(("id_token_hint", id_token)));
        query.extend((!home.is_empty()).then_some(("post_logout_redirect_uri", home)));
        Some(with_query(metadata.end_session_endpoint.as_deref()?, &query))
    }
}

fn names(oidc: &Oidc) -> Result<(&str, &str), SsoError> {
    oidc.issuer.as_deref().zip(oidc.client_id.as_deref()).ok_or(SsoError::Off)
}

fn with_query(url: &str, query: &[(&str, &str)]) -> String {
    let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    format!("{url}{}{query}", if url.contains('?') { '&' } else { '?' })
}

/// A claim by its name, or by the names on the way to it.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (outer, inner) = name.split_once('.')?;
    claim(claims.get(outer)?.as_object()?, inner)
}

fn groups_of(oidc: &Oidc, claims: &Map<String, Value>) -> Vec<String> {
    if oidc.groups_claim == "email" && !has_verified_email(claims) {
        return Vec::new();
    }
    match claim(claims, &oidc.groups_claim) {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).take(MOST_GROUPS).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

fn user_of(oidc: &Oidc, claims: &Map<String, Value>) -> String {
    let text = |name: &str| claim(claims, name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text(&oidc.user_claim).or_else(|| text("email")).or_else(|| text("sub")).unwrap_or_default();
    format!("sso:{}", name.chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn groups(oidc: &Oidc, claims: Value) -> Vec<String> {
        groups_of(oidc, claims.as_object().expect("an object"))
    }

    #[test]
    fn groups_are_a_list_or_a_text_at_the_top_or_within() {
        let of = |claim: &str| Oidc { groups_claim: claim.to_owned(), ..Oidc::default() };
        assert_eq!(groups(&of("groups"), json!({"groups": ["a", 7, "b"]})), ["a", "b"]);
        assert_eq!(groups(&of("groups"), json!({"groups": "a"})), ["a"]);
        assert_eq!(groups(&of("realm_access.roles"), json!({"realm_access": {"roles": ["a"]}})), ["a"]);
        assert_eq!(groups(&of("https://x.y/groups"), json!({"https://x.y/groups": ["a"]})), ["a"]);
        assert_eq!(groups(&of("groups"), json!({"groups": {"a": 1}})), [""; 0]);
    }

    #[test]
    fn an_address_counts_only_if_the_provider_has_verified_it() {
        let of = Oidc { groups_claim: "email".to_owned(), ..Oidc::default() };
        assert_eq!(groups(&of, json!({"email": "a@b", "email_verified": true})), ["a@b"]);
        assert_eq!(groups(&of, json!({"email": "a@b", "email_verified": false})), [""; 0]);
        assert_eq!(groups(&of, json!({"email": "a@b"})), [""; 0]);
    }

    #[test]
    fn a_user_has_a_name_that_no_local_account_has() {
        let oidc = Oidc { user_claim: "preferred_username".to_owned(), ..Oidc::default() };
        let name = |claims: Value| user_of(&oidc, claims.as_object().expect("an object"));
        assert_eq!(name(json!({"preferred_username": "ann\n", "email": "a@b", "sub": "7"})), "sso:ann");
        assert_eq!(name(json!({"email": "a@b", "sub": "7"})), "sso:a@b");
        assert_eq!(name(json!({"preferred_username": "", "sub": "7"})), "sso:7");
    }
}
