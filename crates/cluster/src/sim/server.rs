//! The database server's process ids: after each of its starts they are given out from the same ones on, to nodes and
//! to others.

use std::collections::BTreeMap;

use crate::ending::{Ending, Open};
use crate::record::BackendId;
use crate::sim::random::Random;

/// Sessions of other programs after a restart, at most.
const OTHERS: u64 = 6;

/// See the head of the file.
pub(super) struct Server {
    next_pid: u32,
    /// By node and pool.
    of_nodes: BTreeMap<(String, String), Vec<BackendId>>,
    /// By pool: sessions of the same user that are not of the cluster.
    of_others: BTreeMap<String, Vec<BackendId>>,
}

impl Server {
    pub(super) fn new() -> Server {
        Server { next_pid: 1, of_nodes: BTreeMap::new(), of_others: BTreeMap::new() }
    }

    fn begin(&mut self, now: u64) -> BackendId {
        let pid = self.next_pid;
        self.next_pid += 1;
        BackendId { pid, started: now }
    }

    /// The server is started again, and other programs connect first, and then the nodes.
    pub(super) fn restart(&mut self, now: u64, pools: &[String], random: &mut Random) {
        *self = Server::new();
        for pool in pools {
            let others = (0..random.below(OTHERS)).map(|_| self.begin(now)).collect();
            self.of_others.insert(pool.clone(), others);
        }
    }

    /// A node has so many connections of a pool; returns which.
    pub(super) fn connections(&mut self, now: u64, (node, pool): (&str, &str), count: u32) -> Vec<BackendId> {
        let key = (node.to_owned(), pool.to_owned());
        let mut has = self.of_nodes.remove(&key).unwrap_or_default();
        let surplus = has.len().saturating_sub(count as usize);
        has.drain(..surplus);
        while has.len() < count as usize {
            has.push(self.begin(now));
        }
        self.of_nodes.insert(key, has.clone());
        has
    }

    /// A session of another program that a node would end.
    pub(super) fn foreign_victim(&self, pool: &str, ending: &Ending) -> Option<BackendId> {
        let others = self.of_others.get(pool)?;
        let open = |backend: &BackendId| Open { pid: backend.pid, started: Some(backend.started), idle: true };
        let open: Vec<Open> = others.iter().map(open).collect();
        ending.decide(&open).end.into_iter().find(|backend| others.contains(backend))
    }
}
