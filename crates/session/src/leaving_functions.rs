//! Functions whose bodies say that they leave state, and all that calls them unseen (`mode = "auto"`): after a text that
//! names one of them the server is asked each time, although most of its executions may leave nothing, as those of a
//! function that takes a job with its lock.
//!
//! Owns the names of a pool's database, looked for where bodies are read ([`crate::function_bodies`]), and the rule for
//! texts. What calls such a function is found by what depends on it (`pg_depend`): tables with triggers, constraints,
//! defaults, policies, rules or indexes, views, domains, operators, casts, aggregates; tables from which a foreign key
//! or inheritance leads there; and functions whose bodies have one of the names. What a body composes counts as state,
//! so does anything in another language than SQL and PL/pgSQL; of functions in C nothing is known.
//! Source: PostgreSQL's documentation, "pg_depend", "Dependency Tracking".
//!
//! Bounded: [`MOST`] names a pool and worker; where there are more, each text is asked about.

use std::collections::HashSet;

use crate::custom_names::OF_USERS;

/// The most names that are known.
const MOST: usize = 512;

/// The longest name, in bytes, with its quotes.
pub(crate) const LONGEST: usize = 128;

/// Marks a row with a name, which is empty where any text may call a function that leaves state.
pub(crate) const NAME: &str = "*function";

/// Marks a row with a hash of all that leaves state as far as bodies say so, and of what may call it unseen.
pub(crate) const SOURCES: &str = "*sources";

/// White space and comments, as PostgreSQL's regular expression. Here and below there is no backslash, which would depend
/// on `standard_conforming_strings`.
const GAP: &str = "(?:[[:space:]]|--[^\n]*\n|/[*](?:[^*]|[*][^/])*[*]/)*";

/// Found in the body of a function that leaves state, for any case. SET is a command where a statement may begin. A
/// command that is composed may be any, but for those whose first word is there.
pub(crate) fn in_body() -> String {
    format!(
        "advisory_lock|[[:<:]](?:listen|prepare|temp|temporary|discard|pg_settings)[[:>:]]|[[:<:]]pg_temp\
         |with[[:space:]]+hold\
         |set_config\"?{GAP}[(](?!(?:[^()]|[(][^()]*[)])*,[[:space:]]*true[[:space:]]*[)])\
         |[[:<:]]execute[[:>:]](?![[:space:]]*(?:format[[:space:]]*[(])?[[:space:]]*''[[:space:]]*\
         (?:insert|update|delete|merge|truncate|analyze|refresh|lock|alter|drop)[[:>:]])\
         |(?:^|[;''\"$]|>>|[[:<:]](?:begin|then|else|loop)[[:>:]]){GAP}\
         (?:set(?:[[:space:]]+(?!local[[:>:]])|[/-])|reset[[:>:]])"
    )
}

/// Functions of PostgreSQL that run the text of a query that they are given.
const RUN_TEXTS: [&str; 5] =
    ["query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema", "ts_rewrite", "ts_stat"];

/// The words of commands that an event trigger may run for.
const DEFINING: &str = "{alter,cluster,comment,create,drop,grant,import,into,refresh,reindex,revoke,security}";

/// What in a pool's database leaves state, as far as this worker knows.
#[derive(Debug, Default)]
pub(crate) struct LeavingFunctions {
    found: Vec<String>,
    /// Names that are single words, without upper case in ASCII.
    words: HashSet<Box<[u8]>>,
    /// Other names: operators, and those that are quoted.
    others: Vec<Box<[u8]>>,
    /// Any text may.
    any: bool,
}

impl LeavingFunctions {
    /// A server has named all. Returns whether they are others than before: texts are to be judged again.
    pub(crate) fn learn(&mut self, mut found: Vec<String>) -> bool {
        found.sort_unstable();
        if self.found == found {
            return false;
        }
        self.any = found.len() > MOST || found.iter().any(String::is_empty);
        let (words, others) = found.iter().map(|name| name.as_bytes()).partition::<Vec<_>, _>(|name| is_word(name));
        self.words = words.into_iter().map(|word| word.to_ascii_lowercase().into()).collect();
        self.others = others.into_iter().map(Into::into).collect();
        self.found = found;
        true
    }

    /// Whether a command with this tag may change what leaves state, or what calls it.
    pub(crate) fn may_change_by(&self, tag: &[u8]) -> bool {
        const FUNCTIONS: [&[u8]; 4] = [b"EXTENSION", b"FUNCTION", b"PROCEDURE", b"ROUTINE"];
        const CALLERS: [&[u8]; 12] = [
            b"AGGREGATE",
            b"CAST",
            b"DOMAIN",
            b"EVENT TRIGGER",
            b"INDEX",
            b"MATERIALIZED VIEW",
            b"OPERATOR",
            b"POLICY",
            b"RULE",
            b"TABLE",
            b"TRIGGER",
            b"VIEW",
        ];
        let kind = tag.strip_prefix(b"CREATE ").or_else(|| tag.strip_prefix(b"ALTER "));
        // Which may be ALTER … SET.
        matches!(tag, b"ALTER ROLE" | b"ALTER DATABASE")
            || kind.is_some_and(|kind| FUNCTIONS.contains(&kind) || (!self.found.is_empty() && CALLERS.contains(&kind)))
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether a text names one of them, or executes a statement whose text may. Reads the text a few times: once for each text of a pool.
    pub(crate) fn are_named_in(&self, text: &[u8]) -> bool {
        let mut words = text.split(|byte| !is_of_name(*byte)).filter(|word| !word.is_empty());
        let is_known = |word: &[u8]| {
            let word = word.to_ascii_lowercase();
            self.words.contains(&*word)
                || (word == b"execute" && !self.found.is_empty())
                || RUN_TEXTS.iter().any(|name| name.as_bytes() == word)
        };
        // Of two quotes in a quoted name one counts; a name with escapes may be any.
        let has = |name: &[u8]| text.windows(name.len()).any(|part| part == name);
        let is_escaped = || has(b"U&\"") || has(b"u&\"");
        self.any
            || words.any(is_known)
            || self.others.iter().any(|name| if name.contains(&b'"') { has(b"\"\"") } else { has(name) })
            || (!self.found.is_empty() && is_escaped())
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

fn is_word(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_of_name(*byte))
}

/// The text of a function `f`; one in `BEGIN ATOMIC` has none of its own.
const BODY: &str = "CASE WHEN prosrc OPERATOR(pg_catalog.=) '' AND NOT EXISTS(SELECT FROM pg_catalog.pg_aggregate \
     WHERE aggfnoid OPERATOR(pg_catalog.=) f.oid) THEN pg_catalog.pg_get_functiondef(f.oid) ELSE prosrc END";

/// The condition for a function `f` that leaves state itself.
fn leaves() -> String {
    let language = |which: &str| {
        format!(
            "prolang OPERATOR(pg_catalog.=) ANY(ARRAY(SELECT language.oid FROM pg_catalog.pg_language AS language \
             WHERE lanname OPERATOR(pg_catalog.=) ANY('{{{which}}}')))"
        )
    };
    format!(
        "f.oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid AND NOT {} AND (NOT {} OR {BODY} \
         OPERATOR(pg_catalog.~*) '{}')",
        language("internal,c"),
        language("sql,plpgsql"),
        in_body()
    )
}

/// The query for their names, and for those of all that calls them.
pub(crate) fn query() -> String {
    let class = |name: &str| format!("'pg_catalog.{name}'::pg_catalog.regclass");
    let any_of = |names: &[&str]| names.iter().map(|name| class(name)).collect::<Vec<_>>().join(",");
    let is = |name: &str| format!("leaving.class OPERATOR(pg_catalog.=) {}", class(name));
    // The names of what is found, with the class that has them, as a query over `leaving`.
    let named = |class: &str, name: &str, only: &str| {
        format!(
            "SELECT {name} FROM leaving JOIN pg_catalog.{class} AS named ON named.oid OPERATOR(pg_catalog.=) leaving.id AND {}{only}",
            is(class)
        )
    };
    let no_index = " AND relkind OPERATOR(pg_catalog.<>) ALL('{i,I}')";
    let of_row = |class: &str, name: &str, only: &str| {
        format!(
            "SELECT {name}::pg_catalog.text FROM pg_catalog.{class} WHERE oid OPERATOR(pg_catalog.=) leaving.id AND {}{only}",
            is(class)
        )
    };
    let seed =
        format!("SELECT {}::pg_catalog.oid,f.oid FROM pg_catalog.pg_proc AS f WHERE {}", class("pg_proc"), leaves());
    let dependent = format!(
        "SELECT classid,objid FROM pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) leaving.class \
         AND refobjid OPERATOR(pg_catalog.=) leaving.id AND (NOT {} OR classid OPERATOR(pg_catalog.=) ANY(ARRAY[{}]))",
        is("pg_class"),
        any_of(&["pg_rewrite", "pg_proc"])
    );
    let owner = format!(
        "SELECT refclassid,refobjid FROM pg_catalog.pg_depend WHERE classid OPERATOR(pg_catalog.=) leaving.class \
         AND objid OPERATOR(pg_catalog.=) leaving.id AND refclassid OPERATOR(pg_catalog.=) ANY(ARRAY[{}]) \
         AND (deptype OPERATOR(pg_catalog.=) ANY('{{a,i}}') AND classid OPERATOR(pg_catalog.=) ANY(ARRAY[{}]) OR {})",
        any_of(&["pg_class", "pg_type"]),
        any_of(&["pg_class", "pg_trigger", "pg_rewrite", "pg_constraint", "pg_policy", "pg_attrdef"]),
        is("pg_cast")
    );
    let parent = format!(
        "SELECT {},inhparent FROM pg_catalog.pg_inherits WHERE inhrelid OPERATOR(pg_catalog.=) leaving.id AND {}",
        class("pg_class"),
        is("pg_class")
    );
    let referenced = format!(
        "SELECT {},confrelid FROM pg_catalog.pg_constraint WHERE conrelid OPERATOR(pg_catalog.=) leaving.id AND {} \
         AND contype OPERATOR(pg_catalog.=) 'f' AND (confdeltype OPERATOR(pg_catalog.=) ANY('{{c,n,d}}') \
         OR confupdtype OPERATOR(pg_catalog.=) ANY('{{c,n,d}}'))",
        class("pg_class"),
        is("pg_class")
    );
    let caller = format!(
        "SELECT {},f.oid FROM ({} UNION ALL {} UNION ALL {}) AS called(name) JOIN pg_catalog.pg_proc AS f \
         ON f.oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
         AND pg_catalog.strpos(pg_catalog.lower(prosrc),pg_catalog.lower(called.name)) OPERATOR(pg_catalog.>) 0 \
         AND prosrc OPERATOR(pg_catalog.~*) pg_catalog.concat('(?:^|[^[:alnum:]_$])',\
         pg_catalog.regexp_replace(called.name,'[^[:alnum:]_]','.','g'),'(?:$|[^[:alnum:]_$])')",
        class("pg_proc"),
        of_row("pg_proc", "proname", ""),
        of_row("pg_class", "relname", no_index),
        of_row("pg_type", "typname", "")
    );
    let names = [
        named("pg_proc", "proname", ""),
        named("pg_class", "relname", no_index),
        named("pg_type", "typname", ""),
        named("pg_operator", "oprname", ""),
        format!(
            "SELECT pg_catalog.unnest('{DEFINING}'::pg_catalog.text[]) FROM leaving WHERE {}",
            is("pg_event_trigger")
        ),
        // Of a cast between types of PostgreSQL no text says anything, nor of the tables that TRUNCATE CASCADE reaches.
        format!(
            "SELECT '' FROM leaving WHERE {} AND NOT EXISTS(SELECT FROM pg_catalog.pg_depend WHERE classid \
             OPERATOR(pg_catalog.=) leaving.class AND objid OPERATOR(pg_catalog.=) leaving.id \
             AND refclassid OPERATOR(pg_catalog.=) {})",
            is("pg_cast"),
            class("pg_type")
        ),
        named(
            "pg_trigger",
            "'truncate'",
            " AND (tgtype OPERATOR(pg_catalog.&) 32::pg_catalog.int2) OPERATOR(pg_catalog.<>) 0",
        ),
    ];
    let next = [dependent, owner, parent, referenced, caller].join(" UNION ALL ");
    format!(
        "SELECT '{NAME}',name FROM (WITH RECURSIVE leaving(class,id) AS ({seed} UNION SELECT next.class,next.id FROM leaving \
         CROSS JOIN LATERAL ({next}) AS next(class,id)) SELECT DISTINCT name::pg_catalog.text AS name \
         FROM ({}) AS names(name) LIMIT {}) AS functions",
        names.join(" UNION ALL "),
        MOST + 1
    )
}

/// The query for a hash of these functions, of the triggers, policies and rules of users, and of what the role and the
/// database give to each session, which sessions have from their beginning. Constraints have triggers, too, which leave
/// nothing; a temporary function is its session's own.
pub(crate) fn sources_query() -> String {
    let hash = |of: &str| format!("pg_catalog.sum(pg_catalog.hashtext(pg_catalog.concat_ws(' ',{of})))");
    format!(
        "SELECT '{SOURCES}',pg_catalog.concat_ws('/',\
         (SELECT {} FROM pg_catalog.pg_proc AS f WHERE {} AND NOT pg_catalog.pg_is_other_temp_schema(pronamespace) \
         AND pronamespace OPERATOR(pg_catalog.<>) pg_catalog.pg_my_temp_schema()),\
         (SELECT {} FROM pg_catalog.pg_trigger WHERE NOT tgisinternal),(SELECT {} FROM pg_catalog.pg_policy),\
         (SELECT {} FROM pg_catalog.pg_rewrite WHERE oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
         AND ev_type OPERATOR(pg_catalog.<>) '1'),\
         (SELECT {} FROM pg_catalog.pg_db_role_setting WHERE setdatabase OPERATOR(pg_catalog.=) ANY(ARRAY[\
         0::pg_catalog.oid,(SELECT oid FROM pg_catalog.pg_database WHERE datname OPERATOR(pg_catalog.=) \
         pg_catalog.current_database())]) AND setrole OPERATOR(pg_catalog.=) ANY(ARRAY[0::pg_catalog.oid,\
         (SELECT oid FROM pg_catalog.pg_roles WHERE rolname OPERATOR(pg_catalog.=) session_user)])))",
        hash(&format!("f.oid,{BODY}")),
        leaves(),
        hash("tgrelid,tgfoid,tgtype,tgenabled"),
        hash("oid,polqual,polwithcheck"),
        hash("ev_class,ev_type,ev_enabled"),
        hash("setdatabase,setrole,setconfig"),
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
