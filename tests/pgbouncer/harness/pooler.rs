//! The two programs: where they are, and how one runs with a command line.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use weir_pglocal::TempFolder;
use weir_tests::{account, pgbouncer_binary, weir_binary};

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pooler {
    /// The distribution's program, or the one that `PGBOUNCER_BIN` names.
    PgBouncer,
    /// Weir, as `weir pgbouncer`.
    Weir,
}

impl Pooler {
    /// The poolers to run: both, or the one that `WEIR_SUITE` names (`pgbouncer`, `weir`), if installed.
    pub(crate) fn chosen() -> Vec<Pooler> {
        let wanted = env::var("WEIR_SUITE").unwrap_or_default();
        let all = [Pooler::PgBouncer, Pooler::Weir];
        let chosen = all.into_iter().filter(|pooler| wanted.is_empty() || wanted == pooler.name());
        chosen.filter(|pooler| *pooler == Pooler::Weir || pgbouncer_binary().is_some()).collect()
    }

    /// The name for `WEIR_SUITE`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pooler::PgBouncer => "pgbouncer",
            Pooler::Weir => "weir",
        }
    }

    /// The command without arguments, as an ordinary user: PgBouncer refuses to run as root.
    pub(crate) fn command(self) -> Command {
        let mut command = self.command_as_is();
        if let Some(account) = account() {
            account.run(&mut command);
        }
        command
    }

    /// The command without arguments, as the user that runs the tests.
    pub(crate) fn command_as_is(self) -> Command {
        let mut command = match self {
            Pooler::PgBouncer => Command::new(pgbouncer_binary().expect("PgBouncer was chosen, so it is installed")),
            Pooler::Weir => {
                let mut command = Command::new(reachable_weir());
                command.arg("pgbouncer");
                command
            }
        };
        command.stdin(Stdio::null()).env_remove("NOTIFY_SOCKET");
        command
    }
}

/// Weir, where the ordinary user can execute it: a copy, if cargo's folder is closed to other users.
fn reachable_weir() -> &'static Path {
    static BINARY: OnceLock<(PathBuf, Option<TempFolder>)> = OnceLock::new();
    let find = || {
        let built = weir_binary().to_owned();
        let open = |path: &Path| path.metadata().is_ok_and(|meta| meta.mode() & 0o001 != 0);
        if account().is_none() || built.canonicalize().is_ok_and(|path| path.ancestors().all(open)) {
            return (built, None);
        }
        let folder = TempFolder::owned_by(account()).unwrap_or_else(|error| panic!("{error}"));
        let copy = folder.path().join("weir");
        fs::copy(&built, &copy).unwrap_or_else(|error| panic!("copy {}: {error}", built.display()));
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).expect("our own copy can be changed");
        (copy, Some(folder))
    };
    &BINARY.get_or_init(find).0
}
