//! The commands of a text that a pooler carries out in other words: those that name prepared statements (PREPARE,
//! EXECUTE and DEALLOCATE), and those that reset parameters, wherever a statement may begin with them.
//!
//! Owns the reading of a text by PostgreSQL's lexical rules, statement by statement, with the parameter that decides
//! where a string ends. A text that PostgreSQL could not read to its end is not run at all, so what follows an error in
//! it does not matter. Read are also `EXPLAIN … EXECUTE` and `CREATE TABLE … AS EXECUTE`. Cost: one pass.
//!
//! Source: PostgreSQL's documentation, "Lexical Structure", the pages of the commands; `scan.l` and `gram.y`.

use std::ops::Range;

use super::resets::{Reset, ResetBy, Resetting, reset_by};
use super::scan::{MAX_NAME, Scan, begins_name, end_of_string};

/// What a statement does with a prepared one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    /// PREPARE.
    Prepare,
    /// EXECUTE.
    Execute,
    /// DEALLOCATE of one.
    Deallocate,
    /// DEALLOCATE ALL, or DISCARD ALL.
    DropAll,
    /// UNLISTEN, which names none: its command tag is given in place of that of a DEALLOCATE.
    Unlisten,
}

/// A prepared statement is named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Naming {
    /// By which statement.
    pub verb: Verb,
    /// As PostgreSQL reads it: folded, without quotes and escapes, cut to 63 bytes. Empty where none is named.
    pub name: Box<[u8]>,
    /// Where the name is written; of a DEALLOCATE, from that word on.
    pub at: Range<usize>,
}

/// A command that is carried out in other words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RewrittenCommand {
    /// The command names a prepared statement.
    Names(Naming),
    /// The command resets parameters.
    Resets(Resetting),
}

/// The commands of a text that name prepared statements or reset parameters, in order. `cut`: the text continues behind
/// its end, which no name then touches. `conforming` is the value of `standard_conforming_strings`. No more than `most`
/// are read.
pub fn commands(text: &[u8], cut: bool, conforming: bool, most: usize) -> Vec<RewrittenCommand> {
    let scan = if cut { Scan::prefix(text) } else { Scan::whole(text) };
    let mut parser = CommandParser { text, cut, conforming, scan, found: Vec::new() };
    while parser.found.len() < most && parser.statement().is_some() {}
    parser.found
}

/// The prepared statements that a text names, as [`commands`] finds them.
pub fn names(text: &[u8], cut: bool, conforming: bool, most: usize) -> Vec<Naming> {
    let naming = |command| if let RewrittenCommand::Names(naming) = command { Some(naming) } else { None };
    commands(text, cut, conforming, most).into_iter().filter_map(naming).collect()
}

struct CommandParser<'a> {
    text: &'a [u8],
    cut: bool,
    conforming: bool,
    scan: Scan<'a>,
    found: Vec<RewrittenCommand>,
}

/// A name, and where it is written.
type Named = (Box<[u8]>, Range<usize>);

/// The next piece of a text, as far as it matters.
#[derive(PartialEq, Eq)]
enum Piece {
    Open,
    Close,
    Semicolon,
    As,
    Other,
}

impl CommandParser<'_> {
    fn at(&self) -> usize {
        self.text.len() - self.scan.left().len()
    }

    /// Reads a statement. `None` where the text ends, or can't be read further.
    fn statement(&mut self) -> Option<()> {
        self.scan.statement();
        let begin = self.at();
        match self.scan.peek()?.to_ascii_lowercase() {
            b'd' if self.scan.word(b"deallocate") => self.deallocate(begin)?,
            b'd' if self.scan.word(b"discard") => return self.discard(begin),
            b'e' if self.scan.word(b"execute") => self.named(Verb::Execute)?,
            b'e' if self.scan.word(b"explain") => self.explain()?,
            b'p' if self.scan.word(b"prepare") => self.prepare()?,
            b'c' if self.scan.word(b"create") => self.create()?,
            b'u' if self.scan.word(b"unlisten") => self.add(Verb::Unlisten, Box::default(), begin..begin),
            b'r' | b's' => return self.reset(begin),
            _ => {}
        }
        self.skip_until(&Piece::Semicolon)
    }

    fn add(&mut self, verb: Verb, name: Box<[u8]>, at: Range<usize>) {
        self.found.push(RewrittenCommand::Names(Naming { verb, name, at }));
    }

    /// Reads a statement that may be a RESET or SET.
    fn reset(&mut self, begin: usize) -> Option<()> {
        let before = self.scan;
        if let Some((what, by)) = reset_by(&mut self.scan) {
            return self.resets(what, by, begin);
        }
        self.scan = before;
        self.skip_until(&Piece::Semicolon)
    }

    /// A statement resets this, and ends here.
    fn resets(&mut self, what: Reset, by: ResetBy, begin: usize) -> Option<()> {
        let at = begin..self.at();
        let rest = self.skip_until(&Piece::Semicolon);
        let followed = rest.is_some() && (self.cut || !self.scan.ends());
        self.found.push(RewrittenCommand::Resets(Resetting { what, by, at, followed }));
        rest
    }

    /// Takes the name that is next, if it is one.
    fn named(&mut self, verb: Verb) -> Option<()> {
        if let Some((name, at)) = self.name()? {
            self.add(verb, name, at);
        }
        Some(())
    }

    /// `DEALLOCATE [PREPARE] {name | ALL}`, after DEALLOCATE. A statement may be named `prepare`.
    fn deallocate(&mut self, begin: usize) -> Option<()> {
        let word = self.at();
        let prepare = self.scan.word(b"prepare");
        if self.scan.word(b"all") {
            self.add(Verb::DropAll, Box::default(), begin..begin);
            return Some(());
        }
        match self.name()? {
            Some((name, at)) => self.add(Verb::Deallocate, name, begin..at.end),
            None if prepare && !self.is_cut() => {
                self.add(Verb::Deallocate, b"prepare"[..].into(), begin..word + b"prepare".len());
            }
            None => {}
        }
        Some(())
    }

    fn discard(&mut self, begin: usize) -> Option<()> {
        if self.scan.word(b"all") {
            self.add(Verb::DropAll, Box::default(), begin..begin);
            if self.scan.ends_statement() {
                return self.resets(Reset::All, ResetBy::Discard, begin);
            }
        }
        self.skip_until(&Piece::Semicolon)
    }

    /// `PREPARE name [(types)] AS …` or `PREPARE TRANSACTION 'id'`, after PREPARE. A statement may be named
    /// `transaction`.
    fn prepare(&mut self) -> Option<()> {
        let before = self.scan;
        if self.scan.word(b"transaction") && self.scan.peek() != Some(b'(') && !self.scan.word(b"as") {
            return Some(());
        }
        self.scan = before;
        self.named(Verb::Prepare)
    }

    /// After EXPLAIN.
    fn explain(&mut self) -> Option<()> {
        if self.scan.peek() == Some(b'(') {
            self.piece()?;
            self.skip_until(&Piece::Close)?;
            self.scan.blank();
        }
        while [&b"analyze"[..], b"analyse", b"verbose"].iter().any(|word| self.scan.word(word)) {}
        if self.scan.word(b"execute") {
            self.named(Verb::Execute)
        } else if self.scan.word(b"create") {
            self.create()
        } else {
            Some(())
        }
    }

    /// `CREATE [temporary] TABLE … AS EXECUTE name`, after CREATE.
    fn create(&mut self) -> Option<()> {
        let kinds: [&[u8]; 5] = [b"global", b"local", b"temporary", b"temp", b"unlogged"];
        while kinds.iter().any(|kind| self.scan.word(kind)) {}
        if !self.scan.word(b"table") {
            return Some(());
        }
        let before = self.scan;
        if self.skip_until(&Piece::As).is_none() || self.text[..self.at()].ends_with(b";") {
            self.scan = before;
            return Some(());
        }
        self.scan.blank();
        if self.scan.word(b"execute") { self.named(Verb::Execute) } else { Some(()) }
    }

    /// Skips pieces up to and including one that is outside of parentheses, or that closes them, or the statement's
    /// end.
    fn skip_until(&mut self, wanted: &Piece) -> Option<()> {
        let mut depth = 0u32;
        loop {
            let piece = self.piece()?;
            match piece {
                Piece::Open => depth += 1,
                Piece::Close if depth == 0 && *wanted == Piece::Close => return Some(()),
                Piece::Close => depth = depth.saturating_sub(1),
                _ if depth == 0 && (piece == *wanted || piece == Piece::Semicolon) => return Some(()),
                _ => {}
            }
        }
    }

    /// Takes the next piece. `None` where the text ends, or can't be read further.
    fn piece(&mut self) -> Option<Piece> {
        self.scan.blank();
        let byte = self.scan.peek()?;
        let read = match byte {
            b'\'' => self.string(!self.conforming),
            b'"' => self.scan.quoted_name().is_some(),
            b'$' => self.scan.dollar(),
            _ if begins_name(byte) => return self.word(),
            _ => self.scan.skip(1),
        };
        read.then_some(match byte {
            b'(' => Piece::Open,
            b')' => Piece::Close,
            b';' => Piece::Semicolon,
            _ => Piece::Other,
        })
    }

    /// A word, or the string or quoted name whose prefix it is.
    fn word(&mut self) -> Option<Piece> {
        let word = self.scan.name_bytes();
        let read = match (word, self.scan.left()) {
            ([b'e' | b'E'], [b'\'', ..]) => self.string(true),
            ([b'b' | b'B' | b'x' | b'X'], [b'\'', ..]) => self.string(false),
            ([b'u' | b'U'], [b'&', b'\'', ..]) => self.scan.skip(1) && self.string(false),
            ([b'u' | b'U'], [b'&', b'"', ..]) => self.scan.skip(1) && self.scan.quoted_name().is_some(),
            _ => true,
        };
        read.then_some(if word.eq_ignore_ascii_case(b"as") { Piece::As } else { Piece::Other })
    }

    /// Skips the string in single quotes that is next, and its continuations in other lines, which are read like it.
    fn string(&mut self, escapes: bool) -> bool {
        loop {
            let Some(end) = end_of_string(self.scan.left(), escapes) else { return false };
            self.scan.skip(end);
            let before = self.scan;
            self.scan.blank();
            let between = &before.left()[..before.left().len() - self.scan.left().len()];
            if self.scan.peek() != Some(b'\'') || !between.iter().any(|byte| matches!(byte, b'\n' | b'\r')) {
                return true;
            }
        }
    }

    /// Takes a name and the blanks after it: what it is, and where. The inner `None`: there is none. The outer: it
    /// can't be read.
    fn name(&mut self) -> Option<Option<Named>> {
        let begin = self.at();
        let Some(first) = self.scan.peek() else { return Some(None) };
        let (name, end) = match (first, self.scan.left()) {
            (b'u' | b'U', [_, b'&', b'"', ..]) => self.unicode_name()?,
            (b'"', _) => (self.scan.quoted_name()?.into_owned(), self.at()),
            _ if begins_name(first) => (self.scan.name_bytes().to_ascii_lowercase(), self.at()),
            _ => return Some(None),
        };
        // The `u` of a `u&"…"` may be there without the rest.
        if self.cut && end + 1 >= self.text.len() {
            return None;
        }
        self.scan.blank();
        Some(Some((cut_to_size(&name).into(), begin..end)))
    }

    fn is_cut(&self) -> bool {
        self.cut && self.scan.left().is_empty()
    }

    /// `U&"…" [UESCAPE 'c']`: the name, and where it ends.
    fn unicode_name(&mut self) -> Option<(Vec<u8>, usize)> {
        self.scan.skip(2);
        let raw = self.scan.quoted_name()?.into_owned();
        let (mut end, mut escape) = (self.at(), b'\\');
        self.scan.blank();
        if self.cut && self.scan.left().len() < b"uescape '!' ".len() {
            return None;
        }
        if self.scan.word(b"uescape") {
            let [b'\'', given, b'\'', ..] = self.scan.left() else { return None };
            escape = *given;
            self.scan.skip(3);
            end = self.at();
        }
        Some((unescape(&raw, escape)?, end))
    }
}

/// The part of a name that PostgreSQL uses: 63 bytes, and no part of a character.
fn cut_to_size(name: &[u8]) -> &[u8] {
    let Some(head) = name.get(..MAX_NAME).filter(|_| name.len() > MAX_NAME) else { return name };
    match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        _ => head,
    }
}

/// A name without its Unicode escapes (`\0061`, `\+000061`, `\\`); `None` if one is wrong.
fn unescape(raw: &[u8], escape: u8) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(raw.len());
    let (mut left, mut high) = (raw, None);
    while let Some((byte, after)) = left.split_first() {
        let (digits, skipped) = match after {
            _ if *byte != escape => (None, 0),
            [next, ..] if *next == escape => (None, 1),
            [b'+', digits @ ..] => (Some(digits.get(..6)?), 7),
            digits => (Some(digits.get(..4)?), 4),
        };
        left = after.get(skipped..)?;
        let Some(digits) = digits else {
            name.push(*byte);
            continue;
        };
        let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        let code = match (high.take(), code) {
            (None, 0xD800..=0xDBFF) => {
                high = Some(code);
                continue;
            }
            (Some(high), 0xDC00..=0xDFFF) => 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00),
            (_, code) => code,
        };
        let character = char::from_u32(code)?;
        name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<(Verb, String, String)> {
        let found = names(text.as_bytes(), false, true, usize::MAX);
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        found.into_iter().map(|n| (n.verb, shown(&n.name), shown(&text.as_bytes()[n.at]))).collect()
    }

    fn one(text: &str, verb: Verb, name: &str, written: &str) {
        assert_eq!(of(text), [(verb, name.to_owned(), written.to_owned())], "{text}");
    }

    #[test]
    fn a_name_is_what_postgresql_makes_of_it() {
        one("execute S", Verb::Execute, "s", "S");
        one("EXECUTE \"S\"(1)", Verb::Execute, "S", "\"S\"");
        one("execute/**/\"a\"\"b\"", Verb::Execute, "a\"b", "\"a\"\"b\"");
        one("execute U&\"w\\0065ir_1\" (1)", Verb::Execute, "weir_1", "U&\"w\\0065ir_1\"");
        one(
            "execute u&\"d!0061t!+000061!!\" uescape '!'(1)",
            Verb::Execute,
            "data!",
            "u&\"d!0061t!+000061!!\" uescape '!'",
        );
        one("execute u&\"\\d83d\\de00\"", Verb::Execute, "\u{1f600}", "u&\"\\d83d\\de00\"");
        let long = "x".repeat(70);
        one(&format!("deallocate {long}"), Verb::Deallocate, &long[..63], &format!("deallocate {long}"));
        let wide = format!("{}é", "x".repeat(62));
        one(&format!("execute \"{wide}\""), Verb::Execute, &wide[..62], &format!("\"{wide}\""));
    }

    #[test]
    fn they_are_found_wherever_a_statement_begins() {
        one("savepoint s;DEALLOCATE \"_PLAN0x1\";release s", Verb::Deallocate, "_PLAN0x1", "DEALLOCATE \"_PLAN0x1\"");
        one(";; /* x */ deallocate prepare a -- b", Verb::Deallocate, "a", "deallocate prepare a");
        one("deallocate prepare", Verb::Deallocate, "prepare", "deallocate prepare");
        one("select ';', 'it''s', $$;$$, \";\"; execute a", Verb::Execute, "a", "a");
        one("select E'\\';', e'a'\n'\\';'; execute a", Verb::Execute, "a", "a");
        one("select '\\'; execute a", Verb::Execute, "a", "a");
        one("prepare A(int) as select $1", Verb::Prepare, "a", "A");
        one("prepare transaction as select 1", Verb::Prepare, "transaction", "transaction");
        one("explain execute a", Verb::Execute, "a", "a");
        one("explain (analyze, format 'text') execute a(1)", Verb::Execute, "a", "a");
        one("EXPLAIN ANALYZE VERBOSE create temp table t as execute a", Verb::Execute, "a", "a");
        one("create table if not exists t (x, y) with (a = 'as execute b') as execute a", Verb::Execute, "a", "a");
        let several = of("unlisten x; deallocate a; discard all; deallocate all; prepare b as select 1");
        let verbs: Vec<Verb> = several.iter().map(|n| n.0).collect();
        assert_eq!(verbs, [Verb::Unlisten, Verb::Deallocate, Verb::DropAll, Verb::DropAll, Verb::Prepare]);
    }

    #[test]
    fn what_only_looks_like_one_is_none() {
        for text in [
            "",
            "select 1",
            "select 'execute a; execute b'",
            "select $$; execute a$$",
            "select a execute, b",
            "prepare transaction 'x'",
            "create trigger t after insert on a execute function f()",
            "create table t (a int); select 1 as execute",
            "grant execute on function f() to a",
            "execute",
            "execute 1",
            "execute u&\"\\00zz\"",
            "select 'never ends; execute a",
            "select /* never ends; execute a",
            "discard plans",
        ] {
            assert_eq!(of(text), [], "{text}");
        }
        assert_eq!(names(b"select '\\'; execute a; --'", false, false, 9), [], "a string with a quote");
    }

    #[test]
    fn a_name_that_touches_the_end_of_a_cut_text_is_not_read() {
        let text = b"deallocate a; execute u&\"b\" uescape '!'; execute c";
        for end in 0..text.len() {
            let found = names(&text[..end], true, true, 9);
            let whole = names(text, false, true, 9);
            assert_eq!(found, whole[..found.len()], "{end}");
        }
        assert_eq!(names(text, true, true, 9).len(), 2);
    }
}
