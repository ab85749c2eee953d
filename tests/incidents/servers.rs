//! Servers that are no PostgreSQL: a hostile one can't be a real one. Each of many cases is a pool of its own, so that
//! none is slowed down by what another has learnt.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Error, Params};
use weir_pgwire::{First, Head, put_back, put_front, startup};
use weir_tests::{Batch, Mode, Setup, Site, body_text, tell, users};

/// What a server does behind the startup packet of a connection; `Err` and the end close it.
pub(crate) type Script = Box<dyn Fn(&mut Wire) -> io::Result<()> + Send + Sync>;

/// A case's name, and what its server does.
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

/// One connection of a pooler's to such a server.
pub(crate) struct Wire {
    socket: TcpStream,
}

impl Wire {
    /// Says bytes as they are.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    /// The next message: tag and body.
    pub(crate) fn hear(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; weir_pgwire::HEAD];
        self.socket.read_exact(&mut head)?;
        let length = Head::parse(&head).ok().flatten().ok_or(io::ErrorKind::InvalidData)?.body;
        let mut body = vec![0; length as usize];
        self.socket.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    /// Whatever comes until the other side has gone.
    pub(crate) fn linger(&mut self) -> io::Result<()> {
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

/// Serves all cases, each by its database's name; returns the port. Its threads end with the process.
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
            Ok(Some((First::Ssl | First::Gss, _))) => wire.say(b"N")?,
            Ok(Some((First::Startup(startup), _))) => {
                let name = startup.get(b"database").map(body_text).unwrap_or_default();
                let number: usize = name.trim_start_matches("case").parse().map_err(|_| io::ErrorKind::InvalidData)?;
                return (cases.get(number).ok_or(io::ErrorKind::InvalidData)?.script)(&mut wire);
            }
            // A cancel request is answered with garbage, which nobody should read.
            _ => return wire.say(b"E\0\0\0\x05\0"),
        }
    }
}

/// A Weir with a pool for each case, short time-outs, and a real pool beside them.
pub(crate) fn site(port: u16, cases: &[Case]) -> Site {
    let mut more = String::new();
    for number in 0..cases.len() {
        more.push_str(&format!(
            "[pools.case{number}]\nhost = \"127.0.0.1\"\nport = {port}\nuser = \"x\"\npassword = \"y\"\nsize = 1\n\
             server_connect_timeout = \"500ms\"\nserver_login_retry = \"100ms\"\nquery_wait_timeout = \"5s\"\n\
             query_timeout = \"700ms\"\nrequire_auth = \"any\"\n"
        ));
    }
    let setup = Setup::new(Mode::Transaction).auth("trust").more(&more);
    Site::with(setup.general("server_fast_close = true"), Mode::Transaction)
}

/// What a client of this case is told: it logs in, asks a simple and an extended query, and leaves.
pub(crate) fn told(params: &Params) -> Vec<String> {
    let Ok(mut client) = Connection::open(params) else { return vec!["Closed".into()] };
    let mut packet = Vec::new();
    put_front::startup(&mut packet, &[("user", params.user.as_str()), ("database", params.database.as_str())], 0);
    packet.extend_from_slice(Batch::new().query("SELECT 1").bytes());
    packet.extend_from_slice(Batch::new().run("SELECT $1", &["2"]).sync().bytes());
    let _ = client.send_bytes(&packet);
    let mut story: Vec<String> = Vec::new();
    loop {
        match client.read_frame(Duration::from_secs(30)) {
            Ok(frame) => story.push(tell(&frame)),
            Err(Error::Timeout) => {
                story.push("Silence".into());
                return story;
            }
            // What can't be read is passed on as it is, and this client can't read it either.
            Err(Error::Protocol(_)) => {
                story.push("Malformed".into());
                return story;
            }
            Err(_) => {
                story.push("Closed".into());
                return story;
            }
        }
        // Login, simple query, extended query.
        if story.iter().filter(|line| line.starts_with("Ready")).count() == 3 {
            return story;
        }
    }
}

/// Runs all cases, many at once, and has each judged; returns how many there were.
///
/// # Panics
///
/// With what is wrong about the first cases, when some are; when Weir has ended, or its other pool does not serve.
#[track_caller]
pub(crate) fn run(cases: Vec<Case>, judge: impl Fn(&str, &[String]) -> Result<(), String> + Sync) -> usize {
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
                        let story = told(&site.weir().params(users::APP.name, &format!("case{number}")));
                        if let Err(what) = judge(&case.name, &story) {
                            wrong.push(format!("{}: {what}: {story:?}", case.name));
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("it does not panic")).collect()
    });
    assert!(site.weir().exited().is_none(), "Weir has ended: {}", site.weir().log());
    assert_eq!(
        site.connect().value("SELECT 'fine'").unwrap().as_deref(),
        Some("fine"),
        "the neighbours notice nothing"
    );
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), cases.len(), wrong[..wrong.len().min(10)].join("\n"));
    // Hostile servers close when they like, so pools of theirs may be at their logins still.
    site.weir().ask_nothing_at_end();
    let log = site.weir().log();
    let broken = log.lines().find(|line| line.contains("panicked") || line.contains("internal error"));
    assert_eq!(broken, None);
    cases.len()
}
