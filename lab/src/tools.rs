//! The programs that experiments need: how each is found, its version, and how it is installed.
//!
//! Owns one table, an entry for each program. A program that is not found is a [`Missing`] with the command that
//! installs it; the lab itself installs nothing (`make lab-deps` does).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::model::Missing;

/// A program that the lab runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tool {
    Weir,
    Pgbouncer,
    Pgpool,
    Mariadb,
    MariadbInstall,
    Node,
    Npm,
    Go,
    Openssl,
}

/// The programs that the experiments need, which are installed, and how to get the others; a line each.
pub(crate) fn check() -> String {
    let line = |entry: &ToolEntry| match entry.tool.find(None) {
        Ok(program) => format!("  {:<20} {:<28} {}\n", entry.name, program.version, program.path.display()),
        Err(missing) => format!("  {:<20} missing: {}\n", entry.name, missing.get),
    };
    let postgres = match weir_pglocal::find_installed() {
        Some(programs) => format!("  {:<20} {:<28} {}\n", "PostgreSQL", "", programs.postgres().display()),
        None => format!("  {:<20} not installed: it is fetched when an experiment needs it\n", "PostgreSQL"),
    };
    TABLE.iter().map(line).chain([postgres]).collect()
}

/// A program's entry in the table.
struct ToolEntry {
    tool: Tool,
    /// The program's usual name.
    name: &'static str,
    /// The names of the program's file, the preferred one first.
    files: &'static [&'static str],
    /// Folders besides PATH.
    folders: &'static [&'static str],
    /// The arguments that print the program's version, on either stream.
    version: &'static [&'static str],
    /// How to install the program.
    get: &'static str,
}

/// The suffix of a debug build's version.
pub(crate) const DEBUG: &str = "(debug build)";

const SBIN: &[&str] = &["/usr/sbin", "/usr/local/sbin", "/usr/local/bin", "/usr/libexec"];

const TABLE: &[ToolEntry] = &[
    ToolEntry {
        tool: Tool::Weir,
        name: "Weir",
        files: &["weir"],
        folders: &[],
        version: &["--version"],
        get: "cargo build --release -p weir, or --weir /path/to/weir",
    },
    ToolEntry {
        tool: Tool::Pgbouncer,
        name: "PgBouncer",
        files: &["pgbouncer"],
        folders: SBIN,
        version: &["--version"],
        get: "apt-get install pgbouncer (Fedora: dnf install pgbouncer), or make lab-deps",
    },
    ToolEntry {
        tool: Tool::Pgpool,
        name: "Pgpool-II",
        files: &["pgpool"],
        folders: SBIN,
        version: &["--version"],
        get: "apt-get install pgpool2 (Fedora: dnf install pgpool-II), or make lab-deps",
    },
    ToolEntry {
        tool: Tool::Mariadb,
        name: "MariaDB",
        files: &["mariadbd", "mysqld"],
        folders: SBIN,
        version: &["--version"],
        get: "apt-get install mariadb-server (Fedora: dnf install mariadb-server), or make lab-deps",
    },
    ToolEntry {
        tool: Tool::MariadbInstall,
        name: "mariadb-install-db",
        files: &["mariadb-install-db", "mysql_install_db"],
        folders: SBIN,
        version: &[],
        get: "apt-get install mariadb-server (Fedora: dnf install mariadb-server), or make lab-deps",
    },
    ToolEntry {
        tool: Tool::Node,
        name: "Node.js",
        files: &["node", "nodejs"],
        folders: SBIN,
        version: &["--version"],
        get: "apt-get install nodejs npm (Fedora: dnf install nodejs), or make lab-deps",
    },
    ToolEntry {
        tool: Tool::Npm,
        name: "npm",
        files: &["npm"],
        folders: SBIN,
        version: &["--version"],
        get: "apt-get install nodejs npm (Fedora: dnf install nodejs), or make lab-deps",
    },
    ToolEntry {
        tool: Tool::Go,
        name: "Go",
        files: &["go"],
        folders: &["/usr/local/go/bin", "/usr/lib/go/bin"],
        version: &["version"],
        get: "apt-get install golang-go (Fedora: dnf install golang), or make lab-deps",
    },
    ToolEntry {
        tool: Tool::Openssl,
        name: "openssl",
        files: &["openssl"],
        folders: SBIN,
        version: &["version"],
        get: "apt-get install openssl (Fedora: dnf install openssl)",
    },
];

/// An installed program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// The program's usual name.
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    /// `1.18.0`, or empty if unknown.
    pub(crate) version: String,
}

impl Tool {
    /// Finds it: in PATH, then in the folders of distributions; Weir beside this program first.
    ///
    /// # Errors
    /// The program is missing, with how to get it; the caller decides the effect.
    pub(crate) fn find(self, weir: Option<&Path>) -> Result<Program, Missing> {
        let entry = self.entry();
        let path = match (self, weir) {
            (Tool::Weir, Some(named)) => Some(named.to_owned()),
            (Tool::Weir, None) => beside_us().or_else(|| entry.search()),
            _ => entry.search(),
        };
        let runs = |path: PathBuf| {
            let version = entry.ask_version(&path)?;
            Some(Program { name: entry.name, path, version })
        };
        path.and_then(runs).ok_or_else(|| self.missing())
    }

    fn missing(self) -> Missing {
        let entry = self.entry();
        Missing { what: entry.name.to_owned(), effect: String::new(), get: entry.get.to_owned() }
    }

    fn entry(self) -> &'static ToolEntry {
        TABLE.iter().find(|entry| entry.tool == self).expect("each tool has its entry")
    }
}

impl ToolEntry {
    fn search(&self) -> Option<PathBuf> {
        let path = env::var_os("PATH").unwrap_or_default();
        let folders: Vec<_> = env::split_paths(&path).chain(self.folders.iter().map(PathBuf::from)).collect();
        let found = |file: &&str| folders.iter().map(|folder| folder.join(file)).find(|path| path.is_file());
        self.files.iter().find_map(found)
    }

    /// `None` if it does not run.
    fn ask_version(&self, path: &Path) -> Option<String> {
        if self.version.is_empty() {
            return Some(String::new());
        }
        let output = Command::new(path).args(self.version).current_dir("/").output().ok()?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let version = version(&said)?;
        Some(if said.contains(DEBUG) { format!("{version} {DEBUG}") } else { version })
    }
}

/// The first word that looks like a version: `PgBouncer 1.18.0`, `pgpool-II version 4.3.5 (x)`, `go version go1.26.8`.
fn version(text: &str) -> Option<String> {
    let words = text.split_whitespace().map(|word| word.trim_start_matches("go").trim_start_matches('v'));
    let mut numbers = words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    numbers.next().map(|word| word.trim_end_matches([',', ')']).to_owned())
}

/// The `weir` of the same build as this program, or of the release build beside a debug one.
fn beside_us() -> Option<PathBuf> {
    let folder = env::current_exe().ok()?.parent()?.to_owned();
    // A test's program is one folder deeper.
    let places = ["weir", "../release/weir", "../weir"].map(|place| folder.join(place));
    places.into_iter().filter_map(|path| path.canonicalize().ok()).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_say() {
        for (said, wanted) in [
            ("PgBouncer 1.18.0\nlibevent 2.1.12-stable", "1.18.0"),
            ("pgpool-II version 4.3.5 (tamahomeboshi)", "4.3.5"),
            ("mariadbd  Ver 10.11.14-MariaDB-0+deb12u2 for debian-linux-gnu", "10.11.14-MariaDB-0+deb12u2"),
            ("go version go1.26.8 linux/amd64", "1.26.8"),
            ("v20.20.2", "20.20.2"),
            ("OpenSSL 3.0.17 1 Jul 2025 (Library: OpenSSL 3.0.17)", "3.0.17"),
        ] {
            assert_eq!(version(said).as_deref(), Some(wanted));
        }
        assert_eq!(version("usage: what"), None);
    }

    #[test]
    fn what_is_missing_says_how_to_get_it() {
        let missing = Tool::Weir.find(Some(Path::new("/no/such/weir"))).unwrap_err();
        assert!(missing.get.contains("cargo build"), "{missing:?}");
    }

    #[test]
    fn each_program_has_one_entry() {
        for entry in TABLE {
            assert_eq!(TABLE.iter().filter(|other| other.tool == entry.tool).count(), 1, "{}", entry.name);
        }
    }
}
