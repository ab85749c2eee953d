//! What worker 0 knows of the primaries of pools, and decides: to which host a pool moves, and when it may go on there.
//!
//! ```text
//! settled ── another host is found fit ──> leaving ── all workers have left the others ──> settled there
//! settled ── SWITCH ──> leaving ── all have left ──> looking ── the host is found fit ──> settled there
//!                          └────────── switch_timeout ────┴──────────────────────────> settled where it was
//! ```
//!
//! Must not know the workers: it returns orders for them. Invariant: one move of a pool at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_admin::{CommandError, PrimaryRecord, PrimaryState, PrimaryWaits};
use weir_base::{Span, Target, Time, WorkerId};

use crate::primary::PrimaryStep;

/// How long a pool stays at a host before it leaves it for another one that is found fit: so two hosts that both take
/// writes, and are lost now and then, don't make the pool go to and fro. A host that takes no writes is left at once.
const STAYS: Span = Span::from_secs(5);

/// The pools that want a primary, by name.
#[derive(Default)]
pub(crate) struct Seats {
    pools: BTreeMap<Arc<str>, Seat>,
    /// The earliest timer; none: never.
    armed: Option<Time>,
}

/// What is known of one pool.
#[derive(Default)]
struct Seat {
    /// The host that the pool writes to.
    at: Option<Target>,
    /// The host that the pool had before, while it has none.
    left: Option<Target>,
    /// When it came to its host from another one.
    moved_at: Option<Time>,
    moving: Option<Move>,
    /// It has come to its host, and not all workers have said yet who has waited for it.
    arrival: Option<Arrival>,
    last: Option<LastMove>,
    moves: u64,
}

/// A pool moves.
struct Move {
    to: Target,
    stage: Stage,
    /// When the workers' clients at the old host are disconnected; where an operator has asked, when the pool goes back.
    due: Time,
    /// The operator's command, and its worker.
    by: Option<(WorkerId, u64)>,
    /// The number of the order of this stage.
    order: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Leaving,
    Looking,
}

/// A pool has moved.
struct Arrival {
    from: Option<Target>,
    by: Option<(WorkerId, u64)>,
    /// The number of the order to go on.
    order: u64,
}

/// The last move of a pool.
#[derive(Clone)]
struct LastMove {
    from: Target,
    at: Time,
    waits: PrimaryWaits,
}

/// What is to be done for a pool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// All workers carry this out.
    Step(PrimaryStep),
    /// The operator's command is answered.
    Answer((WorkerId, u64), Result<(), CommandError>),
    /// A line in the log.
    Say(String),
}

/// The limits of a pool's moves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MoveLimits {
    /// How long transactions at the old host may go on.
    pub(crate) leave: Span,
    /// How long an operator's move may take.
    pub(crate) switch: Span,
}

impl Seats {
    /// A login has found this host fit, and waits.
    pub(crate) fn found(&mut self, pool: &Arc<str>, at: &Target, limits: MoveLimits, now: Time) -> Vec<Order> {
        let seat = self.pools.entry(pool.clone()).or_default();
        match &seat.moving {
            Some(moving) if moving.to == *at && moving.stage == Stage::Looking => return seat.arrive(now),
            // The next order decides about the login.
            Some(_) => return Vec::new(),
            None => {}
        }
        let stays = seat.at.is_some() && seat.moved_at.is_some_and(|moved| now.since(moved) < STAYS);
        if seat.at.as_ref() == Some(at) || stays {
            return seat.settle();
        }
        let due = now + limits.leave;
        seat.moving = Some(Move { to: at.clone(), stage: Stage::Leaving, due, by: None, order: 0 });
        vec![Order::Step(PrimaryStep::Leave { to: at.clone(), holds: false })]
    }

    /// A login has found a host fit that is not the pool's any more, and waits.
    pub(crate) fn no_host(&mut self, pool: &Arc<str>) -> Vec<Order> {
        self.pools.entry(pool.clone()).or_default().settle_unless_moving()
    }

    /// A worker has left this host, which takes no writes any more, for this reason.
    pub(crate) fn lost(&mut self, pool: &Arc<str>, host: &Target, why: &str) -> Vec<Order> {
        let seat = self.pools.entry(pool.clone()).or_default();
        if seat.moving.is_some() || seat.at.as_ref() != Some(host) {
            return Vec::new();
        }
        seat.left = seat.at.take();
        let line = format!("{pool}: {host} takes no writes any more ({why}): looking for another primary");
        vec![Order::Say(line), Order::Step(PrimaryStep::Abandon(host.clone()))]
    }

    /// An operator has a pool move to a host.
    pub(crate) fn switch(
        &mut self,
        pool: &Arc<str>,
        to: &Target,
        by: (WorkerId, u64),
        limits: MoveLimits,
        now: Time,
    ) -> Vec<Order> {
        let seat = self.pools.entry(pool.clone()).or_default();
        let moving = seat.moving.as_ref().map(|moving| &moving.to);
        if let Some(to) = moving.or(seat.at.as_ref().filter(|_| seat.arrival.is_some())) {
            let error = CommandError::SwitchFailed(format!("the pool is moving to {to}: try again in a moment"));
            return vec![Order::Answer(by, Err(error))];
        }
        if seat.at.as_ref() == Some(to) {
            return vec![Order::Answer(by, Ok(()))];
        }
        let due = now.deadline(limits.switch);
        seat.moving = Some(Move { to: to.clone(), stage: Stage::Leaving, due, by: Some(by), order: 0 });
        let from = seat.at.as_ref().or(seat.left.as_ref()).map_or(String::new(), |from| format!(" from {from}"));
        vec![
            Order::Say(format!("{pool}: primary moves{from} to {to}, as an operator wants")),
            Order::Step(PrimaryStep::Leave { to: to.clone(), holds: true }),
        ]
    }

    /// An operator's command was withdrawn: the pool it is about goes back.
    pub(crate) fn withdrawn(&mut self, id: u64) -> Option<(Arc<str>, Vec<Order>)> {
        let is_its = |seat: &Seat| seat.moving.as_ref().is_some_and(|moving| moving.by.is_some_and(|by| by.1 == id));
        let (pool, seat) = self.pools.iter_mut().find(|(_, seat)| is_its(seat))?;
        seat.moving = None;
        Some((pool.clone(), seat.settle()))
    }

    /// An order has this number, by which its answer is known.
    pub(crate) fn ordered(&mut self, pool: &str, step: &PrimaryStep, id: u64) {
        let Some(seat) = self.pools.get_mut(pool) else { return };
        match step {
            PrimaryStep::Leave { .. } | PrimaryStep::Look(_) => {
                seat.moving.iter_mut().for_each(|moving| moving.order = id);
            }
            PrimaryStep::Settle(_) => {
                seat.arrival.iter_mut().filter(|arrival| arrival.order == 0).for_each(|arrival| arrival.order = id);
            }
            PrimaryStep::Abandon(_) | PrimaryStep::Cut => {}
        }
    }

    /// All workers have answered an order.
    pub(crate) fn answered(&mut self, id: u64, waits: PrimaryWaits, now: Time) -> Option<(Arc<str>, Vec<Order>)> {
        let moves = |seat: &Seat| seat.moving.as_ref().is_some_and(|moving| moving.order == id);
        let arrives = |seat: &Seat| seat.arrival.as_ref().is_some_and(|arrival| arrival.order == id);
        let (pool, seat) = self.pools.iter_mut().find(|(_, seat)| moves(seat) || arrives(seat))?;
        let orders = match &mut seat.moving {
            Some(moving) if moving.order == id => match moving.stage {
                Stage::Leaving if moving.by.is_some() => {
                    moving.stage = Stage::Looking;
                    vec![Order::Step(PrimaryStep::Look(moving.to.clone()))]
                }
                // Nobody uses the pool, or it is paused: there is nobody to look.
                Stage::Looking if waits.pools > 0 => Vec::new(),
                Stage::Leaving | Stage::Looking => seat.arrive(now),
            },
            _ => seat.arrived(pool, waits, now),
        };
        Some((pool.clone(), orders))
    }

    /// What is due.
    pub(crate) fn due(&mut self, now: Time) -> Vec<(Arc<str>, Order)> {
        let mut due = Vec::new();
        for (pool, seat) in &mut self.pools {
            let Some(moving) = seat.moving.as_mut().filter(|moving| moving.due <= now) else { continue };
            moving.due = Time::NEVER;
            let Some(by) = moving.by else {
                due.push((pool.clone(), Order::Step(PrimaryStep::Cut)));
                continue;
            };
            let what = match moving.stage {
                Stage::Leaving => "transactions at the old host have not ended".to_owned(),
                Stage::Looking => format!("{} has not taken writes", moving.to),
            };
            let error =
                CommandError::SwitchFailed(format!("{what} within switch_timeout: the pool is back where it was"));
            seat.moving = None;
            due.extend(seat.settle().into_iter().map(|order| (pool.clone(), order)));
            due.push((pool.clone(), Order::Answer(by, Err(error))));
        }
        due
    }

    /// When something is due.
    pub(crate) fn next_due(&self) -> Time {
        let moving = self.pools.values().filter_map(|seat| seat.moving.as_ref());
        moving.map(|moving| moving.due).min().unwrap_or(Time::NEVER)
    }

    /// The record of the earliest timer.
    pub(crate) fn armed(&mut self) -> &mut Time {
        self.armed.get_or_insert(Time::NEVER)
    }

    /// A new configuration, with these hosts for each pool that wants a primary: forgets the other pools, ends moves to
    /// hosts that it does not have, and answers who has moved them.
    pub(crate) fn configured(&mut self, hosts: impl Fn(&str) -> Option<Vec<Target>>) -> Vec<(Arc<str>, Order)> {
        let mut orders = Vec::new();
        self.pools.retain(|pool, seat| {
            let hosts = hosts(pool);
            let for_pool = match &hosts {
                Some(hosts) => seat.hosts_changed(hosts),
                None => seat.gone().into_iter().collect(),
            };
            orders.extend(for_pool.into_iter().map(|order| (pool.clone(), order)));
            hosts.is_some()
        });
        orders
    }

    /// The host that a pool writes to, none if it looks for one; `None`: it has not looked yet.
    pub(crate) fn host(&self, pool: &str) -> Option<Option<&Target>> {
        self.pools.get(pool).map(|seat| seat.at.as_ref())
    }

    /// For SHOW PRIMARIES.
    pub(crate) fn records(&self, wall: impl Fn(Time) -> u64) -> Vec<PrimaryRecord> {
        let record = |(pool, seat): (&Arc<str>, &Seat)| PrimaryRecord {
            database: pool.to_string(),
            host: seat.at.as_ref().map(Target::to_string),
            state: match (&seat.moving, &seat.at) {
                (Some(moving), _) => PrimaryState::Moving(moving.to.to_string()),
                (None, Some(_)) => PrimaryState::Known,
                (None, None) => PrimaryState::Unknown,
            },
            from: seat.last.as_ref().map(|last| last.from.to_string()),
            moved_at: seat.last.as_ref().map(|last| wall(last.at)),
            moves: seat.moves,
            waits: seat.last.as_ref().map_or(PrimaryWaits::default(), |last| last.waits),
        };
        self.pools.iter().map(record).collect()
    }
}

impl Seat {
    /// The workers go on where the pool is.
    fn settle(&self) -> Vec<Order> {
        vec![Order::Step(PrimaryStep::Settle(self.at.clone()))]
    }

    /// The workers go on where the pool is; while it moves, the next order says where that is.
    fn settle_unless_moving(&self) -> Vec<Order> {
        if self.moving.is_none() { self.settle() } else { Vec::new() }
    }

    /// The pool has no primary any more.
    fn gone(&mut self) -> Option<Order> {
        if let Some(by) = self.arrival.take().and_then(|arrival| arrival.by) {
            return Some(Order::Answer(by, Ok(())));
        }
        let by = self.moving.take()?.by?;
        let error = "a new configuration has removed the pool, or its target_session_attrs".to_owned();
        Some(Order::Answer(by, Err(CommandError::SwitchFailed(error))))
    }

    /// The pool has these hosts from now on. One that it has left for the last time is not its primary any more, and
    /// another one need not wait until the pool has been there for long enough.
    fn hosts_changed(&mut self, hosts: &[Target]) -> Vec<Order> {
        let ended = self.moving.take_if(|moving| !hosts.contains(&moving.to));
        let gone = self.at.take_if(|at| !hosts.contains(at));
        if ended.is_none() && gone.is_none() {
            return Vec::new();
        }
        self.left = gone.or(self.left.take());
        let mut orders = self.settle_unless_moving();
        if let Some(Move { to, by: Some(by), .. }) = ended {
            let error =
                CommandError::SwitchFailed(format!("a new configuration has removed {to} from the pool's hosts"));
            orders.push(Order::Answer(by, Err(error)));
        }
        orders
    }

    /// The pool has moved, and all workers may go on.
    fn arrive(&mut self, now: Time) -> Vec<Order> {
        if let Some(Move { to, by, .. }) = self.moving.take() {
            let from = self.at.replace(to).or(self.left.take());
            self.left = None;
            let from = from.filter(|from| self.at.as_ref() != Some(from));
            if from.is_some() {
                self.moved_at = Some(now);
                self.moves += 1;
            }
            self.arrival = Some(Arrival { from, by, order: 0 });
        }
        self.settle()
    }

    /// All workers go on, and have said who has waited.
    fn arrived(&mut self, pool: &str, waits: PrimaryWaits, now: Time) -> Vec<Order> {
        let Some(Arrival { from, by, .. }) = self.arrival.take() else { return Vec::new() };
        let mut orders = Vec::new();
        if let (Some(from), Some(at)) = (from, &self.at) {
            orders.push(Order::Say(format!("{pool}: primary moved from {from} to {at}; {}", waits.words())));
            self.last = Some(LastMove { from, at: now, waits });
        }
        orders.extend(by.map(|by| Order::Answer(by, Ok(()))));
        orders
    }
}

#[cfg(test)]
#[path = "seats_tests.rs"]
mod tests;
