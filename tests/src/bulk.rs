//! A client for large transfers: it discards message bodies as they arrive.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use weir_pgwire::{Head, put_front, tag};

use crate::site::Site;

/// A connection as a bare socket, logged in with `trust`.
#[derive(Debug)]
pub struct Bulk {
    socket: TcpStream,
    buffer: Vec<u8>,
    have: usize,
}

impl Bulk {
    /// Connects through the Weir of a site with `auth = trust`.
    ///
    /// # Panics
    ///
    /// When that fails; the other functions here panic on failure too.
    pub fn connect(site: &Site) -> Bulk {
        let socket = TcpStream::connect(("127.0.0.1", site.weir().port())).expect("Weir listens");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket has a time-out");
        let mut bulk = Bulk { socket, buffer: vec![0; 1 << 16], have: 0 };
        let mut packet = Vec::new();
        put_front::startup(&mut packet, &[("user", "app"), ("database", "app")], 0);
        bulk.send(&packet);
        bulk.skim(|_, _| {});
        bulk
    }

    /// The socket, so that one thread can send while another reads.
    pub fn socket(&self) -> TcpStream {
        self.socket.try_clone().expect("a descriptor")
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the bytes can be sent");
    }

    /// Reads to the next ReadyForQuery; `seen` gets each message's tag and length.
    pub fn skim(&mut self, mut seen: impl FnMut(u8, u64)) {
        loop {
            while self.have < weir_pgwire::HEAD {
                self.fill();
            }
            let head = Head::parse(&self.buffer[..self.have]).expect("a head").expect("a whole one");
            seen(head.tag, u64::from(head.body));
            if head.tag == tag::back::ERROR {
                println!("an error: {}", self.buffer[..self.have].escape_ascii());
            }
            let mut left = head.total();
            while left > 0 {
                if self.have == 0 {
                    self.fill();
                }
                let now = left.min(self.have);
                self.buffer.copy_within(now..self.have, 0);
                self.have -= now;
                left -= now;
            }
            if head.tag == tag::back::READY {
                return;
            }
        }
    }

    fn fill(&mut self) {
        let count = self.socket.read(&mut self.buffer[self.have..]).expect("bytes arrive within a minute");
        assert!(count > 0, "the connection ended");
        self.have += count;
    }
}
