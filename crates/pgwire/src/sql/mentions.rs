//! Words in a text that leave session state behind although no command tag implies it, anywhere in the text.
//!
//! Owns the search for these words. The search does not distinguish code from literals and comments: what is a literal
//! depends on settings of the session, and a dollar-quoted body is code. So a word that is hidden from the search is hidden
//! from PostgreSQL, too. The text comes in pieces of any size; a split can change the result only towards "mentioned".
//!
//! - `create`, `into`: `CREATE TABLE … AS`, `SELECT … INTO`, also under EXPLAIN ANALYZE. Their tag is that of a query.
//! - `set_config`, `advisory_lock`: parts of the functions' names. Transaction-level locks have other names.
//! - `u&"`: a quoted name with escapes, which may stand for any of these.
//!
//! Source: PostgreSQL's documentation, "Lexical Structure", "Advisory Lock Functions", "Configuration Settings Functions".

use super::Dirty;
use super::scan::begins_with;

/// The longest word, and the byte after it.
const KEPT: usize = 14;

/// The words found in the text so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mentions {
    found: Dirty,
    /// The end of the last piece.
    tail: [u8; KEPT],
    tail_len: u8,
}

impl Mentions {
    /// The words of a whole text.
    #[inline]
    pub fn of(text: &[u8]) -> Dirty {
        Mentions::and_semicolon(text).0
    }

    /// What a whole text mentions, and whether it holds a semicolon. One pass over the text.
    #[inline]
    pub(super) fn and_semicolon(text: &[u8]) -> (Dirty, bool) {
        let text = after_insert_into(text);
        let seen = look_at(text);
        (if seen.suspicious { search(text) } else { Dirty::NONE }, seen.semicolon)
    }

    /// Starts with the first piece of a longer text.
    pub fn begin(piece: &[u8]) -> Mentions {
        let mut mentions = Mentions { found: Mentions::of(piece), ..Mentions::default() };
        mentions.keep_tail(piece);
        mentions
    }

    /// Adds the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        let (mut seam, mut len) = ([0; 2 * KEPT], usize::from(self.tail_len));
        seam[..len].copy_from_slice(&self.tail[..len]);
        let first = &piece[..piece.len().min(KEPT)];
        seam[len..len + first.len()].copy_from_slice(first);
        len += first.len();
        self.found.insert(search(&seam[..len]));
        if piece.len() > KEPT && look_at(piece).suspicious {
            self.found.insert(search(piece));
        }
        if piece.len() >= KEPT { self.keep_tail(piece) } else { self.keep_tail(&seam[..len]) }
    }

    /// The kinds of state that the text so far may leave.
    pub fn found(&self) -> Dirty {
        self.found
    }

    fn keep_tail(&mut self, piece: &[u8]) {
        let tail = &piece[piece.len().saturating_sub(KEPT)..];
        self.tail[..tail.len()].copy_from_slice(tail);
        self.tail_len = tail.len() as u8;
    }
}

/// What a first look at a text finds.
struct Look {
    /// It holds some letters of one of the words. Nearly all texts do not.
    suspicious: bool,
    /// It holds a semicolon.
    semicolon: bool,
}

/// What the first look searches for, without regard to case: parts of the words that are rare elsewhere, then a semicolon.
const PARTS: [&[u8]; 6] = [b"cre", b"nto", b"dvi", b"t_c", b"&", b";"];

/// The search by shift and mask (Baeza-Yates and Gonnet, 1992): a bit for each byte of each part, which is set while the part
/// matches up to there. Six instructions a byte on x86-64, however many the parts.
struct Bits {
    /// The bits of the bytes that equal this one.
    of: [u16; 256],
    first: u16,
    last: u16,
}

static BITS: Bits = Bits::new();

/// The bit of the semicolon.
const SEMICOLON: u16 = Bits::new().of[b';' as usize];

impl Bits {
    const fn new() -> Bits {
        let mut bits = Bits { of: [0; 256], first: 0, last: 0 };
        let (mut bit, mut part) = (1, 0);
        while part < PARTS.len() {
            bits.first |= bit;
            let mut at = 0;
            while at < PARTS[part].len() {
                bits.of[PARTS[part][at].to_ascii_lowercase() as usize] |= bit;
                bits.of[PARTS[part][at].to_ascii_uppercase() as usize] |= bit;
                bits.last |= if at + 1 == PARTS[part].len() { bit } else { 0 };
                bit <<= 1;
                at += 1;
            }
            part += 1;
        }
        bits
    }
}

#[inline]
fn look_at(text: &[u8]) -> Look {
    let (mut matching, mut seen) = (0, 0);
    for byte in text {
        matching = ((matching << 1) | BITS.first) & BITS.of[usize::from(*byte)];
        seen |= matching;
    }
    Look { suspicious: seen & BITS.last & !SEMICOLON != 0, semicolon: seen & SEMICOLON != 0 }
}

#[cold]
fn search(text: &[u8]) -> Dirty {
    let mut found = Dirty::NONE;
    for at in 0..text.len() {
        let rest = &text[at..];
        let starts = |word: &[u8]| rest.get(..word.len()).is_some_and(|next| next.eq_ignore_ascii_case(word));
        let alone = |word: &[u8]| {
            starts(word) && !continues_name(rest.get(word.len())) && !begins_name(at.checked_sub(1).map(|at| &text[at]))
        };
        match rest[0] | 0x20 {
            b'c' if alone(b"create") => found.insert(Dirty::TEMP),
            b'i' if alone(b"into") => found.insert(Dirty::TEMP),
            b's' if starts(b"set_config") => found.insert(Dirty::SETTINGS),
            b'a' if starts(b"advisory_lock") => found.insert(Dirty::LOCKS),
            b'u' if starts(b"u&\"") => return Dirty::ALL,
            _ => {}
        }
    }
    found
}

fn continues_name(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..))
}

/// A digit before a word does not always make it a part of a name: `SELECT 1INTO t`.
fn begins_name(byte: Option<&u8>) -> bool {
    byte.is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | 0x80..))
}

/// What follows `INSERT INTO` at the very beginning, where it can be nothing else; the whole text otherwise.
#[inline]
fn after_insert_into(text: &[u8]) -> &[u8] {
    let after = |text: &'_ [u8], word: &[u8]| -> Option<usize> {
        text.get(..word.len()).filter(|first| first.eq_ignore_ascii_case(word)).map(|first| first.len())
    };
    if !begins_with(text, b"insert") {
        return text;
    }
    let insert = b"insert".len();
    let blanks = text[insert..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let at = insert + blanks;
    match after(&text[at..], b"into ").filter(|_| blanks > 0) {
        Some(into) => &text[at + into..],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Dirty = Dirty::NONE;

    const CASES: [(&str, Dirty); 37] = [
        ("", NONE),
        ("select 1", NONE),
        ("select abalance from pgbench_accounts where aid = 123", NONE),
        ("select created_at, intoxicated, recreate, pinto from t", NONE),
        ("insert into t values (1)", NONE),
        ("INSERT \n INTO t values (1)", NONE),
        ("update t set a = 1", NONE),
        ("select set_conf, advisory, u & \"a\"", NONE),
        ("select pg_advisory_xact_lock(1), pg_try_advisory_xact_lock_shared(1)", NONE),
        ("select 1 into temp t", Dirty::TEMP),
        ("select 1INTO temp t", Dirty::TEMP),
        ("select 1 as a/**/into/**/temp t", Dirty::TEMP),
        ("select 1 as insert into temp t", Dirty::TEMP),
        ("select (1) insert into t", Dirty::TEMP),
        ("insert/**/into t values (1)", Dirty::TEMP),
        ("insert into t values (1); select 2 into x", Dirty::TEMP),
        ("with a as (select 1) select * into b from a", Dirty::TEMP),
        ("explain analyze create table t as select 1", Dirty::TEMP),
        ("CREATE TABLE t (a int)", Dirty::TEMP),
        ("select 1;create\ttable t as select 1", Dirty::TEMP),
        ("do $$begin create table t (a int); end$$", Dirty::TEMP),
        ("import foreign schema a from server b into pg_temp", Dirty::TEMP),
        ("select set_config('work_mem', '1MB', false)", Dirty::SETTINGS),
        ("select pg_catalog.\"set_config\" ('a.b', 'c', false)", Dirty::SETTINGS),
        ("SELECT SET_CONFIG($1, $2, $3)", Dirty::SETTINGS),
        ("do 'begin perform set_config(''a.b'', ''c'', false); end'", Dirty::SETTINGS),
        ("select pg_advisory_lock(1)", Dirty::LOCKS),
        ("select pg_try_advisory_lock_shared(1, 2)", Dirty::LOCKS),
        ("select PG_ADVISORY_LOCK_SHARED(1)", Dirty::LOCKS),
        ("select u&\"pg\\005fadvisory\\005flock\"(1)", Dirty::ALL),
        ("select U&\"\\0070g_advis\\006fry_lock\"(1)", Dirty::ALL),
        ("into", Dirty::TEMP),
        ("create", Dirty::TEMP),
        ("xcreate", NONE),
        ("_into", NONE),
        ("ünto into$", NONE),
        ("select 'a' into b from set_config", Dirty::TEMP.union(Dirty::SETTINGS)),
    ];

    #[test]
    fn words_that_leave_state_are_found_wherever_they_are_written() {
        for (text, want) in CASES {
            assert_eq!(Mentions::of(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn the_words_are_found_in_any_pieces_and_after_any_filling() {
        for (text, want) in CASES {
            for filling in [0, 1, 13, 14, 15, 100] {
                let text = ["x ".repeat(filling), text.to_owned()].concat();
                let text = text.as_bytes();
                for size in 1..=text.len().max(1) {
                    let mut pieces = text.chunks(size);
                    let mut mentions = Mentions::begin(pieces.next().unwrap_or_default());
                    pieces.for_each(|piece| mentions.feed(piece));
                    assert!(mentions.found().contains(want), "{:?} by {size}", String::from_utf8_lossy(text));
                }
            }
        }
    }
}
