//! One client of a pool that is recorded: the state that it holds, and what its transaction under way has done.

use weir_admin::RecordedUse;
use weir_pgwire::Dirty;
use weir_pgwire::sql::{StateAct, StateUse};
use weir_session::StatementId;

use super::execution::{Executor, StatementUse};

/// The most things that a client is known to hold.
const MAX_HELD: usize = 64;
/// The most things of a transaction that wait for its end; the earliest count before.
const MAX_OPEN: usize = 64;
/// The most requests of a client whose answers are awaited that are sent under another statement's name.
pub(super) const MAX_SENT: usize = 16;
/// What one of these takes at most.
const SENT: usize = 5 << 10;
/// The most lines for which it is known that a client is among its clients.
const MAX_LINES: usize = 256;

/// See the head of the file.
#[derive(Default)]
pub(super) struct FollowedClient {
    held: Vec<Held>,
    /// The client may hold more than what is known, which keeps it until it removes all or leaves.
    holds_more: bool,
    /// What the transaction under way has done, as places of lines, and whether a ROLLBACK undoes it.
    open: Vec<(u32, bool)>,
    sent: Vec<(StatementId, StatementUse)>,
    /// The lines that have counted the client.
    lines: Vec<u32>,
    /// The transaction under way may have used a sequence.
    used_sequence: bool,
    rolled_back: bool,
    /// The client uses a server.
    pub(super) is_busy: bool,
    /// Something that it holds would keep it at a server in mode auto.
    pub(super) holds: bool,
}

struct Held {
    kind: Dirty,
    name: Box<str>,
    pins: bool,
    /// Left by the transaction under way.
    new: bool,
}

/// Whether a ROLLBACK removes state of this kind.
fn is_transactional(kind: Dirty) -> bool {
    !matches!(kind, Dirty::STATEMENTS | Dirty::LOCKS | Dirty::SEQUENCES)
}

/// The place of a kind among all.
fn place(kind: Dirty) -> u8 {
    kind.bits().trailing_zeros() as u8
}

/// Whether a setting keeps its client at a server in mode auto: it is no value to be set elsewhere.
fn keeps_server(setting: &str) -> bool {
    matches!(setting, "role" | "session_authorization" | "temp_buffers")
}

impl FollowedClient {
    /// The most bytes that one takes.
    pub(super) const MOST: usize = size_of::<FollowedClient>()
        + MAX_HELD * (size_of::<Held>() + 64)
        + MAX_OPEN * size_of::<(u32, bool)>()
        + MAX_LINES * size_of::<u32>()
        + MAX_SENT * SENT;

    /// Requests are sent under another statement's name.
    pub(super) fn sends(&mut self, sent: Vec<(StatementId, StatementUse)>) {
        let room = MAX_SENT.saturating_sub(self.sent.len());
        self.sent.extend(sent.into_iter().take(room));
    }

    /// What was sent under the name of this statement, which is answered.
    pub(super) fn sent_as(&mut self, statement: StatementId) -> Option<StatementUse> {
        let at = self.sent.iter().position(|(sent, _)| *sent == statement)?;
        // The ones before this one were skipped.
        self.sent.drain(..=at).next_back().map(|(_, usage)| usage)
    }

    /// A request of the client's ended so.
    pub(super) fn ended(&mut self, rolled_back: bool) {
        self.rolled_back = rolled_back;
    }

    /// The client has done this. `draws`: what it may have drawn of sequences is asked for later. Returns what it is, each
    /// with whether a ROLLBACK undoes it.
    pub(super) fn does(&mut self, uses: &StateUse, by: &Executor<'_>, draws: bool) -> Vec<(RecordedUse, bool)> {
        let mut done = Vec::new();
        for act in &uses.acts {
            match act {
                StateAct::Leaves(Dirty::SETTINGS, name) => {
                    let does = match ((by.follows)(name), keeps_server(name)) {
                        (true, true) => RecordedUse::SetIdentity,
                        (true, false) => RecordedUse::SetFollowed,
                        (false, true) => RecordedUse::SetKept,
                        (false, false) => RecordedUse::Left(0),
                    };
                    self.hold(Dirty::SETTINGS, name, keeps_server(name));
                    done.push((does, true));
                }
                StateAct::Leaves(kind, name) => {
                    self.hold(*kind, name, by.pins.contains(*kind));
                    done.push((RecordedUse::Left(place(*kind)), is_transactional(*kind)));
                }
                StateAct::Removes(kinds, name) => self.remove(*kinds, name.as_deref()),
                StateAct::Finds(kind, name) if self.finds(*kind, name) => {
                    done.push((RecordedUse::Found(place(*kind)), false));
                }
                StateAct::FindsSequence if !self.used_sequence => {
                    self.hold(Dirty::SEQUENCES, "", by.pins.contains(Dirty::SEQUENCES));
                    done.push((RecordedUse::FoundSequence, false));
                }
                StateAct::Finds(..) | StateAct::FindsSequence => {}
            }
        }
        if uses.unjudged {
            done.push((RecordedUse::Unjudged, false));
        }
        self.used_sequence |= uses.may_use_sequence;
        if draws {
            self.hold(Dirty::SEQUENCES, "", by.pins.contains(Dirty::SEQUENCES));
        }
        done.dedup();
        done
    }

    /// Whether state of this name was left by an earlier transaction. A statement that is not known was prepared before
    /// the record began.
    fn finds(&self, kind: Dirty, name: &str) -> bool {
        let fits = |held: &&Held| held.kind == kind && (name.is_empty() || *held.name == *name);
        match self.held.iter().find(fits) {
            Some(held) => !held.new,
            None => kind == Dirty::STATEMENTS && !name.is_empty(),
        }
    }

    fn hold(&mut self, kind: Dirty, name: &str, pins: bool) {
        // Locks count, as each must be released.
        let known = |held: &Held| held.kind == kind && kind != Dirty::LOCKS && *held.name == *name;
        if self.held.iter().any(known) {
            return;
        }
        if self.held.len() < MAX_HELD {
            self.held.push(Held { kind, name: name.into(), pins, new: true });
        } else {
            self.holds_more |= pins;
        }
    }

    fn remove(&mut self, kinds: Dirty, name: Option<&str>) {
        let everything = kinds.contains(Dirty::ALL);
        match name {
            // RESET ALL leaves settings that keep their client.
            None => {
                self.held.retain(|held| {
                    !kinds.contains(held.kind) || (held.kind == Dirty::SETTINGS && held.pins && !everything)
                });
            }
            Some(name) => {
                let fits = |held: &Held| kinds.contains(held.kind) && *held.name == *name;
                if let Some(at) = self.held.iter().rposition(fits) {
                    self.held.remove(at);
                }
            }
        }
        self.holds_more &= !everything;
    }

    /// Something was done that counts at this line when the transaction has ended. Returns a line that counts now.
    pub(super) fn note(&mut self, line: u32, is_undone: bool) -> Option<u32> {
        let first = (self.open.len() >= MAX_OPEN).then(|| self.open.remove(0).0);
        self.open.push((line, is_undone));
        first
    }

    /// The transaction has ended. Returns the lines that count.
    pub(super) fn transaction_ended(&mut self) -> Vec<u32> {
        let undone = std::mem::take(&mut self.rolled_back);
        self.used_sequence = false;
        self.sent.clear();
        if undone {
            self.held.retain(|held| !held.new || !is_transactional(held.kind));
        }
        self.held.iter_mut().for_each(|held| held.new = false);
        self.holds = self.holds_more || self.held.iter().any(|held| held.pins);
        let open = std::mem::take(&mut self.open);
        open.into_iter().filter(|(_, is_undone)| !(undone && *is_undone)).map(|(line, _)| line).collect()
    }

    /// Whether this line counts the client for the first time.
    pub(super) fn is_new_to(&mut self, line: u32) -> bool {
        match self.lines.binary_search(&line) {
            Err(at) if self.lines.len() < MAX_LINES => {
                self.lines.insert(at, line);
                true
            }
            _ => false,
        }
    }

    /// What the client takes now.
    pub(super) fn used(&self) -> usize {
        let names: usize = self.held.iter().map(|held| held.name.len()).sum();
        size_of::<FollowedClient>()
            + self.held.capacity() * size_of::<Held>()
            + names
            + self.sent.len() * SENT
            + self.open.capacity() * size_of::<(u32, bool)>()
            + self.lines.capacity() * size_of::<u32>()
    }
}
