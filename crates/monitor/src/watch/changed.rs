//! Something that changed before an incident.

use serde::{Deserialize, Serialize};

/// Something that changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Changed {
    pub(crate) kind: Kind,
    /// Seconds since 1970.
    pub(crate) at: f64,
    /// What changed, in a few words.
    pub(crate) text: String,
}

/// In the order in which they are likely to be why.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Upgrade,
    Deployment,
    Load,
}
