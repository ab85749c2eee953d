//! A bare forwarder: each client gets a server connection of its own, and no byte is inspected. Its cost is that of
//! the runtime without an engine: the lower bound of every measurement.
//!
//! `cargo run --release -p weir-runtime --example forward -- 6433 127.0.0.1:5432`, or a Unix socket's path as address.

use std::process::ExitCode;
use std::sync::Arc;

use weir_base::{ConnId, Host, Target, Time};
use weir_config::{Config, Listen};
use weir_engine::port::{Input, Io};
use weir_runtime::{Handler, Inherited, LogTarget, RuntimeOptions, Signals, TlsFiles, WorkerSetup, start};
use weir_uring::Ring;

/// The other connection of each connection, by slot.
struct Forward {
    to: Target,
    other: Vec<ConnId>,
}

impl Forward {
    fn link(&mut self, from: ConnId, to: ConnId) {
        let slot = from.slot as usize;
        if self.other.len() <= slot {
            self.other.resize(slot + 1, ConnId::NONE);
        }
        self.other[slot] = to;
    }

    fn other(&self, conn: ConnId) -> ConnId {
        self.other[conn.slot as usize]
    }
}

impl Handler for Forward {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        match input {
            Input::Bytes { conn, bytes } => io.forward(self.other(conn), 0..bytes.len()),
            Input::Accepted { conn, .. } => {
                let server = io.connect(&self.to);
                self.link(conn, server);
                self.link(server, conn);
                io.pause(conn);
            }
            Input::Connected { conn, .. } => io.resume(self.other(conn)),
            Input::Blocked { conn } => io.pause(self.other(conn)),
            Input::Drained { conn } => io.resume(self.other(conn)),
            Input::Closed { conn, .. } | Input::ConnectFailed { conn, .. } => io.close(self.other(conn)),
            Input::Signal(_) => io.exit(0),
            _ => {}
        }
    }

    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(port), Some(to)) = (arguments.first().and_then(|p| p.parse().ok()), arguments.get(1)) else {
        eprintln!("usage: forward PORT ADDRESS:PORT");
        return ExitCode::from(2);
    };
    let (host, server_port) = to.rsplit_once(':').unwrap_or((to, "5432"));
    let target = Target { host: Host::parse(host), port: server_port.parse().unwrap_or(5432) };
    let handler = |_: WorkerSetup| Forward { to: target.clone(), other: Vec::new() };
    match start(plan(port), handler) {
        Ok(running) => ExitCode::from(running.wait() as u8),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn plan(port: u16) -> RuntimeOptions {
    let addresses = vec![[127, 0, 0, 1].into()];
    RuntimeOptions {
        listen: Listen { addresses, port, unix_socket_dir: None, backlog: 512, ..Config::default().listen },
        workers: 1,
        io: Config::default().io,
        ring: Ring::new,
        reload: Arc::new(|_| Err("a forwarder has no configuration".into())),
        change: None,
        record: None,
        ask_patroni: None,
        log: LogTarget::Stderr,
        logging: Config::default().log,
        dns: Config::default().dns,
        inherited: Inherited::default(),
        old_process: None,
        upgrade_socket: None,
        greeting: "up".to_owned(),
        warnings: Vec::new(),
        signals: Signals::Handle,
        tls: TlsFiles::default(),
    }
}
