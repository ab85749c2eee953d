//! The messages to a client after its login: parameters, its cancel key, ReadyForQuery.

use std::sync::Arc;

use weir_config::{Config, UntrackedParameters};
use weir_pgwire::{ErrorFields, put_back};
use weir_session::startup::{OtherParams, StartupRequest};
use weir_session::{ParamTable, Params, Refusal};

use crate::common::Cx;
use crate::entry::reported::{Reported, Welcome};
use crate::peers::ClientSlot;
use crate::port::Io;
use crate::traffic;

/// The parameters of a console (PgBouncer's, and what drivers expect).
const CONSOLE_PARAMETERS: [(&str, &str); 7] = [
    ("server_version", "1.25.2/weir"),
    ("client_encoding", "UTF8"),
    ("server_encoding", "UTF8"),
    ("DateStyle", "ISO"),
    ("TimeZone", "GMT"),
    ("standard_conforming_strings", "on"),
    ("is_superuser", "on"),
];

/// Sends the login messages to a client of a pool, and returns its session's initial parameters.
///
/// # Errors
/// A startup parameter is refused; nothing has been sent.
pub(crate) fn send<I: Io>(
    cx: &mut Cx<'_, I>,
    client: &mut ClientSlot,
    request: &StartupRequest,
    welcome: &Welcome,
) -> Result<Arc<Params>, Refusal> {
    let (config, table) = (cx.common.config(), &cx.sessions.params);
    let mut wanted = wanted(config, table, client, request)?;
    table.fill(&mut wanted, &welcome.params);
    let params: Arc<Params> = if wanted == *welcome.params { welcome.params.clone() } else { Arc::new(wanted) };
    greet(cx, client, request, &welcome.reported, &params);
    Ok(params)
}

/// The parameters that a client has asked for.
///
/// # Errors
/// One of them is refused.
pub(crate) fn wanted(
    config: &Config,
    table: &ParamTable,
    client: &ClientSlot,
    request: &StartupRequest,
) -> Result<Params, Refusal> {
    let mut wanted = requested(config, table, request)?;
    if config.application_name_add_host {
        let name = format!(
            "{} - {}",
            request.param("application_name").unwrap_or("app"),
            client.addr.with_port(config.listen.port)
        );
        // A name that became too long is left unchanged.
        let _ = table.set(&mut wanted, "application_name", &name);
    }
    Ok(wanted)
}

/// The parameters of a client's startup packet.
///
/// # Errors
/// One of them is refused.
pub(crate) fn requested(config: &Config, table: &ParamTable, request: &StartupRequest) -> Result<Params, Refusal> {
    let others = match config.untracked_startup_parameters {
        UntrackedParameters::Refuse => OtherParams::Refuse,
        UntrackedParameters::Ignore => OtherParams::Ignore,
        UntrackedParameters::Set => OtherParams::Set,
    };
    request.wanted(table, &config.ignore_startup_parameters, others)
}

/// Sends a client what its session begins with: these parameters, where a server has reported those.
pub(crate) fn greet<I: Io>(
    cx: &mut Cx<'_, I>,
    client: &mut ClientSlot,
    request: &StartupRequest,
    reported: &Reported,
    params: &Params,
) {
    let mut buffer = Vec::with_capacity(512);
    put_back::auth_ok(&mut buffer);
    reported.write(&mut buffer, params);
    put_key(&mut buffer, cx, client, request);
    let message = &cx.common.config().login_notify_message;
    if !message.is_empty() {
        let fields = ErrorFields { severity: "NOTICE", sqlstate: "00000", message, detail: None, hint: None };
        put_back::notice(&mut buffer, &fields);
    }
    put_back::ready(&mut buffer, b'I');
    cx.io.send(client.peer, &buffer);
}

/// Sends the login messages to an operator.
pub(crate) fn send_to_console<I: Io>(cx: &mut Cx<'_, I>, client: &mut ClientSlot, request: &StartupRequest) {
    let mut buffer = Vec::new();
    put_back::auth_ok(&mut buffer);
    for (name, value) in CONSOLE_PARAMETERS {
        put_back::parameter_status(&mut buffer, name, value);
    }
    put_key(&mut buffer, cx, client, request);
    put_back::ready(&mut buffer, b'I');
    cx.io.send(client.peer, &buffer);
}

fn put_key<I: Io>(buffer: &mut Vec<u8>, cx: &Cx<'_, I>, client: &mut ClientSlot, request: &StartupRequest) {
    let pid = match cx.common.config().peer_id {
        0 => traffic::cancel_key::pid_of(cx.common.worker(), client.peer),
        own => client.cancel.become_peer_key(cx.common.worker(), own),
    };
    put_back::backend_key_data(buffer, pid, client.cancel.issue(request.minor, pid));
}
