//! What a peer is told when Weir refuses: one table of texts and SQLSTATEs.
//!
//! Where PgBouncer has a text for a case, this is the same text. A refusal ends the client's connection.

use std::fmt;

use weir_pgwire::{ErrorFields, put_back};

/// Why a client is refused or disconnected. `Display` is the text that the client is told and the log says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No pool has the name that the client gave as its database.
    NoSuchDatabase(String),
    /// The startup packet names no user.
    NoUser,
    /// A startup parameter is neither tracked nor ignored.
    UnsupportedParameter(String),
    /// A startup parameter's value can't be used.
    BadParameter(String),
    /// Not a startup packet of protocol 3, or of a replication connection.
    UnsupportedProtocol(String),
    /// Wrong password, unknown user: never told apart.
    PasswordFailed,
    /// The SCRAM exchange failed: wrong password, unknown user, malformed message.
    SaslFailed,
    /// Listed nowhere, with the method `trust`.
    NoSuchUser(String),
    /// The login was not finished in time.
    LoginTimeout,
    /// All client connections are taken.
    TooManyClients,
    /// The wait for a server exceeded query_wait_timeout.
    QueryWaitTimeout,
    /// A query exceeded query_timeout.
    QueryTimeout,
    /// Idle for longer than client_idle_timeout.
    ClientIdleTimeout,
    /// Idle in a transaction for longer than idle_transaction_timeout.
    IdleTransactionTimeout,
    /// A transaction exceeded transaction_timeout.
    TransactionTimeout,
    /// The server could not be reached, or refused us; its own words.
    ServerDown {
        /// The server's SQLSTATE, or 08006 where there was none.
        sqlstate: String,
        /// What it said.
        message: String,
    },
    /// The server went away while this client used it.
    ServerLost,
    /// The server sent something that no request of the client explains.
    ServerUnexpected,
    /// A transaction block in statement mode.
    TransactionInStatementMode,
    /// The client broke the protocol.
    Protocol(String),
    /// A limit on prepared statements.
    StatementLimit(&'static str),
    /// A tracked parameter of the client could not be set on a server; the server's words.
    ParameterFailed {
        /// The server's SQLSTATE.
        sqlstate: String,
        /// What it said.
        message: String,
    },
    /// The pool is being shut down.
    ShuttingDown,
    /// The operator closed the connection (KILL).
    Killed,
    /// The pool was removed, or its user changed.
    PoolGone,
    /// Something in Weir is not as it must be; the link is closed rather than trusted.
    Broken(&'static str),
}

impl Refusal {
    /// The SQLSTATE of the error (PostgreSQL documentation, Appendix A).
    pub fn sqlstate(&self) -> &str {
        match self {
            Refusal::NoSuchDatabase(_) | Refusal::PoolGone => "3D000",
            Refusal::NoUser | Refusal::PasswordFailed | Refusal::SaslFailed | Refusal::NoSuchUser(_) => "28P01",
            Refusal::UnsupportedParameter(_)
            | Refusal::UnsupportedProtocol(_)
            | Refusal::Protocol(_)
            | Refusal::TransactionInStatementMode => "08P01",
            Refusal::BadParameter(_) => "22023",
            Refusal::LoginTimeout => "08P01",
            Refusal::TooManyClients => "53300",
            Refusal::QueryWaitTimeout | Refusal::QueryTimeout => "57014",
            Refusal::ClientIdleTimeout => "57P05",
            Refusal::IdleTransactionTimeout => "25P03",
            Refusal::TransactionTimeout => "25P04",
            Refusal::ServerDown { sqlstate, .. } | Refusal::ParameterFailed { sqlstate, .. } => sqlstate,
            Refusal::ServerLost | Refusal::ServerUnexpected => "08006",
            Refusal::StatementLimit(_) => "54000",
            Refusal::ShuttingDown | Refusal::Killed => "57P01",
            Refusal::Broken(_) => "XX000",
        }
    }

    /// Appends the error as a message for the client.
    pub fn write(&self, buffer: &mut Vec<u8>) {
        let message = self.to_string();
        let fields = ErrorFields {
            severity: "FATAL",
            sqlstate: self.sqlstate(),
            message: &message,
            detail: None,
            hint: self.hint(),
        };
        put_back::error(buffer, &fields);
    }

    fn hint(&self) -> Option<&'static str> {
        match self {
            Refusal::NoSuchDatabase(_) => {
                Some("Clients name a pool as their database; see the [pools] of the configuration.")
            }
            Refusal::UnsupportedParameter(_) => Some("Add it to ignore_startup_parameters or track_extra_parameters."),
            Refusal::TooManyClients => Some("Raise max_clients."),
            Refusal::QueryWaitTimeout => Some("All servers of the pool were in use. A retry is safe."),
            Refusal::ServerDown { .. } => Some("The pool has no server now. A retry is safe."),
            Refusal::TransactionInStatementMode => Some("Use the pool mode transaction."),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoSuchDatabase(name) => write!(f, "no such database: {name}"),
            Refusal::NoUser => f.write_str("no username supplied"),
            Refusal::UnsupportedParameter(name) => write!(f, "unsupported startup parameter: {name}"),
            Refusal::BadParameter(name) => write!(f, "invalid value for startup parameter: {name}"),
            Refusal::UnsupportedProtocol(what) => write!(f, "unsupported protocol: {what}"),
            Refusal::PasswordFailed => f.write_str("password authentication failed"),
            Refusal::SaslFailed => f.write_str("SASL authentication failed"),
            Refusal::NoSuchUser(name) => write!(f, "no such user: {name}"),
            Refusal::LoginTimeout => f.write_str("client_login_timeout"),
            Refusal::TooManyClients => f.write_str("no more connections allowed (max_client_conn)"),
            Refusal::QueryWaitTimeout => f.write_str("query_wait_timeout"),
            Refusal::QueryTimeout => f.write_str("query timeout"),
            Refusal::ClientIdleTimeout => f.write_str("client_idle_timeout"),
            Refusal::IdleTransactionTimeout => f.write_str("idle transaction timeout"),
            Refusal::TransactionTimeout => f.write_str("transaction timeout"),
            Refusal::ServerDown { message, .. } | Refusal::ParameterFailed { message, .. } => f.write_str(message),
            Refusal::ServerLost => f.write_str("server conn crashed?"),
            Refusal::ServerUnexpected => f.write_str("unexpected response from server"),
            Refusal::TransactionInStatementMode => {
                f.write_str("transaction blocks not allowed in statement pooling mode")
            }
            Refusal::Protocol(what) => write!(f, "protocol violation: {what}"),
            Refusal::StatementLimit(what) => f.write_str(what),
            Refusal::ShuttingDown => f.write_str("the pooler is shut down"),
            Refusal::Killed => f.write_str("admin forced disconnect"),
            Refusal::PoolGone => f.write_str("database configuration changed"),
            Refusal::Broken(what) => write!(f, "internal error: {what}"),
        }
    }
}
