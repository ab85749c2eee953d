//! Readers of strangers' bytes that are private to the runtime.
//!
//! They are included by their files: they do no I/O and need none of the runtime's libraries, whose TLS takes a C compiler
//! minutes to build, again for each way of building.

#![allow(dead_code, reason = "the runtime uses more of them than the targets do")]

#[path = "../../../crates/runtime/src/tls/x509.rs"]
pub(crate) mod certificate;
#[path = "../../../crates/runtime/src/names/message.rs"]
pub(crate) mod message;
#[path = "../../../crates/runtime/src/names/conf.rs"]
pub(crate) mod resolver;
