//! Messages that arrive in pieces: what is held until enough of a message is there to decide on it.
//!
//! Owns the rest of a message whose disposition is decided (it streams), and the beginning of one that is not. Must not
//! know what messages mean.
//!
//! Invariant: at most one message's beginning is held, never more than was requested.

use std::ops::Range;
use std::sync::Arc;

use weir_pgwire::{HEAD, Head, Malformed};

use crate::budget::{Account, Charge};

/// What happens to the rest of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Disposition {
    /// The rest goes to the other side.
    #[default]
    Forward,
    /// The rest is thrown away.
    Discard,
}

/// One direction's place in its stream of messages.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    /// Bytes of the current message still to come, and their disposition.
    left: u32,
    disposition: Disposition,
    held: Vec<u8>,
    /// What the held bytes are charged, if they are many.
    charge: Option<Charge>,
}

/// The largest buffer for the beginning of a message that is a part of its peer's own memory; a larger one is charged.
const UNCHARGED: usize = 16 << 10;

/// What to do next with a stretch of input.
pub(crate) enum Piece {
    /// The input is used up.
    End,
    /// This range of the input belongs to a message that was decided.
    Rest(Range<usize>, Disposition),
    /// A message with this head begins in the input, at this offset.
    Here(usize, Head),
    /// A message with this head that began in earlier input is now complete enough in [`FrameReader::take_held`].
    Held(Head),
}

impl FrameReader {
    /// Nothing of a message is under way.
    #[inline]
    pub(crate) fn is_between(&self) -> bool {
        self.left == 0 && self.held.is_empty()
    }

    /// The rest of a message whose disposition is decided is still to come.
    pub(crate) fn is_in_rest(&self) -> bool {
        self.left > 0
    }

    /// The rest of a message is on its way to the other side.
    #[inline]
    pub(crate) fn is_forwarding(&self) -> bool {
        self.left > 0 && self.disposition == Disposition::Forward
    }

    /// No part of a message is here, and no memory is charged or to be charged for one.
    #[inline]
    pub(crate) fn is_at_rest(&self) -> bool {
        self.left == 0 && self.held.is_empty() && self.charge.is_none() && self.held.capacity() <= UNCHARGED
    }

    /// Bytes held.
    pub(crate) fn held(&self) -> &[u8] {
        &self.held
    }

    /// Bytes that are charged for what is held.
    pub(crate) fn charged(&self) -> u64 {
        self.charge.as_ref().map_or(0, Charge::bytes)
    }

    /// Charges what is held. That there is room for it is asked before it is held (`need`, in [`FrameReader::next`]).
    /// Returns whether they are many.
    #[inline]
    pub(crate) fn charge(&mut self, account: &Arc<Account>) -> bool {
        if self.held.capacity() > UNCHARGED {
            let bytes = self.held.capacity() as u64;
            self.charge.get_or_insert_with(|| Charge::anyway(account, 0)).resize_anyway(bytes);
            return true;
        }
        if self.charge.is_some() {
            self.charge = None;
        }
        false
    }

    /// Puts back what a frozen session had held.
    pub(crate) fn thaw(held: Vec<u8>) -> Self {
        FrameReader { held, ..Self::default() }
    }

    /// The rest of the message that was just decided: `left` bytes more.
    #[inline]
    pub(crate) fn rest(&mut self, left: usize, disposition: Disposition) {
        self.left = left as u32;
        self.disposition = disposition;
    }

    /// Advances `at` in `input` to the next thing to do. `need` says how many bytes of a message that begins with the
    /// given bytes must be there before it can be decided; what is there of a message that lacks some is held.
    #[inline]
    pub(crate) fn next(
        &mut self,
        input: &[u8],
        at: &mut usize,
        need: impl Fn(&[u8], Head) -> usize,
    ) -> Result<Piece, Malformed> {
        if self.left > 0 {
            let taken = (self.left as usize).min(input.len() - *at);
            if taken == 0 {
                return Ok(Piece::End);
            }
            self.left -= taken as u32;
            *at += taken;
            return Ok(Piece::Rest(*at - taken..*at, self.disposition));
        }
        if !self.held.is_empty() {
            return self.fill(input, at, need);
        }
        let here = &input[*at..];
        if here.is_empty() {
            return Ok(Piece::End);
        }
        match Head::parse(here)? {
            // Nobody needs more than the message, and nearly all are there whole.
            Some(head) if here.len() >= head.total() || here.len() >= need(here, head) => Ok(Piece::Here(*at, head)),
            _ => {
                self.held.extend_from_slice(here);
                *at = input.len();
                Ok(Piece::End)
            }
        }
    }

    /// Completes the held beginning of a message, byte for byte as far as it is needed.
    #[cold]
    fn fill(&mut self, input: &[u8], at: &mut usize, need: impl Fn(&[u8], Head) -> usize) -> Result<Piece, Malformed> {
        loop {
            let head = Head::parse(&self.held)?;
            let wanted = head.map_or(HEAD, |head| need(&self.held, head));
            let missing = wanted.saturating_sub(self.held.len());
            if let Some(head) = head.filter(|_| missing == 0) {
                return Ok(Piece::Held(head));
            }
            let taken = missing.min(input.len() - *at);
            if taken == 0 {
                return Ok(Piece::End);
            }
            if self.held.capacity() < self.held.len() + taken {
                // The buffer grows by doubling, but never beyond the required size.
                self.held.reserve_exact(missing.min(self.held.len().max(taken)));
            }
            self.held.extend_from_slice(&input[*at..*at + taken]);
            *at += taken;
        }
    }

    /// Takes the held beginning out, to be decided. Give its buffer back with [`FrameReader::give_back`], or, if it
    /// can't be decided now, put it back whole with [`FrameReader::keep`].
    pub(crate) fn take_held(&mut self) -> Vec<u8> {
        // Whoever decides on it may have to charge what is made of it.
        self.charge = None;
        std::mem::take(&mut self.held)
    }

    /// The held message was decided.
    pub(crate) fn give_back(&mut self, mut buffer: Vec<u8>) {
        // A small buffer is worth keeping for the next split message; a large one is not.
        if buffer.capacity() <= 512 {
            buffer.clear();
            self.held = buffer;
        }
    }

    /// The held message could not be decided yet.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>) {
        self.held = buffer;
    }
}
