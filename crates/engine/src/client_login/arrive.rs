//! A client connects: whether there is room for it, and which client without a login is closed for another.
//!
//! Owns no state.

use std::ops::RangeInclusive;

use weir_base::{ClientAddr, ConnId, Origin, Time};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::ClientLogin;
use crate::common::{UnderWay, cx};
use crate::core::Core;
use crate::link::leave;
use crate::log;
use crate::pause::hold;
use crate::port::{Io, Level};
use crate::workers::messages::Payload;

/// Connections beyond `max_clients`, so that clients can be refused with a reason, or cancel: this fraction of
/// `max_clients`, within these bounds.
const SURPLUS: (u32, RangeInclusive<u32>) = (8, 10..=100);
/// Further connections for clients of the Unix socket, and as many again for root and the user that this process runs
/// as: so operators can log in under any load.
const LOCAL_SURPLUS: (u32, RangeInclusive<u32>) = (32, 4..=20);

/// The limit of connections that applies to one with this many parts of the surplus for local clients.
fn max_connections(core: &mut Core, locals: u32) -> u32 {
    let max_clients = core.common.config().max_clients;
    let part = |(part, bounds): (u32, RangeInclusive<u32>)| (max_clients / part).clamp(*bounds.start(), *bounds.end());
    core.client_quota.full_at(max_clients).saturating_add(part(SURPLUS)).saturating_add(locals * part(LOCAL_SURPLUS))
}

/// Whether a client is root, or the operating system's user of this process, which is `uid`.
fn is_privileged(uid: u32, address: &ClientAddr) -> bool {
    matches!(address, ClientAddr::Unix { uid: of_client, .. } if *of_client == uid || *of_client == 0)
}

impl ClientLogin {
    /// A client has connected.
    pub(crate) fn accepted<I: Io>(&mut self, core: &mut Core, now: Time, conn: ConnId, from: ClientAddr, io: &mut I) {
        let local = matches!(from, ClientAddr::Unix { .. });
        let locals = if is_privileged(self.logins.uid, &from) { 2 } else { u32::from(local) };
        let (usual, most) = (max_connections(core, 0), max_connections(core, locals));
        let id = core.common.next_connection_id();
        if core.client_quota.total() >= usual {
            self.make_room(core, now, Origin::of(&from), io);
        }
        if core.client_quota.total() >= most {
            // Too many connections even for a refusal with a reason.
            return io.close(conn);
        }
        core.client_quota.add();
        // Load balancers send a PROXY header.
        let proxy = core.common.config().listen.is_proxy(&from);
        let phase = if proxy { ClientPhase::Header } else { ClientPhase::OPENING };
        let client = table::new(core, now, conn, id, from, phase);
        log::log_client(Level::Debug, core.common.config(), &client, "", format_args!("got connection"), io);
        table::insert(core, client);
        if core.common.is_under_way(UnderWay::SUSPEND) {
            hold::hold(core, conn, io);
        }
    }

    /// Closes a client without a login for one from this origin, except for users who may administer the process
    /// without a password. A request to cancel is carried out nevertheless.
    pub(crate) fn evict_unauthenticated<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        from: Origin,
        io: &mut I,
    ) -> bool {
        let uid = self.logins.uid;
        let evicted = core.prelogin.evict(now, &core.conns, from, |from| is_privileged(uid, from));
        let Some(client) = evicted.and_then(|conn| core.conns.take::<ClientSlot>(conn)) else { return false };
        if matches!(client.phase, ClientPhase::Canceller) {
            for ix in core.pools.indices() {
                core.pools.get_mut(ix).cancels.leave(client.conn);
            }
            core.peering.leave(client.conn);
            leave::client_leaves(core, now, client, io);
        } else {
            leave::refuse(core, now, client, Refusal::TooManyLogins, io);
        }
        true
    }

    /// All connections are in use: closes a client without a login, here or at another worker, for one from this
    /// origin. Returns whether there is room at once.
    pub(crate) fn make_room<I: Io>(&mut self, core: &mut Core, now: Time, from: Origin, io: &mut I) -> bool {
        if self.evict_unauthenticated(core, now, from, io) {
            return true;
        }
        if core.prelogin.asks_others(now) {
            cx!(core, now, io).post_to_others(|| Payload::MakeRoom(from));
        }
        false
    }

    /// More clients than `max_clients` are connected: whether others are closed for this one.
    pub(crate) fn make_room_for<I: Io>(&mut self, core: &mut Core, now: Time, client: &ClientSlot, io: &mut I) -> bool {
        let (from, max) = (Origin::of(&client.addr), core.common.config().max_clients);
        while core.client_quota.total() > max && self.make_room(core, now, from, io) {}
        core.client_quota.total() <= max
    }
}
