//! The SQLSTATEs of some errors, each with its count: a bounded number.

use weir_admin::{SqlState, is_grave};

/// Kinds of errors that are counted separately.
const MOST: usize = 8;
/// The statement after the one that failed, in a transaction: it says nothing about the cause.
pub(crate) const IN_FAILED_TRANSACTION: SqlState = *b"25P02";

#[derive(Default)]
pub(crate) struct ErrorCodes(Vec<(SqlState, u32)>);

impl ErrorCodes {
    pub(crate) fn count(&mut self, code: SqlState) {
        if let Some((_, count)) = self.0.iter_mut().find(|(known, _)| *known == code) {
            *count += 1;
        } else if self.0.len() < MOST {
            self.0.push((code, 1));
        }
    }

    /// The most frequent of these and others: of those of a server in trouble, if there are any.
    pub(crate) fn most_frequent(&self, others: &ErrorCodes) -> SqlState {
        let codes = || self.0.iter().chain(&others.0);
        let total = |code: &SqlState| codes().filter(|(other, _)| other == code).map(|(_, count)| count).sum::<u32>();
        let best = codes().map(|(code, _)| code).max_by_key(|code| {
            (is_grave(code), **code != IN_FAILED_TRANSACTION, total(code), std::cmp::Reverse(**code))
        });
        best.copied().unwrap_or(*b"XX000")
    }
}
