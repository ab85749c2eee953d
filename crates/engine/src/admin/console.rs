//! An operator's session: what it sends, read as commands, and what it is sent.
//!
//! A console lives on the worker that accepted it. What a command's words mean is in `weir-admin`, and what comes of one is
//! done in `flows::console`.

use std::borrow::Cow;

use weir_admin::{Command, CommandError, Role};
use weir_pgwire::tag::front;
use weir_pgwire::{ErrorFields, HEAD, Head, frontend, put_back};
use weir_session::Refusal;

use crate::admin::stream::TableStream;

/// The longest query at the console.
const MAX_QUERY: usize = 64 << 10;

/// See the head of the file.
pub(crate) struct Console {
    role: Role,
    /// The name it connected to.
    database: String,
    /// After an error in the extended protocol, until Sync.
    skipping: bool,
    /// The command that it waits for.
    pending: Option<u64>,
    /// The table that is on its way to it.
    table: Option<Box<TableStream>>,
}

/// What an operator has sent.
pub(crate) enum ConsoleInput {
    /// Nothing whole.
    More,
    /// Something that is answered by these bytes; there may be none.
    Answer(Vec<u8>),
    /// A command that its role may give.
    Command(Command),
    /// A command that is refused.
    Refused(CommandError),
    /// Something that ends the connection.
    Broken(Refusal),
    /// The end of the session.
    Leave,
}

impl Console {
    pub(crate) fn new(role: Role, database: String) -> Self {
        Console { role, database, skipping: false, pending: None, table: None }
    }

    /// The name it connected to.
    pub(crate) fn database(&self) -> &str {
        &self.database
    }

    /// Takes the first message out of what was received.
    pub(crate) fn read(&mut self, received: &mut Vec<u8>) -> ConsoleInput {
        let head = match Head::parse(received) {
            Ok(None) => return ConsoleInput::More,
            Ok(Some(head)) if head.total() <= MAX_QUERY => head,
            _ => return ConsoleInput::Broken(Refusal::Protocol("a message that the console can't take".into())),
        };
        if received.len() < head.total() {
            return ConsoleInput::More;
        }
        if head.tag == front::TERMINATE {
            return ConsoleInput::Leave;
        }
        let input = self.message(head.tag, &received[HEAD..head.total()]);
        received.drain(..head.total());
        input
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
            _ => {
                self.skipping = true;
                put_error(&mut answer, &CommandError::ExtendedProtocol);
            }
        }
        ConsoleInput::Answer(answer)
    }

    /// It waits for a command; `None` while that has no number yet.
    pub(crate) fn wait_for(&mut self, command: Option<u64>) {
        self.pending = command;
    }

    /// The command that it waits for.
    pub(crate) fn pending(&self) -> Option<u64> {
        self.pending
    }

    /// The table that is on its way to it.
    pub(crate) fn table(&mut self) -> Option<&mut TableStream> {
        self.table.as_deref_mut()
    }

    /// A table begins.
    pub(crate) fn set_table(&mut self, table: TableStream) {
        self.table = Some(Box::new(table));
    }

    /// Its command is answered.
    pub(crate) fn answered(&mut self) {
        self.pending = None;
        self.table = None;
    }
}

/// The answer to a command that was carried out.
pub(crate) fn complete(tag: &[u8]) -> Vec<u8> {
    let mut buffer = Vec::new();
    put_back::command_complete(&mut buffer, tag);
    put_back::ready(&mut buffer, b'I');
    buffer
}

/// The answer to a command that was not.
pub(crate) fn failure(error: &CommandError) -> Vec<u8> {
    let mut buffer = Vec::new();
    put_error(&mut buffer, error);
    put_back::ready(&mut buffer, b'I');
    buffer
}

/// The answer to a command that was taken back by Ctrl-C.
pub(crate) fn canceled() -> Vec<u8> {
    let mut buffer = Vec::new();
    let message = "canceling statement due to user request";
    let fields = ErrorFields { severity: "ERROR", sqlstate: "57014", message, detail: None, hint: None };
    put_back::error(&mut buffer, &fields);
    put_back::ready(&mut buffer, b'I');
    buffer
}

/// The answer to SHOW HELP.
pub(crate) fn help() -> Vec<u8> {
    with_notice("Console usage", Some(&weir_admin::help_text()), "SHOW")
}

/// The answer to a SET of what drivers set.
pub(crate) fn set_ignored() -> Vec<u8> {
    with_notice("SET ignored", None, "SET")
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
    let (sqlstate, detail) = (error.sqlstate(), error.detail());
    put_back::error(buffer, &ErrorFields { severity: "ERROR", sqlstate, message: &message, detail, hint: None });
}
