//! Many sessions at once over few servers: which seed runs where, and the summary.
//!
//! Owns the pools in front of the databases and the clients' schemas. The seed alone decides a session's messages and
//! its pool; other sessions are not decided by it, so a failure that needs them may take several tries to repeat.

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::Connection;
use weir_tests::{Mode, Postgres, Rng, Setup, Site, users};

use crate::author::{self, Clients};
use crate::catalog::{ROLE, SCHEMA};
use crate::compare::EXEMPTIONS;
use crate::minimise::minimise;
use crate::play::{End, Played, Stage, TIMEOUT, play};
use crate::script::Script;
use crate::show::{side_by_side, transcript};

/// How many failures are explained; a run ends at that number.
const FAILURES: usize = 4;

/// Clients at once; each has a schema of its own.
const CLIENTS: usize = 8;

/// Servers for two clients of each session, whatever they keep.
const ROOMY: u32 = 2 * CLIENTS as u32 + 1;

/// A pool in front of a database.
pub(crate) struct Pool {
    pub(crate) name: &'static str,
    pub(crate) mode: Mode,
    /// Those of one session.
    pub(crate) clients: Clients,
    pub(crate) site: Site,
}

/// A pool of this mode that differs from a direct connection in as little as possible, with a change to it.
pub(crate) fn pool(name: &'static str, mode: Mode, change: fn(Setup) -> Setup) -> Pool {
    let setup = Setup::new(mode)
        .auth("trust")
        .server_user(users::TRUSTED)
        .pool("warn_on_dirty = false")
        // Who keeps a server lets others wait for it.
        .limit("query_wait_notify = \"0s\"")
        .pool("require_auth = \"any\"");
    let setup = change(setup);
    let clients = if setup.has_size() >= ROOMY { Clients::Two } else { Clients::One };
    Pool { name, mode, clients, site: Site::with(setup, mode) }
}

/// An application of this name asks for what an earlier transaction has drawn of a sequence: from then on the pool knows it.
pub(crate) fn teach(site: &Site) {
    site.superuser().query_all("CREATE SEQUENCE taught; GRANT ALL ON taught TO PUBLIC").expect("a sequence");
    let params = site.params_of(users::TRUSTED).option("application_name", author::ASKER);
    let mut client = Connection::connect(&params).expect("a pool");
    client.query("SELECT nextval('taught')").expect("a value");
    // The first time it may be lost.
    let _ = client.query("SELECT lastval()");
}

/// Pools of every mode, with fewer servers than clients where the mode allows it.
pub(crate) fn pools() -> Vec<Pool> {
    vec![
        pool("session", Mode::Session, |setup| setup.size(ROOMY)),
        pool("transaction", Mode::Transaction, |setup| setup.size(3)),
        pool("transaction, one server", Mode::Transaction, |setup| setup.size(1)),
        pool("transaction, two workers, two statements a server", Mode::Transaction, |setup| {
            setup.size(2).workers(2).pool("max_prepared_statements = 2")
        }),
        pool("statement", Mode::Statement, |setup| setup.size(2)),
        pool("auto", Mode::Auto, |setup| {
            setup.size(ROOMY).limit("max_pinned = 100").limit("server_round_robin = true")
        }),
        pool("auto, three servers", Mode::Auto, |setup| setup.size(3).limit("max_pinned = 100")),
        pool("auto, one server", Mode::Auto, |setup| setup.size(1).limit("max_pinned = 100")),
        pool("auto, two workers", Mode::Auto, |setup| {
            setup.size(4).workers(2).limit("max_pinned = 100").pool("max_prepared_statements = 2")
        }),
    ]
}

/// A database on another server than those behind Weir, so that names that are shared by a whole server, as those of
/// prepared transactions, do not collide with sessions through Weir. For the same reason no two tests give clients the
/// same numbers.
pub(crate) fn apart() -> Site {
    static APART: OnceLock<Postgres> = OnceLock::new();
    Site::direct_on(APART.get_or_init(Postgres::private))
}

/// Creates a client's schema again, as the superuser.
pub(crate) fn make_schema(site: &Site, number: usize) {
    let mut superuser = site.superuser();
    let own = |sql: &str| sql.replace("@.", &format!("c{number:02}.")).replace("@#", &format!("{number:02}"));
    let left =
        format!("SELECT gid FROM pg_prepared_xacts WHERE gid = 'tx{number:02}' AND database = current_database()");
    if superuser.value(&left).is_ok_and(|gid| gid.is_some()) {
        superuser.query(&format!("ROLLBACK PREPARED 'tx{number:02}'")).expect("a prepared transaction can be ended");
    }
    // A session may leave a large object; the next session may use another database, except when played directly.
    let left = format!("SELECT lo_unlink(oid) FROM pg_largeobject_metadata WHERE oid = 90{number:02}");
    superuser.query_all(&left).expect("a large object can be unlinked");
    let user = users::TRUSTED.name;
    let sql = format!(
        "SET client_min_messages = warning; DROP SCHEMA IF EXISTS c{number:02} CASCADE; \
         CREATE SCHEMA c{number:02} AUTHORIZATION {user}; SET ROLE {user}; {}",
        own(SCHEMA)
    );
    superuser.query_all(&sql).unwrap_or_else(|error| panic!("schema {number}: {error}"));
}

/// The objects that all clients of a database share. A statement that waits for a lock for ever ends with an error on
/// either side.
pub(crate) fn make_common(site: &Site) {
    let sql = format!(
        "CREATE TABLE contended (shared int PRIMARY KEY, n int); INSERT INTO contended VALUES (1, 0); \
         GRANT ALL ON contended TO PUBLIC; ALTER DATABASE {} SET lock_timeout = '15s'; \
         DO $$ BEGIN CREATE ROLE {ROLE}; EXCEPTION WHEN duplicate_object THEN NULL; END $$; GRANT {ROLE} TO {}",
        site.database().name(),
        users::TRUSTED.name,
    );
    site.superuser().query_all(&sql).unwrap_or_else(|error| panic!("what is common: {error}"));
}

/// The figures of a run.
#[derive(Default)]
struct Tally {
    sessions: u64,
    sent: u64,
    received: u64,
    bytes: u64,
    differences: u64,
    exempt: [u64; EXEMPTIONS.len()],
}

impl Tally {
    fn add(&mut self, played: &Played) {
        self.sessions += 1;
        self.sent += played.sent;
        self.received += played.received;
        self.bytes += played.bytes;
        self.exempt.iter_mut().zip(played.exempt).for_each(|(sum, more)| *sum += more);
    }

    fn line(&self) -> String {
        format!(
            "{} sessions, {} messages sent, {} compared, {} bytes compared, {} differences",
            self.sessions, self.sent, self.received, self.bytes, self.differences
        )
    }
}

/// How many sessions run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) until: Option<Instant>,
    /// The number of the first client.
    number: usize,
}

impl Plan {
    /// From `WEIR_SEED`, `WEIR_COUNT` and `WEIR_HOURS`; otherwise as many seeds as fit into the time, starting at a new
    /// one.
    pub(crate) fn asked(usual: Duration) -> Plan {
        let number = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let seed = number("WEIR_SEED").map(|text| text.parse().expect("WEIR_SEED is a number"));
        let count = number("WEIR_COUNT").map(|text| text.parse().expect("WEIR_COUNT is a number"));
        let hours: Option<f64> = number("WEIR_HOURS").map(|text| text.parse().expect("WEIR_HOURS is a number"));
        let time = hours.map(|hours| Duration::from_secs_f64(hours * 3600.0)).or(if count.is_some() {
            None
        } else {
            Some(usual)
        });
        // A change is tested with the same sessions each time; long runs draw new ones.
        let drawn = || Rng::seeded("differential").bits() % 1_000_000_000;
        let first = seed.unwrap_or_else(|| if cfg!(feature = "long") { drawn() } else { 587_010_640 });
        // If only a seed is given, it is to be repeated.
        let alone = seed.is_some() && count.is_none() && hours.is_none();
        let count = if alone {
            1
        } else {
            count.unwrap_or(if cfg!(feature = "long") || hours.is_some() { u64::MAX } else { 500 })
        };
        Plan { first, count, until: time.filter(|_| !alone).map(|time| Instant::now() + time), number: 10 }
    }
}

/// A failure: the seed, the pool, the script and its result.
pub(crate) struct Failure {
    pub(crate) seed: u64,
    pub(crate) pool: usize,
    pub(crate) number: usize,
    pub(crate) script: Script,
    pub(crate) played: Played,
}

/// Runs a plan over these pools. Returns the figures and the failures' texts.
fn run(direct: &Site, pools: &[Pool], plan: Plan) -> (Tally, Vec<String>) {
    let next = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    let tally = Mutex::new(Tally::default());
    let failed: Mutex<Vec<Failure>> = Mutex::new(Vec::new());
    let begin = Instant::now();
    thread::scope(|scope| {
        for number in plan.number..plan.number + CLIENTS {
            let (next, stop, tally, failed) = (&next, &stop, &tally, &failed);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && plan.until.is_none_or(|until| Instant::now() < until) {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= plan.count {
                        return;
                    }
                    let seed = plan.first.wrapping_add(nth);
                    let (script, pool, played) = one(direct, pools, seed, number);
                    let mut tally = tally.lock().expect("no thread panics while it holds the lock");
                    tally.add(&played);
                    if tally.sessions.is_multiple_of(1000) {
                        println!("{} after {} s", tally.line(), begin.elapsed().as_secs());
                    }
                    if played.end != End::Alike {
                        tally.differences += 1;
                        println!("seed {seed} differs: {:?}", played.end);
                        let mut failed = failed.lock().expect("no thread panics while it holds the lock");
                        failed.push(Failure { seed, pool, number, script, played });
                        stop.fetch_or(failed.len() >= FAILURES, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no thread panicked while it held the lock");
    let texts = failed.iter().take(FAILURES).map(|failure| explain(direct, pools, failure)).collect();
    (tally.into_inner().expect("no thread panicked while it held the lock"), texts)
}

/// One session, in front of the pool that its seed chooses.
fn one(direct: &Site, pools: &[Pool], seed: u64, number: usize) -> (Script, usize, Played) {
    let pool = (Rng::new(seed ^ 0x5eed).bits() % pools.len() as u64) as usize;
    let script = author::session(seed, pools[pool].mode, pools[pool].clients);
    let site = &pools[pool].site;
    make_schema(direct, number);
    make_schema(site, number);
    let played = play(&script, Stage { direct, weir: site, number, timeout: TIMEOUT }, seed);
    (script, pool, played)
}

/// The failure as it happened, and the shortest script that repeats it.
pub(crate) fn explain(direct: &Site, pools: &[Pool], failure: &Failure) -> String {
    let Failure { seed, pool, number, script, played } = failure;
    let pool = &pools[*pool];
    let mut text = format!("seed {seed} differs, pool \"{}\"\n{}", pool.name, side_by_side(played));
    let stage = Stage { direct, weir: &pool.site, number: *number, timeout: TIMEOUT };
    let prepare = || {
        make_schema(direct, *number);
        make_schema(&pool.site, *number);
    };
    match minimise(script, &played.end, stage, *seed, prepare) {
        Some((short, shown)) => {
            text += &format!("\nthe shortest script with this difference:\n{}", side_by_side(&shown));
            text += &format!("\nas a file of tests/transcripts:\n{}", transcript(&short));
        }
        None => text += "\nplayed alone it does not differ: it needs the other clients\n",
    }
    text + &format!("\nagain: make differential SEED={seed}\n")
}

#[test]
fn drawn_sessions_are_answered_alike_directly_and_through_weir() {
    let (direct, pools) = (apart(), pools());
    make_common(&direct);
    pools.iter().for_each(|pool| make_common(&pool.site));
    pools.iter().filter(|pool| pool.mode == Mode::Auto).for_each(|pool| teach(&pool.site));
    // The time counts from here: in a clean clone, Weir is built first.
    let plan = Plan::asked(Duration::from_secs(if cfg!(feature = "long") { 300 } else { 25 }));
    let (tally, failures) = run(&direct, &pools, plan);
    for (exemption, count) in EXEMPTIONS.iter().zip(tally.exempt) {
        println!("not compared {count} times: {} ({})", exemption.what, exemption.why);
    }
    // Their logs add nothing to a transcript.
    drop((direct, pools));
    println!("differential: seeds from {}: {}", plan.first, tally.line());
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(tally.received > 0, "nothing was compared");
}

#[test]
fn drawn_sessions_are_answered_alike_directly_and_directly() {
    // The comparison must not report false differences, and the generator must not draw anything random.
    let (direct, again) = (apart(), Site::direct());
    make_common(&direct);
    make_common(&again);
    let pools = [Pool { name: "none", mode: Mode::Session, clients: Clients::Two, site: again }];
    let first = Rng::seeded("directly").bits() % 1_000_000_000;
    let until = Some(Instant::now() + Duration::from_secs(5));
    let (tally, failures) = run(&direct, &pools, Plan { first, count: u64::MAX, until, number: 30 });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    println!("directly: seeds from {first}: {}", tally.line());
}

#[test]
fn a_difference_is_found_and_shown_and_minimised() {
    // Two databases that do differ: one has one more row.
    let (direct, other) = (Site::direct(), Site::direct());
    for site in [&direct, &other] {
        make_schema(site, 50);
    }
    let text = "modes session\nQuery \"SELECT 1\"\nwait\nQuery \"SELECT 2\"\nwait\nQuery \"SELECT n FROM @.parent ORDER BY n\"\nwait";
    let script = Script::read(text).expect("it can be read").with_logins();
    let prepare = || drop(other.superuser().query("INSERT INTO c50.parent VALUES (3) ON CONFLICT DO NOTHING"));
    prepare();
    let stage = Stage { direct: &direct, weir: &other, number: 50, timeout: TIMEOUT };
    let played = play(&script, stage, 1);
    assert_eq!(played.end, End::Differ { direct: "Complete SELECT 2".into(), weir: "Row 3".into() });
    assert!(side_by_side(&played).contains("! Complete SELECT 2"));
    let (short, _) = minimise(&script, &played.end, stage, 1, prepare).expect("it repeats");
    let kept: Vec<_> = short.steps[2..].iter().map(ToString::to_string).collect();
    assert_eq!(kept, ["Query \"SELECT n FROM @.parent ORDER BY n\""]);
}
