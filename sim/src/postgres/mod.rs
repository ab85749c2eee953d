//! Modelled PostgreSQL servers: which server listens, admits clients or restarts.
//!
//! Owns the processes of all servers. One process is in [`backend`], the protocol of a session in [`core`], the
//! statements in [`language`].

mod backend;
pub(crate) mod core;
pub(crate) mod language;
pub(crate) mod login;
mod ownership;
mod server_fault;
pub(crate) mod settings;

use weir_base::{Span, Target};

use self::backend::{Backend, Life};
use self::core::Reporting;
use self::login::Method;
use self::server_fault::FaultPlan;
use crate::check::Checker;
use crate::context::Context;
use crate::network::{End, Owner};
use crate::rng::Rng;

/// The first process id.
const FIRST: u32 = 1;

/// Whether the servers have TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encryption {
    /// No TLS.
    Never,
    /// TLS for clients that request it.
    Offered,
    /// Only clients with TLS are admitted.
    Required,
}

/// How the servers of one run behave.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    /// The authentication method.
    pub(crate) method: Method,
    /// When the servers report changed settings.
    pub(crate) reporting: Reporting,
    /// How many replies in a thousand come with a notice.
    pub(crate) notices: u32,
    /// The longest that a login takes, in microseconds.
    pub(crate) slow_login: u64,
    /// The longest that a cancel request takes, in microseconds.
    pub(crate) slow_cancel: u64,
    /// Whether the servers have TLS.
    pub(crate) encryption: Encryption,
    /// How many connections in a thousand get a hostile server process.
    pub(crate) hostile: u32,
}

impl Behaviour {
    /// Draws a behaviour.
    pub(crate) fn draw(rng: &mut Rng) -> Behaviour {
        Behaviour {
            method: *rng.pick(&login::METHODS),
            reporting: *rng.pick(&[Reporting::AtOnce, Reporting::BeforeReady]),
            notices: *rng.pick(&[0, 0, 30]),
            slow_login: rng.skewed(100, 500_000),
            slow_cancel: rng.skewed(100, 100_000),
            encryption: Encryption::Never,
            hostile: 0,
        }
    }
}

/// Whether a server admits clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// The server admits clients.
    Open,
    /// The server has no connection left.
    Full,
    /// The server is starting up.
    Starting,
}

/// The state of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Running.
    Up,
    /// Starting up: it listens, and refuses logins.
    Starting,
    /// Not listening.
    Down,
}

/// A server.
pub(crate) struct Server {
    /// Where the server listens.
    pub(crate) target: Target,
    /// The server's state.
    pub(crate) state: State,
    /// The server's `max_connections`.
    pub(crate) max_connections: usize,
}

/// All servers and their processes.
pub(crate) struct Postgres {
    /// The servers.
    pub(crate) servers: Vec<Server>,
    behaviour: Behaviour,
    /// Index: process id minus [`FIRST`].
    backends: Vec<Option<Box<Backend>>>,
    rng: Rng,
}

impl Postgres {
    pub(crate) fn new(servers: Vec<Server>, behaviour: Behaviour, rng: Rng) -> Postgres {
        Postgres { servers, behaviour, backends: Vec::new(), rng }
    }

    /// Processes that still have a connection.
    pub(crate) fn alive(&self) -> usize {
        self.backends.iter().flatten().count()
    }

    /// A client connects; `None` if no server listens there.
    pub(crate) fn arrive(&mut self, ctx: &mut Context, conn: u32, target: &Target) -> Option<End> {
        let server = self.servers.iter().position(|s| s.target == *target && s.state != State::Down)?;
        let number = FIRST + self.backends.len() as u32;
        let end = ctx.net.accept(conn, Owner::Backend(number));
        let mut rng = self.rng.fork("backend", u64::from(number));
        let hostile = self.behaviour.hostile > 0 && rng.chance(self.behaviour.hostile);
        let plan = hostile.then(|| FaultPlan::draw(&mut rng));
        self.backends.push(Some(Box::new(Backend::new(number, end, server, plan, rng))));
        ctx.note(|| format!("s{number} accepts a connection"));
        Some(end)
    }

    pub(crate) fn bytes(&mut self, ctx: &mut Context, number: u32, bytes: &[u8]) {
        self.with(number, |backend, _, _| {
            backend.bytes(ctx, bytes);
            Life::On
        });
    }

    pub(crate) fn drained(&mut self, ctx: &mut Context, number: u32) {
        self.with(number, |backend, admission, behaviour| backend.drained(ctx, admission, behaviour));
        self.began(ctx, number);
        self.spread(ctx, number);
    }

    /// The connection of a process has ended, in order or not.
    pub(crate) fn gone(&mut self, ctx: &mut Context, number: u32) {
        self.with(number, |backend, _, _| {
            backend.gone(ctx);
            Life::Over
        });
        ctx.note(|| format!("the connection of s{number} ended"));
    }

    pub(crate) fn woken(&mut self, ctx: &mut Context, number: u32, reason: u32) {
        match reason {
            backend::CANCEL => return self.cancel(ctx, number),
            backend::CANCELLED => {
                return self.with(number, |backend, _, _| {
                    backend.gone(ctx);
                    Life::Over
                });
            }
            _ => {}
        }
        self.with(number, |backend, admission, behaviour| backend.woken(ctx, reason, admission, behaviour));
        self.began(ctx, number);
        self.spread(ctx, number);
    }

    /// The cancel request that a process carries takes effect; its connection is closed later.
    fn cancel(&mut self, ctx: &mut Context, number: u32) {
        let Some((pid, key)) = self.get(number).and_then(|backend| backend.take_cancel()) else { return };
        let right = self.get(pid).is_some_and(|backend| backend.has_key(&key));
        ctx.note(|| format!("s{number} cancels s{pid}, key {}", if right { "right" } else { "wrong" }));
        if right {
            self.with(pid, |backend, admission, behaviour| backend.cancel(ctx, admission, behaviour));
        }
        let latest = self.behaviour.slow_cancel;
        if let Some(backend) = self.get(number) {
            backend.end_cancel(ctx, latest);
        }
    }

    /// Faults stop: no server is hostile any more.
    pub(crate) fn stop_faults(&mut self) {
        self.behaviour.hostile = 0;
    }

    /// Delivers the notifications that a process has sent to others.
    fn spread(&mut self, ctx: &mut Context, number: u32) {
        let Some(backend) = self.get(number) else { return };
        let (server, notified) = (backend.server, backend.take_notified());
        for (channel, payload) in notified {
            let all = self.backends.iter_mut().flatten();
            for other in all.filter(|b| b.server == server && !b.is(number)) {
                other.notify(ctx, number, &channel, &payload);
            }
        }
    }

    /// A server goes down, with a fatal error to each client, or without one if it crashes.
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

    /// An administrator ends one process, chosen at random, of one server or of all.
    pub(crate) fn terminate_one(&mut self, ctx: &mut Context, server: Option<usize>, rng: &mut Rng) {
        let fits =
            |i: &usize| self.backends[*i].as_ref().is_some_and(|b| server.is_none_or(|server| b.server == server));
        let alive: Vec<usize> = (0..self.backends.len()).filter(fits).collect();
        if alive.is_empty() {
            return;
        }
        let slot = *rng.pick(&alive);
        if let Some(mut backend) = self.backends[slot].take() {
            backend.dismiss(ctx, "57P01", "terminating connection due to administrator command");
        }
    }

    /// Sets a server's state.
    pub(crate) fn set_state(&mut self, server: usize, state: State) {
        self.servers[server].state = state;
    }

    /// Draws how long a server stays down, and how long its start takes.
    pub(crate) fn draw_downtime(rng: &mut Rng) -> (Span, Span) {
        (rng.span(10_000, 5_000_000), rng.span(1_000, 2_000_000))
    }

    fn get(&mut self, number: u32) -> Option<&mut Backend> {
        self.backends.get_mut(number.checked_sub(FIRST)? as usize)?.as_deref_mut()
    }

    fn with(&mut self, number: u32, act: impl FnOnce(&mut Backend, Admission, &Behaviour) -> Life) {
        let Some(server) = self.get(number).map(|b| b.server) else { return };
        let admission = self.admission(server);
        let slot = (number - FIRST) as usize;
        let Some(backend) = self.backends[slot].as_mut() else { return };
        if act(backend, admission, &self.behaviour) == Life::Over {
            self.backends[slot] = None;
        }
    }

    /// The processes have done something: see [`Postgres::check_primary`].
    fn began(&mut self, ctx: &mut Context, number: u32) {
        if ctx.rules.primaries != 0 && self.get(number).is_some_and(Backend::take_began) {
            self.check_primary(ctx, number);
        }
    }

    /// The checker "one primary at a time": while a client's transaction begins on one server, none of the same pool
    /// is open on another one, as far as the pooler has not closed the connections: a request that was on its way by then
    /// may still be executed.
    fn check_primary(&mut self, ctx: &mut Context, number: u32) {
        let Some(own) = self.get(number).filter(|own| ctx.net.is_open(own.pooler())) else { return };
        let (server, database) = (own.server, own.database().to_owned());
        let pool = database.strip_prefix("db").and_then(|number| number.parse::<u32>().ok());
        if pool.is_none_or(|number| ctx.rules.primaries & 1 << number == 0) {
            return;
        }
        let elsewhere = self
            .backends
            .iter()
            .flatten()
            .find(|other| other.server != server && other.serves(&database) && ctx.net.is_open(other.pooler()));
        if let Some(other) = elsewhere.map(|other| other.describe()) {
            ctx.violated(Checker::OnePrimary, || {
                format!("s{number} begins a transaction of {database}, beside {other}")
            });
        }
    }

    fn admission(&self, server: usize) -> Admission {
        let state = &self.servers[server];
        if state.state != State::Up {
            return Admission::Starting;
        }
        // Counts only where a client may be refused.
        let full = self.backends.len() >= state.max_connections
            && self.backends.iter().flatten().filter(|b| b.server == server && b.counts()).count()
                >= state.max_connections;
        if full { Admission::Full } else { Admission::Open }
    }
}
