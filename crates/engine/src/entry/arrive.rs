//! From the first packet of a client to the worker where its pool lives.
//!
//! Owns the order: encryption, startup packet, the way to the right worker. Who may enter is decided in `entry`; what is
//! told to those who did, in `welcome`; how many there may be, in `clients`.

use std::ops::RangeInclusive;

use weir_base::{ClientAddr, Peer, Time};
use weir_pgwire::proxy::{self, Proxied};
use weir_session::Refusal;
use weir_session::hello::{self, Asking, Hello, Opening};

use crate::Engine;
use crate::cluster::messages::{ClientHandoff, Message, Payload};
use crate::entry::state::Handoff;
use crate::peers::{ClientPhase, ClientSlot, Entry, Pause};
use crate::port::{Io, Level};
use crate::timers::Who;
use crate::traffic::cancel_key::CancelSecret;

/// How often a client may ask for encryption: once for each kind.
const ENCRYPTION_ASKS: u8 = 2;
/// How every client begins, but for balancers.
pub(crate) const OPENING: ClientPhase = ClientPhase::Opening { asks_left: ENCRYPTION_ASKS };
/// How many connections more than `max_clients` there may be, so that clients can be told so, or cancel: this part of
/// `max_clients`, within these bounds.
const DOOR: (u32, RangeInclusive<u32>) = (8, 10..=100);
/// How many more for clients of the Unix socket, and as many again for root and the user that this process runs as:
/// operators log in whatever other connections there are.
const LOCAL: (u32, RangeInclusive<u32>) = (32, 4..=20);
/// A `PoolIx` for clients that have no pool.
pub(crate) const NO_POOL: u32 = u32::MAX;

/// The most connections where this one may be accepted.
fn most_connections(max_clients: u32, local: bool, own: bool) -> u32 {
    let part = |(part, bounds): (u32, RangeInclusive<u32>)| (max_clients / part).clamp(*bounds.start(), *bounds.end());
    let locals = if own { 2 } else { u32::from(local) };
    max_clients.saturating_add(part(DOOR)).saturating_add(locals * part(LOCAL))
}

/// Whether a client may still ask for encryption.
fn asking(client: &ClientSlot, asks_left: u8) -> Asking {
    match (&client.tls, asks_left) {
        (Some(_), _) => Asking::Inside,
        (None, 0) => Asking::Spent,
        _ => Asking::Free,
    }
}

impl Engine {
    pub(crate) fn accepted<I: Io>(&mut self, now: Time, peer: Peer, from: ClientAddr, io: &mut I) {
        let max_clients = self.common.config().max_clients;
        if self.cluster.clients.total() >= most_connections(max_clients, false, false) {
            self.make_room(now, io);
        }
        let local = matches!(from, ClientAddr::Unix { .. });
        if self.cluster.clients.total() >= most_connections(max_clients, local, self.is_own(&from)) {
            // Too many even to be told so.
            return io.close(peer);
        }
        self.cluster.clients.add();
        let id = self.common.next_id();
        let phase = if self.is_balancer(&from) { ClientPhase::Header } else { OPENING };
        let client = self.new_client(now, peer, id, from, phase);
        self.log_client(Level::Debug, &client, format_args!("got connection"), io);
        self.prelogin_began(peer);
        self.insert_client(client);
        if self.admin.halt.is_suspended() {
            self.hold(peer, io);
        }
    }

    /// Whether connections from an address begin with a PROXY header.
    fn is_balancer(&self, from: &ClientAddr) -> bool {
        let ClientAddr::Tcp(from) = from else { return false };
        self.common.config().listen.proxy_from.iter().any(|network| network.contains(from.ip()))
    }

    fn new_client(&mut self, now: Time, peer: Peer, id: u64, addr: ClientAddr, phase: ClientPhase) -> Box<ClientSlot> {
        self.admin.client_counts.came(&phase);
        Box::new(ClientSlot {
            peer,
            id,
            addr,
            phase,
            pool: NO_POOL,
            link: None,
            waiting: Vec::new(),
            pause: Pause::default(),
            cut: false,
            ended: false,
            statements_refused: false,
            user: "".into(),
            tls: None,
            counts_for: None,
            connected_at: now,
            request_at: now,
            armed: Time::NEVER,
            charged: 0,
            cancel: CancelSecret::new(self.common.random_bytes()),
        })
    }

    /// Puts a client into the table, with its wake-up.
    pub(crate) fn insert_client(&mut self, mut client: Box<ClientSlot>) {
        self.recharge(&mut client);
        let deadline = self.client_deadline(&client);
        self.common.arm(Who::Peer(client.peer), deadline, &mut client.armed);
        self.peers.put(client.peer, Entry::Client(client));
    }

    /// A client that worker 0 sent here.
    pub(crate) fn arrived<I: Io>(&mut self, now: Time, peer: Peer, handoff: ClientHandoff, io: &mut I) {
        let mut client = self.new_client(now, peer, handoff.id, handoff.addr, ClientPhase::Gone);
        client.connected_at = handoff.connected_at;
        client.tls = handoff.tls;
        client.waiting = handoff.leftover;
        self.prelogin_began(peer);
        self.begin_login(now, client, handoff.hello, io);
    }

    pub(crate) fn canceller_arrived(&mut self, now: Time, peer: Peer, id: u64, addr: ClientAddr) {
        let client = self.new_client(now, peer, id, addr, ClientPhase::Canceller);
        self.insert_client(client);
    }

    /// Bytes of a client that is not logged in yet, all of them in its buffer.
    pub(crate) fn arriving<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        match &mut client.phase {
            ClientPhase::Header => self.balancer_header(now, client, io),
            ClientPhase::Opening { .. } => self.opening(now, client, io),
            ClientPhase::Login(_) => self.password(now, client, io),
            // What it sends ahead waits until it is logged in.
            _ => self.wait_more(client, io),
        }
    }

    pub(crate) fn wait_more<I: Io>(&mut self, mut client: Box<ClientSlot>, io: &mut I) {
        self.pause_client(&mut client, io);
        self.insert_client(client);
    }

    /// A balancer says for whom it connects: from now on that is where the client comes from.
    fn balancer_header<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        match proxy::header(&client.waiting) {
            Ok(None) => self.insert_client(client),
            Ok(Some((proxied, used))) => {
                client.waiting.drain(..used);
                if let Proxied::Client(from) = proxied {
                    client.addr = ClientAddr::Tcp(from);
                }
                client.phase = OPENING;
                self.opening(now, client, io);
            }
            Err(malformed) => {
                let text = format_args!("{malformed}, but its address is in listen.proxy_from");
                self.log_client(Level::Warning, &client, text, io);
                io.close(client.peer);
                self.depart(now, client, "PROXY header expected", io);
            }
        }
    }

    pub(crate) fn opening<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let ClientPhase::Opening { asks_left } = client.phase else { return self.insert_client(client) };
        match hello::open(&client.waiting, asking(&client, asks_left)) {
            Opening::More => self.insert_client(client),
            Opening::Tls { used } => {
                client.waiting.drain(..used);
                client.phase = ClientPhase::Opening { asks_left: asks_left - 1 };
                self.tls_asked(client, io);
            }
            Opening::DirectTls => self.tls_begun(now, client, io),
            Opening::Gss { used } => {
                client.waiting.drain(..used);
                client.phase = ClientPhase::Opening { asks_left: asks_left - 1 };
                io.send(client.peer, b"N");
                self.insert_client(client);
            }
            Opening::Cancel { pid, secret } => self.cancel_request(now, client, pid, secret, io),
            Opening::Refuse(refusal) => self.refuse(now, client, refusal, io),
            Opening::Startup { hello, used } => {
                client.waiting.drain(..used);
                client.user = hello.user.as_str().into();
                if self.lacks_tls(&client) {
                    return self.refuse(now, client, Refusal::EncryptionRequired, io);
                }
                self.admit(now, client, hello, io);
            }
        }
    }

    /// Whether a client is among the `max_clients` that may be connected, perhaps because others make room for it.
    fn has_place<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) -> bool {
        if self.cluster.clients.total() <= self.common.config().max_clients {
            return true;
        }
        while self.cluster.clients.total() > self.common.config().max_clients && self.make_room(now, io) {}
        // It is not in the table meanwhile, and may have lost its place in the line.
        self.prelogin_began(peer);
        self.cluster.clients.total() <= self.common.config().max_clients
    }

    /// A startup packet is there: is there room, and where does the client belong?
    fn admit<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, hello: Box<Hello>, io: &mut I) {
        let console = weir_admin::is_console(&hello.database);
        if !console && !self.has_place(now, client.peer, io) {
            return self.refuse(now, client, Refusal::TooManyClients, io);
        }
        if self.admin.draining.is_some() && !console {
            return self.refuse(now, client, Refusal::ShuttingDown, io);
        }
        let place = match self.common.config().pool(&hello.database) {
            _ if console => self.common.worker(),
            Some(pool) => {
                let owner = self.owner_of(&hello.database, pool.user.as_deref().unwrap_or(&hello.user));
                self.place(owner)
            }
            // It is told so when it has proven who it is: strangers learn nothing.
            None => self.common.worker(),
        };
        if place == self.common.worker() {
            return self.begin_login(now, client, hello, io);
        }
        let leftover = std::mem::take(&mut client.waiting);
        client.phase = ClientPhase::Moving(Box::new(Handoff::Startup(place, hello, leftover)));
        io.detach(client.peer);
        self.insert_client(client);
    }

    /// A client's socket is free to travel.
    pub(crate) fn detached<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        if let Some(server) = self.peers.take_server(peer) {
            return self.server_detached(now, server, io);
        }
        let Some(mut client) = self.peers.take_client(peer) else { return };
        let ClientPhase::Moving(handoff) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else { return };
        self.uncharge(&mut client);
        self.admin.client_counts.left(&client.phase);
        let (to, letter) = match *handoff {
            Handoff::Startup(to, hello, leftover) => {
                let (id, addr, connected_at, tls) = (client.id, client.addr, client.connected_at, client.tls);
                (to, Payload::Client(ClientHandoff { hello, leftover, id, addr, tls, connected_at }))
            }
            Handoff::Cancel { pid, secret } => (
                crate::traffic::cancel_key::worker_of(pid),
                Payload::Cancel { pid, secret, id: client.id, addr: client.addr },
            ),
        };
        io.post(to, Message(letter), Some(peer));
    }
}
