//! What a TLS handshake has shown.

use serde::{Deserialize, Serialize};

/// What a finished handshake has shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secured {
    /// Version and cipher suite, as SHOW CLIENTS prints them: `TLSv1.3/TLS_AES_256_GCM_SHA384`.
    pub description: String,
    /// The other side's certificate, if it gave one and it was verified.
    pub certificate: Option<Certificate>,
    /// The protocol that ALPN selected, such as `postgresql`.
    pub alpn: Option<Vec<u8>>,
    /// The hash of the server's certificate for the channel binding of SCRAM-SHA-256-PLUS (RFC 5929, section 4.1), the
    /// server being the side that accepted; `None` if there is none.
    pub binding: Option<Vec<u8>>,
}

/// What a verified certificate says about its owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The common name of its subject; empty if it has none.
    pub common_name: String,
}
