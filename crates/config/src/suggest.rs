//! Suggests the known word that a mistyped one probably means.

/// The nearest of `known`, if it is near enough: at most a third of the letters differ, swaps counted once.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word far longer than any setting's name is no typing error, and the comparison would be slow.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    let length = lower.chars().count();
    let with_distance = known.into_iter().filter_map(|known| {
        let most = (length.max(known.len()) / 3).max(1);
        // Names are ASCII. The comparison itself is slow, and a file may hold many unknown words.
        let distance =
            if length.abs_diff(known.len()) > most { None } else { Some(distance(&lower, &known.to_lowercase())) };
        distance
            .filter(|distance| *distance <= most && *distance < length.max(known.len()))
            .map(|distance| (distance, known))
    });
    with_distance.min_by_key(|(distance, _)| *distance).map(|(_, nearest)| nearest)
}

/// The word of a list that was probably meant: the nearest one, or one that begins with what was written.
pub(crate) fn nearest_or_longer<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let begins = || known.iter().copied().find(|known| word.len() >= 3 && known.starts_with(word));
    nearest(word, known.iter().copied()).or_else(begins)
}

/// The edit distance: letters to insert, delete, replace or swap with the next (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_finds_what_was_meant() {
        let known = ["size", "min_size", "mode", "host", "query_timeout"];
        assert_eq!(nearest("sizee", known), Some("size"));
        assert_eq!(nearest("szie", known), Some("size"));
        assert_eq!(nearest("MinSize", known), Some("min_size"));
        assert_eq!(nearest("query_time_out", known), Some("query_timeout"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"size".repeat(1000), known), None);
        assert_eq!(nearest("x", ["y"]), None);
    }
}
