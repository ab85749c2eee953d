//! The runtime's half of `weir_engine::port`: carries out the engine's calls with sockets.
//!
//! Owns the worker's sockets and their state. During a turn the engine's calls are noted; [`Port::finish`] carries
//! them out: one gathered write for each connection, then closes, then detaches. Their results wait in `pending`, and
//! each is delivered in a turn of its own. Decides nothing.

mod accept;
mod backlog;
mod closed;
mod closing;
mod connect;
mod connects;
mod dropped;
mod lingering;
mod pace;
mod paced;
mod pending;
mod reading;
mod ring;
mod ring_io;
mod state;
mod tls;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mio::event::Event;
use weir_base::{ConnId, Span, Target, WorkerId};
use weir_config::Config;
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Io, Level, Response, Work};

use crate::freed;
use crate::mailbox::{Handoff, WorkerMessage};
use crate::output::{Output, Touched};
use crate::slots::{NONE, Outgoing, Ready, Removed, Slot, Stage};
use crate::upgrade::ExportMessage;
use backlog::writes;
pub(crate) use pending::PendingInput;
pub use ring_io::MakeRing;
pub(crate) use ring_io::{EPOLL, RING_SIZE, conn_of};
pub(crate) use state::Port;

impl Port {
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

    fn finish_detaching(&mut self) {
        let mut asked = std::mem::take(&mut self.detaching);
        asked.drain(..).for_each(|conn| self.take_out(conn));
        self.detaching = asked;
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

    fn unacknowledged(&self, conn: ConnId) -> Option<Span> {
        let silent = weir_uring::unacknowledged(self.conns.socket(conn)?.fd())?;
        Some(Span::from_millis(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX)))
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
            freed::hold(config);
        }
        self.keepalive = config.listen.keepalive.of_servers();
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
