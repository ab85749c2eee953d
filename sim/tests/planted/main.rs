//! Planted bugs: a test of the checkers.
//!
//! Bugs of the kinds that poolers have had are planted in a copy of the sources ([`tree`]); one at a time is switched
//! on, and the simulator must find it ([`mutants`] lists them). The copy is built once. `make planted` prints the
//! table.

mod mutants;
mod tree;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use mutants::{MUTANTS, Mutant};

/// Fewer seeds than one core runs in a minute. A count instead of a time, so that the load of the machine does not
/// matter.
const SEEDS: u64 = 9_000;

/// The result of one run of the simulator.
struct Found {
    seeds: u64,
    seconds: f64,
    /// The first broken rule, if any.
    rule: Option<String>,
    output: String,
}

#[test]
fn every_bug_can_still_be_planted() {
    let misfits: Vec<String> = MUTANTS.iter().flat_map(tree::misfits).collect();
    assert!(misfits.is_empty(), "the source has changed; renew these in mutants.rs:\n{}", misfits.join("\n"));
}

#[test]
#[ignore = "builds the engine a second time: make planted"]
fn the_simulator_finds_every_planted_bug_within_a_minute() {
    let simulator = tree::build();
    let next = Mutex::new(MUTANTS.iter());
    let found = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(mutant) = { next.lock().expect("no thread panics").next() } {
                    let result = hunt(simulator, mutant);
                    println!("{}", line(mutant, &result));
                    found.lock().expect("no thread panics").insert(mutant.name, result);
                }
            });
        }
    });
    let found = found.into_inner().expect("no thread panics");
    let missed: Vec<&str> = MUTANTS.iter().filter(|m| !is_caught(m, &found[m.name])).map(|m| m.name).collect();
    let outputs: Vec<&str> = missed.iter().map(|name| found[name].output.as_str()).collect();
    assert!(missed.is_empty(), "not found by a checker that is meant for them: {missed:?}\n{}", outputs.join("\n"));
    let most = found.values().map(|found| found.seeds).max().unwrap_or(0).max(500);
    let none = simulate(simulator, "", &["--count", &most.to_string()]);
    assert!(none.rule.is_none(), "a rule is broken without any bug:\n{}", none.output);
    println!("planted: {} bugs, all found; without them {most} seeds pass", MUTANTS.len());
}

#[test]
#[ignore = "builds the engine a second time: make planted"]
fn a_failure_is_minimised_and_fails_again() {
    const BUG: &str = "open transaction";
    let simulator = tree::build();
    let whole = simulate(simulator, BUG, &["--count", &SEEDS.to_string(), "--failures", "1"]);
    let rule = whole.rule.as_deref().expect("the bug is found");
    let again =
        whole.output.lines().find_map(|line| line.strip_prefix("the minimised run:")).expect("it was minimised");
    let (seed, options) = again.trim().split_once(" COUNT=1 ARGS='").expect("the command that repeats it");
    let seed = seed.trim_start_matches("make sim SEED=");
    let options: Vec<&str> =
        options.trim_end_matches('\'').split(' ').chain(["--seed", seed, "--count", "1", "--trace"]).collect();
    let small = simulate(simulator, BUG, &options);
    assert_eq!(small.rule.as_deref(), Some(rule), "{}", small.output);
    let lines = |found: &Found| found.output.lines().count();
    assert!(lines(&small) > 10 && small.output.contains(" -> w0  StartupMessage 3."), "{}", small.output);
}

fn hunt(simulator: &Path, mutant: &Mutant) -> Found {
    simulate(simulator, mutant.name, &["--count", &SEEDS.to_string(), "--failures", "1", "--minimise", "0"])
}

/// Runs seeds in order with a bug, or without one.
fn simulate(simulator: &Path, bug: &str, options: &[&str]) -> Found {
    let began = Instant::now();
    let output = Command::new(simulator)
        .args(["--jobs", "1"])
        .args(options)
        .env(tree::SWITCH, bug)
        .output()
        .expect("the simulator runs");
    let output = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let rule = output.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(" failed: [")?.1.split_once(']'));
    let last = output.lines().rev().find_map(|line| line.strip_prefix("sim: ")?.split(' ').next()?.parse().ok());
    Found {
        seeds: last.unwrap_or(0),
        seconds: began.elapsed().as_secs_f64(),
        rule: rule.map(|(rule, _)| rule.to_owned()),
        output,
    }
}

fn is_caught(mutant: &Mutant, found: &Found) -> bool {
    let rules: Vec<String> = mutant.found_by.iter().map(ToString::to_string).collect();
    found.rule.as_ref().is_some_and(|rule| rules.contains(rule))
}

fn line(mutant: &Mutant, found: &Found) -> String {
    let by = found.rule.as_deref().unwrap_or("NO CHECKER");
    format!("{:<30} {:>5} seeds, {:>5.1} s, by: {by}; {}", mutant.name, found.seeds, found.seconds, mutant.what)
}
