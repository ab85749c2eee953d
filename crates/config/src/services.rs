//! What is sent to other services: alerts, telemetry, and etcd's requests. Owns which addresses of them can't work; knows
//! nothing of how requests are made.

use weir_auth::is_safe_url;

use crate::model::{Alerts, Cluster, Telemetry};
use crate::origin::is_reference;

impl Telemetry {
    /// Settings that can't work or are unsafe: the setting, the mistake, and what to do.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String, &'static str)> {
        let Some(endpoint) = &self.endpoint else { return Vec::new() };
        let mut found = Vec::new();
        if !is_http(endpoint) {
            let text = "otlp_endpoint must be an http:// or https:// address".to_owned();
            found.push(("otlp_endpoint", text, "OTLP over HTTP has port 4318 usually"));
        } else if !self.headers.is_empty() && !is_safe_url(endpoint) {
            let text = "headers with secrets are sent over https only, or on this machine".to_owned();
            found.push(("otlp_headers", text, "give an https:// address as otlp_endpoint"));
        }
        let refers = |header: &String| header.split_once('=').is_some_and(|(_, value)| is_reference(value));
        if !self.headers.iter().all(refers) {
            let text = "otlp_headers must be NAME=env:VARIABLE or NAME=file:/PATH each".to_owned();
            found.push(("otlp_headers", text, "put the value into a file that only Weir's user can read"));
        }
        if !self.resource.iter().all(|attribute| attribute.contains('=')) {
            found.push((
                "resource",
                "resource must have KEY=VALUE each".to_owned(),
                "as in deployment.environment=prod",
            ));
        }
        found
    }
}

impl Cluster {
    /// Settings that can't work: the setting, the mistake, and what to do.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String, &'static str)> {
        match self.etcd.iter().all(|address| is_http(address)) {
            true => Vec::new(),
            false => {
                let text = "etcd must be http:// or https:// addresses".to_owned();
                vec![("etcd", text, "as in [\"http://10.0.0.1:2379\"]: etcd's port is 2379 usually")]
            }
        }
    }
}

impl Alerts {
    /// The targets that are set, by the names of their settings.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let all = [
            ("alertmanager", &self.alertmanager),
            ("slack", &self.slack),
            ("pagerduty_key", &self.pagerduty_key),
            ("webhook", &self.webhook),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?)))
    }

    /// Settings that can't work: the setting, the mistake, and what to do. An address may be a secret, and is not shown.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String, &'static str)> {
        let addresses = self.targets().filter(|(name, value)| *name != "pagerduty_key" && !is_reference(value));
        let addresses = addresses.chain([("pagerduty_url", self.pagerduty_url.as_str())]);
        let unfit = addresses.filter(|(_, value)| !is_http(value));
        let hint = "as in http://127.0.0.1:9093, or say where it is: env:NAME, file:/PATH";
        unfit.map(|(name, _)| (name, format!("{name} must be an http:// or https:// address"), hint)).collect()
    }
}

/// Whether a request can be sent to an address.
fn is_http(address: &str) -> bool {
    let rest = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://"));
    rest.is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte > b' '))
}
