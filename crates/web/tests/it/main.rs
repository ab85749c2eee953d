//! Every integration test of this crate, as one program: a file a theme. One program links once.

#[path = "../common/mod.rs"]
mod common;

mod access;
mod busy;
mod hostile;
mod panel;
mod routes;
