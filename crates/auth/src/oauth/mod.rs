//! Logins with a bearer token, by the SASL mechanism OAUTHBEARER (RFC 7628; PostgreSQL's documentation, "OAuth
//! Authorization/Authentication"): the options that say which tokens are accepted, and the client's messages.
//!
//! Must not know what a token is: it is checked elsewhere (`weir-jwt`). Nothing here shows a token.

mod bearer;
mod options;

pub use bearer::{BEARER_END, BearerMessage, read_bearer};
pub use options::Oauth;
pub(crate) use options::OauthOptions;
