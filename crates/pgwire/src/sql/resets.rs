//! Which parameters a RESET or `SET … TO DEFAULT` returns to the values that its session began with.
//!
//! DISCARD ALL resets all of them; it is read by [`super::names`].
//!
//! Source: PostgreSQL's documentation, the pages of RESET, SET and DISCARD; `gram.y`.

use std::ops::Range;

use super::scan::Scan;

/// Parameters are reset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resetting {
    /// Which.
    pub what: Reset,
    /// By which statement.
    pub by: ResetBy,
    /// Where that is written, without the semicolon behind it.
    pub at: Range<usize>,
    /// Whether another statement follows it.
    pub followed: bool,
}

/// What is reset.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reset {
    /// All parameters.
    All,
    /// The parameter of this name, in lower case unless it was quoted.
    Name(Box<[u8]>),
}

/// What resets a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResetBy {
    /// RESET.
    Reset,
    /// `SET … TO DEFAULT`.
    Set,
    /// `SET LOCAL … TO DEFAULT`: until its transaction ends.
    SetLocal,
    /// DISCARD ALL.
    Discard,
}

/// What the statement that is next resets. Afterwards `scan` is at its end, or somewhere in it.
pub(super) fn reset_by(scan: &mut Scan<'_>) -> Option<(Reset, ResetBy)> {
    let found = match scan.peek()?.to_ascii_lowercase() {
        b'r' if scan.word(b"reset") => (after_reset(scan)?, ResetBy::Reset),
        b's' if scan.word(b"set") => after_set(scan)?,
        _ => return None,
    };
    scan.ends_statement().then_some(found)
}

fn after_reset(scan: &mut Scan<'_>) -> Option<Reset> {
    if scan.word(b"all") {
        return Some(Reset::All);
    }
    if scan.word(b"time") {
        return scan.word(b"zone").then(|| Reset::Name(b"timezone"[..].into()));
    }
    name(scan)
}

/// `SET [SESSION | LOCAL] {name {TO | =} DEFAULT | TIME ZONE {DEFAULT | LOCAL} | NAMES [DEFAULT]}`, after SET.
fn after_set(scan: &mut Scan<'_>) -> Option<(Reset, ResetBy)> {
    let by = if scan.word(b"local") { ResetBy::SetLocal } else { ResetBy::Set };
    let _ = by == ResetBy::Set && scan.word(b"session");
    let what = if scan.word(b"time") {
        let zone = scan.word(b"zone") && (scan.word(b"default") || scan.word(b"local"));
        zone.then(|| Reset::Name(b"timezone"[..].into()))
    } else if scan.word(b"names") {
        (scan.word(b"default") || scan.ends_statement()).then(|| Reset::Name(b"client_encoding"[..].into()))
    } else {
        let named = name(scan)?;
        let assigns = scan.word(b"to") || scan.symbol(b'=');
        (assigns && scan.word(b"default")).then_some(named)
    };
    Some((what?, by))
}

/// A parameter's name, which may have several parts.
fn name(scan: &mut Scan<'_>) -> Option<Reset> {
    let mut name = scan.name()?.into_owned();
    while scan.symbol(b'.') {
        name.push(b'.');
        name.extend_from_slice(&scan.name()?);
    }
    Some(Reset::Name(name.into()))
}

#[cfg(test)]
mod tests {
    use super::super::{RewrittenCommand, commands};
    use super::*;

    fn found(text: &str) -> Vec<Resetting> {
        let all = commands(text.as_bytes(), false, true, usize::MAX).into_iter();
        all.filter_map(|command| if let RewrittenCommand::Resets(reset) = command { Some(reset) } else { None })
            .collect()
    }

    #[test]
    fn what_a_text_resets_is_read_by_statements() {
        let of = |text: &str| {
            let shown = |reset: Resetting| match (reset.what, reset.by) {
                (Reset::All, _) => "*".to_owned(),
                (Reset::Name(name), ResetBy::SetLocal) => format!("local {}", String::from_utf8_lossy(&name)),
                (Reset::Name(name), _) => String::from_utf8_lossy(&name).into_owned(),
            };
            found(text).into_iter().map(shown).collect::<Vec<_>>().join(" ")
        };
        for (text, expected) in [
            ("RESET ALL", "*"),
            ("reset TimeZone;", "timezone"),
            ("/* a */ RESET \"DateStyle\" ", "DateStyle"),
            ("RESET TIME ZONE", "timezone"),
            ("reset My . \"Own\"", "my.Own"),
            ("DISCARD ALL", "*"),
            ("discard plans", ""),
            ("SET timezone TO DEFAULT", "timezone"),
            ("SET SESSION timezone = default; select 1", "timezone"),
            ("set time zone local", "timezone"),
            ("SET NAMES", "client_encoding"),
            ("SET NAMES DEFAULT", "client_encoding"),
            ("SET timezone TO 'default'", ""),
            ("SET timezone TO \"default\"", ""),
            ("SET timezone TO DEFAULT, 'a'", ""),
            ("SET LOCAL timezone TO DEFAULT", "local timezone"),
            ("set local time zone default", "local timezone"),
            ("RESET SESSION AUTHORIZATION", ""),
            ("RESET a b", ""),
            ("select 'RESET ALL'; select 1", ""),
            ("select $$;RESET ALL;$$, 'it''s;', \";\"; reset all", "*"),
            ("select E'\\';'; RESET ALL", "*"),
            ("select pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;", "*"),
            ("reset a; reset b", "a b"),
            ("", ""),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn where_a_reset_is_and_whether_something_follows_it() {
        let of = |text: &str| {
            let shown = |reset: Resetting| (text[reset.at].to_owned(), reset.followed);
            found(text).into_iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(of(" RESET ALL ; show a"), [("RESET ALL ".to_owned(), true)]);
        assert_eq!(of("reset a;; /* no more */ ;"), [("reset a".to_owned(), false)]);
        assert_eq!(
            of("reset a; set b = default"),
            [("reset a".to_owned(), true), ("set b = default".to_owned(), false)]
        );
    }

    #[test]
    fn a_reset_that_touches_the_end_of_a_cut_text_is_not_read() {
        let text = b"RESET a; RESET b";
        let cut = commands(text, true, true, usize::MAX);
        assert_eq!(cut, commands(text, false, true, usize::MAX)[..1]);
    }
}
