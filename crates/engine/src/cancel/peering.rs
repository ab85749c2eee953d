//! Other processes behind the same address: the keys by which a request to cancel finds the process that it means.
//!
//! Owns which keys this worker's clients have where the process has peers, the requests that are passed on to each
//! peer, and where the peers are: those of the cluster's nodes, unless the configuration has a `peer_id`. A key names
//! its process and says how often it may still be passed on, so that a wrong configuration makes no loop. Both are in
//! the key where PgBouncer has them (its documentation, "Section [peers]"), so that Weir and PgBouncer may be peers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use weir_admin::NodePeers;
use weir_base::{ConnId, Target, Time, shrink};
use weir_config::{Config, PeerRules};

/// The bits of a key's eighth byte that say how often it may be passed on: three times where all are set.
const HOPS: u8 = 0x03;

/// The first eight bytes of a cancel key where processes have peers: process id and secret of protocol 3.0.
///
/// The worker is the remainder of byte 0 by the number of workers; bytes 1 and 2 are the peer, low byte first; the
/// lowest two bits of byte 7 are hops. Bytes 0 and 3 count the keys, the rest is chance.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct PeerKey([u8; 8]);

impl PeerKey {
    /// The key of a client; `first` and `fourth` are these bytes of it, and `secret` is what the client receives as the
    /// secret.
    pub(crate) fn new((first, fourth): (u8, u8), peer_id: u16, secret: &[u8; 16]) -> PeerKey {
        let [low, high] = peer_id.to_le_bytes();
        let [a, b, c, d, ..] = *secret;
        PeerKey([first & 0x7f, low, high, fourth, a, b, c, d | HOPS])
    }

    /// The key that a request names; `None` if it is too short to be one.
    pub(crate) fn read(pid: u32, secret: &[u8]) -> Option<PeerKey> {
        let (secret, _) = secret.split_first_chunk::<4>()?;
        let (mut key, pid) = ([0; 8], pid.to_be_bytes());
        key[..4].copy_from_slice(&pid);
        key[4..].copy_from_slice(secret);
        Some(PeerKey(key))
    }

    /// The process id in the key.
    pub(crate) fn pid(self) -> u32 {
        let [a, b, c, d, ..] = self.0;
        u32::from_be_bytes([a, b, c, d])
    }

    /// The process that the key means.
    pub(crate) fn peer_id(self) -> u16 {
        u16::from_le_bytes([self.0[1], self.0[2]])
    }

    /// The key as its client received it.
    fn issued(mut self) -> PeerKey {
        self.0[7] |= HOPS;
        self
    }
}

/// The secret of a request as its client received it: what was passed on names fewer hops.
pub(crate) fn issued_secret(secret: &mut [u8]) {
    secret.get_mut(3).into_iter().for_each(|byte| *byte |= HOPS);
}

/// Takes a hop off the secret of a request. `false`: none was left.
pub(crate) fn take_hop(secret: &mut [u8]) -> bool {
    let Some(byte) = secret.get_mut(3).filter(|byte| **byte & HOPS > 0) else { return false };
    *byte -= 1;
    true
}

/// Requests for a peer whose senders' connections were closed to make room.
const MAX_ALONE: usize = 1000;

/// A request that is passed on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Forward {
    /// The client that sent the request, to be closed when the request is done; none if it was closed to make room.
    pub(crate) requester: Option<ConnId>,
    /// What the peer receives.
    pub(crate) pid: u32,
    pub(crate) secret: Vec<u8>,
}

/// A connection of ours that carries a request to a peer.
pub(crate) struct ForwardSlot {
    pub(crate) conn: ConnId,
    /// The process that the connection goes to.
    pub(crate) to: u16,
    pub(crate) forward: Forward,
    /// The request is sent: the end of the connection is awaited.
    pub(crate) sent: bool,
    pub(crate) armed: Time,
    pub(crate) deadline: Time,
}

/// See the head of the file.
#[derive(Default)]
pub(crate) struct Peering {
    keys: HashMap<PeerKey, ConnId>,
    pools: BTreeMap<u16, PeerPool>,
    /// The cluster's nodes; empty without one.
    nodes: Arc<NodePeers>,
    /// This process's number in new keys; 0: it has no peers.
    pub(crate) own: u16,
}

/// The requests for one peer. Those that wait are clients with a time-out, so there are no more than those.
#[derive(Default)]
pub(crate) struct PeerPool {
    under_way: Vec<ConnId>,
    sent: u32,
    waiting: VecDeque<Forward>,
}

impl Peering {
    pub(crate) fn new(config: &Config) -> Peering {
        Peering { own: config.peer_id, ..Peering::default() }
    }

    /// The cluster's nodes, from now on.
    pub(crate) fn set_nodes(&mut self, nodes: Arc<NodePeers>, config: &Config) {
        self.nodes = nodes;
        self.number(config);
    }

    fn number(&mut self, config: &Config) {
        self.own = if config.peer_id > 0 { config.peer_id } else { self.nodes.own };
    }

    /// Where a peer is; `None` if there is none with this number.
    pub(crate) fn target(&self, to: u16, config: &Config) -> Option<Target> {
        match config.peer_id {
            0 => self.nodes.others.get(&to).cloned(),
            _ => config.peers.get(&to).map(PeerRules::target),
        }
    }

    /// Whether a key may be a client's of this process, though it names neither this one nor a known peer: clients of a
    /// cluster's node that came before the node had its number have keys without one.
    pub(crate) fn may_be_own(&self, key: PeerKey, config: &Config) -> bool {
        config.peer_id == 0 && self.target(key.peer_id(), config).is_none()
    }

    /// A client has received this key.
    pub(crate) fn issued(&mut self, key: PeerKey, client: ConnId) {
        self.keys.insert(key, client);
    }

    /// A client with this key has left.
    pub(crate) fn forget(&mut self, key: PeerKey) {
        self.keys.remove(&key);
        shrink(&mut self.keys, 64);
    }

    /// The client that a key means.
    pub(crate) fn find(&self, key: PeerKey) -> Option<ConnId> {
        self.keys.get(&key.issued()).copied()
    }

    /// A request is to be passed on to a peer, as soon as it may.
    pub(crate) fn wait(&mut self, to: u16, forward: Forward) {
        self.pools.entry(to).or_default().waiting.push_back(forward);
    }

    /// The connection of a sender is closed to make room; its request is passed on, unless there are too many of these.
    pub(crate) fn leave(&mut self, sender: ConnId) {
        for pool in self.pools.values_mut() {
            let alone = pool.waiting.iter().filter(|forward| forward.requester.is_none()).count();
            let Some(at) = pool.waiting.iter().position(|forward| forward.requester == Some(sender)) else { continue };
            if alone < MAX_ALONE {
                pool.waiting[at].requester = None;
            } else {
                pool.waiting.remove(at);
            }
        }
    }

    /// The time of a sender is over, and its request with it, unless that is under way.
    pub(crate) fn drop_requests_of(&mut self, sender: ConnId) {
        self.pools.values_mut().for_each(|pool| pool.waiting.retain(|forward| forward.requester != Some(sender)));
    }

    /// The connections that carry requests to peers.
    pub(crate) fn under_way(&self) -> impl Iterator<Item = ConnId> {
        self.pools.values().flat_map(|pool| pool.under_way.iter().copied())
    }

    /// The request for a peer that is next, if it may be passed on now.
    pub(crate) fn next(&mut self, to: u16, config: &Config) -> Option<Forward> {
        let pool = self.pools.get_mut(&to)?;
        let size = pool_size(config, to);
        let room = size == 0 || pool.under_way.len() < size as usize;
        if room { pool.waiting.pop_front() } else { None }
    }

    /// A connection to a peer has begun.
    pub(crate) fn begin(&mut self, to: u16, connection: ConnId) {
        self.pools.entry(to).or_default().under_way.push(connection);
    }

    /// A connection to a peer carries its request.
    pub(crate) fn sent(&mut self, to: u16) {
        self.pools.entry(to).or_default().sent += 1;
    }

    /// A connection to a peer is over.
    pub(crate) fn end(&mut self, slot: &ForwardSlot) {
        let Some(pool) = self.pools.get_mut(&slot.to) else { return };
        pool.under_way.retain(|conn| *conn != slot.conn);
        pool.sent -= u32::from(slot.sent);
    }

    /// The peers to which anything was passed on so far, with how many requests are under way, wait, and are sent.
    pub(crate) fn figures(&self) -> impl Iterator<Item = (u16, [u32; 3])> {
        let count = |pool: &PeerPool| [pool.under_way.len() as u32, pool.waiting.len() as u32, pool.sent];
        self.pools.iter().map(move |(id, pool)| (*id, count(pool)))
    }

    /// Peers that neither the configuration nor the cluster has any more are forgotten, once nothing is under way to
    /// them.
    pub(crate) fn apply_config(&mut self, config: &Config) {
        self.number(config);
        let busy = |pool: &PeerPool| !(pool.under_way.is_empty() && pool.waiting.is_empty());
        let Peering { pools, nodes, .. } = self;
        let known = |id: &u16| config.peers.contains_key(id) || nodes.others.contains_key(id);
        pools.retain(|id, pool| known(id) || busy(pool));
    }
}

/// How many requests a peer gets at once; 0: any number.
fn pool_size(config: &Config, peer: u16) -> u32 {
    config.peers.get(&peer).and_then(|peer| peer.pool_size).unwrap_or(config.limits.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_names_its_process_and_may_be_passed_on_three_times() {
        let secret: [u8; 16] = std::array::from_fn(|i| 0x40 + i as u8);
        let key = PeerKey::new((5, 9), 0x1234, &secret);
        assert_eq!(key.0, [5, 0x34, 0x12, 9, 0x40, 0x41, 0x42, 0x43]);
        assert_eq!((key.peer_id(), key.pid()), (0x1234, 0x0534_1209));
        let mut request = key.0[4..].to_vec();
        for left in [2, 1, 0] {
            assert!(take_hop(&mut request));
            assert_eq!(request[3] & HOPS, left);
            let read = PeerKey::read(key.pid(), &request).unwrap();
            assert_eq!((read.issued(), read.peer_id()), (key, 0x1234));
        }
        assert!(!take_hop(&mut request), "a loop ends here");
        issued_secret(&mut request);
        assert_eq!(request, key.0[4..]);
        assert!(PeerKey::read(1, b"abc").is_none() && !take_hop(b"abc".to_vec().as_mut_slice()));
    }

    #[test]
    fn requests_wait_for_their_turn_at_their_own_peer() {
        let mut config = Config::default();
        let peer = weir_config::PeerRules { host: "/tmp".into(), port: 6432, pool_size: Some(1) };
        config.peers.insert(2, peer);
        let mut peering = Peering::default();
        let forward = |n| Forward { requester: Some(ConnId::new(n, 1)), pid: n, secret: Vec::new() };
        for n in [1, 2] {
            peering.wait(2, forward(n));
        }
        let first = peering.next(2, &config).unwrap();
        assert_eq!(first, forward(1));
        peering.begin(2, ConnId::new(9, 1));
        assert_eq!(peering.next(2, &config), None, "one at a time");
        peering.sent(2);
        assert_eq!(peering.figures().collect::<Vec<_>>(), [(2, [1, 1, 1])]);
        let (conn, deadline) = (ConnId::new(9, 1), Time::NEVER);
        peering.end(&ForwardSlot { conn, to: 2, forward: first, sent: true, armed: deadline, deadline });
        assert_eq!(peering.next(2, &config), Some(forward(2)));
        config.peers.clear();
        peering.apply_config(&config);
        assert_eq!(peering.figures().count(), 0);
    }

    #[test]
    fn nodes_of_a_cluster_are_peers_unless_the_configuration_has_its_own() {
        let (mut config, mut peering) = (Config::default(), Peering::default());
        let target = |port| Target { host: weir_base::Host::parse("10.0.0.2"), port };
        let key = |id| PeerKey::new((0, 7), id, &[7; 16]);
        assert_eq!((peering.own, peering.target(2, &config)), (0, None));
        peering.set_nodes(Arc::new(NodePeers { own: 1, others: [(2, target(6432))].into() }), &config);
        assert_eq!((peering.own, peering.target(2, &config)), (1, Some(target(6432))));
        assert_eq!(peering.target(3, &config), None);
        assert!(!peering.may_be_own(key(2), &config));
        assert!(peering.may_be_own(key(0), &config), "of a client that came before the number");
        peering.wait(2, Forward { requester: Some(ConnId::new(1, 1)), pid: 1, secret: Vec::new() });
        peering.next(2, &config).unwrap();
        peering.apply_config(&config);
        assert_eq!(peering.figures().count(), 1, "a reload forgets no node");

        config.peer_id = 9;
        let peer = weir_config::PeerRules { host: "10.0.0.2".into(), port: 7000, pool_size: None };
        config.peers.insert(5, peer);
        peering.apply_config(&config);
        assert_eq!((peering.own, peering.target(2, &config)), (9, None));
        assert_eq!(peering.target(5, &config), Some(target(7000)));
        assert!(!peering.may_be_own(key(0), &config));
    }
}
