//! The connection on which a pool listens for its clients (`listen = "shared"`).
//!
//! Owns the exchange with a server that does nothing else: commands of Weir's own, one query at a time, and
//! notifications at any time. Must not know who gets them.
//!
//! Bounded: no message that is read may be longer than [`MAX_MESSAGE`]; PostgreSQL's notifications are shorter than
//! 8,000 bytes and a channel's name (documentation, "NOTIFY").

use weir_pgwire::tag::back;
use weir_pgwire::{HEAD, Head, Malformed, TxStatus, backend};

use crate::channels::SharedNotification;
use crate::out::Out;
use crate::own_exchange::{self, take_report};
use crate::params::ParamTable;
use crate::server::{ProtocolViolation, Server};
use crate::server_error::{ErrorRead, ServerError, read_error};

/// The longest message that is read.
pub(crate) const MAX_MESSAGE: usize = 16 << 10;

/// What a server that listens has sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A notification.
    Notification(SharedNotification),
    /// The query under way has ended, maybe with an error.
    Done(Result<(), ServerError>),
}

/// The exchange with a server that listens.
#[derive(Debug, Default)]
pub struct Listener {
    busy: bool,
    error: Option<ServerError>,
}

impl Listener {
    /// Whether a query is under way.
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Sends a query; none is under way.
    pub fn send(&mut self, server: &mut Server, query: &str, scratch: &mut Vec<u8>, out: &mut impl Out) {
        self.busy = true;
        server.own_query(query, scratch, out);
    }

    /// Handles what the server sent.
    ///
    /// # Errors
    /// When the server can't be trusted any more.
    pub fn feed(
        &mut self,
        server: &mut Server,
        input: &[u8],
        table: &ParamTable,
        heard: &mut Vec<Heard>,
    ) -> Result<(), ProtocolViolation> {
        let need = |head: Head| head.total().min(MAX_MESSAGE);
        own_exchange::messages(server, input, need, |server, bytes, head| {
            self.message(server, &bytes[HEAD..], head.tag, table, heard)
        })
    }

    fn message(
        &mut self,
        server: &mut Server,
        body: &[u8],
        tag: u8,
        table: &ParamTable,
        heard: &mut Vec<Heard>,
    ) -> Result<(), ProtocolViolation> {
        match tag {
            back::NOTICE => {}
            back::NOTIFICATION => {
                heard.push(Heard::Notification(notification(body)?));
            }
            // What can't be read concerns no channel.
            back::PARAMETER_STATUS => drop(take_report(server, body, table)?),
            back::ERROR => {
                let ErrorRead { error, fatal, .. } = read_error(body);
                server.unusable |= fatal || !self.busy;
                self.error = Some(error);
            }
            back::READY if self.busy => {
                server.status = backend::ready(body)?;
                server.unusable |= server.status != TxStatus::Idle;
                server
                    .pending
                    .reply(back::READY)
                    .map_err(|_| ProtocolViolation("a ReadyForQuery that no request explains"))?;
                self.busy = false;
                heard.push(Heard::Done(self.error.take().map_or(Ok(()), Err)));
            }
            back::COMMAND_COMPLETE if self.busy => {}
            _ => return Err(ProtocolViolation("a reply that a connection that listens may not have")),
        }
        Ok(())
    }
}

/// The notification in the body of a message.
pub(crate) fn notification(body: &[u8]) -> Result<SharedNotification, Malformed> {
    let it = backend::notification(body)?;
    Ok(SharedNotification { pid: it.pid, channel: it.channel.into(), payload: it.payload.into() })
}
