//! The session state that a text may leave, as far as it must be remembered until the server has replied.

use super::kept::sets_locally;
use super::scan::begins_with;
use super::{Dirty, Mentions, SqlHead, head, left_by_tag};

/// The state that a text may leave on its server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Effects {
    /// State that the text may leave in addition to what its command tags imply.
    pub may_leave: Dirty,
    /// State that the text certainly leaves beyond its transaction, and that the client loses with the server
    /// ([`super::kept`]).
    pub leaves: Dirty,
    /// How to read its command tags.
    pub scope: Scope,
}

/// How to read the command tags of a text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Scope {
    /// They imply what may be left.
    #[default]
    Session,
    /// The text is one statement whose effect ends with its transaction, although its tag implies more.
    Transaction,
    /// The text is one CREATE TEMP: only its own session sees the new object.
    Temporary,
}

impl Effects {
    /// No state beyond what the command tags imply.
    pub const NONE: Effects = Effects { may_leave: Dirty::NONE, leaves: Dirty::NONE, scope: Scope::Session };
    /// The text is unknown.
    pub const UNKNOWN: Effects = Effects { may_leave: Dirty::ALL, leaves: Dirty::NONE, scope: Scope::Session };

    /// The effects of a whole text.
    #[inline]
    pub fn of(text: &[u8]) -> Effects {
        Effects::with_head(text, &head(text)).0
    }

    /// Those of a whole text whose head is known, and whether [`kept`](super::kept()) would find nothing in it: it is a single
    /// statement of a kind that leaves only what its words mention, and mentions nothing. Nearly all are.
    #[inline]
    pub fn with_head(text: &[u8], head: &SqlHead<'_>) -> (Effects, bool) {
        let scope = match head {
            SqlHead::SetLocal | SqlHead::DeclareCursor { hold: false } => Scope::Transaction,
            SqlHead::CreateTemp => Scope::Temporary,
            _ => Scope::Session,
        };
        let trimmed = text.trim_ascii_end();
        // A semicolon at the end of a single statement is none between two.
        let (mut may_leave, several) = Mentions::and_semicolon(trimmed.strip_suffix(b";").unwrap_or(trimmed));
        if may_leave.contains(Dirty::SETTINGS) && may_leave != Dirty::ALL && sets_locally(text) {
            may_leave = may_leave.without(Dirty::SETTINGS);
        }
        let harmless = !several && may_leave.is_empty() && leaves_only_mentions(text);
        (Effects { may_leave, leaves: Dirty::NONE, scope }, harmless)
    }

    /// Those of a text of which only the beginning is there, and whether [`kept`](super::kept()) would find nothing in that.
    /// `seen` is what there is of its message's body.
    #[inline]
    pub fn of_prefix(prefix: &[u8], seen: &[u8]) -> (Effects, bool) {
        let may_leave = Mentions::of(seen.strip_suffix(&[0]).unwrap_or(seen));
        let harmless = may_leave.is_empty() && leaves_only_mentions(prefix) && !prefix.contains(&b';');
        (Effects { may_leave, ..Effects::NONE }, harmless)
    }

    /// The union of the effects of two texts.
    #[must_use]
    pub fn either(self, other: Effects) -> Effects {
        let scope = if self.scope == other.scope { self.scope } else { Scope::Session };
        Effects { may_leave: self.may_leave.union(other.may_leave), leaves: self.leaves.union(other.leaves), scope }
    }

    /// What may have been left when a command of the text has ended with this tag; none where it ended otherwise.
    #[inline]
    pub fn after(self, tag: Option<&[u8]>) -> Dirty {
        let Some(tag) = tag else { return self.may_leave };
        let by_tag = if self.scope == Scope::Transaction { Dirty::NONE } else { left_by_tag(tag) };
        // These never create objects. A function that they call may still change settings.
        let writes = [&b"INSERT "[..], b"UPDATE ", b"DELETE ", b"MERGE "].iter().any(|verb| tag.starts_with(verb));
        by_tag.union(if writes { self.may_leave.without(Dirty::TEMP) } else { self.may_leave })
    }
}

/// Whether a single statement is of a kind that leaves nothing but what its words mention, by its first letters.
#[inline]
fn leaves_only_mentions(text: &[u8]) -> bool {
    // 0x20 turns upper case into lower case, and turns no other byte into a letter.
    match text.first().map_or(b' ', |byte| byte | 0x20) {
        b's' => begins_with(text, b"select"),
        b'l' | b'p' | b'd' | b'c' => false,
        first => first.is_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, tag: &str) -> Dirty {
        Effects::of(text.as_bytes()).after(Some(tag.as_bytes()))
    }

    #[test]
    fn text_and_tag_together_say_what_may_be_left() {
        for (text, tag, want) in [
            ("select 1", "SELECT 1", Dirty::NONE),
            ("select 1 into t", "SELECT 1", Dirty::TEMP),
            ("create temp table t as select 1", "SELECT 1", Dirty::TEMP),
            ("explain analyze select 1 into t", "EXPLAIN", Dirty::TEMP),
            ("create table t (a int)", "CREATE TABLE", Dirty::TEMP),
            ("with a as (select 1) insert into t select * from a", "INSERT 0 1", Dirty::NONE),
            ("insert into t select set_config('a.b', 'c', false)", "INSERT 0 1", Dirty::SETTINGS),
            ("select set_config('a.b', 'c', true)", "SELECT 1", Dirty::NONE),
            ("select set_config('a', 'b', true), set_confİg('c', 'd', false)", "SELECT 1", Dirty::SETTINGS),
            ("set a = 1", "SET", Dirty::SETTINGS),
            ("set local a = 1", "SET", Dirty::NONE),
            ("declare c cursor for select 1", "DECLARE CURSOR", Dirty::NONE),
            ("declare c cursor with hold for select 1", "DECLARE CURSOR", Dirty::CURSORS),
            ("do $$begin perform pg_advisory_lock(1); end$$", "DO", Dirty::ALL),
            ("update pg_settings set setting = 'b' where name = 'a'", "UPDATE 0", Dirty::SETTINGS),
            ("select set_config('a', 'b', true); update pg_settings set setting = 'b'", "UPDATE 0", Dirty::SETTINGS),
        ] {
            assert_eq!(after(text, tag), want, "{text}");
        }
        assert_eq!(Effects::of(b"select pg_advisory_lock(1), 1/0").after(None), Dirty::LOCKS, "it failed, and is held");
        let failed = Effects::of(b"do $$begin prepare a as select 1; raise 'x'; end$$").after(None);
        assert_eq!(failed, Dirty::ALL, "what it has prepared stays");
        assert_eq!(Effects::UNKNOWN.after(Some(b"SELECT 1")), Dirty::ALL);
    }
}
