//! The options of method `oauth`: those of PostgreSQL 18 in a rule of an HBA file, and those that say how Weir, which has no
//! validator library, checks a token.
//!
//! Always true of a value: addresses are encrypted or of this machine, and the text for clients needs no escapes.

use std::path::PathBuf;
use std::sync::Arc;

use crate::fields::{fields, shown};
use crate::ident::{IdentMaps, no_map};
use crate::safe_url::is_safe_url;

/// The part of an address below which an issuer's metadata is (RFC 8615).
const WELL_KNOWN: &str = "/.well-known/";
/// The metadata of an OpenID provider.
const OPENID: &str = "/.well-known/openid-configuration";
/// The longest value of an option, in bytes.
const LONGEST: usize = 1000;

/// Which tokens are accepted, and from whom.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Oauth {
    /// The issuer of the tokens, as they name it.
    pub issuer: String,
    /// Where the issuer's metadata is.
    pub metadata_url: String,
    /// The address of the metadata for clients: as PostgreSQL writes it.
    shown_url: String,
    /// What a token must allow: words with a blank between them.
    pub scope: String,
    /// Whom a token must be for.
    pub audience: String,
    /// The claim with the name of who logs in.
    pub claim: String,
    /// The ident map for that name; without one it must equal the user's.
    pub map: Option<String>,
    /// The authorities for the issuer's certificate, PEM; none: those of this machine.
    pub ca_file: Option<PathBuf>,
}

impl Oauth {
    /// Reads `auth_oauth_options`: options as in a rule, separated by blanks or commas.
    ///
    /// # Errors
    /// One sentence: what is wrong, and what to do.
    pub fn parse(text: &str) -> Result<Arc<Oauth>, String> {
        let mut options = OauthOptions::default();
        for word in fields(text)?.iter().flatten() {
            let (name, value) = word.text().split_once('=').ok_or("an option must be written name=value")?;
            options.set(name, value)?;
        }
        options.finish()
    }

    /// Whether the ident file has the map that the options name.
    ///
    /// # Errors
    /// It has not: nobody could log in.
    pub fn check_map(&self, maps: &IdentMaps) -> Result<(), String> {
        match self.map.as_deref().filter(|map| !maps.has(map)) {
            None => Ok(()),
            Some(map) => Err(no_map(map)),
        }
    }

    /// The message for a client that has no valid token (RFC 7628, section 3.2.2).
    pub fn challenge(&self) -> String {
        format!(
            "{{ \"status\": \"invalid_token\", \"openid-configuration\": \"{}\", \"scope\": \"{}\" }}",
            self.shown_url, self.scope
        )
    }

    /// The scopes that a token must have.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scope.split(' ').filter(|one| !one.is_empty())
    }
}

/// Options as they are read.
#[derive(Default)]
pub(crate) struct OauthOptions {
    issuer: Option<String>,
    scope: Option<String>,
    audience: Option<String>,
    claim: Option<String>,
    map: Option<String>,
    ca_file: Option<String>,
}

impl OauthOptions {
    /// Takes one option in.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if value.is_empty() || value.len() > LONGEST {
            return Err(format!("{} has no value, or one that is too long: write {0}=VALUE", shown(name)));
        }
        let place = match name {
            "issuer" => &mut self.issuer,
            "scope" => &mut self.scope,
            "audience" => &mut self.audience,
            "claim" => &mut self.claim,
            "map" => &mut self.map,
            "ca_file" => &mut self.ca_file,
            "validator" => return Err("validator is not supported: Weir checks tokens itself, remove it".into()),
            "delegate_ident_mapping" => {
                return Err("delegate_ident_mapping is not supported: write map=NAME, or name a claim=".into());
            }
            _ => return Err(format!("the option {} is not one of oauth: remove it", shown(name))),
        };
        match place.replace(value.to_owned()) {
            None => Ok(()),
            Some(_) => Err(format!("{name}= stands there twice: leave one")),
        }
    }

    /// All options are read.
    pub(crate) fn finish(self) -> Result<Arc<Oauth>, String> {
        let issuer = self.issuer.ok_or("oauth needs issuer=: the address of the issuer of the tokens")?;
        if !is_safe_url(&issuer) {
            return Err("issuer must be an https:// address without a query; http:// only for the loopback".into());
        }
        let scope = self.scope.ok_or("oauth needs scope=: what a token must allow, as \"openid\"")?;
        // RFC 6749, section 3.3.
        if !scope.bytes().all(|byte| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~')) {
            return Err("scope must be words of ASCII without quotes and backslashes, with blanks between them".into());
        }
        if scope.trim().is_empty() {
            return Err("scope has no word: name what a token must allow, as \"openid\"".into());
        }
        let audience = self.audience.ok_or(
            "oauth needs audience=: the \"aud\" of tokens for this database, or those for any other service would be accepted",
        )?;
        let ca_file = self.ca_file.map(PathBuf::from);
        if ca_file.as_ref().is_some_and(|file| !file.is_absolute()) {
            return Err("ca_file must be an absolute path".into());
        }
        let (issuer, metadata_url, shown_url) = addresses(&issuer);
        let claim = self.claim.unwrap_or_else(|| "sub".to_owned());
        Ok(Arc::new(Oauth { issuer, metadata_url, shown_url, scope, audience, claim, map: self.map, ca_file }))
    }
}

/// The issuer that an option names, the address of its metadata, and that address for clients.
fn addresses(option: &str) -> (String, String, String) {
    match option.split_once(WELL_KNOWN) {
        // The option is the metadata's address; the path of the issuer is before it, or behind (RFC 8414, section 3.1).
        Some((before, behind)) => {
            let path = behind.split_once('/').map_or(String::new(), |(_, path)| format!("/{path}"));
            (format!("{before}{path}"), option.to_owned(), option.to_owned())
        }
        None => {
            // PostgreSQL leaves a slash at the end, by which libpq finds the issuer's exact name again.
            (option.to_owned(), format!("{}{OPENID}", option.trim_end_matches('/')), format!("{option}{OPENID}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = " scope=\"openid db\", audience=weir";

    #[test]
    fn options_are_read_as_postgresql_reads_them() {
        let oauth = Oauth::parse(&format!("issuer=\"https://idp/realms/a\"{REST} map=m claim=email")).unwrap();
        assert_eq!((&*oauth.issuer, &*oauth.audience, &*oauth.claim), ("https://idp/realms/a", "weir", "email"));
        assert_eq!((oauth.map.as_deref(), oauth.scopes().collect::<Vec<_>>()), (Some("m"), vec!["openid", "db"]));
        assert_eq!(oauth.metadata_url, "https://idp/realms/a/.well-known/openid-configuration");
        assert_eq!(
            oauth.challenge(),
            "{ \"status\": \"invalid_token\", \"openid-configuration\": \
             \"https://idp/realms/a/.well-known/openid-configuration\", \"scope\": \"openid db\" }"
        );
        let plain = Oauth::parse(&format!("issuer=http://127.0.0.1:80{REST}")).unwrap();
        assert_eq!((&*plain.claim, &plain.map, &plain.ca_file), ("sub", &None, &None));
    }

    #[test]
    fn an_issuer_is_named_or_found_in_the_address_of_its_metadata() {
        for (option, issuer, fetched, shown) in [
            ("https://a", "https://a", "https://a/.well-known/openid-configuration", None),
            (
                "https://a/",
                "https://a/",
                "https://a/.well-known/openid-configuration",
                Some("https://a//.well-known/openid-configuration"),
            ),
            ("https://a/b/.well-known/openid-configuration", "https://a/b", "", None),
            ("https://a/.well-known/oauth-authorization-server", "https://a", "", None),
            ("https://a/.well-known/oauth-authorization-server/b/c", "https://a/b/c", "", None),
        ] {
            let oauth = Oauth::parse(&format!("issuer={option}{REST}")).unwrap();
            let fetched = if fetched.is_empty() { option } else { fetched };
            assert_eq!((&*oauth.issuer, &*oauth.metadata_url), (issuer, fetched));
            assert!(oauth.challenge().contains(&format!("\"{}\"", shown.unwrap_or(fetched))), "{option}");
        }
    }

    #[test]
    fn options_that_would_accept_what_they_should_not_are_refused() {
        let long = format!("issuer=https://a scope=a audience={}", "a".repeat(LONGEST + 1));
        for (text, part) in [
            ("", "needs issuer="),
            ("issuer=https://a", "needs scope="),
            ("issuer=https://a scope=a", "needs audience="),
            ("issuer=http://a scope=a audience=b", "https://"),
            ("issuer=https://a?b scope=a audience=b", "https://"),
            ("issuer=a scope=a audience=b", "https://"),
            ("issuer=\"https://a\"\"b\" scope=a audience=b", "https://"),
            ("issuer=https://a scope=a\\b audience=b", "scope must"),
            ("issuer=https://a scope=é audience=b", "scope must"),
            ("issuer=https://a scope= audience=b", "has no value"),
            (&long, "too long"),
            ("issuer=https://a scope=a audience=b scope=c", "twice"),
            ("issuer=https://a scope=a audience=b validator=x", "Weir checks tokens itself"),
            ("issuer=https://a scope=a audience=b delegate_ident_mapping=1", "not supported"),
            ("issuer=https://a scope=a audience=b ca_file=ca.crt", "absolute"),
            ("issuer=https://a scope=a audience=b other=1", "not one of oauth"),
            ("issuer", "name=value"),
        ] {
            let error = Oauth::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
