//! Settings with names of two parts that functions may set (`mode = "auto"`): no view lists them, so a server is asked
//! for the value of each name that is known.
//!
//! Owns the names of a pool, which its functions' bodies mention behind SET or in a call of `set_config`: looked for by
//! the questions that read bodies ([`crate::function_bodies`]). A name that a function composes is not found.
//!
//! Bounded: [`MOST`] names a pool and worker.

use std::fmt::Write as _;

/// The most names that are asked about.
const MOST: usize = 64;

/// Marks a row with a name that is known now.
pub(crate) const NAME: &str = "*name";

/// Marks a row with a name that has a value, of its session.
pub(crate) const SET: &str = "*set";

/// Finds names in the body of a function. Without a backslash, which would depend on `standard_conforming_strings`.
const IN_BODY: &str = "(?:set_config[[:space:]]*[(][^a-z0-9_]{1,20}|(?:^|[^a-z0-9_])set[[:space:]]+(?:session[[:space:]]+)?)\
                       \"?([a-z_][a-z0-9_]*[.][a-z_][a-z0-9_.]*)";

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

    /// The query for those that are set; `None` if there are no such names.
    pub(crate) fn query(&self) -> Option<String> {
        let mut names = match &self.0 {
            Some(names) if names.is_empty() => return None,
            Some(names) => format!("pg_catalog.unnest('{{{}}}'::pg_catalog.text[])", names.join(",")),
            None => String::new(),
        };
        if names.is_empty() {
            let _ = write!(
                names,
                "(SELECT DISTINCT pg_catalog.lower(words[1]) FROM pg_catalog.pg_proc,\
                 pg_catalog.regexp_matches(prosrc,'{IN_BODY}','gi') AS words \
                 WHERE oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid LIMIT {MOST})"
            );
        }
        // What a role or a database gives to each session is no state of one. The settings of an extension are in the view, as
        // PostgreSQL's own.
        Some(format!(
            "SELECT CASE WHEN value OPERATOR(pg_catalog.<>) '' AND NOT EXISTS(SELECT FROM \
             pg_catalog.pg_db_role_setting WHERE setconfig OPERATOR(pg_catalog.@>) ARRAY[name \
             OPERATOR(pg_catalog.||) '=' OPERATOR(pg_catalog.||) value] AND (setrole OPERATOR(pg_catalog.=) 0::pg_catalog.oid \
             OR EXISTS(SELECT FROM pg_catalog.pg_roles AS role WHERE role.oid OPERATOR(pg_catalog.=) setrole \
             AND rolname OPERATOR(pg_catalog.=) session_user)) AND (setdatabase OPERATOR(pg_catalog.=) 0::pg_catalog.oid \
             OR EXISTS(SELECT FROM pg_catalog.pg_database AS own WHERE own.oid OPERATOR(pg_catalog.=) setdatabase \
             AND datname OPERATOR(pg_catalog.=) pg_catalog.current_database()))) AND name OPERATOR(pg_catalog.<>) \
             ALL(ARRAY(SELECT pg_catalog.lower(known.name) FROM pg_catalog.pg_settings AS known WHERE known.name \
             OPERATOR(pg_catalog.~~) '%.%')) THEN '{SET}' ELSE '{NAME}' END,name FROM \
             (SELECT name,pg_catalog.current_setting(name,true) AS value FROM {names} AS names(name)) AS settings"
        ))
    }
}

/// Whether a name means the same in an array's literal.
fn is_plain(name: &str) -> bool {
    name.len() < 128 && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_until_they_are_known_and_again_when_a_function_changes() {
        let mut names = CustomNames::default();
        let first = names.query().unwrap();
        assert!(first.contains("pg_proc") && !first.contains('\\'));
        names.learn(vec![]);
        assert_eq!(names.query(), None, "no function sets one");
        names.learn(vec!["my.own".into(), "my.own".into(), "a'b.c".into(), "x,y.z".into(), "my.other".into()]);
        let known = names.query().unwrap();
        assert!(known.contains("'{my.own,my.other}'") && !known.contains("pg_proc"), "{known}");
        names.forget();
        assert_eq!(names.query(), Some(first));
        names.learn((0..1000).map(|n| format!("my.n{n}")).collect());
        assert_eq!(names.0.unwrap().len(), MOST);
    }
}
