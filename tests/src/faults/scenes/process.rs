//! The pooler's own process: without descriptors, unable to log, stopped, killed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use weir_pgclient::Connection;
use weir_pglocal::{Signal, TempFolder, proc, send_signal};

use super::super::pooler::{Kind, Pooler};
use super::super::report::Report;
use super::super::stage::{Scene, Stage};
use super::super::{Trial, shared_server};
use crate::watch::{eventually, within};

/// Clients that connect while there is no descriptor for them.
const MORE: usize = 40;
/// The kernel's unit of CPU time: a second has a hundred.
const TICKS: f64 = 100.0;

pub(in super::super) fn descriptors(trial: &Trial) -> Report {
    let mut stage = Scene::on(trial, &shared_server()).open();
    let (late, busy) = stage.strike(|stage| {
        let pid = stage.pooler.pid();
        let open = proc::descriptors(pid).unwrap_or(100) as u64;
        let usual = set_descriptors(pid, open + 2);
        let params = stage.pooler.params(stage.pooler.port()).timeout(Duration::from_secs(60));
        let come = |params| move || Connection::connect(&params).and_then(|mut client| client.value("SELECT 1"));
        let late: Vec<_> = (0..MORE).map(|_| thread::spawn(come(params.clone()))).collect();
        let (before, begin) = (proc::cpu(pid), Instant::now());
        stage.last();
        let used = proc::cpu(pid).zip(before).map_or(0, |(now, before)| now.since(before).total());
        let busy = used as f64 / TICKS / begin.elapsed().as_secs_f64();
        set_descriptors(pid, usual);
        (late, busy)
    });
    let outcomes: Vec<_> = late.into_iter().map(|client| client.join().expect("no panic")).collect();
    let served = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    if trial.kind == Kind::Weir {
        assert_eq!(served, MORE, "new clients are served later: {outcomes:?}");
        let refusals = stage.pooler.log().matches("could not accept a client").count();
        assert_eq!(refusals, 1, "said once:\n{}", stage.log());
        assert!(busy < 0.9, "the pooler spins: {busy:.2} of a processor");
    }
    stage.note = format!("{served} of {MORE} late clients served, {busy:.2} of a processor meanwhile");
    stage.finish()
}

/// Sets the soft limit of a running process, and returns the old one.
fn set_descriptors(pid: u32, limit: u64) -> u64 {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let hard = line.split_whitespace().nth(4).and_then(|word| word.parse().ok());
    let pid = Pid::from_raw(i32::try_from(pid).unwrap_or(0));
    let old = prlimit(pid, Resource::Nofile, Rlimit { current: Some(limit), maximum: hard });
    old.unwrap_or_else(|error| panic!("prlimit: {error}")).current.unwrap_or(u64::MAX)
}

pub(in super::super) fn log_full(trial: &Trial) -> Report {
    let folder = TempFolder::new().unwrap_or_else(|error| panic!("{error}"));
    // PgBouncer runs as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("our own folder");
    let log = folder.path().join("pooler.log");
    let mut stage = Scene::on(trial, &shared_server()).ini(|ini| ini.set("logfile", log.display())).open();
    stage.strike(|stage| {
        // As logrotate does it: another file under this name, and a signal to the pooler.
        fs::rename(&log, folder.path().join("kept")).expect("it logs");
        symlink("/dev/full", &log).expect("our own link");
        send_signal(stage.pooler.pid(), Signal::SIGHUP);
        let begin = Instant::now();
        let params = stage.pooler.params(stage.pooler.port());
        while begin.elapsed() < trial.lasts() {
            drop(Connection::connect(&params));
            thread::sleep(Duration::from_millis(2));
        }
        fs::remove_file(&log).expect("our own name");
        send_signal(stage.pooler.pid(), Signal::SIGHUP);
    });
    if trial.kind == Kind::Weir {
        stage.note = eventually("the log reports lost lines", || {
            let text = fs::read_to_string(&log).unwrap_or_default();
            let line = text.lines().find(|line| line.contains("lines of the log were lost"));
            line.map(|line| format!("the log: “{}”", line.split("WARNING ").last().unwrap_or(line))).ok_or(text)
        });
    }
    stage.finish()
}

pub(in super::super) fn stopped(trial: &Trial) -> Report {
    // No query took longer than query_timeout at the server: the replies arrived in time, but no process read them. And
    // a client that waits for a server may wait for query_wait_timeout, which is longer than this stop.
    let mut stage = Scene::on(trial, &shared_server()).ini(|ini| ini.set("query_timeout", 1)).open();
    stage.strike(|stage| {
        send_signal(stage.pooler.pid(), Signal::SIGSTOP);
        stage.last();
        send_signal(stage.pooler.pid(), Signal::SIGCONT);
    });
    stage.finish()
}

pub(in super::super) fn killed(trial: &Trial) -> Report {
    let mut stage = Scene::on(trial, &shared_server()).due(&["closed", "reset", "refused"]).open();
    stage.strike(|stage| {
        stage.pooler.kill9();
        let begin = Instant::now();
        within(Duration::from_secs(30), "the servers are free again", || leftovers(stage));
        thread::sleep(trial.lasts().saturating_sub(begin.elapsed()));
        stage.pooler.start_again();
    });
    if let Pooler::Weir(weir) = &stage.pooler {
        assert!(weir.exited().is_none(), "weir serves again");
    }
    stage.finish()
}

fn leftovers(stage: &Stage<'_>) -> Result<(), Vec<(u32, String)>> {
    let left = stage.database.backends();
    if left.is_empty() { Ok(()) } else { Err(left) }
}
