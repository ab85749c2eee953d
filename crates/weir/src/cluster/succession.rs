//! One process of a node takes over from another (`weir upgrade`): both together have the node's shares, once.
//!
//! The old process makes no request to etcd any more, keeps of each limit what it has open, and says so. The new one claims the old one's
//! record, has the limits from then on, and leaves the old one that much. Each server that moves takes its part of the limit along.
//! Always true: what a process keeps is the other's only when that one has given it, or is dead for longer than a lease.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_admin::{Reply, Request, SharedLimits};
use weir_base::{Span, Time};
use weir_cluster::Standing;
use weir_runtime::Beside;

use super::{Round, incarnation};

/// How long the thread may take to answer: an end of a lost node's connections may be under way.
const ANSWER: Duration = Duration::from_secs(12);
/// How long the new process tries to claim the old one's record before clients move all the same.
const CLAIM: Span = Span::from_secs(2);

/// What the runtime has to say to the thread.
pub(super) enum Said {
    Give(u32, SyncSender<Vec<u8>>),
    Heard(Vec<u8>),
    Stay,
    Take(Vec<u8>, SyncSender<Vec<u8>>),
    Taken,
    Lost,
}

/// The runtime's side.
pub(super) struct Link(Mutex<Sender<Said>>);

impl Link {
    pub(super) fn new(sender: Sender<Said>) -> Link {
        Link(Mutex::new(sender))
    }

    fn say(&self, said: Said) {
        // The thread is gone with the process only.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(said);
    }

    fn ask(&self, said: impl FnOnce(SyncSender<Vec<u8>>) -> Said) -> Vec<u8> {
        let (sender, receiver) = sync_channel(1);
        self.say(said(sender));
        receiver.recv_timeout(ANSWER).unwrap_or_default()
    }
}

impl Beside for Link {
    fn give(&self, pid: u32) -> Vec<u8> {
        self.ask(|reply| Said::Give(pid, reply))
    }

    fn heard(&self, said: &[u8]) {
        self.say(Said::Heard(said.to_vec()));
    }

    fn stay(&self) {
        self.say(Said::Stay);
    }

    fn take(&self, said: &[u8]) -> Vec<u8> {
        self.ask(|reply| Said::Take(said.to_vec(), reply))
    }

    fn taken(&self) {
        self.say(Said::Taken);
    }

    fn lost(&self) {
        self.say(Said::Lost);
    }
}

/// Another process, by what no later one with its number has.
struct Process {
    pid: u32,
    started: Option<u64>,
    /// It was seen to be dead.
    dead: Option<Time>,
}

impl Process {
    fn new(pid: u32) -> Process {
        Process { pid, started: started(pid), dead: None }
    }

    /// Since when it has been dead.
    fn dead_since(&mut self, now: Time) -> Option<Time> {
        if self.dead.is_none() && started(self.pid).is_none_or(|at| Some(at) != self.started) {
            self.dead = Some(now);
        }
        self.dead
    }
}

/// When a process was started, by the system's clock; `None` if it has ended.
fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut rest = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = rest.next()?;
    if matches!(state, "Z" | "X") { None } else { rest.nth(18)?.parse().ok() }
}

/// Says something to the process that this one takes over from.
pub(super) type Say = Box<dyn Fn(&[u8]) + Send>;

/// This process's part in a take-over.
pub(super) struct Succession {
    /// It takes over, and does not know from whom yet: it may open nothing.
    pub(super) waits: bool,
    /// Another process asks to take over.
    asked: Option<(u32, SyncSender<Vec<u8>>)>,
    gives: Option<Giving>,
    takes: Option<Taking>,
    /// What the workers are to leave to the old process, until they know.
    pub(super) left: Option<BTreeMap<String, u32>>,
    say: Say,
}

/// This process hands over.
struct Giving {
    to: Process,
    /// That one's incarnation.
    successor: u64,
    limits: SharedLimits,
    /// It is gone, or silent.
    stays: bool,
    /// This one has claimed its record back.
    back: bool,
}

/// This process takes over.
struct Taking {
    from: Process,
    backends: BTreeMap<String, Vec<u32>>,
    /// For when the record is claimed, and until when that is tried.
    answer: Option<(SyncSender<Vec<u8>>, Time)>,
    lost: bool,
    /// The other one has ended.
    ended: bool,
    said: Time,
}

impl Succession {
    pub(super) fn new(waits: bool, say: Say) -> Succession {
        Succession { waits, asked: None, gives: None, takes: None, left: None, say }
    }

    /// Nothing new is to begin.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Another process has this one's place, or had it shortly ago: no more than what is open is kept.
    pub(super) fn hands_over(&self) -> bool {
        self.gives.is_some()
    }

    /// The node is another process's.
    pub(super) fn has_no_part(&self) -> bool {
        self.waits || self.gives.as_ref().is_some_and(|giving| !giving.back)
    }

    /// The process ids of the old process's servers.
    pub(super) fn backends(&self) -> impl Iterator<Item = (&String, &Vec<u32>)> {
        self.takes.iter().flat_map(|taking| &taking.backends)
    }
}

impl Round {
    pub(super) fn hear(&mut self, said: Said) {
        match said {
            Said::Give(pid, reply) => self.succession.asked = Some((pid, reply)),
            Said::Heard(said) => self.renewed_for_us(&said),
            Said::Stay => self.succession.gives.iter_mut().for_each(|giving| giving.stays = true),
            Said::Take(said, reply) => self.take(&said, reply),
            Said::Taken => self.succession.takes.iter_mut().for_each(|taking| taking.ended = true),
            Said::Lost => self.succession.takes.iter_mut().for_each(|taking| taking.lost = true),
        }
    }

    /// To be called in each round; returns whether this process has a part in the cluster now.
    pub(super) fn step_succession(&mut self) -> bool {
        if self.run.is_none()
            && let Some((pid, reply)) = self.succession.asked.take()
        {
            let _ = reply.try_send(self.give(pid));
        }
        let now = self.handle.now();
        let lost_after = Span::from_micros(2 * self.config.cluster.lease.micros());
        let is_over = |dead: Option<Time>| dead.is_some_and(|at| now.since(at) > lost_after);
        if let Some(giving) = self.succession.gives.as_mut().filter(|giving| giving.stays) {
            let dead = giving.to.dead_since(now);
            if dead.is_some() && !giving.back {
                giving.back = true;
                self.node.succeed(now, giving.successor, None);
            }
            if is_over(dead) {
                self.succession.gives = None;
                self.sent = None;
            }
        }
        if let Some(taking) = &mut self.succession.takes {
            taking.ended |= taking.lost && is_over(taking.from.dead_since(now));
            if taking.ended {
                self.other_has_ended();
            }
        }
        !self.succession.has_no_part()
    }

    /// To be called at the end of each round: answers the old process, and renews its limits.
    pub(super) fn speak(&mut self) {
        let now = self.handle.now();
        let until = self.node.grants().until;
        let is_ready = self.node.standing(now) == Standing::Member && self.node.knows_shares();
        let Some(taking) = &mut self.succession.takes else { return };
        let said = json!({ "until": until.micros() }).to_string().into_bytes();
        if let Some((reply, by)) = taking.answer.take() {
            if is_ready || now >= by {
                let _ = reply.try_send(said);
            } else {
                taking.answer = Some((reply, by));
            }
        } else if until > taking.said {
            taking.said = until;
            (self.succession.say)(&said);
        }
    }

    /// Another process takes over: this one makes no request any more, and keeps what it has.
    fn give(&mut self, pid: u32) -> Vec<u8> {
        let limits = SharedLimits { hands_over: true, left_to_other: None, ..self.limits.clone() };
        let Some(Reply::SharedOpen(open)) = self.ask(Request::SetShared(limits.clone())) else { return Vec::new() };
        let left: BTreeMap<String, u32> = open.into_iter().map(|(name, open, other)| (name, open + other)).collect();
        let successor = incarnation();
        let member = self.node.member();
        let said = json!({
            "incarnation": member.incarnation, "successor": successor, "pid": std::process::id(),
            "backends": member.backends, "left": left,
        });
        self.succession.gives = Some(Giving { to: Process::new(pid), successor, limits, stays: false, back: false });
        said.to_string().into_bytes()
    }

    /// The new process has renewed the lease.
    fn renewed_for_us(&mut self, said: &[u8]) {
        let until = serde_json::from_slice::<Json>(said).ok().and_then(|said| said["until"].as_u64());
        let Some(giving) = self.succession.gives.as_mut().filter(|giving| !giving.back) else { return };
        let Some(until) = until.map(Time::from_micros).filter(|until| *until > giving.limits.until) else { return };
        giving.limits.until = until;
        let limits = giving.limits.clone();
        self.ask(Request::SetShared(limits));
        (self.succession.say)(said);
    }

    /// The old process hands over.
    fn take(&mut self, said: &[u8], reply: SyncSender<Vec<u8>>) {
        self.succession.waits = false;
        let Ok(said) = serde_json::from_slice::<Json>(said) else {
            // It is in no cluster.
            let _ = reply.try_send(Vec::new());
            return;
        };
        let now = self.handle.now();
        let number = |name: &str| said[name].as_u64().unwrap_or(0);
        let map = |name: &str| said[name].clone();
        self.node.succeed(now, number("incarnation"), Some(number("successor")));
        self.succession.left = Some(serde_json::from_value(map("left")).unwrap_or_default());
        self.succession.takes = Some(Taking {
            from: Process::new(u32::try_from(number("pid")).unwrap_or(0)),
            backends: serde_json::from_value(map("backends")).unwrap_or_default(),
            answer: Some((reply, now + CLAIM)),
            lost: false,
            ended: false,
            said: Time::START,
        });
    }

    /// The old process has given all, or is dead for long enough.
    fn other_has_ended(&mut self) {
        // Each worker answers after it has counted the servers that came.
        if self.ask(Request::Report).is_some() && self.succession.takes.take().is_some() {
            self.succession.left = Some(BTreeMap::new());
            self.sent = None;
            if let Some(giving) = &self.succession.gives {
                let limits = SharedLimits { left_to_other: self.succession.left.take(), ..giving.limits.clone() };
                self.ask(Request::SetShared(limits));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_dead_when_it_has_ended_also_before_it_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let mut process = Process::new(child.id());
        assert_eq!(process.dead_since(Time::from_micros(1)), None);
        child.kill().unwrap();
        let mut now = 2;
        while process.dead_since(Time::from_micros(now)).is_none() {
            std::thread::sleep(Duration::from_millis(1));
            now += 1;
        }
        child.wait().unwrap();
        assert_eq!(process.dead_since(Time::from_micros(now + 1)), Some(Time::from_micros(now)));
    }
}
