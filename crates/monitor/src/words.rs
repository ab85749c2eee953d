//! Figures in sentences.

/// A time in the two units that suit it: `250 ms`, `12 s`, `2 min 14 s`, `3 h 5 min`. In seconds.
pub fn span(seconds: f64) -> String {
    let two = |large: u64, name: &str, small: u64, other: &str| match small {
        0 => format!("{large} {name}"),
        _ => format!("{large} {name} {small} {other}"),
    };
    match seconds {
        seconds if seconds < 0.01 => format!("{} ms", trimmed(seconds * 1e3)),
        seconds if seconds < 0.9995 => format!("{:.0} ms", seconds * 1e3),
        seconds if seconds < 9.95 => format!("{} s", trimmed(seconds)),
        seconds => match seconds.round() as u64 {
            whole if whole < 60 => format!("{whole} s"),
            whole if whole < 3600 => two(whole / 60, "min", whole % 60, "s"),
            whole if whole < 86_400 => two(whole / 3600, "h", whole % 3600 / 60, "min"),
            whole => two(whole / 86_400, "d", whole % 86_400 / 3600, "h"),
        },
    }
}

/// With one decimal, where it is not zero.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_units_that_suit_it() {
        let said = [0.0, 0.0042, 0.25, 0.9999, 1.25, 12.3, 133.632, 3600.0, 11_100.0, 90_000.0].map(span);
        assert_eq!(
            said,
            ["0 ms", "4.2 ms", "250 ms", "1 s", "1.2 s", "12 s", "2 min 14 s", "1 h", "3 h 5 min", "1 d 1 h"]
        );
    }
}
