//! Room for new clients: one without a login is closed for another.

use weir_base::{Origin, Time};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::ClientLogin;
use crate::common::cx;
use crate::core::Core;
use crate::link::leave;
use crate::port::Io;
use crate::workers::messages::Payload;

impl ClientLogin {
    /// Closes a client without a login for one from this origin, except for users who may administer the process
    /// without a password. A request to cancel is carried out nevertheless.
    pub(crate) fn evict_unauthenticated<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        from: Origin,
        io: &mut I,
    ) -> bool {
        let logins = &self.logins;
        let evicted = core.prelogin.evict(now, &core.conns, from, |from| logins.is_privileged(from));
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

    /// Whether a client is within `max_clients`, maybe because another one is closed for it.
    pub(crate) fn has_room<I: Io>(&mut self, core: &mut Core, now: Time, client: &ClientSlot, io: &mut I) -> bool {
        let max = core.common.config().max_clients;
        if core.client_quota.total() <= max {
            return true;
        }
        let from = Origin::of(&client.addr);
        while core.client_quota.total() > max && self.make_room(core, now, from, io) {}
        core.client_quota.total() <= max
    }
}
