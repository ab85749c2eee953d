//! The values that a client's session began with: what its RESET, `RESET ALL`, `DISCARD ALL` and `SET … TO DEFAULT` return to.
//!
//! Owns which parameters the requests under way reset, and what follows from it. On a server, a RESET returns to that server's
//! own default; so the client's value is set there again before its next request is sent.

use weir_pgwire::{put_back, put_front, sql};

use crate::client::Client;
use crate::context::Context;
use crate::expected::Expected;
use crate::judged::may_reset;
use crate::out::Out;
use crate::params::ParamTable;
use crate::server::Server;

/// Whether a client has asked for anything that it could reset.
#[inline]
pub(crate) fn are_asked_for(client: &Client) -> bool {
    client.start.asked.known() != 0
}

/// A text of the client's is being sent: notes what it resets of that which the client asked for at its login.
#[inline]
pub(crate) fn note(client: &Client, server: &mut Server, table: &ParamTable, text: &[u8]) {
    let asked = client.start.asked.known();
    if asked != 0 && may_reset(text) {
        sql::resets(text, |reset| server.resets.add(places(table, &reset) & asked));
    }
}

/// The same for a stored text, of which `reset` is known.
#[inline]
pub(crate) fn note_reset(client: &Client, server: &mut Server, table: &ParamTable, reset: Option<&sql::Reset<'_>>) {
    if let Some(reset) = reset {
        server.resets.add(places(table, reset) & client.start.asked.known());
    }
}

fn places(table: &ParamTable, reset: &sql::Reset<'_>) -> u64 {
    match reset {
        sql::Reset::All => u64::MAX,
        sql::Reset::Name(name) => {
            std::str::from_utf8(name).ok().and_then(|name| table.place(name)).map_or(0, |at| 1 << at)
        }
    }
}

/// All requests are answered: what was reset has the client's value again, which it is sent where it had another.
pub(crate) fn restore(client: &mut Client, server: &mut Server, ctx: &mut Context<'_>, out: &mut impl Out) {
    let resets = std::mem::take(&mut server.resets);
    if !resets.is_done() || !ctx.returns_to_start_values() {
        return;
    }
    server.resync = true;
    ctx.scratch.clear();
    for place in (0..ctx.params.len()).filter(|place| resets.has(*place)) {
        // A later command of the same text may have given it another value.
        if !server.params.reports(place) || server.params.at(place) != server.base.at(place) {
            continue;
        }
        let Some(value) = client.start.asked.at(place) else { continue };
        if client.params.at(place) != Some(value) && !resets.is_told(place) {
            put_back::parameter_status(ctx.scratch, ctx.params.name(place), value);
        }
        ParamTable::copy(&mut client.params, &client.start.asked, place);
        client.start.own |= 1 << place;
    }
    if !ctx.scratch.is_empty() {
        out.client(ctx.scratch);
    }
}

/// Before the client's next request: sets on its server what was reset there.
#[cold]
pub(crate) fn set_again(client: &Client, server: &mut Server, ctx: &mut Context<'_>, out: &mut impl Out) {
    server.resync = false;
    let mut query = String::new();
    if !ctx.params.agree(client.wanted(), server.has(), &mut query) {
        return;
    }
    ctx.scratch.clear();
    put_front::query(ctx.scratch, query.as_bytes());
    server.unnamed = None;
    server.pending.request(Expected::OwnSet);
    out.server(ctx.scratch);
}
