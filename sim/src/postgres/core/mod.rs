//! One session of a PostgreSQL server: the effects of each message, and the replies.
//!
//! Owns the protocol's rules after the login: transactions, skipping after an error in the extended protocol, portals,
//! statements, COPY. Must not know bytes, time or other sessions, so that a client can run the same rules as a
//! reference and compare. Source: PostgreSQL's documentation, "Message Flow"; the order of checks is that of its
//! `exec_parse_message`, `exec_bind_message` and similar functions.

mod run;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_pgwire::Of;
use weir_pgwire::tag::{back, front};

use super::language::{self, Command};
use super::settings::Settings;
use crate::message::Front;
use crate::reply::Reply;

/// When changes of settings are reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reporting {
    /// At once, as PostgreSQL did before release 14.
    AtOnce,
    /// Before ReadyForQuery, as PostgreSQL does since release 14.
    BeforeReady,
}

/// Why a statement failed: an SQLSTATE.
type Code = &'static str;

/// The state of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Transaction {
    /// No transaction, or an implicit one that the next Sync ends.
    Idle,
    /// Inside BEGIN.
    Open,
    /// Inside BEGIN, after an error.
    Failed,
}

#[derive(Clone, Debug)]
struct Statement {
    text: String,
    parameters: usize,
}

#[derive(Clone, Debug)]
struct Portal {
    /// `None`: an empty statement.
    command: Option<Command>,
    /// Rows returned so far.
    position: u64,
}

/// Where the data of a COPY goes.
#[derive(Clone, Debug)]
struct CopyIn {
    lines: u64,
}

/// The protocol that a statement was sent with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Protocol {
    Simple,
    Extended,
}

/// A session after its login.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    /// The session's settings.
    pub(crate) settings: Settings,
    reporting: Reporting,
    transaction: Transaction,
    /// After an error in the extended protocol, everything up to Sync is skipped.
    skipping: bool,
    /// The protocol of the running statement; valid while it sleeps or copies.
    protocol: Protocol,
    statements: BTreeMap<String, Statement>,
    /// Statements made with SQL's PREPARE.
    sql_prepared: BTreeMap<String, String>,
    portals: BTreeMap<String, Portal>,
    copy: Option<CopyIn>,
    /// Statements of a simple Query that are still to run.
    rest: VecDeque<Command>,
    sleeping: Option<(u64, String)>,
    listens: BTreeSet<String>,
    /// How often the session was asked for the count of changed functions.
    bodies_asked: u64,
    /// The session has listened.
    pub(crate) has_listened: bool,
    tables: BTreeSet<String>,
    /// Advisory locks of the session, which outlive a transaction that fails.
    locks: BTreeSet<String>,
    /// What the session has drawn last of a sequence, and whether the transaction under way has.
    drawn: Option<String>,
    has_just_drawn: bool,
    /// Whether the session has ever asked for that.
    has_asked: bool,
    /// Listens and temporary tables at the beginning of the transaction.
    saved: Option<(BTreeSet<String>, BTreeSet<String>)>,
    /// Notifications held back until the end of the transaction.
    pending: Vec<(String, String)>,
    /// Notifications to be delivered to other sessions.
    pub(crate) notified: Vec<(String, String)>,
    /// Its own notifications that the session itself receives.
    heard: Vec<(String, String)>,
    /// Replies in order.
    pub(crate) out: VecDeque<Reply>,
    /// Whether buffered replies must be sent.
    pub(crate) flush: bool,
}

impl Core {
    /// A session right after its login.
    pub(crate) fn new(settings: Settings, reporting: Reporting) -> Core {
        Core {
            settings,
            reporting,
            transaction: Transaction::Idle,
            skipping: false,
            protocol: Protocol::Simple,
            statements: BTreeMap::new(),
            sql_prepared: BTreeMap::new(),
            portals: BTreeMap::new(),
            copy: None,
            rest: VecDeque::new(),
            sleeping: None,
            listens: BTreeSet::new(),
            bodies_asked: 0,
            has_listened: false,
            tables: BTreeSet::new(),
            locks: BTreeSet::new(),
            saved: None,
            pending: Vec::new(),
            notified: Vec::new(),
            heard: Vec::new(),
            drawn: None,
            has_just_drawn: false,
            has_asked: false,
            out: VecDeque::new(),
            flush: false,
        }
    }

    /// The state of the transaction.
    pub(crate) fn transaction(&self) -> Transaction {
        self.transaction
    }

    /// Whether the data of a COPY is expected.
    pub(crate) fn copying(&self) -> bool {
        self.copy.is_some()
    }

    /// How many microseconds the running statement sleeps; meanwhile no message may be fed.
    pub(crate) fn sleeping(&self) -> Option<u64> {
        self.sleeping.as_ref().map(|(micros, _)| *micros)
    }

    /// What the sleep returns that is under way.
    pub(crate) fn sleeps_for(&self) -> Option<&str> {
        self.sleeping.as_ref().map(|(_, token)| token.as_str())
    }

    /// Whether changed settings are reported when they change, and not before ReadyForQuery.
    pub(crate) fn reports_at_once(&self) -> bool {
        self.reporting == Reporting::AtOnce
    }

    /// Whether the session listens on a channel.
    pub(crate) fn listens_on(&self, channel: &str) -> bool {
        self.listens.contains(channel)
    }

    /// A channel on which the session listens.
    pub(crate) fn channel(&self) -> Option<&str> {
        self.listens.first().map(String::as_str)
    }

    /// Takes the session's own notifications that it receives itself, in order.
    pub(crate) fn take_heard(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.heard)
    }

    /// State that a client left behind and the next one could notice, except reported settings, as WHOAMI shows it.
    pub(crate) fn leftovers(&self) -> String {
        self.leftovers_but("-")
    }

    /// The same without what begins so.
    pub(crate) fn leftovers_but(&self, own: &str) -> String {
        let mut all = self.settings.leftovers();
        all.extend(self.leftovers_beside_settings().into_iter().filter(|it| !it.starts_with(own)));
        all.join(" ")
    }

    /// The same without settings.
    pub(crate) fn leftovers_beside_settings(&self) -> Vec<String> {
        let mut all = Vec::new();
        all.extend(self.sql_prepared.keys().map(|name| format!("prepared {name}")));
        all.extend(self.listens.iter().map(|name| format!("listens {name}")));
        all.extend(self.tables.iter().map(|name| format!("table {name}")));
        all.extend(self.locks.iter().map(|name| format!("lock {name}")));
        all
    }

    /// Drops the state that [`Core::leftovers`] shows.
    pub(crate) fn forget_leftovers(&mut self) {
        self.settings.forget_unreported();
        self.sql_prepared.clear();
        self.listens.clear();
        self.tables.clear();
        self.locks.clear();
    }

    /// The names of the protocol's prepared statements.
    pub(crate) fn statement_names(&self) -> impl Iterator<Item = &str> {
        self.statements.keys().map(String::as_str)
    }

    /// The text of the unnamed statement.
    pub(crate) fn unnamed_text(&self) -> Option<&str> {
        self.statements.get("").map(|statement| statement.text.as_str())
    }

    /// The last message failed after all, for a reason unknown to this session.
    pub(crate) fn fail_instead(&mut self) {
        self.out.clear();
        self.skipping = true;
    }

    /// Whether the session has ever asked for what it has drawn of a sequence.
    pub(crate) fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// What the session has drawn was lost, unless the transaction under way has drawn it. Returns whether it was.
    pub(crate) fn lose_drawn(&mut self) -> bool {
        !self.has_just_drawn && self.drawn.take().is_some()
    }

    /// The last message failed because of a limit; if it was a Parse of `name`, the statement does not exist.
    pub(crate) fn refuse_instead(&mut self, name: Option<&str>) {
        name.into_iter().for_each(|name| drop(self.statements.remove(name)));
        self.fail("54000", Protocol::Extended);
        self.out.clear();
    }

    /// A message was cancelled before the session handled it.
    pub(crate) fn cancel_unseen(&mut self, message: &Front) {
        if matches!(message, Front::Query(_) | Front::FunctionCall(_)) {
            self.fail("57014", Protocol::Simple);
            self.end_query();
        } else {
            self.fail("57014", Protocol::Extended);
        }
    }

    /// Handles a message.
    pub(crate) fn feed(&mut self, message: &Front) {
        debug_assert!(self.sleeping.is_none(), "a sleeping session reads nothing");
        if self.copy.is_some() {
            return self.feed_copy(message);
        }
        if self.skipping && !matches!(message, Front::Sync) {
            return;
        }
        let result = match message {
            Front::Query(text) => return self.query(text),
            Front::FunctionCall(argument) => return self.function_call(argument),
            Front::Sync => return self.sync(),
            Front::Flush => {
                self.flush = true;
                Ok(())
            }
            Front::Parse { name, text } => self.parse(name, text),
            Front::Bind { portal, statement, values } => self.bind(portal, statement, values),
            Front::Describe(of, name) => self.describe(*of, name),
            Front::Execute { portal, max_rows } => self.execute(portal, *max_rows),
            Front::Close(of, name) => {
                self.close(*of, name);
                Ok(())
            }
            // Late COPY messages are ignored; the other messages are handled by the caller.
            Front::CopyData(_) | Front::CopyDone | Front::CopyFail(_) | Front::Password(_) | Front::Terminate => Ok(()),
        };
        if let Err(code) = result {
            self.fail(code, Protocol::Extended);
        }
    }

    /// Handles a message of a known kind whose body is malformed.
    pub(crate) fn feed_malformed(&mut self, tag: u8) {
        if self.copy.is_some() {
            return self.feed_copy(&Front::Terminate);
        }
        match tag {
            // Outside a COPY their bodies are not read.
            front::COPY_DATA | front::COPY_DONE | front::COPY_FAIL => {}
            front::SYNC => {
                self.fail("08P01", Protocol::Simple);
                self.sync();
            }
            _ if self.skipping => {}
            front::QUERY | front::FUNCTION_CALL => {
                self.fail("08P01", Protocol::Simple);
                self.end_query();
            }
            _ => self.fail("08P01", Protocol::Extended),
        }
    }

    /// The sleep is over, or was cancelled.
    pub(crate) fn wake(&mut self, cancelled: bool) {
        let Some((_, token)) = self.sleeping.take() else { return };
        let protocol = self.protocol;
        if cancelled {
            self.fail("57014", protocol);
            if protocol == Protocol::Simple {
                self.end_query();
            }
            return;
        }
        self.out.push_back(Reply::Row(token));
        self.complete("SELECT 1");
        if protocol == Protocol::Simple {
            self.run_rest();
        }
    }

    fn query(&mut self, text: &str) {
        self.statements.remove("");
        let commands = match language::parse_all(text) {
            Ok(commands) => commands,
            Err(_) => {
                self.fail("42601", Protocol::Simple);
                return self.end_query();
            }
        };
        if commands.is_empty() {
            self.out.push_back(Reply::Bare(back::EMPTY_QUERY));
            return self.end_query();
        }
        self.portals.remove("");
        self.rest = commands.into();
        self.run_rest();
    }

    /// Runs the remaining statements of a simple Query, up to a sleep or a COPY.
    fn run_rest(&mut self) {
        self.protocol = Protocol::Simple;
        while let Some(command) = self.rest.pop_front() {
            if let Err(code) = self.run_simple(&command) {
                self.rest.clear();
                self.fail(code, Protocol::Simple);
                break;
            }
            if self.sleeping.is_some() || self.copy.is_some() {
                return;
            }
        }
        self.end_query();
    }

    fn run_simple(&mut self, command: &Command) -> Result<(), Code> {
        self.check_failed(command)?;
        if let Some(column) = command.column() {
            self.out.push_back(Reply::RowDescription(column));
        }
        self.run(command, u64::MAX, &mut 0).map(|_| ())
    }

    /// A simple Query always ends its implicit transaction.
    fn end_query(&mut self) {
        if self.transaction == Transaction::Idle {
            self.commit();
        }
        self.ready();
    }

    fn sync(&mut self) {
        self.skipping = false;
        if self.transaction == Transaction::Idle {
            self.commit();
        }
        self.ready();
    }

    fn ready(&mut self) {
        self.report();
        self.out.push_back(Reply::Ready(match self.transaction {
            Transaction::Idle => b'I',
            Transaction::Open => b'T',
            Transaction::Failed => b'E',
        }));
        self.flush = true;
    }

    fn report(&mut self) {
        let changes = self.settings.changes();
        self.out.extend(changes.into_iter().map(|(name, value)| Reply::Parameter(name, value)));
    }

    fn report_at_once(&mut self) {
        if self.reporting == Reporting::AtOnce {
            self.report();
        }
    }

    fn function_call(&mut self, argument: &str) {
        if self.transaction == Transaction::Failed {
            self.fail("25P02", Protocol::Simple);
        } else {
            self.out.push_back(Reply::FunctionResult(argument.to_owned()));
        }
        self.end_query();
    }

    fn parse(&mut self, name: &str, text: &str) -> Result<(), Code> {
        self.begin_saving();
        if name.is_empty() {
            self.statements.remove("");
        }
        let commands = language::parse_all(text).map_err(|_| "42601")?;
        if commands.len() > 1 {
            return Err("42601");
        }
        if let Some(command) = commands.first() {
            self.check_failed(command)?;
        }
        if !name.is_empty() && self.statements.contains_key(name) {
            return Err("42P05");
        }
        let statement = Statement { text: text.to_owned(), parameters: language::parameters(text) };
        self.statements.insert(name.to_owned(), statement);
        self.out.push_back(Reply::Bare(back::PARSE_COMPLETE));
        Ok(())
    }

    fn bind(&mut self, portal: &str, statement: &str, values: &[String]) -> Result<(), Code> {
        self.begin_saving();
        let statement = self.statements.get(statement).ok_or("26000")?;
        if statement.parameters != values.len() {
            return Err("08P01");
        }
        let text = language::substitute(&statement.text, values);
        let command = language::parse_all(&text).map_err(|_| "22P02")?.pop();
        if let Some(command) = &command {
            self.check_failed(command)?;
        }
        if !portal.is_empty() && self.portals.contains_key(portal) {
            return Err("42P03");
        }
        self.portals.insert(portal.to_owned(), Portal { command, position: 0 });
        self.out.push_back(Reply::Bare(back::BIND_COMPLETE));
        Ok(())
    }

    fn describe(&mut self, of: Of, name: &str) -> Result<(), Code> {
        self.begin_saving();
        let column = match of {
            Of::Statement => {
                let statement = self.statements.get(name).ok_or("26000")?;
                let commands = language::parse_all(&statement.text).unwrap_or_default();
                let column = commands.first().and_then(Command::column);
                let parameters = statement.parameters;
                self.check_describe(column)?;
                self.out.push_back(Reply::ParameterDescription(parameters));
                column
            }
            Of::Portal => {
                let portal = self.portals.get(name).ok_or("34000")?;
                let column = portal.command.as_ref().and_then(Command::column);
                self.check_describe(column)?;
                column
            }
        };
        self.out.push_back(column.map_or(Reply::Bare(back::NO_DATA), Reply::RowDescription));
        Ok(())
    }

    /// In a failed transaction only a statement without a result can be described.
    fn check_describe(&self, column: Option<&str>) -> Result<(), Code> {
        if column.is_some() && self.transaction == Transaction::Failed { Err("25P02") } else { Ok(()) }
    }

    fn execute(&mut self, name: &str, max_rows: i32) -> Result<(), Code> {
        self.begin_saving();
        let portal = self.portals.get(name).ok_or("34000")?;
        let Some(command) = portal.command.clone() else {
            self.out.push_back(Reply::Bare(back::EMPTY_QUERY));
            return Ok(());
        };
        let mut position = portal.position;
        self.check_failed(&command)?;
        if position > 0 && command.column().is_none() {
            return Err("55000");
        }
        self.protocol = Protocol::Extended;
        let limit = if max_rows > 0 { max_rows as u64 } else { u64::MAX };
        self.run(&command, limit, &mut position)?;
        if let Some(portal) = self.portals.get_mut(name) {
            portal.position = position.max(1);
        }
        Ok(())
    }

    fn close(&mut self, of: Of, name: &str) {
        match of {
            Of::Statement => drop(self.statements.remove(name)),
            Of::Portal => drop(self.portals.remove(name)),
        }
        self.out.push_back(Reply::Bare(back::CLOSE_COMPLETE));
    }

    /// A transaction starts, if none is in progress.
    fn begin_saving(&mut self) {
        self.settings.begin();
        if self.saved.is_none() {
            self.saved = Some((self.listens.clone(), self.tables.clone()));
        }
    }

    fn check_failed(&self, command: &Command) -> Result<(), Code> {
        let refused = self.transaction == Transaction::Failed && !command.ends_transaction();
        if refused { Err("25P02") } else { Ok(()) }
    }

    fn commit(&mut self) {
        self.has_just_drawn = false;
        self.settings.commit();
        self.saved = None;
        self.portals.clear();
        let heard = self.pending.iter().filter(|(channel, _)| self.listens.contains(channel)).cloned();
        self.heard.extend(heard);
        self.notified.append(&mut self.pending);
    }

    fn rollback(&mut self) {
        self.has_just_drawn = false;
        self.settings.rollback();
        if let Some((listens, tables)) = self.saved.take() {
            self.listens = listens;
            self.tables = tables;
        }
        self.portals.clear();
        self.pending.clear();
    }

    fn complete(&mut self, tag: &str) {
        // Versions that report at once report changes while the command runs, before its tag.
        self.report_at_once();
        self.out.push_back(Reply::Complete(tag.to_owned()));
    }

    fn fail(&mut self, code: Code, protocol: Protocol) {
        self.rest.clear();
        self.out.push_back(Reply::Error { fatal: false, code, message: format!("model error {code}") });
        match self.transaction {
            Transaction::Idle => self.rollback(),
            Transaction::Open => {
                // Settings are restored at once, portals end with the transaction block.
                self.settings.rollback();
                self.transaction = Transaction::Failed;
            }
            Transaction::Failed => {}
        }
        self.report_at_once();
        self.skipping = protocol == Protocol::Extended;
        self.flush = true;
    }

    fn feed_copy(&mut self, message: &Front) {
        let protocol = self.protocol;
        let result = match message {
            Front::Sync | Front::Flush => return,
            Front::CopyData(line) if line.contains("BAD") => Err("22P04"),
            Front::CopyData(_) => {
                self.copy.iter_mut().for_each(|copy| copy.lines += 1);
                return;
            }
            Front::CopyDone => Ok(self.copy.as_ref().map_or(0, |copy| copy.lines)),
            Front::CopyFail(_) => Err("57014"),
            _ => Err("08P01"),
        };
        self.copy = None;
        match result {
            Ok(lines) => {
                self.complete(&format!("COPY {lines}"));
                if protocol == Protocol::Simple {
                    self.run_rest();
                }
            }
            Err(code) => {
                self.fail(code, protocol);
                if protocol == Protocol::Simple {
                    self.end_query();
                }
            }
        }
    }
}
