//! A request to another machine and its answer, as values: who makes requests needs no client.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The longest answer, in bytes, where a request does not say.
const LONGEST: u64 = 1 << 20;
/// How long a request may take, with its answer, where it does not say.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum HttpMethod {
    /// Reads.
    #[default]
    Get,
    /// Sends a body.
    Post,
    /// Sends a body, which may be empty.
    Put,
}

/// A request to another machine.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpRequest {
    /// What it does.
    pub method: HttpMethod,
    /// The address.
    pub url: String,
    /// Names and values of the request's headers.
    pub headers: Vec<(String, String)>,
    /// What is sent by POST or PUT.
    pub body: Vec<u8>,
    /// The authorities for the receiver's certificate, PEM; none: those of this machine.
    pub ca_file: Option<PathBuf>,
    /// How long it may take, with its answer.
    pub timeout: Duration,
    /// The longest answer, in bytes; 0: only its status is read.
    pub longest: u64,
    /// It goes to the receiver itself, whatever proxy the environment names.
    pub is_direct: bool,
}

/// The answer, whatever its status.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpAnswer {
    /// The status.
    pub status: u16,
    /// The body, of at most as many bytes as the request allows.
    pub body: Vec<u8>,
}

/// Sends a request, and returns the answer, or why there is none. Blocks for as long as the request allows; follows no
/// redirection.
pub type SendHttp = Arc<dyn Fn(&HttpRequest) -> Result<HttpAnswer, String> + Send + Sync>;

impl HttpRequest {
    /// A GET.
    pub fn get(url: &str) -> HttpRequest {
        HttpRequest {
            method: HttpMethod::Get,
            url: url.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            ca_file: None,
            timeout: TIMEOUT,
            longest: LONGEST,
            is_direct: false,
        }
    }

    /// A POST of a body of this type.
    pub fn post(url: &str, content_type: &str, body: Vec<u8>) -> HttpRequest {
        HttpRequest { method: HttpMethod::Post, body, ..HttpRequest::get(url) }.header("Content-Type", content_type)
    }

    /// A PUT without a body.
    pub fn put(url: &str) -> HttpRequest {
        HttpRequest { method: HttpMethod::Put, ..HttpRequest::get(url) }
    }

    /// The request with this header, too.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> HttpRequest {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}
