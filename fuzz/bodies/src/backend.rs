//! A modelled server: it reads what it receives, and answers as a server may. The fuzzer picks among the valid answers.
//!
//! Rows carry the text of the statement that they answer, and a number that no other row has.

use std::collections::BTreeMap;

use weir_pgwire::{ErrorFields, frontend, put_back};

use crate::contract::{Ask, Contract, Stream};
use crate::tape::Tape;

/// A server's view of its connection.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    received: Stream,
    pub(crate) contract: Contract,
    statements: BTreeMap<Vec<u8>, Vec<u8>>,
    portals: BTreeMap<Vec<u8>, Vec<u8>>,
    rows: u32,
    status: u8,
    /// The server has sent an unexpected message: the owners of its rows are unknown from here on, and rows carry no
    /// text.
    pub(crate) lied: bool,
}

impl Backend {
    /// Takes received bytes; returns whole messages.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Vec<Ask> {
        let asks = self.received.push(bytes);
        asks.iter().for_each(|ask| self.contract.ask(ask.clone()));
        asks
    }

    /// Whether no message to the server is incomplete.
    pub(crate) fn is_between(&self) -> bool {
        self.received.is_between()
    }

    /// The next reply that the server may send, if one is pending.
    pub(crate) fn answer(&mut self, tape: &mut Tape<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let choice = tape.below(16);
        if choice == 15 {
            async_message(tape, &mut out);
        }
        let Some(ask) = self.contract.head().cloned() else { return out };
        if self.contract.is_open() {
            return out;
        }
        if self.contract.is_copying() {
            if choice == 14 {
                fail(&mut out, "57014", "COPY was cut short");
            }
        } else {
            self.natural(&ask, choice, tape, &mut out);
        }
        for message in Stream::default().push(&out) {
            assert!(self.contract.reply(message.tag), "the model broke its own contract");
        }
        out
    }

    fn natural(&mut self, ask: &Ask, choice: usize, tape: &mut Tape<'_>, out: &mut Vec<u8>) {
        if choice == 14 {
            return fail(out, tape.one(&["42601", "26000", "42P05", "0A000", "40001"]), "it failed");
        }
        match ask.tag {
            b'Q' => self.query(ask, choice, tape, out),
            b'P' => self.parse(ask, out),
            b'B' => self.bind(ask, out),
            b'C' => {
                let name = frontend::named(&ask.body).map(|n| n.name.to_vec()).unwrap_or_default();
                self.statements.remove(&name);
                put_back::close_complete(out);
            }
            b'D' if ask.body.first() == Some(&b'S') && !self.contract.is_half_described() => {
                put_back::parameter_description(out, &[23]);
            }
            b'D' if choice < 8 => put_back::no_data(out),
            b'D' => columns(out),
            b'E' => self.execute(ask, choice, out),
            b'F' if choice < 8 => put_back::function_result(out, Some(b"7")),
            _ => self.ready(tape, out),
        }
    }

    fn query(&mut self, ask: &Ask, choice: usize, tape: &mut Tape<'_>, out: &mut Vec<u8>) {
        let text = ask.body.strip_suffix(&[0]).unwrap_or(&ask.body);
        match choice {
            0..=2 => self.row(text, out),
            3 => columns(out),
            4 => put_back::empty_query(out),
            5 if text.to_ascii_lowercase().starts_with(b"copy") => put_back::copy_in(out, 1),
            6 => put_back::copy_out(out, 1),
            7 => put_back::copy_data(out, text),
            8..=10 => self.complete(text, tape, out),
            _ => self.ready(tape, out),
        }
    }

    fn complete(&mut self, text: &[u8], tape: &mut Tape<'_>, out: &mut Vec<u8>) {
        let upper = text.to_ascii_uppercase();
        let tag = match upper.as_slice() {
            b"DISCARD ALL" => "DISCARD ALL",
            b"DEALLOCATE ALL" => "DEALLOCATE ALL",
            text if text.starts_with(b"SET") => "SET",
            text if text.starts_with(b"DEALLOCATE") => "DEALLOCATE",
            text if text.starts_with(b"BEGIN") => "BEGIN",
            _ => tape.one(&["SELECT 1", "INSERT 0 1", "LISTEN", "CREATE TABLE", "COPY 1"]),
        };
        if tag.ends_with(" ALL") {
            self.statements.clear();
        }
        if tag == "SET" {
            put_back::parameter_status(out, "TimeZone", tape.one(&["UTC", "CET"]));
        }
        put_back::command_complete(out, tag);
    }

    fn parse(&mut self, ask: &Ask, out: &mut Vec<u8>) {
        let Ok(parse) = frontend::parse(&ask.body) else { return fail(out, "08P01", "malformed Parse") };
        if parse.text.starts_with(b"bad") {
            return fail(out, "42601", "syntax error");
        }
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            let name = String::from_utf8_lossy(parse.name);
            return fail(out, "42P05", &format!("prepared statement \"{name}\" already exists"));
        }
        self.statements.insert(parse.name.to_vec(), parse.text.to_vec());
        put_back::parse_complete(out);
    }

    fn bind(&mut self, ask: &Ask, out: &mut Vec<u8>) {
        let Ok(Some(head)) = frontend::bind_head(&ask.body) else { return fail(out, "08P01", "malformed Bind") };
        let Some(text) = self.statements.get(head.statement) else {
            let name = String::from_utf8_lossy(head.statement);
            return fail(out, "26000", &format!("prepared statement \"{name}\" does not exist"));
        };
        self.portals.insert(head.portal.to_vec(), text.clone());
        put_back::bind_complete(out);
    }

    fn execute(&mut self, ask: &Ask, choice: usize, out: &mut Vec<u8>) {
        let portal = ask.body.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        let Some(text) = self.portals.get(&portal).cloned() else {
            return fail(out, "34000", "portal does not exist");
        };
        match choice {
            0..=3 => self.row(&text, out),
            4 => put_back::portal_suspended(out),
            5 if text.starts_with(b"copy") => put_back::copy_in(out, 1),
            _ => put_back::command_complete(out, "SELECT 1"),
        }
    }

    fn row(&mut self, text: &[u8], out: &mut Vec<u8>) {
        self.rows += 1;
        let text = if self.lied { b"" } else { text };
        put_back::data_row(out, &[Some(text), Some(&self.rows.to_be_bytes())]);
    }

    fn ready(&mut self, tape: &mut Tape<'_>, out: &mut Vec<u8>) {
        self.status = tape.one(b"IIIIIITE");
        put_back::ready(out, self.status);
    }
}

/// A message that a server may send at any time.
fn async_message(tape: &mut Tape<'_>, out: &mut Vec<u8>) {
    match tape.below(3) {
        0 => put_back::notice(out, &fields("NOTICE", "00000", "by the way")),
        1 => put_back::notification(out, 7, "channel", "payload"),
        _ => put_back::parameter_status(out, tape.one(&["TimeZone", "x", "in_hot_standby"]), tape.one(&["UTC", "on"])),
    }
}

pub(crate) fn fail(out: &mut Vec<u8>, sqlstate: &str, message: &str) {
    put_back::error(out, &fields("ERROR", sqlstate, message));
}

fn fields<'a>(severity: &'a str, sqlstate: &'a str, message: &'a str) -> ErrorFields<'a> {
    ErrorFields { severity, sqlstate, message, detail: None, hint: None }
}

fn columns(out: &mut Vec<u8>) {
    put_back::row_description(
        out,
        &[weir_pgwire::ResultColumn { name: "x", kind: weir_pgwire::ResultColumnType::Text }],
    );
}
