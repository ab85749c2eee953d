//! Notes on what was understood, so that a person can compare it with the intention.

use weir_base::{Target, plural};

use super::Review;
use crate::model::{PoolConfig, SslMode};

impl Review<'_> {
    pub(super) fn understood(&mut self) {
        self.doors();
        self.clients();
        for pool in self.config.pools.values().chain(&self.config.fallback) {
            self.pool(pool);
        }
    }

    fn doors(&mut self) {
        let listen = &self.config.listen;
        for address in &listen.addresses {
            let at = std::net::SocketAddr::new(*address, listen.port);
            self.note("listen.address", format!("listens on {at}"));
        }
        if let Some(folder) = &listen.unix_socket_dir {
            let socket = folder.join(format!(".s.PGSQL.{}", listen.port));
            self.note("listen.unix_socket_dir", format!("listens on {}", socket.display()));
        }
        let web = &self.config.web;
        if let Some(address) = web.addresses.first().filter(|_| web.accounts.is_empty()) {
            let at = std::net::SocketAddr::new(*address, web.port);
            let text = format!(
                "API and panel on http://{at}: every user of this machine may change pools, until one is in [web.users]"
            );
            self.note("web.address", text);
        }
        let networks: Vec<_> = listen.proxy_from.iter().map(ToString::to_string).collect();
        if !networks.is_empty() {
            let text = format!("expects PROXY headers from {}", networks.join(", "));
            self.note("listen.proxy_from", text);
        }
        let tls = &self.config.tls;
        let count = |suites: usize| plural(suites as u64, "cipher suite", "cipher suites");
        if tls.client.mode != SslMode::Disable {
            let suites = count(tls.client.suites().0.len());
            self.note("tls.client.mode", format!("clients: TLS {}, {suites}", tls.client.mode));
        }
        if !matches!(tls.server.mode, SslMode::Disable | SslMode::Prefer) {
            let suites = count(tls.server.suites().0.len());
            self.note("tls.server.mode", format!("servers: TLS {}, {suites}", tls.server.mode));
        }
    }

    fn clients(&mut self) {
        let config = self.config;
        let auth = &config.auth;
        let from = auth.file.as_ref().map(|file| format!(" from {}", file.display())).unwrap_or_default();
        let users = plural(auth.users.len() as u64, "user", "users");
        self.note("auth.type", format!("{users}{from}, login by {}", auth.method));
        if let (Some(hba), Some(file)) = (&auth.hba, &auth.hba_file) {
            let rules = plural(hba.rules().len() as u64, "rule", "rules");
            self.note("auth.hba_file", format!("{rules} of who may come in from {}", file.display()));
        }
        if let Some(user) = &auth.query_user {
            let place =
                auth.query_database.as_ref().map_or("the client's database".to_owned(), |d| format!("database {d}"));
            self.note("auth.query_user", format!("users who are not listed are asked for in {place}, as user {user}"));
        }
        let limits = [
            ("servers of a user", config.max_user_connections, "general.max_user_connections"),
            ("clients of a user", config.max_user_client_connections, "general.max_user_client_connections"),
            ("clients of an address", config.max_address_connections, "general.max_address_connections"),
        ];
        for (what, most, key) in limits.into_iter().filter(|(_, most, _)| *most > 0) {
            self.note(key, format!("at most {most} {what}"));
        }
        if !config.users.is_empty() {
            let names: Vec<_> = config.users.keys().map(|name| super::plain(name)).collect();
            let count = plural(names.len() as u64, "user", "users");
            let listed = names.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
            let more = if names.len() > 5 { " …" } else { "" };
            self.note("users", format!("{count} with rules of their own: {listed}{more}"));
        }
    }

    fn pool(&mut self, pool: &PoolConfig) {
        let user = pool.user.as_ref().map_or("each client's own user".to_owned(), |user| format!("user {user}"));
        let each = if pool.user.is_some() { "at most" } else { "for each user at most" };
        let servers = match pool.limits.size {
            0 => "any number of servers".to_owned(),
            size => format!("{each} {}", plural(u64::from(size), "server", "servers")),
        };
        let own = pool.database.is_empty();
        let database =
            if own { "the database that the client names".into() } else { format!("database {}", pool.database) };
        let what = if own || pool.name == "*" { "any other pool".to_owned() } else { format!("pool {}", pool.name) };
        let places = pool.targets.iter().map(Target::to_string).collect::<Vec<_>>().join(",");
        let text = format!("{what}: {database} at {places} as {user}, {} mode, {servers}", pool.policy.mode);
        self.note(&format!("pools.{}", pool.name), text);
    }
}
