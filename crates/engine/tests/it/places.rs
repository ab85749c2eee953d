//! Limits of clients, over several workers: an input at a time.

use std::net::SocketAddr;

use crate::common::*;
use weir_base::{ClientAddr, ConnId, Span, WorkerId};
use weir_config::{Config, UserRules};
use weir_engine::port::Input;
use weir_pgwire::put_front;

/// All workers of a process. Their messages arrive when the test carries them.
struct Process {
    workers: Vec<World>,
}

/// A client, on any worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct At(usize, ConnId);

/// Many databases, so that each worker owns some.
fn many(change: impl FnOnce(&mut Config)) -> Config {
    let mut config = config(2);
    (0..8).for_each(|number| add_pool(&mut config, &format!("db{number}"), 2));
    config.pools.remove("db");
    change(&mut config);
    config
}

fn limited(config: &mut Config, most: u32) {
    for pool in config.pools.values_mut() {
        std::sync::Arc::make_mut(pool).limits.max_db_client_connections = most;
    }
}

impl Process {
    fn new(workers: u16, config: &Config) -> Process {
        Process { workers: (0..workers).map(|number| World::worker(config.clone(), workers, number)).collect() }
    }

    /// Delivers the workers' messages until none is left. Returns the last worker of a moved socket.
    fn carry(&mut self) -> Option<At> {
        let mut moved = None;
        while let Some(from) = self.workers.iter().position(|world| !world.port.messages.is_empty()) {
            let (to, message, socket) = self.workers[from].port.messages.pop_front().expect("it is not empty");
            let target = &mut self.workers[usize::from(to.0)];
            let socket = socket.map(|_| target.socket());
            target.input(Input::Message { from: WorkerId(from as u16), message, socket });
            moved = socket.map(|conn| At(usize::from(to.0), conn)).or(moved);
        }
        moved
    }

    /// A client connects, and is moved to its pool's worker; its requests to other workers are not answered yet.
    fn bring(&mut self, address: &str, user: &str, database: &str) -> At {
        let first = &mut self.workers[0];
        let from = ClientAddr::Tcp(address.parse::<SocketAddr>().unwrap());
        let conn = first.visitor_from(from);
        let mut startup = Vec::new();
        put_front::startup(&mut startup, &[("user", user), ("database", database)], 0);
        first.bytes(conn, &startup);
        if !first.is_detaching(conn) {
            return At(0, conn);
        }
        first.input(Input::Detached { conn });
        let (to, message, _) = first.port.messages.pop_back().expect("it travels");
        let home = &mut self.workers[usize::from(to.0)];
        let socket = home.socket();
        home.input(Input::Message { from: WorkerId(0), message, socket: Some(socket) });
        At(usize::from(to.0), socket)
    }

    /// A client connects and is admitted or refused; the error text of a refused one.
    fn arrive(&mut self, address: &str, user: &str, database: &str) -> Result<At, String> {
        let at = self.bring(address, user, database);
        self.carry();
        self.settle(at)
    }

    fn settle(&mut self, At(worker, conn): At) -> Result<At, String> {
        let world = &mut self.workers[worker];
        if let Some(server) = world.connecting() {
            world.log_in(server);
        }
        let received = world.received(conn);
        match world.is_open(conn) {
            true => {
                assert!(received.ends_with(&ready(b'I')), "{:?}", String::from_utf8_lossy(&received));
                Ok(At(worker, conn))
            }
            false => Err(String::from_utf8_lossy(&received).into_owned()),
        }
    }

    fn leave(&mut self, At(worker, conn): At) {
        self.workers[worker].gone(conn);
        self.carry();
    }

    /// A database whose pool is owned by a worker.
    fn database_on(&mut self, worker: usize) -> String {
        for number in 0..8 {
            let name = format!("db{number}");
            let at = self.arrive("10.7.7.7:1", "admin", &name).unwrap();
            self.leave(at);
            if at.0 == worker {
                return name;
            }
        }
        panic!("none of the databases lives there");
    }
}

#[track_caller]
fn refused(answer: Result<At, String>, words: &str) {
    let error = answer.expect_err("there is no place");
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_users_clients_are_counted_over_all_workers_and_give_their_places_back() {
    let config = many(|config| config.max_user_client_connections = 2);
    let mut process = Process::new(3, &config);
    let databases: Vec<String> = (0..3).map(|worker| process.database_on(worker)).collect();
    let first = process.arrive("10.0.0.1:1", "ann", &databases[0]).unwrap();
    let second = process.arrive("10.0.0.1:1", "ann", &databases[1]).unwrap();
    for database in &databases {
        refused(
            process.arrive("10.0.0.1:1", "ann", database),
            "client connections exceeded (max_user_client_connections)",
        );
    }
    process.arrive("10.0.0.1:1", "admin", &databases[2]).expect("another user has places of its own");
    for at in [first, second] {
        process.leave(at);
        let next = process.arrive("10.0.0.1:1", "ann", &databases[2]).unwrap();
        refused(process.arrive("10.0.0.1:1", "ann", &databases[1]), "max_user_client_connections");
        process.leave(next);
        process.arrive("10.0.0.1:1", "ann", &databases[0]).unwrap();
    }
}

#[test]
fn limits_of_a_database_of_an_address_and_of_one_user_hold() {
    let mut process = Process::new(2, &many(|config| limited(config, 1)));
    let database = process.database_on(1);
    process.arrive("10.0.0.1:1", "ann", &database).unwrap();
    refused(process.arrive("10.0.0.2:1", "admin", &database), "(max_db_client_connections)");

    let mut process = Process::new(2, &many(|config| config.max_address_connections = 1));
    let (here, there) = (process.database_on(0), process.database_on(1));
    process.arrive("10.0.0.1:1", "ann", &here).unwrap();
    refused(process.arrive("10.0.0.1:2", "admin", &there), "(max_address_connections)");
    process.arrive("10.0.0.2:1", "ann", &there).unwrap();

    let mut process = Process::new(
        2,
        &many(|config| {
            let rules = UserRules { max_client_connections: Some(1), ..UserRules::default() };
            config.users.insert("ann".into(), rules);
        }),
    );
    let database = process.database_on(1);
    process.arrive("10.0.0.1:1", "ann", &database).unwrap();
    refused(process.arrive("10.0.0.1:1", "ann", &database), "(max_user_client_connections)");
    process.arrive("10.0.0.1:1", "admin", &database).unwrap();
    process.arrive("10.0.0.1:1", "admin", &database).unwrap();
}

#[test]
fn a_client_that_is_gone_before_its_place_is_given_gives_it_back_once() {
    let config = many(|config| config.max_user_client_connections = 1);
    let mut process = Process::new(2, &config);
    let database = process.database_on(1);
    for _ in 0..3 {
        let At(worker, conn) = process.bring("10.0.0.1:1", "ann", &database);
        assert!(worker == 1 && process.workers[1].is_paused(conn), "it waits for its place");
        process.workers[1].gone(conn);
        process.carry();
    }
    let at = process.arrive("10.0.0.1:1", "ann", &database).unwrap();
    refused(process.arrive("10.0.0.1:1", "ann", &database), "max_user_client_connections");
    process.leave(at);
    process.arrive("10.0.0.1:1", "ann", &database).unwrap();
}

#[test]
fn a_login_that_waits_for_its_place_too_long_is_refused_and_the_place_is_free() {
    let config = many(|config| config.max_user_client_connections = 1);
    let mut process = Process::new(2, &config);
    let database = process.database_on(1);
    let at = process.bring("10.0.0.1:1", "ann", &database);
    process.workers.iter_mut().for_each(|world| world.pass(Span::from_secs(3600)));
    refused(process.settle(at), "client_login_timeout");
    process.carry();
    process.arrive("10.0.0.1:1", "ann", &database).unwrap();
}

#[test]
fn a_limit_that_a_reload_brings_counts_those_who_are_in() {
    let mut process = Process::new(2, &many(|_| {}));
    let database = process.database_on(1);
    let first = process.arrive("10.0.0.1:1", "ann", &database).unwrap();
    let operator = process.bring("10.0.0.1:1", "admin", "weir");
    process.settle(operator).unwrap();
    let At(_, console) = operator;
    process.workers[0].bytes(console, &query("RELOAD"));
    process.workers[0].config_read(many(|config| config.max_user_client_connections = 1));
    process.carry();
    refused(process.arrive("10.0.0.1:1", "ann", &database), "max_user_client_connections");
    process.leave(first);
    process.arrive("10.0.0.1:1", "ann", &database).unwrap();
}

#[test]
fn who_has_proven_nothing_takes_no_place_and_an_administrator_always_gets_in() {
    let config = many(|config| {
        config.max_user_client_connections = 1;
        config.auth.method = weir_config::Method::Plain;
    });
    let mut process = Process::new(1, &config);
    for _ in 0..5 {
        process.bring("10.0.0.1:1", "ann", "db1");
    }
    let at = process.bring("10.0.0.1:1", "ann", "db1");
    let mut password = Vec::new();
    put_front::password(&mut password, b"secret");
    process.workers[at.0].bytes(at.1, &password);
    process.settle(at).unwrap();
    for _ in 0..3 {
        let operator = process.bring("10.0.0.1:1", "admin", "weir");
        process.workers[0].bytes(operator.1, &password);
        process.settle(operator).unwrap();
    }
}
