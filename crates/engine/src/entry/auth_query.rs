//! Secrets that a server is asked for (auth_query), for users whom `auth_file` does not list.
//!
//! Two halves, which may live on two workers. *Asking* stands where the client logs in: one question for all clients of
//! the same user and database, and answers that are kept for a while. *Looking* stands where the pool lives in which the
//! server is asked: a question waits in that pool's queue like a client, under a handle of its own kind ([`Waiter`]), has
//! a server for one exchange, and gives it back. So the limits hold for it as for anybody, and it takes its turn.
//!
//! Always true: a question ends in exactly one answer; a client waits for one question at most; nobody learns from an
//! answer whether a user exists.

use std::collections::HashMap;
use std::sync::Arc;

use weir_auth::{Mocks, Secret, Shape};
use weir_base::{Peer, Slab, Time, WorkerId};
use weir_config::{AuthLookup, Spread};
use weir_pool::Acquire;
use weir_session::hello::Hello;
use weir_session::{Refusal, back, lookup};

use crate::Engine;
use crate::cluster::messages::{Message, Payload};
use crate::common::FollowUp;
use crate::entry::state::Verdict;
use crate::handles::{FIRST_QUESTION, PoolIx};
use crate::log::log;
use crate::peers::{ClientPhase, ClientSlot, Entry, ServerPhase, ServerSlot};
use crate::port::{Io, Level};
use crate::traffic::wire::Wire;

/// How often a question may lose its server before that is its answer.
const ATTEMPTS: u32 = 3;
/// The most answers that are kept of users who exist, and of those who do not.
const MAX_KEPT: usize = 4096;

/// A client's database and user, which a secret is asked for.
type Subject = (Arc<str>, Arc<str>);

/// A question as it travels.
#[derive(Debug)]
pub(crate) struct Question {
    /// The asker's number for it.
    pub(crate) id: u64,
    pub(crate) lookup: AuthLookup,
    /// About whom.
    pub(crate) user: Arc<str>,
}

/// Both halves of this worker.
#[derive(Default)]
pub(crate) struct Lookups {
    /// Questions of this worker that have no answer yet.
    asked: HashMap<u64, Asking>,
    by_subject: HashMap<Subject, u64>,
    /// Answers about users who exist. Those about others are kept for as long, and apart: names that are made up take no
    /// place of real ones.
    kept: HashMap<Subject, Kept>,
    unknown: HashMap<Subject, Kept>,
    /// The secrets that servers of this worker's pools have told.
    told: Arc<Mocks>,
    /// The same by the last answer, whoever had it.
    mocks: Option<Arc<Mocks>>,
    /// Questions that this worker's pools carry.
    looking: Slab<Looking>,
    by_id: HashMap<u64, Peer>,
    generation: u32,
}

/// A question, and who waits for its answer here.
struct Asking {
    subject: Subject,
    /// The worker that has it.
    at: WorkerId,
    clients: Vec<Peer>,
}

struct Kept {
    verdict: Verdict,
    until: Time,
}

/// A question in a pool.
struct Looking {
    /// Its handle in the pool's queue.
    peer: Peer,
    from: WorkerId,
    question: Question,
    pool: PoolIx,
    since: Time,
    attempts: u32,
    /// The exchange with its server, while it has one.
    exchange: Option<lookup::Lookup>,
}

impl Lookups {
    /// Forgets what servers have said, as a reload does.
    pub(crate) fn forget_all(&mut self) {
        self.kept.clear();
        self.unknown.clear();
    }

    /// Forgets what was said about one user.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.kept.remove(subject);
        self.unknown.remove(subject);
    }

    /// What users look like about whom servers are asked, where none can be asked; `usual` if none has said anything.
    pub(crate) fn mocks(&self, usual: Shape) -> Arc<Mocks> {
        self.mocks.clone().unwrap_or_else(|| Arc::new(Mocks::of_shape(usual)))
    }

    /// How many questions wait in a pool's queue.
    pub(crate) fn waiting(&self, pool: PoolIx) -> u32 {
        self.looking.iter().filter(|(_, l)| l.pool == pool && l.exchange.is_none()).count() as u32
    }

    fn kept(&mut self, subject: &Subject, now: Time) -> Option<Verdict> {
        let kept = self.kept.get(subject).or_else(|| self.unknown.get(subject))?;
        (now < kept.until).then(|| kept.verdict.clone())
    }

    fn keep(&mut self, subject: Subject, verdict: Verdict, until: Time, now: Time) {
        let answers = if verdict.text.is_some() { &mut self.kept } else { &mut self.unknown };
        if answers.len() >= MAX_KEPT {
            answers.retain(|_, kept| now < kept.until);
        }
        if answers.len() < MAX_KEPT && now < until {
            answers.insert(subject, Kept { verdict, until });
        }
    }

    fn find(&mut self, peer: Peer) -> Option<&mut Looking> {
        self.looking.get_mut(peer.slot - FIRST_QUESTION).filter(|looking| looking.peer == peer)
    }

    /// Whether this handle names a question that waits in that pool; for checks.
    pub(crate) fn waits(&self, peer: Peer, pool: PoolIx) -> bool {
        let looking = self.looking.get(peer.slot - FIRST_QUESTION);
        looking.is_some_and(|l| l.peer == peer && l.pool == pool && l.exchange.is_none())
    }
}

/// Asking, where the client is.
impl Engine {
    /// A login has failed by what was said about its user, and the password may be a new one: the next attempt asks anew, on
    /// whatever worker it is.
    pub(crate) fn distrust<I: Io>(&mut self, subject: Subject, io: &mut I) {
        self.entry.lookups.forget(&subject);
        if self.common.config().spread == Spread::Never {
            // Clients of one database and user all come to this worker.
            return;
        }
        let (database, user) = subject;
        self.tell_others(|| Payload::Distrust { database: database.clone(), user: user.clone() }, io);
    }

    /// A client's secret must be asked for. It goes on with [`Engine::challenge`] or is refused.
    pub(crate) fn ask<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        hello: Box<Hello>,
        lookup: AuthLookup,
        io: &mut I,
    ) {
        let subject: Subject = (hello.database.as_str().into(), hello.user.as_str().into());
        if let Some(verdict) = self.entry.lookups.kept(&subject, now) {
            return self.begin_asked(now, client, hello, &verdict, io);
        }
        if let Some(why) = self.bad_place(&lookup) {
            log(Level::Error, format_args!("{why}"), io);
            return self.refuse(now, client, Refusal::BadConfig, io);
        }
        if self.admin.halt.disabled.contains(&lookup.database) {
            return self.refuse(now, client, Refusal::AuthDatabaseDisabled(lookup.database), io);
        }
        let peer = client.peer;
        client.phase = ClientPhase::Asking(hello);
        self.wait_more(client, io);
        if let Some(asking) =
            self.entry.lookups.by_subject.get(&subject).and_then(|id| self.entry.lookups.asked.get_mut(id))
        {
            return asking.clients.push(peer);
        }
        let id = self.common.next_id();
        let at = self.owner_of(&lookup.database, &lookup.user);
        let question = Question { id, lookup, user: subject.1.clone() };
        self.entry.lookups.by_subject.insert(subject.clone(), id);
        self.entry.lookups.asked.insert(id, Asking { subject, at, clients: vec![peer] });
        io.post(at, Message(Payload::LookUp(Box::new(question))), None);
    }

    /// Why nothing can be asked in this place.
    fn bad_place(&self, lookup: &AuthLookup) -> Option<String> {
        let name = &lookup.database;
        if weir_admin::is_console(name) {
            return Some(format!("cannot use the reserved \"{name}\" database as an auth_dbname"));
        }
        let missing = self.common.config().pool(name).is_none();
        missing.then(|| format!("authentication database \"{name}\" is not configured"))
    }

    fn begin_asked<I: Io>(
        &mut self,
        now: Time,
        client: Box<ClientSlot>,
        hello: Box<Hello>,
        verdict: &Verdict,
        io: &mut I,
    ) {
        self.challenge(now, client, hello, Some(verdict), io);
    }

    /// A question of this worker is answered.
    pub(crate) fn looked_up<I: Io>(&mut self, now: Time, id: u64, answer: Result<Verdict, Refusal>, io: &mut I) {
        let Some(asking) = self.entry.lookups.asked.remove(&id) else { return };
        self.entry.lookups.by_subject.remove(&asking.subject);
        if let Ok(verdict) = &answer {
            self.entry.lookups.mocks = Some(verdict.mocks.clone());
            let until = now + self.common.config().auth.query_cache;
            self.entry.lookups.keep(asking.subject, verdict.clone(), until, now);
        }
        for peer in asking.clients {
            self.told_verdict(now, peer, &answer, io);
        }
    }

    fn told_verdict<I: Io>(&mut self, now: Time, peer: Peer, answer: &Result<Verdict, Refusal>, io: &mut I) {
        let Some(mut client) = self.peers.take_client(peer) else { return };
        if !matches!(client.phase, ClientPhase::Asking(_)) {
            return self.peers.put(peer, Entry::Client(client));
        }
        self.unpause_client(&mut client, io);
        let ClientPhase::Asking(hello) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else { return };
        match answer {
            Ok(verdict) => self.begin_asked(now, client, hello, verdict, io),
            Err(refusal) => {
                client.phase = ClientPhase::Asking(hello);
                self.refuse(now, client, refusal.clone(), io);
            }
        }
    }

    /// A client that waited for an answer is gone. A question that nobody waits for is taken back.
    pub(crate) fn asked_no_more<I: Io>(&mut self, peer: Peer, hello: &Hello, io: &mut I) {
        let subject: Subject = (hello.database.as_str().into(), hello.user.as_str().into());
        let Some(id) = self.entry.lookups.by_subject.get(&subject).copied() else { return };
        let Some(asking) = self.entry.lookups.asked.get_mut(&id) else { return };
        asking.clients.retain(|client| *client != peer);
        if asking.clients.is_empty() {
            let at = asking.at;
            self.entry.lookups.asked.remove(&id);
            self.entry.lookups.by_subject.remove(&subject);
            io.post(at, Message(Payload::LookUpNoMore(id)), None);
        }
    }
}

/// Looking, where the pool is.
impl Engine {
    /// A worker asks about a user.
    pub(crate) fn look_up<I: Io>(&mut self, now: Time, from: WorkerId, question: Question, io: &mut I) {
        let Some(config) = self.common.config().pool(&question.lookup.database) else {
            return self.answer_lookup(from, question.id, Err(Refusal::BadConfig), io);
        };
        let pool = self.pool_of(&question.lookup.database, &config, &question.lookup.user, now);
        let slot = self.pools.get_mut(pool);
        slot.lookups += 1;
        let generation = self.entry.lookups.generation.wrapping_add(1);
        self.entry.lookups.generation = generation;
        let looking = Looking { peer: Peer::NONE, from, question, pool, since: now, attempts: 0, exchange: None };
        let index = self.entry.lookups.looking.insert(looking);
        let peer = Peer::new(FIRST_QUESTION + index, generation);
        if let Some(looking) = self.entry.lookups.looking.get_mut(index) {
            looking.peer = peer;
            self.entry.lookups.by_id.insert(looking.question.id, peer);
        }
        let acquire = self.pools.get_mut(pool).pool.acquire(peer, now);
        self.lookup_acquired(now, peer, pool, acquire, io);
    }

    fn lookup_acquired<I: Io>(&mut self, now: Time, peer: Peer, pool: PoolIx, acquire: Acquire, io: &mut I) {
        match acquire {
            Acquire::Granted { server, .. } => self.run_lookup(now, peer, server, io),
            Acquire::Queued => self.common.follow_up(FollowUp::PollPool(pool)),
            Acquire::Refused(why) => {
                let refusal = self.refusal(pool, why);
                self.lookup_over(peer, Err(refusal), io);
            }
        }
    }

    /// A question has its server, and is put to it. A server that went stale unnoticed costs an attempt, so none is
    /// checked before.
    pub(crate) fn run_lookup<I: Io>(&mut self, now: Time, peer: Peer, server: Peer, io: &mut I) {
        let Some(looking) = self.entry.lookups.find(peer) else { return };
        let Some(slot) = self.peers.server(server) else { return };
        slot.linked_at = now;
        slot.query_at = Time::NEVER;
        let Some((up, phase)) = slot.up() else { return };
        *phase = ServerPhase::AuthQuery(peer);
        looking.attempts += 1;
        let mut wire = Wire::new(io, Peer::NONE, server, &[], None);
        let (query, user) = (&looking.question.lookup.query, &looking.question.user);
        looking.exchange = Some(lookup::Lookup::begin(up, query, user, &mut self.sessions.scratch, &mut wire));
        let pool = looking.pool;
        self.pools.get_mut(pool).stats.server_assignment_count += 1;
        self.watch_own_query(now, server);
    }

    /// A server that is asked something sent something.
    pub(crate) fn lookup_bytes<I: Io>(
        &mut self,
        now: Time,
        mut server: Box<ServerSlot>,
        peer: Peer,
        bytes: &[u8],
        io: &mut I,
    ) {
        let server_peer = server.peer;
        let exchange = self.entry.lookups.find(peer).and_then(|looking| looking.exchange.as_mut());
        let (Some(exchange), Some((up, _))) = (exchange, server.up()) else {
            io.close(server_peer);
            return self.server_gone(now, server, io);
        };
        match exchange.feed(up, bytes, &self.sessions.params) {
            Ok(None) => self.peers.put(server_peer, Entry::Server(server)),
            Ok(Some(answer)) => {
                if let Some((_, phase)) = server.up() {
                    *phase = ServerPhase::Linked;
                }
                self.peers.put(server_peer, Entry::Server(server));
                self.lookup_answered(peer, answer, io);
                self.clean_up(now, server_peer, io);
            }
            Err(back::Unexpected(what)) => {
                let text = format_args!("unexpected response to auth_query: {what}");
                self.log_server(Level::Warning, &server, text, io);
                io.close(server_peer);
                self.server_gone(now, server, io);
            }
        }
    }

    fn lookup_answered<I: Io>(&mut self, peer: Peer, answer: lookup::Answer, io: &mut I) {
        let Some(looking) = self.entry.lookups.find(peer) else { return };
        let (pool, user) = (looking.pool, looking.question.user.clone());
        let verdict = match answer {
            Ok(Some(found)) if found.user == *user => Ok(found.secret.filter(|secret| !secret.is_empty())),
            Ok(Some(found)) => {
                let slot = self.pools.get(pool);
                let (name, asker) = (&slot.name, &slot.user);
                let text = format_args!("{name}/{asker}: auth_query for \"{user}\" answers about \"{}\"", found.user);
                log(Level::Warning, text, io);
                Ok(None)
            }
            Ok(None) => Ok(None),
            Err(error) => {
                let slot = self.pools.get(pool);
                let (name, asker) = (&slot.name, &slot.user);
                let text = format_args!("{name}/{asker}: auth_query failed: {} ({})", error.message, error.sqlstate);
                log(Level::Error, text, io);
                Err(Refusal::BadConfig)
            }
        };
        let verdict = verdict.map(|text| self.verdict(pool, text));
        self.lookup_over(peer, verdict, io);
    }

    /// Adds to a server's answer what users without a secret look like there: like those whose secrets it has told, and
    /// before the first of them like the asker, whose own login has shown how it was asked for a proof.
    fn verdict(&mut self, pool: PoolIx, text: Option<Arc<str>>) -> Verdict {
        if let Some(secret) = text.as_ref().and_then(|text| Secret::parse(text).ok()) {
            Arc::make_mut(&mut self.entry.lookups.told).learn(&secret);
        }
        if !self.entry.lookups.told.is_empty() {
            return Verdict { text, mocks: self.entry.lookups.told.clone() };
        }
        let own = self.pools.get(pool).salted.as_ref();
        let own = own.map(|((_, salt, iterations), _)| Shape { iterations: *iterations, salt: salt.len() });
        let shape = own.unwrap_or(Shape::usual(self.entry.policy.iterations));
        Verdict { text, mocks: Arc::new(Mocks::of_shape(shape)) }
    }

    /// The server of a question is gone: it may have another one, a few times.
    pub(crate) fn lookup_lost<I: Io>(&mut self, now: Time, peer: Peer, words: Option<Refusal>, io: &mut I) {
        let Some(looking) = self.entry.lookups.find(peer) else { return };
        looking.exchange = None;
        let (pool, since, attempts) = (looking.pool, looking.since, looking.attempts);
        if attempts >= ATTEMPTS {
            return self.lookup_over(peer, Err(words.unwrap_or(Refusal::ServerLost)), io);
        }
        let acquire = self.pools.get_mut(pool).pool.requeue(peer, since, now);
        self.lookup_acquired(now, peer, pool, acquire, io);
    }

    /// A question is over; it is in no queue and has no server.
    pub(crate) fn lookup_over<I: Io>(&mut self, peer: Peer, answer: Result<Verdict, Refusal>, io: &mut I) {
        if self.entry.lookups.find(peer).is_none() {
            return;
        }
        let Some(looking) = self.entry.lookups.looking.remove(peer.slot - FIRST_QUESTION) else { return };
        self.entry.lookups.by_id.remove(&looking.question.id);
        self.pools.get_mut(looking.pool).lookups -= 1;
        self.common.follow_up(FollowUp::PollPool(looking.pool));
        self.answer_lookup(looking.from, looking.question.id, answer, io);
    }

    fn answer_lookup<I: Io>(&mut self, to: WorkerId, id: u64, answer: Result<Verdict, Refusal>, io: &mut I) {
        io.post(to, Message(Payload::LookedUp { id, answer }), None);
    }

    /// Nobody waits for an answer any more. What is asked already is answered to nobody.
    pub(crate) fn look_up_no_more(&mut self, now: Time, id: u64) {
        let Some(peer) = self.entry.lookups.by_id.get(&id).copied() else { return };
        let Some(looking) = self.entry.lookups.find(peer).filter(|looking| looking.exchange.is_none()) else { return };
        let pool = looking.pool;
        self.entry.lookups.looking.remove(peer.slot - FIRST_QUESTION);
        self.entry.lookups.by_id.remove(&id);
        let slot = self.pools.get_mut(pool);
        slot.pool.leave(peer, now);
        slot.lookups -= 1;
        self.common.follow_up(FollowUp::PollPool(pool));
    }
}
