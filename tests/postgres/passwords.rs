//! Passwords that a service checks: a real OpenLDAP, and PAM with real modules. Without slapd, or where no service of
//! PAM can be written, a test reports that and tests nothing.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_tests::{Ini, Launch, Mode, Postgres, Setup, Site, Slapd, User, Weir, eventually, slapd, users};

/// A Weir by the rules of an HBA file, with the console's own first; `env` is for the process.
fn by_rules(rule: &str, settings: &[(&str, &str)], env: &[(&str, &str)]) -> (Weir, weir_tests::Database) {
    let database = Postgres::shared().database();
    let rules = format!("host pgbouncer,weir all all md5\nhost all truster all trust\n{rule}\n");
    let mut ini = Ini::of(Mode::Transaction).set("auth_type", "hba").set("auth_hba_file", "{folder}/hba.conf");
    for (name, value) in settings {
        ini = ini.set(name, value);
    }
    // Whether a user is listed does not matter: the password is not looked for in the file.
    let ini = ini.without(users::APP.name).file("hba.conf", &rules);
    let env = env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    (Weir::start_ini_with(&ini.text(&database), &ini.files(), &Launch { env, ..Launch::default() }), database)
}

fn log_in(weir: &Weir, user: &str, password: &str) -> Result<Connection, Error> {
    let mut client = Connection::connect(&weir.params(user, "app").password(password))?;
    assert_eq!(client.value("SELECT current_user::text")?.as_deref(), Some(user));
    Ok(client)
}

/// Waits for a line of the log: a thread of its own writes them.
#[track_caller]
fn logs(weir: &Weir, text: &str) {
    eventually("a line of the log", || {
        let log = weir.log();
        if log.contains(text) { Ok(()) } else { Err(format!("no {text:?} in\n{log}")) }
    });
}

/// The right password comes in, and opens the server too; wrong ones and unknown users get the same words.
#[track_caller]
fn check_passwords(weir: &Weir, refusal: &str) {
    log_in(weir, users::APP.name, users::APP.password).unwrap_or_else(|error| panic!("{error}\n{}", weir.log()));
    for (user, password) in [(users::APP.name, "wrong"), ("nobody", users::APP.password)] {
        let error = log_in(weir, user, password).map(drop).unwrap_err();
        assert!(error.to_string().contains(refusal), "{user}: {error}");
        assert!(["28P01", "08P01"].map(Some).contains(&error.sqlstate()), "a weir.toml's, or an ini's: {error}");
    }
    let empty = log_in(weir, users::APP.name, "").map(drop).unwrap_err();
    assert!(empty.to_string().contains("empty password"), "{empty}");
    for password in [users::APP.password, slapd::MANAGER.1] {
        assert!(!weir.log().contains(password), "the log has a password");
    }
}

const LDAP_FAILED: &str = "LDAP authentication failed";

#[test]
fn an_ldap_server_checks_passwords_in_each_of_the_ways() {
    let Some(server) = Slapd::start() else { return };
    let (port, base) = (server.port, slapd::BASE);
    let (manager, secret) = slapd::MANAGER;
    let searcher = format!("ldapbinddn=\"{manager}\" ldapbindpasswd=\"{secret}\"");
    for options in [
        format!("ldapserver=127.0.0.1 ldapport={port} ldapprefix=\"uid=\" ldapsuffix=\",{base}\""),
        format!("ldapserver=127.0.0.1 ldapport={port} ldapbasedn=\"{base}\" {searcher}"),
        format!("ldapserver=127.0.0.1 ldapport={port} ldapbasedn=\"{base}\" ldapsearchattribute=cn {searcher}"),
        format!("ldapurl=\"ldap://127.0.0.1:{port}/{base}?uid?sub\" {searcher}"),
        format!("ldapurl=\"ldap://127.0.0.1:{port}/{base}??one?(|(uid=$username)(mail=$username))\" {searcher}"),
    ] {
        let (weir, _database) = by_rules(&format!("host all all all ldap {options}"), &[], &[]);
        check_passwords(&weir, LDAP_FAILED);
    }
}

#[test]
fn the_log_says_why_an_ldap_server_refused_a_login() {
    let Some(server) = Slapd::start() else { return };
    let (port, base) = (server.port, slapd::BASE);
    let (manager, secret) = slapd::MANAGER;
    let rule = format!(
        "host all all all ldap ldapserver=127.0.0.1 ldapport={port} ldapbasedn=\"{base}\" ldapsearchattribute=cn \
         ldapbinddn=\"{manager}\" ldapbindpasswd=\"{secret}\""
    );
    let (weir, _database) = by_rules(&rule, &[], &[]);
    for (user, password, why) in [
        ("nobody", "x", "LDAP user \"nobody\" does not exist"),
        ("twin", "twin's", "LDAP user \"twin\" is not unique"),
        ("a*", "x", "invalid character in user name"),
        ("app", "x", "LDAP login failed for user uid=app,dc=example,dc=net: invalid credentials"),
    ] {
        let error = log_in(&weir, user, password).map(drop).unwrap_err();
        assert!(error.to_string().contains(LDAP_FAILED), "{error}");
        logs(&weir, why);
    }
}

#[test]
fn a_password_reaches_an_ldap_server_only_after_its_certificate_was_checked() {
    let Some(server) = Slapd::start() else { return };
    let (plain, tls, base) = (server.port, server.tls_port, slapd::BASE);
    let name = format!("ldapprefix=\"uid=\" ldapsuffix=\",{base}\"");
    let file = server.ca_file();
    let ways = [
        format!("ldapserver=localhost ldapscheme=ldaps ldapport={tls} {name}"),
        format!("ldapserver=localhost ldapport={plain} ldaptls=1 {name}"),
    ];
    for options in &ways {
        let rule = format!("host all all all ldap {options}");
        let (weir, _database) = by_rules(&rule, &[], &[("LDAPTLS_CACERT", &file)]);
        check_passwords(&weir, LDAP_FAILED);
        // Nobody has said that this authority may be trusted.
        let (weir, _database) = by_rules(&rule, &[], &[("LDAPCONF", "/nonexistent")]);
        assert!(log_in(&weir, users::APP.name, users::APP.password).is_err());
        logs(&weir, "could not start LDAP TLS session");
        // The certificate is for localhost.
        let other = rule.replace("localhost", "127.0.0.1");
        let (weir, _database) = by_rules(&other, &[], &[("LDAPTLS_CACERT", &file)]);
        assert!(log_in(&weir, users::APP.name, users::APP.password).is_err());
        let (weir, _database) = by_rules(&other, &[], &[("LDAPTLS_REQCERT", "never")]);
        log_in(&weir, users::APP.name, users::APP.password).unwrap();
    }
}

#[test]
fn ldap_is_a_type_of_its_own_too() {
    let Some(server) = Slapd::start() else { return };
    let (port, base) = (server.port, slapd::BASE);
    let options = format!("ldapserver=127.0.0.1 ldapport={port} ldapprefix=\"uid=\" ldapsuffix=\",{base}\"");
    let setup = Setup::new(Mode::Transaction).auth("ldap").no_server_user().console_by_socket();
    let site = Site::with(setup.auth_line(&format!("ldap_options = '{options}'")), Mode::Transaction);
    check_passwords(site.weir(), LDAP_FAILED);
    let shown = site.weir().show("CONFIG");
    let row = (0..shown.rows.len()).find(|row| shown.get(*row, "key") == Some("auth_ldap_options")).unwrap();
    assert_eq!(shown.get(row, "value"), Some("***"), "a password may be among the options");
}

#[test]
fn an_ldap_server_that_is_silent_or_away_holds_up_no_other_login() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let rule = format!("host all all all ldap ldapserver=127.0.0.1 ldapport={port} ldapprefix=uid=");
    let (weir, _database) = by_rules(&rule, &[("client_login_timeout", "3")], &[]);
    let weir = &weir;
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let waiting: Vec<_> = (0..6).map(|_| scope.spawn(|| log_in(weir, users::APP.name, "x").map(drop))).collect();
        std::thread::sleep(Duration::from_millis(300));
        log_in(weir, users::TRUSTED.name, users::TRUSTED.password).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(3), "the others still wait");
        for login in waiting {
            assert!(login.join().unwrap().is_err());
        }
        assert!(begun.elapsed() < Duration::from_secs(10));
    });
    drop(silent);
    let error = log_in(weir, users::APP.name, "x").map(drop).unwrap_err();
    assert!(error.to_string().contains(LDAP_FAILED), "{error}");
    logs(weir, "could not connect to LDAP server");
}

#[test]
fn an_ldap_server_that_is_silent_holds_up_no_login_that_another_one_checks() {
    let Some(slapd) = Slapd::start() else { return };
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let rule = format!(
        "host all {} all ldap ldapserver=127.0.0.1 ldapport={} ldapprefix=uid=\n\
         host all all all ldap ldapserver=127.0.0.1 ldapport={} ldapprefix=\"uid=\" ldapsuffix=\",{}\"",
        users::MD5.name,
        silent.local_addr().unwrap().port(),
        slapd.port,
        slapd::BASE
    );
    let (weir, _database) = by_rules(&rule, &[("client_login_timeout", "6")], &[]);
    let weir = &weir;
    std::thread::scope(|scope| {
        let begun = Instant::now();
        let waiting: Vec<_> = (0..40).map(|_| scope.spawn(|| log_in(weir, users::MD5.name, "x").map(drop))).collect();
        std::thread::sleep(Duration::from_millis(500));
        for _ in 0..10 {
            log_in(weir, users::APP.name, users::APP.password).unwrap();
        }
        assert!(begun.elapsed() < Duration::from_secs(5), "the others still wait");
        waiting.into_iter().for_each(|login| assert!(login.join().unwrap().is_err()));
    });
}

/// A service of PAM of the test's own; gone when dropped.
struct Service(PathBuf);

impl Service {
    /// `None` where there is no PAM, or no service can be written.
    fn new(name: &str, text: &str) -> Option<Service> {
        let path = PathBuf::from(format!("/etc/pam.d/{name}"));
        let loaded = ["/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64", "/lib", "/usr/lib"];
        let installed = loaded.iter().any(|folder| fs::exists(format!("{folder}/libpam.so.0")).unwrap_or(false));
        if !installed || fs::write(&path, text).is_err() {
            println!("no PAM, or no right to write {}: nothing is tested", path.display());
            return None;
        }
        Some(Service(path))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

const PAM_FAILED: &str = "PAM authentication failed";

/// A program for pam_exec, which gets the password and ends with 0 if it is right.
fn script(text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("weir-pam-{}-{}", std::process::id(), text.len()));
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn pam_checks_passwords_by_the_service_that_is_named() {
    let User { name, password, .. } = users::APP;
    let check = script(&format!(
        "read -r given\n[ \"$PAM_USER\" = {name} ] && [ \"$PAM_RHOST\" = 127.0.0.1 ] && [ \"$given\" = '{}' ]",
        password.replace('\'', "'\\''")
    ));
    let modules =
        format!("auth required pam_exec.so quiet expose_authtok {}\naccount required pam_permit.so\n", check.display());
    let own = format!("weir-test-{}", std::process::id());
    let Some(_service) = Service::new(&own, &modules) else { return };
    let (weir, _database) = by_rules("host all all all pam", &[("auth_pam_service", &own)], &[]);
    check_passwords(&weir, PAM_FAILED);
    logs(&weir, "pam_authenticate() failed: ");
    let (weir, _database) = by_rules(&format!("host all all all pam pamservice={own}"), &[], &[]);
    check_passwords(&weir, PAM_FAILED);
    let setup = Setup::new(Mode::Transaction).auth("pam").no_server_user().console_by_socket();
    let site = Site::with(setup.auth_line(&format!("pam_service = \"{own}\"")), Mode::Transaction);
    check_passwords(site.weir(), PAM_FAILED);
    let _ = fs::remove_file(check);
}

#[test]
fn an_account_that_pam_does_not_allow_is_refused_whatever_its_password() {
    let own = format!("weir-test-account-{}", std::process::id());
    let modules = "auth required pam_permit.so\naccount required pam_deny.so\n";
    let Some(_service) = Service::new(&own, modules) else { return };
    let (weir, _database) = by_rules("host all all all pam", &[("auth_pam_service", &own)], &[]);
    let error = log_in(&weir, users::APP.name, users::APP.password).map(drop).unwrap_err();
    assert!(error.to_string().contains(PAM_FAILED), "{error}");
    logs(&weir, "pam_acct_mgmt() failed: ");
}

/// The processes that this one has started, by their ids.
fn children_of(pid: u32) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn a_module_of_pam_that_hangs_is_killed_and_holds_up_no_other_login() {
    let hang = script("exec sleep 20");
    let own = format!("weir-test-hang-{}", std::process::id());
    let modules = format!("auth required pam_exec.so quiet {}\naccount required pam_permit.so\n", hang.display());
    let Some(_service) = Service::new(&own, &modules) else { return };
    let (weir, _database) =
        by_rules("host all all all pam", &[("auth_pam_service", &own), ("client_login_timeout", "3")], &[]);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let login = scope.spawn(|| log_in(&weir, users::APP.name, "x").map(drop));
        std::thread::sleep(Duration::from_millis(300));
        log_in(&weir, users::TRUSTED.name, users::TRUSTED.password).unwrap();
        assert!(begun.elapsed() < Duration::from_secs(3));
        assert!(login.join().unwrap().is_err());
    });
    logs(&weir, "PAM gave no answer within 3 s");
    eventually("the end of the helper", || {
        let helpers = children_of(weir.pid());
        if helpers.is_empty() { Ok(()) } else { Err(format!("{helpers:?} run")) }
    });
    let _ = fs::remove_file(hang);
}
