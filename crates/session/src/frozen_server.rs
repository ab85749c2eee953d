//! A server as bytes, and back: so that it can move to another process.
//!
//! Owns the format. What freezes is a server that is clean and has no client. Statements go as their names on it, which
//! mean the same where the process's key is the same. What is in its unnamed statement is forgotten.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::params::ParamTable;
use crate::server::{CancelKey, ReplicationRole, Server};
use crate::statements::Key;

#[derive(Serialize, Deserialize)]
struct FrozenServer {
    /// Name, value, and whether the server reports it.
    params: Vec<(String, String, bool)>,
    /// What the server has without a client: names, values, and whether its connect_query has set them.
    base: Vec<(String, String, bool)>,
    /// By the order of their last use; whether each is as it was prepared.
    statements: Vec<(u128, bool)>,
    temporary: bool,
    /// A client has drawn values of sequences.
    drawn: bool,
    standby: Option<bool>,
    read_only: Option<bool>,
    pid: u32,
    secret: Vec<u8>,
    started: Option<u64>,
}

/// Writes a server. `None` if it is not clean.
pub fn freeze(server: &Server, table: &ParamTable) -> Option<Vec<u8>> {
    server.prove_clean()?;
    let reported: Vec<&str> = table.reported(&server.params).map(|(name, _)| name).collect();
    let role = server.role();
    let frozen = FrozenServer {
        params: table
            .iter(&server.params)
            .map(|(name, value)| (name.to_owned(), value.to_owned(), reported.contains(&name)))
            .collect(),
        base: table
            .iter(&server.base)
            .map(|(name, value)| {
                let set = table.place(name).is_some_and(|place| server.base_is_set >> place & 1 == 1);
                (name.to_owned(), value.to_owned(), set)
            })
            .collect(),
        statements: server.statements.by_use().map(|(key, good)| (key.0, good)).collect(),
        temporary: server.state.is_temporary(),
        drawn: !server.sequences.are_none(),
        standby: role.standby,
        read_only: role.read_only,
        pid: server.cancel_key().pid,
        secret: server.cancel_key().secret.to_vec(),
        started: server.started(),
    };
    postcard::to_stdvec(&frozen).ok()
}

/// Reads a server that [`freeze`] wrote; `None` if the bytes are damaged, or it has a parameter that can't be set back
/// here. A reported one that is not tracked here is forgotten.
pub fn thaw(bytes: &[u8], table: &ParamTable) -> Option<Server> {
    let frozen: FrozenServer = postcard::from_bytes(bytes).ok()?;
    let mut params = table.unknown();
    for (name, value, reported) in &frozen.params {
        // A report says nothing where the parameter is not tracked any more.
        if !reported || table.is_tracked(name) {
            table.restore(&mut params, name, value).ok()?;
        }
        if *reported {
            table.take_report(&mut params, name, value);
        }
    }
    let key = CancelKey { pid: frozen.pid, secret: frozen.secret.into() };
    let mut base = table.unknown();
    let mut base_is_set = 0;
    for (name, value, set) in frozen.base.iter().filter(|(name, ..)| table.is_tracked(name)) {
        table.restore(&mut base, name, value).ok()?;
        base_is_set |= table.place(name).map_or(0, |place| u64::from(*set) << place);
    }
    let mut server = Server::new(Arc::new(params), key);
    (server.base, server.base_is_set) = (Arc::new(base), base_is_set);
    for (key, good) in frozen.statements {
        server.statements.insert(Key(key), usize::MAX);
        if !good {
            server.statements.mark_doubtful(Key(key));
        }
    }
    server.set_started(frozen.started);
    server.state.set_temporary(frozen.temporary);
    if frozen.drawn {
        server.sequences.doubt();
    }
    server.restore_role(ReplicationRole { standby: frozen.standby, read_only: frozen.read_only });
    Some(server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepared::OnServer;

    #[test]
    fn a_server_thaws_as_it_was() {
        let table = ParamTable::new([]);
        let mut params = table.unknown();
        table.take_report(&mut params, "TimeZone", "UTC");
        table.set(&mut params, "search_path", "app").unwrap();
        let key = CancelKey { pid: 77, secret: vec![1, 2, 3, 4].into() };
        let mut server = Server::new(Arc::new(params), key.clone());
        for n in 1..=3 {
            server.statements.insert(Key(n), 9);
        }
        server.statements.touch(Key(1));
        server.statements.mark_doubtful(Key(2));
        server.set_started(Some(5));
        server.sequences.doubt();
        let bytes = freeze(&server, &table).unwrap();
        let mut thawed = thaw(&bytes, &table).unwrap();
        assert_eq!((thawed.params(), thawed.cancel_key()), (server.params(), &key));
        assert!(thawed.prove_clean().is_some() && thawed.started() == Some(5) && !thawed.sequences.are_none());
        let order: Vec<u128> = thawed.statements.by_use().map(|(key, _)| key.0).collect();
        assert_eq!(order, [2, 3, 1]);
        assert_eq!(thawed.statements.touch(Key(1)), OnServer::Ready);
        assert_eq!(thawed.statements.touch(Key(2)), OnServer::Stale);
        assert!(thaw(&bytes[..bytes.len() - 2], &table).is_none());
    }

    #[test]
    fn what_was_set_on_a_server_is_known_where_other_parameters_are_tracked_or_it_is_closed() {
        let (one, other) = (ParamTable::new(["my.a", "role"]), ParamTable::new(["my.b"]));
        let mut params = one.unknown();
        one.set(&mut params, "my.a", "1").unwrap();
        (0..64).for_each(|n| one.set_untracked(&mut params, &format!("my.n{n}"), "3").unwrap());
        let bytes = freeze(&Server::new(Arc::new(params.clone()), CancelKey::default()), &one).unwrap();
        let thawed = thaw(&bytes, &other).unwrap();
        assert!(thawed.params().sets_untracked("my.a") && thawed.params().sets_untracked("my.n63"));
        one.set(&mut params, "role", "eve").unwrap();
        let bytes = freeze(&Server::new(Arc::new(params), CancelKey::default()), &one).unwrap();
        assert!(thaw(&bytes, &one).is_some() && thaw(&bytes, &other).is_none());
    }
}
