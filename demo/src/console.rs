//! Weir's console, as a monitoring program reads it: SHOW POOLS and SHOW STATS, by the names of their columns.

use weir_pgclient::{Answer, ConnectParams, Connection};

use crate::failure::Failure;
use crate::servers::POOL;

/// A connection to the console.
pub(super) struct Console {
    connection: Connection,
}

/// The pool at one moment; the totals count from Weir's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// Clients that wait for nothing: at work, or idle.
    pub(super) active: usize,
    /// Clients in the queue.
    pub(super) waiting: usize,
    /// Servers that are lent to a client.
    pub(super) servers_active: usize,
    /// Servers that wait for one.
    pub(super) servers_idle: usize,
    /// Transactions so far.
    pub(super) transactions: u64,
    /// Servers handed out so far.
    pub(super) assignments: u64,
    /// Time that clients have waited for them so far, in microseconds.
    pub(super) wait: u64,
}

impl Console {
    pub(super) fn connect(params: &ConnectParams) -> Result<Self, Failure> {
        let connection = Connection::connect(params).map_err(|e| Failure::at("connect to Weir's console", e))?;
        Ok(Console { connection })
    }

    pub(super) fn sample(&mut self) -> Result<Sample, Failure> {
        let failure = |e| Failure::at("ask Weir's console", e);
        let pools = self.connection.query("show pools").map_err(failure)?;
        let stats = self.connection.query("show stats").map_err(failure)?;
        Ok(read(&pools, &stats))
    }
}

/// A row for each user of a pool; there is one user here, but a look is cheap.
fn read(pools: &Answer, stats: &Answer) -> Sample {
    let count = |column| sum(pools, column) as usize;
    Sample {
        active: count("cl_active"),
        waiting: count("cl_waiting"),
        servers_active: count("sv_active"),
        servers_idle: count("sv_idle") + count("sv_used"),
        transactions: sum(stats, "total_xact_count"),
        assignments: sum(stats, "total_server_assignment_count"),
        wait: sum(stats, "total_wait_time"),
    }
}

fn sum(answer: &Answer, column: &str) -> u64 {
    let ours = (0..answer.rows.len()).filter(|row| answer.get(*row, "database") == Some(POOL));
    ours.filter_map(|row| answer.get(row, column)?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(columns: &[&str], rows: &[&[&str]]) -> Answer {
        let cells = |row: &&[&str]| row.iter().map(|cell| Some((*cell).to_owned())).collect();
        Answer {
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            rows: rows.iter().map(cells).collect(),
            tag: "SHOW".to_owned(),
        }
    }

    #[test]
    fn the_pools_rows_are_summed_and_others_left_out() {
        let columns = ["database", "cl_active", "cl_waiting", "sv_active", "sv_idle", "sv_used"];
        let pools = answer(
            &columns,
            &[
                &["weir", "1", "0", "0", "0", "0"],
                &[POOL, "20", "130", "20", "0", "1"],
                &[POOL, "1", "2", "0", "1", "0"],
            ],
        );
        let stats = answer(&["database", "total_xact_count", "total_wait_time"], &[&[POOL, "450", "7000000"]]);
        let sample = read(&pools, &stats);
        assert_eq!((sample.active, sample.waiting), (21, 132));
        assert_eq!((sample.servers_active, sample.servers_idle), (20, 2));
        assert_eq!((sample.transactions, sample.wait, sample.assignments), (450, 7_000_000, 0));
    }
}
