//! Whether connections are accepted, and which wait for an answer: while one process takes over from another, one of
//! the two accepts, and the other one answers what it has accepted before it ends.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::watch;

/// How long a process that is taken over from waits for the answers that are under way, and for requests of
/// connections that have sent none.
const LAST_ANSWERS: Duration = Duration::from_millis(1_500);
const LOOK: Duration = Duration::from_millis(2);

/// The type of an answer without an end.
pub const EVENT_STREAM: &str = "text/event-stream";

/// See the head of the file; cheap to clone.
#[derive(Clone, Debug)]
pub struct Door(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    listeners: Vec<TcpListener>,
    open: watch::Sender<bool>,
    unanswered: AtomicUsize,
}

/// A connection that waits for an answer, or may send a request; dropped when that is over.
pub(crate) struct Unanswered(Arc<Inner>);

impl Door {
    pub(crate) fn new(listeners: Vec<TcpListener>, open: bool) -> Door {
        Door(Arc::new(Inner { listeners, open: watch::Sender::new(open), unanswered: AtomicUsize::new(0) }))
    }

    /// The listening sockets once more, for a process that takes over.
    pub fn listeners(&self) -> Vec<TcpListener> {
        self.0.listeners.iter().filter_map(|listener| listener.try_clone().ok()).collect()
    }

    /// Accepts from now on, or leaves that to another process: then a connection is closed behind its next answer.
    pub fn accept(&self, on: bool) {
        self.0.open.send_replace(on);
    }

    /// Waits until all connections are answered that were accepted, streams of events aside; for a limited time. Blocks.
    pub fn finish(&self) {
        let by = Instant::now() + LAST_ANSWERS;
        while self.0.unanswered.load(Ordering::Acquire) > 0 && Instant::now() < by {
            thread::sleep(LOOK);
        }
    }

    /// The next connection; none while another process accepts.
    pub(crate) async fn next(&self, from: &tokio::net::TcpListener) -> io::Result<(TcpStream, SocketAddr, Unanswered)> {
        loop {
            self.is(true).await;
            let (mut closed, mut accepted) = (pin!(self.is(false)), pin!(from.accept()));
            let next = std::future::poll_fn(|context| match closed.as_mut().poll(context) {
                Poll::Ready(()) => Poll::Ready(None),
                Poll::Pending => accepted.as_mut().poll(context).map(Some),
            });
            if let Some(accepted) = next.await {
                self.0.unanswered.fetch_add(1, Ordering::AcqRel);
                let unanswered = Unanswered(self.0.clone());
                return accepted.map(|(stream, caller)| (stream, caller, unanswered));
            }
        }
    }

    /// Whether another process accepts.
    pub(crate) fn is_closed(&self) -> bool {
        !*self.0.open.borrow()
    }

    /// Waits until another process accepts.
    pub(crate) async fn closes(&self) {
        self.is(false).await;
    }

    async fn is(&self, open: bool) {
        // The sender is here.
        drop(self.0.open.subscribe().wait_for(|now| *now == open).await);
    }
}

impl Unanswered {
    pub(crate) fn door(&self) -> Door {
        Door(self.0.clone())
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        self.0.unanswered.fetch_sub(1, Ordering::AcqRel);
    }
}
