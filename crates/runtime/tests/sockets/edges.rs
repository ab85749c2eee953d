//! Edge cases: connects that fail, listeners, deadlines, helpers, signals, the end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use weir_base::{ClientAddr, Host, Target, Time};
use weir_config::SocketIo;
use weir_engine::port::{Input, Level, Reread, Signal, Work, WorkResult};
use weir_runtime::{LogTarget, Running, RuntimeOptions, start};

use crate::common::*;

/// A runtime whose handler connects to `target` at its first tick, and reports all its inputs.
fn connecting(target: Target) -> (Running, Receiver<String>) {
    let (events, received) = channel();
    let mut first = Some((target, events));
    let running = serve(move |_| {
        let (target, events) = first.take().unwrap();
        let mut handler = script(move |_, input, io| {
            match &input {
                Input::Tick => drop(io.connect(&target)),
                Input::Connected { local, .. } => events.send(format!("from {local}")).unwrap(),
                _ => {}
            }
            events.send(event(&input)).unwrap();
            Time::NEVER
        });
        handler.deadline = Time::START;
        handler
    });
    assert_eq!(next(&received), "tick");
    (running, received)
}

/// A port without a listener.
fn closed_port() -> SocketAddr {
    TcpListener::bind((LOCAL, 0)).unwrap().local_addr().unwrap()
}

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("weir-runtime-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn nothing_happens(received: &Receiver<String>) {
    assert!(received.recv_timeout(Duration::from_millis(50)).is_err(), "no more inputs arrive");
}

#[test]
fn a_refused_connect_fails_once_with_the_systems_words() {
    let (_running, received) = connecting(target(closed_port()));
    let failed = next(&received);
    assert!(failed.contains("Connection refused"), "{failed}");
    nothing_happens(&received);
}

#[test]
fn a_connect_succeeds_once_and_says_from_where() {
    let listener = TcpListener::bind((LOCAL, 0)).unwrap();
    let (_running, received) = connecting(target(listener.local_addr().unwrap()));
    let (mut server, from) = listener.accept().unwrap();
    assert_eq!(next(&received), format!("from {from}"));
    assert_eq!(next(&received), "connected");
    nothing_happens(&received);
    server.write_all(b"hello").unwrap();
    assert_eq!(next(&received), "bytes 5");
    drop(server);
    assert_eq!([next(&received), next(&received)], ["ending", "closed Eof"]);
}

#[test]
fn a_name_is_looked_up_and_its_addresses_are_tried_in_order() {
    // "localhost" may be ::1 first; the server listens on the other one.
    let listener = TcpListener::bind((LOCAL, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let (_running, received) = connecting(Target { host: Host::Name("localhost".into()), port });
    listener.accept().unwrap();
    assert_eq!(next(&received), "resolved localhost");
    assert!(next(&received).starts_with("from 127.0.0.1:"));
    assert_eq!(next(&received), "connected");
}

#[test]
fn a_name_without_an_answer_fails_once() {
    let host = Host::Name("no-such-host.invalid".into());
    let (_running, received) = connecting(Target { host, port: 5432 });
    assert_eq!(next(&received), "resolved no-such-host.invalid");
    let failed = next(&received);
    assert!(failed.contains("could not look up \"no-such-host.invalid\""), "{failed}");
    nothing_happens(&received);
}

#[test]
fn a_folder_means_postgresqls_socket_in_it() {
    let dir = folder("connect");
    let path = dir.join(".s.PGSQL.7777");
    let listener = UnixListener::bind(&path).unwrap();
    let (_running, received) = connecting(Target { host: Host::SocketDir(dir.clone()), port: 7777 });
    let (mut server, _) = listener.accept().unwrap();
    assert_eq!(next(&received), format!("from {}", path.display()));
    assert_eq!(next(&received), "connected");
    server.write_all(b"hello").unwrap();
    assert_eq!(next(&received), "bytes 5");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_unix_socket_with_a_full_queue_is_waited_for() {
    let dir = folder("full");
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    socket.bind(&socket2::SockAddr::unix(dir.join(".s.PGSQL.1")).unwrap()).unwrap();
    socket.listen(0).unwrap();
    let first = UnixStream::connect(dir.join(".s.PGSQL.1")).unwrap();
    let (_running, received) = connecting(Target { host: Host::SocketDir(dir.clone()), port: 1 });
    nothing_happens(&received);
    let listener: UnixListener = socket.into();
    listener.accept().unwrap();
    assert!(next(&received).starts_with("from "));
    assert_eq!(next(&received), "connected");
    drop(first);
    std::fs::remove_dir_all(dir).unwrap();
}

fn unix_plan(dir: &std::path::Path) -> RuntimeOptions {
    let mut plan = plan(1);
    plan.listen.addresses.clear();
    plan.listen.port = 6432;
    plan.listen.unix_socket_dir = Some(dir.to_owned());
    plan.listen.unix_socket_mode = 0o770;
    plan
}

#[test]
fn our_unix_socket_has_its_mode_knows_its_clients_and_vanishes_with_us() {
    let dir = folder("listen");
    let (events, received) = channel();
    let mut events = Some(events);
    let running = start(unix_plan(&dir), |_| {
        let events = events.take().unwrap();
        script(move |_, input, io| {
            match input {
                Input::Accepted { from, .. } => events.send(from).unwrap(),
                Input::Bytes { conn, bytes } => io.send(conn, bytes),
                _ => {}
            }
            Time::NEVER
        })
    })
    .unwrap();
    let path = running.bound().unix.clone().unwrap();
    assert_eq!(path, dir.join(".s.PGSQL.6432"));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o770);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"hello").unwrap();
    assert_eq!(read(&mut stream, 5), b"hello");
    let uid = std::fs::metadata("/proc/self").map(|m| std::os::unix::fs::MetadataExt::uid(&m)).unwrap();
    assert_eq!(received.recv().unwrap(), ClientAddr::Unix { pid: std::process::id(), uid });
    drop(running);
    assert!(!path.exists());
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn only_a_dead_socket_file_is_replaced() {
    let dir = folder("stale");
    let path = dir.join(".s.PGSQL.6432");
    let handler = |_| script(|_, _, _| Time::NEVER);

    let alive = UnixListener::bind(&path).unwrap();
    let refused = start(unix_plan(&dir), handler).err().unwrap().to_string();
    assert!(refused.contains("in use"), "{refused}");
    assert!(path.exists());

    drop(alive);
    drop(start(unix_plan(&dir), handler).unwrap());

    std::fs::write(&path, "precious").unwrap();
    let refused = start(unix_plan(&dir), handler).err().unwrap().to_string();
    assert!(refused.contains("no socket"), "{refused}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_port_in_use_starts_nothing_and_says_what_to_do() {
    let taken = TcpListener::bind((LOCAL, 0)).unwrap();
    let mut plan = plan(1);
    plan.listen.port = taken.local_addr().unwrap().port();
    let text = start(plan, |_| script(|_, _, _| Time::NEVER)).err().unwrap().to_string();
    let address = taken.local_addr().unwrap();
    let name = std::fs::read_to_string("/proc/self/comm").unwrap();
    let name = name.trim();
    assert_eq!(
        text,
        format!(
            "can't listen on {address}: the address is in use by {name} (process {}); stop it, or set another port \
             ([listen] port; listen_port in an ini)",
            std::process::id()
        )
    );
}

#[test]
fn the_system_hands_a_listeners_options_on_as_the_runtime_relies_on() {
    let listener = TcpListener::bind((LOCAL, 0)).unwrap();
    let socket = socket2::SockRef::from(&listener);
    socket.set_tcp_nodelay(true).unwrap();
    socket.set_keepalive(true).unwrap();
    let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    assert!(accepted.nodelay().unwrap());
    assert!(socket2::SockRef::from(&accepted).keepalive().unwrap());
}

#[test]
fn listeners_close_and_come_back_on_the_same_port() {
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve(|_| {
        let events = events.take().unwrap();
        script(move |_, input, io| {
            match input {
                Input::Signal(Signal::Pause) => io.accept(false),
                Input::Signal(Signal::Resume) => io.accept(true),
                _ => {}
            }
            events.send(event(&input)).unwrap();
            Time::NEVER
        })
    });
    let at = address(&running);
    let handle = running.handle();
    handle.signal(Signal::Pause);
    assert_eq!(next(&received), "Pause");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(TcpStream::connect(at).unwrap_err().kind(), std::io::ErrorKind::ConnectionRefused);
    handle.signal(Signal::Resume);
    assert_eq!(next(&received), "Resume");
    std::thread::sleep(Duration::from_millis(20));
    connect(at);
    assert_eq!(next(&received), "accepted");
}

#[test]
fn helpers_answer_all_however_many_are_asked() {
    const JOBS: u64 = 500;
    let (events, received) = channel();
    let mut events = Some(events);
    let mut plan = plan(1);
    plan.reload = Arc::new(|_| Err("line 3: not a port".into()));
    let _running = start(plan, |_| {
        let events = events.take().unwrap();
        let mut handler = script(move |_, input, io| {
            match input {
                Input::Tick => {
                    let salt = |i: u64| Work::SaltClient {
                        password: "pencil".into(),
                        salt: i.to_be_bytes().into(),
                        iterations: 2,
                    };
                    (0..JOBS).for_each(|i| io.submit_job(i, salt(i)));
                    io.submit_job(JOBS, Work::LoadConfig(Reread::All, Arc::default()));
                    io.submit_job(JOBS + 1, Work::NameOfUser(0));
                }
                Input::JobDone { job, result } => events.send((job, result)).unwrap(),
                _ => {}
            }
            Time::NEVER
        });
        handler.deadline = Time::START;
        handler
    })
    .unwrap();
    let mut seen = vec![false; JOBS as usize + 2];
    for _ in 0..seen.len() {
        let (job, answer) = received.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(!std::mem::replace(&mut seen[job as usize], true), "job {job} is answered once");
        match answer {
            WorkResult::Salted(salted) => assert_eq!(salted, weir_auth::salt_password("pencil", &job.to_be_bytes(), 2)),
            WorkResult::UserName(name) => assert_eq!(name.as_deref(), Some("root")),
            WorkResult::Config(result) => assert_eq!(result.unwrap_err(), "line 3: not a port"),
            WorkResult::Changed(_)
            | WorkResult::Checked(_)
            | WorkResult::Password(_)
            | WorkResult::Recorded(_)
            | WorkResult::Patroni(_) => {
                panic!("nothing was changed, checked or printed")
            }
        }
    }
}

#[test]
fn the_configuration_and_logins_at_servers_do_not_wait_for_clients() {
    const CLIENTS: u64 = 60;
    let (events, received) = channel();
    let mut events = Some(events);
    let mut plan = plan(1);
    plan.reload = Arc::new(|_| Err("line 3: not a port".into()));
    let _running = start(plan, |_| {
        let events = events.take().unwrap();
        let mut handler = script(move |_, input, io| {
            match input {
                Input::Tick => {
                    // Seconds of work.
                    let (password, salt) = (|| "pencil".into(), || b"salt".to_vec());
                    let long = || Work::SaltClient { password: password(), salt: salt(), iterations: 400_000 };
                    (0..CLIENTS).for_each(|job| io.submit_job(job, long()));
                    io.submit_job(CLIENTS, Work::LoadConfig(Reread::All, Arc::default()));
                    io.submit_job(CLIENTS + 1, Work::SaltServer { password: password(), salt: salt(), iterations: 2 });
                    io.submit_job(CLIENTS + 2, Work::NameOfUser(0));
                }
                Input::JobDone { job, .. } => drop(events.send(job)),
                _ => {}
            }
            Time::NEVER
        });
        handler.deadline = Time::START;
        handler
    })
    .unwrap();
    let order: Vec<u64> = (0..CLIENTS + 3).map(|_| received.recv_timeout(Duration::from_secs(120)).unwrap()).collect();
    let place = |job: u64| order.iter().position(|answered| *answered == job).unwrap();
    for job in CLIENTS..CLIENTS + 3 {
        assert!(place(job) < CLIENTS as usize / 2, "job {job} waited for clients: {order:?}");
    }
}

#[test]
fn the_handler_ends_the_process_with_its_status_and_the_last_lines_are_logged() {
    let lines = Lines::default();
    let mut plan = plan(3);
    plan.log = LogTarget::Writer(Box::new(lines.clone()));
    let running = start(plan, |_| {
        script(|_, input, io| {
            if let Input::Signal(Signal::Quit) = input {
                io.log(Level::Info, "got SIGQUIT, fast exit");
                io.exit(3);
            }
            Time::NEVER
        })
    })
    .unwrap();
    running.handle().signal(Signal::Quit);
    assert_eq!(running.wait(), 3);
    assert!(lines.text().ends_with(" LOG got SIGQUIT, fast exit\n"), "{}", lines.text());
}

#[test]
fn the_log_s_first_line_says_what_sockets_are_served_with() {
    for io in [SocketIo::Epoll, SocketIo::Auto, SocketIo::IoUring] {
        let lines = Lines::default();
        let plan = RuntimeOptions { log: LogTarget::Writer(Box::new(lines.clone())), io, ..plan(2) };
        let (echo, _received) = Echo::new();
        let mut echoes = vec![Echo { event: echo.event.clone() }, echo];
        let running = start(plan, |_| echoes.pop().unwrap()).unwrap();
        let mut stream = client(&running);
        stream.write_all(b"hello").unwrap();
        assert_eq!(read(&mut stream, 5), b"hello");
        drop(running);
        let text = lines.text();
        let first = text.lines().next().unwrap_or_default();
        let warned = text.contains(" WARNING io = \"io_uring\" is not available");
        // Without a ring in the kernel the reason is logged: nowhere with epoll, in the same line with auto, as a
        // warning otherwise.
        let fits = match io {
            SocketIo::Epoll => first.ends_with("up, io: epoll") && !warned,
            SocketIo::Auto => (first.ends_with("up, io: io_uring") || first.contains("up, io: epoll (")) && !warned,
            SocketIo::IoUring => first.ends_with(if warned { "up, io: epoll" } else { "up, io: io_uring" }),
        };
        assert!(fits, "{io}: {text}");
    }
}

#[test]
fn a_worker_that_panics_ends_all() {
    let running = start(plan(2), |_| {
        script(|_, input, _| {
            assert!(!matches!(input, Input::Signal(_)), "a planted panic");
            Time::NEVER
        })
    })
    .unwrap();
    running.handle().signal(Signal::Pause);
    assert_eq!(running.wait(), 101);
}

#[test]
fn closing_a_peer_ends_its_handle() {
    let (events, received) = channel();
    let mut events = Some(events);
    let running = serve(|_| {
        let events = events.take().unwrap();
        script(move |_, input, io| {
            events.send(event(&input)).unwrap();
            if let Input::Bytes { conn, .. } = input {
                io.send(conn, b"bye");
                io.close(conn);
                // None of these calls concerns an existing connection.
                io.send(conn, b"lost");
                io.close(conn);
                io.resume(conn);
                io.detach(conn);
            }
            Time::NEVER
        })
    });
    let mut stream = client(&running);
    stream.write_all(b"quit").unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "bye");
    assert_eq!([next(&received), next(&received)], ["accepted", "bytes 4"]);
    nothing_happens(&received);
}
