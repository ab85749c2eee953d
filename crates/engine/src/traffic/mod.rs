//! What the clients of a pool do with session state, recorded while an operator wants it: for the question what another
//! pool mode would do (the dry run).
//!
//! - `record`: one pool. `client`: one client, and the state that it holds. `level`: how many clients there are of a
//!   kind at the same time. `execution`: what is executed.
//!
//! Owns which pools are recorded, and until when. A text is judged when it is sent, and counts when its transaction has
//! ended without a ROLLBACK. Must not know texts with values, nor decide what a mode would do: reports do.
//!
//! Bounded: [`MAX_BYTES`] a worker, a part of it for each pool. What has no room is counted, and not recorded. While no
//! pool is recorded, nothing here is called.

mod client;
mod execution;
mod level;
mod record;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use weir_admin::TrafficRecord;
use weir_base::Time;
use weir_session::StatementId;

use crate::handles::PoolIx;
use record::Record;

pub(crate) use execution::{Execution, Executor, RecordedPool, StatementUse};

/// The most bytes of all records of a worker.
const MAX_BYTES: usize = 64 << 20;
/// The most names of databases that are recorded at the same time; the oldest makes room.
const MAX_WANTED: usize = 64;
/// The most executions of one input of a server; later ones are not recorded.
const MAX_EXECUTIONS: usize = 1024;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Traffic {
    wanted: Vec<Wanted>,
    records: HashMap<PoolIx, Box<Record>>,
    /// The pool that is fed, if it is recorded.
    current: Option<PoolIx>,
    /// What the server that is fed has executed.
    executions: Vec<Execution>,
    /// What the client that is fed has sent under another statement's name.
    sent: Vec<(StatementId, StatementUse)>,
}

/// A wish to record a database, or all.
struct Wanted {
    database: Option<Box<str>>,
    until: Time,
}

impl Traffic {
    /// Whether a pool is recorded, or was when that was last looked at.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Whether the pool that is fed is recorded.
    #[inline]
    pub(crate) fn records(&self) -> bool {
        self.current.is_some()
    }

    /// Records a database, or all, anew.
    pub(crate) fn start<'a>(
        &mut self,
        database: Option<&str>,
        now: Time,
        until: Time,
        pools: impl Iterator<Item = RecordedPool<'a>>,
    ) {
        let is_meant = |name: &str| database.is_none_or(|wanted| wanted == name);
        self.records.retain(|_, record| !is_meant(record.database()));
        self.wanted.retain(|wanted| database.is_some() && wanted.database.as_deref() != database);
        if self.wanted.len() >= MAX_WANTED {
            self.wanted.remove(0);
        }
        self.wanted.push(Wanted { database: database.map(Into::into), until });
        pools.filter(|pool| is_meant(pool.database)).for_each(|pool| self.open(&pool, now, until));
    }

    /// Records a database, or all, no more. The records stay.
    pub(crate) fn stop(&mut self, database: Option<&str>, now: Time) {
        let is_meant = |name: &str| database.is_none_or(|wanted| wanted == name);
        self.wanted.retain(|wanted| database.is_some() && wanted.database.as_deref() != database);
        let meant = self.records.values_mut().filter(|record| is_meant(record.database()));
        meant.for_each(|record| record.end(now));
    }

    /// Ends what has reached its time. Returns whether nothing is recorded any more.
    fn expire(&mut self, now: Time) -> bool {
        self.wanted.retain(|wanted| wanted.until > now);
        self.records.values_mut().filter(|record| !record.is_active(now)).for_each(|record| record.end(now));
        self.wanted.is_empty()
    }

    /// A session of this pool is fed. Returns whether a pool is still recorded.
    pub(crate) fn enter(&mut self, now: Time, pool: &RecordedPool<'_>) -> bool {
        (self.current, self.sent) = (None, Vec::new());
        self.executions.clear();
        if self.wanted.iter().any(|wanted| wanted.until <= now) && self.expire(now) {
            return false;
        }
        let is_its = |record: &Record| record.is_of(pool.database, pool.user);
        if self.records.get(&pool.ix).is_none_or(|record| !is_its(record)) {
            self.records.remove(&pool.ix);
            let fits = |wanted: &&Wanted| wanted.database.as_deref().is_none_or(|name| name == &**pool.database);
            let until = self.wanted.iter().filter(fits).map(|wanted| wanted.until).max();
            if let Some(until) = until {
                self.open(pool, now, until);
            }
        }
        let active = self.records.get(&pool.ix).is_some_and(|record| record.is_active(now));
        self.current = active.then_some(pool.ix);
        true
    }

    fn open(&mut self, pool: &RecordedPool<'_>, now: Time, until: Time) {
        let room = MAX_BYTES.saturating_sub(self.bytes());
        if room >= Record::LEAST {
            self.records.insert(pool.ix, Box::new(Record::new(pool, now, until, room)));
        }
    }

    fn bytes(&self) -> usize {
        self.records.values().map(|record| record.limit()).sum()
    }

    fn record(&mut self) -> Option<&mut Record> {
        self.records.get_mut(&self.current?).map(|record| &mut **record)
    }

    /// A client has sent this, which counts as another statement.
    pub(crate) fn sends(&mut self, statement: StatementId, usage: StatementUse) {
        if self.sent.len() < client::MAX_SENT {
            self.sent.push((statement, usage));
        }
    }

    /// A client that was fed uses a server; so many others wait for one.
    pub(crate) fn uses_server(&mut self, client: u64, now: Time, waiting: u32) {
        let sent = std::mem::take(&mut self.sent);
        if let Some(record) = self.record() {
            record.uses_server(client, now, waiting, sent);
        }
    }

    /// The server that is fed has executed a statement.
    pub(crate) fn executed(&mut self, what: Execution) {
        if self.executions.len() < MAX_EXECUTIONS {
            self.executions.push(what);
        }
    }

    /// What a server has executed was done by this client; so many others wait for a server.
    pub(crate) fn done_by(&mut self, by: &Executor<'_>, now: Time, waiting: u32) {
        let executions = std::mem::take(&mut self.executions);
        let Some(record) = self.record() else { return };
        executions.into_iter().for_each(|what| record.executed(by, what, now));
        if by.is_free {
            record.is_free(by, now, waiting);
        }
    }

    /// A client of this pool has left.
    pub(crate) fn client_left(&mut self, pool: PoolIx, client: u64, now: Time) {
        if let Some(record) = self.records.get_mut(&pool).filter(|record| record.is_active(now)) {
            record.client_left(client, now);
        }
    }

    /// The records for a report. `wall` turns a time into the wall clock's.
    pub(crate) fn reports(&self, now: Time, wall: impl Fn(Time) -> u64) -> Vec<TrafficRecord> {
        self.records.values().map(|record| record.report(now, &wall)).collect()
    }

    /// The bytes of all records.
    pub(crate) fn used(&self) -> usize {
        self.records.values().map(|record| record.used()).sum()
    }
}
