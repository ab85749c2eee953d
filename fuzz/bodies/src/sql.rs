//! Heads of statements and command tags. What a head claims is checked by a separate reader, which knows only where
//! statements end.

use weir_pgwire::sql::{self, Mentions, SqlHead};
use weir_pgwire::{Dealloc, Dirty, Effects};

/// A text, whole and cut.
pub(crate) fn statement_heads(data: &[u8]) {
    let whole = sql::head(data);
    if makes_claims(&whole) {
        for backslash in [Backslash::Escapes, Backslash::IsOneByte] {
            assert!(statements(data, backslash) <= 1, "a claim about one statement, but there are several: {whole:?}");
        }
    }
    if let SqlHead::Deallocate(Dealloc::Name(name)) = &whole {
        assert!(name.len() <= data.len());
    }
    let effects = Effects::of(data);
    let kept = sql::kept(data, |_| false);
    // State that is certainly left, without a command tag that shows it, is among the state that may be left.
    let by_text = kept.without(Dirty::LISTEN.union(Dirty::STATEMENTS).union(Dirty::CURSORS).union(Dirty::SETTINGS));
    assert!(effects.may_leave.contains(by_text), "{by_text:?} is not in {effects:?}");
    let mut pieces = data.chunks(7);
    let mut mentions = Mentions::begin(pieces.next().unwrap_or_default());
    pieces.for_each(|piece| mentions.feed(piece));
    assert!(mentions.found().contains(Mentions::of(data)), "a cut hid a word");
    statement_names(data);
    for end in (0..=data.len()).step_by(data.len() / 60 + 1) {
        let early = sql::head_of_prefix(&data[..end]);
        assert!(!makes_claims(&early), "a claim about text that was not seen: {early:?}");
    }
}

/// The names of statements in a text: in order, within it, and the same wherever the text is cut behind them.
fn statement_names(data: &[u8]) {
    for conforming in [true, false] {
        let whole = sql::names(data, false, conforming, usize::MAX);
        let mut end = 0;
        for naming in &whole {
            assert!(end <= naming.at.start && naming.at.end <= data.len(), "{naming:?}");
            assert!(naming.name.len() <= 63);
            end = naming.at.end;
        }
        for cut in (0..=data.len()).step_by(data.len() / 20 + 1) {
            let early = sql::names(&data[..cut], true, conforming, usize::MAX);
            let named = |naming: &&sql::Naming| !naming.name.is_empty();
            let pairs = early.iter().filter(named).zip(whole.iter().filter(named));
            pairs.for_each(|(early, late)| assert_eq!(early, late, "what follows changed a name"));
        }
    }
}

/// A command tag.
pub(crate) fn command_tags(data: &[u8]) {
    let left = sql::left_by_tag(data);
    assert!(left.without(Dirty::ALL).is_empty());
    assert!(left.is_empty() || data.first().is_some_and(u8::is_ascii_uppercase));
}

/// Whether a session relies on the text being one statement.
fn makes_claims(head: &SqlHead<'_>) -> bool {
    matches!(
        head,
        SqlHead::SetLocal
            | SqlHead::Deallocate(_)
            | SqlHead::DiscardAll
            | SqlHead::DeclareCursor { hold: false }
            | SqlHead::CreateTemp
    )
}

/// The meaning of a backslash in a plain string: it depends on the server's setting standard_conforming_strings.
#[derive(Clone, Copy, PartialEq)]
enum Backslash {
    Escapes,
    IsOneByte,
}

/// How many statements a text holds that are not empty (PostgreSQL's documentation, "Lexical Structure").
fn statements(text: &[u8], backslash: Backslash) -> usize {
    // The protocol ends a text at its first NUL.
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    let (mut count, mut inside, mut at) = (0, false, 0);
    while at < text.len() {
        let rest = &text[at..];
        let (length, empty) = match rest[0] {
            b';' => {
                inside = false;
                (1, true)
            }
            b if is_space(b) => (1, true),
            b'-' if rest.starts_with(b"--") => {
                (rest.iter().position(|b| matches!(b, b'\n' | b'\r')).unwrap_or(rest.len()), true)
            }
            b'/' if rest.starts_with(b"/*") => (comment(rest), true),
            b'\'' => (quoted(rest, backslash == Backslash::Escapes), false),
            b'"' => (quoted(rest, false), false),
            b'e' | b'E' if rest.get(1) == Some(&b'\'') => (1 + quoted(&rest[1..], true), false),
            b'$' => (dollar(rest), false),
            b if is_word(b) => (rest.iter().position(|b| !is_word(*b) && *b != b'$').unwrap_or(rest.len()), false),
            _ => (1, false),
        };
        if !empty && !inside {
            inside = true;
            count += 1;
        }
        at += length;
    }
    count
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// The length of a block comment, nested ones included.
fn comment(text: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The length of a quoted piece. A doubled quote counts as two pieces, with the same result.
fn quoted(text: &[u8], escapes: bool) -> usize {
    let (quote, mut at) = (text[0], 1);
    while at < text.len() {
        match text[at] {
            b'\\' if escapes => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// The length of a dollar-quoted string, or of text that only looks like the beginning of one.
fn dollar(text: &[u8]) -> usize {
    let tag = text[1..].iter().position(|byte| !is_word(*byte)).map_or(text.len(), |length| 1 + length);
    if text.get(tag) != Some(&b'$') || text[1].is_ascii_digit() {
        return 1;
    }
    let delimiter = &text[..=tag];
    let body = &text[delimiter.len()..];
    let end = body.windows(delimiter.len()).position(|window| window == delimiter);
    end.map_or(text.len(), |end| delimiter.len() + end + delimiter.len())
}
