//! Sends the control plane's requests to other machines: one connection each, with limits on time and bytes.
//!
//! Must not know what a request says, nor when it is due.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use weir_config::PatroniQuestion;
use weir_monitor::{HttpAnswer, HttpRequest, SendHttp};
use weir_runtime::AskPatroni;

use crate::events::{read_authorities, trusted};

/// How long a request may take, with its answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How long Patroni may take to answer; it looks at its PostgreSQL before.
const PATRONI_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest answer, in bytes.
const LONGEST: u64 = 1 << 20;

/// The sender. It trusts the certificates that this machine trusts, or those of the request's file, and follows no
/// redirection: an address may be a secret.
pub(crate) fn sender() -> SendHttp {
    // Certificates are read when the first request is sent. Those of a file are read for each: it may have changed.
    let usual = OnceLock::new();
    Arc::new(move |request| match &request.ca_file {
        None => send(usual.get_or_init(|| agent(&trusted(), TIMEOUT)), request),
        Some(file) => send(&agent(&read_authorities(file)?, TIMEOUT), request),
    })
}

/// Asks Patroni: only the status counts, and nothing else is read.
pub(crate) fn ask_patroni() -> AskPatroni {
    let usual = OnceLock::new();
    Arc::new(move |question| match &question.ca_file {
        // Authorities are read only if they are needed.
        _ if !question.url.starts_with("https:") => status(&agent(&[], PATRONI_TIMEOUT), question),
        None => status(usual.get_or_init(|| agent(&trusted(), PATRONI_TIMEOUT)), question),
        Some(file) => status(&agent(&read_authorities(file)?, PATRONI_TIMEOUT), question),
    })
}

fn status(agent: &Agent, question: &PatroniQuestion) -> Result<u16, String> {
    match agent.get(&question.url).call() {
        Ok(answer) => Ok(answer.status().as_u16()),
        Err(ureq::Error::Timeout(_)) => Err(format!("no answer within {} s", PATRONI_TIMEOUT.as_secs())),
        Err(error) => Err(error.to_string()),
    }
}

fn agent(roots: &[Certificate<'static>], timeout: Duration) -> Agent {
    let tls = TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .root_certs(RootCerts::new_with_certs(roots));
    // Requests are rare: no connection is kept between them.
    let config = Agent::config_builder().timeout_global(Some(timeout)).max_redirects(0).max_idle_connections(0);
    config.tls_config(tls.build()).http_status_as_error(false).build().into()
}

fn send(agent: &Agent, request: &HttpRequest) -> Result<HttpAnswer, String> {
    let mut answer = match &request.body {
        Some(body) => {
            let with = agent.post(&request.url);
            request.headers.iter().fold(with, |with, (name, value)| with.header(name, value)).send(body.as_slice())
        }
        None => {
            let with = agent.get(&request.url);
            request.headers.iter().fold(with, |with, (name, value)| with.header(name, value)).call()
        }
    }
    .map_err(failed)?;
    let status = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(LONGEST).read_to_vec().map_err(failed)?;
    Ok(HttpAnswer { status, body })
}

fn failed(error: ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("no complete answer within {} s", TIMEOUT.as_secs()),
        ureq::Error::BodyExceedsLimit(_) => format!("the answer is larger than {} MiB", LONGEST >> 20),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What a request fails with, if the receiver sends this head and then as many bytes as are taken.
    fn failure(head: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
        sender()(&HttpRequest { url, ..HttpRequest::default() }).unwrap_err()
    }

    #[test]
    fn an_answer_without_end_is_given_up_in_words_that_an_operator_understands() {
        assert_eq!(failure("HTTP/1.1 200 OK\r\n\r\n"), "the answer is larger than 1 MiB");
        assert!(failure("HTTP/1.1 200 OK\r\nX-A: ").starts_with("response header is too big"));
        assert_eq!(failed(ureq::Error::Timeout(ureq::Timeout::Global)), "no complete answer within 10 s");
    }

    #[test]
    fn a_pipe_in_the_place_of_the_authorities_is_an_error() {
        let file = std::env::temp_dir().join(format!("weir-authorities-{}", std::process::id()));
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let request =
            HttpRequest { url: "https://127.0.0.1:1/".into(), ca_file: Some(file.clone()), ..Default::default() };
        let refused = sender()(&request).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(refused, format!("{}: not a regular file", file.display()));
    }
}
