//! Which applications a pool's clients have been, and when each was first seen: bounded, so that many names cost no
//! memory, and push out no other program's. Noted when a client logs in, and never on the path of a query.

use std::collections::HashMap;

use weir_base::{is_hidden, prefix};

/// The most applications of a pool that a worker knows, and that a sum of workers has.
const MOST: usize = 64;
const MOST_OF_ALL: usize = 256;
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

    /// Whether the name is to be added: it is not known. Linear in [`MOST`].
    pub fn is_new(&self, name: &str) -> bool {
        !name.is_empty() && !self.knows(prefix(name, LONGEST))
    }

    /// Adds a name, if it is new; characters that are not shown are left out. Another one may have to give way.
    pub fn add(&mut self, name: &str, first: u64) {
        let mut name = name.to_owned();
        name.retain(|c| !is_hidden(c));
        name.truncate(prefix(&name, LONGEST).len());
        if !self.is_new(&name) {
            return;
        }
        if self.0.len() >= MOST {
            let gone = gives_way(self.0.iter().map(|known| known.name.as_str()));
            gone.into_iter().for_each(|at| drop(self.0.remove(at)));
        }
        self.0.push(SeenApplication { name, first });
    }

    fn knows(&self, name: &str) -> bool {
        self.0.iter().any(|known| known.name == name)
    }

    /// Adds what another worker has seen; the earlier time of both counts.
    pub(crate) fn merge(&mut self, other: &Applications) {
        for SeenApplication { name, first } in &other.0 {
            if let Some(known) = self.0.iter_mut().find(|known| known.name == *name) {
                known.first = known.first.min(*first);
            } else if self.0.len() < MOST_OF_ALL {
                self.0.push(SeenApplication { name: name.clone(), first: *first });
            }
        }
    }
}

/// What names of one program have in common: its words, without numbers and hexadecimal identifiers. `shop/1.4.2` is one of
/// `shop`, `worker-7f3a-12` of `worker`.
#[must_use]
pub fn stem(name: &str) -> String {
    let mut stem = String::new();
    for word in name.split(|c: char| !c.is_alphanumeric()) {
        let is_number = word.contains(|c: char| c.is_ascii_digit()) || word.len() >= 8;
        if word.chars().all(|c| c.is_ascii_hexdigit()) && (is_number || word.is_empty()) {
            continue;
        }
        if !stem.is_empty() {
            stem.push('-');
        }
        stem.extend(word.chars().filter(|c| !c.is_ascii_digit()));
    }
    stem
}

/// Which of these names, in the order in which they came, gives way to another one: the oldest of the program with most, so
/// that names that change all the time leave those of other programs. Where each program has one, the newest: what was
/// invented last leaves what is known for long.
pub fn gives_way<'n>(names: impl Iterator<Item = &'n str>) -> Option<usize> {
    let stems: Vec<String> = names.map(stem).collect();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    stems.iter().for_each(|stem| *counts.entry(stem).or_default() += 1);
    let most = counts.values().max().copied()?;
    if most == 1 { stems.len().checked_sub(1) } else { stems.iter().position(|stem| counts[stem.as_str()] == most) }
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
        assert!(one.is_new("another") && !one.is_new("web"));
    }

    #[test]
    fn names_of_one_program_have_one_stem() {
        for (name, expected) in [
            ("shop/1.4.2", "shop"),
            ("web-v7", "web-v"),
            ("app12", "app"),
            ("worker-7f3a-12", "worker"),
            ("job 123e4567-e89b-12d3-a456-426614174000", "job"),
            ("deadbeef", ""),
            ("PostgreSQL JDBC Driver", "PostgreSQL-JDBC-Driver"),
            ("face", "face"),
            ("naïve café", "naïve-café"),
        ] {
            assert_eq!(stem(name), expected, "{name}");
        }
    }

    #[test]
    fn names_that_change_all_the_time_push_out_no_other_program_and_a_new_one_is_still_seen() {
        let known = |all: &Applications, name: &str| all.list().iter().any(|of| of.name == name);
        for invented in [|n: u32| format!("worker-{n}"), |n| std::iter::repeat_n('x', 1 + n as usize % 63).collect()] {
            let mut all = Applications::default();
            all.add("web/1.3", 1);
            all.add("jobs", 1);
            (0..500).for_each(|n| all.add(&invented(n), 2));
            all.add("web/1.4", 3);
            assert!(["web/1.3", "jobs", "web/1.4"].iter().all(|name| known(&all, name)), "{all:?}");
            assert!(all.list().len() <= MOST);
        }
    }
}
