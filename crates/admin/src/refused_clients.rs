//! The clients of a pool that were refused, each once however often it has tried: by its names and its address.
//!
//! Owns the bounds: [`MOST`] clients, [`MOST_UNPROVEN`] with names that nobody has proven, and [`MOST_OF_ORIGIN`] of one
//! origin; of more the one that was refused longest ago is forgotten.

use weir_base::{Origin, prefix};

use crate::client_names::ClientNames;

const MOST: usize = 64;
const MOST_UNPROVEN: usize = 16;
const MOST_OF_ORIGIN: usize = 8;
/// The longest application_name that is kept, in bytes.
const LONGEST: usize = 64;

/// A refused client.
#[derive(Clone, PartialEq, Eq, Debug)]
struct RefusedClient {
    user: String,
    application: String,
    origin: Origin,
    /// When it was last refused: microseconds since 1970.
    last: u64,
}

/// The refused clients of a worker, or of all.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RefusedClients {
    /// Those that have logged in.
    proven: Vec<RefusedClient>,
    /// Others, by the names that they have given.
    unproven: Vec<RefusedClient>,
}

impl RefusedClients {
    /// Notes a client by its user, its application_name and whether it has logged in; `at`: microseconds since 1970.
    pub fn note(&mut self, (user, application, proven): (&str, &str, bool), origin: Origin, at: u64) {
        let application = prefix(application, LONGEST);
        let (list, most) = match proven {
            true => (&mut self.proven, MOST),
            false => (&mut self.unproven, MOST_UNPROVEN),
        };
        let is_same = |known: &&mut RefusedClient| {
            (known.origin, &*known.user, &*known.application) == (origin, user, application)
        };
        if let Some(known) = list.iter_mut().find(is_same) {
            known.last = known.last.max(at);
            return;
        }
        let of_origin = |known: &RefusedClient| known.origin == origin;
        if list.iter().filter(|known| of_origin(known)).count() >= MOST_OF_ORIGIN {
            forget_oldest(list, of_origin);
        } else if list.len() >= most {
            forget_oldest(list, |_| true);
        }
        list.push(RefusedClient { user: user.to_owned(), application: application.to_owned(), origin, last: at });
    }

    /// Adds those of another part.
    pub(crate) fn add(&mut self, other: &RefusedClients) {
        for (list, proven) in [(&other.proven, true), (&other.unproven, false)] {
            list.iter().for_each(|it| self.note((&it.user, &it.application, proven), it.origin, it.last));
        }
    }

    /// Those that were refused after a moment: how many, and who.
    pub fn since(&self, at: u64) -> (u32, ClientNames) {
        let mut names = ClientNames::default();
        let proven = self.proven.iter().filter(|it| it.last > at);
        let unproven = self.unproven.iter().filter(|it| it.last > at);
        proven.clone().for_each(|it| names.count(&it.user, &it.application, 1));
        unproven.clone().for_each(|it| names.count_unproven(&it.user, &it.application, 1));
        ((proven.count() + unproven.count()) as u32, names)
    }
}

fn forget_oldest(list: &mut Vec<RefusedClient>, which: impl Fn(&RefusedClient) -> bool) {
    let oldest = list.iter().enumerate().filter(|(_, it)| which(it)).min_by_key(|(_, it)| it.last);
    if let Some((at, _)) = oldest {
        list.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_tries_again_is_one_and_workers_add_up() {
        let (mut one, mut other) = (RefusedClients::default(), RefusedClients::default());
        (1..100).for_each(|at| one.note(("ann", "web", true), Origin::V4(1), at));
        other.note(("ann", "web", true), Origin::V4(1), 120);
        other.note(("ann", "web", true), Origin::V4(2), 50);
        other.note(("eve", "web", false), Origin::V4(3), 130);
        one.add(&other);
        let (clients, names) = one.since(0);
        assert_eq!((clients, names.most(1)[0].clients), (3, 2));
        assert_eq!((one.since(60).0, one.since(120).0), (2, 1));
    }

    #[test]
    fn their_number_is_bounded_and_one_origin_pushes_out_no_other() {
        let mut refused = RefusedClients::default();
        refused.note(("ann", "web", true), Origin::V4(1), 1);
        (0..1000).for_each(|n| refused.note(("eve", &format!("{n}"), true), Origin::V4(6), 2 + n));
        assert_eq!(refused.since(0).0 as usize, 1 + MOST_OF_ORIGIN);
        (10..1000).for_each(|n| refused.note(("joe", "jobs", true), Origin::V4(n), 5_000));
        (10..1000).for_each(|n| refused.note(("joe", "jobs", false), Origin::V4(n), 5_000));
        assert_eq!(refused.since(0).0 as usize, MOST + MOST_UNPROVEN);
    }
}
