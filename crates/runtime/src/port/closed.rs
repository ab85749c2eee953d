//! Closes peers: each connection's last bytes are sent, and what its other end still sends is read and dropped.
//!
//! The rules are at the top of `closing`.

use std::io::ErrorKind;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_base::{Peer, Span};
use weir_engine::port::Gone;

use super::Port;
use super::closing::{Closed, MOST_SENT};
use crate::slots::{NONE, Ready, Stage};

/// How long the end of the process waits for all closed peers, and for those that have sent everything, while nothing
/// comes.
const LAST: Span = Span::from_secs(2);
const QUIET: Span = Span::from_millis(100);

impl Port {
    /// The engine closes a peer.
    pub(super) fn ask_close(&mut self, peer: Peer, has_last_bytes: bool) {
        let Some(slot) = self.peers.live(peer) else { return };
        self.closing.ask(peer, slot, has_last_bytes);
        // A connect under way is abandoned.
        if slot.stage == Stage::Connecting || slot.stage == Stage::Detached {
            slot.ready = Ready::Broken;
        }
        slot.stage = Stage::Lingering;
    }

    /// Closes the peers that were closed in this turn.
    #[cold]
    pub(super) fn finish_closing(&mut self) {
        while let Some((peer, has_last_bytes)) = self.closing.asked.pop() {
            self.say_closed(peer);
            self.part(peer, false, has_last_bytes);
        }
    }

    /// Closes a peer before the engine learns of it. `false` if the engine has no such peer.
    pub(crate) fn close_peer(&mut self, peer: Peer, cause: Gone) -> bool {
        let Some(slot) = self.peers.live(peer) else { return false };
        if slot.stage == Stage::Connecting {
            slot.ready = Ready::Broken;
        }
        // If the connection did not break, an error is TLS's, and its last bytes are the alert.
        self.part(peer, cause == Gone::Eof, cause == Gone::Error);
        true
    }

    /// Closes a connection, after its last bytes are sent. Every close goes through this function. `ended`: the other
    /// end has sent all.
    fn part(&mut self, peer: Peer, ended: bool, has_last_bytes: bool) {
        let Some(slot) = self.peers.get(peer) else { return };
        let waits = slot.owes() || has_last_bytes && !ended;
        if !waits || slot.socket.is_none() || slot.ready == Ready::Broken {
            return self.drop_peer(peer);
        }
        slot.stage = Stage::Lingering;
        if std::mem::take(&mut slot.held) {
            self.ring_io.forget_held(peer.slot);
        }
        let tls = std::mem::replace(&mut slot.tls, NONE);
        self.forget_tls(peer, tls);
        let Some(slot) = self.peers.get(peer) else { return };
        let unsent = Some(self.backlogs.length(slot));
        self.closing.insert(peer, Closed::new(unsent, ended, self.now));
        if !ended {
            self.drop_input(peer);
        }
        self.note_progress(peer);
        self.close_surplus();
    }

    /// Has a closed peer's input read.
    fn drop_input(&mut self, peer: Peer) {
        if !self.leave_pace(peer) {
            self.watch_by_epoll(peer);
        }
        if self.peers.get(peer).is_some_and(|slot| slot.ready != Ready::Nothing) {
            self.enqueue(peer);
        }
    }

    /// A closed peer's output may all be sent: its stream ends.
    pub(super) fn note_progress(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer).filter(|slot| !slot.owes()) else { return };
        match self.closing.note_sent(peer.slot) {
            Some(false) => {
                let ends = slot.socket.as_ref().is_some_and(|socket| socket.end_stream().is_ok());
                if !ends || self.shared.is_starved() {
                    self.drop_peer(peer);
                }
            }
            Some(true) => self.drop_peer(peer),
            None => {}
        }
    }

    /// The other end of a closed peer has sent everything.
    pub(super) fn closed_ended(&mut self, peer: Peer) {
        if self.closing.note_end(peer.slot) {
            self.drop_peer(peer);
        }
    }

    /// Bytes of a closed peer have come, and are dropped.
    pub(super) fn dropped(&mut self, peer: Peer, length: usize) {
        if !self.closing.note_dropped(peer.slot, length) {
            self.drop_peer(peer);
        }
    }

    /// Reads a closed peer once.
    pub(crate) fn read_closed(&mut self, peer: Peer, scratch: &mut [u8]) {
        let reads = self.closing.reads(peer.slot);
        let Some(slot) = self.peers.get(peer).filter(|_| reads) else { return };
        let Some(socket) = slot.socket.as_mut() else { return };
        match socket.read(scratch) {
            Ok(0) => self.closed_ended(peer),
            Ok(length) => {
                let again = length == scratch.len() || slot.ready > Ready::Bytes;
                if again {
                    self.enqueue(peer);
                } else {
                    slot.ready = Ready::Nothing;
                }
                self.dropped(peer, length);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => slot.ready = Ready::Nothing,
            Err(error) if error.kind() == ErrorKind::Interrupted => self.enqueue(peer),
            Err(_) => self.drop_peer(peer),
        }
    }

    /// Closes the sockets whose time has passed.
    pub(crate) fn close_due(&mut self) {
        loop {
            let Port { closing, peers, now, .. } = self;
            let Some(peer) = closing.due(*now, |peer| peers.is_lingering(peer)) else { return };
            self.drop_peer(peer);
        }
    }

    /// The process ends: closed peers get their last bytes, within a short time.
    pub(crate) fn close_last(&mut self, scratch: &mut [u8]) {
        let until = self.shared.clock.now() + LAST;
        loop {
            let peers: Vec<Peer> = self.closing.order.iter().map(|(_, peer)| *peer).collect();
            let peers: Vec<Peer> = peers.into_iter().filter(|peer| self.peers.is_lingering(*peer)).collect();
            let left = until.since(self.shared.clock.now());
            if peers.is_empty() || left.is_zero() {
                return;
            }
            let all_sent = self.closing.sent == self.closing.sockets.len();
            let ready = self.await_any(&peers, if all_sent { left.min(QUIET) } else { left });
            if ready.is_empty() {
                return;
            }
            for peer in ready {
                self.drain(peer);
                self.read_closed(peer, scratch);
            }
        }
    }

    /// Waits, for `most` at the longest, until sockets of these peers have something to read, or room for bytes that
    /// wait; returns those peers.
    fn await_any(&self, peers: &[Peer], most: Span) -> Vec<Peer> {
        let sockets = peers.iter().filter_map(|peer| {
            let closed = self.closing.sockets.get(&peer.slot)?;
            let mut events = PollFlags::empty();
            events.set(PollFlags::IN, !closed.ended);
            events.set(PollFlags::OUT, closed.unsent.is_some());
            Some((*peer, PollFd::from_borrowed_fd(self.peers.socket(*peer)?.fd(), events)))
        });
        let (peers, mut sockets): (Vec<Peer>, Vec<PollFd<'_>>) = sockets.unzip();
        let Ok(time) = Timespec::try_from(Duration::from_micros(most.micros())) else { return Vec::new() };
        if poll(&mut sockets, Some(&time)).is_err() {
            return Vec::new();
        }
        let is_ready = |(_, socket): &(Peer, PollFd<'_>)| !socket.revents().is_empty();
        peers.into_iter().zip(sockets).filter(is_ready).map(|(peer, _)| peer).collect()
    }

    fn close_surplus(&mut self) {
        loop {
            let Port { closing, peers, .. } = self;
            let is_one = |peer: Peer| peers.is_lingering(peer);
            let Some(peer) = closing.surplus(is_one) else { break };
            self.drop_peer(peer);
        }
        // Entries of peers that are gone are dropped.
        if self.closing.order.len() > 2 * self.closing.sockets.len() + MOST_SENT {
            let Port { closing, peers, .. } = self;
            closing.order.retain(|(_, peer)| peers.is_lingering(*peer));
        }
    }

    /// Descriptors are lacking: closes the sockets that have sent everything.
    pub(super) fn close_sent(&mut self) {
        let peers: Vec<Peer> = self.closing.order.iter().map(|(_, peer)| *peer).collect();
        for peer in peers {
            let sent = self.closing.sockets.get(&peer.slot).is_some_and(|closed| closed.unsent.is_none());
            if sent && self.peers.is_lingering(peer) {
                self.drop_peer(peer);
            }
        }
    }
}
