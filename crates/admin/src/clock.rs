//! Wall-clock time as text. Reads no clock: the caller passes the time.

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

/// Year, month and day of the Gregorian calendar, from a count of days since 1970-01-01. Years are counted from March,
/// so that a leap day comes last; an era of 400 years has 146,097 days.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // from 0000-03-01 to 1970-01-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
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
