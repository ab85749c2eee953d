//! The messages to a client after its login: parameters, its cancel key, ReadyForQuery.

use std::sync::Arc;

use weir_base::ConnId;
use weir_config::{Config, UntrackedParameters};
use weir_pgwire::{ErrorFields, put_back};
use weir_session::startup::{OtherParams, StartupRequest};
use weir_session::{ParamTable, Params, Refusal};

use crate::cancel::key::IssuedKey;
use crate::client::slot::ClientSlot;
use crate::client_login::reported::{Reported, Welcome};
use crate::common::{Common, Cx};
use crate::port::Io;

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

/// Bytes of a client's key and of ReadyForQuery, in the usual protocol.
const REST: usize = 64;

/// What the last client of a pool was sent: the next one with the same startup packet gets the same.
pub(crate) struct LastWelcome {
    request: Arc<StartupRequest>,
    reported: Arc<Reported>,
    start: StartParams,
    /// The messages to that client before those with its key.
    messages: Box<[u8]>,
}

/// What a client's session begins with: its parameters, and those of them that it has requested.
#[derive(Clone)]
pub(crate) struct StartParams {
    pub(crate) params: Arc<Params>,
    pub(crate) asked: Arc<Params>,
}

/// Sends the login messages to a client of a pool, and returns its session's initial parameters. `last` is what the
/// last client of this pool was sent.
///
/// # Errors
/// A startup parameter is refused; nothing has been sent.
pub(crate) fn send<I: Io>(
    cx: &mut Cx<'_, I>,
    (client, key): (&ClientSlot, &IssuedKey),
    request: &Arc<StartupRequest>,
    welcome: &Welcome,
    last: &mut Option<Box<LastWelcome>>,
) -> Result<StartParams, Refusal> {
    // A name with the client's address is its own.
    let same = |last: &&LastWelcome| {
        Arc::ptr_eq(&last.request, request)
            && Arc::ptr_eq(&last.reported, &welcome.reported)
            && !cx.common.config().application_name_add_host
    };
    if let Some(last) = last.as_deref().filter(same) {
        let mut buffer = Vec::with_capacity(last.messages.len() + REST);
        buffer.extend_from_slice(&last.messages);
        finish(cx, client.conn, key, buffer);
        return Ok(last.start.clone());
    }
    let table = &cx.sessions.params;
    let mut wanted = wanted(cx.common, table, client, request)?;
    table.complete(&mut wanted, &welcome.params);
    let asked = Arc::new(wanted.clone());
    table.fill(&mut wanted, &welcome.params);
    let params: Arc<Params> = if wanted == *welcome.params { welcome.params.clone() } else { Arc::new(wanted) };
    let messages = begin(&welcome.reported, &params);
    let start = StartParams { params, asked };
    *last = Some(Box::new(LastWelcome {
        request: request.clone(),
        reported: welcome.reported.clone(),
        start: start.clone(),
        messages: messages.as_slice().into(),
    }));
    finish(cx, client.conn, key, messages);
    Ok(start)
}

/// The parameters that a client has requested.
///
/// # Errors
/// A parameter is refused.
pub(crate) fn wanted(
    common: &Common,
    table: &ParamTable,
    client: &ClientSlot,
    request: &StartupRequest,
) -> Result<Params, Refusal> {
    let config = common.config();
    let mut wanted = requested(config, table, request)?;
    if config.application_name_add_host {
        let name = format!(
            "{} - {}",
            request.param("application_name").unwrap_or("app"),
            client.addr.with_host(config.listen.port, common.host_name())
        );
        // A name that became too long is left unchanged.
        let _ = table.set(&mut wanted, "application_name", &name);
    }
    Ok(wanted)
}

/// The parameters of a client's startup packet.
///
/// # Errors
/// A parameter is refused.
pub(crate) fn requested(config: &Config, table: &ParamTable, request: &StartupRequest) -> Result<Params, Refusal> {
    let others = match config.untracked_startup_parameters {
        UntrackedParameters::Refuse => OtherParams::Refuse,
        UntrackedParameters::Ignore => OtherParams::Ignore,
        UntrackedParameters::Set => OtherParams::Set,
    };
    request.wanted(table, &config.ignore_startup_parameters, others)
}

/// Sends a client what its session begins with: these parameters, where a server has reported those.
pub(crate) fn greet<I: Io>(cx: &mut Cx<'_, I>, client: ConnId, key: &IssuedKey, reported: &Reported, params: &Params) {
    finish(cx, client, key, begin(reported, params));
}

/// The first messages: the same for all clients with these parameters.
fn begin(reported: &Reported, params: &Params) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(512);
    put_back::auth_ok(&mut buffer);
    reported.write(&mut buffer, params);
    buffer
}

/// Sends the first messages, and after them the client's key and what ends a login.
fn finish<I: Io>(cx: &mut Cx<'_, I>, client: ConnId, key: &IssuedKey, mut buffer: Vec<u8>) {
    put_key(&mut buffer, key);
    let message = &cx.common.config().login_notify_message;
    if !message.is_empty() {
        let fields = ErrorFields { severity: "NOTICE", sqlstate: "00000", message, detail: None, hint: None };
        put_back::notice(&mut buffer, &fields);
    }
    put_back::ready(&mut buffer, b'I');
    cx.io.send(client, &buffer);
}

/// Sends the login messages to an operator.
pub(crate) fn send_to_console<I: Io>(client: ConnId, key: &IssuedKey, io: &mut I) {
    let mut buffer = Vec::new();
    put_back::auth_ok(&mut buffer);
    for (name, value) in CONSOLE_PARAMETERS {
        put_back::parameter_status(&mut buffer, name, value);
    }
    put_key(&mut buffer, key);
    put_back::ready(&mut buffer, b'I');
    io.send(client, &buffer);
}

fn put_key(buffer: &mut Vec<u8>, key: &IssuedKey) {
    put_back::backend_key_data(buffer, key.pid, &key.secret[..key.length]);
}
