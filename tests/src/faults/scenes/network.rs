//! Bad connections: broken, stalled, or to a server with slow logins.

use std::time::Duration;

use super::super::report::Report;
use super::super::stage::{Between, Scene};
use super::super::{Trial, shared_server};
use crate::fault::{End, FaultProxy, Plan};
use crate::rng::Rng;

/// Cut connections are cut within this many bytes: some during login, most within a few transactions.
const WITHIN: u64 = 6_000;

/// Draws plans from a seed, which is printed, for as long as the fault lasts.
fn draw_faults(wire: &FaultProxy, trial: &Trial) {
    let seed = Rng::seeded(trial.fault).bits();
    wire.script(move |number| Plan::of(seed, number, WITHIN));
    wire.cut_all(End::Reset);
    std::thread::sleep(trial.lasts());
    wire.script(|_| Plan::clean());
    wire.cut_all(End::Reset);
}

pub(in super::super) fn wire_to_clients(trial: &Trial) -> Report {
    let due = &["closed", "torn", "reset"];
    let mut stage = Scene::on(trial, &shared_server()).wire(Between::ClientsAndPooler).due(due).open();
    stage.strike(|stage| draw_faults(stage.wire(), trial));
    stage.note = format!("{} connections", stage.wire().accepted());
    stage.finish()
}

pub(in super::super) fn wire_to_servers(trial: &Trial) -> Report {
    // A client that has received part of a server message can't get an error: its connection is closed.
    // PostgreSQL refuses a right password (28P01) where the message with it ends in the middle (`CheckSASLAuth` in auth.c),
    // and clients that come before the next try are refused with its words.
    let due = &["08P01", "torn", "28P01"];
    let mut stage = Scene::on(trial, &shared_server()).wire(Between::PoolerAndServer).due(due).open();
    stage.strike(|stage| draw_faults(stage.wire(), trial));
    stage.note = format!("{} connections", stage.wire().accepted());
    stage.finish()
}

pub(in super::super) fn partition(trial: &Trial) -> Report {
    // query_timeout ends a running query, and the wait of a client that sends one while no login succeeds.
    let due = &["08P01"];
    let scene = Scene::on(trial, &shared_server()).ini(|ini| ini.set("query_timeout", 1)).due(due);
    let mut stage = scene.wire(Between::PoolerAndServer).open();
    stage.strike(|stage| {
        stage.wire().stall(true);
        stage.last();
        stage.wire().stall(false);
    });
    stage.finish()
}

pub(in super::super) fn packets_lost(trial: &Trial) -> Report {
    let settings = [("tcp_user_timeout", 1_000), ("tcp_keepidle", 1), ("tcp_keepintvl", 1), ("tcp_keepcnt", 2)];
    let scene = Scene::on(trial, &shared_server())
        .ini(|ini| settings.into_iter().fold(ini, |ini, (name, value)| ini.set(name, value)))
        .due(&["08P01"]);
    let mut stage = scene.wire(Between::PoolerAndServer).open();
    stage.strike(|stage| {
        stage.wire().vanish(true);
        stage.last();
        stage.wire().vanish(false);
    });
    stage.finish()
}

pub(in super::super) fn slow_login(trial: &Trial) -> Report {
    let mut stage = Scene::on(trial, &shared_server()).wire(Between::PoolerAndServer).due(&["08P01"]).open();
    stage.strike(|stage| {
        stage.wire().script(|_| Plan { late: Duration::from_millis(300), ..Plan::default() });
        stage.wire().cut_all(End::Reset);
        stage.last();
        stage.wire().script(|_| Plan::clean());
    });
    stage.finish()
}
