//! What is sent to other services, alerts and telemetry: which settings of them can't work together, and which targets are
//! set.

use weir_auth::is_safe_url;

use crate::model::{Alerts, Telemetry};
use crate::origin::is_reference;

impl Telemetry {
    /// Settings that can't work or are unsafe: the setting, the mistake, and what to do.
    pub(crate) fn mistakes(&self) -> Vec<(&'static str, String, &'static str)> {
        let Some(endpoint) = &self.endpoint else { return Vec::new() };
        let mut found = Vec::new();
        if !self.headers.is_empty() && !is_safe_url(endpoint) {
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
}
