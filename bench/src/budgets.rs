//! The budgets: one entry each, with its limit and the command that measures it; and whether it holds.
//!
//! Invariant: a limit is here and nowhere else. bench/MEASURED.md has a line for each; a test compares them.

use serde_json::{Value, json};

use crate::out::{Out, print_line};

/// A limit for Weir.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Budget {
    /// The group's name for it in its output.
    pub(crate) id: &'static str,
    /// What is limited, in which unit.
    pub(crate) what: &'static str,
    pub(crate) limit: Limit,
    /// The group or the test that measures the budget.
    pub(crate) command: Measured,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// How a budget is checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Measured {
    /// A group of this program, with these arguments.
    By(&'static str),
    /// A test, which fails when the budget is missed.
    Test(&'static str),
}

use Limit::{AtLeast, AtMost};
use Measured::{By, Test};

const fn at_most(id: &'static str, what: &'static str, limit: f64, command: &'static str) -> Budget {
    Budget { id, what, limit: AtMost(limit), command: By(command) }
}

/// A budget of Weir by io_uring, and the same of Weir by epoll, whose name ends in `-epoll`.
macro_rules! both {
    ($limit:ident($ring:literal, $epoll:literal), $id:literal, $what:literal, $command:literal) => {
        [
            Budget { id: $id, what: concat!($what, ", × PgBouncer"), limit: $limit($ring), command: By($command) },
            Budget {
                id: concat!($id, "-epoll"),
                what: concat!($what, ", × PgBouncer, epoll"),
                limit: $limit($epoll),
                command: By($command),
            },
        ]
    };
}

/// Ratios to PgBouncer's figures of the same run, 1.21 or later.
static OF_BOTH: &[[Budget; 2]] = &[
    both!(AtMost(0.9, 0.9), "simple-1", "CPU, simple, 1 client", "rounds --only simple-1"),
    both!(AtLeast(1.05, 1.05), "simple-1-tps", "TPS, simple, 1 client", "rounds --only simple-1"),
    both!(AtMost(1.0, 1.0), "simple-1-p50", "p50, simple, 1 client", "rounds --only simple-1"),
    both!(AtMost(1.0, 1.0), "simple-1-p99", "p99, simple, 1 client", "rounds --only simple-1"),
    both!(AtMost(0.9, 0.9), "simple-4", "CPU, simple, 4 clients", "rounds --only simple-4"),
    both!(AtLeast(1.0, 1.0), "simple-4-tps", "TPS, simple, 4 clients", "rounds --only simple-4"),
    both!(AtMost(1.0, 1.0), "simple-4-p50", "p50, simple, 4 clients", "rounds --only simple-4"),
    both!(AtMost(1.0, 1.0), "simple-4-p99", "p99, simple, 4 clients", "rounds --only simple-4"),
    both!(AtMost(0.9, 0.9), "simple-20", "CPU, simple, 20 clients", "rounds --only simple-20"),
    both!(AtLeast(1.0, 1.0), "simple-20-tps", "TPS, simple, 20 clients", "rounds --only simple-20"),
    both!(AtMost(1.0, 1.0), "simple-20-p50", "p50, simple, 20 clients", "rounds --only simple-20"),
    both!(AtMost(1.0, 1.0), "simple-20-p99", "p99, simple, 20 clients", "rounds --only simple-20"),
    both!(AtMost(0.7, 0.85), "simple-50", "CPU, simple, 50 clients", "rounds --only simple-50"),
    both!(AtLeast(1.05, 1.05), "simple-50-tps", "TPS, simple, 50 clients", "rounds --only simple-50"),
    both!(AtMost(0.65, 0.78), "simple-200", "CPU, simple, 200 clients", "rounds --only simple-200"),
    both!(AtLeast(1.05, 1.05), "simple-200-tps", "TPS, simple, 200 clients", "rounds --only simple-200"),
    both!(AtMost(0.5, 0.75), "prepared-50", "CPU, prepared, 50 clients", "rounds --only prepared-50"),
    both!(AtMost(0.7, 0.85), "extended-50", "CPU, extended, 50 clients", "rounds --only extended-50"),
    both!(AtMost(0.95, 0.95), "connect-10", "CPU, -C: login and query", "rounds --only connect-10"),
    both!(AtLeast(1.0, 1.0), "connect-10-tps", "TPS, -C: login and query", "rounds --only connect-10"),
    both!(AtMost(0.78, 0.88), "tpcb-50", "CPU, TPC-B, 50 clients", "rounds --only tpcb-50"),
    both!(AtLeast(1.0, 1.0), "tpcb-50-tps", "TPS, TPC-B, 50 clients", "rounds --only tpcb-50"),
    both!(AtMost(0.8, 0.8), "tail-p50", "p50, 1,000 clients on 20", "tail"),
    both!(AtMost(0.85, 0.85), "tail-p99", "p99, 1,000 clients on 20", "tail"),
    both!(AtMost(1.0, 1.0), "open-p99", "p99, 40 clients at 4,000/s", "open --few"),
];

static OTHERS: &[Budget] = &[
    at_most("own", "own code, simple query, ns", 700.0, "own"),
    at_most("prepared-50-simple", "CPU, prepared, × simple of PgBouncer < 1.21", 0.95, "rounds --only prepared-50"),
    at_most("simple-50-tls", "CPU, TLS, simple, 50 clients, × PgBouncer", 0.75, "rounds --only simple-50-tls"),
    at_most("connect-10-tls", "CPU, a TLS login and query, × PgBouncer", 1.0, "rounds --only connect-10-tls"),
    at_most("socket-calls", "reads and writes of sockets a transaction", 4.05, "syscalls"),
    Budget {
        id: "allocations",
        what: "heap allocations on the relay path",
        limit: AtMost(0.0),
        command: Test("cargo test -p weir-engine -p weir-runtime --test allocations"),
    },
    at_most("idle-bytes", "memory of an idle client, B", 640.0, "idle"),
    at_most("idle-flat", "the same at the most clients, × at 5,000", 1.1, "idle"),
    at_most("idle-active", "p99 of 100 among 10,000 idle, × alone", 2.0, "idle"),
    at_most("noisy", "p99 beside the worst noisy client, × alone, × direct", 2.0, "noisy"),
    at_most("bulk-plain", "CPU of rows and COPY, × PgBouncer", 0.65, "bulk"),
    at_most("bulk-tls", "the same under TLS, × PgBouncer", 0.65, "bulk"),
    at_most("tail", "p99 / p50, 1,000 clients on a pool of 20", 1.2, "tail"),
    at_most("burst", "of 5,000 logins at once, refused", 0.0, "burst"),
    at_most("auto-simple", "CPU, auto, simple, 50 clients, × transaction", 1.05, "auto"),
    at_most("auto-extended", "CPU, auto, extended, 50 clients, × transaction", 1.05, "auto"),
    at_most("auto-prepared", "CPU, auto, prepared, 50 clients, × transaction", 1.05, "auto"),
    at_most("auto-tpcb", "CPU, auto, TPC-B, 50 clients, × transaction", 1.05, "auto"),
    at_most("workers-cpu", "CPU, 2 workers on one pool, × 1 worker", 1.1, "workers"),
    Budget {
        id: "workers-tps",
        what: "TPS, 2 workers on one pool, × 1 worker",
        limit: AtLeast(1.8),
        command: By("workers"),
    },
];

/// All budgets.
pub(crate) fn all() -> impl Iterator<Item = &'static Budget> {
    OF_BOTH.as_flattened().iter().chain(OTHERS)
}

/// The budget of this name, if there is one.
pub(crate) fn find(id: &str) -> Option<&'static Budget> {
    all().find(|budget| budget.id == id)
}

/// The budget of this name.
pub(crate) fn budget(id: &str) -> &'static Budget {
    find(id).unwrap_or_else(|| panic!("{id} is no budget"))
}

/// Whether a budget holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Missed,
    Held,
}

impl Budget {
    pub(crate) fn judge(&self, figure: f64) -> Verdict {
        match self.limit {
            AtMost(limit) if figure > limit => Verdict::Missed,
            AtLeast(limit) if figure < limit => Verdict::Missed,
            _ => Verdict::Held,
        }
    }

    /// `≤ 0.76`.
    pub(crate) fn limit(&self) -> String {
        match self.limit {
            AtMost(limit) => format!("≤ {limit}"),
            AtLeast(limit) => format!("≥ {limit}"),
        }
    }

    /// `≤ 0.76: held`.
    pub(crate) fn verdict(&self, figure: f64) -> String {
        let verdict = match self.judge(figure) {
            Verdict::Missed => "MISSED",
            Verdict::Held => "held",
        };
        format!("{}: {verdict}", self.limit())
    }
}

/// A group's finding about a budget.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Finding {
    pub(crate) id: &'static str,
    /// The figure, or why there is none.
    pub(crate) figure: Result<f64, String>,
    /// The least and the most of it in single rounds, where it has rounds.
    pub(crate) spread: Option<(f64, f64)>,
}

impl Finding {
    pub(crate) fn new(id: &'static str, figure: f64) -> Finding {
        Finding { id, figure: Ok(figure), spread: None }
    }

    /// The finding with its spread over the rounds.
    pub(crate) fn within(self, min: f64, max: f64) -> Finding {
        Finding { spread: Some((min, max)), ..self }
    }

    /// The finding that a budget could not be measured, and why.
    pub(crate) fn none(id: &'static str, why: impl Into<String>) -> Finding {
        Finding { id, figure: Err(why.into()), spread: None }
    }

    fn missed(&self) -> bool {
        self.figure.as_ref().is_ok_and(|figure| budget(self.id).judge(*figure) == Verdict::Missed)
    }
}

/// All findings of a group: about budgets, and its figures for programs.
#[derive(Clone, Debug)]
pub(crate) struct Findings {
    pub(crate) budgets: Vec<Finding>,
    pub(crate) json: Value,
}

impl Findings {
    pub(crate) fn missed(&self) -> bool {
        self.budgets.iter().any(Finding::missed)
    }
}

/// Prints a line for each budget there is.
pub(crate) fn print_table(out: &mut Out, findings: &[Finding]) {
    print_line!(out, "{:<46} {:<8} {:<22} {:<8} command", "budget", "asked", "figure", "");
    for budget in all() {
        let found = findings.iter().find(|finding| finding.id == budget.id);
        let (figure, verdict) = line(budget, found);
        let command = match budget.command {
            By(arguments) => format!("make bench ARGS='{arguments}'"),
            Test(command) => command.to_owned(),
        };
        print_line!(out, "{:<46} {:<8} {figure:<22} {verdict:<8} {command}", budget.what, budget.limit());
    }
    for finding in findings {
        if let Err(why) = &finding.figure {
            print_line!(out, "{}: {why}", budget(finding.id).what);
        }
    }
    let judged = findings.iter().filter(|finding| finding.figure.is_ok()).count();
    let missed = findings.iter().filter(|finding| finding.missed()).count();
    print_line!(out, "{judged} budgets were measured; {} held, {missed} missed.", judged - missed);
}

fn line(budget: &Budget, found: Option<&Finding>) -> (String, &'static str) {
    let Some(Finding { figure: Ok(figure), spread, .. }) = found else {
        let by_test = matches!(budget.command, Test(_));
        return ("–".to_owned(), if by_test { "a test" } else { "open" });
    };
    let spread = spread.map_or_else(String::new, |(min, max)| format!(" ({}..{})", short(min), short(max)));
    let verdict = if budget.judge(*figure) == Verdict::Missed { "MISSED" } else { "held" };
    (format!("{}{spread}", short(*figure)), verdict)
}

/// A ratio with two places, a count or nanoseconds with none.
fn short(figure: f64) -> String {
    if figure.abs() >= 100.0 || figure == 0.0 { format!("{figure:.0}") } else { format!("{figure:.2}") }
}

/// `what: 0.85 (0.80..0.90): ≤ 0.76: MISSED`, or why there is no figure.
pub(crate) fn print_findings(out: &mut Out, findings: &[Finding]) {
    for finding in findings {
        let budget = budget(finding.id);
        match &finding.figure {
            Ok(figure) => {
                print_line!(out, "{}: {}: {}", budget.what, line(budget, Some(finding)).0, budget.verdict(*figure))
            }
            Err(why) => print_line!(out, "{}: {why}", budget.what),
        }
    }
}

pub(crate) fn json(findings: &[Finding]) -> Value {
    let one = |finding: &Finding| {
        let figure = finding.figure.as_ref().ok().copied();
        json!({
            "budget": finding.id,
            "figure": figure,
            "held": figure.map(|_| !finding.missed()),
            "why_not": finding.figure.as_ref().err().map(String::as_str),
        })
    };
    Value::Array(findings.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_on_the_right_side_of_its_limit_holds() {
        let simple = budget("simple-50");
        assert_eq!((simple.judge(0.7), simple.judge(0.71)), (Verdict::Held, Verdict::Missed));
        assert_eq!([simple.verdict(0.65), simple.verdict(0.80)], ["≤ 0.7: held", "≤ 0.7: MISSED"]);
        assert_eq!(budget("workers-tps").judge(1.7), Verdict::Missed);
        assert_eq!(budget("workers-tps").verdict(1.9), "≥ 1.8: held");
    }

    #[test]
    fn names_are_unique() {
        for one in all() {
            assert_eq!(all().filter(|other| other.id == one.id).count(), 1, "{}", one.id);
        }
    }

    #[test]
    fn the_table_has_a_line_for_each_budget_and_says_what_is_open() {
        let mut out = Out::silent();
        let findings = [
            Finding::new("simple-50", 0.9).within(0.85, 0.95),
            Finding::new("tail", 1.1),
            Finding::none("burst", "no client came"),
        ];
        print_table(&mut out, &findings);
        let text = out.text();
        let line = |start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
        assert!(line("CPU, simple, 50").contains("0.90 (0.85..0.95)") && line("CPU, simple, 50").contains("MISSED"));
        assert!(line("p99 / p50").contains("held"));
        assert!(line("of 5,000 logins").contains("open") && text.contains("refused: no client came"), "{text}");
        assert!(line("heap").contains("a test"));
        assert!(text.ends_with("2 budgets were measured; 1 held, 1 missed.\n"), "{text}");
        assert!(all().all(|budget| text.contains(budget.what)), "{text}");
    }

    #[test]
    fn the_measured_rows_have_a_line_for_each_budget() {
        let page = include_str!("../MEASURED.md");
        let missing: Vec<_> = all().filter(|budget| !page.contains(budget.what)).map(|b| b.id).collect();
        assert!(missing.is_empty(), "bench/MEASURED.md lacks {missing:?}: `make bench ARGS='all --page'` writes it");
    }
}
