//! A temporary folder for one run of the built `weir-lab`, so that what it leaves behind can be attributed to it. If a
//! program is missing (PostgreSQL, Node.js, a built `weir`), a test prints so and passes.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::io::{Write, stderr};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::{find_here, restore_signals_for_children};

const LAB: &str = env!("CARGO_BIN_EXE_weir-lab");

/// The `weir` to measure, if it and all programs of a test are installed.
pub(crate) fn needed(programs: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(LAB).parent()?;
    let named = env::var_os("WEIR_LAB_TEST_WEIR").map(PathBuf::from);
    let places = named.into_iter().chain([folder.join("weir"), folder.join("../release/weir")]);
    let weir = places.into_iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
    let path = env::var_os("PATH").unwrap_or_default();
    let here = |program: &&&str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let lacking = if weir.is_none() {
        Some("a built weir (WEIR_LAB_TEST_WEIR names one)")
    } else if find_here().is_none() {
        Some("PostgreSQL")
    } else {
        programs.iter().find(|program| !here(program)).copied()
    };
    if let Some(lacking) = lacking {
        skipped(lacking);
        return None;
    }
    weir
}

/// Says that a test can't run here; not by eprintln!, which libtest hides.
pub(crate) fn skipped(lacking: &str) {
    let _ = writeln!(stderr(), "\nskipped: a test of the lab, which needs {lacking}");
}

/// A temporary folder for one lab, short enough for sockets, and accessible for the servers' user if we are root.
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Place {
        let name = format!("/tmp/wl-{:08x}", RandomState::new().build_hasher().finish() >> 32);
        let path = PathBuf::from(name);
        DirBuilder::new().mode(0o755).create(&path).expect("a new folder below /tmp");
        // The folder of the report, inside of the lab's working directory.
        fs::create_dir(path.join("here")).expect("a folder in ours");
        Place { path }
    }

    /// Starts a lab with these arguments.
    pub(crate) fn lab(&self, words: &[&str], weir: &Path) -> Child {
        self.start(Command::new(LAB), words, weir)
    }

    /// Starts a lab as `lab` does, with signals ignored, as under nohup and in the background of a shell.
    pub(crate) fn lab_with_signals_ignored(&self, words: &[&str], weir: &Path) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' HUP INT QUIT TERM; exec \"$0\" \"$@\"", LAB]);
        self.start(command, words, weir)
    }

    fn start(&self, mut command: Command, words: &[&str], weir: &Path) -> Child {
        // Also if this test itself runs with ignored signals.
        restore_signals_for_children();
        let said = fs::File::create(self.path.join("said")).expect("a file in our folder");
        command.args(words).arg("--weir").arg(weir);
        command.env("TMPDIR", &self.path).current_dir(self.working_folder()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        command.spawn().expect("the lab starts")
    }

    /// The working directory of labs.
    pub(crate) fn working_folder(&self) -> PathBuf {
        self.path.join("here")
    }

    /// The lab's output, for a failure's message.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.path.join("said")).unwrap_or_default()
    }

    /// The folders of the lab's runs.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        let runs = fs::read_dir(self.working_folder().join("weir-lab")).expect("a folder for runs").flatten();
        runs.map(|entry| entry.path()).collect()
    }

    /// The number of runs with a journal and no report.
    pub(crate) fn unfinished(&self) -> usize {
        self.runs().iter().filter(|run| run.join("run.json").exists() && !run.join("report.json").exists()).count()
    }

    /// The processes that work in the folder, or have it in their arguments: command lines, with ids.
    pub(crate) fn processes(&self) -> Vec<String> {
        let name = self.path.to_str().expect("the path is plain");
        let entries = fs::read_dir("/proc").expect("a Linux machine").flatten();
        let found = entries.filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let inside = fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.starts_with(&self.path));
            (inside || line.contains(name)).then(|| format!("{pid} {}", line.trim()))
        });
        found.collect()
    }

    /// The temporary folders of labs and servers.
    pub(crate) fn folders(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.path).expect("our folder is there").flatten().map(|entry| entry.path());
        entries
            .filter(|path| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"weir-")))
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

pub(crate) fn wait(child: &mut Child, timeout: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + timeout;
    loop {
        if let Some(status) = child.try_wait().expect("a child of ours") {
            return Some(status);
        }
        if Instant::now() > end {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(10));
    }
}
