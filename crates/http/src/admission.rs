//! Connections: how many there may be, how many of one address, and which one is closed to make room for another.
//!
//! A connection without a login keeps its place only while there is room. A new connection is always served; beyond
//! the limit, one of the address with the most connections is closed for it: the oldest that waits for a request, else
//! the oldest that serves a request without a login. Only requests with a login keep their place. Their limit is below
//! that of connections, and more are refused, so neither idle connections nor slow requests can keep health checks
//! from being answered.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use hyper::body::{Bytes, Frame, SizeHint};
use tokio::sync::Notify;
use weir_monitor::lock;

use crate::error::ApiError;

/// Connections at the same time, and those of one address.
const MOST: usize = 128;
const OF_ADDRESS: usize = 96;
/// Requests with a login that are served at the same time, and those of one address.
const KNOWN: usize = 96;
const KNOWN_OF_ADDRESS: usize = 80;

/// What a connection does; connections in an earlier state are closed first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ConnectionState {
    /// In a handshake, receiving the head of a request, or idle.
    Waiting,
    /// Serves a request that has shown no login.
    Unknown,
    /// Serves a health check.
    Health,
    /// Serves a request that has shown a login, or needs none here: it is not closed.
    Known,
}

/// All connections; cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Admission(Arc<Mutex<Table>>);

/// Ordered by age.
#[derive(Default)]
struct Table {
    next: u64,
    entries: BTreeMap<u64, OpenConnection>,
}

struct OpenConnection {
    network: IpAddr,
    state: ConnectionState,
    close: Arc<Notify>,
}

/// An admitted connection. Dropping it ends it.
pub(crate) struct Connection {
    ticket: Ticket,
    close: Arc<Notify>,
}

/// The handle by which a request changes the state of its connection.
#[derive(Clone)]
pub struct Ticket {
    id: u64,
    admission: Admission,
}

/// A request that is served. Dropping it marks its answer as complete.
pub struct ServedRequest(Ticket);

impl Admission {
    /// Admits a connection; may close another one for it.
    pub(crate) fn admit(&self, address: IpAddr) -> Connection {
        let (network, close) = (network(address), Arc::new(Notify::new()));
        let mut table = lock(&self.0);
        table.make_room(network);
        let id = table.next;
        table.next += 1;
        table.entries.insert(id, OpenConnection { network, state: ConnectionState::Waiting, close: close.clone() });
        Connection { ticket: Ticket { id, admission: self.clone() }, close }
    }
}

impl Table {
    fn make_room(&mut self, network: IpAddr) {
        let own = self.entries.values().filter(|entry| entry.network == network).count();
        let from = match (own >= OF_ADDRESS, self.entries.len() >= MOST) {
            (true, _) => Some(network),
            (false, true) => self.most_connected(),
            (false, false) => None,
        };
        let of = |entry: &OpenConnection| Some(entry.network) == from && entry.state != ConnectionState::Known;
        let closable = self.entries.iter().filter(|(_, entry)| of(entry));
        let first = closable.min_by_key(|(id, entry)| (entry.state, **id)).map(|(id, _)| *id);
        if let Some(entry) = first.and_then(|id| self.entries.remove(&id)) {
            entry.close.notify_one();
        }
    }

    /// The address with the most connections that may be closed.
    fn most_connected(&self) -> Option<IpAddr> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        let closable = self.entries.values().filter(|entry| entry.state != ConnectionState::Known);
        closable.for_each(|entry| *counts.entry(entry.network).or_default() += 1);
        counts.into_iter().max_by_key(|(_, count)| *count).map(|(network, _)| network)
    }

    fn known(&self, of: Option<IpAddr>) -> usize {
        let counts = |entry: &&OpenConnection| {
            entry.state == ConnectionState::Known && of.is_none_or(|network| entry.network == network)
        };
        self.entries.values().filter(counts).count()
    }
}

impl Connection {
    /// The handle for its requests.
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket.clone()
    }

    /// Waits until this connection is closed to make room for another.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        lock(&self.ticket.admission.0).entries.remove(&self.ticket.id);
    }
}

impl Ticket {
    /// A request begins; `health`: it is a health check.
    pub fn serve(self, health: bool) -> ServedRequest {
        self.set(if health { ConnectionState::Health } else { ConnectionState::Unknown });
        ServedRequest(self)
    }

    /// The request has shown a login, or needs none here.
    pub fn is_known(&self) -> Result<(), ApiError> {
        let mut table = lock(&self.admission.0);
        let Some(entry) = table.entries.get(&self.id).filter(|entry| entry.state == ConnectionState::Unknown) else {
            return Ok(());
        };
        if table.known(None) >= KNOWN || table.known(Some(entry.network)) >= KNOWN_OF_ADDRESS {
            return Err(ApiError::TooManyRequests);
        }
        table.entries.entry(self.id).and_modify(|entry| entry.state = ConnectionState::Known);
        Ok(())
    }

    fn set(&self, state: ConnectionState) {
        if let Some(entry) = lock(&self.admission.0).entries.get_mut(&self.id) {
            entry.state = state;
        }
    }
}

impl Drop for ServedRequest {
    fn drop(&mut self) {
        self.0.set(ConnectionState::Waiting);
    }
}

/// The network of an IPv6 address, since one customer has all addresses of it; an IPv4 address as it is.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from(u128::from(v6) & !u128::from(u64::MAX))),
        v4 => v4,
    }
}

/// The body of an answer; the request counts as served until the body has been sent.
pub struct HeldBody {
    /// The body.
    pub body: Body,
    /// Held only for its `Drop`.
    pub _serving: ServedRequest,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn is_closed(connection: &Connection) -> bool {
        let mut closed = Box::pin(connection.closed());
        closed.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn open(admission: &Admission) -> usize {
        lock(&admission.0).entries.len()
    }

    #[test]
    fn the_next_one_is_let_in_and_the_oldest_of_the_address_with_the_most_is_closed() {
        let admission = Admission::default();
        let many: Vec<_> = (0..OF_ADDRESS).map(|_| admission.admit(address(1))).collect();
        let few: Vec<_> = (0..MOST - OF_ADDRESS).map(|_| admission.admit(address(2))).collect();
        assert!(!many.iter().chain(&few).any(is_closed));
        let next = admission.admit(address(3));
        assert!(is_closed(&many[0]) && !many[1..].iter().chain(&few).any(is_closed));
        let health = many[1].ticket().serve(true);
        let unknown = many[2].ticket().serve(false);
        let more: Vec<_> = (0..OF_ADDRESS + 2).map(|_| admission.admit(address(1))).collect();
        assert!(!is_closed(&next) && !few.iter().any(is_closed), "others are not disturbed");
        assert!(many[3..].iter().all(is_closed) && !is_closed(&many[1]), "those who wait before those who are served");
        assert!(!more.is_empty() && open(&admission) <= MOST);
        drop((health, unknown, more, many, few, next));
        assert_eq!(open(&admission), 0);
    }

    #[test]
    fn requests_with_a_login_are_not_closed_and_leave_room() {
        let admission = Admission::default();
        let mut served = Vec::new();
        for number in 0..2 * MOST {
            let connection = admission.admit(address((number % 4) as u8));
            let serving = connection.ticket().serve(false);
            let known = connection.ticket().is_known();
            assert_eq!(known.is_ok(), number < KNOWN, "{number}");
            served.push((connection, serving));
        }
        assert!(!served[..KNOWN].iter().any(|(connection, _)| is_closed(connection)));
        assert!(open(&admission) <= MOST);
        let newest = admission.admit(address(9));
        let asks = newest.ticket().serve(true);
        assert!(newest.ticket().is_known().is_ok() && !is_closed(&newest), "health is always asked about");
        drop(asks);
        served.truncate(KNOWN - 1);
        let after = newest.ticket().serve(false);
        assert!(newest.ticket().is_known().is_ok());
        drop(after);
        let one = Admission::default();
        let of_one: Vec<_> = (0..KNOWN).map(|_| one.admit(address(1))).collect();
        let serving: Vec<_> = of_one.iter().map(|connection| connection.ticket().serve(false)).collect();
        let known = of_one.iter().filter(|connection| connection.ticket().is_known().is_ok()).count();
        assert_eq!((known, serving.len()), (KNOWN_OF_ADDRESS, KNOWN));
    }

    #[test]
    fn an_ipv6_network_counts_as_one() {
        let v6 = |text: &str| network(text.parse().unwrap());
        assert_eq!(v6("2001:db8::1"), v6("2001:db8::ffff:0:0:2"));
        assert_ne!(v6("2001:db8::1"), v6("2001:db8:0:1::1"));
        assert_eq!(v6("::ffff:10.0.0.1"), address(1));
    }
}
