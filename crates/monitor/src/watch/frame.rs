//! One second's figures, and their format as an event (HTML standard, "Server-sent events").

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use weir_admin::{LogPage, PoolHealth, PrimaryRecord};
use weir_base::Span;

use super::series::{SERIES, Sample, place};
use crate::alerts::PoolMoment;
use crate::faults::FaultView;
use crate::log_line::Line;
use crate::pool_health::HealthView;

/// The most problems in an event.
const MOST_PROBLEMS: usize = 50;

/// How long a move to another primary is in events, and the most of them.
const LATELY: Span = Span::from_secs(600);
const MOST_MOVES: usize = 20;

/// The figures of a moment.
pub(super) struct Frame {
    /// Seconds since 1970.
    pub(super) at: f64,
    pub(super) pools: BTreeMap<String, PoolFigures>,
    /// All pools as one.
    pub(super) all: Sample,
    /// The share of time in which each worker was busy.
    pub(super) workers: BTreeMap<u16, f64>,
    /// What is wrong with Weir itself.
    pub(super) faults: Vec<FaultView>,
    /// Pools that have moved to another primary lately: each with a sentence.
    pub(super) moves: Vec<(String, String)>,
}

/// One pool's figures.
pub(super) struct PoolFigures {
    pub(super) sample: Sample,
    /// By SQLSTATE, since the start.
    pub(super) errors: Vec<(String, u64)>,
    pub(super) health: PoolHealth,
}

/// The pools that have moved to another primary lately, each with how, the last move first. `now`: microseconds since
/// 1970.
pub(super) fn moves(primaries: &[PrimaryRecord], now: u64) -> Vec<(String, String)> {
    let lately = |record: &&PrimaryRecord| record.moved_at.is_some_and(|at| now.saturating_sub(at) < LATELY.micros());
    let mut moved: Vec<&PrimaryRecord> = primaries.iter().filter(lately).collect();
    moved.sort_by_key(|record| std::cmp::Reverse(record.moved_at));
    moved.truncate(MOST_MOVES);
    moved.into_iter().filter_map(|record| Some((record.database.clone(), record.words(now)?))).collect()
}

/// The pools that a listener selected.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Selection {
    /// This one.
    One(String),
    /// At most this many, the busiest ones.
    Busiest(usize),
}

impl Frame {
    pub(super) fn has(&self, name: &str) -> bool {
        self.pools.contains_key(name)
    }

    /// What the rules of alerts look at, for each pool.
    pub(super) fn moments(&self) -> impl Iterator<Item = PoolMoment<'_>> {
        let figures = ["clients_waiting", "wait_ms_p95", "errors_per_second"].map(|name| place(name).unwrap_or(0));
        self.pools.iter().map(move |(name, pool)| {
            let [clients_waiting, wait_ms_p95, errors_per_second] = figures.map(|at| f64::from(pool.sample[at]));
            PoolMoment { name, health: &pool.health, clients_waiting, wait_ms_p95, errors_per_second }
        })
    }

    /// The event for a listener with this selection.
    pub(super) fn event(&self, selection: &Selection) -> String {
        let pools: Vec<(&String, &PoolFigures)> = match selection {
            Selection::One(name) => self.pools.get_key_value(name).into_iter().collect(),
            Selection::Busiest(most) => self.busiest(*most),
        };
        let pools: Map<String, Value> = pools.into_iter().map(|(name, pool)| (name.clone(), pool.json())).collect();
        let workers: Vec<Value> =
            self.workers.iter().map(|(worker, cpu)| json!({"worker": worker, "cpu": rounded(*cpu)})).collect();
        let data = json!({"at": self.at, "pools": pools, "all": figures(&self.all), "workers": workers,
            "problems": self.problems(), "problem_pools": self.broken().count(), "faults": self.faults, "moves": self.moves_json()});
        format!("event: figures\ndata: {data}\n\n")
    }

    /// The health of all pools that have a problem, the worst and then those with most affected clients first; whatever
    /// pools the listener selected.
    fn problems(&self) -> Vec<Value> {
        let mut broken: Vec<_> = self.broken().collect();
        let key = |health: &PoolHealth| std::cmp::Reverse((health.state, health.clients()));
        broken.sort_by_key(|(_, pool)| key(&pool.health));
        broken.truncate(MOST_PROBLEMS);
        broken.into_iter().map(|(name, pool)| json!({"pool": name, "health": HealthView::from(&pool.health)})).collect()
    }

    fn moves_json(&self) -> Vec<Value> {
        self.moves.iter().map(|(pool, said)| json!({"pool": pool, "said": said})).collect()
    }

    /// All pools that have a problem.
    fn broken(&self) -> impl Iterator<Item = (&String, &PoolFigures)> {
        self.pools.iter().filter(|(_, pool)| pool.health.is_problem())
    }

    /// The pools with a problem, then those with the most waiting clients, then the most transactions, then the most
    /// clients.
    fn busiest(&self, most: usize) -> Vec<(&String, &PoolFigures)> {
        let mut pools: Vec<_> = self.pools.iter().collect();
        if pools.len() > most {
            let [waiting, transactions, clients] =
                ["clients_waiting", "transactions_per_second", "clients_idle"].map(|name| place(name).unwrap_or(0));
            let figures = |pool: &PoolFigures| [waiting, transactions, clients].map(|place| known(pool.sample[place]));
            let busier = |a, b| figures(b).partial_cmp(&figures(a)).unwrap_or(std::cmp::Ordering::Equal);
            let broken = |pool: &PoolFigures| pool.health.is_problem().then_some(pool.health.state);
            pools.sort_by(|(_, a), (_, b)| broken(b).cmp(&broken(a)).then_with(|| busier(a, b)));
            pools.truncate(most);
        }
        pools
    }
}

impl PoolFigures {
    fn json(&self) -> Value {
        let mut figures = figures(&self.sample);
        let errors: Map<String, Value> = self.errors.iter().map(|(code, count)| (code.clone(), json!(count))).collect();
        figures.insert("errors".to_owned(), errors.into());
        figures.insert("health".to_owned(), json!(HealthView::from(&self.health)));
        figures.into()
    }
}

/// A sample by its names; parts of one figure become an object. Unknown values are null.
pub(super) fn figures(sample: &Sample) -> Map<String, Value> {
    let mut all = Map::new();
    for (series, value) in SERIES.iter().zip(sample) {
        match part(series.name) {
            None => drop(all.insert(series.name.to_owned(), number(*value))),
            Some((whole, part)) => {
                let parts = all.entry(whole).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(parts) = parts {
                    parts.insert(part.to_owned(), number(*value));
                }
            }
        }
    }
    all
}

/// `wait_ms_p95` is the part `p95` of `wait_ms`.
fn part(name: &str) -> Option<(&str, &str)> {
    name.rsplit_once('_').filter(|(_, part)| matches!(*part, "p50" | "p95" | "p99" | "mean"))
}

/// A figure in JSON, rounded to its significant digits.
pub fn number(value: f32) -> Value {
    if value.is_nan() { Value::Null } else { json!(rounded(f64::from(value))) }
}

fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

fn known(value: f32) -> f32 {
    if value.is_nan() { 0.0 } else { value }
}

/// The event that there are no figures: why, as JSON.
pub(super) fn trouble_event(why: &str) -> String {
    format!("event: trouble\ndata: {why}\n\n")
}

/// The event with lines of the log; empty without any.
pub(super) fn log_event(page: LogPage) -> String {
    if page.lines.is_empty() {
        return String::new();
    }
    let lines: Vec<Line> = page.lines.into_iter().map(Line::from).collect();
    format!("event: log\ndata: {}\n\n", json!({ "lines": lines, "last": page.last, "oldest": page.oldest }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::series::UNKNOWN;

    fn frame(pools: usize) -> Frame {
        let pool = |n: usize| {
            let mut sample = UNKNOWN;
            sample[place("transactions_per_second").expect("a figure")] = n as f32;
            let errors = vec![("23505".to_owned(), 2)];
            let health = PoolHealth { state: weir_admin::Health::Healthy, ..PoolHealth::default() };
            (format!("app{n:03}"), PoolFigures { sample, errors, health })
        };
        Frame {
            at: 5.0,
            pools: (0..pools).map(pool).collect(),
            all: UNKNOWN,
            workers: [(0, 0.25)].into(),
            faults: Vec::new(),
            moves: Vec::new(),
        }
    }

    fn data(event: &str) -> Value {
        let data = event.strip_prefix("event: figures\ndata: ").and_then(|rest| rest.strip_suffix("\n\n"));
        serde_json::from_str(data.expect("one event")).expect("JSON")
    }

    #[test]
    fn an_event_has_each_figure_by_its_name_and_null_for_what_is_unknown() {
        let data = data(&frame(3).event(&Selection::One("app002".into())));
        assert_eq!(data["pools"].as_object().map(Map::len), Some(1));
        let pool = &data["pools"]["app002"];
        assert_eq!((&pool["transactions_per_second"], &pool["wait_ms"]["p95"]), (&json!(2.0), &Value::Null));
        assert_eq!((&pool["errors"]["23505"], &data["workers"][0]["cpu"]), (&json!(2), &json!(0.25)));
        assert!(data["all"]["queries_per_second"].is_null());
        assert_eq!(data["at"], json!(5.0));
    }

    #[test]
    fn a_pool_that_has_moved_to_another_primary_lately_is_in_each_event_with_how() {
        let record = |database: &str, moved_at: Option<u64>| PrimaryRecord {
            database: database.into(),
            host: Some("b:5432".into()),
            state: weir_admin::PrimaryState::Known,
            from: moved_at.map(|_| "a:5432".into()),
            moved_at,
            moves: 1,
            waits: weir_admin::PrimaryWaits { pools: 1, clients: 212, longest: Span::from_millis(1_400) },
        };
        let at = |seconds: u64| Some(seconds * 1_000_000);
        let records = [record("old", at(99)), record("one", at(690)), record("none", None), record("two", at(691))];
        let moves = moves(&records, 700_000_000);
        let said = "primary moved from a:5432 to b:5432 10 s ago; 212 clients waited, longest 1.4 s";
        assert_eq!(moves.iter().map(|(pool, _)| pool.as_str()).collect::<Vec<_>>(), ["two", "one"]);
        let data = data(&Frame { moves, ..frame(1) }.event(&Selection::Busiest(1)));
        assert_eq!(data["moves"][1], json!({"pool": "one", "said": said}));
    }

    #[test]
    fn pools_with_a_problem_come_first_and_every_listener_learns_of_all_of_them() {
        let mut frame = frame(200);
        let broken = |state, waiting| PoolHealth { state, since: 7_000_000, waiting, ..PoolHealth::default() };
        frame.pools.get_mut("app003").expect("a pool").health = broken(weir_admin::Health::Saturated, 9);
        frame.pools.get_mut("app004").expect("a pool").health = broken(weir_admin::Health::CannotConnect, 1);
        let event = data(&frame.event(&Selection::One("app100".into())));
        let names: Vec<_> = event["problems"].as_array().expect("problems").iter().map(|it| &it["pool"]).collect();
        assert_eq!(names, ["app004", "app003"]);
        assert_eq!(event["problems"][0]["health"]["state"], json!("cannot connect"));
        assert_eq!(event["problems"][0]["health"]["since"], json!(7.0));
        assert_eq!(event["pools"]["app100"]["health"]["state"], json!("healthy"));
        let busiest = data(&frame.event(&Selection::Busiest(3)));
        let names: Vec<_> = busiest["pools"].as_object().expect("pools").keys().collect();
        assert_eq!(names, ["app003", "app004", "app199"]);
    }

    #[test]
    fn of_many_problems_the_worst_are_sent_and_all_are_counted() {
        let mut frame = frame(200);
        for (name, pool) in frame.pools.iter_mut().filter(|(name, _)| name.as_str() < "app157") {
            let state =
                if name == "app001" { weir_admin::Health::LoginRejected } else { weir_admin::Health::CannotConnect };
            pool.health = PoolHealth { state, ..PoolHealth::default() };
        }
        let event = data(&frame.event(&Selection::Busiest(2)));
        assert_eq!(
            (event["problem_pools"].as_u64(), event["problems"].as_array().map(Vec::len)),
            (Some(157), Some(50))
        );
        assert_eq!(event["problems"][0]["pool"], json!("app001"));
    }

    #[test]
    fn of_many_pools_the_busiest_are_sent() {
        let frame = frame(200);
        let event = data(&frame.event(&Selection::Busiest(2)));
        let names: Vec<_> = event["pools"].as_object().expect("pools").keys().collect();
        assert_eq!(names, ["app198", "app199"]);
        assert!(frame.event(&Selection::One("none".into())).contains("\"pools\":{}"));
    }
}
