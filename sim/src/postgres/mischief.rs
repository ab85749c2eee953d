//! What a hostile server says: bytes that no server says, at a moment of its choice, and what then must not happen.
//!
//! Owns the kinds of mischief. Some can be seen from the bytes alone; a server that said such a thing may serve nobody but
//! the client to whom it said it ([`Mischief::is_plain`]). The others (a second ReadyForQuery, an error too many) are worth a
//! reply each, so nobody can tell whose; they may mislead whoever has that server from then on, and nobody else.

use weir_pgwire::{put_back, tag};

use crate::rng::Rng;

/// A kind of mischief.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mischief {
    /// Instead of a login: bytes that mean nothing.
    Noise,
    /// Instead of a login: a method that nobody knows.
    OddMethod,
    /// Instead of a login: SASL without mechanisms.
    NoMechanism,
    /// Instead of a login: a row.
    EarlyRow,
    /// Instead of a login: ReadyForQuery.
    EarlyReady,
    /// Instead of a login: a version that nobody asked for, with options that are not there.
    Negotiation,
    /// Instead of a login: nothing.
    Silence,
    /// Instead of a login, or of a reply: an error without SQLSTATE, or without any field, and the end.
    BareError,
    /// The login ends within a transaction.
    ReadyInTransaction,
    /// The login goes on after many parameters, and keys that are none.
    Flood,
    /// A message of no known kind.
    OddTag,
    /// A message shorter than its own length field.
    ShortLength,
    /// A message that is announced, and does not come.
    Unfinished,
    /// A message of which half comes before the end.
    Truncated,
    /// The login again.
    LoginAgain,
    /// ReadyForQuery with a status that is none.
    OddStatus,
    /// ReadyForQuery with a longer body than it has.
    LongReady,
    /// A reply that nobody asked for, before the right one.
    OneTooMany,
    /// An error in place of a reply, before the right one.
    ErrorTooMany,
    /// ReadyForQuery twice.
    ReadyTwice,
    /// Many parameters that nobody asked for, then the right reply.
    Parameters,
}

/// What is done instead of a login, or with it.
const AT_LOGIN: [Mischief; 10] = [
    Mischief::Noise,
    Mischief::OddMethod,
    Mischief::NoMechanism,
    Mischief::EarlyRow,
    Mischief::EarlyReady,
    Mischief::Negotiation,
    Mischief::Silence,
    Mischief::BareError,
    Mischief::ReadyInTransaction,
    Mischief::Flood,
];

/// What is done in the middle of an answer.
const WITHIN: [Mischief; 12] = [
    Mischief::OddTag,
    Mischief::ShortLength,
    Mischief::Unfinished,
    Mischief::Truncated,
    Mischief::LoginAgain,
    Mischief::OddStatus,
    Mischief::LongReady,
    Mischief::OneTooMany,
    Mischief::ErrorTooMany,
    Mischief::ReadyTwice,
    Mischief::Parameters,
    Mischief::BareError,
];

/// What comes after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Then {
    /// The server goes on as if nothing were.
    GoesOn,
    /// It says nothing more.
    FallsSilent,
    /// It closes.
    Closes,
}

/// When a process does mischief, and which.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Plan {
    AtLogin(Mischief),
    /// After so many replies.
    Within(Mischief, u64),
}

impl Plan {
    /// Draws a plan.
    pub(super) fn draw(rng: &mut Rng) -> Plan {
        if rng.chance(400) {
            Plan::AtLogin(*rng.pick(&AT_LOGIN))
        } else {
            Plan::Within(*rng.pick(&WITHIN), rng.skewed(1, 60))
        }
    }
}

impl Mischief {
    /// Whether the bytes show it: then the server must serve nobody else from here on.
    pub(super) fn is_plain(self) -> bool {
        !matches!(self, Mischief::OneTooMany | Mischief::ErrorTooMany | Mischief::ReadyTwice)
    }

    /// Whether a server may say it, odd as it is.
    pub(super) fn is_allowed(self) -> bool {
        matches!(self, Mischief::Parameters | Mischief::Flood)
    }

    /// Says it.
    pub(super) fn commit(self, rng: &mut Rng, out: &mut Vec<u8>) -> Then {
        match self {
            Mischief::Noise => out.extend((0..rng.skewed(1, 2_000)).map(|_| rng.bits() as u8)),
            Mischief::OddMethod => {
                let method = rng.pick(&[1u32, 2, 6, 7, 8, 9, 77, u32::MAX]).to_be_bytes();
                raw(out, tag::back::AUTHENTICATION, &method);
            }
            Mischief::NoMechanism => {
                let mechanisms: &[&[u8]] =
                    &[b"\0\0\0\x0a\0", b"\0\0\0\x0a", b"\0\0\0\x0aODD\0\0", b"\0\0\0\x0b", b"\0\0\0\x0c"];
                raw(out, tag::back::AUTHENTICATION, rng.pick::<&[u8]>(mechanisms));
            }
            Mischief::EarlyRow => put_back::data_row(out, &[Some(b"too early")]),
            Mischief::EarlyReady => put_back::ready(out, b'I'),
            Mischief::Negotiation => {
                let versions: &[&[u8]] =
                    &[b"\0\x03\0\x09\0\0\0\0", b"\0\0\0\0\xff\xff\xff\xff", b"\0\x03\0\0\0\0\0\x05_pq_.x\0", b"\0"];
                raw(out, b'v', rng.pick::<&[u8]>(versions));
            }
            Mischief::Silence => {}
            Mischief::BareError => {
                let bodies: &[&[u8]] =
                    &[b"\0", b"SERROR\0Mno code\0\0", b"", b"SFATAL\0", b"C\0\0", b"SFATAL\0C57\0M\xff\xfe\0\0"];
                raw(out, tag::back::ERROR, rng.pick::<&[u8]>(bodies));
                return Then::Closes;
            }
            Mischief::ReadyInTransaction => {
                put_back::auth_ok(out);
                put_back::ready(out, *rng.pick(b"TE"));
            }
            Mischief::Flood => {
                parameters(rng, out);
                raw(out, tag::back::BACKEND_KEY_DATA, &[0; 8]);
                return Then::GoesOn;
            }
            Mischief::OddTag => raw(out, *rng.pick(&[0, 1, b'X', b'w', 0xff]), b"what?"),
            Mischief::ShortLength => {
                out.push(*rng.pick(b"DZCET"));
                out.extend_from_slice(&rng.pick(&[0u32, 3, 1 << 31, u32::MAX]).to_be_bytes());
            }
            Mischief::Unfinished => {
                out.push(*rng.pick(b"DEC"));
                out.extend_from_slice(&rng.pick(&[5u32, 400, 1 << 20, (1 << 30) - 1]).to_be_bytes());
            }
            Mischief::Truncated => {
                out.extend_from_slice(b"D\0\0\0\x40\0\x01");
                return Then::Closes;
            }
            Mischief::LoginAgain => put_back::auth_ok(out),
            Mischief::OddStatus => raw(out, tag::back::READY, b"X"),
            Mischief::LongReady => raw(out, tag::back::READY, b"II"),
            Mischief::OneTooMany => {
                let tags = [tag::back::PARSE_COMPLETE, tag::back::BIND_COMPLETE, tag::back::CLOSE_COMPLETE];
                raw(out, *rng.pick(&tags), b"");
                return Then::GoesOn;
            }
            Mischief::ErrorTooMany => {
                raw(out, tag::back::ERROR, b"SERROR\0Mno code\0\0");
                return Then::GoesOn;
            }
            Mischief::ReadyTwice => {
                put_back::ready(out, b'I');
                return Then::GoesOn;
            }
            Mischief::Parameters => {
                parameters(rng, out);
                return Then::GoesOn;
            }
        }
        Then::FallsSilent
    }
}

fn parameters(rng: &mut Rng, out: &mut Vec<u8>) {
    for number in 0..rng.skewed(1, 2_000) {
        put_back::parameter_status(out, format!("noise_{number}"), "x");
    }
}

fn raw(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    out.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    out.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mischief_but_silence_says_something_and_every_kind_is_drawn() {
        let mut rng = Rng::new(3);
        let mut drawn = Vec::new();
        for _ in 0..2_000 {
            let (Plan::AtLogin(mischief) | Plan::Within(mischief, _)) = Plan::draw(&mut rng);
            let mut out = Vec::new();
            mischief.commit(&mut rng, &mut out);
            assert_eq!(out.is_empty(), mischief == Mischief::Silence, "{mischief:?}");
            drawn.push(mischief);
        }
        assert!(AT_LOGIN.iter().chain(&WITHIN).all(|mischief| drawn.contains(mischief)));
    }
}
