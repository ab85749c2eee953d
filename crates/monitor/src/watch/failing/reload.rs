//! A file that can't be read again, or whose settings wait for a restart.

use weir_admin::{LastReload, Report};
use weir_base::plural;

use crate::faults::FaultView;

/// The fault that the last reload failed, or that it is not whole before a restart.
pub(super) fn fault(report: &Report) -> Option<FaultView> {
    let last = report.last_reload.as_ref()?;
    last.error.as_ref().map(|error| failed(last, error)).or_else(|| waiting(last))
}

fn waiting(last: &LastReload) -> Option<FaultView> {
    let settings = last.restart.join(", ");
    let several = last.restart.len() > 1;
    (!last.restart.is_empty()).then(|| FaultView {
        kind: "reload",
        problem: false,
        summary: format!(
            "{settings} {} in the file, which only {} at a restart.",
            if several { "have new values" } else { "has a new value" },
            if several { "take effect" } else { "takes effect" },
        ),
        advice: "Restart Weir, or `weir upgrade` without a break for clients; or undo the change, and reload."
            .to_owned(),
        since: last.at as f64 / 1e6,
        ..FaultView::default()
    })
}

fn failed(last: &LastReload, error: &str) -> FaultView {
    let mut lines = error.lines();
    let (first, more) = (lines.next().unwrap_or_default(), lines.count());
    let more =
        if more > 0 { format!(" ({})", plural(more as u64, "more mistake", "more mistakes")) } else { String::new() };
    FaultView {
        kind: "reload",
        problem: true,
        summary: format!(
            "The last reload failed, and the old configuration is still in force: {}{more}. A restart would fail, too.",
            first.trim_end_matches(['.', '?'])
        ),
        advice: "Correct the file until `weir check` accepts it, and reload.".to_owned(),
        since: last.at as f64 / 1e6,
        ..FaultView::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_not_be_read_again_is_a_fault_until_it_can() {
        let ended = |error: Option<&str>, restart: &[&str]| Report {
            last_reload: Some(LastReload {
                at: 5_000_000,
                error: error.map(str::to_owned),
                restart: restart.iter().map(|key| (*key).to_owned()).collect(),
                worked_at: None,
            }),
            ..Report::default()
        };
        let found =
            fault(&ended(Some("weir.toml: line 3: no number\nline 4: no host"), &["listen.port"])).expect("a fault");
        assert_eq!((found.kind, found.since), ("reload", 5.0));
        assert!(found.summary.contains("line 3: no number (1 more mistake)"), "{found:?}");
        assert!(fault(&ended(None, &[])).is_none());
        let waits = fault(&ended(None, &["general.workers", "listen.port"])).expect("a fault");
        assert!(
            !waits.problem && waits.summary.starts_with("general.workers, listen.port have new values"),
            "{waits:?}"
        );
    }
}
