//! `weir check --connect`: whether each pool's server answers, the user of the login, and whether the server has room
//! for the pools.
//!
//! Each server is tested once (`pool_test`); this file computes the totals.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_admin::{PoolTestResult, ProbeError};
use weir_config::{Config, ConfigFinding, PoolConfig, ServerPassword, Severity, max_servers};

use crate::pool_test::{Login, TestError, ask, login};

/// What the servers reported.
pub struct ProbeResult {
    /// A header, and one row for each pool.
    pub table: Vec<Vec<String>>,
    /// The errors and warnings.
    pub findings: Vec<ConfigFinding>,
}

/// Tests the server of each pool.
pub fn probe(config: &Config) -> ProbeResult {
    let header = ["pool", "login", "answer", "PostgreSQL", "servers", "room"];
    let mut report = ProbeResult { table: vec![header.map(str::to_owned).to_vec()], findings: Vec::new() };
    let (mut rooms, wanted) = (BTreeMap::new(), servers_by_address(config));
    for pool in config.pools.values() {
        let row = match try_login(config, pool) {
            Some((user, Ok(server))) => {
                let wanted = wanted.get(&pool.target().to_string()).copied().unwrap_or(0);
                // For others than the superuser.
                let room = server.max_connections.saturating_sub(server.superuser_reserved_connections);
                rooms.insert(pool.target().to_string(), (pool, wanted, room));
                let answer = if server.encrypted { "ok, encrypted" } else { "ok" };
                for note in &server.notes {
                    report.find(config, pool, Severity::Warning, format!("pool {}: {note}", pool.name));
                }
                row(pool, &user, answer, &server.version, &wanted.to_string(), &room.to_string())
            }
            Some((user, Err((severity, text)))) => {
                report.find(config, pool, severity, text);
                row(pool, &user, "no", "", "", "")
            }
            None => {
                let text = format!(
                    "pool {} could not be tried: it logs in with each client's own password, and none is known but \
                     for users of the console",
                    pool.name
                );
                report.find(config, pool, Severity::Warning, text);
                row(pool, "(each client's)", "not tried", "", "", "")
            }
        };
        report.table.push(row);
    }
    for (target, (pool, wanted, room)) in rooms {
        if wanted > room {
            let text = format!(
                "the pools may open {} to {target}, which takes {room} (max_connections less those \
                 kept for the superuser): lower the pools' sizes or raise max_connections",
                weir_base::plural(wanted, "connection", "connections")
            );
            report.find(config, pool, Severity::Warning, text);
        }
    }
    report
}

/// The user of a test, and its result.
type Tried = (String, Result<PoolTestResult, (Severity, String)>);

/// Tests the server of a pool; none if no login is known. That the server does not know a listed user is no error.
fn try_login(config: &Config, pool: &PoolConfig) -> Option<Tried> {
    let as_whom = match login(config, pool) {
        Login::As(as_whom) => as_whom,
        Login::Unknown => return None,
        Login::Failed(why) => {
            let user = pool.user.clone().unwrap_or_default();
            return Some((
                user,
                Err((Severity::Error, format!("pool {}: {}", pool.name, ProbeError::NoPassword(why)))),
            ));
        }
    };
    let tried = ask(config, pool, &as_whom).map_err(|error| judged(config, pool, &error));
    Some((as_whom.user, tried))
}

/// How much the error of a test matters, and what it says. A pool may log in where a test can't: with what its clients'
/// logins provide.
fn judged(config: &Config, pool: &PoolConfig, error: &TestError) -> (Severity, String) {
    let (name, text) = (&pool.name, &error.text);
    let source = match config.server_password(pool) {
        ServerPassword::Clients => Some("the pool has it when this user has logged in to Weir as a client"),
        ServerPassword::Hash => Some("the pool has its md5 hash, which suffices if the server requests md5"),
        ServerPassword::Known(_) | ServerPassword::Made(_) | ServerPassword::None => None,
    };
    match source.filter(|_| error.lacks_password && pool.user.is_some()) {
        Some(source) => (Severity::Warning, format!("pool {name}: {text}; {source}, so this was not tried further")),
        None if error.about_user && pool.user.is_none() => {
            (Severity::Warning, format!("pool {name}: the server refused the listed user that was tried: {text}"))
        }
        None => (Severity::Error, format!("pool {name}: {text}")),
    }
}

impl ProbeResult {
    fn find(&mut self, config: &Config, pool: &PoolConfig, severity: Severity, text: String) {
        let key = format!("pools.{}", pool.name);
        let (file, line) = config.locations.file_and_line(&key, &config.source);
        self.findings.push(ConfigFinding { severity, file, line, key: Some(key), help: help(&text), text });
    }
}

/// What to do about a server's answer, or about none.
fn help(text: &str) -> Option<String> {
    let known = [
        ("Connection refused", "start PostgreSQL there, or correct host and port of the pool"),
        ("failed to lookup address", "correct the pool's host, or the names that this machine can resolve"),
        (
            "No such file or directory",
            "name the folder of the server's socket (SHOW unix_socket_directories), or an address",
        ),
        ("timed out", "look for a firewall, or correct host and port of the pool"),
        ("password authentication failed", "correct user and password of the pool: they are Weir's own at the server"),
        ("asks for the password of user", "give the pool the password of this user at the server"),
        ("no pg_hba.conf entry", "allow this machine and this user in the server's pg_hba.conf"),
        (
            "does not exist",
            "correct the pool's user or database (default: the pool's name), or create it at the server",
        ),
        ("answer to SSLRequest", "another program than PostgreSQL answers there: correct host and port of the pool"),
        ("server closed the connection", "see the server's log, or correct host and port of the pool"),
        ("too many connections for", "raise this limit of the role or the database, or close other connections"),
        ("too many clients", "raise the server's max_connections, or close other connections"),
        ("connection slots", "raise the server's max_connections, or close other connections"),
        ("permission denied for database", "GRANT CONNECT ON DATABASE to this user at the server"),
        ("not permitted to log in", "give this role LOGIN at the server, or name another user of the pool"),
        ("starting up", "wait until the server has started"),
    ];
    known.into_iter().find(|(part, _)| text.contains(part)).map(|(_, help)| help.to_owned())
}

fn row(pool: &PoolConfig, user: &str, answer: &str, version: &str, servers: &str, room: &str) -> Vec<String> {
    [&pool.name, user, answer, version, servers, room].map(str::to_owned).to_vec()
}

/// The limit of the pools' connections, by server.
fn servers_by_address(config: &Config) -> BTreeMap<String, u64> {
    let mut pools: BTreeMap<String, BTreeMap<String, Arc<PoolConfig>>> = BTreeMap::new();
    for (name, pool) in &config.pools {
        pools.entry(pool.target().to_string()).or_default().insert(name.clone(), pool.clone());
    }
    let mut there = config.clone();
    let most = pools.into_iter().map(|(place, pools)| {
        there.pools = pools;
        (place, max_servers(&there))
    });
    most.collect()
}

#[cfg(test)]
mod tests {
    use super::help;

    #[test]
    fn each_answer_of_a_server_that_can_not_be_used_comes_with_what_to_do() {
        for answer in [
            "Connection refused (os error 111)",
            "failed to lookup address information: Name or service not known",
            "No such file or directory (os error 2)",
            "timed out",
            "an unexpected answer to SSLRequest",
            "the server closed the connection",
            "FATAL:  password authentication failed for user \"app\"",
            "FATAL:  no pg_hba.conf entry for host \"127.0.0.1\"",
            "FATAL:  database \"shop\" does not exist",
            "FATAL:  role \"app\" does not exist",
            "FATAL:  role \"app\" is not permitted to log in",
            "FATAL:  permission denied for database \"shop\"",
            "FATAL:  too many connections for role \"app\"",
            "FATAL:  too many connections for database \"shop\"",
            "FATAL:  sorry, too many clients already",
            "FATAL:  remaining connection slots are reserved for non-replication superuser connections",
            "FATAL:  the database system is starting up",
        ] {
            assert!(help(answer).is_some(), "{answer}");
        }
    }
}
