//! A record without sessions: what counts, who holds what, and the bounds.

use std::sync::Arc;

use weir_admin::{RecordedUse, TrafficRecord};
use weir_base::{PoolMode, Span, Time};
use weir_pgwire::Dirty;
use weir_pgwire::sql::StateUse;
use weir_session::StatementId;

use super::*;

fn at(seconds: u64) -> Time {
    Time::START + Span::from_secs(seconds)
}

struct World {
    traffic: Traffic,
    database: Arc<str>,
    user: Arc<str>,
    mode: PoolMode,
}

impl World {
    fn new(mode: PoolMode) -> World {
        let mut world = World { traffic: Traffic::default(), database: "app".into(), user: "joe".into(), mode };
        world.traffic.start(None, at(0), at(100), std::iter::empty());
        world
    }

    fn pool(&self, ix: PoolIx) -> (PoolIx, Arc<str>, Arc<str>, PoolMode) {
        (ix, self.database.clone(), self.user.clone(), self.mode)
    }

    fn enter(&mut self, now: Time) -> bool {
        let (ix, database, user, mode) = self.pool(0);
        self.traffic.enter(now, &RecordedPool { ix, database: &database, user: &user, mode })
    }

    /// A client's text is sent and answered; `free`: it ends its transaction. `status`: whether it failed, or rolled
    /// back.
    fn run(&mut self, client: u64, text: &str, free: bool, (failed, rolled_back): (bool, bool), now: u64) {
        self.send(client, now);
        self.answer(client, text, free, (failed, rolled_back), now);
    }

    fn send(&mut self, client: u64, now: u64) {
        self.enter(at(now));
        self.traffic.uses_server(client, at(now), 0);
    }

    fn answer(&mut self, client: u64, text: &str, free: bool, (failed, rolled_back): (bool, bool), now: u64) {
        self.enter(at(now));
        let id = text.bytes().fold(7, |id: u64, byte| id.wrapping_mul(31) + u64::from(byte));
        let uses = StateUse::of(text.as_bytes());
        let usage = (!uses.is_nothing()).then(|| StatementUse { id, text: text.into(), uses: Arc::new(uses) });
        self.traffic.executed(Execution { statement: StatementId(1), usage, failed, rolled_back });
        let by = Executor {
            client,
            application: "web",
            follows: &|name| name == "timezone",
            pins: Dirty::ALL.without(Dirty::SETTINGS),
            is_free: free,
        };
        self.traffic.done_by(&by, at(now), 0);
    }

    /// Texts of one client, each in a transaction of its own.
    fn each(&mut self, client: u64, texts: &[&str]) {
        texts.iter().for_each(|text| self.run(client, text, true, (false, false), 1));
    }

    fn record(&self) -> TrafficRecord {
        self.traffic.reports(at(50), |at| at.micros()).pop().expect("a record")
    }

    fn lines(&self) -> Vec<(String, RecordedUse, u64, u64)> {
        let mut lines: Vec<_> = self.record().lines.into_iter().map(|l| (l.text, l.does, l.times, l.clients)).collect();
        lines.sort();
        lines
    }

    fn shown(&self) -> Vec<(String, RecordedUse)> {
        self.lines().into_iter().map(|(text, does, ..)| (text, does)).collect()
    }
}

fn one(text: &str, does: RecordedUse) -> (String, RecordedUse) {
    (text.into(), does)
}

const LEFT_SETTING: RecordedUse = RecordedUse::Left(0);

#[test]
fn each_use_of_session_state_is_a_line_with_its_clients_and_nothing_else_is() {
    let mut world = World::new(PoolMode::Session);
    let texts = ["select 1", "set work_mem = 1", "set timezone = 1", "set temp_buffers = 1", "listen a", "select f()"];
    world.each(1, &texts);
    world.each(2, &texts);
    world.each(2, &texts);
    let wanted = [
        ("listen a", RecordedUse::Left(1)),
        ("select f()", RecordedUse::Unjudged),
        ("set temp_buffers = 1", RecordedUse::SetKept),
        ("set timezone = 1", RecordedUse::SetFollowed),
        ("set work_mem = 1", LEFT_SETTING),
    ];
    assert_eq!(world.lines(), wanted.map(|(text, does)| (text.to_owned(), does, 3, 2)));
    let record = world.record();
    assert!(record.active && record.levels.sessions.peak == 2 && record.missed == 0);
}

#[test]
fn what_an_earlier_transaction_has_left_is_found_and_what_the_same_has_left_is_not() {
    let mut world = World::new(PoolMode::Session);
    for text in ["prepare p as select 1", "execute p", "declare c cursor with hold for select 1", "fetch c"] {
        world.run(1, text, false, (false, false), 1);
    }
    world.each(1, &["insert into t values (1)"]);
    let left = [
        one("declare c cursor with hold for select 1", RecordedUse::Left(3)),
        one("prepare p as select 1", RecordedUse::Left(2)),
    ];
    assert_eq!(world.shown(), left);
    world.each(1, &["execute p", "fetch c", "unlisten *", "select currval('s')", "close c", "fetch c"]);
    let mut all = vec![
        one("close c", RecordedUse::Found(3)),
        one("execute p", RecordedUse::Found(2)),
        one("fetch c", RecordedUse::Found(3)),
        one("select currval('s')", RecordedUse::FoundSequence),
    ];
    all.extend(left);
    all.sort();
    assert_eq!(world.shown(), all);
    let times = world.lines().iter().find(|(text, ..)| text == "fetch c").map(|line| line.2);
    assert_eq!(times, Some(1), "it was closed before the last one");
    world.run(2, "insert into t values (1)", false, (false, false), 2);
    world.run(2, "select currval('s')", true, (false, false), 2);
    assert_eq!(world.lines().iter().find(|(text, ..)| text.contains("currval")).map(|line| line.2), Some(1));
}

#[test]
fn where_an_application_asks_for_what_it_has_drawn_its_clients_hold_it() {
    let mut world = World::new(PoolMode::Session);
    world.each(1, &["insert into t values (1)"]);
    world.each(2, &["begin; update t set a = 1; select lastval(); commit"]);
    assert_eq!(world.record().levels.holders.peak, 0, "nobody asks for what an earlier transaction has drawn");
    world.each(1, &["select lastval()"]);
    assert_eq!(world.record().levels.holders.peak, 1);
    world.each(2, &["insert into t values (1)"]);
    world.each(3, &["select 1", "insert into t values (1)"]);
    assert_eq!(world.record().levels.holders.peak, 3);
    world.each(1, &["discard sequences"]);
    world.each(2, &["discard all"]);
    world.each(4, &["insert into t values (1)"]);
    assert_eq!(world.record().levels.holders.peak, 3);
}

#[test]
fn what_failed_or_was_rolled_back_does_not_count_but_for_what_no_rollback_undoes() {
    let mut world = World::new(PoolMode::Session);
    world.run(1, "listen a", true, (true, false), 1);
    for text in ["listen b", "create temp table t (a int)", "select pg_advisory_lock(1)", "prepare p as select 1"] {
        world.run(1, text, false, (false, false), 1);
    }
    world.run(1, "rollback", true, (false, true), 1);
    let wanted =
        [one("prepare p as select 1", RecordedUse::Left(2)), one("select pg_advisory_lock(1)", RecordedUse::Left(5))];
    assert_eq!(world.shown(), wanted);
    assert_eq!(world.record().levels.holders.peak, 1);
    world.each(1, &["deallocate all", "select pg_advisory_unlock(1)"]);
    world.each(2, &["listen c"]);
    assert_eq!(world.record().levels.holders.peak, 1, "the first one holds nothing any more");
}

#[test]
fn an_execute_counts_as_what_it_is_and_as_what_was_prepared() {
    let mut world = World::new(PoolMode::Session);
    world.each(1, &["prepare p as select pg_advisory_lock(1)"]);
    world.enter(at(2));
    let uses = Arc::new(StateUse::of(b"execute p"));
    world.traffic.sends(StatementId(1), StatementUse { id: 9, text: "execute p".into(), uses });
    world.traffic.uses_server(1, at(2), 0);
    world.answer(1, "select pg_advisory_lock(1)", true, (false, false), 2);
    let wanted = [
        one("execute p", RecordedUse::Found(2)),
        one("prepare p as select pg_advisory_lock(1)", RecordedUse::Left(2)),
        one("select pg_advisory_lock(1)", RecordedUse::Left(5)),
    ];
    assert_eq!(world.shown(), wanted);
}

#[test]
fn clients_in_transactions_and_clients_that_hold_state_are_counted_at_the_same_time() {
    let mut world = World::new(PoolMode::Session);
    world.each(1, &["listen a"]);
    world.send(2, 10);
    world.send(3, 10);
    world.send(1, 11);
    world.answer(2, "commit", true, (false, false), 12);
    world.answer(3, "commit", true, (false, false), 12);
    world.answer(1, "unlisten a", true, (false, false), 12);
    world.send(2, 13);
    let levels = world.record().levels;
    let peaks = [levels.sessions, levels.transactions, levels.holders, levels.either].map(|level| level.peak);
    assert_eq!(peaks, [3, 3, 1, 3]);
    world.each(4, &["listen a"]);
    world.traffic.client_left(0, 4, at(14));
    world.traffic.client_left(0, 2, at(14));
    world.each(5, &["listen a"]);
    let levels = world.record().levels;
    assert_eq!((levels.sessions.peak, levels.holders.peak, levels.either.peak), (4, 1, 3));
}

#[test]
fn clients_that_wait_count_as_in_a_transaction_but_not_in_mode_session() {
    for (mode, peak) in [(PoolMode::Transaction, 8), (PoolMode::Session, 1)] {
        let mut world = World::new(mode);
        world.enter(at(1));
        world.traffic.uses_server(1, at(1), 7);
        assert_eq!(world.record().levels.transactions.peak, peak, "{mode}");
    }
}

#[test]
fn a_record_ends_at_its_time_or_when_it_is_stopped_and_stays_to_be_shown() {
    let mut world = World::new(PoolMode::Session);
    world.each(1, &["listen a"]);
    assert!(!world.enter(at(100)) && !world.traffic.records() && !world.traffic.is_on());
    let ended = world.traffic.reports(at(200), |at| at.micros()).pop().expect("a record");
    assert!(!ended.active && ended.until == at(100).micros() && ended.lines.len() == 1);
    assert_eq!(world.traffic.records[&0].used(), ended.bytes as usize);
    let mut world = World::new(PoolMode::Session);
    world.each(1, &["listen a"]);
    world.traffic.stop(Some("other"), at(5));
    assert!(world.enter(at(5)) && world.traffic.records());
    world.traffic.stop(Some("app"), at(6));
    world.enter(at(7));
    assert!(!world.traffic.records());
    let (ix, database, user, mode) = world.pool(0);
    let pool = RecordedPool { ix, database: &database, user: &user, mode };
    world.traffic.start(Some("app"), at(8), at(9), [pool].into_iter());
    assert!(world.record().lines.is_empty(), "it began anew");
}

#[test]
fn however_many_clients_texts_and_names_there_are_a_record_is_bounded_and_says_what_it_misses() {
    let mut world = World::new(PoolMode::Session);
    for client in 0..200 {
        for n in 0..100 {
            let text = format!("listen channel_{client}_{n}_{}", "x".repeat(300));
            world.run(client, &text, true, (false, false), 1);
        }
    }
    let record = world.record();
    assert!(record.missed > 0 && record.bytes <= 1 << 20, "{} {}", record.missed, record.bytes);
    assert!(world.traffic.used() <= 1 << 20);
    let mut world = World::new(PoolMode::Session);
    (0..20_000).for_each(|client| world.send(client, 1));
    let record = world.record();
    assert!(record.unfollowed > 0 && record.bytes <= 1 << 20, "{} {}", record.unfollowed, record.bytes);
    (0..20_000).for_each(|client| world.traffic.client_left(0, client, at(2)));
    assert_eq!(world.record().bytes as usize, Record::LEAST, "what a client took goes with it");
    // Each pool has its record, as long as there is room.
    for ix in 1..500 {
        let (_, database, user, mode) = world.pool(ix);
        world.traffic.enter(at(3), &RecordedPool { ix, database: &database, user: &user, mode });
    }
    assert_eq!(world.traffic.records.len(), MAX_BYTES / (1 << 20));
}
