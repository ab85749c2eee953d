//! Which part of a pool's budget a node takes, gives or waits for: pure functions of the pool's record.
//!
//! The rules: free connections go to the node whose oldest client has waited longest; what a node does not use goes to
//! nodes that wait; if all use what they have, shares become equal, and the rest of the division alternates by the age
//! of the oldest clients. All is advice: whatever is decided here is committed only if the record has not changed.

use weir_base::Span;

use crate::record::{Entry, PoolShares, Wait};

/// A claim of an older client is ignored when connections that it could have were free for so long: its node may be
/// gone.
const CLAIM: Span = Span::from_millis(500);
/// How much longer a node's oldest client must have waited to get a connection that another node needs as well.
const OLDER: Span = Span::from_secs(1);
/// How much longer the client must have waited where both nodes have an equal share.
const OLDER_AMONG_EQUALS: Span = Span::from_secs(5);

/// What a pool of this node uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Server connections that are open or being opened.
    pub open: u32,
    /// The open connections that are in use.
    pub active: u32,
    /// Clients that wait for a connection.
    pub waiting: u32,
    /// How long the oldest waiting client has waited.
    pub oldest: Span,
    /// The limit that the pool obeyed when it reported.
    pub limit: u32,
    /// The floor that the pool obeyed then, and the one on disk if that is higher.
    pub floor: u32,
}

/// What a node wants to be written into a pool's record, and the limit that it obeys from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Plan {
    pub(crate) entry: Entry,
    pub(crate) limit: u32,
}

/// A pool's record, as one node sees it.
pub(crate) struct View<'a> {
    pub(crate) record: &'a PoolShares,
    pub(crate) me: &'a str,
    pub(crate) usage: &'a Usage,
    /// How long ago the record was first seen like this.
    pub(crate) seen: Span,
    /// The floor that the node wants.
    pub(crate) floor: u32,
}

/// Another node's wait.
struct Claim<'a> {
    name: &'a str,
    amount: u32,
    age: Span,
    share: u32,
}

impl View<'_> {
    pub(crate) fn plan(&self) -> Plan {
        let recorded = self.record.entry(self.me);
        let mine = Entry { floor: self.kept_floor(recorded.floor), ..recorded };
        let need = (self.usage.active + self.usage.waiting).min(self.record.budget);
        let claims = self.claims();
        let limit = mine.share - self.to_give(mine, need, &claims);
        let mut entry = Entry { share: limit, ..mine };
        // A node has its floor before it needs it: with one connection it can end those of a lost node.
        let wanted = need.max(self.room_for_floor(mine));
        if limit == mine.share && wanted > mine.share {
            entry.share += self.to_take(mine, wanted, &claims);
        }
        entry.floor = self.floor_of(entry);
        entry.wait = self.wait(mine.wait, need.saturating_sub(entry.share));
        Plan { entry, limit }
    }

    fn claims(&self) -> Vec<Claim<'_>> {
        let others = self.record.nodes.iter().filter(|(name, _)| *name != self.me);
        let waiting = others.filter_map(|(name, entry)| Some((name.as_str(), entry.share, entry.wait?)));
        let claims = waiting.map(|(name, share, wait)| Claim { name, amount: wait.amount, age: self.age(wait), share });
        claims.collect()
    }

    /// How old a recorded wait is now.
    fn age(&self, wait: Wait) -> Span {
        wait.age_after(self.seen)
    }

    /// An equal part of the budget among nodes that want more than their floor, rounded down and up.
    fn fair(&self) -> (u32, u32) {
        let contends = |name: &str, entry: &Entry| name == self.me || entry.wait.is_some() || entry.share > entry.floor;
        let others = self.record.nodes.iter().filter(|(name, entry)| !contends(name, entry));
        let taken: u32 = others.map(|(_, entry)| entry.share).sum();
        let count = self.record.nodes.iter().filter(|(name, entry)| contends(name, entry)).count() as u32;
        let count = (count + u32::from(!self.record.nodes.contains_key(self.me))).max(1);
        let budget = self.record.budget.saturating_sub(taken);
        (budget / count, budget.div_ceil(count))
    }

    fn oldest(&self) -> Span {
        if self.usage.waiting == 0 { Span::ZERO } else { self.usage.oldest }
    }

    /// How much of its share the node gives away.
    fn to_give(&self, mine: Entry, need: u32, claims: &[Claim<'_>]) -> u32 {
        let (budget, shared) = (self.record.budget, self.record.shared());
        let claimed: u32 = claims.iter().map(|claim| claim.amount).sum();
        let lacking = (claimed + shared).saturating_sub(budget);
        let unused = mine.share.saturating_sub(need.max(mine.floor));
        if lacking <= unused {
            return lacking;
        }
        let (fair, upper) = self.fair();
        let poorer = claims.iter().filter(|claim| claim.share < upper);
        let wanted: u32 = poorer.map(|claim| claim.amount.min(upper - claim.share)).sum();
        let wanted = (wanted + shared).saturating_sub(budget).min(lacking);
        let beyond = mine.share.saturating_sub(upper.max(mine.floor));
        let mut give = unused.max(beyond.min(wanted));
        if give == 0 && mine.share > fair.max(mine.floor) && wanted > 0 {
            let older = |claim: &Claim<'_>| {
                let by = if claim.share == 0 { OLDER } else { OLDER_AMONG_EQUALS };
                claim.share <= fair && claim.age.micros() > self.oldest().micros() + by.micros()
            };
            give = u32::from(claims.iter().any(older));
        }
        give.min(lacking).max(self.excess(mine))
    }

    /// What the node gives of a share that a smaller budget has no room for, though it uses it and nobody waits: all
    /// nodes find the same parts.
    fn excess(&self, mine: Entry) -> u32 {
        if self.record.shared() <= self.record.budget {
            return 0;
        }
        mine.share.saturating_sub(self.leveled(self.record.budget, |entry| (entry.share, entry.floor)))
    }

    /// This node's part if the highest parts are lowered, not below what each keeps, until their sum is at most `most`;
    /// names decide about the rest.
    fn leveled(&self, most: u32, part: impl Fn(&Entry) -> (u32, u32)) -> u32 {
        let lowered = |entry: &Entry, level: u32| {
            let (part, kept) = part(entry);
            part.min(level.max(kept))
        };
        let sum = |level: u32| self.record.nodes.values().map(|entry| lowered(entry, level)).sum::<u32>();
        let (mut level, mut above) = (0, most + 1);
        while level + 1 < above {
            let middle = level.midpoint(above);
            if sum(middle) <= most { level = middle } else { above = middle }
        }
        let rest = most.saturating_sub(sum(level)) as usize;
        let higher = self.record.nodes.iter().filter(|(_, entry)| part(entry).0 > lowered(entry, level));
        let has_more = higher.take(rest).any(|(name, _)| name == self.me);
        lowered(&self.record.entry(self.me), level) + u32::from(has_more)
    }

    /// How many free connections the node takes.
    fn to_take(&self, mine: Entry, need: u32, claims: &[Claim<'_>]) -> u32 {
        let free = self.record.budget.saturating_sub(self.record.shared());
        let wanted = need - mine.share;
        if self.seen > CLAIM {
            return wanted.min(free);
        }
        let (_, upper) = self.fair();
        let poorer = || claims.iter().filter(|claim| claim.share < upper);
        // By the record alone where it has both ages: each of two nodes must not take the other for the older one.
        let written = mine.wait.map_or(self.oldest(), |wait| self.age(wait));
        let older = poorer().filter(|claim| (claim.age, claim.name) > (written, self.me));
        let others: u32 = older.map(|claim| claim.amount.min(upper - claim.share)).sum();
        let most = if poorer().next().is_none() { u32::MAX } else { upper.saturating_sub(mine.share) };
        wanted.min(free.saturating_sub(others)).min(most)
    }

    /// The floor that the node takes, or keeps.
    fn floor_of(&self, entry: Entry) -> u32 {
        entry.floor.max(self.room_for_floor(entry).min(entry.share))
    }

    /// The floor that the node wants, as far as there is room for floors. They take half of the budget at most, so that
    /// the other half can move.
    fn room_for_floor(&self, mine: Entry) -> u32 {
        let others = self.record.floors() - self.record.entry(self.me).floor;
        self.floor.min((self.record.budget / 2).saturating_sub(others)).max(mine.floor)
    }

    /// What the node keeps of its floor: less if it is configured so, or if the budget has become so small.
    fn kept_floor(&self, floor: u32) -> u32 {
        let half = self.record.budget / 2;
        let fits = if self.record.floors() <= half { floor } else { self.leveled(half, |entry| (entry.floor, 0)) };
        fits.min(self.floor)
    }

    /// The wait to be recorded; one that is nearly right stays, since each change is a write. It names enough, since
    /// others give no more.
    fn wait(&self, written: Option<Wait>, lacking: u32) -> Option<Wait> {
        if lacking == 0 {
            return None;
        }
        let age = self.oldest().micros() / 1000;
        let fits = |wait: &Wait| {
            let now = wait.age + self.seen.micros() / 1000;
            now.abs_diff(age) < 2000 && (lacking..=2 * lacking).contains(&wait.amount)
        };
        written.filter(fits).or(Some(Wait { amount: lacking, age }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node's name, share, and the amount and age of its wait.
    type Sample<'a> = (&'a str, u32, Option<(u32, u64)>);

    fn record(budget: u32, nodes: &[Sample<'_>]) -> PoolShares {
        let entry = |share, wait: Option<(u32, u64)>| {
            let wait = wait.map(|(amount, age)| Wait { amount, age });
            Entry { share, floor: 0, wait }
        };
        PoolShares { budget, nodes: nodes.iter().map(|(n, share, wait)| ((*n).into(), entry(*share, *wait))).collect() }
    }

    fn plan(record: &PoolShares, active: u32, waiting: u32, oldest_ms: u64) -> Plan {
        let usage = Usage { open: active, active, waiting, oldest: Span::from_millis(oldest_ms), ..Usage::default() };
        View { record, me: "me", usage: &usage, seen: Span::ZERO, floor: 0 }.plan()
    }

    #[test]
    fn a_node_alone_takes_what_it_needs_and_no_more() {
        assert_eq!(plan(&record(10, &[]), 0, 3, 1).entry.share, 3);
        assert_eq!(plan(&record(10, &[]), 0, 30, 1).entry.share, 10);
    }

    #[test]
    fn what_is_not_used_is_given_to_a_node_that_waits_and_nothing_else() {
        let waiting = record(10, &[("me", 10, None), ("other", 0, Some((3, 0)))]);
        assert_eq!(plan(&waiting, 2, 0, 0).limit, 7);
        assert_eq!(plan(&record(10, &[("me", 10, None)]), 2, 0, 0).limit, 10);
    }

    #[test]
    fn free_connections_go_to_the_node_that_has_waited_longest() {
        let waiting = record(10, &[("busy", 9, None), ("other", 0, Some((1, 500)))]);
        assert_eq!(plan(&waiting, 0, 1, 400).entry.share, 0);
        assert_eq!(plan(&waiting, 0, 1, 600).entry.share, 1);
    }

    #[test]
    fn of_two_nodes_that_wait_for_the_last_connection_exactly_one_takes_it() {
        // The clients of both nodes wait in turn, so the present age stays, and the recorded one grows.
        let usage = Usage { open: 5, active: 5, waiting: 9, oldest: Span::from_millis(100), limit: 5, floor: 0 };
        for (a, b) in [(500, 400), (400, 500), (500, 500)] {
            let waiting = record(11, &[("a", 5, Some((8, a))), ("b", 5, Some((8, b)))]);
            let takes = |me| {
                let view = View { record: &waiting, me, usage: &usage, seen: Span::from_millis(50), floor: 0 };
                view.plan().entry.share > 5
            };
            assert!(takes("a") != takes("b"), "{a} {b}");
        }
    }

    #[test]
    fn busy_nodes_come_to_equal_shares() {
        let hungry = record(9, &[("me", 9, None), ("a", 0, Some((20, 0))), ("b", 0, Some((20, 0)))]);
        assert_eq!(plan(&hungry, 9, 50, 10_000).limit, 3);
        let equal = record(9, &[("me", 3, None), ("a", 3, Some((20, 3000))), ("b", 3, Some((20, 3000)))]);
        assert_eq!(plan(&equal, 3, 50, 3_000).limit, 3);
    }

    #[test]
    fn the_rest_of_a_division_alternates_by_age() {
        let one = record(1, &[("me", 1, None), ("other", 0, Some((1, 1500)))]);
        assert_eq!(plan(&one, 1, 5, 1000).limit, 1);
        assert_eq!(plan(&one, 1, 5, 100).limit, 0);
    }

    #[test]
    fn a_smaller_budget_is_reached_by_giving() {
        let smaller = record(4, &[("me", 6, None), ("other", 2, None)]);
        assert_eq!(plan(&smaller, 2, 0, 0).limit, 2);
    }

    #[test]
    fn a_smaller_budget_is_reached_though_all_use_what_they_have() {
        for (budget, waits) in [(13, None), (13, Some((3, 5000))), (4, Some((1, 0))), (1, None)] {
            let names = ["me", "a", "b", "c", "d"];
            let nodes: Vec<Sample<'_>> = names.iter().map(|name| (*name, 4, waits)).collect();
            let mut record = record(budget, &nodes);
            for me in names {
                let usage = Usage { open: 4, active: 4, waiting: 3, ..Usage::default() };
                let plan = View { record: &record, me, usage: &usage, seen: Span::ZERO, floor: 0 }.plan();
                record.set(me, plan.entry);
            }
            assert_eq!(record.shared(), budget, "{record:?}");
        }
        let mut record = record(2, &[("a", 1, None), ("b", 1, None), ("me", 1, None)]);
        record.set("me", Entry { share: 1, floor: 1, wait: None });
        let usage = Usage { open: 1, active: 1, ..Usage::default() };
        let limit = |me| View { record: &record, me, usage: &usage, seen: Span::ZERO, floor: 1 }.plan().limit;
        assert_eq!((limit("a"), limit("b"), limit("me")), (1, 0, 1), "a floor stays");
    }

    #[test]
    fn floors_become_lower_with_the_budget_and_with_the_configuration() {
        let entry = Entry { share: 2, floor: 2, wait: None };
        let names = ["a", "b", "c", "d", "me"];
        let mut record = PoolShares { budget: 6, nodes: names.iter().map(|name| ((*name).into(), entry)).collect() };
        let usage = Usage { open: 2, active: 2, ..Usage::default() };
        let floor = |record: &PoolShares, me: &str, floor| {
            View { record, me, usage: &usage, seen: Span::ZERO, floor }.plan().entry.floor
        };
        for name in names {
            let floor = floor(&record, name, 2);
            record.set(name, Entry { floor, ..entry });
        }
        assert_eq!(record.floors(), 3, "{record:?}");
        assert_eq!(floor(&record, "a", 0), 0);
    }
}
