//! What happens while a client logs in: it arrives from another worker, and helpers and other workers answer.

use weir_base::{ClientAddr, ConnId, Origin, Time, WorkerId};
use weir_session::Refusal;

use crate::client::slot::{ClientPhase, ClientSlot};
use crate::client::table;
use crate::client_login::ClientLogin;
use crate::client_login::secret_query::UserSecret;
use crate::client_login::state::{Awaits, subject};
use crate::common::cx;
use crate::conns::Conn;
use crate::core::Core;
use crate::link::leave;
use crate::log::log;
use crate::port::{Io, Level, Proof};
use crate::reading::Reason;
use crate::workers::messages::{ClientHandoff, Message, Payload};
use crate::workers::quota::clients::refusal;
use crate::workers::quota::{ClientUse, Key, QuotaRequest, Resource};
use crate::workers::send::request;

impl ClientLogin {
    /// A client has arrived from worker 0, to log in here.
    pub(crate) fn arrived<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        conn: ConnId,
        handoff: ClientHandoff,
        io: &mut I,
    ) {
        let mut client = table::new(core, now, conn, handoff.id, handoff.addr, ClientPhase::Gone);
        client.connected(handoff.connected_at);
        client.secured(handoff.tls);
        *client.waiting_mut() = handoff.leftover;
        self.begin_login(core, now, client, handoff.hello, io);
    }

    /// A request for a secret is answered: the clients that waited for it continue, or are refused.
    pub(crate) fn secret_answered<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        id: u64,
        answer: &Result<UserSecret, Refusal>,
        io: &mut I,
    ) {
        let cx = cx!(core, now, io);
        for conn in self.lookups.answered(cx, id, answer) {
            let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { continue };
            let phase = client.take_phase();
            let ClientPhase::AuthLookup(request) = phase else {
                client.enter(phase);
                core.conns.put_at(conn, Conn::Client(client));
                continue;
            };
            client.resume(Reason::Waits, io);
            match answer {
                Ok(secret) => self.challenge(core, now, client, request, Some(secret), io),
                Err(refusal) => {
                    client.enter(ClientPhase::AuthLookup(request));
                    leave::refuse(core, now, client, refusal.clone(), io);
                }
            }
        }
    }

    /// A helper has found the name of an operating system's user: clients that wait for it continue.
    pub(crate) fn user_named<I: Io>(&mut self, core: &mut Core, now: Time, uid: u32, name: Option<&str>, io: &mut I) {
        self.logins.learn_name(cx!(core, now, io), uid, name);
        let waits = |client: &&ClientSlot| matches!(&client.phase, ClientPhase::Login(phase) if phase.awaits() == Awaits::UserName(uid));
        let waiting: Vec<ConnId> = core.conns.all::<ClientSlot>().filter(waits).map(|client| client.conn).collect();
        for conn in waiting {
            let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { continue };
            client.resume(Reason::Waits, io);
            if let ClientPhase::Login(phase) = client.take_phase() {
                self.challenge(core, now, client, phase.into_request(), None, io);
            }
        }
    }

    /// A helper has hashed the password of a client's login.
    pub(crate) fn client_hashed<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        conn: ConnId,
        salted: &[u8; 32],
        io: &mut I,
    ) {
        self.logins.exchanges.hash_done(cx!(core, now, io));
        let Some(mut client) = core.conns.take::<ClientSlot>(conn) else { return };
        client.resume(Reason::Waits, io);
        let cx = cx!(core, now, io);
        let step = self.logins.exchanges.hashed(cx, &mut client, salted);
        self.login_step(core, now, client, step, io);
    }

    /// A client's password or token has been checked by a helper.
    pub(crate) fn password_checked<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        conn: ConnId,
        result: Result<Proof, String>,
        io: &mut I,
    ) {
        self.logins.exchanges.check_done(cx!(core, now, io), conn);
        let Some(mut client) = core.conns.take::<ClientSlot>(conn) else {
            if let Err(why) = &result {
                // The check may have taken so long.
                log(Level::Warning, format_args!("login of a client that has left: {why}"), io);
            }
            return;
        };
        client.resume(Reason::Waits, io);
        let cx = cx!(core, now, io);
        let step = self.logins.exchanges.checked(cx, &mut client, result);
        self.login_step(core, now, client, step, io);
    }

    /// A client is gone that was logging in: what its login waited for is given up.
    pub(crate) fn client_gone<I: Io>(&mut self, core: &mut Core, now: Time, client: &ClientSlot, io: &mut I) {
        match &client.phase {
            ClientPhase::Delayed(_) => self.throttle.delay_over(),
            ClientPhase::AuthLookup(request) => {
                let cx = cx!(core, now, io);
                self.lookups.leave(cx, client.conn, &subject(request));
            }
            ClientPhase::Login(phase) => self.logins.exchanges.leave(client.conn, phase),
            _ => {}
        }
    }

    /// Handles worker 0's answer about a client.
    pub(crate) fn client_answered<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        id: u64,
        counts_for: ClientUse,
        full: Option<Key>,
        io: &mut I,
    ) {
        let waits = |client: &ClientSlot| matches!(&client.phase, ClientPhase::Login(phase) if phase.awaits() == Awaits::Quota(id));
        let conn = core.client_quota.answered(id);
        let conn = conn.filter(|conn| core.conns.get::<ClientSlot>(*conn).is_some_and(waits));
        match (conn.and_then(|conn| core.conns.take::<ClientSlot>(conn)), full) {
            (Some(mut client), None) => {
                client.counts_for(counts_for);
                client.resume(Reason::Waits, io);
                let ClientPhase::Login(mut phase) = client.take_phase() else { return };
                phase.set_awaits(Awaits::Client);
                self.entered(core, now, client, phase, io);
            }
            (Some(client), Some(full)) => leave::refuse(core, now, client, refusal(&full), io),
            // The client has disconnected since then.
            (None, None) => request(QuotaRequest::Release { resource: Resource::Client(counts_for), count: 1 }, io),
            (None, Some(_)) => {}
        }
    }

    /// The port reports this worker's load, in per cent of its time: worker 0 keeps it.
    pub(crate) fn loaded<I: Io>(&mut self, core: &mut Core, percent: u8, io: &mut I) {
        if core.common.worker() == WorkerId(0) {
            self.load_reported(core, core.common.worker(), percent);
        } else {
            io.post(WorkerId(0), Message(Payload::Load(percent)), None);
        }
    }

    /// A worker's load, in per cent, has reached worker 0.
    pub(crate) fn load_reported(&mut self, core: &Core, worker: WorkerId, percent: u8) {
        self.loads.note(worker, percent.min(100), core.common.now());
    }

    /// Another worker has seen a login fail from this origin.
    pub(crate) fn failed_elsewhere<I: Io>(&mut self, core: &mut Core, now: Time, origin: Origin, io: &mut I) {
        self.throttle.failed_elsewhere(cx!(core, now, io), origin);
    }
}

/// A client has arrived from worker 0, with a cancel request for a client here.
pub(crate) fn canceller_arrived(core: &mut Core, now: Time, conn: ConnId, id: u64, addr: ClientAddr) {
    let client = table::new(core, now, conn, id, addr, ClientPhase::Canceller);
    table::insert(core, client);
}
