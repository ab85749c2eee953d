//! One turn of an engine: what it asks for through the port is collected, and done when the turn ends.
//!
//! Owns the sockets of one engine by handle. Every use of a handle that is dead, and every range beyond the input,
//! breaks the port's rules.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use weir_base::{Host, Peer, Span, Target, WorkerId};
use weir_config::Config;
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Io, Level, Response, Work};
use weir_pgwire::startup::{self, First};

use crate::check::Checker;
use crate::context::{Context, Event};
use crate::names::Found;
use crate::network::{Address, End, Owner, Written};
use crate::refused::{LOGGED, Says, refuses_a_request, says};
use crate::rng::Rng;

/// ReadyForQuery, outside of a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// What waits at a blocked peer must stay below this: whoever feeds it has been paused.
const MOST_WAITING: usize = 512 * 1024;

/// What is known of a socket, and what this turn queued for it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    end: Option<End>,
    /// Bytes to be written when the turn ends.
    queued: Vec<u8>,
    /// Whether it is in the list of those that were written to.
    touched: bool,
    closing: bool,
    /// In a handshake: nothing of the engine's may be said.
    shaking: bool,
    /// What a server connection was started for: database and user.
    started: Option<(String, String)>,
    /// Where it goes, as the engine wrote it.
    target: Option<Target>,
    /// The last bytes of its login, until that is over.
    login: Option<Vec<u8>>,
    /// The address that was connected to.
    remote: Option<IpAddr>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Kind {
    #[default]
    Client,
    /// Towards a server; nothing has been sent yet.
    FreshServer,
    Server,
}

impl Turn {
    /// A client's socket.
    pub(crate) fn client() -> Turn {
        Turn::default()
    }

    /// What a server connection was started for: database and user.
    pub(crate) fn started(&self) -> Option<&(String, String)> {
        self.started.as_ref()
    }
}

/// A socket on its way to another engine.
pub(crate) type Carried = (End, Turn);

/// The sockets of one engine.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<(u32, Option<Turn>)>,
    free: Vec<u32>,
    /// A server connection has been started since this was asked last.
    started: bool,
    /// What server connections were started for that have ended since this was asked last.
    gone: Vec<(String, String)>,
}

impl Slots {
    /// A handle for a socket that is about to be filled in.
    pub(crate) fn reserve(&mut self) -> Peer {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.0 += 1;
        Peer::new(slot, entry.0)
    }

    /// Gives a reserved handle its socket.
    pub(crate) fn fill(&mut self, peer: Peer, end: End, mut turn: Turn) {
        turn.end = Some(end);
        self.slots[peer.slot as usize].1 = Some(turn);
    }

    /// The socket of a handle that is alive.
    pub(crate) fn end(&self, peer: Peer) -> Option<End> {
        let (generation, turn) = self.slots.get(peer.slot as usize)?;
        turn.as_ref().filter(|_| *generation == peer.generation)?.end
    }

    /// The address that a server connection goes to.
    pub(crate) fn remote(&mut self, peer: Peer) -> Option<IpAddr> {
        self.get(peer)?.remote
    }

    /// A handle chosen at random, if it is alive.
    pub(crate) fn any(&self, rng: &mut Rng) -> Option<Peer> {
        let slot = rng.below(self.slots.len() as u64) as u32;
        let (generation, turn) = self.slots.get(slot as usize)?;
        turn.as_ref().map(|_| Peer::new(slot, *generation))
    }

    /// A handshake is done: the engine may speak again.
    pub(crate) fn shaken(&mut self, peer: Peer) {
        if let Some(turn) = self.get(peer) {
            turn.shaking = false;
        }
    }

    /// Ends a handle's life.
    pub(crate) fn remove(&mut self, peer: Peer) {
        if let Some(turn) = self.get(peer) {
            let started = turn.started.take();
            self.gone.extend(started);
            self.slots[peer.slot as usize].1 = None;
            self.free.push(peer.slot);
        }
    }

    /// Ends the life of all handles.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = End> {
        std::mem::take(&mut self.slots).into_iter().filter_map(|(_, turn)| turn?.end)
    }

    /// What each server connection was started for.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.slots.iter().filter_map(|(_, turn)| turn.as_ref()?.started.as_ref()).map(|(d, u)| (d.as_str(), u.as_str()))
    }

    /// A server has said something: its login is over with its first ReadyForQuery.
    pub(crate) fn heard(&mut self, peer: Peer, bytes: &[u8]) {
        let Some(turn) = self.get(peer) else { return };
        let Some(login) = &mut turn.login else { return };
        login.extend_from_slice(bytes);
        if login.windows(READY.len()).any(|window| window == READY) {
            turn.login = None;
        } else {
            login.drain(..login.len().saturating_sub(READY.len() - 1));
        }
    }

    /// How many logins are under way to each place.
    pub(crate) fn logins(&self) -> BTreeMap<String, usize> {
        let mut logins = BTreeMap::new();
        let turns = self.slots.iter().filter_map(|(_, turn)| turn.as_ref()).filter(|turn| turn.login.is_some());
        turns.filter_map(|turn| turn.target.as_ref()).for_each(|to| *logins.entry(to.to_string()).or_insert(0) += 1);
        logins
    }

    /// Whether a server connection has been started since this was asked last.
    pub(crate) fn take_started(&mut self) -> bool {
        std::mem::take(&mut self.started)
    }

    /// What server connections were started for that have ended since this was asked last.
    pub(crate) fn take_gone(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.gone)
    }

    fn get(&mut self, peer: Peer) -> Option<&mut Turn> {
        let (generation, turn) = self.slots.get_mut(peer.slot as usize)?;
        turn.as_mut().filter(|_| *generation == peer.generation)
    }
}

/// What an engine asked for beyond its sockets.
#[derive(Default)]
pub(crate) struct Wishes {
    pub(crate) helps: Vec<(u64, Work)>,
    pub(crate) posts: Vec<(WorkerId, Message, Option<Carried>)>,
    pub(crate) detaches: Vec<Peer>,
    /// What has been found of names; heard after a while.
    pub(crate) looks: Vec<Found>,
    /// Clients to shake hands with, and what they have sent of that already.
    pub(crate) handshakes: Vec<(Peer, Vec<u8>)>,
    /// Peers whose sockets refused bytes just now.
    pub(crate) blocked: Vec<Peer>,
    /// Clients that were told that their pool is full, by their numbers.
    pub(crate) crowded_out: Vec<u32>,
    pub(crate) accept: Option<bool>,
    /// New settings were taken over.
    pub(crate) adopted: bool,
    pub(crate) exit: Option<i32>,
}

/// The port of one turn.
pub(crate) struct SimIo<'a> {
    worker: u16,
    ctx: &'a mut Context,
    slots: &'a mut Slots,
    input: &'a [u8],
    /// Peers that were written to or closed, in the order of the first time.
    touched: Vec<Peer>,
    /// The last fatal error for a client.
    fatal: Option<(Peer, (Says, String))>,
    wishes: Wishes,
}

impl<'a> SimIo<'a> {
    /// Begins a turn whose input has these bytes.
    pub(crate) fn new(worker: u16, ctx: &'a mut Context, slots: &'a mut Slots, input: &'a [u8]) -> SimIo<'a> {
        SimIo { worker, ctx, slots, input, touched: Vec::new(), fatal: None, wishes: Wishes::default() }
    }

    /// Ends the turn: writes what was queued, closes what was to be closed.
    pub(crate) fn finish(mut self) -> Wishes {
        for peer in std::mem::take(&mut self.touched) {
            self.flush(peer);
        }
        self.wishes
    }

    fn flush(&mut self, peer: Peer) {
        let Some(turn) = self.slots.get(peer) else { return };
        let Some(end) = turn.end else { return };
        turn.touched = false;
        let closing = turn.closing;
        let queued = std::mem::take(&mut turn.queued);
        let was_blocked = self.ctx.net.is_blocked(end);
        let refused = self.ctx.write(end, &queued) == Written::Refused;
        if closing {
            self.slots.remove(peer);
            self.ctx.close(end);
            return;
        }
        if refused && !was_blocked {
            self.wishes.blocked.push(peer);
        }
        let waiting = self.ctx.net.backlog(end);
        if waiting > MOST_WAITING {
            let worker = self.worker;
            self.ctx.violated(Checker::LimitsHold, || format!("{waiting} bytes wait for w{worker}'s {peer:?}"));
        }
    }

    /// The socket of a handle that must be alive.
    fn alive(&mut self, peer: Peer, what: &str) -> Option<&mut Turn> {
        let alive = self.slots.get(peer).is_some_and(|turn| !turn.closing);
        if !alive {
            let worker = self.worker;
            self.ctx.violated(Checker::PortIsKept, || format!("w{worker}: {what} of {peer:?}, which is dead"));
            return None;
        }
        self.slots.get(peer)
    }

    /// Where a connect goes to, if it goes to a name. The engine hears of a new answer before it hears what came of the
    /// connect, which takes some time.
    fn resolved(&mut self, to: &Target) -> Target {
        let (Host::Name(name), now, worker) = (&to.host, self.ctx.now(), self.worker) else { return to.clone() };
        let Some((address, found)) = self.ctx.names.resolve(now, worker, name) else { return to.clone() };
        if let Some(found) = found {
            self.ctx.queue.after(Span::ZERO, Event::Found { worker, found: Box::new(found) });
        }
        Target { host: Host::Ip(address), port: to.port }
    }

    /// Keeps the books of what clients are refused with. A fatal error that the log has no line about was the server's.
    fn note_refusal(&mut self, text: &str) {
        self.ctx.refused.logged(text);
        let Some((to, (says, message))) = self.fatal.take() else { return };
        if text.strip_prefix(LOGGED) != Some(&*message) {
            return;
        }
        self.ctx.refused.told(says);
        let Some(turn) = self.slots.get(to) else { return };
        if says == Says::PoolFull
            && let Some(Owner::Client(number)) = turn.end.map(|end| self.ctx.net.owner(end.peer()))
        {
            self.wishes.crowded_out.push(number);
        }
    }

    fn queue(&mut self, peer: Peer, bytes: &[u8], what: &str) {
        let Some(turn) = self.alive(peer, what) else { return };
        if turn.shaking {
            return self.ctx.violated(Checker::PortIsKept, || format!("{what} to {peer:?} in its handshake"));
        }
        let mut started = false;
        if turn.kind == Kind::FreshServer {
            let first = startup::first(bytes);
            if !matches!(first, Ok(Some((First::Ssl, _)))) {
                turn.kind = Kind::Server;
            }
            if let Ok(Some((First::Startup(startup), _))) = first {
                let text = |name: &[u8]| String::from_utf8_lossy(startup.get(name).unwrap_or_default()).into_owned();
                turn.started = Some((text(b"database"), text(b"user")));
                turn.login = Some(Vec::new());
                started = true;
            }
        }
        turn.queued.extend_from_slice(bytes);
        let end = turn.end;
        let first = !std::mem::replace(&mut turn.touched, true);
        self.slots.started |= started;
        if first {
            self.touched.push(peer);
        }
        if self.ctx.misled.hearing
            && let Some(Owner::Client(client)) = end.map(|end| self.ctx.net.owner(end.peer()))
        {
            self.ctx.misled.add(client);
        }
    }
}

impl Io for SimIo<'_> {
    fn forward(&mut self, to: Peer, range: Range<usize>) {
        let input = self.input;
        match input.get(range.clone()) {
            Some(bytes) => self.queue(to, bytes, "forward"),
            None => {
                let length = input.len();
                self.ctx.violated(Checker::PortIsKept, || format!("forward of {range:?} of {length} bytes"));
            }
        }
    }

    fn send(&mut self, to: Peer, bytes: &[u8]) {
        let client = self.slots.get(to).is_some_and(|turn| turn.kind == Kind::Client);
        self.fatal = says(bytes).filter(|_| client).map(|says| (to, says)).or(self.fatal.take());
        if client && refuses_a_request(bytes) {
            self.ctx.refused.told_of_a_request();
        }
        self.queue(to, bytes, "send");
    }

    fn connect(&mut self, to: &Target) -> Peer {
        let peer = self.slots.reserve();
        let address = self.resolved(to);
        let remote = if let Host::Ip(address) = address.host { Some(address) } else { None };
        let end = self.ctx.connect(Owner::Engine(self.worker, peer), Address::Server(address));
        let target = Some(to.clone());
        self.slots.fill(peer, end, Turn { kind: Kind::FreshServer, remote, target, ..Turn::default() });
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} connects {peer:?}"));
        peer
    }

    fn look_up(&mut self, name: &Arc<str>) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} looks {name} up"));
        let found = self.ctx.names.look_up(self.ctx.now(), worker, name.clone());
        self.wishes.looks.push(found);
    }

    fn close(&mut self, peer: Peer) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} closes {peer:?}"));
        let Some(turn) = self.alive(peer, "close") else { return };
        turn.closing = true;
        if !std::mem::replace(&mut turn.touched, true) {
            self.touched.push(peer);
        }
    }

    fn pause(&mut self, peer: Peer) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} pauses {peer:?}"));
        if let Some(end) = self.alive(peer, "pause").and_then(|turn| turn.end) {
            self.ctx.net.pause(end);
        }
    }

    fn resume(&mut self, peer: Peer) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} resumes {peer:?}"));
        // Whoever shakes hands is heard when that is over.
        if let Some(end) = self.alive(peer, "resume").filter(|turn| !turn.shaking).and_then(|turn| turn.end) {
            self.ctx.resume(end);
        }
    }

    fn detach(&mut self, peer: Peer) {
        if let Some(end) = self.alive(peer, "detach").and_then(|turn| turn.end) {
            self.ctx.net.pause(end);
            self.wishes.detaches.push(peer);
        }
    }

    fn post(&mut self, to: WorkerId, message: Message, socket: Option<Peer>) {
        let socket = socket.and_then(|peer| {
            let turn = self.alive(peer, "post").map(std::mem::take);
            self.slots.remove(peer);
            turn.and_then(|turn| Some((turn.end?, turn)))
        });
        self.wishes.posts.push((to, message, socket));
    }

    fn help(&mut self, job: u64, work: Work) {
        self.wishes.helps.push((job, work));
    }

    fn start_tls(&mut self, peer: Peer, handshake: Handshake) {
        let worker = self.worker;
        self.ctx.note(|| format!("w{worker} shakes hands with {peer:?}"));
        let received = match handshake {
            Handshake::Accept { received } => received,
            Handshake::Connect { .. } => Vec::new(),
        };
        let Some(turn) = self.alive(peer, "handshake") else { return };
        turn.shaking = true;
        if let Some(end) = turn.end {
            self.ctx.net.pause(end);
            self.wishes.handshakes.push((peer, received));
        }
    }

    fn log(&mut self, level: Level, about: About<'_>, text: fmt::Arguments<'_>) {
        let worker = self.worker;
        self.note_refusal(&text.to_string());
        self.ctx.port(|| format!("w{worker} log {level:?}: {about}{text}"));
    }

    fn adopt(&mut self, _config: &Arc<Config>) {
        self.wishes.adopted = true;
    }

    fn accept(&mut self, on: bool) {
        self.wishes.accept = Some(on);
    }

    fn answer(&mut self, _: u64, _: Response) {
        unreachable!("nobody asks from outside in this world");
    }

    fn exit(&mut self, status: i32) {
        self.wishes.exit = Some(status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Violation;
    use crate::context::Rules;
    use crate::trace::Detail;
    use crate::weather::Weather;

    const PEER: Peer = Peer::new(0, 1);

    /// What one turn does with a context whose only socket is `PEER`.
    fn turn(act: impl FnOnce(&mut SimIo<'_>)) -> Option<Violation> {
        let mut ctx = Context::new(Rules::default(), Weather::calm(), Rng::new(1), Detail::Protocol);
        let near = ctx.connect(Owner::Nobody, Address::Pooler);
        let end = ctx.net.accept(near.conn, Owner::Engine(0, PEER));
        let mut slots = Slots::default();
        assert_eq!(slots.reserve(), PEER);
        slots.fill(PEER, end, Turn::client());
        let mut io = SimIo::new(0, &mut ctx, &mut slots, b"input");
        act(&mut io);
        io.finish();
        ctx.violation
    }

    fn checker(act: impl FnOnce(&mut SimIo<'_>)) -> Option<Checker> {
        turn(act).map(|violation| violation.checker)
    }

    #[test]
    fn an_engine_that_keeps_the_rules_is_left_alone() {
        let ordinary = |io: &mut SimIo<'_>| {
            io.forward(PEER, 0..5);
            io.send(PEER, b"more");
            io.pause(PEER);
            io.resume(PEER);
            io.close(PEER);
        };
        assert_eq!(checker(ordinary), None);
    }

    #[test]
    fn the_use_of_a_dead_handle_is_caught() {
        let dead = Peer::new(0, 7);
        assert_eq!(checker(|io| io.send(dead, b"x")), Some(Checker::PortIsKept));
        assert_eq!(checker(|io| io.close(dead)), Some(Checker::PortIsKept));
        assert_eq!(checker(|io| io.resume(dead)), Some(Checker::PortIsKept));
        let twice = |io: &mut SimIo<'_>| {
            io.close(PEER);
            io.close(PEER);
        };
        assert_eq!(checker(twice), Some(Checker::PortIsKept));
    }

    #[test]
    fn a_range_beyond_the_input_is_caught() {
        assert_eq!(checker(|io| io.forward(PEER, 3..6)), Some(Checker::PortIsKept));
    }

    #[test]
    fn a_peer_that_is_fed_without_end_is_caught() {
        assert_eq!(checker(|io| io.send(PEER, &vec![0; 400_000])), None);
        assert_eq!(checker(|io| io.send(PEER, &vec![0; 700_000])), Some(Checker::LimitsHold));
    }
}
