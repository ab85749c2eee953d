//! A client that uses a database: it logs in, sends bursts of messages, compares the replies, and disconnects, in order
//! or not.
//!
//! Owns a client's sessions; bursts are in [`burst`].

mod burst;

use weir_base::{OnDirty, PoolMode, Span, Time};
use weir_pgwire::{put_front, tag};

use super::Identity;
use super::login::Login;
use super::reference::Reference;
use super::script::Habits;
use crate::check::Checker;
use crate::context::Context;
use crate::message::{Back, Front, Inbox};
use crate::network::{End, Owner, SocketEvent};
use crate::postgres::core::Reporting;
use crate::rng::Rng;
use crate::transcript::Startup;

/// Reasons to be woken.
const ARRIVE: u32 = 0;
const THINK: u32 = 1;
const READ: u32 = 2;
const WRITE: u32 = 3;
const CANCEL: u32 = 4;
/// The most cancel requests of a client that are under way.
const MOST_CANCELLERS: usize = 3;
/// What a client gets that a drain closes.
const LEAVING: &str = "terminating connection due to administrator command";
/// Deadlines are numbered from here, so that the timer of one that was met has no effect.
const DEADLINE: u32 = 16;

/// How a session ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Exit {
    /// With a Terminate message.
    Terminate,
    /// By closing the socket.
    Close,
    /// With a reset.
    Reset,
    /// By shutting down writes while still reading.
    HalfClose,
}

/// The phase of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No connection; connects when its timer fires.
    Away,
    Connecting,
    /// Has sent SSLRequest and waits for the answer.
    AskingForTls,
    LoggingIn,
    /// Between bursts.
    Idle,
    /// In a burst.
    Busy,
    /// Has shut down writes and waits for the end.
    HalfClosed,
    /// Has finished.
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
    reference: Reference,
    parameters: Vec<(String, String)>,
    key: Option<(u32, Vec<u8>)>,
    /// Bursts left in this session, and sessions left.
    bursts: u64,
    sessions_left: u64,
    /// Stages of the burst that have not been sent, the last one first.
    stages: Vec<Vec<Front>>,
    /// Bytes of the burst that will be written later.
    unwritten: Vec<u8>,
    forgets: bool,
    tokens: u32,
    /// Counts bursts, for deadlines.
    deadline: u32,
    cancellers: Vec<End>,
    /// A cancel request of this burst may still take effect.
    cancelling: bool,
    /// The connection of a cancel request broke in this session, so the request may take effect at any time.
    cancel_is_lost: bool,
    /// How many deliveries in a thousand make the client stop reading for a while.
    stalls: u32,
    /// How many bursts in a thousand are written in two pieces.
    split_writes: u32,
    early_exits: u32,
    longest_think_time: u64,
    /// Faults have stopped: the client does not misbehave any more.
    calm: bool,
    /// The last reply was a ReadyForQuery outside of a transaction.
    rests: bool,
    began: Time,
}

impl Client {
    /// A client that connects when its first timer fires.
    pub(crate) fn new(identity: Identity, reporting: Reporting, mut rng: Rng) -> Client {
        let habits = Habits::draw(&mut rng, identity.topic);
        let reference = Reference::new(identity.number, &[], reporting);
        let sessions_left =
            if identity.has_wrong_password() { 1 } else { rng.skewed(1, 6) }.min(identity.caps.sessions);
        Client {
            identity,
            habits,
            reporting,
            phase: Phase::Away,
            end: None,
            inbox: Inbox::default(),
            login: Login::default(),
            reference,
            parameters: Vec::new(),
            key: None,
            bursts: 0,
            sessions_left,
            stages: Vec::new(),
            unwritten: Vec::new(),
            forgets: false,
            tokens: 0,
            deadline: 0,
            cancellers: Vec::new(),
            cancelling: false,
            cancel_is_lost: false,
            stalls: *rng.pick(&[0, 0, 20, 200]),
            split_writes: *rng.pick(&[0, 0, 100]),
            early_exits: *rng.pick(&[0, 0, 100, 400]),
            longest_think_time: rng.skewed(100, 2_000_000),
            calm: false,
            rests: false,
            began: Time::START,
            rng,
        }
    }

    /// Schedules the first connection, within `latest` microseconds.
    pub(crate) fn schedule_arrival(&mut self, ctx: &mut Context, latest: u64) {
        let delay = Span::from_micros(self.rng.below(latest.max(1)));
        ctx.wake(delay, self.owner(), ARRIVE);
    }

    /// Whether the client will not come back.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Faults stop: the client finishes soon and does not misbehave any more.
    pub(crate) fn stop_faults(&mut self) {
        self.calm = true;
        self.sessions_left = self.sessions_left.min(1);
        self.bursts = self.bursts.min(3);
        self.stalls = 0;
    }

    /// The client's state, for a report.
    pub(crate) fn describe(&mut self) -> String {
        let Identity { number, user, database, .. } = &self.identity;
        let since = self.began.micros() as f64 / 1e6;
        let awaited = self.reference.awaited();
        format!("c{number} ({database}/{user}) {:?} since {since}, awaits {awaited}", self.phase)
    }

    fn owner(&self) -> Owner {
        Owner::Client(self.identity.number)
    }

    /// An event of the client's connection.
    pub(crate) fn socket_event(&mut self, ctx: &mut Context, event: &SocketEvent, bytes: &[u8]) {
        match event {
            SocketEvent::Connected => self.connected(ctx),
            SocketEvent::Bytes => self.bytes(ctx, bytes),
            SocketEvent::Eof | SocketEvent::Error | SocketEvent::ConnectFailed => self.lost(ctx, event),
            SocketEvent::Ending | SocketEvent::Drained | SocketEvent::Arrived(_) => {}
        }
    }

    /// An event of the connection that carries the client's cancel request.
    pub(crate) fn canceller_event(&mut self, ctx: &mut Context, end: End, event: &SocketEvent) {
        if !self.cancellers.contains(&end) {
            return;
        }
        match event {
            SocketEvent::Connected => {
                let mut bytes = Vec::new();
                if let Some((pid, key)) = &self.key {
                    put_front::cancel_request(&mut bytes, *pid, key);
                }
                ctx.sent(end, "CancelRequest");
                ctx.write(end, &bytes);
            }
            SocketEvent::Eof | SocketEvent::Error | SocketEvent::ConnectFailed => {
                ctx.close(end);
                self.cancellers.retain(|canceller| *canceller != end);
                // The request may still reach the server at any time.
                self.cancel_is_lost |= *event == SocketEvent::Error;
            }
            SocketEvent::Bytes | SocketEvent::Ending | SocketEvent::Drained | SocketEvent::Arrived(_) => {}
        }
    }

    /// The pooler has read a cancel request of this client. If it also has all that the client has sent, the request
    /// must stop the query that runs or is next.
    pub(crate) fn cancel_arrived(&mut self, ctx: &mut Context, by: End) {
        let busy = self.phase == Phase::Busy && self.unwritten.is_empty() && self.cancellers.contains(&by);
        let Some(end) = self.end.filter(|_| busy && !ctx.rules.faulty) else { return };
        let (written, read) = ctx.net.progress(end);
        if written == read && ctx.net.is_open(end.peer()) {
            let sleeps = self.reference.next_sleeps();
            let due = ctx.cancel_requests.arrived(ctx.now(), (self.identity.number, end), by, sleeps);
            ctx.counts.cancels_due += u64::from(due);
        }
    }

    /// One of the client's timers has fired.
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
            // In a burst, or after a disconnect: then there is nothing to cancel any more.
            (CANCEL, Phase::Busy | Phase::Away) if self.cancellers.len() < MOST_CANCELLERS && self.key.is_some() => {
                let owner = Owner::Canceller(self.identity.number);
                self.cancellers.push(ctx.connect(owner, self.identity.address.clone()));
                self.cancelling = self.phase == Phase::Busy;
            }
            (deadline, Phase::Busy | Phase::LoggingIn) if deadline == DEADLINE + self.deadline => {
                if ctx.affected.has(self.identity.number) {
                    return self.end_session(ctx);
                }
                let text = self.describe();
                ctx.violated(Checker::WaitersAreAnswered, || text);
            }
            _ => {}
        }
    }

    fn arrive(&mut self, ctx: &mut Context) {
        ctx.affected.forget(self.identity.number);
        self.bursts = self.rng.skewed(1, 150).min(self.identity.caps.bursts);
        if self.calm {
            self.bursts = self.bursts.min(3);
        }
        self.inbox = Inbox::default();
        self.login = Login::default();
        self.parameters = self.draw_parameters();
        self.reference = Reference::new(self.identity.number, &self.parameters, self.reporting);
        self.reference.may_keep_its_server = ctx.rules.pooled && ctx.rules.mode != PoolMode::Session;
        self.reference.keeps_state = ctx.rules.mode.keeps_state();
        self.reference.hears = ctx.rules.mode.keeps_state() || ctx.rules.listens;
        self.reference.tolerates_notifications = ctx.rules.pooled && ctx.rules.on_dirty == OnDirty::Keep;
        self.reference.may_be_limited = ctx.rules.faulty;
        self.key = None;
        self.cancelling = false;
        self.cancel_is_lost = false;
        self.cancellers.drain(..).for_each(|end| ctx.close(end));
        self.phase = Phase::Connecting;
        self.rests = false;
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
            ("DateStyle", if self.rng.chance(500) { "iso, dmy" } else { "sql" }),
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
        if ctx.affected.has(self.identity.number) {
            return self.end_session(ctx);
        }
        self.inbox.push(bytes);
        if self.phase == Phase::AskingForTls {
            // After `S` the client continues as after `N`: the port simulates the handshake and does not wait for this
            // client. A delayed answer may therefore come with the error of a login timeout; a delayed request may get
            // that error alone.
            let answer = self.inbox.rest().to_vec();
            match answer.as_slice() {
                [tag::back::ERROR, ..] => self.phase = Phase::LoggingIn,
                [b'N' | b'S'] | [b'N' | b'S', tag::back::ERROR, ..] => {
                    self.inbox = Inbox::default();
                    self.send_startup(ctx);
                    self.inbox.push(&answer[1..]);
                }
                _ => {
                    let number = self.identity.number;
                    let what = || format!("c{number}: SSLRequest answered with {answer:?}");
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
        if !matches!(&message, Back::Problem { severity, .. } if severity == "FATAL") {
            self.note_rest(&message);
        }
        match (self.phase, &message) {
            (_, Back::Problem { error: true, severity, code, message }) if severity == "FATAL" => {
                let (code, text) = (code.clone(), message.clone());
                self.refused(ctx, &code, &text);
            }
            (Phase::LoggingIn, _) => self.login_message(ctx, message),
            (Phase::HalfClosed, _) => {}
            _ => {
                let cancelling = self.cancelling || self.cancel_is_lost || !self.cancellers.is_empty();
                if let Some(violation) = self.reference.take(&message, cancelling) {
                    ctx.violated(violation.checker, || violation.what);
                }
            }
        }
    }

    /// Notes whether the client is between two transactions, as far as it knows.
    fn note_rest(&mut self, message: &Back) {
        match message {
            Back::Ready(status) => self.rests = *status == b'I',
            Back::Parameter(..) | Back::Notification(..) | Back::Problem { error: false, .. } => {}
            _ => self.rests = false,
        }
    }

    /// The pooler drains, and the client gets an error that says so. Returns whether it is that.
    fn sent_away(&mut self, ctx: &mut Context, code: &str, text: &str) -> bool {
        let number = self.identity.number;
        let is_late = text == "pooler is shutting down";
        if !ctx.drained || ctx.rules.faulty || code != "57P01" || !is_late && text != LEAVING {
            return false;
        }
        if !is_late && !self.rests {
            let what = || format!("c{number} was closed within a transaction or an answer");
            ctx.violated(Checker::DrainsBetweenTransactions, what);
        }
        true
    }

    /// The other side ends the session with a fatal error.
    fn refused(&mut self, ctx: &mut Context, code: &str, text: &str) {
        let number = self.identity.number;
        // An operator may make a pool too small to share a server for its clients' channels.
        let too_small = code == "57P01" && ctx.rules.listens && self.reference.has_listened();
        let sent_away = self.sent_away(ctx, code, text);
        let expected =
            (self.identity.has_wrong_password() && code == "28P01") || too_small || sent_away || ctx.rules.faulty;
        if !expected && self.phase != Phase::HalfClosed {
            ctx.violated(Checker::NoErrorWithoutFault, || format!("c{number} is refused: {code} {text}"));
        }
        if !self.identity.has_wrong_password() {
            ctx.counts.broken += 1;
        }
        self.end_session(ctx);
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
            Back::Parameter(name, value) => self.reference.parameter_reported(name, value),
            Back::Key(pid, key) => self.key = Some((pid, key)),
            Back::Negotiate | Back::Problem { error: false, .. } => {}
            Back::Ready(b'I') if self.login.is_done() => self.ready(ctx),
            other => ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} got {other:?} in its login")),
        }
    }

    fn ready(&mut self, ctx: &mut Context) {
        let number = self.identity.number;
        if self.identity.has_wrong_password() {
            ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} logged in with a wrong password"));
        }
        if self.key.is_none() {
            ctx.violated(Checker::AnsweredAsDirect, || format!("c{number} got no cancel key"));
        }
        if let Some(violation) = self.reference.compare_parameters() {
            ctx.violated(violation.checker, || violation.what);
        }
        ctx.counts.logins += 1;
        let most = ctx.rules.max_clients;
        let clients = self.end.map_or(0, |end| ctx.logged_in_now(end));
        if clients > most {
            ctx.violated(Checker::LimitsHold, || {
                format!("c{number} is logged in as one of {clients} clients, with {most} allowed")
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
                self.end_session(ctx);
            }
            Exit::Close => self.end_session(ctx),
            Exit::Reset => {
                ctx.abort(end);
                self.end_session(ctx);
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
    fn lost(&mut self, ctx: &mut Context, event: &SocketEvent) {
        let number = self.identity.number;
        ctx.note(|| format!("c{number} lost its connection: {event:?}"));
        if self.phase != Phase::HalfClosed {
            ctx.counts.broken += 1;
            // Without a login, or with a reset, a client gets no error.
            let had_login =
                !matches!(self.phase, Phase::Away | Phase::Connecting | Phase::AskingForTls | Phase::LoggingIn);
            let told = had_login && *event == SocketEvent::Eof;
            if !ctx.rules.faulty && (!ctx.drained || told) {
                let text = self.describe();
                ctx.violated(Checker::NoErrorWithoutFault, || format!("{event:?} for {text}"));
            }
        }
        if ctx.drained && *event == SocketEvent::ConnectFailed {
            // The process has ended, or is about to.
            self.sessions_left = 1;
        }
        self.end_session(ctx);
    }

    /// The session is over; another one may follow.
    fn end_session(&mut self, ctx: &mut Context) {
        if let Some(end) = self.end.take() {
            ctx.close(end);
        }
        self.stages.clear();
        self.unwritten.clear();
        self.sessions_left = self.sessions_left.saturating_sub(1);
        if self.sessions_left == 0 {
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
