//! Lines, fields and words of PostgreSQL's access files (its documentation, "The pg_hba.conf File": records, quotes,
//! comments, continued lines).
//!
//! Must not know the meaning of a record. Every text has fields or an error; a word remembers whether it was quoted,
//! because a quoted keyword is an ordinary name.

use std::borrow::Cow;
use std::fmt;

/// The most characters of the operator's text that an error repeats.
const MAX_SHOWN: usize = 60;

/// An error in a line of an HBA or ident file, and how to fix it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuleError {
    /// The line number, from 1; for a continued line that of its first line.
    pub line: usize,
    /// One sentence, without the line.
    pub message: String,
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for RuleError {}

/// A word of a line, without its quotes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// May be a keyword.
    Bare(String),
    /// Started with a quote: always a name.
    Quoted(String),
}

impl Word {
    /// The word's text.
    pub(crate) fn text(&self) -> &str {
        let (Word::Bare(text) | Word::Quoted(text)) = self;
        text
    }

    /// The word's text if it may be a keyword, otherwise an empty text.
    pub(crate) fn keyword(&self) -> &str {
        match self {
            Word::Bare(text) => text,
            Word::Quoted(_) => "",
        }
    }
}

/// Words separated by commas. Never empty.
pub(crate) type Field = Vec<Word>;

/// Reads every line that is not empty; collects the errors of all invalid lines.
pub(crate) fn records<T>(
    text: &str,
    mut record: impl FnMut(usize, Vec<Field>) -> Result<T, String>,
) -> Result<Vec<T>, Vec<RuleError>> {
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (number, line) in lines(text) {
        match fields(&line)
            .and_then(|fields| if fields.is_empty() { Ok(None) } else { record(number, fields).map(Some) })
        {
            Ok(read) => good.extend(read),
            Err(message) => bad.push(RuleError { line: number, message }),
        }
    }
    if bad.is_empty() { Ok(good) } else { Err(bad) }
}

/// The lines of a text with their numbers; a line that ends with a backslash continues in the next one.
fn lines(text: &str) -> impl Iterator<Item = (usize, Cow<'_, str>)> {
    let mut physical = text.lines().zip(1..);
    std::iter::from_fn(move || {
        let (line, number) = physical.next()?;
        let Some(begin) = line.strip_suffix('\\') else { return Some((number, Cow::Borrowed(line))) };
        let mut whole = begin.to_owned();
        for (more, _) in physical.by_ref() {
            let Some(more) = more.strip_suffix('\\') else {
                whole.push_str(more);
                break;
            };
            whole.push_str(more);
        }
        Some((number, Cow::Owned(whole)))
    })
}

/// The fields of a line. Blanks around a comma belong to the comma, as in PgBouncer.
pub(crate) fn fields(line: &str) -> Result<Vec<Field>, String> {
    if line.contains('\0') {
        return Err("the line holds a zero byte: save the file as plain text".into());
    }
    let mut fields: Vec<Field> = Vec::new();
    let mut after_comma = false;
    let mut rest = line.trim_start();
    while !rest.is_empty() && !rest.starts_with('#') {
        if let Some(behind) = rest.strip_prefix(',') {
            if fields.is_empty() || after_comma {
                return Err("a comma must stand between two names".into());
            }
            (after_comma, rest) = (true, behind.trim_start());
            continue;
        }
        let (word, behind) = word(rest)?;
        match fields.last_mut().filter(|_| after_comma) {
            Some(field) => field.push(word),
            None => fields.push(vec![word]),
        }
        (after_comma, rest) = (false, behind.trim_start());
    }
    if after_comma { Err("a comma must stand between two names".into()) } else { Ok(fields) }
}

/// The first word of `text`, and the rest. A quote may start anywhere in a word.
fn word(text: &str) -> Result<(Word, &str), String> {
    let mut word = String::new();
    let mut quoted = false;
    let mut chars = text.char_indices().peekable();
    let mut end = text.len();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' if quoted && chars.next_if(|&(_, next)| next == '"').is_some() => word.push('"'),
            '"' => quoted = !quoted,
            _ if !quoted && (c.is_whitespace() || matches!(c, ',' | '#')) => {
                end = at;
                break;
            }
            _ => word.push(c),
        }
    }
    if quoted {
        return Err(format!("a quote is not closed: {}", shown(text)));
    }
    let word = if text.starts_with('"') { Word::Quoted(word) } else { Word::Bare(word) };
    Ok((word, &text[end..]))
}

/// Text of the file for an error: quoted, printable, and bounded.
pub(crate) fn shown(text: &str) -> String {
    let begin: String = text.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(MAX_SHOWN).is_some() { "…" } else { "" };
    format!("\"{begin}{more}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare(text: &str) -> Word {
        Word::Bare(text.into())
    }

    fn quoted(text: &str) -> Word {
        Word::Quoted(text.into())
    }

    #[test]
    fn fields_are_separated_by_blanks_and_their_words_by_commas() {
        let expected = vec![vec![bare("host")], vec![bare("a"), bare("b"), bare("c")], vec![bare("all")]];
        assert_eq!(fields("  host\ta,b , c\u{b} all\r").unwrap(), expected);
    }

    #[test]
    fn quotes_keep_blanks_commas_and_hashes_and_double_to_mean_themselves() {
        let read = fields(r#""a , b#" "q1""q2" """" "" map="x y" "al"l"#).unwrap();
        let words: Vec<_> = read.into_iter().flatten().collect();
        assert_eq!(
            words,
            [quoted("a , b#"), quoted("q1\"q2"), quoted("\""), quoted(""), bare("map=x y"), quoted("all")]
        );
    }

    #[test]
    fn a_quote_must_be_closed() {
        for (line, quoted) in [("a \"b c", "\"\\\"b c\""), ("\"\"\"", "\"\\\"\\\"\\\"\""), ("a\"#", "\"a\\\"#\"")] {
            assert_eq!(fields(line).unwrap_err(), format!("a quote is not closed: {quoted}"));
        }
    }

    #[test]
    fn a_hash_ends_the_line_wherever_it_is_not_quoted() {
        assert_eq!(fields("all# \"never read").unwrap(), [vec![bare("all")]]);
        assert_eq!(fields(" # all").unwrap(), Vec::<Field>::new());
        assert_eq!(fields(" \t ").unwrap(), Vec::<Field>::new());
    }

    #[test]
    fn commas_are_allowed_between_names_and_nowhere_else() {
        for line in [",a", "a,", "a,,b", ",", "a, # b"] {
            assert_eq!(fields(line).unwrap_err(), "a comma must stand between two names", "{line}");
        }
    }

    #[test]
    fn a_backslash_at_the_end_of_a_line_continues_it_even_in_quotes_and_comments() {
        let joined: Vec<_> = lines("a \\\nb\\\r\nc\n#x\\\ny\n\nlast\\").map(|(n, l)| (n, l.into_owned())).collect();
        let expected = [(1, "a bc"), (4, "#xy"), (6, ""), (7, "last")];
        assert_eq!(joined, expected.map(|(n, l)| (n, l.to_owned())));
    }

    #[test]
    fn every_invalid_line_is_reported_with_its_number() {
        let read = records("a\n\"\n\n# ,\nb,\n\0", |_, fields| Ok(fields.len()));
        let lines: Vec<_> = read.unwrap_err().iter().map(|error| error.line).collect();
        assert_eq!(lines, [2, 5, 6]);
    }

    #[test]
    fn errors_show_long_and_unprintable_texts_bounded_and_printable() {
        assert_eq!(shown("a\u{1b}[0m"), "\"a\\u{1b}[0m\"");
        assert!(shown(&"x".repeat(1 << 20)).len() < 80);
    }
}
