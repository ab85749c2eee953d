//! What is measured, and what is claimed of it: one entry a line of the table.
//!
//! A budget is a limit for Weir's CPU time a transaction as a multiple of PgBouncer's in the same run. The goal beyond it is
//! what is asked of io_uring.

use crate::find;
use crate::setup::Kind;

/// Clients that PostgreSQL alone has connections for, beside its own and the poolers'.
const MAX_DIRECT: u32 = 200;

/// pgbench's query mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Simple,
    Extended,
    Prepared,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Protocol::Simple => "simple",
            Protocol::Extended => "extended",
            Protocol::Prepared => "prepared",
        }
    }
}

/// What a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// One SELECT (`-S`).
    Select,
    /// Connect, log in, one SELECT, leave (`-S -C`).
    Connect,
    /// TPC-B: seven statements, five of which write.
    TpcB,
}

/// How the bytes travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// TCP on both sides, in the clear.
    Plain,
    /// TLS between client and pooler.
    Tls,
    /// A Unix socket between pooler and PostgreSQL.
    ServerSocket,
}

/// A limit, and the goal beyond it where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    pub(crate) limit: f64,
    pub(crate) goal: Option<f64>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// What `--only` calls it.
    pub(crate) name: String,
    pub(crate) work: Work,
    pub(crate) protocol: Protocol,
    pub(crate) way: Way,
    pub(crate) clients: u32,
    pub(crate) budget: Option<Budget>,
}

impl Case {
    fn new(work: Work, protocol: Protocol, clients: u32, budget: Option<Budget>) -> Case {
        let word = match work {
            Work::Select => protocol.name(),
            Work::Connect => "connect",
            Work::TpcB => "tpcb",
        };
        Case { name: format!("{word}-{clients}"), work, protocol, way: Way::Plain, clients, budget }
    }

    fn by(mut self, way: Way) -> Case {
        let word = match way {
            Way::Plain => return self,
            Way::Tls => "tls",
            Way::ServerSocket => "socket",
        };
        self.name = format!("{}-{word}", self.name);
        self.way = way;
        self
    }

    /// Whether this one can be measured in it. The bare forwarder knows no names of statements, no TLS and no sockets;
    /// PostgreSQL alone has no certificate, and no connections for more than a few hundred.
    pub(crate) fn served_by(&self, kind: Kind) -> bool {
        match kind {
            Kind::Pgbouncer | Kind::Weir => true,
            Kind::Forwarder => self.way == Way::Plain && self.protocol != Protocol::Prepared,
            Kind::Direct => self.way == Way::Plain && self.clients <= MAX_DIRECT,
        }
    }

    /// The protocol that this pooler is measured with: a PgBouncer without prepared statements in transaction mode
    /// stands in with its simple figure.
    pub(crate) fn protocol_for(&self, kind: Kind, pgbouncer_version: &str) -> Protocol {
        let stand_in = self.protocol == Protocol::Prepared && kind == Kind::Pgbouncer;
        if stand_in && !find::has_prepared(pgbouncer_version) { Protocol::Simple } else { self.protocol }
    }

    /// The budget against this PgBouncer: where its *simple* figure stands in for *prepared*, another limit holds.
    pub(crate) fn budget_against(&self, pgbouncer_version: &str) -> Option<Budget> {
        let stands_in = self.protocol == Protocol::Prepared && !find::has_prepared(pgbouncer_version);
        if stands_in { Some(Budget { limit: 0.95, goal: None }) } else { self.budget }
    }

    /// pgbench's arguments for it.
    pub(crate) fn arguments(&self, protocol: Protocol) -> Vec<String> {
        let clients = self.clients.to_string();
        let mut arguments = vec!["-c", &clients, "-M", protocol.name()];
        match self.work {
            Work::Select => arguments.push("-S"),
            Work::Connect => arguments.extend(["-S", "-C"]),
            Work::TpcB => {}
        }
        arguments.into_iter().map(str::to_owned).collect()
    }
}

/// The table; `clients` are the numbers of clients of the simple SELECT.
pub(crate) fn table(clients: &[u32]) -> Vec<Case> {
    let simple = clients.iter().map(|&clients| Case::new(Work::Select, Protocol::Simple, clients, simple(clients)));
    let within = |limit| Some(Budget { limit, goal: None });
    let others = [
        Case::new(Work::Select, Protocol::Prepared, 50, within(0.75)),
        Case::new(Work::Select, Protocol::Extended, 50, None),
        Case::new(Work::Connect, Protocol::Simple, 10, within(0.95)),
        Case::new(Work::TpcB, Protocol::Simple, 50, None),
        Case::new(Work::Select, Protocol::Simple, 50, within(0.75)).by(Way::Tls),
        Case::new(Work::Connect, Protocol::Simple, 10, None).by(Way::Tls),
        Case::new(Work::Select, Protocol::Simple, 50, None).by(Way::ServerSocket),
    ];
    simple.chain(others).collect()
}

fn simple(clients: u32) -> Option<Budget> {
    match clients {
        50 => Some(Budget { limit: 0.82, goal: Some(0.76) }),
        200 => Some(Budget { limit: 0.77, goal: Some(0.70) }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_tell_work_and_clients() {
        let names: Vec<_> = table(&[20, 50, 200]).into_iter().map(|case| case.name).collect();
        let expected = ["simple-20", "simple-50", "simple-200", "prepared-50", "extended-50", "connect-10", "tpcb-50"];
        assert_eq!(names[..7], expected);
        assert_eq!(names[7..], ["simple-50-tls", "connect-10-tls", "simple-50-socket"]);
    }

    #[test]
    fn an_old_pgbouncer_stands_in_with_its_simple_figure() {
        let case = table(&[]).remove(0);
        assert_eq!(case.protocol_for(Kind::Pgbouncer, "1.18.0"), Protocol::Simple);
        assert_eq!(case.protocol_for(Kind::Pgbouncer, "1.25.2"), Protocol::Prepared);
        assert_eq!(case.protocol_for(Kind::Weir, "1.18.0"), Protocol::Prepared);
        assert_eq!(case.budget_against("1.18.0").unwrap().limit, 0.95);
        assert_eq!(case.budget_against("1.25.2").unwrap().limit, 0.75);
    }

    #[test]
    fn pgbench_is_told_what_the_case_says() {
        let cases = table(&[50]);
        assert_eq!(cases[0].arguments(Protocol::Simple), ["-c", "50", "-M", "simple", "-S"]);
        assert_eq!(cases[3].arguments(Protocol::Simple), ["-c", "10", "-M", "simple", "-S", "-C"]);
        assert_eq!(cases[4].arguments(Protocol::Simple), ["-c", "50", "-M", "simple"]);
    }
}
