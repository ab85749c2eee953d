//! This process takes over from another one: its clients, servers and pools come, one by one, each as a value with its
//! socket. What was to leave and could not comes back in the same way.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{Peer, Time, WorkerId};
use weir_pool::Ages;
use weir_session::login::LearnedCredentials;
use weir_session::{Refusal, frozen, frozen_server};

use crate::backends::connection::Connection;
use crate::backends::hosts::Attempt;
use crate::cluster::messages::{Message, Payload};
use crate::common::FollowUp;
use crate::engine::Engine;
use crate::entry::reported::{Reported, Welcome};
use crate::flows::hand_over::made_for;
use crate::handles::PoolIx;
use crate::log::log;
use crate::peers::{ClientPhase, ClientSlot, ServerPhase, ServerSlot, ServerState};
use crate::port::{Io, Level, Predecessor};
use crate::takeover::held::PoolName;
use crate::takeover::moved::{Held, Moved, MovedClient, MovedPool, MovedServer};
use crate::traffic::cancel_key::CancelSecret;

impl Engine {
    /// Something comes.
    pub(crate) fn inherit<I: Io>(&mut self, now: Time, value: &[u8], socket: Option<Peer>, io: &mut I) {
        match (Moved::read(value), socket) {
            (Some(Moved::Pool(pool)), _) => self.inherit_pool(now, *pool),
            (Some(Moved::Held(held)), _) => self.held_elsewhere(held),
            (Some(Moved::Server(server)), Some(peer)) => self.inherit_server(now, *server, peer, io),
            (Some(Moved::Client(client)), Some(peer)) => self.inherit_client(now, *client, peer, io),
            (_, socket) => {
                log(Level::Error, format_args!("what another process handed over can't be used"), io);
                socket.into_iter().for_each(|peer| io.close(peer));
            }
        }
    }

    /// The old process has so many servers of a pool, or those before it: fewer may be opened here.
    fn held_elsewhere(&mut self, Held { database, user, servers }: Held) {
        let pool: PoolName = (database.into(), user.into());
        self.takeover.held.note(pool.clone(), servers);
        self.leave_to_others(self.pools.find(&pool.0, &pool.1));
    }

    /// What is known of the old process's servers has changed as a whole.
    pub(crate) fn predecessor(&mut self, step: Predecessor) {
        match step {
            Predecessor::Known => self.takeover.held.known(),
            Predecessor::Over => self.takeover.held.over(),
        }
        self.leave_to_others(self.pools.indices());
    }

    fn leave_to_others(&mut self, pools: impl IntoIterator<Item = PoolIx>) {
        for ix in pools {
            let slot = self.pools.get_mut(ix);
            slot.pool.set_elsewhere(self.takeover.held.of(&(slot.name.clone(), slot.user.clone())));
            self.common.follow_up(FollowUp::PollPool(ix));
        }
    }

    /// The pool of a database and a user on the server, if the configuration has it.
    fn inherited_pool(&mut self, now: Time, database: &str, user: &str) -> Option<PoolIx> {
        let config = self.common.config().pool(database).filter(|config| self.fits(config, user))?;
        Some(self.pool_of(database, &config, user, now))
    }

    fn inherit_pool(&mut self, now: Time, moved: MovedPool) {
        let Some(ix) = self.inherited_pool(now, &moved.database, &moved.user) else { return };
        let table = &self.sessions.params;
        let slot = self.pools.get_mut(ix);
        let learned = LearnedCredentials { password: moved.password.map(Into::into), keys: moved.keys };
        slot.credentials.inherit(learned, moved.looked_up);
        slot.accepted.raise_schema_version(moved.schema);
        if let Some(reported) = moved.reported.filter(|_| slot.welcome.is_none()) {
            let mut params = table.unknown();
            reported.iter().for_each(|(name, value)| table.take_report(&mut params, name, value));
            let reported = Arc::new(Reported::new(table, reported));
            slot.welcome = Some(Welcome { params: Arc::new(params), reported });
            // Only a server that has logged in reports something.
            slot.failures.succeed();
        }
    }

    fn inherit_server<I: Io>(&mut self, now: Time, moved: MovedServer, peer: Peer, io: &mut I) {
        let ix = self.inherited_pool(now, &moved.database, &moved.user);
        let ix = ix.filter(|ix| {
            let slot = self.pools.get(*ix);
            !slot.lending.is_borrower() && made_for(slot) == moved.made_for
        });
        let session = frozen_server::thaw(&moved.session, &self.sessions.params);
        // One that its pool would not have opened is closed, and so is one that can't be read.
        let (Some(ix), Some(mut session)) = (ix, session) else {
            return self.close_inherited(now, &moved.database, peer, io);
        };
        let slot = self.pools.get_mut(ix);
        slot.welcome.iter().for_each(|welcome| session.share_params(&welcome.params));
        let Some(proof) = session.prove_clean() else {
            return self.close_inherited(now, &moved.database, peer, io);
        };
        let database = slot.name.clone();
        let ages =
            Ages { connected_at: Time::from_micros(moved.connected_at), expires: Time::from_micros(moved.expires) };
        let server = server_slot(moved, peer, ix, session, now);
        self.peers.put_server(Box::new(server));
        self.count_inherited(ix, io);
        if self.common.config().shared_budget(&database).is_some() {
            // After it is counted.
            io.post(WorkerId(0), Message(Payload::ServerCame(database)), None);
        }
        let answer = self.pools.get_mut(ix).pool.borrowed(peer, ages, proof, now);
        if self.admin.halt.is_suspended() {
            self.hold(peer, io);
        }
        self.passed_on(now, ix, peer, answer, io);
    }

    fn inherit_client<I: Io>(&mut self, now: Time, moved: MovedClient, peer: Peer, io: &mut I) {
        let secret = CancelSecret::of_parts((moved.secret, moved.issued), moved.pid);
        let mut client = Box::new(ClientSlot::new(peer, moved.id, moved.addr, ClientPhase::Gone, now, [0; 16]));
        client.cancel = secret;
        client.user = moved.user.into();
        client.connected_at = Time::from_micros(moved.connected_at);
        client.request_at = Time::from_micros(moved.request_at);
        client.tls = moved.tls.map(Box::new);
        self.admin.client_counts.add(&client.phase);
        self.takeover.keys.add(moved.pid, peer);
        let Some(ix) = self.inherited_pool(now, &moved.database, &moved.pool_user) else {
            self.count_inherited_client(&mut client, io);
            return self.refuse(now, client, Refusal::NoSuchDatabase(moved.database), io);
        };
        client.pool = ix;
        self.count_client(ix, 1);
        let accepted = &self.pools.get(ix).accepted;
        match frozen::thaw(&moved.session, &self.sessions.params, &mut self.sessions.interner, accepted) {
            Ok(session) => {
                client.phase = ClientPhase::Ready(session);
                self.count_inherited_client(&mut client, io);
                if self.takeover.is_giving() {
                    self.hand_over_later(Some(peer));
                }
                self.insert_client(client);
                if self.admin.halt.is_suspended() {
                    self.hold(peer, io);
                }
            }
            Err(why) => {
                self.log_client(Level::Error, &client, format_args!("can't be taken over: {why}"), io);
                self.count_inherited_client(&mut client, io);
                self.refuse(now, client, Refusal::PoolGone, io);
            }
        }
    }
}

fn server_slot(moved: MovedServer, peer: Peer, pool: PoolIx, session: weir_session::Server, now: Time) -> ServerSlot {
    let (attempt, connected_at) = (Attempt::of_parts(moved.attempt), Time::from_micros(moved.connected_at));
    let mut server = ServerSlot::new(peer, moved.id, pool, moved.target.clone(), attempt, now);
    let remote: Option<IpAddr> = moved.remote;
    server.connection = Connection::moved(moved.target, attempt, moved.tls, connected_at);
    server.connection.connected(moved.local, remote);
    server.state = ServerState::Up(session, ServerPhase::Idle);
    server
}
