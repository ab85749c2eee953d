//! The default values, from the table of settings. The blanks below only give the table fields to fill; a test checks
//! that each is filled.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use weir_auth::{IdentMaps, Method, RequireAuth};
use weir_base::{OnDirty, PoolMode, Span, StateKinds};

use crate::field::FieldMut;
use crate::keepalive::Keepalive;
use crate::model::{
    Alerts, Auth, Balance, Cluster, Config, Dns, Limits, Listen, ListenBy, Log, LogFormat, OnServerDown, Policy,
    PoolConfig, PoolShare, Process, SessionAttrs, SocketIo, Spread, Telemetry, Tls, UntrackedParameters, Web,
};
use crate::origin::{FileFormat, Locations};
use crate::pool_text::PoolText;
use crate::settings;
use crate::table::{Field, Raw, Section, Setting};
use crate::users::Users;

impl Default for Config {
    /// The defaults of the TOML format, without pools and users.
    fn default() -> Config {
        Config::of_format(FileFormat::Toml)
    }
}

impl Default for Limits {
    fn default() -> Limits {
        let mut limits = BLANK_LIMITS;
        for setting in Section::Limits.settings() {
            if let Field::Limits(field) = setting.field {
                setting.fill(field(&mut limits), FileFormat::Toml);
            }
        }
        limits
    }
}

impl Default for Policy {
    fn default() -> Policy {
        let mut policy = BLANK_POLICY;
        for setting in settings::all() {
            if let Field::Policy(field) = setting.field {
                setting.fill(field(&mut policy), FileFormat::Toml);
            }
        }
        policy
    }
}

impl Default for PoolConfig {
    /// A pool without a name and without servers, with the defaults of the TOML format.
    fn default() -> PoolConfig {
        PoolConfig {
            name: String::new(),
            targets: Vec::new(),
            balance: Balance::default(),
            session_attrs: SessionAttrs::default(),
            patroni: Arc::default(),
            database: String::new(),
            user: None,
            password: None,
            password_command: Arc::default(),
            token_source: None,
            policy: Policy::default(),
            connect_query: None,
            startup: Vec::new(),
            auth_user: None,
            auth_query: None,
            auth_database: None,
            limits: Limits::default(),
            share: PoolShare::default(),
        }
    }
}

impl Config {
    /// The defaults of a file format, without pools and users.
    pub(crate) fn of_format(format: FileFormat) -> Config {
        let mut config = blank_config();
        config.format = format;
        config.listen.skip_unusable = format == FileFormat::Ini;
        for setting in settings::all() {
            if let Some(slot) = setting.field_mut(&mut config) {
                setting.fill(slot, format);
            }
        }
        config
    }
}

impl PoolText {
    /// A pool with only a name; it has the policies and limits of `config`.
    pub(crate) fn new(name: &str, config: &Config) -> PoolText {
        let mut pool = PoolText::blank(name, config);
        for setting in settings::all().filter(|s| s.section == Section::Pool && !s.default.is_empty()) {
            if let Some(slot) = setting.pool_field_mut(&mut pool) {
                setting.fill(slot, config.format);
            }
        }
        pool
    }
}

impl Setting {
    /// Writes the default of a file format into a field; where there is none, the field is left as it is.
    pub(crate) fn fill(&self, slot: FieldMut<'_>, format: FileFormat) {
        let default = self.default_in(format);
        if default.is_empty() && self.default.is_empty() {
            return;
        }
        let written = match format {
            FileFormat::Toml => self.write(slot, &Raw::One(default.to_owned())),
            FileFormat::Ini => self.write_ini(slot, default),
        };
        written.expect("the table's defaults are within their ranges");
    }
}

fn blank_config() -> Config {
    Config {
        listen: blank_listen(),
        auth: Auth {
            method: Method::Trust,
            file: None,
            users: Arc::new(Users::default()),
            hba_file: None,
            hba: None,
            ident_file: None,
            ident: Arc::new(IdentMaps::default()),
            ldap_options: None,
            ldap: None,
            oauth_options: None,
            oauth: None,
            pam_service: String::new(),
            query_user: None,
            query: String::new(),
            query_database: None,
            query_cache: Span::ZERO,
            hide_unknown_users: true,
            scram_iterations: 4096,
            failure_delay: Span::ZERO,
        },
        admin_users: Vec::new(),
        stats_users: Vec::new(),
        workers: 0,
        spread: Spread::Busy,
        untracked_startup_parameters: UntrackedParameters::Refuse,
        io: SocketIo::Auto,
        lacks_files: None,
        max_clients: 0,
        stats_period: Span::ZERO,
        track_statements: 0,
        log: Log {
            file: None,
            format: LogFormat::Text,
            syslog: false,
            syslog_ident: String::new(),
            syslog_facility: String::new(),
            connections: false,
            disconnections: false,
            pooler_errors: false,
            stats: false,
            min_duration_statement: Span::ZERO,
            statement_sample_percent: 100,
            verbose: 0,
        },
        policy: BLANK_POLICY,
        limits: BLANK_LIMITS,
        pools: BTreeMap::new(),
        ignore_startup_parameters: Vec::new(),
        track_extra_parameters: Vec::new(),
        client_login_timeout: Span::ZERO,
        shutdown_timeout: Span::ZERO,
        shutdown_delay: Span::ZERO,
        drain_time: Span::ZERO,
        upgrade_timeout: Span::ZERO,
        suspend_timeout: Span::ZERO,
        fallback: None,
        autodb_idle_timeout: Span::ZERO,
        pool_idle_timeout: Span::ZERO,
        peer_id: 0,
        peers: BTreeMap::new(),
        users: BTreeMap::new(),
        servers: BTreeMap::new(),
        max_user_connections: 0,
        max_logins_per_host: 0,
        max_user_client_connections: 0,
        max_address_connections: 0,
        tls: Tls::default(),
        pending_tls: None,
        dns: Dns::default(),
        process: Process::default(),
        web: Web::default(),
        cluster: Cluster::default(),
        alerts: Alerts::default(),
        telemetry: Telemetry::default(),
        application_name_add_host: false,
        login_notify_message: String::new(),
        disable_pqexec: false,
        max_packet_size: i32::MAX as u32,
        server_fast_close: false,
        inert: BTreeMap::new(),
        source: PathBuf::new(),
        format: FileFormat::Toml,
        locations: Locations::default(),
        remarks: Vec::new(),
        password_files: Vec::new(),
        warnings: Vec::new(),
    }
}

impl Default for Alerts {
    // All values come from the table of settings.
    fn default() -> Alerts {
        Alerts {
            source: String::new(),
            alertmanager: None,
            slack: None,
            pagerduty_key: None,
            pagerduty_url: String::new(),
            webhook: None,
            states: Vec::new(),
            hold: Span::ZERO,
            repeat: Span::ZERO,
            clients_waiting: 0,
            wait_p95: Span::ZERO,
            errors_per_second: 0,
            clients_percent: 0,
        }
    }
}

fn blank_listen() -> Listen {
    Listen {
        addresses: Vec::new(),
        skip_unusable: false,
        port: 0,
        unix_socket_dir: None,
        unix_socket_mode: 0,
        unix_socket_group: None,
        backlog: 0,
        reuse_port: false,
        defer_accept: false,
        proxy_from: Vec::new(),
        keepalive: Keepalive { on: true, ..Keepalive::default() },
    }
}

const BLANK_POLICY: Policy = Policy {
    mode: PoolMode::Session,
    on_dirty: OnDirty::Keep,
    warn_on_dirty: false,
    reset_query: String::new(),
    reset_always: false,
    check_query: None,
    require_auth: RequireAuth::Any,
};

const BLANK_LIMITS: Limits = Limits {
    size: 0,
    min_size: 0,
    reserve_size: 0,
    reserve_timeout: Span::ZERO,
    max_pinned: 0,
    listen: ListenBy::Auto,
    pin_refuse: StateKinds::NONE,
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
    on_server_down: OnServerDown::Wait,
    old_primary_timeout: Span::ZERO,
    switch_timeout: Span::ZERO,
    first_server_timeout: Span::ZERO,
    server_check_delay: Span::ZERO,
    cancel_wait_timeout: Span::ZERO,
    server_round_robin: false,
    connects_per_second: 0,
    max_db_connections: 0,
    max_db_client_connections: 0,
    client_statements: 0,
    client_statement_memory: 0,
    pool_statement_memory: 0,
    statement_memory: 0,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool_text::PoolText;

    #[test]
    fn every_limit_has_the_default_that_the_documentation_names() {
        let expected = Limits {
            size: 20,
            min_size: 0,
            reserve_size: 0,
            reserve_timeout: Span::from_secs(5),
            max_pinned: 80,
            listen: ListenBy::Auto,
            pin_refuse: StateKinds::NONE,
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
            on_server_down: OnServerDown::Wait,
            old_primary_timeout: Span::from_secs(1),
            switch_timeout: Span::from_secs(30),
            first_server_timeout: Span::from_secs(5),
            server_check_delay: Span::from_secs(30),
            cancel_wait_timeout: Span::from_secs(10),
            server_round_robin: false,
            connects_per_second: 100,
            max_db_connections: 0,
            max_db_client_connections: 0,
            client_statements: 10_000,
            client_statement_memory: 0,
            pool_statement_memory: 0,
            statement_memory: 256 << 20,
        };
        assert_eq!(Limits::default(), expected);
        assert_eq!(Config::default().limits, expected);
    }

    #[test]
    fn the_process_has_its_defaults() {
        let config = Config::default();
        assert_eq!(config.listen.addresses, ["127.0.0.1".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!((config.listen.port, config.listen.unix_socket_mode, config.listen.backlog), (6432, 0o777, 4096));
        assert_eq!((config.workers, config.max_clients), (1, 10_000));
        assert_eq!((config.policy.mode, config.policy.on_dirty), (PoolMode::Auto, OnDirty::Reset));
        assert_eq!(config.auth.method, Method::ScramSha256);
        assert_eq!(config.track_extra_parameters, ["IntervalStyle"]);
        assert_eq!(config.stats_period, Span::from_secs(60));
        assert_eq!(config.client_login_timeout, Span::from_secs(60));
        assert!(config.log.connections && config.log.disconnections && config.log.pooler_errors && config.log.stats);
        assert_eq!(PoolText::new("app", &config).ports, [5432]);
    }
}
