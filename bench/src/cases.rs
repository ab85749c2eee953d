//! What is measured in rounds: one entry a line of the table.

use crate::budgets::{self, Budget};
use crate::contender::{Kind, Role};
use crate::find;

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

/// Whether a case is in every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// With `--full`, or when it is named.
    Full,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Case {
    /// The name of the case for `--only`.
    pub(crate) name: String,
    pub(crate) work: Work,
    pub(crate) protocol: Protocol,
    pub(crate) way: Way,
    pub(crate) clients: u32,
    pub(crate) when: When,
}

/// What of a case may have a budget: its ratio to PgBouncer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Metric {
    Cpu,
    Tps,
    P50,
    P99,
}

impl Metric {
    pub(crate) const ALL: [Metric; 4] = [Metric::Cpu, Metric::Tps, Metric::P50, Metric::P99];

    /// What the name of a budget has behind the name of its case.
    fn suffix(self) -> &'static str {
        match self {
            Metric::Cpu => "",
            Metric::Tps => "-tps",
            Metric::P50 => "-p50",
            Metric::P99 => "-p99",
        }
    }
}

/// Work, protocol, way, clients, when.
type Entry = (Work, Protocol, Way, u32, When);

const CASES: &[Entry] = {
    use Protocol::{Extended, Prepared, Simple};
    use Way::{Plain, ServerSocket, Tls};
    use When::{Always, Full};
    use Work::{Connect, Select, TpcB};
    &[
        (Select, Simple, Plain, 1, Always),
        (Select, Simple, Plain, 4, Always),
        (Select, Simple, Plain, 20, Always),
        (Select, Simple, Plain, 50, Always),
        (Select, Simple, Plain, 200, Always),
        (Select, Simple, Plain, 1000, Always),
        (Select, Extended, Plain, 1, Full),
        (Select, Extended, Plain, 20, Full),
        (Select, Extended, Plain, 50, Always),
        (Select, Extended, Plain, 200, Full),
        (Select, Extended, Plain, 1000, Full),
        (Select, Prepared, Plain, 1, Full),
        (Select, Prepared, Plain, 20, Full),
        (Select, Prepared, Plain, 50, Always),
        (Select, Prepared, Plain, 200, Full),
        (Select, Prepared, Plain, 1000, Full),
        (Connect, Simple, Plain, 10, Always),
        (Connect, Simple, Plain, 50, Full),
        (TpcB, Simple, Plain, 20, Full),
        (TpcB, Simple, Plain, 50, Always),
        (TpcB, Simple, Plain, 200, Full),
        (TpcB, Prepared, Plain, 50, Full),
        (Select, Simple, Tls, 50, Always),
        (Select, Simple, Tls, 200, Full),
        (Select, Prepared, Tls, 50, Full),
        (Connect, Simple, Tls, 10, Always),
        (Select, Simple, ServerSocket, 50, Always),
        (Select, Simple, ServerSocket, 200, Full),
        (Select, Prepared, ServerSocket, 50, Full),
        (TpcB, Simple, ServerSocket, 50, Full),
    ]
};

/// Words that name several cases at once.
pub(crate) const GROUPS: &[&str] = &["simple", "extended", "prepared", "connect", "tpcb", "tls", "socket"];

/// The table.
pub(crate) fn table() -> Vec<Case> {
    CASES.iter().map(Case::of).collect()
}

impl Case {
    fn of(&(work, protocol, way, clients, when): &Entry) -> Case {
        let word = match (work, protocol) {
            (Work::Select, protocol) => protocol.name(),
            (Work::Connect, _) => "connect",
            (Work::TpcB, Protocol::Prepared) => "tpcb-prepared",
            (Work::TpcB, _) => "tpcb",
        };
        let end = match way {
            Way::Plain => "",
            Way::Tls => "-tls",
            Way::ServerSocket => "-socket",
        };
        Case { name: format!("{word}-{clients}{end}"), work, protocol, way, clients, when }
    }

    /// Whether this word names it: a group's or a case's name, or the beginning of one that is neither.
    pub(crate) fn is_called(&self, word: &str) -> bool {
        if GROUPS.contains(&word) {
            return self.group() == word;
        }
        self.name == word || (!CASES.iter().any(|case| Case::of(case).name == word) && self.name.starts_with(word))
    }

    fn group(&self) -> &'static str {
        match (self.way, self.work) {
            (Way::Tls, _) => "tls",
            (Way::ServerSocket, _) => "socket",
            (Way::Plain, Work::Select) => self.protocol.name(),
            (Way::Plain, Work::Connect) => "connect",
            (Way::Plain, Work::TpcB) => "tpcb",
        }
    }

    pub(crate) fn has_budget(&self) -> bool {
        budgets::find(&self.name).is_some()
    }

    /// Whether Weir without io_uring has a budget of its own.
    pub(crate) fn has_epoll_budget(&self) -> bool {
        budgets::find(&format!("{}-epoll", self.name)).is_some()
    }

    /// The protocol that this pooler is measured with: a PgBouncer without prepared statements in transaction mode
    /// is replaced by its simple figure.
    pub(crate) fn protocol_for(&self, kind: Kind, pgbouncer_version: &str) -> Protocol {
        let replaced = self.protocol == Protocol::Prepared && kind.role() == Role::Base;
        if replaced && !find::has_prepared(pgbouncer_version) { Protocol::Simple } else { self.protocol }
    }

    /// The budget of one in this role, which has io_uring or not, against this PgBouncer: where its *simple* figure
    /// replaces *prepared*, another limit holds, and none for epoll.
    pub(crate) fn budget_of(
        &self,
        metric: Metric,
        role: Role,
        ring: bool,
        pgbouncer_version: &str,
    ) -> Option<&'static Budget> {
        let replaced = self.protocol == Protocol::Prepared && !find::has_prepared(pgbouncer_version);
        let id = format!("{}{}{}", self.name, metric.suffix(), if replaced { "-simple" } else { "" });
        let by_epoll = || budgets::find(&format!("{id}-epoll"));
        match role {
            Role::Ours if ring => budgets::find(&id),
            Role::Ours => by_epoll().or_else(|| budgets::find(&id)),
            Role::Epoll => by_epoll(),
            _ => None,
        }
    }

    /// The share of transactions that pgbench logs. A line of its log costs it as much as a tenth of a short query;
    /// there are enough of them, but not of slow ones.
    pub(crate) fn sampled(&self) -> f64 {
        if self.work == Work::Select && self.clients > 1 { 0.1 } else { 1.0 }
    }

    /// pgbench's arguments for the case.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::Limit;

    fn case(name: &str) -> Case {
        table().into_iter().find(|case| case.name == name).unwrap_or_else(|| panic!("no case {name}"))
    }

    fn called(word: &str) -> Vec<String> {
        table().into_iter().filter(|case| case.is_called(word)).map(|case| case.name).collect()
    }

    #[test]
    fn names_are_unique_and_every_case_is_in_one_group() {
        let names: Vec<_> = table().into_iter().map(|case| case.name).collect();
        for case in table() {
            assert_eq!(names.iter().filter(|name| **name == case.name).count(), 1, "{}", case.name);
            assert_eq!(GROUPS.iter().filter(|group| case.is_called(group)).count(), 1, "{}", case.name);
        }
    }

    #[test]
    fn a_word_names_a_group_or_a_case_or_how_several_begin() {
        assert_eq!(called("simple"), ["simple-1", "simple-4", "simple-20", "simple-50", "simple-200", "simple-1000"]);
        assert_eq!(called("simple-50"), ["simple-50"]);
        assert_eq!(called("simple-5"), ["simple-50", "simple-50-tls", "simple-50-socket"]);
        assert_eq!(called("connect"), ["connect-10", "connect-50"]);
        assert_eq!(called("tls").len(), 4);
        assert_eq!(called("nonsense"), Vec::<String>::new());
    }

    #[test]
    fn all_protocols_are_measured_with_every_number_of_clients() {
        for protocol in ["simple", "extended", "prepared"] {
            for clients in [1, 20, 50, 200, 1000] {
                assert_eq!(case(&format!("{protocol}-{clients}")).clients, clients);
            }
        }
    }

    #[test]
    fn an_old_pgbouncer_stands_in_with_its_simple_figure() {
        let case = case("prepared-50");
        assert_eq!(case.protocol_for(Kind::Pgbouncer, "1.18.0"), Protocol::Simple);
        assert_eq!(case.protocol_for(Kind::Pgbouncer, "1.25.2"), Protocol::Prepared);
        assert_eq!(case.protocol_for(Kind::Weir, "1.18.0"), Protocol::Prepared);
        let budget = |role, version| case.budget_of(Metric::Cpu, role, true, version).map(|budget| budget.limit);
        assert_eq!(budget(Role::Ours, "1.18.0"), Some(Limit::AtMost(0.95)));
        assert_eq!(budget(Role::Ours, "1.25.2"), Some(Limit::AtMost(0.5)));
        assert_eq!((budget(Role::Epoll, "1.18.0"), budget(Role::Epoll, "1.25.2")), (None, Some(Limit::AtMost(0.75))));
    }

    #[test]
    fn few_clients_have_budgets_of_each_metric_by_both_back_ends() {
        for name in ["simple-1", "simple-4", "simple-20"] {
            for metric in Metric::ALL {
                for (role, ring) in [(Role::Ours, true), (Role::Ours, false), (Role::Epoll, true)] {
                    assert!(case(name).budget_of(metric, role, ring, "1.25.2").is_some(), "{name} {metric:?}");
                }
            }
        }
        assert!(case("simple-50").budget_of(Metric::P50, Role::Ours, true, "1.25.2").is_none());
    }

    #[test]
    fn pgbench_gets_the_flags_of_the_case() {
        assert_eq!(case("simple-50").arguments(Protocol::Simple), ["-c", "50", "-M", "simple", "-S"]);
        assert_eq!(case("connect-10-tls").arguments(Protocol::Simple), ["-c", "10", "-M", "simple", "-S", "-C"]);
        assert_eq!(case("tpcb-50").arguments(Protocol::Simple), ["-c", "50", "-M", "simple"]);
        assert_eq!((case("simple-50").sampled(), case("connect-10").sampled()), (0.1, 1.0));
    }

    #[test]
    fn what_a_contender_cannot_do_is_reported() {
        assert!(Kind::Forwarder.refuses(&case("prepared-50")).is_some());
        assert!(Kind::Forwarder.refuses(&case("simple-50")).is_none());
        assert!(Kind::Pgpool.refuses(&case("simple-1000")).unwrap().contains("a server for each client"));
        assert!(table().iter().all(|case| Kind::Weir.refuses(case).is_none()));
    }
}
