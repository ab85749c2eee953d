//! The test of a client's login at this Weir: connect to its own port, log in as the client would, send a query.
//!
//! The password is the caller's, and is kept nowhere. What the client gets is returned, with what to do about it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use weir_admin::{UserTestError, UserTestResult};
use weir_base::Host;
use weir_config::{Config, Listen, SecretForm, SslMode, secret_form};
use weir_pgclient::{Bounds, ConnectParams, Connection, Error};
use weir_runtime::ServerTls;

use crate::pool_test::LoginAttempt;

/// How long all of it may take. A wait for a server ends by then, with the reason, in most configurations.
const TIMEOUT: Duration = Duration::from_secs(12);
/// The most bytes that are read.
const MAX_BYTES: usize = 1 << 20;

/// Logs in as this user, with this password, to a pool.
pub(crate) fn test_user(
    config: &Config,
    user: &str,
    password: &str,
    pool: &str,
) -> Result<UserTestResult, UserTestError> {
    let begun = Instant::now();
    let tested = log_in(config, user, password, pool).and_then(|(mut connection, encrypted)| {
        let version = connection.parameter("server_version").unwrap_or_default().to_owned();
        let server_user = if config.disable_pqexec { None } else { connection.value("select current_user")? };
        connection.end()?;
        let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
        Ok(UserTestResult { milliseconds, encrypted, server_user: server_user.unwrap_or_default(), version })
    });
    tested.map_err(|error| explain(config, user, pool, &error))
}

fn log_in(config: &Config, user: &str, password: &str, pool: &str) -> Result<(Connection, bool), Error> {
    let host = own_host(&config.listen).ok_or_else(|| Error::Login("Weir listens nowhere".to_owned()))?;
    // Weir itself is at the other end, so its certificate proves nothing more.
    let mut to_itself = Config::default();
    to_itself.tls.server.mode = SslMode::Prefer;
    let tls = ServerTls::load(&to_itself).map_err(Error::Login)?;
    let mut params = ConnectParams::new(&host.to_string(), config.listen.port, user, pool).password(password);
    params = params.timeout(TIMEOUT).bounds(Bounds { until: Instant::now() + TIMEOUT, bytes: MAX_BYTES });
    params = params.option("application_name", "weir login test");
    LoginAttempt { config: &to_itself, tls: &tls, host: &host, params }.connect()
}

/// Where this Weir is reached from its own machine.
fn own_host(listen: &Listen) -> Option<Host> {
    let near = |address: &IpAddr| match address {
        IpAddr::V4(any) if any.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(any) if any.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => *other,
    };
    let address = listen.addresses.first().map(|address| Host::Ip(near(address)));
    address.or_else(|| listen.unix_socket_dir.clone().map(Host::SocketDir))
}

fn explain(config: &Config, user: &str, pool: &str, error: &Error) -> UserTestError {
    let (message, sqlstate, detail, hint) = match error.server() {
        Some(server) => (server.message.clone(), server.sqlstate.clone(), server.detail.clone(), server.hint.clone()),
        None => (error.to_string(), String::new(), None, None),
    };
    let refused = message.ends_with("authentication failed");
    let own =
        if refused { Some(about_password(config, user, pool)) } else { about_server(config, user, pool, &message) };
    UserTestError { message, sqlstate, detail, hint: own.or(hint) }
}

/// What to do about a password that Weir has refused.
fn about_password(config: &Config, user: &str, pool: &str) -> String {
    match config.auth.users.get(user).map(secret_form) {
        None if config.auth_lookup(pool).is_none() => {
            format!("there is no user {user} with a password: create it, or give it one")
        }
        None => format!("the database has no such user, or another password for {user}"),
        Some(Some(SecretForm::Empty)) => format!("{user} has no password yet: set one"),
        Some(Some(SecretForm::Md5)) => {
            "the stored secret is an md5 hash, which scram-sha-256 can't use: set the password again".to_owned()
        }
        Some(_) => "this is not the user's password: type it again, or set a new one".to_owned(),
    }
}

/// What to do about a server that refuses the user itself.
fn about_server(config: &Config, user: &str, pool: &str, message: &str) -> Option<String> {
    let own = config.pool(pool).is_some_and(|pool| pool.user.is_none());
    let hashed = config.auth.users.get(user).and_then(secret_form) == Some(SecretForm::Scram);
    (own && hashed && message.contains("server login failed")).then(|| {
        format!(
            "pool {pool} logs in to the server as each client itself, and Weir has only a hash of {user}'s password: set the \
             password again, or give the pool a user of its own"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn config(text: &str) -> Config {
        let text = format!("{text}\n[pools.app]\nhost = \"h\"\nuser = \"u\"\npassword = \"p\"\n");
        weir_config::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).unwrap()
    }

    #[test]
    fn weir_is_reached_at_an_address_of_its_own_machine() {
        let host = |listen: &str| {
            let config = config(&format!("[listen]\n{listen}\n[auth]\ntype = \"trust\"\n"));
            own_host(&config.listen).unwrap().to_string()
        };
        assert_eq!(host("address = \"*\""), "127.0.0.1");
        assert_eq!(host("address = [\"::\"]"), "::1");
        assert_eq!(host("address = [\"10.0.0.7\", \"127.0.0.1\"]"), "10.0.0.7");
        assert_eq!(host("address = []\nunix_socket_dir = \"/run/weir\""), "/run/weir");
    }

    #[test]
    fn a_refused_password_is_explained_by_what_is_stored() {
        let md5 = format!("md5{}", "0".repeat(32));
        let config = config(&format!("[auth.users]\nann = \"x\"\nold = \"{md5}\"\nnone = \"\"\n"));
        let why = |user: &str| about_password(&config, user, "app");
        assert!(why("nobody").contains("create it") && why("none").contains("set one"));
        assert!(why("old").contains("md5") && why("ann").contains("type it again"));
    }
}
