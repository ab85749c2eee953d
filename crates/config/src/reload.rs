//! What changes with a reload, and what needs a restart.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::model::{Config, Listen, Web};
use crate::names::FALLBACK;
use crate::origin::FileFormat;
use crate::settings;
use crate::table::Effect;

/// A setting with another value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The setting with its section, as in `listen.port`.
    pub key: String,
    /// The old value.
    pub old: String,
    /// The new value.
    pub new: String,
}

/// What differs between two configurations. Holds no secrets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Differences {
    /// New pools.
    pub added: Vec<String>,
    /// Removed pools.
    pub removed: Vec<String>,
    /// Pools whose servers must be replaced: another server, database or user.
    pub reconnect: Vec<String>,
    /// Pools of which only sizes, limits, policies or the password changed.
    pub adjusted: Vec<String>,
    /// Settings that take effect with the reload.
    pub live: Vec<Change>,
    /// Settings that keep their old value until a restart.
    pub restart: Vec<Change>,
    /// Whether users, their secrets, their rules, or the HBA rules changed.
    pub users: bool,
}

impl Differences {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self == Differences::default()
    }
}

/// Compares the configuration in force with the next one.
pub fn differences(old: &Config, new: &Config) -> Differences {
    let mut found = Differences { users: users_differ(old, new), ..Differences::default() };
    found.removed.extend(old.pools.keys().filter(|name| !new.pools.contains_key(*name)).cloned());
    if old.fallback.is_some() && new.fallback.is_none() {
        found.removed.push(FALLBACK.to_owned());
    }
    for pool in new.pools.values().chain(&new.fallback) {
        let (name, fallback) = (&pool.name, old.fallback.as_ref().filter(|_| pool.name == FALLBACK));
        match old.pools.get(name).or(fallback) {
            None => found.added.push(name.clone()),
            Some(before) if before.connects_to() != pool.connects_to() => found.reconnect.push(name.clone()),
            Some(before) if before != pool => found.adjusted.push(name.clone()),
            Some(_) => {}
        }
    }
    let (mut old, mut new) = (old.clone(), new.clone());
    for setting in settings::all() {
        let (Some(before), Some(after)) = (setting.field_mut(&mut old), setting.field_mut(&mut new)) else {
            continue;
        };
        let (before, after) = (before.show(), after.show());
        if before != after {
            let key = if new.format == FileFormat::Ini { setting.shown_name().to_owned() } else { setting.key() };
            let changes = if setting.effect == Effect::Restart { &mut found.restart } else { &mut found.live };
            changes.push(Change { key, old: before, new: after });
        }
    }
    found.live.extend(servers_that_differ(&old, &new));
    found
}

/// Changed limits of database servers.
fn servers_that_differ(old: &Config, new: &Config) -> Vec<Change> {
    let names: BTreeSet<&String> = old.servers.keys().chain(new.servers.keys()).collect();
    let limit = |config: &Config, name: &String| {
        config.servers.get(name).map_or_else(String::new, |server| server.max_connections.to_string())
    };
    let change = |name: &String| Change {
        key: format!("servers.{name}.max_connections"),
        old: limit(old, name),
        new: limit(new, name),
    };
    names.into_iter().map(change).filter(|change| change.old != change.new).collect()
}

/// A configuration that may follow the one in force: settings that need a restart have the values in force.
#[derive(Clone, Debug)]
pub struct Successor {
    /// The configuration.
    pub config: Arc<Config>,
    /// What was read for the settings that need a restart, and is not in `config`.
    pub restart: Vec<Change>,
}

impl Successor {
    /// A configuration that was read while `running` is in force. Compares all pools and users, and counts the kinds of
    /// secrets: for a helper, no worker waits for that.
    pub fn new(running: &Config, read: Arc<Config>) -> Successor {
        let restart = differences(running, &read).restart;
        let config = match restart.is_empty() {
            true => read,
            false => {
                let mut kept = Config::clone(&read);
                keep_restart_settings(running, &mut kept);
                Arc::new(kept)
            }
        };
        config.auth.users.mocks();
        Successor { config, restart }
    }
}

/// A configuration that was read before any was in force, or that has the values in force.
impl From<Arc<Config>> for Successor {
    fn from(config: Arc<Config>) -> Successor {
        Successor { config, restart: Vec::new() }
    }
}

/// Copies the old values of all settings that need a restart into `new`, so that it shows what is in force.
fn keep_restart_settings(old: &Config, new: &mut Config) {
    // All fields of the section; a test checks this.
    let Listen { keepalive, defer_accept, .. } = new.listen;
    let kept = Listen { keepalive, defer_accept, ..old.listen.clone() };
    new.listen = kept;
    new.workers = old.workers;
    new.io = old.io;
    new.cluster = old.cluster.clone();
    new.process = old.process.clone();
    new.web = Web { accounts: new.web.accounts.clone(), ..old.web.clone() };
    new.dns.resolv_conf.clone_from(&old.dns.resolv_conf);
    new.track_extra_parameters.clone_from(&old.track_extra_parameters);
    new.disable_pqexec = old.disable_pqexec;
    for setting in settings::all().filter(|setting| setting.is_inert() && setting.effect == Effect::Restart) {
        let value = old.inert.get(setting.name).cloned().unwrap_or_default();
        new.inert.insert(setting.name, value);
    }
}

fn users_differ(old: &Config, new: &Config) -> bool {
    let access = |config: &'_ Config| {
        let auth = &config.auth;
        (auth.hba.clone(), auth.ident.clone(), auth.ldap.clone(), auth.oauth.clone())
    };
    old.auth.users != new.auth.users || old.users != new.users || access(old) != access(new)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_base::{Host, Target};

    use super::*;
    use crate::{PoolConfig, Users};

    fn pool(name: &str) -> PoolConfig {
        PoolConfig {
            name: name.to_owned(),
            targets: vec![Target { host: Host::parse("127.0.0.1"), port: 5432 }],
            database: name.to_owned(),
            password: Some("hush".into()),
            ..PoolConfig::default()
        }
    }

    fn config(pools: impl IntoIterator<Item = PoolConfig>) -> Config {
        let pools = pools.into_iter().map(|pool| (pool.name.clone(), Arc::new(pool))).collect();
        Config { pools, ..Config::default() }
    }

    #[test]
    fn pools_are_added_removed_reconnected_or_adjusted() {
        let old = config(["gone", "same", "sized", "moved", "secret"].map(pool));
        let mut sized = pool("sized");
        sized.limits.size = 5;
        let mut moved = pool("moved");
        moved.targets[0].port = 5433;
        let secret = PoolConfig { password: Some("new".into()), ..pool("secret") };
        let found = differences(&old, &config([pool("new"), pool("same"), sized, moved, secret]));
        assert_eq!(found.added, ["new"]);
        assert_eq!(found.removed, ["gone"]);
        assert_eq!(found.adjusted, ["secret", "sized"]);
        assert_eq!(found.reconnect, ["moved"]);
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
    fn a_setting_of_the_listeners_that_needs_no_restart_takes_its_new_value() {
        let (old, mut new) = (Config::default(), Config::default());
        new.listen.defer_accept = !old.listen.defer_accept;
        new.listen.keepalive.on = !old.listen.keepalive.on;
        let wanted = new.listen.clone();
        keep_restart_settings(&old, &mut new);
        assert_eq!((new.listen.defer_accept, new.listen.keepalive), (wanted.defer_accept, wanted.keepalive));
    }

    /// Texts of which each setting accepts one that is not its default.
    const OTHERS: [&str; 20] = [
        "77",
        "true",
        "false",
        "epoll",
        "off",
        "0700",
        "/run/weir",
        "10.0.0.0/8",
        "127.0.0.9",
        "2031-01-01 00:00:00",
        "x",
        "SELECT 7",
        "http://127.0.0.9:1",
        "session",
        "scram-sha-256",
        "1",
        "70000",
        "64MiB",
        "tlsv1.3",
        "listen",
    ];

    /// Another value for a setting of the process; none for one that is not one for all, or holds secrets.
    fn change(setting: &crate::table::Setting, config: &mut Config) -> Option<String> {
        let before = setting.field_mut(config)?.show();
        use crate::kind::Kind::{Word, Words};
        let words = if let Word(words) | Words(words) = setting.kind { words } else { &[] };
        for text in OTHERS.iter().chain(words) {
            let mut tried = config.clone();
            let slot = setting.field_mut(&mut tried)?;
            if setting.write(slot, &crate::table::Raw::One((*text).into())).is_ok() {
                let after = setting.field_mut(&mut tried)?.show();
                if after != before {
                    *config = tried;
                    return Some(after);
                }
            }
        }
        panic!("{}: no other value", setting.key())
    }

    #[test]
    fn exactly_the_settings_that_the_table_says_keep_their_value_until_a_restart() {
        for setting in settings::all() {
            let (old, mut new) = (Config::default(), Config::default());
            let Some(wanted) = change(setting, &mut new) else { continue };
            let before = setting.field_mut(&mut old.clone()).expect("a field").show();
            keep_restart_settings(&old, &mut new);
            let now = setting.field_mut(&mut new).expect("a field").show();
            let expected = if setting.effect == Effect::Restart { before } else { wanted };
            assert_eq!(now, expected, "{}", setting.key());
            // What programs and the panel say of it.
            let said = crate::describe(setting.shown_name()).map(|text| text.effect == "restart");
            assert!(said.is_none_or(|restart| restart == (setting.effect == Effect::Restart)), "{}", setting.key());
        }
    }

    #[test]
    fn a_setting_that_needs_a_restart_keeps_its_value() {
        let old = Config::default();
        let mut new = old.clone();
        for setting in settings::all().filter(|s| s.effect == Effect::Restart) {
            let other = match setting.name {
                "etcd" => "http://h:77",
                "address" if setting.kind == crate::kind::Kind::Addresses => "*",
                "io" => "epoll",
                "watch_files" => "off",
                "unix_socket_dir" => "/run/weir",
                "unix_socket_mode" => "0700",
                "proxy_from" => "10.0.0.0/8",
                "reuse_port" | "disable_pqexec" | "core_dumps" => "true",
                _ => "77",
            };
            let slot = setting.field_mut(&mut new).expect("it is one for all");
            setting.write(slot, &crate::table::Raw::One(other.into())).unwrap();
        }
        let fixed = settings::all().filter(|s| s.effect == Effect::Restart).count();
        assert_eq!(differences(&old, &new).restart.len(), fixed);
        keep_restart_settings(&old, &mut new);
        assert!(differences(&old, &new).is_empty());
    }
}
