//! Passwords of clients that LDAP or PAM checks, on helpers.
//!
//! Owns who waits for a helper, first come, first served. Nothing is kept: each login is checked anew, so a password that
//! was changed or taken away counts at once.
//!
//! Bounds: [`MAX_RUNNING`] checks are with helpers at once, [`MAX_WAITING`] clients wait for theirs, and whoever comes then
//! is refused. A check ends within its limit, and a wait with `client_login_timeout`.

use std::collections::VecDeque;

use weir_base::{Peer, Span};
use weir_config::Config;

use crate::common::{Cx, Job};
use crate::port::{Io, PasswordCheck, Work};

/// Checks of this worker that helpers have at once. They wait for others most of the time.
const MAX_RUNNING: usize = 16;
/// The most clients that wait for a helper.
const MAX_WAITING: usize = 1000;
/// The longest check: longer than PAM's own delay after a wrong password.
const LONGEST: Span = Span::from_secs(30);

/// How long a check may take: no longer than the login.
pub(super) fn limit(config: &Config) -> Span {
    let login = config.client_login_timeout;
    if login.is_zero() { LONGEST } else { login.min(LONGEST) }
}

/// What is checked, and waits to be.
#[derive(Default)]
pub(super) struct PasswordChecks {
    running: usize,
    waiting: VecDeque<(Peer, Box<PasswordCheck>)>,
}

impl PasswordChecks {
    /// A client's password is to be checked. Whether there is room for it.
    pub(super) fn request<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: Peer, check: PasswordCheck) -> bool {
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.push_back((client, Box::new(check)));
        self.start(cx);
        true
    }

    /// A helper has finished a check: the next one begins.
    pub(super) fn done<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        self.running -= 1;
        self.start(cx);
    }

    /// A client does not wait any more. A check that has begun goes on, and its answer is ignored.
    pub(super) fn leave(&mut self, client: Peer) {
        self.waiting.retain(|(waiting, _)| *waiting != client);
    }

    fn start<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        while self.running < MAX_RUNNING {
            let Some((client, check)) = self.waiting.pop_front() else { return };
            self.running += 1;
            let job = cx.common.begin_job(Job::CheckPassword(client));
            cx.io.help(job, Work::CheckPassword(check));
        }
    }
}
