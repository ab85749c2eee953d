//! The list of users that a pooler under test is given: those of the server, and the console's.

use crate::postgres::users;
use crate::setup::{ADMIN, WATCHER};

/// Users and their secrets.
#[derive(Clone, Debug)]
pub(crate) struct Userlist(Vec<(String, String)>);

impl Userlist {
    /// Everybody, with passwords as they are.
    pub(crate) fn everybody() -> Userlist {
        let pair = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        let mut list: Vec<_> = users::ALL.iter().map(|user| pair(user.name, user.password)).collect();
        list.extend([ADMIN, WATCHER].map(|(name, password)| pair(name, password)));
        Userlist(list)
    }

    /// This user's secret, in place of what it was.
    pub(crate) fn set(&mut self, user: &str, secret: &str) {
        self.remove(user);
        self.0.push((user.to_owned(), secret.to_owned()));
    }

    /// This user is on the list no more.
    pub(crate) fn remove(&mut self, user: &str) {
        self.0.retain(|(name, _)| name != user);
    }

    /// As a file has it.
    pub(crate) fn text(&self) -> String {
        let double = |text: &str| text.replace('"', "\"\"");
        self.0.iter().map(|(name, secret)| format!("\"{}\" \"{}\"\n", double(name), double(secret))).collect()
    }
}
