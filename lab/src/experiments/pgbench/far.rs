//! pgbench's own transaction for clients with network latency to the server.
//!
//! Each of its seven statements waits for a round trip, where a client does: after the answer, before the next
//! statement. So a connection is held for six round trips, and the seventh is outside the transaction.

const STATEMENTS: [&str; 7] = [
    "BEGIN;",
    "UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;",
    "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
    "UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;",
    "UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;",
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);",
    "END;",
];

const VARIABLES: &str = "\\set aid random(1, 100000 * :scale)\n\\set bid random(1, 1 * :scale)\n\
                         \\set tid random(1, 10 * :scale)\n\\set delta random(-5000, 5000)\n";

/// The script, with `way_ms` milliseconds of latency for each statement.
pub(super) fn script(way_ms: u32) -> String {
    let each = STATEMENTS.iter().map(|statement| format!("{statement}\n\\sleep {way_ms} ms\n"));
    std::iter::once(VARIABLES.to_owned()).chain(each).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_statement_has_its_way_and_the_last_one_is_outside_the_transaction() {
        let script = script(40);
        assert_eq!(script.matches("\\sleep 40 ms\n").count(), 7);
        assert!(script.ends_with("END;\n\\sleep 40 ms\n"), "{script}");
        assert!(script.starts_with("\\set aid random(1, 100000 * :scale)\n"), "{script}");
    }
}
