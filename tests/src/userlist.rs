//! The userlist of a pooler under test: the users of the server, and those of the console.

use crate::postgres::users;
use crate::setup::{ADMIN, WATCHER};

/// Users and their secrets.
#[derive(Clone, Debug)]
pub(crate) struct Userlist(Vec<(String, String)>);

impl Userlist {
    /// All users, with cleartext passwords.
    pub(crate) fn all_users() -> Userlist {
        let pair = |name: &str, password: &str| (name.to_owned(), password.to_owned());
        let mut list: Vec<_> = users::ALL.iter().map(|user| pair(user.name, user.password)).collect();
        list.extend([ADMIN, WATCHER].map(|(name, password)| pair(name, password)));
        Userlist(list)
    }

    /// Replaces this user's secret.
    pub(crate) fn set(&mut self, user: &str, secret: &str) {
        self.remove(user);
        self.0.push((user.to_owned(), secret.to_owned()));
    }

    /// Removes this user.
    pub(crate) fn remove(&mut self, user: &str) {
        self.0.retain(|(name, _)| name != user);
    }

    /// The text of the file.
    pub(crate) fn text(&self) -> String {
        let double = |text: &str| text.replace('"', "\"\"");
        self.0.iter().map(|(name, secret)| format!("\"{}\" \"{}\"\n", double(name), double(secret))).collect()
    }
}
