//! How many of a pool's queries end in an error of the server: whether the pool is *failing* (docs/health.md).
//!
//! Owns two windows of [`WINDOW`] each, of which the older one ends where the newer begins. Costs nothing but at an error.
//! Must not know what the SQLSTATEs mean (`weir_admin` does).

use std::collections::BTreeSet;

use weir_admin::{ClientNames, FailingOf, FailingQueries, SqlState, is_grave, is_on_purpose};
use weir_base::{ConnId, Span, Time};

use crate::pools::error_codes::ErrorCodes;

/// The length of a window.
const WINDOW: Span = Span::from_secs(5);
/// How long a pool counts as failing after the last time that too many queries failed.
const HOLD: Span = Span::from_secs(10);
/// The share of queries that fail is judged when the older window has lasted for so long.
const SETTLED: Span = Span::from_secs(1);
/// From so many errors in two windows on a pool can be failing: errors of a server in trouble, and others.
const LEAST_GRAVE: u32 = 3;
const LEAST: u32 = 20;
/// From so many queries on the share of errors before is known.
const LEAST_BEFORE: u64 = 100;
/// The shares of queries, as one of so many: of errors of a server in trouble, of all errors, and of the errors before.
const GRAVE_SHARE: u64 = 10;
const SHARE: u64 = 2;
const SHARE_BEFORE: u64 = 10;
/// The share of all, as a part of so many, of errors that no application makes on purpose: so many are a fault, however many
/// failed before.
const NEARLY_ALL: (u64, u64) = (4, 5);
/// Clients that are counted separately in a window.
const MOST_CLIENTS: usize = 32;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct ErrorRate(Option<Box<Windows>>);

struct Windows {
    now: Window,
    before: Window,
    /// Errors and queries until the first of the windows; kept while the pool is failing.
    earlier: (u64, u64),
    failing: Option<Failing>,
}

#[derive(Clone, Copy)]
struct Failing {
    since: Time,
    until: Time,
}

#[derive(Default)]
struct Window {
    since: Time,
    /// The pool's errors and queries when it began.
    errors_before: u64,
    queries_before: u64,
    errors: u32,
    grave: u32,
    on_purpose: u32,
    last: Time,
    codes: ErrorCodes,
    /// Each with its user and application.
    clients: Vec<(ConnId, String, String)>,
}

/// An error that a server has sent to a client.
pub(crate) struct CountedError<'e> {
    pub(crate) code: SqlState,
    pub(crate) client: ConnId,
    pub(crate) user: &'e str,
    pub(crate) application: &'e str,
}

impl ErrorRate {
    /// Counts an error; returns whether the pool may be failing from now on. `errors` and `queries` are those of the pool
    /// so far, without this one.
    pub(crate) fn count(&mut self, error: &CountedError<'_>, (errors, queries): (u64, u64), now: Time) -> bool {
        let windows = self.0.get_or_insert_with(|| Box::new(Windows::new(errors, queries, now)));
        windows.advance(errors, queries, now);
        windows.now.count(error, now);
        let known = windows.failing.is_some();
        windows.note(queries, now);
        !known && windows.has_many()
    }

    /// The errors, if the pool is failing; `wall` converts a time to microseconds since 1970.
    pub(crate) fn failing(&self, queries: u64, now: Time, wall: impl Fn(Time) -> u64) -> Option<FailingQueries> {
        let windows = self.0.as_ref()?;
        let since = windows.failing_since(queries, now)?;
        let Windows { now: newer, before: older, .. } = &**windows;
        let (clients, by) = windows.clients();
        Some(FailingQueries {
            since: wall(since),
            last: wall(newer.last.max(older.last)),
            of: FailingOf::Pool,
            sqlstate: newer.codes.most_frequent(&older.codes),
            errors: u64::from(newer.errors + older.errors),
            queries: windows.queries(queries),
            clients,
            by,
        })
    }
}

impl Windows {
    fn new(errors: u64, queries: u64, now: Time) -> Windows {
        let now = Window::begin(errors, queries, now);
        Windows { now, before: Window::default(), earlier: (errors, queries), failing: None }
    }

    /// Begins a new window where the present one is over.
    fn advance(&mut self, errors: u64, queries: u64, now: Time) {
        let end = self.now.since + WINDOW;
        if now < end {
            return;
        }
        let present = std::mem::replace(&mut self.now, Window::begin(errors, queries, now));
        self.before = if now < end + WINDOW { present } else { Window::default() };
        self.failing.take_if(|failing| failing.until <= now);
        if self.failing.is_none() {
            self.earlier = (self.oldest().errors_before, self.oldest().queries_before);
        }
    }

    fn oldest(&self) -> &Window {
        if self.before.errors > 0 { &self.before } else { &self.now }
    }

    fn queries(&self, queries: u64) -> u64 {
        queries.saturating_sub(self.oldest().queries_before)
    }

    fn errors(&self) -> (u32, u32) {
        (self.now.errors + self.before.errors, self.now.grave + self.before.grave)
    }

    /// Whether nearly all queries fail, and not on purpose.
    fn nearly_all(&self, queries: u64) -> bool {
        let faults = self.errors().0 - self.now.on_purpose - self.before.on_purpose;
        let (part, of) = NEARLY_ALL;
        faults >= LEAST && u64::from(faults) * of >= queries * part
    }

    /// The clients of both windows, each once, and who they are.
    fn clients(&self) -> (u32, ClientNames) {
        let (mut seen, mut by) = (BTreeSet::new(), ClientNames::default());
        for (client, user, application) in self.now.clients.iter().chain(&self.before.clients) {
            if seen.insert(*client) {
                by.count(user, application, 1);
            }
        }
        (seen.len() as u32, by)
    }

    /// Whether there are as many errors as a pool that is failing has.
    fn has_many(&self) -> bool {
        let (errors, grave) = self.errors();
        grave >= LEAST_GRAVE || errors >= LEAST
    }

    /// Whether too many queries fail: some by errors of a server in trouble, half of all where few did before, or nearly all. What
    /// share that is, is not known before the first second.
    fn too_many(&self, queries: u64, now: Time) -> bool {
        let (errors, grave) = self.errors();
        let queries = self.queries(queries);
        let is_share = |part: u64, of: u64, whole: u64| part * of >= whole;
        let in_trouble = grave >= LEAST_GRAVE && is_share(grave.into(), GRAVE_SHARE, queries);
        let (errors_before, queries_before) = self.earlier;
        let sudden = queries_before < LEAST_BEFORE || !is_share(errors_before, SHARE_BEFORE, queries_before);
        let most_fail = errors >= LEAST && is_share(errors.into(), SHARE, queries) && sudden;
        (in_trouble || most_fail || self.nearly_all(queries)) && now >= self.oldest().since + SETTLED
    }

    /// Since when the pool is failing, if it is.
    fn failing_since(&self, queries: u64, now: Time) -> Option<Time> {
        let noted = self.failing.filter(|failing| now < failing.until).map(|failing| failing.since);
        let recent = now < self.now.last.max(self.before.last) + HOLD;
        noted.or_else(|| (recent && self.too_many(queries, now)).then(|| self.oldest().since))
    }

    /// Keeps that the pool is failing, if it is.
    fn note(&mut self, queries: u64, now: Time) {
        if self.too_many(queries, now) {
            let since = self.oldest().since;
            self.failing.get_or_insert(Failing { since, until: now }).until = now + HOLD;
        }
    }
}

impl Window {
    fn begin(errors: u64, queries: u64, now: Time) -> Window {
        Window { since: now, errors_before: errors, queries_before: queries, ..Window::default() }
    }

    fn count(&mut self, error: &CountedError<'_>, now: Time) {
        self.errors += 1;
        self.grave += u32::from(is_grave(&error.code));
        self.on_purpose += u32::from(is_on_purpose(&error.code));
        self.last = now;
        self.codes.count(error.code);
        if self.clients.len() < MOST_CLIENTS && !self.clients.iter().any(|(client, ..)| *client == error.client) {
            self.clients.push((error.client, error.user.to_owned(), error.application.to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool with so many queries before, of which some failed.
    struct Pool {
        rate: ErrorRate,
        errors: u64,
        queries: u64,
        now: Time,
    }

    impl Pool {
        fn new(errors: u64, queries: u64) -> Pool {
            Pool { rate: ErrorRate::default(), errors, queries, now: Time::from_micros(1_000_000_000) }
        }

        /// A second in which these queries are run, of which some end in an error.
        fn second(&mut self, queries: u64, failing: u64, code: &SqlState) {
            self.now = self.now + Span::from_secs(1);
            for query in 0..queries {
                if query < failing {
                    let client = ConnId::new(query as u32 % 4, 1);
                    let error = CountedError { code: *code, client, user: "ann", application: "orders" };
                    self.rate.count(&error, (self.errors, self.queries), self.now);
                    self.errors += 1;
                }
                self.queries += 1;
            }
        }

        fn failing(&self) -> Option<FailingQueries> {
            self.rate.failing(self.queries, self.now, Time::micros)
        }
    }

    #[test]
    fn a_server_in_trouble_is_noticed_by_few_errors_and_for_ten_seconds_after_the_last() {
        let mut pool = Pool::new(0, 1_000_000);
        pool.second(20, 2, b"53100");
        assert_eq!(pool.failing(), None, "two are too few");
        pool.second(20, 4, b"53100");
        let failing = pool.failing().expect("six of forty");
        assert_eq!((failing.sqlstate, failing.errors, failing.clients), (*b"53100", 6, 4));
        for _ in 0..9 {
            pool.second(20, 0, b"53100");
            assert!(pool.failing().is_some());
        }
        pool.second(20, 0, b"53100");
        pool.second(20, 0, b"53100");
        assert_eq!(pool.failing(), None);
    }

    #[test]
    fn a_client_with_errors_in_both_windows_is_one_client_of_its_name() {
        let mut pool = Pool::new(0, 1000);
        for _ in 0..8 {
            pool.second(20, 10, b"53100");
            let Some(failing) = pool.failing() else { continue };
            let named: u32 = failing.by.most(9).iter().map(|it| it.clients).sum();
            assert_eq!((failing.clients, named), (4, 4));
        }
        assert!(pool.failing().is_some());
    }

    #[test]
    fn a_share_that_is_small_is_no_problem() {
        let mut pool = Pool::new(0, 1_000_000);
        for _ in 0..30 {
            pool.second(1000, 5, b"57P01");
            assert_eq!(pool.failing(), None);
        }
    }

    #[test]
    fn errors_of_applications_count_as_a_sudden_change_only() {
        let mut pool = Pool::new(100, 100_000);
        pool.second(100, 10, b"23505");
        assert_eq!(pool.failing(), None, "a tenth");
        pool.second(100, 100, b"42P01");
        let failing = pool.failing().expect("more than half");
        assert_eq!(failing.sqlstate, *b"42P01");
        for _ in 0..300 {
            pool.second(100, 100, b"42P01");
            assert!(pool.failing().is_some(), "it lasts, however long");
        }
        let mut always = Pool::new(60_000, 100_000);
        for _ in 0..30 {
            always.second(100, 60, b"23505");
            assert_eq!(always.failing(), None, "as before");
        }
    }

    #[test]
    fn four_fifths_are_a_fault_whatever_was_before_but_for_errors_that_applications_make_on_purpose() {
        let mut pool = Pool::new(30_000, 100_000);
        pool.second(100, 60, b"42P01");
        pool.second(100, 60, b"42P01");
        assert_eq!(pool.failing(), None, "three fifths, where a third failed before");
        (0..12).for_each(|_| pool.second(100, 85, b"42P01"));
        assert_eq!(pool.failing().map(|failing| (failing.sqlstate, failing.clients)), Some((*b"42P01", 4)));
        for code in [b"23505", b"P0001"] {
            let mut pool = Pool::new(30_000, 100_000);
            for _ in 0..30 {
                pool.second(100, 90, code);
                assert_eq!(pool.failing(), None);
            }
        }
    }

    #[test]
    fn what_follows_an_error_in_its_transaction_is_not_the_cause() {
        let mut pool = Pool::new(0, 1000);
        pool.second(10, 10, b"42P01");
        pool.second(40, 40, b"25P02");
        assert_eq!(pool.failing().map(|failing| failing.sqlstate), Some(*b"42P01"));
    }
}
