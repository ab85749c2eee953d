//! Runs a case against both poolers, and compares their facts.
//!
//! Owns the comparison: each fact is the same for both, or a [`Difference`] gives both values and the reason. A
//! difference that has gone is an error too, so the list of differences stays correct.

mod facts;
mod pooler;
mod setup;
mod site;

pub(crate) use facts::{Facts, error_line};
pub(crate) use pooler::Pooler;
pub(crate) use setup::Setup;
pub(crate) use site::Site;
pub(crate) use weir_tests::account;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use weir_tests::Postgres;

/// A fact in which the two may differ: PgBouncer 1.18 is older than the version that Weir follows, or weaker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Difference {
    /// The fact's name.
    pub(crate) fact: &'static str,
    /// The fact's value for PgBouncer 1.18.
    pub(crate) pgbouncer: &'static str,
    /// The fact's value for Weir.
    pub(crate) weir: &'static str,
    /// Why Weir's value is right.
    pub(crate) why: &'static str,
}

/// PgBouncer 1.18 gives all errors its own SQLSTATE; 1.25 passes on a server's, as Weir does.
const SERVERS_SQLSTATE: &str = "1.18 does not pass on the server's SQLSTATE";

impl Difference {
    /// An error of a server's login. `weir` is its line with the server's SQLSTATE, `pgbouncer` with 08P01.
    pub(crate) const fn of_sqlstate(fact: &'static str, pgbouncer: &'static str, weir: &'static str) -> Self {
        Difference { fact, pgbouncer, weir, why: SERVERS_SQLSTATE }
    }

    /// One fact in which the poolers differ.
    pub(crate) const fn of(fact: &'static str, pgbouncer: &'static str, weir: &'static str, why: &'static str) -> Self {
        Difference { fact, pgbouncer, weir, why }
    }
}

/// Runs a case against both, on the shared PostgreSQL; all facts must be equal.
#[track_caller]
pub(crate) fn same(setup: &Setup, case: impl Fn(&Site, &mut Facts) + Sync) {
    differ(setup, &[], case);
}

/// Runs a case against both; all facts must be equal except these.
#[track_caller]
pub(crate) fn differ(setup: &Setup, differences: &[Difference], case: impl Fn(&Site, &mut Facts) + Sync) {
    compare(differences, |pooler| {
        let site = Site::start(pooler, setup, &Postgres::shared());
        let mut facts = site.facts();
        case(&site, &mut facts);
        facts.with_log(site.end_of_log())
    });
}

/// Runs a case that starts the pooler itself, or does not start it.
#[track_caller]
pub(crate) fn prepared(setup: &Setup, differences: &[Difference], case: impl Fn(&Site, &mut Facts) + Sync) {
    compare(differences, |pooler| {
        let site = Site::prepare(pooler, setup, &Postgres::shared());
        let mut facts = site.facts();
        case(&site, &mut facts);
        facts.with_log(site.end_of_log())
    });
}

/// Runs a function for each pooler, at the same time, and compares the facts.
///
/// # Panics
///
/// With both lists of facts, when they differ unexpectedly.
#[track_caller]
pub(crate) fn compare(differences: &[Difference], run: impl Fn(Pooler) -> Facts + Sync) {
    let poolers = Pooler::chosen();
    let outcomes = thread::scope(|scope| {
        let runs: Vec<_> = poolers.iter().map(|pooler| scope.spawn(|| attempt(*pooler, &run))).collect();
        runs.into_iter().map(|run| run.join().expect("panics are caught within")).collect::<Vec<_>>()
    });
    let mut all = Vec::new();
    for outcome in outcomes {
        all.push(outcome.unwrap_or_else(|panic| resume_unwind(panic)));
    }
    if std::env::var_os("WEIR_SUITE_FACTS").is_some() {
        all.iter().for_each(|(pooler, facts)| println!("{}", listed(*pooler, facts)));
    }
    let mut wrong = Vec::new();
    for (pooler, facts) in &all {
        wrong.extend(differences.iter().filter_map(|difference| broken(difference, *pooler, facts)));
    }
    if let [(_, pgbouncer), (_, weir)] = all.as_slice() {
        wrong.extend(unlike(differences, pgbouncer, weir));
    }
    if wrong.is_empty() {
        return;
    }
    for (pooler, facts) in &all {
        println!("the end of {}'s log:\n{}", pooler.name(), facts.log());
    }
    panic!("\n{}\n", wrong.join("\n"));
}

type Outcome = Result<(Pooler, Facts), Box<dyn std::any::Any + Send>>;

fn attempt(pooler: Pooler, run: &impl Fn(Pooler) -> Facts) -> Outcome {
    let outcome = catch_unwind(AssertUnwindSafe(|| run(pooler)));
    outcome.map(|facts| (pooler, facts)).inspect_err(|_| println!("this was {}", pooler.name()))
}

/// The error in a fact that is known to differ.
fn broken(difference: &Difference, pooler: Pooler, facts: &Facts) -> Option<String> {
    let expected = match pooler {
        Pooler::PgBouncer => difference.pgbouncer,
        Pooler::Weir => difference.weir,
    };
    let seen = facts.get(difference.fact).unwrap_or("(not seen)");
    let (name, fact, why) = (pooler.name(), difference.fact, difference.why);
    (seen != expected).then(|| format!("{fact}: {name} says\n    {seen}\n  instead of\n    {expected}\n  ({why})"))
}

/// Facts that should be equal, but differ.
fn unlike(differences: &[Difference], pgbouncer: &Facts, weir: &Facts) -> Vec<String> {
    let expected = |name: &str| differences.iter().any(|difference| difference.fact == name);
    let mut names: Vec<_> = pgbouncer.all().iter().map(|(name, _)| name).collect();
    names.extend(weir.all().iter().map(|(name, _)| name).filter(|name| pgbouncer.get(name).is_none()));
    let differing = names.into_iter().filter(|name| {
        let (theirs, ours) = (pgbouncer.get(name), weir.get(name));
        !expected(name) && theirs != ours
    });
    let line = |name: &String| {
        let of = |facts: &Facts| facts.get(name).unwrap_or("(not seen)").to_owned();
        format!("{name}:\n    pgbouncer: {}\n    weir:      {}", of(pgbouncer), of(weir))
    };
    differing.map(line).collect()
}

fn listed(pooler: Pooler, facts: &Facts) -> String {
    let lines = facts.all().iter().map(|(name, value)| format!("  {name}: {value}"));
    format!("{}\n{}", pooler.name(), lines.collect::<Vec<_>>().join("\n"))
}
