//! Applications whose transactions fail though most of their pool's do not (docs/health.md).
//!
//! Owns the applications with errors lately, [`MOST`] at most. Transactions are counted only for those with many errors,
//! and only while they have them: an error costs a look through the list, and a transaction nothing otherwise.

use weir_admin::{ClientNames, FailingOf, FailingQueries, is_grave};
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
/// The share of transactions with an error of a server in trouble, as one of so many; and the share with none of any kind.
const GRAVE_SHARE: u64 = 10;
const UNHARMED_SHARE: u64 = 20;

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
    unharmed: u32,
    codes: ErrorCodes,
}

impl ApplicationErrors {
    /// Counts an error; returns whether the application may be failing from now on.
    pub(crate) fn count(&mut self, error: &CountedError<'_>, now: Time) -> bool {
        self.forget(now);
        let Some(application) = self.find_or_begin(error.user, error.application, now) else { return false };
        let began = application.count(error, now);
        self.counts_transactions |= application.counted.is_some();
        began
    }

    /// Transactions of an application's client have ended.
    pub(crate) fn ended(&mut self, (user, name): (&str, &str), client: ConnId, transactions: u32, now: Time) {
        self.forget(now);
        if let Some(application) = self.find(user, name).filter(|application| application.counted.is_some()) {
            application.ended(client, transactions, now);
        }
    }

    /// The application with most errors of those that are failing; `wall` converts a time to microseconds since 1970.
    pub(crate) fn failing(&self, now: Time, wall: impl Fn(Time) -> u64) -> Option<FailingQueries> {
        let failing = self.applications.iter().filter(|application| application.is_failing(now));
        let worst = failing.max_by_key(|application| application.errors().0)?;
        let (errors, _, unharmed) = worst.errors();
        let mut by = ClientNames::default();
        by.count(&worst.user, &worst.name, worst.clients.len() as u32);
        Some(FailingQueries {
            since: wall(worst.first),
            last: wall(worst.last),
            of: FailingOf::Application,
            sqlstate: worst.now.codes.most_frequent(&worst.before.codes),
            errors: errors.into(),
            queries: u64::from(errors) + u64::from(unharmed),
            clients: worst.clients.len() as u32,
            by,
        })
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
        self.applications.retain(|known| known.is_failing(now) || now < known.last + WINDOW + WINDOW);
        self.counts_transactions = self.applications.iter().any(|known| known.counted.is_some());
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
            failing_until: None,
            in_failed: Vec::new(),
            clients: Vec::new(),
        }
    }

    fn is_failing(&self, now: Time) -> bool {
        self.failing_until.is_some_and(|until| now < until)
    }

    /// Returns whether it is failing, and was not before.
    fn count(&mut self, error: &CountedError<'_>, now: Time) -> bool {
        self.advance(now);
        self.last = now;
        let is_first = match self.counted {
            Some(_) => !self.in_failed.contains(&error.client),
            None => error.code != IN_FAILED_TRANSACTION,
        };
        if is_first {
            self.now.errors += 1;
            self.now.grave += u32::from(is_grave(&error.code));
        }
        self.now.codes.count(error.code);
        note(&mut self.clients, error.client);
        let (errors, grave, _) = self.errors();
        if self.counted.is_some() {
            note(&mut self.in_failed, error.client);
        } else if grave >= LEAST_GRAVE || errors >= LEAST {
            // From now on it is known how many do not fail.
            (self.counted, self.before) = (Some(now), Window::default());
            self.now = Window { since: now, ..Window::default() };
        }
        let before = self.is_failing(now);
        self.judge(now);
        !before && self.is_failing(now)
    }

    fn ended(&mut self, client: ConnId, transactions: u32, now: Time) {
        self.advance(now);
        let failed = self.in_failed.iter().position(|known| *known == client).map(|at| self.in_failed.swap_remove(at));
        self.now.unharmed += transactions - u32::from(failed.is_some()).min(transactions);
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
        if settled && (in_trouble || wholly) {
            self.failing_until = Some(now + HOLD);
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
        assert!(!pool.errors.counts_transactions && pool.errors.applications.is_empty());
    }

    #[test]
    fn one_with_many_errors_of_its_own_is_none_and_one_with_some_of_a_server_in_trouble_is() {
        let mut pool = Pool::new();
        (0..10).for_each(|_| pool.second("web", 100, 80, b"23505"));
        assert_eq!(pool.failing(), None, "a fifth succeeds");
        (0..4).for_each(|_| pool.second("disk", 20, 4, b"53100"));
        assert_eq!(pool.failing().map(|failing| failing.sqlstate), Some(*b"53100"));
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
