//! An HTTP load: a number of connections, for a time or for a number of requests.
//!
//! Owns the definition of a request's time (from sending it to the last byte of its reply, on a persistent
//! connection), of an error, and two ways to count: by wall-clock time, and as the articles' tool counts. It shares
//! the machine with its target. Must not know the meaning of replies.

use std::collections::HashMap;
use std::io::Read;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use ureq::Agent;

use crate::steps::LabError;

/// The error of a reply that does not begin in time.
const LATE: &str = "no reply in time";
/// The timeout of a body, which only a hanging one reaches.
const BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a body that are inspected; the rest is counted.
const HEAD: usize = 512;
/// The limit of different error messages.
const COMPLAINTS: usize = 5;
/// Enough for a request; 200 threads with the default of 8 MB each would be excessive.
const STACK: usize = 512 * 1024;

/// The load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) url: &'a str,
    /// The connections, each with one request at a time.
    pub(crate) connections: usize,
    pub(crate) until: Until,
    /// The timeout of a reply's head.
    pub(crate) timeout: Duration,
    /// The server time in a reply's first bytes, in ms.
    pub(crate) server_ms: fn(&[u8]) -> Option<f64>,
}

/// The end of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// No request begins after this time.
    Over(Duration),
    /// This many requests, as fast as the connections allow.
    Requests(usize),
}

/// The result. Times are of successful requests, in ms; 0 without any.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) connections: usize,
    /// Complete replies with a status of success.
    pub(crate) served: u64,
    /// All failed requests, including those that timed out.
    pub(crate) errors: u64,
    /// Timeouts: slow, not refused.
    pub(crate) late: u64,
    /// From the first request to the last reply, in seconds.
    pub(crate) wall: f64,
    /// Bytes of the successful bodies.
    pub(crate) bytes: u64,
    pub(crate) average_ms: f64,
    pub(crate) fastest_ms: f64,
    pub(crate) slowest_ms: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// The average of the server times in the replies.
    pub(crate) server_ms: f64,
    /// Error messages and their counts, the most frequent first.
    pub(crate) complaints: Vec<(String, u64)>,
}

impl Load {
    /// Successful requests a second of wall-clock time: the throughput for the endpoint's users.
    pub(crate) fn rate(&self) -> f64 {
        ratio(self.served as f64, self.wall)
    }

    /// Megabytes of successful replies a second of wall-clock time.
    pub(crate) fn megabytes(&self) -> f64 {
        ratio(self.bytes as f64 / 1e6, self.wall)
    }

    /// The articles' tool's figure: successes, divided by a connection's share of the time spent in *successful*
    /// requests.
    /// Time in which requests failed does not count, so an endpoint that fails at once looks fast.
    pub(crate) fn tool_rate(&self) -> f64 {
        ratio(self.served as f64, self.tool_seconds())
    }

    /// The tool's transfer rate, in megabytes (of 2^20 bytes, as it counts them) a second.
    pub(crate) fn tool_megabytes(&self) -> f64 {
        ratio(self.bytes as f64 / f64::from(1 << 20), self.tool_seconds())
    }

    fn tool_seconds(&self) -> f64 {
        self.average_ms / 1e3 * self.served as f64 / self.connections.max(1) as f64
    }
}

/// Runs the load.
pub(crate) fn run(plan: &Plan<'_>) -> Result<Load, LabError> {
    // Held until all threads have started, so that they begin at once; released without work if some can't be started.
    let (gate, enough, taken) = (RwLock::new(()), AtomicBool::new(false), AtomicUsize::new(0));
    let worker = || {
        drop(gate.read());
        if enough.load(Ordering::Acquire) { Tally::default() } else { work(plan, &taken) }
    };
    let (seen, wall) = thread::scope(|scope| {
        let closed = gate.write();
        let spawn = |_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, worker);
        let workers: Result<Vec<_>, _> = (0..plan.connections).map(spawn).collect();
        enough.store(workers.is_err(), Ordering::Release);
        let began = Instant::now();
        drop(closed);
        let workers = workers.map_err(|e| LabError::at(format!("start {} threads", plan.connections), e))?;
        let seen: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        Ok::<_, LabError>((seen, began.elapsed()))
    })?;
    let mut all = Tally::default();
    for one in seen {
        all.merge(one.map_err(|_| LabError::Failed(format!("a thread that loaded {} broke", plan.url)))?);
    }
    Ok(all.load(plan.connections, wall))
}

/// The requests of one connection, one after another.
fn work(plan: &Plan<'_>, taken: &AtomicUsize) -> Tally {
    let agent = agent(plan.timeout);
    let mut seen = Tally::default();
    let began = Instant::now();
    let more = || match plan.until {
        Until::Over(time) => began.elapsed() < time,
        Until::Requests(count) => taken.fetch_add(1, Ordering::Relaxed) < count,
    };
    while more() {
        let sent = Instant::now();
        match request(&agent, plan.url) {
            Ok(reply) => {
                seen.times.push(sent.elapsed());
                seen.bytes += reply.bytes;
                seen.server_ms += (plan.server_ms)(&reply.head).unwrap_or(0.0);
            }
            Err(complaint) => *seen.complaints.entry(complaint).or_default() += 1,
        }
    }
    seen
}

fn agent(timeout: Duration) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(timeout))
        .timeout_recv_response(Some(timeout))
        .timeout_recv_body(Some(BODY_TIMEOUT))
        .proxy(None)
        .build();
    config.new_agent()
}

/// A successful reply.
struct Reply {
    head: Vec<u8>,
    bytes: u64,
}

/// One request; its error is a message without varying figures.
fn request(agent: &Agent, url: &str) -> Result<Reply, String> {
    let mut response = agent.get(url).call().map_err(|error| words(&error))?;
    let status = response.status();
    let mut body = response.body_mut().as_reader();
    let (mut head, mut bytes, mut buffer) = (Vec::with_capacity(HEAD), 0, [0; 16 * 1024]);
    loop {
        let read = body.read(&mut buffer).map_err(|_| "the reply broke off".to_owned())?;
        if read == 0 {
            break;
        }
        bytes += read as u64;
        head.extend_from_slice(&buffer[..read.min(HEAD - head.len())]);
    }
    if status.is_success() {
        return Ok(Reply { head, bytes });
    }
    let said = serde_json::from_slice::<serde_json::Value>(&head).ok();
    let said = said.as_ref().and_then(|json| json["error"].as_str());
    Err(said.map_or_else(|| format!("status {}", status.as_u16()), str::to_owned))
}

fn words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => LATE.to_owned(),
        other => other.to_string(),
    }
}

/// The results of one connection, or of all.
#[derive(Debug, Default)]
struct Tally {
    times: Vec<Duration>,
    bytes: u64,
    /// The sum.
    server_ms: f64,
    complaints: HashMap<String, u64>,
}

impl Tally {
    fn merge(&mut self, other: Tally) {
        self.times.extend(other.times);
        self.bytes += other.bytes;
        self.server_ms += other.server_ms;
        for (complaint, count) in other.complaints {
            *self.complaints.entry(complaint).or_default() += count;
        }
    }

    fn load(self, connections: usize, wall: Duration) -> Load {
        let mut times: Vec<f64> = self.times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        times.sort_by(f64::total_cmp);
        let (served, late) = (times.len(), self.complaints.get(LATE).copied().unwrap_or(0));
        let mut complaints: Vec<_> = self.complaints.into_iter().collect();
        complaints.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let errors = complaints.iter().map(|(_, count)| count).sum();
        complaints.truncate(COMPLAINTS);
        Load {
            connections,
            served: served as u64,
            errors,
            late,
            wall: wall.as_secs_f64(),
            bytes: self.bytes,
            average_ms: ratio(times.iter().sum(), served as f64),
            fastest_ms: times.first().copied().unwrap_or(0.0),
            slowest_ms: times.last().copied().unwrap_or(0.0),
            p50_ms: percentile(&times, 50),
            p99_ms: percentile(&times, 99),
            server_ms: ratio(self.server_ms, served as f64),
            complaints,
        }
    }
}

/// The smallest value that this percentage does not exceed; 0 without values.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

/// A quotient; 0 for a divisor of 0.
fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::Arc;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A server that answers every third request with an error, on persistent connections.
    fn serve() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let count = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, count) = (stream.unwrap(), Arc::clone(&count));
                thread::spawn(move || converse(&stream, &count));
            }
        });
        url
    }

    fn converse(mut stream: &TcpStream, count: &AtomicUsize) {
        let mut lines = BufReader::new(stream).lines();
        // A request's head ends with an empty line.
        while lines.by_ref().map_while(Result::ok).any(|line| line.is_empty()) {
            let (status, body) = match count.fetch_add(1, Ordering::Relaxed) % 3 {
                0 => ("500 No", "{\"error\":\"too many\"}".to_owned()),
                _ => ("200 OK", format!("7{}", " ".repeat(99_999))),
            };
            write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        }
    }

    #[test]
    fn successes_and_errors_are_counted_apart_and_bodies_read_to_their_end() {
        let url = serve();
        let said = |head: &[u8]| std::str::from_utf8(&head[..1]).ok()?.parse().ok();
        let plan = Plan { url: &url, connections: 3, until: Until::Requests(30), timeout: SECOND, server_ms: said };
        let load = run(&plan).unwrap();
        assert_eq!((load.served, load.errors, load.bytes), (20, 10, 2_000_000));
        assert_eq!(load.complaints, [("too many".to_owned(), 10)]);
        assert!((load.server_ms - 7.0).abs() < 1e-9, "{load:?}");
        assert!(load.fastest_ms <= load.p50_ms && load.p50_ms <= load.p99_ms && load.p99_ms <= load.slowest_ms);
    }

    #[test]
    fn a_reply_that_is_late_is_an_error_of_its_own_kind() {
        // Connections wait in its backlog, and are never accepted.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let plan = Plan { url: &url, connections: 1, until: Until::Requests(1), timeout: SECOND, server_ms: |_| None };
        let load = run(&plan).unwrap();
        assert_eq!((load.served, load.errors, load.late), (0, 1, 1));
        assert!(load.wall >= 1.0 && load.complaints[0].0 == LATE, "{load:?}");
    }

    #[test]
    fn no_listener_is_an_error_and_no_success() {
        let plan = Plan {
            url: "http://127.0.0.1:1/",
            connections: 2,
            until: Until::Over(Duration::from_millis(20)),
            timeout: SECOND,
            server_ms: |_| None,
        };
        let load = run(&plan).unwrap();
        assert!(load.served == 0 && load.errors > 0 && load.rate() == 0.0, "{load:?}");
    }

    #[test]
    fn the_articles_tool_makes_a_hundred_requests_of_ten_seconds_look_like_thousands() {
        // 100 requests of 104 ms on 200 connections, then nothing but errors for 10 s: the article's 1,923 a second.
        let load = Load { connections: 200, served: 100, wall: 10.0, average_ms: 104.0, ..Load::default() };
        assert!((load.tool_rate() - 1923.0).abs() < 1.0, "{}", load.tool_rate());
        assert!((load.rate() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99), percentile(&[], 99)), (100.0, 198.0, 0.0));
    }
}
