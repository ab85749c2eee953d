//! Which texts have a literal that PostgreSQL reads by the clock, once, when the text is parsed: `'today'::date`.
//!
//! Source: PostgreSQL's documentation, "Date/Time Types", "Special Values"; "String Constants".

use super::scan::{Scan, begins_name};
use super::steps;

/// The words that mean a time, in literals. (`epoch`, `infinity` and `allballs` mean always the same.)
const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];

/// The longest of them.
const LONGEST: usize = 9;

/// Whether a text has such a word in a literal; in doubt, as where the word is in a longer literal, or the text is not
/// understood, it says yes. Reads the text once.
pub fn reads_clock(text: &[u8]) -> bool {
    let mut scan = Scan::whole(text);
    loop {
        scan.blank();
        let before = scan.left();
        let Some(&byte) = before.first() else { return false };
        let understood = match byte {
            b'\'' => match literal(&mut scan, false) {
                Some(false) => true,
                found => return found.unwrap_or(true),
            },
            b'"' => scan.quoted_name().is_some(),
            b'$' => {
                let understood = scan.dollar_value();
                if has_word(before[..before.len() - scan.left().len()].iter().copied()) {
                    return true;
                }
                understood
            }
            _ if begins_name(byte) => match (scan.name_bytes(), scan.left()) {
                ([b'e' | b'E'], [b'\'', ..]) => match literal(&mut scan, true) {
                    Some(false) => true,
                    found => return found.unwrap_or(true),
                },
                // What escapes there is said behind it (UESCAPE).
                ([b'u' | b'U'], [b'&', b'\'', ..]) => false,
                _ => true,
            },
            _ if scan.begins_number() => {
                scan.number();
                true
            }
            _ => scan.skip(1),
        };
        if !understood {
            return true;
        }
    }
}

/// Whether the literal in single quotes that is next, with what continues it (`'no'`, a line end, `'w'`), has such a word;
/// `None`: it is not understood. Where it is not certain that backslashes escape, it is read both ways.
fn literal(scan: &mut Scan<'_>, escapes: bool) -> Option<bool> {
    let mut pieces: Vec<&[u8]> = Vec::new();
    while scan.peek() == Some(b'\'') {
        let before = scan.left();
        let understood = if escapes { scan.escaped_string() } else { scan.any_string() };
        understood.then_some(())?;
        pieces.push(&before[1..before.len() - scan.left().len() - 1]);
        scan.blank();
    }
    let whole = || pieces.iter().flat_map(|piece| piece.iter().copied());
    Some(has_word(whole()) || (whole().any(|byte| byte == b'\\') && has_word(Unescaped(whole().peekable()))))
}

/// Whether one of the words is there, with no letter beside it.
fn has_word(bytes: impl Iterator<Item = u8>) -> bool {
    let (mut word, mut length) = ([0; LONGEST], 0);
    // What ends the last one.
    for byte in bytes.chain([b' ']) {
        steps::count(1);
        if byte.is_ascii_alphabetic() {
            if let Some(letter) = word.get_mut(length) {
                *letter = byte.to_ascii_lowercase();
            }
            length += 1;
            continue;
        }
        if word.get(..length).is_some_and(|word| WORDS.contains(&word)) {
            return true;
        }
        length = 0;
    }
    false
}

/// The bytes of a literal whose backslashes escape; a blank for each that is none of ASCII.
struct Unescaped<I: Iterator<Item = u8>>(std::iter::Peekable<I>);

impl<I: Iterator<Item = u8>> Unescaped<I> {
    /// A number of at most this many digits.
    fn number(&mut self, radix: u32, digits: usize) -> u8 {
        let mut value = 0u32;
        for _ in 0..digits {
            let Some(digit) = self.0.peek().and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
            value = value.wrapping_mul(radix).wrapping_add(digit);
            self.0.next();
        }
        u8::try_from(value).ok().filter(u8::is_ascii).unwrap_or(b' ')
    }
}

impl<I: Iterator<Item = u8>> Iterator for Unescaped<I> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let byte = self.0.next().filter(|byte| *byte != b'\\');
        if byte.is_some() || self.0.peek().is_none() {
            return byte;
        }
        Some(match *self.0.peek()? {
            b'0'..=b'7' => self.number(8, 3),
            escape => {
                self.0.next();
                match escape {
                    b'x' => self.number(16, 2),
                    b'u' => self.number(16, 4),
                    b'U' => self.number(16, 8),
                    b'b' | b'f' | b'n' | b'r' | b't' => b' ',
                    other => other,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_word_in_quotes_is_read_by_the_clock() {
        for text in [
            "SELECT 'now'::timestamptz",
            "select * from t where d = ' Today '",
            "insert into t values ('it''s', E'YESTERDAY')",
            "select timestamp '12:00 tomorrow'",
            "select timestamp '12:00tomorrow', timestamp 'today12:00'",
            "select '{1,now}'::date[], '[today,)'::daterange",
            "select $$now$$::timestamptz",
            "select $a$ today $a$::date, $1",
            "select 1 -- don't\n, 'now'::date",
            "select /* ' /* ' */ */ 'now'::date",
            "select \"'\", 'now'::date",
            "select e'\\nnow'::date",
            "select E'\\x6eow'::date",
            "select E'\\156ow'::date, 'a\\\\'",
            "select E'\\u006eo\\w'::date",
            "select E'it\\'s', 'now'::date",
            "select '\\tnow'::date",
            "select U&'\\006eow'::date",
            "select u&'!006eow' uescape '!'",
            "select N'now'::date",
            "select 'no'\n'w'::date",
            "select 'to' -- and\n 'd' \n  'ay'::date",
            "select e'to'\n'\\144ay'::date",
            "select a$b, 'now' from t where c = 1e1",
            // Where it is not certain.
            "select 'a\\', 'b'",
            "select 'now",
        ] {
            assert!(reads_clock(text.as_bytes()), "{text}");
        }
        for text in [
            "select now(), today from t where a = 'x'",
            "select 'nowhere', \"today\"",
            "select 'epoch', 'snow'",
            "select 'a', now, 'b' -- 'now'",
            "select 1 /* 'now' */, '\\xdeadbeef', e'\\\\nowx', '\\d+', $1, $2::date",
            "select 'it''s', 'a' || 'b', a$now$b from t",
            "",
        ] {
            assert!(!reads_clock(text.as_bytes()), "{text}");
        }
    }
}
