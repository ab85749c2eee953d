//! Patroni's REST API beside the hosts of a pool: where it is.

use std::path::PathBuf;

use weir_base::Span;

/// The REST API of Patroni beside a pool's hosts, which says what each of them is.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Patroni {
    /// The address of each host's API, in the order of the hosts, without a slash at its end; none: nobody is asked.
    pub api: Vec<String>,
    /// How often each of them is asked.
    pub interval: Span,
    /// How far behind the primary a standby may be, in bytes; 0: it does not matter.
    pub max_lag: u64,
    /// The authorities that certificates of the API are checked against; none: those of the operating system.
    pub ca_file: Option<PathBuf>,
}

/// A question to Patroni whether a host is what a pool wants; the status 200 is a yes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PatroniQuestion {
    /// The address, with the path.
    pub url: String,
    /// See [`Patroni::ca_file`].
    pub ca_file: Option<PathBuf>,
}
