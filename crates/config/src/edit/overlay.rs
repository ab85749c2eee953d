//! Applies changes to what was read from a file that can't be written, in either file format.

use std::path::Path;

use crate::error::Found;
use crate::field::FieldMut;
use crate::model::{Config, UserRules};
use crate::pool_text::PoolText;
use crate::table::{Section, Setting};
use crate::toml::{Draft, fill_pool, fill_user};

use super::{Assignment, Edits, EntryKind, Keys, Sum};

/// Applies the changes to the content of the file `source`.
pub(crate) fn lay_over(draft: &mut Draft, source: &Path, edits: &Edits, found: &mut Found) {
    // First, because a pool has what is set for all unless it has its own.
    edits.settings.values().for_each(|assign| assign_to(draft, assign));
    for ((about, name), sum) in &edits.sections {
        match about {
            EntryKind::Pool => pool(draft, source, name, sum, found),
            EntryKind::User => user(draft, source, name, sum, found),
        }
    }
    draft.secrets.extend(edits.secrets.clone());
}

fn pool(draft: &mut Draft, source: &Path, name: &str, sum: &Sum, found: &mut Found) {
    match sum {
        Sum::Gone => forget(draft, name),
        Sum::Made { keys, .. } => {
            forget(draft, name);
            let mut pool = PoolText::new(name, &draft.config);
            draft.config.locations.insert_nowhere(format!("pools.{name}"));
            set(&mut pool, &mut draft.config, source, keys, found);
            draft.pools.push(pool);
        }
        Sum::Altered(keys) => {
            if let Some(pool) = draft.pools.iter_mut().find(|pool| pool.name == name) {
                set(pool, &mut draft.config, source, keys, found);
            }
        }
    }
}

/// A user's rules. Removed rules are unset.
fn user(draft: &mut Draft, source: &Path, name: &str, sum: &Sum, found: &mut Found) {
    let config = &mut draft.config;
    let before = config.users.remove(name);
    let place = |setting: &str| format!("users.{name}.{setting}");
    let (keys, mut rules) = match sum {
        Sum::Altered(keys) => (keys, before.unwrap_or_default()),
        Sum::Gone | Sum::Made { .. } => {
            Section::User.settings().for_each(|setting| config.locations.remove(&place(setting.name)));
            config.locations.remove(&format!("users.{name}"));
            let Sum::Made { keys, .. } = sum else { return };
            (keys, UserRules::default())
        }
    };
    config.locations.insert_nowhere(format!("users.{name}"));
    for (key, value) in &keys.keys {
        match value {
            Some(_) => config.locations.insert_nowhere(place(key)),
            None => {
                config.locations.remove(&place(key));
                let setting = Section::User.find(key);
                setting.and_then(|setting| setting.user_field_mut(&mut rules)).into_iter().for_each(clear);
            }
        }
    }
    fill_user(source, name, &keys.table(), &mut rules, found);
    config.users.insert(name.to_owned(), rules);
}

/// Unsets a user's rule, so that the pool's value holds.
fn clear(field: FieldMut<'_>) {
    match field {
        FieldMut::MaybeU32(rule) => *rule = None,
        FieldMut::MaybeSpan(rule) => *rule = None,
        FieldMut::MaybeMode(rule) => *rule = None,
        FieldMut::Flag(rule) => *rule = false,
        FieldMut::Names(rule) => rule.clear(),
        FieldMut::Concealed(rule) => *rule = None,
        FieldMut::Moment(rule) => *rule = 0,
        _ => debug_assert!(false, "each rule may be absent"),
    }
}

/// Sets a global setting, also in pools without a value of their own.
fn assign_to(draft: &mut Draft, assign: &Assignment) {
    let (setting, config) = (assign.setting(), &mut draft.config);
    match assign.value() {
        Some(_) => config.locations.insert_nowhere(assign.place()),
        None => config.locations.remove(&assign.place()),
    }
    if let Some(field) = setting.field_mut(config) {
        let written = setting.write_ini(field, assign.text());
        debug_assert!(written.is_ok(), "{}: it was tried when it was requested", assign.name());
    }
    // In TOML a pool's setting has the name of the global one.
    let Some(own) = Section::Pool.find(setting.name) else { return };
    for pool in &mut draft.pools {
        if !config.locations.contains(&format!("pools.{}.{}", pool.name, own.name)) {
            make_usual(own, pool, config);
        }
    }
}

/// Gives a pool the value that it has without a key.
fn make_usual(setting: &Setting, pool: &mut PoolText, config: &Config) {
    let mut usual = PoolText::new(&pool.name, config);
    if let (Some(field), Some(usual)) = (setting.pool_field_mut(pool), setting.pool_field_mut(&mut usual)) {
        let written = setting.write_ini(field, &usual.show());
        debug_assert!(written.is_ok(), "{}: a default suits", setting.name);
    }
}

fn forget(draft: &mut Draft, name: &str) {
    draft.pools.retain(|pool| pool.name != name);
    let locations = &mut draft.config.locations;
    Section::Pool.settings().for_each(|setting| locations.remove(&format!("pools.{name}.{}", setting.name)));
    locations.remove(&format!("pools.{name}"));
}

fn set(pool: &mut PoolText, config: &mut Config, source: &Path, keys: &Keys, found: &mut Found) {
    for (key, value) in &keys.keys {
        let place = format!("pools.{}.{key}", pool.name);
        if value.is_some() {
            config.locations.insert_nowhere(place);
            continue;
        }
        config.locations.remove(&place);
        if let Some(setting) = Section::Pool.find(key) {
            make_usual(setting, pool, config);
        }
    }
    fill_pool(source, &keys.table(), pool, found);
}
