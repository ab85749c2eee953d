//! TLS of the control plane: its certificate, read at the start and again with each reload.
//!
//! A connection keeps the certificate that it began with. A certificate that can't be used changes nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use weir_monitor::{lock, read_regular};

use crate::start_error::WebError;

/// A longer file, in bytes, is neither a certificate nor a key.
const LONGEST: u64 = 16 << 20;

/// The files of a certificate and its key, both PEM, and what was last read from them.
#[derive(Debug)]
pub struct WebTls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Arc<ServerConfig>>,
}

impl WebTls {
    /// Reads both.
    ///
    /// # Errors
    ///
    /// They can't be used: one line, with the file and what to do.
    pub fn read(certificate: &Path, key: &Path) -> Result<WebTls, WebError> {
        let current = Mutex::new(config(certificate, key)?);
        Ok(WebTls { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// Reads them again; the returned function puts them in force, for new connections.
    ///
    /// # Errors
    ///
    /// As for [`read`](WebTls::read); what was in force stays.
    pub fn read_again(&self) -> Result<impl FnOnce() + '_, WebError> {
        let next = config(&self.certificate, &self.key)?;
        Ok(move || *lock(&self.current) = next)
    }

    /// Accepts a handshake.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(lock(&self.current).clone())
    }
}

fn config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, WebError> {
    let unusable = |file: &Path, why: &dyn std::fmt::Display| {
        WebError::new(format!("[web] {}: {why}; change tls_cert_file or tls_key_file", file.display()))
    };
    let read = |file: &Path| {
        let bytes = read_regular(file, LONGEST + 1).map_err(|error| unusable(file, &error))?;
        let fits = bytes.len() as u64 <= LONGEST;
        fits.then_some(bytes).ok_or_else(|| unusable(file, &format!("it is larger than {} MiB", LONGEST >> 20)))
    };
    let chain = read(certificate)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&chain).collect();
    let chain = chain.map_err(|error| unusable(certificate, &error))?;
    if chain.is_empty() {
        return Err(unusable(certificate, &"there is no certificate in it"));
    }
    let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unusable(key, &error))?;
    let builder = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()));
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| unusable(certificate, &error))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, private);
    let mut config = config.map_err(|error| unusable(certificate, &error))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
