//! Session state that clients lost at the end of a transaction or were refused, or that was found late: counts it, and
//! logs each kind once.
//!
//! `weir-session` decides what is lost, and also warns the client.

use weir_base::STATE_KINDS;
use weir_config::Config;
use weir_pgwire::Dirty;
use weir_session::from_server::Unusual;
use weir_session::{Left, ParamTable};

use crate::client::slot::ClientSlot;
use crate::core::Core;
use crate::lines;
use crate::link::wire::Wire;
use crate::log::log_client;
use crate::pools::PoolSlot;
use crate::port::{Io, Level};
use crate::server::pinned;
use crate::server::slot::ServerSlot;

/// Counts what a client of the pool lost or was refused; returns the kinds of which the log has no line yet.
#[cold]
pub(crate) fn count(pool: &mut PoolSlot, unusual: &Unusual) -> Dirty {
    for (index, kind) in Dirty::KINDS.into_iter().enumerate() {
        let counter = pool.counts.counters.lost.of(index);
        counter.lost += u64::from(unusual.lost.contains(kind));
        counter.refused += u64::from(unusual.refused_state.contains(kind));
    }
    let new = unusual.lost.union(unusual.refused_state).without(pool.counts.lost_logged);
    pool.counts.lost_logged.insert(new);
    new
}

/// A client loses the channels on which it listens with its server, though its pool shares a connection for them.
#[cold]
pub(crate) fn lose_channels<I: Io>(core: &mut Core, server: &mut ServerSlot, client: &mut ClientSlot, io: &mut I) {
    let unusual = Unusual { lost: Dirty::LISTEN, ..Unusual::default() };
    let pool = core.pools.get_mut(server.pool);
    let new = count(pool, &unusual);
    log(core.common.config(), new, &unusual, client, &pool.name, &core.sessions.params, io);
    let (conn, to, warns) = (server.conn, client.conn, pool.config.policy.warn_on_dirty);
    if let (Some((up, _)), Some(session), true) = (server.up(), client.ready(), warns) {
        up.warn_of_lost_channels(session, &mut core.sessions.scratch, &mut Wire::new(io, to, conn, &[], None));
    }
}

/// Logs each of these kinds with the application_name: so an operator can find the program that needs session mode.
#[cold]
pub(crate) fn log<I: Io>(
    config: &Config,
    kinds: Dirty,
    unusual: &Unusual,
    client: &mut ClientSlot,
    database: &str,
    table: &ParamTable,
    io: &mut I,
) {
    let params = client.ready().map(|session| session.params().clone());
    let application = params.as_ref().and_then(|params| table.get(params, "application_name")).unwrap_or_default();
    for (index, kind) in Dirty::KINDS.into_iter().enumerate().filter(|(_, kind)| kinds.contains(*kind)) {
        let what = STATE_KINDS[index];
        let done =
            if unusual.refused_state.contains(kind) { "was refused" } else { "was lost at the end of a transaction" };
        let text = format_args!(
            "session state of the kind \"{what}\" {done} (application_name \"{application}\"); see SHOW LOST_STATE"
        );
        log_client(Level::Warning, config, client, database, text, io);
    }
}

/// A text has left state that had been executed before without a question (`mode = "auto"`): other clients of the server
/// may have found it then.
#[cold]
pub(crate) fn found_late<I: Io>(core: &mut Core, left: &Left, client: &mut ClientSlot, io: &mut I) {
    let counts = &mut core.pools.get_mut(client.pool).counts;
    let new = left.late.without(counts.late_logged);
    counts.late_logged.insert(left.late);
    for (index, kind) in Dirty::KINDS.into_iter().enumerate().filter(|(_, kind)| left.late.contains(*kind)) {
        core.pools.get_mut(client.pool).counts.counters.lost.of(index).late += 1;
        if !new.contains(kind) {
            continue;
        }
        let (what, statement) = (STATE_KINDS[index], pinned::text_of(left, kind));
        let application = client.application(&core.sessions.params);
        let text = format_args!(
            "session state of the kind \"{what}\" was found late: a statement that had run unasked has left it \
             (application_name \"{application}\"): {statement}; see SHOW LOST_STATE"
        );
        lines::about_client(core, Level::Warning, client, text, io);
    }
}
