//! What is wrong with Weir itself, and with no single pool: certificates that have expired or will soon, and a disk
//! that refuses the history (with the audit log and the versions of the configuration) or the log, and a configuration
//! file that was changed and would not load.
//!
//! Owns since when. The certificates are read when another configuration is in force, as the ones in use are: a file
//! that was renewed without a reload is still a fault.

use std::sync::{Arc, Mutex};

use serde::{Serialize, Serializer};
use tokio::task::spawn_blocking;
use weir_admin::{CertificateExpiry, ClientNames, ConfigAccess};
use weir_config::Config;

use crate::clock;
use crate::lock::lock;
use crate::pool_health::Affected;

/// A [`weir_admin::Fault`], as the API has it.
#[derive(Clone, PartialEq, Serialize, Debug, Default)]
pub struct FaultView {
    /// The rule of its alert.
    pub(crate) kind: &'static str,
    /// Whether it has consequences now; otherwise it will have.
    pub(crate) problem: bool,
    /// What, and for whom.
    pub(crate) summary: String,
    /// What to do.
    pub(crate) advice: String,
    /// Seconds since 1970: since when, or when it begins.
    pub(crate) since: f64,
    /// When it was last seen, where it lasts for some seconds more; none while it is seen.
    pub(crate) not_seen_since: Option<f64>,
    /// The pool whose clients feel it, if it is one pool's.
    pub(crate) pool: Option<String>,
    /// Clients that feel it, at least.
    pub(crate) clients: u32,
    /// Who they are: the most first.
    #[serde(serialize_with = "most")]
    pub(crate) affected: ClientNames,
}

fn most<S: Serializer>(of: &ClientNames, to: S) -> Result<S::Ok, S::Error> {
    Affected::most(of).serialize(to)
}

impl From<&weir_admin::Fault> for FaultView {
    fn from(of: &weir_admin::Fault) -> FaultView {
        let weir_admin::Fault { kind, problem, summary, advice, since, not_seen_since, pool, clients, affected } =
            of.clone();
        let not_seen_since = (not_seen_since > 0).then_some(not_seen_since as f64 / 1e6);
        FaultView { kind, problem, summary, advice, since: since as f64 / 1e6, not_seen_since, pool, clients, affected }
    }
}

impl From<&FaultView> for weir_admin::Fault {
    fn from(of: &FaultView) -> weir_admin::Fault {
        let FaultView { kind, problem, summary, advice, since, not_seen_since, pool, clients, affected } = of.clone();
        let not_seen_since = not_seen_since.map_or(0, |at| (at * 1e6) as u64);
        weir_admin::Fault {
            kind,
            problem,
            summary,
            advice,
            since: (since * 1e6) as u64,
            not_seen_since,
            pool,
            clients,
            affected,
        }
    }
}

/// The faults; cheap to clone.
#[derive(Clone)]
pub struct Faults(Arc<Inner>);

/// Tries again what could not be written, and returns the error of the disk if it still can't. May block.
pub type Retry = Box<dyn Fn() -> Option<String> + Send + Sync>;

struct Inner {
    access: Arc<dyn ConfigAccess>,
    /// The lists in the folder of the history: versions and the audit log.
    lists: Vec<Retry>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The configuration whose certificates these are.
    config: Option<Arc<Config>>,
    certificates: Vec<CertificateExpiry>,
    /// The configuration's file as it was last seen, and why it would not load.
    file: Option<(u64, u64)>,
    file_error: Option<String>,
    /// When the disks of the history and of the log were first seen to refuse.
    history_since: Option<f64>,
    log_since: Option<f64>,
    /// What was logged last.
    logged: Vec<(&'static str, bool, String)>,
}

impl Faults {
    /// `access`: when certificates expire. `lists`: those in the folder of the history.
    pub fn new(access: Arc<dyn ConfigAccess>, lists: Vec<Retry>) -> Faults {
        Faults(Arc::new(Inner { access, lists, known: Mutex::default() }))
    }

    /// The faults now, the worst first, and a line for the log for each that is new. `figures` and
    /// `logged`: the errors of the figures' disk and of the log's file, if there are any.
    pub(crate) async fn now(
        &self,
        config: &Arc<Config>,
        figures: Option<String>,
        logged: Option<String>,
    ) -> (Vec<FaultView>, Vec<String>) {
        let (faults, config) = (self.clone(), config.clone());
        // Fails only if the process ends.
        let lists = spawn_blocking(move || faults.look(&config)).await.unwrap_or_default();
        self.judge(figures.or(lists), logged)
    }

    /// The faults as `now` returns them, without errors of the figures' disk, on a thread that may block.
    pub(crate) fn now_blocking(&self, config: &Arc<Config>, logged: Option<String>) -> (Vec<FaultView>, Vec<String>) {
        let lists = self.look(config);
        self.judge(lists, logged)
    }

    /// Reads the certificates of another configuration. Returns the first error of the lists.
    fn look(&self, config: &Arc<Config>) -> Option<String> {
        let is_known = lock(&self.0.known).config.as_ref().is_some_and(|known| Arc::ptr_eq(known, config));
        if !is_known {
            let certificates = self.0.access.certificates(config);
            let mut known = lock(&self.0.known);
            (known.certificates, known.config) = (certificates, Some(config.clone()));
        }
        self.look_at_file(config, !is_known);
        // Each of them tries again.
        let errors: Vec<String> = self.0.lists.iter().filter_map(|retry| retry()).collect();
        errors.into_iter().next()
    }

    /// Reads the configuration's file where it was changed. At the first look it is the one that was loaded; after a reload it
    /// is read again only if it would not have loaded.
    fn look_at_file(&self, config: &Config, reloaded: bool) {
        let stamp = self.0.access.file_stamp();
        let is_due = {
            let known = lock(&self.0.known);
            let was_broken = known.file_error.is_some();
            stamp.is_some() && (known.file.is_some_and(|_| known.file != stamp) || (reloaded && was_broken))
        };
        let error = if is_due { self.0.access.preview_reload(config).err().map(|why| why.to_string()) } else { None };
        let mut known = lock(&self.0.known);
        known.file = stamp.or(known.file);
        if is_due {
            known.file_error = error;
        }
    }

    fn judge(&self, error: Option<String>, logged: Option<String>) -> (Vec<FaultView>, Vec<String>) {
        let now = clock::now().as_secs_f64();
        let mut known = lock(&self.0.known);
        let certificates = known.certificates.iter().filter_map(|of| certificate(of, now as i64));
        let mut faults: Vec<FaultView> = certificates.collect();
        known.history_since = error.is_some().then(|| known.history_since.unwrap_or(now));
        faults.extend(error.zip(known.history_since).map(|(error, since)| history(&error, since)));
        known.log_since = logged.is_some().then(|| known.log_since.unwrap_or(now));
        faults.extend(logged.zip(known.log_since).map(|(error, since)| log(&error, since)));
        let written = known.file.map_or(0.0, |(at, _)| at as f64 / 1e6);
        faults.extend(known.file_error.as_ref().map(|error| file(error, written)));
        faults.sort_by_key(|fault| !fault.problem);
        let key = |fault: &FaultView| (fault.kind, fault.problem, fault.advice.clone());
        let new = faults.iter().filter(|fault| !known.logged.contains(&key(fault)));
        let lines = new.map(|fault| format!("{} {}", fault.summary, fault.advice)).collect();
        known.logged = faults.iter().map(key).collect();
        (faults, lines)
    }
}

fn certificate(of: &CertificateExpiry, now: i64) -> Option<FaultView> {
    let summary = of.summary(now)?;
    Some(FaultView {
        kind: "certificate",
        problem: of.is_over(now),
        summary,
        advice: of.advice(),
        since: of.expires as f64,
        ..FaultView::default()
    })
}

fn log(error: &str, since: f64) -> FaultView {
    FaultView {
        kind: "disk",
        problem: true,
        summary: format!(
            "The log can't be written: {error}. Clients are served all the same; lines are lost in this file, and only the last \
             ones are in memory."
        ),
        advice: "Free space on the disk of [log] file, and check that Weir may write there.".to_owned(),
        since,
        ..FaultView::default()
    }
}

fn file(error: &str, written: f64) -> FaultView {
    let first = error.lines().next().unwrap_or_default().trim_end_matches(['.', '?']);
    FaultView {
        kind: "reload",
        problem: false,
        summary: format!(
            "The configuration's file was changed and would not load: {first}. What was loaded before is in force; a reload \
             or a restart would fail."
        ),
        advice: "Correct the file until `weir check` accepts it, and reload.".to_owned(),
        since: written,
        ..FaultView::default()
    }
}

fn history(error: &str, since: f64) -> FaultView {
    FaultView {
        kind: "disk",
        problem: true,
        summary: format!(
            "The history can't be written: {error}. Clients are served all the same; figures, the audit log and versions of \
             the configuration end with the process."
        ),
        advice: "Free space on the disk of [web] history, and check that Weir may write there.".to_owned(),
        since,
        ..FaultView::default()
    }
}

#[cfg(test)]
mod tests {
    use weir_admin::CertificateUse;
    use weir_config::Accounts;

    use super::*;

    struct Files(Mutex<Vec<CertificateExpiry>>);

    /// When a file was written, and why it would not load.
    struct File(Mutex<(u64, Option<&'static str>)>);

    impl ConfigAccess for File {
        fn accounts(&self) -> Arc<Accounts> {
            Arc::default()
        }

        fn file_stamp(&self) -> Option<(u64, u64)> {
            Some((lock(&self.0).0, 7))
        }

        fn preview_reload(&self, _: &Config) -> Result<weir_admin::ChangePreview, weir_admin::ChangeError> {
            lock(&self.0).1.map_or_else(
                || Ok(weir_admin::ChangePreview::default()),
                |error| Err(weir_admin::ChangeError::Unfit(error.to_owned())),
            )
        }
    }

    #[test]
    fn a_file_that_was_changed_and_would_not_load_is_a_warning_until_it_is_corrected_or_another_is_loaded() {
        let written = Arc::new(File(Mutex::new((5_000_000, Some("weir.toml: line 3: no number\nline 9: no host")))));
        let (faults, config) = (Faults::new(written.clone(), Vec::new()), Arc::new(Config::default()));
        assert!(faults.now_blocking(&config, None).0.is_empty(), "the one that was loaded");
        lock(&written.0).0 = 6_000_000;
        let (found, lines) = faults.now_blocking(&config, None);
        assert!(found.len() == 1 && lines.len() == 1 && found[0].since == 6.0, "{found:?}");
        let said = "The configuration's file was changed and would not load: weir.toml: line 3: no number. What";
        assert!(found[0].summary.starts_with(said) && !found[0].problem && found[0].kind == "reload", "{found:?}");
        lock(&written.0).1 = None;
        assert_eq!(faults.now_blocking(&config, None).0.len(), 1, "it was not written again");
        assert!(faults.now_blocking(&Arc::new(Config::default()), None).0.is_empty(), "it was loaded");
    }

    impl ConfigAccess for Files {
        fn accounts(&self) -> Arc<Accounts> {
            Arc::default()
        }

        fn certificates(&self, _: &Config) -> Vec<CertificateExpiry> {
            lock(&self.0).clone()
        }
    }

    fn certificate(purpose: CertificateUse, days: i64) -> CertificateExpiry {
        let now = clock::now().as_secs() as i64;
        CertificateExpiry { purpose, file: "/etc/weir.crt".to_owned(), expires: now + days * 86_400 + 60 }
    }

    #[test]
    fn faults_are_logged_once_the_worst_is_first_and_a_renewed_file_counts_after_a_reload() {
        let both = vec![certificate(CertificateUse::Panel, 9), certificate(CertificateUse::Clients, -1)];
        let files = Arc::new(Files(Mutex::new(both)));
        let list = Arc::new(Mutex::new(None));
        let error = list.clone();
        let faults = Faults::new(files.clone(), vec![Box::new(move || lock(&error).clone())]);
        let config = Arc::new(Config::default());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (now, lines) =
            runtime.block_on(faults.now(&config, Some("/var/weir: No space left on device".to_owned()), None));
        assert_eq!(
            now.iter().map(|fault| (fault.kind, fault.problem)).collect::<Vec<_>>(),
            [("certificate", true), ("disk", true), ("certificate", false)]
        );
        assert!(lines.len() == 3 && lines[1].contains("No space left on device"), "{lines:?}");
        lock(&files.0).clear();
        let (now, lines) = runtime.block_on(faults.now(&config, None, None));
        assert_eq!((now.len(), lines.len()), (2, 0), "Weir still uses the old ones");
        let (now, lines) = runtime.block_on(faults.now(&config, None, Some("/var/log/weir.log: full".to_owned())));
        assert!(now.len() == 3 && lines.len() == 1 && lines[0].contains("[log] file"), "{lines:?}");
        assert!(now.iter().all(|fault| FaultView::from(&weir_admin::Fault::from(fault)).summary == fault.summary));
        assert!(now.iter().all(|fault| weir_admin::FAULT_KINDS.contains(&fault.kind)));
        let config = Arc::new(Config::default());
        assert!(runtime.block_on(faults.now(&config, None, None)).0.is_empty());
        *lock(&list) = Some("/var/weir/audit.done: full".to_owned());
        let (now, lines) = faults.now_blocking(&config, None);
        assert!(now.len() == 1 && lines.len() == 1 && lines[0].contains("audit.done"), "{lines:?}");
        assert_eq!((faults.now_blocking(&config, None).0.len(), faults.now_blocking(&config, None).1.len()), (1, 0));
        *lock(&list) = None;
        assert!(faults.now_blocking(&config, None).0.is_empty());
    }
}
