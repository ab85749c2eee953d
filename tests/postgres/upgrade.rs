//! `weir upgrade`: another process takes over, and no client notices; whatever fails leaves the old one serving.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::listening_gaps::{Listener, all_hear, sharing, while_numbers_are_sent};
use weir_pgclient::Connection;
use weir_pglocal::{Signal, send_signal};
use weir_pgwire::put_front;
use weir_tests::{Batch, Bench, Mode, Postgres, Setup, Site, ask, eventually, read_until_ready, weir_binary};

/// A Weir whose process is replaced now and then; the last one is ended with the test.
pub(crate) struct Replaced {
    pub(crate) site: Site,
    pub(crate) pid: u32,
    /// The supervisor's socket, where the command is run by one.
    supervisor: Option<PathBuf>,
}

impl Replaced {
    pub(crate) fn new(setup: Setup) -> Replaced {
        let site = Site::with(setup, Mode::Transaction);
        site.weir().skip_final_checks();
        let pid = site.weir().pid();
        Replaced { site, pid, supervisor: None }
    }

    /// What the command printed, and its errors as text. The errors go to a file, because the new process writes its
    /// log to the same place.
    pub(crate) fn command(&self) -> (bool, String, String) {
        let folder = self.site.weir().folder();
        let errors = folder.join("upgrade.log");
        let log = File::create(&errors).unwrap();
        let mut command = Command::new(weir_binary());
        command.arg("upgrade").arg(folder.join("weir.toml")).stderr(log);
        command.envs(self.supervisor.iter().map(|path| ("NOTIFY_SOCKET", path)));
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), printed, fs::read_to_string(errors).unwrap())
    }

    /// Has another process take over.
    pub(crate) fn upgrade(&mut self) {
        let (done, said, errors) = self.command();
        assert!(done, "{said}{errors}");
        self.note(&said);
    }

    /// Notes the process that has taken over, of which the command has said this.
    pub(crate) fn note(&mut self, said: &str) {
        let pid = said.split_whitespace().nth(1).and_then(|word| word.parse().ok());
        self.pid = pid.unwrap_or_else(|| panic!("no process in {said:?}"));
        Postgres::shared().server().reaper().watch(self.pid);
    }

    /// Has another process take over, and waits until nothing is left with the old process.
    pub(crate) fn upgrade_all(&mut self) {
        let old = self.pid;
        self.upgrade();
        if old == self.site.weir().pid() {
            assert!(self.site.weir().wait_for_exit().success(), "it has ended in order");
        }
        wait_for_end(old);
    }

    /// Where the process that serves is asked.
    fn socket(&self) -> PathBuf {
        let port = self.site.weir().port().to_string();
        let of_weir = |base: PathBuf| {
            let folders = std::fs::read_dir(base).into_iter().flatten().flatten().map(|entry| entry.path());
            folders.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".weir-")))
        };
        let mut folders = of_weir(std::env::temp_dir()).chain(of_weir("/run".into()));
        let found = folders.find_map(|folder| Some(folder.join(&port)).filter(|path| path.exists()));
        found.expect("the folder of the server's user")
    }
}

#[test]
fn clients_that_listen_hear_what_is_sent_after_an_upgrade_and_are_warned_of_the_gap() {
    for mode in [Mode::Auto, Mode::Transaction] {
        let mut weir = Replaced::new(sharing(mode));
        let mut listeners: Vec<Listener> = (0..4).map(|_| Listener::new(weir.site.connect())).collect();
        while_numbers_are_sent(weir.site.superuser(), |sent| {
            for round in 1..3 {
                all_hear(&mut listeners, sent);
                weir.upgrade_all();
                all_hear(&mut listeners, sent);
                assert!(listeners.iter().all(|listener| listener.warnings >= round), "after upgrade {round}");
            }
        });
    }
}

impl Drop for Replaced {
    fn drop(&mut self) {
        if self.pid != self.site.weir().pid() {
            send_signal(self.pid, Signal::SIGQUIT);
        }
    }
}

/// The format of this version.
pub(crate) const FORMAT: u32 = 9;

fn setup(size: u32) -> Setup {
    Setup::new(Mode::Transaction).size(size)
}

#[test]
fn an_upgrade_keeps_clients_with_their_statements_settings_and_cancel_keys_and_servers() {
    for workers in [1, 2] {
        let mut weir = Replaced::new(setup(1).workers(workers));
        let mut client = weir.site.connect();
        let prepared = ask(&mut client, &Batch::new().parse("add", "SELECT $1::int + $2::int").sync(), 1);
        assert_eq!(prepared, ["ParseComplete", "Ready I"]);
        client.query("SET TimeZone = 'Europe/Vienna'").unwrap();
        client.query("SET application_name = 'moved'").unwrap();
        let backend = client.value("SELECT pg_backend_pid()").unwrap();
        let canceller = client.canceller();
        for _ in 0..3 {
            weir.upgrade_all();
            let run = Batch::new().bind("", "add", &["40", "2"]).execute("", 0).sync();
            assert_eq!(ask(&mut client, &run, 1), ["BindComplete", "Row 42", "Complete SELECT 1", "Ready I"]);
            assert_eq!(client.value("SHOW TimeZone").unwrap().as_deref(), Some("Europe/Vienna"));
            assert_eq!(client.value("SHOW application_name").unwrap().as_deref(), Some("moved"));
            assert_eq!(client.value("SELECT pg_backend_pid()").unwrap(), backend, "the server has moved, too");
        }
        thread::scope(|scope| {
            let query = scope.spawn(|| client.query("SELECT pg_sleep(30)"));
            eventually("the query is cancelled", || {
                canceller.cancel().map_err(|error| error.to_string())?;
                thread::sleep(Duration::from_millis(50));
                if query.is_finished() { Ok(()) } else { Err("it runs".to_owned()) }
            });
            assert_eq!(query.join().unwrap().unwrap_err().sqlstate(), Some("57014"));
        });
        assert!(weir.site.connect().query("SELECT 1").is_ok(), "new clients come to the same port");
    }
}

#[test]
fn a_client_in_a_transaction_stays_with_the_old_process_until_it_is_over() {
    let mut weir = Replaced::new(setup(2));
    let mut client = weir.site.connect();
    client.query("BEGIN").unwrap();
    let backend = client.value("SELECT pg_backend_pid()").unwrap();
    weir.upgrade();
    assert_eq!(client.value("SELECT pg_backend_pid()").unwrap(), backend);
    assert!(weir.site.weir().exited().is_none(), "it still serves this transaction");
    weir.site.connect().query("SELECT 1").expect("the new one serves others");
    client.query("COMMIT").unwrap();
    assert!(weir.site.weir().wait_for_exit().success());
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn a_client_that_logs_in_at_the_old_process_is_served_by_the_new_one() {
    let mut weir = Replaced::new(setup(2).auth("trust"));
    let mut busy = weir.site.connect();
    busy.query("BEGIN").unwrap();
    let params = weir.site.params();
    let mut late = Connection::open(&params).unwrap();
    let mut asks = Vec::new();
    put_front::ssl_request(&mut asks);
    late.send_bytes(&asks).unwrap();
    assert_eq!(late.read_bytes(Duration::from_secs(20)).unwrap(), b"N", "the old process has accepted it");
    weir.upgrade();
    let mut startup = Vec::new();
    put_front::startup(&mut startup, &[("user", &params.user), ("database", &params.database)], 0);
    late.send_bytes(&startup).unwrap();
    read_until_ready(&mut late, 1);
    assert_eq!(
        ask(&mut late, &Batch::new().query("SELECT 42"), 1),
        ["Columns ?column?", "Row 42", "Complete SELECT 1", "Ready I"]
    );
    assert!(weir.site.weir().exited().is_none(), "it still serves the transaction");
    busy.query("COMMIT").unwrap();
    assert!(weir.site.weir().wait_for_exit().success());
}

#[test]
fn a_client_that_stays_in_a_transaction_gets_an_error_after_upgrade_timeout() {
    let mut weir = Replaced::new(setup(2).general("upgrade_timeout = \"300ms\""));
    let (mut busy, mut idle) = (weir.site.connect(), weir.site.connect());
    busy.query("BEGIN").unwrap();
    weir.upgrade();
    assert!(weir.site.weir().wait_for_exit().success(), "it does not wait for that client");
    let error = busy.query("COMMIT").unwrap_err();
    assert_eq!(error.sqlstate(), Some("57P01"), "{error}");
    assert_eq!(idle.value("SELECT 1").unwrap().as_deref(), Some("1"), "it has moved");
}

#[test]
fn upgrades_under_load_cost_no_error() {
    let mut weir = Replaced::new(setup(5).auth("md5").workers(2));
    let params = weir.site.params();
    let filled = Bench { target: &params, arguments: &["-i", "-q"] }.run();
    assert!(filled.succeeded, "{}", filled.output);
    thread::scope(|scope| {
        let loads = [&["-M", "prepared", "-S", "-c", "10"][..], &["-M", "simple", "-c", "5"], &["-C", "-S", "-c", "2"]];
        let runs = loads.map(|load| {
            let params = params.clone();
            scope.spawn(move || {
                let arguments = [&["-n", "-T", "8"], load].concat();
                Bench { target: &params, arguments: &arguments }.run()
            })
        });
        for _ in 0..8 {
            thread::sleep(Duration::from_millis(500));
            weir.upgrade();
        }
        for run in runs {
            let run = run.join().unwrap();
            assert!(
                run.succeeded && !run.output.contains("ERROR") && !run.output.contains("aborted"),
                "{}",
                run.output
            );
        }
    });
}

#[test]
fn the_processes_of_several_upgrades_have_no_more_servers_together_than_the_pool() {
    for workers in [1, 2] {
        let mut weir = Replaced::new(setup(5).workers(workers));
        let (served, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let most = AtomicUsize::new(0);
        let mut loads: Vec<_> = (0..8).map(|_| weir.site.connect()).collect();
        let mut sampler = weir.site.superuser();
        thread::scope(|scope| {
            let _ends = Ends(&stop);
            let count = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'app'";
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let now = sampler.value(count).unwrap().and_then(|count| count.parse().ok()).unwrap();
                    most.fetch_max(now, Ordering::Relaxed);
                }
            });
            for client in &mut loads {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        client.query("SELECT pg_sleep(0.005)").unwrap();
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let progress = |what: &str| {
                let before = served.load(Ordering::Relaxed);
                eventually(what, || {
                    let now = served.load(Ordering::Relaxed);
                    if now > before + 100 { Ok(()) } else { Err(now) }
                });
            };
            let mut busy = Vec::new();
            for _ in 0..4 {
                progress("the load is served");
                let mut client = weir.site.connect();
                client.query("BEGIN").unwrap();
                busy.push(client);
                weir.upgrade();
            }
            progress("the load is served by what four old processes leave");
            assert!(weir.site.weir().exited().is_none(), "the first process serves its client still");
            for mut client in busy {
                client.query("COMMIT").unwrap();
            }
            assert!(weir.site.weir().wait_for_exit().success());
            progress("the load is served by the last process");
        });
        assert_eq!(most.into_inner(), 5, "servers of all processes");
        weir.upgrade_all();
    }
}

/// Ends what a test has begun, also when it fails.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits until a process has ended, a zombie perhaps.
pub(crate) fn wait_for_end(pid: u32) {
    eventually("the old process has ended", || if runs(pid) { Err(pid) } else { Ok(()) });
}

/// Whether a process has open files: a zombie has none.
pub(crate) fn runs(pid: u32) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd")).is_ok_and(|mut open| open.next().is_some())
}

#[test]
fn a_process_that_still_takes_over_is_upgraded_in_turn() {
    let mut weir = Replaced::new(setup(2).workers(2));
    let (mut busy, mut idle) = (weir.site.connect(), weir.site.connect());
    idle.query("SET application_name = 'moved'").unwrap();
    busy.query("BEGIN").unwrap();
    weir.upgrade();
    let second = weir.pid;
    weir.upgrade();
    let third = weir.pid;
    weir.upgrade();
    thread::sleep(Duration::from_millis(300));
    assert!(weir.site.weir().exited().is_none(), "it still serves the transaction");
    assert!(!weir.site.weir().log().contains("serving on"), "{}", weir.site.weir().log());
    assert_eq!(idle.value("SHOW application_name").unwrap().as_deref(), Some("moved"));
    assert_eq!(busy.query("COMMIT").unwrap().tag, "COMMIT");
    assert!(weir.site.weir().wait_for_exit().success());
    wait_for_end(second);
    wait_for_end(third);
    assert_eq!(busy.value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert!(weir.site.connect().query("SELECT 1").is_ok());
    weir.upgrade_all();
}

#[test]
fn a_query_that_the_old_process_still_runs_is_cancelled_by_way_of_the_new_ones() {
    for workers in [1, 2] {
        let mut weir = Replaced::new(setup(2).workers(workers));
        let mut clients: Vec<_> = (0..3).map(|_| weir.site.connect()).collect();
        let canceller = clients[2].canceller();
        thread::scope(|scope| {
            let client = &mut clients[2];
            let query = scope.spawn(|| client.query("SELECT pg_sleep(30)"));
            thread::sleep(Duration::from_millis(300));
            weir.upgrade();
            weir.upgrade();
            eventually("the query is cancelled", || {
                canceller.cancel().map_err(|error| error.to_string())?;
                thread::sleep(Duration::from_millis(100));
                if query.is_finished() { Ok(()) } else { Err("it runs".to_owned()) }
            });
            assert_eq!(query.join().unwrap().unwrap_err().sqlstate(), Some("57014"));
        });
        for client in &mut clients {
            assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
        }
        assert!(weir.site.weir().wait_for_exit().success());
    }
}

#[test]
fn sockets_stay_where_they_are_whichever_of_two_processes_ends_first() {
    let mut weir = Replaced::new(setup(2));
    let file = weir.site.weir().folder().join("weir.toml");
    let good = fs::read_to_string(&file).unwrap();
    // A new process that fails after it has got the listening sockets.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let web = format!("{good}\n[web]\naddress = \"127.0.0.1\"\nport = {}\n", taken.local_addr().unwrap().port());
    fs::write(&file, web).unwrap();
    let (done, _, said) = weir.command();
    assert!(!done && said.contains("in use"), "{said}");
    fs::write(&file, &good).unwrap();
    assert!(weir.socket().exists());
    // An old process that is ended while it still serves a client.
    let mut client = weir.site.connect();
    client.query("BEGIN").unwrap();
    weir.upgrade();
    send_signal(weir.site.weir().pid(), Signal::SIGQUIT);
    weir.site.weir().wait_for_exit();
    assert!(weir.socket().exists());
    assert!(weir.site.connect().query("SELECT 1").is_ok());
    weir.upgrade_all();
    assert!(weir.site.connect().query("SELECT 1").is_ok());
}

/// Sends a first frame with this format, and returns the answer's kind and text.
pub(crate) fn hello(weir: &Replaced, format: u32) -> (UnixStream, u8, String) {
    let mut stream = UnixStream::connect(weir.socket()).unwrap();
    stream.write_all(&[&[1, 0, 0, 0, 7][..], &format.to_be_bytes(), b"9.9"].concat()).unwrap();
    let mut head = [0; 5];
    stream.read_exact(&mut head).unwrap();
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize];
    stream.read_exact(&mut body).unwrap();
    (stream, head[0], String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn a_process_that_can_t_read_the_format_is_refused_and_the_old_one_serves_on() {
    let weir = Replaced::new(setup(1));
    let mut client = weir.site.connect();
    let (_, kind, text) = hello(&weir, 999_999);
    assert_eq!(kind, 2);
    assert!(text.contains("this version can't read"), "{text}");
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert!(weir.site.connect().query("SELECT 1").is_ok());
}

#[test]
fn a_process_that_dies_in_a_take_over_leaves_the_old_one_serving_and_the_next_one_takes_over() {
    let mut weir = Replaced::new(setup(1));
    let mut client = weir.site.connect();
    // The new process dies before it serves, and then after it does. Whatever the new process was given is lost with
    // it, so the client is in a transaction, in which it is not given away.
    drop(hello(&weir, FORMAT));
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    client.query("BEGIN").unwrap();
    let (mut stream, kind, _) = hello(&weir, FORMAT);
    assert_eq!(kind, 3);
    stream.write_all(&[4, 0, 0, 0, 1, 77]).unwrap();
    thread::sleep(Duration::from_millis(200));
    drop(stream);
    eventually("the old process knows", || {
        if weir.site.weir().log().contains("serving on") { Ok(()) } else { Err(weir.site.weir().log()) }
    });
    assert_eq!(client.query("COMMIT").unwrap().tag, "COMMIT");
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert!(weir.site.connect().query("SELECT 1").is_ok(), "it accepts again");
    weir.upgrade();
    assert_eq!(client.value("SELECT 1").unwrap().as_deref(), Some("1"));
    assert!(weir.site.weir().wait_for_exit().success());
}

#[test]
fn a_process_that_hangs_in_a_take_over_ends_and_the_old_one_accepts_again() {
    let mut weir = Replaced::new(setup(2));
    let mut busy = weir.site.connect();
    busy.query("BEGIN").unwrap();
    weir.upgrade();
    let new = weir.pid;
    send_signal(new, Signal::SIGSTOP);
    // The frozen one may have taken connections from the queue: those wait until it ends.
    eventually("a client is served while the new process hangs", || {
        let log = weir.site.weir().log();
        if log.contains("serving on") { Ok(()) } else { Err(log) }
    });
    assert!(weir.site.connect().query("SELECT 1").is_ok());
    send_signal(new, Signal::SIGCONT);
    wait_for_end(new);
    weir.pid = weir.site.weir().pid();
    assert_eq!(busy.query("COMMIT").unwrap().tag, "COMMIT");
    assert!(weir.site.connect().query("SELECT 1").is_ok());
    weir.upgrade_all();
    assert_eq!(busy.value("SELECT 1").unwrap().as_deref(), Some("1"));
}

#[test]
fn an_old_process_ends_with_the_new_one_that_shuts_down() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT] {
        let mut weir = Replaced::new(setup(2));
        let mut busy = weir.site.connect();
        busy.query("BEGIN").unwrap();
        weir.upgrade();
        send_signal(weir.pid, signal);
        wait_for_end(weir.pid);
        weir.pid = weir.site.weir().pid();
        eventually("the old process accepts nobody", || {
            let log = weir.site.weir().log();
            let serves = Connection::open(&weir.site.params()).is_ok();
            if !serves && log.contains("shuts down: the clients") { Ok(()) } else { Err(log) }
        });
        assert!(!weir.site.weir().log().contains("serving on"));
        assert_eq!(busy.query("COMMIT").unwrap().tag, "COMMIT");
        assert!(weir.site.weir().wait_for_exit().success(), "the transaction was all that it waited for");
    }
}

#[test]
fn a_process_whose_old_process_is_killed_stays() {
    let weir = Replaced::new(setup(1));
    let folder = weir.site.weir().folder();
    let log = File::create(folder.join("new.log")).unwrap();
    let mut command = Command::new(weir_binary());
    command.args(["upgrade", "--foreground"]).arg(folder.join("weir.toml")).stderr(log);
    let mut new = command.spawn().unwrap();
    Postgres::shared().server().reaper().watch(new.id());
    eventually("it has the sockets", || {
        let log = weir.site.weir().log();
        if log.contains("asks to take over") { Ok(()) } else { Err(log) }
    });
    weir.site.weir().kill9();
    let log = folder.join("new.log");
    eventually("the new process knows", || {
        let said = fs::read_to_string(&log).unwrap();
        // The old process may have been killed before it had offered anything, or when all had moved.
        let known = ["the old process ended early", "the old process has ended", "can't take over"];
        if known.iter().any(|text| said.contains(text)) { Ok(()) } else { Err(said) }
    });
    let said = fs::read_to_string(&log).unwrap();
    if said.contains("ready on") {
        let answer = Connection::connect(&weir.site.params()).and_then(|mut client| client.query("SELECT 1"));
        assert!(answer.is_ok(), "{answer:?}: {}", fs::read_to_string(&log).unwrap());
    }
    new.kill().unwrap();
    new.wait().unwrap();
}

#[test]
fn the_command_returns_to_a_caller_that_reads_its_errors_to_the_end_and_the_log_goes_on_where_it_was() {
    let mut weir = Replaced::new(setup(1));
    let folder = weir.site.weir().folder();
    let mut command = Command::new(weir_binary());
    let output = command.arg("upgrade").arg(folder.join("weir.toml")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    weir.pid = said.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap();
    Postgres::shared().server().reaper().watch(weir.pid);
    weir.site.weir().wait_for_exit();
    assert!(weir.site.connect().query("SELECT 1").is_ok());
    eventually("the new process writes into the old one's log", || {
        let log = weir.site.weir().log();
        if log.contains("the old process has ended") { Ok(()) } else { Err(log) }
    });
}

#[test]
fn a_supervisor_hears_of_the_new_main_process_before_that_is_ready() {
    let mut weir = Replaced::new(setup(1));
    let folder = weir.site.weir().folder();
    let path = folder.join("notify");
    let supervisor = UnixDatagram::bind(&path).unwrap();
    let mut command = Command::new(weir_binary());
    command.arg("upgrade").arg(folder.join("weir.toml")).env("NOTIFY_SOCKET", &path);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    weir.pid = said.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap();
    Postgres::shared().server().reaper().watch(weir.pid);
    let hear = || {
        let mut buffer = [0; 256];
        let length = supervisor.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).trim().to_owned()
    };
    assert_eq!(hear(), format!("MAINPID={}", weir.pid));
    assert_eq!(hear(), "READY=1");
}

#[test]
fn a_process_that_a_supervisor_has_started_is_replaced_by_that_ones_way_only() {
    let mut weir = Replaced::new(setup(1));
    let path = weir.site.weir().folder().join("notify");
    let _supervisor = UnixDatagram::bind(&path).unwrap();
    weir.supervisor = Some(path);
    weir.upgrade_all();
    let supervised = weir.pid;
    let path = weir.supervisor.take();
    let (done, said, errors) = weir.command();
    let expected = format!("can't take over from process {supervised}: it belongs to ");
    assert!(!done && said.is_empty() && errors.contains(&expected) && errors.contains("systemctl"), "{said}{errors}");
    assert!(weir.site.connect().query("SELECT 1").is_ok(), "it serves on");
    weir.supervisor = path;
    weir.upgrade_all();
    assert!(weir.site.connect().query("SELECT 1").is_ok());
}

#[test]
fn a_paused_process_is_not_taken_over_from_and_without_one_the_command_fails() {
    let weir = Replaced::new(setup(1));
    weir.site.weir().command("PAUSE").unwrap();
    let (done, _, said) = weir.command();
    assert!(!done && said.contains("RESUME first"), "{said}");
    weir.site.weir().command("RESUME").unwrap();
    assert!(weir.site.connect().query("SELECT 1").is_ok());
    weir.site.weir().kill9();
    let (done, _, said) = weir.command();
    assert!(!done && said.contains("no process serves there"), "{said}");
}
