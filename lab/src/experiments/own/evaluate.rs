//! What the runs of a lab of one's own say. A pure function of the results.
//!
//! Two targets differ only by more than their spread: the least of the one must be more than the most of the
//! other. Where clients offer less than targets could do (a rate, a pause), what tells them apart is the latency.

mod trust;

use super::Case;
use super::file::{Kind, Plan, Script, Target, Workload};
use super::stage::Taken;
use crate::model::{
    Axis, Better, Cell, Chart, ChartKind, Claim, Column, Experiment, Origin, Row, Scale, Series, Table, Value,
};
use crate::servers::Mode;
use crate::steps::Results;

/// Medians that differ by less than this do not differ, however small the spread.
const LEAST: f64 = 0.03;

/// The same where there is one repetition only, whose spread nobody knows.
const LEAST_ALONE: f64 = 0.10;

/// The story.
pub(super) fn evaluate(plan: &Plan, results: &Results) -> Experiment {
    let seen = Seen { plan, results };
    let mut tables = vec![
        seen.table("Transactions a second", "1/s", Better::Higher, &|taken| Some(taken.run.tps)),
        seen.table("Average latency", "ms", Better::Lower, &|taken| Some(seen.latency(taken))),
    ];
    if plan.workload.reconnect {
        tables.push(seen.table("Time to connect", "ms", Better::Lower, &|taken| Some(taken.run.connect_ms)));
    }
    tables.extend(seen.costs());
    Experiment {
        question: "What would a pooler do for this load?".to_owned(),
        setup: setup(plan),
        tables,
        charts: seen.charts(),
        claims: seen.answers(),
        warnings: trust::warnings(plan, results),
        ..Experiment::empty("own", &plan.title)
    }
}

fn setup(plan: &Plan) -> Vec<String> {
    let Plan { repetitions, seed, workload, targets, .. } = plan;
    let mut lines: Vec<_> =
        targets.iter().map(|target| format!("{}: {}.", target.name, described(plan, target))).collect();
    lines.push(format!("Each client: {}.", load(workload)));
    let clients: Vec<_> = workload.clients.iter().map(ToString::to_string).collect();
    lines.push(format!(
        "{} clients, {} s a run, {repetitions} times each in an order shuffled with seed {seed}; a figure is the median, \
         with the least and the most.",
        clients.join(", "),
        workload.duration
    ));
    lines
}

fn described(plan: &Plan, target: &Target) -> String {
    match &target.kind {
        Kind::Own { max_connections, settings } => {
            let settings: Vec<_> = settings.iter().map(|(name, value)| format!(", {name} = {value}")).collect();
            format!(
                "a throw-away PostgreSQL on this machine, without a pooler; max_connections = {max_connections}, 3 of them \
                 reserved, durability off{}",
                settings.concat()
            )
        }
        Kind::Direct(login) => format!("a server without a pooler, {}:{}/{}", login.host, login.port, login.database),
        Kind::Weir { before, mode, size } => {
            let mode = match mode {
                Mode::Session => "session",
                Mode::Transaction => "transaction",
            };
            format!("Weir before {}, {mode} mode, at most {size} servers; new for each run", plan.targets[*before].name)
        }
        Kind::Address(login) => format!("what listens at {}:{}, database {}", login.host, login.port, login.database),
    }
}

fn load(workload: &Workload) -> String {
    let Workload { script, scale, reconnect, rate, think_time_ms, protocol, threads, .. } = workload;
    let mut parts = vec![match script {
        Script::Builtin(name) => format!("pgbench's {name}"),
        Script::Text(_) => "a script of one's own".to_owned(),
    }];
    parts.extend(scale.map(|scale| format!("scale {scale}")));
    parts.push(format!("{protocol} protocol"));
    parts.push(if *reconnect { "a new connection for every transaction" } else { "one connection for all" }.to_owned());
    if *think_time_ms > 0 {
        parts.push(format!("a pause of {think_time_ms} ms after each transaction, which is not counted as latency"));
    }
    parts.extend(rate.map(|rate| format!("{rate} transactions a second offered by all together")));
    format!("{}; pgbench with {threads} threads", parts.join(", "))
}

/// The results, asked by target and number of clients.
struct Seen<'a> {
    plan: &'a Plan,
    results: &'a Results,
}

/// What one target did with one number of clients.
#[derive(Clone, Debug, PartialEq)]
enum Point {
    /// A figure a repetition.
    Figures(Vec<f64>),
    /// Why there are none.
    Words(String),
    /// Nothing was measured, and why.
    Lack(&'static str),
}

impl Point {
    fn value(&self) -> Value {
        match self {
            Point::Figures(figures) => Value::median(figures).unwrap_or_else(|| Value::text("not run")),
            Point::Words(words) => Value::text(words),
            Point::Lack(lack) => Value::text(*lack),
        }
    }

    fn median(&self) -> Option<f64> {
        self.value().as_number()
    }
}

/// How one target compares with another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Side {
    /// Better, by so many per cent.
    Better(f64),
    Worse(f64),
    /// Not more than what runs differ by anyway.
    Same,
    /// It serves where the other does not.
    Alone,
    /// The other serves where it does not.
    Left,
    /// Neither serves, or one was not measured.
    Unknown,
}

impl Seen<'_> {
    fn taken(&self, target: usize, clients: u32) -> Vec<Taken> {
        let cases = (1..=self.plan.repetitions).map(|repetition| Case { target, clients, repetition });
        cases.filter_map(|case| self.results.get(&self.plan.id(case))).collect()
    }

    fn latency(&self, taken: &Taken) -> f64 {
        taken.latency_ms(self.plan.workload.think_time_ms)
    }

    fn point(&self, target: usize, clients: u32, figure: &dyn Fn(&Taken) -> Option<f64>) -> Point {
        let taken = self.taken(target, clients);
        if let Some(words) = taken.iter().find_map(|taken| taken.trouble.clone()) {
            return Point::Words(words);
        }
        let figures: Vec<_> = taken.iter().filter_map(figure).collect();
        if figures.is_empty() {
            let first = Case { target, clients, repetition: 1 };
            return Point::Lack(self.results.lack(&self.plan.id(first)).unwrap_or("not measured"));
        }
        Point::Figures(figures)
    }

    fn table(&self, title: &str, unit: &str, better: Better, figure: &dyn Fn(&Taken) -> Option<f64>) -> Table {
        let Plan { targets, workload, .. } = self.plan;
        let head = |target: &Target| Column { title: target.name.clone(), unit: unit.to_owned(), better: Some(better) };
        let row = |clients: &u32| Row {
            label: clients.to_string(),
            cells: (0..targets.len()).map(|target| Cell::ours(self.point(target, *clients, figure).value())).collect(),
        };
        Table {
            title: title.to_owned(),
            rows_are: "clients".to_owned(),
            columns: targets.iter().map(head).collect(),
            rows: workload.clients.iter().map(row).collect(),
            note: String::new(),
        }
    }

    /// What a transaction costs where server and pooler run on this machine.
    fn costs(&self) -> Option<Table> {
        let Plan { targets, workload, .. } = self.plan;
        let row = |(place, target): (usize, &Target)| {
            let all: Vec<_> = workload.clients.iter().flat_map(|clients| self.taken(place, *clients)).collect();
            let served = || all.iter().filter(|taken| taken.trouble.is_none());
            let cell = |figure: &dyn Fn(&Taken) -> Option<f64>| {
                Cell::both(Value::median(&served().filter_map(figure).collect::<Vec<_>>()), None)
            };
            let cells =
                vec![cell(&|taken| taken.server_ms), cell(&|taken| taken.pooler_ms), cell(&|taken| taken.client_cpu)];
            Row { label: target.name.clone(), cells }
        };
        let rows: Vec<_> = targets.iter().enumerate().map(row).collect();
        let any = rows.iter().any(|row| row.cells[..2].iter().any(|cell| cell.ours.is_some()));
        let head = |title: &str, unit: &str, better| Column { title: title.to_owned(), unit: unit.to_owned(), better };
        any.then(|| Table {
            title: "What a transaction costs".to_owned(),
            rows_are: "target".to_owned(),
            columns: vec![
                head("PostgreSQL's CPU", "ms", Some(Better::Lower)),
                head("Weir's CPU", "ms", Some(Better::Lower)),
                head("pgbench, of a processor", "%", None),
            ],
            rows,
            note: "Over all numbers of clients that were served; of programs on this machine only.".to_owned(),
        })
    }

    fn charts(&self) -> Vec<Chart> {
        let tps = |taken: &Taken| Some(taken.run.tps);
        let latency = |taken: &Taken| Some(self.latency(taken));
        vec![
            self.chart("Transactions a second by clients", "transactions", "1/s", &tps),
            self.chart("Average latency by clients", "latency", "ms", &latency),
        ]
    }

    fn chart(&self, title: &str, y: &str, unit: &str, figure: &dyn Fn(&Taken) -> Option<f64>) -> Chart {
        let Plan { targets, workload, .. } = self.plan;
        let axis =
            |title: &str, unit: &str| Axis { title: title.to_owned(), unit: unit.to_owned(), scale: Scale::Linear };
        // One number of clients makes no line.
        let single = workload.clients.len() == 1;
        let points = |target: usize| -> Vec<(f64, f64)> {
            let point = |clients: &u32| Some((f64::from(*clients), self.point(target, *clients, figure).median()?));
            let points = workload.clients.iter().filter_map(point);
            points.map(|(x, y)| (if single { 0.0 } else { x }, y)).collect()
        };
        let series = targets.iter().enumerate().map(|(place, target)| Series {
            name: target.name.clone(),
            origin: Origin::Measured,
            points: points(place),
        });
        Chart {
            title: title.to_owned(),
            kind: if single { ChartKind::Bars } else { ChartKind::Lines },
            x: axis("clients", ""),
            y: axis(y, unit),
            groups: if single { vec![format!("{} clients", workload.clients[0])] } else { Vec::new() },
            series: series.collect(),
            note: "Where a target did not serve all its clients it has no point.".to_owned(),
        }
    }

    /// Whether clients offer less than targets could do, so that throughput says little.
    fn by_latency(&self) -> bool {
        self.plan.workload.rate.is_some() || self.plan.workload.think_time_ms > 0
    }

    /// What tells targets apart.
    fn deciding(&self, target: usize, clients: u32) -> Point {
        if self.by_latency() {
            self.point(target, clients, &|taken| Some(self.latency(taken)))
        } else {
            self.point(target, clients, &|taken| Some(taken.run.tps))
        }
    }

    fn compare(&self, a: usize, b: usize, clients: u32) -> Side {
        let better = if self.by_latency() { Better::Lower } else { Better::Higher };
        compare(&self.deciding(a, clients), &self.deciding(b, clients), better)
    }

    /// The answer to the file's question, then each pair of targets.
    fn answers(&self) -> Vec<Claim> {
        let count = self.plan.targets.len();
        let pairs = (0..count).flat_map(|b| (b + 1..count).map(move |a| (a, b)));
        let mut answers: Vec<_> = self.answer().into_iter().collect();
        answers.extend(pairs.map(|(a, b)| self.pair(a, b)));
        answers
    }

    /// Whether any pooler does something that the first server without one does not.
    fn answer(&self) -> Option<Claim> {
        let targets = &self.plan.targets;
        let direct = targets.iter().position(|target| target.kind.is_direct())?;
        let poolers: Vec<_> = (0..targets.len()).filter(|place| !targets[*place].kind.is_direct()).collect();
        let clients = &self.plan.workload.clients;
        let cases = || clients.iter().flat_map(|clients| poolers.iter().map(move |pooler| (*clients, *pooler)));
        let sides: Vec<_> =
            cases().map(|(clients, pooler)| (clients, pooler, self.compare(pooler, direct, clients))).collect();
        let known = sides.iter().any(|(_, _, side)| *side != Side::Unknown);
        let gains: Vec<_> = sides.iter().filter(|(_, _, side)| matches!(side, Side::Better(_) | Side::Alone)).collect();
        let losses: Vec<_> = sides.iter().filter(|(_, _, side)| matches!(side, Side::Worse(_) | Side::Left)).collect();
        let tell = |list: &[&(u32, usize, Side)]| {
            let each = list.iter().map(|(clients, pooler, side)| {
                format!("{} at {clients} clients: {}", targets[*pooler].name, self.in_words(*side))
            });
            each.collect::<Vec<_>>().join("; ")
        };
        let why = match (known, gains.is_empty(), losses.is_empty()) {
            (false, _, _) => "nothing was measured that could say so".to_owned(),
            (_, true, true) => "what poolers change is within what runs differ by anyway".to_owned(),
            (_, false, true) => format!("{}; nowhere a loss beyond the spread", tell(&gains)),
            (_, true, false) => format!("it costs: {}", tell(&losses)),
            (_, false, false) => format!("{}. And what it costs: {}", tell(&gains), tell(&losses)),
        };
        (!poolers.is_empty()).then(|| {
            let name = &targets[direct].name;
            let text = format!("A pooler does something for this load that “{name}” alone does not");
            Claim::decided(text, known.then_some(!gains.is_empty()), why)
        })
    }

    fn pair(&self, a: usize, b: usize) -> Claim {
        let (first, second) = (&self.plan.targets[a].name, &self.plan.targets[b].name);
        let verb = if self.by_latency() { "answers sooner than" } else { "does more than" };
        let clients = &self.plan.workload.clients;
        let sides: Vec<_> = clients.iter().map(|clients| (*clients, self.compare(a, b, *clients))).collect();
        let any = |wanted: &dyn Fn(Side) -> bool| sides.iter().any(|(_, side)| wanted(*side));
        let better = any(&|side| matches!(side, Side::Better(_) | Side::Alone));
        let worse = any(&|side| matches!(side, Side::Worse(_) | Side::Left));
        let known = any(&|side| side != Side::Unknown);
        let unit = if self.by_latency() { " ms" } else { "" };
        let tell = |(clients, side): &(u32, Side)| {
            let figure = |target| self.deciding(target, *clients).in_words(unit);
            format!("{clients} clients: {} against {}: {}", figure(a), figure(b), self.in_words(*side))
        };
        let why = sides.iter().map(tell).collect::<Vec<_>>().join("; ");
        Claim::decided(format!("“{first}” {verb} “{second}”"), known.then_some(better && !worse), why)
    }

    fn in_words(&self, side: Side) -> String {
        let (better, worse) = if self.by_latency() { ("sooner", "later") } else { ("more", "less") };
        match side {
            Side::Better(percent) => format!("{percent:.0}% {better}"),
            Side::Worse(percent) => format!("{percent:.0}% {worse}"),
            Side::Same => "no difference beyond the spread".to_owned(),
            Side::Alone => "serves all, where the other does not".to_owned(),
            Side::Left => "does not serve all, where the other does".to_owned(),
            Side::Unknown => "nothing to compare".to_owned(),
        }
    }
}

impl Point {
    /// `4711 (4690–4755)`.
    fn in_words(&self, unit: &str) -> String {
        match self.value() {
            Value::Number { value, spread: Some((least, most)) } => {
                format!("{}{unit} ({}–{})", figure(value), figure(least), figure(most))
            }
            Value::Number { value, spread: None } => format!("{}{unit}", figure(value)),
            Value::Text(words) => words,
        }
    }
}

/// Three digits that count.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// How the first compares with the second.
fn compare(a: &Point, b: &Point, better: Better) -> Side {
    let (ours, theirs) = match (a, b) {
        (Point::Figures(ours), Point::Figures(theirs)) => (ours, theirs),
        (Point::Figures(_), Point::Words(_)) => return Side::Alone,
        (Point::Words(_), Point::Figures(_)) => return Side::Left,
        _ => return Side::Unknown,
    };
    let (Some(mine), Some(other)) = (a.median(), b.median()) else { return Side::Unknown };
    if other <= 0.0 {
        return Side::Unknown;
    }
    let change = mine / other - 1.0;
    let least = if ours.len().min(theirs.len()) > 1 { LEAST } else { LEAST_ALONE };
    let apart = if change > 0.0 { lowest(ours) > highest(theirs) } else { highest(ours) < lowest(theirs) };
    if change.abs() < least || !apart {
        return Side::Same;
    }
    let percent = change.abs() * 100.0;
    if (change > 0.0) == (better == Better::Higher) { Side::Better(percent) } else { Side::Worse(percent) }
}

fn lowest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

#[cfg(test)]
mod tests;
