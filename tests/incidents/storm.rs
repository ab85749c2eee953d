//! A server that is stopped, and the many logins that follow.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::raise_descriptors;
use weir_tests::{ADMIN, Database, Ini, Mode, PgBouncer, Postgres, Rng, Setup, Tap, users, within};

use crate::report::{Report, full, size};

/// The most logins that a pool begins within a second.
const CONNECTS_PER_SECOND: u32 = 20;
const SERVERS: u32 = 20;

/// The size of the test.
struct Scale {
    clients: u32,
    /// The pause between two queries of a client.
    think: Duration,
    /// How long the server is stopped.
    stop: Duration,
    /// How long goodput is measured before.
    calm: Duration,
}

impl Scale {
    fn of_today() -> Scale {
        Scale {
            clients: size(300, 5000),
            think: Duration::from_millis(size(600, 8000)),
            stop: Duration::from_secs(size(6, 30)),
            calm: Duration::from_secs(size(4, 20)),
        }
    }
}

/// The clients' counters.
#[derive(Default)]
struct Counts {
    answered: AtomicU64,
    failed: AtomicU64,
    connects: AtomicU64,
    stop: AtomicBool,
}

impl Counts {
    fn answered(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }
}

/// Connects and sends queries with pauses; gives up after a second without an answer, and reconnects at once.
fn client(params: &ConnectParams, number: u32, think: Duration, counts: &Counts) {
    let mut rng = Rng::new(u64::from(number));
    let mut connection = None;
    // Not all at the same moment.
    thread::sleep(think.mul_f64(rng.below(1000) as f64 / 1000.0));
    while !counts.stop.load(Ordering::Relaxed) {
        let outcome = connection.take().map_or_else(
            || {
                counts.connects.fetch_add(1, Ordering::Relaxed);
                Connection::connect(params)
            },
            Ok,
        );
        let outcome = outcome.and_then(|mut connection| {
            let value = connection.value("SELECT 'served'")?;
            assert_eq!(value.as_deref(), Some("served"));
            Ok(connection)
        });
        match outcome {
            Ok(same) => {
                counts.answered.fetch_add(1, Ordering::Relaxed);
                connection = Some(same);
                // The stop is noticed soon, however long the pause.
                let end = Instant::now() + think;
                while Instant::now() < end && !counts.stop.load(Ordering::Relaxed) {
                    thread::sleep((end - Instant::now()).min(Duration::from_millis(500)));
                }
            }
            Err(_) => {
                counts.failed.fetch_add(1, Ordering::Relaxed);
                // A client that is refused at once does not spin.
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Queries answered per second during this time.
fn goodput(counts: &Counts, time: Duration) -> f64 {
    let (before, began) = (counts.answered(), Instant::now());
    thread::sleep(time);
    (counts.answered() - before) as f64 / began.elapsed().as_secs_f64()
}

/// The results of a run.
struct Outcome {
    before: f64,
    after: f64,
    /// From SIGCONT until goodput is back at 90 %; `None` if it never is.
    back: Option<Duration>,
    failed: u64,
    connects: u64,
    logins: usize,
    /// The longest time that the console took.
    console: Duration,
    consoles: u32,
    /// Console logins without an answer.
    shut_out: u32,
}

fn storm(postgres: &Postgres, tap: &Tap, params: &ConnectParams, console: &ConnectParams, scale: &Scale) -> Outcome {
    raise_descriptors();
    let counts = Counts::default();
    let slowest = AtomicU64::new(0);
    let (consoles, shut_out) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        let _guard = Guard { postgres, counts: &counts };
        for number in 0..scale.clients {
            let counts = &counts;
            let think = scale.think;
            let own = thread::Builder::new().stack_size(256 * 1024);
            own.spawn_scoped(scope, move || client(params, number, think, counts)).expect("a thread");
        }
        scope.spawn(|| {
            while !counts.stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                let answer = Connection::connect(console).and_then(|mut console| console.query("SHOW POOLS"));
                if answer.is_err() {
                    shut_out.fetch_add(1, Ordering::Relaxed);
                }
                slowest.fetch_max(began.elapsed().as_millis() as u64, Ordering::Relaxed);
                consoles.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(200));
            }
        });
        // All clients are connected.
        within(Duration::from_secs(120), "all are served", || {
            let answered = counts.answered();
            if answered > u64::from(scale.clients) { Ok(()) } else { Err(answered) }
        });
        let before = goodput(&counts, scale.calm);
        let (logins, connects) = (tap.logins(), counts.connects.load(Ordering::Relaxed));
        let failed = counts.failed.load(Ordering::Relaxed);
        postgres.server().sigstop();
        thread::sleep(scale.stop);
        postgres.server().sigcont();
        let went_on = Instant::now();
        let mut back = None;
        let mut after = 0.0;
        while back.is_none() && went_on.elapsed() < Duration::from_secs(120) {
            after = goodput(&counts, Duration::from_secs(2));
            back = (after >= before * 0.9).then(|| went_on.elapsed());
        }
        let connects = counts.connects.load(Ordering::Relaxed) - connects;
        let failed = counts.failed.load(Ordering::Relaxed) - failed;
        let logins = tap.logins() - logins;
        counts.stop.store(true, Ordering::Relaxed);
        Outcome {
            before,
            after,
            back,
            failed,
            connects,
            logins,
            console: Duration::from_millis(slowest.load(Ordering::Relaxed)),
            consoles: consoles.load(Ordering::Relaxed),
            shut_out: shut_out.load(Ordering::Relaxed),
        }
    })
}

/// Continues the server and stops the clients, also after a failure.
struct Guard<'a> {
    postgres: &'a Postgres,
    counts: &'a Counts,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.counts.stop.store(true, Ordering::Relaxed);
        self.postgres.server().sigcont();
    }
}

fn figure_line(label: &str, scale: &Scale, outcome: &Outcome) -> String {
    let Outcome { before, after, back, failed, connects, logins, console, consoles, shut_out } = outcome;
    let back = back.map_or("never".to_owned(), |back| format!("after {:.1} s", back.as_secs_f64()));
    format!(
        "{label}: {} clients, {} s stopped: {failed} attempts abandoned, {connects} connects of clients, {logins} logins \
         to the server; goodput {before:.0}/s before, {after:.0}/s again {back}; {consoles} console logins, at most \
         {} ms, {shut_out} failed",
        scale.clients,
        scale.stop.as_secs(),
        console.as_millis()
    )
}

/// Many clients, each of which gives up after a second and reconnects, use a server that is stopped. After it
/// continues, goodput returns to nine tenths of the value before; the logins to the server stay below the pool's rate,
/// though every client that gives up also costs its server; and an administrator can log in all the time. A pooler that
/// logs in for each new client, or runs queries whose clients have gone, never recovers.
#[test]
fn goodput_returns_after_a_standstill_and_logins_stay_bounded() {
    let report = Report::begin();
    let scale = Scale::of_today();
    let postgres = Postgres::private();
    let tap = Tap::before(&postgres);
    let setup = Setup::new(Mode::Transaction).size(SERVERS).auth("trust").listen("backlog = 4096");
    let setup = setup.pool(&format!("connects_per_second = {CONNECTS_PER_SECOND}"));
    let text = |setup: &Setup, database: &Database| {
        setup.toml(database).replace(&format!("port = {}\n", postgres.port()), &format!("port = {}\n", tap.port()))
    };
    let database = postgres.database();
    let weir = weir_tests::Weir::start(&text(&setup, &database), &setup.userlist());
    let params = weir.params(users::APP.name, "app").timeout(Duration::from_secs(1));
    let began = Instant::now();
    let outcome = storm(&postgres, &tap, &params, &weir.console_params(), &scale);
    let most = CONNECTS_PER_SECOND as usize * (began.elapsed().as_secs() as usize + 1) + SERVERS as usize;
    report.figure(figure_line("Weir", &scale, &outcome));
    assert!(outcome.failed > 0, "no client gave up, so there was no overload");
    assert!(outcome.logins <= most, "{} logins to the server, {most} are allowed", outcome.logins);
    assert!(outcome.back.is_some(), "goodput is {:.0}/s, and was {:.0}/s", outcome.after, outcome.before);
    assert!(outcome.consoles > 0 && outcome.shut_out == 0, "the console was out of reach");
}

/// The run for PgBouncer, in the full size: its result is only a figure.
#[test]
fn how_pgbouncer_1_18_fares_after_a_standstill() {
    if !full() {
        return;
    }
    let report = Report::begin();
    let scale = Scale::of_today();
    let postgres = Postgres::private();
    let tap = Tap::before(&postgres);
    let database = postgres.database();
    let ini = Ini::transaction(SERVERS).set("auth_type", "trust").set("max_client_conn", 10_000);
    let ini = ini.set("listen_backlog", 4096).forced(users::APP).through(tap.port());
    let Some(pgbouncer) = PgBouncer::start(&ini, &database) else { return };
    let params = pgbouncer.params(users::APP).timeout(Duration::from_secs(1));
    let console = pgbouncer.named(ADMIN.0, "pgbouncer");
    let outcome = storm(&postgres, &tap, &params, &console, &scale);
    report.figure(figure_line("PgBouncer 1.18", &scale, &outcome));
}
