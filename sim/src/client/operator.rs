//! A client of the console: looks at tables, reloads, pauses and resumes, and is never refused while it behaves.
//!
//! Owns what an operator does through the console; signals are sent by the world. Each command must be answered in
//! order and well-formed, while everything else goes on.

use weir_base::Span;
use weir_pgwire::{backend, put_front, tag};

use super::Identity;
use super::login::Login;
use crate::check::Checker;
use crate::context::Context;
use crate::message::{Back, Front, Inbox};
use crate::network::{End, Happening, Owner};
use crate::rng::Rng;

const ARRIVE: u32 = 0;
const NEXT: u32 = 1;
/// Gives up waiting for the answer to the command of this number, counted from here.
const IMPATIENT: u32 = 16;

/// Commands that change nothing.
const LOOKS: [&str; 14] = [
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
    /// How many columns the result that is being read has.
    columns: Option<usize>,
    /// The command that is being answered; empty: none.
    command: String,
    commands: u64,
    /// Counts the commands sent.
    sent: u32,
    lives: u64,
    calm: bool,
    /// Pools that must be resumed before it leaves for good, so that nobody waits for ever.
    paused: Vec<String>,
}

impl Operator {
    pub(crate) fn new(identity: Identity, mut rng: Rng) -> Operator {
        Operator {
            identity,
            end: None,
            inbox: Inbox::default(),
            login: Login::default(),
            columns: None,
            command: String::new(),
            commands: 0,
            sent: 0,
            lives: rng.skewed(1, 4),
            calm: false,
            paused: Vec::new(),
            rng,
        }
    }

    pub(crate) fn invite(&mut self, ctx: &mut Context, latest: u64) {
        let delay = Span::from_micros(self.rng.below(latest.max(1)));
        ctx.wake(delay, self.owner(), ARRIVE);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.lives == 0
    }

    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.lives = self.lives.min(1);
    }

    pub(crate) fn describe(&self) -> String {
        format!("operator c{}, awaits the answer to {:?}", self.identity.number, self.command)
    }

    pub(crate) fn happened(&mut self, ctx: &mut Context, happening: &Happening, bytes: &[u8]) {
        match happening {
            Happening::Connected => {
                let mut bytes = Vec::new();
                let Identity { user, database, .. } = &self.identity;
                put_front::startup(&mut bytes, &[("user", user.as_str()), ("database", database.as_str())], 0);
                self.write(ctx, &bytes);
            }
            Happening::Bytes => self.bytes(ctx, bytes),
            Happening::Eof | Happening::Error | Happening::ConnectFailed => {
                self.complain(ctx, &format!("{happening:?}"));
                self.over(ctx);
            }
            Happening::Drained | Happening::Arrived(_) => {}
        }
    }

    pub(crate) fn woken(&mut self, ctx: &mut Context, reason: u32) {
        match (reason, self.end) {
            (ARRIVE, None) if self.lives > 0 => {
                self.commands = self.rng.skewed(1, 20);
                self.inbox = Inbox::default();
                self.login = Login::default();
                self.command.clear();
                self.end = Some(ctx.connect(self.owner(), self.identity.address.clone()));
            }
            (NEXT, Some(_)) => self.next(ctx),
            // Leaving undoes a PAUSE that has not come to its end.
            (number, Some(_)) if number == IMPATIENT + self.sent && self.command.starts_with("PAUSE") => {
                self.over(ctx);
            }
            _ => {}
        }
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
                    return self.over(ctx);
                }
            }
        }
    }

    fn message(&mut self, ctx: &mut Context, width: Option<usize>, message: Back) {
        let number = self.identity.number;
        if ctx.trace.is_on() {
            ctx.note(|| format!("c{number} <- {message:?}"));
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
                self.over(ctx);
            }
            Back::RowDescription(names) => self.columns = Some(names.len()),
            Back::Row(_) if width != self.columns => {
                let text = self.describe();
                ctx.violated(Checker::AnsweredAsDirect, || format!("{text}: a row of {width:?} columns"));
            }
            Back::Ready(b'I') if self.login.is_done() => {
                self.command.clear();
                self.columns = None;
                let pause = self.rng.span(1, 1_000_000);
                ctx.wake(pause, self.owner(), NEXT);
            }
            Back::Ready(status) => self.complain(ctx, &format!("ReadyForQuery {status}")),
            _ => {}
        }
    }

    fn next(&mut self, ctx: &mut Context) {
        if (self.commands <= 1 || self.calm)
            && let Some(pool) = self.paused.pop()
        {
            return self.send(ctx, format!("RESUME {pool}"));
        }
        if self.commands == 0 || self.calm {
            let mut bytes = Vec::new();
            put_front::terminate(&mut bytes);
            self.write(ctx, &bytes);
            return self.over(ctx);
        }
        self.commands -= 1;
        let command = self.draw(ctx.rules.faulty);
        self.send(ctx, command);
    }

    fn send(&mut self, ctx: &mut Context, command: String) {
        if let Some(pool) = command.strip_prefix("PAUSE ").or_else(|| command.strip_prefix("KILL ")) {
            self.paused.push(pool.to_owned());
        }
        self.command = command;
        let (number, text) = (self.identity.number, self.command.clone());
        ctx.note(|| format!("c{number} -> {text}"));
        let mut bytes = Vec::new();
        Front::Query(text).put(&mut bytes);
        self.write(ctx, &bytes);
        self.sent += 1;
        let patience = self.rng.span(1_000, 5_000_000);
        ctx.wake(patience, self.owner(), IMPATIENT + self.sent);
    }

    fn draw(&mut self, faulty: bool) -> String {
        let pool = format!("pool{}", self.rng.below(3));
        match self.rng.below(12) {
            0 => "RELOAD".to_owned(),
            1 => format!("PAUSE {pool}"),
            2 => "RESUME".to_owned(),
            3 => format!("RESUME {pool}"),
            4 => format!("RECONNECT {pool}"),
            5 if faulty => format!("KILL {pool}"),
            _ => (*self.rng.pick(&LOOKS)).to_owned(),
        }
    }

    /// It is a fault to refuse an operator, unless faults are about.
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

    fn over(&mut self, ctx: &mut Context) {
        if let Some(end) = self.end.take() {
            ctx.close(end);
        }
        if self.paused.is_empty() || self.lives > 1 {
            self.lives = self.lives.saturating_sub(1);
        }
        // Long enough for what it left behind to be noticed: a RESUME must not overtake a PAUSE.
        let pause = self.rng.between(500_000, 1_500_000);
        ctx.wake(Span::from_micros(pause), self.owner(), ARRIVE);
    }
}
