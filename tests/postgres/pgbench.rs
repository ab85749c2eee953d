//! pgbench through a pool of 10 with 100 clients: no error, and the balances add up.

use weir_tests::{Bench, Mode, Setup, Site};

/// The duration of each run: enough to pass through every state many times on a slow machine.
const SECONDS: &str = "3";

const BALANCES: &str = "SELECT (SELECT sum(abalance) FROM pgbench_accounts) || ' ' || \
                        (SELECT sum(tbalance) FROM pgbench_tellers) || ' ' || \
                        (SELECT sum(bbalance) FROM pgbench_branches) || ' ' || \
                        (SELECT coalesce(sum(delta), 0) FROM pgbench_history)";

fn site(workers: u32, mode: Mode, size: u32) -> Site {
    let setup = Setup::new(mode).size(size).workers(workers).auth("md5");
    let site = Site::with(setup, mode);
    let filled = Bench { target: &site.params(), arguments: &["-i", "-q", "-s", "3"] }.run();
    assert!(filled.succeeded, "{}", filled.output);
    site
}

#[track_caller]
fn runs_without_error(site: &Site, arguments: &[&str]) {
    let arguments = [&["-n", "-T", SECONDS, "-j", "2"], arguments].concat();
    let run = Bench { target: &site.params(), arguments: &arguments }.run();
    assert!(run.succeeded, "{arguments:?}: {}", run.output);
    assert!(!run.output.contains("ERROR") && !run.output.contains("FATAL"), "{arguments:?}: {}", run.output);
    assert_eq!(run.figure("number of failed transactions:"), Some(0.0), "{arguments:?}: {}", run.output);
    let done = run.figure("number of transactions actually processed:").unwrap_or_default();
    assert!(done > 100.0, "{arguments:?}: {}", run.output);
    println!("{arguments:?}: {} TPS", run.figure("tps =").unwrap_or_default());
}

#[track_caller]
fn balances_add_up(site: &Site) {
    let text = site.superuser().value(BALANCES).unwrap().unwrap();
    let sums: Vec<_> = text.split(' ').collect();
    assert!(sums.len() == 4 && sums.iter().all(|sum| *sum == sums[0]), "{text}");
}

#[test]
fn a_hundred_clients_on_ten_servers_in_every_query_mode() {
    let site = site(1, Mode::Transaction, 10);
    for query_mode in ["simple", "extended", "prepared"] {
        runs_without_error(&site, &["-c", "100", "-M", query_mode]);
        balances_add_up(&site);
        runs_without_error(&site, &["-c", "100", "-M", query_mode, "-S"]);
    }
}

#[test]
fn a_new_connection_for_each_transaction() {
    let site = site(1, Mode::Transaction, 10);
    runs_without_error(&site, &["-c", "100", "-C", "-S"]);
    runs_without_error(&site, &["-c", "50", "-C"]);
    balances_add_up(&site);
}

#[test]
fn a_pool_of_two_with_a_pipeline_of_statements() {
    let site = site(1, Mode::Transaction, 2);
    let script = site.weir().folder().join("pipeline.sql");
    let text = "\\set aid random(1, 300000)\n\\startpipeline\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n\
                SELECT 1;\nSELECT bid FROM pgbench_accounts WHERE aid = :aid;\n\\endpipeline\n";
    std::fs::write(&script, text).unwrap();
    for query_mode in ["extended", "prepared"] {
        runs_without_error(&site, &["-c", "40", "-M", query_mode, "-f", script.to_str().unwrap()]);
    }
}

#[test]
fn session_mode_serves_as_many_as_it_has_servers_and_the_others_afterwards() {
    let site = site(1, Mode::Session, 10);
    for query_mode in ["simple", "prepared"] {
        runs_without_error(&site, &["-c", "10", "-M", query_mode]);
    }
    runs_without_error(&site, &["-c", "50", "-C", "-S"]);
    balances_add_up(&site);
}

#[test]
fn two_workers() {
    let site = site(2, Mode::Transaction, 10);
    runs_without_error(&site, &["-c", "100", "-M", "prepared"]);
    runs_without_error(&site, &["-c", "50", "-C"]);
    balances_add_up(&site);
}
