//! Another process takes over: peers between two transactions leave with their sockets, and the rest when they reach
//! that state.
//!
//! Idle servers leave before clients, so that the new process need not open as many of its own. A client that waits for
//! a server is served here first. During the take-over, a server is opened only for clients that wait, and as instead of one that the pool
//! has had: the process that takes over leaves those to this one.

use std::collections::BTreeMap;

use weir_base::{Peer, Time, WorkerId};
use weir_session::{Refusal, frozen, frozen_server};

use crate::cluster::messages::{Message, Payload};
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::entry::state::Handoff;
use crate::peers::{ClientPhase, ClientSlot, Entry, ServerPhase, ServerSlot, ServerState};
use crate::pools::PoolSlot;
use crate::port::{HandOver, Io};
use crate::takeover::held::PoolName;
use crate::takeover::moved::{Held, Moved, MovedClient, MovedPool, MovedServer};

impl Engine {
    /// A step of the take-over is due.
    pub(crate) fn hand_over<I: Io>(&mut self, now: Time, step: HandOver, io: &mut I) {
        match step {
            HandOver::Ask => io.hand_over_begins(self.may_hand_over()),
            HandOver::Give => {
                if self.takeover.begin(now) {
                    self.give_pools(io);
                }
                self.give_all(now, io);
                self.report_held(io);
                if self.takeover.is_over(now, self.common.config().upgrade_timeout) {
                    self.refuse_rest(now, io);
                }
                io.hand_over_left(self.left_to_give());
            }
            HandOver::Stay => {
                self.takeover.end();
                self.takeover.held.forget_reports();
                for ix in self.pools.indices() {
                    self.pools.get_mut(ix).pool.keep_no_more();
                    self.common.follow_up(FollowUp::PollPool(ix));
                }
            }
        }
    }

    /// `upgrade_timeout` is over: the clients that did not become free are not served any more.
    fn refuse_rest<I: Io>(&mut self, now: Time, io: &mut I) {
        let waited_for = self.peers.clients().filter(|client| client.is_waited_for());
        let rest: Vec<Peer> = waited_for.map(|client| client.peer).collect();
        rest.into_iter().for_each(|client| self.refuse_handle(now, client, Refusal::UpgradeTimeout, io));
    }

    /// The highest number of a peer so far, or why another process may not take over now.
    fn may_hand_over(&self) -> Result<u64, &'static str> {
        if self.admin.shutdown.is_under_way() {
            return Err("it is shutting down");
        }
        if self.admin.halt.is_stopped() {
            return Err("it is paused or suspended: RESUME first");
        }
        Ok(self.common.last_id())
    }

    /// How many peers the new process has to wait for. Operators do not count; nor do unused servers, except in pools that
    /// nodes share: there a connection counts until the server has ended it.
    fn left_to_give(&self) -> usize {
        let clients = self.peers.clients().filter(|client| !matches!(client.phase, ClientPhase::Console(_)));
        let is_shared = |name: &str| self.common.config().shared_budget(name).is_some();
        let counts = |server: &&ServerSlot| {
            server.phase().is_some_and(|phase| phase != ServerPhase::Idle)
                || is_shared(&self.pools.get(server.pool).name)
        };
        clients.count() + self.peers.servers().filter(counts).count() + self.peers.endings()
    }

    fn give_pools<I: Io>(&mut self, io: &mut I) {
        for slot in self.pools.iter().filter(|slot| !slot.removed && !slot.lending.is_borrower()) {
            let learned = slot.credentials.learned();
            let moved = MovedPool {
                database: slot.name.to_string(),
                user: slot.user.to_string(),
                reported: slot.welcome.as_ref().map(|welcome| welcome.reported.list()),
                password: learned.password.as_deref().map(str::to_owned),
                keys: learned.keys.clone(),
                looked_up: slot.credentials.looked_up().cloned(),
                schema: slot.accepted.schema_changes(),
            };
            io.hand_over(route_of(&slot.name, &slot.user), Moved::Pool(Box::new(moved)).write(), None);
        }
    }

    /// The other process opens as many less as are here, and here no more are opened.
    fn report_held<I: Io>(&mut self, io: &mut I) {
        let mut own = BTreeMap::<PoolName, u32>::new();
        for ix in self.pools.indices() {
            let slot = self.pools.get_mut(ix);
            if slot.lending.is_borrower() {
                continue;
            }
            let (kept, differs) = slot.pool.keep_servers();
            if kept > 0 {
                own.insert((slot.name.clone(), slot.user.clone()), kept);
            }
            if differs {
                self.common.follow_up(FollowUp::PollPool(ix));
            }
        }
        let leaving = self.peers.servers().filter(|server| server.phase() == Some(ServerPhase::Leaving));
        for slot in leaving.map(|server| self.pools.get(server.pool)) {
            // It counts until it has arrived there.
            *own.entry((slot.name.clone(), slot.user.clone())).or_default() += 1;
        }
        for ((database, user), servers) in self.takeover.held.changes(own) {
            let route = route_of(&database, &user);
            let held = Held { database: database.to_string(), user: user.to_string(), servers };
            io.hand_over(route, Moved::Held(held).write(), None);
        }
    }

    /// All free peers leave.
    fn give_all<I: Io>(&mut self, now: Time, io: &mut I) {
        let servers: Vec<Peer> = self.peers.servers().map(|server| server.peer).collect();
        let clients: Vec<Peer> = self.peers.clients().map(|client| client.peer).collect();
        servers.into_iter().chain(clients).for_each(|peer| self.give(now, peer, io));
    }

    /// A peer may be free at the end of this iteration.
    #[cold]
    pub(crate) fn hand_over_later(&mut self, peer: Option<Peer>) {
        peer.into_iter().for_each(|peer| self.common.follow_up(FollowUp::HandOver(peer)));
    }

    /// A peer leaves, if it is free.
    pub(crate) fn give<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        if !self.takeover.is_giving() {
            return;
        }
        match self.peers.take(peer) {
            Entry::Client(client) => self.give_client(client, io),
            Entry::Server(server) => self.give_server(now, server, io),
            Entry::Cancel(cancel) => self.peers.put(peer, Entry::Cancel(cancel)),
            Entry::Forward(forward) => self.peers.put(peer, Entry::Forward(forward)),
            Entry::Ending(ending) => self.peers.put(peer, Entry::Ending(ending)),
            Entry::Probe(target) => self.peers.put(peer, Entry::Probe(target)),
            Entry::Free => {}
        }
    }

    fn give_client<I: Io>(&mut self, mut client: Box<ClientSlot>, io: &mut I) {
        let session = match &client.phase {
            ClientPhase::Ready(session) if is_free(&client) => frozen::freeze(session, &self.sessions.params),
            _ => None,
        };
        let Some(session) = session else { return self.peers.put_client(client) };
        let slot = self.pools.get(client.pool);
        let pid = client.cancel.pid();
        let (secret, issued) = client.cancel.parts();
        let moved = MovedClient {
            id: client.id,
            database: slot.name.to_string(),
            pool_user: slot.user.to_string(),
            user: client.user.to_string(),
            addr: client.addr.clone(),
            connected_at: client.connected_at.micros(),
            request_at: client.request_at.micros(),
            tls: client.tls.as_deref().cloned(),
            pid,
            secret,
            issued,
            session,
        };
        self.takeover.leave(client.peer, u64::from(pid >> 24), Moved::Client(Box::new(moved)).write());
        client.phase = ClientPhase::Moving(Box::new(Handoff::TakeOver));
        io.detach(client.peer);
        self.peers.put_client(client);
    }

    /// A client's socket is free to leave.
    pub(crate) fn client_leaves_process<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let leaves = self.takeover.left(client.peer);
        if client.armed != Time::NEVER {
            self.common.timers().forget();
            self.tidy_timers();
        }
        self.takeover.keys.remove(client.peer);
        self.uncount_client(&mut client, io);
        self.pools.get_mut(client.pool).pool.leave(client.peer, now);
        self.count_client(client.pool, -1);
        match leaves {
            Some((route, value)) => io.hand_over(route, value, Some(client.peer)),
            None => io.close(client.peer),
        }
        self.check_drained(io);
    }

    fn give_server<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let free = server.link.is_none() && server.cancels == 0 && !server.marked_for_close;
        let session = match &server.state {
            ServerState::Up(up, ServerPhase::Idle) if free => frozen_server::freeze(up, &self.sessions.params),
            _ => None,
        };
        let (peer, ix) = (server.peer, server.pool);
        let slot = self.pools.get_mut(ix);
        let stays = slot.removed || !slot.pool.contains(peer) || slot.pool.is_unwanted(peer);
        let Some(session) = session.filter(|_| !stays && slot.pool.free_since(peer).is_some()) else {
            return self.peers.put_server(server);
        };
        let (ages, connection) = (slot.pool.ages(peer), &server.connection);
        let moved = MovedServer {
            id: server.id,
            database: slot.name.to_string(),
            user: slot.user.to_string(),
            made_for: made_for(slot),
            target: connection.target().clone(),
            attempt: connection.attempt().parts(),
            local: connection.local().to_owned(),
            remote: connection.remote(),
            tls: connection.tls().cloned(),
            connected_at: ages.connected_at.micros(),
            expires: ages.expires.micros(),
            session,
        };
        slot.pool.lost(peer, now);
        if self.common.config().shared_budget(&slot.name).is_some() {
            // Before its count is released.
            io.post(WorkerId(0), Message(Payload::ServerGoes(slot.name.clone())), None);
        }
        self.takeover.leave(peer, route_of(&slot.name, &slot.user), Moved::Server(Box::new(moved)).write());
        self.untie(&mut server);
        server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::Leaving);
        self.peers.put_server(server);
        self.common.follow_up(FollowUp::PollPool(ix));
        io.detach(peer);
    }

    /// A server's socket is free to leave.
    pub(crate) fn server_leaves<I: Io>(&mut self, server: Box<ServerSlot>, io: &mut I) {
        match self.takeover.left(server.peer) {
            Some((route, value)) => io.hand_over(route, value, Some(server.peer)),
            None => io.close(server.peer),
        }
    }
}

/// Whether a client that has logged in is between two requests, and nothing waits for the client or because of it.
fn is_free(client: &ClientSlot) -> bool {
    client.link.is_none() && !client.pause.any() && client.waiting.is_empty() && !client.cut && !client.ended
}

/// The number by which another process, maybe with another number of workers, finds the worker of a pool.
pub(crate) fn route_of(database: &str, user: &str) -> u64 {
    super::configuration::pool_hash(database, user)
}

/// A hash of the part of its pool's configuration that a server depends on: FNV-1a over its debug output, so that
/// another version, whose output may differ, opens new servers instead.
pub(crate) fn made_for(slot: &PoolSlot) -> u64 {
    let config = &slot.config;
    let text = format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
        config.targets,
        config.database,
        config.user,
        config.password,
        config.session_attrs,
        config.connect_query,
        config.startup,
        config.require_auth
    );
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
