//! What of a worker's tables decides the health of a pool, besides the counts of clients and servers.
//!
//! Pure functions; `weir_admin` has the rule.

use weir_admin::{FailingQueries, LoginFailure, MOTIONLESS, Symptoms};
use weir_base::{Span, Target, Time};
use weir_pool::ServerState as InPool;

use crate::common::Common;
use crate::conns::ConnTable;
use crate::pools::PoolSlot;
use crate::server::login_throttle::LoginThrottle;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};

/// What decides the health of a pool, as far as this worker knows it.
pub(super) fn symptoms(common: &Common, conns: &ConnTable, throttle: &LoginThrottle, slot: &PoolSlot) -> Symptoms {
    let now = common.now();
    let mut symptoms = Symptoms {
        logged_in: slot.failures.logged_in(),
        failure: failure(slot, throttle, common),
        opening: slot.login.waits(),
        failing: failing(slot, common),
        refused: slot.counts.refusals.total() - slot.counts.refusals.other,
        refused_by: slot.counts.refused_by.clone(),
        ..Symptoms::default()
    };
    let (mut heard, mut hosts) = (Time::from_micros(0), OneHost::None);
    let mut login = None;
    for (server, state, since) in slot.pool.servers() {
        if let Some(server) = conns.get::<ServerSlot>(server) {
            if matches!(server.state, ServerState::Up(..)) {
                heard = heard.max(server.clock.received_at());
            }
            hosts.add(server.connection.target());
        }
        match state {
            InPool::Login => {
                symptoms.opening = true;
                symptoms.login_age = symptoms.login_age.max(now.since(since));
                login = conns.get::<ServerSlot>(server).map(|server| (since, server.connection.target()));
            }
            InPool::Linked(_) => {
                let (awaiting_client, stuck) = motionless(conns.get::<ServerSlot>(server), now);
                symptoms.awaiting_client += u32::from(awaiting_client);
                symptoms.stuck += u32::from(stuck);
            }
            InPool::Idle { .. } | InPool::Closing => {}
        }
    }
    symptoms.barred = barred(slot, common, symptoms.failure.as_ref(), login);
    if heard.micros() > 0 {
        symptoms.heard = common.wall(heard);
    }
    if let OneHost::One(target) = hosts
        && slot.config.targets.len() > 1
    {
        symptoms.only_at = Some(target.clone());
    }
    symptoms
}

/// From this time without an answer on, a client counts as one without.
const UNANSWERED: Span = Span::from_secs(1);

/// Whether a server has a request of its client, and has sent nothing for long.
pub(super) fn is_unanswered(server: &ServerSlot, now: Time) -> bool {
    let query = server.clock.holding().query;
    query != Time::NEVER && now.since(query.max(server.clock.received_at())) >= UNANSWERED
}

/// The host of all servers of a pool, if there is only one.
enum OneHost<'p> {
    None,
    One(&'p Target),
    Several,
}

impl<'p> OneHost<'p> {
    fn add(&mut self, target: &'p Target) {
        *self = match self {
            OneHost::None => OneHost::One(target),
            OneHost::One(known) if *known == target => return,
            _ => OneHost::Several,
        };
    }
}

/// How the last login of a pool failed: its own, or that of another pool at the host that it waits for.
fn failure(slot: &PoolSlot, throttle: &LoginThrottle, common: &Common) -> Option<LoginFailure> {
    let wall = |at| common.wall(at);
    let of_host = slot.login.waits_at().and_then(|target| throttle.down(target));
    if let Some(down) = of_host {
        let since = slot.failures.since().min(down.since);
        return Some(LoginFailure::new(wall(since), wall(common.now()), &down.error.sqlstate, &down.error.message));
    }
    let (error, at) = slot.failures.current()?;
    Some(LoginFailure::new(wall(slot.failures.since()), wall(at), &error.sqlstate, &error.message))
}

/// What fails: queries of the pool, its servers, or the queries of an application.
fn failing(slot: &PoolSlot, common: &Common) -> Option<FailingQueries> {
    let (now, wall) = (common.now(), |at| common.wall(at));
    let queries = slot.error_rate.failing(slot.counts.stats.query_count, now, wall);
    let servers = || slot.lost_servers.failing(now, wall);
    queries.or_else(servers).or_else(|| slot.application_errors.failing(now, wall))
}

/// Why a pool that has room for more servers can't open one, if that has lasted: two logins have failed, or the one under
/// way has no answer. The owner tries, and knows, for a borrower.
fn barred(
    slot: &PoolSlot,
    common: &Common,
    failure: Option<&LoginFailure>,
    login: Option<(Time, &Target)>,
) -> Option<LoginFailure> {
    let now = common.now();
    if slot.lending.is_borrower() || slot.is_full(now) {
        return None;
    }
    let hangs = login.filter(|(since, _)| now.since(*since) >= MOTIONLESS);
    let lasts = |failure: &&LoginFailure| {
        failure.last > failure.since && common.wall(now).saturating_sub(failure.since) >= MOTIONLESS.micros()
    };
    match (failure, hangs) {
        (Some(failure), Some(_)) => Some(failure.clone()),
        (failure, None) => failure.filter(lasts).cloned(),
        (None, Some((since, target))) => Some(LoginFailure::no_answer(common.wall(since), common.wall(now), target)),
    }
}

/// Whether a server's client, or its query, has not moved for long.
fn motionless(server: Option<&ServerSlot>, now: Time) -> (bool, bool) {
    let Some(server) = server else { return (false, false) };
    let ServerState::Up(_, ServerPhase::Linked) = &server.state else { return (false, false) };
    let long = |since: Time| since != Time::NEVER && now.since(since) >= MOTIONLESS;
    let holding = server.clock.holding();
    let awaiting_client = long(holding.client_idle);
    (awaiting_client, !awaiting_client && long(holding.query) && long(server.clock.received_at()))
}
