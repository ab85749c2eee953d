//! Numbers with their nouns.

/// A number and its noun: `1 query`, `4 queries`.
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        assert_eq!([0, 1, 4].map(|n| plural(n, "query", "queries")), ["0 queries", "1 query", "4 queries"]);
    }
}
