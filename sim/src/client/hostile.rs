//! A client that does not keep to the protocol: before its login, in it, or after it.
//!
//! It may get any answer or none, but nothing that belongs to another, and nothing but a refusal before it is logged
//! in. Whatever it does, others must not notice; that is for the others to find.

use weir_base::Span;
use weir_pgwire::{Of, put_front};

use super::Identity;
use super::login::Login;
use super::shadow::foreign;
use crate::check::Checker;
use crate::context::Context;
use crate::message::{Back, Front, Inbox};
use crate::network::{End, Happening, Owner};
use crate::rng::Rng;
use crate::transcript::Bytes;

const ARRIVE: u32 = 0;
const SEND: u32 = 1;

/// Where it begins to misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Plan {
    /// With its first packet.
    AtOnce,
    /// With a startup packet of a kind that is refused.
    OddStartup,
    /// With requests before it is logged in.
    BeforeLogin,
    /// When it is logged in.
    AfterLogin,
}

/// One such client.
pub(crate) struct Hostile {
    identity: Identity,
    rng: Rng,
    plan: Plan,
    end: Option<End>,
    inbox: Inbox,
    login: Login,
    /// Nothing that arrives can be understood any more.
    deaf: bool,
    volleys: u64,
    lives: u64,
    tokens: u32,
}

impl Hostile {
    pub(crate) fn new(identity: Identity, mut rng: Rng) -> Hostile {
        Hostile {
            plan: Plan::AtOnce,
            end: None,
            inbox: Inbox::default(),
            login: Login::default(),
            deaf: false,
            volleys: 0,
            lives: rng.skewed(1, 8).min(identity.stay.sessions),
            tokens: 0,
            identity,
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
        self.lives = self.lives.min(1);
        self.volleys = self.volleys.min(1);
    }

    pub(crate) fn describe(&self) -> String {
        format!("hostile c{} ({:?})", self.identity.number, self.plan)
    }

    pub(crate) fn happened(&mut self, ctx: &mut Context, happening: &Happening, bytes: &[u8]) {
        match happening {
            Happening::Connected => self.connected(ctx),
            Happening::Bytes => self.bytes(ctx, bytes),
            Happening::Eof | Happening::Error | Happening::ConnectFailed => self.over(ctx),
            Happening::Ending | Happening::Drained | Happening::Arrived(_) => {}
        }
    }

    pub(crate) fn woken(&mut self, ctx: &mut Context, reason: u32) {
        match (reason, self.end) {
            (ARRIVE, None) if self.lives > 0 => {
                ctx.misled.forget(self.identity.number);
                self.plan = *self.rng.pick(&[Plan::AtOnce, Plan::OddStartup, Plan::BeforeLogin, Plan::AfterLogin]);
                self.volleys = self.rng.between(1, 4).min(self.identity.stay.bursts);
                self.inbox = Inbox::default();
                self.login = Login::default();
                self.deaf = false;
                self.end = Some(ctx.connect(self.owner(), self.identity.address.clone()));
            }
            (SEND, Some(_)) => self.volley(ctx),
            _ => {}
        }
    }

    fn owner(&self) -> Owner {
        Owner::Client(self.identity.number)
    }

    fn connected(&mut self, ctx: &mut Context) {
        let mut bytes = Vec::new();
        match self.plan {
            Plan::AtOnce => bytes = self.noise(),
            Plan::OddStartup => self.odd_startup(&mut bytes),
            Plan::BeforeLogin | Plan::AfterLogin => self.startup(&mut bytes),
        }
        self.write(ctx, &bytes);
        if self.plan != Plan::AfterLogin {
            self.later(ctx);
        }
    }

    fn startup(&self, bytes: &mut Vec<u8>) {
        let Identity { user, database, .. } = &self.identity;
        put_front::startup(bytes, &[("user", user.as_str()), ("database", database.as_str())], 0);
    }

    fn odd_startup(&mut self, bytes: &mut Vec<u8>) {
        match self.rng.below(7) {
            0 => {
                put_front::ssl_request(bytes);
                self.startup(bytes);
            }
            1 => {
                put_front::gss_request(bytes);
                put_front::gss_request(bytes);
            }
            2 => put_front::startup(bytes, &[("user", "nobody"), ("database", "nowhere")], 0),
            3 => put_front::startup(bytes, &[("database", "pool0")], 7),
            4 => bytes.extend_from_slice(&[0, 0, 0, 9, 0, 2, 0, 0, 0]),
            5 => put_front::cancel_request(bytes, self.rng.below(100) as u32, &self.rng.bytes::<4>()),
            _ => {
                self.startup(bytes);
                self.startup(bytes);
            }
        }
    }

    fn bytes(&mut self, ctx: &mut Context, bytes: &[u8]) {
        if ctx.misled.has(self.identity.number)
            || self.deaf
            || self.plan == Plan::AtOnce
            || self.plan == Plan::OddStartup
        {
            return;
        }
        self.inbox.push(bytes);
        while let Ok(Some((tag, body))) = self.inbox.next() {
            match Back::read(tag, body) {
                Ok(message) => self.message(ctx, &message),
                Err(_) => self.deaf = true,
            }
        }
    }

    fn message(&mut self, ctx: &mut Context, message: &Back) {
        let number = self.identity.number;
        if let Some(end) = self.end {
            ctx.got(end, message);
        }
        if let Some(owner) = foreign(message, number) {
            let what = format!("hostile c{number} got what belongs to c{owner}: {message:?}");
            ctx.violated(Checker::ResultsReachTheirOwner, || what);
        }
        match message {
            Back::Auth(step) => {
                let mut bytes = Vec::new();
                let Identity { user, password, .. } = &self.identity;
                if self.plan == Plan::AfterLogin {
                    self.login.step(step, user, password, &mut self.rng, &mut bytes);
                } else if matches!(step, crate::message::AuthStep::Ok) {
                    self.login = Login::Done;
                }
                self.write(ctx, &bytes);
            }
            Back::Row(_) | Back::Complete(_) | Back::Ready(_) | Back::RowDescription(_) if !self.login.is_done() => {
                ctx.violated(Checker::PortIsKept, || format!("hostile c{number} got {message:?} before its login"));
            }
            Back::Ready(_) => self.later(ctx),
            _ => {}
        }
    }

    fn later(&mut self, ctx: &mut Context) {
        let pause = self.rng.span(1, 300_000);
        ctx.wake(pause, self.owner(), SEND);
    }

    fn volley(&mut self, ctx: &mut Context) {
        if self.volleys == 0 {
            return self.over(ctx);
        }
        self.volleys -= 1;
        let bytes = match self.plan {
            Plan::AtOnce => self.noise(),
            Plan::AfterLogin if self.rng.chance(150) => self.flood(),
            _ => self.requests(),
        };
        if let Some(end) = self.end {
            ctx.sent(end, Bytes(&bytes));
        }
        self.write(ctx, &bytes);
        self.later(ctx);
    }

    /// Bytes that mean nothing, and name nobody.
    fn noise(&mut self) -> Vec<u8> {
        let length = self.rng.skewed(1, 3_000);
        let mut bytes: Vec<u8> = (0..length).map(|_| self.rng.bits() as u8).collect();
        // A length that can be waited for in vain.
        if self.rng.chance(500) && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&(self.rng.skewed(4, 12_000) as u32).to_be_bytes());
        }
        bytes
    }

    /// Requests in an order that makes no sense, some of them damaged in their heads.
    fn requests(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..self.rng.between(1, 12) {
            let from = bytes.len();
            self.request().put(&mut bytes);
            if self.rng.chance(60) {
                bytes[from] = self.rng.bits() as u8;
            }
            if self.rng.chance(60) {
                let length = (self.rng.skewed(1, 1 << 31) as u32).wrapping_sub(1);
                bytes[from + 1..from + 5].copy_from_slice(&length.to_be_bytes());
            }
        }
        if self.rng.chance(300) {
            bytes.truncate(self.rng.below(bytes.len() as u64) as usize);
        }
        bytes
    }

    /// A deep pipeline in which each message could cost as much as all before it, and nothing is asked to be said at once:
    /// names of ours that are closed, names that change hands, texts that are kept for an undoing, errors amid them.
    fn flood(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let begin = |text: String| [Front::Parse { name: String::new(), text }, bind(""), run()];
        self.tokens += 1;
        let token = format!("c{}.{}", self.identity.number, self.tokens);
        let text = if self.rng.chance(500) { format!("SLEEP 200000 {token}") } else { format!("ECHO {token}") };
        begin(text).iter().for_each(|message| message.put(&mut bytes));
        let kind = self.rng.below(4);
        for number in 0..self.rng.skewed(10, 8_000) {
            let text = format!("ECHO{}{token}", " ".repeat(if kind == 2 { 2_000 } else { 1 }));
            match kind {
                0 => Front::Close(Of::Statement, format!("weir_{number}")).put(&mut bytes),
                1 => {
                    let name = format!("f{}", number % 500);
                    Front::Close(Of::Statement, name.clone()).put(&mut bytes);
                    Front::Parse { name, text: format!("{text}.{number}") }.put(&mut bytes);
                }
                2 if number < 1_000 => Front::Parse { name: String::new(), text }.put(&mut bytes),
                2 => break,
                _ => begin("DEALLOCATE ALL".to_owned()).iter().for_each(|message| message.put(&mut bytes)),
            }
            if self.rng.chance(2) {
                bind("nothing").put(&mut bytes);
            }
            if self.rng.chance(2) {
                Front::Sync.put(&mut bytes);
            }
        }
        if self.rng.chance(700) {
            Front::Sync.put(&mut bytes);
        }
        bytes
    }

    fn request(&mut self) -> Front {
        self.tokens += 1;
        let token = format!("c{}.{}", self.identity.number, self.tokens);
        let name = |rng: &mut Rng| (*rng.pick(&["", "s0", "s1", "weir_gone"])).to_owned();
        match self.rng.below(16) {
            0 => Front::Query(format!("ECHO {token}")),
            1 => Front::Query(format!("COPY IN {token}")),
            2 => Front::Parse { name: name(&mut self.rng), text: format!("ECHO {token}") },
            3 => Front::Parse { name: name(&mut self.rng), text: format!("COPY IN {token}") },
            4 => {
                let (portal, statement) = (name(&mut self.rng), name(&mut self.rng));
                Front::Bind { portal, statement, values: Vec::new() }
            }
            5 => Front::Describe(Of::Statement, name(&mut self.rng)),
            6 => Front::Describe(Of::Portal, name(&mut self.rng)),
            7 | 8 => Front::Execute { portal: name(&mut self.rng), max_rows: self.rng.below(3) as i32 },
            9 => Front::Close(Of::Statement, name(&mut self.rng)),
            10 => Front::Flush,
            11 => Front::CopyData(format!("{token}:x\n")),
            12 => Front::CopyDone,
            13 => Front::CopyFail(token),
            14 => Front::Password(token.into_bytes()),
            _ => Front::Sync,
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
        self.lives = self.lives.saturating_sub(1);
        let pause = self.rng.span(1, 500_000);
        ctx.wake(pause, self.owner(), ARRIVE);
    }
}

fn bind(statement: &str) -> Front {
    Front::Bind { portal: String::new(), statement: statement.to_owned(), values: Vec::new() }
}

fn run() -> Front {
    Front::Execute { portal: String::new(), max_rows: 0 }
}
