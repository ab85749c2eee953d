//! The messages between workers.

use std::sync::Arc;

use weir_admin::{CommandError, NodePeers, Report};
use weir_base::{ClientAddr, ConnId, Origin, Target, Time};
use weir_config::Config;
use weir_session::Refusal;
use weir_session::startup::StartupRequest;

use crate::admin::paging::Paging;
use crate::cancel::away::AwayKey;
use crate::client_login::secret_query::{SecretQuery, UserSecret};
use crate::lending::state::LendingMessage;
use crate::moves::{ClientMove, MoveOrder};
use crate::primary::PrimaryStep;
use crate::secured::Secured;
use crate::workers::quota::{QuotaReply, QuotaRequest};

/// A message from one worker's engine to another's. Opaque to the runtime, which carries it.
#[derive(Debug)]
pub struct Message(pub(crate) Payload);

#[derive(Debug)]
pub(crate) enum Payload {
    /// A client whose pool is owned by the receiver; its socket comes with the message.
    Client(ClientHandoff),
    /// A cancel request for a client of the receiver; the requester's socket comes with the message.
    Cancel { pid: u32, secret: Vec<u8>, id: u64, addr: ClientAddr },
    /// A cancel request for a client that may be the receiver's, without the requester.
    CancelAlone { pid: u32, secret: Vec<u8> },
    /// From worker 0: clients of the receiver are to move.
    MoveClients(MoveOrder),
    /// A connected client moves to the receiver; its socket comes with the message.
    Moved(Box<ClientMove>),
    /// A client of the receiver has arrived at the sender.
    MoveArrived,
    /// To worker 0: no client of the sender's is on its way any more.
    MovesDone(u64),
    /// A client with a key of the receiver is gone.
    AwayGone(AwayKey),
    /// A client with a key of the receiver has come to the sender: the key's secret, and how much of it was issued.
    AwayCame(AwayKey, [u8; 16], usize),
    /// To the sender itself: a request to cancel found that its client did nothing. `until`: its deadline.
    CancelAgain { requester: Option<ConnId>, client: ConnId, until: Time },
    /// To worker 0: a client of another process has arrived at the sender.
    ClientCame,
    /// To the sender itself: one of its clients has its next turn.
    NextTurn(ConnId),
    /// To worker 0: a client of the sender is gone.
    ClientGone,
    /// To worker 0, about limits of the process.
    QuotaRequest(Box<QuotaRequest>),
    /// From worker 0, decided at this time.
    QuotaReply(Time, Box<QuotaReply>),
    /// The request for a user's secret, to the worker of the pool that runs the auth_query.
    LookUp(Box<SecretQuery>),
    /// Withdraws the request of this number.
    LookUpNoMore(u64),
    /// The answer: the secret as written, none if the user can't log in with one, or why there is no answer.
    LookedUp { id: u64, answer: Result<UserSecret, Refusal> },
    /// A login has failed with a secret from an auth_query: the receiver's cached answer may be old, too.
    Distrust { database: Arc<str>, user: Arc<str> },
    /// All connections are in use: the receiver closes a connection without a login for one from this origin.
    MakeRoom(Origin),
    /// A login from this origin has failed; its next refusal is delayed longer, on each worker.
    Failed(Origin),
    /// About a pool that spans workers, between its owner and a borrower; may come with a server's socket.
    Lending(Box<LendingMessage>),
    /// A client is about to drop, rename or copy a database of this server: idle connections to it are closed.
    FreeDatabase(Target, Arc<str>),
    /// To worker 0: a login of a pool of this name has found this host fit, and waits.
    PrimaryFound { pool: Arc<str>, at: Target },
    /// To worker 0: the sender has left this host, which takes no writes any more, for this reason.
    PrimaryLost { pool: Arc<str>, at: Target, why: &'static str },
    /// All servers of a database that nodes share are closed: this node's lease has ended.
    CloseServers(Arc<str>),
    /// A database that nodes share has this many servers too many: those in use are closed when they are released.
    CloseReleased(Arc<str>, u32),
    /// The node's lease ends then; why it can't get one.
    Lease(Time, Option<Arc<str>>),
    /// Where requests to cancel find the clients of each node.
    Peers(Arc<NodePeers>),
    /// To worker 0: a server of this database, which nodes share, is closed, and counts until the server has ended it.
    ServerEnding(Arc<str>),
    /// To worker 0: the server has ended a connection of this database, which nodes share.
    ServerEnded(Arc<str>),
    /// To worker 0: a server of this database, which nodes share, goes to the process that takes over.
    ServerGoes(Arc<str>),
    /// To worker 0: a server of this database, which nodes share, has come from another process.
    ServerCame(Arc<str>),
    /// A command for every worker.
    Command { id: u64, command: WorkerCommand },
    /// A worker's answer to a command.
    CommandAnswer { id: u64, answer: WorkerAnswer },
    /// A page of a long table is requested, or replied.
    Paging(Paging),
    /// The sender's load, in per cent of its time; to worker 0.
    Load(u8),
    /// To worker 0: a pool of the sender has a waiting client or a failed login.
    Trouble,
    /// To itself: more pools adopt the configuration in force.
    Adopting,
    /// The sender has no clients left, for a shutdown that waits for that.
    Drained(Drain),
}

/// An unauthenticated client on its way to the worker of its pool.
#[derive(Debug)]
pub(crate) struct ClientHandoff {
    pub(crate) hello: Arc<StartupRequest>,
    /// The bytes that the client sent after its startup packet.
    pub(crate) leftover: Vec<u8>,
    pub(crate) id: u64,
    pub(crate) addr: ClientAddr,
    /// The result of the client's TLS handshake.
    pub(crate) tls: Option<Box<Secured>>,
    /// All workers' clocks agree.
    pub(crate) connected_at: Time,
}

/// The commands for every worker.
#[derive(Clone, Debug)]
pub(crate) enum WorkerCommand {
    /// With `counts`, clients are counted by database and user.
    Report {
        counts: bool,
    },
    /// A report with the statistics of statements.
    Statements,
    /// A report with what was recorded of pools' traffic.
    Traffic,
    /// Traffic is recorded, of one database or of all, until then.
    StartRecord(Option<String>, Time),
    StopRecord(Option<String>),
    /// Takes the spans that have ended.
    Spans,
    ResetStatements,
    /// Of the report, what the health of pools depends on.
    Health,
    Adopt(Arc<Config>),
    Pause(Option<String>),
    Resume(Option<String>),
    Suspend,
    Reconnect(Option<String>),
    /// Pools try to open a server now.
    Retry(Option<String>),
    /// A pool moves to this host, and worker 0 sees to it.
    Switch(Arc<str>, Target),
    /// A step of a pool's move.
    Primary(Arc<str>, PrimaryStep),
    Kill(Option<String>),
    KillClient(u64),
    Disable(String),
    Enable(String),
    WaitClose(Option<String>),
    /// The command of this number was withdrawn.
    Forget(u64),
    Drain(Drain),
}

impl WorkerCommand {
    /// Whether the command only tells what there is, and may show a pool that has not adopted the configuration yet.
    pub(crate) fn is_report(&self) -> bool {
        use WorkerCommand::{Health, Report, Spans, Statements, Traffic};
        matches!(self, Report { .. } | Statements | Traffic | Spans | Health)
    }
}

/// What a shutdown waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Drain {
    /// Clients disconnect.
    Clients,
    /// Servers finish their transactions; waiting clients are disconnected.
    Servers,
    /// Clients finish their transactions; each is closed behind one.
    Transactions,
}

/// A worker's answer.
#[derive(Debug)]
pub(crate) enum WorkerAnswer {
    Done,
    Report(Box<Report>),
    Failed(CommandError),
}
