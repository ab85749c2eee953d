//! Whether a text may draw a value of a sequence, of which `currval()` and `lastval()` tell afterwards, and whether one that
//! calls these asks for what it has drawn itself.
//!
//! Must not know what follows from it. In doubt a text may draw: columns have defaults, tables have triggers, functions do
//! anything. Only a query that calls no unknown function, and commands that run nothing, certainly do not. What views,
//! operators and casts call is not seen.
//!
//! Source: PostgreSQL's documentation, "Sequence Manipulation Functions".

use super::fingerprint::MAX_READ;
use super::scan::{Scan, Token};
use super::unknown_calls::calls_unknown;

/// What a statement does, by its first word.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Runs {
    /// Nothing that draws a value.
    Nothing,
    /// What its words say.
    Query,
    /// Anything.
    Anything,
}

/// Whether a text may draw a value of a sequence. Cost: two passes over at most [`MAX_READ`] bytes; nothing is known of a
/// longer text.
pub fn may_use_sequence(text: &[u8]) -> bool {
    if text.len() > MAX_READ {
        return true;
    }
    let mut scan = Scan::whole(text);
    let (mut runs, mut queries) = (None, false);
    // The word before, which may say that UPDATE is the strength of a lock.
    let mut locks = false;
    loop {
        let token = scan.token();
        let word = match &token {
            Token::End => return queries && calls_unknown(text),
            Token::Unclear => return true,
            Token::Semicolon => {
                runs = None;
                continue;
            }
            Token::Word(word) | Token::Quoted(word) => Some(&**word),
            _ => None,
        };
        let kind = *runs.get_or_insert_with(|| runs_of(word, &token));
        queries |= kind == Runs::Query;
        if kind == Runs::Anything || (kind == Runs::Query && word.is_some_and(|word| writes(word, locks))) {
            return true;
        }
        locks = matches!(word, Some(b"for" | b"key"));
    }
}

/// Whether a text that calls `currval()` or `lastval()` asks for what it has drawn itself: an earlier statement of it may
/// have drawn a value, or the beginning of the same one has. Cost: as above.
pub fn asks_for_own_value(text: &[u8]) -> bool {
    let mut scan = Scan::whole(&text[..text.len().min(MAX_READ)]);
    let (mut runs, mut drawn, mut begun, mut locks) = (None, false, false, false);
    loop {
        let token = scan.token();
        let word = match &token {
            Token::End | Token::Unclear => return false,
            Token::Semicolon => {
                drawn |= runs == Some(Runs::Anything);
                (runs, begun) = (None, false);
                continue;
            }
            Token::Word(word) | Token::Quoted(word) => Some(&**word),
            _ => None,
        };
        let kind = *runs.get_or_insert_with(|| runs_of(word, &token));
        match word {
            Some(b"currval" | b"lastval") => return drawn,
            Some(b"returning") => drawn |= begun,
            Some(b"nextval") => drawn = true,
            _ => {}
        }
        begun |= kind == Runs::Anything || word.is_some_and(|word| writes(word, locks));
        locks = matches!(word, Some(b"for" | b"key"));
    }
}

fn runs_of(word: Option<&[u8]>, token: &Token<'_>) -> Runs {
    match word {
        Some(b"select" | b"with" | b"values" | b"table" | b"explain" | b"declare") => Runs::Query,
        Some(
            b"begin" | b"start" | b"commit" | b"end" | b"rollback" | b"abort" | b"savepoint" | b"release" | b"set"
            | b"reset" | b"show" | b"listen" | b"unlisten" | b"notify" | b"lock" | b"prepare" | b"deallocate"
            | b"fetch" | b"move" | b"close" | b"discard",
        ) => Runs::Nothing,
        None if *token == Token::Other(b'(') => Runs::Query,
        _ => Runs::Anything,
    }
}

/// Whether this word in a query may be that of a command that writes, or of a function that draws or sets a value.
fn writes(word: &[u8], locks: bool) -> bool {
    match word {
        b"insert" | b"delete" | b"merge" | b"nextval" | b"setval" | b"execute" | b"refresh" => true,
        b"update" => !locks,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_asks_for_its_own_value_if_it_may_have_drawn_one_before() {
        for text in [
            "insert into t values (1); select lastval()",
            "begin; insert into t default values; select currval('s'); commit",
            "insert into t values (1) returning currval('s')",
            "with x as (insert into t values (1) returning a) select currval('s')",
            "select nextval('s'), currval('s')",
        ] {
            assert!(asks_for_own_value(text.as_bytes()), "{text}");
        }
        for text in [
            "select lastval()",
            "insert into t values (currval('s'))",
            "select 1; select currval('s')",
            "select currval('s'), nextval('s')",
            "select lastval() from t for update",
            "insert into t values (1)",
        ] {
            assert!(!asks_for_own_value(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn a_text_draws_no_value_only_if_that_is_certain() {
        for text in [
            "",
            "begin",
            "COMMIT;",
            "select 1",
            "select currval('a'), lastval()",
            "SELECT count(*), max(a) FROM t WHERE b = $1 FOR UPDATE",
            "select a from t where b = 'nextval(''s'')' for no key update of t skip locked",
            "with x as (select 1) select * from x",
            "(select 1) union (select 2)",
            "values (1), (2)",
            "set work_mem = 1; show work_mem",
            "begin; select 1; commit",
            "declare c cursor for select a from t",
            "prepare p as insert into t values (1)",
            "fetch 3 from c",
            "explain select 1",
        ] {
            assert!(!may_use_sequence(text.as_bytes()), "{text}");
        }
        for text in [
            "insert into t values (1)",
            "update t set a = 1",
            "delete from t",
            "copy t from stdin",
            "select nextval('s')",
            "select \"nextval\"('s')",
            "select setval('s', 1)",
            "select f()",
            "select u&\"f\"()",
            "with x as (insert into t values (1) returning a) select * from x",
            "with x as (update t set a = 1 returning a) select * from x",
            "select 1; insert into t values (1)",
            "execute p",
            "call p()",
            "do $$begin end$$",
            "alter table t add column b serial",
            "create table t as select nextval('s')",
            "explain analyze insert into t values (1)",
            "explain analyze execute p",
            "declare c cursor for select nextval('s')",
            "select 'it",
            "vacuum",
        ] {
            assert!(may_use_sequence(text.as_bytes()), "{text}");
        }
        assert!(may_use_sequence(&[b"select 1 -- ".as_slice(), &[b'x'; MAX_READ]].concat()));
    }
}
