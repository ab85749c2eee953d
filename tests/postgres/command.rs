//! The command line: one clear line for each mistake, and the exit status for scripts.

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Output};

use weir_pglocal::TempFolder;
use weir_tests::{Mode, Postgres, Setup, Site, users, weir_binary};

/// Runs a weir command that ends by itself; one that serves instead is stopped after a while: status 124.
fn run(arguments: &[&str]) -> Output {
    let within = ["--kill-after=1", "20"];
    Command::new("timeout").args(within).arg(weir_binary()).args(arguments).output().expect("weir runs")
}

/// The only line on stderr of a start that must fail with status 1: one of the log.
#[track_caller]
fn one_line(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.trim_end().lines().count(), 1, "one line: {stderr}");
    assert!(stderr.starts_with("20") && stderr.contains("] FATAL "), "{stderr}");
    stderr
}

/// The error of `weir serve` for this configuration.
#[track_caller]
fn refused(toml: &str) -> String {
    let folder = TempFolder::new().unwrap();
    let file = folder.path().join("weir.toml");
    fs::write(&file, toml).unwrap();
    one_line(&run(&["serve", file.to_str().unwrap()]))
}

const START: &str = "[auth.users]\napp = \"hush\"\n[pools.app]\nhost = \"127.0.0.1\"\n";

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_nearest_that_exists() {
    let line = refused(&format!("{START}sise = 20\n"));
    assert!(line.contains("weir.toml:5:") && line.contains("sise") && line.contains("size"), "{line}");
}

#[test]
fn a_value_out_of_range_is_named_with_its_line() {
    for wrong in
        ["size = 99999999999", "size = -1", "size = \"many\"", "mode = \"sometimes\"", "query_wait_timeout = \"soon\""]
    {
        let line = refused(&format!("{START}{wrong}\n"));
        assert!(line.contains("weir.toml:5:"), "{wrong}: {line}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let line = one_line(&run(&["serve", "/no/such/weir.toml"]));
    assert!(line.contains("/no/such/weir.toml"), "{line}");
    let line = refused("[auth]\nfile = \"nowhere.txt\"\n[pools.app]\nhost = \"127.0.0.1\"\n");
    assert!(line.contains("nowhere.txt"), "{line}");
    let line = refused(&format!("{START}user = \"app\"\npassword_file = \"secret.txt\"\n"));
    assert!(line.contains("secret.txt"), "{line}");
}

#[test]
fn a_port_in_use_is_reported_and_nothing_starts() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let line = refused(&format!("[listen]\nport = {port}\n{START}"));
    assert!(line.contains(&port.to_string()) && line.contains("in use"), "{line}");
}

#[test]
fn a_port_of_the_api_in_use_ends_the_start_and_names_the_setting_and_the_program() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let free = weir_pglocal::free_port().unwrap();
    let folder = TempFolder::new().unwrap();
    let file = folder.path().join("weir.toml");
    let web = format!("[listen]\nport = {free}\n[web]\naddress = \"127.0.0.1\"\nport = {port}\n{START}");
    fs::write(&file, web).unwrap();
    let output = run(&["serve", file.to_str().unwrap()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    let begin = format!("FATAL can't listen on 127.0.0.1:{port}: the address is in use by ");
    let end =
        format!("(process {}); stop it, or set another port ([web] port; web_port in an ini)", std::process::id());
    assert!(last.contains(&begin) && last.ends_with(&end), "{stderr}");
}

#[test]
fn check_warns_of_a_port_in_use_and_not_of_a_weir_that_serves_the_file() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let folder = TempFolder::new().unwrap();
    let file = folder.path().join("weir.toml");
    fs::write(&file, format!("[listen]\nport = {port}\n{START}user = \"app\"\n")).unwrap();
    let checked = run(&["check", file.to_str().unwrap()]);
    let printed = String::from_utf8(checked.stdout).unwrap();
    let named =
        format!("(process {}) listens on 127.0.0.1:{port} now; stop it, or set another port", std::process::id());
    assert!(printed.contains("weir.toml:2: ") && printed.contains(&named), "{printed}");
    assert!(printed.contains("can be served, with ") && checked.status.success(), "{printed}");

    let site = Site::transaction(1);
    let checked = run(&["check", site.weir().folder().join("weir.toml").to_str().unwrap()]);
    let printed = String::from_utf8(checked.stdout).unwrap();
    assert!(!printed.contains("now; stop it"), "{printed}");
}

#[test]
fn a_wrong_command_line_exits_with_2() {
    for arguments in [&["serve"][..], &["fly"], &["serve", "a", "b"], &["--no-such-flag"]] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
}

#[test]
fn version_and_help_are_answered() {
    let version = run(&["--version"]);
    assert!(version.status.success());
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("weir "));
    for arguments in [&["--help"][..], &["serve", "--help"], &["check", "--help"]] {
        assert!(run(arguments).status.success(), "{arguments:?}");
    }
}

#[test]
fn check_prints_the_configuration_and_tries_the_servers_on_request() {
    let database = Postgres::shared().database();
    let folder = TempFolder::new().unwrap();
    let file = folder.path().join("weir.toml");
    let check = |setup: Setup, arguments: &[&str]| {
        fs::write(&file, setup.toml(&database).replace("{port}", "6432")).unwrap();
        fs::write(folder.path().join("userlist.txt"), setup.userlist()).unwrap();
        let output = run(&[&["check", file.to_str().unwrap()], arguments].concat());
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        (output.status.code(), printed)
    };
    let (status, printed) = check(Setup::new(Mode::Transaction), &[]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.contains(database.name()) && printed.contains("transaction"), "{printed}");
    let (status, printed) = check(Setup::new(Mode::Transaction), &["--connect"]);
    assert_eq!(status, Some(0), "{printed}");
    let wrong = weir_tests::User { password: "wrong", ..users::APP };
    let (status, printed) = check(Setup::new(Mode::Transaction).server_user(wrong), &["--connect"]);
    assert_eq!(status, Some(1), "{printed}");
    assert!(printed.contains("password authentication failed"), "{printed}");
    assert!(!printed.contains("secret\""), "no password is shown: {printed}");
    // What a client's login provides is not here, and the pool can be served.
    let stored = "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'";
    let verifier = database.postgres().superuser("postgres").value(stored).unwrap().expect("a secret");
    let setup = Setup::new(Mode::Transaction).no_server_user().secret("app", &verifier).pool("user = \"app\"");
    let (status, printed) = check(setup, &["--connect"]);
    assert_eq!(status, Some(0), "{printed}");
    assert!(printed.contains("the pool has it when this user has logged in to Weir as a client"), "{printed}");
}
