//! Worker 0 asks Patroni which host of a pool is its primary, and tells the workers what it says.

use std::sync::Arc;

use weir_base::{Time, WorkerId};
use weir_config::PatroniQuestion;

use crate::admin::Admin;
use crate::common::Job;
use crate::core::Core;
use crate::port::{Io, Work};
use crate::timers::Who;
use crate::workers::messages::{Message, Payload};
use crate::workers::send::COUNTER;

impl Admin {
    /// A configuration is in force, or the process begins.
    pub(crate) fn patroni_configured(&mut self, core: &mut Core, now: Time) -> Vec<Arc<PatroniQuestion>> {
        if core.common.worker() != COUNTER {
            return Vec::new();
        }
        let config = core.common.config().clone();
        let gone = self.patroni.configured(&config, now);
        self.arm_patroni(core);
        gone
    }

    /// Patroni is to be asked.
    pub(crate) fn patroni_due<I: Io>(&mut self, core: &mut Core, now: Time, io: &mut I) {
        *self.patroni.armed() = Time::NEVER;
        for question in self.patroni.due(now) {
            let job = core.common.begin_job(Job::AskPatroni(question.clone()));
            io.submit_job(job, Work::AskPatroni(question));
        }
        self.arm_patroni(core);
    }

    /// Patroni has answered: the status, or why there is none.
    pub(crate) fn patroni_answered<I: Io>(
        &mut self,
        core: &mut Core,
        now: Time,
        question: &Arc<PatroniQuestion>,
        answer: Result<u16, String>,
        io: &mut I,
    ) {
        let (yes, seats) = (answer == Ok(200), &self.primaries);
        if self.patroni.answered(question, answer, |pool| seats.host(pool), now) {
            tell(core, question, yes, io);
        }
        self.arm_patroni(core);
    }

    fn arm_patroni(&mut self, core: &mut Core) {
        let due = self.patroni.next_due();
        core.common.arm(Who::Patroni, due, self.patroni.armed());
    }
}

/// All workers learn what Patroni says.
pub(crate) fn tell<I: Io>(core: &Core, question: &Arc<PatroniQuestion>, yes: bool, io: &mut I) {
    for worker in 0..core.common.workers() {
        io.post(WorkerId(worker), Message(Payload::PatroniSaid(question.clone(), yes)), None);
    }
}
