//! Messages that are not laid out as their kind: Weir answers, goes on or closes as PostgreSQL does.

use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection, Error};
use weir_pgwire::{HEAD, Head};
use weir_tests::{Batch, Rng, Site, line_of};

/// The end of each conversation that goes on.
const ALIVE: &str = "Row alive";

/// Everything that is received, up to the answer to a last query. Where the connection ends, only how: how much a
/// server has sent by then is a matter of its buffers.
fn received(client: &mut Connection) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        match client.read_frame(Duration::from_secs(30)) {
            Ok(frame) => lines.push(line_of(&frame)),
            Err(Error::Timeout) => panic!("neither answered nor closed: {lines:?}"),
            Err(_) => {
                let refused = lines.last().is_some_and(|line| line.starts_with("Error 08P01"));
                return vec![if refused { "Error 08P01, closed" } else { "closed" }.to_owned()];
            }
        }
        if lines.iter().any(|line| line == ALIVE) && lines.last().is_some_and(|line| line.starts_with("Ready")) {
            return lines;
        }
    }
}

/// The messages that are changed.
fn messages() -> Vec<Vec<u8>> {
    [
        Batch::new().query("SELECT 'a'"),
        Batch::new().parse("s", "SELECT $1::int"),
        Batch::new().parse("", "SELECT 2"),
        Batch::new().parse_typed("t", "SELECT $1", &[23]),
        Batch::new().bind("", "known", &["1"]),
        Batch::new().describe_statement("known"),
        Batch::new().describe_portal(""),
        Batch::new().execute("", 0),
        Batch::new().close_statement("known"),
        Batch::new().close_portal(""),
        Batch::new().flush(),
        Batch::new().sync(),
        Batch::new().function(1598, &[]),
    ]
    .iter()
    .map(|batch| batch.bytes().to_vec())
    .collect()
}

/// A message with this body, whatever its layout.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Changes a message so that its length still fits, or is impossible.
fn changed(original: &[u8], rng: &mut Rng) -> Vec<u8> {
    let head = Head::parse(original).expect("it is a message").expect("it is whole");
    let mut body = original[HEAD..].to_vec();
    match rng.below(8) {
        0 | 1 => body.truncate(rng.below(body.len() + 1)),
        2 => body.extend([0, 1, b'x'].iter().take(1 + rng.below(3))),
        3 if !body.is_empty() => body[0] = *b"XsQ\xff".get(rng.below(4)).expect("one of them"),
        4 => body.retain(|byte| *byte != 0),
        5 => return [&[head.tag][..], &(rng.below(4) as u32).to_be_bytes(), &body].concat(),
        6 => return message(*b"!Zz\0y".get(rng.below(5)).expect("one of them"), &body),
        _ if !body.is_empty() => {
            let at = rng.below(body.len());
            body[at] = if body[at] == 0 { 1 } else { 0 };
        }
        _ => body.push(0),
    }
    message(head.tag, &body)
}

fn play(params: &ConnectParams, changed: &[u8]) -> Vec<String> {
    let mut client = Connection::connect(params).unwrap();
    let batch = Batch::new().parse("known", "SELECT $1::int").bind("", "known", &["7"]).raw(changed);
    let batch = batch.sync().query("SELECT 'alive'");
    // The client may be disconnected before it has sent everything.
    let _ = client.send_bytes(batch.bytes());
    received(&mut client)
}

#[test]
fn malformed_messages_are_answered_as_by_postgresql() {
    let (direct, pools) = (Site::direct(), [Site::transaction(1), Site::session(2)]);
    let mut rng = Rng::new(20_261_127);
    for _ in 0..8 {
        for original in messages() {
            let changed = changed(&original, &mut rng);
            let expected = play(&direct.params(), &changed);
            for pool in &pools {
                let seen = play(&pool.params(), &changed);
                assert_eq!(seen, expected, "{} in {:?} mode", changed.escape_ascii(), pool.mode());
            }
        }
    }
}

#[test]
fn a_first_packet_that_is_none_is_closed_without_an_answer() {
    let terminate = Batch::new().terminate();
    let cancel = [&13u32.to_be_bytes()[..], &80_877_102u32.to_be_bytes(), &[0; 5]].concat();
    let sites = [Site::direct(), Site::transaction(1)];
    for first in [b"GET / HTTP/1.1\r\n\r\n", terminate.bytes(), &[0; 8][..], &[0, 0, 0, 4, 0, 0, 0, 0], &cancel] {
        let answers = sites.each_ref().map(|site| {
            let mut client = Connection::open(&site.params()).unwrap();
            client.send_bytes(first).unwrap();
            client.read_bytes(Duration::from_secs(30)).map_err(|error| matches!(error, Error::Timeout))
        });
        assert_eq!(answers, [Err(false), Err(false)], "{}", first.escape_ascii());
    }
}
