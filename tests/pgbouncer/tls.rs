//! TLS: every `sslmode` to clients and to servers, certificates of clients, and their reload.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use weir_pgclient::Connection;
use weir_pglocal::TempFolder;
use weir_tests::{Postgres, users};

use crate::harness::{Facts, Setup, Site, account, compare, prepared, same};

/// Two authorities, certificates for `localhost` and for another name, and of the clients `app` and `other`.
fn certificates() -> &'static Path {
    static FOLDER: OnceLock<TempFolder> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = TempFolder::owned_by(account()).unwrap_or_else(|error| panic!("{error}"));
        authority(folder.path(), "ca");
        authority(folder.path(), "otherca");
        let ours = [
            ("server", "ca", "localhost"),
            ("next", "otherca", "localhost"),
            ("app", "ca", "app"),
            ("stranger", "otherca", "app"),
        ];
        ours.iter().for_each(|(name, authority, subject)| sign(folder.path(), name, authority, subject));
        for entry in fs::read_dir(folder.path()).expect("ours").flatten() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o600)).expect("ours");
            if let Some(account) = account() {
                chown(entry.path(), Some(account.uid), Some(account.gid)).expect("root may");
            }
        }
        folder
    });
    folder.path()
}

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

fn authority(folder: &Path, name: &str) {
    let constraints = "-addext basicConstraints=critical,CA:TRUE";
    openssl(
        folder,
        &format!("req -x509 {NEW_KEY} -days 30 -keyout {name}.key -out {name}.crt -subj /CN={name} {constraints}"),
    );
}

fn sign(folder: &Path, name: &str, authority: &str, subject: &str) {
    openssl(folder, &format!("req {NEW_KEY} -keyout {name}.key -out {name}.csr -subj /CN={subject}"));
    fs::write(folder.join("ext"), format!("subjectAltName=DNS:{subject}\n")).expect("ours");
    let by = format!("-CA {authority}.crt -CAkey {authority}.key -CAcreateserial -days 30 -extfile ext");
    openssl(folder, &format!("x509 -req -in {name}.csr {by} -out {name}.crt"));
}

fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output();
    let output = output.expect("openssl runs");
    assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A path among the certificates.
fn at(name: &str) -> String {
    certificates().join(name).display().to_string()
}

/// A pooler with a certificate.
fn setup(mode: &str) -> Setup {
    let setup = Setup::new().set("client_tls_sslmode", mode).set("client_tls_key_file", &at("server.key"));
    setup.set("client_tls_cert_file", &at("server.crt")).set("client_tls_ca_file", &at("ca.crt"))
}

/// The output of psql with this connection string, or the reason of the refusal.
fn psql(site: &Site, string: &str, command: &str) -> String {
    let mut psql = Command::new("psql");
    if let Some(account) = account() {
        // That user owns the keys.
        account.run(&mut psql);
    }
    let base = format!("host=localhost hostaddr=127.0.0.1 port={} dbname=app user=app gssencmode=disable", site.port());
    psql.env("PGPASSWORD", users::APP.password).env("HOME", site.folder());
    psql.args(["-X", "-A", "-t", "-w", "-c", command, &format!("{base} {string}")]);
    let output = site.finish(psql);
    if output.status.success() {
        return String::from_utf8_lossy(&output.stdout).trim().to_owned();
    }
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    // The library's texts differ by version.
    let library = ["SSL error", "SSL SYSCALL", "server closed the connection", "certificate verify failed"];
    if library.iter().any(|text| printed.contains(text)) {
        return "the handshake fails".to_owned();
    }
    // A hint may follow.
    printed.trim().rsplit("failed: ").next().and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
}

fn with_certificate(name: &str) -> String {
    format!("sslmode=require sslcert={} sslkey={}", at(&format!("{name}.crt")), at(&format!("{name}.key")))
}

#[test]
fn each_mode_to_clients() {
    for mode in ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"] {
        same(&setup(mode), |site, facts| {
            for (name, string) in [
                ("plain", "sslmode=disable".to_owned()),
                ("prefers TLS", "sslmode=prefer".to_owned()),
                ("wants TLS", "sslmode=require".to_owned()),
                ("verifies all", format!("sslmode=verify-full sslrootcert={}", at("ca.crt"))),
                ("verifies with the wrong authority", format!("sslmode=verify-ca sslrootcert={}", at("otherca.crt"))),
                ("with a certificate", with_certificate("app")),
                ("with a certificate of another authority", with_certificate("stranger")),
            ] {
                facts.note(&format!("{mode}: {name}"), psql(site, &string, "select 7"));
            }
            let socket = site.unix(users::APP.name, "app").password(users::APP.password);
            facts.login(&format!("{mode}: over the socket"), &socket);
        });
    }
}

#[test]
fn the_console_shows_who_uses_tls() {
    same(&setup("allow"), |site, facts| {
        let string = "sslmode=require dbname=pgbouncer user=admin password='console secret'";
        let shown = psql(site, string, "show clients");
        let tls = shown.split('|').find(|field| field.starts_with("TLS")).unwrap_or("nothing");
        facts.note("protocol", tls.split('/').next().unwrap_or_default());
        facts.note("cipher", tls.split('/').nth(1).is_some_and(|cipher| cipher.starts_with("TLS_")));
        let old = psql(site, &format!("{string} ssl_max_protocol_version=TLSv1.2"), "show clients");
        let tls = old.split('|').find(|field| field.starts_with("TLS")).unwrap_or("nothing");
        facts.note("older", tls.split('/').next().unwrap_or_default());
        weir_tests::eventually("logged", || if site.log().contains("tls=TLS") { Ok(()) } else { Err(site.log()) });
    });
}

#[test]
fn protocols_may_be_chosen() {
    for (protocols, name) in
        [("tlsv1.2", "old"), ("tlsv1.3", "new"), ("secure", "secure"), ("all", "all"), ("tlsv1.2,tlsv1.3", "both")]
    {
        same(&setup("require").set("client_tls_protocols", protocols), |site, facts| {
            facts.note(
                &format!("{name}: 1.2"),
                psql(site, "sslmode=require ssl_max_protocol_version=TLSv1.2", "select 7"),
            );
            facts.note(
                &format!("{name}: 1.3"),
                psql(site, "sslmode=require ssl_min_protocol_version=TLSv1.3", "select 7"),
            );
        });
    }
}

#[test]
fn certificates_of_clients_name_their_user() {
    same(&setup("verify-full").set("auth_type", "cert"), |site, facts| {
        facts.note("its own name", psql(site, &with_certificate("app"), "select current_user"));
        facts.note("another's name", psql(site, &format!("{} user=other", with_certificate("app")), "select 7"));
        facts.note("of another authority", psql(site, &with_certificate("stranger"), "select 7"));
        facts.note("none", psql(site, "sslmode=require", "select 7"));
        facts.note("plain", psql(site, "sslmode=disable", "select 7"));
    });
}

#[test]
fn lines_of_hba_distinguish_tls_from_cleartext() {
    let lines = "hostssl all app 127.0.0.1/32 cert\nhostssl all other 127.0.0.1/32 md5\n\
                 hostnossl all all 127.0.0.1/32 reject\n";
    let setup = setup("allow").set("auth_type", "hba").set("auth_hba_file", "{dir}/hba.conf").file("hba.conf", lines);
    same(&setup, |site, facts| {
        facts.note("app with a certificate", psql(site, &with_certificate("app"), "select 7"));
        facts.note("app without", psql(site, "sslmode=require", "select 7"));
        facts.note("other", psql(site, "sslmode=require user=other password='quite another'", "select 7"));
        facts.note("plain", psql(site, "sslmode=disable user=other password='quite another'", "select 7"));
    });
}

#[test]
fn certificates_are_reloaded() {
    same(&setup("allow"), |site, facts| {
        let (old, new) = (
            format!("sslmode=verify-full sslrootcert={}", at("ca.crt")),
            format!("sslmode=verify-full sslrootcert={}", at("otherca.crt")),
        );
        facts.note("the old authority before", psql(site, &old, "select 7"));
        facts.note("the new authority before", psql(site, &new, "select 7"));
        let mut client = site.client();
        let changed =
            setup("allow").set("client_tls_key_file", &at("next.key")).set("client_tls_cert_file", &at("next.crt"));
        site.rewrite(&changed);
        facts.query("reload", &mut site.console(), "RELOAD");
        facts.note("the old authority after", psql(site, &old, "select 7"));
        facts.note("the new authority after", psql(site, &new, "select 7"));
        facts.query("a connected client", &mut client, "SELECT 1");
    });
}

#[test]
fn what_is_missing_is_an_error_at_start() {
    for (name, setup) in [
        ("no files", Setup::new().set("client_tls_sslmode", "require")),
        ("no such key", setup("require").set("client_tls_key_file", "{dir}/missing")),
        ("no such certificate", setup("require").set("client_tls_cert_file", "{dir}/missing")),
        ("a key of another certificate", setup("require").set("client_tls_key_file", &at("next.key"))),
        ("no such authority", setup("verify-ca").set("client_tls_ca_file", "{dir}/missing")),
        ("no such mode", setup("perhaps")),
        ("no such protocol", setup("require").set("client_tls_protocols", "ssl2")),
    ] {
        prepared(&setup, &[], |site, facts| {
            site.run();
            facts.note(name, if site.listens() { "listens".to_owned() } else { site.await_exit().to_string() });
        });
    }
}

/// PostgreSQL with a certificate for `localhost`.
fn encrypted() -> &'static Postgres {
    static POSTGRES: OnceLock<Postgres> = OnceLock::new();
    POSTGRES.get_or_init(|| {
        let files = [
            ("ssl", "on".to_owned()),
            ("ssl_cert_file", at("server.crt")),
            ("ssl_key_file", at("server.key")),
            ("ssl_ca_file", at("ca.crt")),
        ];
        let settings: Vec<_> = files.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Postgres::with(60, &settings)
    })
}

/// How a server is reached in each mode, by its name and by its address.
fn reach(site: &Site, facts: &mut Facts, mode: &str) {
    for database in ["named", "numbered"] {
        let params = site.params(users::APP, database).timeout(std::time::Duration::from_secs(4));
        let name = format!("{mode}, {database}");
        // The reason for a missing server is reported at once since 1.19, before that by query_wait_timeout; this test
        // ignores which.
        let outcome = Connection::connect(&params);
        facts.note(&name, outcome.as_ref().map_or("no server", |_| "welcome"));
        if let Ok(mut client) = outcome {
            facts.query(
                &format!("{name}: encrypted"),
                &mut client,
                "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
            );
            let tls =
                site.show("SERVERS").get(0, "tls").unwrap_or_default().split('/').next().unwrap_or_default().to_owned();
            facts.note(&format!("{name}: shown"), tls);
        }
    }
}

fn to_server(mode: &str, authority: &str) -> Setup {
    let setup = Setup::new()
        .set("server_tls_sslmode", mode)
        .set("server_tls_ca_file", authority)
        .set("query_wait_timeout", "2");
    let setup = setup.line("named", "host=localhost port={server} dbname={db}");
    setup.line("numbered", "host=127.0.0.1 port={server} dbname={db}")
}

// libpq's `allow` begins without TLS, and so does Weir; PgBouncer treats it as `prefer`, and its documentation does not
// say.
const MODES: [&str; 5] = ["disable", "prefer", "require", "verify-ca", "verify-full"];

#[test]
fn each_mode_to_a_server_with_tls() {
    for mode in MODES {
        compare(&[], |pooler| {
            let site = Site::start(pooler, &to_server(mode, &at("ca.crt")), encrypted());
            let mut facts = site.facts();
            reach(&site, &mut facts, mode);
            facts.with_log(site.end_of_log())
        });
    }
}

#[test]
fn each_mode_to_a_server_without_tls() {
    for mode in MODES {
        same(&to_server(mode, &at("ca.crt")), |site, facts| reach(site, facts, mode));
    }
}

#[test]
fn a_server_of_another_authority() {
    for mode in ["require", "verify-ca", "verify-full"] {
        compare(&[], |pooler| {
            let site = Site::start(pooler, &to_server(mode, &at("otherca.crt")), encrypted());
            let mut facts = site.facts();
            reach(&site, &mut facts, mode);
            facts.with_log(site.end_of_log())
        });
    }
}
