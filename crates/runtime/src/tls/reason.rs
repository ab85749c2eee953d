//! Why a handshake failed, in words: the library has only the names of its types for some reasons.

use std::io;

use rustls::{CertificateError, Error};

/// The reason in a line; what certificates lack with OpenSSL's words, which alerts of operators look for.
pub(crate) fn reason(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(why) => format!("certificate verify failed: {}", of_certificate(why)),
        other => other.to_string(),
    }
}

/// An error of a socket, with the reason in words if it is one of a handshake.
pub(crate) fn in_words(error: io::Error) -> io::Error {
    let words = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()).map(reason);
    words.map_or_else(|| error, |words| io::Error::new(io::ErrorKind::InvalidData, words))
}

fn of_certificate(why: &CertificateError) -> String {
    let words = match why {
        CertificateError::UnknownIssuer => "unable to get local issuer certificate: no trusted authority has signed it",
        CertificateError::Expired => "certificate has expired",
        CertificateError::NotValidYet => "certificate is not yet valid",
        CertificateError::Revoked => "certificate revoked",
        CertificateError::BadSignature => "certificate signature failure",
        CertificateError::BadEncoding => "the certificate can't be read",
        CertificateError::NotValidForName => "hostname mismatch",
        // The types behind these are those of another library.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "the certificate is an authority's (CA), and no certificate of a server or client"
        }
        CertificateError::Other(other) if format!("{other:?}").contains("EndEntityUsedAsCa") => {
            "it is signed with a certificate that is no authority's"
        }
        other => return other.to_string(),
    };
    words.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_words() {
        let why = |why: CertificateError| reason(&Error::InvalidCertificate(why));
        assert_eq!(why(CertificateError::Expired), "certificate verify failed: certificate has expired");
        assert!(why(CertificateError::UnknownIssuer).contains("local issuer certificate"));
        let broken = io::Error::new(io::ErrorKind::InvalidData, Error::InvalidCertificate(CertificateError::Revoked));
        assert_eq!(in_words(broken).to_string(), "certificate verify failed: certificate revoked");
        assert_eq!(in_words(io::Error::other("reset")).to_string(), "reset");
    }
}
