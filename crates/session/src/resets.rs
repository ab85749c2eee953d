//! Which parameters are a client's own, and which the requests under way reset.

use std::sync::Arc;

use crate::params::Params;

/// Which parameters the requests under way on a server reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Resets {
    /// A bit for each tracked parameter.
    places: u64,
    /// An Execute was sent since, and nothing that sets the parameters again.
    executed: bool,
    /// A command was answered that may have reset them.
    done: bool,
    /// A request under way has failed: what was reset before it may be undone, unless a command between them has
    /// committed it.
    failed: bool,
    /// The parameters that a DISCARD ALL has reset: it commits by itself, whatever follows it in its segment.
    committed: u64,
    /// The parameters whose value after the reset the client has been sent, where it was another before.
    known_reset: u64,
}

/// The parameters of a client's session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StartValues {
    /// What the client asked for at its login.
    pub(crate) asked: Arc<Params>,
    /// Which parameters are the client's own: it asked for them, or has changed them. The others are its server's.
    pub(crate) own: u64,
}

impl StartValues {
    /// The parameters of a client that asked for these.
    pub(crate) fn new(asked: Arc<Params>) -> StartValues {
        let own = asked.known();
        StartValues { asked, own }
    }

    /// The client's server has reported a value of the parameter at this place. `by_client`: it is the client's doing,
    /// and not the server's.
    pub(crate) fn reported(&mut self, place: usize, value: &str, base: &Params, by_client: bool) {
        let differs = base.at(place) != Some(value) && (by_client || self.own >> place & 1 == 1);
        let own = self.asked.at(place).is_some() || differs;
        self.own = self.own & !(1 << place) | u64::from(own) << place;
    }
}

impl Resets {
    /// Requests reset the parameters at these places, a bit each.
    pub(crate) fn add(&mut self, places: u64) {
        self.places |= places;
    }

    /// The places of the parameters that the requests reset, a bit each.
    pub(crate) fn places(self) -> u64 {
        self.places
    }

    /// An Execute is being sent.
    pub(crate) fn execute(&mut self) {
        self.executed = self.is_pending();
    }

    /// Whether an Execute was sent since this was asked last.
    pub(crate) fn take_executed(&mut self) -> bool {
        std::mem::take(&mut self.executed)
    }

    /// Whether a command was answered that may have reset the parameters.
    pub(crate) fn is_done(self) -> bool {
        self.done
    }

    /// A request under way has failed.
    pub(crate) fn fail(&mut self) {
        self.failed = self.is_pending();
    }

    /// The places of the parameters that are reset for good, as far as is known, a bit each.
    pub(crate) fn standing(self) -> u64 {
        if self.failed { self.places & (self.known_reset | self.committed) } else { self.places }
    }

    /// Whether the parameter at this place is reset for good, as far as is known.
    pub(crate) fn stands(self, place: usize) -> bool {
        self.standing() >> place & 1 == 1
    }

    /// The server has reported the parameter at this place. `reset`: it has the server's default, and the client knows
    /// the value that it will have.
    pub(crate) fn report(&mut self, place: usize, reset: bool) {
        self.known_reset = self.known_reset & !(1 << place) | u64::from(reset) << place;
    }

    /// Whether the server has reported that the parameter at this place is reset.
    pub(crate) fn is_known_reset(self, place: usize) -> bool {
        self.known_reset >> place & 1 == 1
    }

    /// Whether a request under way resets something.
    #[inline]
    pub(crate) fn is_pending(self) -> bool {
        self.places != 0
    }

    /// Whether the parameter at this place is reset.
    pub(crate) fn has(self, place: usize) -> bool {
        self.places >> place & 1 == 1
    }

    /// A command of this tag was answered.
    pub(crate) fn answered(&mut self, tag: &[u8]) {
        if matches!(tag, b"RESET" | b"SET" | b"DISCARD ALL") {
            // Nothing follows in the segment of a reset that has failed: this one is behind whatever has failed.
            (self.done, self.failed) = (true, false);
        }
        if tag == b"DISCARD ALL" {
            self.committed = self.places;
        }
    }
}
