//! Errors: the server's own, and those of the connection.

use std::fmt;
use std::io;

use weir_pgwire::{Malformed, backend};

use crate::frame::text;

/// An error or a notice as the server sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerErrorFields {
    /// FATAL, ERROR, NOTICE …, untranslated if the server sends that.
    pub severity: String,
    /// Five characters; PostgreSQL's documentation, "PostgreSQL Error Codes".
    pub sqlstate: String,
    /// What happened.
    pub message: String,
    /// More about what happened.
    pub detail: Option<String>,
    /// What to do.
    pub hint: Option<String>,
}

impl ServerErrorFields {
    /// Reads the body of an ErrorResponse or NoticeResponse.
    pub fn read(body: &[u8]) -> Result<Self, Malformed> {
        let view = backend::error_fields(body)?;
        let field = |bytes: Option<&[u8]>| bytes.map(text).unwrap_or_default();
        Ok(ServerErrorFields {
            severity: field(view.severity()),
            sqlstate: field(view.sqlstate()),
            message: field(view.message()),
            detail: view.get(b'D').map(text),
            hint: view.get(b'H').map(text),
        })
    }
}

impl fmt::Display for ServerErrorFields {
    /// As psql shows it, without detail and hint.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:  {}", self.severity, self.message)
    }
}

/// Why a client did not get its answer.
#[derive(Debug)]
pub enum Error {
    /// The server sent an ErrorResponse.
    Server(Box<ServerErrorFields>),
    /// The server closed the connection in order, between two messages.
    Closed,
    /// Nothing came in time.
    Timeout,
    /// The connection could not be made, or broke.
    Io(io::Error),
    /// The server sent what the protocol does not allow here.
    Protocol(String),
    /// The login needs a method that is not there, or the server did not prove that it knows the password.
    Login(String),
    /// The server requests the password of this user, and none is known.
    NoPassword(String),
}

impl Error {
    /// The server's ErrorResponse, if it is one.
    pub fn server(&self) -> Option<&ServerErrorFields> {
        match self {
            Error::Server(error) => Some(error),
            _ => None,
        }
    }

    /// The SQLSTATE, if the server sent one.
    pub fn sqlstate(&self) -> Option<&str> {
        self.server().map(|error| error.sqlstate.as_str())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Server(error) => error.fmt(f),
            Error::Closed => f.write_str("the server closed the connection"),
            Error::Timeout => f.write_str("the server did not answer in time"),
            Error::Io(error) => error.fmt(f),
            Error::Protocol(text) | Error::Login(text) => f.write_str(text),
            Error::NoPassword(user) => write!(f, "the server asks for the password of user \"{user}\""),
        }
    }
}

impl std::error::Error for Error {}

impl From<ServerErrorFields> for Error {
    fn from(error: ServerErrorFields) -> Self {
        Error::Server(Box::new(error))
    }
}

impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Error::Protocol(error.to_string())
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Error::Timeout,
            _ => Error::Io(error),
        }
    }
}
