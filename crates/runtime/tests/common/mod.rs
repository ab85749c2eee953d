//! Small handlers that run in a real runtime, and tools of the tests.
#![allow(dead_code, reason = "each test program uses a part of this")]

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_base::{ConnId, Host, Target, Time};
use weir_config::{Config, Listen, SocketIo};
use weir_engine::port::{About, Input, Io, Level};
use weir_runtime::{Handler, Inherited, LogTarget, Running, RuntimeOptions, Signals, TlsFiles, WorkerSetup, start};
use weir_uring::Ring;

pub(crate) const LOCAL: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A log that a test can read.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn listen() -> Listen {
    // Most tests have clients that send nothing at first.
    let defer_accept = false;
    Listen {
        addresses: vec![LOCAL],
        port: 0,
        unix_socket_dir: None,
        backlog: 512,
        defer_accept,
        ..Config::default().listen
    }
}

/// How the runtime waits: `WEIR_TEST_IO`, or the default.
pub(crate) fn io() -> SocketIo {
    std::env::var("WEIR_TEST_IO").map_or(Config::default().io, |word| word.parse().expect("epoll or io_uring"))
}

pub(crate) fn plan(workers: u16) -> RuntimeOptions {
    RuntimeOptions {
        listen: listen(),
        workers,
        io: io(),
        ring: Ring::new,
        reload: Arc::new(|_| Err("no configuration here".into())),
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
        signals: Signals::Leave,
        tls: TlsFiles::default(),
    }
}

pub(crate) fn serve<B: Handler>(handler: impl FnMut(WorkerSetup) -> B) -> Running {
    start(plan(1), handler).unwrap()
}

pub(crate) fn address(running: &Running) -> SocketAddr {
    running.bound().tcp[0]
}

pub(crate) fn client(running: &Running) -> TcpStream {
    connect(address(running))
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Reads exactly `count` bytes.
pub(crate) fn read(stream: &mut impl Read, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Bytes that depend on their position.
pub(crate) fn pattern(from: usize, count: usize) -> Vec<u8> {
    (from..from + count).map(|i| (i ^ (i >> 8) ^ (i >> 17)) as u8).collect()
}

/// An input as text.
pub(crate) fn event(input: &Input<'_>) -> String {
    match input {
        Input::Accepted { .. } => "accepted".into(),
        Input::Bytes { bytes, .. } => format!("bytes {}", bytes.len()),
        Input::Closed { cause, .. } => format!("closed {cause:?}"),
        Input::Ending { .. } => "ending".into(),
        Input::Blocked { .. } => "blocked".into(),
        Input::Drained { .. } => "drained".into(),
        Input::Connected { .. } => "connected".into(),
        Input::ConnectFailed { error, .. } => format!("connect failed: {error}"),
        Input::Detached { .. } => "detached".into(),
        Input::JobDone { job, .. } => format!("job done {job}"),
        Input::Message { .. } => "message".into(),
        Input::Signal(signal) => format!("{signal:?}"),
        Input::Tick => "tick".into(),
        Input::Secured { .. } => "secured".into(),
        Input::TlsFailed { error, .. } => format!("TLS failed: {error}"),
        Input::Resolved { name, .. } => format!("resolved {name}"),
        Input::CancelRequest { pid, .. } => format!("cancel {pid}"),
        Input::Upgrade(step) => format!("upgrade {step:?}"),
        Input::OldProcess(step) => format!("old process {step:?}"),
        Input::Imported { .. } => "imported".into(),
        Input::Load(percent) => format!("load {percent}"),
        Input::ClockSet(_) => "clock set".into(),
        Input::ControlRequest { number, .. } => format!("asked {number}"),
        Input::ControlRequestDropped { number } => format!("asked no more {number}"),
    }
}

/// Sends back what it receives; pauses a connection while its own socket is full. Reports all its inputs.
pub(crate) struct Echo {
    pub(crate) event: Sender<String>,
}

impl Echo {
    pub(crate) fn new() -> (Echo, Receiver<String>) {
        let (event, received) = channel();
        (Echo { event }, received)
    }
}

impl Handler for Echo {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        let _ = self.event.send(event(&input));
        match input {
            Input::Bytes { conn, bytes } => io.forward(conn, 0..bytes.len()),
            Input::Blocked { conn } => io.pause(conn),
            Input::Drained { conn } => io.resume(conn),
            _ => {}
        }
    }
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

/// A handler made of a closure, for one test.
pub(crate) struct Script<F> {
    pub(crate) act: F,
    pub(crate) deadline: Time,
}

/// The part of [`Io`] that scripts use, without generics.
pub(crate) trait DynIo {
    fn forward(&mut self, to: ConnId, range: std::ops::Range<usize>);
    fn send(&mut self, to: ConnId, bytes: &[u8]);
    fn connect(&mut self, to: &Target) -> ConnId;
    fn close(&mut self, conn: ConnId);
    fn close_after_error(&mut self, conn: ConnId);
    fn pause(&mut self, conn: ConnId);
    fn resume(&mut self, conn: ConnId);
    fn detach(&mut self, conn: ConnId);
    fn submit_job(&mut self, job: u64, work: weir_engine::port::Work);
    fn log(&mut self, level: Level, line: &str);
    fn accept(&mut self, on: bool);
    fn exit(&mut self, status: i32);
}

impl<I: Io> DynIo for I {
    fn forward(&mut self, to: ConnId, range: std::ops::Range<usize>) {
        Io::forward(self, to, range);
    }
    fn send(&mut self, to: ConnId, bytes: &[u8]) {
        Io::send(self, to, bytes);
    }
    fn connect(&mut self, to: &Target) -> ConnId {
        Io::connect(self, to)
    }
    fn close(&mut self, conn: ConnId) {
        Io::close(self, conn);
    }
    fn close_after_error(&mut self, conn: ConnId) {
        Io::close_after_error(self, conn);
    }
    fn pause(&mut self, conn: ConnId) {
        Io::pause(self, conn);
    }
    fn resume(&mut self, conn: ConnId) {
        Io::resume(self, conn);
    }
    fn detach(&mut self, conn: ConnId) {
        Io::detach(self, conn);
    }
    fn submit_job(&mut self, job: u64, work: weir_engine::port::Work) {
        Io::submit_job(self, job, work);
    }
    fn log(&mut self, level: Level, line: &str) {
        Io::log(self, level, About::Process, format_args!("{line}"));
    }
    fn accept(&mut self, on: bool) {
        Io::accept(self, on);
    }
    fn exit(&mut self, status: i32) {
        Io::exit(self, status);
    }
}

impl<F: FnMut(Time, Input<'_>, &mut dyn DynIo) -> Time + Send + 'static> Handler for Script<F> {
    fn handle<I: Io>(&mut self, now: Time, input: Input<'_>, io: &mut I) {
        self.deadline = (self.act)(now, input, io);
    }
    fn next_deadline(&self) -> Time {
        self.deadline
    }
}

/// A handler that runs `act` at each input; the result is the next deadline.
pub(crate) fn script<F: FnMut(Time, Input<'_>, &mut dyn DynIo) -> Time + Send + 'static>(act: F) -> Script<F> {
    Script { act, deadline: Time::NEVER }
}

/// Links each client to its own connection, without inspecting bytes.
pub(crate) struct Forward {
    pub(crate) to: Target,
    pub(crate) links: HashMap<ConnId, ConnId>,
}

impl Forward {
    pub(crate) fn new(to: SocketAddr) -> Forward {
        Forward { to: target(to), links: HashMap::new() }
    }
}

impl Handler for Forward {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        match input {
            Input::Accepted { conn, .. } => {
                let server = io.connect(&self.to);
                self.links.insert(conn, server);
                self.links.insert(server, conn);
                io.pause(conn);
            }
            Input::Connected { conn, .. } => io.resume(self.links[&conn]),
            Input::Bytes { conn, bytes } => io.forward(self.links[&conn], 0..bytes.len()),
            Input::Blocked { conn } => io.pause(self.links[&conn]),
            Input::Drained { conn } => io.resume(self.links[&conn]),
            Input::Closed { conn, .. } | Input::ConnectFailed { conn, .. } => {
                if let Some(other) = self.links.remove(&conn) {
                    self.links.remove(&other);
                    io.close(other);
                }
            }
            _ => {}
        }
    }
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

pub(crate) fn target(address: SocketAddr) -> Target {
    Target { host: Host::Ip(address.ip()), port: address.port() }
}

pub(crate) fn next(received: &Receiver<String>) -> String {
    received.recv_timeout(Duration::from_secs(20)).expect("the handler gets an input")
}
