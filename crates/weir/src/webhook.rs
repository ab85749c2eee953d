//! Sends the messages of alerts: one request each, with limits on time and bytes.
//!
//! Must not know what a message says, nor when it is due.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};
use weir_web::{SendWebhook, WebhookRequest};

use crate::events::trusted;

/// How long a request may take, with its answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The sender. It trusts the certificates that this machine trusts, and follows no redirection: an address is a secret.
pub(crate) fn sender() -> SendWebhook {
    // Certificates are read when the first message is sent.
    let agent = OnceLock::new();
    Arc::new(move |request| send(agent.get_or_init(agent_of_this_machine), request))
}

fn agent_of_this_machine() -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .root_certs(RootCerts::new_with_certs(&trusted()));
    // Messages are rare: no connection is kept between them.
    let config = Agent::config_builder().timeout_global(Some(TIMEOUT)).max_redirects(0).max_idle_connections(0);
    config.tls_config(tls.build()).http_status_as_error(false).build().into()
}

fn send(agent: &Agent, request: &WebhookRequest) -> Result<u16, String> {
    let answer = agent.post(&request.url).header("Content-Type", "application/json").send(request.body.as_bytes());
    answer.map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
}
