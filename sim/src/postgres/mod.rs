//! Modelled PostgreSQL servers: who listens, who is let in, who is restarted.
//!
//! Owns the processes of all servers. What one process does is in [`backend`]; what a session's messages mean is in
//! [`core`]; what the statements mean is in [`language`].

mod backend;
pub(crate) mod core;
pub(crate) mod language;
pub(crate) mod login;
mod mischief;
mod ownership;
pub(crate) mod settings;

use weir_base::{Span, Target};

use self::backend::{Backend, Life};
use self::core::Reporting;
use self::login::Method;
use self::mischief::Plan;
use crate::context::Context;
use crate::network::{End, Owner};
use crate::rng::Rng;

/// The first process id.
const FIRST: u32 = 1;

/// Whether the servers encrypt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encryption {
    /// They do not.
    Never,
    /// For those who want it.
    Offered,
    /// They let nobody in without.
    Required,
}

/// How the servers of one run behave.
#[derive(Clone, Debug)]
pub(crate) struct Flavour {
    /// How they ask for passwords.
    pub(crate) method: Method,
    /// When they report changed settings.
    pub(crate) reporting: Reporting,
    /// How many replies in a thousand come with a notice.
    pub(crate) notices: u32,
    /// The longest that a login takes, in microseconds.
    pub(crate) slow_login: u64,
    /// The longest that a cancel request takes, in microseconds.
    pub(crate) slow_cancel: u64,
    /// Whether they encrypt.
    pub(crate) encryption: Encryption,
    /// How many connections in a thousand meet a hostile server.
    pub(crate) mischief: u32,
}

impl Flavour {
    /// Draws a behaviour.
    pub(crate) fn draw(rng: &mut Rng) -> Flavour {
        Flavour {
            method: *rng.pick(&login::METHODS),
            reporting: *rng.pick(&[Reporting::AtOnce, Reporting::BeforeReady]),
            notices: *rng.pick(&[0, 0, 30]),
            slow_login: rng.skewed(100, 500_000),
            slow_cancel: rng.skewed(100, 100_000),
            encryption: Encryption::Never,
            mischief: 0,
        }
    }
}

/// Whether a server lets anybody in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It does.
    Open,
    /// It has no connection left.
    Full,
    /// It is starting up.
    Starting,
}

/// What a server is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Serving.
    Up,
    /// Starting up: it listens, and lets nobody in.
    Starting,
    /// Not there.
    Down,
}

/// A server.
pub(crate) struct Server {
    /// Where it listens.
    pub(crate) target: Target,
    /// What it is doing.
    pub(crate) state: State,
    /// The most sessions it has.
    pub(crate) max_connections: usize,
}

/// All servers and their processes.
pub(crate) struct Postgres {
    /// The servers.
    pub(crate) servers: Vec<Server>,
    flavour: Flavour,
    /// By process id, less [`FIRST`].
    backends: Vec<Option<Box<Backend>>>,
    rng: Rng,
}

impl Postgres {
    pub(crate) fn new(servers: Vec<Server>, flavour: Flavour, rng: Rng) -> Postgres {
        Postgres { servers, flavour, backends: Vec::new(), rng }
    }

    /// Processes that still have a connection.
    pub(crate) fn alive(&self) -> usize {
        self.backends.iter().flatten().count()
    }

    /// Somebody connects; `None` if nobody listens there.
    pub(crate) fn arrive(&mut self, ctx: &mut Context, conn: u32, target: &Target) -> Option<End> {
        let server = self.servers.iter().position(|s| s.target == *target && s.state != State::Down)?;
        let number = FIRST + self.backends.len() as u32;
        let end = ctx.net.accept(conn, Owner::Backend(number));
        let mut rng = self.rng.fork("backend", u64::from(number));
        let hostile = self.flavour.mischief > 0 && rng.chance(self.flavour.mischief);
        let plan = hostile.then(|| Plan::draw(&mut rng));
        self.backends.push(Some(Box::new(Backend::new(number, end, server, plan, rng))));
        ctx.note(|| format!("s{number} is connected"));
        Some(end)
    }

    pub(crate) fn bytes(&mut self, ctx: &mut Context, number: u32, bytes: &[u8]) {
        self.with(number, |backend, _, _| {
            backend.bytes(ctx, bytes);
            Life::On
        });
    }

    pub(crate) fn drained(&mut self, ctx: &mut Context, number: u32) {
        self.with(number, |backend, admission, flavour| backend.drained(ctx, admission, flavour));
        self.spread(number);
    }

    /// The connection of a process has ended, in order or not.
    pub(crate) fn gone(&mut self, ctx: &mut Context, number: u32) {
        self.with(number, |backend, _, _| {
            backend.gone(ctx);
            Life::Over
        });
        ctx.note(|| format!("s{number} is left"));
    }

    pub(crate) fn woken(&mut self, ctx: &mut Context, number: u32, reason: u32) {
        if reason == backend::CANCEL {
            return self.cancel(ctx, number);
        }
        self.with(number, |backend, admission, flavour| backend.woken(ctx, reason, admission, flavour));
        self.spread(number);
    }

    /// The cancel request that a process carries takes effect; then its connection is closed.
    fn cancel(&mut self, ctx: &mut Context, number: u32) {
        let Some((pid, key)) = self.get(number).and_then(|backend| backend.take_cancel()) else { return };
        let right = self.get(pid).is_some_and(|backend| backend.has_key(&key));
        ctx.note(|| format!("s{number} cancels s{pid}, key {}", if right { "right" } else { "wrong" }));
        if right {
            self.with(pid, |backend, admission, flavour| backend.cancel(ctx, admission, flavour));
        }
        self.with(number, |backend, _, _| {
            backend.gone(ctx);
            Life::Over
        });
    }

    /// Faults stop: no server is hostile any more.
    pub(crate) fn calm_down(&mut self) {
        self.flavour.mischief = 0;
    }

    /// Delivers the notifications that a process has sent to others.
    fn spread(&mut self, number: u32) {
        let Some(backend) = self.get(number) else { return };
        let (server, notified) = (backend.server, backend.take_notified());
        for (channel, payload) in notified {
            let all = self.backends.iter_mut().flatten();
            for other in all.filter(|b| b.server == server && !b.is(number)) {
                other.notify(&channel, &payload);
            }
        }
    }

    /// A server goes down: with a word to everybody, or without one.
    pub(crate) fn stop(&mut self, ctx: &mut Context, server: usize, crash: bool) {
        self.servers[server].state = State::Down;
        ctx.note(|| format!("server {server} {}", if crash { "crashes" } else { "is shut down" }));
        for slot in &mut self.backends {
            let Some(backend) = slot.as_mut().filter(|b| b.server == server) else { continue };
            if crash {
                backend.kill(ctx);
            } else {
                backend.dismiss(ctx, "57P01", "terminating connection due to administrator command");
            }
            *slot = None;
        }
    }

    /// An administrator ends one process, chosen at random.
    pub(crate) fn terminate_one(&mut self, ctx: &mut Context, rng: &mut Rng) {
        let alive: Vec<usize> = (0..self.backends.len()).filter(|i| self.backends[*i].is_some()).collect();
        if alive.is_empty() {
            return;
        }
        let slot = *rng.pick(&alive);
        if let Some(mut backend) = self.backends[slot].take() {
            backend.dismiss(ctx, "57P01", "terminating connection due to administrator command");
        }
    }

    /// A server that goes down or comes up answers differently from now on.
    pub(crate) fn set_state(&mut self, server: usize, state: State) {
        self.servers[server].state = state;
    }

    /// How long a start takes.
    pub(crate) fn draw_downtime(rng: &mut Rng) -> (Span, Span) {
        (rng.span(10_000, 5_000_000), rng.span(1_000, 2_000_000))
    }

    fn get(&mut self, number: u32) -> Option<&mut Backend> {
        self.backends.get_mut(number.checked_sub(FIRST)? as usize)?.as_deref_mut()
    }

    fn with(&mut self, number: u32, act: impl FnOnce(&mut Backend, Admission, &Flavour) -> Life) {
        let Some(server) = self.get(number).map(|b| b.server) else { return };
        let admission = self.admission(server);
        let slot = (number - FIRST) as usize;
        let Some(backend) = self.backends[slot].as_mut() else { return };
        if act(backend, admission, &self.flavour) == Life::Over {
            self.backends[slot] = None;
        }
    }

    fn admission(&self, server: usize) -> Admission {
        let state = &self.servers[server];
        if state.state != State::Up {
            return Admission::Starting;
        }
        // Counting is needed only where somebody may be refused.
        let full = self.backends.len() >= state.max_connections
            && self.backends.iter().flatten().filter(|b| b.server == server && b.counts()).count()
                >= state.max_connections;
        if full { Admission::Full } else { Admission::Open }
    }
}
