//! The first request of a transaction, kept in case its server refuses the statement ([`crate::repeat`] says when).
//!
//! Owns the messages, and until when more are kept.

use std::sync::Arc;

use weir_pgwire::Head;
use weir_pgwire::tag::front;

use crate::budget::{Account, Charge};
use crate::out::View;
use crate::statements::Key;
use crate::stop::{ReplyWait, StopReason};

/// The most bytes that are kept of the description that a server has begun with, and the most of a client's messages
/// that are a part of the server's own memory; more of them is charged.
pub(crate) const UNCHARGED: usize = 8 << 10;

/// The most bytes that are kept of a client's messages.
pub(crate) const MAX_KEPT: usize = 256 << 10;

/// The first request of a transaction, and what follows it.
#[derive(Debug)]
pub(crate) struct Repeatable {
    pub(crate) statement: Key,
    /// Its client may have prepared it later than the server.
    pub(crate) is_newer: bool,
    /// The messages as the client sent them, and where the newest begins.
    pub(crate) messages: Vec<u8>,
    pub(crate) newest: usize,
    /// What the server has described of its parameters: the client is sent it with the rest of the description.
    pub(crate) description: Vec<u8>,
    pub(crate) stage: Stage,
    /// What comes before the request in its transaction.
    pub(crate) begun: Begun,
    /// A cancel request for the client has ended meanwhile: if the kept request is repeated, it is the one that was
    /// meant.
    pub(crate) cancelled: bool,
    /// What the messages are charged, if they are many.
    pub(crate) charge: Option<Charge>,
}

/// What comes before a kept request in its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Begun {
    /// Nothing: it begins the transaction.
    Here,
    /// A BEGIN, and nothing else: the block is begun again before the request is repeated.
    Block,
}

/// What becomes of a kept request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// Messages are kept.
    Open,
    /// The request's Sync is kept: what follows waits.
    Ended,
    /// The request can't be repeated: too much was sent.
    GivenUp,
    /// The server has refused the request, and skips to the end of the segment.
    Refused,
}

/// Messages of a client's that are to be read again, in front of what it has sent since.
#[derive(Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The messages, and a part of the next one.
    pub messages: Vec<u8>,
    /// How many of the messages were counted as Bind and as Parse.
    pub counted: (u64, u64),
    /// The client has cancelled the request meanwhile.
    pub cancelled: bool,
}

impl Repeatable {
    /// A message behind the first one. It waits where it is of another segment.
    pub(crate) fn keep(&mut self, view: View<'_>, head: Head, account: &Arc<Account>) -> Result<(), StopReason> {
        match self.stage {
            Stage::GivenUp => {}
            Stage::Ended | Stage::Refused => return Err(ReplyWait::EarlierSegment.into()),
            // What belongs to a COPY may be there in part.
            Stage::Open if !matches!(head.tag, b'P' | b'B' | b'D' | b'E' | b'C' | b'H' | b'S' | b'Q') => self.give_up(),
            Stage::Open if view.bytes.len() < head.total() => self.give_up(),
            Stage::Open => {
                self.newest = self.messages.len();
                self.add(view.bytes, account);
                // What follows a query may be of another transaction.
                if self.stage == Stage::Open && matches!(head.tag, front::SYNC | front::QUERY) {
                    self.stage = Stage::Ended;
                }
            }
        }
        Ok(())
    }

    /// Keeps these bytes, if there is room for them.
    pub(crate) fn add(&mut self, bytes: &[u8], account: &Arc<Account>) {
        if self.stage != Stage::Open {
            return;
        }
        let wanted = self.messages.len() + bytes.len();
        let has_room = wanted <= UNCHARGED
            || (wanted <= MAX_KEPT
                && self.charge.get_or_insert_with(|| Charge::anyway(account, 0)).resize(wanted as u64).is_ok());
        if has_room { self.messages.extend_from_slice(bytes) } else { self.give_up() }
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
            (self.messages, self.stage, self.charge) = (Vec::new(), Stage::GivenUp, None);
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
