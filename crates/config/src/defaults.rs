//! The values that nobody wrote, from the table. The blanks below only give the table fields to fill; a test sees to it
//! that each is filled.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_base::{Mode, OnDirty, Span};

use crate::model::{Auth, Config, Limits, Lines, Listen, Log, Method};
use crate::settings;
use crate::table::{Place, PoolText, Raw, Section, Setting};
use crate::users::Users;

impl Default for Config {
    /// The defaults of the TOML face, without pools and users.
    fn default() -> Config {
        let mut config = blank_config();
        for setting in settings::all().filter(|s| !s.default.is_empty()) {
            if let Some(slot) = setting.slot(&mut config) {
                fill(setting, slot);
            }
        }
        config
    }
}

impl Default for Limits {
    fn default() -> Limits {
        let mut limits = BLANK_LIMITS;
        for setting in Section::Limits.settings() {
            if let Place::Limits(field) = setting.place {
                fill(setting, field(&mut limits));
            }
        }
        limits
    }
}

impl PoolText {
    /// A pool of which only the name is known yet; it has the policies and limits of `config`.
    pub(crate) fn new(name: &str, config: &Config) -> PoolText {
        let mut pool = PoolText {
            name: name.to_owned(),
            host: None,
            port: 0,
            database: None,
            user: None,
            password: None,
            password_file: None,
            password_env: None,
            mode: config.mode,
            on_dirty: config.on_dirty,
            limits: config.limits.clone(),
        };
        for setting in settings::all().filter(|s| s.section == Section::Pool && !s.default.is_empty()) {
            if let Some(slot) = setting.pool_slot(&mut pool) {
                fill(setting, slot);
            }
        }
        pool
    }
}

fn fill(setting: &Setting, slot: crate::table::Slot<'_>) {
    let default = Raw::One(setting.default.to_owned());
    setting.write(slot, &default).expect("the table's defaults are within their ranges");
}

fn blank_config() -> Config {
    Config {
        listen: Listen { addresses: Vec::new(), port: 0, unix_socket_dir: None, unix_socket_mode: 0, backlog: 0 },
        auth: Auth { method: Method::Trust, file: None, users: Arc::new(Users::default()) },
        admin_users: Vec::new(),
        stats_users: Vec::new(),
        workers: 0,
        max_clients: 0,
        stats_period: Span::ZERO,
        log: Log { connections: false, disconnections: false, pooler_errors: false, stats: false, verbose: 0 },
        mode: Mode::Session,
        on_dirty: OnDirty::Keep,
        limits: BLANK_LIMITS,
        pools: BTreeMap::new(),
        ignore_startup_parameters: Vec::new(),
        track_extra_parameters: Vec::new(),
        client_login_timeout: Span::ZERO,
        shutdown_timeout: Span::ZERO,
        source: PathBuf::new(),
        lines: Lines::default(),
    }
}

const BLANK_LIMITS: Limits = Limits {
    size: 0,
    min_size: 0,
    reserve_size: 0,
    reserve_timeout: Span::ZERO,
    max_prepared_statements: 0,
    query_wait_timeout: Span::ZERO,
    query_wait_notify: Span::ZERO,
    query_timeout: Span::ZERO,
    idle_transaction_timeout: Span::ZERO,
    transaction_timeout: Span::ZERO,
    client_idle_timeout: Span::ZERO,
    server_lifetime: Span::ZERO,
    server_idle_timeout: Span::ZERO,
    server_connect_timeout: Span::ZERO,
    server_login_retry: Span::ZERO,
    server_check_delay: Span::ZERO,
    cancel_wait_timeout: Span::ZERO,
    server_round_robin: false,
    connects_per_second: 0,
    client_statements: 0,
    statement_memory: 0,
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_limit_has_the_default_that_the_documentation_names() {
        let expected = Limits {
            size: 20,
            min_size: 0,
            reserve_size: 0,
            reserve_timeout: Span::from_secs(5),
            max_prepared_statements: 200,
            query_wait_timeout: Span::from_secs(120),
            query_wait_notify: Span::from_secs(5),
            query_timeout: Span::ZERO,
            idle_transaction_timeout: Span::ZERO,
            transaction_timeout: Span::ZERO,
            client_idle_timeout: Span::ZERO,
            server_lifetime: Span::from_secs(3_600),
            server_idle_timeout: Span::from_secs(600),
            server_connect_timeout: Span::from_secs(15),
            server_login_retry: Span::from_secs(15),
            server_check_delay: Span::from_secs(30),
            cancel_wait_timeout: Span::from_secs(10),
            server_round_robin: false,
            connects_per_second: 100,
            client_statements: 10_000,
            statement_memory: 256 << 20,
        };
        assert_eq!(Limits::default(), expected);
        assert_eq!(Config::default().limits, expected);
    }

    #[test]
    fn the_process_has_its_defaults() {
        let config = Config::default();
        assert_eq!(config.listen.addresses, ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!((config.listen.port, config.listen.unix_socket_mode, config.listen.backlog), (6432, 0o777, 128));
        assert_eq!((config.workers, config.max_clients), (1, 10_000));
        assert_eq!((config.mode, config.on_dirty), (Mode::Transaction, OnDirty::Reset));
        assert_eq!(config.auth.method, Method::ScramSha256);
        assert_eq!(config.track_extra_parameters, ["IntervalStyle"]);
        assert_eq!(config.stats_period, Span::from_secs(60));
        assert_eq!(config.client_login_timeout, Span::from_secs(60));
        assert!(config.log.connections && config.log.disconnections && config.log.pooler_errors && config.log.stats);
        assert_eq!(PoolText::new("app", &config).port, 5432);
    }
}
