//! Cancel requests: each cancels the right query or none.
//!
//! A request names a client of ours by the key we gave it. It is sent to the worker of that client, waits for a
//! connection of its own to the client's server, and is sent only if that client still runs something there. Until the
//! server has closed that connection (which it does after it has signalled the backend), the client's server is given
//! to no other client, so a late cancel can't hit one.
//!
//! A client may be between two requests: its next request is in Weir, and no server has it yet. If that request was in
//! Weir when the cancel request came, and nothing runs any more when the cancel request is to be sent, the client's
//! next request is cancelled.
//!
//! Nor need its request have been read, though it was sent before: a request to cancel comes by another connection,
//! which may be read first. So a client that does nothing is looked at once more, when all that had arrived has been
//! read; until then the request is not answered.

use weir_base::{ConnId, Time, WorkerId};
use weir_pgwire::put_front;

use crate::cancel::peering::{PeerKey, issued_secret};
use crate::cancel::pids::worker_of;
use crate::cancel::state::{CancelRequest, CancelSlot, CancelStage};
use crate::cancel::{finish, forward};
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::state::Handoff;
use crate::common::FollowUp;
use crate::conns::Conn;
use crate::core::Core;
use crate::link::{deadlines, leave};
use crate::moves::batch::ParkedCancel;
use crate::port::{Handshake, Io};
use crate::reading::Reason;
use crate::server::close;
use crate::server::login_steps::{ask_for_encryption, read_answer};
use crate::server::slot::{ServerPhase, ServerSlot};
use crate::timers::Who;
use crate::workers::messages::{Message, Payload};

/// Why a client's next request may be in Weir, and wait.
const HELD: [Reason; 3] = [Reason::Waits, Reason::OtherFull, Reason::NextTurn];

/// Whether a client's next request is in Weir, and waits: for a server, for a query of Weir, or for what its server is
/// doing.
fn holds_request(core: &mut Core, client: ConnId) -> bool {
    let Some(slot) =
        core.conns.get_mut::<ClientSlot>(client).filter(|slot| HELD.into_iter().any(|reason| slot.reading.has(reason)))
    else {
        return false;
    };
    matches!(&slot.phase, ClientPhase::Ready(session) if session.begins_request(&slot.waiting))
}

/// Cancels the request of a client that no server has yet: the client gets an error, and may continue. A client without
/// one is not affected. Where a server is linked, the client gets the error with the end of what the server does.
fn cancel_unsent<I: Io>(core: &mut Core, now: Time, client: ConnId, ix: u32, io: &mut I) {
    if !holds_request(core, client) {
        return;
    }
    let Some(slot) = core.conns.get_mut::<ClientSlot>(client) else { return };
    let waits_for_server = slot.link.is_none() && slot.reading.has(Reason::Waits);
    slot.ready().into_iter().for_each(|session| session.cancel());
    if waits_for_server {
        core.pools.get_mut(ix).pool.leave(client, now);
        core.common.follow_up(FollowUp::PollPool(ix));
        table::resume_client(core, client, io);
    }
}

/// The server that runs something for a client. Queries of Weir before a client's work are not the client's.
fn running_on(core: &mut Core, client: ConnId) -> Option<ConnId> {
    let server = core.conns.get_mut::<ClientSlot>(client)?.link?;
    let (up, phase) = core.conns.get_mut::<ServerSlot>(server)?.up()?;
    let busy = *phase == ServerPhase::Streaming || (*phase == ServerPhase::Linked && up.is_busy());
    busy.then_some(server)
}

fn begin_cancel<I: Io>(
    core: &mut Core,
    now: Time,
    ix: u32,
    CancelRequest { requester, client, next_is_here }: CancelRequest,
    server: ConnId,
    io: &mut I,
) {
    for conn in core.pools.get(ix).cancels.under_way() {
        let Some(cancel) = core.conns.get_mut::<CancelSlot>(*conn) else { continue };
        if cancel.server == server && cancel.client == client && cancel.stage != CancelStage::Sent {
            // A request that is not sent yet serves both.
            cancel.next_is_here |= next_is_here;
            cancel.without_sender |= requester.is_none();
            return cancel.requesters.extend(requester);
        }
    }
    let Some(target) = core.conns.get_mut::<ServerSlot>(server).map(|server| server.connection.machine()) else {
        return finish::finish_canceller(core, requester, io);
    };
    let conn = io.connect(&target);
    let deadline = now.deadline(core.common.config().limits.cancel_wait_timeout);
    let mut cancel = Box::new(CancelSlot {
        conn,
        server,
        client,
        pool: ix,
        requesters: requester.into_iter().collect(),
        without_sender: requester.is_none(),
        next_is_here,
        stage: CancelStage::Connecting,
        armed: Time::NEVER,
        deadline,
    });
    core.common.arm(Who::Conn(conn), deadline, &mut cancel.armed);
    core.conns.put_at(conn, Conn::Cancel(cancel));
    core.pools.get_mut(ix).cancels.begin(conn);
    if let Some(server) = core.conns.get_mut::<ServerSlot>(server) {
        server.cancel_begins();
    }
}

/// Starts as many of a pool's waiting cancel requests as allowed: twice the pool's size.
fn next_cancels<I: Io>(core: &mut Core, now: Time, ix: u32, io: &mut I) {
    loop {
        let slot = core.pools.get_mut(ix);
        // For a pool without a limit, the number of its servers.
        let size = if slot.config.limits.size == 0 { slot.pool.len() } else { slot.config.limits.size as usize };
        let Some(request) = slot.cancels.next(size.saturating_mul(2).max(2)) else { return };
        if request.requester.is_some_and(|requester| core.conns.get_mut::<ClientSlot>(requester).is_none()) {
            continue;
        }
        match running_on(core, request.client) {
            Some(server) => begin_cancel(core, now, ix, request, server, io),
            None => {
                if request.next_is_here {
                    cancel_unsent(core, now, request.client, ix, io);
                }
                finish::finish_canceller(core, request.requester, io);
            }
        }
    }
}

/// A cancel request has ended, in any way; it is out of the table.
pub(crate) fn over<I: Io>(core: &mut Core, cancel: &CancelSlot, io: &mut I) {
    let slot = core.pools.get_mut(cancel.pool);
    slot.cancels.end(cancel.conn);
    if let Some(server) = core.conns.get_mut::<ServerSlot>(cancel.server) {
        server.cancel_ends();
        if cancel.stage == CancelStage::Sent && server.link == Some(cancel.client) {
            server.up().into_iter().for_each(|(up, _)| up.cancel_ended());
        }
        core.common.follow_up(FollowUp::Release(cancel.server));
    }
    for requester in &cancel.requesters {
        finish::finish_canceller(core, *requester, io);
    }
    core.common.follow_up(FollowUp::PollPool(cancel.pool));
    next_cancels(core, core.common.now(), cancel.pool, io);
}

/// A cancel request can be sent: checks whether it still applies.
fn send<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    let Some((server, client)) = core.conns.get_mut::<CancelSlot>(conn).map(|c| (c.server, c.client)) else { return };
    let running = running_on(core, client) == Some(server);
    let key = core.conns.get_mut::<ServerSlot>(server).and_then(|s| s.up().map(|(up, _)| up.cancel_key().clone()));
    let (Some(key), true) = (key.filter(|key| !key.secret.is_empty()), running) else {
        io.close(conn);
        if let Conn::Cancel(cancel) = core.conns.take_any(conn) {
            if cancel.next_is_here && !running {
                cancel_unsent(core, core.common.now(), client, cancel.pool, io);
            }
            over(core, &cancel, io);
        }
        return;
    };
    let mut buffer = Vec::new();
    put_front::cancel_request(&mut buffer, key.pid, &key.secret);
    io.send(conn, &buffer);
    if let Some(cancel) = core.conns.get_mut::<CancelSlot>(conn) {
        cancel.stage = CancelStage::Sent;
    }
}

/// The connection for a cancel request is open. It is encrypted if its server's is.
pub(crate) fn connected<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    let Some(server) = core.conns.get_mut::<CancelSlot>(conn).map(|c| c.server) else { return };
    let Some(server) = core.conns.get_mut::<ServerSlot>(server).filter(|server| server.connection.tls().is_some())
    else {
        return send(core, conn, io);
    };
    let (host, direct) = (server.connection.target().host.clone(), server.connection.is_direct());
    let mode = core.common.config().tls.server.mode;
    let Some(cancel) = core.conns.get_mut::<CancelSlot>(conn) else { return };
    if direct {
        cancel.stage = CancelStage::TlsHandshake;
        io.start_tls(conn, Handshake::Connect { host, mode, direct });
    } else {
        cancel.stage = CancelStage::SslRequest;
        ask_for_encryption(conn, io);
    }
}

/// Handles the server's answer to SSLRequest on a cancel connection. The cancel request itself is answered only by
/// the end of the connection.
pub(crate) fn bytes<I: Io>(core: &mut Core, mut cancel: Box<CancelSlot>, bytes: &[u8], io: &mut I) {
    let conn = cancel.conn;
    if cancel.stage == CancelStage::SslRequest {
        let host =
            core.conns.get_mut::<ServerSlot>(cancel.server).map(|server| server.connection.target().host.clone());
        let (Some(host), Ok(true)) = (host, read_answer(bytes)) else {
            io.close(conn);
            return over(core, &cancel, io);
        };
        cancel.stage = CancelStage::TlsHandshake;
        let mode = core.common.config().tls.server.mode;
        io.start_tls(conn, Handshake::Connect { host, mode, direct: false });
    }
    core.conns.put_at(conn, Conn::Cancel(cancel));
}

/// The handshake for a cancel request is done.
pub(crate) fn secured<I: Io>(core: &mut Core, conn: ConnId, io: &mut I) {
    send(core, conn, io);
}

/// A cancel request has timed out. If it was sent, it may still hit its server: the server is closed.
pub(crate) fn due<I: Io>(core: &mut Core, now: Time, conn: ConnId, io: &mut I) {
    let Some(cancel) = core.conns.get_mut::<CancelSlot>(conn) else { return };
    cancel.armed = Time::NEVER;
    if cancel.deadline > now {
        return;
    }
    let Conn::Cancel(cancel) = core.conns.take_any(conn) else { return };
    if cancel.stage == CancelStage::Sent {
        close::mark_for_close(core, cancel.server);
    }
    io.close(conn);
    over(core, &cancel, io);
}

/// Looks up the client that a request names. For a wrong key there is no reply, as for any other. `requester`: the
/// sender, if it is not the process that takes over.
pub(crate) fn cancel<I: Io>(
    core: &mut Core,
    now: Time,
    requester: Option<ConnId>,
    pid: u32,
    secret: &[u8],
    io: &mut I,
) {
    let is_meant =
        |conn: &ConnId| core.conns.get::<ClientSlot>(*conn).is_some_and(|client| client.cancel.is(pid, secret));
    let peering = core.peering.own > 0;
    let key = if peering { PeerKey::read(pid, secret) } else { None };
    let own = key.and_then(|key| core.peering.find(key));
    let target = match own.or_else(|| core.upgrade.keys.named(pid).find(is_meant)) {
        Some(conn) => core.conns.get_mut::<ClientSlot>(conn),
        None => core.conns.client_with_pid(pid),
    };
    let target = target.filter(|client| client.cancel.is(pid, secret));
    if let Some(console) = target.as_ref().filter(|c| matches!(c.phase, ClientPhase::Console(_))).map(|c| c.conn) {
        core.common.follow_up(FollowUp::CancelConsole(console));
        return finish::finish_canceller(core, requester, io);
    }
    let departs = |client: &ClientSlot| match &client.phase {
        ClientPhase::Moving(handoff) => matches!(**handoff, Handoff::Move(..)),
        _ => false,
    };
    if let Some(client) = target.as_deref().filter(|client| departs(client)).map(|client| client.conn) {
        return core.moves.park(ParkedCancel { client, requester, pid, secret: secret.to_vec() });
    }
    let Some(client) = target.map(|client| client.conn) else {
        let home = worker_of(pid, core.common.workers());
        // It has left from here, and its home knows where it is, or that it is gone.
        let elsewhere = core.away.find(pid, secret).or((home != core.common.worker()).then_some(home));
        if let Some(to) = elsewhere {
            return pass_on(core, requester, to, (pid, secret), io);
        }
        io.cancel_at_old_process(pid, secret);
        return finish::finish_canceller(core, requester, io);
    };
    if !cancel_of(core, now, requester, client, io) {
        // Arrives after what the client's socket has now.
        let sender = requester.and_then(|requester| core.conns.get::<ClientSlot>(requester));
        let until = sender.map_or(Time::NEVER, |sender| deadlines::client_deadline(core, sender));
        core.moves.looks += 1;
        io.post(core.common.worker(), Message(Payload::CancelAgain { requester, client, until }), None);
    }
}

/// A request goes to the worker to which its client has moved, with its sender.
pub(crate) fn pass_on<I: Io>(
    core: &mut Core,
    requester: Option<ConnId>,
    to: WorkerId,
    (pid, secret): (u32, &[u8]),
    io: &mut I,
) {
    let Some(mut sender) = requester.and_then(|requester| core.conns.take::<ClientSlot>(requester)) else {
        return io.post(to, Message(Payload::CancelAlone { pid, secret: secret.to_vec() }), None);
    };
    core.client_counts.remove(&sender.phase);
    sender.enter(ClientPhase::Moving(Box::new(Handoff::Cancel { to, pid, secret: secret.to_vec() })));
    core.client_counts.add(&sender.phase);
    io.detach(sender.conn);
    table::insert(core, sender);
}

/// Cancels what a client runs, or its next request if that is here. Returns `false`, and leaves the sender unanswered,
/// if there is neither.
fn cancel_of<I: Io>(core: &mut Core, now: Time, requester: Option<ConnId>, client: ConnId, io: &mut I) -> bool {
    let runs = |client: &&ClientSlot| matches!(client.phase, ClientPhase::Ready(_) | ClientPhase::Streaming(_));
    let Some(pool) = core.conns.get::<ClientSlot>(client).filter(runs).map(|client| client.pool) else {
        finish::finish_canceller(core, requester, io);
        return true;
    };
    let (next_is_here, runs) = (holds_request(core, client), running_on(core, client).is_some());
    if runs {
        core.pools.get_mut(pool).cancels.wait(CancelRequest { requester, client, next_is_here });
        next_cancels(core, now, pool, io);
    } else if next_is_here {
        cancel_unsent(core, now, client, pool, io);
        finish::finish_canceller(core, requester, io);
    }
    runs || next_is_here
}

/// All has been read that had arrived when a client to be cancelled did nothing. `until`: the deadline of the sender.
pub(crate) fn cancel_again<I: Io>(
    core: &mut Core,
    now: Time,
    (requester, until): (Option<ConnId>, Time),
    client: ConnId,
    io: &mut I,
) {
    core.moves.looks = core.moves.looks.saturating_sub(1);
    // PostgreSQL does what a sender asks that has closed its connection, too.
    let requester = requester.filter(|requester| core.conns.get::<ClientSlot>(*requester).is_some());
    if requester.is_none() && until <= now {
        // We have closed it.
        return;
    }
    if !cancel_of(core, now, requester, client, io) {
        finish::finish_canceller(core, requester, io);
    }
}

/// A client's first packet is a cancel request.
pub(crate) fn cancel_request<I: Io>(
    core: &mut Core,
    now: Time,
    mut client: Box<ClientSlot>,
    pid: u32,
    mut secret: Vec<u8>,
    io: &mut I,
) {
    let (peering, config) = (&core.peering, core.common.config());
    let own = peering.own;
    if own > 0 {
        let Some(key) = PeerKey::read(pid, &secret) else { return leave::client_leaves(core, now, client, io) };
        if key.peer_id() == own {
            issued_secret(&mut secret);
        } else if !peering.may_be_own(key, config) {
            return forward::begin(core, now, client, key.peer_id(), (pid, secret), io);
        }
    }
    // A client of another process, which had more workers perhaps, came to this one.
    let worker = worker_of(pid, core.common.workers());
    let conn = client.conn;
    if worker != core.common.worker() {
        client.enter(ClientPhase::Moving(Box::new(Handoff::Cancel { to: worker, pid, secret })));
        io.detach(conn);
        return table::insert(core, client);
    }
    client.enter(ClientPhase::Canceller);
    core.client_counts.change(&client.phase);
    table::insert(core, client);
    cancel(core, now, Some(conn), pid, &secret, io);
}
