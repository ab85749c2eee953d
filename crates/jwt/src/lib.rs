//! Signed tokens of identity providers (RFC 7515, RFC 7519): which key has signed, and whether the claims say that the
//! token is from this issuer, for this audience, and valid now. For clients' logins with a bearer token, and for single
//! sign-on to the panel.
//!
//! Must not know where keys and tokens come from, nor what a claim is used for; the time is an argument. Signatures are
//! checked by a library; what may be signed with is decided here (RFC 8725).
//!
//! Invariants: no input causes a panic; a key is used with the algorithms of its own kind only, none of which has a secret
//! in common with the issuer; what a header says about keys besides their name is ignored; no error has a part of a token
//! but values of its header and claims, printable and cut.

mod claims;
mod keys;
mod verify;

pub use claims::{Claims, has_verified_email};
pub use keys::{IssuerKeys, MAX_KEYS};
pub use verify::{Expected, Invalid, LEEWAY, verify};
