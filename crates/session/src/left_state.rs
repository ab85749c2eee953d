//! What a client has left on its server, as the server itself says (`mode = "auto"`).
//!
//! Owns the query that asks, and what its answer means: settings follow the client from then on; anything else keeps the
//! client at its server. The query is sent behind the transaction that may have left something, so whatever was rolled
//! back is not found. Must not know when it is sent.
//!
//! Functions and operators are named with their schema: a client's `search_path` must not decide what Weir believes.
//! Settings with names of two parts are in no view: those that texts and functions may have set are read by their
//! names ([`crate::custom_names`]). Where a text does not tell the name, something counts as left.
//! Source: PostgreSQL's documentation, "System Views", "System Information Functions"; `pg_depend` lists all that is in
//! a schema for temporary objects (namespace.c, RemoveTempRelations).

use std::sync::Arc;

use weir_pgwire::{Dirty, HEAD, backend};

use crate::leaving_functions::Leaving;
use crate::session_defaults::{of_session, that_counts};
use crate::{custom_names, function_bodies, leaving_functions};

/// The longest row of an answer that is read: a setting and its value.
pub(crate) const MAX_ROW: usize = 12 << 10;

/// The most bytes of settings and names of channels that are kept of an answer.
const MAX_BYTES: usize = 64 << 10;

/// The mark of a row that names a channel.
const LISTEN_MARK: &str = "*listen";

/// The mark of a row with a time limit of the session and its value, before the question turns it off.
const TIMEOUT: &str = "*timeout";

/// The settings that could end the question.
macro_rules! timeouts {
    () => {
        "statement_timeout,lock_timeout,transaction_timeout"
    };
}

/// Marks a row of a setting that the session has not set.
const NOT_SET: &str = "*jit";

/// For each kind of state, a query that has a row with the kind's mark if there is any; for channels, a row for each.
const QUESTIONS: [(Dirty, &str, &str); 6] = [
    (Dirty::LISTEN, LISTEN_MARK, "pg_catalog.pg_listening_channels() AS listening(channel)"),
    // The shared ones have names of Weir's. A client's own may be there where none are shared.
    (
        Dirty::STATEMENTS,
        "*prepare",
        "SELECT FROM pg_catalog.pg_prepared_statements WHERE from_sql \
         OR pg_catalog.left(name, 4) OPERATOR(pg_catalog.<>) 'weir'",
    ),
    (Dirty::CURSORS, "*cursor", "SELECT FROM pg_catalog.pg_cursors WHERE is_holdable"),
    (
        Dirty::TEMP,
        "*temp",
        "SELECT FROM pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) \
         'pg_catalog.pg_namespace'::pg_catalog.regclass \
         AND refobjid OPERATOR(pg_catalog.=) pg_catalog.pg_my_temp_schema()",
    ),
    (
        Dirty::LOCKS,
        "*lock",
        "SELECT FROM pg_catalog.pg_locks WHERE locktype OPERATOR(pg_catalog.=) 'advisory' \
         AND pid OPERATOR(pg_catalog.=) pg_catalog.pg_backend_pid()",
    ),
    (
        Dirty::SETTINGS,
        "*role",
        concat!(
            "SELECT WHERE pg_catalog.current_setting('role') OPERATOR(pg_catalog.<>) COALESCE((SELECT \
             pg_catalog.substr(word,6) FROM pg_catalog.pg_db_role_setting,pg_catalog.unnest(setconfig) AS word \
             WHERE word OPERATOR(pg_catalog.~~) 'role=%' AND ",
            of_session!(),
            " ",
            that_counts!(),
            "),'none') OR EXISTS(SELECT FROM pg_catalog.pg_stat_activity WHERE pid OPERATOR(pg_catalog.=) \
             pg_catalog.pg_backend_pid() AND usename OPERATOR(pg_catalog.<>) session_user)",
        ),
    ),
];

/// The settings of the session. Those of a transaction have this source for ever once SET TRANSACTION was used, and are
/// no state. What a function has set with its owner's rights can't be set elsewhere with the client's, and
/// `temp_buffers` not where a temporary table was used: they keep the client.
const SETTINGS: &str = concat!(
    "SELECT CASE WHEN name OPERATOR(pg_catalog.<>) 'temp_buffers' AND (context \
     OPERATOR(pg_catalog.=) 'user' OR pg_catalog.current_setting('is_superuser') OPERATOR(pg_catalog.=) 'on') \
     THEN name ELSE '*role' END,CASE WHEN name OPERATOR(pg_catalog.=) ANY('{",
    timeouts!(),
    "}') THEN setting OPERATOR(pg_catalog.||) '/' OPERATOR(pg_catalog.||) reset_val ELSE setting END \
     FROM pg_catalog.pg_settings WHERE source OPERATOR(pg_catalog.=) 'session' \
     AND name OPERATOR(pg_catalog.<>) ALL('{transaction_isolation,transaction_read_only,transaction_deferrable}')"
);

/// What an answer has shown so far.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) kinds: Dirty,
    pub(crate) settings: Vec<(String, String)>,
    pub(crate) channels: Vec<Arc<str>>,
    /// The settings with names of two parts that functions may set.
    pub(crate) names: Vec<String>,
    /// The functions that leave state, with what each leaves.
    pub(crate) functions: Vec<(String, Leaving)>,
    /// A function that is IMMUTABLE reads settings with names of two parts.
    pub(crate) custom_is_planned: bool,
    /// There is a setting that no reset removes.
    pub(crate) stays: bool,
    /// A hash of what leaves state, as far as bodies say so.
    pub(crate) sources: Option<String>,
    /// What the server has counted of changed bodies.
    pub(crate) counted: Option<String>,
    /// Time limits as the question has found them, before it turned them off.
    timeouts: Vec<(String, String)>,
    /// Settings with the value that the server gives to each session: the session may have set them to it.
    pub(crate) usual: Vec<(String, String)>,
    /// What was known to be possible before texts counted that say nothing of it.
    pub(crate) expected: Dirty,
    bytes: usize,
    /// A row could not be read, or there were too many.
    pub(crate) incomplete: bool,
}

impl Found {
    /// Nothing so far, where this was known to be possible.
    pub(crate) fn new(expected: Dirty) -> Found {
        Found { expected, ..Found::default() }
    }

    /// Takes a row: a mark, or the name and the value of a setting.
    pub(crate) fn take(&mut self, message: &[u8]) {
        if self.read(message).is_none() {
            self.incomplete = true;
        }
    }

    fn read(&mut self, message: &[u8]) -> Option<()> {
        let mut values = backend::data_row(message.get(HEAD..)?).ok()?;
        let name = std::str::from_utf8(values.next()??).ok()?;
        let Ok(value) = std::str::from_utf8(values.next()??) else {
            // A function's name, in the client's encoding: its text does not match it, and is asked about as any other.
            return leaving_functions::marked(name).map(|_| ());
        };
        if name == NOT_SET {
            return Some(());
        }
        if let Some((kind, ..)) = QUESTIONS.iter().find(|(_, mark, _)| *mark == name) {
            self.kinds.insert(*kind);
            if *kind != Dirty::LISTEN {
                return Some(());
            }
        }
        self.bytes += name.len() + value.len();
        if self.bytes > MAX_BYTES {
            return None;
        }
        match name {
            LISTEN_MARK => self.channels.push(value.into()),
            custom_names::NAME => self.names.push(value.to_owned()),
            custom_names::STAYS => {
                self.kinds.insert(Dirty::SETTINGS);
                self.stays = true;
            }
            custom_names::PLANNED => self.custom_is_planned = true,
            leaving_functions::SOURCES => self.sources = Some(value.to_owned()),
            function_bodies::COUNTED => self.counted = Some(value.to_owned()),
            custom_names::SET => {
                let (name, value) = value.split_once('=')?;
                self.settings.push((name.to_owned(), value.to_owned()));
            }
            TIMEOUT => {
                let (name, value) = value.split_once('=')?;
                self.timeouts.push((name.to_owned(), milliseconds(value)?.to_string()));
            }
            name if timeouts!().split(',').any(|timeout| timeout == name) => {
                let (now, usual) = value.split_once('/')?;
                let before = self.timeouts.iter().find(|(of, _)| of == name).map_or(now, |(_, before)| &**before);
                let found = (name.to_owned(), before.to_owned());
                // One that the question has turned off does not say who has set it before.
                if before == usual && now != usual { self.usual.push(found) } else { self.settings.push(found) }
            }
            _ => match leaving_functions::marked(name) {
                Some(leaving) => self.functions.push((value.to_owned(), leaving)),
                None => self.settings.push((name.to_owned(), value.to_owned())),
            },
        }
        Some(())
    }
}

/// Before the question. With the client's own defaults it could wait for the transactions of others (SERIALIZABLE READ
/// ONLY DEFERRABLE).
const BEGIN: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;";

/// So that no time limit of the client's ends the question, which may wait for a lock, or read many functions. Those
/// that are off are left alone: a value of the transaction looks like one of the session.
const NO_TIMEOUTS: &str = concat!(
    "SELECT '*timeout',one OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) pg_catalog.current_setting(one),\
     pg_catalog.set_config(one,'0',true) FROM pg_catalog.unnest('{",
    timeouts!(),
    "}'::pg_catalog.text[]) AS one WHERE pg_catalog.current_setting(one,true) OPERATOR(pg_catalog.<>) '0';"
);

/// A time limit as PostgreSQL shows it, in milliseconds.
fn milliseconds(shown: &str) -> Option<u64> {
    let unit = shown.find(|c: char| !c.is_ascii_digit()).unwrap_or(shown.len());
    let (number, unit) = shown.split_at(unit);
    let factor = match unit {
        "" | "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// So that PostgreSQL does not compile the question, which takes seconds: it does where a query seems expensive, and the
/// client's settings of the planner make any seem so. What the client has set itself is read first: the value of the
/// transaction would look like it.
const NOT_COMPILED: &str = "SELECT CASE source WHEN 'session' THEN name ELSE '*jit' END,setting,\
     pg_catalog.set_config(name,'off',true) FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) 'jit';";

/// How much PostgreSQL may do to make a question fast.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Compiled {
    /// What its settings say.
    BySettings,
    /// The question is not compiled.
    Never,
}

/// The query that asks for state of these kinds, and `more`: settings with names of two parts, and functions.
pub(crate) fn query(kinds: Dirty, more: Vec<String>, compiled: Compiled) -> String {
    let marks = QUESTIONS.iter().filter(|(kind, ..)| kinds.contains(*kind));
    let mut parts: Vec<String> = marks
        .map(|(kind, mark, rows)| match *kind {
            Dirty::LISTEN => format!("SELECT '{mark}',channel FROM {rows}"),
            _ => format!("SELECT '{mark}','' WHERE EXISTS({rows})"),
        })
        .collect();
    if kinds.contains(Dirty::SETTINGS) {
        let jit = if compiled == Compiled::Never { " AND name OPERATOR(pg_catalog.<>) 'jit'" } else { "" };
        parts.push([SETTINGS, jit].concat());
    }
    parts.extend(more);
    if parts.is_empty() {
        // What is asked for is known here.
        return String::new();
    }
    let first = if compiled == Compiled::Never { NOT_COMPILED } else { "" };
    [BEGIN, NO_TIMEOUTS, first, &parts.join(" UNION ALL ")].concat()
}

#[cfg(test)]
mod tests {
    use weir_pgwire::put_back;

    use super::*;
    use crate::custom_names::CustomNames;

    #[test]
    fn a_question_is_only_about_what_may_be_there() {
        assert!(
            query(Dirty::LOCKS, vec![], Compiled::BySettings).contains("pg_locks")
                && !query(Dirty::LOCKS, vec![], Compiled::BySettings).contains("UNION")
        );
        let more = CustomNames::default().query(["my.own"].into_iter(), true).into_iter().chain([
            leaving_functions::query(),
            leaving_functions::sources_query(),
            custom_names::planned_query(),
            function_bodies::query(),
        ]);
        let all = query(Dirty::ALL, more.collect(), Compiled::Never);
        assert!(QUESTIONS.iter().all(|(_, mark, rows)| all.contains(mark) && all.contains(rows)));
        // No function, operator, view or cast is looked up by the client's search_path.
        for word in [" = ", " <> ", " IN ", "FROM pg_", "::reg", " pg_"] {
            assert!(!all.contains(word) || word.ends_with("pg_"), "{word} in {all}");
        }
        assert!(!all.replace("pg_catalog.", "").contains("'pg_catalog"), "{all}");
        // Of what is looked for in bodies some begins alike.
        let all = all.replace(&leaving_functions::in_body(), "");
        let unqualified = all.match_indices("pg_").filter(|(at, _)| !all[..*at].ends_with("pg_catalog."));
        assert!(unqualified.into_iter().all(|(at, _)| all[at..].starts_with("pg_catalog.")), "{all}");
    }

    #[test]
    fn a_question_that_is_not_compiled_reads_the_clients_own_choice_first() {
        let [never, settings] = [Compiled::Never, Compiled::BySettings].map(|how| query(Dirty::SETTINGS, vec![], how));
        let texts: Vec<_> = never.split(';').collect();
        assert!(texts.len() == 4 && texts[2].contains("'jit'") && texts[3].contains("<>) 'jit'"), "{never}");
        assert!(!settings.contains("jit"));
        let mut found = Found::default();
        for (name, value) in [("*jit", "on"), ("jit", "off")] {
            let mut message = Vec::new();
            put_back::data_row(&mut message, &[Some(name.as_bytes()), Some(value.as_bytes()), Some(b"off")]);
            found.take(&message);
        }
        assert_eq!((found.settings, found.incomplete), (vec![("jit".to_owned(), "off".to_owned())], false));
    }

    #[test]
    fn a_question_turns_time_limits_off_and_finds_what_they_were() {
        let asked = query(Dirty::LOCKS, vec![], Compiled::BySettings);
        assert!(asked.find("set_config(one,'0',true)") < asked.find("pg_locks"), "{asked}");
        let found = |rows: &[(&str, &str)]| {
            let mut found = Found::default();
            for (name, value) in rows {
                let mut message = Vec::new();
                put_back::data_row(&mut message, &[Some(name.as_bytes()), Some(value.as_bytes()), Some(b"0")]);
                found.take(&message);
            }
            let shown = |all: &[(String, String)]| all.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (shown(&found.settings), shown(&found.usual), found.incomplete)
        };
        let (set, usual): (Vec<String>, Vec<String>) =
            (vec!["lock_timeout=90000".into()], vec!["lock_timeout=90000".into()]);
        for (shown, now, expected) in [
            // It was set to something, to what the server gives to each session, or not at all.
            (Some("90s"), "0/0", (&set, &vec![], false)),
            (Some("90s"), "0/5000", (&set, &vec![], false)),
            (Some("90s"), "0/90000", (&vec![], &usual, false)),
            // It was off.
            (None, "90000/90000", (&set, &vec![], false)),
            (Some("1min 30s"), "0/0", (&vec!["lock_timeout=0".into()], &vec![], true)),
        ] {
            let before = shown.map(|shown| ("*timeout", format!("lock_timeout={shown}")));
            let rows: Vec<_> =
                before.iter().map(|(mark, value)| (*mark, &**value)).chain([("lock_timeout", now)]).collect();
            let (settings, found_usual, incomplete) = found(&rows);
            assert_eq!((&settings, &found_usual, incomplete), expected, "{rows:?}");
        }
        let shown = ["0", "7ms", "7s", "7min", "7h", "7d", "7us", "s", "", "99999999999999999999"].map(milliseconds);
        let expected = [0, 7, 7000, 420_000, 25_200_000, 604_800_000].map(Some);
        assert_eq!(shown[..6], expected);
        assert_eq!(shown[6..], [None; 4]);
    }

    #[test]
    fn an_answer_is_read_or_counts_as_incomplete() {
        let row = |values: &[Option<&[u8]>]| {
            let mut message = Vec::new();
            put_back::data_row(&mut message, values);
            message
        };
        let mut found = Found::default();
        found.take(&row(&[Some(b"*temp"), Some(b"")]));
        found.take(&row(&[Some(b"work_mem"), Some(b"4096")]));
        found.take(&row(&[Some(b"*set"), Some(b"my.own=a=b")]));
        found.take(&row(&[Some(b"*name"), Some(b"my.body")]));
        assert_eq!((found.kinds, found.incomplete), (Dirty::TEMP, false));
        let settings =
            [("work_mem", "4096"), ("my.own", "a=b")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!((found.settings, found.names), (settings.to_vec(), vec!["my.body".to_owned()]));
        for bad in [
            row(&[Some(b"a")]),
            row(&[Some(b"a"), None]),
            row(&[Some(b"a"), Some(b"\xff")]),
            row(&[Some(b"*set"), Some(b"a.b")]),
            vec![0],
        ] {
            let mut found = Found::default();
            found.take(&bad);
            assert!(found.incomplete);
        }
        let mut found = Found::default();
        (0..8).for_each(|_| found.take(&row(&[Some(b"a"), Some(&[b'x'; 10_000])])));
        assert!(found.incomplete, "it takes too much memory");
    }
}
