//! What a handshake leads to, for clients and for servers.
//!
//! Owns what clients may ask for and get, and who is told of a handshake's end. What a client may do next is in `arrive`,
//! what a server is asked next in `serve`. Clients on Unix sockets are never encrypted and never asked to be (PgBouncer).

use weir_base::{ClientAddr, Peer, Time};
use weir_config::SslMode;

use crate::Engine;
use crate::entry::arrive::OPENING;
use crate::entry::state::Way;
use crate::peers::{ClientPhase, ClientSlot, Entry};
use crate::port::{Handshake, Io, Level};
use crate::secured::Secured;

/// The protocol that a client must name (ALPN) when it begins with a handshake: so a request meant for another server can't
/// be taken for one to us (PostgreSQL 17).
const ALPN: &[u8] = b"postgresql";

impl Engine {
    /// Whether this client can be encrypted.
    fn has_tls(&self, client: &ClientSlot) -> bool {
        self.common.config().tls.client.mode != SslMode::Disable && matches!(client.addr, ClientAddr::Tcp(_))
    }

    /// Whether this client had to be encrypted, and is not.
    pub(crate) fn lacks_tls(&self, client: &ClientSlot) -> bool {
        let required = match self.common.config().tls.client.mode {
            SslMode::Disable | SslMode::Allow | SslMode::Prefer => false,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => true,
        };
        required && client.tls.is_none() && self.has_tls(client)
    }

    /// A client asks for encryption, and says nothing more before it is answered.
    pub(crate) fn tls_asked<I: Io>(&mut self, mut client: Box<ClientSlot>, io: &mut I) {
        if self.has_tls(&client) {
            io.send(client.peer, b"S");
            io.start_tls(client.peer, Handshake::Accept { received: Vec::new() });
            client.phase = ClientPhase::Handshake(Way::Request);
        } else {
            io.send(client.peer, b"N");
        }
        self.insert_client(client);
    }

    /// A client begins with a handshake.
    pub(crate) fn tls_begun<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        if !self.has_tls(&client) {
            return self.leave_unheard(now, client, "a TLS handshake, and there is no TLS for this client", io);
        }
        let received = std::mem::take(&mut client.waiting);
        io.start_tls(client.peer, Handshake::Accept { received });
        client.phase = ClientPhase::Handshake(Way::Direct);
        self.insert_client(client);
    }

    /// A client's handshake is done: its startup packet may come.
    fn client_secured<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let alpn = client.tls.as_ref().and_then(|tls| tls.alpn.as_deref());
        if matches!(client.phase, ClientPhase::Handshake(Way::Direct)) && alpn != Some(ALPN) {
            let why = "received direct SSL connection request without ALPN protocol negotiation extension";
            return self.leave_unheard(now, client, why, io);
        }
        client.phase = OPENING;
        self.insert_client(client);
    }

    /// A client's handshake failed; its connection is gone.
    fn client_tls_failed<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, error: &str, io: &mut I) {
        self.log_client(Level::Warning, &client, format_args!("TLS handshake failed: {error}"), io);
        self.client_gone(now, client, io);
    }

    /// Closes a client's connection without a word to it, as it would not understand one.
    fn leave_unheard<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, why: &str, io: &mut I) {
        self.log_client(Level::Warning, &client, format_args!("{why}"), io);
        io.close(client.peer);
        self.depart(now, client, why, io);
    }

    /// A handshake is done.
    pub(crate) fn secured<I: Io>(&mut self, now: Time, peer: Peer, tls: Box<Secured>, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Client(mut client) => {
                client.tls = Some(tls);
                self.client_secured(now, client, io);
            }
            Entry::Server(mut server) => {
                server.tls = Some(tls);
                self.server_secured(server, io);
            }
            Entry::Cancel(cancel) => {
                self.peers.put(peer, Entry::Cancel(cancel));
                self.cancel_secured(peer, io);
            }
            Entry::Free => {}
        }
    }

    /// A handshake failed; the handle is dead.
    pub(crate) fn tls_failed<I: Io>(&mut self, now: Time, peer: Peer, error: &str, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Client(client) => self.client_tls_failed(now, client, error, io),
            Entry::Server(server) => self.server_tls_failed(now, server, error, io),
            Entry::Cancel(cancel) => self.cancel_over(&cancel, io),
            Entry::Free => {}
        }
    }
}
