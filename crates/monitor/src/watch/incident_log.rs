//! What was broken: the incidents that are over, and those that last.
//!
//! What makes one incident is a [`Key`], without any text: one dead server is one, whatever pools it has and whatever its
//! errors say. It is over when it was not seen for [`OVER_AFTER`]. Of a full list the kind and pool with most records
//! lose one: what comes again and again drives out nothing else. Owns the incidents that last; the others are in a journal in the
//! folder of `[web] history`, which also has the beginnings of those that last: what a process did not see the end of has
//! none.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use tokio::runtime::Handle;
use weir_admin::{ClientNames, Health, PoolHealth};
use weir_config::Config;

use super::changed::Changed;
use super::frame::Frame;
use crate::clock;
use crate::journal::{Journal, JournalBounds};
use crate::lock::lock;
use crate::pool_health::Affected;
use crate::pool_server::server_with_problem;

/// An incident that comes back within this time is the same one; in seconds.
const OVER_AFTER: f64 = 30.0;
/// The most pools that are named.
const NAMED: usize = 20;
/// The most incidents that last at once; further ones are not recorded.
const MOST: usize = 200;
const BOUNDS: JournalBounds = JournalBounds { records: 2_000, bytes: 2 << 20 };
const FILE: &str = "incidents";

/// Something that was broken.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PastIncident {
    /// The number of the incident, also after a restart: later ones have greater numbers.
    pub(crate) id: u64,
    /// A state of pools, or the kind of a fault.
    pub(crate) what: String,
    /// The pools by name, up to [`NAMED`]; none for a fault that is no pool's.
    pub(crate) pools: Vec<String>,
    pub(crate) pools_total: usize,
    /// The server's error, the cause that was found, or the fault in a sentence.
    pub(crate) cause: String,
    /// What was to be done.
    pub(crate) advice: String,
    /// Seconds since 1970.
    pub(crate) since: f64,
    /// Seconds since 1970; none while it lasts, and where the process ended before it did.
    pub(crate) until: Option<f64>,
    /// Whether it lasts.
    pub(crate) lasts: bool,
    /// The most affected clients at a moment, and of which users and applications they were then.
    pub(crate) clients: u64,
    pub(crate) affected: Vec<Affected>,
    /// What changed in the hour before, but for the configuration. None in records of earlier versions.
    #[serde(default)]
    pub(crate) changed: Vec<Changed>,
}

/// What makes pools one incident.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    /// The state, or the kind of a fault.
    what: String,
    /// The class of the error's SQLSTATE, if there is one.
    class: String,
    /// The database server where the error is one of the server; otherwise the pool. None for a fault.
    place: String,
}

impl Key {
    fn of(name: &str, health: &PoolHealth, config: &Config) -> Key {
        let class = health.error.as_ref().map(|error| error.sqlstate.chars().take(2).collect::<String>());
        let class = match health.state {
            // A login that gets no answer has no error yet.
            Health::NotAnswering | Health::CannotConnect => class.unwrap_or_else(|| "08".to_owned()),
            _ => class.unwrap_or_default(),
        };
        let server = server_with_problem(name, health, config);
        Key { what: health.state.name().to_owned(), class, place: server.unwrap_or_else(|| name.to_owned()) }
    }

    fn of_fault(kind: &str) -> Key {
        Key { what: kind.to_owned(), class: String::new(), place: String::new() }
    }
}

struct Lasting {
    incident: PastIncident,
    pools: BTreeSet<String>,
    /// When the figures last showed it, in seconds since 1970.
    seen: f64,
    /// When it was last there: a state lasts for some seconds more than it is seen.
    held: f64,
    /// Whether it is known what changed before.
    explained: bool,
}

/// All incidents; cheap to clone.
#[derive(Clone)]
pub struct IncidentLog(Arc<Inner>);

struct Inner {
    /// Of the records of one number the last one counts.
    over: Journal<PastIncident>,
    lasting: Mutex<BTreeMap<Key, Lasting>>,
    next: AtomicU64,
}

/// What is broken at a moment, with the same key.
#[derive(Default)]
struct Broken {
    pools: BTreeSet<String>,
    cause: String,
    advice: String,
    since: f64,
    /// When the figures last showed it; 0: now.
    seen: f64,
    clients: u64,
    names: ClientNames,
}

impl IncidentLog {
    /// With those of earlier processes in a folder, if there is one.
    pub(crate) fn open(folder: Option<&Path>) -> IncidentLog {
        let next = AtomicU64::new(clock::now().as_micros() as u64);
        IncidentLog(Arc::new(Inner {
            over: Journal::open_shared(folder, FILE, BOUNDS, share),
            lasting: Mutex::default(),
            next,
        }))
    }

    /// Takes in the figures of a moment.
    pub(super) fn observe(&self, frame: &Frame, config: &Config) {
        if self.take(broken(frame, config), frame.at) {
            let log = self.clone();
            // A disk may be slow, and its error is one of `faults`.
            let write = move || drop(log.0.over.write_out());
            match Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(write)),
                Err(_) => write(),
            }
        }
    }

    /// Returns whether something is to be written out.
    fn take(&self, broken: BTreeMap<Key, Broken>, now: f64) -> bool {
        let mut lasting = lock(&self.0.lasting);
        let mut to_write = false;
        for (key, broken) in broken {
            if let Some(known) = lasting.get_mut(&key) {
                known.add(broken, now);
            } else if lasting.len() < MOST {
                let begun = Lasting::begin(self.0.next.fetch_add(1, Ordering::Relaxed), &key.what, broken, now);
                to_write |= self.0.over.push(begun.incident.clone());
                lasting.insert(key, begun);
            }
        }
        lasting.retain(|_, known| {
            let lasts = now - known.seen < OVER_AFTER;
            if !lasts {
                known.incident.until = Some(known.seen);
                to_write |= self.0.over.push(known.incident.clone());
            }
            lasts
        });
        to_write
    }

    /// Notes what changed before those that have begun: `before` says it of pools, by name, and a moment. For a thread that
    /// may block: the list is written out.
    pub(super) fn explain(&self, before: impl Fn(&[String], f64) -> Vec<Changed>) {
        let begun: Vec<PastIncident> = {
            let mut lasting = lock(&self.0.lasting);
            let new = |known: &mut Lasting| {
                let is_new = !std::mem::replace(&mut known.explained, true);
                is_new.then(|| known.incident.clone())
            };
            lasting.values_mut().filter_map(new).collect()
        };
        let changed = |of: &PastIncident| (of.id, before(&of.pools, of.since));
        let changed: BTreeMap<u64, _> = begun.iter().map(changed).filter(|(_, changed)| !changed.is_empty()).collect();
        if changed.is_empty() {
            return;
        }
        for known in lock(&self.0.lasting).values_mut() {
            if let Some(changed) = changed.get(&known.incident.id) {
                known.incident.changed.clone_from(changed);
                self.0.over.push(known.incident.clone());
            }
        }
        self.0.over.write_out();
    }

    /// The newest first, at most so many: of this pool, or of all.
    pub fn newest(&self, pool: Option<&str>, most: usize) -> Vec<PastIncident> {
        let now = clock::now().as_secs_f64();
        let mut found: Vec<PastIncident> = lock(&self.0.lasting).values().map(|lasting| lasting.shown(now)).collect();
        let lasting: BTreeSet<u64> = found.iter().map(|incident| incident.id).collect();
        let mut recorded = self.0.over.newest_of_each(|incident| incident.id);
        recorded.retain(|incident| !lasting.contains(&incident.id));
        found.extend(recorded);
        found.retain(|incident| pool.is_none_or(|pool| incident.pools.iter().any(|name| name == pool)));
        found.sort_by_key(|incident| std::cmp::Reverse(incident.id));
        found.truncate(most);
        found
    }

    /// The incident that an alert belongs to, of those that lasted meanwhile: one of the same kind, or else of the same
    /// pool. `until`: in seconds since 1970, like `since`.
    pub fn of_alert(&self) -> impl Fn(&str, Option<&str>, f64, f64) -> Option<u64> {
        let all = self.newest(None, usize::MAX);
        move |rule, pool, since, until| {
            let meanwhile = |of: &&PastIncident| {
                let end = if of.lasts { f64::INFINITY } else { of.until.unwrap_or(of.since) };
                of.since <= until && end >= since
            };
            let of_pool = |of: &&PastIncident| {
                // Of many pools not all are named.
                pool.is_some_and(|pool| of.pools.iter().any(|name| name == pool)) || of.pools_total > of.pools.len()
            };
            let same = |of: &&PastIncident| of.what == rule && (pool.is_none() || of_pool(of));
            let mut found = all.iter().filter(meanwhile);
            let kind = found.clone().find(same);
            kind.or_else(|| found.find(|of| pool.is_some() && of_pool(of))).map(|of| of.id)
        }
    }

    /// The error of the disk, if the last incidents could not be written, after another try.
    pub fn retry(&self) -> Option<String> {
        self.0.over.retry()
    }
}

impl Lasting {
    fn begin(id: u64, what: &str, broken: Broken, now: f64) -> Lasting {
        let since = if broken.since > 0.0 { broken.since.min(now) } else { now };
        let incident = PastIncident {
            id,
            what: what.to_owned(),
            pools: Vec::new(),
            pools_total: 0,
            cause: String::new(),
            advice: String::new(),
            since,
            until: None,
            lasts: false,
            clients: 0,
            affected: Vec::new(),
            changed: Vec::new(),
        };
        let mut begun = Lasting { incident, pools: BTreeSet::new(), seen: 0.0, held: now, explained: false };
        begun.add(broken, now);
        begun
    }

    fn add(&mut self, broken: Broken, now: f64) {
        self.held = now;
        self.seen = self.seen.max(if broken.seen > 0.0 { broken.seen.min(now) } else { now });
        self.pools.extend(broken.pools);
        let of = &mut self.incident;
        of.pools_total = self.pools.len();
        of.pools = self.pools.iter().take(NAMED).cloned().collect();
        if !broken.cause.is_empty() {
            (of.cause, of.advice) = (broken.cause, broken.advice);
        }
        if broken.clients > of.clients || of.affected.is_empty() {
            (of.clients, of.affected) = (broken.clients.max(of.clients), Affected::most(&broken.names));
        }
    }

    fn shown(&self, now: f64) -> PastIncident {
        // A second or two pass between two looks.
        let lasts = now - self.held < 5.0;
        let until = (!lasts).then_some(self.seen);
        PastIncident { until, lasts, ..self.incident.clone() }
    }
}

/// Who shares the list of those that are over: each kind of each pool.
fn share(of: &PastIncident) -> (&str, &str) {
    (&of.what, of.pools.first().map_or("", String::as_str))
}

/// What is broken, by what makes it one incident.
fn broken(frame: &Frame, config: &Config) -> BTreeMap<Key, Broken> {
    let mut all: BTreeMap<Key, Broken> = BTreeMap::new();
    for (name, pool) in frame.pools.iter().filter(|(_, pool)| pool.health.is_problem()) {
        let health = &pool.health;
        let of = all.entry(Key::of(name, health, config)).or_default();
        let seen = if health.not_seen_since > 0 { health.not_seen_since as f64 / 1e6 } else { frame.at };
        of.seen = of.seen.max(seen);
        of.pools.insert(name.clone());
        of.cause = health.reason().unwrap_or_default();
        health.advice().clone_into(&mut of.advice);
        let since = health.problem_since() as f64 / 1e6;
        of.since = if of.since == 0.0 { since } else { of.since.min(since) };
        of.clients += health.clients();
        of.names.add(&health.affected);
    }
    for fault in frame.faults.iter().filter(|fault| fault.problem) {
        let of = all.entry(Key::of_fault(fault.kind)).or_default();
        (of.cause, of.advice, of.since) = (fault.summary.clone(), fault.advice.clone(), fault.since);
        of.seen = fault.not_seen_since.unwrap_or(frame.at);
        of.pools.extend(fault.pool.clone());
        of.clients += u64::from(fault.clients);
        of.names.add(&fault.affected);
    }
    all
}

#[cfg(test)]
mod tests {
    use weir_admin::LoginFailure;

    use super::*;

    fn down(pools: &[&str], clients: u64) -> BTreeMap<Key, Broken> {
        let of = Broken {
            pools: pools.iter().map(|name| (*name).to_owned()).collect(),
            cause: "Connection refused (08006)".to_owned(),
            advice: "Start it.".to_owned(),
            since: 99.0,
            seen: 0.0,
            clients,
            names: ClientNames::default(),
        };
        [(Key { what: "cannot connect".to_owned(), class: "08".to_owned(), place: "db:5432".to_owned() }, of)].into()
    }

    #[test]
    fn pools_of_one_dead_server_are_one_incident_with_its_peak_until_it_was_not_seen_for_a_while() {
        let log = IncidentLog::open(None);
        log.take(down(&["a"], 3), 100.0);
        log.take(down(&["a", "b"], 9), 101.0);
        log.take(BTreeMap::new(), 110.0);
        log.take(down(&["b"], 2), 120.0);
        log.take(BTreeMap::new(), 149.0);
        assert_eq!(log.newest(None, 10).len(), 1);
        log.take(BTreeMap::new(), 151.0);
        let found = log.newest(Some("b"), 10);
        let of = &found[0];
        assert_eq!((found.len(), of.pools_total, of.clients, of.since, of.until), (1, 2, 9, 99.0, Some(120.0)));
        assert!(!of.lasts && of.what == "cannot connect" && log.newest(Some("c"), 10).is_empty());
        log.take(down(&["a"], 1), 200.0);
        let found = log.newest(None, 10);
        assert!(found.len() == 2 && found[0].id > found[1].id && found[0].until.is_some(), "{found:?}");
    }

    fn frame(at: u64, pools: &[(&str, Health, &str, &str, u64)]) -> Frame {
        let figures = |(name, state, sqlstate, message, not_seen_since): &(&str, Health, &str, &str, u64)| {
            let error = (!sqlstate.is_empty()).then(|| LoginFailure::new(1, 1, sqlstate, message));
            let health = PoolHealth {
                state: *state,
                since: 90_000_000,
                not_seen_since: not_seen_since * 1_000_000,
                error,
                ..PoolHealth::default()
            };
            let (sample, errors) = (super::super::series::UNKNOWN, Vec::new());
            ((*name).to_owned(), super::super::frame::PoolFigures { sample, errors, health })
        };
        let pools = pools.iter().map(figures).collect();
        let (all, workers, faults) = (super::super::series::UNKNOWN, BTreeMap::new(), Vec::new());
        Frame { at: at as f64, pools, all, workers, faults, moves: Vec::new() }
    }

    #[test]
    fn texts_that_change_make_no_other_incident_and_kinds_pools_and_servers_do() {
        let target = |port| weir_base::Target { host: weir_base::Host::parse("db"), port };
        let mut config = Config::default();
        for (name, port) in [("a", 1), ("b", 1), ("c", 2)] {
            let pool = weir_config::PoolConfig { targets: vec![target(port)], ..Default::default() };
            config.pools.insert(name.to_owned(), Arc::new(pool));
        }
        let log = IncidentLog::open(None);
        for second in 100..160 {
            let text = format!("{} of {} queries in the last seconds ended in an error", second / 2, second * 7);
            let since = format!("server db:1 has not answered since 02:20:{}", second - 100);
            log.observe(
                &frame(
                    second,
                    &[
                        ("a", Health::Failing, if second % 2 == 0 { "53100" } else { "53200" }, &text, 0),
                        ("b", Health::NotAnswering, "08006", &since, 0),
                        ("c", Health::CannotConnect, if second < 103 { "" } else { "08006" }, "refused", 0),
                    ],
                ),
                &config,
            );
        }
        let what = |log: &IncidentLog| log.newest(None, 99).iter().map(|of| of.what.clone()).collect::<BTreeSet<_>>();
        assert_eq!((log.newest(None, 99).len(), what(&log).len()), (3, 3), "{:?}", log.newest(None, 99));
        let second = 160;
        log.observe(
            &frame(
                second,
                &[
                    ("a", Health::Failing, "42P01", "of one pool", 0),
                    ("b", Health::Failing, "42P01", "of one pool", 0),
                    ("c", Health::LoginRejected, "28P01", "of one server", 0),
                ],
            ),
            &config,
        );
        assert_eq!(log.newest(None, 99).len(), 6);
    }

    #[test]
    fn an_incident_ends_when_it_was_last_seen_and_not_when_its_state_did() {
        let (log, config) = (IncidentLog::open(None), Config::default());
        log.observe(&frame(100, &[("a", Health::Saturated, "", "", 0)]), &config);
        for second in 101..110 {
            log.observe(&frame(second, &[("a", Health::Saturated, "", "", 100)]), &config);
        }
        (110..131).for_each(|second| log.observe(&frame(second, &[]), &config));
        let found = log.newest(None, 9);
        assert_eq!((found.len(), found[0].since, found[0].until), (1, 90.0, Some(100.0)));
        assert!(lock(&log.0.lasting).is_empty());
    }

    #[test]
    fn what_comes_again_and_again_drives_out_nothing_else() {
        let (log, config) = (IncidentLog::open(None), Config::default());
        for (at, pool) in [(100, "a"), (200, "b"), (300, "c")] {
            log.observe(&frame(at, &[(pool, Health::Stalled, "", "", 0)]), &config);
            log.observe(&frame(at + 50, &[]), &config);
        }
        for round in 0..3_000 {
            let at = 1_000 + round * 40;
            let code = format!("{:02}000", round % 90);
            log.observe(&frame(at, &[("evil", Health::Failing, &code, "x", 0)]), &config);
        }
        let stalled: Vec<_> = log.newest(None, usize::MAX).into_iter().filter(|of| of.what == "stalled").collect();
        assert_eq!(stalled.iter().map(|of| of.pools[0].as_str()).collect::<Vec<_>>(), ["c", "b", "a"]);
        assert!(log.newest(Some("evil"), usize::MAX).len() <= BOUNDS.records);
    }

    #[test]
    fn incidents_survive_the_process_and_one_whose_end_was_not_seen_has_none() {
        let folder = std::env::temp_dir().join(format!("weir-incidents-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let log = IncidentLog::open(Some(&folder));
        assert!(log.take(down(&["a"], 3), 100.0));
        assert!(log.take(BTreeMap::new(), 140.0));
        assert!(log.take(down(&["b"], 3), 200.0));
        assert_eq!(log.0.over.write_out(), None);
        let found = IncidentLog::open(Some(&folder)).newest(None, 10);
        let ends: Vec<_> = found.iter().map(|of| (of.pools[0].as_str(), of.until, of.lasts)).collect();
        assert_eq!(ends, [("b", None, false), ("a", Some(100.0), false)]);
        std::fs::remove_dir_all(&folder).expect("it is removed");
    }

    #[test]
    fn an_alert_leads_to_the_incident_of_its_kind_or_else_of_its_pool() {
        let log = IncidentLog::open(None);
        log.take(down(&["a", "b"], 3), 100.0);
        log.take(BTreeMap::new(), 140.0);
        log.take(down(&["a"], 3), 200.0);
        log.take(BTreeMap::new(), 240.0);
        let ids: Vec<u64> = log.newest(None, 10).iter().map(|of| of.id).collect();
        let of_alert = log.of_alert();
        assert_eq!(of_alert("cannot connect", Some("a"), 200.0, 210.0), Some(ids[0]));
        assert_eq!(of_alert("cannot connect", Some("b"), 99.0, 120.0), Some(ids[1]));
        assert_eq!(of_alert("clients_waiting", Some("b"), 90.0, 120.0), Some(ids[1]), "it is the pool's");
        assert_eq!(of_alert("cannot connect", Some("c"), 90.0, 120.0), None);
        assert_eq!(of_alert("max_clients", None, 90.0, 120.0), None);
        assert_eq!(of_alert("cannot connect", Some("b"), 300.0, 320.0), None, "it was over");
    }

    #[test]
    fn an_incident_keeps_what_changed_before_it_once_and_also_when_it_is_over() {
        let log = IncidentLog::open(None);
        log.take(down(&["a"], 3), 100.0);
        let asked = std::cell::Cell::new(0);
        let before = |pools: &[String], since: f64| {
            asked.set(asked.get() + 1);
            let text = format!("{} {since}", pools.join(" "));
            vec![Changed { kind: super::super::changed::Kind::Load, at: since, text }]
        };
        log.explain(before);
        log.take(down(&["a", "b"], 3), 101.0);
        log.explain(before);
        assert_eq!((asked.get(), log.newest(None, 1)[0].changed[0].text.as_str()), (1, "a 99"));
        log.take(BTreeMap::new(), 140.0);
        assert_eq!(log.newest(None, 10).len(), 1);
        assert_eq!(log.newest(None, 1)[0].changed.len(), 1);
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let log = IncidentLog::open(None);
        let many = |from: usize| {
            (from..from + 1_000)
                .map(|n| (Key { place: n.to_string(), ..Key::of_fault("blocked") }, Broken::default()))
                .collect()
        };
        for round in 0..20 {
            log.take(many(round * 1_000), round as f64 * 100.0);
        }
        assert!(lock(&log.0.lasting).len() <= MOST);
        assert!(log.newest(None, usize::MAX).len() <= MOST + BOUNDS.records);
    }
}
