//! The rules for servers' certificates, by `sslmode`.
//!
//! - up to `require`: any certificate will do. That the server has its key is still checked, as SCRAM's channel binding
//!   relies on it.
//! - `verify-ca`: the certificate leads to a certificate of `ca_file`, or is one of them.
//! - `verify-full`: the same as `verify-ca`, and the certificate is for the host's name or address. A certificate that
//!   lists no names is for its common name, as libpq has it.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::version1;
use super::x509::Certificate;

/// What is trusted, from `ca_file`.
#[derive(Debug)]
pub(super) struct Trust {
    /// The roots of chains.
    pub(super) roots: RootCertStore,
    /// The certificates of `ca_file` themselves, for a server that presents one of them, for example a self-signed one.
    pub(super) exact: Vec<CertificateDer<'static>>,
}

/// What is required of a certificate.
#[derive(Clone, Debug)]
pub(super) enum Verification {
    /// Nothing is required.
    Nothing,
    /// The certificate is trusted.
    Trusted(Arc<Trust>),
    /// The certificate is trusted and for the host.
    TrustedFor(Arc<Trust>),
}

/// Verifies servers.
#[derive(Debug)]
pub(super) struct Verifier {
    required: Verification,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(required: Verification, provider: &CryptoProvider) -> Arc<Verifier> {
        Arc::new(Verifier { required, algorithms: provider.signature_verification_algorithms })
    }

    fn check_trust(
        &self,
        trust: &Trust,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        if trust.exact.iter().any(|trusted| trusted.as_ref() == certificate.as_ref()) {
            return version1::check_time(certificate, now);
        }
        if version1::is_version1(certificate) {
            return version1::check_signed(certificate, &trust.exact, &self.algorithms, now);
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(&parsed, &trust.roots, others, now, self.algorithms.all)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.required {
            Verification::Nothing => {}
            Verification::Trusted(trust) => self.check_trust(trust, certificate, others, now)?,
            Verification::TrustedFor(trust) => {
                self.check_trust(trust, certificate, others, now)?;
                check_name(certificate, name)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::check_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        version1::check_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Whether a certificate is for this host.
fn check_name(certificate: &CertificateDer<'_>, name: &ServerName<'_>) -> Result<(), Error> {
    if let Some(read) = Certificate::read(certificate).filter(|read| !read.has_alternative_names) {
        if read.common_name.as_deref().is_some_and(|common| is_for(common, &name.to_str())) {
            return Ok(());
        }
        let presented = read.common_name.into_iter().collect();
        return Err(CertificateError::NotValidForNameContext { expected: name.to_owned(), presented }.into());
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)
}

/// libpq's rule for common names: equal in any case, or a leading `*.` for exactly one label.
fn is_for(common: &str, host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_address = host.parse::<std::net::IpAddr>().is_ok();
    match common.strip_prefix("*.") {
        Some(domain) if !is_address => {
            host.split_once('.').is_some_and(|(label, rest)| !label.is_empty() && rest.eq_ignore_ascii_case(domain))
        }
        _ => common.eq_ignore_ascii_case(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_name_is_for_its_host_only() {
        assert!(is_for("db.example", "DB.example"));
        assert!(is_for("*.example", "db.example"));
        assert!(is_for("10.0.0.1", "10.0.0.1"));
        for (common, host) in [
            ("*.example", "a.db.example"),
            ("*.example", ".example"),
            ("*.example", "example"),
            ("*.0.0.1", "10.0.0.1"),
            ("db.example", "db.example.org"),
            ("", "db.example"),
        ] {
            assert!(!is_for(common, host), "{common} {host}");
        }
    }
}
