//! Wall-clock time as text. Reads no clock: the caller passes the time.

use weir_base::civil;

/// `2026-07-01 12:34:56 UTC` for microseconds since 1970; empty for 0, which stands for never.
///
/// PgBouncer prints local time; here it is always UTC, which needs neither a file nor the environment.
pub fn timestamp(micros: u64) -> String {
    if micros == 0 {
        return String::new();
    }
    let seconds = micros / 1_000_000;
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_named_as_the_calendar_names_them() {
        let of = |seconds: u64| timestamp(seconds * 1_000_000);
        assert_eq!(of(1), "1970-01-01 00:00:01 UTC");
        assert_eq!(of(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(of(1_709_251_199), "2024-02-29 23:59:59 UTC");
        assert_eq!(of(1_767_225_599), "2025-12-31 23:59:59 UTC");
        assert_eq!(of(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }

    #[test]
    fn a_moment_that_has_not_come_is_empty() {
        assert_eq!(timestamp(0), "");
    }

    #[test]
    fn no_moment_is_too_late() {
        assert!(timestamp(u64::MAX).ends_with(" UTC"));
    }
}
