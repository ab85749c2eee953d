//! Which texts have a literal that PostgreSQL reads by the clock, once, when the text is parsed: `'today'::date`.
//!
//! Source: PostgreSQL's documentation, "Date/Time Types", "Special Values".

use super::steps;

/// The words that mean a time, in literals. (`epoch`, `infinity` and `allballs` mean always the same.)
const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// Whether a text has such a word in quotes; in doubt, as where the word is in a longer literal, it says yes. Reads the text
/// once.
pub fn reads_clock(text: &[u8]) -> bool {
    let (mut quoted, mut at) = (false, 0);
    while let Some(&byte) = text.get(at) {
        if !byte.is_ascii_alphabetic() {
            // A quote within a literal is two, and what is between them is none of the words.
            quoted ^= byte == b'\'';
            at += 1;
            steps::count(1);
            continue;
        }
        let length = text[at..].iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(text.len() - at);
        steps::count(length);
        if quoted && WORDS.iter().any(|word| text[at..at + length].eq_ignore_ascii_case(word)) {
            return true;
        }
        at += length;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_in_quotes_is_read_by_the_clock() {
        for text in [
            "SELECT 'now'::timestamptz",
            "select * from t where d = ' Today '",
            "insert into t values ('it''s', E'YESTERDAY')",
            "select timestamp '12:00 tomorrow'",
        ] {
            assert!(reads_clock(text.as_bytes()), "{text}");
        }
        for text in
            ["select now(), today from t where a = 'x'", "select 'nowhere', \"today\"", "select 'epoch', 'snow'", ""]
        {
            assert!(!reads_clock(text.as_bytes()), "{text}");
        }
    }
}
