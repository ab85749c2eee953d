//! Which client's statement runs on a server connection, as the server sees it.
//!
//! The checkers "one owner a server" and "the next owner sees a clean server" are here. A client is identified by the
//! tokens in its statements; the pooler's own queries carry none.

use weir_base::OnDirty;

use crate::check::{Checker, Violation};

/// The clients of a server connection.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Ownership {
    /// The client whose transaction or pipeline is in progress.
    current: Option<u32>,
    /// The client that used the connection last.
    last: Option<u32>,
    /// Bytes written up to the end of the last owner's replies.
    answered: u64,
}

/// The state of a connection when a client's token is seen on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Observation<'a> {
    /// Whether a transaction is in progress.
    pub(crate) busy: bool,
    /// Bytes that the other side has read.
    pub(crate) read: u64,
    /// State that earlier clients left behind; empty: none.
    pub(crate) leftovers: &'a str,
    /// What the settings guarantee about that state.
    pub(crate) on_dirty: OnDirty,
}

impl Ownership {
    /// The client whose transaction or pipeline is in progress.
    pub(crate) fn current(&self) -> Option<u32> {
        self.current
    }

    /// The client that uses the connection, or did so last.
    pub(crate) fn latest(&self) -> Option<u32> {
        self.current.or(self.last)
    }

    /// A statement of `client` has arrived.
    pub(crate) fn seen(&mut self, client: u32, observation: Observation<'_>) -> Option<Violation> {
        if self.current == Some(client) {
            return None;
        }
        let before = *self;
        self.current = Some(client);
        self.last = Some(client);
        let violation = |checker, what| Some(Violation { checker, what });
        if let Some(owner) = before.current {
            let what = format!("a statement of c{client} in the middle of the transaction or pipeline of c{owner}");
            return violation(Checker::OneOwnerAServer, what);
        }
        if before.last == Some(client) || before.last.is_none() {
            return None;
        }
        let last = before.last.unwrap_or_default();
        if observation.busy {
            let what = format!("a statement of c{client} in a transaction that c{last} left open");
            return violation(Checker::OneOwnerAServer, what);
        }
        if observation.read < before.answered {
            let what = format!("a statement of c{client} before the pooler had read all replies to c{last}");
            return violation(Checker::OneOwnerAServer, what);
        }
        if observation.on_dirty != OnDirty::Keep && !observation.leftovers.is_empty() {
            let what = format!("c{client} finds state that c{last} left: {}", observation.leftovers);
            return violation(Checker::NextOwnerSeesCleanServer, what);
        }
        None
    }

    /// ReadyForQuery has been written; `written` counts all bytes including it. Returns whether a client released the
    /// server.
    pub(crate) fn ready(&mut self, idle: bool, written: u64) -> bool {
        let owned = self.current.is_some();
        if owned {
            self.answered = written;
        }
        if idle {
            self.current = None;
        }
        owned && idle
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLEAN: Observation<'_> = Observation { busy: false, read: 100, leftovers: "", on_dirty: OnDirty::Reset };

    fn served(client: u32) -> Ownership {
        let mut ownership = Ownership::default();
        assert_eq!(ownership.seen(client, CLEAN), None);
        assert!(ownership.ready(true, 100));
        ownership
    }

    #[test]
    fn a_server_may_pass_from_client_to_client_between_transactions() {
        assert_eq!(served(1).seen(2, CLEAN), None);
        assert_eq!(served(1).seen(1, Observation { leftovers: "table t", ..CLEAN }), None);
    }

    #[test]
    fn a_second_client_in_a_pipeline_is_caught() {
        let mut ownership = served(1);
        assert_eq!(ownership.seen(1, CLEAN), None);
        assert_eq!(ownership.seen(2, CLEAN).unwrap().checker, Checker::OneOwnerAServer);
    }

    #[test]
    fn a_second_client_in_an_open_transaction_is_caught() {
        let mut ownership = served(1);
        ownership.seen(1, CLEAN);
        assert!(!ownership.ready(false, 120));
        assert_eq!(ownership.seen(2, CLEAN).unwrap().checker, Checker::OneOwnerAServer);
        assert_eq!(served(1).seen(2, Observation { busy: true, ..CLEAN }).unwrap().checker, Checker::OneOwnerAServer);
    }

    #[test]
    fn a_hand_over_before_all_was_read_is_caught() {
        assert_eq!(served(1).seen(2, Observation { read: 99, ..CLEAN }).unwrap().checker, Checker::OneOwnerAServer);
    }

    #[test]
    fn a_dirty_server_is_caught_unless_it_may_be_dirty() {
        let dirty = Observation { leftovers: "listens x", ..CLEAN };
        assert_eq!(served(1).seen(2, dirty).unwrap().checker, Checker::NextOwnerSeesCleanServer);
        assert_eq!(served(1).seen(2, Observation { on_dirty: OnDirty::Keep, ..dirty }), None);
    }
}
