//! Where the poolers' programs are, and what to do when one is missing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Outcome};

/// How to install PgBouncer.
pub(crate) const GET_PGBOUNCER: &str = "PgBouncer was not found, so there is nothing to compare to. To get it:\n\
    \x20 Debian, Ubuntu   sudo apt-get install pgbouncer\n\
    \x20 Fedora, RHEL     sudo dnf install pgbouncer\n\
    \x20 Alpine           apk add pgbouncer\n\
    \x20 from source      bench/build-pgbouncer.sh\n\
    or name one: --pgbouncer /path/to/pgbouncer";

/// How to install Pgpool-II.
pub(crate) const GET_PGPOOL: &str = "Pgpool-II was not found. To get it:\n\
    \x20 Debian, Ubuntu   sudo apt-get install pgpool2\n\
    \x20 Fedora, RHEL     sudo dnf install pgpool-II\n\
    or name one: --pgpool /path/to/pgpool";

/// How to build Weir.
const GET_WEIR: &str = "no release build of weir was found: `cargo build --release -p weir`, or --weir /path/to/weir";

/// A pooler's program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) version: String,
}

/// PgBouncer: the one named, or the newest of the one built (`bench/build-pgbouncer.sh`) and those installed.
pub(crate) fn pgbouncer(named: Option<&Path>) -> Option<Program> {
    if let Some(named) = named {
        return versioned(named.to_owned());
    }
    let all = built("pgbouncer").into_iter().chain(installed("pgbouncer"));
    // Of equal versions the built one: it is optimised like a release.
    all.filter_map(versioned).rev().max_by_key(|program| numbers(&program.version))
}

/// A pooler that is measured if it is on the PATH. Some do not report their version.
pub(crate) fn other(name: &str) -> Outcome<Option<Program>> {
    let path = installed(name).next().ok_or_else(|| Error::new(format!("{name} is not on the PATH")))?;
    Ok(Some(versioned(path.clone()).unwrap_or(Program { path, version: String::new() })))
}

/// Whether a pooler is on the PATH.
pub(crate) fn is_installed(name: &str) -> bool {
    installed(name).next().is_some()
}

/// Programs that the bench's scripts have built: in the target folder, in `poolers`.
fn built(program: &str) -> Option<PathBuf> {
    let path = env::current_exe().ok()?.parent()?.parent()?.join("poolers").join(program);
    path.is_file().then_some(path)
}

/// Pgpool-II: the one named, or the one installed.
pub(crate) fn pgpool(named: Option<&Path>) -> Option<Program> {
    versioned(named.map(Path::to_owned).or_else(|| installed("pgpool").next())?)
}

/// In PATH, or in the folders where distributions put programs for root.
fn installed(program: &str) -> impl DoubleEndedIterator<Item = PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin", "/usr/bin"].map(PathBuf::from));
    let paths: Vec<_> = folders.map(|folder| folder.join(program)).filter(|path| path.is_file()).collect();
    paths.into_iter()
}

/// Weir: the named program, or the release build beside this one, whether or not this one is a release build.
pub(crate) fn weir(named: Option<&Path>) -> Outcome<Program> {
    let beside = || {
        let folder = env::current_exe().ok()?.parent()?.to_owned();
        let places = [folder.join("weir"), folder.join("../release/weir")];
        // The figures of a debug build would look real, and would prove nothing.
        places.into_iter().filter_map(|path| path.canonicalize().ok()).find(|path| is_release(path))
    };
    let path = named.map(Path::to_owned).or_else(beside).ok_or_else(|| Error::new(GET_WEIR))?;
    versioned(path.clone()).ok_or_else(|| Error::new(format!("{} does not run: {GET_WEIR}", path.display())))
}

/// This program, of which the bare forwarder is a command.
pub(crate) fn ourselves() -> Outcome<Program> {
    let path = env::current_exe().map_err(|e| Error::at("find this program", e))?;
    if !is_release(&path) {
        return Err(Error::new("the bare forwarder is measured in a release build only: run `make bench`"));
    }
    Ok(Program { path, version: String::new() })
}

fn is_release(path: &Path) -> bool {
    path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "release")
}

/// Asks a program, which is run from any folder, for its version: `PgBouncer 1.18.0`, `weir 0.1.0`, `pgpool-II version
/// 4.3.5 (tamahomeboshi)`.
fn versioned(path: PathBuf) -> Option<Program> {
    let path = path.canonicalize().unwrap_or(path);
    let output = Command::new(&path).arg("--version").output().ok()?;
    // Pgpool-II prints its version to stderr.
    let said = [output.stdout, output.stderr].concat();
    let version = version(&String::from_utf8_lossy(&said))?;
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
    numbers(version).as_slice() >= [1, 21].as_slice()
}

/// The parts of a version, to compare it.
fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_programs_say() {
        assert_eq!(version("PgBouncer 1.18.0\nlibevent 2.1.12-stable").as_deref(), Some("1.18.0"));
        assert_eq!(version("weir 0.1.0 (PgBouncer 1.25.2)").as_deref(), Some("0.1.0"));
        assert_eq!(version("pgpool-II version 4.3.5 (tamahomeboshi)").as_deref(), Some("4.3.5"));
        assert_eq!(version("usage: what"), None);
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert!(numbers("1.25.2") > numbers("1.18.0") && numbers("1.9.0") < numbers("1.18.0"));
        assert!(numbers("2.0") > numbers("1.25.2"));
    }

    #[test]
    fn prepared_statements_came_with_1_21() {
        assert!(!has_prepared("1.18.0") && !has_prepared("1.20.1"));
        assert!(has_prepared("1.21.0") && has_prepared("1.25.2") && has_prepared("2.0"));
    }

    #[test]
    fn only_a_release_build_is_measured_by_default() {
        assert!(is_release(Path::new("/x/target/release/weir")));
        assert!(!is_release(Path::new("/x/target/debug/weir")));
    }
}
