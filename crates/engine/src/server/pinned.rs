//! Why a server's client keeps it: which kinds of state it has left there, each since when and by which text.
//!
//! Bounded: a reason for each kind, with a text of at most [`MAX_TEXT`] bytes. Texts are kept without their values.

use weir_admin::{PinReason, PinRecord};
use weir_base::{STATE_KINDS, StateKinds, Time};
use weir_pgwire::{Dirty, sql};
use weir_session::Left;

/// The longest text of a reason, in bytes.
const MAX_TEXT: usize = 400;

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Pinned(Vec<Reason>);

#[derive(Debug)]
struct Reason {
    kind: Dirty,
    since: Time,
    text: String,
}

impl Pinned {
    /// A server that its client keeps for this, as the server has said now.
    pub(crate) fn new(left: &Left, now: Time) -> Pinned {
        let mut pinned = Pinned(Vec::new());
        pinned.found(left, now);
        pinned
    }

    /// The server has said again what its client has left.
    pub(crate) fn found(&mut self, left: &Left, now: Time) {
        self.0.retain(|reason| left.kept.contains(reason.kind));
        let new = left.kept.without(self.dirty());
        self.0.extend(new.kinds().map(|kind| Reason { kind, since: now, text: text_of(left, kind) }));
    }

    /// Since when the client keeps the server for something that is still there.
    pub(crate) fn since(&self) -> Time {
        self.0.iter().map(|reason| reason.since).min().unwrap_or(Time::NEVER)
    }

    /// The kinds of state.
    pub(crate) fn kinds(&self) -> StateKinds {
        StateKinds::from_bits(self.dirty().bits())
    }

    fn dirty(&self) -> Dirty {
        self.0.iter().fold(Dirty::NONE, |kinds, reason| kinds.union(reason.kind))
    }

    /// The reasons for a report; `idle_since`: since when the client asks nothing. `wall` turns a time into the wall clock's.
    pub(crate) fn record(&self, idle_since: Option<Time>, wall: impl Fn(Time) -> u64) -> PinRecord {
        let of_kind = |(place, kind): (usize, Dirty)| {
            let reason = self.0.iter().find(|reason| reason.kind == kind)?;
            Some(PinReason { kind: STATE_KINDS[place], since: wall(reason.since), statement: reason.text.clone() })
        };
        let wall = &wall;
        let reasons = Dirty::KINDS.into_iter().enumerate().filter_map(of_kind).collect();
        PinRecord { since: wall(self.since()), idle_since: idle_since.map(wall), reasons }
    }
}

/// The text that may have left this, without its values; empty if it is not known.
pub(crate) fn text_of(left: &Left, kind: Dirty) -> String {
    left.text_of(kind).map(|text| sql::fingerprint(text, MAX_TEXT)).unwrap_or_default()
}

const _: () = {
    assert!(STATE_KINDS.len() == Dirty::KINDS.len());
    let mut place = 0;
    while place < STATE_KINDS.len() {
        assert!(Dirty::KINDS[place].bits() == 1 << place);
        place += 1;
    }
};
