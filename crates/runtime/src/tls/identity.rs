//! Our key and certificates, and trusted certificates, from PEM files.
//!
//! Every error contains the setting, the file and what to do.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use weir_config::TlsSide;
use weir_fetch::read_ordinary;

use super::setting_names::{SettingNames, TlsFault};
use super::x509::Certificate;

/// A longer file, in bytes, is no key and no sensible list of certificates.
const LONGEST: u64 = 16 << 20;

/// A key with its certificates.
#[derive(Debug)]
pub(super) struct Identity {
    /// The form for rustls.
    pub(super) presented: Arc<SingleCertAndKey>,
    /// The hash for the channel binding of SCRAM-SHA-256-PLUS.
    pub(super) binding: Option<Vec<u8>>,
    /// Our certificates.
    pub(super) chain: Vec<CertificateDer<'static>>,
}

/// Our key and certificates, if both files are set.
pub(super) fn own(
    side: &TlsSide,
    provider: &CryptoProvider,
    names: SettingNames,
) -> Result<Option<Identity>, TlsFault> {
    let alone =
        |set, other| names.fault(set, format!("{} is set without {}; set both", names.of(set), names.of(other)));
    let (key_file, cert_file) = match (&side.key_file, &side.cert_file) {
        (Some(key), Some(cert)) => (key, cert),
        (None, None) => return Ok(None),
        (Some(_), None) => return Err(alone("key_file", "cert_file")),
        (None, Some(_)) => return Err(alone("cert_file", "key_file")),
    };
    let of_cert = |error| names.error("cert_file", error);
    let of_key = |error| names.error("key_file", error);
    let chain = certificates(cert_file).map_err(of_cert)?;
    let key = provider.key_provider.load_private_key(private_key(key_file).map_err(of_key)?);
    let key = key.map_err(|error| of_key(format!("{}: the key can't be used: {error}", key_file.display())))?;
    let read = chain.first().and_then(|first| Certificate::read(first));
    let Some(first) = read else { return Err(of_cert(unreadable(cert_file, "its first certificate can't be read"))) };
    if key.public_key().is_some_and(|public| public.as_ref() != first.public_key) {
        let (key, cert) = (key_file.display(), cert_file.display());
        return Err(of_key(format!(
            "{key}: not the key of the first certificate in {cert}; set files that belong together"
        )));
    }
    let binding = first.binding();
    let presented = Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain.clone(), key)));
    Ok(Some(Identity { presented, binding, chain }))
}

/// The certificate authorities in a file.
pub(super) fn roots(file: &Path) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), String> {
    let all = certificates(file)?;
    let mut roots = RootCertStore::empty();
    for (i, certificate) in all.iter().enumerate() {
        // A certificate that can't be the root of a chain can still be trusted itself.
        let added = roots.add(certificate.clone());
        if let (Err(error), None) = (added, Certificate::read(certificate)) {
            return Err(unreadable(file, &format!("certificate {} can't be read ({error})", i + 1)));
        }
    }
    Ok((roots, all))
}

/// The certificates in a file, in order; at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(unreadable(file, "it has no certificate (-----BEGIN CERTIFICATE-----)")),
        Err(error) => Err(unreadable(file, &error.to_string())),
    }
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| {
        let encrypted = String::from_utf8_lossy(&text).contains("ENCRYPTED");
        match error {
            _ if encrypted => {
                format!(
                    "{}: the key is encrypted, which is not supported: name a file with the key as plain PEM",
                    file.display()
                )
            }
            pem::Error::NoItemsFound => unreadable(file, "it has no private key (-----BEGIN PRIVATE KEY-----)"),
            error => unreadable(file, &error.to_string()),
        }
    })
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    read_ordinary(file, LONGEST)
        .map_err(|error| format!("{}: {error}; set a file that this process may read", file.display()))
}

fn unreadable(file: &Path, what: &str) -> String {
    format!("{}: {what}; a PEM file is expected", file.display())
}
