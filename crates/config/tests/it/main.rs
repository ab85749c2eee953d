//! Every integration test of this crate, as one program: a file a theme. One program links once.

#[path = "../common/mod.rs"]
mod common;

mod assigning;
mod checking;
mod converting;
mod editing;
mod editing_users;
mod errors;
mod exposing;
mod hostile;
mod ini;
mod ini_errors;
mod mistakes;
mod reading;
mod setting;
