//! A whole session: two clients and two servers, linked and parted as an engine would. The fuzzer makes and cuts the
//! bytes on both sides.
//!
//! What must hold for every input: no panic; both ends receive only whole messages; no client receives an unexpected
//! reply; no row arrives twice or at a client that is not linked; a server is proven clean only if [`Contract`], a
//! reading of the protocol that is independent of the session, has no pending reply.

use std::ops::Range;
use std::sync::Arc;

use weir_base::{OnDirty, PoolMode};
use weir_session::from_server::{self, ServerOutcome};
use weir_session::{
    CancelKey, Client, MessagePolicy, Out, OwnContext, PoolRules, Server, SimpleQueries, StatePolicy, StopReason,
    from_client, param_sync,
};

use crate::backend::Backend;
use crate::contract::{Contract, Stream, is_readable};
use crate::requests::{any_message, request};
use crate::tape::{Tape, pieces};

/// The tags that a client may send, and some that it may not.
const FRONT_TAGS: &[u8] = b"QPBDECSHFdcfXpz";
/// The tags that a server may send, and some that it may not.
const BACK_TAGS: &[u8] = b"Z12C3DEnTtGHdcSNAIVsWRKvz";

/// What the session itself may send where a server says something.
const SYNC: &[u8] = b"S\0\0\0\x04";

/// What the sessions of a worker share, with limits that are soon reached.
pub(crate) fn shared(max_prepared: usize) -> OwnContext {
    let mut shared = OwnContext::new(1 << 16);
    shared.statements.set_limit(1 << 14);
    OwnContext {
        rules: PoolRules {
            max_prepared,
            client_statements: 3,
            client_memory: 1 << 13,
            state: StatePolicy {
                warn: true,
                on_dirty: if max_prepared % 3 == 2 { OnDirty::Refuse } else { OnDirty::Reset },
                ..StatePolicy::default()
            },
            shares_listen: false,
        },
        messages: MessagePolicy { longest: 1 << 20, simple: SimpleQueries::Allowed },
        max_pending_segments: 2,
        ..shared
    }
}

/// What was written to both ends in one step.
#[derive(Default)]
struct Written {
    client: Vec<u8>,
    server: Vec<u8>,
}

struct Recorder<'a> {
    input: &'a [u8],
    written: &'a mut Written,
}

impl Out for Recorder<'_> {
    fn client_range(&mut self, range: Range<usize>) {
        self.written.client.extend_from_slice(&self.input[range]);
    }
    fn client(&mut self, bytes: &[u8]) {
        self.written.client.extend_from_slice(bytes);
    }
    fn server_range(&mut self, range: Range<usize>) {
        self.written.server.extend_from_slice(&self.input[range]);
    }
    fn server(&mut self, bytes: &[u8]) {
        self.written.server.extend_from_slice(bytes);
    }
}

struct ClientEnd {
    client: Client,
    link: Option<usize>,
    gone: bool,
    /// Written by the client, but not yet offered or not yet taken.
    waiting: Vec<u8>,
    /// How many of these bytes were taken before.
    repeated: usize,
    taken: Stream,
    contract: Contract,
    received: Stream,
}

struct ServerEnd {
    server: Server,
    link: Option<usize>,
    gone: bool,
    backend: Backend,
    /// Sent by the server, but not yet delivered.
    waiting: Vec<u8>,
    sent: Stream,
    /// The server messages that the session has seen.
    contract: Contract,
    /// Rows that the server has sent since it was linked. Its client may receive each once.
    rows: Vec<Vec<u8>>,
}

struct World<'a> {
    tape: Tape<'a>,
    shared: OwnContext,
    clients: Vec<ClientEnd>,
    servers: Vec<ServerEnd>,
}

/// Runs the steps of the tape.
pub(crate) fn whole_session(data: &[u8]) {
    let mut tape = Tape::new(data);
    let mode = tape.one(&[PoolMode::Transaction, PoolMode::Session, PoolMode::Transaction, PoolMode::Statement]);
    let mut world = World::new(mode, tape.one(&[100, 1, 0, 2]), tape);
    let mut steps = 0;
    while !world.tape.is_over() && steps < 600 {
        steps += 1;
        world.step();
        world.check();
    }
}

impl<'a> World<'a> {
    fn new(mode: PoolMode, max_prepared: usize, tape: Tape<'a>) -> Self {
        let shared = shared(max_prepared);
        let params = Arc::new(shared.params.unknown());
        let client = |id| ClientEnd {
            client: Client::new(id, mode, params.clone()),
            link: None,
            gone: false,
            waiting: Vec::new(),
            repeated: 0,
            taken: Stream::default(),
            contract: Contract::default(),
            received: Stream::default(),
        };
        let server = || ServerEnd {
            server: Server::new(params.clone(), CancelKey::default()),
            link: None,
            gone: false,
            backend: Backend::default(),
            waiting: Vec::new(),
            sent: Stream::default(),
            contract: Contract::default(),
            rows: Vec::new(),
        };
        World { tape, shared, clients: vec![client(1), client(2)], servers: vec![server(), server()] }
    }

    fn step(&mut self) {
        let kind = self.tape.byte();
        let (index, kind) = (usize::from(kind & 1), kind >> 1);
        match kind % 12 {
            0..=2 => request(&mut self.tape, "", &mut self.clients[index].waiting),
            3 => any_message(&mut self.tape, FRONT_TAGS, &mut self.clients[index].waiting),
            4 => {
                let raw = self.tape.some();
                self.clients[index].waiting.extend_from_slice(raw);
            }
            5 => {
                let size = usize::from(self.tape.byte());
                self.client_sends(index, size);
            }
            6 => self.client_sends(index, usize::MAX),
            7 => self.server_answers(index),
            8 => {
                let server = &mut self.servers[index];
                any_message(&mut self.tape, BACK_TAGS, &mut server.waiting);
            }
            9 => {
                let size = usize::from(self.tape.byte());
                self.server_sends(index, size);
            }
            10 => {
                (0..4).for_each(|_| self.server_answers(index));
                self.server_sends(index, usize::MAX);
            }
            _ => self.release(index),
        }
    }

    /// A modelled server sends a message that it may send.
    fn server_answers(&mut self, index: usize) {
        let server = &mut self.servers[index];
        if !server.gone {
            let sent = server.backend.answer(&mut self.tape);
            server.waiting.extend_from_slice(&sent);
        }
    }

    /// Delivers up to `size` bytes of what a client wrote.
    fn client_sends(&mut self, index: usize, size: usize) {
        if self.clients[index].gone {
            return;
        }
        let size = size.min(self.clients[index].waiting.len());
        let mut piece: Vec<u8> = self.clients[index].waiting.drain(..size).collect();
        loop {
            let (used, stop, written) = self.feed_client(index, &piece);
            assert!(used <= piece.len());
            take(&mut self.clients[index], &piece[..used]);
            self.pass_on(index, written);
            piece.drain(..used);
            match stop {
                StopReason::EndOfInput => {
                    break assert!(piece.is_empty(), "not all bytes were taken, and the session does not wait");
                }
                StopReason::TurnOver => {}
                StopReason::NeedServer if self.link(index) => {}
                StopReason::NeedServer => break,
                StopReason::OtherServer => {
                    assert!(self.linked(index).is_some_and(|s| self.servers[s].server.is_quiet()));
                    self.clients[index].client.stay_without_values();
                }
                StopReason::AwaitReplies(_) => {
                    break assert!(self.linked(index).is_some_and(|s| self.servers[s].server.is_busy()));
                }
                StopReason::Terminate | StopReason::Refuse(_) => return self.part(index),
            }
        }
        self.clients[index].waiting.splice(..0, piece);
    }

    fn feed_client(&mut self, index: usize, piece: &[u8]) -> (usize, StopReason, Written) {
        let mut written = Written::default();
        let ClientEnd { client, link, .. } = &mut self.clients[index];
        let server = link.map(|s| &mut self.servers[s].server);
        let mut out = Recorder { input: piece, written: &mut written };
        let fed = from_client::feed(client, server, piece, &mut self.shared.context(), &mut out);
        (fed.used, fed.stop, written)
    }

    fn linked(&self, client: usize) -> Option<usize> {
        self.clients[client].link
    }

    /// Delivers what a step wrote to both ends.
    fn pass_on(&mut self, client: usize, written: Written) {
        let link = self.clients[client].link;
        match link {
            Some(server) => self.server_receives(server, &written.server),
            None => assert!(written.server.is_empty(), "bytes for no server"),
        }
        self.client_receives(client, &written.client);
    }

    fn server_receives(&mut self, server: usize, bytes: &[u8]) {
        let server = &mut self.servers[server];
        server.backend.receive(bytes).into_iter().for_each(|ask| server.contract.ask(ask));
    }

    fn client_receives(&mut self, index: usize, bytes: &[u8]) {
        let client = &mut self.clients[index];
        for message in client.received.push(bytes) {
            let asked = client.contract.reply(message.tag);
            assert!(asked, "a reply that its client did not ask for: {:?}", char::from(message.tag));
            if message.tag == b'D' {
                let server = client.link.expect("a row comes from a server");
                let rows = &mut self.servers[server].rows;
                let at = rows.iter().position(|row| *row == message.body);
                rows.drain(..=at.expect("a row that its server did not send, or that was received already"));
            }
        }
    }

    /// Delivers up to `size` bytes of what a server sent.
    fn server_sends(&mut self, index: usize, size: usize) {
        if self.servers[index].gone {
            return;
        }
        let size = size.min(self.servers[index].waiting.len());
        let piece: Vec<u8> = self.servers[index].waiting.drain(..size).collect();
        let link = self.servers[index].link;
        note_rows(&mut self.servers[index], &piece);
        let mut written = Written::default();
        let mut out = Recorder { input: &piece, written: &mut written };
        let client = link.map(|c| &mut self.clients[c].client);
        let outcome =
            from_server::feed(&mut self.servers[index].server, client, &piece, &mut self.shared.context(), &mut out);
        assert!(written.server.is_empty() || written.server == SYNC, "a server's bytes are not for servers");
        match link {
            Some(client) => self.client_receives(client, &written.client),
            None => assert!(written.client.is_empty(), "bytes for no client"),
        }
        let Some(outcome) = outcome.ok().filter(keeps_link) else { return self.lose(index) };
        let server = &mut self.servers[index];
        for message in server.sent.push(&piece) {
            assert!(server.contract.reply(message.tag), "an unexpected reply {:?}", char::from(message.tag));
        }
        self.server_receives(index, &written.server);
        if let (Some(client), Some(repeat)) = (link, outcome.unusual.and_then(|unusual| unusual.repeat)) {
            self.repeat(client, repeat.messages);
        }
    }

    /// A client's messages are read again. It has asked for their replies already.
    fn repeat(&mut self, index: usize, messages: Vec<u8>) {
        let client = &mut self.clients[index];
        let partly = std::mem::take(&mut client.taken);
        client.repeated = messages.len() - partly.held().len();
        client.waiting.splice(..0, messages);
        self.client_sends(index, usize::MAX);
    }

    /// A client requests a server; `false` if there is none.
    fn link(&mut self, index: usize) -> bool {
        let free = |s: &ServerEnd| !s.gone && s.link.is_none() && s.server.prove_clean().is_some();
        let Some(ix) = self.servers.iter().position(free) else { return false };
        assert!(self.clients[index].link.is_none(), "a client that has a server asks for one");
        let mut written = Written::default();
        let asks = {
            let mut out = Recorder { input: &[], written: &mut written };
            let OwnContext { params, scratch, .. } = &mut self.shared;
            param_sync::start(&mut self.servers[ix].server, &mut self.clients[index].client, params, scratch, &mut out)
        };
        assert!(written.client.is_empty());
        self.server_receives(ix, &written.server);
        if asks && !self.agrees(ix) {
            self.servers[ix].gone = true;
            return false;
        }
        if asks {
            param_sync::finish(&mut self.servers[ix].server, &mut self.clients[index].client, None);
        }
        self.servers[ix].rows.clear();
        self.clients[index].link = Some(ix);
        self.servers[ix].link = Some(index);
        true
    }

    /// A server answers a query of our own: successfully, if its earlier replies allow that.
    fn agrees(&mut self, ix: usize) -> bool {
        self.servers[ix].waiting.clear();
        let mut sent = Vec::new();
        weir_pgwire::put_back::command_complete(&mut sent, "SET");
        weir_pgwire::put_back::ready(&mut sent, b'I');
        let server = &mut self.servers[ix];
        let honest = b"CZ".iter().all(|tag| server.backend.contract.reply(*tag));
        let mut written = Written::default();
        let mut out = Recorder { input: &sent, written: &mut written };
        let outcome = from_server::feed(&mut server.server, None, &sent, &mut self.shared.context(), &mut out);
        assert!(
            written.client.is_empty() && written.server.is_empty(),
            "neither end receives replies to our own query"
        );
        let done =
            outcome.is_ok_and(|outcome| outcome.unusual.is_some_and(|unusual| unusual.own_query_done == Some(Ok(()))));
        done && honest && b"CZ".iter().all(|tag| server.contract.reply(*tag)) && server.server.prove_clean().is_some()
    }

    /// A clean server is released by its client.
    fn release(&mut self, ix: usize) {
        let Some(client) = self.servers[ix].link else { return };
        if self.servers[ix].server.prove_clean().is_none() || self.clients[client].client.is_mid_message() {
            return;
        }
        assert!(self.clients[client].received.is_between(), "a client is left in the middle of a message");
        self.servers[ix].link = None;
        self.clients[client].link = None;
    }

    /// A client has left. Its server stays if it is clean.
    fn part(&mut self, index: usize) {
        self.clients[index].gone = true;
        if let Some(ix) = self.clients[index].link.take() {
            self.servers[ix].link = None;
            let mid = self.clients[index].client.is_mid_message();
            self.servers[ix].gone |= mid || self.servers[ix].server.prove_clean().is_none();
        }
    }

    /// A server is closed, and its client with it.
    fn lose(&mut self, ix: usize) {
        self.servers[ix].gone = true;
        if let Some(client) = self.servers[ix].link.take() {
            self.clients[client].link = None;
            self.clients[client].gone = true;
        }
    }

    fn check(&self) {
        for server in self.servers.iter().filter(|server| !server.gone) {
            if server.server.prove_clean().is_none() {
                continue;
            }
            let pending = server.contract.pending_ready();
            assert_eq!(pending, 0, "proven clean with {pending} pending ReadyForQuery");
            assert!(server.contract.is_fulfilled(), "proven clean, but {:?}", server.contract);
            // If its client has sent part of a message, the session continues, and the server can't be released now.
            let mid = server.link.is_some_and(|client| self.clients[client].client.is_mid_message());
            assert!(server.backend.is_between() || mid, "proven clean in the middle of a message");
        }
    }
}

/// Records what the session took from a client; bytes that are no message close their client.
fn take(client: &mut ClientEnd, bytes: &[u8]) {
    let (repeated, bytes) = bytes.split_at(client.repeated.min(bytes.len()));
    client.repeated -= repeated.len();
    if is_readable(&[client.taken.held(), bytes].concat()) {
        client.taken.push(bytes).into_iter().for_each(|ask| client.contract.ask(ask));
    }
}

/// Records the rows that a piece completes. Rows must be known before they are received, and replies are checked after
/// that; so this function reads ahead in a copy.
fn note_rows(server: &mut ServerEnd, piece: &[u8]) {
    if is_readable(&[server.sent.held(), piece].concat()) {
        let whole = server.sent.clone().push(piece);
        server.rows.extend(whole.into_iter().filter(|m| m.tag == b'D').map(|m| m.body));
    }
}

/// Whether an engine would keep a link after this outcome.
fn keeps_link(outcome: &ServerOutcome) -> bool {
    let Some(unusual) = &outcome.unusual else { return true };
    !unusual.block_in_statement_mode && !unusual.copy_violated && unusual.fatal.is_none()
}

/// Messages of both sides, whole and in pieces: both ends get the same bytes, and the sessions end in the same state.
pub(crate) fn split_messages(data: &[u8]) {
    let mut tape = Tape::new(data);
    let mode = tape.one(&[PoolMode::Transaction, PoolMode::Session]);
    let cuts = [1 + tape.below(40), 1 + tape.below(9), 1 + tape.below(700)];
    let (mut asked, mut sent) = (Vec::new(), Vec::new());
    for _ in 0..tape.below(12) {
        request(&mut tape, "", &mut asked);
    }
    let raw = tape.some();
    for _ in 0..tape.below(12) {
        any_message(&mut tape, BACK_TAGS, &mut sent);
    }
    sent.extend_from_slice(tape.rest());
    let whole = converse(mode, &asked, raw, &sent, &[]);
    assert_eq!(converse(mode, &asked, raw, &sent, &cuts), whole);
    assert_eq!(converse(mode, &asked, raw, &sent, &[1]), whole);
}

/// The bytes that both ends received, and the final state.
fn converse(mode: PoolMode, asked: &[u8], raw: &[u8], sent: &[u8], cuts: &[usize]) -> (Vec<u8>, Vec<u8>, String) {
    let mut shared = shared(2);
    let params = Arc::new(shared.params.unknown());
    let (mut client, mut server) = (Client::new(1, mode, params.clone()), Server::new(params, CancelKey::default()));
    let (mut written, mut end) = (Written::default(), String::new());
    for piece in pieces(asked, cuts).into_iter().chain(pieces(raw, cuts)) {
        let mut out = Recorder { input: piece, written: &mut written };
        let fed = from_client::feed(&mut client, Some(&mut server), piece, &mut shared.context(), &mut out);
        if fed.stop != StopReason::EndOfInput {
            end = format!("{:?}", fed.stop);
            break;
        }
    }
    for piece in pieces(sent, cuts) {
        let mut out = Recorder { input: piece, written: &mut written };
        let outcome = from_server::feed(&mut server, Some(&mut client), piece, &mut shared.context(), &mut out);
        match outcome {
            // The server is closed, so its state has no meaning any more.
            Err(violated) => return (written.client, written.server, end + violated.violation.0),
            // An engine parts the two here, so the state has no meaning either: later bytes are not read, and how much
            // of the last message was passed on depends on the cut.
            Ok(outcome) if !keeps_link(&outcome) => return (Vec::new(), written.server, end + "parted"),
            Ok(outcome) if outcome.unusual.as_ref().is_some_and(|unusual| unusual.repeat.is_some()) => {
                return (Vec::new(), written.server, end + "repeated");
            }
            Ok(_) => {}
        }
    }
    end.push_str(&format!("{:?} {:?} {:?}", server.prove_clean().is_some(), server.hold_reason(), server.dirty()));
    (written.client, written.server, end)
}

/// Feeds a client that has a new server, until a stop. Its server receives only whole messages.
pub(crate) fn feed_alone(mut client: Client, shared: &mut OwnContext, input: &[u8]) {
    let mut server = Server::new(client.params().clone(), CancelKey::default());
    let mut written = Written::default();
    let mut out = Recorder { input, written: &mut written };
    let _ = from_client::feed(&mut client, Some(&mut server), input, &mut shared.context(), &mut out);
    Stream::default().push(&written.server);
    Stream::default().push(&written.client);
}
