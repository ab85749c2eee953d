//! The first byte of every message.
//!
//! Source: PostgreSQL's documentation, "Message Formats".

/// Messages of a client.
pub mod front {
    /// Query: one or more statements as text.
    pub const QUERY: u8 = b'Q';
    /// Parse: prepare a statement.
    pub const PARSE: u8 = b'P';
    /// Bind: create a portal from a statement.
    pub const BIND: u8 = b'B';
    /// Describe: what a statement or portal takes and returns.
    pub const DESCRIBE: u8 = b'D';
    /// Execute: run a portal.
    pub const EXECUTE: u8 = b'E';
    /// Close: drop a statement or portal.
    pub const CLOSE: u8 = b'C';
    /// Sync: the end of a pipelined batch.
    pub const SYNC: u8 = b'S';
    /// Flush: send buffered replies.
    pub const FLUSH: u8 = b'H';
    /// FunctionCall: a fast-path function call.
    pub const FUNCTION_CALL: u8 = b'F';
    /// CopyData: a piece of COPY's data.
    pub const COPY_DATA: u8 = b'd';
    /// CopyDone: the data is complete.
    pub const COPY_DONE: u8 = b'c';
    /// CopyFail: the client aborts a COPY.
    pub const COPY_FAIL: u8 = b'f';
    /// Terminate: the end of the session.
    pub const TERMINATE: u8 = b'X';
    /// PasswordMessage, SASLInitialResponse, SASLResponse, GSSResponse, depending on the login's state.
    pub const PASSWORD: u8 = b'p';

    /// Whether a server answers a message of this kind by itself: what may begin a segment, but for [`SYNC`].
    #[inline]
    pub fn is_request(tag: u8) -> bool {
        matches!(tag, QUERY | PARSE | BIND | DESCRIBE | EXECUTE | CLOSE | FUNCTION_CALL)
    }
}

/// Messages of a server.
pub mod back {
    /// Every Authentication message; its first four bytes are the kind.
    pub const AUTHENTICATION: u8 = b'R';
    /// ParameterStatus: a setting's value.
    pub const PARAMETER_STATUS: u8 = b'S';
    /// BackendKeyData: process id and secret for a cancel request.
    pub const BACKEND_KEY_DATA: u8 = b'K';
    /// ReadyForQuery, with the transaction's state.
    pub const READY: u8 = b'Z';
    /// RowDescription: names and types of columns.
    pub const ROW_DESCRIPTION: u8 = b'T';
    /// DataRow: one row.
    pub const DATA_ROW: u8 = b'D';
    /// CommandComplete, with a command tag.
    pub const COMMAND_COMPLETE: u8 = b'C';
    /// EmptyQueryResponse: instead of CommandComplete, for an empty text.
    pub const EMPTY_QUERY: u8 = b'I';
    /// ErrorResponse.
    pub const ERROR: u8 = b'E';
    /// NoticeResponse.
    pub const NOTICE: u8 = b'N';
    /// NotificationResponse: a NOTIFY of a session.
    pub const NOTIFICATION: u8 = b'A';
    /// ParseComplete.
    pub const PARSE_COMPLETE: u8 = b'1';
    /// BindComplete.
    pub const BIND_COMPLETE: u8 = b'2';
    /// CloseComplete.
    pub const CLOSE_COMPLETE: u8 = b'3';
    /// ParameterDescription: types of a statement's parameters.
    pub const PARAMETER_DESCRIPTION: u8 = b't';
    /// NoData: instead of RowDescription, for a statement without rows.
    pub const NO_DATA: u8 = b'n';
    /// PortalSuspended: Execute's row limit was reached.
    pub const PORTAL_SUSPENDED: u8 = b's';
    /// CopyInResponse: send COPY's data.
    pub const COPY_IN: u8 = b'G';
    /// CopyOutResponse: COPY's data follows.
    pub const COPY_OUT: u8 = b'H';
    /// CopyBothResponse: data in both directions (replication).
    pub const COPY_BOTH: u8 = b'W';
    /// CopyData: a piece of COPY's data.
    pub const COPY_DATA: u8 = b'd';
    /// CopyDone: the data is complete.
    pub const COPY_DONE: u8 = b'c';
    /// FunctionCallResponse.
    pub const FUNCTION_RESULT: u8 = b'V';
    /// NegotiateProtocolVersion: which minor version, and which options are unknown.
    pub const NEGOTIATE: u8 = b'v';
}
