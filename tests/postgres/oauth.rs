//! Logins with tokens (OAUTHBEARER): an issuer on the loopback, a client that speaks the mechanism, and libpq.

use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;
use weir_pgclient::{Connection, Error, Frame};
use weir_pgwire::{AuthRequest, backend, put_front, tag};
use weir_tests::{Certificates, Mode, Setup, Site, TokenIssuer, Weir, eventually, skipped, weir_binary};

/// Any message arrives within this time.
const PATIENCE: Duration = Duration::from_secs(60);
const FAILED: &str = "OAuth bearer authentication failed for user";

/// A Weir with this type of login, whose pool logs in to the server itself.
fn site(issuer: &TokenIssuer) -> Site {
    let options = format!("oauth_options = '{}'", issuer.options());
    Site::with(Setup::new(Mode::Transaction).auth("oauth").auth_line(&options).console_by_socket(), Mode::Transaction)
}

/// A Weir by these rules, with the console's own first.
fn by_rules(rules: &str, maps: &str) -> Site {
    let rules = format!("local all all trust\nhost pgbouncer,weir all all scram-sha-256\n{rules}\n");
    let setup = Setup::new(Mode::Transaction).auth("hba").file("hba.conf", &rules).file("ident.conf", maps);
    let setup = setup.auth_line("hba_file = \"hba.conf\"\nident_file = \"ident.conf\"").console_by_socket();
    Site::with(setup, Mode::Transaction)
}

/// What the server says to a client.
#[derive(Debug)]
enum Outcome {
    In(Box<Connection>),
    /// The challenge, if there was one, and the error with its SQLSTATE.
    Refused(Option<String>, String),
}

impl Outcome {
    #[track_caller]
    fn connection(self) -> Connection {
        match self {
            Outcome::In(connection) => *connection,
            refused @ Outcome::Refused(..) => panic!("{refused:?}"),
        }
    }

    #[track_caller]
    fn refused(self) -> (Option<String>, String) {
        match self {
            Outcome::Refused(challenge, error) => (challenge, error),
            Outcome::In(_) => panic!("it is accepted"),
        }
    }
}

fn frame(connection: &mut Connection) -> Result<Frame, Outcome> {
    let frame = connection.read_frame(PATIENCE).unwrap_or_else(|error| panic!("no message: {error}"));
    if frame.tag != tag::back::ERROR {
        return Ok(frame);
    }
    let error = weir_pgclient::ServerErrorFields::read(&frame.body).expect("an error");
    Err(Outcome::Refused(None, format!("{} {}", error.sqlstate, error.message)))
}

fn send(connection: &mut Connection, write: impl FnOnce(&mut Vec<u8>)) {
    let mut message = Vec::new();
    write(&mut message);
    connection.send_bytes(&message).expect("it is sent");
}

/// A login with this first message.
fn log_in_with(weir: &Weir, user: &str, message: &[u8]) -> Outcome {
    let mut connection = Connection::open(&weir.params(user, "app")).expect("a connection");
    send(&mut connection, |buffer| put_front::startup(buffer, &[("user", user), ("database", "app")], 0));
    exchange(connection, message).unwrap_or_else(|refused| refused)
}

fn exchange(mut connection: Connection, message: &[u8]) -> Result<Outcome, Outcome> {
    let asked = frame(&mut connection)?;
    let AuthRequest::Sasl(mut mechanisms) = backend::authentication(&asked.body).unwrap() else { panic!("{asked:?}") };
    assert_eq!((mechanisms.next(), mechanisms.next()), (Some(&b"OAUTHBEARER"[..]), None));
    send(&mut connection, |buffer| put_front::sasl_initial(buffer, "OAUTHBEARER", message));
    let answer = frame(&mut connection)?;
    match backend::authentication(&answer.body).unwrap() {
        AuthRequest::Ok => {}
        AuthRequest::SaslContinue(challenge) => {
            let challenge = String::from_utf8(challenge.to_vec()).expect("text");
            send(&mut connection, |buffer| put_front::sasl_response(buffer, b"\x01"));
            let Err(Outcome::Refused(_, error)) = frame(&mut connection) else { panic!("no error follows") };
            return Ok(Outcome::Refused(Some(challenge), error));
        }
        other => panic!("{other:?}"),
    }
    connection.read_until_ready().unwrap_or_else(|error| panic!("{error}"));
    Ok(Outcome::In(Box::new(connection)))
}

fn log_in(weir: &Weir, user: &str, token: &str) -> Outcome {
    log_in_with(weir, user, format!("n,,\x01auth=Bearer {token}\x01\x01").as_bytes())
}

#[track_caller]
fn logs(weir: &Weir, text: &str) {
    eventually("a line of the log", || {
        let log = weir.log();
        if log.contains(text) { Ok(()) } else { Err(format!("no {text:?} in\n{log}")) }
    });
}

#[test]
fn a_client_with_a_token_of_the_issuer_logs_in_and_queries() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    // Whether a user is listed does not matter.
    for user in ["app", "nobody-lists-me"] {
        let mut client = log_in(site.weir(), user, &issuer.token(user)).connection();
        assert_eq!(client.value("SELECT 42").unwrap().as_deref(), Some("42"));
        logs(site.weir(), &format!("connection authenticated: identity=\"{user}\" method=oauth"));
    }
    assert_eq!(issuer.fetches(), 1);
}

#[test]
fn a_client_without_a_token_learns_where_to_get_one_and_nothing_has_failed() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let (challenge, error) = log_in_with(site.weir(), "app", b"n,,\x01auth=\x01\x01").refused();
    let challenge: serde_json::Value = serde_json::from_str(&challenge.expect("a challenge")).unwrap();
    let metadata = format!("{}/.well-known/openid-configuration", issuer.url());
    assert_eq!(challenge, json!({"status": "invalid_token", "openid-configuration": metadata, "scope": "openid db"}));
    assert_eq!(error, format!("28000 {FAILED} \"app\""));
    assert_eq!(issuer.fetches(), 0, "no key is needed for that");
    logs(site.weir(), "closing because: OAuth bearer authentication failed");
    let log = site.weir().log();
    assert!(!log.contains("login refused") && !log.contains("pooler error"), "{log}");
}

#[test]
fn each_wrong_token_gets_the_same_error_and_its_reason_is_in_the_log() {
    let issuer = TokenIssuer::start();
    let (site, other) = (site(&issuer), TokenIssuer::start());
    let good = issuer.token("app");
    let (start, signature) = good.rsplit_once('.').unwrap();
    let cases = [
        (issuer.token_with("app", "exp", json!(1)), "it has expired (exp)"),
        (issuer.token_with("app", "nbf", json!(u32::MAX)), "it is not valid yet (nbf)"),
        (issuer.token_with("app", "iss", json!("https://idp")), "it is from another issuer (iss), \"https://idp\""),
        (issuer.token_with("app", "aud", json!("other")), "it is for another audience (aud)"),
        (issuer.token_with("app", "scope", json!("openid")), "the token lacks the scope db"),
        (issuer.token_with("app", "sub", json!("other")), "the token is of another user, \"other\""),
        (issuer.token_with("app", "sub", json!(7)), "the token names no user (sub)"),
        (other.token_with("app", "iss", json!(issuer.url())), "its signature is wrong"),
        (format!("{start}.{}", "A".repeat(signature.len())), "its signature is wrong"),
        (format!("{start}."), "its signature is wrong"),
        ("a.b.c".to_owned(), "the token is not valid: its header"),
        ("hush".to_owned(), "it has not three parts"),
        ("x".repeat(60_000), "it has not three parts"),
    ];
    for (token, reason) in &cases {
        let (challenge, error) = log_in(site.weir(), "app", token).refused();
        assert!(challenge.is_some_and(|text| text.contains("invalid_token")), "{reason}");
        assert_eq!(error, format!("28000 {FAILED} \"app\""), "{reason}");
        logs(site.weir(), reason);
    }
    for value in ["Basic YTpi", "Bearer ", "Bearer a b"] {
        let (_, error) = log_in_with(site.weir(), "app", format!("n,,\x01auth={value}\x01\x01").as_bytes()).refused();
        assert_eq!(error, format!("28000 {FAILED} \"app\""), "{value}");
    }
    log_in(site.weir(), "app", &good).connection();
    let log = site.weir().log();
    for (token, _) in cases.iter().filter(|(token, _)| token.len() > 10) {
        assert!(!log.contains(&token[..token.len().min(40)]), "the log has a token");
    }
    assert!(!log.contains("eyJ"), "{log}");
}

#[test]
fn messages_of_another_form_are_violations_of_the_protocol() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    for message in [&b""[..], b"n,,\x01\x01", b"p=x,,\x01auth=\x01\x01", b"n,a=root,\x01auth=\x01\x01", &[b'n'; 65_000]]
    {
        let (challenge, error) = log_in_with(site.weir(), "app", message).refused();
        assert_eq!(challenge, None);
        assert!(error.starts_with("08P01 ") && error.contains("malformed OAUTHBEARER message"), "{error}");
    }
    let (_, error) = log_in_with(site.weir(), "app", &[b'n'; 70_000]).refused();
    assert!(error.starts_with("08P01 "), "{error}");
    log_in(site.weir(), "app", &issuer.token("app")).connection();
}

#[test]
fn a_rule_may_map_a_claim_to_users() {
    let issuer = TokenIssuer::start();
    let rule = format!("host all all all oauth {} claim=email map=people", issuer.options());
    let site = by_rules(&rule, "people ann@example.com app\npeople ann@example.com other\n");
    let weir = site.weir();
    let verified = |email: &str| {
        // The token's subject is a number that no user has for a name.
        issuer.token_with("17", "email", json!(email))
    };
    let (_, error) = log_in(weir, "app", &verified("ann@example.com")).refused();
    assert!(error.contains(FAILED), "{error}");
    logs(weir, "the token's issuer has not verified the address (email_verified)");
    drop(site);
    let rule = format!("host all all all oauth {} claim=name map=people", issuer.options());
    let site = by_rules(&rule, "people ann@example.com app\npeople /^(.*)@staff\\.example\\.com$ \\1\n");
    let weir = site.weir();
    let named = |name: &str| issuer.token_with("17", "name", json!(name));
    log_in(weir, "app", &named("ann@example.com")).connection();
    log_in(weir, "bob", &named("bob@staff.example.com")).connection();
    for (user, name) in [
        ("other", "ann@example.com"),
        ("bob", "eve@staff.example.com"),
        ("bob", "bob@staff.example.com.evil"),
        ("bob", "bob"),
    ] {
        let (_, error) = log_in(weir, user, &named(name)).refused();
        assert_eq!(error, format!("28000 {FAILED} \"{user}\""));
        logs(weir, &format!("the ident map people does not let the token's user \"{name}\" log in as this user"));
    }
}

#[test]
fn a_token_is_taken_over_tls_or_from_this_machine_only() {
    let issuer = TokenIssuer::start();
    let setup = Setup::new(Mode::Transaction).auth("oauth").console_by_socket();
    let setup = setup.auth_line(&format!("oauth_options = '{}'", issuer.options()));
    let setup = setup.listen("proxy_from = [\"127.0.0.0/8\"]");
    let site = Site::with(Certificates::new().setup(setup, "allow"), Mode::Transaction);
    let weir = site.weir();
    let from = |address: &str| {
        let mut connection = Connection::open(&weir.params("app", "app")).expect("a connection");
        connection.send_bytes(format!("PROXY TCP4 {address} 127.0.0.1 5000 6432\r\n").as_bytes()).unwrap();
        send(&mut connection, |buffer| put_front::startup(buffer, &[("user", "app"), ("database", "app")], 0));
        let token = issuer.token("app");
        exchange(connection, format!("n,,\x01auth=Bearer {token}\x01\x01").as_bytes()).unwrap_or_else(|refused| refused)
    };
    from("127.0.0.1").connection();
    let (challenge, error) = from("192.0.2.7").refused();
    assert_eq!((challenge, error), (None, format!("28000 {FAILED} \"app\"")), "nothing is asked for");
    logs(weir, "login refused: TLS connection required");
}

#[test]
fn many_logins_at_once_fetch_the_keys_once() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let (weir, begin) = (site.weir(), Barrier::new(100));
    thread::scope(|scope| {
        for number in 0..100 {
            let (issuer, begin) = (&issuer, &begin);
            scope.spawn(move || {
                let user = format!("u{number}");
                let token = issuer.token(&user);
                begin.wait();
                log_in(weir, &user, &token).connection();
            });
        }
    });
    assert_eq!(issuer.fetches(), 1);
}

#[test]
fn keys_change_under_load_and_no_login_fails() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let (weir, ends) = (site.weir(), AtomicBool::new(false));
    let old = issuer.token("app");
    log_in(weir, "app", &old).connection();
    thread::scope(|scope| {
        for number in 0..8 {
            let (issuer, ends) = (&issuer, &ends);
            scope.spawn(move || {
                let user = format!("u{number}");
                // One more login after the change.
                loop {
                    let last = ends.load(Ordering::Acquire);
                    let mut client = log_in(weir, &user, &issuer.token(&user)).connection();
                    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
                    if last {
                        break;
                    }
                }
            });
        }
        issuer.rotate("second");
        ends.store(true, Ordering::Release);
    });
    assert_eq!(issuer.fetches(), 2);
    log_in(weir, "app", &old).connection();
    let other = TokenIssuer::start();
    other.rotate("unknown");
    log_in(weir, "app", &other.token_with("app", "iss", json!(issuer.url()))).refused();
    logs(weir, "the token is signed with a key that its issuer does not have: \"unknown\" of EdDSA");
    assert_eq!(issuer.fetches(), 2, "an unknown key does not make them be fetched again at once");
}

#[test]
fn while_the_issuer_is_away_its_last_keys_count_and_without_any_the_log_says_so() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let weir = site.weir();
    issuer.go_away(true);
    let (challenge, error) = log_in(weir, "app", &issuer.token("app")).refused();
    assert!(challenge.is_some() && error.contains(FAILED), "{error}");
    logs(weir, "could not be fetched");
    issuer.go_away(false);
    eventually("it is tried again", || match log_in(weir, "app", &issuer.token("app")) {
        Outcome::In(_) => Ok(()),
        refused => Err(format!("{refused:?}")),
    });
    issuer.go_away(true);
    log_in(weir, "app", &issuer.token("app")).connection();
    // A key that nobody knows yet, of an issuer that can't be asked.
    issuer.rotate("second");
    log_in(weir, "app", &issuer.token("app")).refused();
    logs(weir, "a key that its issuer does not have: \"second\" of EdDSA; the keys of");
}

#[test]
fn a_token_that_expires_ends_no_connection_and_opens_no_further_one() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    // Within the leeway for clocks, and soon beyond it.
    let token = issuer.token_with("app", "exp", json!(now - 52));
    let mut client = log_in(site.weir(), "app", &token).connection();
    eventually("it has expired", || match log_in(site.weir(), "app", &token) {
        Outcome::In(_) => Err("not yet"),
        Outcome::Refused(..) => Ok(()),
    });
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    logs(site.weir(), "it has expired (exp)");
}

#[test]
fn a_pool_whose_servers_know_the_clients_user_gets_no_token() {
    let issuer = TokenIssuer::start();
    let options = format!("oauth_options = '{}'", issuer.options());
    let setup = Setup::new(Mode::Transaction).auth("oauth").auth_line(&options).no_server_user().console_by_socket();
    let site = Site::with(setup, Mode::Transaction);
    // The server's password is in the user list.
    let mut client = log_in(site.weir(), "app", &issuer.token("app")).connection();
    assert_eq!(client.value("SELECT current_user::text").unwrap().as_deref(), Some("app"));
}

#[test]
fn a_client_that_knows_the_mechanism_not_is_refused_in_words() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let refused = Connection::connect(&site.weir().params("app", "app").password("x")).map(drop);
    assert!(matches!(refused, Err(Error::Login(_))), "{refused:?}");
}

#[test]
fn libpq_learns_where_to_get_a_token_and_logs_in_with_it() {
    let Ok(libpq) = std::env::var("WEIR_LIBPQ") else {
        return skipped("no login with libpq 18: set WEIR_LIBPQ to its path, as psycopg-binary 3.3 has one");
    };
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let run = |token: &str| {
        let (port, url) = (site.weir().port(), issuer.url());
        let conninfo = format!(
            "host=127.0.0.1 port={port} user=app dbname=app oauth_issuer={url} oauth_client_id=tests require_auth=oauth"
        );
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/postgres/oauth_libpq.py");
        // libpq requires https but for this.
        let mut command = Command::new("python3");
        let output = command.args([script, &libpq, &conninfo, token]).env("PGOAUTHDEBUG", "UNSAFE").output();
        let output = output.expect("python3 runs");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let asked = format!("asked {}/.well-known/openid-configuration openid db\n", issuer.url());
    let said = run(&issuer.token("app"));
    assert!(said.starts_with(&asked) && said.ends_with("value 42\n"), "{said}");
    assert!(!site.weir().log().contains("login refused"), "the first connection has failed at nothing");
    let said = run(&issuer.token_with("app", "exp", json!(1)));
    assert!(said.starts_with(&asked) && said.contains(&format!("{FAILED} \"app\"")), "{said}");
}

#[test]
fn a_check_says_whether_the_keys_of_the_issuer_can_be_fetched() {
    let issuer = TokenIssuer::start();
    let site = site(&issuer);
    let check = |more: &[&str]| {
        let file = site.weir().folder().join("weir.toml");
        let output = Command::new(weir_binary()).arg("check").arg(file).args(more).output().expect("it runs");
        assert!(output.status.success(), "{output:?}");
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let away = "could not be fetched";
    let said = check(&["--connect"]);
    assert!(!said.contains(away) && issuer.fetches() == 1, "{said}");
    issuer.go_away(true);
    let said = check(&["--connect"]);
    assert!(said.contains(away) && said.contains("no token of this issuer is accepted"), "{said}");
    assert!(!check(&[]).contains(away), "nothing is asked without --connect");
}
