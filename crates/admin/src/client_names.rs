//! Which users and applications clients have, with their numbers: bounded, so that many names cost no memory.

use weir_base::prefix;

/// The most names that are counted; clients of further ones are in no entry. Names that nobody has proven have a list
/// of their own.
const MAX_NAMES: usize = 32;
const MAX_UNPROVEN: usize = 8;
/// The longest application_name of an entry, in bytes.
const MAX_APPLICATION: usize = 64;

/// Clients of one user with one application_name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedClients {
    /// The user that logged in.
    pub user: String,
    /// The clients' application_name; empty if they gave none.
    pub application_name: String,
    /// The number of these clients.
    pub clients: u32,
}

/// Clients by user and application.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientNames {
    /// The names of clients that have logged in.
    proven: Vec<NamedClients>,
    /// The names of other clients.
    unproven: Vec<NamedClients>,
}

impl ClientNames {
    /// Counts clients that have logged in.
    pub fn count(&mut self, user: &str, application: &str, clients: u32) {
        count_in(&mut self.proven, MAX_NAMES, (user, application), clients);
    }

    /// Counts clients by the names that they have given before their login.
    pub fn count_unproven(&mut self, user: &str, application: &str, clients: u32) {
        count_in(&mut self.unproven, MAX_UNPROVEN, (user, application), clients);
    }

    /// Adds the counts of another part.
    pub fn add(&mut self, other: &ClientNames) {
        other.proven.iter().for_each(|it| self.count(&it.user, &it.application_name, it.clients));
        other.unproven.iter().for_each(|it| self.count_unproven(&it.user, &it.application_name, it.clients));
    }

    /// Whether nobody was counted.
    pub fn is_empty(&self) -> bool {
        self.proven.is_empty() && self.unproven.is_empty()
    }

    /// Whether clients of this user were counted.
    pub(crate) fn has_user(&self, user: &str) -> bool {
        self.proven.iter().any(|it| it.user == user)
    }

    /// The names with the most clients; of as many, in the order of names.
    pub fn most(&self, count: usize) -> Vec<NamedClients> {
        let mut all = self.proven.clone();
        for it in &self.unproven {
            count_in(&mut all, MAX_NAMES + MAX_UNPROVEN, (&it.user, &it.application_name), it.clients);
        }
        all.sort_by(|a, b| {
            b.clients.cmp(&a.clients).then_with(|| (&a.user, &a.application_name).cmp(&(&b.user, &b.application_name)))
        });
        all.truncate(count);
        all
    }
}

fn count_in(names: &mut Vec<NamedClients>, most: usize, (user, application): (&str, &str), clients: u32) {
    let application = prefix(application, MAX_APPLICATION);
    match names.iter().position(|it| it.user == user && it.application_name == application) {
        Some(at) => names[at].clients += clients,
        None if names.len() < most => {
            let (user, application_name) = (user.to_owned(), application.to_owned());
            names.push(NamedClients { user, application_name, clients });
        }
        None => {}
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

    #[test]
    fn names_that_nobody_has_proven_leave_room_for_the_others() {
        let mut names = ClientNames::default();
        (0..100).for_each(|number| names.count_unproven("eve", &format!("{number}"), 9));
        assert_eq!(names.most(100).len(), MAX_UNPROVEN);
        (0..100).for_each(|number| names.count("ann", &format!("{number}"), 1));
        names.count("eve", "0", 1);
        let all = names.most(100);
        assert_eq!(all.len(), MAX_UNPROVEN + MAX_NAMES);
    }
}
