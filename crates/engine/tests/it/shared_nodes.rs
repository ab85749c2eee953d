//! A pool that several nodes share: what a node has closed counts until the server has ended it, and what was granted
//! under a lease is void after it.

use std::sync::Arc;

use crate::common::*;
use weir_admin::{ClusterView, Connections, ControlReply, Cursor, SharedLimit, SharedLimits, SocketRecord};
use weir_base::{ConnId, Span};
use weir_config::Config;
use weir_engine::port::{ControlRequest, Input, Signal};
use weir_pgwire::{ErrorFields, put_back};

/// One pool that nodes share, with a budget of five over all users.
fn shared() -> Config {
    let mut config = config(5);
    config.auth.users = Arc::new([("ann", "secret"), ("bob", "secret"), ("admin", "secret")].into_iter().collect());
    config.cluster.etcd = vec!["http://localhost:2379".into()];
    config.cluster.node = "one".into();
    config
}

/// This node may have `limit` servers for so long, and `floor` later.
fn grant(world: &mut World, limit: u32, floor: u32, span: Span) {
    let pools = [("db".to_owned(), SharedLimit { limit, floor })].into();
    let limits = SharedLimits { until: world.now + span, pools, ..SharedLimits::default() };
    world.input(Input::ControlRequest { number: 1, request: ControlRequest::SetShared(limits) });
}

fn world(limit: u32, floor: u32) -> World {
    let mut world = World::new(shared());
    grant(&mut world, limit, floor, Span::from_secs(6));
    world
}

/// A client of Ann's with a query under way, and its server.
fn busy(world: &mut World) -> (ConnId, ConnId) {
    let ann = world.arrival("ann", "db");
    let server = world.server();
    world.bytes(ann, &query("SELECT 1"));
    (ann, server)
}

#[test]
fn a_closed_server_makes_room_only_when_the_server_has_ended_it() {
    let mut world = world(1, 0);
    let (ann, server) = busy(&mut world);
    world.gone(ann);
    assert!(world.is_open(server), "its end is waited for");
    let bob = world.arrival("bob", "db");
    assert!(world.connecting().is_none(), "PostgreSQL still has the closed one");
    world.bytes(server, &done("SELECT 1", b'I'));
    assert!(world.connecting().is_none(), "what it still sends is no end");
    world.gone(server);
    let next = world.server();
    assert!(world.received(bob).ends_with(&ready(b'I')) && world.is_open(next));
}

#[test]
fn an_idle_server_that_is_closed_for_another_user_is_waited_for() {
    let mut world = world(1, 0);
    let ann = world.arrival("ann", "db");
    let server = world.server();
    assert!(world.received(ann).ends_with(&ready(b'I')));
    world.received(server);
    world.arrival("bob", "db");
    assert_eq!(world.received(server), [b'X', 0, 0, 0, 4], "a Terminate");
    assert!(world.connecting().is_none());
    world.gone(server);
    assert!(world.connecting().is_some());
}

#[test]
fn a_server_that_does_not_end_is_given_up() {
    let mut world = world(1, 0);
    let ann = world.arrival("ann", "db");
    let server = world.server();
    world.received(ann);
    world.arrival("bob", "db");
    for _ in 0..7 {
        world.pass(Span::from_secs(5));
        grant(&mut world, 1, 0, Span::from_secs(60));
    }
    assert!(!world.is_open(server) && world.connecting().is_some());
}

#[test]
fn a_login_from_before_the_end_of_a_lease_is_not_finished_after_it() {
    let mut world = world(5, 0);
    world.arrival("ann", "db");
    let server = world.connecting().expect("a server is requested");
    // The process is frozen: what has arrived meanwhile comes before any timer.
    world.now = world.now + Span::from_secs(20);
    world.input_only(Input::Connected { conn: server, local: "127.0.0.1:5000".into(), remote: None });
    assert!(world.received(server).is_empty() && !world.is_open(server), "no startup packet is sent");
    assert!(world.connecting().is_none(), "there is no other grant");
    grant(&mut world, 5, 0, Span::from_secs(6));
    world.pass(Span::from_secs(1));
    assert!(world.connecting().is_some(), "with a new lease there is one");
}

#[test]
fn a_login_within_the_floor_goes_on_without_a_lease() {
    let mut world = world(5, 1);
    world.pass(Span::from_secs(20));
    let ann = world.arrival("ann", "db");
    world.server();
    assert!(world.received(ann).ends_with(&ready(b'I')));
}

/// An idle server of a client that has left.
fn idle(world: &mut World) -> ConnId {
    let ann = world.arrival("ann", "db");
    let server = world.server();
    world.gone(ann);
    world.received(server);
    server
}

/// Whether the process has exited, and whether its servers had ended by then.
fn end(world: &World) -> (bool, bool) {
    (world.has_exited(), world.port.asked.iter().any(|asked| matches!(asked, Call::SharedServersEnded)))
}

#[test]
fn a_process_that_ends_waits_until_its_servers_have_ended() {
    for signal in [Signal::ShutdownClients, Signal::ShutdownServers] {
        let mut world = world(2, 0);
        let server = idle(&mut world);
        world.signal(signal);
        assert_eq!(world.received(server), [b'X', 0, 0, 0, 4], "a Terminate");
        assert_eq!(end(&world), (false, false));
        world.pass(Span::from_millis(500));
        assert_eq!(end(&world), (false, false));
        world.gone(server);
        assert_eq!(end(&world), (true, true));
    }
}

#[test]
fn a_process_that_ends_does_not_wait_for_long() {
    let mut world = world(2, 0);
    let server = idle(&mut world);
    world.signal(Signal::ShutdownClients);
    world.pass(Span::from_secs(2));
    assert_eq!(end(&world), (true, false), "others have to look for {server:?}");
}

#[test]
fn a_connection_that_was_closed_before_is_waited_for() {
    let mut world = world(2, 0);
    let (ann, server) = busy(&mut world);
    world.gone(ann);
    world.signal(Signal::ShutdownServers);
    assert_eq!(end(&world), (false, false));
    world.gone(server);
    assert_eq!(end(&world), (true, true));
    let mut world = self::world(2, 0);
    world.signal(Signal::ShutdownServers);
    assert_eq!(end(&world), (true, true), "there was none");
}

#[test]
fn at_the_end_of_shutdown_timeout_servers_in_use_are_closed_and_waited_for() {
    let mut config = shared();
    config.shutdown_timeout = Span::from_secs(1);
    let mut world = World::new(config);
    grant(&mut world, 2, 0, Span::from_secs(60));
    let (_, server) = busy(&mut world);
    world.signal(Signal::ShutdownClients);
    world.pass(Span::from_millis(900));
    assert_eq!(end(&world), (false, false));
    world.pass(Span::from_millis(200));
    assert!(world.received(server).ends_with(&[b'X', 0, 0, 0, 4]), "a Terminate");
    assert_eq!(end(&world), (false, false));
    world.gone(server);
    assert_eq!(end(&world), (true, true));
}

#[test]
fn a_second_signal_ends_the_process_at_once() {
    let mut world = world(2, 0);
    idle(&mut world);
    world.signal(Signal::ShutdownClients);
    world.signal(Signal::ShutdownClients);
    assert_eq!(end(&world), (true, false));
}

#[test]
fn a_server_in_use_is_closed_after_the_lease_and_its_client_gets_an_error() {
    let mut world = world(2, 0);
    let (ann, server) = busy(&mut world);
    world.received(ann);
    world.pass(Span::from_secs(8));
    assert!(world.received(server).ends_with(&[b'X', 0, 0, 0, 4]), "a Terminate");
    assert!(says(&world.received(ann), "server conn crashed?") && !world.is_open(ann));
}

/// The servers, as the workers report them.
fn servers(world: &mut World) -> Vec<SocketRecord> {
    world.input(Input::ControlRequest {
        number: 7,
        request: ControlRequest::Connections(Connections::Servers, Cursor::START),
    });
    let at = world.port.answers.iter().position(|(number, _)| *number == 7).expect("an answer");
    match world.port.answers.remove(at).1 {
        Ok(ControlReply::Connections(records, _)) => records,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_of_a_shared_pool_is_known_by_its_process_id_and_when_its_backend_began() {
    let mut world = world(2, 0);
    world.arrival("ann", "db");
    let server = world.server();
    let record = servers(&mut world).remove(0);
    assert_eq!((record.remote_pid, record.remote_started), (77, Some(1_700_000_000_000_000)));
    assert!(world.is_open(server));
}

#[test]
fn a_server_that_does_not_say_when_its_backend_began_serves_all_the_same() {
    let refusal = || {
        let mut bytes = Vec::new();
        let fields =
            ErrorFields { severity: "ERROR", sqlstate: "42883", message: "no such function", detail: None, hint: None };
        put_back::error(&mut bytes, &fields);
        put_back::ready(&mut bytes, b'I');
        bytes
    };
    for answer in [backend_start(None), refusal()] {
        let mut world = world(2, 0);
        let ann = world.arrival("ann", "db");
        let server = world.connecting().expect("a server is requested");
        world.begin_login(server);
        assert!(!world.received(ann).ends_with(&ready(b'I')), "it is asked first");
        world.bytes(server, &answer);
        assert!(world.received(ann).ends_with(&ready(b'I')));
        assert_eq!(servers(&mut world)[0].remote_started, None);
    }
}

#[test]
fn a_client_of_a_process_whose_node_name_another_one_has_is_told_so() {
    let mut config = shared();
    let pool = Arc::make_mut(config.pools.get_mut("db").expect("the pool"));
    pool.limits.query_wait_timeout = Span::from_secs(5);
    let mut world = World::new(config);
    let member_state = ClusterView::NAME_IN_USE;
    let view = ClusterView { cluster: "c".into(), node: "one".into(), member_state, ..ClusterView::default() };
    let limits = SharedLimits { view: Arc::new(view), ..SharedLimits::default() };
    world.input(Input::ControlRequest { number: 1, request: ControlRequest::SetShared(limits) });
    let ann = world.arrival("ann", "db");
    world.pass(Span::from_secs(6));
    let said = world.received(ann);
    let wanted = "another process has this node's name \"one\" in the cluster \"c\"";
    assert!(says(&said, wanted), "{:?}", String::from_utf8_lossy(&said));
}
