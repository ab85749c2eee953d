//! Evaluates the runs of a custom experiment (`weir lab run`). A pure function of the results.
//!
//! Two targets differ only if their ranges are apart: the minimum of one is above the maximum of the other. Where
//! clients offer less than targets could do (a rate, a pause), latency is compared.

mod trust;

use super::Case;
use super::file::{Kind, Plan, Script, Target, Workload};
use super::stage::RunData;
use crate::model::{
    Axis, Better, Cell, Chart, ChartKind, Claim, Column, Experiment, Origin, Row, Scale, Series, Table, Value,
};
use crate::servers::Mode;
use crate::steps::Results;

/// Medians whose relative difference is smaller do not differ, however small the spread.
const LEAST: f64 = 0.03;

/// Medians of a single repetition, whose spread is unknown, do not differ if their relative difference is smaller.
const LEAST_ALONE: f64 = 0.10;

/// Evaluates the results.
pub(super) fn evaluate(plan: &Plan, results: &Results) -> Experiment {
    let view = View { plan, results };
    let mut tables = vec![
        view.table("Transactions a second", "1/s", Better::Higher, &|taken| Some(taken.run.tps)),
        view.table("Average latency", "ms", Better::Lower, &|taken| Some(view.latency(taken))),
    ];
    if plan.workload.reconnect {
        tables.push(view.table("Time to connect", "ms", Better::Lower, &|taken| Some(taken.run.connect_ms)));
    }
    tables.extend(view.costs());
    Experiment {
        question: "What would a pooler do for this load?".to_owned(),
        setup: setup(plan),
        tables,
        charts: view.charts(),
        claims: view.answers(),
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
                "a temporary PostgreSQL on this machine, without a pooler; max_connections = {max_connections}, 3 of them \
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

/// The results, by target and number of clients.
struct View<'a> {
    plan: &'a Plan,
    results: &'a Results,
}

/// The result of one target with one number of clients.
#[derive(Clone, Debug, PartialEq)]
enum Point {
    /// One figure for each repetition.
    Figures(Vec<f64>),
    /// Words in place of figures.
    Words(String),
    /// Not measured, with the reason.
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
    /// Better, by this percentage.
    Better(f64),
    Worse(f64),
    /// No larger difference than between runs.
    Same,
    /// Only this one serves all clients.
    Alone,
    /// Only the other serves all clients.
    Left,
    /// Neither serves all clients, or one was not measured.
    Unknown,
}

impl View<'_> {
    fn taken(&self, target: usize, clients: u32) -> Vec<RunData> {
        let cases = (1..=self.plan.repetitions).map(|repetition| Case { target, clients, repetition });
        cases.filter_map(|case| self.results.get(&self.plan.id(case))).collect()
    }

    fn latency(&self, taken: &RunData) -> f64 {
        taken.latency_ms(self.plan.workload.think_time_ms)
    }

    fn point(&self, target: usize, clients: u32, figure: &dyn Fn(&RunData) -> Option<f64>) -> Point {
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

    fn table(&self, title: &str, unit: &str, better: Better, figure: &dyn Fn(&RunData) -> Option<f64>) -> Table {
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

    /// The cost of a transaction, where server and pooler run on this machine.
    fn costs(&self) -> Option<Table> {
        let Plan { targets, workload, .. } = self.plan;
        let row = |(place, target): (usize, &Target)| {
            let all: Vec<_> = workload.clients.iter().flat_map(|clients| self.taken(place, *clients)).collect();
            let served = || all.iter().filter(|taken| taken.trouble.is_none());
            let cell = |figure: &dyn Fn(&RunData) -> Option<f64>| {
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
        let tps = |taken: &RunData| Some(taken.run.tps);
        let latency = |taken: &RunData| Some(self.latency(taken));
        vec![
            self.chart("Transactions a second by clients", "transactions", "1/s", &tps),
            self.chart("Average latency by clients", "latency", "ms", &latency),
        ]
    }

    fn chart(&self, title: &str, y: &str, unit: &str, figure: &dyn Fn(&RunData) -> Option<f64>) -> Chart {
        let Plan { targets, workload, .. } = self.plan;
        let axis =
            |title: &str, unit: &str| Axis { title: title.to_owned(), unit: unit.to_owned(), scale: Scale::Linear };
        // A single number of clients makes no line.
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

    /// Whether clients offer less than targets could do, so that throughput does not distinguish them.
    fn by_latency(&self) -> bool {
        self.plan.workload.rate.is_some() || self.plan.workload.think_time_ms > 0
    }

    /// The figure by which targets are compared.
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

    /// Whether any pooler does better than the first server without one.
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

/// Three significant digits.
fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Compares the first with the second.
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
