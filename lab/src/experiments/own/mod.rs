//! A custom experiment: targets, a workload and repetitions from a file.
//!
//! Owns the plan's order: in every repetition each target runs each number of clients once, in a new order, so that a
//! machine that becomes slower or faster favours no target.

mod evaluate;
mod file;
mod reader;
mod stage;

use std::path::PathBuf;

use clap::Args;

use crate::lab::Lab;
use crate::length::Length;
use crate::load::spread::shuffle;
use crate::model;
use crate::steps::{Experiment, LabError, Results, Stage, Step};
use file::{Kind, Plan};

/// Shown by `weir lab run --help`: a file to start from.
pub(crate) const HELP: &str = concat!(
    "A file to begin with, with every key that there is:\n\n",
    include_str!("../../../examples/my-load.toml"),
    "\nIts durations are what counts: --quick and --standard change nothing."
);

/// The options of `weir lab run` beside the common ones.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// What to measure: targets, workload, repetitions
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
}

/// The experiment that the file describes.
///
/// # Errors
/// What is wrong with the file, and in which line.
pub(crate) fn new(length: Length, options: &Options) -> Result<Box<dyn Experiment>, LabError> {
    let mut plan = file::read(&options.file)?;
    passwords_are_there(&plan)?;
    if length == Length::Smoke {
        (plan.workload.duration, plan.repetitions) = (1, plan.repetitions.min(2));
        plan.workload.scale = plan.workload.scale.map(|_| 1);
    }
    Ok(Box::new(Own { plan }))
}

/// Checks passwords before the first run.
fn passwords_are_there(plan: &Plan) -> Result<(), LabError> {
    for target in &plan.targets {
        if let Kind::Direct(login) | Kind::Address(login) = &target.kind {
            stage::password(login)?;
        }
    }
    Ok(())
}

/// One run: a target, a number of clients, a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    target: usize,
    clients: u32,
    /// From 1.
    repetition: u32,
}

impl Plan {
    /// All runs in order.
    fn cases(&self) -> Vec<Case> {
        let mut dice = self.seed;
        let of = |repetition: u32| -> Vec<Case> {
            let pairs =
                (0..self.targets.len()).flat_map(|target| self.workload.clients.iter().map(move |c| (target, *c)));
            pairs.map(|(target, clients)| Case { target, clients, repetition }).collect()
        };
        let repetitions = (1..=self.repetitions).map(of);
        repetitions
            .flat_map(|mut cases| {
                shuffle(&mut cases, &mut dice);
                cases
            })
            .collect()
    }

    /// The step's id, and the name of its raw output.
    fn id(&self, case: Case) -> String {
        format!("{}-{}-{}", self.targets[case.target].slug, case.clients, case.repetition)
    }

    fn title_of(&self, case: Case) -> String {
        let Case { target, clients, repetition } = case;
        let name = &self.targets[target].name;
        format!("{name}, {clients} clients, {repetition} of {}", self.repetitions)
    }
}

struct Own {
    plan: Plan,
}

impl Experiment for Own {
    fn id(&self) -> &'static str {
        "own"
    }

    fn options(&self) -> String {
        format!("file={:016x} seed={}", self.plan.fingerprint, self.plan.seed)
    }

    fn steps(&self) -> Vec<Step> {
        let seconds = f64::from(self.plan.workload.duration) + 1.0;
        let step = |case| Step { id: self.plan.id(case), title: self.plan.title_of(case), seconds };
        self.plan.cases().into_iter().map(step).collect()
    }

    fn opening_seconds(&self) -> f64 {
        let own = self.plan.targets.iter().filter(|target| matches!(target.kind, Kind::Own { .. })).count();
        #[allow(clippy::cast_precision_loss)]
        let own = own as f64;
        own * (3.0 + 0.3 * f64::from(self.plan.workload.scale.unwrap_or(0)))
    }

    fn open<'l>(&self, lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError> {
        Ok(Box::new(stage::Bench::open(lab, self.plan.clone())?))
    }

    fn evaluate(&self, results: &Results) -> model::Experiment {
        evaluate::evaluate(&self.plan, results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        file::parse(include_str!("../../../examples/my-load.toml"), &|_| Err("none".into())).unwrap()
    }

    #[test]
    fn each_repetition_has_every_case_once_in_another_order() {
        let plan = plan();
        let cases = plan.cases();
        let parts: Vec<Vec<_>> =
            cases.chunks(6).map(|part| part.iter().map(|case| (case.target, case.clients)).collect()).collect();
        assert_eq!(parts.len(), 3);
        let sorted = |part: &Vec<(usize, u32)>| {
            let mut part = part.clone();
            part.sort_unstable();
            part
        };
        assert!(parts.iter().all(|part| sorted(part) == [(0, 10), (0, 50), (0, 150), (1, 10), (1, 50), (1, 150)]));
        assert!(parts[0] != parts[1] || parts[1] != parts[2], "{parts:?}");
        assert_eq!(plan.cases(), cases, "the order follows from the seed");
        assert_ne!(Plan { seed: 8, ..plan.clone() }.cases(), Plan { seed: 9, ..plan }.cases());
    }

    #[test]
    fn a_password_that_is_not_there_is_missed_before_anything_runs() {
        let login = file::Login {
            host: "h".into(),
            port: 5432,
            user: "u".into(),
            database: "d".into(),
            password_env: Some("WEIR_LAB_NO_SUCH_VARIABLE".into()),
        };
        let mut plan = plan();
        plan.targets[0].kind = Kind::Address(login);
        let text = passwords_are_there(&plan).unwrap_err().to_string();
        assert!(text.contains("WEIR_LAB_NO_SUCH_VARIABLE"), "{text}");
    }
}
