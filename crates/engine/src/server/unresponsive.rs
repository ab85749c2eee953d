//! Hosts that give no answer: connections to them stay open, new ones may be accepted, and nothing is received.
//!
//! Owns what was last received from each host that is suspected, and the probe of it: a connection that sends
//! SSLRequest, which a server answers with one byte before anything else. So a slow query alone is never taken for such
//! a host. Must not know pools or sessions. Nothing here runs but when somebody looks at the health of pools.

use std::collections::HashMap;

use weir_admin::UnresponsiveHost;
use weir_base::{ConnId, Span, Target, Time};

/// From this time without an answer on, a host is suspected, and a probe without an answer is evidence.
pub(crate) const QUIET: Span = Span::from_millis(1500);
/// From this time on, a host that does not accept a connect is suspected: longer, since the network may have lost the
/// first packet.
const UNREACHED: Span = Span::from_secs(3);
/// The time between two probes of a host while clients wait, or more of them have got no answer.
const OFTEN: Span = Span::from_secs(3);
/// The time between two probes of a host while only queries run that are known to take long.
const RARELY: Span = Span::from_secs(30);
/// For this long after an answered probe, a host that gets another probe is not suspected again.
const TRUSTED: Span = Span::from_secs(5);
/// After this time a probe without an answer is replaced: the network may have forgotten it.
const LASTS: Span = Span::from_secs(30);

/// The hosts from which an answer is pending, or missing.
#[derive(Default)]
pub(crate) struct UnresponsiveHosts(HashMap<Target, Host>);

struct Host {
    /// When the host last sent something.
    heard: Time,
    /// Since when the host has not answered, and whether it accepts connections.
    unresponsive: Option<(Time, bool)>,
    probe: Option<Probe>,
    /// When the last probe began.
    probed_at: Option<Time>,
    /// When a probe was last answered.
    answered: Option<Time>,
}

struct Probe {
    conn: ConnId,
    began: Time,
    accepted: Option<Time>,
}

/// What this worker's connections show of a host.
#[derive(Clone, Debug)]
pub(crate) struct Signs {
    /// When one of the connections last received something.
    pub(crate) heard: Time,
    /// When the oldest and the latest request without an answer were sent; never and zero if there is none.
    pub(crate) asked: Time,
    pub(crate) asked_last: Time,
    /// Whether a login is under way, which is as good as a probe.
    pub(crate) logs_in: bool,
    /// When the oldest login that was accepted and has no answer began; never if there is none.
    pub(crate) knocked: Time,
    /// Whether clients wait for a server there.
    pub(crate) waits: bool,
    /// The machine to which a probe connects.
    pub(crate) machine: Target,
}

/// What to do about a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    Nothing,
    /// A probe is due, in place of the one that is to be closed.
    Probe(Option<ConnId>),
    /// Nothing is pending any more; the probe is to be closed.
    Forget(Option<ConnId>),
}

impl Signs {
    pub(crate) fn new(machine: Target) -> Signs {
        let none = Time::from_micros(0);
        Signs {
            heard: none,
            asked: Time::NEVER,
            asked_last: none,
            logs_in: false,
            knocked: Time::NEVER,
            waits: false,
            machine,
        }
    }

    /// A request that was sent at this time has no complete answer.
    pub(crate) fn pending(&mut self, since: Time) {
        if since != Time::NEVER {
            self.asked = self.asked.min(since);
            self.asked_last = self.asked_last.max(since);
        }
    }
}

impl UnresponsiveHosts {
    /// The hosts that something is known of, in an order that is always the same.
    pub(crate) fn known(&self) -> Vec<Target> {
        let mut known: Vec<Target> = self.0.keys().cloned().collect();
        known.sort_by_cached_key(ToString::to_string);
        known
    }

    /// Takes in what connections show; returns what is to be done.
    pub(crate) fn look(&mut self, target: &Target, signs: &Signs, now: Time) -> Step {
        let pending = signs.asked != Time::NEVER;
        if !pending && !self.0.contains_key(target) {
            return Step::Nothing;
        }
        let new = || Host { heard: signs.heard, unresponsive: None, probe: None, probed_at: None, answered: None };
        let host = self.0.entry(target.clone()).or_insert_with(new);
        host.heard = host.heard.max(signs.heard);
        host.unresponsive = host.unresponsive.filter(|(since, _)| host.heard <= *since);
        if !pending && host.unresponsive.is_none() {
            let gone = self.0.remove(target);
            return Step::Forget(gone.and_then(|host| host.probe).map(|probe| probe.conn));
        }
        let unanswered = |began: Time| began != Time::NEVER && began >= host.heard;
        let since = if pending { host.heard.max(signs.asked) } else { host.heard };
        let login = unanswered(signs.knocked) && now.since(signs.knocked) >= QUIET;
        let evidence =
            host.probe.as_ref().filter(|probe| unanswered(probe.began)).and_then(|probe| match probe.accepted {
                Some(at) => (now.since(at) >= QUIET).then_some(true),
                None => (now.since(probe.began) >= UNREACHED).then_some(false),
            });
        if let Some(accepts) = evidence.or(login.then_some(true)) {
            let since = host.unresponsive.map_or(since, |(since, _)| since);
            host.unresponsive = Some((since, accepts));
        }
        if host.probe.as_ref().is_some_and(|probe| now.since(probe.began) < LASTS) {
            return Step::Nothing;
        }
        let quiet = |at: Time| now.since(at.max(host.heard)) >= QUIET;
        let more = signs.asked_last > host.heard && quiet(signs.asked_last);
        let often = signs.waits || more || host.unresponsive.is_some();
        let due = host.probed_at.is_none_or(|at| now.since(at) >= if often { OFTEN } else { RARELY });
        let suspected = !signs.logs_in && (host.unresponsive.is_some() || quiet(signs.asked));
        if due && suspected { Step::Probe(host.probe.take().map(|probe| probe.conn)) } else { Step::Nothing }
    }

    /// A connection is lost, as its host has acknowledged nothing for seconds: evidence like a probe that is not accepted,
    /// until the host is heard again.
    pub(crate) fn lost(&mut self, target: &Target, heard: Time) {
        let new = || Host { heard, unresponsive: None, probe: None, probed_at: None, answered: None };
        let host = self.0.entry(target.clone()).or_insert_with(new);
        if host.heard <= heard {
            host.heard = heard;
            host.unresponsive.get_or_insert((heard, false));
        }
    }

    /// A probe has begun.
    pub(crate) fn probed(&mut self, target: &Target, conn: ConnId, now: Time) {
        if let Some(host) = self.0.get_mut(target) {
            host.probe = Some(Probe { conn, began: now, accepted: None });
            host.probed_at = Some(now);
        }
    }

    /// A probe's connection is open.
    pub(crate) fn accepted(&mut self, target: &Target, now: Time) {
        if let Some(probe) = self.0.get_mut(target).and_then(|host| host.probe.as_mut()) {
            probe.accepted = Some(now);
        }
    }

    /// A probe was answered.
    pub(crate) fn answered(&mut self, target: &Target, now: Time) {
        if let Some(host) = self.0.get_mut(target) {
            (host.heard, host.unresponsive, host.probe, host.answered) = (now, None, None, Some(now));
        }
    }

    /// A probe has failed, or was closed. A host that refuses it, or closes it at once, is not unresponsive: a login
    /// says the rest.
    pub(crate) fn ended(&mut self, target: &Target, now: Time) {
        let Some(host) = self.0.get_mut(target) else { return };
        let lasted = host.probe.take().map_or(Span::ZERO, |probe| now.since(probe.began));
        if lasted < QUIET {
            host.unresponsive = None;
        }
    }

    /// A host is of no interest any more; returns the probe to be closed.
    pub(crate) fn forget(&mut self, target: &Target) -> Option<ConnId> {
        self.0.remove(target).and_then(|host| host.probe).map(|probe| probe.conn)
    }

    /// The hosts that give no answer, or may give none.
    pub(crate) fn report(&self, wall: impl Fn(Time) -> u64) -> HashMap<Target, UnresponsiveHost> {
        let unresponsive = |(target, host): (&Target, &Host)| {
            // A host that has answered the probe before is taken for alive until this one proves the opposite.
            let doubtful = |probe: &&Probe| host.answered.is_none_or(|at| probe.began.since(at) > TRUSTED);
            let suspected = || {
                let probe = host.probe.as_ref().filter(doubtful)?;
                Some((host.heard, probe.accepted.is_some()))
            };
            let (since, accepts) = host.unresponsive.or_else(suspected)?;
            Some((
                target.clone(),
                UnresponsiveHost { since: wall(since), accepts, proved: host.unresponsive.is_some() },
            ))
        };
        self.0.iter().filter_map(unresponsive).collect()
    }
}

#[cfg(test)]
mod tests {
    use weir_base::Host as Name;

    use super::*;

    const PROBE: ConnId = ConnId { slot: 7, generation: 1 };

    fn at(seconds: f64) -> Time {
        Time::from_micros((seconds * 1e6) as u64)
    }

    fn db() -> Target {
        Target { host: Name::parse("db"), port: 5432 }
    }

    fn signs(heard: f64, asked: &[f64]) -> Signs {
        let mut signs = Signs::new(db());
        signs.heard = at(heard);
        asked.iter().for_each(|since| signs.pending(at(*since)));
        signs
    }

    fn unresponsive(hosts: &UnresponsiveHosts) -> Option<(u64, bool)> {
        hosts.report(Time::micros).get(&db()).filter(|host| host.proved).map(|host| (host.since, host.accepts))
    }

    #[test]
    fn a_host_whose_probe_gets_no_answer_is_silent_since_its_last_word_until_the_next_one() {
        let mut hosts = UnresponsiveHosts::default();
        let asked = signs(10.0, &[9.0, 10.5]);
        assert_eq!(hosts.look(&db(), &asked, at(11.0)), Step::Nothing, "it may still answer");
        assert_eq!(hosts.look(&db(), &asked, at(12.0)), Step::Probe(None));
        hosts.probed(&db(), PROBE, at(12.0));
        hosts.accepted(&db(), at(12.1));
        hosts.look(&db(), &asked, at(13.0));
        assert_eq!(unresponsive(&hosts), None);
        hosts.look(&db(), &asked, at(14.0));
        assert_eq!(unresponsive(&hosts), Some((10_000_000, true)));
        // Also when all that was asked is given up.
        hosts.look(&db(), &signs(0.0, &[]), at(20.0));
        assert_eq!(unresponsive(&hosts), Some((10_000_000, true)));
        hosts.answered(&db(), at(21.0));
        assert_eq!(unresponsive(&hosts), None);
        assert_eq!(hosts.look(&db(), &signs(0.0, &[]), at(22.0)), Step::Forget(None));
        assert!(hosts.known().is_empty());
    }

    #[test]
    fn one_long_query_on_a_host_that_answers_is_probed_now_and_then_and_is_no_silence() {
        let mut hosts = UnresponsiveHosts::default();
        let mut probes = 0;
        for second in 0..600 {
            let now = at(100.0 + f64::from(second));
            if let Step::Probe(_) = hosts.look(&db(), &signs(100.0, &[100.0]), now) {
                probes += 1;
                hosts.probed(&db(), PROBE, now);
                hosts.accepted(&db(), now);
                hosts.answered(&db(), now);
            }
            assert_eq!(unresponsive(&hosts), None);
        }
        assert!((15..=21).contains(&probes), "{probes} probes");
    }

    #[test]
    fn a_host_that_answers_each_probe_is_not_suspected_again_at_each() {
        let mut hosts = UnresponsiveHosts::default();
        let mut suspected = Vec::new();
        let mut asked = signs(100.0, &[100.0]);
        asked.waits = true;
        for second in 0..60 {
            let now = at(100.0 + f64::from(second));
            let step = hosts.look(&db(), &asked, now);
            if let Step::Probe(_) = step {
                hosts.probed(&db(), PROBE, now);
                hosts.accepted(&db(), now);
            }
            if !hosts.report(Time::micros).is_empty() {
                suspected.push(second);
            }
            if let Step::Probe(_) = step {
                hosts.answered(&db(), now + Span::from_millis(1));
            }
        }
        assert_eq!(suspected, [2], "the first time only");
        // The host is still found when it stops answering.
        let mut last = None;
        for second in 160..170 {
            if let Step::Probe(_) = hosts.look(&db(), &asked, at(f64::from(second))) {
                hosts.probed(&db(), PROBE, at(f64::from(second)));
                hosts.accepted(&db(), at(f64::from(second)));
            }
            last = unresponsive(&hosts);
        }
        assert!(last.is_some_and(|(_, accepts)| accepts), "{last:?}");
    }

    #[test]
    fn a_login_without_an_answer_is_evidence_and_one_beside_answers_is_not() {
        let knocks = |heard, knocked| {
            let mut signs = signs(heard, &[knocked]);
            signs.knocked = at(knocked);
            signs
        };
        let mut hosts = UnresponsiveHosts::default();
        hosts.look(&db(), &knocks(0.0, 5.0), at(6.0));
        assert_eq!(unresponsive(&hosts), None);
        hosts.look(&db(), &knocks(0.0, 5.0), at(6.5));
        assert_eq!(unresponsive(&hosts), Some((5_000_000, true)));
        hosts.look(&db(), &knocks(6.9, 5.0), at(7.0));
        assert_eq!(unresponsive(&hosts), None, "another connection has received something");
    }

    #[test]
    fn a_host_that_acknowledged_nothing_of_a_lost_connection_gives_no_answer_until_it_is_heard() {
        let mut hosts = UnresponsiveHosts::default();
        hosts.look(&db(), &signs(10.0, &[10.0]), at(12.0));
        hosts.probed(&db(), PROBE, at(12.0));
        hosts.lost(&db(), at(10.0));
        hosts.look(&db(), &signs(0.0, &[]), at(15.0));
        assert_eq!(unresponsive(&hosts), Some((10_000_000, false)));
        hosts.look(&db(), &signs(15.5, &[]), at(16.0));
        assert_eq!(unresponsive(&hosts), None, "another connection works");
        hosts.look(&db(), &signs(17.0, &[17.0]), at(17.1));
        hosts.lost(&db(), at(13.0));
        assert_eq!(unresponsive(&hosts), None, "others have received something since");
    }

    #[test]
    fn a_host_that_refuses_a_probe_is_not_silent_and_one_that_accepts_none_is() {
        let mut hosts = UnresponsiveHosts::default();
        let asked = signs(1.0, &[1.0]);
        hosts.look(&db(), &asked, at(3.0));
        hosts.probed(&db(), PROBE, at(3.0));
        hosts.look(&db(), &asked, at(6.0));
        assert_eq!(unresponsive(&hosts), Some((1_000_000, false)));
        assert_eq!(hosts.look(&db(), &asked, at(33.0)), Step::Probe(Some(PROBE)), "a fresh one");
        hosts.probed(&db(), PROBE, at(33.0));
        hosts.ended(&db(), at(33.1));
        assert_eq!(unresponsive(&hosts), None);
        assert_eq!(hosts.forget(&db()), None);
    }
}
