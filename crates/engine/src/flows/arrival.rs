//! Clients that come and go between workers before their login: accept, encryption, handoff.

use std::sync::Arc;

use weir_base::{ClientAddr, Origin, Peer, Time};
use weir_session::Refusal;
use weir_session::startup::StartupRequest;

use crate::cluster::messages::{ClientHandoff, Message, Payload};
use crate::common::cx;
use crate::engine::Engine;
use crate::entry::state::Handoff;
use crate::entry::step::EntryStep;
use crate::entry::{arrive, tls};
use crate::peers::{ClientPhase, ClientSlot, Entry};
use crate::port::{Io, Level, Secured};
use crate::timers::Who;
use crate::traffic::cancel_pids::worker_of;

impl Engine {
    /// A client has connected.
    pub(crate) fn accepted<I: Io>(&mut self, now: Time, peer: Peer, from: ClientAddr, io: &mut I) {
        let max_clients = self.common.config().max_clients;
        if self.cluster.clients.total() >= arrive::max_connections(max_clients, false, false) {
            self.make_room(now, Origin::of(&from), io);
        }
        let local = matches!(from, ClientAddr::Unix { .. });
        let privileged = self.entry.logins.is_privileged(&from);
        if self.cluster.clients.total() >= arrive::max_connections(max_clients, local, privileged) {
            // Too many connections even for a refusal with a reason.
            return io.close(peer);
        }
        self.cluster.clients.add();
        let id = self.common.next_connection_id();
        let phase = arrive::first_phase(self.common.config(), &from);
        let client = self.new_client(now, peer, id, from, phase);
        self.log_client(Level::Debug, &client, format_args!("got connection"), io);
        self.insert_client(client);
        if self.admin.halt.is_suspended() {
            self.hold(peer, io);
        }
    }

    /// A client has arrived from worker 0, to log in here.
    pub(crate) fn arrived<I: Io>(&mut self, now: Time, peer: Peer, handoff: ClientHandoff, io: &mut I) {
        let mut client = self.new_client(now, peer, handoff.id, handoff.addr, ClientPhase::Gone);
        client.connected_at = handoff.connected_at;
        client.tls = handoff.tls;
        client.waiting = handoff.leftover;
        self.begin_login(now, client, handoff.hello, io);
    }

    /// A client has arrived from worker 0, with a cancel request for a client here.
    pub(crate) fn canceller_arrived(&mut self, now: Time, peer: Peer, id: u64, addr: ClientAddr) {
        let client = self.new_client(now, peer, id, addr, ClientPhase::Canceller);
        self.insert_client(client);
    }

    fn new_client(&mut self, now: Time, peer: Peer, id: u64, addr: ClientAddr, phase: ClientPhase) -> Box<ClientSlot> {
        self.admin.client_counts.add(&phase);
        Box::new(ClientSlot::new(peer, id, addr, phase, now, self.common.random_bytes()))
    }

    /// Adds a client to the table, with its timer.
    pub(crate) fn insert_client(&mut self, mut client: Box<ClientSlot>) {
        self.entry.prelogin.charge(&mut client);
        let deadline = self.client_deadline(&client);
        self.common.arm(Who::Peer(client.peer), deadline, &mut client.armed);
        self.peers.put(client.peer, Entry::Client(client));
    }

    /// Adds a client that is not read from until an answer has arrived.
    pub(crate) fn insert_waiting<I: Io>(&mut self, mut client: Box<ClientSlot>, io: &mut I) {
        self.pause_client(&mut client, io);
        self.insert_client(client);
    }

    /// Handles bytes of a client that is not logged in yet; all of them are in its buffer.
    pub(crate) fn login_input<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let cx = cx!(self, now, io);
        let packets = &mut self.entry.packets;
        let step = match &client.phase {
            ClientPhase::Header => arrive::proxy_header(cx, packets, &mut client),
            ClientPhase::Opening { .. } => arrive::opening(cx, packets, &mut client),
            ClientPhase::Login(_) => self.entry.logins.password(cx, &mut client),
            // Further input waits until it is logged in.
            _ => EntryStep::Wait,
        };
        self.login_step(now, client, step, io);
    }

    /// A TLS handshake has succeeded.
    pub(crate) fn secured<I: Io>(&mut self, now: Time, peer: Peer, secured: Box<Secured>, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Client(mut client) => {
                client.tls = Some(secured);
                let step = tls::done(&mut client);
                self.login_step(now, client, step, io);
            }
            Entry::Server(mut server) => {
                server.connection.secured(secured);
                self.server_secured(server, io);
            }
            Entry::Cancel(cancel) => {
                self.peers.put(peer, Entry::Cancel(cancel));
                self.cancel_secured(peer, io);
            }
            Entry::Forward(forward) => self.peers.put(peer, Entry::Forward(forward)),
            Entry::Ending(ending) => self.peers.put(peer, Entry::Ending(ending)),
            Entry::Probe(target) => self.peers.put(peer, Entry::Probe(target)),
            Entry::Free => {}
        }
    }

    /// A TLS handshake has failed; the handle is dead.
    pub(crate) fn tls_failed<I: Io>(&mut self, now: Time, peer: Peer, error: &str, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Client(client) => {
                self.log_client(Level::Warning, &client, format_args!("TLS handshake failed: {error}"), io);
                self.client_gone(now, client, io);
            }
            Entry::Server(server) => self.server_tls_failed(now, server, error, io),
            Entry::Cancel(cancel) => self.cancel_over(&cancel, io),
            Entry::Forward(forward) => self.forward_over(&forward, io),
            Entry::Ending(ending) => self.server_ended(&ending, io),
            Entry::Probe(target) => self.probe_over(&target),
            Entry::Free => {}
        }
    }

    /// A startup packet is complete: checks for room, and selects the worker of the login.
    pub(crate) fn startup<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        io: &mut I,
    ) {
        let console = weir_admin::is_console(&request.database);
        if !console && !self.has_room(now, &client, io) {
            return self.refuse(now, client, Refusal::TooManyClients, io);
        }
        if self.admin.shutdown.is_draining() && !console {
            return self.refuse(now, client, Refusal::ShuttingDown, io);
        }
        let at = match self.common.config().pool(&request.database) {
            Some(pool) if !console => {
                let owner = self.owner_of(&request.database, pool.user.as_deref().unwrap_or(&request.user));
                // A server of its own is opened where the pool's limits are kept.
                if request.replication.is_some() { owner } else { self.place(owner) }
            }
            // A database that does not exist is refused when the client has proven who it is: others learn nothing.
            _ => self.common.worker(),
        };
        if at == self.common.worker() {
            return self.begin_login(now, client, request, io);
        }
        let leftover = std::mem::take(&mut client.waiting);
        client.phase = ClientPhase::Moving(Box::new(Handoff::Startup(at, request, leftover)));
        io.detach(client.peer);
        self.insert_client(client);
    }

    /// A socket is detached, as requested.
    pub(crate) fn detached<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        if let Some(server) = self.peers.take_server(peer) {
            return self.server_detached(now, server, io);
        }
        let Some(mut client) = self.peers.take_client(peer) else { return };
        let ClientPhase::Moving(handoff) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else { return };
        self.entry.prelogin.discharge(&mut client);
        self.admin.client_counts.remove(&client.phase);
        let (to, payload) = match *handoff {
            Handoff::Startup(to, hello, leftover) => {
                let (id, addr, connected_at, tls) = (client.id, client.addr, client.connected_at, client.tls);
                (to, Payload::Client(ClientHandoff { hello, leftover, id, addr, tls, connected_at }))
            }
            Handoff::Cancel { pid, secret } => {
                let payload = Payload::Cancel { pid, secret, id: client.id, addr: client.addr };
                (worker_of(pid, self.common.workers()), payload)
            }
            Handoff::TakeOver => return self.client_leaves_process(now, client, io),
        };
        io.post(to, Message(payload), Some(peer));
    }

    /// Whether a client is within `max_clients`, maybe because another one is closed for it.
    fn has_room<I: Io>(&mut self, now: Time, client: &ClientSlot, io: &mut I) -> bool {
        let max = self.common.config().max_clients;
        if self.cluster.clients.total() <= max {
            return true;
        }
        let from = Origin::of(&client.addr);
        while self.cluster.clients.total() > max && self.make_room(now, from, io) {}
        self.cluster.clients.total() <= max
    }

    /// All connections are in use: closes a client without a login, here or at another worker, for one from this origin.
    /// Returns whether there is room at once.
    fn make_room<I: Io>(&mut self, now: Time, from: Origin, io: &mut I) -> bool {
        if self.evict_unauthenticated(now, from, io) {
            return true;
        }
        if self.entry.prelogin.asks_others(now) {
            cx!(self, now, io).post_to_others(|| Payload::MakeRoom(from));
        }
        false
    }

    /// Closes a client without a login for one from this origin, except for users who may administer the process without a
    /// password. A request to cancel is carried out nevertheless.
    pub(crate) fn evict_unauthenticated<I: Io>(&mut self, now: Time, from: Origin, io: &mut I) -> bool {
        let logins = &self.entry.logins;
        let evicted = self.entry.prelogin.evict(now, &self.peers, from, |from| logins.is_privileged(from));
        let Some(client) = evicted.and_then(|peer| self.peers.take_client(peer)) else { return false };
        if matches!(client.phase, ClientPhase::Canceller) {
            for ix in self.pools.indices() {
                self.pools.get_mut(ix).cancels.leave(client.peer);
            }
            self.cluster.peering.leave(client.peer);
            self.client_leaves(now, client, io);
        } else {
            self.refuse(now, client, Refusal::TooManyLogins, io);
        }
        true
    }

    /// Refuses clients without a login whose bytes made room for those of another origin.
    pub(crate) fn refuse_displaced<I: Io>(&mut self, now: Time, displaced: Vec<Peer>, io: &mut I) {
        for peer in displaced {
            if let Some(client) = self.peers.take_client(peer) {
                self.refuse(now, client, Refusal::TooManyLogins, io);
            }
        }
    }

    /// The bytes that unauthenticated clients of this worker hold beyond their own shares. For tests and the
    /// simulator.
    pub fn held_before_login(&self) -> usize {
        self.entry.prelogin.held()
    }
}
