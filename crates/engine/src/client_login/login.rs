//! Logins of clients: the authentication method, the secret, and the steps of the exchange.
//!
//! A login that can only fail takes the same steps as one that can succeed. Only this file decides where secrets come
//! from; `weir-auth` decides which method a rule requires, and whether a proof is accepted.

use std::sync::Arc;

use weir_admin::ConsoleRole;
use weir_auth::{
    ConnectionMethod, ConnectionType, Demand, Exchange, Facts, Hba, HbaRequest, LoginPlan, Method, Mocks, ScramPolicy,
    Secret, Shape, decide,
};
use weir_base::{ClientAddr, ConnId, Origin, Time};
use weir_config::{Auth, AuthLookup, Config};
use weir_pgwire::tag::front;
use weir_pgwire::{HEAD, Head};
use weir_session::Refusal;
use weir_session::login::{Login, LoginNonces, LoginStep, MAX_PASSWORD};
use weir_session::startup::{Replication, StartupRequest};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::auth_lookups::AuthLookups;
use crate::client_login::checks::{self, PasswordChecks};
use crate::client_login::hashing::{PasswordHashing, Requested};
use crate::client_login::opening::Recent;
use crate::client_login::secret_query::UserSecret;
use crate::client_login::state::{Awaits, Hashing, LoginPhase, SecretSource, Why, subject};
use crate::client_login::step::EntryStep;
use crate::client_login::user_names::UserNames;
use crate::client_login::{login_log, welcome};
use crate::common::{Cx, FollowUp};
use crate::port::{Authority, Io, PasswordCheck};
use crate::server::connection::SaltedKey;

/// The user under which the owner of the process administers it (PgBouncer's `pgbouncer`).
const OWNER: &str = "pgbouncer";

/// State that the logins of a worker share.
pub(crate) struct Logins {
    policy: ScramPolicy,
    /// Mock secrets of unlisted users without an auth_query: like those of listed users.
    mocks: Arc<Mocks>,
    /// The operating system's user that the process runs as.
    pub(super) uid: u32,
    user_names: UserNames,
    hashing: PasswordHashing,
    checks: PasswordChecks,
    /// Requests whose parameters were found acceptable, under this configuration; the oldest is replaced.
    in_order: Recent<Arc<StartupRequest>, MAX_IN_ORDER>,
}

/// How many requests are remembered.
const MAX_IN_ORDER: usize = 8;

/// What a client's proof is checked against.
struct KnownUser {
    /// Whether the user exists.
    exists: bool,
    /// `None` for a user who has no secret, or does not exist.
    secret: Option<Secret>,
    /// The mock secrets for a user without a secret.
    mocks: Arc<Mocks>,
    /// The answer of an auth_query, if there was one.
    asked: Option<UserSecret>,
}

impl KnownUser {
    fn secret_source(&self) -> SecretSource {
        match (self.exists, self.asked.is_some()) {
            (false, false) => SecretSource::Unlisted,
            (false, true) => SecretSource::NotAtServer,
            (true, false) => SecretSource::Listed,
            (true, true) => SecretSource::AtServer,
        }
    }
}

impl Logins {
    /// `key` is the same in all workers of the process.
    pub(super) fn new(key: [u8; 32], uid: u32, config: &Config) -> Logins {
        Logins {
            policy: policy(key, config),
            mocks: mocks(config),
            uid,
            user_names: UserNames::default(),
            hashing: PasswordHashing::default(),
            checks: PasswordChecks::default(),
            in_order: Recent::default(),
        }
    }

    /// Applies a configuration.
    pub(super) fn apply_config(&mut self, config: &Config) {
        self.policy = policy(self.policy.key, config);
        self.mocks = mocks(config);
        self.hashing.forget_all();
        self.in_order.clear();
    }

    /// Whether a request's parameters are acceptable; determined once for all clients that share it.
    ///
    /// # Errors
    /// A parameter is refused.
    fn check_parameters<I: Io>(&mut self, cx: &Cx<'_, I>, request: &Arc<StartupRequest>) -> Result<(), Refusal> {
        if self.in_order.iter().any(|known| Arc::ptr_eq(known, request)) {
            return Ok(());
        }
        welcome::requested(cx.common.config(), &cx.sessions.params, request)?;
        self.in_order.push(request.clone());
        Ok(())
    }

    /// Whether a client is the operating system's user of this process and logs in under PgBouncer's name for it: it
    /// may administer the process without a password.
    fn is_owner(&self, client: &ClientSlot) -> bool {
        matches!(client.addr, ClientAddr::Unix { uid, .. } if uid == self.uid) && *client.user == *OWNER
    }

    /// The refusal of a client of the Unix socket that uses PgBouncer's name for the owner of the process, and is
    /// another user of the operating system. Otherwise it would have to give a password that does not exist.
    fn not_owner(&self, config: &Config, client: &ClientSlot) -> Option<Refusal> {
        let ClientAddr::Unix { uid, .. } = client.addr else { return None };
        let claims = *client.user == *OWNER && self.role(config, client).is_none();
        let detail = format!("The client runs as the user with number {uid}, and the pooler as number {}.", self.uid);
        claims.then_some(Refusal::NotOwner { detail })
    }

    /// The role of a client at the console.
    pub(crate) fn role(&self, config: &Config, client: &ClientSlot) -> Option<ConsoleRole> {
        let listed = |users: &[String]| users.iter().any(|user| **user == *client.user);
        if self.is_owner(client) || listed(&config.admin_users) {
            return Some(ConsoleRole::Admin);
        }
        listed(&config.stats_users).then_some(ConsoleRole::Stats)
    }

    /// A client's startup packet has arrived at the worker of its login.
    pub(crate) fn begin<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        client: &mut ClientSlot,
        request: Arc<StartupRequest>,
        lookups: &AuthLookups,
    ) -> EntryStep {
        if *client.user != *request.user {
            client.named(request.user.as_str().into());
        }
        let console = weir_admin::is_console(&request.database);
        if !console && let Err(refusal) = self.check_parameters(cx, &request) {
            return EntryStep::Refuse(refusal);
        }
        let mut buffer = Vec::new();
        request.write_negotiation(&mut buffer);
        if !buffer.is_empty() {
            cx.io.send(client.conn, &buffer);
        }
        if console && self.is_owner(client) {
            login_log::attempt(cx, client, &request);
            client.enter(ClientPhase::Login(Box::new(LoginPhase::new(request))));
            return EntryStep::Proven;
        }
        if let Some(refusal) = self.not_owner(cx.common.config(), client).filter(|_| console) {
            return EntryStep::Refuse(refusal);
        }
        self.challenge(cx, client, request, None, lookups)
    }

    /// Starts the exchange with a client, when everything that it depends on is known; until then the client waits, and
    /// this is called again. `asked` is the answer of an auth_query, if there was one.
    pub(crate) fn challenge<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        client: &mut ClientSlot,
        request: Arc<StartupRequest>,
        asked: Option<&UserSecret>,
        lookups: &AuthLookups,
    ) -> EntryStep {
        let config = cx.common.config().clone();
        let via = via(client);
        let no_rules = Hba::default();
        let rules = config.auth.hba.as_deref().unwrap_or(&no_rules);
        let (database, user) = (request.database.as_str(), request.user.as_str());
        let physical_replication = request.replication == Replication::Physical;
        let demand = method(&config.auth).demand(rules, &HbaRequest { via, database, user, physical_replication });
        let os_user = match (&client.addr, demand.method) {
            (ClientAddr::Unix { uid, .. }, ConnectionMethod::Peer) => match self.user_names.get(*uid, cx.now) {
                Some(name) => name,
                None => return self.ask_for_name(cx, *uid, client, request),
            },
            _ => None,
        };
        let known = match self.known_secret(&config, &request, demand.method.wants_user(), asked, lookups, cx.now) {
            Ok(known) => known,
            Err(lookup) => return EntryStep::LookUp(request, lookup),
        };
        if known.asked.as_ref().is_some_and(|asked| !asked.exists) && !config.auth.hide_unknown_users {
            login_log::not_found(cx, client, &request);
            client.enter(ClientPhase::Login(Box::new(LoginPhase { secret: known.asked, ..LoginPhase::new(request) })));
            return EntryStep::Failed(Refusal::NoSuchUser);
        }
        if !known.exists && known.asked.is_none() && demand.method.wants_user() {
            login_log::unknown_user(cx, client, &request);
        }
        if let Some(rule) = demand.rule {
            login_log::rule_matched(cx, client, &request.database, rule.line);
        }
        let console = weir_admin::is_console(&request.database);
        let pool = if console { None } else { config.pool(&request.database) };
        let tls = client.tls.as_deref();
        let facts = Facts {
            user: &request.user,
            known: known.exists,
            secret: known.secret.as_ref(),
            via,
            certificate_name: tls.and_then(|tls| tls.certificate.as_ref()).map(|owner| owner.common_name.as_str()),
            os_user: os_user.as_deref(),
            forced_user: if console { Some(OWNER) } else { pool.as_ref().and_then(|pool| pool.user.as_deref()) },
            maps: &config.auth.ident,
            mocks: &known.mocks,
            policy: &self.policy,
        };
        let plan = decide(&demand, &facts);
        let authority = authority(&config.auth, &demand);
        let (user, line) = (known.secret_source(), demand.rule.map(|rule| rule.line));
        let why = plan.reject_reason.map(|reason| Why { reason, user, line });
        self.begin_exchange(cx, client, request, (authority, why), plan, known)
    }

    /// How the client must prove who it is is known: sends the authentication request.
    fn begin_exchange<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        client: &mut ClientSlot,
        request: Arc<StartupRequest>,
        (authority, why): (Option<Authority>, Option<Why>),
        plan: LoginPlan,
        known: KnownUser,
    ) -> EntryStep {
        login_log::attempt(cx, client, &request);
        let mut phase = Box::new(LoginPhase { authority, why, ..LoginPhase::new(request) });
        if matches!(plan.exchange, Exchange::None) {
            // Nothing to exchange, so nothing to prepare for it.
            phase.secret = known.asked;
            client.enter(ClientPhase::Login(phase));
            return EntryStep::Proven;
        }
        let salt = LoginNonces { md5: cx.common.random_bytes(), nonce: cx.common.random_bytes() };
        let mut buffer = Vec::new();
        let binding = client.tls.as_deref().and_then(|tls| tls.binding.as_deref());
        let user = &phase.request.user;
        let (login, next) = Login::begin(user, plan, known.secret.as_ref(), salt, binding, &mut buffer);
        phase.login = Some(Box::new(login));
        phase.secret = known.asked;
        client.enter(ClientPhase::Login(phase));
        if !buffer.is_empty() {
            cx.io.send(client.conn, &buffer);
        }
        self.advance(cx, client, next)
    }

    /// The secret of a user for a database, from the list or from an auth_query's answer.
    ///
    /// # Errors
    /// An auth_query must run first.
    fn known_secret(
        &self,
        config: &Config,
        request: &StartupRequest,
        wanted: bool,
        asked: Option<&UserSecret>,
        lookups: &AuthLookups,
        now: Time,
    ) -> Result<KnownUser, AuthLookup> {
        let hides = config.auth.hide_unknown_users;
        let answered = |asked: &UserSecret| KnownUser {
            exists: asked.exists,
            secret: asked.secret(),
            // A user without a secret need not look like others if clients may learn which users exist.
            mocks: if hides { asked.mocks.clone() } else { Arc::default() },
            asked: Some(asked.clone()),
        };
        if let Some(asked) = asked {
            return Ok(answered(asked));
        }
        let exists = weir_admin::is_console(&request.database) || config.pool(&request.database).is_some();
        let listed = config.auth.users.get(&request.user);
        let lookup = config.auth_lookup(&request.database).filter(|_| wanted && listed.is_none());
        match lookup {
            Some(lookup) if exists => lookups.kept(&subject(request), now).map(answered).ok_or(lookup),
            // No auth_query runs for a database that does not exist.
            _ => Ok(KnownUser {
                exists: listed.is_some(),
                secret: listed.filter(|_| wanted).and_then(|text| Secret::parse(text).ok()),
                mocks: match hides {
                    false => Arc::default(),
                    true if wanted && !exists => self.mocks_without_pool(config, lookups),
                    true => self.mocks.clone(),
                },
                asked: None,
            }),
        }
    }

    /// The mock secrets in a database that does not exist: as in one that does.
    fn mocks_without_pool(&self, config: &Config, lookups: &AuthLookups) -> Arc<Mocks> {
        match &config.auth.query_user {
            Some(_) => lookups.mocks(Shape::usual(self.policy.iterations)),
            None => self.mocks.clone(),
        }
    }

    fn ask_for_name<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        uid: u32,
        client: &mut ClientSlot,
        request: Arc<StartupRequest>,
    ) -> EntryStep {
        self.user_names.ask(cx, uid);
        let phase = LoginPhase { awaits: Awaits::UserName(uid), ..LoginPhase::new(request) };
        client.enter(ClientPhase::Login(Box::new(phase)));
        EntryStep::Wait
    }

    /// A helper has found the name of an operating system's user. Clients that wait for it start again.
    pub(crate) fn learn_name<I: Io>(&mut self, cx: &mut Cx<'_, I>, uid: u32, name: Option<&str>) {
        self.user_names.learn(uid, name.map(Arc::from), cx.now);
    }

    /// Handles a password message, if it is complete.
    pub(crate) fn password<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot) -> EntryStep {
        let head = match Head::parse(&client.waiting) {
            Ok(None) => return EntryStep::Read,
            Ok(Some(head)) if head.tag == front::TERMINATE => return EntryStep::Leave,
            Ok(Some(head)) if head.tag == front::PASSWORD && head.total() <= MAX_PASSWORD => head,
            _ => return EntryStep::Refuse(Refusal::Protocol("a password was expected".into())),
        };
        if client.waiting.len() < head.total() {
            return EntryStep::Read;
        }
        let (ClientPhase::Login(phase), waiting) = client.phase_and_waiting() else { return EntryStep::Read };
        if matches!(phase.awaits, Awaits::Hash | Awaits::Check) {
            return EntryStep::Wait;
        }
        let Some(login) = &mut phase.login else { return EntryStep::Read };
        let mut buffer = Vec::new();
        let next = login.message(&waiting[HEAD..head.total()], &self.policy, &mut buffer);
        waiting.drain(..head.total());
        if !buffer.is_empty() {
            cx.io.send(client.conn, &buffer);
        }
        self.advance(cx, client, next)
    }

    /// Continues with the session's next step.
    fn advance<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, next: LoginStep) -> EntryStep {
        match next {
            LoginStep::Wait => {
                if !client.waiting.is_empty() {
                    // The client's next message may be buffered already.
                    cx.common.follow_up(FollowUp::Feed(client.conn));
                }
                EntryStep::Read
            }
            LoginStep::Refused(refusal) => EntryStep::Failed(refusal),
            LoginStep::HashPassword { password, salt, iterations, stored } => {
                self.hash(cx, client, (password, salt, iterations), stored)
            }
            LoginStep::CheckPassword(password) => self.check(cx, client, password),
            LoginStep::Accepted(captured) => {
                if let ClientPhase::Login(phase) = client.phase_mut() {
                    if let Some(Hashing { key, stored: false, salted: Some(salted) }) = phase.hashing.take() {
                        // The client's hashed password was right.
                        self.hashing.keep(key, salted, cx.common.config().auth.users.len());
                    }
                    phase.captured = captured;
                    phase.login = None;
                }
                EntryStep::Proven
            }
        }
    }

    fn hash<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, key: SaltedKey, stored: bool) -> EntryStep {
        match self.hashing.request(cx, (client.conn, Origin::of(&client.addr)), &key) {
            Requested::Known(salted) => self.use_hash(cx, client, &salted),
            Requested::Full => EntryStep::Refuse(Refusal::TooManyLogins),
            Requested::Queued => {
                if let ClientPhase::Login(phase) = client.phase_mut() {
                    phase.hashing = Some(Hashing { key, stored, salted: None });
                    phase.awaits = Awaits::Hash;
                }
                EntryStep::Wait
            }
        }
    }

    /// A helper has hashed the password of a client's login; the client may have disconnected.
    pub(crate) fn hash_done<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        self.hashing.done(cx);
    }

    /// A client's password has been hashed: its login continues.
    pub(crate) fn hashed<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        client: &mut ClientSlot,
        salted: &[u8; 32],
    ) -> EntryStep {
        if let ClientPhase::Login(phase) = client.phase_mut() {
            phase.awaits = Awaits::Client;
            if let Some(hashing) = &mut phase.hashing {
                hashing.salted = Some(*salted);
                if hashing.stored {
                    self.hashing.keep(hashing.key.clone(), *salted, cx.common.config().auth.users.len());
                }
            }
        }
        self.use_hash(cx, client, salted)
    }

    fn use_hash<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, salted: &[u8; 32]) -> EntryStep {
        let ClientPhase::Login(phase) = client.phase_mut() else { return EntryStep::Read };
        let next = phase.login.as_mut().map_or(LoginStep::Wait, |login| login.salted(salted));
        self.advance(cx, client, next)
    }

    /// An external service must check a password.
    fn check<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, password: Arc<str>) -> EntryStep {
        let ClientPhase::Login(phase) = &client.phase else { return EntryStep::Read };
        let Some(by) = phase.authority.clone() else { return EntryStep::Refuse(Refusal::BadConfig) };
        let from = match client.addr {
            ClientAddr::Tcp(from) => from.ip().to_string(),
            ClientAddr::Unix { .. } => "unix".to_owned(),
        };
        let limit = checks::limit(cx.common.config());
        let check = PasswordCheck { by, user: client.user.clone(), password, from, limit };
        if !self.checks.request(cx, (client.conn, Origin::of(&client.addr)), check) {
            return EntryStep::Refuse(Refusal::TooManyLogins);
        }
        if let ClientPhase::Login(phase) = client.phase_mut() {
            phase.awaits = Awaits::Check;
        }
        EntryStep::Wait
    }

    /// A helper has finished a check; the client may have disconnected.
    pub(crate) fn check_done<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: ConnId) {
        self.checks.done(cx, client);
    }

    /// A client's password has been checked: its login continues.
    pub(crate) fn checked<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: &mut ClientSlot, good: bool) -> EntryStep {
        let ClientPhase::Login(phase) = client.phase_mut() else { return EntryStep::Read };
        phase.awaits = Awaits::Client;
        let next = phase.login.as_mut().map_or(LoginStep::Wait, |login| login.checked(good));
        self.advance(cx, client, next)
    }

    /// A client that had not logged in is gone.
    pub(crate) fn leave(&mut self, client: ConnId, phase: &LoginPhase) {
        match phase.awaits {
            Awaits::Hash => self.hashing.leave(client),
            Awaits::Check => self.checks.leave(client),
            _ => {}
        }
    }
}

/// How a client is connected.
fn via(client: &ClientSlot) -> ConnectionType {
    match client.addr {
        ClientAddr::Unix { .. } => ConnectionType::Local,
        ClientAddr::Tcp(from) => ConnectionType::Tcp { from: from.ip(), tls: client.tls.is_some() },
    }
}

/// The service that checks the client's password, if it is external.
fn authority(auth: &Auth, demand: &Demand<'_>) -> Option<Authority> {
    match demand.method {
        ConnectionMethod::Ldap => demand.rule.map_or(&auth.ldap, |rule| &rule.ldap).clone().map(Authority::Ldap),
        ConnectionMethod::Pam => {
            let service = demand.rule.and_then(|rule| rule.pam_service.as_deref());
            Some(Authority::Pam(service.unwrap_or(&auth.pam_service).into()))
        }
        _ => None,
    }
}

/// The method of all connections: the rules, if there are any.
fn method(auth: &Auth) -> Method {
    if auth.hba.is_some() { Method::Hba } else { auth.method }
}

/// The key for mock salts, and the number of SCRAM iterations.
fn policy(key: [u8; 32], config: &Config) -> ScramPolicy {
    ScramPolicy { key, iterations: config.auth.scram_iterations }
}

fn mocks(config: &Config) -> Arc<Mocks> {
    let mut mocks = Mocks::default();
    config.auth.users.iter().filter_map(|(_, text)| Secret::parse(text).ok()).for_each(|secret| mocks.count(&secret));
    Arc::new(mocks)
}
