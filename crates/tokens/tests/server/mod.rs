//! A small HTTP server: one request for a connection, answered by a function.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// A request.
pub(crate) struct Request {
    pub(crate) method: String,
    /// Without the query.
    pub(crate) path: String,
    query: String,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
    /// The first one is 1.
    pub(crate) number: u32,
}

/// Status and body of an answer.
pub(crate) struct Reply(pub(crate) u16, pub(crate) String);

impl Request {
    /// The value of a header, by its name in small letters.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn query(&self) -> HashMap<String, String> {
        form_urlencoded::parse(self.query.as_bytes()).into_owned().collect()
    }

    pub(crate) fn form(&self) -> HashMap<String, String> {
        assert_eq!(self.header("content-type"), Some("application/x-www-form-urlencoded"));
        form_urlencoded::parse(self.body.as_bytes()).into_owned().collect()
    }
}

/// Serves until the process ends.
pub(crate) struct Server {
    pub(crate) url: String,
}

impl Server {
    pub(crate) fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answer, count) = (Arc::new(answer), Arc::new(AtomicU32::new(0)));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (answer, count) = (answer.clone(), count.clone());
                thread::spawn(move || serve(stream.unwrap(), &*answer, &count));
            }
        });
        Server { url }
    }
}

fn serve(stream: TcpStream, answer: &(impl Fn(&Request) -> Reply + ?Sized), count: &AtomicU32) {
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    let mut next = || {
        line.clear();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = next();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = Vec::new();
    loop {
        let header = next();
        let Some((name, value)) = header.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let mut request = Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers,
        body: String::new(),
        number: count.fetch_add(1, Ordering::SeqCst) + 1,
    };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    request.body = String::from_utf8(body).unwrap();
    let Reply(status, body) = answer(&request);
    let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let _ = (&stream).write_all(head.as_bytes()).and_then(|()| (&stream).write_all(body.as_bytes()));
}
