//! The claims of a token (RFC 7519, section 4): an object in which no name is twice, so that no two readers see different
//! values.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

/// The claims of a token. No `Debug`: they may be about a person.
#[derive(Clone, PartialEq, Eq)]
pub struct Claims(pub Map<String, Value>);

impl Claims {
    /// A claim that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// A claim that is a time, in seconds since 1970; an error if it is something else.
    pub(crate) fn time(&self, name: &str) -> Result<Option<f64>, ()> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => value.as_f64().filter(|time| time.is_finite()).map(Some).ok_or(()),
        }
    }

    /// Whether the token is for this audience: the claim is a text, or a list of texts.
    pub(crate) fn are_for(&self, audience: &str) -> bool {
        match self.0.get("aud") {
            Some(Value::String(one)) => one == audience,
            Some(Value::Array(all)) => all.iter().any(|one| one == audience),
            _ => false,
        }
    }

    /// Whether the token has a scope: of `scope`, a text of words (RFC 8693, section 4.2), or of `scp`, which some issuers
    /// have in its place, also as a list.
    pub fn has_scope(&self, scope: &str) -> bool {
        ["scope", "scp"].iter().any(|name| match self.0.get(*name) {
            Some(Value::String(words)) => words.split(' ').any(|one| one == scope),
            Some(Value::Array(all)) => all.iter().any(|one| one == scope),
            _ => false,
        })
    }
}

/// Whether the issuer has verified the claim `email`. At many issuers, users choose their address themselves.
pub fn has_verified_email(claims: &Map<String, Value>) -> bool {
    claims.get("email_verified").is_some_and(|value| *value == Value::Bool(true) || *value == "true")
}

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Claims, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Claims;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Claims, A::Error> {
                let mut claims = Map::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if claims.insert(name, value).is_some() {
                        return Err(A::Error::custom("a name is there twice"));
                    }
                }
                Ok(Claims(claims))
            }
        }
        from.deserialize_map(Object)
    }
}
