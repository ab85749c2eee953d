//! Where stored secrets may be sent: no change over the control plane sends a stored secret to a new target.
//!
//! An admin of the control plane may change pools, but must not learn the passwords in the file: moving a pool, or
//! making another one with its secret, requires that secret. So a change is refused that gives a stored secret a new
//! host, port or user, that encrypts less, or that names a file or a variable to read a password from. The file
//! itself, read at the start or by a RELOAD, belongs to the operator and is not checked here.

use std::collections::HashSet;

use weir_base::{Host, Target};

use crate::model::{Config, Pool};

use super::{Edit, Keys, Operation, Value};

/// Why a change is refused: it would send a stored secret to a new target. Holds no secret.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exposure {
    /// The key of the change that is missing, or not allowed.
    pub key: &'static str,
    /// What would happen.
    pub message: String,
    /// What to do instead.
    pub hint: &'static str,
}

const GIVE: &str = "give the pool a password with this change, or change the file and RELOAD";
const AGAIN: &str = "give the password again with this change, or \"password\": null for none";
const OWN: &str = "give the pool a user and a password of its own, or change the file and RELOAD";
const ASKER: &str = "name a pool of a known server as auth_dbname, or change the file and RELOAD";
const IN_FILE: &str = "change the file, and RELOAD";

/// A stored secret.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Secret<'a> {
    /// The password of this pool.
    OfPool(&'a str),
    /// The secret of a listed user.
    Listed(&'a str),
    /// The secrets of all listed users: each client logs in as itself.
    Clients,
}

/// A secret, the user that it logs in as, and the target.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Way<'a> {
    secret: Secret<'a>,
    user: &'a str,
    target: &'a Target,
}

/// A way; `through` is the pool whose server is the target, `of` the pool whose clients need it.
struct Route<'a> {
    way: Way<'a>,
    through: &'a Pool,
    of: &'a str,
}

/// Checks whether the change `edit`, which turns `before` into `after`, sends a stored secret to a new target.
pub fn find_exposure(before: &Config, after: &Config, edit: &Edit) -> Option<Exposure> {
    let (name, keys) = match edit {
        // A changed user comes with its secret, and a dropped pool sends none.
        Edit::User(..) | Edit::Pool(_, Operation::Drop) => return None,
        Edit::Pool(name, Operation::Create(keys) | Operation::Alter(keys)) => (Some(name.as_str()), Some(keys)),
        Edit::Setting(_) | Edit::Restore(_) => (None, None),
    };
    let known: HashSet<Way<'_>> = routes(before).into_iter().map(|route| route.way).collect();
    let routes = routes(after);
    let concerned = |route: &&Route<'_>| name.is_none_or(|name| route.of == name || route.through.name == name);
    let given = |route: &Route<'_>| match route.way.secret {
        Secret::OfPool(pool) if Some(pool) == name => gives(keys),
        Secret::OfPool(pool) => restores_with(edit, &format!("pools.{pool}.password")),
        Secret::Listed(_) | Secret::Clients => false,
    };
    let new = routes.iter().filter(concerned).find(|route| !given(route) && !is_known(route, &known, before));
    new.map(refusal).or_else(|| weaker(before, after, &routes))
}

/// Checks whether a change names a source of a password; callers check this before they read anything.
pub fn find_password_source(edit: &Edit) -> Option<Exposure> {
    let Edit::Pool(_, Operation::Create(keys) | Operation::Alter(keys)) = edit else { return None };
    let set = |key: &&&str| keys.keys.get(**key).is_some_and(Option::is_some);
    let key = ["password_file", "password_env"].iter().find(set)?;
    let message = format!("\"{key}\" would have Weir read a secret that was not given here");
    Some(Exposure { key, message, hint: "give the password itself, or change the file and RELOAD" })
}

/// Whether the change contains a password.
fn gives(keys: Option<&Keys>) -> bool {
    let password = keys.and_then(|keys| keys.keys.get("password"));
    matches!(password, Some(Some(Value::Text(text))) if !text.is_empty())
}

/// Whether a return to an earlier version comes with the secret of this key.
fn restores_with(edit: &Edit, key: &str) -> bool {
    matches!(edit, Edit::Restore(restore) if restore.secrets.get(key).is_some_and(|secret| !secret.is_empty()))
}

/// All ways of stored secrets.
fn routes(config: &Config) -> Vec<Route<'_>> {
    let mut routes = Vec::new();
    for pool in config.pools.values().chain(&config.fallback) {
        let (secret, user) = match &pool.user {
            None => (config.auth.users.iter().any(|(_, secret)| !secret.is_empty()).then_some(Secret::Clients), ""),
            Some(user) if pool.password.is_some() => (Some(Secret::OfPool(&pool.name)), user.as_str()),
            Some(user) => (listed(config, user), user.as_str()),
        };
        add(&mut routes, secret, user, pool, &pool.name);
        ask(&mut routes, config, Some(pool));
    }
    // For operators at the console, which has no pool.
    ask(&mut routes, config, None);
    routes
}

/// The way of the auth_query for a pool's unlisted users.
fn ask<'a>(routes: &mut Vec<Route<'a>>, config: &'a Config, pool: Option<&'a Pool>) {
    let Some((asker, place)) = asker(config, pool) else { return };
    // Where it asks as the pool's own user, it does so with the pool's password.
    if place.user.as_deref() != Some(asker) {
        add(routes, listed(config, asker), asker, place, pool.map_or("", |pool| &pool.name));
    }
}

fn add<'a>(routes: &mut Vec<Route<'a>>, secret: Option<Secret<'a>>, user: &'a str, through: &'a Pool, of: &'a str) {
    let Some(secret) = secret else { return };
    let way = |target| Way { secret: secret.clone(), user, target };
    routes.extend(through.targets.iter().map(|target| Route { way: way(target), through, of }));
}

fn listed<'a>(config: &Config, user: &'a str) -> Option<Secret<'a>> {
    config.auth.users.get(user).filter(|secret| !secret.is_empty()).map(|_| Secret::Listed(user))
}

/// The user of the auth_query for unlisted users, and the pool whose server answers it.
fn asker<'a>(config: &'a Config, pool: Option<&'a Pool>) -> Option<(&'a str, &'a Pool)> {
    let own = |get: fn(&'a Pool) -> &'a Option<String>| pool.and_then(|pool| get(pool).as_deref());
    let user = own(|pool| &pool.auth_user).or(config.auth.query_user.as_deref()).filter(|user| !user.is_empty())?;
    let place = own(|pool| &pool.auth_database).or(config.auth.query_database.as_deref());
    let named = |name| config.pools.get(name).or(config.fallback.as_ref()).map(AsRef::as_ref);
    let place = place.filter(|name| !name.is_empty()).map_or(pool, named);
    Some((user, place?))
}

/// Whether a secret is sent this way already.
fn is_known(route: &Route<'_>, known: &HashSet<Way<'_>>, before: &Config) -> bool {
    let way = &route.way;
    known.contains(way)
        || match way.secret {
            Secret::Listed(_) => known.contains(&Way { secret: Secret::Clients, user: "", target: way.target }),
            // Another pool's password that equals this pool's password of before.
            Secret::OfPool(_) => before.pools.values().chain(&before.fallback).any(|pool| {
                pool.user.as_deref() == Some(way.user)
                    && pool.password == route.through.password
                    && pool.targets.contains(way.target)
            }),
            Secret::Clients => false,
        }
}

fn refusal(route: &Route<'_>) -> Exposure {
    let (pool, target) = (&route.through.name, route.way.target);
    let (key, what, hint) = match route.way.secret {
        Secret::OfPool(_) => {
            let what = format!("the stored password of pool {pool} would go to {target} as user {}", route.way.user);
            ("password", what, AGAIN)
        }
        Secret::Listed(user) if route.through.user.as_deref() == Some(user) => {
            ("password", format!("the listed secret of user {user} would go to {target}"), GIVE)
        }
        Secret::Listed(user) => {
            let what = format!("the listed secret of user {user}, who asks about users, would go to {target}");
            ("auth_user", what, ASKER)
        }
        Secret::Clients => ("user", format!("the listed secrets of clients would go to {target}"), OWN),
    };
    Exposure { key, message: format!("{what}, where it has not gone before"), hint }
}

/// Whether secrets would be sent over a network with weaker encryption than before.
fn weaker(before: &Config, after: &Config, routes: &[Route<'_>]) -> Option<Exposure> {
    let (old, new) = (&before.tls.server, &after.tls.server);
    let worse = new.mode < old.mode || new.ca_file != old.ca_file;
    let leaves = |route: &Route<'_>| !matches!(route.way.target.host, Host::SocketDir(_));
    if !worse || !routes.iter().any(leaves) {
        return None;
    }
    let message = "stored passwords would go to servers with less protection than now".to_owned();
    Some(Exposure { key: "mode", message, hint: IN_FILE })
}
