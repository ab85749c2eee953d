//! What the demo prints.

use std::env;
use std::path::Path;
use std::time::Duration;

use weir_pglocal::{Origin, Programs, cache_folder};
use weir_terminal::{Term, print_line};

use crate::bars::{bar, downsample, sparkline};
use crate::burst::Outcome;
use crate::failure::Failure;
use crate::servers::{CLIENTS, MAX_CONNECTIONS, POOL, ROUNDS, Servers, USUAL_PORT, USUAL_WEIR_PORT};

/// Width of the bars.
const BAR: usize = 40;

/// Prints each step and what came of it.
pub(super) struct Report {
    pub(super) term: Term,
}

impl Report {
    pub(super) fn heading(&self, number: u32, text: &str) {
        print_line(format_args!("\n{} {}", self.term.cyan(&number.to_string()), self.term.bold(text)));
    }

    pub(super) fn line(&self, text: &str) {
        print_line(format_args!("  {text}"));
    }

    pub(super) fn server(&self, servers: &Servers) {
        let programs = servers.postgres().programs();
        let user = servers.postgres().runs_as().map(|user| format!(", as user {user}")).unwrap_or_default();
        self.line(&format!("PostgreSQL {} from {}{user}", programs.version(), programs.bin().display()));
        let taken = if servers.postgres().port() == USUAL_PORT { "" } else { " (5432 is taken)" };
        self.line(&format!(
            "on 127.0.0.1:{}{taken}, data in {}",
            servers.postgres().port(),
            servers.folder().display()
        ));
        self.line(&format!("max_connections = {MAX_CONNECTIONS}, three of them kept for the superuser"));
    }

    pub(super) fn direct(&self, outcome: &Outcome) {
        self.counts(outcome);
        let count = self.term.bold(&outcome.backends.to_string());
        self.line(&format!("server processes for clients: {count}"));
    }

    pub(super) fn weir(&self, servers: &Servers) {
        let taken = if servers.port() == USUAL_WEIR_PORT { "" } else { " (6432 is taken)" };
        let config = servers.config();
        self.line(&format!("weir serve {}, on 127.0.0.1:{}{taken}", config.display(), servers.port()));
        self.line("plain or encrypted, as each client asks, with a certificate made for this hour");
    }

    pub(super) fn pooled(&self, servers: &Servers, outcome: &Outcome) -> Result<(), Failure> {
        self.counts(outcome);
        let most = outcome.queue.iter().max().copied().unwrap_or(0);
        let curve = self.term.yellow(&sparkline(&downsample(&outcome.queue, BAR)));
        self.line(&format!("queued     {curve} {}", self.term.dim(&format!("up to {most} waited, each had its turn"))));
        let count = self.term.bold(&format!("{} instead of {CLIENTS}", outcome.backends));
        self.line(&format!("server processes for clients: {count}"));
        let rows = servers.rows_through_weir()?;
        let verdict = if outcome.served == CLIENTS && rows == CLIENTS * ROUNDS {
            self.term.green("none lost")
        } else {
            self.term.red("some were lost")
        };
        let (done, took) = (outcome.transactions, outcome.took.as_secs_f64());
        self.line(&format!("{done} transactions in {took:.1} s, {rows} rows in the table: {verdict}"));
        Ok(())
    }

    /// How many were served and refused, as bars, and the errors of the refused.
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

    pub(super) fn addresses(&self, servers: &Servers, time: Option<Duration>) {
        let until = match time {
            Some(time) => format!("for {} s", time.as_secs()),
            None => "until Ctrl-C".to_owned(),
        };
        self.heading(4, &format!("It stays up {until}, with some traffic: look around"));
        self.line(&format!("the panel     {}", self.term.bold(&servers.panel())));
        let missing = servers.postgres().programs().psql().is_none();
        if missing {
            self.line(&self.term.dim("(there is no psql on this machine; any PostgreSQL client will do)"));
        }
        let psql = servers.postgres().programs().psql().map_or("psql".to_owned(), |path| shown(&path));
        self.line(&format!("a client      {}", self.term.bold(&format!("{psql} {}", servers.url(POOL)))));
        let inside = format!("{psql} {} -c 'show pools'", servers.url("weir"));
        self.line(&format!("the console   {}", self.term.bold(&inside)));
        print_line("");
    }

    /// Stops everything, and checks that the folder is gone before it reports that.
    pub(super) fn end(&self, servers: Servers) -> Result<(), Failure> {
        let folder = servers.folder().to_owned();
        let stays = what_stays(servers.postgres().programs());
        drop(servers);
        if folder.exists() {
            return Err(Failure::new(format!("stopped, but {} could not be removed", folder.display())));
        }
        print_line(format_args!(
            "\n{}",
            self.term.green(&format!("Stopped. Server, pooler and folder are gone; {stays}"))
        ));
        Ok(())
    }
}

/// The end of the last line: a PostgreSQL that was downloaded, now or by an earlier run, is kept for the next.
fn what_stays(programs: &Programs) -> String {
    match (programs.origin(), cache_folder()) {
        (Origin::Fetched, Some(folder)) => {
            format!("what was downloaded stays for the next time. To remove it: rm -r {}", folder.display())
        }
        _ => "nothing is left behind.".to_owned(),
    }
}

/// A program by its bare name where PATH finds that very one, otherwise by its path.
fn shown(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    let folders = env::var_os("PATH").unwrap_or_default();
    let first = env::split_paths(&folders).map(|folder| folder.join(name)).find(|found| found.is_file());
    let found = if first.is_some() { name.to_string_lossy().into_owned() } else { path.display().to_string() };
    if found.contains(' ') { format!("'{found}'") } else { found }
}
