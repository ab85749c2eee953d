//! A client disconnects: every part releases it.

use weir_base::{Peer, Time};
use weir_config::FileFormat;
use weir_session::{Refusal, SqlStates};

use crate::common::FollowUp;
use crate::engine::Engine;
use crate::handles::NO_POOL;
use crate::peers::{ClientPhase, ClientSlot, ServerPhase};
use crate::port::{Io, Level};

/// Why a server is closed whose client left it in the middle of something.
const NOT_READY: &str = "client disconnect while server was not ready";
/// Why a server is closed that was its client's alone.
const OWNER_GONE: &str = "replication client disconnected";

impl Engine {
    /// A client has sent Terminate: its server is kept only if it is clean.
    pub(crate) fn client_leaves<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, io: &mut I) {
        io.close(client.peer);
        self.remove_client(now, client, "client close request", io);
    }

    /// A client's connection has closed; its handle is dead already.
    pub(crate) fn client_gone<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, io: &mut I) {
        self.remove_client(now, client, "client unexpected eof", io);
    }

    /// Refuses a client by its handle.
    pub(crate) fn refuse_handle<I: Io>(&mut self, now: Time, client: Peer, refusal: Refusal, io: &mut I) {
        if let Some(client) = self.peers.take_client(client) {
            self.refuse(now, client, refusal, io);
        }
    }

    /// Sends a client an error, and closes its connection. In the middle of a message from its server nothing is sent: it
    /// would take our words for the rest of that message.
    pub(crate) fn refuse<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, refusal: Refusal, io: &mut I) {
        let why = refusal.to_string();
        self.refuse_because(now, client, refusal, &why, io);
    }

    /// The same, where the log has another reason than the client.
    pub(crate) fn refuse_because<I: Io>(
        &mut self,
        now: Time,
        client: Box<ClientSlot>,
        refusal: Refusal,
        why: &str,
        io: &mut I,
    ) {
        self.count_refusal(&client, &refusal);
        let server = client.link.and_then(|server| self.peers.server(server));
        let mid_message = match &client.phase {
            ClientPhase::Streaming(stream) => stream.is_mid_message(),
            _ => server.and_then(|s| s.up()).is_some_and(|(up, _)| up.is_mid_message()),
        };
        // In a handshake it would take our words for a part of that.
        if !mid_message && !client.cut && !matches!(client.phase, ClientPhase::Handshake(_)) {
            let scratch = &mut self.sessions.scratch;
            scratch.clear();
            let states = match self.common.config().format {
                FileFormat::Toml => SqlStates::PostgreSql,
                FileFormat::Ini => SqlStates::PgBouncer,
            };
            refusal.write(states, scratch);
            io.send(client.peer, scratch);
        }
        self.log_closing(now, &client, why, io);
        if self.common.config().log.pooler_errors {
            self.log_client(Level::Warning, &client, format_args!("pooler error: {refusal}"), io);
        }
        io.close(client.peer);
        // A server that is closed because of a time-out has the time-out for a reason, as its client has.
        let timed_out =
            matches!(refusal, Refusal::QueryTimeout | Refusal::IdleTransactionTimeout | Refusal::TransactionTimeout);
        self.leave(now, client, if timed_out { why } else { NOT_READY }, io);
    }

    /// Removes a client from all parts. Its connection is closed already, or being closed.
    pub(crate) fn remove_client<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, why: &str, io: &mut I) {
        self.log_closing(now, &client, why, io);
        self.leave(now, client, NOT_READY, io);
    }

    fn log_closing<I: Io>(&self, now: Time, client: &ClientSlot, why: &str, io: &mut I) {
        if self.common.config().log.disconnections && !matches!(client.phase, ClientPhase::Canceller) {
            let age = now.since(client.connected_at).micros() / 1_000_000;
            self.log_client(Level::Info, client, format_args!("closing because: {why} (age={age}s)"), io);
        }
    }

    /// The same without a line of its own; `servers`: the reason of its server, if that must be closed with it.
    fn leave<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, servers: &str, io: &mut I) {
        self.admin.client_counts.remove(&client.phase);
        if let ClientPhase::Console(console) = &client.phase {
            self.console_left(now, console, io);
            self.check_operators(now, io);
        }
        self.login_left(now, &client, io);
        if let Some(key) = client.cancel.peer_key() {
            self.cluster.peering.forget(key);
        }
        if client.armed != Time::NEVER {
            self.common.timers().forget();
            self.tidy_timers();
        }
        self.takeover.keys.remove(client.peer);
        self.takeover.left(client.peer);
        self.uncount_client(&mut client, io);
        self.entry.prelogin.discharge(&mut client);
        self.sessions.recycle(std::mem::take(&mut client.waiting));
        if client.pool != NO_POOL {
            self.pools.get_mut(client.pool).pool.leave(client.peer, now);
            self.common.follow_up(FollowUp::PollPool(client.pool));
            self.count_client(client.pool, -1);
            if let Some(server) = client.link.take() {
                self.abandon(now, &client, server, servers, io);
            }
        }
        self.check_drained(io);
    }

    /// A client left its server; `why` is logged if the server must be closed.
    pub(crate) fn abandon<I: Io>(&mut self, now: Time, client: &ClientSlot, server: Peer, why: &str, io: &mut I) {
        let Some(slot) = self.peers.server(server) else { return };
        slot.link = None;
        let mid_message = matches!(&client.phase, ClientPhase::Ready(c) if c.is_mid_message());
        let Some((up, phase)) = slot.up() else { return };
        match *phase {
            ServerPhase::Linked if up.is_quiet() && !mid_message => self.common.follow_up(FollowUp::Release(server)),
            ServerPhase::Linked | ServerPhase::Checking | ServerPhase::SyncingParameters => {
                self.close_server(now, server, why, io);
            }
            ServerPhase::Streaming => self.close_server(now, server, OWNER_GONE, io),
            _ => {}
        }
    }
}
