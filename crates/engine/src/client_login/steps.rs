//! A client's login, step by step: carries out what the parts of this room return.

use std::sync::Arc;

use weir_base::{Origin, Time, WorkerId};
use weir_config::{AuthLookup, FileFormat, PoolConfig};
use weir_pool::Acquire;
use weir_session::Refusal;
use weir_session::startup::StartupRequest;

use crate::admin::console::Console;
use crate::cancel::request;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::reported::Welcome;
use crate::client_login::secret_query::UserSecret;
use crate::client_login::state::{Awaits, Delayed, Handoff, LoginPhase, subject};
use crate::client_login::step::EntryStep;
use crate::client_login::{ClientLogin, greet, login, opening, welcome};
use crate::common::{FollowUp, UnderWay, cx};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lending::messages;
use crate::lending::state::{ForwardedCredentials, LendingRole};
use crate::link::{acquire, leave};
use crate::log::log;
use crate::pools::{apply_config, create, refuse};
use crate::port::{Io, Level};
use crate::workers::client_counts;
use crate::workers::send::request;
use crate::{lines, replication};

impl ClientLogin {
    /// Handles bytes of a client that is not logged in yet; all of them are in its buffer.
    pub(crate) fn login_input<I: Io>(&mut self, core: &mut Core, now: Time, mut client: Box<ClientSlot>, io: &mut I) {
        let cx = cx!(core, now, io);
        let packets = &mut self.packets;
        let step = match &client.phase {
            ClientPhase::Header => opening::proxy_header(cx, packets, &mut client),
            ClientPhase::Opening { .. } => opening::opening(cx, packets, &mut client),
            ClientPhase::Login(_) => self.logins.exchanges.password(cx, &mut client),
            // Further input waits until it is logged in.
            _ => EntryStep::Wait,
        };
        self.login_step(core, now, client, step, io);
    }

    /// Carries out a step of a client's login.
    pub(crate) fn login_step<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        client: Box<ClientSlot>,
        step: EntryStep,
        io: &mut I,
    ) {
        match step {
            EntryStep::Read => table::insert(core, client),
            EntryStep::Wait => table::insert_waiting(core, client, io),
            EntryStep::Startup(request) => self.startup(core, now, client, request, io),
            EntryStep::Cancel { pid, secret } => request::cancel_request(core, now, client, pid, secret, io),
            EntryStep::LookUp(request, lookup) => self.look_up_secret(core, now, client, request, lookup, io),
            EntryStep::Proven(phase) => self.proven(core, now, client, phase, io),
            EntryStep::Failed(refusal) => self.client_login_failed(core, now, client, refusal, io),
            EntryStep::Refuse(refusal) => leave::refuse(core, now, client, refusal, io),
            EntryStep::Drop(why) => {
                lines::about_client(core, Level::Warning, &client, format_args!("{why}"), io);
                io.close(client.conn);
                leave::remove_client(core, now, client, why, io);
            }
            EntryStep::NoTls => {
                let why = "a TLS handshake, and there is no TLS for this client";
                lines::about_client(core, Level::Warning, &client, format_args!("{why}"), io);
                core.refusals.declined_leaves(Origin::of(&client.addr), now, |at| core.common.wall(at));
                io.close(client.conn);
                leave::remove_client(core, now, client, why, io);
            }
            EntryStep::Close(why) => {
                io.close(client.conn);
                leave::remove_client(core, now, client, why, io);
            }
            EntryStep::Leave => leave::client_leaves(core, now, client, io),
        }
    }

    /// A client logs in here.
    pub(crate) fn begin_login<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        io: &mut I,
    ) {
        let cx = cx!(core, now, io);
        let step = self.logins.begin(cx, &mut client, request, &self.lookups);
        self.login_step(core, now, client, step, io);
    }

    /// Everything that the exchange depends on is known.
    pub(crate) fn challenge<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        asked: Option<&UserSecret>,
        io: &mut I,
    ) {
        let cx = cx!(core, now, io);
        let step = self.logins.challenge(cx, &mut client, request, asked, &self.lookups);
        self.login_step(core, now, client, step, io);
    }

    /// A startup packet is complete: checks for room, and selects the worker of the login.
    fn startup<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        io: &mut I,
    ) {
        if client.tls.is_none() && !core.refusals.declined.is_empty() {
            core.refusals.declined.comes_back(Origin::of(&client.addr), now);
        }
        let console = weir_admin::is_console(&request.database);
        let over = core.client_quota.total() > core.common.config().max_clients;
        if over && !console && !self.make_room_for(core, now, &client, io) {
            return leave::refuse(core, now, client, Refusal::TooManyClients, io);
        }
        if core.common.is_under_way(UnderWay::SHUTDOWN) && !console {
            return leave::refuse(core, now, client, Refusal::ShuttingDown, io);
        }
        let at = if console { core.common.worker() } else { self.worker_of_login(core, &request) };
        if at == core.common.worker() {
            return self.begin_login(core, now, client, request, io);
        }
        let leftover = std::mem::take(client.waiting_mut());
        client.enter(ClientPhase::Moving(Box::new(Handoff::Startup(at, request, leftover))));
        io.detach(client.conn);
        table::insert(core, client);
    }

    /// The worker at which a client of a pool logs in.
    fn worker_of_login(&mut self, core: &Core, request: &StartupRequest) -> WorkerId {
        let (here, workers, config) = (core.common.worker(), core.common.workers(), core.common.config());
        if workers == 1 {
            return here;
        }
        // A database that does not exist is refused when the client has proven who it is: others learn nothing.
        let Some(pool) = config.pool(&request.database) else { return here };
        let owner = create::owner_of(core, &request.database, pool.user.as_deref().unwrap_or(&request.user));
        // A server of its own is opened where the pool's limits are kept.
        if request.replication.is_some() { owner } else { self.loads.place(owner, workers, config.spread) }
    }

    /// An auth_query is needed for the secret of a client's user.
    fn look_up_secret<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        request: Arc<StartupRequest>,
        lookup: AuthLookup,
        io: &mut I,
    ) {
        if let Some(why) = bad_auth_database(core, &lookup.database) {
            log(Level::Error, format_args!("{why}"), io);
            return leave::refuse(core, now, client, no_auth_database(core, &request), io);
        }
        if core.pause.is_disabled(&lookup.database) {
            return leave::refuse(core, now, client, Refusal::AuthDatabaseDisabled(lookup.database), io);
        }
        let (conn, from, subject) = (client.conn, Origin::of(&client.addr), subject(&request));
        client.enter(ClientPhase::AuthLookup(request));
        table::insert_waiting(core, client, io);
        let at = create::owner_of(core, &lookup.database, &lookup.user);
        let cx = cx!(core, now, io);
        if !self.lookups.ask(cx, (conn, from), subject, lookup, at) {
            leave::refuse_handle(core, now, conn, Refusal::TooManyLogins, io);
        }
    }

    /// A client's authentication has failed. Its error has less detail than the log, and may be delayed.
    fn client_login_failed<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        refusal: Refusal,
        io: &mut I,
    ) {
        if let ClientPhase::Login(phase) = &client.phase {
            if phase.asked_secret().is_some() {
                // The password may be new, or the user: the next attempt uses a new answer of the server. For unknown
                // users too, so that their next attempt takes as long.
                let cx = cx!(core, now, io);
                self.lookups.distrust(cx, subject(phase.request()));
            }
            if let Some(why) = phase.why_failed(&refusal) {
                // PgBouncer has no such line, and tools count its warnings.
                let ini = core.common.config().format == FileFormat::Ini;
                let level = if ini { Level::Info } else { Level::Warning };
                lines::about_client(core, level, &client, format_args!("login refused: {why}"), io);
            }
        }
        let cx = cx!(core, now, io);
        let Some(delay) = self.throttle.delay(cx, &client.addr, &refusal) else {
            return leave::refuse(core, now, client, refusal, io);
        };
        // The client's lines in the log contain the database.
        let database = lines::database_of(core, &client).to_owned();
        client.enter(ClientPhase::Delayed(Box::new(Delayed { refusal, until: now.deadline(delay), database })));
        client.waiting_mut().clear();
        table::insert_waiting(core, client, io);
    }

    /// A client is authenticated: checks whether it may use what it requests.
    fn proven<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        phase: Box<LoginPhase>,
        io: &mut I,
    ) {
        let (config, name) = (core.common.config(), &phase.request.database);
        let owner = weir_admin::is_console(name) && self.logins.is_owner(&client);
        let refusal = if config.is_disabled(&client.user) && !owner {
            Some(Refusal::UserDisabled(client.user.to_string()))
        } else if weir_admin::is_console(name) {
            self.logins.role(config, &client).is_none().then_some(Refusal::NotAllowed)
        } else if !config.may_use(&client.user, name) {
            // Before it is known whether there is such a pool: the user learns nothing of those of others.
            Some(Refusal::PoolNotAllowed { user: client.user.to_string(), pool: name.clone() })
        } else if config.pool(name).is_none() {
            login::log_no_database(cx!(core, now, io), &client, name);
            Some(Refusal::NoSuchDatabase(name.clone()))
        } else {
            let disabled = core.common.is_under_way(UnderWay::DISABLE) && core.pause.is_disabled(name);
            disabled.then(|| Refusal::DatabaseDisabled(name.clone()))
        };
        let Some(refusal) = refusal else { return self.enter(core, now, client, phase, io) };
        client.enter(ClientPhase::Login(phase));
        leave::refuse(core, now, client, refusal, io);
    }

    /// A client is authenticated: it is admitted, now or when worker 0 has answered.
    fn enter<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        mut phase: Box<LoginPhase>,
        io: &mut I,
    ) {
        if !core.common.limits_clients() {
            return self.entered(core, now, client, phase, io);
        }
        let counts_for = client_counts::use_of(&client, &phase.request.database);
        if phase.is_console() && self.logins.role(core.common.config(), &client) == Some(weir_admin::ConsoleRole::Admin)
        {
            // An administrator is counted, but always admitted.
            client_counts::count_in(&mut client, counts_for, io);
            return self.entered(core, now, client, phase, io);
        }
        let id = core.common.next_id();
        phase.set_awaits(Awaits::Quota(id));
        client.enter(ClientPhase::Login(phase));
        request(core.client_quota.request(id, client.conn, counts_for), io);
        table::insert_waiting(core, client, io);
    }

    /// A client is admitted: gives it a pool.
    pub(crate) fn entered<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        phase: Box<LoginPhase>,
        io: &mut I,
    ) {
        let request = &phase.request;
        if weir_admin::is_console(&request.database) {
            return self.open_console(core, now, client, request, io);
        }
        let Some(config) = core.common.config().pool(&request.database) else {
            return leave::refuse(core, now, client, Refusal::NoSuchDatabase(request.database.clone()), io);
        };
        let (ix, welcome) = join_pool(core, now, &mut client, &phase, &config, io);
        if request.replication.is_some() {
            return replication::await_own_server(core, now, client, phase, io);
        }
        if let Some(welcome) = welcome {
            return greet::ready(core, now, client, phase, &welcome, io);
        }
        client.acts(now);
        client.enter(ClientPhase::Welcome(phase));
        match core.pools.get_mut(ix).pool.acquire(client.conn, now) {
            Acquire::Granted { server, check } => {
                let conn = client.conn;
                table::insert_waiting(core, client, io);
                acquire::grant(core, now, (conn, None), server, check, io);
            }
            Acquire::Queued => table::insert_waiting(core, client, io),
            Acquire::Refused(why) => {
                let refusal = refuse::refusal(core, ix, why);
                leave::refuse(core, now, client, refusal, io);
            }
        }
        core.common.follow_up(FollowUp::PollPool(ix));
    }

    fn open_console<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        mut client: Box<ClientSlot>,
        request: &StartupRequest,
        io: &mut I,
    ) {
        let Some(role) = self.logins.role(core.common.config(), &client) else {
            // A reload has removed it since then.
            return leave::refuse(core, now, client, Refusal::NotAllowed, io);
        };
        let key = table::issue_cancel_key(core, &mut client, request.minor);
        welcome::send_to_console(client.conn, &key, io);
        let phase = ClientPhase::Console(Box::new(Console::new(role, request.database.clone())));
        core.client_counts.change(&phase);
        core.console_counts.stats.client_login_count += 1;
        client.acts(now);
        table::insert_ready(core, client, phase, io);
    }
}

/// The error for a client whose user can't be looked up in a database. PgBouncer has one text for all such errors.
fn no_auth_database(core: &Core, request: &StartupRequest) -> Refusal {
    if !weir_admin::is_console(&request.database) || core.common.config().format == FileFormat::Ini {
        return Refusal::BadConfig;
    }
    let user = &request.user;
    let detail = format!("User {user:?} is not listed, and auth_query can't ask the console about users.");
    Refusal::NoConsoleUser { detail }
}

/// Why no auth_query can run in a database.
fn bad_auth_database(core: &Core, name: &str) -> Option<String> {
    if weir_admin::is_console(name) {
        return Some(format!("cannot use the reserved \"{name}\" database as an auth_dbname"));
    }
    let missing = core.common.config().pool(name).is_none();
    missing.then(|| format!("authentication database \"{name}\" is not configured"))
}

/// Gives a client a pool, and the pool the credentials from the client's login. The second result are the pool's login
/// messages, unless a server must be asked for them.
fn join_pool<I: Io>(
    core: &mut Core,
    now: Time,
    client: &mut ClientSlot,
    phase: &LoginPhase,
    config: &Arc<PoolConfig>,
    io: &mut I,
) -> (PoolIx, Option<Welcome>) {
    let request = &phase.request;
    let user = config.user.as_ref().unwrap_or(&request.user);
    let is_listed = core.common.config().pools.contains_key(&request.database);
    if !is_listed && core.pools.named(Some(&request.database)).is_empty() {
        log(Level::Info, format_args!("registered new auto-database: {}", request.database), io);
    }
    let ix = apply_config::pool_of(core, now, &request.database, config, user, io);
    let slot = core.pools.get(ix);
    let asks = slot.is_welcome_stale() || (slot.pool.longest_idle().is_some() && slot.may_confirm_welcome(now));
    let welcome = slot.welcome.clone().filter(|_| !asks);
    if *user == request.user {
        let asked = phase.secret.as_ref().and_then(UserSecret::secret);
        let slot = core.pools.get_mut(ix);
        slot.credentials.capture(&phase.captured, &asked);
        if let LendingRole::Borrower(_) = slot.lending {
            messages::forward_captured(core, ix, ForwardedCredentials { captured: phase.captured.clone(), asked }, io);
        }
    }
    create::join(core, ix, client);
    (ix, welcome)
}
