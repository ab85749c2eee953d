//! Wait diagnosis: why a client waits, and what holds the servers. Waiting clients and the log receive it.
//!
//! A pool can be exhausted while its database idles: as many clients as it has servers have begun a transaction and
//! stopped sending. The age of the oldest wait shows that something is wrong, and this text shows what.
//!
//! Only the owner knows why a pool has no free server, so a borrower asks the owner before it notifies its clients.

use std::fmt::Write as _;

use weir_admin::PinCounts;
use weir_base::{ConnId, Span, Time};
use weir_config::Config;
use weir_pgwire::{ErrorFields, put_back};
use weir_pool::ServerState as InPool;
use weir_session::{Cause, Refusal};

use crate::client::slot::ClientSlot;
use crate::conns::ConnTable;
use crate::link::link_clock::Holding;
use crate::log::log;
use crate::pools::{PoolSlot, wait_limit};
use crate::port::{Io, Level};
use crate::reading::Reason;
use crate::server::login_throttle::DownHost;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};

/// The shortest interval between two lines in the log about the waits of a pool: waits fail in bursts.
const LOG_EVERY: Span = Span::from_secs(1);

/// The input of a pool's diagnosis.
pub(crate) struct Diagnosis<'a> {
    pub(crate) now: Time,
    pub(crate) config: &'a Config,
    pub(crate) conns: &'a ConnTable,
    pub(crate) pool: &'a PoolSlot,
    /// The host that the pool waits for, if that is down.
    pub(crate) down: Option<&'a DownHost>,
    /// Why this process may open no server of a pool that nodes share.
    pub(crate) obstacle: Option<&'a str>,
    /// Whether a server of the pool is lent to another worker.
    pub(crate) is_lent: &'a dyn Fn(ConnId) -> bool,
}

/// What holds a server that is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hold {
    /// A running query, or one that its client has not sent completely.
    Query,
    /// A client that must act next: in a transaction, in the middle of a message, or with an answer that it does not
    /// read.
    IdleTransaction,
    /// A client in session mode without a request.
    IdleSession,
    /// A client without a request that keeps the server for what it has left there.
    Pinned,
    /// All clients of the pool that listen: the server listens for them.
    Listening,
    /// Work of ours: a check, a reset, an auth_query.
    Own,
    /// Another worker, to which the server is lent.
    Lent,
}

/// The number of kinds of [`Hold`].
const HOLDS: usize = Hold::Lent as usize + 1;

/// The number of servers, and for how long the one that is held longest has been held.
#[derive(Clone, Copy, Default)]
struct Group {
    count: u32,
    longest: Span,
}

impl Diagnosis<'_> {
    /// Why a wait in a pool's queue does not end, with names and figures. The pool is full if it has all the servers
    /// that it may have without its reserve, here or lent; otherwise it needs one more, and what prevents that is the
    /// cause.
    pub(crate) fn cause(&self) -> (Cause, String) {
        let Diagnosis { now, pool: slot, .. } = *self;
        let now_in = slot.pool.snapshot(now);
        let holders = self.holders();
        if now_in.paused {
            return (Cause::Paused, format!("The pool is paused. {holders}"));
        }
        if slot.is_full(now) {
            return (Cause::PoolFull, holders);
        }
        let failures = self.down.map(|down| (&down.error, down.too_slow, down.since)).or_else(|| {
            let (error, too_slow) = now_in.retry_at.and(slot.failures.last())?;
            Some((error, too_slow, slot.failures.since()))
        });
        if let Some((error, too_slow, since)) = failures {
            let cause = if too_slow { Cause::ServerSlow } else { Cause::ServerDown };
            let since = now.since(since.min(now)).micros() / 1_000_000;
            return (cause, format!("Logins have failed for {since} s, the last one so: {}. {holders}", error.message));
        }
        if slot.login.waits() {
            let most = self.config.max_logins_per_host;
            let text = format!("Its login waits for others at the host (max_logins_per_host is {most}). {holders}");
            return (Cause::ServerSlow, text);
        }
        if now_in.login == 0 && slot.quota.is_limited() {
            let why = self.obstacle.map_or_else(|| self.shared_limits(), |why| format!("No server is allowed: {why}."));
            return (Cause::LimitReached, format!("{why} {holders}"));
        }
        (Cause::ServerSlow, format!("A server's login has not finished. {holders}"))
    }

    /// The limits of servers that a pool shares with others, as a sentence.
    fn shared_limits(&self) -> String {
        let (name, user) = (&self.pool.name, &self.pool.user);
        let (of_database, of_user) = (self.config.db_connections(name), self.config.user_connections(user));
        let of_database = (of_database > 0).then(|| format!("max_db_connections of {name} is {of_database}"));
        let of_user = (of_user > 0).then(|| format!("max_user_connections of {user} is {of_user}"));
        let of_server = self.config.share(name).and_then(|share| {
            let (server, share) = (share.server.as_deref()?, share);
            let most = self.config.servers.get(server)?.max_connections;
            let guaranteed = share.guaranteed;
            Some(format!("max_connections of server {server} is {most}, and {name} is guaranteed {guaranteed} of them"))
        });
        let of_nodes = self.config.shared_budget(name).map(|_| {
            "this node's share of the connections that nodes share is used, and it gets no more now, as without etcd \
             (SHOW CLUSTER)"
                .to_owned()
        });
        let limits: Vec<String> = of_database.into_iter().chain(of_user).chain(of_server).chain(of_nodes).collect();
        format!("No other server is allowed: {}.", limits.join(", "))
    }

    /// What holds the servers of the pool, as a sentence: `3 of 3 servers are in use: 2 by clients that idle in a
    /// transaction, for up to 61 s; 1 by a query, for up to 2 s.`
    pub(crate) fn holders(&self) -> String {
        let (mut servers, mut used) = (0, 0);
        let mut groups = [Group::default(); HOLDS];
        let mut pinned = PinCounts::default();
        for (conn, state, _) in self.pool.pool.servers() {
            servers += u32::from(state != InPool::Closing);
            let InPool::Linked(_) = state else { continue };
            used += 1;
            let (hold, since) = match self.conns.get::<ServerSlot>(conn) {
                Some(server) => hold(server, self.now),
                None if (self.is_lent)(conn) => (Hold::Lent, self.now),
                // The server is out of the table: it is being processed now.
                None => (Hold::Query, self.now),
            };
            if let (Hold::Pinned, Some(server)) = (hold, self.conns.get::<ServerSlot>(conn)) {
                server.pinned.iter().for_each(|why| pinned.count(why.kinds()));
            }
            let group = &mut groups[hold as usize];
            group.count += 1;
            group.longest = group.longest.max(self.now.since(since));
        }
        sentence(used, servers, &groups, &pinned)
    }
}

fn sentence(used: u32, servers: u32, groups: &[Group; HOLDS], pinned: &PinCounts) -> String {
    if servers == 0 {
        return "No server connection is open.".to_owned();
    }
    let mut text = format!("{used} of {servers} servers are in use");
    let words = [
        (Hold::IdleTransaction, "by clients that idle in a transaction"),
        (Hold::IdleSession, "by sessions that idle"),
        (Hold::Pinned, "by idle clients that keep them for what they have left there"),
        (Hold::Query, "by queries"),
        (Hold::Listening, "to listen for clients"),
        (Hold::Own, "by work of the pooler's own"),
    ];
    let mut sign = ": ";
    for (hold, words) in words {
        let Group { count, longest } = groups[hold as usize];
        if count > 0 {
            let _ = write!(text, "{sign}{count} {words}, for up to {} s", longest.micros() / 1_000_000);
            sign = "; ";
        }
        if count > 0 && hold == Hold::Pinned {
            let _ = write!(text, " ({})", pinned.in_words());
        }
    }
    let lent = groups[Hold::Lent as usize].count;
    if lent > 0 {
        let _ = write!(text, "{sign}{lent} lent to other workers");
    }
    text.push('.');
    text
}

/// What holds a server, and since when.
fn hold(server: &ServerSlot, now: Time) -> (Hold, Time) {
    match &server.state {
        ServerState::Up(_, ServerPhase::Linked) => {
            let Holding { client_idle, query, transaction, .. } = *server.clock.holding();
            match (client_idle, transaction) {
                (Time::NEVER, Time::NEVER) if server.is_pinned() => (Hold::Pinned, server.clock.received_at()),
                (Time::NEVER, Time::NEVER) => (Hold::IdleSession, server.clock.received_at()),
                (Time::NEVER, since) => (Hold::Query, query.min(since)),
                (since, _) => (Hold::IdleTransaction, since),
            }
        }
        ServerState::Up(_, ServerPhase::Listening) => (Hold::Listening, server.clock.received_at().min(now)),
        ServerState::Up(_, ServerPhase::Streaming) => (Hold::Query, server.clock.linked_at()),
        _ => (Hold::Own, server.clock.own_query_at().min(now)),
    }
}

/// The error for a client, or a query of ours, that has waited too long. It is logged, too.
pub(crate) fn timed_out<I: Io>(
    now: Time,
    config: &Config,
    pool: &mut PoolSlot,
    (cause, detail): (Cause, String),
    io: &mut I,
) -> Refusal {
    if pool.counts.wait_logged.is_none_or(|logged| now.since(logged) >= LOG_EVERY) {
        pool.counts.wait_logged = Some(now);
        let text =
            format_args!("{}/{}: a client waited too long for a server, {cause}: {detail}", pool.name, pool.user);
        log(Level::Warning, text, io);
    }
    match wait_limit(config, &pool.config) {
        (_, true) => Refusal::WaitQueryTimeout { cause, detail },
        (_, false) => Refusal::QueryWaitTimeout { cause, detail },
    }
}

/// Sends a waiting client the reason for its wait (`query_wait_notify`); logs it, too.
pub(crate) fn notify<I: Io>(conns: &ConnTable, pool: &PoolSlot, client: ConnId, why: &str, io: &mut I) {
    let Some(client) =
        conns.get::<ClientSlot>(client).filter(|client| client.link.is_none() && client.reading.has(Reason::Waits))
    else {
        return;
    };
    if client.is_ready() {
        let mut buffer = Vec::new();
        let fields = ErrorFields {
            severity: "NOTICE",
            sqlstate: "00000",
            message: "No server connection available in postgres backend, client being queued",
            detail: Some(why),
            hint: None,
        };
        put_back::notice(&mut buffer, &fields);
        io.send(client.conn, &buffer);
    }
    let text = format_args!("{}/{}: a client is queued for query_wait_notify: {why}", pool.name, pool.user);
    log(Level::Info, text, io);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_without_servers_has_none_in_use() {
        let none = [Group::default(); HOLDS];
        let pinned = PinCounts::default();
        assert_eq!(sentence(0, 0, &none, &pinned), "No server connection is open.");
        assert_eq!(sentence(0, 1, &none, &pinned), "0 of 1 servers are in use.");
    }
}
