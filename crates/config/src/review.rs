//! The findings of `weir check` about valid settings: what was understood, what has no effect, what does not fit.

mod access;
mod names;
mod pools;
mod understood;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use weir_base::plural;

use crate::error::ConfigError;
use crate::model::{Config, PoolConfig};
use crate::names::SYSLOG_FACILITIES;
use crate::origin::FileFormat;
use crate::settings;
use crate::suggest::nearest;
use crate::table::{Section, Setting};

/// Descriptors that are neither clients nor servers: standard streams, listeners, epoll, wakers, cancels under way.
const OTHER_DESCRIPTORS: u64 = 64;
/// Connections beyond `max_clients`: clients that are refused, cancels, operators who may log in anyway.
const BEYOND: u64 = 140;
/// Sockets that wait for the other end to close, after their last bytes.
pub const CLOSING_DESCRIPTORS: u64 = 100;

/// The longest path of a Unix socket, in bytes: sockaddr_un has 108 with the final zero (unix(7)).
const MAX_SOCKET_PATH: usize = 107;

/// How many of `limit` descriptors are reserved for others than `max_clients` clients and the pools' servers.
pub fn reserved_descriptors(limit: u64) -> u64 {
    OTHER_DESCRIPTORS + (BEYOND + CLOSING_DESCRIPTORS).min(limit / 8)
}

/// The limits of the machine.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// The limit of open files: the hard limit, since the soft one is raised to it at start.
    pub descriptors: u64,
    /// The number of cores.
    pub cores: usize,
}

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Something that was understood.
    Note,
    /// The configuration works, but maybe not as intended.
    Warning,
    /// The configuration will not work.
    Error,
}

/// One finding. Holds no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigFinding {
    /// How severe the finding is.
    pub severity: Severity,
    /// The file of the finding; not the main one if that includes it.
    pub file: PathBuf,
    /// The line in the file, if known.
    pub line: Option<usize>,
    /// The dotted name of the setting or section that the finding is about, as in `pools.app.size`; `None`: the file as
    /// a whole.
    pub key: Option<String>,
    /// What is wrong, or was understood, on one line.
    pub text: String,
    /// What to do about the finding.
    pub help: Option<String>,
}

impl ConfigFinding {
    /// A finding about a whole file.
    pub fn of_file(severity: Severity, file: &Path, text: String) -> ConfigFinding {
        ConfigFinding { severity, file: file.to_owned(), line: None, key: None, text, help: None }
    }

    /// A finding about a setting or a section.
    pub fn of_key(severity: Severity, config: &Config, key: &str, text: String) -> ConfigFinding {
        let (file, line) = config.locations.file_and_line(key, &config.source);
        ConfigFinding { severity, file, line, key: Some(key.to_owned()), text, help: None }
    }

    /// What is wrong, and what to do about it, on one line.
    pub fn message(&self) -> String {
        self.help.as_ref().map_or_else(|| self.text.clone(), |help| format!("{}; {help}", self.text))
    }

    /// Adds what to do about it.
    fn help(&mut self, help: impl Into<String>) {
        self.help = Some(help.into());
    }
}

/// Writes the finding in the format of an error, with file and line; without the severity.
impl fmt::Display for ConfigFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.message())
    }
}

impl From<&ConfigError> for ConfigFinding {
    fn from(mistake: &ConfigError) -> ConfigFinding {
        let ConfigError { file, line, message, hint, key } = mistake.clone();
        ConfigFinding { severity: Severity::Error, file, line, key, text: message, help: hint }
    }
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

/// The limit of server connections of all pools together. A pool without a user counts once for each listed user, and
/// a pool without a limit not at all. Pools of one user together count at most that user's limit.
pub fn max_servers(config: &Config) -> u64 {
    let mut by_user: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for pool in config.pools.values() {
        *by_user.entry(pool.user.as_deref()).or_default() += servers_of(config, pool);
    }
    let of_user = |(user, servers): (Option<&str>, u64)| match user.map_or(0, |user| config.user_connections(user)) {
        0 => servers,
        most => servers.min(most.into()),
    };
    by_user.into_iter().map(of_user).sum()
}

/// Checks a configuration against the machine and for settings without effect; `weir check` prints the findings.
pub fn review(config: &Config, facts: &HostLimits) -> Vec<ConfigFinding> {
    if config.workers == Config::AUTO_WORKERS {
        let mut config = config.clone();
        config.set_workers(facts.cores);
        return review(&config, facts);
    }
    let mut review = Review { config, findings: Vec::new() };
    review.understood();
    review.process(facts);
    review.descriptors(facts);
    review.entry();
    review.encryption();
    for pool in config.pools.values().chain(&config.fallback) {
        review.pool_login(pool);
        review.pool_limits(pool);
    }
    review.long_names();
    review.without_effect();
    review.findings
}

struct Review<'a> {
    config: &'a Config,
    findings: Vec<ConfigFinding>,
}

impl Review<'_> {
    /// Whether the reader of the file has something to say about a setting.
    fn has_remark(&self, key: &str) -> bool {
        self.config.remarks.iter().any(|remark| remark.key == key)
    }

    fn process(&mut self, facts: &HostLimits) {
        let config = self.config;
        // That nothing is set is said once.
        if config.pools.is_empty() && config.fallback.is_none() && !self.has_remark("web.address") {
            let what = self.term("pools", "databases");
            let help = self.term("write [pools.NAME], and its host below it", "write NAME = host=… in [databases]");
            self.warn("pools", format!("there are no {what}: only the console can be reached")).help(help);
        }
        if usize::from(config.workers) > facts.cores {
            let cores = plural(facts.cores as u64, "core", "cores");
            let text = format!("{} workers share {cores}", config.workers);
            self.warn("general.workers", text).help("more workers than cores cost time");
        }
        if config.listen.unix_socket_dir.is_none() && config.locations.line("listen.unix_socket_mode").is_some() {
            let text = "unix_socket_mode has no effect without unix_socket_dir".into();
            self.warn("listen.unix_socket_mode", text).help("set unix_socket_dir, or remove it");
        }
        self.socket_path();
        self.facility();
    }

    /// The log goes to the default facility if its own is none.
    fn facility(&mut self) {
        let facility = &self.config.log.syslog_facility;
        let known = SYSLOG_FACILITIES.map(|(name, _)| name);
        if known.contains(&facility.as_str()) {
            return;
        }
        let near = nearest(facility, known).map(|near| format!("did you mean \"{near}\"?"));
        let all = known.join(", ");
        let text = format!("syslog_facility \"{}\" is none, so daemon is used: there are {all}", plain(facility));
        self.fail("log.syslog_facility", text).help(near.unwrap_or_else(|| "write one of them".to_owned()));
    }

    /// A Unix socket's address has room for this many bytes, and PostgreSQL's clients have to find it.
    fn socket_path(&mut self) {
        let Some(folder) = &self.config.listen.unix_socket_dir else { return };
        let path = folder.join(format!(".s.PGSQL.{}", self.config.listen.port));
        let length = path.as_os_str().len();
        if length > MAX_SOCKET_PATH {
            let text = format!("the path of the Unix socket has {length} bytes, and Linux takes {MAX_SOCKET_PATH}");
            self.fail("listen.unix_socket_dir", text).help("set unix_socket_dir to a folder with a shorter path");
        }
    }

    fn descriptors(&mut self, facts: &HostLimits) {
        let config = self.config;
        let (servers, clients, limit) = (max_servers(config), u64::from(config.max_clients), facts.descriptors);
        let others = reserved_descriptors(limit);
        let need = servers + clients + others;
        let of_servers = plural(servers, "server", "servers");
        let of_clients = plural(clients, "client", "clients");
        if need <= limit {
            let text = format!("{of_clients}, {of_servers} and {others} others fit into {limit} open files");
            self.note("general.max_clients", text);
            return;
        }
        let raise = "raise the limit (ulimit -n, in systemd LimitNOFILE)";
        if servers + others >= limit {
            let text = format!("{of_servers} alone need more than the {limit} files that may be open");
            self.fail("limits.size", text).help(format!("{raise}, or lower the pools' sizes"));
            return;
        }
        let left = limit - servers - others;
        let text = format!(
            "{of_clients} and {of_servers} need {need} open files, and {limit} are allowed: at most {} \
             will be served",
            plural(left, "client", "clients")
        );
        // Without a configured number, what fits is used.
        let asked = config.locations.line("general.max_clients").is_some();
        let severity = if asked { Severity::Warning } else { Severity::Note };
        self.find(severity, "general.max_clients", text).help(raise);
    }

    /// The readers' warnings, and the settings without effect.
    fn without_effect(&mut self) {
        for remark in &self.config.remarks {
            self.warn(&remark.key, remark.text.clone());
        }
        let config = self.config;
        let is_used = |name: &str| {
            config.pools.values().chain(&config.fallback).any(|pool| pool.share.server.as_deref() == Some(name))
        };
        for name in config.servers.keys().filter(|name| !is_used(name)) {
            let server = plain(name);
            let text = format!("[servers.{server}] has no effect: no pool names it as its server");
            let help = format!("write server = \"{server}\" in the pools that share its connections, or remove it");
            self.warn(&format!("servers.{name}.max_connections"), text).help(help);
        }
        for setting in settings::all().filter(|setting| setting.is_inert()) {
            let Some(location) = self.config.locations.get(&setting.key()) else { continue };
            let text = format!("{} has no effect: {}", setting.name, setting.doc);
            self.find(Severity::Note, &setting.key(), format!("line {}: {text}", location.line));
        }
    }

    /// A word in the file format that was read.
    fn term<'w>(&self, toml: &'w str, ini: &'w str) -> &'w str {
        if self.config.format == FileFormat::Ini { ini } else { toml }
    }

    /// The name of a setting in the file format that was read.
    fn name(&self, section: Section, name: &'static str) -> &'static str {
        section.find(name).filter(|_| self.config.format == FileFormat::Ini).map_or(name, Setting::shown_name)
    }

    /// The name of a pool's setting in the file format that was read.
    fn pool_setting(&self, name: &'static str) -> &'static str {
        let theirs = Section::Pool.find(name).and_then(|setting| setting.ini_database.first().copied());
        theirs.filter(|_| self.config.format == FileFormat::Ini).unwrap_or(name)
    }

    /// A pool's name in messages.
    fn title(&self, pool: &PoolConfig) -> String {
        match self.config.format {
            FileFormat::Toml => format!("[pools.{}]", pool.name),
            FileFormat::Ini => format!("database {}", pool.name),
        }
    }

    /// Weir would serve no client, which is an error; in an ini a warning, since PgBouncer starts with it.
    fn fail(&mut self, key: &str, text: String) -> &mut ConfigFinding {
        let severity = if self.config.format == FileFormat::Ini { Severity::Warning } else { Severity::Error };
        self.find(severity, key, text)
    }

    fn note(&mut self, key: &str, text: String) -> &mut ConfigFinding {
        self.find(Severity::Note, key, text)
    }

    fn warn(&mut self, key: &str, text: String) -> &mut ConfigFinding {
        self.find(Severity::Warning, key, text)
    }

    /// Adds a finding with the line of the setting `key`, or else of its section.
    fn find(&mut self, severity: Severity, key: &str, text: String) -> &mut ConfigFinding {
        let (file, line) = self.config.locations.file_and_line(key, &self.config.source);
        let last = self.findings.len();
        self.findings.push(ConfigFinding { severity, file, line, key: Some(key.to_owned()), text, help: None });
        &mut self.findings[last]
    }
}

fn servers_of(config: &Config, pool: &PoolConfig) -> u64 {
    let limits = &pool.limits;
    let users = if pool.user.is_some() { 1 } else { config.auth.users.len().max(1) as u64 };
    let size = limits.max_servers().unwrap_or(0);
    match u64::from(limits.max_db_connections) {
        0 => users * size,
        most if size == 0 => most,
        most => most.min(users * size),
    }
}

fn plain(name: &str) -> String {
    name.escape_debug().to_string()
}
