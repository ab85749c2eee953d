//! An engine's port without a network: requests are recorded, and the port's rules are checked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use weir_base::{Peer, Target, WorkerId};
use weir_config::Config;
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Io, Level, Response, Work};

/// The most bytes that one input may queue for one peer: a few of the largest messages that are made here.
const MAX_PER_INPUT: usize = 1 << 20;

/// What an engine requested.
#[derive(Default)]
pub(crate) struct Port {
    /// The bytes of the input that is being processed.
    pub(crate) input: Vec<u8>,
    slots: u32,
    alive: BTreeSet<Peer>,
    paused: BTreeSet<Peer>,
    pub(crate) sent: BTreeMap<Peer, Vec<u8>>,
    pub(crate) connects: VecDeque<Peer>,
    pub(crate) detaches: VecDeque<Peer>,
    pub(crate) jobs: VecDeque<u64>,
    pub(crate) messages: VecDeque<(Message, Option<Peer>)>,
    pub(crate) exited: bool,
}

impl Port {
    /// A new handle.
    pub(crate) fn peer(&mut self) -> Peer {
        self.slots += 1;
        let peer = Peer::new(self.slots, 1);
        self.alive.insert(peer);
        peer
    }

    pub(crate) fn is_alive(&self, peer: Peer) -> bool {
        self.alive.contains(&peer)
    }

    /// Whether a peer's bytes may be delivered.
    pub(crate) fn is_read(&self, peer: Peer) -> bool {
        self.is_alive(peer) && !self.paused.contains(&peer)
    }

    /// A handle is closed.
    pub(crate) fn end(&mut self, peer: Peer) {
        assert!(self.alive.remove(&peer), "a dead handle {peer:?} is closed");
        self.paused.remove(&peer);
    }

    fn write(&mut self, to: Peer, bytes: &[u8]) {
        assert!(self.alive.contains(&to), "bytes for a dead handle {to:?}");
        let sent = self.sent.entry(to).or_default();
        sent.extend_from_slice(bytes);
        assert!(sent.len() <= MAX_PER_INPUT, "more than one input may produce");
    }
}

impl Io for Port {
    fn forward(&mut self, to: Peer, range: Range<usize>) {
        let input = std::mem::take(&mut self.input);
        self.write(to, &input[range]);
        self.input = input;
    }
    fn send(&mut self, to: Peer, bytes: &[u8]) {
        self.write(to, bytes);
    }
    fn connect(&mut self, _: &Target) -> Peer {
        let peer = self.peer();
        self.connects.push_back(peer);
        peer
    }
    fn look_up(&mut self, _: &Arc<str>) {}
    fn close(&mut self, peer: Peer) {
        self.end(peer);
    }
    fn pause(&mut self, peer: Peer) {
        assert!(self.alive.contains(&peer) && self.paused.insert(peer), "{peer:?} is paused already, or dead");
    }
    fn resume(&mut self, peer: Peer) {
        assert!(self.alive.contains(&peer) && self.paused.remove(&peer), "{peer:?} is not paused, or dead");
    }
    fn detach(&mut self, peer: Peer) {
        self.detaches.push_back(peer);
    }
    fn post(&mut self, _: WorkerId, message: Message, socket: Option<Peer>) {
        if let Some(peer) = socket {
            self.end(peer);
        }
        self.messages.push_back((message, socket));
    }
    fn start_tls(&mut self, _: Peer, _: Handshake) {
        panic!("no peer here has TLS");
    }
    fn help(&mut self, job: u64, _: Work) {
        self.jobs.push_back(job);
    }
    fn log(&mut self, _: Level, about: About<'_>, text: fmt::Arguments<'_>) {
        // A line that can't be formatted is a failure too.
        let _ = format!("{about}{text}");
    }
    fn adopt(&mut self, _: &Arc<Config>) {}
    fn accept(&mut self, _: bool) {}
    fn answer(&mut self, _: u64, _: Response) {}
    fn exit(&mut self, _: i32) {
        self.exited = true;
    }
}
