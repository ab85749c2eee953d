//! Weir before a server, with the pools that an experiment asks for.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::free_port;

use super::{Process, USER};
use crate::lab::Lab;
use crate::steps::LabError;
use crate::tools::Tool;

/// How long a client keeps a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Session,
    Transaction,
}

/// A pool: a name that clients connect to as to a database.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) name: String,
    /// The server's database.
    pub(crate) database: String,
    pub(crate) mode: Mode,
    pub(crate) size: u32,
}

/// The server behind the pools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The user and password with which the pools log in; `None` for each client's own name without a password.
    pub(crate) login: Option<(String, String)>,
}

impl From<SocketAddr> for Upstream {
    fn from(server: SocketAddr) -> Upstream {
        Upstream { host: server.ip().to_string(), port: server.port(), login: None }
    }
}

/// How Weir gets the password for the server: in its environment, so that it is in no file.
const PASSWORD_ENV: &str = "WEIR_LAB_SERVER_PASSWORD";

/// A running Weir; ended with its value.
#[derive(Debug)]
pub(crate) struct Weir {
    process: Process,
    port: u16,
}

impl Weir {
    /// Starts Weir before the PostgreSQL at `server`, whose user is [`USER`] without a password, and waits until Weir
    /// answers.
    ///
    /// # Errors
    /// That there is no `weir` here, with `effect` as what is left out for it; or that it did not start.
    pub(crate) fn start(lab: &Lab, server: SocketAddr, pools: &[Pool], effect: &str) -> Result<Weir, LabError> {
        Weir::start_before(lab, &server.into(), pools, effect)
    }

    /// Starts Weir before any server, also one that needs a name and a password; all else is as in [`Weir::start`].
    /// Weir's own clients log in as [`USER`], without a password.
    pub(crate) fn start_before(lab: &Lab, server: &Upstream, pools: &[Pool], effect: &str) -> Result<Weir, LabError> {
        let program = lab.tool(Tool::Weir, effect)?;
        let port = free_port().map_err(|e| LabError::at("find a free port", e))?;
        let folder = lab.subfolder(&format!("weir-{port}"))?;
        let file = folder.join("weir.toml");
        lab.write(&folder.join("userlist.txt"), &format!("\"{USER}\" \"{USER}\"\n"))?;
        lab.write(&file, &configuration(port, server, pools))?;
        let mut command = lab.command(&program.path, &folder);
        if let Some((_, password)) = &server.login {
            command.env(PASSWORD_ENV, password);
        }
        command.arg("serve").arg(&file);
        let mut weir = Weir { process: lab.start(&format!("weir-{port}"), command)?, port };
        if let Some(pool) = pools.first() {
            let params = weir.params(&pool.name).timeout(Duration::from_secs(5));
            let answers = || Connection::connect(&params).and_then(|mut c| c.query("select 1")).is_ok();
            weir.process.await_ready(Duration::from_secs(20), answers)?;
        }
        Ok(weir)
    }

    /// Weir's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Weir's process id, for its CPU time and memory.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// How to connect to one of Weir's pools.
    pub(crate) fn params(&self, pool: &str) -> ConnectParams {
        ConnectParams::new("127.0.0.1", self.port, USER, pool).password(USER)
    }
}

fn configuration(port: u16, server: &Upstream, pools: &[Pool]) -> String {
    let mut text = format!(
        "[general]\nmax_clients = 5000\nadmin_users = [\"{USER}\"]\n\n\
         [listen]\naddress = \"127.0.0.1\"\nport = {port}\n\n\
         [auth]\ntype = \"trust\"\nfile = \"userlist.txt\"\n\n\
         [log]\nconnections = false\ndisconnections = false\n"
    );
    for Pool { name, database, mode, size } in pools {
        let mode = match mode {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
        };
        let (host, server_port) = (quoted(&server.host), server.port);
        let _ = write!(
            text,
            "\n[pools.\"{name}\"]\nhost = {host}\nport = {server_port}\ndatabase = \"{database}\"\n\
             mode = \"{mode}\"\nsize = {size}\n"
        );
        if let Some((user, password)) = &server.login {
            let _ = writeln!(text, "user = {}", quoted(user));
            if !password.is_empty() {
                let _ = writeln!(text, "password_env = \"{PASSWORD_ENV}\"");
            }
        }
    }
    text
}

/// A basic string of TOML.
fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pool_gets_its_table() {
        let pool = |name: &str, mode, size| Pool { name: name.into(), database: "benchmark".into(), mode, size };
        let pools = [pool("test-pool", Mode::Transaction, 97), pool("other", Mode::Session, 2)];
        let text = configuration(6432, &SocketAddr::from(([127, 0, 0, 1], 5432)).into(), &pools);
        assert!(text.contains("[pools.\"test-pool\"]\nhost = \"127.0.0.1\"\nport = 5432\n"), "{text}");
        assert!(text.contains("database = \"benchmark\"\nmode = \"session\"\nsize = 2\n"), "{text}");
    }

    #[test]
    fn a_server_with_a_password_gets_it_from_the_environment() {
        let pool = Pool { name: "p".into(), database: "d".into(), mode: Mode::Transaction, size: 2 };
        let login = Some(("ann \"x\"".to_owned(), "hunter2".to_owned()));
        let text = configuration(6432, &Upstream { host: "db.example".into(), port: 5433, login }, &[pool]);
        assert!(text.contains("host = \"db.example\"\nport = 5433\n"), "{text}");
        assert!(text.contains("password_env") && !text.contains("hunter2"), "{text}");
        let parsed: toml_edit::DocumentMut = text.parse().unwrap();
        assert_eq!(parsed["pools"]["p"]["user"].as_str(), Some("ann \"x\""));
    }
}
