//! The TLS contexts: the configuration's files and modes, prepared for handshakes.
//!
//! A set of contexts is made from the files as they are at that moment, all or none. Connections keep the contexts
//! that they began with. Clients may resume sessions by tickets; there is no cache to bound. With servers no session is
//! resumed: PostgreSQL has none.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::server::NoServerSessionStorage;
use rustls::{ClientConfig, ServerConfig};
use sha2::{Digest, Sha256};
use weir_config::{Auth, Config, SslMode, TlsSide};

use super::identity::{self, Identity};
use super::setting_names::{SettingNames, TlsFault};
use super::suites;
use super::tickets::{ProcessKey, Tickets};
use super::verify::{Trust, Verification, Verifier};
use super::verify_client::ClientVerifier;

/// The protocol that PostgreSQL registered for ALPN.
const ALPN: &[u8] = b"postgresql";

/// The context for handshakes with clients.
#[derive(Debug)]
pub(crate) struct Accept {
    pub(crate) config: Arc<ServerConfig>,
    /// The hash of our certificate for the channel binding of SCRAM-SHA-256-PLUS.
    pub(crate) binding: Option<Vec<u8>>,
    /// The rules for clients' certificates, which a resumed session has to pass again: its certificate may have expired.
    pub(super) verifier: Option<Arc<ClientVerifier>>,
}

/// The contexts for handshakes with servers: one for each of the two ways to begin.
#[derive(Debug)]
pub(crate) struct Connect {
    after_request: Arc<ClientConfig>,
    direct: Arc<ClientConfig>,
}

/// All contexts of a configuration.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    accept: Option<Arc<Accept>>,
    unverified: Option<Connect>,
    trusted: Option<Connect>,
    trusted_for: Option<Connect>,
}

impl Contexts {
    /// Reads a configuration's files. An error is one line, with the file and what to do.
    pub(crate) fn load(config: &Config, process_key: &ProcessKey) -> Result<Contexts, TlsFault> {
        Ok(Contexts { accept: Contexts::to_clients(config, process_key)?, ..Contexts::to_servers(config)? })
    }

    /// The errors in the files, of both sides.
    pub(crate) fn faults(config: &Config) -> Vec<TlsFault> {
        let (clients, servers) = (Contexts::to_clients(config, &ProcessKey::default()), Contexts::to_servers(config));
        clients.err().into_iter().chain(servers.err()).collect()
    }

    fn to_clients(config: &Config, process_key: &ProcessKey) -> Result<Option<Arc<Accept>>, TlsFault> {
        let client = &config.tls.client;
        let names = SettingNames::new(config, "client");
        let make = || accept(client, &config.auth, names, process_key.clone()).map(Arc::new);
        client.is_available().then(make).transpose()
    }

    /// Reads the files for connections to servers only.
    pub(crate) fn to_servers(config: &Config) -> Result<Contexts, TlsFault> {
        let (mut contexts, server) = (Contexts::default(), &config.tls.server);
        if server.is_available() {
            let names = SettingNames::new(config, "server");
            let provider = provider(server, names)?;
            let own = identity::own(server, &provider, names)?;
            let trust = match &server.ca_file {
                Some(file) => Some(Arc::new(trust(file, names)?)),
                None if verifies(server.mode) => {
                    let (mode, ca_file) = (server.mode, names.of("ca_file"));
                    let text = format!("{mode} needs an authority to verify the server by: set {ca_file}");
                    return Err(names.fault("mode", text));
                }
                None => None,
            };
            let make = |required| connect(server, names, &provider, required, own.as_ref());
            contexts.unverified = Some(make(Verification::Nothing)?);
            if let Some(trust) = trust {
                contexts.trusted = Some(make(Verification::Trusted(trust.clone()))?);
                contexts.trusted_for = Some(make(Verification::TrustedFor(trust))?);
            }
        }
        Ok(contexts)
    }

    /// For a client; `None` if TLS for clients is off.
    pub(crate) fn accept(&self) -> Option<Arc<Accept>> {
        self.accept.clone()
    }

    /// For a server; `None` if TLS for servers, or this way to begin, is off.
    pub(crate) fn connect(&self, mode: SslMode, direct: bool) -> Option<Arc<ClientConfig>> {
        let connect = match mode {
            SslMode::VerifyFull => self.trusted_for.as_ref(),
            SslMode::VerifyCa => self.trusted.as_ref(),
            _ => self.unverified.as_ref(),
        }?;
        Some(if direct { connect.direct.clone() } else { connect.after_request.clone() })
    }
}

/// Whether a mode verifies the other side's certificate.
pub(crate) fn verifies(mode: SslMode) -> bool {
    matches!(mode, SslMode::VerifyCa | SslMode::VerifyFull)
}

fn provider(side: &TlsSide, names: SettingNames) -> Result<Arc<CryptoProvider>, TlsFault> {
    suites::provider(side).map(Arc::new).map_err(|error| names.error("ciphers", error))
}

fn trust(file: &std::path::Path, names: SettingNames) -> Result<Trust, TlsFault> {
    let (roots, exact) = identity::roots(file).map_err(|error| names.error("ca_file", error))?;
    Ok(Trust { roots, exact })
}

fn accept(side: &TlsSide, auth: &Auth, names: SettingNames, process_key: ProcessKey) -> Result<Accept, TlsFault> {
    let provider = provider(side, names)?;
    let needs = |what: &str| names.fault("mode", format!("{} = {} needs {what}", names.of("mode"), side.mode));
    let Some(own) = identity::own(side, &provider, names)? else {
        return Err(needs(&format!("{} and {}; set both", names.of("key_file"), names.of("cert_file"))));
    };
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&suites::versions(side.protocols))
        .map_err(|error| names.error("protocols", error))?;
    let mut accepted_by = accepted_by(side, auth, &own);
    let mut verifier = None;
    let builder = match &side.ca_file {
        None if verifies(side.mode) => return Err(needs(&format!("{}; set it", names.of("ca_file")))),
        None => builder.with_no_client_auth(),
        Some(file) => {
            // A certificate that is given is verified in each mode; the modes that verify also want one.
            let fault = |error| names.error("ca_file", error);
            let roots = identity::roots(file).map_err(fault)?;
            roots.1.iter().for_each(|certificate| accepted_by.update(certificate));
            let made = ClientVerifier::new(roots, provider, verifies(side.mode));
            let made = made.map_err(|error| fault(format!("{}: {error}", file.display())))?;
            verifier = Some(made.clone());
            builder.with_client_cert_verifier(made)
        }
    };
    let mut config = builder.with_cert_resolver(own.presented);
    config.alpn_protocols = vec![ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    config.ticketer = Arc::new(Tickets::new(process_key, accepted_by.finalize().into()));
    // A process that takes over continues with the keys.
    config.enable_secret_extraction = true;
    Ok(Accept { config: Arc::new(config), binding: own.binding, verifier })
}

/// A hash of what a session is accepted by, apart from the authorities.
fn accepted_by(side: &TlsSide, auth: &Auth, own: &Identity) -> Sha256 {
    let rules = (side.mode, side.protocols, &side.ciphers, &side.tls13_ciphers, auth.method, &auth.hba, &auth.ident);
    own.chain.iter().fold(Sha256::new(), Sha256::chain_update).chain_update(format!("{rules:?}"))
}

fn connect(
    side: &TlsSide,
    names: SettingNames,
    provider: &Arc<CryptoProvider>,
    required: Verification,
    own: Option<&Identity>,
) -> Result<Connect, TlsFault> {
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&suites::versions(side.protocols))
        .map_err(|error| names.error("protocols", error))?
        .dangerous()
        .with_custom_certificate_verifier(Verifier::new(required, provider));
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(own.presented.clone()),
        None => builder.with_no_client_auth(),
    };
    config.resumption = Resumption::disabled();
    config.enable_secret_extraction = true;
    let after_request = Arc::new(config.clone());
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(Connect { after_request, direct: Arc::new(config) })
}

/// The keys and certificates of a configuration, ready for handshakes.
#[derive(Clone, Debug, Default)]
pub struct TlsFiles(pub(crate) Arc<TlsContexts>);

impl TlsFiles {
    /// Reads a configuration's files.
    ///
    /// # Errors
    /// One line with the file or the setting, and what to do.
    pub fn load(config: &Config) -> Result<TlsFiles, String> {
        let process_key = ProcessKey::default();
        let now = Arc::new(Contexts::load(config, &process_key)?);
        Ok(TlsFiles(Arc::new(TlsContexts { held: Mutex::new(Held { now, next: None }), process_key })))
    }

    /// Reads the files of a configuration that is about to be adopted: handshakes use them from then on.
    ///
    /// # Errors
    /// One line; nothing changes then.
    pub fn prepare(&self, config: &Config) -> Result<(), String> {
        let contexts =
            Contexts::load(config, &self.0.process_key).map_err(|fault| format!("TLS setup failed: {}", fault.text))?;
        self.0.held().next = Some((config.tls.clone(), Arc::new(contexts)));
        Ok(())
    }

    /// A configuration with its pending settings of encryption in force, which has been [prepared](TlsFiles::prepare).
    pub(crate) fn apply(&self, config: &Config) -> Result<Arc<Config>, String> {
        let config = weir_config::apply_tls(config)?;
        self.prepare(&config)?;
        Ok(Arc::new(config))
    }
}

/// The contexts in force, and those of a prepared configuration that is not adopted yet.
#[derive(Debug, Default)]
pub(crate) struct TlsContexts {
    held: Mutex<Held>,
    /// From which tickets' keys follow.
    pub(crate) process_key: ProcessKey,
}

#[derive(Debug, Default)]
struct Held {
    now: Arc<Contexts>,
    next: Option<(weir_config::Tls, Arc<Contexts>)>,
}

impl TlsContexts {
    /// The contexts in force.
    pub(crate) fn now(&self) -> Arc<Contexts> {
        self.held().now.clone()
    }

    /// A configuration is in force, and with it the contexts that were prepared for such settings.
    pub(crate) fn apply_config(&self, config: &Config) {
        let mut held = self.held();
        if let Some((_, contexts)) = held.next.take_if(|(next, _)| *next == config.tls) {
            held.now = contexts;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
