//! The PROXY protocol header, with which a load balancer sends the client's address at the start of a connection.
//!
//! Must not know which peers are trusted to send a header. A header is bounded, and refused as soon as it is invalid.
//!
//! Source: "The PROXY protocol, Versions 1 & 2" (HAProxy), sections 2.1 and 2.2.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use crate::frame::Malformed;

/// The longest header of version 1, including its line end.
pub const MAX_V1: usize = 107;
/// The longest accepted header of version 2, including extensions (TLVs).
pub const MAX_V2: usize = 8 << 10;

const V1: &[u8] = b"PROXY ";
const V2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The fixed part of a version 2 header: signature, version and command, family, length.
const V2_HEAD: usize = 16;

/// The origin of a balancer's connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proxied {
    /// A client at this address.
    Client(SocketAddr),
    /// The balancer itself (LOCAL), or a client without a known address (UNKNOWN, UNSPEC, a Unix socket): the
    /// connection's own address counts.
    Unknown,
}

/// Reads the header at the front of `bytes` and returns its length; `None` if it has not all arrived.
///
/// # Errors
/// When the bytes are not a header, or one that is too long.
pub fn header(bytes: &[u8]) -> Result<Option<(Proxied, usize)>, Malformed> {
    if begins(bytes, V2) {
        v2(bytes)
    } else if begins(bytes, V1) {
        v1(bytes)
    } else {
        Err(Malformed("no PROXY header"))
    }
}

/// Whether one of `bytes` and `signature` is a prefix of the other.
fn begins(bytes: &[u8], signature: &[u8]) -> bool {
    bytes.iter().zip(signature).all(|(a, b)| a == b)
}

fn v1(bytes: &[u8]) -> Result<Option<(Proxied, usize)>, Malformed> {
    let most = bytes.len().min(MAX_V1);
    let Some(end) = bytes[..most].windows(2).position(|two| two == b"\r\n") else {
        return if bytes.len() < MAX_V1 { Ok(None) } else { Err(Malformed("PROXY header without an end")) };
    };
    let line = std::str::from_utf8(&bytes[V1.len().min(end)..end]).map_err(|_| V1_LAYOUT)?;
    Ok(Some((line_of_v1(line)?, end + 2)))
}

const V1_LAYOUT: Malformed = Malformed("PROXY header of version 1 is not laid out as one");

fn line_of_v1(line: &str) -> Result<Proxied, Malformed> {
    let mut words = line.split(' ');
    match words.next() {
        // The rest of the line is ignored.
        Some("UNKNOWN") => return Ok(Proxied::Unknown),
        Some("TCP4") => addresses::<Ipv4Addr>(words),
        Some("TCP6") => addresses::<Ipv6Addr>(words),
        _ => None,
    }
    .map(Proxied::Client)
    .ok_or(V1_LAYOUT)
}

/// Source, destination, source's port, destination's port, and nothing more.
fn addresses<'a, A: FromStr + Into<IpAddr>>(mut words: impl Iterator<Item = &'a str>) -> Option<SocketAddr> {
    let from: A = words.next()?.parse().ok()?;
    let _to: A = words.next()?.parse().ok()?;
    let from_port = port(words.next()?)?;
    let _to_port = port(words.next()?)?;
    words.next().is_none().then(|| SocketAddr::new(from.into(), from_port))
}

/// A port in decimal digits, without a sign or a leading zero.
fn port(word: &str) -> Option<u16> {
    let plain = word == "0" || (!word.starts_with('0') && word.bytes().all(|b| b.is_ascii_digit()));
    word.parse().ok().filter(|_| plain)
}

fn v2(bytes: &[u8]) -> Result<Option<(Proxied, usize)>, Malformed> {
    let Some(head) = bytes.first_chunk::<V2_HEAD>() else { return Ok(None) };
    let length = usize::from(u16::from_be_bytes([head[14], head[15]]));
    let total = V2_HEAD + length;
    if total > MAX_V2 {
        return Err(Malformed("PROXY header is too long"));
    }
    // Checks the fixed part before waiting for the rest.
    let least = match head[12] {
        0x20 => 0,
        0x21 => least_of(head[13])?,
        _ => return Err(Malformed("PROXY header of an unknown version or command")),
    };
    if length < least {
        return Err(Malformed("PROXY header is too short for its addresses"));
    }
    let Some(block) = bytes.get(V2_HEAD..total) else { return Ok(None) };
    let proxied = if head[12] == 0x20 { Proxied::Unknown } else { client_of(head[13], block) };
    Ok(Some((proxied, total)))
}

/// The length of a family's addresses in bytes. Only stream sockets are accepted.
fn least_of(family: u8) -> Result<usize, Malformed> {
    match family {
        0x00 => Ok(0),
        0x11 => Ok(12),
        0x21 => Ok(36),
        0x31 => Ok(216),
        _ => Err(Malformed("PROXY header of an unknown family, or for no stream")),
    }
}

/// The client in an address block that is long enough for its family; extensions follow there and are skipped.
fn client_of(family: u8, block: &[u8]) -> Proxied {
    let port = |at: usize| block.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    match (family, block.first_chunk::<4>(), block.first_chunk::<16>()) {
        (0x11, Some(from), _) => Proxied::Client(SocketAddr::new(Ipv4Addr::from(*from).into(), port(8))),
        (0x21, _, Some(from)) => Proxied::Client(SocketAddr::new(Ipv6Addr::from(*from).into(), port(32))),
        _ => Proxied::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> Proxied {
        Proxied::Client(text.parse().unwrap())
    }

    fn of_v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        [V2, &[command, family], &(block.len() as u16).to_be_bytes(), block].concat()
    }

    #[test]
    fn a_line_of_version_1_names_the_client() {
        let table = [
            ("PROXY TCP4 10.1.2.3 10.0.0.1 5000 6432\r\n", client("10.1.2.3:5000")),
            ("PROXY TCP6 2001:db8::1 ::1 65535 0\r\n", client("[2001:db8::1]:65535")),
            ("PROXY UNKNOWN\r\n", Proxied::Unknown),
            ("PROXY UNKNOWN ffff::1 whatever 1 2\r\n", Proxied::Unknown),
        ];
        for (line, expected) in table {
            let more = [line.as_bytes(), b"more"].concat();
            assert_eq!(header(&more), Ok(Some((expected, line.len()))), "{line}");
        }
    }

    #[test]
    fn a_line_that_is_not_quite_right_is_refused() {
        let lines = [
            "PROXY TCP4 10.1.2.3 10.0.0.1 5000\r\n",
            "PROXY TCP4 10.1.2.3 10.0.0.1 5000 6432 7\r\n",
            "PROXY TCP4 10.1.2.3  10.0.0.1 5000 6432\r\n",
            "PROXY TCP4 10.1.2.03 10.0.0.1 5000 6432\r\n",
            "PROXY TCP4 ::1 ::1 5000 6432\r\n",
            "PROXY TCP6 10.1.2.3 10.0.0.1 5000 6432\r\n",
            "PROXY TCP4 10.1.2.3 10.0.0.1 05000 6432\r\n",
            "PROXY TCP4 10.1.2.3 10.0.0.1 +500 6432\r\n",
            "PROXY TCP4 10.1.2.3 10.0.0.1 70000 6432\r\n",
            "PROXY UDP4 10.1.2.3 10.0.0.1 5000 6432\r\n",
            "PROXY \r\n",
            "PROXX TCP4",
            "proxy",
            "\0\0\0\x08\x04",
        ];
        for line in lines {
            assert!(header(line.as_bytes()).is_err(), "{line:?}");
        }
    }

    #[test]
    fn a_line_ends_within_107_bytes() {
        let fits = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_V1 - 16));
        assert_eq!((fits.len(), header(fits.as_bytes())), (MAX_V1, Ok(Some((Proxied::Unknown, MAX_V1)))));
        assert_eq!(header(&fits.as_bytes()[..MAX_V1 - 1]), Ok(None));
        let longer = format!("PROXY UNKNOWN {}\r\n", "x".repeat(MAX_V1 - 15));
        assert!(header(&longer.as_bytes()[..MAX_V1]).is_err());
        assert!(header(longer.as_bytes()).is_err());
    }

    #[test]
    fn a_header_of_version_2_names_the_client() {
        let v4 = [10, 1, 2, 3, 10, 0, 0, 1, 0x13, 0x88, 0x19, 0x20];
        let bytes = of_v2(0x21, 0x11, &v4);
        assert_eq!(header(&bytes), Ok(Some((client("10.1.2.3:5000"), 28))));
        let extended = of_v2(0x21, 0x11, &[&v4[..], &[0x04, 0, 1, 0]].concat());
        assert_eq!(header(&extended), Ok(Some((client("10.1.2.3:5000"), 32))));
        let mut v6 = [0; 36];
        (v6[15], v6[31], v6[33]) = (1, 2, 9);
        assert_eq!(header(&of_v2(0x21, 0x21, &v6)), Ok(Some((client("[::1]:9"), 52))));
    }

    #[test]
    fn a_header_without_a_client_leaves_the_connection_its_own_address() {
        for (command, family, length) in
            [(0x20, 0, 0), (0x20, 0x11, 12), (0x20, 0x77, 3), (0x21, 0, 0), (0x21, 0, 7), (0x21, 0x31, 216)]
        {
            let bytes = of_v2(command, family, &vec![1; length]);
            assert_eq!(header(&bytes), Ok(Some((Proxied::Unknown, V2_HEAD + length))), "{command:x} {family:x}");
        }
    }

    #[test]
    fn a_header_of_version_2_that_makes_no_sense_is_refused_by_its_first_16_bytes() {
        for (command, family, length) in
            [(0x11, 0x11, 12), (0x22, 0x11, 12), (0x21, 0x12, 12), (0x21, 0x41, 12), (0x21, 0x11, 11), (0x21, 0x31, 36)]
        {
            let bytes = of_v2(command, family, &vec![0; length]);
            assert!(header(&bytes[..V2_HEAD]).is_err(), "{command:x} {family:x} {length}");
        }
        let most = MAX_V2 - V2_HEAD;
        assert_eq!(header(&of_v2(0x21, 0, &vec![0; most])), Ok(Some((Proxied::Unknown, MAX_V2))));
        assert!(header(&of_v2(0x21, 0, &vec![0; most + 1])[..V2_HEAD]).is_err());
    }
}
