//! The console's grammar: one command a query.
//!
//! Owns the grammar, the role that each command needs, and its command tag. Knows nothing of the pooler's state: the
//! engine checks whether a named database exists. The grammar is PgBouncer's (its documentation, "Admin console"), a
//! little wider: comments are skipped, a name may contain what database names usually contain (`test-pool`,
//! `shop.eu`), and several semicolons end a command like one.
//!
//! Invariant: a parsed name is not empty, so `PAUSE ""` never pauses everything.

use std::borrow::Cow;

use crate::console::is_console;
use crate::error::{ALL_DATABASES, CommandError};
use crate::show::{Parameter, Show};
use crate::token::{Token, tokens};

/// A command of the console or of the control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// SHOW a table.
    Show(Show),
    /// PAUSE one database, or everything.
    Pause(Option<String>),
    /// RESUME one database, or everything.
    Resume(Option<String>),
    /// RELOAD the configuration.
    Reload,
    /// RECONNECT: replace the servers of one database, or all, as they are released.
    Reconnect(Option<String>),
    /// RETRY: try to open a server of one database, or of all, now; not in PgBouncer.
    Retry(Option<String>),
    /// SWITCH: move a database to one of its hosts, as written; not in PgBouncer.
    Switch {
        /// The database.
        database: String,
        /// The host, with its port or without.
        host: String,
    },
    /// KILL: disconnect the clients and servers of one database, or all, at once; it stays paused.
    Kill(Option<String>),
    /// KILL_CLIENT: disconnect the client with this id.
    KillClient(u64),
    /// SHUTDOWN: end the process.
    Shutdown(ShutdownMode),
    /// ENABLE: accept new clients of a database again.
    Enable(String),
    /// DISABLE: refuse new clients of a database.
    Disable(String),
    /// WAIT_CLOSE: reply when the servers that a RECONNECT or RELOAD replaces are closed.
    WaitClose(Option<String>),
    /// RESET STATEMENTS: count statements from zero again; not in PgBouncer.
    ResetStatements,
    /// START_RECORD: record the traffic of one database, or of all, for so many seconds; not in PgBouncer.
    StartRecord(Option<String>, u32),
    /// STOP_RECORD: record it no more; not in PgBouncer.
    StopRecord(Option<String>),
    /// SUSPEND: stop reading from all sockets.
    Suspend,
    /// SET a setting.
    Set {
        /// The setting's name, in lower case.
        key: String,
        /// The setting's new value, unquoted.
        value: String,
    },
    /// SET of a session parameter, as drivers send it after connecting: ignored, with a notice (PgBouncer's is `SET
    /// ignored`).
    SetParameter(Parameter),
}

/// How long traffic is recorded where nothing else is said, and the longest time, in seconds.
pub const RECORD_SECONDS: (u32, u32) = (600, 86_400);

/// What a SHUTDOWN waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShutdownMode {
    /// The shutdown waits for nothing.
    Now,
    /// The shutdown waits until the servers are released; waiting clients are disconnected.
    WaitForServers,
    /// The shutdown waits until the clients have disconnected.
    WaitForClients,
    /// The clients are closed, each between two transactions; not in PgBouncer.
    Drain,
}

/// What a user of the console may do; a greater role may do more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ConsoleRole {
    /// A user of `stats_users`: may read.
    Stats,
    /// A user of `admin_users`: may do everything.
    Admin,
}

/// Parses one query of the console.
///
/// # Errors
///
/// The text is not a complete command, its arguments are invalid, or it names the console's database. An empty query
/// is an error too.
pub fn parse(text: &str) -> Result<Command, CommandError> {
    let invalid = || CommandError::invalid(text);
    let mut words = tokens(text).ok_or_else(invalid)?;
    while words.last() == Some(&Token::Semicolon) {
        words.pop();
    }
    let command = match words.as_slice() {
        [Token::Name(verb), Token::Name(key), relation, Token::Name(value) | Token::Text(value)]
            if verb.eq_ignore_ascii_case("set") && relation.is_assignment() =>
        {
            set(key, value).map(Some)
        }
        [Token::Name(verb), Token::Name(database), Token::Name(seconds)]
            if verb.eq_ignore_ascii_case("start_record") =>
        {
            start_record(database, seconds).map(Some)
        }
        [Token::Name(verb), Token::Name(database), host @ ..] if verb.eq_ignore_ascii_case("switch") => {
            switch(database, host)
        }
        [Token::Name(verb)] => without_argument(&verb.to_ascii_lowercase()),
        [Token::Name(verb), Token::Name(argument)] => with_argument(&verb.to_ascii_lowercase(), argument),
        _ => Ok(None),
    };
    command?.ok_or_else(invalid)
}

/// A command, `None` for an unknown one, or an error in its arguments.
type Found = Result<Option<Command>, CommandError>;

fn without_argument(verb: &str) -> Found {
    Ok(Some(match verb {
        "pause" => Command::Pause(None),
        "resume" => Command::Resume(None),
        "reload" => Command::Reload,
        "reconnect" => Command::Reconnect(None),
        "retry" => Command::Retry(None),
        "kill" => Command::Kill(None),
        "shutdown" => Command::Shutdown(ShutdownMode::Now),
        "wait_close" => Command::WaitClose(None),
        "suspend" => Command::Suspend,
        "start_record" => Command::StartRecord(None, RECORD_SECONDS.0),
        "stop_record" => Command::StopRecord(None),
        "enable" | "disable" => return Err(CommandError::DatabaseRequired),
        "kill_client" => return Err(CommandError::InvalidClient),
        _ => return Ok(None),
    }))
}

fn with_argument(verb: &str, argument: &str) -> Found {
    Ok(Some(match verb {
        "show" | "select" => return Ok(Show::named(argument).map(Command::Show)),
        "reset" if argument.eq_ignore_ascii_case("statements") => Command::ResetStatements,
        "pause" => Command::Pause(Some(database("pause", argument)?)),
        "resume" if is_console(argument) => return Err(CommandError::DatabaseNotPaused(argument.to_owned())),
        "resume" => Command::Resume(Some(database("resume", argument)?)),
        "reconnect" => Command::Reconnect(Some(database("reconnect", argument)?)),
        "retry" => Command::Retry(Some(database("retry", argument)?)),
        "kill" => Command::Kill(Some(database("kill", argument)?)),
        "wait_close" => Command::WaitClose(Some(database("wait", argument)?)),
        "start_record" => Command::StartRecord(recorded(argument)?, RECORD_SECONDS.0),
        "stop_record" => Command::StopRecord(recorded(argument)?),
        "enable" => Command::Enable(database("enable", argument)?),
        "disable" => Command::Disable(database("disable", argument)?),
        "kill_client" => Command::KillClient(argument.parse().map_err(|_| CommandError::InvalidClient)?),
        "shutdown" => return Ok(ShutdownMode::named(argument).map(Command::Shutdown)),
        _ => return Ok(None),
    }))
}

/// The database whose traffic is recorded; `*` stands for all.
fn recorded(argument: &str) -> Result<Option<String>, CommandError> {
    if argument == ALL_DATABASES { Ok(None) } else { database("record", argument).map(Some) }
}

/// A host is a name, an address or a folder, and may be followed by a port; in quotes where it has other characters.
fn switch(name: &str, host: &[Token]) -> Found {
    let host = match host {
        [Token::Name(host) | Token::Text(host)] => host.to_string(),
        [] => return Err(CommandError::BadArguments),
        _ => return Ok(None),
    };
    if host.is_empty() {
        return Err(CommandError::BadArguments);
    }
    Ok(Some(Command::Switch { database: database("switch", name)?, host }))
}

fn start_record(database: &str, seconds: &str) -> Result<Command, CommandError> {
    let seconds = seconds.parse().ok().filter(|seconds| (1..=RECORD_SECONDS.1).contains(seconds));
    Ok(Command::StartRecord(recorded(database)?, seconds.ok_or(CommandError::BadArguments)?))
}

/// Checks the name of a database for `verb`.
fn database(verb: &'static str, name: &str) -> Result<String, CommandError> {
    match name {
        "" => Err(CommandError::BadArguments),
        name if is_console(name) => Err(CommandError::ConsoleDatabase(verb, name.to_owned())),
        name => Ok(name.to_owned()),
    }
}

fn set(key: &str, value: &str) -> Result<Command, CommandError> {
    if key.is_empty() {
        return Err(CommandError::BadArguments);
    }
    Ok(match Parameter::named(key) {
        Some(parameter) => Command::SetParameter(parameter),
        None => Command::Set { key: key.to_ascii_lowercase(), value: value.to_owned() },
    })
}

impl Command {
    /// The role that the command needs: any for SHOW, except SHOW FDS, which shows secrets; all others need an admin.
    pub fn needs(&self) -> ConsoleRole {
        match self {
            Command::Show(Show::Fds) => ConsoleRole::Admin,
            Command::Show(_) | Command::SetParameter(_) => ConsoleRole::Stats,
            _ => ConsoleRole::Admin,
        }
    }

    /// Checks whether this role may run the command.
    ///
    /// # Errors
    ///
    /// [`CommandError::AdminNeeded`] if not.
    pub fn permit(&self, role: ConsoleRole) -> Result<(), CommandError> {
        if role >= self.needs() { Ok(()) } else { Err(CommandError::AdminNeeded) }
    }

    /// The command's name, for logs and errors.
    pub fn name(&self) -> &'static str {
        match self {
            Command::Show(_) => "SHOW",
            Command::Pause(_) => "PAUSE",
            Command::Resume(_) => "RESUME",
            Command::Reload => "RELOAD",
            Command::Reconnect(_) => "RECONNECT",
            Command::Retry(_) => "RETRY",
            Command::Switch { .. } => "SWITCH",
            Command::Kill(_) => "KILL",
            Command::KillClient(_) => "KILL_CLIENT",
            Command::Shutdown(_) => "SHUTDOWN",
            Command::Enable(_) => "ENABLE",
            Command::Disable(_) => "DISABLE",
            Command::WaitClose(_) => "WAIT_CLOSE",
            Command::ResetStatements => "RESET STATEMENTS",
            Command::StartRecord(..) => "START_RECORD",
            Command::StopRecord(_) => "STOP_RECORD",
            Command::Suspend => "SUSPEND",
            Command::Set { .. } | Command::SetParameter(_) => "SET",
        }
    }

    /// The database that the command names, if any.
    pub fn database(&self) -> Option<&str> {
        match self {
            Command::Pause(of)
            | Command::Resume(of)
            | Command::Reconnect(of)
            | Command::Retry(of)
            | Command::Kill(of)
            | Command::WaitClose(of)
            | Command::StartRecord(of, _)
            | Command::StopRecord(of) => of.as_deref(),
            Command::Enable(of) | Command::Disable(of) | Command::Switch { database: of, .. } => Some(of),
            _ => None,
        }
    }

    /// The log line of the command, as PgBouncer logs it (`PAUSE 'app'`); `None`: it changes nothing.
    pub fn issued(&self) -> Option<String> {
        let name = self.name();
        match self {
            Command::Show(_) | Command::SetParameter(_) | Command::KillClient(_) | Command::Set { .. } => None,
            Command::Shutdown(ShutdownMode::WaitForServers) => Some("SHUTDOWN WAIT_FOR_SERVERS".to_owned()),
            Command::Shutdown(ShutdownMode::WaitForClients) => Some("SHUTDOWN WAIT_FOR_CLIENTS".to_owned()),
            Command::Shutdown(ShutdownMode::Drain) => Some("SHUTDOWN DRAIN".to_owned()),
            _ => Some(match self.database() {
                Some(database) => format!("{name} '{database}'"),
                None => name.to_owned(),
            }),
        }
    }

    /// What the command changes, for the audit log: a database or a client; none for all. `None`: it changes nothing, or
    /// makes a version of the configuration, which has its author.
    pub fn deed(&self) -> Option<(&'static str, Option<String>)> {
        match self {
            Command::Show(_) | Command::SetParameter(_) | Command::Set { .. } => None,
            Command::Reload | Command::WaitClose(_) | Command::Retry(_) => None,
            Command::KillClient(id) => Some((self.name(), Some(id.to_string()))),
            _ => Some((self.name(), self.database().map(str::to_owned))),
        }
    }

    /// The command's tag in CommandComplete.
    pub fn tag(&self) -> Cow<'static, str> {
        match self {
            Command::Set { key, value } => Cow::Owned(format!("SET {key}={value}")),
            command => Cow::Borrowed(command.name()),
        }
    }
}

impl ShutdownMode {
    fn named(word: &str) -> Option<ShutdownMode> {
        match word.to_ascii_lowercase().as_str() {
            "wait_for_servers" => Some(ShutdownMode::WaitForServers),
            "wait_for_clients" => Some(ShutdownMode::WaitForClients),
            "drain" => Some(ShutdownMode::Drain),
            _ => None,
        }
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
