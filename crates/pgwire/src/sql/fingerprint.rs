//! The fingerprint of a query: its text without values, so that queries that differ only in values have the same one.
//!
//! A fingerprint never shows a value: strings, numbers, parameters, and what a SET or a PASSWORD is given become `?`,
//! comments are left
//! out, and text that is not understood for certain, or was cut, ends it. So `id = 42`, `id = -7` and `id = $1` are one
//! query. Names are shown: those between double quotes, too, as PostgreSQL takes no value there. Lists of values are
//! one value, and equal rows of VALUES one row.

use super::scan::{MAX_NAME, Scan, begins_name};

/// How many bytes of a text are read; a longer one is known by its beginning.
pub const MAX_READ: usize = 8 << 10;

/// The mark of a value.
const VALUE: &[u8] = b"?";
/// What COPY calls the data that its client sends.
const INPUT: &str = concat!("std", "in");
/// The mark of text that is left out.
const REST: &str = "…";
/// Parentheses within each other whose equal content is written once.
const MAX_DEPTH: usize = 16;

/// The fingerprint of a text, of at most `most` bytes and the mark of what is left out. Cost: one pass over at most
/// [`MAX_READ`] bytes, and one allocation that grows up to `most`.
pub fn fingerprint(text: &[u8], most: usize) -> String {
    let mut out = Vec::new();
    normalize(text, most, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Writes the [`fingerprint`] of a text into `out`, which is emptied first; what is written is UTF-8. Does not allocate
/// where `out` has room for `most` bytes and one name more.
pub fn normalize(text: &[u8], most: usize, out: &mut Vec<u8>) {
    out.clear();
    let read = &text[..text.len().min(MAX_READ)];
    let mut fingerprinter = Fingerprinter { scan: Scan::whole(read), shape: Shape::new(out), hides: Hides::Begin };
    let understood = loop {
        if fingerprinter.shape.out.len() >= most {
            break false;
        }
        match fingerprinter.step() {
            Step::On => {}
            Step::End => break read.len() == text.len(),
            Step::Unclear => break false,
        }
    };
    fingerprinter.shape.finish(most, understood);
}

/// The result of a step.
enum Step {
    On,
    End,
    /// The rest is not understood.
    Unclear,
}

/// Where a statement is in which a value may be written as a name, or data may follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hides {
    /// Before its first word.
    Begin,
    /// Such a value is nowhere in it.
    Nothing,
    /// CREATE and ALTER: SET, PASSWORD, OPTIONS and CONNECTION may follow.
    Definition,
    /// After SET; the value follows `=` or TO.
    Name,
    /// What follows is the value.
    Value,
    /// COPY.
    Copy,
    /// COPY … FROM STDIN: what follows the statement may be data.
    Data,
}

impl Hides {
    fn after(self, word: &[u8]) -> Hides {
        let is = |names: &[&str]| names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
        match self {
            Hides::Begin if is(&["set"]) => Hides::Name,
            Hides::Begin if is(&["create", "alter"]) => Hides::Definition,
            Hides::Begin if is(&["copy"]) => Hides::Copy,
            Hides::Begin => Hides::Nothing,
            Hides::Definition if is(&["set"]) => Hides::Name,
            Hides::Definition | Hides::Name if is(&["password", "options", "connection"]) => Hides::Value,
            Hides::Name if is(&["to"]) => Hides::Value,
            Hides::Copy if is(&[INPUT]) => Hides::Data,
            same => same,
        }
    }
}

struct Fingerprinter<'t, 'o> {
    scan: Scan<'t>,
    shape: Shape<'o>,
    hides: Hides,
}

impl Fingerprinter<'_, '_> {
    /// Takes the next piece.
    #[inline]
    fn step(&mut self) -> Step {
        let before = self.scan.left().len();
        self.scan.blank();
        let adjacent = before == self.scan.left().len();
        let Some(byte) = self.scan.peek() else { return Step::End };
        if begins_name(byte) {
            return self.word();
        }
        let understood = match byte {
            b'\'' => self.scan.any_string(),
            b'$' => self.scan.dollar_value(),
            b'"' => return self.quoted(),
            b'0'..=b'9' => return self.number(),
            b'.' if self.shape.before != Kind::Word && self.scan.begins_number() => return self.number(),
            _ => return self.punctuation(byte, adjacent),
        };
        if understood { self.value() } else { Step::Unclear }
    }

    fn value(&mut self) -> Step {
        self.shape.value();
        Step::On
    }

    fn number(&mut self) -> Step {
        self.scan.number();
        self.value()
    }

    #[inline]
    fn word(&mut self) -> Step {
        let word = self.scan.name_bytes();
        if let [prefix] = word
            && let Some(understood) = self.prefixed_string(*prefix)
        {
            return if understood { self.value() } else { Step::Unclear };
        }
        if self.hides == Hides::Value {
            return self.value();
        }
        if self.hides != Hides::Nothing {
            self.hides = self.hides.after(word);
        }
        if is_constant(word) && !self.shape.takes_constant_as_name() || !is_shown(word) {
            return self.value();
        }
        self.shape.word(word);
        Step::On
    }

    /// Skips the string that a word of one letter introduces: `E'…'`, `B'…'`, `X'…'`, `N'…'`, `U&'…'`. Whether it is
    /// understood; `None` if there is none.
    fn prefixed_string(&mut self, prefix: u8) -> Option<bool> {
        match (prefix.to_ascii_lowercase(), self.scan.left()) {
            (b'e', [b'\'', ..]) => Some(self.scan.escaped_string()),
            (b'b' | b'x' | b'n', [b'\'', ..]) => Some(self.scan.any_string()),
            (b'u', [b'&', b'\'', ..]) => {
                self.scan.skip(1);
                Some(self.scan.any_string())
            }
            _ => None,
        }
    }

    /// A name between double quotes, as it is written.
    fn quoted(&mut self) -> Step {
        let before = self.scan.left();
        if self.scan.quoted_name().is_none() {
            return Step::Unclear;
        }
        let name = &before[..before.len() - self.scan.left().len()];
        let plain = name.len() <= MAX_NAME + 2 && !name.iter().any(u8::is_ascii_control);
        if self.hides == Hides::Value || !plain || std::str::from_utf8(name).is_err() {
            return self.value();
        }
        if self.hides == Hides::Begin {
            self.hides = Hides::Nothing;
        }
        self.shape.put(Kind::Word, name);
        Step::On
    }

    #[inline]
    fn punctuation(&mut self, byte: u8, adjacent: bool) -> Step {
        if byte.is_ascii_control() || byte == b'\\' {
            return Step::Unclear;
        }
        self.scan.skip(1);
        if byte == b';' {
            if self.hides == Hides::Data {
                return Step::Unclear;
            }
            self.hides = Hides::Begin;
            self.shape.end_statement();
            return Step::On;
        }
        if self.hides == Hides::Value {
            return self.value();
        }
        if byte == b'=' && self.hides == Hides::Name {
            self.hides = Hides::Value;
        }
        if matches!(byte, b'-' | b'+') && self.shape.may_sign() && self.scan.begins_number() {
            return self.number();
        }
        self.shape.punctuation(byte, adjacent);
        Step::On
    }
}

/// Whether a word is shown as it is: not if it is longer than any name, or in another encoding.
#[inline]
fn is_shown(word: &[u8]) -> bool {
    word.len() <= MAX_NAME && (word.is_ascii() || std::str::from_utf8(word).is_ok())
}

/// TRUE, FALSE and NULL.
#[inline]
fn is_constant(word: &[u8]) -> bool {
    match word.len() {
        4 => word.eq_ignore_ascii_case(b"true") || word.eq_ignore_ascii_case(b"null"),
        5 => word.eq_ignore_ascii_case(b"false"),
        _ => false,
    }
}

/// What a piece is, for the blanks around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Begin,
    Word,
    Value,
    /// `(`, `[`: no blank after it.
    Open,
    /// `)`, `]`, `;`: no blank before it.
    Close,
    Comma,
    /// `.` and `:`: no blanks.
    Joint,
    Operator,
}

impl Kind {
    fn of(byte: u8) -> Kind {
        match byte {
            b'(' | b'[' => Kind::Open,
            b')' | b']' => Kind::Close,
            b',' => Kind::Comma,
            b'.' | b':' => Kind::Joint,
            _ => Kind::Operator,
        }
    }
}

/// A fingerprint in progress.
struct Shape<'o> {
    out: &'o mut Vec<u8>,
    before: Kind,
    /// What is before that.
    earlier: Kind,
    /// Where the last word begins.
    word: usize,
    /// Where the open parentheses are, the innermost last; more than [`MAX_DEPTH`] are only counted.
    open: [usize; MAX_DEPTH],
    depth: usize,
}

impl Shape<'_> {
    fn new(out: &mut Vec<u8>) -> Shape<'_> {
        Shape { out, before: Kind::Begin, earlier: Kind::Begin, word: 0, open: [0; MAX_DEPTH], depth: 0 }
    }

    #[inline]
    fn put(&mut self, kind: Kind, piece: &[u8]) {
        let together = matches!(
            (self.before, kind),
            (Kind::Begin | Kind::Open | Kind::Joint, _) | (_, Kind::Close | Kind::Comma | Kind::Joint)
        );
        self.put_apart(kind, piece, !together);
    }

    #[inline]
    fn put_apart(&mut self, kind: Kind, piece: &[u8], apart: bool) {
        if apart {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(piece);
        (self.earlier, self.before) = (self.before, kind);
    }

    #[inline]
    fn word(&mut self, word: &[u8]) {
        self.put(Kind::Word, &[]);
        self.word = self.out.len();
        self.out.extend(word.iter().map(u8::to_ascii_lowercase));
    }

    /// A value; a list of values is one.
    fn value(&mut self) {
        match (self.before, self.earlier) {
            (Kind::Value, _) => {}
            (Kind::Comma, Kind::Value) => {
                self.out.pop();
                self.before = Kind::Value;
            }
            _ => self.put(Kind::Value, VALUE),
        }
    }

    #[inline]
    fn punctuation(&mut self, byte: u8, adjacent: bool) {
        let kind = Kind::of(byte);
        let piece = std::slice::from_ref(&byte);
        match kind {
            Kind::Operator if adjacent && self.before == Kind::Operator => self.put_apart(kind, piece, false),
            Kind::Open => self.open(piece),
            Kind::Close => self.close(piece),
            _ => self.put(kind, piece),
        }
    }

    fn open(&mut self, piece: &[u8]) {
        if self.before == Kind::Word && !self.is_last_word(&BEFORE_PARENTHESIS) {
            self.put_apart(Kind::Open, piece, false);
        } else {
            self.put(Kind::Open, piece);
        }
        if let Some(open) = self.open.get_mut(self.depth) {
            *open = self.out.len() - 1;
        }
        self.depth += 1;
    }

    /// Of equal groups of values in a list, the first is written.
    fn close(&mut self, piece: &[u8]) {
        self.put(Kind::Close, piece);
        self.depth = self.depth.saturating_sub(1);
        let Some(start) = self.open.get(self.depth).copied() else { return };
        let (Some(list), Some(group)) = (self.out.get(..start), self.out.get(start..)) else { return };
        if list.strip_suffix(b", ").is_some_and(|list| list.ends_with(group)) && group.contains(&b'?') {
            self.out.truncate(start - 2);
        }
    }

    /// A statement has ended; one without a piece is left out.
    fn end_statement(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with(b";") {
            self.put(Kind::Close, b";");
        }
        self.depth = 0;
    }

    /// Whether the last piece is one of these words.
    fn is_last_word(&self, words: &[&str]) -> bool {
        let last = self.out.get(self.word..).unwrap_or_default();
        self.before == Kind::Word && words.iter().any(|word| word.as_bytes() == last)
    }

    /// Whether a sign here belongs to the number behind it.
    fn may_sign(&self) -> bool {
        match self.before {
            Kind::Begin | Kind::Open | Kind::Comma | Kind::Operator => true,
            Kind::Word => self.is_last_word(&BEFORE_VALUE),
            _ => false,
        }
    }

    /// Whether NULL, TRUE or FALSE here is a part of a clause: `IS NULL`, `NOT NULL`, `SET NULL`.
    fn takes_constant_as_name(&self) -> bool {
        self.before == Kind::Joint || self.is_last_word(&["is", "not", "set", "on"])
    }

    fn finish(self, most: usize, understood: bool) {
        if understood {
            if self.out.last() == Some(&b';') {
                self.out.pop();
            }
            return;
        }
        if self.out.len() >= most {
            let end = (0..=most).rev().find(|at| self.out.get(*at).is_none_or(|byte| byte & 0xC0 != 0x80));
            self.out.truncate(end.unwrap_or(0));
        } else if !self.out.is_empty() {
            self.out.push(b' ');
        }
        self.out.extend_from_slice(REST.as_bytes());
    }
}

/// Words before a parenthesis that calls no function, and has a blank before it.
const BEFORE_PARENTHESIS: [&str; 14] =
    ["in", "values", "and", "or", "as", "on", "where", "not", "from", "using", "with", "by", "select", "when"];

/// Words after which a sign belongs to the number behind it.
const BEFORE_VALUE: [&str; 14] = [
    "select",
    "and",
    "or",
    "between",
    "limit",
    "offset",
    "then",
    "else",
    "when",
    "like",
    "not",
    "return",
    "returning",
    "where",
];

#[cfg(test)]
mod tests;
