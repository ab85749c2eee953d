//! What is drawn in which mode: docs/pooling.md, as the generator needs it.
//!
//! A mode in which servers change their clients does not guarantee state that the server keeps for a session. Such
//! statements are drawn only where that state is guaranteed; all others are drawn in every mode.

use weir_tests::Mode;

/// What a session may rely on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guarantee {
    /// BEGIN … COMMIT.
    Blocks,
    /// SET of a parameter that does not follow the client, beyond the transaction.
    Settings,
    /// LISTEN, and its notifications.
    Channels,
    /// Temporary tables that outlive a transaction.
    TemporaryTables,
    /// SQL's own PREPARE and EXECUTE.
    SqlStatements,
    /// Cursors WITH HOLD.
    HoldableCursors,
    /// Advisory locks of the session.
    SessionLocks,
    /// `currval` and `lastval`.
    SequenceValues,
    /// That a named statement fails for ever with "cached plan must not change result type", or is analysed again by a
    /// Parse of the same text, after its table has changed outside its transaction.
    StalePlans,
    /// A protocol-level statement's name in SQL's EXECUTE; the protocol's Bind of a statement that PREPARE made.
    SharedNames,
    /// What `pg_prepared_statements` lists.
    ListedStatements,
    /// That a name which is not ASCII means another statement once `client_encoding` has changed.
    EncodedNames,
}

const ALL: &[Mode] = &[Mode::Session, Mode::Transaction, Mode::Statement, Mode::Auto];
const BLOCKS: &[Mode] = &[Mode::Session, Mode::Transaction, Mode::Auto];
const KEPT: &[Mode] = &[Mode::Session, Mode::Auto];
const SESSION: &[Mode] = &[Mode::Session];

/// Where each is guaranteed, and why not elsewhere.
const GUARANTEES: [(Guarantee, &[Mode], &str); 12] = [
    (Guarantee::Blocks, BLOCKS, "statement mode refuses a transaction block"),
    (Guarantee::Settings, KEPT, "a client's state is reset before another client gets the server"),
    (Guarantee::Channels, KEPT, "UNLISTEN * before another client gets the server"),
    (Guarantee::TemporaryTables, KEPT, "DISCARD TEMP before another client gets the server"),
    (Guarantee::SqlStatements, KEPT, "the statement lives on one server"),
    (Guarantee::HoldableCursors, KEPT, "CLOSE ALL before another client gets the server"),
    (Guarantee::SessionLocks, KEPT, "they belong to one server"),
    (Guarantee::SequenceValues, KEPT, "they belong to one server"),
    (Guarantee::StalePlans, SESSION, "a statement is shared, and prepared again after the first such error"),
    (Guarantee::SharedNames, KEPT, "what SQL prepares lives on one server"),
    (Guarantee::ListedStatements, SESSION, "on servers a statement has a name that Weir generates"),
    (Guarantee::EncodedNames, SESSION, "Weir takes a statement's name for its bytes, whatever their encoding"),
];

/// Whether a mode guarantees something.
pub(crate) fn guaranteed(guarantee: Guarantee, mode: Mode) -> bool {
    GUARANTEES.iter().find(|(known, ..)| *known == guarantee).is_some_and(|(_, modes, _)| modes.contains(&mode))
}

#[test]
fn session_mode_guarantees_everything_and_each_guarantee_holds_in_some_mode() {
    for (guarantee, modes, why) in GUARANTEES {
        assert!(guaranteed(guarantee, Mode::Session) && !why.is_empty(), "{guarantee:?}");
        assert!(modes.len() < ALL.len(), "{guarantee:?} needs no entry");
    }
}
