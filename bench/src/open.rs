//! `weir-bench open`: latencies when queries come by a clock, whether or not the earlier ones are answered.
//!
//! A closed loop asks less of a slow pooler; strangers do not. First it is measured how much the base can serve in a
//! closed loop; then all are asked the same, at shares of that, in rotation.

use std::time::Duration;

use clap::Args;

use serde_json::{Value, json};

use crate::budgets::{Finding, Findings, print_findings};
use crate::contender::Role;
use crate::error::{Error, Outcome};
use crate::latency::Quantiles;
use crate::load::{Fleet, Served};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::stage::Pooler;
use crate::stats::Spread;
use crate::tail;

/// The connections and the queries a second of `--few`.
const FEW: (usize, f64) = (40, 4000.0);

/// The options of `open`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Per cent of what the base serves at most
    #[arg(long, value_delimiter = ',', default_value = "50,80,95,120")]
    load: Vec<u32>,
    /// How many connections there are to ask by
    #[arg(long, default_value_t = 200)]
    clients: usize,
    /// Only what a budget is about: 40 connections, 4,000 queries a second
    #[arg(long)]
    few: bool,
    /// How often each pooler runs each load, interleaved
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

/// All rounds of one pooler at one load.
#[derive(Clone, Debug, Default)]
struct Rounds {
    quantiles: Vec<Quantiles>,
    rates: Vec<f64>,
    unanswered: usize,
}

impl Group for Options {
    const NAME: &'static str = "open";

    fn output(&self) -> &Output {
        &self.output
    }

    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let (stage, _) = self.rig.stage(1)?;
        let kinds = self.rig.both_kinds(out)?;
        let poolers = self.rig.start(&stage, kinds, out)?;
        let mut lines = Vec::new();
        if !self.few {
            self.run_loads(&poolers, &mut lines, out)?;
        }
        let budgets = self.run_few(&poolers, &mut lines, out)?;
        print_findings(out, &budgets);
        Ok(Findings { budgets, json: Value::Array(lines) })
    }
}

impl Options {
    /// One fleet of this many connections a pooler.
    fn fleets(poolers: &[Pooler], clients: usize) -> Outcome<Vec<Fleet>> {
        poolers.iter().map(|pooler| Fleet::of(pooler, clients, 1)).collect()
    }

    /// All poolers at one rate, in rotation.
    fn at_rate(&self, rate: f64, fleets: &mut [Fleet]) -> Outcome<Vec<Rounds>> {
        let mut all = vec![Rounds::default(); fleets.len()];
        for round in 0..self.rounds as usize {
            for step in 0..fleets.len() {
                let at = (round + step) % fleets.len();
                all[at].add(&fleets[at].open(rate, Duration::from_secs(self.seconds))?);
            }
        }
        Ok(all)
    }

    /// A few clients at a rate that each pooler serves easily: latency alone.
    fn run_few(&self, poolers: &[Pooler], lines: &mut Vec<Value>, out: &mut Out) -> Outcome<Vec<Finding>> {
        let (clients, rate) = FEW;
        let all = self.at_rate(rate, &mut Options::fleets(poolers, clients)?)?;
        print_line!(out, "{clients} connections, {rate} queries a second; p50, p99, p99.9 in ms, lost");
        for (pooler, rounds) in poolers.iter().zip(&all) {
            print_line!(out, "{:<17} {}", pooler.name, rounds.summary());
            lines.push(rounds.json(&pooler.name, 0, rate));
        }
        print_line!(out);
        let p99: Vec<Vec<f64>> = all.iter().map(|rounds| rounds.quantiles.iter().map(|q| q.p99).collect()).collect();
        Ok(tail::findings(["open-p99", "open-p99-epoll"], poolers, &p99))
    }

    fn run_loads(&self, poolers: &[Pooler], lines: &mut Vec<Value>, out: &mut Out) -> Outcome<()> {
        let mut fleets = Options::fleets(poolers, self.clients)?;
        let saturation = self.saturation(poolers, &mut fleets, out)?;
        print_line!(
            out,
            "\n{:<6} {:>8}  {:<17} {:>8}  {:>24} {:>24} {:>24} {:>6}",
            "load",
            "asked/s",
            "pooler",
            "served/s",
            "p50 ms (min..max)",
            "p99 ms (min..max)",
            "p99.9 ms (min..max)",
            "lost"
        );
        for &percent in &self.load {
            let rate = saturation * f64::from(percent) / 100.0;
            let all = self.at_rate(rate, &mut fleets)?;
            for (pooler, rounds) in poolers.iter().zip(&all) {
                print_line!(out, "{:<6} {rate:>8.0}  {:<17} {}", format!("{percent} %"), pooler.name, rounds.summary());
                lines.push(rounds.json(&pooler.name, percent, rate));
            }
            print_line!(out);
        }
        print_line!(
            out,
            "A latency begins when its query was due, by a clock that no answer moves; beyond 100 % the queue grows for as"
        );
        print_line!(
            out,
            "long as it is asked ({} s), and so do latencies. {} connections, a pool of {}; medians of {} rounds.",
            self.seconds,
            self.clients,
            self.rig.pool_size,
            self.rounds
        );
        print_line!(out);
        Ok(())
    }

    /// What the base serves in a closed loop, a second; without it, what ours does.
    fn saturation(&self, poolers: &[Pooler], fleets: &mut [Fleet], out: &mut Out) -> Outcome<f64> {
        let mut rates = vec![Vec::new(); poolers.len()];
        for _ in 0..self.rounds.max(2) {
            for (fleet, rates) in fleets.iter_mut().zip(&mut rates) {
                rates.push(fleet.closed(Duration::from_secs(self.seconds))?.rate);
            }
        }
        let medians: Vec<_> = rates.into_iter().filter_map(Spread::of).collect();
        for (pooler, spread) in poolers.iter().zip(&medians) {
            print_line!(
                out,
                "{:<17} serves {:.0} a second at most ({:.0}..{:.0})",
                pooler.name,
                spread.median,
                spread.min,
                spread.max
            );
        }
        let of = |role| poolers.iter().position(|pooler| pooler.kind.role() == role);
        let at = of(Role::Base).or_else(|| of(Role::Ours)).unwrap_or(0);
        let spread = medians.get(at).ok_or_else(|| Error::new("there is no pooler to measure"))?;
        print_line!(out, "100 % is what {} serves.", poolers[at].name);
        Ok(spread.median)
    }
}

impl Rounds {
    fn add(&mut self, served: &Served) {
        self.quantiles.extend(served.quantiles());
        self.rates.push(served.rate);
        self.unanswered += served.unanswered;
    }

    fn part(&self, part: fn(&Quantiles) -> f64) -> Option<Spread> {
        Spread::of(self.quantiles.iter().map(part))
    }

    fn summary(&self) -> String {
        let formatted = |part: fn(&Quantiles) -> f64| {
            let spread = self.part(part);
            spread.map_or_else(String::new, |s| format!("{:.2} ({:.2}..{:.2})", s.median, s.min, s.max))
        };
        let rate = Spread::of(self.rates.iter().copied()).map_or(0.0, |spread| spread.median);
        let (p50, p99, p999) = (formatted(|q| q.p50), formatted(|q| q.p99), formatted(|q| q.p999));
        format!("{rate:>8.0}  {p50:>24} {p99:>24} {p999:>24} {:>6}", self.unanswered)
    }

    fn json(&self, pooler: &str, percent: u32, rate: f64) -> Value {
        let median = |part| -> Value { self.part(part).map(|spread| spread.median).into() };
        json!({
            "pooler": pooler,
            "load_percent": u64::from(percent),
            "asked_a_second": rate,
            "served_a_second": Spread::of(self.rates.iter().copied()).map(|spread| spread.median),
            "p50_ms": median(|q| q.p50),
            "p99_ms": median(|q| q.p99),
            "p999_ms": median(|q| q.p999),
            "unanswered": (self.unanswered as u64),
        })
    }
}
