//! What `weir check` says about settings that can be read: what was understood, what has no effect, what will not fit.

use std::fmt;

use weir_base::{Mode, Span};

use crate::model::{Config, Limits, Method, Pool};

/// Descriptors that are neither clients nor servers: standard streams, listeners, poll, wake-ups, cancels under way.
const OTHER_DESCRIPTORS: u64 = 64;

/// What the machine allows.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// How many files the process may open: the hard limit, since the soft one is raised to it at start.
    pub descriptors: u64,
    /// How many cores there are.
    pub cores: usize,
}

/// How much a finding matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// What was understood.
    Note,
    /// It works, but maybe not as meant.
    Warning,
    /// It will not work.
    Error,
}

/// One remark on the settings. Holds no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// The line of the settings file, where one can be named.
    pub line: Option<usize>,
    /// The remark, on one line.
    pub text: String,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// The most server connections that all pools together may open. A pool without a user counts once a listed user.
pub fn most_servers(config: &Config) -> u64 {
    config.pools.values().map(|pool| servers_of(config, pool)).sum()
}

/// Looks at what was read with the eyes of someone who has to run it.
pub fn review(config: &Config, facts: &Facts) -> Vec<Finding> {
    let mut review = Review { config, findings: Vec::new() };
    review.understood();
    review.process(facts);
    review.descriptors(facts);
    review.users();
    for pool in config.pools.values() {
        review.pool_login(pool);
        review.pool_limits(pool);
    }
    review.findings
}

struct Review<'a> {
    config: &'a Config,
    findings: Vec<Finding>,
}

impl Review<'_> {
    fn understood(&mut self) {
        let config = self.config;
        let listen = &config.listen;
        for address in &listen.addresses {
            let at = std::net::SocketAddr::new(*address, listen.port);
            self.note("listen.address", format!("listens on {at}"));
        }
        if let Some(folder) = &listen.unix_socket_dir {
            let socket = folder.join(format!(".s.PGSQL.{}", listen.port));
            self.note("listen.unix_socket_dir", format!("listens on {}", socket.display()));
        }
        let from = config.auth.file.as_ref().map(|file| format!(" from {}", file.display())).unwrap_or_default();
        let users = counted(config.auth.users.len() as u64, "user");
        self.note("auth.type", format!("{users}{from}, login by {}", config.auth.method));
        for pool in config.pools.values() {
            let user = pool.user.as_ref().map_or("each client's own user".to_owned(), |user| format!("user {user}"));
            let servers = counted(u64::from(pool.limits.size), "server");
            let each = if pool.user.is_some() { "at most" } else { "for each user at most" };
            let text = format!(
                "pool {}: database {} at {} as {user}, {} mode, {each} {servers}",
                pool.name, pool.database, pool.target, pool.mode
            );
            self.note(&format!("pools.{}", pool.name), text);
        }
    }

    fn process(&mut self, facts: &Facts) {
        let config = self.config;
        if config.pools.is_empty() {
            self.warn("pools", "there are no pools: only the console can be reached".into());
        }
        if usize::from(config.workers) > facts.cores {
            let cores = counted(facts.cores as u64, "core");
            self.warn(
                "general.workers",
                format!("{} workers share {cores}; more workers than cores cost time", config.workers),
            );
        }
        if config.listen.unix_socket_dir.is_none() && config.lines.of("listen.unix_socket_mode").is_some() {
            self.warn("listen.unix_socket_mode", "unix_socket_mode has no effect without unix_socket_dir".into());
        }
        let open = config.listen.addresses.iter().find(|address| !address.is_loopback());
        if let Some(address) = open {
            match config.auth.method {
                Method::Trust => {
                    let text = format!("type trust on {address}: whoever reaches it may be any listed user");
                    self.warn("auth.type", text);
                }
                Method::Plain => {
                    let text = format!("type plain on {address}: passwords cross the network as they are");
                    self.warn("auth.type", text);
                }
                Method::Md5 | Method::ScramSha256 => {}
            }
        }
    }

    fn descriptors(&mut self, facts: &Facts) {
        let config = self.config;
        let (servers, clients, limit) = (most_servers(config), u64::from(config.max_clients), facts.descriptors);
        let need = servers + clients + OTHER_DESCRIPTORS;
        if need <= limit {
            let text = format!(
                "{clients} clients, {servers} servers and {OTHER_DESCRIPTORS} others fit into {limit} open files"
            );
            return self.note("general.max_clients", text);
        }
        let raise = "raise the limit (ulimit -n, in systemd LimitNOFILE)";
        if servers + OTHER_DESCRIPTORS >= limit {
            let text = format!(
                "{servers} servers alone need more than the {limit} files that may be open; {raise}, or lower the \
                 pools' sizes"
            );
            return self.error("limits.size", text);
        }
        let left = limit - servers - OTHER_DESCRIPTORS;
        let text = format!(
            "{clients} clients and {servers} servers need {need} open files, and {limit} are allowed: at most {left} \
             clients will be served; {raise}"
        );
        // Who did not ask for a number gets what fits.
        if config.lines.of("general.max_clients").is_some() {
            self.warn("general.max_clients", text);
        } else {
            self.note("general.max_clients", text);
        }
    }

    fn users(&mut self) {
        let config = self.config;
        let users = &config.auth.users;
        if users.is_empty() {
            let text = "no users are listed, so nobody can log in; that holds for trust too";
            self.error("auth", text.to_owned());
        }
        for (name, line) in users.repeated() {
            let text =
                format!("user {} is listed again in line {line} of the users, and the last entry counts", plain(name));
            self.warn("auth.file", text);
        }
        if config.auth.method == Method::Trust {
            return;
        }
        self.users_who(|secret| secret.is_empty(), "without a secret can't log in");
        if config.auth.method == Method::ScramSha256 {
            self.users_who(
                is_md5,
                "with an md5 secret can't log in with type scram-sha-256; give a password or a SCRAM secret",
            );
        }
        for name in config.admin_users.iter().chain(&config.stats_users) {
            if users.get(name).is_none() {
                let text = format!("user {} may use the console, but is not listed, so can't log in", plain(name));
                self.warn("general.admin_users", text);
            }
        }
    }

    fn users_who(&mut self, condition: impl Fn(&str) -> bool, what: &str) {
        let names: Vec<&str> = self.config.auth.users.iter().filter(|(_, s)| condition(s)).map(|(n, _)| n).collect();
        if names.is_empty() {
            return;
        }
        let mut list = names.iter().take(5).map(|name| plain(name)).collect::<Vec<_>>().join(", ");
        if names.len() > 5 {
            list.push_str(&format!(" and {} more", names.len() - 5));
        }
        let subject = if names.len() == 1 { "user" } else { "users" };
        self.warn("auth.file", format!("{subject} {list} {what}"));
    }

    fn pool_login(&mut self, pool: &Pool) {
        let key = format!("pools.{}", pool.name);
        let title = format!("[pools.{}]", pool.name);
        match (&pool.user, &pool.password) {
            (None, Some(_)) => self.warn(&key, format!("the password of {title} has no effect without a user")),
            (Some(user), None) => {
                let text =
                    format!("{title} has no password, so the server must admit user {} without one", plain(user));
                self.warn(&key, text);
            }
            (None, None) if self.config.auth.method == Method::Trust => {
                let text = format!(
                    "{title} has neither user nor password, and type trust learns none: the server must admit \
                     each user without one"
                );
                self.warn(&key, text);
            }
            _ => {}
        }
    }

    fn pool_limits(&mut self, pool: &Pool) {
        let (limits, name) = (&pool.limits, &pool.name);
        if limits.min_size > limits.size {
            let text = format!(
                "min_size {} of [pools.{name}] is more than its size: at most {} are opened",
                limits.min_size, limits.size
            );
            self.warn(&format!("pools.{name}.min_size"), text);
        }
        for (setting, why) in without_effect(pool, limits) {
            let key = format!("pools.{name}.{setting}");
            // A setting for all pools may well suit others; only what was written for this one is worth a word.
            if self.config.lines.of(&key).is_some() {
                self.warn(&key, format!("{setting} of [pools.{name}] has no effect: {why}"));
            }
        }
    }

    fn note(&mut self, key: &str, text: String) {
        self.find(Severity::Note, key, text);
    }

    fn warn(&mut self, key: &str, text: String) {
        self.find(Severity::Warning, key, text);
    }

    fn error(&mut self, key: &str, text: String) {
        self.find(Severity::Error, key, text);
    }

    /// Keeps a finding with the line of the setting `key`, or else of what holds it.
    fn find(&mut self, severity: Severity, key: &str, text: String) {
        let lines = &self.config.lines;
        let outer = key.rsplit_once('.').and_then(|(outer, _)| lines.of(outer));
        self.findings.push(Finding { severity, line: lines.of(key).or(outer), text });
    }
}

fn servers_of(config: &Config, pool: &Pool) -> u64 {
    let users = if pool.user.is_some() { 1 } else { config.auth.users.len().max(1) as u64 };
    users * (u64::from(pool.limits.size) + u64::from(pool.limits.reserve_size))
}

/// Settings that do nothing beside the others of their pool, with the reason.
fn without_effect(pool: &Pool, limits: &Limits) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let beyond = |time: Span, limit: Span| !limit.is_zero() && time >= limit;
    if limits.reserve_size == 0 {
        found.push(("reserve_timeout", "reserve_size is 0"));
    } else if beyond(limits.reserve_timeout, limits.query_wait_timeout) {
        found.push(("reserve_timeout", "query_wait_timeout is over before it"));
    }
    if beyond(limits.query_wait_notify, limits.query_wait_timeout) {
        found.push(("query_wait_notify", "query_wait_timeout is over before it"));
    }
    if pool.mode == Mode::Session {
        found.push(("max_prepared_statements", "in session mode a client's statements are its server's"));
    }
    if pool.mode == Mode::Statement {
        found.push(("idle_transaction_timeout", "in statement mode there are no transactions of several statements"));
        found.push(("transaction_timeout", "in statement mode there are no transactions of several statements"));
    }
    found
}

fn is_md5(secret: &str) -> bool {
    secret.len() == 35 && secret.starts_with("md5") && secret[3..].bytes().all(|b| b.is_ascii_hexdigit())
}

fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn plain(name: &str) -> String {
    name.escape_debug().to_string()
}
