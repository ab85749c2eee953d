//! An engine's port without a network: requests are recorded, and the port's rules are checked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use weir_base::{ConnId, Target, WorkerId};
use weir_config::Config;
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Io, Level, Response, Work};

/// The most bytes that one input may queue for one connection: a few of the largest messages that are made here.
const MAX_PER_INPUT: usize = 1 << 20;

/// What an engine requested.
#[derive(Default)]
pub(crate) struct Port {
    /// The bytes of the input that is being processed.
    pub(crate) input: Vec<u8>,
    slots: u32,
    alive: BTreeSet<ConnId>,
    paused: BTreeSet<ConnId>,
    pub(crate) sent: BTreeMap<ConnId, Vec<u8>>,
    pub(crate) connects: VecDeque<ConnId>,
    pub(crate) detaches: VecDeque<ConnId>,
    pub(crate) jobs: VecDeque<u64>,
    pub(crate) messages: VecDeque<(Message, Option<ConnId>)>,
    pub(crate) exited: bool,
}

impl Port {
    /// A new handle.
    pub(crate) fn conn(&mut self) -> ConnId {
        self.slots += 1;
        let conn = ConnId::new(self.slots, 1);
        self.alive.insert(conn);
        conn
    }

    pub(crate) fn is_alive(&self, conn: ConnId) -> bool {
        self.alive.contains(&conn)
    }

    /// Whether a connection's bytes may be delivered.
    pub(crate) fn is_read(&self, conn: ConnId) -> bool {
        self.is_alive(conn) && !self.paused.contains(&conn)
    }

    /// A handle is closed.
    pub(crate) fn end(&mut self, conn: ConnId) {
        assert!(self.alive.remove(&conn), "a dead handle {conn:?} is closed");
        self.paused.remove(&conn);
    }

    fn write(&mut self, to: ConnId, bytes: &[u8]) {
        assert!(self.alive.contains(&to), "bytes for a dead handle {to:?}");
        let sent = self.sent.entry(to).or_default();
        sent.extend_from_slice(bytes);
        assert!(sent.len() <= MAX_PER_INPUT, "more than one input may produce");
    }
}

impl Io for Port {
    fn forward(&mut self, to: ConnId, range: Range<usize>) {
        let input = std::mem::take(&mut self.input);
        self.write(to, &input[range]);
        self.input = input;
    }
    fn send(&mut self, to: ConnId, bytes: &[u8]) {
        self.write(to, bytes);
    }
    fn connect(&mut self, _: &Target) -> ConnId {
        let conn = self.conn();
        self.connects.push_back(conn);
        conn
    }
    fn look_up(&mut self, _: &Arc<str>) {}
    fn close(&mut self, conn: ConnId) {
        self.end(conn);
    }
    fn pause(&mut self, conn: ConnId) {
        assert!(self.alive.contains(&conn) && self.paused.insert(conn), "{conn:?} is paused already, or dead");
    }
    fn resume(&mut self, conn: ConnId) {
        assert!(self.alive.contains(&conn) && self.paused.remove(&conn), "{conn:?} is not paused, or dead");
    }
    fn detach(&mut self, conn: ConnId) {
        self.detaches.push_back(conn);
    }
    fn post(&mut self, _: WorkerId, message: Message, socket: Option<ConnId>) {
        if let Some(conn) = socket {
            self.end(conn);
        }
        self.messages.push_back((message, socket));
    }
    fn start_tls(&mut self, _: ConnId, _: Handshake) {
        panic!("no peer here has TLS");
    }
    fn submit_job(&mut self, job: u64, _: Work) {
        self.jobs.push_back(job);
    }
    fn logs(&self, _: Level) -> bool {
        true
    }
    fn log(&mut self, _: Level, about: About<'_>, text: fmt::Arguments<'_>) {
        // A line that can't be formatted is a failure too.
        let _ = format!("{about}{text}");
    }
    fn apply_config(&mut self, _: &Arc<Config>) {}
    fn accept(&mut self, _: bool) {}
    fn answer(&mut self, _: u64, _: Response) {}
    fn exit(&mut self, _: i32) {
        self.exited = true;
    }
}
