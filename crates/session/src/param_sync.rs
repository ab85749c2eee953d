//! Sets the tracked parameters of a server to those of the client that it is linked to.
//!
//! Owns the query that does it and the parameters of both after it has succeeded. Must not know when a link is made, or
//! what happens to a link whose server refuses the query.

use weir_pgwire::put_back;

use crate::client::Client;
use crate::out::Out;
use crate::params::ParamTable;
use crate::server::Server;

/// Whether both share the same parameters, and the client listens on no channel: nothing needs to be sent then.
#[inline]
pub fn are_shared(server: &Server, client: &Client) -> bool {
    client.channels.is_none() && ParamTable::are_shared(client.wanted(), &server.params, &server.base)
}

/// Before a link: sends the server a query that sets its parameters to the client's. Returns whether a query was sent,
/// whose end must be awaited ([`Unusual::own_query_done`](crate::from_server::Unusual::own_query_done)).
pub fn start(
    server: &mut Server,
    client: &mut Client,
    table: &ParamTable,
    scratch: &mut Vec<u8>,
    out: &mut impl Out,
) -> bool {
    if are_shared(server, client) {
        return false;
    }
    let mut query = String::new();
    server.resync = server.sequences.is_due();
    server.remember_params();
    let differ = table.agree(client.wanted(), server.has(), &mut query);
    client.channels.iter().for_each(|channels| channels.listen(&mut query));
    if differ || client.channels.is_some() {
        server.own_query(&query, scratch, out);
        return true;
    }
    // The server may have another default than the client was given at its login.
    scratch.clear();
    respelled(server, client, table).for_each(|(name, _, value)| put_back::parameter_status(scratch, name, value));
    if !scratch.is_empty() {
        out.client(scratch);
    }
    ParamTable::share(&mut client.params, &mut server.params);
    false
}

/// What [`finish`] will change in the client's parameters: each name, the client's spelling and the server's.
pub fn respelled<'a>(
    server: &'a Server,
    client: &'a Client,
    table: &'a ParamTable,
) -> impl Iterator<Item = (&'a str, &'a str, &'a str)> {
    table.reported(&server.params).filter_map(|(name, value)| {
        let known = table.get(&client.params, name).filter(|known| *known != value)?;
        Some((name, known, value))
    })
}

/// The query has succeeded: from now on the client has the server's spelling of each value. Where one differs from the
/// value that the client has received, a ParameterStatus is appended to `tell`.
pub fn finish(server: &mut Server, client: &mut Client, tell: Option<(&ParamTable, &mut Vec<u8>)>) {
    if let Some((table, buffer)) = tell {
        // What is not the client's own was reset.
        for place in (0..table.len()).filter(|place| client.start.own >> place & 1 == 0) {
            server.is_default(table, table.name(place));
        }
        respelled(server, client, table).for_each(|(name, _, value)| put_back::parameter_status(buffer, name, value));
        server.note_identity(table);
    }
    client.params = server.params.clone();
    if client.channels.is_some() {
        server.listens_for_client();
    }
}
