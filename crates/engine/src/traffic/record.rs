//! The record of one pool: a line for each application, statement and use of session state, and how many clients did
//! what at the same time.

use std::collections::HashMap;
use std::sync::Arc;

use weir_admin::{RecordedUse, TrafficLevels, TrafficLine, TrafficRecord};
use weir_base::{PoolMode, Time};
use weir_session::StatementId;

use super::client::FollowedClient;
use super::execution::{Execution, Executor, RecordedPool, StatementUse};
use super::level::LevelGauge;

/// The most bytes of a record.
const MAX_RECORD: usize = 1 << 20;
/// The most names of applications; the others are one.
const MAX_APPLICATIONS: usize = 64;
/// The longest name of an application that is kept.
const MAX_NAME: usize = 63;
/// What a client takes in the table.
const ENTRY: usize = 2 * size_of::<u64>();
/// What a line takes beside its text.
const LINE: usize = size_of::<Line>() + 2 * size_of::<(LineKey, u32)>();

/// See the head of the file.
pub(crate) struct Record {
    database: Arc<str>,
    user: Arc<str>,
    mode: PoolMode,
    since: Time,
    until: Time,
    lines: Vec<Line>,
    by_key: HashMap<LineKey, u32>,
    applications: Vec<Box<str>>,
    /// The applications that ask for what an earlier transaction has drawn of sequences, a bit for each place.
    askers: u128,
    clients: HashMap<u64, FollowedClient>,
    sessions: LevelGauge,
    transactions: LevelGauge,
    holders: LevelGauge,
    either: LevelGauge,
    missed: u64,
    unfollowed: u64,
    /// What it takes, and the most that it may take.
    used: usize,
    limit: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct LineKey {
    id: u64,
    does: RecordedUse,
    /// The place of the name; [`MAX_APPLICATIONS`] for the others.
    application: u16,
}

struct Line {
    key: LineKey,
    text: Box<str>,
    times: u64,
    clients: u64,
    first: Time,
    last: Time,
}

impl Record {
    /// What a record takes at least.
    pub(super) const LEAST: usize =
        size_of::<Record>() + 4 * LevelGauge::BYTES + MAX_APPLICATIONS * (MAX_NAME + size_of::<Box<str>>());

    /// An empty record of a pool, of at most so many bytes.
    pub(super) fn new(pool: &RecordedPool<'_>, since: Time, until: Time, room: usize) -> Record {
        Record {
            database: pool.database.clone(),
            user: pool.user.clone(),
            mode: pool.mode,
            since,
            until,
            lines: Vec::new(),
            by_key: HashMap::new(),
            applications: Vec::new(),
            askers: 0,
            clients: HashMap::new(),
            sessions: LevelGauge::default(),
            transactions: LevelGauge::default(),
            holders: LevelGauge::default(),
            either: LevelGauge::default(),
            missed: 0,
            unfollowed: 0,
            used: Record::LEAST,
            limit: room.min(MAX_RECORD),
        }
    }

    pub(super) fn database(&self) -> &str {
        &self.database
    }

    pub(super) fn is_of(&self, database: &Arc<str>, user: &Arc<str>) -> bool {
        Arc::ptr_eq(&self.database, database) && Arc::ptr_eq(&self.user, user)
    }

    pub(super) fn is_active(&self, now: Time) -> bool {
        now < self.until
    }

    /// What it takes.
    pub(super) fn used(&self) -> usize {
        self.used
    }

    /// The most that it may take.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// It ends, at this time at the latest: its clients are not followed any more.
    pub(super) fn end(&mut self, now: Time) {
        self.until = self.until.min(now);
        for gauge in [&mut self.sessions, &mut self.transactions, &mut self.holders, &mut self.either] {
            gauge.pass(self.until);
            gauge.stop();
        }
        let clients: usize = self.clients.values().map(|client| client.used() + ENTRY).sum();
        self.used -= clients;
        self.clients = HashMap::new();
        self.limit = self.used;
    }

    /// Whether there is room for whatever one client may do.
    fn has_room(&self) -> bool {
        self.used + FollowedClient::MOST <= self.limit
    }

    /// A client that is followed from now on, if there is room for it.
    fn follow(&mut self, client: u64, now: Time) {
        if self.clients.contains_key(&client) {
            return;
        }
        if !self.has_room() {
            self.unfollowed += 1;
            return;
        }
        let new = FollowedClient::default();
        self.used += new.used() + ENTRY;
        self.sessions.change(true, now);
        self.clients.insert(client, new);
    }

    /// Does something with a client that is followed.
    fn with<R>(&mut self, client: u64, act: impl FnOnce(&mut FollowedClient) -> R) -> Option<R> {
        let client = self.clients.get_mut(&client)?;
        let before = client.used();
        let result = act(client);
        self.used = self.used + client.used() - before;
        Some(result)
    }

    pub(super) fn uses_server(&mut self, client: u64, now: Time, waiting: u32, sent: Vec<(StatementId, StatementUse)>) {
        self.follow(client, now);
        let room = self.has_room();
        let before = self.with(client, |client| {
            if room {
                client.sends(sent);
            }
            (std::mem::replace(&mut client.is_busy, true), client.holds)
        });
        if let Some((was_busy, holds)) = before {
            self.changed((was_busy, holds), (true, holds), now);
        }
        self.count_waiting(waiting);
    }

    /// Clients that wait for a server would be in a transaction, too; in mode session they only connect.
    fn count_waiting(&mut self, waiting: u32) {
        if self.mode != PoolMode::Session {
            self.transactions.touch(u64::from(waiting));
            self.either.touch(u64::from(waiting));
        }
    }

    /// A client's request was executed.
    pub(super) fn executed(&mut self, by: &Executor<'_>, what: Execution, now: Time) {
        let sent = self.with(by.client, |client| {
            client.ended(what.rolled_back);
            client.sent_as(what.statement)
        });
        if !what.failed {
            sent.flatten().into_iter().chain(what.usage).for_each(|usage| self.does(by, &usage, now));
        }
    }

    fn does(&mut self, by: &Executor<'_>, usage: &StatementUse, now: Time) {
        if !self.has_room() || !self.clients.contains_key(&by.client) {
            self.missed += u64::from(usage.uses.is_recorded());
            return;
        }
        let asker = 1_u128 << self.application(by.application);
        let draws = usage.uses.may_use_sequence && self.askers & asker != 0;
        let done = self.with(by.client, |client| client.does(&usage.uses, by, draws)).unwrap_or_default();
        if done.iter().any(|(does, _)| *does == RecordedUse::FoundSequence) {
            self.askers |= asker;
        }
        for (does, is_undone) in done {
            let Some(line) = self.line(by, usage, does, now) else {
                self.missed += 1;
                continue;
            };
            let counts = self.with(by.client, |client| client.note(line, is_undone));
            counts.flatten().into_iter().for_each(|line| self.count(by.client, line, now));
        }
    }

    /// The line of a use, if there is room for it.
    fn line(&mut self, by: &Executor<'_>, usage: &StatementUse, does: RecordedUse, now: Time) -> Option<u32> {
        let key = LineKey { id: usage.id, does, application: self.application(by.application) };
        if let Some(line) = self.by_key.get(&key) {
            return Some(*line);
        }
        let bytes = LINE + usage.text.len();
        if self.used + bytes > self.limit {
            return None;
        }
        self.used += bytes;
        let line = self.lines.len() as u32;
        self.lines.push(Line { key, text: usage.text.clone(), times: 0, clients: 0, first: now, last: now });
        self.by_key.insert(key, line);
        Some(line)
    }

    fn application(&mut self, name: &str) -> u16 {
        let name = &name[..(0..=name.len().min(MAX_NAME)).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0)];
        let known = self.applications.iter().position(|known| **known == *name);
        known.unwrap_or_else(|| {
            if self.applications.len() < MAX_APPLICATIONS {
                self.applications.push(name.into());
                self.applications.len() - 1
            } else {
                MAX_APPLICATIONS
            }
        }) as u16
    }

    fn count(&mut self, client: u64, place: u32, now: Time) {
        let is_new = self.with(client, |client| client.is_new_to(place)).unwrap_or_default();
        let Some(line) = self.lines.get_mut(place as usize) else { return };
        if line.times == 0 {
            line.first = now;
        }
        (line.times, line.last) = (line.times + 1, now);
        line.clients += u64::from(is_new);
    }

    /// A client's server is in no transaction, and has answered everything.
    pub(super) fn is_free(&mut self, by: &Executor<'_>, now: Time, waiting: u32) {
        self.count_waiting(waiting);
        let ended = self.with(by.client, |client| {
            let before = (std::mem::take(&mut client.is_busy), client.holds);
            (before, client.transaction_ended(), client.holds)
        });
        let Some((before, lines, holds)) = ended else { return };
        lines.into_iter().for_each(|line| self.count(by.client, line, now));
        self.changed(before, (false, holds), now);
    }

    /// A client was busy, and held state, and is and does now.
    fn changed(&mut self, (was_busy, held): (bool, bool), (is_busy, holds): (bool, bool), now: Time) {
        for (gauge, before, after) in [
            (&mut self.transactions, was_busy, is_busy),
            (&mut self.holders, held, holds),
            (&mut self.either, was_busy || held, is_busy || holds),
        ] {
            if before != after {
                gauge.change(after, now);
            }
        }
    }

    pub(super) fn client_left(&mut self, client: u64, now: Time) {
        let Some(client) = self.clients.remove(&client) else { return };
        self.used -= client.used() + ENTRY;
        self.sessions.change(false, now);
        self.changed((client.is_busy, client.holds), (false, false), now);
    }

    /// The record for a report.
    pub(super) fn report(&self, now: Time, wall: &impl Fn(Time) -> u64) -> TrafficRecord {
        let end = now.min(self.until);
        let line = |line: &Line| TrafficLine {
            application: self.applications.get(usize::from(line.key.application)).map(|name| name.to_string()),
            id: line.key.id,
            text: line.text.to_string(),
            does: line.key.does,
            times: line.times,
            clients: line.clients,
            first: wall(line.first),
            last: wall(line.last),
        };
        TrafficRecord {
            database: self.database.to_string(),
            user: self.user.to_string(),
            mode: self.mode,
            active: self.is_active(now),
            since: wall(self.since),
            until: wall(self.until),
            lines: self.lines.iter().filter(|line| line.times > 0).map(line).collect(),
            missed: self.missed,
            unfollowed: self.unfollowed,
            bytes: self.used as u64,
            levels: TrafficLevels {
                sessions: self.sessions.level(end),
                transactions: self.transactions.level(end),
                holders: self.holders.level(end),
                either: self.either.level(end),
            },
        }
    }
}
