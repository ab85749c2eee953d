//! Pools over several workers: servers that the owner of a pool lends to others.
//!
//! - `state`: what each side knows. `messages`: what the two sides send each other. `owner`, `borrower`: the two sides.
//!   `received`: a message has come.

pub(crate) mod borrower;
pub(crate) mod messages;
pub(crate) mod owner;
pub(crate) mod received;
pub(crate) mod state;
