//! The few fields of a certificate that we read ourselves: its owner's name, its time, its key, its signature's hash.
//!
//! A reader of DER that only looks: whether a certificate may be trusted is decided elsewhere. Certificates come from
//! strangers, so every length is checked, and nothing recurses.
//!
//! Source: RFC 5280, section 4.1; RFC 5929, section 4.1, for the hash.

use sha2::{Digest, Sha256, Sha384, Sha512};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const BMP_STRING: u8 = 0x1e;
const UTC_TIME: u8 = 0x17;
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;

/// id-at-commonName, 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
/// id-ce-subjectAltName, 2.5.29.17.
const ALTERNATIVE_NAME: &[u8] = &[0x55, 0x1d, 0x11];
/// sha384WithRSAEncryption and ecdsa-with-SHA384.
const WITH_SHA384: [&[u8]; 2] =
    [&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0c], &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03]];
/// sha512WithRSAEncryption and ecdsa-with-SHA512.
const WITH_SHA512: [&[u8]; 2] =
    [&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0d], &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04]];
/// id-RSASSA-PSS, whose hash stands in its parameters.
const PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
/// Algorithms without a hash of their own name (Ed25519, Ed448): there is nothing to bind to.
const WITHOUT_HASH: [&[u8]; 2] = [&[0x2b, 0x65, 0x70], &[0x2b, 0x65, 0x71]];
/// id-sha384 and id-sha512.
const SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
const SHA512: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03];

/// What we read of a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Certificate<'a> {
    /// The last common name of its subject, which is the most specific one; `None` if it has none that is text.
    pub(crate) common_name: Option<String>,
    /// From when it holds, in seconds since 1970.
    pub(crate) not_before: i64,
    /// Until when it holds, in seconds since 1970.
    pub(crate) not_after: i64,
    /// Its public key, a SubjectPublicKeyInfo in DER.
    pub(crate) public_key: &'a [u8],
    /// Whether it lists names beside its subject.
    pub(crate) has_alternative_names: bool,
    /// The hash that its signature uses.
    hash: Hash,
    der: &'a [u8],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hash {
    Sha256,
    Sha384,
    Sha512,
    None,
}

/// Reads DER: a value is a tag, a length and that many bytes.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// The next value: its tag, its content, and all its bytes.
    fn next(&mut self) -> Option<(u8, &'a [u8], &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        let whole = &self.0[..self.0.len() - rest.len()];
        self.0 = rest;
        Some((tag, content, whole))
    }

    fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, ..)| *found == tag).map(|(_, content, _)| content)
    }

    /// The content of the next value if it has this tag; otherwise the reader stays where it is.
    fn optional(&mut self, tag: u8) -> Option<&'a [u8]> {
        if self.0.first() == Some(&tag) { self.expect(tag) } else { None }
    }
}

impl<'a> Certificate<'a> {
    /// Reads a certificate; `None` if it is none.
    pub(crate) fn read(der: &'a [u8]) -> Option<Certificate<'a>> {
        let mut outer = Reader(Reader(der).expect(SEQUENCE)?);
        let mut body = Reader(outer.expect(SEQUENCE)?);
        let algorithm = outer.expect(SEQUENCE)?;
        body.optional(VERSION);
        body.expect(INTEGER)?;
        let (_signature, _issuer) = (body.expect(SEQUENCE)?, body.expect(SEQUENCE)?);
        let mut validity = Reader(body.expect(SEQUENCE)?);
        let (not_before, not_after) = (time(validity.next()?)?, time(validity.next()?)?);
        let subject = body.expect(SEQUENCE)?;
        let (tag, _, public_key) = body.next()?;
        if tag != SEQUENCE {
            return None;
        }
        Some(Certificate {
            common_name: common_name(subject),
            not_before,
            not_after,
            public_key,
            has_alternative_names: has_alternative_names(body),
            hash: hash(algorithm)?,
            der,
        })
    }

    /// What a channel is bound to (`tls-server-end-point`): the certificate's hash, with the hash function of its
    /// signature, or SHA-256 where that is MD5 or SHA-1; `None` where the signature has no hash function.
    pub(crate) fn binding(&self) -> Option<Vec<u8>> {
        match self.hash {
            Hash::Sha256 => Some(Sha256::digest(self.der).to_vec()),
            Hash::Sha384 => Some(Sha384::digest(self.der).to_vec()),
            Hash::Sha512 => Some(Sha512::digest(self.der).to_vec()),
            Hash::None => None,
        }
    }
}

fn hash(algorithm: &[u8]) -> Option<Hash> {
    let mut fields = Reader(algorithm);
    let id = fields.expect(OBJECT_ID)?;
    let found = if WITH_SHA384.contains(&id) {
        Hash::Sha384
    } else if WITH_SHA512.contains(&id) {
        Hash::Sha512
    } else if WITHOUT_HASH.contains(&id) {
        Hash::None
    } else if id == PSS {
        pss_hash(fields).unwrap_or(Hash::Sha256)
    } else {
        Hash::Sha256
    };
    Some(found)
}

/// The hash in the parameters of RSASSA-PSS (RFC 4055, section 3.1): the field with the tag 0.
fn pss_hash(mut fields: Reader<'_>) -> Option<Hash> {
    let mut parameters = Reader(fields.expect(SEQUENCE)?);
    let mut algorithm = Reader(Reader(parameters.optional(0xa0)?).expect(SEQUENCE)?);
    match algorithm.expect(OBJECT_ID)? {
        SHA384 => Some(Hash::Sha384),
        SHA512 => Some(Hash::Sha512),
        _ => Some(Hash::Sha256),
    }
}

fn common_name(subject: &[u8]) -> Option<String> {
    let mut names = Reader(subject);
    let mut found = None;
    while let Some(set) = names.optional(SET) {
        let mut attributes = Reader(set);
        while let Some(attribute) = attributes.optional(SEQUENCE) {
            let mut attribute = Reader(attribute);
            if attribute.expect(OBJECT_ID)? == COMMON_NAME {
                let (tag, content, _) = attribute.next()?;
                found = text(tag, content);
            }
        }
    }
    found
}

/// A name's text. One with a NUL in it is refused: others would read it only to there (PostgreSQL refuses it too).
fn text(tag: u8, content: &[u8]) -> Option<String> {
    let text = match tag {
        UTF8_STRING => String::from_utf8(content.to_vec()).ok()?,
        BMP_STRING => {
            let units: Vec<u16> = content.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
            String::from_utf16(&units).ok()?
        }
        // The other kinds of strings are ASCII in all that is used today; Latin-1 covers the rest.
        _ => content.iter().map(|byte| char::from(*byte)).collect(),
    };
    (!text.contains('\0')).then_some(text)
}

fn has_alternative_names(mut rest: Reader<'_>) -> bool {
    while let Some((tag, content, _)) = rest.next() {
        if tag != EXTENSIONS {
            continue;
        }
        let Some(list) = Reader(content).expect(SEQUENCE) else { return false };
        let mut extensions = Reader(list);
        while let Some(extension) = extensions.optional(SEQUENCE) {
            if Reader(extension).expect(OBJECT_ID) == Some(ALTERNATIVE_NAME) {
                return true;
            }
        }
    }
    false
}

/// The two key fields of a SubjectPublicKeyInfo: the algorithm, and the key's bits.
pub(crate) fn key_parts(public_key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut fields = Reader(Reader(public_key).expect(SEQUENCE)?);
    let algorithm = fields.expect(SEQUENCE)?;
    let (unused, bits) = fields.expect(BIT_STRING)?.split_first()?;
    (*unused == 0).then_some((algorithm, bits))
}

/// UTCTime or GeneralizedTime, in the only forms that certificates may use: `YYMMDDHHMMSSZ`, `YYYYMMDDHHMMSSZ`.
fn time((tag, content, _): (u8, &[u8], &[u8])) -> Option<i64> {
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = text.split_at_checked(if tag == UTC_TIME { 2 } else { 4 })?;
    let mut year: i64 = year.parse().ok()?;
    if tag == UTC_TIME {
        year += if year < 50 { 2000 } else { 1900 };
    }
    if rest.len() != 10 {
        return None;
    }
    let two = |at: usize| rest[at..at + 2].parse::<i64>().ok();
    let (month, day) = (two(0)?, two(2)?);
    Some(((days(year, month, day) * 24 + two(4)?) * 60 + two(6)?) * 60 + two(8)?)
}

/// Days since 1970-01-01 in the Gregorian calendar, counted from March so that a leap day ends a year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468
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
        assert_eq!(text(UTF8_STRING, b"root\0.example"), None);
        assert_eq!(text(0x13, b"root"), Some("root".into()));
        assert_eq!(text(BMP_STRING, &[0, b'a', 0x20, 0xac]), Some("a€".into()));
    }
}
