//! Where pools with several hosts write, and how they have moved.
//!
//! Owns the words for it. Must not know how a pool moves.

use weir_base::{Span, plural};

/// The primary of one pool, over all its users.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrimaryRecord {
    /// The pool, as clients name it.
    pub database: String,
    /// The host that the pool writes to; `None`: it looks for one.
    pub host: Option<String>,
    /// What the pool does.
    pub state: PrimaryState,
    /// The host that it had before.
    pub from: Option<String>,
    /// When it moved last: microseconds since 1970.
    pub moved_at: Option<u64>,
    /// How often it has moved since the process began.
    pub moves: u64,
    /// Who waited for the last move.
    pub waits: PrimaryWaits,
}

/// What Patroni says of one host of a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatroniRecord {
    /// The pool, as clients name it.
    pub database: String,
    /// The host.
    pub host: String,
    /// What is asked.
    pub url: String,
    /// The last answer: its status, of which 200 is a yes, or why there was none; `None`: there has been no answer yet.
    pub answer: Option<Result<u16, String>>,
    /// When that came: microseconds since 1970.
    pub answered_at: Option<u64>,
}

/// What a pool does about its primary.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PrimaryState {
    /// It writes there.
    Known,
    /// It looks for one.
    Unknown,
    /// It moves to this host.
    Moving(String),
}

/// Who waited while a pool moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrimaryWaits {
    /// The pools that were asked, one for each user and worker.
    pub pools: u32,
    /// Clients that were waiting when it was over.
    pub clients: u32,
    /// How long the longest of them had.
    pub longest: Span,
}

impl PrimaryState {
    /// The state's name.
    pub fn name(&self) -> &'static str {
        match self {
            PrimaryState::Known => "known",
            PrimaryState::Unknown => "unknown",
            PrimaryState::Moving(_) => "moving",
        }
    }
}

impl PrimaryWaits {
    /// Adds those of another worker.
    pub(crate) fn add(&mut self, other: PrimaryWaits) {
        self.pools += other.pools;
        self.clients += other.clients;
        self.longest = self.longest.max(other.longest);
    }

    /// `212 clients waited, longest 1.4 s`.
    pub fn words(&self) -> String {
        if self.clients == 0 {
            return "no client waited".to_owned();
        }
        let clients = plural(u64::from(self.clients), "client", "clients");
        format!("{clients} waited, longest {:.1} s", self.longest.micros() as f64 / 1e6)
    }
}

impl PrimaryRecord {
    /// `primary moved from a to b 12 s ago; 212 clients waited, longest 1.4 s`, if it has.
    pub fn words(&self, now_wall: u64) -> Option<String> {
        let (from, host, moved_at) = (self.from.as_ref()?, self.host.as_ref()?, self.moved_at?);
        let ago = now_wall.saturating_sub(moved_at) / 1_000_000;
        Some(format!("primary moved from {from} to {host} {ago} s ago; {}", self.waits.words()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_move_is_said_in_one_sentence() {
        let mut record = PrimaryRecord {
            database: "app".into(),
            host: Some("b:5432".into()),
            state: PrimaryState::Known,
            from: Some("a:5432".into()),
            moved_at: Some(1_000_000),
            moves: 1,
            waits: PrimaryWaits { pools: 2, clients: 212, longest: Span::from_millis(1_400) },
        };
        let said = "primary moved from a:5432 to b:5432 12 s ago; 212 clients waited, longest 1.4 s";
        assert_eq!(record.words(13_500_000).as_deref(), Some(said));
        record.waits = PrimaryWaits::default();
        assert!(record.words(13_500_000).is_some_and(|said| said.ends_with("; no client waited")));
        record.from = None;
        assert_eq!(record.words(13_500_000), None);
    }
}
