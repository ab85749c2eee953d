//! A wire between Weir and PostgreSQL, tapped: what Weir says to its servers is written down, logins and cancel requests
//! can be held up or refused, and a test can say something in the server's place.
//!
//! Owns a listener and two threads a connection, which end with the process. It must not know what Weir is meant to do.
//! Requests for encryption are declined, so that what is said can be read.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use weir_pgwire::{First, Head, frontend, startup, tag};

use crate::postgres::Postgres;
use crate::wire::body_text;

/// A tapped wire to one PostgreSQL.
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
    /// Cancel requests that came, and those that are not over.
    cancels: AtomicUsize,
    cancels_now: AtomicUsize,
    /// Logins that have begun and that nobody has answered yet.
    logins_now: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    hold_logins: bool,
    hold_cancels: bool,
    refusal: Option<Vec<u8>>,
    wires: Vec<Arc<Wire>>,
}

/// One server connection of Weir's.
#[derive(Debug)]
struct Wire {
    user: String,
    weir: TcpStream,
    said: Mutex<Vec<u8>>,
    open: AtomicBool,
}

impl Tap {
    /// A wire to this server.
    ///
    /// # Panics
    ///
    /// When loopback has no port left.
    pub fn before(postgres: &Postgres) -> Tap {
        Tap::at(postgres, "127.0.0.1", 0)
    }

    /// A wire to this server that begins at this address; port 0 is any.
    ///
    /// # Panics
    ///
    /// When somebody listens there already.
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
                // A connection that breaks is its two ends' affair.
                thread::spawn(move || drop(shared.serve(socket)));
            }
        });
        Tap { port, shared }
    }

    /// Where Weir connects to.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// From now on logins stop behind their first packet, or go on.
    pub fn hold_logins(&self, hold: bool) {
        self.change(|state| state.hold_logins = hold);
    }

    /// From now on cancel requests are not passed on, or are; those held go on too.
    pub fn hold_cancels(&self, hold: bool) {
        self.change(|state| state.hold_cancels = hold);
    }

    /// From now on a login is answered with these bytes and closed; `None`: by the server.
    pub fn refuse_logins(&self, answer: Option<Vec<u8>>) {
        self.change(|state| state.refusal = answer);
    }

    /// How many logins have begun.
    pub fn logins(&self) -> usize {
        self.shared.logins.load(Ordering::SeqCst)
    }

    /// How many logins are being held up.
    pub fn logins_now(&self) -> usize {
        self.shared.logins_now.load(Ordering::SeqCst)
    }

    /// How many cancel requests have come.
    pub fn cancels(&self) -> usize {
        self.shared.cancels.load(Ordering::SeqCst)
    }

    /// How many cancel requests are being held up or passed on.
    pub fn cancels_now(&self) -> usize {
        self.shared.cancels_now.load(Ordering::SeqCst)
    }

    /// Says something to Weir on each open server connection, as if the server did; it should be idle.
    pub fn inject(&self, bytes: &[u8]) {
        for wire in self.wires(|wire| wire.open.load(Ordering::SeqCst)) {
            let _ = (&wire.weir).write_all(bytes);
        }
    }

    /// How many server connections are open.
    pub fn open(&self) -> usize {
        self.wires(|wire| wire.open.load(Ordering::SeqCst)).len()
    }

    /// What Weir has said behind its logins, connection by connection, a line a message: `Query SELECT 1`,
    /// `Parse name: SELECT 1`, `Close name`, `Terminate`, else the message's letter.
    pub fn said(&self) -> Vec<String> {
        self.wires(|_| true).iter().flat_map(|wire| wire.tale()).collect()
    }

    /// The same, of the connections of one user only.
    pub fn said_as(&self, user: &str) -> Vec<String> {
        self.wires(|wire| wire.user == user).iter().flat_map(|wire| wire.tale()).collect()
    }

    /// How many messages of [`Tap::said`] are this one.
    pub fn times(&self, line: &str) -> usize {
        self.said().iter().filter(|said| *said == line).count()
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
                // Before Weir hears of the end, so that a test that heard it counts right.
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
            Arc::new(Wire { user, weir: weir.try_clone()?, said: Mutex::default(), open: AtomicBool::new(true) });
        self.state().wires.push(Arc::clone(&wire));
        let (from_server, to_weir) = (server.try_clone()?, weir.try_clone()?);
        thread::spawn(move || carry(from_server, to_weir, |_| {}));
        carry(weir, server, |bytes| wire.said().extend_from_slice(bytes));
        wire.open.store(false, Ordering::SeqCst);
        Ok(())
    }
}

impl Wire {
    fn said(&self) -> MutexGuard<'_, Vec<u8>> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tale(&self) -> Vec<String> {
        let bytes = self.said().clone();
        let mut rest = bytes.as_slice();
        let mut lines = Vec::new();
        while let Ok(Some(head)) = Head::parse(rest) {
            let Some(body) = rest.get(weir_pgwire::HEAD..head.total()) else { break };
            if head.tag != tag::front::PASSWORD {
                lines.push(tell(head.tag, body));
            }
            rest = &rest[head.total()..];
        }
        lines
    }
}

fn tell(tag: u8, body: &[u8]) -> String {
    let told = match tag {
        tag::front::QUERY => frontend::query(body).ok().map(|sql| format!("Query {}", body_text(sql))),
        tag::front::PARSE => {
            let parse = frontend::parse(body).ok();
            parse.map(|parse| format!("Parse {}: {}", body_text(parse.name), body_text(parse.text)))
        }
        tag::front::CLOSE => frontend::named(body).ok().map(|close| format!("Close {}", body_text(close.name))),
        tag::front::TERMINATE => Some("Terminate".to_owned()),
        _ => None,
    };
    told.unwrap_or_else(|| char::from(tag).to_string())
}

/// The first packet that is no request for encryption.
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
fn carry(mut from: TcpStream, mut to: TcpStream, mut heard: impl FnMut(&[u8])) {
    let mut buffer = [0; 8192];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        heard(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
