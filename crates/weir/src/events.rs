//! The API's stream of events: its address, its token, and the trusted certificates.
//!
//! Must not know the content of an event.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

/// The environment variable with a token, for an API with logins: other users can read a process's arguments.
const TOKEN: &str = "WEIR_TOKEN";
/// A longer file, in bytes, has no certificates.
const LONGEST_PEM: u64 = 16 << 20;
/// How long a connect may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A source of events.
pub(crate) struct Stream {
    agent: Agent,
    url: String,
}

impl Stream {
    /// A stream from this address; with https, its certificate must chain to one in `ca_file`, or to one that this
    /// machine trusts. An error is one line, with what to do.
    pub(crate) fn new(url: &str, ca_file: Option<&Path>) -> Result<Stream, String> {
        let mut config = Agent::config_builder().timeout_connect(Some(TIMEOUT));
        if url.starts_with("https:") {
            let of_file = |file: &Path| read_authorities(file).map_err(|why| format!("{why}; change --ca-file"));
            let roots = ca_file.map_or_else(|| Ok(trusted()), of_file)?;
            let tls = TlsConfig::builder()
                .provider(TlsProvider::Rustls)
                .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
                .root_certs(RootCerts::new_with_certs(&roots));
            config = config.tls_config(tls.build());
        }
        Ok(Stream { agent: config.build().into(), url: url.to_owned() })
    }

    /// Requests the events.
    pub(crate) fn open(&self) -> Result<impl BufRead + use<>, String> {
        let mut request = self.agent.get(&self.url);
        if let Ok(token) = std::env::var(TOKEN) {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answer = request.call().map_err(|error| error.to_string())?;
        Ok(BufReader::new(answer.into_body().into_reader()))
    }
}

/// The machine's trusted certificates, without those that can't be read.
pub(crate) fn trusted() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs().certs;
    found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}

/// The certificates of a PEM file; an error says which file.
pub(crate) fn read_authorities(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let text = weir_runtime::read_ordinary(file, LONGEST_PEM).map_err(|error| failed(&error))?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(failed(&error))),
    };
    let all: Vec<_> = parse_pem(&text).filter_map(certificate).collect::<Result<_, _>>()?;
    if all.is_empty() { Err(failed(&"there is no certificate in it")) } else { Ok(all) }
}
