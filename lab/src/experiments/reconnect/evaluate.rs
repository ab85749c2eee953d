//! Evaluates the runs: tables, charts and claims. A pure function of the results.

use std::fmt::Write as _;

use super::published::{self, Line};
use super::stage::{CONNECTIONS, Fate, POOL, RunData};
use super::{Case, Column, Plan, Setting};
use crate::load::spread::Spread;
use crate::model::{
    Axis, Better, Cell, Chart, ChartKind, Claim, Column as Head, Experiment, Origin, Row, Scale, Series, Table, Value,
};
use crate::servers::{DEFAULT_CHILDREN, Mode};
use crate::steps::Results;

/// "About 60%": from half of that to twice as much.
const ABOUT_60: std::ops::RangeInclusive<f64> = 30.0..=120.0;

/// Two poolers whose relative difference in throughput is smaller count as equally fast.
const NOISE: f64 = 0.03;

/// The number of clients that exceeds the server's limit.
const MANY: u32 = 200;

/// Evaluates the results.
pub(super) fn evaluate(plan: &Plan, results: &Results) -> Experiment {
    let view = View { plan, results };
    Experiment {
        question: "What does a pooler do for a program that opens a new connection for every transaction, and does it \
                   matter which one?"
            .to_owned(),
        source: published::SOURCE.to_owned(),
        setup: setup(plan),
        tables: vec![view.throughput(), view.gains(), view.costs(), view.other_settings()],
        charts: vec![view.throughput_chart(), view.gain_chart(), view.cost_chart()],
        claims: view.claims(),
        hides: view.hides(),
        ..Experiment::empty("reconnect", "A new connection for every transaction: PgBouncer, Pgpool-II, Weir, none")
    }
}

fn setup(plan: &Plan) -> Vec<String> {
    let Plan { scale, duration, .. } = plan;
    vec![
        format!("PostgreSQL with max_connections = {CONNECTIONS}, autovacuum off, pgbench -i -s {scale}."),
        format!(
            "pgbench -C -j 1 -T {duration}: one thread, the default transaction, a new connection for each. Its user is \
             a superuser, so that all {CONNECTIONS} connections are available."
        ),
        "All on one machine over the loopback, without TLS and passwords (trust), in every column alike.".to_owned(),
        format!(
            "PgBouncer with its defaults (session mode, {POOL} servers a pool), but max_client_conn = 5000: by default \
             it, too, takes only 100 clients."
        ),
        "Pgpool-II with its defaults (4 cached connections a child), but num_init_children, which the article calls \
         max_children, is the number of clients; the checks of replicas, which there are none of, are off."
            .to_owned(),
        format!("Weir with its defaults: transaction mode, {POOL} servers a pool."),
        "Each run has a new pooler and a server without connections. The columns of a row are measured one after \
         another, and another one begins in each row."
            .to_owned(),
    ]
}

/// The results, by case.
struct View<'a> {
    plan: &'a Plan,
    results: &'a Results,
}

impl View<'_> {
    fn taken(&self, column: Column, clients: u32) -> Option<RunData> {
        self.results.get(&Case { column, setting: Setting::Table, clients }.id())
    }

    /// The TPS of a run in which all clients were served.
    fn tps(&self, column: Column, clients: u32) -> Option<f64> {
        self.taken(column, clients).filter(|taken| taken.fate == Fate::Served).map(|taken| taken.run.tps)
    }

    /// A column's gain over no pooler, in per cent.
    fn gain(&self, column: Column, clients: u32) -> Option<f64> {
        gain(self.tps(column, clients), self.tps(Column::None, clients))
    }

    fn gains_of(&self, column: Column) -> Vec<f64> {
        self.plan.clients.iter().filter_map(|clients| self.gain(column, *clients)).collect()
    }

    /// A column's figures at all numbers of clients for which all were served.
    fn over_clients(&self, column: Column, figure: impl Fn(&RunData) -> Option<f64>) -> Vec<f64> {
        let taken = self.plan.clients.iter().filter_map(|clients| self.taken(column, *clients));
        taken.filter(|taken| taken.fate == Fate::Served).filter_map(|taken| figure(&taken)).collect()
    }

    fn throughput(&self) -> Table {
        let mut columns: Vec<_> =
            Column::ALL.map(|column| head(column.name(), "1/s", Some(Better::Higher))).into_iter().collect();
        columns.push(head("Pgpool-II, own machine", "1/s", None));
        let row = |clients: &u32| {
            let line = published::of(*clients);
            let cell = |column: Column| {
                let case = Case { column, setting: Setting::Table, clients: *clients };
                Cell::both(Some(self.results.value(&case.id(), |taken| figure(&taken))), printed(line, column))
            };
            let mut cells = Column::ALL.map(cell).to_vec();
            cells.push(Cell::both(
                Some(Value::text("not on one machine")),
                line.map(|line| figure_or(line.pgpool_apart, published::DROPPED_OR_HANGS)),
            ));
            Row { label: clients.to_string(), cells }
        };
        Table {
            title: "Transactions a second".to_owned(),
            rows_are: "clients".to_owned(),
            columns,
            rows: self.plan.clients.iter().map(row).collect(),
            note:
                "As pgbench -C counts: with the time to connect. The article's figures are from another machine; the \
                   order of the poolers and the failures should agree."
                    .to_owned(),
        }
    }

    fn gains(&self) -> Table {
        let columns = [Column::Pgbouncer, Column::Pgpool, Column::Weir];
        let mut heads: Vec<_> =
            columns.map(|column| head(column.name(), "%", Some(Better::Higher))).into_iter().collect();
        heads.push(head("Pgpool-II, own machine", "%", None));
        let row = |clients: &u32| {
            let line = published::of(*clients);
            let none = line.and_then(|line| line.none);
            let cell = |column| {
                let ours = self.gain(column, *clients).map(Value::change);
                let theirs = gain(line.and_then(|line| tps_of(line, column)), none).map(Value::number);
                Cell::both(ours, theirs)
            };
            let mut cells = columns.map(cell).to_vec();
            let apart = gain(line.and_then(|line| line.pgpool_apart), none);
            cells.push(Cell::both(None, apart.map(Value::number)));
            Row { label: clients.to_string(), cells }
        };
        Table {
            title: "Gain against no pooler".to_owned(),
            rows_are: "clients".to_owned(),
            columns: heads,
            rows: self.plan.clients.iter().map(row).collect(),
            note: "Empty where one of the two did not serve all its clients.".to_owned(),
        }
    }

    fn costs(&self) -> Table {
        let row = |column: &Column| {
            let median = |figure: &dyn Fn(&RunData) -> Option<f64>| Value::median(&self.over_clients(*column, figure));
            let cells = [
                median(&|taken| Some(taken.run.connect_ms)),
                median(&|taken| taken.per_transaction(taken.server_cpu)),
                median(&|taken| taken.per_transaction(taken.pooler_cpu?)),
            ];
            let absent = || (*column == Column::None).then(|| Value::text("none"));
            let cells = cells.map(|value| Cell::both(value.or_else(absent), None)).to_vec();
            Row { label: column.name().to_owned(), cells }
        };
        Table {
            title: "What one connection and one transaction cost".to_owned(),
            rows_are: "pooler".to_owned(),
            columns: vec![
                head("to connect", "ms", Some(Better::Lower)),
                head("PostgreSQL's CPU a transaction", "ms", Some(Better::Lower)),
                head("the pooler's CPU a transaction", "ms", Some(Better::Lower)),
            ],
            rows: Column::ALL.iter().map(row).collect(),
            note:
                "Medians over the numbers of clients at which all were served, with the least and the most. CPU time \
                   is the kernel's account of all their processes, in steps of 10 ms a run."
                    .to_owned(),
        }
    }

    fn other_settings(&self) -> Table {
        let clients = self.plan.aside;
        let row = |case: Case| {
            let id = case.id();
            let connect = |taken: RunData| match taken.fate {
                Fate::Served => Value::number(taken.run.connect_ms),
                _ => figure(&taken),
            };
            let cells = [self.results.value(&id, |taken: RunData| figure(&taken)), self.results.value(&id, connect)];
            Row { label: label(case), cells: cells.map(Cell::ours).to_vec() }
        };
        let table = |column| Case { column, setting: Setting::Table, clients };
        let as_above = Column::ALL.into_iter().filter(|_| self.plan.clients.contains(&clients)).map(table);
        Table {
            title: format!("What a setting does: {clients} clients"),
            rows_are: "pooler".to_owned(),
            columns: vec![
                head("transactions", "1/s", Some(Better::Higher)),
                head("to connect", "ms", Some(Better::Lower)),
            ],
            rows: as_above.chain(self.plan.others()).map(row).collect(),
            note: format!(
                "Not in the article. In session mode PgBouncer runs DISCARD ALL after each client, in transaction mode it \
                 does not; Weir runs it where a client left something behind. Pgpool-II starts {DEFAULT_CHILDREN} \
                 children by default."
            ),
        }
    }

    fn throughput_chart(&self) -> Chart {
        let series = |column: Column| Series {
            name: column.name().to_owned(),
            origin: Origin::Measured,
            points: self.points(|clients| self.tps(column, clients)),
        };
        Chart {
            title: "Transactions a second by clients, a new connection for each".to_owned(),
            kind: ChartKind::Lines,
            x: axis("clients", "", Scale::Linear),
            y: axis("transactions", "1/s", Scale::Linear),
            groups: Vec::new(),
            series: Column::ALL.into_iter().map(series).collect(),
            note: "A line ends where not all clients were served.".to_owned(),
        }
    }

    fn gain_chart(&self) -> Chart {
        let measured = [Column::Pgbouncer, Column::Pgpool, Column::Weir].map(|column| Series {
            name: column.name().to_owned(),
            origin: Origin::Measured,
            points: self.points(|clients| self.gain(column, clients).map(|gain| 1.0 + gain / 100.0)),
        });
        let printed = [Column::Pgbouncer, Column::Pgpool].map(|column| Series {
            name: column.name().to_owned(),
            origin: Origin::Published,
            points: self.points(|clients| {
                let line = published::of(clients)?;
                Some(tps_of(line, column)? / line.none?)
            }),
        });
        Chart {
            title: "How many times as much as without a pooler".to_owned(),
            kind: ChartKind::Lines,
            x: axis("clients", "", Scale::Linear),
            y: axis("times", "", Scale::Log),
            groups: Vec::new(),
            series: measured.into_iter().chain(printed).collect(),
            note: "1 is no gain; below it the pooler costs more than it saves.".to_owned(),
        }
    }

    fn cost_chart(&self) -> Chart {
        let bars = |name: &str, figure: &dyn Fn(&RunData) -> Option<f64>| {
            let place = |(x, column): (f64, &Column)| Some((x, median(&self.over_clients(*column, figure))?));
            let points = [0.0, 1.0, 2.0, 3.0].into_iter().zip(&Column::ALL).filter_map(place).collect();
            Series { name: name.to_owned(), origin: Origin::Measured, points }
        };
        Chart {
            title: "CPU time a transaction".to_owned(),
            kind: ChartKind::Bars,
            x: axis("pooler", "", Scale::Linear),
            y: axis("CPU", "ms", Scale::Linear),
            groups: Column::ALL.map(|column| column.name().to_owned()).to_vec(),
            series: vec![
                bars("PostgreSQL", &|taken| taken.per_transaction(taken.server_cpu)),
                bars("pooler", &|taken| taken.per_transaction(taken.pooler_cpu?)),
            ],
            note: "Most of what a new connection costs is PostgreSQL's: a process for each.".to_owned(),
        }
    }

    fn points(&self, y: impl Fn(u32) -> Option<f64>) -> Vec<(f64, f64)> {
        self.plan.clients.iter().filter_map(|clients| Some((f64::from(*clients), y(*clients)?))).collect()
    }

    fn claims(&self) -> Vec<Claim> {
        let mut claims = self.pgbouncer_gains().to_vec();
        claims.extend([self.pgpool_loses(), self.only_pgbouncer_serves_many(), self.badly_set(), self.weir_gains()]);
        claims
    }

    /// Direction and size are two claims: the one is about poolers, the other also about the machine.
    fn pgbouncer_gains(&self) -> [Claim; 2] {
        let gains = self.gains_of(Column::Pgbouncer);
        let why = format!("{}; the article: +58% to +62%", percents(&gains));
        let (least, middle) = Spread::of(&gains).map_or((0.0, 0.0), |spread| (spread.least, spread.median));
        let all = (!gains.is_empty()).then(|| gains.iter().all(|gain| *gain > 0.0));
        let about = median(&gains).map(|gain| ABOUT_60.contains(&gain));
        let more = match about {
            Some(false) => {
                ". The gain is the share that connecting has in a transaction's whole time, which is a matter \
                            of the machine, the network and the disk, not of the pooler"
            }
            _ => "",
        };
        [
            Claim::decided("PgBouncer gains, at every number of clients", all, why.clone()).by(times(least), 1.0),
            Claim::decided(
                "PgBouncer's gain is about 60%",
                about,
                format!("{why}; from +30% to +120% would have counted as that{more}"),
            )
            .by(times(middle), times(*ABOUT_60.start()))
            .by(times(middle), times(*ABOUT_60.end())),
        ]
    }

    fn pgpool_loses(&self) -> Claim {
        let gains = self.gains_of(Column::Pgpool);
        let held = median(&gains).map(|gain| gain < 0.0);
        let mut why = format!("{}; the article: −5% to −9%", percents(&gains));
        if held == Some(false) {
            why.push_str(
                ". It keeps its connections to the server as the others do, so here it saves them as the others do. The \
                 article's setting of it is not printed, so the reason for its loss is unknown",
            );
        }
        Claim::decided("Pgpool-II on the server's machine loses", held, why)
            .by(times(median(&gains).unwrap_or(0.0)), 1.0)
    }

    fn only_pgbouncer_serves_many(&self) -> Claim {
        let fate = |column| self.taken(column, MANY).map(|taken| taken.fate == Fate::Served);
        let (none, pgbouncer, pgpool) = (fate(Column::None), fate(Column::Pgbouncer), fate(Column::Pgpool));
        let held = match (none, pgbouncer, pgpool) {
            (Some(none), Some(pgbouncer), Some(pgpool)) => Some(pgbouncer && !none && !pgpool),
            _ => None,
        };
        let tell = |column: Column| format!("{}: {}", column.name(), self.fate_in_words(column, MANY));
        let why = Column::ALL.map(tell).join("; ");
        Claim::decided("At 200 clients PgBouncer serves; no pooler and Pgpool-II do not", held, why)
    }

    fn badly_set(&self) -> Claim {
        let aside = Case { column: Column::Pgpool, setting: Setting::DefaultChildren, clients: self.plan.aside };
        let stuck: Option<RunData> = self.results.get(&aside.id());
        let lost = [Column::Pgbouncer, Column::Pgpool].into_iter().filter_map(|column| {
            let gains = self.gains_of(column);
            median(&gains).filter(|gain| *gain < 0.0).map(|_| format!("{}: {}", column.name(), percents(&gains)))
        });
        let mut reasons: Vec<_> = lost.collect();
        if let Some(stuck) = stuck.as_ref().filter(|stuck| stuck.fate != Fate::Served) {
            let clients = self.plan.aside;
            let mut text = format!(
                "Pgpool-II with the {DEFAULT_CHILDREN} children that it starts by default, {clients} clients: {}",
                in_words(stuck)
            );
            if let Some(tps) = self.tps(Column::None, clients) {
                let _ = write!(text, ", where the server alone serves them at {tps:.0} TPS");
            }
            reasons.push(text);
        }
        let held = (stuck.is_some() || !reasons.is_empty()).then_some(!reasons.is_empty());
        let why = match held {
            Some(true) => reasons.join("; "),
            Some(false) => "no setting that was tried did worse than no pooler".to_owned(),
            None => "Pgpool-II was not measured".to_owned(),
        };
        Claim::decided("A badly configured pooler is worse than none", held, why)
    }

    fn weir_gains(&self) -> Claim {
        let ratio = |clients: &u32| Some(self.tps(Column::Weir, *clients)? / self.tps(Column::Pgbouncer, *clients)?);
        let ratios: Vec<_> = self.plan.clients.iter().filter_map(ratio).collect();
        let held = median(&ratios).map(|ratio| ratio >= 1.0 - NOISE);
        let why = match Spread::of(&ratios) {
            Some(Spread { median, least, most }) => format!(
                "Weir's TPS are {median:.2} of PgBouncer's, the median of {} numbers of clients (from {least:.2} to \
                 {most:.2}); {:.2} or more counts as no less. Weir: {}; PgBouncer: {}{}",
                ratios.len(),
                1.0 - NOISE,
                percents(&self.gains_of(Column::Weir)),
                percents(&self.gains_of(Column::Pgbouncer)),
                self.both_in_transaction_mode().unwrap_or_default(),
            ),
            None => "they were not both measured".to_owned(),
        };
        Claim::decided("Ours: Weir gains at least what PgBouncer gains", held, why)
            .by(median(&ratios).unwrap_or(1.0), 1.0 - NOISE)
    }

    /// PgBouncer and Weir in the same mode, since their defaults differ.
    fn both_in_transaction_mode(&self) -> Option<String> {
        let clients = self.plan.aside;
        let case = Case { column: Column::Pgbouncer, setting: Setting::Mode(Mode::Transaction), clients };
        let pgbouncer = self.results.get::<RunData>(&case.id()).filter(|taken| taken.fate == Fate::Served)?.run.tps;
        let weir = self.tps(Column::Weir, clients)?;
        Some(format!(
            ". With PgBouncer in transaction mode, too, one run each at {clients} clients: {weir:.0} and {pgbouncer:.0} TPS"
        ))
    }

    fn fate_in_words(&self, column: Column, clients: u32) -> String {
        let lack = || self.results.lack(&Case { column, setting: Setting::Table, clients }.id()).unwrap_or("not run");
        self.taken(column, clients).map_or_else(|| lack().to_owned(), |taken| in_words(&taken))
    }

    fn hides(&self) -> Vec<String> {
        let ours = median(&self.over_clients(Column::None, |taken| Some(taken.run.connect_ms)));
        let here = ours.map(|ms| format!(" Here it is {ms:.1} ms.")).unwrap_or_default();
        vec![
            format!(
                "With one thread pgbench opens one connection after another, and waits for each. So its table is about \
                 the time of one connect: 17 TPS, at 10 clients as at 100, are 59 ms a transaction, and PgBouncer's 27 \
                 are 37 ms.{here}"
            ),
            "59 ms are far more than a new process and a login cost on one machine: a network, TLS, a password's hash or \
             a slow disk must be in them. Whatever a pooler cannot save makes its gain look smaller."
                .to_owned(),
            "Ours has the durability off, no network and no TLS: the transaction costs little and the connection nearly \
             everything, so poolers gain more here than the article found. With TLS and passwords a connection costs \
             more still, to the server and to the pooler."
                .to_owned(),
            format!(
                "At 200 clients it is max_connections = {CONNECTIONS} that decides, not speed. PgBouncer's own default, \
                 max_client_conn = 100, refuses the 101st client as well; “default settings” cannot have been all."
            ),
            "A pgbench of today continues with the clients that got in, and says at the end that the run was aborted: its \
             TPS then are those of fewer clients. We print no figure for such a run."
                .to_owned(),
            format!(
                "Why Pgpool-II's children had to be raised: with {DEFAULT_CHILDREN} of them and more clients, pgbench's \
                 one thread waits in a connect for a child that only its own other clients could set free. It hangs for \
                 ever; a program with threads would have waited in a queue."
            ),
            "The modes differ: PgBouncer's default is session, Weir's is transaction. With -C a session is one \
             transaction, so each server is free again equally soon, but in session mode PgBouncer runs DISCARD ALL \
             after each client. The last table has both modes of both."
                .to_owned(),
        ]
    }
}

fn head(title: &str, unit: &str, better: Option<Better>) -> Head {
    Head { title: title.to_owned(), unit: unit.to_owned(), better }
}

fn axis(title: &str, unit: &str, scale: Scale) -> Axis {
    Axis { title: title.to_owned(), unit: unit.to_owned(), scale }
}

/// A case in the table of settings, whose title has the number of clients.
fn label(case: Case) -> String {
    let text = case.to_string();
    text.rsplit_once(", ").map_or_else(|| text.clone(), |(label, _)| label.to_owned())
}

/// TPS, or why there is none.
fn figure(taken: &RunData) -> Value {
    match taken.fate {
        Fate::Served => Value::number(taken.run.tps),
        Fate::Refused => Value::text("refused: too many clients"),
        Fate::Dropped => Value::text("connections dropped"),
        Fate::Hung => Value::text("hangs"),
        Fate::OutOfPorts => Value::text("out of ports"),
    }
}

fn in_words(taken: &RunData) -> String {
    let RunData { clients, run, .. } = taken;
    match taken.fate {
        Fate::Served => format!("all {clients} served, {:.0} TPS", run.tps),
        Fate::Refused => format!("{} of {clients} refused ({})", run.aborted, reason(&run.complaint)),
        Fate::Dropped => format!("{} of {clients} dropped", run.aborted),
        Fate::Hung => "hangs".to_owned(),
        Fate::OutOfPorts => "the machine ran out of ports".to_owned(),
    }
}

/// An error message without libpq's prefix.
fn reason(complaint: &str) -> &str {
    complaint.split_once("FATAL:").map_or(complaint, |(_, reason)| reason.trim())
}

fn printed(line: Option<Line>, column: Column) -> Option<Value> {
    let line = line?;
    match column {
        Column::None => Some(figure_or(line.none, published::DROPPED)),
        Column::Pgbouncer => line.pgbouncer.map(Value::number),
        Column::Pgpool => Some(figure_or(line.pgpool, published::DROPPED_OR_HANGS)),
        Column::Weir => None,
    }
}

fn figure_or(tps: Option<f64>, words: &str) -> Value {
    tps.map_or_else(|| Value::text(words), Value::number)
}

fn tps_of(line: Line, column: Column) -> Option<f64> {
    match column {
        Column::None => line.none,
        Column::Pgbouncer => line.pgbouncer,
        Column::Pgpool => line.pgpool,
        Column::Weir => None,
    }
}

/// By how many per cent `with` exceeds `without`.
fn gain(with: Option<f64>, without: Option<f64>) -> Option<f64> {
    let without = without.filter(|tps| *tps > 0.0)?;
    // One decimal, as in the article; more would only look exact.
    Some(((with? / without - 1.0) * 1000.0).round() / 10.0)
}

/// A gain in per cent as a factor.
fn times(gain: f64) -> f64 {
    1.0 + gain / 100.0
}

fn median(values: &[f64]) -> Option<f64> {
    Some(Spread::of(values)?.median)
}

/// `+412% (the median; from +398% to +430%)`.
fn percents(gains: &[f64]) -> String {
    let Some(Spread { median, least, most }) = Spread::of(gains) else { return "not measured".to_owned() };
    format!("{} (the median; from {} to {})", percent(median), percent(least), percent(most))
}

fn percent(gain: f64) -> String {
    format!("{}{:.0}%", if gain < 0.0 { '−' } else { '+' }, gain.abs())
}

#[cfg(test)]
mod tests;
