//! Where the poolers' programs are, and what to do when one is missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Outcome};
use crate::setup::{Kind, Setup};

/// How PgBouncer is had.
pub(crate) const GET_PGBOUNCER: &str = "PgBouncer was not found, so there is nothing to compare to. To get it:\n\
    \x20 Debian, Ubuntu   sudo apt-get install pgbouncer\n\
    \x20 Fedora, RHEL     sudo dnf install pgbouncer\n\
    \x20 Alpine           apk add pgbouncer\n\
    or name one: --pgbouncer /path/to/pgbouncer";

/// How Weir is had.
const GET_WEIR: &str = "no release build of weir was found: `cargo build --release -p weir`, or --weir /path/to/weir";

/// A pooler's program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

/// The program of this kind; `None` for PostgreSQL alone, which needs none.
pub(crate) fn program(kind: Kind, setup: &Setup) -> Outcome<Option<Program>> {
    match kind {
        Kind::Direct => Ok(None),
        Kind::Forwarder => forwarder().map(Some),
        Kind::Weir => weir(setup.weir.as_deref()).map(Some),
        Kind::Pgbouncer => pgbouncer(setup.pgbouncer.as_deref()).map(Some).ok_or_else(|| Error::new(GET_PGBOUNCER)),
    }
}

/// PgBouncer: the one named, in PATH, or where distributions put what is only root's in theirs.
pub(crate) fn pgbouncer(named: Option<&Path>) -> Option<Program> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/usr/bin"].map(PathBuf::from));
    let found = match named {
        Some(path) => path.to_owned(),
        None => folders.map(|folder| folder.join("pgbouncer")).find(|path| path.is_file())?,
    };
    versioned(found)
}

/// Weir: the one named, or the release build beside us, be we a release build ourselves or not.
fn weir(named: Option<&Path>) -> Outcome<Program> {
    let beside = || {
        let folder = env::current_exe().ok()?.parent()?.to_owned();
        let places = [folder.join("weir"), folder.join("../release/weir")];
        // A debug build would be measured in all seriousness, and would tell nothing.
        places.into_iter().filter_map(|path| path.canonicalize().ok()).find(|path| is_release(path))
    };
    let path = named.map(Path::to_owned).or_else(beside).ok_or_else(|| Error::new(GET_WEIR))?;
    versioned(path.clone()).ok_or_else(|| Error::new(format!("{} does not run: {GET_WEIR}", path.display())))
}

/// The bare forwarder is a command of this program.
fn forwarder() -> Outcome<Program> {
    let path = env::current_exe().map_err(|e| Error::at("find this program", e))?;
    if !is_release(&path) {
        return Err(Error::new("the bare forwarder is measured in a release build only: run `make bench`"));
    }
    Ok(Program { path, version: String::new() })
}

fn is_release(path: &Path) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "release")
}

/// Asks a program for its version: `PgBouncer 1.18.0`, `weir 0.1.0`.
fn versioned(path: PathBuf) -> Option<Program> {
    let output = Command::new(&path).arg("--version").output().ok()?;
    let version = version(&String::from_utf8_lossy(&output.stdout))?;
    Some(Program { path, version })
}

fn version(text: &str) -> Option<String> {
    let words = text.lines().next()?.split_whitespace();
    words
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

/// Whether this PgBouncer has prepared statements in transaction mode: 1.21 and later.
pub(crate) fn has_prepared(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= (1, 21)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_say() {
        assert_eq!(version("PgBouncer 1.18.0\nlibevent 2.1.12-stable").as_deref(), Some("1.18.0"));
        assert_eq!(version("weir 0.1.0 (PgBouncer 1.25.2)").as_deref(), Some("0.1.0"));
        assert_eq!(version("usage: what"), None);
    }

    #[test]
    fn prepared_statements_came_with_1_21() {
        assert!(!has_prepared("1.18.0") && !has_prepared("1.20.1"));
        assert!(has_prepared("1.21.0") && has_prepared("1.25.2") && has_prepared("2.0"));
    }

    #[test]
    fn only_a_release_build_is_measured_unasked() {
        assert!(is_release(Path::new("/x/target/release/weir")));
        assert!(!is_release(Path::new("/x/target/debug/weir")));
    }
}
