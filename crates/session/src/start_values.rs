//! The values that a client's session began with: what its RESET, `RESET ALL`, `DISCARD ALL` and `SET … TO DEFAULT`
//! return to.
//!
//! Owns which parameters the requests under way reset, and what follows from it. On a server, a RESET returns to that
//! server's own default; so the client's value is set there again before its next request is sent, or at once where
//! more follows ([`crate::sql_resets`]).

use weir_pgwire::put_back;
use weir_pgwire::sql::{Reset, ResetBy, Resetting};

use crate::client::Client;
use crate::context::Context;
use crate::judged::may_reset;
use crate::out::Out;
use crate::own_commands;
use crate::params::{ParamTable, Wanted, push_literal};
use crate::server::Server;

/// How long a value is to be in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Span {
    /// The value is in force until it is set again.
    Session,
    /// The value is in force until the transaction ends.
    Transaction,
}

/// Whether a client has asked for anything that it could reset.
#[inline]
pub(crate) fn are_asked_for(client: &Client) -> bool {
    client.start.asked.known() != 0
}

/// Whether a text may reset something that the client asked for at its login.
#[inline]
pub(crate) fn may_be_reset(client: &Client, text: &[u8]) -> bool {
    are_asked_for(client) && may_reset(text)
}

/// A statement of which this is known is being sent: notes what it resets of that which the client asked for.
#[inline]
pub(crate) fn note(client: &Client, server: &mut Server, table: &ParamTable, reset: Option<&Resetting>) {
    if let Some(reset) = reset.filter(|reset| reset.by != ResetBy::SetLocal) {
        server.resets.add(asked_for(client, table, &reset.what));
        // What follows it in the same pipeline is looked at.
        server.resync = true;
    }
}

/// The places of what is reset that the client asked for at its login, a bit each.
pub(crate) fn asked_for(client: &Client, table: &ParamTable, what: &Reset) -> u64 {
    let places = match what {
        Reset::All => u64::MAX,
        Reset::Name(name) => std::str::from_utf8(name).ok().and_then(|name| table.place(name)).map_or(0, |at| 1 << at),
    };
    places & client.start.asked.known()
}

/// The commands that set what the client asked for, of the parameters at these places.
pub(crate) fn commands(client: &Client, table: &ParamTable, places: u64, span: Span) -> Vec<String> {
    let places = (0..table.len()).filter(|place| places >> place & 1 == 1);
    let value = |place| Some((place, client.start.asked.at(place)?));
    places.filter_map(value).map(|(place, value)| set_command(table.name(place), value, span)).collect()
}

/// The SET of a value as it is given at a login.
fn set_command(name: &str, value: &str, span: Span) -> String {
    let local = if span == Span::Transaction { "LOCAL " } else { "" };
    let mut command = format!("SET {local}{name} TO ");
    // A list must stay a list: one literal would make one element of it.
    let elements = if name.eq_ignore_ascii_case("search_path") { elements(value) } else { vec![value.to_owned()] };
    for (at, element) in elements.iter().enumerate() {
        command.push_str(if at == 0 { "" } else { "," });
        push_literal(&mut command, element);
    }
    command
}

/// The names in a list, as PostgreSQL reads it (`SplitIdentifierString`); an empty one has an empty name.
fn elements(list: &str) -> Vec<String> {
    let (mut rest, mut elements) = (list.trim_start(), Vec::new());
    loop {
        let mut element = String::new();
        match rest.strip_prefix('"') {
            Some(mut quoted) => {
                while let Some((part, after)) = quoted.split_once('"') {
                    element.push_str(part);
                    quoted = after;
                    let Some(more) = quoted.strip_prefix('"') else { break };
                    element.push('"');
                    quoted = more;
                }
                rest = quoted;
            }
            None => {
                let end = rest.find(|c: char| c == ',' || c.is_ascii_whitespace()).unwrap_or(rest.len());
                element = rest[..end].to_ascii_lowercase();
                rest = &rest[end..];
            }
        }
        elements.push(element);
        match rest.trim_start().strip_prefix(',') {
            Some(next) => rest = next.trim_start(),
            None => return elements,
        }
    }
}

/// All requests are answered: what was reset has the client's value again, which it is sent where it had another.
pub(crate) fn restore(client: &mut Client, server: &mut Server, ctx: &mut Context<'_>, out: &mut impl Out) {
    let resets = std::mem::take(&mut server.resets);
    server.resync = false;
    if !resets.is_done() || !ctx.returns_to_start_values() {
        return;
    }
    server.was_reset = resets.standing();
    server.resync = server.was_reset != 0;
    ctx.scratch.clear();
    for place in (0..ctx.params.len()).filter(|place| resets.stands(*place)) {
        // A later command of the same text may have given it another value.
        if !server.params.reports(place) || server.params.at(place) != server.base.at(place) {
            continue;
        }
        let Some(value) = client.start.asked.at(place) else { continue };
        if client.params.at(place) != Some(value) && !resets.is_known_reset(place) {
            put_back::parameter_status(ctx.scratch, ctx.params.name(place), value);
        }
        ParamTable::copy(&mut client.params, &client.start.asked, place);
        client.start.own |= 1 << place;
    }
    if !ctx.scratch.is_empty() {
        out.client(ctx.scratch);
    }
}

/// Before the client's next request: sets on its server what was reset there. What the client has in the unnamed
/// statement and portal stays.
#[cold]
pub(crate) fn set_again(client: &Client, server: &mut Server, ctx: &mut Context<'_>, out: &mut impl Out) {
    server.resync = false;
    // What else the client has set or reset is there, and stays: before another client gets the server, that is cleaned or
    // asked about it.
    ctx.params.assume(&mut server.params, &client.params, server.was_reset);
    let wanted = Wanted { own: client.start.own | !server.was_reset, ..client.wanted() };
    let differs = |place: &usize| server.params.at(*place) != client.params.at(*place);
    let places = (0..ctx.params.len()).filter(differs).fold(0, |places, place| places | 1 << place) & server.was_reset;
    if !ctx.params.agree(wanted, server.has(), &mut String::new()) {
        return;
    }
    ctx.scratch.clear();
    for command in commands(client, ctx.params, places, Span::Session) {
        own_commands::send(server, &command, ctx.scratch);
    }
    own_commands::end(server, ctx.scratch);
    out.server(ctx.scratch);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_login_is_set_as_it_was_given() {
        for (name, value, expected) in [
            ("TimeZone", "Asia/Tokyo", "SET TimeZone TO 'Asia/Tokyo'"),
            ("DateStyle", "German, DMY", "SET DateStyle TO 'German, DMY'"),
            ("application_name", "it's a \\", "SET application_name TO E'it''s a \\\\'"),
            ("search_path", "A, \"$user\" ,\"b\"\"C,\"", "SET search_path TO 'a','$user','b\"C,'"),
            ("search_path", " ", "SET search_path TO ''"),
            ("search_path", "a b", "SET search_path TO 'a'"),
            ("search_path", "\"a", "SET search_path TO ''"),
        ] {
            assert_eq!(set_command(name, value, Span::Session), expected);
        }
        assert_eq!(set_command("a.b", "1", Span::Transaction), "SET LOCAL a.b TO '1'");
    }
}
