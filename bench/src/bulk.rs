//! `weir-bench bulk`: what large results cost: a gigabyte out by COPY, 400 MB of rows by a plain SELECT, read by psql.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::Args;

use crate::error::{Error, Outcome};
use crate::json::Json;
use crate::options::Rig;
use crate::setup::{Kind, USER};
use crate::stage::{Pooler, Stage};
use crate::stats::{Ratio, Spread};
use weir_pglocal::proc::{self, TICKS_PER_SECOND};

/// CPU time as a multiple of PgBouncer's: the budget for Weir.
const BUDGET: f64 = 0.65;

const WORKS: [(&str, &str); 2] = [
    ("COPY, 1 GB", "copy (select repeat('x', 1000) from generate_series(1, 1000000)) to stdout"),
    ("rows, 400 MB", "select g, repeat('y', 200) from generate_series(1, 2000000) g"),
];

/// What `bulk` is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How often each pooler is measured, in turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    rig: Rig,
}

/// Measures and prints a line a pooler and kind of result.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    let stage = options.rig.bare_stage()?;
    let poolers = options.rig.poolers(&stage)?;
    let psql = Psql::of(&stage)?;
    println!(
        "CPU seconds of the pooler's process, medians of {} rounds; budget of Weir's: × ≤ {BUDGET}",
        options.rounds
    );
    println!("{:<13} {:<17} {:>7} {:<14} {:>6} {:>8}", "result", "pooler", "CPU s", "(min..max)", "×", "wall s");
    let mut lines = Vec::new();
    for (title, sql) in WORKS {
        let mut cpu: Vec<Vec<f64>> = poolers.iter().map(|_| Vec::new()).collect();
        let mut wall = cpu.clone();
        for _ in 0..options.rounds {
            for (at, pooler) in poolers.iter().enumerate() {
                let (used, took) = psql.read(pooler, sql)?;
                cpu[at].push(used);
                wall[at].push(took);
            }
        }
        let base = poolers.iter().position(|pooler| pooler.kind == Kind::Pgbouncer).map(|at| cpu[at].clone());
        for (at, pooler) in poolers.iter().enumerate() {
            lines.push(line(title, pooler, &cpu[at], &wall[at], base.as_deref()));
        }
    }
    options.rig.write_json(&Json::List(lines))?;
    Ok(true)
}

fn line(title: &str, pooler: &Pooler, cpu: &[f64], wall: &[f64], base: Option<&[f64]>) -> Json {
    let of = |values: &[f64]| Spread::of(values.iter().copied()).unwrap_or(Spread { median: 0.0, min: 0.0, max: 0.0 });
    let (cpu_spread, ratio) = (of(cpu), base.and_then(|base| Ratio::of(cpu, base)).map(|ratio| ratio.of_medians));
    println!(
        "{title:<13} {:<17} {:>7.2} {:<14} {:>6} {:>8.2}",
        pooler.name,
        cpu_spread.median,
        format!("({:.2}..{:.2})", cpu_spread.min, cpu_spread.max),
        ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
        of(wall).median
    );
    Json::Object(vec![
        ("result", title.into()),
        ("pooler", pooler.name.as_str().into()),
        ("cpu_seconds", cpu_spread.median.into()),
        ("wall_seconds", of(wall).median.into()),
        ("cpu_ratio", ratio.into()),
    ])
}

/// psql of this stage's PostgreSQL.
struct Psql {
    path: PathBuf,
}

impl Psql {
    fn of(stage: &Stage) -> Outcome<Psql> {
        let missing = || Error::new("psql was not found: it comes with PostgreSQL (Debian: postgresql-client)");
        Ok(Psql { path: stage.server().programs().psql().ok_or_else(missing)? })
    }

    /// Reads one result; returns the pooler's CPU time, and the time it took, in seconds.
    fn read(&self, pooler: &Pooler, sql: &str) -> Outcome<(f64, f64)> {
        let ticks = || pooler.pid().and_then(proc::cpu).map_or(0, proc::Cpu::total);
        let (before, begin) = (ticks(), Instant::now());
        let status = Command::new(&self.path)
            .args(["-X", "-qAt", "-h", "127.0.0.1", "-p", &pooler.port.to_string(), "-U", USER, "-c", sql])
            .arg(pooler.database())
            .env("PGPASSWORD", USER)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|e| Error::at("run psql", e))?;
        if !status.success() {
            return Err(Error::new(format!("{}: psql ended with {status}", pooler.name)));
        }
        #[allow(clippy::cast_precision_loss)]
        let used = (ticks() - before) as f64 / TICKS_PER_SECOND;
        Ok((used, begin.elapsed().as_secs_f64()))
    }
}
