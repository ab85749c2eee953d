//! Runs the steps of experiments one after another, and reports their results.
//!
//! Owns the order: the steps that are left, progress, the journal after every step, the effect of a failure (it fails
//! its step only), and the warning about a step that other programs disturbed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_pglocal::{Signal, proc};

use crate::journal::Journal;
use crate::lab::Lab;
use crate::length::Length;
use crate::machine;
use crate::model::{self, FORMAT, Report};
use crate::progress::Progress;
use crate::report;
use crate::steps::{Experiment, LabError, Outcome, Results, Step};
use crate::tools::DEBUG;

/// The share of the machine's time for other programs during a step from which on there is a warning.
const FOREIGN: f64 = 0.10;

/// The default folder of runs, below the working directory.
pub(crate) const REPORTS: &str = "weir-lab";

/// The run to do.
pub(crate) struct RunOptions {
    /// For the folder's name: `all`, or an experiment's id.
    pub(crate) name: String,
    pub(crate) experiments: Vec<Box<dyn Experiment>>,
    pub(crate) length: Length,
    /// The report's folder; chosen below `weir-lab/` if absent.
    pub(crate) out: Option<PathBuf>,
    /// Whether to ignore an unfinished run of the same plan.
    pub(crate) fresh: bool,
    pub(crate) weir: Option<PathBuf>,
    /// The command line, for the report.
    pub(crate) command: String,
}

/// Runs the experiments, and writes the report. Returns the report and its folder.
pub(crate) fn run(options: &RunOptions) -> Result<(PathBuf, Report), LabError> {
    weir_pglocal::raise_descriptors();
    let mut journal = journal(options)?;
    let progress = Progress::stderr();
    let lab = Lab::new(options.length, options.weir.clone(), journal.raw(), progress.clone())?;
    leave_nothing_behind(&lab, &journal);
    let (total, done) = seconds(options, &journal);
    progress.begin(total, done);
    let left: usize = options.experiments.iter().map(|experiment| left(experiment.as_ref(), &journal).len()).sum();
    progress.say(&format!("{left} steps, {} in all; results go to {}", progress.left(), journal.folder().display()));
    if options.length == Length::Article {
        progress.say("these are the articles' own durations; --standard and --quick take less");
    }
    for experiment in &options.experiments {
        measure(experiment.as_ref(), &lab, &progress, &mut journal)?;
    }
    progress.finish();
    drop(lab);
    finish(options, &mut journal)
}

/// The journal to use: a new one, or that of an interrupted run.
fn journal(options: &RunOptions) -> Result<Journal, LabError> {
    let (plan, now) = (plan(options), jiff::Timestamp::now());
    let parent = Path::new(REPORTS);
    let begun = match &options.out {
        Some(folder) => Journal::read(folder).ok().filter(|j| j.run.plan == plan && j.run.ended.is_none()),
        None => Journal::unfinished(parent, &plan),
    };
    if let Some(journal) = begun.filter(|_| !options.fresh) {
        let done: usize = journal.run.outcomes.values().map(std::collections::BTreeMap::len).sum();
        eprintln!("going on with {}, where {done} steps are done (--fresh begins anew)", journal.folder().display());
        return Ok(journal);
    }
    let stamp = now.strftime("%Y%m%d-%H%M%S");
    let folder =
        options.out.clone().unwrap_or_else(|| parent.join(format!("{}-{}-{stamp}", options.name, options.length)));
    if options.out.is_some() && Journal::read(&folder).is_ok() && !options.fresh {
        let folder = folder.display();
        return Err(LabError::Failed(format!("{folder} holds another run: name another folder, or say --fresh")));
    }
    Journal::begin(folder, plan, options.command.clone(), format!("{now:.0}"))
}

/// Equal for runs that can be resumed by one another.
fn plan(options: &RunOptions) -> String {
    let each = options.experiments.iter().map(|e| format!("{}({})", e.id(), e.options()));
    format!("weir-lab {} {} {}", env!("CARGO_PKG_VERSION"), options.length, each.collect::<Vec<_>>().join(" "))
}

/// The steps that are left.
fn left(experiment: &dyn Experiment, journal: &Journal) -> Vec<Step> {
    experiment.steps().into_iter().filter(|step| !journal.has(experiment.id(), &step.id)).collect()
}

/// Estimated seconds: of all steps, and of the finished ones.
fn seconds(options: &RunOptions, journal: &Journal) -> (f64, f64) {
    let all = |experiment: &dyn Experiment| -> f64 {
        experiment.opening_seconds() + experiment.steps().iter().map(|step| step.seconds).sum::<f64>()
    };
    let todo = |experiment: &dyn Experiment| -> f64 {
        let left = left(experiment, journal);
        let opening = if left.is_empty() { 0.0 } else { experiment.opening_seconds() };
        opening + left.iter().map(|step| step.seconds).sum::<f64>()
    };
    let sum = |f: &dyn Fn(&dyn Experiment) -> f64| options.experiments.iter().map(|e| f(e.as_ref())).sum::<f64>();
    let total = sum(&all);
    (total, total - sum(&todo))
}

fn measure(experiment: &dyn Experiment, lab: &Lab, progress: &Progress, journal: &mut Journal) -> Result<(), LabError> {
    let steps = left(experiment, journal);
    if steps.is_empty() {
        return Ok(());
    }
    let id = experiment.id();
    progress.step(&format!("{id}: setting up"), experiment.opening_seconds());
    let opened = experiment.open(lab);
    stay_if_stopping(lab);
    progress.step_done();
    let mut stage = match opened {
        Ok(stage) => stage,
        Err(trouble) => {
            progress.say(&format!("{id}: left out, {trouble}"));
            for step in &steps {
                journal.note(id, &step.id, outcome(Err(trouble.clone())))?;
                progress.step("", step.seconds);
                progress.step_done();
            }
            return Ok(());
        }
    };
    for step in &steps {
        progress.step(&format!("{id}: {}", step.title), step.seconds);
        let (began, before) = (Instant::now(), proc::Machine::now());
        let mut taken = stage.take(step);
        stay_if_stopping(lab);
        // In a very short step the shares depend on the process that had the last tick.
        let after = proc::Machine::now().filter(|_| began.elapsed() > Duration::from_secs(1));
        if let (Ok(measured), Some(before), Some(after)) = (&mut taken, before, after) {
            measured.foreign = after.foreign_since(&before);
        }
        progress.step_done();
        let said = taken.as_ref().map_or_else(ToString::to_string, |measured| measured.headline.clone());
        progress.say(&format!("{id}: {}: {said} ({} left)", step.title, progress.left()));
        journal.note(id, &step.id, outcome(taken))?;
        journal.run.versions.extend(lab.versions());
    }
    Ok(())
}

fn outcome(taken: Result<crate::steps::Measured, LabError>) -> Outcome {
    match taken {
        Ok(measured) => Outcome::Done(measured),
        Err(LabError::Missing(missing)) => Outcome::Missing(missing),
        Err(LabError::Failed(text)) => Outcome::Failed(text),
    }
}

/// Makes the report from the journal, and writes it beside the journal.
pub(crate) fn finish(options: &RunOptions, journal: &mut Journal) -> Result<(PathBuf, Report), LabError> {
    let now = format!("{:.0}", jiff::Timestamp::now());
    let ended = journal.run.ended.get_or_insert(now).clone();
    let report = Report {
        format: FORMAT,
        command: journal.run.command.clone(),
        length: options.length,
        began: journal.run.began.clone(),
        ended,
        machine: machine::here(),
        versions: journal.run.versions.clone(),
        experiments: options
            .experiments
            .iter()
            .map(|experiment| evaluated(experiment.as_ref(), options.length, journal))
            .collect(),
    };
    report::write(journal.folder(), &report)?;
    journal.save()?;
    Ok((journal.folder().to_owned(), report))
}

/// An experiment's evaluation, with what all steps have in common.
fn evaluated(experiment: &dyn Experiment, length: Length, journal: &Journal) -> model::Experiment {
    let results = Results::new(journal.outcomes_of(experiment.id()).cloned().unwrap_or_default());
    let mut evaluation = experiment.evaluate(&results);
    evaluation.claims = evaluation.claims.into_iter().map(|claim| claim.settled(length)).collect();
    if journal.run.versions.get("Weir").is_some_and(|version| version.contains(DEBUG)) {
        evaluation.warnings.push("Weir is a debug build here, several times slower than what one runs".to_owned());
    }
    let mut disturbed = Vec::new();
    for step in experiment.steps() {
        match results.outcomes().get(&step.id) {
            Some(Outcome::Done(measured)) => {
                disturbed.extend((measured.foreign > FOREIGN).then(|| (measured.foreign, step.title.clone())));
                evaluation.commands.extend(measured.ran.iter().cloned());
                evaluation.warnings.extend(measured.warnings.iter().cloned());
            }
            Some(Outcome::Missing(missing)) if !evaluation.missing.contains(missing) => {
                evaluation.missing.push(missing.clone())
            }
            Some(Outcome::Failed(text)) => evaluation.warnings.push(format!("{} failed: {text}", step.title)),
            Some(Outcome::Missing(_)) | None => {}
        }
    }
    let steps = experiment.steps().len();
    if length <= Length::Quick && disturbed.len() * 2 > steps {
        evaluation.claims = evaluation.claims.into_iter().map(model::Claim::disturbed).collect();
    }
    evaluation.warnings.extend(disturbance(&disturbed, steps));
    evaluation
}

/// One sentence about all steps that other programs disturbed, with the worst of them.
fn disturbance(disturbed: &[(f64, String)], steps: usize) -> Option<String> {
    let (most, title) = disturbed.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (limit, most) = (FOREIGN * 100.0, most * 100.0);
    let of = disturbed.len();
    Some(format!(
        "other programs took more than {limit:.0}% of the machine in {of} of {steps} steps; most in “{title}”, {most:.0}%"
    ))
}

/// Ends everything at the signal to end. If this process is killed, the caretakers do the same.
fn leave_nothing_behind(lab: &Lab, journal: &Journal) {
    let Ok(mut signals) = Signals::new(ending_signals()) else { return };
    // The lab alone owns its reaper, which ends with it and leaves no shell behind.
    let (reaper, folder) = (Arc::downgrade(lab.reaper()), journal.folder().to_owned());
    thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let folder = folder.display();
            eprintln!("\nstopping; what is done is kept in {folder}, and the same command continues from there");
            if let Some(reaper) = reaper.upgrade() {
                reaper.clear();
            }
            std::process::exit(128 + signal);
        }
    });
}

/// The signals that end the lab. A lab under nohup continues after its terminal has closed.
pub(crate) fn ending_signals() -> impl Iterator<Item = i32> {
    let hup = (!weir_pglocal::is_ignored(Signal::SIGHUP)).then_some(SIGHUP);
    [SIGINT, SIGTERM].into_iter().chain(hup)
}

/// Does not return after the signal to end. Its processes were ended by the signal handler: that is no result, and
/// nothing may be started after it.
fn stay_if_stopping(lab: &Lab) {
    while lab.reaper().clearing() {
        thread::sleep(Duration::from_millis(50));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fs;
    use std::rc::Rc;

    use weir_pglocal::TempFolder;

    use super::*;
    use crate::model::Missing;
    use crate::steps::{Measured, Stage};

    /// An experiment of three steps: one works, one fails, one lacks a program. It records which steps ran.
    struct Trial {
        taken: Rc<RefCell<Vec<String>>>,
    }

    impl Experiment for Trial {
        fn id(&self) -> &'static str {
            "trial"
        }

        fn steps(&self) -> Vec<Step> {
            ["works", "fails", "lacks"].map(|id| Step { id: id.into(), title: id.into(), seconds: 0.1 }).into()
        }

        fn open<'l>(&self, _lab: &'l Lab) -> Result<Box<dyn Stage + 'l>, LabError> {
            Ok(Box::new(Trial { taken: Rc::clone(&self.taken) }))
        }

        fn evaluate(&self, results: &Results) -> model::Experiment {
            let mut evaluation = model::Experiment::empty("trial", "A trial");
            evaluation.setup = vec![format!("{:?}", results.get::<u32>("works"))];
            evaluation
        }
    }

    impl Stage for Trial {
        fn take(&mut self, step: &Step) -> Result<Measured, LabError> {
            self.taken.borrow_mut().push(step.id.clone());
            match step.id.as_str() {
                "works" => Ok(Measured::of("7", &7)),
                "fails" => Err(LabError::Failed("it broke".into())),
                _ => Err(LabError::Missing(Missing { what: "Go".into(), effect: "x".into(), get: "y".into() })),
            }
        }
    }

    fn options(out: &Path, taken: &Rc<RefCell<Vec<String>>>) -> RunOptions {
        RunOptions {
            name: "trial".into(),
            experiments: vec![Box::new(Trial { taken: Rc::clone(taken) })],
            length: Length::Smoke,
            out: Some(out.to_owned()),
            fresh: false,
            weir: None,
            command: "weir-lab trial".into(),
        }
    }

    #[test]
    fn a_failure_and_a_lack_cost_their_step_only_and_are_reported() {
        let parent = TempFolder::new().unwrap();
        let taken = Rc::default();
        let (folder, report) = run(&options(&parent.path().join("out"), &taken)).unwrap();
        assert_eq!(*taken.borrow(), ["works", "fails", "lacks"]);
        let evaluation = &report.experiments[0];
        assert_eq!(evaluation.setup, ["Some(7)"]);
        assert!(evaluation.warnings.contains(&"fails failed: it broke".to_owned()), "{:?}", evaluation.warnings);
        assert_eq!(evaluation.missing[0].what, "Go");
        for file in ["run.json", "report.json", "report.html", "report.txt"] {
            assert!(fs::metadata(folder.join(file)).unwrap().len() > 0, "{file}");
        }
    }

    #[test]
    fn an_interrupted_run_takes_only_the_steps_that_brought_nothing() {
        let parent = TempFolder::new().unwrap();
        let (out, taken) = (parent.path().join("out"), Rc::default());
        let (folder, _) = run(&options(&out, &taken)).unwrap();
        let mut journal = Journal::read(&folder).unwrap();
        journal.run.ended = None;
        journal.save().unwrap();
        taken.borrow_mut().clear();
        run(&options(&out, &taken)).unwrap();
        assert_eq!(*taken.borrow(), ["fails", "lacks"]);
    }

    #[test]
    fn other_programs_on_the_machine_cause_one_warning_however_often_they_disturb() {
        let disturbed = [(0.2, "one".to_owned()), (0.5, "two".to_owned()), (0.3, "three".to_owned())];
        let sentence = disturbance(&disturbed, 9).unwrap();
        assert!(sentence.contains("in 3 of 9 steps; most in “two”, 50%"), "{sentence}");
        assert_eq!(disturbance(&[], 9), None);
    }

    #[test]
    fn a_folder_with_another_run_is_not_overwritten_by_default() {
        let parent = TempFolder::new().unwrap();
        let (out, taken) = (parent.path().join("out"), Rc::default());
        run(&options(&out, &taken)).unwrap();
        let text = run(&options(&out, &taken)).map(|_| ()).unwrap_err().to_string();
        assert!(text.contains("--fresh"), "{text}");
        run(&RunOptions { fresh: true, ..options(&out, &taken) }).unwrap();
    }
}
