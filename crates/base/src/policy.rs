//! The two policies of a pool: how long a client keeps its server (`pool_mode`), and what happens to session state that
//! a client leaves on the server.

use std::fmt;
use std::str::FromStr;

/// How long a client keeps its server (PgBouncer's `pool_mode`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PoolMode {
    /// Until the client disconnects.
    Session,
    /// Until its transaction ends.
    Transaction,
    /// Until its statement ends; a transaction of several statements is refused.
    Statement,
    /// Until its transaction ends, or longer where it has left state that only this server has: as long as that is
    /// there.
    #[default]
    Auto,
}

/// What happens to a server on which a client left state (SET, LISTEN, PREPARE, temporary tables …) when it is
/// released.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OnDirty {
    /// The next client gets the server unchanged, as with PgBouncer.
    Keep,
    /// The server is reset with `DISCARD ALL` first.
    #[default]
    Reset,
    /// The server is closed.
    Close,
    /// A statement that would leave state is refused with an error; state that is left nevertheless is reset.
    Refuse,
}

/// An unknown word for a policy; `expected` lists the known words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnknownPolicy {
    /// The known words.
    pub expected: &'static [&'static str],
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "must be one of {}", self.expected.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

impl PoolMode {
    /// The words that settings use, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["session", "transaction", "statement", "auto"];
    /// Every mode, in the order of the variants.
    pub const ALL: [PoolMode; 4] = [PoolMode::Session, PoolMode::Transaction, PoolMode::Statement, PoolMode::Auto];

    /// Whether a client keeps its session's state.
    #[inline]
    pub fn keeps_state(self) -> bool {
        matches!(self, PoolMode::Session | PoolMode::Auto)
    }
}

impl OnDirty {
    /// The words that settings use, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["keep", "reset", "close", "refuse"];
    const ALL: [OnDirty; 4] = [OnDirty::Keep, OnDirty::Reset, OnDirty::Close, OnDirty::Refuse];
}

impl fmt::Display for PoolMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PoolMode::WORDS[*self as usize])
    }
}

impl fmt::Display for OnDirty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(OnDirty::WORDS[*self as usize])
    }
}

impl FromStr for PoolMode {
    type Err = UnknownPolicy;
    fn from_str(word: &str) -> Result<PoolMode, UnknownPolicy> {
        let found = PoolMode::WORDS.iter().position(|w| *w == word);
        found.map(|i| PoolMode::ALL[i]).ok_or(UnknownPolicy { expected: PoolMode::WORDS })
    }
}

impl FromStr for OnDirty {
    type Err = UnknownPolicy;
    fn from_str(word: &str) -> Result<OnDirty, UnknownPolicy> {
        let found = OnDirty::WORDS.iter().position(|w| *w == word);
        found.map(|i| OnDirty::ALL[i]).ok_or(UnknownPolicy { expected: OnDirty::WORDS })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_names_the_policy_that_prints_it() {
        for (mode, word) in PoolMode::ALL.into_iter().zip(PoolMode::WORDS) {
            assert_eq!((mode.to_string().as_str(), word.parse()), (*word, Ok(mode)));
        }
        for (policy, word) in OnDirty::ALL.into_iter().zip(OnDirty::WORDS) {
            assert_eq!((policy.to_string().as_str(), word.parse()), (*word, Ok(policy)));
        }
    }

    #[test]
    fn another_word_is_answered_with_the_known_ones() {
        let error = "trans".parse::<PoolMode>().unwrap_err();
        assert_eq!(error.to_string(), "must be one of session, transaction, statement, auto");
    }
}
