//! Pools whose queries take far longer than they did in the half hour before.
//!
//! Owns what is remembered of each pool, and of each statement where these are counted (`track_statements`); `past` has
//! the rule. The workers are asked for statements every [`STATEMENTS`] seconds, and for connections only while a pool is
//! slow. What is found becomes a [`Finding`].

mod past;
mod statements;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use weir_admin::{ClientNames, Connections, Finding, Health, Histogram, Report, SlowQueries, SocketRecord};

use crate::ask::Workers;
use crate::named::named;
use crate::words::span;
use past::{Past, Slower, Window};
use statements::{SlowStatement, Statements};

/// The length of a window of a pool's queries, and of its statements', in seconds.
const EVERY: f64 = 5.0;
const STATEMENTS: f64 = 10.0;
/// The most pools that are remembered.
const POOLS: usize = 1_000;
/// What is said where a statement can't be named, since none is counted.
const UNCOUNTED: &str = " Which statement it is can't be told, as statements are not counted (track_statements).";

/// What is remembered.
#[derive(Default)]
pub(super) struct Slow {
    pools: HashMap<String, PoolPast>,
    statements: Statements,
    /// When the last windows ended, in seconds since 1970.
    at: f64,
    statements_at: f64,
    found: BTreeMap<String, Finding>,
}

/// What is remembered of a pool.
#[derive(Default)]
struct PoolPast {
    queries: Past,
    transactions: Past,
    /// What was counted since the start, at the end of the last window.
    before: Counted,
    slower: Option<(&'static str, Slower)>,
}

/// Times of a pool since the start.
#[derive(Clone, Default)]
struct Counted {
    queries: Histogram,
    transactions: Histogram,
    /// Microseconds in queries and in transactions.
    busy: u64,
    open: u64,
}

impl PoolPast {
    /// Ends a window. Transactions tell of queries that wait for each other beside many short ones, as BEGIN and COMMIT are;
    /// they do so if most of their time is spent in queries, and these are slow in the median, too.
    fn take(&mut self, counted: Counted, unanswered: u32, (from, to): (f64, f64)) {
        let before = std::mem::replace(&mut self.before, counted);
        let now = &self.before;
        let transactions = now.transactions.since(&before.transactions);
        let queries = now.queries.since(&before.queries);
        let (busy, open) = (now.busy.saturating_sub(before.busy), now.open.saturating_sub(before.open));
        let by_transactions = self.transactions.take(&Window { times: transactions, unanswered, from, to }, true);
        let are_slow = busy.saturating_mul(2) >= open && self.queries.is_beyond(&queries);
        let learns = !self.transactions.is_suspected();
        let by_queries = self.queries.take(&Window { times: queries, unanswered, from, to }, learns);
        let by_transactions = by_transactions.filter(|_| are_slow).map(|slower| ("Transactions", slower));
        self.slower = by_queries.map(|slower| ("Queries", slower)).or(by_transactions);
    }
}

impl Slow {
    /// Ends the windows that are due; `now` in seconds since 1970. What is slow now, by pool; none where that was not
    /// looked at.
    pub(super) async fn follow(
        &mut self,
        workers: &Workers,
        report: &Report,
        counts_statements: bool,
        now: f64,
    ) -> Option<&BTreeMap<String, Finding>> {
        if !is_due(self.at, EVERY, now) {
            return None;
        }
        let from = std::mem::replace(&mut self.at, now);
        self.pools(report, (from, now));
        if !counts_statements {
            self.statements = Statements::default();
        } else if is_due(self.statements_at, STATEMENTS, now) {
            let from = std::mem::replace(&mut self.statements_at, now);
            if let Ok(counted) = workers.statements().await {
                self.statements.take(&counted.statements, (from, now));
            }
        }
        let statements = self.statements.slow();
        let slow: Vec<&String> =
            self.pools.iter().filter(|(_, pool)| pool.slower.is_some()).map(|(name, _)| name).collect();
        let mut running = BTreeMap::new();
        if !slow.is_empty() || !statements.is_empty() {
            let is_slow = |name: &String| slow.contains(&name) || statements.contains_key(name);
            running = running_now(workers, is_slow).await;
        }
        let at = (counts_statements, now);
        let pools = slow.into_iter().chain(statements.keys()).cloned().collect::<BTreeSet<String>>();
        let finding = |name: String| {
            let slower = self.pools.get(&name).and_then(|pool| pool.slower);
            let heaviest = self.statements.heaviest(&name);
            let found =
                finding(slower, (statements.get(&name), heaviest), running.remove(&name).unwrap_or_default(), at)?;
            Some((name, found))
        };
        self.found = pools.into_iter().filter_map(finding).collect();
        Some(&self.found)
    }

    fn pools(&mut self, report: &Report, (from, to): (f64, f64)) {
        let known: HashSet<&str> = report.stats.iter().map(|stats| stats.database.as_str()).collect();
        self.pools.retain(|name, _| known.contains(name.as_str()));
        let pools = report.by_database();
        for stats in &report.stats {
            let Some(times) = stats.counters.counted() else { continue };
            let of_pools = pools.get(stats.database.as_str()).into_iter().flatten();
            let unanswered = of_pools.map(|pool| pool.symptoms.unanswered).sum();
            let counted = Counted {
                queries: times.query.clone(),
                transactions: times.transaction.clone(),
                busy: stats.total.query_time,
                open: stats.total.xact_time,
            };
            if let Some(pool) = self.pools.get_mut(&stats.database) {
                pool.take(counted, unanswered, (from, to));
            } else if self.pools.len() < POOLS {
                // What was counted before says nothing of a window.
                self.pools.insert(stats.database.clone(), PoolPast { before: counted, ..PoolPast::default() });
            }
        }
    }
}

/// Whether a window has ended that began then; where the clock was set back, too.
fn is_due(begun: f64, length: f64, now: f64) -> bool {
    now < begun || now - begun >= length - 0.5
}

/// Whose queries run now in these pools, by the user on the server: what each pool's servers do.
async fn running_now(workers: &Workers, wanted: impl Fn(&String) -> bool) -> BTreeMap<String, Running> {
    let mut running = BTreeMap::<String, Running>::new();
    let add = |server: SocketRecord| {
        if wanted(&server.database) {
            running.entry(server.database.clone()).or_default().add(&server);
        }
    };
    // Without the rest there is a part.
    let _ = workers.each_connection(Connections::Servers, add).await;
    running
}

/// The clients whose query runs.
#[derive(Default)]
struct Running {
    clients: u32,
    names: ClientNames,
}

impl Running {
    fn add(&mut self, server: &SocketRecord) {
        if server.link.is_some() && server.query_time.is_some() {
            self.clients += 1;
            self.names.count(&server.user, &server.application_name, 1);
        }
    }
}

fn finding(
    pool: Option<(&'static str, Slower)>,
    (statement, heaviest): (Option<&SlowStatement>, Option<String>),
    running: Running,
    (counts_statements, now): (bool, f64),
) -> Option<Finding> {
    let at = |seconds: f64| (seconds * 1e6) as u64;
    let since =
        [pool.map(|(_, it)| it.since), statement.map(|it| it.slower.since)].into_iter().flatten().reduce(f64::min)?;
    let most = running.names.most(1).pop().map(|most| format!("; most that run now are of {}", named(&most)));
    let unknown = if counts_statements { "" } else { UNCOUNTED };
    let cause = match (pool, statement) {
        (Some((what, pool)), None) => {
            let heaviest = heaviest.map(|text| format!("; most of the time goes to {text}")).unwrap_or_default();
            format!("{what} take {}{}{heaviest}.{unknown}", than_before(pool), most.unwrap_or_default())
        }
        (Some((what, pool)), Some(statement)) => format!(
            "{what} take {}{}; above all {}, which takes {} instead of {}.",
            than_before(pool),
            most.unwrap_or_default(),
            statement.text,
            span(statement.slower.now / 1e6),
            span(statement.slower.usual / 1e6)
        ),
        (None, Some(statement)) => format!(
            "A statement takes {}: {}{}.",
            than_before(statement.slower),
            statement.text,
            statement.application.as_ref().map(|name| format!("; most calls are of {name}")).unwrap_or_default()
        ),
        (None, None) => return None,
    };
    let slow = SlowQueries { since: at(since), clients: running.clients, names: running.names };
    Some(Finding::of_slow(at(now), slow, &cause, Health::Slow.advice()))
}

/// `31 ms instead of 1.1 ms, 28 times as long as before`.
fn than_before(Slower { now, usual, .. }: Slower) -> String {
    let times = now / usual.max(1.0);
    format!("{} instead of {}, {times:.0} times as long as before", span(now / 1e6), span(usual / 1e6))
}

#[cfg(test)]
mod tests {
    use weir_admin::{DatabaseStats, PoolRecord};
    use weir_base::PoolMode;

    use super::*;

    #[test]
    fn a_pool_that_is_slow_is_named_with_its_application_and_by_how_much() {
        let mut slow = Slow::default();
        let mut stats = DatabaseStats { database: "shop".to_owned(), ..DatabaseStats::default() };
        // What was counted before Weir's panel was there.
        stats.counters.times().query.count_many(3_000_000, 1_000);
        for number in 0..20 {
            let micros = if number < 17 { 1_000 } else { 40_000 };
            stats.counters.times().query.count_many(micros, 100);
            let pools = vec![PoolRecord::new("shop", "app", PoolMode::Transaction)];
            let report = Report { stats: vec![stats.clone()], pools, ..Report::default() };
            let from = f64::from(number) * EVERY;
            slow.pools(&report, (from, from + EVERY));
            assert_eq!(slow.pools["shop"].slower.is_some(), number > 17, "{number}");
        }
        let server = SocketRecord {
            link: Some(1),
            query_time: Some(1),
            user: "app".to_owned(),
            application_name: "web".to_owned(),
            ..SocketRecord::default()
        };
        let mut running = Running::default();
        running.add(&server);
        running.add(&SocketRecord { query_time: None, ..server });
        let found = finding(slow.pools["shop"].slower, (None, None), running, (false, 100.0)).expect("a finding");
        // A bucket of the histogram has values of up to a quarter more.
        assert!(found.cause.starts_with("Queries take 37 ms instead of 1 ms, 38 times as long as"), "{}", found.cause);
        let end = "; most that run now are of \"web\" of app. Which statement it is can't be told";
        assert!(found.cause.contains(end) && found.cause.ends_with("(track_statements)."), "{}", found.cause);
        let of = found.slow.expect("slow queries");
        assert_eq!((of.since, of.clients), (85_000_000, 1));
        slow.pools(&Report::default(), (100.0, 105.0));
        assert!(slow.pools.is_empty());
    }

    /// Plays windows of five seconds: each has these queries and transactions, as numbers and microseconds.
    fn play(later: &[(u64, u64)], transactions: (u64, u64)) -> Vec<(u32, &'static str)> {
        let mut slow = Slow::default();
        let mut stats = DatabaseStats { database: "shop".to_owned(), ..DatabaseStats::default() };
        let mut found = Vec::new();
        for number in 0..60 {
            let is_later = number >= 30;
            let queries: &[(u64, u64)] = if is_later { later } else { &[(300, 1_500)] };
            let (count, micros) = if is_later { transactions } else { (300, 1_500) };
            let times = stats.counters.times();
            queries.iter().for_each(|(count, micros)| times.query.count_many(*micros, *count));
            times.transaction.count_many(micros, count);
            stats.total.query_time += queries.iter().map(|(count, micros)| count * micros).sum::<u64>();
            stats.total.xact_time += count * micros;
            let report = Report { stats: vec![stats.clone()], ..Report::default() };
            let from = f64::from(number) * EVERY;
            slow.pools(&report, (from, from + EVERY));
            found.extend(slow.pools["shop"].slower.map(|(what, _)| (number, what)));
        }
        found
    }

    #[test]
    fn queries_that_wait_for_each_other_are_slow_beside_many_short_ones_and_longer_transactions_are_not() {
        // BEGIN and COMMIT are short, and the others wait for one lock.
        let convoy = play(&[(160, 100), (80, 180_000), (80, 60_000), (60, 240_000)], (140, 240_000));
        assert_eq!(convoy, (31..60).map(|number| (number, "Transactions")).collect::<Vec<_>>());
        // A new version does more in each transaction, or something else meanwhile.
        assert!(play(&[(3_000, 1_500)], (300, 20_000)).is_empty());
        assert!(play(&[(600, 1_500)], (300, 400_000)).is_empty());
    }
}
