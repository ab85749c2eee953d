//! A receiver of JSON over HTTP: for what Weir sends to others.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::Value;

use crate::watch::eventually;

/// A request: its path without the first slash, its headers in lower case, and its body.
#[derive(Clone, Debug)]
pub struct Received {
    /// The path.
    pub path: String,
    /// The head without its first line.
    pub head: String,
    /// The body.
    pub body: Value,
}

/// A receiver of JSON, which answers with a status. It ends with the process.
#[derive(Debug)]
pub struct Receiver {
    port: u16,
    /// The status of the receiver's answers.
    pub status: Arc<AtomicU16>,
    received: Arc<Mutex<Vec<Received>>>,
}

impl Receiver {
    /// Begins to receive on any port.
    ///
    /// # Panics
    /// There is no free port.
    #[allow(clippy::new_without_default)]
    pub fn start() -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (status, received) = (Arc::new(AtomicU16::new(200)), Arc::<Mutex<Vec<Received>>>::default());
        let (answer, list) = (status.clone(), received.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(message) = read(stream, answer.load(Ordering::Relaxed)) {
                    list.lock().expect("no thread panics while holding it").push(message);
                }
            }
        });
        Receiver { port, status, received }
    }

    /// The address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// All that was received.
    ///
    /// # Panics
    /// Its thread has panicked.
    pub fn all(&self) -> Vec<Received> {
        self.received.lock().expect("no thread panics while holding it").clone()
    }

    /// The first message at a path that fits.
    ///
    /// # Panics
    /// There is none in time.
    #[track_caller]
    pub fn find(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(path, || {
            let received = self.all();
            let found = received.iter().find(|one| one.path == path && fits(&one.body));
            found.map(|one| one.body.clone()).ok_or_else(|| format!("{received:?}"))
        })
    }

    /// How many messages came at a path.
    pub fn count(&self, path: &str) -> usize {
        self.all().iter().filter(|one| one.path == path).count()
    }
}

fn read(stream: TcpStream, status: u16) -> Option<Received> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut head, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut first).ok()?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    write!(reader.get_mut(), "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok()?;
    let path = first.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    Some(Received { path, head, body: serde_json::from_slice(&body).ok()? })
}
