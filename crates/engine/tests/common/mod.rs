//! An engine in memory: what it asks for is recorded, the rules of its port are checked, and its peers are played by the
//! tests.

#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::Arc;

use weir_base::{ClientAddr, Host, Peer, Span, Target, Time, WorkerId};
use weir_config::{Config, Method, Pool};
use weir_engine::mail::Mail;
use weir_engine::port::{Answer, Gone, Input, Io, Level, Signal, Work};
use weir_engine::{Engine, Setup};
use weir_pgwire::{put_back, put_front};

/// What an engine asked for, beside sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    Connect(Peer),
    Close(Peer),
    Pause(Peer),
    Resume(Peer),
    Detach(Peer),
    Help(u64),
    Accept(bool),
    Exit(i32),
}

/// The port.
#[derive(Default)]
pub(crate) struct Port {
    input: Vec<u8>,
    slots: u32,
    alive: BTreeSet<Peer>,
    paused: BTreeSet<Peer>,
    sent: BTreeMap<Peer, Vec<u8>>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) mail: VecDeque<(WorkerId, Mail, Option<Peer>)>,
}

impl Port {
    fn peer(&mut self) -> Peer {
        self.slots += 1;
        let peer = Peer::new(self.slots, 1);
        self.alive.insert(peer);
        self.sent.insert(peer, Vec::with_capacity(4096));
        peer
    }

    fn write(&mut self, to: Peer, bytes: &[u8]) {
        assert!(self.alive.contains(&to), "bytes for a dead handle {to:?}");
        if let Some(sent) = self.sent.get_mut(&to) {
            sent.extend_from_slice(bytes);
        }
    }

    fn end(&mut self, peer: Peer) {
        assert!(self.alive.remove(&peer), "a dead handle {peer:?} is closed");
        self.paused.remove(&peer);
    }
}

impl Io for Port {
    fn forward(&mut self, to: Peer, range: Range<usize>) {
        let input = std::mem::take(&mut self.input);
        self.write(to, &input[range]);
        self.input = input;
    }
    fn send(&mut self, to: Peer, bytes: &[u8]) {
        self.write(to, bytes);
    }
    fn connect(&mut self, _: &Target) -> Peer {
        let peer = self.peer();
        self.asked.push(Asked::Connect(peer));
        peer
    }
    fn close(&mut self, peer: Peer) {
        self.end(peer);
        self.asked.push(Asked::Close(peer));
    }
    fn pause(&mut self, peer: Peer) {
        assert!(self.alive.contains(&peer) && self.paused.insert(peer), "{peer:?} is paused already, or dead");
        self.asked.push(Asked::Pause(peer));
    }
    fn resume(&mut self, peer: Peer) {
        assert!(self.alive.contains(&peer) && self.paused.remove(&peer), "{peer:?} is not paused, or dead");
        self.asked.push(Asked::Resume(peer));
    }
    fn detach(&mut self, peer: Peer) {
        self.asked.push(Asked::Detach(peer));
    }
    fn post(&mut self, to: WorkerId, mail: Mail, socket: Option<Peer>) {
        if let Some(peer) = socket {
            self.end(peer);
        }
        self.mail.push_back((to, mail, socket));
    }
    fn help(&mut self, job: u64, _: Work) {
        self.asked.push(Asked::Help(job));
    }
    fn log(&mut self, _: Level, _: fmt::Arguments<'_>) {}
    fn accept(&mut self, on: bool) {
        self.asked.push(Asked::Accept(on));
    }
    fn exit(&mut self, status: i32) {
        self.asked.push(Asked::Exit(status));
    }
}

/// One worker's engine, its port, and the time.
pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) port: Port,
    pub(crate) now: Time,
}

/// A configuration with one pool, `db`, of `size` servers; everybody listed is trusted.
pub(crate) fn config(size: u32) -> Config {
    let mut config = Config { admin_users: vec!["admin".into()], ..Config::default() };
    config.auth.method = Method::Trust;
    config.auth.users = Arc::new([("ann", "secret"), ("admin", "secret")].into_iter().collect());
    config.limits.size = size;
    config.limits.min_size = 0;
    config.limits.server_check_delay = Span::from_secs(3600);
    config.log.connections = false;
    config.log.disconnections = false;
    config.log.pooler_errors = false;
    add_pool(&mut config, "db", size);
    config
}

pub(crate) fn add_pool(config: &mut Config, name: &str, size: u32) {
    let mut limits = config.limits.clone();
    limits.size = size;
    let target = Target { host: Host::Ip(Ipv4Addr::LOCALHOST.into()), port: 5432 };
    let pool = Pool {
        name: name.into(),
        target,
        database: name.into(),
        user: None,
        password: None,
        mode: config.mode,
        on_dirty: config.on_dirty,
        limits,
    };
    config.pools.insert(name.into(), Arc::new(pool));
}

impl World {
    pub(crate) fn new(config: Config) -> World {
        World::with_workers(config, 1)
    }

    pub(crate) fn with_workers(config: Config, workers: u16) -> World {
        let setup = Setup {
            worker: WorkerId(0),
            workers,
            config: Arc::new(config),
            seed: [1; 32],
            process_key: [2; 32],
            wall_at_start: 0,
            version: "weir test",
        };
        World { engine: Engine::new(setup), port: Port::default(), now: Time::START + Span::from_secs(1) }
    }

    /// One input, and the mail to ourselves that follows from it.
    pub(crate) fn input(&mut self, input: Input<'_>) {
        self.engine.handle(self.now, input, &mut self.port);
        while let Some(at) = self.port.mail.iter().position(|(to, ..)| *to == WorkerId(0)) {
            let (_, mail, socket) = self.port.mail.remove(at).expect("it is there");
            self.engine.handle(self.now, Input::Mail { from: WorkerId(0), mail, socket }, &mut self.port);
        }
        self.engine.check();
    }

    pub(crate) fn bytes(&mut self, peer: Peer, bytes: &[u8]) {
        assert!(!self.port.paused.contains(&peer), "a paused peer delivers nothing");
        self.port.input.clear();
        self.port.input.extend_from_slice(bytes);
        self.input(Input::Bytes { peer, bytes });
    }

    /// As [`World::bytes`], without the checks, which allocate.
    pub(crate) fn bytes_only(&mut self, peer: Peer, bytes: &[u8]) {
        self.port.input.clear();
        self.port.input.extend_from_slice(bytes);
        self.engine.handle(self.now, Input::Bytes { peer, bytes }, &mut self.port);
    }

    pub(crate) fn gone(&mut self, peer: Peer) {
        self.port.end(peer);
        self.input(Input::Closed { peer, cause: Gone::Eof });
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        self.input(Input::Signal(signal));
    }

    /// Time passes, and every deadline is kept.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        while self.engine.next_deadline() <= end {
            self.now = self.now.max(self.engine.next_deadline());
            self.input(Input::Tick);
        }
        self.now = end;
    }

    /// What was sent to a peer since it was last looked at.
    pub(crate) fn heard(&mut self, peer: Peer) -> Vec<u8> {
        self.port.sent.get_mut(&peer).map(std::mem::take).unwrap_or_default()
    }

    /// Forgets what was sent to a peer, and keeps the room.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.port.sent.get_mut(&peer).into_iter().for_each(Vec::clear);
    }

    pub(crate) fn is_open(&self, peer: Peer) -> bool {
        self.port.alive.contains(&peer)
    }

    pub(crate) fn is_paused(&self, peer: Peer) -> bool {
        self.port.paused.contains(&peer)
    }

    pub(crate) fn has_exited(&self) -> bool {
        self.port.asked.iter().any(|asked| matches!(asked, Asked::Exit(_)))
    }

    /// The connection that the engine has just begun.
    pub(crate) fn connecting(&mut self) -> Option<Peer> {
        let at = self.port.asked.iter().position(|asked| matches!(asked, Asked::Connect(_)))?;
        let Asked::Connect(peer) = self.port.asked.remove(at) else { return None };
        Some(peer)
    }

    /// A client that has connected and sent nothing.
    pub(crate) fn visitor(&mut self) -> Peer {
        let peer = self.port.peer();
        let from = ClientAddr::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 4000)));
        self.input(Input::Accepted { peer, from });
        peer
    }

    /// A client that has sent its startup packet.
    pub(crate) fn arrival(&mut self, user: &str, database: &str) -> Peer {
        let peer = self.visitor();
        let mut startup = Vec::new();
        put_front::startup(&mut startup, &[("user", user), ("database", database)], 0);
        self.bytes(peer, &startup);
        peer
    }

    /// A client that may ask; what it was told so far is forgotten.
    pub(crate) fn client(&mut self) -> Peer {
        let peer = self.arrival("ann", "db");
        if let Some(server) = self.connecting() {
            self.log_in(server);
        }
        assert!(self.heard(peer).ends_with(&ready(b'I')), "it is welcome");
        peer
    }

    /// A server lets us in.
    pub(crate) fn log_in(&mut self, server: Peer) {
        self.input(Input::Connected { peer: server, local: "127.0.0.1:5000".into() });
        let mut bytes = Vec::new();
        put_back::auth_ok(&mut bytes);
        put_back::parameter_status(&mut bytes, "TimeZone", "UTC");
        put_back::backend_key_data(&mut bytes, 77, &[1, 2, 3, 4]);
        put_back::ready(&mut bytes, b'I');
        self.heard(server);
        self.bytes(server, &bytes);
    }

    /// The next server that is asked for is there.
    pub(crate) fn server(&mut self) -> Peer {
        let server = self.connecting().expect("a server is asked for");
        self.log_in(server);
        server
    }

    pub(crate) fn helped(&mut self, config: Config) {
        let at = self.port.asked.iter().position(|asked| matches!(asked, Asked::Help(_))).expect("a helper was asked");
        let Asked::Help(job) = self.port.asked.remove(at) else { return };
        self.input(Input::Helped { job, answer: Answer::Config(Ok(Arc::new(config))) });
    }
}

pub(crate) fn query(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_front::query(&mut bytes, text);
    bytes
}

pub(crate) fn done(tag: &str, status: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::command_complete(&mut bytes, tag);
    put_back::ready(&mut bytes, status);
    bytes
}

pub(crate) fn ready(status: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_back::ready(&mut bytes, status);
    bytes
}

/// Whether bytes hold a text.
pub(crate) fn says(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
