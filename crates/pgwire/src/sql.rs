//! Finds out from a query's text and its command tag which session state a statement leaves on the server.
//!
//! Owns the recognition of a few commands. Must not know how they are handled. This is not an SQL parser:
//!
//! - [`head`] reads the first words of a text. A result that means *less* state than the words alone
//!   ([`SqlHead::SetLocal`], a cursor without hold), or a command that a pooler answers itself
//!   ([`SqlHead::Deallocate`], [`SqlHead::DiscardAll`]), requires a text that certainly is one statement.
//! - [`Effects`] is the state that a text *may* leave, found anywhere in it; in doubt it says "may leave".
//! - [`kept`] is the state that a text *certainly* leaves beyond its transaction; in doubt it says "nothing".
//! - [`may_use_sequence`] says whether a text may draw a value of a sequence; in doubt it says yes.
//! - [`StateUse`] is what a text leaves, removes and finds of such state, for a record of traffic.
//! - [`runs_text`] says whether functions that a text calls run SQL, and whether the text tells what; in doubt it does not.
//! - [`custom_settings`] finds the settings with names of two parts that a text may set; in doubt it does not tell.
//! - [`commands`] finds the prepared statements that a text names, and the parameters that it resets.
//! - Not seen: effects of functions whose text is not in the query.
//!
//! [`is_harmless`] runs for every query, and decides the common case without an allocation. Every function takes
//! time in proportion to the text.
//!
//! Source: PostgreSQL's documentation, "SQL Syntax", "Lexical Structure", and the pages of the commands.

mod built_in;
mod clock;
mod custom_settings;
mod database;
mod defines;
mod dirty;
mod effects;
mod fingerprint;
mod kept;
mod mentions;
mod names;
mod planned;
mod read_only;
mod resets;
mod runs_text;
mod scan;
mod sequences;
mod state_use;
mod steps;
mod unknown_calls;

use std::borrow::Cow;

use self::scan::{Scan, Token};

pub use clock::reads_clock;
pub use custom_settings::custom_settings;
pub use database::needed_alone;
pub use dirty::{Dirty, left_by_tag};
pub use effects::{Effects, Judgement, Plans, Scope, begins_with_options, is_harmless};
pub use fingerprint::{MAX_READ, fingerprint, normalize};
pub use kept::kept;
pub use mentions::Mentions;
pub use names::{Naming, RewrittenCommand, Verb, commands, names};
pub use planned::weighs_plans;
pub use resets::{Reset, ResetBy, Resetting};
pub use runs_text::{RunsText, runs_text};
pub use sequences::{asks_for_own_value, may_use_sequence};
pub use state_use::{StateAct, StateUse};
pub use steps::steps_taken;

/// The kind of a statement, by its first words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SqlHead<'a> {
    /// Any other statement.
    Other,
    /// SET of a setting that may outlive the transaction.
    Set,
    /// SET LOCAL, SET TRANSACTION or SET CONSTRAINTS alone: leaves nothing behind.
    SetLocal,
    /// RESET.
    Reset,
    /// LISTEN.
    Listen,
    /// UNLISTEN.
    Unlisten,
    /// PREPARE of a statement (not PREPARE TRANSACTION).
    Prepare,
    /// DECLARE … CURSOR.
    DeclareCursor {
        /// Whether the cursor may outlive the transaction: WITH HOLD, or a text that is not understood.
        hold: bool,
    },
    /// CREATE TEMP or CREATE TEMPORARY, alone.
    CreateTemp,
    /// DEALLOCATE, alone.
    Deallocate(Dealloc<'a>),
    /// DISCARD ALL, alone.
    DiscardAll,
}

/// The statements that a DEALLOCATE drops.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dealloc<'a> {
    /// All prepared statements.
    All,
    /// The statement of this name: ASCII folded to lower case unless it was quoted, quotes removed. The name is not cut
    /// to the 63 bytes that PostgreSQL keeps.
    Name(Cow<'a, [u8]>),
}

/// What a text does with a statement that SQL has named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Prepared<'a> {
    /// PREPARE: the name, and the statement's text.
    Prepare(Cow<'a, [u8]>, &'a [u8]),
    /// EXECUTE of this name.
    Execute(Cow<'a, [u8]>),
}

/// Whether a text's first statement is PREPARE or EXECUTE. For most texts one look at the first letter.
#[inline]
pub fn prepared(text: &[u8]) -> Option<Prepared<'_>> {
    match text.first()?.to_ascii_lowercase() {
        b'p' | b'e' | b' ' | b'\n' | b'\r' | b'\t' | b'/' | b'-' => prepared_slowly(text),
        _ => None,
    }
}

#[cold]
fn prepared_slowly(text: &[u8]) -> Option<Prepared<'_>> {
    let mut scan = Scan::whole(text);
    scan.statement();
    if scan.word(b"execute") {
        return scan.name().map(Prepared::Execute);
    }
    if !scan.word(b"prepare") {
        return None;
    }
    let name = scan.name()?;
    // Types in parentheses: no AS stands within them.
    while !scan.word(b"as") {
        match scan.token() {
            Token::End | Token::Unclear | Token::Semicolon => return None,
            _ => scan.blank(),
        }
    }
    Some(Prepared::Prepare(name, scan.left()))
}

/// Reads the first statement of a whole text. White space, comments and empty statements before it are skipped.
#[inline]
pub fn head(text: &[u8]) -> SqlHead<'_> {
    if is_common(text) { SqlHead::Other } else { judge(Scan::whole(text)) }
}

/// SELECT, INSERT, UPDATE, DELETE, BEGIN, COMMIT, ROLLBACK and WITH, by three letters that no relevant command has.
#[inline]
fn is_common(text: &[u8]) -> bool {
    let Some(first) = text.first_chunk::<3>() else { return false };
    // 0x20 turns upper case into lower case, and turns no other byte into a letter.
    matches!(&first.map(|byte| byte | 0x20), b"sel" | b"ins" | b"upd" | b"del" | b"beg" | b"com" | b"rol" | b"wit")
}

/// As [`head`], for the beginning of a text: no result may depend on the rest, so SetLocal, a cursor without hold,
/// CreateTemp, Deallocate and DiscardAll are never returned.
pub fn head_of_prefix(prefix: &[u8]) -> SqlHead<'_> {
    judge(Scan::prefix(prefix))
}

fn judge(mut scan: Scan<'_>) -> SqlHead<'_> {
    scan.statement();
    match scan.peek().map(|byte| byte.to_ascii_lowercase()) {
        Some(b's') if scan.word(b"set") => set(scan),
        Some(b'd') => discard_declare_deallocate(scan),
        Some(b'c') if scan.word(b"create") => create(scan),
        Some(b'p') if scan.word(b"prepare") => prepare(scan),
        Some(b'r') if scan.word(b"reset") => SqlHead::Reset,
        Some(b'l') if scan.word(b"listen") => SqlHead::Listen,
        Some(b'u') if scan.word(b"unlisten") => SqlHead::Unlisten,
        _ => SqlHead::Other,
    }
}

/// `local`, `transaction` and `constraints` may also begin a setting's name, as in `SET local.x = 1`.
fn set(mut scan: Scan<'_>) -> SqlHead<'_> {
    let local = scan.word(b"local") || scan.word(b"transaction") || scan.word(b"constraints");
    let setting = matches!(scan.peek(), Some(b'.' | b'='));
    if local && !setting && scan.is_last() { SqlHead::SetLocal } else { SqlHead::Set }
}

fn discard_declare_deallocate(mut scan: Scan<'_>) -> SqlHead<'_> {
    if scan.word(b"declare") {
        SqlHead::DeclareCursor { hold: !ends_with_transaction(scan) }
    } else if scan.word(b"deallocate") {
        deallocate(scan).map_or(SqlHead::Other, SqlHead::Deallocate)
    } else if scan.word(b"discard") && scan.word(b"all") && scan.ends() {
        SqlHead::DiscardAll
    } else {
        SqlHead::Other
    }
}

/// `DECLARE name [BINARY] [ASENSITIVE | INSENSITIVE] [[NO] SCROLL] CURSOR [{WITH | WITHOUT} HOLD] FOR query`, after
/// DECLARE: certainly without hold, and alone?
fn ends_with_transaction(mut scan: Scan<'_>) -> bool {
    if scan.name().is_none() {
        return false;
    }
    let options: [&[u8]; 5] = [b"binary", b"asensitive", b"insensitive", b"no", b"scroll"];
    while options.iter().any(|option| scan.word(option)) {}
    if !scan.word(b"cursor") {
        return false;
    }
    if scan.word(b"without") && !scan.word(b"hold") {
        return false;
    }
    scan.word(b"for") && scan.is_last()
}

/// `DEALLOCATE [PREPARE] {name | ALL}`, after DEALLOCATE. A statement may be named `prepare`.
fn deallocate(mut scan: Scan<'_>) -> Option<Dealloc<'_>> {
    let mut after = scan;
    if after.word(b"prepare") && !after.ends() {
        scan = after;
    }
    let what = if scan.word(b"all") { Dealloc::All } else { Dealloc::Name(scan.name()?) };
    scan.ends().then_some(what)
}

/// `CREATE [OR REPLACE] [GLOBAL | LOCAL] {TEMPORARY | TEMP} …`, after CREATE.
fn create(mut scan: Scan<'_>) -> SqlHead<'_> {
    let _ = scan.word(b"or") && scan.word(b"replace");
    let _ = scan.word(b"global") || scan.word(b"local");
    let temporary = scan.word(b"temp") || scan.word(b"temporary");
    if temporary && scan.is_last() { SqlHead::CreateTemp } else { SqlHead::Other }
}

/// `PREPARE name [(types)] AS …` or `PREPARE TRANSACTION 'id'`, after PREPARE. A statement may be named `transaction`.
fn prepare(mut scan: Scan<'_>) -> SqlHead<'_> {
    let two_phase = scan.word(b"transaction") && scan.peek() != Some(b'(') && !scan.word(b"as");
    if two_phase { SqlHead::Other } else { SqlHead::Prepare }
}

#[cfg(test)]
mod growth;
#[cfg(test)]
mod tests;
