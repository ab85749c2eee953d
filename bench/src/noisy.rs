//! `weir-bench noisy`: what one noisy client costs the others of its pool.
//!
//! A few clients ask at a rate far from saturation, alone and beside one client that does the same expensive thing over
//! and over on one connection. Through nothing ("direct"), too: what a noise takes from PostgreSQL and from the machine
//! is no pooler's. Of the pooler's own share says the ratio of what it adds to what direct adds.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;

use serde_json::{Value, json};
use weir_pgclient::{ConnectParams, Connection};
use weir_pgwire::frontend::Of;
use weir_pgwire::put_front;

use crate::budgets::{Finding, Findings, print_findings};
use crate::contender::{Kind, Role};
use crate::error::{Error, Outcome};
use crate::latency::Quantiles;
use crate::load::{self, Fleet};
use crate::options::{Group, Output, Rig};
use crate::out::{Out, print_line};
use crate::stage::Pooler;
use crate::stats::Spread;

/// Longer than any answer takes; the noise goes on with a new connection then.
const PATIENCE: Duration = Duration::from_secs(20);
/// Between two looks whether a noise was made once, from which on latencies count.
const LOOK: Duration = Duration::from_millis(20);
/// The length of a long text: just below Weir's default limit of a message, 16 MiB.
const LONG: usize = 15 << 20;
/// A name of each pooler's console.
const CONSOLE: &str = "pgbouncer";

/// The options of `noisy`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Only noises whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How many clients share the pool with the noisy one
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Their queries a second, of all together
    #[arg(long, default_value_t = 500.0)]
    rate: f64,
    /// Clients that are logged in and idle all the while
    #[arg(long, default_value_t = 300)]
    idle: usize,
    /// How often each is measured, interleaved
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// How long each time
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    #[command(flatten)]
    rig: Rig,
    #[command(flatten)]
    output: Output,
}

/// What a noisy client does.
struct Noise {
    name: &'static str,
    /// The database to log in to, where it is not the pool; PostgreSQL alone has no such thing.
    console: bool,
    /// What is sent once.
    first: fn(&mut Vec<u8>),
    /// What is sent again and again, the how many-th time; an answer ends with ReadyForQuery, one for each `answers`.
    again: fn(&mut Vec<u8>, u64),
    answers: u32,
    by: By,
}

/// The connections of a noise.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// One login, and each answer is read.
    OneLogin,
    /// A login each time.
    Logins,
    /// A socket each time, and what is sent is no startup packet; no answer is read.
    Sockets,
}

const NOISE: Noise = Noise { name: "", console: false, first: |_| (), again: |_, _| (), answers: 1, by: By::OneLogin };

static NOISES: &[Noise] = &[
    Noise { name: "a query of 15 MiB", again: |out, _| put_front::query(out, long("select 1", 0)), ..NOISE },
    Noise {
        name: "an unnamed Parse of 15 MiB",
        again: |out, _| {
            put_front::parse_text(out, b"", long("select 1", 0), &[]);
            execute(out, b"");
        },
        ..NOISE
    },
    Noise {
        name: "a new named Parse of 15 MiB",
        again: |out, turn| {
            put_front::parse_text(out, b"long", long("select 1", turn), &[]);
            execute(out, b"long");
            put_front::close(out, Of::Statement, b"long");
            put_front::sync(out);
        },
        answers: 2,
        ..NOISE
    },
    Noise {
        name: "a Bind to a text of 15 MiB",
        first: |out| {
            put_front::parse_text(out, b"kept", long("select 1", 0), &[]);
            put_front::sync(out);
        },
        again: |out, _| execute(out, b"kept"),
        ..NOISE
    },
    Noise {
        name: "64 KiB of `execute`",
        again: |out, _| {
            put_front::parse_text(out, b"", format!("select 1 -- {}", "execute ".repeat(8 << 10)), &[]);
            execute(out, b"");
        },
        ..NOISE
    },
    Noise {
        name: "2,000 queries in a pipeline",
        again: |out, _| (0..2_000).for_each(|_| put_front::query(out, "select 1")),
        answers: 2_000,
        ..NOISE
    },
    Noise {
        name: "100 new statements",
        again: |out, turn| {
            for at in 0..100 {
                let name = format!("s{at}");
                put_front::close(out, Of::Statement, name.as_bytes());
                put_front::parse_text(out, name.as_bytes(), format!("select {turn} + {at}"), &[]);
            }
            put_front::sync(out);
        },
        ..NOISE
    },
    Noise {
        name: "1,000 new texts in a pipeline",
        again: |out, turn| {
            for at in 0..1_000 {
                put_front::parse_text(out, b"", format!("select {turn} + {at}"), &[]);
                execute(out, b"");
            }
        },
        answers: 1_000,
        ..NOISE
    },
    Noise {
        name: "1,000 channels",
        again: |out, turn| {
            (0..1_000).for_each(|at| put_front::query(out, format!("listen c{turn}_{at}")));
            put_front::query(out, "unlisten *");
        },
        answers: 1_001,
        ..NOISE
    },
    Noise {
        name: "1,000 notifications to itself",
        first: |out| put_front::query(out, "listen noise"),
        again: |out, turn| (0..1_000).for_each(|at| put_front::query(out, format!("notify noise, '{turn} {at}'"))),
        answers: 1_000,
        ..NOISE
    },
    Noise {
        name: "100 functions",
        again: |out, turn| {
            (0..100).for_each(|at| {
                let text =
                    format!("create or replace function noise() returns int language sql as 'select {turn} + {at}'");
                put_front::query(out, text);
            });
        },
        answers: 100,
        ..NOISE
    },
    Noise {
        name: "100 settings",
        again: |out, turn| {
            (0..100).for_each(|at| put_front::query(out, format!("set application_name = 'a{turn}_{at}'")));
        },
        answers: 100,
        ..NOISE
    },
    Noise {
        name: "100 MB of rows",
        again: |out, _| put_front::query(out, "select repeat('x', 1000) from generate_series(1, 100000)"),
        ..NOISE
    },
    Noise {
        name: "SHOW of all clients",
        console: true,
        again: |out, _| put_front::query(out, "show clients"),
        ..NOISE
    },
    Noise { name: "logins", again: |out, _| put_front::terminate(out), by: By::Logins, ..NOISE },
    Noise {
        name: "half a TLS hello",
        again: |out, _| {
            put_front::ssl_request(out);
            out.extend_from_slice(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]);
        },
        by: By::Sockets,
        ..NOISE
    },
    Noise {
        name: "cancel requests",
        again: |out, turn| put_front::cancel_request(out, key(turn), &[7; 4]),
        by: By::Sockets,
        ..NOISE
    },
    Noise {
        name: "garbage",
        again: |out, _| out.extend_from_slice(b"GET / HTTP/1.1\r\n\r\n"),
        by: By::Sockets,
        ..NOISE
    },
];

fn long(statement: &str, turn: u64) -> String {
    let mut text = format!("{statement} -- {turn} ");
    text.push_str(&"x".repeat(LONG - text.len()));
    text
}

fn key(turn: u64) -> u32 {
    u32::try_from(turn & 0xffff).unwrap_or_default() + 1
}

fn execute(out: &mut Vec<u8>, statement: &[u8]) {
    put_front::bind_no_params(out, b"", statement);
    put_front::execute(out, b"", 0);
    put_front::sync(out);
}

impl Group for Options {
    const NAME: &'static str = "noisy";

    fn output(&self) -> &Output {
        &self.output
    }

    fn run(&self, out: &mut Out) -> Outcome<Findings> {
        let (stage, _) = self.rig.stage(1)?;
        let mut kinds = self.rig.both_kinds(out)?;
        if self.rig.poolers.is_empty() {
            kinds.push(Kind::Direct);
        }
        let poolers = self.rig.start(&stage, kinds, out)?;
        let noises: Vec<&Noise> = NOISES.iter().filter(|noise| self.takes(noise)).collect();
        if noises.is_empty() {
            let names: Vec<_> = NOISES.iter().map(|noise| noise.name).collect();
            return Err(Error::new(format!("no noise has such a name; there are: {}", names.join(", "))));
        }
        let mut fleets = Vec::new();
        let mut idle = Vec::new();
        for pooler in &poolers {
            let mut fleet = Fleet::of(pooler, self.clients, 1)?;
            fleet.open(self.rate, Duration::from_secs(1))?;
            fleets.push(fleet);
            idle.push(load::log_in(pooler, self.idle)?);
        }
        print_line!(
            out,
            "{} clients, {} queries a second, {} idle ones, and one noisy client: p99 in ms, alone → beside it (ratio)",
            self.clients,
            self.rate,
            self.idle
        );
        let titles = poolers.iter().map(|pooler| format!("{:>26}", pooler.name));
        print_line!(out, "{:<28} {}", "noise", titles.collect::<Vec<_>>().join(" "));
        let mut figures = Vec::new();
        for noise in &noises {
            let mut beside: Vec<Vec<Beside>> = poolers.iter().map(|_| Vec::new()).collect();
            for round in 0..self.rounds as usize {
                for step in 0..poolers.len() {
                    let at = (round + step) % poolers.len();
                    if noise.console && poolers[at].kind == Kind::Direct {
                        continue;
                    }
                    beside[at].push(self.measure(noise, &poolers[at], &mut fleets[at])?);
                }
            }
            let cells = beside.iter().map(|rounds| format!("{:>26}", cell(rounds)));
            print_line!(out, "{:<28} {}", noise.name, cells.collect::<Vec<_>>().join(" "));
            figures.push(beside);
        }
        let budgets = findings(&poolers, &figures);
        print_findings(out, &budgets);
        Ok(Findings { budgets, json: json(&poolers, &noises, &figures) })
    }
}

/// The p99 of one round in ms, alone and beside the noise, and how often the noise was made.
#[derive(Clone, Copy, Debug)]
struct Beside {
    alone: f64,
    beside: f64,
    turns: u64,
}

impl Options {
    fn takes(&self, noise: &Noise) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| noise.name.contains(part.as_str()))
    }

    fn measure(&self, noise: &Noise, pooler: &Pooler, fleet: &mut Fleet) -> Outcome<Beside> {
        let alone = self.p99(fleet, pooler)?;
        let (stop, turns) = (AtomicBool::new(false), AtomicU64::new(0));
        let database = if noise.console { CONSOLE } else { pooler.database() };
        let params = pooler.params(database);
        let address = (pooler.host.as_str(), pooler.port);
        let beside = thread::scope(|scope| {
            scope.spawn(|| make(noise, &params, address, &stop, &turns));
            let until = Instant::now() + PATIENCE;
            while turns.load(Ordering::Relaxed) == 0 && Instant::now() < until {
                thread::sleep(LOOK);
            }
            let beside = self.p99(fleet, pooler);
            stop.store(true, Ordering::Relaxed);
            beside
        })?;
        let turns = turns.load(Ordering::Relaxed);
        if turns == 0 {
            return Err(Error::new(format!("{}: {} was not made once", pooler.name, noise.name)));
        }
        Ok(Beside { alone, beside, turns })
    }

    fn p99(&self, fleet: &mut Fleet, pooler: &Pooler) -> Outcome<f64> {
        let served = fleet.open(self.rate, Duration::from_secs(self.seconds))?;
        let quantiles: Option<Quantiles> = served.quantiles();
        match quantiles {
            Some(quantiles) if served.unanswered == 0 => Ok(quantiles.p99),
            _ => Err(Error::new(format!("{}: {} queries unanswered", pooler.name, served.unanswered))),
        }
    }
}

/// Makes the noise until `stop`. A connection that is lost is replaced: what ends it may be the pooler's protection.
fn make(noise: &Noise, params: &ConnectParams, address: (&str, u16), stop: &AtomicBool, turns: &AtomicU64) {
    let going_on = || !stop.load(Ordering::Relaxed);
    while going_on() {
        let outcome = match noise.by {
            By::OneLogin => on_one_connection(noise, params, &going_on, turns),
            By::Logins => connect(params).and_then(|socket| send_and_leave(noise, socket, turns)),
            By::Sockets => TcpStream::connect(address).and_then(|socket| send_and_leave(noise, socket, turns)),
        };
        if outcome.is_err() {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

fn send_and_leave(noise: &Noise, mut socket: TcpStream, turns: &AtomicU64) -> io::Result<()> {
    let mut message = Vec::new();
    (noise.again)(&mut message, turns.fetch_add(1, Ordering::Relaxed));
    socket.write_all(&message)?;
    socket.shutdown(Shutdown::Write)
}

fn connect(params: &ConnectParams) -> io::Result<TcpStream> {
    let connection = Connection::connect(params).map_err(io::Error::other)?;
    let socket = connection.into_tcp().ok_or_else(|| io::Error::other("data without a request"))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}

fn on_one_connection(
    noise: &Noise,
    params: &ConnectParams,
    going_on: &dyn Fn() -> bool,
    turns: &AtomicU64,
) -> io::Result<()> {
    let mut socket = connect(params)?;
    let mut message = Vec::new();
    (noise.first)(&mut message);
    if !message.is_empty() {
        socket.write_all(&message)?;
        read_answers(&mut socket, 1)?;
    }
    while going_on() {
        message.clear();
        (noise.again)(&mut message, turns.load(Ordering::Relaxed));
        socket.write_all(&message)?;
        read_answers(&mut socket, noise.answers)?;
        turns.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Reads up to and including this many ReadyForQuery, by the lengths of messages.
fn read_answers(socket: &mut TcpStream, mut answers: u32) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    let (mut head, mut skip) = (Vec::with_capacity(5), 0);
    loop {
        let read = socket.read(&mut piece)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut rest = &piece[..read];
        while !rest.is_empty() {
            let skipped = rest.len().min(skip);
            (skip, rest) = (skip - skipped, &rest[skipped..]);
            if rest.is_empty() {
                break;
            }
            head.push(rest[0]);
            rest = &rest[1..];
            if let [tag, a, b, c, d] = head[..] {
                head.clear();
                skip = usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX).saturating_sub(4);
                answers -= u32::from(tag == b'Z');
                if answers == 0 {
                    // ReadyForQuery is the last: its one byte more is in this piece, or in the next.
                    return if rest.is_empty() { socket.read_exact(&mut [0]) } else { Ok(()) };
                }
            }
        }
    }
}

fn median(rounds: &[Beside], part: impl Fn(&Beside) -> f64) -> Option<Spread> {
    Spread::of(rounds.iter().map(part))
}

fn ratio(rounds: &[Beside]) -> Option<Spread> {
    median(rounds, |round| round.beside / round.alone)
}

fn cell(rounds: &[Beside]) -> String {
    let (Some(alone), Some(beside), Some(ratio)) =
        (median(rounds, |round| round.alone), median(rounds, |round| round.beside), ratio(rounds))
    else {
        return "–".to_owned();
    };
    format!("{:.2} → {:.2} ({:.1})", alone.median, beside.median, ratio.median)
}

/// The worst of Weir's noises: by how many times more than beside PostgreSQL alone it raises the others' p99.
fn findings(poolers: &[Pooler], figures: &[Vec<Vec<Beside>>]) -> Vec<Finding> {
    let at = |role: Role| poolers.iter().position(|pooler| pooler.kind.role() == role);
    let (Some(ours), direct) = (at(Role::Ours), at(Role::Nothing)) else { return Vec::new() };
    let shares = figures.iter().filter_map(|beside| {
        let machine = direct.and_then(|direct| ratio(&beside[direct])).map_or(1.0, |spread| spread.median.max(1.0));
        Some(ratio(&beside[ours])?.median / machine)
    });
    shares.reduce(f64::max).map(|worst| Finding::new("noisy", worst)).into_iter().collect()
}

fn json(poolers: &[Pooler], noises: &[&Noise], figures: &[Vec<Vec<Beside>>]) -> Value {
    let lines = noises.iter().zip(figures).flat_map(|(noise, beside)| {
        poolers.iter().zip(beside).filter(|(_, rounds)| !rounds.is_empty()).map(|(pooler, rounds)| {
            let all = |part: fn(&Beside) -> f64| rounds.iter().map(part).collect::<Value>();
            json!({
                "noise": noise.name,
                "pooler": pooler.name.as_str(),
                "p99_alone_ms": all(|round| round.alone),
                "p99_beside_ms": all(|round| round.beside),
                "turns": rounds.iter().map(|round| round.turns).collect::<Value>(),
            })
        })
    });
    Value::Array(lines.collect())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn answers_are_counted_by_their_frames_wherever_they_are_cut() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut bytes = Vec::new();
        for _ in 0..2 {
            // A row that contains what looks like ReadyForQuery.
            bytes.extend_from_slice(b"D\0\0\0\x0aZ\0\0\0\x05I");
            bytes.extend_from_slice(b"Z\0\0\0\x05I");
        }
        let sender = thread::spawn(move || {
            server.set_nodelay(true).unwrap();
            bytes.iter().for_each(|byte| server.write_all(&[*byte]).unwrap());
        });
        // What comes behind the last answer in the same piece is dropped, so both are awaited together.
        read_answers(&mut client, 2).unwrap();
        sender.join().unwrap();
        assert_eq!(read_answers(&mut client, 1).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn names_are_unique_and_long_texts_are_as_long_as_they_say() {
        for noise in NOISES {
            assert_eq!(NOISES.iter().filter(|other| other.name == noise.name).count(), 1, "{}", noise.name);
        }
        assert_eq!(long("select 1", 7).len(), LONG);
    }
}
