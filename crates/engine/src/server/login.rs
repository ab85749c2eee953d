//! A server's login: from its connect to its pool, or to the next host.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{ConnId, Span, Time};
use weir_config::FailedAttempt;
use weir_pool::ConnectFailure;
use weir_session::server_login::ServerLoginStep;
use weir_session::{Refusal, ServerError};

use crate::common::{FollowUp, Job, cx};
use crate::core::Core;
use crate::link::release::RECONFIGURED;
use crate::link::{query, relay, release};
use crate::log::log;
use crate::pools::{PoolSlot, create};
use crate::port::{Io, LOOK_UP_FAILED, Level, PrintedPassword, Work};
use crate::primary::view::Admission;
use crate::server::hosts::{Fitness, READ_ONLY, Unfit, still_takes_writes};
use crate::server::login_failure::{About, FailedLogin, LoginFailureKind};
use crate::server::login_steps::{NextStep, own_error};
use crate::server::open::CONNECT_FAILED;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::server::{close, login_steps, open};
use crate::workers::messages::{Message, Payload};
use crate::workers::send::COUNTER;
use crate::{lines, replication};

/// How often a host is looked at, to which an operator moves a pool without clients that wait.
const LOOK_EVERY: Span = Span::from_millis(200);

/// Why a server is not used whose user's transactions are read-only, and not those of others.
const READ_ONLY_USER: &str = "session is read-only by a setting of its user or its database";

/// Why a fit server is not used.
const OTHER_PRIMARY: &str = "another host is the primary of this pool";

/// The log has PgBouncer's words for a login that failed, which operators look for.
fn log_failed_login<I: Io>(
    core: &Core,
    server: &ServerSlot,
    (severity, error): (&str, &ServerError),
    reached: bool,
    io: &mut I,
) {
    let slot = core.pools.get(server.pool);
    let (name, user, host) = (&slot.name, &slot.user, server.connection.target());
    log(Level::Warning, format_args!("{name}/{user}@{host}: server login failed: {severity}{}", error.reason()), io);
    if core.common.config().log.disconnections {
        let age = core.common.now().since(server.connection.connected_at()).micros() / 1_000_000;
        let why = match reached {
            true => &error.message,
            false if error.message.contains(LOOK_UP_FAILED) => "server DNS lookup failed",
            false => CONNECT_FAILED,
        };
        lines::about_server(core, Level::Info, server, format_args!("closing because: {why} (age={age}s)"), io);
    }
}

/// A login at the server failed; its connection is gone, or being closed.
fn failed<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, failed: FailedLogin, io: &mut I) {
    let FailedLogin { error, failure, kind, about, severity } = failed;
    let target = server.connection.target();
    let reached = !matches!(server.state, ServerState::Connecting);
    let logs = match kind {
        LoginFailureKind::Down => open::host_is_down(core, now, target, reached, (&error, false)),
        LoginFailureKind::NotReady => true,
        LoginFailureKind::Lasting => {
            open::host_answers(core, now, target, io);
            true
        }
    };
    if logs {
        log_failed_login(core, &server, (severity, &error), reached, io);
    }
    let slot = core.pools.get_mut(server.pool);
    let again = server.connection.attempt().encryption.other(core.common.config().tls.server.mode, failure);
    let kind = kind.under(open::policy(&core.primaries, slot), &error);
    let stays = open::stays(&core.primaries, slot, &server, about);
    let (failure, error) = slot.hosts.failed(&slot.config, server.connection.attempt(), error, (kind, stays), again);
    if failure == ConnectFailure::Refused && server.dedicated.is_some() && !error.sqlstate.starts_with("08") {
        return replication::own_login_refused(core, now, &server, error, io);
    }
    slot.failures.add(error, false, now);
    if core.primaries.only(&slot.name).is_some() {
        // An operator waits: it is looked at often, whether clients wait or not.
        slot.pool.retry_now();
        slot.pool.connect_failed(server.conn, failure, now);
        if slot.pool.oldest_wait().is_none() {
            slot.pool.try_now(now + LOOK_EVERY);
        }
        return core.common.follow_up(FollowUp::PollPool(server.pool));
    }
    slot.pool.connect_failed(server.conn, failure, now);
    create::login_failed(core, now, server.pool, failure);
    core.common.follow_up(FollowUp::PollPool(server.pool));
}

fn login_goes_on<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, next: NextStep, io: &mut I) {
    match next {
        NextStep::Wait => {}
        NextStep::Login if await_password(core, &mut server, io) => {}
        NextStep::Login => begin_login(core, now, &mut server, None, io),
        NextStep::Failed(error) => {
            close::drop_connection(core, &server, io);
            return failed(core, now, server, FailedLogin::lasting(error, About::Host), io);
        }
    }
    core.conns.put_server(server);
}

fn begin_login<I: Io>(core: &mut Core, now: Time, server: &mut ServerSlot, printed: Option<Arc<str>>, io: &mut I) {
    let own = replication::own_startup(core, server);
    login_steps::begin(cx!(core, now, io), core.pools.get(server.pool), server, (own, printed));
}

/// Asks for the password, where a program or a service makes it; returns whether one does.
fn await_password<I: Io>(core: &mut Core, server: &mut ServerSlot, io: &mut I) -> bool {
    let slot = core.pools.get(server.pool);
    let Some(source) = slot.config.password_source().filter(|_| slot.is_own()) else { return false };
    let target = server.connection.target().clone();
    let work = Work::ServerPassword { source, target, refused: slot.credentials.refused().cloned() };
    server.enter(ServerState::AwaitingPassword);
    open::expect_timeout(core, server);
    io.submit_job(core.common.begin_job(Job::ServerPassword(server.conn)), work);
    true
}

/// A program or a service has made the password for a login of ours, or has failed.
pub(crate) fn password_printed<I: Io>(
    core: &mut Core,
    now: Time,
    conn: ConnId,
    printed: Result<PrintedPassword, String>,
    io: &mut I,
) {
    let Some(mut server) = core.conns.take::<ServerSlot>(conn) else { return };
    if close::grant_is_void(core, now, server.pool, server.granted_at) {
        return close::login_lapsed(core, now, server, io);
    }
    match printed {
        Ok(mut printed) => {
            if let Some(why) = printed.overdue.take() {
                lines::about_server(core, Level::Warning, &server, format_args!("{why}"), io);
            }
            begin_login(core, now, &mut server, Some(printed.password.clone()), io);
            open::expect_timeout(core, &server);
            server.connection_mut().use_printed(printed);
            core.conns.put_server(server);
        }
        Err(why) => {
            close::drop_connection(core, &server, io);
            failed(core, now, server, FailedLogin::lasting(own_error(why), About::Login), io);
        }
    }
}

/// A server has refused a login. A password that a program or a service had made for an earlier login may have expired:
/// then another one is made.
fn refused_login(slot: &mut PoolSlot, server: &mut ServerSlot, mut error: ServerError) -> FailedLogin {
    match server.connection_mut().take_printed() {
        Some(printed) if error.sqlstate.starts_with("28") => {
            if let Some(about) = printed.about {
                error.message = format!("{} ({about})", error.message);
            }
            slot.credentials.set_refused(Some(printed.password));
            let login = FailedLogin::answered(error);
            if printed.is_new { login } else { login.again() }
        }
        _ => FailedLogin::answered(error),
    }
}

/// A server has logged in; the pool decides which waiter gets it.
fn server_up<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let (conn, ix) = (server.conn, server.pool);
    let slot = core.pools.get_mut(ix);
    let proof = match login_steps::finish(cx!(core, now, io), slot, &mut server) {
        Ok(proof) => proof,
        Err(error) => {
            close::end_connection(core, &server, io);
            return failed(core, now, server, FailedLogin::lasting(error, About::Login), io);
        }
    };
    if server.closes {
        return close::close_slot(core, now, server, RECONFIGURED, io);
    }
    let answer = slot.pool.connected(conn, proof, now);
    core.conns.put_server(server);
    release::passed_on(core, now, ix, conn, answer, io);
}

/// A server is not fit for its pool. Where it is at the primary, and its transactions are read-only, it is asked first
/// whether that is so for everybody.
fn unfit<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, unfit: Unfit, io: &mut I) {
    if server.dedicated.is_some() {
        return not_now(core, now, server, (unfit.why, About::Host), io);
    }
    if unfit.is_standby {
        core.hosts.throttle.is_unfit(server.connection.target(), &own_error(unfit.why.to_owned()), now);
        core.common.follow_up(FollowUp::demoted(&server, unfit.why));
        return not_now(core, now, server, (unfit.why, About::Host), io);
    }
    let slot = core.pools.get(server.pool);
    let query = still_takes_writes(slot.config.session_attrs);
    let query = query.filter(|_| open::stays(&core.primaries, slot, &server, About::Login));
    let Some(query) = query else { return not_now(core, now, server, (unfit.why, About::Host), io) };
    login_steps::ask(cx!(core, now, io), &mut server, query, ServerPhase::CheckingHost);
    core.conns.put_server(server);
}

/// A server whose transactions are read-only has said whether its host takes writes of others.
fn host_checked<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, takes_writes: bool, io: &mut I) {
    if takes_writes {
        return not_now(core, now, server, (READ_ONLY_USER, About::Login), io);
    }
    unfit(core, now, server, Unfit { why: READ_ONLY, is_standby: true }, io);
}

/// A server is not used: the next host is tried, if there may be another primary.
fn not_now<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, (why, about): (&str, About), io: &mut I) {
    close::end_connection(core, &server, io);
    failed(core, now, server, FailedLogin::not_ready(own_error(why.to_owned()), about), io);
}

/// A server is fit for its pool: runs connect_query, if there is one.
fn run_connect_query<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let slot = core.pools.get(server.pool);
    // A physical walsender takes no queries.
    let query = slot.config.connect_query.as_ref().filter(|_| !login_steps::is_physical(&server));
    let Some(query) = query else { return server_up(core, now, server, io) };
    login_steps::ask(cx!(core, now, io), &mut server, query, ServerPhase::ConnectQuery);
    core.conns.put_server(server);
}

/// A server is fit for its pool: it goes on, unless the pool wants a primary and has another one, or has to leave
/// another one first.
fn admit<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let slot = core.pools.get(server.pool);
    if !slot.config.session_attrs.wants_primary() || server.dedicated.is_some() {
        return identify(core, now, server, io);
    }
    open::host_is_fit(core, now, server.connection.target(), io);
    let slot = core.pools.get(server.pool);
    match core.primaries.admits(&slot.name, server.connection.target()) {
        Admission::Goes => identify(core, now, server, io),
        Admission::Elsewhere => not_now(core, now, server, (OTHER_PRIMARY, About::Host), io),
        Admission::Waits => {
            server.up().into_iter().for_each(|(_, phase)| *phase = ServerPhase::AwaitingFence);
            let found = Payload::PrimaryFound { pool: slot.name.clone(), at: server.connection.target().clone() };
            io.post(COUNTER, Message(found), None);
            core.conns.put_server(server);
        }
    }
}

/// It is decided where the pool goes on, for which a login has waited.
pub(crate) fn decided<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(server) = core.conns.take::<ServerSlot>(conn) else { return };
    if close::grant_is_void(core, now, server.pool, server.granted_at) {
        return close::login_lapsed(core, now, server, io);
    }
    let slot = core.pools.get(server.pool);
    if !slot.config.session_attrs.wants_primary() {
        return identify(core, now, server, io);
    }
    match core.primaries.admits(&slot.name, server.connection.target()) {
        Admission::Goes => identify(core, now, server, io),
        Admission::Elsewhere | Admission::Waits => not_now(core, now, server, (OTHER_PRIMARY, About::Host), io),
    }
}

/// A server is fit for its pool. If nodes share that, another node may have to find its backend: it is asked for what
/// identifies that.
fn identify<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let is_shared = core.common.config().shared_budget(&core.pools.get(server.pool).name).is_some();
    // A walsender knows no extended protocol.
    if !is_shared || server.dedicated.is_some() {
        return run_connect_query(core, now, server, io);
    }
    login_steps::identify(cx!(core, now, io), &mut server);
    core.conns.put_server(server);
}

/// A server has logged in: checks whether it is fit for its pool.
fn check_role<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    match login_steps::check_role(core.pools.get(server.pool), &mut server) {
        Fitness::Fits => admit(core, now, server, io),
        Fitness::Unfit(reason) => unfit(core, now, server, reason, io),
        Fitness::Ask { query, .. } => {
            login_steps::ask(cx!(core, now, io), &mut server, query, ServerPhase::CheckingRole);
            core.conns.put_server(server);
        }
    }
}

fn password_hashed<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, salted: &[u8; 32], io: &mut I) {
    if close::grant_is_void(core, now, server.pool, server.granted_at) {
        return close::login_lapsed(core, now, server, io);
    }
    match login_steps::hashed(&mut server, salted, io) {
        Some(step) => step_done(core, now, server, step, io),
        None => core.conns.put_server(server),
    }
}

fn step_done<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, step: ServerLoginStep, io: &mut I) {
    match step {
        ServerLoginStep::Wait => core.conns.put_server(server),
        ServerLoginStep::Refused(error) => {
            close::drop_connection(core, &server, io);
            let encrypted = server.connection.tls().is_some();
            let refused = error.sqlstate == "28000";
            let failure = if refused { FailedAttempt::Refused { encrypted } } else { FailedAttempt::Other };
            let login = refused_login(core.pools.get_mut(server.pool), &mut server, error);
            failed(core, now, server, login.or(failure), io);
        }
        ServerLoginStep::Failed(error) => {
            close::drop_connection(core, &server, io);
            failed(core, now, server, FailedLogin::lasting(error, About::Login), io);
        }
        ServerLoginStep::HashPassword { password, salt, iterations } => {
            let slot = core.pools.get(server.pool);
            let key = (password.clone(), salt.clone(), iterations);
            let known = slot.credentials.hashed().filter(|(known, _)| *known == key).map(|(_, salted)| *salted);
            if let Some(salted) = known {
                return password_hashed(core, now, server, &salted, io);
            }
            let job = core.common.begin_job(Job::ServerSalt(server.conn));
            io.submit_job(job, Work::SaltServer { password, salt, iterations });
            server.connection_mut().begin_hashing(key);
            core.conns.put_server(server);
        }
        ServerLoginStep::Ready(welcome) => {
            if server.connection_mut().take_printed().is_some() {
                core.pools.get_mut(server.pool).credentials.set_refused(None);
            }
            let process = welcome.server.cancel_key().pid;
            server.enter(ServerState::Up(welcome.server, ServerPhase::CheckingRole));
            server.connection_mut().logged_in(welcome.reported, now);
            server.clock_mut().linked(now);
            open::host_answers(core, now, server.connection.target(), io);
            if core.common.config().log.connections {
                let text = format_args!("new connection to server (from {})", server.connection.local());
                lines::about_server(core, Level::Info, &server, text, io);
            }
            lines::about_server(core, Level::Debug, &server, format_args!("logged in, server process {process}"), io);
            check_role(core, now, server, io);
        }
    }
}

/// A connect of ours has succeeded.
pub(crate) fn connected<I: Io>(
    core: &mut Core,
    mut server: Box<ServerSlot>,
    local: String,
    remote: Option<IpAddr>,
    io: &mut I,
) {
    server.connection_mut().connected(local, remote);
    // The name may have new addresses since its look-up.
    server.mark_for_close(core.hosts.dns.has_vanished(&server));
    let now = core.common.now();
    if close::grant_is_void(core, now, server.pool, server.granted_at) {
        return close::login_lapsed(core, now, server, io);
    }
    let next = login_steps::connected(cx!(core, now, io), &mut server);
    login_goes_on(core, now, server, next, io);
}

/// A server's TLS handshake has succeeded.
pub(crate) fn secured<I: Io>(core: &mut Core, server: Box<ServerSlot>, io: &mut I) {
    let now = core.common.now();
    if close::grant_is_void(core, now, server.pool, server.granted_at) {
        return close::login_lapsed(core, now, server, io);
    }
    let next = login_steps::secured(&server);
    login_goes_on(core, now, server, next, io);
}

/// A server's TLS handshake has failed; its connection has closed.
pub(crate) fn tls_failed<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, error: &str, io: &mut I) {
    let message = format!("TLS handshake with server {} failed: {error}", server.connection.target());
    let error = FailedLogin::lasting(own_error(message), About::Host).or(FailedAttempt::Handshake);
    failed(core, now, server, error, io);
}

/// Handles bytes of a server that is logging in.
pub(crate) fn bytes<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
    if close::grant_is_void(core, now, server.pool, server.granted_at) {
        return close::login_lapsed(core, now, server, io);
    }
    if matches!(server.state, ServerState::SslRequest) {
        let next = login_steps::encryption_answer(cx!(core, now, io), &mut server, bytes);
        return login_goes_on(core, now, server, next, io);
    }
    match login_steps::feed(cx!(core, now, io), &mut server, bytes) {
        Some(step) => step_done(core, now, server, step, io),
        None => core.conns.put_server(server),
    }
}

/// A helper has hashed the password for a login of ours.
pub(crate) fn salted<I: Io>(core: &mut Core, now: Time, conn: ConnId, salted: &[u8; 32], io: &mut I) {
    let Some(mut server) = core.conns.take::<ServerSlot>(conn) else { return };
    let key = server.connection_mut().end_hashing();
    core.pools.get_mut(server.pool).credentials.keep_hashed(key.map(|key| (key, *salted)));
    password_hashed(core, now, server, salted, io);
}

/// Handles bytes of a server that says which backend it is.
pub(crate) fn identity_bytes<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
    if close::grant_is_void(core, now, server.pool, server.granted_at) {
        return close::login_lapsed(core, now, server, io);
    }
    match login_steps::identified(&core.sessions.params, &mut server, bytes) {
        Ok(None) => core.conns.put_server(server),
        Ok(Some(answer)) => {
            if let Err(error) = answer {
                let text = format_args!("the server does not say when its backend began: {}", error.message);
                lines::about_server(core, Level::Info, &server, text, io);
            }
            run_connect_query(core, now, server, io);
        }
        Err(weir_session::ProtocolViolation(what)) => {
            close::end_connection(core, &server, io);
            let error = own_error(format!("unexpected response from server: {what}"));
            failed(core, now, server, FailedLogin::lasting(error, About::Host), io);
        }
    }
}

/// A query of Weir has ended on a server that its pool does not have yet.
fn first_query_done<I: Io>(
    core: &mut Core,
    now: Time,
    mut server: Box<ServerSlot>,
    outcome: Result<(), ServerError>,
    io: &mut I,
) {
    let (role, host) = match server.phase() {
        Some(ServerPhase::CheckingRole) => (true, false),
        Some(ServerPhase::CheckingHost) => (false, true),
        _ => (false, false),
    };
    match outcome {
        Err(error) if role || host => {
            close::end_connection(core, &server, io);
            failed(core, now, server, FailedLogin::answered(error), io);
        }
        Ok(()) if host => {
            let is_read_only = server.up().is_some_and(|(up, _)| up.found_row());
            host_checked(core, now, server, !is_read_only, io);
        }
        Ok(()) if role => {
            let found = server.up().is_some_and(|(up, _)| up.found_row());
            match login_steps::check_role(core.pools.get(server.pool), &mut server) {
                Fitness::Ask { row, otherwise, .. } if row != found => unfit(core, now, server, otherwise, io),
                Fitness::Unfit(reason) => unfit(core, now, server, reason, io),
                _ => admit(core, now, server, io),
            }
        }
        outcome => {
            // As with PgBouncer, connect_query may fail.
            if let Err(error) = outcome {
                let text = format_args!("error while executing connect_query: {}", error.message);
                lines::about_server(core, Level::Warning, &server, text, io);
            }
            server_up(core, now, server, io);
        }
    }
}

/// A connect of ours has failed; the handle is dead.
pub(crate) fn connect_failed<I: Io>(core: &mut Core, now: Time, server: Box<ServerSlot>, error: &str, io: &mut I) {
    let error = own_error(format!("could not connect to server {}: {error}", server.connection.target()));
    failed(core, now, server, FailedLogin::down(error), io);
}

/// The connection of a server that is logging in has ended, or is closed because the server can't be trusted.
pub(crate) fn lost<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, io: &mut I) {
    let shaking = matches!(server.state, ServerState::TlsHandshake);
    let ending = if shaking { FailedAttempt::Handshake } else { FailedAttempt::Other };
    let login = match server.take_fatal_error() {
        Some(Refusal::ServerDown { sqlstate, message, .. }) => FailedLogin::answered(ServerError { sqlstate, message }),
        _ => FailedLogin::down(own_error("server closed the connection during the login".to_owned())),
    };
    failed(core, now, server, login.or(ending), io);
}

/// Handles bytes of a server that runs a query of Weir before its pool has it.
pub(crate) fn query_bytes<I: Io>(core: &mut Core, now: Time, mut server: Box<ServerSlot>, bytes: &[u8], io: &mut I) {
    let slot = core.pools.get_mut(server.pool);
    match relay::feed_server(cx!(core, now, io), slot, &mut server, None, bytes) {
        Ok(outcome) => {
            let Some(unusual) = outcome.unusual else { return core.conns.put_server(server) };
            if let Some(fatal) = unusual.fatal {
                query::note_fatal(core, &mut server, fatal, io);
            }
            match unusual.own_query_done {
                Some(result) => first_query_done(core, now, server, result, io),
                None => core.conns.put_server(server),
            }
        }
        Err(violated) => {
            query::note_violation(core, &mut server, &violated.violation, io);
            lost(core, now, server, io);
        }
    }
}
