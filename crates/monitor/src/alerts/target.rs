//! One target of alerts: its queue, its retries, and how it does.
//!
//! A message is tried at most [`TRIES`] times, with growing pauses; one that the target refuses as such (a status of
//! 4xx) is not tried again. The queue is bounded: the oldest message goes first. An address is resolved for each try,
//! and is in no error text.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use weir_admin::AlertNotice;
use weir_fetch::{HttpRequest, SendHttp};

use super::shapes::TargetKind;
use crate::ask::Workers;
use crate::clock;
use crate::lock::lock;
use crate::reference::resolve;

/// Messages that wait for a target.
const MOST_QUEUED: usize = 100;
/// Tries of a message, and the pauses between them: 1 s, 2 s, 4 s, … up to the longest.
const TRIES: u32 = 8;
const LONGEST_PAUSE: u64 = 60;

/// A target; its task is [`run`](Target::run).
pub(super) struct Target {
    kind: TargetKind,
    send: SendHttp,
    workers: Workers,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    /// As configured: an address, or where it stands.
    reference: Option<String>,
    pagerduty_url: String,
    source: String,
    queue: VecDeque<AlertNotice>,
    sent: u64,
    dropped: u64,
    last_sent: Option<f64>,
    error: Option<(String, f64)>,
}

/// How a target does.
#[derive(Debug, Serialize)]
pub struct TargetReport {
    pub(crate) kind: &'static str,
    pub(crate) configured: bool,
    pub(crate) queued: usize,
    pub(crate) sent: u64,
    /// Messages that were given up.
    pub(crate) dropped: u64,
    /// Seconds since 1970.
    last_sent: Option<f64>,
    /// Why the last message could not be sent, and since when none could.
    pub(crate) error: Option<String>,
    error_since: Option<f64>,
}

/// What came of a test message.
#[derive(Serialize)]
pub struct TestResult {
    kind: &'static str,
    ok: bool,
    error: Option<String>,
}

/// Why a message was not sent.
struct NotSent {
    why: String,
    /// Whether another try may help.
    again: bool,
}

impl Target {
    pub(super) fn new(kind: TargetKind, send: SendHttp, workers: Workers) -> Target {
        Target { kind, send, workers, state: Mutex::default(), wake: Notify::new() }
    }

    /// Takes the settings that are in force.
    pub(super) fn follow(&self, alerts: &weir_config::Alerts) {
        let mut state = lock(&self.state);
        let now = self.kind.configured(alerts);
        if state.reference.as_deref() != now {
            state.reference = now.map(str::to_owned);
            state.error = None;
        }
        if state.pagerduty_url != alerts.pagerduty_url {
            state.pagerduty_url.clone_from(&alerts.pagerduty_url);
        }
    }

    /// Queues messages, if the target is configured.
    pub(super) fn queue(&self, notices: &[AlertNotice], source: &str) {
        let mut state = lock(&self.state);
        if state.reference.is_none() {
            return;
        }
        source.clone_into(&mut state.source);
        for notice in notices {
            if state.queue.len() >= MOST_QUEUED {
                state.queue.pop_front();
                state.dropped += 1;
            }
            state.queue.push_back(notice.clone());
        }
        drop(state);
        self.wake.notify_one();
    }

    /// Queues what fires, for a target that takes silence as an end.
    pub(super) fn refresh(&self, firing: &[AlertNotice]) {
        let source = {
            let state = lock(&self.state);
            if self.kind != TargetKind::Alertmanager || !state.queue.is_empty() {
                return;
            }
            state.source.clone()
        };
        self.queue(firing, &source);
    }

    /// Sends what is queued, one message after the other.
    pub(super) async fn run(&self) {
        loop {
            let next = lock(&self.state).queue.front().cloned();
            match next {
                None => self.wake.notified().await,
                Some(notice) => self.deliver(&notice).await,
            }
        }
    }

    /// Sends the first message, or gives it up.
    async fn deliver(&self, notice: &AlertNotice) {
        for tried in 0..TRIES {
            let source = lock(&self.state).source.clone();
            let sent = self.try_once(notice, &source).await;
            self.note(&sent);
            match sent {
                Err(NotSent { again: true, .. }) if tried + 1 < TRIES => {
                    sleep(Duration::from_secs((1 << tried).min(LONGEST_PAUSE))).await;
                }
                Err(_) => {
                    lock(&self.state).dropped += 1;
                    break;
                }
                Ok(()) => break,
            }
        }
        let mut state = lock(&self.state);
        // A full queue has lost its first message meanwhile.
        if state.queue.front() == Some(notice) {
            state.queue.pop_front();
        }
    }

    /// Notes the result of a try; the log has the first failure, and that it works again.
    fn note(&self, sent: &Result<(), NotSent>) {
        let now = clock::now().as_secs_f64();
        let mut state = lock(&self.state);
        let line = match sent {
            Ok(()) => {
                (state.sent, state.last_sent) = (state.sent + 1, Some(now));
                state.error.take().map(|_| format!("alerts: {} works again", self.kind.name()))
            }
            Err(NotSent { why, .. }) => {
                let since = state.error.as_ref().map(|(_, since)| *since);
                state.error = Some((why.clone(), since.unwrap_or(now)));
                since.is_none().then(|| format!("alerts: {} can't be reached: {why}", self.kind.name()))
            }
        };
        drop(state);
        if let Some(line) = line {
            self.workers.log(line);
        }
    }

    async fn try_once(&self, notice: &AlertNotice, source: &str) -> Result<(), NotSent> {
        let (reference, pagerduty) = {
            let state = lock(&self.state);
            (state.reference.clone(), state.pagerduty_url.clone())
        };
        let fails = |why: String, again| NotSent { why, again };
        let reference = reference.ok_or_else(|| fails("it is not configured".to_owned(), false))?;
        let (send, kind, notice, source) = (self.send.clone(), self.kind, notice.clone(), source.to_owned());
        let work = move || {
            let secret = resolve(&reference).map_err(|why| fails(why, true))?;
            let now = clock::now().as_micros() as u64;
            let body = kind.body(&notice, &source, &secret, now).to_string();
            let request = HttpRequest::post(&kind.url(&secret, &pagerduty), "application/json", body.into_bytes());
            match send(&request).map(|answer| answer.status) {
                Ok(200..300) => Ok(()),
                Ok(status) => Err(fails(format!("the answer was {status}"), matches!(status, 408 | 429 | 500..))),
                Err(why) => Err(fails(concealed(&why, &[&secret, &request.url]), true)),
            }
        };
        spawn_blocking(work).await.unwrap_or_else(|_| Err(fails("the process ends".to_owned(), false)))
    }

    /// Sends a test message once; nothing if the target is not configured.
    pub(super) async fn test(&self, notice: &AlertNotice, source: &str) -> Option<TestResult> {
        lock(&self.state).reference.as_ref()?;
        let sent = self.try_once(notice, source).await;
        self.note(&sent);
        let error = sent.err().map(|error| error.why);
        Some(TestResult { kind: self.kind.name(), ok: error.is_none(), error })
    }

    pub(super) fn report(&self) -> TargetReport {
        let state = lock(&self.state);
        TargetReport {
            kind: self.kind.name(),
            configured: state.reference.is_some(),
            queued: state.queue.len(),
            sent: state.sent,
            dropped: state.dropped,
            last_sent: state.last_sent,
            error: state.error.as_ref().map(|(why, _)| why.clone()),
            error_since: state.error.as_ref().map(|(_, since)| *since),
        }
    }
}

/// An error's text without these secrets, on one line.
fn concealed(why: &str, secrets: &[&str]) -> String {
    let text = secrets.iter().fold(why.to_owned(), |text, secret| text.replace(secret, "(its address)"));
    text.lines().next().unwrap_or_default().chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_is_too_long_or_no_file_is_refused_by_its_name() {
        let file = std::env::temp_dir().join(format!("weir-target-long-{}", std::process::id()));
        let refused = |path: &str| resolve(&format!("file:{path}")).expect_err("it is refused");
        let path = file.display().to_string();
        fs::write(&file, vec![b'x'; (64 << 10) + 1]).expect("it is written");
        assert_eq!(refused(&path), format!("{path}: longer than 65536 bytes: it must have one address"));
        fs::write(&file, vec![b'x'; 5000]).expect("it is written");
        assert_eq!(refused(&path), "what it refers to is longer than 4096 bytes: it must be one address");
        fs::write(&file, "\n").expect("it is written");
        assert_eq!(refused(&path), "what it refers to is empty");
        fs::remove_file(&file).expect("it was there");
        assert_eq!(refused("/dev/zero"), "/dev/zero: not a regular file");
        assert_eq!(refused("/tmp"), "/tmp: not a regular file");
    }

    #[test]
    fn an_address_may_stand_elsewhere_and_is_in_no_error() {
        let file = std::env::temp_dir().join(format!("weir-target-{}", std::process::id()));
        fs::write(&file, "http://h/SECRET\n").expect("it is written");
        assert_eq!(resolve(&format!("file:{}", file.display())).as_deref(), Ok("http://h/SECRET"));
        assert_eq!(resolve("http://h/x").as_deref(), Ok("http://h/x"));
        assert!(resolve("env:WEIR_NO_SUCH_VARIABLE").is_err());
        fs::remove_file(&file).expect("it was there");
        assert!(resolve(&format!("file:{}", file.display())).is_err());
        for endless in ["/dev/zero", "/"] {
            assert!(resolve(&format!("file:{endless}")).is_err(), "{endless}");
        }
        let shown = concealed("POST http://h/SECRET: refused\nmore", &["http://h/SECRET"]);
        assert_eq!(shown, "POST (its address): refused");
    }
}
