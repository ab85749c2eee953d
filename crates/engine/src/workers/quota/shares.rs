//! How the pools of one database server share its `max_connections` (`[servers.NAME]`): who is granted a connection
//! next, and who gives one back.
//!
//! Pure, and worker 0's alone. A *member* is a configured pool, with the servers of all its users. Its *level* is the
//! number of its servers divided by its weight. The rules:
//!
//! - A member below its guarantee is served before all others, the others by level: the lowest first. Within a member
//!   the user with the fewest servers is first, and among equals the longest wait.
//! - If there is no room, a member above its guarantee gives a server back: to one below its guarantee, or to one whose
//!   level with one server more is below its own. The highest level gives first, by the user with the most servers.
//!   After such a move the receiver's level is below the giver's former one, so no server moves back.
//! - A server within a guarantee is never taken back. If it is idle, and another user of its member waits, that user
//!   gets its place: before other members, unless the member is above its guarantee and another one waits below its own.
//! - What a pool in session mode has beyond its guarantee may not return for hours, so it must leave room for the
//!   guarantees of all others. While it must, only idle servers that such pools have beyond their guarantees, or other
//!   users of its member, are closed for it: others would not help it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use weir_base::{Time, WorkerId};

use super::{PoolId, Share};

/// The most servers of one database server that are asked back at a time. More would be on their way before the first
/// is of use: a pool logs in one server after the other.
const AT_ONCE: usize = 8;

/// The connections of a database server, as configured.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct ServerRule {
    /// The most connections.
    pub(crate) most: u32,
    /// The sum of all guarantees.
    pub(crate) guaranteed: u32,
}

/// A pool that waits for a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asking {
    pub(crate) pool: PoolId,
    pub(crate) share: Share,
    /// Since when its oldest client waits, and the number of its request.
    pub(crate) at: (Time, u64),
}

/// The counted servers of all limited pools.
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Shares {
    pools: BTreeMap<PoolId, PoolCount>,
    servers: BTreeMap<Arc<str>, ServerCount>,
    /// The database servers of which pools have a ceiling.
    asked: BTreeSet<Arc<str>>,
}

#[derive(Clone)]
struct PoolCount {
    count: u32,
    owner: WorkerId,
    share: Option<Share>,
    /// It keeps no more than these.
    ceiling: Option<u32>,
}

/// What is counted at one database server.
#[derive(Clone, Default)]
struct ServerCount {
    total: u32,
    /// Servers in session mode beyond the guarantees.
    kept_beyond: u32,
    members: BTreeMap<Arc<str>, Member>,
}

#[derive(Clone, Copy, Default)]
struct Member {
    count: u32,
    /// Those of `count` in session mode.
    kept: u32,
    guaranteed: u32,
    weight: u32,
}

impl Member {
    fn of(share: &Share) -> Member {
        Member { guaranteed: share.guaranteed, weight: share.weight.max(1), ..Member::default() }
    }

    fn is_below(&self) -> bool {
        self.count < self.guaranteed
    }

    fn is_above(&self) -> bool {
        self.count > self.guaranteed
    }

    /// Compares levels, each with so many servers more.
    fn level(&self, more: u32, other: &Member, others_more: u32) -> Ordering {
        let own = u64::from(self.count + more) * u64::from(other.weight);
        own.cmp(&(u64::from(other.count + others_more) * u64::from(self.weight)))
    }

    /// Whether one server of `giver` may go to this member.
    fn may_take_from(&self, giver: &Member) -> bool {
        giver.is_above() && (self.is_below() || self.level(1, giver, 0) == Ordering::Less)
    }
}

impl Shares {
    /// Whether no counted pool shares a database server's connections, and none was asked for servers.
    pub(crate) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.asked.is_empty()
    }

    /// Counts `change` more servers of a pool. The share of one that is counted already stays until
    /// [`Shares::set_rules`].
    pub(crate) fn count(&mut self, pool: &PoolId, change: i64, share: &dyn Fn(&PoolId) -> Option<Share>) {
        let entry = self.pools.entry(pool.clone()).or_insert_with(|| PoolCount {
            count: 0,
            owner: WorkerId(0),
            share: share(pool),
            ceiling: None,
        });
        entry.count = entry.count.checked_add_signed(change as i32).expect("no more is released than was granted");
        let share = entry.share.clone();
        if entry.count == 0 && entry.ceiling.is_none() {
            self.pools.remove(pool);
        }
        if let Some(share) = share {
            self.count_member(&share, pool, change as i32);
        }
    }

    fn count_member(&mut self, share: &Share, pool: &PoolId, change: i32) {
        let server = self.servers.entry(share.server.clone()).or_default();
        let member = server.members.entry(pool.database.clone()).or_insert_with(|| Member::of(share));
        let kept = member.kept.saturating_sub(member.guaranteed);
        member.count = member.count.saturating_add_signed(change);
        member.kept = member.kept.saturating_add_signed(if share.keeps { change } else { 0 });
        server.kept_beyond = server.kept_beyond + member.kept.saturating_sub(member.guaranteed) - kept;
        server.total = server.total.saturating_add_signed(change);
        if member.count == 0 {
            server.members.remove(&pool.database);
        }
        if server.total == 0 {
            self.servers.remove(&share.server);
        }
    }

    /// Notes which worker asks for a pool's servers: it gets a message when they are wanted back.
    pub(crate) fn set_owner(&mut self, pool: &PoolId, owner: WorkerId) {
        if let Some(entry) = self.pools.get_mut(pool) {
            entry.owner = owner;
        }
    }

    /// The configuration has changed: counts all servers under its rules. Returns the pools that may keep what they
    /// have, until others are asked.
    pub(crate) fn set_rules(&mut self, share: &dyn Fn(&PoolId) -> Option<Share>) -> Vec<(WorkerId, PoolId)> {
        self.servers.clear();
        self.asked.clear();
        let (mut counted, mut lifted) = (Vec::new(), Vec::new());
        for (pool, entry) in &mut self.pools {
            lifted.extend(entry.ceiling.take().map(|_| (entry.owner, pool.clone())));
            entry.share = share(pool);
            counted.extend(entry.share.clone().map(|share| (pool.clone(), share, entry.count)));
        }
        for (pool, share, count) in counted.into_iter().filter(|(_, _, count)| *count > 0) {
            self.count_member(&share, &pool, count as i32);
        }
        self.pools.retain(|_, entry| entry.count > 0);
        lifted
    }

    /// How many connections of a database server are counted.
    pub(crate) fn total(&self, server: &str) -> u32 {
        self.servers.get(server).map_or(0, |server| server.total)
    }

    /// The database servers with more connections than they may have.
    pub(crate) fn beyond<'a>(&'a self, rule: &'a dyn Fn(&str) -> ServerRule) -> impl Iterator<Item = Arc<str>> {
        self.servers.iter().filter(|(name, server)| server.total > rule(name).most).map(|(name, _)| name.clone())
    }

    /// Whether a pool in session mode must leave the room that is there to the guarantees of others.
    pub(crate) fn must_leave_room(&self, pool: &PoolId, share: &Share, rule: ServerRule) -> bool {
        let server = self.servers.get(&share.server);
        let kept = server.and_then(|server| server.members.get(&pool.database)).map_or(0, |member| member.kept);
        let beyond = server.map_or(0, |server| server.kept_beyond);
        share.keeps && kept >= share.guaranteed && rule.guaranteed + beyond >= rule.most
    }

    /// Whether a pool shares the connections of a database server, and has one.
    pub(crate) fn shares(&self, server: &str, pool: &PoolId) -> bool {
        let found = self.pools.get(pool).and_then(|entry| entry.share.as_ref());
        found.is_some_and(|share| *share.server == *server)
    }

    /// The configured pools that have connections to a server.
    pub(crate) fn members(&self, server: &str) -> impl Iterator<Item = &Arc<str>> {
        self.servers.get(server).into_iter().flat_map(|server| server.members.keys())
    }

    /// Whether a configured pool has more than it is guaranteed.
    pub(crate) fn is_above(&self, server: &str, database: &str) -> bool {
        self.servers.get(server).and_then(|server| server.members.get(database)).is_some_and(Member::is_above)
    }

    /// Whether the pool that waits has fewer servers than it is guaranteed.
    pub(crate) fn is_below(&self, of: &Asking) -> bool {
        self.member(of).is_below()
    }

    /// The configured pools whose idle servers must stay. Closed are those of pools above their guarantee, if `beyond`;
    /// those of other users of a pool that waits, one of `takers`; and for pools that are `leaving` room to the guarantees
    /// of others, what is in session mode beyond a guarantee.
    pub(crate) fn spared(
        &self,
        server: &str,
        beyond: bool,
        takers: &[PoolId],
        leaving: &[PoolId],
    ) -> Arc<BTreeSet<Arc<str>>> {
        let is_spared = |(name, member): &(&Arc<str>, &Member)| {
            let own = |pool: &&PoolId| pool.database == **name;
            let others = |of: u32| move |pool: &PoolId| of > self.servers_of(pool);
            let for_takers = takers.iter().filter(own).any(others(member.count));
            // A database's idle servers are found together: those of its users in other modes are of no help.
            let for_leaving = member.kept == member.count
                && (leaving.iter().filter(own).any(others(member.kept))
                    || member.kept > member.guaranteed && !leaving.iter().all(|pool| own(&pool)));
            !(beyond && member.is_above() || for_takers || for_leaving)
        };
        let members = self.servers.get(server).into_iter().flat_map(|server| &server.members);
        Arc::new(members.filter(is_spared).map(|(name, _)| name.clone()).collect())
    }

    /// The order in which waiting pools of one server are served.
    pub(crate) fn order(&self, a: &Asking, b: &Asking) -> Ordering {
        let (of_a, of_b) = (self.member(a), self.member(b));
        let by_guarantee = of_b.is_below().cmp(&of_a.is_below());
        let below = of_a.is_below() && of_b.is_below();
        by_guarantee
            .then_with(|| if below { Ordering::Equal } else { of_a.level(1, &of_b, 1) })
            .then_with(|| self.servers_of(&a.pool).cmp(&self.servers_of(&b.pool)))
            .then(a.at.cmp(&b.at))
    }

    fn member(&self, of: &Asking) -> Member {
        let server = self.servers.get(&of.share.server);
        let found = server.and_then(|server| server.members.get(&of.pool.database)).copied();
        found.unwrap_or_else(|| Member::of(&of.share))
    }

    fn servers_of(&self, pool: &PoolId) -> u32 {
        self.pools.get(pool).map_or(0, |entry| entry.count)
    }

    /// Who of a server's pools gives back what, as the servers that it keeps at most: for those who wait, of whom the
    /// first `freed` get what is on its way already, and while the server has more connections than it may have.
    pub(crate) fn give_back(
        &self,
        server: &str,
        mut waiting: Vec<Asking>,
        freed: usize,
        rule: ServerRule,
    ) -> BTreeMap<PoolId, u32> {
        let Some(state) = self.servers.get(server) else { return BTreeMap::new() };
        let mut plan = Plan { members: state.members.clone(), pools: BTreeMap::new(), ceilings: BTreeMap::new() };
        let pools = self.pools.iter().filter(|(_, entry)| entry.share.as_ref().is_some_and(|s| *s.server == *server));
        plan.pools = pools.map(|(pool, entry)| (pool.clone(), (entry.count, entry.is_kept()))).collect();
        for _ in rule.most..state.total.min(rule.most.saturating_add(AT_ONCE as u32)) {
            plan.take(None);
        }
        if waiting.len() > AT_ONCE {
            waiting.select_nth_unstable_by(AT_ONCE, |a, b| self.order(a, b));
            waiting.truncate(AT_ONCE);
        }
        waiting.sort_by(|a, b| self.order(a, b));
        for (at, asking) in waiting.iter().enumerate() {
            let served = at < freed || plan.take(Some(asking));
            if served {
                plan.add(asking);
            }
        }
        plan.ceilings
    }

    /// The pools of a server get these ceilings and no others: returns what is new, with the worker that must know.
    pub(crate) fn set_ceilings(
        &mut self,
        server: &str,
        ceilings: &BTreeMap<PoolId, u32>,
    ) -> Vec<(WorkerId, PoolId, Option<u32>)> {
        let mut news = Vec::new();
        match ceilings.is_empty() {
            true if !self.asked.remove(server) => return news,
            true => {}
            false => drop(self.asked.insert(server.into())),
        }
        self.pools.retain(|pool, entry| {
            let here = entry.share.as_ref().is_none_or(|share| *share.server == *server);
            let ceiling = ceilings.get(pool).copied();
            if here && entry.ceiling != ceiling {
                entry.ceiling = ceiling;
                news.push((entry.owner, pool.clone(), ceiling));
            }
            entry.count > 0 || entry.ceiling.is_some()
        });
        news
    }

    /// A pool is granted a server: it may keep it.
    pub(crate) fn lift_ceiling(&mut self, pool: &PoolId) -> Option<WorkerId> {
        let entry = self.pools.get_mut(pool)?;
        entry.ceiling.take().map(|_| entry.owner)
    }

    /// The database servers of which pools were asked for servers.
    pub(crate) fn asked(&self) -> impl Iterator<Item = &Arc<str>> {
        self.asked.iter()
    }

    /// How many servers pools give back to others, by database.
    pub(crate) fn giving_back(&self) -> BTreeMap<String, u32> {
        let mut all = BTreeMap::new();
        for (pool, entry) in self.pools.iter().filter(|_| !self.asked.is_empty()) {
            let back = entry.ceiling.map_or(0, |ceiling| entry.count.saturating_sub(ceiling));
            if back > 0 {
                *all.entry(pool.database.to_string()).or_default() += back;
            }
        }
        all
    }

    /// The counted servers of each pool, and how many it keeps at most.
    #[cfg(test)]
    pub(crate) fn ceilings(&self) -> Vec<(PoolId, u32, Option<u32>)> {
        self.pools.iter().map(|(pool, entry)| (pool.clone(), entry.count, entry.ceiling)).collect()
    }
}

impl PoolCount {
    fn is_kept(&self) -> bool {
        self.share.as_ref().is_some_and(|share| share.keeps)
    }
}

/// The counts as they will be once all that is planned has happened.
struct Plan {
    members: BTreeMap<Arc<str>, Member>,
    /// The servers of each pool, and whether it is in session mode.
    pools: BTreeMap<PoolId, (u32, bool)>,
    ceilings: BTreeMap<PoolId, u32>,
}

impl Plan {
    /// Plans that a pool gives a server back, for another one or for none; `false` if none has to.
    fn take(&mut self, taker: Option<&Asking>) -> bool {
        let Some(giver) = self.giver(taker) else { return false };
        let member = self.members.get_mut(&giver.database).expect("a giver is a member");
        member.count -= 1;
        let (count, _) = self.pools.get_mut(&giver).expect("a giver has servers");
        *count -= 1;
        self.ceilings.insert(giver, *count);
        true
    }

    fn add(&mut self, taker: &Asking) {
        let share = &taker.share;
        self.members.entry(taker.pool.database.clone()).or_insert_with(|| Member::of(share)).count += 1;
        self.pools.entry(taker.pool.clone()).or_insert((0, share.keeps)).0 += 1;
    }

    fn giver(&self, taker: Option<&Asking>) -> Option<PoolId> {
        let Some(taker) = taker else {
            let above = self.highest(&|member| member.is_above());
            return above.or_else(|| self.highest(&|member| member.count > 0));
        };
        let own = self.members.get(&taker.pool.database).copied().unwrap_or_else(|| Member::of(&taker.share));
        let other = self.highest_but(&taker.pool.database, &|member| own.may_take_from(member));
        other.or_else(|| {
            // Users of one pool share alike.
            let has = self.pools.get(&taker.pool).map_or(0, |(count, _)| *count);
            let (pool, count) = self.largest(&taker.pool.database)?;
            (count > has + 1).then_some(pool)
        })
    }

    fn highest(&self, may: &dyn Fn(&Member) -> bool) -> Option<PoolId> {
        self.highest_but("", may)
    }

    /// The pool that gives first, of the member with the highest level. One in session mode only if there is no other.
    fn highest_but(&self, not: &str, may: &dyn Fn(&Member) -> bool) -> Option<PoolId> {
        let others = self.members.iter().filter(|(name, member)| ***name != *not && may(member));
        let returns = |member: &Member| member.kept < member.count;
        let first = others.max_by(|(_, a), (_, b)| returns(a).cmp(&returns(b)).then_with(|| a.level(0, b, 0)))?;
        self.largest(first.0).map(|(pool, _)| pool)
    }

    /// The pool of a member with the most servers; one in session mode only if there is no other.
    fn largest(&self, database: &str) -> Option<(PoolId, u32)> {
        let of = PoolId { database: database.into(), user: "".into() };
        let pools = self.pools.range(of..).take_while(|(pool, _)| *pool.database == *database);
        let with = pools.filter(|(_, (count, _))| *count > 0);
        with.max_by_key(|(_, (count, kept))| (!kept, *count)).map(|(pool, (count, _))| (pool.clone(), *count))
    }
}
