//! Errors that name a statement by our name for it are shown to clients with the name that they gave it.

use weir_pgwire::tag::back;

use crate::client::Client;
use crate::expected::Expected;
use crate::server::Server;
use crate::statements::{Key, NAME_LEN, NAME_PREFIX, UNKNOWN_NAME};

/// The ErrorResponse with this body, with the client's name in the place of ours; `None` where it names no statement of the
/// client's. Costs one search of the body; the name is looked up by the statement.
pub(crate) fn in_clients_words(server: &Server, client: &Client, body: &[u8]) -> Option<Vec<u8>> {
    let at = body.windows(NAME_PREFIX.len()).position(|w| w == NAME_PREFIX)?;
    let ours = body.get(at..at + NAME_LEN)?;
    let name = name_for(server, client, ours)?;
    let body = [&body[..at], name, &body[at + NAME_LEN..]].concat();
    let mut message = vec![back::ERROR];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(&body);
    Some(message)
}

/// What the client calls a statement, or called it when it sent the request that failed.
fn name_for<'a>(server: &'a Server, client: &'a Client, ours: &[u8]) -> Option<&'a [u8]> {
    if ours == UNKNOWN_NAME
        && let Some(name) = server.unknown_name.as_deref()
    {
        return Some(name);
    }
    if server.pending.head().is_some_and(Expected::is_logged)
        && let Some(name) = server.undo_log.name_of_oldest()
    {
        return Some(name);
    }
    let key = Key::of_name(ours)?;
    let known = client.statements.as_deref().and_then(|statements| statements.name_of(key));
    known.or_else(|| server.undo_log.name_before(key))
}
