//! One node: its heartbeat, its shares of the pools' budgets, and the shares of lost nodes.
//!
//! Always true: one request is under way at a time. Each transaction of the node compares and writes its own heartbeat,
//! so that each success is a renewal, one whose outcome is unknown can be ruled out by the next heartbeat, and a node
//! whose lease another one has found expired can write nothing until it has read its shares again. A share is recorded
//! before it is used, and is used no more before it is released. A lost node's share is reduced to what its connections
//! at the server, as counted there, can still be. A process that is started with the name of one that was killed does
//! the same with that one's connections, before it uses their part of its share. In another store of etcd, which came
//! back empty or from a backup, nobody knows what the nodes have, so nobody takes anything: each node writes down what
//! it has, and what it knows of the others: a frozen one has its connections, whatever etcd has lost. When every lease
//! of the time before has ended, the store is ready, and shares move as usual; those of nodes that have not come back
//! are reclaimed as ever.

use std::collections::{BTreeMap, BTreeSet};

use weir_base::{Span, Time};

use crate::ending::Ending;
use crate::fair::Usage;
use crate::members::{Lease, Lost, Members};
use crate::pool::{Budget, BudgetRule, Carried, Pool};
use crate::record::{BackendId, Entry, Member, PeerAddress, PoolShares, Store};
use crate::request::{Revision, StoreKey, StoreReply, StoreRequest, StoreValue, Stored, Txn};
use crate::store::Known;
use crate::timing::Timing;

/// The most pools that one transaction changes; etcd allows 128 operations.
const MOST_POOLS: usize = 32;
/// The pause after a request that failed.
const RETRY: Span = Span::from_millis(500);
/// This many conflicts in a row make the pause after them longer.
const MOST_CONFLICTS: u32 = 1;
/// The time between two looks at the other members while clients wait. A member is only taken for lost if it was looked
/// at that shortly ago.
const LOOK_AT_MEMBERS: Span = Span::from_secs(1);
/// How long ago the other members were last looked at, at most, when the connections of a lost node are ended.
const LOOK_BEFORE_END: Span = Span::from_secs(2);

/// What a pool may open.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Grant {
    /// The most connections until [`Grants::until`].
    pub limit: u32,
    /// The most connections after that; not above the limit.
    pub floor: u32,
}

/// What the pools may open.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grants {
    /// When the limits end and the floors are in force: connections beyond the floors must be closed then, also those
    /// in use.
    pub until: Time,
    /// The grants by pool. A pool that is missing may open none.
    pub pools: BTreeMap<String, Grant>,
}

/// What a node does now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemberState {
    /// The node waits for etcd, to read its shares.
    Joining,
    /// Another process has the node's name, or had it until shortly.
    NameInUse,
    /// The node's lease is valid.
    Member,
    /// The node's lease has ended, or is about to: its pools have their floors.
    Floor,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Reads everything. `certain`: no transaction of this node can still be committed.
    Read { certain: bool },
    /// Writes a heartbeat over this revision, then reads.
    Claim(Revision),
    /// Shares are known.
    Run,
}

struct Sent {
    at: Time,
    request: StoreRequest,
    /// The shares after a commit.
    shares: Vec<(String, PoolShares)>,
}

/// Connections of a killed process with this node's name.
#[derive(Default)]
struct Orphans {
    /// The connections that the process recorded.
    connections: BTreeMap<String, Vec<BackendId>>,
    /// The shares that are read next are those that the process had.
    unread: bool,
    /// The connections count until then, at most.
    until: Option<Time>,
}

/// See the head of the file.
pub struct Node {
    name: String,
    member: Member,
    /// The revision of the own heartbeat.
    revision: Revision,
    timing: Timing,
    phase: Phase,
    /// When the last successful heartbeat was sent; `None`: never.
    renewed: Option<Time>,
    pools: BTreeMap<String, Pool>,
    members: Members,
    /// Pools were read up to this revision of the store.
    read_to: Revision,
    sent: Option<Sent>,
    next_change: Time,
    next_read: Time,
    next_look: Time,
    /// Commits in a row that found a key changed, up to [`MOST_CONFLICTS`].
    conflicts: u32,
    /// The pool whose record was the last to be written: those after it have their turn first.
    cursor: String,
    lost: BTreeSet<Lost>,
    /// Lost nodes whose connections were ended, with how many connections they may still have.
    ended: BTreeMap<Lost, u32>,
    /// The own connections, or the revision of the configuration, differ from what is in etcd.
    unrecorded: bool,
    budget_rule: BudgetRule,
    /// The other incarnation with this name may still live.
    name_in_use: bool,
    /// All is given away: see [`Node::release_all`].
    released_all: bool,
    /// The incarnation that this process takes over from: see [`Node::claim_record`].
    old_incarnation: Option<u64>,
    orphans: Orphans,
    known: Known,
    #[cfg(test)]
    pub(crate) bug: Option<crate::sim::Bug>,
}

impl Node {
    /// A node that has just started. `floors` are those that it stored when it last ran: without etcd it may use them
    /// when that process's queries have ended. `incarnation` is a random number.
    pub fn new(name: &str, incarnation: u64, timing: Timing, floors: &BTreeMap<String, u32>, now: Time) -> Node {
        // A process that ends in order leaves none, so the one before was killed.
        let pool =
            |floor: &u32| Pool { floor: *floor, limit: *floor, orphans: *floor, ..Pool::new(Budget::default(), now) };
        Node {
            name: name.to_owned(),
            member: Member { incarnation, ..Member::default() },
            revision: 0,
            timing,
            phase: Phase::Read { certain: true },
            renewed: None,
            pools: floors.iter().map(|(name, floor)| (name.clone(), pool(floor))).collect(),
            members: Members::default(),
            read_to: 0,
            sent: None,
            next_change: now,
            next_read: now,
            next_look: now,
            conflicts: 0,
            cursor: String::new(),
            lost: BTreeSet::new(),
            ended: BTreeMap::new(),
            unrecorded: false,
            budget_rule: BudgetRule::default(),
            name_in_use: false,
            released_all: false,
            old_incarnation: None,
            orphans: Orphans { until: Some(now + timing.orphans()), ..Orphans::default() },
            known: Known::default(),
            #[cfg(test)]
            bug: None,
        }
    }

    /// The process with that incarnation makes no requests any more: its record is claimed at once, without waiting for
    /// the end of its lease. What it still has open is not known here: the caller counts it as this one's. `own` is
    /// this process's incarnation from now on.
    pub fn claim_record(&mut self, now: Time, old_incarnation: u64, own: Option<u64>) {
        self.old_incarnation = Some(old_incarnation);
        self.member.incarnation = own.unwrap_or(self.member.incarnation);
        // A transaction of the other one, or of this one, may still be on its way: a heartbeat rules it out.
        (self.sent, self.phase, self.next_read) = (None, Phase::Read { certain: false }, now);
    }

    /// The [`orphans`](Node::orphans) of the process that this one takes over from.
    pub fn import_orphans(&mut self, now: Time, orphans: Option<&BTreeMap<String, u32>>) {
        self.orphans.until = Some(now + self.timing.orphans());
        self.orphans.unread = orphans.is_none();
        self.pools.values_mut().for_each(|pool| pool.orphans = 0);
        for (name, count) in orphans.into_iter().flatten() {
            self.pools.entry(name.clone()).or_insert_with(|| Pool::new(Budget::default(), now)).orphans = *count;
        }
    }

    /// Connections that a killed process of this node may still have, by pool; `None`: all of its shares, which are not
    /// read yet.
    pub fn orphans(&self) -> Option<BTreeMap<String, u32>> {
        let some = self.pools.iter().filter(|(_, pool)| pool.orphans > 0);
        (!self.orphans.unread).then(|| some.map(|(name, pool)| (name.clone(), pool.orphans)).collect())
    }

    /// Whether the shares have been read.
    pub fn knows_shares(&self) -> bool {
        self.phase == Phase::Run
    }

    /// What other nodes see of this one: its version, the revision of its configuration, and why it refused a newer
    /// one.
    pub fn describe(&mut self, version: &str, config: i64, refused: &str) {
        let before = (self.member.config, std::mem::take(&mut self.member.refused));
        (self.member.version, self.member.config, self.member.refused) = (version.into(), config, refused.into());
        self.unrecorded |= (before.0, before.1.as_str()) != (config, refused);
    }

    /// What other nodes see of this one, or are about to.
    pub fn member(&self) -> &Member {
        &self.member
    }

    /// Which budgets this node writes into etcd from now on.
    pub fn decide_budgets(&mut self, rule: BudgetRule) {
        self.budget_rule = rule;
    }

    /// The configured budgets, all of them. Which of them are written into etcd: see [`BudgetRule`].
    pub fn set_budgets(&mut self, now: Time, budgets: &BTreeMap<String, Budget>) {
        for (name, budget) in budgets {
            let pool = self.pools.entry(name.clone()).or_insert_with(|| Pool::new(*budget, now));
            pool.write_budget |= pool.budget.size != budget.size;
            pool.budget = *budget;
        }
        for (name, pool) in &mut self.pools {
            pool.configured = true;
            if !budgets.contains_key(name) {
                pool.budget = Budget::default();
                pool.usage.waiting = 0;
            }
        }
    }

    /// What a pool uses now.
    pub fn set_usage(&mut self, name: &str, usage: Usage) {
        if let Some(pool) = self.pools.get_mut(name) {
            pool.usage = usage;
        }
    }

    /// What the pools may open now.
    pub fn grants(&self) -> Grants {
        let mut grants = Grants { until: Time::START, pools: BTreeMap::new() };
        self.update_grants(&mut grants);
        grants
    }

    /// Writes the grants over earlier ones of this node: the simulator needs them in each step, and its maps are most
    /// of its time.
    pub(crate) fn update_grants(&self, grants: &mut Grants) {
        grants.until = Time::START;
        if self.released_all {
            return grants.pools.clear();
        }
        grants.until = self.renewed.map_or(Time::START, |sent| self.timing.shrink_at(sent));
        let grant = |pool: &Pool| Grant {
            limit: pool.limit.max(pool.floor).saturating_sub(pool.orphans),
            floor: pool.floor.saturating_sub(pool.orphans),
        };
        if grants.pools.len() != self.pools.len() {
            grants.pools = self.pools.iter().map(|(name, pool)| (name.clone(), grant(pool))).collect();
            return;
        }
        // A node's pools are never fewer, so these are the same ones, in the same order.
        grants.pools.values_mut().zip(self.pools.values()).for_each(|(to, pool)| *to = grant(pool));
    }

    /// The lost node whose connections are to be ended next, if this one may do that now: its own connection for it is
    /// one of its pool's share. Without a lease that would be beyond the floor, and nothing could be given away. With
    /// this node's name it is the process before.
    pub fn next_end(&self, now: Time) -> Option<Lost> {
        let may = self.member_state(now) == MemberState::Member || self.ends_without_lease();
        let has_orphans = |(_, pool): &(&String, &Pool)| pool.must_end_orphans() && pool.limit > pool.orphans;
        let own = self.pools.iter().find(has_orphans).filter(|_| self.knows_shares());
        let own = own.map(|(pool, _)| Lost { pool: pool.clone(), node: self.name.clone(), revision: 0 });
        let is_recent = self.members.is_recent(now, LOOK_BEFORE_END);
        let other = || self.lost.iter().find(|lost| self.is_to_end(lost)).filter(|_| is_recent).cloned();
        own.or_else(other).filter(|_| may)
    }

    /// Whether a lost node's connections must be ended still, before its share can be used: see [`Node::ended`].
    pub fn is_to_end(&self, lost: &Lost) -> bool {
        let Some(pool) = self.pools.get(&lost.pool) else { return false };
        if lost.node == self.name { pool.orphans > 0 } else { pool.waits(&self.name) && self.lost.contains(lost) }
    }

    /// Whether the end of a lost node's connections may begin with `open` connections of the pool in this process, and
    /// for how long; `None`: not now. Returned with it is what is known of the lost node's connections.
    pub fn begin_end(&self, now: Time, lost: &Lost, open: u32) -> Option<(Ending, Option<Span>)> {
        let Grant { limit, floor } = self.grants().pools.get(&lost.pool).copied().unwrap_or_default();
        let begins = self.is_to_end(lost) && self.next_end(now).is_some() && open < limit;
        // Within a floor the connection may outlast the lease.
        let rest = if floor > 0 { None } else { Some(self.grants().until.since(now)) };
        begins.then(|| (self.ending(lost), rest))
    }

    /// What is known of a lost node's connections by now.
    pub fn ending(&self, lost: &Lost) -> Ending {
        let entry = self.pools.get(&lost.pool).map_or_else(Entry::default, |pool| pool.record.entry(&lost.node));
        let floor = if self.is_upgrading(&lost.node) { 0 } else { self.floor_after(&lost.node, entry) };
        let ending = self.members.ending(lost, &self.name, floor);
        #[cfg(test)]
        let ending = Ending { by_pid: self.bug == Some(crate::sim::Bug::PidIsIdentity), ..ending };
        if lost.node != self.name {
            return ending;
        }
        let theirs = self.orphans.connections.get(&lost.pool).into_iter().flatten().copied().collect();
        Ending { floor: 0, theirs, ..ending }
    }

    /// A lost node has this many connections of this pool left at the server, at most. Returns whether some of its
    /// share can be taken.
    pub fn ended(&mut self, lost: &Lost, left: u32) -> bool {
        let Some(pool) = self.pools.get_mut(&lost.pool) else { return false };
        if lost.node == self.name {
            let before = pool.orphans;
            pool.orphans = before.min(left);
            return pool.orphans < before;
        }
        let entry = pool.record.entry(&lost.node);
        let is_less = self.kept_share(&lost.node, entry, left) < entry.share;
        let taken = is_less && self.lost.remove(lost);
        if taken {
            self.ended.insert(lost.clone(), left);
        }
        taken
    }

    /// What a lost node keeps: nothing, if its process has ended in order.
    fn floor_after(&self, node: &str, entry: Entry) -> u32 {
        if self.members.get(node).is_some_and(|(_, member)| member.left) { 0 } else { entry.floor }
    }

    /// Two processes of the node may live.
    fn is_upgrading(&self, node: &str) -> bool {
        self.members.get(node).is_some_and(|(_, member)| member.upgrading)
    }

    /// What a lost node's share becomes, when so many of its connections are left at the server. One process has these
    /// within its floor; of two, one may have these, which it can't close as it is frozen, and the other one the floor.
    fn kept_share(&self, node: &str, entry: Entry, left: u32) -> u32 {
        let floor = self.kept_floor(self.floor_after(node, entry));
        let left = self.kept_left(left);
        if self.is_upgrading(node) { (floor + left).min(entry.share) } else { floor.max(left) }
    }

    /// The server connections, by pool. They are recorded for the node that has to end them.
    pub fn set_connections(&mut self, connections: BTreeMap<String, Vec<BackendId>>) {
        self.unrecorded |= self.member.connections != connections;
        self.member.connections = connections;
    }

    /// Whether two processes have this node's part. To be called before the second one has any, and until the first one
    /// has none.
    pub fn set_upgrading(&mut self, upgrading: bool) {
        self.unrecorded |= self.member.upgrading != upgrading;
        self.member.upgrading = upgrading;
    }

    /// Where other nodes find this one's clients. It is recorded with the next heartbeat.
    pub fn set_peer(&mut self, peer: Option<PeerAddress>) {
        self.unrecorded |= self.member.peer != peer;
        self.member.peer = peer;
    }

    /// Where the clients of other nodes are found, but for those whose process has ended in order.
    pub fn peers(&self) -> impl Iterator<Item = &PeerAddress> {
        let others = self.members.all(Time::START).filter(|(name, member, _)| *name != self.name && !member.left);
        others.filter_map(|(_, member, _)| member.peer.as_ref())
    }

    /// What the node does.
    pub fn member_state(&self, now: Time) -> MemberState {
        match self.phase {
            _ if self.name_in_use => MemberState::NameInUse,
            _ if self.renewed.is_some_and(|sent| now < self.timing.shrink_at(sent)) => MemberState::Member,
            Phase::Read { .. } | Phase::Claim(_) if self.renewed.is_none() => MemberState::Joining,
            _ => MemberState::Floor,
        }
    }

    /// The records of all pools as last read, and how long each has been unchanged.
    pub fn pools(&self, now: Time) -> impl Iterator<Item = (&str, &PoolShares, Span)> {
        self.pools.iter().map(move |(name, pool)| (name.as_str(), &pool.record, now.since(pool.seen)))
    }

    /// The members as last read, and how long each has been unchanged.
    pub fn members(&self, now: Time) -> impl Iterator<Item = (&str, &Member, Span)> {
        self.members.all(now)
    }

    /// Members are to be read soon, for a reader of [`Node::members`].
    pub fn look_at_members(&mut self, now: Time) {
        self.next_look = self.next_look.min(now);
    }

    /// The next request, if one is due and none is under way. Call at least every 50 ms.
    pub fn next_request(&mut self, now: Time) -> Option<StoreRequest> {
        if self.orphans.until.is_some_and(|until| now >= until) && !self.name_in_use {
            self.orphans.until = None;
            self.pools.values_mut().for_each(|pool| pool.orphans = 0);
        }
        if self.sent.is_some() {
            return None;
        }
        let (request, shares) = match self.phase {
            Phase::Read { .. } if now < self.next_read => return None,
            Phase::Read { .. } => (StoreRequest::ReadAll, Vec::new()),
            Phase::Claim(over) => {
                self.revision = over;
                (StoreRequest::Commit(self.heartbeat()), Vec::new())
            }
            Phase::Run => self.run(now)?,
        };
        self.sent = Some(Sent { at: now, request: request.clone(), shares });
        Some(request)
    }

    /// Etcd's reply to the request.
    pub fn replied(&mut self, now: Time, reply: StoreReply) {
        let Some(sent) = self.sent.take() else { return };
        match (sent.request, reply) {
            (StoreRequest::ReadAll, StoreReply::Read(revision, all)) => self.read_all(now, revision, all),
            (StoreRequest::ReadMembers, StoreReply::Read(_, all)) => self.members.read(now, members(&all)),
            (StoreRequest::ReadPools(_), StoreReply::Read(revision, all)) => {
                self.read_to = revision;
                pools(all).into_iter().for_each(|(name, revision, record)| self.seen(now, &name, revision, record));
            }
            (StoreRequest::Commit(txn), StoreReply::Committed(revision)) => {
                self.committed(now, &txn, revision, sent.at, sent.shares)
            }
            _ => {
                // Something has changed: all is read again, after a pause that differs between nodes. It replaces the
                // time of the next look, which may be later: a release that waits for that keeps connections from
                // others.
                self.phase = Phase::Read { certain: true };
                let pause = self.pause_after_conflict();
                (self.next_change, self.next_read) = (now + pause, now + pause);
            }
        }
    }

    /// Below 50 ms after the first conflict, and longer after those that follow: nodes that write one record take
    /// turns.
    fn pause_after_conflict(&mut self) -> Span {
        let chance = self.member.incarnation.wrapping_add(self.member.beat.wrapping_mul(0x9e37_79b9_7f4a_7c15)) >> 32;
        let pause = Span::from_micros((chance % 49 * 1000) << self.conflicts);
        self.conflicts = (self.conflicts + 1).min(MOST_CONFLICTS);
        pause
    }

    /// The request has failed, or its reply does not come: whether it was executed, or will be, is unknown.
    pub fn failed(&mut self, now: Time) {
        let Some(sent) = self.sent.take() else { return };
        self.next_read = now + RETRY;
        let certain = !matches!(sent.request, StoreRequest::Commit(_)) && self.phase != Phase::Read { certain: false };
        self.phase = Phase::Read { certain };
    }

    /// The server has ended all connections, no more will be opened, and the stored floors are removed: the next
    /// requests give the shares and floors away, and [`Node::leave`] follows.
    pub fn release_all(&mut self) {
        self.released_all = true;
    }

    /// The transaction to leave, when the pools open no connections any more and the stored floors are removed: the
    /// node is fenced at once, and others take its shares as they need them, with the same care as a lost node's.
    /// `None` if the node has nothing to leave, or a request is under way or, after [`Node::release_all`], to be made.
    pub fn leave(&mut self) -> Option<Txn> {
        if self.phase != Phase::Run || self.sent.is_some() || (self.released_all && !self.releases().is_empty()) {
            return None;
        }
        self.end_shares();
        self.renewed = None;
        let member = Member { fenced: true, left: true, beat: self.member.beat + 1, ..self.member.clone() };
        let put = (StoreKey::Member(self.name.clone()), Some(StoreValue::Member(member)));
        let mut txn = Txn { compares: vec![self.me()], store: None, puts: vec![put] };
        self.guard(&mut txn);
        Some(txn)
    }

    fn me(&self) -> (StoreKey, Revision) {
        (StoreKey::Member(self.name.clone()), self.revision)
    }

    /// The records without a share of this node, which has left them. Where the process before may have connections, it
    /// stays.
    fn releases(&self) -> Vec<(String, PoolShares)> {
        let is_left = |pool: &Pool| pool.orphans == 0 && pool.record.nodes.contains_key(&self.name);
        let mine = self.pools.iter().filter(|(_, pool)| is_left(pool));
        let without = |(name, pool): (&String, &Pool)| {
            let mut record = pool.record.clone();
            record.nodes.remove(&self.name);
            (name.clone(), record)
        };
        mine.map(without).take(MOST_POOLS).collect()
    }

    /// A transaction that renews the lease.
    fn heartbeat(&mut self) -> Txn {
        self.member.beat += 1;
        self.unrecorded = false;
        let member = Member { fenced: false, ..self.member.clone() };
        let put = (StoreKey::Member(self.name.clone()), Some(StoreValue::Member(member)));
        let mut txn = Txn { compares: vec![self.me()], store: None, puts: vec![put] };
        self.guard(&mut txn);
        txn
    }

    fn run(&mut self, now: Time) -> Option<(StoreRequest, Vec<(String, PoolShares)>)> {
        if now >= self.next_change || self.released_all {
            let changes = match () {
                () if self.released_all => self.releases(),
                () if self.is_resting() => self.restatements(),
                () => self.changes(now),
            };
            if !changes.is_empty() {
                let round = self.timing.round.micros();
                self.next_change = now + Span::from_micros(if self.conflicts == 0 { round } else { round / 4 });
                let mut txn = self.heartbeat();
                for (name, record) in &changes {
                    let key = StoreKey::Pool(name.clone());
                    txn.compares.push((key.clone(), self.pools[name].revision));
                    txn.puts.push((key, Some(StoreValue::Pool(record.clone()))));
                }
                return Some((StoreRequest::Commit(txn), changes));
            }
        }
        if self.released_all {
            return None;
        }
        if self.is_resting()
            && !self.released_all
            && now >= self.next_change
            && let Some(txn) = self.restate_member()
        {
            self.next_change = now + self.timing.round;
            return Some((StoreRequest::Commit(txn), Vec::new()));
        }
        if let Some(txn) = self.end_rest(now) {
            return Some((StoreRequest::Commit(txn), Vec::new()));
        }
        let pause = if self.unrecorded { self.timing.round } else { self.timing.beat() };
        if self.renewed.is_none_or(|sent| now >= sent + pause) {
            return Some((StoreRequest::Commit(self.heartbeat()), Vec::new()));
        }
        let waits = self.pools.values().any(|pool| pool.record.nodes.values().any(|entry| entry.wait.is_some()));
        if now >= self.next_read {
            self.next_read = now + if waits { self.timing.round } else { self.timing.idle_round };
            return Some((StoreRequest::ReadPools(self.read_to), Vec::new()));
        }
        let lacks = !self.is_resting() && self.pools.values().any(|pool| pool.waits(&self.name));
        if now >= self.next_look || lacks && !self.members.is_recent(now, LOOK_AT_MEMBERS) {
            self.next_look = if lacks { now + LOOK_AT_MEMBERS } else { Time::NEVER };
            return Some((StoreRequest::ReadMembers, Vec::new()));
        }
        if lacks {
            self.next_look = self.next_look.min(now + LOOK_AT_MEMBERS);
            return self.reclaim(now).map(|txn| (StoreRequest::Commit(txn), Vec::new()));
        }
        self.lost.clear();
        None
    }

    /// The records to write, and the limits from now on.
    fn changes(&mut self, now: Time) -> Vec<(String, PoolShares)> {
        let (name, rule) = (&self.name, self.budget_rule);
        let early = self.releases_early();
        let changed =
            |(pool_name, pool): (&String, &mut Pool)| Some((pool_name.clone(), pool.change(now, name, rule, early)?));
        let mut changes: Vec<_> = self.pools.iter_mut().filter_map(changed).collect();
        // One pool that many nodes change does not hold up the others.
        let most = if self.conflicts == 0 { MOST_POOLS } else { 1 };
        if changes.len() > most {
            let from = changes.iter().position(|(pool, _)| *pool > self.cursor).unwrap_or(0);
            changes.rotate_left(from);
            changes.truncate(most);
        }
        if let Some((last, _)) = changes.last() {
            self.cursor.clone_from(last);
        }
        changes
    }

    /// Finds a node whose lease has ended and that has what this one's clients wait for: fences it, has its connections
    /// ended, and then removes its share beyond the floor.
    fn reclaim(&mut self, now: Time) -> Option<Txn> {
        let mut wanted = BTreeSet::new();
        let mut found = None;
        for (pool_name, pool) in self.pools.iter().filter(|(_, pool)| pool.waits(&self.name)) {
            let others = pool.record.nodes.iter().filter(|(other, _)| **other != self.name);
            let floor = |other: &str, entry: &Entry| self.floor_after(other, *entry);
            for (other, entry) in others.filter(|(o, entry)| entry.share > floor(o, entry) || entry.wait.is_some()) {
                match self.members.lease(now, other, self.timing.lost_after()) {
                    Lease::Valid => {}
                    Lease::Ended(revision) => found = found.or(Some((other.clone(), revision, None))),
                    Lease::Fenced(revision) => {
                        let lost = Lost { pool: pool_name.clone(), node: other.clone(), revision };
                        let kept = floor(other, entry);
                        // There is nothing to take; the wait is removed.
                        let left = if entry.share == kept { Some(kept) } else { self.ended.get(&lost).copied() };
                        if let Some(left) = left {
                            let change = Some((pool_name.clone(), left));
                            found = found.or(Some((other.clone(), revision, change)));
                        } else {
                            wanted.insert(lost);
                        }
                    }
                }
            }
        }
        self.lost = wanted;
        let (other, revision, pool) = found?;
        let mut txn = self.heartbeat();
        let key = StoreKey::Member(other.clone());
        match pool {
            None => {
                let member = self.members.get(&other).map(|(_, member)| member.clone()).unwrap_or_default();
                txn.puts.push((key.clone(), Some(StoreValue::Member(Member { fenced: true, ..member }))));
            }
            Some((pool_name, left)) => {
                self.ended.remove(&Lost { pool: pool_name.clone(), node: other.clone(), revision });
                let pool = &self.pools[&pool_name];
                let mut record = pool.record.clone();
                let entry = record.entry(&other);
                let (floor, share) =
                    (self.kept_floor(self.floor_after(&other, entry)), self.kept_share(&other, entry, left));
                record.set(&other, Entry { share, floor, wait: None });
                txn.compares.push((StoreKey::Pool(pool_name.clone()), pool.revision));
                txn.puts.push((StoreKey::Pool(pool_name), Some(StoreValue::Pool(record))));
            }
        }
        if !self.skips_fence() {
            txn.compares.push((key, revision));
        }
        Some(txn)
    }

    #[cfg(not(test))]
    fn kept_floor(&self, floor: u32) -> u32 {
        floor
    }

    #[cfg(not(test))]
    fn trusts_new_store(&self) -> bool {
        false
    }

    #[cfg(not(test))]
    fn kept_left(&self, left: u32) -> u32 {
        left
    }

    #[cfg(not(test))]
    fn counts_orphans(&self) -> bool {
        true
    }

    #[cfg(not(test))]
    fn releases_early(&self) -> bool {
        false
    }

    #[cfg(not(test))]
    fn skips_fence(&self) -> bool {
        false
    }

    #[cfg(not(test))]
    fn ends_without_lease(&self) -> bool {
        false
    }

    fn read_all(&mut self, now: Time, revision: Revision, all: Vec<Stored>) {
        self.members.read(now, members(&all));
        self.read_to = revision;
        let own = self.members.get(&self.name).map(|(revision, member)| (revision, member.clone()));
        let certain = self.phase == Phase::Read { certain: true };
        let (at, member) = own.unwrap_or((0, Member::default()));
        let mine = at != 0 && member.incarnation == self.member.incarnation;
        let is_old_process = self.old_incarnation == Some(member.incarnation);
        self.name_in_use = at != 0 && !mine && !is_old_process && self.is_alive(now, &all);
        if self.name_in_use {
            self.end_shares();
            self.next_read = now + RETRY;
            return;
        }
        if self.meet_store(now, &all, mine.then_some(&member)) {
            self.phase = Phase::Claim(at);
            return;
        }
        if !mine || member.fenced {
            if at != 0 && !mine && !is_old_process && self.counts_orphans() {
                self.orphans = Orphans { connections: member.connections.clone(), unread: true, until: None };
            }
            // What it had in the store before has a lease there.
            if self.forgets_on_fence() && !self.is_resting() {
                self.end_shares();
            }
            self.phase = Phase::Claim(at);
            return;
        }
        if !certain && at == self.revision {
            // A transaction may still be on its way: a heartbeat rules it out.
            self.phase = Phase::Claim(at);
            return;
        }
        self.revision = at;
        self.member.beat = self.member.beat.max(member.beat);
        self.phase = Phase::Run;
        self.apply_read(now, all);
    }

    /// Whether the other incarnation with this node's name may still have a lease, or others are about to end its
    /// connections: they have connections for that, and this process has none. They have another lease for it.
    fn is_alive(&self, now: Time, all: &[Stored]) -> bool {
        let lost_after = self.timing.lost_after();
        let lives = |name: &str| name != self.name && self.members.lease(now, name, lost_after) == Lease::Valid;
        let ends = |(name, entry): (&String, &Entry)| entry.share > 0 && entry.wait.is_some() && lives(name);
        let gives = |stored: &Stored| match &stored.value {
            StoreValue::Member(_) | StoreValue::Store(_) => false,
            StoreValue::Pool(record) => {
                let mine = record.entry(&self.name);
                mine.share > mine.floor && record.nodes.iter().any(ends)
            }
        };
        let (lease, others) = (self.timing.lease, all.iter().any(gives));
        let after = Span::from_micros(lost_after.micros() + lease.micros());
        let unchanged = self.members.all(now).find(|(name, ..)| *name == self.name).map_or(after, |(.., since)| since);
        match self.members.lease(now, &self.name, lost_after) {
            Lease::Valid => true,
            Lease::Ended(_) => others && unchanged < after,
            Lease::Fenced(_) => others && unchanged < lease,
        }
    }

    /// The shares may have been given away: only floors are left until they are read again.
    fn end_shares(&mut self) {
        self.pools.values_mut().for_each(|pool| pool.limit = pool.floor);
    }

    /// The records of all pools, read when no transaction of this node is under way: its shares are what they say.
    fn apply_read(&mut self, now: Time, all: Vec<Stored>) {
        let mut records: BTreeMap<String, (Revision, PoolShares)> =
            pools(all).into_iter().map(|(name, revision, record)| (name, (revision, record))).collect();
        let rests = self.is_resting();
        if !rests {
            self.members.forget_gone();
        }
        for (name, pool) in &mut self.pools {
            let (revision, record) = records.remove(name).unwrap_or_default();
            pool.see(now, revision, record);
            pool.take(now, &self.name, rests);
        }
        for (name, (revision, record)) in records {
            let mut pool = Pool::new(Budget::default(), now);
            pool.see(now, revision, record);
            pool.take(now, &self.name, rests);
            self.pools.insert(name, pool);
        }
        if std::mem::take(&mut self.orphans.unread) {
            self.orphans.until = Some(now + self.timing.orphans());
            self.pools.values_mut().for_each(|pool| pool.orphans = pool.record.entry(&self.name).share);
        }
    }

    /// A pool's record was read while the node runs.
    fn seen(&mut self, now: Time, name: &str, revision: Revision, record: PoolShares) {
        let rests = self.is_resting();
        let pool = self.pools.entry(name.to_owned()).or_insert_with(|| Pool::new(Budget::default(), now));
        if revision > pool.revision {
            pool.see(now, revision, record);
            if !rests {
                pool.limit = pool.limit.min(pool.record.entry(&self.name).share);
            }
        }
    }

    fn committed(&mut self, now: Time, txn: &Txn, revision: Revision, sent: Time, shares: Vec<(String, PoolShares)>) {
        self.revision = revision;
        self.conflicts = 0;
        let rests = self.is_resting();
        self.wrote_store(now, txn);
        if let Phase::Claim(_) = self.phase {
            self.renew(now, sent);
            self.phase = Phase::Read { certain: true };
            self.next_read = now;
            return;
        }
        let reclaimed = txn.puts.iter().filter_map(|(key, value)| match (key, value) {
            (StoreKey::Pool(name), Some(StoreValue::Pool(record))) => Some((name.clone(), record.clone())),
            _ => None,
        });
        let written = if shares.is_empty() { reclaimed.collect() } else { shares };
        for (name, record) in written {
            if let Some(pool) = self.pools.get_mut(&name) {
                pool.see(now, revision, record);
                pool.take(now, &self.name, rests);
                pool.write_budget &= rests;
            }
        }
        if txn.puts.iter().any(|(key, _)| matches!(key, StoreKey::Member(name) if *name != self.name)) {
            self.next_look = now;
        }
        self.renew(now, sent);
    }

    /// A heartbeat was written.
    fn renew(&mut self, now: Time, sent: Time) {
        if !self.is_resting() || self.is_restated() {
            self.renewed = Some(self.renewal(now, sent));
        }
    }

    #[cfg(not(test))]
    fn renewal(&self, _: Time, sent: Time) -> Time {
        sent
    }

    #[cfg(not(test))]
    fn forgets_on_fence(&self) -> bool {
        true
    }
}

/// Another store.
impl Node {
    /// How long it takes until shares of the store can be given out; `None`: shares can be given out now.
    pub fn rest(&self, now: Time) -> Option<Span> {
        let left =
            Span::from_micros(self.timing.lost_after().micros().saturating_sub(now.since(self.known.since).micros()));
        self.is_resting().then_some(left)
    }

    fn is_resting(&self) -> bool {
        self.known.store.is_some_and(|store| !store.ready)
    }

    /// Compares the store that was read with the one that this node knows. `mine`: this process's heartbeat in it, if
    /// there is one. Returns whether the store has to be written first.
    fn meet_store(&mut self, now: Time, all: &[Stored], mine: Option<&Member>) -> bool {
        let found = all.iter().find_map(|stored| match stored.value {
            StoreValue::Store(store) => Some((stored.revision, store)),
            _ => None,
        });
        // A backup, from before heartbeats that were written.
        let is_known = |store: Store| self.known.store.is_some_and(|known| known.id == store.id);
        let is_older = mine.is_some_and(|member| member.beat < self.known.beat);
        let went_back = is_older && found.is_some_and(|(_, store)| is_known(store));
        let Some((_, store)) = found.filter(|_| !went_back) else {
            let chance = self.member.incarnation.rotate_left(17) ^ self.member.beat.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let store = Store { id: chance, ready: self.trusts_new_store() };
            self.known.make = Some((found.map_or(0, |(revision, _)| revision), store));
            self.carry(now);
            return true;
        };
        if !is_known(store) {
            self.known.since = now;
            // Revisions of another store may be the same by chance.
            self.members.seen_anew(now);
            self.lost.clear();
            self.ended.clear();
            if !store.ready {
                self.carry(now);
            }
        }
        (self.known.store, self.known.make) = (Some(store), None);
        false
    }

    /// What the pools have now goes on in another store. Without a lease that is the floors.
    fn carry(&mut self, now: Time) {
        let is_own = self.renewed.is_some();
        let is_valid = self.renewed.is_some_and(|sent| now < self.timing.shrink_at(sent));
        self.known.beat = 0;
        for pool in self.pools.values_mut() {
            if !is_valid {
                pool.limit = pool.floor;
            }
            // Without a lease it may still close the rest.
            let share = pool.limit.max(pool.floor).max(pool.used().open);
            // Of a store that was not ready either, what the others have written there is newer.
            let newer = std::mem::take(&mut pool.record);
            let mut record = pool.carried.take().map(|carried| carried.record).unwrap_or_default();
            record.nodes.extend(newer.nodes);
            record.budget = if newer.budget > 0 { newer.budget } else { record.budget };
            pool.carried = Some(Carried { share, floor: pool.floor, is_own, record });
            pool.revision = 0;
        }
    }

    /// Whether what the node has of its pools is written in a store that is not ready. Until then a heartbeat there is
    /// no lease: the others do not know what this one has.
    fn is_restated(&self) -> bool {
        self.known.make.is_none() && self.pools.values().all(|pool| pool.is_restated(&self.name))
    }

    /// The records to write before the store is ready.
    fn restatements(&mut self) -> Vec<(String, PoolShares)> {
        let (me, members) = (&self.name, &self.members);
        let has_left = |name: &str| members.get(name).is_some_and(|(_, member)| member.left);
        let pools = self.pools.iter();
        let changed = pools.filter_map(|(name, pool)| Some((name.clone(), pool.restatement(me, &has_left)?)));
        changed.take(MOST_POOLS).collect()
    }

    /// The transaction with what is known of another node that has not come back: it may be frozen, and is fenced.
    fn restate_member(&mut self) -> Option<Txn> {
        let (name, member) = self.members.gone().find(|(name, _)| **name != self.name)?;
        let (key, member) = (StoreKey::Member(name.clone()), Member { fenced: true, ..member.clone() });
        let mut txn = self.heartbeat();
        txn.compares.push((key.clone(), 0));
        txn.puts.push((key, Some(StoreValue::Member(member))));
        Some(txn)
    }

    /// The transaction after which shares of the store are given out, if it is time.
    fn end_rest(&mut self, now: Time) -> Option<Txn> {
        let store = self.known.store.filter(|store| !store.ready)?;
        if now.since(self.known.since) <= self.timing.lost_after() {
            return None;
        }
        let mut txn = self.heartbeat();
        txn.puts.push((StoreKey::Store, Some(StoreValue::Store(Store { ready: true, ..store }))));
        Some(txn)
    }

    /// What each transaction compares and writes of the store.
    fn guard(&self, txn: &mut Txn) {
        match self.known.make {
            Some((revision, store)) => {
                txn.compares.push((StoreKey::Store, revision));
                txn.puts.push((StoreKey::Store, Some(StoreValue::Store(store))));
            }
            None => txn.store = self.known.store,
        }
    }

    /// A transaction of this node was written.
    fn wrote_store(&mut self, now: Time, txn: &Txn) {
        self.known.beat = self.known.beat.max(self.member.beat);
        let written = txn.puts.iter().find_map(|(_, value)| match value {
            Some(StoreValue::Store(store)) => Some(*store),
            _ => None,
        });
        let Some(store) = written else { return };
        if self.known.store.is_none_or(|known| known.id != store.id) {
            self.known.since = now;
        }
        (self.known.store, self.known.make) = (Some(store), None);
        // The shares are read again.
        self.phase = Phase::Read { certain: true };
        self.next_read = now;
    }

    /// The store that the node knows.
    #[cfg(test)]
    pub(crate) fn store(&self) -> Option<Store> {
        self.known.store
    }
}

fn members(all: &[Stored]) -> Vec<(String, Revision, Member)> {
    let member = |stored: &Stored| match (&stored.key, &stored.value) {
        (StoreKey::Member(name), StoreValue::Member(member)) => Some((name.clone(), stored.revision, member.clone())),
        _ => None,
    };
    all.iter().filter_map(member).collect()
}

fn pools(all: Vec<Stored>) -> Vec<(String, Revision, PoolShares)> {
    let pool = |stored: Stored| match (stored.key, stored.value) {
        (StoreKey::Pool(name), StoreValue::Pool(record)) => Some((name, stored.revision, record)),
        _ => None,
    };
    all.into_iter().filter_map(pool).collect()
}

#[cfg(test)]
mod planted;
#[cfg(test)]
mod tests;
