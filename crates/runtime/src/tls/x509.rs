//! The fields of a certificate that Weir itself needs: its owner's name, its validity, its key, its signature's hash.
//!
//! Parsed by `x509-parser`. The certificate may come from any peer; `verify` decides whether it is trusted.
//!
//! Source: RFC 5280, section 4.1; RFC 5929, section 4.1, for the hash.

use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_parser::asn1_rs::{Any, FromDer, Oid, Tag};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{
    OID_NIST_HASH_SHA384, OID_NIST_HASH_SHA512, OID_PKCS1_SHA384WITHRSA, OID_PKCS1_SHA512WITHRSA,
    OID_SIG_ECDSA_WITH_SHA384, OID_SIG_ECDSA_WITH_SHA512, OID_SIG_ED448, OID_SIG_ED25519,
    OID_X509_EXT_NAME_CONSTRAINTS, OID_X509_EXT_SUBJECT_ALT_NAME,
};
use x509_parser::signature_algorithm::SignatureAlgorithm;
use x509_parser::x509::{AlgorithmIdentifier, X509Version};

/// What is read of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Certificate<'a> {
    /// The last common name of the certificate's subject, the most specific one; `None` without one, or if it is not
    /// text.
    pub(crate) common_name: Option<String>,
    /// The start of the certificate's validity, in seconds since 1970.
    pub(crate) not_before: i64,
    /// The end of the certificate's validity, in seconds since 1970.
    pub(crate) not_after: i64,
    /// The certificate's public key, a SubjectPublicKeyInfo in DER.
    pub(crate) public_key: &'a [u8],
    /// Whether the certificate has the extension subjectAltName.
    pub(crate) has_alternative_names: bool,
    /// Whether the certificate is of version 1.
    pub(crate) is_version1: bool,
    /// The names of the certificate's issuer and of its owner, in DER.
    pub(crate) issuer: Vec<u8>,
    pub(crate) subject: Vec<u8>,
    /// Whether the certificate may sign others of any name: one of version 3 declares that, and names no constraints.
    pub(crate) may_issue: bool,
    /// The hash that the certificate's signature uses.
    hash: Hash,
    der: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
    /// The signature has no hash of its own (Ed25519, Ed448).
    None,
}

impl<'a> Certificate<'a> {
    /// Parses a certificate; `None` if it is invalid.
    pub(crate) fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let (_, read) = X509Certificate::from_der(der).ok()?;
        let common_name = read.subject().iter_common_name().last();
        Some(Certificate {
            common_name: common_name.and_then(|name| text(name.attr_value())),
            not_before: read.validity().not_before.timestamp(),
            not_after: read.validity().not_after.timestamp(),
            public_key: read.tbs_certificate.subject_pki.raw,
            has_alternative_names: read.iter_extensions().any(|one| one.oid == OID_X509_EXT_SUBJECT_ALT_NAME),
            is_version1: read.version() == X509Version::V1,
            issuer: read.issuer().as_raw().to_vec(),
            subject: read.subject().as_raw().to_vec(),
            may_issue: may_issue(&read),
            hash: hash(&read.signature_algorithm),
            der,
        })
    }

    /// The certificate's `tls-server-end-point` channel binding: its hash, with the hash function of its signature, or
    /// SHA-256 where that is MD5 or SHA-1; `None` where the signature has no hash function.
    pub(crate) fn binding(&self) -> Option<Vec<u8>> {
        match self.hash {
            Hash::Sha256 => Some(Sha256::digest(self.der).to_vec()),
            Hash::Sha384 => Some(Sha384::digest(self.der).to_vec()),
            Hash::Sha512 => Some(Sha512::digest(self.der).to_vec()),
            Hash::None => None,
        }
    }
}

fn may_issue(read: &X509Certificate<'_>) -> bool {
    let is_constrained = read.iter_extensions().any(|one| one.oid == OID_X509_EXT_NAME_CONSTRAINTS);
    let may_sign = !matches!(read.key_usage(), Ok(Some(usage)) if !usage.value.key_cert_sign());
    // One of version 1 can't declare that it is a CA; its presence in `ca_file` does.
    (read.is_ca() || read.version() == X509Version::V1) && may_sign && !is_constrained
}

/// What a certificate's issuer signed, how, and the signature.
pub(crate) struct SignedParts<'a> {
    pub(crate) message: &'a [u8],
    /// The content of the AlgorithmIdentifier.
    pub(crate) algorithm: &'a [u8],
    pub(crate) signature: &'a [u8],
}

/// The three fields of a certificate; `None` if it is none.
pub(crate) fn signed_parts(der: &[u8]) -> Option<SignedParts<'_>> {
    let (_, fields) = Any::from_der(der).ok()?;
    let (rest, _) = Any::from_der(fields.data).ok()?;
    let message = fields.data.get(..fields.data.len() - rest.len())?;
    let (rest, algorithm) = Any::from_der(rest).ok()?;
    let (_, signature) = Any::from_der(rest).ok()?;
    let (unused, bits) = signature.data.split_first()?;
    let is_whole = algorithm.tag() == Tag::Sequence && signature.tag() == Tag::BitString && *unused == 0;
    is_whole.then_some(SignedParts { message, algorithm: algorithm.data, signature: bits })
}

fn hash(algorithm: &AlgorithmIdentifier<'_>) -> Hash {
    match SignatureAlgorithm::try_from(algorithm) {
        // The hash of RSASSA-PSS is a parameter (RFC 4055, section 3.1).
        Ok(SignatureAlgorithm::RSASSA_PSS(parameters)) => hash_of(parameters.hash_algorithm_oid()),
        _ => hash_of(&algorithm.algorithm),
    }
}

/// The hash function of an algorithm.
fn hash_of(algorithm: &Oid<'_>) -> Hash {
    if [OID_PKCS1_SHA384WITHRSA, OID_SIG_ECDSA_WITH_SHA384, OID_NIST_HASH_SHA384].contains(algorithm) {
        Hash::Sha384
    } else if [OID_PKCS1_SHA512WITHRSA, OID_SIG_ECDSA_WITH_SHA512, OID_NIST_HASH_SHA512].contains(algorithm) {
        Hash::Sha512
    } else if [OID_SIG_ED25519, OID_SIG_ED448].contains(algorithm) {
        Hash::None
    } else {
        Hash::Sha256
    }
}

/// A name as text. One with a NUL is refused: other software would read it only up to there (PostgreSQL refuses it,
/// too).
fn text(name: &Any<'_>) -> Option<String> {
    let content = name.data;
    let text = match name.tag() {
        Tag::Utf8String => String::from_utf8(content.to_vec()).ok()?,
        Tag::BmpString => {
            let units: Vec<u16> = content.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).ok()?
        }
        // The other string types are ASCII in practice; Latin-1 covers the rest.
        _ => content.iter().map(|byte| char::from(*byte)).collect(),
    };
    (!text.contains('\0')).then_some(text)
}

/// The two fields of a SubjectPublicKeyInfo: the content of the algorithm, and the key's bits.
pub(crate) fn key_parts(public_key: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, fields) = Any::from_der(public_key).ok()?;
    let (rest, algorithm) = Any::from_der(fields.data).ok()?;
    let (_, key) = Any::from_der(rest).ok()?;
    let (unused, bits) = key.data.split_first()?;
    let is_whole = fields.tag() == Tag::Sequence && algorithm.tag() == Tag::Sequence && key.tag() == Tag::BitString;
    (is_whole && *unused == 0).then_some((algorithm.data, bits))
}

#[cfg(test)]
mod tests {
    use super::*;

    use rcgen::{CertificateParams, DnType, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

    fn certificate(algorithm: &'static rcgen::SignatureAlgorithm, names: Vec<String>) -> Vec<u8> {
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "Site");
        params.distinguished_name.push(DnType::CommonName, "anna ü");
        params.not_before = rcgen::date_time_ymd(1999, 12, 31);
        params.not_after = rcgen::date_time_ymd(2052, 2, 29);
        params.self_signed(&KeyPair::generate_for(algorithm).unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn a_certificate_tells_its_owner_and_its_time() {
        let der = certificate(&PKCS_ECDSA_P256_SHA256, vec!["db.example".into()]);
        let found = Certificate::read(&der).unwrap();
        assert_eq!(found.common_name.as_deref(), Some("anna ü"));
        assert_eq!((found.not_before, found.not_after), (946_598_400, 2_592_777_600));
        assert!(found.has_alternative_names);
        assert!(key_parts(found.public_key).is_some());
        let der = certificate(&PKCS_ECDSA_P256_SHA256, Vec::new());
        assert!(!Certificate::read(&der).unwrap().has_alternative_names);
    }

    #[test]
    fn a_binding_uses_the_hash_of_the_signature() {
        let of = |algorithm| {
            let der = certificate(algorithm, Vec::new());
            (Certificate::read(&der).unwrap().binding(), der)
        };
        let (binding, der) = of(&PKCS_ECDSA_P256_SHA256);
        assert_eq!(binding, Some(Sha256::digest(&der).to_vec()));
        let (binding, der) = of(&PKCS_ECDSA_P384_SHA384);
        assert_eq!(binding, Some(Sha384::digest(&der).to_vec()));
        assert_eq!(of(&PKCS_ED25519).0, None);
    }

    #[test]
    fn what_is_cut_or_changed_anywhere_never_panics() {
        let der = certificate(&PKCS_ECDSA_P256_SHA256, vec!["db.example".into()]);
        for end in 0..der.len() {
            assert_eq!(Certificate::read(&der[..end]), None, "cut at {end}");
        }
        for at in 0..der.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut changed = der.clone();
                changed[at] ^= flip;
                let _ = Certificate::read(&changed);
            }
        }
    }

    #[test]
    fn names_with_a_nul_are_no_names() {
        let text = |tag, content| text(&Any::from_tag_and_data(tag, content));
        assert_eq!(text(Tag::Utf8String, b"root\0.example"), None);
        assert_eq!(text(Tag::PrintableString, b"root"), Some("root".into()));
        assert_eq!(text(Tag::BmpString, &[0, b'a', 0x20, 0xac]), Some("a€".into()));
    }
}
