//! The statistics of statements of one worker.
//!
//! Owns the table: one entry for each pool and fingerprint, `track_statements` of them at most, each of at most
//! [`ENTRY_BYTES`]. When it is full, the statement with the least time makes room (space-saving, Metwally, Agrawal and
//! El Abbadi 2005, weighted by time): an entry keeps how much time it may have missed, which is never more than all
//! time divided by the number of entries. Texts are only held as fingerprints, without values.
//!
//! A text is hashed first; one that is known needs no more than that. Off, there is no table.
//!
//! While traffic is recorded ([`crate::traffic`]), the table also knows what each of its texts does with session state.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use spans::Spans;
use weir_admin::{
    ApplicationUse, Histogram, MAX_APPLICATIONS, SpanRecord, StatementCounts, StatementRecord, StatementTotals,
};
use weir_base::{ConnId, PoolMode, Span, Time};
use weir_config::Config;
use weir_pgwire::sql::{self, StateUse};
use weir_session::{Executed, StatementId, StatementWatch};

use crate::handles::PoolIx;
use crate::traffic::{Execution, RecordedPool, StatementUse, Traffic};

mod spans;

/// The most bytes of an entry, with its share of the tables beside it.
pub(crate) const ENTRY_BYTES: u64 = 4096;
/// The longest fingerprint that is kept, in bytes.
const MAX_TEXT: usize = 2000;
/// The longest application_name that is kept; PostgreSQL's.
const MAX_APPLICATION: usize = 63;
/// Entries where only the log of slow statements, spans or a record of traffic need them.
const FOR_LOG: u32 = 100;
/// How long an unanswered request keeps the entry of its statement.
const PINNED: Span = Span::from_secs(600);
/// How many entries with an unanswered request are passed over.
const MAX_PASSED: usize = 16;
/// The key of the hash by which fingerprints are known: the same everywhere.
const ID_KEY: u64 = 0x5765_6972_5374_6174;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Statements {
    table: Option<Box<Table>>,
    /// What is recorded of pools' traffic.
    traffic: Traffic,
    /// The number of entries that the configuration wants, and the key of the hash of texts.
    wanted: (usize, u64),
}

struct Table {
    capacity: usize,
    /// The key of the hash of texts.
    key: u64,
    // Each is allocated alone: a vector of them would hold room for as many again when it grows.
    #[allow(clippy::vec_box)]
    entries: Vec<Box<Entry>>,
    by_id: HashMap<(u64, PoolIx), u16>,
    /// Statements by the hash of a text, at the hash's place.
    known: Vec<(u64, StatementId)>,
    /// Every entry once, by a rank that it has or had.
    ranks: BinaryHeap<Reverse<(u64, u16)>>,
    passed: Vec<Reverse<(u64, u16)>>,
    pools: Vec<Option<PoolTime>>,
    /// The pool that is being fed, and the time.
    pool: PoolIx,
    now: Time,
    executed: Vec<Executed>,
    normal: Vec<u8>,
    totals: StatementTotals,
    /// The spans, where spans are made.
    spans: Option<Box<Spans>>,
}

/// The names of a pool, and the time of all its statements.
struct PoolTime {
    database: Arc<str>,
    user: Arc<str>,
    run: u64,
}

struct Entry {
    id: u64,
    pool: PoolIx,
    database: Arc<str>,
    user: Arc<str>,
    text: Box<str>,
    /// Tells the entry's handles from those of earlier entries in the same place.
    generation: u16,
    counts: StatementCounts,
    times: Histogram,
    applications: Vec<Application>,
    others: (u64, u64),
    /// The entry's time and calls, with what it may have missed.
    rank: u64,
    missed: u64,
    since: Time,
    asked_at: Time,
    is_open: bool,
    /// What its texts do with session state, where traffic was recorded.
    uses: Option<Arc<StateUse>>,
}

struct Application {
    name: Box<str>,
    calls: u64,
    run: u64,
}

/// Whose session is fed, and when.
pub(crate) struct Fed<'a> {
    pub(crate) now: Time,
    pub(crate) pool: PoolIx,
    pub(crate) database: &'a Arc<str>,
    pub(crate) user: &'a Arc<str>,
    pub(crate) mode: PoolMode,
}

/// One execution that took long.
pub(crate) struct Slow<'a> {
    pub(crate) id: u64,
    pub(crate) text: &'a str,
    pub(crate) run: u64,
    pub(crate) waited: u64,
    pub(crate) executed: Executed,
}

impl Statements {
    /// Makes, keeps or drops the table, as the configuration says. `key` is random.
    pub(crate) fn apply_config(&mut self, config: &Config, key: u64) {
        let logs = if config.log.min_duration_statement.is_zero() { 0 } else { FOR_LOG };
        let spans = if config.telemetry.makes_spans() { FOR_LOG } else { 0 };
        self.wanted = (config.track_statements.max(logs).max(spans) as usize, key);
        self.resize();
        if let Some(table) = &mut self.table {
            let texts = config.track_statements > 0;
            table.spans =
                (spans > 0).then(|| Box::new(table.spans.take().map_or_else(Spans::default, |it| *it).with(texts)));
        }
    }

    /// Makes, keeps or drops the table.
    fn resize(&mut self) {
        let (wanted, key) = self.wanted;
        let capacity = if self.traffic.is_on() { wanted.max(FOR_LOG as usize) } else { wanted };
        if self.table.as_ref().map_or(0, |table| table.capacity) != capacity {
            self.table = (capacity > 0).then(|| Box::new(Table::new(capacity, key)));
        }
    }

    /// Begins to record traffic, or ends it, as `change` does.
    pub(crate) fn change_traffic(&mut self, change: impl FnOnce(&mut Traffic)) {
        change(&mut self.traffic);
        self.resize();
    }

    /// What is recorded of pools' traffic.
    #[inline]
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// What is recorded of pools' traffic, for what has happened.
    #[inline]
    pub(crate) fn traffic_mut(&mut self) -> &mut Traffic {
        &mut self.traffic
    }

    /// A session of this pool is fed: what counts its statements.
    #[inline]
    pub(crate) fn watch<'f>(&mut self, whose: impl FnOnce() -> Fed<'f>) -> Option<&mut dyn StatementWatch> {
        let table = self.table.as_deref_mut()?;
        let fed = whose();
        table.enter(fed.now, fed.pool, fed.database, fed.user);
        if self.traffic.is_on() && !self.watch_traffic(&fed) {
            return None;
        }
        Some(self)
    }

    /// A session is fed while traffic is recorded. Returns whether there still is a table.
    #[cold]
    fn watch_traffic(&mut self, fed: &Fed<'_>) -> bool {
        let pool = RecordedPool { ix: fed.pool, database: fed.database, user: fed.user, mode: fed.mode };
        if !self.traffic.enter(fed.now, &pool) {
            self.resize();
        }
        self.table.is_some()
    }

    /// Whether a statement was executed in the last feeding.
    #[inline]
    pub(crate) fn has_executed(&self) -> bool {
        self.table.as_ref().is_some_and(|table| !table.executed.is_empty())
    }

    /// A client was fed, whose requests go to this server.
    #[inline]
    pub(crate) fn sent_to(&mut self, server: ConnId) {
        if let Some(spans) = self.table.as_mut().and_then(|table| table.spans.as_mut()) {
            spans.sent_to(server);
        }
    }

    /// A server has answered all.
    #[inline]
    pub(crate) fn is_idle(&mut self, server: ConnId) {
        if let Some(spans) = self.table.as_mut().and_then(|table| table.spans.as_mut()) {
            spans.is_idle(server);
        }
    }

    /// Takes the spans that have ended, and the number of spans for which there was no room. `wall` turns a time into
    /// the wall clock's.
    pub(crate) fn take_spans(&mut self, wall: impl Fn(Time) -> u64) -> (Vec<SpanRecord>, u64) {
        let spans = self.table.as_mut().and_then(|table| table.spans.as_mut());
        spans.map_or_else(Default::default, |spans| spans.take(wall))
    }

    /// Counts what `server` has executed in the last feeding: `run` microseconds together, of which the first has
    /// waited for its server before. `slow` receives those that ran for `limit` or longer, if that is not zero.
    pub(crate) fn record(
        &mut self,
        server: ConnId,
        (run, waited): (u64, u64),
        application: &str,
        limit: u64,
        slow: impl FnMut(&Slow<'_>),
    ) {
        if let Some(table) = &mut self.table {
            let traffic = self.traffic.records().then_some(&mut self.traffic);
            table.record(server, (run, waited), application, limit, slow, traffic);
        }
    }

    /// Counts from zero again.
    pub(crate) fn reset(&mut self) {
        if let Some(table) = &mut self.table {
            let spans = table.spans.take();
            **table = Table::new(table.capacity, table.key);
            table.spans = spans;
        }
    }

    /// The figures of the table.
    pub(crate) fn totals(&self) -> StatementTotals {
        self.table.as_ref().map_or_else(StatementTotals::default, |table| StatementTotals {
            tracked: table.entries.len() as u64,
            capacity: table.capacity as u64,
            ..table.totals
        })
    }

    /// A record for each entry, and the time of each pool: database, user, microseconds. `wall` turns a time into the
    /// wall clock's.
    pub(crate) fn records(&self, wall: impl Fn(Time) -> u64) -> (Vec<StatementRecord>, Vec<(String, String, u64)>) {
        let Some(table) = &self.table else { return Default::default() };
        let pools = table.pools.iter().flatten();
        let pools = pools.map(|pool| (pool.database.to_string(), pool.user.to_string(), pool.run)).collect();
        (table.entries.iter().filter(|entry| entry.counts.calls > 0).map(|entry| entry.record(&wall)).collect(), pools)
    }
}

impl Table {
    fn new(capacity: usize, key: u64) -> Table {
        Table {
            capacity: capacity.min(usize::from(u16::MAX) - 1),
            key,
            entries: Vec::new(),
            by_id: HashMap::new(),
            known: vec![(0, StatementId::NONE); (2 * capacity).next_power_of_two().max(256)],
            ranks: BinaryHeap::new(),
            passed: Vec::new(),
            pools: Vec::new(),
            pool: 0,
            now: Time::START,
            executed: Vec::new(),
            normal: Vec::new(),
            totals: StatementTotals::default(),
            spans: None,
        }
    }

    #[inline]
    fn enter(&mut self, now: Time, pool: PoolIx, database: &Arc<str>, user: &Arc<str>) {
        (self.now, self.pool) = (now, pool);
        if let Some(spans) = &mut self.spans {
            spans.begin();
        }
        let known = self.pools.get(pool as usize).and_then(Option::as_ref);
        if known.is_none_or(|known| !Arc::ptr_eq(&known.database, database) || !Arc::ptr_eq(&known.user, user)) {
            self.enter_new(pool, database, user);
        }
    }

    /// A pool is fed for the first time; its index may have been another's.
    #[cold]
    fn enter_new(&mut self, pool: PoolIx, database: &Arc<str>, user: &Arc<str>) {
        let at = pool as usize;
        if self.pools.len() <= at {
            self.pools.resize_with(at + 1, || None);
        }
        if self.pools[at].replace(PoolTime { database: database.clone(), user: user.clone(), run: 0 }).is_some() {
            // Statements of the earlier pool with this index are not found under the index any more.
            self.by_id.retain(|(_, ix), _| *ix != pool);
            self.known.fill((0, StatementId::NONE));
        }
    }

    fn entry(&mut self, statement: StatementId) -> Option<&mut Entry> {
        let (slot, generation) = ((statement.0 as u16).checked_sub(1)?, (statement.0 >> 16) as u16);
        let entry = self.entries.get_mut(usize::from(slot))?;
        (entry.generation == generation).then_some(entry)
    }

    fn handle(&self, slot: u16) -> StatementId {
        StatementId(u32::from(self.entries[usize::from(slot)].generation) << 16 | (u32::from(slot) + 1))
    }

    /// The statement of a text that was not seen lately.
    #[inline(never)]
    fn look_up(&mut self, text: &[u8]) -> StatementId {
        let mut normal = std::mem::take(&mut self.normal);
        sql::normalize(text, sql::MAX_READ, &mut normal);
        let id = hash(&normal, ID_KEY);
        let slot = match self.by_id.get(&(id, self.pool)) {
            Some(slot) => Some(*slot),
            None => self.admit(id, &normal),
        };
        self.normal = normal;
        slot.map_or(StatementId::NONE, |slot| self.handle(slot))
    }

    /// An entry for a statement without one, in place of the one with the least time if there is no other room.
    #[cold]
    fn admit(&mut self, id: u64, normal: &[u8]) -> Option<u16> {
        let pool = self.pools.get(self.pool as usize)?.as_ref()?;
        let (database, user) = (pool.database.clone(), pool.user.clone());
        let (slot, generation, missed) = if self.entries.len() < self.capacity {
            (self.entries.len() as u16, 0, 0)
        } else {
            let slot = self.evict()?;
            let before = &self.entries[usize::from(slot)];
            let key = (before.id, before.pool);
            let found = (slot, before.generation.wrapping_add(1), before.rank);
            if self.by_id.get(&key) == Some(&slot) {
                self.by_id.remove(&key);
            }
            self.totals.evicted += 1;
            found
        };
        let entry = Box::new(Entry {
            id,
            pool: self.pool,
            database,
            user,
            text: shown(normal),
            generation,
            counts: StatementCounts::default(),
            times: Histogram::default(),
            applications: Vec::new(),
            others: (0, 0),
            rank: missed,
            missed,
            since: self.now,
            asked_at: self.now,
            is_open: true,
            uses: None,
        });
        match self.entries.get_mut(usize::from(slot)) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.ranks.push(Reverse((missed, slot)));
        self.by_id.insert((id, self.pool), slot);
        Some(slot)
    }

    /// Takes the entry with the least rank out of the ranks; those that wait for an answer are passed over.
    fn evict(&mut self) -> Option<u16> {
        let mut found = None;
        while let Some(Reverse((rank, slot))) = self.ranks.pop() {
            let entry = &self.entries[usize::from(slot)];
            if entry.rank > rank {
                self.ranks.push(Reverse((entry.rank, slot)));
            } else if entry.is_open
                && self.now.since(entry.asked_at) < PINNED
                && self.passed.len() < MAX_PASSED.min(self.capacity - 1)
            {
                self.passed.push(Reverse((rank, slot)));
            } else {
                found = Some(slot);
                break;
            }
        }
        self.ranks.extend(self.passed.drain(..));
        found
    }

    fn record(
        &mut self,
        server: ConnId,
        (run, waited): (u64, u64),
        application: &str,
        limit: u64,
        mut slow: impl FnMut(&Slow<'_>),
        mut traffic: Option<&mut Traffic>,
    ) {
        let mut executed = std::mem::take(&mut self.executed);
        let each = run / executed.len().max(1) as u64;
        self.totals.calls += executed.len() as u64;
        self.totals.run += run;
        if let Some(pool) = self.pools.get_mut(self.pool as usize).and_then(Option::as_mut) {
            pool.run += run;
        }
        let mut spans = self.spans.take();
        let mut waited = waited;
        let now = self.now;
        let names = spans.as_ref().and_then(|_| self.names());
        for what in executed.drain(..) {
            let entry = self.entry(what.statement);
            if let (Some(spans), Some(names)) = (&mut spans, &names) {
                spans.executed(server, what, (now, each, waited), names, entry.as_ref().map(|it| (it.id, &*it.text)));
            }
            let Some(entry) = entry else { continue };
            if let Some(traffic) = &mut traffic {
                traffic.executed(entry.execution(what));
            }
            let waited = std::mem::take(&mut waited);
            entry.count(what, each, waited, application);
            if limit > 0 && each >= limit {
                slow(&Slow { id: entry.id, text: &entry.text, run: each, waited, executed: what });
            }
        }
        self.spans = spans;
        if executed.capacity() <= 1024 {
            self.executed = executed;
        }
    }

    /// The database and the user of the pool that is fed, where spans are made.
    fn names(&self) -> Option<(Arc<str>, Arc<str>)> {
        let pool = self.pools.get(self.pool as usize)?.as_ref()?;
        Some((pool.database.clone(), pool.user.clone()))
    }
}

impl StatementWatch for Statements {
    #[inline]
    fn id_of(&mut self, text: &[u8]) -> StatementId {
        let Some(table) = &mut self.table else { return StatementId::NONE };
        let statement = table.statement_of(text, self.traffic.records());
        if let Some(spans) = &mut table.spans {
            spans.asked(statement, text);
        }
        statement
    }

    fn executes(&mut self, text: &[u8], prepared: StatementId) {
        let Some(table) = self.table.as_deref_mut().filter(|_| self.traffic.records()) else { return };
        let mut normal = std::mem::take(&mut table.normal);
        sql::normalize(text, sql::MAX_READ, &mut normal);
        let usage =
            StatementUse { id: hash(&normal, ID_KEY), text: shown(&normal), uses: Arc::new(StateUse::of(text)) };
        table.normal = normal;
        self.traffic.sends(prepared, usage);
    }

    fn executed(&mut self, what: Executed) {
        if let Some(table) = &mut self.table {
            table.executed.push(what);
        }
    }
}

impl Table {
    /// The statement of a text; `judges`: what the text does with session state is known afterwards.
    #[inline]
    fn statement_of(&mut self, text: &[u8], judges: bool) -> StatementId {
        let read = &text[..text.len().min(sql::MAX_READ)];
        let raw = hash(read, self.key ^ u64::from(self.pool) << 1 ^ u64::from(read.len() < text.len()));
        let place = raw as usize & (self.known.len() - 1);
        let (known, statement) = self.known[place];
        let now = self.now;
        if known == raw
            && let Some(entry) = self.entry(statement)
            && (!judges || entry.uses.is_some())
        {
            (entry.asked_at, entry.is_open) = (now, true);
            return statement;
        }
        let statement = self.look_up(text);
        if let Some(entry) = self.entry(statement) {
            (entry.asked_at, entry.is_open) = (now, true);
            if judges {
                entry.judge(text);
            }
        }
        self.known[place] = (raw, statement);
        statement
    }
}

impl Entry {
    /// Adds what this text does with session state.
    #[cold]
    fn judge(&mut self, text: &[u8]) {
        let new = StateUse::of(text);
        match &mut self.uses {
            Some(known) if **known == new => {}
            Some(known) => Arc::make_mut(known).merge(new),
            None => self.uses = Some(Arc::new(new)),
        }
    }

    /// An execution, for a record of traffic.
    #[cold]
    fn execution(&self, what: Executed) -> Execution {
        let uses = self.uses.as_ref().filter(|uses| !uses.is_nothing());
        let usage = uses.map(|uses| StatementUse { id: self.id, text: self.text.clone(), uses: uses.clone() });
        Execution { statement: what.statement, usage, failed: what.failed, rolled_back: what.rolled_back }
    }

    fn count(&mut self, what: Executed, run: u64, waited: u64, application: &str) {
        self.is_open = false;
        let (rows, bytes, errors) = (what.rows, what.bytes, u64::from(what.failed));
        self.counts.add(&StatementCounts { calls: 1, errors, rows, bytes, run, wait: waited });
        self.times.count(run);
        self.rank += run + 1;
        let name = cut(application, MAX_APPLICATION);
        if let Some(known) = self.applications.iter_mut().find(|known| *known.name == *name) {
            known.calls += 1;
            known.run += run;
        } else if self.applications.len() < MAX_APPLICATIONS {
            self.applications.push(Application { name: name.into(), calls: 1, run });
        } else {
            self.others = (self.others.0 + 1, self.others.1 + run);
        }
    }

    fn record(&self, wall: impl Fn(Time) -> u64) -> StatementRecord {
        let named = self.applications.iter().map(|used| ApplicationUse {
            name: Some(used.name.to_string()),
            calls: used.calls,
            run: used.run,
        });
        let (calls, run) = self.others;
        let others = (calls > 0).then_some(ApplicationUse { name: None, calls, run });
        StatementRecord {
            database: self.database.to_string(),
            user: self.user.to_string(),
            id: self.id,
            text: self.text.to_string(),
            counts: self.counts,
            times: self.times.clone(),
            applications: named.chain(others).collect(),
            missed: self.missed,
            since: wall(self.since),
        }
    }
}

/// A fingerprint as it is kept.
fn shown(normal: &[u8]) -> Box<str> {
    let text = std::str::from_utf8(normal).unwrap_or_default();
    let kept = cut(text, MAX_TEXT);
    match kept.len() < text.len() {
        true => format!("{kept}…").into(),
        false => text.into(),
    }
}

/// The beginning of a text, at most this many bytes, without a part of a character.
#[inline]
fn cut(text: &str, most: usize) -> &str {
    match text.len() > most {
        true => &text[..(0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)],
        false => text,
    }
}

/// A hash of 64 bits, two multiplications for 16 bytes. A collision counts one statement as another; without the key
/// nobody can find one.
#[inline]
fn hash(bytes: &[u8], key: u64) -> u64 {
    let mut chunks = bytes.chunks_exact(16);
    let mut state = mix(key ^ 0x9E37_79B9_7F4A_7C15, bytes.len() as u64 ^ 0xD6E8_FEB8_6659_FD93);
    for chunk in &mut chunks {
        state = fold(state, chunk);
    }
    let mut last = [0; 16];
    let rest = chunks.remainder();
    last[..rest.len()].copy_from_slice(rest);
    mix(fold(state, &last), key ^ 0xA076_1D64_78BD_642F)
}

#[inline]
fn fold(state: u64, sixteen: &[u8]) -> u64 {
    let word = |at: usize| sixteen.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes);
    mix(word(0) ^ state ^ 0xE703_7ED1_A0B4_28DB, word(8) ^ state.rotate_left(32) ^ 0x8EBC_6AF0_9C88_C6E3)
}

#[inline]
fn mix(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests;
