//! Evaluates the results: tables, charts and claims, as a pure function.

use super::published::{self, Published};
use super::stage::{POOL_SIZE, POSTGRES_SETTINGS};
use super::{Database, Figures, NodeData, Plan, Run, Variant, WeirIs};
use super::{MysqlOne, MysqlPool, PgOne, PgPool, PgWeirEach, PgWeirPool};
use crate::model::{
    self, Axis, Better, Cell, Chart, ChartKind, Claim, Column, Origin, Row, Scale, Series, Table, Value,
};
use crate::servers::Mariadb;
use crate::steps::Results;

/// From this factor on a speed-up counts as a gain.
const GAIN: f64 = 1.3;
/// A smaller relative difference counts as none.
const SAME: f64 = 0.15;
/// The number of queries in series and in parallel.
const FIVE: f64 = 5.0;

const WORKLOADS: [&str; 3] = ["1 query", "5 in series", "5 in parallel"];

pub(super) fn evaluate(plan: Plan, results: &Results) -> model::Experiment {
    let mut evaluation = model::Experiment::empty("node", "Serial and parallel queries of a Node.js program");
    evaluation.question =
        "Do five queries of one program take less time in parallel than in series, on one connection and \
                      on a pool? And what does Weir change?"
            .into();
    evaluation.source = published::ARTICLE.into();
    evaluation.setup = setup(plan, results);
    evaluation.tables = vec![mysql_table(results), postgres_table(results)];
    evaluation.charts = [mysql_chart(results), postgres_chart(results)].into_iter().flatten().collect();
    evaluation.claims = claims(results);
    evaluation.hides = hides();
    match brought(results, Database::Postgres).map(|brought| brought.weir) {
        Some(WeirIs::Missing(missing)) => evaluation.missing.push(missing),
        Some(WeirIs::Failed(text)) => evaluation.warnings.push(format!("Weir did not start: {text}")),
        Some(WeirIs::There) | None => {}
    }
    evaluation
}

/// For the progress: the gain of parallel queries.
pub(super) fn headline(database: Database, brought: &NodeData) -> String {
    let gain = |variant: Variant| {
        let gain = Medians::of(brought.variants.get(variant.id())?).gain();
        Some(format!("{} {gain:.1}×", variant.id()))
    };
    let gains: Vec<_> = database.variants().filter_map(gain).collect();
    format!("parallel over series: {}", gains.join(", "))
}

/// The medians of each workload's runs, in seconds.
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

fn brought(results: &Results, database: Database) -> Option<NodeData> {
    results.get(database.id())
}

fn figures(results: &Results, variant: Variant) -> Option<Figures> {
    brought(results, variant.database())?.variants.remove(variant.id())
}

fn medians(results: &Results, variant: Variant) -> Option<Medians> {
    figures(results, variant).as_ref().map(Medians::of)
}

fn setup(plan: Plan, results: &Results) -> Vec<String> {
    let users = |database: Database| Some(format!("{} on {}", brought(results, database)?.users, database.name()));
    let found = [Database::Mariadb, Database::Postgres].into_iter().filter_map(users);
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
            "All rows of a table were measured alternately, each workload {}, after one query that is not counted; the \
             tables show medians.",
            times(plan.times)
        ),
        "mysql2 and node-postgres with their defaults, but for the pools' limit of 100 connections and that idle ones are \
         kept. A pool opens its connections when it first needs them, within the first run; with a connection a \
         query, opening and closing it is in every query's time."
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
    let measured = figures(results, variant);
    let lack = || match (results.lack(variant.database().id()), brought(results, variant.database())) {
        (None, Some(NodeData { weir: WeirIs::Missing(_), .. })) => "not installed",
        (lack, _) => lack.unwrap_or("failed"),
    };
    let cell = |ours: fn(&Figures) -> Value, published: Option<f64>| {
        let ours = measured.as_ref().map_or_else(|| Value::text(lack()), ours);
        Cell::both(Some(ours), published.map(Value::number))
    };
    let cells = vec![
        cell(|f| seconds(&f.one), published.map(|p| p.one)),
        cell(|f| seconds(&f.series), published.map(|p| p.series)),
        cell(|f| seconds(&f.parallel), published.map(|p| p.parallel)),
        cell(|f| Value::number(Medians::of(f).gain()), published.map(Published::gain)),
    ];
    Row { label: label.into(), cells }
}

/// When each of five queries ended: on one connection one after another, though all were sent at once.
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

/// Times in units of one query, so that the article's machine and this one can be compared.
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
    series.extend(brought(results, Database::Mariadb).map(|b| bound(b.cores)));
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

/// The bound of the cores: five queries that use a core each.
fn bound(cores: usize) -> Series {
    bars(&format!("as {} allow", words(cores)), Origin::Calculated, [1.0, FIVE, FIVE / most(cores)])
}

/// The largest gain of five parallel queries.
fn most(cores: usize) -> f64 {
    u32::try_from(cores).map_or(FIVE, |cores| f64::from(cores).min(FIVE))
}

fn words(cores: usize) -> String {
    if cores == 1 { "1 core".into() } else { format!("{cores} cores") }
}

fn claims(results: &Results) -> Vec<Claim> {
    vec![
        only_several(
            "Queries in parallel gain only with several connections (published: 3.5 times)",
            results,
            [MysqlOne, MysqlPool],
        ),
        nothing_else(results),
        only_several("The same is so with node-postgres on PostgreSQL", results, [PgOne, PgPool]),
        each_gains(results),
        weir_costs_little(results),
    ]
}

/// Whether there is a gain; `None` where the machine allows none. With the machine's bound, in words.
fn gains(results: &Results, variant: Variant, gain: f64) -> (Option<bool>, String) {
    let cores = brought(results, variant.database()).map_or(1, |brought| brought.cores);
    match cores {
        1 => (None, "one core works on one query at a time, so nothing can gain here".into()),
        _ => (Some(gain >= GAIN), format!("with {} it can be at most {:.0} times", words(cores), most(cores))),
    }
}

const NOT_MEASURED: &str = "What decides it was not measured.";

fn only_several(text: &str, results: &Results, [one, pool]: [Variant; 2]) -> Claim {
    let (Some(single), Some(pooled)) = (medians(results, one), medians(results, pool)) else {
        return Claim::decided(text, None, NOT_MEASURED);
    };
    let serial = single.parallel / single.series;
    let gain = single.parallel / pooled.parallel;
    let (gained, bound) = gains(results, pool, gain);
    let why = format!(
        "Five in parallel took {:.3} s on one connection, {serial:.2} of their time in series, and {:.3} s on the pool: \
         {gain:.1} times faster; {bound}.",
        single.parallel, pooled.parallel
    );
    Claim::decided(text, gained.map(|gained| gained && (serial - 1.0).abs() <= SAME), why)
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
    let (Some(one), Some(each)) = (medians(results, PgOne), medians(results, PgWeirEach)) else {
        return Claim::decided(text, None, NOT_MEASURED);
    };
    let gain = one.parallel / each.parallel;
    let (held, bound) = gains(results, PgWeirEach, gain);
    let why = format!(
        "Five in parallel took {:.3} s, on one connection without Weir {:.3} s: {gain:.1} times faster; {bound}.",
        each.parallel, one.parallel
    );
    Claim::decided(text, held, why)
}

/// Uses the fastest runs, which other programs disturbed least: a cost is in every run, a disturbance is not.
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
         give at most twice. A pool makes nothing faster than the machine is; what waits for a disk \
         or a lock gains by other rules.",
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::length::Length;
    use crate::model::{Missing, Verdict};
    use crate::steps::{Measured, Outcome};

    /// A variant's times of one query, in series and parallel, in ms.
    type Times = (Variant, [f64; 3]);

    const AS_CLAIMED: [Times; 6] = [
        (MysqlOne, [200.0, 1000.0, 1010.0]),
        (MysqlPool, [201.0, 1005.0, 520.0]),
        (PgOne, [200.0, 1000.0, 1001.0]),
        (PgPool, [200.0, 1000.0, 510.0]),
        (PgWeirEach, [205.0, 1020.0, 530.0]),
        (PgWeirPool, [201.0, 1003.0, 512.0]),
    ];

    fn done(database: Database, cores: usize, times: &[Times], weir: WeirIs) -> Outcome {
        let run = |ms: f64| vec![Run { ms, queries: (1..=5).map(|n| ms * f64::from(n) / FIVE).collect() }];
        let of =
            |[one, series, parallel]: [f64; 3]| Figures { one: run(one), series: run(series), parallel: run(parallel) };
        let ours = times.iter().filter(|(variant, _)| variant.database() == database);
        let variants = ours.map(|(variant, times)| (variant.id().to_owned(), of(*times))).collect();
        Outcome::Done(Measured::of("", &NodeData { cores, users: 1000, variants, weir }))
    }

    fn missing(what: &str) -> Missing {
        Missing { what: what.into(), effect: "x".into(), get: "y".into() }
    }

    fn evaluated_of(mysql: Outcome, postgres: Outcome) -> model::Experiment {
        let outcomes = [(Database::Mariadb, mysql), (Database::Postgres, postgres)];
        let outcomes = outcomes.map(|(database, outcome)| (database.id().to_owned(), outcome));
        evaluate(Plan::of(Length::Quick), &Results::new(BTreeMap::from(outcomes)))
    }

    fn evaluated(cores: usize, times: &[Times]) -> model::Experiment {
        let of = |database| done(database, cores, times, WeirIs::There);
        evaluated_of(of(Database::Mariadb), of(Database::Postgres))
    }

    fn verdicts(evaluation: &model::Experiment) -> Vec<Verdict> {
        evaluation.claims.iter().map(|claim| claim.verdict).collect()
    }

    /// The verdicts on two cores, if one variant had other times.
    fn verdicts_with(variant: Variant, times: [f64; 3]) -> Vec<Verdict> {
        verdicts(&evaluated(2, &AS_CLAIMED.map(|other| if other.0 == variant { (variant, times) } else { other })))
    }

    #[test]
    fn figures_as_the_articles_hold_every_claim_and_say_why() {
        let evaluation = evaluated(2, &AS_CLAIMED);
        assert_eq!(verdicts(&evaluation), [Verdict::Held; 5], "{:?}", evaluation.claims);
        let why = &evaluation.claims[0].why;
        assert!(why.contains("1.9 times faster; with 2 cores it can be at most 2 times."), "{why}");
    }

    #[test]
    fn a_pool_without_a_gain_in_parallel_or_with_one_in_series_does_not_hold() {
        assert_eq!(verdicts_with(MysqlPool, [200.0, 1000.0, 900.0])[..2], [Verdict::NotHeld, Verdict::Held]);
        assert_eq!(verdicts_with(MysqlPool, [200.0, 700.0, 500.0])[..2], [Verdict::Held, Verdict::NotHeld]);
        assert_eq!(verdicts_with(PgOne, [200.0, 1000.0, 700.0])[2], Verdict::NotHeld);
    }

    #[test]
    fn a_weir_that_serializes_or_costs_does_not_hold() {
        assert_eq!(verdicts_with(PgWeirEach, [200.0, 1000.0, 990.0])[3], Verdict::NotHeld);
        assert_eq!(verdicts_with(PgWeirPool, [240.0, 1000.0, 510.0])[4], Verdict::NotHeld);
    }

    #[test]
    fn one_core_decides_nothing_about_gains() {
        let evaluation = evaluated(1, &AS_CLAIMED);
        assert_eq!(verdicts(&evaluation), [Verdict::Open, Verdict::Held, Verdict::Open, Verdict::Open, Verdict::Held]);
        assert!(evaluation.claims[0].why.contains("one core"), "{}", evaluation.claims[0].why);
    }

    #[test]
    fn without_mariadb_its_half_is_named_and_open_and_the_other_half_is_evaluated() {
        let postgres = done(Database::Postgres, 2, &AS_CLAIMED, WeirIs::There);
        let evaluation = evaluated_of(Outcome::Missing(missing("MariaDB")), postgres);
        assert_eq!(verdicts(&evaluation)[..3], [Verdict::Open, Verdict::Open, Verdict::Held]);
        let cell = &evaluation.tables[0].rows[0].cells[0];
        assert_eq!(*cell, Cell::both(Some(Value::text("not installed")), Some(Value::number(1.756))));
        assert_eq!(evaluation.charts.len(), 1);
    }

    #[test]
    fn without_weir_its_rows_are_named_and_the_direct_ones_are_evaluated() {
        let of = |database, weir| done(database, 2, &AS_CLAIMED[..4], weir);
        let without = |weir| evaluated_of(of(Database::Mariadb, WeirIs::There), of(Database::Postgres, weir));
        let evaluation = without(WeirIs::Missing(missing("Weir")));
        assert_eq!(verdicts(&evaluation), [Verdict::Held, Verdict::Held, Verdict::Held, Verdict::Open, Verdict::Open]);
        assert_eq!(evaluation.tables[1].rows[2].cells[0].ours, Some(Value::text("not installed")));
        assert_eq!(evaluation.missing, [missing("Weir")]);
        let evaluation = without(WeirIs::Failed("it said no".into()));
        assert_eq!(evaluation.tables[1].rows[3].cells[0].ours, Some(Value::text("failed")));
        assert_eq!(evaluation.warnings, ["Weir did not start: it said no"]);
    }

    #[test]
    fn a_table_has_published_figures_beside_ours_and_says_what_weir_cannot_do() {
        let evaluation = evaluated(2, &AS_CLAIMED);
        let table = &evaluation.tables[0];
        assert!(table.rows.iter().all(|row| row.cells.len() == table.columns.len()));
        let pool = &table.rows[1];
        assert_eq!(pool.cells[2], Cell::both(Some(Value::number(0.52)), Some(Value::number(2.311))));
        assert!(pool.cells[3].published.as_ref().unwrap().as_number().unwrap() > 3.5);
        assert_eq!(table.rows[2].cells[0].ours, Some(Value::text("not yet: Weir does not speak MySQL")));
        assert!(table.note.contains("0.20, 0.40, 0.61, 0.81, 1.01 s"), "{}", table.note);
    }

    #[test]
    fn the_cores_bound_is_drawn_and_never_above_five() {
        let last = |cores| evaluated(cores, &AS_CLAIMED).charts[0].series.last().unwrap().clone();
        assert_eq!((last(2).origin, last(2).points[2].1), (Origin::Calculated, 2.5));
        assert!((last(64).points[2].1 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_measured_is_no_panic_and_all_open() {
        let evaluation = evaluate(Plan::of(Length::Quick), &Results::default());
        assert_eq!(verdicts(&evaluation), [Verdict::Open; 5]);
        assert!(evaluation.charts.is_empty());
        assert_eq!(evaluation.tables[1].rows[2].cells[0].ours, Some(Value::text("not run")));
    }
}
