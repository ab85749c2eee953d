//! Faults of a hostile server: bytes that no PostgreSQL server sends, at a random moment.
//!
//! Owns the kinds of faults. Some are visible in the bytes alone; a server that sent such bytes may serve no client but
//! the one that got them ([`ServerFault::is_visible`]). The others (such as a second ReadyForQuery) look like one more
//! reply, so their owner can't be known; they may affect clients that use this server from then on, and no others.

use weir_pgwire::{put_back, tag};

use crate::rng::Rng;

/// A kind of fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ServerFault {
    /// Instead of a login: random bytes.
    RandomBytes,
    /// Instead of a login: an unknown authentication method.
    UnknownMethod,
    /// Instead of a login: SASL without mechanisms.
    NoMechanism,
    /// Instead of a login: a row.
    EarlyRow,
    /// Instead of a login: ReadyForQuery.
    EarlyReady,
    /// Instead of a login: a version that was not requested, with missing options.
    BadNegotiation,
    /// Instead of a login: nothing.
    Silence,
    /// Instead of a login or of a reply: an error without SQLSTATE, or without any field, then a close.
    IncompleteError,
    /// The login ends within a transaction.
    ReadyInTransaction,
    /// Many parameters and an empty cancel key, then the login continues.
    ManyParameters,
    /// A message of an unknown kind.
    UnknownTag,
    /// A message shorter than its own length field.
    ShortLength,
    /// A message head without its body.
    Unfinished,
    /// Half a message, then a close.
    Truncated,
    /// AuthenticationOk again.
    LoginAgain,
    /// ReadyForQuery with an unknown status.
    UnknownStatus,
    /// ReadyForQuery with a body that is too long.
    LongReady,
    /// An unrequested reply before the right one.
    ExtraReply,
    /// An unrequested error before the right reply.
    ExtraError,
    /// ReadyForQuery twice.
    ReadyTwice,
    /// Many unrequested parameters, then the right reply.
    Parameters,
}

/// Faults instead of a login, or during it.
const AT_LOGIN: [ServerFault; 10] = [
    ServerFault::RandomBytes,
    ServerFault::UnknownMethod,
    ServerFault::NoMechanism,
    ServerFault::EarlyRow,
    ServerFault::EarlyReady,
    ServerFault::BadNegotiation,
    ServerFault::Silence,
    ServerFault::IncompleteError,
    ServerFault::ReadyInTransaction,
    ServerFault::ManyParameters,
];

/// Faults in the middle of a reply.
const WITHIN: [ServerFault; 12] = [
    ServerFault::UnknownTag,
    ServerFault::ShortLength,
    ServerFault::Unfinished,
    ServerFault::Truncated,
    ServerFault::LoginAgain,
    ServerFault::UnknownStatus,
    ServerFault::LongReady,
    ServerFault::ExtraReply,
    ServerFault::ExtraError,
    ServerFault::ReadyTwice,
    ServerFault::Parameters,
    ServerFault::IncompleteError,
];

/// What the server does after a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum After {
    /// The server continues as if there had been no fault.
    Continue,
    /// The server sends nothing more.
    Silence,
    /// The server closes the connection.
    Close,
}

/// Which fault a process commits, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FaultPlan {
    AtLogin(ServerFault),
    /// After this many replies.
    Within(ServerFault, u64),
}

impl FaultPlan {
    /// Draws a plan.
    pub(super) fn draw(rng: &mut Rng) -> FaultPlan {
        if rng.chance(400) {
            FaultPlan::AtLogin(*rng.pick(&AT_LOGIN))
        } else {
            FaultPlan::Within(*rng.pick(&WITHIN), rng.skewed(1, 60))
        }
    }
}

impl ServerFault {
    /// Whether the fault is visible in the bytes: then the server must serve no other client.
    pub(super) fn is_visible(self) -> bool {
        !matches!(self, ServerFault::ExtraReply | ServerFault::ExtraError | ServerFault::ReadyTwice)
    }

    /// Whether the protocol allows the bytes.
    pub(super) fn is_allowed(self) -> bool {
        matches!(self, ServerFault::Parameters | ServerFault::ManyParameters)
    }

    /// Appends the faulty bytes.
    pub(super) fn write(self, rng: &mut Rng, out: &mut Vec<u8>) -> After {
        match self {
            ServerFault::RandomBytes => out.extend((0..rng.skewed(1, 2_000)).map(|_| rng.bits() as u8)),
            ServerFault::UnknownMethod => {
                let method = rng.pick(&[1u32, 2, 6, 7, 8, 9, 77, u32::MAX]).to_be_bytes();
                raw(out, tag::back::AUTHENTICATION, &method);
            }
            ServerFault::NoMechanism => {
                let mechanisms: &[&[u8]] =
                    &[b"\0\0\0\x0a\0", b"\0\0\0\x0a", b"\0\0\0\x0aODD\0\0", b"\0\0\0\x0b", b"\0\0\0\x0c"];
                raw(out, tag::back::AUTHENTICATION, rng.pick::<&[u8]>(mechanisms));
            }
            ServerFault::EarlyRow => put_back::data_row(out, &[Some(b"too early")]),
            ServerFault::EarlyReady => put_back::ready(out, b'I'),
            ServerFault::BadNegotiation => {
                let versions: &[&[u8]] =
                    &[b"\0\x03\0\x09\0\0\0\0", b"\0\0\0\0\xff\xff\xff\xff", b"\0\x03\0\0\0\0\0\x05_pq_.x\0", b"\0"];
                raw(out, b'v', rng.pick::<&[u8]>(versions));
            }
            ServerFault::Silence => {}
            ServerFault::IncompleteError => {
                let bodies: &[&[u8]] =
                    &[b"\0", b"SERROR\0Mno code\0\0", b"", b"SFATAL\0", b"C\0\0", b"SFATAL\0C57\0M\xff\xfe\0\0"];
                raw(out, tag::back::ERROR, rng.pick::<&[u8]>(bodies));
                return After::Close;
            }
            ServerFault::ReadyInTransaction => {
                put_back::auth_ok(out);
                put_back::ready(out, *rng.pick(b"TE"));
            }
            ServerFault::ManyParameters => {
                parameters(rng, out);
                raw(out, tag::back::BACKEND_KEY_DATA, &[0; 8]);
                return After::Continue;
            }
            ServerFault::UnknownTag => raw(out, *rng.pick(&[0, 1, b'X', b'w', 0xff]), b"what?"),
            ServerFault::ShortLength => {
                out.push(*rng.pick(b"DZCET"));
                out.extend_from_slice(&rng.pick(&[0u32, 3, 1 << 31, u32::MAX]).to_be_bytes());
            }
            ServerFault::Unfinished => {
                out.push(*rng.pick(b"DEC"));
                out.extend_from_slice(&rng.pick(&[5u32, 400, 1 << 20, (1 << 30) - 1]).to_be_bytes());
            }
            ServerFault::Truncated => {
                out.extend_from_slice(b"D\0\0\0\x40\0\x01");
                return After::Close;
            }
            ServerFault::LoginAgain => put_back::auth_ok(out),
            ServerFault::UnknownStatus => raw(out, tag::back::READY, b"X"),
            ServerFault::LongReady => raw(out, tag::back::READY, b"II"),
            ServerFault::ExtraReply => {
                let tags = [tag::back::PARSE_COMPLETE, tag::back::BIND_COMPLETE, tag::back::CLOSE_COMPLETE];
                raw(out, *rng.pick(&tags), b"");
                return After::Continue;
            }
            ServerFault::ExtraError => {
                raw(out, tag::back::ERROR, b"SERROR\0Mno code\0\0");
                return After::Continue;
            }
            ServerFault::ReadyTwice => {
                put_back::ready(out, b'I');
                return After::Continue;
            }
            ServerFault::Parameters => {
                parameters(rng, out);
                return After::Continue;
            }
        }
        After::Silence
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
    fn every_fault_but_silence_sends_bytes_and_every_kind_is_drawn() {
        let mut rng = Rng::new(3);
        let mut drawn = Vec::new();
        for _ in 0..2_000 {
            let (FaultPlan::AtLogin(fault) | FaultPlan::Within(fault, _)) = FaultPlan::draw(&mut rng);
            let mut out = Vec::new();
            fault.write(&mut rng, &mut out);
            assert_eq!(out.is_empty(), fault == ServerFault::Silence, "{fault:?}");
            drawn.push(fault);
        }
        assert!(AT_LOGIN.iter().chain(&WITHIN).all(|fault| drawn.contains(fault)));
    }
}
