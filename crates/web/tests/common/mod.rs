//! A control plane whose workers have ended, and a small HTTP client.

#![allow(dead_code, reason = "each test uses its part")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_admin::{
    Activity, BackendKey, BackendSignal, ChangeError, ConfigAccess, Control, ControlRequest, Deliver, LookedAt,
    PlannedPool, PoolTestResult, ProbeError, ServerCapacity, ServerProbes, UserTestError, UserTestResult,
};
use weir_base::Target;
use weir_config::{Accounts, Keys};
use weir_web::{Timeouts, Versions, WebOptions, WebServer};

/// Workers that have ended: no request is answered, and its sender learns that at once.
pub(crate) struct Ended;

impl Control for Ended {
    fn ask(&self, _: ControlRequest, deliver: Deliver) -> u64 {
        drop(deliver);
        1
    }

    fn forget(&self, _: u64) {}
}

impl ConfigAccess for Ended {
    fn accounts(&self) -> Arc<Accounts> {
        Arc::default()
    }

    fn plan_pool(&self, name: &str, _: Keys) -> Result<PlannedPool, ChangeError> {
        let text = format!("[auth]\ntype = \"trust\"\n[pools.{name}]\nhost = \"db\"\n");
        let config = weir_config::load(Path::new("weir.toml"), &|_| Ok(text.clone()), &|_| None).expect("it is valid");
        Ok(PlannedPool { pool: config.pools[name].clone(), config: Arc::new(config) })
    }
}

/// No server can be reached.
pub(crate) struct Nowhere;

impl ServerProbes for Nowhere {
    fn test_pool(&self, _: &PlannedPool) -> Result<PoolTestResult, ProbeError> {
        Err(ProbeError::Server("nobody tries it".to_owned()))
    }

    fn test_user(&self, _: &str, _: &str, _: &str) -> Result<UserTestResult, UserTestError> {
        let message = "nobody tries it".to_owned();
        Err(UserTestError { message, sqlstate: String::new(), detail: None, hint: None })
    }

    fn activity(&self, _: &str) -> Result<Activity, ProbeError> {
        Err(ProbeError::Server("nobody looks".to_owned()))
    }

    fn keep_looks(&self, _: &[LookedAt]) {}

    fn capacity(&self, _: &str, _: &Target) -> Result<ServerCapacity, ProbeError> {
        Err(ProbeError::Server("nobody looks".to_owned()))
    }

    fn signal(&self, _: &str, _: BackendKey, _: BackendSignal) -> Result<bool, ProbeError> {
        Err(ProbeError::Server("nobody looks".to_owned()))
    }
}

pub(crate) fn options(address: SocketAddr) -> WebOptions {
    let ended = Arc::new(Ended);
    WebOptions {
        addresses: vec![address],
        inherited: Vec::new(),
        control: ended.clone(),
        history: None,
        versions: Versions::open(None),
        send: Arc::new(|_| Err("nothing is sent here".to_owned())),
        lab: None,
        tls: None,
        config: ended,
        probes: Arc::new(Nowhere),
        timeouts: Timeouts::default(),
        version: "test",
    }
}

pub(crate) fn web() -> WebServer {
    WebServer::start(options(SocketAddr::from(([127, 0, 0, 1], 0)))).expect("a free port")
}

/// Sends this; returns the status, the head and the body of the answer.
pub(crate) fn send(web: &WebServer, text: &str) -> (u16, String, String) {
    let mut stream = TcpStream::connect(web.bound()[0]).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time");
    stream.write_all(text.as_bytes()).expect("it reads");
    let answer = read(&mut stream);
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    (status, head.to_ascii_lowercase(), body.to_owned())
}

/// Reads an answer to its end; of a stream of events its beginning.
fn read(stream: &mut TcpStream) -> String {
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        let count = stream.read(&mut piece).expect("it answers");
        answer.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let endless = text.contains("text/event-stream") && text.contains("retry: ");
        if count == 0 || endless {
            return text;
        }
    }
}

pub(crate) fn request(web: &WebServer, method: &str, path: &str, more: &str, body: &str) -> (u16, String, String) {
    let length = body.len();
    send(
        web,
        &format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n{more}\r\n{body}"
        ),
    )
}
