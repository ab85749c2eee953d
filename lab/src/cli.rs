//! The command line of `weir-lab`: subcommands, options and help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::experiments::{node, own, pgbench, products, reconnect, size};
use crate::length::Length;

const ABOUT: &str = "The published experiments about connection pooling, rerun on this machine, with honest reports";

const EXAMPLES: &str = "\
Examples:
  weir lab all --quick                 everything in a few minutes; open the report.html it names
  weir lab pgbench --standard          one experiment, long enough to be trusted
  weir lab products --serve            the web app of the articles, to play with in a browser
  weir lab run my-load.toml            what would a pooler do for my load?
  weir lab compare A.json B.json       two runs side by side

Servers are started on free ports of the loopback in a temporary folder, and are removed afterwards,
also when the lab is killed. An interrupted run continues when it is started again.";

/// The command line.
#[derive(Parser)]
#[command(name = "weir-lab", bin_name = "weir lab", version, about = ABOUT, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Every experiment
    All {
        #[command(flatten)]
        common: Common,
    },
    /// A web API with four ways to reach its database, loaded over HTTP
    Products {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: products::Options,
    },
    /// A pool in front of a server that takes 100 connections
    Pgbench {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: pgbench::Options,
    },
    /// No pooler, PgBouncer, Pgpool-II and Weir, with a new connection for every transaction
    Reconnect {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: reconnect::Options,
    },
    /// Serial and parallel queries of a Node.js program, on MariaDB and on PostgreSQL
    Node {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: node::Options,
    },
    /// Throughput and latency against the pool's size
    Size {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: size::Options,
    },
    /// Your own: targets, a workload and repetitions from a file
    #[command(after_help = own::HELP)]
    Run {
        #[command(flatten)]
        common: Common,
        #[command(flatten)]
        options: own::Options,
    },
    /// Compare two reports: which figures differ by more than their spread
    Compare {
        /// The report.json of the first run
        a: PathBuf,
        /// The report.json of the second run
        b: PathBuf,
    },
    /// Draw a report again from its report.json, and show it
    Report {
        /// The report's folder
        folder: PathBuf,
    },
    /// List the programs that the experiments need, and how to install those that are missing
    Check,
    /// The web app of `products` in Rust, which the lab starts where Go is missing
    #[command(hide = true)]
    App(products::AppFlags),
}

/// The options of all experiments.
#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// A few minutes for everything: trends are visible, decimals mean nothing
    #[arg(long, conflicts_with_all = ["standard", "smoke"])]
    pub(crate) quick: bool,
    /// Under an hour for everything [default: the articles' own durations, hours]
    #[arg(long, conflicts_with = "smoke")]
    pub(crate) standard: bool,
    /// Each step for a moment, for tests: the figures mean nothing
    #[arg(long, hide = true)]
    pub(crate) smoke: bool,
    /// The report's folder [default: a new one below weir-lab/]
    #[arg(long, value_name = "FOLDER")]
    pub(crate) out: Option<PathBuf>,
    /// Start a new run, though an unfinished one of the same kind could be resumed
    #[arg(long)]
    pub(crate) fresh: bool,
    /// The weir to measure [default: the one beside this program, or in PATH]
    #[arg(long, value_name = "FILE")]
    pub(crate) weir: Option<PathBuf>,
}

impl Common {
    /// The chosen length.
    pub(crate) fn length(&self) -> Length {
        match (self.smoke, self.quick, self.standard) {
            (true, _, _) => Length::Smoke,
            (_, true, _) => Length::Quick,
            (_, _, true) => Length::Standard,
            _ => Length::Article,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_its_help_fits_a_terminal() {
        let mut command = Cli::command();
        command.clone().debug_assert();
        command.build();
        let mut texts = vec![command.render_help().to_string()];
        texts.extend(command.get_subcommands_mut().map(|sub| sub.render_help().to_string()));
        let wide: Vec<_> =
            texts.iter().flat_map(|text| text.lines()).filter(|line| line.chars().count() > 110).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }
}
