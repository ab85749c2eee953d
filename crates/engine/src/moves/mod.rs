//! Connected clients move from a busy worker to one that is not, each between two of its requests.
//!
//! - `order`: worker 0 orders a batch: who gives clients, and to whom. What is busy is in `client_login::loads`.
//! - `depart`: the worker that gives picks clients, and sends each as a value, with its socket. `arrive`: the other one.
//!   `batch`: which of them are on their way.
//!
//! The value is the one that a process which is replaced gives to the next one (`upgrade::moved`). What a client must not
//! have for it: a server, a request that is not answered, output that its socket does not take, channels, values of
//! sequences, a cancel request that looks at clients of its worker. A replication connection and a console stay.
//!
//! **Commands.** One batch is under way in the process, and begins where no command for all workers is; commands that come
//! meanwhile are held by worker 0 until the batch has ended ([`Common::post_to_all`](crate::common::Common)). So KILL,
//! RELOAD, PAUSE and a drain find each client once, on one worker, and no room has to know of clients in transit. Tables that
//! are sent in pages ask the workers one after the other, and may show a client that moves twice, or not at all.
//! A batch ends when each client that was sent has arrived; a client whose socket is not free by [`DETACH_TIME`] does not
//! hold it: that one returns to its own worker when it is free. Where a worker hangs, commands wait for a second.
//!
//! **Cancel.** A key names the worker that issued it, the client's home. A client moves away from home and back home,
//! and nowhere else; its home knows where it is (`cancel::away`) and passes requests on; a worker that does not have the
//! client any more returns the request. A request that finds its client while its socket is being detached waits for that. Messages between two workers keep their order, so the request finds the client,
//! or its home knows that the client is gone.
//!
//! **Counts.** Worker 0's count of clients, and the keys under which a client counts, are not changed by a move: they go
//! with the client.
//!
//! **Upgrade.** A worker that exports begins no move. A client in transit is exported where it arrives: the old process
//! waits for two rounds in which no worker has anything left.

pub(crate) mod arrive;
pub(crate) mod batch;
pub(crate) mod depart;
pub(crate) mod order;

use std::fmt;

use weir_base::{Span, WorkerId};

use crate::upgrade::moved::MovedClient;
use crate::workers::quota::ClientUse;

/// How long a batch waits for the sockets of its clients.
pub(crate) const DETACH_TIME: Span = Span::from_millis(100);

/// How long a client stays where it has arrived.
pub(crate) const REST: Span = Span::from_secs(10);

/// What a worker is to give.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MoveOrder {
    pub(crate) to: WorkerId,
    /// The number of the batch, which its end names.
    pub(crate) batch: u64,
    /// For tests: clients move, too, that have just come or send nothing.
    pub(crate) any: bool,
}

/// A client on its way to another worker.
pub(crate) struct ClientMove {
    pub(crate) client: MovedClient,
    /// The keys under which it counts, if clients are limited.
    pub(crate) counts_for: Option<Box<ClientUse>>,
}

impl fmt::Debug for ClientMove {
    // The key must not reach a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientMove({})", self.client.id)
    }
}
