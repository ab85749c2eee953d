//! Who blocks whom: from what each backend waits for to the backends at the end of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use weir_admin::Backend;

/// A backend that waits for no lock, and all that wait for it, directly or behind others.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Chain {
    pub(super) holder: u32,
    /// The nearest first.
    pub(super) blocked: Vec<u32>,
}

/// The chains among these backends. One that waits for several holders is in the chain of each. In a circle, which
/// PostgreSQL ends within a second, any of its backends counts as the holder.
pub(super) fn chains(backends: &[Backend]) -> Vec<Chain> {
    let mut waiting_for: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let waiting: BTreeSet<u32> =
        backends.iter().filter(|one| !one.blocked_by.is_empty()).map(|one| one.key.process_id).collect();
    for backend in backends {
        for holder in &backend.blocked_by {
            waiting_for.entry(*holder).or_default().push(backend.key.process_id);
        }
    }
    let mut seen = BTreeSet::new();
    let mut chains: Vec<Chain> = waiting_for
        .keys()
        .filter(|holder| !waiting.contains(*holder))
        .map(|holder| chain(*holder, &waiting_for, &mut seen))
        .collect();
    for one in &waiting {
        if !seen.contains(one) {
            chains.push(chain(*one, &waiting_for, &mut seen));
        }
    }
    chains
}

fn chain(holder: u32, waiting_for: &BTreeMap<u32, Vec<u32>>, seen: &mut BTreeSet<u32>) -> Chain {
    let mut blocked: Vec<u32> = Vec::new();
    let (mut found, mut next) = (BTreeSet::from([holder]), VecDeque::from([holder]));
    while let Some(one) = next.pop_front() {
        for behind in waiting_for.get(&one).into_iter().flatten() {
            if found.insert(*behind) {
                blocked.push(*behind);
                next.push_back(*behind);
            }
        }
    }
    seen.extend(found);
    Chain { holder, blocked }
}

#[cfg(test)]
mod tests {
    use weir_admin::BackendKey;

    use super::*;

    fn backends(waits: &[(u32, &[u32])]) -> Vec<Backend> {
        let backend = |(process_id, by): &(u32, &[u32])| Backend {
            key: BackendKey { process_id: *process_id, ..BackendKey::default() },
            blocked_by: by.to_vec(),
            ..Backend::default()
        };
        waits.iter().map(backend).collect()
    }

    fn found(waits: &[(u32, &[u32])]) -> Vec<(u32, Vec<u32>)> {
        chains(&backends(waits)).into_iter().map(|chain| (chain.holder, chain.blocked)).collect()
    }

    #[test]
    fn a_holder_has_all_that_wait_behind_it() {
        assert_eq!(found(&[(1, &[]), (2, &[1]), (3, &[1]), (4, &[3]), (9, &[])]), [(1, vec![2, 3, 4])]);
        assert_eq!(found(&[(2, &[1, 5]), (3, &[5])]), [(1, vec![2]), (5, vec![2, 3])]);
        assert_eq!(found(&[(7, &[0])]), [(0, vec![7])], "a prepared transaction");
        assert_eq!(found(&[(1, &[])]), []);
    }

    #[test]
    fn a_circle_ends() {
        assert_eq!(found(&[(1, &[2]), (2, &[1]), (3, &[2])]), [(1, vec![2, 3])]);
    }
}
