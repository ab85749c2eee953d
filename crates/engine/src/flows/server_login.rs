//! A server's login: from its connect to its pool, or to the next host.

use std::net::IpAddr;

use weir_base::{Peer, Time};
use weir_config::LoginFailure;
use weir_pool::ConnectFailure;
use weir_session::ServerError;
use weir_session::server_login::ServerLoginStep;

use crate::backends::hosts::Fitness;
use crate::backends::login::{self, NextStep, own_error};
use crate::backends::outlook::{FailedLogin, Outlook};
use crate::common::{FollowUp, Job, cx};
use crate::engine::Engine;
use crate::flows::opening::CONNECT_FAILED;
use crate::log::log;
use crate::peers::{Entry, ServerPhase, ServerSlot, ServerState};
use crate::port::{Io, LOOK_UP_FAILED, Level, Work};
use crate::traffic::links::RECONFIGURED;

impl Engine {
    /// A connect of ours has succeeded.
    pub(crate) fn connected<I: Io>(&mut self, peer: Peer, local: String, remote: Option<IpAddr>, io: &mut I) {
        if self.peers.cancel(peer).is_some() {
            return self.cancel_connected(peer, io);
        }
        if self.peers.forward(peer).is_some() {
            return self.forward_connected(peer, io);
        }
        if self.peers.probe(peer).is_some() {
            return self.probe_connected(peer, io);
        }
        let Some(mut server) = self.peers.take_server(peer) else { return };
        server.connection.connected(local, remote);
        // The name may have new addresses since its look-up.
        server.marked_for_close |= self.backends.dns.has_vanished(&server);
        let now = self.common.now();
        if self.grant_is_void(now, server.pool, server.granted_at) {
            return self.login_lapsed(now, server, io);
        }
        let next = login::connected(cx!(self, now, io), &mut server);
        self.login_goes_on(now, server, next, io);
    }

    fn login_goes_on<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, next: NextStep, io: &mut I) {
        match next {
            NextStep::Wait => {}
            NextStep::Login => {
                let own = self.own_startup(&server);
                login::begin(cx!(self, now, io), self.pools.get(server.pool), &mut server, own);
            }
            NextStep::Failed(error) => {
                self.drop_connection(&server, io);
                return self.login_failed(now, server, FailedLogin::lasting(error), io);
            }
        }
        self.peers.put_server(server);
    }

    /// A server's TLS handshake has succeeded.
    pub(crate) fn server_secured<I: Io>(&mut self, server: Box<ServerSlot>, io: &mut I) {
        let now = self.common.now();
        if self.grant_is_void(now, server.pool, server.granted_at) {
            return self.login_lapsed(now, server, io);
        }
        let next = login::secured(&server);
        self.login_goes_on(now, server, next, io);
    }

    /// A server's TLS handshake has failed; its connection has closed.
    pub(crate) fn server_tls_failed<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, error: &str, io: &mut I) {
        let message = format!("TLS handshake with server {} failed: {error}", server.connection.target());
        let failed = FailedLogin::lasting(own_error(message)).or(LoginFailure::Handshake);
        self.login_failed(now, server, failed, io);
    }

    /// A connect of ours has failed; the handle is dead.
    pub(crate) fn connect_failed<I: Io>(&mut self, now: Time, peer: Peer, error: &str, io: &mut I) {
        match self.peers.take(peer) {
            Entry::Cancel(cancel) => self.cancel_over(&cancel, io),
            Entry::Forward(forward) => self.forward_failed(&forward, error, io),
            Entry::Server(server) => {
                let error = own_error(format!("could not connect to server {}: {error}", server.connection.target()));
                self.login_failed(now, server, FailedLogin::away(error), io);
            }
            Entry::Client(client) => self.peers.put_client(client),
            Entry::Probe(target) => self.probe_over(&target),
            // It was logged in.
            Entry::Ending(_) | Entry::Free => {}
        }
    }

    /// Handles bytes of a server that is logging in.
    pub(crate) fn login_bytes<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        if self.grant_is_void(now, server.pool, server.granted_at) {
            return self.login_lapsed(now, server, io);
        }
        if matches!(server.state, ServerState::SslRequest) {
            let next = login::encryption_answer(cx!(self, now, io), &mut server, bytes);
            return self.login_goes_on(now, server, next, io);
        }
        match login::feed(cx!(self, now, io), &mut server, bytes) {
            Some(step) => self.login_step_done(now, server, step, io),
            None => self.peers.put_server(server),
        }
    }

    fn login_step_done<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, step: ServerLoginStep, io: &mut I) {
        match step {
            ServerLoginStep::Wait => self.peers.put_server(server),
            ServerLoginStep::Refused(error) => {
                self.drop_connection(&server, io);
                let encrypted = server.connection.tls().is_some();
                let refused = error.sqlstate == "28000";
                let failure = if refused { LoginFailure::Refused { encrypted } } else { LoginFailure::Other };
                self.login_failed(now, server, FailedLogin::answered(error).or(failure), io);
            }
            ServerLoginStep::Failed(error) => {
                self.drop_connection(&server, io);
                self.login_failed(now, server, FailedLogin::lasting(error), io);
            }
            ServerLoginStep::HashPassword { password, salt, iterations } => {
                let slot = self.pools.get(server.pool);
                let key = (password.clone(), salt.clone(), iterations);
                let known = slot.credentials.hashed().filter(|(known, _)| *known == key).map(|(_, salted)| *salted);
                if let Some(salted) = known {
                    return self.password_hashed(now, server, &salted, io);
                }
                let job = self.common.begin_job(Job::ServerSalt(server.peer));
                io.help(job, Work::SaltServer { password, salt, iterations });
                server.connection.begin_hashing(key);
                self.peers.put_server(server);
            }
            ServerLoginStep::Ready(welcome) => {
                let process = welcome.server.cancel_key().pid;
                server.state = ServerState::Up(welcome.server, ServerPhase::CheckingRole);
                server.connection.logged_in(welcome.reported, now);
                server.clock.linked(now);
                self.host_answers(now, server.connection.target(), io);
                if self.common.config().log.connections {
                    let text = format_args!("new connection to server (from {})", server.connection.local());
                    self.log_server(Level::Info, &server, text, io);
                }
                self.log_server(Level::Debug, &server, format_args!("logged in, server process {process}"), io);
                self.check_role(now, server, io);
            }
        }
    }

    /// A helper has hashed the password for a login of ours.
    pub(crate) fn server_salted<I: Io>(&mut self, now: Time, peer: Peer, salted: &[u8; 32], io: &mut I) {
        let Some(mut server) = self.peers.take_server(peer) else { return };
        let key = server.connection.end_hashing();
        self.pools.get_mut(server.pool).credentials.keep_hashed(key.map(|key| (key, *salted)));
        self.password_hashed(now, server, salted, io);
    }

    fn password_hashed<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, salted: &[u8; 32], io: &mut I) {
        if self.grant_is_void(now, server.pool, server.granted_at) {
            return self.login_lapsed(now, server, io);
        }
        match login::hashed(&mut server, salted, io) {
            Some(step) => self.login_step_done(now, server, step, io),
            None => self.peers.put_server(server),
        }
    }

    /// A server has logged in: checks whether it is fit for its pool.
    fn check_role<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        match login::check_role(self.pools.get(server.pool), &mut server) {
            Fitness::Fits => self.identify(now, server, io),
            Fitness::Unfit(why) => self.unfit(now, server, why, io),
            Fitness::Ask { query, .. } => {
                login::ask(cx!(self, now, io), &mut server, query, ServerPhase::CheckingRole);
                self.peers.put_server(server);
            }
        }
    }

    fn unfit<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, why: &str, io: &mut I) {
        self.end_connection(&server, io);
        self.login_failed(now, server, FailedLogin::not_ready(own_error(why.to_owned())), io);
    }

    /// A server is fit for its pool. If nodes share that, another node may have to find its backend: it is asked for what
    /// identifies that.
    fn identify<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let is_shared = self.common.config().shared_budget(&self.pools.get(server.pool).name).is_some();
        // A walsender knows no extended protocol.
        if !is_shared || server.dedicated.is_some() {
            return self.run_connect_query(now, server, io);
        }
        login::identify(cx!(self, now, io), &mut server);
        self.peers.put_server(server);
    }

    /// Handles bytes of a server that says which backend it is.
    pub(crate) fn identity_bytes<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
        if self.grant_is_void(now, server.pool, server.granted_at) {
            return self.login_lapsed(now, server, io);
        }
        match login::identified(&self.sessions.params, &mut server, bytes) {
            Ok(None) => self.peers.put_server(server),
            Ok(Some(answer)) => {
                if let Err(error) = answer {
                    let text = format_args!("the server does not say when its backend began: {}", error.message);
                    self.log_server(Level::Info, &server, text, io);
                }
                self.run_connect_query(now, server, io);
            }
            Err(weir_session::ProtocolViolation(what)) => {
                self.end_connection(&server, io);
                let error = own_error(format!("unexpected response from server: {what}"));
                self.login_failed(now, server, FailedLogin::lasting(error), io);
            }
        }
    }

    /// A server is fit for its pool: runs connect_query, if there is one.
    fn run_connect_query<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let slot = self.pools.get(server.pool);
        // A physical walsender takes no queries.
        let query = slot.config.connect_query.as_ref().filter(|_| !login::is_physical(&server));
        let Some(query) = query else { return self.server_up(now, server, io) };
        login::ask(cx!(self, now, io), &mut server, query, ServerPhase::ConnectQuery);
        self.peers.put_server(server);
    }

    /// A query of Weir has ended on a server that its pool does not have yet.
    pub(crate) fn first_query_done<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        outcome: Result<(), ServerError>,
        io: &mut I,
    ) {
        let role = server.phase() == Some(ServerPhase::CheckingRole);
        match outcome {
            Err(error) if role => {
                self.end_connection(&server, io);
                self.login_failed(now, server, FailedLogin::answered(error), io);
            }
            Ok(()) if role => {
                let found = server.up().is_some_and(|(up, _)| up.found_row());
                match login::check_role(self.pools.get(server.pool), &mut server) {
                    Fitness::Ask { row, why, .. } if row != found => self.unfit(now, server, why, io),
                    Fitness::Unfit(why) => self.unfit(now, server, why, io),
                    _ => self.identify(now, server, io),
                }
            }
            outcome => {
                // As with PgBouncer, connect_query may fail.
                if let Err(error) = outcome {
                    let text = format_args!("error while executing connect_query: {}", error.message);
                    self.log_server(Level::Warning, &server, text, io);
                }
                self.server_up(now, server, io);
            }
        }
    }

    /// A server has logged in; the pool decides which waiter gets it.
    fn server_up<I: Io>(&mut self, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
        let (peer, ix) = (server.peer, server.pool);
        let slot = self.pools.get_mut(ix);
        let proof = match login::finish(cx!(self, now, io), slot, &mut server) {
            Ok(proof) => proof,
            Err(error) => {
                self.end_connection(&server, io);
                return self.login_failed(now, server, FailedLogin::lasting(error), io);
            }
        };
        if server.marked_for_close {
            return self.close_server_slot(now, server, RECONFIGURED, io);
        }
        let answer = slot.pool.connected(peer, proof, now);
        self.peers.put_server(server);
        self.passed_on(now, ix, peer, answer, io);
    }

    /// A login at the server failed; its connection is gone, or being closed.
    pub(crate) fn login_failed<I: Io>(&mut self, now: Time, server: Box<ServerSlot>, failed: FailedLogin, io: &mut I) {
        let FailedLogin { error, failure, outlook, severity } = failed;
        let target = server.connection.target();
        let reached = !matches!(server.state, ServerState::Connecting);
        let logs = match outlook {
            Outlook::Away => self.host_is_away(now, target, reached, (&error, false)),
            Outlook::NotReady => true,
            Outlook::Lasting => {
                self.host_answers(now, target, io);
                true
            }
        };
        if logs {
            self.log_failed_login(&server, (severity, &error), reached, io);
        }
        let slot = self.pools.get_mut(server.pool);
        let again = server.connection.attempt().encryption.other(self.common.config().tls.server.mode, failure);
        let outlook = outlook.under(slot.config.limits.on_server_down, &error);
        let (failure, error) = slot.hosts.failed(&slot.config, server.connection.attempt(), error, outlook, again);
        if failure == ConnectFailure::Refused && server.dedicated.is_some() && !error.sqlstate.starts_with("08") {
            return self.own_login_refused(now, &server, error, io);
        }
        slot.failures.add(error, false, now);
        slot.pool.connect_failed(server.peer, failure, now);
        if failure == ConnectFailure::Away {
            self.keep_trying(now, server.pool);
        }
        self.common.follow_up(FollowUp::PollPool(server.pool));
    }

    /// The log has PgBouncer's words for a login that failed, which operators look for.
    fn log_failed_login<I: Io>(
        &self,
        server: &ServerSlot,
        (severity, error): (&str, &ServerError),
        reached: bool,
        io: &mut I,
    ) {
        let slot = self.pools.get(server.pool);
        let (name, user, host) = (&slot.name, &slot.user, server.connection.target());
        log(
            Level::Warning,
            format_args!("{name}/{user}@{host}: server login failed: {severity}{}", error.reason()),
            io,
        );
        if self.common.config().log.disconnections {
            let age = self.common.now().since(server.connection.connected_at()).micros() / 1_000_000;
            let why = match reached {
                true => &error.message,
                false if error.message.contains(LOOK_UP_FAILED) => "server DNS lookup failed",
                false => CONNECT_FAILED,
            };
            self.log_server(Level::Info, server, format_args!("closing because: {why} (age={age}s)"), io);
        }
    }
}
