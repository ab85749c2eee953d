//! The accounts in a moment of quiet: what the console says, what PostgreSQL says, what the kernel says, what we know.
//!
//! With everybody at rest all of it must agree, to the last client: POOLS with CLIENTS and with the connections that we
//! hold, POOLS with SERVERS and with PostgreSQL's own table of its processes, and descriptors with both.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{Answer, Connection};

use super::world::{POOLS, World};
use crate::error::{Error, Outcome};
use crate::setup::USER;
use weir_pglocal::proc;

/// How long what was cut a moment ago may take to be noticed.
const SETTLE: Duration = Duration::from_secs(5);

/// Compares the counts.
#[derive(Debug)]
pub(super) struct Auditor {
    console: Option<Connection>,
    superuser: Connection,
    pid: Option<u32>,
    /// Descriptors beside those of clients, servers and consoles, at the first look.
    own_descriptors: Option<i64>,
    queries_before: u64,
}

/// What a look saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) clients: i64,
    pub(super) servers: i64,
    pub(super) descriptors: i64,
    pub(super) rss: u64,
    /// What does not add up.
    pub(super) faults: Vec<String>,
}

impl Auditor {
    pub(super) fn new(world: &World, superuser: Connection, pid: Option<u32>) -> Outcome<Auditor> {
        let console = if world.promises.console { Some(Connection::connect(world.console())?) } else { None };
        Ok(Auditor { console, superuser, pid, own_descriptors: None, queries_before: 0 })
    }

    /// Looks until all agrees, or for as long as the last deaths may take to be noticed.
    pub(super) fn look(&mut self, world: &World) -> Outcome<Sight> {
        let end = Instant::now() + SETTLE;
        loop {
            let sight = self.look_once(world)?;
            if sight.faults.is_empty() || Instant::now() > end {
                return Ok(sight);
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn look_once(&mut self, world: &World) -> Outcome<Sight> {
        let clients = (0..POOLS.len()).map(|pool| world.open(pool)).sum();
        let mut sight = Sight { clients, ..Sight::default() };
        let backends = self.backends(&mut sight)?;
        sight.servers = i64::try_from(backends.len()).unwrap_or(i64::MAX);
        if let Some(console) = &mut self.console {
            let mut show =
                |what: &str| console.query(&format!("SHOW {what}")).map_err(|e| Error::at(format!("SHOW {what}"), e));
            let counts = ShownCounts { pools: show("POOLS")?, clients: show("CLIENTS")?, servers: show("SERVERS")? };
            let stats = show("STATS_TOTALS")?;
            counts.check(world, &backends, &mut sight.faults);
            self.check_growth(&stats, &mut sight.faults);
        }
        self.check_descriptors(world, &mut sight);
        Ok(sight)
    }

    /// The processes that serve our user: none of them may be in a transaction now.
    fn backends(&mut self, sight: &mut Sight) -> Outcome<BTreeSet<String>> {
        let sql = format!("select pid, state from pg_stat_activity where usename = '{USER}'");
        let answer = self.superuser.query(&sql)?;
        let mut pids = BTreeSet::new();
        for at in 0..answer.rows.len() {
            let (pid, state) = (answer.get(at, "pid").unwrap_or_default(), answer.get(at, "state").unwrap_or("none"));
            pids.insert(pid.to_owned());
            if state != "idle" {
                sight.faults.push(format!("server {pid} is {state} while all clients rest"));
            }
        }
        Ok(pids)
    }

    fn check_growth(&mut self, stats: &Answer, faults: &mut Vec<String>) {
        let queries = (0..stats.rows.len()).map(|at| number(stats, at, "query_count")).sum::<i64>();
        let queries = u64::try_from(queries).unwrap_or(0);
        if queries < self.queries_before {
            faults.push(format!("query_count fell from {} to {queries}", self.queries_before));
        }
        self.queries_before = queries;
    }

    fn check_descriptors(&mut self, world: &World, sight: &mut Sight) {
        let Some(pid) = self.pid else { return };
        sight.rss = proc::rss(pid).unwrap_or(0);
        let all = proc::descriptors(pid).and_then(|count| i64::try_from(count).ok());
        let Some(all) = all else { return sight.faults.push("the process's descriptors can't be counted".to_owned()) };
        sight.descriptors = all;
        let own = all - sight.clients - sight.servers - world.consoles();
        // The first look that finds no fault sets the level.
        match self.own_descriptors {
            None if sight.faults.is_empty() => self.own_descriptors = Some(own),
            Some(level) if own != level => {
                let (clients, servers) = (sight.clients, sight.servers);
                sight.faults.push(format!(
                    "{all} descriptors for {clients} clients and {servers} servers, and {own} \
                                           others instead of {level}"
                ));
            }
            _ => {}
        }
    }
}

/// The console's tables.
struct ShownCounts {
    pools: Answer,
    clients: Answer,
    servers: Answer,
}

impl ShownCounts {
    fn check(&self, world: &World, backends: &BTreeSet<String>, faults: &mut Vec<String>) {
        for (at, pool) in POOLS.iter().enumerate() {
            let counts = self.pool(pool.name);
            let count = |name: &str| counts.get(name).copied().unwrap_or(0);
            let mut equal = |what: &str, is: i64, must: i64| {
                if is != must {
                    faults.push(format!("{}: {what} is {is} instead of {must}", pool.name));
                }
            };
            let servers: i64 = SERVER_STATES.iter().map(|state| count(state)).sum();
            equal("cl_active + cl_waiting", count("cl_active") + count("cl_waiting"), world.open(at));
            equal("cl_waiting", count("cl_waiting"), 0);
            equal("sv_active", count("sv_active"), 0);
            equal("sv_login", count("sv_login"), 0);
            equal("rows in CLIENTS", rows_of(&self.clients, pool.name), world.open(at));
            equal("rows in SERVERS", rows_of(&self.servers, pool.name), servers);
            if servers > i64::from(pool.size) {
                faults.push(format!("{}: {servers} servers in a pool of {}", pool.name, pool.size));
            }
        }
        let pids: BTreeSet<_> = (0..self.servers.rows.len())
            .filter_map(|at| self.servers.get(at, "remote_pid"))
            .map(str::to_owned)
            .collect();
        if pids != *backends {
            faults.push(format!("SERVERS has the processes {pids:?}, PostgreSQL {backends:?}"));
        }
    }

    /// The counts of one pool, of all its users.
    fn pool(&self, name: &str) -> BTreeMap<&str, i64> {
        let mut counts = BTreeMap::new();
        let rows = (0..self.pools.rows.len()).filter(|at| self.pools.get(*at, "database") == Some(name));
        for at in rows {
            for column in &self.pools.columns {
                *counts.entry(column.as_str()).or_insert(0) += number(&self.pools, at, column);
            }
        }
        counts
    }
}

/// The columns of SHOW POOLS that count servers, each in one of them.
const SERVER_STATES: [&str; 6] = ["sv_active", "sv_being_canceled", "sv_idle", "sv_used", "sv_tested", "sv_login"];

fn rows_of(table: &Answer, pool: &str) -> i64 {
    let count = (0..table.rows.len()).filter(|at| table.get(*at, "database") == Some(pool)).count();
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// A number in a table; text, and what is not there, counts as 0.
fn number(table: &Answer, row: usize, column: &str) -> i64 {
    table.get(row, column).and_then(|text| text.parse().ok()).unwrap_or(0)
}
