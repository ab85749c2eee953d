//! Logins of clients: the authentication method, the secret, and the steps of the exchange.
//!
//! A login that can only fail takes the same steps as one that can succeed. Only this file decides where secrets come
//! from; `weir-auth` decides which method a rule requires, and whether a proof is accepted. The log has PgBouncer's lines:
//! those about connections follow `log_connections`; a user that does not exist is always reported.

use std::sync::Arc;

use weir_admin::ConsoleRole;
use weir_auth::{
    ConnectionMethod, ConnectionType, Demand, Exchange, Facts, Hba, HbaRequest, LoginPlan, Method, Mocks, Secret,
    Shape, decide,
};
use weir_base::{ClientAddr, Time};
use weir_config::{Auth, AuthLookup, Config};
use weir_session::Refusal;
use weir_session::login::{Login, LoginNonces};
use weir_session::startup::{Replication, StartupRequest};

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client_login::auth_lookups::AuthLookups;
use crate::client_login::exchange::Exchanges;
use crate::client_login::opening::Recent;
use crate::client_login::secret_query::UserSecret;
use crate::client_login::state::{Awaits, LoginPhase, SecretSource, Why, subject};
use crate::client_login::step::EntryStep;
use crate::client_login::user_names::UserNames;
use crate::client_login::welcome;
use crate::common::Cx;
use crate::log::log_client;
use crate::port::{Authority, Io, Level};

/// The user under which the owner of the process administers it (PgBouncer's `pgbouncer`).
const OWNER: &str = "pgbouncer";

/// State that the logins of a worker share.
pub(crate) struct Logins {
    /// Mock secrets of unlisted users without an auth_query: like those of listed users.
    mocks: Arc<Mocks>,
    /// The operating system's user that the process runs as.
    pub(super) uid: u32,
    user_names: UserNames,
    pub(super) exchanges: Exchanges,
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
            mocks: config.auth.users.mocks().clone(),
            uid,
            user_names: UserNames::default(),
            exchanges: Exchanges::new(key, config),
            in_order: Recent::default(),
        }
    }

    /// Applies a configuration.
    pub(super) fn apply_config(&mut self, config: &Config) {
        self.mocks = config.auth.users.mocks().clone();
        self.exchanges.apply_config(config);
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
    pub(super) fn is_owner(&self, client: &ClientSlot) -> bool {
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
            log_attempt(cx, client, &request);
            return EntryStep::Proven(Box::new(LoginPhase::new(request)));
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
        let times = (cx.now, cx.common.wall(cx.now));
        let known = match self.known_secret(&config, &request, demand.method.wants_user(), asked, lookups, times) {
            Ok(known) => known,
            Err(lookup) => return EntryStep::LookUp(request, lookup),
        };
        if known.asked.as_ref().is_some_and(|asked| !asked.exists) && !config.auth.hide_unknown_users {
            log_not_found(cx, client, &request);
            client.enter(ClientPhase::Login(Box::new(LoginPhase { secret: known.asked, ..LoginPhase::new(request) })));
            return EntryStep::Failed(Refusal::NoSuchUser);
        }
        if !known.exists && known.asked.is_none() && demand.method.wants_user() {
            log_unknown_user(cx, client, &request);
        }
        if let Some(rule) = demand.rule {
            log_rule_matched(cx, client, &request.database, rule.line);
        }
        let console = weir_admin::is_console(&request.database);
        let pool = if console { None } else { config.pool(&request.database) };
        let tls = client.tls.as_deref();
        let authority = authority(&config.auth, &demand);
        let facts = Facts {
            user: &request.user,
            known: known.exists,
            secret: known.secret.as_ref(),
            via,
            certificate_name: tls.and_then(|tls| tls.certificate.as_ref()).map(|owner| owner.common_name.as_str()),
            os_user: os_user.as_deref(),
            forced_user: if console { Some(OWNER) } else { pool.as_ref().and_then(|pool| pool.user.as_deref()) },
            oauth: match &authority {
                Some(Authority::Oauth(oauth)) => Some(oauth),
                _ => None,
            },
            maps: &config.auth.ident,
            mocks: &known.mocks,
            policy: &self.exchanges.policy,
        };
        let plan = decide(&demand, &facts);
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
        log_attempt(cx, client, &request);
        let mut phase = Box::new(LoginPhase { authority, why, ..LoginPhase::new(request) });
        if matches!(plan.exchange, Exchange::None) {
            // Nothing to exchange, so nothing to prepare for it.
            phase.secret = known.asked;
            return EntryStep::Proven(phase);
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
        self.exchanges.advance(cx, client, next)
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
        (now, wall): (Time, u64),
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
                secret: listed.filter(|_| wanted).and_then(|text| listed_secret(config, &request.user, text, wall)),
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
            Some(_) => lookups.mocks(Shape::usual(self.exchanges.policy.iterations)),
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
}

/// The secret of a listed user, which may be two for a time. `wall`: microseconds since 1970.
fn listed_secret(config: &Config, user: &str, text: &str, wall: u64) -> Option<Secret> {
    let secret = Secret::parse(text).ok()?;
    let former = config.former_secret(user, wall / 1_000_000).and_then(|text| Secret::parse(text).ok());
    Some(match (secret, former) {
        (Secret::Scram(verifier), Some(Secret::Scram(former))) => Secret::Scram(verifier.or_former(&former)),
        (secret, _) => secret,
    })
}

/// How a client is connected.
fn via(client: &ClientSlot) -> ConnectionType {
    match client.addr {
        ClientAddr::Unix { .. } => ConnectionType::Local,
        ClientAddr::Tcp(from) => ConnectionType::Tcp { from: from.ip(), tls: client.tls.is_some() },
    }
}

/// Who checks the client's password or token, if not Weir by a secret.
fn authority(auth: &Auth, demand: &Demand<'_>) -> Option<Authority> {
    match demand.method {
        ConnectionMethod::Ldap => demand.rule.map_or(&auth.ldap, |rule| &rule.ldap).clone().map(Authority::Ldap),
        ConnectionMethod::Oauth => demand.rule.map_or(&auth.oauth, |rule| &rule.oauth).clone().map(Authority::Oauth),
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

/// A client's user, database and login method are known; whether the client can prove who it is, is not.
fn log_attempt<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, request: &StartupRequest) {
    let config = cx.common.config();
    if !config.log.connections {
        return;
    }
    let tls = client.tls.as_ref().map_or("no", |tls| &tls.description);
    let replication = match request.replication {
        Replication::None => "no",
        Replication::Logical => "database",
        Replication::Physical => "yes",
    };
    let (database, user) = (&request.database, &request.user);
    let text = format_args!("login attempt: db={database} user={user} tls={tls} replication={replication}");
    log_client(Level::Info, config, client, database, text, cx.io);
}

/// This line of the HBA file decides how the client must log in.
fn log_rule_matched<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, database: &str, line: usize) {
    let text = format_args!("HBA Line {line} is matched");
    log_client(Level::Noise, cx.common.config(), client, database, text, cx.io);
}

/// No list has the client's user, and no server is queried for it.
fn log_unknown_user<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, request: &StartupRequest) {
    let text = format_args!("no such user: {}", request.user);
    log_client(Level::Info, cx.common.config(), client, &request.database, text, cx.io);
}

/// A server that was asked knows no such user.
fn log_not_found<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, request: &StartupRequest) {
    log_failed(cx, client, &request.database, format_args!("login failed: db={}", request.database));
}

/// A client has proven who it is, but there is no such database.
pub(super) fn log_no_database<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, database: &str) {
    log_failed(cx, client, database, format_args!("login failed: db={database} user={}", client.user));
}

fn log_failed<I: Io>(cx: &mut Cx<'_, I>, client: &ClientSlot, database: &str, text: std::fmt::Arguments<'_>) {
    let config = cx.common.config();
    if config.log.connections {
        log_client(Level::Info, config, client, database, text, cx.io);
    }
}
