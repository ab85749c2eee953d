//! The keys of a pool or a user in the file and in the changes applied to it, without secrets.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{Config, UserRules};
use crate::names::FALLBACK;
use crate::pool_text::PoolText;
use crate::table::{Section, Setting};

use super::{SECRET, Value};

/// The value of a written key.
#[derive(Clone, PartialEq, Debug)]
pub enum ShownValue {
    /// The value may be shown.
    Value(Value),
    /// The key is set, but its value must not be shown.
    Secret,
}

/// The written keys of a pool, by their names in TOML; `None` if there is no such pool. Its other settings have the
/// global values.
pub fn pool_keys(config: &Config, name: &str) -> Option<Vec<(&'static str, ShownValue)>> {
    let fallback = config.fallback.as_ref().filter(|_| name == FALLBACK);
    let pool = config.pools.get(name).or(fallback)?;
    let mut text = PoolText::of(pool, config);
    let is_written = |setting: &&Setting| config.locations.contains(&format!("pools.{name}.{}", setting.name));
    let value = |setting: &'static Setting| {
        // The value may be a password that was written in the wrong place.
        if setting.kind == Kind::Secret || setting.name.starts_with("password_") {
            return Some((setting.name, ShownValue::Secret));
        }
        let value = shown(setting, &setting.pool_field_mut(&mut text)?)?;
        Some((setting.name, ShownValue::Value(value)))
    };
    Some(Section::Pool.settings().filter(is_written).filter_map(value).collect())
}

/// The written rules of a user, and whether there is a secret; `None` if the file has neither.
pub fn user_keys(config: &Config, name: &str) -> Option<Vec<(&'static str, ShownValue)>> {
    let (rules, listed) = (config.users.get(name), config.auth.users.get(name).is_some());
    let mut own = rules.cloned().or(listed.then(UserRules::default))?;
    let value = |setting: &'static Setting| {
        if !config.locations.contains(&format!("users.{name}.{}", setting.name)) {
            return None;
        }
        if setting.kind == Kind::Secret {
            return Some((setting.name, ShownValue::Secret));
        }
        let value = shown(setting, &setting.user_field_mut(&mut own)?)?;
        Some((setting.name, ShownValue::Value(value)))
    };
    let secret = listed.then_some((SECRET, ShownValue::Secret));
    Some(secret.into_iter().chain(Section::User.settings().filter_map(value)).collect())
}

fn shown(setting: &Setting, field: &FieldMut<'_>) -> Option<Value> {
    Some(match Value::of_field(field, setting.kind)? {
        // A single host is shown without a list.
        Value::List(mut items) if items.len() == 1 && setting.kind == Kind::Hosts => items.remove(0),
        value => value,
    })
}
