//! Every integration test of this crate, as one program: a file a theme. One program links once.

#[path = "../common/mod.rs"]
mod common;

mod auth_query;
mod client_login;
mod console;
mod control;
mod down_servers;
mod drain;
mod holding;
mod lending;
mod links;
mod made_passwords;
mod moves;
mod patroni;
mod places;
mod prelogin;
mod primaries;
mod reload;
mod replication;
mod servers;
mod shared_limits;
mod shared_nodes;
mod turns;
mod turns_of_clients;
mod upgrade;
