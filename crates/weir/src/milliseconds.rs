//! Times as a person reads them.

/// Milliseconds in a suitable unit.
pub(crate) fn time(milliseconds: Option<f64>) -> String {
    match milliseconds {
        None => "–".to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(ms) if ms < 0.95 => format!("{:.0} µs", ms * 1e3),
        Some(ms) if ms < 9.95 => format!("{ms:.1} ms"),
        Some(ms) if ms < 999.5 => format!("{ms:.0} ms"),
        Some(ms) => format!("{:.1} s", ms / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_that_suits_them() {
        let times = [None, Some(0.0), Some(0.25), Some(1.25), Some(120.0), Some(2_500.0)].map(time);
        assert_eq!(times, ["–", "0", "250 µs", "1.2 ms", "120 ms", "2.5 s"]);
    }
}
