//! What the figures mean: tables, charts and claims, as a pure function of the results.

use super::published::{self, Published};
use super::stage::{POOL_SIZE, POSTGRES_SETTINGS};
use super::{Database, Figures, Plan, Run, VARIANTS, Variant};
use super::{MysqlOne, MysqlPool, PgOne, PgPool, PgWeirEach, PgWeirPool};
use crate::model::{
    self, Axis, Better, Cell, Chart, ChartKind, Claim, Column, Origin, Row, Scale, Series, Table, Value,
};
use crate::stand::Mariadb;
use crate::steps::Results;

/// How many times faster is a gain.
const GAIN: f64 = 1.3;
/// What differs by less than this share differs by nothing, or costs nothing.
const SAME: f64 = 0.15;
/// How many queries "five" are.
const FIVE: f64 = 5.0;

const WORKLOADS: [&str; 3] = ["1 query", "5 in series", "5 in parallel"];

pub(super) fn tell(plan: Plan, results: &Results) -> model::Experiment {
    let mut story = model::Experiment::empty("node", "Serial and parallel queries of a Node.js program");
    story.question = "Do five queries of one program take less time in parallel than in series, on one connection and \
                      on a pool? And what does Weir change?"
        .into();
    story.source = published::ARTICLE.into();
    story.setup = setup(plan, results);
    story.tables = vec![mysql_table(results), postgres_table(results)];
    story.charts = [mysql_chart(results), postgres_chart(results)].into_iter().flatten().collect();
    story.claims = claims(results);
    story.hides = hides();
    story.warnings =
        [Database::Mariadb, Database::Postgres].map(|one| sizes_differ(one, results)).into_iter().flatten().collect();
    story
}

/// For the progress.
pub(super) fn headline(figures: &Figures) -> String {
    let Medians { one, series, parallel } = Medians::of(figures);
    format!("one {one:.3} s, five in series {series:.3} s, in parallel {parallel:.3} s")
}

/// The middle of each workload's runs, in seconds.
#[derive(Clone, Copy, Debug)]
struct Medians {
    one: f64,
    series: f64,
    parallel: f64,
}

impl Medians {
    fn of(figures: &Figures) -> Medians {
        let of = |runs: &[Run]| seconds(runs).as_number().unwrap_or(f64::NAN);
        Medians { one: of(&figures.one), series: of(&figures.series), parallel: of(&figures.parallel) }
    }

    fn gain(self) -> f64 {
        self.series / self.parallel
    }

    fn each(self) -> [f64; 3] {
        [self.one, self.series, self.parallel]
    }
}

fn seconds(runs: &[Run]) -> Value {
    let values: Vec<_> = runs.iter().map(|run| run.ms / 1000.0).collect();
    Value::median(&values).unwrap_or_else(|| Value::text("not run"))
}

fn figures(results: &Results, variant: Variant) -> Option<Figures> {
    results.get(variant.id())
}

fn medians(results: &Results, variant: Variant) -> Option<Medians> {
    figures(results, variant).as_ref().map(Medians::of)
}

fn setup(plan: Plan, results: &Results) -> Vec<String> {
    let users = |variant| figures(results, variant).map(|f: Figures| f.users);
    let found = [("MariaDB", users(MysqlOne)), ("PostgreSQL", users(PgOne))];
    let found = found.iter().filter_map(|(name, users)| users.map(|users| format!("{users} on {name}")));
    let found = found.collect::<Vec<_>>().join(", ");
    let found = if found.is_empty() { found } else { format!(": {found}") };
    let postgres: Vec<_> = POSTGRES_SETTINGS.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    vec![
        "The query joins three tables and counts: user, access_code (20 rows a user), user_location_info (25 rows a \
         user), joined on the user's id; so it counts 500 pairs a user, and the program checks the count."
            .into(),
        format!(
            "The number of users was found by measuring, so that one query takes about {} ms{found}.",
            plan.query_ms
        ),
        format!(
            "Each workload ran {} by turns, after one query that is not counted; the tables show medians.",
            times(plan.times)
        ),
        "mysql2 and node-postgres with their defaults, but for the pools' limit of 100 connections. A pool opens its \
         connections when it first needs them, within the first run; with a connection a query, opening and closing \
         it is in every query's time."
            .into(),
        format!("MariaDB's settings: {}.", Mariadb::settings()),
        format!(
            "PostgreSQL's settings besides those of all experiments: {}. So one query uses one core, as on MySQL; with \
             parallel workers a single large query may already use several cores, and five in parallel gain less.",
            postgres.join(", ")
        ),
        format!(
            "Weir: a pool of {POOL_SIZE} servers in transaction mode. Everything is on one machine, over the loopback."
        ),
    ]
}

fn times(times: u32) -> String {
    if times == 1 { "once".into() } else { format!("{times} times") }
}

fn mysql_table(results: &Results) -> Table {
    let not_yet = || {
        let text = Cell::ours(Value::text("not yet: Weir does not speak MySQL"));
        vec![text, Cell::default(), Cell::default(), Cell::default()]
    };
    let rows = vec![
        row(results, MysqlOne, "one connection", Some(&published::ONE_CONNECTION)),
        row(results, MysqlPool, "pool", Some(&published::POOL)),
        Row { label: "through Weir".into(), cells: not_yet() },
    ];
    table("mysql2 on MariaDB", rows, queueing(results, MysqlOne))
}

fn postgres_table(results: &Results) -> Table {
    let rows = vec![
        row(results, PgOne, "one connection", None),
        row(results, PgPool, "pool", None),
        row(results, PgWeirEach, "through Weir, a connection a query", None),
        row(results, PgWeirPool, "through Weir, pool", None),
    ];
    table("node-postgres on PostgreSQL", rows, queueing(results, PgOne))
}

fn table(title: &str, rows: Vec<Row>, note: String) -> Table {
    let time = |title: &str| Column { title: title.into(), unit: "s".into(), better: Some(Better::Lower) };
    let mut columns: Vec<_> = WORKLOADS.iter().map(|workload| time(workload)).collect();
    let title_of_gain = "gain of parallel over series".into();
    columns.push(Column { title: title_of_gain, unit: "×".into(), better: Some(Better::Higher) });
    Table { title: title.into(), rows_are: "connections".into(), columns, rows, note }
}

fn row(results: &Results, variant: Variant, label: &str, published: Option<&Published>) -> Row {
    let cell = |ours: fn(Figures) -> Value, published: Option<f64>| {
        Cell::both(Some(results.value(variant.id(), ours)), published.map(Value::number))
    };
    let cells = vec![
        cell(|f| seconds(&f.one), published.map(|p| p.one)),
        cell(|f| seconds(&f.series), published.map(|p| p.series)),
        cell(|f| seconds(&f.parallel), published.map(|p| p.parallel)),
        cell(|f| Value::number(Medians::of(&f).gain()), published.map(Published::gain)),
    ];
    Row { label: label.into(), cells }
}

/// When each of the five came back: on one connection one after another, though all were sent at once.
fn queueing(results: &Results, variant: Variant) -> String {
    let Some(figures) = figures(results, variant) else { return String::new() };
    let nth = |n: usize| {
        let values: Vec<_> = figures.parallel.iter().filter_map(|run| run.queries.get(n)).copied().collect();
        Value::median(&values).and_then(|value| value.as_number())
    };
    let ends: Vec<_> = (0..5).filter_map(nth).map(|ms| format!("{:.2}", ms / 1000.0)).collect();
    format!(
        "On one connection the five parallel ones came back after {} s: the driver sends one after another.",
        ends.join(", ")
    )
}

/// Times in units of one query, which the article's machine and this one have in common.
fn mysql_chart(results: &Results) -> Option<Chart> {
    let measured = [(MysqlOne, "one connection"), (MysqlPool, "pool")];
    let mut series: Vec<_> = measured
        .iter()
        .filter_map(|(variant, name)| {
            Some(bars(name, Origin::Measured, in_queries(medians(results, *variant)?.each())))
        })
        .collect();
    if series.is_empty() {
        return None;
    }
    for (name, p) in [("one connection", published::ONE_CONNECTION), ("pool", published::POOL)] {
        series.push(bars(&format!("{name}, article"), Origin::Published, in_queries([p.one, p.series, p.parallel])));
    }
    series.extend(figures(results, MysqlPool).map(|f| bound(&f)));
    let title = "mysql2: time in units of one query";
    Some(chart(title, "time", "queries", series, "Bars of 5 mean that nothing was gained."))
}

fn postgres_chart(results: &Results) -> Option<Chart> {
    let measured = [
        (PgOne, "one connection"),
        (PgPool, "pool"),
        (PgWeirEach, "Weir, a connection a query"),
        (PgWeirPool, "Weir, pool"),
    ];
    let series: Vec<_> = measured
        .iter()
        .filter_map(|(variant, name)| Some(bars(name, Origin::Measured, medians(results, *variant)?.each())))
        .collect();
    (!series.is_empty()).then(|| chart("node-postgres: time", "time", "s", series, ""))
}

fn chart(title: &str, y: &str, unit: &str, series: Vec<Series>, note: &str) -> Chart {
    Chart {
        title: title.into(),
        kind: ChartKind::Bars,
        x: Axis { title: "workload".into(), unit: String::new(), scale: Scale::Linear },
        y: Axis { title: y.into(), unit: unit.into(), scale: Scale::Linear },
        groups: WORKLOADS.map(str::to_owned).into(),
        series,
        note: note.into(),
    }
}

fn bars(name: &str, origin: Origin, values: [f64; 3]) -> Series {
    let points = [0.0, 1.0, 2.0].into_iter().zip(values).filter(|(_, y)| y.is_finite()).collect();
    Series { name: name.into(), origin, points }
}

fn in_queries(values: [f64; 3]) -> [f64; 3] {
    values.map(|value| value / values[0])
}

/// What the cores allow: five queries that use a core each.
fn bound(figures: &Figures) -> Series {
    let name = format!("as {} allow", cores(figures));
    bars(&name, Origin::Calculated, [1.0, FIVE, FIVE / most(figures)])
}

/// The most that five in parallel can gain.
fn most(figures: &Figures) -> f64 {
    (1..=5).rev().find(|cores| *cores <= figures.cores).map_or(1.0, f64_of)
}

fn f64_of(cores: usize) -> f64 {
    u32::try_from(cores).map_or(FIVE, f64::from)
}

fn cores(figures: &Figures) -> String {
    if figures.cores == 1 { "1 core".into() } else { format!("{} cores", figures.cores) }
}

fn claims(results: &Results) -> Vec<Claim> {
    vec![
        only_several(
            "Queries in parallel gain only with several connections (published: 3.5 times)",
            figures(results, MysqlOne),
            figures(results, MysqlPool),
        ),
        nothing_else(results),
        only_several(
            "The same is so with node-postgres on PostgreSQL",
            figures(results, PgOne),
            figures(results, PgPool),
        ),
        each_gains(results),
        weir_costs_little(results),
    ]
}

const NOT_MEASURED: &str = "What decides it was not measured.";
const ONE_CORE: &str = "One core works on one query at a time: nothing can gain here.";

fn only_several(text: &str, one: Option<Figures>, pool: Option<Figures>) -> Claim {
    let (Some(one), Some(pool)) = (one, pool) else { return Claim::decided(text, None, NOT_MEASURED) };
    let (single, pooled) = (Medians::of(&one), Medians::of(&pool));
    let serial = single.parallel / single.series;
    let gain = single.parallel / pooled.parallel;
    let held = (pool.cores > 1).then_some(gain >= GAIN && (serial - 1.0).abs() <= SAME);
    let bound = match held {
        Some(_) => format!("with {} at most {:.0} times", cores(&pool), most(&pool)),
        None => ONE_CORE.to_owned(),
    };
    let why = format!(
        "Five in parallel took {:.3} s on one connection, {serial:.2} of their time in series, and {:.3} s on the pool: \
         {gain:.1} times faster; {bound}.",
        single.parallel, pooled.parallel
    );
    Claim::decided(text, held, why.replace("..", "."))
}

fn nothing_else(results: &Results) -> Claim {
    let text = "A pool gains nothing for one query, nor for queries in series (published: 1.763 s for 1.756 s, 8.192 s \
                for 8.579 s)";
    let (Some(one), Some(pool)) = (medians(results, MysqlOne), medians(results, MysqlPool)) else {
        return Claim::decided(text, None, NOT_MEASURED);
    };
    let ratios = [pool.one / one.one, pool.series / one.series];
    let held = ratios.iter().all(|ratio| (ratio - 1.0).abs() <= SAME);
    let why = format!(
        "One query: {:.3} s on the pool, {:.3} s on one connection. Five in series: {:.3} s and {:.3} s.",
        pool.one, one.one, pool.series, one.series
    );
    Claim::decided(text, Some(held), why)
}

fn each_gains(results: &Results) -> Claim {
    let text = "A program without a pool, which opens a connection for every query, has the gain of parallel queries \
                through Weir as well";
    let (Some(one), Some(each)) = (figures(results, PgOne), figures(results, PgWeirEach)) else {
        return Claim::decided(text, None, NOT_MEASURED);
    };
    let gain = Medians::of(&one).parallel / Medians::of(&each).parallel;
    let (one_took, each_took) = (Medians::of(&one).parallel, Medians::of(&each).parallel);
    let took = format!(
        "Five in parallel took {each_took:.3} s, on one connection without Weir {one_took:.3} s: {gain:.1} times faster"
    );
    if each.cores == 1 {
        return Claim::decided(text, None, format!("{took}. {ONE_CORE}"));
    }
    Claim::decided(text, Some(gain >= GAIN), format!("{took}; with {} at most {:.0} times.", cores(&each), most(&each)))
}

/// By the quickest runs, which strangers on the machine disturbed least: a cost is in every run, a disturbance is not.
fn weir_costs_little(results: &Results) -> Claim {
    let text = "Where the program has a pool of its own, Weir costs less than 15% of a query's time";
    let (Some(direct), Some(weir)) = (figures(results, PgPool), figures(results, PgWeirPool)) else {
        return Claim::decided(text, None, NOT_MEASURED);
    };
    let ratios: Vec<_> =
        quickest(&weir).into_iter().zip(quickest(&direct)).map(|(weir, direct)| weir / direct).collect();
    let held = ratios.iter().all(|ratio| *ratio <= 1.0 + SAME);
    let each: Vec<_> = WORKLOADS.iter().zip(&ratios).map(|(name, ratio)| format!("{name}: {ratio:.2}")).collect();
    let why = format!("Times through Weir over direct times, of each the quickest run: {}.", each.join(", "));
    Claim::decided(text, Some(held), why)
}

fn quickest(figures: &Figures) -> [f64; 3] {
    [&figures.one, &figures.series, &figures.parallel]
        .map(|runs| runs.iter().map(|run| run.ms).fold(f64::NAN, f64::min))
}

fn hides() -> Vec<String> {
    [
        "Five queries in parallel use five connections: a limit of 100 does no more than a limit of 5.",
        "The queries use a core each, so the cores bound the gain: 3.5 times needs at least four of them, and two \
         give at most twice. A pool makes nothing faster than the machine is; what waits for a disk or a lock gains by other rules.",
        "It is one query from one program on an idle server, always the same and read from memory; the server of a \
         busy site has other work for its cores, and there the gain is smaller or none.",
        "One connection answers one query at a time, in the protocols of MySQL and of PostgreSQL, so a pooler in \
         front of it changes nothing: the driver queues. Several connections are the program's to open.",
        "With times of seconds, what a connection costs to open does not show; it shows where queries take \
         a millisecond (see the experiments products and reconnect).",
    ]
    .map(str::to_owned)
    .into()
}

/// Variants of one database that were not measured on the same data are not to be compared.
fn sizes_differ(database: Database, results: &Results) -> Option<String> {
    let variants = VARIANTS.into_iter().filter(|variant| variant.database() == database);
    let mut sizes: Vec<_> = variants.filter_map(|variant| figures(results, variant)).map(|f| f.users).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let name = if database == Database::Mariadb { "MariaDB" } else { "PostgreSQL" };
    let text = || format!("{name} was measured on data of {sizes:?} users: its rows cannot be compared");
    (sizes.len() > 1).then(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::length::Length;
    use crate::model::{Missing, Verdict};
    use crate::steps::{Measured, Outcome};

    /// Figures of a variant: one, series, parallel, in ms.
    fn done(cores: usize, one: f64, series: f64, parallel: f64) -> Outcome {
        let run = |ms: f64| vec![Run { ms, queries: (1..=5).map(|n| ms * f64::from(n) / FIVE).collect() }];
        let figures = Figures { cores, users: 1000, one: run(one), series: run(series), parallel: run(parallel) };
        Outcome::Done(Measured::of("", &figures))
    }

    fn results(outcomes: Vec<(Variant, Outcome)>) -> Results {
        let named = outcomes.into_iter().map(|(variant, outcome)| (variant.id().to_owned(), outcome));
        Results::new(named.collect::<BTreeMap<_, _>>())
    }

    fn as_claimed(cores: usize) -> Vec<(Variant, Outcome)> {
        vec![
            (MysqlOne, done(cores, 200.0, 1000.0, 1010.0)),
            (MysqlPool, done(cores, 201.0, 1005.0, 520.0)),
            (PgOne, done(cores, 200.0, 1000.0, 1001.0)),
            (PgPool, done(cores, 200.0, 1000.0, 510.0)),
            (PgWeirEach, done(cores, 205.0, 1020.0, 530.0)),
            (PgWeirPool, done(cores, 201.0, 1003.0, 512.0)),
        ]
    }

    fn with(variant: Variant, outcome: Outcome) -> Vec<(Variant, Outcome)> {
        let mut all = as_claimed(2);
        all.retain(|(other, _)| *other != variant);
        all.push((variant, outcome));
        all
    }

    fn told(outcomes: Vec<(Variant, Outcome)>) -> model::Experiment {
        tell(Plan::of(Length::Quick), &results(outcomes))
    }

    fn verdicts(outcomes: Vec<(Variant, Outcome)>) -> Vec<Verdict> {
        told(outcomes).claims.iter().map(|claim| claim.verdict).collect()
    }

    #[test]
    fn figures_as_the_articles_hold_every_claim_and_say_why() {
        let story = told(as_claimed(2));
        assert!(story.claims.iter().all(|claim| claim.verdict == Verdict::Held), "{:?}", story.claims);
        let why = &story.claims[0].why;
        assert!(why.contains("1.9 times faster") && why.contains("with 2 cores at most 2 times."), "{why}");
        assert!(story.warnings.is_empty(), "{:?}", story.warnings);
    }

    #[test]
    fn a_pool_without_a_gain_in_parallel_or_with_one_in_series_does_not_hold() {
        let no_gain = verdicts(with(MysqlPool, done(2, 200.0, 1000.0, 900.0)));
        assert_eq!(no_gain[..2], [Verdict::NotHeld, Verdict::Held]);
        let gains_in_series = verdicts(with(MysqlPool, done(2, 200.0, 700.0, 500.0)));
        assert_eq!(gains_in_series[..2], [Verdict::Held, Verdict::NotHeld]);
        let parallel_on_one = verdicts(with(PgOne, done(2, 200.0, 1000.0, 700.0)));
        assert_eq!(parallel_on_one[2], Verdict::NotHeld);
    }

    #[test]
    fn a_weir_that_serializes_or_costs_does_not_hold() {
        assert_eq!(verdicts(with(PgWeirEach, done(2, 200.0, 1000.0, 990.0)))[3], Verdict::NotHeld);
        assert_eq!(verdicts(with(PgWeirPool, done(2, 240.0, 1000.0, 510.0)))[4], Verdict::NotHeld);
    }

    #[test]
    fn one_core_decides_nothing_about_gains() {
        let verdicts = verdicts(as_claimed(1));
        assert_eq!(verdicts, [Verdict::Open, Verdict::Held, Verdict::Open, Verdict::Open, Verdict::Held]);
    }

    #[test]
    fn without_mariadb_its_half_is_named_and_open_and_the_other_half_is_told() {
        let missing = || Outcome::Missing(Missing { what: "MariaDB".into(), effect: "x".into(), get: "y".into() });
        let mut all = as_claimed(2);
        all.retain(|(variant, _)| variant.database() == Database::Postgres);
        all.extend([(MysqlOne, missing()), (MysqlPool, missing())]);
        let story = told(all);
        let verdicts: Vec<_> = story.claims.iter().map(|claim| claim.verdict).collect();
        assert_eq!(verdicts, [Verdict::Open, Verdict::Open, Verdict::Held, Verdict::Held, Verdict::Held]);
        let cell = &story.tables[0].rows[0].cells[0];
        assert_eq!(cell.ours, Some(Value::text("not installed")));
        assert_eq!(cell.published, Some(Value::number(1.756)));
        assert_eq!(story.charts.len(), 1);
    }

    #[test]
    fn a_table_has_published_figures_beside_ours_and_says_what_weir_cannot_do() {
        let story = told(as_claimed(2));
        let table = &story.tables[0];
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        let pool = &table.rows[1];
        assert_eq!(pool.cells[2], Cell::both(Some(Value::number(0.52)), Some(Value::number(2.311))));
        assert!(pool.cells[3].published.as_ref().unwrap().as_number().unwrap() > 3.5);
        assert_eq!(table.rows[2].cells[0].ours, Some(Value::text("not yet: Weir does not speak MySQL")));
        assert!(table.note.contains("0.20, 0.40, 0.61, 0.81, 1.01 s"), "{}", table.note);
    }

    #[test]
    fn the_cores_bound_is_drawn_and_never_above_five() {
        let last = |cores| told(as_claimed(cores)).charts[0].series.last().unwrap().clone();
        assert_eq!((last(2).origin, last(2).points[2].1), (Origin::Calculated, 2.5));
        assert_eq!(last(64).points[2].1, 1.0);
    }

    #[test]
    fn data_of_two_sizes_is_warned_of() {
        let mut other = Figures { cores: 2, users: 900, one: vec![], series: vec![], parallel: vec![] };
        other.one = vec![Run { ms: 1.0, queries: vec![1.0] }];
        let story = told(with(PgPool, Outcome::Done(Measured::of("", &other))));
        assert!(
            story.warnings[0].contains("PostgreSQL was measured on data of [900, 1000] users"),
            "{:?}",
            story.warnings
        );
    }

    #[test]
    fn nothing_measured_is_no_panic_and_all_open() {
        let story = told(Vec::new());
        assert!(story.claims.iter().all(|claim| claim.verdict == Verdict::Open));
        assert!(story.charts.is_empty());
    }
}
