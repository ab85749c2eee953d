//! The test of a pool's server: log in as the pool would, query its version and its limits, disconnect.
//!
//! Logs in by the rules of the pool's own connections: its hosts in order, `target_session_attrs`, TLS as configured for
//! servers, with the second attempt of `allow` and `prefer`, channel binding, `require_auth`, startup parameters and
//! `connect_query`. The server is not trusted: the whole test has a deadline
//! and a limit of bytes.

use std::io;
use std::time::{Duration, Instant};

use weir_admin::{PoolTestResult, ProbeError};
use weir_base::Host;
use weir_config::{Config, Encryption, FailedAttempt, PoolConfig, ServerPassword, SessionAttrs};
use weir_pgclient::{Bounds, ConnectParams, Connection, DeadlineSocket, Error, Transport};
use weir_runtime::{ServerTls, made_password};

use crate::permit::Permit;

/// How long connecting, logging in and the queries may take together.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes that a server may send; the answers of a test take a few thousand.
const MAX_BYTES: usize = 1 << 20;

/// The protocol that PostgreSQL registered for ALPN.
const ALPN: &[u8] = b"postgresql";

/// The condition for connections of clients in `pg_stat_activity`. Of another role's backend `backend_type` is hidden;
/// its database and its user are not, and the server's own processes have not both.
pub const OF_CLIENTS: &str =
    "(backend_type = 'client backend' or backend_type is null and usesysid is not null and datid is not null)";

/// Who logs in.
#[derive(PartialEq)]
pub(crate) struct Credentials {
    pub(crate) user: String,
    pub(crate) password: Option<String>,
}

/// The user of the test.
pub(crate) enum Login {
    As(Credentials),
    /// The pool logs in as its clients, and none of their passwords is known.
    Unknown,
    /// The program or the service that makes the password has failed; holds why.
    Failed(String),
}

/// Tests one pool: what its server reports, or why it failed. `permit`: the connection is one of this node's share.
pub(crate) fn test_pool(
    config: &Config,
    pool: &PoolConfig,
    permit: Option<&Permit>,
) -> Result<PoolTestResult, ProbeError> {
    let timeout = permit.map_or(TIMEOUT, |permit| permit.limit(TIMEOUT));
    match login(config, pool) {
        Login::As(as_whom) => {
            ask_with_timeout(timeout, config, pool, &as_whom).map_err(|error| ProbeError::Server(error.text))
        }
        Login::Unknown => Err(ProbeError::NoLoginToTest),
        Login::Failed(why) => Err(ProbeError::NoPassword(why)),
    }
}

/// The pool's own user, or else the first listed one whose password is known: a server that asks for passwords gets
/// that of one client, not one after the other. The console's users are left out, as no server needs to know them.
pub(crate) fn login(config: &Config, pool: &PoolConfig) -> Login {
    if let Some(user) = &pool.user {
        let password = match config.server_password(pool) {
            ServerPassword::Known(password) => Some(password.to_owned()),
            ServerPassword::Made(source) => match made_password(&source, pool.target(), None) {
                Ok(printed) => Some(printed.password.to_string()),
                Err(why) => return Login::Failed(why),
            },
            ServerPassword::Hash | ServerPassword::Clients | ServerPassword::None => None,
        };
        return Login::As(Credentials { user: user.clone(), password });
    }
    listed_user(config, pool).map_or(Login::Unknown, Login::As)
}

/// The user of [`login`].
pub(crate) fn user(config: &Config, pool: &PoolConfig) -> Option<String> {
    pool.user.clone().or_else(|| listed_user(config, pool).map(|as_whom| as_whom.user))
}

/// The first listed user whose password is known and who may use the pool, and the password.
fn listed_user(config: &Config, pool: &PoolConfig) -> Option<Credentials> {
    let of_console = |user: &str| config.admin_users.iter().chain(&config.stats_users).any(|name| name == user);
    let users = &config.auth.users;
    let is_usable = |(user, secret): &(&str, &str)| {
        let may = !config.is_disabled(user) && config.may_use(user, &pool.name);
        may && (secret.is_empty() || users.password(user).is_some())
    };
    let first = users.iter().filter(|(user, _)| !of_console(user)).find(is_usable);
    first.map(|(user, _)| Credentials { user: user.to_owned(), password: users.password(user).map(str::to_owned) })
}

impl Login {
    /// User and password, or why there are none.
    fn known(self) -> Result<Credentials, ProbeError> {
        match self {
            Login::As(as_whom) => Ok(as_whom),
            Login::Unknown => Err(ProbeError::NoLogin),
            Login::Failed(why) => Err(ProbeError::NoPassword(why)),
        }
    }
}

/// Why a test failed.
pub(crate) struct TestError {
    pub(crate) text: String,
    /// Whether the server refused this user, and may accept another.
    pub(crate) about_user: bool,
    /// Whether the server requested a password, and none was known.
    pub(crate) lacks_password: bool,
}

/// Tests a pool's server as this user. An error contains the server's address.
pub(crate) fn ask(config: &Config, pool: &PoolConfig, as_whom: &Credentials) -> Result<PoolTestResult, TestError> {
    ask_with_timeout(TIMEOUT, config, pool, as_whom)
}

/// Tries the pool's hosts as its own logins do, in order, until one is fit by `target_session_attrs`.
fn ask_with_timeout(
    timeout: Duration,
    config: &Config,
    pool: &PoolConfig,
    as_whom: &Credentials,
) -> Result<PoolTestResult, TestError> {
    let (until, attrs) = (Instant::now() + timeout, pool.session_attrs);
    let mut attempts: Vec<_> = pool.targets.iter().map(|target| (target, attrs)).collect();
    if attrs == SessionAttrs::PreferStandby {
        attempts.extend(pool.targets.iter().map(|target| (target, SessionAttrs::Any)));
    }
    let mut errors: Vec<TestError> = Vec::new();
    for (at, (target, attrs)) in attempts.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now()) / (attempts.len() - at) as u32;
        let pool = PoolConfig { targets: vec![(*target).clone()], session_attrs: *attrs, ..pool.clone() };
        match ask_host(left, config, &pool, as_whom) {
            Ok(mut result) => {
                result.notes.extend(errors.into_iter().map(|error| format!("another host: {}", error.text)));
                return Ok(result);
            }
            Err(error) => errors.push(error),
        }
    }
    Err(TestError {
        about_user: errors.iter().any(|error| error.about_user),
        lacks_password: errors.iter().any(|error| error.lacks_password),
        text: errors.into_iter().map(|error| error.text).collect::<Vec<_>>().join("; "),
    })
}

/// Tests the only host of a pool.
fn ask_host(
    timeout: Duration,
    config: &Config,
    pool: &PoolConfig,
    as_whom: &Credentials,
) -> Result<PoolTestResult, TestError> {
    let begun = Instant::now();
    let mut options = vec![("application_name", "weir check")];
    let own = pool.startup.iter().filter(|(name, _)| name != "application_name");
    options.extend(own.map(|(name, value)| (name.as_str(), value.as_str())));
    let (connection, encrypted) = log_in(timeout, config, pool, as_whom, &options)?;
    query_server(connection, encrypted, pool, begun).map_err(|error| TestError::new(pool, &as_whom.user, &error))
}

/// A connection with a pool's own login.
pub struct OwnLogin {
    /// The connection.
    pub connection: Connection,
    /// The user.
    pub user: String,
}

/// Logs in at a pool's first server as the pool itself, or as the first listed user whose password is known, with these
/// startup parameters. The connection as a whole has a time limit and a limit of bytes.
///
/// # Errors
/// No login is known, or the server's error with its address.
pub fn log_in_as_pool(
    timeout: Duration,
    config: &Config,
    pool: &PoolConfig,
    options: &[(&str, &str)],
) -> Result<OwnLogin, ProbeError> {
    let as_whom = login(config, pool).known()?;
    let logged_in = log_in(timeout, config, pool, &as_whom, options);
    logged_in
        .map(|(connection, _)| OwnLogin { connection, user: as_whom.user })
        .map_err(|error| ProbeError::Server(error.text))
}

fn log_in(
    timeout: Duration,
    config: &Config,
    pool: &PoolConfig,
    Credentials { user, password }: &Credentials,
    options: &[(&str, &str)],
) -> Result<(Connection, bool), TestError> {
    let tls = ServerTls::load(config).map_err(|text| TestError { text, about_user: false, lacks_password: false })?;
    let mut params = ConnectParams::new(&pool.target().host.to_string(), pool.target().port, user, &pool.database);
    params.password.clone_from(password);
    params = params.timeout(timeout).bounds(Bounds { until: Instant::now() + timeout, bytes: MAX_BYTES });
    params = options.iter().fold(params, |params, (name, value)| params.option(name, value));
    params.require = pool.policy.require_auth;
    params.trust.expects_request = pool.user.is_some() && pool.has_password();
    let attempt = LoginAttempt { config, tls: &tls, host: &pool.target().host, params };
    attempt.connect().map_err(|error| TestError::new(pool, user, &error))
}

impl TestError {
    fn new(pool: &PoolConfig, user: &str, error: &Error) -> TestError {
        // Invalid authorization specification (PostgreSQL, appendix A).
        let about_user = error.sqlstate().is_some_and(|code| code.starts_with("28"));
        let lacks_password = matches!(error, Error::NoPassword(_));
        TestError { text: format!("{} as {user}: {error}", pool.target()), about_user, lacks_password }
    }
}

/// A login to attempt.
pub(crate) struct LoginAttempt<'a> {
    pub(crate) config: &'a Config,
    pub(crate) tls: &'a ServerTls,
    pub(crate) host: &'a Host,
    pub(crate) params: ConnectParams,
}

impl LoginAttempt<'_> {
    /// Logs in, with the attempts that the mode allows; returns whether the connection is encrypted.
    pub(crate) fn connect(&self) -> Result<(Connection, bool), Error> {
        let mode = self.config.tls.server.mode;
        let mut encryption = Encryption::first(mode);
        loop {
            match self.connect_once(encryption) {
                Ok(connected) => return Ok(connected),
                Err((error, ending)) => encryption = encryption.other(mode, ending).ok_or(error)?,
            }
        }
    }

    fn connect_once(&self, encryption: Encryption) -> Result<(Connection, bool), (Error, FailedAttempt)> {
        let other = |error| (error, FailedAttempt::Other);
        let mut connection = Connection::open(&self.params).map_err(other)?;
        // A Unix socket is never encrypted, as for the pools.
        let asks = encryption != Encryption::Off && !matches!(self.host, Host::SocketDir(_));
        let direct = self.config.tls.server.direct;
        let encrypted = asks && (direct || connection.ask_for_encryption().map_err(other)?);
        let mut params = self.params.clone();
        params.trust.local = connection.is_local();
        if encrypted {
            let begin = |socket: DeadlineSocket| {
                let (stream, shown) = self.tls.connect(self.config, self.host, socket)?;
                if direct && shown.alpn.as_deref() != Some(ALPN) {
                    return Err(io::Error::other("the server is not PostgreSQL: it did not name its protocol (ALPN)"));
                }
                params.trust.verified = shown.certificate.is_some();
                params.binding = shown.binding;
                Ok(Box::new(stream) as Box<dyn Transport>)
            };
            connection = connection.encrypt(begin).map_err(|error| (error, FailedAttempt::Handshake))?;
        } else if asks && encryption == Encryption::Required {
            return Err(other(Error::Login(
                "server refused SSL: set ssl = on in its postgresql.conf, or a mode in [tls.server] that allows plain \
                 connections"
                    .to_owned(),
            )));
        }
        match connection.login(&params) {
            Ok(()) => Ok((connection, encrypted)),
            // Only errors of this class depend on encryption (pg_hba.conf).
            Err(error) if error.sqlstate() == Some("28000") => Err((error, FailedAttempt::Refused { encrypted })),
            Err(error) => Err(other(error)),
        }
    }
}

fn query_server(
    mut connection: Connection,
    encrypted: bool,
    pool: &PoolConfig,
    begun: Instant,
) -> Result<PoolTestResult, Error> {
    if let Some(condition) = pool.session_attrs.condition()
        && connection.query(condition.query)?.rows.is_empty() == condition.row
    {
        return Err(Error::Login(format!("{} (target_session_attrs)", condition.why)));
    }
    let mut notes = Vec::new();
    if pool.has_password() && connection.is_trusted() {
        notes.push(
            "the server let Weir in without asking for the pool's password (trust in its pg_hba.conf)".to_owned(),
        );
    }
    if let Some(Err(error)) = pool.connect_query.as_ref().map(|query| connection.query_all(query)) {
        // It may fail, as with PgBouncer; then the connection has to be well.
        notes.push(format!("connect_query fails: {error}"));
    }
    connection.query("select 1")?;
    let mut setting = |name: &str| connection.value(&format!("show {name}")).map(Option::unwrap_or_default);
    let version = setting("server_version")?;
    let number = |text: String| text.parse::<u64>().unwrap_or(0);
    let max_connections = number(setting("max_connections")?);
    let superuser_reserved_connections = number(setting("superuser_reserved_connections")?);
    let open = format!("select count(*) from pg_catalog.pg_stat_activity where {OF_CLIENTS}");
    let connections = number(connection.value(&open)?.unwrap_or_default());
    connection.end()?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    Ok(PoolTestResult {
        server: pool.target().to_string(),
        notes,
        encrypted,
        version,
        milliseconds,
        max_connections,
        superuser_reserved_connections,
        connections,
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::path::Path;
    use std::thread;

    use super::*;

    /// A limit that no test reaches, except tests of the limit.
    const LONG: Duration = Duration::from_secs(100);

    /// Tests against a server that sends `first`, and then `again` until the connection is closed; returns the error,
    /// and what the server received.
    fn test_against(mode: &str, first: Vec<u8>, again: Vec<u8>) -> (String, Vec<u8>) {
        test_with(LONG, mode, "", first, again)
    }

    /// Tests as `test_against` does, within a time, for a pool with these keys too. A server without more to say closes
    /// once it has an answer.
    fn test_with(timeout: Duration, mode: &str, keys: &str, first: Vec<u8>, again: Vec<u8>) -> (String, Vec<u8>) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let text = format!(
            "[auth]\ntype = \"trust\"\n[auth.users]\na = \"\"\n[tls.server]\nmode = \"{mode}\"\n\
             [pools.app]\nhost = \"127.0.0.1\"\nport = {}\nuser = \"app\"\npassword = \"hush\"\n{keys}",
            server.local_addr().unwrap().port()
        );
        let config = weir_config::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).unwrap();
        let play = thread::spawn(move || {
            let (mut stream, _) = server.accept().unwrap();
            let mut received = vec![0; 1024];
            let count = stream.read(&mut received).unwrap();
            received.truncate(count);
            let _ = stream.write_all(&first);
            while !again.is_empty() {
                thread::sleep(Duration::from_millis(20));
                if stream.write_all(&again).is_err() {
                    break;
                }
            }
            let mut answer = vec![0; 1024];
            let count = stream.read(&mut answer).unwrap_or(0);
            received.extend_from_slice(&answer[..count]);
            received
        });
        let login = Credentials { user: "app".to_owned(), password: Some("hush".to_owned()) };
        // Without the deadline it would take hours.
        let why = ask_with_timeout(timeout, &config, &config.pools["app"], &login).unwrap_err();
        (why.text, play.join().unwrap())
    }

    fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
        [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    #[test]
    fn a_password_is_not_sent_as_it_is_to_whoever_asks_for_it() {
        let (why, received) = test_against("disable", frame(b'R', &3_u32.to_be_bytes()), Vec::new());
        assert!(why.contains("in clear text") && why.contains("verify-full"), "{why}");
        assert!(!received.windows(4).any(|bytes| bytes == b"hush"));
    }

    #[test]
    fn require_auth_holds_for_a_test_of_a_pool() {
        let codes = [("password", 3_u32), ("md5", 5), ("scram-sha-256", 10)];
        for words in ["password", "md5", "scram-sha-256", "!md5", "any", "none"] {
            for (method, code) in codes {
                let rest: &[u8] = match code {
                    5 => b"salt",
                    10 => b"SCRAM-SHA-256\0\0",
                    _ => b"",
                };
                let body = [&code.to_be_bytes()[..], rest].concat();
                let settings = format!("require_auth = \"{words}\"\n");
                let (why, received) = test_with(LONG, "disable", &settings, frame(b'R', &body), Vec::new());
                let may = words == "any" || words == method || words == "!md5" && method != "md5";
                assert_eq!(!why.contains("require_auth does not allow"), may, "{words} {method}: {why}");
                assert_eq!(received.windows(3).any(|bytes| bytes == b"p\0\0"), may, "{words} {method}");
            }
        }
    }

    #[test]
    fn a_server_that_sends_too_much_or_too_slowly_is_given_up() {
        let (why, _) = test_against("disable", [&[b'R'][..], &0x4000_0000_u32.to_be_bytes()].concat(), vec![0; 1000]);
        assert!(why.contains("more than belongs to an answer"), "{why}");
        let notice = frame(b'N', b"SNOTICE\0C00000\0Mhello\0\0");
        let (why, _) = test_against("disable", Vec::new(), notice.repeat(10_000));
        assert!(why.contains("more than belongs to an answer"), "{why}");
        // Each read finds something.
        let soon = Duration::from_secs(1);
        let (why, _) = test_with(soon, "disable", "", vec![b'N', 0, 0, 200, 0], vec![0]);
        assert!(why.contains("did not answer in time"), "{why}");
        // Within a handshake: a long record, a few bytes at a time.
        let (why, _) = test_with(soon, "require", "", b"S".to_vec(), vec![22, 3, 3, 64, 0]);
        assert!(why.contains("did not answer in time") || why.contains("timed out"), "{why}");
    }
}
