//! Whether a text names the setting by which a session's transactions are read-only.
//!
//! Servers report `default_transaction_read_only`, and an operator may change it for all sessions of a server. So a
//! report of it is about what the client has done only if the client has sent a text that names it.
//!
//! Source: PostgreSQL's documentation, "SET TRANSACTION", "Client Connection Defaults".

use super::Dirty;
use super::steps::count;

/// The setting, and the word by which SET SESSION CHARACTERISTICS sets it.
const NAMES: [&[u8]; 2] = [b"default_transaction_read_only", b"characteristics"];

/// [`Dirty::READ_ONLY`], if a text names the setting anywhere, in any case.
pub(super) fn named(text: &[u8]) -> Dirty {
    count(text.len());
    let begins =
        |at: usize, name: &[u8]| text.get(at..at + name.len()).is_some_and(|word| word.eq_ignore_ascii_case(name));
    let named = (0..text.len()).any(|at| NAMES.iter().any(|name| begins(at, name)));
    if named { Dirty::READ_ONLY } else { Dirty::NONE }
}
