//! `weir demo`: what a pooler is for, shown in half a minute on a throw-away server.
//!
//! Owns the order of the story and its words. Everything it starts belongs to a [`Stage`], which ends it; if this process
//! is killed, the stage's caretaker does. Needs neither psql nor pgbench: clients are threads with our own client.

mod certificate;
mod console;
mod crowd;
mod live;
mod rng;
mod stage;
mod traffic;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use weir_pglocal::Signal;

use crate::failure::Failure;
use crate::term::{Output, Term, bar, say, sparkline, squeeze};

use console::Console;
use crowd::Outcome;
use stage::{MAX_CONNECTIONS, POOL_SIZE, Stage};

/// How many clients come at once: more than the server takes.
const CLIENTS: usize = 150;
/// How many transactions each of them runs.
const ROUNDS: usize = 3;
/// How long the live part lasts where nobody can press Ctrl-C.
const UNATTENDED: Duration = Duration::from_secs(10);
/// Width of the bars.
const BAR: usize = 40;

/// Set by the first Ctrl-C (or TERM, or HUP); a second one ends the process at once, and the caretaker clears up.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    fn on_signals() -> Result<Self, Failure> {
        let stop = Stop::default();
        // What is started under nohup goes on when its terminal is gone.
        let hup = (!weir_pglocal::is_ignored(Signal::SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hup) {
            // In this order: the first signal finds the flag unset, and sets it.
            signal_hook::flag::register_conditional_shutdown(signal, 1, Arc::clone(&stop.0))
                .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop.0)))
                .map_err(|e| Failure::at("listen for signals", e))?;
        }
        Ok(stop)
    }

    pub(crate) fn asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn ask(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Sleeps, but not on after the signal. Answers whether to go on.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let end = std::time::Instant::now() + time;
        while !self.asked() {
            let left = end.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(Duration::from_millis(50)));
        }
        false
    }
}

/// Tells the story; stays up for `seconds`, or until Ctrl-C.
pub(crate) fn run(seconds: Option<u64>) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let term = Term::stdout();
    let teller = Teller { term };
    say(term.bold(&format!("Weir: {CLIENTS} clients for a PostgreSQL that takes {MAX_CONNECTIONS}")));

    teller.heading(1, "A throw-away server");
    let mut stage = Stage::with_server()?;
    teller.server(&stage);
    if stop.asked() {
        return teller.farewell(stage);
    }

    teller.heading(2, &format!("{CLIENTS} clients straight at the server"));
    teller.line(&term.dim(&format!("each logs in, stays, and runs {ROUNDS} transactions of a tenth of a second")));
    let backends = || stage.server().backends();
    let direct = crowd::rush(&stage.direct(), CLIENTS, ROUNDS, &backends, &mut || 0);
    teller.direct(&direct);
    if stop.asked() {
        return teller.farewell(stage);
    }

    teller.heading(3, &format!("The same {CLIENTS} through Weir, pool \"{}\" of {POOL_SIZE}", stage::POOL));
    stage.add_weir()?;
    teller.weir(&stage);
    let mut console = Console::connect(&stage.console())?;
    let backends = || stage.server().backends();
    let mut waiting = || console.sample().map_or(0, |sample| sample.waiting);
    let pooled = crowd::rush(&stage.pooled(), CLIENTS, ROUNDS, &backends, &mut waiting);
    teller.pooled(&stage, &pooled)?;

    let time = seconds.map(Duration::from_secs).or((term.output == Output::Plain).then_some(UNATTENDED));
    if !stop.asked() {
        teller.invitation(&stage, time);
        live::watch(&mut stage, &mut console, term, &stop, time)?;
    }
    teller.farewell(stage)
}

/// The words.
struct Teller {
    term: Term,
}

impl Teller {
    fn heading(&self, number: u32, text: &str) {
        say(format_args!("\n{} {}", self.term.cyan(&number.to_string()), self.term.bold(text)));
    }

    fn line(&self, text: &str) {
        say(format_args!("  {text}"));
    }

    fn server(&self, stage: &Stage) {
        let programs = stage.server().programs();
        let user = stage.server().runs_as().map(|user| format!(", as user {user}")).unwrap_or_default();
        self.line(&format!("PostgreSQL {} from {}{user}", programs.version(), programs.bin().display()));
        let taken = if stage.server().port() == stage::USUAL_PORT { "" } else { " (5432 is taken)" };
        self.line(&format!("on 127.0.0.1:{}{taken}, data in {}", stage.server().port(), stage.folder().display()));
        self.line(&format!("max_connections = {MAX_CONNECTIONS}, three of them kept for the superuser"));
    }

    fn direct(&self, outcome: &Outcome) {
        self.counts(outcome);
        let count = self.term.bold(&outcome.backends.to_string());
        self.line(&format!("server processes for clients: {count}"));
    }

    fn weir(&self, stage: &Stage) {
        let taken = if stage.port() == stage::USUAL_WEIR_PORT { "" } else { " (6432 is taken)" };
        let config = stage.config();
        self.line(&format!("weir serve {}, on 127.0.0.1:{}{taken}", config.display(), stage.port()));
        self.line("plain or encrypted, as each client asks, with a certificate made for this hour");
    }

    fn pooled(&self, stage: &Stage, outcome: &Outcome) -> Result<(), Failure> {
        self.counts(outcome);
        let most = outcome.queue.iter().max().copied().unwrap_or(0);
        let curve = self.term.yellow(&sparkline(&squeeze(&outcome.queue, BAR)));
        self.line(&format!("queued     {curve} {}", self.term.dim(&format!("up to {most} waited, each had its turn"))));
        let count = self.term.bold(&format!("{} instead of {CLIENTS}", outcome.backends));
        self.line(&format!("server processes for clients: {count}"));
        let rows = stage.rows_through_weir()?;
        let verdict = if outcome.served == CLIENTS && rows == CLIENTS * ROUNDS {
            self.term.green("none lost")
        } else {
            self.term.red("some were lost")
        };
        let (done, took) = (outcome.transactions, outcome.took.as_secs_f64());
        self.line(&format!("{done} transactions in {took:.1} s, {rows} rows in the table: {verdict}"));
        Ok(())
    }

    /// How many were served and refused, as bars, and what the refused were told.
    fn counts(&self, outcome: &Outcome) {
        let refused = CLIENTS - outcome.served;
        let served_bar = self.term.green(&bar(outcome.served, CLIENTS, BAR));
        self.line(&format!("{:>4} served  {served_bar}", outcome.served));
        let refused_bar = self.term.red(&bar(refused, CLIENTS, BAR));
        self.line(format!("{refused:>4} refused {refused_bar}").trim_end());
        for (text, count) in &outcome.refusals {
            self.line(&format!("{count:>4} × {}", self.term.red(text)));
        }
    }

    fn invitation(&self, stage: &Stage, time: Option<Duration>) {
        let until = match time {
            Some(time) => format!("for {} s", time.as_secs()),
            None => "until Ctrl-C".to_owned(),
        };
        self.heading(4, &format!("It stays up {until}, with some traffic: look around"));
        self.line(&format!("the panel     {}", self.term.bold(&stage.panel())));
        let missing = stage.server().programs().psql().is_none();
        if missing {
            self.line(&self.term.dim("(there is no psql on this machine; any PostgreSQL client will do)"));
        }
        let psql = stage.server().programs().psql().map_or("psql".to_owned(), |path| shown(&path));
        self.line(&format!("a client      {}", self.term.bold(&format!("{psql} {}", stage.url(stage::POOL)))));
        let inside = format!("{psql} {} -c 'show pools'", stage.url("weir"));
        self.line(&format!("the console   {}", self.term.bold(&inside)));
        say("");
    }

    /// Ends everything and says so, after looking whether it is true.
    fn farewell(&self, stage: Stage) -> Result<(), Failure> {
        let folder = stage.folder().to_owned();
        drop(stage);
        if folder.exists() {
            return Err(Failure::Because(format!("stopped, but {} could not be removed", folder.display())));
        }
        say(format_args!(
            "\n{}",
            self.term.green("Stopped. Server, pooler and folder are gone; nothing is left behind.")
        ));
        Ok(())
    }
}

/// A program by its bare name where PATH finds that very one, otherwise by its path.
fn shown(path: &std::path::Path) -> String {
    let name = path.file_name().unwrap_or_default();
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let first = std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|found| found.is_file());
    let found = if first.is_some() { name.to_string_lossy().into_owned() } else { path.display().to_string() };
    if found.contains(' ') { format!("'{found}'") } else { found }
}
