//! The end of a lost node's connections at the database server, by a connection of the pool's own user.
//!
//! Which connections are the lost node's is known from the process ids that nodes record in etcd. One that nobody has
//! recorded is not ended, but counted: it may be the lost node's, or another program's. The caller has a connection of the
//! pool's share to spare, as this needs one. That connection names its node, so that it counts as the node's if that is lost too.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::{Span, Target};
use weir_cluster::{Ending, Lost};
use weir_config::{Config, Pool};
use weir_pgclient::Connection;

use crate::pool_test::{self, Login, OF_CLIENTS};

/// The application_name of this connection: this and the node's name, as far as PostgreSQL takes it.
const APPLICATION: &str = "weir cluster ";
const LONGEST_NAME: usize = 63;
/// How long a server may take as a whole.
const TIMEOUT: Duration = Duration::from_secs(8);
/// So often the server is asked whether they have ended, with this pause.
const LOOKS: u32 = 12;
const PAUSE: Duration = Duration::from_millis(150);

/// What is known of connections.
struct Known {
    ending: Ending,
    /// The process ids of this node's.
    own: BTreeSet<u32>,
    /// The application_name of the lost node's connection that ends another one's.
    application: String,
}

/// A connection at the server.
struct Open {
    pid: u32,
    idle: bool,
    application: String,
    /// It began so long ago that it can't be one that ends a node's connections, unless its process is frozen.
    old: bool,
}

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
        let known = Known { ending, own, application: application(&lost.node) };
        let begun = Instant::now();
        let run = move || {
            let _ = sender.send(end(&config, &name, &known, (begun, lease)));
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
fn end(config: &Config, name: &str, known: &Known, (begun, lease): (Instant, Duration)) -> Result<u32, String> {
    let pool = config.pools.get(name).ok_or("the pool is not in this node's configuration")?;
    let mut left = 0;
    for target in &pool.targets {
        if begun.elapsed() > TIMEOUT / 4 {
            // This process may have been frozen, and its share be another's.
            return Err("it took too long".to_owned());
        }
        let rest = lease.saturating_sub(begun.elapsed());
        left += end_at(config, (pool, target), known, known.ending.floor.saturating_sub(left), rest)?;
    }
    Ok(left)
}

fn end_at(
    config: &Config,
    (pool, target): (&Pool, &Target),
    known: &Known,
    floor: u32,
    timeout: Duration,
) -> Result<u32, String> {
    let Login::As { user, password } = pool_test::login(config, pool) else {
        return Err("it logs in with its clients' passwords, and none is known".to_owned());
    };
    let at = Pool { targets: vec![target.clone()], ..pool.clone() };
    let own = application(&config.cluster.node);
    let options = [("application_name", own.as_str())];
    let mut connection =
        pool_test::connect(timeout, config, &at, (&user, password.as_deref()), &options).map_err(|error| error.text)?;
    let failed = |error: weir_pgclient::Error| format!("{target}: {error}");
    let left = end_by(&mut connection, pool.user.is_some(), known, floor).map_err(failed)?;
    // It is this node's share again only when the server counts it no more.
    connection.end().map_err(failed)?;
    Ok(left)
}

fn end_by(connection: &mut Connection, one_user: bool, known: &Known, floor: u32) -> Result<u32, weir_pgclient::Error> {
    let mut left = 0;
    for look in 0..LOOKS {
        let mut open = open(connection, one_user)?;
        open.retain(|open| known.may_be_theirs(open));
        left = open.len() as u32;
        let mut theirs: Vec<&Open> = open.iter().filter(|open| known.is_theirs(open)).collect();
        // Those that run nothing first.
        theirs.sort_by_key(|open| (!open.idle, open.pid));
        let excess = theirs.len().saturating_sub(floor as usize);
        if left <= floor || (excess == 0 && look >= LOOKS / 3) {
            break;
        }
        for Open { pid, .. } in &theirs[..excess] {
            connection.query(&format!("select pg_catalog.pg_terminate_backend({pid})"))?;
        }
        thread::sleep(PAUSE);
    }
    Ok(left)
}

impl Known {
    fn is_theirs(&self, open: &Open) -> bool {
        self.ending.theirs.contains(&open.pid) || open.application == self.application
    }

    fn may_be_theirs(&self, open: &Open) -> bool {
        // Those of other nodes that do the same are of their shares.
        let of_another = open.application.starts_with(APPLICATION) && open.application != self.application;
        !self.ending.others.contains(&open.pid) && !self.own.contains(&open.pid) && (open.old || !of_another)
    }
}

/// What the connection of this node is called at the server, which takes printable ASCII, and not more than this.
fn application(node: &str) -> String {
    let printable = |c: char| if c.is_ascii_graphic() || c == ' ' { c } else { '?' };
    APPLICATION.chars().chain(node.chars().map(printable)).take(LONGEST_NAME).collect()
}

/// The connections to the pool's database, except this one.
fn open(connection: &mut Connection, one_user: bool) -> Result<Vec<Open>, weir_pgclient::Error> {
    let of_user = if one_user { " and usename = current_user" } else { "" };
    let query = format!(
        "select pid, coalesce(state, ''), application_name, backend_start <= now() - interval '{} s' \
         from pg_catalog.pg_stat_activity where datname = current_database() \
         and {OF_CLIENTS} and pid <> pg_catalog.pg_backend_pid(){of_user}",
        TIMEOUT.as_secs()
    );
    let rows = connection.query(&query)?.rows;
    let value = |row: &Vec<Option<String>>, at: usize| row.get(at).cloned().flatten();
    let entry = |row: &Vec<Option<String>>| {
        Some(Open {
            pid: value(row, 0)?.parse().ok()?,
            idle: value(row, 1)? == "idle",
            application: value(row, 2).unwrap_or_default(),
            old: value(row, 3).as_deref() != Some("f"),
        })
    };
    Ok(rows.iter().filter_map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(pid: u32, application: &str, old: bool) -> Open {
        Open { pid, idle: true, application: application.to_owned(), old }
    }

    #[test]
    fn a_connection_that_ends_others_counts_as_its_nodes() {
        let ending = Ending { floor: 0, theirs: [1].into(), others: [2].into() };
        let known = Known { ending, own: [3].into(), application: application("a") };
        let is = |open: Open| (known.may_be_theirs(&open), known.is_theirs(&open));
        assert_eq!(is(open(1, "x", true)), (true, true), "it is recorded");
        assert_eq!(is(open(4, "x", false)), (true, false), "nobody has recorded it");
        assert!(!is(open(2, "x", false)).0 && !is(open(3, "x", false)).0, "it is another's, or this node's");
        assert_eq!(is(open(4, "weir cluster a", false)), (true, true), "however young it is");
        assert_eq!(is(open(4, "weir cluster b", false)), (false, false));
        assert_eq!(is(open(4, "weir cluster b", true)), (true, false), "b has ended long ago, or is frozen");
    }

    #[test]
    fn a_nodes_name_is_one_that_the_server_does_not_change() {
        assert_eq!(application("na\u{ef}ve"), "weir cluster na?ve");
        assert_eq!(application(&"n".repeat(100)).len(), 63);
    }
}
