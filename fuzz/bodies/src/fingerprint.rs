//! Fingerprints: no part of a value is in one, for any bytes.
//!
//! Owns a second, simple reader of PostgreSQL's lexical rules, which only tells literals from the rest. Under either
//! setting of `standard_conforming_strings`, what it takes for a part of a literal or a comment must not be in the
//! fingerprint, unless the same word also stands outside of all literals.

use weir_pgwire::sql;

/// A shorter piece of a literal may be in a fingerprint by chance.
const SHORTEST: usize = 5;

/// Every fingerprint is bounded text, and shows no value.
pub(crate) fn no_value_survives(data: &[u8]) {
    let data = &data[..data.len().min(sql::MAX_READ)];
    let shown = sql::fingerprint(data, 2000);
    assert!(shown.len() <= 2000 + "…".len() && !shown.contains(|c: char| c.is_ascii_control()));
    let shown = shown.to_ascii_lowercase();
    for conforming in [true, false] {
        let (outside, inside) = split(data, conforming);
        let known: Vec<Vec<u8>> = words(&outside).map(<[u8]>::to_ascii_lowercase).collect();
        for word in words(&inside).map(<[u8]>::to_ascii_lowercase).filter(|word| word.len() >= SHORTEST) {
            let elsewhere = known.iter().any(|known| known.windows(word.len()).any(|part| part == word));
            let text = String::from_utf8_lossy(&word);
            assert!(elsewhere || !shown.contains(&*text), "{text:?} of a literal is in {shown:?}");
        }
    }
}

/// Runs of letters and digits.
fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| !byte.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
}

/// What is outside of literals and comments, and what is inside of literals, with a blank between pieces.
fn split(text: &[u8], conforming: bool) -> (Vec<u8>, Vec<u8>) {
    let (mut outside, mut inside) = (Vec::new(), Vec::new());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let rest = &text[at..];
        let (length, is_value) = match byte {
            b'-' if rest.starts_with(b"--") => (line(rest), true),
            b'/' if rest.starts_with(b"/*") => (comment(rest), true),
            b'"' => (quoted(rest, b'"', false), false),
            b'\'' => (quoted(rest, b'\'', !conforming || is_escape(text, at)), true),
            b'$' => match dollar(rest) {
                Some(length) => (length, true),
                None => (1 + parameter(&rest[1..]), false),
            },
            b'0'..=b'9' => (number(rest), false),
            b'.' if rest.get(1).is_some_and(u8::is_ascii_digit) => (number(rest), false),
            _ if is_name(*byte) => (rest.iter().position(|byte| !is_name(*byte)).unwrap_or(rest.len()), false),
            _ => (1, false),
        };
        let piece = &rest[..length.min(rest.len())];
        let to = if is_value { &mut inside } else { &mut outside };
        if piece.len() > 1 {
            to.push(b' ');
        }
        to.extend_from_slice(piece);
        if piece.len() > 1 {
            to.push(b' ');
        }
        at += piece.len();
    }
    (outside, inside)
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || byte >= 0x80
}

/// How long the digits of a parameter are, with a name that is directly behind them.
fn parameter(rest: &[u8]) -> usize {
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let is_behind = |byte: &u8| is_name(*byte) && *byte != b'$';
    if digits == 0 || !rest.get(digits).is_some_and(is_behind) {
        return digits;
    }
    rest[digits..].iter().position(|byte| !is_name(*byte)).map_or(rest.len(), |at| digits + at)
}

/// How long a number is, with a name that is directly behind it.
fn number(rest: &[u8]) -> usize {
    let length = |from: usize, wanted: fn(u8) -> bool| {
        rest[from..].iter().position(|byte| !wanted(*byte)).map_or(rest.len(), |at| from + at)
    };
    let is_digit = |at: usize| rest.get(at).is_some_and(u8::is_ascii_digit);
    let mut end = match rest {
        [b'0', base, ..] if b"xXoObB".contains(base) => length(0, |byte| byte.is_ascii_alphanumeric() || byte == b'_'),
        _ => length(0, |byte| byte.is_ascii_digit() || byte == b'.'),
    };
    loop {
        let more = match rest.get(end) {
            Some(b'_') if is_digit(end + 1) => 1,
            Some(b'e' | b'E') if is_digit(end + 1) => 1,
            Some(b'e' | b'E') if matches!(rest.get(end + 1), Some(b'+' | b'-')) && is_digit(end + 2) => 2,
            _ => break,
        };
        end = length(end + more, |byte| byte.is_ascii_digit() || byte == b'.');
    }
    if rest.get(end).is_some_and(|byte| is_name(*byte) && !byte.is_ascii_digit() && *byte != b'$') {
        end = length(end, is_name);
    }
    end
}

/// Whether a lone E stands right before the quote.
fn is_escape(text: &[u8], quote: usize) -> bool {
    let e = quote.checked_sub(1).filter(|at| matches!(text[*at], b'e' | b'E'));
    e.is_some_and(|at| !at.checked_sub(1).is_some_and(|before| is_name(text[before])))
}

fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len())
}

fn comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest[at..].starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn quoted(rest: &[u8], quote: u8, escapes: bool) -> usize {
    let mut at = 1;
    while at < rest.len() {
        let escaped = escapes && rest[at] == b'\\';
        let doubled = rest[at] == quote && rest.get(at + 1) == Some(&quote);
        if escaped || doubled {
            at += 2;
        } else if rest[at] == quote {
            return at + 1;
        } else {
            at += 1;
        }
    }
    rest.len()
}

/// The length of a dollar-quoted string; all that is left if it does not end.
fn dollar(rest: &[u8]) -> Option<usize> {
    let tag = rest[1..].iter().position(|byte| *byte == b'$' || !is_name(*byte))?;
    if rest.get(1 + tag) != Some(&b'$') || rest[1].is_ascii_digit() {
        return None;
    }
    let (open, body) = rest.split_at(tag + 2);
    let end = body.windows(open.len()).position(|window| window == open);
    Some(end.map_or(rest.len(), |end| 2 * open.len() + end))
}
