//! A worker: one thread, one epoll, one brain.
//!
//! The loop: wait for events or the next deadline; read each ready socket once into the worker's scratch buffer and let
//! the brain handle it; go round the sockets whose last read filled the buffer; open letters, accept clients, keep
//! deadlines. Each of these is bounded a round, so none starves the others. Invariants: in steady state a round allocates
//! nothing, and a turn costs one read and one write; a deadline is kept only after what had come by then was heard, also
//! when the process stood still over it.

use std::cmp::Reverse;
use std::io::{Error, ErrorKind};
use std::time::Duration;

use mio::Events;
use mio::event::Event;
use weir_base::{Peer, Time};
use weir_engine::port::{Gone, Input, Level};

use crate::brain::Brain;
use crate::load::Load;
use crate::mailbox::{BELL, Letter};
use crate::port::{Due, Notice, Port};
use crate::shared::Ending;
use crate::slots::{NONE, Ready, Stage, peer_of};

/// Bytes of one read: the buffer of a worker. Large enough that a bulk transfer spends its time in the kernel.
pub(crate) const SCRATCH: usize = 64 * 1024;
/// Events of one call to epoll.
const EVENTS: usize = 256;
/// After so many events the clock is read again.
const CLOCK_EVERY: usize = 32;
/// Rounds in a row whose events were too many for one call, before deadlines are kept without having heard them all.
const UNHEARD: u32 = 64;
/// Clients accepted a round.
const ACCEPTS: usize = 64;
/// Letters opened a round.
const LETTERS: usize = 64;

/// One worker.
pub(crate) struct Worker<B> {
    pub(crate) brain: B,
    pub(crate) scratch: Box<[u8]>,
    /// Decrypted bytes of a turn; without memory as long as nobody is encrypted.
    pub(crate) plain: Vec<u8>,
    pub(crate) port: Port,
    load: Load,
}

impl<B: Brain> Worker<B> {
    pub(crate) fn new(brain: B, port: Port) -> Self {
        let load = Load::new(port.inbox.post.workers() == 1, port.now);
        Worker { brain, scratch: vec![0; SCRATCH].into(), plain: Vec::new(), port, load }
    }

    /// How all workers are ended.
    pub(crate) fn ending(&self) -> Ending {
        self.port.shared.ending.clone()
    }

    /// Serves until the process ends.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut unheard = 0;
        while self.port.shared.ending.status().is_none() {
            let wait = self.wait();
            // What had come by now is in the events, unless there are too many of them.
            let asked = self.port.now;
            if let Err(error) = self.port.poll.poll(&mut events, wait) {
                if error.kind() == ErrorKind::Interrupted {
                    continue;
                }
                self.port.shared.log.line(Level::Error, format_args!("waiting for events failed: {error}"));
                return self.port.shared.end(1);
            }
            self.port.now = self.port.shared.clock.now();
            self.round(&events);
            unheard = if events.iter().count() == EVENTS { unheard + 1 } else { 0 };
            if unheard % UNHEARD == 0 {
                self.keep_deadlines(asked);
            }
            if let Some(percent) = self.load.changed(self.port.now) {
                self.turn(Input::Load(percent));
            }
        }
    }

    fn round(&mut self, events: &Events) {
        for (i, event) in events.iter().enumerate() {
            if i % CLOCK_EVERY == CLOCK_EVERY - 1 {
                self.port.now = self.port.shared.clock.now();
            }
            self.event(event);
        }
        self.read_again();
        if self.port.inbox.waits() {
            self.open_letters();
        }
        if self.port.listening.is_some() {
            self.accept();
        }
    }

    /// How long to wait for events.
    fn wait(&self) -> Option<Duration> {
        let port = &self.port;
        if !port.runnable.is_empty() || port.inbox.waits() {
            return Some(Duration::ZERO);
        }
        let mut until = self.brain.next_deadline();
        if let Some(Reverse((due, ..))) = port.later.peek() {
            until = until.min(*due);
        }
        if let Some(listening) = &port.listening {
            until = until.min(listening.deadline());
        }
        until = until.min(self.load.deadline());
        (until != Time::NEVER).then(|| Duration::from_micros(until.since(port.now).micros()))
    }

    #[inline]
    fn event(&mut self, event: &Event) {
        let Some(peer) = peer_of(event.token()) else {
            return match (event.token(), &mut self.port.listening) {
                (BELL, _) => self.port.inbox.ring(),
                (token, Some(listening)) => listening.event(token),
                _ => {}
            };
        };
        if event.is_writable() || event.is_error() {
            self.writable(peer);
        }
        if self.port.note(peer, event) {
            self.read(peer);
        }
    }

    /// A socket has room, or a connect has ended.
    #[inline]
    fn writable(&mut self, peer: Peer) {
        let Some(slot) = self.port.peers.get(peer) else { return };
        if slot.stage == Stage::Connecting {
            self.port.connect_progress(peer);
        } else if slot.backlog != NONE {
            self.port.drain(peer);
        } else {
            return;
        }
        self.tell_notices();
    }

    /// Reads a peer once, and has the brain handle what came.
    #[inline]
    fn read(&mut self, peer: Peer) {
        let Worker { brain, scratch, port, .. } = self;
        let Some(slot) = port.peers.get(peer) else { return };
        if slot.tls != NONE {
            return self.read_sealed(peer);
        }
        let Some(socket) = slot.socket.as_mut() else { return };
        match socket.read(scratch) {
            Ok(0) => self.gone(peer, Gone::Eof),
            Ok(length) => {
                // Less than was asked for is all there is, unless the end is known to follow.
                let again = length == scratch.len() || slot.ready > Ready::Bytes;
                if !again {
                    slot.ready = Ready::Nothing;
                }
                let bytes = &scratch[..length];
                brain.handle(port.now, Input::Bytes { peer, bytes }, port);
                port.finish(bytes);
                if again {
                    port.enqueue(peer);
                }
                self.tell_notices();
            }
            Err(error) => self.read_failed(peer, &error),
        }
    }

    /// A read gave no bytes: there are none for now, or the peer is gone.
    pub(crate) fn read_failed(&mut self, peer: Peer, error: &Error) {
        let Some(slot) = self.port.peers.get(peer) else { return };
        match error.kind() {
            ErrorKind::WouldBlock if slot.ready == Ready::Broken => self.gone(peer, Gone::Error),
            ErrorKind::WouldBlock => slot.ready = Ready::Nothing,
            ErrorKind::Interrupted => self.port.enqueue(peer),
            _ => self.gone(peer, Gone::Error),
        }
    }

    /// Reads the peers whose last read did not reach the end; each once.
    fn read_again(&mut self) {
        for _ in 0..self.port.runnable.len() {
            let Some(peer) = self.port.runnable.pop_front() else { return };
            let Some(slot) = self.port.peers.get(peer) else { continue };
            slot.queued = false;
            if slot.reads() && slot.ready != Ready::Nothing {
                self.read(peer);
            } else if slot.ready == Ready::Broken {
                self.gone(peer, Gone::Error);
            } else if slot.ready == Ready::Ending && slot.stage == Stage::Open {
                self.turn(Input::Ending { peer });
            }
        }
    }

    pub(crate) fn gone(&mut self, peer: Peer, cause: Gone) {
        let Some(slot) = self.port.peers.get(peer) else { return };
        let cause = if slot.ready == Ready::Broken { Gone::Error } else { cause };
        self.port.notices.push_back(Notice::Closed(peer, cause));
        self.tell_notices();
    }

    /// One turn about something else than bytes.
    fn turn(&mut self, input: Input<'_>) {
        self.brain.handle(self.port.now, input, &mut self.port);
        self.port.finish(&[]);
        self.tell_notices();
    }

    #[inline]
    pub(crate) fn tell_notices(&mut self) {
        while let Some(notice) = self.port.notices.pop_front() {
            self.tell(notice);
        }
    }

    /// Tells the brain a notice, unless it closed the peer meanwhile.
    fn tell(&mut self, notice: Notice) {
        let port = &mut self.port;
        let input = match notice {
            Notice::Closed(peer, cause) if port.bury(peer, cause) => Input::Closed { peer, cause },
            Notice::ConnectFailed(peer, error) if port.bury(peer, Gone::Error) => Input::ConnectFailed { peer, error },
            Notice::Blocked(peer) if port.peers.live(peer).is_some() => Input::Blocked { peer },
            Notice::Drained(peer) if port.peers.live(peer).is_some() => Input::Drained { peer },
            Notice::Detached(peer) if port.peers.live(peer).is_some() => Input::Detached { peer },
            Notice::Connected(peer, local, remote) if port.peers.live(peer).is_some() => {
                Input::Connected { peer, local, remote }
            }
            Notice::Secured(peer, tls) if port.peers.live(peer).is_some() => Input::Secured { peer, tls },
            Notice::Resolved(name, addresses, ttl) => Input::Resolved { name, addresses, ttl },
            Notice::TlsFailed(peer, error) if port.bury(peer, Gone::Error) => Input::TlsFailed { peer, error },
            _ => return,
        };
        self.brain.handle(port.now, input, port);
        port.finish(&[]);
    }

    fn open_letters(&mut self) {
        for _ in 0..LETTERS {
            let Some(letter) = self.port.inbox.next() else { return };
            match letter {
                Letter::Mail { from, mail, socket } => {
                    let socket = socket.map(|carried| self.port.adopt_carried(carried));
                    self.turn(Input::Mail { from, mail, socket });
                }
                Letter::Helped { job, answer } => {
                    self.port.asking.helped();
                    self.turn(Input::Helped { job, answer });
                }
                Letter::Found(found) => {
                    self.port.found(found);
                    self.tell_notices();
                }
                Letter::Stepped { peer, step, outcome } => {
                    self.port.stepped(peer, step, outcome);
                    self.tell_notices();
                }
                Letter::Signal(signal) => self.turn(Input::Signal(signal)),
                Letter::Accept(on) => self.port.set_accepting(on),
                Letter::Room => self.port.end_rest(),
                Letter::End => return,
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS {
            let Some((peer, from)) = self.port.accept_one() else { return };
            self.turn(Input::Accepted { peer, from });
        }
    }

    /// Keeps the deadlines up to now, if one is over that was so when the events were `asked` for. One that passed since
    /// waits for the next round, which comes at once.
    fn keep_deadlines(&mut self, asked: Time) {
        let now = self.port.now;
        while let Some(Reverse((due, peer, what))) = self.port.later.peek().copied() {
            if due > now {
                break;
            }
            self.port.later.pop();
            match what {
                Due::Drop => self.port.drop_peer(peer),
                Due::Connect => self.port.try_connect(peer, None),
            }
            self.tell_notices();
        }
        if self.brain.next_deadline() <= asked {
            self.turn(Input::Tick);
        }
    }
}
