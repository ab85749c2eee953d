//! Passwords of clients that LDAP or PAM checks, and tokens that the keys of an issuer check, on helpers.
//!
//! Owns who waits for a helper, in turn by origin. Nothing is kept: each login is checked anew, so a password that
//! was changed or taken away counts at once.
//!
//! Bounds: [`MAX_RUNNING`] checks are with helpers at once, of them [`MAX_RUNNING_ONE`] of one server or service, so
//! that one that hangs leaves room for others; [`MAX_WAITING`] clients wait for theirs, [`MAX_WAITING_ONE`] of them for
//! one, and further ones are refused, or the last one of an origin with more of them. A check ends within its limit,
//! and a wait with `client_login_timeout`.

use std::sync::Arc;

use weir_base::{ConnId, FairQueue, Origin, Span};
use weir_config::Config;

use crate::common::{Cx, FollowUp, Job};
use crate::port::{Io, PasswordCheck, Work};

/// Checks of this worker that helpers have at once. They wait for others most of the time.
const MAX_RUNNING: usize = 60;
/// Checks of one server or service that helpers have at once.
const MAX_RUNNING_ONE: usize = 10;
/// The most clients that wait for a helper.
const MAX_WAITING: usize = 1000;
/// The most clients that wait for a helper with a check of one server or service.
const MAX_WAITING_ONE: usize = 400;
/// The longest check: longer than PAM's own delay after a wrong password.
const LONGEST: Span = Span::from_secs(30);

/// How long a check may take: no longer than the login.
pub(super) fn limit(config: &Config) -> Span {
    let login = config.client_login_timeout;
    if login.is_zero() { LONGEST } else { login.min(LONGEST) }
}

/// The checks that helpers have, and those that wait.
#[derive(Default)]
pub(super) struct PasswordChecks {
    running: Vec<(ConnId, Arc<str>)>,
    waiting: FairQueue<Waiting>,
}

struct Waiting {
    /// The server or service that checks ([`Authority::key`](crate::port::Authority::key)).
    at: Arc<str>,
    check: Box<PasswordCheck>,
}

impl PasswordChecks {
    /// A client's password is to be checked. Returns whether there is room for the check.
    pub(super) fn request<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        (client, from): (ConnId, Origin),
        check: PasswordCheck,
    ) -> bool {
        let at = check.by.key();
        let full = self.waiting.len() >= MAX_WAITING;
        if full || self.waiting.count(|waiting| waiting.at == at) >= MAX_WAITING_ONE {
            let displaced = self.waiting.displace(from, |waiting| full || waiting.at == at);
            let Some(displaced) = displaced else { return false };
            cx.common.follow_up(FollowUp::Displaced(displaced));
        }
        self.waiting.push(from, client, Waiting { at, check: Box::new(check) });
        self.start(cx);
        true
    }

    /// A helper has finished the check of a client's password: the next one begins.
    pub(super) fn done<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: ConnId) {
        self.running.retain(|(running, _)| *running != client);
        self.start(cx);
    }

    /// A client does not wait any more. A check that has begun continues, and its answer is ignored.
    pub(super) fn leave(&mut self, client: ConnId) {
        self.waiting.leave(client);
    }

    fn start<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        while self.running.len() < MAX_RUNNING {
            let Some((client, next)) = self.next() else { return };
            self.running.push((client, next.at));
            let job = cx.common.begin_job(Job::CheckPassword(client));
            cx.io.submit_job(job, Work::CheckPassword(next.check));
        }
    }

    /// The next waiting check whose server or service may have one more.
    fn next(&mut self) -> Option<(ConnId, Waiting)> {
        let mut full: Vec<&str> = Vec::new();
        for (i, (_, at)) in self.running.iter().enumerate() {
            let before = self.running[..i].iter().filter(|(_, other)| other == at).count();
            if before + 1 == MAX_RUNNING_ONE {
                full.push(at);
            }
        }
        self.waiting.take(|waiting| !full.contains(&&*waiting.at))
    }
}
