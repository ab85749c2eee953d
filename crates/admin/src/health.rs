//! The health of a pool: one word, the same in the panel, the API, the console, the metrics and the log.
//!
//! Owns the states with their names and what to do in each, and the figures that decide beside a pool's counts. Must
//! not know the rule (`health_rule`), nor since when a state holds (`health_watch`).

use std::fmt;

use weir_base::{Span, Target};
use weir_config::HEALTH_STATES;

use crate::client_names::ClientNames;
use crate::clock::timestamp;
use crate::failing::{self, FailingQueries};
use crate::finding::Finding;
use crate::one_line::one_line;
use crate::refused_clients::RefusedClients;

/// A server whose client or query has not moved for this long counts as motionless; a login without an answer for this
/// long counts as failed.
pub const MOTIONLESS: Span = Span::from_secs(3);

/// A client that has read nothing of its result for so long holds its server up.
pub const UNREAD: Span = Span::from_secs(10);

/// The SQLSTATEs of a server that refuses the user, the password or the database, beside class 28: no such database,
/// and no privilege to connect to it (PostgreSQL documentation, Appendix A).
const REJECTIONS: [&str; 2] = ["3D000", "42501"];

/// The SQLSTATE classes of a server that answers a login, and can't serve it: no resources, a system error, an internal one.
const REFUSES: [&str; 3] = ["53", "58", "XX"];

/// Weir's own words for a server that is not what the pool's `target_session_attrs` wants.
const ATTRIBUTES: [&str; 4] = [
    "session is read-only",
    "session is not read-only",
    "server is in hot standby mode",
    "server is not in hot standby mode",
];

/// The state of a pool. A greater state is worse, and stands for several pools that are shown as one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Health {
    /// No login at the server has succeeded or failed yet, and no client waits for one.
    #[default]
    Untried,
    /// The last login succeeded, and no client waits.
    Healthy,
    /// Clients wait, and servers become free or are being opened.
    Waiting,
    /// An operator has disabled the database: new clients are refused.
    Disabled,
    /// An operator has paused the pool: all clients wait.
    Paused,
    /// Queries take far longer than they did before.
    Slow,
    /// The servers that are open work, and no other one can be opened.
    CannotGrow,
    /// All servers are busy, and the oldest client has waited for [`crate::LONG_WAIT`].
    Saturated,
    /// Clients wait, and no server moves: all are held by clients that idle in a transaction, or by queries behind
    /// them.
    Stalled,
    /// Queries wait for a lock that another session holds.
    Blocked,
    /// Queries end in errors of the server: those of a server in trouble, or suddenly most of them.
    Failing,
    /// The server gives no answer: neither to what was asked, nor to a new connection.
    NotAnswering,
    /// No connection to the server can be opened.
    CannotConnect,
    /// The server refuses the user, the password or the database.
    LoginRejected,
}

impl Health {
    /// All states, in their order.
    pub const ALL: [Health; HEALTH_STATES.len()] = [
        Health::Untried,
        Health::Healthy,
        Health::Waiting,
        Health::Disabled,
        Health::Paused,
        Health::Slow,
        Health::CannotGrow,
        Health::Saturated,
        Health::Stalled,
        Health::Blocked,
        Health::Failing,
        Health::NotAnswering,
        Health::CannotConnect,
        Health::LoginRejected,
    ];

    /// The state in words.
    pub fn name(self) -> &'static str {
        HEALTH_STATES[self as usize]
    }

    /// What to do, as a sentence; empty where nothing is to be done.
    pub fn advice(self) -> &'static str {
        match self {
            Health::Untried => "Nothing; a test of the pool shows whether its login works.",
            Health::Healthy => "",
            Health::Waiting => "Nothing, while waits stay short.",
            Health::Disabled => "Enable the pool to accept new clients again.",
            Health::Paused => "Resume the pool to serve its clients.",
            Health::Slow => {
                "See what the database server does: locks, its disks and CPU, a plan that has changed (EXPLAIN), a deployment. A \
                 larger pool makes it slower."
            }
            Health::CannotGrow => {
                "Find out why the database server takes no new connections, before those that are open end. A larger pool changes nothing."
            }
            Health::Saturated => "Look for slow queries first; enlarge the pool only if the database has CPU to spare.",
            Health::Stalled => "End the transaction of the client that idles longest.",
            Health::Blocked => "End the transaction that holds the lock. A larger pool would be blocked as well.",
            Health::Failing => {
                "Read the database server's log, and see what was changed last. A larger pool changes nothing."
            }
            Health::NotAnswering => {
                "Look at the database server itself: its processes, its disks, its load. A larger pool changes nothing."
            }
            Health::CannotConnect => "Check that the database server runs and is reachable from here.",
            Health::LoginRejected => "Correct the pool's user, password or database name.",
        }
    }

    /// Whether the state is a problem by itself: clients are affected, and no operator caused it on purpose. Whether a
    /// pool has one, [`PoolHealth::is_problem`] says.
    pub(crate) fn is_problem(self) -> bool {
        self >= Health::Slow
    }
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What decides a pool's health besides its counts of clients and servers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symptoms {
    /// A login at the server has succeeded, in this process or in the one that it took over from.
    pub logged_in: bool,
    /// How the last login at the server failed; none if it succeeded.
    pub failure: Option<LoginFailure>,
    /// Why the pool can't open the servers that it has room for, if that has lasted for [`MOTIONLESS`]: logins fail, or the
    /// one under way has no answer.
    pub barred: Option<LoginFailure>,
    /// A server is being opened, or its login waits for its turn at the host.
    pub opening: bool,
    /// How long the login under way has lasted.
    pub login_age: Span,
    /// Servers whose client must act next, and has not for [`MOTIONLESS`].
    pub awaiting_client: u32,
    /// Servers that have run one query for [`MOTIONLESS`].
    pub stuck: u32,
    /// How often clients were refused for want of a server, since the start.
    pub refused: u64,
    /// Who the refused clients are.
    pub refused_by: RefusedClients,
    /// Who waits for a server; of very many clients, those that came first.
    pub waiting: ClientNames,
    /// Who keeps a server for what it has left there.
    pub pinned_by: ClientNames,
    /// Clients whose request has no answer for more than a second, and who they are.
    pub unanswered: u32,
    /// See `unanswered`.
    pub unanswered_by: ClientNames,
    /// Clients that have read nothing of a result for [`UNREAD`], so that their servers can't go on, and who they are.
    pub unread: u32,
    /// See `unread`.
    pub unread_by: ClientNames,
    /// When one of the pool's servers last sent something: microseconds since 1970.
    pub heard: u64,
    /// The host of all the pool's servers, of a pool with several hosts.
    pub only_at: Option<Target>,
    /// Why it is known that the pool's server gives no answer.
    pub unresponsive: Option<LoginFailure>,
    /// The pool's server may give no answer: a probe will tell.
    pub suspected: bool,
    /// The errors of queries, if so many end in one that the pool is failing.
    pub failing: Option<FailingQueries>,
    /// What the control plane has found out about the pool, if it is slow.
    pub finding: Option<Finding>,
}

impl Symptoms {
    /// Adds another part of the pool, or another pool where both are shown as one.
    pub(crate) fn add(&mut self, other: &Symptoms) {
        for (own, other) in [(&mut self.failure, &other.failure), (&mut self.barred, &other.barred)] {
            if other.as_ref().map(|it| it.last) > own.as_ref().map(|it| it.last) {
                own.clone_from(other);
            }
        }
        match (&mut self.failing, &other.failing) {
            (Some(failing), Some(other)) => failing.add(other),
            (failing, Some(other)) => *failing = Some(other.clone()),
            (_, None) => {}
        }
        self.logged_in |= other.logged_in;
        self.opening |= other.opening;
        self.login_age = self.login_age.max(other.login_age);
        self.awaiting_client += other.awaiting_client;
        self.stuck += other.stuck;
        self.refused += other.refused;
        self.refused_by.add(&other.refused_by);
        self.waiting.add(&other.waiting);
        self.pinned_by.add(&other.pinned_by);
        self.unanswered += other.unanswered;
        self.unanswered_by.add(&other.unanswered_by);
        self.unread += other.unread;
        self.unread_by.add(&other.unread_by);
        self.heard = self.heard.max(other.heard);
        if self.only_at.is_none() {
            self.only_at.clone_from(&other.only_at);
        } else if other.only_at.is_some() && other.only_at != self.only_at {
            self.only_at = None;
        }
    }
}

/// A host of servers that gives no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UnresponsiveHost {
    /// Since when the host gives no answer: microseconds since 1970.
    pub since: u64,
    /// Whether the host accepts connections.
    pub accepts: bool,
    /// Whether that is certain; otherwise it is only suspected, and a probe is under way.
    pub proved: bool,
}

impl UnresponsiveHost {
    /// What is wrong, as the error of a pool.
    pub(crate) fn failure(self, target: &Target) -> LoginFailure {
        let does = if self.accepts { "accepts connections but" } else { "accepts no connection and" };
        let message = format!("server {target} {does} has not answered since {}", timestamp(self.since));
        LoginFailure::new(self.since, self.since, "08006", &message)
    }
}

/// A login at a server that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoginFailure {
    /// When the first one after the last success failed: microseconds since 1970.
    pub since: u64,
    /// When the last one failed.
    pub last: u64,
    /// The error's SQLSTATE.
    pub sqlstate: String,
    /// The server's own words, or those for a server that gives no answer.
    pub message: String,
}

impl LoginFailure {
    /// A login at this server that has no answer.
    pub fn no_answer(since: u64, now: u64, target: &Target) -> LoginFailure {
        let message = format!("server {target} has not answered a login since {}", timestamp(since));
        LoginFailure::new(since, now, "08006", &message)
    }

    /// A failed login; a long text is shortened, and is one line.
    pub fn new(since: u64, last: u64, sqlstate: &str, message: &str) -> LoginFailure {
        LoginFailure { since, last, sqlstate: sqlstate.to_owned(), message: one_line(message) }
    }

    /// What to do about an error that says more than its state does. PostgreSQL has one SQLSTATE for several errors;
    /// where it speaks another language than English, they get the advice of the SQLSTATE or of the state.
    fn advice(&self) -> Option<&'static str> {
        let says = |words| self.message.contains(words);
        Some(match self.sqlstate.as_str() {
            "57P03" => "Wait until the database server has started; if that takes long, read its log.",
            "53300" if says("too many connections for role") => {
                "Raise the CONNECTION LIMIT of the pool's user (ALTER ROLE), or make the pools that use it smaller."
            }
            "53300" if says("too many connections for database") => {
                "Raise the CONNECTION LIMIT of the database (ALTER DATABASE), or close other connections to it."
            }
            "53300" => "Free connections of the database server, or raise its max_connections.",
            "55000" if says("not currently accepting connections") => {
                "Allow connections again: ALTER DATABASE … ALLOW_CONNECTIONS true."
            }
            "3D000" => "Create the database, or correct its name in the pool.",
            "42501" => "Grant CONNECT on the database to the pool's user.",
            "28000" if says("pg_hba.conf") => {
                "Allow the pool's user, database and this machine's address in the database server's pg_hba.conf."
            }
            "28000" if says("is not permitted to log in") => "Let the pool's user log in: ALTER ROLE … LOGIN.",
            "28P01" => {
                "Correct the pool's user or password. If both are right, see on the server whether the password has expired \
                 (VALID UNTIL)."
            }
            _ if says("by a setting of its user or its database") => {
                "The primary takes writes, and this user's transactions are read-only there. Reset \
                 default_transaction_read_only of the role or the database, or give it a pool with target_session_attrs = \
                 \"any\"."
            }
            _ if ATTRIBUTES.iter().any(|words| says(words)) => {
                "No host of the pool is what target_session_attrs wants. Find out which one is the primary, and whether a \
                 failover is under way."
            }
            _ if says("TLS handshake") => "Renew the database server's certificate, or correct Weir's [tls.server].",
            "08006" if says("accepts no connection") || says("timed out") => {
                "Packets to it have no answer: see whether its machine is up, and whether a firewall or the network in between \
                 drops them."
            }
            code if REFUSES.contains(&&code[..2.min(code.len())]) => {
                "The server runs and answers, but refuses each login with an error: read its log, and see whether its disks are \
                 full."
            }
            _ if says("could not look up") => "Correct the pool's host, or check the name server of this machine.",
            _ => return None,
        })
    }

    /// Whether the server has refused the user, the password or the database.
    pub(crate) fn is_rejection(&self) -> bool {
        is_rejection(&self.sqlstate)
    }
}

/// Whether a login's SQLSTATE says that the server has refused the user, the password or the database: trying again
/// changes nothing.
#[must_use]
pub fn is_rejection(sqlstate: &str) -> bool {
    sqlstate.starts_with("28") || REJECTIONS.contains(&sqlstate)
}

/// A pool's health at a moment, with the details for an operator.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolHealth {
    /// The state.
    pub state: Health,
    /// Since when the pool is in this state: microseconds since 1970; 0 while unknown.
    pub since: u64,
    /// When the figures last showed the state, which lasts for some seconds more: microseconds since 1970; 0 while they
    /// show it.
    pub not_seen_since: u64,
    /// The clients that wait.
    pub waiting: u32,
    /// How often clients were refused since then: one that tries again is refused again.
    pub refused: u64,
    /// How many clients that were at least: each pair of names and address is one.
    pub refused_clients: u32,
    /// Since when clients of a paused pool wait, if that is too long: microseconds since 1970; 0 otherwise.
    pub kept_waiting: u64,
    /// The clients that have a server which gives no answer.
    pub unanswered: u32,
    /// The clients whose query waits for a lock.
    pub blocked: u32,
    /// The clients whose queries ended in an error, of a pool that is failing.
    pub failed: u32,
    /// Who waits, was refused, or has got no answer, while the state is a problem.
    pub affected: ClientNames,
    /// The last error of a pool that cannot connect or grow, or whose login is rejected; which server gives no answer; or in
    /// what the queries of a pool end that is failing.
    pub error: Option<LoginFailure>,
    /// The clients whose query runs at the moment, of a pool that is slow.
    pub slowed: u32,
    /// Why a pool is slow, blocked, stalled or saturated, where that was found out.
    pub finding: Option<Finding>,
}

impl PoolHealth {
    /// Whether something is broken, and no operator wants it so: a pause for which clients wait too long, too.
    pub fn is_problem(&self) -> bool {
        self.state.is_problem() || self.kept_waiting > 0
    }

    /// Since when the pool has its problem: microseconds since 1970; 0 while unknown.
    pub fn problem_since(&self) -> u64 {
        if self.kept_waiting > 0 { self.kept_waiting } else { self.since }
    }

    /// What to do, as a sentence: what the last error or a look at the server says, or else what fits the state.
    pub fn advice(&self) -> &'static str {
        let found = self.finding.as_ref().map(|finding| finding.advice);
        let of_error = |error: &LoginFailure| match self.state {
            Health::Failing => failing::advice(&error.sqlstate),
            _ => error.advice(),
        };
        self.error.as_ref().and_then(of_error).or(found).unwrap_or_else(|| self.state.advice())
    }

    /// The reason as [`reason`](PoolHealth::reason) has it, and since when that is not seen any more.
    pub fn reason_now(&self) -> Option<String> {
        let over = |reason: String| match self.not_seen_since {
            0 => reason,
            at => format!("since {} no more: {reason}", timestamp(at)),
        };
        self.reason().map(over)
    }

    /// The reason as one line: the error with its SQLSTATE, or what was found out.
    pub fn reason(&self) -> Option<String> {
        let error = self.error.as_ref().map(|error| format!("{} ({})", error.message, error.sqlstate));
        match (error, self.cause()) {
            (Some(error), Some(cause)) => Some(format!("{error}. {cause}")),
            (error, cause) => error.or(cause),
        }
    }

    /// What was found out beside an error: who holds what, or that clients wait for the end of a pause.
    pub fn cause(&self) -> Option<String> {
        let waits = || format!("clients wait since {}", timestamp(self.kept_waiting));
        let found = self.finding.as_ref().map(|finding| finding.cause.clone());
        found.or_else(|| (self.kept_waiting > 0).then(waits))
    }

    /// How many clients are affected, at least. Those that were refused may be those that wait now.
    pub fn clients(&self) -> u64 {
        let waiting = self.waiting.max(self.refused_clients);
        [waiting, self.unanswered, self.blocked, self.failed, self.slowed].into_iter().map(u64::from).sum()
    }

    /// Adds another pool where both are shown as one: the worse state is shown; of the same state, the older one.
    pub fn add(&mut self, other: &PoolHealth) {
        let clients = (self.waiting + other.waiting, self.refused + other.refused);
        let refused_clients = self.refused_clients + other.refused_clients;
        let served = (self.unanswered + other.unanswered, self.blocked + other.blocked, self.failed + other.failed);
        let slowed = self.slowed + other.slowed;
        let kept_waiting = [self.kept_waiting, other.kept_waiting].into_iter().filter(|since| *since > 0).min();
        let mut affected = std::mem::take(&mut self.affected);
        affected.add(&other.affected);
        let not_seen_since = match (self.state == other.state, self.not_seen_since.min(other.not_seen_since)) {
            (true, 0) => Some(0),
            (true, _) => Some(self.not_seen_since.max(other.not_seen_since)),
            (false, _) => None,
        };
        let older = other.state == self.state && other.since > 0 && (self.since == 0 || other.since < self.since);
        if other.state > self.state || older {
            self.clone_from(other);
        }
        ((self.waiting, self.refused), self.refused_clients) = (clients, refused_clients);
        (self.unanswered, self.blocked, self.failed) = served;
        self.slowed = slowed;
        self.affected = affected;
        self.kept_waiting = kept_waiting.filter(|_| self.state == Health::Paused).unwrap_or(0);
        self.not_seen_since = not_seen_since.unwrap_or(self.not_seen_since);
    }
}
