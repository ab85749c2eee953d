//! Malformed SCRAM messages in both roles: from clients, and from servers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weir_auth::{ScramClient, ScramKeys, ScramServer, ScramVerifier, salt_password};
use weir_pgclient::{Connection, Error};
use weir_pgwire::{AuthRequest, backend, put_back, put_front, tag};
use weir_tests::{Mode, Setup, Site, body_text, users};

use crate::report::{Report, size};
use crate::servers::{Case, run, welcome};

const TIMEOUT: Duration = Duration::from_secs(30);
const NONCE: [u8; 18] = *b"eighteen bytes ...";

/// All faults of a message of attributes: cut at every byte, each attribute missing, doubled, empty, moved, very long,
/// an unknown one before it; each byte replaced.
fn malformed(message: &[u8]) -> Vec<(String, Vec<u8>)> {
    let text = body_text(message);
    let parts: Vec<&str> = text.split(',').collect();
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for end in 0..message.len() {
        all.push((format!("cut to {end} bytes"), message[..end].to_vec()));
    }
    let joined = |parts: &[String]| parts.join(",").into_bytes();
    let own = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
    for at in 0..parts.len() {
        let with = |replacement: Vec<String>| {
            let mut all = own(&parts);
            all.splice(at..=at, replacement);
            joined(&all)
        };
        let part = parts[at].to_owned();
        let name = part.split('=').next().unwrap_or_default().to_owned();
        all.push((format!("attribute {at} missing"), with(vec![])));
        all.push((format!("attribute {at} twice"), with(vec![part.clone(), part.clone()])));
        all.push((format!("attribute {at} empty"), with(vec![format!("{name}=")])));
        all.push((format!("attribute {at} without ="), with(vec![part.replace('=', "")])));
        all.push((format!("attribute {at} unknown"), with(vec!["y=unknown".to_owned()])));
        all.push((format!("an unknown attribute before {at}"), with(vec!["y=unknown".to_owned(), part.clone()])));
        all.push((format!("a mandatory extension before {at}"), with(vec!["m=must".to_owned(), part.clone()])));
        for long in [300, 3000, 70_000, 1 << 20] {
            all.push((format!("attribute {at} of {long} bytes"), with(vec![format!("{name}={}", "A".repeat(long))])));
        }
        for number in ["0", "-1", "1e9", "99999999999999999999", " 4096", "4096 ", "0x10", "４０９６", "%s%n", "1\0"]
        {
            all.push((format!("attribute {at} is {number:?}"), with(vec![format!("{name}={number}")])));
        }
        if at + 1 < parts.len() {
            let mut swapped = own(&parts);
            swapped.swap(at, at + 1);
            all.push((format!("attributes {at} and {} swapped", at + 1), joined(&swapped)));
        }
    }
    for at in 0..message.len() {
        for byte in [0, 0xff, b',', b'=', message[at] ^ 0x20, message[at].wrapping_add(1)] {
            let mut other = message.to_vec();
            other[at] = byte;
            all.push((format!("byte {at} is {byte:#04x}"), other));
        }
    }
    all.retain(|(_, bytes)| bytes != message);
    all
}

/// One exchange of a client; each step may be malformed. Returns whether the login succeeded.
fn client_login(
    site: &Site,
    initial: impl FnOnce(&[u8]) -> Vec<u8>,
    last: impl FnOnce(&[u8]) -> Vec<u8>,
) -> Result<bool, String> {
    let mut client = Connection::open(&site.params()).map_err(|error| error.to_string())?;
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", users::APP.name), ("database", "app")], 0);
    client.send_bytes(&packet).map_err(|error| error.to_string())?;
    let frame = client.read_frame(TIMEOUT).map_err(|error| error.to_string())?;
    if frame.tag != tag::back::AUTHENTICATION {
        return Err(format!("{frame:?} instead of a request"));
    }
    let (state, first) = ScramClient::start(NONCE);
    let _ = client.send_bytes(&initial(&first));
    let frame = match client.read_frame(TIMEOUT) {
        Ok(frame) if frame.tag == tag::back::AUTHENTICATION => frame,
        Ok(_) => return ended(&mut client),
        Err(Error::Timeout) => return Err("silence".into()),
        Err(_) => return Ok(false),
    };
    let Ok(AuthRequest::SaslContinue(challenge)) = backend::authentication(&frame.body) else {
        return Err("neither a challenge nor an error".into());
    };
    // An odd but valid first message is answered, but its sender can't continue.
    let answer = state.server_first(challenge).map_or_else(
        |_| b"c=biws,r=x,p=AAAA".to_vec(),
        |state| {
            let keys = ScramKeys::from_salted(&salt_password(users::APP.password, &state.salt, state.iterations));
            state.answer(&keys).1
        },
    );
    let _ = client.send_bytes(&last(&answer));
    match client.read_frame(TIMEOUT) {
        Ok(frame) if frame.tag == tag::back::AUTHENTICATION => Ok(true),
        Ok(_) => ended(&mut client),
        Err(Error::Timeout) => Err("silence".into()),
        Err(_) => Ok(false),
    }
}

/// An error was sent; the connection must be closed.
fn ended(client: &mut Connection) -> Result<bool, String> {
    match client.read_frame(TIMEOUT) {
        Err(Error::Timeout) => Err("the client gets an error, but is not closed".into()),
        Err(_) => Ok(false),
        Ok(frame) => Err(format!("{frame:?} after the error")),
    }
}

fn initial(data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    put_front::sasl_initial(&mut packet, "SCRAM-SHA-256", data);
    packet
}

fn response(data: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    put_front::sasl_response(&mut packet, data);
    packet
}

/// Frames for this body with each fault that SASLInitialResponse itself can have.
fn wrong_frames() -> Vec<(String, Vec<u8>)> {
    let first = b"n,,n=,r=abcdefghijklmnopqrstuvwx";
    let frame = |body: &[u8]| [b"p", &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let mut all = Vec::new();
    for mechanism in ["", "SCRAM-SHA-1", "SCRAM-SHA-256-PLUS", "scram-sha-256", "PLAIN", "SCRAM-SHA-256\u{1}"] {
        let mut packet = Vec::new();
        put_front::sasl_initial(&mut packet, mechanism, first);
        all.push((format!("the mechanism {mechanism:?}"), packet));
    }
    for length in [-1_i32, -2, 0, 1, first.len() as i32 - 1, first.len() as i32 + 1, i32::MAX, i32::MIN] {
        let body = [&b"SCRAM-SHA-256\0"[..], &length.to_be_bytes(), first].concat();
        all.push((format!("a response with length {length}"), frame(&body)));
    }
    let whole = [&b"SCRAM-SHA-256\0"[..], &(first.len() as u32).to_be_bytes(), first].concat();
    for end in 0..whole.len() {
        all.push((format!("a frame cut to {end} bytes"), frame(&whole[..end])));
    }
    for length in [0_u32, 3, 4, 0x7fff_ffff, 0xffff_ffff] {
        all.push((format!("a frame with length {length}"), [b"p", &length.to_be_bytes()[..], &whole].concat()));
    }
    all
}

/// Each message of a client in the exchange, with each possible fault, one at a time. Only the valid exchange succeeds,
/// no connection hangs, and the pooler continues.
#[test]
fn a_malformed_scram_message_of_a_client_fails_its_login() {
    let report = Report::begin();
    // Few iterations: this tests the form.
    let setup = Setup::new(Mode::Transaction).auth_line("failure_delay = 0").auth_line("scram_iterations = 1");
    let site = Site::with(setup.general("client_login_timeout = \"2s\""), Mode::Transaction);
    assert_eq!(client_login(&site, initial, response), Ok(true), "the valid one");
    let (_, first) = ScramClient::start(NONCE);
    let mut cases: Vec<(String, Vec<u8>)> = wrong_frames();
    cases.extend(malformed(&first).into_iter().map(|(name, bytes)| (format!("client-first: {name}"), initial(&bytes))));
    // The last message differs in each exchange, but its form does not: faults are chosen by position.
    let form = {
        let (form, _) = (std::sync::Mutex::new(Vec::new()), ());
        let _ = client_login(&site, initial, |answer| {
            *form.lock().expect("no thread panics") = answer.to_vec();
            response(answer)
        });
        form.into_inner().expect("no thread panics")
    };
    let malformed_last = malformed(&form).len();
    let firsts = cases.len();
    let (next, logged_in) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let step = size(3, 1);
    let count = firsts + malformed_last / step;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    let mut name = String::new();
                    let outcome = match cases.get(number) {
                        Some((what, packet)) => {
                            name.clone_from(what);
                            // An odd but valid first message may be answered; its last message does not match then.
                            client_login(&site, |_| packet.clone(), |_| response(b"c=biws,r=x,p=AAAA"))
                        }
                        None => client_login(&site, initial, |answer| {
                            let mut all = malformed(answer);
                            let (what, bytes) = all.swap_remove(((number - firsts) * step).min(all.len() - 1));
                            name = format!("client-final: {what}");
                            response(&bytes)
                        }),
                    };
                    logged_in.fetch_add(usize::from(outcome == Ok(true)), Ordering::Relaxed);
                    assert_eq!(outcome, Ok(false), "{name}");
                }
            });
        }
    });
    assert_eq!(client_login(&site, initial, response), Ok(true), "the valid one, afterwards");
    report.figure(format!("{count} malformed messages of clients, {} logged in", logged_in.into_inner()));
}

/// A server's side of the exchange. One message has a fault, given by its number in the list of faults.
fn server_case(name: String, step: Step, number: usize) -> Case {
    Case::new(name, move |wire| {
        let mut packet = Vec::new();
        put_back::auth_sasl(&mut packet, &["SCRAM-SHA-256"]);
        if let Step::Offer = step {
            packet = offers().swap_remove(number).1;
        }
        wire.send(&packet)?;
        let (_, body) = wire.read()?;
        let data = body.iter().position(|byte| *byte == 0).and_then(|end| body.get(end + 5..)).unwrap_or_default();
        let salted = salt_password("y", b"salt of a server", 4096);
        let verifier = ScramVerifier::from_salted(&salted, b"salt of a server".to_vec(), 4096);
        let Ok((state, challenge)) = ScramServer::new(NONCE).first(data, verifier, false) else { return Ok(()) };
        let spoil = |message: &[u8], now: bool| {
            if now { malformed(message).swap_remove(number).1 } else { message.to_vec() }
        };
        let mut packet = Vec::new();
        put_back::auth_sasl_continue(&mut packet, &spoil(&challenge, matches!(step, Step::First)));
        wire.send(&packet)?;
        let (_, body) = wire.read()?;
        // A client that received another message sends another answer; the server's last message is then the best
        // possible.
        let last = state.finish(&body).map_or_else(|_| b"v=AAAA".to_vec(), |(_, last)| last);
        let mut packet = Vec::new();
        if !matches!(step, Step::NoLast) {
            put_back::auth_sasl_final(&mut packet, &spoil(&last, matches!(step, Step::Last)));
        }
        packet.extend_from_slice(&welcome());
        wire.send(&packet)?;
        answer_all(wire)
    })
}

fn answer_all(wire: &mut crate::servers::Wire) -> std::io::Result<()> {
    loop {
        let (tag, _) = wire.read()?;
        let mut answer = Vec::new();
        match tag {
            tag::front::QUERY => {
                put_back::command_complete(&mut answer, "SELECT 0");
                put_back::ready(&mut answer, b'I');
            }
            tag::front::PARSE => put_back::parse_complete(&mut answer),
            tag::front::BIND => put_back::bind_complete(&mut answer),
            tag::front::DESCRIBE => put_back::no_data(&mut answer),
            tag::front::EXECUTE => put_back::command_complete(&mut answer, "SELECT 0"),
            tag::front::SYNC => put_back::ready(&mut answer, b'I'),
            _ => return Ok(()),
        }
        wire.send(&answer)?;
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Nothing,
    Offer,
    First,
    Last,
    /// The server sends AuthenticationOk without any proof.
    NoLast,
}

/// Offers of invalid mechanisms.
fn offers() -> Vec<(String, Vec<u8>)> {
    let mut whole = Vec::new();
    put_back::auth_sasl(&mut whole, &["SCRAM-SHA-256"]);
    let frame = |body: &[u8]| [b"R", &(body.len() as u32 + 4).to_be_bytes()[..], body].concat();
    let body = &whole[weir_pgwire::HEAD..];
    // Without the last byte, the end of the list, some implementations still understand it.
    let mut all: Vec<_> =
        (0..body.len() - 1).map(|end| (format!("an offer cut to {end} bytes"), frame(&body[..end]))).collect();
    for names in [&[][..], &[""], &["SCRAM-SHA-1"], &["SCRAM-SHA-256-PLUS"], &["PLAIN", "LOGIN"]] {
        let mut packet = Vec::new();
        put_back::auth_sasl(&mut packet, names);
        all.push((format!("an offer of {names:?}"), packet));
    }
    all
}

/// Each message of a server in the exchange, with each possible fault, one at a time: the offer, the challenge, the
/// final message. The login fails with an error for the waiting client, unless the fault is outside the signed part; a
/// server that skips its proof is not accepted. The valid exchange is among them.
#[test]
fn a_malformed_scram_message_of_a_server_fails_its_login() {
    let report = Report::begin();
    let mut cases = vec![
        server_case("valid".into(), Step::Nothing, 0),
        server_case("a server that skips its proof".into(), Step::NoLast, 0),
    ];
    for (number, (name, _)) in offers().into_iter().enumerate() {
        cases.push(server_case(name, Step::Offer, number));
    }
    // The possible faults depend only on the message's form, which is the same in each exchange.
    let (_, first) = ScramClient::start(NONCE);
    let salted = salt_password("y", b"salt of a server", 4096);
    let verifier = ScramVerifier::from_salted(&salted, b"salt of a server".to_vec(), 4096);
    let (_, challenge) = ScramServer::new(NONCE).first(&first, verifier, false).expect("our own first message");
    let verdict = format!("v={}=", "A".repeat(43));
    for (step, form) in [(Step::First, challenge.as_slice()), (Step::Last, verdict.as_bytes())] {
        // Where bytes differ from exchange to exchange, a fault may change nothing; the count is the same.
        let certain = malformed(form).len().saturating_sub(12);
        for number in (0..certain).step_by(size(3, 1)) {
            cases.push(server_case(format!("{step:?} {number}: {}", malformed(form)[number].0), step, number));
        }
    }
    let count = run(cases, |name, transcript| {
        let welcome = transcript.iter().filter(|line| line.starts_with("Ready")).count() == 3;
        let failed = transcript.iter().any(|line| line.starts_with("Error"));
        match name {
            "valid" if !welcome => Err("the login should succeed".into()),
            "valid" => Ok(()),
            _ if welcome => Err("the server is accepted".into()),
            _ if !failed => Err("no error is sent".into()),
            _ => Ok(()),
        }
    });
    report.figure(format!("{count} malformed messages of servers, none accepted"));
}
