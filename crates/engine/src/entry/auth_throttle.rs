//! Failed logins, slowed down.
//!
//! The refusal of a wrong password is held back, for twice as long with each failure from the same place, up to 32 times
//! as long; after a quiet minute the place is forgotten. Only the one who failed waits. All workers hear of each failure,
//! and remember it by themselves.
//!
//! Bounds: [`MOST_PLACES`] are remembered, and [`MOST_HELD`] refusals held back; beyond that a failure is answered as
//! the first one of its place, or at once.

use std::collections::HashMap;

use weir_base::{ClientAddr, Span, Time};
use weir_session::Refusal;

use crate::Engine;
use crate::cluster::messages::Payload;
use crate::entry::state::Held;
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::Io;

/// The most places whose failures are remembered.
const MOST_PLACES: usize = 10_000;
/// The most refusals that are held back at once.
const MOST_HELD: u32 = 1_000;
/// How often the pause doubles: five times make 32.
const DOUBLINGS: u32 = 5;
/// Quiet for so long, a place is forgotten.
const QUIET: Span = Span::from_secs(60);

/// Where clients come from, as far as failures are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Place {
    V4(u32),
    /// The first half of an IPv6 address: who has one address usually has all that begin like it.
    V6(u64),
    /// The operating system's user, over the Unix socket.
    Local(u32),
}

impl Place {
    fn of(address: &ClientAddr) -> Place {
        match address {
            ClientAddr::Tcp(from) => match from.ip().to_canonical() {
                std::net::IpAddr::V4(ip) => Place::V4(ip.to_bits()),
                std::net::IpAddr::V6(ip) => Place::V6((ip.to_bits() >> 64) as u64),
            },
            ClientAddr::Unix { uid, .. } => Place::Local(*uid),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    count: u32,
    last: Time,
}

/// What failed lately.
#[derive(Default)]
pub(crate) struct Failures {
    places: HashMap<Place, Failure>,
    held: u32,
    /// When those who had been quiet were forgotten last.
    swept: Time,
}

impl Failures {
    /// Notes a failure, and says how long its refusal is to be held back.
    fn note(&mut self, place: Place, pause: Span, now: Time) -> Span {
        if self.places.len() >= MOST_PLACES && now.since(self.swept) >= Span::from_secs(1) {
            self.swept = now;
            self.places.retain(|_, failure| now.since(failure.last) < QUIET);
        }
        if self.places.len() >= MOST_PLACES && !self.places.contains_key(&place) {
            return pause;
        }
        let failure = self.places.entry(place).or_insert(Failure { count: 0, last: now });
        if now.since(failure.last) >= QUIET {
            failure.count = 0;
        }
        let doublings = failure.count.min(DOUBLINGS);
        *failure = Failure { count: failure.count.saturating_add(1), last: now };
        Span::from_micros(pause.micros().saturating_mul(1 << doublings))
    }

    /// Takes one more refusal in to be held back, if there is room.
    fn hold(&mut self) -> bool {
        let room = self.held < MOST_HELD;
        self.held += u32::from(room);
        room
    }

    /// A client whose refusal was held back is gone.
    pub(crate) fn let_go(&mut self) {
        self.held = self.held.saturating_sub(1);
    }
}

impl Engine {
    /// A client has failed to prove who it is: it is told, but not at once.
    pub(crate) fn login_refused<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        refusal: Refusal,
        io: &mut I,
    ) {
        let pause = self.common.config().auth.failure_delay;
        let guessed = matches!(refusal, Refusal::PasswordFailed | Refusal::SaslFailed);
        if pause.is_zero() || !guessed {
            return self.refuse(now, client, refusal, io);
        }
        let place = Place::of(&client.addr);
        let pause = self.entry.failures.note(place, pause, now);
        let pause = self.a_little_more(pause);
        self.tell_others(|| Payload::Failed(place), io);
        if !self.entry.failures.hold() {
            return self.refuse(now, client, refusal, io);
        }
        // It keeps what its lines in the log are about.
        let login = std::mem::replace(&mut client.phase, ClientPhase::Gone);
        let database = if let ClientPhase::Login(phase) = login { phase.hello.database } else { String::new() };
        client.phase = ClientPhase::Held(Box::new(Held { refusal, until: now.deadline(pause), database }));
        client.waiting.clear();
        self.wait_more(client, io);
    }

    /// A pause, longer by chance, by up to a quarter: how long it took to find out that the password is wrong does not show.
    fn a_little_more(&mut self, pause: Span) -> Span {
        let chance = u64::from(u32::from_be_bytes(self.common.random_bytes()));
        let more = (u128::from(pause.micros() / 4) * u128::from(chance)) >> 32;
        Span::from_micros(pause.micros().saturating_add(more as u64))
    }

    /// A login has failed at another worker.
    pub(crate) fn failed_elsewhere(&mut self, now: Time, place: Place) {
        self.entry.failures.note(place, self.common.config().auth.failure_delay, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Span = Span::from_secs(1);

    fn place(text: &str) -> Place {
        Place::of(&ClientAddr::Tcp(text.parse().unwrap()))
    }

    fn at(secs: u64) -> Time {
        Time::START + Span::from_secs(secs)
    }

    #[test]
    fn the_pause_doubles_up_to_32_times_and_a_quiet_minute_ends_it() {
        let mut failures = Failures::default();
        let mut pauses: Vec<u64> = Vec::new();
        for second in 0..8 {
            pauses.push(failures.note(place("10.0.0.1:1"), PAUSE, at(second)).micros() / 1_000_000);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(failures.note(place("10.0.0.1:2"), PAUSE, at(7 + 59)), Span::from_secs(32));
        assert_eq!(failures.note(place("10.0.0.1:1"), PAUSE, at(66 + 60)), PAUSE);
    }

    #[test]
    fn a_place_is_an_address_or_half_of_a_long_one_or_a_local_user() {
        assert_eq!(place("10.0.0.1:1"), place("[::ffff:10.0.0.1]:2"));
        assert_ne!(place("10.0.0.1:1"), place("10.0.0.2:1"));
        assert_eq!(place("[2001:db8::1]:1"), place("[2001:db8::ffff:1]:1"));
        assert_ne!(place("[2001:db8::1]:1"), place("[2001:db8:0:1::1]:1"));
        let local = |uid| Place::of(&ClientAddr::Unix { pid: 1, uid });
        assert!(local(5) == local(5) && local(5) != local(6));
    }

    #[test]
    fn neither_what_is_remembered_nor_what_is_held_grows_without_bound() {
        let mut failures = Failures::default();
        for host in 0..2 * MOST_PLACES as u32 {
            failures.note(Place::V4(host), PAUSE, at(1));
        }
        assert_eq!(failures.places.len(), MOST_PLACES);
        assert_eq!(failures.note(Place::Local(1), PAUSE, at(2)), PAUSE);
        assert_eq!(failures.note(Place::Local(1), PAUSE, at(2)), PAUSE, "there was no room to remember it");
        failures.note(Place::Local(1), PAUSE, at(100));
        assert_eq!(failures.places.len(), 1, "the quiet ones are forgotten");
        assert_eq!((0..2 * MOST_HELD).filter(|_| failures.hold()).count(), MOST_HELD as usize);
        failures.let_go();
        assert!(failures.hold() && !failures.hold());
    }
}
