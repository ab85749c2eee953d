//! Debian's and Ubuntu's own packages of PostgreSQL, downloaded by apt-get and unpacked into a folder of ours.
//!
//! Nothing is installed, so no root is needed and no server starts. apt-get checks the distribution's signatures; its
//! lists lie in a folder of ours as well, because only root may renew those of the machine. Taken are the server, its
//! client programs, and the libraries that this machine lacks; not LLVM, without which PostgreSQL compiles no queries.
//!
//! The programs look for their data files beside themselves, but for their libraries in the system: a script for each
//! sets the path of the libraries and calls the program.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::{command_line, failure, in_path};

/// The folder's name in the cache; the number changes with the layout.
pub(crate) const FOLDER: &str = "apt-1";
/// What is done, for an offer.
pub(crate) const TITLE: &str =
    "the distribution's packages of PostgreSQL with apt-get (30 to 60 MB, signed by the distribution)";
/// Where PostgreSQL built by Debian looks for time zones; the only file outside of its packages that it needs.
const TIME_ZONES: &str = "/usr/share/zoneinfo/UTC";

/// Whether this machine has the programs for it.
pub(crate) fn is_here() -> bool {
    ["apt-get", "dpkg-deb", "tar"].into_iter().all(in_path)
}

/// The folder of the programs in `folder`.
pub(crate) fn programs(folder: &Path) -> PathBuf {
    folder.join("bin")
}

/// Downloads and unpacks into `folder`, which need not exist and appears only when all is there. An error is one line.
pub(crate) fn fetch_into(folder: &Path) -> Result<(), String> {
    if !Path::new(TIME_ZONES).exists() {
        return Err(format!("{TIME_ZONES} is missing: install the package tzdata"));
    }
    // Another process may do the same now.
    let work = folder.with_extension(format!("{}.part", std::process::id()));
    let outcome = fetch(&work, folder);
    let _ = fs::remove_dir_all(&work);
    outcome
}

fn fetch(work: &Path, folder: &Path) -> Result<(), String> {
    let apt = Apt::new(work)?;
    apt.run(&["update"])?;
    let plan = apt.run(&["--simulate", "install", "postgresql"])?;
    let names = wanted(&plan);
    if names.is_empty() {
        return Err("apt-get knows no package of PostgreSQL's server".to_owned());
    }
    let words: Vec<&str> = std::iter::once("download").chain(names.iter().map(String::as_str)).collect();
    apt.run(&words)?;
    let root = make(&work.join("ready/root"))?;
    for package in entries(&apt.packages)? {
        let output = Command::new("dpkg-deb").arg("--extract").arg(&package).arg(&root).output();
        failure(output).map_or(Ok(()), |reason| Err(format!("{}: {reason}", package.display())))?;
    }
    write_scripts(&work.join("ready"), folder)?;
    match fs::rename(work.join("ready"), folder) {
        Err(error) if !programs(folder).exists() => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

/// apt-get with folders of ours.
struct Apt {
    options: Vec<String>,
    packages: PathBuf,
}

impl Apt {
    fn new(work: &Path) -> Result<Self, String> {
        make(&work.join("lists/partial"))?;
        make(&work.join("cache/archives/partial"))?;
        let packages = make(&work.join("packages"))?;
        let work = work.display();
        let options = [
            format!("Dir::State::lists={work}/lists"),
            format!("Dir::Cache={work}/cache"),
            format!("Dir::Log={work}"),
            "Debug::NoLocking=1".to_owned(),
            // Root's apt-get would drop to a user that can't write here, and a process without capabilities can't drop.
            "APT::Sandbox::User=root".to_owned(),
            "APT::Install-Recommends=false".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=2".to_owned(),
        ];
        Ok(Apt { options: options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect(), packages })
    }

    /// What apt-get writes to its standard output.
    fn run(&self, words: &[&str]) -> Result<String, String> {
        let mut command = command_line(&["apt-get", "--quiet", "--yes"]);
        command.args(&self.options).args(words).env("LC_ALL", "C").current_dir(&self.packages);
        let output = command.output().map_err(|error| format!("apt-get: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        failure(Ok(output)).map_or(Ok(text), |reason| Err(format!("apt-get {}: {reason}", words[0])))
    }
}

/// The packages to take of those that apt-get would install: "Inst postgresql-15 (15.18-0+deb12u1 …)".
fn wanted(plan: &str) -> Vec<String> {
    let names = plan.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    let all: Vec<&str> = names.collect();
    let is_server = |name: &str| name.strip_prefix("postgresql-").is_some_and(is_number);
    if !all.iter().any(|name| is_server(name)) {
        return Vec::new();
    }
    let is_library = |name: &str| {
        name.starts_with("lib") && !["libllvm", "libz3", "libperl"].iter().any(|other| name.starts_with(other))
    };
    let taken = |name: &&&str| {
        let client = name.strip_prefix("postgresql-client-").is_some_and(is_number);
        client || is_server(name) || is_library(name) && !name.ends_with("-perl")
    };
    all.iter().filter(taken).map(|name| (*name).to_owned()).collect()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Writes `bin`, whose scripts will be called in `folder`.
fn write_scripts(ready: &Path, folder: &Path) -> Result<(), String> {
    let server = entries(&ready.join("root/usr/lib/postgresql"))?.pop().ok_or("the packages hold no server")?;
    // PostgreSQL's library for compiled queries needs LLVM; where the file is missing, PostgreSQL does without.
    let _ = fs::remove_file(server.join("lib/llvmjit.so"));
    let _ = fs::remove_dir_all(server.join("lib/bitcode"));
    let place = |path: &Path| path.strip_prefix(ready).map_or_else(|_| path.to_owned(), |below| folder.join(below));
    let libraries: Vec<String> = ["root/usr/lib", "root/lib"]
        .iter()
        .flat_map(|below| entries(&ready.join(below)).unwrap_or_default())
        .filter(|path| path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().contains("-linux-")))
        .map(|path| place(&path).display().to_string())
        .collect();
    let libraries = quoted(&libraries.join(":"));
    let bin = make(&ready.join("bin"))?;
    for program in entries(&server.join("bin"))? {
        let script = bin.join(program.file_name().unwrap_or_default());
        let program = quoted(&place(&program).display().to_string());
        let text = format!("#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {program} \"$@\"\n");
        let written =
            fs::write(&script, text).and_then(|()| fs::set_permissions(&script, Permissions::from_mode(0o755)));
        written.map_err(|error| format!("{}: {error}", script.display()))?;
    }
    Ok(())
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = folder.read_dir().map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    Ok(paths)
}

/// Makes a folder that other users may enter: root's servers run as one of them.
fn make(folder: &Path) -> Result<PathBuf, String> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(folder);
    made.map(|()| folder.to_owned()).map_err(|error| format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TempFolder;

    #[test]
    fn the_server_its_client_and_libraries_are_taken_from_a_plan() {
        let plan = "Reading package lists...\n\
                    Inst libjson-perl (4.10000-1 Debian:12.11/stable [all])\n\
                    Inst postgresql-common (248 Debian:12.11/stable [all])\n\
                    Inst libllvm14 (1:14.0.6-12 Debian:12.11/stable [amd64])\n\
                    Inst libpq5 (15.18-0+deb12u1 Debian:12.11/stable [amd64])\n\
                    Inst postgresql-client-15 (15.18-0+deb12u1 Debian:12.11/stable [amd64])\n\
                    Inst postgresql-client-common (248 Debian:12.11/stable [all])\n\
                    Inst postgresql-15 (15.18-0+deb12u1 Debian:12.11/stable [amd64])\n\
                    Inst postgresql (15+248 Debian:12.11/stable [all])\n\
                    Conf libpq5 (15.18-0+deb12u1 Debian:12.11/stable [amd64])\n";
        assert_eq!(wanted(plan), ["libpq5", "postgresql-client-15", "postgresql-15"]);
        assert!(wanted("Inst libpq5 (15)\n").is_empty(), "without a server there is nothing to take");
    }

    #[test]
    fn a_script_sets_the_libraries_and_passes_its_arguments_on() {
        let place = TempFolder::new().unwrap();
        let (ready, folder) = (place.path().join("ready"), place.path().join("it's"));
        let bin = make(&ready.join("root/usr/lib/postgresql/15/bin")).unwrap();
        make(&ready.join("root/usr/lib/x86_64-linux-gnu")).unwrap();
        let program = bin.join("postgres");
        fs::write(&program, "#!/bin/sh\necho \"$LD_LIBRARY_PATH\" \"$#\" \"$2\"\n").unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        write_scripts(&ready, &folder).unwrap();
        fs::rename(&ready, &folder).unwrap();
        let output = Command::new(programs(&folder).join("postgres")).args(["-c", "a  b"]).output().unwrap();
        let expected = format!("{}/root/usr/lib/x86_64-linux-gnu 2 a  b\n", folder.display());
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    }
}
