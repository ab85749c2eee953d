//! Encryption, towards clients and towards servers.

use crate::field::FieldMut;
use crate::kind::Kind;
use crate::model::SslMode;
use crate::table::Section::{TlsClient, TlsServer};
use crate::table::{Field, Setting};

pub(super) static SETTINGS: &[Setting] = &[
    Setting::new(
        TlsClient,
        "mode",
        Kind::Word(SslMode::WORDS),
        "disable",
        Field::Config(|c| FieldMut::SslMode(&mut c.tls.client.mode)),
        "Whether clients encrypt: with `allow` and `prefer` they may, with `require` they must; with `verify-ca` and \
         `verify-full` they must also send a certificate that chains to `ca_file`.",
    )
    .ini("client_tls_sslmode")
    .aliases(&["sslmode"]),
    Setting::new(
        TlsClient,
        "key_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.tls.client.key_file)),
        "Weir's private key, PEM.",
    )
    .ini("client_tls_key_file"),
    Setting::new(
        TlsClient,
        "cert_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.tls.client.cert_file)),
        "Weir's certificate and its chain, PEM. Read again at each reload.",
    )
    .ini("client_tls_cert_file"),
    Setting::new(
        TlsClient,
        "ca_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.tls.client.ca_file)),
        "The authorities for certificates of clients, PEM.",
    )
    .ini("client_tls_ca_file"),
    Setting::new(
        TlsClient,
        "protocols",
        Kind::Protocols,
        "secure",
        Field::Config(|c| FieldMut::Protocols(&mut c.tls.client.protocols)),
        "Versions of TLS: `secure` is `tlsv1.2,tlsv1.3`. Older versions are not supported.",
    )
    .ini("client_tls_protocols"),
    Setting::new(
        TlsClient,
        "ciphers",
        Kind::Text,
        "default",
        Field::Config(|c| FieldMut::Line(&mut c.tls.client.ciphers)),
        "Cipher suites of TLS 1.2, by OpenSSL's names. `weir check` lists the unsupported ones.",
    )
    .ini("client_tls_ciphers"),
    Setting::new(
        TlsClient,
        "tls13_ciphers",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Line(&mut c.tls.client.tls13_ciphers)),
        "Cipher suites of TLS 1.3. Default: all three.",
    )
    .ini("client_tls13_ciphers"),
    Setting::new(
        TlsServer,
        "mode",
        Kind::Word(SslMode::WORDS),
        "prefer",
        Field::Config(|c| FieldMut::SslMode(&mut c.tls.server.mode)),
        "As libpq's `sslmode`: `prefer` encrypts where the server can, `require` always; `verify-ca` also requires a \
         certificate that chains to `ca_file`, `verify-full` one that is also for the host's name.",
    )
    .ini("server_tls_sslmode")
    .aliases(&["sslmode"]),
    Setting::new(
        TlsServer,
        "direct",
        Kind::Flag,
        "false",
        Field::Config(|c| FieldMut::Flag(&mut c.tls.server.direct)),
        "Begins with the TLS handshake instead of asking the server for it, as libpq's `sslnegotiation=direct`: one round \
         trip less for each connection. Needs servers of PostgreSQL 17, and `mode` `require` or stricter.",
    )
    .ini_own("server_tls_direct"),
    Setting::new(
        TlsServer,
        "key_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.tls.server.key_file)),
        "The private key of Weir's certificate for servers, PEM.",
    )
    .ini("server_tls_key_file"),
    Setting::new(
        TlsServer,
        "cert_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.tls.server.cert_file)),
        "Weir's certificate for servers, PEM.",
    )
    .ini("server_tls_cert_file"),
    Setting::new(
        TlsServer,
        "ca_file",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Path(&mut c.tls.server.ca_file)),
        "The authorities for certificates of servers, PEM.",
    )
    .ini("server_tls_ca_file"),
    Setting::new(
        TlsServer,
        "protocols",
        Kind::Protocols,
        "secure",
        Field::Config(|c| FieldMut::Protocols(&mut c.tls.server.protocols)),
        "Versions of TLS: `secure` is `tlsv1.2,tlsv1.3`. Older versions are not supported.",
    )
    .ini("server_tls_protocols"),
    Setting::new(
        TlsServer,
        "ciphers",
        Kind::Text,
        "default",
        Field::Config(|c| FieldMut::Line(&mut c.tls.server.ciphers)),
        "Cipher suites of TLS 1.2, as OpenSSL names them.",
    )
    .ini("server_tls_ciphers"),
    Setting::new(
        TlsServer,
        "tls13_ciphers",
        Kind::Text,
        "",
        Field::Config(|c| FieldMut::Line(&mut c.tls.server.tls13_ciphers)),
        "Cipher suites of TLS 1.3. Default: all three.",
    )
    .ini("server_tls13_ciphers"),
];
