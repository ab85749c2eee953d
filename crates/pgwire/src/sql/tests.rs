//! Tests of [`super`].

use super::*;

fn named(name: &str) -> SqlHead<'_> {
    SqlHead::Deallocate(Dealloc::Name(Cow::Borrowed(name.as_bytes())))
}

fn expect(want: &SqlHead<'_>, texts: &[&str]) {
    for text in texts {
        assert_eq!(head(text.as_bytes()), *want, "{text}");
    }
}

#[test]
fn ordinary_statements_are_other() {
    expect(
        &SqlHead::Other,
        &[
            "",
            ";",
            "select 1",
            "SELECT set",
            "insert into t values (1)",
            "update t set a = 1",
            "delete from t",
            "begin",
        ],
    );
    expect(&SqlHead::Other, &["commit", "(select 1)", "with x as (select 1) select 1", "copy t from stdin", "setting"]);
    expect(
        &SqlHead::Other,
        &["set_config", "listener", "rese", "drop table t", "discards", "/* set", "-- set", "'set'"],
    );
}

#[test]
fn white_space_comments_and_empty_statements_come_before_the_head() {
    expect(
        &SqlHead::Set,
        &[
            "  \t\r\n\x0c set a = 1",
            "-- one\nset a = 1",
            "/* /* nested */ */set a = 1",
            ";; ; SET a to 1",
            "SeT/**/a=1",
        ],
    );
    expect(&SqlHead::Listen, &["listen x", "-- x\r/* y */ LISTEN x"]);
    expect(&SqlHead::Unlisten, &["unlisten *", "UNLISTEN x"]);
    expect(&SqlHead::Reset, &["reset all", "RESET search_path"]);
}

#[test]
fn what_ends_with_its_transaction_is_distinguished_from_what_stays() {
    expect(
        &SqlHead::SetLocal,
        &[
            "set local a = 1",
            "SET LOCAL a = 'x;y' ; -- done",
            "set transaction read only",
            "set constraints all deferred",
        ],
    );
    expect(
        &SqlHead::Set,
        &["set session a = 1", "set session characteristics as transaction read only", "set locale = 1", "set role x"],
    );
    expect(&SqlHead::Set, &["set local.a = 1", "set transaction . a = 1", "set constraints.a = 1", "set local = 1"]);
}

#[test]
fn a_local_set_says_nothing_about_the_statements_after_it() {
    expect(
        &SqlHead::Set,
        &[
            "set local a = 1; set b = 2",
            "set local a = '\\'; set b = 2; --'",
            "set local a = $$x$$; set b = 2",
            "set local a = 'unended",
            "set local a = $q$ unended $$",
            "set local a = \"unended",
        ],
    );
    expect(
        &SqlHead::SetLocal,
        &[
            "set local a = $q$; $$ ;$q$",
            "set local a = $$;$$",
            "set local a = \";\"\"\";",
            "set local a = 'it''s;'",
            "set local a = b$c$d;",
            "set local a /* ; */ = 1 -- ;",
        ],
    );
}

#[test]
fn a_prepared_transaction_is_not_a_prepared_statement() {
    expect(
        &SqlHead::Prepare,
        &["prepare a as select 1", "PREPARE transaction as select 1", "prepare transaction (int) as x"],
    );
    expect(&SqlHead::Other, &["prepare transaction 'x'", "prepare transaction $$x$$", "prepare transaction E'x'"]);
}

#[test]
fn a_cursor_is_held_unless_the_text_says_otherwise() {
    let gone = SqlHead::DeclareCursor { hold: false };
    let kept = SqlHead::DeclareCursor { hold: true };
    expect(
        &gone,
        &[
            "declare c cursor for select 1",
            "declare cursor cursor for select 1;",
            "DECLARE \"C;\" BINARY INSENSITIVE NO SCROLL CURSOR WITHOUT HOLD FOR SELECT ';'",
        ],
    );
    expect(
        &kept,
        &[
            "declare c cursor with hold for select 1",
            "declare c scroll cursor /* x */ with hold for select 1",
            "declare c cursor for select 1; declare d cursor with hold for select 1",
            "declare U&\"c\" cursor for select 1",
            "declare c cursor for select E'\\''",
            "declare",
        ],
    );
}

#[test]
fn what_certainly_creates_only_a_temporary_object_is_distinguished_from_the_rest() {
    expect(
        &SqlHead::CreateTemp,
        &[
            "create temp table t (a int)",
            "CREATE TEMPORARY VIEW v AS SELECT 1;",
            "create or replace temp view v as select 1",
            "create local temp table t (a int)",
        ],
    );
    expect(
        &SqlHead::Other,
        &[
            "create table t (temp int)",
            "create table pg_temp.t (a int)",
            "create temp table a (b int); create table c (d int)",
            "create temp table a (b text default E'\\''); create table c (d int)",
            "CREATE INDEX i ON t (a)",
        ],
    );
}

#[test]
fn deallocate_names_its_statement_as_the_server_would() {
    expect(&named("a"), &["deallocate a", "DEALLOCATE PREPARE A;", "deallocate \"a\" -- x", ";deallocate/**/a;;"]);
    expect(&named("A b\"c"), &["deallocate \"A b\"\"c\""]);
    expect(&named("prepare"), &["deallocate prepare", "deallocate Prepare;", "deallocate prepare prepare"]);
    expect(&named("all"), &["deallocate \"all\""]);
    expect(&named("größe_1$"), &["DEALLOCATE GRößE_1$"]);
    expect(&SqlHead::Deallocate(Dealloc::All), &["deallocate all", "DEALLOCATE PREPARE ALL ;"]);
}

#[test]
fn what_a_pooler_answers_itself_stands_alone() {
    expect(&SqlHead::DiscardAll, &["discard all", "DISCARD ALL; -- x"]);
    expect(
        &SqlHead::Other,
        &[
            "discard plans",
            "discard all; select 1",
            "deallocate a; select 1",
            "deallocate a b",
            "deallocate",
            "deallocate \"a",
            "deallocate \"\"",
            "deallocate U&\"a\"",
            "deallocate 'a'",
            "deallocate 1",
        ],
    );
}

#[test]
fn a_prefix_says_nothing_about_the_rest() {
    for (text, want) in [
        ("set local a = 1", SqlHead::Set),
        ("deallocate a", SqlHead::Other),
        ("discard all", SqlHead::Other),
        ("declare c cursor for select 1", SqlHead::DeclareCursor { hold: true }),
        ("create temp table a", SqlHead::Other),
        ("listen a", SqlHead::Listen),
        ("select 1", SqlHead::Other),
    ] {
        assert_eq!(head_of_prefix(text.as_bytes()), want, "{text}");
    }
}

#[test]
fn a_command_tag_implies_what_may_be_left_behind() {
    let cases: [(&str, Dirty); 9] = [
        ("SET", Dirty::SETTINGS),
        ("LISTEN", Dirty::LISTEN),
        ("PREPARE", Dirty::STATEMENTS),
        ("DECLARE CURSOR", Dirty::CURSORS),
        ("CREATE TABLE", Dirty::TEMP),
        ("CREATE TYPE", Dirty::TEMP),
        ("SELECT 1", Dirty::NONE),
        ("PREPARE TRANSACTION", Dirty::NONE),
        ("SET CONSTRAINTS", Dirty::NONE),
    ];
    for (tag, want) in cases {
        assert_eq!(left_by_tag(tag.as_bytes()), want, "{tag}");
    }
}

#[test]
fn dirty_is_a_set() {
    let mut dirty = Dirty::NONE;
    assert!(dirty.is_empty());
    dirty.insert(Dirty::TEMP);
    dirty.insert(Dirty::LISTEN);
    assert_eq!(dirty, Dirty::TEMP.union(Dirty::LISTEN));
    assert!(dirty.contains(Dirty::TEMP) && !dirty.contains(Dirty::TEMP.union(Dirty::CURSORS)));
    assert_eq!(dirty.without(Dirty::TEMP), Dirty::LISTEN);
}

#[test]
fn prepare_and_execute_are_read_with_their_names() {
    let prepare =
        |name: &'static str, text: &'static str| Some(Prepared::Prepare(name.as_bytes().into(), text.as_bytes()));
    assert_eq!(prepared(b"PREPARE Q (int, text) AS SELECT $1"), prepare("q", "SELECT $1"));
    assert_eq!(prepared(b"/* x */ prepare \"Q\" as select 1;"), prepare("Q", "select 1;"));
    assert_eq!(prepared(b"execute q(1, 'as')"), Some(Prepared::Execute(b"q".as_slice().into())));
    for text in ["PREPARE TRANSACTION 'as x'", "explain select 1", "select 1", "", "PREPARE q (int"] {
        assert_eq!(prepared(text.as_bytes()), None, "{text}");
    }
}

/// The text of a Parse has up to 16 MiB, and its worker reads it at once.
#[test]
fn a_long_text_of_any_shape_is_read_in_few_passes() {
    let pieces = |begin: &str, end: &str| [begin.repeat(50_000), end.repeat(50_000)].concat();
    for (begin, end) in [
        ("set_config(", ""),
        ("set_config(", ", true)"),
        ("set_config((", ", true))"),
        ("set_config(a, b, true), ", ""),
        ("(", ")"),
        (";a", ""),
        ("\"a\".", ""),
        ("$a$ $b$", ""),
        ("/*", "*/"),
        ("'a' $$", ""),
        ("select pg_advisory_lock(1);", ""),
        ("declare c cursor for ", ""),
        ("prepare a (b) ", "as"),
        ("set local a = 1;", ""),
        ("do ", ""),
        ("do $$a", ""),
        ("do;\n\t ", " "),
        ("update pg_settings;", ""),
        ("pg_settings;", " update"),
        ("u&\"", ""),
    ] {
        let text = pieces(begin, end);
        let begun = processor_time();
        let _ = (Effects::of(text.as_bytes()), kept(text.as_bytes(), |_| false), prepared(text.as_bytes()));
        let taken = processor_time() - begun;
        assert!(taken.as_secs() < 5, "{taken:?} for {begin}");
    }
}

/// How long this thread has run, however busy the machine is with others: the first number of its `schedstat`, in
/// nanoseconds. 0 where there is none.
fn processor_time() -> std::time::Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split(' ').next().and_then(|number| number.parse().ok());
    std::time::Duration::from_nanos(first.unwrap_or(0))
}
