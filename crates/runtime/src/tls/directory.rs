//! Encryption to LDAP servers: by the system's own settings for LDAP, and not by those for PostgreSQL's servers.

use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use weir_base::Host;
use weir_config::{SslMode, TlsSide};

use super::identity;
use super::step::server_name;
use super::suites;
use super::verify::{Trust, Verification, Verifier};

/// What a handshake with an LDAP server goes by, and the name that its certificate must be for. With `verify`, the
/// certificate must lead to one of `ca_file`, or of the authorities that this machine trusts.
///
/// # Errors
/// One line: the file can't be used, or no certificate can be for the host.
pub(crate) fn to_directory(
    host: &str,
    verify: bool,
    ca_file: Option<&Path>,
) -> Result<(Arc<ClientConfig>, ServerName<'static>), String> {
    let asked = match (verify, ca_file) {
        (false, _) => Verification::Nothing,
        (true, Some(file)) => {
            let (roots, exact) = identity::roots(file)?;
            Verification::TrustedFor(Arc::new(Trust { roots, exact }))
        }
        (true, None) => Verification::TrustedFor(Arc::new(Trust { roots: of_this_machine(), exact: Vec::new() })),
    };
    let side = TlsSide::default();
    let provider = Arc::new(suites::provider(&side)?);
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&suites::versions(side.protocols))
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::new(asked, &provider))
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    let mode = if verify { SslMode::VerifyFull } else { SslMode::Require };
    Ok((Arc::new(config), server_name(&Host::parse(host), mode)?))
}

fn of_this_machine() -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    roots
}
