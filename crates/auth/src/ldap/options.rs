//! The options of a login by LDAP: PostgreSQL's in a rule of an HBA file, and PgBouncer's `auth_ldap_options`, which
//! are the same (PostgreSQL's documentation, "LDAP Authentication").
//!
//! Always true of a value: it names a server, and either a direct bind or a search; its filter can be encoded.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fields::{fields, shown};

use super::filter::{self, is_attribute};
use super::url::{self, Scope, port};

/// Where a login by LDAP is checked, and how.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ldap {
    /// The servers, in the order in which they are tried.
    pub servers: Vec<String>,
    /// The port of all servers.
    pub port: u16,
    /// Whether the connection is encrypted from its first byte (`ldaps`).
    pub tls: bool,
    /// Whether the connection becomes encrypted by StartTLS (`ldaptls=1`).
    pub start_tls: bool,
    pub(super) find: Find,
}

/// How a user's entry is found.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Find {
    /// The name is put between these.
    Name { prefix: String, suffix: String },
    /// By a search.
    Search { base: String, scope: Scope, filter: String, bind_dn: String, bind_password: String },
}

/// What stands for the user's name in a filter.
pub(super) const USER_NAME: &str = "$username";

/// The most servers.
const MAX_SERVERS: usize = 16;

impl fmt::Debug for Ldap {
    // The password of the search never reaches a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ldap({}:{})", self.servers.join(" "), self.port)
    }
}

impl Ldap {
    /// Reads `auth_ldap_options`: options as in a rule, separated by blanks or commas.
    ///
    /// # Errors
    /// One sentence: what is wrong, and what to do. It shows no password.
    pub fn parse(text: &str) -> Result<Arc<Ldap>, String> {
        let fields = fields(text)?;
        let words: Vec<&str> = fields.iter().flatten().map(|word| word.text()).collect();
        let mut options = LdapOptions::default();
        for word in words {
            let (name, value) = word.split_once('=').ok_or("an option must be written name=value")?;
            options.set(name, value)?;
        }
        options.finish()
    }
}

/// Options as they are read.
#[derive(Default)]
pub(crate) struct LdapOptions {
    servers: Option<String>,
    port: Option<u16>,
    scheme: Option<bool>,
    start_tls: bool,
    prefix: Option<String>,
    suffix: Option<String>,
    base: Option<String>,
    scope: Option<Scope>,
    attribute: Option<String>,
    filter: Option<String>,
    bind_dn: Option<String>,
    bind_password: Option<String>,
}

impl LdapOptions {
    /// Takes one option in; the last of several equal ones counts.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if value.is_empty() {
            return Err(format!("{} has no value: write {0}=VALUE, or remove it", shown(name)));
        }
        let text = || Some(value.to_owned());
        match name {
            "ldapserver" => self.servers = text(),
            "ldapport" => self.port = Some(port(value)?),
            "ldapscheme" => self.scheme = Some(is_ldaps(value)?),
            "ldaptls" => self.start_tls = value == "1",
            "ldapprefix" => self.prefix = text(),
            "ldapsuffix" => self.suffix = text(),
            "ldapbasedn" => self.base = text(),
            "ldapsearchattribute" => self.attribute = text(),
            "ldapsearchfilter" => self.filter = text(),
            "ldapbinddn" => self.bind_dn = text(),
            "ldapbindpasswd" => self.bind_password = text(),
            "ldapurl" => self.url(value)?,
            _ => return Err(format!("the option {} is not one of ldap: remove it", shown(name))),
        }
        Ok(())
    }

    fn url(&mut self, text: &str) -> Result<(), String> {
        let url = url::parse(text)?;
        self.scheme = Some(is_ldaps(&url.scheme)?);
        self.servers = url.host.or(self.servers.take());
        self.port = url.port.or(self.port);
        self.base = url.base.or(self.base.take());
        self.attribute = url.attribute.or(self.attribute.take());
        self.scope = Some(url.scope);
        self.filter = url.filter.or(self.filter.take());
        Ok(())
    }

    /// All options are read.
    pub(crate) fn finish(self) -> Result<Arc<Ldap>, String> {
        let find = self.find()?;
        let servers = self.servers.unwrap_or_default();
        let servers: Vec<String> = servers.split_whitespace().map(str::to_owned).collect();
        if servers.is_empty() || servers.len() > MAX_SERVERS {
            return Err(format!("ldapserver must name 1 to {MAX_SERVERS} servers: write ldapserver=HOST, or ldapurl"));
        }
        let tls = self.scheme.unwrap_or(false);
        let port = self.port.unwrap_or(if tls { 636 } else { 389 });
        Ok(Arc::new(Ldap { servers, port, tls, start_tls: self.start_tls, find }))
    }

    fn find(&self) -> Result<Find, String> {
        let given = |option: &Option<String>| option.clone().unwrap_or_default();
        let searches = [&self.base, &self.attribute, &self.filter, &self.bind_dn, &self.bind_password];
        if self.prefix.is_some() || self.suffix.is_some() {
            if searches.into_iter().any(Option::is_some) {
                return Err(
                    "ldapprefix and ldapsuffix can't be mixed with the options of a search: remove either".into()
                );
            }
            return Ok(Find::Name { prefix: given(&self.prefix), suffix: given(&self.suffix) });
        }
        let Some(base) = self.base.clone() else {
            return Err("ldap needs ldapbasedn, ldapprefix or ldapsuffix: add one".into());
        };
        if self.attribute.is_some() && self.filter.is_some() {
            return Err("ldapsearchattribute and ldapsearchfilter can't be used together: remove either".into());
        }
        let attribute = self.attribute.as_deref().unwrap_or("uid");
        if !is_attribute(attribute) {
            return Err(format!("{} is no attribute", shown(attribute)));
        }
        let filter = self.filter.clone().unwrap_or_else(|| format!("({attribute}={USER_NAME})"));
        filter::encode(&filter.replace(USER_NAME, "u"))?;
        let scope = self.scope.unwrap_or(Scope::Subtree);
        Ok(Find::Search {
            base,
            scope,
            filter,
            bind_dn: given(&self.bind_dn),
            bind_password: given(&self.bind_password),
        })
    }
}

fn is_ldaps(scheme: &str) -> Result<bool, String> {
    match scheme {
        "ldap" => Ok(false),
        "ldaps" => Ok(true),
        _ => Err(format!("the scheme {} is not supported: ldap or ldaps expected", shown(scheme))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_postgresql_and_pgbouncer_read_them() {
        let ldap = Ldap::parse(r#"ldapserver="a b" ldapprefix="uid=" ,ldapsuffix=",dc=example,dc=net""#).unwrap();
        assert_eq!(
            (&*ldap.servers, ldap.port, ldap.tls, ldap.start_tls),
            (&["a".into(), "b".into()][..], 389, false, false)
        );
        assert!(ldap.find == Find::Name { prefix: "uid=".into(), suffix: ",dc=example,dc=net".into() });
        let ldap = Ldap::parse(
            r#"ldapurl="ldaps://h:1636/dc=a%20b?mail?one" ldaptls=1 ldapbinddn="cn=m" "ldapbindpasswd"=secret"#,
        )
        .unwrap();
        assert_eq!((&*ldap.servers, ldap.port, ldap.tls, ldap.start_tls), (&["h".into()][..], 1636, true, true));
        let Find::Search { base, scope, filter, bind_dn, bind_password } = ldap.find.clone() else { panic!() };
        assert_eq!((&*base, scope, &*filter), ("dc=a b", Scope::One, "(mail=$username)"));
        assert_eq!((&*bind_dn, &*bind_password), ("cn=m", "secret"));
        assert!(!format!("{ldap:?}").contains("secret"));
        let ldap = Ldap::parse("ldapserver=h ldapscheme=ldaps ldapbasedn=dc=x ldapsearchfilter=uid=$username").unwrap();
        assert_eq!((ldap.port, ldap.tls), (636, true));
    }

    #[test]
    fn options_that_allow_no_login_are_refused() {
        for (text, part) in [
            ("", "needs ldapbasedn"),
            ("ldapserver=h", "needs ldapbasedn"),
            ("ldapbasedn=x", "ldapserver must name"),
            ("ldapserver=h ldapprefix=a ldapbasedn=b", "can't be mixed"),
            ("ldapserver=h ldapbasedn=b ldapsearchattribute=a ldapsearchfilter=(a=b)", "together"),
            ("ldapserver=h ldapbasedn=b ldapsearchfilter=(a=b", "missing"),
            ("ldapserver=h ldapbasedn=b ldapport=0", "no port"),
            ("ldapserver=h ldapbasedn=b ldapport=ldap", "no port"),
            ("ldapserver=h ldapbasedn=b ldapscheme=http", "not supported"),
            ("ldapurl=http://h/dc=x", "not supported"),
            ("ldapserver= ldapbasedn=b", "has no value"),
            ("ldapserver=h ldapbasedn=b ldapbindpassword=secret", "not one of ldap"),
            ("ldapserver", "name=value"),
        ] {
            let error = Ldap::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
