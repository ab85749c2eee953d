//! Limits concurrent logins at one host over all pools of this worker (max_logins_per_host), and to one at a time at a
//! host that is down.
//!
//! A pool paces its own logins; a host to which thousands of pools return at once, because it was restarted, must be
//! protected from all of them together. Owns how many logins are under way to each host, which hosts are down, and the
//! queue of pools that wait for theirs. The logins under way are compared with the pool whenever it is polled, so that
//! every end of a login, for whatever reason, makes room for the next.
//!
//! A host that is down is tried by one pool after the other, each for all: after 20 ms, doubling up to
//! [`LONGEST_PAUSE`]. When it answers, all waiting pools continue. Pools that refuse their clients while a server is
//! down pace themselves.

use std::collections::{HashMap, VecDeque};

use weir_base::{Span, Target, Time};
use weir_config::{Config, OnServerDown};
use weir_session::ServerError;

use crate::handles::PoolIx;

/// The pauses between attempts to reach a host that is down.
const SHORTEST_PAUSE: Span = Span::from_millis(20);
const LONGEST_PAUSE: Span = Span::from_millis(40);

/// The interval between lines in the log about a host that is down.
const LOG_EVERY: Span = Span::from_secs(1);

/// Logins under way, and the pools that wait for one.
#[derive(Default)]
pub(crate) struct LoginThrottle {
    hosts: HashMap<Target, Host>,
    /// The earliest wake-up in the timers for a host that is down and has pools waiting; none: never.
    armed: Option<Time>,
}

#[derive(Default)]
struct Host {
    under_way: u32,
    waiting: VecDeque<PoolIx>,
    down: Option<DownHost>,
}

/// A host that is down.
pub(crate) struct DownHost {
    /// How the last attempt failed.
    pub(crate) error: ServerError,
    /// Whether the last attempt timed out.
    pub(crate) too_slow: bool,
    /// When the first attempt failed.
    pub(crate) since: Time,
    /// Attempts in a row that have failed.
    failures: u32,
    /// The next attempt.
    opens: Time,
    /// When the log last had a line about the host.
    logged_at: Time,
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

    /// The pool is next: it no longer waits.
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

impl Host {
    fn attempt_due(&self) -> Time {
        let idle = self.under_way == 0 && !self.waiting.is_empty();
        self.down.as_ref().filter(|_| idle).map_or(Time::NEVER, |down| down.opens)
    }

    /// Whether a login may begin; while the host is down, one at a time.
    fn is_open(&self, most: u32, now: Time) -> bool {
        let pause_over = |down: &DownHost| self.under_way == 0 && down.opens <= now;
        self.under_way < most && self.down.as_ref().is_none_or(pause_over)
    }
}

impl LoginThrottle {
    /// Whether a pool may open a server now at this host, without overtaking pools that wait there.
    pub(crate) fn has_room(&self, target: &Target, policy: OnServerDown, most: u32, now: Time) -> bool {
        let Some(host) = self.hosts.get(target) else { return true };
        let open = match policy {
            OnServerDown::Wait => host.is_open(most, now),
            OnServerDown::Refuse => host.under_way < most,
        };
        open && host.waiting.is_empty()
    }

    /// A host that is down, and is not to be tried by another pool now.
    pub(crate) fn shut(&self, target: &Target, now: Time) -> Option<&DownHost> {
        let host = self.hosts.get(target)?;
        host.down.as_ref().filter(|_| !host.is_open(u32::MAX, now) || !host.waiting.is_empty())
    }

    /// A pool waits for room at a host.
    pub(crate) fn wait(&mut self, ix: PoolIx, login: &mut PoolLogin, target: &Target) {
        self.hosts.entry(target.clone()).or_default().waiting.push_back(ix);
        login.waits_at = Some(target.clone());
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
    pub(crate) fn next(&mut self, target: &Target, most: u32, now: Time) -> Option<PoolIx> {
        let host = self.hosts.get_mut(target).filter(|host| host.is_open(most, now))?;
        let next = host.waiting.pop_front();
        self.change(target, |_| ());
        next
    }

    /// Removes and returns the pools that wait at a host and fulfil the condition.
    pub(crate) fn take_waiting(&mut self, target: &Target, which: impl Fn(PoolIx) -> bool) -> Vec<PoolIx> {
        let mut taken = Vec::new();
        self.change(target, |host| {
            host.waiting.retain(|ix| {
                let takes = which(*ix);
                taken.extend(takes.then_some(*ix));
                !takes
            });
        });
        taken
    }

    /// A login has shown that a host is down; returns whether to log it. Logins that began before the last attempt
    /// failed report nothing new.
    pub(crate) fn is_down(&mut self, target: &Target, error: &ServerError, too_slow: bool, now: Time) -> bool {
        let host = self.hosts.entry(target.clone()).or_default();
        let new = host.down.is_none();
        let down = host.down.get_or_insert_with(|| DownHost {
            error: error.clone(),
            too_slow,
            since: now,
            failures: 0,
            opens: now,
            logged_at: now,
        });
        if down.opens <= now {
            let pause = Span::from_micros(SHORTEST_PAUSE.micros() << down.failures.min(8)).min(LONGEST_PAUSE);
            down.opens = now + pause;
            down.failures = down.failures.saturating_add(1);
        }
        (down.error, down.too_slow) = (error.clone(), too_slow);
        let logs = new || now.since(down.logged_at) >= LOG_EVERY;
        if logs {
            down.logged_at = now;
        }
        logs
    }

    /// Ends the pause before the next attempt to reach a host that is down.
    pub(crate) fn open(&mut self, target: &Target, now: Time) {
        if let Some(down) = self.hosts.get_mut(target).and_then(|host| host.down.as_mut()) {
            down.opens = down.opens.min(now);
        }
    }

    /// A host answers; returns whether it was down.
    pub(crate) fn is_back(&mut self, target: &Target) -> bool {
        let Some(host) = self.hosts.get_mut(target) else { return false };
        let was_down = host.down.take().is_some();
        self.change(target, |_| ());
        was_down
    }

    /// The state of a host that is down.
    pub(crate) fn down(&self, target: &Target) -> Option<&DownHost> {
        self.hosts.get(target)?.down.as_ref()
    }

    /// When a host that is down is to be tried for pools that wait there; never while an attempt is under way.
    pub(crate) fn attempt_due(&self, target: &Target) -> Time {
        self.hosts.get(target).map_or(Time::NEVER, Host::attempt_due)
    }

    /// The record of the earliest wake-up for a host that is to be tried.
    pub(crate) fn armed(&mut self) -> &mut Time {
        self.armed.get_or_insert(Time::NEVER)
    }

    /// The hosts that are to be tried now.
    pub(crate) fn due(&mut self, now: Time) -> Vec<Target> {
        self.armed = None;
        let mut due: Vec<_> = self.hosts.iter().filter(|(_, host)| host.attempt_due() <= now).collect();
        // A pool waits at one host, so this is an order, and always the same.
        due.sort_unstable_by_key(|(_, host)| host.waiting.front());
        due.into_iter().map(|(target, _)| target.clone()).collect()
    }

    /// The next moment at which a host is to be tried.
    pub(crate) fn next_due(&self) -> Time {
        self.hosts.values().map(Host::attempt_due).min().unwrap_or(Time::NEVER)
    }

    /// Forgets hosts that are down and that no pool needs to reach: another configuration may not have them.
    pub(crate) fn forget_down(&mut self) {
        self.hosts.retain(|_, host| host.under_way > 0 || !host.waiting.is_empty());
    }

    /// Changes a host's entry, and drops it if it is empty.
    fn change(&mut self, target: &Target, change: impl FnOnce(&mut Host)) {
        let Some(host) = self.hosts.get_mut(target) else { return };
        change(host);
        if host.under_way == 0 && host.waiting.is_empty() && host.down.is_none() {
            self.hosts.remove(target);
        }
    }

    /// Asserts that hosts and pools agree, and that none waits at a host that has room; `logins` are those of all pools.
    pub(crate) fn check<'a>(&self, most: u32, logins: impl Iterator<Item = &'a PoolLogin>) {
        let count = |(begun, waiting), login: &PoolLogin| {
            (begun + u32::from(login.begun_at.is_some()), waiting + usize::from(login.waits_at.is_some()))
        };
        let pools = logins.fold((0, 0), count);
        let hosts = self.hosts.values();
        let sums = hosts.fold((0, 0), |(sum, waiting), host| (sum + host.under_way, waiting + host.waiting.len()));
        assert_eq!(sums, pools, "logins without pools, or pools without logins");
        // A host that is down has a timer.
        let mut up = self.hosts.iter().filter(|(_, host)| host.down.is_none());
        let missed = up.find(|(_, host)| host.under_way < most && !host.waiting.is_empty());
        assert!(missed.is_none(), "a pool waits at {:?}, which has room", missed.map(|(target, _)| target));
    }

    /// Whether a login of a pool is under way; for checks.
    pub(crate) fn has_begun(login: &PoolLogin) -> bool {
        login.begun_at.is_some()
    }
}
