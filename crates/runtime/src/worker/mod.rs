//! A worker: one thread, one epoll, one handler, and if available one io_uring.
//!
//! The loop: wait for events or the next deadline; read each ready socket once into the worker's scratch buffer and
//! pass the bytes to the handler; read again the sockets whose last read filled the buffer; handle messages, accept
//! clients, run timers. Each of these is bounded a round, so none starves the others. Invariants: in steady state a
//! round allocates nothing, and a turn costs one read and one write; a deadline is handled only after all input that
//! had arrived by then, also after the process was stopped for a while.
//!
//! With a ring the loop waits there, and epoll is one of the descriptors that the ring watches (see `ring_io`).
//! Sockets are read only after all completions have been handled: so bytes stay in order.

mod deliver;
mod tls;

pub(crate) use deliver::Worker;

use std::cmp::Reverse;
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::time::Duration;

use mio::Events;
use mio::event::Event;
use rustix::event::{PollFd, PollFlags, Timespec};
use weir_base::{ClientAddr, ConnId, Time};
use weir_engine::port::{Gone, Input, Level};
use weir_uring::{Completion, Key, Ring};

use crate::clock::WallWatch;
use crate::handler::Handler;
use crate::listen::Listening;
use crate::load::Load;
use crate::mailbox::WorkerMessage;
use crate::port::{self, EPOLL, MakeRing, Port, RING_SIZE};
use crate::shared::Ending;
use crate::slots::{NONE, Ready, Stage, WAKER, conn_of};

/// Bytes of one read: a worker's scratch buffer. Large enough that a bulk transfer spends its time in the kernel.
pub(crate) const SCRATCH: usize = 64 * 1024;
/// Events of one epoll call.
const EVENTS: usize = 256;
/// The clock is read again after this many events.
const CLOCK_EVERY: usize = 32;
/// Rounds in a row with more events than one call returns, after which deadlines are handled nevertheless.
const UNHEARD: u32 = 64;
/// Clients accepted in a round.
const ACCEPTS: usize = 64;
/// Messages handled in a round.
const MESSAGES: usize = 64;

impl<B: Handler> Worker<B> {
    pub(crate) fn new(handler: B, port: Port, ring: Option<MakeRing>) -> Self {
        let load = Load::new(port.inbox.mailboxes.workers() == 1, port.now);
        let wall = WallWatch::new(&port.shared.clock);
        Worker { handler, scratch: vec![0; SCRATCH].into(), plain: Vec::new(), port, load, wall, ring }
    }

    /// How all workers are ended.
    pub(crate) fn ending(&self) -> Ending {
        self.port.shared.ending.clone()
    }

    /// Serves until the process ends; calls `begun` when the worker is ready.
    pub(crate) fn run(mut self, begun: impl FnOnce()) {
        self.serve(begun);
        self.port.close_last(&mut self.scratch);
    }

    fn serve(&mut self, begun: impl FnOnce()) {
        let Some(make_ring) = self.ring else {
            begun();
            return self.run_by_epoll();
        };
        // A ring belongs to the thread that made it.
        match make_ring(RING_SIZE) {
            Ok(mut ring) => {
                self.port.ring_io.begin();
                begun();
                if let Err(error) = self.run_by_ring(&mut ring) {
                    self.port.shared.log.line(Level::Error, format_args!("waiting for events failed: {error}"));
                    self.port.shared.end(1);
                }
            }
            Err(refused) => {
                let text = format_args!("this worker uses epoll: {refused}");
                self.port.shared.log.line(Level::Warning, text);
                begun();
                self.run_by_epoll();
            }
        }
    }

    fn run_by_ring(&mut self, ring: &mut Ring) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS);
        let mut unheard = 0;
        let (mut watching, mut more) = (false, false);
        while self.port.shared.ending.status().is_none() {
            if !watching && ring.room()? > 0 {
                ring.watch(self.port.poll.registry().as_fd(), Key::new(EPOLL))?;
                watching = true;
            }
            self.port.submit_wishes(ring)?;
            let asked = self.port.now;
            let wait = if more { Some(Duration::ZERO) } else { self.wait() };
            self.port.round_ends();
            ring.wait(wait)?;
            self.port.note_unsubmitted(ring.has_unsubmitted());
            self.port.round_begins();
            let mut others = more | self.tell_completed(ring, &mut watching);
            while ring.is_behind() {
                ring.wait(Some(Duration::ZERO))?;
                self.port.note_unsubmitted(ring.has_unsubmitted());
                others |= self.tell_completed(ring, &mut watching);
            }
            events.clear();
            if others {
                match self.port.poll.poll(&mut events, Some(Duration::ZERO)) {
                    Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                    _ => {}
                }
            }
            self.round(&events);
            more = events.iter().count() == EVENTS;
            unheard = if more || ring.has_more() { unheard + 1 } else { 0 };
            if unheard % UNHEARD == 0 {
                self.keep_deadlines(asked);
            }
            self.tell_load();
        }
        self.send_last(ring)
    }

    /// Sends the output of the last turns before the process ends, as long as the kernel accepts it.
    fn send_last(&mut self, ring: &mut Ring) -> io::Result<()> {
        while self.port.ring_io.unsent() > 0 || ring.has_unsubmitted() {
            self.port.submit_wishes(ring)?;
            ring.submit()?;
            if ring.has_unsubmitted() {
                break;
            }
        }
        ring.wait(Some(Duration::ZERO))?;
        while let Some(completion) = ring.next() {
            if let Completion::Sent { key, bytes, taken } = completion {
                self.port.sent(port::conn_of(key), bytes, taken);
            }
        }
        Ok(())
    }

    /// Handles all completions of a wait. Returns whether epoll has events, too.
    fn tell_completed(&mut self, ring: &mut Ring, watching: &mut bool) -> bool {
        let (mut others, mut inputs) = (false, 0);
        while let Some(completion) = ring.next() {
            inputs += 1;
            if inputs % CLOCK_EVERY == 0 {
                self.port.now = self.port.shared.clock.now();
            }
            if let Completion::Readable { more, .. } = completion {
                (others, *watching) = (true, more);
            } else {
                self.completed(completion);
            }
        }
        others
    }

    #[inline]
    fn completed(&mut self, completion: Completion<'_>) {
        match completion {
            Completion::Received { key, bytes, more } => {
                let conn = port::conn_of(key);
                self.receive(conn, bytes);
                if !more {
                    self.port.receive_stopped(conn);
                }
            }
            Completion::Sent { key, bytes, taken } => self.port.sent(port::conn_of(key), bytes, taken),
            Completion::ReceiveEnded { key, ended } => self.port.receive_ended(port::conn_of(key), &ended),
            // No request of this kind is made.
            Completion::Accepted { .. } | Completion::AcceptEnded { .. } | Completion::Readable { .. } => {}
        }
        self.deliver_pending();
    }

    /// Handles bytes that were received ahead; stores them if the connection is paused.
    #[inline]
    fn receive(&mut self, conn: ConnId, bytes: &[u8]) {
        let Worker { handler, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        if !slot.reads() || slot.held {
            return port.hold(conn, bytes);
        }
        if slot.tls == NONE {
            handler.handle(port.now, Input::Bytes { conn, bytes }, port);
            port.finish(bytes);
        } else {
            self.receive_sealed(conn, bytes);
        }
        self.port.note_length(conn, bytes.len());
    }

    fn run_by_epoll(&mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut unheard = 0;
        while self.port.shared.ending.status().is_none() {
            let wait = self.wait();
            // All input up to now is in the events, unless there are too many of them.
            let asked = self.port.now;
            self.port.round_ends();
            if let Err(error) = self.poll(&mut events, wait) {
                if error.kind() == ErrorKind::Interrupted {
                    continue;
                }
                self.port.shared.log.line(Level::Error, format_args!("waiting for events failed: {error}"));
                return self.port.shared.end(1);
            }
            self.port.round_begins();
            self.round(&events);
            unheard = if events.iter().count() == EVENTS { unheard + 1 } else { 0 };
            if unheard % UNHEARD == 0 {
                self.keep_deadlines(asked);
            }
            self.tell_load();
        }
    }

    /// Waits for events. mio waits for whole milliseconds, so where sockets are read at intervals, this does.
    #[inline]
    fn poll(&mut self, events: &mut Events, wait: Option<Duration>) -> io::Result<()> {
        let Some(precise) = wait.filter(|wait| self.port.pace.is_on() && !wait.is_zero()) else {
            return self.port.poll.poll(events, wait);
        };
        let time = Timespec::try_from(precise).map_err(io::Error::other)?;
        rustix::event::poll(&mut [PollFd::new(&self.port.poll.registry().as_fd(), PollFlags::IN)], Some(&time))?;
        self.port.poll.poll(events, Some(Duration::ZERO))
    }

    fn round(&mut self, events: &Events) {
        for (i, event) in events.iter().enumerate() {
            if i % CLOCK_EVERY == CLOCK_EVERY - 1 {
                self.port.now = self.port.shared.clock.now();
            }
            self.event(event);
        }
        if self.port.pace.is_on() {
            self.port.read_paced();
        }
        self.read_again();
        if self.port.inbox.waits() {
            self.handle_messages();
        }
        if self.port.listening.is_some() {
            self.accept();
        }
    }

    /// How long to wait for events.
    fn wait(&self) -> Option<Duration> {
        let port = &self.port;
        if !port.runnable.is_empty() || port.inbox.waits() || port.ring_io.unsent() > 0 {
            return Some(Duration::ZERO);
        }
        let mut until = self.handler.next_deadline().min(port.closing.deadline());
        if let Some(Reverse((due, _))) = port.later.peek() {
            until = until.min(*due);
        }
        if let Some(listening) = &port.listening {
            until = until.min(listening.deadline());
        }
        until = until.min(self.load.deadline()).min(port.pace.due());
        (until != Time::NEVER).then(|| Duration::from_micros(until.since(port.now).micros()))
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        let Some(conn) = conn_of(event.token()) else {
            return match (event.token(), &mut self.port.listening) {
                (WAKER, _) => self.port.inbox.ring(),
                (token, Some(listening)) => listening.event(token),
                _ => {}
            };
        };
        if event.is_writable() || event.is_error() {
            self.writable(conn);
        }
        if self.port.note(conn, event) {
            self.read(conn);
        }
    }

    /// A socket has room, or a connect has ended.
    #[inline]
    fn writable(&mut self, conn: ConnId) {
        let Some(slot) = self.port.conns.get(conn) else { return };
        if slot.stage == Stage::Connecting {
            self.port.connect_progress(conn);
        } else if slot.backlog != NONE {
            self.port.drain(conn);
        } else {
            return;
        }
        self.deliver_pending();
    }

    /// Reads a connection once, and passes the bytes to the handler.
    #[inline]
    fn read(&mut self, conn: ConnId) {
        let Worker { handler, scratch, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        if slot.tls != NONE {
            return self.read_sealed(conn);
        }
        if slot.held {
            return self.read_held(conn);
        }
        let Some(socket) = slot.socket.as_mut() else { return };
        match socket.read(scratch) {
            Ok(0) => self.ended(conn),
            Ok(length) => {
                // A short read has emptied the socket, unless its end is known to follow.
                let again = length == scratch.len() || slot.ready > Ready::Bytes;
                if !again {
                    slot.ready = Ready::Nothing;
                }
                let bytes = &scratch[..length];
                handler.handle(port.now, Input::Bytes { conn, bytes }, port);
                port.finish(bytes);
                if again {
                    port.enqueue(conn);
                } else {
                    port.emptied(conn, length);
                }
                self.deliver_pending();
            }
            Err(error) => self.read_failed(conn, &error),
        }
    }

    /// Passes stored bytes of a connection to the handler.
    fn read_held(&mut self, conn: ConnId) {
        let Worker { handler, scratch, port, .. } = self;
        let Some(slot) = port.conns.get(conn) else { return };
        let bytes = scratch;
        let length = port.ring_io.portion(conn, slot, bytes);
        if !slot.has_more_than_held() {
            slot.ready = Ready::Nothing;
        }
        let again = slot.ready != Ready::Nothing;
        if length > 0 {
            let bytes = &bytes[..length];
            handler.handle(port.now, Input::Bytes { conn, bytes }, port);
            port.finish(bytes);
        }
        if again {
            port.enqueue(conn);
        }
        self.deliver_pending();
    }

    /// Reads the connections whose last read did not reach the end, each once.
    fn read_again(&mut self) {
        for _ in 0..self.port.runnable.len() {
            let Some(conn) = self.port.runnable.pop_front() else { return };
            let Some(slot) = self.port.conns.get(conn) else { continue };
            slot.queued = false;
            if slot.reads() && slot.ready != Ready::Nothing {
                self.read(conn);
            } else if slot.stage == Stage::Lingering {
                self.port.read_closed(conn, &mut self.scratch);
            } else if slot.ready == Ready::Broken {
                self.gone(conn, Gone::Error);
            } else if slot.ready == Ready::Ending && slot.stage == Stage::Open {
                self.turn(Input::Ending { conn });
            }
        }
    }

    /// Handles what the worker has sent itself before this round, and messages of others.
    fn handle_messages(&mut self) {
        for _ in 0..self.port.inbox.own().min(MESSAGES) {
            let Some(message) = self.port.inbox.next_own() else { break };
            self.handle_message(message);
        }
        for _ in 0..MESSAGES {
            let Some(message) = self.port.inbox.next() else { return };
            if matches!(message, WorkerMessage::End) {
                return;
            }
            self.handle_message(message);
        }
    }

    fn handle_message(&mut self, message: WorkerMessage) {
        match message {
            WorkerMessage::Message { from, message, socket } => {
                let socket = socket.map(|handoff| self.port.add_handoff(handoff));
                self.turn(Input::Message { from, message, socket });
            }
            WorkerMessage::JobDone { kind, job, result } => {
                self.port.asking.job_done(kind);
                self.turn(Input::JobDone { job, result });
            }
            WorkerMessage::Found(found) => {
                self.port.found(found);
                self.deliver_pending();
            }
            WorkerMessage::Stepped { conn, step, outcome } => {
                self.port.stepped(conn, step, outcome);
                self.deliver_pending();
            }
            WorkerMessage::ControlRequest { number, request } => self.turn(Input::ControlRequest { number, request }),
            WorkerMessage::ControlRequestDropped { number } => self.turn(Input::ControlRequestDropped { number }),
            WorkerMessage::Signal(signal) => self.turn(Input::Signal(signal)),
            WorkerMessage::Accept(on) => self.port.set_accepting(on),
            WorkerMessage::Upgrade(step) => self.turn(Input::Upgrade(step)),
            WorkerMessage::OldProcess(step) => self.turn(Input::OldProcess(step)),
            WorkerMessage::CancelRequest { pid, secret } => self.turn(Input::CancelRequest { pid, secret: &secret }),
            WorkerMessage::Imported { value, socket } => {
                let socket = socket.map(|handoff| self.port.add_handoff(handoff));
                self.turn(Input::Imported { value: &value, socket });
            }
            WorkerMessage::OfferListeners => self.port.offer_listeners(),
            WorkerMessage::Listen(on) => self.port.listen(on),
            WorkerMessage::Room => self.port.end_rest(),
            WorkerMessage::End => {}
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let Some((conn, from)) = self.port.accept_one() else { return };
            let has_sent =
                matches!(from, ClientAddr::Tcp(_)) && self.port.listening.as_ref().is_some_and(Listening::defers);
            self.turn(Input::Accepted { conn, from });
            if has_sent {
                self.read_first(conn);
            }
        }
    }

    /// Reads what a client has sent before it was accepted, which needs no event. The ring's receive, if there will be
    /// one, is not submitted yet.
    fn read_first(&mut self, conn: ConnId) {
        if self.port.conns.get(conn).is_some_and(|slot| slot.reads() && !slot.queued) {
            self.read(conn);
        }
    }

    #[inline]
    fn tell_load(&mut self) {
        if let Some(percent) = self.load.changed(self.port.now) {
            self.turn(Input::Load(percent));
        }
        if let Some(wall_at_start) = self.wall.changed(self.port.now) {
            self.turn(Input::ClockSet(wall_at_start));
        }
    }

    /// Handles deadlines up to now, if one had passed when the events were `asked` for. One that passed since waits
    /// for the next round, which comes at once.
    fn keep_deadlines(&mut self, asked: Time) {
        let now = self.port.now;
        while let Some(Reverse((due, conn))) = self.port.later.peek().copied() {
            if due > now {
                break;
            }
            self.port.later.pop();
            self.port.try_connect(conn, None);
            self.deliver_pending();
        }
        self.port.close_due();
        if self.handler.next_deadline() <= asked {
            self.turn(Input::Tick);
        }
    }
}
