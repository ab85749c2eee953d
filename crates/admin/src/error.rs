//! Every error of the console: its text and its SQLSTATE, in one table.
//!
//! Where PgBouncer has a text, ours is the same, and so is its SQLSTATE: 08P01 for nearly all, as its scripts expect.

use std::borrow::Cow;
use std::fmt;

use weir_base::prefix;

use crate::near;

/// The longest part of a command that an error repeats, in bytes: the size of PgBouncer's buffer for it.
const MAX_QUOTED: usize = 960;

/// What a file calls the databases that have no entry of their own; no command takes it as a name.
pub const ALL_DATABASES: &str = "*";

/// Why the console refused a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CommandError {
    /// Not a command; holds the text, shortened if long.
    Invalid(String),
    /// Invalid arguments, for example an empty name.
    BadArguments,
    /// DISABLE and ENABLE without a database.
    DatabaseRequired,
    /// KILL_CLIENT with something that is not a number.
    InvalidClient,
    /// KILL_CLIENT with an unknown number.
    ClientNotFound,
    /// A command that only `admin_users` may run.
    AdminNeeded,
    /// The named database is not configured.
    NoSuchDatabase(String),
    /// A command that the console's own database does not support: the verb and the name.
    ConsoleDatabase(&'static str, String),
    /// PAUSE, KILL or SUSPEND while everything is paused or suspended.
    AlreadyPaused,
    /// RESUME of all while nothing is paused.
    NotPaused,
    /// RESUME of a database that is not paused.
    DatabaseNotPaused(String),
    /// SUSPEND while single databases are paused.
    PausedDatabases,
    /// RESUME during a shutdown.
    ShuttingDown,
    /// RELOAD found an error; holds the line for the log and for the operator.
    ReloadFailed(String),
    /// SET of an unknown key, of an invalid value, or of a setting that can't change while running; holds which.
    SetFailed(String),
    /// SWITCH to something that is not one of the pool's hosts, or in a pool without a primary; holds the reason.
    NoSuchHost(String),
    /// SWITCH did not end at the new host; holds the reason.
    SwitchFailed(String),
    /// Not supported in this version; holds the command's name.
    NotSupported(&'static str),
    /// SHOW FDS, by which PgBouncer passes its sockets to a new process.
    NoShowFds,
    /// A Parse, Bind or Execute instead of a simple query.
    ExtendedProtocol,
    /// Too many requests of the control plane are under way.
    TooBusy,
    /// Another process takes over: it would not know of what is changed here.
    TakenOver,
}

impl CommandError {
    /// The error that `text` is not a command.
    pub(crate) fn invalid(text: &str) -> CommandError {
        CommandError::Invalid(prefix(text, MAX_QUOTED).to_owned())
    }

    /// The error's SQLSTATE.
    pub fn sqlstate(&self) -> &'static str {
        match self {
            CommandError::ReloadFailed(_) => "F0000",
            CommandError::NotSupported(_) | CommandError::NoShowFds => "0A000",
            CommandError::TooBusy => "53000",
            CommandError::TakenOver => "55000",
            _ => "08P01",
        }
    }

    /// The error's DETAIL field, if it has one.
    pub fn detail(&self) -> Option<&str> {
        match self {
            CommandError::ReloadFailed(why)
            | CommandError::SetFailed(why)
            | CommandError::NoSuchHost(why)
            | CommandError::SwitchFailed(why) => Some(why),
            CommandError::NoSuchDatabase(name) if name == ALL_DATABASES => Some(
                "PAUSE, RESUME, RECONNECT, RETRY, KILL and WAIT_CLOSE without a name apply to all databases, those of the \
                 entry * too.",
            ),
            _ => None,
        }
    }

    /// The error's HINT field, if it has one.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        let hint = match self {
            CommandError::Invalid(text) => match near::nearest(text) {
                Some(meant) => return Some(format!("Did you mean {meant}? SHOW HELP lists the commands.").into()),
                None => {
                    "This is the pooler's console: SHOW HELP lists its commands. For SQL, connect to a pool's database."
                }
            },
            CommandError::NoSuchDatabase(name) if name != ALL_DATABASES => "SHOW DATABASES lists them.",
            CommandError::InvalidClient | CommandError::ClientNotFound => "Give the id of a row of SHOW CLIENTS.",
            CommandError::BadArguments | CommandError::DatabaseRequired => "SHOW HELP has the form of each command.",
            CommandError::AdminNeeded => "Log in as a user of admin_users.",
            CommandError::TakenOver => "Connect again in a moment: to the process that serves then.",
            CommandError::ExtendedProtocol => "Send commands by the simple protocol, as psql does.",
            _ => return None,
        };
        Some(hint.into())
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Invalid(text) => write!(f, "invalid command '{text}', use SHOW HELP;"),
            CommandError::BadArguments => f.write_str("bad arguments"),
            CommandError::DatabaseRequired => f.write_str("a database is required"),
            CommandError::InvalidClient => f.write_str("invalid client pointer supplied"),
            CommandError::ClientNotFound => f.write_str("client not found"),
            CommandError::AdminNeeded => f.write_str("admin access needed"),
            CommandError::NoSuchDatabase(name) => write!(f, "no such database: {name}"),
            CommandError::ConsoleDatabase("wait", name) => write!(f, "cannot wait in admin db: {name}"),
            CommandError::ConsoleDatabase(verb, name) => write!(f, "cannot {verb} admin db: {name}"),
            CommandError::AlreadyPaused => f.write_str("already suspended/paused"),
            CommandError::NotPaused => f.write_str("pooler is not paused/suspended"),
            CommandError::DatabaseNotPaused(name) => write!(f, "database {name} is not paused"),
            CommandError::PausedDatabases => f.write_str("cannot suspend with paused databases"),
            CommandError::ShuttingDown => f.write_str("pooler is shutting down"),
            CommandError::ReloadFailed(_) => f.write_str("RELOAD failed, see logs for additional details"),
            CommandError::SetFailed(_) => f.write_str("SET failed"),
            CommandError::NoSuchHost(_) => f.write_str("no such host of the pool"),
            CommandError::SwitchFailed(_) => f.write_str("SWITCH failed"),
            CommandError::NotSupported(what) => write!(f, "{what} is not supported yet"),
            CommandError::NoShowFds => f.write_str(
                "SHOW FDS is refused: it would give out sockets, passwords and cancel keys, which no take-over needs",
            ),
            CommandError::ExtendedProtocol => f.write_str("extended query protocol not supported by admin console"),
            CommandError::TooBusy => f.write_str("too many requests are under way; try again in a moment"),
            CommandError::TakenOver => {
                f.write_str("an upgrade is under way: another process takes over, and nothing was changed")
            }
        }
    }
}

impl std::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_repeated_in_part_and_never_cut_within_a_character() {
        let CommandError::Invalid(text) = CommandError::invalid(&"é".repeat(10_000)) else { panic!() };
        assert!(text.len() <= MAX_QUOTED && text.chars().all(|c| c == 'é'));
    }

    #[test]
    fn the_reason_of_a_failed_reload_is_the_detail() {
        let error = CommandError::ReloadFailed("weir.toml:3: unknown key".into());
        assert_eq!(error.to_string(), "RELOAD failed, see logs for additional details");
        assert_eq!((error.sqlstate(), error.detail()), ("F0000", Some("weir.toml:3: unknown key")));
    }

    #[test]
    fn an_argument_that_means_nothing_is_told_where_to_look() {
        for (text, hint) in [
            ("KILL_CLIENT x", "Give the id of a row of SHOW CLIENTS."),
            ("DISABLE", "SHOW HELP has the form of each command."),
            ("SHOW POOL", "Did you mean SHOW POOLS? SHOW HELP lists the commands."),
        ] {
            let error = crate::command::parse(text).unwrap_err();
            assert_eq!(error.hint().as_deref(), Some(hint), "{text}");
        }
        assert_eq!(CommandError::NoSuchDatabase("x".into()).hint().as_deref(), Some("SHOW DATABASES lists them."));
    }
}
