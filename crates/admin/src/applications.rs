//! Which applications a pool's clients have been, and when each was first seen: bounded, so that many names cost no
//! memory. Noted when a client logs in, and never on the path of a query.

use weir_base::{is_hidden, prefix};

/// The most applications of a pool.
const MOST: usize = 64;
/// The longest name that is kept, in bytes.
const LONGEST: usize = 64;

/// An application of a pool's clients.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeenApplication {
    /// The application_name; never empty.
    pub name: String,
    /// When a client with this name first logged in: microseconds since 1970; 0: in an earlier process.
    pub first: u64,
}

/// The applications of a pool since the process began, in the order in which they were seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Applications(Vec<SeenApplication>);

impl Applications {
    /// The applications.
    pub fn list(&self) -> &[SeenApplication] {
        &self.0
    }

    /// Whether the name is to be added: it has not been seen, and there is room. Linear in [`MOST`].
    pub fn is_new(&self, name: &str) -> bool {
        !name.is_empty() && self.0.len() < MOST && !self.knows(prefix(name, LONGEST))
    }

    /// Adds a name, if it is new; characters that are not shown are left out.
    pub fn add(&mut self, name: &str, first: u64) {
        let mut name = name.to_owned();
        name.retain(|c| !is_hidden(c));
        name.truncate(prefix(&name, LONGEST).len());
        if self.is_new(&name) {
            self.0.push(SeenApplication { name, first });
        }
    }

    fn knows(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.name == name)
    }

    /// Adds what another worker has seen; the earlier time of both counts.
    pub(crate) fn merge(&mut self, other: &Applications) {
        for SeenApplication { name, first } in &other.0 {
            match self.0.iter_mut().find(|known| known.name == *name) {
                Some(known) => known.first = known.first.min(*first),
                None => self.add(name, *first),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_first_time_and_their_number_and_length_are_bounded() {
        let (mut one, mut other) = (Applications::default(), Applications::default());
        for (name, at) in [("web", 5), ("web", 7), ("", 8), ("jo\u{7}bs", 9)] {
            if one.is_new(name) {
                one.add(name, at);
            }
        }
        other.add("web", 3);
        other.add("mail", 4);
        one.merge(&other);
        let seen: Vec<_> = one.list().iter().map(|of| (of.name.as_str(), of.first)).collect();
        assert_eq!(seen, [("web", 3), ("jobs", 9), ("mail", 4)]);
        (0..200).for_each(|n| one.add(&format!("{n} {}", "x".repeat(100)), 1));
        assert!(one.list().len() == MOST && one.list().iter().all(|of| of.name.len() <= LONGEST));
        assert!(!one.is_new("another") && !one.is_new("web"));
    }
}
