//! PgBouncer in front of a server, with its package's defaults, except for what an experiment sets.
//!
//! Source: pgbouncer(5). All its files are below the lab's folder; it runs in the foreground, and ends when dropped.

use std::net::SocketAddr;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::free_port;

use super::{Mode, Process, USER};
use crate::lab::Lab;
use crate::steps::LabError;
use crate::tools::Tool;

/// How long PgBouncer may take to answer its first query.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running PgBouncer; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Pgbouncer {
    process: Process,
    port: u16,
}

impl Pgbouncer {
    /// Starts it for this database of the PostgreSQL at `server`, whose user is [`USER`] without a password, and waits
    /// until it answers. A pool has the default size, 20.
    ///
    /// # Errors
    /// PgBouncer is not installed, with `effect` as what is left out without it; or it did not start.
    pub(crate) fn start(
        lab: &Lab,
        server: SocketAddr,
        database: &str,
        mode: Mode,
        effect: &str,
    ) -> Result<Pgbouncer, LabError> {
        let program = lab.tool(Tool::Pgbouncer, effect)?;
        let port = free_port().map_err(|e| LabError::at("find a free port", e))?;
        let folder = lab.subfolder(&format!("pgbouncer-{port}"))?;
        let file = folder.join("pgbouncer.ini");
        lab.write(&folder.join("userlist.txt"), &format!("\"{USER}\" \"{USER}\"\n"))?;
        lab.write(&file, &configuration(port, server, database, mode, &folder.display().to_string()))?;
        let mut command = lab.command(&program.path, &folder);
        command.arg(&file);
        lab.drop_root(&mut command);
        let mut pgbouncer = Pgbouncer { process: lab.start(&format!("pgbouncer-{port}"), command)?, port };
        let params = ConnectParams::new("127.0.0.1", port, USER, database).timeout(Duration::from_secs(5));
        let answers = || Connection::connect(&params).and_then(|mut c| c.query("select 1")).is_ok();
        pgbouncer.process.await_ready(TIMEOUT, answers)?;
        Ok(pgbouncer)
    }

    /// PgBouncer's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// PgBouncer's process id, for its CPU time and memory.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Defaults, except for paths and logins: logins are not logged (Weir here does not log them either), and more than 100
/// clients may connect.
fn configuration(port: u16, server: SocketAddr, database: &str, mode: Mode, folder: &str) -> String {
    let mode = match mode {
        Mode::Session => "session",
        Mode::Transaction => "transaction",
    };
    let (host, server_port) = (server.ip(), server.port());
    format!(
        "[databases]\n{database} = host={host} port={server_port} dbname={database}\n\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir = {folder}\n\
         pidfile = {folder}/pgbouncer.pid\nauth_type = trust\nauth_file = {folder}/userlist.txt\n\
         pool_mode = {mode}\nmax_client_conn = 5000\nlog_connections = 0\nlog_disconnections = 0\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_mode_and_the_clients_differ_from_the_defaults() {
        let text = configuration(6432, ([127, 0, 0, 1], 5432).into(), "bench", Mode::Session, "/tmp/x");
        assert!(text.contains("\nbench = host=127.0.0.1 port=5432 dbname=bench\n"), "{text}");
        assert!(text.contains("\npool_mode = session\nmax_client_conn = 5000\n"), "{text}");
        assert!(!text.contains("default_pool_size"), "{text}");
    }
}
