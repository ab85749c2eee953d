//! How often something was sent to a collector of telemetry, for the metrics, which are sent there themselves.

use std::sync::{Arc, Mutex};

use crate::lock::lock;

/// The counts; cheap to clone.
#[derive(Clone, Default)]
pub struct ExportCounter(Arc<Mutex<ExportCounts>>);

impl ExportCounter {
    /// What was counted.
    pub(crate) fn now(&self) -> ExportCounts {
        *lock(&self.0)
    }

    /// Counts.
    pub(crate) fn count(&self, count: impl FnOnce(&mut ExportCounts)) {
        count(&mut lock(&self.0));
    }
}

/// Counts since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ExportCounts {
    /// Requests with metrics that the collector has accepted, and that failed.
    pub(crate) metrics: (u64, u64),
    /// Requests with spans that the collector has accepted, and that failed.
    pub(crate) spans: (u64, u64),
    /// Spans that were lost.
    pub(crate) spans_dropped: u64,
}

impl ExportCounts {
    /// Each signal's name, with its accepted and failed requests.
    pub(crate) fn named(&self) -> [(&'static str, u64, u64); 2] {
        [("metrics", self.metrics.0, self.metrics.1), ("traces", self.spans.0, self.spans.1)]
    }
}
