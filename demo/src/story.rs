//! The demo's steps, in order: the server alone, clients straight at it, the same through Weir, a live view.
//!
//! What it starts belongs to [`Servers`], which stops it; if this process is killed, the reaper does. Needs neither
//! psql nor pgbench: clients are threads with `weir-pgclient`.

use std::path::PathBuf;
use std::time::Duration;

use weir_pglocal::Consent;
use weir_terminal::{ColorWhen, Output, Term, print_line};

use crate::burst;
use crate::console::Console;
use crate::failure::Failure;
use crate::live;
use crate::report::Report;
use crate::servers::{CLIENTS, MAX_CONNECTIONS, POOL, POOL_SIZE, ROUNDS, Servers};
use crate::stop::Stop;

/// How long the live part lasts without a terminal for Ctrl-C.
const UNATTENDED: Duration = Duration::from_secs(10);

/// The command line.
pub(super) struct Options {
    /// How long the live part lasts.
    pub(super) seconds: Option<u64>,
    /// Whether PostgreSQL may be downloaded or installed without a question.
    pub(super) yes: bool,
    /// The `weir` to show.
    pub(super) weir: Option<PathBuf>,
    /// Whether the report has colours.
    pub(super) color: ColorWhen,
}

/// Runs the demo; stays up for `seconds`, or until Ctrl-C.
pub(super) fn run(options: &Options) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let term = Term::stdout(options.color);
    let report = Report { term };
    print_line(term.bold(&format!("Weir: {CLIENTS} clients for a PostgreSQL that takes {MAX_CONNECTIONS}")));

    report.heading(1, "A temporary server");
    let mut servers = Servers::start(options.weir.as_deref(), Consent::new(options.yes))?;
    report.server(&servers);
    if stop.is_requested() {
        return report.end(servers);
    }

    report.heading(2, &format!("{CLIENTS} clients straight at the server"));
    report.line(&term.dim(&format!("each logs in, stays, and runs {ROUNDS} transactions of a tenth of a second")));
    let backends = || servers.postgres().backends();
    let direct = burst::run(&servers.direct(), CLIENTS, ROUNDS, &backends, &mut || 0);
    report.direct(&direct);
    if stop.is_requested() {
        return report.end(servers);
    }

    report.heading(3, &format!("The same {CLIENTS} through Weir, pool \"{POOL}\" of {POOL_SIZE}"));
    servers.add_weir()?;
    report.weir(&servers);
    let mut console = Console::connect(&servers.console())?;
    let backends = || servers.postgres().backends();
    let mut waiting = || console.sample().map_or(0, |sample| sample.waiting);
    let pooled = burst::run(&servers.pooled(), CLIENTS, ROUNDS, &backends, &mut waiting);
    report.pooled(&servers, &pooled)?;

    let time = options.seconds.map(Duration::from_secs).or((term.output == Output::Plain).then_some(UNATTENDED));
    if !stop.is_requested() {
        report.addresses(&servers, time);
        live::watch(&mut servers, &mut console, term, &stop, time)?;
    }
    report.end(servers)
}
