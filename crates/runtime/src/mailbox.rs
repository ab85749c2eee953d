//! Mailboxes: how workers, helpers and the signal thread send messages to a worker's loop.
//!
//! A mailbox is a queue and a waker. The loop is woken once however many messages arrive before the worker reads them,
//! so sending to a busy worker needs no system call. A message contains the socket that moves with it, so dropping the
//! message closes the socket. The queue is bounded by the engines' protocol: messages are answers to a bounded number
//! of requests.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use mio::{Registry, Waker};

use weir_base::{ConnId, WorkerId, shrink};
use weir_engine::Message;
use weir_engine::port::{ControlRequest, OldProcessState, Signal, UpgradeStep, WorkResult};

use crate::dns::Found;
use crate::slots::WAKER;
use crate::socket::Socket;
use crate::tls::{HandshakeStep, StepOutcome, Tls};
use crate::work::WorkKind;

/// A message to a worker.
pub(crate) enum WorkerMessage {
    /// A message from another engine, or from the worker's own.
    Message { from: WorkerId, message: Message, socket: Option<Handoff> },
    /// A helper's answer.
    JobDone { kind: WorkKind, job: u64, result: WorkResult },
    /// The result of a look-up.
    Found(Found),
    /// A helper took a step of a handshake.
    Stepped { conn: ConnId, step: Box<HandshakeStep>, outcome: StepOutcome },
    /// A request of the control plane; to worker 0.
    ControlRequest { number: u64, request: ControlRequest },
    /// The request was withdrawn; to worker 0.
    ControlRequestDropped { number: u64 },
    /// A signal of the operator; to worker 0.
    Signal(Signal),
    /// Start or stop accepting; to worker 0.
    Accept(bool),
    /// Another process takes over: this step is due.
    Upgrade(UpgradeStep),
    /// What is known of the process that this one takes over from has changed.
    OldProcess(OldProcessState),
    /// A value of another process's engine, or one that came back; with its socket.
    Imported { value: Vec<u8>, socket: Option<Handoff> },
    /// The process that takes over has received this request to cancel.
    CancelRequest { pid: u32, secret: Vec<u8> },
    /// The listening sockets are offered to another process; to worker 0.
    OfferListeners,
    /// Accept, or leave the listening sockets to another process, without closing them; to worker 0.
    Listen(bool),
    /// A descriptor is free again; to worker 0, when it could not accept for the lack of one.
    Room,
    /// The process ends: the worker ends, too.
    End,
}

/// A socket on its way to another worker, with its TLS session.
pub(crate) struct Handoff {
    pub(crate) socket: Socket,
    pub(crate) tls: Option<Tls>,
    /// Bytes that were received before the socket left.
    pub(crate) held: Vec<u8>,
}

struct Mailbox {
    messages: Sender<WorkerMessage>,
    waker: Waker,
    rung: AtomicBool,
}

/// All mailboxes; cheap to clone.
#[derive(Clone)]
pub(crate) struct Mailboxes(Arc<[Mailbox]>);

impl Mailboxes {
    /// Opens a mailbox for each of these loops.
    pub(crate) fn open(registries: &[&Registry]) -> io::Result<(Mailboxes, Vec<Receiver<WorkerMessage>>)> {
        let mut boxes = Vec::new();
        let mut inboxes = Vec::new();
        for registry in registries {
            let (messages, inbox) = channel();
            boxes.push(Mailbox { messages, waker: Waker::new(registry, WAKER)?, rung: AtomicBool::new(false) });
            inboxes.push(inbox);
        }
        Ok((Mailboxes(boxes.into()), inboxes))
    }

    /// The number of workers.
    pub(crate) fn workers(&self) -> u16 {
        self.0.len() as u16
    }

    /// Sends a message; `false` if there is no such worker, or it has ended.
    pub(crate) fn send(&self, to: WorkerId, message: WorkerMessage) -> bool {
        let Some(mailbox) = self.0.get(to.0 as usize) else { return false };
        if mailbox.messages.send(message).is_err() {
            return false;
        }
        // One wake-up is enough: the worker reads the queue after it has reset the flag.
        if !mailbox.rung.swap(true, Ordering::AcqRel) {
            // The counter of the waker can't overflow, and nothing else can fail.
            let _ = mailbox.waker.wake();
        }
        true
    }

    /// Sends a message to every worker.
    pub(crate) fn send_all(&self, message: impl Fn() -> WorkerMessage) {
        (0..self.workers()).for_each(|w| {
            self.send(WorkerId(w), message());
        });
    }
}

/// Messages of a worker to itself for which there is room in later rounds.
const KEPT_PLACES: usize = 256;

/// A worker's own mailbox.
pub(crate) struct Inbox {
    pub(crate) me: WorkerId,
    pub(crate) mailboxes: Mailboxes,
    pub(crate) messages: Receiver<WorkerMessage>,
    /// What the worker has sent itself: for its next round, so that work in parts lets others have theirs between.
    own: VecDeque<WorkerMessage>,
    waiting: bool,
}

impl Inbox {
    pub(crate) fn new(me: WorkerId, mailboxes: Mailboxes, messages: Receiver<WorkerMessage>) -> Self {
        Inbox { me, mailboxes, messages, own: VecDeque::new(), waiting: false }
    }

    /// Sends a message to any worker, its own included; `false` if there is no such worker, or it has ended.
    pub(crate) fn send(&mut self, to: WorkerId, message: WorkerMessage) -> bool {
        if to != self.me {
            return self.mailboxes.send(to, message);
        }
        // The worker is running, so it needs no waker.
        self.waiting = true;
        self.own.push_back(message);
        true
    }

    /// The waker was triggered.
    pub(crate) fn ring(&mut self) {
        self.waiting = true;
        self.mailboxes.0[self.me.0 as usize].rung.swap(false, Ordering::AcqRel);
    }

    /// Whether there may be messages.
    pub(crate) fn waits(&self) -> bool {
        self.waiting
    }

    /// How many messages wait that the worker has sent itself.
    pub(crate) fn own(&self) -> usize {
        self.own.len()
    }

    /// The next message that the worker has sent itself.
    pub(crate) fn next_own(&mut self) -> Option<WorkerMessage> {
        self.own.pop_front()
    }

    /// The next message of other senders.
    pub(crate) fn next(&mut self) -> Option<WorkerMessage> {
        match self.messages.try_recv() {
            Ok(message) => Some(message),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                self.waiting = !self.own.is_empty();
                shrink(&mut self.own, KEPT_PLACES);
                None
            }
        }
    }
}
