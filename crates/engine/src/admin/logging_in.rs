//! How many clients are not logged in yet.

use crate::core::Core;

/// Clients that are not logged in yet.
pub(crate) fn clients_logging_in(core: &Core) -> u32 {
    core.client_counts.logging_in(core.pools.iter().map(|slot| slot.clients).sum())
}
