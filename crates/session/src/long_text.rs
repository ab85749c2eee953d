//! The text of a long Parse, read while it arrives.
//!
//! Owns what is known of the part that is here, so that a message of megabytes costs each turn of a worker the bytes of
//! that turn. What is known of a long text is less than of a short one: which words are in it, but not where.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};
use weir_pgwire::HEAD;
use weir_pgwire::sql::{Judgement, Mentions};
use weir_pgwire::tag::front;

/// Texts of up to this many bytes are read at once, when all of their message is there.
pub(crate) const LONG_TEXT: usize = 64 << 10;

/// How much of a simple query is searched for names of statements: more than any driver sends in front of what a
/// program asks for. What follows is searched as it streams; if it may name one, all are prepared again.
pub(crate) const SEARCHED: usize = 8 << 10;

/// How much is read at a time, however the bytes arrive: so they do not decide what is found.
const BLOCK: usize = 32 << 10;

/// How much of a text is looked at to see what command it is.
const BEGINNING: usize = 512;

/// What is known so far of what follows the name in a Parse.
#[derive(Debug)]
pub(crate) struct LongText {
    hasher: SipHasher13,
    mentions: Option<Mentions>,
    read: usize,
    /// What was found, once all is read: a message that must wait is decided on again.
    whole: Option<(u128, Judgement)>,
}

impl LongText {
    /// Nothing is read yet. `hash_key` is that of the worker's texts.
    pub(crate) fn new(hash_key: &[u8; 16]) -> LongText {
        LongText { hasher: SipHasher13::new_with_key(hash_key), mentions: None, read: 0, whole: None }
    }

    /// Reads what is new in the beginning of a message.
    pub(crate) fn follow(&mut self, message: &[u8]) {
        let Some(body) = message.get(HEAD..).filter(|_| message.first() == Some(&front::PARSE)) else { return };
        let name = &body[..body.len().min(LONG_TEXT)];
        if let Some(end) = name.iter().position(|byte| *byte == 0) {
            self.read_blocks(&body[end + 1..]);
        }
    }

    fn read_blocks(&mut self, rest: &[u8]) {
        while let Some(block) = rest.get(self.read..self.read + BLOCK) {
            self.take(block);
        }
    }

    fn take(&mut self, block: &[u8]) {
        self.hasher.write(block);
        add(&mut self.mentions, block);
        self.read += block.len();
    }

    /// Reads to the end of `rest`, of which this has read the beginning. Returns the text's keyed hash, and what is known of it.
    pub(crate) fn finish(&mut self, rest: &[u8]) -> (u128, Judgement) {
        if let Some(whole) = self.whole {
            return whole;
        }
        self.read_blocks(rest);
        self.take(&rest[self.read..]);
        *self.whole.insert((self.hasher.finish128().as_u128(), judgement(rest, self.mentions)))
    }
}

/// What is known of a long text that is there as a whole.
pub(crate) fn judge(text: &[u8]) -> Judgement {
    let mut mentions = None;
    text.chunks(BLOCK).for_each(|block| add(&mut mentions, block));
    judgement(text, mentions)
}

/// Reads one more block of a text, of which this is known so far.
fn add(mentions: &mut Option<Mentions>, block: &[u8]) {
    match mentions {
        Some(mentions) => mentions.feed(block),
        None => *mentions = Some(Mentions::begin(block)),
    }
}

fn judgement(text: &[u8], mentions: Option<Mentions>) -> Judgement {
    Judgement::of_long(&text[..text.len().min(BEGINNING)], &mentions.unwrap_or_default())
}
