//! Each fault in its quick form against Weir; `make faults` runs the long form, with figures.
//!
//! The assertions are in `weir_tests::faults`: no reply mixed up, only permitted errors, no write lost, all counters
//! back, every client served again. No time is asserted.

use std::sync::{Mutex, PoisonError};

use weir_tests::faults::{Fault, Form, Kind};

/// Limits how many run at a time: each has its own load, and a small machine must not cause failures.
static LANES: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

fn quick(name: &str, lane: usize) {
    if name == "packets-lost"
        && let Err(refused) = weir_tests::may_lose_packets()
    {
        weir_tests::skipped(&format!("{name}: the kernel refuses the filter of a socket: {refused}"));
        return;
    }
    let _lane = LANES[lane].lock().unwrap_or_else(PoisonError::into_inner);
    let report = Fault::named(name).expect("a fault of this name").run(Kind::Weir, Form::Quick);
    println!("{}\n{}\n{}", weir_tests::faults::Report::head(), report.row(), report.timeline());
}

macro_rules! faults {
    ($($test:ident: $name:literal, $lane:literal;)*) => {
        $(#[test]
        fn $test() {
            quick($name, $lane);
        })*

        #[test]
        fn every_fault_has_its_test() {
            let tested = [$($name),*];
            let all: Vec<_> = weir_tests::faults::ALL.iter().map(|fault| fault.name).collect();
            assert_eq!(all, tested);
        }
    };
}

faults! {
    a_bad_wire_to_clients_mixes_nothing_up: "wire-to-clients", 0;
    a_bad_wire_to_servers_mixes_nothing_up: "wire-to-servers", 1;
    a_partition_ends_with_query_timeout_and_heals: "partition", 0;
    lost_packets_end_with_tcp_user_timeout_and_heal: "packets-lost", 1;
    a_server_slow_to_log_in_delays_and_no_more: "slow-login", 1;
    a_killed_backend_costs_those_it_served: "backend-killed", 0;
    a_killed_server_is_found_again: "server-killed", 1;
    a_stopped_server_delays_and_breaks_nothing: "server-stopped", 0;
    a_promoted_standby_of_the_list_takes_the_writes: "promotion-by-list", 1;
    a_promoted_standby_under_the_same_name_takes_the_writes: "promotion-by-name", 0;
    without_descriptors_accepting_waits_and_is_said_once: "descriptors", 1;
    a_full_disk_costs_lines_of_the_log_and_nothing_else: "log-full", 0;
    a_wall_clock_that_jumps_ahead_ends_nothing: "clock-forwards", 1;
    a_wall_clock_that_jumps_back_ends_nothing: "clock-backwards", 0;
    a_weir_that_was_stopped_times_out_no_client_that_was_served_in_time: "pooler-stopped", 1;
    a_killed_weir_leaves_clean_servers: "pooler-killed", 0;
}
