//! [`Engine`]: the rooms of one worker. It dispatches each input to a room, and then what the rooms want of each other.

use std::net::IpAddr;
use std::sync::Arc;

use weir_admin::{ControlReply, ControlRequest};
use weir_base::{ConnId, Origin, Time, WorkerId};
use weir_config::Config;
use weir_session::{Refusal, StatementMemory};

use crate::admin::{Admin, end, patroni, tables};
use crate::cancel::key::CancelSecret;
use crate::cancel::peering::ForwardSlot;
use crate::cancel::state::CancelSlot;
use crate::cancel::{forward, request};
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::state::Handoff;
use crate::client_login::{ClientLogin, auth_query, events, greet, opening};
use crate::common::{Common, FollowUp, Job, UnderWay};
use crate::conns::Conn;
use crate::core::Core;
use crate::handles::Waiter;
use crate::lending::{borrower, owner, received};
use crate::link::{full, leave, lost, pin, query, release, timeouts};
use crate::listen::{self, deliver};
use crate::moves::{arrive, depart, order};
use crate::pause::{commands, drain, hold, watch};
use crate::pools::{apply_config, create, poll, reconnect};
use crate::port::{Input, Io, Level};
use crate::primary::{fence, hinted};
use crate::reading::Reason;
use crate::secured::Secured;
use crate::server::ending::EndingSlot;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::server::{close, login, open, permits, probe, silence, vanished};
use crate::sessions::Sessions;
use crate::timers::Who;
use crate::upgrade::{export, import};
use crate::workers::messages::{ClientHandoff, Message, Payload, WorkerAnswer, WorkerCommand};
use crate::workers::quota::{QuotaReply, Resource};
use crate::workers::{Workers, client_counts, send, shares};
use crate::{lines, log, port, replication};

/// The timers of one turn. More are due only where one arms itself again for a time that has passed: that costs the
/// worker's time, and not the worker.
const MOST_TIMERS: u32 = 1 << 20;

/// The configuration of an engine.
pub struct Setup {
    /// The worker's id.
    pub worker: WorkerId,
    /// The number of workers; at most 127.
    pub workers: u16,
    /// The configuration, valid as a whole.
    pub config: Arc<Config>,
    /// Random bytes for this engine alone.
    pub seed: [u8; 32],
    /// Random bytes that all engines of the process share: so the same statement has the same name in each of them.
    pub process_key: [u8; 32],
    /// The account of statements of all engines of the process.
    pub statement_memory: StatementMemory,
    /// The wall clock at [`Time::START`], in microseconds since 1970.
    pub wall_at_start: u64,
    /// The program's name and version, as SHOW VERSION says it.
    pub version: &'static str,
    /// What the process has said that this one takes over from; `None`: there is none.
    pub old_process: Option<port::OfferedState>,
    /// The operating system's user that the process runs as: the same one may administer it over the Unix socket.
    pub uid: u32,
    /// The machine's name.
    pub host_name: Arc<str>,
    /// How many pools adopt a new configuration in a turn, at least 1.
    pub pools_per_turn: usize,
}

/// One worker's sessions and pools.
pub struct Engine {
    pub(crate) core: Core,
    pub(crate) client_login: ClientLogin,
    pub(crate) workers: Workers,
    pub(crate) admin: Admin,
}

impl Engine {
    /// An engine without sessions.
    pub fn new(setup: Setup) -> Self {
        let config = setup.config;
        let mut hash_key = [0; 16];
        hash_key.copy_from_slice(&setup.process_key[..16]);
        let mut engine = Engine {
            client_login: ClientLogin::new(setup.process_key, setup.uid, &config),
            workers: Workers::default(),
            admin: Admin::new(config.clone(), setup.version),
            core: Core::new(
                Sessions::new(hash_key, &setup.statement_memory, &config),
                Common::new(
                    (setup.worker, setup.workers),
                    config,
                    setup.seed,
                    setup.wall_at_start,
                    setup.host_name,
                    setup.pools_per_turn,
                ),
            ),
        };
        let core = &mut engine.core;
        let first = core.common.random_number();
        core.conns.begin_pids_at(first);
        if let Some(old) = setup.old_process {
            core.common.begin_ids_after(old.last_id);
            core.upgrade.held.begin();
            old.disabled.into_iter().for_each(|name| core.pause.disable(&mut core.common, name));
            core.pause.apply_config(&mut core.common);
        }
        engine.admin.begin_period(core, Time::START);
        engine.admin.patroni_configured(core, Time::START);
        create::forced(core).iter().for_each(|pool| create::create_forced(core, Time::START, pool));
        engine
    }

    /// Handles one input. `now` never goes backwards. Deadlines are handled only by [`Input::Tick`], so that input
    /// that arrived in time is handled first, however late that is.
    pub fn handle<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I) {
        self.core.common.set_now(now);
        match input {
            Input::Bytes { conn, bytes } => {
                if self.core.common.is_under_way(UnderWay::SUSPEND) {
                    hold::hold(&mut self.core, conn, io);
                }
                match self.core.conns.take_any(conn) {
                    Conn::Server(server) => self.server_bytes(now, server, bytes, io),
                    Conn::Client(client) => self.client_bytes(now, client, bytes, io),
                    other => self.other_bytes(now, conn, other, bytes, io),
                }
            }
            other => self.event(now, other, io),
        }
        while let Some(work) = self.core.common.next_follow_up() {
            self.follow_up(now, work, io);
        }
        if self.core.common.is_under_way(UnderWay::FLUSH) {
            commands::check_flushed(&mut self.core, io);
        }
    }

    /// When [`Input::Tick`] is due.
    pub fn next_deadline(&self) -> Time {
        self.core.common.next_deadline()
    }

    /// A connection sent something that is no client's and no server's.
    #[inline(never)]
    fn other_bytes<I: Io>(&mut self, now: Time, conn: ConnId, from: Conn, bytes: &[u8], io: &mut I) {
        match from {
            Conn::Cancel(cancel) => request::bytes(&mut self.core, cancel, bytes, io),
            Conn::Probe(target) => probe::answered(&mut self.core, now, conn, &target, io),
            // Only the end of the connection matters: so with a peer, too.
            ending @ (Conn::Forward(_) | Conn::Ending(_)) => self.core.conns.put_at(conn, ending),
            Conn::Client(_) | Conn::Server(_) | Conn::Free => {}
        }
    }

    /// A client sent something.
    #[inline]
    fn client_bytes<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, bytes: &[u8], io: &mut I) {
        if self.core.common.is_under_way(UnderWay::SHUTDOWN) && drain::is_late(&self.core, now, &client) {
            return leave::refuse(&mut self.core, now, client, Refusal::Leaving, io);
        }
        client.acts(now);
        let ready = matches!(client.phase, ClientPhase::Ready(_));
        if ready && !client.reading.has(Reason::Waits) && client.waiting.is_empty() {
            return query::feed(&mut self.core, now, client, bytes, Some(0), io);
        }
        if let ClientPhase::Streaming(_) = client.phase {
            return replication::stream_to_server(&mut self.core, now, client, bytes, io);
        }
        match self.core.prelogin.hold(&mut client, bytes) {
            Ok(displaced) => displaced.into_iter().for_each(|displaced| {
                leave::refuse_handle(&mut self.core, now, displaced, Refusal::TooManyLogins, io);
            }),
            Err(refusal) => return leave::refuse(&mut self.core, now, client, refusal, io),
        }
        match client.phase {
            ClientPhase::Ready(_) => self.core.conns.put_client(client),
            ClientPhase::Console(_) => self.admin.console_bytes(&mut self.core, now, client, io),
            // Further input of a client that sent a cancel request is ignored.
            ClientPhase::Canceller => {
                client.waiting_mut().clear();
                self.core.conns.put_client(client);
            }
            _ => self.client_login.login_input(&mut self.core, now, client, io),
        }
    }

    #[inline]
    fn server_bytes<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        let core = &mut self.core;
        server.clock_mut().received(now);
        let ServerState::Up(_, phase) = &server.state else { return login::bytes(core, now, server, bytes, io) };
        match *phase {
            ServerPhase::Identifying => login::identity_bytes(core, now, server, bytes, io),
            ServerPhase::CheckingRole
            | ServerPhase::CheckingHost
            | ServerPhase::AwaitingFence
            | ServerPhase::ConnectQuery => login::query_bytes(core, now, server, bytes, io),
            ServerPhase::AuthQuery(query) => auth_query::bytes(core, now, server, query, bytes, io),
            ServerPhase::Listening => listen::server::bytes(core, now, server, bytes, io),
            ServerPhase::Streaming => replication::stream_to_client(core, now, server, bytes, io),
            _ => query::server_bytes(core, now, server, bytes, io),
        }
    }

    /// Handles an input that is not [`Input::Bytes`]; a query has no such input. Not inlined: bytes do not need the
    /// stack space of these inputs.
    #[inline(never)]
    fn event<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I) {
        match input {
            Input::Bytes { .. } => {}
            Input::Accepted { conn, from } => self.client_login.accepted(&mut self.core, now, conn, from, io),
            Input::Closed { conn, .. } => self.closed(now, conn, io),
            Input::Ending { conn } => query::ending(&mut self.core, now, conn, io),
            Input::Blocked { conn } => full::blocked(&mut self.core, conn, io),
            Input::Drained { conn } => self.drained(conn, io),
            Input::Connected { conn, local, remote } => self.connected(conn, local, remote, io),
            Input::Secured { conn, tls } => self.secured(now, conn, tls, io),
            Input::TlsFailed { conn, error } => self.tls_failed(now, conn, &error, io),
            Input::Resolved { name, addresses, ttl } => {
                vanished::resolved(&mut self.core, now, name, addresses, ttl, io)
            }
            Input::ConnectFailed { conn, error } => self.connect_failed(now, conn, &error, io),
            Input::Detached { conn } => self.detached(now, conn, io),
            Input::JobDone { job, result } => self.job_done(now, job, result, io),
            Input::Message { from, message, socket } => self.message(now, from, message, socket, io),
            Input::Load(percent) => {
                self.client_login.loaded(&mut self.core, percent, io);
                let commands = self.admin.commands_are_under_way();
                order::consider(&mut self.core, &mut self.client_login.loads, now, false, commands, io);
            }
            Input::ClockSet(wall_at_start) => self.core.common.set_wall(wall_at_start),
            Input::Upgrade(step) => self.admin.upgrade_step(&mut self.core, now, step, io),
            Input::OldProcess(step) => import::old_process(&mut self.core, step),
            Input::CancelRequest { pid, secret } => request::cancel(&mut self.core, now, None, pid, secret, io),
            Input::Imported { value, socket } => import::import(&mut self.core, now, value, socket, io),
            Input::Signal(signal) => self.admin.signal(&mut self.core, now, signal, io),
            Input::ControlRequest { number, request } => self.control_request(now, number, request, io),
            Input::ControlRequestDropped { number } => {
                self.admin.control_request_dropped(&mut self.core, now, number, io)
            }
            Input::Tick => self.ticks(now, io),
        }
    }

    /// Does what one room wants of another.
    #[inline(never)]
    fn follow_up<I: Io>(&mut self, now: Time, work: FollowUp, io: &mut I) {
        match work {
            FollowUp::Release(server) => release::release(&mut self.core, now, server, io),
            FollowUp::Feed(client) => self.feed_waiting(now, client, io),
            FollowUp::PollPool(pool) => poll::poll_pool(&mut self.core, now, pool, io),
            FollowUp::Export(conn) => export::export(&mut self.core, now, conn, io),
            FollowUp::Demoted(demotion) => fence::demoted(&mut self.core, now, *demotion, io),
            FollowUp::NeedAlone { pool, database } => {
                reconnect::free_everywhere(&mut self.core, now, pool, database, io);
            }
            FollowUp::Displaced(client) => {
                leave::refuse_handle(&mut self.core, now, client, Refusal::TooManyLogins, io);
            }
            FollowUp::Granted { waiter, server } => self.granted(now, waiter, server, io),
            FollowUp::Listens(client, left) => pin::listens(&mut self.core, now, client, *left, io),
            FollowUp::Notify(client) => deliver::flush(&mut self.core, client, io),
            FollowUp::WelcomeConfirmed(client) => greet::confirmed(&mut self.core, now, client, io),
            FollowUp::AuthQueryLost { query, error } => {
                auth_query::lost(&mut self.core, now, query, error.map(|error| *error), io);
            }
            FollowUp::ClientGone(client) => self.client_gone(now, &client, io),
            FollowUp::CancelConsole(client) => self.admin.cancel_console(&mut self.core, now, client, io),
            FollowUp::Watch(watch) => commands::watch(&mut self.core, *watch, io),
            FollowUp::CheckDrained => watch::check_drained(&mut self.core, io),
            FollowUp::CheckSharedServersEnded => end::check_shared_servers_ended(&self.core, &self.workers, io),
        }
    }

    /// A client continues with the input that was buffered while it waited.
    fn feed_waiting<I: Io>(&mut self, now: Time, conn: ConnId, io: &mut I) {
        let Some(client) = self.core.conns.take::<ClientSlot>(conn) else { return };
        match client.phase {
            ClientPhase::Ready(_) => query::feed_waiting(&mut self.core, now, client, io),
            ClientPhase::Console(_) if !client.reading.has(Reason::Waits) => {
                self.admin.console_bytes(&mut self.core, now, client, io);
            }
            ClientPhase::Opening { .. } | ClientPhase::Login(_) => {
                self.client_login.login_input(&mut self.core, now, client, io);
            }
            _ => self.core.conns.put_client(client),
        }
    }

    /// A pool has given a server to a client that logs in, to an auth_query, or to itself, to listen.
    fn granted<I: Io>(&mut self, now: Time, waiter: ConnId, server: ConnId, io: &mut I) {
        let core = &mut self.core;
        match Waiter::of(waiter) {
            Waiter::AuthQuery(query) => auth_query::send(core, now, query, server, io),
            Waiter::Listener(handle) => listen::server::granted(core, now, handle, server, io),
            Waiter::Client(client) => greet::granted(core, now, client, server, io),
            Waiter::Borrower(_) => {}
        }
    }

    /// A client has gone that was logging in, or was an operator.
    fn client_gone<I: Io>(&mut self, now: Time, client: &ClientSlot, io: &mut I) {
        match &client.phase {
            ClientPhase::Console(console) => self.admin.console_gone(&mut self.core, now, console, io),
            _ => self.client_login.client_gone(&mut self.core, now, client, io),
        }
    }

    /// A socket has room again.
    fn drained<I: Io>(&mut self, conn: ConnId, io: &mut I) {
        full::drained(&mut self.core, conn, io);
        deliver::flush(&mut self.core, conn, io);
        tables::console_reads(&mut self.core, conn, io);
    }

    fn closed<I: Io>(&mut self, now: Time, conn: ConnId, io: &mut I) {
        match self.core.conns.take_any(conn) {
            Conn::Server(server) => server_lost(&mut self.core, now, server, io),
            Conn::Client(client) => leave::client_gone(&mut self.core, now, client, io),
            Conn::Cancel(cancel) => request::over(&mut self.core, &cancel, io),
            Conn::Forward(forward) => forward::over(&mut self.core, &forward, io),
            Conn::Ending(ending) => close::server_ended(&ending, io),
            Conn::Probe(target) => probe::over(&mut self.core, &target),
            Conn::Free => {}
        }
    }

    /// A socket is detached, as requested.
    fn detached<I: Io>(&mut self, now: Time, conn: ConnId, io: &mut I) {
        if let Some(server) = self.core.conns.take::<ServerSlot>(conn) {
            return server_detached(&mut self.core, now, server, io);
        }
        let Some(mut client) = self.core.conns.take::<ClientSlot>(conn) else { return };
        let ClientPhase::Moving(handoff) = client.take_phase() else { return };
        self.core.prelogin.discharge(&mut client);
        self.core.client_counts.remove(&client.phase);
        let handoff = match *handoff {
            Handoff::Upgrade => return export::client_leaves_process(&mut self.core, now, client, io),
            Handoff::Move(to, moved) => return depart::detached(&mut self.core, now, client, (to, *moved), io),
            login => login,
        };
        let client = client.into_row();
        let (to, payload) = match handoff {
            Handoff::Startup(to, hello, leftover) => {
                let (id, addr, connected_at, tls) = (client.id, client.addr, client.connected_at, client.tls);
                (to, Payload::Client(ClientHandoff { hello, leftover, id, addr, tls, connected_at }))
            }
            Handoff::Cancel { to, pid, secret } => {
                (to, Payload::Cancel { pid, secret, id: client.id, addr: client.addr })
            }
            Handoff::Upgrade | Handoff::Move(..) => return,
        };
        io.post(to, Message(payload), Some(conn));
    }

    /// A connect of ours has succeeded.
    fn connected<I: Io>(&mut self, conn: ConnId, local: String, remote: Option<IpAddr>, io: &mut I) {
        let core = &mut self.core;
        if let Some(server) = core.conns.take::<ServerSlot>(conn) {
            login::connected(core, server, local, remote, io);
        } else if core.conns.get::<CancelSlot>(conn).is_some() {
            request::connected(core, conn, io);
        } else if core.conns.get::<ForwardSlot>(conn).is_some() {
            forward::connected(core, conn, io);
        } else {
            probe::connected(core, conn, io);
        }
    }

    /// A connect of ours has failed; the handle is dead.
    fn connect_failed<I: Io>(&mut self, now: Time, conn: ConnId, error: &str, io: &mut I) {
        let core = &mut self.core;
        match core.conns.take_any(conn) {
            Conn::Server(server) => login::connect_failed(core, now, server, error, io),
            Conn::Cancel(cancel) => request::over(core, &cancel, io),
            Conn::Forward(slot) => forward::failed(core, &slot, error, io),
            Conn::Client(client) => core.conns.put_client(client),
            Conn::Probe(target) => probe::over(core, &target),
            // The connection of an `Ending` was logged in.
            Conn::Ending(_) | Conn::Free => {}
        }
    }

    /// A TLS handshake has succeeded.
    fn secured<I: Io>(&mut self, now: Time, conn: ConnId, secured: Box<Secured>, io: &mut I) {
        match self.core.conns.take_any(conn) {
            Conn::Client(mut client) => {
                client.secured(Some(secured));
                let step = opening::tls_done(&mut client);
                self.client_login.login_step(&mut self.core, now, client, step, io);
            }
            Conn::Server(mut server) => {
                server.connection_mut().secured(secured);
                login::secured(&mut self.core, server, io);
            }
            Conn::Cancel(cancel) => {
                self.core.conns.put_at(conn, Conn::Cancel(cancel));
                request::secured(&mut self.core, conn, io);
            }
            Conn::Free => {}
            other => self.core.conns.put_at(conn, other),
        }
    }

    /// A TLS handshake has failed; the handle is dead.
    fn tls_failed<I: Io>(&mut self, now: Time, conn: ConnId, error: &str, io: &mut I) {
        match self.core.conns.take_any(conn) {
            Conn::Client(client) => {
                lines::about_client(
                    &self.core,
                    Level::Warning,
                    &client,
                    format_args!("TLS handshake failed: {error}"),
                    io,
                );
                let at = self.core.common.wall(now);
                self.core.refusals.count_handshake(Origin::of(&client.addr), error, at);
                leave::client_gone(&mut self.core, now, client, io);
            }
            Conn::Server(server) => login::tls_failed(&mut self.core, now, server, error, io),
            Conn::Cancel(cancel) => request::over(&mut self.core, &cancel, io),
            Conn::Forward(forward) => forward::over(&mut self.core, &forward, io),
            Conn::Ending(ending) => close::server_ended(&ending, io),
            Conn::Probe(target) => probe::over(&mut self.core, &target),
            Conn::Free => {}
        }
    }

    fn message<I: Io>(&mut self, now: Time, from: WorkerId, message: Message, socket: Option<ConnId>, io: &mut I) {
        match (message.0, socket) {
            (Payload::Client(handoff), Some(conn)) => self.client_login.arrived(&mut self.core, now, conn, handoff, io),
            (Payload::Cancel { pid, secret, id, addr }, Some(conn)) => {
                events::canceller_arrived(&mut self.core, now, conn, id, addr);
                request::cancel(&mut self.core, now, Some(conn), pid, &secret, io);
            }
            (Payload::CancelAlone { pid, secret }, _) => request::cancel(&mut self.core, now, None, pid, &secret, io),
            (Payload::CancelAgain { requester, client, until }, _) => {
                request::cancel_again(&mut self.core, now, (requester, until), client, io);
            }
            (Payload::Adopting, _) => self.adopt(now, self.core.common.pools_per_turn(), io),
            (Payload::NextTurn(client), _) => query::next_turn(&mut self.core, client, io),
            (Payload::ClientCame, _) => self.core.client_quota.add(),
            (Payload::ClientGone, _) => self.core.client_quota.remove(),
            (Payload::QuotaRequest(request), _) => {
                self.workers.quota_requested(&mut self.core, now, from, *request, io)
            }
            (Payload::QuotaReply(at, reply), _) => self.quota_replied(now, at, *reply, io),
            (Payload::LookUp(query), _) => auth_query::begin(&mut self.core, now, from, *query, io),
            (Payload::Lending(message), _) => received::received(&mut self.core, now, from, *message, socket, io),
            (Payload::Distrust { database, user }, _) => self.client_login.lookups.forget(&(database, user)),
            (Payload::MakeRoom(from_origin), _) => {
                self.client_login.evict_unauthenticated(&mut self.core, now, from_origin, io);
            }
            (Payload::Failed(origin), _) => {
                self.client_login.failed_elsewhere(&mut self.core, now, origin, io);
            }
            (Payload::LookUpNoMore(id), _) => auth_query::withdraw(&mut self.core, now, id),
            (Payload::LookedUp { id, answer }, _) => {
                self.client_login.secret_answered(&mut self.core, now, id, &answer, io)
            }
            (Payload::Command { id, command }, _) => self.carry_out(now, from, id, command, io),
            (Payload::PrimaryFound { pool, at }, _) => self.admin.primary_found(&mut self.core, now, &pool, &at, io),
            (Payload::PrimaryLost { pool, at, why }, _) => {
                self.admin.primary_lost(&mut self.core, now, &pool, &at, why, io)
            }
            (Payload::PatroniSaid(question, yes), _) => hinted::heard(&mut self.core, now, &question, yes, io),
            (Payload::CloseServers(database), _) => shares::close_servers_of(&mut self.core, now, &database, io),
            (Payload::Lease(until, obstacle), _) => self.core.lease.set(now, until, obstacle),
            (Payload::Peers(peers), _) => self.core.peering.set_nodes(peers, self.core.common.config()),
            (Payload::ServerEnding(database), _) => self.workers.budget.ending(&database),
            (Payload::ServerGoes(database), _) => self.workers.budget.server_goes(&database),
            (Payload::ServerCame(database), _) => self.workers.budget.server_came(&database),
            (Payload::ServerEnded(database), _) => self.workers.shared_server_ended(&mut self.core, now, &database, io),
            (Payload::FreeDatabase(server, database), _) => {
                reconnect::free_database(&mut self.core, now, &server, &database, io)
            }
            (Payload::CloseReleased(database, excess), _) => {
                shares::close_released(&mut self.core, now, &database, excess)
            }
            (Payload::Trouble, _) => self.admin.trouble_reported(&mut self.core, now, io),
            (Payload::CommandAnswer { id, answer }, _) => self.admin.answered(&mut self.core, now, id, answer, io),
            (Payload::Paging(paging), _) => tables::paging(&mut self.core, from, paging, io),
            (Payload::Load(percent), _) => {
                self.client_login.load_reported(&self.core, from, percent);
                let commands = self.admin.commands_are_under_way();
                order::consider(&mut self.core, &mut self.client_login.loads, now, false, commands, io);
            }
            (Payload::MoveClients(order), _) => depart::begin(&mut self.core, now, order, io),
            (Payload::Moved(client), Some(conn)) => arrive::arrived(&mut self.core, now, from, *client, conn, io),
            (Payload::Moved(client), None) => arrive::lost(&mut self.core, from, *client, io),
            (Payload::MoveArrived, _) => self.core.moves.arrived(io),
            (Payload::MovesDone(batch), _) => self.core.common.moves_done(batch, io),
            (Payload::AwayGone(client), _) => self.core.away.returns(client),
            (Payload::AwayCame(client, secret, issued), _) => {
                self.core.away.leaves(client, CancelSecret::of_parts((secret, issued), client.0), from);
            }
            (Payload::Drained(drain), _) => {
                self.admin.worker_drained(&mut self.core, &self.workers, now, from, drain, io)
            }
            (Payload::Client(_) | Payload::Cancel { .. }, None) => {
                log::log(Level::Error, format_args!("a client arrived without its socket"), io);
            }
        }
    }

    /// Worker 0 answers a request of a client or a pool, or asks for something.
    fn quota_replied<I: Io>(&mut self, now: Time, at: Time, reply: QuotaReply, io: &mut I) {
        match reply {
            QuotaReply::Answer { id, resource: Resource::Client(counts_for), full, .. } => {
                self.client_login.client_answered(&mut self.core, now, id, counts_for, full, io);
            }
            reply => permits::quota_replied(&mut self.core, now, at, reply, io),
        }
    }

    /// A helper has finished.
    fn job_done<I: Io>(&mut self, now: Time, job: u64, result: port::WorkResult, io: &mut I) {
        match (self.core.common.end_job(job), result) {
            (Some(Job::ClientSalt(conn)), port::WorkResult::Salted(salted)) => {
                self.client_login.client_hashed(&mut self.core, now, conn, &salted, io)
            }
            (Some(Job::CheckPassword(conn)), port::WorkResult::Checked(result)) => {
                self.client_login.password_checked(&mut self.core, now, conn, result, io);
            }
            (Some(Job::NameOfUser(uid)), port::WorkResult::UserName(name)) => {
                self.client_login.user_named(&mut self.core, now, uid, name.as_deref(), io);
            }
            (Some(Job::ServerSalt(conn)), port::WorkResult::Salted(salted)) => {
                login::salted(&mut self.core, now, conn, &salted, io)
            }
            (Some(Job::ServerPassword(conn)), port::WorkResult::Password(printed)) => {
                login::password_printed(&mut self.core, now, conn, printed, io)
            }
            (Some(Job::Reload), port::WorkResult::Config(read)) => {
                self.admin.config_read(&mut self.core, now, read, io)
            }
            (Some(Job::Reload), port::WorkResult::Changed(made)) => {
                self.admin.config_changed(&mut self.core, now, made, io)
            }
            (Some(Job::RecordConfig), port::WorkResult::Recorded(error)) => {
                if let Some(why) = error {
                    log::log(Level::Warning, format_args!("the history of the configuration can't be kept: {why}"), io);
                }
            }
            (Some(Job::AskPatroni(question)), port::WorkResult::Patroni(answer)) => {
                self.admin.patroni_answered(&mut self.core, now, &question, answer, io);
            }
            _ => log::log(Level::Error, format_args!("an answer of a helper without a request"), io),
        }
    }

    /// A request of the control plane.
    fn control_request<I: Io>(&mut self, now: Time, number: u64, request: ControlRequest, io: &mut I) {
        match request {
            ControlRequest::SetShared(limits) => {
                let open = self.workers.set_shared_limits(&mut self.core, now, limits, io);
                io.answer(number, Ok(ControlReply::SharedOpen(open)));
            }
            request => self.admin.control_request(&mut self.core, now, number, request, io),
        }
    }

    /// Executes a command from a worker.
    fn carry_out<I: Io>(&mut self, now: Time, from: WorkerId, id: u64, command: WorkerCommand, io: &mut I) {
        if !command.is_report() {
            // Commands have their order.
            self.adopt(now, usize::MAX, io);
        }
        match command {
            WorkerCommand::Adopt(config) => {
                io.apply_config(&config);
                self.core.sessions.apply_config(&config);
                self.client_login.apply_config(&config);
                apply_config::begin(&mut self.core, config, (from, id));
                self.adopt(now, self.core.common.pools_per_turn(), io);
            }
            command => self.admin.carry_out(&mut self.core, &self.workers, now, (from, id), command, io),
        }
    }

    /// Some pools adopt the configuration in force. No client is disconnected; servers whose address or login changed are
    /// replaced as they are released.
    fn adopt<I: Io>(&mut self, now: Time, most: usize, io: &mut I) {
        if self.core.pools.adoption.is_none() {
            return;
        }
        match apply_config::turn(&mut self.core, now, most, io) {
            Some(command) => adopted(self, now, command, io),
            None => io.post(self.core.common.worker(), Message(Payload::Adopting), None),
        }
    }

    /// Handles the timers that are due; what is left after very many has its turn next.
    fn ticks<I: Io>(&mut self, now: Time, io: &mut I) {
        let mut fired = 0;
        while fired < MOST_TIMERS
            && let Some((when, who)) = self.core.common.timers().due(now)
        {
            fired += 1;
            match who {
                Who::Conn(_) | Who::Pool(_) if self.core.common.is_under_way(UnderWay::SUSPEND) => {
                    self.core.pause.defer(when, who)
                }
                Who::Flush => commands::flush_due(&mut self.core, now, io),
                Who::Conn(conn) => self.conn_due(now, when, conn, io),
                Who::Pool(ix) => {
                    let Some(slot) = self.core.pools.find_mut(ix) else { continue };
                    if slot.armed == when {
                        *slot.armed_mut() = Time::NEVER;
                        self.core.common.follow_up(FollowUp::PollPool(ix));
                    }
                }
                Who::Dns => vanished::dns_due(&mut self.core, now, io),
                Who::DownHosts => open::down_hosts_due(&mut self.core, now, io),
                Who::Stats => self.admin.end_period(&mut self.core, now, io),
                Who::Budget => self.workers.budget_due(&mut self.core, now, io),
                Who::Primaries => self.admin.primaries_due(&mut self.core, now, io),
                Who::Patroni => self.admin.patroni_due(&mut self.core, now, io),
                Who::Silence => silence::due(&mut self.core, now, io),
                Who::Health => self.admin.health_due(&mut self.core, now, io),
                Who::Broadcasts => self.admin.answers_too_late(&mut self.core, now, io),
                Who::Shutdown => self.admin.shutdown_due(&mut self.core, &self.workers, now, io),
                Who::Announcement => self.admin.announcement_due(&mut self.core, now, io),
                Who::Drain => {
                    drain::due(&mut self.core, now, io);
                    self.admin.report_drain(&mut self.core, now, io);
                }
                Who::Dismissal => commands::dismiss_waiting(&mut self.core, now, io),
                Who::NextTurn(client) => query::next_turn(&mut self.core, client, io),
                Who::Moves if *self.client_login.loads.armed() != when => {}
                Who::Moves => {
                    *self.client_login.loads.armed() = Time::NEVER;
                    let commands = self.admin.commands_are_under_way();
                    order::consider(&mut self.core, &mut self.client_login.loads, now, true, commands, io);
                }
                Who::Detaching => self.core.moves.due(&mut self.core.common, io),
            }
        }
        debug_assert!(fired < MOST_TIMERS, "a timer is due again at once");
    }

    fn conn_due<I: Io>(&mut self, now: Time, when: Time, conn: ConnId, io: &mut I) {
        if let Some(client) = self.core.conns.get_mut::<ClientSlot>(conn) {
            if client.armed == when {
                *client.armed_mut() = Time::NEVER;
                match client.phase {
                    ClientPhase::Ready(_) | ClientPhase::Streaming(_) => {
                        timeouts::client_due(&mut self.core, now, conn, io);
                    }
                    _ => greet::due(&mut self.core, now, conn, io),
                }
            }
        } else if let Some(server) = self.core.conns.get_mut::<ServerSlot>(conn) {
            if server.armed == when {
                *server.armed_mut() = Time::NEVER;
                if let Some(server) = timeouts::server_due(&mut self.core, now, conn, io) {
                    server_lost(&mut self.core, now, server, io);
                }
            }
        } else if self.core.conns.get_mut::<CancelSlot>(conn).is_some_and(|c| c.armed == when) {
            request::due(&mut self.core, now, conn, io);
        } else if self.core.conns.get_mut::<ForwardSlot>(conn).is_some_and(|slot| slot.armed == when) {
            forward::due(&mut self.core, now, conn, io);
        } else if self.core.conns.get_mut::<EndingSlot>(conn).is_some_and(|slot| slot.armed == when) {
            close::ending_due(&mut self.core, now, conn, io);
        }
    }
}

/// A server's socket is detached, as requested.
fn server_detached<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, io: &mut I) {
    match server.phase() {
        Some(ServerPhase::Lending { request, check }) => owner::send_lent(core, server, request, check, io),
        Some(ServerPhase::Returning) => borrower::send_returned(core, now, server, io),
        Some(ServerPhase::Leaving) => export::server_leaves(core, server, io),
        _ => core.conns.put_at(server.conn, Conn::Server(server)),
    }
}

/// All pools have adopted the configuration in force.
fn adopted<I: Io>(engine: &mut Engine, now: Time, (from, id): (WorkerId, u64), io: &mut I) {
    let Engine { core, workers, admin, .. } = engine;
    reconnect::recheck_all_linked(core);
    timeouts::watch_linked(core);
    open::recheck_logins(core, now, io);
    workers.limits_changed(core, now, io);
    core.peering.apply_config(core.common.config());
    client_counts::count_uncounted(core, io);
    core.pause.apply_config(&mut core.common);
    fence::configured(core, now, io);
    admin.primaries_configured(core, now, io);
    for gone in admin.patroni_configured(core, now) {
        patroni::tell(core, &gone, false, io);
    }
    send::answer(from, id, WorkerAnswer::Done, io);
}

/// A server's connection has ended, or is closed because the server can't be trusted; it is out of the table.
fn server_lost<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, io: &mut I) {
    match server.is_new() {
        true => login::lost(core, now, server, io),
        false => lost::server_lost(core, now, server, io),
    }
}
