//! Findings about pools: whether each can log in, and limits without effect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_auth::Method;
use weir_base::{Host, OnDirty, PoolMode, Span, Target};

use super::{Review, plain};
use crate::model::{Limits, PoolConfig, ServerRules};
use crate::names::RESERVED_DATABASES;
use crate::server_password::ServerPassword;

impl Review<'_> {
    pub(super) fn pool_login(&mut self, pool: &PoolConfig) {
        let key = format!("pools.{}", pool.name);
        let title = self.title(pool);
        if let Some(target) = pool.targets.iter().find(|target| self.is_own(target)) {
            let text = format!("{title} has Weir's own address {target} as its server: Weir would wait for itself");
            self.warn(&key, text).help("give the host and the port of PostgreSQL");
        }
        if let Some(name) = pool.auth_database.as_deref().filter(|name| RESERVED_DATABASES.contains(name)) {
            let text = format!("auth_dbname of {title} is {name}, the console, where nobody can be asked about users");
            self.warn(&key, text).help("name a database with servers");
        }
        match (&pool.user, pool.has_password().then_some(())) {
            (None, Some(_)) => {
                let text = format!("the password of {title} has no effect without a user");
                self.warn(&key, text).help("give the user, too, or remove it");
            }
            (Some(user), None) if self.config.server_password(pool) == ServerPassword::None => {
                let text =
                    format!("{title} has no password, so the server must admit user {} without one", plain(user));
                self.warn(&key, text).help("give the password of that user at the server");
            }
            (None, None) if self.config.auth.method == Method::Trust => {
                let text = format!(
                    "{title} has neither user nor password, and type trust learns none: the server must admit \
                     each user without one"
                );
                self.warn(&key, text).help("give the pool a user and a password, or choose a type with passwords");
            }
            _ => {}
        }
    }

    /// Whether this Weir listens there itself, as far as the text tells.
    fn is_own(&self, target: &Target) -> bool {
        let listen = &self.config.listen;
        let own = |address: IpAddr| {
            let is_any =
                |own: &IpAddr| own.is_unspecified() && own.is_ipv4() == address.is_ipv4() && address.is_loopback();
            listen.addresses.iter().any(|own| *own == address || is_any(own))
        };
        target.port == listen.port
            && match &target.host {
                Host::Ip(address) => own(*address),
                Host::Name(name) => {
                    name == "localhost" && (own(Ipv4Addr::LOCALHOST.into()) || own(Ipv6Addr::LOCALHOST.into()))
                }
                Host::SocketDir(folder) => listen.unix_socket_dir.as_ref() == Some(folder),
            }
    }

    pub(super) fn pool_limits(&mut self, pool: &PoolConfig) {
        let (limits, name, title) = (&pool.limits, &pool.name, self.title(pool));
        self.unbounded_size(pool);
        self.auto_without_statements(pool);
        self.no_server_to_share(pool);
        self.guarantee_beyond_size(pool);
        self.nothing_left(pool);
        if limits.size > 0 && limits.min_size > limits.size {
            let (min_size, size) = (self.pool_setting("min_size"), self.pool_setting("size"));
            let text = format!(
                "{min_size} {} of {title} is more than its {size}: at most {} are opened",
                limits.min_size, limits.size
            );
            self.warn(&format!("pools.{name}.min_size"), text).help("lower the one, or raise the other");
        }
        self.kept_beyond_server(pool);
        for (setting, why) in without_effect(pool, limits) {
            let key = format!("pools.{name}.{setting}");
            // A global setting may suit other pools; only a setting of this pool is worth a warning.
            if self.config.locations.line(&key).is_some() {
                let setting = self.pool_setting(setting);
                self.warn(&key, format!("{setting} of {title} has no effect: {why}"));
            }
        }
    }

    /// A pool keeps no more servers open than all pools of its database server may have.
    fn kept_beyond_server(&mut self, pool: &PoolConfig) {
        let server = self.config.server_of(&pool.name);
        let Some((server, rules)) = server.and_then(|name| Some((name, self.config.servers.get(name)?))) else {
            return;
        };
        let (min_size, most) = (pool.limits.min_size, rules.max_connections);
        if most > 0 && min_size > most {
            let (title, setting) = (self.title(pool), self.pool_setting("min_size"));
            let text = format!(
                "{setting} {min_size} of {title} is more than max_connections {most} of server {}: at most {most} are opened",
                plain(server)
            );
            self.warn(&format!("pools.{}.min_size", pool.name), text).help("lower the one, or raise the other");
        }
    }

    /// A client's own statements are on its server where none are shared.
    fn auto_without_statements(&mut self, pool: &PoolConfig) {
        if pool.policy.mode == PoolMode::Auto && pool.limits.max_prepared_statements == 0 {
            let (title, setting) = (self.title(pool), self.pool_setting("max_prepared_statements"));
            let text =
                format!("{title} has mode auto, and {setting} = 0: a client that prepares statements keeps its server");
            self.warn(&format!("pools.{}.max_prepared_statements", pool.name), text)
                .help("leave max_prepared_statements at its default, or use mode session");
        }
    }

    /// Clients of a pool in transaction mode are to listen through one of its servers, which has no other for queries.
    fn no_server_to_share(&mut self, pool: &PoolConfig) {
        let limits = &pool.limits;
        if pool.policy.mode != PoolMode::Transaction || !pool.shares_listening() {
            return;
        }
        let user = pool.user.as_deref().unwrap_or_default();
        let too_small = limits.size > 0 && limits.size <= u32::from(self.config.workers);
        if !too_small && !self.config.is_limited(&pool.name, user) {
            return;
        }
        let (title, setting) = (self.title(pool), self.pool_setting("listen"));
        let why = match too_small {
            true => "its size is not greater than the number of workers",
            false => "its servers are limited together with others'",
        };
        let text =
            format!("{title} has no server to share for LISTEN, which its clients lose ({setting} = shared): {why}");
        self.warn(&format!("pools.{}.listen", pool.name), text)
            .help("raise the size, or give the clients that listen a pool in session mode");
    }

    /// A pool with one user may not open what it is guaranteed.
    fn guarantee_beyond_size(&mut self, pool: &PoolConfig) {
        let (guaranteed, limits) = (u64::from(pool.share.guaranteed), &pool.limits);
        let of_database = (limits.max_db_connections > 0).then_some(u64::from(limits.max_db_connections));
        let of_one = limits.max_servers().filter(|_| pool.user.is_some());
        let Some(most) = of_database.into_iter().chain(of_one).min().filter(|most| *most < guaranteed) else { return };
        if self.config.share(&pool.name).is_some() {
            let title = self.title(pool);
            let text =
                format!("guaranteed_connections {guaranteed} of {title} is more than the {most} that it may open");
            self.warn(&format!("pools.{}.guaranteed_connections", pool.name), text).help("lower it, or raise size");
        }
    }

    /// A pool gets nothing while others keep what they are guaranteed, which is all that there is.
    fn nothing_left(&mut self, pool: &PoolConfig) {
        let Some(name) =
            self.config.share(&pool.name).filter(|share| share.guaranteed == 0).and_then(|s| s.server.as_deref())
        else {
            return;
        };
        let all = |server: &ServerRules| server.guaranteed >= server.max_connections;
        if self.config.servers.get(name).is_some_and(all) {
            let title = self.title(pool);
            let text = format!(
                "{title} gets no server while others keep theirs: all of server {} are guaranteed",
                plain(name)
            );
            self.warn(&format!("pools.{}.server", pool.name), text).help("guarantee it some, too, or others less");
        }
    }

    /// A pool whose size is 0 opens a server for every client that asks for one, which is what a pooler prevents.
    fn unbounded_size(&mut self, pool: &PoolConfig) {
        let of_user = pool.user.as_deref().map_or(0, |user| self.config.user_connections(user));
        let shares = self.config.share(&pool.name).is_some();
        if pool.limits.size > 0 || pool.limits.max_db_connections > 0 || of_user > 0 || shares {
            return;
        }
        let (title, setting) = (self.title(pool), self.pool_setting("size"));
        let text = format!("{title} may open any number of servers: {setting} = 0 is no limit");
        let help = format!("write the number of server connections that it may have, as in {setting} = 20");
        self.warn(&format!("pools.{}.size", pool.name), text).help(help);
    }
}

/// Settings of a pool that have no effect beside its others, with the reason.
fn without_effect(pool: &PoolConfig, limits: &Limits) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let beyond = |time: Span, limit: Span| !limit.is_zero() && time >= limit;
    if limits.reserve_size == 0 {
        found.push(("reserve_timeout", "reserve_size is 0"));
    } else if beyond(limits.reserve_timeout, limits.query_wait_timeout) {
        found.push(("reserve_timeout", "query_wait_timeout is over before it"));
    }
    if beyond(limits.query_wait_notify, limits.query_wait_timeout) {
        found.push(("query_wait_notify", "query_wait_timeout is over before it"));
    }
    if pool.policy.mode == PoolMode::Session {
        found.push(("max_prepared_statements", "in session mode a client's statements are its server's"));
    }
    if pool.policy.mode == PoolMode::Auto {
        if pool.policy.on_dirty == OnDirty::Keep {
            found.push(("on_dirty", "in mode auto no client finds what another has left: a server is reset"));
        }
    } else {
        let why = "only in mode auto a client keeps its server for what it has left";
        found.push(("pin_refuse", why));
        if !pool.shares_listening() {
            found.push(("max_pinned", why));
        }
    }
    if matches!(pool.policy.mode, PoolMode::Session | PoolMode::Statement) {
        found.push(("listen", "in this mode each client listens by its own server"));
    }
    if pool.share.server.is_none() {
        let why = "the pool has no server, whose connections it could share";
        found.extend([("guaranteed_connections", why), ("weight", why)]);
    }
    if pool.policy.mode == PoolMode::Statement {
        found.push(("idle_transaction_timeout", "in statement mode there are no transactions of several statements"));
        found.push(("transaction_timeout", "in statement mode there are no transactions of several statements"));
    }
    found
}
