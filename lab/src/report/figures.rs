//! The format of figures and times: the same in a table, a chart, a page and a comparison.
//!
//! Measured figures have three significant digits, since more would be noise; an article's figures are shown as
//! printed there. Thousands are separated by a comma, as in the text of the pages.

use jiff::Timestamp;

use crate::model::{NO_CHANGE, NO_DIFFERENCE, Value};

/// Between a figure and its spread.
const THIN: char = '\u{202f}';
/// If one side of a spread is this many times the other, both are shown.
const LOPSIDED: f64 = 2.5;
/// Shown in place of NaN.
const NONE: &str = "–";

/// A measured figure: three significant digits, whole numbers without decimals.
pub(super) fn measured(value: f64) -> String {
    write(value, decimals(value))
}

/// A figure of an article: whole, or with up to three decimals when small.
pub(super) fn printed(value: f64) -> String {
    let size = value.abs();
    let places = match size {
        _ if whole(value) => 0,
        _ if size >= 10.0 => 2,
        _ if size >= 1.0 => 3,
        _ => decimals(value),
    };
    trimmed(write(value, places))
}

/// A figure at an axis.
pub(super) fn tick(value: f64) -> String {
    trimmed(measured(value))
}

/// The largest distance of a repetition from the figure: `± 12`, or `+40 −3` if one side is far longer; `None` for one
/// repetition.
pub(super) fn spread(value: &Value) -> Option<String> {
    let Value::Number { value, spread: Some((least, most)) } = value else { return None };
    let (below, above) = ((value - least).max(0.0), (most - value).max(0.0));
    let away = below.max(above);
    // As many decimals as the figure has, and more if the spread would vanish.
    let places = if away > 0.0 && !whole(away) { decimals(*value).max(decimals(away).saturating_sub(2)) } else { 0 };
    let lopsided = away > LOPSIDED * below.min(above) && away > value.abs() / 20.0;
    Some(if lopsided {
        format!("+{}{THIN}−{}", write(above, places), write(below, places))
    } else {
        format!("±{THIN}{}", write(away, places))
    })
}

/// A figure or words, as measured here, with the spread.
pub(super) fn ours(value: &Value) -> String {
    match value {
        Value::Number { value: number, .. } => match spread(value) {
            Some(spread) => format!("{}{THIN}{spread}", measured(*number)),
            None => measured(*number),
        },
        Value::Text(text) => text.clone(),
    }
}

/// A figure or words of an article.
pub(super) fn published(value: &Value) -> String {
    match value {
        Value::Number { value, .. } => printed(*value),
        Value::Text(text) => text.clone(),
    }
}

/// A change in per cent with its sign, such as `+33%`.
pub(super) fn percent(change: f64) -> String {
    if change.abs() < NO_CHANGE {
        return NO_DIFFERENCE.to_owned();
    }
    let places = if change.abs() < 10.0 { 1 } else { 0 };
    let sign = if change > 0.0 { "+" } else { "" };
    format!("{sign}{}%", write(change, places))
}

/// A sentence whose numbers have the separator of thousands that tables have: `12169` becomes `12,169`.
pub(super) fn in_sentence(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(from.len());
        let (number, after) = from.split_at(from[..end].trim_end_matches(',').len());
        out.push_str(before);
        out.push_str(&grouped(before, number, after).unwrap_or_else(|| number.to_owned()));
        rest = after;
    }
    out + rest
}

/// The digits between these texts in groups, if they are a number of their own: no port, date, version or decimals.
fn grouped(before: &str, number: &str, after: &str) -> Option<String> {
    let digits: String = number.split(',').collect();
    let groups_of_three = number.split(',').skip(1).all(|group| group.len() == 3);
    let alone = before.chars().next_back().is_none_or(|c| c.is_whitespace() || "(–+−".contains(c));
    let ends = !after.starts_with(|c: char| c == '-' || c == ':' || c == '_' || c.is_alphabetic());
    let port = before.trim_end().ends_with("port");
    let counts = digits.len() > 3 && !digits.starts_with('0') && groups_of_three && alone && ends && !port;
    if counts { digits.parse().ok().map(|number| write(number, 0)) } else { None }
}

/// A number of bytes: `3.9 GiB`.
pub(super) fn bytes(bytes: u64) -> String {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    #[allow(clippy::cast_precision_loss)]
    let gib = bytes as f64 / GIB;
    format!("{gib:.1} GiB")
}

/// A number of things with its word: `1 claim`, `3 claims`.
pub(super) fn count(n: usize, thing: &str) -> String {
    format!("{n} {thing}{}", if n == 1 { "" } else { "s" })
}

/// An RFC 3339 time for people: `2026-11-21 06:24 UTC`. An invalid one is left as it is.
pub(super) fn moment(rfc3339: &str) -> String {
    match rfc3339.parse::<Timestamp>() {
        Ok(when) => when.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        Err(_) => rfc3339.to_owned(),
    }
}

/// The time between two RFC 3339 times: `8 min`.
pub(super) fn between(began: &str, ended: &str) -> Option<String> {
    let (began, ended) = (began.parse::<Timestamp>().ok()?, ended.parse::<Timestamp>().ok()?);
    let seconds = u64::try_from(ended.as_second() - began.as_second()).ok()?;
    Some(match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", (seconds + 30) / 60),
        _ => format!("{} h {:02} min", seconds / 3600, seconds % 3600 / 60),
    })
}

fn whole(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < 1e15
}

/// The decimals that show three significant digits.
fn decimals(value: f64) -> usize {
    if whole(value) || !value.is_finite() {
        return 0;
    }
    // The exponent after rounding to three digits: 9.996 counts as 10.0.
    let text = format!("{:.2e}", value.abs());
    let exponent: i32 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    usize::try_from((2 - exponent).clamp(0, 12)).unwrap_or(0)
}

fn write(value: f64, places: usize) -> String {
    if !value.is_finite() {
        return NONE.to_owned();
    }
    if value.abs() >= 1e15 {
        return format!("{value:.2e}");
    }
    let text = format!("{:.places$}", value.abs());
    let (digits, fraction) = text.split_once('.').map_or((text.as_str(), None), |(d, f)| (d, Some(f)));
    let mut out = String::new();
    if value < 0.0 && text.bytes().any(|b| b.is_ascii_digit() && b != b'0') {
        out.push('−');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// Without zeros at the end of its decimals.
fn trimmed(text: String) -> String {
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(THIN, " ")
    }

    #[test]
    fn measured_figures_have_three_digits_and_whole_ones_all_of_theirs() {
        for (value, text) in [
            (344.2, "344"),
            (16.96, "17.0"),
            (9.996, "10.0"),
            (1.7563, "1.76"),
            (0.012_34, "0.0123"),
            (0.0, "0"),
            (-0.0, "0"),
            (5.0, "5"),
            (1702.88, "1,703"),
            (206_768.0, "206,768"),
            (12_345_678.9, "12,345,679"),
            (-8.5, "−8.50"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
            (1e18, "1.00e18"),
        ] {
            assert_eq!(plain(&measured(value)), text, "{value}");
        }
    }

    #[test]
    fn published_figures_are_written_as_they_were_printed() {
        for (value, text) in [
            (1702.88, "1,702.88"),
            (258.0, "258"),
            (26.86, "26.86"),
            (1.756, "1.756"),
            (0.5, "0.5"),
            (4.0 / 3.0, "1.333"),
        ] {
            assert_eq!(plain(&printed(value)), text, "{value}");
        }
    }

    #[test]
    fn a_spread_never_vanishes_by_rounding_and_one_figure_has_none() {
        let value = |value, least, most| Value::Number { value, spread: Some((least, most)) };
        assert_eq!(plain(&ours(&value(344.2, 331.9, 350.0))), "344 ± 12");
        assert_eq!(plain(&ours(&value(344.2, 344.1, 344.25))), "344 ± 0.1");
        assert_eq!(plain(&ours(&value(17.04, 16.9, 17.3))), "17.0 ± 0.3");
        assert_eq!(plain(&ours(&value(17.0, 17.0, 17.0))), "17 ± 0");
        assert_eq!(plain(&ours(&Value::number(344.2))), "344");
    }

    #[test]
    fn a_spread_much_longer_on_one_side_tells_both() {
        let value = |value, least, most| Value::Number { value, spread: Some((least, most)) };
        assert_eq!(plain(&ours(&value(1.19, 1.07, 2.79))), "1.19 +1.60 −0.12");
        assert_eq!(plain(&ours(&value(100.0, 99.0, 104.0))), "100 ± 4");
    }

    #[test]
    fn numbers_in_sentences_are_written_as_those_in_tables() {
        for (text, written) in [
            ("served 12169 (11000–13000), 24,624 lost.", "served 12,169 (11,000–13,000), 24,624 lost."),
            ("3843 and 3848 TPS", "3,843 and 3,848 TPS"),
            ("4880 TPS; 1234.5 ms; 12,345/s", "4,880 TPS; 1,234.5 ms; 12,345/s"),
            ("999, 100, 20 at once", "999, 100, 20 at once"),
            (
                "port 6432, 127.0.0.1:54321, 2026-11-21, PgBouncer 1.25, 0.1234",
                "port 6432, 127.0.0.1:54321, 2026-11-21, PgBouncer 1.25, 0.1234",
            ),
        ] {
            assert_eq!(plain(&in_sentence(text)), written, "{text}");
        }
    }

    #[test]
    fn times_read_as_people_say_them() {
        assert_eq!(moment("2026-11-21T06:24:06Z"), "2026-11-21 06:24 UTC");
        assert_eq!(moment("<yesterday>"), "<yesterday>");
        assert_eq!(between("2026-11-21T06:24:06Z", "2026-11-21T06:32:10Z").as_deref(), Some("8 min"));
        assert_eq!(between("2026-11-21T06:24:06Z", "2026-11-21T10:25:10Z").as_deref(), Some("4 h 01 min"));
        assert_eq!(between("2026-11-21T06:24:06Z", "2026-11-21T06:24:05Z"), None);
        assert_eq!(plain(&percent(33.41)), "+33%");
        assert_eq!(plain(&percent(-0.52)), "−0.5%");
        assert_eq!(percent(-0.05), "no difference");
    }
}
