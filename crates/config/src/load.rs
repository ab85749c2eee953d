//! From a file's text to a [`Config`]: fetches users and passwords through the functions it is given, resolves pools,
//! and checks what concerns several settings at once. The same for every face.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_base::{Host, Target};

use crate::error::ConfigError;
use crate::model::{Config, Pool};
use crate::table::PoolText;
use crate::toml::{self, Draft};
use crate::users::Users;

/// Database names that belong to the console.
pub const RESERVED: [&str; 2] = ["weir", "pgbouncer"];

type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<String>;
type ReadEnv<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Reads the settings in the file `path`, and what it refers to, through `read` and `env`.
///
/// # Errors
///
/// The first mistake, with file and line and what to do about it.
pub fn load(path: &Path, read: ReadFile<'_>, env: ReadEnv<'_>) -> Result<Config, ConfigError> {
    let text = read(path).map_err(|e| {
        ConfigError::new(path, None, &format!("can't be read: {e}"), Some("give the path of a weir.toml".into()))
    })?;
    if path.extension().is_some_and(|extension| extension == "ini") {
        let hint = "write the settings as a weir.toml".to_owned();
        return Err(ConfigError::new(path, None, "is an ini file, and only TOML is understood", Some(hint)));
    }
    let draft = toml::read(path, text.strip_prefix('\u{feff}').unwrap_or(&text))?;
    Loader { path, read, env }.resolve(draft)
}

struct Loader<'a> {
    path: &'a Path,
    read: ReadFile<'a>,
    env: ReadEnv<'a>,
}

impl Loader<'_> {
    fn resolve(&self, draft: Draft) -> Result<Config, ConfigError> {
        let Draft { mut config, users, pools } = draft;
        if config.listen.addresses.is_empty() && config.listen.unix_socket_dir.is_none() {
            let hint = "give an address or a unix_socket_dir in [listen]";
            return Err(self.error(&config, "listen.address", "there is nothing to listen on", hint));
        }
        if config.listen.unix_socket_dir.as_ref().is_some_and(|folder| !folder.is_absolute()) {
            let hint = "write the whole path, as in \"/run/weir\"";
            return Err(self.error(&config, "listen.unix_socket_dir", "unix_socket_dir is no whole path", hint));
        }
        config.auth.users = Arc::new(self.users(&mut config, users)?);
        for pool in pools {
            let pool = self.pool(&config, pool)?;
            config.pools.insert(pool.name.clone(), Arc::new(pool));
        }
        Ok(config)
    }

    fn users(&self, config: &mut Config, listed: Option<Users>) -> Result<Users, ConfigError> {
        match (config.auth.file.take(), listed) {
            (Some(_), Some(_)) => {
                let hint = "keep one of them";
                Err(self.error(config, "auth.users", "users are listed in a file and in [auth.users]", hint))
            }
            (None, Some(users)) => Ok(users),
            (None, None) if config.auth.method == crate::Method::Trust => Ok(Users::default()),
            (None, None) => {
                let hint = "name a file of users as \"file\" in [auth], or list them in [auth.users]";
                Err(self.error(config, "auth", "there are no users, so nobody could log in", hint))
            }
            (Some(file), None) => {
                let file = self.beside(&file);
                let text = (self.read)(&file).map_err(|e| {
                    let message = format!("the auth file {} can't be read: {e}", file.display());
                    let hint = "create it with lines of \"user\" \"secret\", or change \"file\" in [auth]";
                    self.error(config, "auth.file", &message, hint)
                })?;
                let users = Users::parse(&text).map_err(|e| {
                    let hint = "each line reads \"user\" \"secret\", a quote within is written twice".to_owned();
                    ConfigError::new(&file, Some(e.line), &e.message, Some(hint))
                })?;
                config.auth.file = Some(file);
                Ok(users)
            }
        }
    }

    fn pool(&self, config: &Config, text: PoolText) -> Result<Pool, ConfigError> {
        self.check_name(config, &text.name)?;
        let host = self.host(config, &text)?;
        let password = self.password(config, &text)?;
        let PoolText { name, port, database, user, mode, on_dirty, limits, .. } = text;
        let database = database.unwrap_or_else(|| name.clone());
        Ok(Pool { name, target: Target { host, port }, database, user, password, mode, on_dirty, limits })
    }

    fn check_name(&self, config: &Config, name: &str) -> Result<(), ConfigError> {
        let key = format!("pools.{name}");
        if RESERVED.contains(&name) {
            let message = format!("the pool name \"{name}\" is reserved for the console");
            return Err(self.error(config, &key, &message, "choose another name; \"database\" may still be this one"));
        }
        if name == "*" {
            let hint = "write a [pools.NAME] for each database";
            return Err(self.error(config, &key, "a pool can't be named \"*\"", hint));
        }
        if name.is_empty() || name.chars().any(char::is_control) {
            let message = format!("\"{}\" can't be the name of a pool", name.escape_debug());
            return Err(self.error(config, &key, &message, "use letters, digits, _ and -"));
        }
        Ok(())
    }

    fn host(&self, config: &Config, pool: &PoolText) -> Result<Host, ConfigError> {
        let title = format!("[pools.{}]", pool.name);
        let Some(text) = &pool.host else {
            let hint = "write host = \"127.0.0.1\", or the folder of the server's socket";
            return Err(self.error(config, &format!("pools.{}", pool.name), &format!("{title} has no host"), hint));
        };
        let host = Host::parse(text);
        let hint = match &host {
            Host::Name(name) if name.contains(',') => "name one host; a list is not supported",
            Host::Name(name) if name.contains(':') || name.starts_with('[') => {
                "write the address without brackets, and the port as \"port\""
            }
            Host::Name(name) if !name.chars().all(|c| c.is_alphanumeric() || "._-".contains(c)) => {
                "give an address, a name, or the folder of the server's socket"
            }
            _ => return Ok(host),
        };
        let message = format!("\"host\" in {title} is no host: \"{}\"", text.escape_debug());
        Err(self.error(config, &format!("pools.{}.host", pool.name), &message, hint))
    }

    fn password(&self, config: &Config, pool: &PoolText) -> Result<Option<Arc<str>>, ConfigError> {
        let title = format!("[pools.{}]", pool.name);
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

    /// A mistake in the setting `key`; its line is that of the nearest thing written.
    fn error(&self, config: &Config, key: &str, message: &str, hint: &str) -> ConfigError {
        let section = key.rsplit_once('.').map_or("", |(section, _)| section);
        let line = config.lines.of(key).or_else(|| config.lines.of(section));
        ConfigError::new(self.path, line, message, Some(hint.to_owned()))
    }
}
