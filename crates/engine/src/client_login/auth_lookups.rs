//! Secrets of users that `auth_file` does not list, on the worker of the clients that need them (auth_query).
//!
//! Owns one request for all clients of the same user and database, the clients that wait for its answer or for their
//! turn, and a cache of answers for `auth_query_cache`. Another pool's worker, maybe this one, runs the query
//! (`auth_query`).
//!
//! Bounds: [`MAX_RUNNING`] requests have no answer yet, and [`MAX_WAITING`] clients wait for theirs, in turn by origin;
//! further ones are refused, or the last one of an origin with more of them. A wait ends with `client_login_timeout`.
//!
//! Always true: a client waits for at most one request; an answer does not reveal whether its user exists.

use std::collections::HashMap;
use std::sync::Arc;

use weir_auth::{Mocks, Shape};
use weir_base::{ConnId, FairQueue, Origin, Time, WorkerId, shrink};
use weir_config::{AuthLookup, Spread};
use weir_session::Refusal;

use crate::client_login::secret_query::{SecretQuery, Subject, UserSecret};
use crate::common::{Cx, FollowUp};
use crate::port::Io;
use crate::workers::messages::{Message, Payload};

/// The limits of cached answers, about users that exist, and about others.
const MAX_KEPT: usize = 4096;
/// Requests of this worker without an answer: no more than a pool answers at once.
const MAX_RUNNING: usize = 32;
/// The most clients that wait for their turn.
const MAX_WAITING: usize = 1000;

/// See the head of the file.
#[derive(Default)]
pub(crate) struct AuthLookups {
    /// Requests without an answer yet.
    pending: HashMap<u64, Pending>,
    by_subject: HashMap<Subject, u64>,
    /// Clients whose request waits for its turn.
    waiting: FairQueue<Wanted>,
    /// Answers about existing users. Those about others are cached as long, but separately: invented names replace no
    /// real ones.
    kept: HashMap<Subject, Kept>,
    unknown: HashMap<Subject, Kept>,
    /// The mock secrets of users without one, from the last answer.
    mocks: Option<Arc<Mocks>>,
}

/// A request, and the clients that wait for its answer.
struct Pending {
    subject: Subject,
    /// The worker that runs the request.
    at: WorkerId,
    clients: Vec<ConnId>,
}

/// What a client waits for.
struct Wanted {
    subject: Subject,
    lookup: AuthLookup,
    /// The worker that will run the request.
    at: WorkerId,
}

struct Kept {
    answer: UserSecret,
    until: Time,
}

impl AuthLookups {
    /// The cached answer about a user.
    pub(crate) fn kept(&self, subject: &Subject, now: Time) -> Option<&UserSecret> {
        let kept = self.kept.get(subject).or_else(|| self.unknown.get(subject))?;
        (now < kept.until).then_some(&kept.answer)
    }

    /// The mock secrets for users of an auth_query, where no server can be queried; `usual` if none has answered.
    pub(crate) fn mocks(&self, usual: Shape) -> Arc<Mocks> {
        self.mocks.clone().unwrap_or_else(|| Arc::new(Mocks::of_shape(usual)))
    }

    /// A client waits for a secret, which is requested from worker `at`; ends with [`AuthLookups::answered`]. Whether
    /// there is room for it.
    pub(crate) fn ask<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        (client, from): (ConnId, Origin),
        subject: Subject,
        lookup: AuthLookup,
        at: WorkerId,
    ) -> bool {
        if let Some(pending) = self.by_subject.get(&subject).and_then(|id| self.pending.get_mut(id)) {
            pending.clients.push(client);
            return true;
        }
        if self.waiting.len() >= MAX_WAITING {
            let Some(displaced) = self.waiting.displace(from, |_| true) else { return false };
            cx.common.follow_up(FollowUp::Displaced(displaced));
        }
        self.waiting.push(from, client, Wanted { subject, lookup, at });
        self.start(cx);
        true
    }

    /// Sends as many requests as allowed.
    fn start<I: Io>(&mut self, cx: &mut Cx<'_, I>) {
        while self.pending.len() < MAX_RUNNING {
            let Some((client, Wanted { subject, lookup, at })) = self.waiting.take(|_| true) else { return };
            if let Some(pending) = self.by_subject.get(&subject).and_then(|id| self.pending.get_mut(id)) {
                pending.clients.push(client);
                continue;
            }
            let id = cx.common.next_id();
            let query = SecretQuery { id, lookup, user: subject.1.clone() };
            self.by_subject.insert(subject.clone(), id);
            self.pending.insert(id, Pending { subject, at, clients: vec![client] });
            cx.io.post(at, Message(Payload::LookUp(Box::new(query))), None);
        }
    }

    /// A request is answered: returns the clients that waited for it, which go on or are refused.
    pub(crate) fn answered<I: Io>(
        &mut self,
        cx: &mut Cx<'_, I>,
        id: u64,
        answer: &Result<UserSecret, Refusal>,
    ) -> Vec<ConnId> {
        let Some(mut pending) = self.pending.remove(&id) else { return Vec::new() };
        self.by_subject.remove(&pending.subject);
        pending.clients.extend(self.waiting.take_all(|wanted| wanted.subject == pending.subject));
        self.start(cx);
        if let Ok(answer) = answer {
            self.mocks = Some(answer.mocks.clone());
            let until = cx.now + cx.common.config().auth.query_cache;
            self.keep(pending.subject, Kept { answer: answer.clone(), until }, cx.now);
        }
        pending.clients
    }

    fn keep(&mut self, subject: Subject, kept: Kept, now: Time) {
        let answers = if kept.answer.text.is_some() { &mut self.kept } else { &mut self.unknown };
        if answers.len() >= MAX_KEPT {
            answers.retain(|_, kept| now < kept.until);
            shrink(answers, 64);
        }
        if answers.len() < MAX_KEPT && now < kept.until {
            answers.insert(subject, kept);
        }
    }

    /// A waiting client has disconnected. A request without clients is withdrawn.
    pub(crate) fn leave<I: Io>(&mut self, cx: &mut Cx<'_, I>, client: ConnId, subject: &Subject) {
        self.waiting.leave(client);
        let Some(id) = self.by_subject.get(subject).copied() else { return };
        let Some(pending) = self.pending.get_mut(&id) else { return };
        pending.clients.retain(|waiting| *waiting != client);
        if pending.clients.is_empty() {
            let at = pending.at;
            self.pending.remove(&id);
            self.by_subject.remove(subject);
            cx.io.post(at, Message(Payload::LookUpNoMore(id)), None);
            self.start(cx);
        }
    }

    /// A login has failed with the answer of an auth_query, so the password may be new: the next attempt on any worker
    /// sends a new request.
    pub(crate) fn distrust<I: Io>(&mut self, cx: &mut Cx<'_, I>, subject: Subject) {
        self.forget(&subject);
        // Otherwise all clients of a database and user are on this worker.
        if cx.common.config().spread != Spread::Never {
            let (database, user) = subject;
            cx.post_to_others(|| Payload::Distrust { database: database.clone(), user: user.clone() });
        }
    }

    /// Drops the answer about one user.
    pub(crate) fn forget(&mut self, subject: &Subject) {
        self.kept.remove(subject);
        self.unknown.remove(subject);
    }

    /// Drops all answers, after a reload.
    pub(crate) fn forget_all(&mut self) {
        (self.kept, self.unknown) = (HashMap::new(), HashMap::new());
    }
}
