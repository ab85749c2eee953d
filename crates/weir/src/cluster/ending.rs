//! The end of a lost node's connections at the database server, by a connection of the pool's own user.
//!
//! Which connections are the lost node's is known from the process ids that nodes record in etcd. One that nobody has
//! recorded is not ended, but counted: it may be the lost node's, or another program's. The caller has a connection of the
//! pool's share to spare, as this needs one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::{Span, Target};
use weir_cluster::{Ending, Lost};
use weir_config::{Config, Pool};
use weir_pgclient::Connection;

use crate::pool_test::{self, Login, OF_CLIENTS};

/// The application_name of this connection.
const APPLICATION: &str = "weir cluster";
/// How long a server may take as a whole.
const TIMEOUT: Duration = Duration::from_secs(8);
/// So often the server is asked whether they have ended, with this pause.
const LOOKS: u32 = 12;
const PAUSE: Duration = Duration::from_millis(150);

/// What is recorded of the lost node's connections, and the process ids of this node's.
type Known<'a> = (&'a Ending, &'a BTreeSet<u32>);

/// An end under way, on a thread of its own: the node's heartbeats go on.
pub(super) struct Run {
    pub(super) lost: Lost,
    result: Receiver<Result<u32, String>>,
}

impl Run {
    /// Begins to end a lost node's connections. `own` are the process ids of this node's. `lease`: all must be over by then.
    pub(super) fn start(
        config: Arc<Config>,
        lost: Lost,
        (ending, own): (Ending, BTreeSet<u32>),
        lease: Option<Span>,
    ) -> Result<Run, String> {
        let lease = lease.map_or(TIMEOUT, |lease| TIMEOUT.min(Duration::from_micros(lease.micros())));
        let (sender, result) = mpsc::sync_channel(1);
        let name = lost.pool.clone();
        let begun = Instant::now();
        let run = move || {
            let _ = sender.send(end(&config, &name, (&ending, &own), (begun, lease)));
        };
        thread::Builder::new().name("cluster-end".into()).spawn(run).map_err(|error| error.to_string())?;
        Ok(Run { lost, result })
    }

    /// How many connections the lost node may still have; `None` while that is not known.
    pub(super) fn result(&self) -> Option<Result<u32, String>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err("the thread has ended".to_owned())),
        }
    }
}

/// At all servers of the pool.
fn end(config: &Config, name: &str, known: Known<'_>, (begun, lease): (Instant, Duration)) -> Result<u32, String> {
    let pool = config.pools.get(name).ok_or("the pool is not in this node's configuration")?;
    let mut left = 0;
    for target in &pool.targets {
        if begun.elapsed() > TIMEOUT / 4 {
            // This process may have been frozen, and its share be another's.
            return Err("it took too long".to_owned());
        }
        let rest = lease.saturating_sub(begun.elapsed());
        left += end_at(config, (pool, target), known, known.0.floor.saturating_sub(left), rest)?;
    }
    Ok(left)
}

fn end_at(
    config: &Config,
    (pool, target): (&Pool, &Target),
    known: Known<'_>,
    floor: u32,
    timeout: Duration,
) -> Result<u32, String> {
    let Login::As { user, password } = pool_test::login(config, pool) else {
        return Err("it logs in with its clients' passwords, and none is known".to_owned());
    };
    let at = Pool { targets: vec![target.clone()], ..pool.clone() };
    let options = [("application_name", APPLICATION)];
    let mut connection =
        pool_test::connect(timeout, config, &at, (&user, password.as_deref()), &options).map_err(|error| error.text)?;
    let failed = |error: weir_pgclient::Error| format!("{target}: {error}");
    let left = end_by(&mut connection, pool.user.is_some(), known, floor).map_err(failed)?;
    // It is this node's share again only when the server counts it no more.
    connection.end().map_err(failed)?;
    Ok(left)
}

fn end_by(
    connection: &mut Connection,
    one_user: bool,
    (ending, own): Known<'_>,
    floor: u32,
) -> Result<u32, weir_pgclient::Error> {
    let mut left = 0;
    for look in 0..LOOKS {
        let open = open(connection, one_user)?;
        let may_be_theirs = |pid: &u32| !ending.others.contains(pid) && !own.contains(pid);
        let idle = |pid: &&u32| open.get(pid).is_none_or(|state| state != "idle");
        let mut theirs: Vec<&u32> =
            open.keys().filter(|pid| ending.theirs.contains(pid)).filter(|p| may_be_theirs(p)).collect();
        // Those that run nothing first.
        theirs.sort_by_key(idle);
        left = open.keys().filter(|pid| may_be_theirs(pid)).count() as u32;
        let excess = theirs.len().saturating_sub(floor as usize);
        if left <= floor || (excess == 0 && look >= LOOKS / 3) {
            break;
        }
        for pid in &theirs[..excess] {
            connection.query(&format!("select pg_catalog.pg_terminate_backend({pid})"))?;
        }
        thread::sleep(PAUSE);
    }
    Ok(left)
}

/// The connections to the pool's database, except this one and its like: process id and state.
fn open(connection: &mut Connection, one_user: bool) -> Result<BTreeMap<u32, String>, weir_pgclient::Error> {
    let of_user = if one_user { " and usename = current_user" } else { "" };
    // Those of other nodes that do the same are of their shares.
    let query = format!(
        "select pid, coalesce(state, '') from pg_catalog.pg_stat_activity where datname = current_database() \
         and {OF_CLIENTS} and pid <> pg_catalog.pg_backend_pid(){of_user} \
         and not (application_name = '{APPLICATION}' and backend_start > now() - interval '{} s')",
        TIMEOUT.as_secs()
    );
    let rows = connection.query(&query)?.rows;
    let value = |row: &Vec<Option<String>>, at: usize| row.get(at).cloned().flatten();
    let entry = |row: &Vec<Option<String>>| Some((value(row, 0)?.parse().ok()?, value(row, 1)?));
    Ok(rows.iter().filter_map(entry).collect())
}
