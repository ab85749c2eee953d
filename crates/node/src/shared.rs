//! The configuration that the cluster's nodes share, as this node reaches it: in etcd.

use weir_config::Config;
use weir_store::{SharedConfig, SharedSecrets};

use crate::error::NodeError;
use crate::etcd::Etcd;

/// The configuration that the nodes share; `None` without a cluster. Connects to nothing yet.
///
/// # Errors
/// A file of the client of etcd that can't be used.
pub fn shared(config: &Config) -> Result<Option<SharedConfig>, NodeError> {
    let rules = &config.cluster;
    if rules.etcd.is_empty() {
        return Ok(None);
    }
    let (etcd, secrets) = (Box::new(Etcd::new(rules)?), SharedSecrets::new(rules));
    Ok(Some(SharedConfig::new(etcd, &rules.node, rules.state.as_deref(), secrets)))
}
