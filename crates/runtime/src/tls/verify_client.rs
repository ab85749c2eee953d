//! The rules for clients' certificates: one leads to a certificate of `ca_file`.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};

use super::version1;

/// Checks clients: the library's rules, and ours for certificates that the library does not read.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    library: Arc<dyn ClientCertVerifier>,
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientVerifier {
    /// A verifier for the certificates of a `ca_file`; `required`: each client must show a certificate.
    ///
    /// # Errors
    /// None of these certificates can end a chain.
    pub(super) fn new(
        (roots, trusted): (RootCertStore, Vec<CertificateDer<'static>>),
        provider: Arc<CryptoProvider>,
        required: bool,
    ) -> Result<Arc<ClientVerifier>, String> {
        let algorithms = provider.signature_verification_algorithms;
        let library = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        let library = if required { library } else { library.allow_unauthenticated() };
        let library = library.build().map_err(|error| error.to_string())?;
        Ok(Arc::new(ClientVerifier { library, trusted, algorithms }))
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.library.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.library.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.library.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if version1::is_version1(certificate) {
            version1::check_signed(certificate, &self.trusted, &self.algorithms, now)?;
            return Ok(ClientCertVerified::assertion());
        }
        self.library.verify_client_cert(certificate, others, now)
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
        self.library.supported_verify_schemes()
    }
}
