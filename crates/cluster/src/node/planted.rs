//! The faults that the simulator plants in a node.

use weir_base::Time;

use super::Node;
use crate::sim::Bug;

impl Node {
    pub(super) fn renewal(&self, now: Time, sent: Time) -> Time {
        if self.bug == Some(Bug::LateRenewalBelieved) { now } else { sent }
    }

    pub(super) fn kept_floor(&self, floor: u32) -> u32 {
        if self.bug == Some(Bug::FloorGivenAway) { 0 } else { floor }
    }

    pub(super) fn trusts_new_store(&self) -> bool {
        self.bug == Some(Bug::EmptyStoreTrusted)
    }

    pub(super) fn kept_left(&self, left: u32) -> u32 {
        if self.bug == Some(Bug::LeftIgnored) { 0 } else { left }
    }

    pub(super) fn counts_orphans(&self) -> bool {
        self.bug != Some(Bug::OrphansForgotten)
    }

    pub(super) fn releases_early(&self) -> bool {
        self.bug == Some(Bug::ReleasedBeforeClosed)
    }

    pub(super) fn skips_fence(&self) -> bool {
        self.bug == Some(Bug::NoFence)
    }

    pub(super) fn forgets_on_fence(&self) -> bool {
        self.bug != Some(Bug::LeaseCountedTwice)
    }

    pub(super) fn ends_without_lease(&self) -> bool {
        self.bug == Some(Bug::EndedWithoutLease)
    }
}
