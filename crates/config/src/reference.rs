//! The reference page `docs/settings.md`, generated from the table of settings.

use std::fmt::Write;

use crate::field::AUTO;
use crate::kind::Kind;
use crate::table::{Effect, Origin, Section, Setting};

const OPENING: &str = "\
# Settings

*For operators who look a setting up. One minute for a look-up.*

Weir reads its own TOML or PgBouncer's ini: `weir serve weir.toml`, `weir serve pgbouncer.ini`. `weir check FILE` shows
the settings that it has read, and `weir convert pgbouncer.ini` prints the equivalent TOML. This page is generated from the
table of settings in `crates/config`, which both readers use.

Times are seconds or text with a unit (`us`, `ms`, `s`, `min`, `h`, `d`), as in `5`, `\"500ms\"`, `\"2min\"`. Sizes are
text with a unit (`kB`, `MB`, `GB`, or `KiB`, `MiB`, `GiB`, all in steps of 1024), or bytes. In an ini times are seconds,
yes and no are 1 and 0, and lists have commas.

In a weir.toml a value may be elsewhere: `\"env:NAME\"` is a variable of the environment, `\"file:/PATH\"` the content of a file, as in
`node = \"env:POD_NAME\"` or `size = \"env:POOL_SIZE\"`, for settings of any kind; a list is written with commas then. Only the
settings file may refer to them, not the API, the console or [nodes](cluster.md). SQL is always the text itself; for secrets there are `password_file`, `password_env` and `file` in `[auth]`.

*ini* is the setting's name in `[pgbouncer]`, or, for a user or a pool, in its line in `[users]` or `[databases]`, and in
SHOW CONFIG and SET; in italics where PgBouncer has no such setting. Names under *also* work in TOML too. The *default* is
that of TOML, and after a slash that of an ini where it differs.

A change takes effect with a reload (HUP, or RELOAD on the console), unless *when* says `restart`; `reconnect`: with the
reload, and the pool's servers are replaced as they become free.
";

/// What holds for all settings, for the manual page.
pub(crate) const DESCRIPTION: [&str; 4] = [
    "Sections and keys in TOML. `weir check weir.toml` shows the settings that it has read, and what is wrong with them. \
     Only a pool, with its host, and users must be given; all else has a default.",
    "Times are seconds or text with a unit (`us`, `ms`, `s`, `min`, `h`, `d`), as in `5`, `\"500ms\"`, `\"2min\"`. Sizes \
     are text with a unit (`kB`, `MB`, `GB`, or `KiB`, `MiB`, `GiB`, all in steps of 1024), or bytes.",
    "A value may be elsewhere: `\"env:NAME\"` is a variable of the environment, `\"file:/PATH\"` the content of a file; a list is \
     written with commas then. SQL is always the text itself, and so are secrets, which have settings of their own for this.",
    "A change takes effect with a reload (HUP, or RELOAD on the console), unless the entry says *restart*; *reconnect*: \
     with the reload, and the pool's servers are replaced as they become free.",
];

const CLOSING: &str = "
## Without effect

Settings of PgBouncer that an ini may have and that SHOW CONFIG shows, but that have no effect here.

| ini | default | why |
|---|---|---|
";

/// The reference page of all settings, in Markdown.
pub fn reference_markdown() -> String {
    let mut page = OPENING.to_owned();
    for section in Section::ALL {
        let _ = writeln!(
            page,
            "\n## {}\n\n{}{}\n",
            section.title(),
            purpose(section),
            in_general(section) + &in_cluster(section)
        );
        page.push_str("| setting | ini | value | default | when | what |\n|---|---|---|---|---|---|\n");
        let own = crate::settings::all().filter(|s| s.section == section);
        own.for_each(|setting| page.push_str(&row(setting)));
    }
    page.push_str(CLOSING);
    for setting in crate::settings::all().filter(|setting| setting.is_inert()) {
        let default = if setting.default.is_empty() { "—".to_owned() } else { format!("`{}`", setting.default) };
        let _ = writeln!(page, "| `{}` | {default} | {} |", setting.name, capital(setting.doc));
    }
    page
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|c| c.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

/// The settings of `[general]` of which a pool may have a value of its own.
fn in_general(section: Section) -> String {
    if section != Section::Pool {
        return String::new();
    }
    let both = section.settings().filter(|s| s.section == Section::General);
    let both: Vec<String> = both.map(|setting| format!("`{}`", setting.name)).collect();
    format!(" So may these of `[general]`: {}.", both.join(", "))
}

/// Whether the nodes of a cluster share a section.
fn in_cluster(section: Section) -> String {
    if !section.is_shared() {
        return String::new();
    }
    let own = crate::settings::all().filter(|s| s.section == section && s.of_node);
    let own: Vec<String> = own.map(|setting| format!("`{}`", setting.name)).collect();
    let but = if own.is_empty() { String::new() } else { format!(", but for {}", own.join(", ")) };
    format!(" [Shared](cluster.md#the-configuration-that-nodes-share) by the nodes of a cluster{but}.")
}

pub(crate) fn purpose(section: Section) -> &'static str {
    match section {
        Section::General => "The process as a whole.",
        Section::Listen => "Where clients connect.",
        Section::Auth => "Which clients may log in, and how they authenticate.",
        Section::TlsClient => "Encryption of connections from clients.",
        Section::TlsServer => "Encryption of connections to servers.",
        Section::Dns => "How names of servers are looked up.",
        Section::Process => "The process and its operating-system user.",
        Section::Web => {
            "The HTTP API, `/metrics` and `/healthz`; see [api.md](api.md). There is none unless an address is given."
        }
        Section::WebOidc => {
            "Logins to the panel through an OpenID Connect provider; see [single-sign-on.md](howto/single-sign-on.md). There are \
             none unless an issuer is given. An ini has no groups with commas in their names."
        }
        Section::Cluster => "Nodes that share the budgets of pools through etcd; see [cluster.md](cluster.md).",
        Section::Alerts => {
            "Messages about pools that have a problem; see [alerts.md](alerts.md). They need the HTTP API (`[web]`)."
        }
        Section::Telemetry => {
            "Metrics and spans for an OpenTelemetry collector; see [telemetry.md](telemetry.md). They need the HTTP API (`[web]`)."
        }
        Section::Log => "What is logged, and where.",
        Section::User => {
            "Settings of a user, by the name on the server. A setting that is not given is the pool's, or the \
             general one. `disabled`, `pools` and the former secret are about clients that log in by this name. The present \
             secrets are in `[auth]`."
        }
        Section::Peer => {
            "Other processes behind the same address, by their numbers (`peer_id` in `[process]`); this one may be among \
             them. A request to cancel that reaches the wrong one is passed on to the right one. An ini has them in `[peers]`."
        }
        Section::Server => {
            "Database servers whose connections several pools share, by names of your own; see \
             [Fair shares of one server](howto/fair-shares.md). A pool says with `server` which one it uses."
        }
        Section::Foreign => "What only PgBouncer has.",
        Section::Limits => {
            "Sizes, limits and timeouts of all pools. Each but `statement_memory` may also be in a pool, for that \
             pool."
        }
        Section::Pool => {
            "One section per pool; clients name the pool as their database. `[pools.\"*\"]` is for every database \
             without a section of its own. The names `weir` and `pgbouncer` are reserved for the console. Everything \
             in `[limits]` but `statement_memory` may be here too."
        }
    }
}

fn row(setting: &Setting) -> String {
    let usual = default(setting, setting.default);
    let default = match setting.ini_default {
        Some(theirs) if theirs != setting.default => format!("{usual} / {}", default(setting, theirs)),
        _ => usual,
    };
    let when = when(setting);
    let (doc, value) = (setting.doc.replace('|', "\\|"), value(setting.kind));
    format!("| `{}` | {} | {value} | {default} | {when} | {doc}{} |\n", setting.name, ini(setting), also(setting))
}

/// When a change takes effect.
pub(crate) fn when(setting: &Setting) -> &'static str {
    match setting.effect {
        Effect::Live => "reload",
        Effect::Reconnect => "reconnect",
        Effect::Restart => "restart",
    }
}

pub(crate) fn default(setting: &Setting, text: &str) -> String {
    match setting.kind {
        _ if text.is_empty() => "—".to_owned(),
        Kind::Number { .. } | Kind::Flag | Kind::Ports => format!("`{text}`"),
        Kind::CountOrAuto { .. } if text != AUTO => format!("`{text}`"),
        Kind::Time { .. } if text == "0" => format!("`{text}`"),
        Kind::Names | Kind::Words(_) | Kind::Origins => {
            let items: Vec<String> = text.split(',').map(|item| format!("\"{}\"", item.trim())).collect();
            format!("`[{}]`", items.join(", "))
        }
        _ => format!("`\"{text}\"`"),
    }
}

pub(crate) fn value(kind: Kind) -> String {
    match kind {
        Kind::Number { min, max } => format!("{min} to {max}"),
        Kind::CountOrAuto { max } => format!("`{AUTO}`, or 1 to {max}"),
        Kind::Time { min } if min.is_zero() => "time".to_owned(),
        Kind::Time { min } => format!("time from {}", crate::units::brief(min)),
        Kind::Size { .. } => "size".to_owned(),
        Kind::Moment => "time in UTC, as text".to_owned(),
        Kind::Permissions => "octal, as text".to_owned(),
        Kind::Flag => "true, false".to_owned(),
        Kind::Word(words) => words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
        Kind::Text | Kind::Secret => "text".to_owned(),
        Kind::Query => "SQL".to_owned(),
        Kind::Names => "list of names".to_owned(),
        Kind::Words(words) => {
            let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
            format!("list of {}", words.join(", "))
        }
        Kind::Url => "address".to_owned(),
        Kind::Origins => "list of addresses".to_owned(),
        Kind::Host => "host".to_owned(),
        Kind::Hosts => "host, or list".to_owned(),
        Kind::Ports => "1 to 65535, or list".to_owned(),
        Kind::Networks => "list of networks".to_owned(),
        Kind::Protocols => "`secure`, or versions".to_owned(),
        Kind::Addresses => "address, or list".to_owned(),
        Kind::Users | Kind::Accounts => "section".to_owned(),
    }
}

/// The setting's names in an ini.
pub(crate) fn ini(setting: &Setting) -> String {
    let mut names: Vec<&str> = setting.ini.into_iter().chain(setting.ini_user).collect();
    for name in setting.ini_database {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let mark = if setting.origin == Origin::PgBouncer { "" } else { "*" };
    let shown: Vec<_> = names.iter().map(|name| format!("{mark}`{name}`{mark}")).collect();
    if shown.is_empty() { "—".to_owned() } else { shown.join(", ") }
}

/// The setting's other names in TOML.
pub(crate) fn also(setting: &Setting) -> String {
    if setting.aliases.is_empty() {
        return String::new();
    }
    let list = setting.aliases.iter().map(|alias| format!("`{alias}`")).collect::<Vec<_>>().join(", ");
    format!(" *Also:* {list}.")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_reference_page_is_what_the_table_says() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/settings.md");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(&page, reference_markdown()).expect("the page can be written");
        }
        let committed = std::fs::read_to_string(&page).unwrap_or_default();
        assert!(
            committed == reference_markdown(),
            "docs/settings.md is out of date; print it anew with: WEIR_BLESS=1 cargo test -p weir-config"
        );
    }
}
