//! `weir check --connect`: does each pool's server answer, as whom, and has it room for the pools?
//!
//! Logs in once a pool as Weir would, asks three things, and leaves.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use weir_admin::Answered;
use weir_base::Target;
use weir_config::{Config, Finding, Pool, Severity, most_servers};
use weir_pglocal::client::{Connection, Error, Params};

/// What the servers said.
pub(crate) struct Report {
    /// A header, and a row a pool.
    pub(crate) table: Vec<Vec<String>>,
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
}

/// What one server said of itself.
struct Server {
    version: String,
    max_connections: u64,
    reserved: u64,
    /// Open now, this one included.
    connections: u64,
}

impl Server {
    /// Connections for others than the superuser.
    fn room(&self) -> u64 {
        self.max_connections.saturating_sub(self.reserved)
    }
}

/// As whom a pool's server is asked.
enum Login {
    As {
        user: String,
        password: Option<String>,
    },
    /// Only a client's own login could tell.
    Unknown,
}

/// Asks the server of each pool.
pub(crate) fn probe(config: &Config) -> Report {
    let header = ["pool", "login", "answer", "PostgreSQL", "servers", "room"];
    let mut report = Report { table: vec![header.map(str::to_owned).to_vec()], findings: Vec::new() };
    let mut rooms = BTreeMap::new();
    for pool in config.pools.values() {
        let row = match login(config, pool) {
            Login::Unknown => {
                let text = format!(
                    "pool {} could not be tried: it logs in with each client's own password, and none is known",
                    pool.name
                );
                report.find(config, pool, Severity::Warning, text);
                row(pool, "(each client's)", "not tried", "", "", "")
            }
            Login::As { user, password } => match ask(pool, &user, password.as_deref()) {
                Ok(server) => {
                    let wanted = servers_at(config, pool.target());
                    rooms.insert(pool.target().to_string(), (pool, wanted, server.room()));
                    row(pool, &user, "ok", &server.version, &wanted.to_string(), &server.room().to_string())
                }
                Err(error) => {
                    let text = format!("pool {}: {} as {user}: {error}", pool.name, pool.target());
                    report.find(config, pool, Severity::Error, text);
                    row(pool, &user, "no", "", "", "")
                }
            },
        };
        report.table.push(row);
    }
    for (target, (pool, wanted, room)) in rooms {
        if wanted > room {
            let text = format!(
                "the pools may open {wanted} connections to {target}, which takes {room} (max_connections less those \
                 kept for the superuser): lower the pools' sizes or raise max_connections"
            );
            report.find(config, pool, Severity::Warning, text);
        }
    }
    report
}

impl Report {
    fn find(&mut self, config: &Config, pool: &Pool, severity: Severity, text: String) {
        let (file, line) = config.lines.place(&format!("pools.{}", pool.name), &config.source);
        self.findings.push(Finding { severity, file, line, text });
    }
}

fn row(pool: &Pool, user: &str, answer: &str, version: &str, servers: &str, room: &str) -> Vec<String> {
    [&pool.name, user, answer, version, servers, room].map(str::to_owned).to_vec()
}

/// The pool's own user, or the first listed one whose password is known.
fn login(config: &Config, pool: &Pool) -> Login {
    if let Some(user) = &pool.user {
        return Login::As { user: user.clone(), password: pool.password.as_deref().map(str::to_owned) };
    }
    let hashed =
        |secret: &str| secret.starts_with("SCRAM-SHA-256$") || (secret.len() == 35 && secret.starts_with("md5"));
    let mut users = config.auth.users.iter();
    match users.find(|(_, secret)| !hashed(secret)) {
        Some((user, secret)) => {
            let password = (!secret.is_empty()).then(|| secret.to_owned());
            Login::As { user: user.to_owned(), password }
        }
        None => Login::Unknown,
    }
}

fn ask(pool: &Pool, user: &str, password: Option<&str>) -> Result<Server, Error> {
    let mut params = Params::new(&pool.target().host.to_string(), pool.target().port, user, &pool.database);
    params.password = password.map(str::to_owned);
    params = params.timeout(Duration::from_secs(10)).option("application_name", "weir check");
    let mut connection = Connection::connect(&params)?;
    connection.query("select 1")?;
    let mut setting = |name: &str| connection.value(&format!("show {name}")).map(Option::unwrap_or_default);
    let version = setting("server_version")?;
    let number = |text: String| text.parse::<u64>().unwrap_or(0);
    let max_connections = number(setting("max_connections")?);
    let reserved = number(setting("superuser_reserved_connections")?);
    let open = "select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend'";
    let connections = number(connection.value(open)?.unwrap_or_default());
    connection.close()?;
    Ok(Server { version, max_connections, reserved, connections })
}

/// Tries one pool: what its server says, or why it says nothing.
pub(crate) fn try_pool(config: &Config, pool: &Pool) -> Result<Answered, String> {
    let Login::As { user, password } = login(config, pool) else {
        return Err("it logs in with each client's own password, and none is known: give a user and a password".into());
    };
    let begun = Instant::now();
    let server =
        ask(pool, &user, password.as_deref()).map_err(|error| format!("{} as {user}: {error}", pool.target()))?;
    Ok(Answered {
        version: server.version,
        milliseconds: begun.elapsed().as_secs_f64() * 1e3,
        max_connections: server.max_connections,
        superuser_reserved_connections: server.reserved,
        connections: server.connections,
    })
}

/// The most connections that the pools may open to one server.
fn servers_at(config: &Config, target: &Target) -> u64 {
    let mut there = config.clone();
    there.pools.retain(|_, pool| pool.target() == target);
    most_servers(&there)
}
