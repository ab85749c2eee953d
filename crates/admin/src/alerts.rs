//! Alerts: which conditions last long enough to be one, when a message about it is due, and when it is over.
//!
//! Owns the state of each alert. Pure: the time is an argument, conditions come from the caller, messages go to it.
//! Bounded in number.

use std::borrow::Cow;
use std::collections::BTreeMap;

use weir_base::{Span, plural};

use crate::one_line::identifier;

/// The most alerts at the same time.
const MOST: usize = 500;
/// A condition that has not been seen for this long is over: one that comes and goes is one alert.
const GONE: u64 = 15_000_000;
/// A condition of an alert of an earlier process is over when it has not been seen for this long: pools and figures are
/// not known at once after a start.
const GONE_AFTER_START: u64 = 60_000_000;
/// The most other pools of a server that are named.
const NAMED: usize = 5;

/// What an alert is about: a rule, and a pool; without a pool, the process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AlertKey {
    /// The rule: a state of health, or a threshold.
    pub rule: String,
    /// The pool.
    pub pool: Option<String>,
}

/// A condition that holds now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Condition {
    /// What the condition is about.
    pub key: AlertKey,
    /// Whether clients are not served at all.
    pub critical: bool,
    /// What is wrong, in a sentence.
    pub summary: String,
    /// What to do.
    pub advice: String,
    /// The number of affected clients.
    pub clients: u64,
    /// Since when the condition holds: microseconds since 1970; 0 while unknown.
    pub since: u64,
    /// The database server, if it has the problem and not the pool alone: conditions of one rule and server are one alert.
    pub server: Option<String>,
}

/// The state of an alert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AlertState {
    /// The condition does not last long enough yet.
    Pending,
    /// The condition lasts.
    Firing,
    /// The condition lasts, and an operator has silenced the alert (no messages).
    Silenced,
}

/// A message that is due.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertNotice {
    /// The condition as last seen.
    pub condition: Condition,
    /// When the condition began.
    pub started: u64,
    /// When the condition was over; none: it lasts.
    pub ended: Option<u64>,
}

/// One alert, for a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedAlert {
    /// The condition as last seen.
    pub condition: Condition,
    /// When the condition began.
    pub started: u64,
    /// The alert's state.
    pub state: AlertState,
    /// When the last message about it was made.
    pub sent: Option<u64>,
}

/// An alert that fires, as a later process needs it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FiredAlert {
    /// The condition as last seen.
    pub condition: Condition,
    /// When the condition began.
    pub started: u64,
    /// When the condition became an alert.
    pub fired: u64,
    /// When the last message about it was made.
    pub sent: Option<u64>,
    /// When the condition was last seen; after a restart up to 45 seconds too late until it is seen again.
    pub seen: u64,
}

/// The alerts.
#[derive(Debug, Default)]
pub struct AlertStates {
    alerts: BTreeMap<AlertKey, Alert>,
}

#[derive(Debug)]
struct Alert {
    condition: Condition,
    started: u64,
    seen: u64,
    /// When the condition became an alert.
    fired: Option<u64>,
    sent: Option<u64>,
    silenced: bool,
}

impl AlertStates {
    /// Takes the conditions of this moment, and returns the messages that are due. A condition is an alert after
    /// `hold`; a message is repeated after `repeat`, unless that is zero. A silenced alert has no message; if it still
    /// lasts when the silence ends, it has one then.
    pub fn observe(
        &mut self,
        now: u64,
        conditions: Vec<Condition>,
        (hold, repeat): (Span, Span),
        silenced: impl Fn(&AlertKey) -> bool,
    ) -> Vec<AlertNotice> {
        for condition in self.by_server(now, conditions, &silenced) {
            let known = self.alerts.get_mut(&condition.key).filter(|alert| alert.goes_on(now));
            if let Some(alert) = known {
                (alert.condition, alert.seen) = (condition, now);
            } else if self.alerts.len() < MOST {
                self.alerts.insert(condition.key.clone(), Alert::new(condition, now));
            }
        }
        let mut due = Vec::new();
        self.alerts.retain(|key, alert| {
            alert.silenced = silenced(key);
            due.extend(alert.notice(now, hold, repeat));
            !alert.is_over(now)
        });
        due
    }

    /// Conditions of several pools of one server as one, of the pool that has the oldest alert, or begins. One that was sent
    /// by itself before goes on, so that no message says that it is over; a silenced one speaks for no others.
    fn by_server(&self, now: u64, conditions: Vec<Condition>, silenced: impl Fn(&AlertKey) -> bool) -> Vec<Condition> {
        let mut groups: BTreeMap<(String, String), Vec<Condition>> = BTreeMap::new();
        let mut found = Vec::new();
        for condition in conditions {
            match condition.server.clone().filter(|_| !silenced(&condition.key)) {
                Some(server) => groups.entry((condition.key.rule.clone(), server)).or_default().push(condition),
                None => found.push(condition),
            }
        }
        let since = |condition: &Condition| {
            let known = self.alerts.get(&condition.key).filter(|alert| alert.goes_on(now));
            (
                known.is_none_or(|alert| alert.sent.is_none()),
                known.map_or(u64::MAX, |alert| alert.started),
                condition.since,
            )
        };
        for ((_, server), mut group) in groups {
            group.sort_by(|a, b| since(a).cmp(&since(b)).then_with(|| a.key.cmp(&b.key)));
            let mut group = group.into_iter();
            let Some(mut first) = group.next() else { continue };
            let (sent, others): (Vec<Condition>, Vec<Condition>) = group.partition(|it| !since(it).0);
            if !others.is_empty() {
                first.stands_for(&others, &server);
            }
            found.push(first);
            found.extend(sent);
        }
        found
    }

    /// The alerts that fire, silenced or not, for a later process.
    pub fn fired(&self) -> Vec<FiredAlert> {
        let fired = |alert: &Alert| {
            let (condition, started, sent, seen) = (alert.condition.clone(), alert.started, alert.sent, alert.seen);
            alert.fired.map(|fired| FiredAlert { condition, started, fired, sent, seen })
        };
        self.alerts.values().filter_map(fired).collect()
    }

    /// Takes over what fired in an earlier process: what still holds continues, and has no new message; the rest is
    /// over, with a message, after a minute.
    pub fn restore(&mut self, now: u64, fired: Vec<FiredAlert>) {
        let seen = now + (GONE_AFTER_START - GONE);
        for FiredAlert { condition, started, fired, sent, .. } in fired.into_iter().take(MOST) {
            let key = condition.key.clone();
            let alert = Alert { condition, started, seen, fired: Some(fired), sent, silenced: false };
            self.alerts.entry(key).or_insert(alert);
        }
    }

    /// All alerts.
    pub fn list(&self) -> Vec<ListedAlert> {
        self.alerts.values().map(Alert::listed).collect()
    }

    /// The alerts that fire and are not silenced, as messages.
    pub fn firing(&self) -> Vec<AlertNotice> {
        let fires = |alert: &&Alert| alert.fired.is_some() && !alert.silenced;
        self.alerts.values().filter(fires).map(|alert| alert.message(None)).collect()
    }
}

impl Condition {
    /// Adds other pools of the server that have the same problem.
    fn stands_for(&mut self, others: &[Condition], server: &str) {
        let names: Vec<Cow<'_, str>> = others.iter().filter_map(|it| it.key.pool.as_deref()).map(identifier).collect();
        let more = names.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let named = names.iter().take(NAMED).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
        let pools = plural(others.len() as u64, "more pool", "more pools");
        let are = if others.len() == 1 { "is" } else { "are" };
        self.summary = format!("{} So {are} {pools} of the server {server}: {named}{more}.", self.summary);
        self.clients += others.iter().map(|it| it.clients).sum::<u64>();
        self.critical |= others.iter().any(|it| it.critical);
    }
}

impl Alert {
    fn new(condition: Condition, now: u64) -> Alert {
        let started = if condition.since > 0 { condition.since.min(now) } else { now };
        Alert { condition, started, seen: now, fired: None, sent: None, silenced: false }
    }

    /// Whether a condition that holds now is the same as before: there was no time without a check, or it fires.
    fn goes_on(&self, now: u64) -> bool {
        self.fired.is_some() || now.saturating_sub(self.seen) < GONE
    }

    fn is_over(&self, now: u64) -> bool {
        let gone = now.saturating_sub(self.seen);
        // What is no alert yet is forgotten at once.
        gone > 0 && (self.fired.is_none() || gone >= GONE)
    }

    fn notice(&mut self, now: u64, hold: Span, repeat: Span) -> Option<AlertNotice> {
        if self.is_over(now) {
            return self.sent.map(|_| self.message(Some(self.seen.min(now))));
        }
        if self.fired.is_none() && now.saturating_sub(self.started) >= hold.micros() {
            self.fired = Some(now);
        }
        let repeats = repeat > Span::ZERO;
        let due = match self.sent {
            None => true,
            Some(sent) => repeats && now.saturating_sub(sent) >= repeat.micros(),
        };
        if self.fired.is_none() || self.silenced || !due {
            return None;
        }
        self.sent = Some(now);
        Some(self.message(None))
    }

    fn message(&self, ended: Option<u64>) -> AlertNotice {
        AlertNotice { condition: self.condition.clone(), started: self.started, ended }
    }

    fn listed(&self) -> ListedAlert {
        let state = match self.fired {
            None => AlertState::Pending,
            Some(_) if self.silenced => AlertState::Silenced,
            Some(_) => AlertState::Firing,
        };
        ListedAlert { condition: self.condition.clone(), started: self.started, state, sent: self.sent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;
    const HOLD: (Span, Span) = (Span::from_secs(30), Span::from_secs(600));

    fn down(pool: &str) -> Vec<Condition> {
        let key = AlertKey { rule: "cannot connect".to_owned(), pool: Some(pool.to_owned()) };
        let (summary, advice) = (String::new(), String::new());
        vec![Condition { key, critical: true, summary, advice, clients: 2, since: 0, server: None }]
    }

    fn seconds(
        states: &mut AlertStates,
        range: std::ops::Range<u64>,
        holds: impl Fn(u64) -> bool,
        silent: bool,
    ) -> Vec<(u64, bool)> {
        let at = |second: u64| (second, if holds(second) { down("app") } else { Vec::new() });
        let mut sent = Vec::new();
        for (second, conditions) in range.map(at) {
            let due = states.observe(second * SECOND, conditions, HOLD, |_| silent);
            sent.extend(due.iter().map(|notice| (second, notice.ended.is_some())));
        }
        sent
    }

    #[test]
    fn a_condition_that_lasts_is_sent_once_repeated_and_ended() {
        let mut states = AlertStates::default();
        let sent = seconds(&mut states, 100..900, |second| second < 800, false);
        assert_eq!(sent, [(130, false), (730, false), (814, true)]);
        assert!(states.list().is_empty());
    }

    #[test]
    fn a_short_one_is_never_sent_and_one_that_flaps_is_one_alert() {
        let mut states = AlertStates::default();
        assert_eq!(seconds(&mut states, 0..100, |second| second % 25 != 0, false), []);
        let flaps = |second: u64| second < 240 || (second % 10 < 5 && second < 300);
        assert_eq!(seconds(&mut states, 200..330, flaps, false), [(230, false), (309, true)]);
    }

    #[test]
    fn a_condition_that_is_known_to_be_older_fires_at_once() {
        let mut condition = down("app");
        condition[0].since = 5 * SECOND;
        let due = AlertStates::default().observe(60 * SECOND, condition, HOLD, |_| false);
        assert_eq!((due.len(), due[0].started), (1, 5 * SECOND));
    }

    #[test]
    fn a_silenced_alert_is_listed_and_sent_only_if_it_outlasts_the_silence() {
        let mut states = AlertStates::default();
        assert_eq!(seconds(&mut states, 0..60, |_| true, true), []);
        assert_eq!((states.list()[0].state, states.firing().len()), (AlertState::Silenced, 0));
        assert_eq!(seconds(&mut states, 60..70, |_| true, false), [(60, false)]);
        let mut states = AlertStates::default();
        assert_eq!(
            seconds(&mut states, 0..90, |second| second < 50, true),
            [],
            "it never was sent, so neither is its end"
        );
    }

    #[test]
    fn an_alert_goes_on_after_a_restart_without_a_new_message_and_ends_with_one() {
        let mut before = AlertStates::default();
        assert_eq!(seconds(&mut before, 0..100, |_| true, false), [(30, false)]);
        let fired = before.fired();
        let mut after = AlertStates::default();
        after.restore(110 * SECOND, fired.clone());
        // For half a minute nothing is known of the pool.
        assert_eq!(seconds(&mut after, 110..400, |second| (140..300).contains(&second), false), [(314, true)]);
        let mut gone = AlertStates::default();
        gone.restore(110 * SECOND, fired);
        assert_eq!((gone.list()[0].started, gone.firing().len()), (0, 1));
        assert_eq!(seconds(&mut gone, 110..400, |_| false, false), [(170, true)]);
    }

    #[test]
    fn pools_of_one_server_are_one_alert_that_names_them_also_when_they_fail_one_after_the_other() {
        let mut states = AlertStates::default();
        let mut sent = Vec::new();
        for second in 100..400 {
            let of = |pool: &str| Condition { server: Some("db1:5432".to_owned()), since: 0, ..down(pool).remove(0) };
            let mut conditions = if second < 350 { vec![of("b")] } else { Vec::new() };
            // All but one are noticed later, and one of them recovers.
            if (102..350).contains(&second) {
                conditions.extend(["a", "c", "d", "e", "f", "g"].map(of));
            }
            if second < 200 {
                conditions.push(Condition { server: Some("db2:5432".to_owned()), ..of("z") });
            }
            let due = states.observe(second * SECOND, conditions, HOLD, |_| false);
            sent.extend(due.into_iter().map(|notice| {
                let Condition { key, clients, summary, .. } = notice.condition;
                (second, key.pool.expect("a pool"), clients, notice.ended.is_some(), summary)
            }));
        }
        let seen: Vec<_> =
            sent.iter().map(|(at, pool, clients, over, _)| (*at, pool.as_str(), *clients, *over)).collect();
        assert_eq!(seen, [(130, "b", 14, false), (130, "z", 2, false), (214, "z", 2, true), (364, "b", 14, true)]);
        assert!(
            sent[0].4.ends_with("So are 6 more pools of the server db1:5432: a, c, d, e, f and 1 more."),
            "{sent:?}"
        );
        // Where one is silenced, the others are not.
        let mut states = AlertStates::default();
        let of = |pool: &str| Condition { server: Some("db1".to_owned()), since: 1, ..down(pool).remove(0) };
        let silenced = |key: &AlertKey| key.pool.as_deref() == Some("a");
        let due = states.observe(90 * SECOND, vec![of("a"), of("b"), of("c")], HOLD, silenced);
        assert_eq!(due.iter().map(|it| it.condition.key.pool.as_deref()).collect::<Vec<_>>(), [Some("b")]);
        let due = states.observe(91 * SECOND, vec![of("b"), of("c")], HOLD, silenced);
        assert_eq!(due, []);
    }

    #[test]
    fn their_number_is_bounded() {
        let mut states = AlertStates::default();
        let many = (0..2 * MOST).flat_map(|i| down(&i.to_string())).collect();
        states.observe(0, many, HOLD, |_| false);
        assert_eq!(states.list().len(), MOST);
    }
}
