//! A client's connection, what it knows about itself, and the reading of replies against what must come.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use rand::Rng;
use rand::rngs::SmallRng;
use weir_pgclient::{Connection, Error, Frame, ServerErrorFields};
use weir_pgwire::{TxStatus, backend, tag::back};

use super::batch::{Batch, Expect, Script};
use super::tally::{Trouble, add};
use super::world::{PoolId, Presence, World};
use crate::rng::seeded;

/// The longest that any answer may take, waiting in a queue and a PAUSE included.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Parameters that follow a client; the last one only where the pooler is configured so.
pub(super) const TRACKED: [&str; 4] = ["application_name", "TimeZone", "DateStyle", "IntervalStyle"];

/// The actor: a client's number, its choices, and its tokens.
#[derive(Debug)]
pub(super) struct Actor<'w> {
    pub(super) world: &'w World,
    pub(super) id: u64,
    pub(super) pool: PoolId,
    pub(super) rng: SmallRng,
    sequence: u64,
}

impl<'w> Actor<'w> {
    pub(super) fn new(world: &'w World, id: u64) -> Actor<'w> {
        Actor { world, id, pool: World::pool_of(id), rng: seeded(world.seed, id), sequence: 0 }
    }

    /// What only this client knows, once.
    pub(super) fn token(&mut self) -> String {
        self.sequence += 1;
        format!("c{}.{}.{:x}", self.id, self.sequence, self.rng.random::<u64>() >> 40)
    }

    pub(super) fn tokens(&mut self, count: u64) -> Vec<String> {
        (0..count).map(|_| self.token()).collect()
    }

    pub(super) fn name(&self) -> String {
        format!("c{}", self.id)
    }
}

/// Prepared statements by name, with the constant that each answers.
pub(super) type Statements = BTreeMap<String, String>;

/// A connection that is logged in.
#[derive(Debug)]
pub(super) struct Session<'w> {
    pub(super) connection: Connection,
    pub(super) statements: Statements,
    /// The tracked parameters as they must be.
    pub(super) parameters: BTreeMap<&'static str, String>,
    /// Settings that a client of its own server may rely on, and no other client sees.
    pub(super) work_mem: Option<String>,
    /// The server's process, as long as a script must stay on it.
    pin: Option<String>,
    _presence: Presence<'w>,
}

impl<'w> Session<'w> {
    /// Logs in.
    pub(super) fn open(actor: &mut Actor<'w>) -> Result<Session<'w>, Trouble> {
        let own_name = format!("soak-{}", actor.id);
        let params = actor.world.params(actor.pool).clone().timeout(TIMEOUT);
        let connection = Connection::connect(&params.option("application_name", &own_name))?;
        add(&actor.world.tally.counts.logins);
        let reported = |name: &&'static str| Some((*name, connection.parameter(name)?.to_owned()));
        let parameters: BTreeMap<_, _> = TRACKED.iter().filter_map(reported).collect();
        let presence = actor.world.enter(actor.pool);
        let statements = Statements::new();
        Ok(Session { connection, statements, parameters, work_mem: None, pin: None, _presence: presence })
    }

    /// Runs a script: each batch is sent, and all its replies are read, in order and to the last.
    pub(super) fn run(&mut self, actor: &mut Actor<'_>, script: Script) -> Result<(), Trouble> {
        self.pin = None;
        for batch in script {
            self.send(&mut actor.rng, &batch.bytes)?;
            self.read_all(&batch)?;
            if batch.status() != TxStatus::Idle && actor.rng.random_ratio(30, 100) {
                thread::sleep(Duration::from_micros(actor.rng.random_range(50..=5000)));
            }
        }
        Ok(())
    }

    /// One batch.
    pub(super) fn run_one(&mut self, actor: &mut Actor<'_>, batch: Batch) -> Result<(), Trouble> {
        self.run(actor, vec![batch])
    }

    /// Sends bytes, now and then in pieces that respect no message.
    pub(super) fn send(&mut self, rng: &mut SmallRng, bytes: &[u8]) -> Result<(), Trouble> {
        let mut rest = bytes;
        while rest.len() > 1 && rng.random_ratio(15, 100) {
            let (piece, others) = rest.split_at(1 + rng.random_range(0..rest.len() - 1));
            self.connection.send_bytes(piece)?;
            thread::sleep(Duration::from_micros(rng.random_range(10..=2000)));
            rest = others;
        }
        Ok(self.connection.send_bytes(rest)?)
    }

    pub(super) fn read_all(&mut self, batch: &Batch) -> Result<(), Trouble> {
        batch.expected.iter().try_for_each(|what| self.read(what))
    }

    /// The next message that is a reply: parameters, notices and notifications may come between any two.
    pub(super) fn reply(&mut self) -> Result<Frame, Trouble> {
        loop {
            let frame = self.connection.read_frame(TIMEOUT)?;
            if !matches!(frame.tag, back::PARAMETER_STATUS | back::NOTICE | back::NOTIFICATION) {
                return Ok(frame);
            }
        }
    }

    fn read(&mut self, what: &Expect) -> Result<(), Trouble> {
        match what {
            Expect::Stream { token, rows, width, slowly } => self.read_stream(token, *rows, *width, *slowly),
            Expect::Pinned(token) => self.read_pinned(token),
            _ => {
                let frame = self.reply()?;
                match matches(&frame, what) {
                    true => Ok(()),
                    false => Err(surprise(&frame, what)),
                }
            }
        }
    }

    fn read_pinned(&mut self, token: &str) -> Result<(), Trouble> {
        let frame = self.reply()?;
        let values = row(&frame);
        let [first, pid] = values.as_slice() else { return Err(surprise(&frame, &token)) };
        if first != token {
            return Err(surprise(&frame, &token));
        }
        match self.pin.replace(pid.clone()) {
            Some(before) if before != *pid => {
                Err(Trouble::Wrong(format!("a transaction moved from server {before} to {pid}")))
            }
            _ => Ok(()),
        }
    }

    fn read_stream(&mut self, token: &str, rows: u64, width: usize, slowly: bool) -> Result<(), Trouble> {
        for n in 1..=rows {
            let frame = self.reply()?;
            let values = row(&frame);
            let good = values.len() == 3
                && values[0] == token
                && values[1] == n.to_string()
                && values[2].len() == width
                && values[2].bytes().all(|byte| byte == b'x');
            if !good {
                return Err(surprise(&frame, &format_args!("row {n} of {token}")));
            }
            if slowly && n % 200 == 0 {
                thread::sleep(Duration::from_millis(5));
            }
        }
        Ok(())
    }

    /// Between two acts: no transaction is open, and no message of another client has arrived.
    pub(super) fn check_rest(&mut self, actor: &Actor<'_>) -> Result<(), Trouble> {
        if self.connection.status() != TxStatus::Idle {
            return Err(Trouble::Wrong(format!("left in a transaction: {:?}", self.connection.status())));
        }
        let own = format!("c{}.", actor.id);
        for notice in self.connection.take_notices() {
            if notice.message.strip_prefix("note ").is_some_and(|token| !token.starts_with(&own)) {
                return Err(Trouble::Wrong(format!("another client's notice: {}", notice.message)));
            }
        }
        match self.connection.take_notifications().iter().find(|(_, payload)| !payload.starts_with(&own)) {
            Some((channel, payload)) => {
                Err(Trouble::Wrong(format!("another client's notification: {channel} {payload}")))
            }
            None => Ok(()),
        }
    }

    /// Says goodbye.
    pub(super) fn close(self) {
        // A connection that has broken needs no Terminate.
        let _ = self.connection.close();
    }
}

fn matches(frame: &Frame, what: &Expect) -> bool {
    match what {
        Expect::Tag(tag) => frame.tag == *tag,
        Expect::Row(values) => frame.tag == back::DATA_ROW && row(frame) == *values,
        Expect::CopyLine(line) => frame.tag == back::COPY_DATA && frame.body == line.as_bytes(),
        Expect::Complete(tag) => {
            frame.tag == back::COMMAND_COMPLETE
                && backend::command_tag(&frame.body).is_ok_and(|is| is == tag.as_bytes())
        }
        Expect::Returned(value) => {
            let returned = || backend::function_result(&frame.body).ok().flatten();
            frame.tag == back::FUNCTION_RESULT && returned() == Some(value.as_bytes())
        }
        Expect::Error { sqlstate, has } => {
            error(frame).is_some_and(|error| error.sqlstate == *sqlstate && (error.message.contains(has.as_str())))
        }
        Expect::Ready(status) => frame.tag == back::READY && backend::ready(&frame.body).is_ok_and(|is| is == *status),
        // Read by functions of their own.
        Expect::Pinned(_) | Expect::Stream { .. } => false,
    }
}

/// The problem with a message that is not the expected one: for an error, its own text.
fn surprise(frame: &Frame, expected: &dyn std::fmt::Debug) -> Trouble {
    match error(frame) {
        Some(error) => match Trouble::from(error) {
            Trouble::Strange(text) => Trouble::Strange(format!("{text} instead of {expected:?}")),
            trouble => trouble,
        },
        None => {
            let body = String::from_utf8_lossy(&frame.body[..frame.body.len().min(120)]).into_owned();
            Trouble::Wrong(format!("'{}' {body:?} instead of {expected:?}", char::from(frame.tag)))
        }
    }
}

pub(super) fn error(frame: &Frame) -> Option<ServerErrorFields> {
    if frame.tag == back::ERROR { ServerErrorFields::read(&frame.body).ok() } else { None }
}

/// The values of a row as text, NULL as nothing; none if it is no row.
pub(super) fn row(frame: &Frame) -> Vec<String> {
    let text =
        |value: Option<&[u8]>| value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
    match backend::data_row(&frame.body) {
        Ok(values) if frame.tag == back::DATA_ROW => values.map(text).collect(),
        _ => Vec::new(),
    }
}

/// Whether a connection was ended by a peer, and not by a fault of this program.
pub(super) fn is_end(error: &Error) -> bool {
    matches!(error, Error::Closed | Error::Io(_))
}
