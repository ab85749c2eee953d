//! A client that uses a database: it logs in, sends bursts of messages, compares what comes back, and leaves, in
//! order or not.
//!
//! Owns a client's life; a burst's life is in [`burst`].

mod burst;

use weir_base::{OnDirty, PoolMode, Span, Time};
use weir_pgwire::{put_front, tag};

use super::Identity;
use super::login::Login;
use super::script::Habits;
use super::shadow::Shadow;
use crate::check::Checker;
use crate::context::Context;
use crate::message::{Back, Front, Inbox};
use crate::network::{End, Happening, Owner};
use crate::postgres::core::Reporting;
use crate::rng::Rng;
use crate::transcript::Startup;

/// Reasons to be woken.
const ARRIVE: u32 = 0;
const THINK: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 3;
const CANCEL: u32 = 4;
/// Deadlines are counted from here, so that one that was met wakes nobody.
const PATIENCE: u32 = 16;

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exit {
    /// With a Terminate.
    Terminate,
    /// By closing the socket.
    Close,
    /// With a reset.
    Reset,
    /// By writing no more, and reading on.
    HalfClose,
}

/// Where a client stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Without a connection; it comes, or comes back, when it is woken.
    Away,
    Connecting,
    /// It has asked for TLS, and waits for the answer.
    AskingForTls,
    LoggingIn,
    /// Between bursts.
    Idle,
    /// A burst is under way.
    Busy,
    /// It writes no more and waits for the end.
    HalfClosed,
    /// It will not come back.
    Done,
}

/// One client.
pub(crate) struct Client {
    identity: Identity,
    rng: Rng,
    habits: Habits,
    reporting: Reporting,
    phase: Phase,
    end: Option<End>,
    inbox: Inbox,
    login: Login,
    shadow: Shadow,
    parameters: Vec<(String, String)>,
    key: Option<(u32, Vec<u8>)>,
    /// Bursts left in this session, and sessions left.
    bursts: u64,
    lives: u64,
    /// Stages of the burst that have not been sent, the last one first.
    stages: Vec<Vec<Front>>,
    /// Bytes of the burst that will be written later.
    unwritten: Vec<u8>,
    forgets: bool,
    tokens: u32,
    /// Counts bursts, for deadlines.
    deadline: u32,
    canceller: Option<End>,
    /// A cancel was sent in this burst or is still open, so it may take effect.
    cancelling: bool,
    /// A cancel was cut off in this session, so nobody knows when it takes effect.
    cancel_is_lost: bool,
    /// How many deliveries in a thousand make it stop reading for a while.
    stalls: u32,
    /// How many bursts in a thousand are written in two pieces, or not to their end.
    dribbles: u32,
    leaves: u32,
    slowest_thought: u64,
    /// When faults stop, it behaves.
    calm: bool,
    began: Time,
}

impl Client {
    /// A client that will come when it is woken for the first time.
    pub(crate) fn new(identity: Identity, reporting: Reporting, mut rng: Rng) -> Client {
        let habits = Habits::draw(&mut rng, identity.haste);
        let shadow = Shadow::new(identity.number, &[], reporting);
        let lives = if identity.is_impostor() { 1 } else { rng.skewed(1, 6) }.min(identity.stay.sessions);
        Client {
            identity,
            habits,
            reporting,
            phase: Phase::Away,
            end: None,
            inbox: Inbox::default(),
            login: Login::default(),
            shadow,
            parameters: Vec::new(),
            key: None,
            bursts: 0,
            lives,
            stages: Vec::new(),
            unwritten: Vec::new(),
            forgets: false,
            tokens: 0,
            deadline: 0,
            canceller: None,
            cancelling: false,
            cancel_is_lost: false,
            stalls: *rng.pick(&[0, 0, 20, 200]),
            dribbles: *rng.pick(&[0, 0, 100]),
            leaves: *rng.pick(&[0, 0, 100, 400]),
            slowest_thought: rng.skewed(100, 2_000_000),
            calm: false,
            began: Time::START,
            rng,
        }
    }

    /// Lets the client come after a while.
    pub(crate) fn invite(&mut self, ctx: &mut Context, latest: u64) {
        let delay = Span::from_micros(self.rng.below(latest.max(1)));
        ctx.wake(delay, self.owner(), ARRIVE);
    }

    /// Whether it will not come back.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Faults stop: it finishes what it has begun, and misbehaves no more.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.lives = self.lives.min(1);
        self.bursts = self.bursts.min(3);
        self.stalls = 0;
    }

    /// Where it stands, for a report.
    pub(crate) fn describe(&mut self) -> String {
        let Identity { number, user, database, .. } = &self.identity;
        let since = self.began.micros() as f64 / 1e6;
        let awaited = self.shadow.awaited();
        format!("c{number} ({database}/{user}) {:?} since {since}, awaits {awaited}", self.phase)
    }

    fn owner(&self) -> Owner {
        Owner::Client(self.identity.number)
    }

    /// Something happened to its connection.
    pub(crate) fn happened(&mut self, ctx: &mut Context, happening: &Happening, bytes: &[u8]) {
        match happening {
            Happening::Connected => self.connected(ctx),
            Happening::Bytes => self.bytes(ctx, bytes),
            Happening::Eof | Happening::Error | Happening::ConnectFailed => self.lost(ctx, happening),
            Happening::Ending | Happening::Drained | Happening::Arrived(_) => {}
        }
    }

    /// Something happened to the connection that carries its cancel request.
    pub(crate) fn canceller_happened(&mut self, ctx: &mut Context, happening: &Happening) {
        let Some(end) = self.canceller else { return };
        match happening {
            Happening::Connected => {
                let mut bytes = Vec::new();
                if let Some((pid, key)) = &self.key {
                    put_front::cancel_request(&mut bytes, *pid, key);
                }
                ctx.sent(end, "CancelRequest");
                ctx.write(end, &bytes);
            }
            Happening::Eof | Happening::Error | Happening::ConnectFailed => {
                ctx.close(end);
                self.canceller = None;
                // Cut off from us, the request may still reach the server at any time.
                self.cancel_is_lost |= *happening == Happening::Error;
            }
            Happening::Bytes | Happening::Ending | Happening::Drained | Happening::Arrived(_) => {}
        }
    }

    /// What it asked to be woken for has come.
    pub(crate) fn woken(&mut self, ctx: &mut Context, reason: u32) {
        match (reason, self.phase) {
            (ARRIVE, Phase::Away) => self.arrive(ctx),
            (THINK, Phase::Idle) => self.next(ctx),
            (READ, _) => {
                if let Some(end) = self.end {
                    ctx.resume(end);
                }
            }
            (WRITE, Phase::Busy) => self.write_rest(ctx),
            // In a burst, or after it has left: then there is nothing to cancel any more.
            (CANCEL, Phase::Busy | Phase::Away) if self.canceller.is_none() && self.key.is_some() => {
                let owner = Owner::Canceller(self.identity.number);
                self.canceller = Some(ctx.connect(owner, self.identity.address.clone()));
                self.cancelling = self.phase == Phase::Busy;
            }
            (deadline, Phase::Busy | Phase::LoggingIn) if deadline == PATIENCE + self.deadline => {
                if ctx.misled.has(self.identity.number) {
                    return self.over(ctx);
                }
                let text = self.describe();
                ctx.violated(Checker::WaitersAreAnswered, || text);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, ctx: &mut Context) {
        ctx.misled.forget(self.identity.number);
        self.bursts = self.rng.skewed(1, 150).min(self.identity.stay.bursts);
        if self.calm {
            self.bursts = self.bursts.min(3);
        }
        self.inbox = Inbox::default();
        self.login = Login::default();
        self.parameters = self.draw_parameters();
        self.shadow = Shadow::new(self.identity.number, &self.parameters, self.reporting);
        self.shadow.may_keep_its_server = ctx.rules.pooled && ctx.rules.mode != PoolMode::Session;
        self.shadow.tolerates_notifications = ctx.rules.pooled && ctx.rules.on_dirty == OnDirty::Keep;
        self.shadow.may_be_limited = ctx.rules.faulty;
        self.key = None;
        self.cancelling = false;
        self.cancel_is_lost = false;
        if let Some(end) = self.canceller.take() {
            ctx.close(end);
        }
        self.phase = Phase::Connecting;
        self.end = Some(ctx.connect(self.owner(), self.identity.address.clone()));
    }

    fn draw_parameters(&mut self) -> Vec<(String, String)> {
        let mut parameters = vec![
            ("user".to_owned(), self.identity.user.clone()),
            ("database".to_owned(), self.identity.database.clone()),
        ];
        let choices = [
            ("application_name", "program"),
            ("client_encoding", "utf-8"),
            ("DateStyle", "iso, dmy"),
            ("TimeZone", "Asia/Tokyo"),
            ("extra_float_digits", "2"),
        ];
        for (name, value) in choices {
            if self.rng.chance(250) {
                parameters.push((name.to_owned(), value.to_owned()));
            }
        }
        parameters
    }

    fn connected(&mut self, ctx: &mut Context) {
        let mut bytes = Vec::new();
        if self.rng.chance(300) {
            put_front::ssl_request(&mut bytes);
            self.phase = Phase::AskingForTls;
            self.write(ctx, &bytes);
        } else {
            self.send_startup(ctx);
        }
        self.set_deadline(ctx, 0);
    }

    fn send_startup(&mut self, ctx: &mut Context) {
        let mut bytes = Vec::new();
        let minor = if self.rng.chance(100) { 2 } else { 0 };
        put_front::startup(&mut bytes, &self.parameters, minor);
        self.phase = Phase::LoggingIn;
        if let Some(end) = self.end {
            ctx.sent(end, Startup { minor, parameters: &self.parameters });
        }
        self.write(ctx, &bytes);
    }

    fn write(&mut self, ctx: &mut Context, bytes: &[u8]) {
        if let Some(end) = self.end {
            ctx.write(end, bytes);
        }
    }

    fn bytes(&mut self, ctx: &mut Context, bytes: &[u8]) {
        if ctx.misled.has(self.identity.number) {
            return self.over(ctx);
        }
        self.inbox.push(bytes);
        if self.phase == Phase::AskingForTls {
            // Past a yes all goes on as past a no: the handshake is the port's, which does not wait for the answer to be
            // heard here. An answer that was held up may so bring the end of a login that took too long.
            // A request that was itself held up for too long is answered with that end alone.
            let heard = self.inbox.rest().to_vec();
            match heard.as_slice() {
                [tag::back::ERROR, ..] => self.phase = Phase::LoggingIn,
                [b'N' | b'S'] | [b'N' | b'S', tag::back::ERROR, ..] => {
                    self.inbox = Inbox::default();
                    self.send_startup(ctx);
                    self.inbox.push(&heard[1..]);
                }
                _ => {
                    let number = self.identity.number;
                    let what = || format!("c{number}: SSLRequest answered with {heard:?}");
                    return ctx.violated(Checker::AnsweredAsDirect, what);
                }
            }
            if self.inbox.rest().is_empty() {
                return;
            }
        }
        if let Some(end) = self.end.filter(|_| self.rng.chance(self.stalls)) {
            ctx.net.pause(end);
            let pause = self.rng.span(100, 500_000);
            ctx.wake(pause, self.owner(), READ);
        }
        while self.end.is_some() {
            let message = match self.inbox.next() {
                Ok(Some((tag, body))) => Back::read(tag, body),
                Ok(None) => break,
                Err(error) => Err(error),
            };
            match message {
                Ok(message) => self.message(ctx, message),
                Err(error) => {
                    let number = self.identity.number;
                    return ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} can't read: {error}"));
                }
            }
        }
        self.settle(ctx);
    }

    fn message(&mut self, ctx: &mut Context, message: Back) {
        if let Some(end) = self.end {
            ctx.got(end, &message);
        }
        ctx.counts.replies += 1;
        match (self.phase, &message) {
            (_, Back::Problem { error: true, severity, code, message }) if severity == "FATAL" => {
                let (code, text) = (code.clone(), message.clone());
                self.refused(ctx, &code, &text);
            }
            (Phase::LoggingIn, _) => self.login_message(ctx, message),
            (Phase::HalfClosed, _) => {}
            _ => {
                let cancelling = self.cancelling || self.cancel_is_lost || self.canceller.is_some();
                if let Some(violation) = self.shadow.take(&message, cancelling) {
                    ctx.violated(violation.checker, || violation.what);
                }
            }
        }
    }

    /// The other side ends the session with a reason.
    fn refused(&mut self, ctx: &mut Context, code: &str, text: &str) {
        let number = self.identity.number;
        let expected = (self.identity.is_impostor() && code == "28P01") || ctx.rules.faulty;
        if !expected && self.phase != Phase::HalfClosed {
            ctx.violated(Checker::NoErrorWithoutFault, || format!("c{number} is refused: {code} {text}"));
        }
        if !self.identity.is_impostor() {
            ctx.counts.broken += 1;
        }
        self.over(ctx);
    }

    fn login_message(&mut self, ctx: &mut Context, message: Back) {
        let number = self.identity.number;
        match message {
            Back::Auth(step) => {
                let mut bytes = Vec::new();
                let Identity { user, password, .. } = &self.identity;
                if !self.login.step(&step, user, password, &mut self.rng, &mut bytes) {
                    ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} can't log in: {step:?}"));
                }
                self.write(ctx, &bytes);
            }
            Back::Parameter(name, value) => self.shadow.told(name, value),
            Back::Key(pid, key) => self.key = Some((pid, key)),
            Back::Negotiate | Back::Problem { error: false, .. } => {}
            Back::Ready(b'I') if self.login.is_done() => self.ready(ctx),
            other => ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} got {other:?} in its login")),
        }
    }

    fn ready(&mut self, ctx: &mut Context) {
        let number = self.identity.number;
        if self.identity.is_impostor() {
            ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} got in with a wrong password"));
        }
        if self.key.is_none() {
            ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} got no key for cancels"));
        }
        if let Some(violation) = self.shadow.compare_parameters() {
            ctx.violated(violation.checker, || violation.what);
        }
        ctx.counts.logins += 1;
        let most = ctx.rules.max_clients;
        let clients = self.end.map_or(0, |end| ctx.let_in(end));
        if clients > most {
            ctx.violated(Checker::LimitsHold, || {
                format!("c{number} is let in as one of {clients}, with {most} allowed")
            });
        }
        self.think(ctx);
    }

    fn leave(&mut self, ctx: &mut Context, exit: Exit) {
        let number = self.identity.number;
        ctx.note(|| format!("c{number} leaves: {exit:?}"));
        let Some(end) = self.end else { return };
        match exit {
            Exit::Terminate => {
                let mut bytes = Vec::new();
                put_front::terminate(&mut bytes);
                self.write(ctx, &bytes);
                self.over(ctx);
            }
            Exit::Close => self.over(ctx),
            Exit::Reset => {
                ctx.abort(end);
                self.over(ctx);
            }
            Exit::HalfClose => {
                ctx.left(end);
                ctx.net.shutdown(&mut ctx.queue, end);
                self.phase = Phase::HalfClosed;
                ctx.resume(end);
            }
        }
    }

    /// The connection ended from the other side.
    fn lost(&mut self, ctx: &mut Context, happening: &Happening) {
        let number = self.identity.number;
        ctx.note(|| format!("c{number} is cut off: {happening:?}"));
        if self.phase != Phase::HalfClosed {
            ctx.counts.broken += 1;
            if !ctx.rules.faulty {
                let text = self.describe();
                ctx.violated(Checker::NoErrorWithoutFault, || format!("{happening:?} for {text}"));
            }
        }
        self.over(ctx);
    }

    /// The session is over; another one may follow.
    fn over(&mut self, ctx: &mut Context) {
        if let Some(end) = self.end.take() {
            ctx.close(end);
        }
        self.stages.clear();
        self.unwritten.clear();
        self.lives = self.lives.saturating_sub(1);
        if self.lives == 0 {
            self.phase = Phase::Done;
        } else {
            self.phase = Phase::Away;
            let pause = self.rng.span(1, 1_000_000);
            ctx.wake(pause, self.owner(), ARRIVE);
            if self.rng.chance(self.habits.cancels / 3) {
                let delay = self.rng.span(1, 1_000_000);
                ctx.wake(delay, self.owner(), CANCEL);
            }
        }
    }
}
