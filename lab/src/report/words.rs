//! Sentences of all formats of a report: the run, its machine, and its verdicts.

use super::figures;
use crate::length::Length;
use crate::model::{Claim, Experiment, Machine, Report, Verdict};

/// How many claims held, did not, or are open.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) held: usize,
    pub(super) not: usize,
    pub(super) open: usize,
}

impl Tally {
    pub(super) fn of<'a>(claims: impl Iterator<Item = &'a Claim>) -> Tally {
        claims.fold(Tally::default(), |mut tally, claim| {
            match claim.verdict {
                Verdict::Held => tally.held += 1,
                Verdict::NotHeld => tally.not += 1,
                Verdict::Open => tally.open += 1,
            }
            tally
        })
    }

    pub(super) fn of_report(report: &Report) -> Tally {
        Tally::of(report.experiments.iter().flat_map(|experiment| &experiment.claims))
    }

    pub(super) fn sentence(self) -> String {
        let Tally { held, not, open } = self;
        let are = if open == 1 { "is" } else { "are" };
        match held + not + open {
            0 => "No claim was checked.".to_owned(),
            _ => format!("{} held, {not} did not hold, {open} {are} open.", figures::count(held, "claim")),
        }
    }
}

/// The sign of a verdict.
pub(super) fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "✔",
        Verdict::NotHeld => "✘",
        Verdict::Open => "?",
    }
}

/// A verdict in words.
pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::NotHeld => "did not hold",
        Verdict::Open => "open",
    }
}

/// The reliability of a report of this length.
fn trust(length: Length) -> &'static str {
    match length {
        Length::Smoke => "every step ran for a moment only; no figure and no verdict here means anything",
        Length::Quick => "the shape shows, the decimals do not",
        Length::Standard => "minutes an experiment, with repetitions",
        Length::Article => "as long as the articles measured themselves",
        Length::File => "as long as its file says",
    }
}

/// The length in a word, and its reliability.
pub(super) fn length(length: Length) -> String {
    format!("{length}: {}", trust(length))
}

/// When the run began and how long it took.
pub(super) fn when(report: &Report) -> String {
    let began = figures::moment(&report.began);
    match figures::between(&report.began, &report.ended) {
        Some(took) => format!("{began}, {took}"),
        None => began,
    }
}

/// The hardware.
pub(super) fn hardware(machine: &Machine) -> String {
    let mut words = vec![figures::count(machine.cores, "core")];
    words.extend((!machine.processor.is_empty()).then(|| machine.processor.clone()));
    words.extend((machine.memory_bytes > 0).then(|| figures::bytes(machine.memory_bytes)));
    words.join(", ")
}

/// The operating system.
pub(super) fn system(machine: &Machine) -> String {
    let words: Vec<_> =
        [&machine.system, &machine.kernel].into_iter().filter(|word| !word.is_empty()).cloned().collect();
    words.join(", ")
}

/// A title with its unit: `average (ms)`.
pub(super) fn with_unit(title: &str, unit: &str) -> String {
    match (title.is_empty(), unit.is_empty()) {
        (_, true) => title.to_owned(),
        (true, false) => unit.to_owned(),
        (false, false) => format!("{title} ({unit})"),
    }
}

/// The name of a whole report.
pub(super) fn title(report: &Report) -> String {
    match report.experiments.as_slice() {
        [Experiment { title, .. }] => title.clone(),
        _ => "Connection pooling: the experiments, rerun".to_owned(),
    }
}
