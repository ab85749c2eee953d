//! Asks Patroni for the workers' helpers.
//!
//! Must not know when a question is due.

use std::sync::Arc;
use std::time::Duration;

use weir_fetch::{HttpRequest, sender};
use weir_runtime::AskPatroni;

/// How long Patroni may take to answer; it looks at its PostgreSQL before.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Asks Patroni: only the status counts, and nothing else is read.
pub(crate) fn ask_patroni() -> AskPatroni {
    let send = sender();
    Arc::new(move |question| {
        let ca_file = question.ca_file.clone();
        let request = HttpRequest { ca_file, timeout: TIMEOUT, longest: 0, ..HttpRequest::get(&question.url) };
        send(&request).map(|answer| answer.status)
    })
}
