//! Findings about names that are longer than PostgreSQL's.

use super::{Review, plain};
use crate::names::FALLBACK;

/// The longest name in PostgreSQL, in bytes (NAMEDATALEN less its final zero).
const MAX_NAME: usize = 63;
/// How much of a long name a message has, in characters.
const SHOWN: usize = 20;

impl Review<'_> {
    /// A server has no database and no user whose name is too long. Versions before 17 cut such a name, and log in to
    /// whatever has the shorter one; others refuse the login.
    pub(super) fn long_names(&mut self) {
        let config = self.config;
        for pool in config.pools.values().chain(&config.fallback) {
            let (title, key) = (self.title(pool), |name: &str| format!("pools.{}.{name}", pool.name));
            if pool.database.len() > MAX_NAME && pool.name != FALLBACK {
                let setting = self.pool_setting("database");
                let text = format!("the database of {title} is {}", too_long(&pool.database));
                self.warn(&key("database"), text).help(format!("give its name at the server as {setting}"));
            }
            if let Some(user) = pool.user.as_deref().filter(|user| user.len() > MAX_NAME) {
                let text = format!("the user of {title} is {}", too_long(user));
                self.warn(&key("user"), text).help("give the user's name at the server");
            }
        }
        let listed = config.auth.users.iter().map(|(name, _)| (name, "auth.file"));
        let listed = listed.chain(config.users.keys().map(|name| (name.as_str(), "users")));
        let admins = config.admin_users.iter().map(|name| (name.as_str(), "general.admin_users"));
        let asker = config.auth.query_user.iter().map(|name| (name.as_str(), "auth.query_user"));
        for (name, key) in listed.chain(admins).chain(asker).filter(|(name, _)| name.len() > MAX_NAME) {
            let help = "shorten it: a pool may name another user for its own logins at the server";
            self.warn(key, format!("a user is {}", too_long(name))).help(help);
        }
    }
}

fn too_long(name: &str) -> String {
    let begin: String = name.chars().take(SHOWN).collect();
    format!("a name of {} bytes, and PostgreSQL's have at most {MAX_NAME}: \"{}…\"", name.len(), plain(&begin))
}
