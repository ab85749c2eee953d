//! A minimal HTTP client: one request per connection, whole responses.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(60);

/// The API of a Weir of this process: a loopback address that no other one has.
#[derive(Clone, Copy, Debug)]
pub struct Api(SocketAddr);

impl Default for Api {
    fn default() -> Self {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let process = std::process::id().to_le_bytes();
        // All of 127.0.0.0/8 is the loopback: 127, two random bytes, and our own number, with its port.
        Api(SocketAddr::from(([127, process[0], process[1], low.max(1)], 18_000 + u16::from(high))))
    }
}

impl Api {
    /// The address that the API listens on.
    pub fn address(&self) -> SocketAddr {
        self.0
    }

    /// The section that makes a Weir listen there.
    pub fn section(&self) -> String {
        format!("[web]\naddress = \"{}\"\nport = {}\n", self.0.ip(), self.0.port())
    }

    /// The settings of an ini that make a Weir listen there.
    pub fn keys(&self) -> [(&'static str, String); 2] {
        [("web_address", self.0.ip().to_string()), ("web_port", self.0.port().to_string())]
    }

    /// The panel's URL.
    pub fn url(&self) -> String {
        format!("http://{}/", self.0)
    }

    /// Sends a request; returns the status and the text.
    ///
    /// # Panics
    ///
    /// When nothing listens there, or the response is not HTTP.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.ask_with(method, path, "", body)
    }

    /// The API listens a moment after the port for clients does.
    fn connect(&self) -> TcpStream {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            match TcpStream::connect(self.0) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(20));
                }
                stream => return stream.expect("the API listens"),
            }
        }
    }

    /// Sends a request with more header lines, each with its line end; returns the status and the text.
    ///
    /// # Panics
    ///
    /// As for [`ask`](Api::ask).
    pub fn ask_with(&self, method: &str, path: &str, more: &str, body: &str) -> (u16, String) {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
        let (host, length) = (self.0, body.len());
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}");
        write!(stream, "{head}\r\nContent-Type: application/json\r\n{more}\r\n{body}").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, body.to_owned())
    }

    /// Reads server-sent events: the data of each, for as long as they come.
    ///
    /// # Panics
    ///
    /// When nothing listens there, or the response is no stream of events.
    pub fn events(&self, path: &str) -> impl Iterator<Item = Value> + use<> {
        let mut stream = self.connect();
        stream.set_read_timeout(Some(TIMEOUT)).expect("a time");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.0).expect("it reads");
        let lines = BufReader::new(stream).lines().map(|line| line.expect("it continues"));
        let data = |line: String| line.strip_prefix("data: ").map(|data| serde_json::from_str(data).expect("JSON"));
        lines.filter_map(data)
    }

    /// Requests JSON.
    ///
    /// # Panics
    ///
    /// When the response is anything but 200 and JSON.
    pub fn get(&self, path: &str) -> Value {
        let (status, text) = self.ask("GET", path, "");
        assert_eq!(status, 200, "{path}: {text}");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Has something done; returns the status, and the error's text if there is one.
    ///
    /// # Panics
    ///
    /// When an error is no JSON.
    pub fn post(&self, path: &str) -> (u16, String) {
        let (status, text) = self.ask("POST", path, "");
        if text.is_empty() {
            return (status, text);
        }
        let error: Value = serde_json::from_str(&text).expect("JSON");
        (status, error["error"].as_str().expect("a text").to_owned())
    }
}
