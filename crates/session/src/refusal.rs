//! The errors with which Weir refuses a peer: one table of texts and SQLSTATEs.
//!
//! Where PgBouncer has a text for a case, this is the same text. A refusal ends the client's connection, except for a
//! limit on statements, which fails only the request.
//!
//! Overload is distinguished from failure: a full pool, a slow server, a server that is not available and a limit are
//! four [`Class`]es, which counters have too. One text of PgBouncer's, `query_wait_timeout`, covers all four; its
//! SQLSTATE, its detail and its hint say which one it was ([`Cause`]).

use std::fmt;

use weir_pgwire::{ErrorFields, put_back};

use crate::cause::{Cause, Class};

/// Why a client is refused or disconnected. `Display` is the text that the client and the log receive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// No pool has the name that the client gave as its database.
    NoSuchDatabase(String),
    /// The startup packet names no user.
    NoUser,
    /// A startup packet without encryption, which the operator requires.
    EncryptionRequired,
    /// A startup parameter is neither tracked nor ignored.
    UnsupportedParameter(String),
    /// A startup parameter in `options` is neither tracked nor ignored.
    UnsupportedOption(String),
    /// `options` holds something else than settings.
    BadOptions,
    /// A startup parameter's value can't be used.
    BadParameter(String),
    /// Not a startup packet of protocol 3, or of a replication connection.
    UnsupportedProtocol(String),
    /// Wrong password or unknown user: never distinguished.
    PasswordFailed,
    /// The LDAP server did not accept the password, or could not be reached; the log says why.
    LdapFailed,
    /// PAM did not accept the password; the log says why.
    PamFailed,
    /// The client's token was not accepted; the log says why.
    OauthFailed {
        /// The user that the client claims to be.
        user: String,
        /// It had no token, and has learnt which are accepted: a login with one follows.
        asked: bool,
    },
    /// A server that was queried knows no such user, and clients may learn that.
    NoSuchUser,
    /// The SCRAM exchange failed: wrong password, unknown user, malformed message.
    SaslFailed,
    /// The user's secret can't be looked up; the log says why.
    BadConfig,
    /// The server's answer to an auth_query is an error: its text and SQLSTATE, which only operators see.
    AuthQueryFailed {
        /// The error.
        error: String,
    },
    /// An empty cleartext password.
    EmptyPassword,
    /// Listed nowhere, with the method `trust`.
    TrustFailed,
    /// The client's certificate does not let it in, or it showed none.
    CertificateFailed,
    /// The user of the operating system is not allowed in, or the client did not connect by the Unix socket.
    PeerRejected,
    /// A rule of the HBA file rejects it.
    LoginRejected,
    /// No rule of the HBA file matches it.
    NoRule,
    /// Any client may log in, but the database names no user to log in as.
    NoForcedUser,
    /// The login was not finished in time.
    LoginTimeout,
    /// The login was not finished in time, since no server of the pool, or of the one that auth_query asks, answers.
    LoginTimeoutServerDown {
        /// The pool, its servers, and why none was reached, in sentences.
        detail: String,
    },
    /// No server of the pool has been reached since the start.
    NeverReached {
        /// The error of the last attempt.
        message: String,
        /// The pool and its servers, in a sentence.
        detail: String,
    },
    /// More clients are logging in than can be verified in time.
    TooManyLogins,
    /// All client connections are taken.
    TooManyClients,
    /// All client connections of the database are taken.
    TooManyDatabaseClients,
    /// All client connections of the user are taken.
    TooManyUserClients,
    /// All client connections of the address are taken.
    TooManyAddressClients,
    /// Neither an administrator of the console nor a user who may read it.
    NotAllowed,
    /// The operator lets the user not log in (`disabled` of the user).
    UserDisabled(String),
    /// The user may not use the pool (`pools` of the user).
    PoolNotAllowed {
        /// The user.
        user: String,
        /// The name that the client gave as its database; there may be no such pool.
        pool: String,
    },
    /// At the console as the user reserved for this process's operating system user, from another one.
    NotOwner {
        /// Which one it is, in a sentence.
        detail: String,
    },
    /// At the console as a user that is not listed; an auth_query has no server to query there.
    NoConsoleUser {
        /// Which user, in a sentence.
        detail: String,
    },
    /// The wait for a server exceeded query_wait_timeout.
    QueryWaitTimeout {
        /// The cause.
        cause: Cause,
        /// The cause with names and figures, in sentences.
        detail: String,
    },
    /// The wait for a server exceeded query_timeout, which covers it where a `pgbouncer.ini` sets it.
    WaitQueryTimeout {
        /// The cause.
        cause: Cause,
        /// The cause with names and figures, in sentences.
        detail: String,
    },
    /// A query exceeded query_timeout.
    QueryTimeout,
    /// Idle for longer than client_idle_timeout.
    ClientIdleTimeout,
    /// Idle in a transaction for longer than idle_transaction_timeout.
    IdleTransactionTimeout,
    /// A transaction exceeded transaction_timeout.
    TransactionTimeout,
    /// The server could not be reached, or refused us, with its own text.
    ServerDown {
        /// The server's SQLSTATE, or 08006 where there was none.
        sqlstate: String,
        /// The server's text.
        message: String,
        /// The pool and the server of a login that failed, in a sentence; empty: not a login.
        detail: String,
    },
    /// No login to a server was completed in time; which one.
    ServerSlow {
        /// What took too long.
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
    /// A message is longer than max_packet_size.
    MessageTooLong,
    /// A query by the simple protocol, with disable_pqexec.
    SimpleQuery,
    /// A limit on prepared statements.
    StatementLimit(&'static str),
    /// The client has left state for which it would have to keep its server, and too many clients do.
    TooManyPinned(&'static str),
    /// The client does not take the notifications for which it listens.
    TooManyNotifications,
    /// The client listens through a shared server, for which its pool has become too small.
    NoListener,
    /// The client has left state for which it would have to keep its server, which its pool does not allow.
    PinRefused(&'static str),
    /// A tracked parameter of the client could not be set on a server; the server's text.
    ParameterFailed {
        /// The server's SQLSTATE.
        sqlstate: String,
        /// The server's text.
        message: String,
    },
    /// The process is being shut down, and takes no more clients.
    ShuttingDown,
    /// The process is being shut down, and servers take no more work.
    ServersShuttingDown,
    /// The process drains: its clients are closed, each between two transactions.
    Leaving,
    /// The client held a server of a host that its pool has left for another primary.
    PrimaryMoved,
    /// The operator closed the connection (KILL_CLIENT).
    Killed,
    /// The operator closed all connections of the database (KILL).
    DatabaseKilled,
    /// The operator has the database take no new clients (DISABLE).
    DatabaseDisabled(String),
    /// The database in which the user's secret must be looked up is disabled.
    AuthDatabaseDisabled(String),
    /// The client did not take what was sent to it while everything was suspended.
    SuspendTimeout,
    /// Another process has taken over, and the client stayed with this one for too long (`upgrade_timeout`).
    UpgradeTimeout,
    /// The pool was removed, or its user changed.
    PoolGone,
    /// An invariant of Weir does not hold; the link is closed because it can't be trusted.
    Broken(&'static str),
}

/// The SQLSTATE of a server that did not answer.
const NO_SERVER: &str = "08006";

/// Whose SQLSTATEs refused clients receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SqlStates {
    /// PostgreSQL's, which distinguish causes.
    PostgreSql,
    /// PgBouncer's.
    PgBouncer,
}

impl Refusal {
    /// The SQLSTATE of the error (PostgreSQL documentation, Appendix A).
    pub fn sqlstate(&self) -> &str {
        match self {
            Refusal::NoSuchDatabase(_) | Refusal::PoolGone => "3D000",
            Refusal::NoUser
            | Refusal::LdapFailed
            | Refusal::PamFailed
            | Refusal::NoSuchUser
            | Refusal::PasswordFailed
            | Refusal::SaslFailed
            | Refusal::EmptyPassword
            | Refusal::TrustFailed => "28P01",
            Refusal::CertificateFailed
            | Refusal::OauthFailed { .. }
            | Refusal::PeerRejected
            | Refusal::LoginRejected
            | Refusal::NoRule
            | Refusal::NotOwner { .. }
            | Refusal::NoConsoleUser { .. }
            | Refusal::UserDisabled(_)
            | Refusal::PoolNotAllowed { .. }
            | Refusal::NotAllowed => "28000",
            Refusal::NoForcedUser | Refusal::BadConfig | Refusal::AuthQueryFailed { .. } => "F0000",
            Refusal::UnsupportedParameter(_)
            | Refusal::UnsupportedOption(_)
            | Refusal::BadOptions
            | Refusal::SimpleQuery
            | Refusal::UnsupportedProtocol(_)
            | Refusal::EncryptionRequired
            | Refusal::Protocol(_)
            | Refusal::TransactionInStatementMode => "08P01",
            Refusal::BadParameter(_) => "22023",
            Refusal::LoginTimeout | Refusal::LoginTimeoutServerDown { .. } => "08P01",
            Refusal::TooManyLogins
            | Refusal::TooManyClients
            | Refusal::TooManyDatabaseClients
            | Refusal::TooManyUserClients
            | Refusal::TooManyAddressClients
            | Refusal::TooManyPinned(_) => "53300",
            Refusal::QueryWaitTimeout { cause, .. } | Refusal::WaitQueryTimeout { cause, .. } => {
                Cause::sqlstate(*cause)
            }
            Refusal::PinRefused(_) => "0A000",
            Refusal::QueryTimeout => "57014",
            Refusal::ClientIdleTimeout => "57P05",
            Refusal::IdleTransactionTimeout => "25P03",
            Refusal::TransactionTimeout => "25P04",
            Refusal::ServerDown { sqlstate, .. } | Refusal::ParameterFailed { sqlstate, .. } => sqlstate,
            Refusal::ServerSlow { .. } => "08001",
            Refusal::ServerLost | Refusal::ServerUnexpected | Refusal::NeverReached { .. } => "08006",
            Refusal::TooManyNotifications => "53400",
            Refusal::StatementLimit(_) | Refusal::MessageTooLong => "54000",
            Refusal::ShuttingDown
            | Refusal::ServersShuttingDown
            | Refusal::Leaving
            | Refusal::PrimaryMoved
            | Refusal::Killed
            | Refusal::DatabaseKilled
            | Refusal::SuspendTimeout
            | Refusal::UpgradeTimeout
            | Refusal::NoListener => "57P01",
            Refusal::DatabaseDisabled(_) | Refusal::AuthDatabaseDisabled(_) => "57P03",
            Refusal::Broken(_) => "XX000",
        }
    }

    /// The underlying cause.
    pub fn class(&self) -> Class {
        match self {
            Refusal::QueryWaitTimeout { cause, .. } | Refusal::WaitQueryTimeout { cause, .. } => cause.class(),
            Refusal::QueryTimeout | Refusal::ServerSlow { .. } => Class::ServerSlow,
            // A server that has no room is not down: it has reached its max_connections.
            Refusal::ServerDown { sqlstate, .. } if sqlstate.starts_with("53") => Class::LimitReached,
            Refusal::ServerDown { .. }
            | Refusal::ServerLost
            | Refusal::ServerUnexpected
            | Refusal::PrimaryMoved
            | Refusal::LoginTimeoutServerDown { .. }
            | Refusal::NeverReached { .. } => Class::ServerDown,
            Refusal::TooManyLogins
            | Refusal::TooManyClients
            | Refusal::TooManyDatabaseClients
            | Refusal::TooManyUserClients
            | Refusal::TooManyAddressClients
            | Refusal::TooManyPinned(_)
            | Refusal::TooManyNotifications
            | Refusal::StatementLimit(_) => Class::LimitReached,
            _ => Class::Other,
        }
    }

    /// The setting whose limit was reached, by its name in a `weir.toml`; none where no single one is.
    pub fn limit(&self) -> Option<&'static str> {
        Some(match self {
            Refusal::TooManyClients => "max_clients",
            Refusal::TooManyDatabaseClients => "max_db_client_connections",
            Refusal::TooManyUserClients => "max_user_client_connections",
            Refusal::TooManyAddressClients => "max_address_connections",
            Refusal::TooManyPinned(_) => "max_pinned",
            _ => return None,
        })
    }

    /// The reason for operators, where clients get only PgBouncer's text: before a login they learn nothing of a server.
    pub fn reason(&self) -> String {
        match self {
            Refusal::AuthQueryFailed { error } => format!("auth_query failed: {error}"),
            other => other.to_string(),
        }
    }

    /// Whether it ends a connection by which a client has learnt what it needs for its login: nothing has failed.
    pub fn is_expected(&self) -> bool {
        matches!(self, Refusal::OauthFailed { asked: true, .. })
    }

    /// Whether the client's own login is refused: for who it is, what it asks for, or a limit of clients. Not for a server
    /// that can't be reached, which is a state of its pool.
    pub fn denies_login(&self) -> bool {
        matches!(
            self,
            Refusal::NoSuchDatabase(_)
                | Refusal::NoUser
                | Refusal::EncryptionRequired
                | Refusal::UnsupportedParameter(_)
                | Refusal::UnsupportedOption(_)
                | Refusal::BadOptions
                | Refusal::BadParameter(_)
                | Refusal::PasswordFailed
                | Refusal::LdapFailed
                | Refusal::PamFailed
                | Refusal::OauthFailed { asked: false, .. }
                | Refusal::NoSuchUser
                | Refusal::SaslFailed
                | Refusal::BadConfig
                | Refusal::AuthQueryFailed { .. }
                | Refusal::EmptyPassword
                | Refusal::TrustFailed
                | Refusal::CertificateFailed
                | Refusal::PeerRejected
                | Refusal::LoginRejected
                | Refusal::NoRule
                | Refusal::NoForcedUser
                | Refusal::UserDisabled(_)
                | Refusal::PoolNotAllowed { .. }
                | Refusal::TooManyLogins
                | Refusal::TooManyClients
                | Refusal::TooManyDatabaseClients
                | Refusal::TooManyUserClients
                | Refusal::TooManyAddressClients
        )
    }

    /// The SQLSTATE that PgBouncer sends: one for all of its own errors, and the server's for a server's error. PgBouncer
    /// does not drain; libraries know the SQLSTATE of a server that does.
    fn pgbouncer_sqlstate(&self) -> &str {
        match self {
            Refusal::ServerDown { sqlstate, .. } if sqlstate != NO_SERVER => sqlstate,
            Refusal::ParameterFailed { sqlstate, .. } => sqlstate,
            Refusal::Leaving | Refusal::PrimaryMoved => self.sqlstate(),
            _ => "08P01",
        }
    }

    /// Appends the error as a message for the client, and its connection ends.
    pub fn write(&self, states: SqlStates, buffer: &mut Vec<u8>) {
        let sqlstate = match states {
            SqlStates::PostgreSql => self.sqlstate(),
            SqlStates::PgBouncer => self.pgbouncer_sqlstate(),
        };
        self.write_as("FATAL", sqlstate, buffer);
    }

    /// Appends the error as a message for the client, and its connection continues.
    pub(crate) fn write_error(&self, buffer: &mut Vec<u8>) {
        self.write_as("ERROR", self.sqlstate(), buffer);
    }

    fn write_as(&self, severity: &str, sqlstate: &str, buffer: &mut Vec<u8>) {
        let message = self.to_string();
        let fields = ErrorFields { severity, sqlstate, message: &message, detail: self.detail(), hint: self.hint() };
        put_back::error(buffer, &fields);
    }

    /// The details of this case, in addition to the fixed text.
    pub fn detail(&self) -> Option<&str> {
        match self {
            Refusal::QueryWaitTimeout { detail, .. }
            | Refusal::WaitQueryTimeout { detail, .. }
            | Refusal::ServerDown { detail, .. }
            | Refusal::LoginTimeoutServerDown { detail }
            | Refusal::NeverReached { detail, .. }
            | Refusal::NotOwner { detail }
            | Refusal::NoConsoleUser { detail }
                if !detail.is_empty() =>
            {
                Some(detail)
            }
            Refusal::Leaving => {
                Some("This pooler is about to exit. A request without an answer was not sent to a server.")
            }
            _ => None,
        }
    }

    /// What to do about it, for the client and whoever operates Weir.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Refusal::NoSuchDatabase(_) => {
                Some("Clients name a pool as their database; see [pools], or [databases] of an ini.")
            }
            Refusal::UnsupportedParameter(_) | Refusal::UnsupportedOption(_) => Some(
                "Set untracked_startup_parameters to set, which sets such parameters on each server that the client \
                     gets, or ignore it by ignore_startup_parameters.",
            ),
            Refusal::PasswordFailed | Refusal::SaslFailed | Refusal::EmptyPassword | Refusal::TrustFailed => Some(
                "The client's own user or password is refused here, by the pooler, not by PostgreSQL: see the auth file, or \
                 auth_query. The pooler's log has more.",
            ),
            Refusal::LdapFailed | Refusal::PamFailed | Refusal::OauthFailed { .. } => {
                Some("The pooler's log has the reason.")
            }
            Refusal::NotAllowed => Some("The console is for users of admin_users and stats_users."),
            Refusal::UserDisabled(_) => Some("Enable the user in the panel, or remove disabled from [users.NAME]."),
            Refusal::PoolNotAllowed { .. } => {
                Some("Add the pool to the user's pools, in the panel or in [users.NAME].")
            }
            Refusal::LoginTimeoutServerDown { .. } | Refusal::NeverReached { .. } => {
                Some("Start PostgreSQL, or correct the host and port of the pool. The pooler's log has each attempt.")
            }
            Refusal::EncryptionRequired => Some("Connect with sslmode=require, or a stricter one."),
            Refusal::TooManyLogins => Some("Try again in a moment."),
            Refusal::TooManyClients => Some("Raise max_clients."),
            Refusal::BadConfig | Refusal::NoForcedUser | Refusal::AuthQueryFailed { .. } => {
                Some("The log of the pooler has the reason.")
            }
            Refusal::NotOwner { .. } => {
                Some("Connect as that operating-system user (sudo -u), or as a user of admin_users, with its password.")
            }
            Refusal::NoConsoleUser { .. } => {
                Some("List the user with a secret in the auth file, and in admin_users or stats_users.")
            }
            Refusal::QueryWaitTimeout { cause, .. } | Refusal::WaitQueryTimeout { cause, .. } => Some(cause.hint()),
            Refusal::ServerSlow { .. } => Some("The pool has no server now. A retry is safe."),
            Refusal::ServerLost => Some(
                "The server or the network ended the connection: see PostgreSQL's log. Whether the request was executed is \
                 not known.",
            ),
            Refusal::ServerDown { sqlstate, detail, .. } if !detail.is_empty() && sqlstate == "3D000" => {
                Some("Correct the pool's database, or create it at the server.")
            }
            Refusal::ServerDown { sqlstate, detail, .. } if !detail.is_empty() && sqlstate == "28P01" => Some(
                "The pooler logs in there with the pool's user and password; where the pool has none, with the client's \
                     user and its listed password. Correct them.",
            ),
            Refusal::ServerDown { sqlstate, detail, .. } if !detail.is_empty() && sqlstate == "28000" => {
                Some("Allow the pooler's address and user in the server's pg_hba.conf.")
            }
            // A login that is not tried again for a waiting client.
            Refusal::ServerDown { sqlstate, detail, .. } if !detail.is_empty() && sqlstate == NO_SERVER => {
                Some("Correct the pool's settings if it persists. The pooler's log has each attempt.")
            }
            // What the server itself refuses (a database that does not exist, a password) stays refused.
            Refusal::ServerDown { sqlstate, .. }
                if ["08", "53", "57"].iter().any(|class| sqlstate.starts_with(class)) =>
            {
                Some("The pool has no server now. A retry is safe.")
            }
            Refusal::TransactionInStatementMode => Some("Use the pool mode transaction."),
            Refusal::TooManyPinned(_) => Some(
                "Remove such state when it is not used (UNLISTEN, DEALLOCATE, DROP, unlock, RESET ALL), use a pool in session \
                 mode for such clients, or raise max_pinned.",
            ),
            Refusal::TooManyNotifications => Some(
                "Read from the connection between transactions, and keep transactions of a connection that listens short.",
            ),
            Refusal::NoListener => {
                Some("Connect again, raise the pool's size, or use a pool in session mode to listen.")
            }
            Refusal::Leaving => {
                Some("Connect again: another process serves. Then repeat the request, if there was one.")
            }
            Refusal::PrimaryMoved => Some(
                "Connect again, and repeat the transaction. If it was open, whether it was committed at the old primary is not \
                 known.",
            ),
            Refusal::PinRefused(_) => Some(
                "Do without such state, use a pool in session mode for such clients, or take the kind out of pin_refuse.",
            ),
            Refusal::StatementLimit(_) => Some(
                "Close statements that are not used, and bind values as parameters instead of writing them into texts.",
            ),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoSuchDatabase(name) => write!(f, "no such database: {name}"),
            Refusal::NoUser => f.write_str("no username supplied"),
            Refusal::EncryptionRequired => f.write_str("SSL required"),
            Refusal::UnsupportedParameter(name) => write!(f, "unsupported startup parameter: {name}"),
            Refusal::UnsupportedOption(name) => write!(f, "unsupported startup parameter in options: {name}"),
            Refusal::BadOptions => f.write_str(
                "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed",
            ),
            Refusal::BadParameter(name) => write!(f, "invalid value for startup parameter: {name}"),
            Refusal::UnsupportedProtocol(what) => write!(f, "unsupported protocol: {what}"),
            Refusal::PasswordFailed => f.write_str("password authentication failed"),
            Refusal::LdapFailed => f.write_str("LDAP authentication failed"),
            Refusal::PamFailed => f.write_str("PAM authentication failed"),
            Refusal::OauthFailed { user, .. } => write!(f, "OAuth bearer authentication failed for user \"{user}\""),
            Refusal::NoSuchUser => f.write_str("no such user"),
            Refusal::SaslFailed => f.write_str("SASL authentication failed"),
            Refusal::EmptyPassword => f.write_str("empty password returned by client"),
            Refusal::TrustFailed => f.write_str("\"trust\" authentication failed"),
            Refusal::CertificateFailed => f.write_str("certificate authentication failed"),
            Refusal::PeerRejected => f.write_str("unix socket login rejected"),
            Refusal::LoginRejected => f.write_str("login rejected"),
            Refusal::NoRule => f.write_str("no authentication method is found"),
            Refusal::NoForcedUser | Refusal::BadConfig | Refusal::AuthQueryFailed { .. } => {
                f.write_str("bouncer config error")
            }
            Refusal::LoginTimeout => f.write_str("client_login_timeout"),
            Refusal::LoginTimeoutServerDown { .. } => f.write_str("client_login_timeout (server down)"),
            Refusal::TooManyLogins => f.write_str("too many clients are logging in at once"),
            Refusal::TooManyClients => f.write_str("no more connections allowed (max_client_conn)"),
            Refusal::TooManyDatabaseClients => f.write_str("client connections exceeded (max_db_client_connections)"),
            Refusal::TooManyUserClients => f.write_str("client connections exceeded (max_user_client_connections)"),
            Refusal::TooManyAddressClients => f.write_str("client connections exceeded (max_address_connections)"),
            Refusal::NotAllowed => f.write_str("not allowed"),
            Refusal::UserDisabled(name) => write!(f, "user {name:?} is disabled"),
            Refusal::PoolNotAllowed { user, pool } => write!(f, "user {user:?} may not use pool {pool:?}"),
            Refusal::NotOwner { .. } => {
                f.write_str("this user of the console is for the operating-system user that runs the pooler")
            }
            Refusal::NoConsoleUser { .. } => f.write_str("no such user of the console"),
            Refusal::QueryWaitTimeout { .. } => f.write_str("query_wait_timeout"),
            Refusal::WaitQueryTimeout { .. } => f.write_str("query_timeout"),
            Refusal::QueryTimeout => f.write_str("query timeout"),
            Refusal::ClientIdleTimeout => f.write_str("client_idle_timeout"),
            Refusal::IdleTransactionTimeout => f.write_str("idle transaction timeout"),
            Refusal::TransactionTimeout => f.write_str("transaction timeout"),
            Refusal::ServerDown { message, .. }
            | Refusal::NeverReached { message, .. }
            | Refusal::ServerSlow { message }
            | Refusal::ParameterFailed { message, .. } => f.write_str(message),
            Refusal::ServerLost => f.write_str("server conn crashed?"),
            Refusal::ServerUnexpected => f.write_str("unexpected response from server"),
            Refusal::TransactionInStatementMode => {
                f.write_str("transaction blocks not allowed in statement pooling mode")
            }
            Refusal::Protocol(what) => write!(f, "protocol violation: {what}"),
            Refusal::MessageTooLong => f.write_str("message too long (max_packet_size)"),
            Refusal::SimpleQuery => f.write_str("PQexec disallowed"),
            Refusal::StatementLimit(what) => f.write_str(what),
            Refusal::TooManyPinned(what) => {
                write!(f, "too many clients of this pool keep a server connection (max_pinned): {what}")
            }
            Refusal::TooManyNotifications => f.write_str("too many notifications wait for this client"),
            Refusal::NoListener => f.write_str("the pool has no server connection left to listen for its clients"),
            Refusal::PinRefused(what) => write!(f, "this pool keeps no server for its client (pin_refuse): {what}"),
            Refusal::ShuttingDown => f.write_str("pooler is shutting down"),
            Refusal::ServersShuttingDown => f.write_str("server shutting down"),
            // PostgreSQL's text, which libraries know.
            Refusal::Leaving => f.write_str("terminating connection due to administrator command"),
            Refusal::PrimaryMoved => f.write_str("terminating connection because the primary has moved"),
            Refusal::Killed => f.write_str("admin forced disconnect"),
            Refusal::DatabaseKilled => f.write_str("database removed"),
            Refusal::AuthDatabaseDisabled(name) => write!(f, "authentication database {name:?} is disabled"),
            Refusal::DatabaseDisabled(name) => write!(f, "database {name:?} is disabled"),
            Refusal::SuspendTimeout => f.write_str("suspend_timeout"),
            Refusal::UpgradeTimeout => f.write_str("upgrade_timeout"),
            Refusal::PoolGone => f.write_str("database configuration changed"),
            Refusal::Broken(what) => write!(f, "internal error: {what}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_and_failure_differ_in_class_in_sqlstate_and_in_words() {
        let causes = [Cause::PoolFull, Cause::ServerSlow, Cause::ServerDown, Cause::LimitReached];
        let waits = causes.map(|cause| Refusal::QueryWaitTimeout { cause, detail: String::new() });
        for (at, one) in waits.iter().enumerate() {
            assert_eq!(one.to_string(), "query_wait_timeout", "PgBouncer's text");
            for other in &waits[at + 1..] {
                assert_ne!(one.class(), other.class());
                assert_ne!(one.sqlstate(), other.sqlstate());
                assert_ne!(one.hint(), other.hint());
            }
        }
    }

    #[test]
    fn a_server_without_room_is_at_its_limit_and_not_down() {
        let said = |sqlstate: &str| {
            Refusal::ServerDown { sqlstate: sqlstate.into(), message: "no".into(), detail: String::new() }.class()
        };
        assert_eq!(said("53300"), Class::LimitReached);
        assert_eq!(said("57P03"), Class::ServerDown);
        assert_eq!(said("08006"), Class::ServerDown);
    }

    #[test]
    fn an_ini_reads_pgbouncers_sqlstates_and_a_servers_own() {
        let code = |refusal: &Refusal, states| {
            let mut buffer = Vec::new();
            refusal.write(states, &mut buffer);
            let at = buffer.windows(2).position(|two| two == b"\0C").expect("a code");
            String::from_utf8_lossy(&buffer[at + 2..at + 7]).into_owned()
        };
        let down = |sqlstate: &str| Refusal::ServerDown {
            sqlstate: sqlstate.into(),
            message: "no".into(),
            detail: String::new(),
        };
        for (refusal, own, pgbouncers) in [
            (Refusal::IdleTransactionTimeout, "25P03", "08P01"),
            (Refusal::PoolGone, "3D000", "08P01"),
            (Refusal::PasswordFailed, "28P01", "08P01"),
            (Refusal::Leaving, "57P01", "57P01"),
            (down("08006"), "08006", "08P01"),
            (down("57P03"), "57P03", "57P03"),
        ] {
            assert_eq!(code(&refusal, SqlStates::PostgreSql), own, "{refusal:?}");
            assert_eq!(code(&refusal, SqlStates::PgBouncer), pgbouncers, "{refusal:?}");
        }
    }
}
