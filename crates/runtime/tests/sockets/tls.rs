//! Encrypted connections through a runtime: with real sockets, against another implementation's state machine or
//! another worker's.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use weir_base::{ConnId, Host, Origin, Time, WorkerId};
use weir_config::{Config, FileFormat, Severity, SslMode, TlsSide};
use weir_engine::Message;
use weir_engine::port::{Handshake, Input, Io, Secured};
use weir_runtime::{Handler, Running, RuntimeOptions, TlsFiles, WorkerSetup, check_tls, start};

use crate::certs::*;
use crate::common::*;
use crate::envelopes::Envelopes;

const FROM: Origin = Origin::V4(1);

/// An authority, its certificate for "localhost" and 127.0.0.1, and a configuration that uses it.
pub(crate) struct Site {
    folder: Folder,
    pub(crate) authority: Authority,
    pub(crate) config: Config,
}

pub(crate) fn site() -> Site {
    let (folder, authority) = (Folder::new(), Authority::new("authority"));
    let signed = authority.sign("server", &["localhost", "127.0.0.1"], Holds::Now);
    let (key, cert) = authority.put(&folder, "server", signed);
    folder.write("ca.crt", &authority.pem);
    let mut config = Config::default();
    config.tls.client =
        TlsSide { mode: SslMode::Allow, key_file: some(&key), cert_file: some(&cert), ..TlsSide::default() };
    Site { folder, authority, config }
}

impl Site {
    pub(crate) fn plan(&self, workers: u16) -> RuntimeOptions {
        RuntimeOptions { tls: TlsFiles::load(&self.config).unwrap(), ..plan(workers) }
    }

    fn serve<B: Handler>(&self, handler: impl FnMut(WorkerSetup) -> B) -> Running {
        start(self.plan(1), handler).unwrap()
    }

    pub(crate) fn trust(&mut self) {
        self.config.tls.client.ca_file = Some(self.folder.path("ca.crt"));
    }

    pub(crate) fn client_config(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap()).unwrap();
        ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
    }

    pub(crate) fn client_config_with(&self, (key, cert): (String, String)) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.authority.pem.as_bytes()).unwrap()).unwrap();
        let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        ClientConfig::builder().with_root_certificates(roots).with_client_auth_cert(chain, key).unwrap()
    }

    fn client(&self, running: &Running) -> StreamOwned<ClientConnection, TcpStream> {
        encrypted(self.client_config(), client(running))
    }
}

pub(crate) fn encrypted(config: ClientConfig, stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), stream)
}

/// Begins a handshake with each client, and sends back what it receives within it.
pub(crate) struct Secure {
    event: Sender<String>,
    secured: Sender<Secured>,
}

impl Secure {
    pub(crate) fn new() -> (Secure, Receiver<String>, Receiver<Secured>) {
        let ((event, received), (secured, seen)) = (channel(), channel());
        (Secure { event, secured }, received, seen)
    }
}

impl Handler for Secure {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        let _ = self.event.send(event(&input));
        match input {
            Input::Accepted { conn, .. } => io.start_tls(conn, Handshake::Accept { received: Vec::new(), from: FROM }),
            Input::Secured { tls, .. } => drop(self.secured.send(*tls)),
            Input::Bytes { conn, bytes } if bytes == b"bye" => io.close(conn),
            Input::Bytes { conn, bytes } => io.forward(conn, 0..bytes.len()),
            Input::Blocked { conn } => io.pause(conn),
            Input::Drained { conn } => io.resume(conn),
            _ => {}
        }
    }
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

fn serve_secure(site: &Site) -> (Running, Receiver<String>, Receiver<Secured>) {
    let (secure, received, seen) = Secure::new();
    let mut secure = Some(secure);
    (site.serve(|_| secure.take().unwrap()), received, seen)
}

/// The next input of this kind.
fn await_event(received: &Receiver<String>, is: impl Fn(&str) -> bool) -> String {
    loop {
        let event = next(received);
        if is(&event) {
            return event;
        }
    }
}

fn soon<T>(received: &Receiver<T>) -> T {
    received.recv_timeout(Duration::from_secs(20)).expect("an input is reported")
}

#[test]
fn data_within_an_encrypted_connection_arrives_and_returns() {
    let site = site();
    let (running, received, seen) = serve_secure(&site);
    let mut stream = site.client(&running);
    stream.write_all(b"hello").unwrap();
    assert_eq!(read(&mut stream, 5), b"hello");
    let secured = soon(&seen);
    assert!(secured.description.starts_with("TLSv1.3/TLS_AES_"), "{}", secured.description);
    assert_eq!((secured.certificate, secured.alpn), (None, None));
    assert_eq!(secured.binding.unwrap().len(), 32);
    assert_eq!([next(&received), next(&received), next(&received)], ["accepted", "secured", "bytes 5"]);
}

/// Reads once, also after signals.
fn read_records(tls: &mut ClientConnection, socket: &mut TcpStream) {
    loop {
        match tls.read_tls(socket) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => {
                read.unwrap();
                return;
            }
        }
    }
}

#[test]
fn a_handshake_cut_at_any_byte_is_the_same_handshake() {
    let site = site();
    let (running, _received, _seen) = serve_secure(&site);
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(site.client_config()), name).unwrap();
    let mut socket = client(&running);
    while tls.is_handshaking() || tls.wants_write() {
        let mut out = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut out).unwrap();
        }
        // Each byte in its own packet.
        out.iter().for_each(|byte| socket.write_all(&[*byte]).unwrap());
        if tls.is_handshaking() {
            read_records(&mut tls, &mut socket);
            tls.process_new_packets().unwrap();
        }
    }
    let mut stream = StreamOwned::new(tls, socket);
    stream.write_all(b"hello").unwrap();
    assert_eq!(read(&mut stream, 5), b"hello");
}

#[test]
fn what_follows_a_handshake_in_the_same_packet_is_delivered_after_it() {
    let site = site();
    let (running, received, _seen) = serve_secure(&site);
    let name = ServerName::try_from("localhost").unwrap();
    let mut tls = ClientConnection::new(Arc::new(site.client_config()), name).unwrap();
    let mut socket = client(&running);
    tls.writer().write_all(b"ahead").unwrap();
    tls.write_tls(&mut socket).unwrap();
    while tls.is_handshaking() {
        read_records(&mut tls, &mut socket);
        tls.process_new_packets().unwrap();
    }
    // The end of the handshake, and the first bytes within it.
    let mut out = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut out).unwrap();
    }
    socket.write_all(&out).unwrap();
    let mut stream = StreamOwned::new(tls, socket);
    assert_eq!(read(&mut stream, 5), b"ahead");
    assert_eq!([next(&received), next(&received), next(&received)], ["accepted", "secured", "bytes 5"]);
}

#[test]
fn fifty_megabytes_there_and_back_with_a_slow_reader() {
    const ALL: usize = 50 * 1024 * 1024;
    const PIECE: usize = 100_000;
    let site = site();
    let (running, received, _seen) = serve_secure(&site);
    let mut stream = site.client(&running);
    stream.write_all(b"!").unwrap();
    assert_eq!(read(&mut stream, 1), b"!");
    let StreamOwned { conn, sock } = stream;
    // One thread writes what another reads: both share a state machine under a lock.
    let tls = Arc::new(std::sync::Mutex::new(conn));
    let (writer_tls, mut writer) = (tls.clone(), sock.try_clone().unwrap());
    let writing = thread::spawn(move || {
        for at in (0..ALL).step_by(PIECE) {
            let mut out = Vec::new();
            {
                let mut tls = writer_tls.lock().unwrap();
                tls.set_buffer_limit(None);
                tls.writer().write_all(&pattern(at, PIECE.min(ALL - at))).unwrap();
                while tls.wants_write() {
                    tls.write_tls(&mut out).unwrap();
                }
            }
            writer.write_all(&out).unwrap();
        }
    });
    // By now the echo's socket is full, and the writer is blocked.
    thread::sleep(Duration::from_millis(500));
    let (mut sock, mut got, mut buffer) = (sock, 0, vec![0; 256 * 1024]);
    while got < ALL {
        let length = sock.read(&mut buffer).unwrap();
        assert_ne!(length, 0, "ended after {got} bytes");
        let (mut rest, mut plain) = (&buffer[..length], Vec::new());
        while !rest.is_empty() {
            let mut tls = tls.lock().unwrap();
            tls.read_tls(&mut rest).unwrap();
            let state = tls.process_new_packets().unwrap();
            let at = plain.len();
            plain.resize(at + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut plain[at..]).unwrap();
        }
        assert!(plain == pattern(got, plain.len()), "differs after {got} bytes");
        got += plain.len();
    }
    writing.join().unwrap();
    let event: Vec<String> = received.try_iter().collect();
    assert!(event.iter().any(|event| event == "blocked") && event.iter().any(|event| event == "drained"));
}

#[test]
fn a_large_answer_of_many_pieces_is_whole_and_ends_in_order() {
    const PIECE: usize = 37_003;
    const PIECES: usize = 100;
    let site = site();
    let running = site.serve(|_| {
        Doing(|input: Input<'_>, io: &mut dyn SecureIo| match input {
            Input::Accepted { conn, .. } => io.accept_tls(conn),
            Input::Bytes { conn, bytes } => {
                for i in 0..PIECES {
                    io.send(conn, &pattern(i * PIECE, PIECE));
                    io.forward(conn, 0..bytes.len());
                }
                io.close(conn);
            }
            _ => {}
        })
    });
    let mut stream = site.client(&running);
    stream.write_all(b"!").unwrap();
    for i in 0..PIECES {
        assert!(read(&mut stream, PIECE) == pattern(i * PIECE, PIECE), "piece {i}");
        assert_eq!(read(&mut stream, 1), b"!");
    }
    // Ends with close_notify: without it this would be an error.
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// A handler made of a closure that may begin handshakes.
struct Doing<F>(F);

trait SecureIo: DynIo {
    fn accept_tls(&mut self, conn: ConnId);
    fn connect_tls(&mut self, conn: ConnId, host: Host, mode: SslMode, direct: bool);
    fn carry(&mut self, to: WorkerId, message: Message, conn: ConnId);
}

impl<I: Io> SecureIo for I {
    fn accept_tls(&mut self, conn: ConnId) {
        self.start_tls(conn, Handshake::Accept { received: Vec::new(), from: FROM });
    }
    fn connect_tls(&mut self, conn: ConnId, host: Host, mode: SslMode, direct: bool) {
        self.start_tls(conn, Handshake::Connect { host, mode, direct });
    }
    fn carry(&mut self, to: WorkerId, message: Message, conn: ConnId) {
        self.post(to, message, Some(conn));
    }
}

impl<F: FnMut(Input<'_>, &mut dyn SecureIo) + Send + 'static> Handler for Doing<F> {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        (self.0)(input, io);
    }
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

#[test]
fn an_end_with_close_notify_is_an_end_of_file_and_one_without_is_an_error() {
    let site = site();
    let (running, received, _seen) = serve_secure(&site);
    let mut stream = site.client(&running);
    stream.write_all(b"hello").unwrap();
    read(&mut stream, 5);
    stream.conn.send_close_notify();
    stream.flush().unwrap();
    assert_eq!(await_event(&received, |event| event.starts_with("closed")), "closed Eof");
    let mut stream = site.client(&running);
    stream.write_all(b"hello").unwrap();
    read(&mut stream, 5);
    stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(await_event(&received, |event| event.starts_with("closed")), "closed Error");
}

#[test]
fn garbage_in_a_handshake_fails_it_and_an_end_in_it_closes() {
    let site = site();
    let (running, received, _seen) = serve_secure(&site);
    let mut garbage = client(&running);
    garbage.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let event = await_event(&received, |event| event != "accepted");
    assert!(event.starts_with("TLS failed: "), "{event}");
    // A record that claims to be a handshake, and is none.
    let mut garbage = client(&running);
    garbage.write_all(&[0x16, 3, 1, 0, 5, 0xff, 0, 0, 1, 0]).unwrap();
    let event = await_event(&received, |event| event != "accepted");
    assert!(event.starts_with("TLS failed: "), "{event}");
    let mut short = client(&running);
    short.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    drop(short);
    assert_eq!(await_event(&received, |event| event != "accepted"), "closed Eof");
    // One that stalls harms no other client.
    let mut stalled = client(&running);
    stalled.write_all(&[0x16, 3, 1, 2, 0, 1]).unwrap();
    let mut stream = site.client(&running);
    stream.write_all(b"hello").unwrap();
    assert_eq!(read(&mut stream, 5), b"hello");
}

#[test]
fn garbage_within_a_connection_ends_it() {
    let site = site();
    let (running, received, _seen) = serve_secure(&site);
    let mut stream = site.client(&running);
    stream.write_all(b"hello").unwrap();
    read(&mut stream, 5);
    stream.sock.write_all(&[0x17, 3, 3, 0, 20, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]).unwrap();
    assert_eq!(await_event(&received, |event| event.starts_with("closed")), "closed Error");
}

#[test]
fn certificates_of_clients_are_verified_if_there_is_an_authority() {
    let mut site = site();
    site.trust();
    let (running, received, seen) = serve_secure(&site);
    let good = site.client_config_with(site.authority.sign("anna", &[], Holds::Now));
    let mut stream = encrypted(good, client(&running));
    stream.write_all(b"hello").unwrap();
    read(&mut stream, 5);
    assert_eq!(soon(&seen).certificate.unwrap().common_name, "anna");
    let mut without = site.client(&running);
    without.write_all(b"hello").unwrap();
    read(&mut without, 5);
    assert_eq!(soon(&seen).certificate, None);
    let other = Authority::new("another authority");
    let expired = site.authority.sign("anna", &[], Holds::NoMore);
    for bad in [expired, other.sign("anna", &[], Holds::Now)] {
        let mut stream = encrypted(site.client_config_with(bad), client(&running));
        let _ = stream.write_all(b"hello");
        let event = await_event(&received, |event| event.starts_with("TLS failed"));
        assert!(event.contains("certificate"), "{event}");
    }
}

#[test]
fn verify_full_requires_a_certificate_of_clients() {
    let mut site = site();
    site.trust();
    site.config.tls.client.mode = SslMode::VerifyFull;
    let (running, received, _seen) = serve_secure(&site);
    let mut without = site.client(&running);
    let _ = without.write_all(b"hello");
    let event = await_event(&received, |event| event.starts_with("TLS failed"));
    assert!(event.contains("certificate"), "{event}");
}

#[test]
fn an_encrypted_connection_goes_on_at_another_worker() {
    let site = site();
    let running = start(site.plan(2), |setup| {
        let (me, mut envelopes) = (setup.worker, Envelopes::new());
        Doing(move |input: Input<'_>, io: &mut dyn SecureIo| match input {
            Input::Accepted { conn, .. } => io.accept_tls(conn),
            Input::Secured { conn, .. } => io.detach(conn),
            Input::Detached { conn } => io.carry(WorkerId(1), envelopes.next(), conn),
            Input::Message { socket: Some(conn), .. } => io.send(conn, &[b'0' + me.0 as u8]),
            Input::Bytes { conn, bytes } => io.forward(conn, 0..bytes.len()),
            _ => {}
        })
    });
    let running = running.unwrap();
    for _ in 0..20 {
        let mut stream = site.client(&running);
        // A part of it arrives with the end of the handshake.
        stream.write_all(b"hello").unwrap();
        assert_eq!(read(&mut stream, 6), b"1hello");
    }
}

#[test]
fn a_reload_changes_the_certificate_for_new_clients_only() {
    let site = site();
    let files = TlsFiles::load(&site.config).unwrap();
    let plan = RuntimeOptions { tls: files.clone(), ..plan(1) };
    let next = Arc::new(site.config.clone());
    let adopted = next.clone();
    let running = start(plan, move |_| {
        let adopted = adopted.clone();
        Adopting { adopted }
    });
    let running = running.unwrap();
    let certificate =
        |stream: &StreamOwned<ClientConnection, TcpStream>| stream.conn.peer_certificates().unwrap()[0].to_vec();
    let mut old = site.client(&running);
    old.write_all(b"hello").unwrap();
    read(&mut old, 5);
    // An invalid file changes nothing.
    let key = std::fs::read_to_string(site.folder.path("server.key")).unwrap();
    site.folder.write("server.key", "nothing");
    let error = files.prepare(&next).unwrap_err();
    assert!(error.contains("server.key") && error.contains("no private key"), "{error}");
    site.folder.write("server.key", &key);
    let signed = site.authority.sign("newer", &["localhost"], Holds::Now);
    site.folder.write("server.crt", &signed.1);
    let error = files.prepare(&next).unwrap_err();
    assert!(error.contains("server.key") && error.contains("not the key"), "{error}");
    site.folder.write("server.key", &signed.0);
    files.prepare(&next).unwrap();
    old.write_all(b"adopt").unwrap();
    read(&mut old, 5);
    let mut new = site.client(&running);
    new.write_all(b"hello").unwrap();
    read(&mut new, 5);
    assert_ne!(certificate(&old), certificate(&new));
}

/// Echoes, and adopts its configuration when the test requests it.
struct Adopting {
    adopted: Arc<Config>,
}

impl Handler for Adopting {
    fn handle<I: Io>(&mut self, _: Time, input: Input<'_>, io: &mut I) {
        match input {
            Input::Accepted { conn, .. } => io.start_tls(conn, Handshake::Accept { received: Vec::new(), from: FROM }),
            Input::Bytes { conn, bytes } => {
                if bytes == b"adopt" {
                    io.apply_config(&self.adopted);
                }
                io.forward(conn, 0..bytes.len());
            }
            _ => {}
        }
    }
    fn next_deadline(&self) -> Time {
        Time::NEVER
    }
}

/// Connects one runtime to another and returns the result of the handshake.
fn connect_to(server: &Site, client: &Config, host: &str, mode: SslMode) -> Result<Secured, String> {
    let (running, ..) = serve_secure(server);
    let (tell, received) = channel();
    let (to, host) = (target(address(&running)), Host::Name(host.to_owned()));
    let plan = RuntimeOptions { tls: TlsFiles::load(client).unwrap(), ..plan(1) };
    let connecting = start(plan, move |_| {
        let (tell, to, host) = (tell.clone(), to.clone(), host.clone());
        Doing(move |input: Input<'_>, io: &mut dyn SecureIo| match input {
            Input::Accepted { .. } => drop(io.connect(&to)),
            Input::Connected { conn, .. } => io.connect_tls(conn, host.clone(), mode, true),
            Input::Secured { conn, tls } => {
                io.send(conn, b"hello");
                let _ = tell.send(Ok(*tls));
            }
            Input::TlsFailed { error, .. } => drop(tell.send(Err(error))),
            _ => {}
        })
    });
    let connecting = connecting.unwrap();
    let _poke = crate::common::client(&connecting);
    soon(&received)
}

fn towards(ca_file: Option<PathBuf>, mode: SslMode) -> Config {
    let mut config = Config::default();
    config.tls.server = TlsSide { mode, ca_file, ..TlsSide::default() };
    config
}

#[test]
fn servers_are_verified_as_the_mode_says() {
    let site = site();
    let ca = || Some(site.folder.path("ca.crt"));
    let other = Authority::new("another authority");
    let other_ca = || Some(site.folder.write("other.crt", &other.pem));
    let to = |ca_file, host, mode| connect_to(&site, &towards(ca_file, mode), host, mode);
    let found = to(None, "elsewhere", SslMode::Require).unwrap();
    assert_eq!((found.certificate, found.alpn.as_deref()), (None, Some(&b"postgresql"[..])));
    assert_eq!(found.binding.unwrap().len(), 32);
    assert_eq!(to(ca(), "elsewhere", SslMode::VerifyCa).unwrap().certificate.unwrap().common_name, "server");
    assert!(to(ca(), "localhost", SslMode::VerifyFull).is_ok());
    assert!(to(ca(), "elsewhere", SslMode::VerifyFull).unwrap_err().contains("certificate"));
    assert!(to(other_ca(), "localhost", SslMode::VerifyCa).unwrap_err().contains("certificate"));
    // A certificate that is trusted itself, without a chain.
    let itself = || Some(site.folder.path("server.crt"));
    assert!(to(itself(), "localhost", SslMode::VerifyFull).is_ok());
}

#[test]
fn both_ends_have_the_same_binding() {
    let site = site();
    let (running, _received, seen) = serve_secure(&site);
    let mut stream = site.client(&running);
    stream.write_all(b"hello").unwrap();
    read(&mut stream, 5);
    let theirs = connect_to(&site, &towards(None, SslMode::Require), "localhost", SslMode::Require).unwrap();
    assert_eq!(soon(&seen).binding, theirs.binding);
}

#[test]
fn files_that_can_not_be_used_are_named() {
    let mut site = site();
    assert_eq!(check_tls(&site.config), []);
    let error = |config: &Config| TlsFiles::load(config).unwrap_err();
    let keys = |config: &Config| check_tls(config).into_iter().filter_map(|found| found.key).collect::<Vec<_>>();
    site.config.tls.client.mode = SslMode::VerifyCa;
    assert!(error(&site.config).contains("ca_file in [tls.client]"));
    assert_eq!(keys(&site.config), ["tls.client.mode"]);
    site.config.tls.client.ca_file = some(&site.folder.path("missing.crt"));
    assert!(
        error(&site.config)
            .starts_with(&format!("ca_file in [tls.client]: {}", site.folder.path("missing.crt").display()))
    );
    assert_eq!(keys(&site.config), ["tls.client.ca_file"]);
    site.config.tls.client.key_file = None;
    assert!(error(&site.config).contains("key_file in [tls.client]"));
    assert_eq!(keys(&site.config), ["tls.client.cert_file"]);
    let mut to_servers = towards(None, SslMode::VerifyFull);
    assert!(error(&to_servers).contains("ca_file in [tls.server]"));
    to_servers.format = FileFormat::Ini;
    assert!(error(&to_servers).contains("server_tls_ca_file"));
    assert_eq!(keys(&to_servers), ["tls.server.mode"]);
    let signed = site.authority.sign("old", &["localhost"], Holds::NoMore);
    let (key, cert) = site.authority.put(&site.folder, "old", signed);
    site.config.tls.client =
        TlsSide { mode: SslMode::Require, key_file: some(&key), cert_file: some(&cert), ..TlsSide::default() };
    let [warning] = &check_tls(&site.config)[..] else { panic!("one warning") };
    assert_eq!((warning.severity, warning.key.as_deref()), (Severity::Warning, Some("tls.client.cert_file")));
    assert!(warning.text.contains("old.crt") && warning.text.contains("has expired"), "{warning}");
}
