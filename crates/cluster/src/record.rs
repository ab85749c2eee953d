//! The records in etcd: a pool's shares, and the members. Values only.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_base::Span;

/// A pool: its budget, and what its nodes have of it. The sum of the shares is at most the budget, unless the budget
/// was reduced and nodes have not yet released what is too much.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PoolShares {
    /// The most server connections of all nodes.
    pub budget: u32,
    /// The nodes that have a share, or wait for one, by name.
    pub nodes: BTreeMap<String, Entry>,
}

/// A node's part of a pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Entry {
    /// The most server connections of the node while its lease is valid.
    pub share: u32,
    /// The part of the share that it keeps without a lease. Only the node itself lowers it.
    pub floor: u32,
    /// The node's clients wait for more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Wait>,
}

/// A node's clients wait for server connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Wait {
    /// How many connections it lacks.
    pub amount: u32,
    /// How long its oldest client had waited when this was written, in milliseconds: clocks of nodes are not compared.
    pub age: u64,
}

impl Wait {
    /// The age of the oldest client now, if the record has been unchanged for so long; within two seconds.
    pub fn age_after(self, unchanged: Span) -> Span {
        Span::from_micros(self.age * 1000 + unchanged.micros())
    }
}

/// A member: the node's heartbeat.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Member {
    /// A random number of the process.
    pub incarnation: u64,
    /// Counts heartbeats.
    pub beat: u64,
    /// Another node has found the lease expired: shares beyond the floor may be given away until the node has read them
    /// again.
    #[serde(default)]
    pub fenced: bool,
    /// The process has ended in order: it keeps no floors.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left: bool,
    /// One process of the node takes over from another: each may have the floor, or connections beyond it that it can't
    /// close. So a connection that is left at the server is not one of the floor. Versions without this knew one
    /// process.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub upgrading: bool,
    /// By pool: its server connections, in order. The last changes may be missing. Earlier versions wrote process ids
    /// only, as `backends`, which identify nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub connections: BTreeMap<String, Vec<BackendId>>,
    /// The program's version.
    #[serde(default)]
    pub version: String,
    /// The revision of the configuration that the node runs; 0 is its own file.
    #[serde(default)]
    pub config: i64,
    /// Why the node has refused a newer one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refused: String,
    /// Where requests to cancel find its clients; `None`: other nodes pass none on to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerAddress>,
}

/// A backend of the database server. The server uses process ids again, so a backend is identified by its process id
/// and the time of its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(from = "(u32, u64)", into = "(u32, u64)")]
pub struct BackendId {
    /// The backend's process id.
    pub pid: u32,
    /// When the backend began: microseconds since 1970, by the server's clock.
    pub started: u64,
}

impl From<(u32, u64)> for BackendId {
    fn from((pid, started): (u32, u64)) -> BackendId {
        BackendId { pid, started }
    }
}

impl From<BackendId> for (u32, u64) {
    fn from(BackendId { pid, started }: BackendId) -> (u32, u64) {
        (pid, started)
    }
}

/// What tells a store of etcd from another one at the same addresses: one that was made anew, or restored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Store {
    /// A random number.
    pub id: u64,
    /// All leases that nodes had in another store have ended: shares are given out.
    pub ready: bool,
}

impl Store {
    /// The key's value, which transactions compare.
    pub fn text(self) -> String {
        format!("{:016x} {}", self.id, if self.ready { "ready" } else { "new" })
    }

    /// Reads a key's value.
    pub fn parse(text: &str) -> Option<Store> {
        let (id, state) = text.split_once(' ')?;
        Some(Store { id: u64::from_str_radix(id, 16).ok()?, ready: state == "ready" })
    }
}

/// Where requests to cancel find a node's clients.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct PeerAddress {
    /// The number in the cancel keys of its clients, which no other node has.
    pub id: u16,
    /// A host or an IP address.
    pub host: String,
    /// The port there.
    pub port: u16,
}

impl PoolShares {
    /// The sum of all shares.
    pub fn shared(&self) -> u32 {
        self.nodes.values().map(|entry| entry.share).sum()
    }

    /// The sum of all floors.
    pub fn floors(&self) -> u32 {
        self.nodes.values().map(|entry| entry.floor).sum()
    }

    /// A node's part; all zero if it has none.
    pub fn entry(&self, node: &str) -> Entry {
        self.nodes.get(node).copied().unwrap_or_default()
    }

    /// Sets a node's part; one that is all zero is removed.
    pub fn set(&mut self, node: &str, entry: Entry) {
        if entry == Entry::default() {
            self.nodes.remove(node);
        } else {
            self.nodes.insert(node.to_owned(), entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_connection_has_a_process_id_and_the_time_of_its_start() {
        let connections = [("app".to_owned(), vec![BackendId { pid: 20, started: 1_700_000_000_000_000 }])].into();
        let text = serde_json::to_string(&Member { connections, ..Member::default() }).unwrap();
        assert!(text.contains(r#""connections":{"app":[[20,1700000000000000]]}"#), "{text}");
        let old = r#"{"incarnation":1,"beat":2,"backends":{"app":[20]}}"#;
        assert!(
            serde_json::from_str::<Member>(old).unwrap().connections.is_empty(),
            "process ids alone identify nothing"
        );
    }

    #[test]
    fn a_store_is_read_as_it_was_written() {
        for store in [Store { id: u64::MAX, ready: true }, Store { id: 7, ready: false }] {
            assert_eq!(Store::parse(&store.text()), Some(store));
        }
        assert_eq!(Store::parse("x new"), None);
    }
}
