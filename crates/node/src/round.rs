//! A round of the node's thread: what pools use is read, the next request is made, and the workers get their limits.
//!
//! Owns the order of a round, and what the thread knows. The limits have an end by the workers' clock, so that nothing here
//! has to happen in time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_admin::{Connections, Control, ControlReply, ControlRequest, Cursor, SharedLimit, SharedLimits};
use weir_base::{Span, Time, plural};
use weir_cluster::{BackendId, Budget, Grants, Lost, MemberState, Node, Timing};
use weir_config::Config;
use weir_probes::Permits;
use weir_runtime::{Handle, Running};
use weir_store::ConfigStore;

use crate::adopt::Adopting;
use crate::ending::Run;
use crate::error::NodeError;
use crate::etcd::Etcd;
use crate::peers::Peers;
use crate::upgrade::{CLAIM, ClusterUpgrade, ExportState, ImportState, Process, SERVES_FIRST, UpgradeEvent};
use crate::usage::Usages;
use crate::{floors, view};

/// The pause between two rounds.
const PAUSE: Duration = Duration::from_millis(40);
/// How long the workers may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// In this many rounds what pools use is read once.
const ROUNDS: u32 = 3;
/// In this many rounds the process ids of server connections are read once.
const BACKEND_ROUNDS: u32 = 3;
/// In this many rounds the other members are read once, for those who look.
const VIEW_ROUNDS: u32 = 100;
/// How long the end of a lost node's connections rests after a failure.
const END_AGAIN: Span = Span::from_secs(2);
/// How long a process that ends may take to leave the cluster.
const LEAVE: Duration = Duration::from_secs(3);

/// See the head of the file.
pub(crate) struct Round {
    node: Node,
    etcd: Etcd,
    adopting: Adopting,
    peers: Peers,
    handle: Handle,
    control: Arc<dyn Control>,
    state: Option<PathBuf>,
    /// The floors on disk.
    stored: BTreeMap<String, u32>,
    usages: Usages,
    config: Arc<Config>,
    /// This node's server connections.
    own: BTreeSet<BackendId>,
    /// How many connections the workers have of each pool.
    open: BTreeMap<String, u32>,
    /// How many connections of a pool's share the workers leave unused: for one that ends those of a lost node, and for
    /// one that looks at the server.
    reserved: BTreeMap<String, u32>,
    /// The pool of whose share one is for the end of a lost node's.
    ends: Option<String>,
    permits: Permits,
    /// Whether the rest after a loss of etcd's store was reported.
    rests: bool,
    run: Option<Run>,
    /// No end is begun before.
    next_end: Time,
    /// What the workers have.
    sent: Option<(Grants, BTreeMap<String, u32>)>,
    member_state: Option<MemberState>,
    last_error: String,
    number: u32,
    /// The workers have ended, or are about to.
    stopped: Arc<AtomicBool>,
    /// What the workers received last.
    limits: SharedLimits,
    upgrade: ClusterUpgrade,
}

impl Round {
    /// Nothing is asked yet. `store` has the configuration that nodes share; `permits` are granted here. `stopped`: the
    /// workers have ended, or are about to.
    pub(crate) fn new(
        config: &Arc<Config>,
        store: Arc<ConfigStore>,
        permits: Permits,
        running: &Running,
        stopped: Arc<AtomicBool>,
    ) -> Result<Round, NodeError> {
        let (rules, handle) = (&config.cluster, running.handle());
        let etcd = Etcd::new(rules)?;
        let floors = floors::read(rules.state.as_deref())?;
        let timing = Timing { lease: rules.lease, ..Timing::default() };
        let mut node = Node::new(&rules.node, incarnation(), timing, &floors, handle.now());
        node.describe(env!("CARGO_PKG_VERSION"), 0, "");
        Ok(Round {
            node,
            etcd,
            permits,
            adopting: Adopting::new(store, handle.control()),
            peers: Peers::new(),
            control: handle.control(),
            handle,
            state: rules.state.clone(),
            stored: floors,
            usages: Usages::default(),
            config: config.clone(),
            own: BTreeSet::new(),
            open: BTreeMap::new(),
            reserved: BTreeMap::new(),
            ends: None,
            run: None,
            next_end: Time::START,
            sent: None,
            member_state: None,
            rests: false,
            last_error: String::new(),
            number: 0,
            stopped,
            limits: SharedLimits::default(),
            upgrade: ClusterUpgrade::new(running.old_process(), Box::new(running.send_to_old_process())),
        })
    }

    /// The pause between two rounds, in which the runtime may say something.
    pub(crate) fn listen(&mut self, said: &Receiver<UpgradeEvent>) {
        match said.recv_timeout(PAUSE) {
            Ok(said) => self.hear(said),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => thread::sleep(PAUSE),
        }
    }

    /// Whether the whole part of the node is this process's: what an old process still has is not.
    pub(crate) fn is_alone(&self) -> bool {
        !self.upgrade.has_no_part() && self.upgrade.import.is_none()
    }

    pub(crate) fn run(&mut self) {
        if !self.step_upgrade() {
            return;
        }
        for line in self.adopting.step(&mut self.node) {
            self.log(line);
        }
        if self.member_state == Some(MemberState::Member)
            && let Some(line) = self.peers.step(&mut self.node, &mut self.etcd, &self.config)
        {
            self.log(format!("cluster: {line}"));
        }
        if self.number.is_multiple_of(ROUNDS) {
            self.read_usage();
        }
        if self.number.is_multiple_of(BACKEND_ROUNDS) {
            self.read_backends();
        }
        self.end_lost();
        self.report_rest();
        if self.number.is_multiple_of(VIEW_ROUNDS) {
            self.node.look_at_members(self.handle.now());
        }
        self.number = self.number.wrapping_add(1);
        if let Some(request) = self.node.next_request(self.handle.now()) {
            // A lower limit is in force before its surplus is released.
            self.send_limits();
            match self.etcd.execute(&request) {
                Ok(reply) => {
                    self.last_error.clear();
                    self.adopting.replied(&mut self.etcd);
                    self.node.replied(self.handle.now(), reply);
                }
                Err(error) => {
                    self.node.failed(self.handle.now());
                    self.report_error(error);
                }
            }
        }
        self.send_limits();
        self.grant_permits();
        self.speak();
        self.report_member_state();
    }

    /// Reads the configuration, and what the pools use.
    fn read_usage(&mut self) {
        let Some(ControlReply::Report(report, config)) = self.ask(ControlRequest::Report) else { return };
        let budget = |name: &String| {
            let size = config.shared_budget(name)?;
            Some((name.clone(), Budget { size, floor: config.cluster.floor }))
        };
        let budgets: BTreeMap<String, Budget> = config.pools.keys().filter_map(budget).collect();
        self.node.set_budgets(self.handle.now(), &budgets);
        self.config = config;
        self.usages.note(&report);
        self.sent = None;
        self.send_limits();
    }

    /// Sends limits that have changed to the workers; floors are on disk before they are used.
    fn send_limits(&mut self) {
        let mut grants = self.node.grants();
        let is_new = self.upgrade.left.is_some();
        if !is_new && self.sent.as_ref() == Some(&(grants.clone(), self.reserved.clone())) {
            return;
        }
        let decided = grants.clone();
        let floors: BTreeMap<String, u32> =
            grants.pools.iter().map(|(name, grant)| (name.clone(), grant.floor)).collect();
        if floors != self.stored {
            match floors::write(self.state.as_deref(), &floors) {
                Ok(()) => self.stored = floors,
                Err(error) => self.report_error(error),
            }
        }
        let limit = |grant: &weir_cluster::Grant| SharedLimit { limit: grant.limit, floor: grant.floor };
        for (name, count) in &self.reserved {
            if let Some(grant) = grants.pools.get_mut(name) {
                (grant.limit, grant.floor) = (grant.limit.saturating_sub(*count), grant.floor.saturating_sub(*count));
            }
        }
        let pools = grants.pools.iter().map(|(name, grant)| (name.clone(), limit(grant))).collect();
        let view = Arc::new(view::view(&self.node, &self.config.cluster, self.handle.now()));
        let (until, peers) = (grants.until, self.peers.known(&self.node));
        let (left_to_other, is_exporting) = (self.upgrade.left.clone(), self.upgrade.is_exporting());
        self.limits = SharedLimits { until, pools, view, peers, left_to_other, is_exporting };
        if let Some(ControlReply::SharedOpen(open)) = self.ask(ControlRequest::SetShared(self.limits.clone())) {
            self.upgrade.left = None;
            let now = self.handle.now();
            // While another process has a part of the share, it may have the floor that was in force then.
            let is_alone = self.upgrade.export.is_none() && self.upgrade.import.is_none();
            for (name, open, other) in open {
                let grant = grants.pools.get(&name).copied().unwrap_or_default();
                let limit = if now < until { grant.limit } else { grant.floor };
                let mut usage = self.usages.usage(&name, open, limit);
                (usage.open, usage.active) = (usage.open + other, usage.active + other);
                let stored = self.stored.get(&name).copied().unwrap_or(0);
                usage.floor = if is_alone { grant.floor.max(stored) } else { u32::MAX };
                if is_exporting {
                    // The process that was to take over may have had the rest.
                    usage.open = usage.open.max(limit);
                }
                let reserved = self.reserved.get(&name).copied().unwrap_or(0);
                let whole = decided.pools.get(&name).copied().unwrap_or_default();
                let whole = if now < until { whole.limit } else { whole.floor };
                let has = reserved.min(whole);
                usage.open += has;
                usage.active += has;
                usage.limit += has;
                usage.waiting = usage.waiting.max(reserved - has);
                self.node.set_usage(&name, usage);
                self.open.insert(name, open);
            }
            self.sent = Some((decided, self.reserved.clone()));
        }
    }

    /// Reads which server connections there are, for the node that has to end them if this one is lost. One whose
    /// backend is not known is not recorded: it is counted at the server, and not ended.
    fn read_backends(&mut self) {
        let (mut cursor, mut backends) = (Some(Cursor::START), BTreeMap::<String, Vec<BackendId>>::new());
        while let Some(from) = cursor {
            let Some(ControlReply::Connections(page, next)) =
                self.ask(ControlRequest::Connections(Connections::Servers, from))
            else {
                return;
            };
            for server in page {
                let Some(started) = server.remote_started.filter(|_| server.remote_pid > 0) else { continue };
                if self.config.shared_budget(&server.database).is_some() {
                    backends.entry(server.database).or_default().push(BackendId { pid: server.remote_pid, started });
                }
            }
            cursor = next;
        }
        for (name, other) in self.upgrade.backends() {
            backends.entry(name.clone()).or_default().extend(other);
        }
        if let Some((run, own)) = self.run.as_ref().and_then(|run| Some((run, run.own()?))) {
            backends.entry(run.lost.pool.clone()).or_default().push(own);
        }
        for all in backends.values_mut() {
            all.sort_unstable();
            all.dedup();
        }
        self.own = backends.values().flatten().copied().collect();
        self.node.set_connections(backends);
    }

    /// Ends the connections of lost nodes at the server, one pool of one node at a time. That needs a connection of the
    /// pool's own share, which the workers leave unused meanwhile.
    fn end_lost(&mut self) {
        if let Some(run) = self.run.take() {
            match run.result() {
                None => {
                    run.learn(self.ending(&run.lost));
                    self.reserve(Some(&run.lost));
                    return self.run = Some(run);
                }
                Some(result) => self.run_ended(&run.lost, result),
            }
        }
        let now = self.handle.now();
        let may = now >= self.next_end && !self.upgrade.is_asked();
        let lost = self.node.next_end(now).filter(|_| may);
        self.reserve(lost.as_ref());
        let Some(lost) = lost else { return };
        if self.node.grants().pools.get(&lost.pool).is_none_or(|grant| grant.limit == 0) {
            self.next_end = now + END_AGAIN;
            return self.report_error(format!("no connection of {} is free to end those of {}", lost.pool, lost.node));
        }
        self.send_limits();
        // The workers' answer may have taken its time.
        let open = self.open.get(&lost.pool).copied().filter(|_| self.sent.is_some()).unwrap_or(u32::MAX);
        // One at a time: both may outlast the lease within the floor.
        let is_alone = self.reserved.get(&lost.pool) == Some(&1);
        if let Some((_, lease)) = self.node.begin_end(self.handle.now(), &lost, open).filter(|_| is_alone) {
            let ending = self.ending(&lost);
            match Run::start(self.config.clone(), lost, ending, lease) {
                Ok(run) => self.run = Some(run),
                Err(error) => self.report_error(error),
            }
        }
    }

    /// What is known of a lost node's connections. Connections of this node do not count as the lost node's.
    fn ending(&self, lost: &Lost) -> weir_cluster::Ending {
        let mut ending = self.node.ending(lost);
        ending.others.extend(&self.own);
        ending
    }

    /// The workers leave connections of the share to those that are not theirs.
    fn reserve(&mut self, lost: Option<&Lost>) {
        self.ends = lost.map(|lost| lost.pool.clone());
        let wanted = self.permits.wanted().into_iter();
        // The end of a lost node's comes first.
        let reserved = wanted.filter(|(name, waits)| !waits || self.ends.as_ref() != Some(name));
        self.reserved = reserved.map(|(name, _)| (name, 1)).collect();
        if let Some(name) = &self.ends {
            *self.reserved.entry(name.clone()).or_default() += 1;
        }
    }

    /// Grants a connection of the share to those that want to look at a server, where the workers have left one.
    fn grant_permits(&mut self) {
        let wanted: Vec<String> =
            self.permits.wanted().into_iter().filter_map(|(name, waits)| waits.then_some(name)).collect();
        let may = !self.upgrade.is_asked() && self.upgrade.export.is_none();
        if wanted.is_empty() || !may {
            return;
        }
        let (now, grants) = (self.handle.now(), self.node.grants());
        let sent = self.sent.as_ref();
        if sent.is_none_or(|(sent, reserved)| *sent != grants || *reserved != self.reserved) {
            return;
        }
        for name in wanted.into_iter().filter(|name| self.ends.as_ref() != Some(name)) {
            let Some(reserved) = self.reserved.get(&name).copied() else { continue };
            let weir_cluster::Grant { limit, floor } = grants.pools.get(&name).copied().unwrap_or_default();
            let limit = if now < grants.until { limit } else { floor };
            let open = self.open.get(&name).copied().unwrap_or(u32::MAX);
            if open.saturating_add(reserved) <= limit {
                // Within a floor the connection may outlast the lease.
                let lease = (floor == 0).then(|| Duration::from_micros(grants.until.since(now).micros()));
                self.permits.grant(&name, lease);
            }
        }
    }

    fn run_ended(&mut self, lost: &Lost, result: Result<u32, NodeError>) {
        let Lost { pool, node, .. } = lost;
        match result {
            Ok(left) => {
                if self.node.ended(lost, left) {
                    let left = plural(u64::from(left), "connection", "connections");
                    self.log(format!("cluster: {node} is gone, with at most {left} of {pool} left"));
                }
            }
            Err(error) => {
                let text =
                    format!("the connections of {node} to {pool} can't be ended, its share stays reserved: {error}");
                self.report_error(text);
            }
        }
        self.next_end = self.handle.now() + if self.node.is_to_end(lost) { END_AGAIN } else { Span::ZERO };
    }

    /// The process ends, and its workers have ended: what it had is for others. `all_ended`: its connections have
    /// ended, too, so that nobody has to look for them.
    pub(crate) fn leave(&mut self, all_ended: bool) {
        if let Err(error) = floors::write(self.state.as_deref(), &BTreeMap::new()) {
            // Another process may use the floors at a start without etcd: they are not given away.
            return eprintln!("weir: warning: {error}");
        }
        let begun = Instant::now();
        // The connections that end a lost node's, and that look at a server, are of the share.
        let is_busy = || self.run.as_ref().is_some_and(|run| run.result().is_none()) || self.permits.are_used();
        while begun.elapsed() < LEAVE && is_busy() {
            thread::sleep(PAUSE);
        }
        if all_ended && begun.elapsed() < LEAVE {
            self.node.release_all();
        }
        let begun = Instant::now();
        while begun.elapsed() < LEAVE && self.node.member_state(self.handle.now()) == MemberState::Member {
            if let Some(txn) = self.node.leave() {
                let _ = self.etcd.execute(&weir_cluster::StoreRequest::Commit(txn));
                return;
            }
            let Some(request) = self.node.next_request(self.handle.now()) else {
                thread::sleep(PAUSE);
                continue;
            };
            match self.etcd.execute(&request) {
                Ok(reply) => self.node.replied(self.handle.now(), reply),
                Err(_) => self.node.failed(self.handle.now()),
            }
        }
    }

    fn ask(&self, request: ControlRequest) -> Option<ControlReply> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let number = self.control.ask(
            request,
            Box::new(move |response| {
                let _ = sender.try_send(response);
            }),
        );
        let begun = Instant::now();
        loop {
            match receiver.recv_timeout(PAUSE) {
                Ok(answer) => return answer.ok(),
                // Workers that have ended do not answer.
                Err(RecvTimeoutError::Timeout) if begun.elapsed() < ANSWER && !self.is_stopped() => {}
                Err(_) => {
                    self.control.forget(number);
                    return None;
                }
            }
        }
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    fn report_error(&mut self, error: impl Display) {
        let error = error.to_string();
        if error != self.last_error {
            self.log(format!("cluster: {error}"));
            self.last_error = error;
        }
    }

    /// Shares are not given out for a while after etcd came back empty, and at the first start of a cluster.
    fn report_rest(&mut self) {
        let rest = self.node.rest(self.handle.now());
        if let Some(rest) = rest.filter(|_| !self.rests) {
            let seconds = rest.micros() / 1_000_000 + 1;
            self.log(format!(
                "cluster: etcd has a new store: each node keeps what it has, and shares are given out in {seconds} s, when leases of \
                 an earlier store have ended"
            ));
        }
        self.rests = rest.is_some();
    }

    fn report_member_state(&mut self) {
        let member_state = self.node.member_state(self.handle.now());
        if self.member_state != Some(member_state) {
            self.log(format!("cluster: this node {}", words(member_state)));
            self.member_state = Some(member_state);
        }
    }

    fn log(&self, line: String) {
        self.control.ask(ControlRequest::Log(line), Box::new(|_| {}));
    }
}

/// Another process takes over, or this one does.
impl Round {
    fn hear(&mut self, said: UpgradeEvent) {
        match said {
            UpgradeEvent::Export(pid, reply) => self.upgrade.asked = Some((pid, reply, self.handle.now())),
            UpgradeEvent::Received(said) => self.renewed_for_us(&said),
            UpgradeEvent::Aborted => self.abort_upgrade(),
            UpgradeEvent::Import(said, reply) => self.import(&said, reply),
            UpgradeEvent::Imported => self.upgrade.import.iter_mut().for_each(|import| import.ended = true),
            UpgradeEvent::Lost => self.upgrade.lost(),
        }
    }

    /// The new process hangs, or is gone: this one goes on. The new process has its part of the node's share until it
    /// ends, so a process that hangs is killed.
    fn abort_upgrade(&mut self) {
        let Some(export) = &mut self.upgrade.export else { return };
        export.is_aborted = true;
        if let Err(error) = export.to.kill()
            && export.to.dead_since(self.handle.now()).is_none()
        {
            self.report_error(format!(
                "the process that was to take over has a part of this node's shares until it ends: {error}"
            ));
        }
    }

    /// To be called in each round; returns whether this process has a part in the cluster now.
    fn step_upgrade(&mut self) -> bool {
        let now = self.handle.now();
        let is_free = self.run.is_none() && !self.permits.are_used();
        let is_starved = self.is_starved();
        let is_due = |since: Time| is_free && (!is_starved || now.since(since) > SERVES_FIRST);
        if let Some((pid, reply, _)) = self.upgrade.asked.take_if(|(.., since)| is_due(*since)) {
            let _ = reply.try_send(self.export(pid));
        }
        let lost_after = Span::from_micros(2 * self.config.cluster.lease.micros());
        let is_over = |dead: Option<Time>| dead.is_some_and(|at| now.since(at) > lost_after);
        if let Some(export) = self.upgrade.export.as_mut().filter(|export| export.is_aborted) {
            let dead = export.to.dead_since(now);
            if dead.is_some() && !export.back {
                export.back = true;
                self.node.claim_record(now, export.new_incarnation, None);
            }
            if is_over(dead) {
                self.upgrade.export = None;
                self.sent = None;
            }
        }
        if let Some(import) = &mut self.upgrade.import {
            import.ended |= import.lost && is_over(import.from.dead_since(now));
            if import.ended {
                self.other_has_ended();
            }
        }
        self.node.set_upgrading(self.upgrade.is_under_way());
        if self.upgrade.is_alone(now) {
            self.upgrade.waits = None;
            self.log(
                "cluster: the old process ended before it handed over this node's part: its lease must end first"
                    .to_owned(),
            );
        }
        !self.upgrade.has_no_part()
    }

    /// To be called at the end of each round: answers the old process, and renews its limits.
    fn speak(&mut self) {
        let now = self.handle.now();
        let until = self.node.grants().until;
        let is_ready = self.node.member_state(now) == MemberState::Member && self.node.knows_shares();
        let Some(import) = &mut self.upgrade.import else { return };
        let said = json!({ "until": until.micros() }).to_string().into_bytes();
        if let Some((reply, by)) = import.answer.take() {
            if is_ready || now >= by {
                let _ = reply.try_send(said);
            } else {
                import.answer = Some((reply, by));
            }
        } else if until > import.said {
            import.said = until;
            (self.upgrade.say)(&said);
        }
    }

    /// Whether clients wait for a server of a pool that has none open. Clients move between two requests only, and a
    /// process that hands over opens no more servers than it has.
    fn is_starved(&self) -> bool {
        self.open.iter().any(|(name, open)| *open == 0 && self.usages.usage(name, 0, 0).waiting > 0)
    }

    /// Another process takes over: this one makes no request any more, and keeps what it has.
    fn export(&mut self, pid: u32) -> Vec<u8> {
        let limits = SharedLimits { is_exporting: true, left_to_other: None, ..self.limits.clone() };
        let Some(ControlReply::SharedOpen(open)) = self.ask(ControlRequest::SetShared(limits.clone())) else {
            return Vec::new();
        };
        let left: BTreeMap<String, u32> = open.into_iter().map(|(name, open, other)| (name, open + other)).collect();
        let new_incarnation = incarnation();
        let member = self.node.member();
        let said = json!({
            "incarnation": member.incarnation, "successor": new_incarnation, "pid": std::process::id(),
            "connections": member.connections, "left": left, "orphans": self.node.orphans(),
        });
        self.upgrade.export =
            Some(ExportState { to: Process::new(pid), new_incarnation, limits, is_aborted: false, back: false });
        said.to_string().into_bytes()
    }

    /// The new process has renewed the lease.
    fn renewed_for_us(&mut self, said: &[u8]) {
        let until = serde_json::from_slice::<Json>(said).ok().and_then(|said| said["until"].as_u64());
        let Some(export) = self.upgrade.export.as_mut().filter(|export| !export.back) else { return };
        let Some(until) = until.map(Time::from_micros).filter(|until| *until > export.limits.until) else { return };
        export.limits.until = until;
        let limits = export.limits.clone();
        self.ask(ControlRequest::SetShared(limits));
        (self.upgrade.say)(said);
    }

    /// The old process hands over.
    fn import(&mut self, said: &[u8], reply: SyncSender<Vec<u8>>) {
        self.upgrade.waits = None;
        let Ok(said) = serde_json::from_slice::<Json>(said) else {
            // The old process is in no cluster.
            let _ = reply.try_send(Vec::new());
            return;
        };
        let now = self.handle.now();
        let number = |name: &str| said[name].as_u64().unwrap_or(0);
        let map = |name: &str| said[name].clone();
        self.node.set_upgrading(true);
        self.node.claim_record(now, number("incarnation"), Some(number("successor")));
        // Other versions know none.
        let orphans = said.get("orphans").cloned().unwrap_or_else(|| json!({}));
        let orphans: Option<BTreeMap<String, u32>> = serde_json::from_value(orphans).unwrap_or_default();
        self.node.import_orphans(now, orphans.as_ref());
        self.upgrade.left = Some(serde_json::from_value(map("left")).unwrap_or_default());
        self.upgrade.import = Some(ImportState {
            from: Process::new(u32::try_from(number("pid")).unwrap_or(0)),
            connections: serde_json::from_value(map("connections")).unwrap_or_default(),
            answer: Some((reply, now + CLAIM)),
            lost: false,
            ended: false,
            said: Time::START,
        });
    }

    /// The old process has given all, or is dead for long enough.
    fn other_has_ended(&mut self) {
        // Each worker answers after it has counted the servers that came.
        if self.ask(ControlRequest::Report).is_some() && self.upgrade.import.take().is_some() {
            self.upgrade.left = Some(BTreeMap::new());
            self.sent = None;
            if let Some(export) = &self.upgrade.export {
                let limits = SharedLimits { left_to_other: self.upgrade.left.take(), ..export.limits.clone() };
                self.ask(ControlRequest::SetShared(limits));
            }
        }
    }
}

fn words(member_state: MemberState) -> &'static str {
    match member_state {
        MemberState::Joining => "waits for etcd, to read its shares",
        MemberState::NameInUse => "waits: another process has its name, or had it until shortly",
        MemberState::Member => "is a member: its lease is valid",
        MemberState::Floor => "has its floors only: it could not renew its lease",
    }
}

/// A random number for this process.
fn incarnation() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(std::process::id())
}
