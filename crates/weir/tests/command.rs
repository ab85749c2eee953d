//! The command line as a user sees it: exit statuses, one clear line, and what `check` reports about real servers.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use weir_pglocal::{Auth, Options, Server, TempFolder, free_port};

fn weir(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir")).args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The mistakes that a command prints, as `check` prints them: those of a start that fails are lines of the log.
fn mistakes(command: &str, output: &Output) -> String {
    let text = complaint(output);
    if command != "serve" {
        return text;
    }
    let count = text.lines().count();
    let lines = text.lines().enumerate().map(|(at, line)| {
        let level = if at + 1 == count { "FATAL" } else { "ERROR" };
        let (head, rest) = line.split_once(&format!("] {level} ")).unwrap_or_else(|| panic!("{level}: {line}"));
        assert!(head.starts_with("20"), "a time: {line}");
        format!("weir: {rest}\n")
    });
    lines.collect()
}

fn write(folder: &TempFolder, text: &str) -> PathBuf {
    let path = folder.path().join("weir.toml");
    fs::write(&path, text).unwrap();
    chmod(&path, 0o600);
    path
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn check(path: &Path, more: &[&str]) -> Output {
    let mut arguments = vec!["check", path.to_str().unwrap()];
    arguments.extend(more);
    weir(&arguments)
}

/// A section with a port on which nothing listens: `check` warns of others.
fn listen() -> String {
    format!("[listen]\nport = {}\n", free_port().unwrap())
}

fn config(port: u16, password: &str, size: u32) -> String {
    pool(port, password, size) + &listen()
}

/// A configuration with this pool, on the default port.
fn pool(port: u16, password: &str, size: u32) -> String {
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
        let complaint = mistakes(command, &output);
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        assert!(complaint.starts_with("weir: /no/such/weir.toml: can't be read: "), "{complaint}");
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let version = weir(&["--version"]);
    assert!(version.status.success());
    let plain = format!("weir {}", env!("CARGO_PKG_VERSION"));
    let text = said(&version);
    let lines: Vec<&str> = text.lines().collect();
    assert!([plain.clone(), format!("{plain} (debug build)")].contains(&lines[0].to_owned()), "{text}");
    for (line, start) in lines[1..].iter().zip(["commit: ", "platform: linux ", "features: epoll, io_uring, TLS "]) {
        assert!(line.starts_with(start), "{text}");
    }
    assert_eq!(lines.len(), 4, "{text}");
    assert_eq!(said(&weir(&["-V"])), format!("{}\n", lines[0]), "one line for a script");
    let help = weir(&["--help"]);
    assert!(help.status.success());
    assert!(said(&help).contains("weir demo"));
}

#[test]
fn an_unknown_key_is_one_line_with_file_and_line() {
    let folder = TempFolder::new().unwrap();
    let path = write(&folder, "[listen]\nport = 6432\nprot = 1\n[auth]\ntype = \"trust\"\n");
    for command in ["check", "serve"] {
        let output = weir(&[command, path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let complaint = mistakes(command, &output);
        assert!(complaint.starts_with(&format!("weir: {}:3: ", path.display())), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
    }
}

#[test]
fn every_mistake_of_every_file_is_said_at_once_by_each_command() {
    let folder = TempFolder::new().unwrap();
    fs::write(folder.path().join("users.txt"), "\"ann\" \"hush\"\nbob hush\n").unwrap();
    let path = write(
        &folder,
        "[listen]\nprot = 1\n[auth]\nfile = \"users.txt\"\n[web]\naddress = \"127.0.0.1\"\ntls_cert_file = \"no.crt\"\n\
         tls_key_file = \"no.key\"\n[tls.client]\nmode = \"require\"\ncert_file = \"gone.crt\"\nkey_file = \"gone.key\"\n\
         [pools.app]\nhost = \"h\"\npassword_env = \"WEIR_NO_SUCH_VARIABLE\"\nsize = lots\n",
    );
    for command in ["check", "serve"] {
        let output = weir(&[command, path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        let complaint = mistakes(command, &output).replace(&format!("{}/", folder.path().display()), "");
        let lines: Vec<&str> = complaint.lines().collect();
        assert!(lines[0].starts_with("weir: weir.toml:2: unknown key \"prot\""), "{complaint}");
        assert!(
            lines[1].starts_with("weir: weir.toml:15: the environment variable WEIR_NO_SUCH_VARIABLE"),
            "{complaint}"
        );
        assert!(lines[2].starts_with("weir: weir.toml:16: ") && lines[2].contains("quote it"), "{complaint}");
        assert!(lines[3].starts_with("weir: users.txt:2: "), "{complaint}");
        assert!(
            complaint.contains("no.crt") && complaint.contains("gone.crt") | complaint.contains("gone.key"),
            "{complaint}"
        );
        assert_eq!(lines.len(), 6, "{complaint}");
        assert!(!complaint.contains("hush"), "{complaint}");
    }
}

#[test]
fn a_file_that_is_no_text_or_never_ends_is_refused_in_a_line() {
    let folder = TempFolder::new().unwrap();
    let path = folder.path().join("weir.toml");
    let link = folder.path().join("link.toml");
    std::os::unix::fs::symlink(&link, &link).unwrap();
    let pipe = folder.path().join("pipe.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let refused = |path: &Path, why: &str| {
        for command in ["check", "serve"] {
            let output = weir(&[command, path.to_str().unwrap()]);
            assert_eq!(output.status.code(), Some(1));
            let complaint = mistakes(command, &output);
            assert!(complaint.contains(why) && complaint.lines().count() == 1, "{complaint}");
        }
    };
    refused(folder.path(), "it is a folder");
    refused(&link, "symbolic links");
    refused(&pipe, "not a regular file");
    refused(Path::new("/dev/zero"), "not a regular file");
    fs::write(&path, b"[listen]\nport = 1\0\n").unwrap();
    refused(&path, "line 2 holds a zero byte");
    fs::write(&path, b"[listen]\n# caf\xe9\n").unwrap();
    refused(&path, "line 2 is no text in UTF-8");
    fs::write(&path, b"\xff\xfe[\0l\0").unwrap();
    refused(&path, "it is UTF-16");
    // The files that it names are checked in the same way.
    for line in ["file = \".\"", "file = \"pipe.toml\"", "file = \"link.toml\""] {
        fs::write(&path, format!("[auth]\n{line}\n")).unwrap();
        refused(&path, ":2: the auth file");
    }
    for side in ["[tls.client]\nmode = \"require\"\n", "[web]\naddress = \"127.0.0.1\"\ntls_"] {
        let key = if side.ends_with("tls_") { "tls_key_file" } else { "key_file" };
        let files = format!("cert_file = \"pipe.toml\"\n{key} = \"pipe.toml\"\n");
        fs::write(&path, format!("[auth]\ntype = \"trust\"\n{side}{files}")).unwrap();
        let complaint = complaint(&weir(&["serve", path.to_str().unwrap()]));
        assert!(complaint.contains("pipe.toml: not a regular file"), "{complaint}");
    }
}

#[test]
fn a_file_is_read_with_the_marks_that_editors_leave() {
    let folder = TempFolder::new().unwrap();
    let text = format!("\u{feff}{}", config(5432, "secret", 25)).replace('\n', "\r\n");
    let output = check(&write(&folder, &text), &[]);
    assert!(output.status.success(), "{}", complaint(&output));
}

#[test]
fn check_says_what_it_understood() {
    let folder = TempFolder::new().unwrap();
    let output = check(&write(&folder, &config(5432, "secret", 25)), &[]);
    assert!(output.status.success(), "{}", complaint(&output));
    let text = said(&output);
    assert!(text.contains("app   127.0.0.1:5432  postgres  ann   auto    25    0        0\n"), "{text}");
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
         unix_socket_dir =\nauth_file = {}\npkt_buf = 8192\nlisten_port = {}\n",
        users.display(),
        free_port().unwrap()
    );
    let path = folder.path().join("pgbouncer.ini");
    fs::write(&path, text).unwrap();
    // Other users may not read files with secrets.
    for file in [&users, &path] {
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
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
    assert!(text.ends_with("pgbouncer.ini: can be served\n"), "{text}");
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
fn check_tries_no_user_of_the_console_and_none_need_be_known_at_each_server() {
    let server = Server::start(Options { auth: Auth::ScramSha256, ..Options::default() }).unwrap();
    server.execute("postgres", "create role ann login password 'secret'").unwrap();
    let folder = TempFolder::new().unwrap();
    let config = |users: &str| {
        format!(
            "[general]\nadmin_users = [\"admin\"]\nstats_users = [\"a_monitor\"]\n[auth]\ntype = \"scram-sha-256\"\n\
             [auth.users]\nadmin = \"hush\"\na_monitor = \"hush\"\n{users}[pools.app]\nhost = \"127.0.0.1\"\n\
             port = {}\ndatabase = \"postgres\"\n{}",
            server.port(),
            listen()
        )
    };
    let output = check(&write(&folder, &config("ann = \"secret\"\nbob = \"elsewhere\"\n")), &["--connect"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).ends_with("can be served\n") && said(&output).contains("app   ann    ok"),
        "{}",
        said(&output)
    );
    // Only the console's users are listed: that is not an error in the file.
    let output = check(&write(&folder, &config("")), &["--connect"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("pool app could not be tried"), "{}", said(&output));
    assert!(!server.log().contains("\"admin\"") && !server.log().contains("a_monitor"), "{}", server.log());
    // Nor is it if the server refuses the first one: it may accept others, whose passwords it does not get.
    let output = check(&write(&folder, &config("aaron = \"elsewhere\"\nann = \"secret\"\n")), &["--connect"]);
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("refused the listed user"), "{}", said(&output));
    // A missing database is an error for every user.
    let text = config("ann = \"secret\"\n").replace("\"postgres\"", "\"nowhere\"");
    let output = check(&write(&folder, &text), &["--connect"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("database \"nowhere\" does not exist"), "{}", said(&output));
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

#[test]
fn check_warns_of_secrets_that_everybody_can_read() {
    let folder = TempFolder::new().unwrap();
    let path = write(&folder, &config(5432, "secret", 3));
    assert!(!said(&check(&path, &[])).contains("everybody"));
    for (mode, word) in [(0o644, "read"), (0o604, "read"), (0o666, "changed")] {
        chmod(&path, mode);
        let output = check(&path, &[]);
        let text = said(&output);
        assert!(text.contains(&format!("can be {word} by everybody on this machine (mode {mode:04o})")), "{text}");
        assert!(text.contains("chmod 600") && output.status.success(), "{text}");
    }
    // Files that it refers to are checked, too.
    let elsewhere = config(5432, "x", 3).replace("[auth.users]\nann = \"secret\"\n", "file = \"users.txt\"\n");
    let elsewhere = elsewhere.replace("password = \"x\"", "password_file = \"password\"");
    let path = write(&folder, &elsewhere);
    for name in ["users.txt", "password"] {
        fs::write(folder.path().join(name), "\"ann\" \"secret\"\n").unwrap();
        chmod(&folder.path().join(name), 0o644);
    }
    chmod(&path, 0o644);
    let text = said(&check(&path, &[]));
    assert!(text.contains("users.txt holds secrets of users") && text.contains("password holds passwords"), "{text}");
    assert!(!text.contains("weir.toml holds") && !text.contains("\"secret\""), "{text}");
}

/// `weir` with this text at standard input.
fn weir_reading(arguments: &[&str], text: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn check_reads_standard_input_of_either_format() {
    let output = weir_reading(&["check", "-"], &config(5432, "secret", 25));
    assert!(output.status.success(), "{}", complaint(&output));
    assert!(said(&output).ends_with("<stdin>: can be served\n"), "{}", said(&output));
    let output = weir_reading(&["check", "-"], "[listen]\nprot = 1\n[auth]\ntype = \"trust\"\n");
    assert!(
        complaint(&output).starts_with("weir: <stdin>:2: unknown key \"prot\" in [listen]"),
        "{}",
        complaint(&output)
    );
    let ini = "[databases]\napp = host=127.0.0.1\n[pgbouncer]\nlisten_addr = 127.0.0.1\n";
    let output = weir_reading(&["convert", "-"], ini);
    assert!(said(&output).contains("[pools.app]"), "{} {}", said(&output), complaint(&output));
}

#[test]
fn check_prints_an_object_for_a_program() {
    let object = |text: &str| -> (Option<i32>, serde_json::Value) {
        let output = weir_reading(&["check", "--json", "-"], text);
        assert_eq!(complaint(&output), "");
        (
            output.status.code(),
            serde_json::from_str(&said(&output)).unwrap_or_else(|e| panic!("{e}: {}", said(&output))),
        )
    };
    let (status, found) = object(&config(5432, "secret", 0));
    assert_eq!(
        (status, &found["servable"], &found["errors"], &found["warnings"]),
        (Some(0), &true.into(), &0.into(), &1.into())
    );
    let findings = found["findings"].as_array().unwrap();
    let warning = findings.iter().find(|finding| finding["level"] == "warning").unwrap();
    assert_eq!(
        (&warning["file"], &warning["line"], &warning["key"]),
        (&"<stdin>".into(), &11.into(), &"pools.app.size".into())
    );
    assert!(warning["help"].as_str().unwrap().contains("size = 20") && warning["message"].is_string(), "{warning}");
    for finding in findings {
        let keys: Vec<_> = finding.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["file", "help", "key", "level", "line", "message"], "the shape is public");
    }
    let (status, found) =
        object("[listen]\nprot = 1\n[auth]\ntype = \"trust\"\n[pools.a]\nhost = \"h\"\nsize = true\n");
    assert_eq!((status, &found["servable"], &found["errors"]), (Some(1), &false.into(), &2.into()));
    let first = &found["findings"][0];
    assert_eq!((&first["level"], &first["line"], &first["key"]), (&"error".into(), &2.into(), &"listen.prot".into()));
    assert_eq!(first["help"], "did you mean \"port\"?");
}

#[test]
fn colours_are_printed_where_they_are_wanted() {
    let colours = |arguments: &[&str], no_color: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        let folder = TempFolder::new().unwrap();
        let path = write(&folder, &config(5432, "secret", 25));
        command.arg("check").arg(path).args(arguments).env("NO_COLOR", no_color);
        said(&command.output().unwrap()).contains("\x1b[")
    };
    assert!(!colours(&[], "") && !colours(&["--color", "never"], "") && !colours(&["--color=auto"], "1"));
    assert!(colours(&["--color", "always"], "") && colours(&["--color=always"], "1"), "the flag decides");
    assert_eq!(weir(&["check", "x", "--color", "sometimes"]).status.code(), Some(2));
}

#[test]
fn completions_and_manual_pages_are_printed() {
    for shell in ["bash", "zsh", "fish"] {
        let output = weir(&["completions", shell]);
        assert!(output.status.success() && said(&output).contains("upgrade"), "{shell}: {}", complaint(&output));
    }
    for (page, part) in
        [("weir", ".SH NAME"), ("weir.toml", "query_wait_timeout"), ("weir-pgbouncer", "reboot"), ("check", "json")]
    {
        let output = weir(&["man", page]);
        assert!(output.status.success() && said(&output).contains(part), "{page}: {}", complaint(&output));
    }
    let output = weir(&["man", "wier"]);
    assert!(complaint(&output).contains("there is no page wier; there are weir, "), "{}", complaint(&output));
    let folder = TempFolder::new().unwrap();
    assert!(weir(&["man", "--dir", folder.path().to_str().unwrap()]).status.success());
    for page in ["man1/weir.1", "man1/weir-check.1", "man1/weir-pgbouncer.1", "man5/weir.toml.5"] {
        assert!(folder.path().join(page).is_file(), "{page}");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/install-docs.sh");
    let share = folder.path().join("share");
    assert!(Command::new(script).arg(env!("CARGO_BIN_EXE_weir")).arg(&share).status().unwrap().success());
    for file in [
        "man/man1/weir.1",
        "bash-completion/completions/weir",
        "zsh/site-functions/_weir",
        "fish/vendor_completions.d/weir.fish",
    ] {
        assert!(fs::metadata(share.join(file)).unwrap().len() > 1000, "{file}");
    }
    // Bash takes its script, and offers what begins as it is typed.
    let words = "source \"$1\"; COMP_WORDS=(weir che); COMP_CWORD=1; _weir weir che weir; echo \"${COMPREPLY[@]}\"";
    let script = share.join("bash-completion/completions/weir");
    let output = Command::new("bash").args(["-c", words, "bash"]).arg(script).output().unwrap();
    assert_eq!(said(&output).trim(), "check", "{}", complaint(&output));
}

/// Mistakes of a first configuration: each command names the line, what is wrong, and what to do.
#[test]
fn mistakes_of_the_first_hour_are_named_with_a_way_out() {
    let folder = TempFolder::new().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let good = pool(5432, "secret", 5);
    let long = folder.path().join("x".repeat(120));
    let mistakes = [
        (
            good.replace("size", "sise"),
            "weir.toml:11: unknown key \"sise\" in [pools.app]; did you mean \"size\"?".to_owned(),
        ),
        (
            good.replace("size = 5", "size = five"),
            "the value of \"size\" has no quotes, and is no number and not true or false; quote it".into(),
        ),
        (good.replace("size = 5", "size = \"5\""), "must be a whole number from 0 to 1000000, not text".into()),
        (
            format!("{good}[pools.app]\nhost = \"x\"\n"),
            "weir.toml:12: the section [pools.app] is there twice; keep one of them".into(),
        ),
        (
            good.replace("[auth.users]\nann = \"secret\"\n", "file = \"none.txt\"\n"),
            "create it with lines of \"user\" \"secret\"".into(),
        ),
        (
            format!("{good}[tls.client]\nmode = \"require\"\ncert_file = \"c\"\nkey_file = \"k\"\n"),
            "No such file or directory (os error 2); set a file that".into(),
        ),
        (
            format!("[listen]\nport = {port}\n{good}"),
            format!("can't listen on 127.0.0.1:{port}: the address is in use by "),
        ),
        (
            format!("[listen]\nport = {port}\naddress = []\nunix_socket_dir = \"{}\"\n{good}", long.display()),
            "and Linux takes 107; set unix_socket_dir to a folder with a shorter path".into(),
        ),
        (
            format!("[listen]\nport = {port}\naddress = []\nunix_socket_dir = \"/no/such\"\n{good}"),
            "the folder does not exist; create it, or set another one".into(),
        ),
    ];
    for (text, expected) in mistakes {
        let path = write(&folder, &text);
        let output = weir(&["serve", path.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(1));
        assert!(complaint(&output).contains(&expected), "{expected}: {}", complaint(&output));
    }
    let output = check(&write(&folder, &format!("[listen]\nunix_socket_dir = \"/no/such\"\n{good}")), &[]);
    assert!(said(&output).contains("there is no folder /no/such for the Unix socket; create it"), "{}", said(&output));
    // A limit of open files that is too low.
    let path = write(&folder, &good.replace("size = 5", "size = 900"));
    let output = Command::new("bash")
        .args(["-c", "ulimit -n 200; exec \"$0\" serve \"$1\"", env!("CARGO_BIN_EXE_weir")])
        .arg(&path)
        .output()
        .unwrap();
    assert!(
        complaint(&output)
            .contains("900 servers alone need more than the 200 files that may be open; raise the limit (ulimit -n"),
        "{}",
        complaint(&output)
    );
}

#[test]
fn check_names_a_missing_user_of_the_system_and_a_missing_folder_by_the_settings_of_the_file() {
    let toml = "[log]\nfile = \"/no/such/log\"\n[process]\nuser = \"no-such-user-here\"\n[auth.users]\napp = \"x\"\n";
    let ini = "[databases]\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlogfile = /no/such/log\nuser = no-such-user-here\n";
    for (text, user_line, log) in [(toml, 4, "file in [log]"), (ini, 5, "logfile")] {
        let output = weir_reading(&["check", "-"], text);
        let user = format!("{user_line}: the operating system has no user no-such-user-here; create it");
        assert!(said(&output).contains(&user), "{}", said(&output));
        let folder = format!("there is no folder /no/such for the log; create it, or set another one as {log}");
        assert!(said(&output).contains(&folder), "{}", said(&output));
    }
}
