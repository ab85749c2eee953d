//! Servers that break the protocol, in every place: their client gets an error, no client hangs, and Weir continues.

use weir_pgwire::{put_back, tag};
use weir_tests::{Ini, PgBouncer, Postgres, users};

use crate::report::{Report, size};
use crate::servers::{Case, read_replies, run, serve, welcome};

/// One message of every kind that a server sends, well-formed.
fn kinds() -> Vec<(&'static str, Vec<u8>)> {
    fn made(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes);
        bytes
    }
    let error = error(&[(b'S', "ERROR"), (b'V', "ERROR"), (b'C', "22012"), (b'M', "division")]);
    let mut notice = error.clone();
    notice[0] = tag::back::NOTICE;
    let column = raw(tag::back::ROW_DESCRIPTION, b"\0\x01a\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0");
    vec![
        ("AuthenticationOk", made(put_back::auth_ok)),
        ("AuthenticationCleartextPassword", made(put_back::auth_cleartext)),
        ("AuthenticationMD5Password", made(|b| put_back::auth_md5(b, [1, 2, 3, 4]))),
        ("AuthenticationSASL", made(|b| put_back::auth_sasl(b, &["SCRAM-SHA-256"]))),
        ("AuthenticationSASLContinue", made(|b| put_back::auth_sasl_continue(b, b"r=x,s=eA==,i=1"))),
        ("AuthenticationSASLFinal", made(|b| put_back::auth_sasl_final(b, b"v=eA=="))),
        ("AuthenticationGSS", made(|b| put_back::auth(b, 7, b""))),
        ("ParameterStatus", made(|b| put_back::parameter_status(b, "TimeZone", "UTC"))),
        ("BackendKeyData", made(|b| put_back::backend_key_data(b, 7, &[1, 2, 3, 4]))),
        ("ReadyForQuery", made(|b| put_back::ready(b, b'I'))),
        ("RowDescription", column),
        ("DataRow", made(|b| put_back::data_row(b, &[Some(b"1"), None]))),
        ("CommandComplete", made(|b| put_back::command_complete(b, "SELECT 1"))),
        ("EmptyQueryResponse", made(put_back::empty_query)),
        ("ErrorResponse", error),
        ("NoticeResponse", notice),
        ("NotificationResponse", made(|b| put_back::notification(b, 7, "channel", "payload"))),
        ("ParseComplete", made(put_back::parse_complete)),
        ("BindComplete", made(put_back::bind_complete)),
        ("CloseComplete", made(put_back::close_complete)),
        ("ParameterDescription", made(|b| put_back::parameter_description(b, &[23]))),
        ("NoData", made(put_back::no_data)),
        ("PortalSuspended", made(put_back::portal_suspended)),
        ("CopyInResponse", made(|b| put_back::copy_in(b, 1))),
        ("CopyOutResponse", made(|b| put_back::copy_out(b, 1))),
        ("CopyBothResponse", made(|b| put_back::copy_both(b, 1))),
        ("CopyData", made(|b| put_back::copy_data(b, b"1\n"))),
        ("CopyDone", made(put_back::copy_done)),
        ("FunctionCallResponse", made(|b| put_back::function_result(b, Some(b"1")))),
        ("NegotiateProtocolVersion", made(|b| put_back::negotiate(b, 0, &[b"_pq_.x"]))),
        ("an unknown message", raw(b'y', b"what")),
    ]
}

fn raw(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// ErrorResponse with these fields, in their order.
fn error(fields: &[(u8, &str)]) -> Vec<u8> {
    let mut body: Vec<u8> =
        fields.iter().flat_map(|(code, text)| [&[*code][..], text.as_bytes(), b"\0"].concat()).collect();
    body.push(0);
    raw(tag::back::ERROR, &body)
}

/// A message with each wrong length, and cut after each byte of its body with a matching length.
fn malformed(name: &str, message: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (tag, body) = (message[0], &message[weir_pgwire::HEAD..]);
    let right = body.len() as u32 + 4;
    let mut all = Vec::new();
    let lengths = [0, 1, 2, 3, right - 1, right + 1, right + 100, 0x3fff_ffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    for length in lengths {
        let bytes = [&[tag][..], &length.to_be_bytes(), body].concat();
        all.push((format!("{name} with length {length} instead of {right}"), bytes));
    }
    for end in 0..body.len() {
        all.push((format!("{name} cut to {end} of {} bytes", body.len()), raw(tag, &body[..end])));
    }
    // A count, a type or a state of all ones or zeros, at each position.
    for at in 0..body.len() {
        for byte in [0, 0xff] {
            let mut body = body.to_vec();
            body[at] = byte;
            all.push((format!("{name} with {byte:#x} at {at}"), raw(tag, &body)));
        }
    }
    all
}

/// When the server sends the message.
#[derive(Clone, Copy, Debug)]
enum When {
    /// Instead of the first answer to the login.
    Login,
    /// Between AuthenticationOk and the end of the login.
    Welcome,
    /// Instead of a query's answer, followed by ReadyForQuery.
    Answer,
    /// After a query's answer, without a request.
    Idle,
    /// In the middle of a query's rows.
    Rows,
}

const PLACES: [When; 5] = [When::Login, When::Welcome, When::Answer, When::Idle, When::Rows];

/// A server that sends this message in this place, and is an ordinary one otherwise.
fn case(name: &str, place: When, message: Vec<u8>) -> Case {
    Case::new(format!("{place:?}: {name}"), move |wire| {
        let mut ready = Vec::new();
        put_back::ready(&mut ready, b'I');
        match place {
            When::Login => {
                wire.send(&message)?;
                return wire.wait_for_end();
            }
            When::Welcome => {
                let whole = welcome();
                let (first, rest) = whole.split_at(9);
                wire.send(&[first, &message, rest].concat())?;
            }
            When::Answer | When::Idle | When::Rows => wire.send(&welcome())?,
        }
        loop {
            let (tag, _) = wire.read()?;
            let mut answer = Vec::new();
            match tag {
                tag::front::QUERY => {
                    put_back::command_complete(&mut answer, "SELECT 0");
                }
                tag::front::PARSE => put_back::parse_complete(&mut answer),
                tag::front::BIND => put_back::bind_complete(&mut answer),
                tag::front::DESCRIBE => put_back::no_data(&mut answer),
                tag::front::EXECUTE => put_back::command_complete(&mut answer, "SELECT 0"),
                tag::front::TERMINATE => return Ok(()),
                _ => {}
            }
            if matches!(tag, tag::front::QUERY | tag::front::SYNC) {
                match place {
                    When::Answer => answer.clone_from(&message),
                    When::Rows => answer = [answer, message.clone()].concat(),
                    _ => {}
                }
                answer.extend_from_slice(&ready);
                if let When::Idle = place {
                    answer.extend_from_slice(&message);
                }
            }
            wire.send(&answer)?;
        }
    })
}

/// Each client gets an end: all its answers, an error, or a closed connection, but never silence.
fn has_an_end(_: &str, transcript: &[String]) -> Result<(), String> {
    match transcript.last().map(String::as_str) {
        Some("Silence") => Err("the client hangs".into()),
        None => Err("no reply".into()),
        Some("Closed") if !transcript.iter().any(|line| line.starts_with("Error")) => {
            Err("closed without an error".into())
        }
        _ => Ok(()),
    }
}

/// Every message that a server can send, with every wrong length, cut at every byte, and with each byte of its body all
/// zeros and all ones, in five places. In each case the client gets an answer or an error in time, other clients are
/// served, and the process neither exits nor panics.
#[test]
fn a_server_that_breaks_the_protocol_harms_its_own_client_only() {
    let report = Report::begin();
    let mut cases = Vec::new();
    for (name, message) in kinds() {
        for place in PLACES {
            cases.push(case(name, place, message.clone()));
            for (number, (name, message)) in malformed(name, &message).into_iter().enumerate() {
                // The default run takes a share of them that differs by place; the full run takes all.
                if size((number + place as usize).is_multiple_of(6), true) {
                    cases.push(case(&name, place, message));
                }
            }
        }
    }
    let count = run(cases, has_an_end);
    report.figure(format!("{count} hostile servers, no hang, no crash"));
}

/// Every combination of error fields: none, without SQLSTATE, without a message, twice, out of order, empty, unknown.
fn errors() -> Vec<(String, Vec<u8>)> {
    let whole =
        [(b'S', "FATAL"), (b'V', "FATAL"), (b'C', "57P03"), (b'M', "not now"), (b'D', "detail"), (b'R', "routine")];
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    for set in 0..1_u32 << whole.len() {
        let fields: Vec<_> = (0..whole.len()).filter(|at| set & 1 << at != 0).map(|at| whole[at]).collect();
        let letters: String = fields.iter().map(|(code, _)| char::from(*code)).collect();
        all.push((format!("an error with the fields {letters:?}"), error(&fields)));
    }
    for (name, fields) in [
        ("an empty SQLSTATE", vec![(b'S', "ERROR"), (b'C', ""), (b'M', "m")]),
        ("a short SQLSTATE", vec![(b'S', "ERROR"), (b'C', "5"), (b'M', "m")]),
        ("a long SQLSTATE", vec![(b'S', "ERROR"), (b'C', "57P0357P03"), (b'M', "m")]),
        ("SQLSTATE twice", vec![(b'S', "ERROR"), (b'C', "57P03"), (b'C', "08006"), (b'M', "m")]),
        ("an unknown severity", vec![(b'S', "WOE"), (b'V', "WOE"), (b'C', "57P03"), (b'M', "m")]),
        ("fields back to front", vec![(b'M', "m"), (b'C', "57P03"), (b'S', "ERROR")]),
        ("unknown fields", vec![(b'S', "ERROR"), (b'z', "?"), (0xff, "?"), (b'C', "57P03"), (b'M', "m")]),
    ] {
        all.push((name.to_owned(), error(&fields)));
    }
    all.push(("an error without its end".into(), raw(tag::back::ERROR, b"SERROR\0C57P03\0Mm\0")));
    all.push(("an error that is not text".into(), error(&[(b'S', "ERROR"), (b'C', "57P03")])));
    all
}

/// An error lacks its SQLSTATE, or any other of its fields, in every combination, in each place. The client gets an
/// error with all fields that a client needs.
#[test]
fn a_servers_error_without_sqlstate_is_still_reported() {
    let report = Report::begin();
    let cases = errors().into_iter().flat_map(|(name, message)| {
        let places = [When::Login, When::Welcome, When::Answer, When::Idle, When::Rows];
        places.map(|place| case(&name, place, message.clone()))
    });
    let count = run(cases.collect(), |name, transcript| {
        has_an_end(name, transcript)?;
        // A message that can't be parsed is passed on as it is.
        let read_replies = transcript.iter().any(|line| line.starts_with("Error") || line.starts_with("'E'"));
        // No client is waiting for what an idle server sends.
        if read_replies || name.starts_with("Idle") { Ok(()) } else { Err("no error was sent".into()) }
    });
    report.figure(format!("{count} servers, each reported as an error"));
}

/// Errors that lack their SQLSTATE or other fields, at PgBouncer 1.18, in each place, until it exits. The result is
/// only a figure.
#[test]
fn what_pgbouncer_1_18_makes_of_an_error_without_its_sqlstate() {
    let report = Report::begin();
    let cases: Vec<_> = errors()
        .into_iter()
        .flat_map(|(name, message)| PLACES.map(|place| case(&name, place, message.clone())))
        .collect();
    let (port, cases) = serve(cases);
    let words = format!("host=127.0.0.1 port={port} user=x password=y");
    let ini = (0..cases.len()).fold(Ini::transaction(1).set("query_wait_timeout", 1), |ini, number| {
        ini.database(&format!("case{number}"), &format!("{words} dbname=case{number}"))
    });
    let ini = ini.set("auth_type", "trust").set("server_login_retry", 1).set("query_timeout", 1);
    let Some(pgbouncer) = PgBouncer::start(&ini, &Postgres::shared().database()) else { return };
    let mut ended = None;
    for (number, case) in cases.iter().enumerate().step_by(size(3, 1)) {
        let _ = read_replies(&pgbouncer.named(users::APP.name, &format!("case{number}")));
        if let Some(status) = pgbouncer.ended() {
            ended = Some(format!("ends ({status}) after {:?}", case.name));
            break;
        }
    }
    report.figure(format!("PgBouncer 1.18 {}", ended.as_deref().unwrap_or("survives them")));
}
