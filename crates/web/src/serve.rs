//! The wiring of the control plane: what is served, and the tasks beside it, on one thread.
//!
//! All listeners are bound before the thread runs, so that a taken port is an error at the start. Dropping a
//! [`WebServer`] ends it, whatever slow work is under way.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::task::JoinSet;
use weir_admin::{ConfigAccess, ConsoleDeed, Control, ServerProbes};
use weir_http::{Access, ApiError, Door, HttpServer, Listeners, Served, SingleSignOn, Timeouts, WebError, WebTls};
use weir_monitor::{
    ActivityProbe, AlertWatch, Faults, Findings, Retry, SendHttp, TelemetryExport, Watch, WatchAround, Workers,
};

use crate::api::{self, Behind};
use crate::audit::Audit;
use crate::lab::Lab;
use crate::versions::Versions;

/// The configuration of the control plane.
pub struct WebOptions {
    /// Where to listen; port 0 is any. Others than those of the loopback want encryption, and somebody who may log in.
    pub addresses: Vec<SocketAddr>,
    /// Listening sockets of a process that this one takes over from: used for their addresses.
    pub inherited: Vec<TcpListener>,
    /// With it all connections are encrypted.
    pub tls: Option<Arc<WebTls>>,
    /// The folder for the history of pools and the audit log; without one they end with the process.
    pub history: Option<PathBuf>,
    /// The versions of the configuration.
    pub versions: Versions,
    /// The folder of the lab's reports, for the panel.
    pub lab: Option<PathBuf>,
    /// The workers.
    pub control: Arc<dyn Control>,
    /// The accounts, and what a change of the configuration would do.
    pub config: Arc<dyn ConfigAccess>,
    /// Looks at database servers, and tests of logins.
    pub probes: Arc<dyn ServerProbes>,
    /// Sends requests to other machines.
    pub send: SendHttp,
    /// The time limits of clients.
    pub timeouts: Timeouts,
    /// Whether connections are accepted at once; else when [`Door::accept`] says so.
    pub accepts: bool,
    /// The version that SHOW VERSION shows.
    pub version: &'static str,
}

/// A running control plane. Dropping it ends it.
#[derive(Debug)]
pub struct WebServer(HttpServer);

impl WebServer {
    /// Binds all addresses, then serves on a thread of its own.
    ///
    /// # Errors
    ///
    /// An address that is not available or would be open to every host, or a thread that can't be started.
    pub fn start(options: WebOptions) -> Result<WebServer, WebError> {
        let (addresses, listed) = (options.addresses.iter().map(SocketAddr::ip), !options.config.accounts().is_empty());
        weir_config::web_listen_error(addresses, options.tls.is_some(), listed)
            .map_or(Ok(()), |why| Err(WebError::new(why)))?;
        let exposed = options.addresses.iter().any(|address| !address.ip().is_loopback());
        let (tls, timeouts) = (options.tls, options.timeouts);
        let listeners = Listeners::bind(&options.addresses, options.inherited)?;
        let (workers, watch) =
            (Workers::new(options.control), watch(options.history.as_deref(), env!("CARGO_PKG_VERSION"))?);
        let access = Access::new(options.config.clone(), exposed, tls.is_some());
        let alerts = AlertWatch::new(&workers, &options.send, options.history.as_deref());
        let telemetry = TelemetryExport::new(&workers, &alerts, &options.send, options.version);
        let audit = Audit::new(workers.clone(), options.history.as_deref());
        let faults = Faults::new(options.config.clone(), kept_lists(&options.versions, (&audit, &alerts), &watch));
        let audit_of_console = audit.clone();
        let sso = SingleSignOn::new(options.send.clone());
        let activity_probe = ActivityProbe::new(options.probes.clone());
        let router = api::router(Behind {
            workers: workers.clone(),
            access,
            sso,
            config: options.config,
            probes: options.probes,
            activity_probe: activity_probe.clone(),
            watch: watch.clone(),
            versions: options.versions,
            alerts: alerts.clone(),
            exports: telemetry.counter(),
            lab: Lab::new(options.lab),
            audit,
            timeouts,
            version: options.version,
        });
        let findings = Findings::new(activity_probe);
        let watching = async move {
            let mut tasks = JoinSet::new();
            let console = Box::new(move |deeds: &[ConsoleDeed]| audit_of_console.take_console(deeds));
            let around = WatchAround {
                workers,
                alerts: alerts.clone(),
                telemetry: telemetry.clone(),
                faults,
                findings,
                console,
            };
            tasks.spawn(watch.run(around, |error| ApiError::from(error).json()));
            tasks.spawn(telemetry.clone().export_metrics());
            tasks.spawn(telemetry.export_spans());
            tasks.spawn(alerts.run());
            while tasks.join_next().await.is_some() {}
        };
        listeners.serve(Served { router, tls, head: timeouts.head, accepts: options.accepts }, watching).map(WebServer)
    }

    /// Whether it accepts connections, for a process that takes over, or is taken over from.
    pub fn door(&self) -> Door {
        self.0.door()
    }

    /// The bound addresses.
    pub fn bound(&self) -> &[SocketAddr] {
        self.0.bound()
    }
}

/// The lists that are kept in the folder of the history.
fn kept_lists(versions: &Versions, (audit, alerts): (&Audit, &AlertWatch), watch: &Watch) -> Vec<Retry> {
    let (versions, audit, alerts) = (versions.clone(), audit.clone(), alerts.clone());
    let incidents = watch.incidents().clone();
    vec![
        Box::new(move || versions.retry()),
        Box::new(move || audit.retry()),
        Box::new(move || alerts.retry()),
        Box::new(move || incidents.retry()),
    ]
}

fn watch(history: Option<&Path>, version: &str) -> Result<Watch, WebError> {
    Watch::new(history, version).map_err(|error| {
        let folder = history.unwrap_or(Path::new("")).display();
        WebError::new(format!("can't keep a history in {folder}: {error}; change [web] history, or make it writable"))
    })
}
