//! Servers that are no PostgreSQL, because a real one is never hostile. Each of many cases has its own pool, so that
//! none is delayed by the failures of another.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::{ConnectParams, Connection, Error};
use weir_pgwire::{First, Head, put_back, put_front, startup};
use weir_tests::{Batch, Mode, Setup, Site, body_text, line_of, users};

/// What a server does after the startup packet of a connection; `Err` and the end close it.
pub(crate) type Script = Box<dyn Fn(&mut Wire) -> io::Result<()> + Send + Sync>;

/// A case's name, and its server's behaviour.
pub(crate) struct Case {
    pub(crate) name: String,
    script: Script,
}

impl Case {
    pub(crate) fn new(
        name: impl Into<String>,
        script: impl Fn(&mut Wire) -> io::Result<()> + Send + Sync + 'static,
    ) -> Case {
        Case { name: name.into(), script: Box::new(script) }
    }
}

/// One connection of a pooler to such a server.
pub(crate) struct Wire {
    socket: TcpStream,
}

impl Wire {
    /// Sends raw bytes.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// The next message: tag and body.
    pub(crate) fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; weir_pgwire::HEAD];
        self.socket.read_exact(&mut head)?;
        let length = Head::parse(&head).ok().flatten().ok_or(io::ErrorKind::InvalidData)?.body;
        let mut body = vec![0; length as usize];
        self.socket.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    /// Reads until the other side has closed.
    pub(crate) fn wait_for_end(&mut self) -> io::Result<()> {
        while self.socket.read(&mut [0; 1024])? > 0 {}
        Ok(())
    }

    fn packet(&mut self) -> io::Result<Vec<u8>> {
        let mut packet = vec![0; 4];
        self.socket.read_exact(&mut packet)?;
        let length = u32::from_be_bytes([packet[0], packet[1], packet[2], packet[3]]) as usize;
        packet.resize(length.clamp(4, 10_000), 0);
        self.socket.read_exact(&mut packet[4..])?;
        Ok(packet)
    }
}

/// AuthenticationOk, a few parameters, a key, and ReadyForQuery.
pub(crate) fn welcome() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::auth_ok(&mut bytes);
    for (name, value) in [("client_encoding", "UTF8"), ("server_version", "15.0"), ("DateStyle", "ISO, MDY")] {
        put_back::parameter_status(&mut bytes, name, value);
    }
    put_back::backend_key_data(&mut bytes, 7, &[1, 2, 3, 4]);
    put_back::ready(&mut bytes, b'I');
    bytes
}

/// Serves all cases, each under its database's name; returns the port. Its threads end with the process.
pub(crate) fn serve(cases: Vec<Case>) -> (u16, Arc<Vec<Case>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let cases = Arc::new(cases);
    let served = Arc::clone(&cases);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let cases = Arc::clone(&served);
            thread::spawn(move || drop(converse(socket, &cases)));
        }
    });
    (port, cases)
}

fn converse(socket: TcpStream, cases: &[Case]) -> io::Result<()> {
    socket.set_nodelay(true)?;
    let mut wire = Wire { socket };
    loop {
        let packet = wire.packet()?;
        match startup::first(&packet) {
            Ok(Some((First::Ssl | First::Gss, _))) => wire.send(b"N")?,
            Ok(Some((First::Startup(startup), _))) => {
                let name = startup.get(b"database").map(body_text).unwrap_or_default();
                let number: usize = name.trim_start_matches("case").parse().map_err(|_| io::ErrorKind::InvalidData)?;
                return (cases.get(number).ok_or(io::ErrorKind::InvalidData)?.script)(&mut wire);
            }
            // A cancel request gets garbage, which no client should read.
            _ => return wire.send(b"E\0\0\0\x05\0"),
        }
    }
}

/// A Weir with a pool for each case, short timeouts, and a real pool beside them.
pub(crate) fn site(port: u16, cases: &[Case]) -> Site {
    let mut more = String::new();
    for number in 0..cases.len() {
        more.push_str(&format!(
            "[pools.case{number}]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"x\"\npassword = \"y\"\nsize = 1\n\
             server_connect_timeout = \"500ms\"\nserver_login_retry = \"100ms\"\nquery_wait_timeout = \"5s\"\n\
             query_timeout = \"700ms\"\non_server_down = \"refuse\"\nrequire_auth = \"any\"\n"
        ));
    }
    let setup = Setup::new(Mode::Transaction).auth("trust").more(&more);
    Site::with(setup.general("server_fast_close = true"), Mode::Transaction)
}

/// The replies to a client of this case: it logs in, sends a simple and an extended query, and disconnects.
pub(crate) fn read_replies(params: &ConnectParams) -> Vec<String> {
    let Ok(mut client) = Connection::open(params) else { return vec!["Closed".into()] };
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", params.user.as_str()), ("database", params.database.as_str())], 0);
    packet.extend_from_slice(Batch::new().query("SELECT 1").bytes());
    packet.extend_from_slice(Batch::new().run("SELECT $1", &["2"]).sync().bytes());
    let _ = client.send_bytes(&packet);
    let mut transcript: Vec<String> = Vec::new();
    loop {
        match client.read_frame(Duration::from_secs(30)) {
            Ok(frame) => transcript.push(line_of(&frame)),
            Err(Error::Timeout) => {
                transcript.push("Silence".into());
                return transcript;
            }
            // A message that can't be parsed is passed on as it is, and this client can't parse it either.
            Err(Error::Protocol(_)) => {
                transcript.push("Malformed".into());
                return transcript;
            }
            Err(_) => {
                transcript.push("Closed".into());
                return transcript;
            }
        }
        // Login, simple query, extended query.
        if transcript.iter().filter(|line| line.starts_with("Ready")).count() == 3 {
            return transcript;
        }
    }
}

/// Runs all cases, many at once, and checks each; returns their number.
///
/// # Panics
///
/// With the errors of the first cases that fail; when Weir has ended, or its other pool does not serve.
#[track_caller]
pub(crate) fn run(cases: Vec<Case>, check: impl Fn(&str, &[String]) -> Result<(), String> + Sync) -> usize {
    let (port, cases) = serve(cases);
    let site = site(port, &cases);
    let next = AtomicUsize::new(0);
    let wrong: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..24)
            .map(|_| {
                scope.spawn(|| {
                    let mut wrong = Vec::new();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        let Some(case) = cases.get(number) else { return wrong };
                        let transcript = read_replies(&site.weir().params(users::APP.name, &format!("case{number}")));
                        if let Err(what) = check(&case.name, &transcript) {
                            wrong.push(format!("{}: {what}: {transcript:?}", case.name));
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("the thread does not panic")).collect()
    });
    assert!(site.weir().exited().is_none(), "Weir has ended: {}", site.weir().log());
    assert_eq!(
        site.connect().value("SELECT 'fine'").unwrap().as_deref(),
        Some("fine"),
        "other clients are not affected"
    );
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong[..wrong.len().min(10)].join("\n"));
    // Hostile servers may close at any time, so their pools may still be at their logins.
    site.weir().skip_final_checks();
    let log = site.weir().log();
    let broken = log.lines().find(|line| line.contains("panicked") || line.contains("internal error"));
    assert_eq!(broken, None);
    cases.len()
}
