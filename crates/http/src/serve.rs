//! The server: listening sockets, connections with their limits, and one thread that serves them.
//!
//! Owns the sockets and the thread. Must not know what is served: a router answers. Each connection is admitted
//! (`admission`), encrypted if there is a certificate, and bounded in time.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use axum::Router;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_TYPE, HeaderValue};
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

use crate::access::Caller;
use crate::admission::{Admission, Connection, Ticket};
use crate::door::{Door, EVENT_STREAM, Unanswered};
use crate::start_error::WebError;
use crate::tls::WebTls;

/// Connections that the system accepts before this thread does.
const BACKLOG: i32 = 128;
/// How long a connection may last. Enough for the longest request.
const LIFETIME: Duration = Duration::from_secs(300);
/// Bytes of a request's head, or of a read.
const BUFFER: usize = 32 << 10;
/// The pause after a failed accept, for example without a free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// What is served, and how.
#[derive(Clone)]
pub struct Served {
    /// Answers the requests.
    pub router: Router,
    /// With it all connections are encrypted.
    pub tls: Option<Arc<WebTls>>,
    /// How long a connection may take to send a head.
    pub head: Duration,
    /// Whether connections are accepted at once; else when [`Door::accept`] says so.
    pub accepts: bool,
}

/// Listening sockets, which nobody serves yet.
pub struct Listeners(Vec<TcpListener>);

/// A running server. Dropping it ends it.
#[derive(Debug)]
pub struct HttpServer {
    bound: Vec<SocketAddr>,
    door: Door,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Listeners {
    /// Listens at all addresses; port 0 is any. `inherited`: sockets of a process that this one takes over from, used for
    /// their addresses.
    ///
    /// # Errors
    /// An address that is not available.
    pub fn bind(addresses: &[SocketAddr], inherited: Vec<TcpListener>) -> Result<Listeners, WebError> {
        listeners(addresses, inherited).map(Listeners)
    }

    /// Serves on a thread of its own, on which `beside` runs too.
    ///
    /// # Errors
    /// The thread can't be started.
    pub fn serve(
        self,
        served: Served,
        beside: impl Future<Output = ()> + Send + 'static,
    ) -> Result<HttpServer, WebError> {
        let Listeners(listeners) = self;
        let offered = listeners.iter().filter_map(|listener| listener.try_clone().ok()).collect();
        let door = Door::new(offered, served.accepts);
        let bound = listeners.iter().filter_map(|listener| listener.local_addr().ok()).collect();
        let failed = |error: io::Error| WebError::new(format!("can't start the thread of the HTTP API: {error}"));
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (end, ended) = oneshot::channel();
        let inside = door.clone();
        let run = move || {
            run(&runtime, listeners, &(served, inside), beside, ended);
            // A blocked task, such as a test of a server, does not delay the end of the process.
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("weir-web".into()).spawn(run).map_err(failed)?;
        Ok(HttpServer { bound, door, end: Some(end), thread: Some(thread) })
    }
}

impl HttpServer {
    /// Whether it accepts connections, for a process that takes over, or is taken over from.
    pub fn door(&self) -> Door {
        self.door.clone()
    }

    /// The bound addresses.
    pub fn bound(&self) -> &[SocketAddr] {
        &self.bound
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // The panic has been printed; pooling continues without the control plane.
            let _ = thread.join();
        }
    }
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
    listen(address).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => WebError::in_use(address),
        _ => WebError::new(format!(
            "can't listen on {address} for HTTP: {error}; change \"address\" or \"port\" in [web] (web_address, web_port in an ini)"
        )),
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
    (site, door): &(Served, Door),
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
            tasks.spawn(accept(listener, (site.clone(), door.clone()), admission.clone()));
        }
        let _ = ended.await;
    });
}

async fn accept(listener: tokio::net::TcpListener, (site, door): (Served, Door), admission: Admission) {
    let mut connections = JoinSet::new();
    loop {
        match door.next(&listener).await {
            Ok((stream, caller, unanswered)) => {
                let connection = admission.admit(caller.ip());
                drop(connections.spawn(serve(stream, (caller, unanswered), site.clone(), connection)));
                // Input of open connections is read before one of them is closed for the next.
                yield_now().await;
            }
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: TcpStream, caller: (SocketAddr, Unanswered), site: Served, connection: Connection) {
    let mut served = pin!(shake_hands(stream, caller, site, connection.ticket()));
    let mut closed = pin!(connection.closed());
    poll_fn(|context| match closed.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(()),
        Poll::Pending => served.as_mut().poll(context),
    })
    .await;
}

async fn shake_hands(stream: TcpStream, caller: (SocketAddr, Unanswered), site: Served, ticket: Ticket) {
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
    (caller, unanswered): (SocketAddr, Unanswered),
    site: Served,
    ticket: Ticket,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(site.head).max_buf_size(BUFFER);
    let (router, door) = (TowerToHyperService::new(site.router), &unanswered.door());
    let (has_asked, unanswered) = (&AtomicBool::new(false), &Mutex::new(Some(unanswered)));
    let service = service_fn(move |mut request: Request<Incoming>| {
        has_asked.store(true, Ordering::Relaxed);
        request.extensions_mut().insert(Caller(caller));
        request.extensions_mut().insert(ticket.clone());
        let answer = router.call(request);
        async move {
            let mut answer = answer.await?;
            if answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == EVENT_STREAM) {
                // It has no end.
                drop(unanswered.lock().unwrap_or_else(PoisonError::into_inner).take());
            } else if door.is_closed() {
                answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Ok::<_, Infallible>(answer)
        }
    });
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), service));
    let (mut closes, mut is_last) = (pin!(door.closes()), Some(false));
    let served = poll_fn(|context| {
        if connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if is_last == Some(false) && closes.as_mut().poll(context).is_ready() {
            is_last = Some(true);
        }
        // One that has just been accepted has its first request answered.
        if is_last == Some(true) && has_asked.load(Ordering::Relaxed) {
            is_last = None;
            connection.as_mut().graceful_shutdown();
            return connection.as_mut().poll(context).map(drop);
        }
        Poll::Pending
    });
    // A failed connection is reported to its client alone.
    let _ = timeout(LIFETIME, served).await;
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
