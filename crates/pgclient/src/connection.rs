//! A connection: queries, COPY, cancel, single frames. `login` has the login.

mod login;

use std::collections::BTreeMap;
use std::io;
use std::net::TcpStream;
use std::time::Duration;

use weir_pgwire::{TxStatus, backend, put_front, tag};

use crate::deadline::DeadlineSocket;
use crate::error::{Error, ServerErrorFields};
use crate::frame::{Frame, text};
use crate::params::{Address, Bounds, ConnectParams};
use crate::stream::{Stream, Transport};

/// What one statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The columns' names; empty for a statement without rows.
    pub columns: Vec<String>,
    /// The rows as text; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag: `SELECT 3`; empty for an empty statement.
    pub tag: String,
}

impl Answer {
    /// The value in a row, by its column's name; `None` for NULL and for what is not there.
    pub fn get(&self, row: usize, column: &str) -> Option<&str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.rows.get(row)?.get(at)?.as_deref()
    }
}

/// A connection to PostgreSQL, or to something that speaks like it.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    address: Address,
    pid: u32,
    key: Vec<u8>,
    parameters: BTreeMap<String, String>,
    status: TxStatus,
    /// The server requested no authentication.
    trusted: bool,
    notices: Vec<ServerErrorFields>,
    notifications: Vec<(String, String)>,
}

impl Connection {
    /// Connects and logs in.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] for a refusal in the server's own words; otherwise what went wrong on the way.
    pub fn connect(params: &ConnectParams) -> Result<Self, Error> {
        let mut connection = Self::open(params)?;
        connection.login(params)?;
        Ok(connection)
    }

    /// Connects and sends nothing; the first packet is the caller's, by [`Connection::send_bytes`].
    pub fn open(params: &ConnectParams) -> Result<Self, Error> {
        Ok(Connection {
            stream: Stream::connect(&params.address, params.timeout, params.bounds)?,
            address: params.address.clone(),
            pid: 0,
            key: Vec::new(),
            parameters: BTreeMap::new(),
            status: TxStatus::Idle,
            trusted: false,
            notices: Vec::new(),
            notifications: Vec::new(),
        })
    }

    /// Whether the server requested no authentication at the login.
    pub fn is_trusted(&self) -> bool {
        self.trusted
    }

    /// Whether the server is on this machine: the connection is by a Unix socket, or to a loopback address.
    pub fn is_local(&self) -> bool {
        self.stream.is_local()
    }

    /// Asks an opened connection whether it can be encrypted; if so, that must come next (PostgreSQL's documentation,
    /// "SSL Session Encryption").
    ///
    /// # Errors
    ///
    /// An answer of any other kind. Bytes behind the answer would be taken for encrypted ones, so they are refused.
    pub fn ask_for_encryption(&mut self) -> Result<bool, Error> {
        let mut message = Vec::new();
        put_front::ssl_request(&mut message);
        self.send_bytes(&message)?;
        match self.stream.answer()?.as_slice() {
            b"S" => Ok(true),
            b"N" => Ok(false),
            _ => Err(Error::Protocol("an unexpected answer to SSLRequest".to_owned())),
        }
    }

    /// The connection over TLS, which `handshake` makes of its socket. One by a Unix socket stays as it is.
    ///
    /// # Errors
    ///
    /// Those of `handshake`.
    pub fn encrypt(
        self,
        handshake: impl FnOnce(DeadlineSocket) -> io::Result<Box<dyn Transport>>,
    ) -> Result<Self, Error> {
        Ok(Connection { stream: self.stream.encrypt(handshake)?, ..self })
    }

    /// Other bounds from here on, for a connection that is used again.
    pub fn renew(&mut self, bounds: Bounds) {
        self.stream.renew(bounds);
    }

    /// Runs statements and returns what the last of them answered.
    pub fn query(&mut self, sql: &str) -> Result<Answer, Error> {
        Ok(self.query_all(sql)?.pop().unwrap_or_default())
    }

    /// Runs statements by the simple protocol; one answer a statement. A COPY that wants data is refused.
    ///
    /// # Errors
    ///
    /// The first error of the server's, once it is ready again; a FATAL one at once.
    pub fn query_all(&mut self, sql: &str) -> Result<Vec<Answer>, Error> {
        let mut message = Vec::with_capacity(sql.len() + 6);
        put_front::query(&mut message, sql);
        self.send_bytes(&message)?;
        self.answers()
    }

    /// The first value of the first row, as text.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, Error> {
        let first_row = self.query(sql)?.rows.into_iter().next();
        Ok(first_row.and_then(|row| row.into_iter().next().flatten()))
    }

    /// Runs a `COPY … FROM STDIN` with this data; returns the command tag.
    pub fn copy_in(&mut self, sql: &str, data: &[u8]) -> Result<String, Error> {
        let mut message = Vec::new();
        put_front::query(&mut message, sql);
        self.send_bytes(&message)?;
        let first = self.next_frame()?;
        if first.tag != tag::back::COPY_IN {
            return self.answers_from(first).map(|_| String::new());
        }
        message.clear();
        for chunk in data.chunks(64 * 1024) {
            put_front::copy_data(&mut message, chunk);
        }
        put_front::copy_done(&mut message);
        self.send_bytes(&message)?;
        Ok(self.answers()?.pop().unwrap_or_default().tag)
    }

    /// Runs a `COPY … TO STDOUT`; returns all its data.
    pub fn copy_out(&mut self, sql: &str) -> Result<Vec<u8>, Error> {
        let mut message = Vec::new();
        put_front::query(&mut message, sql);
        self.send_bytes(&message)?;
        let mut data = Vec::new();
        let mut failure = None;
        loop {
            let frame = self.next_frame()?;
            match frame.tag {
                tag::back::COPY_DATA => data.extend_from_slice(&frame.body),
                tag::back::ERROR => failure = failure.or(Some(self.server_error(&frame)?)),
                tag::back::READY => return failure.map_or(Ok(data), |error| Err(error.into())),
                _ => {}
            }
        }
    }

    /// Sends bytes as they are.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.stream.send(bytes)
    }

    /// The next message, whatever it is, within this time. Parameters, notices and the transaction's state are recorded
    /// on the way; every message is returned.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if none came in full, [`Error::Closed`] if the server closed the connection in order.
    pub fn read_frame(&mut self, timeout: Duration) -> Result<Frame, Error> {
        let frame = self.stream.frame(Some(timeout))?;
        self.record(&frame)?;
        Ok(frame)
    }

    /// All messages up to and with the next ReadyForQuery.
    pub fn read_until_ready(&mut self) -> Result<Vec<Frame>, Error> {
        let mut frames = Vec::new();
        while frames.last().is_none_or(|frame: &Frame| frame.tag != tag::back::READY) {
            frames.push(self.next_frame()?);
        }
        Ok(frames)
    }

    /// Bytes as they come, at least one; for answers that are not messages, such as the one to SSLRequest.
    pub fn read_bytes(&mut self, timeout: Duration) -> Result<Vec<u8>, Error> {
        self.stream.bytes(timeout)
    }

    /// Closes the sending half, as `shutdown(SHUT_WR)` does.
    pub fn shutdown_write(&mut self) -> Result<(), Error> {
        self.stream.shutdown_write()
    }

    /// The state of the transaction, as the last ReadyForQuery said.
    pub fn status(&self) -> TxStatus {
        self.status
    }

    /// A parameter as the server last reported it.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str)
    }

    /// The process id in BackendKeyData.
    pub fn backend_pid(&self) -> u32 {
        self.pid
    }

    /// The notices since the last call.
    pub fn take_notices(&mut self) -> Vec<ServerErrorFields> {
        std::mem::take(&mut self.notices)
    }

    /// The notifications since the last call: channel and payload.
    pub fn take_notifications(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.notifications)
    }

    /// Asks for whatever this connection runs to be cancelled; can be sent from any thread.
    pub fn canceller(&self) -> Canceller {
        Canceller { address: self.address.clone(), pid: self.pid, key: self.key.clone() }
    }

    /// Sends Terminate and closes.
    pub fn close(mut self) -> Result<(), Error> {
        let mut message = Vec::new();
        put_front::terminate(&mut message);
        self.send_bytes(&message)
    }

    /// Sends Terminate, and waits until the server has closed the connection: PostgreSQL counts it no more then.
    ///
    /// # Errors
    /// The connection's time has ended before.
    pub fn end(mut self) -> Result<(), Error> {
        let mut message = Vec::new();
        put_front::terminate(&mut message);
        self.send_bytes(&message)?;
        loop {
            match self.next_frame() {
                Ok(_) => {}
                Err(Error::Timeout) => return Err(Error::Timeout),
                Err(_) => return Ok(()),
            }
        }
    }

    /// The socket of an idle TCP connection, for a caller that speaks the protocol itself from here on; `None` for a
    /// Unix socket, and when received bytes were not read.
    pub fn into_tcp(self) -> Option<TcpStream> {
        self.stream.into_tcp()
    }

    /// The next message within the connection's own time limit.
    fn next_frame(&mut self) -> Result<Frame, Error> {
        let frame = self.stream.frame(None)?;
        self.record(&frame)?;
        Ok(frame)
    }

    /// Keeps the state that a message carries: transaction status, parameters, notices, notifications.
    fn record(&mut self, frame: &Frame) -> Result<(), Error> {
        match frame.tag {
            tag::back::READY => self.status = backend::ready(&frame.body)?,
            tag::back::PARAMETER_STATUS => {
                let (name, value) = backend::parameter_status(&frame.body)?;
                self.parameters.insert(text(name), text(value));
            }
            tag::back::NOTICE => {
                let notice = ServerErrorFields::read(&frame.body)?;
                self.notices.push(notice);
            }
            tag::back::NOTIFICATION => {
                let notification = backend::notification(&frame.body)?;
                self.notifications.push((text(notification.channel), text(notification.payload)));
            }
            _ => {}
        }
        Ok(())
    }

    fn answers(&mut self) -> Result<Vec<Answer>, Error> {
        let first = self.next_frame()?;
        self.answers_from(first)
    }

    /// Reads up to ReadyForQuery, beginning with a message that has been read already.
    fn answers_from(&mut self, mut frame: Frame) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::new();
        let mut current = Answer::default();
        let mut failure = None;
        while frame.tag != tag::back::READY {
            match frame.tag {
                tag::back::ROW_DESCRIPTION => {
                    current.columns = backend::row_description(&frame.body)?.map(|column| text(column.name)).collect();
                }
                tag::back::DATA_ROW => {
                    current.rows.push(backend::data_row(&frame.body)?.map(|value| value.map(text)).collect());
                }
                tag::back::COMMAND_COMPLETE => {
                    current.tag = text(backend::command_tag(&frame.body)?);
                    answers.push(std::mem::take(&mut current));
                }
                tag::back::EMPTY_QUERY => answers.push(std::mem::take(&mut current)),
                tag::back::ERROR => failure = failure.or(Some(self.server_error(&frame)?)),
                tag::back::COPY_IN => self.refuse_copy()?,
                _ => {}
            }
            frame = self.next_frame()?;
        }
        failure.map_or(Ok(answers), |error| Err(error.into()))
    }

    fn refuse_copy(&mut self) -> Result<(), Error> {
        let mut message = Vec::new();
        put_front::copy_fail(&mut message, "no data was given");
        self.send_bytes(&message)
    }

    /// An error of the server's; one that ends the connection is returned as such, because no ReadyForQuery follows.
    fn server_error(&self, frame: &Frame) -> Result<ServerErrorFields, Error> {
        let error = ServerErrorFields::read(&frame.body)?;
        if matches!(error.severity.as_str(), "FATAL" | "PANIC") { Err(error.into()) } else { Ok(error) }
    }
}

/// What it takes to cancel another connection's query.
#[derive(Clone, Debug)]
pub struct Canceller {
    address: Address,
    pid: u32,
    key: Vec<u8>,
}

impl Canceller {
    /// The request's bytes, for a caller with a connection of its own.
    pub fn request(&self) -> Vec<u8> {
        let mut message = Vec::new();
        put_front::cancel_request(&mut message, self.pid, &self.key);
        message
    }

    /// Sends the request, and waits for the server to close that connection, as it does when the signal is sent.
    pub fn cancel(&self) -> Result<(), Error> {
        let timeout = Duration::from_secs(10);
        let mut stream = Stream::connect(&self.address, timeout, None)?;
        stream.send(&self.request())?;
        match stream.bytes(timeout) {
            Err(Error::Closed) => Ok(()),
            Err(error) => Err(error),
            Ok(_) => Err(Error::Protocol("a cancel request was answered".to_owned())),
        }
    }
}
