//! The PostgreSQL of the tests: one shared server, with users of each password kind, and private ones for tests that
//! break theirs.

use std::env;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::{Auth, Error, Options, Programs, Server};

/// A user of the test servers.
#[derive(Clone, Copy, Debug)]
pub struct User {
    /// The user's name.
    pub name: &'static str,
    /// The user's password, on the server and, unless a test says otherwise, in Weir's list of users.
    pub password: &'static str,
    /// The method for the user in pg_hba.conf.
    pub method: &'static str,
}

/// The users, by authentication method.
pub mod users {
    use super::User;

    /// SCRAM-SHA-256; the ordinary user of the suites.
    pub const APP: User = User { name: "app", password: "app's \"secret\"", method: "scram-sha-256" };
    /// Another one with SCRAM-SHA-256.
    pub const OTHER: User = User { name: "other", password: "quite another", method: "scram-sha-256" };
    /// An md5 digest; the password is stored as md5.
    pub const MD5: User = User { name: "md5er", password: "five rounds", method: "md5" };
    /// Cleartext.
    pub const PLAIN: User = User { name: "plainer", password: "in the clear", method: "password" };
    /// Trust.
    pub const TRUSTED: User = User { name: "truster", password: "unasked", method: "trust" };

    /// All users.
    pub const ALL: [User; 5] = [APP, OTHER, MD5, PLAIN, TRUSTED];
}

/// A running PostgreSQL; clones share it, the last one stops it.
#[derive(Clone, Debug)]
pub struct Postgres {
    server: Arc<Server>,
    /// Databases of tests that have ended, as empty as new ones.
    free: Arc<Mutex<Vec<String>>>,
}

/// What a test can have left in a database: two databases with the same answer are interchangeable. Temporary schemas,
/// which stay after their tables, do not count.
const FINGERPRINT: &str = "\
    SELECT concat_ws(' ',
        (SELECT count(*) FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_(toast_)?temp')),
        (SELECT string_agg(nspname || coalesce(nspacl::text, ''), ' ' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp'),
        (SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_type), (SELECT count(*) FROM pg_extension), (SELECT count(*) FROM pg_operator),
        (SELECT count(*) FROM pg_event_trigger), (SELECT count(*) FROM pg_publication), (SELECT count(*) FROM pg_foreign_data_wrapper),
        (SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_default_acl), (SELECT count(*) FROM pg_collation),
        (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()),
        (SELECT count(*) FROM pg_replication_slots WHERE database = current_database()),
        (SELECT count(*) FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase WHERE datname = current_database()),
        (SELECT concat_ws(' ', datdba, datacl, datconnlimit, datallowconn, datistemplate) FROM pg_database WHERE datname = current_database()))";

impl Postgres {
    /// The server that all tests share: tests may change their own databases, and nothing else on the server.
    ///
    /// # Panics
    ///
    /// When PostgreSQL can't be started; the other functions here panic then too.
    pub fn shared() -> Postgres {
        static SHARED: OnceLock<Postgres> = OnceLock::new();
        SHARED.get_or_init(|| Postgres::with(300, &[])).clone()
    }

    /// A private server, to be stopped, killed or filled up.
    pub fn private() -> Postgres {
        Postgres::with(60, &[])
    }

    /// A private server with this `max_connections` and these settings.
    pub fn with(max_connections: u32, settings: &[(&str, &str)]) -> Postgres {
        let ours = [("autovacuum", "off"), ("max_wal_size", "256MB"), ("max_prepared_transactions", "40")];
        let settings = ours.iter().chain(settings).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let hba = users::ALL.iter().map(|user| format!("host all \"{}\" 127.0.0.1/32 {}", user.name, user.method));
        let options = Options {
            max_connections,
            settings: settings.collect(),
            auth: Auth::ScramSha256,
            hba: hba.collect(),
            ..Options::default()
        };
        let server = programs().and_then(|programs| Server::start_with(programs, options));
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        let postgres = Postgres { server: Arc::new(server), free: Arc::default() };
        postgres.create_users();
        postgres
    }

    /// A standby that follows this server by streaming.
    pub fn standby(&self) -> Postgres {
        let server = Server::standby_of(&self.server).unwrap_or_else(|error| panic!("{error}"));
        Postgres { server: Arc::new(server), free: Arc::default() }
    }

    /// The server itself, to be stopped, started, frozen.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// The TCP port.
    pub fn port(&self) -> u16 {
        self.server.port()
    }

    /// A connection of the superuser, past Weir and over the Unix socket.
    pub fn superuser(&self, database: &str) -> Connection {
        self.server.superuser_connection(database).unwrap_or_else(|error| panic!("superuser of {database}: {error}"))
    }

    /// How to reach a database directly, as one of the users.
    pub fn params(&self, user: User, database: &str) -> ConnectParams {
        self.server.params(user.name, database).password(user.password)
    }

    /// An empty database that `users::APP` owns, for one test: a new one, or that of a test which has ended and left
    /// nothing in it (a new one costs PostgreSQL a tenth of a second).
    pub fn database(&self) -> Database {
        let free = self.free.lock().expect("no test panics while it holds it").pop();
        let name = free.unwrap_or_else(|| self.create_database());
        let fingerprint = self.fingerprint(&name).unwrap_or_else(|error| panic!("database {name}: {error}"));
        Database { postgres: self.clone(), name, fingerprint }
    }

    fn create_database(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let name = format!("t{}", NEXT.fetch_add(1, Ordering::Relaxed));
        self.superuser("postgres")
            .query(&format!("CREATE DATABASE {name} TEMPLATE template0 OWNER {}", users::APP.name))
            .unwrap_or_else(|error| panic!("create database {name}: {error}"));
        let all_users = format!("GRANT ALL ON SCHEMA public TO PUBLIC; GRANT ALL ON DATABASE {name} TO PUBLIC");
        self.superuser(&name).query(&all_users).unwrap_or_else(|error| panic!("grant on {name}: {error}"));
        name
    }

    fn fingerprint(&self, database: &str) -> Result<Option<String>, weir_pgclient::Error> {
        self.server.superuser_connection(database)?.value(FINGERPRINT)
    }

    /// The stored password of a user on the server: `md5…` or `SCRAM-SHA-256$…`.
    pub fn secret(&self, user: User) -> String {
        let sql = format!("SELECT rolpassword FROM pg_authid WHERE rolname = '{}'", user.name);
        let secret = self.superuser("postgres").value(&sql).unwrap_or_else(|error| panic!("{error}"));
        secret.expect("each user has a password")
    }

    /// Makes it a standby without a primary, until it is promoted. Its connections are closed.
    pub fn demote(&self) {
        let folder = self.superuser("postgres").value("SHOW data_directory").expect("it answers").expect("a folder");
        self.server.shutdown();
        fs::write(Path::new(&folder).join("standby.signal"), "").expect("the server's file");
        self.server.start_again().unwrap_or_else(|error| panic!("{error}"));
        let recovers = self.superuser("postgres").value("SELECT pg_is_in_recovery()");
        assert_eq!(recovers.expect("it answers").as_deref(), Some("t"));
    }

    fn create_users(&self) {
        let mut superuser = self.superuser("postgres");
        for user in users::ALL {
            let stored = if user.method == "md5" { "md5" } else { "scram-sha-256" };
            let password = user.password.replace('\'', "''");
            let sql = format!(
                "SET password_encryption = '{stored}'; CREATE USER {} PASSWORD '{password}' CREATEDB",
                user.name
            );
            superuser.query_all(&sql).unwrap_or_else(|error| panic!("create user {}: {error}", user.name));
        }
    }
}

/// The installed PostgreSQL, or the major version in `WEIR_TEST_POSTGRES`.
fn programs() -> Result<Programs, Error> {
    match env::var("WEIR_TEST_POSTGRES").ok().filter(|major| !major.is_empty()) {
        Some(major) => weir_pglocal::find_major(major.parse().expect("WEIR_TEST_POSTGRES is a number, such as 18")),
        None => weir_pglocal::find(),
    }
}

/// A database of one test.
#[derive(Debug)]
pub struct Database {
    postgres: Postgres,
    name: String,
    /// What the database held at first.
    fingerprint: Option<String>,
}

impl Database {
    /// The database's name on the server.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server that the database is on.
    pub fn postgres(&self) -> &Postgres {
        &self.postgres
    }

    /// A connection of the superuser to the database, past Weir.
    pub fn superuser(&self) -> Connection {
        self.postgres.superuser(&self.name)
    }

    /// The server processes of the tests' users in this database, with their states: `idle`, `active`, `idle in
    /// transaction`.
    pub fn backends(&self) -> Vec<(u32, String)> {
        let sql = format!(
            "SELECT pid, state FROM pg_stat_activity WHERE datname = '{}' AND usename <> 'postgres' ORDER BY pid",
            self.name
        );
        let answer = self.postgres.superuser("postgres").query(&sql).unwrap_or_else(|error| panic!("{error}"));
        let text = |row: usize, column| answer.get(row, column).unwrap_or_default();
        (0..answer.rows.len())
            .map(|row| (text(row, "pid").parse().unwrap_or_default(), text(row, "state").to_owned()))
            .collect()
    }
}

impl Database {
    /// Ends its sessions. True if the test has left nothing in it, so that another test can have it.
    fn is_reusable(&self) -> Result<bool, weir_pgclient::Error> {
        let mut superuser = self.postgres.server.superuser_connection(&self.name)?;
        let ended = superuser.value(
            "SELECT coalesce(bool_and(pg_terminate_backend(pid, 2000)), true) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )?;
        Ok(ended.as_deref() == Some("t") && superuser.value(FINGERPRINT)? == self.fingerprint)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // If the test has stopped its server, the database is gone with it.
        match self.is_reusable() {
            Ok(true) if !std::thread::panicking() => {
                self.postgres.free.lock().expect("no test panics while it holds it").push(self.name.clone());
            }
            _ => {
                if let Ok(mut superuser) = self.postgres.server.superuser_connection("postgres") {
                    let _ = superuser.query(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
                }
            }
        }
    }
}
