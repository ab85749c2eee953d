//! Logins: all methods of clients with all kinds of stored secrets, and the login to the server.

use std::time::{Duration, Instant};

use weir_pgclient::{Connection, Error};
use weir_pgwire::{AuthRequest, backend, put_front, tag};
use weir_tests::{Ini, Mode, Postgres, Setup, Site, User, body_text, until_quiet, users};

const TIMEOUT: Duration = Duration::from_secs(20);

/// Connects as the user and runs one query.
#[track_caller]
fn logs_in(site: &Site, user: User) {
    let mut client =
        Connection::connect(&site.params_of(user)).unwrap_or_else(|error| panic!("{}: {error}", user.name));
    assert_eq!(client.value("SELECT 'hello'").unwrap().as_deref(), Some("hello"));
}

/// Connects with this password and returns the error.
#[track_caller]
fn refused(site: &Site, user: &str, password: &str) -> Error {
    let params = site.weir().params(user, "app").password(password);
    match Connection::connect(&params) {
        Ok(_) => panic!("{user} was logged in"),
        Err(error) => error,
    }
}

fn site(auth: &'static str, secret: &str) -> Site {
    let setup = Setup::new(Mode::Transaction).auth(auth).secret(users::APP.name, secret);
    Site::with(setup, Mode::Transaction)
}

/// `md5` and the digest of password and name, as PostgreSQL stores it.
fn md5_secret(user: User) -> String {
    let sql = format!("SELECT 'md5' || md5('{}{}')", user.password.replace('\'', "''"), user.name);
    Postgres::shared().superuser("postgres").value(&sql).unwrap().unwrap()
}

#[test]
fn each_method_takes_the_secrets_that_it_can_use() {
    let password = users::APP.password.to_owned();
    let scram = Postgres::shared().secret(users::APP);
    assert!(scram.starts_with("SCRAM-SHA-256$"));
    let md5 = md5_secret(users::APP);
    for (auth, secrets) in [
        ("trust", vec![&password, &md5, &scram]),
        ("plain", vec![&password, &md5, &scram]),
        ("md5", vec![&password, &md5, &scram]),
        ("scram-sha-256", vec![&password, &scram]),
    ] {
        for secret in secrets {
            let site = site(auth, secret);
            logs_in(&site, users::APP);
            if auth != "trust" {
                let error = refused(&site, users::APP.name, "wrong");
                assert_eq!(error.sqlstate(), Some("28P01"), "{auth}: {error}");
                let error = refused(&site, "nobody", "wrong");
                assert_eq!(error.sqlstate(), Some("28P01"), "{auth}: {error}");
            }
        }
    }
}

#[test]
fn an_md5_secret_can_not_be_used_with_scram() {
    let site = site("scram-sha-256", &md5_secret(users::APP));
    let error = refused(&site, users::APP.name, users::APP.password);
    assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
}

#[test]
fn trust_accepts_only_listed_users() {
    let site = site("trust", "");
    logs_in(&site, users::OTHER);
    let error = refused(&site, "nobody", "");
    assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
}

/// All messages of a login, without their random parts.
fn exchange(site: &Site, user: &str, password: &str) -> Vec<String> {
    let mut client = Connection::open(&site.weir().params(user, "app")).unwrap();
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", user), ("database", "app")], 0);
    client.send_bytes(&packet).unwrap();
    let mut transcript = Vec::new();
    let frame = client.read_frame(TIMEOUT).unwrap();
    assert_eq!(frame.tag, tag::back::AUTHENTICATION);
    let mut reply = Vec::new();
    match backend::authentication(&frame.body).unwrap() {
        AuthRequest::Cleartext => {
            transcript.push("Cleartext".to_owned());
            put_front::password(&mut reply, password.as_bytes());
        }
        AuthRequest::Md5(_) => {
            transcript.push("Md5".to_owned());
            put_front::password(&mut reply, b"md500112233445566778899aabbccddeeff");
        }
        AuthRequest::Sasl(names) => {
            transcript.push(format!("Sasl {:?}", names.map(body_text).collect::<Vec<_>>()));
            put_front::sasl_initial(&mut reply, "SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnopqrstuvwx");
        }
        other => panic!("{other:?}"),
    }
    client.send_bytes(&reply).unwrap();
    let frame = client.read_frame(TIMEOUT).unwrap();
    if let Ok(AuthRequest::SaslContinue(data)) = backend::authentication(&frame.body) {
        let data = body_text(data);
        let parts: Vec<_> = data.split(',').map(|part| format!("{}{}", &part[..2], part.len())).collect();
        let iterations = data.rsplit(',').next().unwrap();
        transcript.push(format!("Continue {parts:?} {iterations}"));
        let nonce = data.split(',').next().unwrap();
        let proof = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
        let mut reply = Vec::new();
        put_front::sasl_response(&mut reply, format!("c=biws,{nonce},p={proof}").as_bytes());
        client.send_bytes(&reply).unwrap();
    } else {
        transcript.push(weir_tests::line_of(&frame));
    }
    transcript.extend(until_quiet(&mut client, TIMEOUT));
    transcript
}

#[test]
fn a_wrong_password_and_an_unknown_user_exchange_the_same_messages() {
    let scram = Postgres::shared().secret(users::APP);
    for (auth, secret) in [
        ("plain", users::APP.password.to_owned()),
        ("plain", scram.clone()),
        ("md5", users::APP.password.to_owned()),
        ("scram-sha-256", users::APP.password.to_owned()),
        ("scram-sha-256", scram),
    ] {
        let site = site(auth, &secret);
        let known = exchange(&site, users::APP.name, "wrong");
        let unknown = exchange(&site, "zzz", "wrong");
        assert_eq!(known, unknown, "{auth}");
        assert_eq!(known.last().unwrap(), "Closed");
        assert_eq!(known.len(), if auth == "scram-sha-256" { 4 } else { 3 }, "{known:?}");
    }
}

/// A list in which all secrets are of one kind: a user that gets another method is not on the list.
#[test]
fn an_unknown_user_gets_the_method_of_known_users_whatever_their_secrets() {
    let verifier = |iterations| {
        let salt = vec![7; 16];
        let salted = weir_auth::salt_password(users::APP.password, &salt, iterations);
        weir_auth::ScramVerifier::from_salted(&salted, salt, iterations).to_string()
    };
    for auth in ["md5", "scram-sha-256"] {
        for secret in [verifier(4096), verifier(15_000), users::APP.password.to_owned()] {
            let mut setup = Setup::new(Mode::Transaction).auth(auth).console_by_socket();
            for user in users::ALL {
                setup = setup.without(user.name);
            }
            let setup = setup.without("admin").without("watcher").secret(users::APP.name, &secret);
            let site = Site::with(setup, Mode::Transaction);
            let known = exchange(&site, users::APP.name, "wrong");
            for name in ["zzz", "postgres", "admin"] {
                assert_eq!(exchange(&site, name, "wrong"), known, "{auth}: {secret}: {name}");
            }
            logs_in(&site, users::APP);
        }
    }
}

#[test]
fn an_unknown_user_has_the_same_salt_each_time() {
    let site = site("scram-sha-256", users::APP.password);
    let salt = |user: &str| {
        let mut client = Connection::open(&site.weir().params(user, "app")).unwrap();
        let mut packet = Vec::new();
        put_front::startup(&mut packet, &[("user", user), ("database", "app")], 0);
        put_front::sasl_initial(&mut packet, "SCRAM-SHA-256", b"n,,n=,r=abcdefghijklmnopqrstuvwx");
        client.send_bytes(&packet).unwrap();
        client.read_frame(TIMEOUT).unwrap();
        let frame = client.read_frame(TIMEOUT).unwrap();
        let Ok(AuthRequest::SaslContinue(data)) = backend::authentication(&frame.body) else { panic!("{frame:?}") };
        body_text(data).split(',').nth(1).unwrap().to_owned()
    };
    assert_eq!(salt("zzz"), salt("zzz"));
    assert_ne!(salt("zzz"), salt("yyy"));
    assert_eq!(salt(users::APP.name), salt(users::APP.name));
}

#[test]
fn the_pool_logs_in_by_the_method_that_the_server_requests() {
    for user in users::ALL {
        let setup = Setup::new(Mode::Transaction).server_user(user).pool("require_auth = \"any\"");
        let site = Site::with(setup, Mode::Transaction);
        let mut client = site.connect();
        assert_eq!(client.value("SELECT current_user").unwrap().as_deref(), Some(user.name));
    }
}

/// Whether a pool that logs in as this user serves a client; if not, require_auth must be the reason.
#[track_caller]
fn is_served(site: &Site, what: &str) -> bool {
    let served = Connection::connect(&site.params()).and_then(|mut client| client.value("SELECT current_user"));
    let Err(error) = served else { return true };
    let text = error.to_string();
    assert!(text.contains("require_auth"), "{what}: {text}");
    false
}

#[test]
fn a_server_may_request_only_methods_of_require_auth() {
    // The setting for all pools and for this pool; which methods are accepted, of a server on this machine.
    for (general, pool, served) in [
        (None, None, vec![users::APP, users::MD5, users::TRUSTED]),
        (None, Some("any"), users::ALL.to_vec()),
        (Some("any"), None, users::ALL.to_vec()),
        (Some("any"), Some("auto"), vec![users::APP, users::MD5, users::TRUSTED]),
        (None, Some("!none"), vec![users::APP, users::MD5, users::PLAIN]),
        (Some("scram-sha-256"), None, vec![users::APP]),
        (Some("scram-sha-256"), Some("none"), vec![users::TRUSTED]),
        (None, Some("password,none"), vec![users::PLAIN, users::TRUSTED]),
        (None, Some("!password,!md5"), vec![users::APP, users::TRUSTED]),
    ] {
        for user in [users::APP, users::MD5, users::PLAIN, users::TRUSTED] {
            let mut setup = Setup::new(Mode::Transaction).server_user(user);
            if let Some(words) = general {
                setup = setup.general(&format!("require_auth = \"{words}\""));
            }
            if let Some(words) = pool {
                setup = setup.pool(&format!("require_auth = \"{words}\""));
            }
            let what = format!("{general:?}, {pool:?}, {}", user.name);
            let site = Site::with(setup, Mode::Transaction);
            let expected = served.iter().any(|served| served.name == user.name);
            assert_eq!(is_served(&site, &what), expected, "{what}");
        }
    }
    // As PgBouncer, unless the file says otherwise.
    for user in [users::PLAIN, users::TRUSTED] {
        assert!(is_served(&Site::ini(&Ini::new().forced(user)), user.name));
        let strict = Ini::new().forced(user).app("require_auth=scram-sha-256");
        assert!(!is_served(&Site::ini(&strict), user.name));
        let auto = Ini::new().forced(user).set("require_auth", "auto");
        assert_eq!(is_served(&Site::ini(&auto), user.name), user.name == users::TRUSTED.name);
    }
}

#[test]
fn a_pool_without_a_password_uses_a_server_with_trust() {
    let site = Site::with(Setup::new(Mode::Transaction).no_server_user(), Mode::Transaction);
    logs_in(&site, users::TRUSTED);
    let error = Connection::connect(&site.params_of(users::PLAIN)).and_then(|mut client| client.value("SELECT 1"));
    let error = error.expect_err("a listed password is not sent in clear text either");
    assert!(error.to_string().contains("require_auth"), "{error}");
}

#[test]
fn without_a_user_in_the_pool_each_client_is_itself_on_the_server() {
    let setup = Setup::new(Mode::Transaction).no_server_user().general("require_auth = \"any\"");
    let site = Site::with(setup, Mode::Transaction);
    for user in users::ALL {
        let mut client = Connection::connect(&site.params_of(user)).unwrap_or_else(|e| panic!("{}: {e}", user.name));
        assert_eq!(client.value("SELECT current_user").unwrap().as_deref(), Some(user.name));
    }
    let pools = site.weir().show("POOLS");
    let names: Vec<_> = (0..pools.rows.len()).filter_map(|row| pools.get(row, "user")).collect();
    for user in users::ALL {
        assert!(names.contains(&user.name), "{names:?}");
    }
}

#[test]
fn scram_keys_learnt_from_the_client_log_in_to_the_server() {
    // The userlist holds only verifiers, copied from pg_authid; only the client knows the password.
    let postgres = Postgres::shared();
    let mut setup = Setup::new(Mode::Transaction).no_server_user();
    for user in [users::APP, users::OTHER] {
        setup = setup.secret(user.name, &postgres.secret(user));
    }
    let site = Site::with(setup, Mode::Transaction);
    for user in [users::APP, users::OTHER, users::APP] {
        let mut client = Connection::connect(&site.params_of(user)).unwrap_or_else(|e| panic!("{}: {e}", user.name));
        assert_eq!(client.value("SELECT current_user").unwrap().as_deref(), Some(user.name));
    }
}

#[test]
fn a_verifier_with_another_salt_accepts_the_client_but_fails_at_the_server() {
    // A verifier of the same password with another salt: valid for Weir, useless for the server.
    let setup = Setup::new(Mode::Transaction).no_server_user().secret(users::APP.name, &other_verifier());
    let site = Site::with(setup, Mode::Transaction);
    let outcome = Connection::connect(&site.params()).and_then(|mut client| client.value("SELECT 1"));
    let error = outcome.expect_err("the login to the server must fail");
    assert!(error.server().is_some(), "an error message, not a broken connection: {error}");
}

/// The server makes a new salt each time, so a second user with the same password has another verifier.
fn other_verifier() -> String {
    let postgres = Postgres::shared();
    let mut superuser = postgres.superuser("postgres");
    let password = users::APP.password.replace('\'', "''");
    superuser.query_all(&format!("CREATE USER salted PASSWORD '{password}'")).unwrap();
    let secret = superuser.value("SELECT rolpassword FROM pg_authid WHERE rolname = 'salted'").unwrap().unwrap();
    superuser.query("DROP USER salted").unwrap();
    secret
}

#[test]
fn a_server_password_that_is_wrong_is_reported_with_the_servers_error() {
    let wrong = User { password: "wrong", ..users::APP };
    let site = Site::with(Setup::new(Mode::Transaction).server_user(wrong), Mode::Transaction);
    let begin = Instant::now();
    let error = Connection::connect(&site.params()).and_then(|mut client| client.value("SELECT 1")).unwrap_err();
    assert_eq!(error.sqlstate(), Some("28P01"), "{error}");
    assert!(error.to_string().contains("password authentication failed for user \"app\""), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(60), "it fails fast");
}

#[test]
fn a_password_that_saslprep_changes_is_the_same_password() {
    // U+2168 is IX, a no-break space is a space: RFC 4013, as PostgreSQL prepares passwords too.
    let site = site("scram-sha-256", "pass\u{a0}\u{2168}");
    let params = site.weir().params(users::APP.name, "app").password("pass IX");
    assert_eq!(Connection::connect(&params).unwrap().value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn a_long_password_works_like_a_short_one() {
    let long = "p".repeat(4000);
    for auth in ["plain", "md5", "scram-sha-256"] {
        let site = site(auth, &long);
        let params = site.weir().params(users::APP.name, "app").password(&long);
        assert_eq!(Connection::connect(&params).unwrap().value("SELECT 1").unwrap().as_deref(), Some("1"), "{auth}");
        assert!(Connection::connect(&params.password(&long[1..])).is_err());
    }
}

#[test]
fn a_hundred_logins_at_once_all_succeed() {
    let site = Site::transaction(3);
    std::thread::scope(|scope| {
        let logins: Vec<_> = (0..100).map(|_| scope.spawn(|| logs_in(&site, users::APP))).collect();
        logins.into_iter().for_each(|login| login.join().unwrap());
    });
}
