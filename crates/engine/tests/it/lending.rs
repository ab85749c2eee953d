//! One pool over two workers: lent servers, faults on their way, and the errors and notices of waiting clients.

use std::sync::Arc;

use crate::common::{Call, World, config, done, query, ready, says};
use weir_base::{ConnId, Span, WorkerId};
use weir_config::{Config, Spread};
use weir_engine::port::{Input, Signal, WorkResult};
use weir_pgwire::put_back;

/// Two workers. Each socket is followed by the number under which it was noted, on any worker.
pub(crate) struct Pair {
    pub(crate) worlds: [World; 2],
    sockets: Vec<(usize, ConnId)>,
}

/// A pool of this size, whose clients are spread over the workers round robin.
fn spread(size: u32) -> Config {
    let mut config = config(size);
    config.spread = Spread::Always;
    for pool in config.pools.values_mut() {
        Arc::make_mut(pool).limits.query_wait_timeout = Span::from_secs(10);
    }
    config
}

impl Pair {
    pub(crate) fn new(size: u32) -> Pair {
        Pair::with(spread(size))
    }

    pub(crate) fn with(config: Config) -> Pair {
        Pair { worlds: [0, 1].map(|worker| World::worker(config.clone(), 2, worker)), sockets: Vec::new() }
    }

    pub(crate) fn note(&mut self, worker: usize, conn: ConnId) -> usize {
        self.sockets.push((worker, conn));
        self.sockets.len() - 1
    }

    pub(crate) fn worker(&self, socket: usize) -> usize {
        self.sockets[socket].0
    }

    pub(crate) fn send(&mut self, socket: usize, bytes: &[u8]) {
        let (worker, conn) = self.sockets[socket];
        self.worlds[worker].bytes(conn, bytes);
    }

    pub(crate) fn received(&mut self, socket: usize) -> Vec<u8> {
        let (worker, conn) = self.sockets[socket];
        self.worlds[worker].received(conn)
    }

    pub(crate) fn is_open(&self, socket: usize) -> bool {
        let (worker, conn) = self.sockets[socket];
        self.worlds[worker].is_open(conn)
    }

    /// A requested detach is completed.
    pub(crate) fn detach(&mut self) -> bool {
        for world in &mut self.worlds {
            if let Some(at) = world.port.asked.iter().position(|asked| matches!(asked, Call::Detach(_))) {
                let Call::Detach(conn) = world.port.asked.remove(at) else { unreachable!("it was found") };
                world.input(Input::Detached { conn });
                return true;
            }
        }
        false
    }

    /// A message arrives, with the socket that comes with it.
    pub(crate) fn receive(&mut self) -> bool {
        (0..2).any(|from| self.receive_from(from))
    }

    /// The next message of this worker arrives.
    pub(crate) fn receive_from(&mut self, from: usize) -> bool {
        let Some((to, message, socket)) = self.worlds[from].port.messages.pop_front() else { return false };
        let to = usize::from(to.0);
        let conn = socket.map(|old| {
            let conn = self.worlds[to].socket();
            self.sockets.iter_mut().filter(|at| **at == (from, old)).for_each(|at| *at = (to, conn));
            conn
        });
        let from = WorkerId(from as u16);
        self.worlds[to].input(Input::Message { from, message, socket: conn });
        true
    }

    /// All messages under way arrive.
    pub(crate) fn deliver(&mut self) {
        while self.detach() || self.receive() {}
    }

    /// A requested server accepts the login.
    pub(crate) fn server(&mut self) -> Option<usize> {
        let connecting = |(worker, world): (usize, &mut World)| Some((worker, world.connecting()?));
        let (worker, conn) = self.worlds.iter_mut().enumerate().find_map(connecting)?;
        let server = self.note(worker, conn);
        self.worlds[worker].log_in(conn);
        self.deliver();
        Some(server)
    }

    /// The next client, on the other worker than the one before it.
    pub(crate) fn client(&mut self) -> usize {
        let conn = self.worlds[0].arrival("ann", "db");
        let client = self.note(0, conn);
        self.deliver();
        client
    }

    /// A connection that has sent nothing yet.
    pub(crate) fn visitor(&mut self) -> usize {
        let conn = self.worlds[0].visitor();
        self.note(0, conn)
    }

    /// An operator, who is one of `admin_users`.
    pub(crate) fn console(&mut self) -> usize {
        let conn = self.worlds[0].arrival("ann", "weir");
        let console = self.note(0, conn);
        self.deliver();
        assert!(self.received(console).ends_with(&ready(b'I')), "an operator is welcome");
        console
    }

    /// A pool's first server, at its owner, a client there, and one at a borrower; all logged in.
    pub(crate) fn inhabited(size: u32) -> (Pair, usize, usize, usize) {
        let mut pair = Pair::new(size);
        let first = pair.client();
        let connecting = pair.worlds[0].port.asked.iter().any(|asked| matches!(asked, Call::Connect(_)));
        let owner = usize::from(!connecting);
        let server = pair.server().expect("a client wants one");
        let second = pair.client();
        assert_ne!(pair.worker(first), pair.worker(second), "clients take turns");
        let (local, borrower) = if pair.worker(first) == owner { (first, second) } else { (second, first) };
        for client in [local, borrower] {
            assert!(pair.received(client).ends_with(&ready(b'I')), "it is welcome");
        }
        pair.pass(Span::from_secs(2));
        assert_eq!(pair.worker(server), owner, "a server without a waiting client is returned");
        pair.received(server);
        (pair, server, local, borrower)
    }

    /// A reload changes the pool's size.
    pub(crate) fn resize(&mut self, size: u32) {
        let world = &mut self.worlds[0];
        world.signal(Signal::Reload);
        let reads = |asked: &Call| if let Call::SubmitJob(job) = asked { Some(*job) } else { None };
        let job = world.port.asked.iter().find_map(reads).expect("the configuration is read");
        world.input(Input::JobDone { job, result: WorkResult::Config(Ok(Arc::new(spread(size)).into())) });
        self.deliver();
    }

    pub(crate) fn pass(&mut self, span: Span) {
        for _ in 0..10 {
            self.worlds.iter_mut().for_each(|world| world.pass(Span::from_micros(span.micros() / 10)));
            self.deliver();
        }
    }
}

#[test]
fn a_server_is_lent_and_returned_for_a_longer_wait() {
    let (mut pair, server, local, borrower) = Pair::inhabited(1);
    pair.send(borrower, &query("SELECT 1"));
    pair.deliver();
    assert_eq!(pair.worker(server), pair.worker(borrower));
    assert!(says(&pair.received(server), "SELECT 1"));
    pair.send(local, &query("SELECT 2"));
    pair.deliver();
    pair.pass(Span::from_millis(10));
    pair.send(server, &done("SELECT", b'I'));
    assert!(says(&pair.received(borrower), "SELECT"));
    pair.send(borrower, &query("SELECT 3"));
    pair.deliver();
    assert_eq!(pair.worker(server), pair.worker(local), "who came first is first");
    assert!(says(&pair.received(server), "SELECT 2"));
    pair.send(server, &done("SELECT", b'I'));
    pair.deliver();
    assert!(says(&pair.received(server), "SELECT 3"));
    assert_eq!(pair.worlds.iter_mut().filter_map(World::connecting).count(), 0, "one limit for all");
}

#[test]
fn a_server_that_sends_something_as_it_leaves_is_not_used_and_another_is_requested() {
    let (mut pair, server, _, borrower) = Pair::inhabited(1);
    pair.send(borrower, &query("SELECT 1"));
    while !pair.worlds.iter().any(|world| world.port.asked.iter().any(|asked| matches!(asked, Call::Detach(_)))) {
        assert!(pair.receive(), "it is requested");
    }
    // The beginning of a message.
    pair.send(server, b"E\0\0\0\x40S");
    pair.deliver();
    assert!(!pair.is_open(server));
    let next = pair.server().expect("another one is requested");
    assert_eq!(pair.worker(next), pair.worker(borrower));
    assert!(says(&pair.received(next), "SELECT 1"));
}

#[test]
fn a_borrower_s_client_gets_the_owners_reason_for_its_wait() {
    let (mut pair, server, local, borrower) = Pair::inhabited(1);
    pair.send(local, &query("BEGIN"));
    pair.send(server, &done("BEGIN", b'T'));
    pair.send(borrower, &query("SELECT 1"));
    pair.deliver();
    pair.pass(Span::from_secs(11));
    let error = pair.received(borrower);
    assert!(says(&error, "query_wait_timeout") && says(&error, "57014"), "{}", String::from_utf8_lossy(&error));
    assert!(says(&error, "1 of 1 servers are in use: 1 by clients that idle in a transaction"));
    assert!(!pair.is_open(borrower));
    assert_eq!(pair.worlds[pair.worker(borrower)].engine.inspect().refusals().pool_full, 1);
}

#[test]
fn a_borrower_s_clients_error_names_a_slow_login_and_not_a_full_pool() {
    let (mut pair, server, local, borrower) = Pair::inhabited(2);
    pair.send(local, &query("BEGIN"));
    pair.send(server, &done("BEGIN", b'T'));
    pair.send(borrower, &query("SELECT 1"));
    pair.deliver();
    pair.pass(Span::from_secs(11));
    let error = pair.received(borrower);
    assert!(says(&error, "query_wait_timeout") && says(&error, "08001"), "{}", String::from_utf8_lossy(&error));
    assert_eq!(pair.worlds[pair.worker(borrower)].engine.inspect().refusals().server_slow, 1);
}

#[test]
fn a_notice_about_a_wait_that_is_over_is_not_written_into_the_replies() {
    let (mut pair, server, local, borrower) = Pair::inhabited(1);
    pair.send(local, &query("BEGIN"));
    pair.send(server, &done("BEGIN", b'T'));
    let newcomers = [pair.client(), pair.client()];
    let other = newcomers.into_iter().find(|client| pair.worker(*client) == pair.worker(borrower));
    let other = other.expect("clients take turns");
    pair.received(other);
    pair.send(borrower, &[query("SELECT 1"), query("SELECT 2")].concat());
    pair.send(other, &query("SELECT 3"));
    pair.deliver();
    pair.received(server);
    // The question for the reason is under way when the server comes.
    pair.pass(Span::from_millis(4_990));
    pair.worlds.iter_mut().for_each(|world| world.pass(Span::from_millis(20)));
    pair.send(local, &query("COMMIT"));
    pair.send(server, &done("COMMIT", b'I'));
    assert!(pair.detach(), "it is lent");
    while pair.receive_from(pair.worker(local)) {}
    let sent = pair.received(server);
    assert!(says(&sent, "SELECT 1") && !says(&sent, "SELECT 2"), "another client waits for it");
    let mut reply = Vec::new();
    put_back::data_row(&mut reply, &[Some(b"a value")]);
    reply.extend(done("SELECT", b'I'));
    let (begin, rest) = reply.split_at(9);
    pair.send(server, begin);
    pair.deliver();
    assert!(says(&pair.received(other), "client being queued"), "the reason has come");
    pair.send(server, rest);
    assert_eq!(pair.received(borrower), reply);
}

#[test]
fn an_owner_whose_servers_are_lent_has_a_full_pool() {
    let (mut pair, server, local, borrower) = Pair::inhabited(1);
    pair.send(borrower, &query("BEGIN"));
    pair.deliver();
    pair.send(server, &done("BEGIN", b'T'));
    pair.send(local, &query("SELECT 1"));
    pair.pass(Span::from_secs(11));
    let error = pair.received(local);
    assert!(says(&error, "57014"), "{}", String::from_utf8_lossy(&error));
    assert!(says(&error, "1 of 1 servers are in use: 1 lent to other workers."));
}

#[test]
fn a_borrower_gives_up_its_server_when_a_pool_without_a_limit_gets_one() {
    let (mut pair, lent, local, borrower) = Pair::inhabited(0);
    pair.send(borrower, &query("SELECT 1"));
    pair.deliver();
    pair.send(local, &query("BEGIN"));
    let kept = pair.server().expect("the owner's client gets one of its own");
    pair.send(kept, &done("BEGIN", b'T'));
    // The borrower knows that no client waits elsewhere: it would keep its server.
    pair.pass(Span::from_millis(10));
    pair.resize(1);
    assert!(pair.is_open(lent) && pair.is_open(kept), "who is served is not disturbed");
    pair.send(lent, &done("SELECT", b'I'));
    pair.deliver();
    assert!(!pair.is_open(lent), "one is too many, and this one is free");
    assert!(pair.is_open(kept) && pair.is_open(borrower));
}
