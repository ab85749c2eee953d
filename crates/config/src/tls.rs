//! Checks whether the TLS settings fit together.

use crate::model::{Config, SslMode, TlsSide};
use crate::origin::FileFormat;

/// A setting of TLS that can't work.
pub(crate) struct Unfit {
    /// The setting, by its dotted name.
    pub(crate) key: &'static str,
    pub(crate) message: String,
    pub(crate) hint: &'static str,
}

/// Checks both sides, and the control plane.
pub(crate) fn check(config: &Config) -> impl Iterator<Item = Unfit> {
    let (client, server) = (&config.tls.client, &config.tls.server);
    let versions = [("tls.client.protocols", client), ("tls.server.protocols", server)];
    let versions = versions.into_iter().filter_map(|(key, side)| check_versions(key, side, config.format));
    let suites = [("tls.client.ciphers", client), ("tls.server.ciphers", server)];
    let suites = suites.into_iter().filter_map(|(key, side)| check_suites(key, side));
    check_web(config).into_iter().chain(check_direct(config)).chain(versions).chain(suites).chain(check_client(config))
}

/// Checks `direct`: a connection that begins with a TLS handshake can't go on without TLS, so the mode has to require
/// it.
fn check_direct(config: &Config) -> Option<Unfit> {
    let server = &config.tls.server;
    if !server.direct || server.mode >= SslMode::Require {
        return None;
    }
    let message = format!("a TLS handshake at once needs mode require or stricter, not {}", server.mode);
    Some(Unfit { key: "tls.server.direct", message, hint: "set the mode to require or stricter, or leave it out" })
}

/// Checks that a list has a supported version. An ini may have a list of old versions only, where connections without
/// encryption are allowed: connections then have no encryption, with a warning.
fn check_versions(key: &'static str, side: &TlsSide, format: FileFormat) -> Option<Unfit> {
    let may_be_plain = format == FileFormat::Ini && side.mode < SslMode::Require;
    if !side.protocols.is_none() || may_be_plain {
        return None;
    }
    let message = "the protocols are only versions that are not supported: TLS 1.2 and 1.3 are".to_owned();
    Some(Unfit { key, message, hint: "use \"secure\", or a list of tlsv1.2 and tlsv1.3" })
}

fn check_suites(key: &'static str, side: &TlsSide) -> Option<Unfit> {
    let message = side.is_available().then(|| side.check_suites().err())??;
    Some(Unfit { key, message, hint: "use \"default\", or suites like ECDHE-RSA-AES256-GCM-SHA384" })
}

/// TLS for clients needs a certificate; verifying them needs an authority.
fn check_client(config: &Config) -> Option<Unfit> {
    let client = &config.tls.client;
    let names = match config.format {
        FileFormat::Toml => ["key_file", "cert_file", "ca_file"],
        FileFormat::Ini => ["client_tls_key_file", "client_tls_cert_file", "client_tls_ca_file"],
    };
    let [key, cert, ca] = names;
    let message = match (&client.key_file, &client.cert_file, &client.ca_file) {
        _ if client.mode == SslMode::Disable => return None,
        (None, _, _) | (_, None, _) => format!("To allow TLS connections from clients, {key} and {cert} must be set"),
        (_, _, None) if client.mode >= SslMode::VerifyCa => {
            format!("To verify the certificates of clients ({}), {ca} must be set", client.mode)
        }
        _ => return None,
    };
    let hint = match config.format {
        FileFormat::Toml => "name the missing file in [tls.client], in PEM, or set its mode to \"disable\"",
        FileFormat::Ini => "name the missing file, in PEM, or set client_tls_sslmode = disable",
    };
    Some(Unfit { key: "tls.client.mode", message, hint })
}

/// A certificate needs its key, and a key its certificate.
fn check_web(config: &Config) -> Option<Unfit> {
    let names = match config.format {
        FileFormat::Toml => ["tls_cert_file", "tls_key_file"],
        FileFormat::Ini => ["web_tls_cert_file", "web_tls_key_file"],
    };
    let [certificate, private] = names;
    let (key, there, missing) = match (&config.web.tls_cert_file, &config.web.tls_key_file) {
        (Some(_), None) => ("web.tls_cert_file", certificate, private),
        (None, Some(_)) => ("web.tls_key_file", private, certificate),
        (Some(_), Some(_)) | (None, None) => return None,
    };
    let message = format!("To encrypt the API, {missing} must be set beside {there}");
    Some(Unfit { key, message, hint: "set both, or neither" })
}
