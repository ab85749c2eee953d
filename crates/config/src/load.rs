//! From a file's text to a [`Config`]: fetches users and passwords through the functions it is given, resolves pools,
//! and checks what concerns several settings at once. The same for every face.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_auth::Method;
use weir_base::{Host, Target};

use crate::access;
use crate::edit::{self, Edits};
use crate::error::ConfigError;
use crate::ini;
use crate::model::{Config, Pool};
use crate::origin::{Face, Remark};
use crate::pool_text::PoolText;
use crate::settings;
use crate::slot::Slot;
use crate::tls;
use crate::toml::{self, Draft};
use crate::users::Users;
use crate::wording;

/// Database names that belong to the console.
pub const RESERVED: [&str; 2] = ["weir", "pgbouncer"];

/// The name of the pool that stands for every database without one.
pub(crate) const FALLBACK: &str = "*";

pub(crate) type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;
type ReadEnv<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the settings in the file `path`, and what it refers to, through `read` and `env`. A file whose name ends in
/// `.ini` is PgBouncer's, and so is one that begins like it.
///
/// # Errors
///
/// The first mistake, with file and line and what to do about it.
pub fn load(path: &Path, read: ReadFile<'_>, env: ReadEnv<'_>) -> Result<Config, ConfigError> {
    load_with(path, read, env, &Edits::default())
}

/// The same, with changes laid over what the file says.
///
/// # Errors
///
/// The first mistake, as for [`load`]; one in a change has no line.
pub fn load_with(path: &Path, read: ReadFile<'_>, env: ReadEnv<'_>, edits: &Edits) -> Result<Config, ConfigError> {
    let text = read(path).map_err(|e| {
        let hint = "give the path of a weir.toml or a pgbouncer.ini".to_owned();
        ConfigError::new(path, None, &format!("can't be read: {e}"), Some(hint))
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut draft = match face(path, text) {
        Face::Toml => toml::read(path, text)?,
        Face::Ini => ini::read(path, text, read)?,
    };
    edit::lay_over(&mut draft, path, edits)?;
    Loader { path, read, env }.resolve(draft)
}

/// How a file is written: by its name, or else by the sections that only PgBouncer has.
fn face(path: &Path, text: &str) -> Face {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ini") => Face::Ini,
        Some("toml") => Face::Toml,
        _ => {
            let mut lines = text.lines().map(str::trim);
            let ini = lines.any(|line| line.starts_with("[databases]") || line.starts_with("[pgbouncer]"));
            if ini { Face::Ini } else { Face::Toml }
        }
    }
}

struct Loader<'a> {
    path: &'a Path,
    read: ReadFile<'a>,
    env: ReadEnv<'a>,
}

impl Loader<'_> {
    fn resolve(&self, draft: Draft) -> Result<Config, ConfigError> {
        let Draft { mut config, users, secrets, pools } = draft;
        self.check_listen(&config)?;
        self.check_auth_database(&config, "auth.query_database", config.auth.query_database.as_deref())?;
        self.resolve_paths(&mut config);
        let mut users = self.users(&mut config, users)?;
        secrets.into_iter().for_each(|(name, secret)| users.set(name, secret));
        config.auth.users = Arc::new(users);
        access::load(&mut config, self.read)?;
        tls::check(&config).map_err(|unfit| self.error(&config, unfit.key, &unfit.message, unfit.hint))?;
        for pool in pools {
            let pool = self.pool(&config, pool)?;
            if pool.name == FALLBACK {
                config.fallback = Some(Arc::new(pool));
            } else {
                config.pools.insert(pool.name.clone(), Arc::new(pool));
            }
        }
        Ok(config)
    }

    /// Users can't be asked for at the console.
    fn check_auth_database(&self, config: &Config, key: &str, name: Option<&str>) -> Result<(), ConfigError> {
        let Some(name) = name.filter(|name| RESERVED.contains(name)) else { return Ok(()) };
        let message = format!("cannot use the reserved \"{name}\" database as an auth_dbname");
        Err(self.error(config, key, &message, "name a database with servers"))
    }

    fn check_listen(&self, config: &Config) -> Result<(), ConfigError> {
        let listen = &config.listen;
        if listen.addresses.is_empty() && listen.unix_socket_dir.is_none() {
            let hint = match config.face {
                Face::Toml => "give an address or a unix_socket_dir in [listen]",
                Face::Ini => "give listen_addr or unix_socket_dir in [pgbouncer]",
            };
            let written =
                ["listen.address", "listen.unix_socket_dir"].into_iter().find(|k| config.lines.of(k).is_some());
            let key = written.unwrap_or("listen.address");
            return Err(self.error(config, key, "there is nothing to listen on", hint));
        }
        let Some(folder) = &listen.unix_socket_dir else { return Ok(()) };
        if folder.to_string_lossy().starts_with('@') {
            let message = "unix_socket_dir names a socket without a file, which is not supported";
            return Err(self.error(config, "listen.unix_socket_dir", message, "name a folder, as in /run/weir"));
        }
        Ok(())
    }

    /// TOML's paths are relative to its file; PgBouncer's to the working directory, as they are for whoever opens them.
    fn resolve_paths(&self, config: &mut Config) {
        if config.face == Face::Ini {
            return;
        }
        for setting in settings::all() {
            if let Some(Slot::Path(Some(path))) = setting.slot(config) {
                *path = self.path.parent().map_or_else(|| path.clone(), |folder| folder.join(&path));
            }
        }
    }

    fn users(&self, config: &mut Config, listed: Option<Users>) -> Result<Users, ConfigError> {
        match (config.auth.file.clone(), listed) {
            (Some(_), Some(_)) => {
                let hint = "keep one of them";
                Err(self.error(config, "auth.users", "users are listed in a file and in [auth.users]", hint))
            }
            (None, Some(users)) => Ok(users),
            (None, None) if config.face == Face::Ini || may_do_without_users(config) => Ok(Users::default()),
            (None, None) => {
                let hint = "name a file of users as \"file\" in [auth], or list them in [auth.users]";
                Err(self.error(config, "auth", "there are no users, so nobody could log in", hint))
            }
            (Some(file), None) => self.users_of_file(config, &file),
        }
    }

    fn users_of_file(&self, config: &mut Config, file: &Path) -> Result<Users, ConfigError> {
        match (self.read)(file) {
            Ok(text) => Users::parse(&text).map_err(|e| {
                let hint = "each line reads \"user\" \"secret\", a quote within is written twice".to_owned();
                ConfigError::new(file, Some(e.line), &e.message, Some(hint))
            }),
            // PgBouncer goes on without users.
            Err(error) if config.face == Face::Ini => {
                let text = format!("could not open auth_file {}: {error}", file.display());
                config.remarks.push(Remark { key: "auth.file".to_owned(), text });
                Ok(Users::default())
            }
            Err(error) => {
                let message = format!("the auth file {} can't be read: {error}", file.display());
                let hint = "create it with lines of \"user\" \"secret\", or change \"file\" in [auth]";
                Err(self.error(config, "auth.file", &message, hint))
            }
        }
    }

    fn pool(&self, config: &Config, text: PoolText) -> Result<Pool, ConfigError> {
        self.check_name(config, &text.name)?;
        let key = format!("pools.{}.auth_dbname", text.name);
        self.check_auth_database(config, &key, text.auth_database.as_deref())?;
        let targets = self.targets(config, &text)?;
        let password = self.password(config, &text)?;
        let startup = text.startup();
        let own_name = if text.name == FALLBACK { "" } else { &text.name };
        let database = text.database.clone().unwrap_or_else(|| own_name.to_owned());
        Ok(Pool {
            name: text.name,
            targets,
            balance: text.balance,
            session_attrs: text.session_attrs,
            database,
            user: text.user,
            password,
            mode: text.mode,
            on_dirty: text.on_dirty,
            warn_on_dirty: text.warn_on_dirty,
            reset_query: text.reset_query,
            reset_always: text.reset_always,
            check_query: text.check_query,
            connect_query: text.connect_query,
            startup,
            auth_user: text.auth_user,
            auth_query: text.auth_query,
            auth_database: text.auth_database,
            limits: text.limits,
        })
    }

    fn check_name(&self, config: &Config, name: &str) -> Result<(), ConfigError> {
        let key = format!("pools.{name}.name");
        if RESERVED.contains(&name) {
            let (what, own) = match config.face {
                Face::Toml => ("pool", "\"database\""),
                Face::Ini => ("database", "dbname"),
            };
            let message = format!("the {what} name \"{name}\" is reserved for the console");
            let hint = format!("choose another name; {own} may still be this one");
            return Err(self.error(config, &key, &message, &hint));
        }
        if name.is_empty() || name.chars().any(char::is_control) {
            let message = format!("\"{}\" can't be the name of a pool", name.escape_debug());
            return Err(self.error(config, &key, &message, "use letters, digits, _ and -"));
        }
        Ok(())
    }

    /// The pool as messages name it.
    fn title(&self, config: &Config, pool: &PoolText) -> String {
        match config.face {
            Face::Toml => format!("[pools.{}]", pool.name),
            Face::Ini => format!("database {}", pool.name),
        }
    }

    fn targets(&self, config: &Config, pool: &PoolText) -> Result<Vec<Target>, ConfigError> {
        let title = self.title(config, pool);
        let own = config.listen.unix_socket_dir.as_ref().filter(|_| config.face == Face::Ini);
        let hosts = match (pool.hosts.as_slice(), own) {
            ([], Some(folder)) => vec![Host::SocketDir(folder.clone())],
            ([], None) => {
                let hint = "write host = \"127.0.0.1\", or the folder of the server's socket";
                let key = format!("pools.{}.host", pool.name);
                return Err(self.error(config, &key, &format!("{title} has no host"), hint));
            }
            (hosts, _) => hosts.iter().map(|host| self.host(config, pool, host)).collect::<Result<Vec<_>, _>>()?,
        };
        let ports = match (pool.ports.as_slice(), hosts.len()) {
            ([], count) => vec![5432; count],
            ([port], count) => vec![*port; count],
            (ports, count) if ports.len() == count => ports.to_vec(),
            (ports, count) => {
                let message = format!("{title} has {} ports for {count} hosts", ports.len());
                let key = format!("pools.{}.port", pool.name);
                return Err(self.error(config, &key, &message, "give one port for all hosts, or one for each"));
            }
        };
        Ok(hosts.into_iter().zip(ports).map(|(host, port)| Target { host, port }).collect())
    }

    fn host(&self, config: &Config, pool: &PoolText, text: &str) -> Result<Host, ConfigError> {
        let host = Host::parse(text.trim());
        let hint = match &host {
            Host::Name(name) if name.starts_with('@') => "sockets without a file are not supported; name a folder",
            Host::Name(name) if name.contains(':') || name.starts_with('[') => {
                "write the address without brackets, and the port as \"port\""
            }
            Host::Name(name) if !name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) => {
                "give an address, a name, or the folder of the server's socket"
            }
            _ => return Ok(host),
        };
        let message = format!("\"host\" in {} is no host: \"{}\"", self.title(config, pool), wording::plain(text));
        Err(self.error(config, &format!("pools.{}.host", pool.name), &message, hint))
    }

    fn password(&self, config: &Config, pool: &PoolText) -> Result<Option<Arc<str>>, ConfigError> {
        let title = self.title(config, pool);
        let key = |name: &str| format!("pools.{}.{name}", pool.name);
        match (&pool.password, &pool.password_file, &pool.password_env) {
            (None, None, None) => Ok(None),
            (Some(password), None, None) => Ok(Some(password.as_str().into())),
            (None, Some(file), None) => {
                let file = self.beside(Path::new(file));
                let text = (self.read)(&file).map_err(|e| {
                    let message = format!("the password file {} of {title} can't be read: {e}", file.display());
                    self.error(config, &key("password_file"), &message, "create it, or change \"password_file\"")
                })?;
                let password = text.strip_suffix('\n').map_or(&*text, |t| t.strip_suffix('\r').unwrap_or(t));
                self.usable(password).map_err(|what| {
                    let message = format!("the password file {} of {title} {what}", file.display());
                    self.error(config, &key("password_file"), &message, "write the password into it, on one line")
                })
            }
            (None, None, Some(name)) => {
                // The name is not repeated: it may be a password in the wrong place.
                let value = (self.env)(name).ok_or_else(|| {
                    let message = format!("the environment variable that {title} names is not set");
                    self.error(config, &key("password_env"), &message, "set it, or change \"password_env\"")
                })?;
                self.usable(&value).map_err(|what| {
                    let message = format!("the environment variable that {title} names {what}");
                    self.error(config, &key("password_env"), &message, "let it hold the password, on one line")
                })
            }
            _ => {
                let message = format!("{title} has more than one of password, password_file and password_env");
                Err(self.error(config, &format!("pools.{}", pool.name), &message, "keep one of them"))
            }
        }
    }

    fn usable(&self, password: &str) -> Result<Option<Arc<str>>, &'static str> {
        match password {
            "" => Err("is empty"),
            text if text.contains(['\n', '\0']) => Err("holds more than one line"),
            text => Ok(Some(text.into())),
        }
    }

    /// A path of the file, which is relative to the file's folder.
    fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    /// A mistake in the setting `key`; its place is that of the nearest thing written.
    fn error(&self, config: &Config, key: &str, message: &str, hint: &str) -> ConfigError {
        wording::error_at(self.path, config.lines.near(key), message, Some(hint.to_owned())).about(key)
    }
}

/// Whether clients can come in though nobody is listed.
fn may_do_without_users(config: &Config) -> bool {
    config.auth.query_user.is_some() || matches!(config.auth.method, Method::Trust | Method::Any | Method::Hba)
}
