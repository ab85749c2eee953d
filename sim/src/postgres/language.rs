//! The small statement language of the modelled servers.
//!
//! Statements that change a session's state are spelled as in SQL, because a pooler looks for them; statements that
//! only move data have their own keywords: `ECHO token`, `ROWS n width token`, `FAIL token`, `SLEEP µs token`, `WRITE
//! token`, `COPY IN token`, `COPY OUT n width token`, `WHOAMI`. A token `c<client>.<number>` identifies the client of
//! the statement; a statement without a place for it carries it in a comment `/*token*/`, where a colon may be in place
//! of the point.

/// The name of the result that has two columns: a user and its secret.
pub(crate) const LOOKUP: &str = "lookup";

/// One statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Command {
    /// Returns its token in one row.
    Echo(String),
    /// Returns rows of a width.
    Rows {
        count: u64,
        width: u64,
        token: String,
    },
    /// Fails with 22012.
    Fail(String),
    /// Waits, then returns its token in one row; a cancel request stops it.
    Sleep {
        micros: u64,
        token: String,
    },
    /// Changes a row, returns none.
    Write,
    Begin,
    Commit,
    Rollback,
    Set {
        name: String,
        value: String,
        local: bool,
    },
    Show(String),
    Reset(String),
    ResetAll,
    DiscardAll,
    Listen(String),
    /// On this channel, or on all.
    Unlisten(Option<String>),
    Notify {
        channel: String,
        payload: String,
    },
    /// SQL's PREPARE.
    Prepare {
        name: String,
        text: String,
    },
    ExecutePrepared(String),
    Deallocate(String),
    DeallocateAll,
    TempTable(String),
    /// A temporary table whose command tag is that of a query: CREATE TABLE AS, SELECT INTO.
    TempTableOfQuery(String),
    /// `SELECT pg_advisory_lock(…)`; returns nothing here.
    Lock(String),
    /// `SELECT pg_advisory_unlock_all()`; as [`Command::Select`].
    UnlockAll,
    /// `SELECT nextval('token')`: draws this value, and returns it in one row.
    NextVal(String),
    /// `SELECT lastval()`: returns the value that the session has drawn last.
    LastVal,
    DiscardSequences,
    /// Returns one empty row; poolers send it, such as `SELECT 1`.
    Select,
    /// A statement without effect here, with its command tag.
    Nothing(&'static str),
    DiscardTemp,
    /// Returns a row for each of these kinds of state that there is, and with `*settings` one for each setting; poolers
    /// send it.
    Left(Vec<String>),
    /// Returns the session's state in one row.
    WhoAmI,
    /// Returns the secret of this user; poolers send it (auth_query).
    Lookup(String),
    CopyIn(String),
    CopyOut {
        count: u64,
        width: u64,
        token: String,
    },
}

impl Command {
    /// The name of the result's only column; `None` if there is no result.
    pub(crate) fn column(&self) -> Option<&'static str> {
        Some(match self {
            Command::Echo(_) => "echo",
            Command::Rows { .. } => "rows",
            Command::Sleep { .. } => "sleep",
            Command::Show(_) => "show",
            Command::WhoAmI => "whoami",
            Command::NextVal(_) => "nextval",
            Command::LastVal => "lastval",
            Command::Lookup(_) => LOOKUP,
            Command::Select | Command::UnlockAll => "select",
            Command::Left(_) => "left",
            _ => return None,
        })
    }

    /// Whether the command is allowed in a failed transaction.
    pub(crate) fn ends_transaction(&self) -> bool {
        matches!(self, Command::Commit | Command::Rollback)
    }
}

/// Parses statements separated by `;` and skips empty ones. `Err` is the text of an invalid statement.
pub(crate) fn parse_all(text: &str) -> Result<Vec<Command>, String> {
    // A semicolon in quotes separates nothing.
    let mut is_quoted = false;
    let separates = |c: char| {
        is_quoted ^= c == '\'';
        c == ';' && !is_quoted
    };
    text.split(separates).filter(|part| words(part).next().is_some()).map(parse).collect()
}

/// What a text's sleep returns, if it has no other statement.
pub(crate) fn only_sleep(text: &str) -> Option<String> {
    match parse_all(text).ok()?.as_slice() {
        [Command::Sleep { token, .. }] => Some(token.clone()),
        _ => None,
    }
}

/// How many parameters (`$1` …) a text has.
pub(crate) fn parameters(text: &str) -> usize {
    words(text).filter_map(|w| w.strip_prefix('$')?.parse().ok()).max().unwrap_or(0)
}

/// The text with its parameters replaced by values.
pub(crate) fn substitute(text: &str, values: &[String]) -> String {
    let value = |word: &str| values.get(word.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?).cloned();
    text.split(' ').map(|w| value(w).unwrap_or_else(|| w.to_owned())).collect::<Vec<_>>().join(" ")
}

/// The client of the first token in a text.
pub(crate) fn owner(text: &str) -> Option<u32> {
    let token = |at: usize| {
        let alone = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
        let behind = &text.as_bytes()[at + 1..];
        let count = behind.iter().take(9).take_while(|byte| byte.is_ascii_digit()).count();
        let ends = alone && count < 9 && matches!(behind.get(count), Some(b'.' | b':'));
        if ends { text[at + 1..][..count].parse().ok() } else { None }
    };
    text.match_indices('c').find_map(|(at, _)| token(at))
}

/// The text of one row among many.
pub(crate) fn row_text(token: &str, index: u64, width: u64) -> String {
    let mut text = format!("{token}:{index}:");
    text.extend(std::iter::repeat_n('x', (width as usize).saturating_sub(text.len())));
    text
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_ascii_whitespace().filter(|word| !word.starts_with("/*"))
}

fn parse(text: &str) -> Result<Command, String> {
    let all: Vec<&str> = words(text).collect();
    statement(&all, text).ok_or_else(|| text.trim().to_owned())
}

fn statement(words: &[&str], text: &str) -> Option<Command> {
    let number = |word: &str| if word.starts_with('$') { Some(0) } else { word.parse().ok() };
    let own = |word: &&str| (*word).to_owned();
    Some(match words {
        ["ECHO", token] => Command::Echo(own(token)),
        ["ROWS", count, width, token] => {
            Command::Rows { count: number(count)?, width: number(width)?, token: own(token) }
        }
        ["FAIL", token] => Command::Fail(own(token)),
        ["SLEEP", micros, token] => Command::Sleep { micros: number(micros)?, token: own(token) },
        ["WRITE", _] => Command::Write,
        ["BEGIN"] => Command::Begin,
        ["COMMIT"] => Command::Commit,
        ["ROLLBACK"] => Command::Rollback,
        ["SET", "SESSION", "AUTHORIZATION", "DEFAULT"] => Command::Nothing("SET"),
        ["SET", "TRANSACTION", ..] => Command::Nothing("SET"),
        ["SET", ..] => set(text)?,
        ["SELECT", "INTO", "TEMP", name] => Command::TempTableOfQuery(own(name)),
        ["SELECT", call] if call.ends_with("pg_advisory_unlock_all()") => Command::UnlockAll,
        ["SELECT", call] if call.starts_with("pg_advisory_lock(") => {
            Command::Lock(call.trim_start_matches("pg_advisory_lock(").trim_end_matches(')').to_owned())
        }
        ["SELECT", call] if call.contains("set_config(") => set_config(call)?,
        ["SELECT", call, "WHERE", ..] if call.contains(",NULL,") => Command::Reset(call.split('\'').nth(1)?.to_owned()),
        ["SELECT", "lastval()"] => Command::LastVal,
        ["SELECT", call] if call.starts_with("nextval('") => {
            Command::NextVal(call.trim_start_matches("nextval('").trim_end_matches("')").to_owned())
        }
        ["SELECT", "1", "WHERE", ..] if text.contains("pg_is_in_recovery") => Command::Left(Vec::new()),
        ["SELECT", ..] if text.contains("'*") || text.contains("pg_settings") => Command::Left(kinds(text)),
        ["SELECT", ..] => Command::Select,
        ["CLOSE", "ALL"] => Command::Nothing("CLOSE CURSOR ALL"),
        ["DISCARD", "TEMP"] => Command::DiscardTemp,
        ["DISCARD", "SEQUENCES"] => Command::DiscardSequences,
        ["SHOW", name] => Command::Show(own(name)),
        ["RESET", "ALL"] => Command::ResetAll,
        ["RESET", name] => Command::Reset(name.trim_matches('"').to_owned()),
        ["DISCARD", "ALL"] => Command::DiscardAll,
        ["LISTEN", channel] => Command::Listen(channel.trim_matches('"').to_owned()),
        ["UNLISTEN", "*"] => Command::Unlisten(None),
        ["UNLISTEN", channel] => Command::Unlisten(Some(channel.trim_matches('"').to_owned())),
        ["NOTIFY", channel, payload] => Command::Notify { channel: own(channel), payload: own(payload) },
        ["PREPARE", name, "AS", rest @ ..] => Command::Prepare { name: own(name), text: rest.join(" ") },
        ["EXECUTE", name] => Command::ExecutePrepared(name.trim_matches('"').to_owned()),
        ["DEALLOCATE", "ALL"] => Command::DeallocateAll,
        ["DEALLOCATE", name] => Command::Deallocate(own(name)),
        ["CREATE", "TEMP", "TABLE", name, "AS", ..] => Command::TempTableOfQuery(own(name)),
        ["CREATE", "TEMP", "TABLE", name, ..] => Command::TempTable(own(name)),
        ["WHOAMI"] => Command::WhoAmI,
        ["LOOKUP", user] => Command::Lookup(own(user)),
        ["COPY", "IN", token] => Command::CopyIn(own(token)),
        ["COPY", "OUT", count, width, token] => {
            Command::CopyOut { count: number(count)?, width: number(width)?, token: own(token) }
        }
        _ => return None,
    })
}

/// `pg_catalog.set_config('name','value',false)`.
fn set_config(call: &str) -> Option<Command> {
    let (name, rest) = call.split_once("set_config('")?.1.split_once("','")?;
    let (value, _) = rest.split_once("',false)")?;
    Some(Command::Set { name: name.to_owned(), value: value.replace("''", "'"), local: false })
}

/// The kinds of state that a pooler asks about: the marks in quotes, and the settings.
fn kinds(text: &str) -> Vec<String> {
    let marks = text.split('\'').filter(|part| part.starts_with('*')).map(str::to_owned);
    // The names of settings that no view lists.
    let names = text.split('\'').filter(|part| part.starts_with('{') && part.contains('.')).map(str::to_owned);
    // The compiler is a setting that this server does not have.
    let listed = text.contains("pg_settings") && !text.contains("'*jit'");
    marks.chain(names).chain(listed.then(|| "*settings".to_owned())).collect()
}

/// `SET [LOCAL] name {=|TO} value`; quotes of the value are removed.
fn set(text: &str) -> Option<Command> {
    let text = text.split("/*").next().unwrap_or(text).trim().strip_prefix("SET ")?;
    let (local, text) = text.strip_prefix("LOCAL ").map_or((false, text), |rest| (true, rest));
    let (name, value) = text.split_once('=').or_else(|| text.split_once(" TO "))?;
    let value = value.trim();
    let quoted = value.strip_prefix('\'').and_then(|v| v.strip_suffix('\''));
    let value = quoted.map_or_else(|| value.to_owned(), |v| v.replace("''", "'"));
    Some(Command::Set { name: name.trim().trim_matches('"').to_owned(), value, local })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_separated_by_semicolons_and_empty_ones_are_skipped() {
        let all = parse_all("BEGIN; ECHO c1.2 ;; COMMIT;").unwrap();
        assert_eq!(all, [Command::Begin, Command::Echo("c1.2".into()), Command::Commit]);
        assert_eq!(parse_all(" ; /*c1.2*/"), Ok(vec![]));
        assert_eq!(parse_all("ECHO c1.2; BOGUS c1.2"), Err("BOGUS c1.2".into()));
    }

    #[test]
    fn a_set_keeps_spaces_and_quotes_of_its_value() {
        let set = |name: &str, value: &str, local| Command::Set { name: name.into(), value: value.into(), local };
        assert_eq!(parse_all("SET DateStyle = 'iso, mdy'"), Ok(vec![set("DateStyle", "iso, mdy", false)]));
        assert_eq!(parse_all("SET LOCAL x = 'it''s' /*c1.1*/"), Ok(vec![set("x", "it's", true)]));
        assert_eq!(parse_all("SET x = on"), Ok(vec![set("x", "on", false)]));
    }

    #[test]
    fn parameters_are_replaced_by_values() {
        assert_eq!(parameters("ROWS $1 $2 $3"), 3);
        assert_eq!(substitute("ROWS $1 5 $2", &["7".into(), "c1.9".into()]), "ROWS 7 5 c1.9");
        assert!(parse_all("ROWS $1 5 $2").is_ok());
    }

    #[test]
    fn the_owner_is_read_from_the_token() {
        assert_eq!(owner("ECHO c12.3"), Some(12));
        assert_eq!(owner("BEGIN /*c7.1*/"), Some(7));
        assert_eq!(owner("c4.2:0:xx"), Some(4));
        assert_eq!(owner("SET client_encoding = x"), None);
        assert_eq!(owner("SET work_mem = 3001 /*c3:8*/"), Some(3));
        assert_eq!(owner("abc1.5 c.5 c"), None);
    }
}
