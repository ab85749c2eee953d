//! The certificate and the key of the control plane, from the configured files.

use std::sync::Arc;

use weir_config::Config;
use weir_runtime::StartError;
use weir_web::WebTls;

/// The certificate of the control plane, if configured.
pub(crate) fn web_tls(config: &Config) -> Result<Option<Arc<WebTls>>, StartError> {
    match (&config.web.tls_cert_file, &config.web.tls_key_file) {
        (Some(certificate), Some(key)) if !config.web.addresses.is_empty() => {
            let tls = WebTls::read(certificate, key).map_err(|error| StartError::new(error.to_string()))?;
            Ok(Some(Arc::new(tls)))
        }
        _ => Ok(None),
    }
}
