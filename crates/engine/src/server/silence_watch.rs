//! Of which pools the servers are looked at, since their hosts may be silent ([`silence`](super::silence)), and when.

use weir_base::{Span, Time};
use weir_config::Config;

use crate::handles::PoolIx;

/// The pools whose servers are looked at, and when.
#[derive(Debug)]
pub(crate) struct SilenceWatch {
    /// How long a host may acknowledge nothing; `None`: as long as the system permits.
    limit: Option<Span>,
    /// Whose clients have servers.
    pub(crate) pools: Vec<PoolIx>,
    pub(crate) at: Time,
}

impl SilenceWatch {
    pub(crate) fn new(config: &Config) -> SilenceWatch {
        SilenceWatch { limit: limit(config), pools: Vec::new(), at: Time::NEVER }
    }

    /// A configuration is in force.
    pub(crate) fn apply_config(&mut self, config: &Config) {
        self.limit = limit(config);
    }

    pub(crate) fn limit(&self) -> Option<Span> {
        self.limit
    }

    /// Whether servers are looked at.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.limit.is_some()
    }
}

fn limit(config: &Config) -> Option<Span> {
    let keepalive = &config.listen.keepalive;
    (keepalive.on && !keepalive.server.is_zero()).then_some(keepalive.server)
}
