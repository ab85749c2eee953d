//! What a text does with session state, statement by statement: what it leaves, removes and finds, by name; and whether
//! its text tells that at all. For a record of traffic: nothing that is passed on depends on it.
//!
//! Owns the names. What a statement certainly leaves is [`super::kept`]'s to say. In doubt a text can't be judged:
//! functions that are not PostgreSQL's, DO, CALL, and text that is not understood may do anything. What triggers, views
//! and operators call is not seen.
//!
//! Bounded: the first [`MAX_READ`] bytes of a text, [`MAX_ACTS`] acts, names of [`MAX_NAME`] bytes.
//!
//! Source: PostgreSQL's documentation, the pages of the commands, "Sequence Manipulation Functions".

use std::cell::RefCell;

use super::fingerprint::MAX_READ;
use super::kept::{Words, by_command, by_words};
use super::scan::{MAX_NAME, Scan, Token};
use super::sequences::{asks_for_own_value, may_use_sequence};
use super::unknown_calls::calls_unknown;
use super::{Dirty, Effects};

/// The most acts of a text.
const MAX_ACTS: usize = 16;

/// See the head of the file.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct StateUse {
    /// What it does, in order.
    pub acts: Vec<StateAct>,
    /// The text does not say all that it does.
    pub unjudged: bool,
    /// The text may use a sequence, of which `currval()` tells afterwards.
    pub may_use_sequence: bool,
}

/// One thing that a text does with session state. Names are as PostgreSQL folds them; an empty one is unknown.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StateAct {
    /// Leaves state of this kind, by this name: of a setting, a channel, a statement, a cursor, a table.
    Leaves(Dirty, Box<str>),
    /// Removes state of these kinds: of this name, or all of it.
    Removes(Dirty, Option<Box<str>>),
    /// Needs state of this kind, if it was left before.
    Finds(Dirty, Box<str>),
    /// `currval()` or `lastval()`: needs the value that the session has drawn last.
    FindsSequence,
}

/// The name of the setting that SET ROLE changes.
const ROLE: &str = "role";
/// The name of the setting that SET SESSION AUTHORIZATION changes.
const AUTHORIZATION: &str = "session_authorization";

impl StateUse {
    /// What a text does.
    pub fn of(text: &[u8]) -> StateUse {
        let read = &text[..text.len().min(MAX_READ)];
        let mut found = StateUse { unjudged: read.len() < text.len(), ..StateUse::default() };
        let mut scan = Scan::whole(read);
        let mut prepares = false;
        loop {
            scan.statement();
            if scan.peek().is_none() {
                break;
            }
            let (end, words) = Words::of_statement(scan);
            prepares |= words.at(0) == Some(b"prepare");
            found.statement(&words);
            let Some(end) = end else { break };
            scan = end;
        }
        if asks_for_own_value(read) {
            found.acts.retain(|act| *act != StateAct::FindsSequence);
        }
        let has = |kind: Dirty| found.acts.iter().any(|act| act.is_about(kind));
        let may = Effects::of(read).may_leave;
        let hidden = [Dirty::SETTINGS, Dirty::LOCKS].into_iter().any(|kind| may.contains(kind) && !has(kind));
        found.unjudged |= may.contains(Dirty::ALL) || (hidden && !prepares) || calls_unknown(read);
        found.may_use_sequence = found.unjudged || may_use_sequence(read);
        found
    }

    /// Whether the text does nothing that is looked for.
    pub fn is_nothing(&self) -> bool {
        self.acts.is_empty() && !self.unjudged && !self.may_use_sequence
    }

    /// Whether it leaves or needs state, as far as its text tells.
    pub fn is_recorded(&self) -> bool {
        self.unjudged || self.acts.iter().any(|act| !matches!(act, StateAct::Removes(..)))
    }

    /// Adds what another text of the same fingerprint does.
    pub fn merge(&mut self, other: StateUse) {
        self.unjudged |= other.unjudged;
        self.may_use_sequence |= other.may_use_sequence;
        let new: Vec<StateAct> = other.acts.into_iter().filter(|act| !self.acts.contains(act)).collect();
        new.into_iter().for_each(|act| self.add(act));
    }

    fn add(&mut self, act: StateAct) {
        match self.acts.len() < MAX_ACTS {
            true => self.acts.push(act),
            false => self.unjudged = true,
        }
    }

    fn statement(&mut self, words: &Words<'_>) {
        let settings = RefCell::new(Vec::new());
        let noted = |name: &[u8]| {
            settings.borrow_mut().push(shown(name));
            false
        };
        self.finds(words);
        let command = by_command(words, &noted);
        if command.contains(Dirty::SETTINGS) {
            let name = settings.borrow_mut().pop().unwrap_or_else(|| setting_of(words));
            let last = words.at(words.0.len() - 1);
            let undone = last == Some(b"default") || (&*name == ROLE && last == Some(b"none"));
            self.add(match undone {
                true => StateAct::Removes(Dirty::SETTINGS, Some(name)),
                false => StateAct::Leaves(Dirty::SETTINGS, name),
            });
        }
        let name = |at: usize| words.at(at).map(shown).unwrap_or_default();
        for kind in command.without(Dirty::SETTINGS).kinds() {
            let name = if kind == Dirty::TEMP { temporary_name(words) } else { name(1) };
            self.add(StateAct::Leaves(kind, name));
        }
        // What a statement does that is only prepared, it does when it is executed.
        if words.at(0) == Some(b"prepare") {
            return;
        }
        settings.borrow_mut().clear();
        for kind in by_words(words, &noted).without(command.without(Dirty::SETTINGS)).kinds() {
            let name = match kind {
                Dirty::SETTINGS => settings.borrow_mut().pop().unwrap_or_default(),
                Dirty::TEMP => temporary_name(words),
                _ => Box::default(),
            };
            if kind != Dirty::LOCKS || unlocks(words).is_none() {
                self.add(StateAct::Leaves(kind, name));
            }
        }
    }

    /// What the statement needs of earlier state, and what it removes.
    fn finds(&mut self, words: &Words<'_>) {
        let name = |at: usize| words.at(at).map(shown).unwrap_or_default();
        let last = || {
            words.0.iter().rev().find_map(|token| {
                if let Token::Word(word) | Token::Quoted(word) = token { Some(shown(word)) } else { None }
            })
        };
        match words.at(0) {
            Some(b"reset") => self.resets(words),
            Some(b"discard") if words.at(1) == Some(b"all") => {
                self.add(StateAct::Removes(Dirty::ALL.union(Dirty::CUSTOM), None))
            }
            Some(b"discard") if matches!(words.at(1), Some(b"temp" | b"temporary")) => {
                self.add(StateAct::Removes(Dirty::TEMP, None));
            }
            Some(b"discard") if words.at(1) == Some(b"sequences") => {
                self.add(StateAct::Removes(Dirty::SEQUENCES, None));
            }
            Some(b"unlisten") => self.takes(Dirty::LISTEN, words.at(1).map(shown)),
            Some(b"deallocate") => {
                let at = if words.at(1) == Some(b"prepare") && words.at(2).is_some() { 2 } else { 1 };
                self.takes(Dirty::STATEMENTS, words.at(at).filter(|name| *name != b"all").map(shown));
            }
            Some(b"execute") => self.add(StateAct::Finds(Dirty::STATEMENTS, name(1))),
            Some(b"close") => self.takes(Dirty::CURSORS, words.at(1).filter(|name| *name != b"all").map(shown)),
            Some(b"fetch" | b"move") => self.add(StateAct::Finds(Dirty::CURSORS, last().unwrap_or_default())),
            Some(b"drop") if matches!(words.at(1), Some(b"table" | b"view" | b"sequence")) => self.drops(words),
            Some(b"do" | b"call") => self.unjudged = true,
            _ => {}
        }
        if let Some(one) = unlocks(words) {
            self.takes(Dirty::LOCKS, one.then(Box::default));
        }
        if words.call("currval").is_some() || words.call("lastval").is_some() {
            self.add(StateAct::FindsSequence);
        }
    }

    /// Needs, and removes, state of this kind: of this name, or all of it.
    fn takes(&mut self, kind: Dirty, name: Option<Box<str>>) {
        self.add(StateAct::Finds(kind, name.clone().unwrap_or_default()));
        self.add(StateAct::Removes(kind, name));
    }

    fn resets(&mut self, words: &Words<'_>) {
        let name = match words.at(1) {
            Some(b"all") if words.0.len() == 2 => None,
            _ => Some(setting_of(words)),
        };
        self.add(StateAct::Removes(Dirty::SETTINGS, name));
    }

    fn drops(&mut self, words: &Words<'_>) {
        let begin = if words.find(&["if", "exists"]) == Some(2) { 4 } else { 2 };
        for at in begin..words.0.len() {
            // `pg_temp.t`: the last part counts.
            let qualifies = words.0.get(at + 1) == Some(&Token::Other(b'.'));
            if let Some(name) = words.at(at).filter(|name| !qualifies && !matches!(*name, b"cascade" | b"restrict")) {
                self.add(StateAct::Removes(Dirty::TEMP, Some(shown(name))));
            }
        }
    }
}

impl StateAct {
    fn is_about(&self, kind: Dirty) -> bool {
        match self {
            StateAct::Leaves(of, _) | StateAct::Removes(of, _) | StateAct::Finds(of, _) => of.has_any(kind),
            StateAct::FindsSequence => false,
        }
    }
}

/// A name as it is kept.
fn shown(name: &[u8]) -> Box<str> {
    String::from_utf8_lossy(&name[..name.len().min(MAX_NAME)]).into()
}

/// Whether the statement releases an advisory lock (true), or all of them (false).
fn unlocks(words: &Words<'_>) -> Option<bool> {
    let calls = |function| words.call(function).is_some();
    match () {
        () if calls("pg_advisory_unlock_all") => Some(false),
        () if calls("pg_advisory_unlock") || calls("pg_advisory_unlock_shared") => Some(true),
        () => None,
    }
}

/// The setting of a SET or RESET.
fn setting_of(words: &Words<'_>) -> Box<str> {
    let scope = matches!(words.at(1), Some(b"session" | b"local")) && words.at(2).is_some();
    let at = 1 + usize::from(scope);
    match (words.at(at), words.0.get(at + 1), words.at(at + 1)) {
        (Some(b"authorization"), ..) | (Some(b"session"), _, Some(b"authorization")) => AUTHORIZATION.into(),
        (Some(b"time"), _, Some(b"zone")) => "timezone".into(),
        (Some(first), Some(Token::Other(b'.')), _) => {
            let second = words.at(at + 2).map(shown).unwrap_or_default();
            format!("{}.{second}", shown(first)).into()
        }
        (Some(name), ..) => shown(name),
        (None, ..) => Box::default(),
    }
}

/// The name of the temporary object that a statement creates.
fn temporary_name(words: &Words<'_>) -> Box<str> {
    let kind = |word: &[u8]| matches!(word, b"table" | b"view" | b"sequence");
    let into = |at: &usize| words.at(*at) == Some(b"into");
    let kinds = (0..words.0.len()).find(|at| words.at(*at).is_some_and(kind));
    let Some(mut at) = kinds.or_else(|| (0..words.0.len()).find(into)).map(|at| at + 1) else { return Box::default() };
    while matches!(words.at(at), Some(b"if" | b"not" | b"exists" | b"temp" | b"temporary" | b"local" | b"pg_temp"))
        || words.0.get(at) == Some(&Token::Other(b'.'))
    {
        at += 1;
    }
    words.at(at).map(shown).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(kind: Dirty, name: &str) -> StateAct {
        StateAct::Leaves(kind, name.into())
    }

    fn removes(kind: Dirty, name: &str) -> StateAct {
        StateAct::Removes(kind, Some(name.into()))
    }

    fn finds(kind: Dirty, name: &str) -> StateAct {
        StateAct::Finds(kind, name.into())
    }

    #[test]
    fn what_a_text_leaves_removes_and_finds_has_its_name() {
        let all = |kind| StateAct::Removes(kind, None);
        let (settings, statements, cursors) = (Dirty::SETTINGS, Dirty::STATEMENTS, Dirty::CURSORS);
        for (text, want) in [
            ("set work_mem = '1MB'", vec![leaves(settings, "work_mem")]),
            ("SET SESSION TimeZone TO 'UTC'", vec![leaves(settings, "timezone")]),
            ("set my.own = 1", vec![leaves(settings, "my.own")]),
            ("set \"my.own\" = 1", vec![leaves(settings, "my.own")]),
            ("set role x", vec![leaves(settings, "role")]),
            ("set role none", vec![removes(settings, "role")]),
            ("set session authorization x", vec![leaves(settings, "session_authorization")]),
            ("set work_mem to default", vec![removes(settings, "work_mem")]),
            ("reset work_mem; reset all", vec![removes(settings, "work_mem"), all(settings)]),
            ("reset session authorization", vec![removes(settings, "session_authorization")]),
            ("select set_config('work_mem', '1MB', false)", vec![leaves(settings, "work_mem")]),
            ("listen A; unlisten *", vec![leaves(Dirty::LISTEN, "a"), finds(Dirty::LISTEN, ""), all(Dirty::LISTEN)]),
            ("prepare p as select pg_advisory_lock(1)", vec![leaves(statements, "p")]),
            ("execute p(1)", vec![finds(statements, "p")]),
            ("deallocate prepare p", vec![finds(statements, "p"), removes(statements, "p")]),
            ("declare c cursor with hold for select 1", vec![leaves(cursors, "c")]),
            ("fetch forward 3 from c", vec![finds(cursors, "c")]),
            ("close all", vec![finds(cursors, ""), all(cursors)]),
            ("create temp table if not exists t (a int)", vec![leaves(Dirty::TEMP, "t")]),
            ("select 1 as a into temp t", vec![leaves(Dirty::TEMP, "t")]),
            ("drop table if exists a, pg_temp.b cascade", vec![removes(Dirty::TEMP, "a"), removes(Dirty::TEMP, "b")]),
            ("select pg_try_advisory_lock(1)", vec![leaves(Dirty::LOCKS, "")]),
            ("select pg_advisory_unlock(1)", vec![finds(Dirty::LOCKS, ""), removes(Dirty::LOCKS, "")]),
            ("select currval('s')", vec![StateAct::FindsSequence]),
            ("insert into t values (1); select lastval()", vec![]),
            ("discard sequences", vec![all(Dirty::SEQUENCES)]),
            ("set local work_mem = '1MB'", vec![]),
            ("create temp table t (a int) on commit drop", vec![]),
            ("select 'listen a' from t where x in (1, 2) and y = any (array[1])", vec![]),
        ] {
            let found = StateUse::of(text.as_bytes());
            assert_eq!((found.acts, found.unjudged), (want, false), "{text}");
        }
    }

    #[test]
    fn what_no_text_tells_is_not_judged() {
        for text in [
            "do $$begin perform 1; end$$",
            "call p()",
            "select f(1)",
            "select nothing(1), key(2)",
            "select pg_catalog.count(*), app.f(a) from t",
            "insert into t (a) values (f())",
            "with x as (select 1) select * from x join g(2) on true",
            "create table t as select f()",
            "explain analyze select f()",
            "select set_config($1, $2, false)",
            "select 'it\\'s' || f('x')",
            "select dblink_connect('x')",
        ] {
            assert!(StateUse::of(text.as_bytes()).unjudged, "{text}");
        }
        assert!(StateUse::of(&[b"select 1 -- ".as_slice(), &[b'x'; MAX_READ]].concat()).unjudged);
        for text in [
            "select count(*), coalesce(max(a), now()), cast(b as numeric(10, 2)), c::varchar(3) from t group by (d)",
            "insert into app.t (a, b) values (1, 'x'), (2, E'\\'')",
            "with x (a) as (values (1)) select * from x where exists (select 1) and a in (2)",
            "create table t (a numeric(3), b text default f())",
            "create function f() returns int language sql as 'select 1'",
            "update t set (a, b) = (1, 2) where c = $1 returning upper(d)",
            "prepare p as select f()",
            "select pg_catalog.now(), \"upper\"('a'), set_config('a', 'b', true)",
            "copy t (a, b) from stdin",
        ] {
            assert!(!StateUse::of(text.as_bytes()).unjudged, "{text}");
        }
    }

    #[test]
    fn what_a_text_does_is_bounded() {
        let many: String = (0..1000).map(|n| format!("listen a{n};")).collect();
        let found = StateUse::of(many.as_bytes());
        assert_eq!((found.acts.len(), found.unjudged), (MAX_ACTS, true));
        let mut long = StateUse::of(format!("listen {}", "x".repeat(5000)).as_bytes());
        assert_eq!(long.acts, [leaves(Dirty::LISTEN, &"x".repeat(MAX_NAME))]);
        (0..100).for_each(|n| long.merge(StateUse::of(format!("listen b{n}").as_bytes())));
        assert!(long.acts.len() == MAX_ACTS && long.unjudged);
    }
}
