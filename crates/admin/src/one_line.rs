//! Texts of servers and clients as one line of bounded length, for the log, the console and the panel.

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
