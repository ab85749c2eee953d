//! `weir-lab`: the published experiments about pooling, for anyone to repeat. `weir lab` runs it.
//!
//! A separate program, so that its libraries stay out of the server. An experiment measures in steps (`steps`), which
//! `runner` runs and `journal` stores; its evaluation is a value (`model`), which `report` renders. An
//! evaluation is a pure function of what was measured: a report can be made again without measuring, and the check of a
//! claim is tested with made-up figures.

mod cli;
mod experiments;
mod journal;
mod lab;
mod length;
mod load;
mod machine;
mod model;
mod progress;
mod report;
mod runner;
mod servers;
mod steps;
mod tools;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command, Common};
use experiments::{node, own, pgbench, products, reconnect, size};
use length::Length;
use runner::RunOptions;
use steps::{Experiment, LabError};

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(trouble) => {
            eprintln!("weir lab: {trouble}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<(), LabError> {
    match command {
        Command::All { common } => {
            let length = common.length();
            measure("all", experiments::all(length), length, common)
        }
        Command::Products { common, options } if options.serve => serve(common, &options),
        Command::Products { common, options } => one(products::new(common.length(), &options), common),
        Command::Pgbench { common, options } => one(pgbench::new(common.length(), &options), common),
        Command::Reconnect { common, options } => one(reconnect::new(common.length(), &options), common),
        Command::Node { common, options } => one(node::new(common.length(), &options), common),
        Command::Size { common, options } => one(size::new(common.length(), &options), common),
        Command::Run { common, options } => {
            let length = if common.smoke { Length::Smoke } else { Length::File };
            measure("own", vec![own::new(length, &options)?], length, common)
        }
        Command::Compare { a, b } => show(&report::compare(&report::read(&a)?, &report::read(&b)?)),
        Command::Report { folder } => {
            let report = report::read(&folder.join("report.json"))?;
            report::write(&folder, &report)?;
            show(&report::text(&report))
        }
        Command::Check => show(&tools::check()),
        Command::App(flags) => products::run_app(flags),
    }
}

fn one(experiment: Box<dyn Experiment>, common: Common) -> Result<(), LabError> {
    let length = common.length();
    measure(experiment.id(), vec![experiment], length, common)
}

/// Runs experiments and prints the report.
fn measure(name: &str, experiments: Vec<Box<dyn Experiment>>, length: Length, common: Common) -> Result<(), LabError> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    let command = format!("weir lab {}", words.join(" "));
    let Common { out, fresh, weir, .. } = common;
    let order = RunOptions { name: name.to_owned(), experiments, length, out, fresh, weir, command };
    let (folder, report) = runner::run(&order)?;
    show(&report::text(&report))?;
    eprintln!("the report: {}", folder.join("report.html").display());
    Ok(())
}

/// Leaves the web app running for a user.
fn serve(common: Common, options: &products::Options) -> Result<(), LabError> {
    // Dropped in this order: the folder is removed before its reaper ends.
    let _caretaker;
    let out = weir_pglocal::TempFolder::new()?;
    _caretaker = weir_pglocal::Reaper::of(out.path())?;
    let lab = lab::Lab::new(common.length(), common.weir, out.path().join("raw"), progress::Progress::stderr())?;
    products::serve(&lab, options)
}

/// Prints; a closed pipe is no error, the rest is dropped.
#[allow(clippy::unnecessary_wraps)]
fn show(text: &str) -> Result<(), LabError> {
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(())
}
