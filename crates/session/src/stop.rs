//! Why the reading of a client's input stopped, short of its end.

use weir_pgwire::Malformed;

use crate::refusal::Refusal;

/// Why the reading of a client's input stopped.
#[derive(Debug, PartialEq, Eq)]
pub enum StopReason {
    /// All of the input is used up.
    EndOfInput,
    /// The next message needs a server, and none is linked.
    NeedServer,
    /// The next message is for the server that has the client's values of sequences, if that is free; the linked one was
    /// sent nothing.
    OtherServer,
    /// The next message must wait for replies of the linked server.
    AwaitReplies(ReplyWait),
    /// As many messages were read as one turn may take ([`Context::max_messages`](crate::Context::max_messages)):
    /// others have theirs first.
    TurnOver,
    /// The client sent Terminate.
    Terminate,
    /// The client must be refused. In a box, so that what each step of a parser returns fits two registers.
    Refuse(Box<Refusal>),
}

/// What a client's next message waits for, where its server must reply to earlier ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyWait {
    /// The server has as many segments to answer as it may ([`Context::max_pending_segments`]).
    ///
    /// [`Context::max_pending_segments`]: crate::Context::max_pending_segments
    SegmentLimit,
    /// The queue of pending replies is full, or too much was composed at once; the server was sent a Flush.
    QueueFull,
    /// The message builds upon a request of an earlier segment that the server may still skip.
    EarlierSegment,
    /// The message uses a statement of which the server describes to us what it has become; it was sent what is needed
    /// for that.
    Description,
    /// The reply is ours, and depends on the transaction's status after an earlier segment.
    TransactionStatus,
    /// The message is Terminate: a server answers what came before it first.
    Termination,
}

impl StopReason {
    /// The client must be refused.
    #[cold]
    pub fn refuse(why: Refusal) -> StopReason {
        StopReason::Refuse(Box::new(why))
    }

    /// The client broke the protocol.
    #[cold]
    pub(crate) fn protocol(what: impl Into<String>) -> StopReason {
        StopReason::refuse(Refusal::Protocol(what.into()))
    }
}

impl From<Malformed> for StopReason {
    fn from(malformed: Malformed) -> StopReason {
        StopReason::protocol(malformed.0)
    }
}

impl From<ReplyWait> for StopReason {
    fn from(wait: ReplyWait) -> StopReason {
        StopReason::AwaitReplies(wait)
    }
}
