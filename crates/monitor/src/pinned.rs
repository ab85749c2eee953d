//! Why a client keeps its server between transactions, as the API shows it.

use serde::Serialize;
use weir_admin::{PinReason, PinRecord};

use crate::figures::seconds_of;

/// A client that keeps its server; times in seconds since 1970.
#[derive(Clone, Debug, Serialize)]
pub struct Pinned {
    since: f64,
    /// Since when it asks nothing of its server; none while it does.
    idle_since: Option<f64>,
    by: Vec<Reason>,
}

/// One kind of state that keeps it.
#[derive(Clone, Debug, Serialize)]
struct Reason {
    kind: &'static str,
    since: f64,
    /// The statement that left it, without values.
    statement: Option<String>,
}

impl Pinned {
    /// The shape of a record.
    pub fn of(record: &PinRecord) -> Pinned {
        let reason = |PinReason { kind, since, statement }: &PinReason| Reason {
            kind,
            since: seconds_of(*since),
            statement: (!statement.is_empty()).then(|| statement.clone()),
        };
        Pinned {
            since: seconds_of(record.since),
            idle_since: record.idle_since.map(seconds_of),
            by: record.reasons.iter().map(reason).collect(),
        }
    }
}
