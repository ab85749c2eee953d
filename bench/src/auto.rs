//! `weir-bench auto`: what mode `auto` costs beside mode `transaction`, where no client leaves state.

use clap::Args;

use serde_json::Value;

use crate::budgets::{Finding, Findings, print_findings};
use crate::contender::Kind;
use crate::error::Outcome;
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::setup::{Mode, Setup};
use crate::sides::{Runs, Sides};
use crate::stage::Pooler;

/// The options of `auto`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    runs: Runs,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

/// A load: the budget's name, pgbench's arguments.
static LOADS: &[(&str, &str)] = &[
    ("auto-simple", "-S -M simple"),
    ("auto-extended", "-S -M extended"),
    ("auto-prepared", "-S -M prepared"),
    ("auto-tpcb", "-M simple"),
];

impl Group for Options {
    const NAME: &'static str = "auto";

    fn output(&self) -> &Output {
        &self.output
    }

    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let (stage, pgbench) = self.rig.stage(50)?;
        let start = |mode| -> Outcome<(String, Pooler)> {
            let mut setup: Setup = stage.setup().clone();
            setup.pools.iter_mut().for_each(|pool| pool.mode = mode);
            let pooler = stage.pooler_with(Kind::Weir, &setup)?;
            Ok((format!("{}, {}", pooler.name, mode.name()), pooler))
        };
        let sides = Sides(vec![start(Mode::Transaction)?, start(Mode::Auto)?]);
        let (mut budgets, mut json) = (Vec::new(), Vec::new());
        for (id, flags) in LOADS {
            let clients = self.runs.clients.to_string();
            let arguments: Vec<String> = flags.split(' ').chain(["-c", &clients]).map(str::to_owned).collect();
            let figures = sides.measure(&pgbench, &arguments, &self.runs)?;
            print_line!(out, "pgbench {}; medians of {} rounds", arguments.join(" "), self.runs.rounds);
            json.push(sides.print(&figures, out));
            print_line!(out);
            budgets.push(match figures.cpu(1) {
                Some(ratio) => Finding::new(id, ratio.of_medians).within(ratio.min, ratio.max),
                None => Finding::none(id, "there are no figures"),
            });
        }
        print_line!(out, "× is the ratio to mode transaction.");
        print_findings(out, &budgets);
        Ok(Findings { budgets, json: Value::Array(json) })
    }
}
