//! The tokens of a console command.
//!
//! Owns how a query is split into names, texts and signs; knows no command. Every byte belongs to a token, to space or
//! to a comment, else the whole query is refused.

use std::borrow::Cow;

/// A name, a text or a sign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Token<'a> {
    /// A bare word or `"a quoted name"`, unquoted; case is kept.
    Name(Cow<'a, str>),
    /// `'a text'`, unquoted.
    Text(Cow<'a, str>),
    /// `=`
    Equals,
    /// `;`
    Semicolon,
}

impl Token<'_> {
    /// Whether the token separates a setting from its value: `=` or `TO`.
    pub(crate) fn is_assignment(&self) -> bool {
        match self {
            Token::Equals => true,
            Token::Name(word) => word.eq_ignore_ascii_case("to"),
            _ => false,
        }
    }
}

/// Splits `text` into tokens; `None` if a character starts no token, or a quote or a comment does not end.
pub(crate) fn tokens(text: &str) -> Option<Vec<Token<'_>>> {
    let mut found = Vec::new();
    let mut rest = skip_space(text)?;
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            ';' => (Token::Semicolon, &rest[1..]),
            '=' => (Token::Equals, &rest[1..]),
            '"' => quoted(rest, "\"").map(|(name, after)| (Token::Name(name), after))?,
            '\'' => quoted(rest, "'").map(|(text, after)| (Token::Text(text), after))?,
            _ => word(rest)?,
        };
        found.push(token);
        rest = skip_space(after)?;
    }
    Some(found)
}

/// The rest after space and comments; `None` if a comment does not end. Comments are SQL's (PostgreSQL's
/// documentation, section 4.1.5): to the end of the line, or between `/*` and `*/`, nested.
fn skip_space(mut text: &str) -> Option<&str> {
    loop {
        let trimmed = text.trim_start();
        text = if trimmed.starts_with("--") {
            trimmed.find('\n').map_or("", |end| &trimmed[end..])
        } else if trimmed.starts_with("/*") {
            skip_block(trimmed)?
        } else {
            return Some(trimmed);
        };
    }
}

/// The rest after the block comment that `text` begins with.
fn skip_block(text: &str) -> Option<&str> {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        match &text.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return Some(&text[at..]);
        }
    }
    None
}

/// The content of the quotes that `text` begins with, a doubled quote made single, and the rest.
fn quoted<'a>(text: &'a str, quote: &str) -> Option<(Cow<'a, str>, &'a str)> {
    let body = &text[1..];
    let mut from = 0;
    loop {
        let end = from + body[from..].find(quote)?;
        if !body[end + 1..].starts_with(quote) {
            let inside = &body[..end];
            let single = || inside.replace(&quote.repeat(2), quote).into();
            return Some((if from == 0 { inside.into() } else { single() }, &body[end + 1..]));
        }
        from = end + 2;
    }
}

/// The bare word that `text` begins with, and the rest. It ends at a comment, so `app--x` is the word `app`.
fn word(text: &str) -> Option<(Token<'_>, &str)> {
    let length = text.find(|c: char| !is_word(c)).unwrap_or(text.len());
    let length = text[..length].find("--").unwrap_or(length);
    (length > 0).then(|| (Token::Name(text[..length].into()), &text[length..]))
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$' | '*' | '@' | ':' | '+' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Token<'_> {
        Token::Name(text.into())
    }

    #[test]
    fn names_texts_and_signs_are_distinguished() {
        let found = tokens("SET \"a\"\"b\"='it''s' ;").unwrap();
        assert_eq!(found, [name("SET"), name("a\"b"), Token::Equals, Token::Text("it's".into()), Token::Semicolon]);
        assert_eq!(tokens("PAUSE test-pool;").unwrap(), [name("PAUSE"), name("test-pool"), Token::Semicolon]);
        assert_eq!(tokens("\"\"''").unwrap(), [name(""), Token::Text("".into())]);
        assert_eq!(tokens("''''").unwrap(), [Token::Text("'".into())]);
    }

    #[test]
    fn comments_are_skipped_also_nested_ones() {
        assert_eq!(tokens("/* a /* b */ c */SHOW--x\n pools -- y").unwrap(), [name("SHOW"), name("pools")]);
        assert_eq!(tokens("show/**/pools").unwrap(), [name("show"), name("pools")]);
        assert_eq!(tokens("'--x' \"/*\"").unwrap(), [Token::Text("--x".into()), name("/*")]);
    }

    #[test]
    fn what_does_not_end_or_has_no_meaning_is_refused() {
        for text in ["'a", "\"a", "/* a", "/* /* */", "(", "show pools, x", "a\\b", "'''"] {
            assert_eq!(tokens(text), None, "{text}");
        }
    }
}
