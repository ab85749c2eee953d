//! A TCP proxy that injects faults: it delays, trickles, stalls, cuts, half-closes and refuses.
//!
//! Owns a listener and a few threads per connection, which end with the process. The proxy knows bytes, not messages,
//! so it cuts at any byte. It is between a client and Weir, or between Weir and PostgreSQL. The faults of a connection
//! are its [`Plan`], made from the connection's number when it is accepted: by a script, or drawn from a seed. Stalls,
//! cuts and refusals can also be requested for all connections at any time.
//!
//! Invariants: bytes arrive in order and unchanged; bytes that are not passed on are the end of the connection. At most
//! [`IN_FLIGHT`] chunks are under way in each direction, so a delayed connection pushes back like a long one.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use socket2::{SockFilter, SockRef, TcpKeepalive};

use crate::rng::Rng;

/// Chunks under way in one direction.
const IN_FLIGHT: usize = 64;
/// The most bytes read at once.
const CHUNK: usize = 16 * 1024;

/// How often keep-alive probes an idle connection, after [`FaultProxy::vanish`] was called.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// `BPF_RET | BPF_K`: keep as many bytes of the packet as the instruction says.
const RETURN: u16 = 0x06;

/// Whether the kernel lets this process lose packets, as [`FaultProxy::vanish`] does; else its reason. Some kernels
/// permit a socket's filter only to root.
pub fn may_lose_packets() -> io::Result<()> {
    let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    SockRef::from(&socket).attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])
}

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Both sides are reset (RST), as by a machine that has restarted.
    Reset,
    /// Both sides are closed (FIN).
    Close,
    /// This direction ends (FIN); the other continues.
    HalfClose,
}

/// The faults of one direction of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Way {
    /// Each chunk arrives this much later.
    pub delay: Duration,
    /// A further random delay up to this, drawn for each chunk; the order is kept.
    pub jitter: Duration,
    /// This many bytes at a time, with this pause after each.
    pub trickle: Option<(usize, Duration)>,
    /// After this many bytes the connection ends.
    pub cut: Option<(u64, End)>,
    /// After this many bytes nothing more is passed on, and nothing is closed.
    pub stall: Option<u64>,
}

/// The faults of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plan {
    /// From the client to the server behind the proxy.
    pub forth: Way,
    /// From the server to the client.
    pub back: Way,
    /// The delay between accept and the connect to the server: a server with slow logins.
    pub late: Duration,
    /// Reset as soon as it is accepted, before the server behind the proxy sees it.
    pub refuse: bool,
}

impl Plan {
    /// A connection without faults.
    pub fn clean() -> Plan {
        Plan::default()
    }

    /// The plan of connection `number` for this seed: always the same.
    pub fn of(seed: u64, number: usize, bytes: u64) -> Plan {
        Plan::drawn(&mut Rng::new(seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)), bytes)
    }

    /// A random plan: about half of the connections are cut within their first `bytes`, each in its own way; some
    /// trickle, some are slow, a few are refused.
    pub fn drawn(rng: &mut Rng, bytes: u64) -> Plan {
        let mut plan = Plan { refuse: rng.one_in(20), ..Plan::default() };
        let way = |rng: &mut Rng| {
            let mut way = Way::default();
            match rng.below(6) {
                0 => way.delay = Duration::from_millis(rng.below(20) as u64),
                1 => way.jitter = Duration::from_millis(rng.below(15) as u64),
                2 => way.trickle = Some((1 + rng.below(40), Duration::from_micros(rng.below(500) as u64))),
                _ => {}
            }
            if rng.one_in(3) {
                let end = *rng.pick(&[End::Reset, End::Close, End::HalfClose]);
                way.cut = Some((rng.bits() % bytes.max(1), end));
            }
            way
        };
        plan.forth = way(rng);
        plan.back = way(rng);
        plan
    }
}

type Script = Box<dyn Fn(usize) -> Plan + Send + Sync>;

/// A running proxy; it ends when its last clone is dropped.
#[derive(Clone, Debug)]
pub struct FaultProxy {
    port: u16,
    shared: Arc<Shared>,
    _end: Arc<StopOnDrop>,
}

struct Shared {
    target: Mutex<SocketAddr>,
    script: Mutex<Script>,
    state: Mutex<State>,
    changed: Condvar,
    listener: TcpListener,
    accepted: AtomicUsize,
    bytes: [AtomicU64; 2],
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultProxy").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    stalled: bool,
    refusing: bool,
    ended: bool,
    next: usize,
    wires: Vec<(usize, TcpStream, TcpStream)>,
}

/// Ends the accepting thread with the proxy.
#[derive(Debug)]
struct StopOnDrop {
    own: SocketAddr,
    shared: Arc<Shared>,
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.shared.change(|state| state.ended = true);
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.own);
    }
}

impl FaultProxy {
    /// A proxy in front of this port of loopback, without faults until they are set.
    ///
    /// # Panics
    ///
    /// When loopback has no port left.
    pub fn before(port: u16) -> FaultProxy {
        FaultProxy::scripted(port, |_| Plan::clean())
    }

    /// A proxy that listens on this address; port 0 is any.
    ///
    /// # Panics
    ///
    /// When the port is in use.
    pub fn at(address: &str, own: u16, port: u16) -> FaultProxy {
        let listener = TcpListener::bind((address, own)).expect("a free port");
        FaultProxy::listening(listener, port, |_| Plan::clean())
    }

    /// A proxy whose script makes a plan for each connection, from its number, starting at 0.
    ///
    /// # Panics
    ///
    /// When loopback has no port left.
    pub fn scripted(port: u16, script: impl Fn(usize) -> Plan + Send + Sync + 'static) -> FaultProxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        FaultProxy::listening(listener, port, script)
    }

    fn listening(
        listener: TcpListener,
        port: u16,
        script: impl Fn(usize) -> Plan + Send + Sync + 'static,
    ) -> FaultProxy {
        let own = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            target: Mutex::new((Ipv4Addr::LOCALHOST, port).into()),
            script: Mutex::new(Box::new(script)),
            state: Mutex::default(),
            changed: Condvar::new(),
            listener: listener.try_clone().expect("a descriptor"),
            accepted: AtomicUsize::new(0),
            bytes: [AtomicU64::new(0), AtomicU64::new(0)],
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        let end = Arc::new(StopOnDrop { own, shared: Arc::clone(&shared) });
        FaultProxy { port: own.port(), shared, _end: end }
    }

    /// A proxy whose connections have plans drawn from a seed: connection `n` of a seed always has the same plan.
    ///
    /// # Panics
    ///
    /// When loopback has no port left.
    pub fn drawn(port: u16, seed: u64, bytes: u64) -> FaultProxy {
        FaultProxy::scripted(port, move |number| Plan::of(seed, number, bytes))
    }

    /// The port to connect to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// New connections go to that port from now on; open ones keep theirs.
    pub fn lead_to(&self, port: u16) {
        *lock(&self.shared.target) = (Ipv4Addr::LOCALHOST, port).into();
    }

    /// New connections have these plans from now on; their numbers continue.
    pub fn script(&self, script: impl Fn(usize) -> Plan + Send + Sync + 'static) {
        *lock(&self.shared.script) = Box::new(script);
    }

    /// While set, nothing is passed on and nothing is closed, new connections included: a partition.
    pub fn stall(&self, stalled: bool) {
        self.shared.change(|state| state.stalled = stalled);
    }

    /// While set, packets from clients are lost, also those of new connections, and nothing is passed on: a network
    /// without a route. Connections that still exist afterwards go on, late. As on a server with keep-alive, a
    /// connection whose other end does not answer is closed after some seconds.
    pub fn vanish(&self, gone: bool) {
        self.lose_packets(gone, true);
    }

    /// As [`FaultProxy::vanish`], and no connection is ever closed: a machine without power.
    pub fn lose_power(&self, gone: bool) {
        self.lose_packets(gone, false);
    }

    fn lose_packets(&self, gone: bool, closes: bool) {
        let mut state = self.shared.state();
        state.stalled = gone;
        let sockets = state.wires.iter().map(|(_, near, _)| SockRef::from(near));
        for socket in sockets.chain([SockRef::from(&self.shared.listener)]) {
            let alive = TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE).with_retries(3);
            let _ = if closes { socket.set_tcp_keepalive(&alive) } else { socket.set_keepalive(false) };
            // A packet of which the filter keeps nothing is dropped before TCP sees it: no host acknowledges it.
            let _ =
                if gone { socket.attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)]) } else { socket.detach_filter() };
        }
        drop(state);
        self.shared.changed.notify_all();
    }

    /// New connections are reset while set.
    pub fn refuse(&self, refusing: bool) {
        self.shared.change(|state| state.refusing = refusing);
    }

    /// Ends all open connections; half-closing ends the direction to the clients.
    pub fn cut_all(&self, end: End) {
        let ids: Vec<_> = self.shared.state().wires.iter().map(|(id, ..)| *id).collect();
        ids.into_iter().for_each(|id| self.shared.end(id, 1, end));
    }

    /// How many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open(&self) -> usize {
        self.shared.state().wires.len()
    }

    /// Bytes passed on: to the server, and to the client.
    pub fn bytes(&self) -> (u64, u64) {
        let [forth, back] = &self.shared.bytes;
        (forth.load(Ordering::Relaxed), back.load(Ordering::Relaxed))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for near in listener.incoming().flatten() {
        if shared.state().ended {
            return;
        }
        let number = shared.accepted.fetch_add(1, Ordering::SeqCst);
        let plan = lock(&shared.script)(number);
        if plan.refuse || shared.state().refusing {
            reset(&near);
            continue;
        }
        let shared = Arc::clone(shared);
        // An error of a connection concerns only its two ends.
        thread::spawn(move || drop(shared.serve(near, plan, number)));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    fn serve(self: Arc<Self>, near: TcpStream, plan: Plan, number: usize) -> io::Result<()> {
        // A partition passes nothing on; the client gets only the kernel's TCP handshake.
        self.wait_for_passage(None);
        thread::sleep(plan.late);
        let target = *lock(&self.target);
        let far = TcpStream::connect(target).inspect_err(|_| reset(&near))?;
        near.set_nodelay(true)?;
        far.set_nodelay(true)?;
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = state.next;
            state.wires.push((id, near.try_clone()?, far.try_clone()?));
            id
        };
        let (forth, back) = (plan.forth, plan.back);
        let (shared, near_again, far_again) = (Arc::clone(&self), near.try_clone()?, far.try_clone()?);
        let seed = number as u64;
        let backwards = thread::spawn(move || shared.carry(&far_again, &near_again, back, 1, seed, id));
        self.carry(&near, &far, forth, 0, seed, id);
        let _ = backwards.join();
        self.state().wires.retain(|(known, ..)| *known != id);
        Ok(())
    }

    /// Carries one direction to its end, then half-closes the other side, as TCP does.
    fn carry(self: &Arc<Self>, from: &TcpStream, to: &TcpStream, way: Way, side: usize, seed: u64, id: usize) {
        let outcome = if way.delay.is_zero() && way.jitter.is_zero() {
            self.straight(from, to, way, side, id)
        } else {
            self.delayed(from, to, way, side, seed, id)
        };
        match outcome {
            // Another thread has ended the connection.
            _ if self.gone(id) => {}
            // The sender has closed: close the other end too.
            Ok(None) => drop(to.shutdown(Shutdown::Write)),
            Ok(Some(end)) => self.end(id, side, end),
            Err(_) => self.end(id, side, End::Close),
        }
    }

    fn straight(&self, from: &TcpStream, to: &TcpStream, way: Way, side: usize, id: usize) -> io::Result<Option<End>> {
        let mut buffer = vec![0; CHUNK];
        let mut passed = 0;
        loop {
            let count = (&mut &*from).read(&mut buffer)?;
            if count == 0 {
                self.wait_for_passage(Some(id));
                return Ok(None);
            }
            if let Some(end) = self.pass(&buffer[..count], to, way, side, id, &mut passed)? {
                return Ok(Some(end));
            }
        }
    }

    /// Passes bytes on as `straight` does, with a delay in which several chunks are under way.
    fn delayed(
        self: &Arc<Self>,
        from: &TcpStream,
        to: &TcpStream,
        way: Way,
        side: usize,
        seed: u64,
        id: usize,
    ) -> io::Result<Option<End>> {
        let (line, arrivals) = sync_channel::<(Instant, Vec<u8>)>(IN_FLIGHT);
        let (shared, far) = (Arc::clone(self), to.try_clone()?);
        let arriving = thread::spawn(move || shared.arrive(&arrivals, &far, way, side, id));
        let mut rng = Rng::new(seed.wrapping_mul(2).wrapping_add(side as u64));
        let mut buffer = vec![0; CHUNK];
        while let Ok(count @ 1..) = (&mut &*from).read(&mut buffer) {
            let jitter = way.jitter.mul_f64(rng.below(1000) as f64 / 1000.0);
            if line.send((Instant::now() + way.delay + jitter, buffer[..count].to_vec())).is_err() {
                break;
            }
        }
        drop(line);
        arriving.join().unwrap_or(Ok(None))
    }

    fn arrive(
        &self,
        arrivals: &Receiver<(Instant, Vec<u8>)>,
        to: &TcpStream,
        way: Way,
        side: usize,
        id: usize,
    ) -> io::Result<Option<End>> {
        let mut passed = 0;
        for (due, bytes) in arrivals {
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if let Some(end) = self.pass(&bytes, to, way, side, id, &mut passed)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    /// Passes on what the plan allows; `Some` if it ends the connection.
    fn pass(
        &self,
        bytes: &[u8],
        mut to: &TcpStream,
        way: Way,
        side: usize,
        id: usize,
        passed: &mut u64,
    ) -> io::Result<Option<End>> {
        let room = |limit: u64| usize::try_from(limit.saturating_sub(*passed)).unwrap_or(usize::MAX);
        let until_cut = way.cut.map_or(usize::MAX, |(limit, _)| room(limit));
        let until_stall = way.stall.map_or(usize::MAX, room);
        let let_through = &bytes[..bytes.len().min(until_cut).min(until_stall)];
        let (step, pause) = way.trickle.unwrap_or((let_through.len(), Duration::ZERO));
        for piece in let_through.chunks(step.max(1)) {
            self.wait_for_passage(Some(id));
            if self.gone(id) {
                // Chunks still under way at the end are lost, and do not arrive after it.
                return Ok(None);
            }
            to.write_all(piece)?;
            thread::sleep(pause);
        }
        self.wait_for_passage(Some(id));
        *passed += let_through.len() as u64;
        self.bytes[side].fetch_add(let_through.len() as u64, Ordering::Relaxed);
        if until_cut <= bytes.len() && until_cut <= until_stall {
            return Ok(way.cut.map(|(_, end)| end));
        }
        if until_stall < bytes.len() {
            // For ever, until the connection is cut.
            self.wait_while(Some(id), |_| true);
        }
        Ok(None)
    }

    fn wait_for_passage(&self, id: Option<usize>) {
        self.wait_while(id, |state| state.stalled);
    }

    /// Waits while `held` is true and the connection, if it has an id yet, has not been ended.
    fn wait_while(&self, id: Option<usize>, held: impl Fn(&State) -> bool) {
        let guard = self.state();
        let gone = |state: &State| id.is_some_and(|id| state.wire(id).is_none());
        let wait = self.changed.wait_while(guard, |state| held(state) && !state.ended && !gone(state));
        drop(wait.unwrap_or_else(PoisonError::into_inner));
    }

    fn gone(&self, id: usize) -> bool {
        self.state().wire(id).is_none()
    }

    /// Ends a connection, or its direction `side` if half-closing. Its threads notice that it has gone, and leave it
    /// alone.
    fn end(&self, id: usize, side: usize, end: End) {
        let wire = {
            let mut state = self.state();
            let Some(at) = state.wire(id) else { return };
            if end == End::HalfClose {
                let (_, near, far) = &state.wires[at];
                let _ = if side == 0 { far } else { near }.shutdown(Shutdown::Write);
                return;
            }
            state.wires.remove(at)
        };
        self.changed.notify_all();
        let (_, near, far) = wire;
        if end == End::Reset {
            reset(&near);
            reset(&far);
        }
        let _ = near.shutdown(Shutdown::Both);
        let _ = far.shutdown(Shutdown::Both);
    }
}

impl State {
    fn wire(&self, id: usize) -> Option<usize> {
        self.wires.iter().position(|(known, ..)| *known == id)
    }
}

/// Resets a connection while other threads hold its socket. Linux sends RST for a socket that is dissolved, and refuses
/// to while a thread sleeps in it; shutting down the reading side wakes that thread.
fn reset(socket: &TcpStream) {
    let _ = socket.shutdown(Shutdown::Read);
    for _ in 0..100 {
        if rustix::net::connect_unspec(socket).is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests;
