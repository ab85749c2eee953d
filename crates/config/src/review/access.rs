//! Findings about logins: users and their secrets, rules, auth_query, TLS.

use std::net::{IpAddr, SocketAddr};

use weir_auth::{Method, Secret};
use weir_base::plural;

use super::{Review, plain};
use crate::accounts::web_listen_error;
use crate::model::{Config, SslMode, TlsSide};
use crate::table::Section;

impl Review<'_> {
    pub(super) fn entry(&mut self) {
        self.open_doors();
        self.open_panel();
        self.services();
        self.files_of_rules();
        self.forced_users();
        self.users();
        self.rules_of_users();
    }

    fn open_doors(&mut self) {
        let config = self.config;
        let Some(address) = config.listen.addresses.iter().find(|address| !address.is_loopback()) else { return };
        let method = config.auth.method;
        let encrypted = config.tls.client.mode >= SslMode::Require;
        let text = match method {
            Method::Trust => {
                format!("type trust on {address}: every client that reaches it may log in as any listed user")
            }
            Method::Any => format!("type any on {address}: every client that reaches it may log in"),
            Method::Plain | Method::Ldap | Method::Pam if !encrypted => {
                format!("type {method} on {address}: passwords cross the network as they are")
            }
            Method::Oauth if config.tls.client.mode == SslMode::Disable => {
                format!("type oauth on {address}: tokens are accepted over TLS only, and no client can use it")
            }
            _ => return,
        };
        let help = match method {
            Method::Trust | Method::Any => {
                "choose a type with passwords, as scram-sha-256, or listen on 127.0.0.1 only"
            }
            Method::Oauth => "give [tls.client] a mode and a certificate, or listen on 127.0.0.1 only",
            _ => "require TLS of clients, or listen on 127.0.0.1 only",
        };
        self.warn("auth.type", text).help(help);
    }

    /// A control plane that other machines reach requires TLS and accounts.
    fn open_panel(&mut self) {
        let web = &self.config.web;
        let overlap = |one: &IpAddr, other: &IpAddr| {
            one == other || (one.is_ipv4() == other.is_ipv4() && (one.is_unspecified() || other.is_unspecified()))
        };
        let is_taken = |address: &&IpAddr| self.config.listen.addresses.iter().any(|other| overlap(address, other));
        if let Some(address) = web.addresses.iter().find(is_taken).filter(|_| web.port == self.config.listen.port) {
            let address = SocketAddr::new(*address, web.port);
            let text = format!("{address} is an address of [listen], too: one of them can't be opened");
            self.fail("web.port", text).help("set another port under [web]");
        }
        let addresses = web.addresses.iter().copied();
        if let Some(text) = web_listen_error(addresses, web.tls_cert_file.is_some(), !web.accounts.is_empty()) {
            self.fail("web.address", text);
        }
        for (key, text, help) in web.accounts.oidc.mistakes() {
            self.fail(&format!("web.oidc.{key}"), text).help(help);
        }
    }

    /// What is sent elsewhere needs an address there, and for alerts and telemetry the API's thread.
    fn services(&mut self) {
        let config = self.config;
        for (key, text, help) in config.telemetry.mistakes() {
            self.fail(&format!("{}.{key}", Section::Telemetry.name()), text).help(help);
        }
        if !config.web.addresses.is_empty() {
            return;
        }
        let collector = config.telemetry.endpoint.is_some().then_some((Section::Telemetry, "otlp_endpoint"));
        let target = config.alerts.targets().next().map(|(name, _)| (Section::Alerts, name));
        for (section, name) in [collector, target].into_iter().flatten() {
            let text = format!("{} has no effect without the API", self.name(section, name));
            let help = self.term("set address in [web], as in \"127.0.0.1\"", "set web_address, as in 127.0.0.1");
            self.warn(&format!("{}.{name}", section.name()), text).help(help);
        }
    }

    fn files_of_rules(&mut self) {
        let auth = &self.config.auth;
        if auth.method == Method::Hba {
            return;
        }
        for (name, file) in [("hba_file", &auth.hba_file), ("ident_file", &auth.ident_file)] {
            let of_oauth = name == "ident_file" && auth.method == Method::Oauth;
            if file.is_some() && !of_oauth {
                let shown = self.name(Section::Auth, name);
                let text = format!("{shown} has no effect: type is {}, not hba", auth.method);
                self.warn(&format!("auth.{name}"), text).help("set type to hba, or remove it");
            }
        }
    }

    /// With type `any` the client's own user name is not used.
    fn forced_users(&mut self) {
        if self.config.auth.method != Method::Any {
            return;
        }
        for pool in self.config.pools.values().chain(&self.config.fallback).filter(|pool| pool.user.is_none()) {
            let text = format!("{} has no user, which type any needs: nobody can log in there", self.title(pool));
            self.warn(&format!("pools.{}", pool.name), text).help("give it a user and a password");
        }
    }

    fn users(&mut self) {
        let config = self.config;
        let users = &config.auth.users;
        let asked = config.auth.query_user.is_some() || config.pools.values().any(|pool| pool.auth_user.is_some());
        let elsewhere = matches!(config.auth.method, Method::Any | Method::Ldap | Method::Pam | Method::Oauth);
        let is_said = self.has_remark("auth.users") || self.has_remark("web.address");
        if users.is_empty() && !asked && !elsewhere && !is_said {
            // PgBouncer serves such a file too: a package's own, before anybody has filled it in.
            let text = "no users are listed, so nobody can log in, but for the console over the Unix socket; that \
                        holds for trust too";
            let help = self.term(
                "name a file of users as \"file\" in [auth], or list them in [auth.users]",
                "name a file with lines of \"user\" \"secret\" as auth_file",
            );
            self.warn("auth", text.to_owned()).help(help);
        }
        for (name, line) in users.repeated() {
            let text =
                format!("user {} is listed again in line {line} of the users, and the last entry counts", plain(name));
            self.warn("auth.file", text).help("keep one of them");
        }
        if elsewhere || matches!(config.auth.method, Method::Trust | Method::Cert | Method::Hba) {
            return;
        }
        self.users_who(
            |secret| Secret::parse(secret).is_err(),
            "can't log in: the text begins as a SCRAM secret, and is none",
            "copy all of rolpassword from pg_authid, or give a password",
        );
        self.users_who(
            |secret| secret.is_empty(),
            "without a secret can't log in",
            "give a password or a SCRAM secret",
        );
        if config.auth.method == Method::ScramSha256 {
            self.users_who(
                is_md5,
                "with an md5 secret can't log in with type scram-sha-256",
                "give a password or a SCRAM secret",
            );
        }
        for name in config.admin_users.iter().chain(&config.stats_users) {
            if users.get(name).is_none() && !asked {
                let text = format!("user {} may use the console, but is not listed, so can't log in", plain(name));
                self.warn("general.admin_users", text).help("add the user, with a secret, to the list of users");
            }
        }
    }

    /// Rules of users that can't have an effect.
    fn rules_of_users(&mut self) {
        let config = self.config;
        for (name, rules) in &config.users {
            if let Some(pool) = rules.pools.iter().find(|pool| config.pool(pool).is_none()) {
                let text = format!("user {} may use pool {}, which does not exist", plain(name), plain(pool));
                self.warn(&format!("users.{name}.pools"), text).help("correct its name, or add the pool");
            }
            if rules.former_secret.0.is_some() && !has_two_secrets(config, name) {
                let text = format!(
                    "former_secret of user {} has no effect: both secrets must be SCRAM secrets with the same salt",
                    plain(name)
                );
                self.warn(&format!("users.{name}.former_secret"), text)
                    .help("change the password in the panel or with the API, with a time for the old one");
            }
        }
    }

    fn users_who(&mut self, condition: impl Fn(&str) -> bool, what: &str, help: &str) {
        let names: Vec<&str> = self.config.auth.users.iter().filter(|(_, s)| condition(s)).map(|(n, _)| n).collect();
        if names.is_empty() {
            return;
        }
        let mut list = names.iter().take(5).map(|name| plain(name)).collect::<Vec<_>>().join(", ");
        if names.len() > 5 {
            list.push_str(&format!(" and {} more", names.len() - 5));
        }
        let subject = if names.len() == 1 { "user" } else { "users" };
        self.warn("auth.file", format!("{subject} {list} {what}")).help(help);
    }

    pub(super) fn encryption(&mut self) {
        self.side(Section::TlsClient, &self.config.tls.client);
        self.side(Section::TlsServer, &self.config.tls.server);
        let client = &self.config.tls.client;
        if self.config.auth.method == Method::Cert && client.mode < SslMode::VerifyCa {
            let mode = self.name(Section::TlsClient, "mode");
            let text = format!("type cert needs {mode} verify-full: no certificate is asked for, so nobody can log in");
            let help = format!("set {mode} to verify-full, and name the authority of the certificates");
            self.fail("auth.type", text).help(help);
        }
    }

    fn side(&mut self, section: Section, side: &TlsSide) {
        let (suites, unmappable) = side.suites();
        if !unmappable.is_empty() {
            let setting = self.name(section, "ciphers");
            let left = plural(suites.len() as u64, "cipher suite", "cipher suites");
            let names: Vec<_> = unmappable.iter().take(5).map(|name| plain(name)).collect();
            let more = if unmappable.len() > 5 { " …" } else { "" };
            let text = format!("not supported in {setting}: {}{more}; left: {left}", names.join(", "));
            self.warn(&format!("{}.ciphers", section.name()), text);
        }
    }
}

fn is_md5(secret: &str) -> bool {
    secret.len() == 35 && secret.starts_with("md5") && secret[3..].bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether the former secret of a user can be valid beside the present one.
fn has_two_secrets(config: &Config, name: &str) -> bool {
    let scram = |secret: &str| match Secret::parse(secret) {
        Ok(Secret::Scram(verifier)) => Some((verifier.salt, verifier.iterations)),
        _ => None,
    };
    let former = config.users.get(name).and_then(|rules| rules.former_secret.0.as_deref()).and_then(scram);
    former.is_some() && former == config.auth.users.get(name).and_then(scram)
}
