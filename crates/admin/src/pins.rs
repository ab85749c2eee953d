//! Clients that keep their server for what they have left there (`mode = "auto"`): why, and how many there are.
//!
//! Plain data. Texts are without values, as everywhere in reports.

use weir_base::{STATE_KINDS, StateKinds};

/// Why a client keeps its server between transactions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PinRecord {
    /// Since when: microseconds since 1970.
    pub since: u64,
    /// Since when it asks nothing of it: microseconds since 1970; none while it does.
    pub idle_since: Option<u64>,
    /// A reason for each kind of state that keeps it, in the order of [`STATE_KINDS`].
    pub reasons: Vec<PinReason>,
}

/// One kind of state that keeps a client at its server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PinReason {
    /// The kind's name: one of [`STATE_KINDS`].
    pub kind: &'static str,
    /// Since when it is known to be there: microseconds since 1970.
    pub since: u64,
    /// The statement after which it was found, without its values; empty if that is not known.
    pub statement: String,
}

impl PinRecord {
    /// The names of the kinds.
    pub fn kinds(&self) -> String {
        self.reasons.iter().map(|reason| reason.kind).collect::<Vec<_>>().join(", ")
    }

    /// The statement that left the first of the kinds to come, as far as that is known.
    pub fn statement(&self) -> Option<&str> {
        let known = self.reasons.iter().filter(|reason| !reason.statement.is_empty());
        known.min_by_key(|reason| reason.since).map(|reason| &*reason.statement)
    }
}

/// How many clients of a pool keep their servers so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PinCounts {
    /// The clients.
    pub clients: u32,
    /// Those that one of the kinds keeps, in the order of [`STATE_KINDS`]; a client may count for several.
    by_kind: [u32; STATE_KINDS.len()],
}

impl PinCounts {
    /// Counts a client that these kinds keep.
    pub fn count(&mut self, kinds: StateKinds) {
        self.clients += 1;
        kinds.places().for_each(|place| self.by_kind[place] += 1);
    }

    /// Adds the counts of another part.
    pub fn add(&mut self, other: &PinCounts) {
        self.clients += other.clients;
        self.by_kind.iter_mut().zip(other.by_kind).for_each(|(own, other)| *own += other);
    }

    /// The kinds with their counts, the most first: `listen: 3, temporary_objects: 1`.
    pub fn in_words(&self) -> String {
        let mut counted: Vec<_> = self.named().into_iter().filter(|(_, count)| *count > 0).collect();
        counted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        counted.iter().map(|(kind, count)| format!("{kind}: {count}")).collect::<Vec<_>>().join(", ")
    }

    /// Counts a client, as a report of its connection shows it.
    pub fn count_record(&mut self, pin: &PinRecord) {
        self.clients += 1;
        for (place, kind) in STATE_KINDS.iter().enumerate() {
            self.by_kind[place] += u32::from(pin.reasons.iter().any(|reason| reason.kind == *kind));
        }
    }

    /// The counts with the names of their kinds.
    pub fn named(&self) -> [(&'static str, u32); STATE_KINDS.len()] {
        std::array::from_fn(|place| (STATE_KINDS[place], self.by_kind[place]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_several_kinds_keep_is_one_client_and_counts_for_each() {
        let (mut one, mut other) = (PinCounts::default(), PinCounts::default());
        one.count(StateKinds::from_bits(0b11));
        other.count(StateKinds::from_bits(0b10));
        one.add(&other);
        assert_eq!(one.in_words(), "listen: 2, settings: 1");
        let counted: Vec<_> = one.named().into_iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!((one.clients, counted), (2, vec![("settings", 1), ("listen", 2)]));
    }

    #[test]
    fn the_statement_of_a_pin_is_the_first_that_is_known() {
        let reason = |kind, since, statement: &str| PinReason { kind, since, statement: statement.into() };
        let reasons = vec![reason("listen", 3, "LISTEN a"), reason("cursors", 2, ""), reason("statements", 2, "f()")];
        let pin = PinRecord { since: 2, idle_since: None, reasons };
        assert_eq!((pin.kinds().as_str(), pin.statement()), ("listen, cursors, statements", Some("f()")));
        assert_eq!(PinRecord::default().statement(), None);
    }
}
