//! A file that can't be read again.

use weir_admin::Report;
use weir_base::plural;

use crate::faults::Fault;

/// The fault that the last reload failed.
pub(super) fn fault(report: &Report) -> Option<Fault> {
    let last = report.last_reload.as_ref()?;
    let mut lines = last.error.as_ref()?.lines();
    let (first, more) = (lines.next().unwrap_or_default(), lines.count());
    let more =
        if more > 0 { format!(" ({})", plural(more as u64, "more mistake", "more mistakes")) } else { String::new() };
    Some(Fault {
        kind: "reload",
        problem: true,
        summary: format!(
            "The last reload failed, and the old configuration is still in force: {first}{more}. A restart would fail, too."
        ),
        advice: "Correct the file, which `weir check` does not accept either, and reload.".to_owned(),
        since: last.at as f64 / 1e6,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_can_not_be_read_again_is_a_fault_until_it_can() {
        let ended = |error: Option<&str>| Report {
            last_reload: Some(weir_admin::LastReload { at: 5_000_000, error: error.map(str::to_owned) }),
            ..Report::default()
        };
        let found = fault(&ended(Some("weir.toml: line 3: no number\nline 4: no host"))).expect("a fault");
        assert_eq!((found.kind, found.since), ("reload", 5.0));
        assert!(found.summary.contains("line 3: no number (1 more mistake)"), "{found:?}");
        assert!(fault(&ended(None)).is_none());
    }
}
