//! What the head of a statement, and a command tag, say about the state that is left behind on the server.
//!
//! Owns the recognition of a handful of commands. Must not know what is done about them. This is no SQL parser: it
//! looks at the first words of a text, and doubts in favour of "may leave something behind":
//!
//! - What promises *less* than the bare words do ([`SqlHead::SetLocal`], a cursor without hold,
//!   [`SqlHead::CreateOther`]) and what a pooler answers itself ([`SqlHead::Deallocate`], [`SqlHead::DiscardAll`])
//!   needs a text that certainly holds one statement.
//! - Not seen: what a function does (`set_config()`), and temporary tables of `SELECT … INTO TEMP`.
//!
//! It is called for every query, so the common commands are told apart by their first byte or two, and nothing is
//! allocated but for a name that must be folded or unquoted.
//!
//! Source: PostgreSQL's documentation, "SQL Syntax", "Lexical Structure", and the pages of the commands.

mod scan;

use std::borrow::Cow;

use self::scan::Scan;

/// What a statement is, as far as its first words tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SqlHead<'a> {
    /// None of the others.
    Other,
    /// SET of something that may outlive the transaction.
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
        /// Whether something may outlive the transaction: WITH HOLD, or a text that can't be judged.
        hold: bool,
    },
    /// A CREATE that makes something temporary, or may.
    CreateTemp,
    /// A CREATE that by its words makes nothing temporary.
    CreateOther,
    /// DEALLOCATE, alone.
    Deallocate(Dealloc<'a>),
    /// DISCARD ALL, alone.
    DiscardAll,
}

/// What a DEALLOCATE is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Dealloc<'a> {
    /// All prepared statements.
    All,
    /// The one of this name: ASCII folded to lower case unless it was quoted, quotes undone. It is not cut to the 63
    /// bytes that PostgreSQL keeps.
    Name(Cow<'a, [u8]>),
}

/// Looks at the first statement of a whole text. White space, comments and empty statements before it are skipped.
#[inline]
pub fn head(text: &[u8]) -> SqlHead<'_> {
    if is_common(text) { SqlHead::Other } else { judge(Scan::whole(text)) }
}

/// Whether a text may make something temporary: by its head, or anywhere if it may hold several statements (the tag of
/// `CREATE TEMP TABLE … AS` is that of a SELECT, so it does not tell).
#[inline]
pub fn may_make_temporary(text: &[u8], head: &SqlHead<'_>) -> bool {
    if *head == SqlHead::CreateTemp {
        return true;
    }
    let Some(first) = text.iter().position(|byte| *byte == b';') else { return false };
    let more = &text[first + 1..];
    more.iter().any(|byte| !byte.is_ascii_whitespace())
        && more.windows(4).any(|word| word.eq_ignore_ascii_case(b"temp"))
}

/// SELECT, INSERT, UPDATE, DELETE, BEGIN, COMMIT, ROLLBACK and WITH, by three letters that no command of interest has.
#[inline]
fn is_common(text: &[u8]) -> bool {
    let Some(first) = text.first_chunk::<3>() else { return false };
    // 0x20 turns upper case into lower, and makes a letter of nothing else.
    matches!(&first.map(|byte| byte | 0x20), b"sel" | b"ins" | b"upd" | b"del" | b"beg" | b"com" | b"rol" | b"wit")
}

/// As [`head`], for a text of which only the beginning is at hand: nothing that depends on the rest is promised, so
/// neither SetLocal, a cursor without hold, CreateOther, Deallocate nor DiscardAll is answered.
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

/// `CREATE [OR REPLACE] [GLOBAL | LOCAL] [TEMPORARY | TEMP] …`, after CREATE. The schema `pg_temp` makes anything
/// temporary; where the text can't be proven to be one statement, any mention of "temp" does.
fn create(mut scan: Scan<'_>) -> SqlHead<'_> {
    let _ = scan.word(b"or") && scan.word(b"replace");
    let _ = scan.word(b"global") || scan.word(b"local");
    let temp = scan.word(b"temp") || scan.word(b"temporary");
    let hint: &[u8] = if scan.is_last() { b"pg_temp" } else { b"temp" };
    if temp || scan.is_prefix() || scan.mentions(hint) { SqlHead::CreateTemp } else { SqlHead::CreateOther }
}

/// `PREPARE name [(types)] AS …` or `PREPARE TRANSACTION 'id'`, after PREPARE. A statement may be named `transaction`.
fn prepare(mut scan: Scan<'_>) -> SqlHead<'_> {
    let two_phase = scan.word(b"transaction") && scan.peek() != Some(b'(') && !scan.word(b"as");
    if two_phase { SqlHead::Other } else { SqlHead::Prepare }
}

/// What a finished command, named by its CommandComplete tag, may have left behind. Source: PostgreSQL's list of
/// command tags; the tag of `SET LOCAL` is that of SET, the tag of `CREATE TEMP TABLE` that of CREATE TABLE.
#[inline]
pub fn left_by_tag(tag: &[u8]) -> Dirty {
    match tag {
        b"SET" => Dirty::SETTINGS,
        b"LISTEN" => Dirty::LISTEN,
        b"PREPARE" => Dirty::STATEMENTS,
        b"DECLARE CURSOR" => Dirty::CURSORS,
        b"CREATE TABLE" | b"CREATE TABLE AS" | b"CREATE VIEW" | b"CREATE SEQUENCE" | b"SELECT INTO" => Dirty::TEMP,
        _ => Dirty::NONE,
    }
}

/// A set of the kinds of state that a client may have left on a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Dirty(u8);

impl Dirty {
    /// Nothing.
    pub const NONE: Dirty = Dirty(0);
    /// Settings changed with SET.
    pub const SETTINGS: Dirty = Dirty(1);
    /// Channels listened to.
    pub const LISTEN: Dirty = Dirty(1 << 1);
    /// Statements made with SQL's PREPARE.
    pub const STATEMENTS: Dirty = Dirty(1 << 2);
    /// Cursors that may outlive their transaction.
    pub const CURSORS: Dirty = Dirty(1 << 3);
    /// Temporary tables, views, sequences and the like.
    pub const TEMP: Dirty = Dirty(1 << 4);

    /// All that is in one or the other.
    #[must_use]
    pub const fn union(self, other: Dirty) -> Dirty {
        Dirty(self.0 | other.0)
    }

    /// All of this that is not in the other.
    #[must_use]
    pub const fn without(self, other: Dirty) -> Dirty {
        Dirty(self.0 & !other.0)
    }

    /// Whether all of `other` is in this.
    pub const fn contains(self, other: Dirty) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds all of `other`.
    pub fn insert(&mut self, other: Dirty) {
        *self = self.union(other);
    }
}

#[cfg(test)]
mod tests;
