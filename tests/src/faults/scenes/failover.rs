//! A primary that dies, and its standby that replaces it.
//!
//! 25006 (read-only transaction) is never allowed: no client may stay on a server that takes no writes.

use std::fs;

use super::super::report::Report;
use super::super::stage::Scene;
use super::super::{Trial, server};
use crate::fault::FaultProxy;
use crate::names::NameServer;
use crate::postgres::Postgres;

const DUE: &[&str] = &["08P01", "57P01", "57P02", "57P03"];

pub(in super::super) fn by_list(trial: &Trial) -> Report {
    let primary = server();
    let standby = primary.standby();
    let ports = format!("{},{}", primary.port(), standby.port());
    let scene = Scene::on(trial, &primary)
        .ini(|ini| ini.at("127.0.0.1,127.0.0.1", &ports).app("target_session_attrs=read-write"))
        .due(DUE)
        .loses_writes();
    let mut stage = scene.open();
    stage.logs.push(standby.clone());
    stage.strike(|_| promote(&primary, &standby));
    stage.finish()
}

pub(in super::super) fn by_name(trial: &Trial) -> Report {
    let primary = server();
    let standby = primary.standby();
    // One port, two addresses: each address has a proxy to its server.
    let old = FaultProxy::at("127.0.0.2", 0, primary.port());
    let _new = FaultProxy::at("127.0.0.3", old.port(), standby.port());
    let names = NameServer::start(&["127.0.0.2"]);
    let folder = weir_pglocal::TempFolder::new().unwrap_or_else(|error| panic!("{error}"));
    let resolv_conf = folder.path().join("resolv.conf");
    fs::write(&resolv_conf, names.resolv_conf()).expect("our own file");
    let port = old.port().to_string();
    let scene = Scene::on(trial, &primary)
        .ini(|ini| ini.at("db.example", &port).set("dns_max_ttl", 1).set("resolv_conf", resolv_conf.display()))
        .due(DUE)
        .loses_writes();
    let mut stage = scene.open();
    stage.logs.push(standby.clone());
    stage.strike(|_| {
        promote(&primary, &standby);
        names.answer(&["127.0.0.3"]);
    });
    stage.finish()
}

fn promote(primary: &Postgres, standby: &Postgres) {
    primary.server().kill9();
    standby.server().promote().unwrap_or_else(|error| panic!("promote: {error}"));
}
