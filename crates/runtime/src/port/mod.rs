//! The runtime's half of `weir_engine::port`: carries out the engine's calls with sockets.
//!
//! Owns the worker's sockets and their state. During a turn the engine's calls are noted; [`Port::finish`] carries
//! them out: one gathered write for each connection, then closes, then detaches. Their results wait in `pending`, and
//! each is delivered in a turn of its own. Decides nothing.

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
use weir_base::{ConnId, Slab, Target, Time, WorkerId};
use weir_config::{Config, Keepalive};
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Io, Level, Response, Work};

use crate::helpers::HelperQueues;
use crate::listen::Listening;
use crate::mailbox::{Handoff, Inbox, WorkerMessage};
use crate::output::{Backlogs, Offer, Output, Touched, take};
use crate::shared::Shared;
use crate::slots::{ConnSlots, NONE, Outgoing, Reader, Ready, Removed, Slot, Stage, Watch, token};
use crate::socket::Socket;
use crate::tls::{Tls, TlsState};
use crate::upgrade::ExportMessage;
use closing::Closing;
pub(crate) use connects::Connects;
use pace::Pace;
pub(crate) use pending::PendingInput;
pub use ring_io::MakeRing;
pub(crate) use ring_io::{EPOLL, RING_SIZE, RingIo, conn_of};

/// The sockets of one worker, and their state.
pub(crate) struct Port {
    pub(crate) me: WorkerId,
    pub(crate) shared: Shared,
    pub(crate) poll: Poll,
    pub(crate) conns: ConnSlots,
    pub(crate) output: Output,
    pub(crate) backlogs: Backlogs,
    /// The TLS state of encrypted connections.
    pub(crate) tls: Slab<Tls>,
    pub(crate) tls_state: TlsState,
    /// Inputs for the engine, in order.
    pub(crate) pending: VecDeque<PendingInput>,
    /// ConnSlots to read without an event: their last read did not reach the end.
    pub(crate) runnable: VecDeque<ConnId>,
    pub(crate) closing: Closing,
    /// The log must be written before this turn's output is sent.
    settles: bool,
    detaching: Vec<ConnId>,
    /// Connects to repeat.
    pub(crate) later: BinaryHeap<Reverse<(Time, ConnId)>>,
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
            conns: ConnSlots::new(),
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
            self.flush_conn(touched, input);
            i += 1;
        }
        self.output.clear();
    }

    #[inline]
    fn flush_conn(&mut self, touched: Touched, input: &[u8]) {
        let Some(slot) = self.conns.get(touched.conn) else { return };
        slot.touched = NONE;
        if slot.tls != NONE {
            let output = std::mem::take(&mut self.output);
            self.flush_sealed(touched.conn, output.unwritten(touched, input));
            self.output = output;
            return;
        }
        let open = slot.backlog == NONE && writes(slot);
        if open && self.ring_io.on {
            let rest = self.output.unwritten(touched, input);
            if self.ring_io.stage(touched.conn, slot, rest.pieces()) {
                return;
            }
        }
        let direct = open && slot.outgoing == Outgoing::Nothing;
        let rest = match (direct, slot.socket.as_mut()) {
            (true, Some(socket)) => match self.output.write(touched, input, socket) {
                Ok(rest) if rest.is_empty() => return,
                Ok(rest) => rest,
                Err(_) => return self.fail_conn(touched.conn),
            },
            _ => self.output.unwritten(touched, input),
        };
        if slot.ready == Ready::Broken || slot.stage == Stage::Detached {
            return;
        }
        let first = slot.backlog == NONE;
        let kept = self.backlogs.keep(slot, rest.pieces());
        self.kept(touched.conn, first, kept);
    }

    /// Writes bytes to a connection's socket, unencrypted, behind its backlog.
    pub(crate) fn deliver(&mut self, conn: ConnId, mut bytes: &[u8]) {
        let Some(slot) = self.conns.get(conn) else { return };
        let first = slot.backlog == NONE;
        let open = first && writes(slot);
        if open && self.ring_io.on && self.ring_io.stage(conn, slot, std::iter::once(bytes)) {
            return;
        }
        if let (true, Outgoing::Nothing, Some(socket)) = (open, slot.outgoing, slot.socket.as_mut()) {
            match take(|| socket.write(bytes)) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(_) => return self.fail_conn(conn),
            }
        }
        if bytes.is_empty() || slot.ready == Ready::Broken || slot.stage == Stage::Detached {
            return;
        }
        let kept = self.backlogs.keep(slot, std::iter::once(bytes));
        self.kept(conn, first, kept);
    }

    /// A connection has a backlog: `first`: a new one; `kept`: it is within the limit.
    pub(crate) fn kept(&mut self, conn: ConnId, first: bool, kept: bool) {
        if !kept {
            self.shared.log.line(Level::Error, format_args!("{conn:?}: too many bytes wait for one connection"));
            self.fail_conn(conn);
        } else if first {
            self.pending.push_back(PendingInput::Blocked(conn));
            self.watch(conn, Watch::Both);
        }
    }

    /// A write failed. Bytes that have arrived are still read; then the connection is closed.
    pub(crate) fn fail_conn(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        self.backlogs.drop(std::mem::replace(&mut slot.backlog, NONE));
        slot.ready = Ready::Broken;
        if slot.stage == Stage::Lingering {
            self.drop_conn(conn);
        } else {
            self.enqueue(conn);
        }
    }

    /// Queues a connection to be read without an event.
    pub(crate) fn enqueue(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        if !std::mem::replace(&mut slot.queued, true) {
            self.runnable.push_back(conn);
        }
    }

    fn finish_detaching(&mut self) {
        let mut asked = std::mem::take(&mut self.detaching);
        asked.drain(..).for_each(|conn| self.take_out(conn));
        self.detaching = asked;
    }

    /// Detaches a connection that is to leave, as soon as its backlog is empty.
    pub(crate) fn take_out(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.live(conn) else { return };
        if slot.stage != Stage::Detaching || slot.owes() || slot.ready == Ready::Broken {
            return;
        }
        match slot.reader {
            Reader::Ring | Reader::Leaving => return self.leave_ring(conn),
            Reader::Paced => slot.reader = Reader::Epoll,
            Reader::Epoll => {}
        }
        slot.stage = Stage::Detached;
        self.watch(conn, Watch::Nothing);
        self.pending.push_back(PendingInput::Detached(conn));
    }

    /// Writes a connection's backlog to its socket, which has room again.
    pub(crate) fn drain(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.get(conn) else { return };
        if slot.backlog == NONE || slot.outgoing != Outgoing::Nothing || !writes(slot) {
            return;
        }
        let stage = slot.stage;
        match self.backlogs.offer(slot) {
            Ok(Offer::Waits) => {
                self.watch(conn, Watch::Both);
                if stage == Stage::Lingering {
                    self.closing.note_taken(conn.slot);
                }
            }
            Ok(Offer::Drained) if stage == Stage::Lingering => self.note_progress(conn),
            Ok(Offer::Drained) => {
                self.watch(conn, Watch::Reads);
                self.pending.push_back(PendingInput::Drained(conn));
                self.take_out(conn);
            }
            Err(_) => self.fail_conn(conn),
        }
    }

    /// Sets what epoll watches a connection's socket for; bytes that the ring receives are left out.
    pub(crate) fn watch(&mut self, conn: ConnId, watch: Watch) {
        let registry = self.poll.registry();
        let Some(slot) = self.conns.get(conn) else { return };
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
            (Watch::Nothing, Some(interest)) => socket.register(registry, token(conn), interest),
            (_, Some(interest)) => socket.reregister(registry, token(conn), interest),
            (_, None) => socket.deregister(registry),
        };
        slot.watch = watch;
        if let Err(error) = result {
            self.shared.log.line(Level::Error, format_args!("{conn:?}: could not be watched: {error}"));
            self.fail_conn(conn);
        }
    }

    /// Adds a new socket to the table and watches it for bytes.
    pub(crate) fn add_socket(&mut self, socket: Socket) -> ConnId {
        let conn = self.conns.insert(Some(socket), Stage::Open);
        self.begin_reading(conn);
        conn
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
    pub(crate) fn add_handoff(&mut self, handoff: Handoff) -> ConnId {
        let conn = self.add_socket(handoff.socket);
        let Some(slot) = self.conns.get(conn) else { return conn };
        if !handoff.held.is_empty() {
            self.ring_io.hold(conn, slot, &handoff.held);
            self.enqueue(conn);
        }
        let (Some(tls), Some(slot)) = (handoff.tls, self.conns.get(conn)) else { return conn };
        let early = tls.has_early();
        slot.tls = self.tls.insert(tls);
        if early {
            // Bytes that are decrypted already cause no event.
            slot.ready = Ready::Bytes;
            self.enqueue(conn);
        }
        conn
    }

    /// Takes a detached socket out of the table, with its encryption.
    fn take_detached(&mut self, conn: ConnId) -> Option<Handoff> {
        if self.conns.live(conn).is_some_and(|slot| slot.stage == Stage::Detached) {
            let Removed { socket, tls, .. } = self.conns.remove(conn)?;
            let held = self.ring_io.take_held(conn.slot);
            return Some(Handoff { socket: socket?, tls: self.tls.remove(tls), held });
        }
        self.shared.log.line(Level::Error, format_args!("{conn:?}: can't be posted, it is not detached"));
        None
    }

    /// Forgets a connection and closes its socket.
    pub(crate) fn drop_conn(&mut self, conn: ConnId) {
        let Some(Removed { socket, backlog, tls, held, reader }) = self.conns.remove(conn) else { return };
        self.forget_ring_io(conn, reader, held);
        self.backlogs.drop(backlog);
        if tls != NONE {
            self.forget_tls(conn, tls);
        }
        self.connects.forget(conn);
        self.closing.forget(conn.slot);
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
    pub(crate) fn note(&mut self, conn: ConnId, event: &Event) -> bool {
        let Some(slot) = self.conns.get(conn) else { return false };
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
            // A queued connection is read from the run queue.
            return slot.ready != Ready::Nothing && !slot.queued;
        }
        match slot.stage {
            Stage::Lingering if event.is_error() => self.drop_conn(conn),
            Stage::Lingering if slot.ready != Ready::Nothing => self.enqueue(conn),
            // An error is delivered to the engine also for a paused connection.
            Stage::Open | Stage::Detaching if event.is_error() => self.fail_conn(conn),
            // The end of its stream is delivered, too.
            Stage::Open if slot.ready == Ready::Ending && is_news => self.enqueue(conn),
            _ => {}
        }
        false
    }

    /// The slot of the connection that the engine names.
    #[inline]
    fn output_to(&mut self, conn: ConnId) -> Option<(&mut Output, &mut Slot)> {
        Some((&mut self.output, self.conns.live(conn)?))
    }
}

/// Whether a connection's socket accepts bytes now.
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
    fn forward(&mut self, to: ConnId, range: Range<usize>) {
        if let Some((output, slot)) = self.output_to(to) {
            output.forward(to, slot, range);
        }
    }

    #[inline]
    fn send(&mut self, to: ConnId, bytes: &[u8]) {
        if let Some((output, slot)) = self.output_to(to) {
            output.send(to, slot, bytes);
        }
    }

    fn connect(&mut self, to: &Target) -> ConnId {
        self.begin_connect(to)
    }

    fn look_up(&mut self, name: &Arc<str>) {
        self.ask_for(name.clone(), None);
    }

    fn close(&mut self, conn: ConnId) {
        self.ask_close(conn, false);
    }

    fn close_after_error(&mut self, conn: ConnId) {
        self.ask_close(conn, true);
    }

    #[inline]
    fn pause(&mut self, conn: ConnId) {
        if let Some(slot) = self.conns.live(conn) {
            slot.paused = true;
        }
    }

    #[inline]
    fn resume(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.live(conn) else { return };
        slot.paused = false;
        if slot.ready != Ready::Nothing {
            self.enqueue(conn);
        }
    }

    fn detach(&mut self, conn: ConnId) {
        let Some(slot) = self.conns.live(conn) else { return };
        if slot.stage == Stage::Open {
            slot.stage = Stage::Detaching;
            self.detaching.push(conn);
        }
    }

    fn post(&mut self, to: WorkerId, message: Message, socket: Option<ConnId>) {
        let socket = socket.and_then(|conn| self.take_detached(conn));
        if !self.inbox.send(to, WorkerMessage::Message { from: self.me, message, socket }) {
            self.shared.log.line(Level::Error, format_args!("a message to worker {} was lost", to.0));
        }
    }

    fn submit_job(&mut self, job: u64, work: Work) {
        self.asking.submit_job(job, work);
    }

    fn logs(&self, level: Level) -> bool {
        self.shared.log.takes(level)
    }

    fn log(&mut self, level: Level, about: About<'_>, text: fmt::Arguments<'_>) {
        // A client that is refused, and a console whose command fails, must not know it before the log has the reason.
        let least = if matches!(about, About::Connection { .. }) { Level::Warning } else { Level::Error };
        self.settles |= level >= least;
        self.shared.log.about(level, about, text);
    }

    fn apply_config(&mut self, config: &Arc<Config>) {
        if self.me == WorkerId(0) {
            self.shared.log.follow(&config.log);
            // Both RELOAD and HUP reopen the log's file, as in PgBouncer.
            self.shared.log.reopen();
        }
        self.keepalive = config.listen.keepalive;
        self.apply_listen(&config.listen);
        self.shared.tls_contexts.apply_config(config);
        self.connects.apply_config(&config.dns);
    }

    fn start_tls(&mut self, conn: ConnId, handshake: Handshake) {
        // Begun at the end of the turn, after its unencrypted output.
        self.tls_state.asked.push((conn, handshake));
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

    fn upgrade_prepared(&mut self, answer: Result<u64, &'static str>) {
        self.shared.exports.send(ExportMessage::Begins(answer));
    }

    fn export(&mut self, route: u64, value: Vec<u8>, socket: Option<ConnId>) {
        let (from, named) = (self.me, socket.is_some());
        let socket = socket.and_then(|conn| self.take_detached(conn));
        if socket.is_some() == named {
            self.shared.exports.send(ExportMessage::Value { from, route, value, socket });
        }
    }

    fn exports_left(&mut self, left: usize) {
        self.shared.exports.send(ExportMessage::Left(left));
    }

    fn cancel_at_old_process(&mut self, pid: u32, secret: &[u8]) {
        self.shared.old_process_link.cancel(pid, secret);
    }

    fn shared_servers_ended(&mut self) {
        self.shared.ending.shared_servers_ended().store(true, Ordering::Release);
    }

    fn exit(&mut self, status: i32) {
        self.shared.end(status);
    }
}
