//! `weir-bench rounds`: poolers in interleaved rounds of pgbench, compared by CPU time a transaction.
//!
//! In each round every pooler runs once, the first place going around, so that a slow phase of the machine reaches all
//! of them. TPS, latency and memory are shown, but judged by no budget: client and server share the machine with the
//! pooler. One that can't do a case has the reason in its row, and the others go on.

use clap::Args;

use crate::budgets::Findings;
use crate::cases::{self, Case, GROUPS, When, Work};
use crate::contender::{Kind, OTHERS, Role, has_ring};
use crate::error::{Error, Outcome};
use crate::latency::{self, Quantiles};
use crate::meter::{self, Meter};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::pgbench::Pgbench;
use crate::report::{CaseResult, Report, Sample};
use crate::setup::USER;
use crate::stage::{Pooler, Stage};
use weir_pglocal::proc::Machine;

/// Rounds of a case with a budget, and of one without.
const ROUNDS: (u32, u32) = (5, 3);
/// Pgpool-II runs in cases of this many clients; more of it takes `--full`, because its rows are the slowest to come.
const PGPOOL_CLIENTS: u32 = 50;

/// The options of `rounds`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How often each pooler runs each case [default: 5 times, without a budget 3 times]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// How long each run lasts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
    /// Only these cases: a group (simple, extended, prepared, connect, tpcb, tls, socket), a case, or how some begin
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    only: Vec<String>,
    /// All cases, and Pgpool-II in all that it can do
    #[arg(long)]
    full: bool,
    /// pgbench's scale: this many times 100,000 accounts
    #[arg(long, default_value_t = 10)]
    scale: u32,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

impl Group for Options {
    const NAME: &'static str = "rounds";

    fn output(&self) -> &Output {
        &self.output
    }

    /// Measures, and prints the table. An error at its end when Weir failed in a case.
    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let cases = self.chosen()?;
        let kinds = self.rig.all_kinds(out)?;
        eprintln!("Starting PostgreSQL, pgbench scale {}.", self.scale);
        let (stage, pgbench) = self.rig.stage(self.scale)?;
        let mut poolers = self.rig.start(&stage, kinds, out)?;
        let names: Vec<_> = poolers.iter().map(|pooler| pooler.name.clone()).collect();
        let rounds: u32 = cases.iter().map(|case| self.rounds(case)).sum();
        let minutes = (u64::from(rounds) * names.len() as u64 * u64::from(self.seconds)).div_ceil(50);
        print_line!(out, "{}: runs of {} s, about {minutes} min.\n", names.join(", "), self.seconds);
        let mut report = Report::new(self.rig.pgbouncer_version(), has_ring());
        for case in cases {
            let result = self.measure(&stage, &pgbench, &mut poolers, case)?;
            report.add(result, out);
        }
        report.print_end(out);
        check_balances(&stage)?;
        let failures = [report.failures_of(Role::Ours), report.failures_of(Role::Epoll)].concat();
        if failures.is_empty() {
            Ok(Findings { budgets: report.findings(), json: report.json() })
        } else {
            Err(Error::new(failures.join("\n")))
        }
    }
}

impl Options {
    fn chosen(&self) -> Outcome<Vec<Case>> {
        let table = cases::table();
        if let Some(word) = self.only.iter().find(|word| !table.iter().any(|case| case.is_called(word))) {
            let names: Vec<_> = table.iter().map(|case| case.name.as_str()).collect();
            return Err(Error::new(format!(
                "--only {word} names no case. Groups: {}. Cases: {}.",
                GROUPS.join(", "),
                names.join(", ")
            )));
        }
        let wanted = |case: &Case| match self.only.as_slice() {
            [] => self.full || case.when == When::Always,
            // What a group has beyond the usual takes --full; what is named alone does not.
            words => words.iter().any(|word| {
                let usual = self.full || case.when == When::Always || !GROUPS.contains(&word.as_str());
                usual && case.is_called(word)
            }),
        };
        Ok(table.into_iter().filter(wanted).collect())
    }

    fn rounds(&self, case: &Case) -> u32 {
        self.rounds.unwrap_or(if case.has_budget() { ROUNDS.0 } else { ROUNDS.1 })
    }

    /// Whether it takes part in a case, if only with the reason why it can't.
    fn takes_part(&self, kind: Kind, case: &Case) -> bool {
        match kind.role() {
            Role::Limit | Role::Nothing => kind.refuses(case).is_none(),
            Role::Epoll => self.full || !self.rig.poolers.is_empty() || case.has_epoll_budget(),
            _ if OTHERS.contains(&kind) => self.full || !self.rig.poolers.is_empty() || case.has_budget(),
            _ => kind != Kind::Pgpool || self.full || !self.rig.poolers.is_empty() || case.clients <= PGPOOL_CLIENTS,
        }
    }

    fn measure(&self, stage: &Stage, pgbench: &Pgbench, poolers: &mut [Pooler], case: Case) -> Outcome<CaseResult> {
        let version = self.rig.pgbouncer_version();
        let mut poolers: Vec<_> = poolers.iter_mut().filter(|pooler| self.takes_part(pooler.kind, &case)).collect();
        let mut result = CaseResult::new(case, poolers.iter().map(|pooler| (pooler.kind, pooler.name.clone())));
        let arguments = |case: &Case, kind| case.arguments(case.protocol_for(kind, &version));
        for (at, pooler) in poolers.iter().enumerate() {
            // Opens the pool's servers, and fills their caches.
            let warm = || pgbench.run_by(result.case.way, pooler, 1, &arguments(&result.case, pooler.kind));
            let refused = pooler.kind.refuses(&result.case).map(Error::new);
            if let Some(error) = refused.or_else(|| warm().err()) {
                result.fail(at, &error);
            }
        }
        let rounds = self.rounds(&result.case);
        for round in 0..rounds as usize {
            for step in 0..poolers.len() {
                let at = (round + step) % poolers.len();
                if result.failed(at) {
                    continue;
                }
                if result.case.work == Work::TpcB {
                    tidy(stage)?;
                }
                let arguments = arguments(&result.case, poolers[at].kind);
                match one_run(pgbench, &result.case, poolers[at], self.seconds, &arguments) {
                    Ok(sample) => result.add(at, sample),
                    Err(error) => result.fail(at, &error),
                }
            }
            result.show_progress(round + 1, rounds);
        }
        Ok(result)
    }
}

/// One run: pgbench's figures, the pooler's CPU time and memory, and what other programs took meanwhile.
fn one_run(pgbench: &Pgbench, case: &Case, pooler: &mut Pooler, seconds: u32, arguments: &[String]) -> Outcome<Sample> {
    let look = |pooler: &Pooler| pooler.pid().map(|pid| Meter::of(pid).ok_or_else(|| pooler.gone())).transpose();
    let (machine, before) = (Machine::now(), look(pooler)?);
    let (run, log) = pgbench.run_logged(case.way, pooler, seconds, arguments, case.sampled())?;
    let (after, then) = (look(pooler)?, Machine::now());
    if !pooler.alive() {
        return Err(pooler.gone());
    }
    #[allow(clippy::cast_precision_loss)]
    let each = |seconds: f64| seconds * 1e6 / run.transactions as f64;
    let used = before.zip(after).map(|(before, after)| after.since(&before));
    let micros =
        if case.work == Work::Connect { latency::visits(&log) } else { log.iter().map(|entry| entry.took).collect() };
    Ok(Sample {
        run,
        latency: Quantiles::of(micros),
        memory: pooler.pid().and_then(meter::memory),
        user_us: used.map(|used| each(used.user)),
        system_us: used.map(|used| each(used.system)),
        foreign: machine.zip(then).map(|(before, after)| after.foreign_since(&before)),
    })
}

/// What pgbench does before TPC-B unless disabled: without it each run finds more dead rows than the one before.
fn tidy(stage: &Stage) -> Outcome<()> {
    for sql in ["vacuum pgbench_branches", "vacuum pgbench_tellers", "truncate pgbench_history"] {
        stage.server().execute(USER, sql)?;
    }
    Ok(())
}

/// TPC-B adds each amount in three tables: their sums are equal unless a transaction was torn.
fn check_balances(stage: &Stage) -> Outcome<()> {
    let sql = "select (select sum(abalance) from pgbench_accounts), (select sum(bbalance) from pgbench_branches), \
               (select sum(tbalance) from pgbench_tellers)";
    let answer = stage.server().superuser_connection(USER)?.query(sql)?;
    let sums = &answer.rows[0];
    if sums.iter().all(|sum| *sum == sums[0]) {
        return Ok(());
    }
    Err(Error::new(format!("TPC-B's balances do not add up: accounts, branches, tellers {sums:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(flags: &[&str]) -> Options {
        Options::with(&flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn chosen(flags: &[&str]) -> Vec<String> {
        options(flags).chosen().unwrap().into_iter().map(|case| case.name).collect()
    }

    #[test]
    fn the_usual_run_has_every_budget_and_the_full_one_all_cases() {
        let usual = chosen(&[]);
        let with_budget: Vec<_> = cases::table().into_iter().filter(Case::has_budget).map(|case| case.name).collect();
        assert!(with_budget.iter().all(|name| usual.contains(name)), "{usual:?}");
        assert_eq!(chosen(&["--full"]).len(), cases::table().len());
        assert!(usual.len() < cases::table().len());
    }

    #[test]
    fn a_group_or_a_case_can_be_run_alone() {
        assert_eq!(chosen(&["--only", "prepared"]), ["prepared-50"]);
        assert_eq!(chosen(&["--only", "prepared", "--full"]).len(), 5);
        assert_eq!(chosen(&["--only", "prepared-200,connect-10"]), ["prepared-200", "connect-10"]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_names_there_are() {
        let error = options(&["--only", "simpel"]).chosen().unwrap_err().to_string();
        assert!(error.starts_with("--only simpel names no case. Groups: simple, extended,"), "{error}");
        assert!(error.contains("connect-10-tls"), "{error}");
    }

    #[test]
    fn a_case_with_a_budget_has_more_rounds_by_default() {
        let count = |flags: &[&str]| {
            let options = options(flags);
            options.chosen().unwrap().iter().map(|case| options.rounds(case)).collect::<Vec<_>>()
        };
        assert_eq!(count(&["--only", "simple-1000,simple-50"]), [5, 3]);
        assert_eq!(count(&["--only", "simple-1000,simple-50", "--rounds", "7"]), [7, 7]);
    }

    #[test]
    fn weir_by_epoll_is_where_it_has_a_budget_unless_asked_for_more() {
        let case = |name| cases::table().into_iter().find(|case| case.name == name).unwrap();
        let (one, none) = (case("simple-50"), case("simple-1000"));
        let part = |flags: &[&str], case| options(flags).takes_part(Kind::WeirEpoll, case);
        assert!(part(&[], &one) && !part(&[], &none));
        assert!(part(&["--full"], &none) && part(&["--poolers", "weir,weir-epoll"], &none));
    }

    #[test]
    fn pgpool_is_in_the_small_cases_unless_asked_for_more() {
        let big = cases::table().into_iter().find(|case| case.name == "simple-200").unwrap();
        assert!(!options(&[]).takes_part(Kind::Pgpool, &big));
        assert!(options(&["--full"]).takes_part(Kind::Pgpool, &big));
        assert!(options(&["--poolers", "pgpool,weir"]).takes_part(Kind::Pgpool, &big));
        assert!(options(&[]).takes_part(Kind::Other, &big));
    }
}
