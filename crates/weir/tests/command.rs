//! The command as a person meets it: exit statuses, one clear line, and what `check` says of real servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weir_pglocal::{Auth, Options, Server, TempFolder};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn write(folder: &TempFolder, text: &str) -> PathBuf {
    let path = folder.path().join("weir.toml");
    fs::write(&path, text).unwrap();
    path
}

fn check(path: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["check", path.to_str().unwrap()];
    arguments.extend(more);
    weir(&arguments)
}

fn config(port: u16, password: &str, size: u32) -> String {
    format!(
        "[auth]\ntype = \"scram-sha-256\"\n[auth.users]\nann = \"secret\"\n\
         [pools.app]\nhost = \"127.0.0.1\"\nport = {port}\ndatabase = \"postgres\"\nuser = \"ann\"\n\
         password = \"{password}\"\nsize = {size}\n"
    )
}

#[test]
fn a_command_line_that_is_not_understood_exits_with_2_and_an_error_with_1() {
    assert_eq!(weir(&["serv", "x"]).status.code(), Some(2));
    assert_eq!(weir(&[]).status.code(), Some(2));
    assert_eq!(weir(&["check"]).status.code(), Some(2));
    for command in ["check", "serve"] {
        let output = weir(&[command, "/no/such/weir.toml"]);
        assert_eq!(output.status.code(), Some(1));
        let complaint = complaint(&output);
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert!(complaint.starts_with("weir: /no/such/weir.toml: can't be read: "), "{complaint}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let version = weir(&["--version"]);
    assert!(version.status.success());
    let plain = format!("weir {}", env!("CARGO_PKG_VERSION"));
    assert!([format!("{plain}\n"), format!("{plain} (debug build)\n")].contains(&said(&version)), "{}", said(&version));
    let help = weir(&["--help"]);
    assert!(help.status.success());
    assert!(said(&help).contains("weir demo"));
}

#[test]
fn an_unknown_key_is_one_line_with_file_and_line() {
    let folder = TempFolder::new().unwrap();
    let path = write(&folder, "[listen]\nport = 6432\nprot = 1\n");
    for command in ["check", "serve"] {
        let output = weir(&[command, path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let complaint = complaint(&output);
        assert!(complaint.starts_with(&format!("weir: {}:3: ", path.display())), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn check_says_what_it_understood() {
    let folder = TempFolder::new().unwrap();
    let output = check(&write(&folder, &config(5432, "secret", 25)), &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = said(&output);
    assert!(text.contains("app   127.0.0.1:5432  postgres  ann   transaction    25    0        0\n"), "{text}");
    assert_eq!(text.matches("pool app").count(), 0, "the table has said it: {text}");
    assert!(text.ends_with("weir.toml: can be served\n"), "{text}");
}

#[test]
fn check_fails_for_what_could_not_be_served() {
    let folder = TempFolder::new().unwrap();
    let path = write(&folder, "[auth]\ntype = \"cert\"\n[auth.users]\nann = \"\"\n[pools.app]\nhost = \"127.0.0.1\"\n");
    let output = check(&path, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("error: "), "{}", said(&output));
}

/// A `pgbouncer.ini` with its list of users.
fn ini(folder: &TempFolder) -> PathBuf {
    let users = folder.path().join("userlist.txt");
    fs::write(&users, "\"ann\" \"secret\"\n").unwrap();
    let text = format!(
        "[databases]\napp = host=127.0.0.1 user=ann password=hush\n[pgbouncer]\nlisten_addr = localhost\n\
         unix_socket_dir =\nauth_file = {}\npkt_buf = 8192\npeer_id = 3\n",
        users.display()
    );
    let path = folder.path().join("pgbouncer.ini");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn check_says_what_it_understood_of_an_ini() {
    let folder = TempFolder::new().unwrap();
    let path = ini(&folder);
    let output = check(&path, &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = said(&output);
    assert!(text.contains("app   127.0.0.1:5432  app       ann   session    20    0        0\n"), "{text}");
    assert!(text.contains("line 7: pkt_buf has no effect: "), "{text}");
    assert!(text.contains(&format!("warning: {}:8: peer_id has no effect: ", path.display())), "{text}");
    assert!(text.ends_with("pgbouncer.ini: can be served, with a warning\n"), "{text}");
}

#[test]
fn convert_prints_what_check_takes() {
    let folder = TempFolder::new().unwrap();
    let output = weir(&["convert", ini(&folder).to_str().unwrap()]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = said(&output);
    assert!(text.contains("\n[pools.app]\nhost = \"127.0.0.1\"\nuser = \"ann\"\npassword = \"hush\"\n"), "{text}");
    let path = write(&folder, &text);
    let output = check(&path, &[]);
    assert!(output.status.success(), "{} {}", said(&output), complaint(&output));
    let output = weir(&["convert", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("is TOML already"), "{}", complaint(&output));
}

#[test]
fn check_connects_and_compares_with_what_the_server_takes() {
    let server = Server::start(Options { auth: Auth::ScramSha256, ..Options::default() }).unwrap();
    server.execute("postgres", "create role ann login password 'secret'").unwrap();
    let folder = TempFolder::new().unwrap();

    let output = check(&write(&folder, &config(server.port(), "secret", 25)), &["--connect"]);
    assert!(output.status.success(), "{}", said(&output));
    let row = format!("app   ann    ok      {:<10}       25    97\n", server.programs().version());
    assert!(said(&output).contains(row.split("  ").next().unwrap()), "{}", said(&output));
    assert!(said(&output).contains("25    97\n"), "{}", said(&output));

    let output = check(&write(&folder, &config(server.port(), "secret", 98)), &["--connect"]);
    assert!(output.status.success());
    assert!(said(&output).contains("may open 98 connections"), "{}", said(&output));
    assert!(said(&output).ends_with("can be served, with a warning\n"), "{}", said(&output));

    let output = check(&write(&folder, &config(server.port(), "wrong", 25)), &["--connect"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("password authentication failed for user \"ann\""), "{}", said(&output));
    let (port, _) = (server.port(), server.stop());
    let output = check(&write(&folder, &config(port, "secret", 25)), &["--connect"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("refused"), "{}", said(&output));
}

#[test]
fn the_lab_gets_its_words_as_they_are_or_one_says_how_to_have_it() {
    let output = weir(&["lab", "--version"]);
    let beside = Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("weir-lab");
    if beside.is_file() {
        assert_eq!(said(&output), format!("weir-lab {}\n", env!("CARGO_PKG_VERSION")));
    } else {
        assert_eq!(output.status.code(), Some(1));
        assert!(complaint(&output).contains("make build"), "{}", complaint(&output));
    }
}
