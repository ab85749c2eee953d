//! Clients, servers and pools as bytes, on their way from one process to another.
//!
//! The version of this format, and of those within it, is [`FORMAT`]: processes that differ in it do not talk. Times
//! are those of the old process's clock, which the new one continues.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use weir_auth::{ScramKeys, Secret};
use weir_base::{ClientAddr, Target};

use crate::secured::Secured;

/// The version of what processes hand over. Another number for each change of what moves, however small.
pub const FORMAT: u32 = 9;

/// What moves from one process to another.
#[derive(Serialize, Deserialize)]
pub(crate) enum Moved {
    Pool(Box<MovedPool>),
    Server(Box<MovedServer>),
    Client(Box<MovedClient>),
    Held(Held),
}

/// How many servers a pool has in the old process, and in those that this one takes over from.
#[derive(Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) database: String,
    pub(crate) user: String,
    pub(crate) servers: u32,
}

/// What is known of a pool beside its configuration.
#[derive(Serialize, Deserialize)]
pub(crate) struct MovedPool {
    pub(crate) database: String,
    pub(crate) user: String,
    /// What a server reported about itself.
    pub(crate) reported: Option<Vec<(String, String)>>,
    pub(crate) password: Option<String>,
    pub(crate) keys: Option<ScramKeys>,
    pub(crate) looked_up: Option<Secret>,
    /// How often definitions have changed.
    pub(crate) schema: u64,
}

/// A server that is idle.
#[derive(Serialize, Deserialize)]
pub(crate) struct MovedServer {
    pub(crate) id: u64,
    pub(crate) database: String,
    pub(crate) user: String,
    /// What of the pool's configuration a server depends on, as a hash.
    pub(crate) made_for: u64,
    pub(crate) target: Target,
    /// How the connect was tried (`Attempt::parts`).
    pub(crate) attempt: (u8, bool),
    pub(crate) local: String,
    pub(crate) remote: Option<IpAddr>,
    pub(crate) tls: Option<Secured>,
    pub(crate) connected_at: u64,
    pub(crate) expires: u64,
    /// The session (`weir_session::frozen_server`).
    pub(crate) session: Vec<u8>,
}

/// A client that has logged in, and has no server.
#[derive(Serialize, Deserialize)]
pub(crate) struct MovedClient {
    pub(crate) id: u64,
    pub(crate) database: String,
    /// The user of the client's pool on the server, and the client's own user name.
    pub(crate) pool_user: String,
    pub(crate) user: String,
    pub(crate) addr: ClientAddr,
    pub(crate) connected_at: u64,
    pub(crate) request_at: u64,
    pub(crate) tls: Option<Secured>,
    /// The cancel key that the client was given: process id, secret, and how much of the secret it received.
    pub(crate) pid: u32,
    pub(crate) secret: [u8; 16],
    pub(crate) issued: usize,
    /// The session (`weir_session::frozen`).
    pub(crate) session: Vec<u8>,
    /// Of a client that waits for a server, since `request_at`: what it has sent beside what its session holds.
    pub(crate) waits_with: Option<Vec<u8>>,
}

impl Moved {
    /// The bytes that another process reads.
    pub(crate) fn write(&self) -> Vec<u8> {
        // The format has every kind of value that occurs here.
        postcard::to_stdvec(self).unwrap_or_default()
    }

    /// Reads what [`Moved::write`] wrote; `None` if it is damaged.
    pub(crate) fn read(bytes: &[u8]) -> Option<Moved> {
        postcard::from_bytes(bytes).ok()
    }
}
