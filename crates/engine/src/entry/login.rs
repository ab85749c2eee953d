//! Who may enter: by which method a client must prove who it is, against which secret, and the steps of the proof.
//!
//! A login that can only fail takes the same steps as one that can succeed. Where secrets come from is known here and
//! nowhere else; which method a rule asks for, and what a proof is worth, is decided in `weir-auth`.

use std::collections::HashMap;
use std::sync::Arc;

use weir_admin::Role;
use weir_auth::{Asked, ConnectionMethod, Facts, Hba, Method, Mocks, ScramPolicy, Secret, Shape, Via, decide};
use weir_base::{ClientAddr, Peer, Span, Time};
use weir_config::{Auth, AuthLookup, Config};
use weir_pgwire::tag::front;
use weir_pgwire::{HEAD, Head};
use weir_session::Refusal;
use weir_session::login::{Login, LoginNonces, LoginStep, MAX_PASSWORD};
use weir_session::startup::StartupRequest;

use crate::Engine;
use crate::common::{FollowUp, Job};
use crate::entry::state::{LoginPhase, Verdict, Why};
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::{Io, Level, Work};

/// The user as whom the owner of the process administers it (PgBouncer's `pgbouncer`).
const OWNER: &str = "pgbouncer";
/// How many names of users of the operating system are kept, and how long.
const MAX_NAMES: usize = 256;
const NAMES_LAST: Span = Span::from_secs(60);

/// What is known of a user's secret.
pub(crate) enum Secrets {
    /// All that will ever be known: what the list says, or that it does not name the user.
    Listed(Option<Secret>),
    /// A server must be asked.
    Asked(AuthLookup),
}

/// What the operating system calls its users, as far as it was asked lately.
#[derive(Default)]
pub(crate) struct UserNames {
    known: HashMap<u32, (Option<Arc<str>>, Time)>,
    /// Those that a helper is asked for: each once, however many wait for it.
    asked: Vec<u32>,
}

impl UserNames {
    /// The name of a user; `None` if it must be asked for.
    fn get(&self, uid: u32, now: Time) -> Option<Option<Arc<str>>> {
        let (name, since) = self.known.get(&uid)?;
        (now.since(*since) < NAMES_LAST).then(|| name.clone())
    }

    fn put(&mut self, uid: u32, name: Option<Arc<str>>, now: Time) {
        if self.known.len() >= MAX_NAMES {
            self.known.clear();
        }
        self.known.insert(uid, (name, now));
    }
}

/// The way a client came.
fn via(client: &ClientSlot) -> Via {
    match client.addr {
        ClientAddr::Unix { .. } => Via::Local,
        ClientAddr::Tcp(from) => Via::Tcp { from: from.ip(), tls: client.tls.is_some() },
    }
}

/// The method of all connections: the rules, where there are some.
fn method(auth: &Auth) -> Method {
    if auth.hba.is_some() { Method::Hba } else { auth.method }
}

/// What the salts of users without one are made from, and how often passwords are hashed.
pub(crate) fn policy(key: [u8; 32], config: &Config) -> ScramPolicy {
    ScramPolicy { key, iterations: config.auth.scram_iterations }
}

/// What users who are not listed are made to look like, where nobody is asked about them: like those who are.
pub(crate) fn mocks(config: &Config) -> Arc<Mocks> {
    let mut mocks = Mocks::default();
    config.auth.users.iter().filter_map(|(_, text)| Secret::parse(text).ok()).for_each(|secret| mocks.count(&secret));
    Arc::new(mocks)
}

impl Engine {
    /// A client is where its pool lives, and says who it is.
    pub(crate) fn begin_login<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        hello: Box<StartupRequest>,
        io: &mut I,
    ) {
        client.user = hello.user.as_str().into();
        let console = weir_admin::is_console(&hello.database);
        if !console
            && let Err(refusal) = hello.wanted(&self.sessions.params, &self.common.config().ignore_startup_parameters)
        {
            return self.refuse(now, client, refusal, io);
        }
        let mut buffer = Vec::new();
        hello.write_negotiation(&mut buffer);
        if !buffer.is_empty() {
            io.send(client.peer, &buffer);
        }
        if console && self.is_owner(&client) {
            client.phase = ClientPhase::Login(Box::new(LoginPhase::new(hello)));
            return self.proven(now, client, io);
        }
        self.challenge(now, client, hello, None, io);
    }

    /// Asks a client to prove who it is, as soon as everything is known that decides how; until then it waits, and this is
    /// called again. `said` is what a server said about the user, if one was asked.
    pub(crate) fn challenge<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        hello: Box<StartupRequest>,
        said: Option<&Verdict>,
        io: &mut I,
    ) {
        let config = self.common.config().clone();
        let via = via(&client);
        let no_rules = Hba::default();
        let rules = config.auth.hba.as_deref().unwrap_or(&no_rules);
        let demand = method(&config.auth).demand(rules, &Asked { via, database: &hello.database, user: &hello.user });
        let os_user = match (&client.addr, demand.method) {
            (ClientAddr::Unix { uid, .. }, ConnectionMethod::Peer) => match self.entry.user_names.get(*uid, now) {
                Some(name) => name,
                None => return self.ask_for_name(*uid, client, hello, io),
            },
            _ => None,
        };
        let console = weir_admin::is_console(&hello.database);
        let pool = if console { None } else { config.pool(&hello.database) };
        let (secret, mocks) = match (said, demand.method.wants_user()) {
            (Some(said), _) => (said.secret(), said.mocks.clone()),
            (None, false) => (None, self.entry.mocks.clone()),
            (None, true) => match self.secret(&hello.database, &hello.user) {
                Secrets::Listed(secret) if console || pool.is_some() => (secret, self.entry.mocks.clone()),
                Secrets::Listed(secret) => (secret, self.mocks_of_nowhere()),
                Secrets::Asked(lookup) if console || pool.is_some() => return self.ask(now, client, hello, lookup, io),
                // Nobody is asked about a database that does not exist.
                Secrets::Asked(_) => (None, self.mocks_of_nowhere()),
            },
        };
        let tls = client.tls.as_deref();
        let facts = Facts {
            user: &hello.user,
            secret: secret.as_ref(),
            via,
            certificate_name: tls.and_then(|tls| tls.certificate.as_ref()).map(|owner| owner.common_name.as_str()),
            os_user: os_user.as_deref(),
            forced_user: if console { Some(OWNER) } else { pool.as_ref().and_then(|pool| pool.user.as_deref()) },
            maps: &config.auth.ident,
            mocks: &mocks,
            policy: &self.entry.policy,
        };
        let plan = decide(&demand, &facts);
        let mut phase = Box::new(LoginPhase::new(hello));
        phase.why = plan.reject_reason.map(|reason| Why { reason, line: demand.rule.map(|rule| rule.line) });
        let salt = LoginNonces { md5: self.common.random_bytes(), nonce: self.common.random_bytes() };
        let mut buffer = Vec::new();
        let binding = tls.and_then(|tls| tls.binding.as_deref());
        let (login, next) = Login::begin(&phase.hello.user, plan, secret.as_ref(), salt, binding, &mut buffer);
        phase.login = Some(login);
        phase.said = said.cloned();
        client.phase = ClientPhase::Login(phase);
        if !buffer.is_empty() {
            io.send(client.peer, &buffer);
        }
        self.login_step(now, client, next, io);
    }

    /// What users look like in a database that does not exist: as in one that does.
    fn mocks_of_nowhere(&self) -> Arc<Mocks> {
        match self.common.config().auth.query_user {
            Some(_) => self.entry.lookups.mocks(Shape::usual(self.entry.policy.iterations)),
            None => self.entry.mocks.clone(),
        }
    }

    /// Asks a helper for the name of a client's user of the operating system.
    fn ask_for_name<I: Io>(&mut self, uid: u32, mut client: Box<ClientSlot>, hello: Box<StartupRequest>, io: &mut I) {
        if !self.entry.user_names.asked.contains(&uid) {
            self.entry.user_names.asked.push(uid);
            let job = self.common.begin_job(Job::NameOfUser(uid));
            io.help(job, Work::NameOfUser(uid));
        }
        client.phase = ClientPhase::Login(Box::new(LoginPhase { unnamed: Some(uid), ..LoginPhase::new(hello) }));
        self.wait_more(client, io);
    }

    /// A helper knows what the operating system calls a user: whoever waits for that goes on.
    pub(crate) fn user_named<I: Io>(&mut self, now: Time, uid: u32, name: Option<&str>, io: &mut I) {
        self.entry.user_names.put(uid, name.map(Arc::from), now);
        self.entry.user_names.asked.retain(|asked| *asked != uid);
        let waits =
            |client: &&ClientSlot| matches!(&client.phase, ClientPhase::Login(phase) if phase.unnamed == Some(uid));
        let waiting: Vec<Peer> = self.peers.clients().filter(waits).map(|client| client.peer).collect();
        for peer in waiting {
            let Some(mut client) = self.peers.take_client(peer) else { continue };
            self.unpause_client(&mut client, io);
            if let ClientPhase::Login(phase) = std::mem::replace(&mut client.phase, ClientPhase::Gone) {
                self.challenge(now, client, phase.hello, None, io);
            }
        }
    }

    /// Whether a client is the user of the operating system that this process runs as, and says so by PgBouncer's word
    /// for it: it may administer what is its own, without a password.
    fn is_owner(&self, client: &ClientSlot) -> bool {
        matches!(client.addr, ClientAddr::Unix { uid, .. } if uid == self.admin.uid) && *client.user == *OWNER
    }

    /// What a client may do at the console.
    pub(crate) fn role_of(&self, client: &ClientSlot) -> Option<Role> {
        let listed = |users: &[String]| users.iter().any(|user| **user == *client.user);
        if self.is_owner(client) || listed(&self.common.config().admin_users) {
            return Some(Role::Admin);
        }
        listed(&self.common.config().stats_users).then_some(Role::Stats)
    }

    /// The secret of a user who wants to enter a database.
    pub(crate) fn secret(&self, database: &str, user: &str) -> Secrets {
        let listed = self.common.config().auth.users.get(user);
        match self.common.config().auth_lookup(database).filter(|_| listed.is_none()) {
            Some(lookup) => Secrets::Asked(lookup),
            None => Secrets::Listed(listed.and_then(|text| Secret::parse(text).ok())),
        }
    }

    /// A password message, if there is a whole one.
    pub(crate) fn password<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let head = match Head::parse(&client.waiting) {
            Ok(None) => return self.insert_client(client),
            Ok(Some(head)) if head.tag == front::TERMINATE => return self.client_leaves(now, client, io),
            Ok(Some(head)) if head.tag == front::PASSWORD && head.total() <= MAX_PASSWORD => head,
            _ => {
                let refusal = Refusal::Protocol("a password was expected".into());
                return self.refuse(now, client, refusal, io);
            }
        };
        if client.waiting.len() < head.total() {
            return self.insert_client(client);
        }
        let ClientPhase::Login(phase) = &mut client.phase else { return self.insert_client(client) };
        if phase.busy {
            return self.wait_more(client, io);
        }
        let mut buffer = Vec::new();
        let Some(login) = &mut phase.login else { return self.insert_client(client) };
        let next = login.message(&client.waiting[HEAD..head.total()], &self.entry.policy, &mut buffer);
        client.waiting.drain(..head.total());
        if !buffer.is_empty() {
            io.send(client.peer, &buffer);
        }
        self.login_step(now, client, next, io);
    }

    pub(crate) fn login_step<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, next: LoginStep, io: &mut I) {
        match next {
            LoginStep::Wait => {
                if !client.waiting.is_empty() {
                    // Its next message may be here already.
                    self.common.follow_up(FollowUp::Feed(client.peer));
                }
                self.insert_client(client);
            }
            LoginStep::Refused(refusal) => {
                if let ClientPhase::Login(phase) = &client.phase {
                    if phase.said.is_some() {
                        // The password may be a new one, or the user: the next attempt is measured by what the server says
                        // then. For users who do not exist too, whose next attempt takes as long then.
                        let subject = (phase.hello.database.as_str().into(), phase.hello.user.as_str().into());
                        self.distrust(subject, io);
                    }
                    if let Some(why) = phase.why {
                        // The client is told less.
                        self.log_client(Level::Warning, &client, format_args!("login refused: {why}"), io);
                    }
                }
                self.login_refused(now, client, refusal, io);
            }
            LoginStep::HashPassword { password, salt, iterations, stored } => {
                self.salt(now, client, (password, salt, iterations), stored, io);
            }
            LoginStep::Accepted(learnt) => {
                self.keep_proven(&mut client);
                if let ClientPhase::Login(phase) = &mut client.phase {
                    phase.learnt = learnt;
                    phase.login = None;
                }
                self.proven(now, client, io);
            }
        }
    }
}
