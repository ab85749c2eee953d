//! The fingerprint of a query: its text without values, so that queries that differ only in values have the same one.
//!
//! It never shows a value: strings, numbers and what a SET assigns become `?`, comments are left out, and text that is not
//! understood for certain, or was cut, ends it.

use super::scan::{Scan, Token};

/// The mark of a value.
const VALUE: &str = "?";
/// The mark of text that is left out.
const REST: &str = "…";

/// The fingerprint of a text, of at most `most` bytes and the mark of what is left out. Cost: one pass and one allocation
/// that grows up to `most`.
pub fn fingerprint(text: &[u8], most: usize) -> String {
    let mut out = Shape { text: String::new(), before: Kind::Begin };
    let (mut scan, mut assigns, mut begins) = (Scan::whole(text), Assigns::No, true);
    loop {
        if out.text.len() >= most {
            out.cut(most);
            return out.text;
        }
        let token = scan.token();
        if assigns == Assigns::Value && !matches!(token, Token::Semicolon | Token::End | Token::Unclear) {
            out.put(Kind::Value, VALUE);
            continue;
        }
        match token {
            Token::End => return out.text,
            Token::Unclear => {
                out.put(Kind::Word, REST);
                return out.text;
            }
            Token::Semicolon => {
                (assigns, begins) = (Assigns::No, true);
                out.put(Kind::Close, ";");
                continue;
            }
            Token::Word(word) => {
                assigns = assigns.after(&word, begins);
                out.put(Kind::Word, &String::from_utf8_lossy(&word));
            }
            Token::Quoted(name) => {
                let name = String::from_utf8_lossy(&name).replace('"', "\"\"");
                out.put(Kind::Word, &format!("\"{name}\""));
            }
            Token::Literal(_) => out.put(Kind::Value, VALUE),
            Token::Other(b'$') => match scan.digits() {
                [] => out.put(Kind::Value, VALUE),
                number => out.put(Kind::Word, &format!("${}", String::from_utf8_lossy(number))),
            },
            Token::Other(b'0'..=b'9') => {
                scan.number();
                out.put(Kind::Value, VALUE);
            }
            Token::Other(byte) => {
                if byte == b'=' && assigns == Assigns::Name {
                    assigns = Assigns::Value;
                }
                out.put(Kind::of(byte), char::from(byte).encode_utf8(&mut [0; 4]));
            }
        }
        begins = false;
    }
}

/// Where a statement is that assigns a setting, whose value may be a name without quotes: SET, ALTER … SET.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Assigns {
    No,
    /// ALTER, before SET.
    Alter,
    /// After SET.
    Name,
    /// After `=` or TO.
    Value,
}

impl Assigns {
    fn after(self, word: &[u8], begins: bool) -> Assigns {
        match (self, word) {
            (Assigns::No, b"set") if begins => Assigns::Name,
            (Assigns::No, b"alter") if begins => Assigns::Alter,
            (Assigns::Alter, b"set") => Assigns::Name,
            (Assigns::Name, b"to") => Assigns::Value,
            _ => self,
        }
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
struct Shape {
    text: String,
    before: Kind,
}

impl Shape {
    fn put(&mut self, kind: Kind, piece: &str) {
        // A list of values is one value.
        if kind == Kind::Value {
            if self.before == Kind::Value {
                return;
            }
            if self.text.ends_with("?,") {
                self.text.pop();
                self.before = Kind::Value;
                return;
            }
        }
        let together = matches!(
            (self.before, kind),
            (Kind::Begin | Kind::Open | Kind::Joint, _)
                | (_, Kind::Close | Kind::Comma | Kind::Joint)
                | (Kind::Word, Kind::Open)
                | (Kind::Operator, Kind::Operator)
        );
        if !together {
            self.text.push(' ');
        }
        self.text.push_str(piece);
        self.before = kind;
    }

    fn cut(&mut self, most: usize) {
        let end = (0..=most).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0);
        self.text.truncate(end);
        self.text.push_str(REST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_that_differ_in_values_have_one_fingerprint() {
        let table = [
            ("SELECT * FROM t WHERE id = 42", "select * from t where id = ?"),
            ("select  *\nfrom t where id=7 -- seven", "select * from t where id = ?"),
            ("SELECT f(1, 'two', $$three$$)", "select f(?)"),
            ("UPDATE a SET b = 0x1F, c = 1.5e3 WHERE d IN (1, 2, 3)", "update a set b = ?, c = ? where d in(?)"),
            ("SELECT a.b::int FROM \"My T\" a WHERE c >= $1", "select a.b::int from \"My T\" a where c >= $1"),
            ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "insert into t values(?), (?)"),
            ("/* app */ BEGIN; SELECT 1", "begin; select ?"),
        ];
        for (text, wanted) in table {
            assert_eq!(fingerprint(text.as_bytes(), 1000), wanted, "{text}");
        }
    }

    #[test]
    fn no_value_is_shown_whatever_the_text() {
        for text in [
            "ALTER USER joe PASSWORD 'secret'",
            "SELECT 'it''s secret', E'\\'secret'",
            "SELECT 'a\\' secret'",
            "SELECT $tag$ secret $tag$, $x$ secret",
            "SELECT 1 /* secret */ -- secret",
            "SET app.token = secret",
            "set session app.token to secret, secret",
            "ALTER ROLE joe SET app.token = secret; SELECT 1",
            "SELECT 'cut secre secret",
            "SELECT U&'secret', B'1' 'secret'",
        ] {
            assert!(!fingerprint(text.as_bytes(), 1000).contains("secre"), "{text}");
        }
    }

    #[test]
    fn a_fingerprint_is_bounded() {
        let text = format!("select {}", "é, ".repeat(5000));
        assert!(fingerprint(text.as_bytes(), 100).len() <= 100 + REST.len());
        assert_eq!(fingerprint(b"", 10), "");
        assert_eq!(fingerprint(b"\xff\xfe(", 10).chars().filter(|c| *c == '(').count(), 1);
    }
}
