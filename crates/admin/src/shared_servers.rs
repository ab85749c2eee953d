//! Database servers whose connections several pools share (`[servers]`), with what these pools have open: one sum for the
//! metrics and the API.

use std::collections::BTreeMap;

use weir_config::{Config, ServerRules};

use crate::records::PoolRecord;

/// The sections of `[servers]` by name, with the connections that their pools have open.
pub fn shared_servers<'c>(pools: &[PoolRecord], config: &'c Config) -> BTreeMap<&'c str, (ServerRules, u32)> {
    let mut all: BTreeMap<&str, (ServerRules, u32)> =
        config.servers.iter().map(|(name, rules)| (name.as_str(), (*rules, 0))).collect();
    for pool in pools.iter().filter(|_| !config.servers.is_empty()) {
        if let Some((_, open)) = config.server_of(&pool.database).and_then(|name| all.get_mut(name)) {
            *open += pool.servers();
        }
    }
    all
}
