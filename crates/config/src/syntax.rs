//! The syntax of TOML, with all of a text's errors: lines without errors are parsed all the same.
//!
//! The parser stops at the first error. So the lines that it can't read are blanked out, and the text is parsed again,
//! with every byte at its old offset. Knows nothing of settings.

mod cause;

use std::ops::Range;

use toml_edit::Document;

pub(crate) use self::cause::Cause;

/// How many errors are collected: for each, the text is parsed again.
const MOST_ERRORS: usize = 50;
/// Of a text longer than this, in bytes, only the first error is reported.
const LONG: usize = 256 * 1024;
/// The parser's message about a repeated key or section.
const DUPLICATE: &str = "duplicate key";

/// A text that is not valid TOML.
pub(crate) struct Broken {
    /// The errors.
    pub(crate) errors: Vec<SyntaxError>,
    /// What can be parsed without the broken lines, if anything.
    pub(crate) rest: Option<Box<Document<String>>>,
}

/// One error.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct SyntaxError {
    /// The error's byte offset in the text.
    pub(crate) at: Option<usize>,
    pub(crate) message: String,
    pub(crate) cause: Cause,
}

/// Parses a text.
pub(crate) fn parse(text: &str) -> Result<Document<String>, Broken> {
    let mut errors: Vec<SyntaxError> = Vec::new();
    let mut rest = text.to_owned();
    let mut last = None;
    loop {
        let error = match Document::parse(rest.clone()) {
            Ok(document) if errors.is_empty() => return Ok(document),
            Ok(document) => return Err(Broken { errors, rest: Some(Box::new(document)) }),
            Err(error) => error,
        };
        let (message, at) = (error.message().to_owned(), error.span().map(|span| span.start));
        let broken = at.and_then(|at| BrokenLines::find(&rest, at, &message));
        let cause = broken.as_ref().map_or(Cause::Other, |broken| broken.cause);
        let begin = broken.as_ref().filter(|_| cause == Cause::Open).map(|broken| broken.lines.start);
        let line = begin.or(at).map(|at| &rest[line_at(&rest, at.min(rest.len()))]);
        let message = line.and_then(|line| cause.message(line)).unwrap_or_else(|| format!("not valid TOML: {message}"));
        let error = SyntaxError { at: begin.or(at), message, cause };
        // An error that stays at its offset has its cause further up.
        let is_same = last.replace((at, error.message.clone())) == Some((at, error.message.clone()));
        match errors.last_mut().filter(|_| is_same) {
            Some(before) => *before = error,
            None => errors.push(error),
        }
        match broken {
            Some(broken) if errors.len() < MOST_ERRORS && text.len() <= LONG => blank_out(&mut rest, broken.lines),
            _ => return Err(Broken { errors, rest: None }),
        }
    }
}

/// The lines that an error makes unreadable.
struct BrokenLines {
    lines: Range<usize>,
    cause: Cause,
}

impl BrokenLines {
    fn find(text: &str, at: usize, message: &str) -> Option<BrokenLines> {
        let own = line_at(text, at.min(text.len()));
        let line = &text[own.clone()];
        let cause =
            if message == DUPLICATE { Cause::Twice } else { Cause::of_line(line, message, |line| !is_wrong(line)) };
        if line.trim_start().starts_with('[') && (message == DUPLICATE || is_wrong(line)) {
            // Without its first line, a section's keys would belong to the section above.
            return Some(BrokenLines { lines: own.start..next_section(text, own.end), cause });
        }
        if message == DUPLICATE {
            return Some(BrokenLines { lines: own.start..end_of_value(text, &own), cause });
        }
        if is_wrong(line) {
            return Some(BrokenLines { lines: own, cause });
        }
        let mut above = own;
        while above.start > 0 {
            above = line_at(text, above.start - 1);
            if is_wrong(&text[above.clone()]) {
                return Some(BrokenLines { lines: above, cause: Cause::Open });
            }
        }
        None
    }
}

/// Whether a line alone is not valid TOML.
fn is_wrong(line: &str) -> bool {
    Document::parse(line).is_err()
}

/// The line around an offset, with its line end.
fn line_at(text: &str, at: usize) -> Range<usize> {
    let bytes = text.as_bytes();
    let start = bytes[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |before| before + 1);
    let end = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |behind| at + behind + 1);
    start..end
}

fn next_section(text: &str, from: usize) -> usize {
    let mut at = from;
    while at < text.len() && !text[at..].trim_start_matches([' ', '\t']).starts_with('[') {
        at = line_at(text, at).end;
    }
    at
}

/// The end of the value that begins in a line: a list may have several lines.
fn end_of_value(text: &str, line: &Range<usize>) -> usize {
    let mut end = line.end;
    while end < text.len() && is_wrong(&text[line.start..end]) {
        end = line_at(text, end).end;
    }
    if is_wrong(&text[line.start..end]) { line.end } else { end }
}

fn blank_out(text: &mut String, lines: Range<usize>) {
    let blank: String = text[lines.clone()].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
    text.replace_range(lines, &blank);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of the errors, negative if something is not closed, and the keys that were read.
    fn broken(text: &str) -> (Vec<isize>, Vec<String>) {
        let Err(Broken { errors, rest }) = parse(text) else { panic!("{text} is TOML") };
        let line = |error: &SyntaxError| {
            let line = 1 + text[..error.at.unwrap()].matches('\n').count() as isize;
            if error.cause == Cause::Open { -line } else { line }
        };
        let keys = rest.into_iter().flat_map(|rest| keys_of(rest.as_table(), ""));
        let mut lines: Vec<_> = errors.iter().map(line).collect();
        lines.sort_unstable_by_key(|line| line.abs());
        (lines, keys.collect())
    }

    fn keys_of(table: &dyn toml_edit::TableLike, before: &str) -> Vec<String> {
        let each = table.iter().map(|(key, item)| match item.as_table_like() {
            Some(table) => keys_of(table, &format!("{before}{key}.")),
            None => vec![format!("{before}{key}")],
        });
        each.flatten().collect()
    }

    fn names(keys: &[&str]) -> Vec<String> {
        keys.iter().map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn every_broken_line_is_found_and_all_others_are_read() {
        let text = "[a]\nb = 127.0.0.1\nc = 1\nd = yes\nport 5\ne = \"x\n[f]\ng = 'é\nh = 2\n";
        assert_eq!(broken(text), (vec![2, 4, 5, 6, 8], names(&["a.c", "f.h"])));
    }

    #[test]
    fn what_is_not_closed_is_found_where_it_begins() {
        assert_eq!(broken("[a]\nb = [1, 2\nc = 3\nd = 4\n"), (vec![-2], names(&["a.c", "a.d"])));
        assert_eq!(broken("[a]\nb = \"\"\"x\nc = 3\n[d]\ne = 4\n"), (vec![-2], names(&["a.c", "d.e"])));
        assert_eq!(broken("[a]\nb = { x = 1\nc = 3\n"), (vec![-2], names(&["a.c"])));
    }

    #[test]
    fn what_stands_twice_is_left_out_the_second_time() {
        assert_eq!(broken("[a]\nb = 1\nb = [\n2,\n3]\nc = 4\n"), (vec![3], names(&["a.b", "a.c"])));
        assert_eq!(broken("[a]\nb = 1\n[a]\nx = 2\n[c]\nd = 1\n"), (vec![3], names(&["a.b", "c.d"])));
        assert_eq!(broken("[a\nx = 2\n[c]\nd = 1\n"), (vec![1], names(&["c.d"])));
    }

    #[test]
    fn text_without_quotes_is_recognized() {
        let cause = |line: &str| parse(line).err().unwrap().errors.remove(0).cause;
        for line in ["host = 127.0.0.1", "type = trust", "mode = session # x", "size = 10k", "log =/var/log"] {
            assert_eq!(cause(line), Cause::Bare, "{line}");
        }
        for line in ["yes", "on", "off # x", "True"] {
            assert_eq!(cause(&format!("log = {line}")), Cause::Switch, "{line}");
        }
        for line in ["port = 5432,", "host = \"x\";", "on = true,"] {
            assert_eq!(cause(line), Cause::Trailing, "{line}");
        }
        for line in ["port 6432", "host"] {
            assert_eq!(cause(line), Cause::NoValue, "{line}");
        }
        for line in ["host = \"x", "host = 'x", "host = \"a\\\"", "host = \"x # y"] {
            assert_eq!(cause(line), Cause::Unquoted, "{line}");
        }
        for line in ["host = \"\"\"x", "host = == 1"] {
            assert_eq!(cause(line), Cause::Other, "{line}");
        }
    }

    /// As a newcomer makes them, each with the words that name it: none are the parser's own.
    #[test]
    fn mistakes_are_named_in_the_words_of_who_writes_the_file() {
        let cases = [
            ("password = “x”", "the value of \"password\" is in typographic quotes"),
            (
                "password = \"pa\\ss\"",
                "the text of \"password\" has a backslash, which begins an escape in double quotes",
            ),
            (
                "password = \"p\\u12\"",
                "the text of \"password\" has a backslash, which begins an escape in double quotes",
            ),
            ("password = \"pa\"ss\"", "something follows the closing quote of \"password\""),
            ("size = 99999999999999999999", "the number of \"size\" is too large"),
            ("port = 06432", "the number of \"port\" begins with 0"),
            ("host =", "\"host\" has no value"),
            ("host = # x", "\"host\" has no value"),
            ("pool size = 5", "the name before the \"=\" has a character that needs quotes"),
            ("[listen", "the section's name has no closing bracket"),
            ("[pools.my app]", "the section [pools.my app] has a name that needs quotes"),
            ("[pools.*]", "the section [pools.*] has a name that needs quotes"),
            ("; words", "this is no comment of TOML"),
            ("// words", "this is no comment of TOML"),
            ("{\"pools\": {}}", "this is JSON, and the file must be TOML"),
            ("users = [\"a\" \"b\"]", "the list of \"users\" has a value without quotes, or lacks a comma"),
            ("users = [a]", "the list of \"users\" has a value without quotes, or lacks a comma"),
            ("users = [\"a\"\n[listen]", "the list of \"users\" is not closed, or lacks a comma"),
            ("users = [\n\"a\"\n\"b\"\n]", "a comma is missing before this value"),
            ("users = { a = 1", "the braces of \"users\" are not closed, or lack a comma"),
            ("text = \"\"\"x\n[listen]", "the text of \"text\" is not closed"),
        ];
        for (text, message) in cases {
            let Err(Broken { errors, .. }) = parse(text) else { panic!("{text} is TOML") };
            assert_eq!(errors[0].message, message, "{text}");
            assert!(!errors[0].cause.hint().is_empty());
        }
        for text in
            ["users = [\n\"hush\"\n[listen]\nport = 1", "password = \"\"\"\nhush\n[listen]\nport = 1", "x = [\nhush\n]"]
        {
            let Err(Broken { errors, .. }) = parse(text) else { panic!("{text} is TOML") };
            assert!(errors.iter().all(|error| !error.message.contains("hush")), "{text}: {errors:?}");
        }
    }

    #[test]
    fn it_ends_whatever_is_wrong() {
        for text in
            ["x\n".repeat(1000), "[".repeat(1000), "a = [\n".repeat(1000), "a = \"\"\"\n'''\n".repeat(99), "\0".into()]
        {
            let Err(Broken { errors, .. }) = parse(&text) else { panic!("{text} is TOML") };
            assert!((1..=MOST_ERRORS).contains(&errors.len()));
        }
        assert_eq!(parse(&"x\n".repeat(LONG)).err().unwrap().errors.len(), 1);
    }
}
