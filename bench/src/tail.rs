//! `weir-bench tail`: how much longer than others the unlucky wait, when many clients share a full pool.
//!
//! Latencies come from pgbench's own log of every transaction. A fair queue gives a p99 close to the p50, on a machine
//! that keeps its pace. Where it does not, *places* still tell: how many others were served while one waited, which is
//! the same for all in a fair queue, whatever the pace. The bare forwarder beside them serves strictly in order: what
//! it does not reach is the machine's and pgbench's, not a queue's.

use clap::Args;

use serde_json::{Value, json};

use crate::budgets::{Finding, Findings, print_findings};
use crate::cases::Way;
use crate::contender::{Kind, Role, has_ring};
use crate::error::{Error, Outcome};
use crate::latency::{Quantiles, places};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::pgbench::Pgbench;
use crate::stage::Pooler;
use crate::stats::{Ratio, Spread, histogram};

/// The options of `tail`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How many clients share the pool
    #[arg(long, default_value_t = 1000)]
    clients: u32,
    /// How often each pooler is measured, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each run lasts
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

/// One run.
#[derive(Clone, Copy, Debug)]
struct Tail {
    latency: Quantiles,
    /// p99 / p50 of the places.
    places: f64,
}

impl Tail {
    fn ratio(&self) -> f64 {
        self.latency.p99 / self.latency.p50
    }
}

impl Group for Options {
    const NAME: &'static str = "tail";

    fn output(&self) -> &Output {
        &self.output
    }

    /// Measures and prints a line a run, then one a pooler.
    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        if self.rig.poolers.contains(&Kind::Direct) {
            return Err(Error::new("PostgreSQL alone does not serve that many clients: that is what poolers are for"));
        }
        let (stage, pgbench) = self.rig.stage(10)?;
        let kinds = self.rig.both_kinds(out)?;
        let kinds = self.rig.with_limits(kinds, out);
        let poolers = self.rig.start(&stage, kinds, out)?;
        let mut tails: Vec<Vec<Tail>> = poolers.iter().map(|_| Vec::new()).collect();
        print_line!(out, "{} clients on a pool of {}, -S simple, ms", self.clients, self.rig.pool_size);
        let titles = ["p50", "p99", "p99.9", "max", "p99/p50", "places"];
        print_line!(out, "{:<17} {}", "pooler", titles.map(|title| format!("{title:>8}")).join(" "));
        for round in 0..self.rounds as usize {
            for step in 0..poolers.len() {
                let at = (round + step) % poolers.len();
                match measure(self, &pgbench, &poolers[at]) {
                    Ok(tail) => {
                        print_line(&poolers[at].name, &tail, tail.ratio(), out);
                        tails[at].push(tail);
                    }
                    Err(error) if poolers[at].kind.role() != Role::Ours => print_line!(out, "{error}"),
                    Err(error) => return Err(error),
                }
            }
        }
        print_line!(out, "\nmedians; places: p99/p50 of how many others were served while one waited");
        let (mut lines, mut budgets) = (Vec::new(), Vec::new());
        for (pooler, tails) in poolers.iter().zip(&tails) {
            let Some(spread) = Spread::of(tails.iter().map(Tail::ratio)) else { continue };
            lines.push(summary(pooler, tails, spread, out));
            if pooler.kind.role() == Role::Ours {
                budgets.push(Finding::new("tail", spread.median).within(spread.min, spread.max));
            }
        }
        let latencies = |part: fn(&Quantiles) -> f64| {
            tails.iter().map(|tails| tails.iter().map(|tail| part(&tail.latency)).collect()).collect::<Vec<Vec<f64>>>()
        };
        budgets.extend(findings(["tail-p50", "tail-p50-epoll"], &poolers, &latencies(|latency| latency.p50)));
        budgets.extend(findings(["tail-p99", "tail-p99-epoll"], &poolers, &latencies(|latency| latency.p99)));
        print_findings(out, &budgets);
        Ok(Findings { budgets, json: Value::Array(lines) })
    }
}

/// The ratios of ours, by both back ends, to the base's: what each pooler's rounds gave, by these budgets.
pub(crate) fn findings(ids: [&'static str; 2], poolers: &[Pooler], rounds: &[Vec<f64>]) -> Vec<Finding> {
    let Some(base) = poolers.iter().position(|pooler| pooler.kind.role() == Role::Base) else { return Vec::new() };
    let of = |(pooler, values): (&Pooler, &Vec<f64>)| {
        let id = match pooler.kind.role() {
            Role::Ours if has_ring() => ids[0],
            Role::Ours | Role::Epoll => ids[1],
            _ => return None,
        };
        let ratio = Ratio::of(values, &rounds[base])?;
        Some(Finding::new(id, ratio.of_medians).within(ratio.min, ratio.max))
    };
    poolers.iter().zip(rounds).filter_map(of).collect()
}

fn print_line(name: &str, tail: &Tail, ratio: f64, out: &mut Out) {
    let Quantiles { p50, p99, p999, max } = tail.latency;
    print_line!(out, "{name:<17} {p50:>8.2} {p99:>8.2} {p999:>8.2} {max:>8.2} {ratio:>8.2} {:>8.2}", tail.places);
}

fn summary(pooler: &Pooler, tails: &[Tail], ratio: Spread, out: &mut Out) -> Value {
    let median = |part: fn(&Tail) -> f64| Spread::of(tails.iter().map(part)).map_or(f64::NAN, |spread| spread.median);
    let latency = Quantiles {
        p50: median(|tail| tail.latency.p50),
        p99: median(|tail| tail.latency.p99),
        p999: median(|tail| tail.latency.p999),
        max: median(|tail| tail.latency.max),
    };
    let tail = Tail { latency, places: median(|tail| tail.places) };
    print_line(&pooler.name, &tail, ratio.median, out);
    json!({
        "pooler": pooler.name.as_str(),
        "p50_ms": latency.p50,
        "p99_ms": latency.p99,
        "p999_ms": latency.p999,
        "max_ms": latency.max,
        "p99_over_p50": ratio.median,
        "places_p99_over_p50": tail.places,
    })
}

fn measure(options: &Options, pgbench: &Pgbench, pooler: &Pooler) -> Outcome<Tail> {
    let clients = options.clients.to_string();
    let arguments = ["-S", "-c", &clients].map(str::to_owned);
    let (_, log) = pgbench.run_logged(Way::Plain, pooler, options.seconds, &arguments, 1.0)?;
    let none = || Error::new(format!("{}: no transactions in {} s", pooler.name, options.seconds));
    let latency = Quantiles::of(log.iter().map(|entry| entry.took)).ok_or_else(none)?;
    let places = histogram(places(&log)).ok_or_else(none)?;
    #[allow(clippy::cast_precision_loss)]
    let at = |q: f64| places.value_at_quantile(q).max(1) as f64;
    Ok(Tail { latency, places: at(0.99) / at(0.5) })
}
