//! Functions whose bodies say that they leave state, and all that calls them unseen (`mode = "auto"`): after a text that
//! names one of them the server is asked each time, although most of its executions may leave nothing, as those of a
//! function that takes a job with its lock.
//!
//! Owns the names of a pool's database, looked for where bodies are read ([`crate::function_bodies`]), and the rule for
//! texts. What calls such a function is found by what depends on it (`pg_depend`): tables with triggers, constraints,
//! defaults, policies, rules or indexes, views, domains, operators, casts, aggregates; tables from which a foreign key
//! or inheritance leads there; and functions whose bodies have one of the names. What a body composes counts as state,
//! so does anything in another language than SQL and PL/pgSQL. On functions of PostgreSQL nothing is noted to depend:
//! what is made over those that leave state is found by their numbers ([`LEAVING`]). Functions in the languages internal
//! and C are known by the names of their code ([`CODE`], [`RUNNERS`]); of others in C nothing is known, but that an
//! argument may be named as SQL.
//! Source: PostgreSQL's documentation, "pg_depend", "Dependency Tracking".
//!
//! Bounded: [`MOST`] names a pool and worker; where there are more, each text is asked about.

use std::collections::HashMap;

use weir_pgwire::Dirty;
use weir_pgwire::sql::RunsText;

use crate::custom_names::OF_USERS;
use crate::session_defaults::of_session;

/// The most names that are known.
const MOST: usize = 512;

/// The most characters of bodies that are searched for names of what leaves state: a few milliseconds for each name.
const MOST_SEARCHED: u32 = 16 << 20;

/// Marks a row with a name, which is empty where any text may call a function that leaves state.
pub(crate) const NAME: &str = "*function";

/// Marks a row with a name behind which a command may run that it composes.
pub(crate) const EXECUTOR: &str = "*executor";

/// Marks a row with a name behind which a setting may be set whose name nobody can tell.
pub(crate) const COMPOSER: &str = "*composer";

/// Marks a row with a hash of all that leaves state as far as bodies say so, and of what may call it unseen.
pub(crate) const SOURCES: &str = "*sources";

/// White space and comments, as PostgreSQL's regular expression. Here and below there is no backslash, which would depend
/// on `standard_conforming_strings`.
const GAP: &str = "(?:[[:space:]]|--[^\n]*\n|/[*](?:[^*]|[*][^/])*[*]/)*";

/// Found in the body of a function that leaves state, for any case. SET is a command where a statement may begin.
pub(crate) fn in_body() -> String {
    format!(
        "advisory_lock|[[:<:]](?:listen|prepare|temp|temporary|discard|pg_settings)[[:>:]]|[[:<:]]pg_temp\
         |with[[:space:]]+hold\
         |set_config\"?{GAP}[(](?!(?:[^()]|[(][^()]*[)])*,[[:space:]]*true[[:space:]]*[)])\
         |{}|(?:^|[;''\"$]|>>|[[:<:]](?:begin|then|else|loop)[[:>:]]){GAP}\
         (?:set(?:[[:space:]]+(?!local[[:>:]])|[/-])|reset[[:>:]])",
        runs_hidden()
    )
}

/// Found in a body that composes a command, which may be any, but for those that are [`shown`]. Apart from the others:
/// together they take several times as long.
fn in_commands() -> String {
    format!("[[:<:]]execute[[:>:]](?![[:space:]]*(?:{}))", shown())
}

/// Found behind EXECUTE where the command certainly is one of rows, or about a table, with names and values as its only
/// unknown parts: a literal; `format()` of a literal with `%I` and `%L`; literals with `quote_ident()` and the like
/// between them. These parts can't hold a second command. Nor are they the name of a function, as no parenthesis
/// follows, but behind INTO, nor a part of one, as no letter stands beside them; nor may one be `pg_settings` where
/// `setting` is set.
fn shown() -> String {
    const VERB: &str = "(?:insert|update|delete|merge|truncate|analyze|refresh|lock|alter|drop)[[:>:]]";
    const END: &str = "[[:space:]]*(?:;|$|[[:<:]](?:using|into|loop)[[:>:]])";
    const VALUE: &str = "(?:[^();'']|''[^''();]*''|[(](?:[^();'']|''[^''();]*''|[(][^();]*[)])*[)])*";
    const FORMAT: &str = "(?:[^''%:]|''''|:(?!%)|into[[:space:]]+(?:[a-z0-9_.]|%(?:[0-9]+[$])?i)+\
         |%(?:[0-9]+[$])?(?:i(?![[:space:]]*[(]|[a-z0-9_$%])|l))*";
    const SETTING: &str = "update[[:>:]][^'']*(?:setting|set[[:space:]]+%)";
    const BESIDE: &str = "[[:space:]]*[|][|][[:space:]]*";
    const REST: &str = "(?:[^'']|'''')*";
    let quoted = format!("quote_(?:ident|literal|nullable)[[:space:]]*[(]{VALUE}[)]");
    let (first, last) = ("''[[:space:].,)=](?![[:space:]]*[(])", "[[:space:].=(,]''");
    format!(
        "''[[:space:]]*{VERB}{REST}''{END}\
         |format[[:space:]]*[(][[:space:]]*''[[:space:]]*(?!{SETTING}){VERB}{FORMAT}''[[:space:]]*(?:,{VALUE})?[)]{END}\
         |''[[:space:]]*(?!update[[:>:]]){VERB}{REST}{last}{BESIDE}{quoted}\
         (?:{BESIDE}(?:{first}{REST}{last}|''[.,=]''){BESIDE}{quoted})*\
         (?:{BESIDE}(?:{first}{REST}|''[)])'')?{END}"
    )
}

/// Found in a body that runs a text of which it does not show all, by a function that runs texts.
fn runs_hidden() -> String {
    const TEXT: &str = "(?:''(?:[^'']|'''')*''|[$][$][^$]*[$][$])";
    format!(
        "[[:<:]](?:query_to_xml(?:schema|_and_xmlschema)?\"?{GAP}[(](?!{GAP}{TEXT}{GAP},)\
         |(?:ts_stat|crosstab[0-9]*)\"?{GAP}[(](?!{GAP}{TEXT}{GAP}(?:,{GAP}(?:{TEXT}|[0-9]+){GAP})?[)])\
         |ts_rewrite\"?{GAP}[(](?!(?:[^(),'']|[(][^()'']*[)])*,(?:[^(),'']|[(][^()'']*[)])*,)\
         |(?:connectby|xpath_table)\"?{GAP}[(])"
    )
}

/// Found in the body of a function that sets a setting whose name is not in its text.
fn composes() -> String {
    format!(
        "set_config\"?{GAP}[(](?!(?:[^()]|[(][^()]*[)])*,[[:space:]]*true[[:space:]]*[)])(?!{GAP}''[a-z_][a-z0-9_.]*''{GAP},)\
         |{}|(?:^|[;''\"$]|>>|[[:<:]](?:begin|then|else|loop)[[:>:]]){GAP}set[[:space:]]+(?:session[[:space:]]+)?\"\
         |''[[:space:]]*set[[:space:]]+(?!local[[:>:]])[^''%=]*(?:%|''[[:space:]]*[|])",
        runs_hidden()
    )
}

/// Functions of PostgreSQL (`pg_proc.dat`) that leave state, or run a text that they are given
/// ([`weir_pgwire::sql::runs_text()`]), and those of them that may set what nobody can name.
const LEAVING: &str = "2078|288[0-36-9]|2924|2927|2930|3685|3689|3690";
const UNTOLD: &str = "2078|2924|2927|2930|3685|3689|3690";

/// The code of functions that leave state, and of those that run a text, as `pg_proc.prosrc` has it.
const CODE: &str = "set_config_by_name|(?:[a-z]+_)*advisory_lock_";
const RUNNERS: &str = "query_to_xml|ts_stat[12]|tsquery_rewrite_query|crosstab|connectby_text|xpath_table";

/// Their calls, as an expression has them that is stored.
const LEAVES: &str = ":funcid (?:2078|288[0-36-9]|2924|2927|2930|3685|3689|3690) ";

/// Calls that set a setting, or run a text that is no constant; or one that sets something: it is stored as bytes, and
/// these are `set_config`.
const SETS: &str = ":funcid (?:2078 |3685 |(?:2924|2927|2930|3689|3690) [^{]*:args [(](?![{]CONST ))\
     |(?:115|83) (?:101|69) (?:116|84) 95 (?:99|67) (?:111|79) (?:110|78) (?:102|70) (?:105|73) (?:103|71) ";

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

/// The words of commands that an event trigger may run for.
const DEFINING: &str = "{alter,cluster,comment,create,drop,grant,import,into,refresh,reindex,revoke,security}";

/// Objects that call no function, by the tags of CREATE and ALTER.
const CALL_NONE: [&[u8]; 11] = [
    b"COLLATION",
    b"DATABASE",
    b"DEFAULT PRIVILEGES",
    b"LARGE OBJECT",
    b"ROLE",
    b"SEQUENCE",
    b"SERVER",
    b"SUBSCRIPTION",
    b"SYSTEM",
    b"TABLESPACE",
    b"USER MAPPING",
];

/// Objects that call only functions of users, or those that their text calls by name. Any other may be made over one of
/// PostgreSQL's, as an operator is.
const CALL_NAMED: [&[u8]; 14] = [
    b"DOMAIN",
    b"EVENT TRIGGER",
    b"FOREIGN TABLE",
    b"INDEX",
    b"MATERIALIZED VIEW",
    b"POLICY",
    b"PUBLICATION",
    b"RULE",
    // With what it holds.
    b"SCHEMA",
    b"STATISTICS",
    b"TABLE",
    b"TRIGGER",
    b"TYPE",
    b"VIEW",
];

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
    /// Also what a command leaves that is composed. It seldom sets a setting with a name of two parts, for which no
    /// server can be asked: so its client keeps no server for it, and the settings of the server are reset behind it.
    Composed,
    /// Also such a setting: its client keeps the server.
    Unknown,
}

impl LeavingFunctions {
    /// A server has named all, with what each leaves. Returns whether they are others than before: texts are to be
    /// judged again.
    pub(crate) fn learn(&mut self, mut found: Vec<(String, Leaving)>) -> bool {
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

    /// Whether a command with this tag, whose text may leave `kinds`, may change what leaves state, or what calls it. So may
    /// each kind of object that is not known to call nothing.
    pub(crate) fn may_change_by(&self, tag: &[u8], kinds: Dirty) -> bool {
        let has_callers = !self.found.is_empty() || kinds.has_any(Dirty::SETTINGS.union(Dirty::LOCKS));
        match tag.strip_prefix(b"CREATE ").or_else(|| tag.strip_prefix(b"ALTER ")) {
            // Which may be ALTER … SET.
            _ if matches!(tag, b"ALTER ROLE" | b"ALTER DATABASE") => true,
            None => false,
            Some(kind) if CALL_NONE.contains(&kind) => false,
            Some(kind) => has_callers || !CALL_NAMED.contains(&kind),
        }
    }

    /// What a text may leave that names one of them, or executes a statement whose text may. Reads the text a few times: once
    /// for each text of a pool.
    pub(crate) fn named_in(&self, text: &[u8], runs: RunsText) -> Leaving {
        let by_call = match runs {
            RunsText::No => Leaving::Nothing,
            RunsText::Shown => Leaving::Askable,
            RunsText::OfCatalogs => self.most(),
            RunsText::Hidden => Leaving::Unknown,
        };
        let words = text.split(|byte| !is_of_name(*byte)).filter(|word| !word.is_empty());
        let of_word = |(word, next): (&[u8], &[u8])| {
            let word = word.to_ascii_lowercase();
            let known = self.words.get(&*word).copied().unwrap_or_default();
            if word == b"execute" { known.max(self.executed(next)) } else { known }
        };
        let next = words.clone().skip(1).chain([&b""[..]]);
        let has = |name: &[u8]| text.windows(name.len()).any(|part| part == name);
        // Of two quotes in a quoted name one counts; a name with escapes may be any.
        let is_there = |name: &[u8]| !name.is_empty() && if name.contains(&b'"') { has(b"\"\"") } else { has(name) };
        let others = self.others.iter().filter(|(name, _)| is_there(name)).map(|(_, what)| *what);
        let escaped = Some(self.most()).filter(|_| has(b"U&\"") || has(b"u&\""));
        words.zip(next).map(of_word).chain(others).chain(escaped).max().unwrap_or_default().max(self.any).max(by_call)
    }

    /// What a statement may leave that is executed, as this word behind EXECUTE says: a privilege and a trigger execute none.
    fn executed(&self, next: &[u8]) -> Leaving {
        let is = |word: &[u8]| next.eq_ignore_ascii_case(word);
        let runs_none = is(b"on") || is(b"function") || is(b"procedure");
        if runs_none { self.askable() } else { self.most() }
    }

    /// What any of them may leave.
    pub(crate) fn most(&self) -> Leaving {
        self.found.iter().map(|(_, what)| *what).max().unwrap_or_default()
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

fn is_word(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| is_of_name(*byte))
}

/// What the name in a row with this mark leaves; `None`: it is no mark of names.
pub(crate) fn marked(mark: &str) -> Option<Leaving> {
    match mark {
        NAME => Some(Leaving::Askable),
        EXECUTOR => Some(Leaving::Composed),
        COMPOSER => Some(Leaving::Unknown),
        _ => None,
    }
}

/// The text of a function `f`; one in `BEGIN ATOMIC` has none of its own.
const BODY: &str = "CASE WHEN prosrc OPERATOR(pg_catalog.=) '' AND NOT EXISTS(SELECT FROM pg_catalog.pg_aggregate \
     WHERE aggfnoid OPERATOR(pg_catalog.=) f.oid) THEN pg_catalog.pg_get_functiondef(f.oid) ELSE prosrc END";

/// The condition for a function that is in one of these languages.
fn language(which: &str) -> String {
    format!(
        "prolang OPERATOR(pg_catalog.=) ANY(ARRAY(SELECT language.oid FROM pg_catalog.pg_language AS language \
         WHERE lanname OPERATOR(pg_catalog.=) ANY('{{{which}}}')))"
    )
}

/// The condition for a function `f` that leaves state itself.
fn leaves() -> String {
    format!(
        "f.oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid AND CASE WHEN {} THEN prosrc OPERATOR(pg_catalog.~) \
         '^(?:{CODE}|{RUNNERS})' OR pg_catalog.array_to_string(proargnames[1:pronargs],' ') OPERATOR(pg_catalog.~) \
         '(?:^|[ _])(?:sql|query|statement|command)(?:$|[ _])' ELSE NOT {} OR {BODY} OPERATOR(pg_catalog.~*) '{}' \
         OR {BODY} OPERATOR(pg_catalog.~*) '{}' END",
        language("internal,c"),
        language("sql,plpgsql"),
        in_body(),
        in_commands()
    )
}

/// What a function `f` that leaves state may set: 2 for what nobody can name, 1 for what a command sets that it
/// composes, 0 for what a server can be asked for.
fn level() -> String {
    format!(
        "CASE WHEN {} THEN CASE WHEN {} THEN 0 \
         WHEN prosrc OPERATOR(pg_catalog.~) '^(?:set_config_by_name|{RUNNERS})' THEN 2 \
         WHEN prosrc OPERATOR(pg_catalog.~) '^(?:{CODE})' THEN 0 ELSE 1 END \
         WHEN {BODY} OPERATOR(pg_catalog.~*) '{}' THEN 2 WHEN NOT {} OR {BODY} OPERATOR(pg_catalog.~*) '{}' THEN 1 ELSE 0 END",
        language("internal,c"),
        is_read_here("f."),
        composes(),
        language("sql,plpgsql"),
        in_commands()
    )
}

/// The condition for a function in C that runs a text: texts and bodies are read for what they give it.
fn is_read_here(of: &str) -> String {
    format!(
        "({of}proname OPERATOR(pg_catalog.~) '^(?:crosstab[0-9]*|connectby|xpath_table)$' \
         AND {of}probin IS NOT NULL AND {of}prosrc OPERATOR(pg_catalog.~) '^(?:{RUNNERS})')"
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
/// the [`level`] of what they may set.
fn seeds() -> String {
    let mut seeds = vec![format!(
        "SELECT {}::pg_catalog.oid,f.oid,{} FROM pg_catalog.pg_proc AS f WHERE {}",
        class("pg_proc"),
        level(),
        leaves()
    )];
    seeds.extend([
        over_built_in("pg_operator", "pg_operator", "oid", &["oprcode"]),
        over_built_in("pg_cast", "pg_cast", "oid", &["castfunc"]),
        over_built_in("pg_aggregate", "pg_proc", "aggfnoid", &AGGREGATED),
        views_of_runners(),
    ]);
    seeds.extend(EXPRESSIONS.map(|(catalog, of, oid, columns)| {
        format!(
            "SELECT {},{oid},CASE WHEN pg_catalog.concat({columns}) OPERATOR(pg_catalog.~) '{SETS}' THEN 2 ELSE 0 END \
             FROM pg_catalog.{catalog} \
             WHERE {oid} OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
             AND pg_catalog.concat({columns}) OPERATOR(pg_catalog.~) '{LEAVES}'",
            class(of)
        )
    }));
    seeds.join(" UNION ALL ")
}

/// The functions of an aggregate.
const AGGREGATED: [&str; 6] =
    ["aggtransfn", "aggfinalfn", "aggcombinefn", "aggmtransfn", "aggminvtransfn", "aggmfinalfn"];

/// What is made over a function of PostgreSQL, on which nothing is noted to depend.
fn over_built_in(catalog: &str, of: &str, oid: &str, columns: &[&str]) -> String {
    let numbers: Vec<_> = columns.iter().map(|column| format!("{column}::pg_catalog.oid")).collect();
    let numbers = format!("pg_catalog.concat(' ',{},' ')", numbers.join(",' ',"));
    format!(
        "SELECT {},{oid}::pg_catalog.oid,CASE WHEN {numbers} OPERATOR(pg_catalog.~) ' (?:{UNTOLD}) ' THEN 2 ELSE 0 END \
         FROM pg_catalog.{catalog} \
         WHERE {oid}::pg_catalog.oid OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid \
         AND {numbers} OPERATOR(pg_catalog.~) ' (?:{LEAVING}) '",
        class(of)
    )
}

/// Views and rules that have a function in C run a text that is no constant, or sets something.
fn views_of_runners() -> String {
    format!(
        "SELECT classid,objid,2 FROM pg_catalog.pg_proc AS f JOIN pg_catalog.pg_depend ON refobjid \
         OPERATOR(pg_catalog.=) f.oid AND refclassid OPERATOR(pg_catalog.=) {} AND classid OPERATOR(pg_catalog.=) {} \
         JOIN pg_catalog.pg_rewrite AS view ON view.oid OPERATOR(pg_catalog.=) objid WHERE {} \
         AND ev_action OPERATOR(pg_catalog.~) pg_catalog.concat(':funcid ',f.oid,' [^{{]*:args [(](?![{{]CONST )|{SETS}')",
        class("pg_proc"),
        class("pg_rewrite"),
        is_read_here("f.")
    )
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
    // The type of a table is not converted by what the table calls.
    let composite = format!(
        "SELECT {},reltype FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=) leaving.id AND {} \
         AND relkind OPERATOR(pg_catalog.=) 'c'",
        class("pg_type"),
        is("pg_class")
    );
    [dependent, owner, parent, referenced, composite, called_by_name()].join(" UNION ALL ")
}

/// Functions whose bodies have the name of what `leaving` has.
fn called_by_name() -> String {
    let no_trigger = [NO_TRIGGER, " AND NOT ", &is_read_here("")].concat();
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
        of_row("pg_proc", "proname", &no_trigger),
        of_row("pg_class", "relname", NO_INDEX),
        of_row("pg_type", "typname", "")
    )
}

/// The names of what was found.
fn names() -> String {
    let no_trigger = [NO_TRIGGER, " AND NOT ", &is_read_here("named.")].concat();
    let named = |catalog: &str, name: &str, only: &str| {
        format!(
            "SELECT {name},level FROM leaving JOIN pg_catalog.{catalog} AS named \
             ON named.oid OPERATOR(pg_catalog.=) leaving.id AND {}{only}",
            is(catalog)
        )
    };
    let names = [
        named("pg_proc", "proname", &no_trigger),
        named("pg_class", "relname", NO_INDEX),
        named("pg_type", "typname", ""),
        named("pg_operator", "oprname", ""),
        format!(
            "SELECT pg_catalog.unnest('{DEFINING}'::pg_catalog.text[]),level FROM leaving WHERE {}",
            is("pg_event_trigger")
        ),
        // Of a cast between types of PostgreSQL no text says anything, nor of the tables that TRUNCATE CASCADE reaches.
        format!(
            "SELECT '',level FROM leaving WHERE {} AND NOT EXISTS(SELECT FROM pg_catalog.pg_depend WHERE classid \
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
        "SELECT CASE WHEN level OPERATOR(pg_catalog.=) 2 THEN '{COMPOSER}' WHEN level OPERATOR(pg_catalog.=) 1 \
         THEN '{EXECUTOR}' ELSE '{NAME}' END,name FROM (WITH RECURSIVE \
         bodies(id,body) AS (SELECT oid,pg_catalog.lower(prosrc) FROM pg_catalog.pg_proc WHERE oid OPERATOR(pg_catalog.>=) \
         {OF_USERS}::pg_catalog.oid AND (SELECT pg_catalog.sum(pg_catalog.length(prosrc)) FROM pg_catalog.pg_proc WHERE oid \
         OPERATOR(pg_catalog.>=) {OF_USERS}::pg_catalog.oid) OPERATOR(pg_catalog.<=) {MOST_SEARCHED} \
         AND pg_catalog.strpos(prosrc,'') OPERATOR(pg_catalog.=) 1),\
         leaving(class,id,level) AS ({} UNION SELECT next.class,next.id,leaving.level FROM leaving \
         CROSS JOIN LATERAL ({}) AS next(class,id)) SELECT name::pg_catalog.text,pg_catalog.max(level) \
         FROM ({}) AS names(name,level) GROUP BY 1 ORDER BY 2 DESC LIMIT {} OFFSET (SELECT 0 FROM bodies LIMIT 1)) \
         AS functions(name,level)",
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

    fn found(names: &[&str], composers: &[&str]) -> Vec<(String, Leaving)> {
        let are = |names: &[&str], what| names.iter().map(|name| ((*name).to_owned(), what)).collect::<Vec<_>>();
        [are(names, Leaving::Askable), are(composers, Leaving::Unknown)].concat()
    }

    fn learned(names: &[&str], composers: &[&str]) -> LeavingFunctions {
        let mut functions = LeavingFunctions::default();
        assert!(functions.learn(found(names, composers)));
        functions
    }

    fn named_in(functions: &LeavingFunctions, text: &str) -> Leaving {
        functions.named_in(text.as_bytes(), weir_pgwire::sql::runs_text(text.as_bytes()))
    }

    #[test]
    fn a_text_names_a_function_by_a_whole_word_of_any_case() {
        assert_eq!(named_in(&LeavingFunctions::default(), "select take_job(); execute a"), Leaving::Nothing);
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
            "select table_to_xml('', true, true, '')",
        ] {
            assert_eq!(named_in(&functions, text).min(Leaving::Askable), Leaving::Askable, "{text}");
        }
        for text in [
            "select retake_job()",
            "select take_job2()",
            "select take_job$()",
            "select ét()",
            "select \"Take  Job\"()",
            "",
        ] {
            assert_eq!(named_in(&functions, text), Leaving::Nothing, "{text}");
        }
        assert_eq!(named_in(&functions, "select take_job(), Set_Any('a.b', '1')"), Leaving::Unknown);
        assert_eq!(named_in(&functions, "select take_job()"), Leaving::Askable);
        assert_eq!(named_in(&functions, "explain analyze Execute a('my.own')"), Leaving::Unknown);
        assert_eq!(named_in(&functions, "grant execute on function f() to a"), Leaving::Askable);
        assert_eq!(named_in(&functions, "select query_to_xml($1, true, true, '')"), Leaving::Unknown);
        assert_eq!(named_in(&LeavingFunctions::default(), "select ts_stat($1)"), Leaving::Unknown);
    }

    #[test]
    fn a_definition_of_a_kind_that_is_not_known_to_call_nothing_may_change_what_calls_functions() {
        let (none, some) = (LeavingFunctions::default(), learned(&["f"], &[]));
        for (tag, kinds, without, with) in [
            ("CREATE FUNCTION", Dirty::NONE, true, true),
            ("ALTER OPERATOR CLASS", Dirty::NONE, true, true),
            ("CREATE THING OF A LATER VERSION", Dirty::NONE, true, true),
            ("ALTER ROLE", Dirty::NONE, true, true),
            ("CREATE TYPE", Dirty::NONE, false, true),
            ("CREATE FOREIGN TABLE", Dirty::NONE, false, true),
            ("CREATE VIEW", Dirty::LOCKS, true, true),
            ("CREATE ROLE", Dirty::LOCKS, false, false),
            ("ALTER SEQUENCE", Dirty::NONE, false, false),
            ("DROP FUNCTION", Dirty::NONE, false, false),
        ] {
            let may = |known: &LeavingFunctions| known.may_change_by(tag.as_bytes(), kinds);
            assert_eq!((may(&none), may(&some)), (without, with), "{tag}");
        }
    }

    #[test]
    fn where_there_are_too_many_or_one_without_a_name_any_text_is_asked_about() {
        let many: Vec<String> = (0..=MOST).map(|n| format!("f{n}")).collect();
        let functions = learned(&many.iter().map(String::as_str).collect::<Vec<_>>(), &[]);
        assert_eq!(functions.named_in(b"select 1", RunsText::No), Leaving::Askable);
        assert_eq!(learned(&[""], &[]).named_in(b"select 1", RunsText::No), Leaving::Askable);
    }

    #[test]
    fn texts_are_to_be_judged_again_when_others_are_found() {
        let mut functions = LeavingFunctions::default();
        assert!(!functions.learn(vec![]), "there are none");
        assert!(functions.learn(found(&["f"], &[])) && !functions.learn(found(&["f"], &[])));
        assert!(functions.learn(found(&["f", "g"], &[])));
        assert!(!functions.learn(found(&["g", "f"], &[])), "in any order");
        assert!(functions.learn(found(&["f"], &["g"])));
    }
}
