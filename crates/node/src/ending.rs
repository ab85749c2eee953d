//! The end of a lost node's connections at the database server, by a connection of the pool's own user.
//!
//! Which connections are the lost node's is decided by what nodes record in etcd (`weir_cluster::Ending`). The caller
//! has a connection of the pool's share to spare, as this needs one, and records it like the others of this node.

use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::{Span, Target};
use weir_cluster::{BackendId, Ending, Lost, Open};
use weir_config::{Config, PoolConfig};
use weir_pgclient::{Connection, Error};
use weir_probes::{OF_CLIENTS, log_in_as_pool};

use crate::error::NodeError;

/// The application_name of this connection, for those who read the server's list: this and the node's name, as far as
/// PostgreSQL takes it.
const APPLICATION: &str = "weir cluster ";
const LONGEST_NAME: usize = 63;
/// How long a server may take as a whole.
const TIMEOUT: Duration = Duration::from_secs(8);
/// How often the server is asked whether the connections have ended, and the pause between two questions.
const LOOKS: u32 = 12;
const PAUSE: Duration = Duration::from_millis(150);

/// An end under way, on a thread of its own: the node's heartbeats go on.
pub(crate) struct Run {
    pub(crate) lost: Lost,
    shared: Arc<Shared>,
    result: Receiver<Result<u32, NodeError>>,
}

/// What both threads know.
struct Shared {
    ending: Mutex<Ending>,
    /// This node's connection.
    own: Mutex<Option<BackendId>>,
}

impl Shared {
    fn ending(&self) -> MutexGuard<'_, Ending> {
        self.ending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_own(&self, own: Option<BackendId>) {
        *self.own.lock().unwrap_or_else(PoisonError::into_inner) = own;
    }
}

impl Run {
    /// Begins to end a lost node's connections. `lease`: all must be over by then.
    pub(crate) fn start(
        config: Arc<Config>,
        lost: Lost,
        ending: Ending,
        lease: Option<Span>,
    ) -> Result<Run, NodeError> {
        let lease = lease.map_or(TIMEOUT, |lease| TIMEOUT.min(Duration::from_micros(lease.micros())));
        let (sender, result) = mpsc::sync_channel(1);
        let name = lost.pool.clone();
        let shared = Arc::new(Shared { ending: Mutex::new(ending), own: Mutex::new(None) });
        let (begun, known) = (Instant::now(), shared.clone());
        let run = move || {
            let _ = sender.send(end(&config, &name, &known, begun, lease));
        };
        thread::Builder::new()
            .name("cluster-end".into())
            .spawn(run)
            .map_err(|error| NodeError::Thread(error.to_string()))?;
        Ok(Run { lost, shared, result })
    }

    /// What nodes have recorded by now: they end connections of the same lost node, too.
    pub(crate) fn learn(&self, ending: Ending) {
        *self.shared.ending() = ending;
    }

    /// The connection that this needs.
    pub(crate) fn own(&self) -> Option<BackendId> {
        *self.shared.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many connections the lost node may still have; `None` while that is not known.
    pub(crate) fn result(&self) -> Option<Result<u32, NodeError>> {
        match self.result.try_recv() {
            Ok(result) => Some(result),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(NodeError::Thread("the thread has ended".to_owned()))),
        }
    }
}

/// Ends the lost node's connections at all servers of the pool.
fn end(config: &Config, name: &str, known: &Shared, begun: Instant, lease: Duration) -> Result<u32, NodeError> {
    let pool = config.pools.get(name).ok_or(NodeError::NoPool)?;
    let mut left = 0;
    for target in &pool.targets {
        if begun.elapsed() > TIMEOUT / 4 {
            // This process may have been frozen, and its share be another's.
            return Err(NodeError::TooSlow);
        }
        let rest = lease.saturating_sub(begun.elapsed());
        left += end_at(config, pool, target, known, left, rest)?;
    }
    Ok(left)
}

/// `elsewhere`: how many the lost node may have at other servers of the pool.
fn end_at(
    config: &Config,
    pool: &PoolConfig,
    target: &Target,
    known: &Shared,
    elsewhere: u32,
    timeout: Duration,
) -> Result<u32, NodeError> {
    let at = PoolConfig { targets: vec![target.clone()], ..pool.clone() };
    let own = application(&config.cluster.node);
    let options = [("application_name", own.as_str())];
    let mut connection =
        log_in_as_pool(timeout, config, &at, &options).map_err(|why| NodeError::Server(why.to_string()))?.connection;
    let failed = |error: Error| NodeError::server(target, &error);
    known.set_own(own_backend(&mut connection).map_err(failed)?);
    let left = end_by(&mut connection, pool.user.is_some(), known, elsewhere).map_err(failed)?;
    // The connection is this node's share again only when the server counts it no more.
    connection.end().map_err(failed)?;
    known.set_own(None);
    Ok(left)
}

fn end_by(connection: &mut Connection, one_user: bool, known: &Shared, elsewhere: u32) -> Result<u32, Error> {
    let mut left = 0;
    for _ in 0..LOOKS {
        let open = open(connection, one_user)?;
        let ending = known.ending().clone();
        let floor = ending.floor.saturating_sub(elsewhere);
        let decided = Ending { floor, ..ending }.decide(&open);
        left = decided.left;
        if left <= floor {
            break;
        }
        for backend in &decided.end {
            connection.query(&terminate(*backend))?;
        }
        thread::sleep(PAUSE);
    }
    Ok(left)
}

/// When a backend began, as an integer.
const STARTED: &str = "(extract(epoch from backend_start) * 1000000)::bigint";

/// Ends this backend, and none that has its process id by now.
fn terminate(BackendId { pid, started }: BackendId) -> String {
    format!(
        "select pg_catalog.pg_terminate_backend(pid) from pg_catalog.pg_stat_activity where pid = {pid} and {STARTED} = {started}"
    )
}

/// What the connection of this node is called at the server, which takes printable ASCII, and not more than this.
fn application(node: &str) -> String {
    let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    APPLICATION.chars().chain(node.chars().map(printable)).take(LONGEST_NAME).collect()
}

fn own_backend(connection: &mut Connection) -> Result<Option<BackendId>, Error> {
    let query =
        format!("select pid, {STARTED} from pg_catalog.pg_stat_activity where pid = pg_catalog.pg_backend_pid()");
    let rows = connection.query(&query)?.rows;
    let number = |at: usize| rows.first()?.get(at)?.as_ref()?.parse::<u64>().ok();
    Ok(number(0).zip(number(1)).and_then(|(pid, started)| Some(BackendId { pid: u32::try_from(pid).ok()?, started })))
}

/// The connections to the pool's database, except this one.
fn open(connection: &mut Connection, one_user: bool) -> Result<Vec<Open>, Error> {
    let of_user = if one_user { " and usename = current_user" } else { "" };
    let query = format!(
        "select pid, coalesce(state, ''), {STARTED} from pg_catalog.pg_stat_activity \
         where datname = current_database() and {OF_CLIENTS} and pid <> pg_catalog.pg_backend_pid(){of_user}"
    );
    let rows = connection.query(&query)?.rows;
    let value = |row: &Vec<Option<String>>, at: usize| row.get(at).cloned().flatten();
    let entry = |row: &Vec<Option<String>>| {
        Some(Open {
            pid: value(row, 0)?.parse().ok()?,
            idle: value(row, 1)? == "idle",
            started: value(row, 2).and_then(|started| started.parse().ok()),
        })
    };
    Ok(rows.iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_is_ended_only_if_it_began_when_it_was_recorded() {
        let text = terminate(BackendId { pid: 20, started: 1_700_000_000_000_000 });
        assert!(
            text.contains("where pid = 20 and (extract(epoch from backend_start)")
                && text.ends_with("= 1700000000000000")
        );
    }

    #[test]
    fn a_nodes_name_is_one_that_the_server_does_not_change() {
        assert_eq!(application("na\u{ef}ve"), "weir cluster na?ve");
        assert_eq!(application(&"n".repeat(100)).len(), 63);
    }
}
