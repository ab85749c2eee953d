//! `weir-bench tail`: how much longer than others the unlucky wait, when many clients share a full pool.
//!
//! Latencies come from pgbench's own log of every transaction. A fair queue gives a p99 close to the p50.

use std::fs;
use std::path::Path;

use clap::Args;
use weir_pglocal::TempFolder;

use crate::error::{Error, Outcome};
use crate::json::Json;
use crate::options::Rig;
use crate::pgbench::Pgbench;
use crate::setup::Kind;
use crate::stage::Pooler;
use crate::stats::{Spread, quantile};

/// p99 / p50: the budget for Weir.
const BUDGET: f64 = 1.2;

/// What `tail` is told.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How many clients share the pool
    #[arg(long, default_value_t = 1000)]
    clients: u32,
    /// How often each pooler is measured, in turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each run lasts
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    #[command(flatten)]
    rig: Rig,
}

/// Latencies of one run, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Tail {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

/// Measures and prints a line a run, then one a pooler.
pub(crate) fn run(options: &Options) -> Outcome<bool> {
    if options.rig.poolers.contains(&Kind::Direct) {
        return Err(Error::new("PostgreSQL alone does not serve that many clients: that is what poolers are for"));
    }
    let (stage, pgbench) = options.rig.stage(10)?;
    let poolers = options.rig.poolers(&stage)?;
    let mut tails: Vec<Vec<Tail>> = poolers.iter().map(|_| Vec::new()).collect();
    println!("{} clients on a pool of {}, -S simple, ms", options.clients, options.rig.pool_size);
    println!("{:<17} {:>8} {:>8} {:>8} {:>8} {:>8}", "pooler", "p50", "p99", "p99.9", "max", "p99/p50");
    for _ in 0..options.rounds {
        for (pooler, tails) in poolers.iter().zip(&mut tails) {
            let tail = measure(options, &pgbench, pooler)?;
            print_line(&pooler.name, tail);
            tails.push(tail);
        }
    }
    println!("\nmedians; budget of Weir's: p99/p50 ≤ {BUDGET}");
    let lines = poolers.iter().zip(&tails).map(|(pooler, tails)| summary(pooler, tails)).collect();
    options.rig.write_json(&Json::List(lines))?;
    Ok(true)
}

fn print_line(name: &str, Tail { p50, p99, p999, max }: Tail) {
    println!("{name:<17} {p50:>8.2} {p99:>8.2} {p999:>8.2} {max:>8.2} {:>8.2}", p99 / p50);
}

fn summary(pooler: &Pooler, tails: &[Tail]) -> Json {
    let median = |part: fn(&Tail) -> f64| Spread::of(tails.iter().map(part)).map_or(f64::NAN, |spread| spread.median);
    let ratio = median(|tail| tail.p99 / tail.p50);
    let tail = Tail {
        p50: median(|tail| tail.p50),
        p99: median(|tail| tail.p99),
        p999: median(|tail| tail.p999),
        max: median(|tail| tail.max),
    };
    print_line(&pooler.name, tail);
    Json::Object(vec![
        ("pooler", pooler.name.as_str().into()),
        ("p50_ms", tail.p50.into()),
        ("p99_ms", tail.p99.into()),
        ("p999_ms", tail.p999.into()),
        ("max_ms", tail.max.into()),
        ("p99_over_p50", ratio.into()),
        ("met", (pooler.kind == Kind::Weir).then_some(ratio <= BUDGET).into()),
    ])
}

fn measure(options: &Options, pgbench: &Pgbench, pooler: &Pooler) -> Outcome<Tail> {
    let folder = TempFolder::new()?;
    let clients = options.clients.to_string();
    let prefix = format!("--log-prefix={}", folder.path().join("log").display());
    let arguments = ["-S", "-c", &clients, "-l", &prefix].map(str::to_owned);
    pgbench.run(pooler, options.seconds, &arguments)?;
    let latencies = latencies(folder.path())?;
    let at = |q: f64| f64::from(quantile(&latencies, q).unwrap_or(0)) / 1000.0;
    if latencies.is_empty() {
        return Err(Error::new(format!("{}: no transactions in {} s", pooler.name, options.seconds)));
    }
    Ok(Tail { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0) })
}

/// All latencies in the logs of a folder, in µs, sorted.
fn latencies(folder: &Path) -> Outcome<Vec<u32>> {
    let files = fs::read_dir(folder).map_err(|e| Error::at(folder.display(), e))?;
    let mut all = Vec::new();
    for file in files.flatten() {
        let text = fs::read_to_string(file.path()).map_err(|e| Error::at(file.path().display(), e))?;
        all.extend(text.lines().filter_map(latency));
    }
    all.sort_unstable();
    Ok(all)
}

/// A line of pgbench's log is `client transaction latency script seconds microseconds …`.
fn latency(line: &str) -> Option<u32> {
    line.split(' ').nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_field_of_a_log_line_is_its_latency_and_a_skipped_one_has_none() {
        assert_eq!(latency("0 199 2241 0 1175850568 995598"), Some(2241));
        assert_eq!(latency("0 199 skipped 0 1175850568 995598"), None);
    }
}
