//! HBA rules: which client may log in from where, and by which method (PostgreSQL's documentation, "The pg_hba.conf
//! File"; PgBouncer's, "HBA file format").
//!
//! What PgBouncer does not support is refused with its line, never skipped, because without the rule a later one would
//! decide. Reads no files: the caller passes a function that reads the files of `@file`.
//!
//! Invariants: the first rule that matches decides; without a matching rule the client is refused.

mod address;
mod names;
mod shown;

use std::net::IpAddr;
use std::sync::Arc;

use self::address::Address;
pub(crate) use self::names::Reader;
use self::names::{Column, Files, Names};
pub use self::shown::ShownRule;
use crate::fields::{Field, RuleError, Word, records, shown};
use crate::ident::{IdentMaps, no_map};
use crate::ldap::{Ldap, LdapOptions};
use crate::oauth::{Oauth, OauthOptions};

/// The columns of a record, for errors.
const FORM: &str = "TYPE DATABASE USER ADDRESS METHOD [OPTIONS], without ADDRESS if TYPE is local";
/// The methods that a rule may name, for errors.
const METHODS: &str = "trust, reject, md5, password, scram-sha-256, cert, peer, ldap, pam or oauth";

/// The rules of an HBA file, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hba {
    rules: Vec<Rule>,
}

/// The properties of a login that rules check.
#[derive(Clone, Copy, Debug)]
pub struct HbaRequest<'a> {
    /// How the client connected.
    pub via: ConnectionType,
    /// The requested database.
    pub database: &'a str,
    /// The requested user.
    pub user: &'a str,
    /// Whether the connection is one of physical replication, which belongs to no database: only `replication` matches
    /// it.
    pub physical_replication: bool,
}

/// How a client connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionType {
    /// Over the Unix socket.
    Local,
    /// Over TCP.
    Tcp {
        /// The client's address; an IPv4-mapped IPv6 address counts as the IPv4 address.
        from: IpAddr,
        /// Whether the connection uses TLS.
        tls: bool,
    },
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The rule's line in the file, from 1.
    pub line: usize,
    /// The method for clients that match.
    pub method: RuleMethod,
    /// The ident map for [`RuleMethod::Cert`] and [`RuleMethod::Peer`]; without one, names must be equal.
    map: Option<String>,
    /// Where and how, for [`RuleMethod::Ldap`].
    pub ldap: Option<Arc<Ldap>>,
    /// Which tokens, for [`RuleMethod::Oauth`].
    pub oauth: Option<Arc<Oauth>>,
    /// The service for [`RuleMethod::Pam`], where it is not the one of all.
    pub pam_service: Option<String>,
    reach: Reach,
    databases: Names,
    users: Names,
}

/// The method of a rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RuleMethod {
    /// No authentication, but the user must be known.
    Trust,
    /// The client is refused.
    Reject,
    /// md5, or SCRAM-SHA-256 where the secret is a verifier.
    Md5,
    /// The cleartext password (`password`, `plain`).
    Plain,
    /// SCRAM-SHA-256.
    ScramSha256,
    /// A client certificate that names the user.
    Cert,
    /// The user of the operating system at the other end of the Unix socket.
    Peer,
    /// The cleartext password, checked by a server that speaks LDAP.
    Ldap,
    /// The cleartext password, checked by the operating system's PAM.
    Pam,
    /// A token of an issuer (OAUTHBEARER).
    Oauth,
}

/// The connection types of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reach {
    Local,
    Host { channel: Channel, from: Address },
}

/// Whether a rule depends on encryption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Channel {
    Any,
    Tls,
    Plain,
}

impl Hba {
    /// Reads a file. `read` gets the names that follow an `@`, relative to the folder of the HBA file, and returns that
    /// file's text or an error.
    ///
    /// # Errors
    ///
    /// All invalid lines, each with how to fix it.
    pub fn parse(text: &str, read: &Reader<'_>) -> Result<Hba, Vec<RuleError>> {
        let mut files = Files::new(read);
        let rules = records(text, |line, fields| rule(line, fields, &mut files))?;
        Ok(Hba { rules })
    }

    /// The first rule that matches; `None`: the client must be refused.
    pub fn find(&self, asked: &HbaRequest<'_>) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.matches(asked))
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Whether the ident file has every map that a rule names.
    ///
    /// # Errors
    ///
    /// The rules whose map is missing: no client could log in by them.
    pub fn check_maps(&self, maps: &IdentMaps) -> Result<(), Vec<RuleError>> {
        let missing = self.rules.iter().filter_map(|rule| {
            let map = rule.map().filter(|map| !maps.has(map))?;
            Some(RuleError { line: rule.line, message: no_map(map) })
        });
        let missing: Vec<_> = missing.collect();
        if missing.is_empty() { Ok(()) } else { Err(missing) }
    }
}

impl Rule {
    /// The ident map for proven names; without one they must equal the user's.
    pub fn map(&self) -> Option<&str> {
        self.map.as_deref().or_else(|| self.oauth.as_ref()?.map.as_deref())
    }

    fn matches(&self, asked: &HbaRequest<'_>) -> bool {
        let database = if asked.physical_replication {
            self.databases.hold_replication()
        } else {
            self.databases.hold(asked.database, asked.user)
        };
        self.reach.covers(asked.via) && database && self.users.hold(asked.user, asked.user)
    }
}

impl Reach {
    fn covers(&self, via: ConnectionType) -> bool {
        match (self, via) {
            (Reach::Local, ConnectionType::Local) => true,
            (Reach::Host { channel, from: rule }, ConnectionType::Tcp { from, tls }) => {
                channel.allows(tls) && rule.holds(from)
            }
            _ => false,
        }
    }
}

impl Channel {
    fn allows(self, tls: bool) -> bool {
        match self {
            Channel::Any => true,
            Channel::Tls => tls,
            Channel::Plain => !tls,
        }
    }
}

fn rule(line: usize, fields: Vec<Field>, files: &mut Files<'_>) -> Result<Rule, String> {
    let mut columns = Columns(fields.into_iter());
    let channel = channel(&columns.one("TYPE")?)?;
    let databases = Names::read(columns.next("DATABASE")?, Column::Databases, files)?;
    let users = Names::read(columns.next("USER")?, Column::Users, files)?;
    let reach = match channel {
        None => Reach::Local,
        Some(channel) => Reach::Host { channel, from: address(&mut columns)? },
    };
    let method = method(&columns.one("METHOD")?)?;
    check_method(method, &reach)?;
    let Options { map, ldap, oauth, pam_service } = options(columns.0, method)?;
    Ok(Rule { line, method, map, ldap, oauth, pam_service, reach, databases, users })
}

/// What may follow the method.
#[derive(Default)]
struct Options {
    map: Option<String>,
    ldap: Option<Arc<Ldap>>,
    oauth: Option<Arc<Oauth>>,
    pam_service: Option<String>,
}

fn options(fields: impl Iterator<Item = Field>, method: RuleMethod) -> Result<Options, String> {
    let mut read = Options::default();
    match method {
        RuleMethod::Ldap => {
            let mut ldap = LdapOptions::default();
            // Commas between options are allowed, as by PgBouncer.
            for word in fields.flatten() {
                let (name, value) = pair(&word)?;
                ldap.set(name, value)?;
            }
            read.ldap = Some(ldap.finish()?);
        }
        RuleMethod::Oauth => {
            let mut oauth = OauthOptions::default();
            for word in fields.flatten() {
                let (name, value) = pair(&word)?;
                oauth.set(name, value)?;
            }
            read.oauth = Some(oauth.finish()?);
        }
        RuleMethod::Pam => {
            for word in fields.flatten() {
                match pair(&word)? {
                    ("pamservice", name) if !name.is_empty() => read.pam_service = Some(name.to_owned()),
                    (other, _) => return Err(format!("the option {} is not supported: remove it", shown(other))),
                }
            }
        }
        _ => {
            for option in fields {
                if read.map.replace(option_map(option, method)?).is_some() {
                    return Err("map= stands there twice: leave one".into());
                }
            }
        }
    }
    Ok(read)
}

fn pair(word: &Word) -> Result<(&str, &str), String> {
    word.text().split_once('=').ok_or_else(|| format!("{} is no option: write NAME=VALUE", shown(word.text())))
}

/// The unread fields of a record.
struct Columns(std::vec::IntoIter<Field>);

impl Columns {
    fn next(&mut self, column: &str) -> Result<Field, String> {
        self.0.next().ok_or_else(|| format!("{column} is missing: a rule reads {FORM}"))
    }

    /// A field that must be a single word.
    fn one(&mut self, column: &str) -> Result<Word, String> {
        let mut field = self.next(column)?;
        match (field.pop(), field.is_empty()) {
            (Some(word), true) => Ok(word),
            _ => Err(format!("{column} takes no list: write a line for each")),
        }
    }
}

/// The record's type; `None` for `local`.
fn channel(word: &Word) -> Result<Option<Channel>, String> {
    match word.keyword() {
        "local" => Ok(None),
        "host" => Ok(Some(Channel::Any)),
        "hostssl" => Ok(Some(Channel::Tls)),
        "hostnossl" => Ok(Some(Channel::Plain)),
        "hostgssenc" => {
            Err("hostgssenc is not supported, and no connection here could match it: remove the line".into())
        }
        "hostnogssenc" => Err("hostnogssenc is not supported: write host, which means the same here".into()),
        include @ ("include" | "include_if_exists" | "include_dir") => {
            Err(format!("{include} is not supported: copy the lines of that file to this place"))
        }
        _ => Err(format!("unknown type {}: local, host, hostssl or hostnossl expected", shown(word.text()))),
    }
}

fn address(columns: &mut Columns) -> Result<Address, String> {
    let word = columns.one("ADDRESS")?;
    match word.keyword() {
        "all" => return Ok(Address::Any),
        own @ ("samehost" | "samenet") => {
            return Err(format!("{own} is not supported: write the addresses, such as 10.1.0.0/16"));
        }
        _ => {}
    }
    match word.text().split_once('/') {
        Some((address, bits)) => Address::with_bits(address, bits),
        None => {
            // A name must not be taken for an address whose mask is missing.
            let base = address::number(word.text())?;
            Address::with_mask(base, columns.one("the mask behind ADDRESS")?.text())
        }
    }
}

fn method(word: &Word) -> Result<RuleMethod, String> {
    let name = word.keyword();
    Ok(match name {
        "trust" => RuleMethod::Trust,
        "reject" => RuleMethod::Reject,
        "md5" => RuleMethod::Md5,
        "password" | "plain" => RuleMethod::Plain,
        "scram-sha-256" => RuleMethod::ScramSha256,
        "cert" => RuleMethod::Cert,
        "peer" => RuleMethod::Peer,
        "ldap" => RuleMethod::Ldap,
        "pam" => RuleMethod::Pam,
        "oauth" => RuleMethod::Oauth,
        "ident" => return Err("ident is not supported: write peer in a local rule, or use a password".into()),
        "any" | "hba" => return Err(format!("{name} works as auth_type only: use {METHODS}")),
        "gss" | "sspi" | "radius" | "bsd" | "krb5" => {
            return Err(format!("{name} is not supported: use {METHODS}"));
        }
        _ => return Err(format!("unknown method {}: {METHODS} expected", shown(word.text()))),
    })
}

/// Checks that a method can succeed for the connection types of its rule.
fn check_method(method: RuleMethod, reach: &Reach) -> Result<(), String> {
    match (method, reach) {
        (RuleMethod::Peer, Reach::Host { .. }) => {
            Err("peer works with Unix sockets only: write it in a local rule".into())
        }
        (RuleMethod::Cert, Reach::Local | Reach::Host { channel: Channel::Plain, .. }) => {
            Err("cert needs TLS: write it in a hostssl rule".into())
        }
        _ => Ok(()),
    }
}

/// The map that an option names.
fn option_map(option: Field, method: RuleMethod) -> Result<String, String> {
    let [word] = option.as_slice() else {
        return Err("options take no list: separate them by blanks, and quote a value that has a comma".into());
    };
    let text = word.text();
    match text.split_once('=') {
        Some(("map", "")) => Err("map= names no map: write map=NAME".into()),
        Some(("map", name)) if matches!(method, RuleMethod::Cert | RuleMethod::Peer) => Ok(name.to_owned()),
        Some(("map", _)) => Err("map= works with cert, peer and oauth only: remove it".into()),
        Some(("clientcert", _)) => {
            Err("the option clientcert is not supported: set client_tls_sslmode = verify-full, or use cert".into())
        }
        _ => Err(format!("the option {} is not supported: remove it", shown(text))),
    }
}

#[cfg(test)]
mod tests;
