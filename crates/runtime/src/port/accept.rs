//! How a worker accepts clients.

use std::sync::atomic::Ordering;

use weir_base::{ClientAddr, ConnId};
use weir_config::Listen;
use weir_engine::port::Level;

use super::Port;
use crate::upgrade::ExportMessage;

impl Port {
    /// Accepts one client, if one waits.
    pub(crate) fn accept_one(&mut self) -> Option<(ConnId, ClientAddr)> {
        let listening = self.listening.as_mut()?;
        match listening.accept(self.now) {
            Ok(accepted) => accepted.map(|(socket, from)| (self.add_socket(socket), from)),
            Err(error) => {
                self.shared.starved.store(true, Ordering::Relaxed);
                let complains = listening.rest(self.now);
                if complains {
                    let text =
                        format_args!("could not accept a client: {error}; clients wait until it is possible again");
                    self.shared.log.line(Level::Warning, text);
                }
                self.close_sent();
                None
            }
        }
    }

    /// A descriptor has become free.
    pub(crate) fn end_rest(&mut self) {
        if let Some(listening) = self.listening.as_mut() {
            listening.end_rest(self.now);
        }
    }

    /// Starts or stops accepting TCP clients.
    pub(crate) fn set_accepting(&mut self, on: bool) {
        let Some(listening) = self.listening.as_mut() else { return };
        if let Err(error) = listening.set_accepting(on, self.poll.registry()) {
            self.shared.log.line(Level::Error, format_args!("{error}"));
        }
    }

    /// Applies a configuration to the listeners.
    pub(crate) fn apply_listen(&mut self, plan: &Listen) {
        let Some(listening) = self.listening.as_mut() else { return };
        if let Err(error) = listening.apply_config(plan) {
            self.shared.log.line(Level::Warning, format_args!("tcp_defer_accept can't be changed: {error}"));
        }
    }

    /// Accepts clients, or leaves them to a process that takes over; the listening sockets stay open.
    pub(crate) fn listen(&mut self, on: bool) {
        let Some(listening) = self.listening.as_mut() else { return };
        if let Err(error) = listening.listen(on, self.poll.registry()) {
            self.shared.log.line(Level::Error, format_args!("the listening sockets can't be watched: {error}"));
        }
    }

    /// Another process may take over: it is offered the listening sockets.
    pub(crate) fn offer_listeners(&mut self) {
        let offered = self.listening.as_ref().map(|listening| listening.offer()).unwrap_or_default();
        self.shared.exports.send(ExportMessage::Listeners(offered));
    }
}
