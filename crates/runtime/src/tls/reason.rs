//! Why TLS failed, in words that say what to do; for the log, and for the errors of a login.
//!
//! Owns the texts alone. `rustls` names its errors for programmers, so none of its own texts is shown: what has no text
//! here is named by its kind, in words. Names in a certificate are the other side's: they are cut and escaped.

use std::io;

use jiff::Timestamp;
use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, PeerIncompatible};
use weir_base::{Printable, prefix};

/// The most names of a certificate that are shown, and the most bytes of each.
const NAMES: usize = 3;
const NAME: usize = 64;

/// The other side of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum With {
    /// A client.
    Client,
    /// A server of a pool.
    Server,
    /// An LDAP server.
    Directory,
    /// A client or a server whose connection another process has begun.
    Either,
}

impl With {
    fn name(self) -> &'static str {
        match self {
            With::Client => "client",
            With::Server => "server",
            With::Directory => "LDAP server",
            With::Either => "other side",
        }
    }

    /// The section in which the trusted authorities are set.
    fn authorities(self) -> &'static str {
        match self {
            With::Client => "tls.client.ca_file",
            With::Server => "tls.server.ca_file",
            With::Directory => "TLS_CACERT of ldap.conf",
            With::Either => "ca_file",
        }
    }

    fn settings(self) -> &'static str {
        match self {
            With::Client => "[tls.client]",
            With::Server => "[tls.server]",
            With::Directory | With::Either => "Weir",
        }
    }

    /// What a certificate of the other side must be for.
    fn purpose(self) -> &'static str {
        if self == With::Client { "clientAuth" } else { "serverAuth" }
    }
}

/// Why a connection failed, in a line. The fault of a certificate begins with OpenSSL's words, which alerts of
/// operators look for.
pub(crate) fn reason(error: &Error, with: With) -> String {
    let name = with.name();
    match error {
        Error::InvalidCertificate(why) => format!("certificate verify failed: {}", certificate(why, with)),
        Error::NoCertificatesPresented if with == With::Client => {
            "the client sent no certificate, and tls.client.mode requires one (libpq: sslcert and sslkey)".into()
        }
        Error::NoCertificatesPresented => format!("the {name} sent no certificate"),
        Error::PeerIncompatible(what) => nothing_in_common(what, with),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            format!("what the {name} sent is not TLS: it sent plain text, or it is another program")
        }
        Error::InvalidMessage(what) => format!("the {name} sent a message that is not valid in TLS ({})", kind(what)),
        Error::InappropriateMessage { .. } | Error::InappropriateHandshakeMessage { .. } => {
            format!("the {name} sent a message of TLS out of order")
        }
        Error::PeerMisbehaved(what) => format!("the {name} broke a rule of TLS ({})", kind(what)),
        Error::PeerSentOversizedRecord => format!("the {name} sent a record that is longer than TLS allows"),
        Error::DecryptError => format!("a record of the {name} can't be decrypted: it was changed on its way"),
        Error::AlertReceived(alert) => alert_received(*alert, with),
        Error::NoApplicationProtocol => {
            format!("the {name} offers other protocols by ALPN, and not \"postgresql\"")
        }
        Error::InvalidCertRevocationList(why) => format!("a list of revoked certificates is not valid ({})", kind(why)),
        Error::General(text) => Printable(text).to_string(),
        other => format!("it failed within the TLS library ({})", kind(other)),
    }
}

/// An error of a stream, of its socket or of TLS, with the reason in words.
pub(crate) fn in_words(error: io::Error, with: With) -> io::Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(tls) => io::Error::new(error.kind(), reason(tls, with)),
        None => error,
    }
}

fn certificate(why: &CertificateError, with: With) -> String {
    let (name, authorities) = (with.name(), with.authorities());
    match why {
        CertificateError::BadEncoding => "it can't be read as a certificate".into(),
        CertificateError::Expired => "it has expired: renew it, or set this machine's clock".into(),
        CertificateError::ExpiredContext { time, not_after } => {
            let (now, end) = (date(*time), date(*not_after));
            format!("it has expired at {end}: renew it; here it is {now}")
        }
        CertificateError::NotValidYet => "it is not valid yet: is a clock wrong?".into(),
        CertificateError::NotValidYetContext { time, not_before } => {
            let (now, begin) = (date(*time), date(*not_before));
            format!("it is valid from {begin} on, and here it is {now}: is a clock wrong?")
        }
        CertificateError::Revoked => "its authority has revoked it: the {name} needs a new one".replace("{name}", name),
        CertificateError::UnknownRevocationStatus
        | CertificateError::ExpiredRevocationList
        | CertificateError::ExpiredRevocationListContext { .. } => {
            "whether it is revoked can't be found out: the list of revoked certificates is missing or too old".into()
        }
        CertificateError::UnknownIssuer => format!(
            "no authority in {authorities} has issued it; add its authority's certificate there, or have the {name} also \
             send the intermediate certificates"
        ),
        CertificateError::BadSignature => format!(
            "its signature is not by the key of the authority that it names: {authorities} may hold an older certificate \
             of that name"
        ),
        CertificateError::UnsupportedSignatureAlgorithmContext { .. }
        | CertificateError::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => unsupported_signature(),
        CertificateError::NotValidForName => format!("it is not for the name by which the {name} is reached"),
        CertificateError::NotValidForNameContext { expected, presented } => {
            format!("it is {}, and the {name} is reached as \"{}\"", names(presented), expected.to_str())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            format!("its extended key usage does not permit this use: it needs {}", with.purpose())
        }
        CertificateError::UnhandledCriticalExtension => {
            "it has a critical extension that is not known here: issue it without".into()
        }
        CertificateError::InvalidOcspResponse => "the statement about its revocation (OCSP) is not valid".into(),
        CertificateError::ApplicationVerificationFailure => "it is not accepted".into(),
        CertificateError::Other(other) => of_webpki(&kind(other), with),
        other => match kind(other).as_str() {
            "unsupported signature algorithm" => unsupported_signature(),
            kind => format!("it does not follow the rules for certificates ({kind})"),
        },
    }
}

fn unsupported_signature() -> String {
    "it is signed in a way that is not accepted: issue it anew, signed with SHA-256 or better".into()
}

/// What the library for certificates has found that `rustls` has no name for.
fn of_webpki(kind: &str, with: With) -> String {
    let (name, authorities) = (with.name(), with.authorities());
    match kind {
        "ca used as end entity" if with == With::Client => {
            "it is an authority's certificate (CA:TRUE), which no client may use: issue one with CA:FALSE".into()
        }
        "ca used as end entity" => format!(
            "it is an authority's certificate (CA:TRUE), which a {name} may use only if {authorities} has that certificate \
             itself: add it there, or issue one with CA:FALSE"
        ),
        "end entity used as ca" => format!(
            "an intermediate certificate of the {name} is not an authority's (CA:FALSE), so it can't issue others"
        ),
        "path len constraint violated" | "maximum path depth exceeded" => {
            "too many intermediate certificates lead to it".into()
        }
        "name constraint violation" => "its authority may not issue certificates for that name".into(),
        "unsupported cert version" => "it is not of version 3: issue it anew".into(),
        kind => format!("it does not follow the rules for certificates ({kind})"),
    }
}

fn nothing_in_common(what: &PeerIncompatible, with: With) -> String {
    let (name, settings) = (with.name(), with.settings());
    match what {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled => format!(
            "no version of TLS in common: {settings} allows 1.2, 1.3 or both (protocols), and the {name} has none of these"
        ),
        PeerIncompatible::NoCipherSuitesInCommon => format!(
            "no cipher suite in common: the {name} has none of those that {settings} allows (ciphers, tls13_ciphers), or \
             none for the kind of key in the certificate"
        ),
        PeerIncompatible::NoKxGroupsInCommon
        | PeerIncompatible::NamedGroupsExtensionRequired
        | PeerIncompatible::KeyShareExtensionRequired
        | PeerIncompatible::NoEcPointFormatsInCommon
        | PeerIncompatible::EcPointsExtensionRequired
        | PeerIncompatible::UncompressedEcPointsRequired => {
            format!("no key exchange in common: the {name} has neither X25519 nor the curves P-256 and P-384")
        }
        PeerIncompatible::NoSignatureSchemesInCommon
        | PeerIncompatible::NoCertificateRequestSignatureSchemesInCommon => {
            format!("no signature scheme in common: the {name} can't use the kind of key in the certificate")
        }
        // All programs of TLS 1.2 name them, and those of TLS 1.1 can't.
        PeerIncompatible::SignatureAlgorithmsExtensionRequired => {
            format!(
                "no version of TLS in common: the {name} seems to know TLS 1.1 or older only (it names no signature scheme)"
            )
        }
        other => format!("the {name} lacks what TLS needs here ({})", kind(other)),
    }
}

fn alert_received(alert: AlertDescription, with: With) -> String {
    let name = with.name();
    match alert {
        AlertDescription::UnknownCA => {
            format!("the {name} does not trust Weir's certificate: it lacks the authority's (libpq: sslrootcert)")
        }
        AlertDescription::BadCertificate
        | AlertDescription::UnsupportedCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::AccessDenied => format!("the {name} does not accept Weir's certificate"),
        AlertDescription::CertificateExpired => {
            format!("the {name} takes Weir's certificate for expired: renew it, or set the clocks")
        }
        // As OpenSSL ends it where it knows another authority of the same name.
        AlertDescription::DecryptError => format!(
            "the {name} can't check a signature (decrypt error): it may have an older certificate of Weir's authority"
        ),
        AlertDescription::CertificateRevoked => format!("the {name} takes Weir's certificate for revoked"),
        AlertDescription::CertificateRequired | AlertDescription::NoCertificate => {
            format!("the {name} requires a certificate of Weir: set cert_file and key_file in {}", with.settings())
        }
        AlertDescription::UnrecognisedName => {
            format!("the {name} has no certificate for the name by which it is reached")
        }
        AlertDescription::ProtocolVersion => {
            format!("no version of TLS in common: the {name} refuses those that {} allows (protocols)", with.settings())
        }
        AlertDescription::HandshakeFailure | AlertDescription::InsufficientSecurity => format!(
            "the {name} finds no cipher suite, key exchange or signature in common, or requires a certificate (see {})",
            with.settings()
        ),
        AlertDescription::NoApplicationProtocol => format!("the {name} does not speak \"postgresql\" (ALPN)"),
        AlertDescription::UserCanceled => format!("the {name} has broken it off"),
        AlertDescription::Unknown(number) => format!("the {name} ended it with the alert {number} of TLS"),
        other => format!("the {name} ended it with an alert of TLS ({})", kind(&other)),
    }
}

/// The names in a certificate, for a sentence.
fn names(presented: &[String]) -> String {
    let plain = |name: &String| {
        let inner =
            name.split_once('(').and_then(|(_, rest)| rest.rsplit_once(')')).map_or(name.as_str(), |pair| pair.0);
        format!("\"{}\"", Printable(prefix(inner.trim_matches('"'), NAME)))
    };
    let shown: Vec<String> = presented.iter().take(NAMES).map(plain).collect();
    match (shown.is_empty(), presented.len().saturating_sub(NAMES)) {
        (true, _) => "for no name".into(),
        (false, 0) => format!("for {}", shown.join(", ")),
        (false, more) => format!("for {} and {more} more", shown.join(", ")),
    }
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| "an impossible time".into(), |time| time.strftime("%F %T UTC").to_string())
}

/// The kind of a value of the library, in lower-case words: `CaUsedAsEndEntity` is "ca used as end entity".
fn kind(value: &impl std::fmt::Debug) -> String {
    let shown = format!("{value:?}");
    // `Other(OtherError(CaUsedAsEndEntity))`: the innermost one that has no content.
    let shown = shown.strip_prefix("OtherError(").unwrap_or(&shown);
    let name = shown.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    let mut words = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && words.ends_with(|before: char| before.is_ascii_lowercase()) {
            words.push(' ');
        }
        words.push(c.to_ascii_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
    use rustls::client::danger::ServerCertVerifier;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{OtherError, PeerMisbehaved, RootCertStore};

    use super::super::suites;
    use super::super::verify::{Trust, Verification, Verifier};
    use super::*;
    use std::sync::Arc;
    use weir_config::TlsSide;

    const TODAY: u64 = 1_767_225_600;

    /// An authority and its key.
    fn authority() -> (CertificateDer<'static>, Issuer<'static, KeyPair>) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "the authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        (certificate, Issuer::new(params, key))
    }

    /// Why a server at `localhost` with this certificate is refused, by the rules for servers.
    fn refused(trusted: &CertificateDer<'static>, certificate: &CertificateDer<'static>) -> String {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.clone()).unwrap();
        let provider = Arc::new(suites::provider(&TlsSide::default()).unwrap());
        let trust = Trust { roots, exact: Vec::new() };
        let verifier = Verifier::new(Verification::TrustedFor(Arc::new(trust)), &provider);
        let (name, now) = (ServerName::try_from("localhost").unwrap(), Duration::from_secs(TODAY));
        let checked = verifier.verify_server_cert(certificate, &[], &name, &[], UnixTime::since_unix_epoch(now));
        reason(&checked.expect_err("it is refused"), With::Server)
    }

    fn issued(change: impl FnOnce(&mut CertificateParams)) -> String {
        let (authority, issuer) = authority();
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        refused(&authority, certificate.der())
    }

    fn assert_says(text: &str, words: &[&str]) {
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_is_plain(text);
    }

    /// No identifier of the library is shown.
    fn assert_is_plain(text: &str) {
        let is_camel = |word: &str| {
            word.as_bytes().windows(2).any(|pair| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase())
        };
        let shown = text.split(|c: char| !c.is_ascii_alphanumeric()).find(|word| is_camel(word));
        let known = ["clientAuth", "serverAuth"];
        assert!(shown.is_none_or(|word| known.contains(&word)) && !text.contains(['\n', '{']), "{text}");
    }

    #[test]
    fn a_certificate_that_is_refused_is_explained() {
        let year = |year| rcgen::date_time_ymd(year, 3, 4);
        let expired = issued(|params| params.not_after = year(2020));
        assert_says(&expired, &["certificate verify failed: ", "expired at 2020-03-04 00:00:00 UTC"]);
        let early = issued(|params| params.not_before = year(2200));
        assert_says(&early, &["valid from 2200-03-04", "here it is 2026-01-01", "clock"]);
        let other = issued(|params| {
            let names = ["db1.example", "db2.example", "db3.example", "db4.example"];
            params.subject_alt_names = CertificateParams::new(names.map(str::to_owned)).unwrap().subject_alt_names;
        });
        assert_says(&other, &["for \"db1.example\", \"db2.example\", \"db3.example\" and 1 more", "as \"localhost\""]);
        let common = issued(|params| {
            params.subject_alt_names.clear();
            params.distinguished_name.push(DnType::CommonName, "db\n.example");
        });
        assert_says(&common, &["for \"db\\n.example\"", "as \"localhost\""]);
        let client = issued(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth]);
        assert_says(&client, &["extended key usage", "serverAuth"]);
        let authority_itself = issued(|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
        assert_says(&authority_itself, &["CA:TRUE", "issue one with CA:FALSE", "tls.server.ca_file"]);
        let (trusted, _) = authority();
        let (_, foreign) = authority();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        let namesake = params.signed_by(&key, &foreign).unwrap();
        assert_says(&refused(&trusted, namesake.der()), &["not by the key of the authority that it names"]);
        let alone = params.self_signed(&key).unwrap();
        assert_says(&refused(&trusted, alone.der()), &["no authority in tls.server.ca_file has issued it"]);
    }

    #[test]
    fn every_other_failure_is_in_plain_words_too() {
        let certificate = [
            CertificateError::BadEncoding,
            CertificateError::Expired,
            CertificateError::NotValidYet,
            CertificateError::Revoked,
            CertificateError::UnhandledCriticalExtension,
            CertificateError::UnknownIssuer,
            CertificateError::UnknownRevocationStatus,
            CertificateError::ExpiredRevocationList,
            CertificateError::BadSignature,
            CertificateError::UnsupportedSignatureAlgorithmContext {
                signature_algorithm_id: Vec::new(),
                supported_algorithms: Vec::new(),
            },
            CertificateError::NotValidForName,
            CertificateError::InvalidPurpose,
            CertificateError::InvalidOcspResponse,
            CertificateError::ApplicationVerificationFailure,
            CertificateError::Other(OtherError(Arc::new(io::Error::other("x")))),
        ];
        let mut errors: Vec<Error> = certificate.into_iter().map(Error::InvalidCertificate).collect();
        let incompatible = [
            PeerIncompatible::EcPointsExtensionRequired,
            PeerIncompatible::ExtendedMasterSecretExtensionRequired,
            PeerIncompatible::NoCipherSuitesInCommon,
            PeerIncompatible::NoKxGroupsInCommon,
            PeerIncompatible::NoSignatureSchemesInCommon,
            PeerIncompatible::ServerDoesNotSupportTls12Or13,
            PeerIncompatible::Tls12NotOfferedOrEnabled,
        ];
        errors.extend(incompatible.into_iter().map(Error::PeerIncompatible));
        errors.extend((0..=255).map(|number| Error::AlertReceived(AlertDescription::from(number))));
        errors.extend([
            Error::InappropriateMessage { expect_types: Vec::new(), got_type: rustls::ContentType::Alert },
            Error::InvalidMessage(InvalidMessage::InvalidContentType),
            Error::InvalidMessage(InvalidMessage::MissingData("ServerName")),
            Error::NoCertificatesPresented,
            Error::DecryptError,
            Error::PeerMisbehaved(PeerMisbehaved::MissingKeyShare),
            Error::PeerSentOversizedRecord,
            Error::NoApplicationProtocol,
            Error::FailedToGetRandomBytes,
            Error::General("a\nb".into()),
        ]);
        for error in &errors {
            for with in [With::Client, With::Server, With::Directory, With::Either] {
                let text = reason(error, with);
                assert_is_plain(&text);
                assert!(!text.is_empty() && !text.ends_with(['.', ' ']), "{text}");
            }
        }
        let said = |error, with, words: &[&str]| assert_says(&reason(&error, with), words);
        said(Error::InvalidMessage(InvalidMessage::InvalidContentType), With::Client, &["client", "plain text"]);
        said(PeerIncompatible::Tls12NotOfferedOrEnabled.into(), With::Client, &["[tls.client]", "protocols"]);
        said(PeerIncompatible::NoCipherSuitesInCommon.into(), With::Server, &["[tls.server]", "ciphers"]);
        said(Error::AlertReceived(AlertDescription::UnknownCA), With::Client, &["sslrootcert"]);
        said(Error::NoCertificatesPresented, With::Client, &["tls.client.mode", "sslcert"]);
        said(PeerMisbehaved::MissingKeyShare.into(), With::Server, &["missing key share"]);
    }

    #[test]
    fn errors_of_streams_are_explained_too() {
        let tls = io::Error::new(io::ErrorKind::InvalidData, Error::NoCertificatesPresented);
        assert_eq!(in_words(tls, With::Directory).to_string(), "the LDAP server sent no certificate");
        let socket = io::Error::from(io::ErrorKind::ConnectionReset);
        assert_eq!(in_words(socket, With::Server).kind(), io::ErrorKind::ConnectionReset);
    }
}
