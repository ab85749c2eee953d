//! `weir-bench burst`: thousands of clients that log in at the same moment, by TCP and by a Unix socket.
//!
//! Connections are made as fast as one thread can, without waiting for any of them, as after a deployment or a
//! restarted application. What counts is that no client is refused; then, when the last one is logged in. A full
//! backlog of a Unix socket refuses at once (connect(2), EAGAIN), that of TCP lets the client's kernel try again after
//! a second.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use clap::Args;
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Events, Interest, Poll, Token};
use serde_json::{Value, json};
use weir_pgwire::put_front;

use crate::budgets::{Finding, Findings, budget};
use crate::contender::Role;
use crate::error::{Error, Outcome};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::setup::USER;
use crate::stage::Pooler;
use crate::stats::histogram;

/// A client that is not logged in by then counts as failed.
const TIMEOUT: Duration = Duration::from_secs(60);
/// ReadyForQuery, idle: the end of a login.
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];

/// The options of `burst`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// How many clients connect at once
    #[arg(long, default_value_t = 5000)]
    clients: usize,
    /// How often each pooler gets a burst by each way, interleaved
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

/// The address that the clients connect to.
#[derive(Clone, Copy, Debug)]
enum Door {
    Tcp,
    Unix,
}

impl Door {
    fn name(self) -> &'static str {
        match self {
            Door::Tcp => "TCP",
            Door::Unix => "Unix",
        }
    }
}

/// One client of the burst.
trait Socket: Read + Write + Source {}
impl<S: Read + Write + Source> Socket for S {}

struct Client {
    stream: Box<dyn Socket>,
    began: Instant,
    asked: bool,
    /// The last bytes that the client received.
    end: Vec<u8>,
}

/// The result of one burst.
struct Burst {
    /// How long each login took that succeeded, in microseconds.
    logins: Vec<u32>,
    refused: usize,
    /// Why the first client was refused.
    reason: Option<String>,
    all_in: Duration,
}

impl Group for Options {
    const NAME: &'static str = "burst";

    fn output(&self) -> &Output {
        &self.output
    }

    /// Measures, and prints a line a burst.
    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let stage = self.rig.bare_stage()?;
        let poolers = self.rig.poolers(&stage, out)?;
        print_line!(out, "{} clients at once", self.clients);
        print_line!(
            out,
            "{:<17} {:<5} {:>8} {:>9} {:>9} {:>9} {:>9}",
            "pooler",
            "way",
            "refused",
            "p50 ms",
            "p99 ms",
            "max ms",
            "all in ms"
        );
        let (mut lines, mut refused) = (Vec::new(), 0);
        for _ in 0..self.rounds {
            for door in [Door::Tcp, Door::Unix] {
                // A rival has no known Unix socket, and its own address.
                for pooler in poolers.iter().filter(|pooler| pooler.socket().is_some()) {
                    let burst = storm(pooler, door, self.clients)?;
                    refused += if pooler.kind.role() == Role::Ours { burst.refused } else { 0 };
                    lines.push(summary(pooler, door, &burst, out));
                }
            }
        }
        #[allow(clippy::cast_precision_loss)]
        let refused = refused as f64;
        print_line!(out, "\n{}: {refused}: {}", budget("burst").what, budget("burst").verdict(refused));
        Ok(Findings { budgets: vec![Finding::new("burst", refused)], json: Value::Array(lines) })
    }
}

fn summary(pooler: &Pooler, door: Door, burst: &Burst, out: &mut Out) -> Value {
    let logins = histogram(burst.logins.iter().copied());
    #[allow(clippy::cast_precision_loss)]
    let at = |q: f64| logins.as_ref().map_or(f64::NAN, |logins| logins.value_at_quantile(q) as f64 / 1000.0);
    let all_in = burst.all_in.as_secs_f64() * 1000.0;
    print_line!(
        out,
        "{:<17} {:<5} {:>8} {:>9.0} {:>9.0} {:>9.0} {all_in:>9.0}",
        pooler.name,
        door.name(),
        burst.refused,
        at(0.5),
        at(0.99),
        at(1.0),
    );
    if let Some(reason) = &burst.reason {
        print_line!(out, "  the first was refused because: {reason}");
    }
    json!({
        "pooler": pooler.name.as_str(),
        "way": door.name(),
        "refused": (burst.refused as u64),
        "p50_ms": at(0.5),
        "p99_ms": at(0.99),
        "max_ms": at(1.0),
        "all_in_ms": all_in,
    })
}

fn storm(pooler: &Pooler, door: Door, count: usize) -> Outcome<Burst> {
    let failed = |e| Error::at("storm", e);
    let mut poll = Poll::new().map_err(failed)?;
    let mut startup = Vec::new();
    put_front::startup(&mut startup, &[("user", USER), ("database", pooler.database())], 0);
    let mut burst = Burst { logins: Vec::new(), refused: 0, reason: None, all_in: Duration::ZERO };
    let began = Instant::now();
    let mut clients: Vec<Option<Client>> = Vec::with_capacity(count);
    for number in 0..count {
        let client = knock(pooler, door, number, &poll).map_err(|e| burst.refuse(&e)).ok();
        clients.push(client);
    }
    let mut events = Events::with_capacity(1024);
    let mut out = clients.iter().flatten().count();
    while out > 0 && began.elapsed() < TIMEOUT {
        poll.poll(&mut events, Some(Duration::from_secs(1))).map_err(failed)?;
        for event in &events {
            let Some(client) = &mut clients[event.token().0] else { continue };
            let before = client.end.ends_with(&READY);
            match client.turn(&startup) {
                Ok(()) if !before && client.end.ends_with(&READY) => {
                    burst.logins.push(u32::try_from(client.began.elapsed().as_micros()).unwrap_or(u32::MAX));
                    out -= 1;
                }
                Ok(()) => {}
                Err(error) => {
                    burst.refuse(&error);
                    clients[event.token().0] = None;
                    out -= usize::from(!before);
                }
            }
        }
    }
    burst.all_in = began.elapsed();
    if out > 0 {
        burst.refused += out;
        burst.reason.get_or_insert_with(|| format!("not in after {} s", TIMEOUT.as_secs()));
    }
    drop(clients);
    let params = pooler.params(pooler.database());
    // The next burst must not overlap the Terminate messages of this one.
    weir_pgclient::Connection::connect(&params)?.query("select 1")?;
    std::thread::sleep(Duration::from_secs(1));
    Ok(burst)
}

fn knock(pooler: &Pooler, door: Door, number: usize, poll: &Poll) -> io::Result<Client> {
    let began = Instant::now();
    let mut stream: Box<dyn Socket> = match door {
        Door::Tcp => Box::new(TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, pooler.port)))?),
        Door::Unix => Box::new(UnixStream::connect(pooler.socket().ok_or_else(|| io::Error::other("no socket"))?)?),
    };
    poll.registry().register(&mut stream, Token(number), Interest::READABLE | Interest::WRITABLE)?;
    Ok(Client { stream, began, asked: false, end: Vec::new() })
}

impl Client {
    fn turn(&mut self, startup: &[u8]) -> io::Result<()> {
        if !self.asked {
            match self.stream.write(startup) {
                Ok(length) if length == startup.len() => self.asked = true,
                Ok(_) => return Err(io::Error::other("a startup packet did not fit")),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        let mut piece = [0; 4096];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::Error::other("the connection was closed")),
                Ok(length) => {
                    self.end.extend_from_slice(&piece[..length]);
                    self.end.drain(..self.end.len().saturating_sub(READY.len()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Burst {
    fn refuse(&mut self, error: &io::Error) {
        self.refused += 1;
        self.reason.get_or_insert_with(|| error.to_string());
    }
}
