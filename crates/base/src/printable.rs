//! Untrusted text made safe to print: one line, in written order, with nothing hidden.

use std::fmt::{self, Write as _};

/// Shows a text with escapes (`\n`, `\u{202e}`) for characters that end the line, control a terminal, change the
/// direction of the following text, or are invisible. All other characters are unchanged, also quotes and backslashes.
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(pub &'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_str("\\r")?,
                '\t' => f.write_str("\\t")?,
                c if is_hidden(c) => write!(f, "{}", c.escape_unicode())?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Whether a character must be escaped: controls (C0 and C1), ends of lines and paragraphs, directions, joiners and
/// spaces without width, tags (Unicode's categories Cc, Cf, Zl and Zp).
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
            | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e007f}')
}

/// The longest beginning of a text that has at most this many bytes, without a part of a character.
pub fn prefix(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_mislead_is_escaped_and_all_else_stays() {
        let shown = |text: &str| Printable(text).to_string();
        assert_eq!(shown("a\nb\r\tc\u{1b}[2J"), "a\\nb\\r\\tc\\u{1b}[2J");
        assert_eq!(shown("\u{202e}nna\u{2066}\u{85}\u{9b}\u{2028}"), "\\u{202e}nna\\u{2066}\\u{85}\\u{9b}\\u{2028}");
        for plain in ["it's \"C:\\x\"", "Zoë Ångström", "日本語 नमस्ते", "🙂"] {
            assert_eq!(shown(plain), plain);
        }
    }

    #[test]
    fn a_prefix_ends_between_two_characters() {
        let prefixes = [0, 1, 2, 3, 9].map(|most| prefix("aéb", most));
        assert_eq!(prefixes, ["", "a", "a", "aé", "aéb"]);
    }
}
