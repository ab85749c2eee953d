//! PostgreSQL's programs that are installed on this machine.
//!
//! Looked for in the order of how sure we can be that the operator means them: PATH, `pg_config --bindir`, the folders
//! of distributions (newest first). Changes nothing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::account;

/// The oldest PostgreSQL that a temporary server is made with: the oldest whose settings and files are as we write
/// them.
pub(crate) const OLDEST: u32 = 12;

/// Folders of programs, one for each version or package, as distributions lay them out: a folder, and what follows the
/// version in it.
const FOLDERS: [(&str, &str, &str); 7] = [
    ("/usr/lib/postgresql", "", "bin"),          // Debian, Ubuntu
    ("/usr", "pgsql-", "bin"),                   // Red Hat, from PostgreSQL's own repository
    ("/usr/libexec", "postgresql", ""),          // Alpine
    ("/usr/lib64", "pgsql", "bin"),              // openSUSE
    ("/opt/homebrew/opt", "postgresql@", "bin"), // Homebrew on Apple silicon
    ("/usr/local/opt", "postgresql@", "bin"),    // Homebrew on Intel
    ("/Library/PostgreSQL", "", "bin"),          // the macOS installer
];

/// Where a set of programs came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The programs were on the machine.
    Installed,
    /// The programs lie in our cache folder, from a package of npm or pip.
    Fetched,
}

/// PostgreSQL's programs: a folder that holds at least `postgres` and `initdb` of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    bin: PathBuf,
    version: String,
    major: u32,
    origin: Origin,
}

impl Programs {
    /// Looks into one folder; `None` unless a usable `postgres` and its `initdb` are there and we may run them.
    pub(crate) fn in_folder(bin: &Path, origin: Origin) -> Option<Programs> {
        let bin = bin.join("postgres").canonicalize().ok()?.parent()?.to_owned();
        if !bin.join("initdb").exists() || !usable_by_server(&bin) {
            return None;
        }
        let output = Command::new(bin.join("postgres")).arg("--version").output().ok()?;
        let version = version_of(&String::from_utf8_lossy(&output.stdout))?;
        let major = major_of(&version).filter(|major| *major >= OLDEST)?;
        Some(Programs { bin, version, major, origin })
    }

    /// The folder.
    pub fn bin(&self) -> &Path {
        &self.bin
    }

    /// The version as PostgreSQL writes it: `15.18`, `18beta1`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The major version.
    pub fn major(&self) -> u32 {
        self.major
    }

    /// Where the programs came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The server.
    pub fn postgres(&self) -> PathBuf {
        self.bin.join("postgres")
    }

    /// The program that makes a server's data folder.
    pub fn initdb(&self) -> PathBuf {
        self.bin.join("initdb")
    }

    /// psql: beside the server, or else in PATH; some packages carry none.
    pub fn psql(&self) -> Option<PathBuf> {
        self.tool("psql")
    }

    /// pgbench: beside the server, or else in PATH; some packages carry none.
    pub fn pgbench(&self) -> Option<PathBuf> {
        self.tool("pgbench")
    }

    fn tool(&self, name: &str) -> Option<PathBuf> {
        let mut folders = path_folders();
        folders.insert(0, self.bin.clone());
        folders.into_iter().map(|folder| folder.join(name)).find(|path| path.is_file())
    }
}

/// The programs that are installed on this machine, if any. Changes nothing.
pub fn find_installed() -> Option<Programs> {
    installed_folders().into_iter().find_map(|folder| Programs::in_folder(&folder, Origin::Installed))
}

pub(crate) fn installed_folders() -> Vec<PathBuf> {
    let in_path = path_folders();
    let by_config = config_bindir();
    let listed = FOLDERS.iter().flat_map(|(root, prefix, suffix)| versions(Path::new(root), prefix, suffix));
    in_path.into_iter().chain(by_config).chain(listed).collect()
}

fn path_folders() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

/// Where `pg_config` says the programs are. It belongs to the client's headers, so it may be there without them.
fn config_bindir() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let line = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(line.trim())).filter(|folder| folder.is_absolute())
}

/// The folders `root/prefix<version>/suffix`, the newest version first.
fn versions(root: &Path, prefix: &str, suffix: &str) -> Vec<PathBuf> {
    let Ok(entries) = root.read_dir() else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut found: Vec<(u32, String)> = names
        .filter_map(|name| {
            let version = name.strip_prefix(prefix)?;
            // openSUSE writes 15 as "15", PostgreSQL 9.6 as "96": too old either way.
            Some((version.parse().unwrap_or(0), name.clone()))
        })
        .filter(|(_, name)| prefix.is_empty() || name.starts_with(prefix))
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, name)| root.join(name).join(suffix)).collect()
}

/// Root's servers run as another user, who must be able to reach the programs.
fn usable_by_server(bin: &Path) -> bool {
    !nix::unistd::geteuid().is_root() || account::open_to_others(bin)
}

/// `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)` is version `15.18`.
fn version_of(line: &str) -> Option<String> {
    line.split_once("(PostgreSQL) ")?.1.split_whitespace().next().map(str::to_owned)
}

fn major_of(version: &str) -> Option<u32> {
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::TempFolder;

    #[test]
    fn versions_are_read_from_what_postgres_says() {
        let version = version_of("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n").unwrap();
        assert_eq!((version.as_str(), major_of(&version)), ("15.18", Some(15)));
        assert_eq!(major_of("19beta1"), Some(19));
        assert_eq!(version_of("bash: postgres: command not found"), None);
    }

    #[test]
    fn the_newest_version_of_a_distribution_comes_first() {
        let root = TempFolder::new().unwrap();
        for name in ["9.6", "15", "17", "notes"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        let found = versions(root.path(), "", "bin");
        assert_eq!(found[..2], [root.path().join("17/bin"), root.path().join("15/bin")]);
    }

    #[test]
    fn a_folder_without_postgres_is_passed_by() {
        assert_eq!(Programs::in_folder(Path::new("/usr/share"), Origin::Installed), None);
    }
}
