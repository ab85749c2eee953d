//! A modelled server: it reads what it is sent, and answers as a server may, in the ways that the fuzzer picks.
//!
//! Rows carry the text of the statement that they answer, and a number that no other row has.

use std::collections::BTreeMap;

use weir_pgwire::{ErrorFields, frontend, put_back};

use crate::contract::{Ask, Contract, Stream};
use crate::tape::Tape;

/// A server's own view of its connection.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    received: Stream,
    pub(crate) contract: Contract,
    statements: BTreeMap<Vec<u8>, Vec<u8>>,
    portals: BTreeMap<Vec<u8>, Vec<u8>>,
    rows: u32,
    status: u8,
    /// It has said what it should not have; whose its rows are can't be told from here on, and they carry no text.
    pub(crate) lied: bool,
}

impl Backend {
    /// Takes what it was sent; returns whole messages.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Vec<Ask> {
        let asks = self.received.push(bytes);
        asks.iter().for_each(|ask| self.contract.ask(ask.clone()));
        asks
    }

    /// Whether no message to it is half-way.
    pub(crate) fn is_between(&self) -> bool {
        self.received.is_between()
    }

    /// The next message that it may say, if it owes one.
    pub(crate) fn answer(&mut self, tape: &mut Tape<'_>) -> Vec<u8> {
        let mut said = Vec::new();
        let choice = tape.below(16);
        if choice == 15 {
            aside(tape, &mut said);
        }
        let Some(ask) = self.contract.head().cloned() else { return said };
        if self.contract.is_open() {
            return said;
        }
        if self.contract.is_copying() {
            if choice == 14 {
                fail(&mut said, "57014", "COPY was cut short");
            }
        } else {
            self.natural(&ask, choice, tape, &mut said);
        }
        for message in Stream::default().push(&said) {
            assert!(self.contract.reply(message.tag), "the model broke its own contract");
        }
        said
    }

    fn natural(&mut self, ask: &Ask, choice: usize, tape: &mut Tape<'_>, said: &mut Vec<u8>) {
        if choice == 14 {
            return fail(said, tape.one(&["42601", "26000", "42P05", "0A000", "40001"]), "it failed");
        }
        match ask.tag {
            b'Q' => self.query(ask, choice, tape, said),
            b'P' => self.parse(ask, said),
            b'B' => self.bind(ask, said),
            b'C' => {
                let name = frontend::named(&ask.body).map(|n| n.name.to_vec()).unwrap_or_default();
                self.statements.remove(&name);
                put_back::close_complete(said);
            }
            b'D' if ask.body.first() == Some(&b'S') && !self.contract.is_half_described() => {
                put_back::parameter_description(said, &[23]);
            }
            b'D' if choice < 8 => put_back::no_data(said),
            b'D' => columns(said),
            b'E' => self.execute(ask, choice, said),
            b'F' if choice < 8 => put_back::function_result(said, Some(b"7")),
            _ => self.ready(tape, said),
        }
    }

    fn query(&mut self, ask: &Ask, choice: usize, tape: &mut Tape<'_>, said: &mut Vec<u8>) {
        let text = ask.body.strip_suffix(&[0]).unwrap_or(&ask.body);
        match choice {
            0..=2 => self.row(text, said),
            3 => columns(said),
            4 => put_back::empty_query(said),
            5 if text.to_ascii_lowercase().starts_with(b"copy") => put_back::copy_in(said, 1),
            6 => put_back::copy_out(said, 1),
            7 => put_back::copy_data(said, text),
            8..=10 => self.complete(text, tape, said),
            _ => self.ready(tape, said),
        }
    }

    fn complete(&mut self, text: &[u8], tape: &mut Tape<'_>, said: &mut Vec<u8>) {
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
            put_back::parameter_status(said, "TimeZone", tape.one(&["UTC", "CET"]));
        }
        put_back::command_complete(said, tag);
    }

    fn parse(&mut self, ask: &Ask, said: &mut Vec<u8>) {
        let Ok(parse) = frontend::parse(&ask.body) else { return fail(said, "08P01", "malformed Parse") };
        if parse.text.starts_with(b"bad") {
            return fail(said, "42601", "syntax error");
        }
        if !parse.name.is_empty() && self.statements.contains_key(parse.name) {
            let name = String::from_utf8_lossy(parse.name);
            return fail(said, "42P05", &format!("prepared statement \"{name}\" already exists"));
        }
        self.statements.insert(parse.name.to_vec(), parse.text.to_vec());
        put_back::parse_complete(said);
    }

    fn bind(&mut self, ask: &Ask, said: &mut Vec<u8>) {
        let Ok(Some(head)) = frontend::bind_head(&ask.body) else { return fail(said, "08P01", "malformed Bind") };
        let Some(text) = self.statements.get(head.statement) else {
            let name = String::from_utf8_lossy(head.statement);
            return fail(said, "26000", &format!("prepared statement \"{name}\" does not exist"));
        };
        self.portals.insert(head.portal.to_vec(), text.clone());
        put_back::bind_complete(said);
    }

    fn execute(&mut self, ask: &Ask, choice: usize, said: &mut Vec<u8>) {
        let portal = ask.body.split(|byte| *byte == 0).next().unwrap_or_default().to_vec();
        let Some(text) = self.portals.get(&portal).cloned() else {
            return fail(said, "34000", "portal does not exist");
        };
        match choice {
            0..=3 => self.row(&text, said),
            4 => put_back::portal_suspended(said),
            5 if text.starts_with(b"copy") => put_back::copy_in(said, 1),
            _ => put_back::command_complete(said, "SELECT 1"),
        }
    }

    fn row(&mut self, text: &[u8], said: &mut Vec<u8>) {
        self.rows += 1;
        let text = if self.lied { b"" } else { text };
        put_back::data_row(said, &[Some(text), Some(&self.rows.to_be_bytes())]);
    }

    fn ready(&mut self, tape: &mut Tape<'_>, said: &mut Vec<u8>) {
        self.status = tape.one(b"IIIIIITE");
        put_back::ready(said, self.status);
    }
}

/// What a server may say at any time.
fn aside(tape: &mut Tape<'_>, said: &mut Vec<u8>) {
    match tape.below(3) {
        0 => put_back::notice(said, &fields("NOTICE", "00000", "by the way")),
        1 => put_back::notification(said, 7, "channel", "payload"),
        _ => put_back::parameter_status(said, tape.one(&["TimeZone", "x", "in_hot_standby"]), tape.one(&["UTC", "on"])),
    }
}

pub(crate) fn fail(said: &mut Vec<u8>, sqlstate: &str, message: &str) {
    put_back::error(said, &fields("ERROR", sqlstate, message));
}

fn fields<'a>(severity: &'a str, sqlstate: &'a str, message: &'a str) -> ErrorFields<'a> {
    ErrorFields { severity, sqlstate, message, detail: None, hint: None }
}

fn columns(said: &mut Vec<u8>) {
    put_back::row_description(said, &[weir_pgwire::Column { name: "x", kind: weir_pgwire::ColumnType::Text }]);
}
