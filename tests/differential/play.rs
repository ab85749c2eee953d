//! Plays a script directly and through Weir, in step: each wait is read from PostgreSQL first, and as many messages are
//! wanted from Weir.
//!
//! Must not know what a script is about. What was sent goes out in pieces that are cut at random places, so that neither
//! side can count on where a message begins.

use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error, Frame};
use weir_pgwire::tag::back;
use weir_tests::{Rng, Site, tell, users};

use crate::compare::{EXEMPTIONS, Oids, Verdict, compare};
use crate::message::{Message, Sender};
use crate::owed::Owed;
use crate::script::{Script, Step, Wait};

/// How long an answer may take before it counts as missing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);

/// Both ways to the same PostgreSQL.
#[derive(Clone, Copy)]
pub(crate) struct Stage<'a> {
    pub(crate) direct: &'a Site,
    pub(crate) weir: &'a Site,
    /// The number of the client that plays, and of its schema; each further client of a script plays under it too.
    pub(crate) number: usize,
    pub(crate) patience: Duration,
}

/// What came of a script.
#[derive(Debug, Default)]
pub(crate) struct Played {
    pub(crate) sent: u64,
    pub(crate) heard: u64,
    /// Bytes of the answers that were compared.
    pub(crate) bytes: u64,
    /// How often each entry of [`EXEMPTIONS`] was made use of.
    pub(crate) exempt: [u64; EXEMPTIONS.len()],
    /// Everything that was said, in order.
    pub(crate) log: Vec<Said>,
    pub(crate) end: End,
}

/// How it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum End {
    #[default]
    Alike,
    /// The first two answers that differ.
    Differ { direct: String, weir: String },
    /// PostgreSQL alone did not answer: the script waits for what can't come.
    Mute,
}

/// A line of the log.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Client { step: usize, line: String },
    Servers { direct: String, weir: String, at: [u64; 2] },
}

/// What one side answered.
#[derive(Clone, Debug)]
enum Heard {
    Frame(Frame),
    Byte(u8),
    Closed,
    Silence,
}

impl Heard {
    fn text(&self) -> String {
        match self {
            Heard::Frame(frame) => tell(frame),
            Heard::Byte(byte) => format!("byte {:?}", char::from(*byte)),
            Heard::Closed => "the connection has ended".into(),
            Heard::Silence => "nothing".into(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Heard::Frame(frame) => frame.body.len() as u64 + 5,
            Heard::Byte(_) => 1,
            Heard::Closed | Heard::Silence => 0,
        }
    }
}

/// One client, twice.
struct Pair {
    name: String,
    direct: Side,
    weir: Side,
    owed: Owed,
    pending: Vec<Message>,
    closed: bool,
}

/// One client's connection on one side.
struct Side {
    connection: Connection,
    database: String,
    oids: Oids,
    at: u64,
    patience: Duration,
}

impl Side {
    fn open(site: &Site, patience: Duration) -> Side {
        let params = site.params_of(users::TRUSTED);
        let connection = Connection::open(&params).unwrap_or_else(|error| panic!("connect: {error}"));
        Side { connection, database: params.database, oids: Oids::default(), at: 0, patience }
    }

    fn send(&mut self, messages: &[Message], number: usize, rng: &mut Rng) {
        let mut bytes = Vec::new();
        let sender = Sender { user: users::TRUSTED.name, database: &self.database, number };
        messages.iter().for_each(|message| message.put(&mut bytes, sender));
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let cut = if rng.one_in(2) { rest.len() } else { rng.below(rest.len().min(4_000)) + 1 };
            // A side that has closed the connection says so when it is read.
            if self.connection.send_bytes(&rest[..cut]).is_err() {
                return;
            }
            rest = &rest[cut..];
            if rng.one_in(8) {
                thread::sleep(Duration::from_micros(200));
            }
        }
    }

    fn hear(&mut self, wait: &Wait) -> Heard {
        let heard = if *wait == Wait::Byte {
            self.connection.read_bytes(self.patience).map(|bytes| Heard::Byte(bytes[0]))
        } else {
            self.connection.read_frame(self.patience).map(|frame| Heard::Frame(self.oids.numbered(&frame)))
        };
        heard.unwrap_or_else(|error| if matches!(error, Error::Timeout) { Heard::Silence } else { Heard::Closed })
    }
}

/// Whether a wait is over, and `frame` was the last that was heard.
fn is_over(wait: &Wait, owed: &Owed, last: Option<&Heard>) -> bool {
    match (wait, last) {
        (_, Some(Heard::Closed | Heard::Silence)) | (Wait::Byte, Some(_)) => true,
        (Wait::Byte | Wait::End, _) => false,
        (Wait::Ready, _) => !owed.ready(),
        // What was sent is skipped up to a Sync.
        (Wait::For(_), _) if !owed.anything() => true,
        (Wait::For(tags), Some(Heard::Frame(frame))) => {
            tags.contains(&frame.tag) || matches!(frame.tag, back::ERROR | back::READY) && !owed.ready()
        }
        (Wait::For(_), _) => false,
    }
}

/// Plays a script; the seed decides where its bytes are cut.
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
        player.goodbye(script.steps.len());
    }
    player.played
}

struct Player<'a> {
    stage: Stage<'a>,
    rng: Rng,
    pairs: Vec<Pair>,
    /// Who speaks.
    now: usize,
    played: Played,
}

impl Player<'_> {
    fn client(&mut self, name: &str) {
        if let Some(known) = self.pairs.iter().position(|pair| pair.name == name) {
            self.now = known;
            return;
        }
        // The first client is only there if it says something before another is called.
        if self.pairs.len() == 1 && self.pairs[0].pending.is_empty() && self.played.sent == 0 {
            self.pairs[0].name = name.to_owned();
            return;
        }
        let Stage { direct, weir, patience, .. } = self.stage;
        self.now = self.pairs.len();
        self.pairs.push(Pair {
            name: name.to_owned(),
            direct: Side::open(direct, patience),
            weir: Side::open(weir, patience),
            owed: Owed::default(),
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
        self.played.log.push(Said::Client { step, line: format!("{name}{}", message.line()) });
        pair.owed.sent(&message);
        pair.pending.push(message);
    }

    fn wait(&mut self, wait: &Wait) {
        let pair = &mut self.pairs[self.now];
        let messages = std::mem::take(&mut pair.pending);
        pair.direct.send(&messages, self.stage.number, &mut self.rng);
        pair.weir.send(&messages, self.stage.number, &mut self.rng);
        let mut direct: Vec<Heard> = Vec::new();
        while !pair.closed && !is_over(wait, &pair.owed, direct.last()) {
            let heard = pair.direct.hear(wait);
            if let Heard::Frame(frame) = &heard {
                pair.owed.heard(frame.tag);
            }
            pair.closed = matches!(heard, Heard::Closed);
            direct.push(heard);
        }
        for direct in direct {
            let pair = &mut self.pairs[self.now];
            let weir = pair.weir.hear(wait);
            let at = [pair.direct.at, pair.weir.at];
            pair.direct.at += direct.bytes();
            pair.weir.at += weir.bytes();
            if !self.note(&direct, &weir, at) {
                return;
            }
        }
    }

    /// Compares two answers; false ends the play.
    fn note(&mut self, direct: &Heard, weir: &Heard, at: [u64; 2]) -> bool {
        let verdict = match (direct, weir) {
            (Heard::Frame(direct), Heard::Frame(weir)) => compare(direct, weir),
            (Heard::Byte(direct), Heard::Byte(weir)) if direct == weir => Verdict::Alike,
            (Heard::Closed, Heard::Closed) => Verdict::Alike,
            _ => Verdict::Differ,
        };
        let (mut texts, played) = ([direct.text(), weir.text()], &mut self.played);
        if verdict == Verdict::Differ && texts[0] == texts[1] {
            // Every byte then, since what is usually told is the same.
            let bytes = |heard: &Heard| {
                if let Heard::Frame(f) = heard { f.body.escape_ascii().to_string() } else { String::new() }
            };
            texts = [format!("{} {}", texts[0], bytes(direct)), format!("{} {}", texts[1], bytes(weir))];
        }
        let [direct_text, weir_text] = texts;
        played.heard += 1;
        played.bytes += direct.bytes();
        played.log.push(Said::Servers { direct: direct_text.clone(), weir: weir_text.clone(), at });
        match verdict {
            Verdict::Alike => {}
            Verdict::Exempt(entry) => played.exempt[entry] += 1,
            Verdict::Differ if matches!(direct, Heard::Silence) => played.end = End::Mute,
            Verdict::Differ => played.end = End::Differ { direct: direct_text, weir: weir_text },
        }
        played.end == End::Alike
    }

    /// Says goodbye, and hears what is left.
    fn goodbye(&mut self, step: usize) {
        let pair = &self.pairs[self.now];
        if pair.closed || self.played.end != End::Alike {
            return;
        }
        self.send(step, Message::Terminate);
        self.wait(&Wait::End);
    }
}
