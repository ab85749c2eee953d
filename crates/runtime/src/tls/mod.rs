//! TLS: contexts, handshakes, and encrypted connections.
//!
//! A session turns bytes into bytes; sockets and backlogs are handled as for plain connections (`port`, `output`,
//! `worker`). Handshakes are slow and run on the helpers, one step at a time, with the connection inside the request.
//! The engine decides which connections must be encrypted.
//!
//! | file | its one job |
//! |---|---|
//! | `contexts` | the configuration's files and modes, prepared for handshakes; replaced by a reload |
//! | `identity` | our key and certificates from PEM files |
//! | `verify` | the rules for servers' certificates |
//! | `verify_client` | the rules for clients' certificates |
//! | `version1` | certificates of version 1, of either side |
//! | `suites` | cipher suites and versions by their names |
//! | `x509` | the few fields of a certificate that we read ourselves |
//! | `session` | an encrypted connection: bytes in, bytes out |
//! | `records` | the records of a connection that came from another process |
//! | `tickets` | sessions that clients continue |
//! | `end` | whether a connection continues |
//! | `step` | one step of a handshake, done by a helper |
//! | `reason` | why a handshake failed, in words |
//! | `charge` | how many bytes of handshakes are kept |
//! | `state` | what a worker keeps for its encrypted sockets |
//! | `blocking` | encryption to a server for who waits |
//! | `directory` | encryption to LDAP servers |
//! | `check` | what is wrong, or soon will be, with the files |

mod blocking;
mod charge;
mod check;
mod contexts;
mod directory;
mod end;
mod identity;
mod reason;
mod records;
mod session;
mod setting_names;
mod state;
mod step;
mod suites;
mod tickets;
mod verify;
mod verify_client;
mod version1;
mod x509;

pub use blocking::ServerTls;
pub use check::{certificate_expiries, check_tls};
pub(crate) use contexts::TlsContexts;
pub use contexts::TlsFiles;
pub(crate) use directory::to_directory;
pub(crate) use end::End;
pub(crate) use reason::{With, in_words, reason};
pub(crate) use records::SealedState;
pub(crate) use session::Session;
pub(crate) use state::{Tls, TlsState};
pub(crate) use step::{HandshakeStep, Side, StepOutcome};
