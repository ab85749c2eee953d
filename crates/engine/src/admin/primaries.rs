//! Worker 0 has pools move to another primary: it carries out what [`seats`](crate::primary::seats) decides.

use std::sync::Arc;

use weir_admin::{Command, CommandError, PrimaryWaits};
use weir_base::{Span, Target, Time, WorkerId};

use crate::admin::Admin;
use crate::admin::broadcasts::Caller;
use crate::common::cx;
use crate::core::Core;
use crate::log::log;
use crate::port::{Io, Level};
use crate::primary::seats::{MoveLimits, Order};
use crate::timers::Who;
use crate::workers::messages::{WorkerAnswer, WorkerCommand};
use crate::workers::send::answer;

impl Admin {
    /// A login of a pool has found a host fit.
    pub(crate) fn primary_found<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        pool: &Arc<str>,
        at: &Target,
        io: &mut I,
    ) {
        // The configuration may be another one since. Logins of a pool that wants no primary have gone on with it.
        let Some(config) = core.common.config().pool(pool).filter(|pool| pool.session_attrs.wants_primary()) else {
            return;
        };
        let orders = match config.targets.contains(at) {
            true => self.primaries.found(pool, at, limits(core, pool), now),
            false => self.primaries.no_host(pool),
        };
        self.order(core, now, pool, orders, io);
    }

    /// A worker has left a host that takes no writes any more.
    pub(crate) fn primary_lost<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        pool: &Arc<str>,
        at: &Target,
        why: &str,
        io: &mut I,
    ) {
        let orders = self.primaries.lost(pool, at, why);
        self.order(core, now, pool, orders, io);
    }

    /// SWITCH; it is answered when the pool is there, or back.
    pub(super) fn begin_switch<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        pool: &Arc<str>,
        to: &Target,
        by: (WorkerId, u64),
        io: &mut I,
    ) {
        let orders = self.primaries.switch(pool, to, by, limits(core, pool), now);
        self.order(core, now, pool, orders, io);
    }

    /// A command was withdrawn, which may be a SWITCH.
    pub(super) fn switch_withdrawn<I: Io>(&mut self, core: &mut Core, now: Time, id: u64, io: &mut I) {
        if let Some((pool, orders)) = self.primaries.withdrawn(id) {
            self.order(core, now, &pool, orders, io);
        }
    }

    /// All workers have carried out a step.
    pub(super) fn primary_answered<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        id: u64,
        waits: PrimaryWaits,
        io: &mut I,
    ) {
        if let Some((pool, orders)) = self.primaries.answered(id, waits, now) {
            self.order(core, now, &pool, orders, io);
        }
    }

    /// Pools may take too long to move.
    pub(crate) fn primaries_due<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        *self.primaries.armed() = Time::NEVER;
        for (pool, order) in self.primaries.due(now) {
            self.order(core, now, &pool, vec![order], io);
        }
        self.arm_primaries(core);
    }

    /// A configuration is in force: pools may be gone, want no primary any more, or have other hosts.
    pub(crate) fn primaries_configured<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        let config = core.common.config().clone();
        let hosts = |name: &str| {
            let pool = config.pool(name).filter(|pool| pool.session_attrs.wants_primary());
            pool.map(|pool| pool.targets.clone())
        };
        for (pool, order) in self.primaries.configured(hosts) {
            self.order(core, now, &pool, vec![order], io);
        }
    }

    fn order<I: Io>(&mut self, core: &mut Core, now: Time, pool: &Arc<str>, orders: Vec<Order>, io: &mut I) {
        for order in orders {
            match order {
                Order::Say(line) => log(Level::Warning, format_args!("{line}"), io),
                Order::Answer((worker, id), result) => {
                    answer(worker, id, result.map_or_else(WorkerAnswer::Failed, |()| WorkerAnswer::Done), io);
                }
                Order::Step(step) => {
                    let command = Command::Switch { database: pool.to_string(), host: String::new() };
                    let to_workers = WorkerCommand::Primary(pool.clone(), step.clone());
                    let id = self.broadcasts.broadcast(cx!(core, now, io), Caller::Engine, command, &to_workers);
                    self.primaries.ordered(pool, &step, id);
                }
            }
        }
        self.arm_primaries(core);
    }

    fn arm_primaries(&mut self, core: &mut Core) {
        let due = self.primaries.next_due();
        core.common.arm(Who::Primaries, due, self.primaries.armed());
    }
}

/// How long a pool's moves may take. A login that waits for one must not time out for that.
fn limits(core: &Core, pool: &str) -> MoveLimits {
    let Some(pool) = core.common.config().pool(pool) else {
        return MoveLimits { leave: Span::ZERO, switch: Span::ZERO };
    };
    let limits = &pool.limits;
    let login = limits.server_connect_timeout;
    let most = if login.is_zero() { limits.old_primary_timeout } else { Span::from_micros(login.micros() / 2) };
    MoveLimits { leave: limits.old_primary_timeout.min(most), switch: limits.switch_timeout }
}

/// The host of a pool that an operator means: with its port, or without where that is clear.
///
/// # Errors
/// The pool has no such host, or no primary.
pub(super) fn target_of(core: &Core, database: &str, host: &str) -> Result<Target, CommandError> {
    let no_such = |why: String| CommandError::NoSuchHost(why);
    let pool = core.common.config().pool(database).ok_or_else(|| CommandError::NoSuchDatabase(database.to_owned()))?;
    if !pool.session_attrs.wants_primary() {
        let why = format!("{database} has no primary: set its target_session_attrs to \"read-write\" or \"primary\"");
        return Err(no_such(why));
    }
    let fits = |target: &&Target| target.to_string() == host || target.host.to_string() == host;
    let found: Vec<&Target> = pool.targets.iter().filter(fits).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => {
            let all: Vec<String> = pool.targets.iter().map(Target::to_string).collect();
            Err(no_such(format!("{host:?} is none of {}", all.join(", "))))
        }
        _ => Err(no_such(format!("{host:?} has several ports: name one, as in {}", found[0]))),
    }
}
