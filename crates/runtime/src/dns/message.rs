//! DNS queries and answers as bytes (RFC 1035, section 4; AAAA: RFC 3596), with the library `domain`.
//!
//! Owns the two kinds of queries that a pooler needs, and which message answers one. Must not know how they are sent.
//! A truncated or malformed message is [`None`].

use std::net::IpAddr;

use domain::base::iana::{Class, Rcode};
use domain::base::name::NameBuilder;
use domain::base::{Message, MessageBuilder, Name, Rtype, ToName};
use domain::rdata::{A, Aaaa};

/// The record type of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    A,
    Aaaa,
}

/// A server's answer to a query.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reply {
    /// All addresses, maybe none, and their TTL in seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The answer did not fit; the query must be repeated over TCP.
    Truncated,
    /// The server has no answer.
    Failed,
}

/// A query; `None` for an invalid host name.
pub(crate) fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    let mut message = MessageBuilder::new_vec().question();
    message.header_mut().set_id(id);
    message.header_mut().set_rd(true);
    let kind = match kind {
        Kind::A => Rtype::A,
        Kind::Aaaa => Rtype::AAAA,
    };
    message.push((full_name(name)?, kind)).ok()?;
    Some(message.finish())
}

fn full_name(name: &str) -> Option<Name<Vec<u8>>> {
    let mut labels = NameBuilder::new_vec();
    for label in name.strip_suffix('.').unwrap_or(name).split('.') {
        if label.is_empty() || !label.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        labels.append_label(label.as_bytes()).ok()?;
    }
    labels.into_name().ok()
}

/// Parses the answer to `question`; `None` for any other message.
pub(crate) fn reply(message: &[u8], question: &[u8]) -> Option<Reply> {
    let (message, question) = (Message::from_octets(message).ok()?, Message::from_octets(question).ok()?);
    let header = message.header();
    if header.id() != question.header().id() || !header.qr() || message.header_counts().qdcount() != 1 {
        return None;
    }
    let (echoed, asked) = (message.first_question()?, question.first_question()?);
    let kind = asked.qtype();
    if !echoed.qname().name_eq(asked.qname()) || echoed.qtype() != kind || echoed.qclass() != asked.qclass() {
        return None;
    }
    if ![Rcode::NOERROR, Rcode::NXDOMAIN].contains(&header.rcode()) {
        return Some(Reply::Failed);
    }
    if header.tc() {
        return Some(Reply::Truncated);
    }
    let (mut addresses, mut shortest) = (Vec::new(), u32::MAX);
    for record in message.answer().ok()? {
        let record = record.ok()?;
        if record.class() != Class::IN || ![kind, Rtype::CNAME].contains(&record.rtype()) {
            continue;
        }
        // A TTL above 2^31 is zero (RFC 2181, section 8).
        let ttl = record.ttl().as_secs();
        shortest = shortest.min(if i32::try_from(ttl).is_ok() { ttl } else { 0 });
        // A record of another length is malformed (RFC 1035, section 3.4.1; RFC 3596, section 2.2).
        let address: Option<IpAddr> = match record.rtype() {
            Rtype::A => Some(record.to_record::<A>().ok()??.data().addr().into()),
            Rtype::AAAA => Some(record.to_record::<Aaaa>().ok()??.data().addr().into()),
            _ => None,
        };
        addresses.extend(address.filter(|_| header.rcode() == Rcode::NOERROR));
    }
    Some(Reply::Addresses(addresses, shortest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESPONSE: u16 = 1 << 15;
    const TRUNCATED: u16 = 1 << 9;
    const CNAME: u16 = 5;
    const INTERNET: u16 = 1;

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
        // The last record's type is changed from four bytes to sixteen.
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
