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

use std::collections::HashMap;

use crate::custom_names::OF_USERS;
use crate::session_defaults::of_session;

/// The most names that are known.
const MOST: usize = 512;

/// The most characters of bodies that are searched for names of what leaves state: a few milliseconds for each name.
const MOST_SEARCHED: u32 = 16 << 20;

/// Marks a row with a name, which is empty where any text may call a function that leaves state.
pub(crate) const NAME: &str = "*function";

/// Marks a row with a name behind which a setting may be set whose name nobody can tell.
pub(crate) const COMPOSER: &str = "*composer";

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

/// Found in the body of a function that sets a setting whose name is not in its text.
fn composes() -> String {
    format!(
        "set_config\"?{GAP}[(](?!(?:[^()]|[(][^()]*[)])*,[[:space:]]*true[[:space:]]*[)])(?!{GAP}''[a-z_][a-z0-9_.]*''{GAP},)\
         |(?:^|[;''\"$]|>>|[[:<:]](?:begin|then|else|loop)[[:>:]]){GAP}set[[:space:]]+(?:session[[:space:]]+)?\"\
         |''[[:space:]]*set[[:space:]]+(?!local[[:>:]])[^''%=]*(?:%|''[[:space:]]*[|])"
    )
}

/// `set_config()`, and the functions that take a lock of the session, as an expression has them that is stored (`pg_proc.dat`).
const SETS: &str = ":funcid 2078 ";
const LEAVES: &str = ":funcid (?:2078|288[0-36-9]) ";

/// What stores expressions: a catalog, whose object its rows are about, and the columns.
const EXPRESSIONS: [(&str, &str, &str, &str); 8] = [
    ("pg_rewrite", "pg_rewrite", "oid", "ev_qual,ev_action"),
    ("pg_attrdef", "pg_attrdef", "oid", "adbin"),
    ("pg_constraint", "pg_constraint", "oid", "conbin"),
    ("pg_policy", "pg_policy", "oid", "polqual,polwithcheck"),
    ("pg_trigger", "pg_trigger", "oid", "tgqual"),
    ("pg_index", "pg_class", "indexrelid", "indexprs,indpred"),
    ("pg_proc", "pg_proc", "oid", "proargdefaults"),
    ("pg_type", "pg_type", "oid", "typdefaultbin"),
];

/// No text names an index to use it.
const NO_INDEX: &str = " AND relkind OPERATOR(pg_catalog.<>) ALL('{i,I}')";

/// No text calls a function of a trigger or an event trigger.
const NO_TRIGGER: &str = " AND prorettype OPERATOR(pg_catalog.<>) ALL('{2279,3838}')";

/// Functions of PostgreSQL that run the text of a query that they are given.
const RUN_TEXTS: [&str; 5] =
    ["query_to_xml", "query_to_xmlschema", "query_to_xml_and_xmlschema", "ts_rewrite", "ts_stat"];

/// The words of commands that an event trigger may run for.
const DEFINING: &str = "{alter,cluster,comment,create,drop,grant,import,into,refresh,reindex,revoke,security}";

/// What in a pool's database leaves state, as far as this worker knows.
#[derive(Debug, Default)]
pub(crate) struct LeavingFunctions {
    found: Vec<(String, Leaving)>,
    /// Names that are single words, without upper case in ASCII.
    words: HashMap<Box<[u8]>, Leaving>,
    /// Other names: operators, and those that are quoted.
    others: Vec<(Box<[u8]>, Leaving)>,
    /// What any text may do.
    any: Leaving,
}

/// What a text may leave, as the names in it say.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Leaving {
    /// Nothing that is known.
    #[default]
    Nothing,
    /// State for which a server can be asked.
    Askable,
    /// Also a setting with a name of two parts for which no server can be asked, as nobody knows the name.
    Unknown,
}

impl LeavingFunctions {
    /// A server has named all, and those behind which a name is composed. Returns whether they are others than before: texts
    /// are to be judged again.
    pub(crate) fn learn(&mut self, names: Vec<String>, composers: Vec<String>) -> bool {
        let named = names.into_iter().map(|name| (name, Leaving::Askable));
        let mut found: Vec<_> = named.chain(composers.into_iter().map(|name| (name, Leaving::Unknown))).collect();
        found.sort_unstable();
        if self.found == found {
            return false;
        }
        let of_all = found.iter().filter(|(name, _)| name.is_empty()).map(|(_, what)| *what).max();
        self.any = of_all.unwrap_or_default().max(if found.len() > MOST { Leaving::Askable } else { Leaving::Nothing });
        let (words, others): (Vec<_>, Vec<_>) = found.iter().partition(|(name, _)| is_word(name.as_bytes()));
        self.words =
            words.into_iter().map(|(word, what)| (word.to_ascii_lowercase().into_bytes().into(), *what)).collect();
        self.others = others.into_iter().map(|(name, what)| (name.as_bytes().into(), *what)).collect();
        self.found = found;
        true
    }

    /// What a text may leave of which not all is read: it is asked about if there is anything to be named.
    pub(crate) fn askable(&self) -> Leaving {
        if self.found.is_empty() { Leaving::Nothing } else { Leaving::Askable }
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

    /// What a text may leave that names one of them, or executes a statement whose text may. Reads the text a few times: once
    /// for each text of a pool.
    pub(crate) fn named_in(&self, text: &[u8]) -> Leaving {
        let words = text.split(|byte| !is_of_name(*byte)).filter(|word| !word.is_empty());
        let of_word = |word: &[u8]| {
            let word = word.to_ascii_lowercase();
            let runs =
                (word == b"execute" && !self.found.is_empty()) || RUN_TEXTS.iter().any(|name| name.as_bytes() == word);
            self.words.get(&*word).copied().unwrap_or(if runs { Leaving::Askable } else { Leaving::Nothing })
        };
        let has = |name: &[u8]| text.windows(name.len()).any(|part| part == name);
        // Of two quotes in a quoted name one counts; a name with escapes may be any.
        let is_there = |name: &[u8]| !name.is_empty() && if name.contains(&b'"') { has(b"\"\"") } else { has(name) };
        let others = self.others.iter().filter(|(name, _)| is_there(name)).map(|(_, what)| *what);
        let escaped = self.found.iter().map(|(_, what)| *what).max().filter(|_| has(b"U&\"") || has(b"u&\""));
        words.map(of_word).chain(others).chain(escaped).max().unwrap_or_default().max(self.any)
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

/// A catalog as a class of objects (`pg_depend.classid`).
fn class(catalog: &str) -> String {
    format!("'pg_catalog.{catalog}'::pg_catalog.regclass")
}

fn any_of(catalogs: &[&str]) -> String {
    format!("ANY(ARRAY[{}])", catalogs.iter().map(|catalog| class(catalog)).collect::<Vec<_>>().join(","))
}

/// The condition for a row of `leaving` that is of a catalog.
fn is(catalog: &str) -> String {
    format!("leaving.class OPERATOR(pg_catalog.=) {}", class(catalog))
}

/// Functions that leave state themselves, and what has an expression that does, as queries for their class, their number, and
/// whether the name of a setting is composed.
fn seeds() -> String {
    let mut seeds = vec![format!(
        "SELECT {}::pg_catalog.oid,f.oid,{BODY} OPERATOR(pg_catalog.~*) '{}' FROM pg_catalog.pg_proc AS f WHERE {}",
        class("pg_proc"),
        composes(),
        leaves()
    )];
    seeds.extend(EXPRESSIONS.map(|(catalog, of, oid, columns)| {
        format!(
            "SELECT {},{oid},pg_catalog.concat({columns}) OPERATOR(pg_catalog.~) '{SETS}' FROM pg_catalog.{catalog} \
             WHERE {oid} OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
             AND pg_catalog.concat({columns}) OPERATOR(pg_catalog.~) '{LEAVES}'",
            class(of)
        )
    }));
    seeds.join(" UNION ALL ")
}

/// What calls what `leaving` has, as queries over a row of it for the class and the number.
fn callers() -> String {
    let dependent = format!(
        "SELECT classid,objid FROM pg_catalog.pg_depend WHERE refclassid OPERATOR(pg_catalog.=) leaving.class \
         AND refobjid OPERATOR(pg_catalog.=) leaving.id AND (NOT {} OR classid OPERATOR(pg_catalog.=) {})",
        is("pg_class"),
        any_of(&["pg_rewrite", "pg_proc"])
    );
    let owner = format!(
        "SELECT refclassid,refobjid FROM pg_catalog.pg_depend WHERE classid OPERATOR(pg_catalog.=) leaving.class \
         AND objid OPERATOR(pg_catalog.=) leaving.id AND refclassid OPERATOR(pg_catalog.=) {} \
         AND (deptype OPERATOR(pg_catalog.=) ANY('{{a,i}}') AND classid OPERATOR(pg_catalog.=) {} OR {})",
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
    [dependent, owner, parent, referenced, called_by_name()].join(" UNION ALL ")
}

/// Functions whose bodies have the name of what `leaving` has.
fn called_by_name() -> String {
    let of_row = |catalog: &str, name: &str, only: &str| {
        format!(
            "SELECT {name}::pg_catalog.text FROM pg_catalog.{catalog} WHERE oid OPERATOR(pg_catalog.=) leaving.id AND {}{only}",
            is(catalog)
        )
    };
    format!(
        "SELECT {},bodies.id FROM ({} UNION ALL {} UNION ALL {}) AS called(name) JOIN bodies ON pg_catalog.strpos(body,pg_catalog.lower(called.name)) OPERATOR(pg_catalog.>) 0 \
         AND body OPERATOR(pg_catalog.~) pg_catalog.concat('(?:^|[^[:alnum:]_$])',\
         pg_catalog.regexp_replace(pg_catalog.lower(called.name),'[^[:alnum:]_]','.','g'),'(?:$|[^[:alnum:]_$])')",
        class("pg_proc"),
        of_row("pg_proc", "proname", NO_TRIGGER),
        of_row("pg_class", "relname", NO_INDEX),
        of_row("pg_type", "typname", "")
    )
}

/// The names of what was found.
fn names() -> String {
    let named = |catalog: &str, name: &str, only: &str| {
        format!(
            "SELECT {name},composes FROM leaving JOIN pg_catalog.{catalog} AS named \
             ON named.oid OPERATOR(pg_catalog.=) leaving.id AND {}{only}",
            is(catalog)
        )
    };
    let names = [
        named("pg_proc", "proname", NO_TRIGGER),
        named("pg_class", "relname", NO_INDEX),
        named("pg_type", "typname", ""),
        named("pg_operator", "oprname", ""),
        format!(
            "SELECT pg_catalog.unnest('{DEFINING}'::pg_catalog.text[]),composes FROM leaving WHERE {}",
            is("pg_event_trigger")
        ),
        // Of a cast between types of PostgreSQL no text says anything, nor of the tables that TRUNCATE CASCADE reaches.
        format!(
            "SELECT '',composes FROM leaving WHERE {} AND NOT EXISTS(SELECT FROM pg_catalog.pg_depend WHERE classid \
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
    names.join(" UNION ALL ")
}

/// The query for their names, and for those of all that calls them.
pub(crate) fn query() -> String {
    // What is named twice is computed once: the bodies, which are searched for each name. The last condition always holds, and
    // PostgreSQL expects it of few: the query would be compiled otherwise (jit_above_cost), for longer than it runs.
    format!(
        "SELECT CASE WHEN composes THEN '{COMPOSER}' ELSE '{NAME}' END,name FROM (WITH RECURSIVE \
         bodies(id,body) AS (SELECT oid,pg_catalog.lower(prosrc) FROM pg_catalog.pg_proc WHERE oid OPERATOR(pg_catalog.>=) \
         {OF_USERS}::pg_catalog.oid AND (SELECT pg_catalog.sum(pg_catalog.length(prosrc)) FROM pg_catalog.pg_proc WHERE oid \
         OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid) OPERATOR(pg_catalog.<=) {MOST_SEARCHED} \
         AND pg_catalog.strpos(prosrc,'') OPERATOR(pg_catalog.=) 1),\
         leaving(class,id,composes) AS ({} UNION SELECT next.class,next.id,leaving.composes FROM leaving \
         CROSS JOIN LATERAL ({}) AS next(class,id)) SELECT name::pg_catalog.text,pg_catalog.bool_or(composes) \
         FROM ({}) AS names(name,composes) GROUP BY 1 ORDER BY 2 DESC LIMIT {} OFFSET (SELECT 0 FROM bodies LIMIT 1)) \
         AS functions(name,composes)",
        seeds(),
        callers(),
        names(),
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
         (SELECT {} FROM pg_catalog.pg_db_role_setting WHERE {}))",
        hash(&format!("f.oid,{BODY}")),
        leaves(),
        hash("tgrelid,tgfoid,tgtype,tgenabled"),
        hash("oid,polqual,polwithcheck"),
        hash("ev_class,ev_type,ev_enabled"),
        hash("setdatabase,setrole,setconfig"),
        of_session!(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(names: &[&str], composers: &[&str]) -> LeavingFunctions {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let mut functions = LeavingFunctions::default();
        assert!(functions.learn(owned(names), owned(composers)));
        functions
    }

    #[test]
    fn a_text_names_a_function_by_a_whole_word_of_any_case() {
        assert_eq!(LeavingFunctions::default().named_in(b"select take_job(); execute a"), Leaving::Nothing);
        let functions = learned(&["take_job", "été", "Take Job", "==="], &["set_any"]);
        for text in [
            "select take_job()",
            "SELECT * FROM jobs.Take_Job($1)",
            "call \"take_job\"(1)",
            "select été()",
            "select \"Take Job\"()",
            "select 1===2",
            "execute a",
            "select U&\"t\\0061ke_job\"()",
            "select query_to_xml('', true, true, '')",
        ] {
            assert_eq!(functions.named_in(text.as_bytes()).min(Leaving::Askable), Leaving::Askable, "{text}");
        }
        for text in [
            "select retake_job()",
            "select take_job2()",
            "select take_job$()",
            "select ét()",
            "select \"Take  Job\"()",
            "",
        ] {
            assert_eq!(functions.named_in(text.as_bytes()), Leaving::Nothing, "{text}");
        }
        assert_eq!(functions.named_in(b"select take_job(), Set_Any('a.b', '1')"), Leaving::Unknown);
        assert_eq!(functions.named_in(b"select take_job()"), Leaving::Askable);
    }

    #[test]
    fn where_there_are_too_many_or_one_without_a_name_any_text_is_asked_about() {
        let many: Vec<String> = (0..=MOST).map(|n| format!("f{n}")).collect();
        let functions = learned(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        assert_eq!(functions.named_in(b"select 1"), Leaving::Askable);
        assert_eq!(learned(&[""], &[]).named_in(b"select 1"), Leaving::Askable);
    }

    #[test]
    fn texts_are_to_be_judged_again_when_others_are_found() {
        let mut functions = LeavingFunctions::default();
        assert!(!functions.learn(vec![], vec![]), "there are none");
        assert!(functions.learn(vec!["f".into()], vec![]) && !functions.learn(vec!["f".into()], vec![]));
        assert!(functions.learn(vec!["f".into(), "g".into()], vec![]));
        assert!(!functions.learn(vec!["g".into(), "f".into()], vec![]), "in any order");
        assert!(functions.learn(vec!["f".into()], vec!["g".into()]));
    }
}
