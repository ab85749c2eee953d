//! Who is it: SCRAM-SHA-256 in both roles (RFC 5802, RFC 7677), md5 and cleartext passwords, and the secrets they are
//! checked against.
//!
//! Takes and returns the payloads of authentication messages; knows neither frames nor sockets nor the pool. Randomness
//! comes in as an argument, slow hashing ([`salt_password`]) is a function of its own so that a helper can run it.
//!
//! Invariants: no input makes it panic; every message is bounded ([`MAX_MESSAGE`]) before it is read; whatever is
//! compared with a secret is compared in constant time; no `Debug` text shows a secret; an unknown user is carried
//! through the same exchange as a known one and fails at its end.

mod cleartext;
mod crypto;
mod md5;
mod message;
mod method;
mod saslprep;
mod scram_client;
mod scram_server;
mod secret;

pub use cleartext::{plain_verify, verify_cleartext};
pub use crypto::salt_password;
pub use md5::{md5_hex_secret, md5_response, md5_verify};
pub use message::{MAX_ITERATIONS, MAX_MESSAGE, ScramError};
pub use method::{
    Doom, Exchange, Method, Plan, ScramPolicy, ScramSource, ScramStart, StandIn, UnknownMethod, exchange,
};
pub use scram_client::{ScramClient, ScramExpectVerdict, ScramNeedKeys};
pub use scram_server::{ScramExpectFinal, ScramServer};
pub use secret::{ScramKeys, ScramVerifier, Secret, SecretError};

/// The only SASL mechanism spoken so far; its name in AuthenticationSASL and SASLInitialResponse.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";
