//! The books of what requests under way have changed, so that it can be taken back if the server skips them.
//!
//! A client's names change when a request is sent, since what follows in a pipeline depends on it. After an error the
//! server skips up to the next Sync, and what it skipped has not happened: its changes are undone, newest first. What a
//! later segment built upon a change that may still be undone must wait ([`Notes::is_open`]).
//!
//! Invariant: one note for each request in the queue that [`Expect::is_noted`](crate::outstanding::Expect::is_noted), in
//! order.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::client::{Client, Unnamed};
use crate::statements::{Key, Statement, significant};

/// What one request has changed.
#[derive(Debug)]
pub(crate) struct Note {
    /// The segment of the pipeline that it was sent in.
    segment: u32,
    /// The statement that is being prepared on the server.
    prepares: Option<Key>,
    /// What changed for the client.
    change: Change,
}

/// A change of a client's names, with what was before.
#[derive(Debug)]
pub(crate) enum Change {
    /// None: a request of our own.
    None,
    /// None: a request that will be refused, about this name.
    Taken { name: Box<[u8]> },
    /// A named statement.
    Name { name: Box<[u8]>, before: Option<Arc<Statement>> },
    /// The unnamed statement.
    Unnamed { before: Unnamed },
}

/// What a change is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Name(&'a [u8]),
    Unnamed,
}

/// The notes of the requests under way on one server.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    notes: VecDeque<Note>,
}

impl<'a> Subject<'a> {
    /// What a Parse, Bind or Describe calls so.
    pub(crate) fn of(name: &'a [u8]) -> Subject<'a> {
        if name.is_empty() { Subject::Unnamed } else { Subject::Name(name) }
    }
}

impl Change {
    fn is_about(&self, subject: Subject<'_>) -> bool {
        match (self, subject) {
            (Change::Name { name, .. }, Subject::Name(wanted)) => significant(name) == significant(wanted),
            (Change::Unnamed { .. }, Subject::Unnamed) => true,
            _ => false,
        }
    }
}

impl Notes {
    pub(crate) fn push(&mut self, segment: u32, prepares: Option<Key>, change: Change) {
        self.notes.push_back(Note { segment, prepares, change });
    }

    /// Whether the last change of `subject` was made in an earlier segment than `segment` and may still be undone.
    pub(crate) fn is_open(&self, subject: Subject<'_>, segment: u32) -> bool {
        let last = self.notes.iter().rev().find(|note| note.change.is_about(subject));
        last.is_some_and(|note| note.segment != segment)
    }

    /// Whether a request of an earlier segment than `segment` prepares this statement, and may still be skipped.
    pub(crate) fn is_preparing(&self, key: Key, segment: u32) -> bool {
        self.notes.iter().any(|note| note.prepares == Some(key) && note.segment != segment)
    }

    /// The oldest request was answered well. Returns the statement that it prepared, and a buffer that is of no more use.
    pub(crate) fn done(&mut self) -> (Option<Key>, Option<Vec<u8>>) {
        match self.notes.pop_front() {
            Some(Note { prepares, change: Change::Unnamed { before: Unnamed::Held(buffer) }, .. }) => {
                (prepares, Some(buffer))
            }
            Some(note) => (note.prepares, None),
            None => (None, None),
        }
    }

    /// The oldest request failed, or was skipped.
    pub(crate) fn take(&mut self) -> Option<(Option<Key>, Change)> {
        self.notes.pop_front().map(|note| (note.prepares, note.change))
    }

    /// Takes a change back. Whatever was changed again by a request that still stands keeps that change, and knows now
    /// what was before it.
    pub(crate) fn undo(&mut self, client: &mut Client, change: Change) {
        match change {
            Change::None | Change::Taken { .. } => {}
            Change::Name { name, before } => {
                let later = self.notes.iter_mut().find_map(|note| match &mut note.change {
                    Change::Name { name: other, before } if significant(other) == significant(&name) => Some(before),
                    _ => None,
                });
                match (later, before) {
                    (Some(later), before) => *later = before,
                    (None, Some(statement)) => client.statements_mut().insert(&name, statement),
                    (None, None) => drop(client.statements_mut().remove(&name)),
                }
            }
            Change::Unnamed { before } => {
                let later = self.notes.iter_mut().find_map(|note| match &mut note.change {
                    Change::Unnamed { before } => Some(before),
                    _ => None,
                });
                match later {
                    Some(later) => *later = before,
                    None => client.put_unnamed(before),
                }
            }
        }
    }

    /// All statements of the client are gone from here on: what stood before later changes is gone too.
    pub(crate) fn forget_all_before(&mut self) {
        for note in &mut self.notes {
            match &mut note.change {
                Change::Name { before, .. } => *before = None,
                Change::Unnamed { before } => *before = Unnamed::None,
                Change::None | Change::Taken { .. } => {}
            }
        }
    }

    /// What the client calls the statement that the oldest request is about.
    pub(crate) fn name_of_oldest(&self) -> Option<&[u8]> {
        match &self.notes.front()?.change {
            Change::Name { name, .. } | Change::Taken { name } => Some(name),
            _ => None,
        }
    }

    /// What the client called a statement before a request under way took the name away. `ours` is its name on servers.
    pub(crate) fn name_before(&self, ours: &[u8]) -> Option<&[u8]> {
        self.notes.iter().find_map(|note| match &note.change {
            Change::Name { name, before: Some(statement) } if statement.name() == ours => Some(&**name),
            _ => None,
        })
    }

    /// Whether a request under way changes the unnamed statement.
    pub(crate) fn mention_unnamed(&self) -> bool {
        self.notes.iter().any(|note| note.change.is_about(Subject::Unnamed))
    }

    /// Whether a request under way changes this name.
    pub(crate) fn mentions(&self, name: &[u8]) -> bool {
        self.notes.iter().any(|note| note.change.is_about(Subject::Name(name)))
    }
}
