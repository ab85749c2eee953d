//! Serving a configuration: starts the runtime with an engine in each worker.
//!
//! Only this file of the crate knows that a handler is an engine.

use std::any::Any;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_base::Time;
use weir_config::Config;
use weir_engine::port::{Input, Io};
use weir_engine::{Engine, Setup, StatementMemory};
use weir_uring::Ring;

use crate::descriptors::{descriptors, raise_descriptors};
use crate::freed;
use crate::handler::{Handler, WorkerSetup};
use crate::helpers::{AskPatroni, ChangeConfig, Record, Reload, cores};
use crate::listen::Inherited;
use crate::log::LogTarget;
use crate::signals::Signals;
use crate::start::{Running, RuntimeOptions, start};
use crate::start_error::StartError;
use crate::supervisor;
use crate::tls::TlsFiles;
use crate::upgrade::{OldProcess, upgrade_socket};

/// The reply to SHOW VERSION. It begins with the version of the PgBouncer that Weir replaces, since monitoring parses
/// it.
pub const VERSION: &str = concat!("PgBouncer 1.25.2 (Weir ", env!("CARGO_PKG_VERSION"), ")");

/// Started when clients may connect: a value that is kept as long as serving lasts, and ends with it.
pub type Ready = Box<dyn FnOnce(&mut Running) -> Result<Box<dyn Any>, StartError>>;

/// The input for serving a configuration.
pub struct ServeOptions {
    /// The first configuration.
    pub config: Arc<Config>,
    /// Reads the configuration again; called on a helper thread when the engine requests it.
    pub reload: Reload,
    /// Changes the configuration; called on a helper thread when the control plane requests it.
    pub change: Option<ChangeConfig>,
    /// Adds a configuration to the history; called on a helper thread when workers are about to adopt it.
    pub record: Option<Record>,
    /// Asks Patroni; called on helper threads when the engine requests it.
    pub ask_patroni: AskPatroni,
    /// The target of the log.
    pub log: LogTarget,
    /// Whether to handle the process's signals.
    pub signals: Signals,
    /// Listening sockets opened by another process.
    pub inherited: Inherited,
    /// The process that this one takes over from.
    pub old_process: Option<OldProcess>,
    /// Called once everything is bound and runs.
    pub ready: Ready,
    /// Called when clients may connect.
    pub serving: Box<dyn FnOnce()>,
}

/// Serves a configuration until it is stopped; blocks, and returns the exit status. After an error nothing is left
/// running.
pub fn serve(options: ServeOptions) -> Result<i32, StartError> {
    freed::start().map_err(|error| StartError::new(format!("no thread can be started: {error}")))?;
    let ready = options.ready;
    let reload = options.reload;
    // A supervisor is notified when a reload begins and when it ends, also with an error.
    let reload: Reload = Arc::new(move |reread| {
        supervisor::reloading();
        let loaded = reload(reread);
        supervisor::ready();
        loaded
    });
    let process = Process {
        log: options.log,
        signals: options.signals,
        inherited: options.inherited,
        old_process: options.old_process,
        upgrade_socket: Some(upgrade_socket(&options.config.listen, options.config.process.user.as_deref())),
    };
    let mut running =
        start_with(options.config, reload, (options.change, options.record, Some(options.ask_patroni)), process)?;
    let beside = ready(&mut running)?;
    if running.import_from_old_process()? {
        // Before it is ready: a supervisor that hears of that asks no process that ends.
        supervisor::main_process(std::process::id());
    }
    (options.serving)();
    supervisor::ready();
    let gone = running.is_gone();
    let status = running.wait();
    drop(beside);
    if !gone.load(Ordering::Acquire) {
        supervisor::stopping();
    }
    Ok(status)
}

/// Starts serving a configuration, for programs that embed the pooler. Does not block.
pub fn start_engines(
    config: Arc<Config>,
    reload: Reload,
    log: LogTarget,
    signals: Signals,
) -> Result<Running, StartError> {
    let process = Process { log, signals, inherited: Inherited::default(), old_process: None, upgrade_socket: None };
    start_with(config, reload, (None, None, None), process)
}

/// The properties of a process that are not in its configuration.
struct Process {
    log: LogTarget,
    signals: Signals,
    inherited: Inherited,
    old_process: Option<OldProcess>,
    upgrade_socket: Option<PathBuf>,
}

fn start_with(
    config: Arc<Config>,
    reload: Reload,
    (change, record, ask_patroni): (Option<ChangeConfig>, Option<Record>, Option<AskPatroni>),
    process: Process,
) -> Result<Running, StartError> {
    let Process { log, signals, inherited, old_process, upgrade_socket } = process;
    raise_descriptors();
    let config = fitted(config);
    freed::hold(&config);
    let tls = TlsFiles::load(&config).map_err(StartError::new)?;
    let files = tls.clone();
    let fit = move |config| {
        let config = fitted(config);
        // A certificate that can't be used fails the whole reload.
        files.prepare(&config)?;
        Ok(config)
    };
    let fits = fit.clone();
    let change = change.map(|change| -> ChangeConfig { Arc::new(move |edit, _| change(edit, &fits)) });
    let reload = move |reread| fit(reload(reread)?);
    let plan = RuntimeOptions {
        listen: config.listen.clone(),
        workers: config.workers,
        io: config.io,
        ring: Ring::new,
        reload: Arc::new(reload),
        change,
        record,
        ask_patroni,
        log,
        logging: config.log.clone(),
        dns: config.dns.clone(),
        inherited,
        old_process,
        upgrade_socket,
        greeting: greeting(&config),
        warnings: config.warnings.clone(),
        signals,
        tls,
    };
    let statement_memory = StatementMemory::default();
    start(plan, |setup| engine(setup, config.clone(), statement_memory.clone()))
}

/// How many pools adopt a configuration in one turn of a worker: less than a millisecond's work.
const POOLS_PER_TURN: usize = 256;

/// The first line of the log.
fn greeting(config: &Config) -> String {
    let (clients, workers, (limit, _)) = (config.max_clients, config.workers, descriptors());
    format!("process up: {VERSION}; open files: {limit}, clients: {clients}, workers: {workers}")
}

fn engine(setup: WorkerSetup, config: Arc<Config>, statement_memory: StatementMemory) -> Engine {
    Engine::new(Setup {
        worker: setup.worker,
        workers: setup.workers,
        config,
        seed: setup.seed,
        process_key: setup.process_key,
        old_process: setup.old_process,
        statement_memory,
        wall_at_start: setup.wall_at_start,
        version: VERSION,
        uid: nix::unistd::getuid().as_raw(),
        host_name: host_name(),
        pools_per_turn: POOLS_PER_TURN,
    })
}

/// The machine's name; PgBouncer's word where the system has none to tell.
fn host_name() -> Arc<str> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "somehost".into(),
        name => name.into(),
    }
}

/// The configuration with `max_clients` lowered to what the descriptors allow beside all servers. Thousands of pools
/// may have more servers in total than there are descriptors; half of them is always reserved for clients.
fn fitted(config: Arc<Config>) -> Arc<Config> {
    let (limit, _) = descriptors();
    let (reserved, servers) = (weir_config::reserved_descriptors(limit), weir_config::max_servers(&config));
    let all = limit.saturating_sub(reserved);
    let left = all.saturating_sub(servers).max(all / 2).max(1);
    let fits = u64::from(config.max_clients) <= left;
    if fits && config.workers != Config::AUTO_WORKERS {
        return config;
    }
    let mut config = Arc::unwrap_or_clone(config);
    if !fits {
        config.lacks_files = Some((limit, reserved + servers + u64::from(config.max_clients)));
        config.max_clients = u32::try_from(left).unwrap_or(u32::MAX);
    }
    config.set_workers(cores());
    Arc::new(config)
}

impl Handler for Engine {
    #[inline]
    fn handle<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I) {
        Engine::handle(self, now, input, io);
    }

    #[inline]
    fn next_deadline(&self) -> Time {
        Engine::next_deadline(self)
    }
}
