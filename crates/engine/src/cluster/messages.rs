//! What workers send each other.

use std::sync::Arc;

use weir_admin::{CommandError, Report};
use weir_base::{ClientAddr, Time};
use weir_config::Config;
use weir_session::Refusal;
use weir_session::startup::StartupRequest;

use crate::admin::paging::Paging;
use crate::cluster::lending::LendingMessage;
use crate::cluster::quota::{QuotaReply, QuotaRequest};
use crate::entry::origin::Origin;
use crate::entry::secret_query::{SecretQuery, UserSecret};
use crate::secured::Secured;

/// A message from one worker's engine to another's. Opaque to whoever carries it.
#[derive(Debug)]
pub struct Message(pub(crate) Payload);

#[derive(Debug)]
pub(crate) enum Payload {
    /// A client whose pool lives with the receiver; its socket comes with the message.
    Client(ClientHandoff),
    /// A cancel request for a client of the receiver; the requester's socket comes with the message.
    Cancel { pid: u32, secret: Vec<u8>, id: u64, addr: ClientAddr },
    /// To worker 0: a client of another process has come to the sender.
    ClientCame,
    /// To worker 0: a client of the sender is gone.
    ClientGone,
    /// To worker 0, about limits that hold for the process.
    QuotaRequest(Box<QuotaRequest>),
    /// From worker 0.
    QuotaReply(Box<QuotaReply>),
    /// What is the secret of this user? To the worker of the pool in which the server is asked.
    LookUp(Box<SecretQuery>),
    /// Nobody waits for the answer to the question of this number any more.
    LookUpNoMore(u64),
    /// The answer: the secret as written, nothing if nobody may enter with it, or why there is no answer.
    LookedUp { id: u64, answer: Result<UserSecret, Refusal> },
    /// A login has failed with a secret that a server was asked for: what the receiver keeps of it may be old, too.
    Distrust { database: Arc<str>, user: Arc<str> },
    /// All connections are taken: the receiver's oldest connection without a login goes.
    MakeRoom,
    /// A login from there has failed, and its next refusal waits longer, whichever worker it comes from.
    Failed(Origin),
    /// About a pool that spans workers, between its owner and a borrower; a server's socket may come with it.
    Lending(Box<LendingMessage>),
    /// Something to be done by every worker.
    Command { id: u64, command: WorkerCommand },
    /// It has been done.
    CommandAnswer { id: u64, answer: WorkerAnswer },
    /// A piece of a long table is wanted, or comes.
    Paging(Paging),
    /// So much of its time the sender is busy, in per cent; to worker 0.
    Load(u8),
    /// The sender has no clients left, while a shutdown waits for that.
    Drained(Drain),
}

/// A client on its way to the worker of its pool, before it has proven who it is.
#[derive(Debug)]
pub(crate) struct ClientHandoff {
    pub(crate) hello: Box<StartupRequest>,
    /// What it sent beyond its startup packet.
    pub(crate) leftover: Vec<u8>,
    pub(crate) id: u64,
    pub(crate) addr: ClientAddr,
    /// What its handshake has shown.
    pub(crate) tls: Option<Box<Secured>>,
    /// All workers' clocks agree.
    pub(crate) connected_at: Time,
}

/// What every worker is asked for.
#[derive(Clone, Debug)]
pub(crate) enum WorkerCommand {
    /// With `counts`, clients are counted by database and user.
    Report {
        counts: bool,
    },
    Adopt(Arc<Config>),
    Pause(Option<String>),
    Resume(Option<String>),
    Suspend,
    Reconnect(Option<String>),
    Kill(Option<String>),
    KillClient(u64),
    Disable(String),
    Enable(String),
    WaitClose(Option<String>),
    /// Whoever gave the command of this number waits no longer.
    Forget(u64),
    Drain(Drain),
}

/// How a shutdown goes about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// Clients finish in their own time.
    Clients,
    /// Servers finish their transactions; waiting clients are dropped.
    Servers,
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) enum WorkerAnswer {
    Done,
    Report(Box<Report>),
    Failed(CommandError),
}
