//! A configuration as TOML: the output of `weir convert`.
//!
//! Writes only what differs from TOML's defaults, so that the result reads like a file written by hand. Reading it
//! again gives the same configuration, except for its locations and for settings without effect.

use std::fmt::Write;

use weir_auth::Method;

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::{Config, PeerRules, PoolConfig, ServerRules, UserRules};
use crate::origin::FileFormat;
use crate::pool_text::PoolText;
use crate::settings;
use crate::table::{Section, Setting};
use crate::toml_key::toml_key;

/// The configuration as the text of a `weir.toml`. Holds the pools' passwords as they are.
pub fn to_toml(config: &Config) -> String {
    let mut page = opening(config);
    let (mut config, mut default) = (config.clone(), Config::default());
    for section in Section::ALL
        .into_iter()
        .filter(|s| !matches!(s, Section::Pool | Section::User | Section::Peer | Section::Server))
    {
        let mut lines = String::new();
        for setting in section.settings() {
            let (Some(value), Some(usual)) = (setting.field_mut(&mut config), setting.field_mut(&mut default)) else {
                continue;
            };
            lines.push_str(&line(setting, &value, &usual));
        }
        if !lines.is_empty() {
            let _ = write!(page, "\n{}\n{lines}", section.title());
        }
        match section {
            Section::Auth => page.push_str(&users(&config)),
            Section::Web => page.push_str(&accounts(&config)),
            _ => {}
        }
    }
    for (name, rules) in &config.users {
        page.push_str(&user(name, rules));
    }
    for (id, rules) in &config.peers {
        page.push_str(&peer(*id, rules));
    }
    for (name, rules) in &config.servers {
        page.push_str(&server(name, rules));
    }
    for pool in config.pools.values().chain(&config.fallback) {
        page.push_str(&pool_section(pool, &config));
    }
    page
}

fn opening(config: &Config) -> String {
    let mut page = format!("# Written by \"weir convert {}\".\n", one_line(&config.source.display().to_string()));
    if config.format == FileFormat::Ini {
        page.push_str("# Here paths are relative to this file's folder, not to the one that Weir is started in.\n");
    }
    for setting in settings::all().filter(|setting| setting.is_inert()) {
        if config.locations.get(&setting.key()).is_some() {
            let value = config.inert.get(setting.name).map_or("", String::as_str);
            let _ = writeln!(page, "# {} = {}: {}.", setting.name, one_line(value), setting.doc);
        }
    }
    for remark in &config.remarks {
        let _ = writeln!(page, "# {}.", one_line(&remark.text));
    }
    page
}

/// The line of a setting; empty if its value is the default.
fn line(setting: &Setting, value: &FieldMut<'_>, usual: &FieldMut<'_>) -> String {
    let (value, usual) = (value.toml(setting.kind), usual.toml(setting.kind));
    match value {
        Some(text) if Some(&text) != usual.as_ref() => {
            let one = (setting.kind == Kind::Hosts).then(|| single(&text)).flatten();
            format!("{} = {}\n", setting.name, one.unwrap_or(&text))
        }
        _ => String::new(),
    }
}

/// The only item of a list.
fn single(list: &str) -> Option<&str> {
    let item = list.strip_prefix('[')?.strip_suffix(']')?;
    (!item.contains(',')).then_some(item)
}

fn users(config: &Config) -> String {
    let auth = &config.auth;
    let mut section = String::new();
    let may_be_none = auth.query_user.is_some()
        || matches!(
            auth.method,
            Method::Trust | Method::Any | Method::Hba | Method::Ldap | Method::Pam | Method::Oauth
        );
    if auth.file.is_some() || (auth.users.is_empty() && may_be_none) {
        return section;
    }
    section.push_str("\n[auth.users]\n");
    for (name, secret) in auth.users.iter() {
        let _ = writeln!(section, "{} = {}", toml_key(name), toml_edit::Value::from(secret));
    }
    section
}

fn accounts(config: &Config) -> String {
    let mut sections = String::new();
    let all = [("users", &config.web.accounts.users), ("tokens", &config.web.accounts.tokens)];
    for (title, accounts) in all.into_iter().filter(|(_, accounts)| !accounts.is_empty()) {
        let _ = writeln!(sections, "\n[web.{title}]");
        for (name, account) in accounts {
            let _ = writeln!(sections, "{}", account.line(name));
        }
    }
    sections
}

fn user(name: &str, rules: &UserRules) -> String {
    let mut section = format!("\n[users.{}]\n", toml_key(name));
    let (mut rules, mut usual) = (rules.clone(), UserRules::default());
    for setting in Section::User.settings() {
        let (Some(value), Some(usual)) = (setting.user_field_mut(&mut rules), setting.user_field_mut(&mut usual))
        else {
            continue;
        };
        section.push_str(&line(setting, &value, &usual));
    }
    section
}

fn peer(id: u16, rules: &PeerRules) -> String {
    let mut section = format!("\n[peers.{id}]\n");
    let (mut rules, mut usual) = (rules.clone(), PeerRules::blank());
    for setting in Section::Peer.settings() {
        if let (Some(value), Some(usual)) = (setting.peer_field_mut(&mut rules), setting.peer_field_mut(&mut usual)) {
            section.push_str(&line(setting, &value, &usual));
        }
    }
    section
}

fn server(name: &str, rules: &ServerRules) -> String {
    let mut section = format!("\n[servers.{}]\n", toml_key(name));
    let (mut rules, mut usual) = (*rules, ServerRules::blank());
    for setting in Section::Server.settings() {
        if let (Some(value), Some(usual)) = (setting.server_field_mut(&mut rules), setting.server_field_mut(&mut usual))
        {
            section.push_str(&line(setting, &value, &usual));
        }
    }
    section
}

fn pool_section(pool: &PoolConfig, config: &Config) -> String {
    let mut section = format!("\n[pools.{}]\n", toml_key(&pool.name));
    // A pool takes the same values from the settings for all pools in TOML.
    let (mut text, mut usual) = (PoolText::of(pool, config), PoolText::new(&pool.name, config));
    let own = Section::Pool.settings().filter(|setting| setting.section == Section::Pool);
    let shared = Section::Pool.settings().filter(|setting| setting.section != Section::Pool);
    for setting in own.chain(shared) {
        let (Some(value), Some(usual)) = (setting.pool_field_mut(&mut text), setting.pool_field_mut(&mut usual)) else {
            continue;
        };
        section.push_str(&line(setting, &value, &usual));
    }
    section
}

fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}
