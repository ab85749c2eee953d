//! Certificates of version 1, which `openssl x509 -req` and small site CAs still make and the library does not read:
//! whether a certificate of `ca_file` signed one, and whether its owner signed a handshake.
//!
//! Such a certificate has no extensions, so it can't be restricted to a use, nor be a CA: it is accepted only as the
//! end of a chain of two, directly under a certificate of `ca_file`.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SignatureVerificationAlgorithm, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error};

use super::x509::{self, Certificate};

/// Whether a certificate is of version 1.
pub(super) fn is_version1(certificate: &CertificateDer<'_>) -> bool {
    Certificate::read(certificate).is_some_and(|read| read.is_version1)
}

/// Checks that one of the trusted certificates signed this one of version 1, and that both hold now.
///
/// # Errors
/// As the library would report it.
pub(super) fn check_signed(
    certificate: &CertificateDer<'_>,
    trusted: &[CertificateDer<'static>],
    algorithms: &WebPkiSupportedAlgorithms,
    now: UnixTime,
) -> Result<(), Error> {
    let bad = || Error::from(CertificateError::BadEncoding);
    let read = Certificate::read(certificate).ok_or_else(bad)?;
    let signed = x509::signed_parts(certificate).ok_or_else(bad)?;
    check_time(certificate, now)?;
    let mut last = CertificateError::UnknownIssuer;
    for issuer in trusted {
        let Some(ca) = Certificate::read(issuer).filter(|ca| ca.subject == read.issuer && ca.may_issue) else {
            continue;
        };
        let Some((kind, key)) = x509::key_parts(ca.public_key) else { continue };
        let fits = |algorithm: &&&dyn SignatureVerificationAlgorithm| {
            algorithm.public_key_alg_id().as_ref() == kind && algorithm.signature_alg_id().as_ref() == signed.algorithm
        };
        let mut tried = algorithms.all.iter().filter(fits);
        if tried.any(|algorithm| algorithm.verify_signature(key, signed.message, signed.signature).is_ok()) {
            return check_time(issuer, now);
        }
        last = CertificateError::BadSignature;
    }
    Err(last.into())
}

/// Checks that a certificate holds now.
///
/// # Errors
/// The certificate is not valid yet, or has expired.
pub(super) fn check_time(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
    let read = Certificate::read(certificate).ok_or(CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < read.not_before {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > read.not_after {
        return Err(CertificateError::Expired.into());
    }
    Ok(())
}

/// Checks a handshake's signature of TLS 1.2, of a certificate of any version.
///
/// # Errors
/// The signature is not by the certificate's owner.
pub(super) fn check_tls12_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls12_signature(message, certificate, signed, algorithms).or_else(|error| match is_of_form(&error) {
        true => check_by_key(message, certificate, signed, algorithms),
        false => Err(error),
    })
}

/// Checks a handshake's signature of TLS 1.3, of a certificate of any version.
///
/// # Errors
/// The signature is not by the certificate's owner.
pub(super) fn check_tls13_signature(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature(message, certificate, signed, algorithms).or_else(|error| {
        let read = Certificate::read(certificate).filter(|_| is_of_form(&error));
        let Some(read) = read else { return Err(error) };
        let key = SubjectPublicKeyInfoDer::from(read.public_key);
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    })
}

/// Checks a signature of TLS 1.2 with nothing but the key.
fn check_by_key(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<HandshakeSignatureValid, Error> {
    let read = Certificate::read(certificate).and_then(|read| x509::key_parts(read.public_key));
    let (kind, key) = read.ok_or(CertificateError::BadEncoding)?;
    let of_scheme = algorithms.mapping.iter().filter(|(scheme, _)| *scheme == signed.scheme);
    let mut tried = of_scheme.flat_map(|(_, all)| all.iter()).filter(|a| a.public_key_alg_id().as_ref() == kind);
    match tried.any(|algorithm| algorithm.verify_signature(key, message, signed.signature()).is_ok()) {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(CertificateError::BadSignature.into()),
    }
}

/// Whether the library does not read this kind of certificate, rather than that something is wrong with the signature.
fn is_of_form(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::BadSignature) => false,
        Error::InvalidCertificate(_) => true,
        _ => false,
    }
}
