//! Protocols, ciphers and certificates of both sides, as psql and PostgreSQL see them. The suite that also runs with
//! PgBouncer has the modes.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::thread;

use weir_pgclient::Connection;
use weir_pglocal::{Account, Reaper, TempFolder};
use weir_tests::{Ini, Postgres, Site, users};

const NEW_KEY: &str = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";

/// An authority, a certificate for `localhost`, and one of the client `app`.
fn certificates() -> &'static Path {
    // A value that is never dropped: the reaper removes the folder when the process ends.
    static FOLDER: OnceLock<(TempFolder, Reaper)> = OnceLock::new();
    let (folder, _) = FOLDER.get_or_init(|| {
        let account = Account::to_drop_to().unwrap();
        let folder = TempFolder::owned_by(account.as_ref()).unwrap();
        let reaper = Reaper::of(folder.path()).unwrap();
        let constraints = "-addext basicConstraints=critical,CA:TRUE";
        let request = format!("req -x509 {NEW_KEY} -days 30 -keyout ca.key -out ca.crt -subj /CN=ca {constraints}");
        openssl(folder.path(), &request);
        for (name, subject) in [("server", "localhost"), ("app", "app")] {
            openssl(folder.path(), &format!("req {NEW_KEY} -keyout {name}.key -out {name}.csr -subj /CN={subject}"));
            fs::write(folder.path().join("ext"), format!("subjectAltName=DNS:{subject}\n")).unwrap();
            let by = "-CA ca.crt -CAkey ca.key -CAcreateserial -days 30 -extfile ext";
            openssl(folder.path(), &format!("x509 -req -in {name}.csr {by} -out {name}.crt"));
        }
        for entry in fs::read_dir(folder.path()).unwrap().flatten() {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o600)).unwrap();
            if let Some(account) = &account {
                chown(entry.path(), Some(account.uid), Some(account.gid)).unwrap();
            }
        }
        (folder, reaper)
    });
    folder.path()
}

fn openssl(folder: &Path, words: &str) {
    let output = Command::new("openssl").args(words.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
}

fn at(name: &str) -> String {
    certificates().join(name).display().to_string()
}

/// Weir with a certificate for its clients.
fn encrypting() -> Ini {
    let ini = Ini::transaction(2).set("client_tls_sslmode", "allow");
    ini.set("client_tls_key_file", at("server.key")).set("client_tls_cert_file", at("server.crt"))
}

/// The encryption that psql shows, `TLSv1.3/TLS_AES_256_GCM_SHA384`; or `none`, if the login fails.
fn handshake(site: &Site, highest: &str) -> String {
    let words = format!(
        "host=127.0.0.1 port={} dbname=app user=app sslmode=require ssl_max_protocol_version={highest}",
        site.weir().port()
    );
    let mut psql = Command::new("psql");
    psql.env("PGPASSWORD", users::APP.password).env("HOME", site.weir().folder()).env("LC_ALL", "C");
    let output = psql.args(["-X", "-w", "-c", "\\conninfo", &words]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let part = |name: &str| {
        let rest = printed.split(&format!("{name}: ")).nth(1)?;
        rest.split([',', ')', '\n']).next().map(str::to_owned)
    };
    match (output.status.success(), part("protocol"), part("cipher")) {
        (true, Some(protocol), Some(cipher)) => format!("{protocol}/{cipher}"),
        _ => "none".to_owned(),
    }
}

#[test]
fn ciphers_and_protocols_to_clients_are_configurable() {
    let site = Site::ini(&encrypting());
    assert!(handshake(&site, "TLSv1.3").starts_with("TLSv1.3/"));
    assert!(handshake(&site, "TLSv1.2").starts_with("TLSv1.2/ECDHE"));
    let site = Site::ini(&encrypting().set("client_tls_protocols", "tlsv1.3"));
    assert!(handshake(&site, "TLSv1.3").starts_with("TLSv1.3/"));
    assert_eq!(handshake(&site, "TLSv1.2"), "none");
    for cipher in ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"] {
        let site = Site::ini(&encrypting().set("client_tls_ciphers", cipher));
        assert_eq!(handshake(&site, "TLSv1.2"), format!("TLSv1.2/{cipher}"));
    }
    for cipher in ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"] {
        let site = Site::ini(&encrypting().set("client_tls13_ciphers", cipher));
        assert_eq!(handshake(&site, "TLSv1.3"), format!("TLSv1.3/{cipher}"));
    }
}

/// PostgreSQL with a certificate, which trusts our authority.
fn encrypted() -> &'static Postgres {
    static POSTGRES: OnceLock<Postgres> = OnceLock::new();
    POSTGRES.get_or_init(|| {
        let (certificate, key, authority) = (at("server.crt"), at("server.key"), at("ca.crt"));
        let files = [("ssl_cert_file", &*certificate), ("ssl_key_file", &*key), ("ssl_ca_file", &*authority)];
        Postgres::with(60, &[&[("ssl", "on")][..], &files].concat())
    })
}

/// The server's view of its connection: protocol, cipher, and the subject of the client certificate.
fn seen_by_server(ini: &Ini) -> [String; 3] {
    let site = Site::ini_on(encrypted(), ini);
    let sql = "SELECT version || ',' || cipher || ',' || coalesce(client_dn, 'nobody') \
               FROM pg_stat_ssl WHERE pid = pg_backend_pid() AND ssl";
    let seen = site.connect().value(sql).unwrap().unwrap_or_default();
    let mut parts = seen.split(',').map(str::to_owned);
    [(); 3].map(|()| parts.next().unwrap_or_default())
}

#[test]
fn ciphers_protocols_and_the_certificate_to_servers_are_configurable() {
    let ini = || Ini::transaction(2).set("server_tls_sslmode", "require");
    let [protocol, _, certificate] = seen_by_server(&ini());
    assert_eq!((protocol.as_str(), certificate.as_str()), ("TLSv1.3", "nobody"));
    let ours = ini().set("server_tls_key_file", at("app.key")).set("server_tls_cert_file", at("app.crt"));
    assert_eq!(seen_by_server(&ours)[2], "/CN=app");
    assert_eq!(seen_by_server(&ini().set("server_tls_protocols", "tlsv1.2"))[0], "TLSv1.2");
    for cipher in ["ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384"] {
        let chosen = ini().set("server_tls_protocols", "tlsv1.2").set("server_tls_ciphers", cipher);
        assert_eq!(seen_by_server(&chosen)[1], cipher);
    }
    for cipher in ["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"] {
        assert_eq!(seen_by_server(&ini().set("server_tls13_ciphers", cipher))[1], cipher);
    }
    assert_eq!(seen_by_server(&Ini::transaction(2).set("server_tls_sslmode", "disable"))[0], "");
}

/// PostgreSQL accepts it from version 17 on; a second Weir is the server here.
#[test]
fn tls_to_servers_begins_at_once_if_it_is_direct() {
    let server = Site::ini(&encrypting());
    let direct = |value| Ini::transaction(2).set("server_tls_sslmode", "require").set("server_tls_direct", value);
    let behind = format!("host=127.0.0.1 port={} dbname=app", server.weir().port());
    let site = Site::ini(&direct("1").database("behind", &behind));
    let mut client =
        Connection::connect(&site.weir().params(users::APP.name, "behind").password(users::APP.password)).unwrap();
    assert_eq!(client.value("SELECT 'served'").unwrap().as_deref(), Some("served"));
    let servers = site.weir().show("SERVERS");
    assert!(servers.get(0, "tls").unwrap().starts_with("TLSv1.3/"));

    // The first byte: of a TLS record, or of a request for TLS.
    for (value, first) in [("1", 22), ("0", 0)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ini = direct(value).set("on_server_down", "refuse");
        let site = Site::ini(&ini.through(listener.local_addr().unwrap().port()));
        let params = site.params();
        let client = thread::spawn(move || Connection::connect(&params).map(drop));
        let mut byte = [0];
        listener.accept().unwrap().0.read_exact(&mut byte).unwrap();
        assert_eq!(byte[0], first, "server_tls_direct = {value}");
        drop(listener);
        assert!(client.join().unwrap().is_err());
    }
}
