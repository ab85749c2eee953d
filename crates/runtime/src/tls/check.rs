//! Checks the TLS files: errors, and certificates that expire soon.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use weir_admin::{CertificateExpiry, CertificateUse};
use weir_config::{Config, ConfigFinding, Severity, SslMode, TlsSide};

use super::contexts::Contexts;
use super::identity::certificates;
use super::setting_names::TlsFault;
use super::x509::Certificate;

/// Certificates that expire sooner than this get a warning, in days.
const SOON: i64 = 30;
/// Seconds a day.
const DAY: i64 = 86_400;

/// Checks the keys and certificates of a configuration. Reads files; changes nothing.
pub fn check_tls(config: &Config) -> Vec<ConfigFinding> {
    let faults = Contexts::faults(config);
    if !faults.is_empty() {
        let error = |fault: TlsFault| ConfigFinding::of_key(Severity::Error, config, &fault.key, fault.text);
        return faults.into_iter().map(error).collect();
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let (client, server) = (&config.tls.client, &config.tls.server);
    let of = |side: &TlsSide, own, authority| match side.mode {
        SslMode::Disable => Vec::new(),
        _ => vec![(own, side.cert_file.clone()), (authority, side.ca_file.clone())],
    };
    let files = of(client, "tls.client.cert_file", "tls.client.ca_file")
        .into_iter()
        .chain(of(server, "tls.server.cert_file", "tls.server.ca_file"))
        .chain([("web.tls_cert_file", config.web.tls_cert_file.clone())]);
    let warning = |(key, file): (&str, Option<PathBuf>)| {
        Some(ConfigFinding::of_key(Severity::Warning, config, key, times(&file?, now)?))
    };
    files.filter_map(warning).collect()
}

/// When the certificates in use by a configuration expire. Reads their files; one that can't be read is left out.
pub fn certificate_expiries(config: &Config) -> Vec<CertificateExpiry> {
    let (client, server) = (&config.tls.client, &config.tls.server);
    let of = |side: &TlsSide, own, authority| match side.mode {
        SslMode::Disable => Vec::new(),
        _ => vec![(own, side.cert_file.clone()), (authority, side.ca_file.clone())],
    };
    let mut named = of(client, CertificateUse::Clients, CertificateUse::ClientAuthority);
    named.extend(of(server, CertificateUse::Servers, CertificateUse::ServerAuthority));
    named.push((CertificateUse::Panel, config.web.tls_cert_file.clone()));
    named.into_iter().filter_map(|(purpose, file)| expiry(purpose, &file?)).collect()
}

fn expiry(purpose: CertificateUse, file: &Path) -> Option<CertificateExpiry> {
    let all = certificates(file).ok()?;
    let first = Certificate::read(all.first()?)?;
    Some(CertificateExpiry { purpose, file: file.display().to_string(), expires: first.not_after })
}

/// The warning about the validity of a file's first certificate, if there is one.
fn times(file: &Path, now: i64) -> Option<String> {
    let all = certificates(file).ok()?;
    let first = Certificate::read(all.first()?)?;
    let name = first.common_name.as_deref().unwrap_or("without a name");
    let described = |what: &str| Some(format!("{}: the certificate of \"{name}\" {what}", file.display()));
    let left = (first.not_after - now) / DAY;
    match left {
        _ if now < first.not_before => described("does not hold yet; check the machine's clock"),
        _ if now > first.not_after => described("has expired; others will refuse it: renew it, and reload"),
        0 => described("expires within a day; renew it, and reload"),
        1 => described("expires tomorrow; renew it, and reload"),
        _ if left < SOON => described(&format!("expires in {left} days; renew it, and reload")),
        _ => None,
    }
}
