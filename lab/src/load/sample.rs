//! Samples servers during a load: CPU time, memory, processes, and how busy the load generator is.
//!
//! Owns the sampling thread and its series. Processes are followed as families, ended ones included, so that no CPU
//! time is lost when a backend ends; memory is proportional (`Pss`), so that shared buffers count once. Must not know
//! the load.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::proc::{self, Family, Snapshot};

/// The interval of memory samples, in seconds: walking the page tables of a hundred backends takes a tenth of a
/// second.
const MEMORY_EVERY: f64 = 5.0;
/// The time of the first memory sample, by default.
const MEMORY_FIRST: Duration = Duration::from_secs(1);
/// From this share of its threads' time on the load generator counts as the bottleneck.
const BUSY: f64 = 0.9;

/// The processes to sample.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// The server's main process; its children belong to it.
    pub(crate) server: Option<u32>,
    /// The pooler's main process.
    pub(crate) pooler: Option<u32>,
    /// The name of the load generator, a child of ours: `pgbench`.
    pub(crate) client: &'static str,
    /// A server without local processes, whose connections are queried instead.
    pub(crate) ask: Option<ConnectParams>,
    /// The interval.
    pub(crate) every: Duration,
}

/// The samples. Times are seconds since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Samples {
    pub(crate) seconds: f64,
    pub(crate) server: Usage,
    pub(crate) pooler: Usage,
    pub(crate) client: Usage,
    /// The connections of a server without local processes: all, and active ones.
    pub(crate) connections: Vec<(f64, f64, f64)>,
}

/// The resources of one family of processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// CPU in per cent of one processor, since the sample before.
    pub(crate) cpu: Vec<(f64, f64)>,
    /// Total CPU time, in seconds.
    pub(crate) cpu_seconds: f64,
    /// Memory in bytes, shared memory counted once.
    pub(crate) memory: Vec<(f64, f64)>,
    /// Processes.
    pub(crate) processes: Vec<(f64, f64)>,
}

impl Usage {
    /// CPU in per cent of one processor, over all samples; `None` without any.
    pub(crate) fn mean_cpu(&self) -> Option<f64> {
        mean(&self.cpu)
    }

    /// CPU in per cent of one processor while the load was at work, from `from` to `to` seconds; over all samples if
    /// none are between.
    pub(crate) fn steady_cpu(&self, from: f64, to: f64) -> Option<f64> {
        let between: Vec<_> = self.cpu.iter().copied().filter(|(at, _)| (from..=to).contains(at)).collect();
        mean(&between).or_else(|| self.mean_cpu())
    }

    /// CPU milliseconds for each of this many transactions; `None` if nothing was sampled or done.
    pub(crate) fn cpu_ms_each(&self, transactions: u64) -> Option<f64> {
        #[allow(clippy::cast_precision_loss)]
        (transactions > 0 && self.cpu_seconds > 0.0).then(|| self.cpu_seconds * 1000.0 / transactions as f64)
    }

    /// The maximum of the memory, in bytes.
    pub(crate) fn peak_memory(&self) -> Option<f64> {
        peak(&self.memory)
    }

    /// The maximum of the processes.
    pub(crate) fn peak_processes(&self) -> Option<f64> {
        peak(&self.processes)
    }
}

impl Samples {
    /// The warning that the load generator was the bottleneck; `threads` is how many it has.
    pub(crate) fn client_limit(&self, threads: u32) -> Option<String> {
        let cpu = self.client.mean_cpu()?;
        let cores = crate::machine::cores().min(threads as usize);
        #[allow(clippy::cast_precision_loss)]
        let most = 100.0 * cores as f64;
        (cpu >= BUSY * most)
            .then(|| format!("the client was the limit: it used {cpu:.0}% of a processor, and can use {most:.0}%"))
    }
}

fn mean(series: &[(f64, f64)]) -> Option<f64> {
    #[allow(clippy::cast_precision_loss)]
    let count = series.len() as f64;
    (!series.is_empty()).then(|| series.iter().map(|(_, value)| value).sum::<f64>() / count)
}

fn peak(series: &[(f64, f64)]) -> Option<f64> {
    series.iter().map(|(_, value)| *value).reduce(f64::max)
}

/// A running sampler.
#[derive(Debug)]
pub(crate) struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Samples>,
}

impl Sampler {
    /// Starts the sampler. The first memory sample is after a second.
    pub(crate) fn start(watch: Watch) -> Sampler {
        Sampler::start_with(watch, MEMORY_FIRST)
    }

    /// Starts the sampler, with the first memory sample after `memory_after`, when the load should be at work.
    pub(crate) fn start_with(watch: Watch, memory_after: Duration) -> Sampler {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut sampling = Sampling::begin(watch, memory_after);
            while stopped.recv_timeout(sampling.watch.every) == Err(RecvTimeoutError::Timeout) {
                sampling.look(Edge::Between);
            }
            sampling.look(Edge::Last);
            sampling.samples
        });
        Sampler { stop, thread }
    }

    /// Stops the sampler; samples that failed are missing from the series.
    pub(crate) fn stop(self) -> Samples {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// Whether a sample is the last one; then the load has ended, and its memory is freed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Edge {
    Between,
    Last,
}

struct Sampling {
    watch: Watch,
    began: Instant,
    server: Follower,
    pooler: Follower,
    client: Follower,
    asked: Option<Connection>,
    memory_at: f64,
    samples: Samples,
}

impl Sampling {
    fn begin(watch: Watch, memory_after: Duration) -> Sampling {
        let snapshot = Snapshot::now();
        let first = |root: Option<u32>| Follower::new(root.map(|root| snapshot.family(root).seconds));
        let (server, pooler) = (first(watch.server), first(watch.pooler));
        let asked = watch.ask.as_ref().and_then(|params| Connection::connect(params).ok());
        // The load generator has not started, so it has used no time before.
        let client = Follower::new(Some(0.0));
        let (samples, memory_at) = (Samples::default(), memory_after.as_secs_f64());
        Sampling { watch, began: Instant::now(), server, pooler, client, asked, memory_at, samples }
    }

    fn look(&mut self, edge: Edge) {
        let at = self.began.elapsed().as_secs_f64();
        let snapshot = Snapshot::now();
        let with_memory = edge == Edge::Between && at >= self.memory_at;
        if with_memory {
            self.memory_at = at + MEMORY_EVERY;
        }
        let family = |root: Option<u32>| root.map(|root| snapshot.family(root)).filter(|f| !f.pids.is_empty());
        let clients = clients(&snapshot, self.watch.client);
        let samples = &mut self.samples;
        samples.seconds = at;
        self.server.look(at, family(self.watch.server), with_memory, edge, &mut samples.server);
        self.pooler.look(at, family(self.watch.pooler), with_memory, edge, &mut samples.pooler);
        self.client.look(at, clients, with_memory, edge, &mut samples.client);
        if let Some(counts) = self.asked.as_mut().and_then(ask) {
            samples.connections.push((at, counts.0, counts.1));
        }
    }
}

/// All children of ours with this name, as one family.
fn clients(snapshot: &Snapshot, name: &str) -> Option<Family> {
    let children = snapshot.children(std::process::id()).into_iter();
    let families = children.filter(|pid| proc::name(*pid).as_deref() == Some(name)).map(|pid| snapshot.family(pid));
    families
        .filter(|family| !family.pids.is_empty())
        .reduce(|a, b| Family { pids: a.pids.into_iter().chain(b.pids).collect(), seconds: a.seconds + b.seconds })
}

/// The connections to this database, and active ones; ours does not count.
fn ask(connection: &mut Connection) -> Option<(f64, f64)> {
    let sql = "select count(*), count(*) filter (where state = 'active') from pg_stat_activity \
               where datname = current_database() and pid <> pg_backend_pid()";
    let answer = connection.query(sql).ok()?;
    let row = answer.rows.first()?;
    let number = |at: usize| row.get(at)?.as_deref()?.parse().ok();
    Some((number(0)?, number(1)?))
}

/// Converts a family's growing CPU time to a series.
struct Follower {
    /// CPU seconds at the start, and at the sample before; `None` without a family.
    first: Option<f64>,
    last: f64,
    last_at: f64,
}

impl Follower {
    fn new(first: Option<f64>) -> Follower {
        Follower { first, last: first.unwrap_or(0.0), last_at: 0.0 }
    }

    fn look(&mut self, at: f64, family: Option<Family>, with_memory: bool, edge: Edge, usage: &mut Usage) {
        let (Some(first), Some(family)) = (self.first, family) else { return };
        usage.cpu_seconds = (family.seconds - first).max(usage.cpu_seconds);
        if edge == Edge::Last {
            return;
        }
        // The time of a process that ended is in ticks, which may be less than before.
        let (used, passed) = ((family.seconds - self.last).max(0.0), at - self.last_at);
        if passed > 0.0 {
            usage.cpu.push((at, used / passed * 100.0));
        }
        (self.last, self.last_at) = (family.seconds, at);
        #[allow(clippy::cast_precision_loss)]
        usage.processes.push((at, family.pids.len() as f64));
        if with_memory {
            let sizes: Vec<u64> = family.pids.iter().filter_map(|pid| proc::pss(*pid)).collect();
            #[allow(clippy::cast_precision_loss)]
            if !sizes.is_empty() {
                usage.memory.push((at, sizes.iter().sum::<u64>() as f64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_busy_child_is_seen_at_work_and_an_idle_one_at_rest() {
        let busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn();
        let (mut busy, mut idle) = (busy.unwrap(), Command::new("sleep").arg("60").spawn().unwrap());
        let every = Duration::from_millis(100);
        let (server, pooler) = (Some(busy.id()), Some(idle.id()));
        let sampler = Sampler::start(Watch { server, pooler, client: "sleep", ask: None, every });
        thread::sleep(Duration::from_millis(1400));
        // On a busy machine it gets its turn later.
        while proc::cpu(busy.id()).is_some_and(|ticks| ticks.total() < 50) {
            thread::sleep(every);
        }
        let samples = sampler.stop();
        for child in [&mut busy, &mut idle] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(samples.seconds > 1.0 && samples.server.cpu.len() > 3, "{samples:?}");
        assert!(
            samples.server.cpu_seconds > 0.1 && samples.server.mean_cpu() > samples.pooler.mean_cpu(),
            "{samples:?}"
        );
        assert!(samples.pooler.cpu_seconds < 0.1, "{samples:?}");
        assert_eq!(samples.pooler.peak_processes(), Some(1.0));
        assert!(samples.pooler.peak_memory().is_none_or(|bytes| bytes > 10_000.0), "{samples:?}");
        assert!(samples.client.peak_processes().is_some(), "{samples:?}");
    }

    #[test]
    fn what_is_not_there_leaves_empty_series() {
        let every = Duration::from_millis(5);
        let client = "no such program";
        let watch = Watch { server: None, pooler: None, client, ask: None, every };
        let sampler = Sampler::start(watch);
        thread::sleep(Duration::from_millis(40));
        let samples = sampler.stop();
        assert_eq!((&samples.server, &samples.client), (&Usage::default(), &Usage::default()));
        assert!(samples.client_limit(2).is_none() && samples.server.steady_cpu(0.0, 9.0).is_none());
    }

    #[test]
    fn a_client_that_uses_all_of_its_threads_is_the_limit() {
        let client = Usage { cpu: vec![(1.0, 97.0), (2.0, 99.0)], ..Usage::default() };
        let samples = Samples { client, ..Samples::default() };
        assert!(samples.client_limit(1).unwrap().contains("98%"));
        assert_eq!(Usage { cpu_seconds: 2.0, ..Usage::default() }.cpu_ms_each(1000), Some(2.0));
        let usage = Usage { cpu: vec![(0.5, 10.0), (1.5, 100.0), (2.5, 80.0), (3.5, 5.0)], ..Usage::default() };
        assert_eq!((usage.steady_cpu(1.0, 3.0), usage.steady_cpu(8.0, 9.0)), (Some(90.0), Some(48.75)));
    }
}
