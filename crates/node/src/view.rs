//! What the console, the API and the metrics show of a cluster.

use weir_admin::{ClusterNode, ClusterPool, ClusterShare, ClusterView};
use weir_base::{Span, Time};
use weir_cluster::{Entry, Member, MemberState, Node, PoolShares};
use weir_config::Cluster;

use crate::peers::target;

/// The cluster as this node sees it.
pub(crate) fn view(node: &Node, rules: &Cluster, now: Time) -> ClusterView {
    let share = |name: &str, entry: &Entry, unchanged: Span| ClusterShare {
        node: name.to_owned(),
        share: entry.share,
        floor: entry.floor,
        shortfall: entry.wait.map_or(0, |wait| wait.amount),
        oldest_wait: entry.wait.map_or(Span::ZERO, |wait| wait.age_after(unchanged)),
    };
    let pool = |(name, record, unchanged): (&str, &PoolShares, Span)| ClusterPool {
        name: name.to_owned(),
        budget: record.budget,
        shares: record.nodes.iter().map(|(node, entry)| share(node, entry, unchanged)).collect(),
    };
    let member_state = node.member_state(now);
    let member = |(name, member, unchanged): (&str, &Member, Span)| {
        let own = name == rules.node && member_state == MemberState::Member;
        ClusterNode {
            name: name.to_owned(),
            version: member.version.clone(),
            config: member.config,
            refused: member.refused.clone(),
            state: match member_state {
                _ if own => "member",
                MemberState::NameInUse if name == rules.node => ClusterView::NAME_IN_USE,
                _ => state(member, unchanged, rules.lease),
            },
            unchanged: if own { Span::ZERO } else { unchanged },
            peer: member.peer.as_ref().map(|peer| (peer.id, target(peer))),
        }
    };
    ClusterView {
        cluster: rules.name.clone(),
        node: rules.node.clone(),
        member_state: word(member_state),
        config: node.member().config,
        refused: node.member().refused.clone(),
        nodes: node.members(now).map(member).collect(),
        pools: node.pools(now).filter(|(_, record, _)| record.budget > 0).map(pool).collect(),
    }
}

/// Members are read every few seconds, so a heartbeat seems older than it is by so much, in microseconds.
const LATE: u64 = 10_000_000;

fn state(member: &Member, unchanged: Span, lease: Span) -> &'static str {
    match member {
        Member { left: true, .. } => "left",
        Member { fenced: true, .. } => "lost",
        _ if unchanged > Span::from_micros(lease.micros() + LATE) => "late",
        _ => "member",
    }
}

fn word(member_state: MemberState) -> &'static str {
    match member_state {
        MemberState::Joining => "joining",
        MemberState::NameInUse => ClusterView::NAME_IN_USE,
        MemberState::Member => "member",
        MemberState::Floor => "floor",
    }
}
