//! Helper threads, for work that would block a worker's loop.
//!
//! Each kind of work has threads and a bounded queue of its own, so that no kind waits for another:
//! reading the configuration; hashing for our logins at servers, and steps of our handshakes with them; hashing for
//! clients' logins, and steps of their handshakes, which anybody who connects can cause; names of servers and of the
//! operating system's users, whose look-ups may hang for long; passwords that LDAP or PAM checks, and tokens; programs
//! and services that make passwords. What anybody can cause runs with a lower priority than all else.
//!
//! Answers go to the mailbox of the worker that asked. A worker has at most [`MAX_UNDER_WAY`] requests under way in a
//! queue, and the queues have room for that many of each worker: so they are never full, and further requests wait in
//! the worker, in order. Their number is bounded by the callers: the engine for hashing, `tls` for handshakes.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::unistd::{Uid, User};
use weir_admin::{Adopted, Author, ChangeError, ChangeRequest, Persisted};
use weir_base::{ConnId, WorkerId, shrink};
use weir_config::{Config, PatroniQuestion, Successor};
use weir_engine::port::{Reread, Work, WorkResult};

use crate::dns::{self, Query};
use crate::mailbox::{Mailboxes, WorkerMessage};
use crate::passwords::{self, made_password};
use crate::tls::{HandshakeStep, Side, TlsFiles};
use crate::work::WorkKind;

/// Requests of one worker under way in a queue.
const MAX_UNDER_WAY: usize = 64;
/// Passwords that one LDAP server, or one service of PAM, checks at once, and tokens of one issuer. Each check waits for
/// others most of the time.
const CHECKERS: usize = 4;
/// Names that are looked up at once. A name server that does not answer delays its names for half a minute and more, in
/// which other names must not wait.
const LOOK_UPS: usize = 64;
/// Questions to Patroni under way: each about another host, which may not answer.
const QUESTIONS: usize = 64;
/// The fewest threads of a queue for clients.
const LEAST: usize = 2;
/// How much nicer the queues for clients and for configurations are than the rest of the process (nice(2)).
const NICER: i32 = 5;

/// Reads the configuration again, on a helper thread; an error is one line.
pub type Reload = Arc<dyn Fn(Reread) -> Result<Arc<Config>, String> + Send + Sync>;

/// Returns the configuration as it will be served, or in one line why it can't be.
pub type Fit<'a> = &'a dyn Fn(Arc<Config>) -> Result<Arc<Config>, String>;

/// Changes the configuration, on a helper thread: only if the result is valid and can be served.
pub type ChangeConfig =
    Arc<dyn Fn((&ChangeRequest, &Author), Fit<'_>) -> Result<(Arc<Config>, Persisted), ChangeError> + Send + Sync>;

/// Adds a configuration that workers are adopting to the history, on a helper thread; returns an error for the log.
pub type Record = Arc<dyn Fn(&Adopted) -> Option<String> + Send + Sync>;

/// Asks Patroni, on a helper thread, which it may block for a few seconds: the status, or why there is none, in one line.
pub type AskPatroni = Arc<dyn Fn(&PatroniQuestion) -> Result<u16, String> + Send + Sync>;

/// What makes another configuration.
#[derive(Clone)]
pub(crate) struct Configuring {
    pub(crate) reload: Reload,
    pub(crate) change: Option<ChangeConfig>,
    pub(crate) record: Option<Record>,
    pub(crate) tls: TlsFiles,
}

struct Request<T> {
    from: WorkerId,
    what: T,
}

type WorkQueue<T> = SyncSender<Request<T>>;

/// The queues.
#[derive(Clone)]
pub(crate) struct Helpers {
    config: WorkQueue<(u64, Work)>,
    servers: WorkQueue<(u64, Work)>,
    clients: WorkQueue<(u64, Work)>,
    users: WorkQueue<(u64, Work)>,
    checks: WorkQueue<(u64, Work)>,
    pam: WorkQueue<(u64, Work)>,
    printed: WorkQueue<(u64, Work)>,
    patroni: WorkQueue<(u64, Work)>,
    names: WorkQueue<Query>,
    connects: WorkQueue<(ConnId, Box<HandshakeStep>)>,
    accepts: WorkQueue<(ConnId, Box<HandshakeStep>)>,
}

/// How the threads of a queue are made.
#[derive(Clone, Copy)]
struct ThreadSetup {
    name: &'static str,
    threads: usize,
    nicer: i32,
}

impl ThreadSetup {
    const fn new(name: &'static str, threads: usize) -> ThreadSetup {
        ThreadSetup { name, threads, nicer: 0 }
    }

    const fn nicer(self) -> ThreadSetup {
        ThreadSetup { nicer: NICER, ..self }
    }

    /// Gives the calling thread its priority.
    fn prioritise(self) {
        if self.nicer != 0 {
            // On Linux this changes the calling thread only. If the system refuses, all threads have one priority.
            let own = rustix::process::getpriority_process(None).unwrap_or(0);
            let _ = rustix::process::setpriority_process(None, (own + self.nicer).min(19));
        }
    }
}

impl Helpers {
    /// Starts the threads. They end when the last `Helpers` is gone.
    pub(crate) fn start(
        mailboxes: &Mailboxes,
        configuring: &Configuring,
        ask_patroni: Option<AskPatroni>,
    ) -> io::Result<Helpers> {
        let work = |setup: ThreadSetup, kind: WorkKind| {
            let configuring = configuring.clone();
            let answer = move |(job, work)| WorkerMessage::JobDone { kind, job, result: run_job(&configuring, work) };
            work_queue(setup, mailboxes, answer)
        };
        // Clients' hashes and handshakes may use all cores that the workers leave.
        let threads = cores().max(LEAST);
        Ok(Helpers {
            config: work(ThreadSetup::new("weir-config", 1).nicer(), WorkKind::Config)?,
            servers: work(ThreadSetup::new("weir-hashes", 1), WorkKind::Servers)?,
            clients: work(ThreadSetup::new("weir-logins", threads).nicer(), WorkKind::Clients)?,
            users: work(ThreadSetup::new("weir-users", 2), WorkKind::Users)?,
            checks: checkers(ThreadSetup::new("weir-checks", CHECKERS).nicer(), mailboxes, WorkKind::Checks)?,
            pam: checkers(ThreadSetup::new("weir-pam", CHECKERS).nicer(), mailboxes, WorkKind::Pam)?,
            printed: checkers(ThreadSetup::new("weir-passwords", 1), mailboxes, WorkKind::Printed)?,
            patroni: questions(ThreadSetup::new("weir-patroni", QUESTIONS), mailboxes, ask_patroni)?,
            names: look_ups(ThreadSetup::new("weir-names", LOOK_UPS), mailboxes)?,
            connects: work_queue(ThreadSetup::new("weir-tls", 1), mailboxes, take_step)?,
            accepts: work_queue(ThreadSetup::new("weir-tls-accept", threads).nicer(), mailboxes, take_step)?,
        })
    }
}

/// The cores that this process may use: by its affinity and its cgroup's quota.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn work_queue<T: Send + 'static>(
    setup: ThreadSetup,
    mailboxes: &Mailboxes,
    answer: impl Fn(T) -> WorkerMessage + Send + Sync + 'static,
) -> io::Result<WorkQueue<T>> {
    let (requests, queue) = sync_channel(MAX_UNDER_WAY * mailboxes.workers() as usize);
    let (queue, answer) = (Arc::new(Mutex::new(queue)), Arc::new(answer));
    for _ in 0..setup.threads {
        let (mailboxes, queue, answer) = (mailboxes.clone(), queue.clone(), answer.clone());
        thread::Builder::new().name(setup.name.into()).spawn(move || {
            setup.prioritise();
            serve(&mailboxes, &queue, &*answer);
        })?;
    }
    Ok(requests)
}

fn serve<T>(mailboxes: &Mailboxes, queue: &Mutex<Receiver<Request<T>>>, answer: &impl Fn(T) -> WorkerMessage) {
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(request) = next else { return };
        mailboxes.send(request.from, answer(request.what));
    }
}

/// A queue for passwords. Each LDAP server, each service of PAM, each issuer of tokens, each program and each service of tokens has threads of
/// its own, as long as it has something to do: so one that hangs delays no other one. The configuration bounds their
/// number.
fn checkers(setup: ThreadSetup, mailboxes: &Mailboxes, kind: WorkKind) -> io::Result<WorkQueue<(u64, Work)>> {
    let (requests, queue) = sync_channel(MAX_UNDER_WAY * mailboxes.workers() as usize);
    let mailboxes = mailboxes.clone();
    thread::Builder::new().name(setup.name.into()).spawn(move || {
        let mut checkers = HashMap::new();
        while let Ok(Request { from, what: (job, work) }) = queue.recv() {
            let mailboxes = mailboxes.clone();
            let key = match &work {
                Work::CheckPassword(check) => check.by.key(),
                Work::ServerPassword { source, target, .. } => passwords::key(source, target).into(),
                _ => continue,
            };
            let run = move || {
                let result = password_job(work);
                mailboxes.send(from, WorkerMessage::JobDone { kind, job, result });
            };
            checkers.entry(key).or_insert_with(|| ThreadPool::new(setup)).run(Box::new(run));
        }
    })?;
    Ok(requests)
}

/// The queue for names: a thread for each look-up under way, up to a limit, since each may wait for long.
fn look_ups(setup: ThreadSetup, mailboxes: &Mailboxes) -> io::Result<WorkQueue<Query>> {
    let (requests, queue) = sync_channel(MAX_UNDER_WAY * mailboxes.workers() as usize);
    let mailboxes = mailboxes.clone();
    thread::Builder::new().name(setup.name.into()).spawn(move || {
        let threads = ThreadPool::new(setup);
        while let Ok(Request { from, what }) = queue.recv() {
            let mailboxes = mailboxes.clone();
            threads.run(Box::new(move || {
                mailboxes.send(from, WorkerMessage::Found(dns::look_up(what)));
            }));
        }
    })?;
    Ok(requests)
}

/// The queue for questions to Patroni: a thread for each that is under way, up to a limit, since each may wait for long.
fn questions(setup: ThreadSetup, mailboxes: &Mailboxes, ask: Option<AskPatroni>) -> io::Result<WorkQueue<(u64, Work)>> {
    let (requests, queue) = sync_channel(MAX_UNDER_WAY * mailboxes.workers() as usize);
    let mailboxes = mailboxes.clone();
    thread::Builder::new().name(setup.name.into()).spawn(move || {
        let threads = ThreadPool::new(setup);
        while let Ok(Request { from, what: (job, work) }) = queue.recv() {
            let (mailboxes, ask) = (mailboxes.clone(), ask.clone());
            threads.run(Box::new(move || {
                let answer = match (work, ask) {
                    (Work::AskPatroni(question), Some(ask)) => ask(&question),
                    _ => Err("this process asks nobody".to_owned()),
                };
                let result = WorkResult::Patroni(answer);
                mailboxes.send(from, WorkerMessage::JobDone { kind: WorkKind::Patroni, job, result });
            }));
        }
    })?;
    Ok(requests)
}

/// Work for a queue of passwords.
fn password_job(work: Work) -> WorkResult {
    match work {
        Work::ServerPassword { source, target, refused } => {
            WorkResult::Password(made_password(&source, &target, refused.as_deref()))
        }
        Work::CheckPassword(check) => WorkResult::Checked(passwords::check(&check)),
        _ => WorkResult::Checked(Err("this is not about passwords".to_owned())),
    }
}

fn run_job(configuring: &Configuring, work: Work) -> WorkResult {
    match work {
        Work::SaltServer { password, salt, iterations } | Work::SaltClient { password, salt, iterations } => {
            WorkResult::Salted(weir_auth::salt_password(&password, &salt, iterations))
        }
        Work::CheckPassword(_) | Work::ServerPassword { .. } => password_job(work),
        Work::NameOfUser(uid) => WorkResult::UserName(name_of_user(uid)),
        Work::AskPatroni(_) => WorkResult::Patroni(Err("this is not about configurations".to_owned())),
        Work::LoadConfig(reread, running) => {
            WorkResult::Config((configuring.reload)(reread).map(|read| Successor::new(&running, read)))
        }
        Work::ApplyTls(config) => WorkResult::Config(configuring.tls.apply(&config).map(Successor::from)),
        Work::RecordConfig(adopted) => {
            WorkResult::Recorded(configuring.record.as_ref().and_then(|record| record(&adopted)))
        }
        Work::ChangeConfig(wanted, author, running) => {
            let change = configuring.change.as_ref();
            let made = change.map_or(Err(ChangeError::Fixed), |change| change((&wanted, &author), &Ok));
            WorkResult::Changed(made.map(|(config, persisted)| (Successor::new(&running, config), persisted)))
        }
    }
}

/// The name of a user; `None` without one, or if the look-up failed.
fn name_of_user(uid: u32) -> Option<String> {
    User::from_uid(Uid::from_raw(uid)).ok().flatten().map(|user| user.name)
}

fn take_step((conn, mut step): (ConnId, Box<HandshakeStep>)) -> WorkerMessage {
    let outcome = step.take();
    WorkerMessage::Stepped { conn, step, outcome }
}

type Task = Box<dyn FnOnce() + Send>;

/// Threads that live as long as there is something to do.
struct ThreadPool {
    setup: ThreadSetup,
    work: Arc<Mutex<PoolTasks>>,
}

#[derive(Default)]
struct PoolTasks {
    tasks: VecDeque<Task>,
    threads: usize,
}

impl ThreadPool {
    fn new(setup: ThreadSetup) -> ThreadPool {
        ThreadPool { setup, work: Arc::default() }
    }

    /// Does something when a thread is free for it, in order.
    fn run(&self, task: Task) {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        work.tasks.push_back(task);
        if work.threads == self.setup.threads {
            return;
        }
        let (setup, shared) = (self.setup, self.work.clone());
        let serve = move || {
            setup.prioritise();
            run_tasks(&shared);
        };
        match thread::Builder::new().name(setup.name.into()).spawn(serve) {
            Ok(_) => work.threads += 1,
            // Another thread will do it.
            Err(_) if work.threads > 0 => {}
            Err(_) => {
                work.threads += 1;
                drop(work);
                run_tasks(&self.work);
            }
        }
    }
}

fn run_tasks(shared: &Mutex<PoolTasks>) {
    loop {
        let mut work = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(task) = work.tasks.pop_front() else {
            work.threads -= 1;
            return;
        };
        drop(work);
        task();
    }
}

/// One worker's requests in one queue.
struct Queue<T> {
    me: WorkerId,
    work_queue: WorkQueue<T>,
    under_way: usize,
    more: VecDeque<T>,
}

impl<T> Queue<T> {
    fn new(me: WorkerId, work_queue: WorkQueue<T>) -> Self {
        Queue { me, work_queue, under_way: 0, more: VecDeque::new() }
    }

    fn has_room(&self) -> bool {
        self.under_way < MAX_UNDER_WAY
    }

    fn ask(&mut self, what: T) {
        self.more.push_back(what);
        self.pass_on();
    }

    /// A request has been answered.
    fn answered(&mut self) {
        self.under_way -= 1;
        self.pass_on();
    }

    fn pass_on(&mut self) {
        while self.has_room() {
            let Some(what) = self.more.pop_front() else { return };
            shrink(&mut self.more, MAX_UNDER_WAY);
            self.under_way += 1;
            let refused = self.work_queue.try_send(Request { from: self.me, what }).is_err();
            debug_assert!(!refused, "a queue has room for all that workers may ask");
        }
    }
}

/// One worker's requests to the helpers.
pub(crate) struct HelperQueues {
    config: Queue<(u64, Work)>,
    servers: Queue<(u64, Work)>,
    clients: Queue<(u64, Work)>,
    users: Queue<(u64, Work)>,
    checks: Queue<(u64, Work)>,
    pam: Queue<(u64, Work)>,
    printed: Queue<(u64, Work)>,
    patroni: Queue<(u64, Work)>,
    names: Queue<Query>,
    connects: Queue<(ConnId, Box<HandshakeStep>)>,
    accepts: Queue<(ConnId, Box<HandshakeStep>)>,
}

impl HelperQueues {
    pub(crate) fn new(me: WorkerId, helpers: Helpers) -> Self {
        HelperQueues {
            config: Queue::new(me, helpers.config),
            servers: Queue::new(me, helpers.servers),
            clients: Queue::new(me, helpers.clients),
            users: Queue::new(me, helpers.users),
            checks: Queue::new(me, helpers.checks),
            pam: Queue::new(me, helpers.pam),
            printed: Queue::new(me, helpers.printed),
            patroni: Queue::new(me, helpers.patroni),
            names: Queue::new(me, helpers.names),
            connects: Queue::new(me, helpers.connects),
            accepts: Queue::new(me, helpers.accepts),
        }
    }

    fn work(&mut self, kind: WorkKind) -> &mut Queue<(u64, Work)> {
        match kind {
            WorkKind::Config => &mut self.config,
            WorkKind::Servers => &mut self.servers,
            WorkKind::Clients => &mut self.clients,
            WorkKind::Users => &mut self.users,
            WorkKind::Checks => &mut self.checks,
            WorkKind::Pam => &mut self.pam,
            WorkKind::Printed => &mut self.printed,
            WorkKind::Patroni => &mut self.patroni,
        }
    }

    fn steps(&mut self, side: Side) -> &mut Queue<(ConnId, Box<HandshakeStep>)> {
        match side {
            Side::Accept => &mut self.accepts,
            Side::Connect => &mut self.connects,
        }
    }

    /// Queues work.
    pub(crate) fn submit_job(&mut self, job: u64, work: Work) {
        self.work(WorkKind::of(&work)).ask((job, work));
    }

    /// Queues a look-up of a name.
    pub(crate) fn look_up(&mut self, query: Query) {
        self.names.ask(query);
    }

    /// The answer of some work has arrived.
    pub(crate) fn job_done(&mut self, kind: WorkKind) {
        self.work(kind).answered();
    }

    /// The answer of a look-up has arrived.
    pub(crate) fn found(&mut self) {
        self.names.answered();
    }

    /// Whether a step of such a handshake can be queued now.
    pub(crate) fn may_step(&mut self, side: Side) -> bool {
        self.steps(side).has_room()
    }

    /// Queues a step of a handshake.
    pub(crate) fn step(&mut self, conn: ConnId, step: Box<HandshakeStep>) {
        self.steps(step.side()).ask((conn, step));
    }

    /// The result of a step has arrived.
    pub(crate) fn stepped(&mut self, side: Side) {
        self.steps(side).answered();
    }
}
