//! Messages to clients about session state: the warning about lost state, and the error for a request that would lose
//! it.

use weir_base::OnDirty;
use weir_pgwire::{Dirty, ErrorFields, put_back};

use crate::context::StatePolicy;

/// A text that no server accepts: sent where the pool refuses a text, so that the transaction fails at the server as it
/// does after any other error.
pub(crate) fn refused_text(policy: StatePolicy) -> &'static str {
    match policy.on_dirty {
        OnDirty::Refuse => "refused by the connection pooler (on_dirty = refuse)",
        _ => "refused by the connection pooler (pin_refuse)",
    }
}

/// Warns a client of what it loses, once for each kind; `warned` holds the kinds it was warned of before.
pub(crate) fn warn(lost: Dirty, warned: &mut Dirty, buffer: &mut Vec<u8>) {
    for kind in lost.without(*warned).kinds() {
        let (what, hint) = words(kind);
        let message = format!("{what} is lost: it belongs to a server connection that other clients use now");
        put_back::notice(
            buffer,
            &ErrorFields { severity: "WARNING", sqlstate: "01000", message: &message, detail: None, hint: Some(hint) },
        );
    }
    warned.insert(lost);
}

/// The error for a request that is refused because of these kinds.
pub(crate) fn refusal(policy: StatePolicy, kinds: Dirty, buffer: &mut Vec<u8>) {
    let (what, hint) = kinds.kinds().next().map_or(("session state", ""), words);
    let why = match policy.on_dirty {
        OnDirty::Refuse => "it would be lost when the transaction ends",
        _ => "its client would keep a server connection (pin_refuse)",
    };
    let message = format!("{what} is not supported by this pool: {why}");
    put_back::error(
        buffer,
        &ErrorFields { severity: "ERROR", sqlstate: "0A000", message: &message, detail: None, hint: Some(hint) },
    );
}

/// What a kind of state is called in messages.
pub fn name(kind: Dirty) -> &'static str {
    words(kind).0
}

/// A server's error that says that a value of a sequence is not defined in its session, whose body this is, with the cause for a
/// client that had drawn some.
pub(crate) fn explain_lost_values(policy: StatePolicy, body: &[u8], buffer: &mut Vec<u8>) {
    let detail = "What the session had drawn of sequences belongs to a server connection that other clients use now.";
    let hint = match policy.refuse_pins.contains(Dirty::SEQUENCES) {
        true => words(Dirty::SEQUENCES).1,
        false => {
            "From now on the connection keeps its server once it has drawn a value: draw it again, or use INSERT … \
             RETURNING."
        }
    };
    put_back::error_with(buffer, body, &[(b'D', detail), (b'H', hint)]);
}

/// What a kind of state is called in messages, and what its client can do instead.
fn words(kind: Dirty) -> (&'static str, &'static str) {
    match kind {
        Dirty::SETTINGS => (
            "a setting changed with SET or set_config()",
            "Use SET LOCAL in a transaction, or a pool in mode auto or session.",
        ),
        Dirty::LISTEN => ("LISTEN", "Use a pool in session mode for notifications."),
        Dirty::STATEMENTS => (
            "a statement prepared with SQL's PREPARE",
            "Use the prepared statements of your driver's protocol, or a pool in session mode.",
        ),
        Dirty::CURSORS => {
            ("a cursor WITH HOLD", "Read the cursor within its transaction, or use a pool in session mode.")
        }
        Dirty::TEMP => (
            "a temporary table or other object",
            "Create it ON COMMIT DROP within the transaction that uses it, or use a pool in session mode.",
        ),
        Dirty::SEQUENCES => (
            "what the session has drawn of sequences",
            "Use INSERT … RETURNING, or call currval() in the transaction that draws the value (pin_refuse).",
        ),
        _ => (
            "an advisory lock of the session",
            "Use pg_advisory_xact_lock(), which is released with its transaction, or a pool in session mode.",
        ),
    }
}
