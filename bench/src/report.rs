//! The results of the rounds: tables for people, JSON for programs, and the findings about budgets.
//!
//! Invariant: a ratio is only shown beside a base of the same run.

use serde_json::{Value, json};

use crate::budgets::{Budget, Finding, print_findings};
use crate::cases::{Case, Metric};
use crate::contender::{Kind, Role};
use crate::error::Error;
use crate::latency::Quantiles;
use crate::out::{Out, print_line};
use crate::pgbench::Run;
use crate::stats::{Ratio, Spread};

/// From this share of the machine's time that other programs take, a run counts as disturbed.
const DISTURBED: f64 = 0.10;
/// From this spread of the ratios within rounds on, the ratio is not to be trusted.
const WIDE: f64 = 0.12;

/// One run of pgbench through one pooler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) run: Run,
    /// With `-C` of whole visits, else of transactions.
    pub(crate) latency: Option<Quantiles>,
    /// The pooler's memory after the run, in bytes.
    pub(crate) memory: Option<u64>,
    /// CPU time a transaction of the pooler's process, µs; `None` without a pooler.
    pub(crate) user_us: Option<f64>,
    pub(crate) system_us: Option<f64>,
    /// The share of the machine's time that other programs took.
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
    /// Why the pooler can't do this case.
    failure: Option<String>,
}

impl Runs {
    fn cpu(&self) -> Vec<f64> {
        self.samples.iter().filter_map(Sample::cpu_us).collect()
    }

    fn tps(&self) -> Vec<f64> {
        self.samples.iter().map(|sample| sample.run.tps).collect()
    }

    fn latencies(&self, part: fn(&Quantiles) -> f64) -> Vec<f64> {
        self.samples.iter().filter_map(|sample| sample.latency.as_ref().map(part)).collect()
    }

    fn latency(&self, part: fn(&Quantiles) -> f64) -> Option<Spread> {
        Spread::of(self.latencies(part))
    }

    fn megabytes(&self) -> Option<Spread> {
        #[allow(clippy::cast_precision_loss)]
        Spread::of(self.samples.iter().filter_map(|sample| Some(sample.memory? as f64 / 1e6)))
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
        let poolers = poolers.map(|(kind, name)| Runs { kind, name, samples: Vec::new(), failure: None }).collect();
        CaseResult { case, poolers }
    }

    pub(crate) fn add(&mut self, pooler: usize, sample: Sample) {
        self.poolers[pooler].samples.push(sample);
    }

    /// The pooler can't do this case: its figures so far are dropped, and it is not measured again.
    pub(crate) fn fail(&mut self, pooler: usize, error: &Error) {
        let runs = &mut self.poolers[pooler];
        runs.samples.clear();
        runs.failure = Some(gist(&error.to_string()));
    }

    pub(crate) fn failed(&self, pooler: usize) -> bool {
        self.poolers[pooler].failure.is_some()
    }

    /// One line on stderr per round, as progress.
    pub(crate) fn show_progress(&self, round: usize, of: u32) {
        let last = |runs: &Runs| {
            let cpu = runs.samples.last().and_then(Sample::cpu_us);
            format!("{} {}", runs.kind, cpu.map_or_else(|| "–".to_owned(), |cpu| format!("{cpu:.1} µs")))
        };
        let parts: Vec<_> = self.poolers.iter().map(last).collect();
        eprintln!("  {} round {round} of {of}: {}", self.case.name, parts.join(", "));
    }

    fn base(&self) -> Option<&Runs> {
        self.poolers.iter().find(|runs| runs.kind.role() == Role::Base)
    }

    fn ours(&self) -> impl Iterator<Item = &Runs> {
        self.poolers.iter().filter(|runs| runs.kind.role() == Role::Ours)
    }

    /// Why one has no ratio: it has failed, or there is none to compare with, or that one has failed.
    fn why_no_ratio(&self, runs: &Runs) -> String {
        let failure = |runs: &Runs| runs.failure.as_ref().map(|why| format!("{}: {why}", runs.name));
        let base = || self.base().map_or(Some("PgBouncer is not here to compare with".to_owned()), failure);
        failure(runs).or_else(base).unwrap_or_else(|| "there are no figures".to_owned())
    }

    fn cpu_ratio(&self, runs: &Runs) -> Option<Ratio> {
        Ratio::of(&runs.cpu(), &self.base()?.cpu())
    }

    /// To the first limit's, in the rounds' pairs as well.
    fn limit_ratio(&self, runs: &Runs) -> Option<Ratio> {
        let limit = self.poolers.iter().find(|runs| runs.kind.role() == Role::Limit)?;
        Ratio::of(&runs.cpu(), &limit.cpu())
    }

    fn ratio(&self, metric: Metric, runs: &Runs) -> Option<Ratio> {
        let latency = |part: fn(&Quantiles) -> f64| Ratio::of(&runs.latencies(part), &self.base()?.latencies(part));
        match metric {
            Metric::Cpu => self.cpu_ratio(runs),
            Metric::Tps => self.tps_ratio(runs),
            Metric::P50 => latency(|quantiles| quantiles.p50),
            Metric::P99 => latency(|quantiles| quantiles.p99),
        }
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
        self.ours()
            .filter_map(|runs| self.cpu_ratio(runs))
            .any(|ratio| (ratio.max - ratio.min) / ratio.of_medians > WIDE)
    }
}

/// The whole run.
#[derive(Debug)]
pub(crate) struct Report {
    pgbouncer_version: String,
    /// Whether Weir has io_uring here.
    ring: bool,
    results: Vec<CaseResult>,
    header_printed: bool,
}

impl Report {
    pub(crate) fn new(pgbouncer_version: String, ring: bool) -> Report {
        Report { pgbouncer_version, ring, results: Vec::new(), header_printed: false }
    }

    /// Takes a case's result and prints its lines.
    pub(crate) fn add(&mut self, result: CaseResult, out: &mut Out) {
        if !self.header_printed {
            print_line!(out, "{HEADER}");
            self.header_printed = true;
        }
        for runs in &result.poolers {
            print_line!(out, "{}", self.line(&result, runs));
        }
        print_line!(out);
        self.results.push(result);
    }

    /// Latency and memory, and what to make of all that.
    pub(crate) fn print_end(&self, out: &mut Out) {
        print_line!(out, "{ABOUT_CPU}");
        self.print_replaced(out);
        print_line!(out, "\n{LATENCY_HEADER}");
        for result in &self.results {
            for runs in result.poolers.iter().filter(|runs| runs.failure.is_none()) {
                print_line!(out, "{}", latency_line(&result.case.name, runs));
            }
            print_line!(out);
        }
        print_line!(out, "{ABOUT_LATENCY}\n");
        for metric in [Metric::Tps, Metric::P50, Metric::P99] {
            print_findings(out, &self.findings_of(metric));
        }
        for result in &self.results {
            let name = &result.case.name;
            if let Some(foreign) = result.foreign().filter(|foreign| *foreign > DISTURBED) {
                let percent = foreign * 100.0;
                print_line!(out, "NOISY: {name}: other programs took {percent:.0} % of the machine; read ratios only.");
            }
            if result.unsteady() {
                print_line!(
                    out,
                    "UNSTEADY: {name}: the ratios of the rounds lie apart; repeat with more --rounds or --seconds."
                );
            }
        }
    }

    /// What was found about the budgets of the cases.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        Metric::ALL.into_iter().flat_map(|metric| self.findings_of(metric)).collect()
    }

    fn findings_of(&self, metric: Metric) -> Vec<Finding> {
        let of_one = |result: &CaseResult, runs: &Runs| {
            let budget = self.budget(metric, result, runs)?;
            Some(match result.ratio(metric, runs) {
                Some(ratio) => Finding::new(budget.id, ratio.of_medians).within(ratio.min, ratio.max),
                None => Finding::none(budget.id, result.why_no_ratio(runs)),
            })
        };
        let of_case = |result: &CaseResult| result.poolers.iter().filter_map(|runs| of_one(result, runs)).collect();
        self.results.iter().flat_map::<Vec<Finding>, _>(of_case).collect()
    }

    /// `Weir 0.1.0, simple-50: why`, of those with this role.
    pub(crate) fn failures_of(&self, role: Role) -> Vec<String> {
        let of_case = |result: &CaseResult| {
            let failed = |runs: &Runs| Some(format!("{}, {}: {}", runs.name, result.case.name, runs.failure.as_ref()?));
            result.poolers.iter().filter(|runs| runs.kind.role() == role).filter_map(failed).collect::<Vec<_>>()
        };
        self.results.iter().flat_map(of_case).collect()
    }

    pub(crate) fn json(&self) -> Value {
        let cases = self.results.iter().map(|result| {
            let poolers: Vec<_> = result.poolers.iter().map(|runs| self.runs_json(result, runs)).collect();
            json!({
                "case": result.case.name.as_str(),
                "clients": u64::from(result.case.clients),
                "protocol": result.case.protocol.name(),
                "foreign_share": result.foreign(),
                "poolers": poolers,
            })
        });
        json!({ "cases": Value::Array(cases.collect()) })
    }

    /// PgBouncer before 1.21 has no prepared statements in transaction mode.
    fn print_replaced(&self, out: &mut Out) {
        let replaced = |result: &&CaseResult| {
            result.base().is_some_and(|base| {
                result.case.protocol_for(base.kind, &self.pgbouncer_version) != result.case.protocol
            })
        };
        for result in self.results.iter().filter(replaced) {
            let (name, version) = (&result.case.name, &self.pgbouncer_version);
            print_line!(
                out,
                "{name}: PgBouncer {version} has no prepared statements in transaction mode; beside the others' figure"
            );
            print_line!(out, "is its simple one.");
        }
    }

    fn budget(&self, metric: Metric, result: &CaseResult, runs: &Runs) -> Option<&'static Budget> {
        result.case.budget_of(metric, runs.kind.role(), self.ring, &self.pgbouncer_version)
    }

    fn line(&self, result: &CaseResult, runs: &Runs) -> String {
        if let Some(failure) = &runs.failure {
            return format!("{:<16} {:<20} – {failure}", result.case.name, runs.name);
        }
        let tps = Spread::of(runs.tps());
        let cpu = Spread::of(runs.cpu());
        let median = |part: fn(&Sample) -> Option<f64>| {
            Spread::of(runs.samples.iter().filter_map(part)).map_or_else(dash, |s| format!("{:.2}", s.median))
        };
        let ratio = result.cpu_ratio(runs).filter(|_| runs.kind.role() != Role::Base);
        format!(
            "{:<16} {:<20} {:>7} {:<15} {:>6} {:>6} {:>6} {:<15} {:>5} {:<12} {:>7} {}",
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
        if runs.kind.role() == Role::Base { "1".to_owned() } else { dash() }
    }

    /// The budget, and whether it holds, beside Weir's figures.
    fn claim(&self, result: &CaseResult, runs: &Runs) -> String {
        let ratio = result.cpu_ratio(runs).map(|ratio| ratio.of_medians);
        match (runs.kind.role(), self.budget(Metric::Cpu, result, runs)) {
            (_, Some(budget)) => ratio.map_or_else(|| budget.limit(), |ratio| budget.verdict(ratio)),
            (Role::Ours, None) => "no budget".to_owned(),
            _ => String::new(),
        }
    }

    fn runs_json(&self, result: &CaseResult, runs: &Runs) -> Value {
        let list = |part: fn(&Sample) -> Option<f64>| -> Value { runs.samples.iter().map(part).collect() };
        let spread = |spread: Option<Spread>| spread.map(|s| json!({ "median": s.median, "min": s.min, "max": s.max }));
        let ratio = |ratio: Option<Ratio>| ratio.map(|r| json!({ "median": r.of_medians, "min": r.min, "max": r.max }));
        json!({
            "pooler": runs.name.as_str(),
            "protocol": result.case.protocol_for(runs.kind, &self.pgbouncer_version).name(),
            "failure": runs.failure.as_deref(),
            "tps": spread(Spread::of(runs.tps())),
            "cpu_us": spread(Spread::of(runs.cpu())),
            "p50_ms": spread(runs.latency(|q| q.p50)),
            "p99_ms": spread(runs.latency(|q| q.p99)),
            "p999_ms": spread(runs.latency(|q| q.p999)),
            "memory_mb": spread(runs.megabytes()),
            "cpu_ratio": ratio(result.cpu_ratio(runs)),
            "tps_ratio": ratio(result.tps_ratio(runs)),
            "limit_ratio": ratio(result.limit_ratio(runs)),
            "rounds_tps": list(|sample| Some(sample.run.tps)),
            "rounds_latency_ms": list(|sample| Some(sample.run.latency_ms)),
            "rounds_user_us": list(|sample| sample.user_us),
            "rounds_system_us": list(|sample| sample.system_us),
        })
    }
}

/// One line: latencies, each with the least and the most of the rounds, and memory.
fn latency_line(case: &str, runs: &Runs) -> String {
    let parts: [fn(&Quantiles) -> f64; 3] = [|q| q.p50, |q| q.p99, |q| q.p999];
    let figures = parts.map(|part| {
        let formatted = |s: Spread| format!("{:>8.2} ({:.2}..{:.2})", s.median, s.min, s.max);
        runs.latency(part).map_or_else(|| format!("{:>8}", dash()), formatted)
    });
    let memory = runs.megabytes().map_or_else(dash, |s| format!("{:.1}", s.median));
    format!("{case:<16} {:<20} {:<26} {:<26} {:<26} {memory:>9}", runs.name, figures[0], figures[1], figures[2])
}

/// The part of an error for a row: its first line, or the message of PostgreSQL or the pooler in it.
fn gist(text: &str) -> String {
    let said = |line: &&str| ["ERROR:", "FATAL:", "failed:"].iter().any(|mark| line.contains(mark));
    let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let line = lines.iter().find(|line| line.contains("ERROR:") || line.contains("FATAL:"));
    let line = line.or_else(|| lines.iter().rfind(|line| said(line))).or_else(|| lines.first());
    line.map_or_else(String::new, |line| line.chars().take(110).collect())
}

const HEADER: &str = concat!(
    "case             pooler                   TPS (min..max)      CPU µs   user system (min..max)           × (rounds)     ",
    "× limit budget of Weir's ×"
);

const ABOUT_CPU: &str = "\
CPU is that of the pooler's process, all threads and children, user and system, a transaction; medians, and in brackets
the least and the most of the rounds. × is the ratio to PgBouncer's, in brackets that within each round; × limit is
that to a bare forwarder without a pool's logic, which no pooler on epoll can beat. Pgpool-II has a process and a
server for each client (200 children), the others one thread and a pool.";

const LATENCY_HEADER: &str = concat!(
    "case             pooler                 p50 ms (min..max)          p99 ms (min..max)        p99.9 ms (min..max)         ",
    "memory MB"
);

const ABOUT_LATENCY: &str = "\
Latencies are pgbench's own, from its log of every tenth transaction (of each, where they are slow or few); of connect
from one end to the next, so with the login. Memory is what is resident, of several processes their fair shares.";

fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budgets::Verdict;
    use crate::cases;

    fn result(base: &[f64], weir: &[f64]) -> CaseResult {
        let case = cases::table().into_iter().find(|case| case.name == "simple-50").unwrap();
        let names = [(Kind::Pgbouncer, "PgBouncer 1.18.0".to_owned()), (Kind::Weir, "Weir 0.1.0".to_owned())];
        let mut result = CaseResult::new(case, names.into_iter());
        for (at, figures) in [base, weir].into_iter().enumerate() {
            for cpu in figures {
                let run = Run { transactions: 1000, failed: 0, tps: 30_000.0, latency_ms: 1.5 };
                let latency = Some(Quantiles { p50: *cpu / 10.0, p99: 2.0, p999: 3.0, max: 4.0 });
                let (user_us, system_us) = (Some(2.0), Some(cpu - 2.0));
                let sample = Sample { run, latency, memory: Some(3_250_000), user_us, system_us, foreign: Some(0.0) };
                result.add(at, sample);
            }
        }
        result
    }

    fn report(base: &[f64], weir: &[f64]) -> Report {
        let mut report = Report::new("1.18.0".to_owned(), true);
        report.results.push(result(base, weir));
        report
    }

    #[test]
    fn a_ratio_of_medians_is_judged_and_its_spread_shown() {
        let found = |weir: &[f64]| report(&[10.0, 10.0, 10.0], weir).findings_of(Metric::Cpu).remove(0);
        let finding = found(&[8.3, 8.3, 8.4]);
        let (min, max) = finding.spread.unwrap();
        assert!(finding.id == "simple-50" && (min - 0.83).abs() < 1e-9 && (max - 0.84).abs() < 1e-9, "{finding:?}");
        let budget = crate::budgets::budget("simple-50");
        assert_eq!(budget.judge(finding.figure.unwrap()), Verdict::Missed);
        assert_eq!(budget.judge(found(&[6.5, 20.0, 6.5]).figure.unwrap()), Verdict::Held);
    }

    #[test]
    fn without_pgbouncer_there_is_no_ratio_and_no_verdict() {
        let mut alone = result(&[], &[9.0]);
        alone.poolers.remove(0);
        let mut report = Report::new("1.25".to_owned(), true);
        report.results.push(alone);
        assert_eq!(report.findings()[0].figure, Err("PgBouncer is not here to compare with".to_owned()));
        let json = report.json();
        assert_eq!(json["cases"][0]["poolers"][0].get("cpu_ratio"), Some(&Value::Null), "{json}");
    }

    #[test]
    fn a_line_shows_medians_spread_ratio_and_verdict() {
        let report = report(&[10.0, 10.0, 12.0], &[7.0, 8.0, 9.0]);
        let line = report.line(&report.results[0], &report.results[0].poolers[1]);
        assert!(line.contains("8.00   2.00   6.00 (7.00..9.00)"), "{line}");
        assert!(line.contains("0.80 (0.70..0.80)"), "{line}");
        assert!(line.ends_with("≤ 0.7: MISSED"), "{line}");
        let line = latency_line("simple-50", &report.results[0].poolers[1]);
        assert!(line.contains("0.80 (0.70..0.90)") && line.contains("3.00 (3.00..3.00)"), "{line}");
        assert!(line.ends_with(" 3.2"), "{line}");
    }

    #[test]
    fn a_failure_has_its_reason_in_its_row_and_no_figures() {
        let mut report = report(&[10.0], &[8.0]);
        let error =
            Error::new("pgbench failed (exit status: 1):\npgbench: error: client 3 aborted: ERROR:  no such\nx");
        report.results[0].fail(0, &error);
        assert!(report.results[0].failed(0) && !report.results[0].failed(1));
        let line = report.line(&report.results[0], &report.results[0].poolers[0]);
        assert!(line.ends_with("– pgbench: error: client 3 aborted: ERROR:  no such"), "{line}");
        assert!(report.failures_of(Role::Ours).is_empty());
        report.results[0].fail(1, &Error::new("it hangs"));
        assert_eq!(report.failures_of(Role::Ours), ["Weir 0.1.0, simple-50: it hangs"]);
        assert_eq!(report.findings()[0].figure, Err("Weir 0.1.0: it hangs".to_owned()));
    }

    #[test]
    fn rounds_that_disagree_are_unsteady() {
        assert!(result(&[10.0, 10.0], &[8.0, 10.0]).unsteady());
        assert!(!result(&[10.0, 20.0], &[8.0, 16.0]).unsteady());
    }
}
