//! Mailboxes: how workers, helpers and the signal thread reach a worker's loop.
//!
//! A mailbox is a queue and a bell. The bell rings once however many letters come before the worker looks, so a busy
//! worker costs its correspondents no system call. A letter carries a travelling socket inside it: a letter that is never
//! opened closes its socket. What bounds the queue is the engines' protocol (answers to a bounded number of requests).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use mio::{Registry, Token, Waker};

use weir_base::{Peer, WorkerId};
use weir_engine::Message;
use weir_engine::port::{Answer, Request, Signal};

use crate::helpers::Kind;
use crate::names::Found;
use crate::socket::Socket;
use crate::tls::{Outcome, Step, Tls};

/// The token of a worker's bell.
pub(crate) const BELL: Token = Token(usize::MAX);

/// What a worker can be told.
pub(crate) enum Letter {
    /// From another engine, or from its own.
    Message { from: WorkerId, message: Message, socket: Option<Carried> },
    /// A helper's answer.
    Helped { kind: Kind, job: u64, answer: Answer },
    /// A name's addresses.
    Found(Found),
    /// A helper took a step of a handshake.
    Stepped { peer: Peer, step: Box<Step>, outcome: Outcome },
    /// The control plane's question; to worker 0.
    Asked { number: u64, request: Request },
    /// Its answer is not wanted any more; to worker 0.
    AskedNoMore { number: u64 },
    /// The operator's signal; to worker 0.
    Signal(Signal),
    /// Start or stop accepting; to worker 0.
    Accept(bool),
    /// A descriptor is free again; to worker 0, when it could not accept for the lack of one.
    Room,
    /// The process ends.
    End,
}

/// A socket on its way to another worker, with its encryption.
pub(crate) struct Carried {
    pub(crate) socket: Socket,
    pub(crate) tls: Option<Tls>,
    /// Bytes of it that came before it left.
    pub(crate) held: Vec<u8>,
}

struct Mailbox {
    letters: Sender<Letter>,
    bell: Waker,
    rung: AtomicBool,
}

/// All mailboxes; cheap to clone.
#[derive(Clone)]
pub(crate) struct Post(Arc<[Mailbox]>);

impl Post {
    /// Opens a mailbox at each of these loops.
    pub(crate) fn open(registries: &[&Registry]) -> io::Result<(Post, Vec<Receiver<Letter>>)> {
        let mut boxes = Vec::new();
        let mut inboxes = Vec::new();
        for registry in registries {
            let (letters, inbox) = channel();
            boxes.push(Mailbox { letters, bell: Waker::new(registry, BELL)?, rung: AtomicBool::new(false) });
            inboxes.push(inbox);
        }
        Ok((Post(boxes.into()), inboxes))
    }

    /// How many workers there are.
    pub(crate) fn workers(&self) -> u16 {
        self.0.len() as u16
    }

    /// Sends a letter; `false` if there is no such worker, or no more.
    pub(crate) fn send(&self, to: WorkerId, letter: Letter) -> bool {
        let Some(mailbox) = self.0.get(to.0 as usize) else { return false };
        if mailbox.letters.send(letter).is_err() {
            return false;
        }
        // A bell that was rung and not yet heard is enough: the worker looks after it has reset the bell.
        if !mailbox.rung.swap(true, Ordering::AcqRel) {
            // The counter behind the bell can't overflow, and nothing else can fail.
            let _ = mailbox.bell.wake();
        }
        true
    }

    /// Sends a letter to every worker.
    pub(crate) fn send_all(&self, letter: impl Fn() -> Letter) {
        (0..self.workers()).for_each(|w| {
            self.send(WorkerId(w), letter());
        });
    }
}

/// A worker's own mailbox.
pub(crate) struct Inbox {
    pub(crate) me: WorkerId,
    pub(crate) post: Post,
    pub(crate) letters: Receiver<Letter>,
    waiting: bool,
}

impl Inbox {
    pub(crate) fn new(me: WorkerId, post: Post, letters: Receiver<Letter>) -> Self {
        Inbox { me, post, letters, waiting: false }
    }

    /// Sends a letter to another worker or to this one; `false` if there is no such worker, or no more.
    pub(crate) fn send(&mut self, to: WorkerId, letter: Letter) -> bool {
        if to != self.me {
            return self.post.send(to, letter);
        }
        // No bell is needed for who is awake.
        self.waiting = true;
        self.post.0[to.0 as usize].letters.send(letter).is_ok()
    }

    /// The bell rang.
    pub(crate) fn ring(&mut self) {
        self.waiting = true;
        self.post.0[self.me.0 as usize].rung.swap(false, Ordering::AcqRel);
    }

    /// Whether letters may wait.
    pub(crate) fn waits(&self) -> bool {
        self.waiting
    }

    /// The next letter.
    pub(crate) fn next(&mut self) -> Option<Letter> {
        match self.letters.try_recv() {
            Ok(letter) => Some(letter),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                self.waiting = false;
                None
            }
        }
    }
}
