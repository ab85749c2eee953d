//! The thread of the control plane: listeners, connections, and their limits.
//!
//! Everything is bound before the thread runs, so that a taken port is an error at the start. A connection has a time for
//! its headers, a request one for its body and its answer; more than [`MOST_CONNECTIONS`] wait to be accepted. Dropping a
//! [`Web`] ends it.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use weir_admin::{Control, TryPool};

use crate::api::{self, Trials};
use crate::ask::Workers;
use crate::watch::Watch;

/// Connections at once; the next wait until one ends.
const MOST_CONNECTIONS: usize = 128;
/// How long a connection may take for the head of a request; a connection that asks nothing is closed after it, too.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a connection may live. Long enough for the longest request.
const LIFETIME: Duration = Duration::from_secs(300);
/// Bytes of a request's head, or of what is read ahead.
const BUFFER: usize = 32 << 10;
/// The pause after an accept that failed, as for the lack of a descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// What it takes to serve.
pub struct Options {
    /// Where to listen: addresses of the loopback; port 0 is any.
    pub addresses: Vec<SocketAddr>,
    /// Whom to ask.
    pub control: Arc<dyn Control>,
    /// Who tries pools before they are made.
    pub trials: Arc<dyn TryPool>,
    /// What SHOW VERSION says.
    pub version: &'static str,
}

/// Why nothing is served: one line, with what to do about it.
#[derive(Debug)]
pub struct WebError(String);

impl fmt::Display for WebError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WebError {}

/// A control plane that serves. Dropping it ends it.
#[derive(Debug)]
pub struct Web {
    bound: Vec<SocketAddr>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Web {
    /// Binds everything, then serves on a thread of its own.
    ///
    /// # Errors
    ///
    /// An address that is not of the loopback or can't be had, or a thread that can't be started.
    pub fn start(options: Options) -> Result<Web, WebError> {
        let listeners = options.addresses.iter().copied().map(bind).collect::<Result<Vec<_>, _>>()?;
        let bound = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let failed = |error: std::io::Error| WebError(format!("can't start the thread of the HTTP API: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (workers, watch) = (Workers::new(options.control), Watch::default());
        let trials = Trials::new(options.trials);
        let router = api::router(workers.clone(), trials, watch.clone(), options.version);
        let (end, ended) = oneshot::channel();
        let watching = watch.run(workers);
        let run = move || run(&runtime, listeners, &router, watching, ended);
        let thread = thread::Builder::new().name("weir-web".into()).spawn(run).map_err(failed)?;
        Ok(Web { bound, end: Some(end), thread: Some(thread) })
    }

    /// Where it listens.
    pub fn bound(&self) -> &[SocketAddr] {
        &self.bound
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A panic has been printed; pooling goes on without us.
            let _ = thread.join();
        }
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, WebError> {
    if !address.ip().is_loopback() {
        let why = "the API has no logins yet, so [web] address must be of the loopback (127.0.0.1 or ::1)";
        return Err(WebError(format!("{address}: {why}")));
    }
    let failed = |error| WebError(format!("can't listen on {address} for HTTP: {error}; change [web] port or address"));
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

fn run(
    runtime: &Runtime,
    listeners: Vec<TcpListener>,
    router: &Router,
    watching: impl Future<Output = ()> + Send + 'static,
    ended: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut tasks = JoinSet::new();
        tasks.spawn(watching);
        for listener in listeners {
            // Within a runtime, a socket that does not block always is taken.
            let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { continue };
            tasks.spawn(accept(listener, router.clone(), room.clone()));
        }
        let _ = ended.await;
    });
}

async fn accept(listener: tokio::net::TcpListener, router: Router, room: Arc<Semaphore>) {
    let mut connections = JoinSet::new();
    loop {
        // The semaphore is never closed.
        let Ok(permit) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => drop(connections.spawn(serve(stream, router.clone(), permit))),
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, router: Router, _permit: OwnedSemaphorePermit) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_buf_size(BUFFER);
    let connection = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    // What goes wrong with a connection is its other end's affair.
    let _ = timeout(LIFETIME, connection).await;
}
