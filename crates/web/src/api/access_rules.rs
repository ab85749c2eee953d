//! Who may log in, from where, and by which method: the rules of the configuration, without secrets.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use weir_config::{Config, ShownRule};
use weir_http::ApiError;
use weir_monitor::Workers;

/// The most rules that are shown, and the most names of one.
const RULES: usize = 1000;
const NAMES: usize = 20;

#[derive(Serialize)]
pub(crate) struct AccessRules {
    /// Where clients connect: addresses with the port, and the Unix socket's folder.
    listen: Vec<String>,
    /// What clients must do about encryption (`sslmode`).
    tls: String,
    method: String,
    users_file: Option<String>,
    users_listed: usize,
    auth_query: Vec<AuthQuery>,
    hba_file: Option<String>,
    /// The rules in their order, if `method` is `hba`; the first one that matches decides.
    rules: Option<Vec<Rule>>,
    rules_total: usize,
    max_client_connections: u32,
    max_user_client_connections: u32,
    max_user_connections: u32,
    max_address_connections: u32,
}

/// Where users are looked up that are not listed.
#[derive(Serialize, PartialEq, Eq, PartialOrd, Ord)]
struct AuthQuery {
    /// The user that asks.
    user: String,
    /// The database that is asked; none: the client's.
    database: Option<String>,
    /// The pools with these, if they have their own; none: all others.
    pools: Option<Vec<String>>,
}

/// A rule of the HBA file.
#[derive(Serialize)]
struct Rule {
    line: usize,
    connection: &'static str,
    databases: Vec<String>,
    users: Vec<String>,
    /// Names that are not shown.
    more: usize,
    address: Option<String>,
    method: &'static str,
    map: Option<String>,
}

/// `GET /api/v1/access-rules`.
pub(crate) async fn access_rules(State(workers): State<Workers>) -> Result<Json<AccessRules>, ApiError> {
    let (_, config) = workers.report().await?;
    Ok(Json(AccessRules::of(&config)))
}

impl AccessRules {
    fn of(config: &Config) -> AccessRules {
        let auth = &config.auth;
        let rules = auth.hba.as_ref().map(|hba| hba.rules());
        AccessRules {
            listen: listen(config),
            tls: config.tls.client.mode.to_string(),
            method: auth.method.to_string(),
            users_file: auth.file.as_ref().map(|file| file.display().to_string()),
            users_listed: auth.users.len(),
            auth_query: auth_queries(config),
            hba_file: auth.hba_file.as_ref().map(|file| file.display().to_string()),
            rules_total: rules.map_or(0, <[_]>::len),
            rules: rules.map(|rules| rules.iter().take(RULES).map(|rule| Rule::of(rule.shown())).collect()),
            max_client_connections: config.max_clients,
            max_user_client_connections: config.max_user_client_connections,
            max_user_connections: config.max_user_connections,
            max_address_connections: config.max_address_connections,
        }
    }
}

fn listen(config: &Config) -> Vec<String> {
    let listen = &config.listen;
    let tcp = listen.addresses.iter().map(|address| SocketAddr::new(*address, listen.port).to_string());
    let socket = listen.unix_socket_dir.iter().map(|folder| format!("{}:{}", folder.display(), listen.port));
    tcp.chain(socket).collect()
}

/// The look-ups of the process, then those that pools have of their own, each with its pools.
fn auth_queries(config: &Config) -> Vec<AuthQuery> {
    let auth = &config.auth;
    let mut own: BTreeMap<(String, Option<String>), Vec<String>> = BTreeMap::new();
    for (name, pool) in &config.pools {
        if pool.auth_user.is_none() && pool.auth_database.is_none() {
            continue;
        }
        let Some(user) = pool.auth_user.clone().or_else(|| auth.query_user.clone()) else { continue };
        let database = pool.auth_database.clone().or_else(|| auth.query_database.clone());
        own.entry((user, database)).or_default().push(name.clone());
    }
    let all = auth.query_user.clone();
    let all = all.map(|user| AuthQuery { user, database: auth.query_database.clone(), pools: None });
    let own = own.into_iter().map(|((user, database), pools)| AuthQuery { user, database, pools: Some(pools) });
    all.into_iter().chain(own).filter(|of| !of.user.is_empty()).take(NAMES).collect()
}

impl Rule {
    fn of(shown: ShownRule) -> Rule {
        let ShownRule { line, connection, mut databases, mut users, address, method, map } = shown;
        let more = databases.len().saturating_sub(NAMES) + users.len().saturating_sub(NAMES);
        databases.truncate(NAMES);
        users.truncate(NAMES);
        Rule { line, connection, databases, users, more, address, method, map }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn shown(text: &str, hba: &str) -> serde_json::Value {
        let read = |path: &Path| match path.extension() {
            Some(end) if end == "conf" => Ok(hba.to_owned()),
            Some(end) if end == "txt" => Ok("\"ann\" \"hush\"\n\"bob\" \"hush\"\n".to_owned()),
            _ => Ok(text.to_owned()),
        };
        let config = weir_config::load(Path::new("weir.toml"), &read, &|_| None);
        serde_json::to_value(AccessRules::of(&config.unwrap_or_else(|errors| panic!("{errors}")))).expect("JSON")
    }

    #[test]
    fn rules_are_shown_in_their_order_and_secrets_are_not() {
        let many: Vec<String> = (0..30).map(|number| format!("user{number:02}")).collect();
        let hba = format!(
            "host all {} 10.0.0.0/8 scram-sha-256\nhost all all all ldap ldapserver=d ldapbinddn=\"cn=a\" \
             ldapbindpasswd=hush ldapbasedn=\"o=x\"\n",
            many.join(",")
        );
        let text = "[auth]\ntype = \"hba\"\nhba_file = \"hba.conf\"\nfile = \"users.txt\"\nquery_user = \"asker\"\n\
                    [pools.a]\nhost = \"h\"\n[pools.b]\nhost = \"h\"\nauth_user = \"other\"\n";
        let access_rules = shown(text, &hba);
        assert_eq!((&access_rules["method"], &access_rules["users_listed"]), (&"hba".into(), &2.into()));
        let rule = &access_rules["rules"][0];
        assert_eq!((&rule["line"], &rule["address"], &rule["more"]), (&1.into(), &"10.0.0.0/8".into(), &10.into()));
        assert_eq!(access_rules["rules"][1]["method"], "ldap");
        assert_eq!(access_rules["auth_query"][0]["user"], "asker");
        assert_eq!(
            (&access_rules["auth_query"][1]["user"], &access_rules["auth_query"][1]["pools"][0]),
            (&"other".into(), &"b".into())
        );
        assert!(!access_rules.to_string().contains("hush"));
    }

    #[test]
    fn without_rules_the_method_holds_for_all() {
        let access_rules = shown("[auth]\ntype = \"trust\"\n[listen]\naddress = \"127.0.0.1\"\nport = 7777\n", "");
        assert_eq!((&access_rules["method"], &access_rules["rules"]), (&"trust".into(), &serde_json::Value::Null));
        assert_eq!(access_rules["listen"][0], "127.0.0.1:7777");
    }
}
