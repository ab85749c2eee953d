//! Our own load: many connections that send short queries, from one thread; in a closed loop, or by a clock.
//!
//! By a clock, arrivals are drawn beforehand, as those of many independent clients (a Poisson process of one rate, from
//! a seed), and a latency begins at the moment in which its query was due, whether or not a connection was free and we
//! were in time: what a slow answer holds up counts as slow, too.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream as Blocking;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use rand::Rng;
use rand::rngs::SmallRng;
use weir_pgclient::Connection;
use weir_pgwire::put_front;

use crate::error::{Error, Outcome};
use crate::latency::Quantiles;
use crate::rng::seeded;
use crate::stage::Pooler;

const TIMER: Token = Token(usize::MAX);
/// ReadyForQuery, idle: the end of an answer.
const READY: [u8; 6] = [b'Z', 0, 0, 0, 5, b'I'];
/// How long we wait for answers after the last question.
const DRAIN: Duration = Duration::from_secs(10);
/// The rows of pgbench's smallest table of accounts.
const ACCOUNTS: u64 = 100_000;

/// Logged-in connections to one pooler.
pub(crate) struct Fleet {
    name: String,
    poll: Poll,
    timer: TimerFd,
    clients: Vec<Client>,
    rng: SmallRng,
    /// A query, and what came in: no allocation a query.
    message: Vec<u8>,
    piece: Vec<u8>,
}

struct Client {
    stream: TcpStream,
    /// When the request that the client waits for was due; `None` while the client is idle.
    due: Option<Instant>,
    /// The last bytes that came.
    end: [u8; READY.len()],
}

/// How a load was served.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    /// In microseconds, in the order of the answers.
    pub(crate) latencies: Vec<u32>,
    /// Queries that were due and not answered when our timeout ended.
    pub(crate) unanswered: usize,
    /// Answers a second, while there were questions.
    pub(crate) rate: f64,
}

impl Served {
    pub(crate) fn quantiles(&self) -> Option<Quantiles> {
        Quantiles::of(self.latencies.iter().copied())
    }
}

/// Sockets of this many logged-in connections, on which nothing more is pending.
pub(crate) fn log_in(pooler: &Pooler, count: usize) -> Outcome<Vec<Blocking>> {
    let params = pooler.params(pooler.database());
    let one = || -> Outcome<Blocking> {
        let connection = Connection::connect(&params).map_err(|e| Error::at(&pooler.name, e))?;
        connection
            .into_tcp()
            .ok_or_else(|| Error::new(format!("{} sent data after the login without a request", pooler.name)))
    };
    (0..count).map(|_| one()).collect()
}

impl Fleet {
    pub(crate) fn of(pooler: &Pooler, count: usize, seed: u64) -> Outcome<Fleet> {
        let failed = |e: std::io::Error| Error::at("make a load", e);
        let poll = Poll::new().map_err(failed)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).map_err(|e| failed(e.into()))?;
        let fd = timer.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), TIMER, Interest::READABLE).map_err(failed)?;
        let mut clients = Vec::with_capacity(count);
        for (at, socket) in log_in(pooler, count)?.into_iter().enumerate() {
            socket.set_nonblocking(true).map_err(failed)?;
            let mut stream = TcpStream::from_std(socket);
            poll.registry().register(&mut stream, Token(at), Interest::READABLE).map_err(failed)?;
            clients.push(Client { stream, due: None, end: [0; READY.len()] });
        }
        let rng = seeded(seed, 0);
        Ok(Fleet { name: pooler.name.clone(), poll, timer, clients, rng, message: Vec::new(), piece: vec![0; 16384] })
    }

    /// Each client asks again as soon as it is answered.
    pub(crate) fn closed(&mut self, duration: Duration) -> Outcome<Served> {
        let begin = Instant::now();
        let end = begin + duration;
        let mut served = Served { latencies: Vec::new(), unanswered: 0, rate: 0.0 };
        for at in 0..self.clients.len() {
            self.ask(at, Instant::now())?;
        }
        let mut answered = Vec::new();
        while self.busy() > 0 && Instant::now() < end + DRAIN {
            self.turn(Some(Duration::from_millis(100)), &mut answered, &mut served)?;
            let now = Instant::now();
            if now < end {
                served.rate += f64::from(u32::try_from(answered.len()).unwrap_or(u32::MAX));
                for at in answered.drain(..) {
                    self.ask(at, now)?;
                }
            }
            answered.clear();
        }
        served.rate /= duration.as_secs_f64();
        served.unanswered = self.busy();
        Ok(served)
    }

    /// This many a second, due at moments that no answer moves.
    pub(crate) fn open(&mut self, rate: f64, duration: Duration) -> Outcome<Served> {
        let mut clock = Clock::new(rate, self.rng.clone());
        self.rng.random::<u64>();
        let begin = Instant::now();
        let mut next = clock.next();
        let mut waiting = VecDeque::new();
        let mut free: VecDeque<usize> = (0..self.clients.len()).collect();
        let mut served = Served { latencies: Vec::new(), unanswered: 0, rate: 0.0 };
        let (mut answered, mut last) = (Vec::new(), begin);
        loop {
            let now = Instant::now();
            while next <= duration && begin + next <= now {
                waiting.push_back(begin + next);
                next = clock.next();
            }
            while let (Some(due), Some(at)) = (waiting.front(), free.front()) {
                let (due, at) = (*due, *at);
                waiting.pop_front();
                free.pop_front();
                self.ask(at, due)?;
            }
            let asked_all = next > duration;
            if asked_all && waiting.is_empty() && free.len() == self.clients.len() || now > begin + duration + DRAIN {
                break;
            }
            if !asked_all {
                self.wake_at(begin + next)?;
            }
            self.turn(Some(Duration::from_millis(100)), &mut answered, &mut served)?;
            if !answered.is_empty() {
                last = Instant::now();
            }
            free.extend(answered.drain(..));
        }
        served.unanswered = self.busy() + waiting.len();
        #[allow(clippy::cast_precision_loss)]
        let count = served.latencies.len() as f64;
        served.rate = count / (last - begin).max(Duration::from_millis(1)).as_secs_f64();
        Ok(served)
    }

    fn busy(&self) -> usize {
        self.clients.iter().filter(|client| client.due.is_some()).count()
    }

    fn ask(&mut self, at: usize, due: Instant) -> Outcome<()> {
        let account = self.rng.random_range(1..=ACCOUNTS);
        self.message.clear();
        put_front::query(&mut self.message, format!("SELECT abalance FROM pgbench_accounts WHERE aid = {account};"));
        let client = &mut self.clients[at];
        client.due = Some(due);
        // A short message into an empty socket: it fits, or the connection is broken.
        client.stream.write_all(&self.message).map_err(|e| Error::at(&self.name, e))
    }

    fn wake_at(&self, moment: Instant) -> Outcome<()> {
        // Zero would mean never.
        let after = moment.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let once = Expiration::OneShot(TimeSpec::from_duration(after));
        self.timer.set(once, TimerSetTimeFlags::empty()).map_err(|e| Error::at("set a timer", e))
    }

    /// Waits for input, and reads it; appends the clients that were answered.
    fn turn(&mut self, timeout: Option<Duration>, answered: &mut Vec<usize>, served: &mut Served) -> Outcome<()> {
        let mut events = Events::with_capacity(1024);
        match self.poll.poll(&mut events, timeout) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            polled => polled.map_err(|e| Error::at("wait for answers", e))?,
        }
        for event in &events {
            if event.token() == TIMER {
                // The timer's count of expirations says nothing that the clock does not.
                let _ = self.timer.wait();
                continue;
            }
            let at = event.token().0;
            if self.read(at)? {
                let now = Instant::now();
                if let Some(due) = self.clients[at].due.take() {
                    served.latencies.push(u32::try_from((now - due).as_micros()).unwrap_or(u32::MAX));
                    answered.push(at);
                }
            }
        }
        Ok(())
    }

    /// Whether an answer is complete.
    fn read(&mut self, at: usize) -> Outcome<bool> {
        let client = &mut self.clients[at];
        loop {
            match client.stream.read(&mut self.piece) {
                Ok(0) => return Err(Error::new(format!("{} closed a connection", self.name))),
                Ok(length) => {
                    let piece = &self.piece[..length];
                    if piece[0] == b'E' {
                        let said = String::from_utf8_lossy(piece).replace('\0', " ");
                        return Err(Error::new(format!("{}: a query failed: {said}", self.name)));
                    }
                    remember(&mut client.end, piece);
                    // A piece that did not fill the room has emptied the socket.
                    if length < self.piece.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(Error::at(&self.name, error)),
            }
        }
        let ready = client.end == READY;
        if ready {
            client.end = [0; READY.len()];
        }
        Ok(ready)
    }
}

/// Keeps the last bytes of the input so far.
fn remember(end: &mut [u8; READY.len()], piece: &[u8]) {
    if let Some(last) = piece.last_chunk() {
        *end = *last;
    } else {
        end.rotate_left(piece.len());
        let from = end.len() - piece.len();
        end[from..].copy_from_slice(piece);
    }
}

/// Moments at which independent requests arrive, at this rate per second: gaps are exponential, and independent.
struct Clock {
    at: f64,
    gap: f64,
    rng: SmallRng,
}

impl Clock {
    fn new(rate: f64, rng: SmallRng) -> Clock {
        Clock { at: 0.0, gap: 1.0 / rate.max(1e-3), rng }
    }

    /// Since the beginning.
    fn next(&mut self) -> Duration {
        // From 0 to 1, and never 0.
        let share = 1.0 - self.rng.random::<f64>();
        self.at -= share.ln() * self.gap;
        Duration::from_secs_f64(self.at)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn requests_arrive_at_the_rate_asked_for_and_the_same_ones_for_a_seed() {
        let moments = |seed| {
            let mut clock = Clock::new(1000.0, seeded(seed, 0));
            (0..20_000).map(|_| clock.next()).collect::<Vec<_>>()
        };
        let one = moments(1);
        assert!(one.is_sorted() && one == moments(1) && one != moments(2));
        let seconds = one.last().unwrap().as_secs_f64();
        assert!((18.0..22.0).contains(&seconds), "20,000 at 1,000 a second: {seconds}");
        let gaps: BTreeSet<_> = one.windows(2).map(|pair| (pair[1] - pair[0]).as_micros() / 500).collect();
        assert!(gaps.contains(&0) && gaps.contains(&4), "gaps differ: {gaps:?}");
    }

    #[test]
    fn the_end_of_an_answer_is_seen_in_pieces_too() {
        let mut end = [0; READY.len()];
        remember(&mut end, b"T....C");
        for byte in READY {
            assert_ne!(end, READY);
            remember(&mut end, &[byte]);
        }
        assert_eq!(end, READY);
        remember(&mut end, b"more than that");
        assert_eq!(&end, b"n that");
    }

    /// A fleet whose server answers every query at once, except that it pauses for a while at the first.
    fn fleet(clients: usize, stall: Duration) -> Fleet {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let poll = Poll::new().unwrap();
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_NONBLOCK).unwrap();
        let fd = timer.as_fd().as_raw_fd();
        poll.registry().register(&mut SourceFd(&fd), TIMER, Interest::READABLE).unwrap();
        let mut fleet = Vec::new();
        for at in 0..clients {
            let socket = Blocking::connect(address).unwrap();
            socket.set_nonblocking(true).unwrap();
            let mut stream = TcpStream::from_std(socket);
            poll.registry().register(&mut stream, Token(at), Interest::READABLE).unwrap();
            fleet.push(Client { stream, due: None, end: [0; READY.len()] });
            let (mut server, _) = listener.accept().unwrap();
            thread::spawn(move || {
                let mut question = [0; 4096];
                let mut stall = Some(stall);
                while server.read(&mut question).is_ok_and(|length| length > 0) {
                    thread::sleep(stall.take().unwrap_or_default());
                    server.write_all(&READY).unwrap();
                }
            });
        }
        let (rng, message) = (seeded(1, 0), Vec::new());
        Fleet { name: "test".to_owned(), poll, timer, clients: fleet, rng, message, piece: vec![0; 16384] }
    }

    #[test]
    fn a_latency_begins_when_its_query_was_due_and_not_when_it_was_sent() {
        let served = fleet(1, Duration::from_millis(300)).open(200.0, Duration::from_millis(600)).unwrap();
        assert_eq!(served.unanswered, 0);
        // The first answer takes 300 ms, in which about 60 queries become due: half of them have waited for 150 ms or
        // more.
        let late = served.latencies.iter().filter(|micros| **micros >= 140_000).count();
        assert!(late >= 15, "{late} of {}", served.latencies.len());
        assert!((60..=180).contains(&served.latencies.len()), "{}", served.latencies.len());
    }

    #[test]
    fn in_a_closed_loop_every_query_is_answered() {
        let served = fleet(3, Duration::from_millis(1)).closed(Duration::from_millis(200)).unwrap();
        assert!(served.unanswered == 0 && served.latencies.len() > 10 && served.rate > 10.0, "{served:?}");
    }
}
