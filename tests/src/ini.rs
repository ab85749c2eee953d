//! PgBouncer's configuration for a test: a `pgbouncer.ini` with its userlist. Unset keys have PgBouncer's defaults.

use std::fmt::Write as _;

use crate::postgres::{Database, User};
use crate::setup::{ADMIN, Mode, WATCHER};
use crate::userlist::Userlist;

/// A `pgbouncer.ini`: a database `app`, users as on the server, and the test's changes.
#[derive(Clone, Debug)]
pub struct Ini {
    settings: Vec<(String, String)>,
    app: String,
    /// `host=… port=…`, where it is not the database's own server.
    place: Option<String>,
    databases: Vec<(String, String)>,
    users: Vec<(String, String)>,
    sections: String,
    secrets: Userlist,
    files: Vec<(String, String)>,
    mode: Mode,
}

impl Ini {
    /// All defaults: session mode, md5, each client logs in to the server as itself.
    pub fn new() -> Self {
        Ini {
            settings: Vec::new(),
            app: String::new(),
            place: None,
            databases: Vec::new(),
            users: Vec::new(),
            sections: String::new(),
            secrets: Userlist::all_users(),
            files: Vec::new(),
            mode: Mode::Session,
        }
    }

    /// All defaults, but in this mode.
    pub fn of(mode: Mode) -> Self {
        Ini { mode, ..Ini::new() }.set("pool_mode", mode)
    }

    /// Transaction mode with a pool of this size.
    pub fn transaction(size: u32) -> Self {
        Ini::of(Mode::Transaction).set("default_pool_size", size)
    }

    /// A setting of `[pgbouncer]`; the last one of a name counts. `{folder}` stands for the folder of the file.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl ToString) -> Self {
        self.settings.push((key.to_owned(), value.to_string()));
        self
    }

    /// More keys in the connection string of the database `app`.
    #[must_use]
    pub fn app(mut self, words: &str) -> Self {
        self.app.push(' ');
        self.app.push_str(words);
        self
    }

    /// All clients of `app` are this user on the server.
    #[must_use]
    pub fn forced(self, user: User) -> Self {
        let words = format!("user={} password={}", quoted(user.name), quoted(user.password));
        self.app(&words)
    }

    /// The server is reached at this port of loopback.
    #[must_use]
    pub fn through(self, port: u16) -> Self {
        self.at("127.0.0.1", &port.to_string())
    }

    /// The server has this host, or list of hosts, and this port, or list of ports.
    #[must_use]
    pub fn at(mut self, hosts: &str, ports: &str) -> Self {
        self.place = Some(format!("host={hosts} port={ports}"));
        self
    }

    /// Another database. `{dbname}` stands for the keys that lead to the database of `app`.
    #[must_use]
    pub fn database(mut self, name: &str, words: &str) -> Self {
        self.databases.push((name.to_owned(), words.to_owned()));
        self
    }

    /// A line of `[users]`.
    #[must_use]
    pub fn user(mut self, name: &str, rules: &str) -> Self {
        self.users.push((name.to_owned(), rules.to_owned()));
        self
    }

    /// Further sections, as they are.
    #[must_use]
    pub fn sections(mut self, text: &str) -> Self {
        self.sections.push_str(text);
        self.sections.push('\n');
        self
    }

    /// This user's secret as the userlist stores it, in place of its password.
    #[must_use]
    pub fn secret(mut self, user: &str, secret: &str) -> Self {
        self.secrets.set(user, secret);
        self
    }

    /// This user is not in the userlist.
    #[must_use]
    pub fn without(mut self, user: &str) -> Self {
        self.secrets.remove(user);
        self
    }

    /// A file beside the ini.
    #[must_use]
    pub fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// The mode of the ini's pools.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The ini, with `{port}` for the port to listen on, and `{folder}` for its folder.
    pub fn text(&self, database: &Database) -> String {
        let mut text = format!(
            "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {{port}}\nunix_socket_dir = {{folder}}\n\
             auth_file = {{folder}}/userlist.txt\nadmin_users = {}\nstats_users = {}\n",
            ADMIN.0, WATCHER.0
        );
        for (key, value) in &self.settings {
            let _ = writeln!(text, "{key} = {value}");
        }
        let own = format!("host=127.0.0.1 port={}", database.postgres().port());
        let place = format!("{} dbname={}", self.place.as_ref().unwrap_or(&own), database.name());
        let _ = writeln!(text, "\n[databases]\napp = {place}{}", self.app);
        for (name, words) in &self.databases {
            let _ = writeln!(text, "{name} = {}", words.replace("{dbname}", &place));
        }
        text.push_str("\n[users]\n");
        for (name, rules) in &self.users {
            let _ = writeln!(text, "{name} = {rules}");
        }
        text + "\n" + &self.sections
    }

    /// The userlist and the other files beside it.
    pub fn files(&self) -> Vec<(String, String)> {
        [vec![("userlist.txt".to_owned(), self.secrets.text())], self.files.clone()].concat()
    }
}

impl Default for Ini {
    fn default() -> Self {
        Ini::new()
    }
}

/// A value of a connection string.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
