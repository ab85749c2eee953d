//! A cursor over the text of a query, by PostgreSQL's lexical rules.
//!
//! Only unambiguous text is read: the end of a string with a backslash depends on a setting of the session, so such a
//! text counts as not understood. In encodings whose characters have ASCII bytes (SJIS, GBK, BIG5 …) those bytes are
//! never quotes or semicolons.

use std::borrow::Cow;

use super::steps::count;

/// A piece of a text.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    /// A name or keyword, as PostgreSQL folds it.
    Word(Cow<'a, [u8]>),
    /// A name between double quotes, which is no keyword.
    Quoted(Cow<'a, [u8]>),
    /// A string in single quotes, as written.
    Literal(&'a [u8]),
    /// Any other byte, the first one of its token.
    Other(u8),
    /// The end of a statement.
    Semicolon,
    /// The end of the text.
    End,
    /// Text that is not understood.
    Unclear,
}

/// A position in a text.
#[derive(Clone, Copy)]
pub(super) struct Scan<'a> {
    left: &'a [u8],
    /// Whether the text continues after `left`.
    cut: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn whole(text: &'a [u8]) -> Self {
        Scan { left: text, cut: false }
    }

    pub(super) fn prefix(text: &'a [u8]) -> Self {
        Scan { left: text, cut: true }
    }

    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.left.first().copied()
    }

    /// Moves to the first statement that is not empty.
    #[inline]
    pub(super) fn statement(&mut self) {
        // Most texts start with a word.
        if self.peek().is_some_and(|byte| byte.is_ascii_alphabetic()) {
            return;
        }
        self.blank();
        while self.peek() == Some(b';') {
            self.skip(1);
            self.blank();
        }
    }

    /// Takes this word (in lower case) and the blanks after it, if it is next.
    #[inline]
    pub(super) fn word(&mut self, word: &[u8]) -> bool {
        let Some((next, left)) = self.left.split_at_checked(word.len()) else { return false };
        if !next.eq_ignore_ascii_case(word) || left.first().is_some_and(|byte| continues_name(*byte)) {
            return false;
        }
        self.left = left;
        self.blank();
        true
    }

    /// Takes an identifier and the blanks after it. One in Unicode escapes (`U&"…"`) reads as the name `u` followed
    /// by text that no caller accepts.
    pub(super) fn name(&mut self) -> Option<Cow<'a, [u8]>> {
        let name = match self.peek()? {
            b'"' => self.quoted_name()?,
            first if begins_name(first) => fold(self.take_while(continues_name)),
            _ => return None,
        };
        self.blank();
        Some(name)
    }

    pub(super) fn quoted_name(&mut self) -> Option<Cow<'a, [u8]>> {
        let all = self.left.get(1..)?;
        let mut length = 0;
        let mut doubled = false;
        loop {
            let next = all.get(length..)?.iter().position(|byte| *byte == b'"');
            count(next.unwrap_or(all.len() - length));
            length += next?;
            if all.get(length + 1) != Some(&b'"') {
                break;
            }
            doubled = true;
            length += 2;
        }
        let name = all.get(..length).filter(|name| !name.is_empty())?;
        self.skip(length + 2);
        Some(if doubled { unquote(name) } else { Cow::Borrowed(name) })
    }

    /// Whether only semicolons and blanks follow.
    pub(super) fn ends(mut self) -> bool {
        if self.cut {
            return false;
        }
        self.blank();
        while self.peek() == Some(b';') {
            self.skip(1);
            self.blank();
        }
        self.left.is_empty()
    }

    /// Takes this byte and the blanks after it, if it is next.
    pub(super) fn symbol(&mut self, byte: u8) -> bool {
        let next = self.peek() == Some(byte) && self.skip(1);
        if next {
            self.blank();
        }
        next
    }

    /// Whether the statement certainly ends here.
    pub(super) fn ends_statement(&self) -> bool {
        self.peek() == Some(b';') || (!self.cut && self.left.is_empty())
    }

    /// Takes the next piece and the blanks before it.
    pub(super) fn token(&mut self) -> Token<'a> {
        self.blank();
        let before = self.left;
        match self.peek() {
            None => Token::End,
            Some(b';') => {
                self.skip(1);
                Token::Semicolon
            }
            Some(b'\'') if self.string() => {
                let length = before.len() - self.left.len();
                Token::Literal(before.get(1..length - 1).unwrap_or_default())
            }
            Some(b'$') if self.dollar() => Token::Other(b'$'),
            Some(b'\'' | b'$') => Token::Unclear,
            Some(b'"') => self.name().map_or(Token::Unclear, Token::Quoted),
            Some(first) if begins_name(first) => self.name().map_or(Token::Unclear, Token::Word),
            Some(byte) => {
                self.skip(1);
                Token::Other(byte)
            }
        }
    }

    /// Whether the current statement is certainly the last of the text.
    pub(super) fn is_last(mut self) -> bool {
        loop {
            self.blank();
            let understood = match self.peek() {
                None | Some(b';') => return self.ends(),
                Some(b'\'') => self.string(),
                Some(b'"') => self.quoted_name().is_some(),
                Some(b'$') => self.dollar(),
                Some(byte) if begins_name(byte) => !self.take_while(continues_name).is_empty(),
                Some(_) => self.skip(1),
            };
            if !understood {
                return false;
            }
        }
    }

    /// Skips white space and comments; one that does not end takes the rest.
    pub(super) fn blank(&mut self) {
        loop {
            count(1);
            self.left = match self.left {
                [b' ' | b'\t' | b'\n' | b'\r' | b'\x0b' | b'\x0c', left @ ..] => left,
                [b'-', b'-', left @ ..] => after_line(left),
                [b'/', b'*', left @ ..] => after_comment(left),
                _ => return,
            };
        }
    }

    /// Skips a string in single quotes; false if its end is ambiguous. A doubled quote reads as two strings, which
    /// ends at the same place.
    fn string(&mut self) -> bool {
        let inside = self.left.get(1..).unwrap_or_default();
        let end = inside.iter().position(|byte| matches!(byte, b'\'' | b'\\'));
        count(end.unwrap_or(inside.len()));
        match end {
            Some(at) if inside.get(at) == Some(&b'\'') => self.skip(at + 2),
            _ => false,
        }
    }

    /// Skips a dollar-quoted string, or a parameter's dollar; false if the string does not end.
    pub(super) fn dollar(&mut self) -> bool {
        let inside = self.left.get(1..).unwrap_or_default();
        let tag = inside.iter().position(|byte| *byte == b'$' || !continues_name(*byte));
        count(tag.unwrap_or(inside.len()));
        let Some(tag) = tag.filter(|at| inside.get(*at) == Some(&b'$')) else { return self.skip(1) };
        if inside.first().is_some_and(u8::is_ascii_digit) {
            return self.skip(1);
        }
        let Some((quote, body)) = self.left.split_at_checked(tag + 2) else { return false };
        // A tag holds no dollar, so that no byte is compared with more than two of the quote's.
        let end = body.windows(quote.len()).position(|window| window == quote);
        count(end.unwrap_or(body.len()));
        match end {
            Some(at) => self.skip(quote.len() + at + quote.len()),
            None => false,
        }
    }

    /// Skips the string in single quotes that is next, whose backslashes escape (`E'…'`); false if it does not end.
    pub(super) fn escaped_string(&mut self) -> bool {
        let end = end_of_string(self.left, true);
        end.is_some_and(|end| self.skip(end))
    }

    /// Skips the string in single quotes that is next, whether its backslashes escape or not
    /// (`standard_conforming_strings`); false if it ends elsewhere then, or does not end.
    pub(super) fn any_string(&mut self) -> bool {
        let end = end_of_string(self.left, false);
        // Only a backslash makes a difference.
        let plain = end.is_none_or(|end| !self.left[..end].contains(&b'\\'));
        if !plain && end_of_string(self.left, true) != end {
            return false;
        }
        end.is_some_and(|end| self.skip(end))
    }

    /// Skips the dollar-quoted string or the parameter (`$1`) that is next; false if it is neither, or does not end.
    pub(super) fn dollar_value(&mut self) -> bool {
        let inside = self.left.get(1..).unwrap_or_default();
        if inside.first().is_some_and(u8::is_ascii_digit) {
            self.skip(1);
            self.take_while(|byte| byte.is_ascii_digit());
            self.name_behind();
            return true;
        }
        let tag = inside.iter().take(MAX_NAME).position(|byte| *byte == b'$' || !continues_name(*byte));
        tag.is_some_and(|at| inside.get(at) == Some(&b'$')) && self.dollar()
    }

    /// Takes the bytes of a name or keyword without quotes.
    #[inline]
    pub(super) fn name_bytes(&mut self) -> &'a [u8] {
        self.take_while(continues_name)
    }

    /// Whether a number is next: a digit, or a point before one.
    #[inline]
    pub(super) fn begins_number(&self) -> bool {
        match self.left {
            [b'.', next, ..] => next.is_ascii_digit(),
            [next, ..] => next.is_ascii_digit(),
            [] => false,
        }
    }

    /// Skips the number that is next, and a name directly behind it, which newer servers refuse. A `$` behind a number
    /// belongs to what follows: a value in dollar quotes, or a parameter.
    pub(super) fn number(&mut self) {
        if let [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..] = self.left {
            self.take_while(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        } else {
            self.decimal();
        }
        self.name_behind();
    }

    /// Skips a name that is directly behind a number or a parameter.
    fn name_behind(&mut self) {
        if self.peek().is_some_and(begins_name) {
            self.take_while(continues_name);
        }
    }

    fn decimal(&mut self) {
        loop {
            self.take_while(|byte| byte.is_ascii_digit() || byte == b'.');
            let length = match self.left {
                [b'_', next, ..] | [b'e' | b'E', next, ..] if next.is_ascii_digit() => 1,
                [b'e' | b'E', b'+' | b'-', next, ..] if next.is_ascii_digit() => 2,
                _ => return,
            };
            self.skip(length);
        }
    }

    /// The bytes that are left.
    #[inline]
    pub(super) fn left(&self) -> &'a [u8] {
        self.left
    }

    /// Whether the text continues behind the bytes that are left.
    pub(super) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Skips this many bytes and returns whether there were any left.
    pub(super) fn skip(&mut self, count: usize) -> bool {
        let left = self.left.get(count..);
        self.left = left.unwrap_or_default();
        left.is_some()
    }

    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a [u8] {
        let length = self.left.iter().position(|byte| !wanted(*byte)).unwrap_or(self.left.len());
        count(length);
        let (taken, left) = self.left.split_at_checked(length).unwrap_or_default();
        self.left = left;
        taken
    }
}

/// Whether a text begins with these letters, given in lower case. Two comparisons.
#[inline]
pub(super) fn begins_with(text: &[u8], &[a, b, c, d, e, f]: &[u8; 6]) -> bool {
    let Some(&[first, second, third, fourth, fifth, sixth]) = text.first_chunk::<6>() else { return false };
    // 0x20 turns upper case into lower case, and turns no other byte into a letter.
    u32::from_ne_bytes([first, second, third, fourth]) | 0x2020_2020 == u32::from_ne_bytes([a, b, c, d])
        && u16::from_ne_bytes([fifth, sixth]) | 0x2020 == u16::from_ne_bytes([e, f])
}

/// The longest name, in bytes; PostgreSQL cuts longer ones.
pub(super) const MAX_NAME: usize = 63;

/// Where the string in single quotes ends with which a text begins: behind its last quote. A doubled quote is a part of
/// it.
pub(super) fn end_of_string(text: &[u8], escapes: bool) -> Option<usize> {
    let mut at = 1;
    loop {
        let next = text.get(at..)?.iter().position(|byte| *byte == b'\'' || (escapes && *byte == b'\\'));
        count(next.unwrap_or(text.len() - at));
        at += next?;
        if text[at] == b'\\' || text.get(at + 1) == Some(&b'\'') {
            at += 2;
        } else {
            return Some(at + 1);
        }
    }
}

pub(super) fn begins_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

#[inline]
fn continues_name(byte: u8) -> bool {
    begins_name(byte) || byte.is_ascii_digit() || byte == b'$'
}

fn fold(name: &[u8]) -> Cow<'_, [u8]> {
    if name.iter().any(u8::is_ascii_uppercase) { Cow::Owned(name.to_ascii_lowercase()) } else { Cow::Borrowed(name) }
}

/// Removes doubled quotes; every quote in `name` is doubled.
fn unquote(name: &[u8]) -> Cow<'_, [u8]> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(*byte);
        if *byte == b'"' {
            bytes.next();
        }
    }
    Cow::Owned(plain)
}

fn after_line(text: &[u8]) -> &[u8] {
    let end = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(text.len());
    count(end);
    text.get(end..).unwrap_or_default()
}

/// Comments nest.
fn after_comment(mut text: &[u8]) -> &[u8] {
    let mut depth = 1usize;
    while depth > 0 {
        count(1);
        text = match text {
            [b'*', b'/', left @ ..] => {
                depth -= 1;
                left
            }
            [b'/', b'*', left @ ..] => {
                depth += 1;
                left
            }
            [_, left @ ..] => left,
            [] => return &[],
        };
    }
    text
}
