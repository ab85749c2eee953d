//! PostgreSQL: one backend killed, the whole server killed, and stopped.

use weir_pglocal::{Signal, send_signal};

use super::super::report::Report;
use super::super::stage::Scene;
use super::super::{Trial, server};

pub(in super::super) fn backend_killed(trial: &Trial) -> Report {
    // The killed backend sends nothing; the others get an error and end, and new connections get 57P03.
    let mut stage = Scene::on(trial, &server()).due(&["08P01", "57P01", "57P02", "57P03"]).open();
    stage.strike(|stage| {
        let victim = stage.database.backends().first().expect("the pool has servers").0;
        send_signal(victim, Signal::SIGKILL);
    });
    stage.finish()
}

pub(in super::super) fn server_killed(trial: &Trial) -> Report {
    let mut stage = Scene::on(trial, &server()).due(&["08P01", "57P01", "57P02", "57P03"]).open();
    stage.strike(|stage| {
        stage.postgres.server().kill9();
        stage.last();
        stage.postgres.server().start_again().unwrap_or_else(|error| panic!("{error}"));
    });
    stage.finish()
}

pub(in super::super) fn server_stopped(trial: &Trial) -> Report {
    // No client waits longer than query_wait_timeout, so all of it is only delay.
    let mut stage = Scene::on(trial, &server()).open();
    stage.strike(|stage| {
        stage.postgres.server().sigstop();
        stage.last();
        stage.postgres.server().sigcont();
    });
    stage.finish()
}
