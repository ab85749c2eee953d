//! The text of a query that is edited for its server, in one pass.

use std::ops::Range;

use weir_pgwire::sql::Verb;

use crate::replaced::NOTHING;

/// A text that is being edited, from its beginning to its end.
pub(crate) struct Edit<'t> {
    text: &'t [u8],
    upto: usize,
    edited: Vec<u8>,
    /// How many bytes were added.
    added: usize,
}

impl<'t> Edit<'t> {
    pub(crate) fn new(text: &'t [u8]) -> Edit<'t> {
        Edit { text, upto: 0, edited: Vec::new(), added: 0 }
    }

    fn put(&mut self, at: &Range<usize>) {
        self.edited.extend_from_slice(&self.text[self.upto..at.start]);
        self.upto = at.end;
    }

    /// A DEALLOCATE becomes a statement that does nothing.
    pub(crate) fn replace_by_nothing(&mut self, at: Range<usize>) {
        self.put(&at);
        self.edited.extend_from_slice(NOTHING);
        // So that positions in the server's errors stay right.
        self.edited.extend(std::iter::repeat_n(b' ', at.len().saturating_sub(NOTHING.len())));
    }

    /// A prepared statement has another name.
    pub(crate) fn rename(&mut self, verb: Verb, at: Range<usize>, name: &[u8]) {
        self.put(&at);
        let begin: &[u8] = if verb == Verb::Deallocate { b"DEALLOCATE " } else { b"" };
        self.edited.extend_from_slice(begin);
        self.edited.push(b'"');
        for byte in name {
            self.edited.extend(std::iter::repeat_n(*byte, if *byte == b'"' { 2 } else { 1 }));
        }
        self.edited.push(b'"');
    }

    /// A statement becomes another one.
    pub(crate) fn replace(&mut self, at: &Range<usize>, statement: &str) {
        self.put(at);
        self.edited.extend_from_slice(statement.as_bytes());
        self.added += statement.len();
    }

    /// Statements of ours follow the one that ends at `end`, behind one that does nothing.
    pub(crate) fn add(&mut self, end: usize, statements: &[String]) {
        self.put(&(end..end));
        self.edited.push(b';');
        self.edited.extend_from_slice(NOTHING);
        for statement in statements {
            self.edited.push(b';');
            self.edited.extend_from_slice(statement.as_bytes());
            self.added += statement.len();
        }
    }

    /// How many bytes of statements of ours are in the text.
    pub(crate) fn added(&self) -> usize {
        self.added
    }

    /// The whole text; `None` if nothing was edited.
    pub(crate) fn finish(mut self) -> Option<Vec<u8>> {
        if self.upto == 0 {
            return None;
        }
        self.edited.extend_from_slice(&self.text[self.upto..]);
        Some(self.edited)
    }
}
