//! A streaming standby of a running server, made by `pg_basebackup`, and its promotion.

use std::process::Stdio;
use std::sync::Mutex;

use super::{Options, Server, last_lines};
use crate::{Error, Reaper, TempFolder, account};

impl Server {
    /// A standby that follows `primary` by streaming, on a port of its own and with the same users and settings.
    ///
    /// # Errors
    ///
    /// Where `pg_basebackup` is missing or fails, and as [`Server::start_with`].
    pub fn standby_of(primary: &Server) -> Result<Server, Error> {
        let account = account::to_drop_to()?;
        let folder = TempFolder::owned_by(account.as_ref())?;
        let reaper = Reaper::of(folder.path())?;
        let options = Options { port: None, ..primary.options.clone() };
        let programs = primary.programs.clone();
        let mut server = Server { programs, options, account, port: 0, child: Mutex::new(None), folder, reaper };
        server.copy(primary)?;
        server.begin()?;
        Ok(server)
    }

    /// Ends its following: it takes writes from then on. Returns when it does.
    ///
    /// # Errors
    ///
    /// When the query fails, or it is no standby.
    pub fn promote(&self) -> Result<(), weir_pgclient::Error> {
        self.execute("postgres", "SELECT pg_promote(true, 60)")
    }

    fn copy(&self, primary: &Server) -> Result<(), Error> {
        let program = self.programs.bin().join("pg_basebackup");
        let child = self
            .command(&program)
            .args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync", "--username"])
            .arg(primary.superuser())
            .arg("--host")
            .arg(primary.socket_dir())
            .args(["--port", &primary.port().to_string(), "--pgdata"])
            .arg(self.data())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| Error::io(format!("run {}", program.display()), &e))?;
        let pid = child.id();
        self.reaper.watch(pid);
        let output = child.wait_with_output().map_err(|e| Error::io("wait for pg_basebackup", &e))?;
        self.reaper.forget(pid);
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            return Err(Error::new(format!("pg_basebackup failed ({}):\n{}", output.status, last_lines(&stderr, 8))));
        }
        Ok(())
    }
}
