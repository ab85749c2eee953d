//! The API's stream of events: its address, its token, and the trusted certificates.
//!
//! Must not know the content of an event.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;

use ureq::Agent;
use weir_fetch::{read_authorities, tls, trusted};

/// The environment variable with a token, for an API with logins: other users can read a process's arguments.
const TOKEN: &str = "WEIR_TOKEN";
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
            config = config.tls_config(tls(&roots));
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
