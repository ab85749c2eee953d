//! Encrypted clients, with libpq and OpenSSL as clients: what suites with one connection can't show.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error};
use weir_pglocal::{Signal, TempFolder, send_signal};
use weir_pgwire::{put_back, put_front};
use weir_tests::{ADMIN, Api, Certificates, Mode, Postgres, Setup, Site, eventually, users, weir_binary};

/// As long as the largest answers here: no buffer holds it.
const ROWS: &str = "select repeat(md5(i::text), 32) from generate_series(1, 100000) i";

/// A Weir that encrypts, and its clients' files: the authority's certificate as `ca.crt`, their own by their names.
struct Stage {
    site: Site,
    authority: Certificates,
    folder: TempFolder,
}

impl Stage {
    /// With this mode for clients; the tests' own console uses the Unix socket, which no mode refuses.
    fn new(mode: &str) -> Stage {
        Stage::with(mode, Setup::new(Mode::Transaction).workers(2))
    }

    fn with(mode: &str, setup: Setup) -> Stage {
        let authority = Certificates::new();
        let setup = authority.setup(setup.console_by_socket(), mode);
        let folder = TempFolder::new().unwrap();
        fs::write(folder.path().join("ca.crt"), authority.authority()).unwrap();
        Stage { site: Site::with(setup, Mode::Transaction), authority, folder }
    }

    /// Connection parameters with a client certificate of this authority.
    fn certified(&self, authority: &Certificates, subject: &str) -> String {
        let (key, certificate) = authority.sign(subject);
        let at = |end: &str| self.folder.path().join(format!("client.{end}"));
        fs::write(at("crt"), certificate).unwrap();
        fs::write(at("key"), key).unwrap();
        // libpq refuses a key that other users can read.
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o600)).unwrap();
        format!("sslmode=require sslcert={} sslkey={}", at("crt").display(), at("key").display())
    }

    /// psql with these parameters and the usual ones.
    fn psql(&self, parameters: &str) -> Command {
        let (port, folder) = (self.site.weir().port(), self.folder.path().display());
        let place = format!("host=localhost hostaddr=127.0.0.1 port={port} user={} dbname=app", users::APP.name);
        let mut psql = Command::new("psql");
        psql.env("PGPASSWORD", users::APP.password).env("HOME", self.folder.path());
        psql.args(["-X", "-A", "-t", "-w", "-q", "-v", "ON_ERROR_STOP=1"]);
        psql.arg(format!("{place} gssencmode=disable sslrootcert={folder}/ca.crt {parameters}"));
        psql
    }

    fn run(&self, parameters: &str, sql: &str) -> Output {
        self.psql(parameters).args(["-c", sql]).output().expect("psql runs")
    }

    #[track_caller]
    fn value(&self, parameters: &str, sql: &str) -> String {
        let output = self.run(parameters, sql);
        assert!(output.status.success(), "{parameters}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[track_caller]
    fn refused(&self, parameters: &str, text: &str) {
        let output = self.run(parameters, "select 42");
        assert!(!output.status.success(), "{parameters}: {output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains(text), "{parameters}: {output:?}");
    }

    #[track_caller]
    fn logged(&self, text: &str) {
        eventually(text, || {
            let log = self.site.weir().log();
            if log.contains(text) { Ok(()) } else { Err(log) }
        });
    }

    /// OpenSSL's own client with these arguments; its output after it has sent these bytes.
    fn s_client(&self, arguments: &[&str], bytes: &[u8]) -> String {
        let mut client = Command::new("openssl");
        client.args(["s_client", "-connect", &format!("127.0.0.1:{}", self.site.weir().port())]).args(arguments);
        let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        client.stdin.take().unwrap().write_all(bytes).unwrap();
        String::from_utf8_lossy(&client.wait_with_output().unwrap().stdout).into_owned()
    }

    /// A connection whose first bytes are these.
    fn begun(&self, bytes: &[u8]) -> Connection {
        let mut client = Connection::open(&self.site.params()).unwrap();
        client.send_bytes(bytes).unwrap();
        client
    }
}

fn ssl_request() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_front::ssl_request(&mut bytes);
    bytes
}

/// All bytes up to the end of the connection.
#[track_caller]
fn until_closed(client: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        match client.read_bytes(Duration::from_secs(20)) {
            Ok(bytes) if bytes.is_empty() => return all,
            Ok(bytes) => all.extend_from_slice(&bytes),
            Err(Error::Timeout) => panic!("the connection is not closed after {all:?}"),
            Err(_) => return all,
        }
    }
}

#[test]
fn clients_are_encrypted_as_the_modes_of_both_sides_require() {
    let all = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
    for (mode, welcome) in [("disable", &all[..3]), ("allow", &all), ("prefer", &all), ("require", &all[1..])] {
        let place = Stage::new(mode);
        let text = if mode == "disable" { "server does not support SSL" } else { "SSL required" };
        for sslmode in all.map(|sslmode| format!("sslmode={sslmode}")) {
            match welcome.contains(&&sslmode[8..]) {
                true => assert_eq!(place.value(&sslmode, "select 42"), "42", "{mode}, {sslmode}"),
                false => place.refused(&sslmode, text),
            }
        }
        if mode == "require" {
            place.refused("sslmode=verify-full host=127.0.0.1", "does not match host name");
            place.logged("tls=TLSv1.3/TLS_");
        }
    }
}

#[test]
fn verify_ca_accepts_clients_with_a_certificate_of_the_authority() {
    let place = Stage::new("verify-ca");
    let own = place.certified(&place.authority, "anybody");
    assert_eq!(place.value(&own, "select 42"), "42");
    assert_eq!(place.value(&format!("{own} ssl_max_protocol_version=TLSv1.2"), "select 42"), "42");
    let foreign = place.certified(&Certificates::new(), "anybody");
    assert!(!place.run(&foreign, "select 42").status.success());
    place.logged("TLS handshake failed");
    place.refused("sslmode=disable", "SSL required");
}

#[test]
fn certificates_name_users_by_a_map() {
    let setup = Setup::new(Mode::Transaction).auth("hba").auth_line("hba_file = \"hba.conf\"");
    let rules = format!("local all {0} md5\nlocal all pgbouncer peer\nhostssl all all all cert map=people\n", ADMIN.0);
    let map = format!("people \"Ann Smith\" {}\n", users::APP.name);
    let setup = setup.auth_line("ident_file = \"ident.conf\"").file("hba.conf", &rules).file("ident.conf", &map);
    let place = Stage::with("allow", setup);
    let ann = place.certified(&place.authority, "Ann Smith");
    assert_eq!(place.value(&ann, "select 42"), "42");
    place.refused(&format!("{ann} user={}", users::OTHER.name), "FATAL");
    place.refused("sslmode=require", "FATAL");
    place.refused("sslmode=disable", "FATAL");
    // The name in the certificate alone is not accepted where a map is needed.
    let bob = place.certified(&place.authority, users::APP.name);
    place.refused(&bob, "FATAL");
}

#[test]
fn scram_is_bound_to_the_connection() {
    let place = Stage::new("allow");
    assert_eq!(place.value("sslmode=require channel_binding=require", "select 42"), "42");
    let old = "sslmode=require channel_binding=require ssl_max_protocol_version=TLSv1.2";
    assert_eq!(place.value(old, "select 42"), "42");
    place.refused("sslmode=disable channel_binding=require", "channel binding");
}

#[test]
fn a_hundred_megabytes_are_the_same_as_without_encryption() {
    let place = Stage::new("require");
    let database = place.site.database();
    let straight = format!("sslmode=disable port={} dbname={}", database.postgres().port(), database.name());
    let (direct, secure) = (place.run(&straight, ROWS).stdout, place.run("sslmode=require", ROWS).stdout);
    assert_eq!(secure.len(), 100_000 * (32 * 32 + 1));
    assert!(direct == secure, "the same bytes");
    let file = place.folder.path().join("rows");
    fs::write(&file, &secure).unwrap();
    place.value("sslmode=require", "create table t (t text)");
    place.value("sslmode=require", &format!("\\copy t from '{}'", file.display()));
    place.value("sslmode=require", &format!("\\copy t to '{}.again'", file.display()));
    assert!(fs::read(file.with_extension("again")).unwrap() == direct, "there and back");
}

#[test]
fn garbage_in_a_handshake_ends_it() {
    let place = Stage::new("allow");
    let mut client = place.begun(&ssl_request());
    assert_eq!(client.read_bytes(Duration::from_secs(20)).unwrap(), b"S");
    client.send_bytes(&[0x42; 600]).unwrap();
    until_closed(&mut client);
    place.logged("TLS handshake failed");
    // A handshake without a request, and then no handshake bytes.
    until_closed(&mut place.begun(&[&[0x16, 3, 1, 0, 40], &[0xff; 40][..]].concat()));
    drop(place.begun(&[0x16, 3, 1]));
}

#[test]
fn a_handshake_without_a_request_names_the_protocol() {
    let place = Stage::new("allow");
    assert!(place.s_client(&["-alpn", "postgresql"], b"").contains("ALPN protocol: postgresql"));
    place.s_client(&[], b"");
    place.logged("received direct SSL connection request without ALPN protocol negotiation extension");
}

#[test]
fn what_an_encrypted_client_asks_for_is_negotiated() {
    let place = Stage::with("require", Setup::new(Mode::Transaction).general("client_login_timeout = \"1s\""));
    let params = place.site.params();
    let all = [("user", &*params.user), ("database", &*params.database), ("_pq_.test_protocol_negotiation", "")];
    let (mut packet, mut answer) = (Vec::new(), Vec::new());
    put_front::startup(&mut packet, &all, 9999);
    put_back::negotiate(&mut answer, 2, &[b"_pq_.test_protocol_negotiation"]);
    for how in [["-alpn", "postgresql"], ["-starttls", "postgres"]] {
        let answered = place.s_client(&[&how[..], &["-quiet", "-ign_eof"]].concat(), &packet);
        assert!(answered.starts_with(std::str::from_utf8(&answer).unwrap()), "{how:?}: {answered:?}");
    }
}

#[test]
fn a_login_that_stalls_in_its_handshake_is_closed() {
    let setup = Setup::new(Mode::Transaction).general("client_login_timeout = \"1s\"");
    let place = Stage::with("allow", setup);
    let mut client = place.begun(&ssl_request());
    assert_eq!(client.read_bytes(Duration::from_secs(20)).unwrap(), b"S");
    // Without an error message: it would be taken for a part of the handshake.
    assert_eq!(until_closed(&mut client), b"");
}

/// Waits until the pool's server runs a query.
fn await_work(place: &Stage) {
    eventually("it runs", || {
        let backends = place.site.database().backends();
        if backends.iter().any(|(_, state)| state == "active") { Ok(()) } else { Err(backends) }
    });
}

#[test]
fn an_encrypted_client_is_cancelled_by_a_cleartext_request() {
    let place = Stage::new("require");
    let mut psql = place.psql("sslmode=require");
    let psql = psql.args(["-c", "select pg_sleep(60)"]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    await_work(&place);
    // libpq before 17 sends it in cleartext whatever the connection is, so no mode refuses it.
    send_signal(psql.id(), Signal::SIGINT);
    let output = psql.wait_with_output().unwrap();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(printed.contains("canceling statement due to user request"), "{printed}");
}

#[test]
fn a_client_is_cancelled_by_an_encrypted_request() {
    let place = Stage::new("allow");
    let mut client = place.site.connect();
    let request = client.canceller().request();
    let error = thread::scope(|scope| {
        let query = scope.spawn(|| client.query("select pg_sleep(60)").unwrap_err());
        await_work(&place);
        place.s_client(&["-starttls", "postgres", "-quiet"], &request);
        query.join().unwrap()
    });
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
}

/// One answer of a psql that reads its commands from a pipe.
fn answer(psql: &mut Child, sql: &str) -> String {
    writeln!(psql.stdin.as_mut().unwrap(), "{sql};").unwrap();
    let mut line = String::new();
    BufReader::with_capacity(1, psql.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

#[test]
fn a_new_certificate_is_for_new_clients_and_the_old_ones_stay() {
    let place = Stage::new("require");
    let mut old = place.psql("sslmode=verify-full").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(answer(&mut old, "select 42"), "42");
    let next = Certificates::new();
    let (key, certificate) = next.sign("next");
    let file = |name: &str| place.site.weir().folder().join(name);
    fs::write(file("server.key"), key).unwrap();
    assert_eq!(place.value("sslmode=verify-full", "select 42"), "42", "nothing is read before a reload");
    fs::write(file("server.crt"), certificate).unwrap();
    place.site.weir().command("RELOAD").unwrap();
    place.refused("sslmode=verify-full", "SSL error");
    fs::write(place.folder.path().join("ca.crt"), next.authority()).unwrap();
    assert_eq!(place.value("sslmode=verify-full", "select 42"), "42");
    assert_eq!(answer(&mut old, "select 43"), "43");
    drop(old.stdin.take());
    assert!(old.wait().unwrap().success());
}

#[test]
fn a_client_whose_certificate_is_refused_reads_the_alert_by_epoll_and_by_io_uring() {
    for io in ["epoll", "io_uring"] {
        let setup = Setup::new(Mode::Transaction).general(&format!("io = \"{io}\""));
        let stage = Stage::with("verify-full", setup);
        // Of an authority with the same name and another key.
        stage.refused(&stage.certified(&Certificates::new(), users::APP.name), "tlsv1 alert decrypt error");
        stage.refused("sslmode=require sslcert=none", "certificate required");
        stage.refused("sslmode=disable", "SSL required");
    }
}

/// A client of OpenSSL's with a certificate, which keeps the session of each connection for the next one.
struct Resuming<'a> {
    stage: &'a Stage,
    protocol: &'static str,
}

impl Resuming<'_> {
    fn new<'a>(stage: &'a Stage, protocol: &'static str) -> Resuming<'a> {
        stage.certified(&stage.authority, users::APP.name);
        Resuming { stage, protocol }
    }

    fn file(&self, name: &str) -> String {
        self.stage.folder.path().join(name).display().to_string()
    }

    /// Logs in by the certificate, in a session from before if there is one, and runs a query; returns what OpenSSL says.
    fn says(&self, shows_certificate: bool) -> String {
        let mut bytes = Vec::new();
        put_front::startup(&mut bytes, &[("user", users::APP.name), ("database", "app")], 0);
        put_front::query(&mut bytes, "select 'ser' || 'ved'");
        put_front::terminate(&mut bytes);
        let (session, key, certificate) = (self.file("session"), self.file("client.key"), self.file("client.crt"));
        let mut arguments = vec!["-starttls", "postgres", "-ign_eof", self.protocol, "-sess_out", &session];
        if fs::exists(&session).unwrap() {
            arguments.extend(["-sess_in", &session]);
        }
        if shows_certificate {
            arguments.extend(["-cert", &certificate, "-key", &key]);
        }
        self.stage.s_client(&arguments, &bytes)
    }

    /// The same, where it has to be served; returns whether the session was resumed.
    #[track_caller]
    fn resumes(&self, shows_certificate: bool) -> bool {
        let said = self.says(shows_certificate);
        assert!(said.contains("served"), "{said}\n{}", self.stage.site.weir().log());
        said.contains("Reused, TLSv1.3")
    }
}

/// A Weir that lets clients in by their certificates only, but for the tests' console.
fn by_certificate() -> Stage {
    let setup = Setup::new(Mode::Transaction).workers(2).auth("hba").auth_line("hba_file = \"hba.conf\"");
    Stage::with("verify-ca", setup.file("hba.conf", &certificate_rules("all")))
}

fn certificate_rules(databases: &str) -> String {
    format!("local all {0} md5\nlocal all pgbouncer peer\nhostssl {databases} all all cert\n", ADMIN.0)
}

#[test]
fn a_client_resumes_its_session_as_who_its_certificate_names_and_only_that() {
    let place = by_certificate();
    let client = Resuming::new(&place, "-tls1_3");
    assert!(!client.says(false).contains("served"), "without a certificate");
    fs::remove_file(client.file("session")).unwrap_or_default();
    assert!(!client.resumes(true), "there is no session yet");
    assert!(client.resumes(false), "the session has the certificate");
    assert!(client.resumes(true));
    place.site.weir().command("reload").unwrap();
    assert!(client.resumes(false), "a reload of the same");
    let other = certificate_rules("all").replace("all all cert", "other all cert");
    fs::write(place.site.weir().folder().join("hba.conf"), other).unwrap();
    place.site.weir().command("reload").unwrap();
    assert!(!client.says(true).contains("served"), "the rules decide on each login");
}

#[test]
fn a_session_from_before_a_change_of_the_authorities_or_the_rules_is_not_resumed() {
    let place = by_certificate();
    let client = Resuming::new(&place, "-tls1_3");
    assert_eq!([client.resumes(true), client.resumes(true)], [false, true]);
    let folder = place.site.weir().folder();
    fs::write(folder.join("hba.conf"), certificate_rules("app,other")).unwrap();
    place.site.weir().command("reload").unwrap();
    assert_eq!([client.resumes(true), client.resumes(true)], [false, true], "after other rules");
    let more = format!("{}{}", place.authority.authority(), Certificates::new().authority());
    fs::write(folder.join("ca.crt"), more).unwrap();
    place.site.weir().command("reload").unwrap();
    assert_eq!([client.resumes(true), client.resumes(true)], [false, true], "with one more authority");
    fs::write(folder.join("ca.crt"), Certificates::new().authority()).unwrap();
    place.site.weir().command("reload").unwrap();
    assert!(!client.says(false).contains("served"), "its authority is not trusted any more");
    assert!(!client.says(true).contains("served"));
}

#[test]
fn a_client_of_tls_1_2_gets_no_ticket() {
    let place = by_certificate();
    let client = Resuming::new(&place, "-tls1_2");
    let again = [client.says(true), client.says(true)];
    assert!(again.iter().all(|said| said.contains("served") && !said.contains("Reused")), "{again:?}");
}

#[test]
fn a_session_is_resumed_at_the_process_that_has_taken_over() {
    let place = by_certificate();
    let weir = place.site.weir();
    weir.skip_final_checks();
    let client = Resuming::new(&place, "-tls1_3");
    assert!(!client.resumes(true));
    let mut upgrade = Command::new(weir_binary());
    let output = upgrade.arg("upgrade").arg(weir.folder().join("weir.toml")).stderr(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let pid = said.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Postgres::shared().server().reaper().watch(pid.unwrap_or_else(|| panic!("no process in {said:?}")));
    assert!(client.resumes(false));
}

#[test]
fn clients_whose_tls_fails_are_reported_with_their_origin_the_reason_and_what_to_do() {
    let api = Api::default();
    let setup = Setup::new(Mode::Transaction).workers(2).more(&api.section());
    let stage = Stage::with("require", setup);
    // Another authority than the one that has signed Weir's certificate.
    let at = |name: &str| stage.folder.path().join(name).display().to_string();
    let (other, key) = (at("other.crt"), at("other.key"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=another"]);
    assert!(openssl.args(["-keyout", &key, "-out", &other]).output().unwrap().status.success());
    let untrusting = format!("sslmode=verify-full sslrootcert={other}");
    let faults = |reason: &str, more: &dyn Fn()| {
        eventually(reason, || {
            more();
            let status = api.get("/api/v1/status");
            let all = status["faults"].as_array().cloned().unwrap_or_default();
            let is_meant = |fault: &&serde_json::Value| fault["kind"] == "login";
            let found = all.iter().find(is_meant).filter(|it| it["summary"].to_string().contains(reason)).cloned();
            found.ok_or_else(|| status["faults"].to_string())
        })
    };
    // The first look counts what was there before.
    let again = || stage.refused(&untrusting, "certificate verify failed");
    let fault = faults("TLS from 127.0.0.1 (the client does not trust Weir's certificate", &again);
    assert!(fault["advice"].as_str().unwrap_or_default().contains("sslrootcert"), "{fault}");
    (0..6).for_each(|_| stage.refused("sslmode=disable", "SSL required"));
    let fault = faults("6 × \\\"app\\\" from", &|| ());
    let summary = fault["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("6 × \"app\" from 127.0.0.1 (SSL required)"), "{fault}");
    let old = ["-starttls", "postgres", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"];
    (0..6).for_each(|_| drop(stage.s_client(&old, b"")));
    let fault = faults("no version of TLS in common", &|| ());
    assert_eq!(fault["problem"], true, "{fault}");
}
