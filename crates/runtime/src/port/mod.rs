//! The runtime's half of `weir_engine::port`: carries out the engine's calls with sockets.
//!
//! Owns the worker's sockets and their state. During a turn the engine's calls are noted; [`Port::finish`] carries
//! them out: one gathered write for each peer, then closes, then detaches. Their results wait in `pending`, and each
//! is delivered in a turn of its own. Decides nothing.

mod accept;
mod closed;
mod closing;
mod connect;
mod connects;
mod pace;
mod paced;
mod pending;
mod ring;
mod ring_io;
mod tls;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::event::Event;
use mio::{Interest, Poll};
use weir_base::{Peer, Slab, Target, Time, WorkerId};
use weir_config::{Config, Keepalive};
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Io, Level, Response, Work};

use crate::helpers::HelperQueues;
use crate::listen::Listening;
use crate::mailbox::{Handoff, Inbox, WorkerMessage};
use crate::output::{Backlogs, Offer, Output, Touched, take};
use crate::shared::Shared;
use crate::slots::{NONE, Outgoing, Peers, Reader, Ready, Removed, Slot, Stage, Watch, token};
use crate::socket::Socket;
use crate::takeover::Given;
use crate::tls::{Tls, TlsState};
use closing::Closing;
pub(crate) use connects::Connects;
use pace::Pace;
pub(crate) use pending::PendingInput;
pub use ring_io::MakeRing;
pub(crate) use ring_io::{EPOLL, RING_SIZE, RingIo, peer_of};

/// The sockets of one worker, and their state.
pub(crate) struct Port {
    pub(crate) me: WorkerId,
    pub(crate) shared: Shared,
    pub(crate) poll: Poll,
    pub(crate) peers: Peers,
    pub(crate) output: Output,
    pub(crate) backlogs: Backlogs,
    /// The TLS state of encrypted peers.
    pub(crate) tls: Slab<Tls>,
    pub(crate) tls_state: TlsState,
    /// Inputs for the engine, in order.
    pub(crate) pending: VecDeque<PendingInput>,
    /// Peers to read without an event: their last read did not reach the end.
    pub(crate) runnable: VecDeque<Peer>,
    pub(crate) closing: Closing,
    /// The log must be written before this turn's output is sent.
    settles: bool,
    detaching: Vec<Peer>,
    /// Connects to repeat.
    pub(crate) later: BinaryHeap<Reverse<(Time, Peer)>>,
    pub(crate) ring_io: RingIo,
    pub(crate) pace: Pace,
    pub(crate) connects: Connects,
    pub(crate) asking: HelperQueues,
    pub(crate) inbox: Inbox,
    pub(crate) listening: Option<Listening>,
    /// The socket options of new sockets to servers.
    pub(crate) keepalive: Keepalive,
    pub(crate) now: Time,
}

impl Port {
    pub(crate) fn new(
        shared: Shared,
        poll: Poll,
        inbox: Inbox,
        listening: Option<Listening>,
        keepalive: Keepalive,
    ) -> Self {
        Port {
            me: inbox.me,
            asking: HelperQueues::new(inbox.me, shared.helpers.clone()),
            shared,
            poll,
            peers: Peers::new(),
            output: Output::default(),
            backlogs: Backlogs::default(),
            tls: Slab::default(),
            tls_state: TlsState::default(),
            pending: VecDeque::new(),
            runnable: VecDeque::new(),
            closing: Closing::new(inbox.mailboxes.workers()),
            settles: false,
            detaching: Vec::new(),
            later: BinaryHeap::new(),
            ring_io: RingIo::default(),
            pace: Pace::default(),
            connects: Connects::default(),
            inbox,
            listening,
            keepalive,
            now: Time::START,
        }
    }

    /// Carries out the engine's calls of the turn that ends. `input` is the turn's input. Called once a turn.
    #[inline]
    pub(crate) fn finish(&mut self, input: &[u8]) {
        if std::mem::take(&mut self.settles) {
            self.shared.log.settle();
        }
        if self.output.touched(0).is_some() {
            self.flush(input);
        }
        if !self.tls_state.asked.is_empty() {
            self.finish_securing();
        }
        if self.closing.is_asked() {
            self.finish_closing();
        }
        if !self.detaching.is_empty() {
            self.finish_detaching();
        }
    }

    #[inline]
    fn flush(&mut self, input: &[u8]) {
        let mut i = 0;
        while let Some(touched) = self.output.touched(i) {
            self.flush_peer(touched, input);
            i += 1;
        }
        self.output.clear();
    }

    #[inline]
    fn flush_peer(&mut self, touched: Touched, input: &[u8]) {
        let Some(slot) = self.peers.get(touched.peer) else { return };
        slot.touched = NONE;
        if slot.tls != NONE {
            let output = std::mem::take(&mut self.output);
            self.flush_sealed(touched.peer, output.unwritten(touched, input));
            self.output = output;
            return;
        }
        let open = slot.backlog == NONE && writes(slot);
        if open && self.ring_io.on {
            let rest = self.output.unwritten(touched, input);
            if self.ring_io.stage(touched.peer, slot, rest.pieces()) {
                return;
            }
        }
        let direct = open && slot.outgoing == Outgoing::Nothing;
        let rest = match (direct, slot.socket.as_mut()) {
            (true, Some(socket)) => match self.output.write(touched, input, socket) {
                Ok(rest) if rest.is_empty() => return,
                Ok(rest) => rest,
                Err(_) => return self.fail_peer(touched.peer),
            },
            _ => self.output.unwritten(touched, input),
        };
        if slot.ready == Ready::Broken || slot.stage == Stage::Detached {
            return;
        }
        let first = slot.backlog == NONE;
        let kept = self.backlogs.keep(slot, rest.pieces());
        self.kept(touched.peer, first, kept);
    }

    /// Writes bytes to a peer's socket, unencrypted, behind its backlog.
    pub(crate) fn deliver(&mut self, peer: Peer, mut bytes: &[u8]) {
        let Some(slot) = self.peers.get(peer) else { return };
        let first = slot.backlog == NONE;
        let open = first && writes(slot);
        if open && self.ring_io.on && self.ring_io.stage(peer, slot, std::iter::once(bytes)) {
            return;
        }
        if let (true, Outgoing::Nothing, Some(socket)) = (open, slot.outgoing, slot.socket.as_mut()) {
            match take(|| socket.write(bytes)) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(_) => return self.fail_peer(peer),
            }
        }
        if bytes.is_empty() || slot.ready == Ready::Broken || slot.stage == Stage::Detached {
            return;
        }
        let kept = self.backlogs.keep(slot, std::iter::once(bytes));
        self.kept(peer, first, kept);
    }

    /// A peer has a backlog: `first`: a new one; `kept`: it is within the limit.
    pub(crate) fn kept(&mut self, peer: Peer, first: bool, kept: bool) {
        if !kept {
            self.shared.log.line(Level::Error, format_args!("{peer:?}: too many bytes wait for one peer"));
            self.fail_peer(peer);
        } else if first {
            self.pending.push_back(PendingInput::Blocked(peer));
            self.watch(peer, Watch::Both);
        }
    }

    /// A write failed. Bytes that have arrived are still read; then the peer is closed.
    pub(crate) fn fail_peer(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        self.backlogs.drop(std::mem::replace(&mut slot.backlog, NONE));
        slot.ready = Ready::Broken;
        if slot.stage == Stage::Lingering {
            self.drop_peer(peer);
        } else {
            self.enqueue(peer);
        }
    }

    /// Queues a peer to be read without an event.
    pub(crate) fn enqueue(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        if !std::mem::replace(&mut slot.queued, true) {
            self.runnable.push_back(peer);
        }
    }

    fn finish_detaching(&mut self) {
        let mut asked = std::mem::take(&mut self.detaching);
        asked.drain(..).for_each(|peer| self.take_out(peer));
        self.detaching = asked;
    }

    /// Detaches a peer that is to leave, as soon as its backlog is empty.
    pub(crate) fn take_out(&mut self, peer: Peer) {
        let Some(slot) = self.peers.live(peer) else { return };
        if slot.stage != Stage::Detaching || slot.owes() || slot.ready == Ready::Broken {
            return;
        }
        match slot.reader {
            Reader::Ring | Reader::Leaving => return self.leave_ring(peer),
            Reader::Paced => slot.reader = Reader::Epoll,
            Reader::Epoll => {}
        }
        slot.stage = Stage::Detached;
        self.watch(peer, Watch::Nothing);
        self.pending.push_back(PendingInput::Detached(peer));
    }

    /// Writes a peer's backlog to its socket, which has room again.
    pub(crate) fn drain(&mut self, peer: Peer) {
        let Some(slot) = self.peers.get(peer) else { return };
        if slot.backlog == NONE || slot.outgoing != Outgoing::Nothing || !writes(slot) {
            return;
        }
        let stage = slot.stage;
        match self.backlogs.offer(slot) {
            Ok(Offer::Waits) => {
                self.watch(peer, Watch::Both);
                if stage == Stage::Lingering {
                    self.closing.note_taken(peer.slot);
                }
            }
            Ok(Offer::Drained) if stage == Stage::Lingering => self.note_progress(peer),
            Ok(Offer::Drained) => {
                self.watch(peer, Watch::Reads);
                self.pending.push_back(PendingInput::Drained(peer));
                self.take_out(peer);
            }
            Err(_) => self.fail_peer(peer),
        }
    }

    /// Sets what epoll watches a peer's socket for; bytes that the ring receives are left out.
    pub(crate) fn watch(&mut self, peer: Peer, watch: Watch) {
        let registry = self.poll.registry();
        let Some(slot) = self.peers.get(peer) else { return };
        let Some(socket) = slot.socket.as_mut() else { return };
        // A TCP socket that was full once stays watched for room: that costs nothing, as the kernel reports room only
        // after a refusal. A Unix socket would cause an event at each read of the other end.
        let stays = watch == Watch::Reads && slot.watch.has_room() && socket.is_tcp();
        let reads = matches!(watch, Watch::Reads | Watch::Both) && slot.reader == Reader::Epoll;
        let watch = Watch::of(reads, watch.has_room() || stays);
        if slot.watch == watch {
            return;
        }
        let result = match (slot.watch, interest(watch)) {
            (Watch::Nothing, Some(interest)) => socket.register(registry, token(peer), interest),
            (_, Some(interest)) => socket.reregister(registry, token(peer), interest),
            (_, None) => socket.deregister(registry),
        };
        slot.watch = watch;
        if let Err(error) = result {
            self.shared.log.line(Level::Error, format_args!("{peer:?}: could not be watched: {error}"));
            self.fail_peer(peer);
        }
    }

    /// Adds a new socket to the table and watches it for bytes.
    pub(crate) fn adopt(&mut self, socket: Socket) -> Peer {
        let peer = self.peers.insert(Some(socket), Stage::Open);
        self.begin_reading(peer);
        peer
    }

    /// A wait has ended: the worker handles what has come.
    #[inline]
    pub(crate) fn round_begins(&mut self) {
        self.now = self.shared.clock.now();
        self.shared.rounds.begins(self.me, self.now);
    }

    /// The worker is about to wait.
    #[inline]
    pub(crate) fn round_ends(&self) {
        self.shared.rounds.ends(self.me);
    }

    /// Adds a socket from another worker to the table, with its TLS session.
    pub(crate) fn adopt_handoff(&mut self, handoff: Handoff) -> Peer {
        let peer = self.adopt(handoff.socket);
        let Some(slot) = self.peers.get(peer) else { return peer };
        if !handoff.held.is_empty() {
            self.ring_io.hold(peer, slot, &handoff.held);
            self.enqueue(peer);
        }
        let (Some(tls), Some(slot)) = (handoff.tls, self.peers.get(peer)) else { return peer };
        let early = tls.has_early();
        slot.tls = self.tls.insert(tls);
        if early {
            // Bytes that are decrypted already cause no event.
            slot.ready = Ready::Bytes;
            self.enqueue(peer);
        }
        peer
    }

    /// Takes a detached socket out of the table, with its encryption.
    fn take_detached(&mut self, peer: Peer) -> Option<Handoff> {
        if self.peers.live(peer).is_some_and(|slot| slot.stage == Stage::Detached) {
            let Removed { socket, tls, .. } = self.peers.remove(peer)?;
            let held = self.ring_io.take_held(peer.slot);
            return Some(Handoff { socket: socket?, tls: self.tls.remove(tls), held });
        }
        self.shared.log.line(Level::Error, format_args!("{peer:?}: can't be posted, it is not detached"));
        None
    }

    /// Forgets a peer and closes its socket.
    pub(crate) fn drop_peer(&mut self, peer: Peer) {
        let Some(Removed { socket, backlog, tls, held, reader }) = self.peers.remove(peer) else { return };
        self.forget_ring_io(peer, reader, held);
        self.backlogs.drop(backlog);
        if tls != NONE {
            self.forget_tls(peer, tls);
        }
        self.connects.forget(peer);
        self.closing.forget(peer.slot);
        if socket.is_some_and(|socket| self.close_socket(socket)) {
            self.room();
        }
    }

    /// A descriptor is free: worker 0 may accept again.
    pub(crate) fn room(&mut self) {
        let starved = &self.shared.starved;
        if starved.load(Ordering::Relaxed) && starved.swap(false, Ordering::Relaxed) {
            self.inbox.mailboxes.send(WorkerId(0), WorkerMessage::Room);
        }
    }

    /// Notes an event of a socket; `true` if its bytes are to be read now.
    #[inline]
    pub(crate) fn note(&mut self, peer: Peer, event: &Event) -> bool {
        let Some(slot) = self.peers.get(peer) else { return false };
        if slot.stage == Stage::Connecting {
            return false;
        }
        let ended = event.is_read_closed() || event.is_error();
        let ready = if ended { Ready::Ending } else { Ready::Bytes };
        let is_news = slot.ready < ready;
        if ended || event.is_readable() {
            slot.ready = slot.ready.max(ready);
        }
        if slot.reads() {
            // A queued peer is read from the run queue.
            return slot.ready != Ready::Nothing && !slot.queued;
        }
        match slot.stage {
            Stage::Lingering if event.is_error() => self.drop_peer(peer),
            Stage::Lingering if slot.ready != Ready::Nothing => self.enqueue(peer),
            // An error is delivered to the engine also for a paused peer.
            Stage::Open | Stage::Detaching if event.is_error() => self.fail_peer(peer),
            // The end of its stream is delivered, too.
            Stage::Open if slot.ready == Ready::Ending && is_news => self.enqueue(peer),
            _ => {}
        }
        false
    }

    /// The slot of the peer that the engine names.
    #[inline]
    fn output_to(&mut self, peer: Peer) -> Option<(&mut Output, &mut Slot)> {
        Some((&mut self.output, self.peers.live(peer)?))
    }
}

/// Whether a peer's socket accepts bytes now.
#[inline]
fn writes(slot: &Slot) -> bool {
    matches!(slot.stage, Stage::Open | Stage::Detaching | Stage::Lingering) && slot.ready != Ready::Broken
}

fn interest(watch: Watch) -> Option<Interest> {
    match watch {
        Watch::Nothing => None,
        Watch::Reads => Some(Interest::READABLE),
        Watch::Room => Some(Interest::WRITABLE),
        Watch::Both => Some(Interest::READABLE | Interest::WRITABLE),
    }
}

impl Io for Port {
    #[inline]
    fn forward(&mut self, to: Peer, range: Range<usize>) {
        if let Some((output, slot)) = self.output_to(to) {
            output.forward(to, slot, range);
        }
    }

    #[inline]
    fn send(&mut self, to: Peer, bytes: &[u8]) {
        if let Some((output, slot)) = self.output_to(to) {
            output.send(to, slot, bytes);
        }
    }

    fn connect(&mut self, to: &Target) -> Peer {
        self.begin_connect(to)
    }

    fn look_up(&mut self, name: &Arc<str>) {
        self.ask_for(name.clone(), None);
    }

    fn close(&mut self, peer: Peer) {
        self.ask_close(peer, false);
    }

    fn close_after_error(&mut self, peer: Peer) {
        self.ask_close(peer, true);
    }

    #[inline]
    fn pause(&mut self, peer: Peer) {
        if let Some(slot) = self.peers.live(peer) {
            slot.paused = true;
        }
    }

    #[inline]
    fn resume(&mut self, peer: Peer) {
        let Some(slot) = self.peers.live(peer) else { return };
        slot.paused = false;
        if slot.ready != Ready::Nothing {
            self.enqueue(peer);
        }
    }

    fn detach(&mut self, peer: Peer) {
        let Some(slot) = self.peers.live(peer) else { return };
        if slot.stage == Stage::Open {
            slot.stage = Stage::Detaching;
            self.detaching.push(peer);
        }
    }

    fn post(&mut self, to: WorkerId, message: Message, socket: Option<Peer>) {
        let socket = socket.and_then(|peer| self.take_detached(peer));
        if !self.inbox.send(to, WorkerMessage::Message { from: self.me, message, socket }) {
            self.shared.log.line(Level::Error, format_args!("a message to worker {} was lost", to.0));
        }
    }

    fn help(&mut self, job: u64, work: Work) {
        self.asking.help(job, work);
    }

    fn logs(&self, level: Level) -> bool {
        self.shared.log.takes(level)
    }

    fn log(&mut self, level: Level, about: About<'_>, text: fmt::Arguments<'_>) {
        // A client that is refused, and a console whose command fails, must not know it before the log has the reason.
        let least = if matches!(about, About::Peer { .. }) { Level::Warning } else { Level::Error };
        self.settles |= level >= least;
        self.shared.log.about(level, about, text);
    }

    fn adopt(&mut self, config: &Arc<Config>) {
        if self.me == WorkerId(0) {
            self.shared.log.follow(&config.log);
            // Both RELOAD and HUP reopen the log's file, as in PgBouncer.
            self.shared.log.reopen();
        }
        self.keepalive = config.listen.keepalive;
        self.adopt_listening(&config.listen);
        self.shared.tls_contexts.adopt(config);
        self.connects.adopt(&config.dns);
    }

    fn start_tls(&mut self, peer: Peer, handshake: Handshake) {
        // Begun at the end of the turn, after its unencrypted output.
        self.tls_state.asked.push((peer, handshake));
    }

    fn accept(&mut self, on: bool) {
        match self.listening {
            Some(_) => self.set_accepting(on),
            None => drop(self.inbox.mailboxes.send(WorkerId(0), WorkerMessage::Accept(on))),
        }
    }

    fn answer(&mut self, number: u64, response: Response) {
        self.shared.control_queue.answer(number, response);
    }

    fn hand_over_begins(&mut self, answer: Result<u64, &'static str>) {
        self.shared.giver.send(Given::Begins(answer));
    }

    fn hand_over(&mut self, route: u64, value: Vec<u8>, socket: Option<Peer>) {
        let (from, named) = (self.me, socket.is_some());
        let socket = socket.and_then(|peer| self.take_detached(peer));
        if socket.is_some() == named {
            self.shared.giver.send(Given::Value { from, route, value, socket });
        }
    }

    fn hand_over_left(&mut self, left: usize) {
        self.shared.giver.send(Given::Left(left));
    }

    fn cancel_at_predecessor(&mut self, pid: u32, secret: &[u8]) {
        self.shared.inflow.cancel(pid, secret);
    }

    fn vacated(&mut self) {
        self.shared.ending.vacated().store(true, Ordering::Release);
    }

    fn exit(&mut self, status: i32) {
        self.shared.end(status);
    }
}
