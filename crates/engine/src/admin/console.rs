//! An operator's session: parses its input as commands, and encodes the replies.
//!
//! A console stays on the worker that accepted it. `weir-admin` parses commands, `commands` carries them out.

use std::borrow::Cow;

use weir_admin::{Command, CommandError, ConsoleRole};
use weir_config::Change;
use weir_pgwire::tag::front;
use weir_pgwire::{ErrorFields, HEAD, Head, frontend, put_back};
use weir_session::Refusal;

use crate::admin::stream::TableStream;

/// The longest query at the console, in bytes.
const MAX_QUERY: usize = 64 << 10;

/// See the head of the file.
pub(crate) struct Console {
    role: ConsoleRole,
    /// The database name of the operator's startup packet.
    database: String,
    /// After an error in the extended protocol, until Sync.
    skipping: bool,
    /// The command that the operator waits for.
    pending: Option<u64>,
    /// The table that is being sent to the operator.
    table: Option<Box<TableStream>>,
    /// The operator's next command waits until the operator has read the output.
    unread: bool,
}

/// The input of an operator.
pub(crate) enum ConsoleInput {
    /// No complete message.
    More,
    /// A message that these bytes answer; they may be empty.
    Answer(Vec<u8>),
    /// A command that the operator's role may run.
    Command(Command),
    /// A command that is refused.
    Refused(CommandError),
    /// A protocol error, which ends the connection.
    Broken(Refusal),
    /// Terminate.
    Leave,
}

impl Console {
    pub(crate) fn new(role: ConsoleRole, database: String) -> Self {
        Console { role, database, skipping: false, pending: None, table: None, unread: false }
    }

    /// The database name of the operator's startup packet.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Whether the operator may do everything.
    pub(crate) fn is_admin(&self) -> bool {
        self.role == ConsoleRole::Admin
    }

    /// Takes the first message off the received bytes; moves `at` behind it.
    pub(crate) fn read(&mut self, received: &[u8], at: &mut usize) -> ConsoleInput {
        let rest = &received[*at..];
        let head = match Head::parse(rest) {
            Ok(None) => return ConsoleInput::More,
            Ok(Some(head)) if head.total() <= MAX_QUERY => head,
            _ => return ConsoleInput::Broken(Refusal::Protocol("a message that the console can't take".into())),
        };
        if rest.len() < head.total() {
            return ConsoleInput::More;
        }
        if head.tag == front::TERMINATE {
            return ConsoleInput::Leave;
        }
        *at += head.total();
        self.message(head.tag, &rest[HEAD..head.total()])
    }

    /// Marks the console as waiting until its output is read, or as no longer waiting; returns whether it was waiting.
    pub(crate) fn set_unread(&mut self, unread: bool) -> bool {
        std::mem::replace(&mut self.unread, unread)
    }

    fn message(&mut self, tag: u8, body: &[u8]) -> ConsoleInput {
        let mut answer = Vec::new();
        match tag {
            front::SYNC => {
                self.skipping = false;
                put_back::ready(&mut answer, b'I');
            }
            _ if self.skipping => {}
            front::QUERY => {
                let text = frontend::query(body).map(String::from_utf8_lossy).unwrap_or(Cow::Borrowed(""));
                let role = self.role;
                return match weir_admin::parse(&text).and_then(|command| command.permit(role).map(|()| command)) {
                    Ok(command) => ConsoleInput::Command(command),
                    Err(error) => ConsoleInput::Refused(error),
                };
            }
            front::FLUSH => {}
            // A function call ends with ReadyForQuery by itself (PostgreSQL documentation, "Function Call").
            front::FUNCTION_CALL => answer = failure(&CommandError::ExtendedProtocol),
            _ => {
                self.skipping = true;
                put_error(&mut answer, &CommandError::ExtendedProtocol);
            }
        }
        ConsoleInput::Answer(answer)
    }

    /// Marks the console as waiting for a command; `None` while the command has no number yet.
    pub(crate) fn wait_for(&mut self, command: Option<u64>) {
        self.pending = command;
    }

    /// The command that the console waits for.
    pub(crate) fn pending(&self) -> Option<u64> {
        self.pending
    }

    /// The table that is being sent to the operator.
    pub(crate) fn table(&mut self) -> Option<&mut TableStream> {
        self.table.as_deref_mut()
    }

    /// Begins to send a table.
    pub(crate) fn set_table(&mut self, table: TableStream) {
        self.table = Some(Box::new(table));
    }

    /// The operator's command has been answered.
    pub(crate) fn answered(&mut self) {
        self.pending = None;
        self.table = None;
    }
}

/// The reply to a completed command.
pub(crate) fn complete(tag: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    put_back::command_complete(&mut buffer, tag);
    put_back::ready(&mut buffer, b'I');
    buffer
}

/// The reply to a failed command.
pub(crate) fn failure(error: &CommandError) -> Vec<u8> {
    let mut buffer = Vec::new();
    put_error(&mut buffer, error);
    put_back::ready(&mut buffer, b'I');
    buffer
}

/// The reply to a command that Ctrl-C cancelled.
pub(crate) fn canceled() -> Vec<u8> {
    let mut buffer = Vec::new();
    let message = "canceling statement due to user request";
    let fields = ErrorFields { severity: "ERROR", sqlstate: "57014", message, detail: None, hint: None };
    put_back::error(&mut buffer, &fields);
    put_back::ready(&mut buffer, b'I');
    buffer
}

/// The reply to SHOW HELP.
pub(crate) fn help() -> Vec<u8> {
    with_notice("Console usage", Some(&weir_admin::help_text()), "SHOW")
}

/// The reply to a SET of a session parameter.
pub(crate) fn set_ignored() -> Vec<u8> {
    with_notice("SET ignored", None, "SET")
}

/// What precedes the answer to SET at a node of a cluster.
pub(crate) fn set_is_local() -> Vec<u8> {
    let until = "It ends with the next RELOAD here, or with the next revision of the cluster's configuration. Change all nodes \
                 with `weir cluster apply`, the API or the panel.";
    notice("SET changes this node only", Some(until))
}

/// What precedes the answer to RELOAD where settings keep their values until a restart.
pub(crate) fn needs_restart(changes: &[Change]) -> Vec<u8> {
    let each = changes
        .iter()
        .map(|change| format!("{} stays \"{}\"; the file has \"{}\"", change.key, change.old, change.new));
    let detail = each.collect::<Vec<_>>().join("\n");
    notice("a restart is needed for what has changed in the file", Some(&detail))
}

/// A notice before the answer to a command.
pub(crate) fn notice(message: &str, detail: Option<&str>) -> Vec<u8> {
    let mut buffer = Vec::new();
    put_back::notice(&mut buffer, &ErrorFields { severity: "NOTICE", sqlstate: "00000", message, detail, hint: None });
    buffer
}

fn with_notice(message: &str, detail: Option<&str>, tag: &str) -> Vec<u8> {
    let mut buffer = notice(message, detail);
    buffer.extend(complete(tag.as_bytes()));
    buffer
}

fn put_error(buffer: &mut Vec<u8>, error: &CommandError) {
    let message = error.to_string();
    let (sqlstate, detail, hint) = (error.sqlstate(), error.detail(), error.hint());
    let hint = hint.as_deref();
    put_back::error(buffer, &ErrorFields { severity: "ERROR", sqlstate, message: &message, detail, hint });
}
