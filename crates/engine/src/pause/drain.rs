//! A drain on this worker: clients are closed, each between two of its transactions, at a pace.
//!
//! Owns which clients may be closed, and in which order: first those that hold nothing, the longest idle ones before
//! others, then those that hold a part of a session; when none of these is left, replication connections. Consoles are
//! closed with the process. How many at a time is the [pace](crate::admin::drain_pace)'s.
//!
//! Invariant: a client that gets the error has no answer outstanding, and nothing of a request of its own that it has
//! sent since has reached a server. The error does not follow an answer at once: an application may hold the connection
//! until it has seen the answer, and for some libraries an error that no request explains is the end (node-postgres
//! without a listener), or one that comes before the connection's end (asyncpg).

use weir_base::{ConnId, PoolMode, Span, Time};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot, Ended};
use crate::common::cx;
use crate::core::Core;
use crate::link::leave;
use crate::port::Io;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::workers::messages::Drain;

/// What a client is for a drain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// Between two transactions, or in the middle of something; `since`: when it or its server has sent anything last.
    Served { rests: bool, holds: bool, since: Time },
    /// On a server of its own.
    Streams,
    /// Not logged in yet, but to a pool.
    LogsIn,
    /// None of the drain's business.
    Other,
}

/// The clients of this worker.
#[derive(Default)]
struct Clients {
    /// How many hold nothing, and how many hold a part of a session.
    free: u32,
    holding: u32,
    /// Those of them that rest, and since when.
    resting_free: Vec<(Time, ConnId)>,
    resting_holding: Vec<(Time, ConnId)>,
    streams: Vec<ConnId>,
    logging_in: Vec<ConnId>,
}

/// It is time for the next look at this worker's clients.
pub(crate) fn due<I: Io>(core: &mut Core, now: Time, io: &mut I) {
    if core.shutdown.draining() != Some(Drain::Transactions) {
        return;
    }
    let mut clients = look(core);
    let (due, rest) = core.shutdown.look(cx!(core, now, io), clients.free, clients.holding);
    let served = clients.free + clients.holding;
    clients.resting_free.sort_unstable();
    clients.resting_holding.sort_unstable();
    // Of these, in this order, as many, that have rested for so long.
    let mut close = |resting: &mut Vec<(Time, ConnId)>, most: u32, rest: Span| {
        let rested = resting.iter().take_while(|(since, _)| *since + rest <= now).count();
        let closed = rested.min(most as usize);
        for (_, client) in resting.drain(..closed) {
            leave::refuse_handle(core, now, client, Refusal::Leaving, io);
        }
        closed as u32
    };
    let mut closed = close(&mut clients.resting_free, due.free, rest.long);
    let holding = close(&mut clients.resting_holding, due.holding, rest.long);
    closed += holding;
    closed += close(&mut clients.resting_free, due.late.saturating_sub(closed), rest.short);
    let late = due.late.saturating_sub(closed).min(due.holding.saturating_sub(holding));
    closed += close(&mut clients.resting_holding, late, rest.short);
    let is_over = core.shutdown.pace_is_over(now);
    let streams = (is_over || closed == served).then_some(clients.streams);
    let logging_in = is_over.then_some(clients.logging_in);
    for client in streams.into_iter().chain(logging_in).flatten() {
        leave::refuse_handle(core, now, client, Refusal::ShuttingDown, io);
    }
}

/// Whether a client that sends something begins a request when the drain's time is over: it was never idle for long
/// enough, and the error answers the request, of which nothing is sent to a server.
#[cold]
pub(crate) fn is_late(core: &Core, now: Time, client: &ClientSlot) -> bool {
    core.shutdown.pace_is_over(now) && matches!(standing(core, client), Standing::Served { rests: true, .. })
}

fn look(core: &Core) -> Clients {
    let mut found = Clients::default();
    for client in core.conns.all::<ClientSlot>() {
        match standing(core, client) {
            Standing::Served { rests, holds, since } => {
                let (count, resting) = match holds {
                    false => (&mut found.free, &mut found.resting_free),
                    true => (&mut found.holding, &mut found.resting_holding),
                };
                *count += 1;
                if rests {
                    resting.push((since, client.conn));
                }
            }
            Standing::Streams => found.streams.push(client.conn),
            Standing::LogsIn => found.logging_in.push(client.conn),
            Standing::Other => {}
        }
    }
    found
}

fn standing(core: &Core, client: &ClientSlot) -> Standing {
    let session = match &client.phase {
        ClientPhase::Ready(session) => session,
        ClientPhase::Streaming(_) => return Standing::Streams,
        ClientPhase::AuthLookup(_) | ClientPhase::Delayed(_) | ClientPhase::Welcome(_) => return Standing::LogsIn,
        ClientPhase::Login(phase) if !phase.is_console() => return Standing::LogsIn,
        _ => return Standing::Other,
    };
    let server = client.link.map(|server| core.conns.get::<ServerSlot>(server));
    let is_quiet = server.is_none_or(|server| {
        server.is_some_and(|it| matches!(&it.state, ServerState::Up(up, ServerPhase::Linked) if up.is_quiet()))
    });
    let answered_at = server.flatten().map_or(Time::START, |server| server.clock.received_at());
    let since = client.request_at.max(answered_at);
    let keeps_server = client.link.is_some() && (is_quiet || session.mode() == PoolMode::Session);
    let has_ended = client.cut || client.ended != Ended::No;
    let rests =
        is_quiet && !has_ended && !client.reading.has_any() && client.waiting.is_empty() && session.is_at_rest();
    let holds = keeps_server || session.channels().is_some();
    Standing::Served { rests, holds, since }
}
