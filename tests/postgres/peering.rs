//! Several processes on one port: a request to cancel reaches the process that it means, whichever accepts it.

use std::thread;
use std::time::{Duration, Instant};

use weir_pgclient::{ConnectParams, Connection};
use weir_pglocal::free_port;
use weir_pgwire::put_front;
use weir_tests::{Database, Ini, Launch, Postgres, Weir, eventually, users};

const SLOW: &str = "SELECT pg_sleep(30)";

/// Processes 1 to `count`, all on one port. Each lists the others by their Unix sockets, whose folders are known only
/// when they run: so a reload sets them.
struct Peers {
    // Dropped before the database.
    all: Vec<Weir>,
    database: Database,
}

impl Peers {
    fn start(count: u16) -> Peers {
        let database = Postgres::shared().database();
        let ini = |id| Ini::transaction(4).set("so_reuseport", 1).set("peer_id", id);
        let launch = Launch { shared_port: Some(free_port().unwrap()), ..Launch::default() };
        let start = |id| Weir::start_ini_with(&ini(id).text(&database), &ini(id).files(), &launch);
        let all = (1..=count).map(start).collect();
        let peers = Peers { all, database };
        for (id, weir) in (1..).zip(&peers.all) {
            let ini = ini(id).sections(&peers.section());
            weir.rewrite_all(&ini.text(&peers.database), &ini.files());
            weir.command("RELOAD").unwrap();
        }
        peers
    }

    /// All processes, including this one, and one that does not exist.
    fn section(&self) -> String {
        let line = |(id, weir): (u16, &Weir)| format!("{id} = host={} port={}\n", weir.folder().display(), weir.port());
        let lines: String = (1..).zip(&self.all).map(line).collect();
        format!("[peers]\n{lines}77 = host=/nowhere port=1\n")
    }

    fn port(&self) -> u16 {
        self.all[0].port()
    }

    /// A client of whichever process the system gives it.
    fn connect(&self) -> Connection {
        let params = ConnectParams::new("127.0.0.1", self.port(), users::APP.name, "app").password(users::APP.password);
        Connection::connect(&params).unwrap_or_else(|error| panic!("connect: {error}"))
    }

    fn await_sleep(&self) {
        eventually("the query runs", || {
            let backends = self.database.backends();
            if backends.iter().any(|(_, state)| state == "active") { Ok(()) } else { Err(backends) }
        });
    }
}

#[test]
fn a_cancel_finds_its_query_whichever_process_accepts_it() {
    let peers = Peers::start(3);
    for _ in 0..12 {
        let mut client = peers.connect();
        let canceller = client.canceller();
        let error = thread::scope(|scope| {
            let query = scope.spawn(|| client.query(SLOW).unwrap_err());
            peers.await_sleep();
            canceller.cancel().unwrap();
            query.join().unwrap()
        });
        assert_eq!(error.sqlstate(), Some("57014"), "{error}");
    }
    let passed_on = peers.all.iter().map(|weir| weir.show("PEER_POOLS").rows.len()).sum::<usize>();
    assert!(passed_on > 0, "of twelve requests some reached another process");
    for weir in &peers.all {
        assert_eq!(weir.show("PEERS").rows.len(), 4);
        let pools = weir.show("PEER_POOLS");
        for row in 0..pools.rows.len() {
            assert_eq!(pools.get(row, "sv_active_cancel"), Some("0"), "{pools:?}");
        }
    }
}

#[test]
fn a_request_for_a_peer_that_is_unknown_dead_or_in_a_circle_ends_soon() {
    let peers = Peers::start(2);
    // Of an unknown process, of a dead one, and with no hop left.
    for (id, hops) in [(5_u16, 3_u8), (77, 3), (2, 0), (1, 0), (0, 3)] {
        let [low, high] = id.to_le_bytes();
        let mut packet = Vec::new();
        let pid = u32::from_be_bytes([0, low, high, 9]);
        put_front::cancel_request(&mut packet, pid, &[1, 2, 3, 0x10 | hops]);
        let began = Instant::now();
        let address = ConnectParams::new("127.0.0.1", peers.port(), "x", "x");
        let mut client = Connection::open(&address).unwrap();
        client.send_bytes(&packet).unwrap();
        assert!(client.read_bytes(Duration::from_secs(10)).is_err(), "nothing is answered");
        assert!(began.elapsed() < Duration::from_secs(5), "peer {id}, {hops} hops");
    }
}

#[test]
fn a_process_that_waits_for_its_clients_still_gets_their_cancels() {
    let peers = Peers::start(2);
    // A client of the first, which then listens no more.
    let own = |client: &Connection| client.backend_pid() >> 16 & 0xff == 1;
    let mut client = (0..100).map(|_| peers.connect()).find(own).expect("one of a hundred");
    peers.all[0].command("SHUTDOWN WAIT_FOR_CLIENTS").unwrap();
    for _ in 0..3 {
        let canceller = client.canceller();
        let error = thread::scope(|scope| {
            let query = scope.spawn(|| client.query(SLOW).unwrap_err());
            peers.await_sleep();
            canceller.cancel().unwrap();
            query.join().unwrap()
        });
        assert_eq!(error.sqlstate(), Some("57014"), "{error}");
    }
    // New clients come to the other one.
    assert_eq!(peers.connect().backend_pid() >> 16 & 0xff, 2);
    client.close().unwrap();
    assert!(peers.all[0].wait_for_exit().success());
}
