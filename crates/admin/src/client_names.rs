//! Which users and applications clients have, with their numbers: bounded, so that many names cost no memory.

use weir_base::prefix;

/// The most names that are counted; clients of further ones are in no entry.
const MAX_NAMES: usize = 32;
/// The longest application_name of an entry, in bytes.
const MAX_APPLICATION: usize = 64;

/// Clients of one user with one application_name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedClients {
    /// The user that logged in.
    pub user: String,
    /// Empty if they gave none.
    pub application_name: String,
    /// How many.
    pub clients: u32,
}

/// Clients by user and application.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientNames(Vec<NamedClients>);

impl ClientNames {
    /// Counts clients.
    pub fn count(&mut self, user: &str, application: &str, clients: u32) {
        let application = prefix(application, MAX_APPLICATION);
        let known = self.0.iter().position(|it| it.user == user && it.application_name == application);
        match known {
            Some(at) => self.0[at].clients += clients,
            None if self.0.len() < MAX_NAMES => {
                let (user, application_name) = (user.to_owned(), application.to_owned());
                self.0.push(NamedClients { user, application_name, clients });
            }
            None => {}
        }
    }

    /// Adds those of another part.
    pub fn add(&mut self, other: &ClientNames) {
        other.0.iter().for_each(|it| self.count(&it.user, &it.application_name, it.clients));
    }

    /// What was counted since an earlier state.
    pub(crate) fn since(&self, earlier: &ClientNames) -> ClientNames {
        let before = |it: &NamedClients| {
            let same = |other: &&NamedClients| other.user == it.user && other.application_name == it.application_name;
            earlier.0.iter().find(same).map_or(0, |other| other.clients)
        };
        let new = self.0.iter().filter_map(|it| {
            let clients = it.clients.saturating_sub(before(it));
            (clients > 0).then(|| NamedClients { clients, ..it.clone() })
        });
        ClientNames(new.collect())
    }

    /// Whether nobody was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names with the most clients; of as many, in the order of names.
    pub fn most(&self, count: usize) -> Vec<NamedClients> {
        let mut all = self.0.clone();
        all.sort_by(|a, b| {
            b.clients.cmp(&a.clients).then_with(|| (&a.user, &a.application_name).cmp(&(&b.user, &b.application_name)))
        });
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_the_most_first_and_their_number_is_bounded() {
        let (mut one, mut other) = (ClientNames::default(), ClientNames::default());
        one.count("ann", "web", 1);
        one.count("bob", "", 2);
        other.count("ann", "web", 1);
        other.count("ann", "jobs", 1);
        one.add(&other);
        let most = one.most(2);
        let named = |at: usize| (&*most[at].user, &*most[at].application_name, most[at].clients);
        assert_eq!((most.len(), named(0), named(1)), (2, ("ann", "web", 2), ("bob", "", 2)));
        (0..100).for_each(|number| one.count("eve", &format!("{number}"), 1));
        assert_eq!(one.most(100).len(), MAX_NAMES);
        one.count("ann", "web", 5);
        assert_eq!(one.most(1)[0].clients, 7, "known names are counted on");
    }
}
