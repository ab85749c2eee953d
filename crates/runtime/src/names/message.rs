//! Questions and answers of the DNS as bytes (RFC 1035, section 4; AAAA: RFC 3596).
//!
//! Owns the two kinds of question that a pooler has. Must not know how they are sent. Nothing here trusts a length: a cut or
//! twisted message is [`None`].

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const HEADER: usize = 12;
const RESPONSE: u16 = 1 << 15;
const TRUNCATED: u16 = 1 << 9;
const RECURSION: u16 = 1 << 8;
const CNAME: u16 = 5;
const INTERNET: u16 = 1;
/// The longest name, as text without its last dot.
const MAX_NAME: usize = 253;
const MAX_LABEL: usize = 63;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    A = 1,
    Aaaa = 28,
}

/// What a server said to a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// These are all addresses, perhaps none, and the answer holds for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The answer did not fit; it is to be had by TCP.
    Truncated,
    /// The server could not say.
    Failed,
}

/// A question; nothing for what is no name.
pub(crate) fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let good =
        |label: &str| !label.is_empty() && label.len() <= MAX_LABEL && label.bytes().all(|b| b.is_ascii_graphic());
    if name.len() > MAX_NAME || !name.split('.').all(good) {
        return None;
    }
    let mut bytes = Vec::with_capacity(HEADER + name.len() + 6);
    for word in [id, RECURSION, 1, 0, 0, 0] {
        bytes.extend_from_slice(&word.to_be_bytes());
    }
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend_from_slice(label.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(&(kind as u16).to_be_bytes());
    bytes.extend_from_slice(&INTERNET.to_be_bytes());
    Some(bytes)
}

/// Reads the answer to `question`; nothing for a message that is something else.
pub(crate) fn reply(message: &[u8], question: &[u8]) -> Option<Reply> {
    let (id, flags) = (word(message, 0)?, word(message, 2)?);
    let asked = message.get(HEADER..question.len())?;
    let ours = id == word(question, 0)? && asked.eq_ignore_ascii_case(&question[HEADER..]);
    if !ours || flags & RESPONSE == 0 || word(message, 4)? != 1 {
        return None;
    }
    let missing = match flags & 0xf {
        0 => false,
        3 => true,
        _ => return Some(Reply::Failed),
    };
    if flags & TRUNCATED != 0 {
        return Some(Reply::Truncated);
    }
    let kind = word(question, question.len() - 4)?;
    let (mut addresses, mut ttl, mut at) = (Vec::new(), u32::MAX, question.len());
    for _ in 0..word(message, 6)? {
        let record = Record::read(message, &mut at)?;
        if record.class != INTERNET || (record.kind != kind && record.kind != CNAME) {
            continue;
        }
        ttl = ttl.min(record.ttl);
        if record.kind == kind && !missing {
            addresses.push(address(kind, record.data)?);
        }
    }
    Some(Reply::Addresses(addresses, ttl))
}

/// One record of an answer.
struct Record<'a> {
    kind: u16,
    class: u16,
    ttl: u32,
    data: &'a [u8],
}

impl<'a> Record<'a> {
    fn read(message: &'a [u8], at: &mut usize) -> Option<Record<'a>> {
        skip_name(message, at)?;
        let (kind, class) = (word(message, *at)?, word(message, *at + 2)?);
        // A time beyond 2^31 is zero (RFC 2181, section 8).
        let ttl = u32::from(word(message, *at + 4)?) << 16 | u32::from(word(message, *at + 6)?);
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        let length = usize::from(word(message, *at + 8)?);
        let data = message.get(*at + 10..*at + 10 + length)?;
        *at += 10 + length;
        Some(Record { kind, class, ttl, data })
    }
}

fn skip_name(message: &[u8], at: &mut usize) -> Option<()> {
    loop {
        let length = *message.get(*at)?;
        *at += 1;
        match length {
            0 => return Some(()),
            // A pointer ends the name; where it leads does not matter here.
            0xc0.. => {
                *at += 1;
                return Some(());
            }
            1..=63 => *at += usize::from(length),
            _ => return None,
        }
    }
}

/// An address has the length of its record's kind (RFC 1035, section 3.4.1; RFC 3596, section 2.2).
fn address(kind: u16, data: &[u8]) -> Option<IpAddr> {
    if kind == Kind::Aaaa as u16 {
        <[u8; 16]>::try_from(data).ok().map(|b| Ipv6Addr::from(b).into())
    } else {
        <[u8; 4]>::try_from(data).ok().map(|b| Ipv4Addr::from(b).into())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer with an alias and two addresses.
    fn answer(question: &[u8], flags: u16) -> Vec<u8> {
        let mut bytes = question.to_vec();
        bytes[2..4].copy_from_slice(&(RESPONSE | flags).to_be_bytes());
        bytes[6..8].copy_from_slice(&3u16.to_be_bytes());
        let mut record = |kind: u16, ttl: u32, data: &[u8]| {
            bytes.extend_from_slice(&[0xc0, 12]);
            bytes.extend_from_slice(&kind.to_be_bytes());
            bytes.extend_from_slice(&INTERNET.to_be_bytes());
            bytes.extend_from_slice(&ttl.to_be_bytes());
            bytes.extend_from_slice(&(data.len() as u16).to_be_bytes());
            bytes.extend_from_slice(data);
        };
        record(CNAME, 30, b"\x01x\x00");
        record(1, 60, &[10, 0, 0, 1]);
        record(1, 60, &[10, 0, 0, 2]);
        bytes
    }

    #[test]
    fn a_question_is_what_the_rfc_shows() {
        let bytes = question(0x1234, "db.example.", Kind::Aaaa).unwrap();
        assert_eq!(bytes, b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02db\x07example\x00\x00\x1c\x00\x01");
        for name in ["", ".", "a..b", "a b", &"x".repeat(64), &"abc.".repeat(80)] {
            assert_eq!(question(1, name, Kind::A), None, "{name}");
        }
    }

    #[test]
    fn an_answer_holds_as_long_as_its_shortest_record() {
        let asked = question(7, "db.example", Kind::A).unwrap();
        let addresses = vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()];
        assert_eq!(reply(&answer(&asked, 0), &asked), Some(Reply::Addresses(addresses, 30)));
        assert_eq!(reply(&answer(&asked, TRUNCATED), &asked), Some(Reply::Truncated));
        assert_eq!(reply(&answer(&asked, 2), &asked), Some(Reply::Failed));
        assert_eq!(reply(&answer(&asked, 3), &asked), Some(Reply::Addresses(vec![], 30)));
    }

    #[test]
    fn an_address_has_the_length_of_its_kind() {
        let asked = question(7, "db.example", Kind::A).unwrap();
        let mut answer = answer(&asked, 0);
        // The last record is one of four bytes; it is made one of sixteen.
        let length = answer.len() - 5;
        answer[length] = 16;
        answer.extend_from_slice(&[0; 12]);
        assert_eq!(reply(&answer, &asked), None);
    }

    #[test]
    fn only_the_answer_to_the_very_question_counts() {
        let asked = question(7, "db.example", Kind::A).unwrap();
        for other in [("db.example", 8, Kind::A), ("db.examplf", 7, Kind::A), ("db.example", 7, Kind::Aaaa)] {
            let other = question(other.1, other.0, other.2).unwrap();
            assert_eq!(reply(&answer(&other, 0), &asked), None);
        }
        assert_eq!(reply(&asked, &asked), None, "an echo is no answer");
        let shouted = question(7, "DB.EXAMPLE", Kind::A).unwrap();
        assert!(reply(&answer(&shouted, 0), &asked).is_some());
    }

    #[test]
    fn a_cut_or_twisted_answer_is_refused_and_never_a_panic() {
        let asked = question(7, "db.example", Kind::A).unwrap();
        let whole = answer(&asked, 0);
        for end in 0..whole.len() {
            assert_eq!(reply(&whole[..end], &asked), None, "cut at {end}");
        }
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut twisted = whole.clone();
                twisted[at] ^= 1 << bit;
                let _ = reply(&twisted, &asked);
            }
        }
    }
}
