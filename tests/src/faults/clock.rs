//! Moves the wall clock of a running pooler, by a library that is preloaded into it.
//!
//! Owns the library. The machine's C compiler, which Rust needs as its linker, builds it from `clock.c`. The monotonic
//! clock continues, as it does when an administrator sets the time.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use weir_pgclient::Connection;
use weir_pglocal::TempFolder;

use super::report::Report;
use super::stage::Scene;
use super::{Trial, shared_server};
use crate::watch::eventually;
use crate::weir::Launch;

/// More than a month, whatever today is, so that the log shows it.
const FAR: i64 = 40 * 24 * 3600;

pub(super) fn forwards(trial: &Trial) -> Report {
    jump(trial, FAR)
}

pub(super) fn backwards(trial: &Trial) -> Report {
    jump(trial, -FAR)
}

fn jump(trial: &Trial, by: i64) -> Report {
    let clock = Clock::build();
    // Each kind of timeout is active, and none has expired.
    let scene = Scene::on(trial, &shared_server())
        .ini(|ini| {
            ini.set("query_timeout", 20)
                .set("idle_transaction_timeout", 20)
                .set("client_idle_timeout", 60)
                .set("server_lifetime", 600)
                .set("server_idle_timeout", 600)
                .set("client_login_timeout", 20)
        })
        .launch(clock.launch());
    let mut stage = scene.open();
    let before = month(&stage.pooler.log());
    stage.strike(|stage| {
        clock.move_by(by);
        // The pooler's log shows that the clock has moved for it.
        eventually("the log shows another month", || {
            drop(Connection::connect(&stage.pooler.params(stage.pooler.port())));
            let now = month(&stage.pooler.log());
            if now == before { Err(now) } else { Ok(()) }
        });
    });
    stage.finish()
}

/// The month of the last line of a log that begins with a time.
fn month(log: &str) -> Option<String> {
    let dated = |line: &&str| line.starts_with("20") && line.get(4..5) == Some("-");
    log.lines().rev().find(dated).and_then(|line| line.get(..7)).map(str::to_owned)
}

struct Clock {
    folder: TempFolder,
}

impl Clock {
    fn build() -> Clock {
        let folder = TempFolder::new().unwrap_or_else(|error| panic!("{error}"));
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("our own folder");
        let clock = Clock { folder };
        let (source, library) = (clock.path("clock.c"), clock.path("clock.so"));
        fs::write(&source, include_str!("clock.c")).expect("our own file");
        let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
        let built = Command::new(&compiler).args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).output();
        let built = built.unwrap_or_else(|error| panic!("run {}: {error}", compiler.display()));
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        clock.move_by(0);
        clock
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn launch(&self) -> Launch {
        let pair = |name: &str, path: PathBuf| (name.to_owned(), path.display().to_string());
        Launch {
            env: vec![pair("LD_PRELOAD", self.path("clock.so")), pair("WEIR_FAULT_CLOCK", self.path("moved"))],
            ..Launch::default()
        }
    }

    /// From now on the wall clock differs by this many seconds from the machine's.
    fn move_by(&self, seconds: i64) {
        use std::io::Write;
        // Written in place: a process that has mapped the file sees the change.
        let file = fs::File::options().create(true).write(true).truncate(false).open(self.path("moved"));
        file.and_then(|mut file| file.write_all(&seconds.to_ne_bytes())).expect("our own file");
    }
}
