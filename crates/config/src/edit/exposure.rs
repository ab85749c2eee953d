//! Where stored secrets may be sent: no change over the control plane or the console sends a stored secret to a new
//! target.
//!
//! An admin of either may change pools or settings, but must not learn the passwords in the file: moving a pool, or
//! making another one with its secret, requires that secret. So a change is refused that gives a stored secret a new
//! host, port or user, that lets a server ask for it in more ways, that encrypts less, or that names a file or a
//! variable to read a password from. The file itself, read at the start or by a RELOAD, belongs to the operator and is
//! not checked here.

use std::sync::Arc;

use weir_auth::{Method, RequireAuth};
use weir_base::{Host, Target};

use crate::elsewhere;
use crate::model::{Config, PoolConfig, SslMode};
use crate::table::Section;

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
#[derive(Clone, PartialEq, Eq)]
enum Secret<'a> {
    /// The password of this pool.
    OfPool(&'a str),
    /// The secret of a listed user.
    Listed(&'a str),
    /// The secrets of all clients: each logs in as itself.
    Clients,
}

/// A secret, the user that logs in with it, the target, and how the target may ask for the secret.
#[derive(Clone)]
struct Way<'a> {
    secret: Secret<'a>,
    user: &'a str,
    target: &'a Target,
    require: RequireAuth,
}

/// A way of a secret; `through` is the pool whose server is the target.
struct Route<'a> {
    way: Way<'a>,
    through: &'a PoolConfig,
}

/// Checks whether the change `edit`, which turns `before` into `after`, sends a stored secret to a new target.
pub fn find_exposure(before: &Config, after: &Config, edit: &Edit) -> Option<Exposure> {
    let (name, keys) = match edit {
        // A changed user comes with its secret.
        Edit::User(..) => return None,
        Edit::Pool(name, Operation::Create(keys) | Operation::Alter(keys)) => (Some(name.as_str()), Some(keys)),
        // Where a dropped pool answered an auth_query, another one may do so now.
        Edit::Pool(_, Operation::Drop) | Edit::Setting(_) | Edit::Restore(_) => (None, None),
    };
    let gives = |pool: &str| {
        if Some(pool) == name { gives(keys) } else { restores_with(edit, &format!("pools.{pool}.password")) }
    };
    find(before, after, gives)
}

/// Checks whether a change that gives no secret, the console's SET, sends a stored secret to a new target.
pub(crate) fn find_exposure_by_set(before: &Config, after: &Config) -> Option<Exposure> {
    find(before, after, |_| false)
}

/// `gives`: whether the change comes with the password of a pool.
fn find(before: &Config, after: &Config, gives: impl Fn(&str) -> bool) -> Option<Exposure> {
    let known: Vec<Way<'_>> = routes(before).into_iter().map(|route| route.way).collect();
    let routes = routes(after);
    let given = |route: &Route<'_>| match route.way.secret {
        Secret::OfPool(pool) => gives(pool),
        Secret::Listed(_) | Secret::Clients => false,
    };
    let allows = |way: &Way<'_>, require: RequireAuth| way.require.is_as_strict_as(require);
    let new = routes.iter().filter(|route| !given(route)).find_map(|route| {
        let old = uses(&route.way, route.through, &known, before);
        let is_known = old.iter().any(|require| allows(&route.way, *require));
        (!is_known).then(|| if old.is_empty() { refusal(route) } else { loosened(route) })
    });
    new.or_else(|| weaker(before, after, &routes))
}

/// Checks whether a change names a source of a password, or of any other value: who may change a pool may not read the
/// environment and the files of the process. Callers check this before they read anything.
pub fn find_source(edit: &Edit) -> Option<Exposure> {
    reference(edit).or_else(|| password_source(edit))
}

fn reference(edit: &Edit) -> Option<Exposure> {
    let (section, keys) = match edit {
        Edit::Pool(_, Operation::Create(keys) | Operation::Alter(keys)) => (Section::Pool, keys),
        Edit::User(_, Operation::Create(keys) | Operation::Alter(keys)) => (Section::User, keys),
        Edit::Setting(assignment) => return assignment.refers().map(of_reference),
        _ => return None,
    };
    let refers = |value: &Value| match value {
        Value::Text(text) => elsewhere::is_reference(text),
        Value::List(items) => {
            items.iter().any(|item| matches!(item, Value::Text(text) if elsewhere::is_reference(text)))
        }
        _ => false,
    };
    let given = keys.keys.iter().filter(|(_, value)| value.as_ref().is_some_and(refers));
    let settings = given.filter_map(|(key, _)| section.find(key));
    settings.into_iter().find(|setting| elsewhere::may_refer(setting)).map(|setting| of_reference(setting.name))
}

fn of_reference(key: &'static str) -> Exposure {
    let message = format!(
        "\"{key}\" would have Weir read a value that was not given here: only the file may refer to env: and file:"
    );
    Exposure { key, message, hint: "give the value itself, or change the file and RELOAD" }
}

fn password_source(edit: &Edit) -> Option<Exposure> {
    let Edit::Pool(_, Operation::Create(keys) | Operation::Alter(keys)) = edit else { return None };
    let key =
        ["password_file", "password_env", "password_command", "password_source"].iter().find(|key| keys.gives(key))?;
    let message = match *key {
        "password_command" => format!("\"{key}\" would have Weir run a program"),
        "password_source" => format!("\"{key}\" would have Weir ask for a token with the rights of this machine"),
        key => format!("\"{key}\" would have Weir read a secret that was not given here"),
    };
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

/// All ways of stored secrets to their targets.
fn routes(config: &Config) -> Vec<Route<'_>> {
    let mut routes = Vec::new();
    for pool in config.pools.values().chain(&config.fallback) {
        let (secret, user) = match &pool.user {
            None => (have_secrets(config, pool).then_some(Secret::Clients), ""),
            Some(user) if pool.has_password() => (Some(Secret::OfPool(&pool.name)), user.as_str()),
            Some(user) => (listed(config, user), user.as_str()),
        };
        add(&mut routes, secret, user, pool);
        ask(&mut routes, config, Some(pool));
    }
    // For operators at the console, which has no pool.
    ask(&mut routes, config, None);
    routes
}

/// Whether clients of a pool may have secrets: listed ones, those that a server is asked for, or what they log in with.
fn have_secrets(config: &Config, pool: &PoolConfig) -> bool {
    config.auth.users.iter().any(|(_, secret)| !secret.is_empty())
        || !matches!(config.auth.method, Method::Trust | Method::Any | Method::Cert)
        || asker(config, Some(pool)).is_some()
}

/// The way of the auth_query for a pool's unlisted users.
fn ask<'a>(routes: &mut Vec<Route<'a>>, config: &'a Config, pool: Option<&'a PoolConfig>) {
    let Some((asker, place)) = asker(config, pool) else { return };
    // Where it asks as the pool's own user, it does so with the pool's password.
    if place.user.as_deref() != Some(asker) {
        add(routes, listed(config, asker), asker, place);
    }
}

fn add<'a>(routes: &mut Vec<Route<'a>>, secret: Option<Secret<'a>>, user: &'a str, through: &'a PoolConfig) {
    let Some(secret) = secret else { return };
    let way = |target| Way { secret: secret.clone(), user, target, require: through.policy.require_auth };
    routes.extend(through.targets.iter().map(|target| Route { way: way(target), through }));
}

fn listed<'a>(config: &Config, user: &'a str) -> Option<Secret<'a>> {
    config.auth.users.get(user).filter(|secret| !secret.is_empty()).map(|_| Secret::Listed(user))
}

/// The user of the auth_query for unlisted users, and the pool whose server answers it.
fn asker<'a>(config: &'a Config, pool: Option<&'a PoolConfig>) -> Option<(&'a str, &'a PoolConfig)> {
    let own = |get: fn(&'a PoolConfig) -> &'a Option<String>| pool.and_then(|pool| get(pool).as_deref());
    let user = own(|pool| &pool.auth_user).or(config.auth.query_user.as_deref()).filter(|user| !user.is_empty())?;
    let place = own(|pool| &pool.auth_database).or(config.auth.query_database.as_deref());
    let named = |name| config.pools.get(name).or(config.fallback.as_ref()).map(AsRef::as_ref);
    let place = place.filter(|name| !name.is_empty()).map_or(pool, named);
    Some((user, place?))
}

/// The ways in which this target may ask for this secret already; none if the secret is not sent there.
fn uses(way: &Way<'_>, through: &PoolConfig, known: &[Way<'_>], before: &Config) -> Vec<RequireAuth> {
    let is_same = |old: &&Way<'_>| {
        let of_clients = old.secret == Secret::Clients && matches!(way.secret, Secret::Listed(_));
        old.target == way.target && (of_clients || (&old.secret, old.user) == (&way.secret, way.user))
    };
    let mut found: Vec<RequireAuth> = known.iter().filter(is_same).map(|old| old.require).collect();
    if let Secret::OfPool(_) = way.secret {
        // Another pool's password that equals this pool's password of before.
        let equal = |pool: &&Arc<PoolConfig>| {
            pool.user.as_deref() == Some(way.user)
                && (&pool.password, pool.password_source()) == (&through.password, through.password_source())
                && pool.targets.contains(way.target)
        };
        found.extend(before.pools.values().chain(&before.fallback).filter(equal).map(|pool| pool.policy.require_auth));
    }
    found
}

/// The refusal of a change after which a server may ask for a secret in more ways.
fn loosened(route: &Route<'_>) -> Exposure {
    let target = route.way.target;
    let (what, hint) = match route.way.secret {
        Secret::OfPool(pool) => (format!("the stored password of pool {pool}"), AGAIN),
        Secret::Listed(user) => (format!("the listed secret of user {user}"), IN_FILE),
        Secret::Clients => ("the secrets of clients".to_owned(), IN_FILE),
    };
    let message = format!("{target} could ask for {what} in ways that require_auth does not allow it now");
    Exposure { key: "require_auth", message, hint }
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
        Secret::Clients => ("user", format!("the secrets of clients would go to {target}"), OWN),
    };
    Exposure { key, message: format!("{what}, where it has not gone before"), hint }
}

/// Whether secrets would be sent over a network with weaker encryption than before.
fn weaker(before: &Config, after: &Config, routes: &[Route<'_>]) -> Option<Exposure> {
    let old = &before.tls.server;
    let new = &after.pending_tls.as_deref().unwrap_or(&after.tls).server;
    let trusts_others = old.mode >= SslMode::VerifyCa && new.ca_file != old.ca_file;
    let worse = new.mode < old.mode || trusts_others;
    let leaves = |route: &Route<'_>| !matches!(route.way.target.host, Host::SocketDir(_));
    if !worse || !routes.iter().any(leaves) {
        return None;
    }
    let message = "stored passwords would go to servers with less protection than now".to_owned();
    Some(Exposure { key: "mode", message, hint: IN_FILE })
}
