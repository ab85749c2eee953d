//! A DNS server of a test: every name has the addresses that the test sets, for an hour.
//!
//! Source of the messages: RFC 1035, section 4.1. Answers by UDP alone; its thread ends with the process.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// A running name server on loopback.
#[derive(Clone, Debug)]
pub struct NameServer {
    port: u16,
    addresses: Arc<Mutex<Vec<Ipv4Addr>>>,
}

impl NameServer {
    /// Begins to answer with these addresses.
    ///
    /// # Panics
    ///
    /// When loopback has no port left.
    pub fn start(addresses: &[&str]) -> NameServer {
        let socket = UdpSocket::bind(("127.0.0.1", 0)).expect("a free port");
        let port = socket.local_addr().expect("it is bound").port();
        let server = NameServer { port, addresses: Arc::default() };
        server.answer(addresses);
        let answering = server.clone();
        thread::spawn(move || {
            let mut question = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut question) {
                let _ = socket.send_to(&answering.message(&question[..length]), from);
            }
        });
        server
    }

    /// From now on every name has these addresses; without any, the answer is NXDOMAIN.
    ///
    /// # Panics
    ///
    /// When one of them is no IPv4 address.
    pub fn answer(&self, addresses: &[&str]) {
        let addresses = addresses.iter().map(|text| text.parse().expect("an IPv4 address")).collect();
        *self.addresses.lock().unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// The `resolv.conf` that leads here.
    pub fn resolv_conf(&self) -> String {
        format!("nameserver [127.0.0.1]:{}\noptions timeout:1 attempts:1\n", self.port)
    }

    /// The question again, and its answer.
    fn message(&self, question: &[u8]) -> Vec<u8> {
        let addresses = self.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        let mut message = question.to_vec();
        if message.len() < 17 {
            return message;
        }
        // A response; NXDOMAIN if there are no addresses.
        message[2] |= 0x80;
        message[3] = if addresses.is_empty() { 3 } else { 0 };
        // Questions for other records than A get no answer records.
        let wants_v4 = question[question.len() - 4..] == [0, 1, 0, 1];
        let found: &[Ipv4Addr] = if wants_v4 { &addresses } else { &[] };
        message[6..8].copy_from_slice(&(found.len() as u16).to_be_bytes());
        for address in found {
            // The name of the question, type A, class IN, a TTL of an hour, four bytes.
            message.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0x0e, 0x10, 0, 4]);
            message.extend_from_slice(&address.octets());
        }
        message
    }
}
