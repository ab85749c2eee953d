//! What the rounds say: a table for people, JSON for programs, and which budgets hold.
//!
//! Invariant: a ratio is only shown beside a base of the same run.

use crate::cases::{Budget, Case};
use crate::json::Json;
use crate::pgbench::Run;
use crate::setup::Kind;
use crate::stats::{Ratio, Spread};

/// From this share of the machine's time in strangers' hands on, a run counts as disturbed.
const DISTURBED: f64 = 0.10;
/// From this spread of the ratios within rounds on, the ratio is not to be trusted.
const WIDE: f64 = 0.12;

/// One run of pgbench through one pooler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) run: Run,
    /// CPU time a transaction of the pooler's process, µs; `None` without a pooler.
    pub(crate) user_us: Option<f64>,
    pub(crate) system_us: Option<f64>,
    /// The share of the machine's time that strangers took.
    pub(crate) foreign: Option<f64>,
}

impl Sample {
    fn cpu_us(&self) -> Option<f64> {
        Some(self.user_us? + self.system_us?)
    }
}

/// All runs of one pooler in one case.
#[derive(Clone, Debug)]
struct Runs {
    kind: Kind,
    name: String,
    samples: Vec<Sample>,
}

impl Runs {
    fn cpu(&self) -> Vec<f64> {
        self.samples.iter().filter_map(Sample::cpu_us).collect()
    }

    fn tps(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.run.tps).collect()
    }
}

/// All runs of one case.
#[derive(Clone, Debug)]
pub(crate) struct CaseResult {
    pub(crate) case: Case,
    poolers: Vec<Runs>,
}

impl CaseResult {
    pub(crate) fn new(case: Case, poolers: impl Iterator<Item = (Kind, String)>) -> CaseResult {
        let poolers = poolers.map(|(kind, name)| Runs { kind, name, samples: Vec::new() }).collect();
        CaseResult { case, poolers }
    }

    pub(crate) fn add(&mut self, pooler: usize, sample: Sample) {
        self.poolers[pooler].samples.push(sample);
    }

    /// One line on stderr a round, for who waits.
    pub(crate) fn show_progress(&self, round: usize, of: u32) {
        let last = |runs: &Runs| {
            let cpu = runs.samples.last().and_then(Sample::cpu_us);
            format!("{} {}", runs.kind, cpu.map_or_else(|| "–".to_owned(), |cpu| format!("{cpu:.1} µs")))
        };
        let parts: Vec<_> = self.poolers.iter().map(last).collect();
        eprintln!("  {} round {round} of {of}: {}", self.case.name, parts.join(", "));
    }

    fn base(&self) -> Option<&Runs> {
        self.poolers.iter().find(|runs| runs.kind == Kind::Pgbouncer)
    }

    fn cpu_ratio(&self, runs: &Runs) -> Option<Ratio> {
        Ratio::of(&runs.cpu(), &self.base()?.cpu())
    }

    /// To the bare forwarder's, in the rounds' pairs as well.
    fn limit_ratio(&self, runs: &Runs) -> Option<Ratio> {
        let limit = self.poolers.iter().find(|runs| runs.kind == Kind::Forwarder)?;
        Ratio::of(&runs.cpu(), &limit.cpu())
    }

    fn tps_ratio(&self, runs: &Runs) -> Option<Ratio> {
        Ratio::of(&runs.tps(), &self.base()?.tps())
    }

    fn foreign(&self) -> Option<f64> {
        let all = self.poolers.iter().flat_map(|runs| runs.samples.iter().filter_map(|sample| sample.foreign));
        Spread::of(all).map(|spread| spread.median)
    }

    /// Whether the ratios of the rounds lie so far apart that their median says little.
    fn unsteady(&self) -> bool {
        let weir = self.poolers.iter().filter(|runs| runs.kind == Kind::Weir);
        weir.filter_map(|runs| self.cpu_ratio(runs)).any(|ratio| (ratio.max - ratio.min) / ratio.of_medians > WIDE)
    }
}

/// Whether a budget holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Missed,
    Met,
    GoalMet,
    /// No budget, or nothing to compare to.
    Unjudged,
}

fn judge(ratio: Option<Ratio>, budget: Option<Budget>) -> Verdict {
    let (Some(ratio), Some(budget)) = (ratio, budget) else { return Verdict::Unjudged };
    if ratio.of_medians > budget.limit {
        Verdict::Missed
    } else if budget.goal.is_some_and(|goal| ratio.of_medians <= goal) {
        Verdict::GoalMet
    } else {
        Verdict::Met
    }
}

/// The whole run.
#[derive(Debug)]
pub(crate) struct Report {
    pgbouncer_version: String,
    results: Vec<CaseResult>,
    header_printed: bool,
}

impl Report {
    pub(crate) fn new(pgbouncer_version: String) -> Report {
        Report { pgbouncer_version, results: Vec::new(), header_printed: false }
    }

    /// Takes a case's result and prints its lines.
    pub(crate) fn add(&mut self, result: CaseResult) {
        if !self.header_printed {
            println!("{HEADER}");
            self.header_printed = true;
        }
        for runs in &result.poolers {
            println!("{}", self.line(&result, runs));
        }
        println!();
        self.results.push(result);
    }

    pub(crate) fn budgets_met(&self) -> bool {
        self.verdicts().all(|(_, verdict)| verdict != Verdict::Missed)
    }

    /// What to make of it.
    pub(crate) fn print_verdict(&self) {
        println!(
            "CPU is that of the pooler's process, all threads, user and system, a transaction; medians, and in brackets"
        );
        println!(
            "the least and the most of the rounds. × is the ratio to PgBouncer's, in brackets that within each round;"
        );
        println!("× limit is that to a bare forwarder without a pool's logic, which no pooler on epoll can beat.");
        self.print_stand_in();
        for result in &self.results {
            let name = &result.case.name;
            if let Some(foreign) = result.foreign().filter(|foreign| *foreign > DISTURBED) {
                println!(
                    "NOISY: {name}: other programs took {:.0} % of the machine; read ratios only.",
                    foreign * 100.0
                );
            }
            if result.unsteady() {
                println!(
                    "UNSTEADY: {name}: the ratios of the rounds lie apart; repeat with more --rounds or --seconds."
                );
            }
        }
        let count = |wanted: fn(Verdict) -> bool| self.verdicts().filter(|(_, verdict)| wanted(*verdict)).count();
        let judged = count(|verdict| verdict != Verdict::Unjudged);
        let missed: Vec<_> =
            self.verdicts().filter(|(_, verdict)| *verdict == Verdict::Missed).map(|(name, _)| name).collect();
        match (judged, missed.as_slice()) {
            (0, _) => println!("No budget was judged."),
            (judged, []) => println!("All {judged} budgets met."),
            (judged, missed) => println!("{} of {judged} budgets missed: {}.", missed.len(), missed.join(", ")),
        }
    }

    pub(crate) fn json(&self) -> Json {
        let cases = self.results.iter().map(|result| {
            let poolers = result.poolers.iter().map(|runs| self.runs_json(result, runs)).collect();
            Json::Object(vec![
                ("case", result.case.name.as_str().into()),
                ("clients", u64::from(result.case.clients).into()),
                ("protocol", result.case.protocol.name().into()),
                ("foreign_share", result.foreign().into()),
                ("poolers", poolers),
            ])
        });
        Json::Object(vec![("cases", Json::List(cases.collect())), ("budgets_met", self.budgets_met().into())])
    }

    /// PgBouncer before 1.21 has no prepared statements in transaction mode.
    fn print_stand_in(&self) {
        let stand_in = |result: &&CaseResult| {
            result.base().is_some()
                && result.case.protocol_for(Kind::Pgbouncer, &self.pgbouncer_version) != result.case.protocol
        };
        for result in self.results.iter().filter(stand_in) {
            let version = &self.pgbouncer_version;
            println!(
                "{}: PgBouncer {version} has no prepared statements in transaction mode; beside Weir's prepared figure \
                 stands PgBouncer's simple one.",
                result.case.name
            );
        }
    }

    fn verdicts(&self) -> impl Iterator<Item = (&str, Verdict)> {
        self.results.iter().flat_map(|result| {
            let weir = result.poolers.iter().filter(|runs| runs.kind == Kind::Weir);
            weir.map(|runs| (result.case.name.as_str(), judge(result.cpu_ratio(runs), self.budget(result))))
        })
    }

    fn budget(&self, result: &CaseResult) -> Option<Budget> {
        result.case.budget_against(&self.pgbouncer_version)
    }

    fn line(&self, result: &CaseResult, runs: &Runs) -> String {
        let tps = Spread::of(runs.tps());
        let cpu = Spread::of(runs.cpu());
        let median = |part: fn(&Sample) -> Option<f64>| {
            Spread::of(runs.samples.iter().filter_map(part)).map_or_else(dash, |s| format!("{:.2}", s.median))
        };
        let ratio = result.cpu_ratio(runs).filter(|_| runs.kind != Kind::Pgbouncer);
        format!(
            "{:<16} {:<17} {:>7} {:<15} {:>6} {:>6} {:>6} {:<15} {:>5} {:<12} {:>7} {}",
            result.case.name,
            runs.name,
            tps.map_or_else(dash, |s| format!("{:.0}", s.median)),
            tps.map_or_else(String::new, |s| format!("({:.0}..{:.0})", s.min, s.max)),
            cpu.map_or_else(dash, |s| format!("{:.2}", s.median)),
            median(|sample| sample.user_us),
            median(|sample| sample.system_us),
            cpu.map_or_else(String::new, |s| format!("({:.2}..{:.2})", s.min, s.max)),
            ratio.map_or_else(|| self.base_mark(runs), |r| format!("{:.2}", r.of_medians)),
            ratio.map_or_else(String::new, |r| format!("({:.2}..{:.2})", r.min, r.max)),
            result.limit_ratio(runs).map_or_else(dash, |r| format!("{:.2}", r.of_medians)),
            self.claim(result, runs),
        )
        .trim_end()
        .to_owned()
    }

    fn base_mark(&self, runs: &Runs) -> String {
        if runs.kind == Kind::Pgbouncer { "1".to_owned() } else { dash() }
    }

    /// The budget, and whether it holds, beside Weir's figures.
    fn claim(&self, result: &CaseResult, runs: &Runs) -> String {
        if runs.kind != Kind::Weir {
            return String::new();
        }
        let Some(budget) = self.budget(result) else { return "no budget".to_owned() };
        let verdict = match judge(result.cpu_ratio(runs), Some(budget)) {
            Verdict::Missed => ": MISSED",
            Verdict::Met if budget.goal.is_some() => ": met, the goal is not",
            Verdict::Met => ": met",
            Verdict::GoalMet => ": met, the goal too",
            Verdict::Unjudged => "",
        };
        let goal = budget.goal.map_or_else(String::new, |goal| format!(", goal {goal}"));
        format!("≤ {}{goal}{verdict}", budget.limit)
    }

    fn runs_json(&self, result: &CaseResult, runs: &Runs) -> Json {
        let budget = self.budget(result).filter(|_| runs.kind == Kind::Weir);
        let list = |part: fn(&Sample) -> Option<f64>| -> Json { runs.samples.iter().map(part).collect() };
        let spread = |values: Vec<f64>| {
            let members = |s: Spread| [("median", s.median.into()), ("min", s.min.into()), ("max", s.max.into())];
            Spread::of(values).map_or(Json::Null, |s| Json::Object(members(s).into()))
        };
        let ratio = |ratio: Option<Ratio>| {
            let members = |r: Ratio| [("median", r.of_medians.into()), ("min", r.min.into()), ("max", r.max.into())];
            ratio.map_or(Json::Null, |r| Json::Object(members(r).into()))
        };
        Json::Object(vec![
            ("pooler", runs.name.as_str().into()),
            ("protocol", result.case.protocol_for(runs.kind, &self.pgbouncer_version).name().into()),
            ("tps", spread(runs.tps())),
            ("cpu_us", spread(runs.cpu())),
            ("cpu_ratio", ratio(result.cpu_ratio(runs))),
            ("tps_ratio", ratio(result.tps_ratio(runs))),
            ("limit_ratio", ratio(result.limit_ratio(runs))),
            ("budget", budget.map(|budget| budget.limit).into()),
            ("goal", budget.and_then(|budget| budget.goal).into()),
            ("rounds_tps", list(|sample| Some(sample.run.tps))),
            ("rounds_latency_ms", list(|sample| Some(sample.run.latency_ms))),
            ("rounds_user_us", list(|sample| sample.user_us)),
            ("rounds_system_us", list(|sample| sample.system_us)),
        ])
    }
}

const HEADER: &str = concat!(
    "case             pooler                TPS (min..max)      CPU µs   user system (min..max)           × (rounds)     ",
    "× limit budget of Weir's ×"
);

fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases;

    fn result(base: &[f64], weir: &[f64]) -> CaseResult {
        let case = cases::table(&[50]).remove(0);
        let names = [(Kind::Pgbouncer, "PgBouncer 1.18.0".to_owned()), (Kind::Weir, "Weir 0.1.0".to_owned())];
        let mut result = CaseResult::new(case, names.into_iter());
        for (at, figures) in [base, weir].into_iter().enumerate() {
            for cpu in figures {
                let run = Run { transactions: 1000, failed: 0, tps: 30_000.0, latency_ms: 1.5 };
                let sample = Sample { run, user_us: Some(2.0), system_us: Some(cpu - 2.0), foreign: Some(0.0) };
                result.add(at, sample);
            }
        }
        result
    }

    fn report(base: &[f64], weir: &[f64]) -> Report {
        let mut report = Report::new("1.18.0".to_owned());
        report.results.push(result(base, weir));
        report
    }

    #[test]
    fn a_ratio_below_the_limit_meets_the_budget_and_below_the_goal_that_too() {
        let verdict = |weir: &[f64]| report(&[10.0, 10.0, 10.0], weir).verdicts().next().unwrap().1;
        assert_eq!(verdict(&[8.3, 8.3, 8.3]), Verdict::Missed);
        assert_eq!(verdict(&[8.1, 8.1, 8.1]), Verdict::Met);
        assert_eq!(verdict(&[7.5, 20.0, 7.5]), Verdict::GoalMet);
    }

    #[test]
    fn without_pgbouncer_there_is_no_ratio_and_no_verdict() {
        let mut alone = result(&[], &[9.0]);
        alone.poolers.remove(0);
        let mut report = Report::new("1.25".to_owned());
        report.results.push(alone);
        assert_eq!(report.verdicts().next().unwrap().1, Verdict::Unjudged);
        assert!(report.budgets_met());
        let json = report.json().to_string();
        assert!(json.contains(r#""cpu_ratio": null"#), "{json}");
    }

    #[test]
    fn a_line_shows_medians_spread_ratio_and_verdict() {
        let report = report(&[10.0, 10.0, 12.0], &[7.0, 8.0, 9.0]);
        let line = report.line(&report.results[0], &report.results[0].poolers[1]);
        assert!(line.contains("8.00   2.00   6.00 (7.00..9.00)"), "{line}");
        assert!(line.contains("0.80 (0.70..0.80)"), "{line}");
        assert!(line.ends_with("≤ 0.82, goal 0.76: met, the goal is not"), "{line}");
    }

    #[test]
    fn rounds_that_disagree_are_unsteady() {
        assert!(result(&[10.0, 10.0], &[8.0, 10.0]).unsteady());
        assert!(!result(&[10.0, 20.0], &[8.0, 16.0]).unsteady());
    }
}
