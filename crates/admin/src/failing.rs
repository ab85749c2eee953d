//! Pools whose queries end in errors: what the errors are, in words.
//!
//! Owns which SQLSTATEs say that the server itself is in trouble, the names of conditions, and what to do. Must not know
//! how errors are counted (the engine does).

use weir_base::plural;

use crate::client_names::ClientNames;
use crate::one_line::quoted;
use crate::pool_counters::SqlState;

/// What fails so often that a pool is *failing*. The greater one says more of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum FailingOf {
    /// Queries of one application, whose clients stay in transactions that have failed.
    Aborted,
    /// All transactions of one application in a row: it has too few for a share.
    InARow,
    /// Nearly all transactions of one application, or some by errors of a server in trouble.
    Application,
    /// The servers of the pool: the database server ends them again and again.
    Servers,
    /// The queries of the pool.
    #[default]
    Pool,
}

/// The errors of a pool over the last seconds, where there are so many that the pool is *failing*.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FailingQueries {
    /// What fails.
    pub of: FailingOf,
    /// The first of these errors: microseconds since 1970.
    pub since: u64,
    /// The last one.
    pub last: u64,
    /// The most frequent SQLSTATE.
    pub sqlstate: SqlState,
    /// The errors in the last seconds, of this and other kinds; or the servers that were ended.
    pub errors: u64,
    /// The queries in the same time, or the transactions of the application.
    pub queries: u64,
    /// Clients with such an error; of very many, those that came first.
    pub clients: u32,
    /// Who they are.
    pub by: ClientNames,
}

impl FailingQueries {
    /// Adds another part of the pool, or another pool where both are shown as one: the kind of the one with more errors.
    /// What says more is kept, and of two applications the one with more errors.
    pub(crate) fn add(&mut self, other: &FailingQueries) {
        let is_whole = matches!(self.of, FailingOf::Pool | FailingOf::Servers);
        let is_same = self.of == other.of && (is_whole || self.by.most(1) == other.by.most(1));
        if !is_same {
            if (other.of, other.errors) > (self.of, self.errors) {
                self.clone_from(other);
            }
            return;
        }
        if other.errors > self.errors {
            self.sqlstate = other.sqlstate;
        }
        self.since = self.since.min(other.since);
        self.last = self.last.max(other.last);
        self.errors += other.errors;
        self.queries += other.queries;
        self.clients += other.clients;
        self.by.add(&other.by);
    }

    /// The most frequent SQLSTATE as text.
    pub(crate) fn code(&self) -> String {
        String::from_utf8_lossy(&self.sqlstate).into_owned()
    }

    /// What fails, in a sentence.
    pub(crate) fn message(&self) -> String {
        let name = condition(&self.code()).map(|name| format!(": {name}")).unwrap_or_default();
        let most = self.by.most(1).pop();
        let named = most.as_ref().filter(|it| !it.application_name.is_empty());
        let application = named.map(|it| format!("of application {}", quoted(&it.application_name)));
        let user = || most.as_ref().map(|it| format!("of user {}", quoted(&it.user)));
        let who = || application.clone().or_else(user).unwrap_or_default();
        let (errors, queries) = (self.errors, self.queries.max(self.errors));
        match self.of {
            FailingOf::Pool => {
                let who = application.map(|who| format!(", {who}")).unwrap_or_default();
                format!("{errors} of {queries} queries in the last seconds ended in an error{name}{who}")
            }
            FailingOf::Application => {
                format!("{errors} of {queries} transactions {} in the last seconds ended in an error{name}", who())
            }
            FailingOf::InARow => format!("the last {errors} transactions {} all ended in an error{name}", who()),
            FailingOf::Aborted => format!(
                "{errors} of {queries} queries {} in the last seconds ended in an error: {} in a transaction that has \
                 failed, and {} not roll it back",
                who(),
                plural(self.clients.into(), "client stays", "clients stay"),
                if self.clients == 1 { "does" } else { "do" }
            ),
            FailingOf::Servers => {
                let connections = plural(errors, "connection", "connections");
                format!("the server ended {connections} of the pool in the last seconds{name}")
            }
        }
    }
}

/// Whether applications may make an error on purpose, as by an INSERT that finds its row: a constraint (class 23), one that a
/// function raises (P0001), or what follows in the transaction (25P02). However many these are, they say nothing of a fault.
#[must_use]
pub fn is_on_purpose(code: &SqlState) -> bool {
    code.starts_with(b"23") || code == b"P0001" || code == b"25P02"
}

/// Whether an error says that the server can't do its work, so that a few are a problem: classes 08, 53, 57, 58 and XX,
/// but for queries and sessions that were ended on purpose, and a server that is read-only where a client writes
/// (PostgreSQL documentation, Appendix A).
#[must_use]
pub fn is_grave(code: &SqlState) -> bool {
    match code {
        b"57014" | b"57P05" => false,
        b"25006" => true,
        _ => is_grave_class(&code[..2]),
    }
}

/// Whether the errors of a class of SQLSTATEs are those of a server in trouble.
#[must_use]
pub fn is_grave_class(class: &[u8]) -> bool {
    matches!(class, b"08" | b"53" | b"57" | b"58" | b"XX")
}

/// What PostgreSQL calls a condition, in words; none for those that are seldom (Appendix A).
fn condition(sqlstate: &str) -> Option<&'static str> {
    Some(match sqlstate {
        "08006" => "connection failure",
        "22P02" => "invalid text representation",
        "23503" => "foreign key violation",
        "23505" => "unique violation",
        "25006" => "read-only SQL transaction",
        "25P02" => "in failed SQL transaction",
        "25P03" => "idle in transaction session timeout",
        "26000" => "invalid SQL statement name",
        "28000" => "invalid authorization specification",
        "40001" => "serialization failure",
        "40P01" => "deadlock detected",
        "42501" => "insufficient privilege",
        "42601" => "syntax error",
        "42703" => "undefined column",
        "42883" => "undefined function",
        "42P01" => "undefined table",
        "53000" => "insufficient resources",
        "53100" => "disk full",
        "53200" => "out of memory",
        "53300" => "too many connections",
        "53400" => "configuration limit exceeded",
        "55P03" => "lock not available",
        "57P01" => "admin shutdown",
        "57P02" => "crash shutdown",
        "57P03" => "cannot connect now",
        "57P04" => "database dropped",
        "57014" => "query canceled",
        "58000" => "system error",
        "58030" => "I/O error",
        "58P01" => "undefined file",
        "XX000" => "internal error",
        "XX001" => "data corrupted",
        "XX002" => "index corrupted",
        _ => return None,
    })
}

/// What to do about queries that end in this error, where it says more than the state does.
pub(crate) fn advice(sqlstate: &str) -> Option<&'static str> {
    Some(match sqlstate {
        "25006" => {
            "The server takes no writes: see whether it is a standby, or was demoted, and set target_session_attrs = \
             \"read-write\" for a pool whose clients write."
        }
        "53100" => "Free space on the disks of the database server, those for temporary files included.",
        "53200" => "Free memory on the database server, or lower its work_mem, or the pool's size.",
        "53300" => "Free connections of the database server, or raise its max_connections.",
        "25P02" => {
            "Let the application roll back after an error: until then the server refuses every query of its transaction. \
             Dropping its clients ends these transactions."
        }
        "57P02" | "08006" => {
            "See in the database server's log why it ends connections. It ends all of them when one of its processes crashes, \
             or is killed for want of memory."
        }
        "57P01" | "57P03" => "See in the database server's log why it ends connections.",
        "58030" | "58P01" | "XX001" | "XX002" => {
            "Look at the database server's disks and its log. Data may be damaged: make no further changes before you know."
        }
        "42P01" | "42703" | "42883" => {
            "See what was deployed last: the schema lacks what the application asks for, or the application is older or newer."
        }
        "25P03" => {
            "The server ends transactions in which its client is idle for longer than idle_in_transaction_session_timeout (of the \
             role or the database): see why the application waits in them, or raise that time."
        }
        "26000" => {
            "The application executes a statement that its server does not have. Let its driver prepare them (Parse), as these \
             follow a client from server to server; what PREPARE makes is kept in mode auto and session only."
        }
        "40001" => {
            "Let the application repeat such transactions. Where the server is a standby, it cancels queries that delay its \
             replay: shorten them, raise max_standby_streaming_delay, or set hot_standby_feedback."
        }
        "57014" => {
            "See whether statement_timeout (of the role, the database or the application) ends these queries, and why they have \
             become slow; or who cancels them."
        }
        "42501" => "See which privileges of the pool's user were revoked.",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_a_server_in_trouble_are_grave_and_what_was_ended_on_purpose_is_not() {
        for code in [b"53100", b"53200", b"57P01", b"58030", b"08006", b"XX001", b"25006"] {
            assert!(is_grave(code), "{code:?}");
        }
        for code in [b"57014", b"57P05", b"23505", b"42P01", b"22012", b"40001", b"25P02"] {
            assert!(!is_grave(code), "{code:?}");
        }
    }

    #[test]
    fn the_words_have_the_condition_and_the_application() {
        let mut by = ClientNames::default();
        by.count("ann", "orders", 3);
        let mut failing = FailingQueries {
            of: FailingOf::Pool,
            since: 1,
            last: 2,
            sqlstate: *b"53100",
            errors: 9,
            queries: 12,
            clients: 3,
            by,
        };
        assert_eq!(
            failing.message(),
            "9 of 12 queries in the last seconds ended in an error: disk full, of application \"orders\""
        );
        failing.by.count("eve", "ok\". Weir is healthy: nothing to do (it \"", 9);
        let own: String = failing.message().split('"').step_by(2).collect();
        assert!(own.ends_with("disk full, of application "), "{}", failing.message());
        failing.of = FailingOf::Application;
        assert!(failing.message().starts_with("9 of 12 transactions of application \"ok\"\". Weir is"), "{failing:?}");
        let mut nameless = FailingQueries { by: ClientNames::default(), ..failing.clone() };
        nameless.by.count("ann", "", 3);
        let words = "9 of 12 transactions of user \"ann\" in the last seconds ended in an error: disk full";
        assert_eq!(nameless.message(), words);
        failing.add(&FailingQueries { of: FailingOf::Servers, sqlstate: *b"57P01", errors: 4, ..nameless });
        assert_eq!(failing.message(), "the server ended 4 connections of the pool in the last seconds: admin shutdown");
        let stay = FailingQueries { of: FailingOf::Aborted, sqlstate: *b"25P02", errors: 9, ..failing.clone() };
        assert!(stay.message().ends_with(": 3 clients stay in a transaction that has failed, and do not roll it back"));
        let row = FailingQueries { of: FailingOf::InARow, sqlstate: *b"42P01", errors: 7, ..failing.clone() };
        assert!(row.message().starts_with("the last 7 transactions of user "), "{}", row.message());
        assert!(advice("53100").is_some_and(|advice| advice.contains("disks")));
    }
}
