//! Requests that leave the process: to targets of alerts, to a provider of single sign-on, to a collector of
//! metrics. The program provides the function that sends them.

use std::path::PathBuf;
use std::sync::Arc;

/// A request to another machine: a POST with a body, a GET without one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HttpRequest {
    /// The address.
    pub url: String,
    /// Names and values of the request's headers.
    pub headers: Vec<(String, String)>,
    /// What is posted.
    pub body: Option<Vec<u8>>,
    /// The authorities for the receiver's certificate, PEM; none: those of this machine.
    pub ca_file: Option<PathBuf>,
}

/// The answer, whatever its status.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The body, of at most a mebibyte.
    pub body: Vec<u8>,
}

/// Sends a request, and returns the answer, or why there is none. Blocks, with a timeout of its own; follows no
/// redirection.
pub type SendHttp = Arc<dyn Fn(&HttpRequest) -> Result<HttpAnswer, String> + Send + Sync>;

impl HttpRequest {
    /// A GET.
    pub fn get(url: &str) -> HttpRequest {
        HttpRequest { url: url.to_owned(), ..HttpRequest::default() }
    }

    /// A POST of a body of this type.
    pub fn post(url: &str, content_type: &str, body: Vec<u8>) -> HttpRequest {
        let headers = vec![("Content-Type".to_owned(), content_type.to_owned())];
        HttpRequest { url: url.to_owned(), headers, body: Some(body), ca_file: None }
    }
}
