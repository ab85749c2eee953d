//! Authentication: SCRAM-SHA-256 in both roles, with channel binding (RFC 5802, RFC 5929, RFC 7677), md5 and cleartext
//! passwords, the secrets they are checked against, LDAP as a check of passwords, the messages of OAUTHBEARER, HBA rules
//! and ident maps, and the choice of a client's exchange.
//!
//! Takes and returns the payloads of authentication messages; must not know frames, sockets or the pool. Randomness is
//! an argument; slow hashing ([`salt_password`]) is a separate function so that a helper thread can run it.
//!
//! Invariants: no input causes a panic; every message is bounded ([`MAX_MESSAGE`]) before it is read; comparisons with
//! secrets take constant time; no `Debug` text shows a secret; an unknown user gets the same exchange as a known one,
//! which fails at its end.

mod binding;
mod cleartext;
mod crypto;
mod fields;
mod hba;
mod ident;
mod ldap;
mod md5;
mod message;
mod method;
mod mock;
mod oauth;
mod plan;
mod require;
mod safe_url;
mod saslprep;
mod scram_client;
mod scram_server;
mod secret;
mod source;

pub use cleartext::{plain_verify, verify_cleartext};
pub use crypto::{salt_password, same_secret};
pub use fields::RuleError;
pub use hba::{ConnectionType, Hba, HbaRequest, Rule, RuleMethod, ShownRule};
pub use ident::IdentMaps;
pub use ldap::{Ldap, LdapCheck, LdapStep, MAX_LDAP_MESSAGE};
pub use md5::{md5_hex_secret, md5_response, md5_verify};
pub use message::{MAX_ITERATIONS, MAX_MESSAGE, ScramError};
pub use method::{ConnectionMethod, Demand, Method, MethodError};
pub use mock::Mocks;
pub use oauth::{BEARER_END, BearerMessage, Oauth, read_bearer};
pub use plan::{Denial, Exchange, External, Facts, LoginPlan, RejectReason, decide};
pub use require::{Methods, RequireAuth, ServerMethod, Trust};
pub use safe_url::{is_safe_endpoint, is_safe_url};
pub use scram_client::{ScramClient, ScramExpectVerdict, ScramNeedKeys};
pub use scram_server::{ScramChallenged, ScramExpectFinal, ScramOffer, ScramServer};
pub use secret::{ScramKeys, ScramVerifier, Secret, SecretError, Shape};
pub use source::{ScramPolicy, ScramSource, ScramStart};

/// The SASL mechanism by its name in AuthenticationSASL and SASLInitialResponse.
pub const SCRAM_SHA_256: &str = "SCRAM-SHA-256";

/// The SASL mechanism of logins with a token (RFC 7628).
pub const OAUTHBEARER: &str = "OAUTHBEARER";

/// The SASL mechanism that also proves that both ends use the same TLS connection (RFC 5802, section 6).
pub const SCRAM_SHA_256_PLUS: &str = "SCRAM-SHA-256-PLUS";
