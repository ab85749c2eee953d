//! The kinds of request that may be pending on a server, and the replies that each expects.
//!
//! Must not know the order of requests ([`crate::pending`]) or what they changed ([`crate::undo_log`]).

/// A request without its full reply, or a local reply that waits until all before it are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expected {
    /// Simple query: anything up to ReadyForQuery.
    Query,
    /// A simple query that dropped the client's unnamed statement. (Here and below, "logged" requests have an entry in
    /// [`crate::undo_log`].)
    QueryLogged,
    /// What is sent in place of a simple query that the pool refuses, to fail at the server: an error, then
    /// ReadyForQuery.
    QueryRefused,
    /// Function call: a result or an error, then ReadyForQuery.
    FunctionCall,
    /// Parse that changes nothing for its client.
    Parse,
    /// Parse of a named statement; logged.
    ParseNamed,
    /// Parse of a name that the client has given already, sent to be refused by the server; logged.
    ParseTaken,
    /// Parse of the unnamed statement; logged.
    ParseUnnamed,
    /// What is sent in place of a Parse that the pool refuses, to fail at the server; logged.
    ParseRefused,
    /// Bind.
    Bind,
    /// Bind that is kept, to be sent again ([`crate::repeat`]).
    BindKept,
    /// Bind of a statement that deallocates one of the client's; logged.
    BindLogged,
    /// Describe of a statement: two messages.
    DescribeStatement,
    /// Describe of a portal, or the second half of [`Expected::DescribeStatement`].
    DescribeRows,
    /// Describe of a client's statement: two messages; noted. (Here and below, "noted" requests have an entry in
    /// [`crate::descriptions`].)
    DescribeKnown,
    /// Describe of a portal with a client's statement, or the second half of [`Expected::DescribeKnown`]; noted.
    DescribeKnownRows,
    /// Our own Describe of a statement: two messages, swallowed unless it fails; noted.
    OwnDescribe,
    /// The second half of [`Expected::OwnDescribe`]; noted.
    OwnDescribeRows,
    /// Execute: rows, COPY data, then its end.
    Execute,
    /// Close.
    Close,
    /// Close of the unnamed statement; logged.
    CloseUnnamed,
    /// Sync: ReadyForQuery.
    Sync,
    /// The client's CopyDone or CopyFail, sent before we know whether the server is in COPY at all. Expects no reply.
    CopyEnd,
    /// ParseComplete that we send, since the server has the statement already; logged.
    LocalParse,
    /// CloseComplete that we send, since the statement stays on the server for others; logged.
    LocalClose,
    /// CommandComplete and ReadyForQuery for a simple `DEALLOCATE name` of a statement whose name only we know; logged.
    LocalDeallocate,
    /// No reply; precedes a [`Expected::LocalDeallocate`] that drops the client's unnamed statement as any simple query
    /// does; logged.
    LocalForget,
    /// A query of our own (parameters, reset, check); swallowed.
    OwnQuery,
    /// A query of our own between two requests of a client, which sets what it has reset; swallowed.
    OwnSet,
    /// A query of our own that begins a block anew, for a request that is sent again ([`crate::repeat`]); swallowed.
    OwnBegin,
    /// Our own Parse for a statement of the client; swallowed, unless it fails; logged.
    OwnParse,
    /// Our own Parse into the unnamed slot, or one without an entry; swallowed, unless it fails.
    OwnParseUnnamed,
    /// Our own Bind; swallowed, unless it fails.
    OwnBind,
    /// Our own Execute of a command without rows; swallowed, unless it fails.
    OwnExecute,
    /// Our own Close; swallowed.
    OwnClose,
    /// Our own Sync behind a simple query that Parse messages of ours precede; swallowed. If one of these fails, it
    /// ends the query.
    OwnSync,
    /// A request that the server can only refuse, in place of one that we refuse: its error ends the transaction and
    /// makes the server skip to the next Sync, and our message replaces the server's; logged.
    Refused,
}

impl Expected {
    /// Whether the reply is for us and not for the client.
    pub(crate) fn is_own(self) -> bool {
        matches!(
            self,
            Expected::OwnQuery
                | Expected::OwnSet
                | Expected::OwnSync
                | Expected::OwnBegin
                | Expected::OwnParse
                | Expected::OwnParseUnnamed
                | Expected::OwnBind
                | Expected::OwnExecute
                | Expected::OwnClose
                | Expected::OwnDescribe
                | Expected::OwnDescribeRows
        )
    }

    /// Whether we answer the request.
    pub(crate) fn is_local(self) -> bool {
        matches!(self, Expected::LocalParse | Expected::LocalClose | Expected::LocalDeallocate | Expected::LocalForget)
    }

    /// Whether no reply of the server answers the request: we do, or it has none.
    #[inline]
    pub(crate) fn is_unanswered(self) -> bool {
        self.is_local() || self == Expected::CopyEnd
    }

    /// Whether the request does nothing in its transaction, and can't fail.
    #[inline]
    pub(crate) fn does_nothing(self) -> bool {
        matches!(self, Expected::Close | Expected::LocalParse | Expected::LocalClose)
    }

    /// Whether something other than the undo log remembers the request until it is answered.
    #[inline]
    pub(crate) fn is_remembered(self) -> bool {
        matches!(self, Expected::OwnClose | Expected::BindKept)
    }

    /// Whether the server's unnamed slot holds something else after it has run.
    pub(crate) fn changes_unnamed(self) -> bool {
        matches!(
            self,
            Expected::ParseUnnamed | Expected::CloseUnnamed | Expected::QueryLogged | Expected::OwnParseUnnamed
        )
    }

    /// Whether ParseComplete answers the request.
    pub(crate) fn is_parse(self) -> bool {
        matches!(
            self,
            Expected::Parse
                | Expected::ParseNamed
                | Expected::ParseTaken
                | Expected::ParseUnnamed
                | Expected::OwnParse
                | Expected::OwnParseUnnamed
        )
    }

    /// Whether the request has an entry in the undo log.
    #[inline]
    pub(crate) fn is_logged(self) -> bool {
        matches!(
            self,
            Expected::QueryLogged
                | Expected::ParseNamed
                | Expected::ParseTaken
                | Expected::ParseUnnamed
                | Expected::ParseRefused
                | Expected::BindLogged
                | Expected::CloseUnnamed
                | Expected::LocalParse
                | Expected::LocalClose
                | Expected::LocalDeallocate
                | Expected::LocalForget
                | Expected::OwnParse
                | Expected::Refused
        )
    }

    /// Whether the request has an entry among the descriptions under way.
    #[inline]
    pub(crate) fn is_noted(self) -> bool {
        matches!(
            self,
            Expected::DescribeKnown | Expected::DescribeKnownRows | Expected::OwnDescribe | Expected::OwnDescribeRows
        )
    }

    /// What is expected of a Describe of a statement once its parameters are described; `None` for any other request.
    #[inline]
    pub(crate) fn after_parameters(self) -> Option<Expected> {
        match self {
            Expected::DescribeStatement => Some(Expected::DescribeRows),
            Expected::DescribeKnown => Some(Expected::DescribeKnownRows),
            Expected::OwnDescribe => Some(Expected::OwnDescribeRows),
            _ => None,
        }
    }

    /// Whether a description of rows answers the request.
    #[inline]
    pub(crate) fn is_of_rows(self) -> bool {
        matches!(self, Expected::DescribeRows | Expected::DescribeKnownRows | Expected::OwnDescribeRows)
    }

    /// Whether ReadyForQuery ends the request, so that an error does not make the server skip what follows.
    pub(crate) fn ends_with_ready(self) -> bool {
        matches!(
            self,
            Expected::Query
                | Expected::QueryLogged
                | Expected::QueryRefused
                | Expected::FunctionCall
                | Expected::Sync
                | Expected::OwnQuery
                | Expected::OwnSet
                | Expected::OwnSync
                | Expected::OwnBegin
        )
    }

    /// Whether the pool refused what the client requested, and the server's error is replaced by ours.
    pub(crate) fn is_refused(self) -> bool {
        matches!(self, Expected::QueryRefused | Expected::ParseRefused)
    }
}
