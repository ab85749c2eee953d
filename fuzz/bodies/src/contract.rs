//! The pending replies of a server, from PostgreSQL's protocol alone: a second implementation of "Message Flow" that
//! shares no code with the session it checks.
//!
//! Requests are in a queue; each reply must answer the oldest one. Where the protocol leaves the next reply open (an
//! error in a COPY that may have included a Sync), the contract reports this and checks no more.

use std::collections::VecDeque;

use weir_pgwire::{HEAD, Head};

/// A request, as far as its replies depend on it.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) tag: u8,
    pub(crate) body: Vec<u8>,
}

/// One direction of a connection, cut into whole messages.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stream {
    buffer: Vec<u8>,
}

impl Stream {
    /// Takes bytes; returns the messages that are now complete.
    ///
    /// # Panics
    /// When the bytes are no message: a session must never send such bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Ask> {
        self.buffer.extend_from_slice(bytes);
        let (mut found, mut at) = (Vec::new(), 0);
        while let Some(head) = Head::parse(&self.buffer[at..]).expect("what a session passes on is messages") {
            let Some(message) = self.buffer.get(at..at + head.total()) else { break };
            found.push(Ask { tag: head.tag, body: message[HEAD..].to_vec() });
            at += head.total();
        }
        self.buffer.drain(..at);
        found
    }

    /// The beginning of an incomplete message.
    pub(crate) fn held(&self) -> &[u8] {
        &self.buffer
    }

    /// Whether no message is incomplete.
    pub(crate) fn is_between(&self) -> bool {
        self.buffer.is_empty()
    }
}

/// The requests on one connection whose replies are pending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contract {
    asked: VecDeque<Ask>,
    /// After an error: all requests are skipped up to the next Sync.
    skipping: bool,
    /// The oldest request reads COPY data.
    copying: bool,
    /// The Syncs that were a part of the oldest request's COPY.
    swallowed: bool,
    /// ParameterDescription was sent, and RowDescription is pending.
    described: bool,
    open: bool,
}

impl Contract {
    /// A request is sent.
    pub(crate) fn ask(&mut self, ask: Ask) {
        self.asked.push_back(ask);
        self.advance();
    }

    /// The oldest request with pending replies.
    pub(crate) fn head(&self) -> Option<&Ask> {
        self.asked.front()
    }

    /// Whether the oldest request reads COPY data.
    pub(crate) fn is_copying(&self) -> bool {
        self.copying
    }

    /// Whether ParameterDescription has been sent, and RowDescription or NoData is pending.
    pub(crate) fn is_half_described(&self) -> bool {
        self.described
    }

    /// Whether the protocol leaves the next reply open.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// Whether no reply is pending and no message is incomplete.
    pub(crate) fn is_fulfilled(&self) -> bool {
        self.asked.is_empty() && !self.skipping && !self.copying && !self.open
    }

    /// The least number of pending ReadyForQuery.
    pub(crate) fn pending_ready(&self) -> usize {
        self.asked.iter().filter(|ask| matches!(ask.tag, b'Q' | b'S' | b'F')).count()
    }

    /// A reply arrives; `false` if it is unexpected.
    pub(crate) fn reply(&mut self, tag: u8) -> bool {
        if self.open || matches!(tag, b'N' | b'A' | b'S') {
            return true;
        }
        if tag == b'E' {
            self.error();
            return true;
        }
        let Some(ask) = self.asked.front() else { return false };
        let statement = ask.body.first() == Some(&b'S');
        let (fits, last) = match (ask.tag, tag) {
            _ if self.copying => (false, false),
            (b'Q' | b'S' | b'F', b'Z') => (true, true),
            (b'Q', b'T' | b'D' | b'C' | b'I' | b'H' | b'd' | b'c') | (b'F', b'V') => (true, false),
            (b'Q' | b'E', b'G') => {
                self.copying = true;
                (true, false)
            }
            (b'P', b'1') | (b'B', b'2') | (b'C', b'3') => (true, true),
            (b'D', b't') if statement && !self.described => {
                self.described = true;
                (true, false)
            }
            (b'D', b'T' | b'n') => (!statement || self.described, true),
            (b'E', b'D' | b'H' | b'd' | b'c') => (true, false),
            (b'E', b'C' | b'I' | b's') => (true, true),
            _ => (false, false),
        };
        if last {
            self.pop();
        }
        self.advance();
        fits
    }

    fn error(&mut self) {
        let Some(ask) = self.asked.front() else { return };
        if self.swallowed {
            // The Sync was either a part of the COPY or read after the error.
            self.open = true;
            return;
        }
        self.copying = false;
        if !matches!(ask.tag, b'Q' | b'S' | b'F') {
            self.pop();
            self.skipping = true;
        }
        self.advance();
    }

    fn pop(&mut self) {
        self.asked.pop_front();
        self.swallowed = false;
        self.described = false;
    }

    /// Drops the requests that get no reply.
    fn advance(&mut self) {
        while self.copying {
            let Some(next) = self.asked.get(1) else { return };
            match next.tag {
                b'd' | b'H' => {}
                b'S' => self.swallowed = true,
                b'c' | b'f' => self.copying = false,
                _ => {
                    // A protocol violation: the replies to it can't be counted.
                    self.open = true;
                    return;
                }
            }
            self.asked.remove(1);
        }
        while let Some(next) = self.asked.front() {
            match next.tag {
                b'S' => {
                    self.skipping = false;
                    return;
                }
                b'd' | b'c' | b'f' | b'H' => {}
                _ if self.skipping => {}
                _ => return,
            }
            self.asked.pop_front();
        }
    }
}

/// Whether all message heads in the bytes are valid.
pub(crate) fn is_readable(mut bytes: &[u8]) -> bool {
    loop {
        match Head::parse(bytes) {
            Err(_) => return false,
            Ok(Some(head)) if bytes.len() >= head.total() => bytes = &bytes[head.total()..],
            Ok(_) => return true,
        }
    }
}
