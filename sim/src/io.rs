//! The port of one engine input: collects the engine's requests and executes them after the input is handled.
//!
//! Owns the sockets of one engine by handle. Use of a dead handle, or of a range beyond the input, breaks the port's
//! rules.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use weir_base::{ConnId, Host, Span, Target, WorkerId};
use weir_config::Config;
use weir_engine::Message;
use weir_engine::port::{About, Handshake, Io, Level, Response, Work};
use weir_pgwire::startup::{self, First};

use crate::check::Checker;
use crate::context::{Context, Event};
use crate::names::DnsAnswer;
use crate::network::{Address, End, Owner, Written};
use crate::refused::{Class, LOGGED, classify, names_an_away_server, refuses_a_request};
use crate::rng::Rng;

/// ReadyForQuery outside a transaction.
const READY: &[u8] = b"Z\0\0\0\x05I";

/// Bytes waiting at a blocked connection must stay below this: their source has been paused.
const MOST_WAITING: usize = 512 * 1024;

/// Messages that are made of stored statements may be as many more, and one beyond that.
const MOST_COMPOSED: usize = 1 << 20;

/// A socket, and what the present input queued for it.
#[derive(Debug, Default)]
pub(crate) struct Socket {
    end: Option<End>,
    /// Bytes to be written after the input is handled.
    queued: Vec<u8>,
    /// The socket is in [`SimIo::touched`].
    touched: bool,
    closing: bool,
    /// During a TLS handshake the engine must not send.
    in_handshake: bool,
    /// What a server connection was started for: database and user.
    started: Option<(String, String)>,
    /// The connection's target as the engine gave it.
    target: Option<Target>,
    /// The last bytes received during its login; `None` after the login.
    login: Option<Vec<u8>>,
    /// The address that was connected to.
    remote: Option<IpAddr>,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Kind {
    #[default]
    Client,
    /// A server connection on which nothing has been sent yet.
    FreshServer,
    Server,
}

impl Socket {
    /// A client's socket.
    pub(crate) fn client() -> Socket {
        Socket::default()
    }

    /// What a server connection was started for: database and user.
    pub(crate) fn started(&self) -> Option<&(String, String)> {
        self.started.as_ref()
    }
}

/// A socket in transit to another engine.
pub(crate) type Handoff = (End, Socket);

/// The sockets of one engine.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    slots: Vec<(u32, Option<Socket>)>,
    free: Vec<u32>,
    /// A server connection was started since the last [`Sockets::take_started`].
    started: bool,
    /// Database and user of each server connection that ended since the last [`Sockets::take_gone`].
    gone: Vec<(String, String)>,
}

impl Sockets {
    /// A handle whose socket [`Sockets::fill`] will set.
    pub(crate) fn reserve(&mut self) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.0 += 1;
        ConnId::new(slot, entry.0)
    }

    /// Gives a reserved handle its socket.
    pub(crate) fn fill(&mut self, conn: ConnId, end: End, mut socket: Socket) {
        socket.end = Some(end);
        self.slots[conn.slot as usize].1 = Some(socket);
    }

    /// The socket of a handle that is alive.
    pub(crate) fn end(&self, conn: ConnId) -> Option<End> {
        let (generation, socket) = self.slots.get(conn.slot as usize)?;
        socket.as_ref().filter(|_| *generation == conn.generation)?.end
    }

    /// The address that a server connection goes to.
    pub(crate) fn remote(&mut self, conn: ConnId) -> Option<IpAddr> {
        self.get(conn)?.remote
    }

    /// A handle chosen at random, if it is alive.
    pub(crate) fn any(&self, rng: &mut Rng) -> Option<ConnId> {
        let slot = rng.below(self.slots.len() as u64) as u32;
        let (generation, socket) = self.slots.get(slot as usize)?;
        socket.as_ref().map(|_| ConnId::new(slot, *generation))
    }

    /// A handshake is done: the engine may send again.
    pub(crate) fn handshake_done(&mut self, conn: ConnId) {
        if let Some(socket) = self.get(conn) {
            socket.in_handshake = false;
        }
    }

    /// Frees a handle.
    pub(crate) fn remove(&mut self, conn: ConnId) {
        if let Some(socket) = self.get(conn) {
            let started = socket.started.take();
            self.gone.extend(started);
            self.slots[conn.slot as usize].1 = None;
            self.free.push(conn.slot);
        }
    }

    /// Frees all handles.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = End> {
        std::mem::take(&mut self.slots).into_iter().filter_map(|(_, socket)| socket?.end)
    }

    /// Database and user of each server connection.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.slots
            .iter()
            .filter_map(|(_, socket)| socket.as_ref()?.started.as_ref())
            .map(|(d, u)| (d.as_str(), u.as_str()))
    }

    /// A server has sent bytes: its login ends with its first ReadyForQuery.
    pub(crate) fn received(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(socket) = self.get(conn) else { return };
        let Some(login) = &mut socket.login else { return };
        login.extend_from_slice(bytes);
        if login.windows(READY.len()).any(|window| window == READY) {
            socket.login = None;
        } else {
            login.drain(..login.len().saturating_sub(READY.len() - 1));
        }
    }

    /// How many logins are in progress at each target.
    pub(crate) fn logins(&self) -> BTreeMap<String, usize> {
        let mut logins = BTreeMap::new();
        let sockets =
            self.slots.iter().filter_map(|(_, socket)| socket.as_ref()).filter(|socket| socket.login.is_some());
        sockets
            .filter_map(|socket| socket.target.as_ref())
            .for_each(|to| *logins.entry(to.to_string()).or_insert(0) += 1);
        logins
    }

    /// Whether a server connection was started since the last call.
    pub(crate) fn take_started(&mut self) -> bool {
        std::mem::take(&mut self.started)
    }

    /// Database and user of each server connection that ended since the last call.
    pub(crate) fn take_gone(&mut self) -> Vec<(String, String)> {
        std::mem::take(&mut self.gone)
    }

    fn get(&mut self, conn: ConnId) -> Option<&mut Socket> {
        let (generation, socket) = self.slots.get_mut(conn.slot as usize)?;
        socket.as_mut().filter(|_| *generation == conn.generation)
    }
}

/// What an engine requested other than writes to its sockets.
#[derive(Default)]
pub(crate) struct Requests {
    pub(crate) helps: Vec<(u64, Work)>,
    pub(crate) posts: Vec<(WorkerId, Message, Option<Handoff>)>,
    pub(crate) detaches: Vec<ConnId>,
    /// DNS answers, delivered after a delay.
    pub(crate) looks: Vec<DnsAnswer>,
    /// Connections for TLS handshakes, and handshake bytes already received from each.
    pub(crate) handshakes: Vec<(ConnId, Vec<u8>)>,
    /// Connections whose sockets became blocked.
    pub(crate) blocked: Vec<ConnId>,
    /// Numbers of clients that were refused because their pool is full.
    pub(crate) pool_full: Vec<u32>,
    pub(crate) accept: Option<bool>,
    /// The engine adopted a new configuration.
    pub(crate) adopted: bool,
    pub(crate) exit: Option<i32>,
}

/// The port while one input is handled.
pub(crate) struct SimIo<'a> {
    worker: u16,
    ctx: &'a mut Context,
    sockets: &'a mut Sockets,
    input: &'a [u8],
    /// Connections that were written to or closed, in the order of the first such call.
    touched: Vec<ConnId>,
    /// The last fatal error sent to a client.
    fatal: Option<(ConnId, (Class, String))>,
    requests: Requests,
}

impl<'a> SimIo<'a> {
    /// The port for an input with these bytes.
    pub(crate) fn new(worker: u16, ctx: &'a mut Context, sockets: &'a mut Sockets, input: &'a [u8]) -> SimIo<'a> {
        SimIo { worker, ctx, sockets, input, touched: Vec::new(), fatal: None, requests: Requests::default() }
    }

    /// Writes what was queued and closes what was to be closed.
    pub(crate) fn finish(mut self) -> Requests {
        for conn in std::mem::take(&mut self.touched) {
            self.flush(conn);
        }
        self.requests
    }

    fn flush(&mut self, conn: ConnId) {
        let Some(socket) = self.sockets.get(conn) else { return };
        let Some(end) = socket.end else { return };
        socket.touched = false;
        let closing = socket.closing;
        let queued = std::mem::take(&mut socket.queued);
        let was_blocked = self.ctx.net.is_blocked(end);
        let refused = self.ctx.write(end, &queued) == Written::Refused;
        if closing {
            self.sockets.remove(conn);
            self.ctx.close(end);
            return;
        }
        if refused && !was_blocked {
            self.requests.blocked.push(conn);
        }
        let waiting = self.ctx.net.backlog(end);
        let stored = self.ctx.longest_stored;
        if waiting > MOST_WAITING + if stored > 0 { 2 * stored + MOST_COMPOSED } else { 0 } {
            let worker = self.worker;
            self.ctx.violated(Checker::LimitsHold, || format!("{waiting} bytes wait for w{worker}'s {conn:?}"));
        }
    }

    /// The socket of a handle that must be alive.
    fn alive(&mut self, conn: ConnId, what: &str) -> Option<&mut Socket> {
        let alive = self.sockets.get(conn).is_some_and(|socket| !socket.closing);
        if !alive {
            let worker = self.worker;
            self.ctx.violated(Checker::PortIsKept, || format!("w{worker}: {what} of {conn:?}, which is dead"));
            return None;
        }
        self.sockets.get(conn)
    }

    /// The address for a connect; names are resolved. The engine gets a new DNS answer before the result of the
    /// connect, which takes some time.
    fn resolved(&mut self, to: &Target) -> Target {
        let (Host::Name(name), now, worker) = (&to.host, self.ctx.now(), self.worker) else { return to.clone() };
        let Some((address, found)) = self.ctx.names.resolve(now, worker, name) else { return to.clone() };
        if let Some(found) = found {
            self.ctx.queue.after(Span::ZERO, Event::Resolved { worker, found: Box::new(found) });
        }
        Target { host: Host::Ip(address), port: to.port }
    }

    /// Counts the refusal that a log line reports. A fatal error without such a line came from the server.
    fn note_refusal(&mut self, text: &str) {
        let Some(logged) = text.strip_prefix(LOGGED) else { return };
        self.ctx.refused.logged();
        let Some((to, (class, message))) = self.fatal.take().filter(|(_, (_, message))| message == logged) else {
            return;
        };
        self.ctx.refused.count(class);
        self.ctx.counts.refused += 1;
        if names_an_away_server(&message) {
            self.ctx.violated(Checker::AwayServersAreWaitedFor, || format!("a client got the error {message:?}"));
        }
        let Some(socket) = self.sockets.get(to) else { return };
        if class == Class::PoolFull
            && let Some(Owner::Client(number)) = socket.end.map(|end| self.ctx.net.owner(end.peer()))
        {
            self.requests.pool_full.push(number);
        }
    }

    fn queue(&mut self, conn: ConnId, bytes: &[u8], what: &str) {
        let Some(socket) = self.alive(conn, what) else { return };
        if socket.in_handshake {
            return self.ctx.violated(Checker::PortIsKept, || format!("{what} to {conn:?} in its handshake"));
        }
        let mut started = false;
        if socket.kind == Kind::FreshServer {
            let first = startup::first(bytes);
            if !matches!(first, Ok(Some((First::Ssl, _)))) {
                socket.kind = Kind::Server;
            }
            if let Ok(Some((First::Startup(startup), _))) = first {
                let text = |name: &[u8]| String::from_utf8_lossy(startup.get(name).unwrap_or_default()).into_owned();
                socket.started = Some((text(b"database"), text(b"user")));
                socket.login = Some(Vec::new());
                started = true;
            }
        }
        socket.queued.extend_from_slice(bytes);
        let end = socket.end;
        let first = !std::mem::replace(&mut socket.touched, true);
        self.sockets.started |= started;
        if first {
            self.touched.push(conn);
        }
        if self.ctx.affected.handling
            && let Some(Owner::Client(client)) = end.map(|end| self.ctx.net.owner(end.peer()))
        {
            self.ctx.affected.add(client);
        }
    }
}

impl Io for SimIo<'_> {
    fn forward(&mut self, to: ConnId, range: Range<usize>) {
        let input = self.input;
        match input.get(range.clone()) {
            Some(bytes) => self.queue(to, bytes, "forward"),
            None => {
                let length = input.len();
                self.ctx.violated(Checker::PortIsKept, || format!("forward of {range:?} of {length} bytes"));
            }
        }
    }

    fn send(&mut self, to: ConnId, bytes: &[u8]) {
        let client = self.sockets.get(to).is_some_and(|socket| socket.kind == Kind::Client);
        self.fatal = classify(bytes).filter(|_| client).map(|refusal| (to, refusal)).or(self.fatal.take());
        if client && refuses_a_request(bytes) {
            self.ctx.refused.count_request();
        }
        self.queue(to, bytes, "send");
    }

    fn connect(&mut self, to: &Target) -> ConnId {
        let conn = self.sockets.reserve();
        let address = self.resolved(to);
        let remote = if let Host::Ip(address) = address.host { Some(address) } else { None };
        let end = self.ctx.connect(Owner::Engine(self.worker, conn), Address::Server(address));
        let target = Some(to.clone());
        self.sockets.fill(conn, end, Socket { kind: Kind::FreshServer, remote, target, ..Socket::default() });
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} connects {conn:?}"));
        conn
    }

    fn look_up(&mut self, name: &Arc<str>) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} looks {name} up"));
        let found = self.ctx.names.look_up(self.ctx.now(), worker, name.clone());
        self.requests.looks.push(found);
    }

    fn close(&mut self, conn: ConnId) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} closes {conn:?}"));
        let Some(socket) = self.alive(conn, "close") else { return };
        socket.closing = true;
        if !std::mem::replace(&mut socket.touched, true) {
            self.touched.push(conn);
        }
    }

    fn pause(&mut self, conn: ConnId) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} pauses {conn:?}"));
        if let Some(end) = self.alive(conn, "pause").and_then(|socket| socket.end) {
            self.ctx.net.pause(end);
        }
    }

    fn resume(&mut self, conn: ConnId) {
        let worker = self.worker;
        self.ctx.port(|| format!("w{worker} resumes {conn:?}"));
        // A connection in a handshake is read from after the handshake.
        if let Some(end) =
            self.alive(conn, "resume").filter(|socket| !socket.in_handshake).and_then(|socket| socket.end)
        {
            self.ctx.resume(end);
        }
    }

    fn detach(&mut self, conn: ConnId) {
        if let Some(end) = self.alive(conn, "detach").and_then(|socket| socket.end) {
            self.ctx.net.pause(end);
            self.requests.detaches.push(conn);
        }
    }

    fn post(&mut self, to: WorkerId, message: Message, socket: Option<ConnId>) {
        let handoff = socket.and_then(|conn| {
            let taken = self.alive(conn, "post").map(std::mem::take);
            self.sockets.remove(conn);
            taken.and_then(|taken| Some((taken.end?, taken)))
        });
        self.requests.posts.push((to, message, handoff));
    }

    fn submit_job(&mut self, job: u64, work: Work) {
        self.requests.helps.push((job, work));
    }

    fn start_tls(&mut self, conn: ConnId, handshake: Handshake) {
        let worker = self.worker;
        self.ctx.note(|| format!("w{worker} starts a TLS handshake with {conn:?}"));
        let received = match handshake {
            Handshake::Accept { received, .. } => received,
            Handshake::Connect { .. } => Vec::new(),
        };
        let Some(socket) = self.alive(conn, "handshake") else { return };
        socket.in_handshake = true;
        if let Some(end) = socket.end {
            self.ctx.net.pause(end);
            self.requests.handshakes.push((conn, received));
        }
    }

    fn logs(&self, level: Level) -> bool {
        level > Level::Noise
    }
    fn log(&mut self, level: Level, about: About<'_>, text: fmt::Arguments<'_>) {
        let worker = self.worker;
        self.note_refusal(&text.to_string());
        self.ctx.port(|| format!("w{worker} log {level:?}: {about}{text}"));
    }

    fn apply_config(&mut self, _config: &Arc<Config>) {
        self.requests.adopted = true;
    }

    fn accept(&mut self, on: bool) {
        self.requests.accept = Some(on);
    }

    fn answer(&mut self, _: u64, _: Response) {
        unreachable!("the simulation has no control API");
    }

    fn exit(&mut self, status: i32) {
        self.requests.exit = Some(status);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::context::Rules;
    use crate::message::put_error;
    use crate::refused::Refused;
    use crate::trace::Detail;

    const PEER: ConnId = ConnId::new(0, 1);

    /// A context after one input; its only socket is `PEER`.
    fn context(act: impl FnOnce(&mut SimIo<'_>)) -> Context {
        let mut ctx = Context::new(Rules::default(), Conditions::calm(), Rng::new(1), Detail::Protocol);
        let near = ctx.connect(Owner::None, Address::Pooler);
        let end = ctx.net.accept(near.conn, Owner::Engine(0, PEER));
        let mut sockets = Sockets::default();
        assert_eq!(sockets.reserve(), PEER);
        sockets.fill(PEER, end, Socket::client());
        let mut io = SimIo::new(0, &mut ctx, &mut sockets, b"input");
        act(&mut io);
        io.finish();
        ctx
    }

    fn checker(act: impl FnOnce(&mut SimIo<'_>)) -> Option<Checker> {
        context(act).violation.map(|violation| violation.checker)
    }

    #[test]
    fn an_engine_that_keeps_the_rules_causes_no_violation() {
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
    fn a_refusal_is_counted_whatever_is_logged_before_it() {
        let mut refusal = Vec::new();
        put_error(&mut refusal, "FATAL", "57014", "query_wait_timeout");
        let count = |lines: &[&str]| {
            context(|io| {
                io.send(PEER, &refusal);
                lines.iter().for_each(|line| io.log(Level::Warning, About::Process, format_args!("{line}")));
            })
            .refused
        };
        let mut counted = Refused::default();
        counted.count(Class::PoolFull);
        counted.logged();
        assert_eq!(count(&["closing because: query_wait_timeout", "pooler error: query_wait_timeout"]), counted);
        assert_eq!(count(&["closing because: query_wait_timeout"]), Refused::default(), "it is the server's");
    }

    #[test]
    fn the_use_of_a_dead_handle_is_caught() {
        let dead = ConnId::new(0, 7);
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
    fn a_peer_that_is_sent_too_much_is_caught() {
        assert_eq!(checker(|io| io.send(PEER, &vec![0; 400_000])), None);
        assert_eq!(checker(|io| io.send(PEER, &vec![0; 700_000])), Some(Checker::LimitsHold));
    }
}
