//! HTTP without what is served: connections, encryption, limits, and who may send a request.
//!
//! Owns the listening sockets and one thread ([`Listeners::serve`]), the accounts' sessions, and each error with its status
//! and words ([`ApiError`]). Must not know a path: a router answers, and asks for the role that its path needs.
//!
//! Invariants: a request of a page of another origin is refused before anything else (`guard`). Connections, requests,
//! attempts to log in and sessions are bounded, for each network and in all. A password is compared in constant time, one
//! at a time; its hash is not kept here.
//!
//! - `serve`, `tls`, `admission`, `timeouts`: connections. `guard`: origins.
//! - `access`: accounts, sessions, roles. `oidc`: logins through a provider. `error`, `start_error`: errors.

mod access;
mod admission;
mod error;
mod guard;
mod oidc;
mod serve;
mod start_error;
mod timeouts;
mod tls;

pub use access::{
    Access, Caller, Identity, LoginGrant, ProviderSession, Reader, RequiredRole, hash_password, hash_token, new_token,
};
pub use admission::{HeldBody, ServedRequest, Ticket, network};
pub use error::ApiError;
pub use guard::guard;
pub use oidc::{Beginning, CALLBACK, Comeback, LONGEST_LOGIN, SingleSignOn, SsoError};
pub use serve::{HttpServer, Listeners, Served};
pub use start_error::WebError;
pub use timeouts::Timeouts;
pub use tls::WebTls;
