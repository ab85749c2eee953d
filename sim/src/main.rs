//! The command `weir-sim`: runs seeds, and says which rule was broken with which of them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use weir_sim::{Baseline, Counts, Outcome, run, run_with_transcript};

const USAGE: &str = "\
usage: weir-sim [--seed N] [--count M] [--hours H] [--failures F] [--direct] [--trace]

  --seed N    the first seed (default 1)
  --count M   how many seeds (default 1000)
  --hours H   as many seeds as fit into H hours instead, which may be a fraction
  --failures F  stop after so many failures (default 10)
  --direct    leave the pooler out: the model against itself
  --trace     print the last events of every seed, not only of one that fails
";

/// How many lines of a failed run are printed.
const LINES: usize = 100;

struct Options {
    seed: u64,
    count: u64,
    until: Option<Duration>,
    baseline: Baseline,
    failures: u64,
    trace: bool,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)) {
        Ok(options) => simulate(&options),
        Err(error) => {
            eprintln!("weir-sim: {error}\n{USAGE}");
            ExitCode::from(2)
        }
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options =
        Options { seed: 1, count: 1000, until: None, baseline: Baseline::Pooled, failures: 10, trace: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--seed" => options.seed = number(&value()?)?,
            "--count" => options.count = number(&value()?)?,
            "--hours" => {
                let hours: f64 = value()?.parse().map_err(|_| "--hours needs a number".to_owned())?;
                options.until = Some(Duration::try_from_secs_f64(hours * 3600.0).map_err(|e| e.to_string())?);
                options.count = u64::MAX;
            }
            "--failures" => options.failures = number(&value()?)?,
            "--direct" => options.baseline = Baseline::Direct,
            "--trace" => options.trace = true,
            other => return Err(format!("{other} is not known")),
        }
    }
    Ok(options)
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("{word} is no number"))
}

fn simulate(options: &Options) -> ExitCode {
    let began = Instant::now();
    let mut told = began;
    let mut total = Counts::default();
    let (mut seeds, mut failures) = (0, 0);
    for seed in (0..options.count).map(|n| options.seed.wrapping_add(n)) {
        if options.until.is_some_and(|limit| began.elapsed() >= limit) || failures >= options.failures {
            break;
        }
        let outcome =
            if options.trace { run_with_transcript(options.baseline, seed) } else { run(options.baseline, seed) };
        total.add(&outcome.counts);
        seeds += 1;
        if outcome.violation.is_some() {
            failures += 1;
            report(options, &outcome);
        } else if options.trace {
            outcome.transcript.iter().for_each(|line| println!("{line}"));
        }
        if told.elapsed() >= Duration::from_secs(10) {
            told = Instant::now();
            println!("{}", summary(seeds, &total, failures, began.elapsed()));
        }
    }
    println!("{}", summary(seeds, &total, failures, began.elapsed()));
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Repeats a failed run to show its last events.
fn report(options: &Options, outcome: &Outcome) {
    let again = run_with_transcript(options.baseline, outcome.seed);
    let from = again.transcript.len().saturating_sub(if options.trace { usize::MAX } else { LINES });
    println!("seed {} failed; its last events:", outcome.seed);
    again.transcript[from..].iter().for_each(|line| println!("  {}", shortened(line)));
    if again.digest != outcome.digest {
        println!("  (it did not repeat itself: the run depends on something beside its seed)");
    }
    if let Some(violation) = &outcome.violation {
        println!("seed {}: {violation}", outcome.seed);
    }
}

fn shortened(line: &str) -> String {
    const MOST: usize = 220;
    match line.char_indices().nth(MOST) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

fn summary(seeds: u64, total: &Counts, failures: u64, elapsed: Duration) -> String {
    let Counts { transactions, logins, cancelled, broken, events, .. } = total;
    format!(
        "sim: {seeds} seeds, {transactions} transactions, {failures} failures ({logins} logins, {cancelled} cancels, \
         {broken} sessions broken, {events} events, {:.1} s)",
        elapsed.as_secs_f64()
    )
}
