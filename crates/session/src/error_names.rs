//! Errors that name a statement by our name for it are shown to clients with the name that they gave it, and those of an
//! edited query with a position in the client's own text.

use weir_pgwire::tag::back;

use crate::client::Client;
use crate::expected::Expected;
use crate::server::Server;
use crate::statements::{HIDDEN_PREFIX, Key, NAME_LEN, NAME_PREFIX, UNKNOWN_NAME};

/// The ErrorResponse with this body, with the client's name in the place of ours; `None` where it is the client's as
/// it is. Costs one search of the body; the name is looked up by the statement.
pub(crate) fn in_clients_words(server: &Server, client: &Client, body: &[u8]) -> Option<Vec<u8>> {
    let named = shared(server, client, body).or_else(|| hidden(body));
    let in_text = |body| server.replaced.as_deref().and_then(|replaced| replaced.in_clients_text(body));
    let body = in_text(named.as_deref().unwrap_or(body)).or(named)?;
    let mut message = vec![back::ERROR];
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(&body);
    Some(message)
}

/// The name of a shared statement becomes the client's.
fn shared(server: &Server, client: &Client, body: &[u8]) -> Option<Vec<u8>> {
    let at = place_of_ours(body)?;
    let name = name_for(server, client, &body[at..at + NAME_LEN])?;
    Some([&body[..at], name, &body[at + NAME_LEN..]].concat())
}

/// The first name in an error's body that begins like ours and is as long.
pub(crate) fn shared_name(body: &[u8]) -> Option<&[u8]> {
    place_of_ours(body).map(|at| &body[at..at + NAME_LEN])
}

fn place_of_ours(body: &[u8]) -> Option<usize> {
    let at = body.windows(NAME_PREFIX.len()).position(|w| w == NAME_PREFIX)?;
    (at + NAME_LEN <= body.len()).then_some(at)
}

/// A name of the client's own that was changed, since it begins like ours, has its own beginning again.
fn hidden(body: &[u8]) -> Option<Vec<u8>> {
    let at = body.windows(HIDDEN_PREFIX.len()).position(|w| w == HIDDEN_PREFIX)?;
    Some([&body[..at], NAME_PREFIX, &body[at + HIDDEN_PREFIX.len()..]].concat())
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
