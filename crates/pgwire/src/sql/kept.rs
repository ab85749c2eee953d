//! The state that a text certainly leaves on its server beyond its transaction, so that a client that loses the server
//! can be warned.
//!
//! Owns the reading of a whole text, statement by statement. In doubt it finds nothing: reading ends at text that is
//! not understood, with the result so far, and a command that undoes its own state is not counted.
//!
//! Source: PostgreSQL's documentation, the pages of SET, LISTEN, PREPARE, DECLARE and CREATE TABLE, "Advisory Lock
//! Functions", "Configuration Settings Functions".

use super::Dirty;
use super::mentions::{is_name, updates_settings};
use super::scan::{Scan, Token};
use super::steps::count;

/// How many bytes of a text are read; nothing is certain of the rest.
const MAX_JUDGED: usize = 64 << 10;

/// The kinds of state that `text` certainly leaves. `follows` returns for a setting (its name in lower case) whether
/// the client keeps it on its next server; it is called for each setting that is left where it returns false. Cost: one
/// pass over at most [`MAX_JUDGED`] bytes.
pub fn kept(text: &[u8], follows: impl Fn(&[u8]) -> bool) -> Dirty {
    let mut scan = match text.get(..MAX_JUDGED) {
        Some(beginning) if beginning.len() < text.len() => Scan::prefix(beginning),
        _ => Scan::whole(text),
    };
    let mut kept = Dirty::NONE;
    loop {
        scan.statement();
        if scan.peek().is_none() {
            return kept;
        }
        let (end, words) = Words::of_statement(scan);
        kept.insert(by_command(&words, &follows).union(by_words(&words, &follows)));
        if words.has(&["pg_advisory_unlock_all"]) || words.has(&["pg_advisory_unlock"]) {
            kept = kept.without(Dirty::LOCKS);
        }
        let Some(end) = end else { return kept };
        scan = end;
    }
}

/// What is certain of the calls of `set_config` in a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SetConfigs {
    /// Each mention of it is a call whose setting ends with its transaction: `set_config(…, …, true)`.
    pub(super) local: bool,
    /// No call sets what plans may depend on.
    pub(super) harmless: bool,
    /// Each call names a setting whose name is in the text, and has one part.
    pub(super) plain: bool,
}

/// Reads the calls of `set_config`. Cost: one pass, and another one for each of [`MAX_CALL_DEPTH`] calls within each
/// other.
pub(super) fn set_configs(text: &[u8]) -> SetConfigs {
    let unknown = SetConfigs { local: false, harmless: false, plain: false };
    let name = b"set_config";
    if updates_settings(text) {
        return unknown;
    }
    count(text.len());
    let mentions = (0..text.len()).filter(|at| is_name(&text[*at..], name)).count();
    let (mut scan, mut calls, mut of_all) =
        (Scan::whole(text), 0, SetConfigs { local: true, harmless: true, plain: true });
    loop {
        match scan.token() {
            Token::End => return if calls == mentions { of_all } else { unknown },
            Token::Unclear => return unknown,
            Token::Word(word) | Token::Quoted(word) if *word == name[..] => {
                of_all.local &= ends_with_true(scan);
                let name = name_of_setting(scan);
                of_all.harmless &= name.is_some_and(|name| !super::planned::decides(name));
                of_all.plain &= name.is_some_and(|name| !name.contains(&b'.'));
                if of_all == unknown {
                    return unknown;
                }
                calls += 1;
            }
            _ => {}
        }
    }
}

/// The name of a setting with which the arguments begin that begin here.
fn name_of_setting(mut scan: Scan<'_>) -> Option<&[u8]> {
    let begins = scan.token() == Token::Other(b'(');
    match scan.token() {
        Token::Literal(name) if begins && scan.token() == Token::Other(b',') => Some(name),
        _ => None,
    }
}

/// Parentheses within each other in the arguments of a call that is understood.
const MAX_CALL_DEPTH: u32 = 8;

/// Whether the arguments that begin here end with TRUE.
fn ends_with_true(mut scan: Scan<'_>) -> bool {
    let (mut depth, mut last, mut before) = (0u32, Token::End, Token::End);
    loop {
        let token = scan.token();
        match &token {
            Token::Other(b'(') if depth == MAX_CALL_DEPTH => return false,
            Token::Other(b'(') => depth += 1,
            Token::Other(b')') if depth == 1 => {
                return last == Token::Word(b"true"[..].into()) && before == Token::Other(b',');
            }
            Token::Other(b')') if depth > 1 => depth -= 1,
            Token::End | Token::Unclear | Token::Semicolon => return false,
            _ if depth == 0 => return false,
            _ => {}
        }
        before = std::mem::replace(&mut last, token);
    }
}

/// The relevant words of one statement, in order: names in lower case, literals, and separators.
pub(super) struct Words<'a>(pub(super) Vec<Token<'a>>);

/// The most words of a statement that are read.
const MAX_WORDS: usize = 256;

impl<'a> Words<'a> {
    /// The words of the statement at `scan`, and the position after it; `None` where the text ends or is not
    /// understood.
    pub(super) fn of_statement(mut scan: Scan<'a>) -> (Option<Scan<'a>>, Words<'a>) {
        let mut words = Vec::new();
        loop {
            match scan.token() {
                Token::Semicolon => return (Some(scan), Words(words)),
                Token::End | Token::Unclear => return (None, Words(words)),
                token if words.len() < MAX_WORDS => words.push(token),
                _ => {}
            }
        }
    }

    pub(super) fn at(&self, index: usize) -> Option<&[u8]> {
        match self.0.get(index)? {
            Token::Word(word) | Token::Quoted(word) => Some(word),
            _ => None,
        }
    }

    /// The first position at which these words follow each other.
    pub(super) fn find(&self, wanted: &[&str]) -> Option<usize> {
        (0..self.0.len()).find(|at| (0..wanted.len()).all(|i| self.at(at + i) == Some(wanted[i].as_bytes())))
    }

    pub(super) fn has(&self, wanted: &[&str]) -> bool {
        self.find(wanted).is_some()
    }

    /// The first call of this function: the position of its opening parenthesis.
    pub(super) fn call(&self, function: &str) -> Option<usize> {
        let calls =
            |at: &usize| self.at(*at) == Some(function.as_bytes()) && self.0.get(at + 1) == Some(&Token::Other(b'('));
        (0..self.0.len()).find(calls).map(|at| at + 1)
    }
}

/// The state that the command itself leaves.
pub(super) fn by_command(words: &Words<'_>, follows: &impl Fn(&[u8]) -> bool) -> Dirty {
    match words.at(0) {
        Some(b"set") if sets_for_good(words, follows) => Dirty::SETTINGS,
        Some(b"listen") => Dirty::LISTEN,
        Some(b"prepare") if words.at(1) != Some(b"transaction") => Dirty::STATEMENTS,
        Some(b"declare") if words.find(&["with", "hold"]) < words.find(&["for"]) && words.has(&["with", "hold"]) => {
            Dirty::CURSORS
        }
        Some(b"create") if makes_temporary(words) => Dirty::TEMP,
        _ => Dirty::NONE,
    }
}

/// Whether a CREATE creates a temporary object that outlives its transaction.
fn makes_temporary(words: &Words<'_>) -> bool {
    let first = if words.find(&["or", "replace"]) == Some(1) { 3 } else { 1 };
    let temporary = |at| matches!(words.at(at), Some(b"temp" | b"temporary"));
    let said = temporary(first) || (matches!(words.at(first), Some(b"local" | b"global")) && temporary(first + 1));
    // CREATE TABLE IF NOT EXISTS pg_temp.t
    let schema = words.find(&["pg_temp"]).filter(|at| words.0.get(at + 1) == Some(&Token::Other(b'.')));
    let named = schema.is_some_and(|at| !words.0[..at].contains(&Token::Other(b'(')) && at < 6);
    let named = named && words.find(&["as"]).is_none_or(|r#as| Some(r#as) > schema);
    (said || named) && !words.has(&["on", "commit", "drop"])
}

/// Whether a SET changes a setting for longer than its transaction, and it stays on the server. After SET.
fn sets_for_good(words: &Words<'_>, follows: &impl Fn(&[u8]) -> bool) -> bool {
    let is_name = |at: usize| matches!(words.0.get(at), Some(Token::Other(b'=' | b'.'))) || words.at(at) == Some(b"to");
    let at = match words.at(1) {
        Some(b"local" | b"transaction" | b"constraints") if !is_name(2) => return false,
        Some(b"session") if !is_name(2) => 2,
        _ => 1,
    };
    match (words.at(at), words.at(at + 1)) {
        (Some(b"time"), Some(b"zone")) => !follows(b"timezone"),
        (Some(b"names"), _) if !is_name(at + 1) => !follows(b"client_encoding"),
        (Some(b"schema"), _) if !is_name(at + 1) => !follows(b"search_path"),
        (Some(name), Some(b"to")) => !follows(name),
        (Some(name), None) if words.0.get(at + 1) == Some(&Token::Other(b'=')) => !follows(name),
        (Some(b"authorization"), _) if at == 2 => !follows(b"session_authorization"),
        (Some(b"characteristics"), _) if at == 2 => {
            !(sets_only_access(words) && follows(b"default_transaction_read_only"))
        }
        // ROLE, and names of two parts.
        (Some(_), _) => true,
        (None, _) => false,
    }
}

/// Whether a SET SESSION CHARACTERISTICS says nothing but READ ONLY or READ WRITE.
fn sets_only_access(words: &Words<'_>) -> bool {
    !words.has(&["isolation"]) && !words.has(&["deferrable"])
}

/// The state that the statement's expressions leave.
pub(super) fn by_words(words: &Words<'_>, follows: &impl Fn(&[u8]) -> bool) -> Dirty {
    let mut kept = Dirty::NONE;
    for function in
        ["pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"]
    {
        if words.call(function).is_some() {
            kept.insert(Dirty::LOCKS);
        }
    }
    if let Some(at) = words.call("set_config")
        && let Some(Token::Literal(name)) = words.0.get(at + 1)
    {
        let end =
            words.0[at..].iter().position(|token| *token == Token::Other(b')')).map_or(words.0.len(), |end| at + end);
        if end > 0 && words.at(end - 1) == Some(b"false") && !follows(&name.to_ascii_lowercase()) {
            kept.insert(Dirty::SETTINGS);
        }
    }
    let queries = matches!(words.at(0), Some(b"select" | b"with" | b"values" | b"table"))
        || words.0.first() == Some(&Token::Other(b'('));
    if queries
        && (words.has(&["into", "temp"]) || words.has(&["into", "temporary"]) || words.has(&["into", "local", "temp"]))
    {
        kept.insert(Dirty::TEMP);
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Dirty {
        const FOLLOW: [&[u8]; 4] =
            [b"timezone", b"client_encoding", b"session_authorization", b"default_transaction_read_only"];
        kept(text.as_bytes(), |name| FOLLOW.contains(&name))
    }

    #[test]
    fn what_outlives_its_transaction_is_named() {
        for (text, want) in [
            ("set work_mem = '1MB'", Dirty::SETTINGS),
            ("SET SESSION work_mem TO '1MB'", Dirty::SETTINGS),
            ("set my.own = 1", Dirty::SETTINGS),
            ("set role x", Dirty::SETTINGS),
            ("set session authorization x", Dirty::NONE),
            ("set session authorization default", Dirty::NONE),
            ("set authorization x", Dirty::SETTINGS),
            ("set session characteristics as transaction read only", Dirty::NONE),
            ("set session characteristics as transaction read only, deferrable", Dirty::SETTINGS),
            ("set session characteristics as transaction isolation level serializable", Dirty::SETTINGS),
            ("set default_transaction_read_only = on", Dirty::NONE),
            ("set schema 'a'", Dirty::SETTINGS),
            ("set local = 1", Dirty::SETTINGS),
            ("select 1; set work_mem = '1MB'; select 2", Dirty::SETTINGS),
            ("select set_config('work_mem', '1MB', false)", Dirty::SETTINGS),
            ("listen a", Dirty::LISTEN),
            ("/* x */ LISTEN \"A\"", Dirty::LISTEN),
            ("prepare a as select 1", Dirty::STATEMENTS),
            ("declare c cursor with hold for select 1", Dirty::CURSORS),
            ("create temp table t (a int)", Dirty::TEMP),
            ("CREATE LOCAL TEMPORARY TABLE t (a int) on commit delete rows", Dirty::TEMP),
            ("create or replace temp view v as select 1", Dirty::TEMP),
            ("create table pg_temp.t (a int)", Dirty::TEMP),
            ("select 1 as a into temp t", Dirty::TEMP),
            ("select 'x;y' into temporary table t", Dirty::TEMP),
            ("select pg_advisory_lock(1)", Dirty::LOCKS),
            ("select pg_catalog.pg_try_advisory_lock ( 1 )", Dirty::LOCKS),
            ("listen a; select pg_advisory_lock(1)", Dirty::LISTEN.union(Dirty::LOCKS)),
        ] {
            assert_eq!(of(text), want, "{text}");
        }
    }

    #[test]
    fn a_setting_by_a_function_is_local_only_where_the_text_says_so_each_time() {
        for (text, local) in [
            ("select set_config('a', 'b', true)", true),
            ("SELECT pg_catalog.Set_Config($1, coalesce($2, 'x'), TRUE), \"set_config\"('c', (d), true)", true),
            ("select set_config('a', 'b', false)", false),
            ("select set_config('a', 'b', true), set_config('c', 'd', $1)", false),
            ("select set_config('a', 'b', not true)", false),
            ("select set_config('a', 'b', true or false)", false),
            ("select set_config('a', 'b', \"true\") from (select false as \"true\") as x", false),
            ("select set_config('a', 'b', $$true$$)", false),
            ("select set_config(x.*) from x", false),
            ("select 'set_config', set_config('a', 'b', true)", false),
            ("do $$begin perform set_config('a', 'b', true); end$$", false),
            ("select 'it\\', set_config('a', 'b', true)", false),
            ("select set_config('a', (((((((1))))))), true)", true),
            ("select set_config('a', ((((((((1)))))))), true)", false),
        ] {
            assert_eq!(set_configs(text.as_bytes()).local, local, "{text}");
        }
    }

    #[test]
    fn a_setting_by_a_function_decides_no_plan_only_where_the_text_names_it_each_time() {
        for (text, harmless) in [
            ("select set_config('statement_timeout', $1, false)", true),
            ("select set_config('my.own', $1, true), set_config('ROLE', $2, true)", true),
            ("select set_config('my.own', $1, true), set_config('work_mem', $2, true)", false),
            ("select set_config($1, 'b', true)", false),
            ("select set_config('my.own' || 'x', 'b', true)", false),
            ("select set_config(case when true then 'work_mem' end, 'b', true)", false),
            ("select 'set_config', set_config('my.own', 'b', true)", false),
        ] {
            assert_eq!(set_configs(text.as_bytes()).harmless, harmless, "{text}");
        }
    }

    #[test]
    fn what_ends_with_its_transaction_follows_its_client_or_is_no_code_is_not() {
        for text in [
            "",
            ";;",
            "select 1",
            "set local work_mem = '1MB'",
            "set transaction read only",
            "set timezone = 'UTC'",
            "SET TimeZone TO 'UTC'",
            "set time zone 'UTC'",
            "set session time zone 'UTC'",
            "set names 'utf8'",
            "select set_config('TimeZone', 'UTC', false)",
            "select set_config('work_mem', '1MB', true)",
            "select set_config($1, $2, $3)",
            "prepare transaction 'x'",
            "declare c cursor for select 'with hold'",
            "declare c cursor without hold for select 1",
            "declare c cursor for select 1 from a with hold",
            "create table t (temp int)",
            "create table t as select * from pg_temp.x",
            "create temp table t (a int) on commit drop",
            "select 'listen a; listen b'",
            "select $$; listen a; $$",
            "select 1 -- ; listen a",
            "select 'pg_advisory_lock(1)', pg_advisory_xact_lock(1)",
            "select pg_advisory_lock(1), pg_advisory_unlock(1)",
            "select pg_advisory_lock from t",
            "select 'it\\'; listen a",
            "unlisten a",
            "reset work_mem",
            "discard all",
        ] {
            assert_eq!(of(text), Dirty::NONE, "{text}");
        }
    }
}
