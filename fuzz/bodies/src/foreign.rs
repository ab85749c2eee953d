//! Readers of untrusted bytes that are private to the runtime.
//!
//! They are included by path: they do no I/O, and need only two small libraries of the runtime. Its TLS library takes a
//! C compiler minutes to build, again for each kind of build.

#![allow(dead_code, reason = "the runtime uses more of them than the targets do")]

#[path = "../../../crates/runtime/src/tls/x509.rs"]
pub(crate) mod certificate;
#[path = "../../../crates/runtime/src/dns/message.rs"]
pub(crate) mod message;
#[path = "../../../crates/runtime/src/dns/conf.rs"]
pub(crate) mod resolver;
