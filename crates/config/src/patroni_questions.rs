//! What Patroni is asked about the hosts of a pool (Patroni's documentation, "Health check endpoints").

use std::borrow::Cow;

use crate::model::{PoolConfig, SessionAttrs};
use crate::patroni::{Patroni, PatroniQuestion};

impl PoolConfig {
    /// What Patroni is asked about the pool's hosts, in their order; nothing if the pool takes any host.
    pub fn patroni_questions(&self) -> impl Iterator<Item = PatroniQuestion> {
        let Patroni { api, ca_file, .. } = &*self.patroni;
        self.patroni_path().into_iter().flat_map(move |path| {
            api.iter().map(move |api| PatroniQuestion { url: format!("{api}{path}"), ca_file: ca_file.clone() })
        })
    }

    /// The host that this question to Patroni is about, if the pool wants to know.
    pub fn asks_patroni(&self, question: &PatroniQuestion) -> Option<usize> {
        let Patroni { api, ca_file, .. } = &*self.patroni;
        let path = self.patroni_path().filter(|_| !api.is_empty() && *ca_file == question.ca_file)?;
        api.iter().position(|api| question.url.strip_prefix(api.as_str()) == Some(&path))
    }

    fn patroni_path(&self) -> Option<Cow<'static, str>> {
        Some(match self.session_attrs {
            SessionAttrs::Any => return None,
            SessionAttrs::ReadWrite | SessionAttrs::Primary => "/primary".into(),
            SessionAttrs::ReadOnly | SessionAttrs::Standby | SessionAttrs::PreferStandby => {
                match self.patroni.max_lag {
                    0 => "/replica".into(),
                    lag => format!("/replica?lag={lag}").into(),
                }
            }
        })
    }
}
