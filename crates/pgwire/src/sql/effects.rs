//! What a text may do to the state of its session, as far as that must be remembered until the server has answered it.

use super::kept::sets_locally;
use super::{Dirty, Mentions, SqlHead, head, left_by_tag};

/// What running a text may leave on its server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Effects {
    /// What it may leave beside what its command tags say.
    pub may_leave: Dirty,
    /// What it certainly leaves beyond its transaction, and its client loses with the server ([`super::kept`]).
    pub leaves: Dirty,
    /// How far its command tags can be believed.
    pub scope: Scope,
}

/// How far the command tags of a text can be believed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Scope {
    /// They say what may be left.
    #[default]
    Session,
    /// It is one statement whose effect ends with its transaction, although its tag is that of one that stays.
    Transaction,
    /// It is one CREATE TEMP: what it defines is seen by its own session alone.
    Temporary,
}

impl Effects {
    /// Nothing is left that no command tag says.
    pub const NONE: Effects = Effects { may_leave: Dirty::NONE, leaves: Dirty::NONE, scope: Scope::Session };
    /// Nothing is known of the text.
    pub const UNKNOWN: Effects = Effects { may_leave: Dirty::ALL, leaves: Dirty::NONE, scope: Scope::Session };

    /// Those of a whole text.
    #[inline]
    pub fn of(text: &[u8]) -> Effects {
        Effects::with_head(text, &head(text))
    }

    /// The same, where the head is known.
    #[inline]
    pub fn with_head(text: &[u8], head: &SqlHead<'_>) -> Effects {
        let scope = match head {
            SqlHead::SetLocal | SqlHead::DeclareCursor { hold: false } => Scope::Transaction,
            SqlHead::CreateTemp => Scope::Temporary,
            _ => Scope::Session,
        };
        let mut may_leave = Mentions::of(text);
        if may_leave.contains(Dirty::SETTINGS) && may_leave != Dirty::ALL && sets_locally(text) {
            may_leave = may_leave.without(Dirty::SETTINGS);
        }
        Effects { may_leave, leaves: Dirty::NONE, scope }
    }

    /// Those of either of two texts.
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
        // These create nothing, whatever their texts hold. A function that they call may still change settings.
        let writes = [&b"INSERT "[..], b"UPDATE ", b"DELETE ", b"MERGE "].iter().any(|verb| tag.starts_with(verb));
        by_tag.union(if writes { self.may_leave.without(Dirty::TEMP) } else { self.may_leave })
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
            ("set a = 1", "SET", Dirty::SETTINGS),
            ("set local a = 1", "SET", Dirty::NONE),
            ("declare c cursor for select 1", "DECLARE CURSOR", Dirty::NONE),
            ("declare c cursor with hold for select 1", "DECLARE CURSOR", Dirty::CURSORS),
            ("do $$begin perform pg_advisory_lock(1); end$$", "DO", Dirty::LOCKS),
        ] {
            assert_eq!(after(text, tag), want, "{text}");
        }
        assert_eq!(Effects::of(b"select pg_advisory_lock(1), 1/0").after(None), Dirty::LOCKS, "it failed, and is held");
        assert_eq!(Effects::UNKNOWN.after(Some(b"SELECT 1")), Dirty::ALL);
    }
}
