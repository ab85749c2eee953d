//! Helper threads, for work that would hold up a worker's loop.
//!
//! A lane for each kind of work, with its own threads and its own bounded queue, so that no kind waits for another: reading
//! the configuration; hashing for our logins at servers, and steps of our handshakes with them; hashing for clients'
//! logins, and steps of their handshakes, which strangers can ask for at will; names of servers and of the operating
//! system's users, whose look-ups may hang for long. What strangers can ask for runs with a lower priority than all else.
//!
//! Answers go to the asking worker's mailbox. A worker has at most [`ASKED`] requests under way in a lane, and the queues
//! hold that many for each worker: so they are never full, and what a worker has beyond that waits in the worker, in order.
//! How much that can be is bounded by who asks: the engine for hashing, `tls` for handshakes.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::unistd::{Uid, User};
use weir_admin::{ChangeError, Persisted};
use weir_base::{Peer, WorkerId};
use weir_config::{Config, Edit};
use weir_engine::port::{Answer, Work};

use crate::mailbox::{Letter, Post};
use crate::names::{self, Query};
use crate::tls::{Side, Step};

/// Requests of one worker under way in a lane.
const ASKED: usize = 64;
/// What the lanes for clients are nicer than the rest of the process.
const NICER: i32 = 5;

/// Reads the configuration again; an error is one line.
pub type Reload = Arc<dyn Fn() -> Result<Arc<Config>, String> + Send + Sync>;

/// Says how a configuration that is valid will be served, or in one line why it can't be.
pub type Fit<'a> = &'a dyn Fn(Arc<Config>) -> Result<Arc<Config>, String>;

/// Changes the configuration: nothing, unless the result is valid and fits.
pub type Change = Arc<dyn Fn(&Edit, Fit<'_>) -> Result<(Arc<Config>, Persisted), ChangeError> + Send + Sync>;

/// The kinds of an engine's work, of which none waits for another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Reading and changing the configuration.
    Config,
    /// Hashing for our logins at servers.
    Servers,
    /// Hashing for clients' logins.
    Clients,
    /// Asking the operating system about its users.
    Users,
}

impl Kind {
    fn of(work: &Work) -> Kind {
        match work {
            Work::LoadConfig | Work::ChangeConfig(_) => Kind::Config,
            Work::SaltServer { .. } => Kind::Servers,
            Work::SaltClient { .. } => Kind::Clients,
            Work::NameOfUser(_) => Kind::Users,
        }
    }
}

struct Request<T> {
    from: WorkerId,
    what: T,
}

type Lane<T> = SyncSender<Request<T>>;

/// The lanes.
#[derive(Clone)]
pub(crate) struct Helpers {
    config: Lane<(u64, Work)>,
    servers: Lane<(u64, Work)>,
    clients: Lane<(u64, Work)>,
    users: Lane<(u64, Work)>,
    names: Lane<Query>,
    connects: Lane<(Peer, Box<Step>)>,
    accepts: Lane<(Peer, Box<Step>)>,
}

/// How a lane's threads are made.
#[derive(Clone, Copy)]
struct Shape {
    name: &'static str,
    threads: usize,
    nicer: i32,
}

impl Shape {
    const fn new(name: &'static str, threads: usize) -> Shape {
        Shape { name, threads, nicer: 0 }
    }

    const fn nicer(self) -> Shape {
        Shape { nicer: NICER, ..self }
    }
}

impl Helpers {
    /// Starts the threads. They end when the last `Helpers` is gone.
    pub(crate) fn start(post: &Post, reload: Reload, change: Option<Change>) -> io::Result<Helpers> {
        let work = |shape: Shape, kind: Kind| {
            let (reload, change) = (reload.clone(), change.clone());
            let answer = move |(job, work)| Letter::Helped { kind, job, answer: help(&reload, change.as_ref(), work) };
            lane(shape, post, answer)
        };
        Ok(Helpers {
            config: work(Shape::new("weir-config", 1), Kind::Config)?,
            servers: work(Shape::new("weir-help", 1), Kind::Servers)?,
            clients: work(Shape::new("weir-logins", 2).nicer(), Kind::Clients)?,
            users: work(Shape::new("weir-users", 2), Kind::Users)?,
            names: lane(Shape::new("weir-names", 2), post, |query| Letter::Found(names::look_up(query)))?,
            connects: lane(Shape::new("weir-tls", 1), post, take_step)?,
            accepts: lane(Shape::new("weir-doors", 2).nicer(), post, take_step)?,
        })
    }
}

fn lane<T: Send + 'static>(
    shape: Shape,
    post: &Post,
    answer: impl Fn(T) -> Letter + Send + Sync + 'static,
) -> io::Result<Lane<T>> {
    let (requests, queue) = sync_channel(ASKED * post.workers() as usize);
    let (queue, answer) = (Arc::new(Mutex::new(queue)), Arc::new(answer));
    for _ in 0..shape.threads {
        let (post, queue, answer) = (post.clone(), queue.clone(), answer.clone());
        thread::Builder::new().name(shape.name.into()).spawn(move || {
            if shape.nicer != 0 {
                // Linux means the calling thread by this. A system that refuses has one priority for all.
                let own = rustix::process::getpriority_process(None).unwrap_or(0);
                let _ = rustix::process::setpriority_process(None, (own + shape.nicer).min(19));
            }
            serve(&post, &queue, &*answer);
        })?;
    }
    Ok(requests)
}

fn serve<T>(post: &Post, queue: &Mutex<Receiver<Request<T>>>, answer: &impl Fn(T) -> Letter) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = next else { return };
        post.send(request.from, answer(request.what));
    }
}

fn help(reload: &Reload, change: Option<&Change>, work: Work) -> Answer {
    match work {
        Work::SaltServer { password, salt, iterations } | Work::SaltClient { password, salt, iterations } => {
            Answer::Salted(weir_auth::salt_password(&password, &salt, iterations))
        }
        Work::NameOfUser(uid) => Answer::UserName(name_of_user(uid)),
        Work::LoadConfig => Answer::Config(reload()),
        Work::ChangeConfig(edit) => {
            Answer::Changed(change.map_or(Err(ChangeError::Fixed), |change| change(&edit, &Ok)))
        }
    }
}

/// A user without a name is nobody's; so is one whose name can't be found out now.
fn name_of_user(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

fn take_step((peer, mut step): (Peer, Box<Step>)) -> Letter {
    let outcome = step.take();
    Letter::Stepped { peer, step, outcome }
}

/// One worker's requests in one lane.
struct Queue<T> {
    me: WorkerId,
    lane: Lane<T>,
    under_way: usize,
    more: VecDeque<T>,
}

impl<T> Queue<T> {
    fn new(me: WorkerId, lane: Lane<T>) -> Self {
        Queue { me, lane, under_way: 0, more: VecDeque::new() }
    }

    fn has_room(&self) -> bool {
        self.under_way < ASKED
    }

    fn ask(&mut self, what: T) {
        self.more.push_back(what);
        self.pass_on();
    }

    /// One of them has been answered.
    fn answered(&mut self) {
        self.under_way -= 1;
        self.pass_on();
    }

    fn pass_on(&mut self) {
        while self.has_room() {
            let Some(what) = self.more.pop_front() else { return };
            self.under_way += 1;
            let refused = self.lane.try_send(Request { from: self.me, what }).is_err();
            debug_assert!(!refused, "a lane has room for all that workers may ask");
        }
    }
}

/// One worker's requests to the helpers.
pub(crate) struct Asking {
    config: Queue<(u64, Work)>,
    servers: Queue<(u64, Work)>,
    clients: Queue<(u64, Work)>,
    users: Queue<(u64, Work)>,
    names: Queue<Query>,
    connects: Queue<(Peer, Box<Step>)>,
    accepts: Queue<(Peer, Box<Step>)>,
}

impl Asking {
    pub(crate) fn new(me: WorkerId, helpers: Helpers) -> Self {
        Asking {
            config: Queue::new(me, helpers.config),
            servers: Queue::new(me, helpers.servers),
            clients: Queue::new(me, helpers.clients),
            users: Queue::new(me, helpers.users),
            names: Queue::new(me, helpers.names),
            connects: Queue::new(me, helpers.connects),
            accepts: Queue::new(me, helpers.accepts),
        }
    }

    fn work(&mut self, kind: Kind) -> &mut Queue<(u64, Work)> {
        match kind {
            Kind::Config => &mut self.config,
            Kind::Servers => &mut self.servers,
            Kind::Clients => &mut self.clients,
            Kind::Users => &mut self.users,
        }
    }

    fn steps(&mut self, side: Side) -> &mut Queue<(Peer, Box<Step>)> {
        match side {
            Side::Accept => &mut self.accepts,
            Side::Connect => &mut self.connects,
        }
    }

    /// Asks for work to be done.
    pub(crate) fn help(&mut self, job: u64, work: Work) {
        self.work(Kind::of(&work)).ask((job, work));
    }

    /// Asks for a name's addresses.
    pub(crate) fn look_up(&mut self, query: Query) {
        self.names.ask(query);
    }

    /// Work has been answered.
    pub(crate) fn helped(&mut self, kind: Kind) {
        self.work(kind).answered();
    }

    /// A name has been answered.
    pub(crate) fn found(&mut self) {
        self.names.answered();
    }

    /// Whether a step of such a handshake can be asked for now.
    pub(crate) fn may_step(&mut self, side: Side) -> bool {
        self.steps(side).has_room()
    }

    /// Asks for a step of a handshake.
    pub(crate) fn step(&mut self, peer: Peer, step: Box<Step>) {
        self.steps(step.side()).ask((peer, step));
    }

    /// A step has been taken.
    pub(crate) fn stepped(&mut self, side: Side) {
        self.steps(side).answered();
    }
}
