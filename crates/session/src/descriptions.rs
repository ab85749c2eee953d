//! The descriptions of statements that a server was asked for, and what they are about.
//!
//! Owns the queue of Describe messages under way, the reading of their answers, and the statements that the portals and
//! the Bind messages of now belong to. Must not know what is done with a shape ([`crate::same_shape`]).
//!
//! Invariant: one entry for each request in [`crate::pending`] that
//! [`Expected::is_noted`](crate::expected::Expected::is_noted), in order.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use crate::names::ChangeNumber;
use crate::shape::{DescriptionReader, Part, Shape};
use crate::statements::Key;

/// The most Describe messages under way; the client is not read from beyond. They take less than the least that is
/// charged.
const MAX_ASKED: usize = 512;

/// What a description is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Described {
    /// Nothing that is known here.
    Unknown,
    /// A statement, as it was prepared by the preparation of this number, and the change that gave it to its client.
    Named { key: Key, of: u64, by: ChangeNumber },
    /// An unnamed statement, by its number, as it was put into the server's unnamed slot by the preparation of this
    /// number.
    Unnamed { id: (u64, u32), of: u64 },
}

impl Described {
    /// The statement, if it has a name on servers.
    pub(crate) fn key(self) -> Option<Key> {
        if let Described::Named { key, .. } = self { Some(key) } else { None }
    }
}

/// A Describe under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingDescribe {
    pub(crate) about: Described,
    /// The Describe is our own: its client does not get the answer.
    pub(crate) own: bool,
}

/// The statements that Bind messages since the last ReadyForQuery were about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Bound {
    /// There was no Bind.
    #[default]
    None,
    /// Every Bind was about this statement.
    One(Key),
    /// Every Bind was about a statement that is not shared.
    Own,
    /// The Bind messages were about several statements.
    Several,
}

/// The descriptions under way on one server.
#[derive(Debug, Default)]
pub(crate) struct Descriptions {
    asked: VecDeque<PendingDescribe>,
    /// How many Describe messages under way are our own.
    own: u32,
    reader: Option<DescriptionReader>,
    /// What is known so far of the oldest description.
    shape: Shape,
    /// The newest portal, by a hash of its name, and its statement, where that is known.
    portal: Option<(u64, Described)>,
    bound: Bound,
    /// The preparation that our newest Describe is about, until it was compared: 0 afterwards.
    asked_of: u64,
}

impl Descriptions {
    /// A Describe is being sent.
    pub(crate) fn ask(&mut self, about: Described, own: bool) {
        self.own += u32::from(own);
        self.asked.push_back(PendingDescribe { about, own });
    }

    /// A Describe of our own is being sent, for a request that waits for it.
    pub(crate) fn ask_for_request(&mut self, about: Described) {
        self.asked_of = match about {
            Described::Named { of, .. } | Described::Unnamed { of, .. } => of,
            Described::Unknown => 0,
        };
        self.ask(about, true);
    }

    /// Whether the server was asked about this preparation for the request that is compared now.
    pub(crate) fn was_asked(&mut self, of: u64) -> bool {
        std::mem::take(&mut self.asked_of) == of
    }

    /// Whether no more descriptions should be asked for until some are answered.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.asked.len() >= MAX_ASKED
    }

    /// Whether a Describe of our own is under way.
    pub(crate) fn asks_itself(&self) -> bool {
        self.own > 0
    }

    /// What the oldest Describe is about.
    pub(crate) fn oldest(&self) -> Option<Described> {
        self.asked.front().map(|asked| asked.about)
    }

    /// The oldest Describe failed, or was skipped.
    pub(crate) fn skip(&mut self) {
        self.take();
    }

    fn take(&mut self) -> Option<PendingDescribe> {
        let asked = self.asked.pop_front()?;
        self.own -= u32::from(asked.own);
        self.shape = Shape::default();
        self.reader = None;
        Some(asked)
    }

    /// An answer to the oldest Describe begins.
    pub(crate) fn begin(&mut self, part: Part, key: &[u8; 16]) {
        self.reader = Some(DescriptionReader::begin(part, key));
    }

    /// Whether an answer is being read.
    #[inline]
    pub(crate) fn is_reading(&self) -> bool {
        self.reader.is_some()
    }

    /// Reads more of the answer.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.reader.iter_mut().for_each(|reader| reader.feed(bytes));
    }

    /// The types of parameters that the message that is read has described, which is at its end.
    pub(crate) fn types(&self) -> Option<(NonZeroU64, &[u8])> {
        self.reader.as_ref()?.types()
    }

    /// The message that is read is at its end. Returns what it was the last answer to, and the shape.
    pub(crate) fn end(&mut self) -> Option<(PendingDescribe, Shape)> {
        let reader = self.reader.take()?;
        reader.finish(&mut self.shape);
        if reader.part() == Part::Parameters {
            return None;
        }
        let shape = self.shape;
        Some((self.take()?, shape))
    }

    /// A portal is bound.
    #[inline]
    pub(crate) fn bind(&mut self, portal: u64, about: Described, statement: Option<Key>) {
        self.portal = if about == Described::Unknown { None } else { Some((portal, about)) };
        self.bound = match (statement, self.bound) {
            (Some(key), Bound::None) => Bound::One(key),
            (Some(key), Bound::One(known)) if known == key => Bound::One(key),
            (None, Bound::None | Bound::Own) => Bound::Own,
            _ => Bound::Several,
        };
    }

    /// What a portal is bound to.
    pub(crate) fn portal(&self, portal: u64) -> Described {
        self.portal.filter(|(name, _)| *name == portal).map_or(Described::Unknown, |(_, about)| about)
    }

    /// The statement that each Bind since the last ReadyForQuery was about.
    pub(crate) fn bound(&self) -> Option<Key> {
        if let Bound::One(key) = self.bound { Some(key) } else { None }
    }

    /// Whether several statements were bound since the last ReadyForQuery.
    pub(crate) fn has_bound_several(&self) -> bool {
        self.bound == Bound::Several
    }

    /// All requests are answered.
    #[inline]
    pub(crate) fn all_answered(&mut self) {
        self.bound = Bound::None;
    }
}
