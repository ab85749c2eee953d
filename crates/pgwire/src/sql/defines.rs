//! What the commands of a text define, where their tags say less: CREATE TABLE is the tag of a temporary table, too, and
//! CREATE INDEX that of an index on an expression, which calls functions.
//!
//! Owns the grammar of the few commands that change nothing for others, or nothing that a text may call. Whatever is not
//! one of them certainly counts as a definition of any kind.
//! Source: PostgreSQL's documentation, "CREATE TABLE", "CREATE INDEX", "DROP TABLE".

use std::borrow::Cow;

use super::scan::{Scan, Token};

/// The most temporary tables whose names are remembered: the text may drop them.
const MOST: usize = 8;

/// What a text defines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Defines {
    /// Anything, as far as its tags say, which may be nothing.
    #[default]
    ByTag,
    /// Only temporary objects.
    Temporary,
    /// Only these, and indexes on columns.
    Indexes,
}

/// What a text defines that may have several commands. Reads the text once.
pub(super) fn defines(text: &[u8]) -> Defines {
    judge(Scan::whole(text)).unwrap_or_default()
}

/// `None`: it may define anything.
fn judge(mut scan: Scan<'_>) -> Option<Defines> {
    let mut temporary: Vec<Cow<'_, [u8]>> = Vec::new();
    let mut is_plain = false;
    let mut defines_some = false;
    loop {
        scan.statement();
        if scan.ends() {
            break;
        }
        if scan.word(b"create") {
            defines_some = true;
            match created(&mut scan)? {
                Created::Temporary(name) => temporary.extend(name.filter(|_| temporary.len() < MOST)),
                Created::Index => is_plain = true,
            }
        } else if scan.word(b"drop") {
            defines_some = true;
            dropped(&mut scan, &mut temporary)?;
        } else if scan.word(b"alter") {
            return None;
        } else if !leaves_tables(&mut scan) {
            temporary.clear();
        }
        end(&mut scan)?;
    }
    Some(match (defines_some, is_plain) {
        (false, _) => Defines::ByTag,
        (true, false) => Defines::Temporary,
        (true, true) => Defines::Indexes,
    })
}

enum Created<'a> {
    /// An object of the session; a table with its name, where it has no schema.
    Temporary(Option<Cow<'a, [u8]>>),
    /// An index on columns.
    Index,
}

/// After CREATE.
fn created<'a>(scan: &mut Scan<'a>) -> Option<Created<'a>> {
    let index = *scan;
    let _ = scan.word(b"or") && scan.word(b"replace");
    let _ = scan.word(b"global") || scan.word(b"local");
    if !scan.word(b"temp") && !scan.word(b"temporary") {
        *scan = index;
        return index_on_columns(scan).map(|()| Created::Index);
    }
    if !scan.word(b"table") {
        return Some(Created::Temporary(None));
    }
    let _ = scan.word(b"if") && scan.word(b"not") && scan.word(b"exists");
    let name = scan.name();
    Some(Created::Temporary(name.filter(|_| scan.peek() != Some(b'.'))))
}

/// `[UNIQUE] INDEX [CONCURRENTLY] [[IF NOT EXISTS] name] ON [ONLY] table [USING method] (column [ASC | DESC] [NULLS {FIRST |
/// LAST}], …) [INCLUDE (column, …)]`, and nothing behind it. The operators are those of the columns' types.
fn index_on_columns(scan: &mut Scan<'_>) -> Option<()> {
    let _ = scan.word(b"unique");
    scan.word(b"index").then_some(())?;
    let _ = scan.word(b"concurrently");
    let _ = scan.word(b"if") && scan.word(b"not") && scan.word(b"exists");
    if !scan.word(b"on") {
        scan.name()?;
        scan.word(b"on").then_some(())?;
    }
    let _ = scan.word(b"only");
    scan.name()?;
    if scan.symbol(b'.') {
        scan.name()?;
    }
    if scan.word(b"using") {
        scan.name()?;
    }
    columns(scan)?;
    if scan.word(b"include") {
        columns(scan)?;
    }
    scan.ends_statement().then_some(())
}

fn columns(scan: &mut Scan<'_>) -> Option<()> {
    scan.symbol(b'(').then_some(())?;
    loop {
        scan.name()?;
        let _ = scan.word(b"asc") || scan.word(b"desc");
        let _ = scan.word(b"nulls") && (scan.word(b"first") || scan.word(b"last"));
        if !scan.symbol(b',') {
            return scan.symbol(b')').then_some(());
        }
    }
}

/// `TABLE [IF EXISTS] name, … [CASCADE | RESTRICT]`, after DROP: only of temporary tables that the text has created.
fn dropped(scan: &mut Scan<'_>, temporary: &mut Vec<Cow<'_, [u8]>>) -> Option<()> {
    scan.word(b"table").then_some(())?;
    let _ = scan.word(b"if") && scan.word(b"exists");
    loop {
        let name = scan.name()?;
        let known = temporary.iter().position(|known| *known == name)?;
        temporary.swap_remove(known);
        if !scan.symbol(b',') {
            break;
        }
    }
    let _ = scan.word(b"cascade") || scan.word(b"restrict");
    scan.ends_statement().then_some(())
}

/// Whether temporary tables are still there after a command that begins so: the end of a transaction may drop them.
fn leaves_tables(scan: &mut Scan<'_>) -> bool {
    const WORDS: [&[u8]; 9] =
        [b"select", b"insert", b"update", b"delete", b"with", b"analyze", b"truncate", b"begin", b"copy"];
    WORDS.iter().any(|word| scan.word(word))
}

/// Moves behind the statement.
fn end(scan: &mut Scan<'_>) -> Option<()> {
    loop {
        match scan.token() {
            Token::Semicolon | Token::End => return Some(()),
            Token::Unclear => return None,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_temporary_tables_changes_nothing_for_others() {
        for text in [
            "create temp table t(a int)",
            "begin; create temporary table t(a int) on commit drop; insert into t values (1); commit",
            "CREATE TEMP TABLE \"T\" AS SELECT ';'; DROP TABLE \"T\";",
            "create local temp table if not exists a(n int); create temp table b(); drop table if exists b, a cascade",
            "select 1; create or replace temp view v as select 1",
        ] {
            assert_eq!(defines(text.as_bytes()), Defines::Temporary, "{text}");
        }
    }

    #[test]
    fn an_index_on_columns_calls_no_function_that_its_table_does_not_call() {
        for text in [
            "create index on t(v)",
            "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS t_v ON ONLY a.t USING btree (v DESC NULLS LAST, \"W\") INCLUDE (x);",
            "begin; create temp table b(n int); create index b_n on b (n); commit",
        ] {
            assert_eq!(defines(text.as_bytes()), Defines::Indexes, "{text}");
        }
    }

    #[test]
    fn whatever_else_may_define_anything() {
        for text in [
            "select 1",
            "create table t(a int)",
            "create temp table t(a int); create table u(a int default f())",
            "create temp table t(a int); alter table u add check (f())",
            "create temp table t(a int); drop table u",
            "create temp table t(a int); drop table t; drop table t",
            "create temp table t(a int); drop table s.t",
            "begin; create temp table t(a int) on commit drop; commit; drop table t",
            "begin; create temp table t(a int); rollback; drop table t",
            "create temp table pg_temp.t(a int); drop table t",
            "create temp table t(a text default 'a\\'); create table u(a int)",
            "create index on t (f(v))",
            "create index on t ((v))",
            "create index on t (v) where f(v)",
            "create index on t (v my_ops)",
            "create index on t (v collate c)",
            "create index t (v)",
            "create function f() returns int language sql as $$create temp table t()$$",
            "create schema s create temp table t(a int)",
            "drop function f()",
            "",
        ] {
            assert_eq!(defines(text.as_bytes()), Defines::ByTag, "{text}");
        }
    }
}
