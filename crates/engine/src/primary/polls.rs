//! When Patroni's REST API is asked about the hosts of pools (`patroni_api`), and what it has said. Worker 0 has it.
//!
//! Owns which question is due. Must not know the workers: it returns what they are to be told. Pools with the same
//! question share its answer. Invariant: one request for each question at a time.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_admin::PatroniRecord;
use weir_base::{Span, Target, Time};
use weir_config::{Config, PatroniQuestion, PoolConfig};

/// How often Patroni is asked while it knows no primary of a pool, or another one than the pool has, and for how long:
/// then as often as is configured, since that may last.
const HASTY: Span = Span::from_millis(100);
const HASTE: Span = Span::from_secs(60);

/// What Patroni is asked, and has said.
#[derive(Default)]
pub(crate) struct Polls {
    polls: BTreeMap<Arc<PatroniQuestion>, Poll>,
    /// The pools that want to know, by name.
    pools: BTreeMap<Arc<str>, PolledPool>,
    /// The earliest timer; none: never.
    armed: Option<Time>,
}

/// One pool that wants to know.
struct PolledPool {
    hosts: Vec<(Target, Arc<PatroniQuestion>)>,
    wants_primary: bool,
    /// Since when Patroni knows no primary, or another one than the pool has.
    unsettled: Option<Time>,
}

/// One question.
struct Poll {
    interval: Span,
    /// When to ask next; never while an answer is due.
    due: Time,
    said: Option<Said>,
    /// The pools that want to know.
    pools: Vec<Arc<str>>,
}

/// The last answer: the status, or why there is none.
struct Said {
    answer: Result<u16, String>,
    at: Time,
}

impl Poll {
    fn says_yes(&self) -> bool {
        self.said.as_ref().is_some_and(|said| said.answer == Ok(200))
    }
}

impl Polls {
    /// A configuration is in force. Returns the questions that nobody wants answered any more, and that had a yes.
    pub(crate) fn configured(&mut self, config: &Config, now: Time) -> Vec<Arc<PatroniQuestion>> {
        let (mut old, mut before) = (std::mem::take(&mut self.polls), std::mem::take(&mut self.pools));
        for pool in config.pools.values() {
            let questions: Vec<Arc<PatroniQuestion>> = pool.patroni_questions().map(Arc::new).collect();
            if questions.is_empty() {
                continue;
            }
            let name: Arc<str> = pool.name.as_str().into();
            for question in &questions {
                let kept = old.remove(question);
                let poll = self.polls.entry(question.clone()).or_insert_with(|| poll_of(kept, pool, now));
                poll.interval = poll.interval.min(pool.patroni.interval);
                poll.pools.push(name.clone());
            }
            let unsettled = before.remove(&name).and_then(|pool| pool.unsettled);
            let hosts = pool.targets.iter().cloned().zip(questions).collect();
            let wants_primary = pool.session_attrs.wants_primary();
            self.pools.insert(name, PolledPool { hosts, wants_primary, unsettled });
        }
        old.into_iter().filter(|(_, poll)| poll.says_yes()).map(|(question, _)| question).collect()
    }

    /// The questions that are due; each is answered by [`Polls::answered`].
    pub(crate) fn due(&mut self, now: Time) -> Vec<Arc<PatroniQuestion>> {
        let due = self.polls.iter_mut().filter(|(_, poll)| poll.due <= now);
        due.map(|(question, poll)| {
            poll.due = Time::NEVER;
            question.clone()
        })
        .collect()
    }

    /// A question is answered. `at`: the host that a pool writes to, none if it looks for one; `None`: it has not looked
    /// yet. Returns whether workers are to be told: a yes each time, since a pool may have looked in vain before.
    pub(crate) fn answered<'s>(
        &mut self,
        question: &Arc<PatroniQuestion>,
        answer: Result<u16, String>,
        at: impl Fn(&str) -> Option<Option<&'s Target>>,
        now: Time,
    ) -> bool {
        // A new configuration may not have it.
        let Some(poll) = self.polls.get_mut(question) else { return false };
        let said_yes = poll.says_yes();
        poll.said = Some(Said { answer, at: now });
        let tells = said_yes || poll.says_yes();
        let (interval, names) = (poll.interval, poll.pools.clone());
        let mut hasty = false;
        for name in names {
            let settled = self.is_settled(&name, &at);
            let Some(pool) = self.pools.get_mut(&name) else { continue };
            pool.unsettled = (!settled).then(|| pool.unsettled.unwrap_or(now));
            hasty |= pool.unsettled.is_some_and(|since| now.since(since) < HASTE);
        }
        self.polls.entry(question.clone()).and_modify(|poll| {
            poll.due = now + if hasty { interval.min(HASTY) } else { interval };
        });
        tells
    }

    /// Whether Patroni says that the pool's primary is one.
    fn is_settled<'s>(&self, name: &str, at: impl Fn(&str) -> Option<Option<&'s Target>>) -> bool {
        let Some(pool) = self.pools.get(name).filter(|pool| pool.wants_primary) else { return true };
        let mut primaries =
            pool.hosts.iter().filter(|(_, question)| self.polls.get(question).is_some_and(Poll::says_yes));
        match at(name) {
            Some(at) => primaries.any(|(host, _)| Some(host) == at),
            None => primaries.next().is_some(),
        }
    }

    /// When a question is due.
    pub(crate) fn next_due(&self) -> Time {
        self.polls.values().map(|poll| poll.due).min().unwrap_or(Time::NEVER)
    }

    /// The record of the earliest timer.
    pub(crate) fn armed(&mut self) -> &mut Time {
        self.armed.get_or_insert(Time::NEVER)
    }

    /// For SHOW PATRONI.
    pub(crate) fn records(&self, wall: impl Fn(Time) -> u64) -> Vec<PatroniRecord> {
        let record = |name: &Arc<str>, host: &Target, question: &Arc<PatroniQuestion>| {
            let said = self.polls.get(question).and_then(|poll| poll.said.as_ref());
            PatroniRecord {
                database: name.to_string(),
                host: host.to_string(),
                url: question.url.clone(),
                answer: said.map(|said| said.answer.clone()),
                answered_at: said.map(|said| wall(said.at)),
            }
        };
        let of_pool = |(name, pool): (&Arc<str>, &PolledPool)| -> Vec<PatroniRecord> {
            pool.hosts.iter().map(|(host, question)| record(name, host, question)).collect()
        };
        self.pools.iter().flat_map(of_pool).collect()
    }
}

/// A question of a pool, which may have been asked before.
fn poll_of(kept: Option<Poll>, pool: &PoolConfig, now: Time) -> Poll {
    let (due, said) = kept.map_or((now, None), |kept| (kept.due, kept.said));
    Poll { interval: pool.patroni.interval, due, said, pools: Vec::new() }
}

#[cfg(test)]
#[path = "polls_tests.rs"]
mod tests;
