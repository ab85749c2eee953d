//! The first request of a transaction, kept in case its server refuses the statement ([`crate::repeat`] says when).
//!
//! Owns the messages, and until when more are kept.

use weir_pgwire::Head;
use weir_pgwire::tag::front;

use crate::out::View;
use crate::statements::Key;
use crate::stop::{ReplyWait, StopReason};

/// The most bytes that are kept of a client, and of the description that its server has begun with: a part of the server's own memory.
pub(crate) const MAX_KEPT: usize = 8 << 10;

/// The first request of a transaction, and what follows it.
#[derive(Debug)]
pub(crate) struct Repeatable {
    pub(crate) statement: Key,
    /// The messages as the client sent them, and where the newest begins.
    pub(crate) messages: Vec<u8>,
    pub(crate) newest: usize,
    /// What the server has described of its parameters: the client is sent it with the rest of the description.
    pub(crate) description: Vec<u8>,
    pub(crate) stage: Stage,
}

/// What becomes of a kept request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Messages are kept.
    Open,
    /// Its Sync is kept: what follows waits.
    Ended,
    /// It can't be repeated: too much was sent.
    GivenUp,
    /// The server has refused it, and skips to the end of the segment.
    Refused,
}

/// Messages of a client's that are to be read again, in front of what it has sent since.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The messages, and a part of the next one.
    pub messages: Vec<u8>,
    /// How many of them were counted as Bind and as Parse.
    pub counted: (u64, u64),
}

impl Repeatable {
    /// A message behind the first one. It waits where it is of another segment.
    pub(crate) fn keep(&mut self, view: View<'_>, head: Head) -> Result<(), StopReason> {
        match self.stage {
            Stage::GivenUp => {}
            Stage::Ended | Stage::Refused => return Err(ReplyWait::EarlierSegment.into()),
            // A query may end the segment or not, and what belongs to a COPY may be there in part.
            Stage::Open if !matches!(head.tag, b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'S') => self.give_up(),
            Stage::Open if view.bytes.len() < head.total() || self.messages.len() + head.total() > MAX_KEPT => {
                self.give_up();
            }
            Stage::Open => {
                self.newest = self.messages.len();
                self.messages.extend_from_slice(view.bytes);
                self.stage = if head.tag == front::SYNC { Stage::Ended } else { Stage::Open };
            }
        }
        Ok(())
    }

    /// The newest message waits for replies: it is read again then.
    pub(crate) fn forget_newest(&mut self) {
        if matches!(self.stage, Stage::Open | Stage::Ended) {
            self.messages.truncate(self.newest);
            self.stage = Stage::Open;
        }
    }

    pub(crate) fn give_up(&mut self) {
        if self.stage == Stage::Open {
            (self.messages, self.stage) = (Vec::new(), Stage::GivenUp);
        }
    }

    /// How many of the messages are of this kind.
    pub(crate) fn count(&self, tag: u8) -> u64 {
        let (mut rest, mut count) = (&*self.messages, 0);
        while let Ok(Some(head)) = Head::parse(rest) {
            count += u64::from(head.tag == tag);
            rest = rest.get(head.total()..).unwrap_or_default();
        }
        count
    }
}
