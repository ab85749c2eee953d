//! The command `weir-sim`: runs seeds, reports which seed broke which rule, and minimises the failing runs.

mod options;
mod seeds;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use options::{Command, Options};
use seeds::{Cost, Done};
use weir_sim::{Baseline, Counts, Detail, Outcome, Subset, minimise, run_subset};

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
    let mut last_summary = began;
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
        if last_summary.elapsed() >= Duration::from_secs(10) {
            last_summary = Instant::now();
            println!("{}", summary(&total, began.elapsed()));
        }
        total.failures < options.failures
    });
    println!("{}", summary(&total, began.elapsed()));
    if total.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Repeats a failed run, minimises it, and prints the result.
fn report(options: &Options, outcome: &Outcome) {
    let (seed, Some(violation)) = (outcome.seed, &outcome.violation) else { return };
    println!("\nseed {seed} failed: {violation}");
    let again = run_subset(options.baseline, seed, &options.subset, detail(options));
    if again.digest != outcome.digest {
        println!("  (the repetition differs: the run depends on something besides its seed)");
    }
    let mut subset = options.subset.clone();
    let mut shown = again;
    if subset.is_whole() && !options.minimise.is_zero() {
        println!("  minimising for at most {} s …", options.minimise.as_secs());
        subset = minimise(options.baseline, outcome, options.minimise);
        shown = run_subset(options.baseline, seed, &subset, detail(options));
    }
    let lines = shown.transcript();
    let from = if options.detail > Detail::None { 0 } else { lines.len().saturating_sub(LINES) };
    if from > 0 {
        println!("  … {from} earlier lines; --trace shows them");
    }
    lines[from..].iter().for_each(|line| println!("  {line}"));
    print_commands(options, seed, &subset);
}

/// Prints the commands that repeat the run.
fn print_commands(options: &Options, seed: u64, subset: &Subset) {
    let direct = if options.baseline == Baseline::Direct { " --direct" } else { "" };
    println!("the whole run:     make sim SEED={seed} COUNT=1{}", args(direct.trim()));
    if !subset.is_whole() {
        println!("the minimised run: make sim SEED={seed} COUNT=1{}", args(format!("{subset}{direct}").trim()));
    }
    println!("its transcript:    … ARGS='… --trace', or --port to add what passes through the engines' ports\n");
}

fn args(options: &str) -> String {
    if options.is_empty() { String::new() } else { format!(" ARGS='{options}'") }
}

fn detail(options: &Options) -> Detail {
    options.detail.max(Detail::Protocol)
}

fn summary(total: &Total, elapsed: Duration) -> String {
    let Counts { transactions, logins, moved, cancelled, broken, events, .. } = total.counts;
    let (seeds, failures, seconds) = (total.seeds, total.failures, elapsed.as_secs_f64());
    // The kernel's CPU clock is coarse: after one or two runs it may still show 0.
    let cost = total.cost.as_secs_f64().max(0.01);
    let rate = transactions as f64 * 60.0 / cost;
    format!(
        "sim: {seeds} seeds, {failures} failures, {transactions} transactions, {:.2} million a minute of one core; \
         {logins} logins, {moved} clients moved, {cancelled} cancels, {broken} sessions broken, {events} events, {seconds:.1} s",
        rate / 1e6
    )
}
