//! A client of the console: reads tables, changes settings, pauses and resumes pools, and is never refused without
//! faults.
//!
//! Owns what an operator does through the console; the world sends signals. Replies to each command must be well-formed
//! and in order, while all other clients continue.

use weir_base::Span;
use weir_engine::port::Signal;
use weir_pgwire::{backend, put_front, tag};

use super::login::Login;
use super::{Identity, Topic};
use crate::check::Checker;
use crate::context::{Context, Event};
use crate::message::{Back, Front, Inbox};
use crate::network::{End, Owner, SocketEvent};
use crate::rng::Rng;

const ARRIVE: u32 = 0;
const NEXT: u32 = 1;
/// Stops waiting for the reply to the command of this number, counted from here.
const GIVE_UP: u32 = 16;

/// Commands that change nothing.
const READ_ONLY: [&str; 19] = [
    "SHOW MEM",
    "SHOW DNS_HOSTS",
    "SHOW STATE",
    "SHOW PEERS",
    "SHOW ACTIVE_SOCKETS",
    "SHOW POOLS",
    "show stats",
    "SHOW CLIENTS",
    "SHOW SERVERS;",
    "SHOW DATABASES",
    "SHOW CONFIG",
    "SHOW LISTS",
    "SHOW VERSION",
    "SHOW HELP",
    "SHOW TOTALS",
    "SHOW USERS",
    "SHOW SOCKETS",
    "SHOW NONSENSE",
    "",
];

/// One operator.
pub(crate) struct Operator {
    identity: Identity,
    rng: Rng,
    end: Option<End>,
    inbox: Inbox,
    login: Login,
    /// The number of columns of the result that is being read.
    columns: Option<usize>,
    /// The command whose reply is awaited; empty: none.
    command: String,
    commands: u64,
    /// Counts the commands sent.
    sent: u32,
    sessions_left: u64,
    /// Sends one RECONNECT after the other.
    reconnects: bool,
    calm: bool,
    /// Commands that it must send before it finishes, so that no client waits for ever.
    undo: Vec<String>,
}

impl Operator {
    pub(crate) fn new(identity: Identity, mut rng: Rng) -> Operator {
        Operator {
            end: None,
            inbox: Inbox::default(),
            login: Login::default(),
            columns: None,
            command: String::new(),
            commands: 0,
            sent: 0,
            sessions_left: rng.skewed(1, 4).min(identity.caps.sessions),
            reconnects: identity.topic == Topic::Loans,
            calm: false,
            undo: Vec::new(),
            identity,
            rng,
        }
    }

    pub(crate) fn schedule_arrival(&mut self, ctx: &mut Context, latest: u64) {
        let delay = Span::from_micros(self.rng.below(latest.max(1)));
        ctx.wake(delay, self.owner(), ARRIVE);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.sessions_left == 0
    }

    pub(crate) fn stop_faults(&mut self) {
        self.calm = true;
        self.sessions_left = self.sessions_left.min(1);
    }

    pub(crate) fn describe(&self) -> String {
        format!("operator c{}, awaits the answer to {:?}", self.identity.number, self.command)
    }

    pub(crate) fn socket_event(&mut self, ctx: &mut Context, event: &SocketEvent, bytes: &[u8]) {
        match event {
            SocketEvent::Connected => {
                let mut bytes = Vec::new();
                let Identity { user, database, .. } = &self.identity;
                put_front::startup(&mut bytes, &[("user", user.as_str()), ("database", database.as_str())], 0);
                self.write(ctx, &bytes);
            }
            SocketEvent::Bytes => self.bytes(ctx, bytes),
            SocketEvent::Eof | SocketEvent::Error | SocketEvent::ConnectFailed => {
                if *event == SocketEvent::ConnectFailed {
                    // The process has ended, so there is nothing to undo.
                    self.undo.retain(|command| command == "RESUME");
                }
                self.complain(ctx, &format!("{event:?}"));
                self.end_session(ctx);
            }
            SocketEvent::Ending | SocketEvent::Drained | SocketEvent::Arrived(_) => {}
        }
    }

    pub(crate) fn woken(&mut self, ctx: &mut Context, reason: u32) {
        match (reason, self.end) {
            (ARRIVE, None) if self.sessions_left > 0 => {
                let most = if self.reconnects { 400 } else { 20 };
                self.commands = self.rng.skewed(1, most).min(self.identity.caps.bursts);
                self.inbox = Inbox::default();
                self.login = Login::default();
                self.command.clear();
                self.end = Some(ctx.connect(self.owner(), self.identity.address.clone()));
            }
            (NEXT, Some(_)) => self.next(ctx),
            // A disconnect undoes an incomplete PAUSE.
            (number, Some(_)) if number == GIVE_UP + self.sent && self.waits() => {
                self.end_session(ctx);
            }
            _ => {}
        }
    }

    /// Whether the command waits for other clients.
    fn waits(&self) -> bool {
        ["PAUSE", "SUSPEND", "WAIT_CLOSE", "SWITCH"].iter().any(|verb| self.command.starts_with(verb))
    }

    fn owner(&self) -> Owner {
        Owner::Client(self.identity.number)
    }

    fn bytes(&mut self, ctx: &mut Context, bytes: &[u8]) {
        self.inbox.push(bytes);
        while self.end.is_some() {
            let read = match self.inbox.next() {
                Ok(None) => return,
                Ok(Some((tag::back::DATA_ROW, body))) => {
                    backend::data_row(body).map(|values| (Some(values.len()), Back::Row(String::new())))
                }
                Ok(Some((tag, body))) => Back::read(tag, body).map(|message| (None, message)),
                Err(error) => Err(error),
            };
            match read {
                Ok((width, message)) => self.message(ctx, width, message),
                Err(error) => {
                    self.complain(ctx, &format!("{error}"));
                    return self.end_session(ctx);
                }
            }
        }
    }

    fn message(&mut self, ctx: &mut Context, width: Option<usize>, message: Back) {
        if let Some(end) = self.end {
            ctx.got(end, &message);
        }
        match message {
            Back::Auth(step) => {
                let mut bytes = Vec::new();
                let Identity { user, password, .. } = &self.identity;
                if !self.login.step(&step, user, password, &mut self.rng, &mut bytes) {
                    self.complain(ctx, &format!("{step:?}"));
                }
                self.write(ctx, &bytes);
            }
            Back::Problem { error: true, severity, code, message } if severity == "FATAL" => {
                self.complain(ctx, &format!("{code} {message}"));
                self.end_session(ctx);
            }
            Back::RowDescription(names) => self.columns = Some(names.len()),
            Back::Row(_) if width != self.columns => {
                let text = self.describe();
                ctx.violated(Checker::AnsweredAsDirect, || format!("{text}: a row of {width:?} columns"));
            }
            Back::Ready(b'I') if self.login.is_done() => {
                self.command.clear();
                self.columns = None;
                let longest = if self.reconnects { 30_000 } else { 1_000_000 };
                let pause = self.rng.span(1, longest);
                ctx.wake(pause, self.owner(), NEXT);
            }
            Back::Ready(status) => self.complain(ctx, &format!("ReadyForQuery {status}")),
            _ => {}
        }
    }

    fn next(&mut self, ctx: &mut Context) {
        if (self.commands <= 1 || self.calm)
            && let Some(command) = self.undo.pop()
        {
            return self.send(ctx, command);
        }
        if self.commands == 0 || self.calm {
            let mut bytes = Vec::new();
            put_front::terminate(&mut bytes);
            self.write(ctx, &bytes);
            return self.end_session(ctx);
        }
        self.commands -= 1;
        let command = self.draw(ctx.rules.faulty);
        self.send(ctx, command);
    }

    fn send(&mut self, ctx: &mut Context, command: String) {
        if let Some(pool) = command.strip_prefix("PAUSE ").or_else(|| command.strip_prefix("KILL ")) {
            self.undo.push(format!("RESUME {pool}"));
        }
        if let Some(pool) = command.strip_prefix("DISABLE ") {
            self.undo.push(format!("ENABLE {pool}"));
        }
        if command == "SUSPEND" {
            self.undo.push("RESUME".to_owned());
        }
        self.command = command;
        let message = Front::Query(self.command.clone());
        if let Some(end) = self.end {
            ctx.sent(end, &message);
        }
        let mut bytes = Vec::new();
        message.put(&mut bytes);
        self.write(ctx, &bytes);
        self.sent += 1;
        let timeout = self.rng.span(1_000, 5_000_000);
        ctx.wake(timeout, self.owner(), GIVE_UP + self.sent);
    }

    fn draw(&mut self, faulty: bool) -> String {
        let pool = format!("pool{}", self.rng.below(3));
        if self.reconnects && self.rng.chance(900) {
            return "RECONNECT".to_owned();
        }
        match self.rng.below(18) {
            0 => "RELOAD".to_owned(),
            1 => format!("PAUSE {pool}"),
            2 => "RESUME".to_owned(),
            3 => format!("RESUME {pool}"),
            4 => format!("RECONNECT {pool}"),
            5 if faulty => format!("KILL {pool}"),
            6 if faulty => format!("DISABLE {pool}"),
            7 if faulty => "SUSPEND".to_owned(),
            8 => format!("WAIT_CLOSE {pool}"),
            11 if faulty => format!("KILL_CLIENT {}", self.rng.below(60)),
            12 if faulty && self.rng.chance(30) => {
                (*self.rng.pick(&["SHUTDOWN", "SHUTDOWN WAIT_FOR_SERVERS", "SHUTDOWN WAIT_FOR_CLIENTS"])).to_owned()
            }
            13 if faulty => format!("SWITCH {pool} 10.0.0.{}", self.rng.between(1, 2)),
            // The least size in any configuration.
            9 => "SET default_pool_size = 1".to_owned(),
            10 => "SET server_idle_timeout = 1".to_owned(),
            _ => (*self.rng.pick(&READ_ONLY)).to_owned(),
        }
    }

    /// Reports a refused operator as a violation, in a run without faults.
    fn complain(&mut self, ctx: &mut Context, what: &str) {
        if !ctx.rules.faulty {
            let text = self.describe();
            ctx.violated(Checker::NoErrorWithoutFault, || format!("{text}: {what}"));
        }
    }

    fn write(&mut self, ctx: &mut Context, bytes: &[u8]) {
        if let Some(end) = self.end {
            ctx.write(end, bytes);
        }
    }

    fn end_session(&mut self, ctx: &mut Context) {
        if let Some(end) = self.end.take() {
            ctx.close(end);
        }
        // No client can log in after SUSPEND: an operator that lost its connection resumes with a signal.
        let suspended = self.undo.iter().any(|command| command == "RESUME");
        if suspended {
            self.undo.retain(|command| command != "RESUME");
            let pause = self.rng.span(1_000, 1_000_000);
            ctx.queue.after(pause, Event::Signal(Signal::Resume));
        }
        if self.undo.is_empty() || self.sessions_left > 1 {
            self.sessions_left = self.sessions_left.saturating_sub(1);
        }
        // Long enough for the pooler to notice the disconnect: a RESUME must not overtake a PAUSE.
        let pause = self.rng.between(500_000, 1_500_000);
        ctx.wake(Span::from_micros(pause), self.owner(), ARRIVE);
    }
}
