//! The requests of clients: random bursts of messages, most of them valid in the client's present state.
//!
//! Owns the habits of clients. Must not know the replies. A burst is sent without waiting for replies; between its
//! stages all pending replies must have arrived.

use weir_base::{OnDirty, PoolMode};
use weir_pgwire::Of;

use super::Topic;
use crate::context::Rules;
use crate::message::Front;
use crate::postgres::core::{Core, Transaction};
use crate::rng::Rng;

/// How likely each kind of burst is; a weight of 0 means never.
#[derive(Clone, Debug)]
pub(crate) struct Habits {
    weights: [u64; KINDS.len()],
    /// The most units in a pipeline.
    depth: u64,
    /// The most rows of a result, and their largest width.
    rows: (u64, u64),
    /// How many bursts in a thousand of those that sleep are cancelled.
    pub(crate) cancels: u32,
    /// The shortest and the longest sleep, in microseconds.
    sleep: (u64, u64),
    /// How many units in a thousand are invalid.
    mistakes: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Simple,
    Many,
    Pipeline,
    Transaction,
    Tracked,
    Dirty,
    Look,
    Sleep,
    CopyIn,
    CopyOut,
    Function,
    Forget,
}

const KINDS: [Kind; 12] = [
    Kind::Simple,
    Kind::Many,
    Kind::Pipeline,
    Kind::Transaction,
    Kind::Tracked,
    Kind::Dirty,
    Kind::Look,
    Kind::Sleep,
    Kind::CopyIn,
    Kind::CopyOut,
    Kind::Function,
    Kind::Forget,
];

/// Values for the tracked parameters; some are invalid.
const TRACKED_VALUES: [(&str, &str); 12] = [
    ("application_name", "psql"),
    ("application_name", "it's"),
    ("application_name", ""),
    ("client_encoding", "latin1"),
    ("CLIENT_ENCODING", "UTF8"),
    ("client_encoding", "klingon"),
    ("DateStyle", "german, dmy"),
    ("datestyle", "ISO, MDY"),
    ("DateStyle", "ISO"),
    ("TimeZone", "Europe/Vienna"),
    ("standard_conforming_strings", "off"),
    ("IntervalStyle", "iso_8601"),
];

/// The same for those of servers that report before ReadyForQuery: PostgreSQL 14 and later.
const NEWER_VALUES: [(&str, &str); 4] = [
    ("default_transaction_read_only", "on"),
    ("default_transaction_read_only", "off"),
    ("scram_iterations", "5000"),
    ("scram_iterations", "many"),
];

impl Habits {
    /// Draws habits.
    pub(crate) fn draw(rng: &mut Rng, topic: Topic) -> Habits {
        let habits = Habits::draw_any(rng);
        match topic {
            Topic::Any => habits,
            Topic::Cancels { delay } => {
                Habits { cancels: 900, sleep: (delay / 8, delay * 2), ..habits.with_many(Kind::Sleep) }
            }
            Topic::Loans => Habits { sleep: (1, 2_000), ..habits.with_many(Kind::Dirty) },
        }
    }

    fn draw_any(rng: &mut Rng) -> Habits {
        let mut weights = std::array::from_fn(|_| rng.skewed(0, 20));
        weights[0] += 1;
        Habits {
            weights,
            depth: rng.skewed(1, 24),
            rows: (rng.skewed(1, 3_000), rng.skewed(1, 400)),
            cancels: *rng.pick(&[0, 300, 900]),
            sleep: (1, rng.skewed(1, 2_000_000)),
            mistakes: *rng.pick(&[0, 30, 200]),
        }
    }

    /// The habits with bursts that are mostly of this kind.
    fn with_many(mut self, most: Kind) -> Habits {
        let others: u64 = self.weights.iter().sum();
        for (kind, weight) in KINDS.into_iter().zip(&mut self.weights) {
            *weight += if kind == most { 2 * others } else { 0 };
        }
        self
    }
}

/// Messages to send.
#[derive(Clone, Default, Debug)]
pub(crate) struct Burst {
    /// Messages by stage.
    pub(crate) stages: Vec<Vec<Front>>,
    /// How long its statements sleep, in microseconds.
    pub(crate) sleeps: u64,
    /// Whether it makes the server forget the session's settings.
    pub(crate) forgets: bool,
}

/// Draws bursts for one client.
pub(crate) struct Script<'a> {
    pub(crate) rng: &'a mut Rng,
    pub(crate) habits: &'a Habits,
    pub(crate) rules: &'a Rules,
    pub(crate) client: u32,
    /// Counts the client's tokens.
    pub(crate) tokens: &'a mut u32,
    /// Counts the client's sessions.
    pub(crate) session: u64,
    /// The reference session.
    pub(crate) core: &'a Core,
}

impl Script<'_> {
    /// Draws the next burst. `last`: the session ends after it, so an open transaction is ended.
    pub(crate) fn burst(&mut self, last: bool) -> Burst {
        let open = self.core.transaction() != Transaction::Idle;
        if open && (last || self.rng.chance(350)) {
            let word = if self.rng.chance(700) { "COMMIT" } else { "ROLLBACK" };
            let text = self.marked(word);
            return if self.rng.chance(500) { query(text) } else { self.one_extended(text) };
        }
        if self.draws_values() && !self.core.has_asked() {
            // From here on the pooler keeps others' values from it.
            return query(if self.rng.chance(500) { self.marked("SELECT lastval()") } else { self.asks_and_names() });
        }
        match self.kind(open) {
            Kind::Simple if self.draws_values() && !(*self.tokens).is_multiple_of(3) => self.sequence(),
            Kind::Simple => self.simple(),
            Kind::Many => self.many(),
            Kind::Pipeline => self.pipeline(),
            Kind::Transaction => self.begin(),
            Kind::Tracked => self.tracked(),
            Kind::Dirty => self.dirty(),
            Kind::Look => self.look(),
            Kind::Sleep => self.sleep(),
            Kind::CopyIn => self.copy_in(),
            Kind::CopyOut => self.copy_out(),
            Kind::Function => {
                let token = self.token();
                Burst { stages: vec![vec![Front::FunctionCall(token)]], ..Burst::default() }
            }
            Kind::Forget => self.forget(),
        }
    }

    fn kind(&mut self, open: bool) -> Kind {
        let total = self.habits.weights.iter().sum();
        let mut at = self.rng.below(total);
        let fits = |kind: Kind| match kind {
            Kind::Transaction => !open && self.rules.mode != PoolMode::Statement,
            Kind::Forget => !open,
            _ => true,
        };
        for (kind, weight) in KINDS.into_iter().zip(self.habits.weights) {
            if at < weight {
                return if fits(kind) { kind } else { Kind::Simple };
            }
            at -= weight;
        }
        Kind::Simple
    }

    fn token(&mut self) -> String {
        *self.tokens += 1;
        format!("c{}.{}", self.client, self.tokens)
    }

    fn marked(&mut self, text: &str) -> String {
        format!("{text} /*{}*/", self.token())
    }

    fn mistake(&mut self) -> bool {
        self.rng.chance(self.habits.mistakes)
    }

    /// A statement that usually just returns its token, or fails.
    fn statement(&mut self) -> String {
        let token = self.token();
        if self.mistake() {
            return self.rng.pick(&[format!("FAIL {token}"), format!("BOGUS {token}")]).clone();
        }
        match self.rng.below(10) {
            0..=5 => format!("ECHO {token}"),
            6 | 7 => format!("WRITE {token}"),
            8 => self.rows(&token),
            _ => self.padded(&token),
        }
    }

    fn rows(&mut self, token: &str) -> String {
        let (rows, width) = self.habits.rows;
        format!("ROWS {} {} {token}", self.rng.skewed(0, rows), self.rng.between(0, width))
    }

    /// A statement with a long text, which arrives in many pieces.
    fn padded(&mut self, token: &str) -> String {
        let spaces = self.rng.skewed(1, 20_000) as usize;
        format!("ECHO{}{token}", " ".repeat(spaces))
    }

    fn simple(&mut self) -> Burst {
        let text = if self.rng.chance(50) { String::new() } else { self.statement() };
        query(text)
    }

    /// Whether the client uses sequences: in mode auto half of them do.
    fn draws_values(&self) -> bool {
        self.rules.mode == PoolMode::Auto && self.client.is_multiple_of(2)
    }

    /// Draws a value of a sequence, or asks for the last one.
    fn sequence(&mut self) -> Burst {
        let token = self.token();
        query(match self.rng.below(9) {
            0..=3 => format!("SELECT nextval('{token}')"),
            4 => self.marked("DISCARD SEQUENCES"),
            5 => self.asks_and_names(),
            _ => self.marked("SELECT lastval()"),
        })
    }

    /// The pooler may have something to send before the first command, and waits for its answer with the second.
    fn asks_and_names(&mut self) -> String {
        let (asks, names) = (self.marked("SELECT lastval()"), self.about_statement());
        format!("{asks}; {}", self.marked(&names))
    }

    fn many(&mut self) -> Burst {
        let mut texts: Vec<String> = (0..self.rng.between(2, 5)).map(|_| self.statement()).collect();
        let may_begin = self.rules.mode != PoolMode::Statement && self.core.transaction() == Transaction::Idle;
        if may_begin && self.rng.chance(200) {
            let (begin, end) = (self.marked("BEGIN"), self.marked("COMMIT"));
            texts.insert(0, begin);
            texts.push(end);
        }
        // Pipelined Query messages are allowed, too.
        let second = if self.rng.chance(300) { vec![Front::Query(self.statement())] } else { Vec::new() };
        let messages = [vec![Front::Query(texts.join("; "))], second].concat();
        Burst { stages: vec![messages], ..Burst::default() }
    }

    fn begin(&mut self) -> Burst {
        let text = self.marked("BEGIN");
        if self.rng.chance(700) { query(text) } else { self.one_extended(text) }
    }

    fn one_extended(&mut self, text: String) -> Burst {
        let mut messages = unnamed(text);
        messages.push(Front::Sync);
        Burst { stages: vec![messages], ..Burst::default() }
    }

    fn tracked(&mut self) -> Burst {
        let newer = !self.core.reports_at_once() && self.rng.chance(300);
        let (name, value) = if newer { *self.rng.pick(&NEWER_VALUES) } else { *self.rng.pick(&TRACKED_VALUES) };
        let local = if self.rng.chance(200) { "LOCAL " } else { "" };
        let text = match self.rng.below(4) {
            0 => self.marked(&format!("SHOW {name}")),
            // In a pool the value that RESET restores depends on the server.
            1 if !self.rules.pooled => self.marked(&format!("RESET {name}")),
            _ => self.marked(&format!("SET {local}{name} = '{}'", value.replace('\'', "''"))),
        };
        if self.rng.chance(600) { query(text) } else { self.one_extended(text) }
    }

    /// Leaves session state behind.
    fn dirty(&mut self) -> Burst {
        let token = self.token();
        let name = token.replace('.', "_");
        let text = match self.rng.below(8) {
            // The value identifies the client. The name of one of two parts is found in its text, unless that is long.
            0 => {
                let value = self.client * 1000 + self.rng.between(1, 9) as u32;
                let name = if self.rng.chance(500) { "work_mem" } else { "app.tenant" };
                format!("SET {name} = {value} /*{token}*/")
            }
            1 => format!("LISTEN {name} /*{token}*/"),
            2 => format!("PREPARE {name} AS ECHO {token}"),
            3 => format!("CREATE TEMP TABLE {name} /*{token}*/"),
            4 => format!("CREATE TEMP TABLE {name} AS SELECT /*{token}*/"),
            5 => format!("SELECT INTO TEMP {name} /*{token}*/"),
            6 => format!("SELECT pg_advisory_lock({name}) /*{token}*/"),
            // Again on a channel that the session knows, or on a new one.
            _ => match self.core.channel().filter(|_| self.rules.mode.keeps_state()).map(str::to_owned) {
                Some(known) if self.rng.chance(700) => format!("NOTIFY {known} {token}"),
                _ => format!("LISTEN {name} /*{token}*/; NOTIFY {name} {token}"),
            },
        };
        // Longer than what is held of a text.
        let filling = if self.rng.chance(200) { format!("/*{}*/ ", "x".repeat(600)) } else { String::new() };
        let text = format!("{filling}{text}");
        if self.rng.chance(200) {
            // State left by a statement pipelined after it stays.
            let discard = self.marked("DISCARD ALL");
            let stages = vec![vec![Front::Query(discard), Front::Query(text)]];
            return Burst { stages, forgets: self.rules.pooled, ..Burst::default() };
        }
        if self.rng.chance(700) || text.contains(';') { query(text) } else { self.one_extended(text) }
    }

    /// Queries the session's state. In a pool that keeps dirty servers, other clients' state may be there.
    fn look(&mut self) -> Burst {
        if self.rules.pooled && self.rules.on_dirty == OnDirty::Keep {
            return self.simple();
        }
        let text = self.marked("WHOAMI");
        if self.rng.chance(700) { query(text) } else { self.one_extended(text) }
    }

    fn sleep(&mut self) -> Burst {
        if self.rng.chance(250) {
            return self.pipelined_sleeps();
        }
        let token = self.token();
        let micros = self.nap();
        let text = format!("SLEEP {micros} {token}");
        let mut burst = match self.rng.below(3) {
            0 => self.one_extended(text),
            1 => query(format!("{}; {text}; {}", self.statement(), self.statement())),
            _ => query(text),
        };
        burst.sleeps = micros;
        burst
    }

    /// Queries that sleep, each without waiting for the one before.
    fn pipelined_sleeps(&mut self) -> Burst {
        let mut burst = Burst { stages: vec![Vec::new()], ..Burst::default() };
        for _ in 0..self.rng.between(2, 5) {
            let (micros, token) = (self.nap(), self.token());
            burst.sleeps += micros;
            burst.stages[0].push(Front::Query(format!("SLEEP {micros} {token}")));
        }
        burst
    }

    /// How long a statement sleeps.
    fn nap(&mut self) -> u64 {
        let (low, high) = self.habits.sleep;
        self.rng.skewed(low, high)
    }

    fn copy_in(&mut self) -> Burst {
        let token = self.token();
        let text = if self.mistake() { format!("BOGUS {token}") } else { format!("COPY IN {token}") };
        let simple = self.rng.chance(500);
        let mut begin = if simple { vec![Front::Query(text)] } else { unnamed(text) };
        let mut data: Vec<Front> = (0..self.rng.skewed(0, 60)).map(|_| self.copy_line(&token)).collect();
        data.push(match self.rng.below(8) {
            0 => Front::CopyFail(format!("given up {token}")),
            _ => Front::CopyDone,
        });
        if !simple {
            // libpq sends a Sync at once, which the server ignores, and another one after the data.
            begin.push(if self.rng.chance(500) { Front::Sync } else { Front::Flush });
            data.push(Front::Sync);
        }
        let stages = if self.rng.chance(600) { vec![begin, data] } else { vec![[begin, data].concat()] };
        Burst { stages, ..Burst::default() }
    }

    fn copy_line(&mut self, token: &str) -> Front {
        let bad = if self.rng.chance(5) { "BAD" } else { "" };
        let width = self.rng.skewed(1, 4_000) as usize;
        Front::CopyData(format!("{token}:{bad}{}\n", "y".repeat(width)))
    }

    fn copy_out(&mut self) -> Burst {
        let token = self.token();
        let (rows, width) = self.habits.rows;
        let text = format!("COPY OUT {} {} {token}", self.rng.skewed(0, rows), self.rng.between(0, width));
        if self.rng.chance(600) { query(text) } else { self.one_extended(text) }
    }

    /// Drops prepared statements, or all session state.
    fn forget(&mut self) -> Burst {
        let text = match self.rng.below(3) {
            0 => "DISCARD ALL".to_owned(),
            1 => "DEALLOCATE ALL".to_owned(),
            _ => self.about_statement(),
        };
        let forgets = text == "DISCARD ALL" && self.rules.pooled;
        let text = self.marked(&text);
        let burst = if self.rng.chance(700) { query(text) } else { self.one_extended(text) };
        Burst { forgets, ..burst }
    }

    /// A command of SQL that names a statement of the session's, if it has one.
    fn about_statement(&mut self) -> String {
        let verb = *self.rng.pick(&["DEALLOCATE", "EXECUTE"]);
        let name = self.some_statement();
        if name.is_empty() { "DEALLOCATE ALL".to_owned() } else { format!("{verb} {name}") }
    }

    /// The same, prepared; it may be longer than what is held where there is no room.
    fn prepared_about_statement(&mut self) -> Vec<Front> {
        let text = self.about_statement();
        let spaces = if self.rng.chance(300) { self.rng.skewed(1, 80_000) as usize } else { 0 };
        let text = self.marked(&text);
        unnamed(format!("{text}{}", " ".repeat(spaces)))
    }

    /// Many short pipelined queries: other waiters must not wait for all of them.
    fn queries(&mut self) -> Burst {
        let mut burst = Burst { stages: vec![Vec::new()], ..Burst::default() };
        for _ in 0..self.rng.between(2, 5 * self.habits.depth) {
            let micros = self.rng.between(1, 2_000);
            burst.sleeps += micros;
            let text = format!("SLEEP {micros} {}", self.token());
            push(&mut burst, [Front::Query(text)]);
        }
        burst
    }

    fn pipeline(&mut self) -> Burst {
        if self.rng.chance(150) {
            return self.queries();
        }
        let mut burst = Burst { stages: vec![Vec::new()], ..Burst::default() };
        for _ in 0..self.rng.between(1, self.habits.depth) {
            self.unit(&mut burst);
            if self.rng.chance(100) {
                push(&mut burst, [Front::Sync]);
            }
            if self.rng.chance(100) {
                push(&mut burst, [Front::Flush]);
                burst.stages.push(Vec::new());
            }
        }
        push(&mut burst, [Front::Sync]);
        burst
    }

    /// Adds a few messages that belong together.
    fn unit(&mut self, burst: &mut Burst) {
        match self.rng.below(15) {
            13 => {
                let messages = self.prepared_about_statement();
                push(burst, messages);
            }
            0..=2 => {
                let text = self.statement();
                push(burst, unnamed(text));
            }
            3..=5 => self.shared_statement(burst),
            6 => self.own_statement(burst),
            7 => self.portal_in_parts(burst),
            8 => {
                let of = *self.rng.pick(&[Of::Statement, Of::Portal]);
                let name = self.some_statement();
                push(burst, [if self.mistake() { Front::Describe(of, name) } else { Front::Close(of, name) }]);
            }
            9 if self.unnamed_is_harmless() => {
                // The unnamed statement, whether it exists or not.
                let values = (0..self.rng.below(2)).map(|_| self.token()).collect();
                let bind = Front::Bind { portal: String::new(), statement: String::new(), values };
                push(burst, [bind, execute("", 0)]);
            }
            10 => {
                let text = self.statement();
                push(burst, [Front::Query(text)]);
            }
            11 => {
                let (token, micros) = (self.token(), self.nap());
                burst.sleeps += micros;
                push(burst, unnamed(format!("SLEEP {micros} {token}")));
            }
            12 if self.rules.mode != PoolMode::Statement && self.rng.chance(500) => {
                let word = *self.rng.pick(&["BEGIN", "COMMIT", "ROLLBACK"]);
                let text = self.marked(word);
                push(burst, unnamed(text));
            }
            _ => {
                let portal = if self.mistake() { "nowhere" } else { "" };
                let text = self.statement();
                push(burst, [parse("", &text), bind("", "", &[]), Front::Describe(Of::Portal, portal.into())]);
                push(burst, [execute("", 0)]);
            }
        }
    }

    /// A statement whose text many clients use, under a random name.
    fn shared_statement(&mut self, burst: &mut Burst) {
        let name = format!("s{}{}", self.rng.below(6), self.suffix());
        let number = self.rng.below(4);
        let text = ["ECHO $1", "ROWS 3 10 $1", "ROWS $2 $3 $1", "FAIL $1"][number as usize];
        let known = self.core.statement_names().any(|n| n == name);
        if known && self.rng.chance(300) {
            push(burst, [Front::Close(Of::Statement, name.clone())]);
        }
        if !known || self.mistake() || self.rng.chance(200) {
            push(burst, [parse(&name, text)]);
        }
        if self.rng.chance(300) {
            push(burst, [Front::Describe(Of::Statement, name.clone())]);
        }
        let mut values = vec![self.token()];
        if number == 2 {
            values.extend(["4".to_owned(), "30".to_owned()]);
        }
        push(burst, [Front::Bind { portal: String::new(), statement: name, values }, execute("", 0)]);
    }

    /// A statement that only this client uses.
    fn own_statement(&mut self, burst: &mut Burst) {
        let name = format!("own{}{}", self.rng.below(3), self.suffix());
        let text = self.statement();
        push(burst, [Front::Close(Of::Statement, name.clone()), parse(&name, &text), bind("", &name, &[])]);
        push(burst, [execute("", 0)]);
    }

    fn portal_in_parts(&mut self, burst: &mut Burst) {
        let token = self.token();
        let text = self.rows(&token);
        let portal = *self.rng.pick(&["", "p1", "p2"]);
        push(burst, [parse("", &text), bind(portal, "", &[])]);
        for _ in 0..self.rng.between(1, 3) {
            let most = self.rng.skewed(1, 50) as i32;
            push(burst, [execute(portal, most)]);
        }
        if self.rng.chance(500) {
            push(burst, [Front::Close(Of::Portal, portal.into())]);
        }
    }

    /// Where statements stay on servers after a session, their names must be unique to client and session.
    fn suffix(&self) -> String {
        if self.inherits() { format!("_{}_{}", self.client, self.session) } else { String::new() }
    }

    /// Whether a server may have state of another client's session.
    fn inherits(&self) -> bool {
        self.rules.pooled && self.rules.mode == PoolMode::Session && self.rules.on_dirty == OnDirty::Keep
    }

    /// Whether running the unnamed statement again changes no state.
    fn unnamed_is_harmless(&self) -> bool {
        if self.inherits() && self.core.unnamed_text().is_none() {
            return false;
        }
        let harmless = |text: &str| ["ECHO", "ROWS", "WRITE", "FAIL"].iter().any(|word| text.starts_with(word));
        self.core.unnamed_text().is_none_or(harmless)
    }

    /// The name of a statement that the session has, if it has one.
    fn some_statement(&mut self) -> String {
        let names: Vec<&str> = self.core.statement_names().filter(|name| !name.is_empty()).collect();
        if names.is_empty() { String::new() } else { (*self.rng.pick(&names)).to_owned() }
    }
}

fn query(text: String) -> Burst {
    Burst { stages: vec![vec![Front::Query(text)]], ..Burst::default() }
}

fn push(burst: &mut Burst, messages: impl IntoIterator<Item = Front>) {
    burst.stages.last_mut().expect("a burst has a stage").extend(messages);
}

fn parse(name: &str, text: &str) -> Front {
    Front::Parse { name: name.to_owned(), text: text.to_owned() }
}

fn bind(portal: &str, statement: &str, values: &[&str]) -> Front {
    let values = values.iter().map(|v| (*v).to_owned()).collect();
    Front::Bind { portal: portal.to_owned(), statement: statement.to_owned(), values }
}

fn execute(portal: &str, max_rows: i32) -> Front {
    Front::Execute { portal: portal.to_owned(), max_rows }
}

fn unnamed(text: String) -> Vec<Front> {
    vec![parse("", &text), bind("", "", &[]), execute("", 0)]
}
