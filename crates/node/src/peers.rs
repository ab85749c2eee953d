//! This node's number in cancel keys, and where the other nodes are, so that each passes requests to cancel on to the
//! right one.
//!
//! Owns the number, which etcd keeps for this node's name (`peer/NUMBER`), and which does not change while the process
//! lives.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_admin::NodePeers;
use weir_base::{Host, Target};
use weir_cluster::{Node, PeerAddress};
use weir_config::Config;

use crate::error::NodeError;
use crate::etcd::Etcd;

/// The number is claimed, or compared with etcd, once in this many rounds: about a minute.
const CLAIM_ROUNDS: u32 = 1500;
/// After a failure in this many: about ten seconds.
const RETRY_ROUNDS: u32 = 250;
/// The greatest number, as for `peer_id`.
const MOST: u16 = 16_383;
/// How often in a row the next free number is tried, when other nodes take them at the same time.
const TRIES: u32 = 16;

/// See the head of the file.
pub(crate) struct Peers {
    /// 0: none yet.
    own: u16,
    /// The rounds until the next claim.
    rest: u32,
    /// What the workers get.
    known: Arc<NodePeers>,
    /// What was said already.
    said: String,
}

/// What a node does about its number, with those in etcd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Claim {
    /// The node's name has this number.
    Has(u16),
    /// This number is free.
    Free(u16),
    /// The number that this node uses is another node's.
    Lost,
    /// All numbers are used.
    Full,
}

/// Where requests to cancel find a node's clients.
pub(crate) fn target(peer: &PeerAddress) -> Target {
    Target { host: Host::parse(&peer.host), port: peer.port }
}

impl Peers {
    pub(crate) fn new() -> Peers {
        Peers { own: 0, rest: 0, known: Arc::default(), said: String::new() }
    }

    /// To be called in each round of a node that has reached etcd lately. Returns a line for the log, if there is
    /// something new to say.
    pub(crate) fn step(&mut self, node: &mut Node, etcd: &mut Etcd, config: &Config) -> Option<String> {
        if config.peer_id > 0 {
            // The configuration says who is where.
            return None;
        }
        let mut line = None;
        if self.rest == 0 {
            let claimed = self.claim(etcd, &config.cluster.node);
            self.rest = if claimed.is_ok() { CLAIM_ROUNDS } else { RETRY_ROUNDS };
            let said = claimed
                .err()
                .map(|error| error.to_string())
                .or_else(|| host(config).is_none().then(no_address))
                .unwrap_or_default();
            line = (said != self.said && !said.is_empty()).then(|| said.clone());
            self.said = said;
        }
        self.rest -= 1;
        let peer = |host| PeerAddress { id: self.own, host, port: config.listen.port };
        node.set_peer(if self.own > 0 { host(config).map(peer) } else { None });
        line
    }

    /// Where requests to cancel find the clients of each node.
    pub(crate) fn known(&mut self, node: &Node) -> Arc<NodePeers> {
        let others = node.peers().filter(|peer| peer.id != self.own).map(|peer| (peer.id, target(peer)));
        let known = NodePeers { own: self.own, others: others.collect() };
        if *self.known != known {
            self.known = Arc::new(known);
        }
        self.known.clone()
    }

    /// Has the number recorded. A transaction with an unknown outcome is no harm: the next reading shows it.
    fn claim(&mut self, etcd: &mut Etcd, name: &str) -> Result<(), NodeError> {
        for _ in 0..TRIES {
            match choose(&etcd.peers()?, name, self.own) {
                Claim::Has(id) => self.own = id,
                Claim::Free(id) if etcd.claim_peer(id, name)? => self.own = id,
                Claim::Free(_) => continue,
                Claim::Lost => return Err(NodeError::NumberLost(self.own)),
                Claim::Full => return Err(NodeError::NoNumber),
            }
            return Ok(());
        }
        Err(NodeError::NumbersRaced)
    }
}

/// Which number a node with this name has, or may take. `own`: it uses this one; 0 is none.
fn choose(taken: &BTreeMap<u16, String>, name: &str, own: u16) -> Claim {
    match (own, taken.get(&own)) {
        (0, _) => {}
        (_, Some(owner)) if owner == name => return Claim::Has(own),
        (_, Some(_)) => return Claim::Lost,
        (_, None) => return Claim::Free(own),
    }
    if let Some((id, _)) = taken.iter().find(|(_, owner)| *owner == name) {
        return Claim::Has(*id);
    }
    // Keys of clients that came before the node had a number have a zero there.
    let usable = (1..=MOST).filter(|id| id & 0xff != 0);
    usable.into_iter().find(|id| !taken.contains_key(id)).map_or(Claim::Full, Claim::Free)
}

/// Where the other nodes reach this one; `None` if that is not known.
fn host(config: &Config) -> Option<String> {
    if !config.cluster.address.is_empty() {
        return Some(config.cluster.address.clone());
    }
    let usable = || config.listen.addresses.iter().filter(|ip| !ip.is_unspecified());
    let first = usable().find(|ip| !ip.is_loopback()).or_else(|| usable().next());
    first.map(ToString::to_string)
}

fn no_address() -> String {
    "other nodes can't pass requests to cancel on to this one: set \"address\" in [cluster]".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(of: &[(u16, &str)]) -> BTreeMap<u16, String> {
        of.iter().map(|(id, name)| (*id, (*name).to_owned())).collect()
    }

    #[test]
    fn a_name_keeps_its_number_and_a_new_one_takes_the_lowest_that_is_free() {
        assert_eq!(choose(&taken(&[]), "a", 0), Claim::Free(1));
        assert_eq!(choose(&taken(&[(1, "a"), (3, "c")]), "b", 0), Claim::Free(2));
        assert_eq!(choose(&taken(&[(1, "a"), (3, "c")]), "c", 0), Claim::Has(3));
        let names: Vec<_> = (1..=255).map(|id| (id, "x")).collect();
        assert_eq!(choose(&taken(&names), "b", 0), Claim::Free(257), "no multiple of 256");
        let all: Vec<_> = (1..=MOST).map(|id| (id, "x")).collect();
        assert_eq!(choose(&taken(&all), "b", 0), Claim::Full);
    }

    #[test]
    fn a_number_in_use_does_not_change_also_when_etcd_has_lost_it() {
        assert_eq!(choose(&taken(&[(1, "a")]), "b", 2), Claim::Free(2));
        assert_eq!(choose(&taken(&[(1, "a"), (2, "b")]), "b", 2), Claim::Has(2));
        assert_eq!(choose(&taken(&[(1, "b"), (2, "a")]), "b", 2), Claim::Lost);
    }

    #[test]
    fn the_address_is_the_one_that_is_set_or_one_that_others_can_reach() {
        let mut config = Config::default();
        let listen = |addresses: &[&str]| addresses.iter().map(|text| text.parse().unwrap()).collect();
        config.listen.addresses = listen(&["0.0.0.0", "::"]);
        assert_eq!(host(&config), None);
        config.listen.addresses = listen(&["127.0.0.1", "10.0.0.1"]);
        assert_eq!(host(&config).as_deref(), Some("10.0.0.1"));
        config.listen.addresses = listen(&["127.0.0.1"]);
        assert_eq!(host(&config).as_deref(), Some("127.0.0.1"));
        config.cluster.address = "weir-1.example".into();
        assert_eq!(host(&config).as_deref(), Some("weir-1.example"));
    }
}
