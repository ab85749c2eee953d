//! Sends requests to other machines: one connection each, with limits on time and bytes.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use crate::files::read_ordinary;
use crate::request::{HttpAnswer, HttpMethod, HttpRequest, SendHttp};

/// A longer file, in bytes, has no certificates.
const LONGEST_PEM: u64 = 16 << 20;

/// The sender. It trusts the certificates that this machine trusts, or those of the request's file, and follows no
/// redirection: an address may be a secret.
pub fn sender() -> SendHttp {
    // Certificates are read when the first encrypted request is sent. Those of a file are read for each: it may have
    // changed.
    let (usual, plain) = (OnceLock::new(), OnceLock::new());
    Arc::new(move |request| match &request.ca_file {
        _ if !request.url.starts_with("https:") => send(plain.get_or_init(|| agent(&[])), request),
        None => send(usual.get_or_init(|| agent(&trusted())), request),
        Some(file) => send(&agent(&read_authorities(file)?), request),
    })
}

/// The machine's trusted certificates, without those that can't be read.
pub fn trusted() -> Vec<Certificate<'static>> {
    let found = rustls_native_certs::load_native_certs().certs;
    found.iter().map(|certificate| Certificate::from_der(certificate).to_owned()).collect()
}

/// The certificates of a PEM file.
///
/// # Errors
/// They can't be read: which file, and why.
pub fn read_authorities(file: &Path) -> Result<Vec<Certificate<'static>>, String> {
    let failed = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let text = read_ordinary(file, LONGEST_PEM).map_err(|error| failed(&error))?;
    let certificate = |item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(failed(&error))),
    };
    let all: Vec<_> = parse_pem(&text).filter_map(certificate).collect::<Result<_, _>>()?;
    if all.is_empty() { Err(failed(&"there is no certificate in it")) } else { Ok(all) }
}

/// Encryption with a receiver whose certificate chains to one of these.
pub fn tls(roots: &[Certificate<'static>]) -> TlsConfig {
    TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
        .root_certs(RootCerts::new_with_certs(roots))
        .build()
}

fn agent(roots: &[Certificate<'static>]) -> Agent {
    // Requests are rare: no connection is kept between them.
    let config = Agent::config_builder().max_redirects(0).max_idle_connections(0);
    config.tls_config(tls(roots)).http_status_as_error(false).build().into()
}

fn send(agent: &Agent, request: &HttpRequest) -> Result<HttpAnswer, String> {
    let failed = |error| failed(error, request.timeout, request.longest);
    let answer = match request.method {
        HttpMethod::Get => call(agent.get(&request.url), request, ureq::RequestBuilder::call),
        HttpMethod::Post => call(agent.post(&request.url), request, |with| with.send(&*request.body)),
        HttpMethod::Put => call(agent.put(&request.url), request, |with| with.send(&*request.body)),
    };
    let mut answer = answer.map_err(failed)?;
    let status = answer.status().as_u16();
    if request.longest == 0 {
        return Ok(HttpAnswer { status, body: Vec::new() });
    }
    let body = answer.body_mut().with_config().limit(request.longest).read_to_vec().map_err(failed)?;
    Ok(HttpAnswer { status, body })
}

fn call<B, T>(
    with: ureq::RequestBuilder<B>,
    request: &HttpRequest,
    send: impl FnOnce(ureq::RequestBuilder<B>) -> T,
) -> T {
    let config = with.config().timeout_global(Some(request.timeout));
    let with = if request.is_direct { config.proxy(None) } else { config }.build();
    send(request.headers.iter().fold(with, |with, (name, value)| with.header(name, value)))
}

fn failed(error: ureq::Error, timeout: Duration, longest: u64) -> String {
    match error {
        ureq::Error::Timeout(_) => format!("no complete answer within {} s", timeout.as_secs_f64()),
        ureq::Error::BodyExceedsLimit(_) if longest < 1 << 20 => {
            format!("the answer is larger than {} KiB", longest >> 10)
        }
        ureq::Error::BodyExceedsLimit(_) => format!("the answer is larger than {} MiB", longest >> 20),
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
    fn failure(head: &'static str, longest: u64) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(head.as_bytes());
            while stream.write_all(&[b'x'; 4096]).is_ok() {}
        });
        sender()(&HttpRequest { longest, ..HttpRequest::get(&url) }).map(|_| ()).unwrap_err()
    }

    #[test]
    fn an_answer_without_end_is_given_up_in_words_that_an_operator_understands() {
        assert_eq!(failure("HTTP/1.1 200 OK\r\n\r\n", 1 << 20), "the answer is larger than 1 MiB");
        assert_eq!(failure("HTTP/1.1 200 OK\r\n\r\n", 1 << 16), "the answer is larger than 64 KiB");
        assert!(failure("HTTP/1.1 200 OK\r\nX-A: ", 1 << 20).starts_with("response header is too big"));
    }

    #[test]
    fn an_answer_that_does_not_come_is_waited_for_no_longer_than_the_request_allows() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let request = HttpRequest { timeout: Duration::from_millis(200), ..HttpRequest::put(&url) };
        let error = sender()(&request).map(|_| ()).unwrap_err();
        assert_eq!(error, "no complete answer within 0.2 s");
    }

    #[test]
    fn a_pipe_in_the_place_of_the_authorities_is_an_error() {
        let file = std::env::temp_dir().join(format!("weir-authorities-{}", std::process::id()));
        nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let request = HttpRequest { ca_file: Some(file.clone()), ..HttpRequest::get("https://127.0.0.1:1/") };
        let refused = sender()(&request).map(|_| ()).unwrap_err();
        std::fs::remove_file(&file).unwrap();
        assert_eq!(refused, format!("{}: not a regular file", file.display()));
    }
}
