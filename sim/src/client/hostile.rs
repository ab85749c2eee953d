//! A client that breaks the protocol before, during or after its login.
//!
//! It may get any reply or none, but no reply of another client, and only refusals before its login. It must not affect
//! other clients; those check that themselves.

use weir_base::Span;
use weir_pgwire::{Of, put_front};

use super::Identity;
use super::login::Login;
use super::reference::foreign;
use crate::check::Checker;
use crate::context::Context;
use crate::message::{Back, Front, Inbox};
use crate::network::{End, Owner, SocketEvent};
use crate::rng::Rng;
use crate::transcript::Bytes;

/// Batches that are longer have a statement of some size.
const STORED: usize = 60 << 10;

/// About the longest statement that is stored.
const LONGEST_STORED: usize = 15 << 20;

const ARRIVE: u32 = 0;
const SEND: u32 = 1;

/// When the client starts to misbehave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attack {
    /// In the client's first packet.
    AtOnce,
    /// With an unusual startup packet, most of which are refused.
    OddStartup,
    /// With requests before the login is complete.
    BeforeLogin,
    /// After the login.
    AfterLogin,
}

/// One hostile client.
pub(crate) struct Hostile {
    identity: Identity,
    rng: Rng,
    attack: Attack,
    end: Option<End>,
    inbox: Inbox,
    login: Login,
    /// Replies can't be decoded any more.
    unreadable: bool,
    batches_left: u64,
    sessions_left: u64,
    tokens: u32,
}

impl Hostile {
    pub(crate) fn new(identity: Identity, mut rng: Rng) -> Hostile {
        Hostile {
            attack: Attack::AtOnce,
            end: None,
            inbox: Inbox::default(),
            login: Login::default(),
            unreadable: false,
            batches_left: 0,
            sessions_left: rng.skewed(1, 8).min(identity.caps.sessions),
            tokens: 0,
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
        self.sessions_left = self.sessions_left.min(1);
        self.batches_left = self.batches_left.min(1);
    }

    pub(crate) fn describe(&self) -> String {
        format!("hostile c{} ({:?})", self.identity.number, self.attack)
    }

    pub(crate) fn socket_event(&mut self, ctx: &mut Context, event: &SocketEvent, bytes: &[u8]) {
        match event {
            SocketEvent::Connected => self.connected(ctx),
            SocketEvent::Bytes => self.bytes(ctx, bytes),
            SocketEvent::Eof | SocketEvent::Error | SocketEvent::ConnectFailed => self.end_session(ctx),
            SocketEvent::Ending | SocketEvent::Drained | SocketEvent::Arrived(_) => {}
        }
    }

    pub(crate) fn woken(&mut self, ctx: &mut Context, reason: u32) {
        match (reason, self.end) {
            (ARRIVE, None) if self.sessions_left > 0 => {
                ctx.affected.forget(self.identity.number);
                self.attack =
                    *self.rng.pick(&[Attack::AtOnce, Attack::OddStartup, Attack::BeforeLogin, Attack::AfterLogin]);
                self.batches_left = self.rng.between(1, 4).min(self.identity.caps.bursts);
                self.inbox = Inbox::default();
                self.login = Login::default();
                self.unreadable = false;
                self.end = Some(ctx.connect(self.owner(), self.identity.address.clone()));
            }
            (SEND, Some(_)) => self.send_batch(ctx),
            _ => {}
        }
    }

    fn owner(&self) -> Owner {
        Owner::Client(self.identity.number)
    }

    fn connected(&mut self, ctx: &mut Context) {
        let mut bytes = Vec::new();
        match self.attack {
            Attack::AtOnce => bytes = self.noise(),
            Attack::OddStartup => self.odd_startup(&mut bytes),
            Attack::BeforeLogin | Attack::AfterLogin => self.startup(&mut bytes),
        }
        self.write(ctx, &bytes);
        if self.attack != Attack::AfterLogin {
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
        let affected = ctx.affected.has(self.identity.number);
        if affected && self.attack == Attack::AfterLogin {
            // The ReadyForQuery that it would wait for may have been spoilt by a server.
            return self.end_session(ctx);
        }
        if affected || self.unreadable || self.attack == Attack::AtOnce || self.attack == Attack::OddStartup {
            return;
        }
        self.inbox.push(bytes);
        while let Ok(Some((tag, body))) = self.inbox.next() {
            match Back::read(tag, body) {
                Ok(message) => self.message(ctx, &message),
                Err(_) => self.unreadable = true,
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
                if self.attack == Attack::AfterLogin {
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

    fn send_batch(&mut self, ctx: &mut Context) {
        if self.batches_left == 0 {
            return self.end_session(ctx);
        }
        self.batches_left -= 1;
        let bytes = match self.attack {
            Attack::AtOnce => self.noise(),
            Attack::AfterLogin if self.rng.chance(150) => self.flood(),
            _ => self.requests(),
        };
        if bytes.len() > STORED {
            ctx.longest_stored = ctx.longest_stored.max(bytes.len());
        }
        if let Some(end) = self.end {
            ctx.sent(end, Bytes(&bytes));
        }
        self.write(ctx, &bytes);
        self.later(ctx);
    }

    /// Random bytes, without a token.
    fn noise(&mut self) -> Vec<u8> {
        let length = self.rng.skewed(1, 3_000);
        let mut bytes: Vec<u8> = (0..length).map(|_| self.rng.bits() as u8).collect();
        // A valid length for a message that does not arrive in full.
        if self.rng.chance(500) && bytes.len() >= 4 {
            bytes[..4].copy_from_slice(&(self.rng.skewed(4, 12_000) as u32).to_be_bytes());
        }
        bytes
    }

    /// Requests in random order, some of them with a damaged head.
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

    /// A deep pipeline, mostly without Sync and Flush, in which each message could cost as much as all before it:
    /// closes of the pooler's statement names, names that are reused, texts kept in case of an error, and errors among
    /// them.
    fn flood(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let begin = |text: String| [Front::Parse { name: String::new(), text }, bind(""), run()];
        self.tokens += 1;
        let token = format!("c{}.{}", self.identity.number, self.tokens);
        let text = if self.rng.chance(500) { format!("SLEEP 200000 {token}") } else { format!("ECHO {token}") };
        begin(text).iter().for_each(|message| message.put(&mut bytes));
        let kind = self.rng.below(6);
        if kind >= 4 {
            self.stored(&token, &mut bytes);
            return bytes;
        }
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

    /// A long statement that is stored, and short messages that refer to it.
    fn stored(&mut self, token: &str, bytes: &mut Vec<u8>) {
        let size = match self.rng.below(20) {
            0 => LONGEST_STORED,
            _ => *self.rng.pick(&[64 << 10, 256 << 10, 1 << 20]),
        };
        let word = *self.rng.pick(&[
            "x",
            "execute,",
            "prepare,",
            "deallocate,",
            "set_config(",
            "weir_",
            "'",
            "$a$",
            "(",
            "\"",
        ]);
        let comment = format!("/*{}*/", word.repeat(size / word.len()));
        let head = *self.rng.pick(&[
            "ECHO",
            "SELECT",
            "COMMIT",
            "DISCARD ALL",
            "RESET ALL",
            "LISTEN",
            "PREPARE p AS ECHO",
            "UNLISTEN *",
            "WRITE",
            "DEALLOCATE",
            "EXECUTE",
            "BEGIN",
        ]);
        let head = if head.contains(' ') || head.ends_with("IT") || head.ends_with("IN") {
            head.trim_end_matches(" ECHO").to_owned()
        } else {
            format!("{head} {token}")
        };
        let text = if self.rng.chance(500) { format!("{comment} {head}") } else { format!("{head} {comment}") };
        let name = if self.rng.chance(200) { String::new() } else { format!("big{}", self.rng.below(2)) };
        Front::Close(Of::Statement, name.clone()).put(bytes);
        Front::Parse { name: name.clone(), text }.put(bytes);
        Front::Sync.put(bytes);
        for _ in 0..(24 << 20) / size + 4 {
            let refers = match self.rng.below(4) {
                0 => Front::Describe(Of::Statement, name.clone()),
                1 => Front::Query(format!("EXECUTE {name}")),
                _ => bind(&name),
            };
            refers.put(bytes);
            if self.rng.chance(500) {
                Front::Sync.put(bytes);
            }
        }
        Front::Sync.put(bytes);
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

    fn end_session(&mut self, ctx: &mut Context) {
        if let Some(end) = self.end.take() {
            ctx.close(end);
        }
        self.sessions_left = self.sessions_left.saturating_sub(1);
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
