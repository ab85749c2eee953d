//! Settings with names of two parts (`mode = "auto"`): no view lists them, so a server is asked for the value of each name
//! that is known. One with a value follows its client like any other setting.
//!
//! Owns the names of a pool that its functions' bodies mention behind SET or in a call of `set_config`, looked for by
//! the questions that read bodies ([`crate::function_bodies`]); and the names that the texts of a server's client may have
//! set. A name that a function composes is not found. An empty value is none: PostgreSQL leaves one behind a RESET, and
//! behind a transaction that has set it (guc.c, `AtEOXact_GUC`).
//!
//! A setting of an extension that its server has not loaded yet keeps the client: elsewhere it may be refused.
//!
//! Bounded: [`MOST`] names a pool and worker, and [`MOST`] a server.

use crate::session_defaults::{of_session, that_counts};

/// The most names that are asked about.
const MOST: usize = 64;

/// Marks a row with a name that a function's body mentions.
pub(crate) const NAME: &str = "*name";

/// Marks a row with a name, `=`, and the value that its session has.
pub(crate) const SET: &str = "*set";

/// Marks a row of a setting that is named like one of an extension. It keeps its client, and nothing removes it: once
/// the library is loaded, PostgreSQL tells whoever has the server then that there was one.
pub(crate) const STAYS: &str = "*stays";

/// The longest value that follows a client, in bytes; a longer one keeps it.
const MAX_VALUE: u32 = 10_000;

/// Finds names in the body of a function. Without a backslash, which would depend on `standard_conforming_strings`.
const IN_BODY: &str = "(?:set_config[[:space:]]*[(][^a-z0-9_]{1,20}|(?:^|[^a-z0-9_])set[[:space:]]+(?:session[[:space:]]+)?)\
                       \"?([a-z_][a-z0-9_]*[.][a-z_][a-z0-9_.]*)";

/// Marks a row where a function that is IMMUTABLE reads such settings, itself or by another one that it names. It should not
/// be: PostgreSQL makes a constant of it in a plan, which other clients share.
pub(crate) const PLANNED: &str = "*planned";

/// The query for that. Each body is searched for the call once, and for the names of those functions that have it: what is
/// named twice is computed once.
pub(crate) fn planned_query() -> String {
    format!(
        "SELECT '{PLANNED}','' WHERE EXISTS(WITH written(name,body,planned,reads) AS (SELECT pg_catalog.lower(proname),\
         pg_catalog.lower(prosrc),provolatile OPERATOR(pg_catalog.=) 'i',prosrc OPERATOR(pg_catalog.~*) 'current_setting' \
         FROM pg_catalog.pg_proc WHERE oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid AND {IS_WRITTEN}) \
         SELECT FROM written AS planned WHERE planned.planned AND (planned.reads OR EXISTS(SELECT FROM written AS reader \
         WHERE reader.reads AND pg_catalog.strpos(planned.body,reader.name) OPERATOR(pg_catalog.>) 0)))"
    )
}

/// The condition for a function whose body is a text in some language: it is no symbol of the languages internal and C
/// (`pg_language.dat`), of which an extension has hundreds.
const IS_WRITTEN: &str = "prolang OPERATOR(pg_catalog.<>) ALL('{12,13}')";

/// The first identity of what PostgreSQL itself has not created (`FirstNormalObjectId`).
pub(crate) const OF_USERS: u32 = 16384;

/// The names that functions of a pool's database may set, as far as this worker knows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct CustomNames(Option<Vec<String>>);

impl CustomNames {
    /// A function has changed.
    pub(crate) fn forget(&mut self) {
        self.0 = None;
    }

    /// The functions mention these names, of which some were known before.
    pub(crate) fn learn(&mut self, names: Vec<String>) {
        let known = self.0.get_or_insert_default();
        for name in names {
            if known.len() < MOST && is_plain(&name) && !known.contains(&name) {
                known.push(name);
            }
        }
    }

    /// The query for which of these names, and those in `more`, are set; `None` if there are no names. `bodies`: functions may
    /// have set something.
    pub(crate) fn query<'n>(&self, more: impl Iterator<Item = &'n str>, bodies: bool) -> Option<String> {
        let mut names: Vec<&str> = more.filter(|name| is_plain(name)).collect();
        names.extend(self.0.iter().flatten().filter(|_| bodies).map(String::as_str));
        names.sort_unstable();
        names.dedup();
        let (reads, mut sources) = (bodies && self.0.is_none(), Vec::new());
        if !names.is_empty() {
            sources.push(format!("SELECT false,pg_catalog.unnest('{{{}}}'::pg_catalog.text[])", names.join(",")));
        }
        if reads {
            sources.push(format!(
                "(SELECT DISTINCT true,pg_catalog.lower(words[1]) FROM pg_catalog.pg_proc,\
                 pg_catalog.regexp_matches(prosrc,'{IN_BODY}','gi') AS words \
                 WHERE oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid AND {IS_WRITTEN} LIMIT {MOST})"
            ));
        }
        (!sources.is_empty()).then(|| values(&sources.join(" UNION ALL "), reads))
    }
}

/// The query for the values of these names: each with whether a function's body mentions it.
fn values(names: &str, reads: bool) -> String {
    let read = if reads { format!("SELECT '{NAME}',name FROM names WHERE of_body UNION ALL ") } else { String::new() };
    // What a role or a database gives to each session is no state of one. The settings of an extension that is loaded are in
    // the view, as PostgreSQL's own.
    format!(
        "SELECT mark,word FROM (WITH names(of_body,name) AS ({names}) {read}\
         SELECT CASE WHEN stays THEN '{STAYS}' WHEN long THEN '*role' ELSE '{SET}' END,CASE WHEN stays OR long THEN '' ELSE \
         name OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) value END FROM (SELECT name,value,\
         pg_catalog.octet_length(value) OPERATOR(pg_catalog.>) {MAX_VALUE} AS long,EXISTS(SELECT FROM pg_catalog.pg_extension WHERE extname OPERATOR(pg_catalog.=) \
         pg_catalog.split_part(name,'.',1)::pg_catalog.name) AS stays FROM (SELECT name,\
         pg_catalog.current_setting(name,true) AS value FROM names) AS named WHERE value OPERATOR(pg_catalog.<>) \
         COALESCE((SELECT pg_catalog.substr(config,pg_catalog.length(name) OPERATOR(pg_catalog.+) 2) FROM \
         pg_catalog.pg_db_role_setting,pg_catalog.unnest(setconfig) AS config WHERE \
         pg_catalog.lower(pg_catalog.split_part(config,'=',1)) OPERATOR(pg_catalog.=) name AND {} {}),'') AND name OPERATOR(pg_catalog.<>) ALL(ARRAY(SELECT pg_catalog.lower(known.name) FROM \
         pg_catalog.pg_settings AS known WHERE known.name OPERATOR(pg_catalog.~~) '%.%'))) AS settings) AS custom(mark,word)",
        of_session!(),
        that_counts!()
    )
}

/// The names of two parts that the texts of a server's client may have set there, since nothing of the client's was there.
#[derive(Debug, Default)]
pub(crate) struct NamedByTexts(Vec<Box<str>>);

impl NamedByTexts {
    /// A text is sent that may set these. Returns whether all are known now.
    pub(crate) fn add(&mut self, names: &[Box<str>]) -> bool {
        for name in names {
            if self.0.contains(name) {
                continue;
            }
            if self.0.len() == MOST {
                return false;
            }
            self.0.push(name.clone());
        }
        true
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|name| &**name)
    }

    /// What they name is known, and follows the client.
    #[inline]
    pub(crate) fn forget(&mut self) {
        if !self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

/// Whether a name means the same in an array's literal.
fn is_plain(name: &str) -> bool {
    name.len() < 128 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_until_they_are_known_and_again_when_a_function_changes() {
        let mut names = CustomNames::default();
        let query = |names: &CustomNames| names.query(std::iter::empty(), true);
        let first = query(&names).unwrap();
        assert!(first.contains("pg_proc") && !first.contains('\\'));
        names.learn(vec![]);
        assert_eq!(query(&names), None, "no function sets one");
        names.learn(vec!["my.own".into(), "my.own".into(), "a'b.c".into(), "x,y.z".into(), "my.other".into()]);
        let known = query(&names).unwrap();
        assert!(known.contains("'{my.other,my.own}'") && !known.contains("pg_proc"), "{known}");
        names.forget();
        assert_eq!(query(&names), Some(first));
        names.learn((0..1000).map(|n| format!("my.n{n}")).collect());
        assert_eq!(names.0.unwrap().len(), MOST);
    }

    #[test]
    fn names_in_texts_are_asked_for_whatever_functions_do() {
        let mut texts = NamedByTexts::default();
        assert!(texts.add(&["my.own".into(), "my.a$1".into()]) && texts.add(&["my.own".into()]));
        let names = CustomNames(Some(vec!["my.body".into()]));
        let query = names.query(texts.iter().chain(["x'y.z"]), false).unwrap();
        assert!(query.contains("'{my.a$1,my.own}'") && !query.contains("pg_proc"), "{query}");
        assert!(names.query(texts.iter(), true).unwrap().contains("'{my.a$1,my.body,my.own}'"));
        assert_eq!(names.query(std::iter::empty(), false), None);
        let many: Vec<Box<str>> = (0..100).map(|n| format!("my.n{n}").into()).collect();
        assert!(!texts.add(&many) && texts.0.len() == MOST);
        texts.forget();
        assert!(texts.add(&many[..MOST]));
    }
}
