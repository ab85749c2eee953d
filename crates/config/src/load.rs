//! From a file's text to a [`Config`]: reads users and passwords through the given functions, resolves pools, and
//! checks what concerns several settings. The same for every file format.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_auth::Method;
use weir_base::{Host, Target, plural};

use crate::access;
use crate::address::read_host;
use crate::edit::{self, Edits};
use crate::elsewhere::Elsewhere;
use crate::error::{ConfigError, ConfigErrors, Found};
use crate::field::FieldMut;
use crate::ini;
use crate::model::{Config, PoolConfig, PoolShare};
use crate::names::{BLANK_PANEL, FALLBACK, HOST_NAME, RESERVED_DATABASES};
use crate::origin::{ConfigWarning, FileFormat, ReadEnv, ReadFile};
use crate::password_source::{self, TokenService, TokenSource};
use crate::patroni::Patroni;
use crate::pool_text::PoolText;
use crate::settings;
use crate::tls;
use crate::toml::{self, Draft};
use crate::users::Users;
use crate::wording;

/// Reads the settings in the file `path`, and the files that it refers to, through `read` and `env`. A file is
/// PgBouncer's if its name ends in `.ini`, or if it has PgBouncer's sections.
///
/// # Errors
///
/// The mistakes, each with file and line and what to do about it.
pub fn load(path: &Path, read: ReadFile<'_>, env: ReadEnv<'_>) -> Result<Config, ConfigErrors> {
    load_with(path, read, env, &Edits::default())
}

/// Reads as [`load`] does, and applies changes to the content of the file.
///
/// # Errors
///
/// The mistakes, as for [`load`]; one in a change has no line.
pub fn load_with(path: &Path, read: ReadFile<'_>, env: ReadEnv<'_>, edits: &Edits) -> Result<Config, ConfigErrors> {
    match read_with(path, read, env, edits) {
        (config, None) => Ok(config),
        (_, Some(mistakes)) => Err(mistakes),
    }
}

/// Reads as [`load`] does, and returns what could be parsed beside the mistakes: not valid for serving, but `weir
/// check` can look for other mistakes in it.
pub fn load_lenient(path: &Path, read: ReadFile<'_>, env: ReadEnv<'_>) -> (Config, Option<ConfigErrors>) {
    read_with(path, read, env, &Edits::default())
}

fn read_with(path: &Path, read: ReadFile<'_>, env: ReadEnv<'_>, edits: &Edits) -> (Config, Option<ConfigErrors>) {
    let text = match read(path) {
        Ok(text) => text,
        Err(error) => {
            let hint = unreadable(&error, "give the path of a weir.toml or a pgbouncer.ini");
            let error = ConfigError::new(path, None, &format!("can't be read: {error}"), Some(hint.to_owned()));
            return (Config::default(), Some(error.into()));
        }
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut found = Found::default();
    let mut draft = match detect_format(path, text) {
        FileFormat::Toml => {
            let folder = path.parent().unwrap_or(Path::new(""));
            toml::read(path, text, &Elsewhere { folder, read, env }, &mut found)
        }
        FileFormat::Ini => ini::read(path, text, read, &mut found),
    };
    if draft.config.format == FileFormat::Toml && edit::is_blank(text) {
        serve_panel(&mut draft.config);
    }
    edit::lay_over(&mut draft, path, edits, &mut found);
    let config = Loader { path, read, env, found: &mut found }.resolve(draft);
    (config, found.conclude(path))
}

/// A file without settings has the panel, so that a first pool and a first user can be created there.
fn serve_panel(config: &mut Config) {
    config.web.addresses = vec![BLANK_PANEL];
    let text = format!("nothing is set yet: create a pool in the panel, http://{BLANK_PANEL}:{}/", config.web.port);
    config.remarks.push(ConfigWarning { key: "web.address".to_owned(), text });
}

/// Whether the panel is served because nothing is set.
fn is_unset(config: &Config) -> bool {
    !config.web.addresses.is_empty() && !config.locations.contains("web.address")
}

/// What to do about a file that can't be read; `otherwise`: if it is not there.
fn unreadable<'h>(error: &io::Error, otherwise: &'h str) -> &'h str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "the user that Weir runs as must be allowed to read it",
        _ => otherwise,
    }
}

/// The format of a file: from its name, or else from the sections that only PgBouncer has.
fn detect_format(path: &Path, text: &str) -> FileFormat {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("ini") => FileFormat::Ini,
        Some("toml") => FileFormat::Toml,
        _ => {
            let mut lines = text.lines().map(str::trim);
            let ini = lines.any(|line| line.starts_with("[databases]") || line.starts_with("[pgbouncer]"));
            if ini { FileFormat::Ini } else { FileFormat::Toml }
        }
    }
}

struct Loader<'a> {
    path: &'a Path,
    read: ReadFile<'a>,
    env: ReadEnv<'a>,
    found: &'a mut Found,
}

impl Loader<'_> {
    fn resolve(mut self, draft: Draft) -> Config {
        let Draft { mut config, users, secrets, pools } = draft;
        self.name_node(&mut config);
        self.check_listen(&config);
        self.check_auth_database(&config, "auth.query_database", config.auth.query_database.as_deref());
        self.resolve_paths(&mut config);
        self.check_resolv_conf(&mut config);
        let mut users = self.users(&mut config, users);
        secrets.into_iter().for_each(|(name, secret)| users.set(name, secret));
        config.auth.users = Arc::new(users);
        self.check_pools_of_users(&config);
        access::load(&mut config, self.read, self.found);
        for unfit in tls::check(&config) {
            let error = self.error(&config, unfit.key, &unfit.message, unfit.hint);
            self.found.note(error);
        }
        for pool in pools {
            self.note_password(&mut config, &pool);
            let Some(pool) = self.pool(&config, pool) else { continue };
            if pool.name == FALLBACK {
                config.fallback = Some(Arc::new(pool));
            } else {
                config.pools.insert(pool.name.clone(), Arc::new(pool));
            }
        }
        config.sum_guarantees();
        self.check_shares(&config);
        config
    }

    /// What the pools of a database server are guaranteed must fit.
    fn check_shares(&mut self, config: &Config) {
        for pool in config.pools.values().chain(&config.fallback) {
            let name = wording::plain(&pool.name);
            if let Some(server) = pool.share.server.as_deref().filter(|server| !config.servers.contains_key(*server)) {
                let server = wording::plain(server);
                let message =
                    format!("[pools.{name}] shares the connections of server \"{server}\", which is not there");
                let hint = format!("write [servers.{server}], and max_connections below it");
                self.fault(config, &format!("pools.{}.server", pool.name), &message, &hint);
            }
        }
        if let Some(pool) = config.fallback.as_ref().filter(|pool| pool.share.guaranteed > 0) {
            let message = "[pools.\"*\"] has guaranteed_connections, and any number of databases may use it";
            let hint = "guarantee connections to pools with a name; weight may be here";
            self.fault(config, &format!("pools.{}.guaranteed_connections", pool.name), message, hint);
        }
        for (name, server) in
            config.servers.iter().filter(|(_, s)| s.max_connections > 0 && s.guaranteed > s.max_connections)
        {
            let message = format!(
                "the pools of server \"{}\" are guaranteed {} (guaranteed_connections), and max_connections is {}",
                wording::plain(name),
                plural(server.guaranteed.into(), "connection", "connections"),
                server.max_connections
            );
            let hint = "guarantee less, or raise max_connections if the server takes more";
            self.fault(config, &format!("servers.{name}.max_connections"), &message, hint);
        }
    }

    /// A node without a name has that of the machine: in a container, that of the pod.
    fn name_node(&self, config: &mut Config) {
        let cluster = &mut config.cluster;
        if !cluster.etcd.is_empty() && cluster.node.is_empty() {
            cluster.node = (self.env)(HOST_NAME).unwrap_or_default();
        }
    }

    /// Remembers the file that contains a pool's password.
    fn note_password(&self, config: &mut Config, pool: &PoolText) {
        let own = || config.locations.file_and_line(&format!("pools.{}.password", pool.name), self.path).0;
        let file = pool.password_file.as_ref().map(|file| self.beside(Path::new(file)));
        let file = file.or_else(|| pool.password.is_some().then(own));
        if let Some(file) = file.filter(|file| !config.password_files.contains(file)) {
            config.password_files.push(file);
        }
    }

    /// An empty list would be read as "no pool" by one, and as "no list" by another.
    fn check_pools_of_users(&mut self, config: &Config) {
        for (name, rules) in &config.users {
            let key = format!("users.{name}.pools");
            if rules.pools.is_empty() && config.locations.contains(&key) {
                let message = format!("\"pools\" of user \"{}\" names no pool", wording::plain(name));
                let hint = "name the pools, leave the key out for all pools, or set \"disabled\" for none";
                self.fault(config, &key, &message, hint);
            }
        }
    }

    /// The console can't answer an auth_query.
    fn check_auth_database(&mut self, config: &Config, key: &str, name: Option<&str>) {
        let Some(name) = name.filter(|name| RESERVED_DATABASES.contains(name)) else { return };
        let message = format!("cannot use the reserved \"{name}\" database as an auth_dbname");
        self.fault(config, key, &message, "name a database with servers");
    }

    fn check_listen(&mut self, config: &Config) {
        let listen = &config.listen;
        if listen.addresses.is_empty() && listen.unix_socket_dir.is_none() && !self.found.explains("listen") {
            let hint = match config.format {
                FileFormat::Toml => "give an address or a unix_socket_dir in [listen]",
                FileFormat::Ini => "give listen_addr or unix_socket_dir in [pgbouncer]",
            };
            let written =
                ["listen.address", "listen.unix_socket_dir"].into_iter().find(|k| config.locations.line(k).is_some());
            let key = written.unwrap_or("listen.address");
            self.fault(config, key, "there is nothing to listen on", hint);
        }
        let Some(folder) = &listen.unix_socket_dir else { return };
        if folder.to_string_lossy().starts_with('@') {
            let message = "unix_socket_dir names a socket without a file, which is not supported";
            self.fault(config, "listen.unix_socket_dir", message, "name a folder, as in /run/weir");
        }
    }

    /// TOML's paths are relative to its file; PgBouncer's to the working directory, so they stay as they are.
    fn resolve_paths(&self, config: &mut Config) {
        if config.format == FileFormat::Ini {
            return;
        }
        for setting in settings::all() {
            if let Some(FieldMut::Path(Some(path))) = setting.field_mut(config) {
                *path = self.path.parent().map_or_else(|| path.clone(), |folder| folder.join(&path));
            }
        }
    }

    /// Warns of a missing resolv.conf: the file is read at each look-up, and may come later.
    fn check_resolv_conf(&self, config: &mut Config) {
        let Some(path) = &config.dns.resolv_conf else { return };
        if let Err(error) = (self.read)(path) {
            let text = format!(
                "resolv_conf {} can't be read: {error}; the system's resolver looks up all names",
                path.display()
            );
            config.remarks.push(ConfigWarning { key: "dns.resolv_conf".to_owned(), text });
        }
    }

    fn users(&mut self, config: &mut Config, listed: Option<Users>) -> Users {
        match (config.auth.file.clone(), listed) {
            (Some(_), Some(users)) => {
                let message = "users are listed in a file and in [auth.users]";
                self.fault(config, "auth.users", message, "keep one of them");
                users
            }
            (None, Some(users)) => {
                if !users.is_empty() {
                    config.password_files.push(config.locations.file_and_line("auth.users", self.path).0);
                }
                users
            }
            (None, None) if may_do_without_users(config) => Users::default(),
            // It is said that nothing is set.
            (None, None) if is_unset(config) => Users::default(),
            // The panel can create the first one.
            (None, None) if !config.web.addresses.is_empty() => {
                let text = "there are no users yet, so no client can log in: create one in the panel or with the API"
                    .to_owned();
                config.remarks.push(ConfigWarning { key: "auth.users".to_owned(), text });
                Users::default()
            }
            (None, None) => {
                if !self.found.explains("auth") {
                    let hint = "name a file of users as \"file\" in [auth], or list them in [auth.users]";
                    self.fault(config, "auth", "there are no users, so nobody could log in", hint);
                }
                Users::default()
            }
            (Some(file), None) => self.users_of_file(config, &file),
        }
    }

    fn users_of_file(&mut self, config: &mut Config, file: &Path) -> Users {
        match (self.read)(file) {
            Ok(text) => Users::parse(&text).unwrap_or_else(|errors| {
                let hint = "each line reads \"user\" \"secret\", a quote within is written twice".to_owned();
                for error in errors {
                    self.found.note(ConfigError::new(file, Some(error.line), &error.message, Some(hint.clone())));
                }
                Users::default()
            }),
            // PgBouncer starts without users.
            Err(error) if config.format == FileFormat::Ini => {
                let text = format!("could not open auth_file {}: {error}", file.display());
                config.remarks.push(ConfigWarning { key: "auth.file".to_owned(), text });
                Users::default()
            }
            Err(error) => {
                let message = format!("the auth file {} can't be read: {error}", file.display());
                let hint = "create it with lines of \"user\" \"secret\", or change \"file\" in [auth]";
                self.fault(config, "auth.file", &message, unreadable(&error, hint));
                Users::default()
            }
        }
    }

    /// `None` if a part of it is invalid.
    fn pool(&mut self, config: &Config, text: PoolText) -> Option<PoolConfig> {
        let named = self.check_name(config, &text.name);
        let named = self.found.take(named);
        if config.format == FileFormat::Toml {
            // PgBouncer takes such a file, and refuses the logins that would ask there.
            let key = format!("pools.{}.auth_dbname", text.name);
            self.check_auth_database(config, &key, text.auth_database.as_deref());
        }
        self.check_empty_lists(config, &text);
        let targets = self.targets(config, &text);
        let password = self.password(config, &text);
        let password = self.found.take(password);
        let tokens = self.token_source(config, &text);
        let tokens = self.found.take(tokens);
        let patroni = self.patroni(config, &text);
        let patroni = self.found.take(patroni);
        named?;
        let (targets, password, token_source, patroni) = (targets?, password?, tokens?, patroni?);
        let startup = text.startup();
        let own_name = if text.name == FALLBACK { "" } else { &text.name };
        let database = text.database.clone().unwrap_or_else(|| own_name.to_owned());
        Some(PoolConfig {
            name: text.name,
            targets,
            balance: text.balance,
            session_attrs: text.session_attrs,
            patroni: Arc::new(patroni),
            database,
            user: text.user,
            password,
            password_command: Arc::new(text.password_command),
            token_source,
            policy: text.policy,
            connect_query: text.connect_query,
            startup,
            auth_user: text.auth_user,
            auth_query: text.auth_query,
            auth_database: text.auth_database,
            limits: text.limits,
            share: PoolShare {
                server: text.server.filter(|name| !name.is_empty()).map(Arc::from),
                guaranteed: text.guaranteed_connections,
                weight: text.weight,
            },
        })
    }

    /// A list that is there and empty would be read as "none" by one, and as a mistake by another.
    fn check_empty_lists(&mut self, config: &Config, pool: &PoolText) {
        let lists = [
            ("password_source", &pool.password_source, "names no service", password_source::SERVICES),
            ("password_command", &pool.password_command.argv, "names no program", "write [\"PROGRAM\", \"ARGUMENT\"]"),
            ("patroni_api", &pool.patroni.api, "has no address", "write http://HOST:8008 for each host of the pool"),
        ];
        for (name, _, what, hint) in lists.into_iter().filter(|(_, list, _, _)| list.is_empty()) {
            let key = format!("pools.{}.{name}", pool.name);
            if config.locations.contains(&key) && !self.found.explains(&key) {
                let message = format!("\"{name}\" in {} {what}", self.title(config, pool));
                self.fault(config, &key, &message, &format!("{hint}, or leave it out"));
            }
        }
    }

    fn check_name(&self, config: &Config, name: &str) -> Result<(), ConfigError> {
        let key = format!("pools.{name}.name");
        if RESERVED_DATABASES.contains(&name) {
            let (what, own) = match config.format {
                FileFormat::Toml => ("pool", "\"database\""),
                FileFormat::Ini => ("database", "dbname"),
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

    /// The pool's name in messages.
    fn title(&self, config: &Config, pool: &PoolText) -> String {
        match config.format {
            FileFormat::Toml => format!("[pools.{}]", pool.name),
            FileFormat::Ini => format!("database {}", pool.name),
        }
    }

    fn targets(&mut self, config: &Config, pool: &PoolText) -> Option<Vec<Target>> {
        let title = self.title(config, pool);
        let own = config.listen.unix_socket_dir.as_ref().filter(|_| config.format == FileFormat::Ini);
        let hosts = match (pool.hosts.as_slice(), own) {
            ([], Some(folder)) => vec![Some(Host::SocketDir(folder.clone()))],
            ([], None) => {
                if !self.found.explains(&format!("pools.{}", pool.name)) {
                    let hint = "write host = \"127.0.0.1\", or the folder of the server's socket";
                    let key = format!("pools.{}.host", pool.name);
                    self.fault(config, &key, &format!("{title} has no host"), hint);
                }
                return None;
            }
            (hosts, _) => hosts
                .iter()
                .map(|host| {
                    let host = self.host(config, pool, host);
                    self.found.take(host)
                })
                .collect(),
        };
        let ports = match (pool.ports.as_slice(), hosts.len()) {
            ([], count) => vec![5432; count],
            ([port], count) => vec![*port; count],
            (ports, count) if ports.len() == count => ports.to_vec(),
            (ports, count) => {
                let message = format!(
                    "{title} has {} ports for {}",
                    ports.len(),
                    weir_base::plural(count as u64, "host", "hosts")
                );
                let key = format!("pools.{}.port", pool.name);
                self.fault(config, &key, &message, "give one port for all hosts, or one for each");
                return None;
            }
        };
        hosts.into_iter().zip(ports).map(|(host, port)| Some(Target { host: host?, port })).collect()
    }

    fn host(&self, config: &Config, pool: &PoolText, text: &str) -> Result<Host, ConfigError> {
        let key = format!("pools.{}.host", pool.name);
        if text.contains("://") || text.contains('=') || text.contains('@') && !text.starts_with('@') {
            // Not shown in the message: it may contain a password.
            let message = format!("\"host\" in {} is a whole connection string", self.title(config, pool));
            let hint = "write its parts as host, port, database, user and password";
            return Err(self.error(config, &key, &message, hint));
        }
        let hint = match read_host(text) {
            Ok(host) => return Ok(host),
            Err(hint) => hint,
        };
        let message = format!("\"host\" in {} is not a host: \"{}\"", self.title(config, pool), wording::plain(text));
        Err(self.error(config, &key, &message, hint))
    }

    fn patroni(&self, config: &Config, pool: &PoolText) -> Result<Patroni, ConfigError> {
        let (title, key) = (self.title(config, pool), format!("pools.{}.patroni_api", pool.name));
        let mut patroni = pool.patroni.clone();
        let (addresses, hosts) = (patroni.api.len(), pool.hosts.len().max(1));
        if addresses != 0 && addresses != hosts {
            let message = format!(
                "{title} has {} of Patroni for {}",
                weir_base::plural(addresses as u64, "address", "addresses"),
                weir_base::plural(hosts as u64, "host", "hosts")
            );
            return Err(self.error(config, &key, &message, "give one for each host, in the order of the hosts"));
        }
        patroni.ca_file = patroni.ca_file.map(|file| self.beside(&file));
        Ok(patroni)
    }

    fn password(&self, config: &Config, pool: &PoolText) -> Result<Option<Arc<str>>, ConfigError> {
        let title = self.title(config, pool);
        let key = |name: &str| format!("pools.{}.{name}", pool.name);
        let command = Some(&pool.password_command.argv).filter(|argv| !argv.is_empty());
        let service = Some(&pool.password_source).filter(|words| !words.is_empty());
        let given = [pool.password.is_some(), pool.password_file.is_some(), pool.password_env.is_some()];
        if given.into_iter().chain([command.is_some(), service.is_some()]).filter(|given| *given).count() > 1 {
            let message = format!(
                "{title} has more than one of password, password_file, password_env, password_command and \
                 password_source"
            );
            return Err(self.error(config, &format!("pools.{}", pool.name), &message, "keep one of them"));
        }
        match (&pool.password, &pool.password_file, &pool.password_env) {
            (None, None, None) if command.is_some() && pool.user.is_none() => {
                let message = format!("{title} has a password_command and no user");
                let hint = "give the user whose password it prints";
                Err(self.error(config, &key("password_command"), &message, hint))
            }
            (Some(password), ..) => Ok(Some(password.as_str().into())),
            (_, Some(file), _) => {
                let file = self.beside(Path::new(file));
                let text = (self.read)(&file).map_err(|e| {
                    let message = format!("the password file {} of {title} can't be read: {e}", file.display());
                    let hint = unreadable(&e, "create it, or change \"password_file\"");
                    self.error(config, &key("password_file"), &message, hint)
                })?;
                let password = text.strip_suffix('\n').map_or(&*text, |t| t.strip_suffix('\r').unwrap_or(t));
                self.usable(password).map_err(|what| {
                    let message = format!("the password file {} of {title} {what}", file.display());
                    self.error(config, &key("password_file"), &message, "write the password into it, on one line")
                })
            }
            (.., Some(name)) => {
                if !is_variable(name) {
                    // Not shown in the message: it may be a password.
                    let message = format!("\"password_env\" in {title} is not the name of an environment variable");
                    let hint = "name one, of letters, digits and _; a password itself is \"password\"";
                    return Err(self.error(config, &key("password_env"), &message, hint));
                }
                let value = (self.env)(name).ok_or_else(|| {
                    let message = format!("the environment variable {name} of {title} is not set");
                    self.error(config, &key("password_env"), &message, "set it, or change \"password_env\"")
                })?;
                self.usable(&value).map_err(|what| {
                    let message = format!("the environment variable {name} of {title} {what}");
                    self.error(config, &key("password_env"), &message, "let it hold the password, on one line")
                })
            }
            (None, None, None) => Ok(None),
        }
    }

    fn token_source(&self, config: &Config, pool: &PoolText) -> Result<Option<Arc<TokenSource>>, ConfigError> {
        if pool.password_source.is_empty() {
            return Ok(None);
        }
        let (title, key) = (self.title(config, pool), format!("pools.{}.password_source", pool.name));
        let Some(user) = pool.user.clone() else {
            let message = format!("{title} has a password_source and no user");
            return Err(self.error(config, &key, &message, "give the user whose token it is"));
        };
        let mut service = password_source::parse(&pool.password_source).map_err(|(what, hint)| {
            self.error(config, &key, &format!("\"password_source\" in {title} {what}"), hint)
        })?;
        if let TokenService::Vault(vault) = &mut service {
            for file in [&mut vault.ca_file, &mut vault.token_file, &mut vault.jwt_file].into_iter().flatten() {
                *file = self.beside(file);
            }
        }
        if service.is_by_host() && pool.hosts.iter().any(|host| matches!(Host::parse(host), Host::SocketDir(_))) {
            let message = format!("{title} has a password_source for the name of a host, and a folder as host");
            return Err(self.error(config, &key, &message, "give the name that RDS shows as the endpoint"));
        }
        Ok(Some(Arc::new(TokenSource { user, service, words: pool.password_source.clone() })))
    }

    fn usable(&self, password: &str) -> Result<Option<Arc<str>>, &'static str> {
        match password {
            "" => Err("is empty"),
            text if text.contains(['\n', '\0']) => Err("holds more than one line"),
            text => Ok(Some(text.into())),
        }
    }

    /// A path in the file, relative to the file's folder.
    fn beside(&self, path: &Path) -> PathBuf {
        self.path.parent().map_or_else(|| path.to_owned(), |folder| folder.join(path))
    }

    /// Adds a mistake in the setting `key`.
    fn fault(&mut self, config: &Config, key: &str, message: &str, hint: &str) {
        let error = self.error(config, key, message, hint);
        self.found.note(error);
    }

    /// A mistake in the setting `key`; its line is that of the nearest key or section in the file.
    fn error(&self, config: &Config, key: &str, message: &str, hint: &str) -> ConfigError {
        wording::error_at(self.path, config.locations.nearest(key), message, Some(hint.to_owned())).about(key)
    }
}

/// Whether a text may be the name of an environment variable, so that a message may show it.
fn is_variable(name: &str) -> bool {
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    begins && name.len() <= 128 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Whether clients can log in though nobody is listed; a cluster may have the users.
fn may_do_without_users(config: &Config) -> bool {
    config.format == FileFormat::Ini
        || !config.cluster.etcd.is_empty()
        || config.auth.query_user.is_some()
        || matches!(
            config.auth.method,
            Method::Trust | Method::Any | Method::Hba | Method::Ldap | Method::Pam | Method::Oauth
        )
}
