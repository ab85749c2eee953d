//! What is measured, and what is claimed of it: one entry a line of the table.
//!
//! A budget is a limit for Weir's CPU time a transaction as a multiple of PgBouncer's in the same run. Beside it stands
//! the least that is possible, where it was measured: what a bare forwarder without any pool logic needs.

use crate::find;
use crate::setup::Kind;

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

/// A limit, and the goal beyond it where there is one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    pub(crate) limit: f64,
    pub(crate) goal: Option<f64>,
    /// The least that is possible on epoll, where it was measured.
    pub(crate) floor: Option<f64>,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// What `--only` calls it.
    pub(crate) name: String,
    pub(crate) work: Work,
    pub(crate) protocol: Protocol,
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
        Case { name: format!("{word}-{clients}"), work, protocol, clients, budget }
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
        if stands_in { Some(Budget { limit: 0.95, goal: None, floor: None }) } else { self.budget }
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
    let connect = Budget { limit: 0.95, goal: None, floor: Some(0.91) };
    let prepared = Budget { limit: 0.75, goal: None, floor: None };
    let others = [
        Case::new(Work::Select, Protocol::Prepared, 50, Some(prepared)),
        Case::new(Work::Select, Protocol::Extended, 50, None),
        Case::new(Work::Connect, Protocol::Simple, 10, Some(connect)),
        Case::new(Work::TpcB, Protocol::Simple, 50, None),
    ];
    simple.chain(others).collect()
}

fn simple(clients: u32) -> Option<Budget> {
    match clients {
        20 => None,
        50 => Some(Budget { limit: 0.95, goal: Some(0.82), floor: Some(0.76) }),
        200 => Some(Budget { limit: 0.77, goal: None, floor: Some(0.71) }),
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
        assert_eq!(names, expected);
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
