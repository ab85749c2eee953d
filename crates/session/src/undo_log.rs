//! What pending requests have changed, so that it can be undone if the server skips them.
//!
//! A client's names change when a request is sent, since what follows in a pipeline depends on it. After an error the
//! server skips up to the next Sync, and what it skipped has not happened: its changes are undone, newest first. What a
//! later segment built upon a change that may still be undone must wait ([`UndoLog::is_open`]).
//!
//! Invariants: one entry for each request in the queue that
//! [`Expected::is_logged`](crate::expected::Expected::is_logged), in order. Every operation takes the same time however
//! many entries there are. What they hold is counted, and bounded by [`UndoLog::is_full`].

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use crate::budget::{Account, Charge};
use crate::client::{Client, Unnamed};
use crate::closes::KeyCounts;
use crate::key_hasher::KeyHasher;
use crate::names::{ChangeNumber, Given, Name, key_of};
use crate::statements::Key;

/// The most bytes that entries may hold, beyond which the client is not read from; one request may go beyond it.
pub(crate) const MAX_UNDO_BYTES: usize = 1 << 20;

/// What an entry takes beside what it holds: in the queue, and in the tables that find it.
const ENTRY: usize = 320;

/// Entries are charged in steps of so much; what is below the first one is a part of their server's memory.
const STEP: usize = 64 << 10;

/// What one request has changed.
#[derive(Debug)]
struct Entry {
    /// The segment of the pipeline that it was sent in.
    segment: u32,
    /// The statement that is being prepared on the server.
    prepares: Option<Key>,
    /// What changed for the client.
    change: Change,
    /// The next entry about the same subject.
    next: Option<ChangeNumber>,
}

/// A change of a client's names, with what was before.
#[derive(Debug)]
pub(crate) enum Change {
    /// None: a request of our own.
    None,
    /// None: a request that will be refused, about this name.
    Taken { name: Name },
    /// None: a request that we refuse.
    Refused(RefusedFor),
    /// A named statement.
    Name { name: Name, before: Option<Given> },
    /// The unnamed statement.
    Unnamed { before: Unnamed },
}

/// Why we refuse a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RefusedFor {
    /// A limit is reached, as this message says.
    Limit(&'static str),
    /// The request's statement has another shape now than the client was given.
    Shape,
    /// Its client has cancelled it.
    Cancelled,
}

/// What a change is about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    Name(&'a [u8]),
    Unnamed,
}

/// The oldest and the newest entry about something.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: ChangeNumber,
    last: ChangeNumber,
}

/// The entries of the requests under way on one server.
#[derive(Debug, Default)]
pub(crate) struct UndoLog {
    entries: VecDeque<Entry>,
    /// The number of the oldest; those that follow are numbered without a gap.
    first: ChangeNumber,
    names: HashMap<Name, Ends>,
    unnamed: Option<Ends>,
    preparing: KeyCounts,
    /// By statements, the newest entry that took a name away from one.
    renamed: HashMap<Key, ChangeNumber, BuildHasherDefault<KeyHasher>>,
    /// Names that a change with a lower number has given are gone.
    forgotten: ChangeNumber,
    /// What entries take, and the same with the texts that they hold.
    own_bytes: usize,
    bytes: usize,
    charge: Option<Charge>,
}

impl<'a> Subject<'a> {
    /// What a Parse, Bind or Describe calls so.
    pub(crate) fn of(name: &'a [u8]) -> Subject<'a> {
        if name.is_empty() { Subject::Unnamed } else { Subject::Name(name) }
    }
}

impl Change {
    /// What the change's entry takes.
    fn own_size(&self) -> usize {
        match self {
            Change::Taken { name } | Change::Name { name, .. } => ENTRY + name.whole().len(),
            Change::None | Change::Refused(_) | Change::Unnamed { .. } => ENTRY,
        }
    }

    /// What the entry takes with its content: texts that are charged already, and that may have no other holder any
    /// more.
    fn size(&self) -> usize {
        let held = match self {
            Change::Name { before: Some(given), .. } => given.statement.cost() as usize,
            Change::Unnamed { before } => before.size(),
            _ => 0,
        };
        self.own_size() + held
    }

    /// Forgets what the name was before, if that was given before a change of this number.
    fn forget_given_before(&mut self, number: ChangeNumber) {
        if let Change::Name { before, .. } = self {
            before.take_if(|given| given.by < number);
        }
    }
}

impl UndoLog {
    /// Logs a change of this number; the numbers follow each other while there are entries.
    pub(crate) fn push(
        &mut self,
        number: ChangeNumber,
        segment: u32,
        prepares: Option<Key>,
        change: Change,
        account: &Arc<Account>,
    ) {
        if self.entries.is_empty() {
            self.first = number;
        }
        debug_assert_eq!(number, self.end(), "a entry is missing");
        prepares.into_iter().for_each(|key| self.preparing.add(key, segment));
        if let Change::Name { before: Some(given), .. } = &change {
            self.renamed.insert(given.statement.key(), number);
        }
        self.bytes += change.size();
        self.own_bytes += change.own_size();
        if self.own_bytes > self.charge.as_ref().map_or(STEP, |charge| charge.bytes() as usize) {
            let bytes = self.own_bytes.next_multiple_of(STEP) as u64;
            self.charge.get_or_insert_with(|| Charge::anyway(account, 0)).resize_anyway(bytes);
        }
        self.append(number, &change);
        self.entries.push_back(Entry { segment, prepares, change, next: None });
    }

    /// Appends an entry that is about to be pushed to those about the same subject.
    fn append(&mut self, number: ChangeNumber, change: &Change) {
        let only = Ends { first: number, last: number };
        let before = match change {
            Change::Name { name, .. } => match self.names.get_mut(key_of(name.whole())) {
                Some(ends) => Some(std::mem::replace(&mut ends.last, number)),
                None => {
                    self.names.insert(name.clone(), only);
                    None
                }
            },
            Change::Unnamed { .. } => match &mut self.unnamed {
                Some(ends) => Some(std::mem::replace(&mut ends.last, number)),
                None => {
                    self.unnamed = Some(only);
                    None
                }
            },
            _ => None,
        };
        if let Some(entry) = before.and_then(|before| self.entry_mut(before)) {
            entry.next = Some(number);
        }
    }

    /// Whether the last change of `subject` was made in an earlier segment than `segment` and may still be undone.
    pub(crate) fn is_open(&self, subject: Subject<'_>, segment: u32) -> bool {
        let last = self.ends(subject).and_then(|ends| self.entry(ends.last));
        last.is_some_and(|entry| entry.segment != segment)
    }

    /// Whether a request of an earlier segment than `segment` prepares this statement, and may still be skipped.
    pub(crate) fn is_preparing(&self, key: Key, segment: u32) -> bool {
        self.preparing.has_other(key, segment)
    }

    /// Whether no more should be logged until some requests are answered.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes >= MAX_UNDO_BYTES
    }

    /// The oldest request was answered well. Returns the statement that it prepared, and a buffer that is of no more
    /// use.
    pub(crate) fn done(&mut self) -> (Option<Key>, Option<Vec<u8>>) {
        match self.take() {
            Some((prepares, Change::Unnamed { before })) => (prepares, before.into_buffer()),
            Some((prepares, _)) => (prepares, None),
            None => (None, None),
        }
    }

    /// The oldest request failed, or was skipped.
    pub(crate) fn take(&mut self) -> Option<(Option<Key>, Change)> {
        let mut entry = self.entries.pop_front()?;
        let number = self.first;
        self.first += 1;
        self.bytes -= entry.change.size();
        self.own_bytes -= entry.change.own_size();
        entry.prepares.into_iter().for_each(|key| self.preparing.remove(key, entry.segment));
        match &entry.change {
            Change::Name { name, before } => {
                match entry.next {
                    Some(next) => self.names.get_mut(key_of(name.whole())).into_iter().for_each(|e| e.first = next),
                    None => drop(self.names.remove(key_of(name.whole()))),
                }
                let key = before.as_ref().map(|given| given.statement.key());
                if let Some(key) = key.filter(|key| self.renamed.get(key) == Some(&number)) {
                    self.renamed.remove(&key);
                }
            }
            Change::Unnamed { .. } => {
                let last = self.unnamed.map(|ends| ends.last);
                self.unnamed = entry.next.zip(last).map(|(first, last)| Ends { first, last });
            }
            _ => {}
        }
        entry.change.forget_given_before(self.forgotten);
        if self.entries.is_empty() {
            self.shrink();
        }
        Some((entry.prepares, entry.change))
    }

    /// Undoes a change. Whatever was changed again by a request that still stands keeps that change, and knows now
    /// what was before it.
    pub(crate) fn undo(&mut self, client: &mut Client, change: Change) {
        match change {
            Change::None | Change::Taken { .. } | Change::Refused(_) => {}
            Change::Name { name, before } => {
                let later = self.ends(Subject::Name(name.whole())).map(|ends| ends.first);
                match (later, before) {
                    (Some(later), before) => {
                        if let Some(given) = &before {
                            self.renamed.insert(given.statement.key(), later);
                        }
                        self.put_before(later, Change::Name { name, before });
                    }
                    (None, Some(given)) => client.statements_mut().insert(name, given),
                    (None, None) => drop(client.statements_mut().remove(name.whole())),
                }
            }
            Change::Unnamed { before } => match self.unnamed {
                Some(ends) => self.put_before(ends.first, Change::Unnamed { before }),
                None => client.put_unnamed(before),
            },
        }
    }

    /// What was before the change of this number is what was before `undone`.
    fn put_before(&mut self, number: ChangeNumber, undone: Change) {
        let Some(entry) = self.entry_mut(number) else { return };
        let held = entry.change.size();
        match (&mut entry.change, undone) {
            (Change::Name { before, .. }, Change::Name { before: now, .. }) => *before = now,
            (Change::Unnamed { before }, Change::Unnamed { before: now }) => *before = now,
            _ => {}
        }
        let holds = entry.change.size();
        self.bytes = self.bytes + holds - held;
    }

    /// All names of the client are gone that were given before the requests under way, also where one of these has taken
    /// a name away. Returns the number of the first change that still stands.
    pub(crate) fn forget_all_before(&mut self, next: ChangeNumber) -> ChangeNumber {
        if self.entries.is_empty() {
            return next;
        }
        self.forgotten = self.first;
        self.first
    }

    /// What the client calls the statement that the oldest request is about.
    pub(crate) fn name_of_oldest(&self) -> Option<&[u8]> {
        match &self.entries.front()?.change {
            Change::Name { name, .. } | Change::Taken { name } => Some(name.whole()),
            _ => None,
        }
    }

    /// Why we refuse the oldest request, if we do.
    pub(crate) fn refusal_of_oldest(&self) -> Option<RefusedFor> {
        match self.entries.front()?.change {
            Change::Refused(what) => Some(what),
            _ => None,
        }
    }

    /// What the client called a statement before a request under way took the name away.
    pub(crate) fn name_before(&self, statement: Key) -> Option<&[u8]> {
        match &self.entry(*self.renamed.get(&statement)?)?.change {
            Change::Name { name, .. } => Some(name.whole()),
            _ => None,
        }
    }

    /// Whether a request under way changes the unnamed statement.
    pub(crate) fn changes_unnamed(&self) -> bool {
        self.unnamed.is_some()
    }

    fn ends(&self, subject: Subject<'_>) -> Option<Ends> {
        match subject {
            Subject::Name(_) if self.names.is_empty() => None,
            Subject::Name(name) => self.names.get(key_of(name)).copied(),
            Subject::Unnamed => self.unnamed,
        }
    }

    fn end(&self) -> ChangeNumber {
        self.first + self.entries.len() as ChangeNumber
    }

    fn entry(&self, number: ChangeNumber) -> Option<&Entry> {
        self.entries.get(number.checked_sub(self.first)? as usize)
    }

    fn entry_mut(&mut self, number: ChangeNumber) -> Option<&mut Entry> {
        self.entries.get_mut(number.checked_sub(self.first)? as usize)
    }

    /// No entry is left. The next one may be about another client, who counts for itself; and a deep pipeline does not
    /// leave its memory behind.
    fn shrink(&mut self) {
        self.charge = None;
        self.forgotten = 0;
        self.renamed.clear();
        if self.entries.capacity() > 64 {
            *self = UndoLog { first: self.first, ..UndoLog::default() };
        }
    }
}
