//! LDAP URLs (RFC 4516): `ldap://host:port/base?attribute?scope?filter`.

use serde::{Deserialize, Serialize};

use crate::fields::shown;

/// Which entries a search looks at.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub(super) enum Scope {
    Base,
    One,
    Subtree,
}

/// The parts of a URL; none for those that are left out.
pub(super) struct LdapUrl {
    pub(super) scheme: String,
    pub(super) host: Option<String>,
    pub(super) port: Option<u16>,
    pub(super) base: Option<String>,
    pub(super) attribute: Option<String>,
    pub(super) scope: Scope,
    pub(super) filter: Option<String>,
}

/// Reads a URL. Of several attributes the first one counts.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse(text: &str) -> Result<LdapUrl, String> {
    let unreadable = || "ldapurl must read ldap://host:port/basedn?attribute?scope?filter".to_owned();
    let (scheme, rest) = text.split_once("://").ok_or_else(unreadable)?;
    let (authority, rest) = rest.split_once('/').unwrap_or((rest, ""));
    let (host, own_port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']').ok_or_else(unreadable)?;
            (host, rest.strip_prefix(':'))
        }
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    let mut parts = rest.split('?').map(decoded);
    let mut part = || parts.next().transpose().map(|part| part.filter(|part| !part.is_empty()));
    let base = part()?;
    let attribute = part()?.map(|names| names.split(',').next().unwrap_or_default().to_owned());
    let scope = match part()?.as_deref() {
        None | Some("base") => Scope::Base,
        Some("one" | "onelevel") => Scope::One,
        Some("sub" | "subtree") => Scope::Subtree,
        Some(other) => return Err(format!("the scope {other:?} of ldapurl must be base, one or sub")),
    };
    let host = decoded(host)?;
    Ok(LdapUrl {
        scheme: scheme.to_ascii_lowercase(),
        host: Some(host).filter(|host| !host.is_empty()),
        port: own_port.map(port).transpose()?,
        base,
        attribute,
        scope,
        filter: part()?,
    })
}

/// A port of a server.
pub(super) fn port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port != 0);
    port.ok_or_else(|| format!("{} is no port from 1 to 65535", shown(text)))
}

/// A text without its percent escapes.
fn decoded(text: &str) -> Result<String, String> {
    let bad = || "ldapurl has an escape that is not % and two hexadecimal digits".to_owned();
    let (mut out, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).ok_or_else(bad);
            out.push((digit(bytes.next())? << 4 | digit(bytes.next())?) as u8);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_may_be_left_out_and_are_decoded() {
        let url = parse("ldap://127.0.0.1:1389/dc=example,dc=net??sub?(|(uid=$username)(mail=$username))").unwrap();
        assert_eq!(
            (url.host.as_deref(), url.port, url.base.as_deref()),
            (Some("127.0.0.1"), Some(1389), Some("dc=example,dc=net"))
        );
        assert_eq!((url.attribute, url.scope), (None, Scope::Subtree));
        assert_eq!(url.filter.as_deref(), Some("(|(uid=$username)(mail=$username))"));
        let url = parse("LDAPS://[::1]/o=a%2cb?cn,sn").unwrap();
        assert_eq!((&*url.scheme, url.host.as_deref(), url.port), ("ldaps", Some("::1"), None));
        assert_eq!(
            (url.base.as_deref(), url.attribute.as_deref(), url.scope),
            (Some("o=a,b"), Some("cn"), Scope::Base)
        );
        assert!(parse("ldap:///dc=x").unwrap().host.is_none());
        for text in ["h/dc=x", "ldap://h:0/", "ldap://h/a??tree", "ldap://h/%4", "ldap://[::1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
