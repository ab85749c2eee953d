//! Calls of functions that run a text of SQL which they are given, so that what they do is in an argument.
//!
//! Owns the list of such functions of PostgreSQL and of its contrib modules, and whether the arguments tell what is run:
//! they do if they are literals in one piece, without a backslash, whose words any search of the whole text finds. In
//! doubt they do not. Occurrences are found anywhere, also in literals and comments, as by [`super::mentions`].
//!
//! The list is of what calls `SPI_execute`, `SPI_exec`, `SPI_prepare` or `SPI_cursor_open` with a caller's text: in
//! PostgreSQL 15 `xml.c`, `tsvector_op.c` and `tsquery_rewrite.c`; in contrib `tablefunc`, `xml2` and `dblink`. (The texts
//! of `ri_triggers.c`, `ruleutils.c`, `matview.c` and `refint` are their own, `dblink` sends others to another server, and
//! `cursor_to_xml` reads what another text has opened.) Beside these there are functions that are given the name of a
//! relation, an index or a type, and evaluate its expressions.

use super::mentions::is_name;
use super::steps::count;

/// What is known of the texts that a text runs by such functions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RunsText {
    /// None is called.
    No,
    /// What is run is in the text.
    Shown,
    /// What the catalogs have may be run: views, domains, the expressions of indexes.
    OfCatalogs,
    /// Any text may be run.
    Hidden,
}

/// Which arguments of a function are run, or are a part of what is run.
#[derive(Clone, Copy)]
enum Runs {
    First,
    All,
    /// All, and together they may be several statements.
    AllOfSeveral,
    /// The second of two; of three none.
    SecondOfTwo,
    /// All but the value where a tree begins, which is quoted.
    AllButStart,
    /// What has this name.
    Named,
}

/// Each by its whole name.
const FUNCTIONS: [(&[u8], Runs); 18] = [
    (b"query_to_xml", Runs::First),
    (b"query_to_xmlschema", Runs::First),
    (b"query_to_xml_and_xmlschema", Runs::First),
    (b"ts_stat", Runs::All),
    (b"ts_rewrite", Runs::SecondOfTwo),
    (b"xpath_table", Runs::AllOfSeveral),
    (b"connectby", Runs::AllButStart),
    (b"table_to_xml", Runs::Named),
    (b"table_to_xml_and_xmlschema", Runs::Named),
    (b"schema_to_xml", Runs::Named),
    (b"schema_to_xml_and_xmlschema", Runs::Named),
    (b"database_to_xml", Runs::Named),
    (b"database_to_xml_and_xmlschema", Runs::Named),
    (b"pg_input_is_valid", Runs::Named),
    (b"pg_input_error_info", Runs::Named),
    (b"brin_summarize_new_values", Runs::Named),
    (b"brin_summarize_range", Runs::Named),
    (b"bt_index_check", Runs::Named),
];

/// The beginning of a name, and what its functions run. Those of the first have a number behind it.
const FAMILIES: [(&[u8], Runs); 3] =
    [(b"crosstab", Runs::All), (b"dblink_build_sql_", Runs::Named), (b"bt_index_parent_", Runs::Named)];

/// The most names of such functions whose arguments are read: one may be in a literal of another.
const MOST_CALLS: usize = 8;

/// What a text runs by such functions. One pass, and another one over the arguments of each call.
pub fn runs_text(text: &[u8]) -> RunsText {
    count(text.len());
    let (mut most, mut at, mut calls) = (RunsText::No, 0, 0);
    while at < text.len() {
        let length = text[at..].iter().take_while(|byte| is_of_name(**byte)).count();
        if length == 0 {
            at += 1;
            continue;
        }
        let (word, rest) = text[at..].split_at(length);
        if let Some(runs) = runs_of(word) {
            calls += 1;
            most = most.max(if calls > MOST_CALLS { RunsText::Hidden } else { of_call(runs, rest) });
        }
        if most == RunsText::Hidden {
            break;
        }
        at += length;
    }
    most
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | 0x80..)
}

fn runs_of(word: &[u8]) -> Option<Runs> {
    // All begin with one of these.
    if !matches!(word[0] | 0x20, b'q' | b't' | b'x' | b'c' | b's' | b'd' | b'p' | b'b') {
        return None;
    }
    let is = |name: &[u8]| match word.is_ascii() {
        true => word.eq_ignore_ascii_case(name),
        false => is_name(word, name),
    };
    let is_of = |family: &[u8], runs: Runs| {
        let Some((first, rest)) = word.split_at_checked(family.len()) else { return false };
        first.eq_ignore_ascii_case(family) && (matches!(runs, Runs::Named) || rest.iter().all(u8::is_ascii_digit))
    };
    let one = FUNCTIONS.iter().find(|(name, _)| is(name));
    one.or_else(|| FAMILIES.iter().find(|(family, runs)| is_of(family, *runs))).map(|(_, runs)| *runs)
}

/// What is known of a call, if one follows behind the function's name.
fn of_call(runs: Runs, rest: &[u8]) -> RunsText {
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest).trim_ascii_start();
    match rest.first() {
        Some(b'(') => {}
        // A comment, or the end of what was read, may hide the parenthesis.
        Some(b'-' | b'/' | 0x0b) | None => return RunsText::Hidden,
        Some(_) => return RunsText::No,
    }
    if matches!(runs, Runs::Named) {
        return RunsText::OfCatalogs;
    }
    let Some(arguments) = arguments(&rest[1..]) else { return RunsText::Hidden };
    let tells = |(place, argument): (usize, &Argument)| match runs {
        Runs::First => place > 0 || argument.is_constant,
        Runs::AllOfSeveral => argument.is_constant && !argument.has_semicolon,
        Runs::SecondOfTwo => place != 1 || arguments.len() == 3 || argument.is_constant,
        Runs::AllButStart => place == start_of(&arguments) || argument.is_constant,
        Runs::All | Runs::Named => argument.is_constant,
    };
    if arguments.iter().enumerate().all(tells) { RunsText::Shown } else { RunsText::Hidden }
}

/// Where `connectby` has the value at which the tree begins: behind three names, and one more where rows are ordered.
fn start_of(arguments: &[Argument]) -> usize {
    match arguments.len() {
        7 => 4,
        6 if !arguments[4].is_number => 4,
        _ => 3,
    }
}

/// An argument of a call.
#[derive(Clone, Copy, Default)]
struct Argument {
    /// It is one literal, or a number.
    is_constant: bool,
    is_number: bool,
    has_semicolon: bool,
}

/// The most arguments that are read, and more than any of these functions has.
const MOST: usize = 8;

/// The arguments of a call, up to its closing parenthesis; `None`: that is not clear.
fn arguments(text: &[u8]) -> Option<Vec<Argument>> {
    let (mut found, mut begin, mut depth, mut at) = (Vec::new(), 0, 0_usize, 0);
    count(text.len());
    while at < text.len() && found.len() < MOST {
        match text[at] {
            b'\'' | b'"' | b'$' => {
                at += quoted(&text[at..])?;
                continue;
            }
            b'-' if text.get(at + 1) == Some(&b'-') => return None,
            b'/' if text.get(at + 1) == Some(&b'*') => return None,
            b'(' | b'[' => depth += 1,
            b')' | b']' if depth > 0 => depth -= 1,
            end @ (b',' | b')') if depth == 0 => {
                found.push(argument(text[begin..at].trim_ascii()));
                if end == b')' {
                    return Some(found);
                }
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// How long what begins here is: a quoted value or name, or a `$`; `None`: it has no end, or escapes.
fn quoted(text: &[u8]) -> Option<usize> {
    if text[0] == b'$' {
        let Some(tag) = tag_of(text) else { return Some(1) };
        let end = text[tag..].windows(tag).position(|part| part == &text[..tag])?;
        return Some(tag + end + tag);
    }
    let mut at = 1;
    loop {
        let length = text[at..].iter().position(|byte| *byte == text[0])?;
        if text[at..at + length].contains(&b'\\') {
            return None;
        }
        at += length + 1;
        if text.get(at) != Some(&text[0]) {
            return Some(at);
        }
        at += 1;
    }
}

/// The length of the `$tag$` with which a text begins, if it is one and no parameter.
fn tag_of(text: &[u8]) -> Option<usize> {
    let length = text[1..].iter().position(|byte| *byte == b'$')?;
    let tag = &text[1..1 + length];
    let is_tag = tag.first().is_none_or(|first| !first.is_ascii_digit())
        && tag.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | 0x80..));
    is_tag.then_some(length + 2)
}

fn argument(text: &[u8]) -> Argument {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    let literal = match text.first() {
        Some(b'\'') => quoted(text),
        Some(b'$') if tag_of(text).is_some() => quoted(text),
        _ => None,
    };
    let behind = literal.map(|length| text[length..].trim_ascii_start());
    let is_cast = |behind: &[u8]| behind.strip_prefix(b"::").is_some_and(|name| name.eq_ignore_ascii_case(b"text"));
    let is_literal = behind.is_some_and(|behind| behind.is_empty() || is_cast(behind));
    Argument { is_constant: is_number || is_literal, is_number, has_semicolon: text.contains(&b';') }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_function_runs_is_in_the_text_only_if_it_is_a_literal_in_one_piece() {
        for text in [
            "select query_to_xml('select 1', true, true, '')",
            "select query_to_xml('select ''a'' || (b) from t', $1, f(x), '')",
            "select pg_catalog.\"query_to_xmlschema\" ( 'select 1'::text, true, true, '')",
            "select * from crosstab($$ select a, 'b', c from t $$, $a$ select $$x$$ $a$) as ct(a int)",
            "select * from Crosstab('select 1', 2), crosstab3('select 1')",
            "select * from ts_stat('select v from t', 'ab')",
            "select ts_rewrite(a, b, c), ts_rewrite(plainto_tsquery($1, $2), 'select t, s from aliases')",
            "select * from connectby('t', 'id', 'parent', $1, 0, '~'), connectby('t', 'id', 'parent', $1, 0)",
            "select * from connectby('t', 'id', 'parent', 'n', $1, 0), connectby('t', 'id', 'p', 'n', x, 0, '~')",
            "select * from xpath_table('id', 'x', 't', '/a', 'true') as t(i int)",
        ] {
            assert_eq!(runs_text(text.as_bytes()), RunsText::Shown, "{text}");
        }
        for text in [
            "select query_to_xml($1, true, true, '')",
            "select query_to_xml('sel' || 'ect 1', true, true, '')",
            "select query_to_xml('sel'\n'ect 1', true, true, '')",
            "select query_to_xml(E'select 1', true, true, '')",
            "select query_to_xml('select \\x', true, true, '')",
            "select query_to_xml(/* a */ 'select 1', true, true, '')",
            "select query_to_xml--\n('select 1', true, true, '')",
            "select query_to_xml(nulls => true, query => $1)",
            "select query_to_xml(q, true, true, '') from t",
            "select query_to_xml('select query_to_xml(''sel'' || ''ect'', true, true, '''')', true, true, '')",
            "select QUERY_TO_XML_AND_XMLSCHEMA(concat('a', 'b'), true, true, '')",
            "select * from crosstab('select 1', $1)",
            "select * from crosstab5(q)",
            "select ts_rewrite(a, b), ts_rewr\u{130}te(a, b)",
            "select * from connectby($1, 'id', 'parent', 'x', 0)",
            "select * from connectby('t', 'id', 'parent', $1, 'x', 0)",
            "select * from xpath_table('id', 'x', 't', '/a', 'true; set my.own = 1')",
            "select ts_stat('select 1'",
            "select query_to_xml",
        ] {
            assert_eq!(runs_text(text.as_bytes()), RunsText::Hidden, "{text}");
        }
        for text in ["select table_to_xml('v', true, true, '')", "select bt_index_check('i', true)"] {
            assert_eq!(runs_text(text.as_bytes()), RunsText::OfCatalogs, "{text}");
        }
        for text in [
            "",
            "select 1",
            "select ts_stat from t",
            "select my_query_to_xml(q), ts_state(a)",
            "insert into crosstabs (a) values ('é')",
        ] {
            assert_eq!(runs_text(text.as_bytes()), RunsText::No, "{text}");
        }
    }
}
