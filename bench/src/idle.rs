//! `weir-bench idle`: what clients that do nothing cost: memory each, and the time of those among them that do
//! something.
//!
//! The first few are not counted: what they grow (slabs, the heap's first pages) is there once. The active ones ask at
//! a rate far from saturation, by a clock, alternately through a pooler without idle clients and through one with them.
//! Beyond some 14,000 clients the kernel searches long for a free port at our end: logins a second then say little.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use crate::budgets::{Finding, Findings, print_findings};
use crate::contender::{Kind, Role};
use crate::error::{Error, Outcome};
use crate::latency::Quantiles;
use crate::load::{self, Fleet};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::stage::{Pooler, Stage};
use crate::stats::Spread;
use serde_json::{Value, json};
use weir_pglocal::proc;

/// Logged in before the first look.
const WARM_UP: usize = 50;
/// Descriptors that the pooler and we need beside one a client.
const SPARE_DESCRIPTORS: u64 = 500;

/// The options of `idle`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Numbers of idle clients at which memory is looked at
    #[arg(long, value_delimiter = ',', default_value = "5000,10000,18000")]
    clients: Vec<usize>,
    /// How many are idle while others are active
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
    /// How many are active among them
    #[arg(long, default_value_t = 100)]
    active: usize,
    /// Queries a second of all that are active
    #[arg(long, default_value_t = 2000.0)]
    rate: f64,
    /// How often the active ones are timed, without the idle and with them, interleaved
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

impl Group for Options {
    const NAME: &'static str = "idle";

    fn output(&self) -> &Output {
        &self.output
    }

    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let kinds = self.rig.kinds(out)?;
        if kinds.contains(&Kind::Direct) {
            return Err(Error::new("PostgreSQL alone has no idle clients to speak of: leave `direct` out"));
        }
        let (stage, _) = self.rig.stage(1)?;
        let counts = self.counts(out);
        print_line!(out, "Memory a client, and logins a second");
        print_line!(out, "{:<17} {:>8} {:>12} {:>10}", "pooler", "clients", "B a client", "logins/s");
        let mut memory = Vec::new();
        for kind in &kinds {
            memory.push((*kind, memory_of(&stage.pooler(*kind)?, &counts, out)?));
        }
        print_line!(out, "\n{} active ones, {} queries a second in all: ms", self.active, self.rate);
        print_line!(
            out,
            "{:<17} {:>8} {:>22} {:>22} {:>22}",
            "pooler",
            "idle",
            "p50 (min..max)",
            "p99 (min..max)",
            "p99.9 (min..max)"
        );
        let mut active = Vec::new();
        for kind in &kinds {
            active.push((*kind, self.active_of(&stage, *kind, out)?));
        }
        let budgets = findings(&counts, &memory, &active);
        print_findings(out, &budgets);
        Ok(Findings { budgets, json: json(&counts, &memory, &active) })
    }
}

/// The memory of one pooler: bytes a client at each count.
type Memory = Vec<f64>;

/// The quantiles of each round, without idle clients and with them.
type Active = [Vec<Quantiles>; 2];

impl Options {
    /// The counts that the descriptors allow, each once and in order.
    fn counts(&self, out: &mut Out) -> Vec<usize> {
        let limit = weir_pglocal::raise_descriptors();
        let most = usize::try_from(limit.saturating_sub(SPARE_DESCRIPTORS)).unwrap_or(usize::MAX);
        if self.clients.iter().chain([&self.idle]).any(|wanted| *wanted > most) {
            print_line!(out, "The limit of open files is {limit}: it ends at {most} clients (ulimit -Hn raises it).");
        }
        let mut counts: Vec<_> = self.clients.iter().map(|wanted| (*wanted).min(most)).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// Two poolers of one kind, one with idle clients, take turns.
    fn active_of(&self, stage: &Stage, kind: Kind, out: &mut Out) -> Outcome<Active> {
        let (without, with) = (stage.pooler(kind)?, stage.pooler(kind)?);
        let mut fleets = [Fleet::of(&without, self.active, 1)?, Fleet::of(&with, self.active, 1)?];
        let limit = weir_pglocal::raise_descriptors().saturating_sub(SPARE_DESCRIPTORS + 2 * self.active as u64);
        let idle = self.idle.min(usize::try_from(limit).unwrap_or(usize::MAX));
        let clients = load::log_in(&with, idle)?;
        thread::sleep(Duration::from_secs(1));
        let mut active = Active::default();
        // Opens the pools' servers, and fills their caches.
        for fleet in &mut fleets {
            fleet.open(self.rate, Duration::from_secs(1))?;
        }
        for _ in 0..self.rounds {
            for (fleet, rounds) in fleets.iter_mut().zip(&mut active) {
                let served = fleet.open(self.rate, Duration::from_secs(self.seconds))?;
                if served.unanswered > 0 {
                    return Err(Error::new(format!("{}: {} queries unanswered", with.name, served.unanswered)));
                }
                rounds.extend(served.quantiles());
            }
        }
        drop(clients);
        for (rounds, idle) in active.iter().zip([0, idle]) {
            let formatted = |part: fn(&Quantiles) -> f64| {
                let spread = Spread::of(rounds.iter().map(part));
                spread.map_or_else(String::new, |s| format!("{:.2} ({:.2}..{:.2})", s.median, s.min, s.max))
            };
            let (p50, p99, p999) = (formatted(|q| q.p50), formatted(|q| q.p99), formatted(|q| q.p999));
            print_line!(out, "{:<17} {idle:>8} {p50:>22} {p99:>22} {p999:>22}", with.name);
        }
        Ok(active)
    }
}

/// Clients come, and at each count the memory is looked at.
fn memory_of(pooler: &Pooler, counts: &[usize], out: &mut Out) -> Outcome<Memory> {
    let pid = pooler.pid().ok_or_else(|| Error::new(format!("{} has no process", pooler.name)))?;
    let rss = || proc::rss(pid).ok_or_else(|| pooler.gone());
    let mut all: Vec<TcpStream> = load::log_in(pooler, WARM_UP)?;
    thread::sleep(Duration::from_secs(1));
    let empty = rss()?;
    let mut memory = Memory::new();
    for &count in counts {
        let (missing, begin) = ((count + WARM_UP).saturating_sub(all.len()), Instant::now());
        all.extend(load::log_in(pooler, missing)?);
        let took = begin.elapsed().as_secs_f64();
        thread::sleep(Duration::from_secs(1));
        #[allow(clippy::cast_precision_loss)]
        let (each, rate) = (rss()?.saturating_sub(empty) as f64 / count as f64, missing as f64 / took);
        print_line!(out, "{:<17} {count:>8} {each:>12.0} {rate:>10.0}", pooler.name);
        memory.push(each);
    }
    Ok(memory)
}

fn findings(counts: &[usize], memory: &[(Kind, Memory)], active: &[(Kind, Active)]) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some((_, bytes)) = memory.iter().find(|(kind, _)| kind.role() == Role::Ours) {
        let most = bytes.iter().copied().fold(0.0, f64::max);
        findings.push(Finding::new("idle-bytes", most));
        findings.push(match bytes.as_slice() {
            [first, .., last] => Finding::new("idle-flat", last / first),
            _ => Finding::none("idle-flat", format!("one number of clients was looked at: {counts:?}")),
        });
    }
    if let Some((_, [alone, among])) = active.iter().find(|(kind, _)| kind.role() == Role::Ours) {
        let rounds = alone.iter().zip(among).map(|(alone, among)| among.p99 / alone.p99);
        let median = |rounds: &[Quantiles]| Spread::of(rounds.iter().map(|q| q.p99)).map(|spread| spread.median);
        if let (Some(alone), Some(among), Some(spread)) = (median(alone), median(among), Spread::of(rounds)) {
            findings.push(Finding::new("idle-active", among / alone).within(spread.min, spread.max));
        }
    }
    findings
}

fn json(counts: &[usize], memory: &[(Kind, Memory)], active: &[(Kind, Active)]) -> Value {
    let rounds = |rounds: &[Quantiles], part: fn(&Quantiles) -> f64| -> Value { rounds.iter().map(part).collect() };
    let memory = memory.iter().flat_map(|(kind, bytes)| {
        counts.iter().zip(bytes).map(|(count, bytes)| {
            json!({
                "pooler": kind.to_string().as_str(),
                "clients": (*count as u64),
                "bytes_a_client": (*bytes),
            })
        })
    });
    let active = active.iter().map(|(kind, [alone, among])| {
        json!({
            "pooler": kind.to_string().as_str(),
            "p50_alone_ms": rounds(alone, |q| q.p50),
            "p99_alone_ms": rounds(alone, |q| q.p99),
            "p50_among_ms": rounds(among, |q| q.p50),
            "p99_among_ms": rounds(among, |q| q.p99),
        })
    });
    json!({ "memory": Value::Array(memory.collect()), "active": Value::Array(active.collect()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearest_count_and_the_way_from_the_first_to_the_last_are_judged() {
        let quantiles = |p99| Quantiles { p50: 0.1, p99, p999: 9.0, max: 9.0 };
        let memory = [(Kind::Pgbouncer, vec![1250.0, 1250.0, 1250.0]), (Kind::Weir, vec![500.0, 620.0, 525.0])];
        let active = [(Kind::Weir, [vec![quantiles(1.0), quantiles(2.0)], vec![quantiles(1.5), quantiles(2.0)]])];
        let found = findings(&[1, 2, 3], &memory, &active);
        let figures: Vec<_> = found.iter().map(|finding| (finding.id, finding.figure.clone().unwrap())).collect();
        assert_eq!(figures[..2], [("idle-bytes", 620.0), ("idle-flat", 1.05)]);
        assert!((figures[2].1 - 1.75 / 1.5).abs() < 1e-9, "{figures:?}");
        assert_eq!(found[2].spread, Some((1.0, 1.5)));
        assert!(findings(&[1], &[(Kind::Weir, vec![500.0])], &[])[1].figure.is_err());
    }
}
