//! The thread of a cluster's node: it runs rounds until it is dropped, and leaves the cluster at its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use weir_config::Config;
use weir_probes::Permits;
use weir_runtime::{Running, StartError, UpgradeParticipant};
use weir_store::ConfigStore;

use crate::round::Round;
use crate::upgrade::Link;

/// The running thread; dropping it ends the thread.
pub struct Nodes {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Nodes {
    /// Starts the thread, if there is a cluster. `store` has the configuration that nodes share; `permits` are granted
    /// by the thread.
    ///
    /// # Errors
    /// The node has no name, or its files or a thread are not available.
    pub fn start(
        config: &Arc<Config>,
        store: Arc<ConfigStore>,
        permits: Permits,
        running: &Running,
    ) -> Result<Option<Nodes>, StartError> {
        if config.cluster.etcd.is_empty() {
            return Ok(None);
        }
        if config.cluster.node.is_empty() {
            return Err(StartError::new(
                "\"node\" is missing in [cluster]: each node needs a name of its own".to_owned(),
            ));
        }
        // Another process has this one's connections, and its place in the cluster; the servers have ended all
        // connections.
        let (taken_over, all_ended) = (running.is_gone(), running.shared_servers_ended());
        let stop = Arc::new(AtomicBool::new(false));
        let round = Round::new(config, store, permits, running, stop.clone());
        let mut round = round.map_err(|error| StartError::new(error.to_string()))?;
        let (sender, said) = mpsc::channel();
        running.set_participant(Some(Arc::new(Link::new(sender)) as Arc<dyn UpgradeParticipant>));
        let stopped = stop.clone();
        let run = move || {
            while !stopped.load(Ordering::Acquire) {
                round.run();
                round.listen(&said);
            }
            if !taken_over.load(Ordering::Acquire) && round.is_alone() {
                round.leave(all_ended.load(Ordering::Acquire));
            }
        };
        let thread = thread::Builder::new().name("cluster".into()).spawn(run);
        let thread = thread.map_err(|error| StartError::new(format!("can't start a thread: {error}")))?;
        Ok(Some(Nodes { stop, thread: Some(thread) }))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
