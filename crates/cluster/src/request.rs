//! What a node asks of etcd, and etcd's replies. Values only; the caller encodes them.

use crate::record::{Member, PoolShares, Store};

/// A revision of etcd: of a key's last change, or of the whole store. 0: the key does not exist.
pub type Revision = i64;

/// A key below the cluster's prefix.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StoreKey {
    /// `generation`.
    Store,
    /// `node/NAME`.
    Member(String),
    /// `pool/NAME`.
    Pool(String),
}

/// A key's value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreValue {
    /// The value of the [`StoreKey::Store`].
    Store(Store),
    /// The value of a [`StoreKey::Member`].
    Member(Member),
    /// The value of a [`StoreKey::Pool`].
    Pool(PoolShares),
}

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The key.
    pub key: StoreKey,
    /// The revision of the key's last change.
    pub revision: Revision,
    /// The key's value.
    pub value: StoreValue,
}

/// One request. Each is linearizable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreRequest {
    /// Reads the store's identity, all members and all pools, at one revision.
    ReadAll,
    /// Reads all members.
    ReadMembers,
    /// Reads the pools that changed after this revision of the store.
    ReadPools(Revision),
    /// Writes, if nothing has changed.
    Commit(Txn),
}

/// A transaction: writes all, if each of these keys still has its revision, in this store, and otherwise nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Txn {
    /// The keys, and their expected revisions.
    pub compares: Vec<(StoreKey, Revision)>,
    /// The value of [`StoreKey::Store`]: revisions of another store may be the same.
    pub store: Option<Store>,
    /// The new values; `None` deletes.
    pub puts: Vec<(StoreKey, Option<StoreValue>)>,
}

/// The reply to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreReply {
    /// What was read, and the store's revision then.
    Read(Revision, Vec<Stored>),
    /// All was written, at this revision.
    Committed(Revision),
    /// A key had another revision; nothing was written.
    Conflict,
}
