//! Idle clients cost other clients nothing. Counted in visited slots, not in time.

use std::sync::Arc;

use weir_base::{ConnId, Host, Span, Target};
use weir_config::SessionAttrs;

use crate::admin::stream::PAGE;
use crate::world::*;

/// More slots than any input of these tests may visit, and far fewer than there are idle clients.
const FEW: u64 = 64;

/// An engine with this many idle clients; one active client, its server, and an operator.
struct ManyIdle {
    world: World,
    client: ConnId,
    server: ConnId,
    console: ConnId,
}

impl ManyIdle {
    fn with(idle: usize) -> ManyIdle {
        let mut config = config(1);
        config.log.stats = true;
        config.max_clients = 1_000_000;
        config.limits.query_timeout = Span::from_secs(60);
        let mut world = World::new(config);
        let client = world.arrival("ann", "db");
        let server = world.server();
        let console = world.arrival("admin", "pgbouncer");
        world.idle_clients(idle);
        // A logged-in client's timer fires once more, at the end of its login timeout.
        world.pass_only(Span::from_secs(61));
        ManyIdle { world, client, server, console }
    }

    /// The number of visited slots during `act`.
    fn looks(&mut self, act: impl FnOnce(&mut ManyIdle)) -> u64 {
        let before = self.world.engine.core.conns.looks();
        act(self);
        self.world.engine.core.conns.looks() - before
    }

    fn transact(&mut self) {
        self.world.forget(self.client);
        self.world.bytes_only(self.client, &query("select 1"));
        let before = self.world.engine.core.conns.looks();
        self.world.bytes_only(self.server, &done("SELECT 1", b'I'));
        assert!(self.world.engine.core.conns.looks() > before, "what is looked at is counted");
        assert!(self.world.received(self.client).ends_with(&ready(b'I')), "it is answered");
    }

    /// A statistics period and everything due in it.
    fn tick(&mut self) {
        assert!(self.world.engine.next_deadline() <= self.world.now + Span::from_secs(60), "something is due");
        self.world.pass_only(Span::from_secs(60));
    }

    fn show(&mut self, what: &str) {
        self.world.forget(self.console);
        self.world.bytes_only(self.console, &query(what));
        while self.world.deliver_message() {}
        assert!(self.world.received(self.console).ends_with(&ready(b'I')), "{what} is answered");
    }
}

#[test]
fn a_query_a_tick_and_a_table_look_at_no_more_with_100_000_idle_clients_than_with_10() {
    let (mut few, mut many) = (ManyIdle::with(10), ManyIdle::with(100_000));
    let mut same = |what: &str, act: fn(&mut ManyIdle)| {
        let looks = (few.looks(act), many.looks(act));
        assert!(looks.0 <= FEW, "{what}: {looks:?}");
        assert_eq!(looks.0, looks.1, "{what}, with 10 and with 100,000 idle clients");
    };
    same("a query", ManyIdle::transact);
    same("the end of a period", ManyIdle::tick);
    for table in ["POOLS", "DATABASES", "LISTS", "STATS", "MEM", "STATE", "REFUSALS", "CONFIG"] {
        let looks = (few.looks(|w| w.show(&format!("SHOW {table}"))), many.looks(|w| w.show(&format!("SHOW {table}"))));
        assert!(looks.1 <= FEW && looks.0 == looks.1, "{table}: {looks:?}");
    }
}

#[test]
fn a_table_of_100_000_clients_comes_in_turns_that_look_at_a_bounded_number() {
    let mut many_idle = ManyIdle::with(100_000);
    let console = many_idle.console;
    many_idle.world.forget(console);
    let (mut turns, mut most) = (0, 0);
    most = most.max(many_idle.looks(|many_idle| many_idle.world.bytes_only(console, &query("SHOW CLIENTS"))));
    loop {
        let mut open = false;
        let looks = many_idle.looks(|many_idle| open = many_idle.world.deliver_message());
        if !open {
            break;
        }
        (turns, most) = (turns + 1, most.max(looks));
        // Another client is served in between, at the usual cost.
        assert!(many_idle.looks(ManyIdle::transact) <= FEW);
    }
    assert!(many_idle.world.received(console).ends_with(&ready(b'I')), "the table has come to its end");
    assert!(turns >= 100_000 / PAGE, "{turns} turns");
    assert!(most <= 3 * PAGE as u64, "{most} slots in one turn");
}

/// A pool that leaves its host, while so many of its servers are in transactions; returns what the end of one of these
/// looks at.
fn leaving(transactions: u32) -> u64 {
    let mut config = config(transactions);
    config.max_clients = 1_000;
    let mut pool = weir_config::PoolConfig::clone(&config.pools["db"]);
    pool.limits.connects_per_second = 0;
    let host = |name| Target { host: Host::parse(name), port: 5432 };
    (pool.targets, pool.session_attrs) = ([host("10.0.0.1"), host("10.0.0.2")].into(), SessionAttrs::Primary);
    config.pools.insert("db".into(), Arc::new(pool));
    let mut world = World::new(config);
    let begin = |world: &mut World| {
        let client = world.arrival("ann", "db");
        let mut server = world.connecting();
        if let Some(server) = server {
            world.begin_login(server);
            world.bytes_only(server, &done("SELECT 0", b'I'));
            while world.deliver_message() {}
        }
        world.bytes_only(client, &query("begin"));
        if let Some(next) = world.connecting() {
            world.begin_login(next);
            world.bytes_only(next, &done("SELECT 0", b'I'));
            server = Some(next);
        }
        let server = server.expect("each client has a server");
        world.bytes_only(server, &done("BEGIN", b'T'));
        (client, server)
    };
    let links: Vec<_> = (0..transactions).map(|_| begin(&mut world)).collect();
    let console = world.arrival("admin", "pgbouncer");
    world.bytes_only(console, &query("SWITCH db 10.0.0.2"));
    while world.deliver_message() {}
    let (client, server) = links[1];
    world.bytes_only(client, &query("commit"));
    let before = world.engine.core.conns.looks();
    world.bytes_only(server, &done("COMMIT", b'I'));
    let looks = world.engine.core.conns.looks() - before;
    assert!(!world.is_open(server) && world.is_open(links[0].1), "it is left");
    looks
}

#[test]
fn the_end_of_a_transaction_at_a_host_that_is_left_looks_at_no_more_with_100_others_than_with_10() {
    let (few, many) = (leaving(10), leaving(100));
    assert_eq!(few, many);
}
