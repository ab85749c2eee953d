//! Helper threads, for work that would hold up a worker's loop.
//!
//! Three lanes, each with its own threads and its own bounded queue: hashing and reading the configuration in one, name
//! look-ups, which may hang for long, in another, and steps of TLS handshakes, which a flood of logins brings, in the third. Answers go to the asking worker's mailbox. A worker has at most
//! [`ASKED`] requests under way in a lane, and the queues hold that many for each worker: so they are never full, and what
//! a worker has beyond that waits in the worker, in order.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::unistd::{Uid, User};
use weir_admin::{Kept, Unmade};
use weir_base::{Peer, WorkerId};
use weir_config::{Config, Edit};
use weir_engine::port::{Answer, Work};

use crate::mailbox::{Letter, Post};
use crate::names::{self, Query};
use crate::tls::Step;

/// Requests of one worker under way in a lane.
pub(crate) const ASKED: usize = 64;
/// Threads of each lane.
const THREADS: usize = 2;

/// Reads the configuration again; an error is one line.
pub type Reload = Arc<dyn Fn() -> Result<Arc<Config>, String> + Send + Sync>;

/// Says how a configuration that is valid will be served, or in one line why it can't be.
pub type Fit<'a> = &'a dyn Fn(Arc<Config>) -> Result<Arc<Config>, String>;

/// Changes the configuration: nothing, unless the result is valid and fits.
pub type Change = Arc<dyn Fn(&Edit, Fit<'_>) -> Result<(Arc<Config>, Kept), Unmade> + Send + Sync>;

struct Request<T> {
    from: WorkerId,
    what: T,
}

/// The lanes.
#[derive(Clone)]
pub(crate) struct Helpers {
    work: SyncSender<Request<(u64, Work)>>,
    names: SyncSender<Request<Query>>,
    steps: SyncSender<Request<(Peer, Box<Step>)>>,
}

impl Helpers {
    /// Starts the threads. They end when the last `Helpers` is gone.
    pub(crate) fn start(post: &Post, reload: Reload, change: Option<Change>) -> io::Result<Helpers> {
        let answer = move |(job, work)| Letter::Helped { job, answer: help(&reload, change.as_ref(), work) };
        Ok(Helpers {
            work: lane("weir-help", post, answer)?,
            names: lane("weir-names", post, |query| Letter::Found(names::look_up(query)))?,
            steps: lane("weir-tls", post, take_step)?,
        })
    }

    fn look_up(&self, from: WorkerId, query: Query) {
        let refused = self.names.try_send(Request { from, what: query }).is_err();
        debug_assert!(!refused, "a lane has room for all that workers may ask");
    }
}

fn lane<T: Send + 'static>(
    name: &str,
    post: &Post,
    answer: impl Fn(T) -> Letter + Send + Sync + 'static,
) -> io::Result<SyncSender<Request<T>>> {
    let (requests, queue) = sync_channel(ASKED * post.workers() as usize);
    let (queue, answer) = (Arc::new(Mutex::new(queue)), Arc::new(answer));
    for _ in 0..THREADS {
        let (post, queue, answer) = (post.clone(), queue.clone(), answer.clone());
        thread::Builder::new().name(name.into()).spawn(move || serve(&post, &queue, &*answer))?;
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
        Work::SaltPassword { password, salt, iterations } => {
            Answer::Salted(weir_auth::salt_password(&password, &salt, iterations))
        }
        Work::NameOfUser(uid) => Answer::UserName(name_of_user(uid)),
        Work::LoadConfig => Answer::Config(reload()),
        Work::ChangeConfig(edit) => Answer::Changed(change.map_or(Err(Unmade::Fixed), |change| change(&edit, &Ok))),
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

/// One worker's requests to the helpers.
pub(crate) struct Asking {
    me: WorkerId,
    helpers: Helpers,
    work: usize,
    names: usize,
    steps: usize,
    more_work: VecDeque<(u64, Work)>,
    more_names: VecDeque<Query>,
}

impl Asking {
    pub(crate) fn new(me: WorkerId, helpers: Helpers) -> Self {
        Asking { me, helpers, work: 0, names: 0, steps: 0, more_work: VecDeque::new(), more_names: VecDeque::new() }
    }

    /// Asks for work to be done.
    pub(crate) fn help(&mut self, job: u64, work: Work) {
        self.more_work.push_back((job, work));
        self.ask();
    }

    /// Asks for a name's addresses.
    pub(crate) fn look_up(&mut self, query: Query) {
        self.more_names.push_back(query);
        self.ask();
    }

    /// Work has been answered.
    pub(crate) fn helped(&mut self) {
        self.work -= 1;
        self.ask();
    }

    /// A name has been answered.
    pub(crate) fn found(&mut self) {
        self.names -= 1;
        self.ask();
    }

    /// Whether a step of a handshake can be asked for now.
    pub(crate) fn may_step(&self) -> bool {
        self.steps < ASKED
    }

    /// Asks for a step of a handshake.
    pub(crate) fn step(&mut self, peer: Peer, step: Box<Step>) {
        self.steps += 1;
        let refused = self.helpers.steps.try_send(Request { from: self.me, what: (peer, step) }).is_err();
        debug_assert!(!refused, "a lane has room for all that workers may ask");
    }

    /// A step has been taken.
    pub(crate) fn stepped(&mut self) {
        self.steps -= 1;
    }

    fn ask(&mut self) {
        while self.work < ASKED {
            let Some(what) = self.more_work.pop_front() else { break };
            self.work += 1;
            let refused = self.helpers.work.try_send(Request { from: self.me, what }).is_err();
            debug_assert!(!refused, "a lane has room for all that workers may ask");
        }
        while self.names < ASKED {
            let Some(query) = self.more_names.pop_front() else { break };
            self.names += 1;
            self.helpers.look_up(self.me, query);
        }
    }
}
