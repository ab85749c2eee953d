//! Every order of events in small models of lending: an owner and one or two borrowers, their clients, and messages.
//!
//! Real pools on all sides; messages between them arrive in order, and at any time. After each event every server must
//! be in exactly one place, and their number within the limit. Where no message is on its way, no client may wait at
//! one worker while a server is idle at another, nor be passed over, as far as is known, for a later one. From each
//! state every client must be served once nothing fails any more.

use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use weir_base::{ConnId, Span, Time, WorkerId};

use super::{BorrowRequest, Borrower, Lender, SLACK, ToBorrower, ToOwner, UPDATE_INTERVAL, borrower_settings};
use crate::backoff::Jitter;
use crate::state::RunState;
use crate::{Acquire, Ages, Effect, Pool, Release, Settings};

const OWNER: usize = 0;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Event {
    /// The next client of this worker needs a server.
    Acquire(usize),
    /// The server that this worker linked first is free.
    Release(usize),
    /// The connection of the server that this worker linked first is lost.
    Lost(usize),
    /// The client that has waited longest at this worker leaves.
    Leave(usize),
    /// The next message arrives.
    Arrive {
        from: usize,
        to: usize,
    },
    /// A socket has left this worker's loop.
    Detached(usize),
    /// The socket's connection is lost before it has left this worker's loop.
    LostLeaving(usize),
    /// The requested server is connected, or has failed.
    Connected,
    Failed,
    /// To the next deadline of any.
    Tick,
    /// Time passes, more than the bound.
    Wait,
    Pause,
    Resume,
    Reconnect,
    Resize,
    /// Another pool needs one of the servers, or no longer.
    Ceiling,
}

#[derive(Clone, Debug)]
enum Message {
    ToOwner(ToOwner),
    ToBorrower(ToBorrower),
    /// A server's socket, in answer to a request.
    Lent {
        id: u32,
        server: ConnId,
        ages: Ages,
    },
    /// A server's socket, on its way back.
    Returned {
        server: ConnId,
    },
}

#[derive(Clone)]
struct Rules {
    settings: Settings,
    /// Clients of each worker.
    clients: Vec<u32>,
    events: fn(Event) -> bool,
}

#[derive(Clone)]
struct Worker {
    pool: Pool<()>,
    borrower: Borrower,
    /// Linked servers and their clients, the oldest link first.
    links: Vec<(ConnId, ConnId)>,
    /// Servers whose sockets are leaving: at the owner each with the request that it is for.
    leaving: VecDeque<(ConnId, Option<BorrowRequest>)>,
    /// Since when its oldest waiting client is that one.
    head: Option<(ConnId, Time)>,
}

#[derive(Clone)]
struct World {
    rules: Rules,
    now: Time,
    lender: Lender,
    workers: Vec<Worker>,
    messages: Vec<Vec<VecDeque<Message>>>,
    /// The owner's pool has requested a server.
    wanted: bool,
    made: u32,
    small: bool,
    trace: Vec<Event>,
}

fn server_at(worker: usize, number: u32) -> ConnId {
    ConnId::new(1_000 * (worker as u32 + 1) + number, number)
}

impl World {
    fn new(rules: Rules) -> World {
        let now = Time::from_micros(1_000_000_000);
        let worker = |number: usize| {
            let settings =
                if number == OWNER { rules.settings.clone() } else { borrower_settings(rules.settings.clone()) };
            let pool = Pool::new(settings, 7, now);
            Worker { pool, borrower: Borrower::default(), links: Vec::new(), leaving: VecDeque::new(), head: None }
        };
        let count = rules.clients.len();
        World {
            workers: (0..count).map(worker).collect(),
            messages: vec![vec![VecDeque::new(); count]; count],
            rules,
            now,
            lender: Lender::default(),
            wanted: false,
            made: 0,
            small: false,
            trace: Vec::new(),
        }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = vec![Event::Pause, Event::Resume, Event::Reconnect, Event::Resize, Event::Ceiling];
        for (number, worker) in self.workers.iter().enumerate() {
            if self.free_client(number).is_some() {
                events.push(Event::Acquire(number));
            }
            if !worker.links.is_empty() {
                events.extend([Event::Release(number), Event::Lost(number)]);
            }
            if self.waiting(number).next().is_some() {
                events.push(Event::Leave(number));
            }
            if !worker.leaving.is_empty() {
                events.extend([Event::Detached(number), Event::LostLeaving(number)]);
            }
            let receivers = (0..self.workers.len()).filter(|to| !self.messages[number][*to].is_empty());
            events.extend(receivers.map(|to| Event::Arrive { from: number, to }));
        }
        if self.wanted {
            events.extend([Event::Connected, Event::Failed]);
        }
        if self.deadline() != Time::NEVER {
            events.push(Event::Tick);
        }
        events.push(Event::Wait);
        events.retain(|event| (self.rules.events)(*event));
        events
    }

    fn deadline(&self) -> Time {
        let owner = self.lender.clone().updates(&self.workers[OWNER].pool, self.now).1;
        let borrowers = self.workers.iter().skip(1).map(|worker| worker.borrower.due(&worker.pool));
        let pools = self.workers.iter().map(|worker| worker.pool.next_deadline());
        pools.chain(borrowers).fold(owner, Time::min)
    }

    fn apply(&mut self, event: Event) {
        self.trace.push(event);
        let _trace = Trace(self.trace.clone());
        self.workers.iter_mut().for_each(|worker| worker.pool.jitter = Jitter::new(7));
        let now = self.now;
        match event {
            Event::Acquire(at) => {
                let client = self.free_client(at).expect("one is free");
                match self.workers[at].pool.acquire(client, now) {
                    Acquire::Granted { server, .. } => self.link(at, client, server),
                    Acquire::Queued | Acquire::Refused(_) => {}
                }
            }
            Event::Release(at) => self.release(at),
            Event::Lost(at) => {
                let (server, _) = self.workers[at].links.remove(0);
                self.workers[at].pool.lost(server, now);
            }
            Event::Leave(at) => {
                let client = self.waiting(at).next().expect("one waits").0;
                self.workers[at].pool.leave(client, now);
            }
            Event::Arrive { from, to } => {
                let message = self.messages[from][to].pop_front().expect("a message is on its way");
                if to == OWNER { self.owner_receives(from, message) } else { self.borrower_receives(to, message) }
            }
            Event::Detached(at) => self.detached(at),
            Event::LostLeaving(at) => {
                let (server, ask) = self.workers[at].leaving.pop_front().expect("one is leaving");
                self.workers[at].pool.lost(server, now);
                if let Some(ask) = ask {
                    self.lender.server_ended(ask.from);
                    self.messages[OWNER][usize::from(ask.from.0)]
                        .push_back(Message::ToBorrower(ToBorrower::Failed(ask.id)));
                }
            }
            Event::Connected => {
                self.wanted = false;
                self.made += 1;
                let server = server_at(OWNER, self.made);
                self.workers[OWNER].pool.opening(server, now);
                let answer = self.workers[OWNER].pool.connected(server, (), now);
                self.assigned(OWNER, server, answer);
            }
            Event::Failed => {
                self.wanted = false;
                self.workers[OWNER].pool.open_declined(now, now);
            }
            Event::Tick => self.now = self.deadline(),
            Event::Wait => self.now = now + SLACK + UPDATE_INTERVAL,
            Event::Pause => {
                self.workers[OWNER].pool.pause();
                self.recall();
            }
            Event::Resume => self.workers[OWNER].pool.resume(now),
            Event::Reconnect => {
                self.workers[OWNER].pool.reconnect(now);
                self.recall();
            }
            Event::Ceiling => {
                let pool = &mut self.workers[OWNER].pool;
                let ceiling = pool.ceiling.is_none().then(|| (pool.len() as u32).saturating_sub(1));
                pool.keep_at_most(ceiling);
            }
            Event::Resize => {
                self.small = !self.small;
                let size = if self.small { 1 } else { self.rules.settings.size };
                let settings = Settings { size, ..self.rules.settings.clone() };
                self.workers[OWNER].pool.resize(settings.clone(), now);
                self.workers[1..].iter_mut().for_each(|w| w.pool.resize(borrower_settings(settings.clone()), now));
                if self.small {
                    self.recall();
                }
            }
        }
        self.settle();
        self.check();
    }

    fn release(&mut self, at: usize) {
        let (server, _) = self.workers[at].links.remove(0);
        let worker = &mut self.workers[at];
        if at != OWNER && worker.borrower.returns(&worker.pool, server) {
            return worker.leaving.push_back((server, None));
        }
        let answer = worker.pool.release(server, (), self.now);
        if let Release::Next { client, waited, .. } = answer {
            self.assert_fair(at, client, self.now.micros() - waited.micros());
        }
        self.assigned(at, server, answer);
    }

    fn assigned(&mut self, at: usize, server: ConnId, answer: Release) {
        if let Release::Next { client, .. } = answer {
            self.link(at, client, server);
        }
    }

    fn link(&mut self, at: usize, client: ConnId, server: ConnId) {
        match BorrowRequest::from_handle(client) {
            Some(ask) => {
                assert_eq!(at, OWNER);
                self.lender.answered(ask, true);
                self.workers[at].leaving.push_back((server, Some(ask)));
            }
            None => self.workers[at].links.push((server, client)),
        }
    }

    fn detached(&mut self, at: usize) {
        let (server, ask) = self.workers[at].leaving.pop_front().expect("one is leaving");
        let worker = &mut self.workers[at];
        let Some(ask) = ask else {
            let owners = worker.borrower.returned(&mut worker.pool, server, self.now).expect("it was borrowed");
            return self.messages[at][OWNER].push_back(Message::Returned { server: owners });
        };
        let to = usize::from(ask.from.0);
        let unwanted = worker.pool.is_recalled(server);
        let ages = worker.pool.ages(server);
        self.messages[OWNER][to].push_back(Message::Lent { id: ask.id, server, ages });
        if unwanted {
            self.messages[OWNER][to].push_back(Message::ToBorrower(ToBorrower::Recall));
        }
    }

    fn recall(&mut self) {
        for to in self.lender.with_servers() {
            self.messages[OWNER][usize::from(to.0)].push_back(Message::ToBorrower(ToBorrower::Recall));
        }
    }

    fn owner_receives(&mut self, from: usize, message: Message) {
        let (now, borrower) = (self.now, WorkerId(from as u16));
        let owner = &mut self.workers[OWNER];
        match message {
            Message::ToOwner(message) => match self.lender.receive(&mut owner.pool, borrower, message, now) {
                Some((request, Acquire::Granted { server, .. })) => self.link(OWNER, request.handle(), server),
                Some((BorrowRequest { id, .. }, Acquire::Refused(why))) => {
                    let refused = ToBorrower::Refused { id, why, retry_at: now };
                    self.messages[OWNER][from].push_back(Message::ToBorrower(refused));
                }
                Some((_, Acquire::Queued)) | None => {}
            },
            Message::Returned { server } => {
                self.lender.server_ended(borrower);
                self.made += 1;
                let new = server_at(OWNER, self.made);
                let answer = owner.pool.returned(server, new, (), now);
                self.assigned(OWNER, new, answer);
            }
            message => panic!("{message:?} reached the owner"),
        }
    }

    fn borrower_receives(&mut self, at: usize, message: Message) {
        let now = self.now;
        let worker = &mut self.workers[at];
        match message {
            Message::ToBorrower(message) => worker.borrower.receive(&mut worker.pool, message, now),
            Message::Lent { id, server: owners, ages } => {
                self.made += 1;
                let server = server_at(at, self.made);
                let answer = worker.borrower.received(&mut worker.pool, id, (server, owners), ages, (), now);
                self.assigned(at, server, answer);
            }
            message => panic!("{message:?} reached a borrower"),
        }
    }

    fn settle(&mut self) {
        for at in 0..self.workers.len() {
            while let Some(effect) = self.workers[at].pool.poll(self.now) {
                self.effect(at, effect);
            }
            if at == OWNER { self.settle_owner() } else { self.settle_borrower(at) }
        }
    }

    fn settle_owner(&mut self) {
        let (updates, _) = self.lender.updates(&self.workers[OWNER].pool, self.now);
        for (to, since) in updates {
            let message = Message::ToBorrower(ToBorrower::OldestElsewhere(since));
            self.messages[OWNER][usize::from(to.0)].push_back(message);
        }
    }

    fn settle_borrower(&mut self, at: usize) {
        let (now, worker) = (self.now, &mut self.workers[at]);
        let settled = worker.borrower.settle(&mut worker.pool, true, false, now);
        worker.leaving.extend(settled.to_return.into_iter().map(|server| (server, None)));
        self.messages[at][OWNER].extend(settled.messages.into_iter().map(Message::ToOwner));
        assert_eq!(worker.pool.poll(now), None, "a borrower's pool has more to do");
    }

    fn effect(&mut self, at: usize, effect: Effect) {
        match effect {
            Effect::Open if at == OWNER => self.wanted = true,
            Effect::Open => {
                let worker = &mut self.workers[at];
                let request = worker.borrower.request(&worker.pool, self.now);
                self.messages[at][OWNER].push_back(Message::ToOwner(request));
            }
            Effect::Grant { client, server, .. } => self.link(at, client, server),
            Effect::Refuse { client, why, .. } => {
                if let Some(ask) = BorrowRequest::from_handle(client) {
                    self.lender.answered(ask, false);
                    let refused = ToBorrower::Refused { id: ask.id, why, retry_at: self.now };
                    self.messages[OWNER][usize::from(ask.from.0)].push_back(Message::ToBorrower(refused));
                }
            }
            Effect::Close { .. } | Effect::Notice { .. } => {}
        }
    }

    fn free_client(&self, at: usize) -> Option<ConnId> {
        (0..self.rules.clients[at]).map(|n| ConnId::new(100 * (at as u32 + 1) + n, 1)).find(|client| {
            let worker = &self.workers[at];
            worker.links.iter().all(|(_, owner)| owner != client) && worker.pool.waiting().all(|(w, _)| w != *client)
        })
    }

    /// The clients that wait at a worker.
    fn waiting(&self, at: usize) -> impl Iterator<Item = (ConnId, Time)> {
        self.workers[at].pool.waiting().filter(|(conn, _)| BorrowRequest::from_handle(*conn).is_none())
    }

    fn is_quiet(&self) -> bool {
        self.messages.iter().flatten().all(VecDeque::is_empty) && self.workers.iter().all(|w| w.leaving.is_empty())
    }

    /// A server is given to a client that has waited since `since`: no client elsewhere that was due earlier may have
    /// been known for longer than the bound.
    fn assert_fair(&self, at: usize, client: ConnId, since: u64) {
        let to = BorrowRequest::from_handle(client).map_or(at, |ask| usize::from(ask.from.0));
        if !self.is_quiet() {
            return;
        }
        let served = if to == at { Some(since) } else { self.waiting(to).next().map(|(_, since)| since.micros()) };
        let Some(served) = served else { return };
        for (other, worker) in self.workers.iter().enumerate().filter(|(other, _)| *other != to) {
            let Some((_, oldest)) = self.waiting(other).next() else { continue };
            let young = |worker: &Worker| worker.head.is_none_or(|(_, since)| self.now - since <= UPDATE_INTERVAL);
            let stale = young(worker) || (to != at && young(&self.workers[to]));
            let passed_over = oldest.micros() + SLACK.micros() < served && !stale;
            assert!(!passed_over, "w{other}'s oldest has waited since {oldest:?}, and w{to}'s of {served} is served");
        }
    }

    fn check(&mut self) {
        let now = self.now;
        for at in 0..self.workers.len() {
            let first = self.waiting(at).next().map(|(client, _)| client);
            let head = &mut self.workers[at].head;
            *head = first.map(|client| head.filter(|(known, _)| *known == client).unwrap_or((client, now)));
        }
        self.check_places();
        let asks: Vec<WorkerId> =
            self.workers[OWNER].pool.waiting().filter_map(|(w, _)| Some(BorrowRequest::from_handle(w)?.from)).collect();
        assert!(
            asks.iter().all(|from| asks.iter().filter(|f| *f == from).count() == 1),
            "a borrower has two requests: {asks:?}"
        );
        if !self.is_quiet() {
            return;
        }
        let owner = &self.workers[OWNER].pool;
        if owner.run_state == RunState::Paused && self.workers.iter().all(|worker| worker.links.is_empty()) {
            assert!(owner.is_quiescent() || self.wanted, "a pause does not end");
        }
        if owner.run_state != RunState::Running {
            return;
        }
        let idle = |worker: &Worker| worker.pool.longest_idle().is_some();
        for at in 0..self.workers.len() {
            let beside = self.workers.iter().position(idle);
            let waits = self.waiting(at).next().is_some();
            // A borrower that was refused asks again when its pause is over.
            let pausing = at != OWNER && self.workers[at].pool.declined_until > now;
            assert!(
                beside.is_none() || !waits || pausing,
                "a client waits at w{at}, and w{beside:?} has an idle server"
            );
        }
    }

    /// Every server of the owner's pool is in exactly one place.
    fn check_places(&self) {
        let mut places: Vec<ConnId> = Vec::new();
        let owner = &self.workers[OWNER];
        for (server, state, _) in owner.pool.servers() {
            let here = match state {
                crate::ServerState::Linked(owner) => BorrowRequest::from_handle(owner).is_none(),
                _ => true,
            };
            if here {
                places.push(server);
            }
        }
        places.extend(owner.leaving.iter().filter(|(_, ask)| ask.is_some()).map(|(server, _)| *server));
        let mut gone = 0;
        for message in self.messages.iter().flatten().flatten() {
            match message {
                Message::Lent { server, .. } | Message::Returned { server } => places.push(*server),
                Message::ToOwner(ToOwner::Closed(server)) => {
                    places.push(*server);
                    gone += 1;
                }
                _ => {}
            }
        }
        for worker in &self.workers[1..] {
            worker.borrower.check(&worker.pool);
            places.extend(worker.borrower.borrowed.values());
        }
        let count = places.len();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), count, "a server is in two places");
        assert_eq!(count, owner.pool.len(), "a server is nowhere, or not in the owner's pool");
        let most = (self.rules.settings.size + self.rules.settings.reserve_size) as usize;
        assert!(count - gone <= most, "{count} servers, and {most} are allowed");
    }

    /// From here on nothing fails: every waiting client is served.
    fn finish_all(&mut self) {
        self.apply(Event::Resume);
        if let Some(ceiling) = self.workers[OWNER].pool.ceiling {
            self.give_back(ceiling as usize);
            self.apply(Event::Ceiling);
        }
        for _ in 0..400 {
            let message = self.next_message();
            let linked = (0..self.workers.len()).find(|at| !self.workers[*at].links.is_empty());
            let waits = (0..self.workers.len()).any(|at| self.waiting(at).next().is_some());
            let event = match (message, self.wanted, linked) {
                (Some(event), ..) => event,
                (_, true, _) => Event::Connected,
                _ if !waits => return,
                (.., Some(at)) => Event::Release(at),
                _ => {
                    assert!(self.deadline() != Time::NEVER, "no deadline is left, and a client waits");
                    Event::Tick
                }
            };
            self.apply(event);
        }
        panic!("a client waits for ever");
    }

    /// The pool gives back what another one needs, wherever its servers are: before any of them has been released more
    /// than twice, of which the first may come before the borrower knows.
    fn give_back(&mut self, ceiling: usize) {
        for _ in 0..2 {
            self.deliver_all();
            for at in 0..self.workers.len() {
                for _ in 0..self.workers[at].links.len() {
                    if self.workers[OWNER].pool.len() > ceiling && !self.workers[at].links.is_empty() {
                        self.apply(Event::Release(at));
                        self.deliver_all();
                    }
                }
            }
        }
        let has = self.workers[OWNER].pool.len();
        assert!(has <= ceiling, "{has} servers are kept, and no more than {ceiling} should be");
    }

    fn deliver_all(&mut self) {
        for _ in 0..100 {
            let Some(event) = self.next_message() else { return };
            self.apply(event);
        }
        panic!("messages without end");
    }

    fn next_message(&self) -> Option<Event> {
        let count = self.workers.len();
        let pairs = (0..count).flat_map(|from| (0..count).map(move |to| (from, to)));
        let message = pairs.into_iter().find(|(from, to)| !self.messages[*from][*to].is_empty());
        let leaving = || (0..count).find(|at| !self.workers[*at].leaving.is_empty()).map(Event::Detached);
        message.map(|(from, to)| Event::Arrive { from, to }).or_else(leaving)
    }

    /// What distinguishes this state from others; identities count, so some equivalent states are visited twice.
    fn fingerprint(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        let ago = |time: Time| if time == Time::NEVER { u64::MAX } else { self.now.since(time).micros() };
        let ahead = |time: Time| if time == Time::NEVER { u64::MAX } else { time.since(self.now).micros() };
        (self.wanted, self.small, self.workers[OWNER].pool.ceiling).hash(&mut hash);
        for worker in &self.workers {
            let pool = &worker.pool;
            (pool.run_state, pool.login == crate::state::Login::Asked, ahead(pool.declined_until)).hash(&mut hash);
            (ahead(pool.declined_pause), ahead(pool.deadline), ahead(pool.backoff.opens(true)), worker.links.len())
                .hash(&mut hash);
            pool.waiting().for_each(|(conn, since)| {
                (BorrowRequest::from_handle(conn).map(|a| a.from), ago(since)).hash(&mut hash)
            });
            for (server, state, _) in pool.servers() {
                let kind = match state {
                    crate::ServerState::Idle { since } => (1, ago(since)),
                    crate::ServerState::Linked(owner) => (2, u64::from(BorrowRequest::from_handle(owner).is_some())),
                    _ => (3, 0),
                };
                (kind, pool.is_outdated(server)).hash(&mut hash);
            }
            let borrower = &worker.borrower;
            (
                ago(borrower.oldest_elsewhere),
                borrower.request.is_some(),
                ago(borrower.requested.0),
                ago(borrower.requested.1),
            )
                .hash(&mut hash);
            worker.leaving.iter().for_each(|(_, ask)| ask.map(|ask| ask.from).hash(&mut hash));
            worker.head.map(|(_, since)| ago(since)).hash(&mut hash);
        }
        for (to, record) in &self.lender.borrowers {
            (
                to,
                record.request.is_some(),
                record.lent,
                ago(record.reported),
                ago(record.reported_at).min(UPDATE_INTERVAL.micros() + 1),
            )
                .hash(&mut hash);
        }
        for (number, messages) in self.messages.iter().flatten().enumerate() {
            for message in messages {
                let what = match message {
                    Message::ToOwner(ToOwner::Request { id, since }) => (1, ago(*since), u64::from(*id)),
                    Message::ToOwner(ToOwner::Withdraw) => (2, 0, 0),
                    Message::ToOwner(ToOwner::Closed(_)) => (3, 0, 0),
                    Message::ToOwner(ToOwner::HasClients(_)) => (10, 0, 0),
                    Message::Returned { .. } => (4, 0, 0),
                    Message::Lent { id, .. } => (5, u64::from(*id), 0),
                    Message::ToBorrower(ToBorrower::Refused { id, why, .. }) => (6, u64::from(*id), *why as u64),
                    Message::ToBorrower(ToBorrower::OldestElsewhere(since)) => (7, ago(*since), 0),
                    Message::ToBorrower(ToBorrower::Recall) => (8, 0, 0),
                    Message::ToBorrower(ToBorrower::Failed(id)) => (9, u64::from(*id), 0),
                };
                (number, what).hash(&mut hash);
            }
        }
        hash.finish()
    }
}

/// Prints the events that led to a world when an assertion fails in it.
struct Trace(Vec<Event>);

impl Drop for Trace {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("this happened: {:?}", self.0);
        }
    }
}

/// Tries everything to `depth` events; the number of different states.
fn walk(name: &str, rules: Rules, depth: usize) -> usize {
    let root = World::new(rules);
    let mut seen = HashSet::from([root.fingerprint()]);
    let mut front = vec![root];
    for _ in 0..depth {
        let mut next = Vec::new();
        for world in &front {
            for event in world.events() {
                let mut after = world.clone();
                after.apply(event);
                if seen.insert(after.fingerprint()) {
                    after.clone().finish_all();
                    next.push(after);
                }
            }
        }
        front = next;
    }
    println!("lending, {name}: {depth} events, {} states", seen.len());
    seen.len()
}

fn settings() -> Settings {
    Settings {
        size: 2,
        min_size: 0,
        reserve_size: 0,
        reserve_timeout: Span::ZERO,
        query_wait_timeout: Span::ZERO,
        query_wait_notify: Span::ZERO,
        server_lifetime: Span::from_secs(3600),
        server_idle_timeout: Span::from_secs(600),
        server_connect_timeout: Span::from_secs(15),
        server_login_retry: Span::from_secs(15),
        server_check_delay: Span::from_secs(30),
        checks: false,
        round_robin: false,
        connects_per_second: 0,
        max_waiting: 0,
    }
}

fn traffic(event: Event) -> bool {
    !matches!(event, Event::Pause | Event::Resume | Event::Reconnect | Event::Resize | Event::Failed | Event::Ceiling)
}

fn with_another_pool(event: Event) -> bool {
    event == Event::Ceiling || (traffic(event) && !matches!(event, Event::Leave(_) | Event::LostLeaving(_)))
}

fn commands_too(event: Event) -> bool {
    !matches!(event, Event::Leave(_) | Event::Ceiling)
}

#[test]
fn an_owner_and_a_borrower_share_two_servers() {
    let rules = Rules { settings: settings(), clients: vec![2, 2], events: traffic };
    assert!(walk("an owner and a borrower", rules, 10) > 5_000);
}

#[test]
fn an_owner_and_two_borrowers_share_one_server() {
    let rules = Rules { settings: Settings { size: 1, ..settings() }, clients: vec![1, 1, 1], events: traffic };
    assert!(walk("an owner and two borrowers", rules, 10) > 5_000);
}

#[test]
fn another_pool_needs_a_server_that_may_be_lent() {
    let rules = Rules { settings: settings(), clients: vec![1, 2], events: with_another_pool };
    assert!(walk("another pool needs a server", rules, 10) > 5_000);
}

#[test]
fn the_operator_pauses_reconnects_and_shrinks() {
    let rules = Rules { settings: settings(), clients: vec![1, 2], events: commands_too };
    assert!(walk("the operator", rules, 8) > 5_000);
}
