//! TLS versions and cipher suites by PgBouncer's and OpenSSL's names.
//!
//! Owns which of them are supported. A cipher list is OpenSSL's (its manual, ciphers(1)): names and groups, `+`
//! between groups that must all match, `!` and `-` before what is removed. Groups without any supported suite are
//! returned to the caller, so that a list that means something else in OpenSSL is reported.

use std::fmt;

use crate::model::{SslMode, TlsProtocols, TlsSide};
use crate::origin::ConfigWarning;
use crate::wording;

/// A cipher suite that is available.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CipherSuite {
    /// TLS 1.2, ECDSA certificate, AES-256-GCM.
    EcdheEcdsaAes256Gcm,
    /// TLS 1.2, ECDSA certificate, AES-128-GCM.
    EcdheEcdsaAes128Gcm,
    /// TLS 1.2, ECDSA certificate, ChaCha20-Poly1305.
    EcdheEcdsaChacha20,
    /// TLS 1.2, RSA certificate, AES-256-GCM.
    EcdheRsaAes256Gcm,
    /// TLS 1.2, RSA certificate, AES-128-GCM.
    EcdheRsaAes128Gcm,
    /// TLS 1.2, RSA certificate, ChaCha20-Poly1305.
    EcdheRsaChacha20,
    /// TLS 1.3, AES-256-GCM.
    Tls13Aes256Gcm,
    /// TLS 1.3, AES-128-GCM.
    Tls13Aes128Gcm,
    /// TLS 1.3, ChaCha20-Poly1305.
    Tls13Chacha20,
}

/// The versions that a setting names.
pub(crate) struct Versions {
    pub(crate) allowed: TlsProtocols,
    /// Versions that are named, but not supported.
    pub(crate) missing: Vec<&'static str>,
}

const TLS12: [CipherSuite; 6] = [
    CipherSuite::EcdheEcdsaAes256Gcm,
    CipherSuite::EcdheEcdsaAes128Gcm,
    CipherSuite::EcdheEcdsaChacha20,
    CipherSuite::EcdheRsaAes256Gcm,
    CipherSuite::EcdheRsaAes128Gcm,
    CipherSuite::EcdheRsaChacha20,
];

const TLS13: [CipherSuite; 3] = [CipherSuite::Tls13Aes256Gcm, CipherSuite::Tls13Aes128Gcm, CipherSuite::Tls13Chacha20];

impl CipherSuite {
    /// OpenSSL's name of the suite.
    pub const fn name(self) -> &'static str {
        match self {
            CipherSuite::EcdheEcdsaAes256Gcm => "ECDHE-ECDSA-AES256-GCM-SHA384",
            CipherSuite::EcdheEcdsaAes128Gcm => "ECDHE-ECDSA-AES128-GCM-SHA256",
            CipherSuite::EcdheEcdsaChacha20 => "ECDHE-ECDSA-CHACHA20-POLY1305",
            CipherSuite::EcdheRsaAes256Gcm => "ECDHE-RSA-AES256-GCM-SHA384",
            CipherSuite::EcdheRsaAes128Gcm => "ECDHE-RSA-AES128-GCM-SHA256",
            CipherSuite::EcdheRsaChacha20 => "ECDHE-RSA-CHACHA20-POLY1305",
            CipherSuite::Tls13Aes256Gcm => "TLS_AES_256_GCM_SHA384",
            CipherSuite::Tls13Aes128Gcm => "TLS_AES_128_GCM_SHA256",
            CipherSuite::Tls13Chacha20 => "TLS_CHACHA20_POLY1305_SHA256",
        }
    }

    /// The name that the standards give a suite of TLS 1.2 (RFC 5289, RFC 7905); OpenSSL takes it too.
    const fn standard_name(self) -> &'static str {
        match self {
            CipherSuite::EcdheEcdsaAes256Gcm => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            CipherSuite::EcdheEcdsaAes128Gcm => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            CipherSuite::EcdheEcdsaChacha20 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            CipherSuite::EcdheRsaAes256Gcm => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            CipherSuite::EcdheRsaAes128Gcm => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            CipherSuite::EcdheRsaChacha20 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            suite => suite.name(),
        }
    }

    /// Whether the suite is one of TLS 1.3.
    pub const fn is_tls13(self) -> bool {
        matches!(self, CipherSuite::Tls13Aes256Gcm | CipherSuite::Tls13Aes128Gcm | CipherSuite::Tls13Chacha20)
    }

    /// Whether the suite belongs to one of OpenSSL's groups.
    fn is_in(self, group: &str) -> bool {
        let (name, is) = (self.name(), |part: &str| self.name().contains(part));
        match group {
            "ALL" | "DEFAULT" | "HIGH" | "COMPLEMENTOFNULL" | "AEAD" | "TLSv1.2" | "FIPS" => true,
            "ECDHE" | "kECDHE" | "EECDH" | "kEECDH" | "ECDH" | "kECDH" => true,
            "ECDSA" | "aECDSA" => is("ECDSA"),
            "aRSA" => is("RSA"),
            "AES" | "AESGCM" => is("AES"),
            "AES128" => is("AES128"),
            "AES256" => is("AES256"),
            "CHACHA20" => is("CHACHA20"),
            "SHA256" => is("SHA256"),
            "SHA384" => is("SHA384"),
            "SUITEB128" => name.starts_with("ECDHE-ECDSA-AES"),
            "SUITEB192" => self == CipherSuite::EcdheEcdsaAes256Gcm,
            word => word == name || word == self.standard_name(),
        }
    }
}

impl TlsProtocols {
    /// Whether no version is left: all that were named are too old.
    pub fn is_none(self) -> bool {
        !self.tls12 && !self.tls13
    }
}

impl TlsSide {
    /// Whether connections of this side can be encrypted at all.
    pub fn is_available(&self) -> bool {
        self.mode != SslMode::Disable && !self.protocols.is_none()
    }

    /// Why no handshake of this side could begin, in a line.
    ///
    /// # Errors
    /// Of a list of suites nothing is available.
    pub fn check_suites(&self) -> Result<(), String> {
        let (suites, unmappable) = self.suites();
        if self.protocols.tls13 && resolve_tls13(&self.tls13_ciphers).0.is_empty() {
            let names = wording::short(&self.tls13_ciphers);
            return Err(format!("failed to set the TLSv1.3 cipher suites: none of {names} is available"));
        }
        if suites.is_empty() {
            return Err(format!("no cipher suite is left of {}", wording::short(&unmappable.join(":"))));
        }
        Ok(())
    }

    /// The cipher suites that are allowed, in the order of preference, and the names in the lists that lead to none.
    /// Without a suite for a version, that version is not available either.
    pub fn suites(&self) -> (Vec<CipherSuite>, Vec<String>) {
        let (mut suites, mut unmappable) = (Vec::new(), Vec::new());
        if self.protocols.tls13 {
            let (found, unknown) = resolve_tls13(&self.tls13_ciphers);
            suites.extend(found);
            unmappable.extend(unknown);
        }
        if self.protocols.tls12 {
            let (found, unknown) = resolve_ciphers(&self.ciphers);
            suites.extend(found);
            unmappable.extend(unknown);
        }
        (suites, unmappable)
    }
}

/// The TLS 1.2 suites that an OpenSSL cipher list or one of PgBouncer's keywords selects, in its order, and the names
/// that match none of them.
pub fn resolve_ciphers(text: &str) -> (Vec<CipherSuite>, Vec<String>) {
    match text.trim() {
        // PgBouncer's keywords. Each of them selects all supported suites.
        "" | "default" | "secure" | "compat" | "legacy" | "all" | "insecure" | "normal" | "fast" => {
            return (TLS12.to_vec(), Vec::new());
        }
        _ => {}
    }
    let (mut chosen, mut gone, mut unmappable) = (Vec::new(), Vec::new(), Vec::new());
    for word in text.split([':', ',', ' ', ';']).filter(|word| !word.is_empty()) {
        // Directives sort by strength or require key sizes; all supported suites satisfy each of them.
        if word.starts_with('@') {
            continue;
        }
        let (operator, groups) = match word.split_at_checked(1) {
            Some((operator @ ("!" | "-" | "+"), groups)) => (operator, groups),
            _ => ("", word),
        };
        let meant: Vec<_> =
            TLS12.into_iter().filter(|suite| groups.split('+').all(|group| suite.is_in(group))).collect();
        match operator {
            "" if meant.is_empty() => unmappable.push(groups.to_owned()),
            "" => {
                let new = meant.into_iter().filter(|suite| !gone.contains(suite));
                let new: Vec<_> = new.filter(|suite| !chosen.contains(suite)).collect();
                chosen.extend(new);
            }
            "+" => {
                let (kept, last): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|suite| !meant.contains(suite));
                chosen = kept;
                chosen.extend(last);
            }
            operator => {
                chosen.retain(|suite| !meant.contains(suite));
                if operator == "!" {
                    gone.extend(meant);
                }
            }
        }
    }
    (chosen, unmappable)
}

/// The TLS 1.3 suites that a list names, in its order, and the names that match none; an empty list selects all.
pub fn resolve_tls13(text: &str) -> (Vec<CipherSuite>, Vec<String>) {
    let (mut chosen, mut unmappable) = (Vec::new(), Vec::new());
    for word in text.split([':', ',', ' ']).filter(|word| !word.is_empty()) {
        match TLS13.into_iter().find(|suite| suite.name() == word) {
            Some(suite) if chosen.contains(&suite) => {}
            Some(suite) => chosen.push(suite),
            None => unmappable.push(word.to_owned()),
        }
    }
    if chosen.is_empty() && unmappable.is_empty() { (TLS13.to_vec(), unmappable) } else { (chosen, unmappable) }
}

/// Reads a list of versions; the error completes the sentence "`name` …".
pub(crate) fn protocols(text: &str) -> Result<Versions, String> {
    let mut versions = Versions { allowed: TlsProtocols { tls12: false, tls13: false }, missing: Vec::new() };
    let both = TlsProtocols { tls12: true, tls13: true };
    for word in text.to_ascii_lowercase().split([',', ':', ' ']).filter(|word| !word.is_empty()) {
        match word {
            "secure" | "default" => versions.allowed = both,
            "all" | "legacy" => {
                versions.allowed = both;
                versions.missing = vec!["TLS 1.0", "TLS 1.1"];
            }
            "tlsv1.3" => versions.allowed.tls13 = true,
            "tlsv1.2" => versions.allowed.tls12 = true,
            "tlsv1.1" => versions.missing.push("TLS 1.1"),
            "tlsv1.0" => versions.missing.push("TLS 1.0"),
            "tlsv1" => {
                versions.allowed = both;
                versions.missing = vec!["TLS 1.0", "TLS 1.1"];
            }
            _ => return Err("must be secure, all, or a list of tlsv1.2 and tlsv1.3".to_owned()),
        }
    }
    match versions.allowed {
        allowed if allowed.is_none() && versions.missing.is_empty() => {
            Err("must name a version, as in \"secure\"".to_owned())
        }
        _ => Ok(versions),
    }
}

/// The warning about versions that a valid list names, and that are not supported.
pub(crate) fn remark_on_protocols(key: &str, text: &str) -> Option<ConfigWarning> {
    let missing = protocols(text).ok()?.missing;
    let names = missing.join(" and ");
    let text = format!("{names} {} not supported; TLS 1.2 and 1.3 are", if missing.len() == 1 { "is" } else { "are" });
    (!missing.is_empty()).then(|| ConfigWarning { key: key.to_owned(), text })
}

impl fmt::Display for TlsProtocols {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match (self.tls12, self.tls13) {
            (true, true) => "secure",
            (true, false) => "tlsv1.2",
            (false, true) => "tlsv1.3",
            // What was named is too old: any of these says so.
            (false, false) => "tlsv1.0",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> (Vec<&'static str>, Vec<String>) {
        let (suites, unmappable) = resolve_ciphers(text);
        (suites.into_iter().map(CipherSuite::name).collect(), unmappable)
    }

    #[test]
    fn keywords_and_wide_groups_are_all_that_is_to_be_had() {
        for text in ["", "default", "secure", "compat", "legacy", "fast", "normal", "HIGH:!aNULL", "ALL:!MD5:!3DES"] {
            assert_eq!(resolve_ciphers(text), (TLS12.to_vec(), vec![]), "{text}");
        }
        assert_eq!(resolve_ciphers("HIGH:MEDIUM:+3DES:!aNULL"), (TLS12.to_vec(), vec!["MEDIUM".to_owned()]));
    }

    #[test]
    fn a_list_keeps_its_order_and_leaves_out_what_it_says() {
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384").0,
            ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384"]
        );
        assert_eq!(
            names("ECDHE+AESGCM:!aECDSA:@STRENGTH").0,
            ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]
        );
        assert_eq!(names("!CHACHA20:aRSA").0, ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(
            names("aRSA:-AES:ECDHE-RSA-AES128-GCM-SHA256:+CHACHA20").0,
            ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-CHACHA20-POLY1305"]
        );
    }

    #[test]
    fn what_leads_to_no_suite_is_named() {
        let (suites, unmappable) = names("AES256-SHA:ECDHE-RSA-AES256-GCM-SHA384:DHE-RSA-AES128-GCM-SHA256:kRSA+AES");
        assert_eq!(suites, ["ECDHE-RSA-AES256-GCM-SHA384"]);
        assert_eq!(unmappable, ["AES256-SHA", "DHE-RSA-AES128-GCM-SHA256", "kRSA+AES"]);
        assert_eq!(resolve_tls13(""), (TLS13.to_vec(), vec![]));
        assert_eq!(
            resolve_tls13("TLS_AES_128_GCM_SHA256:TLS_AES_128_CCM_SHA256"),
            (vec![CipherSuite::Tls13Aes128Gcm], vec!["TLS_AES_128_CCM_SHA256".to_owned()])
        );
    }

    #[test]
    fn versions_are_read_and_old_ones_are_not_to_be_had() {
        let read = |text| protocols(text).map(|v| (v.allowed.to_string(), v.missing.len()));
        assert_eq!(read("secure"), Ok(("secure".into(), 0)));
        assert_eq!(read("all"), Ok(("secure".into(), 2)));
        assert_eq!(read("tlsv1.2, TLSv1.1"), Ok(("tlsv1.2".into(), 1)));
        assert_eq!(read("tlsv1.3"), Ok(("tlsv1.3".into(), 0)));
        assert_eq!(read("tlsv1.0"), Ok(("tlsv1.0".into(), 1)), "whether that can be served is checked with the mode");
        assert!(read("").is_err() && read("sslv3").is_err());
    }
}
