//! Channel binding: both ends of a SCRAM login prove that they use the same TLS connection (RFC 5802, section 6;
//! RFC 5929, section 4).
//!
//! The only type is `tls-server-end-point`, a hash of the server's certificate, as in PostgreSQL. The owner of the
//! TLS connection computes it.

use crate::message::{ScramError, encode};

/// The channel binding's name in a GS2 header.
const TYPE: &str = "tls-server-end-point";

/// A client's channel binding flag (`gs2-cbind-flag`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flag<'a> {
    /// `n`: the client has no support.
    No,
    /// `y`: the client has support, but believes that the server has none.
    NotOffered,
    /// `p`: the client uses the binding of this name.
    Used(&'a str),
}

impl<'a> Flag<'a> {
    /// The flag for `tls-server-end-point`.
    pub(crate) const USED: Flag<'static> = Flag::Used(TYPE);

    /// Reads the flag of a GS2 header.
    pub(crate) fn parse(text: &'a str) -> Result<Self, ScramError> {
        match text.split_once('=') {
            None if text == "n" => Ok(Flag::No),
            None if text == "y" => Ok(Flag::NotOffered),
            Some(("p", name)) => Ok(Flag::Used(name)),
            _ => Err(ScramError::Malformed("unexpected channel-binding flag")),
        }
    }

    /// The GS2 header with this flag and without an identity.
    pub(crate) fn header(self) -> String {
        match self {
            Flag::No => "n,,".into(),
            Flag::NotOffered => "y,,".into(),
            Flag::Used(name) => format!("p={name},,"),
        }
    }

    /// The value of `c=` in client-final-message: the GS2 header and, if it is used, the binding's data.
    pub(crate) fn proof(self, binding: &[u8]) -> String {
        let mut bytes = self.header().into_bytes();
        if matches!(self, Flag::Used(_)) {
            bytes.extend_from_slice(binding);
        }
        encode(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_as_they_are_written() {
        for flag in [Flag::No, Flag::NotOffered, Flag::USED] {
            let header = flag.header();
            assert_eq!(Flag::parse(header.strip_suffix(",,").unwrap()), Ok(flag));
        }
        for wrong in ["", "N", "nn", "n=", "y=x", "p", "P=x", "x=tls-server-end-point"] {
            assert!(Flag::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_proof_holds_the_binding_only_where_it_is_used() {
        assert_eq!(Flag::No.proof(b"hash"), "biws");
        assert_eq!(Flag::NotOffered.proof(b"hash"), "eSws");
        assert_eq!(Flag::USED.proof(b"hash"), encode(b"p=tls-server-end-point,,hash"));
    }
}
