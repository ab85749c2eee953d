//! Helper threads, for work that would hold up a worker's loop.
//!
//! Two lanes, each with its own threads and its own bounded queue: hashing and reading the configuration in one, name
//! look-ups, which may hang for long, in the other. Answers go to the asking worker's mailbox. A worker has at most
//! [`ASKED`] requests under way in a lane, and the queues hold that many for each worker: so they are never full, and what
//! a worker has beyond that waits in the worker, in order.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use weir_base::WorkerId;
use weir_config::Config;
use weir_engine::port::{Answer, Work};

use crate::mailbox::{Letter, Post};

/// Requests of one worker under way in a lane.
pub(crate) const ASKED: usize = 64;
/// Threads of each lane.
const THREADS: usize = 2;

/// Reads the configuration again; an error is one line.
pub type Reload = Arc<dyn Fn() -> Result<Arc<Config>, String> + Send + Sync>;

/// A name to look up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Query {
    pub(crate) name: String,
    pub(crate) port: u16,
}

/// What became of a look-up.
pub(crate) struct Found {
    pub(crate) query: Query,
    pub(crate) addresses: Result<Vec<SocketAddr>, String>,
}

struct Request<T> {
    from: WorkerId,
    what: T,
}

/// The lanes.
#[derive(Clone)]
pub(crate) struct Helpers {
    work: SyncSender<Request<(u64, Work)>>,
    names: SyncSender<Request<Query>>,
}

impl Helpers {
    /// Starts the threads. They end when the last `Helpers` is gone.
    pub(crate) fn start(post: &Post, reload: Reload) -> io::Result<Helpers> {
        let answer = move |(job, work)| Letter::Helped { job, answer: help(&reload, work) };
        Ok(Helpers { work: lane("weir-help", post, answer)?, names: lane("weir-names", post, look_up)? })
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

fn help(reload: &Reload, work: Work) -> Answer {
    match work {
        Work::SaltPassword { password, salt, iterations } => {
            Answer::Salted(weir_auth::salt_password(&password, &salt, iterations))
        }
        Work::LoadConfig => Answer::Config(reload()),
    }
}

fn look_up(query: Query) -> Letter {
    let addresses = match (query.name.as_str(), query.port).to_socket_addrs() {
        Ok(found) => Ok(found.collect()),
        Err(error) => Err(format!("could not look up \"{}\": {error}", query.name)),
    };
    Letter::Found(Found { query, addresses })
}

/// One worker's requests to the helpers.
pub(crate) struct Asking {
    me: WorkerId,
    helpers: Helpers,
    work: usize,
    names: usize,
    more_work: VecDeque<(u64, Work)>,
    more_names: VecDeque<Query>,
}

impl Asking {
    pub(crate) fn new(me: WorkerId, helpers: Helpers) -> Self {
        Asking { me, helpers, work: 0, names: 0, more_work: VecDeque::new(), more_names: VecDeque::new() }
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
