//! Which pools have adopted the configuration in force; `apply_config` has the rules.

use std::sync::Arc;

use weir_base::WorkerId;
use weir_config::{PoolConfig, Users};

use crate::handles::PoolIx;

/// A configuration that the pools are adopting.
pub(crate) struct Adoption {
    /// The command, and who is answered when all have.
    pub(super) command: (WorkerId, u64),
    /// Pools that have not adopted it; some may have since, or are gone.
    pub(super) left: Vec<PoolIx>,
    /// Pools to be created if they do not exist.
    pub(super) forced: Vec<Arc<PoolConfig>>,
    /// The users before.
    pub(super) listed: Arc<Users>,
    /// Servers under the old settings of encryption might be less secure than the new ones allow.
    pub(super) other_tls: bool,
}
