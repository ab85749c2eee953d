//! What is wrong with Weir itself, or for clients though their pools are healthy. Values only: the control plane, or a
//! thread in its place, finds it and sends it to the workers, whose reports have it for the console, the API and the
//! metrics.

use crate::client_names::ClientNames;

/// The kinds of faults: each is the rule of an alert, and a label of the metrics.
pub const FAULT_KINDS: [&str; 9] =
    ["certificate", "cluster", "disk", "limit", "login", "look", "read_only", "reload", "unread"];

/// A fault, for people.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fault {
    /// One of [`FAULT_KINDS`].
    pub kind: &'static str,
    /// Whether the fault has consequences now; otherwise it will have.
    pub problem: bool,
    /// What is wrong, and for whom.
    pub summary: String,
    /// What to do.
    pub advice: String,
    /// Since when the fault has consequences, or when they begin: microseconds since 1970.
    pub since: u64,
    /// When it was last seen, where it lasts for some seconds more: microseconds since 1970; 0 while it is seen.
    pub not_seen_since: u64,
    /// The pool whose clients feel it, if it is one pool's.
    pub pool: Option<String>,
    /// How many clients feel it, at least, and who they are.
    pub clients: u32,
    /// See `clients`.
    pub affected: ClientNames,
}
