//! The journal of a run, written to disk after every step, so that an interrupted run can be resumed.
//!
//! Owns a report's folder: `run.json` (this journal), `raw/`, and the names of the finished report's files. A journal
//! belongs to a plan: the experiments, their options, the length, and the program's version. Another plan starts a new
//! one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::steps::{LabError, Outcome};

const FILE: &str = "run.json";

/// The outcomes of one run, and their folder.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    pub(crate) run: Run,
}

/// The journal's content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    /// The plan; equal plans have equal texts.
    pub(crate) plan: String,
    /// The command line.
    pub(crate) command: String,
    /// When the run began, RFC 3339.
    pub(crate) began: String,
    /// When the run's report was written; `None` while steps are left.
    pub(crate) ended: Option<String>,
    /// By experiment and step.
    pub(crate) outcomes: BTreeMap<String, BTreeMap<String, Outcome>>,
    /// Programs and their versions so far.
    pub(crate) versions: BTreeMap<String, String>,
}

impl Journal {
    /// Starts a new run in `folder`, which is created.
    pub(crate) fn begin(folder: PathBuf, plan: String, command: String, began: String) -> Result<Journal, LabError> {
        let raw = folder.join("raw");
        fs::create_dir_all(&raw).map_err(|e| LabError::at(format!("create {}", raw.display()), e))?;
        let (outcomes, versions) = (BTreeMap::new(), BTreeMap::new());
        let journal = Journal { folder, run: Run { plan, command, began, ended: None, outcomes, versions } };
        journal.save()?;
        Ok(journal)
    }

    /// Reads the run in `folder`, finished or not.
    pub(crate) fn read(folder: &Path) -> Result<Journal, LabError> {
        let file = folder.join(FILE);
        let text = fs::read(&file).map_err(|e| LabError::at(format!("read {}", file.display()), e))?;
        let run = serde_json::from_slice(&text).map_err(|e| LabError::at(file.display(), e))?;
        Ok(Journal { folder: folder.to_owned(), run })
    }

    /// The newest unfinished run of this plan in one of the folders below `parent`.
    pub(crate) fn unfinished(parent: &Path, plan: &str) -> Option<Journal> {
        let folders = fs::read_dir(parent).ok()?.flatten().map(|entry| entry.path());
        let journals = folders.filter_map(|folder| Journal::read(&folder).ok());
        journals.filter(|j| j.run.plan == plan && j.run.ended.is_none()).max_by(|a, b| a.run.began.cmp(&b.run.began))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of raw outputs.
    pub(crate) fn raw(&self) -> PathBuf {
        self.folder.join("raw")
    }

    /// Whether this step has figures. A step that failed or lacked a program is repeated.
    pub(crate) fn has(&self, experiment: &str, step: &str) -> bool {
        matches!(self.outcomes_of(experiment).and_then(|steps| steps.get(step)), Some(Outcome::Done(_)))
    }

    /// The outcomes of one experiment.
    pub(crate) fn outcomes_of(&self, experiment: &str) -> Option<&BTreeMap<String, Outcome>> {
        self.run.outcomes.get(experiment)
    }

    /// Writes an outcome to disk before it returns.
    pub(crate) fn note(&mut self, experiment: &str, step: &str, outcome: Outcome) -> Result<(), LabError> {
        self.run.outcomes.entry(experiment.to_owned()).or_default().insert(step.to_owned(), outcome);
        self.save()
    }

    /// Writes the journal atomically: a reader sees the old text or the new one.
    pub(crate) fn save(&self) -> Result<(), LabError> {
        let text = serde_json::to_vec_pretty(&self.run).expect("plain data with string keys becomes JSON");
        replace(&self.folder.join(FILE), &text)
            .map_err(|e| LabError::at(format!("write to {}", self.folder.display()), e))
    }
}

/// Writes a temporary file and renames it.
pub(crate) fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let beside = path.with_extension("new");
    fs::write(&beside, text)?;
    fs::rename(&beside, path)
}

#[cfg(test)]
mod tests {
    use weir_pglocal::TempFolder;

    use super::*;
    use crate::steps::Measured;

    fn begin(parent: &Path, name: &str, plan: &str, began: &str) -> Journal {
        Journal::begin(parent.join(name), plan.to_owned(), "weir-lab all".to_owned(), began.to_owned()).unwrap()
    }

    #[test]
    fn an_interrupted_run_of_the_same_plan_is_found_with_all_that_it_brought() {
        let parent = TempFolder::new().unwrap();
        begin(parent.path(), "old", "a", "2026-01-01T00:00:00Z");
        let mut newer = begin(parent.path(), "new", "a", "2026-01-02T00:00:00Z");
        begin(parent.path(), "other", "b", "2026-01-03T00:00:00Z");
        newer.note("pgbench", "one", Outcome::Done(Measured::of("1 TPS", &1))).unwrap();
        newer.note("pgbench", "two", Outcome::Failed("it broke".into())).unwrap();
        let found = Journal::unfinished(parent.path(), "a").unwrap();
        assert_eq!(found.run, newer.run);
        assert!(found.has("pgbench", "one") && !found.has("pgbench", "two") && !found.has("pgbench", "three"));
    }

    #[test]
    fn a_finished_run_is_not_resumed() {
        let parent = TempFolder::new().unwrap();
        let mut journal = begin(parent.path(), "x", "a", "2026-01-01T00:00:00Z");
        journal.run.ended = Some("2026-01-01T01:00:00Z".into());
        journal.save().unwrap();
        assert!(Journal::unfinished(parent.path(), "a").is_none());
        assert!(Journal::unfinished(&parent.path().join("nowhere"), "a").is_none());
    }
}
