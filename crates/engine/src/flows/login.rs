//! A client's login, step by step: carries out the steps that the parts of `entry` return.

use std::sync::Arc;

use weir_base::{Origin, Peer, Time};
use weir_config::{AuthLookup, FileFormat};
use weir_pool::Acquire;
use weir_session::startup::StartupRequest;
use weir_session::{Client, Refusal};

use crate::admin::console::Console;
use crate::cluster::lending::Learnings;
use crate::common::{FollowUp, cx};
use crate::engine::Engine;
use crate::entry::login_log;
use crate::entry::reported::Welcome;
use crate::entry::secret_query::UserSecret;
use crate::entry::state::{Awaits, Delayed, LoginPhase, subject};
use crate::entry::step::EntryStep;
use crate::entry::welcome;
use crate::log::log;
use crate::peers::{ClientPhase, ClientSlot, Entry};
use crate::port::{Io, Level};

impl Engine {
    /// Carries out a step of a client's login.
    pub(crate) fn login_step<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, step: EntryStep, io: &mut I) {
        match step {
            EntryStep::Read => self.insert_client(client),
            EntryStep::Wait => self.insert_waiting(client, io),
            EntryStep::Startup(request) => self.startup(now, client, request, io),
            EntryStep::Cancel { pid, secret } => self.cancel_request(now, client, pid, secret, io),
            EntryStep::LookUp(request, lookup) => self.look_up_secret(now, client, request, lookup, io),
            EntryStep::Proven => self.proven(now, client, io),
            EntryStep::Failed(refusal) => self.client_login_failed(now, client, refusal, io),
            EntryStep::Refuse(refusal) => self.refuse(now, client, refusal, io),
            EntryStep::Drop(why) => {
                self.log_client(Level::Warning, &client, format_args!("{why}"), io);
                io.close(client.peer);
                self.remove_client(now, client, why, io);
            }
            EntryStep::Close(why) => {
                io.close(client.peer);
                self.remove_client(now, client, why, io);
            }
            EntryStep::Leave => self.client_leaves(now, client, io),
        }
    }

    /// A client logs in here.
    pub(crate) fn begin_login<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        io: &mut I,
    ) {
        let cx = cx!(self, now, io);
        let step = self.entry.logins.begin(cx, &mut client, request, &self.entry.lookups);
        self.login_step(now, client, step, io);
    }

    /// Everything that the exchange depends on is known.
    fn challenge<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        asked: Option<&UserSecret>,
        io: &mut I,
    ) {
        let cx = cx!(self, now, io);
        let step = self.entry.logins.challenge(cx, &mut client, request, asked, &self.entry.lookups);
        self.login_step(now, client, step, io);
    }

    /// An auth_query is needed for the secret of a client's user.
    fn look_up_secret<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        lookup: AuthLookup,
        io: &mut I,
    ) {
        if let Some(why) = self.bad_auth_database(&lookup.database) {
            log(Level::Error, format_args!("{why}"), io);
            return self.refuse(now, client, self.no_auth_database(&request), io);
        }
        if self.admin.halt.is_disabled(&lookup.database) {
            return self.refuse(now, client, Refusal::AuthDatabaseDisabled(lookup.database), io);
        }
        let (peer, from, subject) = (client.peer, Origin::of(&client.addr), subject(&request));
        client.phase = ClientPhase::AuthLookup(request);
        self.insert_waiting(client, io);
        let at = self.owner_of(&lookup.database, &lookup.user);
        let cx = cx!(self, now, io);
        if !self.entry.lookups.ask(cx, (peer, from), subject, lookup, at) {
            self.refuse_handle(now, peer, Refusal::TooManyLogins, io);
        }
    }

    /// The error for a client whose user can't be looked up in a database. PgBouncer has one text for all such errors.
    fn no_auth_database(&self, request: &StartupRequest) -> Refusal {
        if !weir_admin::is_console(&request.database) || self.common.config().format == FileFormat::Ini {
            return Refusal::BadConfig;
        }
        let user = &request.user;
        let detail = format!("User {user:?} is not listed, and auth_query can't ask the console about users.");
        Refusal::NoConsoleUser { detail }
    }

    /// Why no auth_query can run in a database.
    fn bad_auth_database(&self, name: &str) -> Option<String> {
        if weir_admin::is_console(name) {
            return Some(format!("cannot use the reserved \"{name}\" database as an auth_dbname"));
        }
        let missing = self.common.config().pool(name).is_none();
        missing.then(|| format!("authentication database \"{name}\" is not configured"))
    }

    /// A request for a secret is answered: the clients that waited for it continue, or are refused.
    pub(crate) fn secret_answered<I: Io>(
        &mut self,
        now: Time,
        id: u64,
        answer: &Result<UserSecret, Refusal>,
        io: &mut I,
    ) {
        let cx = cx!(self, now, io);
        for peer in self.entry.lookups.answered(cx, id, answer) {
            let Some(mut client) = self.peers.take_client(peer) else { continue };
            let phase = std::mem::replace(&mut client.phase, ClientPhase::Gone);
            let ClientPhase::AuthLookup(request) = phase else {
                client.phase = phase;
                self.peers.put(peer, Entry::Client(client));
                continue;
            };
            self.unpause_client(&mut client, io);
            match answer {
                Ok(secret) => self.challenge(now, client, request, Some(secret), io),
                Err(refusal) => {
                    client.phase = ClientPhase::AuthLookup(request);
                    self.refuse(now, client, refusal.clone(), io);
                }
            }
        }
    }

    /// A helper has found the name of an operating system's user: clients that wait for it continue.
    pub(crate) fn user_named<I: Io>(&mut self, now: Time, uid: u32, name: Option<&str>, io: &mut I) {
        self.entry.logins.learn_name(cx!(self, now, io), uid, name);
        let waits = |client: &&ClientSlot| matches!(&client.phase, ClientPhase::Login(phase) if phase.awaits() == Awaits::UserName(uid));
        let waiting: Vec<Peer> = self.peers.clients().filter(waits).map(|client| client.peer).collect();
        for peer in waiting {
            let Some(mut client) = self.peers.take_client(peer) else { continue };
            self.unpause_client(&mut client, io);
            if let ClientPhase::Login(phase) = std::mem::replace(&mut client.phase, ClientPhase::Gone) {
                self.challenge(now, client, phase.into_request(), None, io);
            }
        }
    }

    /// A helper has hashed the password of a client's login.
    pub(crate) fn client_hashed<I: Io>(&mut self, now: Time, peer: Peer, salted: &[u8; 32], io: &mut I) {
        self.entry.logins.hash_done(cx!(self, now, io));
        let Some(mut client) = self.peers.take_client(peer) else { return };
        self.unpause_client(&mut client, io);
        let cx = cx!(self, now, io);
        let step = self.entry.logins.hashed(cx, &mut client, salted);
        self.login_step(now, client, step, io);
    }

    /// A client's password has been checked by an external service.
    pub(crate) fn password_checked<I: Io>(&mut self, now: Time, peer: Peer, result: Result<(), String>, io: &mut I) {
        self.entry.logins.check_done(cx!(self, now, io), peer);
        let Some(mut client) = self.peers.take_client(peer) else {
            if let Err(why) = &result {
                // The check may have taken so long.
                log(Level::Warning, format_args!("login of a client that has left: {why}"), io);
            }
            return;
        };
        if let Err(why) = &result {
            self.log_client(Level::Warning, &client, format_args!("login refused: {why}"), io);
        }
        self.unpause_client(&mut client, io);
        let cx = cx!(self, now, io);
        let step = self.entry.logins.checked(cx, &mut client, result.is_ok());
        self.login_step(now, client, step, io);
    }

    /// A client is gone: what its login waited for is given up.
    pub(crate) fn login_left<I: Io>(&mut self, now: Time, client: &ClientSlot, io: &mut I) {
        match &client.phase {
            ClientPhase::AuthLookup(request) => {
                let cx = cx!(self, now, io);
                self.entry.lookups.leave(cx, client.peer, &subject(request));
            }
            ClientPhase::Login(phase) => self.entry.logins.leave(client.peer, phase),
            _ => {}
        }
    }

    /// A client's authentication has failed. Its error has less detail than the log, and may be delayed.
    fn client_login_failed<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, refusal: Refusal, io: &mut I) {
        if let ClientPhase::Login(phase) = &client.phase {
            if phase.asked_secret().is_some() {
                // The password may be new, or the user: the next attempt uses a new answer of the server. For unknown
                // users too, so that their next attempt takes as long.
                let cx = cx!(self, now, io);
                self.entry.lookups.distrust(cx, subject(phase.request()));
            }
            if let Some(why) = phase.why_failed(&refusal) {
                // PgBouncer has no such line, and tools count its warnings.
                let ini = self.common.config().format == FileFormat::Ini;
                let level = if ini { Level::Info } else { Level::Warning };
                self.log_client(level, &client, format_args!("login refused: {why}"), io);
            }
        }
        let cx = cx!(self, now, io);
        let Some(delay) = self.entry.throttle.delay(cx, &client.addr, &refusal) else {
            return self.refuse(now, client, refusal, io);
        };
        // Its lines in the log contain the database.
        let database = self.database_of(&client).to_owned();
        client.phase = ClientPhase::Delayed(Box::new(Delayed { refusal, until: now.deadline(delay), database }));
        client.waiting.clear();
        self.insert_waiting(client, io);
    }

    /// A client is authenticated: checks whether it may use what it requests.
    fn proven<I: Io>(&mut self, now: Time, client: Box<ClientSlot>, io: &mut I) {
        let ClientPhase::Login(phase) = &client.phase else { return self.insert_client(client) };
        let (config, name) = (self.common.config(), &phase.request().database);
        let refusal = if phase.is_console() {
            self.entry.logins.role(config, &client).is_none().then_some(Refusal::NotAllowed)
        } else if config.pool(name).is_none() {
            Some(Refusal::NoSuchDatabase(name.clone()))
        } else {
            self.admin.halt.is_disabled(name).then(|| Refusal::DatabaseDisabled(name.clone()))
        };
        if let Some(Refusal::NoSuchDatabase(database)) = &refusal {
            login_log::no_database(cx!(self, now, io), &client, database);
        }
        match refusal {
            Some(refusal) => self.refuse(now, client, refusal, io),
            None => self.enter(now, client, io),
        }
    }

    /// A client is admitted: gives it a pool.
    pub(crate) fn entered<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let ClientPhase::Login(phase) = std::mem::replace(&mut client.phase, ClientPhase::Gone) else {
            return self.insert_client(client);
        };
        if phase.is_console() {
            return self.open_console(now, client, phase.request(), io);
        }
        let request = phase.request();
        let Some(config) = self.common.config().pool(&request.database) else {
            return self.refuse(now, client, Refusal::NoSuchDatabase(request.database.clone()), io);
        };
        let user = config.user.clone().unwrap_or_else(|| request.user.clone());
        let is_listed = self.common.config().pools.contains_key(&request.database);
        if !is_listed && self.pools.named(Some(&request.database)).is_empty() {
            log(Level::Info, format_args!("registered new auto-database: {}", request.database), io);
        }
        let ix = self.pool_of(&request.database, &config, &user, now);
        client.pool = ix;
        self.count_client(ix, 1);
        if config.user.is_none() || config.user.as_deref() == Some(&request.user) {
            self.learn(&phase, ix, io);
        }
        if request.replication.is_some() {
            return self.await_own_server(now, client, phase, io);
        }
        let slot = self.pools.get_mut(ix);
        let asks = slot.is_welcome_stale() || (slot.pool.longest_idle().is_some() && slot.may_confirm_welcome(now));
        if let Some(welcome) = slot.welcome.clone().filter(|_| !asks) {
            return self.welcome(now, client, phase, &welcome, io);
        }
        client.request_at = now;
        client.phase = ClientPhase::Welcome(phase);
        match slot.pool.acquire(client.peer, now) {
            Acquire::Granted { server, check } => {
                let peer = client.peer;
                self.insert_waiting(client, io);
                self.grant(now, peer, server, check, io);
            }
            Acquire::Queued => self.insert_waiting(client, io),
            Acquire::Refused(why) => {
                let refusal = self.refusal(ix, why);
                self.refuse(now, client, refusal, io);
            }
        }
        self.common.follow_up(FollowUp::PollPool(ix));
    }

    /// A login provided credentials for the pool's own logins at the server.
    fn learn<I: Io>(&mut self, phase: &LoginPhase, ix: u32, io: &mut I) {
        let asked = phase.asked_secret().and_then(UserSecret::secret);
        let slot = self.pools.get_mut(ix);
        slot.credentials.learn(phase.learnt(), &asked);
        if slot.lending.is_borrower() {
            self.teach(ix, Learnings { learnt: phase.learnt().clone(), asked }, io);
        }
    }

    /// A client has a pool whose servers' parameters are known: it is ready for queries.
    pub(crate) fn welcome<I: Io>(
        &mut self,
        now: Time,
        mut client: Box<ClientSlot>,
        phase: Box<LoginPhase>,
        welcome: &Welcome,
        io: &mut I,
    ) {
        self.issue_cancel_pid(&mut client);
        let cx = cx!(self, now, io);
        let slot = self.pools.get_mut(client.pool);
        let start = match welcome::send(cx, &mut client, phase.request(), welcome, &mut slot.last_welcome) {
            Ok(start) => start,
            Err(refusal) => return self.refuse(now, client, refusal, io),
        };
        slot.counts.tally.logins += 1;
        slot.counts.stats.client_login_count += 1;
        client.phase = ClientPhase::Ready(Client::logged_in(client.id, slot.mode(), start.params, start.asked));
        client.request_at = now;
        self.unpause_client(&mut client, io);
        self.insert_ready(client);
    }

    fn open_console<I: Io>(&mut self, now: Time, mut client: Box<ClientSlot>, request: &StartupRequest, io: &mut I) {
        let Some(role) = self.entry.logins.role(self.common.config(), &client) else {
            // A reload has removed it since then.
            return self.refuse(now, client, Refusal::NotAllowed, io);
        };
        self.issue_cancel_pid(&mut client);
        welcome::send_to_console(&mut client, request, io);
        client.phase = ClientPhase::Console(Box::new(Console::new(role, request.database.clone())));
        self.admin.client_counts.change(&client.phase);
        self.admin.console_counts.stats.client_login_count += 1;
        client.request_at = now;
        self.insert_ready(client);
    }

    /// A client is about to be sent its cancel key.
    pub(crate) fn issue_cancel_pid(&mut self, client: &mut ClientSlot) {
        let own_peer = self.cluster.peering.own(self.common.config());
        self.peers.issue_pid((self.common.worker(), self.common.workers()), own_peer, client);
    }

    /// Puts a client into the table as logged in. What it sent ahead is processed next.
    pub(crate) fn insert_ready(&mut self, client: Box<ClientSlot>) {
        if let Some(key) = client.cancel.peer_key() {
            self.cluster.peering.issued(key, client.peer);
        }
        let (peer, ahead) = (client.peer, !client.waiting.is_empty());
        self.insert_client(client);
        if ahead {
            self.common.follow_up(FollowUp::Feed(peer));
        }
    }
}
