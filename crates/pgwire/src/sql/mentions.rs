//! Words in a text that leave session state behind although no command tag implies it, anywhere in the text.
//!
//! Owns the search for these words. The search does not distinguish code from literals and comments: what is a literal
//! depends on settings of the session, and a dollar-quoted body is code. So a word that is hidden from the search is
//! hidden from PostgreSQL, too. The text comes in pieces of any size; a split can change the result only towards
//! "mentioned".
//!
//! - `create`, `into`: `CREATE TABLE … AS`, `SELECT … INTO`, also under EXPLAIN ANALYZE. Their tag is that of a query.
//! - `set_config`, `advisory_lock`: parts of the functions' names. Transaction-level locks have other names.
//! - `currval`, `lastval`, where a parenthesis may follow: they need what the session has drawn of a sequence.
//! - `pg_settings`, where the text also says `update`: its rule calls `set_config`.
//! - `execute` and `deallocate` in a text that comes in pieces: of a statement that a pooler has prepared, under the name
//!   that it has on the server. In a whole text [`super::names`] finds them, and a command that is known to be about
//!   rows is none.
//! - `u&"`: a quoted name with escapes, which may stand for any of these.
//! - `do`, where a statement may begin with it: a block runs any commands, also some that the text does not show, and
//!   what it has prepared stays if it fails.
//!
//! In a Turkish locale with an encoding of single bytes, PostgreSQL folds `İ` in a name to `i`, so any bytes beyond
//! ASCII may stand for the `i` of a function or a view. Keywords are folded as ASCII.
//!
//! The search also says whether a text may name prepared statements (`prepare`, `execute`, `deallocate`), which
//! [`super::names`] reads then.
//!
//! Every function takes time in proportion to the text, whatever words are in it and however often: what depends on the
//! whole text is searched for once.
//!
//! Source: PostgreSQL's documentation, "Lexical Structure", "Advisory Lock Functions", "Configuration Settings
//! Functions", "pg_settings", "DO".

use super::Dirty;
use super::scan::{Scan, begins_with};
use super::steps::count;

/// The longest word, and the byte after it.
const KEPT: usize = 14;

/// A text may leave and need anything.
const ANYTHING: Dirty = Dirty::ALL.union(Dirty::SEQUENCE_VALUES);

/// The words found in the text so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Mentions {
    words: Words,
    /// The first statement may be DO, or another one may have begun.
    blocks: bool,
    /// The end of the last piece.
    tail: [u8; KEPT],
    tail_len: u8,
}

impl Mentions {
    /// The words of a whole text.
    #[inline]
    pub fn of(text: &[u8]) -> Dirty {
        Mentions::of_whole(text).found
    }

    /// What a whole text mentions. One pass over the text.
    #[inline]
    pub(super) fn of_whole(text: &[u8]) -> Mentioned {
        let block = may_begin_block(text, Ends::Here);
        let text = after_insert_into(text);
        // Most texts end with a semicolon, which begins no second statement.
        let seen = look_at(without_end(text));
        let blocks = seen.semicolon || block;
        let mut words = Words::default();
        if seen.suspicious || blocks {
            words.search(text, Ends::Here, blocks);
        }
        Mentioned { found: words.found, names: words.prepare || words.execute, semicolon: seen.semicolon }
    }

    /// Whether a first look at a whole text that begins with another word than DO finds nothing, and no second
    /// statement.
    #[inline]
    pub(super) fn are_none(text: &[u8]) -> bool {
        let seen = look_at(without_end(after_insert_into(text)));
        !seen.suspicious && !seen.semicolon
    }

    /// Starts with the first piece of a longer text.
    pub fn begin(piece: &[u8]) -> Mentions {
        let text = after_insert_into(piece);
        let seen = look_at(text);
        let blocks = seen.semicolon || may_begin_block(piece, Ends::Later);
        let mut mentions = Mentions { blocks, ..Mentions::default() };
        if seen.suspicious || blocks {
            mentions.words.search(text, Ends::Later, blocks);
        }
        mentions.keep_tail(piece);
        mentions
    }

    /// Adds the next piece.
    pub fn feed(&mut self, piece: &[u8]) {
        if self.words.found == ANYTHING {
            return;
        }
        let (mut seam, mut len) = ([0; 2 * KEPT], usize::from(self.tail_len));
        seam[..len].copy_from_slice(&self.tail[..len]);
        let first = &piece[..piece.len().min(KEPT)];
        seam[len..len + first.len()].copy_from_slice(first);
        len += first.len();
        let seen = look_at(piece);
        self.blocks |= seen.semicolon;
        self.words.search(&seam[..len], Ends::Later, self.blocks);
        if piece.len() > KEPT && (seen.suspicious || self.blocks) {
            self.words.search(piece, Ends::Later, self.blocks);
        }
        if piece.len() >= KEPT { self.keep_tail(piece) } else { self.keep_tail(&seam[..len]) }
    }

    /// The kinds of state that the text so far may leave.
    pub fn found(&self) -> Dirty {
        if self.words.execute { self.words.found.union(Dirty::ALL) } else { self.words.found }
    }

    /// The same of a text that is one command, and reads or writes rows: it is no EXECUTE and no DEALLOCATE.
    pub(super) fn found_about_rows(&self) -> Dirty {
        self.words.found
    }

    fn keep_tail(&mut self, piece: &[u8]) {
        let tail = &piece[piece.len().saturating_sub(KEPT)..];
        self.tail[..tail.len()].copy_from_slice(tail);
        self.tail_len = tail.len() as u8;
    }
}

/// What a whole text mentions.
pub(super) struct Mentioned {
    pub(super) found: Dirty,
    /// The text holds a semicolon, not counting those at its end.
    pub(super) semicolon: bool,
    /// The text may name prepared statements.
    pub(super) names: bool,
}

/// What a first look at a text finds.
struct Look {
    /// The text holds some letters of one of the words. Nearly all texts do not.
    suspicious: bool,
    /// The text holds a semicolon, or the NUL between a statement's name and its text.
    semicolon: bool,
}

/// What the first look searches for, without regard to case: of each word two parts that begin one byte apart, so that
/// one of them is made of whole pairs wherever the word begins. They are rare in other words. `?` is any byte.
const PARTS: [&[u8]; 22] = [
    b"crea", b"reat", b"into", b"nto?", b"ry_l", b"y_lo", b"et_c", b"t_co", b"pg_s", b"g_se", b"exec", b"xecu",
    b"alloca", b"lloc", b"prep", b"repa", b"urrv", b"rrva", b"astv", b"stva", b"u&", b"&\"",
];

/// The search by shift and mask (Baeza-Yates and Gonnet, 1992), by pairs of bytes: a bit for each pair of each part,
/// which is set while the part matches up to there. That takes six instructions a pair on x86-64, however many the
/// parts. Once a part has matched, the bits above it are worthless: shifting and starting anew is one addition, and it
/// may carry.
struct Bits {
    /// The bits of the pairs whose first byte equals this one.
    first: [u64; 256],
    /// The same of the second byte.
    second: [u64; 256],
    /// The bits of the parts' first pairs, and of a semicolon.
    begin: u64,
    /// The bits of the parts' last pairs.
    end: u64,
}

static BITS: Bits = Bits::new();

/// The bits of the parts' last pairs.
const PART_ENDS: u64 = Bits::new().end;

/// The bits of a semicolon as the first or the second of a pair: the highest, so that they disturb no other.
const SEMICOLON: u64 = 0b11 << 62;

impl Bits {
    const fn new() -> Bits {
        let mut bits = Bits { first: [0; 256], second: [0; 256], begin: SEMICOLON, end: 0 };
        let (mut bit, mut part) = (1_u64, 0);
        while part < PARTS.len() {
            bits.begin |= bit;
            let mut at = 0;
            while at < PARTS[part].len() {
                set(&mut bits.first, PARTS[part][at], bit);
                set(&mut bits.second, PARTS[part][at + 1], bit);
                at += 2;
                bits.end |= if at == PARTS[part].len() { bit } else { 0 };
                bit <<= 1;
            }
            part += 1;
        }
        // A Parse that is cut is searched with the name in it, which a NUL ends.
        let mut ends = 0;
        while ends < 2 {
            let byte = [b';', 0][ends];
            set(&mut bits.first, byte, 1 << 62);
            set(&mut bits.second, byte, 1 << 63);
            ends += 1;
        }
        set(&mut bits.second, b'?', 1 << 62);
        set(&mut bits.first, b'?', 1 << 63);
        bits
    }
}

/// Sets a bit of a letter in both cases, or of all bytes.
const fn set(of: &mut [u64; 256], byte: u8, bit: u64) {
    if byte != b'?' {
        of[byte.to_ascii_lowercase() as usize] |= bit;
        of[byte.to_ascii_uppercase() as usize] |= bit;
        return;
    }
    let mut any = 0;
    while any < 256 {
        of[any] |= bit;
        any += 1;
    }
}

#[inline]
fn look_at(text: &[u8]) -> Look {
    count(text.len());
    let (mut matching, mut seen) = (0_u64, 0);
    let mut take = |first: &u8, second: &u8| {
        matching = (matching << 1).wrapping_add(BITS.begin) & BITS.first[usize::from(*first)];
        matching &= BITS.second[usize::from(*second)];
        seen |= matching;
    };
    // The loop over four pairs is unrolled.
    let (eights, rest) = text.as_chunks::<8>();
    for [a, b, c, d, e, f, g, h] in eights {
        take(a, b);
        take(c, d);
        take(e, f);
        take(g, h);
    }
    let (pairs, last) = rest.as_chunks::<2>();
    pairs.iter().for_each(|[first, second]| take(first, second));
    last.iter().for_each(|last| take(last, &b' '));
    let suspicious = seen & PART_ENDS != 0;
    Look { suspicious, semicolon: if suspicious { holds_semicolon(text) } else { seen & SEMICOLON != 0 } }
}

#[cold]
fn holds_semicolon(text: &[u8]) -> bool {
    count(text.len());
    text.iter().any(|byte| matches!(byte, b';' | 0))
}

/// Where the text ends of which a piece is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// With the piece.
    Here,
    /// Later.
    Later,
}

/// What a search has found.
#[derive(Clone, Copy, Default, Debug)]
struct Words {
    /// What the words may leave, but for EXECUTE and DEALLOCATE.
    found: Dirty,
    /// PREPARE.
    prepare: bool,
    /// EXECUTE or DEALLOCATE.
    execute: bool,
}

impl Words {
    /// Searches a piece, too. `blocks`: a statement of it may be DO.
    #[cold]
    fn search(&mut self, text: &[u8], ends: Ends, blocks: bool) {
        let mut updates = None;
        count(text.len());
        for at in 0..text.len() {
            let rest = &text[at..];
            let starts = |word: &[u8]| rest.get(..word.len()).is_some_and(|next| next.eq_ignore_ascii_case(word));
            let alone = |word: &[u8]| {
                starts(word)
                    && !continues_name(rest.get(word.len()))
                    && !begins_name(at.checked_sub(1).map(|at| &text[at]))
            };
            match rest[0] | 0x20 {
                b'c' if alone(b"create") => self.found.insert(Dirty::TEMP),
                b'c' | b'l' if (starts(b"currval") || starts(b"lastval")) && may_be_called(&rest[7..], ends) => {
                    self.found.insert(Dirty::SEQUENCE_VALUES);
                }
                b'i' if alone(b"into") => self.found.insert(Dirty::TEMP),
                b's' if is_name(rest, b"set_config") => self.found.insert(Dirty::SETTINGS),
                b'a' if is_name(rest, b"advisory_lock") => self.found.insert(Dirty::LOCKS),
                b'p' if alone(b"prepare") => self.prepare = true,
                b'p' if is_name(rest, b"pg_settings") && *updates.get_or_insert_with(|| may_update(text, ends)) => {
                    self.found.insert(Dirty::SETTINGS);
                }
                b'u' if starts(b"u&\"") => self.found.insert(ANYTHING),
                b'e' | b'd' if alone(b"execute") || alone(b"deallocate") => self.execute = true,
                b'd' if blocks && alone(b"do") && begins_block(&rest[2..], ends) => self.found.insert(Dirty::ALL),
                _ => {}
            }
        }
    }
}

/// A text without the semicolons and the white space at its end.
#[inline]
fn without_end(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b';' | b' ' | b'\t' | b'\n' | b'\r'));
    &text[..end.map_or(0, |end| end + 1)]
}

/// Whether the first statement of a text may be DO.
#[inline]
fn may_begin_block(text: &[u8], ends: Ends) -> bool {
    // Nearly all texts begin with another word.
    if text.first().is_some_and(|first| first.is_ascii_alphabetic() && !matches!(first, b'd' | b'D')) {
        return false;
    }
    let mut scan = Scan::whole(text);
    scan.statement();
    match scan.left() {
        [b'd' | b'D', b'o' | b'O', next, ..] => !continues_name(Some(next)),
        [_, _, _, ..] => false,
        _ => ends != Ends::Here,
    }
}

/// Whether what follows the word DO is the beginning of a block: its text or its language, or a comment before these.
/// `ON CONFLICT DO NOTHING`, a rule's `DO INSTEAD` and the like are none.
fn begins_block(after: &[u8], ends: Ends) -> bool {
    count(after.len() - after.trim_ascii_start().len());
    let after = after.trim_ascii_start();
    let language = &b"language"[..after.len().min(8)];
    match after.first() {
        None => ends != Ends::Here,
        Some(b'\'' | b'$' | b'/' | b'-' | b'\x0b') => true,
        // E'…', U&'…', N'…'.
        Some(b'e' | b'E' | b'n' | b'N' | b'u' | b'U') => match after.get(1) {
            None => ends != Ends::Here,
            Some(second) => matches!(second, b'\'' | b'&'),
        },
        Some(_) => after[..language.len()].eq_ignore_ascii_case(language),
    }
}

/// Whether a name may be that of a function that is called, before this.
fn may_be_called(after: &[u8], ends: Ends) -> bool {
    let after = after.strip_prefix(b"\"").unwrap_or(after);
    count(after.len() - after.trim_ascii_start().len());
    match after.trim_ascii_start().first() {
        None => ends != Ends::Here,
        Some(next) => matches!(next, b'(' | b'/' | b'-' | b'\x0b'),
    }
}

/// Whether a text that mentions `pg_settings` may set one: it says `update`, in whatever case.
pub(super) fn updates_settings(text: &[u8]) -> bool {
    says_update(text) && holds_name(text, b"pg_settings")
}

/// Whether a text begins with a name, given in lower case, as PostgreSQL may fold it.
pub(super) fn is_name(text: &[u8], name: &[u8]) -> bool {
    let mut left = text;
    name.iter().all(|letter| {
        let Some(next) = left.first() else { return false };
        let length = match next.eq_ignore_ascii_case(letter) {
            true => 1,
            false if *letter == b'i' => left.iter().take_while(|byte| !byte.is_ascii()).count(),
            false => 0,
        };
        count(length);
        left = &left[length..];
        length > 0
    })
}

/// Whether a name is anywhere in a text.
fn holds_name(text: &[u8], name: &[u8]) -> bool {
    count(text.len());
    (0..text.len()).any(|at| is_name(&text[at..], name))
}

fn may_update(text: &[u8], ends: Ends) -> bool {
    ends != Ends::Here || says_update(text)
}

fn says_update(text: &[u8]) -> bool {
    count(text.len());
    text.windows(6).any(|word| word.eq_ignore_ascii_case(b"update"))
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

    const CASES: [(&str, Dirty); 76] = [
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
        ("do $$begin create table t (a int); end$$", Dirty::ALL),
        ("import foreign schema a from server b into pg_temp", Dirty::TEMP),
        ("select set_config('work_mem', '1MB', false)", Dirty::SETTINGS),
        ("select pg_catalog.\"set_config\" ('a.b', 'c', false)", Dirty::SETTINGS),
        ("SELECT SET_CONFIG($1, $2, $3)", Dirty::SETTINGS),
        ("do 'begin perform set_config(''a.b'', ''c'', false); end'", Dirty::ALL),
        ("select pg_advisory_lock(1)", Dirty::LOCKS),
        ("select pg_try_advisory_lock_shared(1, 2)", Dirty::LOCKS),
        ("select PG_ADVISORY_LOCK_SHARED(1)", Dirty::LOCKS),
        ("select u&\"pg\\005fadvisory\\005flock\"(1)", ANYTHING),
        ("select U&\"\\0070g_advis\\006fry_lock\"(1)", ANYTHING),
        ("select currval('s')", Dirty::SEQUENCE_VALUES),
        ("insert into t values (LastVal ())", Dirty::SEQUENCE_VALUES),
        ("select pg_catalog.\"currval\" /**/ ($1)", Dirty::SEQUENCE_VALUES),
        ("select lastval--\n()", Dirty::SEQUENCE_VALUES),
        ("select 1; select lastval()", Dirty::SEQUENCE_VALUES),
        ("do 'begin perform lastval(); end'", ANYTHING),
        ("select currval, lastval from t", NONE),
        ("select nextval('s'), setval('s', 1), interval(3), interval '1' from t", NONE),
        ("into", Dirty::TEMP),
        ("create", Dirty::TEMP),
        ("do $$begin set work_mem = '1MB'; end$$", Dirty::ALL),
        ("DO\n\t'begin listen a; end'", Dirty::ALL),
        ("/* a */ -- b\n ;do $x$begin end$x$", Dirty::ALL),
        ("do/**/$$begin end$$", Dirty::ALL),
        ("do language plpgsql $$begin end$$", Dirty::ALL),
        ("Do Language 'plpgsql' $$begin end$$", Dirty::ALL),
        ("do E'begin end'", Dirty::ALL),
        ("do U&'begin end'", Dirty::ALL),
        ("select 1;do $$begin end$$", Dirty::ALL),
        ("insert into t values (1); do $$begin end$$", Dirty::ALL),
        ("select 1; insert into t values (1) on conflict do nothing", Dirty::TEMP),
        ("insert into t values (1) on conflict (a) do update set a = 1", NONE),
        ("insert into t values (1) on conflict do nothing; select 1", NONE),
        ("domain, do_it, undo, a.do", NONE),
        ("select 1 as \"into_\", into_, intox?do/1", NONE),
        ("select 'do $$', a from do as b", NONE),
        ("delete from t", NONE),
        ("update pg_settings set setting = '1MB' where name = 'work_mem'", Dirty::SETTINGS),
        ("UPDATE ONLY pg_catalog.\"pg_settings\" AS s SET setting = $1", Dirty::SETTINGS),
        ("explain analyze update/**/Pg_Settings set setting = ''", Dirty::SETTINGS),
        ("with a as (select 1) update pg_settings set setting = 'b'", Dirty::SETTINGS),
        ("select set_config('a', 'b', true); update pg_settings set setting = 'b'", Dirty::SETTINGS),
        ("select setting from pg_settings where name = 'port'", NONE),
        ("select * from pg_settings for share", NONE),
        ("prepare a as update pg_settings set setting = $1", Dirty::SETTINGS),
        ("select SET_CONFİG('work_mem', '1MB', false)", Dirty::SETTINGS),
        ("select pg_advİsory_lock(1)", Dirty::LOCKS),
        ("update PG_SETTİNGS set setting = ''", Dirty::SETTINGS),
        ("execute mine(1)", NONE),
        ("select executed, state = 'execute' from runs", NONE),
        ("select weir_height from rivers", NONE),
        ("xcreate", NONE),
        ("_into", NONE),
        ("ünto into$", NONE),
        ("select 'a' into b from set_config", Dirty::TEMP.union(Dirty::SETTINGS)),
    ];

    #[test]
    fn words_that_leave_state_are_found_wherever_they_are_written() {
        for (text, want) in CASES {
            assert_eq!(Mentions::of(text.as_bytes()), want, "{text}");
            for (before, after) in [(0, 1), (1, 0), (1, 1), (2, 0), (7, 0), (8, 3)] {
                let text = [" ".repeat(before), text.to_owned(), "\n".repeat(after)].concat();
                assert!(Mentions::of(text.as_bytes()).contains(want), "{text:?}");
            }
        }
    }

    #[test]
    fn the_words_are_found_in_any_pieces_and_after_any_filling() {
        for (text, want) in CASES {
            for filling in [0, 1, 13, 14, 15, 100] {
                // A block is one only at the beginning of a statement.
                let fill = if want.contains(Dirty::ALL) { "x;" } else { "x " };
                let text = [fill.repeat(filling), text.to_owned()].concat();
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

    #[test]
    fn a_semicolon_between_two_statements_is_seen() {
        for (text, want) in [
            ("select 1", false),
            ("select 1; ", false),
            ("select 1;;\n", false),
            (";", false),
            ("a;b;", true),
            (";a", true),
        ] {
            let seen = Mentions::of_whole(text.as_bytes());
            assert_eq!((seen.found, seen.semicolon, seen.names), (NONE, want, false), "{text}");
        }
        let block = Mentions::of_whole(b"do $$begin end$$; ");
        assert_eq!((block.found, block.semicolon), (Dirty::ALL, false));
    }

    #[test]
    fn a_text_that_may_name_prepared_statements_is_seen() {
        for (text, want) in [
            ("prepare a as select 1", true),
            ("EXECUTE a", true),
            ("select 1;deallocate\"a\"", true),
            ("select prepared, repair, allocated, deallocated from t", false),
            ("select 'deallocate'", true),
        ] {
            assert_eq!(Mentions::of_whole(text.as_bytes()).names, want, "{text}");
        }
        let mut cut = Mentions::begin(b"select 1; dealloc");
        cut.feed(b"ate a");
        assert_eq!(cut.found(), Dirty::ALL, "it may be a statement of others");
    }

    #[test]
    fn a_block_is_found_behind_the_name_of_a_parse() {
        let body = b"some name\0do $$begin set work_mem = '1MB'; end$$\0\0\0";
        assert_eq!(Mentions::of(body), Dirty::ALL);
        for size in 1..body.len() {
            let mut pieces = body.chunks(size);
            let mut mentions = Mentions::begin(pieces.next().unwrap());
            pieces.for_each(|piece| mentions.feed(piece));
            assert_eq!(mentions.found(), Dirty::ALL, "by {size}");
        }
    }
}
