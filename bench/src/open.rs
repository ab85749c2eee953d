//! `weir-bench open`: latencies when queries come by a clock, whether or not the earlier ones are answered.
//!
//! A closed loop asks less of a slow pooler; strangers do not. First it is measured how much the base can serve in a closed
//! loop; then all are asked the same, at shares of that, in rotation.

use std::time::Duration;

use clap::Args;

use serde_json::{Value, json};

use crate::budgets::Findings;
use crate::contender::Role;
use crate::error::{Error, Outcome};
use crate::latency::Quantiles;
use crate::load::{Fleet, Served};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::stage::Pooler;
use crate::stats::Spread;

/// The options of `open`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Per cent of what the base serves at most
    #[arg(long, value_delimiter = ',', default_value = "50,80,95,120")]
    load: Vec<u32>,
    /// How many connections there are to ask by
    #[arg(long, default_value_t = 200)]
    clients: usize,
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
        let poolers = self.rig.poolers(&stage, out)?;
        let fleets = poolers.iter().map(|pooler| Fleet::of(pooler, self.clients, 1));
        let mut fleets = fleets.collect::<Outcome<Vec<_>>>()?;
        let saturation = self.saturation(&poolers, &mut fleets, out)?;
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
        let mut lines = Vec::new();
        for &percent in &self.load {
            let rate = saturation * f64::from(percent) / 100.0;
            let mut all = vec![Rounds::default(); poolers.len()];
            for round in 0..self.rounds as usize {
                for step in 0..poolers.len() {
                    let at = (round + step) % poolers.len();
                    all[at].add(&fleets[at].open(rate, Duration::from_secs(self.seconds))?);
                }
            }
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
        Ok(Findings { budgets: Vec::new(), json: Value::Array(lines) })
    }
}

impl Options {
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
