//! The session state that a text may leave, as far as it must be remembered until the server has replied.

use super::defines::{Defines, defines};
use super::kept::{SetConfigs, set_configs};
use super::mentions::Mentioned;
use super::scan::{Scan, begins_with};
use super::{Dealloc, Dirty, Mentions, SqlHead, head, left_by_tag, planned, read_only};

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
    /// Whether the text changes what plans depend on.
    pub plans: Plans,
}

/// Whether a text may change a setting, until the end of its transaction or for longer, on which the plans of prepared
/// statements depend.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Plans {
    /// If one of its command tags is SET.
    #[default]
    ByTag,
    /// Whatever its command tags.
    Changed,
    /// No, unless plans depend on settings with names of two parts.
    Kept,
    /// If one of its command tags is SET, or plans depend on settings with names of two parts.
    KeptByTag,
}

/// What is known of a text once it was read.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Judgement {
    /// What the text may leave.
    pub effects: Effects,
    /// [`kept`](super::kept()) would find nothing in it, nor a reset of [`commands`](super::commands()), nor
    /// [`needed_alone`](super::needed_alone()): it is a single statement of a kind that leaves only what its words
    /// mention, and mentions nothing. Nearly all are.
    pub harmless: bool,
    /// The text certainly is one statement, which drops all prepared statements.
    pub drops_all: bool,
    /// The text may name prepared statements: [`names`](super::names()) tells.
    pub names: bool,
}

/// How to read the command tags of a text.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Scope {
    /// The command tags imply what may be left.
    #[default]
    Session,
    /// The text is one statement whose effect ends with its transaction, although its tag implies more.
    Transaction,
    /// What the text creates and drops is temporary: only its own session sees it.
    Temporary,
    /// Beyond that it creates indexes on columns: nothing calls a function by them that was not called before.
    Plain,
}

/// Which settings a text may name where not all of it is read.
const UNREAD: Dirty = Dirty::CUSTOM.union(Dirty::READ_ONLY);

impl Effects {
    /// No state beyond what the command tags imply.
    pub const NONE: Effects =
        Effects { may_leave: Dirty::NONE, leaves: Dirty::NONE, scope: Scope::Session, plans: Plans::ByTag };
    /// The text is unknown.
    pub const UNKNOWN: Effects =
        Effects { may_leave: UNREAD.union(Dirty::ALL), plans: Plans::Changed, ..Effects::NONE };

    /// The effects of a whole text.
    #[inline]
    pub fn of(text: &[u8]) -> Effects {
        Judgement::of(text, &head(text)).effects
    }

    /// Adds what else the text may leave, of which more was read.
    #[must_use]
    pub fn with(self, more: Dirty) -> Effects {
        let plans = if more.contains(Dirty::SETTINGS) { Plans::Changed } else { self.plans };
        Effects { may_leave: self.may_leave.union(more), plans, ..self }
    }

    /// Without these kinds of state, which are known to be none, or otherwise.
    #[must_use]
    pub fn without(self, kinds: Dirty) -> Effects {
        Effects { may_leave: self.may_leave.without(kinds), ..self }
    }

    /// The union of the effects of two texts.
    #[must_use]
    pub fn either(self, other: Effects) -> Effects {
        let scope = if self.scope == other.scope { self.scope } else { Scope::Session };
        let plans = match (self.plans, other.plans) {
            (one, another) if one == another => one,
            (Plans::Changed, _) | (_, Plans::Changed) => Plans::Changed,
            _ => Plans::KeptByTag,
        };
        Effects {
            may_leave: self.may_leave.union(other.may_leave),
            leaves: self.leaves.union(other.leaves),
            scope,
            plans,
        }
    }

    /// Whether plans may depend on what was set when a command of the text has ended with this tag; none where it ended
    /// otherwise. `custom`: they may depend on settings with names of two parts.
    #[inline]
    pub fn changes_plans(self, tag: Option<&[u8]>, custom: bool) -> bool {
        match self.plans {
            Plans::ByTag => tag == Some(b"SET"),
            Plans::Changed => true,
            Plans::Kept => custom,
            Plans::KeptByTag => custom || tag == Some(b"SET"),
        }
    }

    /// Whether `default_transaction_read_only` may have been set, if only for a transaction, when a command of the text has
    /// ended with this tag.
    pub fn sets_read_only(self, tag: &[u8]) -> bool {
        self.may_leave.contains(Dirty::READ_ONLY) && tag != b"RESET"
    }

    /// What may have been left when a command of the text has ended with this tag; none where it ended otherwise.
    #[inline]
    pub fn after(self, tag: Option<&[u8]>) -> Dirty {
        let Some(tag) = tag else { return settings_and_their_names(self.may_leave) };
        let by_tag = if self.scope == Scope::Transaction { Dirty::NONE } else { left_by_tag(tag) };
        // INSERT, UPDATE, DELETE and MERGE never create objects. A function that they call may still change settings.
        let writes = [&b"INSERT "[..], b"UPDATE ", b"DELETE ", b"MERGE "].iter().any(|verb| tag.starts_with(verb));
        settings_and_their_names(by_tag.union(if writes {
            self.may_leave.without(Dirty::TEMP)
        } else {
            self.may_leave
        }))
    }
}

/// The names of settings matter where there may be some.
#[inline]
fn settings_and_their_names(left: Dirty) -> Dirty {
    let left = left.without(Dirty::READ_ONLY.union(Dirty::SEQUENCE_VALUES));
    if left.contains(Dirty::SETTINGS) { left } else { left.without(Dirty::CUSTOM) }
}

impl Judgement {
    /// What is known of a text that [`is_harmless`] at first sight.
    pub const HARMLESS: Judgement =
        Judgement { effects: Effects::NONE, harmless: true, drops_all: false, names: false };

    /// What is known of a whole text, whose head is `head`.
    pub fn of(text: &[u8], head: &SqlHead<'_>) -> Judgement {
        if is_harmless(text) {
            return Judgement::HARMLESS;
        }
        let scope = match head {
            SqlHead::SetLocal | SqlHead::DeclareCursor { hold: false } => Scope::Transaction,
            SqlHead::CreateTemp => Scope::Temporary,
            _ => Scope::Session,
        };
        let Mentioned { found: mut may_leave, semicolon: several, names } = Mentions::of_whole(text);
        let scope = match scope {
            Scope::Session if may_define(text, several) => match defines(text) {
                Defines::ByTag => Scope::Session,
                Defines::Temporary => Scope::Temporary,
                Defines::Indexes => Scope::Plain,
            },
            scope => scope,
        };
        let mut plans = match head {
            SqlHead::Set | SqlHead::SetLocal if !several && !planned::set_decides(text) => Plans::Kept,
            _ => Plans::ByTag,
        };
        // Whether a name of two parts may be set.
        let mut hidden = false;
        if may_leave.contains(Dirty::ALL) {
            plans = Plans::Changed;
        } else if may_leave.contains(Dirty::SETTINGS) {
            let SetConfigs { local, harmless, plain } = set_configs(text);
            may_leave = if local { may_leave.without(Dirty::SETTINGS) } else { may_leave };
            hidden = !plain;
            plans = match plans {
                _ if !harmless => Plans::Changed,
                Plans::ByTag => Plans::KeptByTag,
                plans => plans,
            };
        }
        let harmless = !several && may_leave.is_empty() && leaves_only_mentions(text);
        hidden |= (several || matches!(head, SqlHead::Set)) && text.contains(&b'.');
        if hidden || may_leave.contains(Dirty::ALL) {
            may_leave.insert(Dirty::CUSTOM);
        }
        if matches!(head, SqlHead::Set | SqlHead::SetLocal) || several || may_leave.contains(Dirty::SETTINGS) {
            may_leave.insert(read_only::named(text));
        }
        Judgement {
            effects: Effects { may_leave, leaves: Dirty::NONE, scope, plans },
            harmless,
            drops_all: matches!(head, SqlHead::DiscardAll | SqlHead::Deallocate(Dealloc::All)),
            names,
        }
    }

    /// What is known of a long text of one command that begins with `prefix` and mentions this.
    pub fn of_long(prefix: &[u8], mentions: &Mentions) -> Judgement {
        let found = if is_about_rows(prefix) { mentions.found_about_rows() } else { mentions.found() };
        let harmless = found.is_empty() && leaves_only_mentions(prefix) && !prefix.contains(&b';');
        let more = if harmless { Dirty::CUSTOM } else { UNREAD };
        Judgement { effects: Effects::NONE.with(found.union(more)), harmless, drops_all: false, names: false }
    }

    /// What is known of a text of which only the beginning is there. `seen` is what there is of its message's body.
    #[inline]
    pub fn of_prefix(prefix: &[u8], seen: &[u8]) -> Judgement {
        let seen = Mentions::of_whole(seen.strip_suffix(&[0]).unwrap_or(seen));
        let harmless = seen.found.is_empty() && leaves_only_mentions(prefix) && !prefix.contains(&b';');
        Judgement {
            effects: Effects::NONE.with(seen.found.union(if harmless { Dirty::CUSTOM } else { UNREAD })),
            harmless,
            drops_all: false,
            names: seen.names,
        }
    }
}

/// Whether the commands of a text are read for what they define: there are several, or one that begins as CREATE does.
fn may_define(text: &[u8], several: bool) -> bool {
    several || text.first().is_none_or(|byte| !byte.is_ascii_alphabetic() || byte.eq_ignore_ascii_case(&b'c'))
}

/// Whether a whole text is a single statement of a kind that leaves only what its words mention, and holds nothing of
/// such words. Nearly all are, and for them nothing else is asked. A few instructions a byte.
#[inline]
pub fn is_harmless(text: &[u8]) -> bool {
    leaves_only_mentions(text) && Mentions::are_none(text)
}

/// `BEGIN`, with a semicolon and some white space. One with options is longer.
const MAX_BEGIN: usize = 8;

/// Whether a text is a BEGIN with options, and nothing else. Asked only of what is not [`is_harmless`].
#[inline]
pub fn begins_with_options(text: &[u8]) -> bool {
    text.len() > MAX_BEGIN && begins_with(text, b"begin ") && Mentions::are_none(text)
}

/// Whether a single statement is of a kind that leaves nothing but what its words mention, by its first letters.
#[inline]
fn leaves_only_mentions(text: &[u8]) -> bool {
    // 0x20 turns upper case into lower case, and turns no other byte into a letter.
    match text.first().map_or(b' ', |byte| byte | 0x20) {
        b's' => begins_with(text, b"select"),
        b'c' => begins_with(text, b"commit"),
        b'd' => begins_with(text, b"delete"),
        // ROLLBACK, and no RESET.
        b'r' => begins_with(text, b"rollba"),
        // A BEGIN that says nothing of its transaction.
        b'b' => text.len() <= MAX_BEGIN,
        b'a' | b'l' | b'p' => false,
        first => first.is_ascii_lowercase(),
    }
}

/// Whether a text that begins so is a command that reads or writes rows: no other command begins with these words.
fn is_about_rows(prefix: &[u8]) -> bool {
    let mut scan = Scan::prefix(prefix);
    scan.statement();
    [&b"select"[..], b"insert", b"update", b"delete", b"merge", b"values", b"with"].iter().any(|word| scan.word(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(text: &str, tag: &str) -> Dirty {
        Effects::of(text.as_bytes()).after(Some(tag.as_bytes())).without(Dirty::CUSTOM)
    }

    #[test]
    fn what_is_not_read_may_set_a_session_read_only() {
        let text = b"set search_path = a; set default_transaction_read_only = on";
        for judged in [Judgement::of_prefix(&text[..20], &text[..20]), Judgement::of_long(text, &Mentions::default())] {
            assert!(judged.effects.sets_read_only(b"SET") && !judged.effects.sets_read_only(b"RESET"));
        }
        assert!(Effects::UNKNOWN.sets_read_only(b"SET"));
        let harmless = Judgement::of_prefix(b"select 1", b"select 1 -- more");
        assert!(harmless.harmless && !harmless.effects.sets_read_only(b"SELECT 1"));
    }

    #[test]
    fn a_long_text_about_rows_names_no_statement() {
        let after = |text: &[u8]| Judgement::of_long(text, &Mentions::begin(text)).effects.may_leave.without(UNREAD);
        for head in
            ["select 1", "/* a */ select 1", "Insert into t values (1)", "with a as (select 1) delete from t", "merge"]
        {
            assert_eq!(after(format!("{head} -- execute a; deallocate b").as_bytes()), Dirty::NONE, "{head}");
        }
        assert_eq!(after(b"select 1 into t -- execute"), Dirty::TEMP);
        assert_eq!(after(b"select u&\"execute\""), Dirty::ALL.union(Dirty::SEQUENCE_VALUES));
        for head in [
            "execute a",
            "/* select",
            "deallocate a",
            "selects execute",
            "explain execute a",
            "create table t as execute a",
        ] {
            assert!(after(format!("{head} -- deallocate b").as_bytes()).contains(Dirty::ALL), "{head}");
        }
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
        for (text, tag, want) in [
            ("select 1", "SELECT 1", false),
            ("set local work_mem = '1MB'", "SET", true),
            ("set statement_timeout = 0", "SET", false),
            ("begin; set local statement_timeout = 0", "BEGIN", false),
            ("begin; set local statement_timeout = 0", "SET", true),
            ("select set_config('work_mem', '1MB', true)", "SELECT 1", true),
            ("select set_config('my.own', '1', false)", "SELECT 1", false),
            ("update pg_settings set setting = 'b' where name = 'a'", "UPDATE 0", true),
        ] {
            assert_eq!(Effects::of(text.as_bytes()).changes_plans(Some(tag.as_bytes()), false), want, "{text}");
        }
        for text in [
            "set my.own = 1",
            "set local my.own = 1",
            "select set_config('my.own', '1', true)",
            "select 1; select set_config('a.b', '', true)",
        ] {
            let effects = Effects::of(text.as_bytes());
            assert!(
                effects.changes_plans(Some(b"SELECT 1"), true) && !effects.changes_plans(Some(b"SELECT 1"), false),
                "{text}"
            );
        }
        assert_eq!(Effects::of(b"select pg_advisory_lock(1), 1/0").after(None), Dirty::LOCKS, "it failed, and is held");
        let failed = Effects::of(b"do $$begin prepare a as select 1; raise 'x'; end$$").after(None);
        assert_eq!(failed.without(Dirty::CUSTOM), Dirty::ALL, "what it has prepared stays");
        assert_eq!(Effects::UNKNOWN.after(Some(b"SELECT 1")), Dirty::ALL.union(Dirty::CUSTOM));
    }

    #[test]
    fn a_text_that_sets_whether_transactions_are_read_only_says_so() {
        for (text, tag, named) in [
            ("set default_transaction_read_only = on", "SET", true),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "SET", true),
            ("select set_config('Default_Transaction_Read_Only', 'on', false)", "SELECT 1", true),
            ("begin; set default_transaction_read_only to off", "SET", true),
            ("do $$begin set default_transaction_read_only = on; end$$", "DO", true),
            ("reset default_transaction_read_only", "RESET", false),
            ("set local default_transaction_read_only = on", "SET", true),
            ("alter system set default_transaction_read_only = on", "ALTER SYSTEM", false),
            ("select current_setting('default_transaction_read_only')", "SELECT 1", false),
            ("set work_mem = 1", "SET", false),
            ("select set_config('work_mem', '1', false)", "SELECT 1", false),
        ] {
            let effects = Effects::of(text.as_bytes());
            assert_eq!(effects.sets_read_only(tag.as_bytes()), named, "{text}");
            assert!(!effects.after(Some(tag.as_bytes())).contains(Dirty::READ_ONLY), "{text}");
        }
    }

    #[test]
    fn names_of_two_parts_count_where_settings_are_left() {
        for (text, tag, hidden) in [
            ("set my.own = 1", "SET", true),
            ("set work_mem = 1", "SET", false),
            ("set local my.own = 1", "SET", false),
            ("set \"my.own\" = 1", "SET", true),
            ("select set_config('my.own', '1', false)", "SELECT 1", true),
            ("select set_config('my.own', '1', true)", "SELECT 1", false),
            ("select set_config('work_mem', '1.5', false)", "SELECT 1", false),
            ("select set_config('my' || chr(46) || 'own', '1', false)", "SELECT 1", true),
            ("select 1; set my.own = 1", "SET", true),
            ("select a.b from a", "SELECT 1", false),
            ("do $$begin set my.own = 1; end$$", "DO", true),
        ] {
            let left = Effects::of(text.as_bytes()).after(Some(tag.as_bytes()));
            assert_eq!(left.contains(Dirty::CUSTOM), hidden, "{text}");
            assert!(!hidden || left.contains(Dirty::SETTINGS), "{text}");
        }
    }
}
