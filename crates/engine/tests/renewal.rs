//! What a reload brings, and what it leaves as it is.

mod common;

use weir_engine::port::Signal;

use common::*;

#[test]
fn a_reload_leaves_what_only_a_restart_can_change() {
    let mut world = World::new(config(1));
    world.signal(Signal::Reload);
    let mut other = config(2);
    other.listen.port = 7_777;
    other.limits.size = 33;
    world.helped(other);
    let console = world.arrival("admin", "pgbouncer");
    world.heard(console);
    world.bytes(console, &query("SHOW CONFIG"));
    let heard = world.heard(console);
    assert!(says(&heard, "listen_port\0\0\0\x046432"), "the old port is in force");
    assert!(!says(&heard, "7777"));
    assert!(says(&heard, "default_pool_size\0\0\0\x0233"));
}
