//! Whether a text may call a function that is not known: one that is not PostgreSQL's, or of which its text says not all.
//!
//! Owns the reading of names before parentheses. In doubt it may: what is not understood is unknown.
//!
//! Source: PostgreSQL's documentation, "Function Calls", "Lexical Structure".

use std::borrow::Cow;

use super::built_in;
use super::scan::{Scan, Token};

/// What stands before a name.
#[derive(PartialEq, Eq)]
enum Before<'a> {
    Word(Cow<'a, [u8]>),
    /// `::`, a cast.
    Colon,
    Other,
}

/// A name that is being read, which may have several parts.
struct Name<'a> {
    last: Cow<'a, [u8]>,
    quoted: bool,
    qualifier: Option<Cow<'a, [u8]>>,
    before: Before<'a>,
}

impl Name<'_> {
    /// Whether a parenthesis behind the name may begin the arguments of a function that is not known.
    fn is_unknown_call(&self) -> bool {
        let names_no_function = match &self.before {
            Before::Colon => true,
            Before::Word(word) => matches!(
                &**word,
                b"into" | b"as" | b"table" | b"recursive" | b"copy" | b"only" | b"with" | b"update" | b"execute"
            ),
            Before::Other => false,
        };
        match &self.qualifier {
            _ if names_no_function => false,
            Some(schema) => **schema != b"pg_catalog"[..] || !built_in::is_judged(&self.last),
            None if !self.quoted && built_in::is_word_of_sql(&self.last) => false,
            None => !built_in::is_judged(&self.last),
        }
    }
}

/// Whether a statement that begins with this word runs no functions that its text calls: it defines them, or is about
/// the session.
fn runs_nothing(head: &[u8]) -> bool {
    let heads: [&[u8]; 16] = [
        b"create",
        b"alter",
        b"drop",
        b"grant",
        b"revoke",
        b"comment",
        b"prepare",
        b"set",
        b"reset",
        b"show",
        b"listen",
        b"notify",
        b"lock",
        b"truncate",
        b"vacuum",
        b"analyze",
    ];
    heads.contains(&head)
}

/// Whether a text may call a function that is not known, or is not understood.
pub(super) fn calls_unknown(text: &[u8]) -> bool {
    let mut scan = Scan::whole(text);
    let (mut head, mut runs, mut makes_table) = (true, true, false);
    let mut name: Option<Name<'_>> = None;
    // The last token was a part of the name, a point behind it, a colon.
    let (mut in_name, mut point, mut colon) = (false, false, false);
    loop {
        scan.blank();
        let literal = match scan.peek() {
            Some(b'\'') => scan.any_string().then_some(true),
            Some(b'$') => scan.dollar_value().then_some(true),
            _ => Some(false),
        };
        match literal {
            None => return true,
            Some(true) => {
                (in_name, point, colon, head) = (false, false, false, false);
                continue;
            }
            Some(false) => {}
        }
        let token = scan.token();
        let quoted = matches!(token, Token::Quoted(_));
        match token {
            Token::End => return false,
            Token::Unclear => return true,
            Token::Semicolon => {
                (head, runs, makes_table, in_name, point, colon) = (true, true, false, false, false, false);
                name = None;
            }
            Token::Word(word) | Token::Quoted(word) => {
                if *word == b"e"[..] && !quoted && scan.peek() == Some(b'\'') {
                    if !scan.escaped_string() {
                        return true;
                    }
                    (in_name, point, colon) = (false, false, false);
                    continue;
                }
                if head {
                    (head, runs) = (false, !runs_nothing(&word));
                } else if !runs && matches!(&*word, b"table" | b"materialized") {
                    makes_table = true;
                } else if makes_table && *word == b"as"[..] {
                    runs = true;
                }
                let before = name.take();
                name = Some(match before {
                    Some(before) if point => {
                        Name { last: word, quoted, qualifier: Some(before.last), before: before.before }
                    }
                    Some(before) if in_name => {
                        Name { last: word, quoted, qualifier: None, before: Before::Word(before.last) }
                    }
                    _ => {
                        let before = if colon { Before::Colon } else { Before::Other };
                        Name { last: word, quoted, qualifier: None, before }
                    }
                });
                (in_name, point, colon) = (true, false, false);
            }
            Token::Other(byte) => {
                if byte == b'(' && in_name && runs && name.as_ref().is_some_and(Name::is_unknown_call) {
                    return true;
                }
                (point, colon) = (byte == b'.' && in_name, byte == b':');
                (in_name, head) = (false, false);
            }
            Token::Literal(_) => (in_name, point, colon) = (false, false, false),
        }
    }
}
