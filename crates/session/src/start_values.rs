//! The values that a client's session began with: what its RESET, `RESET ALL`, `DISCARD ALL` and `SET … TO DEFAULT` return to.
//!
//! Owns which parameters the requests under way reset, and what follows from it. On a server, a RESET returns to that server's
//! own default; so the client's value is set there again before its next request is sent.

use std::sync::Arc;

use weir_pgwire::{put_back, put_front, sql};

use crate::client::Client;
use crate::context::Context;
use crate::expected::Expected;
use crate::judged::may_reset;
use crate::out::Out;
use crate::params::{ParamTable, Params};
use crate::server::Server;

/// Which parameters the requests under way on a server reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Resets {
    /// A bit for each tracked parameter.
    places: u64,
    /// A command that may be one of them was answered.
    done: bool,
}

/// The parameters of a client's session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct StartValues {
    /// What the client asked for at its login.
    pub(crate) asked: Arc<Params>,
    /// Which parameters are the client's own: it asked for them, or has changed them. The others are its server's.
    pub(crate) own: u64,
}

impl StartValues {
    /// Those of a client that asked for these.
    pub(crate) fn new(asked: Arc<Params>) -> StartValues {
        let own = asked.known();
        StartValues { asked, own }
    }

    /// Its server has reported a value of the parameter at this place.
    pub(crate) fn reported(&mut self, place: usize, value: &str, base: &Params) {
        let own = self.asked.at(place).is_some() || base.at(place) != Some(value);
        self.own = self.own & !(1 << place) | u64::from(own) << place;
    }
}

impl Resets {
    /// Whether a request under way resets something.
    #[inline]
    pub(crate) fn is_pending(self) -> bool {
        self.places != 0
    }

    /// Whether the parameter at this place is reset.
    pub(crate) fn has(self, place: usize) -> bool {
        self.places >> place & 1 == 1
    }

    /// A command of this tag was answered.
    pub(crate) fn answered(&mut self, tag: &[u8]) {
        self.done |= matches!(tag, b"RESET" | b"SET" | b"DISCARD ALL");
    }
}

/// A text of the client's is being sent: notes what it resets of that which the client asked for at its login.
#[inline]
pub(crate) fn note(client: &Client, server: &mut Server, table: &ParamTable, text: &[u8]) {
    let asked = client.start.asked.known();
    if asked != 0 && may_reset(text) {
        sql::resets(text, |reset| server.resets.places |= places(table, &reset) & asked);
    }
}

/// The same for a stored text, of which `reset` is known.
#[inline]
pub(crate) fn note_reset(client: &Client, server: &mut Server, table: &ParamTable, reset: Option<&sql::Reset<'_>>) {
    if let Some(reset) = reset {
        server.resets.places |= places(table, reset) & client.start.asked.known();
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
    if !resets.done || !ctx.state.start_values {
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
        if client.params.at(place) != Some(value) {
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
