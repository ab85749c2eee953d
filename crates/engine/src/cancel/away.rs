//! Where clients are that have moved from this worker to another one: their keys name this one.
//!
//! Owns an entry for each of them, from the message that takes the client away to the one that brings it back, or says
//! that it is gone. Empty, and without cost, where no client has moved.

use std::collections::BTreeMap;

use weir_base::WorkerId;

use crate::cancel::key::CancelSecret;

/// The process id of a client's key, and the client's number: two clients may have one process id, as they came from
/// different processes.
pub(crate) type AwayKey = (u32, u64);

/// See the head of the file.
#[derive(Default)]
pub(crate) struct AwayClients(BTreeMap<AwayKey, (WorkerId, CancelSecret)>);

impl AwayClients {
    /// A client goes to this worker.
    pub(crate) fn leaves(&mut self, client: AwayKey, secret: CancelSecret, to: WorkerId) {
        self.0.insert(client, (to, secret));
    }

    /// A client is back, or gone.
    pub(crate) fn returns(&mut self, client: AwayKey) {
        self.0.remove(&client);
    }

    /// The worker of the client with this key.
    pub(crate) fn find(&self, pid: u32, secret: &[u8]) -> Option<WorkerId> {
        let mut named = self.0.range((pid, 0)..=(pid, u64::MAX)).map(|(_, client)| client);
        named.find(|(_, key)| key.is(pid, secret)).map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_its_client_until_that_is_back_and_no_other_secret_does() {
        let mut away = AwayClients::default();
        let key = |first: u8| CancelSecret::new([first; 16], 0, 7);
        away.leaves((7, 1), key(1), WorkerId(2));
        away.leaves((7, 2), key(2), WorkerId(3));
        assert_eq!((away.find(7, &[1; 4]), away.find(7, &[2; 4])), (Some(WorkerId(2)), Some(WorkerId(3))));
        assert_eq!((away.find(7, &[3; 4]), away.find(8, &[1; 4])), (None, None));
        away.returns((7, 1));
        assert_eq!((away.find(7, &[1; 4]), away.find(7, &[2; 4])), (None, Some(WorkerId(3))));
    }
}
