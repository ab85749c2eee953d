//! `weir-bench workers`: one pool over several workers, beside the same pool on one.
//!
//! What counts is CPU a transaction, which must not rise with hand-overs, and TPS where there are processors to be had:
//! on a machine whose clients and servers already take them all, a second worker can bring nothing.

use std::thread;

use clap::Args;

use crate::budgets::{Finding, Findings, print_findings};
use crate::contender::{Kind, Role};
use crate::error::Outcome;
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::setup::Setup;
use crate::sides::{Runs, Sides};
use crate::stage::Pooler;
use crate::stats::Ratio;

/// Processors from which on a second worker can be expected to pay: one each, and some for clients and servers.
const PROCESSORS: usize = 8;

/// The options of `workers`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How many workers are compared with one
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(2..))]
    several: u32,
    #[command(flatten)]
    runs: Runs,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

impl Group for Options {
    const NAME: &'static str = "workers";

    fn output(&self) -> &Output {
        &self.output
    }

    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let (stage, pgbench) = self.rig.stage(10)?;
        let start = |workers| -> Outcome<(String, Pooler)> {
            let pooler = stage.pooler_with(Kind::Weir, &Setup { workers, ..stage.setup().clone() })?;
            Ok((format!("{}, {workers} workers", pooler.name).replace(" 1 workers", " 1 worker"), pooler))
        };
        let mut sides = Sides(vec![start(1)?, start(self.several)?]);
        if self.rig.kinds(out)?.iter().any(|kind| kind.role() == Role::Base) {
            let base = stage.pooler(Kind::Pgbouncer)?;
            sides.0.push((base.name.clone(), base));
        }
        let arguments = ["-S", "-c", &self.runs.clients.to_string()].map(str::to_owned);
        let figures = sides.measure(&pgbench, &arguments, &self.runs)?;
        let (clients, size, rounds) = (self.runs.clients, self.rig.pool_size, self.runs.rounds);
        print_line!(out, "{clients} clients, -S simple, one pool of {size}; medians of {rounds} rounds");
        let json = sides.print(&figures, out);
        let budgets = findings(figures.cpu(1), figures.tps(1), processors());
        print_line!(out, "× is the ratio to one worker's.");
        print_findings(out, &budgets);
        Ok(Findings { budgets, json })
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

fn findings(cpu: Option<Ratio>, tps: Option<Ratio>, processors: usize) -> Vec<Finding> {
    let of = |id, ratio: Option<Ratio>| match ratio {
        Some(ratio) => Finding::new(id, ratio.of_medians).within(ratio.min, ratio.max),
        None => Finding::none(id, "there are no figures"),
    };
    let room = processors >= PROCESSORS;
    let few =
        || format!("not judged on {processors} processors, which clients and servers share; it takes {PROCESSORS}");
    vec![of("workers-cpu", cpu), if room { of("workers-tps", tps) } else { Finding::none("workers-tps", few()) }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_judged_only_where_there_are_processors_for_it() {
        let ratio = Some(Ratio { of_medians: 1.2, min: 1.0, max: 1.3 });
        assert_eq!(findings(ratio, ratio, PROCESSORS)[1].figure, Ok(1.2));
        let few = findings(ratio, ratio, 2);
        assert_eq!(few[0].figure, Ok(1.2));
        assert!(few[1].figure.as_ref().unwrap_err().contains("2 processors"));
    }
}
