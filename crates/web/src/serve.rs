//! The thread of the control plane: listeners, connections, and their limits.
//!
//! All listeners are bound before the thread runs, so that a taken port is an error at the start. A connection has a
//! time for its headers, a request one for its body and its answer; `admission` limits their number. Dropping a
//! [`WebServer`] ends it, whatever slow work is under way.

use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};
use weir_admin::{ConfigAccess, Control};

use crate::access::{Access, Caller};
use crate::activity_probe::ActivityProbe;
use crate::admission::{Admission, Connection, Ticket};
use crate::alerts::Alerts;
use crate::api;
use crate::ask::Workers;
use crate::audit::Audit;
use crate::faults::{Faults, Retry};
use crate::lab::Lab;
use crate::oidc::SingleSignOn;
use crate::outgoing::SendHttp;
use crate::start_error::WebError;
use crate::telemetry::Telemetry;
use crate::timeouts::Timeouts;
use crate::tls::WebTls;
use crate::versions::Versions;
use crate::watch::{Findings, Watch};

/// Connections that the system accepts before this thread does.
const BACKLOG: i32 = 128;
/// How long a connection may last. Enough for the longest request.
const LIFETIME: Duration = Duration::from_secs(300);
/// Bytes of a request's head, or of a read.
const BUFFER: usize = 32 << 10;
/// The pause after a failed accept, for example without a free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

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
    /// The accounts, and the tests of pools.
    pub config: Arc<dyn ConfigAccess>,
    /// Sends requests to other machines.
    pub send: SendHttp,
    /// The time limits of clients.
    pub timeouts: Timeouts,
    /// The version that SHOW VERSION shows.
    pub version: &'static str,
}

/// The state of the server.
#[derive(Clone)]
struct Site {
    router: Router,
    tls: Option<Arc<WebTls>>,
    /// How long a connection may take to send a head.
    head: Duration,
}

/// A running control plane. Dropping it ends it.
#[derive(Debug)]
pub struct WebServer {
    bound: Vec<SocketAddr>,
    /// The listening sockets once more.
    offered: Vec<TcpListener>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl WebServer {
    /// Binds all addresses, then serves on a thread of its own.
    ///
    /// # Errors
    ///
    /// An address that is not available or would be open to every host, or a thread that can't be started.
    pub fn start(options: WebOptions) -> Result<WebServer, WebError> {
        let (addresses, listed) = (options.addresses.iter().map(SocketAddr::ip), !options.config.accounts().is_empty());
        weir_config::web_listen_error(addresses, options.tls.is_some(), listed)
            .map_or(Ok(()), |why| Err(WebError(why)))?;
        let exposed = options.addresses.iter().any(|address| !address.ip().is_loopback());
        let (tls, timeouts) = (options.tls, options.timeouts);
        let listeners = listeners(&options.addresses, options.inherited)?;
        let offered = listeners.iter().filter_map(|listener| listener.try_clone().ok()).collect();
        let bound = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let failed = |error: std::io::Error| WebError(format!("can't start the thread of the HTTP API: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (workers, watch) =
            (Workers::new(options.control), watch(options.history.as_deref(), env!("CARGO_PKG_VERSION"))?);
        let access = Access::new(options.config.clone(), exposed, tls.is_some());
        let alerts = Alerts::new(&workers, &options.send, options.history.as_deref());
        let telemetry = Telemetry::new(&workers, &alerts, &options.send, options.version);
        let audit = Audit::new(workers.clone(), options.history.as_deref());
        let faults = Faults::new(options.config.clone(), kept_lists(&options.versions, (&audit, &alerts), &watch));
        let audit_of_console = audit.clone();
        let sso = SingleSignOn::new(options.send.clone());
        let activity_probe = ActivityProbe::new(options.config.clone());
        let router = api::router(
            workers.clone(),
            (access, sso),
            (options.config, activity_probe.clone()),
            (watch.clone(), options.versions, alerts.clone(), telemetry.counter()),
            (Lab::new(options.lab), audit),
            timeouts,
            options.version,
        );
        let findings = Findings::new(activity_probe);
        let (end, ended) = oneshot::channel();
        let watching = async move {
            let mut tasks = JoinSet::new();
            tasks.spawn(watch.run(workers, alerts.clone(), telemetry.clone(), (faults, findings), audit_of_console));
            tasks.spawn(telemetry.clone().export_metrics());
            tasks.spawn(telemetry.export_spans());
            tasks.spawn(alerts.run());
            while tasks.join_next().await.is_some() {}
        };
        let site = Site { router, tls, head: timeouts.head };
        let run = move || {
            run(&runtime, listeners, &site, watching, ended);
            // A blocked task, such as a test of a server, does not delay the end of the process.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("weir-web".into()).spawn(run).map_err(failed)?;
        Ok(WebServer { bound, offered, end: Some(end), thread: Some(thread) })
    }

    /// The listening sockets, for a process that takes over.
    pub fn listeners(&self) -> Vec<TcpListener> {
        self.offered.iter().filter_map(|listener| listener.try_clone().ok()).collect()
    }

    /// The bound addresses.
    pub fn bound(&self) -> &[SocketAddr] {
        &self.bound
    }
}

/// The lists that are kept in the folder of the history.
fn kept_lists(versions: &Versions, (audit, alerts): (&Audit, &Alerts), watch: &Watch) -> Vec<Retry> {
    let (versions, audit, alerts) = (versions.clone(), audit.clone(), alerts.clone());
    let incidents = watch.incidents().clone();
    vec![
        Box::new(move || versions.retry()),
        Box::new(move || audit.retry()),
        Box::new(move || alerts.retry()),
        Box::new(move || incidents.retry()),
    ]
}

impl Drop for WebServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // The panic has been printed; pooling continues without the control plane.
            let _ = thread.join();
        }
    }
}

fn watch(history: Option<&Path>, version: &str) -> Result<Watch, WebError> {
    Watch::new(history, version).map_err(|error| {
        let folder = history.unwrap_or(Path::new("")).display();
        WebError(format!("can't keep a history in {folder}: {error}; change [web] history, or make it writable"))
    })
}

/// A socket for each address: that of the process that this one takes over from, where it has one, or a new one.
fn listeners(addresses: &[SocketAddr], mut inherited: Vec<TcpListener>) -> Result<Vec<TcpListener>, WebError> {
    let mut find = |address: &SocketAddr| {
        let same = |listener: &TcpListener| listener.local_addr().is_ok_and(|bound| bound == *address);
        let at = inherited.iter().position(same)?;
        let listener = inherited.swap_remove(at);
        listener.set_nonblocking(true).ok().map(|()| listener)
    };
    addresses.iter().map(|address| find(address).map_or_else(|| bind(*address), Ok)).collect()
}

fn bind(address: SocketAddr) -> Result<TcpListener, WebError> {
    listen(address).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "stop the program that listens there, or change \"port\" in [web]",
            _ => "change \"address\" or \"port\" in [web]",
        };
        WebError(format!("can't listen on {address} for HTTP: {error}; {advice}"))
    })
}

/// A listening socket that does not block. One for IPv6 is for IPv6 only: "*" has another one for IPv4 at the same
/// port.
fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let family = if address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    net::bind(&socket, &address)?;
    net::listen(&socket, BACKLOG)?;
    Ok(TcpListener::from(socket))
}

fn run(
    runtime: &Runtime,
    listeners: Vec<TcpListener>,
    site: &Site,
    watching: impl Future<Output = ()> + Send + 'static,
    ended: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        let admission = Admission::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(watching);
        for listener in listeners {
            // Within a runtime, a non-blocking socket is always accepted.
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { continue };
            tasks.spawn(accept(listener, site.clone(), admission.clone()));
        }
        let _ = ended.await;
    });
}

async fn accept(listener: tokio::net::TcpListener, site: Site, admission: Admission) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, caller)) => {
                let connection = admission.admit(caller.ip());
                drop(connections.spawn(serve(stream, caller, site.clone(), connection)));
                // Input of open connections is read before one of them is closed for the next.
                yield_now().await;
            }
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, caller: SocketAddr, site: Site, connection: Connection) {
    let mut served = pin!(shake_hands(stream, caller, site, connection.ticket()));
    let mut closed = pin!(connection.closed());
    poll_fn(|context| match closed.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => served.as_mut().poll(context),
    })
    .await;
}

async fn shake_hands(stream: TcpStream, caller: SocketAddr, site: Site, ticket: Ticket) {
    match &site.tls {
        None => talk(stream, caller, site, ticket).await,
        Some(tls) => {
            if let Ok(Ok(stream)) = timeout(site.head, tls.acceptor().accept(stream)).await {
                talk(stream, caller, site, ticket).await;
            }
        }
    }
}

async fn talk(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    caller: SocketAddr,
    site: Site,
    ticket: Ticket,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(site.head).max_buf_size(BUFFER);
    let router = TowerToHyperService::new(site.router);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Caller(caller));
        request.extensions_mut().insert(ticket.clone());
        router.call(request)
    });
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // A failed connection is reported to its client alone.
    let _ = timeout(LIFETIME, connection).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_of_both_families_can_have_the_same_port() {
        let first = listen(([0, 0, 0, 0], 0).into()).unwrap();
        let port = first.local_addr().unwrap().port();
        let second = listen((std::net::Ipv6Addr::UNSPECIFIED, port).into());
        // A machine without IPv6 has no such address.
        assert!(second.map_or_else(|error| error.kind() != io::ErrorKind::AddrInUse, |_| true));
    }
}
