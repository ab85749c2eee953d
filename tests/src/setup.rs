//! A configuration of Weir for a test: said in a few words, written as `weir.toml` and `userlist.txt`.

use std::fmt::{self, Write as _};

use crate::postgres::{Database, User, users};

/// The console's administrator, in every list of users.
pub const ADMIN: (&str, &str) = ("admin", "console secret");
/// A user that may only look at the console.
pub const WATCHER: (&str, &str) = ("watcher", "just looking");

/// How long a client keeps a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Until it leaves.
    Session,
    /// Until its transaction ends.
    Transaction,
    /// Until its statement ends.
    Statement,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
        })
    }
}

/// One Weir's configuration: a pool `app` before a database, and what a test wants to be different.
#[derive(Clone, Debug)]
pub struct Setup {
    mode: Mode,
    size: u32,
    workers: u32,
    auth: &'static str,
    login: Login,
    secrets: Vec<(String, String)>,
    general: String,
    limits: String,
    pool: String,
    more: String,
}

/// As whom the pool logs in to its server.
#[derive(Clone, Debug)]
enum Login {
    As(User),
    EachClientItself,
}

impl Setup {
    /// A pool of 5 in this mode; clients log in with SCRAM, the server is used as `users::APP`. One worker, or as many
    /// as `WEIR_TESTS_WORKERS` says, which runs everything again on several.
    pub fn new(mode: Mode) -> Self {
        let secret = |name: &str, secret: &str| (name.to_owned(), secret.to_owned());
        let mut secrets: Vec<_> = users::ALL.iter().map(|user| secret(user.name, user.password)).collect();
        secrets.extend([ADMIN, WATCHER].map(|(name, password)| secret(name, password)));
        Setup {
            mode,
            size: 5,
            workers: usual_workers(),
            auth: "scram-sha-256",
            login: Login::As(users::APP),
            secrets,
            general: String::new(),
            limits: String::new(),
            pool: String::new(),
            more: String::new(),
        }
    }

    /// A pool of this size.
    #[must_use]
    pub fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    /// So many worker threads.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// What clients are asked for: `trust`, `plain`, `md5`, `scram-sha-256`.
    #[must_use]
    pub fn auth(mut self, auth: &'static str) -> Self {
        self.auth = auth;
        self
    }

    /// This user's secret as it stands in the userlist, in place of its password.
    #[must_use]
    pub fn secret(mut self, user: &str, secret: &str) -> Self {
        self.secrets.retain(|(name, _)| name != user);
        self.secrets.push((user.to_owned(), secret.to_owned()));
        self
    }

    /// This user is on no list.
    #[must_use]
    pub fn without(mut self, user: &str) -> Self {
        self.secrets.retain(|(name, _)| name != user);
        self
    }

    /// The server is used as this user.
    #[must_use]
    pub fn server_user(mut self, user: User) -> Self {
        self.login = Login::As(user);
        self
    }

    /// The server is used as each client itself.
    #[must_use]
    pub fn no_server_user(mut self) -> Self {
        self.login = Login::EachClientItself;
        self
    }

    /// A line of `[general]`.
    #[must_use]
    pub fn general(mut self, line: &str) -> Self {
        self.general.push_str(line);
        self.general.push('\n');
        self
    }

    /// A line of `[limits]`.
    #[must_use]
    pub fn limit(mut self, line: &str) -> Self {
        self.limits.push_str(line);
        self.limits.push('\n');
        self
    }

    /// A line of the pool's section.
    #[must_use]
    pub fn pool(mut self, line: &str) -> Self {
        self.pool.push_str(line);
        self.pool.push('\n');
        self
    }

    /// Further sections, as they are.
    #[must_use]
    pub fn more(mut self, sections: &str) -> Self {
        self.more.push_str(sections);
        self.more.push('\n');
        self
    }

    /// `weir.toml`, with `{port}` where the port to listen on belongs.
    pub fn toml(&self, database: &Database) -> String {
        let mut text = format!(
            "[general]\nworkers = {}\nadmin_users = [\"{}\"]\nstats_users = [\"{}\"]\n{}\n\
             [listen]\naddress = \"127.0.0.1\"\nport = {{port}}\n\n\
             [auth]\ntype = \"{}\"\nfile = \"userlist.txt\"\n\n\
             [limits]\n{}\n\
             [pools.app]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"{}\"\nmode = \"{}\"\nsize = {}\n",
            self.workers,
            ADMIN.0,
            WATCHER.0,
            self.general,
            self.auth,
            self.limits,
            database.postgres().port(),
            database.name(),
            self.mode,
            self.size,
        );
        if let Login::As(user) = &self.login {
            let _ = writeln!(text, "user = {}\npassword = {}", quoted(user.name), quoted(user.password));
        }
        text + &self.pool + "\n" + &self.more
    }

    /// `userlist.txt`.
    pub fn userlist(&self) -> String {
        let double = |text: &str| text.replace('"', "\"\"");
        self.secrets.iter().map(|(name, secret)| format!("\"{}\" \"{}\"\n", double(name), double(secret))).collect()
    }
}

fn usual_workers() -> u32 {
    std::env::var("WEIR_TESTS_WORKERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
