//! Clients that listen through one server of their pool (`listen = "shared"`), while that server is replaced or lost:
//! nothing is missing without a warning, and each warning is counted.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use weir_pgclient::{Connection, Frame};
use weir_pglocal::Signal;
use weir_pgwire::{backend, put_front, tag};
use weir_tests::{Api, Mode, Postgres, Setup, Site, eventually};

/// How long a message may take on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// The pause between two notifications.
const PACE: Duration = Duration::from_millis(5);

/// Clients of a pool of 3 share a server to listen.
pub(crate) fn sharing(mode: Mode) -> Setup {
    Setup::new(mode).size(3).workers(1).limit("listen = \"shared\"")
}

/// A client that listens, and what it has heard: numbers that ascend by one, but for gaps with a warning.
pub(crate) struct Listener {
    client: Connection,
    last: u32,
    warned: bool,
    pub(crate) warnings: u64,
}

impl Listener {
    pub(crate) fn new(mut client: Connection) -> Listener {
        client.query("LISTEN numbers").unwrap();
        assert!(client.take_notices().is_empty());
        // What was sent before it listened is not for it.
        Listener { client, last: 0, warned: true, warnings: 0 }
    }

    fn take(&mut self, frame: &Frame) {
        if frame.tag == tag::back::NOTICE && frame.body.windows(7).any(|part| part == b"missing") {
            (self.warned, self.warnings) = (true, self.warnings + 1);
        }
        if frame.tag != tag::back::NOTIFICATION {
            return;
        }
        let it = backend::notification(&frame.body).unwrap();
        let number: u32 = String::from_utf8_lossy(it.payload).parse().unwrap();
        let follows = number == self.last + 1 || (number > self.last && self.warned);
        assert!(follows, "{number} after {}, warned: {}", self.last, self.warned);
        (self.last, self.warned) = (number, false);
    }

    /// Takes what arrives up to this number or a later one.
    pub(crate) fn hears(&mut self, least: u32) {
        while self.last < least {
            let frame = self.client.read_frame(SOON).unwrap_or_else(|error| panic!("{error} after {}", self.last));
            self.take(&frame);
        }
    }

    /// Runs a transaction, with what arrives meanwhile.
    fn works(&mut self) {
        let mut message = Vec::new();
        put_front::query(&mut message, "BEGIN; SELECT 1; COMMIT");
        self.client.send_bytes(&message).unwrap();
        self.client.read_until_ready().unwrap().iter().for_each(|frame| self.take(frame));
    }
}

/// Runs `work` while numbers are sent, one after the other; it is given the number that was sent last.
pub(crate) fn while_numbers_are_sent(mut sender: Connection, work: impl FnOnce(&AtomicU32)) {
    let (sent, done) = (AtomicU32::new(0), AtomicBool::new(false));
    /// Ends the sender, also where the work fails.
    struct Ends<'a>(&'a AtomicBool);
    impl Drop for Ends<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let next = sent.load(Ordering::Relaxed) + 1;
                sender.query(&format!("NOTIFY numbers, '{next}'")).unwrap();
                sent.store(next, Ordering::Relaxed);
                thread::sleep(PACE);
            }
        });
        let _ends = Ends(&done);
        work(&sent);
    });
}

/// All listeners hear what is sent from now on.
pub(crate) fn all_hear(listeners: &mut [Listener], sent: &AtomicU32) {
    let now = sent.load(Ordering::Relaxed) + 1;
    listeners.iter_mut().for_each(|listener| listener.hears(now));
}

/// A reload that gives the pool's servers another address.
fn reload_with_another_address(site: &Site, setup: &Setup) {
    let toml = setup.toml(site.database());
    let by_socket = format!("host = \"{}\"", site.database().postgres().server().socket_dir().display());
    let moved = toml.replace("host = \"127.0.0.1\"", &by_socket);
    assert_ne!(moved, toml);
    site.weir().rewrite(&moved, &setup.userlist());
    site.weir().signal(Signal::SIGHUP);
}

#[test]
fn whatever_replaces_the_server_that_listens_nothing_is_missing_without_a_warning_and_a_count() {
    for mode in [Mode::Auto, Mode::Transaction] {
        let api = Api::default();
        let setup = sharing(mode).more(&api.section());
        let site = Site::with(setup.clone(), mode);
        let mut listeners: Vec<Listener> = (0..4).map(|_| Listener::new(site.connect())).collect();
        while_numbers_are_sent(site.superuser(), |sent| {
            all_hear(&mut listeners, sent);
            for command in ["RECONNECT", "PAUSE app", "reload"] {
                let before: Vec<u64> = listeners.iter().map(|listener| listener.warnings).collect();
                match command {
                    "reload" => reload_with_another_address(&site, &setup),
                    command => drop(site.weir().command(command).unwrap()),
                }
                if command == "PAUSE app" {
                    site.weir().command("RESUME app").unwrap();
                }
                // Until each was warned: the old server may listen until then.
                for (listener, before) in listeners.iter_mut().zip(before) {
                    while listener.warnings == before {
                        listener.works();
                        listener.hears(sent.load(Ordering::Relaxed));
                    }
                }
                all_hear(&mut listeners, sent);
            }
            let warned: u64 = listeners.iter().map(|listener| listener.warnings).sum();
            eventually("each warning is counted", || {
                let text = api.ask("GET", "/metrics", "").1;
                let line = text.lines().find(|line| line.starts_with("weir_notification_gaps_total{database=\"app\""));
                let counted = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
                if counted.is_some_and(|counted| counted >= warned as f64) { Ok(()) } else { Err((counted, warned)) }
            });
            site.weir().command("KILL app").unwrap();
            site.weir().command("RESUME app").unwrap();
            for listener in &mut listeners {
                while listener.client.read_frame(SOON).is_ok() {}
                *listener = Listener::new(site.connect());
            }
            all_hear(&mut listeners, sent);
        });
    }
}

#[test]
fn where_no_server_can_listen_clients_are_warned_once_and_hear_again_when_one_can() {
    for mode in [Mode::Auto, Mode::Transaction] {
        let postgres = Postgres::private();
        let site = Site::on(&postgres, sharing(mode).limit("server_login_retry = \"100ms\""), mode);
        let mut listeners: Vec<Listener> = (0..4).map(|_| Listener::new(site.connect())).collect();
        // A standby refuses LISTEN.
        postgres.demote();
        eventually("it is tried again and again", || match site.weir().log().matches("can't listen").count() {
            3.. => Ok(()),
            tried => Err(tried),
        });
        postgres.server().promote().unwrap();
        while_numbers_are_sent(site.superuser(), |sent| all_hear(&mut listeners, sent));
        let warnings: Vec<u64> = listeners.iter().map(|listener| listener.warnings).collect();
        assert_eq!(warnings, [1, 1, 1, 1]);
    }
}

/// What a client sends itself while no server listens may be missing: it does not wait for it.
#[test]
fn a_client_that_notifies_itself_is_answered_whatever_becomes_of_the_server_that_listens() {
    for mode in [Mode::Auto, Mode::Transaction] {
        let site = Site::with(sharing(mode), mode);
        let mut clients: Vec<Connection> = (0..2).map(|_| site.connect()).collect();
        clients.iter_mut().for_each(|client| drop(client.query("LISTEN own").unwrap()));
        let running = AtomicU32::new(2);
        thread::scope(|scope| {
            for client in &mut clients {
                let running = &running;
                scope.spawn(move || {
                    (0..300).for_each(|n| drop(client.query(&format!("NOTIFY own, '{n}'")).unwrap()));
                    running.fetch_sub(1, Ordering::Relaxed);
                });
            }
            while running.load(Ordering::Relaxed) > 0 {
                site.weir().command("RECONNECT app").unwrap();
                thread::sleep(Duration::from_millis(10));
            }
        });
    }
}
