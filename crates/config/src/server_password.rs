//! Where the password of a pool's logins at its servers comes from: one rule for `weir check` and the tests of pools.
//!
//! A worker logs in by the same order: the pool's password, what its program prints or its service makes, the listed
//! secret of its user, what clients' logins provided.

use weir_auth::{Method, Secret};

use crate::model::{Config, PoolConfig};
use crate::password_source::PasswordSource;

/// The source of the password for a pool's logins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ServerPassword<'a> {
    /// The configuration has the password.
    Known(&'a str),
    /// A program prints it, or a service makes it.
    Made(PasswordSource),
    /// The configuration has the password's md5 hash, which suffices for a server that requests md5.
    Hash,
    /// Clients that log in to Weir as the user provide it: the password, the keys of a SCRAM login, or the result of an
    /// auth_query.
    Clients,
    /// There is no password: the server has to admit the user without one.
    None,
}

impl Config {
    /// The source of the password for the logins of a pool.
    pub fn server_password<'a>(&'a self, pool: &'a PoolConfig) -> ServerPassword<'a> {
        let Some(user) = &pool.user else { return ServerPassword::Clients };
        if let Some(password) = &pool.password {
            return ServerPassword::Known(password);
        }
        if let Some(source) = pool.password_source() {
            return ServerPassword::Made(source);
        }
        let listed = self.auth.users.get(user).filter(|secret| !secret.is_empty());
        match listed.map(|secret| (secret, Secret::parse(secret))) {
            Some((password, Ok(Secret::Plain(_)))) => ServerPassword::Known(password),
            Some((_, Ok(Secret::Md5(_)))) => ServerPassword::Hash,
            Some((_, Ok(Secret::Scram(_)))) if self.clients_prove_passwords() => ServerPassword::Clients,
            None if self.may_log_in_unlisted(pool) => ServerPassword::Clients,
            _ => ServerPassword::None,
        }
    }

    /// Whether a client's login provides its password, or keys that are as good at the server.
    fn clients_prove_passwords(&self) -> bool {
        !matches!(self.auth.method, Method::Trust | Method::Any | Method::Cert | Method::Oauth)
    }

    /// Whether users who are not listed may log in to a pool with a password.
    fn may_log_in_unlisted(&self, pool: &PoolConfig) -> bool {
        let elsewhere = matches!(self.auth.method, Method::Ldap | Method::Pam | Method::Hba);
        elsewhere || self.clients_prove_passwords() && self.auth_lookup(&pool.name).is_some()
    }
}
