//! Functions whose bodies say that they leave state (`mode = "auto"`): after a text that names one the server is asked
//! each time, although most of its executions may leave nothing, as those of a function that takes a job with its lock.
//!
//! Owns the names of a pool's functions, looked for by the first question about hidden effects, and again after a CREATE
//! FUNCTION, and the rule for texts. What only a caller of such a function, a trigger or a view says is not found, and
//! neither is what a body composes, one in `BEGIN ATOMIC`, or one that has changed past the pool.
//!
//! Bounded: [`MOST`] names a pool and worker.

use crate::custom_names::OF_USERS;

/// The most names that are known.
const MOST: usize = 128;

/// Marks a row with the name of a function.
pub(crate) const NAME: &str = "*function";

/// Found in the body of a function that leaves state, as PostgreSQL's regular expression, for any case. SET is a command
/// where a statement may begin. Without a backslash, which would depend on `standard_conforming_strings`.
const IN_BODY: &str = "advisory_lock|[[:<:]](?:listen|prepare|temp|temporary)[[:>:]]|with[[:space:]]+hold\
                       |set_config[[:space:]]*[(](?!(?:[^()]|[(][^()]*[)])*,[[:space:]]*true[[:space:]]*[)])\
                       |(?:^|[;''\"]|[[:<:]](?:begin|then|else|loop)[[:>:]])[[:space:]]*set[[:space:]]+(?!local[[:>:]])";

/// The functions of a pool's database that leave state, as far as this worker knows.
#[derive(Debug, Default)]
pub(crate) struct LeavingFunctions {
    names: Vec<String>,
    is_known: bool,
    /// How often functions have changed.
    changes: u64,
    /// How often others were found: texts that were judged before are judged again.
    lessons: u64,
}

impl LeavingFunctions {
    /// A function has changed.
    pub(crate) fn forget(&mut self) {
        self.changes += 1;
        self.is_known = false;
    }

    /// A server has named all, asked after so many changes.
    pub(crate) fn learn(&mut self, found: Vec<String>, changes: u64) {
        if changes != self.changes {
            return;
        }
        self.is_known = true;
        if self.names != found {
            (self.names, self.lessons) = (found, self.lessons + 1);
        }
    }

    /// How often functions have changed, if they are to be asked for.
    pub(crate) fn unknown(&self) -> Option<u64> {
        (!self.is_known).then_some(self.changes)
    }

    /// See the field.
    pub(crate) fn lessons(&self) -> u64 {
        self.lessons
    }

    /// Whether a text names one of them.
    pub(crate) fn are_named_in(&self, text: &[u8]) -> bool {
        let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..);
        !self.names.is_empty()
            && text.split(|byte| !is_of_name(byte)).any(|word| {
                !word.is_empty() && self.names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(word))
            })
    }
}

/// The query for their names.
pub(crate) fn query() -> String {
    format!(
        "SELECT '{NAME}',name FROM (SELECT DISTINCT pg_catalog.lower(proname::pg_catalog.text) AS name FROM \
         pg_catalog.pg_proc WHERE oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
         AND prosrc OPERATOR(pg_catalog.~*) '{IN_BODY}' LIMIT {MOST}) AS functions"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_a_function_by_a_whole_word_of_any_case() {
        let mut functions = LeavingFunctions::default();
        assert!(!functions.are_named_in(b"select take_job()"));
        functions.learn(vec!["take_job".into(), "été".into()], 0);
        for text in ["select take_job()", "SELECT * FROM jobs.Take_Job($1)", "call \"take_job\"(1)", "select été()"] {
            assert!(functions.are_named_in(text.as_bytes()), "{text}");
        }
        for text in ["select retake_job()", "select take_job2()", "select take_job$()", "select ét()", ""] {
            assert!(!functions.are_named_in(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn functions_are_asked_for_until_they_are_known_and_again_when_one_changes() {
        let mut functions = LeavingFunctions::default();
        assert_eq!(functions.unknown(), Some(0));
        functions.learn(vec![], 0);
        assert_eq!((functions.unknown(), functions.lessons()), (None, 0), "there are none");
        functions.forget();
        functions.learn(vec!["f".into()], 0);
        assert_eq!((functions.unknown(), functions.lessons()), (Some(1), 0), "one has changed since it was asked");
        functions.learn(vec!["f".into()], 1);
        functions.learn(vec!["f".into()], 1);
        assert_eq!((functions.unknown(), functions.lessons()), (None, 1));
        functions.learn(vec!["f".into(), "g".into()], 1);
        assert_eq!(functions.lessons(), 2);
    }
}
