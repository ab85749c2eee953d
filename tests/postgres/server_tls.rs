//! Connections to servers over TLS: each mode with a server with and without TLS, cancels, and SHOW SERVERS.

use std::fs;
use std::thread;

use weir_pgclient::Connection;
use weir_tests::{Mode, Postgres, Setup, Site, encrypting_postgres, eventually, users};

fn setup(mode: &str) -> Setup {
    Setup::new(Mode::Transaction).size(2).more(&format!("[tls.server]\nmode = \"{mode}\"\n"))
}

fn is_encrypted(client: &mut Connection) -> bool {
    let own = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    client.value(own).unwrap().as_deref() == Some("t")
}

#[test]
fn a_server_with_tls_is_used_encrypted_unless_the_mode_forbids_it() {
    let (postgres, authority) = encrypting_postgres();
    for (mode, encrypted) in [("disable", false), ("allow", false), ("prefer", true), ("require", true)] {
        let site = Site::on(&postgres, setup(mode), Mode::Transaction);
        assert_eq!(is_encrypted(&mut site.connect()), encrypted, "{mode}");
        let servers = site.weir().show("SERVERS");
        assert_eq!(format!("{servers:?}").contains("TLSv1.3"), encrypted, "{mode}: {servers:?}");
    }
    let file = std::env::temp_dir().join(format!("weir-authority-{}.crt", std::process::id()));
    fs::write(&file, authority).unwrap();
    for mode in ["verify-ca", "verify-full"] {
        let text = format!("[tls.server]\nmode = \"{mode}\"\nca_file = \"{}\"\n", file.display());
        let site = Site::on(&postgres, Setup::new(Mode::Transaction).more(&text), Mode::Transaction);
        assert!(is_encrypted(&mut site.connect()), "{mode}");
        // The server's identity is proven: it may request the password, or nothing.
        for user in [users::PLAIN, users::TRUSTED] {
            let setup = Setup::new(Mode::Transaction).server_user(user).more(&text);
            let site = Site::on(&postgres, setup, Mode::Transaction);
            assert!(is_encrypted(&mut site.connect()), "{mode}, {}", user.name);
        }
    }
    let _ = fs::remove_file(file);
    // Encryption alone proves nothing.
    let site = Site::on(&postgres, setup("require").server_user(users::PLAIN), Mode::Transaction);
    let error = Connection::connect(&site.params()).map(drop).unwrap_err();
    assert!(error.to_string().contains("require_auth"), "{error}");
}

#[test]
fn set_changes_the_encryption_of_servers_at_once_and_waits_for_files_that_fit() {
    let (postgres, authority) = encrypting_postgres();
    let site = Site::on(&postgres, setup("disable"), Mode::Transaction);
    let mut client = site.connect();
    assert!(!is_encrypted(&mut client));
    let set = |key: &str, value: &str| site.weir().command(&format!("SET {key} = '{value}'")).map(drop).unwrap();
    set("server_tls_sslmode", "require");
    assert!(is_encrypted(&mut client), "the server under the old settings is replaced");
    // The file of the authority is still missing: the settings in force stay, and the next SET makes both effective.
    set("server_tls_sslmode", "verify-full");
    eventually("it is logged", || {
        let log = site.weir().log();
        if log.contains("TLS settings could not be applied") { Ok(()) } else { Err(log) }
    });
    assert!(is_encrypted(&mut client));
    let file = std::env::temp_dir().join(format!("weir-set-authority-{}.crt", std::process::id()));
    fs::write(&file, authority).unwrap();
    set("server_tls_ca_file", &file.display().to_string());
    assert!(is_encrypted(&mut client));
    for less in ["server_tls_sslmode = 'disable'", "server_tls_ca_file = '/etc/hostname'"] {
        let refused = site.weir().command(&format!("SET {less}")).unwrap_err();
        assert!(format!("{refused:?}").contains("with less protection than now"), "{refused:?}");
    }
    assert!(is_encrypted(&mut client));
    let _ = fs::remove_file(file);
}

#[test]
fn a_server_without_tls_is_used_in_cleartext_or_not_at_all() {
    let postgres = Postgres::private();
    let site = Site::on(&postgres, setup("prefer"), Mode::Transaction);
    assert!(!is_encrypted(&mut site.connect()));
    let site = Site::on(&postgres, setup("require"), Mode::Transaction);
    let error = Connection::connect(&site.params()).map(drop).unwrap_err();
    assert!(error.to_string().contains("server refused SSL"), "{error}");
}

#[test]
fn allow_encrypts_if_the_server_requires_it() {
    let (postgres, _) = encrypting_postgres();
    let mut superuser = postgres.superuser("postgres");
    let file = superuser.value("SHOW hba_file").unwrap().expect("a file");
    superuser
        .query(&format!(
            "COPY (SELECT 1) TO PROGRAM $program$ cat >/dev/null; sed -i 's/^host /hostssl /' '{file}' $program$"
        ))
        .unwrap();
    superuser.query("SELECT pg_reload_conf()").unwrap();
    let site = Site::on(&postgres, setup("disable"), Mode::Transaction);
    eventually("it insists", || match Connection::connect(&site.params()) {
        Err(error) if error.to_string().contains("pg_hba.conf") => Ok(()),
        other => Err(other.map(drop)),
    });
    let site = Site::on(&postgres, setup("allow"), Mode::Transaction);
    assert!(is_encrypted(&mut site.connect()));
}

#[test]
fn a_cancel_reaches_a_server_over_tls() {
    let (postgres, _) = encrypting_postgres();
    let site = Site::on(&postgres, setup("require"), Mode::Transaction);
    let mut client = site.connect();
    assert!(is_encrypted(&mut client));
    let cancel = client.canceller();
    let error = thread::scope(|scope| {
        let query = scope.spawn(|| client.query("SELECT pg_sleep(60)").unwrap_err());
        eventually("it runs", || {
            let backends = site.database().backends();
            if backends.iter().any(|(_, state)| state == "active") { Ok(()) } else { Err(backends) }
        });
        cancel.cancel().unwrap();
        query.join().unwrap()
    });
    assert_eq!(error.sqlstate(), Some("57014"), "{error}");
    assert!(is_encrypted(&mut client), "and it continues");
}
