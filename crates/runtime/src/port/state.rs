//! What a worker's port consists of.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use mio::Poll;
use weir_base::{ConnId, Slab, Time, WorkerId};
use weir_config::Keepalive;

use super::closing::Closing;
use super::connects::Connects;
use super::pace::Pace;
use super::pending::PendingInput;
use super::ring_io::RingIo;
use crate::helpers::HelperQueues;
use crate::listen::Listening;
use crate::mailbox::Inbox;
use crate::output::{Backlogs, Output};
use crate::shared::Shared;
use crate::slots::ConnSlots;
use crate::tls::{Tls, TlsState};

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
    pub(super) settles: bool,
    pub(super) detaching: Vec<ConnId>,
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
}
