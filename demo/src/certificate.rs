//! The key and the certificate with which the demo's pooler encrypts.
//!
//! Invariant: the key's file is readable by its owner only, and is removed with its folder.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rcgen::CertifiedKey;

use crate::failure::Failure;

/// The key's file in the demo's folder.
pub(super) const KEY: &str = "weir.key";
/// The certificate's file in the demo's folder.
pub(super) const CERTIFICATE: &str = "weir.crt";

/// Makes a self-signed certificate for loopback, and writes both files into the folder.
pub(super) fn write(folder: &Path) -> Result<(), Failure> {
    let names = ["localhost", "127.0.0.1"].map(str::to_owned);
    let made = rcgen::generate_simple_self_signed(names);
    let CertifiedKey { cert, signing_key } = made.map_err(|e| Failure::at("make a certificate", e))?;
    write_private(&folder.join(KEY), &signing_key.serialize_pem())?;
    write_private(&folder.join(CERTIFICATE), &cert.pem())
}

/// Writes a file that only its owner may read, from its first byte.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), Failure> {
    let file = File::options().create(true).write(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|e| Failure::at(path.display(), e))
}
