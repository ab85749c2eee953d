//! Which host of a pool takes its writes, and how a pool moves to another one. For pools that want a primary
//! (`target_session_attrs` `read-write` or `primary`), over all their users and workers.
//!
//! - `view`: what a worker knows. `looks`: when it looks whether a host takes writes, after errors. `fence`: a worker leaves a host, and goes on at another. `fenced`: whether it has left.
//! - `seats`: what worker 0 knows and decides. `admin/primaries` sends its orders to the workers.
//! - `polls`: what worker 0 asks Patroni, if that is configured, and when. `hints`: what a worker knows of it. `hinted`: a pool
//!   tries the host that Patroni names. `admin/patroni` asks, and tells the workers.
//!
//! Invariant, the fence: no client gets a server of a new primary before all workers have left the old one. A login that
//! finds another host fit waits ([`ServerPhase::AwaitingFence`](crate::server::slot::ServerPhase)) and tells worker 0,
//! which has all workers leave the other hosts, and when all have answered, go on.

pub(crate) mod fence;
pub(crate) mod fenced;
pub(crate) mod hinted;
pub(crate) mod hints;
pub(crate) mod looks;
pub(crate) mod polls;
pub(crate) mod seats;
pub(crate) mod view;

use weir_base::Target;

/// What a worker is to do about a pool's primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PrimaryStep {
    /// Leave all hosts but this one. Answered when they are left.
    Leave {
        to: Target,
        /// Nothing is opened until the next step: an operator has asked for this host.
        holds: bool,
    },
    /// Leave this host, which takes no writes any more, and look for another one.
    Abandon(Target),
    /// Only this host is tried.
    Look(Target),
    /// Go on: at this host, if one is known.
    Settle(Option<Target>),
    /// The clients that are still at the old primary are disconnected.
    Cut,
}
