//! Clients are added to the table, and become ready for queries.
//!
//! Each has one timer, for its earliest deadline; what a client holds before its login is charged here.

use weir_base::{ClientAddr, ConnId, Time};

use crate::cancel::key::{CancelSecret, IssuedKey};
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::common::FollowUp;
use crate::conns::Conn;
use crate::core::Core;
use crate::link::deadlines;
use crate::port::Io;
use crate::reading::Reason;
use crate::timers::Who;

/// A new client in this phase; it is not in the table yet.
pub(crate) fn new(
    core: &mut Core,
    now: Time,
    conn: ConnId,
    id: u64,
    addr: ClientAddr,
    phase: ClientPhase,
) -> Box<ClientSlot> {
    core.client_counts.add(&phase);
    Box::new(ClientSlot::new(conn, id, addr, phase, now))
}

/// Adds a client to the table, with its timer.
pub(crate) fn insert(core: &mut Core, mut client: Box<ClientSlot>) {
    let conn = client.conn;
    let deadline = deadlines::client_deadline(core, &client);
    core.prelogin.charge(&mut client);
    core.common.arm(Who::Conn(conn), deadline, client.armed_mut());
    core.conns.put_at(conn, Conn::Client(client));
}

/// Adds a client that is not read from until an answer has arrived.
pub(crate) fn insert_waiting<I: Io>(core: &mut Core, mut client: Box<ClientSlot>, io: &mut I) {
    client.pause(Reason::Waits, io);
    insert(core, client);
}

/// A client is out of the table for good: its timer means nothing any more.
pub(crate) fn forget_timer(core: &mut Core, client: &ClientSlot) {
    if client.armed != Time::NEVER {
        core.common.timers().forget();
        tidy_timers(core);
    }
}

/// Drops the timers of closed sessions, if there are many.
pub(crate) fn tidy_timers(core: &mut Core) {
    if core.common.timers().is_littered() {
        let conns = &mut core.conns;
        core.common.timers().retain(|when, who| match who {
            Who::Conn(conn) => conns.is_armed(conn, when),
            _ => true,
        });
    }
}

/// Issues a cancel key to a client that speaks protocol 3 with this minor version.
pub(crate) fn issue_cancel_key(core: &mut Core, client: &mut ClientSlot, minor: u16) -> IssuedKey {
    let bytes = core.common.random_bytes();
    let worker = (core.common.worker(), core.common.workers());
    let secret = match core.peering.own {
        0 => CancelSecret::new(bytes, minor, core.conns.issue_pid(worker, client.conn.slot)),
        own => CancelSecret::of_peer(bytes, minor, own, core.conns.issue_pid_bytes(worker)),
    };
    if let Some(key) = secret.peer_key() {
        core.peering.issued(key, client.conn);
    }
    let key = secret.key();
    *client.cancel_mut() = secret;
    key
}

/// Puts a client into the table in its first phase after the login, and reads from it. What it sent ahead is processed
/// next.
pub(crate) fn insert_ready<I: Io>(core: &mut Core, mut client: Box<ClientSlot>, phase: ClientPhase, io: &mut I) {
    client.enter(phase);
    client.resume(Reason::Waits, io);
    let (conn, ahead) = (client.conn, !client.waiting.is_empty());
    insert(core, client);
    if ahead {
        core.common.follow_up(FollowUp::Feed(conn));
    }
}

/// What a client waited for has happened.
pub(crate) fn resume_waiting<I: Io>(core: &mut Core, client: &mut ClientSlot, io: &mut I) {
    client.resume(Reason::Waits, io);
    core.common.follow_up(FollowUp::Feed(client.conn));
}

/// What the client with this handle waited for has happened.
pub(crate) fn resume_client<I: Io>(core: &mut Core, client: ConnId, io: &mut I) {
    let Some(mut client) = core.conns.take::<ClientSlot>(client) else { return };
    resume_waiting(core, &mut client, io);
    core.conns.put_client(client);
}
