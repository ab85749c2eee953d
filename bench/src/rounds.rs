//! `weir-bench rounds`: poolers in interleaved rounds of pgbench, compared by CPU time a transaction.
//!
//! In each round every pooler runs once, the first place going around, so that a slow phase of the machine meets all of
//! them. TPS is shown, but judged by no budget: client and server share the machine with the pooler.

use clap::Args;

use crate::cases::{self, Case, Way, Work};
use crate::error::{Error, Outcome};
use crate::options::Rig;
use crate::pgbench::Pgbench;
use crate::report::{CaseResult, Report, Sample};
use crate::setup::USER;
use crate::stage::{Pooler, Stage};
use weir_pglocal::proc::{self, Machine, TICKS_PER_SECOND};

/// What `rounds` is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How often each pooler runs each case
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each run lasts
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Numbers of clients for the simple SELECT
    #[arg(long, value_delimiter = ',', default_value = "1,20,50,200,1000")]
    clients: Vec<u32>,
    /// Only these cases, by name or by the beginning of one: simple-50, prepared, tpcb
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<String>,
    /// pgbench's scale: so many times 100,000 accounts
    #[arg(long, default_value_t = 10)]
    scale: u32,
    /// End with status 1 when a budget is not met
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    rig: Rig,
}

/// Measures, and prints the table. `Ok(false)` when a budget was missed and the caller wants to know.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    let cases = chosen(options)?;
    let kinds = options.rig.kinds_and_limit()?;
    let duration = cases.len() as u64 * kinds.len() as u64 * u64::from(options.rounds * (options.seconds + 1));
    println!("Starting PostgreSQL, pgbench scale {}.", options.scale);
    let (stage, pgbench) = options.rig.stage(options.scale)?;
    let mut poolers = Rig::start(&stage, kinds)?;
    let names: Vec<_> = poolers.iter().map(|pooler| pooler.name.as_str()).collect();
    println!(
        "{}: {} rounds of {} s a case, about {} min.\n",
        names.join(", "),
        options.rounds,
        options.seconds,
        duration.div_ceil(60)
    );
    let mut report = Report::new(options.rig.pgbouncer_version());
    for case in cases {
        let result = measure(options, &stage, &pgbench, &mut poolers, case)?;
        report.add(result);
    }
    report.print_verdict();
    check_balances(&stage)?;
    options.rig.write_json(&report.json())?;
    Ok(report.budgets_met() || !options.strict)
}

fn chosen(options: &Options) -> Outcome<Vec<Case>> {
    let table = cases::table(&options.clients);
    let all: Vec<_> = table.iter().map(|case| case.name.clone()).collect();
    let wanted = |case: &Case| options.only.is_empty() || options.only.iter().any(|only| case.name.starts_with(only));
    let cases: Vec<_> = table.into_iter().filter(wanted).collect();
    if cases.is_empty() {
        return Err(Error::new(format!("--only names none of the cases: {}", all.join(", "))));
    }
    Ok(cases)
}

fn measure(
    options: &Options,
    stage: &Stage,
    pgbench: &Pgbench,
    poolers: &mut [Pooler],
    case: Case,
) -> Outcome<CaseResult> {
    let version = options.rig.pgbouncer_version();
    let mut poolers: Vec<_> = poolers.iter_mut().filter(|pooler| case.served_by(pooler.kind)).collect();
    let mut result = CaseResult::new(case, poolers.iter().map(|pooler| (pooler.kind, pooler.name.clone())));
    let arguments = |case: &Case, kind| case.arguments(case.protocol_for(kind, &version));
    for pooler in &poolers {
        // Opens the pool's servers, and fills their caches.
        pgbench.run_by(result.case.way, pooler, 1, &arguments(&result.case, pooler.kind))?;
    }
    for round in 0..options.rounds as usize {
        for step in 0..poolers.len() {
            let at = (round + step) % poolers.len();
            if result.case.work == Work::TpcB {
                tidy(stage)?;
            }
            let arguments = arguments(&result.case, poolers[at].kind);
            let sample = one_run(pgbench, result.case.way, poolers[at], options.seconds, &arguments)?;
            result.add(at, sample);
        }
        result.show_progress(round + 1, options.rounds);
    }
    Ok(result)
}

/// One run: pgbench's figures, the pooler's CPU time, and what strangers took meanwhile.
fn one_run(pgbench: &Pgbench, way: Way, pooler: &mut Pooler, seconds: u32, arguments: &[String]) -> Outcome<Sample> {
    let gone = |pooler: &Pooler| Error::new(format!("{} has ended:\n{}", pooler.name, pooler.log_end()));
    let cpu = |pooler: &Pooler| pooler.pid().map(|pid| proc::cpu(pid).ok_or_else(|| gone(pooler))).transpose();
    let (machine, before) = (Machine::now(), cpu(pooler)?);
    let run = pgbench.run_by(way, pooler, seconds, arguments)?;
    let (used, after) = (cpu(pooler)?, Machine::now());
    if !pooler.alive() {
        return Err(gone(pooler));
    }
    #[allow(clippy::cast_precision_loss)]
    let each = |ticks: u64| ticks as f64 * 1e6 / TICKS_PER_SECOND / run.transactions.max(1) as f64;
    let used = before.zip(used).map(|(before, after)| after.since(before));
    Ok(Sample {
        run,
        user_us: used.map(|cpu| each(cpu.user)),
        system_us: used.map(|cpu| each(cpu.system)),
        foreign: machine.zip(after).map(|(before, after)| after.foreign_since(&before)),
    })
}

/// What pgbench does before TPC-B unless told not to: without it each run meets more dead rows than the one before.
fn tidy(stage: &Stage) -> Outcome<()> {
    for sql in ["vacuum pgbench_branches", "vacuum pgbench_tellers", "truncate pgbench_history"] {
        stage.server().execute(USER, sql)?;
    }
    Ok(())
}

/// TPC-B adds each amount in three tables: their sums are equal unless a transaction was torn.
fn check_balances(stage: &Stage) -> Outcome<()> {
    let sql = "select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches), \
               (select sum(tbalance) from pgbench_tellers)";
    let answer = stage.server().superuser_connection(USER)?.query(sql)?;
    let sums = &answer.rows[0];
    if sums.iter().all(|sum| *sum == sums[0]) {
        return Ok(());
    }
    Err(Error::new(format!("TPC-B's balances do not add up: accounts, branches, tellers {sums:?}")))
}
