//! Logins at servers, so many at once to one host and no more, over all pools of this worker (max_logins_per_host).
//!
//! A pool paces its own logins; a host that thousands of pools come back to at once, because it was restarted, is to be
//! protected from all of them together. Owns how many logins are under way to each host, and the queue of pools that wait
//! for theirs. What is under way is compared with the pool whenever it is polled, so that every end of a login,
//! whatever it was, makes room for the next.

use std::collections::{HashMap, VecDeque};

use weir_base::Target;
use weir_config::Config;

use crate::backends::hosts::Hosts;
use crate::handles::PoolIx;

/// Logins under way, and who waits for one.
#[derive(Default)]
pub(crate) struct LoginThrottle {
    hosts: HashMap<Target, Host>,
}

#[derive(Default)]
struct Host {
    under_way: u32,
    waiting: VecDeque<PoolIx>,
}

/// The throttle's state of a pool's login.
#[derive(Default)]
pub(crate) struct PoolLogin {
    /// The host of the login under way.
    begun_at: Option<Target>,
    /// The host at which the pool waits.
    waits_at: Option<Target>,
}

impl PoolLogin {
    /// Whether the pool waits for a host.
    #[inline]
    pub(crate) fn waits(&self) -> bool {
        self.waits_at.is_some()
    }

    /// The host at which the pool waits.
    pub(crate) fn waits_at(&self) -> Option<&Target> {
        self.waits_at.as_ref()
    }

    /// Whether no login is under way, and none waits.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.begun_at.is_none() && self.waits_at.is_none()
    }

    /// The pool's turn has come: it waits no more.
    pub(crate) fn called(&mut self) {
        self.waits_at = None;
    }
}

/// The limit of concurrent logins at one host, for one worker.
pub(crate) fn most_logins(config: &Config, workers: u16) -> u32 {
    match config.max_logins_per_host {
        0 => u32::MAX,
        most => (most / u32::from(workers)).max(1),
    }
}

impl LoginThrottle {
    /// A pool may open a server: whether it may do so now, at the first of its hosts that has room for one more login.
    /// Otherwise it waits for the one that is next.
    pub(crate) fn admit(
        &mut self,
        ix: PoolIx,
        login: &mut PoolLogin,
        hosts: &mut Hosts,
        pool: &weir_config::Pool,
        most: u32,
    ) -> bool {
        for _ in 0..pool.targets.len() {
            if self.has_room(hosts.peek(pool), most) {
                return true;
            }
            hosts.pass(pool);
        }
        let target = hosts.peek(pool).clone();
        self.hosts.entry(target.clone()).or_default().waiting.push_back(ix);
        login.waits_at = Some(target);
        false
    }

    /// A login of a pool begins at a host.
    pub(crate) fn begin(&mut self, login: &mut PoolLogin, target: &Target) {
        self.hosts.entry(target.clone()).or_default().under_way += 1;
        login.begun_at = Some(target.clone());
    }

    /// Ends a pool's login, if one was under way; returns the host that has room for it.
    #[must_use]
    pub(crate) fn end(&mut self, login: &mut PoolLogin) -> Option<Target> {
        let target = login.begun_at.take()?;
        self.change(&target, |host| host.under_way -= 1);
        Some(target)
    }

    /// A pool stops waiting; returns whether it waited.
    pub(crate) fn leave(&mut self, ix: PoolIx, login: &mut PoolLogin) -> bool {
        let Some(target) = login.waits_at.take() else { return false };
        self.change(&target, |host| host.waiting.retain(|other| *other != ix));
        true
    }

    /// The pool that is next at a host, if there is room.
    pub(crate) fn next(&mut self, target: &Target, most: u32) -> Option<PoolIx> {
        let host = self.hosts.get_mut(target).filter(|host| host.under_way < most)?;
        let next = host.waiting.pop_front();
        self.change(target, |_| ());
        next
    }

    /// All who wait at a host, who wait no more.
    pub(crate) fn take_waiting(&mut self, target: &Target) -> VecDeque<PoolIx> {
        let waiting = self.hosts.get_mut(target).map(|host| std::mem::take(&mut host.waiting));
        self.change(target, |_| ());
        waiting.unwrap_or_default()
    }

    fn has_room(&self, target: &Target, most: u32) -> bool {
        self.hosts.get(target).is_none_or(|host| host.under_way < most && host.waiting.is_empty())
    }

    /// Changes a host's entry, and drops it if it is empty.
    fn change(&mut self, target: &Target, change: impl FnOnce(&mut Host)) {
        let Some(host) = self.hosts.get_mut(target) else { return };
        change(host);
        if host.under_way == 0 && host.waiting.is_empty() {
            self.hosts.remove(target);
        }
    }

    /// Asserts that hosts and pools agree; `logins` are those of all pools.
    pub(crate) fn check<'a>(&self, logins: impl Iterator<Item = &'a PoolLogin>) {
        let count = |(begun, waiting), login: &PoolLogin| {
            (begun + u32::from(login.begun_at.is_some()), waiting + usize::from(login.waits_at.is_some()))
        };
        let pools = logins.fold((0, 0), count);
        let hosts = self.hosts.values();
        let sums = hosts.fold((0, 0), |(sum, waiting), host| (sum + host.under_way, waiting + host.waiting.len()));
        assert_eq!(sums, pools, "logins without pools, or pools without logins");
    }

    /// Whether a login of a pool is under way; for checks.
    pub(crate) fn has_begun(login: &PoolLogin) -> bool {
        login.begun_at.is_some()
    }
}
