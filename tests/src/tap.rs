//! A proxy between Weir and PostgreSQL that records what Weir sends. It can hold up or refuse logins and cancel
//! requests, and send messages in the server's place.
//!
//! Owns a listener and two threads per connection, which end with the process. The proxy does not know what Weir should
//! do. It declines requests for encryption, so that it can read the messages.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use weir_pgwire::{First, Head, frontend, startup, tag};

use crate::postgres::Postgres;
use crate::wire::body_text;

/// A recording proxy in front of one PostgreSQL.
#[derive(Clone, Debug)]
pub struct Tap {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: u16,
    state: Mutex<State>,
    changed: Condvar,
    logins: AtomicUsize,
    /// Cancel requests so far, and those that are not finished.
    cancels: AtomicUsize,
    cancels_now: AtomicUsize,
    /// Logins that have begun and have no answer yet.
    logins_now: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    hold_logins: bool,
    hold_cancels: bool,
    refusal: Option<Vec<u8>>,
    wires: Vec<Arc<Wire>>,
}

/// One server connection of Weir.
#[derive(Debug)]
struct Wire {
    user: String,
    weir: TcpStream,
    sent: Mutex<Vec<u8>>,
    open: AtomicBool,
}

impl Tap {
    /// A proxy in front of this server.
    ///
    /// # Panics
    ///
    /// When loopback has no port left.
    pub fn before(postgres: &Postgres) -> Tap {
        Tap::at(postgres, "127.0.0.1", 0)
    }

    /// A proxy in front of this server that listens on this address; port 0 is any.
    ///
    /// # Panics
    ///
    /// When the port is in use.
    pub fn at(postgres: &Postgres, address: &str, port: u16) -> Tap {
        let listener = TcpListener::bind((address, port)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let shared = Arc::new(Shared {
            server: postgres.port(),
            state: Mutex::default(),
            changed: Condvar::new(),
            logins: AtomicUsize::new(0),
            cancels: AtomicUsize::new(0),
            cancels_now: AtomicUsize::new(0),
            logins_now: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                // An error of a connection concerns only its two ends.
                thread::spawn(move || drop(shared.serve(socket)));
            }
        });
        Tap { port, shared }
    }

    /// The port that Weir connects to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on logins stop after their first packet, or go on.
    pub fn hold_logins(&self, hold: bool) {
        self.change(|state| state.hold_logins = hold);
    }

    /// From now on cancel requests are held, or passed on; those held go on too.
    pub fn hold_cancels(&self, hold: bool) {
        self.change(|state| state.hold_cancels = hold);
    }

    /// From now on a login gets these bytes and is closed; `None`: the server answers it.
    pub fn refuse_logins(&self, answer: Option<Vec<u8>>) {
        self.change(|state| state.refusal = answer);
    }

    /// How many logins have begun.
    pub fn logins(&self) -> usize {
        self.shared.logins.load(Ordering::SeqCst)
    }

    /// How many logins are held.
    pub fn logins_now(&self) -> usize {
        self.shared.logins_now.load(Ordering::SeqCst)
    }

    /// How many cancel requests have arrived.
    pub fn cancels(&self) -> usize {
        self.shared.cancels.load(Ordering::SeqCst)
    }

    /// How many cancel requests are held or being passed on.
    pub fn cancels_now(&self) -> usize {
        self.shared.cancels_now.load(Ordering::SeqCst)
    }

    /// Sends bytes to Weir on each open server connection, as if the server did; the connections should be idle.
    pub fn inject(&self, bytes: &[u8]) {
        for wire in self.wires(|wire| wire.open.load(Ordering::SeqCst)) {
            let _ = (&wire.weir).write_all(bytes);
        }
    }

    /// How many server connections are open.
    pub fn open(&self) -> usize {
        self.wires(|wire| wire.open.load(Ordering::SeqCst)).len()
    }

    /// The messages that Weir has sent after its logins, by connection, one line each: `Query SELECT 1`, `Parse name:
    /// SELECT 1`, `Close name`, `Terminate`, else the message's letter.
    pub fn sent(&self) -> Vec<String> {
        self.wires(|_| true).iter().flat_map(|wire| wire.lines_of()).collect()
    }

    /// The messages that Weir has sent after its logins, only for the connections of one user.
    pub fn sent_as(&self, user: &str) -> Vec<String> {
        self.wires(|wire| wire.user == user).iter().flat_map(|wire| wire.lines_of()).collect()
    }

    /// How many messages of [`Tap::sent`] are this one.
    pub fn times(&self, line: &str) -> usize {
        self.sent().iter().filter(|sent| *sent == line).count()
    }

    fn wires(&self, wanted: impl Fn(&Wire) -> bool) -> Vec<Arc<Wire>> {
        self.shared.state().wires.iter().filter(|wire| wanted(wire)).cloned().collect()
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.shared.state());
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while(&self, held: impl Fn(&State) -> bool) {
        let guard = self.state();
        drop(self.changed.wait_while(guard, |state| held(state)).unwrap_or_else(PoisonError::into_inner));
    }

    fn serve(&self, mut weir: TcpStream) -> io::Result<()> {
        weir.set_nodelay(true)?;
        let packet = first_packet(&mut weir)?;
        match startup::first(&packet) {
            Ok(Some((First::Startup(startup), _))) => {
                let user = startup.get(b"user").map(body_text).unwrap_or_default();
                self.login(weir, &packet, user)
            }
            Ok(Some((First::Cancel { .. }, _))) => {
                self.cancels.fetch_add(1, Ordering::SeqCst);
                self.cancels_now.fetch_add(1, Ordering::SeqCst);
                self.wait_while(|state| state.hold_cancels);
                let outcome = self.cancel(&packet);
                // Counted before Weir sees the end, so that a test that sees it reads the right count.
                self.cancels_now.fetch_sub(1, Ordering::SeqCst);
                outcome
            }
            _ => Ok(()),
        }
    }

    /// Passes a cancel request on, and waits until the server has closed the connection.
    fn cancel(&self, packet: &[u8]) -> io::Result<()> {
        let mut server = TcpStream::connect(("127.0.0.1", self.server))?;
        server.write_all(packet)?;
        server.read(&mut [0]).map(drop)
    }

    fn login(&self, mut weir: TcpStream, packet: &[u8], user: String) -> io::Result<()> {
        self.logins.fetch_add(1, Ordering::SeqCst);
        self.logins_now.fetch_add(1, Ordering::SeqCst);
        self.wait_while(|state| state.hold_logins);
        self.logins_now.fetch_sub(1, Ordering::SeqCst);
        if let Some(answer) = self.state().refusal.clone() {
            return weir.write_all(&answer);
        }
        let mut server = TcpStream::connect(("127.0.0.1", self.server))?;
        server.set_nodelay(true)?;
        server.write_all(packet)?;
        let wire =
            Arc::new(Wire { user, weir: weir.try_clone()?, sent: Mutex::default(), open: AtomicBool::new(true) });
        self.state().wires.push(Arc::clone(&wire));
        let (from_server, to_weir) = (server.try_clone()?, weir.try_clone()?);
        thread::spawn(move || carry(from_server, to_weir, |_| {}));
        carry(weir, server, |bytes| wire.sent().extend_from_slice(bytes));
        wire.open.store(false, Ordering::SeqCst);
        Ok(())
    }
}

impl Wire {
    fn sent(&self) -> MutexGuard<'_, Vec<u8>> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lines_of(&self) -> Vec<String> {
        let bytes = self.sent().clone();
        let mut rest = bytes.as_slice();
        let mut lines = Vec::new();
        while let Ok(Some(head)) = Head::parse(rest) {
            let Some(body) = rest.get(weir_pgwire::HEAD..head.total()) else { break };
            if head.tag != tag::front::PASSWORD {
                lines.push(line_of(head.tag, body));
            }
            rest = &rest[head.total()..];
        }
        lines
    }
}

fn line_of(tag: u8, body: &[u8]) -> String {
    let reported = match tag {
        tag::front::QUERY => frontend::query(body).ok().map(|sql| format!("Query {}", body_text(sql))),
        tag::front::PARSE => {
            let parse = frontend::parse(body).ok();
            parse.map(|parse| format!("Parse {}: {}", body_text(parse.name), body_text(parse.text)))
        }
        tag::front::CLOSE => frontend::named(body).ok().map(|close| format!("Close {}", body_text(close.name))),
        tag::front::TERMINATE => Some("Terminate".to_owned()),
        _ => None,
    };
    reported.unwrap_or_else(|| char::from(tag).to_string())
}

/// The first packet that is no encryption request.
fn first_packet(weir: &mut TcpStream) -> io::Result<Vec<u8>> {
    loop {
        let mut packet = vec![0; 4];
        weir.read_exact(&mut packet)?;
        let length = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]) as usize;
        packet.resize(length.clamp(4, 10_000), 0);
        weir.read_exact(&mut packet[4..])?;
        match startup::first(&packet) {
            Ok(Some((First::Ssl | First::Gss, _))) => weir.write_all(b"N")?,
            _ => return Ok(packet),
        }
    }
}

/// Carries bytes until either end is gone, then ends both.
fn carry(mut from: TcpStream, mut to: TcpStream, mut received: impl FnMut(&[u8])) {
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        received(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
