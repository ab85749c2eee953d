//! The text of a query that is edited for its server, in one pass.

use std::ops::Range;

use weir_pgwire::sql::Verb;

use crate::replaced::NOTHING;
use crate::shifts::Shifts;

/// A text that is being edited, from its beginning to its end.
pub(crate) struct Edit<'t> {
    text: &'t [u8],
    upto: usize,
    edited: Vec<u8>,
    /// How many bytes were added.
    added: usize,
    /// What was cut from the text and what was put there, in bytes: both as ranges of their text.
    places: Vec<(Range<usize>, Range<usize>)>,
}

/// An edited text.
pub(crate) struct EditedText {
    pub(crate) text: Vec<u8>,
    pub(crate) shifts: Shifts,
}

/// The number of characters in a text.
fn characters(text: &[u8], utf8: bool) -> u32 {
    let count = text.iter().filter(|byte| !utf8 || !matches!(byte, 0x80..=0xbf)).count();
    count as u32
}

impl<'t> Edit<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Edit<'t> {
        Edit { text, upto: 0, edited: Vec::new(), added: 0, places: Vec::new() }
    }

    /// In place of `at` there is what `put` writes.
    fn put(&mut self, at: &Range<usize>, put: impl FnOnce(&mut Vec<u8>)) {
        self.edited.extend_from_slice(&self.text[self.upto..at.start]);
        self.upto = at.end;
        let begin = self.edited.len();
        put(&mut self.edited);
        self.places.push((at.clone(), begin..self.edited.len()));
    }

    /// A DEALLOCATE becomes a statement that does nothing.
    pub(crate) fn replace_by_nothing(&mut self, at: Range<usize>) {
        self.put(&at, |edited| edited.extend_from_slice(NOTHING));
    }

    /// A prepared statement has another name.
    pub(crate) fn rename(&mut self, verb: Verb, at: Range<usize>, name: &[u8]) {
        self.put(&at, |edited| {
            let begin: &[u8] = if verb == Verb::Deallocate { b"DEALLOCATE " } else { b"" };
            edited.extend_from_slice(begin);
            edited.push(b'"');
            for byte in name {
                edited.extend(std::iter::repeat_n(*byte, if *byte == b'"' { 2 } else { 1 }));
            }
            edited.push(b'"');
        });
    }

    /// A statement becomes another one.
    pub(crate) fn replace(&mut self, at: &Range<usize>, statement: &str) {
        self.put(at, |edited| edited.extend_from_slice(statement.as_bytes()));
        self.added += statement.len();
    }

    /// Statements of ours follow the one that ends at `end`, behind one that does nothing.
    pub(crate) fn add(&mut self, end: usize, statements: &[String]) {
        self.put(&(end..end), |edited| {
            edited.push(b';');
            edited.extend_from_slice(NOTHING);
            for statement in statements {
                edited.push(b';');
                edited.extend_from_slice(statement.as_bytes());
            }
        });
        self.added += statements.iter().map(String::len).sum::<usize>();
    }

    /// How many bytes of statements of ours are in the text.
    pub(crate) fn added(&self) -> usize {
        self.added
    }

    /// The whole text; `None` if nothing was edited. `utf8`: its characters are encoded so.
    pub(crate) fn finish(mut self, utf8: bool) -> Option<EditedText> {
        if self.places.is_empty() {
            return None;
        }
        self.edited.extend_from_slice(&self.text[self.upto..]);
        let (mut upto, mut before) = (0, 0);
        let shift = |(cut, put): (Range<usize>, Range<usize>)| {
            before += characters(&self.edited[upto..put.start], utf8);
            let shift = [before, characters(&self.edited[put.clone()], utf8), characters(&self.text[cut], utf8)];
            (upto, before) = (put.end, before + shift[1]);
            shift
        };
        let shifts = Shifts::new(std::mem::take(&mut self.places).into_iter().map(shift).collect());
        Some(EditedText { text: self.edited, shifts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_in_the_edited_text_is_one_in_the_clients() {
        let text = "SELECT 'é'; EXECUTE a(x); RESET b; SELECT y";
        let place = |word: &str| text.find(word).map(|at| at..at + word.len()).unwrap();
        let mut edit = Edit::new(text.as_bytes());
        edit.rename(Verb::Execute, place("a"), "a lönger name".as_bytes());
        edit.add(place("RESET b").end, &["SET b = 'c'".into()]);
        let edited = edit.finish(true).unwrap();
        let sent = String::from_utf8(edited.text).unwrap();
        for word in ["SELECT '", "EXECUTE", "x)", "RESET b", "SELECT y", "y"] {
            let at = |text: &str| text[..text.rfind(word).unwrap()].chars().count() as u32 + 1;
            assert_eq!(edited.shifts.original(at(&sent)), at(text), "{word} in {sent}");
        }
        let inside = sent[..sent.find("SET b = ").unwrap()].chars().count() as u32 + 1;
        let end = text[..place("RESET b").end].chars().count() as u32 + 1;
        assert_eq!(edited.shifts.original(inside), end, "what is not the client's is where it was put");
    }
}
