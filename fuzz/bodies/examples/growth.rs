//! What `scripts/growth.sh` counts the instructions of: texts of a size, read by each function of them, and messages
//! about a stored text of a size.
//!
//! `growth text WORD BYTES` reads a text that repeats a word. `growth MESSAGE BYTES COUNT` stores a text, as a named
//! statement, and sends this many times a message that refers to it: `bind`, `describe`, `unnamed` (a Bind of the
//! unnamed statement), or `waiting` (a Parse of that text that waits for replies, each of which arrives alone).

use std::env;
use std::ops::Range;
use std::sync::Arc;

use weir_base::PoolMode;
use weir_pgwire::sql::{self, Judgement, Mentions};
use weir_pgwire::{Of, put_back, put_front};
use weir_session::{CancelKey, Client, Out, OwnContext, Server, StatePolicy, from_client, from_server};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
    match arguments.first().map(String::as_str) {
        Some("text") => read(&arguments[1], number(2)),
        Some(message) => refer(message, number(1), number(2)),
        None => {}
    }
}

/// Reads a text of this many bytes by every function.
fn read(word: &str, bytes: usize) {
    let text: Vec<u8> = word.bytes().chain(*b" ").cycle().take(bytes).collect();
    let text = &[&b"select 1 -- "[..], &text].concat();
    let _ = (Judgement::of(text, &sql::head(text)), Judgement::of_prefix(&text[..text.len().min(512)], text));
    let _ = (sql::kept(text, |_| false), sql::prepared(text), sql::fingerprint(text, 2000));
    let bare = &text[b"select 1 -- ".len()..];
    let _ = (Judgement::of(bare, &sql::head(bare)), sql::kept(bare, |_| false), sql::prepared(bare));
    let _ = (sql::names(bare, false, true, usize::MAX), sql::names(bare, true, false, usize::MAX));
    let mut mentions = Mentions::begin(&bare[..bare.len().min(4096)]);
    bare.chunks(4096).skip(1).for_each(|piece| mentions.feed(piece));
}

struct Nowhere;

impl Out for Nowhere {
    fn client_range(&mut self, _: Range<usize>) {}
    fn client(&mut self, _: &[u8]) {}
    fn server_range(&mut self, _: Range<usize>) {}
    fn server(&mut self, _: &[u8]) {}
}

const MEMORY: u64 = 256 << 20;

/// A client and its server.
struct Pair {
    client: Client,
    server: Server,
    own: OwnContext,
}

impl Pair {
    fn new() -> Pair {
        let mut own = OwnContext::new(MEMORY);
        own.rules.state = StatePolicy { warn: true, ..StatePolicy::default() };
        let shared = Arc::new(own.params.unknown());
        Pair {
            client: Client::new(1, PoolMode::Transaction, shared.clone()),
            server: Server::new(shared, CancelKey::default()),
            own,
        }
    }

    fn ask(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut message = Vec::new();
        write(&mut message);
        self.ask_again(&message);
    }

    fn ask_again(&mut self, message: &[u8]) {
        let Pair { client, server, own } = self;
        from_client::feed(client, Some(server), message, &mut own.context(), &mut Nowhere);
    }

    fn tell(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let mut message = Vec::new();
        write(&mut message);
        let Pair { client, server, own } = self;
        let read = from_server::feed(server, Some(client), &message, &mut own.context(), &mut Nowhere).map(drop);
        read.expect("the reply was expected");
    }
}

/// Stores a text and refers to it.
fn refer(message: &str, bytes: usize, count: usize) {
    let mut pair = Pair::new();
    let text = [&b"/* listen a */ select 1"[..], &vec![b' '; bytes], b"-- ; execute; deallocate x"].concat();
    let name: &[u8] = if message == "unnamed" { b"" } else { b"s" };
    pair.ask(|out| {
        put_front::parse_text(out, name, &text, &[]);
        put_front::sync(out);
    });
    pair.tell(|out| {
        put_back::parse_complete(out);
        put_back::ready(out, b'I');
    });
    if message == "waiting" {
        return wait(&mut pair, &text, count);
    }
    for _ in 0..count {
        pair.ask(|out| {
            match message {
                "describe" => put_front::describe(out, Of::Statement, name),
                _ => put_front::bind_no_params(out, b"", name),
            }
            put_front::sync(out);
        });
        pair.tell(|out| {
            match message {
                "describe" => {
                    put_back::parameter_description(out, &[]);
                    put_back::no_data(out);
                }
                _ => put_back::bind_complete(out),
            }
            put_back::ready(out, b'I');
        });
    }
}

/// A Parse of the text waits for the replies to `count` messages in front of it.
fn wait(pair: &mut Pair, text: &[u8], count: usize) {
    pair.ask(|out| {
        (0..=count).for_each(|_| put_front::close(out, Of::Portal, b"p"));
        put_front::close(out, Of::Statement, b"s");
        put_front::sync(out);
    });
    let mut parse = Vec::new();
    put_front::parse_text(&mut parse, b"s", text, &[]);
    for _ in 0..count {
        pair.ask_again(&parse);
        pair.tell(put_back::close_complete);
    }
}
