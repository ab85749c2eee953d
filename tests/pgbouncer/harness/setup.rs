//! The files of one case: a `pgbouncer.ini`, its userlist, and the files that it refers to.
//!
//! Texts contain names in braces for values that are known later: `{port}` of the pooler, `{server}` for PostgreSQL's
//! port, `{db}` for the database there, `{dir}` for the folder of the files, `{socket}` for the folder of PostgreSQL's
//! socket.

use weir_tests::{ADMIN, User, WATCHER, users};

/// The files, before names in braces are filled in.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    databases: Vec<(String, String)>,
    settings: Vec<(String, String)>,
    secrets: Vec<(String, String)>,
    tail: String,
    files: Vec<(String, String)>,
    /// PgBouncer's command line, before the file name.
    pub(crate) flags: Vec<String>,
}

impl Setup {
    /// A database `app` in session mode; clients log in with md5, from a list with cleartext passwords.
    pub(crate) fn new() -> Self {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let secrets = users::ALL.iter().map(|user| pair(user.name, user.password));
        let settings = [
            ("logfile", "{dir}/pgbouncer.log"),
            ("pidfile", "{dir}/pgbouncer.pid"),
            ("listen_addr", "127.0.0.1"),
            ("listen_port", "{port}"),
            ("unix_socket_dir", "{dir}"),
            ("auth_type", "md5"),
            ("auth_file", "{dir}/userlist.txt"),
            ("admin_users", ADMIN.0),
            ("stats_users", WATCHER.0),
        ];
        Setup {
            databases: vec![pair("app", "host=127.0.0.1 port={server} dbname={db}")],
            settings: settings.iter().map(|(name, value)| pair(name, value)).collect(),
            secrets: secrets.chain([ADMIN, WATCHER].map(|(name, secret)| pair(name, secret))).collect(),
            tail: String::new(),
            files: Vec::new(),
            flags: Vec::new(),
        }
    }

    /// With this setting of `[pgbouncer]`.
    pub(crate) fn set(mut self, name: &str, value: &str) -> Self {
        self.settings.retain(|(known, _)| known != name);
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Without this setting.
    pub(crate) fn unset(mut self, name: &str) -> Self {
        self.settings.retain(|(known, _)| known != name);
        self
    }

    /// In this pool mode.
    pub(crate) fn mode(self, mode: &str) -> Self {
        self.set("pool_mode", mode)
    }

    /// With this database; `extra` follows host, port and dbname.
    pub(crate) fn database(self, name: &str, extra: &str) -> Self {
        self.line(name, &format!("host=127.0.0.1 port={{server}} dbname={{db}} {extra}"))
    }

    /// With this line of `[databases]`, or without it.
    pub(crate) fn line(mut self, name: &str, connection: &str) -> Self {
        self.databases.retain(|(known, _)| known != name);
        self.databases.push((name.to_owned(), connection.to_owned()));
        self
    }

    /// With this secret for a user in the list.
    pub(crate) fn secret(mut self, name: &str, secret: &str) -> Self {
        self.secrets.retain(|(known, _)| known != name);
        self.secrets.push((name.to_owned(), secret.to_owned()));
        self
    }

    /// Without this user in the list.
    pub(crate) fn without(mut self, user: User) -> Self {
        self.secrets.retain(|(known, _)| known != user.name);
        self
    }

    /// With this text at the end of the ini.
    pub(crate) fn tail(mut self, text: &str) -> Self {
        self.tail.push_str(text);
        self
    }

    /// With a file beside the ini.
    pub(crate) fn file(mut self, name: &str, text: &str) -> Self {
        self.files.push((name.to_owned(), text.to_owned()));
        self
    }

    /// With this flag before the file.
    pub(crate) fn flag(mut self, flag: &str) -> Self {
        self.flags.push(flag.to_owned());
        self
    }

    /// The ini.
    pub(crate) fn ini(&self) -> String {
        let lines = |pairs: &[(String, String)]| -> String {
            pairs.iter().map(|(name, value)| format!("{name} = {value}\n")).collect()
        };
        let (databases, settings) = (lines(&self.databases), lines(&self.settings));
        format!("[databases]\n{databases}\n[pgbouncer]\n{settings}\n{}", self.tail)
    }

    /// All files and their texts.
    pub(crate) fn files(&self) -> Vec<(String, String)> {
        let quoted = |text: &str| text.replace('"', "\"\"");
        let userlist = self.secrets.iter();
        let userlist = userlist.map(|(name, secret)| format!("\"{}\" \"{}\"\n", quoted(name), quoted(secret)));
        let ours = [("pgbouncer.ini".to_owned(), self.ini()), ("userlist.txt".to_owned(), userlist.collect())];
        ours.into_iter().chain(self.files.clone()).collect()
    }
}
