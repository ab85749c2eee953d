//! `weir check --connect`: does each pool's server answer, as whom, and has it room for the pools?
//!
//! Each is asked once (`trial`); here it is counted together.

use std::collections::BTreeMap;

use weir_base::Target;
use weir_config::{Config, Finding, Pool, Severity, most_servers};

use crate::trial::{Clear, Login, ask, login};

/// What the servers said.
pub(crate) struct Report {
    /// A header, and a row a pool.
    pub(crate) table: Vec<Vec<String>>,
    /// What is wrong.
    pub(crate) findings: Vec<Finding>,
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
            Login::As { user, password } => match ask(config, pool, &user, password.as_deref(), Clear::Asked) {
                Ok(server) => {
                    let wanted = servers_at(config, pool.target());
                    // For others than the superuser.
                    let room = server.max_connections.saturating_sub(server.superuser_reserved_connections);
                    rooms.insert(pool.target().to_string(), (pool, wanted, room));
                    let answer = if server.encrypted { "ok, encrypted" } else { "ok" };
                    row(pool, &user, answer, &server.version, &wanted.to_string(), &room.to_string())
                }
                Err(error) => {
                    let text = format!("pool {}: {error}", pool.name);
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

/// The most connections that the pools may open to one server.
fn servers_at(config: &Config, target: &Target) -> u64 {
    let mut there = config.clone();
    there.pools.retain(|_, pool| pool.target() == target);
    most_servers(&there)
}
