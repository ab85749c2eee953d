//! A model of TCP: connections of two pipes, each bounded and slow, which split and join bytes at random.
//!
//! Owns every connection of the world and decides when bytes arrive and in which pieces. Must not know what the bytes
//! mean, and of their reader only its name. Invariants: bytes arrive in order, once, and before the end of file that
//! follows them; a pipe never holds more than its window; the owner of a closed end receives no more events of it.

use std::collections::{BTreeMap, VecDeque};

use weir_base::{Span, Time};

use crate::conditions::Conditions;
use crate::context::Event;
use crate::queue::Queue;
use crate::rng::Rng;

pub(crate) use crate::ends::{Address, End, NetEvent, Owner, Side, SocketEvent, Written};

/// After a close, data that the other end has not read is kept for this long.
const LINGER: Span = Span::from_secs(5);

/// All connections.
pub(crate) struct Net {
    conns: Vec<Option<Box<Conn>>>,
    open: usize,
    conditions: Conditions,
    /// Each connection's random stream is forked from this one; nothing is drawn from this one.
    root: Rng,
    /// How many connections each client has started.
    begun: BTreeMap<u64, u64>,
}

struct Conn {
    address: Address,
    /// The far end has been accepted.
    established: bool,
    /// Reset; each open end gets one [`SocketEvent::Error`].
    broken: bool,
    /// The connection's own random stream, which no other connection changes.
    rng: Rng,
    ends: [EndState; 2],
}

/// An end, with the pipe that leads away from it.
struct EndState {
    owner: Owner,
    /// The present or last owner, for the transcript.
    last_owner: Owner,
    open: bool,
    paused: bool,
    /// Bytes in transit.
    pipe: VecDeque<u8>,
    window: usize,
    /// Written, but refused by the pipe.
    backlog: VecDeque<u8>,
    /// The owner got [`Written::Refused`], and not yet [`SocketEvent::Drained`].
    blocked: bool,
    /// Nothing will be written after the backlog.
    finished: bool,
    /// The other end has read the end of file.
    fin_read: bool,
    /// A delivery out of this end's pipe is scheduled.
    scheduled: bool,
    /// Nothing out of this pipe arrives before this time.
    stalled: Time,
    /// Bytes written so far, and bytes read by the other end.
    written: u64,
    read: u64,
}

impl EndState {
    fn new(owner: Owner, open: bool, window: usize) -> EndState {
        EndState {
            owner,
            last_owner: owner,
            open,
            paused: false,
            pipe: VecDeque::new(),
            window,
            backlog: VecDeque::new(),
            blocked: false,
            finished: false,
            fin_read: false,
            scheduled: false,
            stalled: Time::START,
            written: 0,
            read: 0,
        }
    }
}

impl Conn {
    fn end(&mut self, side: Side) -> &mut EndState {
        &mut self.ends[side as usize]
    }
}

impl Net {
    /// A network without connections.
    pub(crate) fn new(conditions: Conditions, rng: Rng) -> Net {
        Net { conns: Vec::new(), open: 0, conditions, root: rng, begun: BTreeMap::new() }
    }

    /// A connection's random stream; other connections do not change it.
    fn stream(&mut self, owner: Owner) -> Rng {
        let (kind, number) = match owner {
            Owner::Client(number) => ("client", u64::from(number)),
            Owner::Canceller(number) => ("canceller", u64::from(number)),
            Owner::Engine(worker, conn) => {
                let slot = u64::from(conn.slot) << 32 | u64::from(conn.generation);
                return self.root.fork("engine", u64::from(worker)).fork("slot", slot);
            }
            Owner::Backend(_) | Owner::None => ("other", self.conns.len() as u64),
        };
        let begun = self.begun.entry(number << 1 | u64::from(kind == "client")).or_default();
        *begun += 1;
        self.root.fork(kind, number).fork("connection", *begun)
    }

    /// The owner of an end, or its last owner if it is closed.
    pub(crate) fn owner(&self, end: End) -> Owner {
        self.conn(end.conn).map_or(Owner::None, |conn| conn.ends[end.side as usize].last_owner)
    }

    /// How many connections have at least one open end.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Owners of the ends that are still open, for a report.
    pub(crate) fn open_ends(&self) -> impl Iterator<Item = (End, Owner)> {
        self.conns.iter().enumerate().filter_map(|(i, c)| Some((i as u32, c.as_ref()?))).flat_map(|(conn, c)| {
            [Side::Near, Side::Far].into_iter().filter(|s| c.ends[*s as usize].open).map(move |side| {
                let owner = c.ends[side as usize].owner;
                (End { conn, side }, owner)
            })
        })
    }

    /// Changes how the network behaves from now on.
    pub(crate) fn set_conditions(&mut self, conditions: Conditions) {
        self.conditions = conditions;
    }

    /// Starts a connection; its owner gets [`SocketEvent::Connected`] or [`SocketEvent::ConnectFailed`].
    pub(crate) fn connect(&mut self, queue: &mut Queue<Event>, owner: Owner, address: Address) -> End {
        let conn = self.conns.len() as u32;
        let mut rng = self.stream(owner);
        let (low, high) = self.conditions.window;
        let windows: [usize; 2] = std::array::from_fn(|_| rng.between(low, high) as usize);
        let delay = latency(&mut rng, &self.conditions);
        let ends = [EndState::new(owner, true, windows[0]), EndState::new(Owner::None, false, windows[1])];
        self.conns.push(Some(Box::new(Conn { address, established: false, broken: false, rng, ends })));
        self.open += 1;
        queue.after(delay, Event::Net(NetEvent::Arrive(conn)));
        End { conn, side: Side::Near }
    }

    /// Answers [`SocketEvent::Arrived`]: `owner` gets the far end. The caller passes `Connected` to the near end.
    pub(crate) fn accept(&mut self, conn: u32, owner: Owner) -> End {
        let state = self.conns[conn as usize].as_mut().expect("an arriving connection exists");
        state.established = true;
        let far = state.end(Side::Far);
        far.owner = owner;
        far.last_owner = owner;
        far.open = true;
        End { conn, side: Side::Far }
    }

    /// Answers [`SocketEvent::Arrived`]: there is no listener. Closes the near end; the caller passes `ConnectFailed`
    /// to it.
    pub(crate) fn refuse(&mut self, conn: u32) {
        if let Some(state) = self.conns[conn as usize].as_mut() {
            state.end(Side::Near).open = false;
        }
        self.reap(conn);
    }

    /// Gives an open end to another owner.
    pub(crate) fn set_owner(&mut self, end: End, owner: Owner) {
        if let Some(state) = self.state(end) {
            state.owner = owner;
            if owner != Owner::None {
                state.last_owner = owner;
            }
        }
    }

    /// Writes bytes; those that do not fit into the pipe wait at this end.
    pub(crate) fn write(&mut self, queue: &mut Queue<Event>, end: End, bytes: &[u8]) -> Written {
        let Some(conn) = self.conns[end.conn as usize].as_mut() else { return Written::All };
        let reset = conn.rng.chance(self.conditions.resets);
        let reader_open = conn.end(end.side.other()).open || !conn.established;
        let broken = conn.broken;
        let state = conn.end(end.side);
        if !state.open || state.finished || broken {
            return Written::All;
        }
        state.written += bytes.len() as u64;
        if !reader_open {
            state.read = state.written;
            if reset && !bytes.is_empty() {
                conn.broken = true;
                self.schedule(queue, end.peer());
            }
            return Written::All;
        }
        let room = if state.backlog.is_empty() { state.window.saturating_sub(state.pipe.len()) } else { 0 };
        let taken = room.min(bytes.len());
        state.pipe.extend(&bytes[..taken]);
        state.backlog.extend(&bytes[taken..]);
        let refused = !state.backlog.is_empty();
        state.blocked |= refused;
        self.schedule(queue, end);
        if refused { Written::Refused } else { Written::All }
    }

    /// Whether an end is open.
    pub(crate) fn is_open(&self, end: End) -> bool {
        self.conn(end.conn).is_some_and(|c| c.ends[end.side as usize].open)
    }

    /// Whether bytes of this end's owner wait for room in the pipe.
    pub(crate) fn is_blocked(&self, end: End) -> bool {
        self.conn(end.conn).is_some_and(|c| c.ends[end.side as usize].blocked)
    }

    /// How many bytes of this end's owner wait for room in the pipe.
    pub(crate) fn backlog(&self, end: End) -> usize {
        self.conn(end.conn).map_or(0, |c| c.ends[end.side as usize].backlog.len())
    }

    /// How many bytes this end's owner has written so far, and how many of them the other end has read.
    pub(crate) fn progress(&self, end: End) -> (u64, u64) {
        self.conn(end.conn).map_or((0, 0), |c| {
            let state = &c.ends[end.side as usize];
            (state.written, state.read)
        })
    }

    /// Ends writing; reading continues.
    pub(crate) fn shutdown(&mut self, queue: &mut Queue<Event>, end: End) {
        if let Some(state) = self.state(end) {
            state.finished = true;
            self.schedule(queue, end);
        }
    }

    /// Closes an end in order: written bytes are still delivered, arriving ones are discarded.
    pub(crate) fn close(&mut self, queue: &mut Queue<Event>, end: End) {
        let Some(conn) = self.conns[end.conn as usize].as_mut() else { return };
        let state = conn.end(end.side);
        if !state.open {
            return;
        }
        state.open = false;
        state.owner = Owner::None;
        state.finished = true;
        if !state.backlog.is_empty() {
            queue.after(LINGER, Event::Net(NetEvent::Linger(end)));
        }
        let other = conn.end(end.side.other());
        other.pipe.clear();
        other.backlog.clear();
        other.read = other.written;
        if other.blocked {
            queue.after(Span::ZERO, Event::Net(NetEvent::Drained(end.peer())));
        }
        self.schedule(queue, end);
        self.reap(end.conn);
    }

    /// Closes an end with a reset: bytes that were written and not yet read are lost.
    pub(crate) fn abort(&mut self, queue: &mut Queue<Event>, end: End) {
        let Some(state) = self.state(end) else { return };
        state.open = false;
        state.owner = Owner::None;
        self.cut(queue, end.conn);
    }

    /// Resets a connection: both ends get an error.
    pub(crate) fn cut(&mut self, queue: &mut Queue<Event>, conn: u32) {
        let Some(state) = self.conns[conn as usize].as_mut() else { return };
        state.broken = true;
        for end in &mut state.ends {
            end.pipe.clear();
            end.backlog.clear();
        }
        for side in [Side::Near, Side::Far] {
            self.schedule(queue, End { conn, side });
        }
        self.reap(conn);
    }

    /// Holds back all that this end's owner writes until `until`.
    pub(crate) fn stall(&mut self, end: End, until: Time) {
        if let Some(state) = self.state(end) {
            state.stalled = until;
        }
    }

    /// Stops reading until [`Net::resume`].
    pub(crate) fn pause(&mut self, end: End) {
        if let Some(state) = self.state(end) {
            state.paused = true;
        }
    }

    /// Reads again.
    pub(crate) fn resume(&mut self, queue: &mut Queue<Event>, end: End) {
        if let Some(state) = self.state(end) {
            state.paused = false;
            self.schedule(queue, end.peer());
        }
    }

    /// The end of what was sent to this end comes again once it reads again. Returns whether it is paused.
    pub(crate) fn ends_again(&mut self, end: End) -> bool {
        let paused = self.state(end).is_some_and(|state| state.paused);
        if paused && let Some(conn) = self.conns[end.conn as usize].as_mut() {
            conn.end(end.side.other()).fin_read = false;
        }
        paused
    }

    /// A random established connection, if there is one.
    pub(crate) fn any_conn(&self, rng: &mut Rng) -> Option<u32> {
        let from = self.conns.len().saturating_sub(400) as u64;
        (0..20).find_map(|_| {
            let number = rng.between(from, (self.conns.len() as u64).max(from + 1) - 1) as u32;
            self.conn(number).filter(|c| c.established).map(|_| number)
        })
    }

    /// Handles one event; bytes that arrive are put into `scratch`.
    pub(crate) fn step(
        &mut self,
        queue: &mut Queue<Event>,
        event: NetEvent,
        scratch: &mut Vec<u8>,
    ) -> Option<(End, Owner, SocketEvent)> {
        match event {
            NetEvent::Arrive(conn) => {
                let state = self.conn(conn)?;
                let address = state.address.clone();
                Some((End { conn, side: Side::Near }, state.ends[0].owner, SocketEvent::Arrived(address)))
            }
            NetEvent::Deliver(end) => self.deliver(queue, end, scratch),
            NetEvent::Drained(end) => {
                let state = self.state(end)?;
                if !state.blocked || !state.backlog.is_empty() {
                    return None;
                }
                state.blocked = false;
                Some((end, state.owner, SocketEvent::Drained))
            }
            NetEvent::Linger(end) => {
                if self.backlog(end) > 0 {
                    self.cut(queue, end.conn);
                }
                None
            }
        }
    }

    fn deliver(
        &mut self,
        queue: &mut Queue<Event>,
        end: End,
        scratch: &mut Vec<u8>,
    ) -> Option<(End, Owner, SocketEvent)> {
        let conn = self.conns[end.conn as usize].as_mut()?;
        let broken = conn.broken;
        let now = queue.now();
        let source = conn.end(end.side.other());
        source.scheduled = false;
        if now < source.stalled && !broken {
            source.scheduled = true;
            queue.at(source.stalled, Event::Net(NetEvent::Deliver(end)));
            return None;
        }
        let reader = conn.end(end.side);
        if !reader.open {
            return None;
        }
        let owner = reader.owner;
        if broken {
            reader.open = false;
            reader.owner = Owner::None;
            self.reap(end.conn);
            return Some((end, owner, SocketEvent::Error));
        }
        let paused = reader.paused;
        let source = conn.end(end.side.other());
        if paused {
            let announced = source.finished && source.backlog.is_empty();
            return announced.then_some((end, owner, SocketEvent::Ending));
        }
        if source.pipe.is_empty() {
            if !source.finished || source.fin_read {
                return None;
            }
            source.fin_read = true;
            return Some((end, owner, SocketEvent::Eof));
        }
        let available = source.pipe.len();
        let n = Self::piece(&mut conn.rng, &self.conditions, available);
        let source = conn.end(end.side.other());
        take(&mut source.pipe, n, scratch);
        source.read += n as u64;
        self.refill(queue, end.peer());
        Some((end, owner, SocketEvent::Bytes))
    }

    fn piece(rng: &mut Rng, conditions: &Conditions, available: usize) -> usize {
        let most = available.min(conditions.read);
        if rng.chance(conditions.trickle) {
            1
        } else if rng.chance(conditions.split) {
            rng.between(1, most as u64) as usize
        } else {
            most
        }
    }

    /// Moves bytes that wait at `end` into its pipe.
    fn refill(&mut self, queue: &mut Queue<Event>, end: End) {
        let Some(conn) = self.conns[end.conn as usize].as_mut() else { return };
        let state = conn.end(end.side);
        let room = state.window.saturating_sub(state.pipe.len()).min(state.backlog.len());
        state.pipe.extend(state.backlog.drain(..room));
        if state.blocked && state.backlog.is_empty() {
            queue.after(Span::from_micros(1), Event::Net(NetEvent::Drained(end)));
        }
        self.schedule(queue, end);
    }

    /// Schedules a delivery out of the pipe of `end`, if there is something to deliver and none is scheduled.
    fn schedule(&mut self, queue: &mut Queue<Event>, end: End) {
        let Some(conn) = self.conns[end.conn as usize].as_mut() else { return };
        let broken = conn.broken;
        let state = conn.end(end.side);
        let something = !state.pipe.is_empty() || (state.finished && !state.fin_read) || broken;
        if something && !state.scheduled {
            state.scheduled = true;
            let delay = latency(&mut conn.rng, &self.conditions);
            queue.after(delay, Event::Net(NetEvent::Deliver(end.peer())));
        }
    }

    fn reap(&mut self, conn: u32) {
        let slot = &mut self.conns[conn as usize];
        if slot.as_ref().is_some_and(|c| c.ends.iter().all(|e| !e.open)) {
            *slot = None;
            self.open -= 1;
        }
    }

    fn conn(&self, conn: u32) -> Option<&Conn> {
        self.conns.get(conn as usize)?.as_deref()
    }

    /// The state of an end that is open.
    fn state(&mut self, end: End) -> Option<&mut EndState> {
        let state = self.conns[end.conn as usize].as_mut()?.end(end.side);
        state.open.then_some(state)
    }
}

fn latency(rng: &mut Rng, conditions: &Conditions) -> Span {
    let (low, high) = conditions.latency;
    rng.span(low, high)
}

/// Moves bytes off the front into `scratch`, replacing its contents.
fn take(pipe: &mut VecDeque<u8>, count: usize, scratch: &mut Vec<u8>) {
    let (front, back) = pipe.as_slices();
    let first = count.min(front.len());
    scratch.clear();
    scratch.extend_from_slice(&front[..first]);
    scratch.extend_from_slice(&back[..count - first]);
    pipe.drain(..count);
}
