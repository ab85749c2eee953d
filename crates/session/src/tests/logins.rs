//! Logins: of clients here, and of ours at servers.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use weir_auth::{
    ConnectionType, Facts, Hba, HbaRequest, IdentMaps, LoginPlan, Method, Mocks, Oauth, RequireAuth, ScramClient,
    ScramKeys, ScramPolicy, ScramVerifier, Secret, Shape, Trust, decide, md5_hex_secret, md5_response,
};
use weir_pgwire::{AuthRequest, HEAD, backend, put_back, put_front};

use super::rig::*;
use crate::login::{Login, LoginNonces, LoginStep};
use crate::server_login::{Credentials, ServerLogin, ServerLoginStep};
use crate::{ParamTable, Refusal};

const SALTED: [u8; 32] = [9; 32];

fn policy() -> ScramPolicy {
    ScramPolicy { key: [5; 32], iterations: 4096 }
}

fn salt() -> LoginNonces {
    LoginNonces { md5: [1, 2, 3, 4], nonce: [7; 18] }
}

/// The first message that a client by the Unix socket receives.
fn plan(method: Method, user: &str, secret: Option<&Secret>) -> LoginPlan {
    plan_among(&Mocks::default(), method, user, secret)
}

/// The first message that the client receives if the known users have these secrets.
fn plan_among(mocks: &Mocks, method: Method, user: &str, secret: Option<&Secret>) -> LoginPlan {
    let (hba, via) = (Hba::default(), ConnectionType::Local);
    let demand = method.demand(&hba, &HbaRequest { via, database: "db", user, physical_replication: false });
    let (certificate_name, os_user, forced_user) = (None, None, None);
    let maps = &IdentMaps::default();
    let (known, policy) = (secret.is_some(), &policy());
    let oauth = Oauth::parse(OAUTH).unwrap();
    let oauth = Some(&*oauth);
    let facts = Facts { user, known, secret, via, certificate_name, os_user, forced_user, oauth, maps, mocks, policy };
    decide(&demand, &facts)
}

/// What a client with this password receives: the messages' tags and the refusal; `None` if the login succeeds.
fn attempt(method: Method, secret: Option<Secret>, user: &str, password: &str) -> (String, Option<Refusal>) {
    attempt_bound(method, secret, user, password, [None, None])
}

/// As [`attempt`], over connections with this binding at our end and at the client's.
fn attempt_bound(
    method: Method,
    secret: Option<Secret>,
    user: &str,
    password: &str,
    [ours, theirs]: [Option<&[u8]>; 2],
) -> (String, Option<Refusal>) {
    let mut seen = Vec::new();
    let plan = plan(method, user, secret.as_ref());
    let (mut login, mut next) = Login::begin(user, plan, secret.as_ref(), salt(), ours, &mut seen);
    let mut scram = None;
    let mut answered = 0;
    loop {
        next = match next {
            LoginStep::Accepted(_) => return (tags(&seen), None),
            LoginStep::Refused(refusal) => return (tags(&seen), Some(refusal)),
            LoginStep::Unusable(why) => panic!("{why}"),
            // The hash of the stored password; a wrong password is hashed to something else.
            LoginStep::HashPassword { password, .. } => {
                let salted = if &*password == "right" { SALTED } else { [8; 32] };
                login.salted(&salted)
            }
            LoginStep::CheckPassword(password) => login.checked(&*password == "right", &mut seen),
            LoginStep::Wait => {
                let asked = each(&seen).split_off(answered);
                answered += asked.len();
                let answer = respond(&asked[0][HEAD..], user, password, theirs, &mut scram);
                login.message(&answer[HEAD..], &policy(), &mut seen)
            }
        };
    }
}

#[test]
fn a_password_that_is_checked_elsewhere_is_requested_in_clear_text_from_every_user() {
    for (method, refusal) in [(Method::Ldap, Refusal::LdapFailed), (Method::Pam, Refusal::PamFailed)] {
        // The user list does not count.
        for secret in [None, Some(Secret::Plain("other".into()))] {
            assert_eq!(attempt(method, secret.clone(), "ann", "right"), ("R".into(), None));
            assert_eq!(attempt(method, secret.clone(), "ann", "other"), ("R".into(), Some(refusal.clone())));
            assert_eq!(attempt(method, secret, "ann", ""), ("R".into(), Some(Refusal::EmptyPassword)));
        }
    }
    let (mut login, _) = Login::begin("ann", plan(Method::Ldap, "ann", None), None, salt(), None, &mut Vec::new());
    let mut answer = Vec::new();
    put_front::password(&mut answer, b"right");
    let LoginStep::CheckPassword(_) = login.message(&answer[HEAD..], &policy(), &mut Vec::new()) else { panic!() };
    let LoginStep::Accepted(learnt) = login.checked(true, &mut Vec::new()) else { panic!() };
    assert_eq!(learnt.password.as_deref(), Some("right"), "the server gets it too");
    let LoginStep::Refused(_) = login.checked(true, &mut Vec::new()) else {
        panic!("a verdict that was not requested")
    };
}

const OAUTH: &str = "issuer=https://idp scope=openid audience=weir";
const CHALLENGE: &str = "{ \"status\": \"invalid_token\", \"openid-configuration\": \
    \"https://idp/.well-known/openid-configuration\", \"scope\": \"openid\" }";

/// A login of `ann` with a token, and the request that it begins with.
fn with_token() -> Login {
    let mut seen = Vec::new();
    let (login, next) = Login::begin("ann", plan(Method::Oauth, "ann", None), None, salt(), None, &mut seen);
    assert!(matches!(next, LoginStep::Wait));
    let mut expected = Vec::new();
    put_back::auth_sasl(&mut expected, &["OAUTHBEARER"]);
    assert_eq!(seen, expected);
    login
}

/// A step with a SASLInitialResponse, and what the client receives.
fn initial(login: &mut Login, mechanism: &str, message: &[u8]) -> (LoginStep, Vec<u8>) {
    let (mut asked, mut seen) = (Vec::new(), Vec::new());
    put_front::sasl_initial(&mut asked, mechanism, message);
    (login.message(&asked[HEAD..], &policy(), &mut seen), seen)
}

fn invalid_token() -> Vec<u8> {
    let mut expected = Vec::new();
    put_back::auth_sasl_continue(&mut expected, CHALLENGE.as_bytes());
    expected
}

fn oauth_failed(next: &LoginStep, expected: bool) -> bool {
    matches!(next, LoginStep::Refused(Refusal::OauthFailed { user, asked }) if user == "ann" && *asked == expected)
}

#[test]
fn a_token_is_checked_and_nothing_of_it_is_kept_for_servers() {
    let mut login = with_token();
    let (next, seen) = initial(&mut login, "OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01\x01");
    let LoginStep::CheckPassword(token) = next else { panic!() };
    assert_eq!((&*token, seen.len()), ("a.b.c", 0));
    let LoginStep::Accepted(learnt) = login.checked(true, &mut Vec::new()) else { panic!() };
    assert!(learnt.password.is_none() && learnt.keys.is_none());
}

#[test]
fn a_client_with_a_wrong_token_learns_which_are_accepted_before_the_error() {
    let mut login = with_token();
    initial(&mut login, "OAUTHBEARER", b"n,,\x01auth=Bearer a.b.c\x01\x01");
    let mut seen = Vec::new();
    assert!(matches!(login.checked(false, &mut seen), LoginStep::Wait));
    assert_eq!(seen, invalid_token());
    assert!(oauth_failed(&login.message(b"\x01", &policy(), &mut Vec::new()), false));
    let mut login = with_token();
    let (next, seen) = initial(&mut login, "OAUTHBEARER", b"n,,\x01auth=Basic a\x01\x01");
    assert!(matches!(next, LoginStep::Unusable(_)) && seen == invalid_token());
    assert!(oauth_failed(&login.message(b"\x01", &policy(), &mut Vec::new()), false));
}

#[test]
fn a_client_without_a_token_learns_which_are_accepted_and_has_not_failed() {
    let mut login = with_token();
    let (next, seen) = initial(&mut login, "OAUTHBEARER", b"n,,\x01auth=\x01\x01");
    assert!(matches!(next, LoginStep::Wait) && seen == invalid_token());
    let next = login.message(b"\x01", &policy(), &mut Vec::new());
    assert!(oauth_failed(&next, true));
    let LoginStep::Refused(refusal) = next else { panic!() };
    assert!(refusal.is_expected() && !refusal.denies_login());
    assert_eq!(
        (refusal.sqlstate(), &*refusal.to_string()),
        ("28000", "OAuth bearer authentication failed for user \"ann\"")
    );
}

#[test]
fn a_mechanism_may_be_chosen_before_the_first_message() {
    let mut login = with_token();
    let mut asked = b"OAUTHBEARER\0".to_vec();
    asked.extend((-1_i32).to_be_bytes());
    let mut seen = Vec::new();
    assert!(matches!(login.message(&asked, &policy(), &mut seen), LoginStep::Wait));
    let mut empty = Vec::new();
    put_back::auth_sasl_continue(&mut empty, b"");
    assert_eq!(seen, empty);
    let next = login.message(b"n,,\x01auth=Bearer t\x01\x01", &policy(), &mut Vec::new());
    assert!(matches!(next, LoginStep::CheckPassword(token) if &*token == "t"));
}

#[test]
fn messages_of_another_form_end_a_login_with_a_token() {
    let broken = |next: &LoginStep, part: &str| match next {
        LoginStep::Refused(refusal) => assert!(refusal.to_string().contains(part), "{part}: {refusal}"),
        _ => panic!("{part}"),
    };
    for mechanism in ["SCRAM-SHA-256", "oauthbearer", ""] {
        let (next, _) = initial(&mut with_token(), mechanism, b"n,,\x01auth=\x01\x01");
        broken(&next, "invalid SASL authentication mechanism");
    }
    broken(&initial(&mut with_token(), "OAUTHBEARER", b"n,,\x01auth=\x01").0, "final terminator");
    broken(&initial(&mut with_token(), "OAUTHBEARER", b"").0, "The message is empty");
    broken(&with_token().message(b"OAUTHBEARER", &policy(), &mut Vec::new()), "incomplete");
    let mut login = with_token();
    initial(&mut login, "OAUTHBEARER", b"n,,\x01auth=\x01\x01");
    broken(&login.message(b"n,,\x01auth=Bearer t\x01\x01", &policy(), &mut Vec::new()), "kvsep");
    broken(&login.message(b"\x01", &policy(), &mut Vec::new()), "not requested");
    // Behind a token that is refused each answer is a failed login, with its delay.
    for answer in [&b"\x01"[..], b"x", b""] {
        let mut login = with_token();
        let (next, _) = initial(&mut login, "OAUTHBEARER", b"n,,\x01auth=Bearer \x01\x01");
        assert!(matches!(next, LoginStep::Unusable(_)));
        broken(&login.message(answer, &policy(), &mut Vec::new()), "OAuth bearer authentication failed");
    }
    let mut login = with_token();
    initial(&mut login, "OAUTHBEARER", b"n,,\x01auth=Bearer t\x01\x01");
    broken(&login.message(b"\x01", &policy(), &mut Vec::new()), "not requested");
}

/// A client's answer to a request for proof.
fn respond(
    asked: &[u8],
    user: &str,
    password: &str,
    binding: Option<&[u8]>,
    scram: &mut Option<ScramClient>,
) -> Vec<u8> {
    let mut answer = Vec::new();
    match backend::authentication(asked).unwrap() {
        AuthRequest::Cleartext => put_front::password(&mut answer, password.as_bytes()),
        AuthRequest::Md5(salt) => {
            let response = md5_response(&md5_hex_secret(user, password), salt);
            put_front::password(&mut answer, response.as_bytes());
        }
        AuthRequest::Sasl(offered) => {
            let (mechanism, client, first) = ScramClient::choose([3; 18], offered, binding).unwrap();
            put_front::sasl_initial(&mut answer, mechanism, &first);
            *scram = Some(client);
        }
        AuthRequest::SaslContinue(first) => {
            let need = scram.take().unwrap().server_first(first).unwrap();
            let salted = if password == "right" { SALTED } else { [1; 32] };
            put_front::sasl_response(&mut answer, &need.answer(&ScramKeys::from_salted(&salted)).1);
        }
        _ => panic!("nothing else is asked"),
    }
    answer
}

#[test]
fn the_right_password_lets_in_by_every_method() {
    for (method, seen) in [(Method::Plain, "R"), (Method::Md5, "R"), (Method::ScramSha256, "RRR")] {
        let secret = Secret::Plain("right".into());
        assert_eq!(attempt(method, Some(secret), "ann", "right"), (seen.into(), None), "{method}");
    }
}

#[test]
fn a_wrong_password_and_an_unknown_user_look_the_same() {
    for method in [Method::Plain, Method::Md5, Method::ScramSha256] {
        let wrong = attempt(method, Some(Secret::Plain("right".into())), "ann", "wrong");
        let unknown = attempt(method, None, "nobody", "wrong");
        assert!(wrong.1.is_some(), "{method}");
        assert_eq!(wrong, unknown, "{method}");
    }
}

#[test]
fn an_unknown_user_can_not_come_in_with_any_password() {
    for method in [Method::Plain, Method::Md5, Method::ScramSha256] {
        for password in ["", "right", "nobody"] {
            assert!(attempt(method, None, "nobody", password).1.is_some(), "{method} {password}");
        }
    }
}

#[test]
fn a_login_binds_to_the_connection_where_both_ends_can() {
    let attempt = |ends| {
        let secret = Some(Secret::Plain("right".into()));
        attempt_bound(Method::ScramSha256, secret, "ann", "right", ends)
    };
    let (ours, other) = (Some(&b"our certificate"[..]), Some(&b"another's"[..]));
    for ends in [[ours, ours], [ours, None], [None, ours], [None, None]] {
        assert_eq!(attempt(ends), ("RRR".into(), None), "{ends:?}");
    }
    // A man in the middle shows each end another certificate.
    assert_eq!(attempt([ours, other]), ("RR".into(), Some(Refusal::SaslFailed)));
}

#[test]
fn a_client_that_was_not_shown_our_better_offer_is_refused() {
    let secret = Some(Secret::Plain("right".into()));
    let plan = plan(Method::ScramSha256, "ann", secret.as_ref());
    for (mechanism, first) in
        [("SCRAM-SHA-256", "y,,n=,r=abc"), ("SCRAM-SHA-256-PLUS", "y,,n=,r=abc"), ("PLAIN", "n,,")]
    {
        let (mut seen, mut answer) = (Vec::new(), Vec::new());
        let (mut login, _) = Login::begin("ann", plan.clone(), secret.as_ref(), salt(), Some(b"hash"), &mut seen);
        put_front::sasl_initial(&mut answer, mechanism, first.as_bytes());
        let mut next = login.message(&answer[HEAD..], &policy(), &mut seen);
        if let LoginStep::HashPassword { .. } = next {
            next = login.salted(&SALTED);
        }
        assert!(matches!(next, LoginStep::Refused(Refusal::SaslFailed)), "{mechanism}");
    }
}

#[test]
fn a_client_that_is_refused_at_once_gets_pgbouncers_text() {
    let refused = |method| attempt(method, None, "ann", "").1.unwrap();
    assert_eq!(refused(Method::Hba).to_string(), "no authentication method is found");
    assert_eq!(refused(Method::Cert).to_string(), "certificate authentication failed");
    assert_eq!(refused(Method::Any).to_string(), "bouncer config error");
    assert_eq!(refused(Method::Trust).to_string(), "\"trust\" authentication failed");
    assert_eq!(refused(Method::Hba).sqlstate(), "28000");
}

#[test]
fn an_unsolicited_password_is_refused() {
    let mut seen = Vec::new();
    let secret = Some(Secret::Plain("right".into()));
    let plan = plan(Method::Plain, "ann", secret.as_ref());
    let (mut login, _) = Login::begin("ann", plan, secret.as_ref(), salt(), None, &mut seen);
    assert!(matches!(login.message(b"right\0", &policy(), &mut seen), LoginStep::Accepted(_)));
    assert!(matches!(login.message(b"right\0", &policy(), &mut seen), LoginStep::Refused(Refusal::Protocol(_))));
    assert!(matches!(login.salted(&SALTED), LoginStep::Refused(Refusal::Broken(_))));
}

fn credentials(password: Option<&str>) -> Credentials {
    Credentials {
        user: "ann".into(),
        database: "db".into(),
        password: password.map(Arc::from),
        md5: None,
        keys: None,
        require: RequireAuth::Any,
        trust: Trust::default(),
        startup: Vec::new(),
    }
}

fn begin(password: Option<&str>) -> (ServerLogin, ParamTable) {
    let table = ParamTable::new([]);
    (ServerLogin::begin(credentials(password), None, &table, &mut Vec::new()), table)
}

fn server_says(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes);
    bytes
}

fn key() -> Vec<u8> {
    server_says(|b| put_back::backend_key_data(b, 77, &[1, 2, 3, 4]))
}

fn auth_ok() -> Vec<u8> {
    server_says(put_back::auth_ok)
}

/// The result of a login: "ready", "waits", "salt", or the failure's text.
fn outcome(step: ServerLoginStep) -> String {
    match step {
        ServerLoginStep::Wait => "waits".into(),
        ServerLoginStep::HashPassword { .. } => "salt".into(),
        ServerLoginStep::Ready(_) => "ready".into(),
        ServerLoginStep::Refused(error) | ServerLoginStep::Failed(error) => error.message,
    }
}

fn feed(login: &mut ServerLogin, table: &ParamTable, bytes: &[u8]) -> (ServerLoginStep, Vec<u8>) {
    let mut sent = Vec::new();
    let step = login.feed(bytes, [4; 18], table, &mut sent);
    (step, sent)
}

#[test]
fn a_server_that_trusts_is_ready_with_what_it_says_about_itself() {
    let (mut login, table) = begin(None);
    let bytes = [auth_ok(), parameter("TimeZone", "UTC"), parameter("server_version", "18"), key(), ready()].concat();
    for byte in &bytes[..bytes.len() - 1] {
        assert_eq!(outcome(feed(&mut login, &table, &[*byte]).0), "waits");
    }
    let ServerLoginStep::Ready(welcome) = feed(&mut login, &table, &bytes[bytes.len() - 1..]).0 else {
        panic!("not ready")
    };
    assert_eq!(welcome.reported.len(), 2);
    assert_eq!(welcome.server.cancel_key().pid, 77);
    assert_eq!(table.get(welcome.server.params(), "TimeZone"), Some("UTC"));
    assert!(welcome.server.prove_clean().is_some());
}

#[test]
fn a_secret_that_a_server_requires_and_we_lack_is_reported_with_the_users_name() {
    let ask: [fn(&mut Vec<u8>); 2] = [put_back::auth_cleartext, |b| put_back::auth_md5(b, [0; 4])];
    for ask in ask {
        let (mut login, table) = begin(None);
        let step = outcome(feed(&mut login, &table, &server_says(ask)).0);
        assert!(step.contains("user \"ann\"") && step.contains("none is known"), "{step}");
    }
}

#[test]
fn the_servers_own_refusal_is_reported_in_its_words() {
    let (mut login, table) = begin(Some("right"));
    let (step, _) = feed(&mut login, &table, &fatal("28P01", "password authentication failed for user \"ann\""));
    let ServerLoginStep::Refused(error) = step else { panic!("not refused") };
    assert_eq!((error.sqlstate.as_str(), error.message.contains("password authentication")), ("28P01", true));
}

#[test]
fn a_server_that_misbehaves_during_login_fails_clearly() {
    let long = server_says(|b| put_back::parameter_status(b, "x", "y".repeat(100_000)));
    let many: Vec<u8> = (0..300).flat_map(|i| parameter(&format!("p{i}"), "v")).collect();
    let bad = [
        ("ready before its OK", ready()),
        ("parameters before its OK", parameter("TimeZone", "UTC")),
        ("rows", row("x")),
        ("OK twice", [auth_ok(), auth_ok()].concat()),
        ("ready in a transaction", [auth_ok(), ready_in(b'T')].concat()),
        ("bytes after ready", [auth_ok(), ready(), notice("x")].concat()),
        ("a very long message", [auth_ok(), long].concat()),
        ("too many parameters", [auth_ok(), many].concat()),
        ("a length below four", vec![b'R', 0, 0, 0, 3]),
        ("an empty authentication", vec![b'R', 0, 0, 0, 4]),
        ("a short cancel key", [auth_ok(), vec![b'K', 0, 0, 0, 6, 0, 0]].concat()),
        ("an unknown method", server_says(|b| put_back::auth(b, 7, b""))),
        ("SCRAM out of order", server_says(|b| put_back::auth_sasl_final(b, b"v=x"))),
        ("a mechanism that we do not know", server_says(|b| put_back::auth_sasl(b, &["SCRAM-SHA-1"]))),
    ];
    for (what, bytes) in bad {
        let (mut login, table) = begin(Some("right"));
        let (step, _) = feed(&mut login, &table, &bytes);
        let ServerLoginStep::Failed(error) = step else { panic!("{what}: {}", outcome(step)) };
        assert_eq!(error.sqlstate, "08006", "{what}");
        assert!(error.message.starts_with("server login failed: "), "{what}: {}", error.message);
    }
}

#[test]
fn a_server_that_does_not_prove_itself_is_not_used() {
    let (mut login, table) = begin(Some("right"));
    let (_, first) = feed(&mut login, &table, &server_says(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256"])));
    let nonce = String::from_utf8_lossy(&first).split("r=").nth(1).unwrap().to_owned();
    let forged = format!("r={nonce}server,s=c2FsdHNhbHQ=,i=4096");
    let (step, _) = feed(&mut login, &table, &server_says(|b| put_back::auth_sasl_continue(b, forged.as_bytes())));
    assert_eq!(outcome(step), "salt");
    assert_eq!(outcome(login.salted(&SALTED, &mut Vec::new())), "waits");
    let (step, _) = feed(&mut login, &table, &server_says(|b| put_back::auth_sasl_final(b, b"v=AAAA")));
    assert!(outcome(step).starts_with("server login failed"));
}

#[test]
fn a_login_of_ours_binds_to_the_connection_where_the_server_can() {
    const PLUS: &str = "SCRAM-SHA-256-PLUS";
    let hash = Some(&b"hash"[..]);
    let table = [
        (vec![PLUS, "SCRAM-SHA-256"], hash, "SCRAM-SHA-256-PLUS\0"),
        (vec![PLUS, "SCRAM-SHA-256"], None, "SCRAM-SHA-256\0"),
        (vec!["SCRAM-SHA-256"], hash, "SCRAM-SHA-256\0"),
        (vec![PLUS], None, "server login failed: the server offers no SASL mechanism that we can use"),
    ];
    for (offered, binding, expected) in table {
        let table = ParamTable::new([]);
        let mut login = ServerLogin::begin(credentials(Some("right")), binding, &table, &mut Vec::new());
        let (step, sent) = feed(&mut login, &table, &server_says(|b| put_back::auth_sasl(b, &offered)));
        let seen = if sent.is_empty() { outcome(step) } else { String::from_utf8_lossy(&sent[HEAD..]).into_owned() };
        assert!(seen.starts_with(expected), "{offered:?} {binding:?}: {seen}");
    }
}

#[test]
fn a_server_that_skips_its_own_proof_is_not_used() {
    let (mut login, table) = begin(Some("right"));
    feed(&mut login, &table, &server_says(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256"])));
    let (step, _) = feed(&mut login, &table, &auth_ok());
    assert!(outcome(step).contains("out of order"));
}

proptest! {
    #[test]
    fn no_bytes_of_a_server_make_a_login_panic(pieces in vec(vec(any::<u8>(), 0..40), 0..8), split in any::<bool>()) {
        let (mut login, table) = begin(Some("right"));
        for piece in &pieces {
            // Bytes with a valid header get further.
            let bytes = match (split, piece.first()) {
                (true, Some(tag)) => server_says(|b| put_back::raw(b, *tag, &piece[1..])),
                _ => piece.clone(),
            };
            if let (ServerLoginStep::Refused(error) | ServerLoginStep::Failed(error), _) = feed(&mut login, &table, &bytes) {
                prop_assert!(!error.message.is_empty() && error.sqlstate.len() == 5);
                break;
            }
        }
    }

    #[test]
    fn no_answer_of_a_client_makes_its_login_panic_or_lets_it_in(answers in vec(vec(any::<u8>(), 0..60), 1..4)) {
        for method in [Method::Plain, Method::Md5, Method::ScramSha256] {
            let secret = Some(Secret::Plain("a password that is too long to guess".into()));
            let mut seen = Vec::new();
            let plan = plan(method, "ann", secret.as_ref());
            let (mut login, _) = Login::begin("ann", plan, secret.as_ref(), salt(), None, &mut seen);
            for answer in &answers {
                let next = login.message(answer, &policy(), &mut seen);
                prop_assert!(!matches!(next, LoginStep::Accepted(_)));
            }
        }
    }
}

/// What a server with an unverified certificate, or a verified one, receives and achieves with its first request.
fn asked(require: &str, verified: bool, request: &[u8]) -> (String, Vec<u8>) {
    let table = ParamTable::new([]);
    let trust = Trust { verified, expects_request: true, local: false };
    let credentials = Credentials { require: require.parse().unwrap(), trust, ..credentials(Some("right")) };
    let mut login = ServerLogin::begin(credentials, None, &table, &mut Vec::new());
    let (step, sent) = feed(&mut login, &table, request);
    (outcome(step), sent)
}

#[test]
fn a_server_that_may_not_ask_like_this_receives_nothing() {
    let clear = server_says(put_back::auth_cleartext);
    let md5 = server_says(|b| put_back::auth_md5(b, [0; 4]));
    let sasl = server_says(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256"]));
    let unsolicited = [auth_ok(), parameter("TimeZone", "UTC"), key(), ready()].concat();
    for (require, verified, request, allowed) in [
        ("auto", false, &clear, false),
        ("auto", false, &unsolicited, false),
        ("auto", false, &md5, true),
        ("auto", false, &sasl, true),
        ("auto", true, &clear, true),
        ("auto", true, &unsolicited, true),
        ("any", false, &clear, true),
        ("none", false, &unsolicited, true),
        ("none", false, &sasl, false),
        ("scram-sha-256", true, &md5, false),
        ("scram-sha-256", true, &clear, false),
        ("scram-sha-256", true, &unsolicited, false),
        ("!password,!none", true, &clear, false),
        ("!password,!none", false, &md5, true),
    ] {
        let (step, sent) = asked(require, verified, request);
        let refused = step.contains("require_auth");
        assert_eq!(refused, !allowed, "{require}, verified {verified}: {step}");
        assert!(!refused || sent.is_empty(), "{require}: something was sent");
    }
}

#[test]
fn a_server_that_requested_a_proof_must_complete_the_exchange() {
    // The server requests SCRAM, and accepts us before it has proven that it knows the secret.
    let table = ParamTable::new([]);
    let credentials = Credentials { require: "scram-sha-256".parse().unwrap(), ..credentials(Some("right")) };
    let mut login = ServerLogin::begin(credentials, None, &table, &mut Vec::new());
    feed(&mut login, &table, &server_says(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256"])));
    let step = outcome(feed(&mut login, &table, &auth_ok()).0);
    assert!(step.contains("out of order"), "{step}");
}

/// What a client receives before it has to prove anything: the request for the proof, or with SCRAM the challenge
/// without its nonce and salt.
fn challenge(mocks: &Mocks, method: Method, user: &str, secret: Option<&Secret>) -> String {
    let mut seen = Vec::new();
    let plan = plan_among(mocks, method, user, secret);
    let (mut login, _) = Login::begin(user, plan, secret, salt(), None, &mut seen);
    let asked = each(&seen);
    match backend::authentication(&asked[0][HEAD..]).unwrap() {
        AuthRequest::Cleartext => "cleartext".into(),
        AuthRequest::Md5(_) => "md5".into(),
        _ => {
            let mut first = Vec::new();
            put_front::sasl_initial(&mut first, "SCRAM-SHA-256", b"n,,n=,r=abc");
            let mut answer = Vec::new();
            login.message(&first[HEAD..], &policy(), &mut answer);
            let AuthRequest::SaslContinue(text) = backend::authentication(&answer[HEAD..]).unwrap() else { panic!() };
            let text = String::from_utf8_lossy(text).into_owned();
            let (salt, iterations) = text.split_once(",s=").unwrap().1.split_once(',').unwrap();
            format!("scram, salt of {}, {iterations}", salt.len())
        }
    }
}

#[test]
fn what_an_unknown_user_is_asked_is_what_known_users_are_asked() {
    let verifier = |iterations, salt| Secret::Scram(ScramVerifier::from_salted(&SALTED, vec![7; salt], iterations));
    let md5 = Secret::Md5("0".repeat(32).into());
    for secret in [Secret::Plain("right".into()), md5, verifier(4096, 16), verifier(20_000, 16), verifier(4096, 28)] {
        let mut mocks = Mocks::default();
        mocks.count(&secret);
        for method in [Method::Plain, Method::Md5, Method::ScramSha256] {
            let known = challenge(&mocks, method, "ann", Some(&secret));
            for stranger in ["bob", "carol", "root", ""] {
                assert_eq!(challenge(&mocks, method, stranger, None), known, "{method}, {secret:?}");
                let hollow = Some(Secret::Plain("".into()));
                assert_eq!(challenge(&mocks, method, stranger, hollow.as_ref()), known, "{method}, {secret:?}");
            }
        }
    }
}

#[test]
fn the_challenge_of_a_listed_password_does_not_wait_for_its_hash() {
    let secret = Secret::Plain("right".into());
    let mocks = Mocks::of_shape(Shape::usual(4096));
    let known = challenge(&mocks, Method::ScramSha256, "ann", Some(&secret));
    assert_eq!(known, challenge(&mocks, Method::ScramSha256, "nobody", None));
}
