//! The commands of a query under way in whose place the server was sent others.
//!
//! The server receives a statement that does nothing in place of a DEALLOCATE ([`crate::sql_names`]). Its command tag
//! shows that it has run, so that the name is dropped then, and is not if the query fails before. The same statement
//! precedes commands that are not the client's: it receives nothing of them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::budget::{Account, Charge};
use crate::names::Name;

/// A statement that does nothing: UNLISTEN succeeds and fails where DEALLOCATE and SET do, and nobody listens to this
/// channel. Not longer than the shortest DEALLOCATE.
pub(crate) const NOTHING: &[u8] = b"UNLISTEN \"\x01\"";

/// The tag of [`NOTHING`].
const NOTHING_TAG: &[u8] = b"UNLISTEN";

/// What an entry takes beside its name.
const ENTRY: usize = 64;

/// What a command with the tag of [`NOTHING`] is.
#[derive(Debug)]
pub(crate) enum Nothing {
    /// The client's own UNLISTEN.
    Unlisten,
    /// In place of a DEALLOCATE of this name.
    Deallocate(Name),
    /// Ours, with this many commands behind it.
    Ours(u32),
}

/// To whom the end of a command belongs.
pub(crate) enum Ended {
    /// The client sent it.
    Clients,
    /// The command was sent in place of a DEALLOCATE of this name.
    Deallocate(Name),
    /// The command is ours.
    Ours,
}

/// See the head of the file.
#[derive(Debug)]
pub(crate) struct Replaced {
    /// An entry for each command of the query that is answered like [`NOTHING`], in order.
    commands: VecDeque<Nothing>,
    /// How many of the next commands are ours.
    ours: u32,
    _charge: Option<Charge>,
}

impl Replaced {
    /// A query with these commands, which are charged to `account`. They are parts of a short text.
    pub(crate) fn new(commands: VecDeque<Nothing>, account: &Arc<Account>) -> Replaced {
        let name = |command: &Nothing| if let Nothing::Deallocate(name) = command { name.whole().len() } else { 0 };
        let bytes: usize = commands.iter().map(|command| ENTRY + name(command)).sum();
        Replaced { commands, ours: 0, _charge: Some(Charge::anyway(account, bytes as u64)) }
    }

    /// A command of the query has ended with this tag.
    pub(crate) fn ended(&mut self, tag: &[u8]) -> Ended {
        if self.ours > 0 {
            self.ours -= 1;
            return Ended::Ours;
        }
        if tag != NOTHING_TAG {
            return Ended::Clients;
        }
        match self.commands.pop_front() {
            None | Some(Nothing::Unlisten) => Ended::Clients,
            Some(Nothing::Deallocate(name)) => Ended::Deallocate(name),
            Some(Nothing::Ours(behind)) => {
                self.ours = behind;
                Ended::Ours
            }
        }
    }
}
