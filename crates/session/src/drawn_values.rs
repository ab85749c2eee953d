//! What is known of the values that sessions have drawn of sequences (`mode = "auto"`): on a server, of a client, and of a pool's
//! applications.
//!
//! Plain data. What follows from it is in [`crate::sequences`].

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The most applications of a pool that are known to ask; with one more they are learned anew.
const MOST_APPLICATIONS: usize = 64;

/// Whose values a server may have.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Drawn {
    #[default]
    ByNobody,
    /// Only this client's, since it lost or discarded what it had drawn before.
    By(Drawer),
    BySeveral,
}

/// A client, and how often its values were gone.
pub(crate) type Drawer = (u64, u32);

/// What a server may have of values.
#[derive(Default, Debug)]
pub(crate) struct ServerSequences {
    pub(crate) drawn: Drawn,
    /// The client has sent a text that may draw since it got the server.
    pub(crate) in_use: bool,
    /// It has since the server had answered everything.
    pub(crate) unanswered: bool,
    /// A DISCARD SEQUENCES of ours is not answered.
    pub(crate) discarding: bool,
    /// The server is to be cleaned of others' values, before its client's next request.
    pub(crate) is_due: bool,
    /// The client is to keep the server for its values.
    pub(crate) keeps: bool,
}

/// Where the values are that a client has drawn.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Values {
    #[default]
    None,
    /// On the server that has only this client's, if there is one.
    OnOneServer,
    Scattered,
}

/// What clients of an application ask for, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) enum Asks {
    #[default]
    Never,
    /// For what their transaction has drawn.
    Within,
    /// For what an earlier transaction has drawn.
    Later,
}

/// What is known of a client's values.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ClientSequences {
    pub(crate) values: Values,
    /// The client has lost values that a session would have.
    pub(crate) lost: bool,
    pub(crate) asks: Asks,
    /// How often its values were gone.
    pub(crate) gone: u32,
    /// The server that has its values was looked for.
    pub(crate) stays: bool,
    /// How many lessons of its pool were heard: [`EVERY_LINK`] if each link is of interest.
    pub(crate) heard: u32,
}

/// See [`ClientSequences`].
const EVERY_LINK: u32 = u32::MAX;

/// The applications of a pool that ask, on all workers.
#[derive(Default, Debug)]
pub(crate) struct Askers {
    applications: Mutex<HashMap<Box<str>, Asks>>,
    lessons: AtomicU32,
}

impl Askers {
    /// How many lessons there were.
    #[inline]
    pub(crate) fn lessons(&self) -> u32 {
        self.lessons.load(Ordering::Relaxed)
    }

    pub(crate) fn of(&self, application: &str) -> Asks {
        self.known().get(application).copied().unwrap_or_default()
    }

    pub(crate) fn learn(&self, application: &str, asks: Asks) {
        let mut known = self.known();
        if known.get(application).copied().unwrap_or_default() >= asks {
            return;
        }
        if known.len() >= MOST_APPLICATIONS && !known.contains_key(application) {
            known.clear();
        }
        known.insert(application.into(), asks);
        self.lessons.store((self.lessons() + 1) % EVERY_LINK, Ordering::Relaxed);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Box<str>, Asks>> {
        self.applications.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSequences {
    /// What moves with the client to another process, where its values are on no server.
    pub(crate) fn to_bits(self) -> u8 {
        self.asks as u8 | u8::from(self.lost || self.values != Values::None) << 2
    }

    /// See [`ClientSequences::to_bits`].
    pub(crate) fn of_bits(bits: u8) -> ClientSequences {
        let asks = match bits & 3 {
            0 => Asks::Never,
            1 => Asks::Within,
            _ => Asks::Later,
        };
        let heard = if asks == Asks::Never { 0 } else { EVERY_LINK };
        ClientSequences { asks, lost: bits & 4 != 0, heard, ..ClientSequences::default() }
    }

    /// The client has no values any more.
    pub(crate) fn drop_values(&mut self) {
        (self.values, self.stays) = (Values::None, false);
        self.gone = self.gone.wrapping_add(1);
    }

    pub(crate) fn raise(&mut self, asks: Asks) {
        if self.asks < asks {
            (self.asks, self.heard) = (asks, EVERY_LINK);
        }
    }
}

impl ServerSequences {
    /// What clients have drawn is not known.
    pub(crate) fn doubt(&mut self) {
        self.drawn = Drawn::BySeveral;
    }

    /// Whether the server has no client's values.
    pub(crate) fn are_none(&self) -> bool {
        self.drawn == Drawn::ByNobody
    }

    /// Whether the server is to be cleaned before its client's next request.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// The server has answered everything.
    #[inline]
    pub(crate) fn all_answered(&mut self) {
        if self.unanswered || self.discarding {
            if self.discarding {
                // It was skipped, or has failed.
                self.drawn = Drawn::BySeveral;
            }
            (self.unanswered, self.discarding) = (false, false);
        }
    }

    /// The client has released the server.
    #[inline]
    pub(crate) fn end_use(&mut self) {
        (self.in_use, self.is_due, self.keeps) = (false, false, false);
    }

    /// A query of our own has discarded them.
    pub(crate) fn discarded_by_us(&mut self) {
        if !std::mem::take(&mut self.discarding) {
            self.drawn = Drawn::ByNobody;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_learned_of_an_application_is_not_unlearned_and_few_are_known() {
        let askers = Askers::default();
        askers.learn("web", Asks::Later);
        askers.learn("web", Asks::Within);
        assert_eq!((askers.of("web"), askers.of("jobs"), askers.lessons()), (Asks::Later, Asks::Never, 1));
        (0..1000).for_each(|n| askers.learn(&n.to_string(), Asks::Within));
        assert!(askers.known().len() <= MOST_APPLICATIONS && askers.of("999") == Asks::Within);
    }

    #[test]
    fn a_client_that_moves_has_lost_its_values() {
        let drew = ClientSequences { values: Values::OnOneServer, asks: Asks::Later, ..ClientSequences::default() };
        let moved = ClientSequences::of_bits(drew.to_bits());
        assert_eq!((moved.values, moved.lost, moved.asks, moved.heard), (Values::None, true, Asks::Later, EVERY_LINK));
        assert_eq!(ClientSequences::of_bits(ClientSequences::default().to_bits()), ClientSequences::default());
    }
}
