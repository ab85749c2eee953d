//! A pool's server, tried as the pool would use it: logs in, asks what it is and has room for, and leaves.
//!
//! Encrypted as the configuration wants it for servers, with the second try that some modes leave.

use std::time::{Duration, Instant};

use weir_admin::Answered;
use weir_base::Host;
use weir_config::{Config, Encryption, Ending, Pool};
use weir_pglocal::client::{Connection, Error, Params, Transport};
use weir_runtime::ServerTls;

/// How long the server may take to answer each time.
const PATIENCE: Duration = Duration::from_secs(10);

/// As whom a pool's server is asked.
pub(crate) enum Login {
    As {
        user: String,
        password: Option<String>,
    },
    /// Only a client's own login could tell.
    Unknown,
}

/// Tries one pool: what its server says, or why it says nothing.
pub(crate) fn try_pool(config: &Config, pool: &Pool) -> Result<Answered, String> {
    match login(config, pool) {
        Login::As { user, password } => ask(config, pool, &user, password.as_deref()),
        Login::Unknown => {
            Err("it logs in with each client's own password, and none is known: give a user and a password".into())
        }
    }
}

/// The pool's own user, or the first listed one whose password is known.
pub(crate) fn login(config: &Config, pool: &Pool) -> Login {
    if let Some(user) = &pool.user {
        return Login::As { user: user.clone(), password: pool.password.as_deref().map(str::to_owned) };
    }
    let hashed =
        |secret: &str| secret.starts_with("SCRAM-SHA-256$") || (secret.len() == 35 && secret.starts_with("md5"));
    let mut users = config.auth.users.iter();
    match users.find(|(_, secret)| !hashed(secret)) {
        Some((user, secret)) => {
            let password = (!secret.is_empty()).then(|| secret.to_owned());
            Login::As { user: user.to_owned(), password }
        }
        None => Login::Unknown,
    }
}

/// Asks a pool's server as this user. An error says which server it was.
pub(crate) fn ask(config: &Config, pool: &Pool, user: &str, password: Option<&str>) -> Result<Answered, String> {
    let tls = ServerTls::load(config)?;
    let mut params = Params::new(&pool.target().host.to_string(), pool.target().port, user, &pool.database);
    params.password = password.map(str::to_owned);
    params = params.timeout(PATIENCE).option("application_name", "weir check");
    let begun = Instant::now();
    let trial = Trial { config, tls: &tls, host: &pool.target().host, params: &params };
    let answered = trial.connect().and_then(|(connection, encrypted)| question(connection, encrypted, begun));
    answered.map_err(|error| format!("{} as {user}: {error}", pool.target()))
}

/// A login to be tried.
struct Trial<'a> {
    config: &'a Config,
    tls: &'a ServerTls,
    host: &'a Host,
    params: &'a Params,
}

impl Trial<'_> {
    /// Logs in, in the ways that the mode leaves; says whether it is encrypted.
    fn connect(&self) -> Result<(Connection, bool), Error> {
        let mode = self.config.tls.server.mode;
        let mut encryption = Encryption::first(mode);
        loop {
            match self.connect_once(encryption) {
                Ok(connected) => return Ok(connected),
                Err((error, ending)) => encryption = encryption.other(mode, ending).ok_or(error)?,
            }
        }
    }

    fn connect_once(&self, encryption: Encryption) -> Result<(Connection, bool), (Error, Ending)> {
        let other = |error| (error, Ending::Other);
        let mut connection = Connection::open(self.params).map_err(other)?;
        // A Unix socket is never encrypted, as with the pools.
        let asks = encryption != Encryption::Off && !matches!(self.host, Host::SocketDir(_));
        let encrypted = asks && connection.ask_for_encryption().map_err(other)?;
        if encrypted {
            let begin = |socket| {
                let stream = self.tls.connect(self.config, self.host, socket)?;
                Ok(Box::new(stream) as Box<dyn Transport>)
            };
            connection = connection.encrypt(begin).map_err(|error| (error, Ending::Handshake))?;
        } else if asks && encryption == Encryption::Needed {
            return Err(other(Error::Login("server refused SSL".to_owned())));
        }
        match connection.login(self.params) {
            Ok(()) => Ok((connection, encrypted)),
            // Only this class of errors depends on whether it is encrypted (pg_hba.conf).
            Err(error) if error.sqlstate() == Some("28000") => Err((error, Ending::Refused { encrypted })),
            Err(error) => Err(other(error)),
        }
    }
}

fn question(mut connection: Connection, encrypted: bool, begun: Instant) -> Result<Answered, Error> {
    connection.query("select 1")?;
    let mut setting = |name: &str| connection.value(&format!("show {name}")).map(Option::unwrap_or_default);
    let version = setting("server_version")?;
    let number = |text: String| text.parse::<u64>().unwrap_or(0);
    let max_connections = number(setting("max_connections")?);
    let superuser_reserved_connections = number(setting("superuser_reserved_connections")?);
    let open = "select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend'";
    let connections = number(connection.value(open)?.unwrap_or_default());
    connection.close()?;
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3;
    Ok(Answered { encrypted, version, milliseconds, max_connections, superuser_reserved_connections, connections })
}
