//! Applications whose transactions fail though most of their pool's do not (docs/health.md).
//!
//! Owns the applications with errors lately, [`MOST`] at most. Transactions are counted only for those with many errors,
//! or with none that succeeds, and only while that is so: an error costs a look through the list, and a transaction nothing
//! otherwise. A client that stays in a failed transaction ends none, so its queries are counted there.

use weir_admin::{ClientNames, FailingOf, FailingQueries, SqlState, is_grave, is_on_purpose};
use weir_base::{ConnId, Span, Time, prefix};

use crate::pools::error_codes::{ErrorCodes, IN_FAILED_TRANSACTION};
use crate::pools::error_rate::CountedError;

/// The most applications, and clients of one with errors.
const MOST: usize = 16;
const MOST_CLIENTS: usize = 32;
/// The longest name that is kept, in bytes.
const LONGEST: usize = 64;
/// The length of a window. Two of them count: the older one ends where the newer begins.
const WINDOW: Span = Span::from_secs(5);
/// How long an application counts as failing after the last time that too many of its transactions failed.
const HOLD: Span = Span::from_secs(10);
/// It is judged when its transactions have been counted for so long.
const SETTLED: Span = Span::from_secs(1);
/// From so many errors in two windows on, of a server in trouble and others, its transactions are counted.
const LEAST_GRAVE: u32 = 3;
const LEAST: u32 = 10;
/// So many of the counted ones have to fail.
const LEAST_FAILED: u32 = 5;
/// From so many queries in failed transactions on, over so long, it fails if hardly any of its transactions succeeds.
const LEAST_ABORTED: u32 = 10;
const ABORTED_FOR: Span = Span::from_secs(3);
/// One whose transactions are too few for a share fails by so many in a row without one that succeeds, over so long.
const LEAST_IN_A_ROW: u32 = 6;
const IN_A_ROW_FOR: Span = Span::from_secs(10);
/// From so many in a row on, its transactions are counted: one that succeeds ends the row.
const COUNTED_IN_A_ROW: u32 = 2;
/// For so long an application is remembered after its last error; and no row begins for so long after a success.
const LATELY: Span = Span::from_secs(60);
/// The share of transactions with an error of a server in trouble, as one of so many; and the share with none of any kind.
const GRAVE_SHARE: u64 = 10;
const UNHARMED_SHARE: u64 = 20;
/// From so many errors that no application makes on purpose on, this share of all, as a part of so many, is enough.
const LEAST_FAULTS: u32 = 20;
const NEARLY_ALL: (u64, u64) = (4, 5);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct ApplicationErrors {
    /// Whether the transactions of one are counted.
    pub(crate) counts_transactions: bool,
    applications: Vec<Application>,
}

/// A user and an application_name.
struct Application {
    user: String,
    name: String,
    /// The first of the errors.
    first: Time,
    last: Time,
    now: Window,
    before: Window,
    /// Since when its transactions are counted.
    counted: Option<Time>,
    /// Those that failed since the last one that succeeded.
    row: Option<Row>,
    /// When one succeeded, of those that were counted.
    succeeded: Option<Time>,
    /// Since when clients send queries in failed transactions, without a pause.
    aborted_since: Time,
    aborted_until: Option<Time>,
    failing_until: Option<Time>,
    /// Clients with an error in the transaction that they are in; the oldest are forgotten.
    in_failed: Vec<ConnId>,
    /// Clients with errors.
    clients: Vec<ConnId>,
}

#[derive(Default)]
struct Window {
    since: Time,
    /// Errors; of counted transactions those that failed.
    errors: u32,
    grave: u32,
    on_purpose: u32,
    unharmed: u32,
    /// Queries in transactions that had failed.
    aborted: u32,
    codes: ErrorCodes,
}

/// Transactions that failed, one after the other.
struct Row {
    since: Time,
    failed: u32,
    codes: ErrorCodes,
}

impl ApplicationErrors {
    /// Counts an error; returns whether the application may be failing from now on.
    pub(crate) fn count(&mut self, error: &CountedError<'_>, now: Time) -> bool {
        self.forget(now);
        let Some(application) = self.find_or_begin(error.user, error.application, now) else { return false };
        let began = application.count(error, now);
        self.counts_transactions |= application.counts();
        began
    }

    /// Transactions of an application's client have ended.
    pub(crate) fn ended(&mut self, (user, name): (&str, &str), client: ConnId, transactions: u32, now: Time) {
        self.forget(now);
        if let Some(application) = self.find(user, name).filter(|application| application.counts()) {
            application.ended(client, transactions, now);
        }
    }

    /// The application with most errors of those that are failing; `wall` converts a time to microseconds since 1970.
    pub(crate) fn failing(&self, now: Time, wall: impl Fn(Time) -> u64) -> Option<FailingQueries> {
        let failing = self.applications.iter().filter(|application| application.is_failing(now));
        failing.max_by_key(|application| application.errors().0).and_then(|worst| worst.shown(now, wall))
    }

    fn find(&mut self, user: &str, name: &str) -> Option<&mut Application> {
        let name = prefix(name, LONGEST);
        self.applications.iter_mut().find(|known| known.name == name && known.user == user)
    }

    /// The application; a new one takes the place of that with the fewest errors. None if all of them are failing.
    fn find_or_begin(&mut self, user: &str, name: &str, now: Time) -> Option<&mut Application> {
        if self.find(user, name).is_none() {
            if self.applications.len() >= MOST {
                let others = self.applications.iter().enumerate().filter(|(_, known)| !known.is_failing(now));
                let (fewest, _) = others.min_by_key(|(_, known)| known.errors().0)?;
                self.applications.swap_remove(fewest);
            }
            self.applications.push(Application::new(user, prefix(name, LONGEST), now));
        }
        self.find(user, name)
    }

    /// Drops those without an error for long.
    fn forget(&mut self, now: Time) {
        self.applications.retain(|known| known.is_failing(now) || now < known.last + LATELY);
        self.counts_transactions = self.applications.iter().any(Application::counts);
    }
}

impl Application {
    fn new(user: &str, name: &str, now: Time) -> Application {
        Application {
            user: user.to_owned(),
            name: name.to_owned(),
            first: now,
            last: now,
            now: Window { since: now, ..Window::default() },
            before: Window::default(),
            counted: None,
            row: None,
            succeeded: None,
            aborted_since: now,
            aborted_until: None,
            failing_until: None,
            in_failed: Vec::new(),
            clients: Vec::new(),
        }
    }

    /// Whether its transactions are counted.
    fn counts(&self) -> bool {
        self.counted.is_some() || self.row.as_ref().is_some_and(|row| row.failed >= COUNTED_IN_A_ROW)
    }

    fn is_failing(&self, now: Time) -> bool {
        let lasts = |until: Option<Time>| until.is_some_and(|until| now < until);
        lasts(self.failing_until) || lasts(self.aborted_until) || self.fails_in_a_row(now).is_some()
    }

    /// The row, if it is long enough.
    fn fails_in_a_row(&self, now: Time) -> Option<&Row> {
        let is_long = |row: &&Row| row.failed >= LEAST_IN_A_ROW && self.last.since(row.since) >= IN_A_ROW_FOR;
        self.row.as_ref().filter(is_long).filter(|_| now < self.last + LATELY)
    }

    /// What fails, if it does.
    fn shown(&self, now: Time, wall: impl Fn(Time) -> u64) -> Option<FailingQueries> {
        let (errors, _, unharmed) = self.errors();
        let aborted = self.now.aborted + self.before.aborted;
        let is_now = |until: Option<Time>| until.is_some_and(|until| now < until);
        let of_windows = self.now.codes.most_frequent(&self.before.codes);
        let (of, since, last, sqlstate, errors) = if is_now(self.failing_until) {
            (FailingOf::Application, self.first, self.last, of_windows, errors)
        } else if is_now(self.aborted_until) {
            (FailingOf::Aborted, self.aborted_since, self.last, IN_FAILED_TRANSACTION, errors + aborted)
        } else {
            let row = self.fails_in_a_row(now)?;
            // It lasts until one succeeds, or none comes any more.
            (FailingOf::InARow, row.since, now, row.codes.most_frequent(&ErrorCodes::default()), row.failed)
        };
        let mut by = ClientNames::default();
        by.count(&self.user, &self.name, self.clients.len() as u32);
        Some(FailingQueries {
            since: wall(since),
            last: wall(last),
            of,
            sqlstate,
            errors: errors.into(),
            queries: u64::from(errors) + u64::from(unharmed),
            clients: self.clients.len() as u32,
            by,
        })
    }

    /// Returns whether it is failing, and was not before.
    fn count(&mut self, error: &CountedError<'_>, now: Time) -> bool {
        self.advance(now);
        let before = self.is_failing(now);
        let is_aborted = error.code == IN_FAILED_TRANSACTION;
        let is_known = self.counts() && self.in_failed.contains(&error.client);
        let is_first = !is_aborted && !is_known;
        self.last = now;
        if is_first {
            self.now.errors += 1;
            self.now.grave += u32::from(is_grave(&error.code));
            self.now.on_purpose += u32::from(is_on_purpose(&error.code));
            self.failed(error.code, now);
        }
        if is_aborted {
            if self.now.aborted + self.before.aborted == 0 {
                self.aborted_since = now;
            }
            self.now.aborted += 1;
        }
        self.now.codes.count(error.code);
        note(&mut self.clients, error.client);
        let (errors, grave, _) = self.errors();
        if self.counts() {
            note(&mut self.in_failed, error.client);
        }
        let has_many =
            grave >= LEAST_GRAVE || errors >= LEAST || self.now.aborted + self.before.aborted >= LEAST_ABORTED;
        if self.counted.is_none() && has_many {
            // From now on it is known how many do not fail.
            (self.counted, self.before) = (Some(now), Window::default());
            self.now = Window { since: now, ..Window::default() };
        }
        self.judge(now);
        !before && self.is_failing(now)
    }

    fn ended(&mut self, client: ConnId, transactions: u32, now: Time) {
        self.advance(now);
        let failed = self.in_failed.iter().position(|known| *known == client).map(|at| self.in_failed.swap_remove(at));
        let unharmed = transactions - u32::from(failed.is_some()).min(transactions);
        self.now.unharmed += unharmed;
        if unharmed > 0 {
            (self.row, self.succeeded) = (None, Some(now));
        }
    }

    /// A transaction has failed: the row is longer by one, or begins.
    fn failed(&mut self, code: SqlState, now: Time) {
        if self.row.is_none() && self.succeeded.is_some_and(|at| now < at + LATELY) {
            return;
        }
        let begin = || Row { since: now, failed: 0, codes: ErrorCodes::default() };
        let row = self.row.get_or_insert_with(begin);
        row.failed += 1;
        row.codes.count(code);
    }

    /// Begins a new window where the present one is over.
    fn advance(&mut self, now: Time) {
        let end = self.now.since + WINDOW;
        if now >= end {
            let present = std::mem::replace(&mut self.now, Window { since: now, ..Window::default() });
            self.before = if now < end + WINDOW { present } else { Window::default() };
        }
    }

    /// Errors, those of a server in trouble, and transactions without one, of both windows.
    fn errors(&self) -> (u32, u32, u32) {
        let (now, before) = (&self.now, &self.before);
        (now.errors + before.errors, now.grave + before.grave, now.unharmed + before.unharmed)
    }

    fn judge(&mut self, now: Time) {
        let settled = self.counted.is_some_and(|since| now >= since + SETTLED);
        let (errors, grave, unharmed) = self.errors();
        let all = u64::from(errors) + u64::from(unharmed);
        let in_trouble = grave >= LEAST_GRAVE && u64::from(grave) * GRAVE_SHARE >= all;
        let wholly = errors >= LEAST_FAILED && u64::from(unharmed) * UNHARMED_SHARE <= all;
        let faults = errors - self.now.on_purpose - self.before.on_purpose;
        let nearly = faults >= LEAST_FAULTS && u64::from(faults) * NEARLY_ALL.1 >= all * NEARLY_ALL.0;
        if settled && (in_trouble || wholly || nearly) {
            self.failing_until = Some(now + HOLD);
        }
        let aborted = self.now.aborted + self.before.aborted;
        let lasts = settled && now >= self.aborted_since + ABORTED_FOR && aborted >= LEAST_ABORTED;
        if lasts && u64::from(unharmed) * UNHARMED_SHARE <= all + u64::from(aborted) {
            self.aborted_until = Some(now + HOLD);
        }
    }
}

/// Notes a client once; of very many the oldest is forgotten.
fn note(clients: &mut Vec<ConnId>, client: ConnId) {
    if clients.contains(&client) {
        return;
    }
    if clients.len() >= MOST_CLIENTS {
        clients.remove(0);
    }
    clients.push(client);
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pool {
        errors: ApplicationErrors,
        now: Time,
    }

    impl Pool {
        fn new() -> Pool {
            Pool { errors: ApplicationErrors::default(), now: Time::from_micros(1_000_000_000) }
        }

        /// A second in which the application has so many transactions, of which some fail.
        fn second(&mut self, name: &str, transactions: u32, failing: u32, code: &[u8; 5]) {
            self.now = self.now + Span::from_millis(500);
            for number in 0..transactions {
                let client = ConnId::new(number % 4, 1);
                if number < failing {
                    let error = CountedError { code: *code, client, user: "ann", application: name };
                    self.errors.count(&error, self.now);
                    self.errors.count(&CountedError { code: *b"25P02", ..error }, self.now);
                }
                if self.errors.counts_transactions {
                    self.errors.ended(("ann", name), client, 1, self.now);
                }
            }
            self.now = self.now + Span::from_millis(500);
        }

        fn failing(&self) -> Option<FailingQueries> {
            self.errors.failing(self.now, Time::micros)
        }
    }

    #[test]
    fn an_application_whose_transactions_all_fail_is_failing_beside_one_that_works() {
        let mut pool = Pool::new();
        for _ in 0..4 {
            pool.second("web", 500, 0, b"42P01");
            pool.second("orders", 10, 10, b"42P01");
        }
        let failing = pool.failing().expect("orders");
        assert_eq!((failing.of, failing.sqlstate, failing.clients), (FailingOf::Application, *b"42P01", 4));
        assert_eq!((failing.errors, failing.queries), (failing.queries, failing.errors));
        assert_eq!(failing.by.most(1)[0].application_name, "orders");
        for _ in 0..12 {
            pool.second("orders", 10, 0, b"42P01");
        }
        assert_eq!(pool.failing(), None, "it works again");
        (0..60).for_each(|_| pool.second("orders", 10, 0, b"42P01"));
        assert!(!pool.errors.counts_transactions && pool.errors.applications.is_empty());
    }

    #[test]
    fn one_with_many_errors_of_its_own_is_none_and_one_with_some_of_a_server_in_trouble_is() {
        let mut pool = Pool::new();
        (0..10).for_each(|_| pool.second("web", 100, 80, b"23505"));
        assert_eq!(pool.failing(), None, "a fifth succeeds, and the others may be on purpose");
        (0..4).for_each(|_| pool.second("shop", 40, 34, b"42703"));
        assert_eq!(pool.failing().map(|failing| failing.sqlstate), Some(*b"42703"), "six of seven");
        (0..14).for_each(|_| pool.second("shop", 40, 28, b"42703"));
        assert_eq!(pool.failing(), None, "seven of ten");
        (0..4).for_each(|_| pool.second("disk", 20, 4, b"53100"));
        assert_eq!(pool.failing().map(|failing| failing.sqlstate), Some(*b"53100"));
    }

    #[test]
    fn one_whose_clients_stay_in_failed_transactions_is_failing_though_none_ends() {
        let mut pool = Pool::new();
        let error = |client| CountedError { code: *b"23505", client, user: "ann", application: "checkout" };
        for second in 0..30 {
            pool.second("web", 500, 0, b"23505");
            for number in 0..3 {
                let first = error(ConnId::new(number, 1));
                let code = if second == 0 { first.code } else { IN_FAILED_TRANSACTION };
                for _ in 0..3 {
                    pool.errors.count(&CountedError { code, ..first }, pool.now);
                }
            }
        }
        let failing = pool.failing().expect("checkout");
        assert_eq!((failing.of, failing.sqlstate, failing.clients), (FailingOf::Aborted, *b"25P02", 3));
        assert_eq!(failing.errors, failing.queries);
        // They roll back, and work.
        (0..12).for_each(|_| pool.second("checkout", 10, 0, b"23505"));
        assert_eq!(pool.failing(), None);
        // A script with many statements fails once in a while, and the application works otherwise.
        let mut pool = Pool::new();
        for _ in 0..30 {
            pool.second("checkout", 20, 1, b"23505");
            let client = ConnId::new(0, 1);
            for _ in 0..15 {
                pool.errors.count(&CountedError { code: *b"25P02", ..error(client) }, pool.now);
            }
        }
        assert_eq!(pool.failing(), None);
    }

    #[test]
    fn one_with_few_transactions_of_which_none_succeeds_is_failing() {
        let mut pool = Pool::new();
        for second in 0..40 {
            pool.second("web", 500, u32::from(second % 3 == 0), b"23505");
            pool.second("worker", u32::from(second % 2 == 0), 1, b"42P01");
        }
        let failing = pool.failing().expect("worker");
        assert_eq!((failing.of, failing.sqlstate, failing.errors), (FailingOf::InARow, *b"42P01", 20));
        assert_eq!(failing.by.most(1)[0].application_name, "worker");
        pool.second("worker", 1, 0, b"42P01");
        assert_eq!(pool.failing(), None, "one succeeds");
        let mut pool = Pool::new();
        for second in 0..120 {
            pool.second("worker", 1, u32::from(second % 4 > 0), b"42P01");
        }
        assert_eq!(pool.failing(), None, "a fourth succeeds");
    }

    #[test]
    fn their_number_is_bounded_and_one_that_is_failing_stays() {
        let mut pool = Pool::new();
        (0..3).for_each(|_| pool.second("orders", 10, 10, b"42P01"));
        for number in 0..1000 {
            let name = format!("invented-{number}");
            let client = ConnId::new(number, 1);
            pool.errors.count(&CountedError { code: *b"42P01", client, user: "eve", application: &name }, pool.now);
        }
        assert_eq!(pool.errors.applications.len(), MOST);
        assert!(pool.failing().is_some());
    }
}
