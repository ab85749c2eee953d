//! What is drawn in which mode: docs/pooling.md, as the generator needs it.
//!
//! A mode in which servers change hands does not promise what the server keeps for a session. Such things are drawn only
//! where they are promised; everything else is drawn in every mode.

use weir_tests::Mode;

/// What a session may count on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promise {
    /// BEGIN … COMMIT.
    Blocks,
    /// SET of a parameter that does not follow the client, beyond the transaction.
    Settings,
    /// LISTEN, and what it brings.
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
    /// That a named statement fails for ever with "cached plan must not change result type", or is analysed anew by a
    /// Parse of the same text, once its table has changed outside its transaction.
    StalePlans,
    /// A statement's name that the protocol gave, in SQL's EXECUTE; the protocol's Bind of one that PREPARE gave.
    SharedNames,
    /// That a name which is not ASCII means another statement once `client_encoding` has changed.
    EncodedNames,
}

const ALL: &[Mode] = &[Mode::Session, Mode::Transaction, Mode::Statement];
const BLOCKS: &[Mode] = &[Mode::Session, Mode::Transaction];
const SESSION: &[Mode] = &[Mode::Session];

/// Where each is promised, and why not elsewhere.
const PROMISES: [(Promise, &[Mode], &str); 11] = [
    (Promise::Blocks, BLOCKS, "statement mode refuses a transaction block"),
    (Promise::Settings, SESSION, "state that is left behind is cleaned before another client gets the server"),
    (Promise::Channels, SESSION, "UNLISTEN * before another client gets the server"),
    (Promise::TemporaryTables, SESSION, "DISCARD TEMP before another client gets the server"),
    (Promise::SqlStatements, SESSION, "the statement lives on one server"),
    (Promise::HoldableCursors, SESSION, "CLOSE ALL before another client gets the server"),
    (Promise::SessionLocks, SESSION, "they belong to one server"),
    (Promise::SequenceValues, SESSION, "they belong to one server"),
    (Promise::StalePlans, SESSION, "a statement is shared, and prepared anew after the first such error"),
    (Promise::SharedNames, SESSION, "on servers a statement is called by a name of Weir's"),
    (Promise::EncodedNames, SESSION, "Weir takes a statement's name for its bytes, whatever their encoding"),
];

/// Whether a mode promises something.
pub(crate) fn promised(promise: Promise, mode: Mode) -> bool {
    PROMISES.iter().find(|(known, ..)| *known == promise).is_some_and(|(_, modes, _)| modes.contains(&mode))
}

#[test]
fn session_mode_promises_everything_and_each_promise_is_kept_somewhere() {
    for (promise, modes, why) in PROMISES {
        assert!(promised(promise, Mode::Session) && !why.is_empty(), "{promise:?}");
        assert!(modes.len() < ALL.len(), "{promise:?} needs no entry");
    }
}
