//! A pool as written, before passwords are read, hosts parsed and limits resolved.
//!
//! Holds secrets, hence no `Debug`.

use crate::model::{Balance, Config, Limits, Policy, PoolConfig, SessionAttrs};
use crate::password_source::PasswordCommand;
use crate::patroni::Patroni;

/// A pool as written.
#[derive(Clone)]
pub(crate) struct PoolText {
    pub(crate) name: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) ports: Vec<u16>,
    pub(crate) balance: Balance,
    pub(crate) session_attrs: SessionAttrs,
    pub(crate) patroni: Patroni,
    pub(crate) database: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) password_file: Option<String>,
    pub(crate) password_env: Option<String>,
    pub(crate) password_command: PasswordCommand,
    pub(crate) password_source: Vec<String>,
    pub(crate) policy: Policy,
    pub(crate) connect_query: Option<String>,
    pub(crate) client_encoding: Option<String>,
    pub(crate) datestyle: Option<String>,
    pub(crate) timezone: Option<String>,
    pub(crate) application_name: Option<String>,
    pub(crate) auth_user: Option<String>,
    pub(crate) auth_query: Option<String>,
    pub(crate) auth_database: Option<String>,
    pub(crate) limits: Limits,
    pub(crate) server: Option<String>,
    pub(crate) guaranteed_connections: u32,
    pub(crate) weight: u32,
}

impl PoolText {
    /// A pool without keys of its own; `defaults` fills in the table's values.
    pub(crate) fn blank(name: &str, config: &Config) -> PoolText {
        PoolText {
            name: name.to_owned(),
            hosts: Vec::new(),
            ports: Vec::new(),
            balance: Balance::default(),
            session_attrs: SessionAttrs::default(),
            patroni: Patroni::default(),
            database: None,
            user: None,
            password: None,
            password_file: None,
            password_env: None,
            password_command: PasswordCommand::default(),
            password_source: Vec::new(),
            policy: config.policy.clone(),
            connect_query: None,
            client_encoding: None,
            datestyle: None,
            timezone: None,
            application_name: None,
            auth_user: None,
            auth_query: None,
            auth_database: None,
            limits: config.limits.clone(),
            server: None,
            guaranteed_connections: 0,
            weight: 1,
        }
    }

    /// The written form of a resolved pool; the reverse of `load`.
    pub(crate) fn of(pool: &PoolConfig, config: &Config) -> PoolText {
        let mut ports: Vec<u16> = pool.targets.iter().map(|target| target.port).collect();
        if ports.iter().all(|port| Some(port) == ports.first()) {
            ports.truncate(1);
        }
        let startup = |name: &str| pool.startup.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        PoolText {
            hosts: pool.targets.iter().map(|target| target.host.to_string()).collect(),
            ports,
            balance: pool.balance,
            session_attrs: pool.session_attrs,
            patroni: Patroni::clone(&pool.patroni),
            database: Some(pool.database.clone()).filter(|name| !name.is_empty() && *name != pool.name),
            user: pool.user.clone(),
            password: pool.password.as_deref().map(str::to_owned),
            password_command: PasswordCommand::clone(&pool.password_command),
            password_source: pool.token_source.as_ref().map(|source| source.words.clone()).unwrap_or_default(),
            policy: pool.policy.clone(),
            connect_query: pool.connect_query.clone(),
            client_encoding: startup("client_encoding"),
            datestyle: startup("datestyle"),
            timezone: startup("timezone"),
            application_name: startup("application_name"),
            auth_user: pool.auth_user.clone(),
            auth_query: pool.auth_query.clone(),
            auth_database: pool.auth_database.clone(),
            limits: pool.limits.clone(),
            server: pool.share.server.as_deref().map(str::to_owned),
            guaranteed_connections: pool.share.guaranteed,
            weight: pool.share.weight,
            ..PoolText::blank(&pool.name, config)
        }
    }

    /// The startup parameters of our logins, by the names that PgBouncer sends.
    pub(crate) fn startup(&self) -> Vec<(String, String)> {
        let named = [
            ("client_encoding", &self.client_encoding),
            ("datestyle", &self.datestyle),
            ("timezone", &self.timezone),
            ("application_name", &self.application_name),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect()
    }
}
