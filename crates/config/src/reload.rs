//! What a reload changes, and what it can't.

use crate::model::{Config, Pool};
use crate::settings;
use crate::table::Effect;

/// A setting with another value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The setting with its section, as in `listen.port`.
    pub key: String,
    /// What it was.
    pub old: String,
    /// What it is to be.
    pub new: String,
}

/// What differs between two configurations. Holds no secrets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// Pools that are new.
    pub added: Vec<String>,
    /// Pools that are gone.
    pub removed: Vec<String>,
    /// Pools whose servers must be replaced: another server, database, user or password.
    pub reconnect: Vec<String>,
    /// Pools of which only sizes, limits or policies changed.
    pub adjusted: Vec<String>,
    /// Settings that change with the reload.
    pub live: Vec<Change>,
    /// Settings that keep their old value until Weir is started again.
    pub restart: Vec<Change>,
    /// Whether users or their secrets changed.
    pub users: bool,
}

impl Differences {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Differences::default()
    }
}

/// Compares a configuration in force with one that is to follow it.
pub fn differences(old: &Config, new: &Config) -> Differences {
    let mut found = Differences { users: old.auth.users != new.auth.users, ..Differences::default() };
    found.removed.extend(old.pools.keys().filter(|name| !new.pools.contains_key(*name)).cloned());
    for (name, pool) in &new.pools {
        match old.pools.get(name) {
            None => found.added.push(name.clone()),
            Some(before) if !same_login(before, pool) => found.reconnect.push(name.clone()),
            Some(before) if before != pool => found.adjusted.push(name.clone()),
            Some(_) => {}
        }
    }
    let (mut old, mut new) = (old.clone(), new.clone());
    for setting in settings::all() {
        let (Some(before), Some(after)) = (setting.slot(&mut old), setting.slot(&mut new)) else {
            continue;
        };
        let (before, after) = (before.show(), after.show());
        if before != after {
            let key = format!("{}.{}", setting.section.name(), setting.name);
            let changes = if setting.effect == Effect::Restart { &mut found.restart } else { &mut found.live };
            changes.push(Change { key, old: before, new: after });
        }
    }
    found
}

/// Gives `new` the old values of all settings that a reload can't change, so that it says what is in force.
pub fn keep_fixed(old: &Config, new: &mut Config) {
    // All of them: see the test.
    new.listen = old.listen.clone();
    new.workers = old.workers;
}

fn same_login(a: &Pool, b: &Pool) -> bool {
    (&a.target, &a.database, &a.user, &a.password) == (&b.target, &b.database, &b.user, &b.password)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_base::{Host, Mode, Target};

    use super::*;
    use crate::{Limits, Users};

    fn pool(name: &str) -> Pool {
        Pool {
            name: name.to_owned(),
            target: Target { host: Host::parse("127.0.0.1"), port: 5432 },
            database: name.to_owned(),
            user: None,
            password: Some("hush".into()),
            mode: Mode::Transaction,
            on_dirty: weir_base::OnDirty::Reset,
            limits: Limits::default(),
        }
    }

    fn config(pools: impl IntoIterator<Item = Pool>) -> Config {
        let pools = pools.into_iter().map(|pool| (pool.name.clone(), Arc::new(pool))).collect();
        Config { pools, ..Config::default() }
    }

    #[test]
    fn pools_are_added_removed_reconnected_or_adjusted() {
        let old = config(["gone", "same", "sized", "moved", "secret"].map(pool));
        let mut sized = pool("sized");
        sized.limits.size = 5;
        let mut moved = pool("moved");
        moved.target.port = 5433;
        let secret = Pool { password: Some("new".into()), ..pool("secret") };
        let found = differences(&old, &config([pool("new"), pool("same"), sized, moved, secret]));
        assert_eq!(found.added, ["new"]);
        assert_eq!(found.removed, ["gone"]);
        assert_eq!(found.adjusted, ["sized"]);
        assert_eq!(found.reconnect, ["moved", "secret"]);
        assert!(found.live.is_empty() && found.restart.is_empty() && !found.users);
    }

    #[test]
    fn settings_change_live_or_wait_for_a_restart() {
        let old = config([]);
        let mut new = Config { max_clients: 7, workers: 3, ..config([]) };
        new.listen.port = 7000;
        new.auth.users = Arc::new(Users::from_iter([("app", "hush")]));
        let change = |key: &str, old: &str, new: &str| Change { key: key.into(), old: old.into(), new: new.into() };
        let found = differences(&old, &new);
        assert_eq!(found.live, [change("general.max_clients", "10000", "7")]);
        assert_eq!(found.restart, [change("general.workers", "1", "3"), change("listen.port", "6432", "7000")]);
        assert!(found.users);
        assert!(!format!("{found:?}").contains("hush"));
        assert!(differences(&old, &old).is_empty());
    }

    #[test]
    fn a_setting_that_needs_a_restart_keeps_its_value() {
        let old = Config::default();
        let mut new = old.clone();
        for setting in settings::all().filter(|s| s.effect == Effect::Restart) {
            let other = match setting.name {
                "address" => "*",
                "unix_socket_dir" => "/run/weir",
                "unix_socket_mode" => "0700",
                _ => "77",
            };
            let slot = setting.slot(&mut new).expect("it is one for all");
            setting.write(slot, &crate::table::Raw::One(other.into())).unwrap();
        }
        assert_eq!(differences(&old, &new).restart.len(), 6);
        keep_fixed(&old, &mut new);
        assert!(differences(&old, &new).is_empty());
    }
}
