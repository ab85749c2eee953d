//! What a reload changes, and what it keeps.

use std::sync::Arc;

use weir_config::Method;
use weir_engine::port::Signal;
use weir_pgwire::put_front;

use crate::common::*;

#[test]
fn a_reload_leaves_what_only_a_restart_can_change() {
    let mut world = World::new(config(1));
    world.signal(Signal::Reload);
    let mut other = config(2);
    other.listen.port = 7_777;
    other.limits.size = 33;
    world.config_read(other);
    let console = world.arrival("admin", "pgbouncer");
    world.received(console);
    world.bytes(console, &query("SHOW CONFIG"));
    let received = world.received(console);
    assert!(says(&received, "listen_port\0\0\0\x046432"), "the old port is in force");
    assert!(!says(&received, "7777"));
    assert!(says(&received, "default_pool_size\0\0\0\x0233"));
}

#[test]
fn a_client_whose_pool_moves_to_another_worker_while_it_logs_in_asks_for_its_servers_there() {
    const WORKERS: u16 = 64;
    let asking = |user: Option<&str>| {
        let mut config = config(1);
        config.auth.method = Method::Plain;
        config.max_clients = 1_000;
        for number in 0..500 {
            let name = format!("db{number}");
            add_pool(&mut config, &name, 1);
            Arc::make_mut(config.pools.get_mut(&name).expect("it is there")).user = user.map(str::to_owned);
        }
        config
    };
    let mut world = World::with_workers(asking(Some("app")), WORKERS);
    let here = |world: &mut World| {
        let names = (0..500).map(|number| format!("db{number}"));
        let arrivals = names.map(|name| world.arrival("ann", &name));
        arrivals.collect::<Vec<_>>().into_iter().find(|client| !world.is_detaching(*client)).expect("one lives here")
    };
    let client = here(&mut world);
    world.received(client);
    world.signal(Signal::Reload);
    world.config_read(asking(None));
    let mut password = Vec::new();
    put_front::password(&mut password, b"secret");
    world.bytes(client, &password);
    assert!(world.is_open(client));
    assert!(world.connecting().is_none(), "no server is opened here, beyond the limit");
    let asked =
        world.port.messages.iter().any(|(to, message, _)| to.0 != 0 && format!("{message:?}").contains("Request"));
    assert!(asked, "but one is requested where the pool lives now");
}
