//! The other members' heartbeats: since when each is unchanged. A node judges by its own clock, from the moment when it
//! has seen the heartbeat, which is after the heartbeat was sent.

use std::collections::BTreeMap;

use weir_base::{Span, Time};

use crate::ending::Ending;
use crate::record::Member;
use crate::request::Revision;

/// A node without a lease whose server connections must be ended before its share of this pool is given away.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Lost {
    /// The pool.
    pub pool: String,
    /// The node.
    pub node: String,
    /// The revision of its record.
    pub revision: Revision,
}

#[derive(Debug)]
struct Seen {
    revision: Revision,
    since: Time,
    member: Member,
}

/// See the head of the file.
#[derive(Default, Debug)]
pub(crate) struct Members {
    seen: BTreeMap<String, Seen>,
    /// The members that a store had before it was lost, as they were last seen.
    gone: BTreeMap<String, Member>,
    /// When the members were read last.
    read: Option<Time>,
}

/// What a node knows about another one's lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lease {
    /// The lease may be valid.
    Valid,
    /// The lease has ended; holds the revision of the record.
    Ended(Revision),
    /// The lease has ended, and that is recorded, or the record is deleted: the node's share may be given away.
    Fenced(Revision),
}

impl Members {
    /// Takes over what was read at `now`: all members. A node that has just been restarted keeps its address until its
    /// record has one again.
    pub(crate) fn read(&mut self, now: Time, members: Vec<(String, Revision, Member)>) {
        self.read = Some(now);
        let mut old = std::mem::take(&mut self.seen);
        for (name, revision, mut member) in members {
            let mut since = now;
            if let Some(before) = old.remove(&name) {
                since = if before.revision == revision { before.since } else { now };
                member.peer = member.peer.or(before.member.peer);
            }
            self.seen.insert(name, Seen { revision, since, member });
        }
        self.gone.extend(old.into_iter().map(|(name, seen)| (name, seen.member)));
    }

    /// All heartbeats count from now on.
    pub(crate) fn seen_anew(&mut self, now: Time) {
        self.seen.values_mut().for_each(|seen| seen.since = now);
    }

    /// Members of a store that was lost, which have not come back.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (&String, &Member)> {
        self.gone.iter().filter(|(name, member)| !member.left && !self.seen.contains_key(*name))
    }

    /// Nobody is expected back any more.
    pub(crate) fn forget_gone(&mut self) {
        self.gone.clear();
    }

    /// Whether the members were read so shortly ago: a node that has returned since is taken for a lost one.
    pub(crate) fn is_recent(&self, now: Time, within: Span) -> bool {
        self.read.is_some_and(|read| now.since(read) <= within)
    }

    pub(crate) fn lease(&self, now: Time, name: &str, lost_after: Span) -> Lease {
        match self.seen.get(name) {
            None => Lease::Fenced(0),
            Some(seen) if seen.member.fenced => Lease::Fenced(seen.revision),
            Some(seen) if now.since(seen.since) > lost_after => Lease::Ended(seen.revision),
            Some(_) => Lease::Valid,
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<(Revision, &Member)> {
        self.seen.get(name).map(|seen| (seen.revision, &seen.member))
    }

    /// What the members have recorded about a lost node's connections. `me` knows its own better.
    pub(crate) fn ending(&self, lost: &Lost, me: &str, floor: u32) -> Ending {
        let recorded = |seen: &Seen| seen.member.connections.values().flatten().copied().collect::<Vec<_>>();
        let others = self.seen.iter().filter(|(name, _)| **name != lost.node && **name != me);
        let theirs = self.seen.get(&lost.node).and_then(|seen| seen.member.connections.get(&lost.pool));
        Ending {
            floor,
            theirs: theirs.into_iter().flatten().copied().collect(),
            others: others.flat_map(|(_, seen)| recorded(seen)).collect(),
            #[cfg(test)]
            by_pid: false,
        }
    }

    /// All members, and for how long each is unchanged.
    pub(crate) fn all(&self, now: Time) -> impl Iterator<Item = (&str, &Member, Span)> {
        self.seen.iter().map(move |(name, seen)| (name.as_str(), &seen.member, now.since(seen.since)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::PeerAddress;

    #[test]
    fn a_restarted_node_keeps_its_address_until_it_has_a_new_one() {
        let mut members = Members::default();
        let mut read = |revision, port: Option<u16>| {
            let peer = port.map(|port| PeerAddress { id: 1, host: "h".to_owned(), port });
            members.read(Time::START, vec![("a".to_owned(), revision, Member { peer, ..Member::default() })]);
            members.get("a").and_then(|(_, member)| member.peer.as_ref().map(|peer| peer.port))
        };
        assert_eq!(read(1, None), None);
        assert_eq!(read(2, Some(5)), Some(5));
        assert_eq!(read(3, None), Some(5), "it has been restarted");
        assert_eq!(read(4, Some(6)), Some(6));
    }
}
