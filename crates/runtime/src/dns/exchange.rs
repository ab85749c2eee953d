//! Queries to name servers: A and AAAA in parallel over UDP, over TCP if an answer was truncated.
//!
//! Owns the sockets of one look-up and its timeout. Blocks: runs on a helper thread.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use rand_core::{OsRng, RngCore};

use super::conf::Conf;
use super::message::{Kind, Reply, question, reply};
use crate::timed::Timed;

/// The longest message, in bytes.
const MAX_MESSAGE: usize = 64 << 10;

/// The addresses of a full name, IPv4 first, and their TTL in seconds; `None` if no server has an answer.
pub(super) fn addresses(conf: &Conf, name: &str) -> Option<(Vec<IpAddr>, u32)> {
    let tries = (0..conf.attempts).flat_map(|_| &conf.servers);
    tries.into_iter().find_map(|server| exchange(*server, conf.timeout, name))
}

fn exchange(server: SocketAddr, timeout: Duration, name: &str) -> Option<(Vec<IpAddr>, u32)> {
    let id = OsRng.next_u32();
    // Two different random ids, which an attacker can't guess.
    let kinds = [(id as u16, Kind::A), ((id >> 16) as u16 ^ u16::from(id as u16 == (id >> 16) as u16), Kind::Aaaa)];
    let questions: Vec<Vec<u8>> = kinds.iter().map(|(id, kind)| question(*id, name, *kind)).collect::<Option<_>>()?;
    let mut replies = by_udp(server, timeout, &questions).ok()?;
    for (asked, answer) in questions.iter().zip(&mut replies) {
        if *answer == Some(Reply::Truncated) {
            *answer = by_tcp(server, timeout, asked).ok().flatten();
        }
    }
    let (mut addresses, mut shortest, mut answered) = (Vec::new(), u32::MAX, 0);
    for answer in replies {
        if let Some(Reply::Addresses(more, ttl)) = answer {
            addresses.extend(more);
            shortest = shortest.min(ttl);
            answered += 1;
        }
    }
    // One of two answers is enough if it has addresses: some servers do not support IPv6.
    (answered == 2 || !addresses.is_empty()).then_some((addresses, shortest))
}

fn by_udp(server: SocketAddr, timeout: Duration, questions: &[Vec<u8>]) -> io::Result<Vec<Option<Reply>>> {
    let from: IpAddr = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((from, 0))?;
    // The kernel drops datagrams of other senders.
    socket.connect(server)?;
    questions.iter().try_for_each(|question| socket.send(question).map(drop))?;
    let until = Instant::now() + timeout;
    let (mut replies, mut buffer) = (vec![None; questions.len()], vec![0; MAX_MESSAGE]);
    while replies.iter().any(Option::is_none) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        socket.set_read_timeout(Some(left))?;
        let Ok(length) = socket.recv(&mut buffer) else { break };
        for (asked, answer) in questions.iter().zip(&mut replies) {
            if answer.is_none() {
                *answer = reply(&buffer[..length], asked);
            }
        }
    }
    Ok(replies)
}

fn by_tcp(server: SocketAddr, timeout: Duration, question: &[u8]) -> io::Result<Option<Reply>> {
    let until = Instant::now() + timeout;
    let mut stream = Timed { socket: TcpStream::connect_timeout(&server, timeout)?, until };
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat())?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message)?;
    Ok(reply(&message, question))
}
