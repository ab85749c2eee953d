//! The steps of our login at a server: encryption, the login itself, and the queries before its first client.
//!
//! ```text
//! connecting → (SSL request → TLS handshake) → login → (checking role) → (identifying) → (connect query) → idle
//! idle → (checking) → (syncing parameters) → linked → (resetting → (connect query again)) → idle → … → closed
//! ```
//!
//! Works on borrowed slots. Must not decide when servers are needed, nor which host is next (`hosts`);
//! `login` has the order of the steps.

use std::sync::Arc;

use weir_auth::{Secret, Trust};
use weir_base::{ConnId, Host};
use weir_config::Encryption;
use weir_pgwire::put_front;
use weir_session::auth_query::{AuthQuery, AuthQueryResult};
use weir_session::server_login::{Credentials, ServerLogin, ServerLoginStep};
use weir_session::startup::Replication;
use weir_session::{Clean, ParamTable, ProtocolViolation, Refusal, ServerError};

use crate::client_login::reported::{Reported, Welcome};
use crate::common::Cx;
use crate::link::wire::Wire;
use crate::pools::PoolSlot;
use crate::port::{Handshake, Io};
use crate::server::hosts::{Fitness, fitness};
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};

/// The protocol that PostgreSQL registered for ALPN.
const ALPN: &[u8] = b"postgresql";

/// When a backend began, if it is the one whose process id the server has reported: a pooler between Weir and the
/// server reports a process id of its own.
const BACKEND_START: &str = "SELECT pid::pg_catalog.text, (extract(epoch from backend_start) * 1000000)::pg_catalog.int8\
                             ::pg_catalog.text FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid()) \
                             WHERE pid::pg_catalog.text = $1";

/// What follows a step of a login.
pub(crate) enum NextStep {
    /// Wait for the server's answer.
    Wait,
    /// Begin the login itself.
    Login,
    /// The server can't be used.
    Failed(ServerError),
}

/// A server is connected: asks whether it supports encryption, if needed.
pub(crate) fn connected<I: Io>(cx: &mut Cx<'_, I>, server: &mut ServerSlot) -> NextStep {
    // A Unix socket is never encrypted, as with libpq and PgBouncer.
    if server.connection.attempt().encryption == Encryption::Off
        || matches!(server.connection.target().host, Host::SocketDir(_))
    {
        return NextStep::Login;
    }
    if cx.common.config().tls.server.direct {
        begin_handshake(cx, server);
    } else {
        server.enter(ServerState::SslRequest);
        ask_for_encryption(server.conn, cx.io);
    }
    NextStep::Wait
}

fn begin_handshake<I: Io>(cx: &mut Cx<'_, I>, server: &mut ServerSlot) {
    let settings = &cx.common.config().tls.server;
    let (host, mode) = (server.connection.target().host.clone(), settings.mode);
    // If SSLRequest had been sent, the server would have answered.
    let direct = !matches!(server.state, ServerState::SslRequest);
    server.enter(ServerState::TlsHandshake);
    server.connection_mut().begin_handshake(direct);
    cx.io.start_tls(server.conn, Handshake::Connect { host, mode, direct });
}

/// A handshake is done. One without SSLRequest must have named our protocol, as with libpq: otherwise another service
/// might interpret the following bytes as its own protocol.
pub(crate) fn secured(server: &ServerSlot) -> NextStep {
    let is_named = server.connection.tls().is_some_and(|tls| tls.alpn.as_deref() == Some(ALPN));
    match server.connection.is_direct() && !is_named {
        true => NextStep::Failed(own_error(
            "direct SSL connection was established without ALPN protocol negotiation".into(),
        )),
        false => NextStep::Login,
    }
}

/// Handles the server's answer to SSLRequest.
pub(crate) fn encryption_answer<I: Io>(cx: &mut Cx<'_, I>, server: &mut ServerSlot, bytes: &[u8]) -> NextStep {
    let error = match read_answer(bytes) {
        Ok(true) => {
            begin_handshake(cx, server);
            return NextStep::Wait;
        }
        Ok(false) if server.connection.attempt().encryption == Encryption::Preferred => return NextStep::Login,
        Ok(false) => "server refused SSL",
        Err(error) => error,
    };
    NextStep::Failed(own_error(error.to_owned()))
}

/// The connection to a server is established, encrypted if required: the login begins. `own`: additional startup
/// parameters, for the one client of a server. `printed`: the password, where a program has printed it.
pub(crate) fn begin<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &PoolSlot,
    server: &mut ServerSlot,
    (own, printed): (Vec<(String, String)>, Option<Arc<str>>),
) {
    let listed = cx.common.config().auth.users.get(&slot.user).and_then(|text| Secret::parse(text).ok());
    let stored = listed.or_else(|| slot.credentials.looked_up().cloned());
    let mut credentials = credentials(slot, server, (printed, stored));
    credentials.startup.extend(own);
    let binding = server.connection.tls().and_then(|tls| tls.binding.as_deref());
    let mut buffer = Vec::new();
    let login = ServerLogin::begin(credentials, binding, &cx.sessions.params, &mut buffer);
    server.enter(ServerState::Login(Box::new(login)));
    cx.io.send(server.conn, &buffer);
}

/// The credentials of a pool: its own password, else its user's stored secret, else those from clients' logins.
fn credentials(
    slot: &PoolSlot,
    server: &ServerSlot,
    (printed, stored): (Option<Arc<str>>, Option<Secret>),
) -> Credentials {
    let password = printed.or_else(|| slot.config.password.clone().filter(|_| slot.is_own()));
    let mut credentials = Credentials {
        user: slot.user.clone(),
        database: slot.config.database.as_str().into(),
        password,
        md5: None,
        keys: None,
        require: slot.config.policy.require_auth,
        trust: Trust {
            verified: server.connection.tls().is_some_and(|tls| tls.certificate.is_some()),
            expects_request: slot.config.has_password() && slot.is_own(),
            local: server.connection.is_local(),
        },
        startup: slot.config.startup.clone(),
    };
    if credentials.password.is_none() {
        match stored {
            Some(Secret::Plain(password)) => credentials.password = Some(password),
            Some(Secret::Md5(hex)) => credentials.md5 = Some(hex),
            _ => {}
        }
        credentials.password = credentials.password.or_else(|| slot.credentials.captured().password.clone());
        credentials.keys.clone_from(&slot.credentials.captured().keys);
    }
    credentials
}

/// Handles input of a server that is logging in; `None` if it is not logging in.
pub(crate) fn feed<I: Io>(cx: &mut Cx<'_, I>, server: &mut ServerSlot, bytes: &[u8]) -> Option<ServerLoginStep> {
    let nonce = cx.common.random_bytes();
    let ServerState::Login(login) = server.state_mut() else { return None };
    let mut buffer = Vec::new();
    let step = login.feed(bytes, nonce, &cx.sessions.params, &mut buffer);
    if !buffer.is_empty() {
        cx.io.send(server.conn, &buffer);
    }
    Some(step)
}

/// The hashed password of a login is available; `None` if the server is not logging in.
pub(crate) fn hashed<I: Io>(server: &mut ServerSlot, salted: &[u8; 32], io: &mut I) -> Option<ServerLoginStep> {
    let ServerState::Login(login) = server.state_mut() else { return None };
    let mut buffer = Vec::new();
    let step = login.salted(salted, &mut buffer);
    io.send(server.conn, &buffer);
    Some(step)
}

/// Whether a server that has logged in fits its pool, according to its reported parameters.
pub(crate) fn check_role(slot: &PoolSlot, server: &mut ServerSlot) -> Fitness {
    let any = server.connection.attempt().any;
    let role = server.up().map(|(up, _)| up.role()).unwrap_or_default();
    match fitness(slot.config.session_attrs, any, role) {
        Fitness::Ask { .. } if is_physical(server) => Fitness::Fits,
        fitness => fitness,
    }
}

/// Whether a server is a physical walsender, which takes no queries.
pub(crate) fn is_physical(server: &ServerSlot) -> bool {
    server.dedicated.as_ref().is_some_and(|dedicated| dedicated.replication == Replication::Physical)
}

/// Sends a query of Weir to a server that its pool does not have yet; `server_connect_timeout` covers it.
pub(crate) fn ask<I: Io>(cx: &mut Cx<'_, I>, server: &mut ServerSlot, query: &str, next: ServerPhase) {
    let conn = server.conn;
    if let Some((up, phase)) = server.up() {
        *phase = next;
        up.own_query(query, &mut cx.sessions.scratch, &mut Wire::new(cx.io, ConnId::NONE, conn, &[], None));
    }
}

/// Asks a server which backend it is; `server_connect_timeout` covers it.
pub(crate) fn identify<I: Io>(cx: &mut Cx<'_, I>, server: &mut ServerSlot) {
    let conn = server.conn;
    let Some((up, phase)) = server.up() else { return };
    *phase = ServerPhase::Identifying;
    let pid = up.cancel_key().pid.to_string();
    let mut wire = Wire::new(cx.io, ConnId::NONE, conn, &[], None);
    let query = AuthQuery::begin(up, BACKEND_START, &pid, &mut cx.sessions.scratch, &mut wire);
    server.connection_mut().identifying = Some(query);
}

/// Handles input of a server that says which backend it is. Returns the answer, once it is complete.
///
/// # Errors
/// When the server can't be trusted any more.
pub(crate) fn identified(
    table: &ParamTable,
    server: &mut ServerSlot,
    bytes: &[u8],
) -> Result<Option<AuthQueryResult>, ProtocolViolation> {
    let Some(mut query) = server.connection_mut().identifying.take() else { return Ok(None) };
    let Some((up, _)) = server.up() else { return Ok(None) };
    let answer = query.feed(up, bytes, table)?;
    match &answer {
        None => server.connection_mut().identifying = Some(query),
        Some(Ok(Some(found))) => up.set_started(found.secret.as_deref().and_then(|text| text.parse().ok())),
        Some(_) => {}
    }
    Ok(answer)
}

/// A server is ready for its first client: clients of the pool get its reported parameters from now on.
///
/// # Errors
/// The server is in a transaction.
pub(crate) fn finish<I: Io>(
    cx: &mut Cx<'_, I>,
    slot: &mut PoolSlot,
    server: &mut ServerSlot,
) -> Result<Clean, ServerError> {
    let mut reported = std::mem::take(&mut server.connection_mut().reported);
    let Some((up, phase)) = server.up() else { return Err(own_error("the server is not logged in".to_owned())) };
    *phase = ServerPhase::Idle;
    let proof = up.prove_clean().ok_or_else(|| own_error("connect_query left a transaction open".to_owned()))?;
    let dedicated = server.dedicated.is_some();
    let Some((up, _)) = server.up() else { return Err(own_error("the server is not logged in".to_owned())) };
    if let Some(known) = slot.welcome.as_ref().filter(|_| !dedicated) {
        up.share_params(&known.params);
    }
    up.begin();
    let (params, table) = (up.params().clone(), &cx.sessions.params);
    for (name, value) in &mut reported {
        // connect_query may have changed the value.
        if let Some(has) = table.get(&params, name).filter(|has| has != value) {
            has.clone_into(value);
        }
    }
    slot.login_succeeded();
    let welcome = Some(Welcome { params, reported: Arc::new(Reported::new(table, reported)) });
    match server.dedicated_mut() {
        // The server reports values that its client has set.
        Some(dedicated) => dedicated.welcome = welcome,
        None => {
            slot.set_welcome(welcome);
            slot.welcome_confirmed(cx.now);
        }
    }
    Ok(proof)
}

/// Asks a server to end its connection.
pub(crate) fn terminate<I: Io>(cx: &mut Cx<'_, I>, server: ConnId) {
    let buffer = &mut cx.sessions.scratch;
    buffer.clear();
    put_front::terminate(buffer);
    cx.io.send(server, buffer);
}

/// Sends SSLRequest; one byte answers it (PostgreSQL documentation, "SSL Session Encryption").
pub(crate) fn ask_for_encryption<I: Io>(conn: ConnId, io: &mut I) {
    let mut buffer = Vec::new();
    put_front::ssl_request(&mut buffer);
    io.send(conn, &buffer);
}

/// Whether a server supports encryption. Bytes after that one byte were sent before the handshake, maybe by an
/// attacker (CVE-2021-23222): an error. The texts are PgBouncer's.
pub(crate) fn read_answer(bytes: &[u8]) -> Result<bool, &'static str> {
    match bytes {
        [b'S'] => Ok(true),
        [b'N'] => Ok(false),
        [b'S' | b'N', ..] => Err("received unencrypted data after SSL response"),
        _ => Err("bad sslreq answer"),
    }
}

/// The error for a client of a pool whose login at a server failed: it also names the login, since the client knows
/// neither the server nor the user there.
pub(crate) fn refusal(slot: &PoolSlot, error: ServerError) -> Refusal {
    Refusal::ServerDown { sqlstate: error.sqlstate, message: error.message, detail: failed_for(slot) }
}

/// Which login failed, in a sentence.
pub(crate) fn failed_for(slot: &PoolSlot) -> String {
    let (config, user) = (&slot.config, &slot.user);
    format!(
        "The pooler could not log in for pool \"{}\": server {}, database \"{}\", user \"{user}\".",
        slot.name,
        config.places(),
        config.database
    )
}

/// An error of Weir, where the server has sent none.
pub(crate) fn own_error(message: String) -> ServerError {
    ServerError { sqlstate: "08006".into(), message }
}
