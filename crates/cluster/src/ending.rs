//! Which connections at the database server are a lost node's: those to end, and how many it may still have.
//!
//! A connection is its backend: a process id and when that process began. The server uses process ids again, after each
//! of its starts from the same ones on. What a client can choose, as its application_name, identifies nothing.

use std::collections::BTreeSet;

use crate::record::BackendId;

/// What is known of a lost node's connections of a pool, for the one who ends them at the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ending {
    /// The lost node may keep this many connections.
    pub floor: u32,
    /// The connections that the lost node has recorded.
    pub theirs: BTreeSet<BackendId>,
    /// The connections that other nodes have recorded.
    pub others: BTreeSet<BackendId>,
    #[cfg(test)]
    pub(crate) by_pid: bool,
}

/// A connection at the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Open {
    /// The process id of the connection's backend.
    pub pid: u32,
    /// When the backend began; `None`: the server does not show it. Then nobody knows whose connection it is.
    pub started: Option<u64>,
    /// The connection runs nothing.
    pub idle: bool,
}

/// What is to be done at the server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ends {
    /// The connections to end: none that anybody else may have.
    pub end: Vec<BackendId>,
    /// How many connections may be the lost node's.
    pub left: u32,
}

impl Ending {
    /// Decides about the connections that the server has. One that nobody has recorded may be the lost node's, or
    /// another program's: it counts, and is not ended.
    pub fn decide(&self, open: &[Open]) -> Ends {
        let may_be_theirs = |open: &&Open| !self.has(&self.others, open);
        let left: Vec<&Open> = open.iter().filter(may_be_theirs).collect();
        let mut theirs: Vec<&Open> = left.iter().copied().filter(|open| self.has(&self.theirs, open)).collect();
        // The connections that run nothing are ended first.
        theirs.sort_by_key(|open| (!open.idle, open.pid));
        let excess = theirs.len().saturating_sub(self.floor as usize);
        let end = theirs[..excess].iter().filter_map(|open| Some(BackendId { pid: open.pid, started: open.started? }));
        Ends { end: end.collect(), left: left.len() as u32 }
    }

    fn has(&self, set: &BTreeSet<BackendId>, open: &Open) -> bool {
        #[cfg(test)]
        if self.by_pid {
            return set.iter().any(|backend| backend.pid == open.pid);
        }
        open.started.is_some_and(|started| set.contains(&BackendId { pid: open.pid, started }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(pid: u32, started: u64) -> Open {
        Open { pid, started: Some(started), idle: true }
    }

    fn of(backends: &[(u32, u64)]) -> BTreeSet<BackendId> {
        backends.iter().map(|(pid, started)| BackendId { pid: *pid, started: *started }).collect()
    }

    #[test]
    fn a_backend_that_began_at_another_time_is_not_the_recorded_one() {
        let ending = Ending { theirs: of(&[(20, 1)]), ..Ending::default() };
        assert_eq!(ending.decide(&[open(20, 2)]), Ends { end: vec![], left: 1 }, "it counts: nobody has recorded it");
        let ends = ending.decide(&[open(20, 1)]);
        assert_eq!((ends.end, ends.left), (vec![BackendId { pid: 20, started: 1 }], 1));
        let hidden = Open { started: None, ..open(20, 1) };
        assert_eq!(ending.decide(&[hidden]), Ends { end: vec![], left: 1 });
    }

    #[test]
    fn what_others_have_recorded_is_not_theirs_and_the_floor_stays() {
        let ending =
            Ending { floor: 1, theirs: of(&[(1, 9), (2, 9), (3, 9)]), others: of(&[(3, 9)]), ..Ending::default() };
        let busy = Open { idle: false, ..open(1, 9) };
        let ends = ending.decide(&[busy, open(2, 9), open(3, 9)]);
        assert_eq!((ends.end, ends.left), (vec![BackendId { pid: 2, started: 9 }], 2));
    }
}
