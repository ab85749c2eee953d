//! One process of a node takes over from another (`weir upgrade`): both together have the node's shares, once.
//!
//! The old process makes no request to etcd any more, keeps of each limit what it has open, and says so. The new one
//! claims the old one's record, has the limits from then on, and leaves the old one that much. Each server that moves
//! takes its part of the limit along. Always true: what a process keeps is the other's only when that one has given it,
//! or is dead for longer than a lease.

use std::collections::BTreeMap;
use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use weir_admin::SharedLimits;
use weir_base::{Span, Time};
use weir_cluster::BackendId;
use weir_runtime::{OtherProcess, UpgradeParticipant};

/// How long the thread may take to answer: an end of a lost node's connections may be under way.
const ANSWER: Duration = Duration::from_secs(12);
/// How long this process waits, before it hands over, for a server that serves clients which wait.
pub(crate) const SERVES_FIRST: Span = Span::from_secs(8);
/// How long the new process tries to claim the old one's record before clients move all the same.
pub(crate) const CLAIM: Span = Span::from_secs(2);

/// What the runtime has to say to the thread.
pub(crate) enum UpgradeEvent {
    Export(u32, SyncSender<Vec<u8>>),
    Received(Vec<u8>),
    Aborted,
    Import(Vec<u8>, SyncSender<Vec<u8>>),
    Imported,
    Lost,
}

/// The runtime's side.
pub(crate) struct Link(Mutex<Sender<UpgradeEvent>>);

impl Link {
    pub(crate) fn new(sender: Sender<UpgradeEvent>) -> Link {
        Link(Mutex::new(sender))
    }

    fn say(&self, said: UpgradeEvent) {
        // The thread is gone with the process only.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).send(said);
    }

    fn ask(&self, said: impl FnOnce(SyncSender<Vec<u8>>) -> UpgradeEvent) -> Vec<u8> {
        let (sender, receiver) = sync_channel(1);
        self.say(said(sender));
        receiver.recv_timeout(ANSWER).unwrap_or_default()
    }
}

impl UpgradeParticipant for Link {
    fn export(&self, pid: u32) -> Vec<u8> {
        self.ask(|reply| UpgradeEvent::Export(pid, reply))
    }

    fn received(&self, said: &[u8]) {
        self.say(UpgradeEvent::Received(said.to_vec()));
    }

    fn aborted(&self) {
        self.say(UpgradeEvent::Aborted);
    }

    fn import(&self, said: &[u8]) -> Vec<u8> {
        self.ask(|reply| UpgradeEvent::Import(said.to_vec(), reply))
    }

    fn imported(&self) {
        self.say(UpgradeEvent::Imported);
    }

    fn lost(&self) {
        self.say(UpgradeEvent::Lost);
    }
}

/// Another process, and since when it is dead.
pub(crate) struct Process {
    process: OtherProcess,
    /// The time when the process was first seen to be dead.
    dead: Option<Time>,
}

impl Process {
    pub(crate) fn new(pid: u32) -> Process {
        Process { process: OtherProcess::new(pid), dead: None }
    }

    /// Kills the process, which hangs and can't give back what it has of the node's share.
    pub(crate) fn kill(&self) -> std::io::Result<()> {
        self.process.kill()
    }

    /// Since when the process has been dead.
    pub(crate) fn dead_since(&mut self, now: Time) -> Option<Time> {
        if self.dead.is_none() && self.process.is_gone() {
            self.dead = Some(now);
        }
        self.dead
    }
}

/// Says something to the process that this one takes over from.
pub(crate) type Say = Box<dyn Fn(&[u8]) + Send>;

/// This process's part in a take-over.
pub(crate) struct ClusterUpgrade {
    /// The process that this one takes over from, of which it knows nothing yet: this process may open nothing.
    pub(crate) waits: Option<Process>,
    /// The connection to the old process is lost.
    is_lost: bool,
    /// Another process asks to take over, since then.
    pub(crate) asked: Option<(u32, SyncSender<Vec<u8>>, Time)>,
    pub(crate) export: Option<ExportState>,
    pub(crate) import: Option<ImportState>,
    /// What the workers are to leave to the old process, until they know.
    pub(crate) left: Option<BTreeMap<String, u32>>,
    pub(crate) say: Say,
}

/// This process exports.
pub(crate) struct ExportState {
    pub(crate) to: Process,
    /// The incarnation of the new process.
    pub(crate) new_incarnation: u64,
    pub(crate) limits: SharedLimits,
    /// The new process is gone, or does not answer.
    pub(crate) is_aborted: bool,
    /// This process has claimed its record back.
    pub(crate) back: bool,
}

/// This process imports.
pub(crate) struct ImportState {
    pub(crate) from: Process,
    pub(crate) connections: BTreeMap<String, Vec<BackendId>>,
    /// For when the record is claimed, and until when that is tried.
    pub(crate) answer: Option<(SyncSender<Vec<u8>>, Time)>,
    pub(crate) lost: bool,
    /// The old process has ended.
    pub(crate) ended: bool,
    pub(crate) said: Time,
}

impl ClusterUpgrade {
    pub(crate) fn new(old_process: Option<u32>, say: Say) -> ClusterUpgrade {
        let waits = old_process.map(Process::new);
        ClusterUpgrade { waits, is_lost: false, asked: None, export: None, import: None, left: None, say }
    }

    /// The connection to the old process is lost.
    pub(crate) fn lost(&mut self) {
        self.is_lost = true;
        self.import.iter_mut().for_each(|import| import.lost = true);
    }

    /// The old process has died before it handed anything over: this one is as a process that is started after its end.
    /// If the old one lives, it has the node's part, and may have it without etcd.
    pub(crate) fn is_alone(&mut self, now: Time) -> bool {
        self.is_lost && self.waits.as_mut().is_some_and(|old| old.dead_since(now).is_some())
    }

    /// Nothing new is to begin.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// Another process has this one's place, or had it shortly ago: no more than what is open is kept.
    pub(crate) fn is_exporting(&self) -> bool {
        self.export.is_some()
    }

    /// Two processes may have connections of the node.
    pub(crate) fn is_under_way(&self) -> bool {
        self.export.is_some() || self.import.is_some()
    }

    /// The node is another process's.
    pub(crate) fn has_no_part(&self) -> bool {
        self.waits.is_some() || self.export.as_ref().is_some_and(|export| !export.back)
    }

    /// The old process's server connections.
    pub(crate) fn backends(&self) -> impl Iterator<Item = (&String, &Vec<BackendId>)> {
        self.import.iter().flat_map(|import| &import.connections)
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
