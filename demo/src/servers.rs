//! The two servers of the demo: a temporary PostgreSQL, and a `weir serve` in front of it.
//!
//! Owns both processes and their folder. Invariant: the reaper knows the child as long as it runs.

use std::env;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::{Account, Auth, Consent, Options, Server, Signal, free_port, send_signal};

use weir_terminal::print_line;

use crate::certificate;
use crate::failure::Failure;

/// How many clients connect at once: more than the server takes.
pub(super) const CLIENTS: usize = 150;
/// How many transactions each of them runs.
pub(super) const ROUNDS: usize = 3;
/// What PostgreSQL takes, its own default.
pub(super) const MAX_CONNECTIONS: u32 = 100;
/// The pool's name.
pub(super) const POOL: &str = "test-pool";
/// The most server connections of the pool.
pub(super) const POOL_SIZE: u32 = 20;
/// PostgreSQL's usual port.
pub(super) const USUAL_PORT: u16 = 5432;
/// A pooler's usual port.
pub(super) const USUAL_WEIR_PORT: u16 = 6432;
/// The panel's usual port.
const USUAL_WEB_PORT: u16 = 8432;

/// The user's name, its password and its database's name.
const DEMO: &str = "demo";
/// How long `weir serve` may take until it answers.
const START_TIMEOUT: Duration = Duration::from_secs(20);

const TABLES: &str = "create table visit (at timestamptz not null default clock_timestamp(), client int not null, \
                      through text not null); grant all on visit to demo";

/// PostgreSQL, and Weir once it is started.
pub(super) struct Servers {
    /// The program that is started as Weir.
    program: PathBuf,
    weir: Option<Weir>,
    server: Server,
}

struct Weir {
    child: Child,
    port: u16,
    web_port: u16,
}

impl Servers {
    /// Starts PostgreSQL, on its usual port if that is free. Where it is not installed, `consent` decides whether to
    /// get it.
    pub(super) fn start(weir: Option<&Path>, consent: Consent) -> Result<Self, Failure> {
        let program = find_weir(weir)?;
        Account::check().map_err(Failure::of)?;
        let mut announce = |line: &str| print_line(format_args!("  {line}"));
        let programs = weir_pglocal::find_with(&mut |offer| consent.decide(offer, "weir demo --yes"), &mut announce)
            .map_err(Failure::of)?;
        let options = Options { max_connections: MAX_CONNECTIONS, auth: Auth::ScramSha256, ..Options::default() };
        let usual = Options { port: Some(USUAL_PORT), ..options.clone() };
        let server = match is_free(USUAL_PORT).then(|| Server::start_with(programs.clone(), usual)) {
            Some(Ok(server)) => server,
            // Somebody took it at this very moment, or it was taken all along.
            Some(Err(_)) | None => Server::start_with(programs, options).map_err(Failure::of)?,
        };
        let role = format!("create role {DEMO} login password '{DEMO}'");
        server.execute("postgres", &role).map_err(|e| Failure::at("create the role", e))?;
        // A database can't be created beside other statements.
        let database = format!("create database {DEMO} owner {DEMO}");
        server.execute("postgres", &database).map_err(|e| Failure::at("create the database", e))?;
        server.execute(DEMO, TABLES).map_err(|e| Failure::at("create a table", e))?;
        Ok(Servers { program, weir: None, server })
    }

    /// Starts `weir serve`, and waits until it answers.
    pub(super) fn add_weir(&mut self) -> Result<(), Failure> {
        let port = usual_or_free(USUAL_WEIR_PORT)?;
        let web_port = usual_or_free(USUAL_WEB_PORT)?;
        self.write_config(port, web_port)?;
        let log = File::create(self.log()).map_err(|e| Failure::at(self.log().display(), e))?;
        let errors = log.try_clone().map_err(|e| Failure::at(self.log().display(), e))?;
        let child = Command::new(&self.program)
            .arg("serve")
            .arg(self.config())
            // The reaper finds it by this folder if this process is killed before it has reported the process id.
            .current_dir(self.folder())
            // Weir's socket for upgrades is made below this folder, and so goes with it.
            .env("RUNTIME_DIRECTORY", self.folder())
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // Ctrl-C is for us; we end it when its clients are gone.
            .process_group(0)
            .spawn()
            .map_err(|e| Failure::at(self.program.display(), e))?;
        self.server.reaper().watch(child.id());
        self.weir = Some(Weir { child, port, web_port });
        self.await_weir()
    }

    pub(super) fn postgres(&self) -> &Server {
        &self.server
    }

    /// Weir's port; 0 before it is started.
    pub(super) fn port(&self) -> u16 {
        self.weir.as_ref().map_or(0, |weir| weir.port)
    }

    /// Where a browser finds the panel.
    pub(super) fn panel(&self) -> String {
        format!("http://127.0.0.1:{}/", self.weir.as_ref().map_or(0, |weir| weir.web_port))
    }

    pub(super) fn folder(&self) -> &Path {
        self.server.socket_dir()
    }

    pub(super) fn config(&self) -> PathBuf {
        self.folder().join("weir.toml")
    }

    /// Straight to the server.
    pub(super) fn direct(&self) -> ConnectParams {
        self.server.params(DEMO, DEMO).password(DEMO).option("application_name", "direct")
    }

    /// To the pool.
    pub(super) fn pooled(&self) -> ConnectParams {
        self.through_weir(POOL).option("application_name", "pooled")
    }

    /// To Weir's console.
    pub(super) fn console(&self) -> ConnectParams {
        self.through_weir("weir").timeout(Duration::from_secs(10))
    }

    /// For a person to copy: encrypted, and quoted since a shell takes the question mark for a pattern.
    pub(super) fn url(&self, database: &str) -> String {
        format!("'postgres://{DEMO}:{DEMO}@127.0.0.1:{}/{database}?sslmode=require'", self.port())
    }

    /// How many rows were inserted through Weir.
    pub(super) fn rows_through_weir(&self) -> Result<usize, Failure> {
        let count = self
            .server
            .superuser_connection(DEMO)
            .and_then(|mut connection| connection.value("select count(*) from visit where through = 'pooled'"))
            .map_err(|e| Failure::at("count the rows", e))?;
        Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
    }

    /// An error with the end of its log, if Weir has ended.
    pub(super) fn check_weir(&mut self) -> Result<(), Failure> {
        let Some(weir) = &mut self.weir else { return Ok(()) };
        match weir.child.try_wait() {
            Ok(Some(status)) => {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                let last: Vec<_> = log.lines().rev().take(3).collect();
                let last = last.into_iter().rev().collect::<Vec<_>>().join("\n");
                Err(Failure::new(format!("weir serve ended ({status})\n{last}")))
            }
            _ => Ok(()),
        }
    }

    fn through_weir(&self, database: &str) -> ConnectParams {
        ConnectParams::new("127.0.0.1", self.port(), DEMO, database).password(DEMO)
    }

    fn log(&self) -> PathBuf {
        self.folder().join("weir.log")
    }

    fn write_config(&self, port: u16, web_port: u16) -> Result<(), Failure> {
        certificate::write(self.folder())?;
        certificate::write_private(&self.config(), &config(port, web_port, self.server.port(), &reports()))
    }

    fn await_weir(&mut self) -> Result<(), Failure> {
        let end = Instant::now() + START_TIMEOUT;
        loop {
            self.check_weir()?;
            match Connection::connect(&self.console()) {
                Ok(connection) => return connection.close().map_err(Failure::of),
                Err(error) if Instant::now() > end => return Err(Failure::at("weir serve does not answer", error)),
                Err(_) => thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let Some(mut weir) = self.weir.take() else { return };
        send_signal(weir.child.id(), Signal::SIGQUIT);
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end && matches!(weir.child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(10));
        }
        let _ = weir.child.kill();
        let _ = weir.child.wait();
        self.server.reaper().forget(weir.child.id());
    }
}

/// The line with the folder that the lab writes its reports to when it is started in this one.
fn reports() -> String {
    let folder = env::current_dir().map(|here| here.join("weir-lab").display().to_string());
    // A TOML string can't hold control characters; below such a folder the panel lists no reports.
    let folder = folder.ok().filter(|folder| !folder.contains(char::is_control));
    folder.map_or(String::new(), |folder| format!("lab = \"{}\"\n", folder.replace('\\', "\\\\").replace('"', "\\\"")))
}

fn config(port: u16, web_port: u16, server_port: u16, reports: &str) -> String {
    let (key, certificate) = (certificate::KEY, certificate::CERTIFICATE);
    format!(
        "[general]\n\
         admin_users = [\"{DEMO}\"]\n\
         \n\
         [listen]\n\
         address = \"127.0.0.1\"\n\
         port = {port}\n\
         \n\
         [auth]\n\
         type = \"scram-sha-256\"\n\
         \n\
         [auth.users]\n\
         {DEMO} = \"{DEMO}\"\n\
         \n\
         [tls.client]\n\
         mode = \"prefer\"\n\
         key_file = \"{key}\"\n\
         cert_file = \"{certificate}\"\n\
         \n\
         [web]\n\
         address = \"127.0.0.1\"\n\
         port = {web_port}\n\
         {reports}\
         \n\
         [pools.{POOL}]\n\
         host = \"127.0.0.1\"\n\
         port = {server_port}\n\
         database = \"{DEMO}\"\n\
         user = \"{DEMO}\"\n\
         password = \"{DEMO}\"\n\
         mode = \"transaction\"\n\
         size = {POOL_SIZE}\n"
    )
}

/// The program to show: the named one, the one beside this program, or one in PATH.
fn find_weir(named: Option<&Path>) -> Result<PathBuf, Failure> {
    // The program is started in another folder.
    if let Some(path) = named {
        return path.canonicalize().map_err(|e| Failure::at(path.display(), e));
    }
    let beside = env::current_exe().ok().and_then(|path| Some(path.parent()?.to_owned()));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = beside.into_iter().chain(env::split_paths(&path));
    let missing = "weir is neither beside weir-demo nor in PATH: copy it there, build it (cargo build -p weir), or name it: \
                   --weir /path/to/weir";
    let found = folders.find_map(|folder| folder.join("weir").canonicalize().ok().filter(|file| file.is_file()));
    found.ok_or_else(|| Failure::new(missing))
}

fn usual_or_free(usual: u16) -> Result<u16, Failure> {
    let port = if is_free(usual) { Ok(usual) } else { free_port() };
    port.map_err(|e| Failure::at("find a free port", e))
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demos_configuration_is_understood_without_a_complaint() {
        let read = |_: &Path| Ok(config(6432, 8432, 5432, &reports()));
        let config = weir_config::load(Path::new("weir.toml"), &read, &|_| None).unwrap();
        assert_eq!(config.pools[POOL].limits.size, POOL_SIZE);
        assert!(config.tls.client.key_file.is_some());
        let facts = weir_config::HostLimits { descriptors: 100_000, cores: 1 };
        let findings = weir_config::review(&config, &facts);
        assert!(findings.iter().all(|finding| finding.severity == weir_config::Severity::Note), "{findings:?}");
    }
}
