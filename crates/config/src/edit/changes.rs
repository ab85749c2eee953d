//! What differs between two configurations, key by key: the object, the old value and the new one, without secrets.
//!
//! For people who read a history; what a reload does with the difference is decided by [`crate::differences`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Config, PoolConfig};
use crate::names::FALLBACK;
use crate::origin::FileFormat;
use crate::settings;

use super::written::{ShownValue, pool_keys, user_keys};

/// The text that stands for a secret, and for one that differs from it.
pub(super) const SECRET_TEXT: &str = "(secret)";
const OTHER_SECRET: &str = "(another secret)";
/// The value of a section itself.
pub(super) const PRESENT: &str = "present";

/// One key with another value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyChange {
    /// `pool app`, `user ann`, `account ann`, or empty for a setting of the process.
    pub object: String,
    /// The key; empty for the object itself, which was created or deleted.
    pub key: String,
    /// The old value; none: it was not set.
    pub old: Option<String>,
    /// The new value; none: it is not set any more.
    pub new: Option<String>,
}

/// A dotted path as an object and its key.
pub(super) fn object_of(path: &[String]) -> (String, String) {
    match path {
        [section, name] if section == "pools" || section == "users" => {
            (format!("{} {name}", section.trim_end_matches('s')), String::new())
        }
        [section, name, rest @ ..] if section == "pools" || section == "users" => {
            (format!("{} {name}", section.trim_end_matches('s')), rest.join("."))
        }
        [auth, users, name] if auth == "auth" && users == "users" => (format!("user {name}"), "password".to_owned()),
        path => (String::new(), path.join(".")),
    }
}

/// What differs between two configurations. Costs a comparison of every pool and user.
pub fn changes(old: &Config, new: &Config) -> Vec<KeyChange> {
    let mut found = of_settings(old, new);
    found.extend(of_pools(old, new));
    found.extend(of_users(old, new));
    found.extend(of_accounts(old, new));
    found
}

fn of_settings(old: &Config, new: &Config) -> Vec<KeyChange> {
    let mut found = Vec::new();
    let mut note = |key: String, old: String, new: String| {
        let value = |text: String| (!text.is_empty()).then_some(text);
        found.push(KeyChange { object: String::new(), key, old: value(old), new: value(new) });
    };
    let (mut before, mut after) = (old.clone(), new.clone());
    for setting in settings::all() {
        let (Some(was), Some(is)) = (setting.field_mut(&mut before), setting.field_mut(&mut after)) else { continue };
        let (was, is) = (was.show(), is.show());
        if was != is {
            let key = if new.format == FileFormat::Ini { setting.shown_name().to_owned() } else { setting.key() };
            note(key, was, is);
        }
    }
    if old.auth.ldap_options != new.auth.ldap_options
        && old.auth.ldap_options.is_some() == new.auth.ldap_options.is_some()
    {
        note("auth.ldap_options".to_owned(), SECRET_TEXT.to_owned(), OTHER_SECRET.to_owned());
    }
    if old.auth.hba != new.auth.hba || old.auth.ident != new.auth.ident {
        note("auth.hba_file".to_owned(), "(rules)".to_owned(), "(other rules)".to_owned());
    }
    found
}

fn all_pools(config: &Config) -> BTreeMap<&str, &Arc<PoolConfig>> {
    let fallback = config.fallback.iter().map(|pool| (FALLBACK, pool));
    config.pools.iter().map(|(name, pool)| (name.as_str(), pool)).chain(fallback).collect()
}

fn of_pools(old: &Config, new: &Config) -> Vec<KeyChange> {
    let (before, after) = (all_pools(old), all_pools(new));
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
    let mut found = Vec::new();
    for name in names {
        let (was, is) = (before.get(name), after.get(name));
        if was == is {
            continue;
        }
        let secret = match (was.map(|pool| &pool.password), is.map(|pool| &pool.password)) {
            (Some(was), Some(is)) => was != is,
            _ => false,
        };
        let written = |config, there: bool| there.then(|| pool_keys(config, name)).flatten();
        compare(&format!("pool {name}"), written(old, was.is_some()), written(new, is.is_some()), secret, &mut found);
    }
    found
}

fn of_users(old: &Config, new: &Config) -> Vec<KeyChange> {
    if old.auth.users == new.auth.users && old.users == new.users {
        return Vec::new();
    }
    let names = |config: &'_ Config| -> BTreeSet<String> {
        let listed = config.auth.users.iter().map(|(name, _)| name.to_owned());
        listed.chain(config.users.keys().cloned()).collect()
    };
    let mut found = Vec::new();
    for name in names(old).union(&names(new)) {
        let secret = old.auth.users.get(name) != new.auth.users.get(name);
        compare(&format!("user {name}"), user_keys(old, name), user_keys(new, name), secret, &mut found);
    }
    found
}

fn of_accounts(old: &Config, new: &Config) -> Vec<KeyChange> {
    let all = |config: &'_ Config| -> BTreeMap<String, (&'static str, String)> {
        let accounts = &config.web.accounts;
        let line = |(name, account): (&String, &crate::Account)| {
            (format!("account {name}"), (account.role.name(), account.hash.clone()))
        };
        accounts.users.iter().chain(&accounts.tokens).map(line).collect()
    };
    let (before, after) = (all(old), all(new));
    let mut found = Vec::new();
    for object in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
        let (was, is) = (before.get(object), after.get(object));
        let role = |of: Option<&(&'static str, String)>| of.map(|(role, _)| (*role).to_owned());
        if role(was) != role(is) {
            found.push(KeyChange { object: object.clone(), key: "role".to_owned(), old: role(was), new: role(is) });
        } else if was != is {
            let (old, new) = (Some(SECRET_TEXT.to_owned()), Some(OTHER_SECRET.to_owned()));
            found.push(KeyChange { object: object.clone(), key: "hash".to_owned(), old, new });
        }
    }
    found
}

type Written = Option<Vec<(&'static str, ShownValue)>>;

/// Compares the written keys of an object; `secret`: whether its secret differs.
fn compare(object: &str, old: Written, new: Written, secret: bool, found: &mut Vec<KeyChange>) {
    let mut note = |key: &str, old, new| {
        found.push(KeyChange { object: object.to_owned(), key: key.to_owned(), old, new });
    };
    match (&old, &new) {
        (None, None) => return,
        (None, Some(_)) => note("", None, Some("created".to_owned())),
        (Some(_), None) => note("", Some(PRESENT.to_owned()), None),
        (Some(_), Some(_)) => {}
    }
    let words = |written: Written| -> BTreeMap<&'static str, String> {
        let text = |value| match value {
            ShownValue::Secret => SECRET_TEXT.to_owned(),
            ShownValue::Value(value) => value.words(),
        };
        written.into_iter().flatten().map(|(key, value)| (key, text(value))).collect()
    };
    let (old, new) = (words(old), words(new));
    let keys: BTreeSet<&str> = old.keys().chain(new.keys()).copied().collect();
    for key in keys {
        let (was, is) = (old.get(key).cloned(), new.get(key).cloned());
        if was != is {
            note(key, was, is);
        } else if secret && was.as_deref() == Some(SECRET_TEXT) {
            note(key, was, Some(OTHER_SECRET.to_owned()));
        }
    }
}
