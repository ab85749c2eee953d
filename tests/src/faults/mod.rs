//! Faults of machines, networks and servers, applied to a real PostgreSQL and the real pooler under load.
//!
//! Owns the list of faults. Each has two forms. The test of the quick form asserts that no reply is mixed up, that
//! clients get only the errors allowed for the fault, that the final state equals the initial one, and that recovery
//! happens. `make faults` measures the full form, beside PgBouncer where the fault applies to it too.

mod clock;
mod load;
mod pooler;
mod report;
mod scenes;
mod stage;

use std::sync::OnceLock;
use std::time::Duration;

use crate::postgres::Postgres;
use scenes::{failover, network, process, server};

pub use pooler::Kind;
pub use report::Report;

/// How long a fault is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Seconds: for correctness.
    Quick,
    /// Longer, with more clients: for figures.
    Full,
}

/// One fault, one pooler, one form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trial {
    pub(crate) fault: &'static str,
    pub(crate) kind: Kind,
    pub(crate) form: Form,
}

impl Trial {
    /// How long nothing happens, before the fault and after recovery.
    fn calm(&self) -> Duration {
        Duration::from_millis(if self.form == Form::Quick { 700 } else { 2_500 })
    }

    /// The duration of a fault that has one.
    fn lasts(&self) -> Duration {
        Duration::from_millis(if self.form == Form::Quick { 1_500 } else { 4_000 })
    }
}

/// One fault.
pub struct Fault {
    /// The name that selects it.
    pub name: &'static str,
    /// The fault, in one sentence.
    pub description: &'static str,
    /// Whether the fault can be applied to PgBouncer too.
    pub rival: bool,
    run: fn(&Trial) -> Report,
}

impl std::fmt::Debug for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl Fault {
    /// Runs the fault.
    ///
    /// # Panics
    ///
    /// When a result is wrong that the fault does not excuse.
    pub fn run(&self, kind: Kind, form: Form) -> Report {
        (self.run)(&Trial { fault: self.name, kind, form })
    }

    /// The fault of this name.
    pub fn named(name: &str) -> Option<&'static Fault> {
        ALL.iter().find(|fault| fault.name == name)
    }
}

const fn fault(name: &'static str, description: &'static str, rival: bool, run: fn(&Trial) -> Report) -> Fault {
    Fault { name, description, rival, run }
}

/// All faults.
pub const ALL: &[Fault] = &[
    fault(
        "wire-to-clients",
        "The wire between clients and pooler delays, trickles, cuts anywhere, half-closes and resets, drawn from a seed.",
        true,
        network::wire_to_clients,
    ),
    fault(
        "wire-to-servers",
        "The same wire between pooler and server, logins included.",
        true,
        network::wire_to_servers,
    ),
    fault(
        "partition",
        "Between pooler and server nothing passes and nothing is closed; query_timeout is 1 s.",
        true,
        network::partition,
    ),
    fault(
        "packets-lost",
        "The same, but packets are dropped below TCP, so that nothing is acknowledged; no query_timeout, but \
         tcp_user_timeout and keep-alive of 1 s.",
        true,
        network::packets_lost,
    ),
    fault(
        "slow-login",
        "All server connections are reset at once, and each new one takes 300 ms before it reaches the server.",
        true,
        network::slow_login,
    ),
    fault(
        "backend-killed",
        "SIGKILL to one backend that serves the pool; PostgreSQL throws all others out and recovers.",
        true,
        server::backend_killed,
    ),
    fault(
        "server-killed",
        "SIGKILL to PostgreSQL as a whole; it is started again after a while.",
        true,
        server::server_killed,
    ),
    fault(
        "server-stopped",
        "SIGSTOP to the postmaster and all backends, SIGCONT after a while: connections stay, no process answers.",
        true,
        server::server_stopped,
    ),
    fault(
        "promotion-by-list",
        "The primary is killed and its streaming standby promoted; both are in the list of hosts, with \
         target_session_attrs = read-write.",
        false,
        failover::by_list,
    ),
    fault(
        "promotion-by-name",
        "The same, but the pooler knows one name, whose address changes in the DNS after the promotion.",
        false,
        failover::by_name,
    ),
    fault(
        "descriptors",
        "The limit on descriptors falls to what is open, while 40 more clients come; later it rises again.",
        false,
        process::descriptors,
    ),
    fault(
        "log-full",
        "The disk of the log is full (/dev/full), while clients come and go; later it has room again.",
        true,
        process::log_full,
    ),
    fault("clock-forwards", "The wall clock jumps 40 days ahead.", true, clock::forwards),
    fault("clock-backwards", "The wall clock jumps 40 days back.", true, clock::backwards),
    fault(
        "pooler-stopped",
        "SIGSTOP to the pooler, for longer than query_timeout (1 s); then SIGCONT, and all deadlines have passed at once.",
        true,
        process::stopped,
    ),
    fault(
        "pooler-killed",
        "SIGKILL to the pooler; it is started again once the server has noticed.",
        true,
        process::killed,
    ),
];

/// A server for faults that do not affect it; it logs logins with their times.
fn shared_server() -> Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(server).clone()
}

/// A server for faults that affect it.
fn server() -> Postgres {
    // Acknowledged means flushed, so a write lost after a kill is an error.
    let settings = [("log_connections", "on"), ("log_line_prefix", "%n "), ("synchronous_commit", "on")];
    Postgres::with(100, &settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_fault_with_its_description() {
        let page = include_str!("../../../docs/faults.md");
        for fault in ALL {
            let line = format!("| `{}` | {} |", fault.name, fault.description);
            assert!(page.contains(&line), "docs/faults.md lacks:\n{line}");
        }
        let listed = page.lines().filter(|line| line.starts_with("| `")).filter(|line| line.matches('|').count() == 3);
        assert_eq!(listed.count(), ALL.len(), "docs/faults.md lists an unknown fault");
    }
}
