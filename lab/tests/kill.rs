//! A lab that is killed, at whatever moment and by whatever signal, leaves no process and no folder behind.
//!
//! Runs the built `weir-lab` with a temporary folder of its own, so that whatever is left can be told from everybody
//! else's. What is not here (PostgreSQL, Node.js, a built `weir`) makes a test print so and pass.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::{Signal, find_installed, send_signal};

const LAB: &str = env!("CARGO_BIN_EXE_weir-lab");

/// How long clearing up may take: a caretaker gives servers six seconds to end by themselves, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(15);

/// When to kill, in ms after the start: while programs are looked for, while drivers are installed, while servers are made, and
/// while something is measured.
const MOMENTS: [u64; 4] = [300, 1000, 3000, 6000];

#[test]
fn node_is_gone_after_sigkill_at_any_moment() {
    let Some(weir) = needed(&["node", "npm"]) else { return };
    for moment in MOMENTS {
        strike("node", &weir, moment, Signal::SIGKILL);
    }
}

#[test]
fn reconnect_is_gone_after_sigkill_at_any_moment() {
    let Some(weir) = needed(&[]) else { return };
    for moment in MOMENTS {
        strike("reconnect", &weir, moment, Signal::SIGKILL);
    }
}

#[test]
fn products_is_gone_after_sigkill_at_any_moment() {
    let Some(weir) = needed(&[]) else { return };
    for moment in MOMENTS {
        strike("products", &weir, moment, Signal::SIGKILL);
    }
}

#[test]
fn a_lab_that_is_told_to_end_clears_up_first() {
    let Some(weir) = needed(&["node", "npm"]) else { return };
    for (experiment, moment, signal) in [
        ("node", 4500, Signal::SIGINT),
        ("products", 6000, Signal::SIGINT),
        ("reconnect", 3500, Signal::SIGTERM),
        ("node", 2000, Signal::SIGHUP),
    ] {
        strike(experiment, &weir, moment, signal);
    }
}

/// Runs an experiment, ends it after `moment` ms by `signal`, and asserts that nothing of it is left.
fn strike(experiment: &str, weir: &Path, moment: u64, signal: Signal) {
    let place = Place::new();
    let what = format!("{experiment} after {moment} ms, {signal}");
    let mut lab = place.lab(experiment, weir);
    thread::sleep(Duration::from_millis(moment));
    let (before, running) = (place.processes(), lab.try_wait().expect("a child of ours").is_none());
    send_signal(lab.id(), signal);
    let status = wait(&mut lab, PATIENCE);
    eprintln!("{what}: {} processes before, running: {running}, then {status:?}", before.len());
    let status = status.unwrap_or_else(|| panic!("{what}: it goes on\n{}", place.said()));
    // The lab and its caretaker at least; or this test would not see what is left.
    assert!(!running || before.len() >= 2, "{what}: only {before:?}\n{}", place.said());
    match signal {
        _ if !running => eprintln!("{what}: it had ended already:\n{}", place.said()),
        Signal::SIGKILL => assert_eq!(status.signal(), Some(signal as i32), "{what}"),
        _ => {
            assert_eq!(status.code(), Some(128 + signal as i32), "{what}: {}", place.said());
            // What was ended under its hands is no result, and the run can be gone on with.
            assert_eq!(place.unfinished(), 1, "{what}: {}", place.said());
            assert!(!place.said().contains("failed"), "{what}: {}", place.said());
        }
    }
    let end = Instant::now() + PATIENCE;
    while !(place.processes().is_empty() && place.folders().is_empty()) && Instant::now() < end {
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(place.processes(), Vec::<String>::new(), "{what}: processes are left");
    assert_eq!(place.folders(), Vec::<PathBuf>::new(), "{what}: folders are left");
}

/// The `weir` to measure, if it and all programs that a test needs are here.
fn needed(programs: &[&str]) -> Option<PathBuf> {
    let folder = Path::new(LAB).parent()?;
    let named = env::var_os("WEIR_LAB_TEST_WEIR").map(PathBuf::from);
    let places = named.into_iter().chain([folder.join("weir"), folder.join("../release/weir")]);
    let weir = places.into_iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
    let path = env::var_os("PATH").unwrap_or_default();
    let here = |program: &&&str| env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let lacking = if weir.is_none() {
        Some("a built weir (WEIR_LAB_TEST_WEIR names one)")
    } else if find_installed().is_none() {
        Some("PostgreSQL")
    } else {
        programs.iter().find(|program| !here(program)).copied()
    };
    if let Some(lacking) = lacking {
        eprintln!("skipped: this needs {lacking}");
        return None;
    }
    weir
}

/// A temporary folder for one lab, short enough for sockets, and open to the user that servers run as where we are root.
struct Place {
    path: PathBuf,
}

impl Place {
    fn new() -> Place {
        let name = format!("/tmp/wl-{:08x}", RandomState::new().build_hasher().finish() >> 32);
        let path = PathBuf::from(name);
        DirBuilder::new().mode(0o755).create(&path).expect("a new folder below /tmp");
        // Where the report goes; whoever reads the folder's name finds it in the lab's working directory as well.
        fs::create_dir(path.join("here")).expect("a folder in ours");
        Place { path }
    }

    /// Starts an experiment.
    fn lab(&self, experiment: &str, weir: &Path) -> Child {
        let said = fs::File::create(self.path.join("said")).expect("a file in our folder");
        let mut command = Command::new(LAB);
        command.args([experiment, "--smoke", "--fresh", "--weir"]).arg(weir);
        command.env("TMPDIR", &self.path).current_dir(self.path.join("here")).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said);
        command.spawn().expect("the lab starts")
    }

    /// What it said, for a failure's message.
    fn said(&self) -> String {
        fs::read_to_string(self.path.join("said")).unwrap_or_default()
    }

    /// How many runs have a journal and no report.
    fn unfinished(&self) -> usize {
        let runs = fs::read_dir(self.path.join("here/weir-lab")).expect("a folder for runs").flatten();
        let paths = runs.map(|entry| entry.path());
        paths.filter(|run| run.join("run.json").exists() && !run.join("report.json").exists()).count()
    }

    /// The processes that work in the folder, or that name it: command lines, with ids.
    fn processes(&self) -> Vec<String> {
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

    /// The folders that labs and servers make for themselves.
    fn folders(&self) -> Vec<PathBuf> {
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

fn wait(child: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let end = Instant::now() + patience;
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
