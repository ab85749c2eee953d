//! Exports to an OpenTelemetry collector (`[telemetry]`), by OTLP over HTTP in JSON: the metrics of `/metrics`, and
//! spans.
//!
//! Metrics are cumulative, so one that was not sent is in the next; spans that can't be sent are dropped and counted.
//! There is no queue. The log has the first failure, one line in ten minutes while it lasts, and the end. Without an
//! endpoint two tasks wait for one, and nothing else is done.

mod metrics;
mod spans;

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand_core::{OsRng, RngCore};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use weir_config::Telemetry as Settings;
use weir_fetch::{HttpRequest, SendHttp};

use crate::alerts::AlertWatch;
use crate::ask::Workers;
use crate::clock;
use crate::export_counts::ExportCounter;
use crate::lock::lock;
use crate::metrics::Scrape;
use crate::reference::resolve;

/// How often spans are taken from the workers.
const SPANS_EVERY: Duration = Duration::from_secs(1);
/// Queries of a request with spans.
const BATCH: usize = 512;
/// How often the log repeats that exports fail.
const REMIND: Duration = Duration::from_secs(600);

/// Exports; cheap to clone.
#[derive(Clone)]
pub struct TelemetryExport(Arc<Inner>);

struct Inner {
    send: SendHttp,
    workers: Workers,
    alerts: AlertWatch,
    version: &'static str,
    started: u128,
    settings: watch::Sender<Settings>,
    counts: ExportCounter,
    /// Since when the log has a failure that lasts.
    reported: Mutex<Option<Instant>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Signal {
    Metrics,
    Spans,
}

impl TelemetryExport {
    /// Sends nothing before the configuration has an endpoint. `version`: Weir's.
    pub fn new(workers: &Workers, alerts: &AlertWatch, send: &SendHttp, version: &'static str) -> TelemetryExport {
        TelemetryExport(Arc::new(Inner {
            send: send.clone(),
            workers: workers.clone(),
            alerts: alerts.clone(),
            version,
            started: clock::now().as_nanos(),
            settings: watch::Sender::new(Settings::default()),
            counts: ExportCounter::default(),
            reported: Mutex::default(),
        }))
    }

    /// Takes the settings that are in force.
    pub(crate) fn follow(&self, settings: &Settings) {
        self.0.settings.send_if_modified(|now| {
            let differs = now != settings;
            if differs {
                now.clone_from(settings);
            }
            differs
        });
    }

    /// How often something was sent.
    pub fn counter(&self) -> ExportCounter {
        self.0.counts.clone()
    }

    /// Sends metrics at each interval.
    pub async fn export_metrics(self) {
        let mut changes = self.0.settings.subscribe();
        loop {
            let settings = changes.borrow_and_update().clone();
            if settings.endpoint.is_none() || !settings.metrics {
                let Ok(()) = changes.changed().await else { return };
                continue;
            }
            if timeout(Duration::from_micros(settings.interval.micros()), changes.changed()).await.is_ok() {
                continue;
            }
            let Ok((report, config)) = self.0.workers.report().await else { continue };
            let scrape = Scrape::new(report, &config, self.0.version, self.0.counts.now(), &self.0.alerts);
            let metrics = metrics::metrics(&scrape, self.0.started, clock::now().as_nanos());
            let scope = json!([{"scope": self.scope(), "metrics": metrics}]);
            let resource = metrics::resource(&settings.resource, self.0.version);
            let body = json!({"resourceMetrics": [{"resource": resource, "scopeMetrics": scope}]});
            self.export(Signal::Metrics, &settings, &body, 0).await;
        }
    }

    /// Sends spans as their queries end.
    pub async fn export_spans(self) {
        let mut changes = self.0.settings.subscribe();
        loop {
            let settings = changes.borrow_and_update().clone();
            if !settings.makes_spans() {
                let Ok(()) = changes.changed().await else { return };
                continue;
            }
            if timeout(SPANS_EVERY, changes.changed()).await.is_ok() {
                continue;
            }
            let Ok(report) = self.0.workers.spans().await else { continue };
            self.0.counts.count(|counts| counts.spans_dropped += report.spans_dropped);
            for batch in report.spans.chunks(BATCH) {
                let spans = spans::spans(batch, || OsRng.next_u64());
                let number = spans.len() as u64;
                let scope = json!([{"scope": self.scope(), "spans": spans}]);
                let resource = metrics::resource(&settings.resource, self.0.version);
                let body = json!({"resourceSpans": [{"resource": resource, "scopeSpans": scope}]});
                self.export(Signal::Spans, &settings, &body, number).await;
            }
        }
    }

    fn scope(&self) -> Value {
        json!({"name": "weir", "version": self.0.version})
    }

    /// Sends a body once. `spans` of them are lost if that fails.
    async fn export(&self, signal: Signal, settings: &Settings, body: &Value, spans: u64) {
        let path = match signal {
            Signal::Metrics => "metrics",
            Signal::Spans => "traces",
        };
        let endpoint = settings.endpoint.as_deref().unwrap_or_default().trim_end_matches('/');
        let mut request =
            HttpRequest::post(&format!("{endpoint}/v1/{path}"), "application/json", body.to_string().into());
        request.ca_file.clone_from(&settings.ca_file);
        let (send, headers) = (self.0.send.clone(), settings.headers.clone());
        let work = move || {
            for (name, reference) in headers.iter().filter_map(|header| header.split_once('=')) {
                request.headers.push((name.trim().to_owned(), resolve(reference.trim())?));
            }
            let answer = send(&request)?;
            match answer.status {
                200..300 => rejection(&answer.body).map_or(Ok(()), Err),
                status => Err(format!("the answer was {status}")),
            }
        };
        // Fails only if the process ends.
        let Ok(sent) = spawn_blocking(work).await else { return };
        self.note(signal, sent, spans);
    }

    fn note(&self, signal: Signal, sent: Result<(), String>, spans: u64) {
        self.0.counts.count(|counts| {
            let of_signal = match signal {
                Signal::Metrics => &mut counts.metrics,
                Signal::Spans => &mut counts.spans,
            };
            match sent {
                Ok(()) => of_signal.0 += 1,
                Err(_) => {
                    of_signal.1 += 1;
                    counts.spans_dropped += spans;
                }
            }
        });
        let line = {
            let mut reported = lock(&self.0.reported);
            match sent {
                Ok(()) => reported.take().map(|_| "telemetry: the collector works again".to_owned()),
                Err(why) => {
                    let due = reported.is_none_or(|at| at.elapsed() >= REMIND);
                    if due {
                        *reported = Some(Instant::now());
                    }
                    let why: String = why.lines().next().unwrap_or_default().chars().take(300).collect();
                    due.then(|| format!("telemetry: the collector can't be reached: {why}"))
                }
            }
        };
        if let Some(line) = line {
            self.0.workers.log(line);
        }
    }
}

/// Why a collector has rejected a part of what it has accepted otherwise.
fn rejection(body: &[u8]) -> Option<String> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let partial = body.get("partialSuccess")?;
    let rejected = ["rejectedDataPoints", "rejectedSpans"].iter().find_map(|key| partial.get(key))?;
    let none = *rejected == json!(0) || *rejected == json!("0");
    (!none).then(|| format!("it rejected {rejected}: {}", partial["errorMessage"].as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rejected_part_is_a_failure() {
        assert_eq!(rejection(b""), None);
        assert_eq!(rejection(b"{}"), None);
        assert_eq!(rejection(br#"{"partialSuccess":{}}"#), None);
        assert_eq!(rejection(br#"{"partialSuccess":{"rejectedSpans":"0"}}"#), None);
        let found = rejection(br#"{"partialSuccess":{"rejectedDataPoints":"3","errorMessage":"too old"}}"#);
        assert_eq!(found.as_deref(), Some("it rejected \"3\": too old"));
    }
}
