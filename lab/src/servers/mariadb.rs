//! A temporary MariaDB (or MySQL) server on a free port of the loopback.
//!
//! Owns its data and its socket, below the lab's folder, and ends the server when dropped. Knows only the first packet
//! of the protocol: programs fill it and measure it. Durability is off, as the data is temporary.

use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_pglocal::free_port;

use super::{Process, USER};
use crate::lab::Lab;
use crate::steps::LabError;
use crate::tools::{Program, Tool};

/// The differences from the server's defaults: nothing is written twice or flushed, no query cache (`loose`: MySQL 8
/// has none), and no look-ups of clients' host names.
const SETTINGS: &[&str] = &[
    "--skip-name-resolve",
    "--skip-log-bin",
    "--loose-query-cache-type=0",
    "--innodb-buffer-pool-size=256M",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-fast-shutdown=2",
    "--max-connections=151",
];

/// How long creating the data folder may take on a slow disk.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(90);
/// How long the server may take to answer.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How often a port that another process has taken is replaced.
const PORT_ATTEMPTS: u32 = 3;

/// A running MariaDB; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Mariadb {
    port: u16,
    _process: Process,
}

impl Mariadb {
    /// Starts one with an empty database `database`, whose user is [`USER`] with that password too, and waits until it
    /// answers.
    ///
    /// # Errors
    /// It is not installed, with `effect` as what is left out without it; or it did not start.
    pub(crate) fn start(lab: &Lab, database: &str, effect: &str) -> Result<Mariadb, LabError> {
        lab.doing("starting MariaDB");
        let program = lab.tool(Tool::Mariadb, effect)?;
        let folder = lab.subfolder("mariadb")?;
        let data = folder.join("data");
        make_data(lab, &program, &folder, &data, effect)?;
        let init = folder.join("init.sql");
        lab.write(&init, &accounts(database))?;
        for attempt in 1.. {
            let port = free_port().map_err(|e| LabError::at("find a free port", e))?;
            let mut command = serve(lab, &program, &folder, port);
            command.arg(option("--init-file", &init));
            let mut process = lab.start(&format!("mariadb-{port}"), command)?;
            match process.await_ready(START_TIMEOUT, || greets(port)) {
                Ok(()) => return Ok(Mariadb { port, _process: process }),
                Err(_) if process.log().contains("Address already in use") && attempt < PORT_ATTEMPTS => {}
                Err(trouble) => return Err(trouble),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// The server's port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The differences from the server's defaults, for the report.
    pub(crate) fn settings() -> String {
        SETTINGS.join(" ")
    }
}

/// Creates the folder with the server's own tables. MariaDB has a program for it, MySQL an option.
fn make_data(lab: &Lab, program: &Program, folder: &Path, data: &Path, effect: &str) -> Result<(), LabError> {
    let mut command = if program.version.contains("MariaDB") {
        let install = lab.tool(Tool::MariadbInstall, effect)?;
        let mut command = lab.command(&install.path, folder);
        // First, since both read it only there: no option files of this machine.
        command.args(["--no-defaults", "--auth-root-authentication-method=normal"]);
        command.args(["--skip-test-db", "--skip-name-resolve"]);
        command
    } else {
        let mut command = lab.command(&program.path, folder);
        command.args(["--no-defaults", "--initialize-insecure"]);
        command
    };
    command.arg(option("--datadir", data));
    lab.drop_root(&mut command);
    lab.run("mariadb-install", "make MariaDB's own tables", command, INSTALL_TIMEOUT)?.success().map(drop)
}

/// The server in the foreground, which is its default.
fn serve(lab: &Lab, program: &Program, folder: &Path, port: u16) -> Command {
    let mut command = lab.command(&program.path, folder);
    command.arg("--no-defaults").args(SETTINGS).arg(option("--datadir", &folder.join("data")));
    command.args(["--bind-address=127.0.0.1", &format!("--port={port}")]);
    // The lab's folder leaves room for a socket with 20 bytes; this name has 15.
    command.arg(option("--socket", &socket(folder))).arg(option("--pid-file", &folder.join("pid")));
    lab.drop_root(&mut command);
    command
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("socket")
}

fn option(name: &str, path: &Path) -> String {
    format!("{name}={}", path.display())
}

/// The statements that the server runs before it accepts clients.
fn accounts(database: &str) -> String {
    format!(
        "CREATE DATABASE IF NOT EXISTS {database};\n\
         CREATE USER IF NOT EXISTS '{USER}'@'127.0.0.1' IDENTIFIED BY '{USER}';\n\
         GRANT ALL ON {database}.* TO '{USER}'@'127.0.0.1';\n"
    )
}

/// Whether it accepts clients: it speaks first, and a greeting is version 10 of the protocol (a refusal begins with
/// 255).
fn greets(port: u16) -> bool {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return false };
    // Length in three bytes, number of the packet, version.
    let mut head = [0; 5];
    let _ = stream.set_read_timeout(Some(Duration::from_secs(2)));
    stream.read_exact(&mut head).is_ok() && head[4] == 10
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use weir_pglocal::TempFolder;

    use super::*;
    use crate::lab::eventually;
    use crate::length::Length;
    use crate::progress::Progress;

    /// A listener that sends this to the first client.
    fn sayer(bytes: &'static [u8]) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || listener.accept().unwrap().0.write_all(bytes));
        port
    }

    #[test]
    fn a_greeting_differs_from_a_refusal() {
        assert!(greets(sayer(b"\x4a\0\0\0\x0a10.11.14-MariaDB\0")));
        assert!(!greets(sayer(b"\x4a\0\0\0\xff\x10\x04Too many connections")));
        assert!(!greets(sayer(b"")));
    }

    #[test]
    fn a_server_is_there_and_gone_with_its_value() {
        if Tool::Mariadb.find(None).is_err() || Tool::MariadbInstall.find(None).is_err() {
            eprintln!("skipped: MariaDB is not installed");
            return;
        }
        let out = TempFolder::new().unwrap();
        let lab = Lab::new(Length::Smoke, None, out.path().join("raw"), Progress::silent()).unwrap();
        let server = Mariadb::start(&lab, "lab", "everything").unwrap();
        let port = server.port();
        assert!(greets(port));
        assert!(socket(&lab.folder().join("mariadb")).exists());
        drop(server);
        assert!(eventually(Duration::from_secs(2), || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err()));
    }
}
