//! The commands of a query under way in whose place the server was sent others.
//!
//! The server receives a statement that does nothing in place of a DEALLOCATE ([`crate::sql_names`]). Its command tag
//! shows that it has run, so that the name is dropped then, and is not if the query fails before. The same statement
//! precedes commands that are not the client's: it receives nothing of them. Positions in errors are those in the
//! client's text.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_pgwire::backend;

use crate::budget::{Account, Charge};
use crate::names::Name;
use crate::shifts::Shifts;

/// A statement that does nothing: UNLISTEN succeeds and fails where DEALLOCATE and SET do, and nobody listens to this
/// channel. Not longer than the shortest DEALLOCATE.
pub(crate) const NOTHING: &[u8] = b"UNLISTEN \"\x01\"";

/// The tag of [`NOTHING`].
const NOTHING_TAG: &[u8] = b"UNLISTEN";

/// The field of an error with its position in the query (PostgreSQL's documentation, "Error and Notice Message Fields").
const POSITION: u8 = b'P';

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
    shifts: Shifts,
    _charge: Option<Charge>,
}

impl Replaced {
    /// A query with these commands, edited at these places, which are charged to `account`. They are parts of a short
    /// text.
    pub(crate) fn new(commands: VecDeque<Nothing>, shifts: Shifts, account: &Arc<Account>) -> Replaced {
        let name = |command: &Nothing| if let Nothing::Deallocate(name) = command { name.whole().len() } else { 0 };
        let bytes: usize = commands.iter().map(|command| ENTRY + name(command)).sum();
        let bytes = bytes + shifts.len() * ENTRY;
        Replaced { commands, ours: 0, shifts, _charge: Some(Charge::anyway(account, bytes as u64)) }
    }

    /// The body of an error of the query, with its position in the text that the client has sent; `None`: it has none, or
    /// the same.
    pub(crate) fn in_clients_text(&self, body: &[u8]) -> Option<Vec<u8>> {
        let position = backend::error_fields(body).ok()?.get(POSITION)?;
        let original = self.shifts.original(std::str::from_utf8(position).ok()?.parse().ok()?).to_string();
        // A field is its code, its text and a zero.
        let at = position.as_ptr().addr() - body.as_ptr().addr();
        let whole = [&body[..at], original.as_bytes(), &body[at + position.len()..]];
        (original.as_bytes() != position).then(|| whole.concat())
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
