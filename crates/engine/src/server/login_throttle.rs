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
//!
//! Pools that want a primary and don't know it *look* for it, those of all users and databases at a host: one after the
//! other, each for all, and in pauses where the host takes no writes. A look that takes long does not hold up the others.

use std::collections::{HashMap, VecDeque};

use weir_base::{Span, Target, Time};
use weir_config::{Config, OnServerDown};
use weir_session::ServerError;

use crate::handles::PoolIx;
use crate::server::login_failure::LoginFailureKind;

/// The pauses between attempts to reach a host that is down.
const SHORTEST_PAUSE: Span = Span::from_millis(20);
const LONGEST_PAUSE: Span = Span::from_millis(40);

/// The pauses between looks at a host that takes no writes.
const SHORTEST_LOOK_PAUSE: Span = Span::from_millis(100);
const LONGEST_LOOK_PAUSE: Span = Span::from_millis(200);

/// How long a look may take until another pool looks, too.
const LOOK_TAKES: Span = Span::from_secs(1);

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
    /// Pools that wait, and whether they look for their primary.
    waiting: VecDeque<(PoolIx, bool)>,
    down: Option<DownHost>,
    looks: HostLooks,
}

/// Looks at a host by pools that don't know their primary.
#[derive(Default)]
struct HostLooks {
    /// One is under way.
    under_way: bool,
    /// The next one.
    opens: Time,
    /// Why the host was not fit for the last one, and how many in a row found it so.
    unfit: Option<(ServerError, u32)>,
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

/// How a login at a host fails, as is known from the last one.
pub(crate) struct KnownFailure<'h> {
    pub(crate) error: &'h ServerError,
    pub(crate) too_slow: bool,
    pub(crate) kind: LoginFailureKind,
}

/// The throttle's state of a pool's login.
#[derive(Default)]
pub(crate) struct PoolLogin {
    /// The host of the login under way.
    begun_at: Option<Target>,
    /// That login looks for the pool's primary.
    looks: bool,
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
    fn failure(&self, looks: bool) -> Option<KnownFailure<'_>> {
        let down = self.down.as_ref().map(|down| KnownFailure {
            error: &down.error,
            too_slow: down.too_slow,
            kind: LoginFailureKind::Down,
        });
        let unfit = || self.looks.unfit.as_ref().filter(|_| looks);
        down.or_else(|| {
            unfit().map(|(error, _)| KnownFailure { error, too_slow: false, kind: LoginFailureKind::NotReady })
        })
    }

    /// When the pools that wait are called without a login that ends: after a pause. Where there is no room for one more
    /// login, the end of one calls them.
    fn attempt_due(&self, most: u32) -> Time {
        let only_looks = self.waiting.iter().all(|(_, looks)| *looks);
        let look = if only_looks { self.looks.opens } else { Time::START };
        match &self.down {
            _ if self.waiting.is_empty() => Time::NEVER,
            Some(down) if self.under_way == 0 => down.opens.max(look),
            None if only_looks && self.looks.has_pause() && self.under_way < most => look,
            _ => Time::NEVER,
        }
    }

    /// Whether a login may begin; while the host is down, one at a time. `looks`: it looks for its pool's primary.
    fn is_open(&self, most: u32, looks: bool, now: Time) -> bool {
        let pause_over = |down: &DownHost| self.under_way == 0 && down.opens <= now;
        self.under_way < most && self.down.as_ref().is_none_or(pause_over) && (!looks || self.looks.opens <= now)
    }

    /// Whether a pool that waits must go first. One that only looks for its primary does not hold up others.
    fn has_queue(&self, looks: bool) -> bool {
        self.waiting.iter().any(|(_, waits_to_look)| looks || !waits_to_look)
    }
}

impl HostLooks {
    /// Whether looks wait for a time, and not only for room.
    fn has_pause(&self) -> bool {
        self.under_way || self.unfit.is_some()
    }

    fn is_default(&self) -> bool {
        !self.has_pause()
    }
}

impl LoginThrottle {
    /// Whether a pool may open a server now at this host, without overtaking pools that wait there.
    pub(crate) fn has_room(
        &self,
        target: &Target,
        (policy, looks): (OnServerDown, bool),
        most: u32,
        now: Time,
    ) -> bool {
        let Some(host) = self.hosts.get(target) else { return true };
        let open = match policy {
            OnServerDown::Wait => host.is_open(most, looks, now),
            // The pool paces itself; it only waits for a look that is under way.
            OnServerDown::Refuse => host.under_way < most && !(looks && host.looks.under_way && host.looks.opens > now),
        };
        open && !host.has_queue(looks)
    }

    /// A host that is down, or is no primary for a pool that `looks` for one, and is not to be tried by another pool now:
    /// as it has failed.
    pub(crate) fn shut(&self, target: &Target, looks: bool, now: Time) -> Option<KnownFailure<'_>> {
        let host = self.hosts.get(target)?;
        let closed = |host: &Host| !host.is_open(u32::MAX, looks, now) || host.has_queue(looks);
        host.failure(looks).filter(|_| closed(host))
    }

    /// How the last login at a host has failed, for a pool that waits there.
    pub(crate) fn failure(&self, target: &Target, looks: bool) -> Option<KnownFailure<'_>> {
        self.hosts.get(target)?.failure(looks)
    }

    /// A pool waits for room at a host; `looks`: to look for its primary.
    pub(crate) fn wait(&mut self, ix: PoolIx, login: &mut PoolLogin, target: &Target, looks: bool) {
        self.hosts.entry(target.clone()).or_default().waiting.push_back((ix, looks));
        login.waits_at = Some(target.clone());
    }

    /// A login of a pool begins at a host; `looks`: it looks for the pool's primary.
    pub(crate) fn begin(&mut self, login: &mut PoolLogin, target: &Target, looks: bool, now: Time) {
        let host = self.hosts.entry(target.clone()).or_default();
        host.under_way += 1;
        if looks {
            (host.looks.under_way, host.looks.opens) = (true, now + LOOK_TAKES);
        }
        (login.begun_at, login.looks) = (Some(target.clone()), looks);
    }

    /// A login has shown that a host is no primary.
    pub(crate) fn is_unfit(&mut self, target: &Target, error: &ServerError, now: Time) {
        let looks = &mut self.hosts.entry(target.clone()).or_default().looks;
        let before = looks.unfit.take().map_or(0, |(_, times)| times);
        let pause = Span::from_micros(SHORTEST_LOOK_PAUSE.micros() << before.min(8)).min(LONGEST_LOOK_PAUSE);
        *looks = HostLooks { under_way: false, opens: now + pause, unfit: Some((error.clone(), before + 1)) };
    }

    /// A login has shown that a host is a primary; returns whether it was none.
    pub(crate) fn is_fit(&mut self, target: &Target) -> bool {
        let Some(host) = self.hosts.get_mut(target) else { return false };
        let was_unfit = host.looks.unfit.take().is_some();
        if !host.looks.under_way {
            host.looks.opens = Time::START;
        }
        self.change(target, |_| ());
        was_unfit
    }

    /// Ends a pool's login, if one was under way; returns the host that has room for it.
    #[must_use]
    pub(crate) fn end(&mut self, login: &mut PoolLogin) -> Option<Target> {
        let target = login.begun_at.take()?;
        let looked = std::mem::take(&mut login.looks);
        self.change(&target, |host| {
            host.under_way -= 1;
            if looked && host.looks.under_way {
                (host.looks.under_way, host.looks.opens) = (false, Time::START);
            }
        });
        Some(target)
    }

    /// A pool stops waiting; returns whether it waited.
    pub(crate) fn leave(&mut self, ix: PoolIx, login: &mut PoolLogin) -> bool {
        let Some(target) = login.waits_at.take() else { return false };
        self.change(&target, |host| host.waiting.retain(|(other, _)| *other != ix));
        true
    }

    /// The pool that is next at a host, if there is room.
    pub(crate) fn next(&mut self, target: &Target, most: u32, now: Time) -> Option<PoolIx> {
        let host = self.hosts.get_mut(target)?;
        let at = host.waiting.iter().position(|(_, looks)| host.is_open(most, *looks, now))?;
        let next = host.waiting.remove(at);
        self.change(target, |_| ());
        next.map(|(ix, _)| ix)
    }

    /// Removes and returns the pools that wait at a host and fulfil the condition.
    pub(crate) fn take_waiting(&mut self, target: &Target, which: impl Fn(PoolIx) -> bool) -> Vec<PoolIx> {
        let mut taken = Vec::new();
        self.change(target, |host| {
            host.waiting.retain(|(ix, _)| {
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
        let Some(host) = self.hosts.get_mut(target) else { return };
        host.down.iter_mut().for_each(|down| down.opens = down.opens.min(now));
        host.looks.opens = host.looks.opens.min(now);
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
    pub(crate) fn attempt_due(&self, target: &Target, most: u32) -> Time {
        self.hosts.get(target).map_or(Time::NEVER, |host| host.attempt_due(most))
    }

    /// The record of the earliest wake-up for a host that is to be tried.
    pub(crate) fn armed(&mut self) -> &mut Time {
        self.armed.get_or_insert(Time::NEVER)
    }

    /// The hosts that are to be tried now.
    pub(crate) fn due(&mut self, most: u32, now: Time) -> Vec<Target> {
        self.armed = None;
        let mut due: Vec<_> = self.hosts.iter().filter(|(_, host)| host.attempt_due(most) <= now).collect();
        // A pool waits at one host, so this is an order, and always the same.
        due.sort_unstable_by_key(|(_, host)| host.waiting.front().copied());
        due.into_iter().map(|(target, _)| target.clone()).collect()
    }

    /// The next moment at which a host is to be tried.
    pub(crate) fn next_due(&self, most: u32) -> Time {
        self.hosts.values().map(|host| host.attempt_due(most)).min().unwrap_or(Time::NEVER)
    }

    /// Forgets hosts that are down and that no pool needs to reach: another configuration may not have them.
    pub(crate) fn forget_down(&mut self) {
        self.hosts.retain(|_, host| host.under_way > 0 || !host.waiting.is_empty());
    }

    /// Changes a host's entry, and drops it if it is empty.
    fn change(&mut self, target: &Target, change: impl FnOnce(&mut Host)) {
        let Some(host) = self.hosts.get_mut(target) else { return };
        change(host);
        if host.under_way == 0 && host.waiting.is_empty() && host.down.is_none() && host.looks.is_default() {
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
        // So has one at which it was looked for a primary.
        let missed = up.find(|(_, host)| {
            host.under_way < most && host.waiting.iter().any(|(_, looks)| !looks || !host.looks.has_pause())
        });
        assert!(missed.is_none(), "a pool waits at {:?}, which has room", missed.map(|(target, _)| target));
    }

    /// Whether a login of a pool is under way; for checks.
    pub(crate) fn has_begun(login: &PoolLogin) -> bool {
        login.begun_at.is_some()
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Host as Name;

    use super::*;

    #[test]
    fn where_there_is_no_room_for_a_login_its_end_calls_those_that_wait() {
        let target = Target { host: Name::Name("db".into()), port: 5432 };
        let mut throttle = LoginThrottle::default();
        let [mut first, mut second] = [PoolLogin::default(), PoolLogin::default()];
        throttle.begin(&mut first, &target, true, Time::START);
        throttle.wait(1, &mut second, &target, true);
        let later = Time::START + Span::from_secs(60);
        assert_eq!((throttle.next(&target, 1, later), throttle.attempt_due(&target, 1)), (None, Time::NEVER));
        assert!(throttle.due(1, later).is_empty() && throttle.next_due(1) == Time::NEVER);
        assert!(throttle.next_due(2) <= later, "a second login may look once the first takes long");
        assert_eq!(throttle.end(&mut first), Some(target.clone()));
        assert_eq!(throttle.next(&target, 1, later), Some(1));
    }
}
