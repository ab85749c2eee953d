//! `weir serve`: reads the configuration, and starts the runtime.
//!
//! Everything is checked and bound before anything runs; an error leaves nothing half-started.

use std::cell::Cell;
use std::net::TcpListener;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use weir_config::{Config, ConfigFinding, HostLimits, Severity};
use weir_monitor::FaultWatch;
use weir_node::Nodes;
use weir_probes::{Permits, Probes};
use weir_runtime::{
    Bound, ControlPlane, Inherited, LogTarget, OldProcess, Running, ServeOptions, Signals, StartError, VERSION,
};
use weir_store::{ConfigStore, StoreError, Watcher, load};
use weir_web::{Door, Timeouts, Versions, WebServer, WebTls};

use crate::check;
use crate::failure::Failure;
use crate::outgoing;
use crate::process::{self, Other, PidFile, RunMode};
use crate::start_failure;
use crate::web_tls::web_tls;

/// The warning for a process that serves as root.
const ROOT: &str = "it serves as root, which it does not need to: name a user of the operating system as \"user\" in \
                    [process], which it switches to, or start it as that user";

/// What is printed on the terminal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Console {
    /// The log, and a line when clients may connect.
    Verbose,
    /// Only errors that keep the process from starting.
    Quiet,
}

/// How a process comes to serve.
pub(crate) struct Start {
    pub(crate) run_mode: RunMode,
    pub(crate) console: Console,
    /// The process that this one takes over from.
    pub(crate) old_process: Option<OldProcess>,
    /// Called when clients may come.
    pub(crate) serving: Box<dyn FnOnce()>,
}

impl Start {
    /// On the terminal, and from nothing.
    pub(crate) fn new(run_mode: RunMode, console: Console) -> Start {
        Start { run_mode, console, old_process: None, serving: Box::new(|| {}) }
    }
}

/// Serves until a signal or a command ends it.
pub(crate) fn run(file: &Path) -> Result<(), Failure> {
    let served = open(file, |_| {})
        .and_then(|(store, config)| serve(store, config, Start::new(RunMode::Foreground, Console::Verbose)));
    served.map_err(|failure| start_failure::log(failure, file, None, true))
}

/// Reads a file for serving; errors are those of `weir check`.
pub(crate) fn open(
    file: &Path,
    adjust: impl Fn(&mut Config) + Send + Sync + 'static,
) -> Result<(ConfigStore, Config), Failure> {
    let connect = |config: &Config| weir_node::shared(config).map_err(StoreError::source);
    ConfigStore::open(file, adjust, connect).map_err(|mistakes| check::mistaken(load::load_as_far(file).0, &mistakes))
}

/// Serves `config`, whose file is `store`'s.
pub(crate) fn serve(store: ConfigStore, mut config: Config, start: Start) -> Result<(), Failure> {
    let Start { run_mode, console, old_process, serving } = start;
    let warnings = review(&config, &load::facts(), console)?;
    config.warnings.extend(warnings);
    let other = if old_process.is_some() { Other::TakenOver } else { Other::None };
    // Of a process that takes over: written when it has.
    let pid_file = Rc::new(Cell::new(process::prepare(&config, run_mode, other)?));
    let (taken, path) = (pid_file.clone(), config.process.pid_file.clone().filter(|_| other == Other::TakenOver));
    let serving = move || {
        if let Some(path) = path {
            match PidFile::replace(&path) {
                Ok(file) => taken.set(Some(file)),
                // The process serves all the same.
                Err(Failure::Message(text)) => eprintln!("weir: warning: {text}"),
                Err(_) => {}
            }
        }
        serving();
    };
    if process::is_root() {
        config.warnings.push(ROOT.to_owned());
    }
    let config = Arc::new(config);
    let store = Arc::new(store);
    let versions = Versions::open(config.web.history.as_deref());
    if !config.web.addresses.is_empty() {
        store.keep_history(Arc::new(versions.clone()));
    }
    let (changes, history) = (store.clone(), store.clone());
    let permits = Permits::default();
    let tls = web_tls(&config).map_err(Failure::of)?;
    let options = ServeOptions {
        config: Arc::clone(&config),
        reload: reload(store.clone(), tls.clone()),
        change: Some(Arc::new(move |(change, author), fit| changes.change(change, author, fit))),
        record: Some(Arc::new(move |adopted| history.record(adopted))),
        ask_patroni: outgoing::ask_patroni(),
        log: if console == Console::Verbose { LogTarget::Stderr } else { LogTarget::Quiet },
        signals: Signals::Handle,
        inherited: Inherited::from_environment(),
        old_process,
        serving: Box::new(serving),
        ready: Box::new(move |running| {
            let watcher = Watcher::start(&config, store.clone(), running.handle())?;
            let (in_force, of_probes) = (store.clone(), permits.clone());
            let probes = Arc::new(Probes::new(of_probes, move || in_force.in_force()));
            let web = start_web(&config, running, (store.clone(), probes, versions), tls)?;
            let door = web.as_ref().map(|web| Arc::new(ApiDoor(web.door())) as Arc<dyn ControlPlane>);
            running.set_control_plane(door);
            if console == Console::Verbose {
                announce(running.bound(), &config, web.as_ref());
            }
            let faults = watch_faults(&config, running, store.clone())?;
            let nodes = Nodes::start(&config, store, permits, running)?;
            Ok(Box::new((nodes, web, faults, watcher)))
        }),
    };
    match weir_runtime::serve(options).map_err(Failure::of)? {
        0 => Ok(()),
        // The log has the reason.
        _ => Err(Failure::Reported),
    }
}

/// Prints warnings, and whether fewer clients fit than configured; fails with all errors. Returns the warnings for the
/// log, if nothing is printed.
fn review(config: &Config, facts: &HostLimits, console: Console) -> Result<Vec<String>, Failure> {
    let mut for_log = Vec::new();
    for finding in weir_config::review(config, facts) {
        let text = finding.to_string();
        match finding.severity {
            Severity::Warning if console == Console::Quiet => for_log.push(text),
            Severity::Warning => eprintln!("weir: warning: {text}"),
            Severity::Note if console == Console::Verbose && is_about_fewer_clients(&finding) => {
                eprintln!("weir: note: {text}");
            }
            Severity::Error | Severity::Note => {}
        }
    }
    let errors: Vec<_> = check::errors(config, facts).iter().map(ConfigFinding::to_string).collect();
    if errors.is_empty() { Ok(for_log) } else { Err(Failure::Messages(errors)) }
}

/// The one note that is printed at each start: the default of `max_clients` is more than descriptors allow.
fn is_about_fewer_clients(finding: &ConfigFinding) -> bool {
    finding.text.contains("clients will be served")
}

/// Reads the configuration and the control plane's certificate again; applies both or neither.
fn reload(store: Arc<ConfigStore>, tls: Option<Arc<WebTls>>) -> weir_runtime::Reload {
    Arc::new(move |reread| {
        let fresh = tls.as_ref().map(|tls| tls.read_again()).transpose().map_err(|error| error.to_string())?;
        let config = store.reload(reread).map_err(|why| why.to_string())?;
        fresh.into_iter().for_each(|put_in_force| put_in_force());
        Ok(config)
    })
}

/// Starts the control plane, if it is configured.
fn start_web(
    config: &Config,
    running: &mut Running,
    (store, probes, versions): (Arc<ConfigStore>, Arc<Probes>, Versions),
    tls: Option<Arc<WebTls>>,
) -> Result<Option<WebServer>, StartError> {
    if config.web.addresses.is_empty() {
        return Ok(None);
    }
    let addresses = config.web.addresses.iter().map(|address| (*address, config.web.port).into()).collect();
    let (history, lab) = (config.web.history.clone(), config.web.lab.clone());
    let control = running.handle().control();
    let timeouts = Timeouts::default();
    let inherited = running.take_web();
    let options = weir_web::WebOptions {
        addresses,
        inherited,
        tls,
        history,
        versions,
        send: weir_fetch::sender(),
        lab,
        control,
        config: store,
        probes,
        timeouts,
        accepts: running.old_process().is_none(),
        version: VERSION,
    };
    WebServer::start(options).map(Some).map_err(|error| match error.taken_address() {
        Some(address) => StartError::in_use(&address, "[web] port; web_port in an ini"),
        None => StartError::new(error.to_string()),
    })
}

/// What the runtime knows of the control plane.
struct ApiDoor(Door);

impl ControlPlane for ApiDoor {
    fn listeners(&self) -> Vec<TcpListener> {
        self.0.listeners()
    }

    fn accept(&self, on: bool) {
        self.0.accept(on);
    }

    fn finish(&self) {
        self.0.finish();
    }
}

/// Without a control plane a thread looks for what is wrong with Weir itself.
fn watch_faults(config: &Config, running: &Running, store: Arc<ConfigStore>) -> Result<Option<FaultWatch>, StartError> {
    if !config.web.addresses.is_empty() {
        return Ok(None);
    }
    let in_force = store.clone();
    let watch = FaultWatch::start(running.handle().control(), store, move || in_force.in_force());
    watch.map(Some).map_err(|error| StartError::new(format!("can't start a thread: {error}")))
}

/// Prints one line when clients may connect.
fn announce(bound: &Bound, config: &Config, web: Option<&WebServer>) {
    let tcp = bound.tcp.iter().map(ToString::to_string);
    let unix = bound.unix.iter().map(|path| path.display().to_string());
    let places = tcp.chain(unix).collect::<Vec<_>>().join(", ");
    let pools = config.pools.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    let scheme = if config.web.tls_cert_file.is_some() { "https" } else { "http" };
    let api = web.into_iter().flat_map(WebServer::bound).map(|address| format!("; API on {scheme}://{address}"));
    let api: String = api.collect();
    eprintln!("weir {}: ready on {places}; pools: {pools}{api}", env!("CARGO_PKG_VERSION"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let text = "[auth]\ntype = \"trust\"\n[auth.users]\nann = \"\"\n[pools.app]\nhost = \"::1\"\n";
        weir_config::load(Path::new("weir.toml"), &|_| Ok(text.to_owned()), &|_| None).unwrap()
    }

    #[test]
    fn that_fewer_clients_fit_is_printed_at_start() {
        let count = |descriptors| {
            let findings = weir_config::review(&config(), &HostLimits { descriptors, cores: 1 });
            findings.iter().filter(|finding| is_about_fewer_clients(finding)).count()
        };
        assert_eq!((count(1_024), count(100_000)), (1, 0));
    }

    #[test]
    fn a_configuration_with_errors_is_not_served() {
        assert!(review(&config(), &HostLimits { descriptors: 100_000, cores: 1 }, Console::Quiet).is_ok());
        assert!(review(&config(), &HostLimits { descriptors: 40, cores: 1 }, Console::Quiet).is_err());
    }
}
