//! HTTP/1.1 for the web app in Rust: a thread for each connection, requests one after another, persistent connections.
//!
//! As much of RFC 9112 as a browser and a load generator need of an app without uploads: a request's body is not read,
//! so a request with one ends its connection. A connection never waits for a thread, so none starves the others.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use nix::sys::socket::{self, Backlog};

/// The limit of connections; further ones are closed at once.
const CONNECTIONS: usize = 1024;
/// The longest head of a request, in bytes.
const HEAD: u64 = 16 * 1024;
const STACK: usize = 512 * 1024;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: String,
    /// Without the query string.
    pub(super) path: String,
    kept: bool,
}

/// A response; its headers besides the length.
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: &'static [(&'static str, &'static str)],
    pub(super) body: Vec<u8>,
}

/// Listens with the longest backlog that the kernel allows: std's is 128, and a burst's 129th connection would retry
/// after a second.
pub(super) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let listener = TcpListener::bind(address)?;
    socket::listen(&listener, Backlog::MAXCONN)?;
    Ok(listener)
}

/// Serves until the process ends.
pub(super) fn serve(listener: &TcpListener, answer: impl Fn(&Request) -> Response + Send + Sync + 'static) {
    let (answer, open) = (Arc::new(answer), Arc::new(AtomicUsize::new(0)));
    for stream in listener.incoming().flatten() {
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (answer, leaving) = (Arc::clone(&answer), Arc::clone(&open));
        let work = move || {
            // A client that disconnects early is not our error.
            let _ = converse(&stream, answer.as_ref());
            leaving.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().stack_size(STACK).spawn(work).is_err() {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn converse(stream: &TcpStream, answer: &(impl Fn(&Request) -> Response + ?Sized)) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut input, mut output) = (BufReader::new(stream), stream);
    while let Some(request) = read(&mut input)? {
        let Response { status, headers, body } = answer(&request);
        let mut reply = format!("HTTP/1.1 {status} {}\r\nContent-Length: {}\r\n", reason(status), body.len());
        for (name, value) in headers {
            reply.push_str(&format!("{name}: {value}\r\n"));
        }
        reply.push_str(if request.kept { "\r\n" } else { "Connection: close\r\n\r\n" });
        let mut reply = reply.into_bytes();
        reply.extend(body);
        output.write_all(&reply)?;
        if !request.kept {
            break;
        }
    }
    Ok(())
}

/// The next request; `None` at the end of the connection, and for an invalid request.
fn read(input: &mut impl BufRead) -> io::Result<Option<Request>> {
    let mut head = input.take(HEAD);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some(method), Some(target), Some(version)) = (words.next(), words.next(), words.next()) else {
        return Ok(None);
    };
    let path = target.split('?').next().unwrap_or(target).to_owned();
    let mut request = Request { method: method.to_owned(), path, kept: version == "HTTP/1.1" };
    loop {
        let mut line = String::new();
        if head.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let Some((name, value)) = line.trim_end().split_once(':') else {
            return Ok(line.trim_end().is_empty().then_some(request));
        };
        let (name, value) = (name.to_ascii_lowercase(), value.trim().to_ascii_lowercase());
        let has_body = (name == "content-length" && value != "0") || name == "transfer-encoding";
        if has_body || (name == "connection" && value == "close") {
            request.kept = false;
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        404 => "Not Found",
        405 => "Method Not Allowed",
        _ => "Internal Server Error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_come_one_after_another_until_one_closes() {
        let mut input: &[u8] = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n\
                                 POST /reset HTTP/1.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let first = read(&mut input).unwrap().unwrap();
        assert_eq!((first.method.as_str(), first.path.as_str(), first.kept), ("GET", "/a", true));
        let second = read(&mut input).unwrap().unwrap();
        assert_eq!((second.method.as_str(), second.path.as_str(), second.kept), ("POST", "/reset", false));
        assert_eq!(read(&mut input).unwrap(), None);
    }

    #[test]
    fn what_is_no_request_or_too_long_ends_the_connection() {
        assert_eq!(read(&mut &b"\x16\x03\x01\r\n"[..]).unwrap(), None);
        let long = format!("GET / HTTP/1.1\r\nCookie: {}\r\n\r\n", "x".repeat(20_000));
        assert_eq!(read(&mut long.as_bytes()).unwrap(), None);
        assert!(!read(&mut &b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello"[..]).unwrap().unwrap().kept);
    }

    #[test]
    fn two_hundred_connections_are_served_at_the_same_time() {
        let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        // No request is answered before all have arrived: a connection that waited for another's end would hang.
        let all = std::sync::Barrier::new(200);
        thread::spawn(move || {
            serve(&listener, move |request| {
                all.wait();
                Response { status: 200, headers: &[], body: request.path.clone().into_bytes() }
            });
        });
        let began = std::time::Instant::now();
        let mut streams: Vec<_> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
        assert!(began.elapsed().as_millis() < 900, "a connection was not queued at once");
        for stream in &mut streams {
            stream.write_all(b"GET /x HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
        }
        for mut stream in streams {
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            assert!(said.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n") && said.ends_with("/x"), "{said}");
        }
    }
}
