//! Whose statement runs on a server connection, as the server sees it.
//!
//! The checkers "one owner a server" and "the next owner sees a clean server" sit here. A client is known by the tokens
//! in its statements; what the pooler asks on its own account carries none.

use weir_base::OnDirty;

use crate::check::{Checker, Violation};

/// What a server connection knows about its users.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Ownership {
    /// Whose transaction or pipeline is under way.
    current: Option<u32>,
    /// Who was the last to use it.
    last: Option<u32>,
    /// Bytes written up to the end of what the last owner was answered.
    answered: u64,
}

/// What a connection looks like when a client's token is seen on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight<'a> {
    /// Whether a transaction of anybody is under way.
    pub(crate) busy: bool,
    /// Bytes that the other side has read so far.
    pub(crate) read: u64,
    /// What earlier users left behind; empty: nothing.
    pub(crate) leftovers: &'a str,
    /// What the settings promise about that.
    pub(crate) on_dirty: OnDirty,
}

impl Ownership {
    /// Whose transaction or pipeline is under way.
    pub(crate) fn current(&self) -> Option<u32> {
        self.current
    }

    /// A statement of `client` is seen.
    pub(crate) fn seen(&mut self, client: u32, sight: Sight<'_>) -> Option<Violation> {
        if self.current == Some(client) {
            return None;
        }
        let before = *self;
        self.current = Some(client);
        self.last = Some(client);
        let violation = |checker, what| Some(Violation { checker, what });
        if let Some(owner) = before.current {
            let what = format!("a statement of c{client} in the middle of what c{owner} does");
            return violation(Checker::OneOwnerAServer, what);
        }
        if before.last == Some(client) || before.last.is_none() {
            return None;
        }
        let last = before.last.unwrap_or_default();
        if sight.busy {
            let what = format!("a statement of c{client} in a transaction that c{last} left open");
            return violation(Checker::OneOwnerAServer, what);
        }
        if sight.read < before.answered {
            let what = format!("a statement of c{client} before the pooler had read all that c{last} was answered");
            return violation(Checker::OneOwnerAServer, what);
        }
        if sight.on_dirty != OnDirty::Keep && !sight.leftovers.is_empty() {
            let what = format!("c{client} finds what c{last} left: {}", sight.leftovers);
            return violation(Checker::NextOwnerSeesCleanServer, what);
        }
        None
    }

    /// ReadyForQuery has been written; `written` counts the bytes with it. Tells whether a client's turn ended.
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

    const CLEAN: Sight<'_> = Sight { busy: false, read: 100, leftovers: "", on_dirty: OnDirty::Reset };

    fn served(client: u32) -> Ownership {
        let mut ownership = Ownership::default();
        assert_eq!(ownership.seen(client, CLEAN), None);
        assert!(ownership.ready(true, 100));
        ownership
    }

    #[test]
    fn a_server_may_pass_from_client_to_client_between_transactions() {
        assert_eq!(served(1).seen(2, CLEAN), None);
        assert_eq!(served(1).seen(1, Sight { leftovers: "table t", ..CLEAN }), None);
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
        assert_eq!(served(1).seen(2, Sight { busy: true, ..CLEAN }).unwrap().checker, Checker::OneOwnerAServer);
    }

    #[test]
    fn a_hand_over_before_all_was_read_is_caught() {
        assert_eq!(served(1).seen(2, Sight { read: 99, ..CLEAN }).unwrap().checker, Checker::OneOwnerAServer);
    }

    #[test]
    fn a_dirty_server_is_caught_unless_it_may_be_dirty() {
        let dirty = Sight { leftovers: "listens x", ..CLEAN };
        assert_eq!(served(1).seen(2, dirty).unwrap().checker, Checker::NextOwnerSeesCleanServer);
        assert_eq!(served(1).seen(2, Sight { on_dirty: OnDirty::Keep, ..dirty }), None);
    }
}
