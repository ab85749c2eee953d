//! Gathers what the view of incidents needs: from the workers only what the question needs, and from the servers of the
//! pools that are worst.

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use weir_admin::{Connections, Health, PoolHealth, PoolRecord, Report, SocketRecord, identifier, shared_servers};
use weir_config::Config;

use super::{Incident, LONG, PoolNow, incident};
use crate::activity_probe::ActivityProbe;
use crate::ask::Workers;
use crate::clock;
use crate::error::MonitorError;

/// The most pools whose servers are queried at once.
pub(crate) const POOLS: usize = 8;

/// Pools in which something may last long, with the longest wait in each, in seconds.
pub(crate) struct Suspects(BTreeMap<String, (PoolNow, f64)>);

/// What was found out about the suspected pools.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Why they are slow, the longest first.
    pub(crate) incidents: Vec<Incident>,
    /// Those whose server could not be looked at.
    pub(crate) unseen: Vec<Unseen>,
}

/// A pool whose queries last while its server can't be looked at: whether they are blocked is not known.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Unseen {
    pub(crate) pool: String,
    /// Why the look failed, in the server's words.
    pub(crate) reason: String,
    /// Queries that have run for longer than [`LONG`].
    pub(crate) queries: usize,
    /// How long the longest of them has run.
    pub(crate) seconds: f64,
}

/// The incidents of the wanted pools; the longest first.
pub async fn current(
    workers: &Workers,
    activity_probe: &ActivityProbe,
    report: &Report,
    config: &Config,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Incident>, MonitorError> {
    Ok(Suspects::new(report, config, wanted).look(workers, activity_probe).await?.incidents)
}

impl Suspects {
    /// By the counts of a report.
    pub(crate) fn new(report: &Report, config: &Config, wanted: impl Fn(&str) -> bool) -> Suspects {
        let mut pools = BTreeMap::new();
        let limits = shared_limits(report, config);
        let unused = report.unused.iter().map(|(name, health)| (name, health, 0, 0.0));
        let used = report.pools.iter().map(|record| {
            let wait = record.maxwait.micros() as f64 / 1e6;
            (&record.database, &record.health, record.cl_waiting + record.sv_active, wait)
        });
        for (name, health, busy, wait) in used.chain(unused).filter(|(name, ..)| wanted(name)) {
            let Some(pool) = config.pools.get(name).or(config.fallback.as_ref()) else { continue };
            if busy == 0 && !health.is_problem() {
                continue;
            }
            let new = || {
                let (limits, mode) = (&pool.limits, pool.policy.mode);
                (PoolNow { name: name.clone(), size: limits.size, mode, ..PoolNow::default() }, 0.0)
            };
            let limit = limits.get(name);
            let (now, longest) = pools.entry(name.clone()).or_insert_with(new);
            *longest = f64::max(*longest, wait);
            now.limit = limit.cloned();
            if health.state >= now.health.state {
                now.health.clone_from(health);
            }
        }
        Suspects(pools)
    }

    /// Why the suspected pools are slow; nothing of a pool that is not.
    pub(crate) async fn look(
        self,
        workers: &Workers,
        activity_probe: &ActivityProbe,
    ) -> Result<Gathered, MonitorError> {
        let Suspects(mut pools) = self;
        if pools.is_empty() {
            return Ok(Gathered::default());
        }
        workers
            .each_connection(Connections::Servers, |server| {
                if let Some((pool, _)) = pools.get_mut(&server.database)
                    && server.link.is_some()
                {
                    pool.servers.push(server);
                }
            })
            .await?;
        let at = clock::now().as_micros() as u64;
        for (pool, _) in pools.values_mut() {
            pool.at = at;
            pool.explained = explains(&pool.health, pool.servers.is_empty());
        }
        pools.retain(|_, (pool, wait)| {
            pool.explained || pool.health.state == Health::Slow || pool.is_suspect() || *wait >= LONG
        });
        if pools.is_empty() {
            return Ok(Gathered::default());
        }
        workers
            .each_connection(Connections::Clients, |client| {
                if let Some((pool, _)) = pools.get_mut(&client.database)
                    && (client.state == "waiting" || client.link.is_some())
                {
                    pool.clients.push(client);
                }
            })
            .await?;
        let mut pools: Vec<PoolNow> = pools.into_values().map(|(pool, _)| pool).collect();
        pools.sort_by(|a, b| b.oldest_wait().total_cmp(&a.oldest_wait()));
        let mut asked = JoinSet::new();
        let mut most = POOLS;
        for pool in pools {
            // A server that is down has nothing to show, and would be waited for.
            let activity_probe = (most > 0 && !pool.explained).then(|| activity_probe.clone());
            most -= usize::from(activity_probe.is_some());
            asked.spawn(async move {
                let look = if let Some(activity_probe) = activity_probe {
                    Some(activity_probe.look(&pool.name).await)
                } else {
                    None
                };
                let failed = look.as_ref().and_then(|look| look.as_ref().as_ref().err());
                (incident(&pool, look.as_ref()), failed.and_then(|reason| unseen(&pool, &reason.to_string())))
            });
        }
        let mut found = Gathered::default();
        for (incident, unseen) in asked.join_all().await {
            found.incidents.extend(incident);
            found.unseen.extend(unseen);
        }
        found.incidents.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        found.unseen.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        Ok(found)
    }
}

/// The limits of Weir that several pools share and that are reached, by pool.
fn shared_limits(report: &Report, config: &Config) -> BTreeMap<String, String> {
    let mut limits = BTreeMap::new();
    let shared = shared_servers(&report.pools, config);
    let servers = |of: &dyn Fn(&PoolRecord) -> bool| {
        report.pools.iter().filter(|pool| of(pool)).map(PoolRecord::servers).sum::<u32>()
    };
    for pool in &report.pools {
        let (of_user, of_database) = (config.user_connections(&pool.user), config.db_connections(&pool.database));
        if of_user > 0 && servers(&|other| other.user == pool.user) >= of_user {
            limits.insert(
                pool.database.clone(),
                format!("max_user_connections = {of_user} of user {}", identifier(&pool.user)),
            );
        } else if of_database > 0 && servers(&|other| other.database == pool.database) >= of_database {
            let name = identifier(&pool.database);
            limits.insert(pool.database.clone(), format!("max_db_connections = {of_database} of {name}"));
        } else if let Some(server) = config.server_of(&pool.database)
            && let Some((rules, open)) = shared.get(server)
            && *open >= rules.max_connections
        {
            let limit = format!("max_connections = {} of [servers.{server}]", rules.max_connections);
            limits.insert(pool.database.clone(), limit);
        }
    }
    limits
}

/// A pool whose queries last, and whose server could not be looked at for this reason.
fn unseen(pool: &PoolNow, reason: &str) -> Option<Unseen> {
    let ran = |server: &SocketRecord| server.query_time.map(|at| pool.at.saturating_sub(at) as f64 / 1e6);
    let long: Vec<f64> = pool.servers.iter().filter_map(ran).filter(|seconds| *seconds >= LONG).collect();
    let seconds = long.iter().copied().reduce(f64::max)?;
    Some(Unseen { pool: pool.name.clone(), reason: reason.to_owned(), queries: long.len(), seconds })
}

/// Whether a pool's health is the cause by itself. A pool whose last login failed may have servers that work: `none` of
/// them is in use. A pause is no incident before clients wait for its end.
fn explains(health: &PoolHealth, none: bool) -> bool {
    match health.state {
        Health::NotAnswering | Health::Failing | Health::CannotGrow => true,
        Health::CannotConnect | Health::LoginRejected => none,
        Health::Paused => health.waiting > 0,
        _ => false,
    }
}
