//! Poolers that are set up differently, side by side: CPU time a transaction and TPS of pgbench in interleaved rounds, as
//! ratios to the first.

use clap::Args;

use serde_json::{Value, json};

use crate::error::Outcome;
use crate::meter::Meter;
use crate::out::{Out, print_line};
use crate::pgbench::Pgbench;
use crate::stage::Pooler;
use crate::stats::{Ratio, Spread};

/// How much each side is measured.
#[derive(Args, Clone, Debug)]
pub(crate) struct Runs {
    /// How many clients share the pool
    #[arg(long, default_value_t = 50)]
    pub(crate) clients: u32,
    /// How often each is measured, interleaved
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: u32,
    /// How long each run lasts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// The poolers that are compared, with their names in tables. The first is what the others are measured by.
pub(crate) struct Sides(pub(crate) Vec<(String, Pooler)>);

/// What was measured of each side, a figure a round.
pub(crate) struct Figures {
    cpu: Vec<Vec<f64>>,
    tps: Vec<Vec<f64>>,
}

impl Sides {
    /// Runs pgbench with these arguments through each, in interleaved rounds, after a second to warm up.
    pub(crate) fn measure(&self, pgbench: &Pgbench, arguments: &[String], runs: &Runs) -> Outcome<Figures> {
        for (_, pooler) in &self.0 {
            pgbench.run(pooler, 1, arguments)?;
        }
        let none = || vec![Vec::new(); self.0.len()];
        let mut figures = Figures { cpu: none(), tps: none() };
        for round in 0..runs.rounds as usize {
            for step in 0..self.0.len() {
                let at = (round + step) % self.0.len();
                let (used, rate) = one(pgbench, &self.0[at].1, arguments, runs.seconds)?;
                figures.cpu[at].push(used);
                figures.tps[at].push(rate);
            }
        }
        Ok(figures)
    }

    /// Prints a line for each side; returns the same for programs.
    pub(crate) fn print(&self, figures: &Figures, out: &mut Out) -> Value {
        let titles = ["CPU µs", "TPS"].map(|title| format!("{title:>7} {:<16} {:>5}", "(min..max)", "×"));
        print_line!(out, "{:<24} {}", "pooler", titles.join(" "));
        let mut lines = Vec::new();
        for (at, (name, _)) in self.0.iter().enumerate() {
            let of = |values: &[Vec<f64>], places: usize| {
                let spread = Spread::of(values[at].iter().copied());
                let ratio = Ratio::of(&values[at], &values[0]).map_or(f64::NAN, |ratio| ratio.of_medians);
                let within = |s: Spread| {
                    format!("{:>7.places$} {:<16}", s.median, format!("({:.places$}..{:.places$})", s.min, s.max))
                };
                format!("{} {ratio:>5.2}", spread.map_or_else(String::new, within))
            };
            print_line!(out, "{name:<24} {} {}", of(&figures.cpu, 2), of(&figures.tps, 0));
            let list = |values: &[f64]| -> Value { values.iter().copied().collect() };
            lines.push(json!({
                "pooler": name.as_str(),
                "cpu_us": list(&figures.cpu[at]),
                "tps": list(&figures.tps[at]),
            }));
        }
        Value::Array(lines)
    }
}

impl Figures {
    /// The ratio of a side's CPU time to the first's.
    pub(crate) fn cpu(&self, at: usize) -> Option<Ratio> {
        Ratio::of(&self.cpu[at], &self.cpu[0])
    }

    /// The ratio of a side's TPS to the first's.
    pub(crate) fn tps(&self, at: usize) -> Option<Ratio> {
        Ratio::of(&self.tps[at], &self.tps[0])
    }
}

/// CPU microseconds a transaction, and TPS.
fn one(pgbench: &Pgbench, pooler: &Pooler, arguments: &[String], seconds: u32) -> Outcome<(f64, f64)> {
    let look = || pooler.pid().and_then(Meter::of).ok_or_else(|| pooler.gone());
    let before = look()?;
    let run = pgbench.run(pooler, seconds, arguments)?;
    #[allow(clippy::cast_precision_loss)]
    let each = look()?.since(&before).total() * 1e6 / run.transactions as f64;
    Ok((each, run.tps))
}
