//! Access to the API of a running Weir: accounts in its file, as `weir account` prints them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use weir_tests::{Api, Certificates, Ini, Mode, Setup, Site, eventually, weir_binary};

/// The output of `weir account`: its line, and the token if it made one.
pub(crate) fn account(arguments: &[&str], password: &str) -> (String, String) {
    let mut command = Command::new(weir_binary());
    command.arg("account").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A command that makes a token reads no password.
    let _ = child.stdin.take().unwrap().write_all(password.as_bytes());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stderr).unwrap();
    let token = printed.lines().find(|line| line.len() == 64 && !line.contains(' ')).unwrap_or_default().to_owned();
    (String::from_utf8(output.stdout).unwrap(), token)
}

#[test]
fn a_token_of_the_file_permits_what_its_role_may_and_a_reload_revokes_it() {
    let api = Api::default();
    let (user, _) = account(&["ann"], "correct horse\n");
    let (viewer, token) = account(&["grafana", "--role", "viewer", "--token"], "");
    let section = format!("{}[web.users]\n{user}[web.tokens]\n{viewer}", api.section());
    let site = Site::with(Setup::new(Mode::Transaction).more(&section), Mode::Transaction);
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(api.ask("GET", "/api/v1/pools", "").0, 401);
    assert_eq!(api.ask("GET", "/healthz", "").0, 200);
    assert_eq!(api.ask_with("GET", "/api/v1/pools", &bearer, "").0, 200);
    assert_eq!(api.ask_with("GET", "/metrics", &bearer, "").0, 200);
    let before = fs::read_to_string(site.weir().folder().join("weir.toml")).unwrap();
    assert_eq!(api.ask_with("PATCH", "/api/v1/pools/app", &bearer, "{\"size\": 1}").0, 403);
    assert_eq!(fs::read_to_string(site.weir().folder().join("weir.toml")).unwrap(), before);
    let right = "{\"user\": \"ann\", \"password\": \"correct horse\"}";
    assert_eq!(api.ask("POST", "/api/v1/login", "{\"user\": \"ann\", \"password\": \"wrong horse\"}").0, 401);
    assert_eq!(api.ask("POST", "/api/v1/login", right).0, 200);
    eventually("it is in the log", || {
        let log = site.weir().log();
        let reported = ["grafana from 127", "PATCH /api/v1/pools/app: 403", "ann from 127", "POST /api/v1/login: 200"];
        if reported.iter().all(|words| log.contains(words)) && !log.contains("horse") { Ok(()) } else { Err(log) }
    });
    fs::write(site.weir().folder().join("weir.toml"), before.replace(&viewer, "")).unwrap();
    site.weir().command("RELOAD").unwrap();
    assert_eq!(api.ask_with("GET", "/api/v1/pools", &bearer, "").0, 401);
}

#[test]
fn with_a_certificate_the_api_is_encrypted() {
    let api = Api::default();
    let address = api.address().ip().to_string();
    let (old, new) = (Certificates::new(), Certificates::new());
    let (key, certificate) = old.sign_for("api", &address);
    let ini = api.keys().into_iter().fold(Ini::transaction(1), |ini, (key, value)| ini.set(key, &value));
    let ini = ini.file("api.key", &key).file("api.crt", &certificate);
    let site = Site::ini(&ini.set("web_tls_cert_file", "{folder}/api.crt").set("web_tls_key_file", "{folder}/api.key"));
    site.connect().query("SELECT 1").unwrap();
    let mut stream = TcpStream::connect(api.address()).unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    // A TLS record with an alert (RFC 8446, section 5.1: 21 is an alert).
    assert_eq!(answer.first(), Some(&21), "{answer:?}");
    let write = |name: &str, text: &str| fs::write(site.weir().folder().join(name), text).unwrap();
    write("old.crt", old.authority());
    write("new.crt", new.authority());
    let top = |authority: &str| {
        let mut command = Command::new(weir_binary());
        command.args(["top", "--once", &format!("https://{}", api.address()), "--ca-file"]);
        let output = command.arg(site.weir().folder().join(authority)).output().unwrap();
        let printed = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        if output.status.success() { Ok(printed) } else { Err(printed) }
    };
    assert!(top("old.crt").unwrap().contains("app"));
    let why = top("new.crt").unwrap_err();
    assert!(why.contains("certificate") && why.contains("--ca-file"), "{why}");
    // An invalid certificate changes nothing.
    write("api.crt", "none");
    let why = site.weir().command("RELOAD").unwrap_err();
    assert!(format!("{why:?}").contains("api.crt"), "{why:?}");
    assert!(top("old.crt").is_ok());
    let (key, certificate) = new.sign_for("api", &address);
    write("api.key", &key);
    write("api.crt", &certificate);
    site.weir().command("RELOAD").unwrap();
    assert!(top("new.crt").is_ok() && top("old.crt").is_err());
}

#[test]
fn a_certificate_without_its_key_is_named_by_the_check() {
    let folder = std::env::temp_dir().join(format!("weir-lone-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("weir.toml");
    let check = |web: &str| {
        let rest = "[auth]\ntype = \"trust\"\n[pools.app]\nhost = \"127.0.0.1\"\n";
        fs::write(&file, format!("[web]\naddress = \"127.0.0.1\"\n{web}\n{rest}")).unwrap();
        let output = Command::new(weir_binary()).arg("check").arg(&file).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let lone = check("tls_key_file = \"api.key\"");
    assert!(lone.contains("weir.toml:3: To encrypt the API, tls_cert_file must be set beside tls_key_file"), "{lone}");
    let unreadable = check("tls_key_file = \"api.key\"\ntls_cert_file = \"api.crt\"");
    assert!(unreadable.contains("api.crt"), "{unreadable}");
    fs::remove_dir_all(&folder).unwrap();
}
