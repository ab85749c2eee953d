//! Pgpool-II in front of a server, with its package's defaults, except for what an experiment sets.
//!
//! Source: the manual of Pgpool-II 4.3, "Server configuration". It serves each client by a child process of its own,
//! all started beforehand; a child accepts one client at a time, and keeps its connections to the server for the next
//! one. All its files and sockets are below the lab's folder; it runs in the foreground, and ends when dropped.

use std::net::SocketAddr;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::free_port;

use super::{Process, USER};
use crate::lab::Lab;
use crate::steps::LabError;
use crate::tools::Tool;

/// Pgpool-II's default number of children.
pub(crate) const DEFAULT_CHILDREN: u32 = 32;

/// How long Pgpool-II may take to start its children and to answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A running Pgpool-II; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Pgpool {
    process: Process,
    port: u16,
}

impl Pgpool {
    /// Starts it with this number of children (`num_init_children`) for the PostgreSQL at `server`, whose user is
    /// [`USER`] without a password, and waits until it answers a query in `database`.
    ///
    /// # Errors
    /// Pgpool-II is not installed, with `effect` as what is left out without it; or it did not start.
    pub(crate) fn start(
        lab: &Lab,
        server: SocketAddr,
        database: &str,
        children: u32,
        effect: &str,
    ) -> Result<Pgpool, LabError> {
        let program = lab.tool(Tool::Pgpool, effect)?;
        let free = || free_port().map_err(|e| LabError::at("find a free port", e));
        let (port, pcp_port) = (free()?, free()?);
        let folder = lab.subfolder(&format!("pgpool-{port}"))?;
        let file = |name: &str| folder.join(name);
        let text = configuration(port, pcp_port, server, children, &folder.display().to_string());
        lab.write(&file("pgpool.conf"), &text)?;
        lab.write(&file("pcp.conf"), "")?;
        let mut command = lab.command(&program.path, &folder);
        command.args(["-n", "-D", "-f"]).arg(file("pgpool.conf")).arg("-F").arg(file("pcp.conf"));
        lab.drop_root(&mut command);
        let mut pgpool = Pgpool { process: lab.start(&format!("pgpool-{port}"), command)?, port };
        let params = ConnectParams::new("127.0.0.1", port, USER, database).timeout(Duration::from_secs(5));
        let answers = || Connection::connect(&params).and_then(|mut c| c.query("select 1")).is_ok();
        pgpool.process.await_ready(TIMEOUT, answers)?;
        Ok(pgpool)
    }

    /// Pgpool-II's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The process id of its main process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }
}

/// Defaults, except for paths, the children, and checks for replicas, which the server does not have.
fn configuration(port: u16, pcp_port: u16, server: SocketAddr, children: u32, folder: &str) -> String {
    let (host, server_port) = (server.ip(), server.port());
    format!(
        "listen_addresses = '127.0.0.1'\nport = {port}\nsocket_dir = '{folder}'\n\
         pcp_listen_addresses = '127.0.0.1'\npcp_port = {pcp_port}\npcp_socket_dir = '{folder}'\n\
         wd_ipc_socket_dir = '{folder}'\npid_file_name = '{folder}/pgpool.pid'\nlogdir = '{folder}'\n\
         memqcache_oiddir = '{folder}'\npool_passwd = ''\n\
         backend_hostname0 = '{host}'\nbackend_port0 = {server_port}\n\
         num_init_children = {children}\nsr_check_period = 0\nhealth_check_period = 0\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_files_and_sockets_are_in_its_folder() {
        let text = configuration(9999, 9898, ([127, 0, 0, 1], 5432).into(), 200, "/tmp/x/pgpool-9999");
        let files = ["socket_dir", "pcp_socket_dir", "wd_ipc_socket_dir", "logdir", "memqcache_oiddir"];
        for name in files {
            assert!(text.contains(&format!("\n{name} = '/tmp/x/pgpool-9999'\n")), "{name}: {text}");
        }
        assert!(text.contains("\nnum_init_children = 200\n"), "{text}");
    }
}
