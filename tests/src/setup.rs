//! A configuration of Weir for a test: built with a few calls, written as `weir.toml` and `userlist.txt`.

use std::fmt::{self, Write as _};

use crate::postgres::{Database, User, users};
use crate::userlist::Userlist;

/// The console's administrator, in every list of users.
pub const ADMIN: (&str, &str) = ("admin", "console secret");
/// A user that may only read the console.
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
    /// Until its transaction ends and nothing of its state is left on the server.
    Auto,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Session => "session",
            Mode::Transaction => "transaction",
            Mode::Statement => "statement",
            Mode::Auto => "auto",
        })
    }
}

/// One Weir's configuration: a pool `app` in front of a database, and the test's changes.
#[derive(Clone, Debug)]
pub struct Setup {
    mode: Mode,
    size: u32,
    workers: u32,
    spread: Option<String>,
    auth: &'static str,
    login: Login,
    secrets: Userlist,
    general: String,
    listen: String,
    auth_lines: String,
    files: Vec<(String, String)>,
    console: Console,
    limits: String,
    pool: String,
    more: String,
    env: Vec<(String, String)>,
}

/// How the tests' own console connects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Console {
    /// By TCP, as [`ADMIN`].
    Tcp,
    /// By the Unix socket, as the owner of the process.
    Socket,
}

/// The user as which the pool logs in to its server.
#[derive(Clone, Debug)]
enum Login {
    As(User),
    EachClientItself,
}

impl Setup {
    /// A pool of 5 in this mode; clients log in with SCRAM, the server is used as `users::APP`. One worker, or as many
    /// as `WEIR_TESTS_WORKERS` gives, so that all suites can run again on several; each pool's clients are on one
    /// worker, or as `WEIR_TESTS_SPREAD` says.
    pub fn new(mode: Mode) -> Self {
        Setup {
            mode,
            size: 5,
            workers: usual_workers(),
            spread: std::env::var("WEIR_TESTS_SPREAD").ok(),
            auth: "scram-sha-256",
            login: Login::As(users::APP),
            secrets: Userlist::all_users(),
            general: String::new(),
            listen: String::new(),
            auth_lines: String::new(),
            files: Vec::new(),
            console: Console::Tcp,
            limits: String::new(),
            pool: String::new(),
            more: String::new(),
            env: Vec::new(),
        }
    }

    /// A pool of this size.
    #[must_use]
    pub fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    /// The pool's size.
    pub fn has_size(&self) -> u32 {
        self.size
    }

    /// This many worker threads.
    #[must_use]
    pub fn workers(mut self, workers: u32) -> Self {
        self.workers = workers;
        self
    }

    /// When a pool's clients are spread over several workers: `busy`, `always`, `never`.
    #[must_use]
    pub fn spread(mut self, word: &str) -> Self {
        self.spread = Some(word.to_owned());
        self
    }

    /// The authentication method for clients: `trust`, `plain`, `md5`, `scram-sha-256`.
    #[must_use]
    pub fn auth(mut self, auth: &'static str) -> Self {
        self.auth = auth;
        self
    }

    /// This user's secret as the userlist stores it, in place of its password.
    #[must_use]
    pub fn secret(mut self, user: &str, secret: &str) -> Self {
        self.secrets.set(user, secret);
        self
    }

    /// This user is on no list.
    #[must_use]
    pub fn without(mut self, user: &str) -> Self {
        self.secrets.remove(user);
        self
    }

    /// The pool logs in to the server as this user.
    #[must_use]
    pub fn server_user(mut self, user: User) -> Self {
        self.login = Login::As(user);
        self
    }

    /// The pool logs in to the server as each client's own user.
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

    /// A line of `[listen]`; `{folder}` is the folder of `weir.toml`.
    #[must_use]
    pub fn listen(mut self, line: &str) -> Self {
        self.listen.push_str(line);
        self.listen.push('\n');
        self
    }

    /// A line of `[auth]`.
    #[must_use]
    pub fn auth_line(mut self, line: &str) -> Self {
        self.auth_lines.push_str(line);
        self.auth_lines.push('\n');
        self
    }

    /// A variable of Weir's environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another file beside `weir.toml`.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// The tests' own console connects by the Unix socket, in the folder of `weir.toml`, as the owner of the process.
    #[must_use]
    pub fn console_by_socket(mut self) -> Self {
        self.console = Console::Socket;
        self.listen("unix_socket_dir = \"{folder}\"")
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

    /// `weir.toml`, with `{port}` for the port to listen on.
    pub fn toml(&self, database: &Database) -> String {
        let mut text = format!(
            "[general]\nworkers = {}\n{}admin_users = [\"{}\"]\nstats_users = [\"{}\"]\n{}\n\
             [listen]\naddress = \"127.0.0.1\"\nport = {{port}}\n{}\n\
             [auth]\ntype = \"{}\"\nfile = \"userlist.txt\"\n{}\n\
             [limits]\n{}\n\
             [pools.app]\nhost = \"127.0.0.1\"\nport = {}\ndatabase = \"{}\"\nmode = \"{}\"\nsize = {}\n",
            self.workers,
            self.spread.iter().map(|word| format!("spread_clients = {}\n", quoted(word))).collect::<String>(),
            ADMIN.0,
            WATCHER.0,
            self.general,
            self.listen,
            self.auth,
            self.auth_lines,
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

    /// Further files, by name.
    pub fn files(&self) -> &[(String, String)] {
        &self.files
    }

    /// Variables of Weir's environment.
    pub fn environment(&self) -> &[(String, String)] {
        &self.env
    }

    /// How the tests' own console connects.
    pub fn console(&self) -> Console {
        self.console
    }

    /// `userlist.txt`.
    pub fn userlist(&self) -> String {
        self.secrets.text()
    }
}

fn usual_workers() -> u32 {
    std::env::var("WEIR_TESTS_WORKERS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
