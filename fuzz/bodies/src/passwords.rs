//! Authentication: SCRAM in both roles, md5, cleartext, logins in frames, and stored secrets.
//!
//! Keys are fixed and never hashed from a password, which would cost milliseconds; a fuzzer can't guess them. So any
//! invented message must be refused, and of a valid exchange only exactly the sent messages may be accepted.

use std::sync::Arc;

use weir_auth::{
    BearerMessage, Exchange, IdentMaps, LoginPlan, RequireAuth, ScramClient, ScramKeys, ScramOffer, ScramPolicy,
    ScramSource, ScramVerifier, Secret, Shape, Trust, md5_hex_secret, md5_response, md5_verify, plain_verify,
    read_bearer, verify_cleartext,
};
use weir_config::Users;
use weir_pgwire::{AuthRequest, HEAD, backend};
use weir_session::ParamTable;
use weir_session::login::{Login, LoginNonces, LoginStep};
use weir_session::server_login::{Credentials, ServerLogin, ServerLoginStep};

use crate::tape::{Tape, pieces};

const SALTED: [u8; 32] = [9; 32];
const BINDING: &[u8] = b"the hash of a certificate";
const POLICY: ScramPolicy = ScramPolicy { key: [7; 32], iterations: 1 };

fn verifier() -> ScramVerifier {
    ScramVerifier::from_salted(&SALTED, b"sixteen bytes ok".to_vec(), 4096)
}

/// A message, possibly changed by the fuzzer.
fn altered(message: &[u8], tape: &mut Tape<'_>) -> Vec<u8> {
    let mut message = message.to_vec();
    match tape.below(4) {
        0 => {}
        1 => {
            let at = tape.below(message.len() + 1);
            let end = (at + tape.below(16)).min(message.len());
            message.splice(at..end, tape.some().iter().copied());
        }
        2 => message = tape.some().to_vec(),
        _ => {
            let at = tape.below(message.len().max(1));
            let bit = tape.below(8);
            message.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << bit);
        }
    }
    message
}

/// Our role towards clients: only exactly the messages of a client that knows the keys are accepted.
pub(crate) fn scram_server(data: &[u8]) {
    let mut tape = Tape::new(data);
    let (ours, theirs, must_fail) = (tape.flag(), tape.flag(), tape.below(8) == 7);
    let offer = ScramOffer::new([1; 18], ours.then_some(BINDING));
    let offered: Vec<&[u8]> = offer.mechanisms().iter().map(|name| name.as_bytes()).collect();
    let Some((mechanism, client, first)) = ScramClient::choose([2; 18], offered.into_iter(), theirs.then_some(BINDING))
    else {
        return;
    };
    let mechanism = altered(mechanism.as_bytes(), &mut tape);
    let Ok(server) = offer.choose(&mechanism) else { return };
    let sent_first = altered(&first, &mut tape);
    let Ok((server, server_first)) = server.first(&sent_first, verifier(), must_fail) else { return };
    let Ok(need) = client.server_first(&server_first) else { return };
    let (verdict, last) = need.answer(&ScramKeys::from_salted(&SALTED));
    let sent_last = altered(&last, &mut tape);
    let Ok((keys, server_final)) = server.finish(&sent_last) else { return };
    assert!(!must_fail, "a must_fail login must fail");
    assert!(sent_first == first && sent_last == last, "a proof of other messages was accepted");
    assert!(keys.matches(&verifier()));
    assert_eq!(verdict.finish(&server_final), Ok(()));
}

/// Our role towards servers: only exactly the messages of a server that knows the secret are accepted.
pub(crate) fn scram_client(data: &[u8]) {
    let mut tape = Tape::new(data);
    let bound = tape.flag();
    let binding = bound.then_some(BINDING);
    let names: Vec<&[u8]> = tape.some().split(|byte| *byte == b',').collect();
    let _ = ScramClient::choose([2; 18], names.into_iter(), binding);
    let offer = ScramOffer::new([1; 18], binding);
    let offered = offer.mechanisms().iter().map(|name| name.as_bytes());
    let (mechanism, client, first) = ScramClient::choose([2; 18], offered, binding).expect("all mechanisms are known");
    let server = offer.choose(mechanism.as_bytes()).expect("it was offered");
    let (server, server_first) = server.first(&first, verifier(), false).expect("an honest message");
    let sent_first = altered(&server_first, &mut tape);
    let Ok(need) = client.server_first(&sent_first) else { return };
    assert!(!need.salt.is_empty() && (1..=weir_auth::MAX_ITERATIONS).contains(&need.iterations));
    let (verdict, last) = need.answer(&ScramKeys::from_salted(&SALTED));
    let server_final = match server.finish(&last) {
        Ok((_, server_final)) => server_final,
        Err(_) => b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=".to_vec(),
    };
    let sent_final = altered(&server_final, &mut tape);
    if verdict.finish(&sent_final).is_ok() {
        assert_eq!(sent_first, server_first, "a server that does not know the secret was accepted");
        // Extensions may follow the signature.
        assert!(sent_final.starts_with(&server_final));
    }
}

/// Passwords and md5 answers against each kind of secret.
pub(crate) fn passwords(data: &[u8]) {
    let mut tape = Tape::new(data);
    let (given, stored) = (tape.some(), tape.some());
    let stored = String::from_utf8_lossy(stored).into_owned();
    let same = !stored.is_empty() && given == stored.as_bytes() && !given.contains(&0);
    assert_eq!(plain_verify(&stored, given), same);
    assert_eq!(verify_cleartext(&Secret::Plain(stored.as_str().into()), "u", given), same);
    let hex = md5_hex_secret("u", &stored);
    assert_eq!(verify_cleartext(&Secret::Md5(hex.as_str().into()), "u", given), same);
    let salt = [1, 2, 3, 4];
    assert_eq!(md5_verify(&hex, salt, given), md5_response(&hex, salt).as_bytes() == given);
    let is_hex = stored.len() == 32 && stored.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    assert!(is_hex || !md5_verify(&stored, salt, md5_response(&stored, salt).as_bytes()));
}

/// A client's login: whatever message bodies arrive, no client is accepted without a proof.
pub(crate) fn client_login(data: &[u8]) {
    let mut tape = Tape::new(data);
    let exchange = match tape.below(6) {
        0 => Exchange::Cleartext { mock: None },
        1 => Exchange::Md5 { hex: md5_hex_secret("u", "a password that no fuzzer finds") },
        2 => Exchange::Md5 { hex: String::new() },
        3 => Exchange::Scram(ScramSource::Verifier(verifier())),
        4 => Exchange::Bearer { challenge: "{}".to_owned() },
        _ => Exchange::Scram(ScramSource::Mock(Shape::usual(1))),
    };
    let secret = Secret::Plain("a password that no fuzzer finds".into());
    let salt = LoginNonces { md5: [1, 2, 3, 4], nonce: [1; 18] };
    let mut buffer = Vec::new();
    let binding = tape.flag().then_some(BINDING);
    let (mut login, _) =
        Login::begin("u", LoginPlan { exchange, reject_reason: None }, Some(&secret), salt, binding, &mut buffer);
    let mut messages = 0;
    while !tape.is_over() && messages < 8 {
        messages += 1;
        let next = match tape.below(9) {
            8 => login.salted(&[3; 32]),
            _ => login.message(tape.some(), &POLICY, &mut buffer),
        };
        match next {
            LoginStep::Accepted(_) => panic!("a client without a proof is accepted"),
            LoginStep::Refused(_) => break,
            LoginStep::Wait | LoginStep::HashPassword { .. } | LoginStep::CheckPassword(_) | LoginStep::Unusable(_) => {
            }
        }
    }
    assert!(buffer.len() < 64 << 10, "our output is bounded");
}

/// The first message of a client with a token: what is read is a part of the message, in the characters of tokens.
pub(crate) fn bearer(data: &[u8]) {
    let value = match read_bearer(data) {
        Ok(BearerMessage::Token(token)) => {
            assert!(!token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','));
            format!("Bearer {token}")
        }
        Ok(BearerMessage::Discovery) => String::new(),
        Ok(BearerMessage::Unusable(_)) | Err(_) => return,
    };
    assert!(data.windows(5).any(|part| part == b"auth="), "it was there");
    let again = format!("n,,\x01auth={value}\x01\x01");
    assert!(read_bearer(again.as_bytes()) == read_bearer(data), "the rest of the message does not matter");
    // A message that ends earlier is none.
    (0..data.len()).rev().take(64).for_each(|end| assert!(read_bearer(&data[..end]).is_err()));
}

/// Our login at a server that sends anything: it costs little, and succeeds only after AuthenticationOk.
pub(crate) fn server_login(data: &[u8]) {
    let mut tape = Tape::new(data);
    let flags = tape.byte();
    let cut = 1 + tape.below(200);
    let credentials = Credentials {
        user: "u".into(),
        database: "d".into(),
        password: (flags & 1 == 1).then(|| Arc::from("secret")),
        md5: (flags & 2 == 2).then(|| Arc::from(md5_hex_secret("u", "secret"))),
        keys: (flags & 4 == 4).then(|| ScramKeys::from_salted(&SALTED)),
        require: [RequireAuth::Any, RequireAuth::Auto][usize::from(flags & 16 == 16)],
        trust: Trust { verified: flags & 32 == 32, expects_request: flags & 64 == 64, local: flags & 128 == 128 },
        startup: vec![("application_name".into(), "x".into())],
    };
    let table = ParamTable::new([]);
    let mut buffer = Vec::new();
    let binding = (flags & 8 == 8).then_some(BINDING);
    let mut login = ServerLogin::begin(credentials, binding, &table, &mut buffer);
    let said = tape.rest();
    let mut before = 0;
    for piece in pieces(said, &[cut]) {
        let mut step = login.feed(piece, [2; 18], &table, &mut buffer);
        before += piece.len();
        if let ServerLoginStep::HashPassword { iterations, .. } = step {
            assert!((1..=weir_auth::MAX_ITERATIONS).contains(&iterations));
            step = login.salted(&SALTED, &mut buffer);
        }
        match step {
            ServerLoginStep::Ready(welcome) => {
                assert!(was_accepted(&said[..before]), "a login without AuthenticationOk");
                assert!(welcome.server.prove_clean().is_some());
                return;
            }
            ServerLoginStep::Refused(_) | ServerLoginStep::Failed(_) => return,
            ServerLoginStep::Wait | ServerLoginStep::HashPassword { .. } => {}
        }
    }
    assert!(buffer.len() < 16 << 10, "our output is bounded");
}

fn was_accepted(mut said: &[u8]) -> bool {
    while let Ok(Some(head)) = weir_pgwire::Head::parse(said) {
        let Some((message, rest)) = said.split_at_checked(head.total()) else { return false };
        if head.tag == b'R' && backend::authentication(&message[HEAD..]) == Ok(AuthRequest::Ok) {
            return true;
        }
        said = rest;
    }
    false
}

/// Secrets as pg_authid stores them: a verifier is written as it was read, and no output shows a secret.
pub(crate) fn stored_secrets(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match Secret::parse(&text) {
        Ok(Secret::Scram(verifier)) => {
            assert!((1..=weir_auth::MAX_ITERATIONS).contains(&verifier.iterations));
            assert_eq!(ScramVerifier::parse(&verifier.to_string()), Ok(verifier));
        }
        Ok(secret @ Secret::Md5(_)) => assert_eq!(format!("{secret:?}"), "Md5(…)"),
        Ok(Secret::Plain(password)) => assert_eq!(*password, *text),
        Err(error) => assert!(text.starts_with("SCRAM-SHA-256$") && !error.to_string().is_empty()),
    }
}

/// A userlist: what is written after reading is read the same.
pub(crate) fn userlist(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let users = match Users::parse(&text) {
        Ok(users) => users,
        Err(errors) => {
            let lines = 1..=text.lines().count();
            assert!(!errors.is_empty() && errors.iter().all(|error| lines.contains(&error.line)), "{errors:?}");
            return;
        }
    };
    let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let again: Vec<String> =
        users.iter().map(|(name, secret)| format!("{} {}", quoted(name), quoted(secret))).collect();
    assert_eq!(Users::parse(&again.join("\n")).as_ref(), Ok(&users));
    assert!(users.iter().all(|(name, _)| !name.is_empty() && users.get(name).is_some()));
}

/// Ident maps.
pub(crate) fn ident_file(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match IdentMaps::parse(&text) {
        Ok(maps) => {
            for word in text.split_whitespace().take(50) {
                assert!(maps.has(word) || !maps.allows(word, "a", "a"));
            }
        }
        Err(errors) => rules_are_named(&text, errors.iter().map(|e| (e.line, e.message.as_str()))),
    }
}

/// Errors name existing lines, in one line each.
pub(crate) fn rules_are_named<'e>(text: &str, errors: impl Iterator<Item = (usize, &'e str)>) {
    let mut count = 0;
    for (line, message) in errors {
        count += 1;
        assert!((1..=text.lines().count() + 1).contains(&line), "line {line}");
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
    assert!(count > 0, "refused without a reason");
}
