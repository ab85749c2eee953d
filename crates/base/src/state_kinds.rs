//! The kinds of session state that a client can leave on its server, by name, and sets of them.

use std::fmt;

/// The names of the kinds, in the order in which they are counted.
pub const STATE_KINDS: [&str; 7] =
    ["settings", "listen", "statements", "cursors", "temporary_objects", "advisory_locks", "sequences"];

/// A set of kinds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StateKinds(u8);

impl StateKinds {
    /// No kind.
    pub const NONE: StateKinds = StateKinds(0);

    /// The set with these bits: the kinds in the order of [`STATE_KINDS`], the lowest bit first. Other bits are dropped.
    #[must_use]
    pub const fn from_bits(bits: u8) -> StateKinds {
        StateKinds(bits & ((1 << STATE_KINDS.len()) - 1))
    }

    /// The set's bits, as [`StateKinds::from_bits`] takes them.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The kinds with these names.
    ///
    /// # Errors
    /// A name that no kind has, with the known ones.
    pub fn named<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<StateKinds, String> {
        let mut set = StateKinds::NONE;
        for name in names {
            let known = STATE_KINDS.iter().position(|kind| *kind == name);
            let place =
                known.ok_or_else(|| format!("must list words of {}; {name:?} is none", STATE_KINDS.join(", ")))?;
            set.0 |= 1 << place;
        }
        Ok(set)
    }

    /// The kinds in the set, as places in [`STATE_KINDS`].
    pub fn places(self) -> impl Iterator<Item = usize> {
        (0..STATE_KINDS.len()).filter(move |place| self.0 >> place & 1 == 1)
    }

    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.places().map(|place| STATE_KINDS[place])
    }
}

impl fmt::Display for StateKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_kinds_that_were_named_and_another_name_is_answered_with_the_known_ones() {
        let set = StateKinds::named(["temporary_objects", "listen"]).unwrap();
        assert_eq!((set.to_string().as_str(), set), ("listen,temporary_objects", StateKinds::from_bits(0b1_0010)));
        assert!(StateKinds::named([]).unwrap().is_empty() && StateKinds::from_bits(0x80).is_empty());
        let error = StateKinds::named(["temp"]).unwrap_err();
        assert!(error.contains("\"temp\"") && error.contains("temporary_objects"), "{error}");
    }
}
