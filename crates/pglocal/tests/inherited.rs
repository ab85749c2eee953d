//! Started with signals ignored, as under nohup or by a shell in the background: what we start receives them all the
//! same.
//!
//! Each test runs itself once more in a process of its own, which begins with ignored signals and with standard input
//! closed.

use std::env;
use std::fs;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use weir_pglocal::{
    Options, Reaper, Server, Signal, TempFolder, is_ignored, restore_signals_for_children, send_signal,
};

/// Tells a test that it is the one within.
const WITHIN: &str = "WEIR_TEST_WITHIN";
const ENDING: [Signal; 4] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM];

/// Whether this process began with signals ignored; otherwise runs the test again in one that does.
fn is_within(test: &str) -> bool {
    if env::var_os(WITHIN).is_some() {
        assert!(ENDING.into_iter().all(is_ignored));
        return true;
    }
    let output = Command::new("sh")
        .args(["-c", "trap '' HUP INT QUIT TERM; exec \"$0\" \"$@\" <&-"])
        .arg(env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(WITHIN, "1")
        .output()
        .unwrap();
    let output_text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && output_text.contains("1 passed"), "{output_text}");
    false
}

#[test]
fn children_receive_the_signals_that_their_parent_ignores() {
    if !is_within("children_receive_the_signals_that_their_parent_ignores") {
        return;
    }
    let mut before = Command::new("sleep").arg("60").spawn().unwrap();
    restore_signals_for_children();
    assert!(is_ignored(Signal::SIGINT), "what it began with is not forgotten");
    for signal in ENDING {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        send_signal(child.id(), signal);
        assert!(!child.wait().unwrap().success());
        // This process ignores it as before.
        send_signal(std::process::id(), signal);
    }
    send_signal(before.id(), Signal::SIGINT);
    thread::sleep(Duration::from_millis(100));
    assert!(before.try_wait().unwrap().is_none(), "one that was started before ignores it");
    before.kill().unwrap();
    before.wait().unwrap();
}

#[test]
fn a_server_stops_in_order_and_is_cleared_away() {
    if !is_within("a_server_stops_in_order_and_is_cleared_away") {
        return;
    }
    let server = Server::start(Options::default()).unwrap();
    let folder = server.socket_dir().to_owned();
    server.execute("postgres", "create table t (a int)").unwrap();
    server.restart().unwrap();
    assert!(server.log().contains("received fast shutdown request"), "{}", server.log());
    server.reaper().clear();
    assert!(!folder.exists());
    let works_there = |entry: &fs::DirEntry| {
        fs::read_link(entry.path().join("cwd")).is_ok_and(|folder_of| folder_of.starts_with(&folder))
    };
    assert_eq!(fs::read_dir("/proc").unwrap().flatten().filter(works_there).count(), 0);
}

#[test]
fn a_reaper_ends_what_it_watches() {
    if !is_within("a_reaper_ends_what_it_watches") {
        return;
    }
    let folder = TempFolder::new().unwrap();
    let reaper = Reaper::of(folder.path()).unwrap();
    let mut watched = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
    reaper.watch(watched.id());
    reaper.clear();
    let end = Instant::now() + Duration::from_secs(10);
    while watched.try_wait().unwrap().is_none() {
        assert!(Instant::now() < end, "it continues");
        thread::sleep(Duration::from_millis(20));
    }
}
