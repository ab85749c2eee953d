//! Wait diagnosis: clients whose wait is too long, or that get a notice, at the owner of a pool and at borrowers.

use weir_base::{Peer, Time};
use weir_session::{Cause, Refusal};

use crate::admin::wait_diagnosis::{self, Diagnosis};
use crate::backends::login;
use crate::cluster::lending::ToInform;
use crate::engine::Engine;
use crate::handles::PoolIx;
use crate::peers::{ClientPhase, ClientSlot};
use crate::port::Io;
use crate::traffic::deadlines;

impl Engine {
    /// Calls `make` with the input of a pool's diagnosis.
    fn diagnose<R>(&self, now: Time, ix: PoolIx, make: impl FnOnce(&Diagnosis<'_>) -> R) -> R {
        let is_shared = self.common.config().shared_budget(&self.pools.get(ix).name).is_some();
        make(&Diagnosis {
            now,
            config: self.common.config(),
            peers: &self.peers,
            pool: self.pools.get(ix),
            away: self.pools.get(ix).login.waits_at().and_then(|target| self.backends.throttle.away(target)),
            obstacle: self.cluster.lapse.obstacle().filter(|_| is_shared),
            is_lent: &|server| self.is_lent(server),
        })
    }

    /// Why a wait in a pool's queue does not end, with names and figures.
    pub(crate) fn cause_of_wait(&self, now: Time, ix: PoolIx) -> (Cause, String) {
        self.diagnose(now, ix, |diagnosis| diagnosis.cause())
    }

    /// The error for a client, or a query of ours, that has waited too long.
    pub(crate) fn wait_timed_out<I: Io>(&mut self, now: Time, ix: PoolIx, io: &mut I) -> Refusal {
        let why = self.cause_of_wait(now, ix);
        wait_diagnosis::timed_out(now, self.common.config(), self.pools.get_mut(ix), why, io)
    }

    /// The error for a client that logs in, has waited long enough for the first server of its pool, and would wait on: all
    /// attempts to reach one fail. A server that starts up is waited for.
    pub(crate) fn never_reached(&self, now: Time, client: &ClientSlot) -> Option<Refusal> {
        let waits =
            matches!(client.phase, ClientPhase::Welcome(_)) && now >= deadlines::first_server_due(&self.pools, client);
        let slot = waits.then(|| self.pools.get(client.pool))?;
        let away = slot.login.waits_at().and_then(|target| self.backends.throttle.away(target)).map(|away| &away.error);
        let error = away.or_else(|| slot.failures.last().map(|(error, _)| error))?;
        let refusal = || Refusal::NeverReached { message: error.message.clone(), detail: login::failed_for(slot) };
        error.sqlstate.starts_with("08").then(refusal)
    }

    /// A client has waited long enough for a notice.
    pub(crate) fn notify_waiting<I: Io>(&mut self, now: Time, ix: PoolIx, client: Peer, io: &mut I) {
        let (_, why) = self.cause_of_wait(now, ix);
        wait_diagnosis::notify(&self.peers, self.pools.get(ix), client, &why, io);
    }

    /// A borrower's clients get the owner's reason for their waits, completed by their own worker.
    pub(crate) fn wait_explained<I: Io>(
        &mut self,
        now: Time,
        ix: PoolIx,
        to_tell: &[ToInform],
        (cause, detail): (Cause, String),
        io: &mut I,
    ) {
        let holders = self.diagnose(now, ix, |diagnosis| diagnosis.holders());
        let detail = format!("{detail} At the client's own worker: {holders}");
        for waiting in to_tell {
            match *waiting {
                ToInform::Notified(client) => {
                    wait_diagnosis::notify(&self.peers, self.pools.get(ix), client, &detail, io);
                }
                ToInform::Refused(client) => {
                    let pool = self.pools.get_mut(ix);
                    let config = self.common.config();
                    let refusal = wait_diagnosis::timed_out(now, config, pool, (cause, detail.clone()), io);
                    self.refuse_handle(now, client, refusal, io);
                }
            }
        }
    }
}
