//! The generator: one client's session, drawn from a seed.
//!
//! Owns the order of the messages: what drivers send, and what no driver would. The texts are in `catalog`, what a mode
//! guarantees in `guarantees`, whole exchanges that must stay together in `scenes`.
//!
//! One thing is never drawn: Execute of a portal that an aborted transaction has left, on which PostgreSQL 15.18 itself
//! sometimes crashes.

use std::collections::BTreeMap;

use weir_pgwire::Of;
use weir_tests::{Mode, Rng};

use crate::catalog::{
    DDL, ENDS, FUNCTIONS, MANY, MANY_BLOCKS, ODD_VALUES, PARAMETERS, PLAIN, PORTALS, SESSION, STATEMENTS, TYPES,
    WITH_VALUES,
};
use crate::guarantees::{Guarantee, guaranteed};
use crate::message::{Message, Value};
use crate::script::{Script, Step, Wait};

/// The application whose clients ask for what earlier transactions have drawn of sequences, as its pools know.
pub(crate) const ASKER: &str = "asks for values";

/// A session for this seed and mode.
pub(crate) fn session(seed: u64, mode: Mode, clients: Clients) -> Script {
    // The pool knows what this application asks for, and so that its clients keep their servers: not all sessions are of it.
    let asks = mode == Mode::Auto && Rng::new(seed ^ 0xa5c5).one_in(3);
    let mut author = Author { rng: Rng::new(seed), mode, clients, asks, steps: Vec::new(), prepared: BTreeMap::new() };
    author.login();
    for _ in 0..author.rng.below(24) + 4 {
        author.turn();
    }
    if author.guaranteed(Guarantee::Blocks) {
        author.send(Message::query("ROLLBACK"));
        author.wait();
    }
    Script { modes: vec![mode], steps: author.steps }
}

/// How many clients a session may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clients {
    /// One: the pool may have no server for another while the first one keeps its own.
    One,
    /// Two, for which the pool always has servers.
    Two,
}

pub(crate) struct Author {
    pub(crate) rng: Rng,
    mode: Mode,
    clients: Clients,
    /// The application is [`ASKER`].
    asks: bool,
    steps: Vec<Step>,
    /// The texts of the named statements, assuming that their Parse succeeded.
    prepared: BTreeMap<Vec<u8>, Text>,
}

/// A text and values for its parameters.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) sql: String,
    pub(crate) types: Vec<u32>,
    pub(crate) values: Vec<Value>,
    pub(crate) formats: Vec<u16>,
}

impl Text {
    pub(crate) fn plain(sql: &str) -> Text {
        Text { sql: sql.to_owned(), types: Vec::new(), values: Vec::new(), formats: Vec::new() }
    }
}

impl Author {
    pub(crate) fn send(&mut self, message: Message) {
        self.steps.push(Step::Send(message));
    }

    pub(crate) fn wait(&mut self) {
        self.steps.push(Step::Wait(Wait::Ready));
    }

    pub(crate) fn wait_for(&mut self, tags: &[u8]) {
        self.steps.push(Step::Wait(Wait::For(tags.to_vec())));
    }

    pub(crate) fn guaranteed(&self, guarantee: Guarantee) -> bool {
        guaranteed(guarantee, self.mode) && (guarantee != Guarantee::SequenceValues || self.asks_for_values())
    }

    /// Another client executes the following steps.
    pub(crate) fn client(&mut self, name: &str) {
        self.steps.push(Step::Client(name.to_owned()));
    }

    /// Whether the client may ask for what earlier transactions have drawn of sequences.
    pub(crate) fn asks_for_values(&self) -> bool {
        self.asks || self.mode == Mode::Session
    }

    pub(crate) fn has_two_clients(&self) -> bool {
        self.clients == Clients::Two
    }

    pub(crate) fn steps_so_far(&self) -> usize {
        self.steps.len()
    }

    pub(crate) fn wait_for_notification(&mut self) {
        self.steps.push(Step::Wait(Wait::Notified));
    }

    fn login(&mut self) {
        let mut params = Vec::new();
        if self.rng.one_in(5) {
            let given = [
                ("application_name", "given at startup"),
                ("TimeZone", "Pacific/Auckland"),
                ("DateStyle", if self.rng.one_in(2) { "SQL, DMY" } else { "ISO" }),
                ("extra_float_digits", "2"),
                ("options", "-c search_path=public,@.x -c IntervalStyle=sql_standard"),
            ];
            params = given.iter().filter(|_| self.rng.one_in(2)).map(|(n, v)| ((*n).into(), (*v).into())).collect();
        }
        if self.asks {
            params.retain(|(name, _): &(Vec<u8>, Vec<u8>)| name != b"application_name");
            params.push(("application_name".into(), ASKER.into()));
        }
        self.send(Message::Startup { minor: 0, params });
        self.wait();
    }

    /// One random exchange, up to the end of its answers.
    fn turn(&mut self) {
        let blocks = self.guaranteed(Guarantee::Blocks);
        match self.rng.below(50) {
            0..=3 => self.simple(),
            4..=7 => {
                self.extended();
                self.sync();
            }
            8..=10 => self.prepare_then_run(),
            11..=15 => self.pipeline(),
            16..=18 => self.binary(),
            19 | 20 => self.copy_in(),
            21 => self.copy_out(),
            22..=25 if blocks => self.block(),
            26 if blocks => self.fetch_by_portal(),
            27 if blocks => self.cursors(),
            28 if blocks => self.large_object(),
            29 if blocks => self.two_phase(),
            30 if blocks => self.stale_plan(),
            31 => self.function(),
            32 => self.parameter(),
            33 => self.end_of_statements(),
            34 | 35 => self.odd(),
            36 => self.suspended(),
            37 => self.flushed(),
            38 if self.guaranteed(Guarantee::Settings) => self.own_server(),
            39 | 40 => self.reshaped(),
            41..=48 if self.guaranteed(Guarantee::Settings) => self.state(),
            _ => {
                let sql: &str = self.rng.pick::<&str>(&DDL);
                self.run(&Text::plain(sql));
            }
        }
    }

    /// A statement that is allowed anywhere.
    pub(crate) fn text(&mut self) -> Text {
        match self.rng.below(10) {
            0..=4 => Text::plain(self.rng.pick::<&str>(&PLAIN)),
            5 => Text::plain(self.rng.pick::<&str>(&DDL)),
            6 if self.guaranteed(Guarantee::Blocks) && self.rng.one_in(3) => {
                let ends = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT s", "ROLLBACK TO s", "RELEASE s"];
                Text::plain(self.rng.pick::<&str>(&ends))
            }
            _ => self.with_values(),
        }
    }

    fn with_values(&mut self) -> Text {
        let (sql, fitting) = *self.rng.pick(&WITH_VALUES);
        let values = fitting.iter().map(|value| self.value(value)).collect();
        Text { values, ..Text::plain(sql) }
    }

    fn value(&mut self, fitting: &str) -> Value {
        match self.rng.below(12) {
            0 => None,
            1 => Some((*self.rng.pick(&ODD_VALUES)).into()),
            _ => Some(fitting.into()),
        }
    }

    pub(crate) fn name(&mut self) -> Vec<u8> {
        self.rng.pick(&STATEMENTS).as_bytes().to_vec()
    }

    pub(crate) fn portal(&mut self) -> Vec<u8> {
        self.rng.pick(&PORTALS).as_bytes().to_vec()
    }

    fn simple(&mut self) {
        let sql = match self.rng.below(6) {
            0 => *self.rng.pick(&MANY),
            1 if self.guaranteed(Guarantee::Blocks) => *self.rng.pick(&MANY_BLOCKS),
            2 => *self.rng.pick(&DDL),
            _ => *self.rng.pick(&PLAIN),
        };
        self.send(Message::query(sql));
        self.wait();
    }

    /// By the simple or the extended protocol.
    pub(crate) fn run(&mut self, text: &Text) {
        if text.values.is_empty() && self.rng.one_in(2) {
            self.send(Message::query(&text.sql));
        } else {
            self.unnamed(text);
            self.send(Message::Sync);
        }
        self.wait();
    }

    /// Parse, Bind, Describe, Execute of the unnamed statement, as most drivers send it.
    pub(crate) fn unnamed(&mut self, text: &Text) {
        let portal = self.portal();
        self.parse(b"", text);
        self.bind(&portal, b"", text);
        if !self.rng.one_in(3) {
            self.send(Message::Describe(Of::Portal, portal.clone()));
        }
        let rows = *self.rng.pick(&[0, 0, 0, 1, 3]);
        self.send(Message::execute(&portal, rows));
        // The portal must be closed before it can be bound again.
        if !portal.is_empty() {
            self.send(Message::Close(Of::Portal, portal));
        }
    }

    pub(crate) fn parse(&mut self, name: &[u8], text: &Text) {
        self.prepared.insert(name.to_vec(), text.clone());
        let types =
            if self.rng.one_in(12) { vec![*self.rng.pick(&[23, 25, 705, 1_000_000])] } else { text.types.clone() };
        self.send(Message::Parse { name: name.to_vec(), text: text.sql.clone().into_bytes(), types });
    }

    pub(crate) fn bind(&mut self, portal: &[u8], name: &[u8], text: &Text) {
        let mut values = text.values.clone();
        if self.rng.one_in(25) {
            values.push(Some(b"one too many".to_vec()));
        }
        let results = match self.rng.below(10) {
            0 | 1 => vec![1],
            2 => vec![0, 1, 0],
            3 => vec![1, 1],
            _ => Vec::new(),
        };
        let formats = if self.rng.one_in(30) { vec![0, 1, 7] } else { text.formats.clone() };
        let (portal, statement) = (portal.to_vec(), name.to_vec());
        self.send(Message::Bind { portal, statement, values, formats, results });
    }

    /// A group of requests of the extended protocol, without the Sync.
    pub(crate) fn extended(&mut self) {
        let text = self.text();
        let (name, portal) = (self.name(), self.portal());
        match self.rng.below(8) {
            0..=3 => self.unnamed(&text),
            4 => {
                self.parse(&name, &text);
                self.send(Message::Describe(Of::Statement, name.clone()));
                self.bind(&portal, &name, &text);
                self.send(Message::execute(&portal, 0));
            }
            5 => {
                self.send(Message::Close(Of::Statement, name.clone()));
                self.parse(&name, &text);
                self.bind(&portal, &name, &text);
                self.send(Message::Describe(Of::Portal, portal.clone()));
                self.send(Message::execute(&portal, 0));
                self.send(Message::Close(Of::Portal, portal));
            }
            6 => self.again(&name),
            _ => {
                self.parse(&name, &text);
                self.send(Message::Describe(Of::Statement, name));
            }
        }
    }

    /// A statement that was prepared before, or never.
    fn again(&mut self, name: &[u8]) {
        let text = self.prepared.get(name).cloned().unwrap_or_else(|| Text::plain(""));
        let portal = self.portal();
        self.bind(&portal, name, &text);
        if self.rng.one_in(2) {
            self.send(Message::Describe(Of::Portal, portal.clone()));
        }
        let rows = *self.rng.pick(&[0, 0, 2]);
        self.send(Message::execute(&portal, rows));
        if self.rng.one_in(2) {
            self.send(Message::Close(Of::Portal, portal));
        }
    }

    fn sync(&mut self) {
        self.send(Message::Sync);
        self.wait();
    }

    /// As pgx, asyncpg and JDBC do: prepare and describe in one round trip, run in the next ones, close at the end.
    fn prepare_then_run(&mut self) {
        let (name, text) = (self.name(), self.text());
        if self.rng.one_in(3) {
            self.send(Message::Close(Of::Statement, name.clone()));
        }
        self.parse(&name, &text);
        self.send(Message::Describe(Of::Statement, name.clone()));
        self.sync();
        for _ in 0..self.rng.below(4) {
            self.again(&name);
            self.sync();
            if self.rng.one_in(3) {
                self.run(&Text::plain("SELECT 'between'"));
            }
        }
        if self.rng.one_in(2) {
            self.send(Message::Close(Of::Statement, name));
            self.sync();
        }
    }

    /// Many requests at once, with errors among them, and Syncs and Flushes at random places.
    fn pipeline(&mut self) {
        for _ in 0..self.rng.below(9) + 2 {
            match self.rng.below(14) {
                0..=5 => self.extended(),
                6 => {
                    let text = Text::plain("SELECT 1/0");
                    self.unnamed(&text);
                }
                7 => {
                    let sql = self.text().sql.replace("$1", "7").replace("$2", "'8'").replace("$3", "9");
                    self.send(Message::query(&sql));
                }
                8 => self.send(Message::Flush),
                9 => {
                    self.send(Message::Sync);
                    self.send(Message::Sync);
                }
                10 => {
                    let name = self.name();
                    self.send(Message::Close(Of::Statement, name));
                }
                11 => self.call(),
                _ => self.send(Message::Sync),
            }
        }
        self.sync();
    }

    /// Parameters and results in binary.
    fn binary(&mut self) {
        let count = self.rng.below(3) + 1;
        let mut text = Text::plain("");
        let mut columns = Vec::new();
        for number in 1..=count {
            let typed = self.rng.pick(&TYPES);
            let binary = self.rng.one_in(2);
            columns.push(format!("${number}::{}", typed.name));
            text.types.push(if self.rng.one_in(2) { typed.oid } else { 0 });
            let value = if binary { typed.binary } else { typed.text.as_bytes() };
            let broken = self.rng.one_in(15);
            let value = if broken { &value[..value.len() - 1] } else { value };
            text.values.push(if self.rng.one_in(10) { None } else { Some(value.to_vec()) });
            text.formats.push(u16::from(binary));
        }
        text.sql = format!("SELECT {}", columns.join(", "));
        let name = self.name();
        self.prepared.insert(name.clone(), text.clone());
        if !name.is_empty() {
            self.send(Message::Close(Of::Statement, name.clone()));
        }
        let types = text.types.clone();
        self.send(Message::Parse { name: name.clone(), text: text.sql.clone().into_bytes(), types });
        if self.rng.one_in(2) {
            self.send(Message::Describe(Of::Statement, name.clone()));
        }
        for _ in 0..self.rng.below(2) + 1 {
            self.bind(b"", &name, &text);
            self.send(Message::Describe(Of::Portal, Vec::new()));
            self.send(Message::execute(b"", 0));
        }
        self.sync();
    }

    fn call(&mut self) {
        let (oid, arguments) = *self.rng.pick(&FUNCTIONS);
        let values = arguments.iter().map(|value| self.value(value)).collect();
        let result = u16::from(self.rng.one_in(3));
        self.send(Message::FunctionCall { oid, values, formats: Vec::new(), result });
    }

    fn function(&mut self) {
        self.call();
        self.wait();
    }

    fn parameter(&mut self) {
        let sql = *self.rng.pick(&PARAMETERS);
        if sql.contains("client_encoding") && !self.guaranteed(Guarantee::EncodedNames) {
            return;
        }
        self.run(&Text::plain(sql));
        let show = *self.rng.pick(&[
            "SHOW TimeZone",
            "SHOW application_name",
            "SELECT '1 day 2:03'::interval, '2024-02-01'::date",
        ]);
        self.run(&Text::plain(show));
    }

    fn end_of_statements(&mut self) {
        let sql = *self.rng.pick(&ENDS);
        self.run(&Text::plain(sql));
    }

    fn own_server(&mut self) {
        for _ in 0..self.rng.below(4) + 1 {
            let (sql, guarantee) = *self.rng.pick(&SESSION);
            if self.guaranteed(guarantee) {
                self.run(&Text::plain(sql));
            }
        }
        if self.guaranteed(Guarantee::StalePlans) && self.rng.one_in(3) {
            let text = Text::plain("SELECT * FROM @.wide");
            self.parse(b"c", &text);
            self.sync();
        }
    }

    /// Requests for missing objects, or at the wrong time.
    fn odd(&mut self) {
        let (name, portal) = (self.name(), self.portal());
        match self.rng.below(9) {
            0 => self.send(Message::Describe(Of::Statement, name)),
            1 => self.send(Message::Describe(Of::Portal, b"no such portal".to_vec())),
            2 => self.send(Message::Close(Of::Statement, b"no such statement".to_vec())),
            3 => self.send(Message::Close(Of::Portal, portal)),
            4 => self.send(Message::execute(b"no such portal", 1)),
            5 => self.send(Message::bind(b"", b"no such statement", Vec::new())),
            6 => self.send(Message::Flush),
            7 => {
                self.send(Message::Sync);
                self.send(Message::CopyDone);
                self.send(Message::CopyFail(b"of nothing".to_vec()));
            }
            _ => {
                self.parse(&name, &Text::plain("SELECT 'twice'"));
                self.parse(&name, &Text::plain("SELECT 'taken'"));
            }
        }
        self.sync();
    }
}
