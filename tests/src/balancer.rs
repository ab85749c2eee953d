//! A balancer of TCP connections: new ones go in turn to the backends whose `/readyz` answers 200, as with a service of
//! Kubernetes. Connections that are open stay where they are.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::http::Api;

/// The time between two questions to a backend.
const PROBES: Duration = Duration::from_millis(50);
/// How long a backend may take to answer, or to accept.
const ANSWER: Duration = Duration::from_secs(5);

/// See the head of the file. Ends when dropped.
#[derive(Debug)]
pub struct Balancer {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    backends: Vec<Backend>,
    next: AtomicUsize,
    ends: AtomicBool,
}

#[derive(Debug)]
struct Backend {
    to: SocketAddr,
    api: SocketAddr,
    is_ready: AtomicBool,
    connections: AtomicU64,
}

impl Balancer {
    /// A balancer before these backends: for each its port on the loopback, and its API.
    ///
    /// # Panics
    ///
    /// When no port is free.
    pub fn start(backends: &[(u16, Api)]) -> Balancer {
        let backend = |(port, api): &(u16, Api)| Backend {
            to: ([127, 0, 0, 1], *port).into(),
            api: api.address(),
            is_ready: AtomicBool::new(false),
            connections: AtomicU64::new(0),
        };
        let backends = backends.iter().map(backend).collect();
        let shared = Arc::new(Shared { backends, next: AtomicUsize::new(0), ends: AtomicBool::new(false) });
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let prober = shared.clone();
        thread::spawn(move || prober.probe());
        let acceptor = shared.clone();
        thread::spawn(move || acceptor.accept(&listener));
        Balancer { port, shared }
    }

    /// The port that clients connect to, on the loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether new connections may go to a backend.
    pub fn is_ready(&self, backend: usize) -> bool {
        self.shared.backends[backend].is_ready.load(Ordering::Acquire)
    }

    /// How many connections a backend has got.
    pub fn connections(&self, backend: usize) -> u64 {
        self.shared.backends[backend].connections.load(Ordering::Relaxed)
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Release);
        // The acceptor sees it.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn probe(&self) {
        while !self.ends.load(Ordering::Acquire) {
            for backend in &self.backends {
                backend.is_ready.store(answers(backend.api).unwrap_or(false), Ordering::Release);
            }
            thread::sleep(PROBES);
        }
    }

    fn accept(&self, listener: &TcpListener) {
        for client in listener.incoming().map_while(Result::ok) {
            if self.ends.load(Ordering::Acquire) {
                return;
            }
            // Without a backend the client's connection is closed.
            if let Some(server) = self.connect() {
                join(client, server);
            }
        }
    }

    fn connect(&self) -> Option<TcpStream> {
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let turns = (0..self.backends.len()).map(|at| &self.backends[(first + at) % self.backends.len()]);
        turns.filter(|backend| backend.is_ready.load(Ordering::Acquire)).find_map(|backend| {
            let server = TcpStream::connect_timeout(&backend.to, ANSWER).ok()?;
            backend.connections.fetch_add(1, Ordering::Relaxed);
            Some(server)
        })
    }
}

/// Whether a backend is ready, by its own account.
fn answers(api: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect_timeout(&api, ANSWER)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.write_all(format!("GET /readyz HTTP/1.1\r\nHost: {api}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said.starts_with("HTTP/1.1 200"))
}

/// Passes bytes in both directions; the end of each is passed on, too.
fn join(client: TcpStream, server: TcpStream) {
    let copies = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
    for (from, to) in copies {
        let (Ok(mut from), Ok(mut to)) = (from, to) else { return };
        let _ = (from.set_nodelay(true), to.set_nodelay(true));
        thread::spawn(move || {
            let copied = io::copy(&mut from, &mut to);
            let _ = to.shutdown(if copied.is_ok() { Shutdown::Write } else { Shutdown::Both });
        });
    }
}
