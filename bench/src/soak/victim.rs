//! Victims: connections that are cut at any byte, in every way in which a connection can end.
//!
//! A victim sends a part of what the others send too, reads a part of the answers, and is gone. What it reads must be
//! its own, like everybody's.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use rand::Rng;
use socket2::SockRef;
use weir_pgclient::{Address, Frame};
use weir_pgwire::{HEAD, Head, put_front, tag::back};

use super::batch::Script;
use super::scripts;
use super::session::{Actor, Statements, row};
use super::tally::{Trouble, add};
use crate::rng::pick;
use crate::setup::{Mode, USER};

/// How long a victim waits for its login at the most; one that waits longer dies waiting.
const TIMEOUT: Duration = Duration::from_millis(400);

/// How a connection ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// Closed in order, with no goodbye.
    Fin,
    /// Reset: SO_LINGER of no time.
    Reset,
    /// Our half is closed; what still comes is read for a while.
    Half,
}

/// One life and death.
pub(super) fn die(actor: &mut Actor<'_>) -> Result<(), Trouble> {
    let Some(mut socket) = connect(actor) else { return Ok(()) };
    let mut hello = Vec::new();
    if actor.rng.random_ratio(20, 100) {
        put_front::ssl_request(&mut hello);
    }
    let asks_tls = !hello.is_empty();
    let database = super::world::POOLS[actor.pool].name;
    let database = if actor.world.promises.console { database } else { USER };
    put_front::startup(&mut hello, &[("user", USER), ("database", database), ("application_name", "victim")], 0);
    let outcome = if actor.rng.random_ratio(12, 100) {
        let cut = actor.rng.random_range(0..hello.len());
        let _ = socket.write_all(&hello[..cut]);
        Ok(())
    } else {
        let _ = socket.write_all(&hello);
        live(actor, &mut socket, asks_tls)
    };
    end(actor, socket);
    add(&actor.world.tally.counts.cut);
    outcome
}

fn connect(actor: &Actor<'_>) -> Option<TcpStream> {
    let Address::Tcp { port, .. } = &actor.world.params(actor.pool).address else { return None };
    let socket = TcpStream::connect_timeout(&SocketAddr::from(([127, 0, 0, 1], *port)), TIMEOUT).ok()?;
    socket.set_nodelay(true).ok()?;
    socket.set_read_timeout(Some(TIMEOUT)).ok()?;
    socket.set_write_timeout(Some(TIMEOUT)).ok()?;
    Some(socket)
}

/// Logs in, sends a part of a script, reads a part of the answers.
fn live(actor: &mut Actor<'_>, socket: &mut TcpStream, asks_tls: bool) -> Result<(), Trouble> {
    let mut incoming = Incoming::default();
    if asks_tls && incoming.skip_one_byte(socket).is_none() {
        return Ok(());
    }
    if !incoming.until_ready(socket)? {
        return Ok(());
    }
    let own = format!("c{}.", actor.id);
    let bytes: Vec<u8> = last_words(actor).iter().flat_map(|batch| batch.bytes.iter().copied()).collect();
    let whole = actor.rng.random_ratio(15, 100);
    let cut = if whole { bytes.len() } else { actor.rng.random_range(0..bytes.len()) };
    let half = actor.rng.random_range(0..cut.max(1));
    let _ = socket.write_all(&bytes[..half]);
    if actor.rng.random_ratio(50, 100) {
        thread::sleep(Duration::from_micros(actor.rng.random_range(0..=15_000)));
    }
    let _ = socket.write_all(&bytes[half..cut]);
    let _ = socket.set_read_timeout(Some(Duration::from_millis(actor.rng.random_range(1..=40))));
    for _ in 0..actor.rng.random_range(0..=30) {
        if !incoming.own_frame(socket, &own)? {
            break;
        }
    }
    Ok(())
}

/// What a victim is about to say.
fn last_words(actor: &mut Actor<'_>) -> Script {
    let statements = &mut Statements::new();
    let transactions = actor.world.mode(actor.pool) != Mode::Statement;
    let names = actor.world.keeps_statements(actor.pool);
    match actor.rng.random_range(0..=9) {
        0 => scripts::simple(actor, statements),
        1 => scripts::hasty(actor, statements),
        2 | 3 => scripts::pipeline(actor, statements),
        4 if names => scripts::named(actor, statements),
        5 | 6 if transactions => scripts::transaction(actor, statements),
        7 => scripts::copy_in(actor, statements),
        8 => scripts::big(actor, statements),
        9 => scripts::copy_out(actor, statements),
        _ => scripts::extended(actor, statements),
    }
}

fn end(actor: &mut Actor<'_>, mut socket: TcpStream) {
    match *pick(&mut actor.rng, &[End::Fin, End::Reset, End::Reset, End::Half]) {
        End::Fin => {}
        End::Reset => {
            let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
        }
        End::Half => {
            let _ = socket.shutdown(Shutdown::Write);
            let mut sink = [0; 16 * 1024];
            // An end within this time is what we wait for; without one the victim closes the other half too.
            for _ in 0..64 {
                if !matches!(socket.read(&mut sink), Ok(1..)) {
                    break;
                }
            }
        }
    }
}

/// What came and is not yet looked at.
#[derive(Debug, Default)]
struct Incoming {
    bytes: Vec<u8>,
}

impl Incoming {
    /// The answer to SSLRequest.
    fn skip_one_byte(&mut self, socket: &mut TcpStream) -> Option<()> {
        let mut byte = [0];
        socket.read_exact(&mut byte).ok()
    }

    /// Reads up to ReadyForQuery; `false` if it does not come.
    fn until_ready(&mut self, socket: &mut TcpStream) -> Result<bool, Trouble> {
        while let Some(frame) = self.frame(socket)? {
            match frame.tag {
                back::READY => return Ok(true),
                back::ERROR => return Ok(false),
                back::DATA_ROW => return Err(Trouble::Wrong(format!("a row before its query: {:?}", row(&frame)))),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Reads one message; a row must be ours. `false` if none comes.
    fn own_frame(&mut self, socket: &mut TcpStream, own: &str) -> Result<bool, Trouble> {
        let Some(frame) = self.frame(socket)? else { return Ok(false) };
        let first = row(&frame).into_iter().next();
        // What a statement of a shared text answers is no secret.
        let good = first.is_none_or(|first| first.starts_with(own) || first.starts_with("shared-"));
        if good {
            Ok(true)
        } else {
            Err(Trouble::Wrong(format!("a victim read another client's row {:?}", row(&frame))))
        }
    }

    fn frame(&mut self, socket: &mut TcpStream) -> Result<Option<Frame>, Trouble> {
        let mut chunk = [0; 16 * 1024];
        loop {
            let head = Head::parse(&self.bytes).map_err(|error| Trouble::Wrong(format!("a victim read {error}")))?;
            if let Some(head) = head.filter(|head| self.bytes.len() >= head.total()) {
                let body = self.bytes[HEAD..head.total()].to_vec();
                self.bytes.drain(..head.total());
                return Ok(Some(Frame { tag: head.tag, body }));
            }
            match socket.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(count) => self.bytes.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Ok(None),
            }
        }
    }
}
