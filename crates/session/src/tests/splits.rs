//! A cut changes nothing: wherever the bytes of both sides are split, both sides get the same bytes, and the state ends
//! the same. And no bytes make a session panic.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use weir_base::PoolMode;
use weir_pgwire::HEAD;

use super::rig::*;
use crate::StopReason;

/// As much of a server as answers need: it skips after errors, copies, and has a transaction.
#[derive(Default)]
struct Backend {
    skipping: bool,
    /// ParseEnvironment COPY data, for Execute or for a simple query.
    copying: Option<u8>,
    failed: bool,
    open: bool,
    statements: Vec<Vec<u8>>,
}

impl Backend {
    fn answer(&mut self, sent: &[u8]) -> Vec<u8> {
        each(sent).iter().flat_map(|message| self.message(message)).collect()
    }

    fn ready(&mut self) -> Vec<u8> {
        ready_in(if self.failed {
            b'E'
        } else if self.open {
            b'T'
        } else {
            b'I'
        })
    }

    fn fail(&mut self, sqlstate: &str, text: &str, extended: bool) -> Vec<u8> {
        self.failed = self.open;
        self.skipping = extended;
        let error = error(sqlstate, text);
        if extended { error } else { [error, self.ready()].concat() }
    }

    fn message(&mut self, message: &[u8]) -> Vec<u8> {
        if let Some(of) = self.copying {
            return self.copy(message, of);
        }
        if self.skipping && message[0] != b'S' {
            return Vec::new();
        }
        match message[0] {
            b'S' => {
                self.skipping = false;
                self.ready()
            }
            b'P' => self.parse(message),
            b'B' => match names(message).remove(0) {
                name if self.statements.contains(&name) => bound(),
                name => self.fail("26000", &format!("no statement {:?}", String::from_utf8_lossy(&name)), true),
            },
            b'D' => [parameter_types(), row_kind()].concat(),
            b'C' => {
                let name = names(message).remove(0);
                self.statements.retain(|known| *known != name);
                closed()
            }
            b'E' => [row("x"), complete("SELECT 1")].concat(),
            b'F' => [result(), self.ready()].concat(),
            b'Q' => self.query(&message[HEAD..]),
            // Late COPY data, Flush.
            _ => Vec::new(),
        }
    }

    fn copy(&mut self, message: &[u8], of: u8) -> Vec<u8> {
        match message[0] {
            b'd' | b'H' | b'S' => Vec::new(),
            b'c' => {
                self.copying = None;
                let done = complete("COPY 1");
                if of == b'Q' { [done, self.ready()].concat() } else { done }
            }
            _ => {
                self.copying = None;
                self.fail("57014", "COPY failed", of == b'E')
            }
        }
    }

    fn parse(&mut self, message: &[u8]) -> Vec<u8> {
        let name = names(message).remove(0);
        if message.windows(3).any(|w| w == b"bad") {
            return self.fail("42601", "syntax error", true);
        }
        if !name.is_empty() && self.statements.contains(&name) {
            let text = format!("prepared statement \"{}\" already exists", String::from_utf8_lossy(&name));
            return self.fail("42P05", &text, true);
        }
        self.statements.retain(|known| *known != name);
        self.statements.push(name);
        parsed()
    }

    fn query(&mut self, text: &[u8]) -> Vec<u8> {
        self.statements.retain(|known| !known.is_empty());
        let text = String::from_utf8_lossy(text).to_lowercase();
        let tag = match text.split([' ', '\0', ';']).find(|word| !word.is_empty()).unwrap_or_default() {
            "bad" => return self.fail("42601", "syntax error", false),
            "copy" => {
                self.copying = Some(b'Q');
                return copy_in();
            }
            "begin" => {
                self.open = true;
                "BEGIN"
            }
            "rollback" => {
                (self.open, self.failed) = (false, false);
                "ROLLBACK"
            }
            "discard" => {
                self.statements.clear();
                "DISCARD ALL"
            }
            "deallocate" => return self.fail("26000", "no such statement", false),
            "set" => return [complete("SET"), parameter("TimeZone", "Asia/Tokyo"), self.ready()].concat(),
            _ => "SELECT 1",
        };
        [row("x"), complete(tag), self.ready()].concat()
    }
}

fn result() -> Vec<u8> {
    let mut result = Vec::new();
    weir_pgwire::put_back::function_result(&mut result, Some(b"7"));
    result
}

/// What both ends were sent, and the state at the end.
#[derive(PartialEq, Eq, Debug)]
struct Outcome {
    client: Vec<u8>,
    server: Vec<u8>,
    statements: Vec<(Vec<u8>, Vec<u8>)>,
    client_state: String,
    server_state: String,
    counts: crate::StatementMessageCounts,
    refused: Option<String>,
}

/// Pieces of `bytes`, cut after as many as `cuts` say, around and around.
fn pieces<'b>(mut bytes: &'b [u8], cuts: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    let mut sizes = cuts.iter().cycle();
    while !bytes.is_empty() {
        let size = sizes.next().map_or(bytes.len(), |size| (*size).min(bytes.len()));
        let (piece, rest) = bytes.split_at(size);
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// A conversation: the client sends each batch, and then the server answers.
fn converse(mode: PoolMode, batches: &[Vec<Vec<u8>>], cuts: &[usize]) -> Outcome {
    let mut link = Link::new(mode);
    link.rules.max_prepared = 2;
    let mut backend = Backend::default();
    let (mut client, mut server, mut refused) = (Vec::new(), Vec::new(), None);
    'all: for batch in batches {
        for piece in pieces(&batch.concat(), cuts) {
            let mut at = 0;
            loop {
                let fed = link.feed_client(&piece[at..]);
                at += fed.used;
                match fed.stop {
                    StopReason::EndOfInput => break,
                    StopReason::AwaitReplies(_) => {
                        assert!(link.server().is_busy(), "a wait for nothing");
                        exchange(&mut link, &mut backend, &mut client, &mut server, cuts);
                    }
                    stop => {
                        refused = Some(format!("{stop:?}"));
                        break 'all;
                    }
                }
            }
        }
        exchange(&mut link, &mut backend, &mut client, &mut server, cuts);
    }
    client.append(&mut link.to_client);
    server.append(&mut link.to_server);
    let mut statements: Vec<(Vec<u8>, Vec<u8>)> = link
        .client
        .statements
        .iter()
        .flat_map(|s| s.iter())
        .map(|(name, statement)| (name.to_vec(), statement.statement.rest().to_vec()))
        .collect();
    statements.sort();
    link.client.statements = None;
    Outcome {
        client,
        server,
        statements,
        client_state: format!("{:?}", link.client),
        server_state: format!("{:?}", link.server),
        counts: link.counts.clone(),
        refused,
    }
}

/// The server answers what it was sent, as far as it is whole.
fn exchange(link: &mut Link, backend: &mut Backend, client: &mut Vec<u8>, server: &mut Vec<u8>, cuts: &[usize]) {
    let sent = std::mem::take(&mut link.to_server);
    let answers = backend.answer(&sent);
    server.extend_from_slice(&sent);
    for piece in pieces(&answers, cuts) {
        link.feed_server(piece, true).expect("every answer was requested");
    }
    client.append(&mut link.to_client);
}

fn long(text: &str, spaces: usize) -> String {
    format!("{text}{}", " ".repeat(spaces))
}

fn request() -> impl Strategy<Value = Vec<u8>> {
    let name = || select(vec!["", "a", "b", "c", "a name of some length"]);
    let text = || select(vec!["select 1", "select 2", "select 3", "bad", "deallocate a", "deallocate all"]);
    let simple = select(vec![
        "select 1",
        "bad",
        "begin",
        "rollback",
        "deallocate a",
        "DEALLOCATE \"b\"",
        "deallocate all",
        "discard all",
        "set timezone = 'Asia/Tokyo'",
        "set local a = 1",
        "create temp table t (a int)",
        "",
    ]);
    prop_oneof![
        4 => (simple, select(vec![0usize, 0, 0, 480, 600])).prop_map(|(text, spaces)| query(&long(text, spaces))),
        6 => (name(), text()).prop_map(|(name, text)| parse(name, text)),
        6 => name().prop_map(bind),
        3 => name().prop_map(describe),
        3 => name().prop_map(close),
        4 => Just(execute()),
        6 => Just(sync()),
        1 => Just(flush()),
        1 => Just(function_call()),
        1 => vec(any::<u8>(), 0..30).prop_map(|data| copy_data(&data)),
        1 => Just(copy_done()),
        1 => Just([query("copy t from stdin"), copy_data(b"1\n2\n"), copy_data(&[7; 600]), copy_done()].concat()),
    ]
}

fn conversation() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    let batch = vec(request(), 1..8).prop_map(|mut batch| {
        batch.push(sync());
        batch
    });
    vec(batch, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_cut_changes_nothing(batches in conversation(), cuts in vec(1usize..40, 1..6)) {
        for mode in [PoolMode::Transaction, PoolMode::Session] {
            let whole = converse(mode, &batches, &[]);
            prop_assert_eq!(&converse(mode, &batches, &cuts), &whole);
            prop_assert_eq!(&converse(mode, &batches, &[1]), &whole);
        }
    }

    #[test]
    fn no_bytes_of_a_client_make_a_session_panic(pieces in vec(vec(any::<u8>(), 0..60), 0..8), framed in any::<bool>()) {
        for mode in [PoolMode::Transaction, PoolMode::Session] {
            let mut link = Link::new(mode);
            for piece in &pieces {
                let input = if framed { frame(piece, b"QPBDECSHFdcfX") } else { piece.clone() };
                if link.feed_client(&input).stop != StopReason::EndOfInput {
                    break;
                }
            }
        }
    }

    #[test]
    fn no_bytes_of_a_server_make_a_session_panic(
        asked in vec(request(), 0..8),
        pieces in vec(vec(any::<u8>(), 0..60), 0..12),
        framed in any::<bool>(),
        linked in any::<bool>(),
    ) {
        let mut link = Link::transaction();
        for asked in asked {
            link.feed_client(&asked);
        }
        for piece in &pieces {
            let input = if framed { frame(piece, b"Z12C3DEnTtGHdcSNAIVs") } else { piece.clone() };
            if link.feed_server(&input, linked).is_err() {
                break;
            }
        }
        link.feed_client(&[query("select 1"), parse("s", "select 1"), sync()].concat());
    }
}

/// A message of one of these tags with the rest of the bytes as its body.
fn frame(bytes: &[u8], tags: &[u8]) -> Vec<u8> {
    let Some((tag, body)) = bytes.split_first() else { return Vec::new() };
    let mut message = Vec::new();
    weir_pgwire::put_back::raw(&mut message, tags[usize::from(*tag) % tags.len()], body);
    message
}
