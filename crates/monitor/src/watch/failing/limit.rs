//! A limit of Weir that refuses clients or their requests: which one, at what value, who has what it bounds, and who is refused.

use std::collections::{BTreeMap, BTreeSet};

use weir_admin::{ClientNames, Health, NamedClients, PoolRecord, RefusedLogin, Report, SocketRecord, identifier};
use weir_base::plural;
use weir_config::{Config, FileFormat};

use super::growth::{Counts, Growth};
use super::login::who;
use crate::faults::FaultView;
use crate::named::named;

/// For this long after the last refusal it lasts, in seconds.
const LASTS: f64 = 10.0;
/// Who is connected is asked this often while clients are refused, in seconds.
const ASKED_EVERY: f64 = 10.0;
/// The most different clients that are kept apart, and the most that are named.
const KINDS: usize = 1_000;
const NAMED: usize = 3;

/// What was refused, by pool.
pub(super) struct Limit {
    refused: Growth,
    connected: Connected,
    /// When it was found out who is connected, in seconds since 1970.
    asked: f64,
}

/// The clients that are connected, by database, user and application.
#[derive(Default)]
pub(crate) struct Connected(BTreeMap<(String, String, String), u32>);

impl Connected {
    pub(crate) fn add(&mut self, client: &SocketRecord) {
        let key = (client.database.clone(), client.user.clone(), client.application_name.clone());
        if self.0.len() < KINDS || self.0.contains_key(&key) {
            *self.0.entry(key).or_default() += 1;
        }
    }

    /// Those of a database and a user, or of all, the most first: `"worker" of app has 34, "web" of app 6`.
    fn in_words(&self, database: Option<&str>, user: Option<&str>) -> Option<String> {
        let mut names = ClientNames::default();
        for ((of, by, application), count) in &self.0 {
            if database.is_none_or(|database| database == of) && user.is_none_or(|user| user == by) {
                names.count(by, application, *count);
            }
        }
        let most = names.most(NAMED);
        let words = |it: &NamedClients| format!("{} has {}", named(it), it.clients);
        (!most.is_empty()).then(|| most.iter().map(words).collect::<Vec<_>>().join(", "))
    }
}

impl Default for Limit {
    fn default() -> Limit {
        Limit { refused: Growth::new(LASTS, false), connected: Connected::default(), asked: 0.0 }
    }
}

/// A limit that was reached.
struct Reached<'r> {
    name: &'static str,
    /// The pool; empty for none.
    pool: &'r str,
    /// The newest login that it has refused.
    login: Option<&'r RefusedLogin>,
}

impl Limit {
    /// Whether clients are refused, and it was not found out lately who is connected.
    pub(super) fn asks_who_is_connected(&self, now: f64) -> bool {
        self.refused.total(now).is_some() && now - self.asked >= ASKED_EVERY
    }

    pub(super) fn connected(&mut self, who: Connected, now: f64) {
        (self.connected, self.asked) = (who, now);
    }

    pub(super) fn look(&mut self, report: &Report, config: &Config, now: f64) -> Option<FaultView> {
        self.refused.take(counted(report), now);
        let all = self.refused.total(now)?;
        let pool = self.refused.most()?;
        let count = self.refused.by().get(pool).copied().unwrap_or(all);
        let is_new = |login: &&RefusedLogin| login.is_limit && login.last as f64 / 1e6 >= self.refused.since() - 1.0;
        let logins: Vec<&RefusedLogin> = report.refused_logins.list().iter().filter(is_new).collect();
        let login =
            logins.iter().copied().filter(|login| pool.is_empty() || login.database == pool).max_by_key(|it| it.last);
        let limit = report.refusals.iter().filter(|record| record.pool.as_ref().map_or("", |(name, _)| name) == pool);
        let reached = Reached { name: limit.filter_map(|record| record.limit).next().unwrap_or(""), pool, login };
        let records: Vec<&PoolRecord> = report.pools.iter().filter(|record| record.database == pool).collect();
        let (mut clients, mut affected) = (0, ClientNames::default());
        for record in &records {
            let (more, names) = record.symptoms.refused_by.since(((self.refused.since() - 1.0) * 1e6) as u64);
            clients += more;
            affected.add(&names);
        }
        if pool.is_empty() {
            logins.iter().for_each(|login| affected.count_unproven(&login.user, "", 1));
            clients = logins.len() as u32;
        }
        let refused = self.refused_in_words(count, all, &affected, login);
        let has = reached.who_has(&records, &self.connected).map(|has| format!(" {has}.")).unwrap_or_default();
        Some(FaultView {
            kind: "limit",
            problem: true,
            summary: format!("{}: {refused}.{has}", reached.in_words(config)),
            advice: reached.advice(config),
            since: self.refused.since(),
            not_seen_since: self.refused.not_seen_since(now),
            pool: (!pool.is_empty()).then(|| pool.to_owned()),
            clients,
            affected,
        })
    }

    /// How many were refused, and who: the application, where that is known.
    fn refused_in_words(&self, count: u64, all: u64, of: &ClientNames, login: Option<&RefusedLogin>) -> String {
        let application = of.most(1).pop().filter(|most| !most.application_name.is_empty()).map(|most| named(&most));
        let most = application.or_else(|| login.map(who)).map(|who| format!(", most of {who}")).unwrap_or_default();
        let others =
            if all > count { format!("; {} more by limits of other pools", all - count) } else { String::new() };
        format!("{} refused so far{most}{others}", plural(count, "client or request was", "clients or requests were"))
    }
}

impl Reached<'_> {
    /// Its name in the file.
    fn shown(&self, config: &Config) -> &'static str {
        match self.name {
            "max_clients" if config.format == FileFormat::Ini => "max_client_conn",
            name => name,
        }
    }

    /// The limit with its value and for whom it holds, as the head of a sentence.
    fn in_words(&self, config: &Config) -> String {
        let (name, pool) = (self.shown(config), identifier(self.pool));
        let limits = config.pool(self.pool).map(|pool| pool.limits.clone());
        let user = self.login.map_or("", |login| login.user.as_str());
        match (self.name, limits) {
            ("max_clients", _) => match config.lacks_files {
                Some((have, _)) => {
                    format!("{name} = {} is reached, which is what {have} open files allow", config.max_clients)
                }
                None => format!("{name} = {} is reached", config.max_clients),
            },
            ("max_address_connections", _) => format!("{name} = {} is reached", config.max_address_connections),
            ("max_user_client_connections", _) if !user.is_empty() => {
                format!("{name} = {} of user {} is reached", config.user_clients(user), identifier(user))
            }
            ("max_db_client_connections", Some(limits)) => {
                format!("{name} = {} of {pool} is reached", limits.max_db_client_connections)
            }
            ("max_pinned", Some(limits)) => {
                format!("max_pinned = {} % of the size {} of {pool} is reached", limits.max_pinned, limits.size)
            }
            ("", _) if self.pool.is_empty() => "A limit refuses clients".to_owned(),
            ("", _) => format!("A limit refuses clients of {pool} or their requests"),
            _ => format!("{name} is reached"),
        }
    }

    /// Who has what the limit bounds.
    fn who_has(&self, of_pool: &[&PoolRecord], connected: &Connected) -> Option<String> {
        let pool = (!self.pool.is_empty()).then_some(self.pool);
        match self.name {
            "max_pinned" => of_pool.iter().max_by_key(|pool| pool.pinned.clients).and_then(|pool| pins(pool)),
            "max_clients" => connected.in_words(None, None),
            "max_db_client_connections" => connected.in_words(pool, None),
            "max_user_client_connections" => connected.in_words(None, Some(self.login?.user.as_str())),
            _ => None,
        }
    }

    fn advice(&self, config: &Config) -> String {
        match self.name {
            "" => "The log has each refusal with its reason.".to_owned(),
            "max_pinned" => {
                "Let these clients remove what they do not need any more, give their application a pool of its \
                             own in session mode, or raise max_pinned."
                    .to_owned()
            }
            "max_clients" if config.lacks_files.is_some() => {
                let (have, need) = config.lacks_files.unwrap_or_default();
                format!(
                    "Raise the limit of open files (in systemd LimitNOFILE, otherwise ulimit -n) from {have} to {need}, and restart \
                     Weir: it has lowered {}. See whether these applications need so many connections.",
                    self.shown(config)
                )
            }
            _ => format!("See whether these applications need so many connections, or raise {}.", self.shown(config)),
        }
    }
}

/// Refused clients by pool. A server that is at its limit is a state of the pool.
fn counted(report: &Report) -> Counts {
    let is_away = |pool: &&PoolRecord| {
        matches!(pool.health.state, Health::CannotGrow | Health::CannotConnect | Health::LoginRejected)
    };
    let away: BTreeSet<&str> = report.pools.iter().filter(is_away).map(|pool| pool.database.as_str()).collect();
    let mut counts = Counts::new();
    for refused in &report.refusals {
        let name = refused.pool.as_ref().map_or("", |(database, _)| database.as_str());
        if !away.contains(name) {
            *counts.entry(name.to_owned()).or_default() += refused.refusals.limit_reached;
        }
    }
    counts
}

/// Which clients keep servers of a pool for what they have left there.
fn pins(pool: &PoolRecord) -> Option<String> {
    let most = pool.symptoms.pinned_by.most(1).pop()?;
    Some(format!(
        "{} for what they have left there ({}), most of them {} ({})",
        plural(pool.pinned.clients.into(), "client keeps a server", "clients keep servers"),
        pool.pinned.in_words(),
        named(&most),
        most.clients
    ))
}

#[cfg(test)]
mod tests {
    use weir_admin::{RefusalRecord, Refusals};
    use weir_base::PoolMode;

    use super::*;

    fn report(limit_reached: u64, state: Health, limit: &'static str) -> Report {
        let mut pool = PoolRecord::new("shop", "joe", PoolMode::Transaction);
        pool.health.state = state;
        let refusals = Refusals { limit_reached, ..Refusals::default() };
        let record = RefusalRecord { pool: Some(("shop".into(), "joe".into())), refusals, limit: Some(limit) };
        Report { pools: vec![pool], refusals: vec![record], ..Report::default() }
    }

    fn config() -> Config {
        let mut config = Config { max_clients: 40, ..Config::default() };
        let mut pool = weir_config::PoolConfig::default();
        (pool.limits.size, pool.limits.max_pinned, pool.limits.max_db_client_connections) = (8, 80, 20);
        config.pools.insert("shop".to_owned(), std::sync::Arc::new(pool));
        config
    }

    fn login(database: &str) -> RefusedLogin {
        RefusedLogin {
            user: "ann".to_owned(),
            database: database.to_owned(),
            origin: weir_base::Origin::Local(7),
            why: "no more connections allowed (max_client_conn)".to_owned(),
            hint: None,
            is_handshake: false,
            is_limit: true,
            count: 2,
            last: 101_000_000,
        }
    }

    fn connected() -> Connected {
        let of = |name: &str, count| (("shop".to_owned(), "ann".to_owned(), name.to_owned()), count);
        Connected([of("worker", 34), of("web", 6)].into())
    }

    #[test]
    fn a_limit_that_refuses_clients_is_a_fault_from_the_first_one_until_no_more_come() {
        let (mut limit, config) = (Limit::default(), config());
        let mut look =
            |count, now| limit.look(&report(count, Health::Healthy, "max_db_client_connections"), &config, now);
        assert!(look(7, 100.0).is_none(), "that may be old");
        assert!(look(7, 101.0).is_none());
        let found = look(9, 102.0).expect("a fault");
        assert_eq!((found.kind, found.since, found.pool.as_deref()), ("limit", 102.0, Some("shop")));
        assert!(found.summary.contains("2 clients or requests were refused so far"), "{}", found.summary);
        let found = look(10, 110.0).expect("a fault");
        assert!(found.since == 102.0 && found.summary.contains("3 clients") && found.not_seen_since.is_none());
        assert_eq!(look(10, 115.0).expect("a fault").not_seen_since, Some(110.0), "it ends when it was last seen");
        assert!(look(10, 121.0).is_none());
        let found = look(11, 122.0).expect("a fault");
        assert!(found.since == 122.0 && found.summary.contains("1 client or request was"), "{}", found.summary);
        assert!(weir_admin::FAULT_KINDS.contains(&found.kind));
    }

    #[test]
    fn a_limit_has_its_name_in_the_file_its_value_and_who_has_the_connections() {
        let mut limit = Limit::default();
        let of_all = |count| {
            let refusals = Refusals { limit_reached: count, ..Refusals::default() };
            let mut report = Report {
                refusals: vec![RefusalRecord { pool: None, refusals, limit: Some("max_clients") }],
                ..Report::default()
            };
            report.refused_logins.add(login(""));
            report
        };
        assert!(limit.look(&of_all(0), &config(), 100.0).is_none() && !limit.asks_who_is_connected(100.0));
        assert!(limit.look(&of_all(52), &config(), 101.0).is_some() && limit.asks_who_is_connected(101.0));
        limit.connected(connected(), 101.0);
        assert!(!limit.asks_who_is_connected(102.0), "not each second");
        let found = limit.look(&of_all(52), &config(), 102.0).expect("a fault");
        let words = "max_clients = 40 is reached: 52 clients or requests were refused so far, most of \"ann\" from user 7 of this \
                     machine. \"worker\" of ann has 34, \"web\" of ann has 6.";
        assert_eq!((found.summary.as_str(), found.clients, &found.pool), (words, 1, &None));
        assert!(found.advice.ends_with("or raise max_clients."));
        let lowered = Config { lacks_files: Some((1_024, 10_304)), ..config() };
        let found = limit.look(&of_all(52), &lowered, 102.5).expect("a fault");
        let words = "max_clients = 40 is reached, which is what 1024 open files allow: 52";
        assert!(found.summary.starts_with(words) && found.advice.contains("LimitNOFILE"), "{found:?}");
        assert!(found.advice.contains("from 1024 to 10304"), "{}", found.advice);
        let ini = Config { format: FileFormat::Ini, ..config() };
        let found = limit.look(&of_all(52), &ini, 103.0).expect("a fault");
        assert!(found.summary.starts_with("max_client_conn = 40") && found.advice.ends_with("raise max_client_conn."));
        let mut limit = Limit::default();
        limit.look(&report(0, Health::Healthy, "max_db_client_connections"), &config(), 100.0);
        limit.connected(connected(), 100.0);
        let found =
            limit.look(&report(4, Health::Healthy, "max_db_client_connections"), &config(), 101.0).expect("a fault");
        assert!(found.summary.starts_with("max_db_client_connections = 20 of shop is reached: "), "{}", found.summary);
        assert!(found.summary.ends_with(" \"worker\" of ann has 34, \"web\" of ann has 6."), "{}", found.summary);
    }

    #[test]
    fn a_limit_of_a_pool_whose_servers_clients_keep_names_who_keeps_them_and_who_is_refused() {
        let mut limit = Limit::default();
        limit.look(&report(0, Health::Healthy, "max_pinned"), &config(), 100.0);
        let mut pinned = report(3, Health::Healthy, "max_pinned");
        (0..4).for_each(|_| pinned.pools[0].pinned.count(weir_base::StateKinds::from_bits(2)));
        pinned.pools[0].symptoms.pinned_by.count("joe", "jobs", 4);
        pinned.pools[0].symptoms.refused_by.note(("joe", "etl", true), weir_base::Origin::V4(1), 100_900_000);
        let found = limit.look(&pinned, &config(), 101.0).expect("a fault");
        let words = "max_pinned = 80 % of the size 8 of shop is reached: 3 clients or requests were refused so far, most of \
                     \"etl\" of joe. 4 clients keep servers for what they have left there (listen: 4), most of them \"jobs\" \
                     of joe (4).";
        assert_eq!((found.summary.as_str(), found.clients), (words, 1));
        assert_eq!(found.affected.most(1)[0].application_name, "etl");
    }

    #[test]
    fn a_server_that_is_at_its_limit_is_no_limit_of_weir() {
        let (mut limit, config) = (Limit::default(), config());
        limit.look(&report(0, Health::CannotConnect, "max_pinned"), &config, 100.0);
        assert!(limit.look(&report(50, Health::CannotConnect, "max_pinned"), &config, 101.0).is_none());
        assert!(
            limit.look(&report(50, Health::Healthy, "max_pinned"), &config, 102.0).is_none(),
            "nor what was refused then"
        );
    }
}
