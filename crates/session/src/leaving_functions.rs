//! Functions whose bodies say that they leave state (`mode = "auto"`): after a text that names one the server is asked
//! each time, although most of its executions may leave nothing, as those of a function that takes a job with its lock.
//!
//! Owns the names of a pool's functions, looked for where bodies are read ([`crate::function_bodies`]), and the rule for
//! texts. What only a caller of such a function, a trigger or a view says is not found, and neither is what a body
//! composes, or one in `BEGIN ATOMIC`.
//!
//! Bounded: [`MOST`] names a pool and worker.

use crate::custom_names::OF_USERS;

/// The most names that are known.
const MOST: usize = 128;

/// Marks a row with the name of a function.
pub(crate) const NAME: &str = "*function";

/// Marks a row with a hash of all that leaves state as far as bodies say so, and of what may call it unseen.
pub(crate) const SOURCES: &str = "*sources";

/// Found in the body of a function that leaves state, as PostgreSQL's regular expression, for any case. SET is a command
/// where a statement may begin. Without a backslash, which would depend on `standard_conforming_strings`.
const IN_BODY: &str = "advisory_lock|[[:<:]](?:listen|prepare|temp|temporary)[[:>:]]|with[[:space:]]+hold\
                       |set_config[[:space:]]*[(](?!(?:[^()]|[(][^()]*[)])*,[[:space:]]*true[[:space:]]*[)])\
                       |(?:^|[;''\"]|[[:<:]](?:begin|then|else|loop)[[:>:]])[[:space:]]*set[[:space:]]+(?!local[[:>:]])";

/// The functions of a pool's database that leave state, as far as this worker knows.
#[derive(Debug, Default)]
pub(crate) struct LeavingFunctions {
    names: Vec<String>,
}

impl LeavingFunctions {
    /// A server has named all. Returns whether they are others than before: texts are to be judged again.
    pub(crate) fn learn(&mut self, found: Vec<String>) -> bool {
        let others = self.names != found;
        self.names = found;
        others
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

/// The query for a hash of these functions, and of the triggers, policies and rules of users. Constraints have triggers, too,
/// which leave nothing; a temporary function is its session's own.
pub(crate) fn sources_query() -> String {
    let hash = |of: &str| format!("pg_catalog.sum(pg_catalog.hashtext(pg_catalog.concat_ws(' ',{of})))");
    format!(
        "SELECT '{SOURCES}',pg_catalog.concat_ws('/',\
         (SELECT {} FROM pg_catalog.pg_proc WHERE oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
         AND prosrc OPERATOR(pg_catalog.~*) '{IN_BODY}' AND NOT pg_catalog.pg_is_other_temp_schema(pronamespace) \
         AND pronamespace OPERATOR(pg_catalog.<>) pg_catalog.pg_my_temp_schema()),\
         (SELECT {} FROM pg_catalog.pg_trigger WHERE NOT tgisinternal),(SELECT {} FROM pg_catalog.pg_policy),\
         (SELECT {} FROM pg_catalog.pg_rewrite WHERE oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
         AND ev_type OPERATOR(pg_catalog.<>) '1'))",
        hash("oid,prosrc"),
        hash("tgrelid,tgfoid,tgtype,tgenabled"),
        hash("oid,polqual,polwithcheck"),
        hash("ev_class,ev_type,ev_enabled"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_a_function_by_a_whole_word_of_any_case() {
        let mut functions = LeavingFunctions::default();
        assert!(!functions.are_named_in(b"select take_job()"));
        functions.learn(vec!["take_job".into(), "été".into()]);
        for text in ["select take_job()", "SELECT * FROM jobs.Take_Job($1)", "call \"take_job\"(1)", "select été()"] {
            assert!(functions.are_named_in(text.as_bytes()), "{text}");
        }
        for text in ["select retake_job()", "select take_job2()", "select take_job$()", "select ét()", ""] {
            assert!(!functions.are_named_in(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn texts_are_to_be_judged_again_when_others_are_found() {
        let mut functions = LeavingFunctions::default();
        assert!(!functions.learn(vec![]), "there are none");
        assert!(functions.learn(vec!["f".into()]) && !functions.learn(vec!["f".into()]));
        assert!(functions.learn(vec!["f".into(), "g".into()]));
    }
}
