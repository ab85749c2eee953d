//! The command `weir-sim`: runs seeds, says which rule was broken with which of them, and makes such runs small.

mod options;
mod seeds;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use options::{Command, Options};
use seeds::{Cost, Done};
use weir_sim::{Baseline, Counts, Detail, Outcome, Part, minimise, run_part};

/// How many lines of a failed run are printed.
const LINES: usize = 120;

fn main() -> ExitCode {
    match options::read(std::env::args().skip(1)) {
        Ok(Command::Help) => {
            print!("{}", options::USAGE);
            ExitCode::SUCCESS
        }
        Ok(Command::Run(options)) => simulate(&options),
        Err(error) => {
            eprintln!("weir-sim: {error}\n{}", options::USAGE);
            ExitCode::from(2)
        }
    }
}

#[derive(Default)]
struct Total {
    seeds: u64,
    failures: u64,
    counts: Counts,
    cost: Cost,
}

fn simulate(options: &Options) -> ExitCode {
    let began = Instant::now();
    let mut told = began;
    let mut total = Total::default();
    seeds::all(options, |Done { outcome, cost }| {
        total.seeds += 1;
        total.counts.add(&outcome.counts);
        total.cost += cost;
        if outcome.violation.is_some() {
            total.failures += 1;
            report(options, &outcome);
        } else if options.detail > Detail::None {
            outcome.transcript().iter().for_each(|line| println!("{line}"));
        }
        if told.elapsed() >= Duration::from_secs(10) {
            told = Instant::now();
            println!("{}", summary(&total, began.elapsed()));
        }
        total.failures < options.failures
    });
    println!("{}", summary(&total, began.elapsed()));
    if total.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Repeats a failed run, makes it small, and shows both.
fn report(options: &Options, outcome: &Outcome) {
    let (seed, Some(violation)) = (outcome.seed, &outcome.violation) else { return };
    println!("\nseed {seed} failed: {violation}");
    let again = run_part(options.baseline, seed, &options.part, detail(options));
    if again.digest != outcome.digest {
        println!("  (it did not repeat itself: the run depends on something beside its seed)");
    }
    let mut part = options.part.clone();
    let mut shown = again;
    if part.is_whole() && !options.minimise.is_zero() {
        println!("  making it small, for at most {} s …", options.minimise.as_secs());
        part = minimise(options.baseline, outcome, options.minimise);
        shown = run_part(options.baseline, seed, &part, detail(options));
    }
    let lines = shown.transcript();
    let from = if options.detail > Detail::None { 0 } else { lines.len().saturating_sub(LINES) };
    if from > 0 {
        println!("  … {from} lines before; --trace shows them");
    }
    lines[from..].iter().for_each(|line| println!("  {line}"));
    repeat(options, seed, &part);
}

/// Says how to have it again.
fn repeat(options: &Options, seed: u64, part: &Part) {
    let direct = if options.baseline == Baseline::Direct { " --direct" } else { "" };
    println!("the run again:     make sim SEED={seed} COUNT=1{}", args(direct.trim()));
    if !part.is_whole() {
        println!("the small one:     make sim SEED={seed} COUNT=1{}", args(format!("{part}{direct}").trim()));
    }
    println!("all of its lines:  … ARGS='… --trace', and --port for what passes through the engines' ports\n");
}

fn args(options: &str) -> String {
    if options.is_empty() { String::new() } else { format!(" ARGS='{options}'") }
}

fn detail(options: &Options) -> Detail {
    options.detail.max(Detail::Protocol)
}

fn summary(total: &Total, elapsed: Duration) -> String {
    let Counts { transactions, logins, cancelled, broken, events, .. } = total.counts;
    let (seeds, failures, seconds) = (total.seeds, total.failures, elapsed.as_secs_f64());
    // The kernel counts CPU time in pieces: of a run or two there is nothing to be said.
    let cost = total.cost.as_secs_f64().max(0.01);
    let rate = transactions as f64 * 60.0 / cost;
    format!(
        "sim: {seeds} seeds, {failures} failures, {transactions} transactions, {:.2} million a minute of one core; \
         {logins} logins, {cancelled} cancels, {broken} sessions broken, {events} events, {seconds:.1} s",
        rate / 1e6
    )
}
