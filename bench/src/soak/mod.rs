//! `weir-bench soak`: random traffic for a long time, with clients and servers dying in the middle of it.
//!
//! Clients do everything that clients do, each query tagged with a token that only its client knows, and check every
//! reply; victims are cut at any byte; servers are ended under their clients; an operator reloads, pauses and
//! reconnects. Every ten seconds all clients rest for a moment and the counters must agree. A run is good when no
//! answer was wrong, no client hung, no connection was lost except when its server was ended, memory and descriptors
//! stayed level, and no money that moved between accounts is missing.

mod acts;
mod audit;
mod batch;
mod chaos;
mod gate;
mod scripts;
mod session;
mod state;
mod tally;
mod victim;
mod world;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::contender::Kind;
use crate::error::{Error, Outcome};
use crate::setup::{Login, Programs, Setup, USER};
use crate::stage::{Pooler, Stage};
use audit::{Auditor, Sight};
use tally::get;
use world::{POOLS, World};

/// Between two moments of quiet.
const PERIOD: Duration = Duration::from_secs(10);
/// How long the last may take to come to rest: longer than any answer may take.
const REST_TIMEOUT: Duration = Duration::from_secs(60);
/// Memory may grow by this share after the first quarter of the time, and by this much beside it.
const GROWTH: f64 = 1.25;
const GROWTH_BYTES: f64 = 4.0 * 1024.0 * 1024.0;

/// The options of `soak`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How long
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Repeats the choices of an earlier run, though not its timing
    #[arg(long)]
    seed: Option<u64>,
    /// How many clients, over four pools
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=2000))]
    clients: u64,
    /// The most acts a second, of all clients together; 0: as many as the machine can
    #[arg(long, default_value_t = 0)]
    rate: u32,
    /// Weir's worker threads
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Perform only these acts, to find which of them a problem needs: simple,victim,"copy in"
    #[arg(long, value_delimiter = ',', value_name = "ACT")]
    acts: Vec<String>,
    /// What to soak; PostgreSQL itself shows that the soak asks for nothing impossible
    #[arg(long, value_enum, default_value_t = Kind::Weir)]
    through: Kind,
    /// Weir's program [default: the release build beside this program]
    #[arg(long, value_name = "PATH")]
    weir: Option<PathBuf>,
    /// PgBouncer's program [default: from PATH or /usr/sbin]
    #[arg(long, value_name = "PATH")]
    pgbouncer: Option<PathBuf>,
}

/// Soaks. `Ok(false)` when something was not as it must be.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    if let Some(unknown) = options.acts.iter().find(|name| !acts::names().contains(&name.as_str())) {
        return Err(Error::new(format!("there is no act {unknown}; there are: {}", acts::names().join(", "))));
    }
    let seed = options.seed.unwrap_or_else(|| u64::from(std::process::id()));
    let stage = start(options)?;
    let mut pooler = stage.pooler(options.through)?;
    println!(
        "Soaking {} for {} min with {} clients on {} pools, --seed {seed}.",
        pooler.name,
        options.minutes,
        options.clients,
        POOLS.len()
    );
    let mut world = World::before(&pooler, seed, options.acts.clone());
    world.pause = pause(options);
    let mut auditor = Auditor::new(&world, stage.server().superuser_connection(USER)?, pooler.pid())?;
    let mut operator = stage.server().superuser_connection(USER)?;
    let configuration = pooler.configuration();
    let mut sights = Vec::new();
    thread::scope(|scope| {
        for client in 0..options.clients {
            let world = &world;
            scope.spawn(move || acts::live(world, client));
        }
        scope.spawn(|| chaos::reign(&world, configuration, &mut operator));
        let outcome = watch(options, &world, &mut pooler, &mut auditor, &mut sights);
        world.gate.end();
        outcome
    })?;
    // All clients have left: the counters must show none.
    let last = auditor.look(&world)?;
    last.faults.iter().for_each(|fault| world.tally.uneven(&format!("at the end: {fault}")));
    check_money(&world, &stage)?;
    check_losses(&world);
    let growth = check_memory(&world, &sights);
    println!("{}", course(options, &sights));
    Ok(verdict(options, &world, &pooler, seed, &growth))
}

fn start(options: &Options) -> Outcome<Stage> {
    let setup = Setup {
        pools: POOLS.to_vec(),
        login: Login::Trust,
        workers: options.workers,
        certificate: None,
        sessions: u32::try_from(options.clients).unwrap_or(u32::MAX),
        programs: Programs { weir: options.weir.clone(), pgbouncer: options.pgbouncer.clone(), pgpool: None },
    };
    let stage = Stage::start(setup, &[("deadlock_timeout", "1s")], None)?;
    let (accounts, amount) = (scripts::ACCOUNTS, scripts::AMOUNT);
    let tables = format!(
        "create table soak_account (id int primary key, amount bigint not null); \
         insert into soak_account select g, {amount} from generate_series(1, {accounts}) g; \
         create unlogged table soak_copy (token text, n int); create index on soak_copy (token); \
         grant all on soak_account, soak_copy to {USER}"
    );
    stage.server().execute(USER, &tables)?;
    Ok(stage)
}

/// Period after period, until the time is over or the pooler is.
fn watch(
    options: &Options,
    world: &World,
    pooler: &mut Pooler,
    auditor: &mut Auditor,
    sights: &mut Vec<Sight>,
) -> Outcome<()> {
    let begin = Instant::now();
    let end = begin + Duration::from_secs_f64(options.minutes * 60.0);
    let everybody = usize::try_from(options.clients + 1).unwrap_or(usize::MAX);
    while Instant::now() < end {
        let acts_before = get(&world.tally.counts.acts);
        let (from, until) = (Instant::now(), (Instant::now() + PERIOD).min(end));
        while Instant::now() < until {
            thread::sleep(Duration::from_millis(100));
            if !pooler.alive() {
                return Err(Error::new(format!("{} has ended:\n{}", pooler.name, pooler.log_end())));
            }
        }
        let missing = world.gate.close(everybody, REST_TIMEOUT);
        if missing > 0 {
            world.tally.uneven(&format!("{missing} clients did not come to rest within {REST_TIMEOUT:?}"));
        }
        let sight = auditor.look(world)?;
        sight.faults.iter().for_each(|fault| world.tally.uneven(fault));
        #[allow(clippy::cast_precision_loss)]
        let rate = (get(&world.tally.counts.acts) - acts_before) as f64 / from.elapsed().as_secs_f64();
        print_line(world, begin, rate, &sight);
        sights.push(sight);
        world.gate.open();
    }
    Ok(())
}

fn print_line(world: &World, begin: Instant, rate: f64, sight: &Sight) {
    let counts = &world.tally.counts;
    println!(
        "{:>4.0} s  {rate:>5.0} acts/s  {} logins  {} cut  {} lost of {} ended  {} cancels, {} missed  {} commands  \
         clients {}  servers {}  fds {}  RSS {:.1} MB  {}",
        begin.elapsed().as_secs_f64(),
        get(&counts.logins),
        get(&counts.cut),
        get(&counts.lost),
        get(&counts.ended),
        get(&counts.cancelled),
        get(&counts.missed),
        get(&counts.commands),
        sight.clients,
        sight.servers,
        sight.descriptors,
        megabytes(sight.rss),
        match world.tally.problems() {
            0 => "ok".to_owned(),
            problems => format!("{problems} PROBLEMS"),
        },
    );
}

/// Transfers move money and make none; a torn transaction shows here.
fn check_money(world: &World, stage: &Stage) -> Outcome<()> {
    let must = scripts::ACCOUNTS * scripts::AMOUNT;
    let sum = stage.server().superuser_connection(USER)?.value("select sum(amount) from soak_account")?;
    if sum.as_deref() != Some(must.to_string().as_str()) {
        world.tally.uneven(&format!("accounts hold {sum:?} in all instead of {must}"));
    }
    Ok(())
}

/// Each server that was ended explains the loss of the one client that it served, and no more.
fn check_losses(world: &World) {
    let counts = &world.tally.counts;
    let (lost, explained) = (get(&counts.lost), get(&counts.ended) + get(&counts.excused));
    if lost > explained {
        let texts: Vec<_> = world.tally.losses().iter().map(|(text, count)| format!("  {count} × {text}")).collect();
        world.tally.uneven(&format!(
            "{lost} connections were lost, but only {explained} servers ended under them:\n{}",
            texts.join("\n")
        ));
    }
}

/// What a client pauses on average between two acts, so that all together keep to the rate.
fn pause(options: &Options) -> Duration {
    if options.rate == 0 {
        return Duration::ZERO;
    }
    Duration::from_secs(options.clients) / options.rate
}

/// Memory over the time, in at most seven readings: at the first moment of quiet, at equal distances, at the last.
fn course(options: &Options, sights: &[Sight]) -> String {
    const READINGS: usize = 6;
    let last = sights.len().saturating_sub(1);
    let mut places: Vec<_> = (0..=READINGS).map(|reading| last * reading / READINGS).collect();
    places.dedup();
    let readings = places.iter().filter_map(|place| {
        #[allow(clippy::cast_precision_loss)]
        let minute = options.minutes * (place + 1) as f64 / sights.len() as f64;
        Some(format!("{:.1} MB at {minute:.1} min", megabytes(sights.get(*place)?.rss)))
    });
    format!("RSS: {}", readings.collect::<Vec<_>>().join(", "))
}

/// Memory's level: the most in the first quarter of the time against the most in the last.
fn check_memory(world: &World, sights: &[Sight]) -> String {
    let quarter = sights.len().div_ceil(4);
    let most = |sights: &[Sight]| sights.iter().map(|sight| sight.rss).max().unwrap_or(0);
    let (first, last) = (most(&sights[..quarter]), most(&sights[sights.len() - quarter..]));
    let growth = format!("{:.1} → {:.1} MB", megabytes(first), megabytes(last));
    #[allow(clippy::cast_precision_loss)]
    let limit = first as f64 * GROWTH + GROWTH_BYTES;
    #[allow(clippy::cast_precision_loss)]
    if last as f64 > limit {
        world.tally.uneven(&format!("memory grew: {growth}"));
    }
    growth
}

fn verdict(options: &Options, world: &World, pooler: &Pooler, seed: u64, growth: &str) -> bool {
    let counts = &world.tally.counts;
    let good = world.tally.problems() == 0;
    println!(
        "soak of {}: {} min, seed {seed}: {} acts, {} logins, {} clients cut, {} servers ended, {} lost with them, \
         {} cancels; {} wrong, {} stuck, {} strange, {} uneven; RSS {growth}: {}",
        pooler.name,
        options.minutes,
        get(&counts.acts),
        get(&counts.logins),
        get(&counts.cut),
        get(&counts.ended),
        get(&counts.lost),
        get(&counts.cancelled),
        get(&counts.wrong),
        get(&counts.stuck),
        get(&counts.strange),
        get(&counts.uneven),
        if good { "PASSED" } else { "FAILED" },
    );
    good
}

#[allow(clippy::cast_precision_loss)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}
