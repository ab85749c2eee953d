//! Messages of a client without a server that need none: those about its own names.
//!
//! A program that prepares while others of its own hold all servers would wait for itself otherwise. What is answered
//! here changes the client's names at once: nothing can skip it.

use weir_pgwire::{Dealloc, Of, SqlHead, frontend, put_back};

use crate::client::Client;
use crate::context::Context;
use crate::names::{Given, Name};
use crate::naming::is_readable;
use crate::prepare::make_room;
use crate::shape::GivenShape;
use crate::text::Text;

/// Answers a `DEALLOCATE` of a statement that the client prepared by a Parse. Returns whether it was one.
pub(crate) fn query(client: &mut Client, text: Text<'_>, reply: &mut Vec<u8>) -> bool {
    if client.prepared() == 0 {
        return false;
    }
    let SqlHead::Deallocate(Dealloc::Name(name)) = text.head() else { return false };
    if !client.has_statement(&name) {
        return false;
    }
    client.forget_statement(&name);
    client.drop_unnamed();
    put_back::command_complete(reply, "DEALLOCATE");
    put_back::ready(reply, b'I');
    true
}

/// Answers a Close of a statement that only we know. Returns whether it was one.
pub(crate) fn close(client: &mut Client, body: &[u8], reply: &mut Vec<u8>) -> bool {
    let Ok(named) = frontend::named(body) else { return false };
    if named.of == Of::Portal || !client.has_statement(named.name) {
        return false;
    }
    client.forget_statement(named.name);
    put_back::close_complete(reply);
    true
}

/// Answers a Parse of a statement that the pool's servers have accepted before. Returns whether it was one.
pub(crate) fn parse(client: &mut Client, ctx: &mut Context<'_>, body: &[u8]) -> bool {
    let Ok(parse) = frontend::parse(body) else { return false };
    let room = client.prepared() < ctx.rules.client_statements;
    let readable = is_readable(parse.name, ctx.params.is_utf8(&client.params));
    if parse.name.is_empty() || client.has_statement(parse.name) || !room || !readable {
        return false;
    }
    let read = ctx.interner.read(parse.rest, client.arriving.as_deref_mut());
    let environment = ctx.parse_environment(read.key, &client.params, &client.start.asked);
    let known = ctx.interner.find(ctx.statements, parse.rest, read, environment);
    let Some(statement) = known.filter(|s| ctx.statements.has_accepted(s.key())) else { return false };
    if make_room(client, ctx, parse.name, parse.rest).is_err() {
        return false;
    }
    ctx.counts.client_parses += 1;
    if statement.judged().reads_clock {
        ctx.statements.outdate(statement.key());
    }
    let shape = GivenShape::none(ctx.statements.preparations());
    let given = Given { statement, by: client.count_change(), shape };
    client.statements_mut().insert(Name::new(parse.name), given);
    true
}
