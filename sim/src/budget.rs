//! The work of a worker's turns, in proportion to what peers have sent: the checker "turns are short".
//!
//! Owns what a worker may still spend. Work is counted in the steps of the functions that read texts
//! ([`weir_pgwire::sql::steps_taken`]), not in time. Every byte that arrives is read a few times, once it is stored or
//! sent; what is stored may not be read again for a message of a few bytes.

/// The most steps for each byte that arrives: several functions read a text, each in proportion to it.
const PER_BYTE: u64 = 64;

/// The steps that a turn may take whatever arrived: the heads of texts that waited, a few commands of an operator.
const PER_TURN: u64 = 256 << 10;

/// What one worker may still spend.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    steps: u64,
}

impl Budget {
    /// This many bytes arrive.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.steps += bytes as u64 * PER_BYTE;
    }

    /// A turn has taken this many steps. What is wrong with that, if anything.
    pub(crate) fn spent(&mut self, steps: u64) -> Option<String> {
        let beyond = steps.saturating_sub(PER_TURN);
        let left = self.steps.checked_sub(beyond);
        self.steps = left.unwrap_or(0);
        left.is_none().then(|| format!("a turn reads texts for {steps} steps, more than all that arrived since allows"))
    }
}

#[test]
fn what_arrives_may_be_read_and_what_is_stored_may_not_be_read_again() {
    let mut budget = Budget::default();
    budget.received(16 << 20);
    assert_eq!(budget.spent((16 << 20) * PER_BYTE / 2), None);
    assert_eq!(budget.spent((16 << 20) * PER_BYTE / 2), None, "in another turn");
    assert_eq!(budget.spent(PER_TURN), None);
    budget.received(22);
    assert!(budget.spent(16 << 20).is_some());
}
