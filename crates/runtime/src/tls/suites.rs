//! The library's cipher suites and versions for those of the configuration.
//!
//! The configuration parses their names (`weir_config::CipherSuite`); this file has the implementation of each.

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite as suite};
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedCipherSuite, SupportedProtocolVersion};
use weir_config::{CipherSuite, TlsProtocols, TlsSide};

/// Each suite with its implementation.
const SUITES: [(CipherSuite, SupportedCipherSuite); 9] = [
    (CipherSuite::Tls13Aes256Gcm, suite::TLS13_AES_256_GCM_SHA384),
    (CipherSuite::Tls13Aes128Gcm, suite::TLS13_AES_128_GCM_SHA256),
    (CipherSuite::Tls13Chacha20, suite::TLS13_CHACHA20_POLY1305_SHA256),
    (CipherSuite::EcdheEcdsaAes256Gcm, suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    (CipherSuite::EcdheEcdsaAes128Gcm, suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    (CipherSuite::EcdheEcdsaChacha20, suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    (CipherSuite::EcdheRsaAes256Gcm, suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    (CipherSuite::EcdheRsaAes128Gcm, suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    (CipherSuite::EcdheRsaChacha20, suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// The cryptography for one side, with the suites that its settings leave, in their order.
///
/// # Errors
/// No suite is left.
pub(super) fn provider(side: &TlsSide) -> Result<CryptoProvider, String> {
    side.check_suites()?;
    let (allowed, _) = side.suites();
    let code = |wanted: CipherSuite| SUITES.iter().find(|(ours, _)| *ours == wanted).map(|(_, code)| *code);
    let cipher_suites: Vec<_> = allowed.into_iter().filter_map(code).collect();
    Ok(CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() })
}

/// The versions to offer.
pub(super) fn versions(protocols: TlsProtocols) -> Vec<&'static SupportedProtocolVersion> {
    [(protocols.tls13, &TLS13), (protocols.tls12, &TLS12)].into_iter().filter(|(on, _)| *on).map(|(_, v)| v).collect()
}

/// The TLS column of SHOW CLIENTS: `TLSv1.3/TLS_AES_256_GCM_SHA384`.
pub(super) fn description(version: Option<ProtocolVersion>, used: Option<SupportedCipherSuite>) -> String {
    let version = match version {
        Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
        _ => "TLSv1.2",
    };
    let is_used = |code: &SupportedCipherSuite| used.is_some_and(|used| used.suite() == code.suite());
    let name = SUITES.iter().find(|(_, code)| is_used(code)).map_or("unknown", |(ours, _)| ours.name());
    format!("{version}/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_has_its_code_in_the_order_of_the_settings() {
        let side = TlsSide { ciphers: "default".into(), ..TlsSide::default() };
        assert_eq!(provider(&side).unwrap().cipher_suites.len(), side.suites().0.len());
        assert_eq!(side.suites().0.len(), SUITES.len());
        let side = TlsSide { ciphers: "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256".into(), ..side };
        let last: Vec<_> =
            provider(&side).unwrap().cipher_suites.split_off(3).iter().map(|code| code.suite()).collect();
        let wanted = [
            suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384.suite(),
            suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256.suite(),
        ];
        assert_eq!(last, wanted);
    }

    #[test]
    fn nothing_left_is_an_error() {
        let side = TlsSide {
            tls13_ciphers: "TLS_NULL".into(),
            protocols: TlsProtocols { tls12: false, tls13: true },
            ..TlsSide::default()
        };
        assert!(provider(&side).is_err());
    }

    #[test]
    fn a_description_names_version_and_suite_as_openssl_does() {
        let of = |version, code| description(Some(version), Some(code));
        assert_eq!(of(ProtocolVersion::TLSv1_3, suite::TLS13_AES_256_GCM_SHA384), "TLSv1.3/TLS_AES_256_GCM_SHA384");
        assert_eq!(
            of(ProtocolVersion::TLSv1_2, suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
            "TLSv1.2/ECDHE-RSA-AES128-GCM-SHA256"
        );
    }
}
