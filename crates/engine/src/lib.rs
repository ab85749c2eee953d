//! The decisions of one worker: its sessions and its pools, without I/O.
//!
//! [`Engine::handle`] gets one [`port::Input`] at a time and answers through [`port::Io`]; it owns no socket, clock or
//! thread. The engine consists of parts, each of which owns its fields and returns what others must do, or queues it
//! as a [`FollowUp`](common::FollowUp):
//!
//! - `entry`: a client's way in. `traffic`: what passes between clients and servers. `backends`: connections to servers.
//! - `cluster`: what workers say to each other. `admin`: what operators ask for. `flows`: what takes several parts.
//! - `takeover`: what moves to another process, which takes over.
//! - `common`: what every part may use. `sessions`: what all sessions share. `peers`, `pools`: the two tables.
//! - `timers`: who is woken when. `log`: lines about peers. `handles`: names for pools and for those who wait.

mod admin;
mod backends;
mod cluster;
mod common;
mod engine;
mod entry;
mod flows;
mod handles;
mod log;
mod password_check;
mod peers;
mod pools;
mod secured;
mod sessions;
mod takeover;
mod timers;
mod traffic;

#[cfg(test)]
extern crate self as weir_engine;
#[cfg(test)]
mod idle_tests;
#[cfg(test)]
#[path = "../tests/common/mod.rs"]
mod world;

pub use cluster::messages::Message;
pub use engine::{Engine, Setup};
pub use flows::lending::PoolQueue;
pub use takeover::moved::FORMAT as TAKEOVER_FORMAT;
pub use traffic::cancel_pids::worker_of as worker_of_cancel_pid;

pub mod port;

use weir_base::{Peer, Time, WorkerId};

pub use weir_session::StatementMemory;

use crate::cluster::messages::Payload;
use crate::common::{FollowUp, Job, cx};
use crate::peers::Entry;
use crate::port::{Input, Io, Level};

impl Engine {
    /// Handles one input. `now` never goes backwards. Deadlines are handled only by [`Input::Tick`], so that input
    /// that arrived in time is handled first, however late that is.
    pub fn handle<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I) {
        self.common.set_now(now);
        match input {
            Input::Bytes { peer, bytes } => self.bytes(now, peer, bytes, io),
            other => self.event(now, other, io),
        }
        if !self.common.is_done() {
            self.work_off(now, io);
        }
        if self.admin.halt.is_flushing() {
            self.check_flushed(io);
        }
    }

    /// Handles an input that is not [`Input::Bytes`], of which a query has none. Out of line: what it needs of the stack is
    /// not needed for bytes.
    #[inline(never)]
    fn event<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I) {
        match input {
            Input::Bytes { .. } => {}
            Input::Accepted { peer, from } => self.accepted(now, peer, from, io),
            Input::Closed { peer, .. } => self.closed(now, peer, io),
            Input::Ending { peer } => self.ending(now, peer, io),
            Input::Blocked { peer } => self.blocked(peer, io),
            Input::Drained { peer } => self.drained_peer(peer, io),
            Input::Connected { peer, local, remote } => self.connected(peer, local, remote, io),
            Input::Secured { peer, tls } => self.secured(now, peer, tls, io),
            Input::TlsFailed { peer, error } => self.tls_failed(now, peer, &error, io),
            Input::Resolved { name, addresses, ttl } => self.resolved(now, name, addresses, ttl, io),
            Input::ConnectFailed { peer, error } => self.connect_failed(now, peer, &error, io),
            Input::Detached { peer } => self.detached(now, peer, io),
            Input::Helped { job, answer } => self.helped(now, job, answer, io),
            Input::Message { from, message, socket } => self.message(now, from, message, socket, io),
            Input::Load(percent) => self.loaded(percent, io),
            Input::HandOver(step) => self.hand_over(now, step, io),
            Input::Predecessor(step) => self.predecessor(step),
            Input::CancelRequest { pid, secret } => self.cancel(now, None, pid, secret, io),
            Input::Inherited { value, socket } => self.inherit(now, value, socket, io),
            Input::Signal(signal) => self.signal(now, signal, io),
            Input::Asked { number, request } => self.control_request(now, number, request, io),
            Input::AskedNoMore { number } => self.control_request_dropped(now, number, io),
            Input::Tick => self.ticks(now, io),
        }
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Time {
        self.common.next_deadline()
    }

    /// Does what is queued for this turn, until nothing is.
    fn work_off<I: Io>(&mut self, now: Time, io: &mut I) {
        while let Some(work) = self.common.next_follow_up() {
            match work {
                FollowUp::Release(server) => self.release(now, server, io),
                FollowUp::Feed(client) => self.feed_waiting(now, client, io),
                FollowUp::PollPool(pool) => self.poll_pool(now, pool, io),
                FollowUp::HandOver(peer) => self.give(now, peer, io),
                FollowUp::NeededAlone => self.free_databases(now, io),
                FollowUp::Displaced(client) => {
                    self.refuse_handle(now, client, weir_session::Refusal::TooManyLogins, io)
                }
            }
        }
    }

    #[inline]
    fn bytes<I: Io>(&mut self, now: Time, peer: Peer, bytes: &[u8], io: &mut I) {
        if self.admin.halt.is_suspended() {
            self.hold(peer, io);
        }
        match self.peers.take(peer) {
            Entry::Server(server) => self.server_bytes(now, server, bytes, io),
            Entry::Client(client) => self.client_bytes(now, client, bytes, io),
            Entry::Cancel(cancel) => self.cancel_bytes(cancel, bytes, io),
            // A peer answers with nothing but the end of the connection.
            Entry::Forward(forward) => self.peers.put(peer, Entry::Forward(forward)),
            // Only its end matters.
            Entry::Ending(ending) => self.peers.put(peer, Entry::Ending(ending)),
            Entry::Probe(target) => self.probe_answered(now, peer, &target, io),
            Entry::Free => {}
        }
    }

    fn closed<I: Io>(&mut self, now: Time, peer: Peer, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Server(server) => self.server_gone(now, server, io),
            Entry::Client(client) => self.client_gone(now, client, io),
            Entry::Cancel(cancel) => self.cancel_over(&cancel, io),
            Entry::Forward(forward) => self.forward_over(&forward, io),
            Entry::Ending(ending) => self.server_ended(&ending, io),
            Entry::Probe(target) => self.probe_over(&target),
            Entry::Free => {}
        }
    }

    fn message<I: Io>(&mut self, now: Time, from: WorkerId, message: Message, socket: Option<Peer>, io: &mut I) {
        match (message.0, socket) {
            (Payload::Client(handoff), Some(peer)) => self.arrived(now, peer, handoff, io),
            (Payload::Cancel { pid, secret, id, addr }, Some(peer)) => {
                self.canceller_arrived(now, peer, id, addr);
                self.cancel(now, Some(peer), pid, &secret, io);
            }
            (Payload::ClientCame, _) => self.cluster.clients.add(),
            (Payload::ClientGone, _) => self.cluster.clients.remove(),
            (Payload::QuotaRequest(request), _) => self.quota_requested(now, from, *request, io),
            (Payload::QuotaReply(at, reply), _) => self.quota_replied(now, at, *reply, io),
            (Payload::LookUp(query), _) => self.begin_auth_query(now, from, *query, io),
            (Payload::Lending(message), _) => self.lending_received(now, from, *message, socket, io),
            (Payload::Distrust { database, user }, _) => self.entry.lookups.forget(&(database, user)),
            (Payload::MakeRoom(from_origin), _) => {
                self.evict_unauthenticated(now, from_origin, io);
            }
            (Payload::Failed(origin), _) => {
                let cx = cx!(self, now, io);
                self.entry.throttle.failed_elsewhere(cx, origin);
            }
            (Payload::LookUpNoMore(id), _) => self.withdraw_auth_query(now, id),
            (Payload::LookedUp { id, answer }, _) => self.secret_answered(now, id, &answer, io),
            (Payload::Command { id, command }, _) => self.carry_out(now, from, id, command, io),
            (Payload::CloseServers(database), _) => self.close_servers_of(now, &database, io),
            (Payload::Lease(until, obstacle), _) => self.cluster.lapse.set(now, until, obstacle),
            (Payload::Peers(peers), _) => self.cluster.peering.set_nodes(peers),
            (Payload::ServerEnding(database), _) => self.cluster.budget.ending(&database),
            (Payload::ServerGoes(database), _) => self.cluster.budget.server_goes(&database),
            (Payload::ServerCame(database), _) => self.cluster.budget.server_came(&database),
            (Payload::ServerEnded(database), _) => self.shared_server_ended(now, &database, io),
            (Payload::FreeDatabase(server, database), _) => self.free_database(now, &server, &database, io),
            (Payload::CloseReleased(database, excess), _) => self.close_released(now, &database, excess),
            (Payload::Trouble, _) => self.trouble_reported(now, io),
            (Payload::CommandAnswer { id, answer }, _) => self.answered(now, id, answer, io),
            (Payload::Paging(paging), _) => self.paging(from, paging, io),
            (Payload::Load(percent), _) => self.load_reported(from, percent),
            (Payload::Drained(drain), _) => self.worker_drained(now, from, drain, io),
            (Payload::Client(_) | Payload::Cancel { .. }, None) => {
                log::log(Level::Error, format_args!("a client arrived without its socket"), io);
            }
        }
    }

    /// A helper has finished.
    fn helped<I: Io>(&mut self, now: Time, job: u64, answer: port::Answer, io: &mut I) {
        match (self.common.end_job(job), answer) {
            (Some(Job::ClientSalt(peer)), port::Answer::Salted(salted)) => self.client_hashed(now, peer, &salted, io),
            (Some(Job::CheckPassword(peer)), port::Answer::Checked(result)) => {
                self.password_checked(now, peer, result, io);
            }
            (Some(Job::NameOfUser(uid)), port::Answer::UserName(name)) => {
                self.user_named(now, uid, name.as_deref(), io);
            }
            (Some(Job::ServerSalt(peer)), port::Answer::Salted(salted)) => self.server_salted(now, peer, &salted, io),
            (Some(Job::Reload), port::Answer::Config(read)) => self.config_read(now, read, io),
            (Some(Job::Reload), port::Answer::Changed(made)) => self.config_changed(now, made, io),
            (Some(Job::RecordConfig), port::Answer::Recorded(error)) => {
                if let Some(why) = error {
                    log::log(Level::Warning, format_args!("the history of the configuration can't be kept: {why}"), io);
                }
            }
            _ => log::log(Level::Error, format_args!("an answer of a helper without a request"), io),
        }
    }
}
