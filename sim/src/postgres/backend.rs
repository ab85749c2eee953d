//! One process of a PostgreSQL server: a connection, from its startup packet to its end.
//!
//! Owns what PostgreSQL's main loop owns: it reads whole messages, buffers replies until a flush, and does not read
//! while a statement runs or its output is blocked. The rules of a session are in [`Core`].

use weir_base::{OnDirty, PoolMode, Span};
use weir_pgwire::put_back;
use weir_pgwire::startup::{self, First};

use super::core::{Core, Transaction};
use super::login::{self, Login, Step};
use super::ownership::{Observation, Ownership};
use super::server_fault::{After, FaultPlan, ServerFault};
use super::settings::Settings;
use super::{Admission, Behaviour, Encryption, language};
use crate::check::Checker;
use crate::context::Context;
use crate::message::{Front, Inbox, put_error, put_notice};
use crate::network::{End, Owner};
use crate::reply::Reply;
use crate::rng::Rng;
use crate::transcript::Startup;

/// PostgreSQL sends what it has when its buffer of this size is full.
const BUFFER: usize = 8192;

/// Reasons to be woken.
pub(super) const WORK: u32 = 0;
pub(super) const SESSION_START: u32 = 1;
pub(super) const CANCEL: u32 = 2;
pub(super) const CANCELLED: u32 = 3;
/// Sleeps are numbered from here, so that the timer of a cancelled sleep has no effect.
const SLEEP: u32 = 16;

/// The phase of a connection.
enum Phase {
    /// Waits for the first packet.
    Startup,
    /// Waits for a password message.
    Login(Login),
    /// The login succeeded; the session starts.
    Starting,
    /// Handles messages.
    Serving(Box<Core>),
    /// Carries a cancel request for this process and key; `None` once it is taken.
    Cancelling(Option<(u32, Vec<u8>)>),
    /// Has misbehaved, and sends nothing more.
    Silent,
    /// Has misbehaved, and closed.
    Left,
}

/// One process of a server.
pub(crate) struct Backend {
    number: u32,
    end: End,
    /// The index of the process's server.
    pub(super) server: usize,
    key: [u8; 4],
    phase: Phase,
    parameters: Vec<(String, String)>,
    inbox: Inbox,
    output: Vec<u8>,
    ownership: Ownership,
    /// A client's transaction has begun since [`Backend::take_began`].
    began: bool,
    sleeps: u32,
    asleep: bool,
    working: bool,
    /// Notifications held back until no transaction is open.
    notifications: Vec<(u32, String, String)>,
    /// The fault that the process will commit; `None` afterwards.
    plan: Option<FaultPlan>,
    /// The fault that the process has committed.
    fault: Option<ServerFault>,
    replies: u64,
    encrypted: bool,
    rng: Rng,
}

/// Whether the process continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Life {
    On,
    Over,
}

impl Backend {
    pub(super) fn new(number: u32, end: End, server: usize, plan: Option<FaultPlan>, mut rng: Rng) -> Backend {
        Backend {
            number,
            end,
            server,
            key: rng.bytes(),
            phase: Phase::Startup,
            parameters: Vec::new(),
            inbox: Inbox::default(),
            output: Vec::new(),
            ownership: Ownership::default(),
            began: false,
            sleeps: 0,
            asleep: false,
            working: false,
            notifications: Vec::new(),
            plan,
            fault: None,
            replies: 0,
            encrypted: false,
            rng,
        }
    }

    /// Whether the process counts against the server's `max_connections`.
    pub(super) fn counts(&self) -> bool {
        !matches!(self.phase, Phase::Startup | Phase::Cancelling(_))
    }

    /// The database that was asked for.
    pub(super) fn database(&self) -> &str {
        self.parameter("database")
    }

    /// Whether a client's transaction is open here, in this database.
    pub(super) fn serves(&self, database: &str) -> bool {
        self.fault.is_none() && self.ownership.current().is_some() && self.database() == database
    }

    /// Whether a client's transaction has begun since the last call.
    pub(super) fn take_began(&mut self) -> bool {
        std::mem::take(&mut self.began)
    }

    /// The pooler's end of the connection.
    pub(super) fn pooler(&self) -> End {
        self.end.peer()
    }

    /// The process and its client.
    pub(super) fn describe(&self) -> String {
        format!("s{}, which is in a transaction of {}", self.number, name(self.ownership.current()))
    }

    /// Whether this process has that number.
    pub(super) fn is(&self, number: u32) -> bool {
        self.number == number
    }

    /// Whether this is the process of a cancel key.
    pub(super) fn has_key(&self, key: &[u8]) -> bool {
        self.key == key
    }

    /// Takes the cancel request that the process carries.
    pub(super) fn take_cancel(&mut self) -> Option<(u32, Vec<u8>)> {
        match &mut self.phase {
            Phase::Cancelling(request) => request.take(),
            _ => None,
        }
    }

    /// The cancel request that the process carried has taken effect: the process ends within `latest` microseconds.
    pub(super) fn end_cancel(&mut self, ctx: &mut Context, latest: u64) {
        let delay = self.rng.span(5, latest);
        ctx.wake(delay, Owner::Backend(self.number), CANCELLED);
    }

    /// Bytes arrived.
    pub(super) fn bytes(&mut self, ctx: &mut Context, bytes: &[u8]) {
        self.inbox.push(bytes);
        self.work_soon(ctx);
    }

    fn work_soon(&mut self, ctx: &mut Context) {
        if !self.working {
            self.working = true;
            let delay = self.rng.span(5, 2_000);
            ctx.wake(delay, Owner::Backend(self.number), WORK);
        }
    }

    /// The other end reads again.
    pub(super) fn drained(&mut self, ctx: &mut Context, admission: Admission, behaviour: &Behaviour) -> Life {
        if self.working { Life::On } else { self.work(ctx, admission, behaviour) }
    }

    /// A timer of the process has fired.
    pub(super) fn woken(
        &mut self,
        ctx: &mut Context,
        reason: u32,
        admission: Admission,
        behaviour: &Behaviour,
    ) -> Life {
        match reason {
            WORK => {
                self.working = false;
                self.work(ctx, admission, behaviour)
            }
            SESSION_START => {
                self.start_session(ctx, behaviour);
                self.work(ctx, admission, behaviour)
            }
            sleep if self.asleep && sleep == SLEEP + self.sleeps => {
                self.wake(ctx, false);
                self.work(ctx, admission, behaviour)
            }
            _ => Life::On,
        }
    }

    /// A cancel request with the right key arrived.
    pub(super) fn cancel(&mut self, ctx: &mut Context, admission: Admission, behaviour: &Behaviour) -> Life {
        ctx.cancel_requests.signalled(self.number, self.ownership.latest());
        if !self.asleep {
            return Life::On;
        }
        ctx.counts.cancelled += 1;
        let (number, owner) = (self.number, self.ownership.current());
        ctx.note(|| format!("s{number} is cancelled while it works for {}", name(owner)));
        self.wake(ctx, true);
        self.work(ctx, admission, behaviour)
    }

    /// The sleep that is under way ends, by itself or because it is cancelled.
    fn wake(&mut self, ctx: &mut Context, cancelled: bool) {
        self.asleep = false;
        let Phase::Serving(core) = &mut self.phase else { return };
        if let Some((client, sleep)) = self.ownership.current().zip(core.sleeps_for()) {
            let (now, number) = (ctx.now(), self.number);
            if let Some(late) = ctx.cancel_requests.slept(now, number, client, sleep, cancelled) {
                let late = late.micros();
                let what =
                    || format!("{sleep} sleeps at s{number} to its end, {late} µs after its cancel was answered");
                ctx.violated(Checker::CancelIsNotLost, what);
            }
        }
        core.wake(cancelled);
    }

    /// Another session on the same server sent a notification.
    pub(super) fn notify(&mut self, ctx: &mut Context, from: u32, channel: &str, payload: &str) {
        if matches!(&self.phase, Phase::Serving(core) if core.listens_on(channel)) {
            self.notifications.push((from, channel.to_owned(), payload.to_owned()));
            self.work_soon(ctx);
        }
    }

    /// Takes the notifications that its client sent.
    pub(super) fn take_notified(&mut self) -> Vec<(String, String)> {
        match &mut self.phase {
            Phase::Serving(core) => std::mem::take(&mut core.notified),
            _ => Vec::new(),
        }
    }

    /// The server ends this process with a fatal error.
    pub(super) fn dismiss(&mut self, ctx: &mut Context, code: &str, message: &str) {
        if !matches!(self.phase, Phase::Startup | Phase::Cancelling(_)) {
            put_error(&mut self.output, "FATAL", code, message);
            ctx.sent(self.end, format_args!("ErrorResponse FATAL {code} {message:?}"));
        }
        ctx.write(self.end, &self.output);
        ctx.close(self.end);
    }

    /// The process is killed, without an error message.
    pub(super) fn kill(&mut self, ctx: &mut Context) {
        ctx.abort(self.end);
    }

    /// The other end stopped writing, or the connection broke.
    pub(super) fn gone(&mut self, ctx: &mut Context) {
        ctx.close(self.end);
    }

    fn work(&mut self, ctx: &mut Context, admission: Admission, behaviour: &Behaviour) -> Life {
        loop {
            match &self.phase {
                Phase::Startup => match self.startup(ctx, admission, behaviour) {
                    Some(Life::On) => {}
                    Some(Life::Over) => return Life::Over,
                    None => return Life::On,
                },
                Phase::Login(_) => match self.login(ctx, behaviour) {
                    Some(Life::On) => {}
                    Some(Life::Over) => return Life::Over,
                    None => return Life::On,
                },
                Phase::Starting | Phase::Cancelling(_) => return Life::On,
                Phase::Serving(_) => return self.serve(ctx, behaviour),
                Phase::Silent => return self.listen(ctx),
                Phase::Left => return Life::Over,
            }
        }
    }

    /// Handles the first packet; `None` if it has not all arrived.
    fn startup(&mut self, ctx: &mut Context, admission: Admission, behaviour: &Behaviour) -> Option<Life> {
        let (first, length) = match startup::first(self.inbox.rest()) {
            Ok(None) => return None,
            Ok(Some(found)) => found,
            Err(_) => {
                ctx.close(self.end);
                return Some(Life::Over);
            }
        };
        match first {
            First::Ssl if behaviour.encryption != Encryption::Never => {
                // The model does not encrypt; bytes pass as they are.
                self.encrypted = true;
                ctx.write(self.end, b"S");
            }
            First::Ssl | First::Gss => {
                ctx.write(self.end, b"N");
            }
            First::Cancel { pid, key } => {
                ctx.got(self.end, format_args!("CancelRequest for s{pid}"));
                self.phase = Phase::Cancelling(Some((pid, key.to_vec())));
                // A hostile server may ignore the request.
                if behaviour.hostile == 0 || !self.rng.chance(behaviour.hostile) {
                    let delay = self.rng.span(5, behaviour.slow_cancel);
                    ctx.wake(delay, Owner::Backend(self.number), CANCEL);
                }
            }
            First::Startup(startup) => {
                let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                self.parameters = startup.params().map(|(n, v)| (text(n), text(v))).collect();
                ctx.got(self.end, Startup { minor: startup.minor, parameters: &self.parameters });
                if startup.minor > 0 {
                    put_back::negotiate(&mut self.output, 0, &[]);
                }
                self.phase = Phase::Starting;
            }
            First::Unsupported { .. } => {
                ctx.close(self.end);
                return Some(Life::Over);
            }
        }
        self.inbox.skip(length);
        if matches!(self.phase, Phase::Starting) { Some(self.admit(ctx, admission, behaviour)) } else { Some(Life::On) }
    }

    fn admit(&mut self, ctx: &mut Context, admission: Admission, behaviour: &Behaviour) -> Life {
        match admission {
            Admission::Open if behaviour.encryption == Encryption::Required && !self.encrypted => {
                self.dismiss(ctx, "28000", "no pg_hba.conf entry for this, no encryption");
                return Life::Over;
            }
            Admission::Open => {}
            Admission::Starting => {
                self.dismiss(ctx, "57P03", "the database system is starting up");
                return Life::Over;
            }
            Admission::Full => {
                self.dismiss(ctx, "53300", "sorry, too many clients already");
                return Life::Over;
            }
        }
        if let Some(FaultPlan::AtLogin(fault)) = self.plan.filter(|_| behaviour.hostile > 0)
            && self.misbehave(ctx, fault) != After::Continue
        {
            return Life::On;
        }
        let step = login::begin(behaviour.method, &mut self.rng, &mut self.output);
        self.step(ctx, step, behaviour)
    }

    /// Commits a fault, once.
    fn misbehave(&mut self, ctx: &mut Context, fault: ServerFault) -> After {
        let number = self.number;
        ctx.note(|| format!("s{number} misbehaves: {fault:?}"));
        self.plan = None;
        let after = fault.write(&mut self.rng, &mut self.output);
        if !fault.is_allowed() {
            self.fault = Some(fault);
            ctx.affected.mark(self.end, self.ownership.current());
        }
        self.send(ctx);
        match after {
            After::Continue => {}
            After::Silence => {
                self.phase = Phase::Silent;
                ctx.resume(self.end);
            }
            After::Close => {
                ctx.close(self.end);
                self.phase = Phase::Left;
            }
        }
        after
    }

    /// After a fault that is visible in the bytes, no other client may be served here.
    fn listen(&mut self, ctx: &mut Context) -> Life {
        while let Ok(Some((tag, body))) = self.inbox.next() {
            let Ok(message) = Front::read(tag, body) else { continue };
            if message == Front::Terminate {
                ctx.close(self.end);
                return Life::Over;
            }
            let (number, owner) = (self.number, owner_of(&message, false));
            let Some((client, fault)) = owner.filter(|_| owner != self.ownership.current()).zip(self.fault) else {
                continue;
            };
            if fault.is_visible() {
                let what = || format!("s{number}: a statement of c{client} on a server that did {fault:?}");
                ctx.violated(Checker::OneOwnerAServer, what);
            }
        }
        Life::On
    }

    /// Handles a password message; `None` if it has not all arrived.
    fn login(&mut self, ctx: &mut Context, behaviour: &Behaviour) -> Option<Life> {
        let body = match self.inbox.next() {
            Ok(Some((b'p', body))) => body.to_vec(),
            Ok(None) => return None,
            Ok(Some(_)) | Err(_) => {
                self.dismiss(ctx, "08P01", "expected password response");
                return Some(Life::Over);
            }
        };
        let Phase::Login(login) = std::mem::replace(&mut self.phase, Phase::Starting) else { return None };
        let user = self.parameter("user").to_owned();
        let step = login::step(login, &user, &body, &mut self.output);
        Some(self.step(ctx, step, behaviour))
    }

    fn step(&mut self, ctx: &mut Context, step: Step, behaviour: &Behaviour) -> Life {
        match step {
            Step::Wait(login) => {
                self.phase = Phase::Login(login);
                self.send(ctx);
            }
            Step::Wrong => {
                self.dismiss(ctx, "28P01", "password authentication failed");
                return Life::Over;
            }
            Step::Accepted => {
                put_back::auth_ok(&mut self.output);
                self.phase = Phase::Starting;
                let delay = self.rng.span(10, behaviour.slow_login);
                ctx.wake(delay, Owner::Backend(self.number), SESSION_START);
            }
        }
        Life::On
    }

    fn start_session(&mut self, ctx: &mut Context, behaviour: &Behaviour) {
        let settings = Settings::new(self.parameters.iter().map(|(n, v)| (n.as_str(), v.as_str())));
        for (name, value) in settings.reported() {
            put_back::parameter_status(&mut self.output, name, value);
        }
        put_back::backend_key_data(&mut self.output, self.number, &self.key);
        put_back::ready(&mut self.output, b'I');
        ctx.sent(self.end, "AuthenticationOk … ReadyForQuery I");
        self.phase = Phase::Serving(Box::new(Core::new(settings, behaviour.reporting)));
        self.send(ctx);
    }

    fn parameter(&self, name: &str) -> &str {
        self.parameters.iter().rev().find(|(n, _)| n == name).map_or("", |(_, v)| v)
    }

    /// Handles messages until a statement sleeps, the output is blocked, or no whole message is left.
    fn serve(&mut self, ctx: &mut Context, behaviour: &Behaviour) -> Life {
        loop {
            match self.phase {
                Phase::Silent => return Life::On,
                Phase::Left => return Life::Over,
                _ => {}
            }
            if ctx.net.is_blocked(self.end) {
                ctx.net.pause(self.end);
                return Life::On;
            }
            if self.reply(ctx, behaviour) {
                continue;
            }
            if self.start_sleep(ctx) {
                ctx.net.pause(self.end);
                return Life::On;
            }
            match self.inbox.next().map(|m| m.map(|(tag, body)| (tag, Front::read(tag, body)))) {
                Ok(None) => {
                    ctx.resume(self.end);
                    return Life::On;
                }
                Ok(Some((_, Ok(Front::Terminate)))) => {
                    ctx.close(self.end);
                    return Life::Over;
                }
                Ok(Some((_, Ok(message)))) => self.feed(ctx, &message),
                Ok(Some((tag, Err(_)))) if Front::is_known(tag) => self.feed_malformed(tag),
                Ok(Some((_, Err(_)))) | Err(_) => {
                    self.dismiss(ctx, "08P01", "invalid frontend message type");
                    return Life::Over;
                }
            }
        }
    }

    /// Puts one reply into the output, or sends the output after a flush. `false`: there was nothing to do.
    fn reply(&mut self, ctx: &mut Context, behaviour: &Behaviour) -> bool {
        let Phase::Serving(core) = &mut self.phase else { return false };
        let Some(mut reply) = core.out.pop_front() else {
            let idle = core.transaction() == Transaction::Idle && self.ownership.current().is_none();
            if idle && !self.notifications.is_empty() {
                for (from, channel, payload) in self.notifications.drain(..) {
                    put_back::notification(&mut self.output, from, &channel, &payload);
                }
                core.flush = true;
            }
            let wanted = std::mem::take(&mut core.flush) && !self.output.is_empty();
            if wanted {
                self.send(ctx);
            }
            return wanted;
        };
        self.replies += 1;
        if let Some(FaultPlan::Within(fault, after)) = self.plan
            && behaviour.hostile > 0
            && self.replies >= after
            && (self.ownership.current().is_some() || matches!(reply, Reply::Secret(_)))
            && self.misbehave(ctx, fault) != After::Continue
        {
            return true;
        }
        let Phase::Serving(core) = &mut self.phase else { return false };
        if self.rng.chance(behaviour.notices) && matches!(reply, Reply::Row(_) | Reply::Complete(_)) {
            let text = self.ownership.current().map_or("a notice".to_owned(), |owner| format!("c{owner}.0 is noted"));
            put_notice(&mut self.output, "NOTICE", "00000", &text);
        }
        ctx.sent(self.end, &reply);
        let ready = matches!(reply, Reply::Ready(_));
        if reply == Reply::Ready(b'I') {
            // A session gets its own notifications before its ReadyForQuery.
            for (channel, payload) in core.take_heard() {
                put_back::notification(&mut self.output, self.number, &channel, &payload);
            }
        }
        let idle = reply == Reply::Ready(b'I');
        while !reply.is_empty() && reply.put(&mut self.output) {
            if self.output.len() >= BUFFER {
                break;
            }
        }
        if !reply.is_empty() && matches!(reply, Reply::Rows { .. } | Reply::CopyRows { .. }) {
            core.out.push_front(reply);
        }
        if ready {
            let written = ctx.net.progress(self.end).0 + self.output.len() as u64;
            if self.ownership.ready(idle, written) {
                ctx.counts.transactions += 1;
            }
        }
        if self.output.len() >= BUFFER {
            self.send(ctx);
        }
        true
    }

    fn send(&mut self, ctx: &mut Context) {
        ctx.write(self.end, &self.output);
        self.output.clear();
    }

    fn start_sleep(&mut self, ctx: &mut Context) -> bool {
        let Phase::Serving(core) = &self.phase else { return false };
        let Some(micros) = core.sleeping() else { return false };
        if !self.asleep {
            self.asleep = true;
            self.sleeps += 1;
            ctx.wake(Span::from_micros(micros), Owner::Backend(self.number), SLEEP + self.sleeps);
        }
        true
    }

    /// A message of a known kind with a malformed body.
    fn feed_malformed(&mut self, tag: u8) {
        if let Phase::Serving(core) = &mut self.phase {
            core.feed_malformed(tag);
        }
    }

    fn feed(&mut self, ctx: &mut Context, message: &Front) {
        ctx.got(self.end, message);
        let Phase::Serving(core) = &mut self.phase else { return };
        let owner = owner_of(message, core.copying());
        if let Some(client) = owner.filter(|client| self.ownership.current() != Some(*client)) {
            let leftovers = match (ctx.rules.mode, ctx.rules.on_dirty) {
                // The client may have set them, or listen, on another server. Its own view shows whether they are right.
                (PoolMode::Auto, _) => {
                    let own = format!("listens c{client}_");
                    let of_others = core.leftovers_beside_settings().into_iter().filter(|it| !it.starts_with(&own));
                    of_others.collect::<Vec<_>>().join(" ")
                }
                (_, OnDirty::Keep) => String::new(),
                // The pooler listens on each server of a client on whose behalf it listens.
                _ if ctx.rules.listens => core.leftovers_but(&format!("listens c{client}_")),
                _ => core.leftovers(),
            };
            let observation = Observation {
                busy: core.transaction() != Transaction::Idle,
                read: ctx.net.progress(self.end).1,
                leftovers: &leftovers,
                on_dirty: if ctx.rules.mode == PoolMode::Auto { OnDirty::Reset } else { ctx.rules.on_dirty },
            };
            self.began |= self.fault.is_none();
            // After a fault the number of replies may be wrong, so owners are not known any more.
            if let Some(violation) = self.ownership.seen(client, observation).filter(|_| self.fault.is_none()) {
                let number = self.number;
                ctx.violated(violation.checker, || format!("s{number}: {}", violation.what));
            }
        }
        core.feed(message);
    }
}

/// The client whose token a message carries.
fn owner_of(message: &Front, copying: bool) -> Option<u32> {
    match message {
        Front::Query(text) | Front::Parse { text, .. } | Front::FunctionCall(text) => language::owner(text),
        // Data after the end of a COPY is ignored, and does not change the owner.
        Front::CopyData(text) if copying => language::owner(text),
        Front::Bind { values, .. } => values.iter().find_map(|value| language::owner(value)),
        _ => None,
    }
}

fn name(owner: Option<u32>) -> String {
    owner.map_or("no client".to_owned(), |client| format!("c{client}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::context::Rules;
    use crate::network::Address;
    use crate::trace::Detail;

    /// The violation when `client` sends a statement on a server that misbehaved towards client 1.
    fn checker(fault: ServerFault, client: u32) -> Option<Checker> {
        let mut ctx = Context::new(Rules::default(), Conditions::calm(), Rng::new(1), Detail::Protocol);
        let near = ctx.connect(Owner::None, Address::Pooler);
        let end = ctx.net.accept(near.conn, Owner::Backend(1));
        let mut backend = Backend::new(1, end, 0, None, Rng::new(1));
        let observation = Observation { busy: false, read: 0, leftovers: "", on_dirty: OnDirty::Keep };
        assert_eq!(backend.ownership.seen(1, observation), None);
        backend.misbehave(&mut ctx, fault);
        backend.phase = Phase::Silent;
        let mut bytes = Vec::new();
        Front::Query(format!("ECHO c{client}.7")).put(&mut bytes);
        backend.inbox.push(&bytes);
        backend.listen(&mut ctx);
        assert!(ctx.affected.has(1) && ctx.affected.is_from(end));
        ctx.violation.map(|violation| violation.checker)
    }

    #[test]
    fn a_second_client_after_a_visible_server_fault_is_caught() {
        assert_eq!(checker(ServerFault::UnknownTag, 2), Some(Checker::OneOwnerAServer));
        assert_eq!(checker(ServerFault::UnknownTag, 1), None, "client 1 may not have noticed the fault yet");
        assert_eq!(checker(ServerFault::ReadyTwice, 2), None, "the pooler can't notice the fault");
    }
}
