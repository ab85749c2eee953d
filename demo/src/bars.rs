//! Bars and sparklines made of block characters.

/// A bar of at most `width` characters for `part` of `whole`, drawn to an eighth of a character.
pub(super) fn bar(part: usize, whole: usize, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (part.min(whole) * width * 8).checked_div(whole).unwrap_or(0);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A sparkline: a block a value, scaled to the highest of them; zero is a low dot.
pub(super) fn sparkline(values: &[usize]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let level = |value: usize| if value == 0 { '·' } else { LEVELS[(value * 8).div_ceil(most).clamp(1, 8) - 1] };
    values.iter().map(|value| level(*value)).collect()
}

/// Reduces `values` to at most `count`: neighbours become one, the highest of them.
pub(super) fn downsample(values: &[usize], count: usize) -> Vec<usize> {
    let together = values.len().div_ceil(count.max(1)).max(1);
    values.chunks(together).filter_map(|chunk| chunk.iter().max().copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_full_for_the_whole_and_empty_for_nothing() {
        assert_eq!(bar(150, 150, 4), "████");
        assert_eq!(bar(75, 150, 3), "█▌");
        assert_eq!(bar(0, 150, 4), "");
        assert_eq!(bar(1, 0, 4), "");
    }

    #[test]
    fn a_sparkline_shows_its_highest_value_full() {
        assert_eq!(sparkline(&[0, 1, 8, 4]), "·▁█▄");
        assert_eq!(sparkline(&[]), "");
    }

    #[test]
    fn neighbours_are_reduced_to_the_highest_of_them() {
        assert_eq!(downsample(&[1, 5, 2, 3, 9], 3), [5, 3, 9]);
        assert_eq!(downsample(&[1, 2], 40), [1, 2]);
        assert!(downsample(&[], 40).is_empty());
    }
}
