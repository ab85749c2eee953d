//! Every integration test of this crate, as one program: a file a theme. One program links once.

mod exchange;
mod rules;
