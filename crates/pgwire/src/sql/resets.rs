//! Which parameters a text returns to the values that its session began with: RESET, `SET … TO DEFAULT`, DISCARD ALL.

use std::borrow::Cow;

use super::scan::{Scan, Token};

/// A parameter that is reset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reset<'a> {
    /// All of them.
    All,
    /// The one of this name, in lower case unless it was quoted.
    Name(Cow<'a, [u8]>),
}

impl Reset<'_> {
    /// The same apart from the text.
    pub fn into_owned(self) -> Reset<'static> {
        match self {
            Reset::All => Reset::All,
            Reset::Name(name) => Reset::Name(Cow::Owned(name.into_owned())),
        }
    }
}

/// Calls `found` for each parameter that a text resets. What follows a part that is not understood is not read.
pub fn resets(text: &[u8], mut found: impl FnMut(Reset<'_>)) {
    let mut scan = Scan::whole(text);
    loop {
        let mut words = [Token::End, Token::End, Token::End, Token::End, Token::End];
        let mut count = 0;
        let end = loop {
            match scan.token() {
                end @ (Token::Semicolon | Token::End | Token::Unclear) => break end,
                token if count < words.len() => {
                    words[count] = token;
                    count += 1;
                }
                _ => {}
            }
        };
        of_statement(&words[..count], &mut found);
        if end != Token::Semicolon {
            return;
        }
    }
}

fn of_statement(words: &[Token<'_>], found: &mut impl FnMut(Reset<'_>)) {
    let word = |at: usize| match words.get(at) {
        Some(Token::Word(word)) => Some(&**word),
        _ => None,
    };
    let name = |at: usize| match words.get(at) {
        Some(Token::Word(name) | Token::Quoted(name)) => Some(&**name),
        _ => None,
    };
    let named = |name| Reset::Name(Cow::Borrowed(name));
    match (word(0), word(1)) {
        (Some(b"discard" | b"reset"), Some(b"all")) if words.len() == 2 => found(Reset::All),
        (Some(b"reset"), Some(b"time")) if word(2) == Some(b"zone") => found(named(b"timezone")),
        (Some(b"reset"), _) if words.len() == 2 => name(1).into_iter().for_each(|name| found(named(name))),
        (Some(b"set"), first) => {
            let at = if first == Some(b"session") { 2 } else { 1 };
            let is_default = |at: usize| word(at) == Some(b"default") && words.len() == at + 1;
            let assigns = word(at + 1) == Some(b"to") || words.get(at + 1) == Some(&Token::Other(b'='));
            if word(at) == Some(b"time") && word(at + 1) == Some(b"zone") {
                if is_default(at + 2) || word(at + 2) == Some(b"local") {
                    found(named(b"timezone"));
                }
            } else if word(at) == Some(b"names") && (is_default(at + 1) || words.len() == at + 1) {
                found(named(b"client_encoding"));
            } else if assigns && is_default(at + 2) {
                name(at).into_iter().for_each(|name| found(named(name)));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_text_resets_is_read_by_statements() {
        let of = |text: &str| {
            let mut names = Vec::new();
            resets(text.as_bytes(), |reset| {
                names.push(match reset {
                    Reset::All => "*".to_owned(),
                    Reset::Name(name) => String::from_utf8_lossy(&name).into_owned(),
                });
            });
            names.join(" ")
        };
        for (text, expected) in [
            ("RESET ALL", "*"),
            ("reset TimeZone;", "timezone"),
            ("/* a */ RESET \"DateStyle\" ", "DateStyle"),
            ("RESET TIME ZONE", "timezone"),
            ("DISCARD ALL", "*"),
            ("discard plans", ""),
            ("SET timezone TO DEFAULT", "timezone"),
            ("SET SESSION timezone = default; select 1", "timezone"),
            ("set time zone local", "timezone"),
            ("SET NAMES", "client_encoding"),
            ("SET NAMES DEFAULT", "client_encoding"),
            ("SET timezone TO 'default'", ""),
            ("SET LOCAL timezone TO DEFAULT", ""),
            ("RESET SESSION AUTHORIZATION", ""),
            ("select 'RESET ALL'; select 1", ""),
            ("select pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;", "*"),
            ("reset a; reset b", "a b"),
            ("", ""),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }
}
