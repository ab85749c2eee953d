//! Plays a script directly and through Weir, in step: each wait reads PostgreSQL first, then the same number of
//! messages from Weir.
//!
//! Knows nothing about the contents of a script. Messages are sent in pieces that are cut at random places, so that
//! neither side can rely on where a message begins.

use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error, Frame};
use weir_pgwire::tag::back;
use weir_tests::{Rng, Site, line_of, users};

use crate::compare::{Comparison, EXEMPTIONS, Oids, compare};
use crate::message::{Message, Sender};
use crate::pending::PendingReplies;
use crate::script::{Script, Step, Wait};

/// The timeout for an answer.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(40);

/// The client of this name is connected to the server behind Weir, on both sides. It can't be a script's first.
pub(crate) const PAST_THE_POOL: &str = "past";

/// How a client is connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    Usual,
    PastThePool,
}

/// Both ways to the same PostgreSQL.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) direct: &'a Site,
    pub(crate) weir: &'a Site,
    /// The number of the playing client, and of its schema; further clients of the script use the same number.
    pub(crate) number: usize,
    pub(crate) timeout: Duration,
}

/// The result of a script.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Bytes of the compared answers.
    pub(crate) bytes: u64,
    /// How often each entry of [`EXEMPTIONS`] was used.
    pub(crate) exempt: [u64; EXEMPTIONS.len()],
    /// All messages, in order.
    pub(crate) log: Vec<LogLine>,
    pub(crate) end: End,
}

/// The end of a play.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    Alike,
    /// The first two answers that differ.
    Differ { direct: String, weir: String },
    /// PostgreSQL alone did not answer: the script waits for messages that can't arrive.
    NoAnswer,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) enum LogLine {
    Client { step: usize, line: String },
    Servers { direct: String, weir: String, at: [u64; 2] },
}

/// The answer of one side.
#[derive(Clone, Debug)]
enum Reply {
    Frame(Frame),
    Byte(u8),
    Closed,
    Silence,
}

impl Reply {
    fn text(&self) -> String {
        match self {
            Reply::Frame(frame) => line_of(frame),
            Reply::Byte(byte) => format!("byte {:?}", char::from(*byte)),
            Reply::Closed => "the connection has ended".into(),
            Reply::Silence => "nothing".into(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Reply::Frame(frame) => frame.body.len() as u64 + 5,
            Reply::Byte(_) => 1,
            Reply::Closed | Reply::Silence => 0,
        }
    }
}

/// One client with its two connections.
struct Pair {
    name: String,
    direct: Side,
    weir: Side,
    expected: PendingReplies,
    pending: Vec<Message>,
    closed: bool,
}

/// One client's connection on one side.
struct Side {
    connection: Connection,
    database: String,
    oids: Oids,
    at: u64,
    timeout: Duration,
}

impl Side {
    fn open(site: &Site, timeout: Duration, way: Way) -> Side {
        let database = site.database();
        let params = match way {
            Way::Usual => site.params_of(users::TRUSTED),
            Way::PastThePool => database.postgres().params(users::TRUSTED, database.name()),
        };
        let connection = Connection::open(&params).unwrap_or_else(|error| panic!("connect: {error}"));
        Side { connection, database: params.database, oids: Oids::default(), at: 0, timeout }
    }

    fn send(&mut self, messages: &[Message], number: usize, rng: &mut Rng) {
        let mut bytes = Vec::new();
        let sender = Sender { user: users::TRUSTED.name, database: &self.database, number };
        messages.iter().for_each(|message| message.put(&mut bytes, sender));
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let cut = if rng.one_in(2) { rest.len() } else { rng.below(rest.len().min(4_000)) + 1 };
            // If the side has closed the connection, reading reports it.
            if self.connection.send_bytes(&rest[..cut]).is_err() {
                return;
            }
            rest = &rest[cut..];
            if rng.one_in(8) {
                thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn read_reply(&mut self, wait: &Wait) -> Reply {
        let received = if *wait == Wait::Byte {
            self.connection.read_bytes(self.timeout).map(|bytes| Reply::Byte(bytes[0]))
        } else {
            self.connection.read_frame(self.timeout).map(|frame| Reply::Frame(self.oids.numbered(&frame)))
        };
        received.unwrap_or_else(|error| if matches!(error, Error::Timeout) { Reply::Silence } else { Reply::Closed })
    }
}

/// Whether a wait is over; `last` is the last reply.
fn is_over(wait: &Wait, replies: &PendingReplies, last: Option<&Reply>) -> bool {
    match (wait, last) {
        (_, Some(Reply::Closed | Reply::Silence)) | (Wait::Byte, Some(_)) => true,
        (Wait::Byte | Wait::End, _) => false,
        (Wait::Notified, last) => matches!(last, Some(Reply::Frame(frame)) if frame.tag == back::NOTIFICATION),
        (Wait::Ready, _) => !replies.ready(),
        // Messages were skipped up to a Sync.
        (Wait::For(_), _) if !replies.anything() => true,
        (Wait::For(tags), Some(Reply::Frame(frame))) => {
            tags.contains(&frame.tag) || matches!(frame.tag, back::ERROR | back::READY) && !replies.ready()
        }
        (Wait::For(_), _) => false,
    }
}

/// Plays a script; the seed decides where the bytes are cut.
pub(crate) fn play(script: &Script, stage: Stage<'_>, seed: u64) -> Played {
    let mut player = Player { stage, rng: Rng::new(seed), pairs: Vec::new(), now: 0, played: Played::default() };
    player.client("");
    for (number, step) in script.steps.iter().enumerate() {
        match step {
            Step::Client(name) => player.client(name),
            Step::Send(message) => player.send(number, message.clone()),
            Step::Wait(wait) => player.wait(wait),
        }
        if player.played.end != End::Alike {
            return player.played;
        }
    }
    for now in 0..player.pairs.len() {
        player.now = now;
        player.finish(script.steps.len());
    }
    player.played
}

struct Player<'a> {
    stage: Stage<'a>,
    rng: Rng,
    pairs: Vec<Pair>,
    /// The current client.
    now: usize,
    played: Played,
}

impl Player<'_> {
    fn client(&mut self, name: &str) {
        if let Some(known) = self.pairs.iter().position(|pair| pair.name == name) {
            self.now = known;
            return;
        }
        // The first client only exists if it sends something before another one is named.
        if self.pairs.len() == 1 && self.pairs[0].pending.is_empty() && self.played.sent == 0 {
            self.pairs[0].name = name.to_owned();
            return;
        }
        let Stage { direct, weir, timeout, .. } = self.stage;
        let way = if name == PAST_THE_POOL { Way::PastThePool } else { Way::Usual };
        self.now = self.pairs.len();
        self.pairs.push(Pair {
            name: name.to_owned(),
            direct: Side::open(direct, timeout, way),
            weir: Side::open(weir, timeout, way),
            expected: PendingReplies::default(),
            pending: Vec::new(),
            closed: false,
        });
    }

    fn send(&mut self, step: usize, message: Message) {
        let pair = &mut self.pairs[self.now];
        if pair.closed {
            return;
        }
        let name = if pair.name.is_empty() { String::new() } else { format!("{}: ", pair.name) };
        self.played.sent += 1;
        self.played.log.push(LogLine::Client { step, line: format!("{name}{}", message.line()) });
        pair.expected.sent(&message);
        pair.pending.push(message);
    }

    fn wait(&mut self, wait: &Wait) {
        let pair = &mut self.pairs[self.now];
        let messages = std::mem::take(&mut pair.pending);
        pair.direct.send(&messages, self.stage.number, &mut self.rng);
        pair.weir.send(&messages, self.stage.number, &mut self.rng);
        let mut direct: Vec<Reply> = Vec::new();
        while !pair.closed && !is_over(wait, &pair.expected, direct.last()) {
            let received = pair.direct.read_reply(wait);
            if let Reply::Frame(frame) = &received {
                pair.expected.received(frame.tag);
            }
            pair.closed = matches!(received, Reply::Closed);
            direct.push(received);
        }
        for direct in direct {
            let pair = &mut self.pairs[self.now];
            let weir = pair.weir.read_reply(wait);
            let at = [pair.direct.at, pair.weir.at];
            pair.direct.at += direct.bytes();
            pair.weir.at += weir.bytes();
            if !self.note(&direct, &weir, at) {
                return;
            }
        }
    }

    /// Compares two answers; false ends the play.
    fn note(&mut self, direct: &Reply, weir: &Reply, at: [u64; 2]) -> bool {
        let verdict = match (direct, weir) {
            (Reply::Frame(direct), Reply::Frame(weir)) => compare(direct, weir),
            (Reply::Byte(direct), Reply::Byte(weir)) if direct == weir => Comparison::Alike,
            (Reply::Closed, Reply::Closed) => Comparison::Alike,
            _ => Comparison::Differ,
        };
        let (mut texts, played) = ([direct.text(), weir.text()], &mut self.played);
        if verdict == Comparison::Differ && texts[0] == texts[1] {
            // All bytes are shown, since the usual text is the same.
            let bytes = |received: &Reply| {
                if let Reply::Frame(f) = received { f.body.escape_ascii().to_string() } else { String::new() }
            };
            texts = [format!("{} {}", texts[0], bytes(direct)), format!("{} {}", texts[1], bytes(weir))];
        }
        let [direct_text, weir_text] = texts;
        played.received += 1;
        played.bytes += direct.bytes();
        played.log.push(LogLine::Servers { direct: direct_text.clone(), weir: weir_text.clone(), at });
        match verdict {
            Comparison::Alike => {}
            Comparison::Exempt(entry) => played.exempt[entry] += 1,
            Comparison::Differ if matches!(direct, Reply::Silence) => played.end = End::NoAnswer,
            Comparison::Differ => played.end = End::Differ { direct: direct_text, weir: weir_text },
        }
        played.end == End::Alike
    }

    /// Sends Terminate, and reads the remaining answers.
    fn finish(&mut self, step: usize) {
        let pair = &self.pairs[self.now];
        if pair.closed || self.played.end != End::Alike {
            return;
        }
        self.send(step, Message::Terminate);
        self.wait(&Wait::End);
    }
}
