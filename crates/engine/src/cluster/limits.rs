//! Limits that cross pools, as a worker and its pools meet them. Who gets a permit is decided in `permits`.
//!
//! A pool under no such limit asks nobody: no letter, no cost. A limited one holds as many permits as it has servers, and one
//! more while it opens one; [`Engine::settle`] compares the two, so that every server's end, whatever it was, gives its
//! permit back, and no code that ends a server needs to think of it.

use weir_base::{Span, Time, WorkerId};

use crate::Engine;
use crate::cluster::messages::{Message, Payload};
use crate::cluster::permits::{Key, Need, Order, Plea, PoolId};
use crate::cluster::state::{Offer, Standing};
use crate::common::FollowUp;
use crate::handles::PoolIx;
use crate::pools::PoolSlot;
use crate::port::Io;

/// Who keeps the ledger.
const LEDGER: WorkerId = WorkerId(0);
/// When a pool that is to be kept filled asks again after it was told that there is no room.
const SPARE_AGAIN: Span = Span::from_secs(1);

impl PoolSlot {
    pub(crate) fn id(&self) -> PoolId {
        PoolId { database: self.name.clone(), user: self.user.clone() }
    }
}

impl Engine {
    /// The pool wants to open a server: now, or when the ledger allows it.
    pub(crate) fn may_open<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        if self.pools.get(ix).part.is_guest() {
            return self.ask_home(now, ix, io);
        }
        if !self.pools.get(ix).standing.limited {
            return self.open_when_admitted(now, ix, io);
        }
        let id = self.common.next_id();
        let slot = self.pools.get_mut(ix);
        slot.standing.asking = Some(id);
        let need = slot.pool.waiting().next().map_or(Need::Spare, |(_, since)| Need::Client(since));
        let pool = slot.id();
        plead(Plea::Ask { id, pool, need }, io);
    }

    /// The ledger has answered an ask.
    fn permit_answered<I: Io>(&mut self, now: Time, id: u64, pool: PoolId, granted: bool, io: &mut I) {
        let ix = self.pools.find(&pool.database, &pool.user);
        let Some(ix) = ix.filter(|ix| self.pools.get(*ix).standing.asking == Some(id)) else {
            // It was taken back meanwhile.
            return if granted {
                plead(Plea::Return { pool, count: 1 }, io)
            };
        };
        let slot = self.pools.get_mut(ix);
        slot.standing.asking = None;
        slot.standing.permits += u32::from(granted);
        if granted && slot.pool.wants_server() {
            self.open_when_admitted(now, ix, io);
        } else {
            slot.pool.open_declined(if granted { now } else { now + SPARE_AGAIN }, now);
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// Sees to it that a pool has as many permits as it has servers, and asks only for what it wants.
    pub(crate) fn square_permits<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get_mut(ix);
        if !slot.standing.limited {
            return;
        }
        if !slot.pool.wants_server()
            && let Some(id) = slot.standing.asking.take()
        {
            slot.pool.open_declined(now, now);
            plead(Plea::Withdraw { id }, io);
        }
        // One that waits for its turn to log in has its permit already.
        let due = slot.pool.len() as u32 + u32::from(slot.login.waits());
        let surplus = slot.standing.permits.saturating_sub(due);
        if surplus > 0 {
            slot.standing.permits = due;
            let pool = slot.id();
            plead(Plea::Return { pool, count: surplus }, io);
        }
    }

    /// Whether a limit holds for a pool may have changed.
    pub(crate) fn limit_pool<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get(ix);
        // What a guest has, its home has permits for.
        let limited = self.common.config().is_limited(&slot.name, &slot.user) && !slot.part.is_guest();
        if limited && !slot.standing.limited {
            // It must ask first.
            self.stop_waiting_for_host(now, ix);
        }
        let slot = self.pools.get_mut(ix);
        let (pool, servers) = (slot.id(), slot.pool.len() as u32);
        match (slot.standing.limited, limited) {
            (false, true) => {
                slot.standing = Standing { limited, permits: servers, asking: None };
                if servers > 0 {
                    plead(Plea::Take { pool, count: servers }, io);
                }
            }
            (true, false) => {
                let standing = std::mem::take(&mut slot.standing);
                if standing.permits > 0 {
                    plead(Plea::Return { pool, count: standing.permits }, io);
                }
                if let Some(id) = standing.asking {
                    slot.pool.open_declined(now, now);
                    plead(Plea::Withdraw { id }, io);
                }
            }
            _ => {}
        }
    }

    /// A server has become idle: where room is wanted, the ledger hears of it.
    #[inline]
    pub(crate) fn offer_idle<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        if !self.cluster.pressed.is_empty() {
            self.offer_pressed(ix, io);
        }
    }

    #[cold]
    fn offer_pressed<I: Io>(&mut self, ix: PoolIx, io: &mut I) {
        let slot = self.pools.get(ix);
        let Some(since) = slot.pool.longest_idle() else { return };
        for (key, offer) in &mut self.cluster.pressed {
            if *offer == Offer::Open && key.covers(&slot.name, &slot.user) {
                *offer = Offer::Made;
                plead(Plea::Idle { key: key.clone(), round: None, longest: Some((since, slot.id())) }, io);
            }
        }
    }

    /// The ledger's word for this worker.
    pub(crate) fn ordered<I: Io>(&mut self, now: Time, order: Order, io: &mut I) {
        match order {
            Order::Answer { id, pool, granted, .. } => self.permit_answered(now, id, pool, granted, io),
            Order::Seek { key, round } => {
                let longest = self.longest_idle(&key);
                self.cluster.pressed.insert(key.clone(), Offer::Open);
                plead(Plea::Idle { key, round: Some(round), longest }, io);
            }
            Order::Relax { key } => {
                self.cluster.pressed.remove(&key);
            }
            Order::Evict { pool, key, .. } => {
                if let Some(offer) = self.cluster.pressed.get_mut(&key) {
                    *offer = Offer::Open;
                }
                let ix = self.pools.find(&pool.database, &pool.user);
                match ix.filter(|ix| self.pools.get_mut(*ix).pool.evict()) {
                    Some(ix) => self.common.follow_up(FollowUp::PollPool(ix)),
                    None => plead(Plea::Missed { key }, io),
                }
            }
        }
    }

    fn longest_idle(&self, key: &Key) -> Option<(Time, PoolId)> {
        let slots = self.pools.iter().filter(|slot| key.covers(&slot.name, &slot.user));
        let idle = slots.filter_map(|slot| Some((slot.pool.longest_idle()?, slot)));
        idle.min_by_key(|(since, _)| *since).map(|(since, slot)| (since, slot.id()))
    }

    /// A letter for the ledger, which this worker keeps.
    pub(crate) fn pleaded<I: Io>(&mut self, from: WorkerId, plea: Plea, io: &mut I) {
        let (config, mut orders) = (self.common.config().clone(), Vec::new());
        self.cluster.permits.hear(from, plea, &|key| limit(&config, key), &mut orders);
        self.settle_ledger_into(orders, io);
    }

    /// The limits may have changed: there may be room.
    pub(crate) fn settle_ledger<I: Io>(&mut self, io: &mut I) {
        if self.common.worker() == LEDGER {
            self.settle_ledger_into(Vec::new(), io);
        }
    }

    fn settle_ledger_into<I: Io>(&mut self, mut orders: Vec<Order>, io: &mut I) {
        let config = self.common.config().clone();
        self.cluster.permits.settle(self.common.workers(), &|key| limit(&config, key), &mut orders);
        for order in orders {
            match order {
                Order::Answer { to, .. } | Order::Evict { to, .. } => send(to, order, io),
                Order::Seek { .. } | Order::Relax { .. } => {
                    (0..self.common.workers()).for_each(|worker| send(WorkerId(worker), order.clone(), io));
                }
            }
        }
    }
}

/// The most servers under a key.
fn limit(config: &weir_config::Config, key: &Key) -> u32 {
    match key {
        Key::Database(name) => config.db_connections(name),
        Key::User(name) => config.user_connections(name),
    }
}

fn plead<I: Io>(plea: Plea, io: &mut I) {
    io.post(LEDGER, Message(Payload::Plea(Box::new(plea))), None);
}

fn send<I: Io>(to: WorkerId, order: Order, io: &mut I) {
    io.post(to, Message(Payload::Order(Box::new(order))), None);
}
