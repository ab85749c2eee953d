//! Which slow pools are looked at for the cause, and when. What is found goes to the workers, which make it a part of
//! the pools' health.
//!
//! Owns what was found last, and the pause before each pool's next look. Looks only at pools whose requests lack
//! answers, or that are saturated, stalled or blocked; one round at a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_admin::{Finding, Health, Report, identifier};
use weir_base::plural;
use weir_config::Config;

use super::kept_looks::KeptLooks;
use super::server_full::ServerFull;
use crate::activity_probe::ActivityProbe;
use crate::ask::Workers;
use crate::clock;
use crate::faults::FaultView;
use crate::incident::{POOLS, Suspects, Unseen};
use crate::lock::lock;
use crate::words::span;

/// Between two looks at a pool where something was found.
const OFTEN: Duration = Duration::from_secs(2);
/// The shortest and the longest pause where nothing was found: it doubles, unless more requests lack an answer.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(30);
/// For how long queries have to last, in seconds, before it is a fault that a look fails.
const LASTING: f64 = 4.0;
/// How long a pool that needs no look is remembered, so that one whose requests are now and then slow is not looked at
/// each time.
const KEPT: Duration = Duration::from_secs(60);

/// What is known; cheap to clone.
#[derive(Clone)]
pub struct Findings {
    activity_probe: ActivityProbe,
    kept: KeptLooks,
    server_full: ServerFull,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whether a round is under way.
    busy: bool,
    looked: HashMap<String, Looked>,
    found: Arc<BTreeMap<String, Finding>>,
    /// Pools whose queries are slow.
    slow: BTreeMap<String, Finding>,
    /// Who has the connections of a server that has none left.
    server_full: BTreeMap<String, Finding>,
    /// Pools whose last look failed while queries last.
    unseen: Vec<Unseen>,
}

/// The last look at a pool.
struct Looked {
    at: Instant,
    pause: Duration,
    unanswered: u32,
}

impl Findings {
    /// Has found out nothing yet.
    pub fn new(activity_probe: ActivityProbe) -> Findings {
        let (kept, server_full) = (KeptLooks::new(activity_probe.clone()), ServerFull::new(activity_probe.clone()));
        Findings { kept, server_full, activity_probe, state: Arc::default() }
    }

    /// The fault that queries last of which it is not known why; `now` in seconds since 1970.
    pub(super) fn fault(&self, now: f64) -> Option<FaultView> {
        unseen_fault(&lock(&self.state).unseen, now)
    }

    /// Takes in which pools' queries are slow.
    pub(super) fn set_slow(&self, workers: &Workers, slow: &BTreeMap<String, Finding>) {
        let mut state = lock(&self.state);
        if *slow != state.slow {
            state.slow.clone_from(slow);
            workers.set_findings(state.all());
        }
    }

    /// Begins a round of looks if one is due; does not wait for it.
    pub(super) fn follow(&self, workers: &Workers, report: &Report, config: &Config) {
        self.kept.follow(report);
        let slow = slow(report);
        let due = {
            let mut state = lock(&self.state);
            let server_full = self.server_full.follow(report, config);
            let is_new = server_full != state.server_full;
            state.server_full = server_full;
            if state.forget(&slow) || is_new {
                workers.set_findings(state.all());
            }
            let due = if state.busy { Vec::new() } else { state.due(&slow, Instant::now()) };
            state.busy |= !due.is_empty();
            due
        };
        if due.is_empty() {
            return;
        }
        let suspects = Suspects::new(report, config, |name| due.iter().any(|(due, _)| due == name));
        let (findings, workers) = (self.clone(), workers.clone());
        tokio::spawn(async move {
            let at = clock::now().as_micros() as u64;
            let gathered = suspects.look(&workers, &findings.activity_probe).await.unwrap_or_default();
            let found =
                gathered.incidents.iter().filter_map(|incident| Some((incident.pool.clone(), incident.finding(at)?)));
            let found: BTreeMap<String, Finding> = found.collect();
            let mut state = lock(&findings.state);
            state.looked_at(due, found, gathered.unseen, Instant::now());
            workers.set_findings(state.all());
        });
    }
}

fn unseen_fault(unseen: &[Unseen], now: f64) -> Option<FaultView> {
    let mut lasting = unseen.iter().filter(|unseen| unseen.seconds >= LASTING);
    let Unseen { pool, reason, queries, seconds } = lasting.next()?;
    let (pool, more) = (identifier(pool), lasting.count() as u64);
    let others = if more > 0 { format!(" and {} more", plural(more, "pool", "pools")) } else { String::new() };
    Some(FaultView {
        kind: "look",
        problem: true,
        summary: format!(
            "{} of {pool}{others} {} no answer for up to {}, and Weir can't look at the server for the reason: {reason}.",
            plural(*queries as u64, "query", "queries"),
            if *queries == 1 { "has had" } else { "have had" },
            span(*seconds)
        ),
        advice:
            "Weir had no connection to it, and could not open one. If the server has none left, close some there, lower \
                 the pools' sizes, or raise its max_connections."
                .to_owned(),
        since: now - seconds,
        ..FaultView::default()
    })
}

/// The pools that may be looked at, with the number of their requests that lack an answer.
fn slow(report: &Report) -> BTreeMap<String, u32> {
    let mut slow = BTreeMap::new();
    for pool in &report.pools {
        let unanswered = pool.symptoms.unanswered;
        // Its state says it already.
        if matches!(pool.health.state, Health::NotAnswering | Health::CannotConnect | Health::LoginRejected) {
            continue;
        }
        let held = matches!(pool.health.state, Health::Saturated | Health::Stalled | Health::Blocked);
        if (held || unanswered > 0) && pool.connected() > 0 {
            *slow.entry(pool.database.clone()).or_default() += unanswered;
        }
    }
    slow
}

impl State {
    /// All that was found, by pool.
    fn all(&self) -> Arc<BTreeMap<String, Finding>> {
        let mut all = self.found.clone();
        if !self.server_full.is_empty() {
            Arc::make_mut(&mut all).extend(self.server_full.clone());
        }
        for (pool, slow) in &self.slow {
            let with = all.get(pool).map_or_else(|| slow.clone(), |found| found.clone().with_slow(slow));
            Arc::make_mut(&mut all).insert(pool.clone(), with);
        }
        all
    }

    /// Drops what is not needed any more; whether a finding is among it.
    fn forget(&mut self, slow: &BTreeMap<String, u32>) -> bool {
        self.looked.retain(|name, looked| slow.contains_key(name) || looked.at.elapsed() < KEPT);
        self.unseen.retain(|unseen| slow.contains_key(&unseen.pool));
        let over = self.found.keys().any(|name| !slow.contains_key(name));
        if over {
            Arc::make_mut(&mut self.found).retain(|name, _| slow.contains_key(name));
        }
        over
    }

    /// The pools whose look is due: those where most requests lack an answer.
    fn due(&self, slow: &BTreeMap<String, u32>, now: Instant) -> Vec<(String, u32)> {
        let is_due = |(name, unanswered): &(&String, &u32)| {
            self.looked.get(*name).is_none_or(|last| {
                let pause = if **unanswered > last.unanswered { last.pause.min(SHORTEST) } else { last.pause };
                now.saturating_duration_since(last.at) >= pause
            })
        };
        let mut due: Vec<_> = slow.iter().filter(is_due).map(|(name, count)| (name.clone(), *count)).collect();
        due.sort_by_key(|(_, unanswered)| std::cmp::Reverse(*unanswered));
        due.truncate(POOLS);
        due
    }

    /// A round has ended.
    fn looked_at(
        &mut self,
        pools: Vec<(String, u32)>,
        mut found: BTreeMap<String, Finding>,
        unseen: Vec<Unseen>,
        now: Instant,
    ) {
        self.busy = false;
        self.unseen.retain(|known| !pools.iter().any(|(name, _)| *name == known.pool));
        let unseen_now: Vec<&String> = unseen.iter().map(|unseen| &unseen.pool).collect();
        let all = Arc::make_mut(&mut self.found);
        for (name, unanswered) in pools {
            let finding = found.remove(&name);
            let before = self.looked.get(&name).map(|last| last.pause);
            let pause = match (&finding, before) {
                (Some(_), _) => OFTEN,
                // The next one may show more, and this one is a fault as long as it lasts.
                (None, _) if unseen_now.contains(&&name) => OFTEN,
                (None, Some(before)) if !all.contains_key(&name) => (before * 2).min(LONGEST),
                (None, _) => SHORTEST,
            };
            match finding {
                Some(finding) => drop(all.insert(name.clone(), finding)),
                None => drop(all.remove(&name)),
            }
            self.looked.insert(name, Looked { at: now, pause, unanswered });
        }
        self.unseen.extend(unseen);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_that_is_only_slow_is_looked_at_ever_less_often_and_one_with_a_cause_all_the_time() {
        let mut state = State::default();
        let begun = Instant::now();
        let activity_probe =
            |state: &mut State, from: u64, found: &dyn Fn(u64) -> bool, unanswered: &dyn Fn(u64) -> u32| {
                let mut activity_probe = Vec::new();
                for second in from..from + 120 {
                    let now = begun + Duration::from_secs(second);
                    let due = state.due(&[("app".to_owned(), unanswered(second))].into(), now);
                    if !due.is_empty() {
                        activity_probe.push(second - from);
                        let finding = found(second).then(|| ("app".to_owned(), Finding::default()));
                        state.looked_at(due, finding.into_iter().collect(), Vec::new(), now);
                    }
                }
                activity_probe
            };
        let quiet = activity_probe(&mut state, 0, &|_| false, &|_| 1);
        assert_eq!(quiet, [0, 2, 6, 14, 30, 60, 90]);
        // More requests lack an answer: at once.
        assert_eq!(
            activity_probe(&mut state, 200, &|_| false, &|second| if second < 210 { 1 } else { 5 })[..2],
            [0, 10]
        );
        let found = activity_probe(&mut state, 400, &|_| true, &|_| 5);
        assert_eq!((found[0], found[1], found.len()), (0, 2, 60));
        assert!(state.found.contains_key("app"));
        assert!(state.forget(&BTreeMap::new()) && state.found.is_empty());
    }

    #[test]
    fn a_look_that_fails_while_queries_last_is_a_fault_and_is_repeated() {
        let state = Mutex::new(State::default());
        let begun = Instant::now();
        let looked = |second: u64, unseen: Vec<Unseen>| {
            let mut state = lock(&state);
            let now = begun + Duration::from_secs(second);
            let due = state.due(&[("app".to_owned(), 4)].into(), now);
            let is_due = !due.is_empty();
            state.looked_at(due, BTreeMap::new(), unseen, now);
            is_due
        };
        let unseen = |seconds| Unseen {
            pool: "app".to_owned(),
            reason: "sorry, too many clients already".to_owned(),
            queries: 4,
            seconds,
        };
        let fault = || unseen_fault(&lock(&state).unseen, 100.0);
        assert!(looked(0, vec![unseen(1.5)]) && fault().is_none());
        assert!(looked(2, vec![unseen(40.0)]) && looked(4, vec![unseen(42.0)]));
        let found = fault().expect("a fault");
        assert!(found.summary.starts_with("4 queries of app have had no answer for up to 42 s"), "{}", found.summary);
        assert!(found.summary.ends_with(": sorry, too many clients already.") && found.since == 58.0);
        assert!(looked(6, Vec::new()) && fault().is_none());
        lock(&state).unseen.push(unseen(40.0));
        lock(&state).forget(&BTreeMap::new());
        assert!(fault().is_none());
    }

    #[test]
    fn only_pools_that_may_have_a_cause_are_looked_at_and_no_more_than_a_few_at_once() {
        let mut report = Report::default();
        for number in 0..40 {
            let mut pool = weir_admin::PoolRecord::new(format!("p{number:02}"), "u", weir_base::PoolMode::Transaction);
            pool.sv_active = u32::from(number != 39);
            pool.symptoms.unanswered = number;
            report.pools.push(pool);
        }
        report.pools[0].health.state = Health::Saturated;
        report.pools[38].health.state = Health::NotAnswering;
        let slow = slow(&report);
        assert_eq!(slow.len(), 38, "without a server nothing can be found, and one that is away is known to be");
        let due = State::default().due(&slow, Instant::now());
        assert_eq!((due.len(), due[0].0.as_str()), (POOLS, "p37"));
    }
}
