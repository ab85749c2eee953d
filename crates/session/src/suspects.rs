//! The texts of a client that may have left state on its server, until the server says what there is (`mode = "auto"`).
//!
//! Owns the beginning of each, with the kinds that it may have left, so that a pinned client's state has a text. Must
//! not know what was left.
//!
//! Bounded: [`MOST`] texts a server, the first [`KEPT`] bytes of each. A text that may leave nothing, and after which
//! the server is not asked, is not kept.

use weir_pgwire::Dirty;

/// The most texts that are kept; later ones are not.
const MOST: usize = 8;

/// How much of a text is kept, in bytes.
const KEPT: usize = 512;

/// See the head of the file.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    texts: Vec<(Dirty, Box<[u8]>)>,
    /// The use of the server in which they were sent.
    within: u32,
}

impl Suspects {
    /// A text is sent that may leave these kinds, in this use of the server.
    #[cold]
    pub(crate) fn add(&mut self, text: &[u8], kinds: Dirty, within: u32) {
        self.keep_only(within);
        if self.texts.len() < MOST {
            self.texts.push((kinds, text[..text.len().min(KEPT)].into()));
        }
    }

    /// Forgets what was sent in another use of the server than this one.
    pub(crate) fn keep_only(&mut self, within: u32) {
        if self.within != within {
            *self = Suspects { texts: Vec::new(), within };
        }
    }

    /// The beginning of the text that has left this: the first that says so, or else the first that may do anything.
    pub(crate) fn of(&self, kind: Dirty) -> Option<&[u8]> {
        let says = |(kinds, _): &&(Dirty, _)| kinds.contains(kind) && !kinds.contains(Dirty::ALL);
        let may = |(kinds, _): &&(Dirty, _)| kinds.contains(kind);
        self.texts.iter().find(says).or_else(|| self.texts.iter().find(may)).map(|(_, text)| &**text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_that_says_what_it_leaves_is_named_and_otherwise_one_that_may_do_anything() {
        let mut suspects = Suspects::default();
        suspects.add(b"select f()", Dirty::ALL, 1);
        suspects.add(b"listen a", Dirty::LISTEN, 1);
        assert_eq!(suspects.of(Dirty::LISTEN), Some(&b"listen a"[..]));
        assert_eq!(suspects.of(Dirty::TEMP), Some(&b"select f()"[..]));
        suspects.add(b"listen b", Dirty::LISTEN, 2);
        assert_eq!(suspects.of(Dirty::LISTEN), Some(&b"listen b"[..]), "the other was of another client");
        assert_eq!(suspects.of(Dirty::TEMP), None);
    }

    #[test]
    fn however_many_and_long_the_texts_are_they_take_little_room() {
        let mut suspects = Suspects::default();
        (0..100).for_each(|_| suspects.add(&[b'x'; 10_000], Dirty::ALL, 1));
        assert_eq!(suspects.texts.iter().map(|(_, text)| text.len()).sum::<usize>(), MOST * KEPT);
    }
}
