//! Texts of servers and clients as one line of bounded length, for the log, the console and the panel.

use std::borrow::Cow;

use weir_base::prefix;

/// The longest text that is kept, in bytes.
pub(crate) const MAX_MESSAGE: usize = 500;

/// The text without control characters, shortened if it is long.
pub(crate) fn one_line(text: &str) -> String {
    prefix(text, MAX_MESSAGE).replace(|c: char| c.is_control(), " ")
}

/// A name that a client has given, as an identifier of SQL: a quote in it is doubled, so that it never reads like Weir's
/// own words.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A name of a user or a pool within a sentence: as it is where it is one plain word, otherwise [`quoted`]. Where logins and
/// pools are made on demand, clients choose these names, too.
#[must_use]
pub fn identifier(name: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let starts_plain = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let ends_plain = !name.ends_with(['.', '-']);
    match starts_plain && ends_plain && name.chars().all(is_plain) {
        true => name.into(),
        false => quoted(name).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_plain_word_is_quoted_and_never_leaves_its_quotes() {
        for plain in ["shop", "shop-2", "db.example.org", "_x", "7"] {
            assert_eq!(identifier(plain), plain);
        }
        for (name, expected) in [
            ("", "\"\""),
            ("a b", "\"a b\""),
            ("shop. All is well", "\"shop. All is well\""),
            ("shop.", "\"shop.\""),
            ("x\" is down", "\"x\"\" is down\""),
            ("café", "\"café\""),
        ] {
            assert_eq!(identifier(name), expected);
        }
    }
}
