//! Times and sizes as text: `500ms`, `5s`, `2min`, `1h`, `256MiB`.

use weir_base::{Span, civil};

const TIME_UNITS: &[(&str, u64)] =
    &[("us", 1), ("ms", 1_000), ("s", 1_000_000), ("min", 60_000_000), ("h", 3_600_000_000), ("d", 86_400_000_000)];

/// Sizes count in steps of 1024, as in PostgreSQL's settings, whichever way the unit is spelled.
const SIZE_UNITS: &[(&str, u64)] = &[
    ("B", 1),
    ("kB", 1 << 10),
    ("KiB", 1 << 10),
    ("MB", 1 << 20),
    ("MiB", 1 << 20),
    ("GB", 1 << 30),
    ("GiB", 1 << 30),
];

/// Reads a time; a number without a unit counts seconds. `None` if it is no time.
pub fn span(text: &str) -> Option<Span> {
    scaled(text, TIME_UNITS, 1_000_000).map(Span::from_micros)
}

/// Reads a time of the calendar in UTC, `2026-07-01T12:00:00Z`, as seconds since 1970; `None` if it is none.
pub fn moment(text: &str) -> Option<u64> {
    let (date, time) = text.trim().strip_suffix('Z')?.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let valid = (1970..=9999).contains(&year) && hour < 24 && minute < 60 && second < 60;
    let day = (days_before(year)..days_before(year + 1)).find(|days| civil(*days) == (year, month, day));
    day.filter(|_| valid).map(|days| days * 86_400 + hour * 3_600 + minute * 60 + second)
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten();
    let parts: Vec<u64> = text.split(between).map(digits).collect::<Option<_>>()?;
    parts.try_into().ok()
}

/// The days from 1970 to the begin of a year; 0 for an earlier one.
fn days_before(year: u64) -> u64 {
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    let year = year.clamp(1970, 10_000) - 1;
    (year - 1969) * 365 + leaps(year) - leaps(1969)
}

/// The text of seconds since 1970 that [`moment`] reads; empty for 0.
pub fn moment_text(seconds: u64) -> String {
    if seconds == 0 {
        return String::new();
    }
    let (year, month, day) = civil(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Reads a size; a number without a unit counts bytes. `None` if it is no size.
pub(crate) fn size(text: &str) -> Option<u64> {
    scaled(text, SIZE_UNITS, 1)
}

/// A time as PgBouncer shows it: in seconds, with a fraction only where there is one.
pub(crate) fn seconds(span: Span) -> String {
    let (whole, micros) = (span.micros() / 1_000_000, span.micros() % 1_000_000);
    if micros == 0 {
        return whole.to_string();
    }
    format!("{whole}.{micros:06}").trim_end_matches('0').to_owned()
}

/// A time in the largest unit that gives a whole number.
pub(crate) fn brief(span: Span) -> String {
    let micros = span.micros();
    if micros == 0 {
        return "0".to_owned();
    }
    let (unit, length) =
        *TIME_UNITS.iter().rev().find(|(_, length)| micros.is_multiple_of(*length)).unwrap_or(&TIME_UNITS[0]);
    format!("{}{unit}", micros / length)
}

/// A size in the largest unit that gives a whole number.
pub(crate) fn brief_size(bytes: u64) -> String {
    let binary = [("GiB", 1u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fit = binary.iter().find(|(_, length)| bytes != 0 && bytes.is_multiple_of(*length));
    fit.map_or_else(|| bytes.to_string(), |(unit, length)| format!("{}{unit}", bytes / length))
}

/// A number, maybe with a fraction, times its unit; fractions of the smallest unit are dropped.
fn scaled(text: &str, units: &[(&str, u64)], bare: u64) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start());
    let scale = match unit {
        "" => bare,
        unit => units.iter().find(|(name, _)| *name == unit)?.1,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let whole = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let digits = fraction.get(..fraction.len().min(9))?;
    let part = u128::from(digits.parse::<u64>().ok()?) * u128::from(scale) / 10u128.pow(digits.len() as u32);
    whole.checked_add(u64::try_from(part).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_are_shown() {
        for (seconds, text) in [
            (1, "1970-01-01T00:00:01Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!((moment(text), moment_text(seconds).as_str()), (Some(seconds), text));
        }
        for text in
            ["", "2026-07-01", "2026-02-29T00:00:00Z", "2026-07-01T24:00:00Z", "2026-07-01T12:00:00", "x-y-zT1:2:3Z"]
        {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn times_are_read_with_and_without_a_unit() {
        let micros = |text| span(text).map(Span::micros);
        assert_eq!(micros("5"), Some(5_000_000));
        assert_eq!(micros("0.5"), Some(500_000));
        assert_eq!(micros("500ms"), Some(500_000));
        assert_eq!(micros(" 2 min "), Some(120_000_000));
        assert_eq!(micros("1.5h"), Some(5_400_000_000));
        assert_eq!(micros("0"), Some(0));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "s", "-1", "1 week", "1.2.3", ".", "1.", "nan", "inf", "1e9", "99999999999999999999", "٣s"] {
            assert_eq!(span(text), None, "{text:?}");
        }
        assert_eq!(span("18446744073709551615d"), None, "an overflow is no time");
    }

    #[test]
    fn sizes_count_in_steps_of_1024() {
        assert_eq!(size("256MiB"), Some(256 << 20));
        assert_eq!(size("1.5GB"), Some(3 << 29));
        assert_eq!(size("100"), Some(100));
        assert_eq!(size("1TB"), None);
    }

    #[test]
    fn times_and_sizes_are_shown_as_they_may_be_written() {
        assert_eq!(seconds(Span::from_secs(120)), "120");
        assert_eq!(seconds(Span::from_millis(1_050)), "1.05");
        assert_eq!(brief(Span::from_secs(120)), "2min");
        assert_eq!(brief(Span::from_secs(90)), "90s");
        assert_eq!(brief(Span::from_millis(1_050)), "1050ms");
        assert_eq!(brief(Span::ZERO), "0");
        assert_eq!(brief_size(256 << 20), "256MiB");
        assert_eq!(brief_size(0), "0");
        assert_eq!(brief_size(1000), "1000");
    }
}
