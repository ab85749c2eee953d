//! This process takes over from another one: its clients, servers and pools come, one by one, each as a value with its
//! socket. What was to leave and could not comes back in the same way.

use std::net::IpAddr;
use std::sync::Arc;

use weir_base::{ConnId, Time, WorkerId};
use weir_pool::Ages;
use weir_session::login::CapturedCredentials;
use weir_session::{Refusal, frozen, frozen_server};

use crate::cancel::home;
use crate::cancel::key::CancelSecret;
use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::reported::{Reported, Welcome};
use crate::common::{FollowUp, UnderWay};
use crate::core::Core;
use crate::handles::PoolIx;
use crate::lines;
use crate::link::{acquire, leave, release};
use crate::listen::clients;
use crate::log::log;
use crate::moves::REST;
use crate::pause::hold;
use crate::pools::{apply_config, create};
use crate::port::{Io, Level, OldProcessState};
use crate::reading::Reason;
use crate::server::connection::Connection;
use crate::server::hosts::Attempt;
use crate::server::slot::{ServerPhase, ServerSlot, ServerState};
use crate::server::{close, permits};
use crate::upgrade::export::{self, made_for};
use crate::upgrade::held::PoolName;
use crate::upgrade::moved::{Held, Moved, MovedClient, MovedPool, MovedServer};
use crate::workers::client_counts;
use crate::workers::messages::{Message, Payload};
use crate::workers::quota::ClientUse;

fn leave_to_others(core: &mut Core, pools: impl IntoIterator<Item = PoolIx>) {
    for ix in pools {
        let slot = core.pools.get_mut(ix);
        slot.pool.set_elsewhere(core.upgrade.held.of(&(slot.name.clone(), slot.user.clone())));
        core.common.follow_up(FollowUp::PollPool(ix));
    }
}

/// The old process, or those before it, have this many servers of a pool: fewer may be opened here.
fn held_elsewhere(core: &mut Core, Held { database, user, servers }: Held) {
    let pool: PoolName = (database.into(), user.into());
    core.upgrade.held.note(pool.clone(), servers);
    leave_to_others(core, core.pools.find(&pool.0, &pool.1));
}

/// What is known of the old process's servers has changed as a whole.
pub(crate) fn old_process(core: &mut Core, step: OldProcessState) {
    match step {
        OldProcessState::Reported => core.upgrade.held.known(),
        OldProcessState::Ended => core.upgrade.held.over(),
    }
    leave_to_others(core, core.pools.indices());
}

/// The pool of a database and a user on the server, if the configuration has it.
fn target_pool<I: Io>(core: &mut Core, now: Time, database: &str, user: &str, io: &mut I) -> Option<PoolIx> {
    let config = core.common.config().pool(database).filter(|config| create::fits(core, config, user))?;
    Some(apply_config::pool_of(core, now, database, &config, user, io))
}

fn import_pool<I: Io>(core: &mut Core, now: Time, moved: MovedPool, io: &mut I) {
    let Some(ix) = target_pool(core, now, &moved.database, &moved.user, io) else { return };
    let table = &core.sessions.params;
    let slot = core.pools.get_mut(ix);
    let captured = CapturedCredentials { password: moved.password.map(Into::into), keys: moved.keys };
    slot.credentials.import(captured, moved.looked_up);
    slot.accepted.raise_schema_version(moved.schema);
    if let Some(reported) = moved.reported.filter(|_| slot.welcome.is_none()) {
        let mut params = table.unknown();
        reported.iter().for_each(|(name, value)| table.take_report(&mut params, name, value));
        let reported = Arc::new(Reported::new(table, reported));
        slot.set_welcome(Some(Welcome { params: Arc::new(params), reported }));
        // Only a server that has logged in reports something.
        slot.failures.succeed();
    }
    if core.common.is_under_way(UnderWay::EXPORT) {
        // The next process needs it before the pool's servers, which may not have come yet.
        export::export_pool(core.pools.get(ix), io);
    }
}

fn import_server<I: Io>(core: &mut Core, now: Time, moved: MovedServer, conn: ConnId, io: &mut I) {
    let ix = target_pool(core, now, &moved.database, &moved.user, io);
    core.upgrade.held.came(&(moved.database.as_str().into(), moved.user.as_str().into()));
    leave_to_others(core, ix);
    let ix = ix.filter(|ix| {
        let slot = core.pools.get(*ix);
        let stays = core.primaries.may_stay(&slot.name, slot.config.session_attrs, &moved.target);
        !slot.lending.is_borrower() && made_for(slot) == moved.made_for && stays
    });
    let session = frozen_server::thaw(&moved.session, &core.sessions.params);
    // A server that its pool would not have opened is closed, and so is one that can't be read.
    let (Some(ix), Some(mut session)) = (ix, session) else {
        return close::close_imported(core, now, &moved.database, conn, io);
    };
    let slot = core.pools.get_mut(ix);
    slot.welcome.iter().for_each(|welcome| session.share_params(&welcome.params));
    let Some(proof) = session.prove_clean() else {
        return close::close_imported(core, now, &moved.database, conn, io);
    };
    let database = slot.name.clone();
    if slot.config.session_attrs.wants_primary() && core.primaries.of(&database).is_none() {
        // It is where the other process wrote.
        let found = Payload::PrimaryFound { pool: database.clone(), at: moved.target.clone() };
        io.post(WorkerId(0), Message(found), None);
    }
    let ages = Ages { connected_at: Time::from_micros(moved.connected_at), expires: Time::from_micros(moved.expires) };
    let server = server_slot(moved, conn, ix, session, now);
    core.conns.put_server(Box::new(server));
    permits::count_imported(core, ix, io);
    if core.common.config().shared_budget(&database).is_some() {
        // After the server is counted.
        io.post(WorkerId(0), Message(Payload::ServerCame(database)), None);
    }
    let answer = core.pools.get_mut(ix).pool.borrowed(conn, ages, proof, now);
    if core.common.is_under_way(UnderWay::SUSPEND) {
        hold::hold(core, conn, io);
    }
    release::passed_on(core, now, ix, conn, answer, io);
}

/// How a client that comes counts among the clients of the process.
pub(crate) enum Counted {
    /// Not yet.
    No,
    /// It does, and under these keys, if clients are limited.
    For(Option<Box<ClientUse>>),
}

impl Counted {
    fn count<I: Io>(&mut self, core: &mut Core, client: &mut ClientSlot, io: &mut I) {
        match self {
            Counted::No => client_counts::count_imported(core, client, io),
            Counted::For(keys) => client_counts::count_moved(core, client, keys.take(), io),
        }
    }
}

/// A client comes from another process or worker.
pub(crate) fn client_came<I: Io>(
    core: &mut Core,
    now: Time,
    moved: MovedClient,
    conn: ConnId,
    mut counted: Counted,
    io: &mut I,
) {
    let secret = CancelSecret::of_parts((moved.secret, moved.issued), moved.pid);
    let mut client = Box::new(ClientSlot::new(conn, moved.id, moved.addr, ClientPhase::Gone, now));
    *client.cancel_mut() = secret;
    client.named(moved.user.into());
    client.connected(Time::from_micros(moved.connected_at));
    client.acts(Time::from_micros(moved.request_at));
    client.secured(moved.tls.map(Box::new));
    core.client_counts.add(&client.phase);
    core.upgrade.keys.add(moved.pid, conn);
    client.rests(now + REST);
    if let Counted::No = counted {
        home::report(core, &client, io);
    }
    let mut ix = target_pool(core, now, &moved.database, &moved.pool_user, io);
    if let (None, Counted::For(_), Some(config)) = (ix, &counted, core.common.config().pool(&moved.database)) {
        // A reload has given the pool another user meanwhile.
        let user = config.user.clone().unwrap_or_else(|| client.user.to_string());
        ix = Some(apply_config::pool_of(core, now, &moved.database, &config, &user, io));
    }
    let Some(ix) = ix else {
        counted.count(core, &mut client, io);
        return leave::refuse(core, now, client, Refusal::NoSuchDatabase(moved.database), io);
    };
    create::join(core, ix, &mut client);
    let accepted = &core.pools.get(ix).accepted;
    match frozen::thaw(&moved.session, &core.sessions.params, &mut core.sessions.interner, accepted) {
        Ok(mut session) => {
            session.share_channels(core.pools.get(ix).rules.shares_listen);
            let name = core.sessions.application(&session);
            // It logged in elsewhere.
            core.pools.get_mut(ix).counts.note_application(name, 0);
            client.enter(ClientPhase::Ready(session));
            counted.count(core, &mut client, io);
            clients::client_came(core, &mut client);
            if core.common.is_under_way(UnderWay::EXPORT) {
                release::export_later(core, Some(conn));
            }
            // The other process's turn may have begun later than this one.
            let since = client.request_at.min(now);
            if let Some(bytes) = &moved.waits_with {
                core.sessions.keep(client.waiting_mut(), bytes);
                client.pause(Reason::Waits, io);
            }
            table::insert(core, client);
            if core.common.is_under_way(UnderWay::SUSPEND) {
                hold::hold(core, conn, io);
            }
            if moved.waits_with.is_some() {
                acquire::requeue(core, now, ix, conn, since, io);
            }
        }
        Err(why) => {
            lines::about_client(core, Level::Error, &client, format_args!("can't be taken over: {why}"), io);
            counted.count(core, &mut client, io);
            leave::refuse(core, now, client, Refusal::PoolGone, io);
        }
    }
}

/// Something comes from another process, or back.
pub(crate) fn import<I: Io>(core: &mut Core, now: Time, value: &[u8], socket: Option<ConnId>, io: &mut I) {
    match (Moved::read(value), socket) {
        (Some(Moved::Pool(pool)), _) => import_pool(core, now, *pool, io),
        (Some(Moved::Held(held)), _) => held_elsewhere(core, held),
        (Some(Moved::Server(server)), Some(conn)) => import_server(core, now, *server, conn, io),
        (Some(Moved::Client(client)), Some(conn)) => client_came(core, now, *client, conn, Counted::No, io),
        (_, socket) => {
            log(Level::Error, format_args!("what another process handed over can't be used"), io);
            socket.into_iter().for_each(|conn| io.close(conn));
        }
    }
}

fn server_slot(moved: MovedServer, conn: ConnId, pool: PoolIx, session: weir_session::Server, now: Time) -> ServerSlot {
    let (attempt, connected_at) = (Attempt::of_parts(moved.attempt), Time::from_micros(moved.connected_at));
    let mut server = ServerSlot::new(conn, moved.id, pool, moved.target.clone(), attempt, now);
    let remote: Option<IpAddr> = moved.remote;
    *server.connection_mut() = Connection::moved(moved.target, attempt, moved.tls, connected_at);
    server.connection_mut().connected(moved.local, remote);
    server.enter(ServerState::Up(session, ServerPhase::Idle));
    server
}
